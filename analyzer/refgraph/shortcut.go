package refgraph

import (
	"cmp"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/linkmodel"
)

// Most of what a test reaches was reached by tests before it, and refers to the same
// there. A shortcut is such a group, with what its members refer to outside of it, each once:
// walking through it takes a step for each of these, and it is done if they have the hashes that they
// had. Nothing is assumed of a program: what a symbol stands for in it is asked, and if a member's link
// leads elsewhere, if something leads back into the group, or if a hash is another one,
// the group is taken apart and hashed as any other.
//
// Members and units have the numbers of the pool, since each program has other units. A member of a
// COMDAT group may be any copy that refers to the same.

// shortcuts are those of a composer.
type shortcuts struct {
	of      []int32  // of each component of the pool: index in groups, and 1
	ofShape []int32  // of each shape, for components that have one
	linked  []uint32 // of each unit: in how many programs it was
	groups  []shortcut
	members []member
	exits   []exit
	uses    []use
	ways    []way   // of the current program
	nodes   []int32 // of the members of the group that is looked at
	// Of the group that is noted.
	symbols map[linkmodel.Symbol]int32 // to exits
	others  map[int32]int32            // nodes, to exits
	count   map[int32]bool             // descriptions
}

type shortcut struct {
	hash           int32
	members, exits struct{ start, end int32 }
}

type member struct {
	unit, own int32
	// symbol is one by which another member refers to it, or None.
	symbol linkmodel.Symbol
	// fixed says that one refers to it by a link in the unit: then it is this copy.
	fixed bool
}

// exit is a link of a member; of those that are the same there is one.
type exit struct {
	symbol    linkmodel.Symbol // or None: a link in a unit
	unit, own int32            // where that leads
	hash      int32            // of what it leads to, or nowhere, or inside
	member    int32            // and which of its group, or of this
	uses      int32            // behind those of the exit
}

// use is a link by an exit.
type use struct{ exit, member, slot int32 }

const (
	nowhere = -1 // no unit defines the symbol
	inside  = -2 // it leads to a member
)

// way is a shortcut in the current program: where what it leads to is in slots.
type way struct{ group, start, end int32 }

// reset forgets all.
func (s *shortcuts) reset() {
	clear(s.of)
	clear(s.ofShape)
	s.groups, s.members, s.exits, s.uses = s.groups[:0], s.members[:0], s.exits[:0], s.uses[:0]
}

// start prepares for the current program.
func (s *shortcuts) start(c *Composer) {
	s.ways = s.ways[:0]
	if s.of == nil {
		s.of, s.ofShape, s.linked = make([]int32, c.pool.components), make([]int32, len(c.pool.shapes)), make([]uint32, len(c.pool.units))
		s.symbols, s.others, s.count = map[linkmodel.Symbol]int32{}, map[int32]int32{}, map[int32]bool{}
	}
	for _, in := range c.linked.Instances {
		s.linked[in.Unit]++
	}
	if len(s.exits) > 2*c.pool.links+1<<16 { // they are noted anew where programs differ
		s.reset()
	}
}

// at returns where the shortcut of a component is noted.
func (s *shortcuts) at(p *Pool, unit, own int32) *int32 {
	u := p.units[unit]
	if shape := u.comps[own].shape; shape >= 0 {
		return &s.ofShape[shape]
	}
	return &s.of[u.first+own]
}

// shortcut walks into the group that a node was in, if it is the same in this program, and tells
// whether it is. It is free of side effects if not.
func (c *Composer) shortcut(id int32) bool {
	if c.idle != nil {
		return false
	}
	s := &c.shortcuts
	x := &c.nodes[id]
	n := *s.at(c.pool, c.linked.Instances[x.instance].Unit, x.own)
	if n == 0 || !c.resembles(n, id) {
		return false
	}
	g := &s.groups[n-1]
	start := len(c.slots)
	for i := g.exits.start; i < g.exits.end; i++ {
		e := &s.exits[i]
		var to int32
		if e.symbol == linkmodel.None {
			to = c.nodeOf(e.unit, e.own)
		} else {
			var certain bool
			if to, certain = c.standsFor(e.symbol); !certain || (to == nowhere) != (e.hash == nowhere) || e.hash == inside && to != s.nodes[e.member] {
				c.slots = c.slots[:start]
				return false
			}
		}
		if e.hash >= 0 {
			c.slots = append(c.slots, to)
		}
	}
	index, k := int32(len(c.order))+1, int32(len(s.ways))
	s.ways = append(s.ways, way{n - 1, int32(start), int32(len(c.slots))})
	c.enter(id, index, k) // the lowest on the stack
	for i, node := range s.nodes {
		if node != id {
			c.enter(node, index, k)
		}
		c.nodes[node].end = int32(i)
	}
	c.calls = append(c.calls, call{id, int32(start), int32(len(c.slots))})
	return true
}

