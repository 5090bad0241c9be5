"""Finds clang on this machine and declares toolchains of it."""

visibility(["//rules", "//rules/..."])

# The versions of clang whose syntax trees the analyzer reads.
_MIN_CLANG = 19
_MAX_CLANG = 21

def _version(rctx, clang):
    """Returns (first line of --version, major version); ("", 0) if it isn't clang."""
    result = rctx.execute([clang, "--version"])
    line = result.stdout.split("\n")[0]
    _, found, version = line.partition("clang version ")
    major = version.partition(".")[0]
    if result.return_code or not found or not major.isdigit():
        return "", 0
    return line, int(major)

def _which(rctx, name):
    path = rctx.path(name) if name.startswith("/") else rctx.which(name)
    return path if path and path.exists else None

def _find_clang(rctx):
    """Returns (path, version line), or (None, the reason why there is none)."""
    asked = rctx.os.environ.get("TASTING_CLANG", "")
    names = ["clang"] + ["clang-%d" % v for v in range(_MAX_CLANG, _MIN_CLANG - 1, -1)]
    compiler = rctx.os.environ.get("CC", "")
    if "clang" in compiler:
        names.insert(0, compiler)
    if asked:
        names = [asked]

    rejected = []
    for name in names:
        path = _which(rctx, name)
        if not path:
            continue
        line, major = _version(rctx, path)
        if major >= _MIN_CLANG and major <= _MAX_CLANG:
            return path, line
        rejected.append("%s is %s" % (path, line or "not clang"))

    reason = "; ".join(rejected) or "none of %s found" % ", ".join(names)
    if asked:
        fail("TASTING_CLANG=%s: %s. Set it to a clang of version %d to %d, or unset it." % (asked, reason, _MIN_CLANG, _MAX_CLANG))
    return None, reason

def _make_store(rctx):
    """Makes the directory TASTING_STORE, also after it was deleted.

    Bazel's sandbox starts no test if a path that it is asked to open doesn't exist.
    """
    for store in rctx.os.environ.get("TASTING_STORE", "").split(","):
        if store.startswith("/"):
            rctx.execute(["mkdir", "-p", store])  # else the runner says what is wrong
            if hasattr(rctx, "watch"):
                rctx.watch(store)

def _local_tasting_toolchain_impl(rctx):
    _make_store(rctx)
    clang, about = _find_clang(rctx)
    if clang and hasattr(rctx, "watch"):
        rctx.watch(clang.realpath)

    # An input of the actions: an upgrade of clang runs them again.
    rctx.file("clang.txt", about + "\n")
    build = "load(\"%s\", \"tasting_toolchain\")\n" % Label("//rules:defs.bzl")
    if not rctx.os.environ.get("TASTING_FROM_SOURCE"):
        for cpu, program in rctx.attr.programs.items():
            # Of what `:all` registers, what comes first in the alphabet is taken.
            build += _declare(
                "built_for_" + cpu,
                clang,
                ["analyzer = \"%s\"" % program],
                ["exec_compatible_with = [\"%s\", \"%s\"]" % (Label("@platforms//os:linux"), Label("@platforms//cpu:" + cpu))],
            )
    rctx.file("BUILD.bazel", build + _declare("local", clang, [], []))

def _declare(name, clang, program, platform):
    """Returns the text of a toolchain, with further attributes of its two targets."""
    return """
tasting_toolchain(
    {attributes},
)

toolchain(
    {toolchain_attributes},
)
""".format(
        attributes = ",\n    ".join([
            "name = \"%s\"" % name,
            "clang = \"%s\"" % (clang or ""),
            "clang_files = [\"clang.txt\"]",
            "visibility = [\"//visibility:public\"]",
        ] + program),
        toolchain_attributes = ",\n    ".join([
            "name = \"%s_toolchain\"" % name,
            "toolchain = \":%s\"" % name,
            "toolchain_type = \"%s\"" % Label("//rules:toolchain_type"),
        ] + platform),
    )

local_tasting_toolchain = repository_rule(
    implementation = _local_tasting_toolchain_impl,
    doc = """Toolchains of this machine's clang: of each prebuilt analyzer, and of the one built from source.

Looks for TASTING_CLANG (a path or name; an error if it is unusable), else for CC
if that is a clang, clang, clang-21, clang-20 and clang-19 in PATH: the first of a
version that the analyzer reads. Without any, all evidence is by objects.
TASTING_FROM_SOURCE=1 leaves the prebuilt ones out. If TASTING_STORE is a directory, it is
made where there is none (since Bazel 7.1 also after it was deleted).""",
    attrs = {
        "programs": attr.string_dict(doc = "Labels of prebuilt `tasting` programs by the CPU that runs them, as in `@platforms//cpu`."),
    },
    environ = ["CC", "PATH", "TASTING_CLANG", "TASTING_FROM_SOURCE", "TASTING_STORE"],
    local = True,
    configure = True,
)
