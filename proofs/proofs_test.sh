#!/bin/sh
# Checks all proofs from nothing, and compares 100,000 programs: proofs_test.sh CANONICAL_TEST, the test of analyzer/verify/canonical.
set -eu
compare=$PWD/$1
out=$TEST_TMPDIR/out
make -C proofs OUT="$out"
"$compare" -test.run=TestProven -test.v -proven="$out/canonical"