func (c *Composer) enter(node, index, way int32) {
	x := &c.nodes[node]
	x.index, x.low, x.start = index, index, -1-way
	c.order, c.stack = append(c.order, node), append(c.stack, node)
}

// resembles tells whether the group of a shortcut has all of its members, and a node among them, none of which
// was met before. Their nodes are in nodes then.
func (c *Composer) resembles(n, id int32) bool {
	s := &c.shortcuts
	g := &s.groups[n-1]
	s.nodes = s.nodes[:0]
	found, single := false, g.members.end-g.members.start == 1
	for i := g.members.start; i < g.members.end; i++ {
		m := &s.members[i]
		var node int32
		switch {
		case single:
			node = id
		case m.symbol == linkmodel.None:
			node = c.nodeOf(m.unit, m.own)
		default:
			var certain bool
			if node, certain = c.standsFor(m.symbol); !certain {
				return false
			}
		}
		if node < 0 {
			return false
		}
		x := &c.nodes[node]
		in := c.linked.Instances[x.instance]
		if in.Unit != m.unit || x.own != m.own {
			if m.fixed {
				return false
			}
			if shape := c.pool.units[in.Unit].comps[x.own].shape; shape < 0 || shape != c.pool.units[m.unit].comps[m.own].shape {
				return false
			}
		}
		if x.index != 0 || c.linked.Instance(in.Unit) < 0 || c.linked.Scoped(in.File) {
			return false
		}
		found = found || node == id
		s.nodes = append(s.nodes, node)
	}
	return found
}

// nodeOf returns the node of a component, or -1 if there isn't exactly one.
func (c *Composer) nodeOf(unit, own int32) int32 {
	i := c.linked.Instance(unit)
	if i < 0 {
		return -1
	}
	return c.at(i, own)
}

// standsFor returns the node that a symbol stands for in files that bind nothing in their own way, or
// nowhere. Of symbols that mean more it isn't certain: what that is is found out by bind.
func (c *Composer) standsFor(s linkmodel.Symbol) (id int32, certain bool) {
	x := &c.names[s]
	if x.program != c.program {
		if c.odd[s] {
			return 0, false
		}
		c.places = c.linked.Resolve(c.places[:0], 0, s)
		if len(c.places) > 1 || c.linked.Doubtful(s) || c.linked.Scoped(0) {
			return 0, false
		}
		*x = nodeOf{c.program, none}
		if len(c.places) > 0 {
			x.id = c.at(c.places[0].Instance, c.places[0].Component) + 1
		}
	}
	switch {
	case x.id > 0:
		return x.id - 1, true
	case x.id == none:
		return nowhere, true
	}
	return 0, false
}

// through completes a group that was entered by a shortcut, if all that it leads to has the hash
// that it had.
func (c *Composer) through(members []int32) bool {
	s := &c.shortcuts
	k := c.nodes[members[0]].start
	if k >= 0 {
		return false
	}
	w := s.ways[-1-k]
	g := &s.groups[w.group]
	if len(members) != int(g.members.end-g.members.start) {
		return false // something leads back
	}
	at := w.start
	for i := g.exits.start; i < g.exits.end; i++ {
		e := &s.exits[i]
		if e.hash < 0 {
			continue
		}
		// What led out may lead to a member, which has no hash yet.
		if to := &c.nodes[c.slots[at]]; to.group == c.nodes[members[0]].group || to.hash != e.hash || to.member != e.member {
			return false
		}
		at++
	}
	for _, id := range members {
		x := &c.nodes[id]
		x.hash, x.member = g.hash, x.end
	}
	return true
}

