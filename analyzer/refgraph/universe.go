package refgraph

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// A Unit is what a manifest says, without what only explanations need: about a
// sixth of its size in memory.
type Unit struct {
	comps     []unitComp
	links     []uint32 // of all components
	symbols   []string
	placement Hash
}

type unitComp struct {
	name    string
	aliases []string
	local   [16]byte
	end     int32 // of its links in links
	kind    uint8
	linkage uint8
	flags   uint8
}

const (
	flagRoot            = 1 << iota // a root by itself
	flagInterchangeable             // see manifest.Component
)

// NewUnit returns what composition needs of m, which is valid.
func NewUnit(m *manifest.Manifest) *Unit {
	u := &Unit{comps: make([]unitComp, len(m.Components)), symbols: m.Symbols, placement: placementOf(m)}
	n := 0
	for _, c := range m.Components {
		n += len(c.Links)
	}
	u.links = make([]uint32, 0, n)
	for i, c := range m.Components {
		u.links = append(u.links, c.Links...)
		x := &u.comps[i]
		*x = unitComp{name: c.Name, aliases: c.Aliases, end: int32(len(u.links)), kind: uint8(c.Kind), linkage: uint8(c.Linkage)}
		copy(x.local[:], c.LocalHash)
		if c.Root != "" {
			x.flags |= flagRoot
		}
		if c.Interchangeable {
			x.flags |= flagInterchangeable
		}
	}
	return u
}

// A Universe composes many programs that share units. Each global hash that is
// the same in all programs is computed once.
//
// # How
//
// One graph, the base, holds all units. What a link resolves to can differ from
// program to program, because a symbol has other definitions, or none. A symbol
// whose definitions in all units are one component, or copies of each other that
// are copies in any program, is resolved once and for all. For each of the
// others, the contested symbols, the base takes the definitions that most of
// the programs have.
//
// A program deviates where it has other definitions of a contested symbol, where
// it lacks a definition that the base has, and where other components are
// copies of each other. Who reaches such a place through links of the base is
// affected: only these are resolved and hashed for this program alone, as far as
// its roots reach them. All that an unaffected component reaches is unaffected,
// so that its hash is that of the base.
//
// The result for a program is that of New, Closure and Hash for its units
// alone. If that can't be guaranteed, Program.Closure says so.
//
// A Universe is immutable and may be used concurrently.
type Universe struct {
	place  []Hash // placement of each unit
	base   []int32
	source []int32
	info   []nodeInfo
	names  []string

	symbolName []string
	symbolID   map[string]int32
	symStart   []int32 // the symbols that each component defines, sorted by name
	syms       []int32
	rawStart   []int32 // links: a component, or -1-symbol
	raw        []int32
	defStart   []int32 // definitions of each symbol, in order
	defs       []int32

	canon     []int32
	home      []int32           // the unit of each component, or -1 if it stands for copies as well
	class     map[int32][]int32 // of each component that stands for others too: all of them
	contested map[int32]int32   // components that are copies in some programs at most; to their set
	setCount  int
	setRep    []int32 // of each set: what stands for it in the base
	probable  []bool  // of each set: in the base, its members are copies
	// mixedLinks are links of probable sets that are within the unit in some
	// members only: what stands for the set, and what the link leads to there.
	mixedLinks [][2]int32
	mixed      map[int32]bool // symbols whose number of definitions decides about probable sets

	hot      []int32 // of each symbol: number of the contested symbol, or -1
	hotCount int
	hotMixed []bool    // in mixed
	hotView  [][]int32 // what the base takes
	hotRefs  [][]int32 // who refers to it

	unitHot       [][]hotDef // definitions of contested symbols in each unit
	unitContested [][]int32  // components in sets
	unitNeeds     [][]int32  // units with the only definition of a symbol that it refers to
	unitNeedsAny  [][]int32  // further symbols that it refers to
	unitRoots     [][]int32
	unitTied      [][]int32 // components that each program has to hash itself

	// target is, for each link that is the same in all programs with a definition,
	// twice what it leads to, and one more if all programs with the link have it;
	// -1 for others.
	target    []int32
	slotStart []int32
	slots     []int32
	backStart []int32 // who refers to each component
	back      []int32

	group     []int32
	member    []int32
	groupHash []Hash
	several   []bool // of each group: it has more than one member
	ambiguous []bool
	first     []int32 // the first group with the same hash as each one
	byHash    map[Hash]int32

	// Groups with the same hash: at twinStart of the first, or -1, their number
	// and they themselves in twinList.
	twinStart   []int32
	twinList    []int32
	memberStart []int32 // of each group
	members     []int32
	groupStart  []int32 // groups that each one refers to
	groupLinks  []int32
}

