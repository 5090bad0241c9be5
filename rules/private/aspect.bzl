"""The aspect that makes manifests of everything that a test links.

1. For every C or C++ source, the aspect reads the command line of Bazel's own
   compile action. Nothing is reconstructed: what is analysed is what is
   compiled, with `--per_file_copt`, features and make variables applied.
2. `TastingPreprocess` turns the source into a normalised translation unit
   (.tu), in which comments and layout are gone, and tells Bazel which headers
   were not read. An edit of those runs nothing, and an edit that leaves the
   .tu alone ends here.
3. `TastingAnalyze` turns the .tu into a manifest: components, their hashes and
   their links.
4. What has no readable source (assembly, precompiled objects, libraries of
   unknown rules) gets its manifest from the object file by `TastingObject`.
5. For a test, `TastingCompose` puts the manifests, the link flags and the data
   together into NAME.tasting. It needs neither the objects nor the binary.

The link action of the test is the judge of completeness: every object, archive
and shared library among its inputs that no manifest speaks for is read as an
object. So a dependency that the aspect can't see into costs precision, never
soundness.
"""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":providers.bzl", "TastingInfo")
load(":settings.bzl", "StringFlagInfo")
load(":toolchain.bzl", "TOOLCHAIN_TYPE")

visibility(["//rules", "//rules/..."])

# Attributes through which code gets linked.
_LINK_ATTRIBUTES = [
    "_default_malloc",
    "actual",
    "deps",
    "exports",
    "implementation_deps",
    "interface_deps",
    "lib",
    "library",
    "link_extra_lib",
    "malloc",
    "reexport_deps",
]

# Rules whose way of linking and of collecting runfiles is known.
_CC_RULES = ["cc_binary", "cc_import", "cc_library", "cc_test"]

_ASSEMBLY = ["S", "s", "asm"]

# Bazel's own actions that turn objects into libraries, or give them a second name.
_LIBRARY_MNEMONICS = ["CppArchive", "CppLink", "SolibSymlink"]

# Flags by which code runs or resolves in ways that the links of the
# components don't tell: then everything linked is a root.
_ROOTING_FLAGS = [
    "-rdynamic",
    "export-dynamic",
    "dynamic-list",
    "version-script",
    "-wrap",
    "defsym",
    "-entry",
    "-init",
    "-fini",
    "-e,",
    "-E,",
    "-T,",
    "-script",
]
_ROOTING_WORDS = ["-E", "-Wl,-E", "-T", "-e", "-shared"]

def _is_linkable(file):
    """Whether a linker takes the file for code, rather than for a script or a flag."""
    return file.extension in ["a", "lo", "o", "so"] or ".so." in file.basename

def _is_shared_library(file):
    return file.extension == "so" or ".so." in file.basename

def _output_prefix(ctx):
    """Where the outputs of a target's actions begin, with a trailing slash."""
    parts = [ctx.bin_dir.path, ctx.label.workspace_root, ctx.label.package]
    return "/".join([part for part in parts if part]) + "/"

def _declare(ctx, file, suffix):
    """An output for what is derived from `file`, unlike that of any other file."""
    prefix = _output_prefix(ctx)
    path = file.path.removeprefix(prefix) if file.path.startswith(prefix) else "linked/" + file.path.removeprefix(ctx.bin_dir.path + "/")
    return ctx.actions.declare_file("_tasting/%s/%s%s" % (ctx.label.name, path, suffix))

def _object_manifest(ctx, file):
    """Registers the action that reads an object, archive or shared library."""
    tasting = ctx.toolchains[TOOLCHAIN_TYPE]
    manifest = _declare(ctx, file, ".manifest")
    args = ctx.actions.args()
    args.add("object")
    args.add("-o", manifest)
    args.add(file)
    ctx.actions.run(
        executable = tasting.analyzer,
        arguments = [args],
        inputs = [file],
        outputs = [manifest],
        mnemonic = "TastingObject",
        progress_message = "Reading object %{input} of %{label}",
        toolchain = TOOLCHAIN_TYPE,
    )
    return manifest

def _source_of(argv):
    """The source file of a compiler's command line, or None."""
    for i in range(len(argv) - 1):
        if argv[i] == "-c":
            return argv[i + 1]
    return None

