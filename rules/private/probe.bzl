"""Probes: what the toolchain adds to links, asked of its own linker.

Nearly all tests of a build are linked by the same flags. So one probe, of targets
that link nothing, serves them all; a test that is linked in another way has one of
its own. Which of them it is makes no difference to the fingerprint.
"""

load(":compose.bzl", "is_linkable", "is_shared_library")
load(":manifests.bzl", "toolchain_files")
load(":toolchain.bzl", "TOOLCHAIN_TYPE")

visibility(["//rules", "//rules/..."])

ProbeInfo = provider(
    doc = "A probe of links that any test may have.",
    fields = {
        "file": "File: what `tasting probe` found out.",
        "linker": "string: the driver that links.",
        "env": "dict of strings: its environment.",
        "lines": "dict whose keys are the `line_key`s of the links.",
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
    args.add("probe")
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
    },
)

def _template_aspect_impl(target, ctx):
    links = []
    for action in target.actions:
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
    return [_TemplateInfo(links = links, toolchain = toolchain_files(ctx))]

_template_aspect = aspect(
    implementation = _template_aspect_impl,
    attr_aspects = ["deps"],
)

def _shared_probe_impl(ctx):
    templates = [t[_TemplateInfo] for t in ctx.attr.programs]
    links = [link for template in templates for link in template.links]
    if not links:
        # A toolchain that links in a way of its own: each test has its own probe.
        return [ProbeInfo(file = None, linker = None, env = None, lines = {})]
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
    return [ProbeInfo(file = probe, linker = first.linker, env = first.env, lines = lines)]

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
