package refgraph

import (
	"bytes"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
)

// hashGroups finds the strongly connected groups with Tarjan's algorithm, which
// completes a group after everything that it refers to, and hashes each group
// when it is complete. It keeps its own stack: reference chains can be longer
// than a call stack.
func (g *Graph) hashGroups() {
	n := len(g.comps)
	g.group = make([]int32, n)
	g.member = make([]int32, n)
	index := make([]int32, n) // order of discovery, 0 is not yet
	low := make([]int32, n)
	for i := range g.group {
		g.group[i] = -1
	}
	type visit struct{ id, next int32 }
	var calls []visit
	var stack []int32
	found := int32(0)
	for root := range n {
		if index[root] != 0 || g.canon[root] != int32(root) {
			continue
		}
		calls = append(calls[:0], visit{int32(root), g.start[root]})
		for len(calls) > 0 {
			v := &calls[len(calls)-1]
			if index[v.id] == 0 {
				found++
				index[v.id], low[v.id] = found, found
				stack = append(stack, v.id)
			}
			if v.next < g.start[v.id+1] {
				to := g.slots[v.next]
				v.next++
				switch {
				case to < 0: // not a component: length of a list
				case index[to] == 0:
					calls = append(calls, visit{to, g.start[to]})
				case g.group[to] < 0: // on the stack
					low[v.id] = min(low[v.id], index[to])
				}
				continue
			}
			id := v.id
			calls = calls[:len(calls)-1]
			if len(calls) > 0 {
				up := calls[len(calls)-1].id
				low[up] = min(low[up], low[id])
			}
			if low[id] == index[id] {
				k := len(stack) - 1
				for stack[k] != id {
					k--
				}
				g.hashGroup(stack[k:])
				stack = stack[:k]
			}
		}
	}
	for i, c := range g.canon {
		g.group[i], g.member[i] = g.group[c], g.member[c]
	}
}

// hashGroup numbers the members of a group whose references to the outside are
// all hashed, and appends the hash of its exact description to groupHash.
func (g *Graph) hashGroup(members []int32) {
	group := int32(len(g.groupHash))
	for _, id := range members {
		g.group[id] = group
		g.member[id] = -1
	}
	order := append(make([]int32, 0, len(members)), g.firstMember(members))
	g.member[order[0]] = 0
	for i := 0; i < len(order); i++ {
		for _, to := range g.links(order[i]) {
			if to >= 0 && g.group[to] == group && g.member[to] < 0 {
				g.member[to] = int32(len(order))
				order = append(order, to)
			}
		}
	}
	b := frame.New("tasting group 1")
	b.Int(len(order))
	for _, id := range order {
		g.describe(&b, id)
		g.describeLinks(&b, id, func(b *frame.Buffer, to int32) {
			if g.group[to] == group {
				b.Int(0)
				b.Int(int(g.member[to]))
			} else {
				b.Int(1)
				g.writeRef(b, to)
			}
		})
	}
	g.groupHash = append(g.groupHash, b.Sum())
}

// firstMember chooses where the numbering of a group starts: at the member with
// the rarest description, then the smallest; names break ties.
func (g *Graph) firstMember(members []int32) int32 {
	if len(members) == 1 {
		return members[0]
	}
	keys := make([]frame.Buffer, len(members))
	count := make(map[string]int, len(members))
	for i, id := range members {
		g.describe(&keys[i], id)
		count[string(keys[i])]++
	}
	best := 0
	for i := 1; i < len(members); i++ {
		c := count[string(keys[i])] - count[string(keys[best])]
		if c == 0 {
			c = bytes.Compare(keys[i], keys[best])
		}
		if c == 0 {
			c = strings.Compare(g.comps[members[i]].Name, g.comps[members[best]].Name)
		}
		if c == 0 {
			c = int(members[i] - members[best])
		}
		if c < 0 {
			best = i
		}
	}
	return members[best]
}

// flagGroups finds out which groups reach twins or a link with several
// definitions. Groups are numbered after everything that they refer to.
func (g *Graph) flagGroups() {
	g.groupTwins = make([]bool, len(g.groupHash))
	g.groupAmbiguous = make([]bool, len(g.groupHash))
	first := make(map[Hash]int32, len(g.groupHash))
	for i, h := range g.groupHash {
		if f, ok := first[h]; ok {
			g.groupTwins[i], g.groupTwins[f] = true, true
		} else {
			first[h] = int32(i)
		}
	}
	members := make([]int32, len(g.comps)) // by group, counting sort
	at := make([]int32, len(g.groupHash)+1)
	for i, c := range g.canon {
		if c == int32(i) {
			at[g.group[i]+1]++
		}
	}
	for i := 1; i < len(at); i++ {
		at[i] += at[i-1]
	}
	end := append([]int32(nil), at[:len(g.groupHash)]...)
	for i, c := range g.canon {
		if c == int32(i) {
			members[end[g.group[i]]] = c
			end[g.group[i]]++
		}
	}
	for grp := range g.groupHash {
		for _, id := range members[at[grp]:at[grp+1]] {
			for _, to := range g.links(id) {
				switch {
				case to < -1: // several definitions
					g.groupAmbiguous[grp] = true
				case to >= 0:
					t := g.group[to]
					g.groupTwins[grp] = g.groupTwins[grp] || g.groupTwins[t]
					g.groupAmbiguous[grp] = g.groupAmbiguous[grp] || g.groupAmbiguous[t]
				}
			}
		}
	}
}
