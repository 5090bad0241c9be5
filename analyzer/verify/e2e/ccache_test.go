package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCcache runs the lines of docs/how-to/cache-compilations.md, with a directory of its own.
func TestCcache(t *testing.T) {
	if _, err := os.Stat("/usr/lib/ccache/gcc"); err != nil {
		t.Skip("ccache isn't installed as Debian has it: ", err)
	}
	page, err := os.ReadFile("../../../docs/how-to/cache-compilations.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "ccache")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CCACHE_DIR", dir) // for ccache --print-stats

	s := setup{name: "gcc,ccache", flags: []string{"--spawn_strategy=linux-sandbox"}}
	text, _, _ := strings.Cut(string(page), "\n## What you see")
	for line := range strings.Lines(text) {
		if flags, ok := strings.CutPrefix(line, "    build "); ok {
			s.flags = append(s.flags, strings.Fields(strings.ReplaceAll(flags, "/var/cache/ccache", dir))...)
		}
	}
	if len(s.flags) < 4 {
		t.Fatalf("the lines for .bazelrc: %q", s.flags)
	}
	runScripts(t, s, "ccache")
}
