#!/bin/sh
# Fails if a proof isn't whole: check.sh DIR FILE... DIR has the compiled files. Prints what each theorem rests on.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
out=$1
shift

fail() {
    echo "check.sh: $1" >&2
    exit 1
}

# Nothing may be assumed. Words in comments don't count.
for file in "$@"; do
    perl -0pe '1 while s/\(\*(?:(?!\(\*|\*\)).)*\*\)//gs' "$here/$file" |
        grep -nwE 'Admitted|admit|give_up|Axioms?|Parameters?|Conjecture|Abort|bypass_check|Unset|Set Guard|type_in_type' &&
        fail "$file assumes or skips something"
done
lines=$(cd "$here" && cat "$@" | wc -l)
[ "$lines" -le 1500 ] || fail "$lines lines are more than 1,500"

cd "$out"
cat >Check.v <<'V'
From Tasting Require Import Graph Walk Machine Safety Selection Printed.
V
theorems=$(cd "$here" && sed -n 's/^Theorem \([a-z_]*\).*/\1/p' "$@")
for theorem in $theorems; do
    echo "Check $theorem. Print Assumptions $theorem." >>Check.v
done
"$here/rocq.sh" rocq c -Q . Tasting Check.v >check.log || fail "the theorems can't be printed"
cat check.log
[ "$(grep -c '^Closed under the global context$' check.log)" = "$(echo "$theorems" | wc -w)" ] || fail "a theorem rests on an axiom"

# Rocq's own checker reads the compiled files without the compiler.
"$here/rocq.sh" rocqchk -silent -o -Q . Tasting Tasting.Printed >checker.log 2>&1 || { cat checker.log; fail "rocqchk refuses the files"; }
cat checker.log
grep -q '^\* Axioms: <none>' checker.log || fail "rocqchk found an axiom"
echo "$(echo "$theorems" | wc -w) theorems in $lines lines rest on no axiom"
