"""Descriptions of links: what the link actions of Bazel say, for the model of the linker.

A description is a text file beside the manifests, one for each executable,
shared library and archive:

    tasting link 1
    output PATH                   what is linked or archived
    alias PATH                    another name of it: a symbolic link, its interface library
    kind executable|shared|archive
    unit PATH<TAB>MANIFEST        a file that the link may take code from, and its manifest
    source PATH<TAB>MANIFEST      the same, known by its source before it is compiled
    library PATH<TAB>FILE         a shared library that isn't linked here, and where it is before it has the name PATH
    arg WORD                      executable, shared: the command line after the tool, word by word
    member PATH                   archive: its members, in order

Nothing of it is judged here. What a flag means, which archive a name stands
for, which definition wins: all of that is in the analyzer.
"""

load(":compose.bzl", "is_linkable", "is_shared_library")
load(":manifests.bzl", "declare", "precompiled_manifest", "toolchain_files")
load(":probe.bzl", "ProbeInfo", "line_key", "line_words")

visibility(["//rules", "//rules/..."])

# Bazel's own actions that give a library a second name.
_ALIAS_MNEMONICS = ["SolibSymlink", "Symlink"]

def unit_files(units):
    """What is known of the objects of a target that are linked together.

    Args:
      units: list of struct(object, manifest, source).

    Returns:
      list of struct, see TastingInfo.linked.
    """
    together = struct(
        name = units[0].object.path,
        size = len(units),
        manifests = depset([unit.manifest for unit in units]),
        sources = depset([unit.source or unit.manifest for unit in units]),
    )
    return [unit_file(unit, together = together) for unit in units]

def unit_file(unit, names = [], scripts = [], together = None):
    """What is known of a file that speaks for itself.

    Args:
      unit: struct(object, manifest, source).
      names: list of File, other names for it.
      scripts: list of File that a link with it reads as well.
      together: see TastingInfo.linked.

    Returns:
      struct, see TastingInfo.linked.
    """
    return struct(
        files = tuple([unit.object] + names),
        unit = unit,
        links = (),
        manifests = depset([unit.manifest]),
        sources = depset([unit.source or unit.manifest]),
        scripts = tuple(scripts),
        together = together,
    )

def aliases(target):
    """The second names that a target gives to files.

    Args:
      target: Target.

    Returns:
      dict from File to list of File
    """
    names = {}
    for action in target.actions:
        if action.mnemonic in _ALIAS_MNEMONICS:
            inputs = action.inputs.to_list()
            if len(inputs) == 1:
                names.setdefault(inputs[0], []).extend(action.outputs.to_list())
    return names

# Flags that name tools, or directories with them: what these make of a link, the probe says.
_TOOL_FLAGS = ("--ld-path=", "--sysroot", "--gcc-toolchain", "--gcc-install-dir", "-B", "-fuse-ld=", "-resource-dir")

def _named(words):
    """The paths that a command line may name, and more.

    Args:
      words: list of strings, the command line; the first is the program.

    Returns:
      dict whose keys are strings
    """
    paths = {}
    for word in words[1:]:
        if word.startswith(_TOOL_FLAGS):
            continue
        for piece in word.split(","):
            for path in [piece, piece.removeprefix("-T"), piece.rpartition("=")[2]]:
                paths[path] = None
            for separator in ["=", "@", ":"]:
                paths[piece.partition(separator)[2]] = None
    return paths

def _mentions(named, file):
    """Whether a command line may name a file, or something in a directory."""
    if file.is_directory:
        return any([path == file.path or path.startswith(file.path + "/") for path in named])
    return file.extension != "params" and file.path in named

def scripts_of(ctx, action, additional):
    """Linker scripts and their like: what a link reads beside code.

    That are inputs which a flag mentions. If it mentions one of the toolchain's, what that
    includes in turn is among the toolchain's files as well; it isn't known which of them.

    Args:
      ctx: the aspect's context.
      action: the action that links.
      additional: dict whose keys are files that rules declare for it.

    Returns:
      list of File
    """
    named = _named(action.argv)

    # With --format=binary, an object is one of them if it is declared as one.
    blobs = any(["binary" in word for word in action.argv])
    files = [f for f in action.inputs.to_list() if (not is_linkable(f) or blobs and f in additional) and f.extension != "params"]
    mentioned = {f: None for f in files if _mentions(named, f)}
    if mentioned and [f for f in toolchain_files(ctx).to_list() if f in mentioned]:
        return files
    return [f for f in files if f in mentioned or f in additional]

def _unit_line(unit):
    return "unit %s\t%s" % (unit.path, unit.manifest.path)

def _library_line(unit):
    return "library %s\t%s" % (unit.path, unit.library.path)

def _source_line(unit):
    return "source %s\t%s" % (unit.path, unit.source.path)

