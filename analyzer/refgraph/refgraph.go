// Package refgraph composes: it resolves the links of all manifests of an
// invocation into one graph of references, gives every component its global
// hash, and answers for any set of roots what they reach and what identifies
// that (TASTING, section 2.3).
//
// # Resolution
//
// A link to a local component of the same manifest is an edge to it. A link to
// a symbol, or to a component that defines symbols, is an edge to every
// definition of that symbol with external or weak linkage in any manifest:
// which of them the linker takes isn't decided here. Definitions of one link
// keep the order of the manifests, which is to be the order of the link, and
// the manifest's own definition comes first because the compiler may have
// inlined it. A symbol that nothing defines is no edge; its name is in the
// local hash of whoever refers to it.
//
// # Global hashes
//
// The global hash of a component is the hash of its own description (local
// hash, kind, linkage, symbols) and of the global hashes of what its links
// resolve to, in the order of the links. Components that reach each other, a
// strongly connected group, share one global hash: that of the exact
// description of the group, its members numbered, each with its own
// description and its links, a link being a member's number or the global hash
// of a component outside. So everything outside that any member refers to is
// in the hash of all of them, and so is who refers to whom; a list of the
// members' local hashes and their children, sorted, would be the same when two
// members exchange their children. What refers to a group says to which member.
//
// A group of n > 1 is numbered by a breadth-first walk in the order of the
// links, starting at the member with the rarest description, so that the
// numbers depend on no name. Only if every description occurs more than once
// in the group do names break the tie. That may cost an unnecessary run after
// a renaming; it can't make two different groups equal.
//
// All of this is computed once, in time linear in components and links, for any
// number of root sets.
//
// # What global hashes can't tell
//
// A hash over hashes identifies what a component refers to up to sharing: two
// functions that count in one static variable and two functions that count in
// two equal ones look alike. That is the difference that moving a function
// to another file makes to the static variables that it uses. So components
// with equal global hashes in one closure, twins, add to its hash who refers to
// which of them (see sharingHash). Copies that nobody can tell
// apart aren't twins but one component: equal definitions of the same weak
// symbol, of which the linker keeps one, and local components that their
// analyzer calls interchangeable (static functions of headers that are only
// called).
//
// Likewise, if a link has several different definitions, the order of the
// manifests and what each defines and needs decide which is taken, and are
// added.
package refgraph

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// A Hash is a SHA-256.
type Hash = [32]byte

// Source is a manifest in the order of the link. Name is for explanations.
type Source struct {
	Name     string
	Manifest *manifest.Manifest
}

// Graph is the resolved graph of all components of an invocation. It is
// immutable and may be used concurrently.
type Graph struct {
	sources []Source
	comps   []*manifest.Component // all components, in the order of sources
	source  []int32               // of each component
	base    []int32               // first component of each source
	symbols [][]string            // the symbols that each component defines
	defs    map[string][]int32    // canonical definitions, in order, no repetition
	canon   []int32               // the component that stands for each one and its copies

	// The resolved links of component i are slots[start[i]:start[i+1]]: a
	// value v >= 0 is a link to component v only, v < 0 says that the next
	// -v-1 values together are one link's definitions (none, or several).
	start []int32
	slots []int32

	roots []int32 // components that are roots by themselves, in order

	group     []int32 // strongly connected group of each component
	member    []int32 // its number in the group
	groupHash []Hash
	// What a closure that contains the group needs: see Closure.Hash.
	groupTwins     []bool
	groupAmbiguous []bool
	placement      func() Hash // computed if it is needed
}

// New resolves and hashes the components of sources, whose order is that of
// the link.
func New(sources []Source) *Graph {
	g := &Graph{sources: sources, defs: map[string][]int32{}}
	for i, s := range sources {
		g.base = append(g.base, int32(len(g.comps)))
		for _, c := range s.Manifest.Components {
			id := int32(len(g.comps))
			g.comps = append(g.comps, c)
			g.source = append(g.source, int32(i))
			syms := definedSymbols(c)
			g.symbols = append(g.symbols, syms)
			for _, sym := range syms {
				g.defs[sym] = append(g.defs[sym], id)
			}
		}
	}
	g.mergeCopies()
	for sym, defs := range g.defs {
		g.defs[sym] = g.distinct(nil, defs)
	}
	g.resolve()
	g.hashGroups()
	g.flagGroups()
	g.collectRoots()
	g.placement = sync.OnceValue(g.hashPlacement)
	return g
}

// definedSymbols returns the symbols by which other manifests can refer to c,
// sorted.
func definedSymbols(c *manifest.Component) []string {
	if c.Linkage == manifest.Linkage_LINKAGE_LOCAL {
		return nil
	}
	syms := slices.Clone(c.Aliases)
	if symbolKind(c.Kind) {
		syms = append(syms, c.Name)
	}
	slices.Sort(syms)
	return slices.Compact(syms)
}

