// Package refgraph identifies the code of a program: it builds the graph of references between linked components, walks over
// those that the test's roots reach, and hashes the walk together with the shape of the link.
//
// # Input and output
//
// The input is a Pool of units (the components and links of manifests), a linkmodel.Program that says how they are linked,
// and Roots, where execution starts. The output is a Closure: its Hash identifies the code. Equal hashes mean that
// the roots reach the same graph and that linkers, loaders and the program itself see the same things besides it.
//
// # Resolution
//
// A component of a linked unit is a node. If the unit is linked into two files, there are two nodes. A link to a
// component of the same manifest is an edge to its node. A link to a symbol is an edge to the definition that the linker
// or the loader binds it to (package linkmodel), which depends on the file of the reference. A link to an ambiguous symbol
// has edges to all candidates, in their order. A symbol that nothing defines has no edge: its name is in the local
// hash of the component that refers to it.
//
// # The canonical walk
//
// The roots reach a rooted graph of components. Each one has a description (kind, linkage, local hash, symbols) and
// an ordered list of links. The walk starts at the ordered roots and visits the component that was met last first. It
// numbers components as they are met, and writes down each component's description and the numbers of its links'
// targets:
//
//	a.c: static int n; static void f(void) { n++; g(); } int main(void) { f(); }
//	b.c: void g(void) { }
//
//	roots: main is 1
//	1: description of main, links 2
//	2: description of f, links 3 4
//	4: description of g, no links
//	3: description of n, no links
//
// A reader of that text can rebuild the graph. So equal texts mean equal graphs, with cycles, equal copies and shared
// nodes. The numbers don't depend on names, units or their order. (TASTING, section 2.3, hashes each component for
// itself, and needs special cases for all of these.)
//
// # The shape of the link
//
// Linkers and loaders see more of a program than its roots reach. For an ordinary link, the hash has the link's shape in
// addition. For an unusual one it has the content of all that is linked. See shape.go.
//
// # Traces
//
// A traced test (package trace) has functions that its execution didn't enter. With Roots.Idle, these are stubs: their
// names and linkage are hashed, their content and links aren't. Two programs with equal hashes then agree in all that was
// executed, in the data that it refers to, and in the names of functions that it could have entered and didn't.
// docs/explanation/traces.md has the argument.
//
// # Many programs
//
// A Pool holds the components of all units. A Composer walks one program after the other.
package refgraph

import (
	"slices"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkmodel"
)

// A Hash is a SHA-256.
type Hash = [32]byte

// A Pool holds units, without the fields that only explanations need. It may be used concurrently once all units are
// added.
type Pool struct {
	Symbols *linkmodel.Table
	units   []*unit

	descriptions []string // of components, by number
	digests      []digest // of descriptions
	described    map[string]int32
	entries      map[string][]int32                    // the functions (see comp.entry) whose first name this is
	entryNames   [][]string                            // of each function
	entryDefs    [][]linkmodel.Symbol                  // of each function: the names that are symbols
	sets         map[linkmodel.Symbol]linkmodel.Symbol // __start_NAME and __stop_NAME of linker sets to __start_NAME
	components   int
	links        int
	resolvers    bool // some component is a resolver
}

type unit struct {
	heads      []head // of comps
	comps      []comp
	links      []int32 // of all components: the index of a component of the unit, or -1 minus an index in symbols
	symbols    []linkmodel.Symbol
	placement  Hash
	attributes string
	sections   []byte
	content    []byte
	literals   []byte
	notes      []int32            // indices of components that describe the unit and to which nothing refers
	roots      []int32            // indices of components that are roots by themselves
	further    map[int32][]uint32 // the other places of a component that has several
	identity   func() Hash
}

type comp struct {
	description int32
	group       linkmodel.Symbol // signature of its COMDAT group, or None
	set         linkmodel.Symbol // __start_NAME of its linker set, or None
	flags       uint16
	name        string
	entry       int32 // number of the function that is the whole component, or -1
	align       uint32
	place       uint32 // the first of manifest.Component.Places, or 0
}

const (
	flagRoot     = 1 << iota // it is a root by itself
	flagTLS                  // a note: the size of the unit's thread-local storage
	flagFixed                // a note: the unit is for executables, or needs a fixed address
	flagLarge                // a note: the size of the unit
	flagUnusual              // a note: a reason why linkers may refuse the unit
	flagResolver             // it resolves an indirect function (STT_GNU_IFUNC)

	noteFlags = flagTLS | flagFixed | flagLarge | flagUnusual
)

