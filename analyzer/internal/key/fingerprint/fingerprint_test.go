package fingerprint

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest/manifesttest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkflags"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/syslib"
	"github.com/spf13/pflag"
)

// source makes a manifest of external functions: name and, as its local hash,
// version; links are symbols.
func source(t testing.TB, name string, functions ...[]string) part {
	t.Helper()
	return part{Name: name, Manifest: manifesttest.Source(t, name, functions...)}
}

func computed(sources []part, roots Roots) *Report {
	r, _ := compute(sources, roots)
	return r
}

func TestRoots(t *testing.T) {
	for _, tc := range []struct {
		name  string
		roots Roots
		extra []string // links of main
		symbol,
		reached string // whether "yes" or "no" the symbol counts
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
			r := computed([]part{s}, tc.roots)
			reached := slices.ContainsFunc(r.Components, func(c Component) bool { return c.Name == tc.symbol })
			if counts := reached || r.Unusual != ""; counts != (tc.reached == "yes") {
				t.Errorf("%s counts: %v (%s), want %s", tc.symbol, counts, r.Unusual, tc.reached)
			}
		})
	}
}

// archive makes one manifest of several, each of them a member.
func archive(members ...part) part {
	out := &manifest.Manifest{Rung: manifest.Rung_RUNG_OBJECT, Source: "lib.a"}
	for i, s := range members {
		n, k := uint32(len(out.Components)), uint32(len(out.Symbols))
		for _, c := range s.Manifest.Components {
			for x := range c.Links {
				if c.Links[x]%2 == 0 {
					c.Links[x] += 2 * n
				} else {
					c.Links[x] += 2 * k
				}
			}
			c.Unit = uint32(i)
			out.Components = append(out.Components, c)
		}
		out.Symbols = append(out.Symbols, s.Manifest.Symbols...)
		s.Manifest.Units[0].Name = s.Name
		out.Units = append(out.Units, s.Manifest.Units[0])
	}
	return part{"lib.a", out}
}

