#!/bin/sh
# Makes the fallback root: root.sh DIR. Whatever is left of an interrupted
# attempt is used or removed; DIR exists only when it is complete. Packages that
# were downloaded are kept until then, so that another attempt is cheap.
set -eu
setup=$(cd "$(dirname "$0")" && pwd -P)
. "$setup/lib.sh"

root=$1
cache=$(dirname "$root")
need_mb=4096

[ "$(id -u)" = 0 ] || fail "setting up a root file system needs root rights" \
    "Run it as root, for example: sudo $0 $root" "$own_tools"
case $(uname -m) in
x86_64 | aarch64) ;;
*) fail "Debian has no Bazel for this processor architecture, $(uname -m)" "$own_tools" ;;
esac
command -v apt-get >/dev/null || fail "this is not a Debian-family machine: there is no apt-get" "$own_tools"

mkdir -p "$cache" || fail "cannot create $cache" "Name another directory in RULES_TASTING_CACHE."
lock "$cache/lock"
[ ! -d "$root" ] || exit 0

free_mb=$(df -Pm "$cache" | awk 'NR == 2 { print $4 }')
[ "$free_mb" -ge "$need_mb" ] || fail "not enough disk space in $cache: $free_mb MB free, $need_mb MB needed" \
    "Free some, or name another directory in RULES_TASTING_CACHE."

log=$root.log
building=$root.tmp
debs=$root.debs

# diagnose WHAT says why the step that wrote the log failed, as far as one can tell.
diagnose() {
    if grep -qi 'no space left' "$log"; then
        fail "$1: the disk is full ($cache)" \
            "Free some space or name another directory in RULES_TASTING_CACHE, and run the command again."
    elif grep -qiE 'could not resolve|temporary failure|(could not|unable to|failed to|cannot) connect|connection (failed|refused|timed out|reset)|failed to fetch|no route|network is unreachable' "$log"; then
        fail "$1: no Debian mirror can be reached" \
            "Is there a network? If a proxy is needed, set Acquire::http::Proxy for apt, or http_proxy." \
            "Downloads are kept: run the command again. Details: $log" "$own_tools"
    fi
    fail "$1" "Details: $log. Run the command again: what was downloaded is kept." "$own_tools"
}

# logged WHAT CMD... runs CMD with its output on standard error and in the log.
logged() {
    what=$1
    shift
    rm -f "$log.done"
    { "$@" 2>&1 && : >"$log.done"; } | tee "$log" >&2
    [ -e "$log.done" ] || diagnose "$what"
    rm -f "$log.done"
}

install_mmdebstrap() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -qq -y --no-install-recommends mmdebstrap debian-archive-keyring ||
        { apt-get update -qq && apt-get install -qq -y --no-install-recommends mmdebstrap debian-archive-keyring; }
}

# own_mirror prints the mirror this machine uses, if it is a Debian mirror.
# Nothing: mmdebstrap takes its default.
own_mirror() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' \
        "Codename: $(. /etc/os-release && echo "${VERSION_CODENAME:-}")" 'Origin: Debian' 2>/dev/null | head -n 1
}

make_root() {
    suite=$(sed -n 's/^suite=//p' "$setup/packages.txt")
    packages=$(grep -v '^#\|=' "$setup/packages.txt" | paste -sd, -)
    set -- --variant=apt --include="$packages"
    # A mirror may lag behind: its index may have expired, it is signed all the same.
    set -- "$@" --aptopt='Acquire::Check-Valid-Until "false"'
    # Without this apt asks the mirror forever when the network is gone.
    set -- "$@" --aptopt='Acquire::Retries "3"' --aptopt='Acquire::http::Timeout "30"'
    proxy=$(apt-config dump | sed -n 's/^\(Acquire::https\{0,1\}::Proxy "..*"\);$/\1/p')
    while IFS= read -r line; do
        [ -z "$line" ] || set -- "$@" --aptopt="$line"
    done <<PROXY
$proxy
PROXY
    # Downloads go to a directory of their own, which outlives a failure. Of
    # Debian's bazelrc two lines go: one keeps all sandboxes, one makes Bazel warn.
    mkdir -p "$debs/partial"
    set -- "$@" --skip=essential/unlink --skip=cleanup/apt/cache \
        --setup-hook="mkdir -p \"\$1/var/cache/apt/archives\" && mount --bind '$debs' \"\$1/var/cache/apt/archives\"" \
        --customize-hook='umount "$1/var/cache/apt/archives"' \
        --customize-hook='printf "import /usr/share/rules_tasting/bazelrc\n" >"$1/etc/bazel.bazelrc"' \
        --customize-hook='sed -i "/--sandbox_debug/d; /--host_javabase/d" "$1/etc/bazel/bazelrc"' \
        --customize-hook='mkdir -p "$1/usr/share/rules_tasting" && touch "$1/etc/resolv.conf"'
    # In a mount namespace of its own, which takes the mounts along even if killed.
    TMPDIR=/tmp unshare -m mmdebstrap "$@" "$suite" "$building" $(own_mirror)
}

if ! command -v mmdebstrap >/dev/null; then
    note "installing mmdebstrap"
    logged "cannot install mmdebstrap" install_mmdebstrap
fi
note "setting up Bazel, clang and Go in $root (once; about a minute, 2 GB)"
rm -rf --one-file-system "$building"
mkdir -p "$building"
logged "setting up $root failed" make_root
rm -rf "$debs"
mv "$building" "$root"
note "the root is complete"
