#!/bin/sh
# Makes a checkout of any recent commit of Abseil, RE2 or LevelDB a workspace that
# builds with what prepare.sh has made: for tasting evaluate.
#
#   tasting evaluate --prepare="/path/to/suites/at-commit.sh $HOME/suites [ANALYZER]" ...
#
# $HOME/suites is the directory of prepare.sh, whose copies of the other modules are
# used. ANALYZER is a built `tasting` program. Neither can be below /tmp.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
suites=$1
analyzer=${2:-}
. "$here/lib.sh"
outside_tmp "$suites" "${analyzer:-$here}"
if [ -e include/leveldb/db.h ]; then
    name=leveldb
else
    name=$(git show HEAD:MODULE.bazel | tr -d '\n' | sed 's/.*module([^)]*name = "\([^"]*\)".*/\1/')
fi

{
    echo "module(name = \"$name\")"
    # What the targets of Abseil and RE2 load.
    for dep in bazel_skylib platforms rules_cc; do
        echo "bazel_dep(name = \"$dep\")"
    done
    for dep in googletest abseil-cpp re2; do
        [ "$dep" != "$name" ] || continue
        # Older commits know it by another name.
        repo=$(git show HEAD:MODULE.bazel 2>/dev/null | sed -n "s/.*name = \"$dep\".*repo_name = \"\([^\"]*\)\".*/\1/p")
        echo "bazel_dep(name = \"$dep\", repo_name = \"${repo:-$dep}\")"
        echo "local_path_override(module_name = \"$dep\", path = \"$suites/${dep%-cpp}\")"
    done
    echo 'bazel_dep(name = "rules_tasting")'
    echo "local_path_override(module_name = \"rules_tasting\", path = \"${here%/*/*}\")"
    if [ -n "$analyzer" ]; then
        echo 'register_toolchains("//tasting_suite:prebuilt_toolchain")'
    fi
} | put MODULE.bazel
sed '/^try-import/d' "$suites/.bazelrc" | put .bazelrc
if [ -n "$analyzer" ]; then
    prebuilt tasting_suite "$analyzer"
fi
[ "$name" != leveldb ] || sed '/"upstream\/\.",/d; s,"upstream/,",' "${here%/*/*}/examples/leveldb/BUILD.bazel" | put BUILD.bazel
# rules_cc before 0.1 doesn't know this compiler.
find . -name BUILD.bazel -exec grep -l 'rules_cc//cc/compiler:emscripten": ' {} + |
    xargs -r sed -i '/rules_cc\/\/cc\/compiler:emscripten": /d'