def _compilations(target):
    """The compile actions of a target.

    Returns:
      list of struct(source, object, action, others): the path of the source,
      the object file, the action to analyse, and further actions that compile
      the same source to stand in for the same object (without -fPIC).
    """
    by_object = {}
    for action in target.actions:
        if action.mnemonic != "CppCompile":
            continue
        objects = [f for f in action.outputs.to_list() if f.extension == "o" and not f.is_directory]
        if not objects:
            continue  # A header's syntax check, a module.

        # The source tells x.pic.o of x.pic.c from that of x.c.
        key = (_source_of(action.argv), objects[0].path.removesuffix(".o").removesuffix(".pic"))
        by_object.setdefault(key, []).append((objects[0], action))

    compilations = []
    for variants in by_object.values():
        # "x.pic.o" sorts behind "x.o".
        variants = sorted(variants, key = lambda v: v[0].path, reverse = True)
        compilations.append(struct(
            objects = [object for object, _ in variants],
            action = variants[0][1],
            others = [action for _, action in variants[1:]],
        ))
    return compilations

def _compiler_files(ctx):
    """list of depsets of the files that the build's compiler consists of."""
    toolchain = getattr(ctx.rule.attr, "_cc_toolchain", None)
    if toolchain and cc_common.CcToolchainInfo in toolchain:
        return [toolchain[cc_common.CcToolchainInfo].all_files]
    return []

def _source_manifest(ctx, compilation, headers, others):
    """Registers the two actions that analyse a translation unit.

    Args:
      ctx: the aspect's context.
      compilation: what _compilations returns.
      headers: depset of files that a compilation may include. Edits of those
        that it doesn't read run nothing.
      others: list of files that a compilation may read in any way: every edit
        runs it again.

    Returns:
      File: the manifest.
    """
    tasting = ctx.toolchains[TOOLCHAIN_TYPE]
    object = compilation.objects[0]
    tu = _declare(ctx, object, ".tu")
    unused = _declare(ctx, object, ".unused")
    manifest = _declare(ctx, object, ".manifest")

    args = ctx.actions.args()
    args.add("preprocess")
    args.add("-o", tu)
    args.add(tasting.clang, format = "--clang=%s")
    args.add(unused, format = "--unused-inputs=%s")
    variants = []
    for i, other in enumerate(compilation.others):
        variant = _declare(ctx, object, ".variant%d" % i)
        ctx.actions.write(variant, other.args[0])
        args.add(variant, format = "--variant=%s")
        variants.append(variant)

    # In the command line, so that a header that appears or disappears runs the
    # action again: it may stand in front of another of the same name.
    candidates = ctx.actions.args()
    candidates.add_all(headers)
    candidates.set_param_file_format("multiline")
    candidates.use_param_file("--inputs=%s", use_always = True)

    # The compiler sees the environment of Bazel's compile actions.
    ctx.actions.run(
        executable = tasting.analyzer,
        arguments = [args, candidates, "--"] + compilation.action.args,
        inputs = depset(variants + others, transitive = [compilation.action.inputs, headers, tasting.clang_files]),
        outputs = [tu, unused],
        unused_inputs_list = unused,
        env = compilation.action.env,
        use_default_shell_env = True,
        mnemonic = "TastingPreprocess",
        progress_message = "Preprocessing for %{output}",
        toolchain = TOOLCHAIN_TYPE,
    )

    args = ctx.actions.args()
    args.add("analyze")
    args.add("-o", manifest)
    args.add(tasting.clang, format = "--clang=%s")
    args.add(tu)

    # C++ that clang doesn't compile is analysed by its compiler's object code.
    ctx.actions.run(
        executable = tasting.analyzer,
        arguments = [args],
        inputs = depset([tu], transitive = [tasting.clang_files] + _compiler_files(ctx)),
        outputs = [manifest],
        env = compilation.action.env,
        use_default_shell_env = True,
        mnemonic = "TastingAnalyze",
        progress_message = "Analysing for %{output}",
        toolchain = TOOLCHAIN_TYPE,
    )
    return manifest

def _attribute_targets(ctx):
    """(name, Target) of every dependency through a public or a linking attribute."""
    result = []
    for name in dir(ctx.rule.attr):
        if name.startswith("_") and name not in _LINK_ATTRIBUTES:
            continue
        value = getattr(ctx.rule.attr, name)
        if type(value) == "dict":
            value = value.keys()
        elif type(value) != "list":
            value = [value]
        result.extend([(name, t) for t in value if type(t) == "Target"])
    return result

def _headers(ctx, target, dependencies):
    """depset of every file that a compile action of the target may include."""
    contexts = [t[CcInfo].compilation_context for _, t in dependencies if CcInfo in t]
    if CcInfo in target:
        contexts.append(target[CcInfo].compilation_context)
    direct = []
    for name in ["srcs", "hdrs", "textual_hdrs"]:
        direct.extend(getattr(ctx.rule.files, name, []))
    return depset(direct, transitive = [c.headers for c in contexts])

