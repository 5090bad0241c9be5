"""The aspect that makes manifests of everything that a test links.

1. `TastingObject` reads the objects that Bazel's own compile actions make, and
   what is linked as it is, into manifests: components, their hashes and their
   links.
2. C that clang can read has a second manifest, made before anything is compiled.
   `TastingPreprocess` turns the source into a normalised translation unit (.tu),
   in which comments and layout are gone, and tells Bazel which headers were not
   read. An edit of those runs nothing, and an edit that leaves the .tu alone ends
   here. `TastingAnalyze` reads the .tu. Nothing is reconstructed: what is analysed
   is what is compiled, with `--per_file_copt`, features and make variables applied.
3. A description of every link that a target makes, from the command line of
   Bazel's own action, says which objects are where (link.bzl).
4. For a test, `TastingCompose` puts the descriptions, the manifests and the data
   together into NAME.tasting, and with what `TastingProbe` found out about the
   libraries that the toolchain adds to the link. It doesn't need the binary.

Only what is asked for is built: for `tasting_cc_test` the manifests of objects,
which it has; for `tasting test` those of sources where there are any, and of
the objects for the rest.

The link action of the test is the judge of completeness: every object, archive
and shared library among its inputs that nothing is known of is read as it is.
So a dependency that the aspect can't see into costs precision, never soundness.
"""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":compose.bzl", "compose_arguments", "data_files", "declare_program", "files_of_runfiles", "is_linkable", "runfiles_without")
load(":link.bzl", "aliases", "describe_libraries", "describe_link", "scripts_of", "unit_file", "unit_files")
load(":manifests.bzl", "LINKS", "compiled_units", "declare", "precompiled_manifest", "source_of", "toolchain_files", "variables_of_toolchain")
load(":probe.bzl", "ProbeInfo", "describe_tools", "is_usual", "run_probe", "tool_words", "tools_of")
load(":providers.bzl", "TastingInfo", "TastingRunnerInfo")
load(":settings.bzl", "StringFlagInfo")
load(":toolchain.bzl", "TOOLCHAIN_TYPE")
load(":worker.bzl", "WORKER")

visibility(["//rules", "//rules/..."])

# What ends the name of the real test of a tasting_cc_test, and its tag: what is
# made for it has the name of the tasting_cc_test.
REAL = ".real"
REAL_TAG = "tasting-real"

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

def _precompiled(ctx, names):
    """Objects and libraries that a target links as they are.

    Args:
      ctx: the aspect's context.
      names: dict from File to list of File, their second names.

    Returns:
      list of what is known of them, see TastingInfo.linked.
    """
    files = []
    for name in ["srcs", "objects", "pic_objects", "static_library", "pic_static_library", "shared_library"]:
        files.extend([f for f in getattr(ctx.rule.files, name, []) if is_linkable(f)])

    # The test is linked with the interface library and loads the shared one.
    interfaces = [f for f in getattr(ctx.rule.files, "interface_library", []) if is_linkable(f)]
    shared = getattr(ctx.rule.files, "shared_library", [])

    result = []
    for file in files + ([] if shared else interfaces):
        others = interfaces if file in shared else []
        result.append(unit_file(
            struct(object = file, manifest = precompiled_manifest(ctx, file), source = None),
            others + [n for f in [file] + others for n in names.get(f, [])],
            # What the linker sees of the library.
            scripts = others,
        ))
    return result

def _data(ctx, target, dependencies, linked):
    """Runfiles without the shared libraries that are linked."""
    if ctx.rule.kind not in _CC_RULES:
        # No knowledge of how the rule collects: all that it has. A program among it, or in a
        # filegroup, loads what the test is linked with for itself.
        loaded = files_of_runfiles([
            d
            for _, d in dependencies
            if TastingInfo not in d or d[DefaultInfo].files_to_run and d[DefaultInfo].files_to_run.executable
        ])
        known = {f: None for entry in linked.to_list() for f in entry.files if f not in loaded}
        data = [d[TastingInfo].data for _, d in dependencies if TastingInfo in d]
        return runfiles_without(ctx, target[DefaultInfo].default_runfiles, known).merge_all(data)

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

