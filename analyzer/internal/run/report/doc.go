// Package report keeps a file for each run of "tasting test". It makes one page of
// many such files, and the same content as JSON.
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
// A Builder takes runs one by one and in any order. Of each run it keeps a byte
// per test and some sums: 500 runs of 10,000 tests are a few megabytes. Data is
// the content of the report. It depends on the runs only, not on the time or the
// order in which they were read. Long lists are cut, with the number of omitted
// elements.
//
// HTML writes one file without any reference to another, and without a script:
// tables, with bars made by CSS. Its content security policy forbids the rest.
// html/template escapes everything that comes from a run.
package report
