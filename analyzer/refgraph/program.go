package refgraph

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
)

// A Program is one of those that a Universe composes. It is reused for one
// after the other, because it holds arrays as long as the universe: one for each
// goroutine.
type Program struct {
	u     *Universe
	units []int32
	pos   []int32 // place of each unit in the link, -1 if it isn't linked
	views *views
	// canon holds, for members of sets that only in this program are copies of
	// another one, or only here are not, what stands for them; others has them.
	canon     []int32
	canonMark []uint32 // epoch in which canon holds something
	others    []int32
	// given are members of sets that turned out to be no copies here.
	given map[int32]bool
	// unsure says that the program has to be composed alone.
	unsure bool

	epoch   uint32
	aff     []int32
	repMark []uint32 // epoch in which rep is known
	rep     []int32  // component of this program for which one of the universe stands, or -1
	eval    evaluation
	seeded  []uint32  // epoch in which a group of the base is among the seeds
	active  [][]int32 // sets, by number
	buf     []int32
	linkBuf []int32
	keys    []int32        // in reach.collect
	local   map[Hash]int32 // likewise
}

// NewProgram returns an empty program.
func (u *Universe) NewProgram() *Program {
	n := len(u.info)
	p := &Program{
		u: u, pos: make([]int32, len(u.place)), views: newViews(u), given: map[int32]bool{},
		local: map[Hash]int32{}, canon: make([]int32, n), canonMark: make([]uint32, n),
		repMark: make([]uint32, n), rep: make([]int32, n), seeded: make([]uint32, len(u.groupHash)),
		active: make([][]int32, u.setCount),
	}
	for i := range p.pos {
		p.pos[i] = -1
	}
	p.eval = evaluation{u: u, p: p, nodes: make([]node, n)}
	for i := range p.eval.nodes {
		p.eval.nodes[i] = node{group: -1, base: u.group[i]}
	}
	return p
}

// Link makes p the program that is linked from units, in this order.
func (p *Program) Link(units []int32) {
	p.reset()
	p.units = units
	for i, s := range units {
		if p.pos[s] >= 0 {
			p.unsure = true // linked twice
		}
		p.pos[s] = int32(i)
	}
	for _, s := range units {
		p.views.add(s)
	}
	p.mergeCopies()
	p.findAffected()
}

func (p *Program) reset() {
	for _, s := range p.units {
		p.pos[s] = -1
	}
	p.views.reset()
	p.others = p.others[:0]
	clear(p.given)
	p.unsure = false
	if p.epoch == math.MaxUint32 {
		clear(p.canonMark)
		for i := range p.eval.nodes {
			p.eval.nodes[i].affected = 0
		}
		clear(p.repMark)
		clear(p.seeded)
		p.epoch = 0
	}
	p.epoch++
	p.aff = p.aff[:0]
	e := &p.eval
	e.clear()
}

func (e *evaluation) clear() {
	for _, id := range e.visited {
		e.nodes[id].group, e.nodes[id].index = -1, 0
	}
	e.visited, e.slots, e.groupHash, e.ambiguous, e.unsure, e.found = e.visited[:0], e.slots[:0], e.groupHash[:0], e.ambiguous[:0], false, 0
	e.calls, e.stack = e.calls[:0], e.stack[:0]
}

// stands returns the component that stands for id in this program.
func (p *Program) stands(id int32) int32 {
	if len(p.others) > 0 && p.canonMark[id] == p.epoch {
		return p.canon[id]
	}
	return p.u.canon[id]
}

func (p *Program) setStands(id, to int32) {
	if p.canonMark[id] != p.epoch {
		p.canonMark[id] = p.epoch
		p.others = append(p.others, id)
	}
	p.canon[id] = to
}

// alone says whether id stands for no other component.
func (p *Program) alone(id int32) bool {
	return p.u.home[id] >= 0 || p.given[id]
}

// own returns a component of this program for which id stands, or -1.
func (p *Program) own(id int32) int32 {
	u := p.u
	home := u.home[id]
	if home < 0 && p.given[id] {
		home = u.source[id]
	}
	if home >= 0 {
		if p.pos[home] < 0 {
			return -1
		}
		return id
	}
	if p.repMark[id] == p.epoch {
		return p.rep[id]
	}
	p.repMark[id], p.rep[id] = p.epoch, -1
	for _, c := range u.class[id] {
		if p.pos[u.source[c]] >= 0 {
			p.rep[id] = c
			break
		}
	}
	return p.rep[id]
}

