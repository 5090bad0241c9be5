// Package refgraph composes: it resolves the links of all that a program is
// linked from into a graph of references, and answers what a set of roots reaches and
// what identifies that.
//
// # Resolution
//
// A component of a unit that is linked is a node; of a unit that is linked into
// two files there are two. A link to a component of the same manifest is an edge
// to its node. A link to a symbol is an edge to the definition that the linker
// or the loader binds it to (package linkmodel), which depends on the file that
// refers to it. Where that can't be told, it is a link to all definitions that
// come into question, in their order. A symbol that nothing defines is no edge;
// its name is in the local hash of whoever refers to it.
//
// # The key of a program's code
//
// What a program reaches is a rooted graph: its components, each with a description (kind,
// linkage, local hash, symbols) and an ordered list of links. Its key is the hash of a canonical
// form of that graph: a walk from the ordered roots, the component met last first, gives each component a number
// when it is first met. Hashed is, in the order of the walk, each component's description and the
// numbers of what its links lead to. A reader of that text can rebuild the graph from it. So equal walks mean
// equal graphs, with cycles, equal copies and shared ones, and the numbers depend on no name.
// (TASTING, section 2.3, hashes each component for itself and needs cases for all of these.)
//
// # What no component says
//
// Linkers and loaders see more of a program than what it reaches. Of an ordinary link that is its
// shape. Of an unusual one all that is linked counts, by content. See shape.go.
//
// # Traces
//
// A test that was traced (package trace) has functions that it didn't enter. With Roots.Idle these are
// stubs: they have their names and linkage, no content and no links. Two programs with one
// hash then agree in all that was executed, in the data that it refers to, and in the names of what it could
// have gone on to and didn't. docs/traces.md has the argument.
//
// # Many programs
//
// A Pool holds the components of all units, a Composer walks one program after the other.
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

// A Pool holds units, without what only explanations need. It may be used
// concurrently once all units are added.
type Pool struct {
	Symbols *linkmodel.Table
	units   []*unit

	descriptions []string // of components, by number
	digests      []digest // of these
	described    map[string]int32
	entries      map[string][]int32 // of functions that a component is all of, by the first of their names
	entryNames   [][]string
	entryDefs    [][]linkmodel.Symbol                  // those of them that others can refer to
	sets         map[linkmodel.Symbol]linkmodel.Symbol // bounds of linker sets, to their beginnings
	components   int
	links        int
	resolvers    bool // some component is a resolver
}

type unit struct {
	heads      []head // of comps
	comps      []comp
	links      []int32 // of all components: one of the unit, or -1 minus an index in symbols
	symbols    []linkmodel.Symbol
	placement  Hash
	attributes string
	sections   []byte
	content    []byte
	literals   []byte
	notes      []int32 // components that say something of the unit, and which nothing refers to
	roots      []int32 // components that are roots by themselves
	identity   func() Hash
}

type comp struct {
	description int32
	end         int32 // of its links
	group       linkmodel.Symbol
	set         linkmodel.Symbol // that which begins its linker set, or None
	flags       uint16
	name        string
	entry       int32 // among Pool.entries, or -1
	align       uint32
	place       uint32 // see manifest.Component
}

const (
	flagRoot     = 1 << iota // a root by itself
	flagTLS                  // says how much thread-local storage its unit has
	flagFixed                // says that its unit is for executables, or needs a fixed place
	flagLarge                // says how large its unit is
	flagUnusual              // says what linkers may choke on
	flagResolver             // a loader calls it to find out what a symbol is
)

// LinkerSet, followed by its name, is the root of a component in a section with a
// name of C: the linker defines symbols for the bounds of all of these in a file.
const LinkerSet = "linker set "

// NewPool returns an empty pool.
func NewPool() *Pool {
	return &Pool{Symbols: linkmodel.NewTable(), described: map[string]int32{}, entries: map[string][]int32{}, sets: map[linkmodel.Symbol]linkmodel.Symbol{}}
}

// Len returns the number of components and of links of all units.
func (p *Pool) Len() (components, links int) { return p.components, p.links }