// A linker takes a member of an archive if anything that it has taken needs it,
// executed or not.
func TestArchives(t *testing.T) {
	root := func(s part) part {
		s.Manifest.Components[0].Root = "constructor"
		return s
	}
	inexact := func(s part) part {
		s.Manifest.Units[0].Exact = false
		return s
	}
	f := func(unreached ...string) part { return source(t, "f.o", []string{"f", "1"}, unreached) }
	h := func() part { return source(t, "h.o", []string{"h", "3"}) }
	for _, tc := range []struct {
		name          string
		before, after []part // behind main, which calls f
		same          bool
	}{
		{"a function that nobody calls no longer calls", []part{archive(f("g", "2", "h"), h())}, []part{archive(f("g", "4"), h())}, true},
		{"what it called has a constructor", []part{archive(f("g", "2", "h"), root(h()))}, []part{archive(f("g", "4"), root(h()))}, false},
		{"all is linked", []part{f("g", "2", "h"), root(h())}, []part{f("g", "4"), root(h())}, true},
		{"an edit elsewhere in a member", []part{archive(f("g", "2", "h"), root(h()))}, []part{archive(f("g", "4", "h"), root(h()))}, true},
		{"one that a compiler may drop", []part{archive(inexact(f("g", "2", "h")), root(h()))}, []part{archive(inexact(f("g", "4", "h")), root(h()))}, false},
		{
			"malloc",
			[]part{archive(f("g", "2", "h"), source(t, "h.o", []string{"h", "3"}, []string{"malloc", "5"}))},
			[]part{archive(f("g", "4"), source(t, "h.o", []string{"h", "3"}, []string{"malloc", "5"}))}, false,
		},
		{"a member that isn't taken", []part{archive(f("g", "2"), root(h()))}, []part{archive(f("g", "2"), root(source(t, "h.o", []string{"h", "9"})))}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hash := func(l []part) string {
				return computed(append([]part{source(t, "main.o", []string{"main", "1", "f"})}, l...), Roots{}).Fingerprint
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
	if computed([]part{m, a, b}, Roots{}).Fingerprint == computed([]part{m, b, a}, Roots{}).Fingerprint {
		t.Error("the order of definitions doesn't count")
	}
}

// A C library that implements dlsym doesn't make everybody a root.
func TestSharedLibraryIsNoCallerOfDlsym(t *testing.T) {
	lib := &manifest.Manifest{Rung: manifest.Rung_RUNG_CONTENT, Source: "libc.so.6", Symbols: []string{"dlsym", "malloc"}, Components: []*manifest.Component{{
		Name: "libc.so.6", Kind: manifest.Kind_KIND_FILE, Linkage: manifest.Linkage_LINKAGE_EXTERNAL, LocalHash: make([]byte, 16),
		Definitions: manifest.NewDefinitions(manifest.Binding_BINDING_GLOBAL, "dlsym", "malloc"), Links: []uint32{1, 3}, Root: "shared library",
	}}, Units: []*manifest.Unit{{}}}
	r := computed([]part{source(t, "t.c", []string{"main", "1"}, []string{"f", "2"}), {Name: "libc", Manifest: lib}}, Roots{})
	if slices.ContainsFunc(r.Components, func(c Component) bool { return c.Name == "f" }) {
		t.Error("f is reached")
	}
}

func TestOverridesAreSorted(t *testing.T) {
	for file, text := range map[string]string{"overrides.txt": overridesText, "static.txt": staticText, "libcxx.txt": libcxxText} {
		if !slices.IsSorted(names(text)) {
			t.Errorf("%s isn't sorted", file)
		}
	}
	l := slices.Sorted(slices.Values(allNames()))
	if len(slices.Compact(slices.Clone(l))) != len(l) {
		t.Error("a name is listed twice")
	}
	if m := libm(); !slices.IsSorted(m) || !slices.Contains(m, "sin") || slices.Contains(m, "malloc") {
		t.Error("libm.txt isn't sorted, or of another library")
	}
	for _, s := range []string{"malloc", "free", "write", "environ", "__cxa_pure_virtual", "_Znwm", "__assert_fail", "_itoa_word", "__init_array_start", "_ZSt21__throw_runtime_errorPKc", "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE4swapERS4_"} {
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
	code := strings.Repeat("00", 32)
	with := func(more ...Contribution) string { return combine(contributions(code, formats(nil), more)) }
	a, b, c := with(), with(NewContribution("x", []string{"1"})), with(NewContribution("x", []string{"2"}))
	if a == b || b == c {
		t.Error("a contribution doesn't change the fingerprint")
	}
}

func TestReportRoundTrip(t *testing.T) {
	r := computed([]part{source(t, "a.c", []string{"main", "1", "f"}, []string{"f", "<&>"})}, Roots{})
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

// Without a probe that knows what was linked the runner counts the program as a
// whole, so it has to see the difference.
func TestComposeProbe(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no linker")
	}
	p, err := syslib.Linker{Path: cc}.Probe(t.Context(), t.TempDir(), linkflags.Parse(nil, linkflags.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "probe.json")
	linked := func(flags ...string) string {
		t.Helper()
		c, _, _, err := Compose(&Test{Binary: "b", Toolchain: file, LinkFlags: flags})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range c.Contributions {
			if x.Name == LinkedFromSystem {
				return x.SHA256
			}
		}
		return ""
	}
	write := func(p *syslib.Probe) {
		if err := p.Write(file, errors.New("why")); err != nil {
			t.Fatal(err)
		}
	}
	write(nil)
	if got := linked(); got != "" {
		t.Errorf("nothing is known, but contributes %s", got)
	}
	write(p)
	one := linked()
	if one == "" || linked("-u", "f") != one {
		t.Errorf("contributions %q and %q", one, linked("-u", "f"))
	}
	if got := linked("-lfl"); got != "" {
		t.Errorf("another line is known: %s", got)
	}
	p.Links[0].Files[0].SHA256[0]++
	write(p)
	if two := linked(); two == "" || two == one {
		t.Errorf("another start file makes no difference: %q and %q", one, two)
	}
	os.WriteFile(file, []byte("{}"), 0o666)
	if _, _, _, err := Compose(&Test{Binary: "b", Toolchain: file}); err == nil {
		t.Error("no error for a file that isn't a probe's")
	}

	// A linker script or an object asks for a library that isn't on the line.
	write(p)
	name := filepath.Join(dir, "a.o.manifest")
	m := source(t, "a.o", []string{"main", "1"}).Manifest
	m.Rung, m.Flags = manifest.Rung_RUNG_OBJECT, []string{"-lfl"}
	if err := manifest.Write(name, m); err != nil {
		t.Fatal(err)
	}
	c, _, _, err := Compose(&Test{Binary: "b", Toolchain: file, Manifests: []string{name}})
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(c.Contributions, func(x Contribution) bool { return x.Name == LinkedFromSystem }) || !slices.Contains(c.LinkFlags, "-lfl") {
		t.Errorf("what an object asks for is known: %+v", c)
	}
}

// TestSuppressions: a variable of the test may tell a sanitizer which functions do
// wrong, by names that nothing else reads.
func TestSuppressions(t *testing.T) {
	code := func(local string, keys ...string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "a.o.manifest")
		m := source(t, "a.o", []string{"main", "1"}).Manifest
		m.Rung = manifest.Rung_RUNG_OBJECT
		m.Components = append(m.Components, &manifest.Component{Name: manifest.LocalNames, Kind: manifest.Kind_KIND_SECTION, Linkage: manifest.Linkage_LINKAGE_LOCAL, LocalHash: fmt.Appendf(nil, "%16s", local)})
		if err := manifest.Write(file, m); err != nil {
			t.Fatal(err)
		}
		c, _, _, err := Compose(&Test{Binary: "b", Manifests: []string{file}, EnvKeys: keys})
		if err != nil {
			t.Fatal(err)
		}
		return c.Code
	}
	if code("f", "HOME") != code("g", "HOME") {
		t.Error("names of local functions count")
	}
	if code("f", "HOME", "TSAN_OPTIONS") == code("g", "HOME", "TSAN_OPTIONS") {
		t.Error("names of local functions don't count for a sanitizer with options")
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
	// Where a link leads counts, too, if what it leads to is the same; a test can see it.
	os.WriteFile(filepath.Join(tree, "same"), []byte("b"), 0o644)
	os.Symlink("b", filepath.Join(tree, "link"))
	at := func(name string) string { return filepath.Join(dir, name) }
	b := compose()
	if dir := b.StaleDirectory(at); dir != "" {
		t.Errorf("%s is stale", dir)
	}
	for _, relink := range []func(){
		func() { os.Symlink("same", filepath.Join(tree, "link")) },
		func() { os.WriteFile(filepath.Join(tree, "link"), []byte("b"), 0o644) },
	} {
		os.Remove(filepath.Join(tree, "link"))
		relink()
		if cmp.Equal(b, compose()) {
			t.Error("where a link leads doesn't count")
		}
		if b.StaleDirectory(at) == "" {
			t.Error("a link that leads elsewhere isn't stale")
		}
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

// Names may have "=" in them: of a file that can't be told apart from another one nothing is known.
func TestDataNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"x=d", "d=x=d", "e=f"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for flag, want := range map[string]struct {
		path, file string
		sure       bool
	}{"a=e=f": {"a", "e=f", true}, "a=b=e=f": {"a=b", "e=f", true}, "x=d=x=d": {"x", "d=x=d", false}} {
		x := &Test{}
		f := pflag.NewFlagSet("compose", pflag.ContinueOnError)
		finish := x.AddFlags(f)
		if err := f.Parse([]string{"--binary=b", "--data=" + flag}); err != nil {
			t.Fatal(err)
		}
		if err := finish(dir); err != nil {
			t.Fatal(err)
		}
		if got := x.Data[0]; got.Path != want.path || got.File != filepath.Join(dir, want.file) || (x.AlwaysRun == nil) != want.sure {
			t.Errorf("%s: %v, %q", flag, got, x.AlwaysRun)
		}
	}
}
