// Package internal holds the rooms of the analyzer. Each folder has one idea:
//
//	base      what has nothing to do with tests
//	store     recorded results
//	evidence  what a unit is made of: its manifest
//	link      what linkers and loaders make of units
//	key       what identifies a test
//	traces    which functions an execution enters
//	run       executing tests, or replaying their results
//	services  tests that are clients of a long-running program
//	tools     commands beside the main way
//
// A folder imports folders above it only (tools/layers checks that). ARCHITECTURE.md walks one edit through all
// of them.
package internal
