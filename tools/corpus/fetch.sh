#!/bin/sh
# Fetches C and C++ sources for checks, examples and benchmarks from the Debian source
# archive that this machine's own apt is configured for.
#
#   fetch.sh NAME DESTDIR            put the sources of NAME (or NAME@UPSTREAM,
#                                    an older pinned version) into DESTDIR
#   fetch.sh --all ROOTDIR           every pinned source, in ROOTDIR/NAME@UPSTREAM
#   fetch.sh --list                  what is pinned
#   fetch.sh --relock PACKAGE [SUITE]
#                                    print the line for corpora.lock of the version
#                                    that SUITE (default: apt's own) has now
#
# Nothing is taken from the suite: an upstream tarball stays in the archive's
# pool for as long as any suite carries that version, so the lock file pins
# pool path and SHA-256, and Debian 12 and testing fetch the same bytes.
# Downloads go through apt's own downloader, hence its mirror, proxy and
# certificates. Tarballs and extracted trees are cached in
# ${TASTING_CORPUS_CACHE:-${XDG_CACHE_HOME:-~/.cache}/rules_tasting/corpus}.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
lock=$here/corpora.lock
cache=${TASTING_CORPUS_CACHE:-${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/rules_tasting/corpus}
helper=/usr/lib/apt/apt-helper

die() {
	echo "corpus/fetch.sh: $*" >&2
	exit 1
}

entries() { grep -v -e '^#' -e '^$' "$lock"; }

# The archives that apt is configured for, whatever the format of its sources.
archives() {
	apt-get update --print-uris 2>/dev/null |
		sed -n "s#^'\(.*\)/dists/.*/InRelease' .*#\1#p" | awk '!seen[$0]++'
}

download() { # path sha256 file
	[ -x $helper ] || die "$helper is missing: run this on Debian or a derivative, or put $(basename "$3") (SHA-256 $2) into $cache yourself"
	tried=
	for base in $(archives); do
		# apt-helper drops privileges to _apt, which cannot write into a cache below /root.
		if $helper -qq -o APT::Sandbox::User=root download-file "$base/$1" "$3.part" "SHA256:$2" 2>"$3.log"; then
			mv "$3.part" "$3"
			rm -f "$3.log"
			return
		fi
		tried="$tried
  $base/$1: $(grep -v '^W:' "$3.log" | tr '\n' ' ')"
	done
	die "cannot fetch $1:${tried:-
  apt has no sources configured}
If the archive no longer carries that version, pin the present one: '$0 --relock PACKAGE' prints the new line for corpora.lock. Or put the file with SHA-256 $2 at $3."
}

fetch() { # name[@upstream] destdir
	line=$(entries | awk -v want="$1" '$1 == want || $1 "@" $2 == want { print; exit }')
	[ -n "$line" ] || die "$1 is not in corpora.lock (see '$0 --list')"
	set -- "$2" $line # destdir name upstream sha256 pool-path
	mkdir -p "$cache"
	tarball=$cache/$(basename "$5")
	tree=$cache/$2@$3-$(echo "$4" | cut -c1-12)
	if [ ! -d "$tree" ]; then
		[ -f "$tarball" ] || download "$5" "$4" "$tarball"
		echo "$4  $tarball" | sha256sum --check --status || die "$tarball does not have the pinned SHA-256 $4: delete it and retry"
		tmp=$(mktemp -d "$cache/.extract-XXXXXX")
		tar -xf "$tarball" -C "$tmp" --strip-components=1 --no-same-owner
		chmod -R u+w "$tmp"
		# Another process may have been faster: then its tree is as good.
		mv -T "$tmp" "$tree" 2>/dev/null || rm -rf "$tmp"
	fi
	mkdir -p "$1"
	cp -R "$tree/." "$1/"
}

relock() { # package [suite]
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	mkdir -p "$tmp/lists/partial" "$tmp/empty"
	apt-get update --print-uris 2>/dev/null |
		sed -n "s#^'\(.*\)/dists/\(.*\)/InRelease' .*#\1 \2#p" |
		while read -r base suite; do
			[ -z "${2:-}" ] || suite=$2
			# Third-party archives rarely have sources: main archives only.
			case $base in */debian) echo "deb-src $base $suite main" ;; esac
		done | awk '!seen[$0]++' >"$tmp/sources.list"
	set -- "$1" -o Dir::Etc::sourcelist="$tmp/sources.list" -o Dir::Etc::sourceparts="$tmp/empty" \
		-o Dir::State::lists="$tmp/lists" -o Dir::Cache="$tmp" -o APT::Sandbox::User=root -o Acquire::Check-Valid-Until=false
	pkg=$1
	shift
	apt-get -qq "$@" update
	apt-get -qq "$@" source --print-uris --only-source --download-only "$pkg" |
		sed -n "s#^'[^']*/\(pool/[^']*/\([^/_']*\)_\([^/']*\)\.orig\.tar\.[a-z0-9]*\)' .* SHA256:\([0-9a-f]*\)\$#\2 \3 \4 \1#p"
}

case ${1:-} in
--list) entries | awk '{ print $1 "@" $2 }' ;;
--all)
	[ $# -eq 2 ] || die "usage: fetch.sh --all ROOTDIR"
	for e in $(entries | awk '{ print $1 "@" $2 }'); do
		[ -d "$2/$e" ] || fetch "$e" "$2/$e"
	done
	;;
--relock)
	[ $# -ge 2 ] || die "usage: fetch.sh --relock PACKAGE [SUITE]"
	shift
	relock "$@"
	;;
-* | '') sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 2 ;;
*)
	[ $# -eq 2 ] || die "usage: fetch.sh NAME DESTDIR"
	fetch "$1" "$2"
	;;
esac