// symbolKind says whether the name of a component of that kind is a symbol.
func symbolKind(k manifest.Kind) bool {
	switch k {
	case manifest.Kind_KIND_FUNCTION, manifest.Kind_KIND_VARIABLE, manifest.Kind_KIND_VTABLE:
		return true
	}
	return false
}

// Len returns the number of components of all sources.
func (g *Graph) Len() int { return len(g.comps) }

// distinct appends to out what stands for each of the components in, without
// repetition.
func (g *Graph) distinct(out, in []int32) []int32 {
	if len(in) == 1 {
		return append(out, g.canon[in[0]])
	}
	seen := make(map[int32]bool, len(in))
	for _, d := range out {
		seen[d] = true
	}
	for _, d := range in {
		if d = g.canon[d]; !seen[d] {
			seen[d] = true
			out = append(out, d)
		}
	}
	return out
}

// link appends to out the components that link l of component id resolves to.
func (g *Graph) link(out []int32, id int32, l uint32) []int32 {
	if isOwn(l) {
		out = append(out, g.canon[g.ownTarget(id, l)])
	}
	for _, sym := range g.linkSymbols(id, l) {
		// The only definition of an own component is itself.
		if defs := g.defs[sym]; len(defs) > 1 || !isOwn(l) && len(defs) == 1 {
			out = g.distinct(out, defs)
		}
	}
	return out
}

func (g *Graph) resolve() {
	g.start = make([]int32, len(g.comps)+1)
	var buf []int32
	for i, c := range g.comps {
		g.start[i] = int32(len(g.slots))
		if g.canon[i] != int32(i) {
			continue
		}
		for _, l := range c.Links {
			buf = g.link(buf[:0], int32(i), l)
			if len(buf) != 1 {
				g.slots = append(g.slots, -int32(len(buf))-1)
			}
			g.slots = append(g.slots, buf...)
		}
	}
	g.start[len(g.comps)] = int32(len(g.slots))
}

func (g *Graph) links(id int32) []int32 { return g.slots[g.start[id]:g.start[id+1]] }

// describe appends what identifies component id without its links.
func (g *Graph) describe(b *frame.Buffer, id int32) {
	c := g.comps[id]
	b.Int(int(c.Kind))
	b.Int(int(c.Linkage))
	b.Bytes(c.LocalHash)
	b.Strings(g.symbols[id])
}

// describeLinks appends the links of id, each as a list of what ref writes.
func (g *Graph) describeLinks(b *frame.Buffer, id int32, ref func(*frame.Buffer, int32)) {
	b.Int(len(g.comps[id].Links))
	rest := 0
	for _, v := range g.links(id) {
		if v < 0 {
			rest = int(-v - 1)
			b.Int(rest)
			continue
		}
		if rest > 0 {
			rest--
		} else {
			b.Int(1)
		}
		ref(b, v)
	}
}

// writeRef appends the global identity of component id: the hash of its group
// and which member it is.
func (g *Graph) writeRef(b *frame.Buffer, id int32) {
	h := g.groupHash[g.group[id]]
	b.Bytes(h[:])
	b.Int(int(g.member[id]))
}

// hashPlacement describes what decides which of several definitions is linked:
// the order of the manifests and what each defines and needs.
func (g *Graph) hashPlacement() Hash {
	b := placementFrame(len(g.sources))
	for _, s := range g.sources {
		h := placementOf(s.Manifest)
		b.Bytes(h[:])
	}
	return b.Sum()
}

// placementFrame starts the message that lists the placements of n manifests.
func placementFrame(n int) frame.Buffer {
	b := frame.New("tasting placement 2")
	b.Int(n)
	return b
}

// placementOf describes what a manifest defines and needs. Components of kind
// file, such as the index of an archive, say more about it.
func placementOf(m *manifest.Manifest) Hash {
	type def struct {
		symbol  string
		linkage manifest.Linkage
	}
	var defs []def
	var files [][]byte
	for _, c := range m.Components {
		for _, sym := range definedSymbols(c) {
			defs = append(defs, def{sym, c.Linkage})
		}
		if c.Kind == manifest.Kind_KIND_FILE {
			files = append(files, c.LocalHash)
		}
	}
	slices.SortFunc(defs, func(x, y def) int {
		return cmp.Or(strings.Compare(x.symbol, y.symbol), cmp.Compare(x.linkage, y.linkage))
	})
	b := frame.New("tasting placement of a manifest 1")
	b.Int(len(defs))
	for _, d := range defs {
		b.String(d.symbol)
		b.Int(int(d.linkage))
	}
	b.Int(len(files))
	for _, f := range files {
		b.Bytes(f)
	}
	b.Strings(m.Symbols)
	return b.Sum()
}