// remember notes a group, whose members are in order, as a shortcut. A new one doesn't take the place of an
// older one: it may be of this program only.
func (c *Composer) remember(order []int32, group, hash int32, isNew bool) {
	if c.idle != nil {
		return
	}
	s := &c.shortcuts
	first := &c.nodes[order[0]]
	if isNew && *s.at(c.pool, c.linked.Instances[first.instance].Unit, first.own) != 0 {
		return
	}
	g := shortcut{hash: hash}
	g.members.start, g.exits.start = int32(len(s.members)), int32(len(s.exits))
	uses := len(s.uses)
	clear(s.symbols)
	clear(s.others)
	clear(s.count)
	if !c.describeExits(order, group) {
		s.members, s.exits, s.uses = s.members[:g.members.start], s.exits[:g.exits.start], s.uses[:uses]
		return
	}
	slices.SortFunc(s.uses[uses:], func(a, b use) int { return cmp.Compare(a.exit, b.exit) })
	for i := uses; i < len(s.uses); i++ {
		s.exits[s.uses[i].exit].uses = int32(i) + 1
	}
	g.members.end, g.exits.end = int32(len(s.members)), int32(len(s.exits))
	s.groups = append(s.groups, g)
	for _, m := range s.members[g.members.start:] {
		*s.at(c.pool, m.unit, m.own) = int32(len(s.groups))
	}
}

// describeExits appends the members and exits of a group, and tells whether it can be a shortcut.
func (c *Composer) describeExits(order []int32, group int32) bool {
	s := &c.shortcuts
	first := len(s.members)
	for _, id := range order {
		x, comp := &c.nodes[id], c.comp(id)
		in := c.linked.Instances[x.instance]
		// What is linked once only needs no shortcut. Of two with the same description, names or the order
		// of the link decide which is which.
		if comp.shape < 0 && s.linked[in.Unit] < 2 || c.linked.Instance(in.Unit) < 0 || c.linked.Scoped(in.File) || s.count[comp.description] {
			return false
		}
		s.count[comp.description] = true
		s.members = append(s.members, member{unit: in.Unit, own: x.own, symbol: linkmodel.None})
	}
	for number, id := range order {
		x := &c.nodes[id]
		unit := c.linked.Instances[x.instance].Unit
		u := c.pool.units[unit]
		for slot, l := range u.linksOf(x.own) {
			var e exit
			var at int32
			known := false
			if l >= 0 {
				node := c.at(x.instance, l)
				to := &c.nodes[node]
				if to.group == group {
					s.members[first+int(to.member)].fixed = true
					continue
				}
				if at, known = s.others[node]; !known {
					at = int32(len(s.exits))
					s.others[node] = at
					e = exit{symbol: linkmodel.None, unit: unit, own: l, hash: to.hash, member: to.member}
				}
			} else {
				symbol := u.symbols[-1-l]
				if at, known = s.symbols[symbol]; !known {
					at = int32(len(s.exits))
					s.symbols[symbol] = at
					certain := false
					if e, certain = c.exitBy(symbol, group); !certain {
						return false
					}
					if e.hash == inside {
						s.members[first+int(e.member)].symbol = symbol
					}
				}
			}
			if !known {
				s.exits = append(s.exits, e)
			}
			if s.exits[at].hash >= 0 {
				s.uses = append(s.uses, use{at, int32(number), int32(slot)})
			}
		}
	}
	return true
}

// exitBy returns the exit of a group by a symbol, unless that may mean something else or more
// in another program.
func (c *Composer) exitBy(symbol linkmodel.Symbol, group int32) (e exit, certain bool) {
	if c.odd[symbol] {
		return e, false
	}
	to, certain := c.standsFor(symbol)
	e = exit{symbol: symbol, hash: nowhere}
	if certain && to >= 0 {
		x := &c.nodes[to]
		e.hash, e.member = x.hash, x.member
		if x.group == group {
			e.hash = inside
		}
	}
	return e, certain
}

// links calls f for each link of a node to one of some groups, with its position among the links. If the node
// is that of a shortcut's first member, f gets those of all members, of others of them none.
func (c *Composer) links(id int32, into func(group int32) bool, f func(from, to, slot int32)) {
	x := &c.nodes[id]
	if x.start >= 0 {
		for slot, to := range c.linksOf(id) {
			if to >= 0 && into(c.nodes[to].group) {
				f(x.member, to, int32(slot))
			}
		}
		return
	}
	if x.end != 0 {
		return
	}
	s := &c.shortcuts
	w := s.ways[-1-x.start]
	g := &s.groups[w.group]
	at := w.start
	for i := g.exits.start; i < g.exits.end; i++ {
		e := &s.exits[i]
		if e.hash < 0 {
			continue
		}
		to := c.slots[at]
		at++
		if !into(c.nodes[to].group) {
			continue
		}
		for k := e.uses - 1; k >= 0 && s.uses[k].exit == i; k-- {
			f(s.uses[k].member, to, s.uses[k].slot)
		}
	}
}
