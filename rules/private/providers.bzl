"""Providers."""

visibility(["//rules", "//rules/..."])

TastingInfo = provider(
    doc = "What a target contributes to the fingerprints of the tests that link it.",
    fields = {
        "manifests": """depset of File, in link order: the manifests of every translation
unit, object, archive and shared library that the target links, its own first.""",
        "covered": """depset of File: the objects, archives and shared libraries that
`manifests` speaks for. What a test links beyond them is read as an object.""",
        "units": """depset of struct(manifests, shared): tuples of manifests, and of the
shared libraries that are made of their code. What is linked in another way is
linked only if needed, unless it belongs to the test itself.""",
        "data": """runfiles: what the target and its dependencies can read at run time,
without the shared libraries in `covered`.""",
        "config": """File or None: for a test, the `NAME.tasting` that its runner reads.""",
        "closure": """File or None: for a test, what its fingerprint is made of, for
`tasting explain`.""",
    },
)

TastingRunnerInfo = provider(
    doc = "A cc_test whose executable is the runner, by the toolchain for C++ test runners.",
    fields = {
        "binary": "File: the linked test, which the runner replays or starts.",
    },
)
