package refgraph

import (
	"cmp"
	"math/bits"
	"slices"
)

// A reach is what the search for twins in a closure needs of it, beside the base:
// where the closure enters the base, and those of the program's own groups, and
// of its own links, that may be or lead to twins. Groups of the base have their
// numbers there, the program's own follow.
type reach struct {
	seeds []int32 // groups of the base
	own   []ownGroup
	edges []ownEdge
}

// An ownGroup is a group that was hashed for one program and has the hash of
// another one, in the base or in the program.
type ownGroup struct {
	group int32
	key   int32 // first group with this hash: of the base if there is one
	hash  Hash
}

// An ownEdge leads from a start, or from a component that was hashed for one
// program, to a group.
type ownEdge struct {
	group int32
	from  int32 // a group of the program, or fromStart
	edge  edge
}

// collect fills r after the program's own groups have been hashed: all that were
// are in the closure.
func (r *reach) collect(p *Program, starts []int32) {
	u, e := p.u, &p.eval
	n := int32(len(u.groupHash))
	keys := slices.Grow(p.keys[:0], len(e.groupHash))[:len(e.groupHash)]
	p.keys = keys
	local := p.local
	clear(local)
	twins := map[int32]bool{} // keys that several groups may have
	for i, h := range e.groupHash {
		first, known := local[h]
		switch {
		case known:
			keys[i] = first
			twins[first] = true
		default:
			keys[i] = n + int32(i)
			if g, ok := u.byHash[h]; ok {
				keys[i] = g
				twins[g] = true
			}
			local[h] = keys[i]
		}
	}
	for i, key := range keys {
		if twins[key] {
			r.own = append(r.own, ownGroup{n + int32(i), key, e.groupHash[i]})
		}
	}
	// follow says whether a link leads to what may be a twin.
	follow := func(to int32) (group int32, twin bool) {
		group = p.groupOf(to)
		if group >= n {
			return group, len(twins) > 0 && twins[keys[group-n]]
		}
		if p.seeded[group] != p.epoch {
			p.seeded[group] = p.epoch
			r.seeds = append(r.seeds, group)
		}
		return group, u.isTwin(group) || len(twins) > 0 && twins[u.first[group]]
	}
	for i, id := range starts {
		if to, twin := follow(id); twin {
			_, member, _ := e.ref(id)
			r.edges = append(r.edges, ownEdge{to, fromStart, edge{to: member, from: fromStart, slot: int32(i)}})
		}
	}
	for _, id := range e.visited {
		from := n + e.nodes[id].group
		for slot, to := range e.slots[e.nodes[id].start:e.nodes[id].end] {
			if to < 0 {
				continue
			}
			if group, twin := follow(to); twin && group != from {
				_, member, _ := e.ref(to)
				r.edges = append(r.edges, ownEdge{group, from, edge{
					to: member, from: fromPlain, hash: e.groupHash[e.nodes[id].group], member: e.nodes[id].member, slot: int32(slot),
				}})
			}
		}
	}
}

// isTwin says whether another group of the base has the same hash.
func (u *Universe) isTwin(group int32) bool { return u.twinStart[u.first[group]] >= 0 }

// sameHash returns the groups of the base with the hash of the given one, which
// is the first of them.
func (u *Universe) sameHash(first int32) []int32 {
	t := u.twinStart[first]
	if t < 0 {
		return []int32{first}
	}
	return u.twinList[t+1 : t+1+u.twinList[t]]
}

// findTwins prepares the search for twins: the groups of the base that have
// their hash in common with another one, and the links between groups.
func (u *Universe) findTwins() {
	n := len(u.groupHash)
	count := make([]int32, n)
	for _, f := range u.first {
		count[f]++
	}
	u.twinStart = make([]int32, n)
	at := int32(0)
	for g, c := range count {
		u.twinStart[g] = -1
		if c > 1 {
			u.twinStart[g] = at
			at += 1 + c
		}
	}
	u.twinList = make([]int32, at)
	for g, f := range u.first {
		if t := u.twinStart[f]; t >= 0 {
			u.twinList[t]++
			u.twinList[t+u.twinList[t]] = int32(g)
		}
	}
	u.memberStart, u.members = group(n, len(u.info), func(id int32) []int32 {
		if u.canon[id] != id {
			return nil
		}
		return u.group[id : id+1]
	})
	seen := make([]int32, n)
	u.groupStart = make([]int32, n+1)
	for g := range int32(n) {
		u.groupStart[g] = int32(len(u.groupLinks))
		for _, id := range u.members[u.memberStart[g]:u.memberStart[g+1]] {
			for _, to := range u.links(id) {
				if to < 0 {
					continue
				}
				if t := u.group[to]; t != g && seen[t] != g+1 {
					seen[t] = g + 1
					u.groupLinks = append(u.groupLinks, t)
				}
			}
		}
	}
	u.groupStart[n] = int32(len(u.groupLinks))
}

// shareWords is the number of words in a mask of programs.
const shareWords = 4

// ShareMax is the greatest number of closures that Share takes.
const ShareMax = 64 * shareWords

type mask [shareWords]uint64

