#!/bin/sh
# Runs a command where Rocq and OCaml are: rocq.sh CMD [ARG]...
#
# A machine with rocq and ocamlopt on PATH uses these. Otherwise this fetches Debian's packages with apt, once (114 MB), and
# extracts them into a directory of the cache. Nothing is installed: no other command sees them, and the directory may be
# deleted at any time. ./bazelw --exec proofs/rocq.sh CMD does that in the root of tools/setup, whose suite has Rocq 9.
set -eu

if command -v rocq >/dev/null && command -v ocamlopt >/dev/null; then
    exec "$@"
fi

packages="coq libcoq-core libcoq-core-ocaml libcoq-stdlib libfindlib-ocaml libstdlib-ocaml libstdlib-ocaml-dev libzarith-ocaml ocaml ocaml-base"
cache=${RULES_TASTING_CACHE:-${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/rules_tasting}
suite=$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-none}" || echo none)
dir=$cache/rocq-$(echo "$suite $packages" | sha256sum | cut -c 1-16)

fail() {
    echo "rocq.sh: $1" >&2
    shift
    for line in "$@"; do echo "  $line" >&2; done
    exit 1
}

# fetch puts the packages into $dir, which exists only when it is complete.
fetch() {
    command -v apt-get >/dev/null || fail "neither rocq nor apt-get is on PATH" "Install Rocq 9 and OCaml, or run ./bazelw --exec $0 on Debian."
    echo "rocq.sh: fetching Rocq into $dir (once, 114 MB)" >&2
    rm -rf "$dir.tmp"
    mkdir -p "$dir.tmp/lists/partial" "$dir.tmp/debs/partial"
    cd "$dir.tmp/debs"
    set -- -qq -o "Dir::State::lists=$dir.tmp/lists" -o "Dir::Cache=$dir.tmp" -o Debug::NoLocking=1 -o APT::Sandbox::User=root -o Acquire::Retries=3
    apt-get "$@" update && apt-get "$@" download $packages ||
        fail "the packages could not be fetched" "Is there a network? Rocq 9 is in Debian from release 14 (forky) on."
    for deb in *.deb; do dpkg-deb -x "$deb" "$dir.tmp/root"; done
    cd /
    rm -rf "$dir.tmp/root/usr/share"
    mv "$dir.tmp/root" "$dir"
    rm -rf "$dir.tmp"
}

if [ ! -d "$dir" ]; then
    mkdir -p "$cache"
    (
        flock 9
        [ -d "$dir" ] || fetch
    ) 9>"$dir.lock"
fi

libraries=$(echo "$dir"/usr/lib/*/ocaml/*.*)
printf 'path="%s"\ndestdir="%s"\n' "$libraries" "$libraries" >"$dir/findlib.conf.$$"
mv "$dir/findlib.conf.$$" "$dir/findlib.conf"
export PATH="$dir/usr/bin:$PATH" OCAMLLIB="$libraries" OCAMLPATH="$libraries" OCAMLFIND_CONF="$dir/findlib.conf" ROCQLIB="$libraries/coq"
exec "$@"
