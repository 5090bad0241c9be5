"""Probes: what the toolchain adds to links, asked of its own linker.

Nearly all tests of a build are linked by the same flags. So one probe, of targets
that link nothing, serves them all; a test that is linked in another way has one of
its own. Which of them it is makes no difference to the fingerprint.
"""

load(":compose.bzl", "is_linkable", "is_shared_library")
load(":manifests.bzl", "LINKS", "features_of", "toolchain_files", "variables_of_toolchain")
load(":toolchain.bzl", "TOOLCHAIN_TYPE")
load(":worker.bzl", "parameters")

visibility(["//rules", "//rules/..."])

ProbeInfo = provider(
    doc = "A probe of links that any test may have.",
    fields = {
        "file": "File: what `tasting probe` found out.",
        "linker": "string: the driver that links.",
        "env": "dict of strings: its environment.",
        "lines": "dict whose keys are the `line_key`s of the links.",
        "starts": "dict whose keys are the programs that are started to link and to archive.",
        "words": "dict whose keys are their `tool_words`.",
        "inputs": "dict whose keys are the Files beside code that links of nothing have.",
        "tools": "list of File: what `tasting tools` found out about them, if there are any.",
        "features": "the features of the programs that are linked.",
        "variables": "list of strings NAME=VALUE: what the toolchain puts into the environment of links.",
    },
)

# Flags that say something of code that is linked, or of the output, and don't
# choose files of the system.
_OF_CODE = {word: None for word in [
    "-Wl,--end-lib",
    "-Wl,--no-whole-archive",
    "-Wl,--start-lib",
    "-Wl,--whole-archive",
    "-Wl,-no-whole-archive",
    "-Wl,-whole-archive",
]}

_OF_OUTPUTS = ("-Lbazel-out/", "-Wl,-rpath,", "-Wl,-soname")

def line_words(argv, code):
    """The words of a link that don't name what the build makes, nor where it is.

    Args:
      argv: list of strings: the command line after the tool.
      code: list of File: the objects, archives and shared libraries that it links.

    Returns:
      list of strings, in their order
    """
    built = {}
    for file in code:
        built[file.path] = None
        if is_shared_library(file):
            built["-l:" + file.basename] = None
            built["-l" + file.basename.removeprefix("lib").partition(".so")[0]] = None

    words = []
    before = ""
    for word in argv:
        if before == "-o":
            words.pop()
        elif before == "-rpath" and word == "-Xlinker":
            # -Xlinker -rpath -Xlinker DIRECTORY
            before = "-rpath -Xlinker"
            continue
        elif before == "-rpath -Xlinker":
            words.pop()
            words.pop()
        elif word not in built and word not in _OF_CODE and not word.startswith(_OF_OUTPUTS):
            words.append(word)
        before = word
    return words

def line_key(words):
    """What two links have in common that take the same from the system.

    That they do is decided by the analyzer; if a test was given a probe that
    doesn't know its links, its program counts with its content.

    Args:
      words: list of strings, see line_words.

    Returns:
      tuple of strings
    """

    # A library that is named twice is linked once.
    libraries = {word: None for word in words if word.startswith("-l")}
    return tuple([word for word in words if word not in libraries] + sorted(libraries))

# Flags that name tools, or directories with them.
_TOOL_FLAGS = ("--ld-path", "--sysroot", "--gcc-toolchain", "--gcc-install-dir", "-B", "-fuse-ld=", "-fplugin", "-resource-dir", "-specs", "--specs", "-wrapper")

# What is no tool among the files of a toolchain.
_NO_TOOLS = ["cppmap", "h", "hh", "hpp", "hxx", "md", "modulemap"]
_NO_TOOL_NAMES = ("BUILD", "LICENSE", "builtin_include_directory_paths", "deps_scanner_wrapper", "validate_static_library")

def tool_words(argv):
    """The words of a command line that say which tools it uses.

    Args:
      argv: list of strings.

    Returns:
      list of strings
    """
    words = argv[:1]
    before = ""
    for word in argv[1:]:
        if word.startswith(_TOOL_FLAGS) or before in _TOOL_FLAGS or "plugin" in word + before:
            words.append(word)
        if word != "-Xlinker":  # each word behind one of its own: -Xlinker -plugin -Xlinker FILE
            before = word
    return words

def tools_of(words, toolchain):
    """What a build has itself of the tools that link and archive.

    Args:
      words: list of strings, see tool_words.
      toolchain: depset of File: what the compiler and the linker consist of.

    Returns:
      list of File: all of the toolchain's, if one of the words leads to some.
    """
    files = [f for f in toolchain.to_list() if not is_linkable(f) and f.extension not in _NO_TOOLS and not f.basename.startswith(_NO_TOOL_NAMES)]
    paths = {}
    for file in files:
        parts = file.path.split("/")
        paths.update({"/".join(parts[:i + 1]): None for i in range(1, len(parts))})
    for word in words:
        for piece in [word] + word.split(","):
            for path in [piece, piece.rpartition("=")[2]] + [piece.removeprefix(flag) for flag in _TOOL_FLAGS]:
                if path.removeprefix("./").rstrip("/") in paths:
                    return files
    return []

def is_usual(ctx):
    """Whether a target's links have in their environment what those of nothing have.

    Args:
      ctx: the aspect's context.

    Returns:
      bool
    """
    shared = ctx.attr._probe[ProbeInfo]
    return features_of(ctx) == shared.features or variables_of_toolchain(ctx, LINKS) == shared.variables