type nodeInfo struct {
	local                [16]byte
	kind, linkage, flags uint8
}

type hotDef struct{ hot, comp int32 }

// NewUniverse resolves and hashes units. Each of programs lists the numbers of
// the units that are linked, in the order of the link; they decide only what is
// computed once for all. It empties the slice of units.
func NewUniverse(units []*Unit, programs [][]int32) *Universe {
	u := &Universe{symbolID: map[string]int32{}}
	u.load(units)
	u.mergeCopies()
	u.findContested()
	u.chooseViews(programs)
	u.resolve()
	u.hash()
	u.findTwins()
	return u
}

// Len returns the number of components.
func (u *Universe) Len() int { return len(u.info) }

// Links returns the number of links.
func (u *Universe) Links() int { return len(u.raw) }

func (u *Universe) intern(s string) int32 {
	id, ok := u.symbolID[s]
	if !ok {
		id = int32(len(u.symbolName))
		u.symbolID[s] = id
		u.symbolName = append(u.symbolName, s)
	}
	return id
}

func (u *Universe) load(units []*Unit) {
	n, links := 0, 0
	for _, unit := range units {
		n, links = n+len(unit.comps), links+len(unit.links)
	}
	u.source, u.info, u.names = make([]int32, 0, n), make([]nodeInfo, 0, n), make([]string, 0, n)
	u.symStart, u.rawStart, u.raw = make([]int32, 0, n+1), make([]int32, 0, n+1), make([]int32, 0, links)
	var symbols []int32
	for i, unit := range units {
		base := int32(len(u.info))
		u.base = append(u.base, base)
		u.place = append(u.place, unit.placement)
		symbols = symbols[:0]
		for _, s := range unit.symbols {
			symbols = append(symbols, u.intern(s))
		}
		var roots []int32
		at := int32(0)
		for k := range unit.comps {
			c := &unit.comps[k]
			u.symStart = append(u.symStart, int32(len(u.syms)))
			name := c.name
			if len(c.aliases) == 0 && manifest.Linkage(c.linkage) != manifest.Linkage_LINKAGE_LOCAL && symbolKind(manifest.Kind(c.kind)) {
				id := u.intern(name)
				name = u.symbolName[id] // one string for all
				u.syms = append(u.syms, id)
			} else {
				for _, s := range definedSymbols(&manifest.Component{Name: name, Kind: manifest.Kind(c.kind), Linkage: manifest.Linkage(c.linkage), Aliases: c.aliases}) {
					u.syms = append(u.syms, u.intern(s))
				}
			}
			u.rawStart = append(u.rawStart, int32(len(u.raw)))
			for _, l := range unit.links[at:c.end] {
				if isOwn(l) {
					u.raw = append(u.raw, base+int32(l/2))
				} else {
					u.raw = append(u.raw, -1-symbols[l/2])
				}
			}
			at = c.end
			if c.flags&flagRoot != 0 {
				roots = append(roots, int32(len(u.info)))
			}
			u.source = append(u.source, int32(i))
			u.names = append(u.names, name)
			u.info = append(u.info, nodeInfo{local: c.local, kind: c.kind, linkage: c.linkage, flags: c.flags})
		}
		u.unitRoots = append(u.unitRoots, roots)
		units[i] = nil
	}
	u.base = append(u.base, int32(n))
	u.symStart = append(u.symStart, int32(len(u.syms)))
	u.rawStart = append(u.rawStart, int32(len(u.raw)))
	if len(u.raw) > 1<<30 {
		panic(fmt.Sprintf("refgraph: %d links are more than a universe can hold", len(u.raw)))
	}
	u.defStart, u.defs = group(len(u.symbolName), n, func(i int32) []int32 { return u.symbols(i) })
}

