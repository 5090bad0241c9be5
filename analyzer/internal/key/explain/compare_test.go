package explain

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest/manifesttest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/refgraph"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/syslib"
)

var update = flag.Bool("update", false, "write the golden files")

// computed returns what a program that is linked from parts comes to.
func computed(t testing.TB, parts []*manifest.Manifest) *fingerprint.Report {
	t.Helper()
	dir := t.TempDir()
	var files []string
	for i, p := range parts {
		b, err := manifest.Marshal(p)
		file := filepath.Join(dir, fmt.Sprint(i))
		if err == nil {
			err = os.WriteFile(file, b, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	r, err := fingerprint.FromFiles(files, fingerprint.Roots{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// An explanation of components alone: who changed, and how it is reached.
func TestExplainComponents(t *testing.T) {
	base := []*manifest.Manifest{manifesttest.Source(t, "a.c", []string{"main", "1", "f", "g"}), manifesttest.Source(t, "b.c", []string{"f", "1", "h"}, []string{"g", "1", "h"}, []string{"h", "1"})}
	for _, tc := range []struct {
		name string
		new  []*manifest.Manifest
		want []Difference
	}{
		{"nothing", base, []Difference{}},
		{"body", []*manifest.Manifest{base[0], manifesttest.Source(t, "b.c", []string{"f", "1", "h"}, []string{"g", "1", "h"}, []string{"h", "2"})},
			[]Difference{{Category: ComponentChanged, Key: "h", BeforeFile: "b.c", AfterFile: "b.c", Path: []string{"main", "f", "h"}}}},
		{"moved", []*manifest.Manifest{base[0], manifesttest.Source(t, "b.c", []string{"f", "1", "h"}, []string{"g", "1", "h"}), manifesttest.Source(t, "c.c", []string{"h", "1"})}, []Difference{}},
		{"moved and edited", []*manifest.Manifest{base[0], manifesttest.Source(t, "b.c", []string{"f", "1", "h"}, []string{"g", "1", "h"}), manifesttest.Source(t, "c.c", []string{"h", "2"})},
			[]Difference{{Category: ComponentChanged, Key: "h", BeforeFile: "b.c", AfterFile: "c.c", Path: []string{"main", "f", "h"}}}},
		{"call removed", []*manifest.Manifest{base[0], manifesttest.Source(t, "b.c", []string{"f", "2"}, []string{"g", "2"}, []string{"h", "1"})},
			[]Difference{
				{Category: ComponentChanged, Key: "f", BeforeFile: "b.c", AfterFile: "b.c", Path: []string{"main", "f"}},
				{Category: ComponentChanged, Key: "g", BeforeFile: "b.c", AfterFile: "b.c", Path: []string{"main", "g"}},
				{Category: ComponentRemoved, Key: "h", BeforeFile: "b.c", Path: []string{"main", "f", "h"}},
			}},
		{"call added", []*manifest.Manifest{base[0], manifesttest.Source(t, "b.c", []string{"f", "2", "h", "k"}, []string{"g", "1", "h"}, []string{"h", "1"}, []string{"k", "1"})},
			[]Difference{
				{Category: ComponentChanged, Key: "f", BeforeFile: "b.c", AfterFile: "b.c", Path: []string{"main", "f"}},
				{Category: ComponentAdded, Key: "k", AfterFile: "b.c", Path: []string{"main", "f", "k"}},
			}},
		{"definition disappears", []*manifest.Manifest{base[0], manifesttest.Source(t, "b.c", []string{"f", "1", "h"}, []string{"h", "1"})},
			[]Difference{
				{Category: ComponentRemoved, Key: "g", BeforeFile: "b.c", Path: []string{"main", "g"}},
				{Category: LinksChanged, Key: "main", Gone: []string{"g"}, BeforeFile: "a.c", AfterFile: "a.c", Path: []string{"main"}},
			}},
		{"a root appears", append(slices.Clone(base), manifesttest.Source(t, "c.c", []string{"malloc", "1"})),
			[]Difference{
				{Category: ComponentAdded, Key: "malloc", AfterFile: "c.c", Path: []string{"malloc"}},
				{Category: RootsChanged, Key: "malloc", After: "replaces malloc of a system library"},
				{Category: CompositionChanged, Key: refgraph.Content, After: "it defines malloc in the place of the system's", New: []string{"a.c", "b.c", "c.c"}},
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Compare(computed(t, base), computed(t, tc.new))
			for i := range c.Differences {
				d := &c.Differences[i]
				if d.Category != RootsChanged && d.Category != CompositionChanged { // hashes
					if (d.Before == "") != (d.Category == ComponentAdded || d.Category == LinksChanged) || (d.After == "") != (d.Category == ComponentRemoved || d.Category == LinksChanged) {
						t.Errorf("%s %s: before %q, after %q", d.Category, d.Key, d.Before, d.After)
					}
					if d.Kind != "function" {
						t.Errorf("%s: kind %q", d.Key, d.Kind)
					}
					d.Before, d.After, d.Kind = "", "", ""
				}
			}
			if d := cmp.Diff(tc.want, c.Differences); d != "" {
				t.Errorf("differences (-want +got):\n%s", d)
			}
			if c.Equal != (len(tc.want) == 0) {
				t.Errorf("equal: %v", c.Equal)
			}
		})
	}

	// A root disappears.
	c := Compare(computed(t, append(slices.Clone(base), manifesttest.Source(t, "c.c", []string{"malloc", "1"}))), computed(t, base))
	want := []Difference{
		{Category: ComponentRemoved, Key: "malloc", Before: c.Differences[0].Before, Kind: "function", BeforeFile: "c.c", Path: []string{"malloc"}},
		{Category: RootsChanged, Key: "malloc", Before: "replaces malloc of a system library"},
		{Category: CompositionChanged, Key: refgraph.Content, Before: "it defines malloc in the place of the system's", Gone: []string{"a.c", "b.c", "c.c"}},
	}
	if d := cmp.Diff(want, c.Differences); d != "" || c.Equal {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Constructors run in the order of the link.
func TestExplainOrderOfRoots(t *testing.T) {
	init := func(name string) *manifest.Manifest {
		s := manifesttest.Source(t, name+".c", []string{name, name})
		s.Components[0].Root = "constructor"
		return s
	}
	m, x, y := manifesttest.Source(t, "a.c", []string{"main", "1"}), init("x"), init("y")
	c := Compare(computed(t, []*manifest.Manifest{m, x, y}), computed(t, []*manifest.Manifest{m, y, x}))
	want := []Difference{{Category: RootsChanged, Key: "order", Before: "main x y", After: "main y x"}}
	if d := cmp.Diff(want, c.Differences); d != "" || c.Equal {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Compilers number initialisers and local variables: one more in front shifts
// the numbers of all others, which is no change. A second static function of a
// name changes the ID of the first.
func TestExplainMatchesWhatIsRenumbered(t *testing.T) {
	unit := func(n int, extra ...string) *manifest.Manifest {
		m := &manifest.Manifest{Rung: manifest.Rung_RUNG_FUNCTION, Source: "a.cc", Units: []*manifest.Unit{{}}}
		add := func(name, hash string, linkage manifest.Linkage, links ...uint32) {
			m.Components = append(m.Components, &manifest.Component{Name: name, Kind: manifest.Kind_KIND_FUNCTION, Linkage: linkage, LocalHash: []byte((hash + strings.Repeat(" ", 16))[:16]), Links: links})
			if linkage != manifest.Linkage_LINKAGE_LOCAL {
				m.Components[len(m.Components)-1].Definitions = manifest.NewDefinitions(manifest.Binding_BINDING_GLOBAL, name)
			}
		}
		names := slices.Concat(extra, []string{"one", "two", "three"})
		for i, hash := range names {
			add("init."+string(rune('0'+i)), hash, manifest.Linkage_LINKAGE_LOCAL)
		}
		var links []uint32
		for i := range names {
			links = append(links, uint32(2*i))
		}
		add("main", "main "+string(rune('0'+n)), manifest.Linkage_LINKAGE_EXTERNAL, links...)
		return m
	}
	c := Compare(computed(t, []*manifest.Manifest{unit(1)}), computed(t, []*manifest.Manifest{unit(2, "zero")}))
	var got []string
	for _, d := range c.Differences {
		got = append(got, string(d.Category)+" "+d.Key)
	}
	if d := cmp.Diff([]string{"changed main", "added init.0"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}

	static := func(name, f string) *manifest.Manifest {
		s := manifesttest.Source(t, name, []string{"s", "static " + name}, []string{f, "1"})
		// They are sorted: f, s.
		s.Components[1].Linkage, s.Components[1].Definitions = manifest.Linkage_LINKAGE_LOCAL, nil
		s.Components[0].Links = []uint32{2}
		return s
	}
	one := computed(t, []*manifest.Manifest{static("a.c", "main")})
	two := computed(t, []*manifest.Manifest{static("a.c", "main"), static("b.c", "malloc")})
	got = nil
	for _, d := range Compare(one, two).Differences {
		got = append(got, string(d.Category)+" "+d.Key)
	}
	if d := cmp.Diff([]string{"added malloc", "added s (b.c)", "roots malloc", "composition " + refgraph.Content}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The content of a static function is in the hash of its callers.
func TestExplainFollowers(t *testing.T) {
	r := func(version string, changed ...string) *fingerprint.Report {
		r := &fingerprint.Report{Format: fingerprint.ReportFormat, Fingerprint: version, Contributions: []fingerprint.Contribution{{Name: "code", SHA256: version}}, Roots: []fingerprint.Root{{Component: "main", Why: []string{"main"}}}}
		for _, c := range []fingerprint.Component{
			{ID: "main", Linkage: "external", Links: []string{"s1", "f", "odd"}},
			{ID: "s1", Linkage: "local", Links: []string{"s2"}},
			{ID: "s2", Linkage: "local", Links: []string{"s2"}},
			{ID: "f", Linkage: "external", Links: []string{}},
			{ID: "odd", Linkage: "local", Links: []string{"even"}},
			{ID: "even", Linkage: "local", Links: []string{"odd"}},
		} {
			c.Name, c.Local = c.ID, "00"
			if slices.Contains(changed, c.ID) {
				c.Local = version
			}
			r.Components = append(r.Components, c)
		}
		return r
	}
	for _, tc := range []struct{ changed, want []string }{
		{[]string{"main", "s1", "s2"}, []string{"s2", "main?", "s1?"}},
		{[]string{"main", "s1"}, []string{"s1", "main?"}},
		{[]string{"main", "f"}, []string{"main", "f"}},
		{[]string{"main", "s2"}, []string{"main", "s2"}},
		{[]string{"odd", "even"}, []string{"odd", "even"}},
	} {
		var got []string
		for _, d := range Compare(r("01"), r("02", tc.changed...)).Differences {
			name := d.Key
			if d.Because == ComponentChanged {
				name += "?"
			}
			got = append(got, name)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%v (-want +got):\n%s", tc.changed, d)
		}
	}
}

// example is a test of two C++ files that was run.
func example() *fingerprint.Report {
	flags := func() []string { return []string{"-O1", "-fPIC", "cc1:-mrelocation-model pic"} }
	return &fingerprint.Report{
		Format: fingerprint.ReportFormat, Fingerprint: "01", Contributions: []fingerprint.Contribution{{Name: "code", SHA256: "c0"}, {Name: "data _main/d.txt", SHA256: "d0"}, {Name: "link flags", SHA256: "f0"}, {Name: "manifest format", SHA256: "m0"}},
		LinkFlags: []string{"-pie", "-lm"},
		Run: []fingerprint.Part{{Name: "arguments", Sum: "0000"}, {Name: "environment variable HOME", Sum: "0000"}, {Name: "environment variable TZ", Sum: "0000"},
			{Name: "machine", Sum: "0000"}, {Name: "system library libc.so.6", Sum: "0000"}, {Name: "user", Sum: "0000"}, {Name: "working directory", Sum: "0000"}},
		Units: []fingerprint.Unit{{Source: "a.cc", Rung: "function", Clang: "21", Compiler: "clang 21", Flags: flags()}, {Source: "b.cc", Rung: "function", Clang: "21", Compiler: "clang 21", Flags: flags()}},
		Roots: []fingerprint.Root{{Component: "main", Why: []string{"main"}}},
		Components: []fingerprint.Component{
			{ID: "main", Name: "main", Source: "a.cc", File: "a.cc", Kind: "function", Linkage: "external", Local: "11", Links: []string{"_ZN4shop5ParseESt17basic_string_viewIcSt11char_traitsIcEE"}},
			{ID: "_ZN4shop5ParseESt17basic_string_viewIcSt11char_traitsIcEE", Name: "_ZN4shop5ParseESt17basic_string_viewIcSt11char_traitsIcEE", Source: "b.cc", File: "b.cc", Kind: "function", Linkage: "external", Local: "12", Links: []string{"_ZTVN4shop5MoneyE (b.cc)", "_ZTVN4shop5MoneyE (a.cc)"}},
			{ID: "_ZTVN4shop5MoneyE (b.cc)", Name: "_ZTVN4shop5MoneyE", Source: "b.cc", File: "b.cc", Kind: "vtable", Linkage: "weak", Local: "13", Links: []string{}},
			{ID: "_ZTVN4shop5MoneyE (a.cc)", Name: "_ZTVN4shop5MoneyE", Source: "a.cc", File: "a.cc", Kind: "vtable", Linkage: "weak", Local: "14", Links: []string{}},
		},
	}
}

// Every kind of cause, in both forms. The golden files are testdata/explain.
func TestExplainGolden(t *testing.T) {
	code := func(r *fingerprint.Report) { r.Fingerprint, r.Contributions[0].SHA256 = "02", "c1" }
	contribution := func(r *fingerprint.Report, i int) { r.Fingerprint, r.Contributions[i].SHA256 = "02", "ff" }
	for name, edit := range map[string]func(old, new *fingerprint.Report){
		"equal":    func(old, new *fingerprint.Report) {},
		"function": func(old, new *fingerprint.Report) { code(new); new.Components[1].Local = "ff" },
		"static": func(old, new *fingerprint.Report) {
			code(new)
			for i := range 2 {
				old.Components[i].Linkage, new.Components[i].Linkage = "local", "local"
				new.Components[i].Local = "ff"
			}
		},
		"vtable":  func(old, new *fingerprint.Report) { code(new); new.Components[3].Local = "ff" },
		"linkage": func(old, new *fingerprint.Report) { code(new); new.Components[1].Linkage = "weak" },
		"symbols": func(old, new *fingerprint.Report) { code(new); new.Components[1].Symbols = []string{"alias"} },
		"moved": func(old, new *fingerprint.Report) {
			code(new)
			new.Components[1].Local, new.Components[1].File = "ff", "c.cc"
		},
		"links": func(old, new *fingerprint.Report) {
			code(new)
			new.Components[1].Links = new.Components[1].Links[:1]
			new.Components = new.Components[:3]
		},
		"links-added": func(old, new *fingerprint.Report) {
			code(new)
			old.Components[1].Links = old.Components[1].Links[:1]
			old.Components = old.Components[:3]
		},
		"data": func(old, new *fingerprint.Report) { contribution(new, 1) },
		"data-added": func(old, new *fingerprint.Report) {
			new.Fingerprint = "02"
			old.Contributions = slices.Delete(old.Contributions, 1, 2)
		},
		"link-flags": func(old, new *fingerprint.Report) {
			contribution(new, 2)
			new.LinkFlags = []string{"-lm", "-Wl,-z,now"}
		},
		"link-flags-order": func(old, new *fingerprint.Report) { contribution(new, 2); new.LinkFlags = []string{"-lm", "-pie"} },
		"link-flags-of-version-2": func(old, new *fingerprint.Report) {
			contribution(new, 2)
			old.Format, old.LinkFlags, old.Units, old.Run = 2, nil, nil, nil
		},
		"format":    func(old, new *fingerprint.Report) { contribution(new, 3) },
		"arguments": func(old, new *fingerprint.Report) { new.Run[0].Sum = "ffff" },
		"environment": func(old, new *fingerprint.Report) {
			new.Run[1].Sum = "ffff"
			new.Run[2].Name = "environment variable UTC"
		},
		"library": func(old, new *fingerprint.Report) { new.Run[4].Sum = "ffff" },
		"machine": func(old, new *fingerprint.Report) {
			new.Run[3].Sum, new.Run[5].Sum, new.Run[6].Sum = "ffff", "ffff", "ffff"
		},
		"not-run": func(old, new *fingerprint.Report) { new.Run = nil; contribution(new, 1) },
		"shard":   func(old, new *fingerprint.Report) { old.Key, new.Key = "aa", "bb" },
		"same-key": func(old, new *fingerprint.Report) {
			old.Key, new.Key = "aa", "aa"
			contribution(new, 1) // in no key: names of variables are like that
		},
		"binding": func(old, new *fingerprint.Report) {
			code(new)
			old.Contested = []fingerprint.Contested{{Symbol: "_ZN4shop5priceEv", Copies: []string{"a.cc", "b.cc"}, Winners: 1}, {Symbol: "same", Copies: []string{"a.cc", "b.cc"}, Winners: 1}}
			new.Contested = []fingerprint.Contested{{Symbol: "_ZN4shop5priceEv", Copies: []string{"b.cc", "a.cc"}, Winners: 1}, {Symbol: "open", Copies: []string{"a.cc", "b.cc"}, Winners: 2}, {Symbol: "same", Copies: []string{"a.cc", "b.cc"}, Winners: 1}}
		},
		"composition": func(old, new *fingerprint.Report) {
			code(new)
			old.Additions = []fingerprint.Contribution{{Name: refgraph.Shape, SHA256: "00"}}
			new.Additions = []fingerprint.Contribution{{Name: refgraph.Content, SHA256: "01"}, {Name: refgraph.Own, SHA256: "02"}}
			new.Unusual = "it refers to dlsym"
			new.Linked = []fingerprint.Contribution{{Name: "a.cc", SHA256: "03"}, {Name: "b.cc", SHA256: "04"}}
		},
		"order": func(old, new *fingerprint.Report) {
			code(new)
			old.Additions = []fingerprint.Contribution{{Name: "of a later version", SHA256: "00"}, {Name: "order of literals", SHA256: "00"}}
			new.Additions = []fingerprint.Contribution{{Name: "of a later version", SHA256: "01"}, {Name: "order of literals", SHA256: "01"}}
		},
		"contested": func(old, new *fingerprint.Report) {
			code(new)
			// Who uses them is in another place; what they are is as it was.
			open := []fingerprint.Contested{{Symbol: "_ZN4shop5priceEv", Copies: []string{"a.cc", "b.cc"}, Winners: 2}, {Symbol: "same", Copies: []string{"a.cc", "b.cc"}, Winners: 1}}
			old.Contested, new.Contested = open, open
			old.Additions, new.Additions = []fingerprint.Contribution{{Name: refgraph.Shape, SHA256: "00"}}, []fingerprint.Contribution{{Name: refgraph.Shape, SHA256: "01"}}
		},
		"compiler": func(old, new *fingerprint.Report) {
			code(new)
			for i := range new.Units {
				new.Units[i].Compiler, new.Units[i].Clang = "clang 22", "22"
			}
			for i := range new.Components {
				new.Components[i].Local = "ff"
			}
		},
		"flags": func(old, new *fingerprint.Report) {
			code(new)
			new.Units[1].Flags = []string{"-O2", "-fPIC", "cc1:-mrelocation-model pic", "cc1:-vectorize-loops"}
			new.Components[1].Local, new.Components[2].Local = "ff", "ff"
			new.Components[0].Local = "ee" // an edit, of another file
		},
		"fallback": func(old, new *fingerprint.Report) {
			code(new)
			new.Units[1].Rung, new.Units[1].Fallbacks = "file", []string{"clang reported an error in b.cc: expected ';'"}
			new.Components[1].Local = "ff"
			new.Components[2].Local = "ff"
		},
		"always-run": func(old, new *fingerprint.Report) {
			old.AlwaysRun = []string{"tag no-cache"}
			new.AlwaysRun = []string{"b.cc: imports a module"}
		},
		"root": func(old, new *fingerprint.Report) { code(new); new.Roots[0].Why = []string{"main", "used"} },
		"long": func(old, new *fingerprint.Report) {
			code(new)
			last := 1
			for i := range 30 {
				name := "_ZN4shop" + strings.Repeat("7PatternI", 14) + fmt.Sprintf("Li%d", i) + strings.Repeat("E", 15) + "Evv"
				new.Components[last].Links = append(slices.Clone(new.Components[last].Links), name)
				last = len(new.Components)
				new.Components = append(new.Components, fingerprint.Component{ID: name, Name: name, Source: "b.cc", File: "b.cc", Kind: "function", Linkage: "weak", Local: "ff", Links: []string{}})
			}
			for i := range 4 {
				new.Components[i].Local = "ff"
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			old, new := example(), example()
			edit(old, new)
			c := Compare(old, new)
			var b bytes.Buffer
			c.Text(&b, false)
			b.WriteString("--all--\n")
			c.Text(&b, true)
			b.WriteString("--reason--\n" + c.Reason() + "\n--changed--\n" + strings.Join(c.Changed(), "\n") + "\n--json--\n")
			if name == "long" { // the others show what JSON looks like
				c.Differences = c.Differences[:4]
			}
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			e.SetIndent("", " ")
			if err := e.Encode(c); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "explain", name+".txt")
			if *update {
				if err := os.MkdirAll(filepath.Dir(golden), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, b.Bytes(), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), b.String()); d != "" {
				t.Errorf("%s (-want +got; -update writes it):\n%s", golden, d)
			}
			if c.Equal != (name == "equal" || name == "same-key" || name == "always-run") {
				t.Errorf("equal: %v", c.Equal)
			}
			if !c.Equal && len(c.Differences) == 0 {
				t.Error("different without a reason")
			}
		})
	}
}

// Golden files have every category, and docs/reference/formats.md has it with all fields.
func TestExplainIsDocumented(t *testing.T) {
	b, err := os.ReadFile("../../../../docs/reference/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := string(b)
	files, err := filepath.Glob("testdata/explain/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	golden := ""
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		golden += string(b)
	}
	for _, c := range categories {
		if !strings.Contains(docs, "`"+string(c)+"`") {
			t.Errorf("docs/reference/formats.md doesn't have the category %s", c)
		}
		if !strings.Contains(golden, fmt.Sprintf(`"category": %q`, c)) {
			t.Errorf("no golden file has the category %s", c)
		}
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[Comparison](), reflect.TypeFor[Difference]()} {
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if !strings.Contains(docs, "`"+name+"`") && !strings.Contains(docs, "`."+name+"`") && !strings.Contains(docs, "`"+name+"[]`") {
				t.Errorf("docs/reference/formats.md doesn't have the field %s of %s", name, typ.Name())
			}
		}
	}
}

// No value of an argument or a variable can be found in a part, and 16 bits are
// all that is told of it.
func TestPartsKeepSecrets(t *testing.T) {
	r := &fingerprint.Run{Args: []string{"--token=hunter2"}, Env: []string{"PASSWORD=hunter2", "TEST_SHARD_INDEX=1"}, Dir: "/d", Machine: "x86_64", Libraries: []syslib.Library{{Name: "libc.so.6", SHA256: [32]byte{1}}}}
	var names []string
	for _, p := range r.Parts() {
		names = append(names, p.Name)
		if strings.Contains(p.Name+p.Sum, "hunter2") || !strings.HasPrefix(p.Name, fingerprint.PartLibrary) && len(p.Sum) != 4 {
			t.Errorf("%+v", p)
		}
	}
	want := []string{"arguments", "environment variable PASSWORD", "machine", "system library libc.so.6", "user", "working directory"}
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// Each of them tells of a change.
	for name, edit := range map[string]func(r *fingerprint.Run){
		"arguments":                     func(r *fingerprint.Run) { r.Args = []string{"--token=", "hunter2"} },
		"environment variable PASSWORD": func(r *fingerprint.Run) { r.Env = []string{"PASSWORD=hunter3"} },
		"machine":                       func(r *fingerprint.Run) { r.Machine = "aarch64" },
		"system library libc.so.6":      func(r *fingerprint.Run) { r.Libraries = []syslib.Library{{Name: "libc.so.6"}} },
		"user":                          func(r *fingerprint.Run) { r.Root = true },
		"working directory":             func(r *fingerprint.Run) { r.Dir = "/e" },
	} {
		other := *r
		edit(&other)
		if d := diffParts(r.Parts(), other.Parts()); len(d) != 1 || !strings.HasSuffix(name, d[0].Key) {
			t.Errorf("%s changed: %+v", name, d)
		}
	}
}

func TestDistance(t *testing.T) {
	old := example()
	for want, edit := range map[int]func(r *fingerprint.Report){
		0: func(r *fingerprint.Report) { r.Run = nil },
		1: func(r *fingerprint.Report) { r.Run = r.Run[1:] },
		2: func(r *fingerprint.Report) { r.Components[1].Local = "ff" },
		4: func(r *fingerprint.Report) { r.Components[1].Local = "ff"; r.Contributions[1].SHA256 = "ff" },
	} {
		r := example()
		edit(r)
		if got := Distance(old, r); got != want || Distance(r, old) != want {
			t.Errorf("distance %d, want %d", got, want)
		}
	}
}

// Two fingerprints that differ have at least one difference, even if no
// component does.
func TestExplainComposition(t *testing.T) {
	weak := func(name, hash string) *manifest.Manifest {
		s := manifesttest.Source(t, name, []string{"w", hash})
		s.Components[0].Linkage = manifest.Linkage_LINKAGE_WEAK
		s.Components[0].Definitions[0].Binding = manifest.Binding_BINDING_COMMON
		return s
	}
	// Common definitions are merged: both count, and how they are defined.
	a := computed(t, []*manifest.Manifest{manifesttest.Source(t, "a.c", []string{"main", "1", "w"}), weak("b.c", "1"), weak("c.c", "2")})
	x := weak("c.c", "2")
	x.Components[0].Definitions[0].Visibility = manifest.Visibility_VISIBILITY_PROTECTED
	b := computed(t, []*manifest.Manifest{manifesttest.Source(t, "a.c", []string{"main", "1", "w"}), weak("b.c", "1"), x})
	c := Compare(a, b)
	if c.Equal || len(c.Differences) != 1 || c.Differences[0].Category != CompositionChanged {
		t.Errorf("%+v", c)
	}
}