// firstUnit returns the place of the first unit with a component for which id
// stands.
func (p *Program) firstUnit(id int32) int32 {
	u := p.u
	if p.alone(id) {
		return p.pos[u.source[id]]
	}
	first := int32(-1)
	for _, c := range u.class[id] {
		if k := p.pos[u.source[c]]; k >= 0 && (first < 0 || k < first) {
			first = k
		}
	}
	return first
}

// definitions returns what stands for the definitions of a symbol, in the order
// of the link.
func (p *Program) definitions(sym int32) []int32 {
	u := p.u
	if h := u.hot[sym]; h >= 0 {
		return p.views.of(h)
	}
	defs := u.definitions(sym)
	if len(defs) == 0 {
		return nil
	}
	if id := u.canon[defs[0]]; p.own(id) >= 0 {
		p.buf = append(p.buf[:0], id)
		return p.buf
	}
	return nil
}

// mergeCopies is Graph.mergeCopies for what the universe leaves open.
func (p *Program) mergeCopies() {
	u := p.u
	if u.setCount == 0 {
		return
	}
	// Where each symbol has one definition, probable copies are copies.
	all := false
	for _, h := range p.views.seen {
		all = all || len(p.views.of(h)) > 1 && u.hotMixed[h]
	}
	var sets []int32
	collect := func() {
		for _, k := range sets {
			p.active[k] = p.active[k][:0]
		}
		sets = sets[:0]
		for _, s := range p.units {
			for _, id := range u.unitContested[s] {
				k := u.contested[id]
				if u.probable[k] && !all {
					// Do all members here have the same component for them?
					switch {
					case len(p.active[k]) == 0:
						sets = append(sets, k)
						p.active[k] = append(p.active[k], id)
					case u.canon[p.active[k][0]] != u.canon[id]:
						all = true
						return
					}
					continue
				}
				if len(p.active[k]) == 0 {
					sets = append(sets, k)
				}
				p.active[k] = append(p.active[k], id)
			}
		}
	}
	before := all
	if collect(); all != before {
		collect()
	}
	for _, k := range sets {
		if u.probable[k] && !all {
			continue
		}
		to := p.active[k][0]
		for _, id := range p.active[k] {
			if u.canon[id] == u.setRep[k] && u.probable[k] {
				to = u.setRep[k]
				break
			}
		}
		for _, id := range p.active[k] {
			p.setStands(id, to)
		}
	}
	if all {
		p.viewAgain()
	}
	for changed := true; changed; {
		changed = false
		for _, k := range sets {
			if set := p.active[k]; len(set) > 1 && !p.areCopies(set) {
				for _, id := range set {
					p.setStands(id, id)
					p.given[id] = true
				}
				p.active[k] = set[:1]
				changed = true
			}
		}
	}
	for _, k := range sets {
		p.active[k] = p.active[k][:0]
	}
	p.others = slices.DeleteFunc(p.others, func(id int32) bool {
		c := p.canon[id]
		if p.given[id] {
			return false
		}
		if c != u.canon[id] && u.home[c] < 0 {
			// One more than the base has: its place in the link isn't known.
			p.unsure = true
		}
		return c == u.canon[id]
	})
	if len(p.others) == 0 && !all {
		return
	}
	for _, h := range p.views.seen {
		v := p.views.list[h]
		p.views.list[h] = p.merged(v[:0], v)
	}
}

// viewAgain lists definitions without regard to what stands for them.
func (p *Program) viewAgain() {
	p.views.reset()
	for _, s := range p.units {
		for _, d := range p.u.unitHot[s] {
			if len(p.views.list[d.hot]) == 0 {
				p.views.seen = append(p.views.seen, d.hot)
			}
			p.views.list[d.hot] = append(p.views.list[d.hot], d.comp)
		}
	}
}

// merged appends what stands for each of list, without repetition. Out may be
// the beginning of list.
func (p *Program) merged(out, list []int32) []int32 {
	for _, id := range list {
		out = appendNew(out, p.stands(id))
	}
	return out
}

// areCopies is Graph.areCopies.
func (p *Program) areCopies(set []int32) bool {
	u := p.u
	for k, l0 := range u.rawLinks(set[0]) {
		for _, id := range set[1:] {
			l := u.rawLinks(id)[k]
			var same bool
			switch {
			case l >= 0 && l0 >= 0:
				same = p.stands(l) == p.stands(l0)
			case l < 0 && l0 < 0:
				same = l == l0
			default:
				same = slices.Equal(p.merged(nil, p.link(nil, l)), p.merged(nil, p.link(nil, l0)))
			}
			if !same {
				return false
			}
		}
	}
	return true
}

