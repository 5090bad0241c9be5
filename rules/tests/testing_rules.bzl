"""Rules that stand for what users bring along."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cpp_toolchain", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

def _opaque_library_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    library = cc_common.create_library_to_link(
        actions = ctx.actions,
        feature_configuration = cc_common.configure_features(ctx = ctx, cc_toolchain = toolchain),
        cc_toolchain = toolchain,
        static_library = ctx.file.archive,
    )
    linker_input = cc_common.create_linker_input(owner = ctx.label, libraries = depset([library]))
    return [CcInfo(linking_context = cc_common.create_linking_context(linker_inputs = depset([linker_input])))]

opaque_library = rule(
    implementation = _opaque_library_impl,
    doc = "A library that the aspect has no knowledge of.",
    attrs = {"archive": attr.label(allow_single_file = True)},
    fragments = ["cpp"],
    toolchains = use_cc_toolchain(),
)

def _forwarding_library_impl(ctx):
    return [
        ctx.attr.wrapped[CcInfo],
        DefaultInfo(runfiles = ctx.attr.wrapped[DefaultInfo].default_runfiles),
    ]

forwarding_library = rule(
    implementation = _forwarding_library_impl,
    doc = "A library behind an attribute that the aspect doesn't follow.",
    attrs = {"wrapped": attr.label(providers = [CcInfo])},
)
