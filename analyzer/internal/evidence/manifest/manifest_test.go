package manifest

import (
	"bytes"
	"errors"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

func testComponent(name string, links ...uint32) *Component {
	return &Component{Name: name, Kind: Kind_KIND_FUNCTION, Linkage: Linkage_LINKAGE_EXTERNAL, LocalHash: bytes.Repeat([]byte{name[0]}, 16), Links: links}
}

// testManifest has links of both kinds; it is not in canonical form.
func testManifest() *Manifest {
	main := testComponent("main", 1, 2*2, 2*1+1) // puts, helper, printf
	table := testComponent("table", 2*0)         // main
	table.Kind, table.Definitions = Kind_KIND_VARIABLE, []*Definition{{Name: "z", Binding: Binding_BINDING_WEAK}, {Name: "a", Binding: Binding_BINDING_GLOBAL, Visibility: Visibility_VISIBILITY_HIDDEN}}
	helper := testComponent("helper", 2*2, 2*0, 2*2) // itself, main, itself again
	helper.Linkage = Linkage_LINKAGE_LOCAL
	return &Manifest{
		Units: []*Unit{{References: []*Reference{{Name: "puts"}, {Name: "printf", Weak: true}}}},
		Rung:  Rung_RUNG_FUNCTION, Source: "a.c", Clang: "clang version 21", Compiler: "gcc version 16", Flags: []string{"-O2"},
		Symbols:    []string{"puts", "printf", "nobody links to this"},
		Components: []*Component{main, table, helper},
		Fallbacks: []*Fallback{
			{Component: "table", Reason: "asm", Rung: Rung_RUNG_FUNCTION},
			{Component: "main", Reason: "typeof", Rung: Rung_RUNG_FUNCTION},
			{Component: "main", Reason: "asm", Rung: Rung_RUNG_FUNCTION},
		},
	}
}

func marshal(t testing.TB, m *Manifest) []byte {
	t.Helper()
	b, err := Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unmarshal(t testing.TB, b []byte) *Manifest {
	t.Helper()
	m, err := Unmarshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// encode frames m as Marshal does, without its checks.
func encode(t testing.TB, m *Manifest) []byte {
	t.Helper()
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat([]byte(Magic), protowire.AppendVarint(nil, uint64(len(body))), body)
}

// links lists what the component name links to, in order: "component X" in m
// itself, or "symbol X".
func links(t testing.TB, m *Manifest, name string) []string {
	t.Helper()
	for _, c := range m.Components {
		if c.Name == name {
			names, own := m.LinkNames(c)
			for i := range names {
				if own[i] {
					names[i] = "component " + names[i]
				} else {
					names[i] = "symbol " + names[i]
				}
			}
			return names
		}
	}
	t.Fatalf("no component %q", name)
	return nil
}

func TestCanonicalForm(t *testing.T) {
	m := unmarshal(t, marshal(t, testManifest()))
	var names []string
	for _, c := range m.Components {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"helper", "main", "table"}, names); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"printf", "puts"}, m.Symbols); diff != "" {
		t.Errorf("symbols (-want +got):\n%s", diff)
	}
	// Links keep their order and their meaning, whatever moved.
	for name, want := range map[string][]string{
		"main":   {"symbol puts", "component helper", "symbol printf"},
		"table":  {"component main"},
		"helper": {"component helper", "component main"},
	} {
		if diff := cmp.Diff(want, links(t, m, name)); diff != "" {
			t.Errorf("links of %s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]string{"a", "z"}, m.Components[2].Aliases()); diff != "" {
		t.Errorf("aliases (-want +got):\n%s", diff)
	}
	var reasons []string
	for _, f := range m.Fallbacks {
		reasons = append(reasons, f.Component+": "+f.Reason)
	}
	if diff := cmp.Diff([]string{"main: asm", "main: typeof", "table: asm"}, reasons); diff != "" {
		t.Errorf("fallbacks (-want +got):\n%s", diff)
	}
}

// Writers find components and symbols in any order; the bytes don't tell.
func TestMarshalIgnoresOrder(t *testing.T) {
	want := marshal(t, testManifest())
	for seed := range int64(20) {
		m := testManifest()
		shuffle(m, rand.New(rand.NewSource(seed)))
		if !bytes.Equal(marshal(t, m), want) {
			t.Fatalf("other bytes with seed %d", seed)
		}
	}
	if !bytes.Equal(marshal(t, unmarshal(t, want)), want) {
		t.Error("other bytes when read and written again")
	}
}

// shuffle reorders everything whose order has no meaning.
func shuffle(m *Manifest, r *rand.Rand) {
	comps, syms := r.Perm(len(m.Components)), r.Perm(len(m.Symbols))
	old := proto.Clone(m).(*Manifest)
	for from, to := range comps {
		m.Components[to] = old.Components[from]
	}
	for from, to := range syms {
		m.Symbols[to] = old.Symbols[from]
	}
	for _, c := range m.Components {
		for i, l := range c.Links {
			if l%2 == 0 {
				c.Links[i] = 2 * uint32(comps[l/2])
			} else {
				c.Links[i] = 2*uint32(syms[l/2]) + 1
			}
		}
		r.Shuffle(len(c.Definitions), func(i, j int) { c.Definitions[i], c.Definitions[j] = c.Definitions[j], c.Definitions[i] })
	}
	r.Shuffle(len(m.Fallbacks), func(i, j int) { m.Fallbacks[i], m.Fallbacks[j] = m.Fallbacks[j], m.Fallbacks[i] })
}

// Symbols and file names can be any bytes.
func TestNotUTF8(t *testing.T) {
	m := testManifest()
	m.Source, m.Flags[0] = "caf\xe9.c", "-fplugin=\xe9"
	m.Symbols[0] = "caf\xe9"
	m.Components[1].Name, m.Components[1].Definitions[0].Name = "caf\xe9", "d\xe9j\xe0"
	m.Fallbacks[0].Reason = "\xff"
	m = unmarshal(t, marshal(t, m))
	if diff := cmp.Diff([]string{"component helper", `symbol caf\xe9`, "symbol printf"}, slices.Sorted(slices.Values(links(t, m, "main")))); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", `d\xe9j\xe0`}, m.Components[0].Aliases()); diff != "" || m.Components[0].Name != `caf\xe9` {
		t.Errorf("component %q, aliases (-want +got):\n%s", m.Components[0].Name, diff)
	}
}

func TestTruncated(t *testing.T) {
	b := marshal(t, testManifest())
	for n := range b {
		if _, err := Unmarshal(b[:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("first %d of %d bytes: %v, want ErrCorrupt", n, len(b), err)
		}
	}
	if _, err := Unmarshal(append(b[:len(b):len(b)], 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("one byte more: %v, want ErrCorrupt", err)
	}
}

func TestCorrupt(t *testing.T) {
	for name, damage := range map[string]func(m *Manifest){
		"no format":           func(m *Manifest) { m.Format = 0 },
		"no rung":             func(m *Manifest) { m.Rung = 0 },
		"no name":             func(m *Manifest) { m.Components[0].Name = "" },
		"no kind":             func(m *Manifest) { m.Components[0].Kind = 0 },
		"no linkage":          func(m *Manifest) { m.Components[0].Linkage = 0 },
		"short hash":          func(m *Manifest) { m.Components[0].LocalHash = make([]byte, 15) },
		"repeated name":       func(m *Manifest) { m.Components[1].Name = m.Components[0].Name },
		"unsorted":            func(m *Manifest) { slices.Reverse(m.Components) },
		"no unit":             func(m *Manifest) { m.Units = nil },
		"unit past end":       func(m *Manifest) { m.Components[0].Unit = 1 },
		"local definition":    func(m *Manifest) { m.Components[0].Definitions = NewDefinitions(Binding_BINDING_WEAK, "x") },
		"repeated definition": func(m *Manifest) { m.Components[2].Definitions[1].Name = "a" },
		"link past end":       func(m *Manifest) { m.Components[0].Links[0] = 2 * uint32(len(m.Components)) },
		"symbol past end":     func(m *Manifest) { m.Components[0].Links[0] = 2*uint32(len(m.Symbols)) + 1 },
		"link far beyond end": func(m *Manifest) { m.Components[0].Links[0] = 1<<32 - 1 },
	} {
		m := unmarshal(t, marshal(t, testManifest()))
		damage(m)
		if _, err := Unmarshal(encode(t, m)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}

// A newer format is refused even where this version could read it: its hashes
// may mean something else.
func TestNewerFormat(t *testing.T) {
	m := unmarshal(t, marshal(t, testManifest()))
	m.Format = Format + 1
	m.Rung = 17 // and whatever else is new
	_, err := Unmarshal(encode(t, m))
	if !errors.Is(err, ErrFormat) || errors.Is(err, ErrCorrupt) {
		t.Errorf("%v, want ErrFormat alone", err)
	}
}

func TestMarshalRefusesRepeatedNames(t *testing.T) {
	m := testManifest()
	m.Components = append(m.Components, testComponent("main"))
	if _, err := Marshal(m); err == nil {
		t.Error("no error for two components of one name")
	}
}

func TestReadWrite(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.manifest")
	m := testManifest()
	for range 2 { // the second time over the first
		if err := Write(name, m); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Read(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("beside the manifest: %v, %v", files, err)
	}
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(name); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), name) {
		t.Errorf("%v, want ErrCorrupt with the name of the file", err)
	}
}

// FuzzUnmarshal: whatever the bytes are, reading ends with one of the two named
// errors, or with a manifest that has a canonical form.
func FuzzUnmarshal(f *testing.F) {
	valid := marshal(f, testManifest())
	f.Add(valid[len(Magic):])
	f.Add(marshal(f, &Manifest{Rung: Rung_RUNG_FILE, Units: []*Unit{{}}})[len(Magic):])
	f.Add(encode(f, &Manifest{Format: Format + 1})[len(Magic):])
	f.Add(valid[len(Magic) : len(valid)/2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Unmarshal(append([]byte(Magic), data...))
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrFormat) {
				t.Fatalf("%v, want ErrCorrupt or ErrFormat", err)
			}
			return
		}
		before := map[string][]string{}
		for _, c := range m.Components {
			before[c.Name] = unrepeated(links(t, m, c.Name))
		}
		b := marshal(t, m)
		again := unmarshal(t, b)
		for name, want := range before {
			if got := links(t, again, name); !slices.Equal(got, want) {
				t.Fatalf("canonical form changed the links of %q from %q to %q", name, want, got)
			}
		}
		if !bytes.Equal(marshal(t, again), b) {
			t.Fatal("canonical form isn't stable")
		}
	})
}

// unrepeated keeps the first of equal strings.
func unrepeated(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// The manifest of a unit that isn't plain C is told from all others, that of an
// empty object among them.
func TestNotPlain(t *testing.T) {
	b, err := Marshal(NewNotPlain("a.c", "asm"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := Unmarshal(b)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.NotPlain(); got != "asm" || m.Source != "a.c" {
		t.Errorf("not plain for %q, source %q", got, m.Source)
	}
	object := &Manifest{Rung: Rung_RUNG_OBJECT, Units: []*Unit{{Exact: true}}, Fallbacks: []*Fallback{NotPlainFallback("asm")}}
	if got := object.NotPlain(); got != "" {
		t.Errorf("an empty object isn't plain for %q", got)
	}
	if got := (&Manifest{Rung: Rung_RUNG_FUNCTION, Units: []*Unit{{}}}).NotPlain(); got != "" {
		t.Errorf("a source isn't plain for %q", got)
	}
}