// group lists, for each of n values, the items that have it.
func group(n, items int, values func(int32) []int32) (start, list []int32) {
	start = make([]int32, n+1)
	for i := range int32(items) {
		for _, v := range values(i) {
			if v >= 0 {
				start[v+1]++
			}
		}
	}
	for i := range n {
		start[i+1] += start[i]
	}
	list = make([]int32, start[n])
	at := slices.Clone(start[:n])
	for i := range int32(items) {
		for _, v := range values(i) {
			if v >= 0 {
				list[at[v]] = i
				at[v]++
			}
		}
	}
	return start, list
}

func (u *Universe) symbols(id int32) []int32      { return u.syms[u.symStart[id]:u.symStart[id+1]] }
func (u *Universe) rawLinks(id int32) []int32     { return u.raw[u.rawStart[id]:u.rawStart[id+1]] }
func (u *Universe) definitions(sym int32) []int32 { return u.defs[u.defStart[sym]:u.defStart[sym+1]] }
func (u *Universe) links(id int32) []int32        { return u.slots[u.slotStart[id]:u.slotStart[id+1]] }

// describe is Graph.describe.
func (u *Universe) describe(b *frame.Buffer, id int32) {
	c := &u.info[id]
	b.Int(int(c.kind))
	b.Int(int(c.linkage))
	b.Bytes(c.local[:])
	syms := u.symbols(id)
	b.Int(len(syms))
	for _, s := range syms {
		b.String(u.symbolName[s])
	}
}