// link appends to out, which is empty, what a link resolves to.
func (p *Program) link(out []int32, l int32) []int32 {
	u := p.u
	if l < 0 {
		return append(out, p.definitions(-1-l)...)
	}
	out = append(out, p.stands(l))
	for _, sym := range u.symbols(l) {
		if h := u.hot[sym]; h >= 0 {
			out = appendAllNew(out, p.views.of(h))
		}
	}
	return out
}

// affected says whether the hash of a component may differ from the base's.
func (p *Program) affected(id int32) bool { return p.eval.nodes[id].affected == p.epoch }

func (p *Program) affect(id int32) {
	if p.eval.nodes[id].affected != p.epoch {
		p.eval.nodes[id].affected = p.epoch
		p.aff = append(p.aff, id)
	}
}

// referrers affects what refers to id in the base.
func (p *Program) referrers(id int32) {
	u := p.u
	for _, from := range u.back[u.backStart[id]:u.backStart[id+1]] {
		if p.own(from) >= 0 { // most are not
			p.affect(from)
		}
	}
}

func (p *Program) findAffected() {
	u := p.u
	for _, h := range p.views.seen {
		if slices.Equal(p.views.of(h), u.hotView[h]) {
			continue
		}
		for _, id := range u.hotRefs[h] {
			if p.pos[u.source[id]] >= 0 {
				p.affect(p.stands(id))
			}
		}
	}
	for _, id := range p.others {
		c := p.canon[id]
		p.referrers(u.canon[id])
		if u.canon[id] != id && c == id {
			p.affect(id) // the base has only the one that stands for it
		}
	}
	for _, s := range p.units {
		for _, id := range u.unitTied[s] {
			p.affect(id)
		}
		lacks := false
		for _, need := range u.unitNeeds[s] {
			lacks = lacks || p.pos[need] < 0
		}
		for _, sym := range u.unitNeedsAny[s] {
			lacks = lacks || len(p.definitions(sym)) == 0
		}
		if !lacks {
			continue
		}
		for id := u.base[s]; id < u.base[s+1]; id++ {
			for _, l := range u.rawLinks(id) {
				if l < 0 && len(p.definitions(-1-l)) == 0 {
					p.affect(p.stands(id))
					break
				}
			}
		}
	}
	for i := 0; i < len(p.aff); i++ {
		p.referrers(p.aff[i])
	}
}

// resolve writes the links of an affected component to the evaluation.
func (p *Program) resolve(id int32) {
	e := &p.eval
	e.visited = append(e.visited, id)
	e.nodes[id].start = int32(len(e.slots))
	buf := p.linkBuf
	u, own := p.u, p.own(id)
	for k := u.rawStart[own]; k < u.rawStart[own+1]; k++ {
		if t := u.target[k]; t >= 0 && (t&1 != 0 || p.own(t/2) >= 0) {
			e.slots = append(e.slots, t/2)
			continue
		}
		buf = p.link(buf[:0], u.raw[k])
		e.slots = appendLink(e.slots, buf)
	}
	p.linkBuf = buf
	e.nodes[id].end = int32(len(e.slots))
}

// A ProgramClosure is what a set of roots of a program reaches.
type ProgramClosure struct {
	p         *Program // until the next Link
	named     []named
	roots     []int32
	code      frame.Buffer // what Hash consists of, without additions
	ambiguous bool
	placement Hash // if ambiguous
	reach     reach
	sharing   *Hash // set by Share
	shared    bool
}

// Defined returns the numbers of those of symbols that any unit defines.
func (u *Universe) Defined(symbols []string) []int32 {
	var out []int32
	for _, s := range symbols {
		if id, ok := u.symbolID[s]; ok && len(u.definitions(id)) > 0 {
			out = append(out, id)
		}
	}
	return out
}

