// Package e2e holds the end-to-end tests of the Bazel rules: each txtar script
// in testdata is a workspace and a story of builds, edits and tests in it, run
// by a real Bazel inside the test.
//
// # Words of the scripts
//
// Besides testscript's own commands there are
//
//	bazel ARGS...           run Bazel in the workspace made of $WORK's files
//	ran [NAME...]           exactly these test programs ran since the last ran
//	spawns MNEMONIC=N...    so many actions of these mnemonics ran in the last bazel
//	replace FILE OLD NEW    edit a file; OLD must occur exactly once
//	fetch OUTPUT NAME       copy a file below bazel-bin (or testlogs/...) to .tmp/NAME
//	check ARGS...           run tasting check workspace there
//	tasting test ARGS...    run tasting test there
//	recipe KIND ARGS...     run docs/ci/tasting.sh there; results are in .tmp/ci
//	checkout DIR            copy the workspace to DIR; bazel works there from now on
//	remote                  start a server for remote execution; Bazel uses nothing else from now on
//	runners RUNNER|MNEMONIC=RUNNER...
//	                        everything in the last bazel ran by one of these runners,
//	                        as its execution log says ("remote", "remote_cache_hit");
//	                        all actions of a mnemonic by that one, and there are some
//
// The conditions [gcc] and [clang] tell the compiler of the build.
//
// $ANALYZER is the tasting program, $STORE the store of the script.
//
// Who ran isn't taken from anyone's report: the programs write their names to a
// file outside the sandbox, see ran.h in [support].
//
// All scripts share one directory and so one Bazel server, which takes seconds
// to start: the files of a script replace those of the last one. Each script
// has a store of its own.
package e2e
