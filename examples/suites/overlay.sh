#!/bin/sh
# Makes a checkout of any commit of some projects that have no BUILD files a
# workspace: for tasting evaluate, and for tasting check history, defects and generated.
#
#   tasting check defects --prepare='/path/to/suites/overlay.sh NAME ANALYZER' ...
#
# NAME is one of those below. ANALYZER is a built `tasting` program, not below /tmp. What tests are is
# found by patterns, so that a commit's tests are built whatever else is taken back.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
name=$1
analyzer=$2
. "$here/lib.sh"
outside_tmp "$analyzer"

# put FILE writes a file, if it is another one.
put() {
    mkdir -p "$(dirname "$1")"
    cat >"$1.new"
    if cmp -s "$1.new" "$1"; then rm "$1.new"; else mv "$1.new" "$1"; fi
}

put MODULE.bazel <<END
module(name = "$(echo "$name" | tr '[:upper:]-' '[:lower:]_')")
bazel_dep(name = "rules_cc")
bazel_dep(name = "rules_tasting")
local_path_override(module_name = "rules_tasting", path = "${here%/*/*}")
register_toolchains("//tasting_suite:prebuilt_toolchain")
END
put .bazelrc <<'END'
common --enable_bzlmod --noenable_workspace --lockfile_mode=off
build --repo_env=CC=clang
build --incompatible_strict_action_env
# What compilers warn of since then is no error.
build --copt=-w
test --test_output=errors
END
[ "$(readlink tasting_suite/tasting || :)" = "$analyzer" ] || { mkdir -p tasting_suite && ln -sfn "$analyzer" tasting_suite/tasting; }
clang=$(command -v clang)
"$clang" --version | put tasting_suite/clang.txt
put tasting_suite/BUILD.bazel <<END
load("@rules_tasting//rules:defs.bzl", "tasting_toolchain")
tasting_toolchain(name = "prebuilt", analyzer = "tasting", clang = "$clang", clang_files = ["clang.txt"])
toolchain(name = "prebuilt_toolchain", toolchain = ":prebuilt", toolchain_type = "@rules_tasting//rules:toolchain_type")
END

case $name in
generated) ;; # by tasting check generated, which has written BUILD files
cJSON)
    # Its tests include cJSON.c, and read files below their directory.
    put BUILD.bazel <<'END'
load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

DEFINES = ["CJSON_EXPORT_SYMBOLS", "ENABLE_LOCALES"]

cc_library(name = "cjson", srcs = ["cJSON.c"], hdrs = ["cJSON.h"], linkopts = ["-lm"], local_defines = DEFINES)
cc_library(name = "cjson_utils", srcs = glob(["cJSON_Utils.c"]), hdrs = glob(["cJSON_Utils.h"]), local_defines = DEFINES, deps = [":cjson"])
cc_library(name = "unity", srcs = glob(["tests/unity/src/unity.c"]), hdrs = glob(["tests/unity/src/*.h", "tests/unity/examples/unity_config.h"]))
# In some commits it defines what cJSON.c does: it has to be a shared library.
cc_library(name = "common", srcs = glob(["tests/common.c"], allow_empty = True), hdrs = glob(["tests/common.h"]), textual_hdrs = ["cJSON.c"], local_defines = DEFINES, deps = [":cjson", ":unity"])

[genrule(name = "copy_" + f, srcs = ["tests/" + f], outs = [f], cmd = "cp $< $@") for f in [
    f[len("tests/"):] for f in glob(["tests/inputs/**", "tests/json-patch-tests/*.json"], allow_empty = True)
]]

DATA = {
    "json_patch_tests": [f[len("tests/"):] for f in glob(["tests/json-patch-tests/*.json"], allow_empty = True)],
    "old_utils_tests": [],
    "parse_examples": [f[len("tests/"):] for f in glob(["tests/inputs/**"], allow_empty = True)],
}

[cc_test(
    name = f.rpartition("/")[2][:-len(".c")],
    size = "small",
    srcs = [f],
    data = DATA.get(f.rpartition("/")[2][:-len(".c")], []),
    local_defines = DEFINES,
    deps = [":common", ":cjson_utils"],
) for f in glob(["tests/*.c"], exclude = ["tests/common.c", "tests/unity_setup.c"], allow_empty = True)]
END
    ;;
fmt)
    # As its CMakeLists.txt builds them with default options. compile-fp and no-builtin-types have no test cases, three need
    # other compilers or flags, and the others are parts of tests below.
    put BUILD.bazel <<'END'
load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

TEST_MAIN = ["test/gtest-extra.cc", "test/test-main.cc", "test/util.cc"]
HEADER_ONLY = ["format-impl-test", "scan-test", "unicode-test"]
MORE = {"format-impl-test": ["test/header-only-test.cc"], "ranges-test": ["test/ranges-odr-test.cc"]}
DEFINES = {"enforce-checks-test": ["FMT_ENFORCE_COMPILE_STRING"], "scan-test": ["FMT_HAVE_STRPTIME"]}

cc_library(name = "fmt", srcs = ["src/format.cc", "src/os.cc"], hdrs = glob(["include/fmt/*.h"]), includes = ["include"])
cc_library(name = "header_only", hdrs = glob(["include/fmt/*.h"]), defines = ["FMT_HEADER_ONLY=1"], includes = ["include"])
cc_library(name = "gtest", testonly = True, srcs = ["test/gtest/gmock-gtest-all.cc"], hdrs = glob(["test/gtest/*/*.h"]), includes = ["test/gtest"], defines = ["GTEST_HAS_STD_WSTRING=1"], linkopts = ["-pthread"])
cc_library(name = "headers", testonly = True, hdrs = glob(["test/*.h"]), deps = [":gtest"])
cc_library(name = "test_main", testonly = True, srcs = TEST_MAIN, deps = [":fmt", ":headers"])
cc_library(name = "os", testonly = True, hdrs = glob(["include/fmt/*.h"]), includes = ["include"], textual_hdrs = ["src/os.cc"])

