package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	tasting "github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
)

// TestOptions compares the list of options that analyzer/internal/run/driver decides about with Bazel's.
func TestOptions(t *testing.T) {
	b := newBazel(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "MODULE.bazel"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	b.servers[dir] = true
	program := &tasting.Bazel{Program: b.program, Dir: dir, Startup: b.startup()}
	const release = "7.7.1"
	if v := program.Version(t.Context()); v != release {
		t.Skipf("Bazel is %s", v)
	}
	flags, err := program.Flags(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range flags {
		if slices.Contains(f.Commands, "test") {
			got = append(got, f.Name)
		}
	}
	slices.Sort(got)
	list, err := os.ReadFile(filepath.Join(b.rules, "analyzer/internal/run/driver/testdata/options-"+release+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Fields(string(list)), slices.Compact(got)); d != "" {
		t.Error(d)
	}
}
