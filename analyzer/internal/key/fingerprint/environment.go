package fingerprint

import (
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// SetByBazel are variables that Bazel and its test script set for each test and machine. A key has their names without their
// values, which Bazel's own key doesn't have either. Two are functions that the script exports, in the shell's encoding.
// docs/reference/what-counts.md describes each variable.
var SetByBazel = []string{
	"BASH_FUNC_is_absolute%%",
	"BASH_FUNC_rlocation%%",
	"GTEST_TMP_DIR",
	"JAVA_RUNFILES",
	"PWD",
	"PYTHON_RUNFILES",
	"RUNFILES_DIR",
	"TEST_INFRASTRUCTURE_FAILURE_FILE",
	"TEST_LOGSPLITTER_OUTPUT_FILE",
	"TEST_PREMATURE_EXIT_FILE",
	"TEST_SRCDIR",
	"TEST_TMPDIR",
	"TEST_UNDECLARED_OUTPUTS_ANNOTATIONS_DIR",
	"TEST_UNDECLARED_OUTPUTS_DIR",
	"TEST_UNUSED_RUNFILES_LOG_FILE",
	"TEST_WARNINGS_OUTPUT_FILE",
	"TMPDIR",
	"XML_OUTPUT_FILE",
}

// setAtTimes are further such variables: for tests with shards or without a runfiles directory, or in some releases of Bazel.
var setAtTimes = []string{
	"GTEST_SHARD_STATUS_FILE",
	"RUNFILES_MANIFEST_FILE",
	"TEST_SHARD_STATUS_FILE",
	"TEST_UNDECLARED_OUTPUTS_ANNOTATIONS",
	"TEST_UNDECLARED_OUTPUTS_MANIFEST",
	"TEST_UNDECLARED_OUTPUTS_ZIP",
}

// Environment returns the part of a test's environment that belongs to the key, sorted. Declared are the names that the
// test's rule mentions, whose values are always part of it. Strip removes the parts of a value that differ from run to run.
func Environment(env, declared []string, strip func(string) string) []string {
	var l []string
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		switch {
		case slices.Contains(declared, k):
			l = append(l, k+"="+strip(v))
		case k == "USER" && v == userName():
			// Bazel's script sets it by default.
		case slices.Contains(SetByBazel, k) || slices.Contains(setAtTimes, k):
			l = append(l, k+"=\x00set") // no value can contain NUL
		default:
			l = append(l, k+"="+strip(v))
		}
	}
	slices.Sort(l)
	return l
}

// userName returns the name of the process's effective user, or "".
func userName() string {
	u, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil {
		return ""
	}
	return u.Username
}
