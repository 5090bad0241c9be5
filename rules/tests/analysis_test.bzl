"""Tests of what the rules and the aspect do before anything is executed."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts", "unittest")
load("@rules_cc//cc:defs.bzl", "cc_import", "cc_library", "cc_test")
load("//rules:defs.bzl", "TastingInfo", "tasting_aspect", "tasting_cc_test")
load("//rules/private:aspect.bzl", "testonly_functions")
load(":testing_rules.bzl", "forwarding_library", "opaque_library")

# Attributes

_AttributesInfo = provider(
    doc = "Attributes of a target.",
    fields = {"values": "dict: every attribute but private ones."},
)

def _attributes_aspect_impl(_target, ctx):
    values = {}
    for name in dir(ctx.rule.attr):
        if not name.startswith("_") and name not in ["to_json", "to_proto"]:
            values[name] = getattr(ctx.rule.attr, name)
    return [_AttributesInfo(values = values)]

_attributes_aspect = aspect(implementation = _attributes_aspect_impl)

# What is the target's own.
_IDENTITY = ["generator_function", "generator_location", "generator_name", "name", "tags", "visibility"]

# What belongs to the program and not to its execution.
_REAL_ONLY = [
    "additional_compiler_inputs",
    "additional_linker_inputs",
    "conlyopts",
    "copts",
    "cxxopts",
    "defines",
    "distribs",
    "dynamic_deps",
    "env",
    "env_inherit",
    "hdrs_check",
    "includes",
    "licenses",
    "link_extra_lib",
    "linkopts",
    "linkshared",
    "linkstatic",
    "local_defines",
    "malloc",
    "nocopts",
    "reexport_deps",
    "stamp",
    "win_def_file",
]

def _comparable(value):
    values = value if type(value) == "list" else [value]
    values = [str(v.label if type(v) == "Target" else v) for v in values]

    # rules_cc's macro adds it to deps of what it calls a cc_test.
    return [v for v in values if not v.endswith("//:link_extra_lib")]

def _attributes_test_impl(ctx):
    env = analysistest.begin(ctx)
    want = ctx.attr.cc_test[_AttributesInfo].values
    real = ctx.attr.real[_AttributesInfo].values
    got = analysistest.target_under_test(env)[_AttributesInfo].values
    for name, value in want.items():
        if name in _IDENTITY:
            continue
        asserts.equals(env, _comparable(value), _comparable(real[name]), "real test's attribute " + name)
        if name not in _REAL_ONLY:
            asserts.true(env, name in got, "replaying test has no attribute " + name)
            asserts.equals(env, _comparable(value), _comparable(got.get(name)), "attribute " + name)
    asserts.equals(env, want["tags"], got["tags"])
    asserts.equals(env, sorted(want["tags"] + ["manual", "no-tasting"]), sorted(real["tags"]))
    return analysistest.end(env)

_attributes_test = analysistest.make(
    _attributes_test_impl,
    attrs = {
        "cc_test": attr.label(aspects = [_attributes_aspect]),
        "real": attr.label(aspects = [_attributes_aspect]),
    },
    extra_target_under_test_aspects = [_attributes_aspect],
)

def _attributes(name):
    attributes = dict(
        size = "small",
        timeout = "long",
        additional_linker_inputs = ["data.txt"],
        args = ["$(location data.txt)", "$(GREETING)"],
        conlyopts = ["-DCONLY"],
        copts = ["-DCOPT"],
        cxxopts = ["-DCXX"],
        data = ["data.txt"],
        defines = ["DEFINE"],
        env = {"NAME": "$(location data.txt)"},
        env_inherit = ["INHERITED"],
        exec_compatible_with = ["@platforms//os:linux"],
        exec_properties = {"test.name": "value", "cpp_link.name": "value"},
        features = ["some_feature"],
        flaky = True,
        includes = ["."],
        linkopts = ["-lm"],
        linkstatic = True,
        local = True,
        local_defines = ["LOCAL"],
        malloc = "@bazel_tools//tools/cpp:malloc",
        shard_count = 2,
        srcs = ["test.c"],
        stamp = 0,
        tags = ["some_tag", "manual"],
        target_compatible_with = ["@platforms//os:linux"],
        testonly = True,
        toolchains = [":make_variables"],
        visibility = ["//visibility:public"],
        deps = [":library"],
    )
    cc_test(name = name + "_cc_test", **attributes)
    tasting_cc_test(name = name + "_subject", **attributes)
    _attributes_test(
        name = name,
        cc_test = name + "_cc_test",
        real = name + "_subject.real",
        target_under_test = name + "_subject",
    )

# Providers

def _providers_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    for provider in [InstrumentedFilesInfo, OutputGroupInfo, RunEnvironmentInfo, DefaultInfo, TastingInfo]:
        asserts.true(env, provider in target, "%s missing" % provider)

    executable = target[DefaultInfo].files_to_run.executable
    asserts.equals(env, ["providers_subject"], [f.basename for f in target[DefaultInfo].files.to_list()])
    asserts.equals(env, "providers_subject", executable.basename)
    runfiles = [f.basename for f in target[DefaultInfo].default_runfiles.files.to_list()]
    for name in ["providers_subject", "providers_subject.tasting", "providers_subject.real", "data.txt"]:
        asserts.true(env, name in runfiles, "%s isn't in the runfiles %s" % (name, runfiles))

    environment = target[RunEnvironmentInfo]
    asserts.equals(env, {"WHERE": "rules/tests/data.txt"}, environment.environment)
    asserts.equals(env, ["INHERITED"], environment.inherited_environment)
    asserts.equals(
        env,
        [f.basename for f in ctx.attr.real[InstrumentedFilesInfo].instrumented_files.to_list()],
        [f.basename for f in target[InstrumentedFilesInfo].instrumented_files.to_list()],
    )

    groups = target[OutputGroupInfo]
    asserts.equals(env, sorted(target[TastingInfo].manifests.to_list()), sorted(groups.tasting_manifests.to_list()))
    asserts.equals(env, ["providers_subject.closure"], [f.basename for f in groups.tasting_closure.to_list()])
    asserts.equals(env, ["providers_subject.tasting"], [f.basename for f in groups.tasting_config.to_list()])
    asserts.true(env, "compilation_outputs" in groups, "output groups of the real test are missing")
    return analysistest.end(env)

_providers_test = analysistest.make(
    _providers_test_impl,
    attrs = {"real": attr.label()},
)

def _providers(name):
    tasting_cc_test(
        name = name + "_subject",
        srcs = ["test.c"],
        data = ["data.txt"],
        env = {"WHERE": "$(location data.txt)"},
        env_inherit = ["INHERITED"],
        tags = ["manual"],
        deps = [":library"],
    )
    _providers_test(
        name = name,
        real = name + "_subject.real",
        target_under_test = name + "_subject",
    )

# Manifests

def _manifests_test_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[TastingInfo]
    manifests = [f.basename.removesuffix(".manifest") for f in info.manifests.to_list()]
    asserts.equals(env, ctx.attr.want, manifests)
    data = [f.basename for f in info.data.files.to_list()]
    asserts.equals(env, ctx.attr.want_data, sorted(data))
    return analysistest.end(env)

_manifests_test = analysistest.make(
    _manifests_test_impl,
    attrs = {
        "want": attr.string_list(),
        "want_data": attr.string_list(),
    },
    extra_target_under_test_aspects = [tasting_aspect],
)

def _manifests(name):
    cc_library(
        name = name + "_headers",
        tags = ["manual"],
        hdrs = ["header.h"],
        data = ["header_data.txt"],
    )
    cc_library(
        name = name + "_hidden",
        tags = ["manual"],
        srcs = ["hidden.c"],
        data = ["hidden_data.txt"],
    )
    cc_library(
        name = name + "_asm",
        tags = ["manual"],
        srcs = ["asm.S"],
    )
    cc_library(
        name = name + "_precompiled",
        tags = ["manual"],
        srcs = ["archive.a", "object.o", "libshared.so"],
    )
    cc_import(
        name = name + "_import",
        tags = ["manual"],
        shared_library = "libimported.so",
    )
    opaque_library(
        name = name + "_opaque",
        tags = ["manual"],
        archive = "opaque.a",
    )
    cc_library(
        name = name + "_behind",
        tags = ["manual"],
        srcs = ["behind.c"],
    )
    forwarding_library(
        name = name + "_forwarding",
        tags = ["manual"],
        wrapped = name + "_behind",
    )
    native.alias(
        name = name + "_alias",
        tags = ["manual"],
        actual = name + "_asm",
    )
    cc_library(
        name = name + "_library",
        tags = ["manual"],
        srcs = ["library.c", "second.c"],
        implementation_deps = [name + "_hidden"],
        deps = [name + "_headers"],
    )
    cc_test(
        name = name + "_cc_test",
        srcs = ["test.c"],
        data = ["data.txt"],
        linkstatic = True,
        tags = ["manual"],
        deps = [
            name + "_library",
            name + "_alias",
            name + "_precompiled",
            name + "_import",
            name + "_opaque",
            name + "_forwarding",
        ],
    )
    _manifests_test(
        name = name,
        target_under_test = name + "_cc_test",
        # In link order; what the aspect can't see into comes with the test.
        want = [
            "test.pic.o",
            "opaque.a",
            "behind.pic.o",
            "library.pic.o",
            "second.pic.o",
            "hidden.pic.o",
            "asm.pic.o",
            "archive.a",
            "object.o",
            "libshared.so",
            "libimported.so",
        ],
        want_data = ["data.txt", "header_data.txt", "hidden_data.txt"],
    )

# The toolchain for test runners

_RUNNER_SETTINGS = {
    "//command_line_option:extra_toolchains": [str(Label("//rules:test_runner_toolchain"))],
}

def _runner_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    asserts.equals(env, ctx.attr.executable, target[DefaultInfo].files_to_run.executable.basename)
    runfiles = [f.basename for f in target[DefaultInfo].default_runfiles.files.to_list()]
    for name in ctx.attr.runfiles:
        asserts.true(env, name in runfiles, "%s isn't in the runfiles %s" % (name, runfiles))
    asserts.equals(env, {"WHERE": "rules/tests/data.txt"}, target[RunEnvironmentInfo].environment)
    asserts.equals(env, ["INHERITED"], target[RunEnvironmentInfo].inherited_environment)
    asserts.true(env, InstrumentedFilesInfo in target, "InstrumentedFilesInfo missing")

    composed = [a for a in analysistest.target_actions(env) if a.mnemonic == "TastingCompose"]
    asserts.equals(env, 1 if ctx.attr.inputs else 0, len(composed))
    for action in composed:
        inputs = [f.basename for f in action.inputs.to_list()]

        # Bazel puts the package in front of the names of shared libraries.
        for name in ctx.attr.inputs:
            asserts.true(env, any([i.endswith(name) for i in inputs]), "%s isn't an input: %s" % (name, inputs))
        for name in ctx.attr.not_inputs:
            asserts.false(env, any([i.endswith(name) for i in inputs]), "%s is an input: %s" % (name, inputs))
    return analysistest.end(env)

_runner_test = analysistest.make(
    _runner_test_impl,
    attrs = {
        "executable": attr.string(),
        "inputs": attr.string_list(),
        "not_inputs": attr.string_list(),
        "runfiles": attr.string_list(),
    },
    config_settings = _RUNNER_SETTINGS,
)

def _runner(name):
    attributes = dict(
        srcs = ["test.c"],
        data = ["data.txt"],
        env = {"WHERE": "$(location data.txt)"},
        env_inherit = ["INHERITED"],
        deps = [":library"],
    )
    subjects = {
        "": dict(attributes, tags = ["manual"]),
        "_static": dict(attributes, linkstatic = True, tags = ["manual"]),
        "_exempt": dict(attributes, tags = ["manual", "no-tasting"]),
    }
    for suffix, subject in subjects.items():
        cc_test(name = name + suffix + "_subject", **subject)
    _runner_test(
        name = name,
        executable = name + "_subject.replay",
        inputs = [name + "_subject", "liblibrary.so", "library.pic.o", "data.txt"],
        # What the executable has in it.
        not_inputs = ["test.pic.o"],
        runfiles = [name + "_subject.replay", name + "_subject.replay.tasting", name + "_subject", "data.txt"],
        target_under_test = name + "_subject",
    )
    _runner_test(
        name = name + "_static",
        executable = name + "_static_subject.replay",
        inputs = [name + "_static_subject", "data.txt"],
        not_inputs = ["liblibrary.so", "library.pic.o"],
        runfiles = [name + "_static_subject"],
        target_under_test = name + "_static_subject",
    )
    _runner_test(
        name = name + "_exempt",
        executable = name + "_exempt_subject",
        runfiles = [name + "_exempt_subject", "data.txt"],
        target_under_test = name + "_exempt_subject",
    )

# Functions

def _functions_test_impl(ctx):
    env = unittest.begin(ctx)
    f = testonly_functions

    for flag in [
        "-rdynamic",
        "-Wl,-E",
        "-Wl,--export-dynamic",
        "-Wl,--wrap=malloc",
        "-Wl,--defsym,a=b",
        "-Wl,-T,script.lds",
        "-T",
        "-Wl,--version-script=x.map",
        "-Wl,-e,start",
        "-Wl,-init,start",
    ]:
        asserts.true(env, f.is_rooting(flag), flag)
    for flag in ["-lm", "-Wl,-z,relro,-z,now", "-Wl,--no-undefined", "-Wl,--as-needed", "-fuse-ld=lld", "-O2", "bin/-T"]:
        asserts.false(env, f.is_rooting(flag), flag)

    asserts.equals(env, "a.c", f.source_of(["gcc", "-O2", "-c", "a.c", "-o", "a.o"]))
    asserts.equals(env, None, f.source_of(["gcc", "-c"]))

    return unittest.end(env)

_functions_test = unittest.make(_functions_test_impl)

def analysis_test_suite(name):
    """All tests of this file.

    Args:
      name: name of the test suite.
    """
    cc_library(
        name = "library",
        tags = ["manual"],
        srcs = ["library.c"],
    )
    _make_variables(
        name = "make_variables",
        tags = ["manual"],
        variables = {"GREETING": "hello"},
    )
    _attributes("attributes")
    _providers("providers")
    _manifests("manifests")
    _runner("runner")
    _functions_test(name = "functions")
    native.test_suite(
        name = name,
        tests = ["attributes", "providers", "manifests", "runner", "runner_static", "runner_exempt", "functions"],
    )

_make_variables = rule(
    implementation = lambda ctx: [platform_common.TemplateVariableInfo(ctx.attr.variables)],
    attrs = {"variables": attr.string_dict()},
)
