package refgraph

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// Roots says where the execution of a test starts, beside the components that
// their manifests call roots.
type Roots struct {
	// Symbols are roots if anything defines them.
	Symbols []string
	// Overrides are symbols that libraries without a manifest refer to: what
	// defines one is a root, unless it already is by itself.
	Overrides []string
	// Exported makes every definition with external or weak linkage a root: a
	// program that looks up symbols at run time can reach all of them.
	Exported bool
	// Placement adds the order of the manifests and what each defines and
	// needs, as for a link with several definitions.
	Placement bool
}

// Closure is what a set of roots reaches.
type Closure struct {
	g        *Graph
	named    []named
	roots    []int32 // components that are roots by themselves, in order of the link
	exported []int32 // sorted by global hash
	// placement says that the order of the manifests counts in any case.
	placement bool
}

type named struct {
	symbol, why string
	defs        []int32
	override    bool
}

// Closure returns what roots and the components that are roots by themselves
// reach.
func (g *Graph) Closure(roots Roots) *Closure {
	c := &Closure{g: g, roots: g.roots, placement: roots.Placement}
	for _, sym := range roots.Symbols {
		c.name(named{sym, sym, g.defs[sym], false})
	}
	for _, sym := range roots.Overrides {
		var defs []int32
		for _, d := range g.defs[sym] {
			if g.comps[d].Root == "" {
				defs = append(defs, d)
			}
		}
		c.name(named{sym, "replaces " + sym + " of a system library", defs, true})
	}
	if roots.Exported {
		// Which one a look-up finds depends on the order.
		for sym, defs := range g.defs {
			if len(defs) > 1 {
				c.name(named{sym, "exported", defs, false})
			}
		}
	}
	slices.SortFunc(c.named, func(x, y named) int { return strings.Compare(x.symbol, y.symbol) })
	if roots.Exported {
		for i, comp := range g.comps {
			if comp.Linkage != manifest.Linkage_LINKAGE_LOCAL && g.canon[i] == int32(i) {
				c.exported = append(c.exported, int32(i))
			}
		}
	}
	g.sortByHash(c.exported)
	return c
}

// RootIn says whether something in the given sources runs or is found without a
// reference that leads to it: a component that is a root by itself, or one that
// replaces a symbol of a library.
func (c *Closure) RootIn(sources map[int]bool) bool {
	in := func(id int32) bool { return sources[int(c.g.source[id])] }
	return slices.ContainsFunc(c.roots, in) ||
		slices.ContainsFunc(c.named, func(x named) bool { return x.override && slices.ContainsFunc(x.defs, in) })
}

// name makes the definitions of a symbol roots.
func (c *Closure) name(n named) {
	if len(n.defs) > 0 && !c.Defines(n.symbol) {
		c.named = append(c.named, n)
	}
}

// collectRoots lists the components that are roots by themselves. Constructors
// run in the order of the link, so that the order of manifests counts. Within a
// manifest, what depends on order is one component.
func (g *Graph) collectRoots() {
	last := 0
	for i, comp := range g.comps {
		if comp.Root == "" {
			continue
		}
		if len(g.roots) > last && g.source[g.roots[last]] != g.source[i] {
			g.sortByHash(g.roots[last:])
			last = len(g.roots)
		}
		g.roots = append(g.roots, int32(i))
	}
	g.sortByHash(g.roots[last:])
}

// sortByHash sorts by global identity; names break ties.
func (g *Graph) sortByHash(ids []int32) {
	slices.SortFunc(ids, func(x, y int32) int {
		hx, hy := g.groupHash[g.group[x]], g.groupHash[g.group[y]]
		return cmp.Or(
			bytes.Compare(hx[:], hy[:]),
			cmp.Compare(g.member[x], g.member[y]),
			strings.Compare(g.comps[x].Name, g.comps[y].Name),
			cmp.Compare(x, y))
	})
}

// Defines says whether symbol is among the roots, that is: defined.
func (c *Closure) Defines(symbol string) bool {
	return slices.ContainsFunc(c.named, func(n named) bool { return n.symbol == symbol })
}

// starts appends all roots in their order.
func (c *Closure) starts() []int32 {
	var ids []int32
	for _, n := range c.named {
		ids = append(ids, n.defs...)
	}
	ids = append(ids, c.roots...)
	return append(ids, c.exported...)
}

// Hash identifies the code of a test: the global hashes of its roots, and what
// they can't tell where that matters. Equal hashes mean equal closures, up to
// the names of local components and to the files that definitions are in.
//
//	"tasting code 1"
//	list of named roots: symbol, list of its definitions' global hashes
//	list of the global hashes of components that are roots by themselves
//	list of the global hashes of exported definitions, sorted
//	list of additions, each with its name:
//	    "placement": if a link in the closure has several definitions, or if
//	        asked for
//	    "sharing": if twins are in the closure
//
// It needs no walk over the closure unless there are twins in the graph and
// the roots reach one of them.
func (c *Closure) Hash() Hash {
	g := c.g
	b := frame.New("tasting code 1")
	refs := func(ids []int32) {
		b.Int(len(ids))
		for _, id := range ids {
			g.writeRef(&b, id)
		}
	}
	twins := false
	b.Int(len(c.named))
	for _, n := range c.named {
		b.String(n.symbol)
		refs(n.defs)
	}
	refs(c.roots)
	refs(c.exported)
	for _, id := range c.starts() {
		twins = twins || g.groupTwins[g.group[id]]
	}
	var additions []string
	var hashes []Hash
	if c.Ambiguous() {
		additions, hashes = append(additions, "placement"), append(hashes, g.placement())
	}
	if twins {
		if h, ok := c.sharing(); ok {
			additions, hashes = append(additions, "sharing"), append(hashes, h)
		}
	}
	b.Int(len(additions))
	for i, name := range additions {
		b.String(name)
		b.Bytes(hashes[i][:])
	}
	return b.Sum()
}

