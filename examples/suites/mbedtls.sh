#!/bin/sh
# Makes a checkout of Mbed TLS 2.28 a Bazel workspace with a cc_test for each of its test suites:
# for tasting evaluate.
#
#   tasting evaluate --prepare="/path/to/examples/suites/mbedtls.sh ANALYZER" ...
#   examples/suites/mbedtls.sh --variants OPTION...
#
# It runs in the checkout. ANALYZER is a built `tasting` program, not below /tmp. CC is the
# compiler, clang if it isn't set. --variants makes a branch of that name whose commits are all
# combinations of OPTIONs of config.h, which are off in the first.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
. "$here/lib.sh"
[ "${1:-}" = --variants ] || outside_tmp "$here" "${1:?name a built tasting program, or --variants and options}"
[ -e tests/suites/main_test.function ] || {
    echo "mbedtls.sh: this is no checkout of Mbed TLS: run it in one" >&2
    exit 2
}

if [ "${1:-}" = --variants ]; then
    shift
    git checkout --quiet -B variants
    n=0
    while [ $n -lt $((1 << $#)) ]; do
        name= bit=1
        for option; do
            if [ $((n & bit)) -eq 0 ]; then
                python3 scripts/config.py unset "$option"
            else
                python3 scripts/config.py set "$option"
                name="$name $option"
            fi
            bit=$((bit * 2))
        done
        git commit --quiet --all --allow-empty -m "variant $n:$name"
        n=$((n + 1))
    done
    exit
fi

analyzer=$1
export CC="${CC:-clang}"

# Suites read data_files/ in their directory.
ln -sfn tests/data_files data_files
mkdir -p suites
shared="tests/scripts/generate_test_code.py tests/suites/main_test.function tests/suites/host_test.function tests/suites/helpers.function"
for data in tests/suites/*.data; do
    suite=$(basename "$data" .data)
    functions=tests/suites/${suite%%.*}.function
    if [ ! -e "suites/$suite.datax" ] || [ -n "$(find $shared "$functions" "$data" -newer "suites/$suite.datax")" ]; then
        python3 tests/scripts/generate_test_code.py -f "$functions" -d "$data" -t tests/suites/main_test.function \
            -p tests/suites/host_test.function -s tests/suites --helpers-file tests/suites/helpers.function -o suites
    fi
done

put MODULE.bazel <<END
module(name = "mbedtls")
bazel_dep(name = "rules_cc")
bazel_dep(name = "rules_tasting")
local_path_override(module_name = "rules_tasting", path = "${here%/*/*}")
register_toolchains("//tasting_suite:prebuilt_toolchain")
END
put .bazelrc <<END
common --enable_bzlmod --noenable_workspace --lockfile_mode=off
build --repo_env=CC=$CC --incompatible_strict_action_env --build_tests_only --copt=-w
test --test_output=errors
END
prebuilt tasting_suite "$analyzer"
put BUILD.bazel <<END
load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

COPTS = ["-I" + dir for dir in ["include", "library", "tests/include", "tests", "3rdparty/everest/include", "3rdparty/everest/include/everest", "3rdparty/everest/include/everest/kremlib"]] + ["-O2", "-D_FILE_OFFSET_BITS=64", "-D_POSIX_C_SOURCE=200809L"]

cc_library(name = "headers", hdrs = glob(["include/**/*.h", "library/*.h", "tests/**/*.h", "3rdparty/**/*.h"]), textual_hdrs = glob(["3rdparty/everest/library/**/*.c"]))

cc_library(name = "mbedtls", srcs = glob(["library/*.c"]) + ["3rdparty/everest/library/" + f for f in ["everest.c", "x25519.c", "Hacl_Curve25519_joined.c"]], copts = COPTS, deps = [":headers"])

cc_library(name = "helpers", testonly = True, srcs = glob(["tests/src/*.c", "tests/src/drivers/*.c", "tests/src/test_helpers/*.c"]), copts = COPTS, deps = [":mbedtls"])

[cc_test(
    name = source[len("suites/"):-len(".c")],
    size = "medium",
    srcs = [source],
    args = [source[:-1] + "datax"],
    copts = COPTS,
    data = [source[:-1] + "datax"] + glob(["data_files/**"], exclude = ["**/Makefile", "**/*.pl"]),
    linkstatic = True,
    deps = [":helpers"],
) for source in glob(["suites/*.c"])]
END
