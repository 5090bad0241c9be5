package fingerprint

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/refgraph"
)

// source makes a manifest of external functions: name and, as its local hash,
// version; links are symbols.
func source(t testing.TB, name string, functions ...[]string) refgraph.Source {
	t.Helper()
	m := &manifest.Manifest{Rung: manifest.Rung_RUNG_FUNCTION, Source: name}
	for _, f := range functions {
		c := &manifest.Component{Name: f[0], Kind: manifest.Kind_KIND_FUNCTION, Linkage: manifest.Linkage_LINKAGE_EXTERNAL, LocalHash: fmt.Appendf(nil, "%16s", f[1])}
		for _, l := range f[2:] {
			c.Links = append(c.Links, 2*uint32(len(m.Symbols))+1)
			m.Symbols = append(m.Symbols, l)
		}
		m.Components = append(m.Components, c)
	}
	if _, err := manifest.Marshal(m); err != nil {
		t.Fatal(err)
	}
	return refgraph.Source{Name: name, Manifest: m}
}

func TestRoots(t *testing.T) {
	for _, tc := range []struct {
		name  string
		roots Roots
		extra []string // links of main
		symbol,
		reached string // whether "yes" or "no" the symbol is in the closure
	}{
		{"plain", Roots{}, nil, "f", "no"},
		{"named", Roots{Symbols: []string{"main", "f"}}, nil, "f", "yes"},
		{"all", Roots{Exported: true}, nil, "f", "yes"},
		{"malloc", Roots{}, nil, "malloc", "yes"},
		{"operator new", Roots{}, nil, "_Znwm", "yes"},
		{"hook of a sanitizer", Roots{}, nil, "__asan_default_options", "yes"},
		{"dlsym", Roots{}, []string{"dlsym"}, "f", "yes"},
		{"dlopen", Roots{}, []string{"dlopen"}, "f", "yes"},
		{"-rdynamic", Roots{LinkFlags: []string{"-rdynamic"}}, nil, "f", "yes"},
		{"-Wl,-E", Roots{LinkFlags: []string{"-Wl,-E"}}, nil, "f", "yes"},
		{"-Wl,--export-dynamic", Roots{LinkFlags: []string{"-Wl,--export-dynamic"}}, nil, "f", "yes"},
		{"-u f", Roots{LinkFlags: []string{"-u", "f"}}, nil, "f", "yes"},
		{"-uf", Roots{LinkFlags: []string{"-uf"}}, nil, "f", "yes"},
		{"-Wl,-u,f", Roots{LinkFlags: []string{"-Wl,-u,f"}}, nil, "f", "yes"},
		{"-Wl,--defsym=g=f+4", Roots{LinkFlags: []string{"-Wl,--defsym=g=f+4"}}, nil, "f", "yes"},
		{"--wrap", Roots{LinkFlags: []string{"-Wl,--wrap=g"}}, nil, "__wrap_g", "yes"},
		{"a library of the system", Roots{LinkFlags: []string{"-lfl"}}, nil, "f", "yes"},
		{"one by its file", Roots{LinkFlags: []string{"-l:libfl.so.2"}}, nil, "f", "yes"},
		{"one by its path", Roots{LinkFlags: []string{"/opt/lib/libfl.so.2"}}, nil, "f", "yes"},
		{"the C++ library", Roots{LinkFlags: []string{"-lstdc++", "-l:libstdc++.a"}}, nil, "f", "no"},
		{"other flags", Roots{LinkFlags: []string{"-pie", "-Wl,-z,now", "-lm"}}, nil, "f", "no"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := source(t, "t.c", append([]string{"main", "1"}, tc.extra...), []string{tc.symbol, "2"})
			r := Compute([]refgraph.Source{s}, tc.roots)
			reached := slices.ContainsFunc(r.Components, func(c Component) bool { return c.Name == tc.symbol })
			if reached != (tc.reached == "yes") {
				t.Errorf("%s reached: %v, want %s", tc.symbol, reached, tc.reached)
			}
		})
	}
}

