package trace

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// IdleFile is the file in which a test that Bazel has run under RunUnder leaves the functions that it didn't enter, encoded, next to its
// test.log. Bazel keeps that file of a test as it keeps the log, also of one that it has run elsewhere, and calls it
// $TEST_LOGSPLITTER_OUTPUT_FILE; nothing else is known to write it.
const IdleFile = "test.raw_splitlogs/test.splitlogs"

// SplitLogs is the variable of a test's environment with the path of IdleFile.
const SplitLogs = "TEST_LOGSPLITTER_OUTPUT_FILE"

// plainWord matches words that Bazel takes as they are.
var plainWord = regexp.MustCompile(`^[\w./+@%=:,-]+$`)

// RunUnder returns the flag of Bazel that has tests run by program, a tasting, with its command
// "service trace --under_bazel" and more flags for that.
func RunUnder(program string, flags ...string) string {
	words := append([]string{program, "service", "trace", "--under_bazel"}, flags...)
	for i, w := range words {
		if !plainWord.MatchString(w) {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return "--run_under=" + strings.Join(words, " ") + " --"
}

// CleanTest removes what a test that Bazel has started, by its environment, may have left: so that it can be run once more
// as if it hadn't been run. Files of its log aren't among that.
func CleanTest(getenv func(string) string) error {
	if getenv("BAZEL_TEST") == "" {
		return errors.New("not started by bazel test")
	}
	var failed error
	for _, name := range []string{"TEST_TMPDIR", "TEST_UNDECLARED_OUTPUTS_DIR", "TEST_UNDECLARED_OUTPUTS_ANNOTATIONS_DIR"} {
		dir := getenv(name)
		if dir == "" {
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
		for _, e := range entries {
			failed = errors.Join(failed, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	for _, name := range []string{
		"XML_OUTPUT_FILE", "TEST_PREMATURE_EXIT_FILE", "TEST_INFRASTRUCTURE_FAILURE_FILE", "TEST_WARNINGS_OUTPUT_FILE", "TEST_UNUSED_RUNFILES_LOG_FILE",
		"TEST_SHARD_STATUS_FILE", SplitLogs,
	} {
		if file := getenv(name); file != "" {
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				failed = errors.Join(failed, err)
			}
		}
	}
	return failed
}

// ReadIdle reads what a test that Bazel has run didn't enter: none of its shards, by the directories of their logs. It also
// returns what is known of the test cases of one without shards. Idle is nil if that isn't known of all shards, with an
// UnknownError if the reason is known.
func ReadIdle(dirs []string) (idle map[string]bool, cases *Cases, err error) {
	for _, dir := range dirs {
		b, err := os.ReadFile(filepath.Join(dir, IdleFile))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		own, c, err := DecodeIdle(b)
		if err != nil {
			return nil, nil, err
		}
		if idle == nil {
			idle, cases = own, c
		} else {
			cases = nil
		}
		maps.DeleteFunc(idle, func(name string, _ bool) bool { return !own[name] })
	}
	return idle, cases, nil
}
