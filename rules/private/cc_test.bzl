"""tasting_cc_test: a cc_test whose outcome is replayed while nothing that it reaches changes.

NAME is a test rule whose executable is the runner. Beside it, in its outputs and
runfiles, lie NAME.tasting (what the fingerprint is made of as far as a build
knows it), NAME.closure (the same in all detail, for explanations) and the real
test, NAME.real, an ordinary cc_test.
"""

load("@rules_cc//cc:cc_test.bzl", "cc_test")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("@rules_cc//cc/common:debug_package_info.bzl", "DebugPackageInfo")
load(":aspect.bzl", "REAL", "REAL_TAG", "tasting_aspect")
load(":compose.bzl", "CASES_TAG", "NO_RUNNER_TAG")
load(":providers.bzl", "TastingInfo")
load(":toolchain.bzl", "TOOLCHAIN_TYPE")

visibility(["//rules", "//rules/..."])

# What the real test provides and the replaying one passes on.
_FORWARDED = [
    CcInfo,
    DebugPackageInfo,
    InstrumentedFilesInfo,
    TastingInfo,
    testing.ExecutionInfo,
]

def _replaying_test_impl(ctx):
    toolchain = ctx.toolchains[TOOLCHAIN_TYPE]
    info = ctx.attr.real[TastingInfo]
    if not info.config:
        fail("%s: no link action found for %s: the C++ test runner toolchain in use hides it. Use cc_test for this target." %
             (ctx.label, ctx.attr.real.label))

    executable = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = executable, target_file = toolchain.runner_executable, is_executable = True)
    groups = {name: ctx.attr.real[OutputGroupInfo][name] for name in ctx.attr.real[OutputGroupInfo]}

    # Nobody starts the real test from runfiles of its own: they needn't be made.
    top = "_hidden_top_level_INTERNAL_"
    groups[top] = depset([f for f in groups.get(top, depset()).to_list() if not f.basename.endswith("runfiles")])

    runfiles = ctx.runfiles(files = [executable, info.config, info.closure] + info.program).merge_all([
        ctx.attr.real[DefaultInfo].default_runfiles,
        toolchain.runner_runfiles,
    ])
    environment = ctx.attr.real[RunEnvironmentInfo]
    if not ctx.attr.replay:
        # Known only here, too late for NAME.tasting. The runner takes the
        # variable away before it starts the test.
        environment = RunEnvironmentInfo(
            environment = environment.environment | {"TASTING": "nocache_test_results"},
            inherited_environment = environment.inherited_environment,
        )
    return [
        DefaultInfo(executable = executable, files = depset([executable]), runfiles = runfiles),
        OutputGroupInfo(**groups),
        environment,
    ] + [ctx.attr.real[provider] for provider in _FORWARDED if provider in ctx.attr.real]

_replaying_test = rule(
    implementation = _replaying_test_impl,
    test = True,
    attrs = {
        "real": attr.label(mandatory = True, aspects = [tasting_aspect]),
        "replay": attr.bool(mandatory = True),
        # For $(location) in args, and for queries over the attributes of a cc_test.
        "srcs": attr.label_list(allow_files = True),
        "deps": attr.label_list(allow_files = True),
        "data": attr.label_list(allow_files = True),
        # For bazel coverage.
        "_lcov_merger": attr.label(
            default = configuration_field(fragment = "coverage", name = "output_generator"),
            executable = True,
            cfg = "exec",
        ),
        "_collect_cc_coverage": attr.label(
            default = "@bazel_tools//tools/test:collect_cc_coverage",
            executable = True,
            cfg = "exec",
        ),
    },
    # So that exec_properties may name it, as in cc_test.
    exec_groups = {"cpp_link": exec_group()},
    fragments = ["coverage"],
    toolchains = [TOOLCHAIN_TYPE],
)

_NOCACHE = Label("//rules:nocache_test_results")

# Attributes that every rule or every test has: both targets get them.
_COMMON = [
    "applicable_licenses",
    "args",
    "aspect_hints",
    "compatible_with",
    "data",
    "deps",
    "exec_compatible_with",
    "exec_group_compatible_with",
    "exec_properties",
    "features",
    "flaky",
    "local",
    "package_metadata",
    "restricted_to",
    "shard_count",
    "size",
    "srcs",
    "target_compatible_with",
    "testonly",
    "timeout",
    "toolchains",
]

def tasting_cc_test(name, tags = [], visibility = None, deprecation = None, cases = False, **kwargs):
    """A drop-in for cc_test that replays a recorded outcome instead of running.

    Args:
      name: name of the test. The real cc_test is `NAME.real`, tagged `manual`:
        `bazel test //pkg:NAME.real` always asks the program itself.
      tags: as for cc_test. `external` and `no-cache` keep the test from being
        replayed; with `no-remote`, `no-remote-cache` or
        `no-remote-cache-upload`, only directories of the store are used.
      visibility: as for cc_test.
      deprecation: as for cc_test.
      cases: bool: of a test of GoogleTest, only the test cases are run whose outcome isn't
        known. This assumes that cases don't depend on each other (docs/explanation/cases.md).
      **kwargs: every other attribute of cc_test, with the same meaning.
    """
    real = name + REAL
    cc_test(
        name = real,
        tags = tags + ["manual", NO_RUNNER_TAG, REAL_TAG] + ([CASES_TAG] if cases else []),
        visibility = ["//visibility:private"],
        **kwargs
    )
    _replaying_test(
        name = name,
        real = real,
        tags = tags,
        visibility = visibility,
        deprecation = deprecation,
        replay = select({
            _NOCACHE: False,
            "//conditions:default": True,
        }),
        **{key: kwargs[key] for key in _COMMON if key in kwargs}
    )
