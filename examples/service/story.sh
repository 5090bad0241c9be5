#!/bin/sh
# The story of a service whose tests are its clients (TestSage): what it executes for each of eight tests is collected
# once, then its handlers are edited, and of each edit is told which tests it can affect.
#
#   story.sh
#
# TASTING is the program (default: tasting in PATH). After each edit all eight tests are run as well: one that ends
# otherwise than before and wasn't selected is an error. Nothing is left behind.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
parent=${STORY_SCRATCH:-}
. "$here/../scratch.sh"

tests="append count delete health increment list missing put"

# build builds service and client, and lists what the service is made of.
build() {
    bazel --output_base="$scratch/out" build -c opt --noenable_workspace --lockfile_mode=off --symlink_prefix="$scratch/b-" \
        --aspects=@rules_tasting//rules:defs.bzl%tasting_aspect --output_groups=+tasting_manifests //:server //:client >"$scratch/log" 2>&1 || {
        cat "$scratch/log" >&2
        exit 1
    }
    find -L "$scratch/b-bin/_tasting/server" "$scratch/b-bin/_tasting/handlers" -name '*.o.manifest' | sort >"$scratch/manifests"
}

# run_all [PREFIX...] starts the service, behind PREFIX, and writes how each test ends: with $interval before it.
run_all() {
    mkfifo "$scratch/in"
    "$@" "$scratch/b-bin/server" <"$scratch/in" >"$scratch/port" &
    exec 3>"$scratch/in"
    until [ -s "$scratch/port" ]; do sleep 0.05; done
    for t in $tests; do
        # shellcheck disable=SC2086 # words
        if ${interval:+$interval $t --} "$scratch/b-bin/client" "$(cat "$scratch/port")" "$t" >>"$scratch/log" 2>&1; then
            echo "$t passed"
        else
            echo "$t failed"
        fi
    done
    exec 3>&-
    wait $! || exit 1
    rm "$scratch/in" "$scratch/port"
}

build
# cpu sets $cpu to the CPU time in ms of all that has been waited for.
cpu() {
    times >"$scratch/times" # of this shell, not of one for a pipe
    cpu=$(sed -n '2s/[ms]/ /gp' "$scratch/times" | awk '{ printf "%d", ($1 * 60 + $2 + $3 * 60 + $4) * 1000 }')
}

# What collecting costs: in one pass, the tests whose outcome counts are those that are collected, one at a time. In two,
# they are run as ever, and once more to collect.
bare=0 traced=0
for _ in 1 2 3; do
    interval=
    cpu && start=$cpu
    run_all >"$scratch/bare"
    cpu && middle=$cpu
    interval="$tasting service interval --at=unix:../socket run"
    run_all "$tasting" service trace --serve="unix:../socket" --intervals="$scratch/table" -- >"$scratch/before"
    cpu && end=$cpu
    bare=$((bare + middle - start)) traced=$((traced + end - middle))
    cmp "$scratch/bare" "$scratch/before" >&2 || exit 1
done
interval=
echo "CPU time of 8 tests and the service: $((bare / 3)) ms; collected in one pass $((traced / 3)) ms, in two $(((bare + traced) / 3)) ms"
"$tasting" service select --dir="$scratch/table" --service=kv --store="$scratch/store" --record "@$scratch/manifests"
if grep -q failed "$scratch/before"; then
    cat "$scratch/before" "$scratch/log" >&2
    exit 1
fi

all=0 edits=0 wrong=0
# edit WHAT WANT SED... makes an edit of the handlers, says which tests are selected, and takes it back. WANT are the
# tests that it affects.
edit() {
    what=$1 want=$2
    shift 2
    cp handlers.cc "$scratch/handlers.cc"
    sed -i "$@" handlers.cc
    if cmp -s handlers.cc "$scratch/handlers.cc"; then
        echo "story.sh: $what: the edit changes nothing" >&2
        exit 1
    fi
    build
    got=$("$tasting" service select --service=kv --store="$scratch/store" --why "@$scratch/manifests" 2>"$scratch/err" | tr '\n' ' ') || {
        cat "$scratch/err" >&2
        exit 1
    }
    n=$(echo "$got" | wc -w)
    run_all >"$scratch/after"
    for t in $(diff "$scratch/before" "$scratch/after" | sed -n 's/^> \([a-z]*\) .*/\1/p'); do
        case " $got" in *" $t "*) ;; *) echo "story.sh: $what: $t was MISSED" >&2 && wrong=1 ;; esac
    done
    mark=
    [ "$got" = "${want:+$want }" ] || {
        cat "$scratch/err" >&2
        mark=" (want: $want)" wrong=1
    }
    printf '%-44s %d of 8: %s%s\n' "$what" "$n" "$got" "$mark"
    all=$((all + n)) edits=$((edits + 1))
    cp "$scratch/handlers.cc" handlers.cc
}

rm -r "$scratch/table" # everybody who knows the store can select

edit "a comment" "" 's|^Response Get|// By its key.\n&|'
edit "Increment adds one more" "increment" 's|Number(value) + Number(request.body)|& + 1|'
edit "what two numbers are, for Increment alone" "increment" 's|return text.empty() ? 0|return text.empty() ? 1|'
edit "the separator of Append, a constant" "append" 's|kSeparator\[\] = ","|kSeparator[] = ";"|'
edit "Delete of what isn't there" "delete" 's|Response{404, "no such key"};|Response{410, "gone"};|'
edit "Get answers otherwise" "missing put" 's|return {200, found->second}|return {203, found->second}|'
edit "Key, which six of them call" "append delete increment list missing put" "s|request.path.rfind('/') + 1|request.path.rfind('/', request.path.size() - 1) + 1|"
edit "the table of routes" "append count delete health increment list missing put" 's|"/health", Health|"/healthz", Health|'
echo "$edits edits, $((8 * edits)) tests, $all selected: $((100 - (100 * all + 4 * edits) / (8 * edits))) % avoided"
exit $wrong