// Add adds the units of m, which is valid, and returns their numbers: those of
// Symbols, in the order of m's units.
func (p *Pool) Add(m *manifest.Manifest) []int32 {
	lists := make([][]int32, len(m.Units))
	place := make([]int32, len(m.Components)) // in its unit
	for i, c := range m.Components {
		place[i] = int32(len(lists[c.Unit]))
		lists[c.Unit] = append(lists[c.Unit], int32(i))
	}
	symbols := make([]linkmodel.Symbol, len(m.Symbols))
	for i, s := range m.Symbols {
		symbols[i] = p.Symbols.Symbol(s)
	}
	var numbers []int32
	for k, list := range lists {
		u := &unit{comps: make([]comp, len(list))}
		index := make(map[linkmodel.Symbol]int32, len(symbols)) // in u.symbols
		link := func(s linkmodel.Symbol) {
			n, ok := index[s]
			if !ok {
				n = int32(len(u.symbols))
				index[s] = n
				u.symbols = append(u.symbols, s)
			}
			u.links = append(u.links, -1-n)
		}
		for i, id := range list {
			c := m.Components[id]
			for _, l := range c.Links {
				switch {
				case l%2 == 1:
					link(symbols[l/2])
				case int(m.Components[l/2].Unit) == k:
					u.links = append(u.links, place[l/2])
				default:
					// No manifest has this. All of its symbols are a safe reading.
					for _, d := range m.Components[l/2].Definitions {
						link(p.Symbols.Symbol(d.Name))
					}
				}
			}
			x := &u.comps[i]
			*x = comp{description: p.describe(c), end: int32(len(u.links)), group: linkmodel.None, set: linkmodel.None, name: c.Name, entry: p.entry(c), align: c.Alignment, place: c.Place}
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
				x.flags |= flagRoot | flagResolver
			case c.Root != "":
				x.flags |= flagRoot
			case c.Linkage != manifest.Linkage_LINKAGE_LOCAL:
			case strings.HasPrefix(c.Name, manifest.ThreadStorage):
				x.flags |= flagTLS
			case strings.HasPrefix(c.Name, manifest.FixedPlace), strings.HasPrefix(c.Name, manifest.Executable):
				x.flags |= flagFixed
			case strings.HasPrefix(c.Name, manifest.Large):
				x.flags |= flagLarge
			case strings.HasPrefix(c.Name, manifest.Unusual):
				x.flags |= flagUnusual
			}
			if x.flags&flagRoot != 0 {
				u.roots = append(u.roots, int32(i))
			}
			p.resolvers = p.resolvers || x.flags&flagResolver != 0
			if x.flags&(flagTLS|flagFixed|flagLarge|flagUnusual) != 0 {
				u.notes = append(u.notes, int32(i))
			}
		}
		u.heads = make([]head, len(list))
		for i := range u.comps {
			h := &u.heads[i]
			if i > 0 {
				h.start = u.comps[i-1].end
			}
			h.end = u.comps[i].end
			h.placed = u.comps[i].place%manifest.PlaceKinds != 0
			h.digest = p.digests[u.comps[i].description]
		}
		u.placement = placementOf(m, k, list)
		u.attributes, u.sections, u.content, u.literals = string(m.Units[k].Attributes), m.Units[k].Sections, m.Units[k].Content, m.Units[k].Literals
		p.components += len(u.comps)
		p.links += len(u.links)
		p.units = append(p.units, u)
		number := p.Symbols.Add(m, k, list)
		u.identity = sync.OnceValue(func() Hash { return p.identify(u, p.Symbols.Unit(number)) })
		numbers = append(numbers, number)
	}
	return numbers
}

// A digest identifies a description.
type digest [16]byte

// A head is what a walk needs of a component.
type head struct {
	digest     digest
	start, end int32 // of its links
	placed     bool  // its place may count
}

func digestOf(description frame.Buffer) (d digest) {
	sum := description.Sum()
	copy(d[:], sum[:])
	return d
}

// withoutContent returns what a description has beside the local hash.
func withoutContent(description string) string {
	n := 3 + int(description[2]) // kind, linkage and a length are a byte each
	return description[:2] + description[n:]
}

// describe returns the number of what identifies a component without its links.
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

// entry returns the number of a component's entry, -1 if it has none.
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

func (u *unit) linksOf(i int32) []int32 {
	start := int32(0)
	if i > 0 {
		start = u.comps[i-1].end
	}
	return u.links[start:u.comps[i].end]
}

// placementOf describes what unit k of m defines and needs, and what runs in it.
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
		b.Uint(uint64(r.Uses))
	}
	b.Strings(slices.Sorted(slices.Values(m.Symbols)))
	return b.Sum()
}

// identify returns the hash of all that the manifest of a unit says of it.
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
