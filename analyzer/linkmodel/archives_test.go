package linkmodel

import (
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
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
		unknown   bool
	}{
		{name: "copies", wants: "f"},
		{name: "operator new", wants: "f", copy: "_Znwm", unknown: true},
		{name: "a function of C", wants: "f", copy: "malloc", unknown: true},
		{name: "a definition", wants: "f", copy: "_ZNSt5ctypeIcED0Ev", strong: true, unknown: true},
		{name: "an archive of C++ behind the program", wants: "f", cxxInside: true, linkers: []Linker{GNU}},
		{name: "an archive of C++", wants: "f", cxxInside: true, linkers: []Linker{LLD, AnyLinker}, unknown: true},
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
			p := &Program{Files: []File{{Linker: linker, CxxInside: c.cxxInside, Entries: []Entry{
				{Unit: add([]string{c.wants}, define("main", ""))},
				{Unit: add(nil, define("f", ""), define(taken, taken)), Lazy: true, Archive: 1, BehindSystem: c.behind},
				{Unit: add(nil, unused...), Lazy: true, Archive: 1, BehindSystem: c.behind},
			}}}}
			for _, s := range []string{taken, left, c.copy} {
				if s != "" {
					p.Foreign = append(p.Foreign, table.Symbol(s))
				}
			}
			l := NewLinked(table)
			l.Link(p)
			if got := l.Unknown != ""; got != c.unknown {
				t.Errorf("%s, linker %d: unknown: %q", c.name, linker, l.Unknown)
			}
			if want := 2; !c.unknown && len(l.Instances) != want {
				t.Errorf("%s, linker %d: %d units, want %d", c.name, linker, len(l.Instances), want)
			}
		}
	}
}