def describe_tools(ctx, output, files, variables, of):
    """Registers the action that says what the build's own tools are.

    Args:
      ctx: context of the rule or aspect.
      output: File to write.
      files: list of File.
      variables: list of strings NAME=VALUE.
      of: string, for messages.
    """
    args = parameters(ctx)
    args.add_all(files, expand_directories = False)
    ctx.actions.run(
        executable = ctx.toolchains[TOOLCHAIN_TYPE].analyzer,
        arguments = ["internal", "tools", "-o", output.path] + ["--variable=" + v for v in variables] + [args],
        inputs = files,
        outputs = [output],
        mnemonic = "TastingTools",
        progress_message = "Reading the tools that link %s" % of,
        toolchain = TOOLCHAIN_TYPE,
    )

def run_probe(ctx, probe, flag, files, linker, env, toolchain, of):
    """Registers the action that finds out what the toolchain adds to some links.

    Args:
      ctx: context of the rule or aspect.
      probe: File to write.
      flag: string, the format of a flag that names a file.
      files: list of File, which describe the links.
      linker: string, the driver that links.
      env: dict of strings, its environment.
      toolchain: depset of File: what the compiler and the linker consist of.
      of: string, for messages.
    """
    args = ctx.actions.args()
    args.add_all(["internal", "probe"])
    args.add("-o", probe)
    args.add_all(files, format_each = flag)
    args.add("--")
    args.add(linker)
    ctx.actions.run(
        executable = ctx.toolchains[TOOLCHAIN_TYPE].analyzer,
        arguments = [args],
        # Not the code: a link of nothing needs none.
        inputs = depset(files, transitive = [toolchain]),
        outputs = [probe],
        env = env,
        use_default_shell_env = True,
        mnemonic = "TastingProbe",
        progress_message = "Asking the linker of %s for its own libraries" % of,
        toolchain = TOOLCHAIN_TYPE,
    )

_TemplateInfo = provider(
    doc = "How targets that link nothing are linked.",
    fields = {
        "links": "list of struct(linker, env, words), that of the program first.",
        "toolchain": "depset of File: what the compiler and the linker consist of.",
        "starts": "dict whose keys are the programs that are started.",
        "words": "dict whose keys are their `tool_words`.",
        "inputs": "dict whose keys are the Files beside code that they read.",
        "features": "the features of the program.",
        "variables": "list of strings NAME=VALUE.",
    },
)

def _template_aspect_impl(target, ctx):
    links = []
    actions = [action for action in target.actions if action.mnemonic in ["CppArchive", "CppLink"]]
    starts = {action.argv[0]: None for action in actions}
    words = {word: None for action in actions for word in tool_words(action.argv)}
    inputs = {f: None for action in actions for f in action.inputs.to_list() if not is_linkable(f) and f.extension != "params"}
    for action in actions:
        if action.mnemonic != "CppLink":
            continue
        links.append(struct(
            linker = action.argv[0],
            env = action.env,
            words = line_words(action.argv[1:], [f for f in action.inputs.to_list() if is_linkable(f)]),
        ))
    for dependency in getattr(ctx.rule.attr, "deps", []):
        if _TemplateInfo in dependency:
            links.extend(dependency[_TemplateInfo].links)
            starts.update(dependency[_TemplateInfo].starts)
            words.update(dependency[_TemplateInfo].words)
            inputs.update(dependency[_TemplateInfo].inputs)
    return [_TemplateInfo(
        links = links,
        toolchain = toolchain_files(ctx),
        starts = starts,
        words = words,
        inputs = inputs,
        features = features_of(ctx),
        variables = variables_of_toolchain(ctx, LINKS),
    )]

_template_aspect = aspect(
    implementation = _template_aspect_impl,
    attr_aspects = ["deps"],
    fragments = ["cpp"],
)

def _shared_probe_impl(ctx):
    templates = [t[_TemplateInfo] for t in ctx.attr.programs]
    links = [link for template in templates for link in template.links]
    if not links:
        # A toolchain that links in a way of its own: each test has its own probe.
        return [ProbeInfo(file = None, linker = None, env = None, lines = {}, starts = {}, words = {}, inputs = {}, tools = [], features = None, variables = [])]
    first = links[0]
    lines = {}
    for link in links:
        if link.linker == first.linker and link.env == first.env:
            lines.setdefault(line_key(link.words), link)

    files = []
    for link in lines.values():
        file = ctx.actions.declare_file("%s%d.line" % (ctx.label.name, len(files)))
        args = ctx.actions.args()
        args.set_param_file_format("multiline")
        args.add_all(link.words)
        ctx.actions.write(file, args)
        files.append(file)
    probe = ctx.actions.declare_file(ctx.label.name + ".toolchain")
    run_probe(ctx, probe, "--line=%s", files, first.linker, first.env, templates[0].toolchain, "most tests")
    template = templates[0]
    own = tools_of(template.words.keys(), template.toolchain)
    tools = []
    if own or template.variables:
        tools.append(ctx.actions.declare_file(ctx.label.name + ".tools"))
        describe_tools(ctx, tools[0], own, template.variables, "most tests")
    return [ProbeInfo(
        file = probe,
        linker = first.linker,
        env = first.env,
        lines = lines,
        starts = template.starts,
        words = template.words,
        inputs = template.inputs,
        tools = tools,
        features = template.features,
        variables = template.variables,
    )]

shared_probe = rule(
    implementation = _shared_probe_impl,
    doc = "The probe of links that any test may have.",
    attrs = {
        "programs": attr.label_list(
            doc = "Programs that link nothing, with libraries that do neither.",
            mandatory = True,
            aspects = [_template_aspect],
        ),
    },
    toolchains = [TOOLCHAIN_TYPE],
)
