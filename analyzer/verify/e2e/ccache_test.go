package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCcache runs the script and the lines of docs/how-to/cache-compilations.md, with a directory of its own.
func TestCcache(t *testing.T) {
	if _, err := exec.LookPath("ccache"); err != nil {
		t.Skip(err)
	}
	page, err := os.ReadFile("../../../docs/how-to/cache-compilations.md")
	if err != nil {
		t.Fatal(err)
	}
	// The sandbox hides what else is in /tmp, so the script is in there, too.
	dir := t.TempDir()
	script := filepath.Join(dir, "ccache-gcc")
	text := strings.NewReplacer("/var/cache/ccache", dir, "/usr/local/bin/ccache-gcc", script).Replace(string(page))
	command := regexp.MustCompile(`(?m)^    #!/bin/sh\n    (exec ccache .*)$`).FindStringSubmatch(text)
	flags := regexp.MustCompile(`(?m)^    build (--.*)$`).FindAllStringSubmatch(text, -1)
	if command == nil || len(flags) != 2 {
		t.Fatalf("the script %q, the lines %q", command, flags)
	}
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"+command[1]+"\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CCACHE_DIR", dir) // for the script of the test, not for actions
	runScripts(t, setup{"gcc,ccache", []string{"--spawn_strategy=linux-sandbox", flags[0][1], flags[1][1]}}, "ccache")
}