// mergeCopies finds the components that are copies of each other in every
// program. It is stricter than Graph.mergeCopies: a set whose members call one
// thing by different names, or resolve a link of their own file to several
// definitions, is left to each program.
func (u *Universe) mergeCopies() {
	n := len(u.info)
	u.canon, u.home = make([]int32, n), slices.Clone(u.source)
	setOf := make([]int32, n)
	byKey := map[Hash]int32{}
	var sets [][]int32
	var b frame.Buffer
	for i := range int32(n) {
		u.canon[i], setOf[i] = i, -1
		c := &u.info[i]
		switch {
		case c.flags&flagRoot != 0:
			continue
		case manifest.Linkage(c.linkage) == manifest.Linkage_LINKAGE_LOCAL:
			if c.flags&flagInterchangeable == 0 {
				continue
			}
		default:
			if s := u.symbols(i); len(s) == 0 || len(u.definitions(s[0])) < 2 {
				continue
			}
		}
		b = b[:0]
		u.describe(&b, i)
		b.Int(len(u.rawLinks(i)))
		key := b.Sum()
		s, ok := byKey[key]
		if !ok {
			s = int32(len(sets))
			byKey[key] = s
			sets = append(sets, nil)
		}
		sets[s] = append(sets[s], i)
		setOf[i] = s
		u.canon[i] = sets[s][0]
	}
	// Which sets depend on each one, once it is given up.
	users := make([][]int32, len(sets))
	var work []int32
	queued := make([]bool, len(sets))
	for s, set := range sets {
		if len(set) < 2 {
			continue
		}
		work, queued[s] = append(work, int32(s)), true
		for _, id := range set {
			for _, l := range u.rawLinks(id) {
				if l < 0 || setOf[l] < 0 {
					continue
				}
				t := setOf[l]
				if len(sets[t]) > 1 && (len(users[t]) == 0 || users[t][len(users[t])-1] != int32(s)) {
					users[t] = append(users[t], int32(s))
				}
			}
		}
	}
	given := make([]bool, len(sets))
	// oneSet says whether all definitions of a symbol are in one set.
	oneSet := make([]bool, len(u.symbolName))
	for sym := range oneSet {
		defs := u.definitions(int32(sym))
		oneSet[sym] = len(defs) > 0 && setOf[defs[0]] >= 0 && !slices.ContainsFunc(defs, func(d int32) bool { return setOf[d] != setOf[defs[0]] })
	}
	unique := func(sym int32) bool {
		defs := u.definitions(sym)
		return len(defs) == 1 || oneSet[sym] && !given[setOf[defs[0]]]
	}
	merge := func(unique func(sym int32) bool, split bool) {
		work = work[:0]
		for s, set := range sets {
			given[s] = false
			if queued[s] = len(set) > 1; queued[s] {
				work = append(work, int32(s))
			}
			for _, id := range set {
				u.canon[id] = set[0]
			}
		}
		for len(work) > 0 {
			s := work[len(work)-1]
			work, queued[s] = work[:len(work)-1], false
			if given[s] || u.surelyCopies(sets[s], unique) {
				continue
			}
			for _, id := range sets[s] {
				u.canon[id] = id
			}
			if split {
				sets[s] = u.majority(sets[s])
			}
			if given[s] = !split || len(sets[s]) < 2; !given[s] {
				for _, id := range sets[s] {
					u.canon[id] = sets[s][0]
				}
				work, queued[s] = append(work, s), true
			}
			for _, t := range users[s] {
				if !queued[t] {
					work, queued[t] = append(work, t), true
				}
			}
		}
	}
	merge(unique, false)
	sure := make([]bool, len(sets))
	for s := range sets {
		sure[s] = !given[s]
	}
	// Most programs have one definition of most symbols, and not the few
	// members that differ from most of their set.
	whole := slices.Clone(sets)
	merge(func(int32) bool { return true }, true)
	u.contested, u.class = map[int32]int32{}, map[int32][]int32{}
	u.unitContested = make([][]int32, len(u.place))
	u.mixed = map[int32]bool{}
	for s, set := range sets {
		if len(whole[s]) < 2 {
			continue
		}
		if !given[s] {
			u.class[set[0]] = set
			u.home[set[0]] = -1
		}
		if sure[s] {
			continue
		}
		for _, id := range whole[s] {
			u.contested[id] = int32(u.setCount)
			u.unitContested[u.source[id]] = append(u.unitContested[u.source[id]], id)
		}
		u.setCount++
		u.probable = append(u.probable, !given[s])
		u.setRep = append(u.setRep, whole[s][0])
		if !given[s] {
			u.setRep[len(u.setRep)-1] = set[0]
		}
		if given[s] {
			continue
		}
		for k := range u.rawLinks(set[0]) {
			own, foreign := int32(-1), false
			for _, id := range set {
				if l := u.rawLinks(id)[k]; l >= 0 {
					own = l
				} else {
					foreign = true
				}
			}
			if own >= 0 && foreign {
				u.mixedLinks = append(u.mixedLinks, [2]int32{set[0], own})
				for _, sym := range u.symbols(own) {
					u.mixed[sym] = true
				}
			}
		}
	}
}

// surelyCopies says whether the links of all members of set resolve alike in
// every program, provided that the components that canon merges are copies.
// Unique says whether all definitions of a symbol are.
func (u *Universe) surelyCopies(set []int32, unique func(sym int32) bool) bool {
	for _, id := range set {
		if u.names[id] != u.names[set[0]] {
			return false
		}
	}
	for k := range u.rawLinks(set[0]) {
		foreign, own := int32(0), int32(-1) // foreign ones are negative
		for _, id := range set {
			switch l := u.rawLinks(id)[k]; {
			case l >= 0 && own < 0:
				own = l
			case l >= 0 && u.canon[l] != u.canon[own]:
				return false
			case l < 0 && foreign == 0:
				foreign = l
			case l < 0 && l != foreign:
				return false
			}
		}
		if own >= 0 && foreign < 0 {
			// It has to be the same definition, whatever else is linked.
			if !slices.Contains(u.symbols(own), -1-foreign) {
				return false
			}
			for _, sym := range u.symbols(own) {
				if !unique(sym) {
					return false
				}
			}
		}
	}
	return true
}

