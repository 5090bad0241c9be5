#!/bin/sh
# Makes a Bazel workspace in which GoogleTest, Abseil and RE2 build with their
# own BUILD files, wired to each other and to the rules of this repository:
#
#   examples/suites/prepare.sh DIR [ANALYZER]
#
# ANALYZER is a built `tasting` program; without it Bazel builds one from source.
# DIR must not exist, be empty, or be an earlier workspace, whose sources are kept. It can't be
# below /tmp.
# SUITES names other versions than the newest in tools/corpus/corpora.lock:
# SUITES="googletest@1.16.0 abseil@20240722.0 re2". See README.md.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
repository=${here%/*/*}
. "$here/lib.sh"

die() {
    echo "prepare.sh: $*" >&2
    exit 2
}

case ${1:-} in
-* | '') sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0" && exit 2 ;;
esac
dir=$1
analyzer=${2:-}
[ -e "$dir/MODULE.bazel" ] || [ -z "$(ls -A "$dir" 2>/dev/null)" ] || die "$dir exists and is no workspace: name another directory, or delete it"
[ -z "$analyzer" ] || [ -x "$analyzer" ] || die "$analyzer can't be run: name a built tasting program, or none"
outside_tmp "$dir"
[ -n "$analyzer" ] || outside_tmp "$repository"
mkdir -p "$dir"

# edit FILE SED-ARG... changes a file of the sources, which are copies.
edit() {
    file=$dir/$1
    shift
    sed "$@" "$file" >"$file.new"
    mv "$file.new" "$file"
}

for suite in ${SUITES:-googletest abseil re2}; do
    name=${suite%@*}
    case $name in
    googletest | abseil | re2) ;;
    *) die "no suite $name: there are googletest, abseil and re2" ;;
    esac
    [ ! -d "$dir/$name" ] || continue
    "$repository/tools/corpus/fetch.sh" "$suite" "$dir/$name.new"
    case $name in
    googletest)
        # Bazel's modules drop what is for development where another module is
        # the root. The packages of the tests load the rules for Python.
        edit googletest.new/MODULE.bazel '/^bazel_dep(/,/^)/{/name = "rules_python"/,/^)/s/^    dev_dependency = True,$//;}'
        ;;
    abseil)
        # rules_cc before 0.1 doesn't know this compiler, for which nothing is
        # built here.
        find "$dir/abseil.new" -name BUILD.bazel -exec sed -i '/rules_cc\/\/cc\/compiler:emscripten": /d' {} +
        ;;
    re2)
        # Its tests need GoogleTest; the others are for Python and macOS.
        edit re2.new/MODULE.bazel -e '/name = "googletest"/s/, dev_dependency = True//' -e '/apple_support\|pybind11_bazel/d'
        ;;
    esac
    mv "$dir/$name.new" "$dir/$name"
done

cat >"$dir/MODULE.bazel" <<END
module(name = "suites")

bazel_dep(name = "rules_tasting")
local_path_override(module_name = "rules_tasting", path = "$repository")

bazel_dep(name = "googletest")
local_path_override(module_name = "googletest", path = "googletest")

bazel_dep(name = "abseil-cpp")
local_path_override(module_name = "abseil-cpp", path = "abseil")

bazel_dep(name = "re2")
local_path_override(module_name = "re2", path = "re2")
END
: >"$dir/BUILD.bazel"
# The sources are modules, not packages of this workspace.
printf '%s\n' googletest abseil re2 >"$dir/.bazelignore"
cat >"$dir/.bazelrc" <<'END'
common --enable_bzlmod --noenable_workspace --lockfile_mode=off
build --repo_env=CC=clang
build --incompatible_strict_action_env
build --cxxopt=-std=c++17 --host_cxxopt=-std=c++17

# Benchmarks need a library that isn't here.
build --build_tests_only

build:tasting --aspects=@rules_tasting//rules:defs.bzl%tasting_aspect
build:tasting --output_groups=tasting_closure

# GoogleTest with Abseil's flags and stack traces.
build:absl --define=absl=1

test --test_output=errors

try-import %workspace%/user.bazelrc
END

if [ -n "$analyzer" ]; then
    cp "$analyzer" "$dir/analyzer.new"
    mv "$dir/analyzer.new" "$dir/analyzer"
    prebuilt "$dir" analyzer
    printf '\nregister_toolchains("//:prebuilt_toolchain")\n' >>"$dir/MODULE.bazel"
fi
