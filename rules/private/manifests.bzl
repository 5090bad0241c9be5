"""Manifests: the evidence for what a target compiles, and for what it links as it is."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":settings.bzl", "StringFlagInfo")
load(":toolchain.bzl", "TOOLCHAIN_TYPE")
load(":worker.bzl", "WORKER", "parameters")

visibility(["//rules", "//rules/..."])

def declare(ctx, file, suffix):
    """An output for what is derived from `file`, unlike that of any other file.

    Args:
      ctx: the aspect's context.
      file: File.
      suffix: string.

    Returns:
      File
    """
    parts = [ctx.bin_dir.path, ctx.label.workspace_root, ctx.label.package]
    prefix = "/".join([part for part in parts if part]) + "/"
    path = file.path.removeprefix(prefix) if file.path.startswith(prefix) else "linked/" + file.path.removeprefix(ctx.bin_dir.path + "/")
    return ctx.actions.declare_file("_tasting/%s/%s%s" % (ctx.label.name, path, suffix))

def toolchain_files(ctx):
    """The files that the build's compiler and linker consist of.

    Args:
      ctx: the aspect's context.

    Returns:
      depset of File
    """
    toolchain = _cc_toolchain(ctx)
    return toolchain.all_files if toolchain else depset()

def _cc_toolchain(ctx):
    toolchain = getattr(ctx.rule.attr, "_cc_toolchain", None)
    if toolchain and cc_common.CcToolchainInfo in toolchain:
        return toolchain[cc_common.CcToolchainInfo]
    return None

# The actions of a toolchain that link.
LINKS = ["c++-link-executable", "c++-link-dynamic-library", "c++-link-nodeps-dynamic-library"]

# Variables for archivers: when a member was made.
_OF_ARCHIVERS = ["ZERO_AR_DATE"]

def features_of(ctx):
    """What decides, beside the toolchain, what it puts into the environment of an action.

    Args:
      ctx: the aspect's context.

    Returns:
      list of two lists of strings: what is asked for and what is refused.
    """
    return [sorted(ctx.features), sorted(ctx.disabled_features)]

def variables_of_toolchain(ctx, actions):
    """What a toolchain puts into the environment of actions (`env_set` of a feature).

    Bazel doesn't say it of an action.

    Args:
      ctx: the aspect's context.
      actions: list of strings, their names in toolchains.

    Returns:
      list of strings NAME=VALUE, sorted
    """
    toolchain = _cc_toolchain(ctx)
    if not toolchain or "apple" in toolchain.target_gnu_system_name:
        return []
    configured = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    build_variables = {"cc_toolchain": toolchain, "feature_configuration": configured}
    variables = {}
    for action in actions:
        env = cc_common.get_environment_variables(
            feature_configuration = configured,
            action_name = action,
            variables = cc_common.create_link_variables(**build_variables) if action in LINKS else cc_common.create_compile_variables(**build_variables),
        )
        variables.update({"%s=%s" % item: None for item in env.items() if item[0] not in _OF_ARCHIVERS})
    return sorted(variables)

def _each_line(unit):
    return "%s=%s" % (unit.object.path, unit.manifest.path)

def precompiled_manifest(ctx, file):
    """Registers the action that reads an object, archive or shared library.

    Args:
      ctx: the aspect's context.
      file: File.

    Returns:
      File: the manifest.
    """
    manifest = declare(ctx, file, ".manifest")
    _object_manifests(ctx, [struct(object = file, manifest = manifest)], "Reading %{input} for %{label}")
    return manifest

def _object_manifests(ctx, units, message, flags = []):
    """Registers the action that reads objects, or other files that are linked."""
    args = parameters(ctx)
    args.add_all(units, map_each = _each_line)
    ctx.actions.run(
        executable = ctx.toolchains[TOOLCHAIN_TYPE].analyzer,
        arguments = ["internal", "object", "--each"] + flags + [args],
        inputs = [unit.object for unit in units],
        outputs = [unit.manifest for unit in units],
        execution_requirements = WORKER,
        mnemonic = "TastingObject",
        progress_message = message,
        toolchain = TOOLCHAIN_TYPE,
    )

def source_of(argv):
    """The source file of a compiler's command line, or None.

    Args:
      argv: list of strings.

    Returns:
      string or None
    """
    for i in range(len(argv) - 1):
        if argv[i] == "-c":
            return argv[i + 1]
    return None

# Flags that make C not plain most often. `tasting preprocess` knows all of them: this
# spares asking it in vain.
_NOT_PLAIN = ("-O", "-fvisibility=", "-fsanitize=", "-flto", "-fopenmp", "-march=", "-mcpu=", "-mtune=")

def _is_not_plain(argv):
    """Whether what is compiled isn't plain C for one of the most frequent flags."""
    return any([arg.startswith(_NOT_PLAIN) and arg != "-O0" for arg in argv])

def _uses_sources(ctx):
    """Whether C may be known by its source, before it is compiled."""
    clang = ctx.toolchains[TOOLCHAIN_TYPE].clang
    evidence = ctx.attr._evidence[StringFlagInfo].value
    if evidence == "source" and not clang:
        fail(("%s: --@rules_tasting//rules:evidence=source needs clang, and the toolchain of rules_tasting has none. " +
              "Put a clang of version 19 to 21 on PATH, set TASTING_CLANG to its path, or use evidence=auto.") % ctx.label)
    if evidence == "auto":
        # Another compiler accepts other C than clang does.
        toolchain = _cc_toolchain(ctx)
        uses = clang and toolchain and toolchain.compiler == "clang"
    else:
        uses = clang and evidence == "source"

    # The preprocessor isn't told of that.
    return uses and not variables_of_toolchain(ctx, ["c-compile"])