def _other_runfiles(ctx, target, link, known):
    """What a test finds in its runfiles and isn't linked with.

    Most of that is data. The rest are shared libraries that it can load, and what
    rules contribute that have the names of known ones.

    Args:
      ctx: the aspect's context.
      target: the test.
      link: its link action.
      known: dict from File to what is known of it, of all that is linked.

    Returns:
      runfiles
    """
    own = {_test_binary(target): None}
    for file in link.inputs.to_list():
        if file in known:
            own.update({f: None for f in known[file].files})
    return runfiles_without(ctx, _runfiles(target), own)

def _runfiles(target):
    """What the linked executable of a test runs with."""
    return target[TastingRunnerInfo].runfiles if TastingRunnerInfo in target else target[DefaultInfo].default_runfiles

def _additional_linker_inputs(ctx, dependencies):
    """Dict of the files that a target or what it links declares for its link."""
    files = {f: None for f in getattr(ctx.rule.files, "additional_linker_inputs", [])}
    contexts = [t[CcInfo].linking_context.linker_inputs for _, t in dependencies if CcInfo in t]
    for linker_input in depset(transitive = contexts).to_list():
        files.update({f: None for f in linker_input.additional_inputs})
    return files

def _probe(ctx, link, links):
    """The file that says what the toolchain adds to the links of a test.

    Args:
      ctx: the aspect's context.
      link: the link action of the test.
      links: the descriptions of all its links, its own first, see TastingInfo.linked.

    Returns:
      File
    """
    shared = ctx.attr._probe[ProbeInfo]
    if link.argv[0] == shared.linker and link.env == shared.env and not [x for x in links if x.line and x.line not in shared.lines]:
        return shared.file
    probe = declare(ctx, link.outputs.to_list()[0], ".toolchain")
    run_probe(ctx, probe, "--link=%s", [x.file for x in links], link.argv[0], link.env, toolchain_files(ctx), str(ctx.label))
    return probe

def _tools(ctx, link, usual):
    """What says which tools the build has itself for the links of a test.

    Args:
      ctx: the aspect's context.
      link: the link action of the test.
      usual: see is_usual.

    Returns:
      list of File
    """
    shared = ctx.attr._probe[ProbeInfo]
    words = tool_words(link.argv)
    if usual and not [word for word in words if word not in shared.words]:
        return shared.tools
    tools = declare(ctx, link.outputs.to_list()[0], ".tools")
    describe_tools(ctx, tools, tools_of(words, toolchain_files(ctx)), variables_of_toolchain(ctx, LINKS), str(ctx.label))
    return [tools] + shared.tools

