package evolve

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
)

// Fault is a way in which an analyzer can be wrong. A checker that doesn't find each of them in
// some program is no checker.
type Fault struct {
	Name, Text string
	// Modes show it soon, in autoep's names.
	Modes []string
	new   func() *Evidence
	// Traces is set if the tool with traces has the fault.
	Traces bool
	// Cases is set if the tool by cases has the fault. WithCases has programs that show it.
	Cases bool
}

var evidences atomic.Int64

// Evidence is that of an analyzer with the fault.
func (f Fault) Evidence() *Evidence {
	e := f.new()
	e.ID = fmt.Sprintf("%s %d", f.Name, evidences.Add(1)) // some remember what they have seen
	return e
}

// Tool is this tool with the fault.
func (f Fault) Tool(p Passes) Tool {
	switch {
	case f.Traces:
		return OursWithTraces(f.Name, p, f.Evidence())
	case f.Cases:
		return OursByCases(f.Name, p, f.Evidence())
	}
	return Ours(f.Name, p, f.Evidence())
}

// Faults are what the checker is checked with (docs/contributing/verification.md).
var Faults = slices.Concat(staticFaults, traceFaults, caseFaults)

var staticFaults = []Fault{
	{Name: "virtual tables", Text: "no class has a virtual table", Modes: []string{"F1+vtable"}, new: drop("_ZTV")},
	{Name: "types", Text: "nothing is known of a class at run time", Modes: []string{"F1+raise"}, new: drop("_ZTI", "_ZTS")},
	{Name: "inline bodies", Text: "what is in several units is the same everywhere", Modes: []string{"H1+inline"}, new: blind(func(c *manifest.Component) bool {
		return c.Linkage == manifest.Linkage_LINKAGE_WEAK && !strings.HasPrefix(c.Name, "_ZT")
	})},
	{Name: "static functions", Text: "what only its unit knows is ignored", Modes: []string{"C1+twins"}, new: blind(func(c *manifest.Component) bool {
		return c.Linkage == manifest.Linkage_LINKAGE_LOCAL && c.Root == "" && !strings.HasPrefix(c.Name, ".")
	})},
	{Name: "local variables", Text: "what functions keep, and sections of data, are ignored", Modes: []string{"M1+rodata", "C1+rodata"}, new: blind(func(c *manifest.Component) bool {
		return strings.HasPrefix(c.Name, "_ZZ") || strings.HasPrefix(c.Name, ".rodata") || strings.Contains(c.Name[1:], ".")
	})},
	{Name: "leaves", Text: "what others know and refers to nothing, such as a variable, is ignored", Modes: []string{"C1+init"}, new: blind(func(c *manifest.Component) bool {
		return c.Linkage == manifest.Linkage_LINKAGE_EXTERNAL && len(c.Links) == 0
	})},
	{Name: "initialisers", Text: "nothing runs in front of main", Modes: []string{"F1+init"}, new: noInitialisers},
	{Name: "last reference", Text: "one of the references of a function is forgotten", Modes: []string{"F1+vtable"}, new: rewire(func(c *manifest.Component) {
		if len(c.Links) > 1 {
			c.Links = c.Links[:len(c.Links)-1]
		}
	})},
	{Name: "first reference", Text: "the first reference of a function with several is forgotten", Modes: []string{"F1+init"}, new: rewire(func(c *manifest.Component) {
		if len(c.Links) > 1 {
			c.Links = c.Links[1:]
		}
	})},
	{Name: "inner references", Text: "references that an assembler has resolved are forgotten", Modes: []string{"C1+twins"}, new: links(func(l uint32) bool { return l%2 == 1 })},
	{Name: "outer references", Text: "references to other units are forgotten", Modes: []string{"C1+enum"}, new: links(func(l uint32) bool { return l%2 == 0 })},
	{Name: "data files", Text: "what a test reads is ignored", Modes: []string{"G1+data"}, new: func() *Evidence {
		return &Evidence{Test: func(t *fingerprint.Test) { t.Data = nil }}
	}},
	{Name: "headers", Text: "a unit is analysed again only if its own file has changed", Modes: []string{"C1+enum"}, new: func() *Evidence {
		var first sync.Map
		return &Evidence{Of: func(u *Unit, m *manifest.Manifest) *manifest.Manifest {
			old, _ := first.LoadOrStore(u.text, m)
			return old.(*manifest.Manifest)
		}}
	}},
	{Name: "order of the line", Text: "libraries are linked in the order of their names", Modes: []string{"C1+linkorder"}, new: func() *Evidence { return &Evidence{sorted: true} }},
	{Name: "libraries", Text: "shared libraries count by their names", Modes: []string{"S1+init"}, new: func() *Evidence { return &Evidence{noShared: true} }},
	{Name: "arguments", Text: "what a test is told is ignored", Modes: []string{"F1+args"}, new: func() *Evidence { return &Evidence{noArgs: true} }},
}

