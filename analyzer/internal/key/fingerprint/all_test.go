package fingerprint

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// NewTests is for traced_test.go.
var NewTests = newTests

// newTests writes manifests and returns tests that link them, made from choices.
func newTests(t testing.TB, dir string, choose func(n int) int) []*Test {
	t.Helper()
	symbols := []string{"main", "f", "g", "h", "malloc"}
	locals := []string{"x", "y", "z"}
	names := append(slices.Clone(symbols), locals...)
	var files []string
	for i := range 2 + choose(6) {
		file := filepath.Join(dir, fmt.Sprintf("%d.manifest", i))
		files = append(files, file)
		switch choose(40) {
		case 0: // missing
			continue
		case 1:
			if err := os.WriteFile(file, []byte("damaged"), 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		m := &manifest.Manifest{Rung: manifest.Rung_RUNG_FUNCTION, Source: fmt.Sprintf("%d.c", i), Units: []*manifest.Unit{{Exact: choose(3) > 0}}}
		if choose(5) == 0 {
			m.Units[0].Name = "member.o"
		}
		own := map[string]int{}
		for k, name := range names {
			if choose(3) > 0 {
				continue
			}
			c := &manifest.Component{
				Name: name, Kind: manifest.Kind_KIND_FUNCTION, Linkage: manifest.Linkage_LINKAGE_EXTERNAL,
				LocalHash: fmt.Appendf(nil, "%16d", choose(2)),
			}
			if k >= len(symbols) {
				c.Linkage = manifest.Linkage_LINKAGE_LOCAL
			} else {
				binding := manifest.Binding(1 + choose(4))
				if binding != manifest.Binding_BINDING_GLOBAL {
					c.Linkage = manifest.Linkage_LINKAGE_WEAK
				}
				c.Definitions = manifest.NewDefinitions(binding, name)
				if choose(6) == 0 {
					c.Definitions[0].Visibility = manifest.Visibility(choose(4))
				}
				if choose(12) == 0 {
					c.Definitions[0].Name = symbols[choose(len(symbols))] + "@@V1"
				}
				if choose(4) == 0 {
					c.Group = symbols[choose(len(symbols))]
				}
			}
			if choose(12) == 0 {
				c.Root = "constructor"
			}
			if choose(2) == 0 {
				c.Entries = []string{name}
			}
			own[name] = len(m.Components)
			m.Components = append(m.Components, c)
		}
		refer := append(slices.Clone(names), "printf")
		if choose(15) == 0 {
			refer = append(refer, "dlsym")
		}
		m.Symbols = refer
		for _, c := range m.Components {
			for range choose(4) {
				k := choose(len(refer))
				if o, ok := own[refer[k]]; ok && (k >= len(symbols) || choose(4) == 0) {
					c.Links = append(c.Links, 2*uint32(o))
				}
				if k < len(symbols) || k >= len(names) {
					c.Links = append(c.Links, 2*uint32(k)+1)
					if _, ok := own[refer[k]]; !ok {
						m.Units[0].References = append(m.Units[0].References, &manifest.Reference{
							Name: refer[k], Weak: choose(6) == 0, Visibility: manifest.Visibility(choose(12) / 9 * 2),
						})
					}
				}
			}
		}
		if choose(30) == 0 {
			m.Fallbacks = []*manifest.Fallback{{Reason: "unknown"}}
		}
		if choose(30) == 0 {
			m.Rung, m.Flags = manifest.Rung_RUNG_CONTENT, []string{"-u", "g"}
		}
		if err := manifest.Write(file, m); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	if err := os.WriteFile(data, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	var tests []*Test
	for i := range 1 + choose(5) {
		test := &Test{Binary: fmt.Sprint("_main/t", i)}
		for _, f := range files {
			if choose(4) == 0 {
				continue
			}
			test.Manifests = append(test.Manifests, f)
		}
		for a := range test.Manifests {
			b := a + choose(len(test.Manifests)-a)
			test.Manifests[a], test.Manifests[b] = test.Manifests[b], test.Manifests[a]
		}
		switch choose(12) {
		case 0:
			test.LinkFlags = []string{"-Wl,-u,f"}
		case 1:
			test.Roots.Exported = true
		case 2:
			test.LinkInputs = []string{data}
		case 3:
			test.Roots.Symbols = []string{"main", "h"}
		case 4:
			test.Data = []DataFile{{"_main/data", data}}
		case 5:
			if len(test.Manifests) > 0 {
				test.Manifests = append(test.Manifests, test.Manifests[0])
			}
		}
		if choose(2) == 0 {
			for _, m := range test.Manifests {
				if len(test.Files) == 0 || choose(2) == 0 {
					test.Files = append(test.Files, LinkedFile{Name: fmt.Sprint("file ", len(test.Files))})
				}
				x := &test.Files[len(test.Files)-1]
				x.Manifests = append(x.Manifests, m)
			}
		}
		tests = append(tests, test)
	}
	return tests
}

// reportsOf returns what Reports calls its function with.
func reportsOf(all []Composed) ([]*Report, []error) {
	var composed []*Composed
	for i := range all {
		composed = append(composed, &all[i])
	}
	reports, errs := make([]*Report, len(all)), make([]error, len(all))
	Reports(composed, func(i int, r *Report, err error) { reports[i], errs[i] = r, err })
	return reports, errs
}

// checkAll compares ComposeAll with Compose of each test. It returns how many
// tests were composed.
func checkAll(t testing.TB, tests []*Test) (composed int) {
	t.Helper()
	all, _ := ComposeAll(tests, nil)
	if len(all) != len(tests) {
		t.Fatalf("%d results for %d tests", len(all), len(tests))
	}
	reports, errs := reportsOf(all)
	for i, test := range tests {
		c, r, warnings, err := Compose(test)
		got := &all[i]
		if err != nil || got.Err != nil {
			if fmt.Sprint(err) != fmt.Sprint(got.Err) {
				t.Errorf("test %d: error %v, alone %v", i, got.Err, err)
			}
			continue
		}
		composed++
		if d := cmp.Diff(c, got.Config); d != "" {
			t.Errorf("test %d: configuration (-alone +together):\n%s", i, d)
		}
		if d := cmp.Diff(warnings, got.Warnings); d != "" {
			t.Errorf("test %d: warnings (-alone +together):\n%s", i, d)
		}
		if got.Fingerprint != r.Fingerprint {
			t.Errorf("test %d: fingerprint %s, alone %s", i, got.Fingerprint, r.Fingerprint)
		}
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if d := cmp.Diff(r, reports[i]); d != "" {
			t.Errorf("test %d: report (-alone +together):\n%s", i, d)
		}
	}
	return composed
}

// A fingerprint doesn't depend on which other tests are composed.
func TestComposeAll(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	composed := 0
	dir := t.TempDir()
	for i := range 400 {
		sub := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(sub, 0o777); err != nil {
			t.Fatal(err)
		}
		composed += checkAll(t, newTests(t, sub, r.IntN))
		if t.Failed() {
			t.Fatal("invocation ", i)
		}
	}
	if composed < 400 {
		t.Errorf("%d tests were composed", composed)
	}
}

func FuzzComposeAll(f *testing.F) {
	f.Add([]byte("012345678901234567890123456789012345678901234567890123456789"))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkAll(t, newTests(t, t.TempDir(), func(n int) int {
			if len(b) == 0 {
				return n - 1
			}
			c := int(b[0]) % n
			b = b[1:]
			return c
		}))
	})
}

// What is remembered is what would be composed, whatever changes.
func TestMemory(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(11, 12))
	file := filepath.Join(dir, "memory")
	for i := range 60 {
		sub := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(sub, 0o777); err != nil {
			t.Fatal(err)
		}
		tests := newTests(t, sub, r.IntN)
		check := func(wantRead bool) {
			t.Helper()
			want, _ := ComposeAll(tests, nil)
			m := OpenMemory(file)
			got, stats := ComposeAll(tests, m)
			for k := range want {
				a, b := want[k], got[k]
				if fmt.Sprint(a.Err) != fmt.Sprint(b.Err) || a.Fingerprint != b.Fingerprint || a.NotPlain != b.NotPlain || !cmp.Equal(a.Config, b.Config) || !cmp.Equal(a.Warnings, b.Warnings) {
					t.Fatalf("invocation %d, test %d: %+v, remembered %+v", i, k, a, b)
				}
			}
			failed := slices.ContainsFunc(want, func(c Composed) bool { return c.Err != nil })
			if !failed && (stats.Manifests > 0) != wantRead {
				t.Errorf("%d manifests were read", stats.Manifests)
			}
			if err := m.Save(); err != nil {
				t.Fatal(err)
			}
		}
		used := false
		for _, x := range tests {
			used = used || len(x.Manifests)+len(x.Links)+len(x.Files) > 0
		}
		check(used)
		check(false)
		// Any manifest becomes another one.
		var all []string
		for _, x := range tests {
			all = append(all, x.Manifests...)
		}
		if len(all) == 0 {
			continue
		}
		b, err := os.ReadFile(all[r.IntN(len(all))])
		if err != nil {
			continue
		}
		if err := os.WriteFile(all[r.IntN(len(all))], b, 0o666); err != nil {
			t.Fatal(err)
		}
		want, _ := ComposeAll(tests, nil)
		got, _ := ComposeAll(tests, OpenMemory(file))
		for k := range want {
			if want[k].Fingerprint != got[k].Fingerprint || fmt.Sprint(want[k].Err) != fmt.Sprint(got[k].Err) {
				t.Fatalf("invocation %d, test %d: an edit isn't seen", i, k)
			}
		}
	}
	// A damaged file is an empty memory.
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]byte{nil, b[:len(b)/2], append([]byte{b[0] ^ 1}, b[1:]...), append(slices.Clone(b), 0)} {
		if err := os.WriteFile(file, bad, 0o666); err != nil {
			t.Fatal(err)
		}
		if m := OpenMemory(file); m == nil || len(m.kept.Tests) > 0 {
			t.Errorf("%d bytes: %+v", len(bad), m)
		}
	}
}