def _precompiled(ctx):
    """Objects and libraries that a target links as they are."""
    files = []
    for name in ["srcs", "objects", "pic_objects", "static_library", "pic_static_library", "shared_library"]:
        files.extend([f for f in getattr(ctx.rule.files, name, []) if _is_linkable(f)])
    return files

def _own_libraries(ctx, target, own, infos):
    """Archives and shared libraries made of nothing but what manifests speak for."""
    actions = [a for a in target.actions if a.mnemonic in _LIBRARY_MNEMONICS]
    if ctx.rule.kind not in _CC_RULES and actions:
        known = {f: None for f in depset(own, transitive = [i.covered for i in infos]).to_list()}
    else:
        known = None  # These rules put nothing else into a library, but for directories.

    # Objects of sources that are known only when the build runs have no
    # manifest.
    opaque = {}
    for action in actions:
        if [f for f in action.inputs.to_list() if f.is_directory and f.owner == target.label]:
            opaque.update({f: None for f in action.outputs.to_list()})

    libraries = []
    for action in actions:
        if [f for f in action.inputs.to_list() + action.outputs.to_list() if f in opaque]:
            continue
        if known != None:
            if [f for f in action.inputs.to_list() if _is_linkable(f) and f not in known]:
                continue
            known.update({f: None for f in action.outputs.to_list()})
        libraries.extend([f for f in action.outputs.to_list() if _is_linkable(f)])
    return libraries

def _data(ctx, target, dependencies, covered):
    """Runfiles without the shared libraries that manifests speak for."""
    if ctx.rule.kind not in _CC_RULES:
        # No knowledge of how the rule collects: all that it has.
        covered = {f: None for f in covered.to_list()}
        runfiles = target[DefaultInfo].default_runfiles
        return ctx.runfiles(
            files = [f for f in runfiles.files.to_list() if f not in covered],
            symlinks = {e.path: e.target_file for e in runfiles.symlinks.to_list()},
            root_symlinks = {e.path: e.target_file for e in runfiles.root_symlinks.to_list()},
        )

    parts = []
    for name, dependency in dependencies:
        if name != "data" and TastingInfo in dependency:
            parts.append(dependency[TastingInfo].data)
            continue
        parts.append(dependency[DefaultInfo].default_runfiles)
        if name == "data":
            parts.append(dependency[DefaultInfo].data_runfiles)
            parts.append(ctx.runfiles(transitive_files = dependency[DefaultInfo].files))
    return ctx.runfiles().merge_all([part for part in parts if part])

def _library_flag(file):
    """The flag by which a shared library is linked, if it isn't by its path."""
    return "-l" + file.basename.removeprefix("lib").partition(".so")[0]

def _link_flags(ctx, link):
    """The flags of a link action, without what the manifests and their order say.

    Returns:
      (flags, line): lists of strings without output directories. `flags` are
      also free of the names of objects and of the libraries that Bazel links.
    """
    files = {}
    libraries = {}
    for file in link.inputs.to_list() + link.outputs.to_list():
        files[file.path] = True
        if _is_shared_library(file):
            libraries[_library_flag(file)] = True

    flags = []
    line = []
    skip = 0
    argv = link.argv
    for i, arg in enumerate(argv):
        if skip:
            skip -= 1
        elif arg == "-o":
            skip = 1
        elif argv[i:i + 3] == ["-Xlinker", "-rpath", "-Xlinker"] and "_solib_" in " ".join(argv[i + 3:i + 4]):
            skip = 3
        elif arg.startswith("-Wl,-rpath") and "_solib_" in arg:
            pass
        else:
            name = arg.replace(ctx.bin_dir.path, "bin")
            line.append(name)
            if not (arg in files or arg in libraries or arg.startswith("@") or (arg.startswith("-L" + ctx.bin_dir.path) and "_solib_" in arg)):
                flags.append(name)
    return flags, line

def _on_demand(link, units):
    """List of the manifests of what the linker of a test may leave out.

    Args:
      link: the link action.
      units: depset of what TastingInfo calls units, without the test's own
        sources.

    Returns:
      list of File
    """
    as_needed = [arg for arg in link.argv if arg in ["-Wl,--as-needed", "-Wl,-as-needed"]]
    inputs = {f: None for f in link.inputs.to_list()}
    manifests = []
    for unit in units.to_list():
        if as_needed or not [f for f in unit.shared if f in inputs]:
            manifests.extend(unit.manifests)
    return manifests

