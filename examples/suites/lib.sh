# What these scripts share: sourced, not run.

# outside_tmp PATH...: nothing that one workspace uses of another place may be below /tmp.
outside_tmp() {
    for path; do
        case $(readlink -m -- "$path") in
        /tmp | /tmp/*)
            echo "${0##*/}: $path is below /tmp. Bazel's sandbox has a /tmp of its own, in which a workspace elsewhere finds nothing of it: name a path outside, such as ${HOME:-/var/tmp}/suites" >&2
            exit 2
            ;;
        esac
    done
}

# put FILE writes a file, if it is another one.
put() {
    cat >"$1.new"
    if cmp -s "$1.new" "$1"; then rm "$1.new"; else mv "$1.new" "$1"; fi
}

# prebuilt DIR ANALYZER writes a package whose toolchain has a built `tasting` program. A relative ANALYZER is in DIR.
prebuilt() {
    clang=$(command -v "${TASTING_CLANG:-clang}") || {
        echo "${0##*/}: no clang: install it, or set TASTING_CLANG to its path" >&2
        exit 2
    }
    mkdir -p "$1"
    [ "$(readlink "$1/tasting" || :)" = "$2" ] || ln -sfn "$2" "$1/tasting"
    "$clang" --version | put "$1/clang.txt"
    put "$1/BUILD.bazel" <<END
load("@rules_tasting//rules:defs.bzl", "tasting_toolchain")

tasting_toolchain(
    name = "prebuilt",
    analyzer = "tasting",
    clang = "$clang",
    clang_files = ["clang.txt"],
)

toolchain(
    name = "prebuilt_toolchain",
    toolchain = ":prebuilt",
    toolchain_type = "@rules_tasting//rules:toolchain_type",
)
END
}