def describe_link(ctx, target, action, output, names, kind, known, infos, usual):
    """Registers the action that writes the description of a link.

    Args:
      ctx: the aspect's context.
      target: Target.
      action: the action that links or archives.
      output: File that it makes.
      names: list of File, other names for it.
      kind: string.
      known: dict from File to what is known of it within the target; what
        turns out to be needed is added.
      infos: list of the TastingInfo of the dependencies.
      usual: see is_usual.

    Returns:
      what is known of the output, see TastingInfo.linked; None if its content is
      all that can be known.
    """
    inputs = action.inputs.to_list()
    argv = action.argv[1:]
    words = {arg: None for arg in argv}

    # What another program makes of its inputs, or this one if it is told something else, nobody
    # knows.
    probe = ctx.attr._probe[ProbeInfo]
    if kind != "executable" and not (usual and action.argv[0] in probe.starts):
        return None

    # What is compiled of sources that are known only when the build runs. A
    # test has such a directory as a file that its link reads.
    if kind != "executable" and [f for f in inputs if f.is_directory and (f.owner == target.label or f.path in words)]:
        return None

    code = [f for f in inputs if is_linkable(f)]
    excluded = {}
    if kind != "executable" and (ctx.rule.kind != "cc_library" or [f for f in code if f not in known]):
        # What the toolchain adds comes with the test, which is linked by the same.
        text = "\n".join(argv)
        excluded = {f: None for f in toolchain_files(ctx).to_list()}
        code = [f for f in code if f not in excluded or f.path in text]
    if [f for f in code if f not in known]:
        for info in infos:
            for entry in info.linked.to_list():
                for file in entry.files:
                    known.setdefault(file, entry)

    used = []
    units = []
    libraries = []
    for file in code:
        if file not in known:
            known[file] = unit_file(struct(object = file, manifest = precompiled_manifest(ctx, file), source = None))
        entry = known[file]
        used.append(entry)
        if entry.unit:
            # By the name that this link has for it.
            object = entry.unit.object
            library = object if is_shared_library(object) or object.extension == "ifso" else None
            units.append(struct(path = file.path, manifest = entry.unit.manifest, source = entry.unit.source, library = library))
        else:
            libraries.append(entry)

    paths = {unit.path: None for unit in units}
    members = [arg for arg in argv if arg in paths]
    others = [f for f in inputs if not is_linkable(f) and f.path in words and f.extension != "params"]
    if kind == "archive" and (libraries or others or len(members) != len(units)):
        return None

    link = declare(ctx, output, ".link")
    args = ctx.actions.args()
    args.set_param_file_format("multiline")
    args.add("tasting link 1")
    args.add(output, format = "output %s")
    args.add_all(names, format_each = "alias %s")
    args.add(kind, format = "kind %s")
    args.add_all(units, map_each = _unit_line)
    args.add_all([unit for unit in units if unit.source], map_each = _source_line)
    args.add_all([unit for unit in units if unit.library], map_each = _library_line)
    if kind == "archive":
        args.add_all(members, format_each = "member %s")
    else:
        args.add_all([arg.replace("\n", "\\n") for arg in argv], format_each = "arg %s")
    ctx.actions.write(link, args)

    described = struct(file = link, line = line_key(line_words(argv, code)) if kind != "archive" else None)

    scripts = [s for entry in used for s in entry.scripts]
    if kind == "shared":
        # A cc_library hands on to the test what is declared for its own link, and a rule between
        # them may drop it.
        if ctx.rule.kind == "cc_library":
            declared = {f: None for f in getattr(ctx.rule.files, "additional_linker_inputs", [])}
        else:
            declared = {f: None for f in inputs if f not in excluded and f not in probe.inputs and f.extension != "processed" and not is_linkable(f)}
        scripts.extend(scripts_of(ctx, action, declared))

    # Tests that link all of a target share its list.
    shared = {}
    for entry in used:
        if entry.together:
            shared.setdefault(entry.together.name, []).append(entry)
    shared = {name: entries[0].together for name, entries in shared.items() if len(entries) == entries[0].together.size}
    alone = [entry for entry in used if entry.unit and not (entry.together and entry.together.name in shared)]

    return struct(
        files = tuple([output] + names),
        unit = None,
        together = None,
        links = tuple({x: None for x in [described] + [x for entry in libraries for x in entry.links]}),
        manifests = depset(
            [entry.unit.manifest for entry in alone],
            transitive = [entry.manifests for entry in shared.values() + libraries],
        ),
        sources = depset(
            [entry.unit.source or entry.unit.manifest for entry in alone],
            transitive = [entry.sources for entry in shared.values() + libraries],
        ),
        scripts = tuple({s: None for s in scripts}),
    )

def describe_libraries(ctx, target, program, names, known, infos, usual):
    """Describes the archives and shared libraries that a target makes.

    Args:
      ctx: the aspect's context.
      target: Target.
      program: the action that links the target's executable, or None.
      names: dict from File to list of File, their second names.
      known: as for describe_link; the libraries are added.
      infos: as for describe_link.
      usual: see is_usual.

    Returns:
      list of what is known of each, see TastingInfo.linked.
    """
    libraries = []
    for action in target.actions:
        if action.mnemonic not in ["CppArchive", "CppLink"] or program and action.outputs == program.outputs:
            continue

        # The interface library, if there is one, stands behind the library.
        outputs = sorted([f for f in action.outputs.to_list() if is_linkable(f)], key = lambda f: f.extension == "ifso")
        if not outputs:
            continue
        library = describe_link(
            ctx,
            target,
            action,
            output = outputs[0],
            names = outputs[1:] + [n for f in outputs for n in names.get(f, [])],
            kind = "shared" if is_shared_library(outputs[0]) else "archive",
            known = known,
            infos = infos,
            usual = usual,
        )
        if library:
            libraries.append(library)
            known.update({f: library for f in library.files})
    return libraries
