"""Tests of what the rules and the aspect do before anything is executed."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts", "unittest")
load("@rules_cc//cc:defs.bzl", "cc_import", "cc_library", "cc_test")
load("//rules:defs.bzl", "TastingInfo", "tasting_aspect", "tasting_cc_test")
load("//rules/private:aspect.bzl", "testonly_functions")
load("//rules/private:probe.bzl", "tool_words")
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
    asserts.equals(env, sorted(want["tags"] + ["manual", "no-tasting", "tasting-real"]), sorted(real["tags"]))
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
    asserts.equals(env, "rules/tests/data.txt", environment.environment.get("WHERE"))
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

# Evidence

_EvidenceInfo = provider(
    doc = "What the aspect registers.",
    fields = {
        "actions": "list of the target's own actions.",
        "bin_dir": "path of the output directory.",
        "links": "dict from the names of descriptions of links to their texts, of dependencies, too.",
    },
)

def _evidence_aspect_impl(target, ctx):
    links = {}
    for dep in getattr(ctx.rule.attr, "deps", []):
        if _EvidenceInfo in dep:
            links.update(dep[_EvidenceInfo].links)
    for action in target.actions:
        for f in action.outputs.to_list():
            if f.extension == "link":
                links[f.basename] = action.content
    return [_EvidenceInfo(actions = target.actions, bin_dir = ctx.bin_dir.path, links = links)]

_evidence_aspect = aspect(
    implementation = _evidence_aspect_impl,
    attr_aspects = ["deps"],
    requires = [tasting_aspect],
)

def _name(file):
    """The basename of a file, of a library with another configuration without the name of that."""
    name = file.basename
    return "lib" + name.partition("_")[2] if name.startswith("libST-") else name

def _manifests_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    info = target[TastingInfo]
    groups = target[OutputGroupInfo]
    manifests = info.manifests.to_list()
    asserts.equals(env, ctx.attr.want, sorted([_name(f).removesuffix(".manifest") for f in manifests]))
    data = [_name(f) for f in info.data.files.to_list()]
    asserts.equals(env, ctx.attr.want_data, sorted(data))

    # Either group has a manifest for all that is linked, and the same of the rest.
    asserts.equals(env, sorted(manifests), sorted([f for f in groups.tasting_test.to_list() if f.extension == "manifest"]))
    sources = [_name(f).removesuffix(".manifest") for f in groups.tasting_source.to_list() if f.extension == "manifest"]
    asserts.equals(
        env,
        sorted([name + (".source" if name in ctx.attr.want_sources else "") for name in ctx.attr.want]),
        sorted(sources),
    )
    rest = [sorted([f for f in group.to_list() if f.extension != "manifest"]) for group in [groups.tasting_test, groups.tasting_source]]
    asserts.equals(env, rest[0], rest[1])
    asserts.equals(
        env,
        ctx.attr.want_links,
        [_name(f) for f in groups.tasting_test.to_list() if f.extension == "link"],
    )

    actions = {}
    for action in target[_EvidenceInfo].actions:
        actions.setdefault(action.mnemonic, []).append(action)
    for mnemonic in ["TastingPreprocess", "TastingAnalyze"]:
        made = [a.outputs.to_list()[0].basename.rpartition(".o.")[0] + ".o" for a in actions.get(mnemonic, [])]
        asserts.equals(env, ctx.attr.want_own_sources, sorted(made))

    objects = [sorted([_name(f) for f in a.inputs.to_list() if f.extension in ["a", "o", "so"]]) for a in actions["TastingObject"]]
    asserts.equals(env, ctx.attr.want_read, sorted([", ".join(names) for names in objects]))

    composed = actions["TastingCompose"][0].inputs.to_list()
    for f in manifests + [f for f in groups.tasting_test.to_list() if f.extension == "link"]:
        asserts.true(env, f in composed, "%s isn't read by TastingCompose" % f.path)
    probes = [_name(f) for f in composed if f.extension == "toolchain"]
    if ctx.attr.own_probe:
        probe = actions["TastingProbe"][0]
        asserts.equals(env, [_name(f) for f in probe.outputs.to_list()], probes)
        asserts.equals(env, [], [f for f in probe.inputs.to_list() if f.extension in ["a", "o", "so"]], "TastingProbe needs code")
        described = [w.rpartition("/")[2] for w in probe.argv if w.startswith("--link=")]
        asserts.equals(env, ctx.attr.want_links, described)
    else:
        asserts.false(env, "TastingProbe" in actions, "a probe for one test only")
        asserts.equals(env, ["probe.toolchain"], probes)
    for f in composed:
        asserts.false(env, f.basename.endswith(".source.manifest"), "%s is read by TastingCompose" % f.path)
    arguments = [a.content for a in target[_EvidenceInfo].actions if a.outputs.to_list()[0].extension == "tasting-compose"]
    asserts.true(env, "--toolchain-files=" in arguments[0], "arguments %s" % arguments)
    asserts.equals(env, [], [w for w in arguments[0].split("\n") if w.startswith("--link-input")])
    description = [a.content for a in target[_EvidenceInfo].actions if a.outputs.to_list()[0].basename.endswith(".tasting-test.json")]
    asserts.equals(env, [bool(ctx.attr.want_sources)], [json.decode(d)["source"] for d in description])
    return analysistest.end(env)

_MANIFESTS_ATTRIBUTES = {
    "own_probe": attr.bool(doc = "Whether the test is linked by flags of its own."),
    "want": attr.string_list(),
    "want_data": attr.string_list(),
    "want_links": attr.string_list(),
    "want_own_sources": attr.string_list(),
    "want_read": attr.string_list(doc = "What each action of the test itself reads."),
    "want_sources": attr.string_list(),
}

_manifests_test = analysistest.make(
    _manifests_test_impl,
    attrs = _MANIFESTS_ATTRIBUTES,
    # Not auto, for which it counts who compiles.
    config_settings = {str(Label("//rules:evidence")): "source"},
    extra_target_under_test_aspects = [_evidence_aspect],
)

_manifests_by_object_test = analysistest.make(
    _manifests_test_impl,
    attrs = _MANIFESTS_ATTRIBUTES,
    config_settings = {str(Label("//rules:evidence")): "object"},
    extra_target_under_test_aspects = [_evidence_aspect],
)

_NO_CLANG = {"//command_line_option:extra_toolchains": [str(Label("//rules/tests:no_clang_toolchain"))]}

_manifests_without_clang_test = analysistest.make(
    _manifests_test_impl,
    attrs = _MANIFESTS_ATTRIBUTES,
    config_settings = _NO_CLANG,
    extra_target_under_test_aspects = [_evidence_aspect],
)

def _failure_test_impl(ctx):
    env = analysistest.begin(ctx)
    asserts.expect_failure(env, ctx.attr.want)
    return analysistest.end(env)

_source_without_clang_test = analysistest.make(
    _failure_test_impl,
    attrs = {"want": attr.string()},
    config_settings = _NO_CLANG | {str(Label("//rules:evidence")): "source"},
    expect_failure = True,
    extra_target_under_test_aspects = [_evidence_aspect],
)

_unknown_evidence_test = analysistest.make(
    _failure_test_impl,
    attrs = {"want": attr.string()},
    config_settings = {str(Label("//rules:evidence")): "sources"},
    expect_failure = True,
    extra_target_under_test_aspects = [_evidence_aspect],
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
        srcs = ["library.c", "second.cc"],
        implementation_deps = [name + "_hidden"],
        deps = [name + "_headers"],
    )
    deps = [
        name + "_library",
        name + "_alias",
        name + "_precompiled",
        name + "_import",
        name + "_opaque",
        name + "_forwarding",
    ]
    want_data = ["data.txt", "header_data.txt", "hidden_data.txt"]
    cc_test(
        name = name + "_static_subject",
        srcs = ["test.c", "more.c"],
        data = ["data.txt"],
        linkstatic = True,
        tags = ["manual"],
        deps = deps,
    )
    static = dict(
        target_under_test = name + "_static_subject",
        want = [
            "archive.a",
            "asm.pic.o",
            "behind.pic.o",
            "hidden.pic.o",
            "libimported.so",
            "library.pic.o",
            "libshared.so",
            "more.pic.o",
            "object.o",
            "opaque.a",
            "second.pic.o",
            "test.pic.o",
        ],
        # Its objects in one action; what the aspect can't see into.
        want_read = ["behind.pic.o", "more.pic.o, test.pic.o", "opaque.a"],
        want_data = want_data,
        want_links = [name + "_static_subject.link"],
    )

    # Not C++, and not what the aspect can't see into.
    sources = ["hidden.pic.o", "library.pic.o", "more.pic.o", "test.pic.o"]
    _manifests_test(
        name = name + "_static",
        want_own_sources = ["more.pic.o", "test.pic.o"],
        want_sources = sources,
        **static
    )
    _manifests_by_object_test(name = name + "_by_object", **static)
    _manifests_without_clang_test(name = name + "_without_clang", **static)
    _source_without_clang_test(
        name = name + "_source_without_clang",
        target_under_test = name + "_static_subject",
        want = "evidence=source needs clang",
    )
    _unknown_evidence_test(
        name = name + "_unknown_evidence",
        target_under_test = name + "_static_subject",
        want = "evidence=sources: want one of auto, object, source",
    )

    cc_test(
        name = name + "_dynamic_subject",
        srcs = ["test.c", "more.c"],
        data = ["data.txt"],
        tags = ["manual"],
        deps = deps,
    )
    behind = "librules_Stests_Slib%s_Ubehind.so" % name
    _manifests_test(
        name = name + "_dynamic",
        target_under_test = name + "_dynamic_subject",
        # A library that the aspect can't see into counts as it is.
        want = sorted([n for n in static["want"] if n != "behind.pic.o"] + [behind]),
        want_read = sorted([behind, "more.pic.o, test.pic.o", "opaque.a"]),
        want_data = want_data,
        want_links = [
            name + "_dynamic_subject.link",
            "lib%s_library.so.link" % name,
            "lib%s_hidden.so.link" % name,
            "lib%s_asm.so.link" % name,
            "lib%s_precompiled.so.link" % name,
        ],
        want_own_sources = ["more.pic.o", "test.pic.o"],
        want_sources = sources,
    )

    # Linked by flags that no other test has.
    cc_library(
        name = name + "_flags",
        srcs = ["library.c"],
        linkopts = ["-lm", "-Wl,-z,defs"],
        tags = ["manual"],
    )
    cc_test(
        name = name + "_flags_subject",
        srcs = ["test.c"],
        tags = ["manual"],
        deps = [name + "_flags"],
    )
    _manifests_test(
        name = name + "_own_probe",
        own_probe = True,
        target_under_test = name + "_flags_subject",
        want = ["library.pic.o", "test.pic.o"],
        want_links = [name + "_flags_subject.link", "lib%s_flags.so.link" % name],
        want_own_sources = ["test.pic.o"],
        want_read = ["test.pic.o"],
        want_sources = ["library.pic.o", "test.pic.o"],
    )

    return [
        name + suffix
        for suffix in ["_static", "_dynamic", "_own_probe", "_by_object", "_without_clang", "_source_without_clang", "_unknown_evidence"]
    ]

# Descriptions of links

# Words that depend on the toolchain.
_OTHER_WORDS = ["-B", "-L", "-W", "-Xlinker", "-f", "$ORIGIN", "-l", "-p", "-m", "-rpath"]
_KEPT_WORDS = ["-Wl,--start-lib", "-Wl,--end-lib", "-Wl,-z,now", "-Wl,-Bsymbolic"]

def _link_lines(content, bin_dir, package):
    """Lines of a description, without what depends on the toolchain, and with short paths."""
    lines = []
    for line in content.rstrip("\n").split("\n"):
        word = line.removeprefix("arg ")
        if word != line and word not in _KEPT_WORDS and not word.startswith("-lrules_S") and [w for w in _OTHER_WORDS if word.startswith(w)]:
            continue
        lines.append(line.replace("%s/%s/" % (bin_dir, package), "B/").replace(bin_dir, "BIN").replace(package + "/", "S/").replace("\t", " "))
    return lines

def _links_test_impl(ctx):
    env = analysistest.begin(ctx)
    evidence = analysistest.target_under_test(env)[_EvidenceInfo]
    content = evidence.links
    for name, want in ctx.attr.want.items():
        asserts.true(env, name in content, "no %s among %s" % (name, content.keys()))
        asserts.equals(env, want, _link_lines(content.get(name, ""), evidence.bin_dir, ctx.label.package))
    asserts.equals(env, ctx.attr.want_names, sorted(content.keys()))
    return analysistest.end(env)

_LINKS_ATTRIBUTES = {
    "want": attr.string_list_dict(),
    "want_names": attr.string_list(),
}

_links_test = analysistest.make(
    _links_test_impl,
    attrs = _LINKS_ATTRIBUTES,
    extra_target_under_test_aspects = [_evidence_aspect],
)

_links_opt_test = analysistest.make(
    _links_test_impl,
    attrs = _LINKS_ATTRIBUTES,
    config_settings = {"//command_line_option:compilation_mode": "opt"},
    extra_target_under_test_aspects = [_evidence_aspect],
)

def _unit(target, object):
    """Lines for an object."""
    path = "B/_objs/%s/%s" % (target, object)
    manifest = "B/_tasting/%s/_objs/%s/%s" % (target, target, object)
    return struct(
        unit = "unit %s %s.manifest" % (path, manifest),
        source = "source %s %s.source.manifest" % (path, manifest),
        arg = "arg " + path,
        member = "member " + path,
    )

def _links(name):
    library = name + "_library"
    always = name + "_always"
    static = name + "_static_library"
    precompiled = name + "_precompiled"
    cc_library(
        name = library,
        tags = ["manual"],
        srcs = ["library.c", "second.cc", "asm.S"],
        linkopts = ["-Wl,-Bsymbolic"],
    )
    cc_library(
        name = always,
        tags = ["manual"],
        srcs = ["always.c"],
        alwayslink = True,
    )
    cc_library(
        name = static,
        tags = ["manual"],
        srcs = ["static.c"],
        linkstatic = True,
    )
    cc_library(
        name = precompiled,
        tags = ["manual"],
        srcs = ["archive.a", "libshared.so"],
    )
    deps = [library, always, static, precompiled]
    dynamic_test = name + "_dynamic_subject"
    static_test = name + "_static_subject"
    cc_test(
        name = dynamic_test,
        srcs = ["test.c"],
        tags = ["manual"],
        deps = deps,
    )
    cc_test(
        name = static_test,
        srcs = ["test.c"],
        features = ["-supports_start_end_lib"],
        linkstatic = True,
        tags = ["manual"],
        deps = deps,
    )
    of_library = [_unit(library, "library.pic.o"), _unit(library, "second.pic.o"), _unit(library, "asm.pic.o")]
    of_always = _unit(always, "always.pic.o")
    of_static = _unit(static, "static.pic.o")
    solib = "BIN/_solib_k8/"
    mangled = {n: n.replace("_", "_U") for n in [library, always, precompiled]}
    archive = "unit S/archive.a B/_tasting/%s/linked/S/archive.a.manifest" % precompiled
    shared = "%s_U_S_Srules_Stests_C%s___Urules_Stests/libshared.so" % (solib, mangled[precompiled])

    # No more is made than Bazel links.
    libraries = [
        "lib%s.a.link" % library,
        "lib%s.so.link" % library,
        "lib%s.lo.link" % always,
        "lib%s.so.link" % always,
        "lib%s.a.link" % static,
    ]
    of_dynamic = _unit(dynamic_test, "test.pic.o")
    _links_test(
        name = name + "_dynamic",
        target_under_test = dynamic_test,
        want = {
            dynamic_test + ".link": [
                "tasting link 1",
                "output B/" + dynamic_test,
                "kind executable",
                of_dynamic.unit,
                of_static.unit,
                archive,
                "unit %s B/_tasting/%s/linked/S/libshared.so.manifest" % (shared, precompiled),
                of_dynamic.source,
                of_static.source,
                "library %s S/libshared.so" % shared,
                "arg -o",
                "arg B/" + dynamic_test,
                of_dynamic.arg,
                "arg -lrules_Stests_Slib" + mangled[library],
                "arg -lrules_Stests_Slib" + mangled[always],
                "arg -Wl,--start-lib",
                of_static.arg,
                "arg -Wl,--end-lib",
                "arg S/archive.a",
                "arg -Wl,-Bsymbolic",
            ],
            "lib%s.so.link" % library: [
                "tasting link 1",
                "output B/lib%s.so" % library,
                "alias %slibrules_Stests_Slib%s.so" % (solib, mangled[library]),
                "kind shared",
            ] + [u.unit for u in of_library] + [
                of_library[0].source,
                "arg -shared",
                "arg -o",
                "arg B/lib%s.so" % library,
            ] + [u.arg for u in of_library] + ["arg -Wl,-Bsymbolic"],
        },
        want_names = sorted(libraries + [dynamic_test + ".link"]),
    )
    _links_test(
        name = name + "_static",
        target_under_test = static_test,
        want = {
            "lib%s.a.link" % library: [
                "tasting link 1",
                "output B/lib%s.a" % library,
                "kind archive",
            ] + [u.unit for u in of_library] + [of_library[0].source] + [u.member for u in of_library],
            "lib%s.lo.link" % always: [
                "tasting link 1",
                "output B/lib%s.lo" % always,
                "kind archive",
                of_always.unit,
                of_always.source,
                of_always.member,
            ],
        },
        want_names = sorted(libraries + [static_test + ".link"]),
    )

    # Each object has manifests of its own; optimised C isn't plain.
    of_static = _unit(static, "static.o")
    of_always = _unit(always, "always.o"), _unit(always, "always.pic.o")
    _links_opt_test(
        name = name + "_opt",
        target_under_test = static_test,
        want = {
            "lib%s.a.link" % static: [
                "tasting link 1",
                "output B/lib%s.a" % static,
                "kind archive",
                of_static.unit,
                of_static.member,
            ],
            "lib%s.lo.link" % always: [
                "tasting link 1",
                "output B/lib%s.lo" % always,
                "kind archive",
                of_always[0].unit,
                of_always[0].member,
            ],
            "lib%s.pic.lo.link" % always: [
                "tasting link 1",
                "output B/lib%s.pic.lo" % always,
                "kind archive",
                of_always[1].unit,
                of_always[1].member,
            ],
        },
        want_names = sorted(libraries + ["lib%s.pic.a.link" % t for t in [library, static]] + ["lib%s.pic.lo.link" % always, static_test + ".link"]),
    )
    return [name + "_dynamic", name + "_static", name + "_opt"]

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
    asserts.equals(env, "rules/tests/data.txt", target[RunEnvironmentInfo].environment.get("WHERE"))
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
        inputs = [name + "_subject", "liblibrary.so", "data.txt"],
        # What these have in them.
        not_inputs = ["test.pic.o", "library.pic.o"],
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

    asserts.equals(env, "a.c", f.source_of(["gcc", "-O2", "-c", "a.c", "-o", "a.o"]))
    asserts.equals(env, None, f.source_of(["gcc", "-c"]))
    asserts.equals(
        env,
        ["ld", "--ld-path=a", "-B", "b", "-plugin", "c", "-Wl,-plugin,d"],
        [w for w in tool_words(["ld", "x.o", "--ld-path=a", "-B", "b", "-Xlinker", "-plugin", "-Xlinker", "c", "-lm", "-Wl,-plugin,d"]) if w != "-Xlinker"],
    )

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
    tests = _manifests("manifests") + _links("links")
    _runner("runner")
    _functions_test(name = "functions")
    native.test_suite(
        name = name,
        tests = tests + ["attributes", "providers", "runner", "runner_static", "runner_exempt", "functions"],
    )

_make_variables = rule(
    implementation = lambda ctx: [platform_common.TemplateVariableInfo(ctx.attr.variables)],
    attrs = {"variables": attr.string_dict()},
)
