package check

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/compiler"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/clangtest"
)

// Real C code, two versions each. These tests fetch it (tools/corpus).
var corpora = []struct {
	name, old, new string
	dir            string // with the sources
	compiler       string // default clang
	flags          []string
	skip           []string // programs, not the library
}{
	{name: "cjson", old: "1.7.15", new: "1.7.18", dir: ".", skip: []string{"test.c"}},
	{name: "lua", old: "5.4.4", new: "5.4.7", dir: "src", flags: []string{"-DLUA_USE_POSIX"}},
	{name: "lz4", old: "1.9.4", new: "1.10.0", dir: "lib"},
	{name: "zlib", old: "1.2.13", new: "1.3.1", dir: ".", flags: []string{"-DHAVE_UNISTD_H"}},
	{name: "fmtlib", old: "10.1.1", new: "11.1.1", dir: "src", compiler: "clang++", flags: []string{"-std=c++17", "-I{}/../include"}, skip: []string{"fmt.cc"}},
}

// fetched returns the directory with the sources of name@version.
func fetched(t *testing.T, name, version, dir string) string {
	t.Helper()
	if os.Getenv("TASTING_CORPORA") == "" {
		t.Skip("fetches sources from the machine's Debian archive: set TASTING_CORPORA=1")
	}
	to := filepath.Join(t.TempDir(), name)
	out, err := exec.Command("../../tools/corpus/fetch.sh", name+"@"+version, to).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir = filepath.Join(to, dir)
	for _, c := range corpora {
		for _, f := range c.skip {
			if c.name == name {
				if err := os.Remove(filepath.Join(dir, f)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return dir
}

// TestVersionPairs compares two releases of real libraries.
func TestVersionPairs(t *testing.T) {
	clang := clangtest.Clang(t)
	for _, c := range corpora {
		t.Run(c.name, func(t *testing.T) {
			level := "-O2"
			if c.compiler == "" {
				level = "-O0" // what is optimised isn't plain
			}
			results, err := Objects(t.Context(), ObjectsOptions{
				A: fetched(t, c.name, c.old, c.dir), B: fetched(t, c.name, c.new, c.dir),
				Compiler: join([]string{cmp.Or(c.compiler, "clang"), level}, c.flags), Clang: clang,
			})
			if err != nil {
				t.Fatal(err)
			}
			emitted := 0
			for _, r := range results {
				for _, p := range r.Pairs {
					emitted += len(p.Emitted)
					for _, v := range p.Violations() {
						t.Errorf("%s by %s: %s of %s: %s", r.Name, p.Evidence, v.What, v.Unit, v.Reason)
					}
				}
				if r.NotPlain != "" && c.compiler == "" {
					t.Logf("%s isn't plain C: %s", r.Name, r.NotPlain)
				}
			}
			if emitted == 0 {
				t.Error("the versions don't differ: nothing was checked")
			}
		})
	}
}

// TestLinksOfCorpora checks that what code refers to is in its links, by clang and
// by gcc.
func TestLinksOfCorpora(t *testing.T) {
	clang := clangtest.Clang(t)
	var all Counts
	for _, c := range corpora {
		dir := fetched(t, c.name, c.new, c.dir)
		files, err := filepath.Glob(filepath.Join(dir, "*.c*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no sources: %v", err)
		}
		compilers := []string{"clang", "gcc"}
		if c.compiler != "" {
			compilers = []string{"clang++", "g++"}
		}
		for _, cc := range compilers {
			t.Run(c.name+" by "+cc, func(t *testing.T) {
				references := 0
				for i, f := range files {
					if !compiler.IsSource(f) || len(files) > 2 && i%2 != len(cc)%2 { // of several, half by each
						continue
					}
					r, err := Links(t.Context(), append(inDir(join([]string{cc, "-O2"}, c.flags), dir), f), clang)
					if err != nil {
						t.Fatal(err)
					}
					references += r.References
					all.add(r.Counts)
					for _, v := range r.Violations {
						t.Errorf("%s by %s: %s", r.File, v.Evidence, v.Reason)
					}
				}
				if references == 0 {
					t.Error("no references: nothing was checked")
				}
			})
		}
	}
	t.Logf("%d functions, %d share a section, %d of them are components", all.Functions, all.Sharing, all.Apart)
	if all.Sharing < 1000 {
		t.Error("fewer than 1,000 functions share a section")
	}
}

// cxxSample are kinds of edits that a source without classes has places for.
var cxxSample = []string{
	"rts-e6-next-program", "rts-e7-constant-increased", "c++-parameter", "c++-specifier", "c++-function-qualifier", "c++-overload", "c++-return-type", "c++-exception",
	"c++-static-local", "c++-auto", "c++-qualified-call", "c++-construction", "c++-using", "c++-namespace", "c++-attribute",
}

// TestMutationSample is a small campaign with a fixed seed. docs/checks.md has
// the command of the full one.
func TestMutationSample(t *testing.T) {
	clang := clangtest.Clang(t)
	for _, test := range []struct {
		name              string
		compiler          []string
		files             map[string]string
		main              bool
		kinds             []string // all
		sample            int
		compared, emitted int // at least
	}{
		{"C", []string{"clang", "-O0"}, map[string]string{"cjson": "cJSON.c cJSON_Utils.c", "lua": "lobject.c ltable.c lstring.c", "zlib": "inflate.c deflate.c trees.c"}, false, nil, 60, 30, 15},
		{"C++", []string{"clang++", "-O2"}, map[string]string{"fmtlib": "os.cc"}, true, cxxSample, 20, 8, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := Campaign{Clang: clang, Seed: 1, Sample: test.sample, Main: test.main, Kinds: test.kinds}
			for _, x := range corpora {
				if test.files[x.name] == "" {
					continue
				}
				dir := fetched(t, x.name, x.new, x.dir)
				for _, f := range strings.Fields(test.files[x.name]) {
					c.Commands = append(c.Commands, append(inDir(join(test.compiler, x.flags), dir), filepath.Join(dir, f)))
				}
			}
			r, err := c.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Violations {
				t.Errorf("%s in %s of %s by %s:\n- %s\n+ %s\n%+v", f.Kind, f.Where, f.File, f.Evidence, f.Before, f.After, f.Differences)
			}
			t.Logf("%+v", r.Totals)
			if x := r.Totals[0]; r.Tried != test.sample || x.Compared < test.compared || x.Emitted < test.emitted {
				t.Errorf("too little was checked: %+v", x)
			}
		})
	}
}
