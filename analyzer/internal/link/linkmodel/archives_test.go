package linkmodel

import (
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// Optimised for nothing, every object of a C++ program has copies of what the C++ library's shared
// library has as well.
func TestCopiesOfTheSystem(t *testing.T) {
	const taken, left = "_ZNSt6vectorIiSaIiEED2Ev", "_ZTSSt16_Sp_counted_baseILN9__gnu_cxx12_Lock_policyE2EE"
	for _, c := range []struct {
		name      string
		copy      string // beside left, in the member that nothing refers to
		strong    bool   // it isn't in a group
		wants     string // what the executable takes the other member for
		linkers   []Linker
		behind    bool
		cxxInside bool
		cxxWants  string
		unknown   bool
	}{
		{name: "copies", wants: "f"},
		{name: "operator new", wants: "f", copy: "_Znwm", unknown: true},
		{name: "a function of C", wants: "f", copy: "malloc", unknown: true},
		{name: "a definition", wants: "f", copy: "_ZNSt5ctypeIcED0Ev", strong: true, unknown: true},
		{name: "an archive of C++ behind the program", wants: "f", cxxInside: true, linkers: []Linker{GNU}},
		{name: "an archive of C++", wants: "f", cxxInside: true, linkers: []Linker{LLD, AnyLinker}, unknown: true},
		{name: "an archive of C++ that wants it", wants: "f", cxxWants: left, linkers: []Linker{LLD, AnyLinker}, unknown: true},
		{name: "an archive of C++ that wants something", wants: "f", cxxWants: taken},
		{name: "an archive of C++ in front", wants: "f", cxxInside: true, behind: true, linkers: []Linker{GNU}, unknown: true},
		{name: "a library in front", wants: "f", behind: true},
		{name: "a library in front may define it", wants: taken, behind: true, unknown: true},
		{name: "no library in front", wants: taken},
	} {
		if c.linkers == nil {
			c.linkers = []Linker{GNU, LLD, AnyLinker}
		}
		for _, linker := range c.linkers {
			table := NewTable()
			add := func(refs []string, defs ...*manifest.Component) int32 {
				m := &manifest.Manifest{Units: []*manifest.Unit{{Exact: true}}, Components: defs}
				for _, r := range refs {
					m.Units[0].References = append(m.Units[0].References, &manifest.Reference{Name: r})
				}
				var list []int32
				for i := range defs {
					list = append(list, int32(i))
				}
				return table.Add(m, 0, list)
			}
			define := func(name, group string) *manifest.Component {
				d := &manifest.Definition{Name: name, Binding: manifest.Binding_BINDING_GLOBAL}
				if group != "" {
					d.Binding = manifest.Binding_BINDING_WEAK
				}
				return &manifest.Component{Group: group, Definitions: []*manifest.Definition{d}}
			}
			group := c.copy
			if c.strong {
				group = ""
			}
			unused := []*manifest.Component{{Root: "constructor"}, define("g", ""), define(left, left)}
			if c.copy != "" {
				unused = append(unused, define(c.copy, group))
			}
			p := &Program{Files: []File{{Linker: linker, CxxInside: c.cxxInside, Complete: true, Entries: []Entry{
				{Unit: add([]string{c.wants}, define("main", ""))},
				{Unit: add(nil, define("f", ""), define(taken, taken)), Lazy: true, Archive: 1, BehindSystem: c.behind},
				{Unit: add(nil, unused...), Lazy: true, Archive: 1, BehindSystem: c.behind},
			}}}}
			if c.cxxWants != "" {
				p.Files[0].CxxWants = []Symbol{table.Symbol(c.cxxWants)}
			}
			for _, s := range []string{taken, left, c.copy} {
				if s != "" {
					p.Overrides = append(p.Overrides, table.Symbol(s))
				}
			}
			l := NewLinked(table)
			l.Link(p)
			if got := l.Unusual != ""; got != c.unknown {
				t.Errorf("%s, linker %d: unknown: %q", c.name, linker, l.Unusual)
			}
			if want := 2; !c.unknown && len(l.Units) != want {
				t.Errorf("%s, linker %d: %d units, want %d", c.name, linker, len(l.Units), want)
			}
		}
	}
}

// A library is surely needed if a unit in front of it, which is surely linked, refers to what only the library defines.
func TestNeeds(t *testing.T) {
	for _, c := range []struct {
		name     string
		ref      *manifest.Reference
		inexact  bool
		lazy     bool // the unit that refers to it
		behind   bool
		collects bool
		other    string // defined in front as well
		foreign  bool
		start    bool // it is what start files need
		linkers  []Linker
		needed   bool
	}{
		{name: "a reference", needed: true},
		{name: "none", ref: &manifest.Reference{Name: "g"}},
		{name: "what start files need", ref: &manifest.Reference{Name: "g"}, start: true, needed: true},
		{name: "a weak one", ref: &manifest.Reference{Name: "f", Weak: true}},
		{name: "what a compiler may drop", inexact: true},
		{name: "of a member of an archive", lazy: true},
		{name: "behind the library", behind: true},
		{name: "another library defines it", other: "f"},
		{name: "another library defines something", other: "g", needed: true},
		{name: "the system defines it", foreign: true},
		{name: "sections are dropped later", collects: true, linkers: []Linker{GNU}, needed: true},
		{name: "sections are dropped", collects: true, linkers: []Linker{LLD, AnyLinker}},
	} {
		if c.linkers == nil {
			c.linkers = []Linker{GNU, LLD, AnyLinker}
		}
		if c.ref == nil {
			c.ref = &manifest.Reference{Name: "f"}
		}
		for _, linker := range c.linkers {
			table := NewTable()
			define := func(name string) int32 {
				return table.Add(&manifest.Manifest{Units: []*manifest.Unit{{Exact: true}}, Components: []*manifest.Component{{Definitions: []*manifest.Definition{{Name: name}}}}}, 0, []int32{0})
			}
			unit := Entry{Unit: table.Add(&manifest.Manifest{Units: []*manifest.Unit{{Exact: !c.inexact, References: []*manifest.Reference{c.ref}}}}, 0, nil), Lazy: c.lazy}
			library := Entry{Library: 1, AsNeeded: true}
			p := &Program{Files: []File{{Linker: linker, GCSections: c.collects, Complete: true, Entries: []Entry{unit, {Library: 2}, library}}, {Name: "libf", Entries: []Entry{{Unit: define("f")}}}, {Entries: []Entry{{Unit: define(c.other)}}}}}
			if c.behind {
				p.Files[0].Entries = []Entry{{Library: 2}, library, unit}
			}
			if c.foreign {
				p.Overrides = []Symbol{table.Symbol("f")}
			}
			if c.start {
				p.Needs = []Symbol{table.Symbol("f")}
			}
			l := NewLinked(table)
			l.Link(p)
			if needed := l.Unusual != "--as-needed decides whether libf is loaded"; needed != c.needed {
				t.Errorf("%s, linker %d: %q", c.name, linker, l.Unusual)
			}
		}
	}
}

// What isn't modelled has a reason, and all that may be linked counts.
func TestUnusual(t *testing.T) {
	unit := func(table *Table, refs, defs string, binding manifest.Binding) Entry {
		m := &manifest.Manifest{Units: []*manifest.Unit{{Exact: true}}}
		var list []int32
		if refs != "" {
			m.Units[0].References = []*manifest.Reference{{Name: refs}}
		}
		if defs != "" {
			m.Components = []*manifest.Component{{Definitions: []*manifest.Definition{{Name: defs, Binding: binding}}}}
			list = []int32{0}
		}
		return Entry{Unit: table.Add(m, 0, list)}
	}
	const global, common, weak, unique = manifest.Binding_BINDING_GLOBAL, manifest.Binding_BINDING_COMMON, manifest.Binding_BINDING_WEAK, manifest.Binding_BINDING_UNIQUE
	for _, c := range []struct {
		name    string
		program func(t *Table) *Program
		unusual bool
		units   int
	}{
		{"nothing", func(t *Table) *Program {
			return &Program{Files: []File{{Complete: true, Entries: []Entry{unit(t, "f", "main", global), unit(t, "", "f", global)}}}}
		}, false, 2},
		{"its lines are", func(t *Table) *Program {
			e := unit(t, "", "f", global)
			e.Lazy, e.Archive = true, 1
			return &Program{Unusual: "--wrap", Files: []File{{Complete: true, Entries: []Entry{unit(t, "", "main", global), e}}}}
		}, true, 2},
		{"a version", func(t *Table) *Program {
			return &Program{Files: []File{{Complete: true, Entries: []Entry{unit(t, "f@V", "main", global)}}}}
		}, true, 1},
		{"tentative definitions", func(t *Table) *Program {
			return &Program{Files: []File{{Complete: true, Entries: []Entry{unit(t, "", "x", common), unit(t, "", "x", common)}}}}
		}, true, 2},
		{"unique behind weak", func(t *Table) *Program {
			return &Program{Files: []File{{Complete: true, Entries: []Entry{unit(t, "", "x", weak), unit(t, "", "x", unique)}}}}
		}, true, 2},
		{"unique behind weak, for a linker", func(t *Table) *Program {
			return &Program{Files: []File{{Complete: true, Linker: GNU, Entries: []Entry{unit(t, "", "x", weak), unit(t, "", "x", unique)}}}}
		}, false, 2},
		{"a library on the line of another one only", func(t *Table) *Program {
			return &Program{Files: []File{{Complete: true, Entries: []Entry{{Library: 1}}}, {Entries: []Entry{{Library: 2}}}, {Entries: []Entry{unit(t, "", "f", global)}}}}
		}, true, 1},
	} {
		table := NewTable()
		p := c.program(table)
		l := NewLinked(table)
		l.Link(p)
		if l.Unusual != "" != c.unusual || len(l.Units) != c.units {
			t.Errorf("%s: %q, %d units", c.name, l.Unusual, len(l.Units))
		}
	}
}
