package refgraph

import (
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// mergeCopies fills canon: the first of several components that nobody can
// tell apart stands for all of them. Copies are equal in their description and
// their links lead to the same components or to copies of each other.
//
// It assumes that all components with equal descriptions are copies and then
// gives up every set that turns out to be inconsistent, until nothing changes:
// mutually recursive copies are found as well. A set is given up as a whole,
// which is simple and costs at most an unnecessary run.
func (g *Graph) mergeCopies() {
	g.canon = make([]int32, len(g.comps))
	for i := range g.canon {
		g.canon[i] = int32(i)
	}
	byKey := map[Hash]int32{} // description to index in sets
	setOf := map[int32]int32{}
	var sets [][]int32
	for i, c := range g.comps {
		id := int32(i)
		if !g.mayHaveCopies(id) {
			continue
		}
		b := frame.New("copy")
		g.describe(&b, id)
		b.Int(len(c.Links))
		key := b.Sum()
		s, ok := byKey[key]
		if !ok {
			s = int32(len(sets))
			byKey[key] = s
			sets = append(sets, nil)
		}
		sets[s] = append(sets[s], id)
		setOf[id] = s
		g.canon[id] = sets[s][0]
	}

	// users[s] are the sets whose consistency depends on s.
	users := make([][]int32, len(sets))
	var work []int32
	queued := make([]bool, len(sets))
	for s, set := range sets {
		if len(set) < 2 {
			continue
		}
		work, queued[s] = append(work, int32(s)), true
		seen := map[int32]bool{}
		use := func(id int32) {
			if t, ok := setOf[id]; ok && len(sets[t]) > 1 && !seen[t] {
				seen[t] = true
				users[t] = append(users[t], int32(s))
			}
		}
		for k, l0 := range g.comps[set[0]].Links {
			for _, id := range set {
				l := g.comps[id].Links[k]
				if isOwn(l) {
					use(g.ownTarget(id, l))
				}
				if isOwn(l) != isOwn(l0) {
					for _, x := range [...]struct {
						id int32
						l  uint32
					}{{id, l}, {set[0], l0}} {
						for _, sym := range g.linkSymbols(x.id, x.l) {
							for _, t := range g.defs[sym] {
								use(t)
							}
						}
					}
				}
			}
		}
	}
	for len(work) > 0 {
		s := work[len(work)-1]
		work, queued[s] = work[:len(work)-1], false
		if len(sets[s]) < 2 || g.areCopies(sets[s]) {
			continue
		}
		for _, id := range sets[s] {
			g.canon[id] = id
		}
		sets[s] = nil
		for _, u := range users[s] {
			if !queued[u] {
				work, queued[u] = append(work, u), true
			}
		}
	}
}

// mayHaveCopies says whether id is of a sort that can be merged, and whether
// there is anything that it could be merged with.
func (g *Graph) mayHaveCopies(id int32) bool {
	c := g.comps[id]
	switch {
	case c.Root != "": // roots run once each, and in order
		return false
	case c.Linkage == manifest.Linkage_LINKAGE_LOCAL:
		return c.Interchangeable
	}
	return len(g.symbols[id]) > 0 && len(g.defs[g.symbols[id][0]]) > 1
}

// areCopies says whether the links of all members of set, which have equal
// descriptions, resolve alike under the current canon.
func (g *Graph) areCopies(set []int32) bool {
	for k, l0 := range g.comps[set[0]].Links {
		for _, id := range set[1:] {
			l := g.comps[id].Links[k]
			var same bool
			switch {
			case isOwn(l) && isOwn(l0):
				// Copies define the same symbols: the rest of the link's
				// definitions follows.
				same = g.canon[g.ownTarget(id, l)] == g.canon[g.ownTarget(set[0], l0)]
			case !isOwn(l) && !isOwn(l0):
				same = g.linkSymbols(id, l)[0] == g.linkSymbols(set[0], l0)[0]
			default:
				same = slices.Equal(g.link(nil, id, l), g.link(nil, set[0], l0))
			}
			if !same {
				return false
			}
		}
	}
	return true
}

// isOwn says whether l is a link to a component of the same manifest.
func isOwn(l uint32) bool { return l%2 == 0 }

func (g *Graph) ownTarget(id int32, l uint32) int32 {
	return g.base[g.source[id]] + int32(l/2)
}

// linkSymbols returns the symbols through which link l of id may be bound.
func (g *Graph) linkSymbols(id int32, l uint32) []string {
	if isOwn(l) {
		return g.symbols[g.ownTarget(id, l)]
	}
	return g.sources[g.source[id]].Manifest.Symbols[l/2 : l/2+1]
}