// majority returns those members of a set whose links are like those of most.
func (u *Universe) majority(set []int32) []int32 {
	type vote struct {
		value int32
		n     int
	}
	cast := func(v *vote, value int32) {
		switch {
		case v.n == 0:
			*v = vote{value, 1}
		case v.value == value:
			v.n++
		default:
			v.n--
		}
	}
	links := len(u.rawLinks(set[0]))
	own, foreign := make([]vote, links), make([]vote, links)
	for _, id := range set {
		for k, l := range u.rawLinks(id) {
			if l >= 0 {
				cast(&own[k], u.canon[l])
			} else {
				cast(&foreign[k], l)
			}
		}
	}
	var out []int32
members:
	for _, id := range set {
		if u.names[id] != u.names[set[0]] {
			continue
		}
		for k, l := range u.rawLinks(id) {
			if l >= 0 && u.canon[l] != own[k].value || l < 0 && l != foreign[k].value {
				continue members
			}
		}
		out = append(out, id)
	}
	if len(out) == len(set) {
		return nil // a link has two names
	}
	return out
}

// findContested finds the symbols with several definitions that aren't surely
// copies, and what each unit has to do with them.
func (u *Universe) findContested() {
	u.hot = make([]int32, len(u.symbolName))
	for s := range u.hot {
		u.hot[s] = -1
		defs := u.definitions(int32(s))
		for _, d := range defs {
			// Also if it is only probable that they are copies.
			if _, ok := u.contested[d]; u.canon[d] != u.canon[defs[0]] || ok && len(defs) > 1 {
				u.hot[s] = int32(u.hotCount)
				u.hotCount++
				u.hotMixed = append(u.hotMixed, u.mixed[int32(s)])
				break
			}
		}
	}
	u.hotView = make([][]int32, u.hotCount)
	u.hotRefs = make([][]int32, u.hotCount)
	n := len(u.place)
	u.unitHot, u.unitNeeds, u.unitNeedsAny = make([][]hotDef, n), make([][]int32, n), make([][]int32, n)
	seenSymbol := make([]int32, len(u.symbolName))
	seenUnit := make([]int32, n)
	for i := range int32(n) {
		for id := u.base[i]; id < u.base[i+1]; id++ {
			for _, sym := range u.symbols(id) {
				if h := u.hot[sym]; h >= 0 {
					u.unitHot[i] = append(u.unitHot[i], hotDef{h, id})
				}
			}
			for _, l := range u.rawLinks(id) {
				if l >= 0 {
					for _, sym := range u.symbols(l) {
						u.refer(sym, id)
					}
					continue
				}
				sym := -1 - l
				u.refer(sym, id)
				if seenSymbol[sym] == i+1 {
					continue
				}
				seenSymbol[sym] = i + 1
				switch defs := u.definitions(sym); {
				case len(defs) == 0:
				case len(defs) > 1:
					u.unitNeedsAny[i] = append(u.unitNeedsAny[i], sym)
				case seenUnit[u.source[defs[0]]] != i+1:
					seenUnit[u.source[defs[0]]] = i + 1
					u.unitNeeds[i] = append(u.unitNeeds[i], u.source[defs[0]])
				}
			}
		}
	}
}

func (u *Universe) refer(sym, id int32) {
	if h := u.hot[sym]; h >= 0 {
		if l := u.hotRefs[h]; len(l) == 0 || l[len(l)-1] != id {
			u.hotRefs[h] = append(l, id)
		}
	}
}

// chooseViews chooses the definitions of contested symbols in the base: those
// that more than half of the programs with any have, if there are such.
func (u *Universe) chooseViews(programs [][]int32) {
	votes := make([]int, u.hotCount)
	views := newViews(u)
	for _, p := range programs {
		views.reset()
		for _, unit := range p {
			views.add(unit)
		}
		for _, h := range views.seen {
			switch v := views.of(h); {
			case slices.Equal(v, u.hotView[h]):
				votes[h]++
			case votes[h] > 0:
				votes[h]--
			default:
				votes[h] = 1
				u.hotView[h] = append(u.hotView[h][:0], v...)
			}
		}
	}
}