def _compose(ctx, target, link, linked, data, additional, usual):
    """Registers the action that makes NAME.tasting.

    Args:
      ctx: the aspect's context.
      target: the test.
      link: its link action.
      linked: what is known of the executable, see TastingInfo.linked.
      data: runfiles.
      additional: dict whose keys are files that the link reads beside code.
      usual: see is_usual.

    Returns:
      (config, closure, list with the file by which traces decide or empty, what `tasting test` needs, the same
      with C by source)
    """
    name = ctx.label.name.removesuffix(REAL) if REAL_TAG in ctx.rule.attr.tags else ctx.label.name
    config = ctx.actions.declare_file(name + ".tasting")
    closure = ctx.actions.declare_file(name + ".closure")

    # Who starts a cc_test is `tasting test`, which needs no such file.
    traces = ctx.attr._traces[StringFlagInfo].value
    program = declare_program(ctx, name, traces) if REAL_TAG in ctx.rule.attr.tags else []

    tools = _tools(ctx, link, usual)
    scripts = depset(scripts_of(ctx, link, additional), transitive = [depset(linked.scripts)]).to_list()

    mapping = target[DefaultInfo].files_to_run.repo_mapping_manifest
    mappings = [mapping] if mapping else []
    args = compose_arguments(
        ctx,
        config = config,
        closure = closure,
        binary = _test_binary(target),
        scripts = scripts,
        tools = tools,
        requirements = _requirements(target) | getattr(ctx.rule.attr, "exec_properties", {}),
        data = data,
        tags = ctx.rule.attr.tags,
        local = getattr(ctx.rule.attr, "local", False),
        env_keys = getattr(ctx.rule.attr, "env", {}).keys() + getattr(ctx.rule.attr, "env_inherit", []),
        words = _located(ctx, ctx.rule.attr.args) + _environment(target).values(),
        store = ctx.attr._store[StringFlagInfo].value,
        program = program,
        traces = traces,
    )
    args.add_all(_runfiles(target).empty_filenames, format_each = "--data-empty=%s")  # ctx.runfiles can't have them
    links = [x.file for x in linked.links]
    args.add_all(links, format_each = "--link=%s")
    args.add_all(mappings, format_each = "--repo-mapping=%s")
    probe = _probe(ctx, link, linked.links)
    args.add(probe, format = "--toolchain-files=%s")
    inputs = depset(scripts + tools + links + mappings, transitive = [data_files(data)])
    ctx.actions.run(
        executable = ctx.toolchains[TOOLCHAIN_TYPE].analyzer,
        arguments = ["internal", "compose", args],
        inputs = depset([probe], transitive = [linked.manifests, inputs]),
        outputs = [config, closure] + program,
        execution_requirements = WORKER,
        mnemonic = "TastingCompose",
        progress_message = "Composing fingerprint of %{label}",
        toolchain = TOOLCHAIN_TYPE,
    )

    if TastingRunnerInfo in target:
        return config, closure, program, depset(), depset()  # The runner decides, whoever starts it.

    # The same for `tasting test`, which composes all tests in one process.
    arguments = ctx.actions.declare_file(ctx.label.name + ".tasting-compose")
    ctx.actions.write(arguments, args)
    description = ctx.actions.declare_file(ctx.label.name + ".tasting-test.json")
    ctx.actions.write(description, json.encode(_describe(ctx, target, link, linked, arguments)))

    # A hit hides nothing that fails to build: what the link reads is made, of whatever use it is.
    others = [f for f in link.inputs.to_list() if not f.is_source and not is_linkable(f) and f.extension != "params"]
    driver = depset([arguments, description] + others, transitive = [inputs])
    return config, closure, program, depset(transitive = [linked.manifests, driver]), depset(transitive = [linked.sources, driver])

def _located(ctx, args):
    """A test's arguments with the paths of labels, as in runfiles, in their place."""
    if not any(["$(" in arg for arg in args]):
        return args

    # Those that the rule itself takes; expand_location wants each label once. (Several
    # of data may be aliases of one target.)
    targets = list(getattr(ctx.rule.attr, "data", []))
    labels = {t.label: None for t in targets}
    for name in ["deps", "srcs", "tools"]:
        more = {t.label: t for t in getattr(ctx.rule.attr, name, []) if t.label not in labels}
        targets.extend(more.values())
        labels.update({label: None for label in more})
    located = []
    for arg in args:
        pieces = arg.split("$$")  # Behind two dollars nothing is expanded.
        for word in ["location", "locations"]:
            pieces = [p.replace("$(%s " % word, "$(%s " % word.replace("location", "rootpath")) for p in pieces]
        located.append("$$".join([ctx.expand_location(p, targets) for p in pieces]))
    return located

def _environment(target):
    """Dict of the variables that the test's rule sets."""
    return target[RunEnvironmentInfo].environment if RunEnvironmentInfo in target else {}

