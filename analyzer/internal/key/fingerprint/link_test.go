package fingerprint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkflags"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/syslib"
)

// Whether a library is loaded that nothing refers to is up to the driver, which a probe knows.
func TestDefaultsOfTheDriver(t *testing.T) {
	dir := t.TempDir()
	x := &Test{Binary: "b", Dir: dir}
	for _, m := range []part{source(t, "a.o", []string{"main", "1"}), source(t, "l.o", []string{"main", "1"})} {
		if err := manifest.Write(filepath.Join(dir, m.Name+".manifest"), m.Manifest); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range []LinkFile{
		{"b", "executable", [][2]string{{"a.o", "a.o.manifest"}}, nil, []string{"a.o", "libl.so"}},
		{"libl.so", "shared", [][2]string{{"l.o", "l.o.manifest"}}, nil, []string{"-shared", "l.o"}},
	} {
		name := filepath.Join(dir, l.Output+".link")
		if err := os.WriteFile(name, []byte(l.Text()), 0o666); err != nil {
			t.Fatal(err)
		}
		x.Links = append(x.Links, name)
	}
	memory := OpenMemory(filepath.Join(dir, "memory"))
	fingerprints := map[string]string{}
	for _, taken := range []*syslib.Taken{nil, {Name: "bfd"}, {Name: "bfd", AsNeeded: linkflags.Yes}, {Name: "bfd", AsNeeded: linkflags.No}, {Name: "lld", AsNeeded: linkflags.No}} {
		x.System = func([]*linkflags.Line) *syslib.Taken { return taken }
		b := newBatch([]*Test{x})
		item, line := &b.linked[0][0].items[1], b.linked[0][0].line
		if want := taken == nil || taken.AsNeeded != linkflags.No; item.asNeeded() != want {
			t.Errorf("%+v: as needed: %v", taken, !want)
		}
		if taken != nil && line.Linker != taken.Name {
			t.Errorf("%+v: linker %q", taken, line.Linker)
		}
		known, _ := ComposeAll([]*Test{x}, nil)
		got, _ := ComposeAll([]*Test{x}, memory)
		if got[0].Err != nil || got[0].Fingerprint != known[0].Fingerprint {
			t.Errorf("%+v: %v, %s remembered, %s composed", taken, got[0].Err, got[0].Fingerprint, known[0].Fingerprint)
		}
		if taken != nil && taken.Name == "bfd" {
			fingerprints[taken.Name+string(rune('0'+taken.AsNeeded))] = got[0].Fingerprint
		}
	}
	if fingerprints["bfd1"] == fingerprints["bfd2"] {
		t.Errorf("--as-needed makes no difference: %v", fingerprints)
	}
}

// A driver that exports all symbols makes look-ups see functions that nothing reaches, and a composition that was remembered
// for another driver isn't taken for it.
func TestExportsOfTheDriver(t *testing.T) {
	exporting, plain := []string{"-Wl,--export-dynamic"}, []string(nil)
	parts := map[string][2]string{} // by the driver, of the two versions: the code's part of the fingerprint
	memory := OpenMemory(filepath.Join(t.TempDir(), "memory"))
	for _, words := range [][]string{plain, exporting} {
		var of [2]string
		for i, version := range []string{"2", "3"} {
			dir := t.TempDir()
			x := &Test{Binary: "b", Dir: dir, System: func([]*linkflags.Line) *syslib.Taken { return &syslib.Taken{Name: "bfd", Linker: words} }}
			m := source(t, "a.o", []string{"main", "1", "dlsym"}, []string{"f", version})
			if err := manifest.Write(filepath.Join(dir, "a.o.manifest"), m.Manifest); err != nil {
				t.Fatal(err)
			}
			l := LinkFile{"b", "executable", [][2]string{{"a.o", "a.o.manifest"}}, nil, []string{"a.o"}}
			name := filepath.Join(dir, "b.link")
			if err := os.WriteFile(name, []byte(l.Text()), 0o666); err != nil {
				t.Fatal(err)
			}
			x.Links = append(x.Links, name)
			got, _ := ComposeAll([]*Test{x}, memory)
			if got[0].Err != nil {
				t.Fatal(got[0].Err)
			}
			Reports([]*Composed{&got[0]}, func(_ int, r *Report, err error) {
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range r.Contributions {
					if c.Name == "code" {
						of[i] = c.SHA256
					}
				}
			})
			x.System = func([]*linkflags.Line) *syslib.Taken { return &syslib.Taken{Name: "bfd", Linker: exporting} }
			known, _ := ComposeAll([]*Test{x}, nil)
			if got, _ = ComposeAll([]*Test{x}, memory); got[0].Fingerprint != known[0].Fingerprint {
				t.Errorf("version %s: %s remembered, %s composed", version, got[0].Fingerprint, known[0].Fingerprint)
			}
		}
		parts[strings.Join(words, " ")] = of
	}
	if of := parts[""]; of[0] == "" || of[0] != of[1] {
		t.Error("an executable that exports nothing counts functions that nothing reaches")
	}
	if of := parts[exporting[0]]; of[0] == of[1] {
		t.Error("a function that a look-up may find doesn't count")
	}
}

// Files that a link reads beside code, made by the build: which, where on the line, and
// in which state counts; not the name of a configuration.
func TestGeneratedLinkInputs(t *testing.T) {
	// fingerprint is that of a test whose line has words behind its object; @ stands for
	// the directory of outputs.
	fingerprint := func(config, inputs, words, library string) string {
		t.Helper()
		dir := t.TempDir()
		out := "bazel-out/" + config + "/bin/"
		at := func(s string) string { return strings.ReplaceAll(s, "@", out) }
		write := func(name, content string) string {
			file := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
			return file
		}
		test := &Test{Binary: "b", Dir: dir}
		for i, name := range strings.Fields(at(inputs)) {
			write(name, strings.Repeat("x", i))
			test.LinkInputs = append(test.LinkInputs, filepath.Join(dir, name))
		}
		for _, name := range []string{"a.o", "l.o"} {
			if err := manifest.Write(filepath.Join(dir, name+".manifest"), source(t, name, []string{strings.Replace(name, "a.o", "main", 1), "1"}).Manifest); err != nil {
				t.Fatal(err)
			}
		}
		link := func(name, kind, object, words string) {
			text := "tasting link 1\noutput " + name + "\nkind " + kind + "\nunit " + object + "\t" + object + ".manifest\narg -o\narg " + name + "\n"
			for _, w := range append(strings.Fields(at(words)), object) {
				text += "arg " + w + "\n"
			}
			test.Links = append(test.Links, write(name+".link", text))
		}
		words = strings.Replace(words, "LIBRARY", out+"libl.so", 1)
		link(out+"b", "executable", out+"../../../a.o", words)
		link(out+"libl.so", "shared", out+"../../../l.o", "-shared "+library)
		_, r, _, err := Compose(test)
		if err != nil {
			t.Fatal(err)
		}
		return r.Fingerprint
	}
	const inputs = "@c/v.lds @d/v.lds @c/odd @c/x.ld @c/x.obj"
	for _, x := range []struct{ name, before, after string }{
		{"another file", "@c/v.lds", "@d/v.lds"},
		{"by -Wl", "-Wl,@c/v.lds", "-Wl,@d/v.lds"},
		{"by -Xlinker", "-Xlinker @c/v.lds", "-Xlinker @d/v.lds"},
		{"none", "@c/v.lds", ""},
		{"order", "@c/v.lds @d/v.lds", "@d/v.lds @c/v.lds"},
		{"odd names", "@c/odd @c/x.ld", "@c/x.ld @c/odd"},
		{"that of an object", "@c/x.obj", ""},
		{"behind a flag", "-Wl,--defsym=foo=1 @c/v.lds", "@c/v.lds -Wl,--defsym=foo=1"},
		{"in a state", "-Wl,--whole-archive @c/v.lds -Wl,--no-whole-archive", "@c/v.lds"},
		{"behind a script", "-Wl,-T,@c/x.ld @c/v.lds", "@c/v.lds -Wl,-T,@c/x.ld"},
		{"another configuration", "-Wl,-T,@c/v.lds", "-Wl,-T,bazel-out/other/bin/c/v.lds"},
	} {
		all := inputs
		if x.name == "another configuration" {
			all += " bazel-out/other/bin/c/v.lds"
		}
		if fingerprint("k8", all, x.before, "") == fingerprint("k8", all, x.after, "") {
			t.Errorf("%s: the same fingerprint", x.name)
		}
		if fingerprint("k8", all, "LIBRARY", x.before) == fingerprint("k8", all, "LIBRARY", x.after) {
			t.Errorf("%s, in a library: the same fingerprint", x.name)
		}
	}
	if fingerprint("k8", inputs, "LIBRARY @c/v.lds", "@d/v.lds") != fingerprint("other", inputs, "LIBRARY @c/v.lds", "@d/v.lds") {
		t.Error("the name of a configuration counts")
	}
	// What is where, though all lists say the same of both.
	if fingerprint("k8", "@c/v.lds @d/v.lds", "@c/v.lds", "") == fingerprint("k8", "@d/v.lds @c/v.lds", "@c/v.lds", "") {
		t.Error("the contents are exchanged: the same fingerprint")
	}
}

// What other programs than the test may open of its libraries counts as a whole, and what is linked as it
// is has to be known.
func TestOpened(t *testing.T) {
	compose := func(unreached string, change func(dir string, x *Test), words ...string) Composed {
		t.Helper()
		dir := t.TempDir()
		x := &Test{Binary: "b", Dir: dir}
		for _, m := range []part{source(t, "a.o", []string{"main", "1", "f"}), source(t, "l.o", []string{"f", "1"}, []string{"g", unreached})} {
			if err := manifest.Write(filepath.Join(dir, m.Name+".manifest"), m.Manifest); err != nil {
				t.Fatal(err)
			}
		}
		for _, l := range []LinkFile{
			{"b", "executable", [][2]string{{"a.o", "a.o.manifest"}}, nil, []string{"-Wl,--no-as-needed", "a.o", "libl.so"}},
			{"libl.so", "shared", [][2]string{{"l.o", "l.o.manifest"}}, nil, append([]string{"-shared"}, append(words, "l.o")...)},
		} {
			name := filepath.Join(dir, l.Output+".link")
			if err := os.WriteFile(name, []byte(l.Text()), 0o666); err != nil {
				t.Fatal(err)
			}
			x.Links = append(x.Links, name)
		}
		change(dir, x)
		c, _ := ComposeAll([]*Test{x}, nil)
		if c[0].Err != nil {
			t.Fatal(c[0].Err)
		}
		return c[0]
	}
	datum := func(name, content string) func(string, *Test) {
		return func(dir string, x *Test) {
			file := filepath.Join(dir, "data", name)
			if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
			x.Data = []DataFile{{"data", filepath.Join(dir, "data")}}
		}
	}
	for name, x := range map[string]struct {
		change func(string, *Test)
		opened bool
	}{
		"nothing":              {func(string, *Test) {}, false},
		"text":                 {datum("a.txt", "#"), false},
		"a program":            {datum("a", "\x7fELF..."), true},
		"a script":             {datum("a.txt", "#!/bin/sh"), true},
		"a script by its name": {datum("sub/A.PY", ""), true},
		"the name of one":      {func(_ string, x *Test) { x.Opens = []string{"libl.so"} }, true},
	} {
		before := compose("1", x.change)
		if opened := before.Fingerprint != compose("2", x.change).Fingerprint; opened != x.opened {
			t.Errorf("%s: that the library may be opened: %t", name, opened)
		}
		if changed := before.Fingerprint != compose("1", x.change, "-Wl,-rpath,bazel-out/k8/bin/_solib_k8").Fingerprint; changed != x.opened {
			t.Errorf("%s: that the line of the library counts: %t", name, changed)
		}
		if source := compose("1", func(dir string, t *Test) { x.change(dir, t); t.Source = true }); source.NotPlain != "" != x.opened {
			t.Errorf("%s: by source: %q", name, source.NotPlain)
		}
	}

	blob := func(name string) func(string, *Test) {
		return func(dir string, x *Test) {
			datum(name, "content")(dir, x)
			x.Data, x.LinkInputs = nil, []string{filepath.Join(dir, "data", name)}
		}
	}
	for _, x := range []struct {
		input, words string
		known        bool
	}{
		{"x.bin", "-Wl,--format=binary,./data/x.bin,--format=default", true},
		{"sub/x.o", "-Wl,-b,binary,data/sub/x.o,-b,default", true},
		{"x.bin", "-Wl,--format=binary,data/y.bin,--format=default", false},
		{"x.bin", "-Wl,--format=binary,data/x.bin", false},
		{"x.bin", "-Wl,--format=binary,/x.bin,--format=default", true}, // a probe's
	} {
		if c := compose("1", blob(x.input), x.words).Config; len(c.AlwaysRun) == 0 != x.known {
			t.Errorf("%s: %q", x.words, c.AlwaysRun)
		}
	}
}
