# Sourced by scripts of examples, with $here set to their directory: sets the scene for Bazel in a scratch workspace with
# the example's files, the rules of this checkout, and an analyzer that is built. Leaves the caller there, with
#
#   $tasting  the program: TASTING, or tasting in PATH
#   $scratch  a directory, which is removed in the end: below $parent, or TMPDIR
#
# Bazel's output base is to be $scratch/out.
rules=$(CDPATH='' cd -- "$here/../.." && pwd -P)
tasting=$(command -v "${TASTING:-tasting}") || {
    echo "$0: no tasting in PATH: build it, or name it with TASTING=PATH" >&2
    exit 2
}
scratch=$(mktemp -d "${parent:-${TMPDIR:-/tmp}}/example-XXXXXX")
trap 'cd /; (cd "$scratch/w" && bazel --output_base="$scratch/out" shutdown >/dev/null 2>&1); chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT

mkdir "$scratch/w"
cd "$here"
for f in *.c *.cc *.h *.bazel; do
    [ ! -e "$f" ] || cp "$f" "$scratch/w"
done
cd "$scratch/w"
sed -i "s|path = \"../..\"|path = \"$rules\"|" MODULE.bazel
mkdir prebuilt
cp "$tasting" prebuilt/tasting
cat >prebuilt/BUILD.bazel <<END_OF_FILE
load("@rules_tasting//rules:defs.bzl", "tasting_toolchain")

tasting_toolchain(
    name = "prebuilt",
    analyzer = "tasting",
    clang = "$(command -v "${TASTING_CLANG:-clang}")",
)

toolchain(
    name = "toolchain",
    toolchain = ":prebuilt",
    toolchain_type = "@rules_tasting//rules:toolchain_type",
)
END_OF_FILE
echo 'register_toolchains("//prebuilt:all")' >>MODULE.bazel
