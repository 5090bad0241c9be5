// Package report keeps what "tasting test" did, a file per run, and makes of
// many such files one page for people and the same as JSON for programs.
//
// # Files of runs
//
// WriteRun puts a run whole or not at all into a directory, under a name of its
// own, so any number of machines can share one. ReadRuns reads a directory;
// damaged files are reported, and the others count. docs/reference/formats.md has the
// schema.
//
// # Reports
//
// A Builder takes runs one by one and in any order, and keeps of each a byte
// per test and some sums: 500 runs of 10,000 tests are a few megabytes. Data is
// what is shown. It depends on the runs only, neither on the time nor on the
// order in which they were read. Long lists are cut to what matters most, and
// what was left out is counted.
//
// HTML writes one file without any reference to another, and without a script:
// tables, with bars made by CSS. Its content security policy forbids the rest.
// html/template escapes everything that comes from a run.
package report
