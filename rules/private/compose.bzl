"""What the aspect and the test runner have in common: the command line that makes NAME.tasting."""

load(":worker.bzl", "parameters")

visibility(["//rules", "//rules/..."])

def is_linkable(file):
    """Whether a linker takes the file for code, rather than for a script or a flag.

    Args:
      file: File.

    Returns:
      bool
    """
    return (file.extension in ["a", "ifso", "lo", "o"] or is_shared_library(file)) and not file.is_directory

def is_shared_library(file):
    """Whether the file has the name of a shared library.

    Args:
      file: File.

    Returns:
      bool
    """
    version = file.basename.partition(".so.")[2]
    return file.extension == "so" or version[:1].isdigit() and version.replace(".", "").isalnum()

def runfiles_without(ctx, runfiles, files):
    """Runfiles without some files: what is linked, and so is no data.

    Args:
      ctx: context of the rule or aspect.
      runfiles: runfiles.
      files: dict whose keys are the files to leave out.

    Returns:
      runfiles, without the empty files that Bazel makes: nothing can have those.
    """
    return ctx.runfiles(
        files = [f for f in runfiles.files.to_list() if f not in files],
        symlinks = {e.path: e.target_file for e in runfiles.symlinks.to_list()},
        root_symlinks = {e.path: e.target_file for e in runfiles.root_symlinks.to_list()},
    )

def files_of_runfiles(targets):
    """What targets bring along to be run with.

    Args:
      targets: list of Target.

    Returns:
      dict whose keys are Files.
    """
    files = {}
    for target in targets:
        info = target[DefaultInfo]
        files.update({file: None for file in info.files.to_list()})
        for r in [info.default_runfiles, info.data_runfiles]:
            files.update({file: None for file in r.files.to_list()} if r else {})
    return files

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

# A cc_test with this tag keeps its own executable.
NO_RUNNER_TAG = "no-tasting"

# A test with this tag is decided by its test cases.
CASES_TAG = "tasting-cases"

# What begins so among a test's tags says where and how Bazel executes it.
_EXECUTION_TAGS = ("block-", "cpu:", "disable-", "exclusive", "local", "no-", "requires-", "resources:", "supports-")

def _tag_reasons(tags, which):
    return ["tag " + t for t in tags if t in which]

def declare_program(ctx, name, traces):
    """The file by which a runner looks a test up by what it did execute.

    Args:
      ctx: context of the rule or aspect.
      name: string: of the executable that is the runner.
      traces: string: `--@rules_tasting//rules:traces`.

    Returns:
      list of the File, or empty if traces don't decide.
    """
    return [] if traces == "off" else [ctx.actions.declare_file(name + ".traces")]

def _names_library(word):
    """Whether a word may be or have the path of a shared library, or where Bazel puts some."""
    return "_solib_" in word or any([not rest[:1].isalnum() and rest[:1] != "_" for rest in word.split(".so")[1:]])

def compose_arguments(ctx, config, closure, binary, scripts, data, tags, local, env_keys, words, store, requirements = {}, tools = [], program = [], traces = "off"):
    """Arguments of `tasting compose` for all but the code.

    Args:
      ctx: context of the rule or aspect.
      config: File to write, NAME.tasting.
      closure: File to write, NAME.closure.
      binary: File, the real test executable.
      scripts: list of File that the link reads beside code.
      data: runfiles: what the test can read.
      tags: list of strings, the test's.
      local: bool, the attribute of the test.
      env_keys: list of strings, the variables that the test's declaration names.
      words: list of strings, its arguments and the values of variables.
      store: string: where results are recorded.
      requirements: dict of strings, what the rule and its attributes say beside tags of
        where and how it is executed.
      tools: list of File, see describe_tools.
      program: see declare_program.
      traces: string: `--@rules_tasting//rules:traces`.

    Returns:
      Args, to which the code can be added.
    """
    paths = _runfiles_paths(ctx.workspace_name)
    args = parameters(ctx)
    args.add(config, format = "-o=%s")
    args.add(closure, format = "--closure=%s")
    args.add_all(program, format_each = "--program=%s")
    if program and traces == "on":
        args.add("--traces")
    args.add(paths.of(binary), format = "--binary=%s")
    args.add_all(scripts, format_each = "--link-input=%s")
    args.add_all(tools, format_each = "--tools=%s")
    args.add_all(data.files, map_each = paths.file, allow_closure = True)
    args.add_all(data.files, map_each = paths.directory, allow_closure = True, expand_directories = False)
    args.add_all(data.symlinks, map_each = paths.symlink, allow_closure = True)
    args.add_all(data.root_symlinks, map_each = paths.root_symlink, allow_closure = True)
    args.add_all(_tag_reasons(tags, ["external", "no-cache"]), format_each = "--always-run=%s")
    if CASES_TAG in tags:
        args.add("--cases")
    execution = [t for t in tags if t.startswith(_EXECUTION_TAGS) and t != NO_RUNNER_TAG] + (["local"] if local else [])
    execution.extend(["%s=%s" % item for item in requirements.items()])
    args.add_all(sorted(execution), format_each = "--execution-tag=%s", uniquify = True)

    # These forbid only what is shared with other machines. Where the store is,
    # the runner knows.
    args.add_all(
        _tag_reasons(tags, ["no-remote", "no-remote-cache", "no-remote-cache-upload"]),
        format_each = "--local-only=%s",
    )
    if store:
        # Flags are in the keys and logs of actions.
        for location in store.split(","):
            if "@" in location.partition("://")[2].partition("/")[0]:
                fail("--@rules_tasting//rules:store: a user name or password must not be in it; see TASTING_STORE_FLAGS in docs/how-to/share-a-store.md")
        args.add(store, format = "--store=%s")

    words = words + ctx.configuration.test_env.values()
    args.add_all([word for word in words if _names_library(word)], format_each = "--opens=%s")

    # What sanitizers are told by --test_env is as if the test's rule had it.
    env_keys = env_keys + [key for key in ctx.configuration.test_env if key.endswith("SAN_OPTIONS")]
    args.add_all(sorted(env_keys), format_each = "--env-key=%s", uniquify = True)
    return args

def data_files(data):
    """The files that the arguments for data name.

    Args:
      data: runfiles.

    Returns:
      depset of File
    """
    links = data.symlinks.to_list() + data.root_symlinks.to_list()
    return depset([e.target_file for e in links], transitive = [data.files])
