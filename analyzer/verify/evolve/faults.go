package evolve

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rules-tasting/rules_tasting/analyzer/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// Fault is a way in which an analyzer can be wrong. A checker that doesn't find each of them in
// some program is no checker.
type Fault struct {
	Name, Text string
	// Modes show it soon, in autoep's names.
	Modes []string
	new   func() *Evidence
}

var evidences atomic.Int64

// Evidence is that of an analyzer with the fault.
func (f Fault) Evidence() *Evidence {
	e := f.new()
	e.ID = fmt.Sprintf("%s %d", f.Name, evidences.Add(1)) // some remember what they have seen
	return e
}

// Faults are what the checker is checked with (docs/checks.md).
var Faults = []Fault{
	{"virtual tables", "no class has a virtual table", []string{"F1+vtable"}, drop("_ZTV")},
	{"types", "nothing is known of a class at run time", []string{"F1+raise"}, drop("_ZTI", "_ZTS")},
	{"inline bodies", "what is in several units is the same everywhere", []string{"H1+inline"}, blind(func(c *manifest.Component) bool {
		return c.Linkage == manifest.Linkage_LINKAGE_WEAK && !strings.HasPrefix(c.Name, "_ZT")
	})},
	{"static functions", "what only its unit knows is ignored", []string{"C1+twins"}, blind(func(c *manifest.Component) bool {
		return c.Linkage == manifest.Linkage_LINKAGE_LOCAL && c.Root == "" && !strings.HasPrefix(c.Name, ".")
	})},
	{"local variables", "what functions keep, and sections of data, are ignored", []string{"M1+rodata", "C1+rodata"}, blind(func(c *manifest.Component) bool {
		return strings.HasPrefix(c.Name, "_ZZ") || strings.HasPrefix(c.Name, ".rodata") || strings.Contains(c.Name[1:], ".")
	})},
	{"leaves", "what others know and refers to nothing, such as a variable, is ignored", []string{"C1+init"}, blind(func(c *manifest.Component) bool {
		return c.Linkage == manifest.Linkage_LINKAGE_EXTERNAL && len(c.Links) == 0
	})},
	{"initialisers", "nothing runs in front of main", []string{"F1+init"}, rewire(func(c *manifest.Component) {
		if strings.HasPrefix(c.Name, ".init_array") || strings.HasPrefix(c.Name, "_GLOBAL__sub_I") {
			c.Root, c.Links = "", nil
		}
	})},
	{"last reference", "one of the references of a function is forgotten", []string{"F1+vtable"}, rewire(func(c *manifest.Component) {
		if len(c.Links) > 1 {
			c.Links = c.Links[:len(c.Links)-1]
		}
	})},
	{"first reference", "the first reference of a function with several is forgotten", []string{"F1+init"}, rewire(func(c *manifest.Component) {
		if len(c.Links) > 1 {
			c.Links = c.Links[1:]
		}
	})},
	{"inner references", "references that an assembler has resolved are forgotten", []string{"C1+twins"}, links(func(l uint32) bool { return l%2 == 1 })},
	{"outer references", "references to other units are forgotten", []string{"C1+enum"}, links(func(l uint32) bool { return l%2 == 0 })},
	{"data files", "what a test reads is ignored", []string{"G1+data"}, func() *Evidence {
		return &Evidence{Test: func(t *fingerprint.Test) { t.Data = nil }}
	}},
	{"headers", "a unit is analysed again only if its own file has changed", []string{"C1+enum"}, func() *Evidence {
		var first sync.Map
		return &Evidence{Of: func(u *Unit, m *manifest.Manifest) *manifest.Manifest {
			old, _ := first.LoadOrStore(u.text, m)
			return old.(*manifest.Manifest)
		}}
	}},
	{"order of the line", "libraries are linked in the order of their names", []string{"C1+linkorder"}, func() *Evidence { return &Evidence{sorted: true} }},
	{"libraries", "shared libraries count by their names", []string{"S1+init"}, func() *Evidence { return &Evidence{noShared: true} }},
	{"arguments", "what a test is told is ignored", []string{"F1+args"}, func() *Evidence { return &Evidence{noArgs: true} }},
}

// FaultModes are modes that together show all faults.
func FaultModes() (l []string) {
	for _, f := range Faults {
		l = append(l, f.Modes...)
	}
	slices.Sort(l)
	return slices.Compact(l)
}

// blind makes some components look alike.
func blind(which func(c *manifest.Component) bool) func() *Evidence {
	return rewire(func(c *manifest.Component) {
		if which(c) {
			c.LocalHash = make([]byte, 16)
		}
	})
}

// rewire changes components.
func rewire(change func(c *manifest.Component)) func() *Evidence {
	return func() *Evidence {
		return &Evidence{Of: func(_ *Unit, m *manifest.Manifest) *manifest.Manifest {
			for _, c := range m.Components {
				change(c)
			}
			return m
		}}
	}
}

// drop leaves nothing of components but their names, which begin with one of these.
func drop(prefixes ...string) func() *Evidence {
	return rewire(func(c *manifest.Component) {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(c.Name, p) }) {
			c.LocalHash, c.Links = make([]byte, 16), nil
		}
	})
}

// links keeps some of the references.
func links(keep func(uint32) bool) func() *Evidence {
	return rewire(func(c *manifest.Component) {
		c.Links = slices.DeleteFunc(slices.Clone(c.Links), func(l uint32) bool { return !keep(l) })
	})
}
