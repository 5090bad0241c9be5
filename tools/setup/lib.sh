# Shared by the scripts of this directory; sourced.

note() { echo "bazelw: $*" >&2; }

# fail PROBLEM WAY_OUT
fail() {
    echo "bazelw: $1" >&2
    shift
    for line in "$@"; do echo "  $line" >&2; done
    exit 1
}

# Where somebody who cannot have the root may turn to.
own_tools="Or install Bazel 7 or newer (or bazelisk) and clang: with both on PATH no root is needed."

# key_of prints a short name for the content on standard input.
key_of() { sha256sum | cut -c 1-16; }

# lock FILE holds FILE for as long as this process lives.
lock() {
    exec 9>"$1"
    if ! flock -n 9; then
        note "another bazelw is setting up; waiting for it"
        flock 9
    fi
}
