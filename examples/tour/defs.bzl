"""What the tour is started with."""

visibility(["//examples/..."])

TOUR_ARGS = [
    "--module=$(rootpath //:MODULE.bazel)",
    "--analyzer=$(rootpath //analyzer/cmd/tasting)",
    "--fetch=$(rootpath //tools/corpus:fetch.sh)",
]

TOUR_DATA = [
    "//:MODULE.bazel",
    "//analyzer/cmd/tasting",
    "//rules:sources",
    "//tools/corpus:fetch",
    "//tools/corpus:fetch.sh",
]
