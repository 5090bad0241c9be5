"""What the tour is started with."""

visibility(["//examples/..."])

TOUR_ARGS = [
    "--module=$(rootpath //:MODULE.bazel)",
    "--analyzer=$(rootpath //analyzer/cmd/tasting)",
    "--fetch=$(rootpath //tools/corpus:fetch.sh)",
]

TOUR_DATA = [
    # MODULE.bazel refers to go.mod, in the package of the root.
    "//:BUILD.bazel",
    "//:MODULE.bazel",
    "//:go.mod",
    "//analyzer/cmd/tasting",
    "//rules:sources",
    "//tools/corpus:fetch",
    "//tools/corpus:fetch.sh",
]