// A linker takes a member of an archive if anything that it has taken needs it,
// executed or not.
func TestOnDemand(t *testing.T) {
	root := func(s refgraph.Source) refgraph.Source {
		s.Manifest.Components[0].Root = "constructor"
		return s
	}
	type parts struct {
		unreached []string // in the file of f, which main calls
		late      refgraph.Source
	}
	plain := func() refgraph.Source { return source(t, "h.c", []string{"h", "3"}) }
	for _, tc := range []struct {
		name          string
		roots         Roots
		before, after parts
		same          bool
	}{
		{"no root", Roots{OnDemand: map[int]bool{1: true, 2: true}}, parts{[]string{"g", "2", "h"}, plain()}, parts{[]string{"g", "4"}, plain()}, true},
		{"all is linked", Roots{}, parts{[]string{"g", "2", "h"}, root(plain())}, parts{[]string{"g", "4"}, root(plain())}, true},
		{"reference", Roots{OnDemand: map[int]bool{1: true, 2: true}}, parts{[]string{"g", "2", "h"}, root(plain())}, parts{[]string{"g", "2"}, root(plain())}, false},
		{"one that a compiler may drop", Roots{OnDemand: map[int]bool{1: true, 2: true}}, parts{[]string{"g", "2", "h"}, root(plain())}, parts{[]string{"g", "4", "h"}, root(plain())}, false},
		{"a reference that may stay undefined", Roots{OnDemand: map[int]bool{1: true, 2: true}}, parts{[]string{"g", "2", "h", manifest.WeakReference}, plain()}, parts{[]string{"g", "4", manifest.WeakReference}, plain()}, false},
		{"linked in any case", Roots{OnDemand: map[int]bool{1: true}}, parts{[]string{"g", "2", "h"}, root(plain())}, parts{[]string{"g", "4"}, root(plain())}, true},
		{
			"malloc", Roots{OnDemand: map[int]bool{1: true, 2: true}},
			parts{[]string{"g", "2", "h"}, source(t, "h.c", []string{"h", "3"}, []string{"malloc", "5"})},
			parts{[]string{"g", "4"}, source(t, "h.c", []string{"h", "3"}, []string{"malloc", "5"})}, false,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hash := func(p parts) string {
				return Compute([]refgraph.Source{
					source(t, "main.c", []string{"main", "1", "f"}),
					source(t, "f.c", []string{"f", "1"}, p.unreached),
					p.late,
				}, tc.roots).Fingerprint
			}
			if same := hash(tc.before) == hash(tc.after); same != tc.same {
				t.Errorf("same fingerprint: %v, want %v", same, tc.same)
			}
		})
	}
}

// What a look-up at run time finds depends on the order of the libraries.
func TestOrderOfExported(t *testing.T) {
	m := source(t, "main.c", []string{"main", "1", "dlsym"})
	a, b := source(t, "a.c", []string{"plug", "1"}), source(t, "b.c", []string{"plug", "2"})
	if Compute([]refgraph.Source{m, a, b}, Roots{}).Fingerprint == Compute([]refgraph.Source{m, b, a}, Roots{}).Fingerprint {
		t.Error("the order of definitions doesn't count")
	}
}

// How things are linked counts where it matters.
func TestLinkLine(t *testing.T) {
	dir := t.TempDir()
	write := func(s refgraph.Source) string {
		name := filepath.Join(dir, s.Name+".manifest")
		if err := manifest.Write(name, s.Manifest); err != nil {
			t.Fatal(err)
		}
		return name
	}
	constructor := source(t, "c.c", []string{"c", "3"})
	constructor.Manifest.Components[0].Root = "constructor"
	main, a, b, c := write(source(t, "main.c", []string{"main", "1", "f"})), write(source(t, "a.c", []string{"f", "1"})), write(source(t, "b.c", []string{"f", "2"})), write(constructor)
	for _, tc := range []struct {
		name string
		test Test
		same bool
	}{
		{"plain", Test{Manifests: []string{main, a, c}}, true},
		{"several definitions", Test{Manifests: []string{main, a, b}}, false},
		{"on demand", Test{Manifests: []string{main, a, c}, OnDemand: []string{a}}, true},
		{"root on demand", Test{Manifests: []string{main, a, c}, OnDemand: []string{c}}, false},
		{"misplaced", Test{Manifests: []string{main, a, c}, Misplaced: []string{a}}, true},
		{"misplaced root", Test{Manifests: []string{main, a, c}, Misplaced: []string{c}}, false},
	} {
		var prints []string
		for _, line := range [][]string{{"a.a", "b.so"}, {"b.so", "a.a"}} {
			tc.test.Binary, tc.test.LinkLine = "_main/t", line
			_, r, _, err := Compose(&tc.test)
			if err != nil {
				t.Fatal(err)
			}
			prints = append(prints, r.Fingerprint)
		}
		if same := prints[0] == prints[1]; same != tc.same {
			t.Errorf("%s: same fingerprint: %v", tc.name, same)
		}
	}
}