// views collects the definitions of contested symbols in one program.
type views struct {
	u    *Universe
	list [][]int32
	seen []int32
}

func newViews(u *Universe) *views { return &views{u: u, list: make([][]int32, u.hotCount)} }

func (v *views) reset() {
	for _, h := range v.seen {
		v.list[h] = v.list[h][:0]
	}
	v.seen = v.seen[:0]
}

func (v *views) add(unit int32) {
	for _, d := range v.u.unitHot[unit] {
		if len(v.list[d.hot]) == 0 {
			v.seen = append(v.seen, d.hot)
		}
		v.list[d.hot] = appendNew(v.list[d.hot], v.u.canon[d.comp])
	}
}

// of returns the definitions of a contested symbol, what stands for each.
func (v *views) of(hot int32) []int32 { return v.list[hot] }

// appendNew appends x unless it is there.
func appendNew(l []int32, x int32) []int32 {
	if slices.Contains(l, x) {
		return l
	}
	return append(l, x)
}

// appendAllNew appends those of list, which has no repetition, that aren't in l.
func appendAllNew(l, list []int32) []int32 {
	old := l
	for _, x := range list {
		if !slices.Contains(old, x) {
			l = append(l, x)
		}
	}
	return l
}

// resolve fills slots and back.
func (u *Universe) resolve() {
	n := len(u.info)
	u.slotStart = make([]int32, n+1)
	u.slots = make([]int32, 0, len(u.raw))
	u.target = make([]int32, len(u.raw))
	for k, l := range u.raw {
		u.target[k] = -1
		if l < 0 {
			if defs := u.definitions(-1 - l); u.hot[-1-l] < 0 && len(defs) > 0 {
				u.target[k] = 2 * u.canon[defs[0]]
			}
			continue
		}
		_, contested := u.contested[l]
		if !contested && !slices.ContainsFunc(u.symbols(l), func(sym int32) bool { return u.hot[sym] >= 0 }) {
			u.target[k] = 2*u.canon[l] + 1
		}
	}
	var buf []int32
	for id := range int32(n) {
		u.slotStart[id] = int32(len(u.slots))
		if u.canon[id] != id {
			continue
		}
		for k := u.rawStart[id]; k < u.rawStart[id+1]; k++ {
			if t := u.target[k]; t >= 0 {
				u.slots = append(u.slots, t/2)
				continue
			}
			buf = buf[:0]
			if l := u.raw[k]; l >= 0 {
				buf = append(buf, u.canon[l])
				for _, sym := range u.symbols(l) {
					if h := u.hot[sym]; h >= 0 {
						buf = appendAllNew(buf, u.hotView[h])
					}
				}
			} else if h := u.hot[-1-l]; h >= 0 {
				buf = append(buf, u.hotView[h]...)
			}
			u.slots = appendLink(u.slots, buf)
		}
	}
	u.slotStart[n] = int32(len(u.slots))
	u.backStart, u.back = group(n, n, u.links)
}

func appendLink(slots, defs []int32) []int32 {
	if len(defs) != 1 {
		slots = append(slots, -int32(len(defs))-1)
	}
	return append(slots, defs...)
}

