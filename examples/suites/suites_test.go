package suites

import (
	"os/exec"
	"strings"
	"testing"
)

// Bazel's sandbox hides what is in /tmp from workspaces that are elsewhere.
func TestTmp(t *testing.T) {
	for _, args := range []string{
		"prepare.sh /tmp/none/suites", "prepare.sh /tmp/../tmp/none", "at-commit.sh /tmp/none", "at-commit.sh /none /tmp/none", "overlay.sh cJSON /tmp/none",
	} {
		cmd := exec.Command("sh", strings.Fields(args)...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "is below /tmp. Bazel's sandbox") {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
}
