package evolve

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// Hybrid is HyRTS (Zhang; ICSE 2018): functions and variables count in units that are different from
// those of the last execution, whole units elsewhere. With wholeIfAdded, HyRTS_F, a unit counts as a
// whole, too, if it has other functions than before.
func Hybrid(p Passes, wholeIfAdded bool) Tool {
	if wholeIfAdded {
		return newHybrid("hybrid F", p, func(before, now *manifest.Manifest) bool { return !sameNames(before, now) })
	}
	return newHybrid("hybrid", p, nil)
}

// Transformed is Hybrid, but a unit with a change of a kind counts as a whole: what does it bring to
// look into such changes (HyRTS's tables 4 and 5)?
func Transformed(p Passes, k ChangeKind) Tool {
	return newHybrid(k.ID, p, func(before, now *manifest.Manifest) bool { return slices.Contains(Changes(before, now), k.ID) })
}

// newHybrid returns a tool that counts a unit that has changed as a whole if coarse says so.
func newHybrid(name string, p Passes, coarse func(before, now *manifest.Manifest) bool) Tool {
	return &selector{name, func() selecting {
		return &hybrid{coarse: coarse, last: map[string]*Built{}, whole: map[[2]string]bool{}}
	}, p}
}

type hybrid struct {
	spared time.Duration                             // by comparisons that another tool has made
	coarse func(before, now *manifest.Manifest) bool // nil is never
	last   map[string]*Built
	whole  map[[2]string]bool // what coarse said, by objects
}

// comparison is what hybrid tools have compared: a test in two revisions, where some sources count
// by function.
type comparison struct {
	before, now *Built
	fine        string
}

// compared is what came out, and what it took.
type compared struct {
	differs bool
	took    time.Duration
}

func (h *hybrid) affected(tests []*Built) ([]bool, error) {
	affected := make([]bool, len(tests))
	groups := map[string][]int{} // by the sources that count by function
	for i, x := range tests {
		last := h.last[x.Test.Name]
		if last == nil || x.Err != nil {
			affected[i] = true
			continue
		}
		fine, err := h.fine(last, x)
		if err != nil {
			return nil, err
		}
		k := strings.Join(fine, " ")
		if known, ok := x.b.compared.Load(comparison{last, x, k}); ok {
			c := known.(compared)
			affected[i], h.spared = c.differs, h.spared+c.took
			continue
		}
		groups[k] = append(groups[k], i)
	}
	for fine, which := range groups {
		start := time.Now()
		sources := strings.Fields(fine)
		e := &Evidence{ID: "hybrid " + fine, IDOf: func(u *Unit) string {
			if slices.Contains(sources, u.Source) {
				return ""
			}
			return wholeID
		}, Of: WholeFiles().Of}
		var both []*Built
		for _, i := range which {
			both = append(both, h.last[tests[i].Test.Name], tests[i])
		}
		keys, err := Keys(both, e)
		if err != nil {
			return nil, err
		}
		each := time.Since(start) / time.Duration(len(which))
		for n, i := range which {
			affected[i] = keys[2*n] != keys[2*n+1] || keys[2*n] == ""
			tests[i].b.compared.Store(comparison{h.last[tests[i].Test.Name], tests[i], fine}, compared{affected[i], each})
		}
	}
	return affected, nil
}

func (h *hybrid) executed(_ context.Context, x *Built, _ bool) error {
	h.last[x.Test.Name] = x
	if x.Err != nil {
		delete(h.last, x.Test.Name)
	}
	return nil
}

// fine returns the sources whose units count by function: those that are in both and have changed.
func (h *hybrid) fine(last, x *Built) (sources []string, err error) {
	before := map[string]*Unit{}
	for _, f := range last.Files {
		for _, u := range f.Units {
			before[u.Source] = u
		}
	}
	for _, f := range x.Files {
		for _, u := range f.Units {
			b := before[u.Source]
			if b == nil || b.Sum == u.Sum {
				continue
			}
			whole, err := h.isWhole(b, u)
			if err != nil {
				return nil, err
			}
			if !whole {
				sources = append(sources, u.Source)
			}
		}
	}
	slices.Sort(sources)
	return slices.Compact(sources), nil
}

