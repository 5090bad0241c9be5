// Package run is the folder of executing tests, or replaying their results.
//
// Package runner is the wrapper inside the action of one test: it completes the key, asks the store, and replays or
// executes and records. Package driver is `tasting test`: the same for all tests of an invocation, before
// they are linked. Package bazel calls Bazel and reads its events, package cputime measures it, package report
// writes down what a run did.
package run
