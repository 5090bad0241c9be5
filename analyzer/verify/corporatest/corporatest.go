// Package corporatest has real C and C++ code for tests of the checks: libraries in two
// versions each, which tools/corpus fetches.
package corporatest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Corpus is a library.
type Corpus struct {
	Name, Old, New string   // versions
	Dir            string   // with the sources
	Cxx            bool     // it isn't C
	Flags          []string // {} stands for the directory
	skip           []string // programs, not the library
}

// All are the libraries.
var All = []Corpus{
	{Name: "cjson", Old: "1.7.15", New: "1.7.18", Dir: ".", skip: []string{"test.c"}},
	{Name: "lua", Old: "5.4.4", New: "5.4.7", Dir: "src", Flags: []string{"-DLUA_USE_POSIX"}},
	{Name: "lz4", Old: "1.9.4", New: "1.10.0", Dir: "lib"},
	{Name: "zlib", Old: "1.2.13", New: "1.3.1", Dir: ".", Flags: []string{"-DHAVE_UNISTD_H"}},
	{Name: "fmtlib", Old: "10.1.1", New: "11.1.1", Dir: "src", Cxx: true, Flags: []string{"-std=c++17", "-I{}/../include"}, skip: []string{"fmt.cc"}},
}

// Fetch returns the directory with the sources of a version. The test is skipped unless
// the environment allows it to fetch.
func (c Corpus) Fetch(t testing.TB, version string) string {
	t.Helper()
	if os.Getenv("TASTING_CORPORA") == "" {
		t.Skip("fetches sources from the machine's Debian archive: set TASTING_CORPORA=1")
	}
	to := filepath.Join(t.TempDir(), c.Name)
	// From the directory of a test in analyzer/verify.
	out, err := exec.Command("../../../tools/corpus/fetch.sh", c.Name+"@"+version, to).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := filepath.Join(to, c.Dir)
	for _, f := range c.skip {
		if err := os.Remove(filepath.Join(dir, f)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Command is the command line that compiles a file of dir, which Fetch has returned.
func (c Corpus) Command(compiler []string, dir, file string) []string {
	argv := slices.Clone(compiler)
	for _, f := range c.Flags {
		argv = append(argv, strings.ReplaceAll(f, "{}", dir))
	}
	return append(argv, file)
}
