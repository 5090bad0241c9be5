#!/bin/sh
# Gives the Bazel of the fallback root what other machines fetch from the Bazel
# Central Registry. Run inside the root, from the top of the repository.
#
# rules_go and gazelle are ordinary Go modules too, so they are copied out of
# the Go module cache, at the versions that MODULE.bazel names, and adapted:
#   - every Go SDK asked for becomes the Go found on PATH, instead of a download;
#   - gazelle gets its vendor directory, which module archives leave out.
# These and the rule sets that Debian packages become a local registry, with
# every version that one of them asks for. A module that Bazel resolves but that
# nothing here loads becomes an empty stub.
#
# modules.sh DIR KEY writes all that to DIR, and DIR/bazelrc, which announces it:
# /etc/bazel.bazelrc imports it and Debian's Bazel imports that, so every
# workspace in the root builds without further flags.
set -eu

share=$1
key=$2
registry=$share/registry

fail() {
    echo "modules.sh: $*" >&2
    exit 1
}

# copy_module NAME GO_MODULE copies the version in MODULE.bazel to $share/NAME.
copy_module() {
    version=$(sed -n "s/^bazel_dep(name = \"$1\", version = \"\([^\"]*\)\".*/\1/p" MODULE.bazel)
    [ -n "$version" ] || fail "MODULE.bazel has no bazel_dep line for $1 with a version"
    # Outside a module, so that this repository's go.mod plays no part.
    dir=$(cd / && go mod download -json "$2@v$version" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p') || true
    [ -d "$dir" ] || fail "no copy of $2@v$version; is the Go module proxy reachable? (go env GOPROXY)"
    cp -r --no-preserve=mode,ownership "$dir" "$share/$1"
}

# module_field DIR FIELD prints a field of the module() call of a MODULE.bazel.
module_field() {
    tr '\n' ' ' <"$1/MODULE.bazel" | sed -n "s/.*\bmodule([^)]*\b$2 = \"\([^\"]*\)\".*/\1/p"
}

# dependencies prints NAME VERSION of each bazel_dep in the given MODULE.bazel.
dependencies() {
    sed 's/#.*//' "$1" | tr '\n' ' ' | grep -o 'bazel_dep([^)]*)' |
        sed -n 's/.*\bname = "\([^"]*\)".*\bversion = "\([^"]*\)".*/\1 \2/p'
}

# register NAME VERSION DIR: without DIR the module is empty.
register() {
    entry=$registry/modules/$1/$2
    [ ! -d "$entry" ] || return 0
    mkdir -p "$entry"
    echo "{\"type\": \"local_path\", \"path\": \"${3:-/nonexistent}\"}" >"$entry/source.json"
    if [ -z "$3" ]; then
        echo "module(name = \"$1\", version = \"$2\")" >"$entry/MODULE.bazel"
    else
        # Bazel insists on the version that was asked for.
        sed -e '/^module(/,/^)/{/^    version = /d' -e "s/^    name = .*/&\n    version = \"$2\",/" -e '}' \
            "$3/MODULE.bazel" >"$entry/MODULE.bazel"
    fi
}

mkdir -p "$registry"
echo '{}' >"$registry/bazel_registry.json"

copy_module rules_go github.com/bazelbuild/rules_go
extension=$share/rules_go/go/private/extensions.bzl
awk '
    { print }
    /^def _download_sdk\(/ {
        print "    go_host_sdk_rule(name = name, version = \"\", experiments = download_tag.experiments)"
        print "    return"
        print ""
        found = 1
    }
    END { exit !found }
' "$extension" >"$extension.new" || fail "rules_go has changed: $extension has no _download_sdk"
mv "$extension.new" "$extension"

copy_module gazelle github.com/bazelbuild/bazel-gazelle
(cd "$share/gazelle" && rm -rf vendor && go mod vendor) ||
    fail "cannot vendor gazelle's dependencies; is the Go module proxy reachable? (go env GOPROXY)"

modules=$(dirname /usr/share/bazel/*/*/MODULE.bazel "$share"/*/MODULE.bazel)
for manifest in MODULE.bazel /usr/share/bazel/embedded_tools/MODULE.bazel $(printf '%s/MODULE.bazel\n' $modules); do
    dependencies "$manifest"
done | sort -u | while read -r name version; do
    found=
    for dir in $modules; do
        [ "$(module_field "$dir" name)" != "$name" ] || found=$dir
    done
    register "$name" "$version" "$found"
done

cat >"$share/bazelrc" <<RC
common --registry=file://$registry
# External Go modules are shared with the go command's own cache.
common --repo_env=GO_REPOSITORY_USE_HOST_MODCACHE=1
# A Bazel server lives in the mounts it was started with: another set-up, another server.
startup --host_jvm_args=-Drules_tasting.set_up=$key
RC
