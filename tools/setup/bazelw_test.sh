#!/bin/bash
# bazelw on machines where something is missing or goes wrong. The machine is
# played by stubs on PATH; what bazelw says and does about it is real.
set -u

repository=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d "${TEST_TMPDIR:-/tmp}/bazelw.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
failures=0

# machine starts a new case: a healthy Debian machine without Bazel, seen as root.
# The tools that matter are stubs; the others are the real ones.
machine() {
    name=$1
    box=$scratch/$name
    mkdir -p "$box/bin" "$box/work"
    for tool in awk basename bash cat cp cut date dirname flock grep head ls mkdir mktemp mv \
        paste printf readlink rm sed sh sha256sum sleep sort tail tee touch tr true; do
        ln -s "$(type -P $tool)" "$box/bin/$tool"
    done
    stub id 'echo 0'
    stub uname 'echo x86_64'
    stub df 'printf "Filesystem 1M-blocks Used Available Use%% Mounted\n/dev/x 100000 1 90000 1%% /\n"'
    stub apt-get ':'
    stub apt-config ':'
    # mmdebstrap ... SUITE DIR: a root with a marker in it.
    stub mmdebstrap 'echo run >>"$BOX/mmdebstrap.runs"; for a in "$@"; do case $a in *.tmp) touch "$a/made";; esac; done'
    # unshare -m CMD...: the mounts cannot be had in a test, so a script for
    # inside is not run, only its command is shown.
    stub unshare 'shift
case $1 in
sh) for last; do :; done; echo "inside: $last" ;;
*) exec "$@" ;;
esac'
}

# stub NAME SCRIPT
stub() {
    rm -f "$box/bin/$1"
    printf '#!/bin/sh\nBOX=%s\n%s\n' "$box" "$2" >"$box/bin/$1"
    chmod +x "$box/bin/$1"
}

missing() { rm -f "$box/bin/$1"; }

bazelw() {
    env -i PATH="$box/bin" HOME="$box" RULES_TASTING_CACHE="$box/cache" ${extra_env:-} \
        "$repository/bazelw" "$@" >"$box/out" 2>&1
    status=$?
}

# want STATUS TEXT...: the exit code, and what the output has to contain.
want() {
    local ok=1 text
    [ "$status" = "$1" ] || { ok=0; echo "FAIL $name: exit code $status, want $1"; }
    shift
    for text; do
        grep -qF -- "$text" "$box/out" || { ok=0; echo "FAIL $name: output lacks: $text"; }
    done
    if [ $ok = 0 ]; then
        sed 's/^/    /' "$box/out"
        failures=$((failures + 1))
    else
        echo "ok   $name"
    fi
}

# check WHAT CMD...
check() {
    local what=$1
    shift
    "$@" && return
    echo "FAIL $name: $what"
    failures=$((failures + 1))
}

no_root_dir() { ! ls -d "$box"/cache/root-*[0-9a-f] >/dev/null 2>&1; }
runs() { wc -l <"$box/mmdebstrap.runs"; }

machine own-bazel
stub bazel '[ "$1" = --version ] && { echo "bazel 8.1.0"; exit; }; echo "own bazel: $* cache=$RULES_TASTING_CACHE"; exit 42'
stub clang :
bazelw test //...
want 42 "own bazel: test //... cache=$box/cache"

machine own-bazel-exec
stub bazel 'echo "bazel 7.0.0"'
stub clang :
bazelw --exec printf '%s|' a 'b c'
want 0 'a|b c|'

machine own-bazelisk
stub bazelisk 'echo "own bazelisk: $*"'
stub clang :
bazelw build //x
want 0 'own bazelisk: build //x'

machine bazel-too-old
stub bazel 'echo "bazel 4.2.3"'
stub clang :
bazelw test //...
want 0 'inside: //...'

machine bazel-without-clang
stub bazel 'echo "bazel 8.1.0"'
bazelw test //...
want 0 'inside: //...'

machine first-run
bazelw test //...
want 0 'setting up Bazel, clang and Go' 'copying Bazel modules' 'inside: //...'
check 'the root was not kept' test -e "$box"/cache/root-*[0-9a-f]/made
bazelw test //...
want 0 'inside: //...'
check 'the root was made twice' test "$(runs)" = 1

machine not-root
stub id 'echo 1000'
bazelw test //...
want 1 'needs root rights' 'sudo ./bazelw' 'install Bazel 7'

machine other-architecture
stub uname 'echo sparc64'
bazelw test //...
want 1 'processor architecture, sparc64' 'install Bazel 7'