// Ambiguous says whether a link in the closure has several different
// definitions, so that the order of the manifests counts.
func (c *Closure) Ambiguous() bool {
	if c.placement {
		return true
	}
	for _, n := range c.named {
		if len(n.defs) > 1 {
			return true
		}
	}
	return slices.ContainsFunc(c.starts(), func(id int32) bool { return c.g.groupAmbiguous[c.g.group[id]] })
}

// walk visits the closure breadth-first in the order of roots and links, and
// returns the components in that order and each one's place in it plus one.
func (c *Closure) walk() (order, place []int32) {
	g := c.g
	place = make([]int32, len(g.comps))
	visit := func(ids []int32) {
		for _, id := range ids {
			if id >= 0 && place[id] == 0 {
				order = append(order, id)
				place[id] = int32(len(order))
			}
		}
	}
	visit(c.starts())
	for i := 0; i < len(order); i++ {
		visit(g.links(order[i]))
	}
	return order, place
}

// sharing says who shares what, if the closure contains twins.
func (c *Closure) sharing() (Hash, bool) {
	g := c.g
	order, _ := c.walk()
	first := make(map[Hash]int32, len(order))
	isTwin := map[int32]int32{} // to the index in twins
	for _, id := range order {
		grp := g.group[id]
		if other, ok := first[g.groupHash[grp]]; !ok {
			first[g.groupHash[grp]] = grp
		} else if other != grp {
			isTwin[grp], isTwin[other] = 0, 0
		}
	}
	if len(isTwin) == 0 {
		return Hash{}, false
	}
	// What refers to a group has a greater number.
	groups := slices.Sorted(maps.Keys(isTwin))
	slices.Reverse(groups)
	twins := make([]twin, len(groups))
	for i, grp := range groups {
		isTwin[grp] = int32(i)
		twins[i].hash = g.groupHash[grp]
	}
	for i, id := range c.starts() {
		if t, ok := isTwin[g.group[id]]; ok {
			twins[t].edges = append(twins[t].edges, edge{to: g.member[id], from: fromStart, slot: int32(i)})
		}
	}
	for _, id := range order {
		for slot, to := range g.links(id) {
			if to < 0 || !g.groupTwins[g.group[to]] || g.group[to] == g.group[id] {
				continue
			}
			t, ok := isTwin[g.group[to]]
			if !ok {
				continue
			}
			e := edge{to: g.member[to], from: fromPlain, hash: g.groupHash[g.group[id]], member: g.member[id], slot: int32(slot)}
			if from, ok := isTwin[g.group[id]]; ok {
				e.from = from
			}
			twins[t].edges = append(twins[t].edges, e)
		}
	}
	return sharingHash(twins), true
}

// Member is a component in a closure.
type Member struct {
	Component *manifest.Component
	Source    string   // name of its manifest
	Symbols   []string // what it defines for other manifests
	Global    Hash
	Links     []int    // indices of members, without repetition
	Roots     []string // why it is a root; empty if it isn't one
	Copies    []Copy   // local components that it stands for beside itself
}

// Copy is a local component that nobody can tell from a member of a closure.
type Copy struct{ Source, Name string }

// Members lists the components of the closure, roots first and each component
// before what only it refers to.
func (c *Closure) Members() []Member {
	g := c.g
	order, place := c.walk()
	members := make([]Member, len(order))
	for i, id := range order {
		m := Member{Component: g.comps[id], Source: g.sources[g.source[id]].Name, Symbols: g.symbols[id], Global: g.groupHash[g.group[id]]}
		seen := map[int32]bool{}
		for _, to := range g.links(id) {
			if to >= 0 && !seen[to] {
				seen[to] = true
				m.Links = append(m.Links, int(place[to]-1))
			}
		}
		members[i] = m
	}
	for i, to := range g.canon {
		if to != int32(i) && place[to] > 0 && g.comps[i].Linkage == manifest.Linkage_LINKAGE_LOCAL {
			m := &members[place[to]-1]
			m.Copies = append(m.Copies, Copy{g.sources[g.source[i]].Name, g.comps[i].Name})
		}
	}
	why := func(id int32, reason string) {
		m := &members[place[id]-1]
		m.Roots = append(m.Roots, reason)
	}
	for _, n := range c.named {
		for _, id := range n.defs {
			why(id, n.why)
		}
	}
	for _, id := range c.roots {
		why(id, g.comps[id].Root)
	}
	for _, id := range c.exported {
		why(id, "exported")
	}
	return members
}