func (h *hybrid) isWhole(before, now *Unit) (bool, error) {
	if h.coarse == nil {
		return false, nil
	}
	pair := [2]string{before.Object, now.Object}
	whole, known := h.whole[pair]
	if known {
		return whole, nil
	}
	a, err := manifest.Unmarshal(before.Manifest)
	if err != nil {
		return false, err
	}
	b, err := manifest.Unmarshal(now.Manifest)
	if err != nil {
		return false, err
	}
	whole = h.coarse(a, b)
	h.whole[pair] = whole
	return whole, nil
}

// sameNames reports whether two units define the same.
func sameNames(a, b *manifest.Manifest) bool {
	return slices.EqualFunc(a.Components, b.Components, func(x, y *manifest.Component) bool { return x.Name == y.Name })
}

// ChangeKind is a way in which a unit can change: something of a class is added, deleted or changed.
type ChangeKind struct{ ID, Text string }

// ChangeKinds are those that Changes tells apart, as HyRTS's Table 1 does for Java.
var ChangeKinds = func() (l []ChangeKind) {
	for _, c := range classes {
		for _, how := range []string{"added", "deleted", "changed"} {
			l = append(l, ChangeKind{strings.ToUpper(how[:1]) + c.id, c.text + " " + how})
		}
	}
	return l
}()

// classes are what components of an object are, the first that is true. Objects don't tell functions
// from variables.
var classes = []struct {
	id, text string
	is       func(*manifest.Component) bool
}{
	{"T", "virtual table or type information", func(c *manifest.Component) bool { return strings.HasPrefix(c.Name, "_ZT") }},
	{"G", "initialiser", func(c *manifest.Component) bool {
		return slices.ContainsFunc([]string{"_GLOBAL__sub_I", "__cxx_global", ".init_array"}, func(p string) bool { return strings.HasPrefix(c.Name, p) })
	}},
	{"I", "inline function, template or variable of one", func(c *manifest.Component) bool { return c.Linkage == manifest.Linkage_LINKAGE_WEAK }},
	{"E", "function or variable", func(c *manifest.Component) bool { return c.Linkage == manifest.Linkage_LINKAGE_EXTERNAL }},
	{"C", "constant, or section without a name", func(c *manifest.Component) bool {
		return strings.HasPrefix(c.Name, ".") || strings.HasPrefix(c.Name, "(")
	}},
	{"S", "static function or variable", func(*manifest.Component) bool { return true }},
}

// Changes returns the IDs of the kinds of changes between two states of a unit, each once.
func Changes(before, now *manifest.Manifest) (ids []string) {
	type state struct{ class, is string }
	states := func(m *manifest.Manifest) map[string]state {
		l := map[string]state{}
		for _, c := range m.Components {
			var refers []string
			for _, x := range c.Links {
				if x%2 == 1 {
					refers = append(refers, m.Symbols[x/2])
				} else {
					refers = append(refers, m.Components[x/2].Name)
				}
			}
			for _, k := range classes {
				if k.is(c) {
					l[c.Name] = state{k.id, fmt.Sprintf("%x %q", c.LocalHash, refers)}
					break
				}
			}
		}
		return l
	}
	a, b := states(before), states(now)
	add := func(id string) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for name, x := range a {
		switch y, ok := b[name]; {
		case !ok:
			add("D" + x.class)
		case x != y:
			add("C" + y.class)
		}
	}
	for name, y := range b {
		if _, ok := a[name]; !ok {
			add("A" + y.class)
		}
	}
	slices.Sort(ids)
	return ids
}