# Those whose headers a compilation may include.
_HEADER_ATTRIBUTES = ["deps", "implementation_deps", "interface_deps"]

# Those that Bazel takes for headers among the sources.
_HEADER_EXTENSIONS = ["h", "hh", "hpp", "ipp", "hxx", "h++", "inc", "inl", "tlh", "tli", "H", "tcc"]

def _headers(ctx, target, dependencies):
    """depset of every file that a compile action of the target may include."""
    contexts = [t[CcInfo].compilation_context for name, t in dependencies if name in _HEADER_ATTRIBUTES and CcInfo in t]
    if CcInfo in target:
        contexts.append(target[CcInfo].compilation_context)
    direct = [f for f in getattr(ctx.rule.files, "srcs", []) if f.is_directory or f.extension in _HEADER_EXTENSIONS]
    for name in ["hdrs", "textual_hdrs"]:
        direct.extend(getattr(ctx.rule.files, name, []))
    return depset(direct, transitive = [c.headers for c in contexts])

def _source_manifest(ctx, object, action, headers, others):
    """Registers the two actions that analyse a C source.

    Args:
      ctx: the aspect's context.
      object: what is compiled.
      action: the action that compiles it.
      headers: depset of files that a compilation may include. Edits of those
        that it doesn't read run nothing.
      others: list of files that a compilation may read in any way: every edit
        runs it again.

    Returns:
      File: the manifest.
    """
    tasting = ctx.toolchains[TOOLCHAIN_TYPE]
    tu = declare(ctx, object, ".tu")
    unused = declare(ctx, object, ".unused")
    manifest = declare(ctx, object, ".source.manifest")

    args = ctx.actions.args()
    args.add_all(["internal", "preprocess"])
    args.add(ctx.attr._evidence[StringFlagInfo].value, format = "--evidence=%s")
    args.add("-o", tu)
    args.add(tasting.clang, format = "--clang=%s")
    args.add(unused, format = "--unused-inputs=%s")

    # What Bazel lets a compilation read: a source that includes anything else has to be
    # compiled, so that Bazel refuses it.
    args.add(source_of(action.argv), format = "--declared=%s")
    args.add_all(others, format_each = "--declared=%s")
    toolchain = _cc_toolchain(ctx)
    args.add_all(toolchain.built_in_include_directories if toolchain else [], format_each = "--system-include=%s")

    # In the command line, so that a header that appears or disappears runs the
    # action again: it may stand in front of another of the same name.
    candidates = ctx.actions.args()
    candidates.add_all(headers)
    candidates.set_param_file_format("multiline")
    candidates.use_param_file("--inputs=%s", use_always = True)

    # The compiler sees the environment of Bazel's compile actions.
    ctx.actions.run(
        executable = tasting.analyzer,
        arguments = [args, candidates, "--"] + action.args,
        inputs = depset(others, transitive = [action.inputs, headers, tasting.clang_files]),
        outputs = [tu, unused],
        unused_inputs_list = unused,
        env = action.env,
        use_default_shell_env = True,
        mnemonic = "TastingPreprocess",
        progress_message = "Preprocessing for %{output}",
        toolchain = TOOLCHAIN_TYPE,
    )

    args = ctx.actions.args()
    args.add_all(["internal", "analyze"])
    args.add("-o", manifest)
    args.add(tasting.clang, format = "--clang=%s")
    args.add(tu)
    ctx.actions.run(
        executable = tasting.analyzer,
        arguments = [args],
        inputs = depset([tu], transitive = [tasting.clang_files]),
        outputs = [manifest],
        env = action.env,
        use_default_shell_env = True,
        mnemonic = "TastingAnalyze",
        progress_message = "Analysing for %{output}",
        toolchain = TOOLCHAIN_TYPE,
    )
    return manifest

def compiled_units(ctx, target, dependencies):
    """Registers the actions that make the manifests of all that a target compiles.

    Bazel compiles a source up to twice, with and without -fPIC. Each object has
    manifests of its own, so that only what is linked is compiled and read.

    Args:
      ctx: the aspect's context.
      target: Target.
      dependencies: list of (attribute, Target).

    Returns:
      list of lists of struct(object, manifest, source): File, its manifest, and that of
      its source or None. A link that takes one object of a list mostly takes all.
    """
    headers = None
    sources = None

    # Files of flags, profiles, binaries that asm includes.
    others = getattr(ctx.rule.files, "additional_compiler_inputs", [])
    variants = {}
    for action in target.actions:
        if action.mnemonic != "CppCompile":
            continue
        for object in [f for f in action.outputs.to_list() if f.extension == "o" and not f.is_directory]:
            source = None
            argv = action.argv
            extension = (source_of(argv) or "").rpartition(".")[2]
            plain = extension == "c" and not _is_not_plain(argv)
            if plain and sources == None:
                sources = _uses_sources(ctx)
                headers = _headers(ctx, target, dependencies) if sources else None
            if plain and sources:
                source = _source_manifest(ctx, object, action, headers, others)
            unit = struct(object = object, manifest = declare(ctx, object, ".manifest"), source = source)
            assembly = extension in ["S", "s", "asm"]
            variants.setdefault((object.path.endswith(".pic.o"), assembly), []).append(unit)
    for (_, assembly), units in variants.items():
        _object_manifests(ctx, units, "Reading objects of %{label}", ["--assembly"] if assembly else [])
    return variants.values()
