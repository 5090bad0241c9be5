"""Providers."""

visibility(["//rules", "//rules/..."])

TastingInfo = provider(
    doc = "What a target contributes to the fingerprints of the tests that link it.",
    fields = {
        "linked": """depset of struct: what is known of the objects, archives and shared
libraries of the target and of those that it links.

`files`: tuple of File: it and other names for it. `unit`: for what speaks for
itself, struct(object, manifest, source), the last None if it is known by nothing
but its object; else None. `links`: tuple of struct(file, line): descriptions of how it
is linked, its own first, and the `line_key`, None for an archive. `manifests`: depset of File: what is in it. `sources`: the
same, by the sources where that is possible. `scripts`: tuple of File: what else
its link reads. `together`: for an object that its target compiles, struct(name, size, manifests, sources) of all that
are linked together with it; else None.""",
        "manifests": "depset of File: the manifests of all that the target links.",
        "data": """runfiles: what the target and its dependencies can read at run time,
without the shared libraries in `linked`.""",
        "config": """File or None: for a test, the `NAME.tasting` that its runner reads.""",
        "closure": """File or None: for a test, what its fingerprint is made of, for
`tasting explain`.""",
        "program": """list of File: for a test whose runner is looked up by what it did execute, the
`NAME.traces` that it reads; else empty.""",
    },
)

TastingRunnerInfo = provider(
    doc = "A cc_test whose executable is the runner, by the toolchain for C++ test runners.",
    fields = {
        "binary": "File: the linked test, which the runner replays or starts.",
        "runfiles": "runfiles: those of the linked test.",
    },
)