// A C library that implements dlsym doesn't make everybody a root.
func TestSharedLibraryIsNoCallerOfDlsym(t *testing.T) {
	lib := &manifest.Manifest{Rung: manifest.Rung_RUNG_CONTENT, Source: "libc.so.6", Symbols: []string{"dlsym", "malloc"}, Components: []*manifest.Component{{
		Name: "libc.so.6", Kind: manifest.Kind_KIND_FILE, Linkage: manifest.Linkage_LINKAGE_EXTERNAL, LocalHash: make([]byte, 16),
		Aliases: []string{"dlsym", "malloc"}, Links: []uint32{1, 3}, Root: "shared library",
	}}}
	r := Compute([]refgraph.Source{source(t, "t.c", []string{"main", "1"}, []string{"f", "2"}), {Name: "libc", Manifest: lib}}, Roots{})
	if slices.ContainsFunc(r.Components, func(c Component) bool { return c.Name == "f" }) {
		t.Error("f is reached")
	}
}

func TestOverridesAreSorted(t *testing.T) {
	l := overrides()
	if !slices.IsSorted(l) || len(slices.Compact(slices.Clone(l))) != len(l) {
		t.Error("overrides.txt isn't sorted")
	}
	for _, s := range []string{"malloc", "free", "write", "environ", "__cxa_pure_virtual", "_Znwm", "__assert_fail"} {
		if !slices.Contains(l, s) {
			t.Errorf("%s is missing", s)
		}
	}
	if slices.Contains(l, Main) {
		t.Error("main is not an override")
	}
}

// Contributions whose names and values run into each other are different.
func TestContributionFraming(t *testing.T) {
	if NewContribution("x", []string{"a", "b"}) == NewContribution("x", []string{"ab"}) {
		t.Error("lists of values are framed alike")
	}
	s := strings.Repeat("00", 32)
	if combine([]Contribution{{"a", s}, {"b", s}}) == combine([]Contribution{{"ab", s}}) {
		t.Error("lists of contributions are framed alike")
	}
}

// Every contribution changes the fingerprint.
func TestContributionsCount(t *testing.T) {
	s := []refgraph.Source{source(t, "t.c", []string{"main", "1"})}
	a := Compute(s, Roots{})
	b := Compute(s, Roots{}, NewContribution("x", []string{"1"}))
	c := Compute(s, Roots{}, NewContribution("x", []string{"2"}))
	if a.Fingerprint == b.Fingerprint || b.Fingerprint == c.Fingerprint {
		t.Error("a contribution doesn't change the fingerprint")
	}
}

// Two fingerprints that differ have at least one difference, even if no
// component does.
func TestExplainComposition(t *testing.T) {
	weak := func(name, hash string) refgraph.Source {
		s := source(t, name, []string{"w", hash})
		s.Manifest.Components[0].Linkage = manifest.Linkage_LINKAGE_WEAK
		return s
	}
	a := Compute([]refgraph.Source{source(t, "a.c", []string{"main", "1", "w"}), weak("b.c", "1"), weak("c.c", "2"), source(t, "d.c")}, Roots{})
	b := Compute([]refgraph.Source{source(t, "a.c", []string{"main", "1", "w"}), weak("b.c", "1"), source(t, "d.c", []string{"x", "1"}), weak("c.c", "2")}, Roots{})
	c := Explain(a, b)
	if c.Equal || len(c.Differences) != 1 || c.Differences[0].Category != CompositionChanged {
		t.Errorf("%+v", c)
	}
}

func TestReportRoundTrip(t *testing.T) {
	r := Compute([]refgraph.Source{source(t, "a.c", []string{"main", "1", "f"}, []string{"f", "<&>"})}, Roots{})
	var b bytes.Buffer
	if err := WriteReport(&b, r); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "r.json")
	os.WriteFile(file, b.Bytes(), 0o666)
	got, err := ReadReport(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, got); d != "" {
		t.Error(d)
	}
	os.WriteFile(file, bytes.Replace(b.Bytes(), []byte(fmt.Sprintf(`"format": %d`, ReportFormat)), []byte(fmt.Sprintf(`"format": %d`, ReportFormat+1)), 1), 0o666)
	if _, err := ReadReport(file); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("newer format: error %v", err)
	}
}

