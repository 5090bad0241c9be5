#!/bin/bash
# What a cold start costs: an example's tests under plain `bazel test`, under
# `tasting test`, and as tasting_cc_tests, each side from nothing, in turns.
#
#   ./bazelw --exec analyzer/verify/bench/cold.sh cjson|fmt|cpp_gtest [CC [ROUNDS]]
#
# Prints the CPU time of Bazel's server and all that it starts, by control group
# (as root), of each round, and each side's sum over plain Bazel's. The analyzer is
# built before. CC is clang (the default) or gcc.
set -euo pipefail

here=$(cd "$(dirname "$0")/../../.." && pwd -P)
example=${1:-} cc=${2:-clang} rounds=${3:-2}
case $example in
cjson) sources="cjson@1.7.18 upstream" ;;
fmt) sources="fmtlib@11.1.1 upstream googletest@1.18.0 googletest" ;;
cpp_gtest) sources= ;;
*) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0" && exit 2 ;;
esac
scratch=$(mktemp -d)
trap 'for d in "$scratch"/*/base; do [ ! -d "$d" ] || (cd "${d%/base}/tree" && bazel --output_base="$d" shutdown); done; chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT

(cd "$here" && go build -o "$scratch/tasting" ./analyzer/cmd/tasting)
mkdir "$scratch/prebuilt"
(
    cd "$scratch/prebuilt"
    mv ../tasting .
    clang --version >clang.txt
    printf 'module(name = "prebuilt_tasting")\nbazel_dep(name = "rules_tasting")\n' >MODULE.bazel
    cat >BUILD.bazel <<END
load("@rules_tasting//rules:defs.bzl", "tasting_toolchain")
tasting_toolchain(name = "prebuilt", analyzer = "tasting", clang = "$(command -v clang)", clang_files = ["clang.txt"])
toolchain(name = "prebuilt_toolchain", toolchain = ":prebuilt", toolchain_type = "@rules_tasting//rules:toolchain_type")
END
)
tree=$scratch/example
mkdir "$tree"
(cd "$here/examples/$example" && git ls-files -z | xargs -0 cp --parents -t "$tree")
while read -r corpus dir; do
    (cd "$tree" && "$here/tools/corpus/fetch.sh" "$corpus" "$dir")
done < <(xargs -rn2 <<<"$sources")
sed -i "s,path = \"../..\",path = \"$here\"," "$tree/MODULE.bazel"
cat >>"$tree/MODULE.bazel" <<END
bazel_dep(name = "prebuilt_tasting")
local_path_override(module_name = "prebuilt_tasting", path = "$scratch/prebuilt")
register_toolchains("@prebuilt_tasting//:all")
END

# group makes a control group, and prints the files that take processes and that
# have the CPU time.
group() {
    if [ -d /sys/fs/cgroup/cpuacct ]; then
        mkdir -p "/sys/fs/cgroup/cpuacct/$1"
        echo "/sys/fs/cgroup/cpuacct/$1/tasks" "/sys/fs/cgroup/cpuacct/$1/cpuacct.usage" 1000000000
    else
        mkdir -p "/sys/fs/cgroup/$1"
        echo "/sys/fs/cgroup/$1/cgroup.procs" "/sys/fs/cgroup/$1/cpu.stat" 1000000
    fi
}

# side NAME runs one side from nothing, and prints its CPU time.
side() {
    local dir=$scratch/$1-$round tasks usage unit
    mkdir -p "$dir/store"
    cp -r "$tree" "$dir/tree"
    local flags=(--repo_env=CC="$cc" --symlink_prefix=/ --disk_cache= --remote_cache= --noshow_progress --color=no)
    local run=(bazel --output_base="$dir/base" test //... "${flags[@]}")
    case $1 in
    tasting_cc_test)
        run+=(--@rules_tasting//rules:store="$dir/store" --sandbox_writable_path="$dir/store")
        ;;
    *)
        sed -i 's,^load("@rules_tasting//rules:defs.bzl".*,load("@rules_cc//cc:defs.bzl"\, "cc_test"),' "$dir/tree/BUILD.bazel"
        [ "$1" = plain ] || run=("$scratch/prebuilt/tasting" test --bazel=bazel --bazel_startup=--output_base="$dir/base" --store="$dir/store" --audit=0 "${flags[@]}" -- //...)
        ;;
    esac
    read -r tasks usage unit < <(group "tasting-cold-$$-$1-$round")
    (
        echo $BASHPID >"$tasks"
        cd "$dir/tree"
        exec "${run[@]}"
    ) >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; exit 1; }
    awk -v unit="$unit" '{ print $NF / unit; exit }' "$usage"
    (cd "$dir/tree" && bazel --output_base="$dir/base" shutdown)
    rmdir "$(dirname "$tasks")" || true
    chmod -R u+w "$dir"
    rm -rf "$dir"
}

declare -A sum
sides=(plain "tasting test" tasting_cc_test)
for round in $(seq "$rounds"); do
    for name in "${sides[@]}"; do
        cpu=$(side "${name// /_}")
        printf '%s, %s, round %d: %-16s %7.1f CPU s\n' "$example" "$cc" "$round" "$name" "$cpu"
        sum[$name]=$(awk "BEGIN { print ${sum[$name]:-0} + $cpu }")
    done
done
for name in "${sides[@]}"; do
    awk -v n="$name" -v a="${sum[$name]}" -v b="${sum[plain]}" 'BEGIN { printf "%-16s %.2f\n", n, a / b }'
done
