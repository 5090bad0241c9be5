#!/bin/sh
# Runs a repository's tests in CI, executing only those whose outcome isn't known.
#
#   sh ci/tasting.sh presubmit [TARGET]...   reads results, records none
#   sh ci/tasting.sh fork [TARGET]...        the same for untrusted code, without credentials
#   sh ci/tasting.sh main [TARGET]...        reads and records
#   sh ci/tasting.sh nightly [TARGET]...     executes everything and compares it with what is recorded
#
# TARGETs are Bazel's, by default //... .
#
# Environment:
#   TASTING_STORE   where results are: an absolute directory, https://... or
#                   grpcs://... (docs/how-to/share-a-store.md). Empty: nothing is replayed.
#   TASTING_TOKEN   bearer token for that server, if it wants one. Whether
#                   results can be written must be decided by the server, by the
#                   token: a change under test can edit this file.
#   TASTING_OUT     where results go; default tasting-out in the current directory:
#                   junit.xml, report.html, report.json
#   TASTING_RUNS    directory with what earlier runs did, for the report; keep it
#                   between builds. Default: runs in TASTING_OUT
#   TASTING         how tasting is started; default: bazel run @rules_tasting//rules:tasting
#   TASTING_FLAGS   more flags for Bazel, such as --config=ci
set -eu

kind=${1:-}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- //...

store=${TASTING_STORE:-}
token=${TASTING_TOKEN:-}
# Tests don't need them, and nothing that is started from here may find them.
unset TASTING_STORE TASTING_TOKEN
cached=auto
case $kind in
presubmit) mode=ro audit=0.01 ;;
fork) mode=ro audit=0 token= ;;
main) mode=rw audit=0.01 ;;
nightly) mode=rw audit=1 cached=no ;;
*)
    echo "usage: sh ci/tasting.sh presubmit|fork|main|nightly [TARGET]..." >&2
    exit 2
    ;;
esac
[ -n "$store" ] || mode=off

out=${TASTING_OUT:-tasting-out}
runs=${TASTING_RUNS:-$out/runs}
mkdir -p "$out" "$runs"
out=$(cd "$out" && pwd) # bazel run starts programs elsewhere
runs=$(cd "$runs" && pwd)
tasting=${TASTING:-bazel run --ui_event_filters=-info --noshow_progress @rules_tasting//rules:tasting --}

# The store's flags are read from a file that only this user can read: command
# lines and environments can be seen by others, and end up in logs.
flags=$(mktemp)
trap 'rm -f "$flags"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
chmod 600 "$flags"
if [ -n "$store" ]; then
    printf -- '--store=%s\n' "$store" >>"$flags"
fi
if [ -n "$token" ]; then
    printf -- '--store_header=Authorization=Bearer %s\n' "$token" >>"$flags"
fi

status=0
# $tasting and $TASTING_FLAGS are several words.
# shellcheck disable=SC2086
$tasting test --store_flags="$flags" --store_mode=$mode --audit=$audit --cache_test_results=$cached --why \
    --junit_xml="$out/junit.xml" --runs_dir="$runs" ${TASTING_FLAGS:-} -- "$@" || status=$?

# A report that fails doesn't decide whether a change is good.
# shellcheck disable=SC2086
$tasting report --runs="$runs" -o "$out/report.html" --json="$out/report.json" ||
    echo "tasting.sh: no report" >&2
exit $status