func (u *Universe) hash() {
	n := len(u.info)
	e := &evaluation{
		u: u, nodes: make([]node, n), slots: u.slots,
	}
	for i := range e.nodes {
		e.nodes[i] = node{group: -1, start: u.slotStart[i], end: u.slotStart[i+1]}
	}
	for id := range int32(n) {
		if e.nodes[id].index == 0 && u.canon[id] == id {
			e.run(id)
		}
	}
	u.group, u.member, u.groupHash, u.ambiguous = make([]int32, n), make([]int32, n), e.groupHash, e.ambiguous
	u.several = make([]bool, len(e.groupHash))
	for id, c := range u.canon {
		x := &e.nodes[c]
		u.group[id], u.member[id] = x.group, x.member
		u.several[x.group] = u.several[x.group] || x.member > 0
	}
	u.unitTied = make([][]int32, len(u.place))
	// The base resolves a mixed link as one member does, the others may differ.
	for _, m := range u.mixedLinks {
		for _, sym := range u.symbols(m[1]) {
			if h := u.hot[sym]; h >= 0 && (len(u.hotView[h]) != 1 || u.hotView[h][0] != u.canon[m[1]]) {
				e.tied = append(e.tied, m[0])
				break
			}
		}
	}
	for _, id := range e.tied {
		members := u.class[id]
		if members == nil {
			members = []int32{id}
		}
		for _, m := range members {
			u.unitTied[u.source[m]] = append(u.unitTied[u.source[m]], id)
		}
	}
	u.byHash = make(map[Hash]int32, len(u.groupHash))
	u.first = make([]int32, len(u.groupHash))
	for g, h := range u.groupHash {
		first, ok := u.byHash[h]
		if !ok {
			first = int32(g)
			u.byHash[h] = first
		}
		u.first[g] = first
	}
}

// An evaluation finds and hashes strongly connected groups: those of the base,
// or of what is affected in one program.
type evaluation struct {
	u *Universe
	p *Program // nil for the base

	nodes     []node // by component
	slots     []int32
	groupHash []Hash
	ambiguous []bool
	// tied are the members of groups whose numbering depends on the order of
	// units.
	tied []int32
	// unsure says that it couldn't be found out how to number a group.
	unsure bool

	found   int32
	calls   []visit
	visited []int32 // components of the program that have been begun
	stack   []int32
	buf     frame.Buffer
}

// A node is what an evaluation knows of a component, together because it is
// looked at together.
type node struct {
	affected      uint32 // epoch in which it is
	base          int32  // its group in the base
	index, low    int32
	group, member int32
	start, end    int32 // of its links in slots
}

type visit struct{ id, next int32 }

// leaf says whether id has the base's hash.
func (e *evaluation) leaf(id int32) bool { return e.p != nil && !e.p.affected(id) }

func (e *evaluation) begin(id int32) {
	if e.p != nil {
		e.p.resolve(id)
	}
	e.found++
	e.nodes[id].index, e.nodes[id].low = e.found, e.found
	e.stack = append(e.stack, id)
	e.calls = append(e.calls, visit{id, e.nodes[id].start})
}

// run is Graph.hashGroups for what root reaches.
func (e *evaluation) run(root int32) {
	e.begin(root)
	for len(e.calls) > 0 {
		v := &e.calls[len(e.calls)-1]
		if v.next < e.nodes[v.id].end {
			to := e.slots[v.next]
			v.next++
			switch {
			case to < 0 || e.leaf(to):
			case e.nodes[to].index == 0:
				e.begin(to)
			case e.nodes[to].group < 0:
				e.nodes[v.id].low = min(e.nodes[v.id].low, e.nodes[to].index)
			}
			continue
		}
		id := v.id
		e.calls = e.calls[:len(e.calls)-1]
		if len(e.calls) > 0 {
			up := e.calls[len(e.calls)-1].id
			e.nodes[up].low = min(e.nodes[up].low, e.nodes[id].low)
		}
		if e.nodes[id].low == e.nodes[id].index {
			k := len(e.stack) - 1
			for e.stack[k] != id {
				k--
			}
			e.finish(e.stack[k:])
			e.stack = e.stack[:k]
		}
	}
}

// ref returns the global identity of a component and whether a link with
// several definitions is below it.
func (e *evaluation) ref(id int32) (h *Hash, member int32, ambiguous bool) {
	x := &e.nodes[id]
	if e.leaf(id) {
		g := x.base
		if e.u.several[g] {
			member = e.u.member[id]
		}
		return &e.u.groupHash[g], member, e.u.ambiguous[g]
	}
	return &e.groupHash[x.group], x.member, e.ambiguous[x.group]
}

