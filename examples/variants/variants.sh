#!/bin/sh
# What tests of one library cost in many variants of it (TASTING, section 4.6) and
# on many branches and forks (section 4.5), with `tasting test`:
#
#   variants.sh variants [SETTINGS]   all on/off combinations of the first SETTINGS (6)
#   variants.sh forks                 a project, its branches and forks
#
# TASTING is the program (default: tasting in PATH), FLAGS are further flags for
# it. Nothing is left behind: workspace, store and Bazel's outputs are temporary.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
parent=${VARIANTS_SCRATCH:-}
. "$here/../scratch.sh"

tests=0 executed=0 versions=0
# run NAME FLAG... tests one version of the library.
run() {
    name=$1
    shift
    # shellcheck disable=SC2086 # FLAGS are words
    "$tasting" test --bazel_startup=--output_base="$scratch/out" --store="$scratch/store" --runs_dir="$scratch/runs" --audit=0 \
        --noenable_workspace --lockfile_mode=off --symlink_prefix=/ ${FLAGS:-} "$@" //... >"$scratch/log" 2>&1 || {
        cat "$scratch/log"
        exit 1
    }
    line=$(sed -n 's/^Executed \([0-9]*\) out of \([0-9]*\) tests.*/\1 \2/p' "$scratch/log" | tail -1)
    n=${line% *} m=${line#* }
    printf '%-40s executed %3d of %d\n' "$name" "$n" "$m"
    executed=$((executed + n)) tests=$((tests + m)) versions=$((versions + 1))
}

total() {
    echo "$versions $1, $tests tests, $executed executed: $((100 - (100 * executed + tests / 2) / tests)) % avoided"
}

variants() {
    i=0
    while [ $i -lt $((1 << $1)) ]; do
        n=0 name='' flags=''
        for setting in checksum compact journal limits stats verify; do
            [ $n -lt "$1" ] || break
            if [ $((i >> n & 1)) = 1 ]; then
                flags="$flags --define=$setting=on" name="$name $setting"
            fi
            n=$((n + 1))
        done
        # shellcheck disable=SC2086
        run "${name:- none}" $flags
        i=$((i + 1))
    done
    total variants
}

# edit FILE OLD NEW
edit() {
    grep -q "$2" "$1" || {
        echo "variants.sh: $1 has no $2" >&2
        exit 1
    }
    sed -i "s|$2|$3|" "$1"
}

forks() {
    git init -q
    git config user.name variants
    git config user.email variants@example.com
    printf 'prebuilt\n' >.gitignore
    commit() {
        git add -A
        git commit -qm "$1"
        run "$(git symbolic-ref --short HEAD): $1"
    }
    git checkout -qb main
    commit 'first version'
    edit encode.c 'if (room < 2 \* length + 1)' 'if (room < length + length + 1)'
    commit 'hex: another way to say it'
    edit store.h '// A store of keys' '// The store of keys'
    commit 'a comment in the header of all'

    # A fork with a feature of its own, which then takes what is new upstream.
    git checkout -qb fork-a main
    edit journal.c 'entries++ % 32' 'entries++ % 31'
    commit 'a shorter journal'
    edit encode.c 'out\[n++\] = e->length;' 'out[n] = e->length; n++;'
    commit 'encode: plainer'
    git checkout -q main
    edit compact.c 'if (i != to)' 'if (to != i)'
    commit 'compact: the other way round'
    edit store.c 'if (n < 0) return -1;$' 'if (n == -1) return -1;'
    commit 'store: a clearer condition'
    git checkout -q fork-a
    git merge -q -m merge main
    run 'fork-a: upstream merged'

    # Another one takes the same commits, one after the other, later.
    git checkout -qb fork-b main~4
    run 'fork-b: an old version'
    git cherry-pick main~1 >/dev/null
    run 'fork-b: one commit from upstream'
    git cherry-pick main~0 >/dev/null
    run 'fork-b: and another'
    git revert --no-edit HEAD >/dev/null
    run 'fork-b: reverted'

    # A third one formats everything, and renames a static function.
    git checkout -qb fork-c main
    sed -i 's/    /\t/g' ./*.c
    sed -i 's/\bslot\b/find_slot/g' store.c
    commit 'another style'
    edit hash.c '16777619u' '16777619U'
    commit 'suffixes'
    total 'versions of main and three forks'
}

case ${1:-} in
variants) variants "${2:-6}" ;;
forks) forks ;;
*)
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0"
    exit 2
    ;;
esac