def _requirements(target):
    """Dict of what the test's rule asks of its execution."""
    return target[testing.ExecutionInfo].requirements if testing.ExecutionInfo in target else {}

def _describe(ctx, target, link, linked, arguments):
    """What decides how Bazel starts a test, for `tasting test`.

    Returns:
      struct for JSON: driver.description in analyzer/internal/run/driver.
    """
    environment = target[RunEnvironmentInfo] if RunEnvironmentInfo in target else None
    args = _located(ctx, ctx.rule.attr.args)
    return struct(
        compose = arguments.path,
        # Whether some of the code has manifests of its sources.
        source = any([f.path.endswith(".source.manifest") for f in linked.sources.to_list()]),
        args = args,
        # What the variables in args stand for.
        # (Since Bazel 9, those of the rule aren't the aspect's.)
        variables = getattr(ctx.rule, "var", ctx.var) if any(["$" in arg for arg in args]) else {},
        env = _environment(target),
        env_inherited = environment.inherited_environment if environment else [],
        shard_count = ctx.rule.attr.shard_count,
        tags = sorted(ctx.rule.attr.tags),
        exec_properties = getattr(ctx.rule.attr, "exec_properties", {}),
        requirements = _requirements(target),
        linker = link.argv[0],
        link_env = link.env,
    )

def _test_binary(target):
    """The linked executable of a test."""
    if TastingRunnerInfo in target:
        return target[TastingRunnerInfo].binary
    return target[DefaultInfo].files_to_run.executable

def _link_action(ctx, target):
    """The action that links the executable of a test, or None."""
    if not ctx.rule.kind.endswith("_test"):
        return None
    executable = _test_binary(target)
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
    names = aliases(target)
    own = [entry for units in compiled_units(ctx, target, dependencies) for entry in unit_files(units)] + _precompiled(ctx, names)
    known = {file: entry for entry in own for file in entry.files}
    usual = is_usual(ctx)
    own = describe_libraries(ctx, target, link, names, known, infos, usual) + own
    linked = depset(own, transitive = [info.linked for info in infos])
    manifests = depset(
        transitive = [entry.manifests for entry in own] + [info.manifests for info in infos],
    )
    data = _data(ctx, target, dependencies, linked)
    config = None
    closure = None
    program = []
    driver = depset()
    source = depset()
    if link:
        executable = describe_link(ctx, target, link, _test_binary(target), [], "executable", known, infos, usual)
        manifests = executable.manifests
        data = data.merge(_other_runfiles(ctx, target, link, known))
        config, closure, program, driver, source = _compose(ctx, target, link, executable, data, _additional_linker_inputs(ctx, dependencies), usual)

    return [
        TastingInfo(
            linked = linked,
            manifests = manifests,
            data = data,
            config = config,
            closure = closure,
            program = program,
        ),
        OutputGroupInfo(
            tasting_manifests = manifests,
            tasting_config = depset([config] if config else []),
            tasting_closure = depset([closure] if closure else []),
            tasting_test = driver,
            tasting_source = source,
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
test also `tasting_closure`, NAME.closure, `tasting_config`, NAME.tasting, and what
`tasting test` reads: `tasting_test` with the manifests of objects, `tasting_source`
with those of sources for C that has them. The same descriptions of links name both.
Provides TastingInfo.
""",
    attr_aspects = _LINK_ATTRIBUTES,
    fragments = ["cpp"],
    attrs = {
        "_evidence": attr.label(default = Label("//rules:evidence"), providers = [StringFlagInfo]),
        "_probe": attr.label(default = Label("//rules/private:probe"), providers = [ProbeInfo]),
        "_store": attr.label(default = Label("//rules:store"), providers = [StringFlagInfo]),
        "_traces": attr.label(default = Label("//rules:traces"), providers = [StringFlagInfo]),
    },
    toolchains = [TOOLCHAIN_TYPE],
)

# For the tests of this file only.
testonly_functions = struct(
    source_of = source_of,
)
