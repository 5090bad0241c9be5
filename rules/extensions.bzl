"""Bzlmod: the toolchain found on this machine.

rules_tasting registers it itself. A toolchain that the root module registers
takes precedence.
"""

load("//rules/private:local_toolchain.bzl", "local_tasting_toolchain")

def _tasting_impl(_module_ctx):
    local_tasting_toolchain(name = "tasting_toolchains")

tasting = module_extension(
    implementation = _tasting_impl,
    doc = "Makes the repository `tasting_toolchains`, see `//rules/private:local_toolchain.bzl`.",
)
