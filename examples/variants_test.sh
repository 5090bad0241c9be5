#!/bin/sh
# The experiments with variants and forks, small: MODULE.bazel and the analyzer
# are the arguments.
set -eu

export TASTING="$PWD/$2" VARIANTS_SCRATCH="$TEST_TMPDIR"
variants=$(dirname "$(readlink -f "$1")")/examples/variants/variants.sh

# expect LINE: the last line of what was printed, without the share.
expect() {
    got=$(tail -n 1 "$TEST_TMPDIR/out")
    cat "$TEST_TMPDIR/out"
    case $got in
    "$1"*) ;;
    *)
        echo "want $1" >&2
        exit 1
        ;;
    esac
}

"$variants" variants 2 >"$TEST_TMPDIR/out"
expect '4 variants, 64 tests, 24 executed: '
"$variants" forks >"$TEST_TMPDIR/out"
expect '14 versions of main and three forks, 224 tests, 22 executed: '
