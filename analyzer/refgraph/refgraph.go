// Package refgraph composes: it resolves the links of all that a program is
// linked from into a graph of references, gives every component its global hash,
// and answers what a set of roots reaches and what identifies that (TASTING,
// section 2.3).
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
// # Global hashes
//
// The global hash of a node is the hash of its description (kind, linkage, local
// hash, symbols) and of the global hashes of what its links resolve to, in the
// order of the links. Nodes that reach each other, a strongly connected group,
// share one global hash: that of the exact description of the group, its members
// numbered, each with its own description and its links, a link being a member's
// number or the global hash of a node outside. So everything outside that any
// member refers to is in the hash of all of them, and so is who refers to whom; a
// list of the members' local hashes and their children, sorted, would be the same
// when two members exchange their children. What refers to a group says to which
// member.
//
// A group of n > 1 is numbered by a breadth-first walk in the order of the
// links, starting at the member with the rarest description, so that the numbers
// depend on no name. Only if every description occurs more than once in the
// group do names break the tie. That may cost an unnecessary run after a
// renaming; it can't make two different groups equal.
//
// # What global hashes can't tell
//
// A hash over hashes identifies what a node refers to up to sharing: two
// functions that count in one static variable and two functions that count in two
// equal ones look alike. That is the difference that moving a function to another
// file makes to the static variables that it uses. So different nodes with equal
// global hashes in one closure, twins, add to its hash who refers to which of
// them (see sharingHash). That a function is only called makes no difference: return
// addresses tell in which of its copies a call stands.
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
// A Pool holds the components of all units, a Composer hashes one program after
// the other. What was hashed for one is found again: by the exact description of a group, with numbers
// in the place of hashes, or, if its members and what they refer to are where they were, by a shortcut
// (shortcut.go). So a further program costs a walk over what it reaches, a step for each group and each
// different thing that a group refers to, and no hashing of what others have in common with it.
package refgraph

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/linkmodel"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// A Hash is a SHA-256.
type Hash = [32]byte

// A Pool holds units, without what only explanations need. It may be used
// concurrently once all units are added.
type Pool struct {
	Symbols *linkmodel.Table
	units   []*unit

	descriptions []string // of components, by number
	described    map[string]int32
	shapes       map[string]int32   // see comp.shape
	entries      map[string][]int32 // of functions that a component is all of, by the first of their names
	entryNames   [][]string
	entryDefs    [][]linkmodel.Symbol                  // those of them that others can refer to
	sets         map[linkmodel.Symbol]linkmodel.Symbol // bounds of linker sets, to their beginnings
	components   int
	links        int
	resolvers    bool // some component is a resolver
}

type unit struct {
	first      int32 // of its components in the pool
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
}

type comp struct {
	description int32
	end         int32 // of its links
	group       linkmodel.Symbol
	set         linkmodel.Symbol // that which begins its linker set, or None
	flags       uint16
	name        string
	entry       int32 // among Pool.entries, or -1
	// shape numbers, of members of COMDAT groups that refer to symbols only, which have the same
	// description and links, or is -1.
	shape int32
	align uint32
	place uint32 // see manifest.Component
}

const (
	flagRoot       = 1 << iota // a root by itself
	flagDebug                  // counts if something reads debug information
	flagExternal               // other units can refer to it
	flagTLS                    // says how much thread-local storage its unit has
	flagFixed                  // says that its unit needs a fixed place
	flagExecutable             // says that its unit is for executables
	flagLarge                  // says how large its unit is
	flagUnusual                // says what linkers may choke on
	flagResolver               // a loader calls it to find out what a symbol is
)

// LinkerSet, followed by its name, is the root of a component in a section with a
// name of C: the linker defines symbols for the bounds of all of these in a file.
const LinkerSet = "linker set "

// NewPool returns an empty pool.
func NewPool() *Pool {
	return &Pool{Symbols: linkmodel.NewTable(), described: map[string]int32{}, shapes: map[string]int32{}, entries: map[string][]int32{}, sets: map[linkmodel.Symbol]linkmodel.Symbol{}}
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
		u := &unit{first: int32(p.components), comps: make([]comp, len(list))}
		number := make(map[linkmodel.Symbol]int32, len(symbols)) // in u.symbols
		link := func(s linkmodel.Symbol) {
			n, ok := number[s]
			if !ok {
				n = int32(len(u.symbols))
				number[s] = n
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
			*x = comp{description: p.describe(c), end: int32(len(u.links)), group: linkmodel.None, set: linkmodel.None, name: c.Name, entry: p.entry(c), align: c.Alignment, place: c.Place, shape: -1}
			if c.Group != "" {
				x.group = p.Symbols.Symbol(c.Group)
				x.shape = p.shape(x.description, u, int32(i))
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
			case strings.HasPrefix(c.Name, manifest.DebugLines), strings.HasPrefix(c.Name, manifest.LocalNames):
				x.flags |= flagDebug
			case strings.HasPrefix(c.Name, manifest.ThreadStorage):
				x.flags |= flagTLS
			case strings.HasPrefix(c.Name, manifest.FixedPlace):
				x.flags |= flagFixed
			case strings.HasPrefix(c.Name, manifest.Executable):
				x.flags |= flagExecutable
			case strings.HasPrefix(c.Name, manifest.Large):
				x.flags |= flagLarge
			case strings.HasPrefix(c.Name, manifest.Unusual):
				x.flags |= flagUnusual
			}
			if x.flags&flagRoot != 0 {
				u.roots = append(u.roots, int32(i))
			}
			p.resolvers = p.resolvers || x.flags&flagResolver != 0
			if x.flags&(flagDebug|flagTLS|flagFixed|flagExecutable|flagLarge|flagUnusual) != 0 {
				u.notes = append(u.notes, int32(i))
			}
			if len(c.Definitions) > 0 {
				x.flags |= flagExternal
			}
		}
		u.placement = placementOf(m, k, list)
		u.attributes, u.sections, u.content, u.literals = string(m.Units[k].Attributes), m.Units[k].Sections, m.Units[k].Content, m.Units[k].Literals
		p.components += len(u.comps)
		p.links += len(u.links)
		p.units = append(p.units, u)
		numbers = append(numbers, p.Symbols.Add(m, k, list))
	}
	return numbers
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
		p.described[p.descriptions[id]] = id
	}
	return id
}

// shape returns the number of a component's shape, -1 if it refers to its own unit.
func (p *Pool) shape(description int32, u *unit, i int32) int32 {
	key := binary.LittleEndian.AppendUint32(nil, uint32(description))
	for _, l := range u.linksOf(i) {
		if l >= 0 {
			return -1
		}
		key = binary.LittleEndian.AppendUint32(key, uint32(u.symbols[-1-l]))
	}
	n, ok := p.shapes[string(key)]
	if !ok {
		n = int32(len(p.shapes))
		p.shapes[string(key)] = n
	}
	return n
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