// TestMemoryOddNames: names that are no text stay as they are.
func TestMemoryOddNames(t *testing.T) {
	dir := t.TempDir()
	name, memory := filepath.Join(dir, "a.manifest"), filepath.Join(dir, "memory")
	if err := manifest.Write(name, source(t, "a.c", []string{"main", "1"}).Manifest); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{"\xff", "\xfe", "\xfe", "\ufffd"} {
		tests := []*Test{{Manifests: []string{name}, Binary: "b", Roots: Roots{Symbols: []string{"main", root}}}}
		m := OpenMemory(memory)
		want, _ := ComposeAll(tests, nil)
		got, _ := ComposeAll(tests, m)
		if !cmp.Equal(want[0].Config, got[0].Config) || want[0].Fingerprint != got[0].Fingerprint || !cmp.Equal(want[0].Warnings, got[0].Warnings) {
			t.Errorf("%q: %q, remembered %q", root, want[0].Warnings, got[0].Warnings)
		}
		if err := m.Save(); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzMemory(f *testing.F) {
	f.Add([]byte("{}"))
	f.Add([]byte(`{"Program":"p","Tests":{"k":{"Code":{"Hash":"00"},"Used":1,"Inputs":["a"]},"l":null,"m":{}},"Inputs":{"a":{"Format":3}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := decodeMemory(e.EncodeAll(text, nil))
		for _, x := range r.Tests {
			if err == nil && x.Code == nil {
				t.Error("a test without a summary")
			}
		}
	})
}

// A report that no longer belongs to the fingerprint is an error.
func TestComposedReportOfChangedFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.manifest")
	if err := manifest.Write(file, source(t, "a.c", []string{"main", "1"}).Manifest); err != nil {
		t.Fatal(err)
	}
	all, stats := ComposeAll([]*Test{{Manifests: []string{file}, Binary: "b"}}, nil)
	if stats.Manifests != 1 || stats.Components != 1 {
		t.Errorf("%+v", stats)
	}
	if _, errs := reportsOf(all); errs[0] != nil {
		t.Error(errs[0])
	}
	if err := manifest.Write(file, source(t, "a.c", []string{"main", "2"}).Manifest); err != nil {
		t.Fatal(err)
	}
	if _, errs := reportsOf(all); errs[0] == nil {
		t.Error("the manifest has been changed: no error")
	}
}

// Inputs that no test has used since are forgotten.
func TestMemoryForgetsInputs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory")
	m := OpenMemory(file)
	m.kept.Tests["test"] = &rememberedTest{Code: &summary{Hash: "00"}, Used: 10}
	m.kept.Inputs["before"] = &rememberedInput{new(input), 9}
	m.kept.Inputs["with it"] = &rememberedInput{new(input), 10}
	m.changed = true
	if err := m.Save(); err != nil {
		t.Fatal(err)
	}
	m = OpenMemory(file)
	if m.kept.Tests["test"] == nil || m.kept.Inputs["before"] != nil || m.kept.Inputs["with it"] == nil {
		t.Errorf("%v, %v", m.kept.Tests, m.kept.Inputs)
	}
}
