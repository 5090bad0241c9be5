"""Bzlmod: the toolchains of this machine.

rules_tasting registers it itself. A toolchain that the root module registers
takes precedence.
"""

load("@bazel_tools//tools/build_defs/repo:http.bzl", "http_file")
load("//rules/private:local_toolchain.bzl", "local_tasting_toolchain")
load("//rules/private:release.bzl", "PROGRAMS")

def _tasting_impl(_module_ctx):
    for cpu, program in PROGRAMS.items():
        http_file(
            name = "tasting_" + cpu,
            downloaded_file_path = "tasting",
            executable = True,
            sha256 = program.sha256,
            urls = program.urls,
        )
    local_tasting_toolchain(
        name = "tasting_toolchains",
        programs = {cpu: "@tasting_%s//file" % cpu for cpu in PROGRAMS},
    )

tasting = module_extension(
    implementation = _tasting_impl,
    doc = """Makes the repository `tasting_toolchains`, see `//rules/private:local_toolchain.bzl`.

Of a release, its prebuilt programs come first, for the platforms that it has. They
are downloaded when they are needed.""",
)
