#!/bin/sh
# Runs a command in the fallback root, which is set up first if need be:
# enter.sh CMD [ARG]... Called by bazelw.
set -eu
setup=$(cd "$(dirname "$0")" && pwd -P)
repository=$(cd "$setup/../.." && pwd -P)
. "$setup/lib.sh"

cache=$RULES_TASTING_CACHE
root=$cache/root-$(grep -v '^#' "$setup/packages.txt" | key_of)
# The modules differ with the dependencies in MODULE.bazel, so between checkouts:
# they are kept beside the root and mounted into it.
modules=$cache/modules-$({
    basename "$root"
    cat "$setup/modules.sh"
    grep 'version = ' "$repository/MODULE.bazel"
} | key_of)

[ "$(id -u)" = 0 ] || fail "this machine has no Bazel 7 and clang, and entering a root file system that has needs root rights" \
    "Run it as root, for example: sudo ./bazelw ..." "$own_tools"
[ -d "$root" ] || "$setup/root.sh" "$root"
unshare -m true 2>/dev/null || fail "mount namespaces are not permitted here (a container without CAP_SYS_ADMIN?)" \
    "Start the container with that capability, in Docker: --cap-add SYS_ADMIN --security-opt apparmor=unconfined" "$own_tools"

# The machine's Go, if it is as new as go.mod wants; the root has one, too.
go_root=
if command -v go >/dev/null; then
    wanted=$(sed -n 's/^go //p' "$repository/go.mod")
    have=$(cd / && go env GOVERSION | sed 's/^go//')
    if [ "$(printf '%s\n' "$wanted" "$have" | sort -V | head -n 1)" = "$wanted" ]; then
        go_root=$(cd / && go env GOROOT)
    fi
fi

# inside MODULES CMD... runs CMD with the directory MODULES as the root's modules.
# The mounts are this process's own: there is nothing to clean up.
inside='
set -eu
root=$1 modules=$2 cache=$3 repository=$4 go_root=$5
shift 5
cwd=$(pwd -P)

# The root becomes a mount, for pivot_root.
mount --rbind "$root" "$root"
for dir in proc dev sys; do mount --rbind "/$dir" "$root/$dir"; done
for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
    [ ! -e "$file" ] || { [ -e "$root$file" ] || : >"$root$file"; mount --bind "$file" "$root$file"; }
done
mount --bind "$modules" "$root/usr/share/rules_tasting"

# share DIR makes a directory of the machine the same inside.
share() {
    mkdir -p "$root$1"
    mount --rbind "$1" "$root$1"
}
is_system() {
    case /${1#/}/ in
    /bin/* | /boot/* | /dev/* | /etc/* | /lib*/* | /proc/* | /run/* | /sbin/* | /sys/* | /usr/* | /var/* | /lost+found/*) return 0 ;;
    esac
    return 1
}
for dir in /*/; do
    dir=${dir%/}
    [ -L "$dir" ] || is_system "$dir" || share "$dir"
done
for dir in /var/tmp "$repository" "$cwd" "$cache" "$HOME" "$go_root"; do
    [ -n "$dir" ] && is_system "$dir" || continue
    case $dir/ in
    /usr/ | /usr/bin/ | /usr/lib/ | /usr/local/ | /usr/share/ | /etc/ | /var/ | /bin/ | /lib/ | /proc/ | /dev/ | /sys/ | /run/) ;;
    *) share "$dir" ;;
    esac
done

PATH=${go_root:+$go_root/bin:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
unset LD_LIBRARY_PATH LD_PRELOAD GOROOT JAVA_HOME CC CXX BAZEL_VERSION USE_BAZEL_VERSION
# pivot_root rather than chroot: a Bazel client replaces a server whose working
# directory, seen from the client, has another name.
mkdir -p "$root/.machine"
cd "$root"
pivot_root . .machine
umount -l /.machine
cd "$cwd"
exec "$@"
'
# root.sh has written to $cache; in a mount namespace it may be a path with links.
cache=$(cd "$cache" && pwd -P)
root=$cache/${root##*/}
modules=$cache/${modules##*/}
HOME=${HOME:-/root}
export HOME

if [ ! -d "$modules" ]; then
    (
        lock "$cache/lock"
        [ ! -d "$modules" ] || exit 0
        note "copying Bazel modules"
        rm -rf "$modules.tmp"
        mkdir "$modules.tmp"
        cd "$repository"
        unshare -m sh -c "$inside" sh "$root" "$modules.tmp" "$cache" "$repository" "$go_root" \
            tools/setup/modules.sh /usr/share/rules_tasting "${modules##*/}" >&2 9>&- ||
            fail "the Bazel modules could not be copied (see above)" \
                "They come from the Go module proxy: is it reachable? go env GOPROXY says which." \
                "The root is complete: run the command again." "$own_tools"
        mv "$modules.tmp" "$modules"
    )
fi
exec unshare -m sh -c "$inside" sh "$root" "$modules" "$cache" "$repository" "$go_root" "$@"
