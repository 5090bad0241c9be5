"""Go modules whose own BUILD files don't suit: they name protocol compilers.

gazelle's way to say so, `go_deps.gazelle_override`, is for the root module only,
and rules_tasting is a dependency of its users.
"""

load("@gazelle//:deps.bzl", "go_repository")

_REMOTE_APIS = "github.com/bazelbuild/remote-apis"

def _word_after(content, prefix):
    for line in content.split("\n"):
        if line.strip().startswith(prefix + " "):
            return line.strip()[len(prefix) + 1:].split(" ")[0]
    fail("no line starts with {}; run: go mod tidy".format(prefix))

def _generated_go_impl(ctx):
    version = _word_after(ctx.read(Label("//:go.mod")), _REMOTE_APIS)
    go_repository(
        name = "com_github_bazelbuild_remote_apis",
        importpath = _REMOTE_APIS,
        version = version,
        sum = _word_after(ctx.read(Label("//:go.sum")), _REMOTE_APIS + " " + version),
        build_file_generation = "clean",
        build_directives = [
            # The generated Go code is part of the module.
            "gazelle:proto disable",
            # In this extension's repositories rules_go goes by its own name.
            "gazelle:map_kind go_library go_library @rules_go//go:def.bzl",
        ],
    )
    return ctx.extension_metadata(reproducible = True)

generated_go = module_extension(
    implementation = _generated_go_impl,
    doc = "Repositories of Go modules with committed protocol code, at the versions of go.mod.",
)
