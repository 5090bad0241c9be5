package fingerprint

import (
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// SetByBazel are variables that Bazel and its script choose for each test and place. They are in
// a key only as being set: Bazel's own key doesn't have their values either. Two are functions that
// the script exports, as the shell writes them down. docs/runner.md says what each one is.
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

// setAtTimes are others of them, of tests with shards, without a directory of runfiles, or of some
// releases of Bazel.
var setAtTimes = []string{
	"GTEST_SHARD_STATUS_FILE",
	"RUNFILES_MANIFEST_FILE",
	"TEST_SHARD_STATUS_FILE",
	"TEST_UNDECLARED_OUTPUTS_ANNOTATIONS",
	"TEST_UNDECLARED_OUTPUTS_MANIFEST",
	"TEST_UNDECLARED_OUTPUTS_ZIP",
}

// Environment returns what counts of the environment of a test, sorted. Declared are the names
// that the test's rule mentions, whose values always count; strip takes out of a value what
// differs from run to run.
func Environment(env, declared []string, strip func(string) string) []string {
	var l []string
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		switch {
		case slices.Contains(declared, k):
			l = append(l, k+"="+strip(v))
		case k == "USER" && v == userName():
			// Bazel's script sets it to that if nobody else does.
		case slices.Contains(SetByBazel, k) || slices.Contains(setAtTimes, k):
			l = append(l, k+"=\x00set") // no value can contain NUL
		default:
			l = append(l, k+"="+strip(v))
		}
	}
	slices.Sort(l)
	return l
}

// userName is the name of the user whom the process runs as, or empty.
func userName() string {
	u, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil {
		return ""
	}
	return u.Username
}