// A manifest of a newer format makes the test always run.
func TestComposeNewerManifest(t *testing.T) {
	dir := t.TempDir()
	good, newer := filepath.Join(dir, "good.manifest"), filepath.Join(dir, "newer.manifest")
	s := source(t, "a.c", []string{"main", "1"})
	if err := manifest.Write(good, s.Manifest); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(b, []byte{8, manifest.Format}) // field 1, a varint
	if i < 0 {
		t.Fatal("no format in the manifest")
	}
	b[i+1] = manifest.Format + 1
	os.WriteFile(newer, b, 0o666)
	c, _, warnings, err := Compose(&Test{Manifests: []string{good, newer}, Binary: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.AlwaysRun) != 1 || !strings.Contains(c.AlwaysRun[0], "newer.manifest") || len(warnings) != 1 {
		t.Errorf("always run %q, warnings %q", c.AlwaysRun, warnings)
	}
	if _, err := FromFiles([]string{good, newer}, Roots{}); err == nil {
		t.Error("the plain fingerprint: no error")
	}
	if c, _, _, err = Compose(&Test{Manifests: []string{good}, Binary: "b"}); err != nil || len(c.AlwaysRun) > 0 {
		t.Errorf("good manifest: always run %q, error %v", c.AlwaysRun, err)
	}
}

// The libraries that a linker script names are libraries of the link.
func TestComposeLinkerScript(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "libx.so.manifest")
	m := source(t, "libx.so", []string{"(linker script)", "1"}).Manifest
	m.Rung, m.Flags = manifest.Rung_RUNG_CONTENT, []string{"-lfl"}
	if err := manifest.Write(name, m); err != nil {
		t.Fatal(err)
	}
	c, _, _, err := Compose(&Test{Manifests: []string{name}, Binary: "b", LinkFlags: []string{"-lm"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"-lm", "-lfl"}; !slices.Equal(c.LinkFlags, want) {
		t.Errorf("link flags %q, want %q", c.LinkFlags, want)
	}
}

func TestComposeData(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	os.WriteFile(file, []byte("x"), 0o644)
	tree := filepath.Join(dir, "tree")
	os.MkdirAll(filepath.Join(tree, "empty"), 0o777)
	os.Symlink("nowhere", filepath.Join(tree, "dangling"))
	os.WriteFile(filepath.Join(tree, "b"), []byte("b"), 0o644)
	compose := func() *Config {
		c, _, _, err := Compose(&Test{Binary: "b", Data: []DataFile{{"z", file}, {"tree", tree}, {"z", file}}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a := compose()
	var names []string
	for _, f := range a.Data {
		names = append(names, f.Path)
	}
	if want := []string{"tree/b", "tree/dangling", "tree/empty/", "z"}; !slices.Equal(names, want) {
		t.Errorf("data %q, want %q", names, want)
	}
	os.Remove(filepath.Join(tree, "dangling"))
	os.Symlink("elsewhere", filepath.Join(tree, "dangling"))
	if cmp.Equal(a, compose()) {
		t.Error("the target of a dangling link doesn't count")
	}
	for _, name := range []string{"d/", "d/__init__.py"} {
		c, _, _, err := Compose(&Test{Binary: "b", Empty: []string{name}})
		if err != nil || len(c.Data) != 1 || c.Data[0].Path != name {
			t.Errorf("empty %s: %v, %v", name, c, err)
		}
	}
	// Bazel's unresolved symbolic links lead somewhere in the runfiles only.
	if c, _, _, err := Compose(&Test{Binary: "b", Data: []DataFile{{"z", filepath.Join(tree, "dangling")}}}); err != nil || len(c.Data) != 1 {
		t.Errorf("a dangling link: %v, %v", c, err)
	}
	if _, _, _, err := Compose(&Test{Binary: "b", Data: []DataFile{{"z", filepath.Join(dir, "nowhere")}}}); err == nil {
		t.Error("missing data: no error")
	}
}