// LinkerSet, followed by a name, is the root of a component in a section whose name is an identifier of C. For each file
// the linker defines __start_NAME and __stop_NAME, the bounds of all these sections.
const LinkerSet = "linker set "

// NewPool returns an empty pool.
func NewPool() *Pool {
	return &Pool{Symbols: linkmodel.NewTable(), described: map[string]int32{}, entries: map[string][]int32{}, sets: map[linkmodel.Symbol]linkmodel.Symbol{}}
}

// Len returns the number of components and of links of all units.
func (p *Pool) Len() (components, links int) { return p.components, p.links }

// Add adds the units of m, which is valid, and returns their numbers in Symbols, in the order of m's units.
func (p *Pool) Add(m *manifest.Manifest) []int32 {
	lists := make([][]int32, len(m.Units))
	index := make([]int32, len(m.Components)) // of a component in its unit
	for i, c := range m.Components {
		index[i] = int32(len(lists[c.Unit]))
		lists[c.Unit] = append(lists[c.Unit], int32(i))
	}
	symbols := make([]linkmodel.Symbol, len(m.Symbols))
	for i, s := range m.Symbols {
		symbols[i] = p.Symbols.Symbol(s)
	}
	var numbers []int32
	for k, list := range lists {
		u := p.newUnit(m, k, list, index, symbols)
		number := p.Symbols.Add(m, k, list)
		u.identity = sync.OnceValue(func() Hash { return p.identify(u, p.Symbols.Unit(number)) })
		p.units = append(p.units, u)
		numbers = append(numbers, number)
	}
	return numbers
}

// newUnit returns unit k of m. List has the indices of its components in m, index those of all components in their
// units, and symbols the numbers of m.Symbols.
func (p *Pool) newUnit(m *manifest.Manifest, k int, list, index []int32, symbols []linkmodel.Symbol) *unit {
	of := m.Units[k]
	u := &unit{
		heads: make([]head, len(list)), comps: make([]comp, len(list)), placement: placementOf(m, k, list),
		attributes: string(of.Attributes), sections: of.Sections, content: of.Content, literals: of.Literals,
	}
	numbers := make(map[linkmodel.Symbol]int32, len(symbols)) // indices in u.symbols
	link := func(s linkmodel.Symbol) {
		n, ok := numbers[s]
		if !ok {
			n = int32(len(u.symbols))
			numbers[s] = n
			u.symbols = append(u.symbols, s)
		}
		u.links = append(u.links, -1-n)
	}
	for i, id := range list {
		c := m.Components[id]
		start := int32(len(u.links))
		for _, l := range c.Links {
			switch {
			case l%2 == 1:
				link(symbols[l/2])
			case int(m.Components[l/2].Unit) == k:
				u.links = append(u.links, index[l/2])
			default:
				// A link into another unit, which no tool writes: links to all symbols of its target are a safe reading.
				for _, d := range m.Components[l/2].Definitions {
					link(p.Symbols.Symbol(d.Name))
				}
			}
		}
		x := p.newComp(c)
		u.comps[i] = x
		if len(c.Places) > 1 {
			if u.further == nil {
				u.further = map[int32][]uint32{}
			}
			u.further[int32(i)] = c.Places[1:]
		}
		u.heads[i] = head{p.digests[x.description], start, int32(len(u.links)), x.place%manifest.PlaceKinds != 0}
		if x.flags&flagRoot != 0 {
			u.roots = append(u.roots, int32(i))
		}
		if x.flags&noteFlags != 0 {
			u.notes = append(u.notes, int32(i))
		}
	}
	p.components += len(u.comps)
	p.links += len(u.links)
	return u
}

// newComp returns a component without its links.
func (p *Pool) newComp(c *manifest.Component) comp {
	x := comp{description: p.describe(c), group: linkmodel.None, set: linkmodel.None, name: c.Name, entry: p.entry(c), align: c.Alignment}
	if len(c.Places) > 0 {
		x.place = c.Places[0]
	}
	if c.Group != "" {
		x.group = p.Symbols.Symbol(c.Group)
	}
	if set, ok := strings.CutPrefix(c.Root, LinkerSet); ok {
		x.set = p.Symbols.Symbol("__start_" + set)
		p.sets[x.set] = x.set
		p.sets[p.Symbols.Symbol("__stop_"+set)] = x.set
	}
	switch {
	case c.Root == manifest.Resolver:
		x.flags, p.resolvers = flagRoot|flagResolver, true
	case c.Root != "":
		x.flags = flagRoot
	case c.Linkage != manifest.Linkage_LINKAGE_LOCAL:
	case strings.HasPrefix(c.Name, manifest.ThreadStorage):
		x.flags = flagTLS
	case strings.HasPrefix(c.Name, manifest.FixedPlace), strings.HasPrefix(c.Name, manifest.Executable):
		x.flags = flagFixed
	case strings.HasPrefix(c.Name, manifest.Large):
		x.flags = flagLarge
	case strings.HasPrefix(c.Name, manifest.Unusual):
		x.flags = flagUnusual
	}
	return x
}