// Closure is Graph.Closure; overrides are from Defined and replace those of
// roots. If ok is false, the program has to be composed alone: all definitions
// are roots, or the result isn't certain to be the same.
func (p *Program) Closure(roots Roots, overrides []int32) (c *ProgramClosure, ok bool) {
	if roots.Exported || p.unsure {
		return nil, false
	}
	u := p.u
	c = &ProgramClosure{p: p}
	for _, sym := range roots.Symbols {
		if id, ok := u.symbolID[sym]; ok {
			c.name(named{sym, "", slices.Clone(p.definitions(id)), false})
		}
	}
	for _, id := range overrides {
		var defs []int32
		for _, d := range p.definitions(id) {
			if u.info[d].flags&flagRoot == 0 {
				defs = append(defs, d)
			}
		}
		c.name(named{u.symbolName[id], "", defs, true})
	}
	slices.SortFunc(c.named, func(x, y named) int { return strings.Compare(x.symbol, y.symbol) })
	evaluate := func(ids []int32) {
		for _, id := range ids {
			if p.affected(id) && p.eval.nodes[id].index == 0 {
				p.eval.run(id)
			}
		}
	}
	for _, n := range c.named {
		evaluate(n.defs)
	}
	for _, s := range p.units {
		start := len(c.roots)
		c.roots = append(c.roots, u.unitRoots[s]...)
		evaluate(c.roots[start:])
		slices.SortFunc(c.roots[start:], func(x, y int32) int {
			hx, mx, _ := p.eval.ref(x)
			hy, my, _ := p.eval.ref(y)
			return cmp.Or(bytes.Compare(hx[:], hy[:]), cmp.Compare(mx, my), strings.Compare(u.names[x], u.names[y]), cmp.Compare(x, y))
		})
	}
	if p.eval.unsure {
		return nil, false
	}
	starts := c.starts()
	c.encode()
	c.ambiguous = roots.Placement || slices.ContainsFunc(c.named, func(n named) bool { return len(n.defs) > 1 }) ||
		slices.ContainsFunc(starts, func(id int32) bool {
			_, _, ambiguous := p.eval.ref(id)
			return ambiguous
		})
	if c.ambiguous {
		f := placementFrame(len(p.units))
		for _, s := range p.units {
			f.Bytes(u.place[s][:])
		}
		c.placement = f.Sum()
	}
	c.reach.collect(p, starts)
	return c, true
}

func (c *ProgramClosure) name(n named) {
	if len(n.defs) > 0 && !c.Defines(n.symbol) {
		c.named = append(c.named, n)
	}
}

// Defines is Closure.Defines.
func (c *ProgramClosure) Defines(symbol string) bool {
	return slices.ContainsFunc(c.named, func(n named) bool { return n.symbol == symbol })
}

// RootIn is Closure.RootIn; sources are places in the link. It is valid until the
// next Link.
func (c *ProgramClosure) RootIn(sources map[int]bool) bool {
	in := func(id int32) bool { return sources[int(c.p.firstUnit(id))] }
	return len(sources) > 0 && (slices.ContainsFunc(c.roots, in) ||
		slices.ContainsFunc(c.named, func(x named) bool { return x.override && slices.ContainsFunc(x.defs, in) }))
}

func (c *ProgramClosure) starts() []int32 {
	var ids []int32
	for _, n := range c.named {
		ids = append(ids, n.defs...)
	}
	return append(ids, c.roots...)
}

// Ambiguous is Closure.Ambiguous.
func (c *ProgramClosure) Ambiguous() bool { return c.ambiguous }

// encode writes the part of Hash that the starts decide.
func (c *ProgramClosure) encode() {
	b := frame.New("tasting code 1")
	refs := func(ids []int32) {
		b.Int(len(ids))
		for _, id := range ids {
			h, member, _ := c.p.eval.ref(id)
			b.Bytes(h[:])
			b.Int(int(member))
		}
	}
	b.Int(len(c.named))
	for _, n := range c.named {
		b.String(n.symbol)
		refs(n.defs)
	}
	refs(c.roots)
	refs(nil)
	c.code = b
}

// Hash is Closure.Hash. Universe.Share has to be called before.
func (c *ProgramClosure) Hash() Hash {
	if !c.shared {
		panic("refgraph: ProgramClosure.Hash before Universe.Share")
	}
	b := slices.Clip(c.code)
	var additions []string
	var hashes []Hash
	if c.ambiguous {
		additions, hashes = append(additions, "placement"), append(hashes, c.placement)
	}
	if c.sharing != nil {
		additions, hashes = append(additions, "sharing"), append(hashes, *c.sharing)
	}
	b.Int(len(additions))
	for i, name := range additions {
		b.String(name)
		b.Bytes(hashes[i][:])
	}
	return b.Sum()
}

// Affected returns how many components were hashed for this program alone.
func (p *Program) Affected() int { return len(p.eval.visited) }

// groupOf numbers the groups of the base and, after them, those of the program.
func (p *Program) groupOf(id int32) int32 {
	if x := &p.eval.nodes[id]; x.affected != p.epoch {
		return x.base
	} else {
		return int32(len(p.u.groupHash)) + x.group
	}
}