[cc_test(
    name = name,
    size = "small",
    srcs = [f] + MORE.get(name, []) + (TEST_MAIN + ["src/os.cc"] if name in HEADER_ONLY else []),
    local_defines = DEFINES.get(name, []),
    deps = [":headers"] + ([":header_only"] if name in HEADER_ONLY else [":fmt", ":test_main"]),
) for f, name in [(f, f[len("test/"):-len(".cc")]) for f in glob(["test/*-test.cc"], exclude = [
    "test/%s-test.cc" % x for x in ["compile-fp", "cuda", "header-only", "module", "no-builtin-types", "noexception", "posix-mock", "ranges-odr"]
])]]
cc_test(name = "posix-mock-test", size = "small", srcs = TEST_MAIN + ["src/format.cc", "test/posix-mock-test.cc"], deps = [":headers", ":os"])
END
    ;;
tinyxml2)
    put BUILD.bazel <<'END'
load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

cc_library(name = "tinyxml2", srcs = ["tinyxml2.cpp"], hdrs = ["tinyxml2.h"])
cc_test(name = "xmltest", size = "small", srcs = ["xmltest.cpp"], data = glob(["resources/**"], allow_empty = True), deps = [":tinyxml2"])
END
    ;;
parson)
    put BUILD.bazel <<'END'
load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

cc_library(name = "parson", srcs = ["parson.c"], hdrs = ["parson.h"], linkopts = ["-lm"])
cc_test(name = "parson_test", size = "small", srcs = ["tests.c"], data = glob(["tests/*"], allow_empty = True), local_defines = ["TESTS_MAIN"], deps = [":parson"])
END
    ;;
http-parser)
    put BUILD.bazel <<'END'
load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

[(
    cc_library(name = "parser_" + k, srcs = ["http_parser.c"], hdrs = ["http_parser.h"], textual_hdrs = glob(["*.h"], exclude = ["http_parser.h"], allow_empty = True), local_defines = ["HTTP_PARSER_STRICT=" + v, "HTTP_PARSER_DEBUG=" + v]),
    cc_test(name = "test_" + k, size = "small", srcs = ["test.c"], local_defines = ["HTTP_PARSER_STRICT=" + v, "HTTP_PARSER_DEBUG=" + v], deps = [":parser_" + k]),
) for k, v in {"strict": "1", "fast": "0"}.items()]
END
    ;;
cwalk)
    # Each unit is a test, which has the functions that its file defines.
    for f in test/*_test.c; do
        unit=$(basename "$f" _test.c)
        {
            printf '#define UNIT_TESTS(XX)'
            sed -n "s/^int ${unit}_\([a-z0-9_]*\)(\(void\)*)$/ XX($unit,\1)/p" "$f" | tr -d '\n'
            echo
        } | put "overlay/$unit/tests.h"
    done
    put BUILD.bazel <<'END'
load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

cc_library(name = "cwalk", srcs = ["src/cwalk.c"], hdrs = ["include/cwalk.h"], includes = ["include"])
[cc_test(
    name = unit,
    size = "small",
    srcs = ["test/main.c", "test/%s_test.c" % unit, "overlay/%s/tests.h" % unit],
    copts = ["-Ioverlay/" + unit],
    deps = [":cwalk"],
) for unit in [f[len("test/"):-len("_test.c")] for f in glob(["test/*_test.c"], allow_empty = True)]]
END
    ;;
jansson)
    sed 's/@json_inline@/inline/; s/@json_have_[a-z_]*@/1/' src/jansson_config.h.in | put overlay/jansson_config.h
    for x in ENDIAN_H FCNTL_H SCHED_H UNISTD_H SYS_PARAM_H SYS_STAT_H SYS_TIME_H SYS_TYPES_H STDINT_H INTTYPES_H LOCALE_H CLOSE GETPID GETTIMEOFDAY OPEN READ SCHED_YIELD \
        STRTOLL LOCALECONV SETLOCALE STRERROR SYNC_BUILTINS ATOMIC_BUILTINS LONG_LONG_INT UNSIGNED_LONG_LONG_INT; do
        echo "#define HAVE_$x 1"
    done | { cat; echo '#define USE_URANDOM 1'; echo '#define INITIAL_HASHTABLE_ORDER 3'; } | put overlay/jansson_private_config.h
    cp overlay/jansson_private_config.h overlay/config.h.new
    if cmp -s overlay/config.h.new overlay/config.h; then rm overlay/config.h.new; else mv overlay/config.h.new overlay/config.h; fi
    put BUILD.bazel <<'END'
load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

cc_library(
    name = "jansson",
    srcs = glob(["src/*.c"]),
    hdrs = glob(["src/*.h", "overlay/*.h"]),
    includes = ["overlay", "src"],
    linkopts = ["-lm"],
    local_defines = ["HAVE_CONFIG_H"],
)
[cc_test(
    name = f.rpartition("/")[2][:-len(".c")],
    size = "small",
    srcs = [f] + glob(["test/suites/api/*.h", "test/testprogs/*.h"], allow_empty = True),
    local_defines = ["HAVE_CONFIG_H"],
    deps = [":jansson"],
) for f in glob(["test/suites/api/test_*.c", "test/testprogs/test_*.c"], allow_empty = True)]
END
    ;;
*)
    echo "overlay.sh: no project $name: see this file" >&2
    exit 2
    ;;
esac