// finish is Graph.hashGroup.
func (e *evaluation) finish(members []int32) {
	group := int32(len(e.groupHash))
	for _, id := range members {
		e.nodes[id].group = group
		e.nodes[id].member = -1
	}
	order := members
	if len(members) > 1 {
		order = append(make([]int32, 0, len(members)), e.firstMember(members))
		e.nodes[order[0]].member = 0
		for i := 0; i < len(order); i++ {
			for _, to := range e.slots[e.nodes[order[i]].start:e.nodes[order[i]].end] {
				if to >= 0 && !e.leaf(to) && e.nodes[to].group == group && e.nodes[to].member < 0 {
					e.nodes[to].member = int32(len(order))
					order = append(order, to)
				}
			}
		}
	} else {
		e.nodes[order[0]].member = 0
	}
	ambiguous := false
	b := append(e.buf[:0], groupFrame...)
	b.Int(len(order))
	for _, id := range order {
		e.u.describe(&b, id)
		slots := e.slots[e.nodes[id].start:e.nodes[id].end]
		b.Int(len(e.u.rawLinks(id)))
		rest := 0
		for _, v := range slots {
			if v < 0 {
				rest = int(-v - 1)
				b.Int(rest)
				ambiguous = ambiguous || rest > 1
				continue
			}
			if rest > 0 {
				rest--
			} else {
				b.Int(1)
			}
			if !e.leaf(v) && e.nodes[v].group == group {
				b.Int(0)
				b.Int(int(e.nodes[v].member))
				continue
			}
			h, member, a := e.ref(v)
			ambiguous = ambiguous || a
			b.Int(1)
			b.Bytes(h[:])
			b.Int(int(member))
		}
	}
	e.groupHash = append(e.groupHash, b.Sum())
	e.ambiguous = append(e.ambiguous, ambiguous)
	e.buf = b
}

var groupFrame = frame.New("tasting group 1")

// firstMember is Graph.firstMember.
func (e *evaluation) firstMember(members []int32) int32 {
	u := e.u
	if id := e.smallest(members); id >= 0 {
		return id
	}
	keys := make([]frame.Buffer, len(members))
	count := make(map[string]int, len(members))
	for i, id := range members {
		u.describe(&keys[i], id)
		count[string(keys[i])]++
	}
	compare := func(i, k int) int {
		return cmp.Or(
			count[string(keys[i])]-count[string(keys[k])],
			bytes.Compare(keys[i], keys[k]),
			strings.Compare(u.names[members[i]], u.names[members[k]]))
	}
	best, tied := 0, false
	for i := 1; i < len(members); i++ {
		c := compare(i, best)
		if c == 0 {
			// Names are unique in a unit, so these are of two.
			tied = true
			c = e.position(members[i], members[best])
		} else if c < 0 {
			tied = false
		}
		if c < 0 {
			best = i
		}
	}
	if tied && e.p == nil {
		e.tied = append(e.tied, members...)
	}
	return members[best]
}

// smallest returns the member with the smallest description if no other one has
// its kind, linkage and local hash, which is nearly always so; else -1.
func (e *evaluation) smallest(members []int32) int32 {
	compare := func(x, y int32) int { // as their descriptions
		a, b := &e.u.info[x], &e.u.info[y]
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.linkage, b.linkage), bytes.Compare(a.local[:], b.local[:]))
	}
	best, alone := members[0], true
	for _, id := range members[1:] {
		switch c := compare(id, best); {
		case c < 0:
			best, alone = id, true
		case c == 0:
			alone = false
		}
	}
	if !alone {
		return -1
	}
	return best
}

// position compares the places of two components in the link.
func (e *evaluation) position(x, y int32) int {
	u := e.u
	if e.p == nil {
		return cmp.Compare(x, y)
	}
	if u.class[x] != nil || u.class[y] != nil {
		e.unsure = true
	}
	return cmp.Or(cmp.Compare(e.p.pos[u.source[x]], e.p.pos[u.source[y]]), cmp.Compare(x, y))
}
