// Package tools is the folder of commands beside the main way: `tasting adopt` changes a workspace to the rules,
// `tasting evaluate` compares `bazel test` with `tasting test` over a series of commits.
package tools