def _is_rooting(flag):
    if flag in _ROOTING_WORDS:
        return True
    for part in _ROOTING_FLAGS:
        if part in flag and flag.startswith("-"):
            return True
    return False

def _runfiles_paths(workspace_name):
    def path(file):
        return file.short_path[3:] if file.short_path.startswith("../") else workspace_name + "/" + file.short_path

    return struct(
        of = path,
        file = lambda file: "--data=%s=%s" % (path(file), file.path),
        directory = lambda file: "--data-empty=%s/" % path(file) if file.is_directory else None,
        symlink = lambda entry: "--data=%s/%s=%s" % (workspace_name, entry.path, entry.target_file.path),
        root_symlink = lambda entry: "--data=%s=%s" % (entry.path, entry.target_file.path),
    )

def _tag_reasons(ctx, tags):
    return ["tag " + t for t in ctx.rule.attr.tags if t in tags]

def _additional_linker_inputs(ctx, dependencies):
    """Dict of the files that a target or what it links declares for its link."""
    files = {f: None for f in getattr(ctx.rule.files, "additional_linker_inputs", [])}
    contexts = [t[CcInfo].linking_context.linker_inputs for _, t in dependencies if CcInfo in t]
    for linker_input in depset(transitive = contexts).to_list():
        files.update({f: None for f in linker_input.additional_inputs})
    return files

def _compose(ctx, target, link, manifests, on_demand, misplaced, data, additional):
    """Registers the action that makes NAME.tasting.

    Args:
      ctx: the aspect's context.
      target: the test.
      link: its link action.
      manifests: depset of File, in link order.
      on_demand: list of those of them whose code the linker may leave out.
      misplaced: list of those of them that are elsewhere in the link.
      data: runfiles.
      additional: dict whose keys are files that the link reads beside code.

    Returns:
      (config, closure)
    """
    tasting = ctx.toolchains[TOOLCHAIN_TYPE]
    store = ctx.attr._store[StringFlagInfo].value
    config = ctx.actions.declare_file(ctx.label.name + ".tasting")
    closure = ctx.actions.declare_file(ctx.label.name + ".closure.json")
    paths = _runfiles_paths(ctx.workspace_name)
    flags, line = _link_flags(ctx, link)

    # Linker scripts and their like: inputs that a flag mentions, and what they
    # include in turn.
    text = "\n".join(link.argv)
    scripts = [
        f
        for f in link.inputs.to_list()
        if not _is_linkable(f) and (f in additional or f.extension != "params" and f.path in text)
    ]

    args = ctx.actions.args()
    args.set_param_file_format("multiline")
    args.use_param_file("@%s", use_always = True)
    args.add(config, format = "-o=%s")
    args.add(closure, format = "--closure=%s")
    args.add(paths.of(target[DefaultInfo].files_to_run.executable), format = "--binary=%s")
    args.add_all(flags, format_each = "--link-flag=%s")
    if scripts or any([_is_rooting(flag) for flag in flags]):
        args.add("--all-roots")
    args.add_all(scripts, format_each = "--link-input=%s")
    args.add_all(line, format_each = "--link-line=%s")
    args.add_all(misplaced, format_each = "--misplaced=%s")
    args.add_all(on_demand, format_each = "--on-demand=%s")
    args.add_all(data.files, map_each = paths.file, allow_closure = True)
    args.add_all(data.files, map_each = paths.directory, allow_closure = True, expand_directories = False)
    args.add_all(data.empty_filenames, format_each = "--data-empty=%s")
    args.add_all(data.symlinks, map_each = paths.symlink, allow_closure = True)
    args.add_all(data.root_symlinks, map_each = paths.root_symlink, allow_closure = True)
    args.add_all(_tag_reasons(ctx, ["external", "no-cache"]), format_each = "--always-run=%s")

    # These forbid only what is shared with other machines. Where the store is,
    # the runner knows.
    args.add_all(
        _tag_reasons(ctx, ["no-remote", "no-remote-cache", "no-remote-cache-upload"]),
        format_each = "--local-only=%s",
    )
    if store:
        # Flags are in the keys and logs of actions.
        for location in store.split(","):
            if "@" in location.partition("://")[2].partition("/")[0]:
                fail("--@rules_tasting//rules:store: a user name or password must not be in it; see TASTING_STORE_FLAGS in docs/store.md")
        args.add(store, format = "--store=%s")
    env_keys = ctx.rule.attr.env.keys() + getattr(ctx.rule.attr, "env_inherit", [])
    args.add_all(sorted(env_keys), format_each = "--env-key=%s", uniquify = True)
    args.add_all(manifests)
    ctx.actions.run(
        executable = tasting.analyzer,
        arguments = ["compose", args],
        inputs = depset(
            scripts + [e.target_file for e in data.symlinks.to_list() + data.root_symlinks.to_list()],
            transitive = [manifests, data.files],
        ),
        outputs = [config, closure],
        mnemonic = "TastingCompose",
        progress_message = "Composing fingerprint of %{label}",
        toolchain = TOOLCHAIN_TYPE,
    )
    return config, closure

