package refgraph

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
)

// A twin is one of several groups in a closure that have the same global hash.
type twin struct {
	hash  Hash
	files []int32 // of its members, in their order, by rank among those that twins are in
	edges []edge
}

// An edge leads from outside of a twin's group to one of its members.
type edge struct {
	to int32 // number of the member
	// from is the index of the twin that the edge comes from, which is less
	// than that of the twin it leads to; -1 for another component, and -2 for
	// the list of starts.
	from   int32
	hash   Hash  // global hash of a component that is in no twin
	member int32 // number of the component in its group
	slot   int32 // position in the list of links, or in that of starts
}

const (
	fromPlain = -1
	fromStart = -2
)

// sharingHash identifies who shares which twin. Twins are in an order in which
// each one comes after those that refer to it.
//
// A twin's label is the hash of its global hash and of everything that leads to
// it. A link leads to one place, so no two twins have the same label, and the
// labels with the global hashes determine the closure: its other components are
// determined by their hashes, and which of several twins a link leads to, by the
// one label that contains this link.
//
//	"tasting sharing 2"
//	list of labels, sorted
//
//	"tasting twin 1"
//	global hash
//	list of edges, sorted: number of the member, then
//	    0, position in the list of starts
//	    1, global hash and number of the component, position of the link
//	    2, label of the twin and number of the component, position of the link
func sharingHash(twins []twin) Hash { return new(labeler).hash(twins) }

// A labeler computes sharing hashes, one after the other.
type labeler struct {
	labels []Hash
	buf, b frame.Buffer
	list   []frame.Buffer
}

func (x *labeler) hash(twins []twin) Hash {
	labels := x.labels[:0]
	buf, list, b := x.buf, x.list, x.b
	for _, t := range twins {
		buf, list = buf[:0], list[:0]
		// Room for all, so that the pieces stay where they are.
		buf = slices.Grow(buf, len(t.edges)*(len(Hash{})+26))
		for _, e := range t.edges {
			start := len(buf)
			buf.Int(int(e.to))
			switch e.from {
			case fromStart:
				buf.Int(0)
			case fromPlain:
				buf.Int(1)
				buf.Bytes(e.hash[:])
				buf.Int(int(e.member))
			default:
				buf.Int(2)
				buf.Bytes(labels[e.from][:])
				buf.Int(int(e.member))
			}
			buf.Int(int(e.slot))
			list = append(list, buf[start:])
		}
		slices.SortFunc(list, func(x, y frame.Buffer) int { return bytes.Compare(x, y) })
		b = append(b[:0], twinFrame...)
		b.Bytes(t.hash[:])
		b.Int(len(t.files))
		for _, f := range t.files {
			b.Int(int(f))
		}
		b.Int(len(list))
		for _, e := range list {
			b.Bytes(e)
		}
		labels = append(labels, b.Sum())
	}
	slices.SortFunc(labels, func(x, y Hash) int { return bytes.Compare(x[:], y[:]) })
	b = append(b[:0], sharingFrame...)
	b.Int(len(labels))
	for _, l := range labels {
		b.Bytes(l[:])
	}
	x.labels, x.buf, x.list, x.b = labels, buf, list, b
	return b.Sum()
}

var twinFrame, sharingFrame = frame.New("tasting twin 2"), frame.New("tasting sharing 3")

// sharing says who shares what, if the closure contains twins.
func (x *Closure) sharing() (Hash, bool) {
	c := x.c
	const none = -1
	if n := len(c.hashes) - len(c.first); n > 0 {
		c.first = append(c.first, make([]int32, n)...)
	}
	c.twins = slices.Grow(c.twins[:0], int(c.groups))[:c.groups]
	for i := range c.twins {
		c.twins[i] = none
	}
	var groups, hashes []int32 // that are twins
	for _, id := range c.order {
		n := &c.nodes[id]
		switch other := c.first[n.hash] - 1; {
		case other < 0:
			c.first[n.hash] = n.group + 1
		case other != n.group:
			for _, g := range []int32{other, n.group} {
				if c.twins[g] == none {
					c.twins[g] = int32(len(groups))
					groups, hashes = append(groups, g), append(hashes, n.hash)
				}
			}
		}
	}
	for _, id := range c.order {
		c.first[c.nodes[id].hash] = 0
	}
	if len(groups) == 0 {
		return Hash{}, false
	}
	// What refers to a group has a greater number.
	order := make([]int, len(groups))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(groups[b], groups[a]) })
	twins := make([]twin, len(groups))
	for i, k := range order {
		c.twins[groups[k]] = int32(i)
		twins[i].hash = c.hashes[hashes[k]]
	}
	x.locate(twins)
	for i, id := range x.starts() {
		if t := c.twins[c.nodes[id].group]; t != none {
			twins[t].edges = append(twins[t].edges, edge{to: c.nodes[id].member, from: fromStart, slot: int32(i)})
		}
	}
	for _, id := range c.order {
		n := &c.nodes[id]
		from := c.twins[n.group]
		isOther := func(group int32) bool { return c.twins[group] != none && group != n.group }
		c.links(id, isOther, func(member, to, slot int32) {
			e := edge{to: c.nodes[to].member, from: fromPlain, hash: c.hashes[n.hash], member: member, slot: slot}
			if from != none {
				e.from = from
			}
			t := &twins[c.twins[c.nodes[to].group]]
			t.edges = append(t.edges, e)
		})
	}
	return sharingHash(twins), true
}

// locate notes the files that twins are in: each file has its own start-up code, and a name.
func (x *Closure) locate(twins []twin) {
	c := x.c
	in := map[int32]int32{0: 0} // files, then their ranks
	file := func(id int32) int32 { return c.linked.Instances[c.nodes[id].instance].File }
	for _, id := range c.order {
		if c.twins[c.nodes[id].group] >= 0 {
			in[file(id)] = 0
		}
	}
	for rank, f := range slices.Sorted(maps.Keys(in)) {
		in[f] = int32(rank)
	}
	for _, id := range c.order {
		n := &c.nodes[id]
		t := c.twins[n.group]
		if t < 0 {
			continue
		}
		files := &twins[t].files
		if need := int(n.member) + 1 - len(*files); need > 0 {
			*files = append(*files, make([]int32, need)...)
		}
		(*files)[n.member] = in[file(id)]
	}
}