// traceFaults are those of a collector of traces that misses functions, and of keys of traces.
var traceFaults = []Fault{
	forgetting("traces without virtual functions", "nobody sees that a virtual function is entered", []string{"V1+E7"}, func(_ string, s trace.Symbol) bool {
		return virtualFunction.MatchString(s.Name)
	}),
	forgetting("traces without initialisers", "nothing is seen before main", []string{"F1+init"}, func(_ string, s trace.Symbol) bool { return initialises(s) }),
	forgetting("traces without local functions", "functions that only their unit knows aren't seen", []string{"C1+twins"}, func(_ string, s trace.Symbol) bool { return s.Unit != "" }),
	forgetting("traces without libraries", "a library that is loaded has no breakpoints", []string{"S1+init"}, func(file string, _ trace.Symbol) bool { return file != trace.Executable }),
	forgetting("traces without constructors", "no constructor is seen", []string{"F1+vtable"}, func(_ string, s trace.Symbol) bool { return constructor.MatchString(s.Name) }),
	forgetting("traces of main", "the trace ends when main has begun", []string{"C1+init"}, func(_ string, s trace.Symbol) bool { return s.Name != "main" && !initialises(s) }),
	forgetting("every other entry", "every other function that is entered is missed", []string{"C1+enum", "H1+inline"}, func(_ string, s trace.Symbol) bool {
		return xxhash.Sum64String(s.Name)%2 == 0
	}),
	forgetting("traces without threads", "what another thread enters isn't seen", []string{"C1+thread"}, func(_ string, s trace.Symbol) bool { return has(s.Name, "leaf_thread") }),
	forgetting("traces without children", "what a forked child enters isn't seen", []string{"C1+child"}, func(_ string, s trace.Symbol) bool { return has(s.Name, "leaf_child") }),
	forgetting("traces without resolvers", "what a resolver enters isn't seen", []string{"C1+resolver"}, func(_ string, s trace.Symbol) bool { return has(s.Name, "leaf_which") }),
	{Name: "keys without virtual tables", Text: "of traces' keys: no class has a virtual table", Modes: []string{"F1+vtable"}, new: drop("_ZTV"), Traces: true},
	{Name: "keys without data", Text: "of traces' keys: what data refers to is ignored", Modes: []string{"F1+vtable"}, Traces: true, new: rewire(func(c *manifest.Component) {
		if len(c.Entries) == 0 {
			c.Links = nil
		}
	})},
	{Name: "keys without bindings", Text: "of traces' keys: which definition a symbol is bound to is ignored", Modes: []string{"C1+enum"}, new: links(func(l uint32) bool { return l%2 == 0 }), Traces: true},
	{Name: "keys without initialisers", Text: "of traces' keys: nothing runs in front of main", Modes: []string{"F1+init"}, new: noInitialisers, Traces: true},
}

var (
	constructor     = regexp.MustCompile(`C[12]E`)
	virtualFunction = regexp.MustCompile(`^_ZNK?[0-9A-Z].*[0-9a-z]Ei?$`)
)

func has(name, part string) bool { return strings.Contains(name, part) }

// noInitialisers drops what runs in front of main.
var noInitialisers = rewire(func(c *manifest.Component) {
	if strings.HasPrefix(c.Name, ".init_array") || strings.HasPrefix(c.Name, "_GLOBAL__sub_I") {
		c.Root, c.Links = "", nil
	}
})

// initialises reports whether a function runs in front of main.
func initialises(s trace.Symbol) bool {
	return strings.HasPrefix(s.Name, "_GLOBAL__sub_I") || strings.HasPrefix(s.Name, "__cxx_global_var_init")
}

// forgetting is a collector that doesn't see some functions, each of them in a file, when they are entered.
func forgetting(name, text string, modes []string, forget func(file string, s trace.Symbol) bool) Fault {
	return Fault{Name: name, Text: text, Modes: modes, new: func() *Evidence { return &Evidence{forget: forget} }, Traces: true}
}

// FaultModes are modes that together show all faults.
func FaultModes() []string { return modes(Faults) }

func modes(faults []Fault) (l []string) {
	for _, f := range faults {
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
	return emptied(func(c *manifest.Component) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(c.Name, p) })
	})
}

// emptied leaves nothing of some components but their names.
func emptied(which func(c *manifest.Component) bool) func() *Evidence {
	return rewire(func(c *manifest.Component) {
		if which(c) {
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
