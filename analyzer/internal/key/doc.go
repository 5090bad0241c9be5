// Package key is the folder of the packages that identify tests.
//
// The input is a linked program, the data files, the arguments and the environment of a test. The output is its
// fingerprint, and with what only the execution knows, its key in the store. Equal keys mean equal outcomes
// (docs/explanation/soundness.md has the argument).
//
// Package refgraph walks from the roots over all references: the walk, written down, is the key of the code. Package
// fingerprint adds everything else. Package explain says why two keys differ.
package key
