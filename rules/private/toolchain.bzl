"""The toolchain: the `tasting` program, and the clang, if any, that it asks for syntax trees."""

load(":compose.bzl", "runfiles_without")

visibility(["//rules", "//rules/..."])

TOOLCHAIN_TYPE = Label("//rules:toolchain_type")

def _tasting_toolchain_impl(ctx):
    runner = (ctx.attr.runner or ctx.attr.analyzer)[DefaultInfo]
    executable = runner.files_to_run.executable
    return [platform_common.ToolchainInfo(
        analyzer = ctx.attr.analyzer[DefaultInfo].files_to_run,
        analyzer_runfiles = ctx.attr.analyzer[DefaultInfo].default_runfiles,
        runner_executable = executable,
        # The program itself is there under the test's name. A test would find the repository of
        # the rules in its _repo_mapping, and so differ from one without a runner.
        runner_runfiles = runfiles_without(ctx, runner.default_runfiles, {executable: None}),
        clang = ctx.attr.clang,
        clang_files = depset(transitive = [t[DefaultInfo].files for t in ctx.attr.clang_files]),
    )]

tasting_toolchain = rule(
    implementation = _tasting_toolchain_impl,
    doc = """Declares a `tasting` program and its clang.

Wrap it into a `toolchain()` of type `@rules_tasting//rules:toolchain_type` and
register that. A prebuilt analyzer spares the build Go:

```starlark
tasting_toolchain(
    name = "prebuilt",
    analyzer = "//tools:tasting",
    clang = "/usr/lib/llvm-21/bin/clang",
)

toolchain(
    name = "prebuilt_toolchain",
    toolchain = ":prebuilt",
    toolchain_type = "@rules_tasting//rules:toolchain_type",
)
```
""",
    attrs = {
        "analyzer": attr.label(
            doc = "The `tasting` program that the actions of a build run.",
            executable = True,
            allow_files = True,
            cfg = "exec",
            default = Label("//analyzer/cmd/tasting"),
        ),
        "runner": attr.label(
            doc = """The `tasting` program that runs beside a test. Default: `analyzer`.
Needed only where tests run on another platform than the build's actions.""",
            executable = True,
            allow_files = True,
            cfg = "target",
        ),
        "clang": attr.string(
            doc = """Path of clang on the machine that runs the actions: absolute, or relative
to the execution root if clang is among `clang_files`. If empty, no source is read:
all code is known by its objects.""",
        ),
        "clang_files": attr.label_list(
            doc = """Files that clang consists of, or for a clang outside the build a file that
changes with it, so that Bazel notices an upgrade.""",
            allow_files = True,
            cfg = "exec",
        ),
    },
)

def _tasting_program_impl(ctx):
    toolchain = ctx.toolchains[TOOLCHAIN_TYPE]
    out = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = out, target_file = toolchain.analyzer.executable, is_executable = True)
    return [DefaultInfo(executable = out, files = depset([out]), runfiles = toolchain.analyzer_runfiles)]

tasting_program = rule(
    implementation = _tasting_program_impl,
    doc = "The `tasting` program of the toolchain, as a target to run.",
    executable = True,
    toolchains = [TOOLCHAIN_TYPE],
)
