// Package verify is the folder of what says whether keys are right, and what they cost.
//
// Verification believes nothing of the analyzer: it compiles, links and runs programs in two versions, and
// compares outcomes with keys. Packages programs and ordinary have programs written for that, hostile ones and
// ordinary ones; evolve generates programs, or takes them from the history of repositories; witness and mutate
// compare what compilers emit; executions and workspace compare what tests execute; e2e runs `bazel test`; bench
// measures cost. Only cmd imports this folder.
package verify
