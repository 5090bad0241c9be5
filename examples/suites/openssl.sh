#!/bin/sh
# Makes a checkout of OpenSSL 1.1.1 a Bazel workspace: for tasting evaluate.
#
#   tasting evaluate --prepare="/path/to/examples/suites/openssl.sh [ANALYZER]" ...
#
# It runs in the checkout. ANALYZER is a built `tasting` program; without it Bazel builds one from
# source. Neither can be below /tmp. CC is the compiler, gcc if it isn't set.
#
# Configured as the project does by default, but without shared libraries: Bazel makes those of its
# own, and make's would need a script of versions. What is generated is generated here.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
analyzer=${1:-}
. "$here/lib.sh"
outside_tmp "$here" "${analyzer:-$here}"
[ -e crypto/cryptlib.c ] && [ -e Configure ] || {
    echo "openssl.sh: this is no checkout of OpenSSL: run it in one" >&2
    exit 2
}
# The date of the build is in the library. OpenSSL takes 0 for none. The order of Perl's hashes is in files that it makes.
export CC="${CC:-gcc}" SOURCE_DATE_EPOCH=1 PERL_HASH_SEED=0 LC_ALL=C

rm -f Makefile configdata.pm
perl ./Configure linux-x86_64 no-shared >configure.log 2>&1 || {
    cat configure.log >&2
    exit 1
}
# make compares times: what an earlier commit has left behind may be younger than its source.
generated=$(sed -n 's/^GENERATED\(_MANDATORY\)\{0,1\}=//p' Makefile)
rm -f $generated
make -s $generated

{
    echo 'module(name = "openssl")'
    echo 'bazel_dep(name = "rules_cc")'
    echo 'bazel_dep(name = "rules_tasting")'
    echo "local_path_override(module_name = \"rules_tasting\", path = \"${here%/*/*}\")"
    [ -z "$analyzer" ] || echo 'register_toolchains("//tasting_suite:prebuilt_toolchain")'
} | put MODULE.bazel
{
    echo 'common --enable_bzlmod --noenable_workspace --lockfile_mode=off'
    # Globs of headers would find those in bazel-bin, and everything would be compiled again.
    echo 'build --experimental_convenience_symlinks=clean'
    echo "build --repo_env=CC=$CC --incompatible_strict_action_env --build_tests_only --features=-parse_headers --copt=-w"
    echo 'test --test_output=errors'
    echo 'try-import %workspace%/user.bazelrc'
} | put .bazelrc
mkdir -p tasting_suite
put tasting_suite/recipe.c <"$here/openssl/recipe.c"
exported='exports_files(["recipe.c"])'
if [ -n "$analyzer" ]; then
    prebuilt tasting_suite "$analyzer"
    echo "$exported" >>tasting_suite/BUILD.bazel
else
    echo "$exported" | put tasting_suite/BUILD.bazel
fi
perl "$here/openssl/build.pl" | put BUILD.bazel