machine not-debian
missing apt-get
bazelw test //...
want 1 'not a Debian-family machine' 'install Bazel 7'

machine little-disk-space
stub df 'printf "Filesystem 1M-blocks Used Available Use%% Mounted\n/dev/x 100000 1 500 1%% /\n"'
bazelw test //...
want 1 'not enough disk space' '500 MB free, 4096 MB needed' 'RULES_TASTING_CACHE'
check 'something was downloaded' test ! -e "$box/mmdebstrap.runs"

machine disk-fills-up
stub mmdebstrap 'echo "dpkg: error: cannot write: No space left on device"; exit 25'
bazelw test //...
want 1 'the disk is full' 'RULES_TASTING_CACHE'
check 'an incomplete root was kept' no_root_dir

machine mirror-unreachable
stub mmdebstrap 'echo "E: Failed to fetch x: Could not connect to mirror"; exit 25'
bazelw test //...
want 1 'no Debian mirror can be reached' 'proxy'
check 'an incomplete root was kept' no_root_dir

machine mmdebstrap-fails-otherwise
stub mmdebstrap 'echo "E: something odd"; exit 25'
bazelw test //...
want 1 'setting up' 'failed' 'Details: ' 'Run the command again' 'install Bazel 7'
check 'the log lacks the reason' grep -q 'something odd' "$box"/cache/*.log

machine no-mmdebstrap
missing mmdebstrap
stub apt-get 'echo "apt-get $*"; printf "#!/bin/sh\nfor a; do case \$a in *.tmp) touch \$a/made;; esac; done\n" >"$BOX/bin/mmdebstrap"; chmod 755 "$BOX/bin/mmdebstrap"'
stub chmod "exec $(type -P chmod) \"\$@\""
bazelw test //...
want 0 'installing mmdebstrap' 'inside: //...'

machine no-mmdebstrap-no-network
missing mmdebstrap
stub apt-get 'echo "Err: Temporary failure resolving mirror"; exit 100'
bazelw test //...
want 1 'cannot install mmdebstrap' 'no Debian mirror can be reached'

machine interrupted
stub mmdebstrap 'for a in "$@"; do case $a in *.tmp) touch "$a/half";; esac; done; kill -9 $PPID; exit 1'
bazelw test //...
check 'an interrupted root counts as complete' no_root_dir
stub mmdebstrap 'for a in "$@"; do case $a in *.tmp) [ ! -e "$a/half" ] || exit 9; touch "$a/made";; esac; done'
bazelw test //...
want 0 'inside: //...'

machine two-at-once
# The first one sets up until the second one waits for it, or sets up as well.
stub mmdebstrap 'echo run >>"$BOX/mmdebstrap.runs"
until grep -q "waiting for it" "$BOX/out2" || [ "$(grep -c run "$BOX/mmdebstrap.runs")" -gt 1 ]; do sleep 0.1; done
for a in "$@"; do case $a in *.tmp) touch "$a/made";; esac; done'
: >"$box/out2"
bazelw test //... &
first=$!
until [ -e "$box/mmdebstrap.runs" ] || ! kill -0 $first; do sleep 0.1; done
status=0
env -i PATH="$box/bin" HOME="$box" RULES_TASTING_CACHE="$box/cache" "$repository/bazelw" build //b >"$box/out2" 2>&1 || status=$?
wait $first
cp "$box/out2" "$box/out"
want 0 'waiting for it' 'inside: //b'
check 'the root was made twice' test "$(runs)" = 1

machine no-mount-namespaces
stub unshare 'case $2 in true) exit 1;; esac; shift; exec "$@"'
bazelw test //...
want 1 'mount namespaces are not permitted' 'SYS_ADMIN' 'install Bazel 7'

machine modules-fail
stub unshare 'shift
case $1 in
sh) for last; do case $last in *modules.sh) exit 1 ;; esac; done; echo "inside: $last" ;;
*) exec "$@" ;;
esac'
bazelw test //...
want 1 'modules could not be copied' 'Go module proxy' 'The root is complete'
check 'incomplete modules were kept' eval '! ls -d "$box"/cache/modules-*[0-9a-f] >/dev/null 2>&1'

machine exec-without-command
bazelw --exec
want 2 '--exec needs a command'

machine help
bazelw --help-bazelw
want 0 './bazelw --exec CMD' 'RULES_TASTING_CACHE'

echo
if [ $failures -gt 0 ]; then
    echo "$failures failed"
    exit 1
fi
echo "all passed"