// A digest identifies a description.
type digest [16]byte

// A head is the part of a component that the walk reads.
type head struct {
	digest     digest
	start, end int32 // of its links
	placed     bool  // its order in memory may be part of the hash
}

func digestOf(description frame.Buffer) (d digest) {
	sum := description.Sum()
	copy(d[:], sum[:])
	return d
}

// withoutContent returns a description without its local hash.
func withoutContent(description string) string {
	n := 3 + int(description[2]) // kind, linkage and a length are a byte each
	return description[:2] + description[n:]
}

// describe returns the number of a component's description, which identifies it without its links.
func (p *Pool) describe(c *manifest.Component) int32 {
	var b frame.Buffer
	b.Int(int(c.Kind))
	b.Int(int(c.Linkage))
	b.Bytes(c.LocalHash)
	b.Strings(c.DefinedNames())
	id, ok := p.described[string(b)]
	if !ok {
		id = int32(len(p.descriptions))
		p.descriptions = append(p.descriptions, string(b))
		p.digests = append(p.digests, digestOf(b))
		p.described[p.descriptions[id]] = id
	}
	return id
}

// entry returns the number of the function that is the whole component, or -1.
func (p *Pool) entry(c *manifest.Component) int32 {
	if len(c.Entries) == 0 {
		return -1
	}
	var defs []linkmodel.Symbol
	for _, d := range c.Definitions {
		defs = append(defs, p.Symbols.Symbol(d.Name))
	}
	for _, n := range p.entries[c.Entries[0]] {
		if slices.Equal(p.entryNames[n], c.Entries) && slices.Equal(p.entryDefs[n], defs) {
			return n
		}
	}
	n := int32(len(p.entryNames))
	p.entries[c.Entries[0]] = append(p.entries[c.Entries[0]], n)
	p.entryNames, p.entryDefs = append(p.entryNames, c.Entries), append(p.entryDefs, defs)
	return n
}

func (u *unit) linksOf(i int32) []int32 { return u.links[u.heads[i].start:u.heads[i].end] }

// placementOf hashes the linker's view of unit k of m: its definitions, references, COMDAT groups and roots.
func placementOf(m *manifest.Manifest, k int, list []int32) Hash {
	b := frame.New("tasting placement of a unit 2")
	b.Int(len(list))
	for _, id := range list {
		c := m.Components[id]
		b.String(c.Group)
		b.Int(len(c.Definitions))
		for _, d := range c.Definitions {
			b.String(d.Name)
			b.Int(int(d.Binding))
			b.Int(int(d.Visibility))
			b.Uint(d.Size)
			b.Flag(d.ThreadLocal)
		}
		if c.Root != "" {
			b.Bytes(c.LocalHash)
		}
	}
	refs := m.Units[k].References
	b.Int(len(refs))
	for _, r := range refs {
		b.String(r.Name)
		b.Int(int(r.Visibility))
		b.Flag(r.Weak)
		b.Uint(uint64(r.Uses &^ manifest.UseInside))
	}
	b.Strings(slices.Sorted(slices.Values(m.Symbols)))
	return b.Sum()
}

// identify hashes the whole manifest of a unit.
func (p *Pool) identify(u *unit, of *linkmodel.Unit) Hash {
	b := frame.New("tasting unit 1")
	b.Bytes(u.placement[:])
	b.String(u.attributes)
	b.Bytes(u.sections)
	b.Int(len(u.comps))
	for i := range u.comps {
		x := &u.comps[i]
		b.String(p.descriptions[x.description])
		b.String(x.name)
		b.Uint(uint64(x.align))
		b.Int(int(x.flags))
		links := u.linksOf(int32(i))
		b.Int(len(links))
		for _, l := range links {
			if l >= 0 {
				b.Int(int(l) + 1)
			} else {
				b.Int(0)
				b.String(p.Symbols.Name(u.symbols[-1-l]))
			}
		}
	}
	b.Strings(of.Needs)
	return b.Sum()
}
