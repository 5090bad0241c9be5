"""WORKSPACE: the toolchain found on this machine.

Bzlmod users need nothing of this.
"""

load("//rules/private:local_toolchain.bzl", "local_tasting_toolchain")

def tasting_register_toolchains(name = "tasting_toolchains", register = True):
    """Declares and registers the toolchain of this machine's clang.

    The analyzer is built from source unless a `tasting_toolchain` with a
    prebuilt one is registered before.

    Args:
      name: name of the repository that holds the toolchain.
      register: whether to register the toolchain as well.
    """
    local_tasting_toolchain(name = name)
    if register:
        native.register_toolchains("@%s//:all" % name)
