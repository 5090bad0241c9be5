// See BUILD.bazel.