func (m *mask) has(i int) bool { return m[i/64]>>(i%64)&1 != 0 }

// A Sharer finds twins in the closures of many programs at once. It is reused,
// because it holds arrays as long as the universe: one for each goroutine.
type Sharer struct {
	u     *Universe
	masks []mask  // of each group: the programs that reach it
	index []int32 // of each group: place among the twins of a program, plus one
	twins []twin
	label labeler
}

// NewSharer returns a Sharer.
func (u *Universe) NewSharer() *Sharer {
	return &Sharer{u: u, masks: make([]mask, len(u.groupHash)), index: make([]int32, len(u.groupHash))}
}

// Share finds out who shares what in each of at most ShareMax closures, so that
// Hash can be called. What each of them reaches in the base is found in one pass
// over the base, with a bit for each closure.
func (s *Sharer) Share(closures []*ProgramClosure) {
	u := s.u
	clear(s.masks)
	for i, c := range closures {
		for _, g := range c.reach.seeds {
			s.masks[g][i/64] |= 1 << (i % 64)
		}
	}
	for g := len(s.masks) - 1; g >= 0; g-- {
		m := s.masks[g]
		if m == (mask{}) {
			continue
		}
		for _, to := range u.groupLinks[u.groupStart[g]:u.groupStart[g+1]] {
			t := &s.masks[to]
			for k := range t {
				t[k] |= m[k]
			}
		}
	}
	twins := make([][]int32, len(closures))
	for t := 0; t < len(u.twinList); {
		groups := u.twinList[t+1 : t+1+int(u.twinList[t])]
		t += 1 + len(groups)
		var once, twice mask
		for _, g := range groups {
			for k, w := range s.masks[g] {
				twice[k] |= once[k] & w
				once[k] |= w
			}
		}
		if twice == (mask{}) {
			continue
		}
		for _, g := range groups {
			for k, w := range s.masks[g] {
				for w &= twice[k]; w != 0; w &= w - 1 {
					i := 64*k + bits.TrailingZeros64(w)
					twins[i] = append(twins[i], g)
				}
			}
		}
	}
	for i, c := range closures {
		c.sharing = s.sharing(&c.reach, i, twins[i])
		c.shared, c.reach = true, reach{}
	}
}

// sharing is Closure.sharing for closure i, of which groups of the base are
// twins of each other.
func (s *Sharer) sharing(r *reach, i int, groups []int32) *Hash {
	u := s.u
	n := int32(len(u.groupHash))
	slices.SortFunc(r.own, func(x, y ownGroup) int { return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.group, y.group)) })
	hashes := map[int32]Hash{} // of the program's own twins
	for k := 0; k < len(r.own); {
		key, first := r.own[k].key, k
		for k < len(r.own) && r.own[k].key == key {
			k++
		}
		others := 0
		if key < n {
			var other int32
			for _, g := range u.sameHash(key) {
				if s.masks[g].has(i) {
					others++
					other = g
				}
			}
			if others == 1 {
				groups = append(groups, other)
			}
		}
		if others == 0 && k-first < 2 {
			continue
		}
		for _, o := range r.own[first:k] {
			groups = append(groups, o.group)
			hashes[o.group] = o.hash
		}
	}
	if len(groups) == 0 {
		return nil
	}
	slices.Sort(groups)
	slices.Reverse(groups)
	twins := slices.Grow(s.twins[:0], len(groups))[:len(groups)]
	s.twins = twins
	for k := range twins {
		twins[k].edges = twins[k].edges[:0]
	}
	own := make(map[int32]int32, len(hashes))
	for k, g := range groups {
		if g >= n {
			own[g] = int32(k) + 1
			twins[k].hash = hashes[g]
		} else {
			s.index[g] = int32(k) + 1
			twins[k].hash = u.groupHash[g]
		}
	}
	index := func(g int32) int32 { // or -1
		if g >= n {
			return own[g] - 1
		}
		return s.index[g] - 1
	}
	for _, e := range r.edges {
		t := index(e.group)
		if t < 0 {
			continue
		}
		if e.from != fromStart {
			if k := index(e.from); k >= 0 {
				e.edge.from = k
			}
		}
		twins[t].edges = append(twins[t].edges, e.edge)
	}
	for t, g := range groups {
		if g >= n {
			continue // the base doesn't refer to it
		}
		for _, to := range u.members[u.memberStart[g]:u.memberStart[g+1]] {
			last := int32(-1)
			for _, id := range u.back[u.backStart[to]:u.backStart[to+1]] {
				from := u.group[id]
				if id == last || from == g || !s.masks[from].has(i) {
					continue
				}
				last = id
				e := edge{to: u.member[to], from: fromPlain, hash: u.groupHash[from], member: u.member[id]}
				if k := index(from); k >= 0 {
					e.from = k
				}
				for slot, l := range u.links(id) {
					if l == to {
						e.slot = int32(slot)
						twins[t].edges = append(twins[t].edges, e)
					}
				}
			}
		}
	}
	for _, g := range groups {
		if g < n {
			s.index[g] = 0
		}
	}
	h := s.label.hash(twins)
	return &h
}
