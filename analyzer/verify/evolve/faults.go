package evolve

import (
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// Fault is a way in which an analyzer can be wrong. A checker that doesn't find each of them in
// some program is no checker.
type Fault struct {
	Name, Text string
	new        func() *Evidence
}

// Evidence is that of an analyzer with the fault.
func (f Fault) Evidence() *Evidence {
	e := f.new()
	e.ID = f.Name
	return e
}

// Faults are what the checker is checked with (docs/checks.md).
var Faults = []Fault{
	{"virtual tables", "no class has a virtual table", blind(func(c *manifest.Component) bool { return strings.HasPrefix(c.Name, "_ZTV") })},
	{"types", "nothing is known of a class at run time", blind(func(c *manifest.Component) bool {
		return strings.HasPrefix(c.Name, "_ZTI") || strings.HasPrefix(c.Name, "_ZTS")
	})},
	{"inline bodies", "what is in several units is the same everywhere", blind(func(c *manifest.Component) bool {
		return c.Linkage == manifest.Linkage_LINKAGE_WEAK && !strings.HasPrefix(c.Name, "_ZT")
	})},
	{"static functions", "what only its unit knows is ignored", blind(func(c *manifest.Component) bool {
		return c.Linkage == manifest.Linkage_LINKAGE_LOCAL && c.Root == "" && !strings.HasPrefix(c.Name, ".")
	})},
	{"constants", "read-only data is ignored", blind(func(c *manifest.Component) bool { return strings.HasPrefix(c.Name, ".rodata") })},
	{"variables", "the values of variables are ignored", blind(func(c *manifest.Component) bool {
		return c.Linkage == manifest.Linkage_LINKAGE_EXTERNAL && len(c.Links) == 0
	})},
	{"initialisers", "nothing runs in front of main", rewire(func(c *manifest.Component) {
		if strings.HasPrefix(c.Name, ".init_array") || strings.HasPrefix(c.Name, "_GLOBAL__sub_I") {
			c.Root, c.Links = "", nil
		}
	})},
	{"last reference", "one of the references of a function is forgotten", rewire(func(c *manifest.Component) {
		if len(c.Links) > 1 {
			c.Links = c.Links[:len(c.Links)-1]
		}
	})},
	{"first reference", "the first reference of a function with several is forgotten", rewire(func(c *manifest.Component) {
		if len(c.Links) > 1 {
			c.Links = c.Links[1:]
		}
	})},
	{"inner references", "references that an assembler has resolved are forgotten", rewire(func(c *manifest.Component) {
		var l []uint32
		for _, x := range c.Links {
			if x%2 == 1 {
				l = append(l, x)
			}
		}
		c.Links = l
	})},
	{"outer references", "references to other units are forgotten", rewire(func(c *manifest.Component) {
		var l []uint32
		for _, x := range c.Links {
			if x%2 == 0 {
				l = append(l, x)
			}
		}
		c.Links = l
	})},
	{"data files", "what a test reads is ignored", func() *Evidence {
		return &Evidence{Test: func(t *fingerprint.Test) { t.Data = nil }}
	}},
	{"headers", "a unit is analysed again only if its own file has changed", func() *Evidence {
		var first sync.Map
		return &Evidence{Of: func(u *Unit, m *manifest.Manifest) *manifest.Manifest {
			old, _ := first.LoadOrStore(u.text, m)
			return old.(*manifest.Manifest)
		}}
	}},
	{"order of the line", "libraries are linked in the order of their names", func() *Evidence { return &Evidence{sorted: true} }},
	{"libraries", "shared libraries count by their names", func() *Evidence { return &Evidence{noShared: true} }},
	{"arguments", "what a test is told is ignored", func() *Evidence { return &Evidence{noArgs: true} }},
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