def _link_action(ctx, target):
    """The action that links the executable of a test, or None."""
    if not ctx.rule.kind.endswith("_test"):
        return None
    executable = target[DefaultInfo].files_to_run.executable
    for action in target.actions:
        if action.mnemonic == "CppLink" and executable in action.outputs.to_list():
            return action
    return None

def _tasting_aspect_impl(target, ctx):
    dependencies = _attribute_targets(ctx)
    link = _link_action(ctx, target)
    if CcInfo not in target and not link and ctx.rule.kind not in _CC_RULES:
        return []

    infos = [t[TastingInfo] for name, t in dependencies if name != "data" and TastingInfo in t]
    headers = _headers(ctx, target, dependencies)

    # Files of flags, profiles, binaries that asm includes.
    others = getattr(ctx.rule.files, "additional_compiler_inputs", [])
    manifests = []
    covered = []
    for compilation in _compilations(target):
        source = _source_of(compilation.action.argv)
        if not source or source.rpartition(".")[2] in _ASSEMBLY:
            manifests.extend([_object_manifest(ctx, o) for o in compilation.objects])
        else:
            manifests.append(_source_manifest(ctx, compilation, headers, others))
        covered.extend(compilation.objects)
    compiled = list(manifests)
    objects = {}
    for file in _precompiled(ctx):
        objects[file] = _object_manifest(ctx, file)
    manifests.extend(objects.values())
    covered.extend(objects.keys())

    libraries = _own_libraries(ctx, target, covered, infos)
    covered.extend(libraries)
    covered = depset(covered, transitive = [i.covered for i in infos])
    data = _data(ctx, target, dependencies, covered)
    config = None
    closure = None
    misplaced = []
    if link:
        known = {f: None for f in covered.to_list()}
        argv = {arg: None for arg in link.argv}
        for f in link.inputs.to_list():
            if _is_linkable(f) and f not in known:
                objects[f] = _object_manifest(ctx, f)
                manifests.append(objects[f])

                # The manifests don't tell where it is among the others.
                if f.path in argv or _library_flag(f) in argv:
                    misplaced.append(objects[f])
    manifests = depset(manifests, order = "topological", transitive = [i.manifests for i in infos])

    # Linked under these names, or those of links to them.
    shared = [f for f in libraries if _is_shared_library(f)]
    units = [
        struct(manifests = (m,), shared = tuple([f] + shared) if _is_shared_library(f) else ())
        for f, m in objects.items()
    ]
    if compiled and not link:
        units.append(struct(manifests = tuple(compiled), shared = tuple(shared)))
    units = depset(units, transitive = [i.units for i in infos])
    if link:
        on_demand = _on_demand(link, units)
        config, closure = _compose(ctx, target, link, manifests, on_demand, misplaced, data, _additional_linker_inputs(ctx, dependencies))

    return [
        TastingInfo(
            manifests = manifests,
            covered = covered,
            units = units,
            data = data,
            config = config,
            closure = closure,
        ),
        OutputGroupInfo(
            tasting_manifests = manifests,
            tasting_config = depset([config] if config else []),
            tasting_closure = depset([closure] if closure else []),
        ),
    ]

tasting_aspect = aspect(
    implementation = _tasting_aspect_impl,
    doc = """Makes the manifests of a target and of all that it links, and for a test
its fingerprint.

Needs no change of BUILD files:

```
bazel build --aspects=@rules_tasting//rules:defs.bzl%tasting_aspect \\
    --output_groups=tasting_closure //some:cc_test
```

Output groups: `tasting_manifests`, the manifests of all that is linked; for a
test also `tasting_closure`, NAME.closure.json, and `tasting_config`, NAME.tasting.
Provides TastingInfo.
""",
    attr_aspects = _LINK_ATTRIBUTES,
    attrs = {
        "_store": attr.label(default = Label("//rules:store"), providers = [StringFlagInfo]),
    },
    toolchains = [TOOLCHAIN_TYPE],
)

# For the tests of this file only.
testonly_functions = struct(
    is_rooting = _is_rooting,
    source_of = _source_of,
)
