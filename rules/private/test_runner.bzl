"""The runner under every unmodified cc_test: a toolchain for C++ test runners.

`cc_test` asks the toolchain of type `@bazel_tools//tools/cpp:test_runner_toolchain_type`,
if there is one, what Bazel shall start. This one answers with the runner. The
function that says so sees neither sources nor actions, only the linked binary
and what the dependencies provide: the executable and each shared library count by
their content. So nothing has to be known of how Bazel links.
"""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":compose.bzl", "NO_RUNNER_TAG", "compose_arguments", "data_files", "declare_program", "files_of_runfiles", "is_linkable", "is_shared_library", "runfiles_without")
load(":providers.bzl", "TastingRunnerInfo")
load(":settings.bzl", "StringFlagInfo")
load(":toolchain.bzl", "TOOLCHAIN_TYPE")
load(":worker.bzl", "WORKER")

visibility(["//rules", "//rules/..."])

def _dependencies(ctx):
    """Targets that a cc_test links."""
    malloc = getattr(ctx.attr, "_default_malloc", None) or getattr(ctx.attr, "malloc", None)
    extra = getattr(ctx.attr, "link_extra_lib", None)
    return ctx.attr.deps + [t for t in [extra, malloc] if t]

def _linker_inputs(ctx):
    return depset(
        order = "topological",
        transitive = [t[CcInfo].linking_context.linker_inputs for t in _dependencies(ctx) if CcInfo in t],
    ).to_list()

def _shared_libraries(linker_inputs, runfiles):
    """The shared libraries that a test links, in the order of the link.

    Args:
      linker_inputs: list of LinkerInput.
      runfiles: dict whose keys are the files that the test can load.

    Returns:
      (libraries, names): libraries, a list of File; names, a dict whose keys are
      these libraries and their other names.
    """
    libraries = []
    names = {}
    for linker_input in linker_inputs:
        for library in linker_input.libraries:
            files = [f for f in [library.dynamic_library, library.resolved_symlink_dynamic_library] if f and f in runfiles]
            if files and not [f for f in files if f in names]:
                libraries.append(files[0])
            names.update({f: None for f in files})
    return libraries, names

def _link_flags(ctx, linker_inputs):
    flags = []
    for linker_input in linker_inputs:
        flags.extend(linker_input.user_link_flags)
    return flags + ctx.attr.linkopts + ctx.fragments.cpp.linkopts

def _default_providers(ctx, binary_info, environment):
    return [
        DefaultInfo(
            executable = binary_info.executable,
            files = binary_info.files,
            runfiles = binary_info.runfiles,
        ),
        RunEnvironmentInfo(
            environment = environment,
            inherited_environment = ctx.attr.env_inherit,
        ),
    ]

def _get_runner(ctx, binary_info, processed_environment, tasting, store, traces):
    """What cc_test calls: the providers that make it a test.

    Args:
      ctx: context of the cc_test.
      binary_info: struct(executable, files, runfiles).
      processed_environment: dict of strings, the test's `env`.
      tasting: ToolchainInfo of tasting_toolchain.
      store: string, `--@rules_tasting//rules:store`.
      traces: string, `--@rules_tasting//rules:traces`.

    Returns:
      list of providers
    """
    if NO_RUNNER_TAG in ctx.attr.tags or getattr(ctx.attr, "linkshared", False):
        return _default_providers(ctx, binary_info, processed_environment)

    # Beside the binary, which keeps its name.
    executable = ctx.actions.declare_file(ctx.label.name + ".replay")
    config = ctx.actions.declare_file(ctx.label.name + ".replay.tasting")
    closure = ctx.actions.declare_file(ctx.label.name + ".replay.closure")
    program = declare_program(ctx, ctx.label.name + ".replay", traces)
    ctx.actions.symlink(output = executable, target_file = tasting.runner_executable, is_executable = True)

    linker_inputs = _linker_inputs(ctx)
    runfiles = {f: None for f in binary_info.runfiles.files.to_list()}
    libraries, names = _shared_libraries(linker_inputs, runfiles)
    scripts = []
    for linker_input in linker_inputs:
        scripts.extend([f for f in linker_input.additional_inputs if not is_linkable(f)])

    # Others may be linked in another way, or opened by the test: they count as data, too.
    libraries += [f for f in runfiles if f not in names and is_shared_library(f) and not f.is_directory]

    # What a program in the data may load is data as well.
    loaded = files_of_runfiles(getattr(ctx.attr, "data", []))
    linked = {f: None for f in names if f not in loaded}
    data = runfiles_without(ctx, binary_info.runfiles, linked | {binary_info.executable: None})

    args = compose_arguments(
        ctx,
        config = config,
        closure = closure,
        binary = binary_info.executable,
        scripts = scripts,
        data = data,
        tags = ctx.attr.tags,
        local = ctx.attr.local,
        requirements = getattr(ctx.attr, "exec_properties", {}),
        env_keys = ctx.attr.env.keys() + ctx.attr.env_inherit,
        words = ctx.attr.args + processed_environment.values(),
        store = store,
        program = program,
        traces = traces,
    )
    args.add_all(_link_flags(ctx, linker_inputs), format_each = "--link-flag=%s")
    args.add_all(binary_info.runfiles.empty_filenames, format_each = "--data-empty=%s")  # ctx.runfiles can't have them
    args.add_all([binary_info.executable] + libraries, format_each = "--linked=%s")
    ctx.actions.run(
        executable = tasting.analyzer,
        arguments = ["internal", "compose", args],
        inputs = depset([binary_info.executable] + libraries + scripts, transitive = [data_files(data)]),
        outputs = [config, closure] + program,
        execution_requirements = WORKER,
        mnemonic = "TastingCompose",
        progress_message = "Composing fingerprint of %{label}",
        toolchain = None,
    )
    return [
        DefaultInfo(
            executable = executable,
            files = depset([executable], transitive = [binary_info.files]),
            runfiles = ctx.runfiles([executable, config, closure] + program).merge_all([binary_info.runfiles, tasting.runner_runfiles]),
        ),
        RunEnvironmentInfo(
            environment = processed_environment,
            inherited_environment = ctx.attr.env_inherit,
        ),
        TastingRunnerInfo(binary = binary_info.executable, runfiles = binary_info.runfiles),
    ]

def _tasting_test_runner_toolchain_impl(ctx):
    return [platform_common.ToolchainInfo(
        cc_test_info = struct(
            get_runner = struct(
                func = _get_runner,
                args = {
                    "store": ctx.attr._store[StringFlagInfo].value,
                    "tasting": ctx.toolchains[TOOLCHAIN_TYPE],
                    "traces": ctx.attr._traces[StringFlagInfo].value,
                },
            ),
            linkopts = [],
            linkstatic = False,
            use_legacy_cc_test = False,
        ),
    )]

tasting_test_runner_toolchain = rule(
    implementation = _tasting_test_runner_toolchain_impl,
    doc = """Puts the runner under every `cc_test`, unmodified.

`@rules_tasting//rules:test_runner_toolchain` is such a toolchain, ready to be
registered:

```starlark
register_toolchains("@rules_tasting//rules:test_runner_toolchain")
```

A target of one's own is needed only to restrict it to some platforms: wrap it
into a `toolchain()` of type `@bazel_tools//tools/cpp:test_runner_toolchain_type`.
""",
    attrs = {
        "_store": attr.label(default = Label("//rules:store"), providers = [StringFlagInfo]),
        "_traces": attr.label(default = Label("//rules:traces"), providers = [StringFlagInfo]),
    },
    toolchains = [TOOLCHAIN_TYPE],
)
