package refgraph

import (
	"cmp"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/linkmodel"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// Names of additions.
const (
	Order    = "order of addresses"
	Literals = "order of literals"
	Whole    = "whole program"
)

// addOrder adds in which order in memory is what the program orders by its address, and all objects,
// if it reads its own file.
func (x *Closure) addOrder() {
	c := x.c
	askers := func(what string) []user {
		id := c.pool.Symbols.Lookup(what)
		if id == linkmodel.None {
			return nil
		}
		return c.usersOf(map[linkmodel.Symbol]bool{id: true})
	}
	asks := func(what string) bool { return len(askers(what)) > 0 }
	kinds := [manifest.PlaceKinds]bool{manifest.PlaceTypes: true, manifest.PlaceOtherTypes: asks(manifest.OrderOfTypes)}
	if h, ok := x.orderHash(kinds); ok {
		x.addHash("order of types", h)
	}
	if asks(manifest.OrderOfVariables) {
		kinds[manifest.PlaceVariables], kinds[manifest.PlaceFunctions] = true, asks(manifest.OrderOfFunctions)
		if h, ok := x.orderHash(kinds); ok {
			x.addHash(Order, h)
		}
	}
	if users := askers(manifest.OrderOfLiterals); len(users) > 0 {
		rank := ranks(users, nil)
		b := frame.New("tasting literals 1")
		for _, in := range c.linked.Instances {
			if n := rank(in.File); n >= 0 {
				b.Int(n)
				b.Bytes(c.pool.units[in.Unit].literals)
			}
		}
		x.addHash(Literals, b.Sum())
	}
	if x.readsItself = asks(manifest.OwnProgram); x.readsItself {
		b := frame.New("tasting whole program 1")
		for _, in := range c.linked.Instances {
			b.Int(int(in.File))
			b.Bytes(c.pool.units[in.Unit].content)
		}
		x.addHash(Whole, b.Sum())
	}
}

// orderHash says in which order components of some kinds are, if there are several: linkers put them
// into a file in the order of its units, and loaders put files into memory in their order.
func (x *Closure) orderHash(kinds [manifest.PlaceKinds]bool) (h Hash, several bool) {
	c := x.c
	file := func(id int32) int32 { return c.linked.Instances[c.nodes[id].instance].File }
	type ref struct{ hash, member int32 }
	count := map[ref]int{}
	var list, files []int32
	for _, id := range c.order {
		if kinds[c.comp(id).place%manifest.PlaceKinds] {
			list, files = append(list, id), append(files, file(id))
			count[ref{c.nodes[id].hash, c.nodes[id].member}]++
		}
	}
	if len(list) < 2 {
		return Hash{}, false
	}
	slices.SortFunc(list, func(a, b int32) int {
		return cmp.Or(cmp.Compare(c.nodes[a].instance, c.nodes[b].instance), cmp.Compare(c.comp(a).place, c.comp(b).place))
	})
	var place []int32
	if len(count) < len(list) { // what refers to them tells equal ones apart
		_, place = x.walk()
	}
	rank := ranks(nil, files)
	b := frame.New("tasting order 1")
	b.Int(len(list))
	for _, id := range list {
		b.Int(rank(file(id)))
		c.writeRef(&b, id)
		if count[ref{c.nodes[id].hash, c.nodes[id].member}] > 1 {
			b.Int(int(place[id]))
		}
	}
	return b.Sum(), true
}
