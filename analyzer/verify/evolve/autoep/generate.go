package autoep

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Within the bound there are three classes: who is whose base, fields f0 and f1, a method m0 in one of
// three shapes, and what methods do. That is 41472 models, in an order.
const (
	boundClasses = 3
	boundBases   = 1 * 2 * 3
	boundFields  = 3 * 3 * 3
	boundMethods = 4 * 4 * 4
	boundBodies  = 4
	bound        = boundBases * boundFields * boundMethods * boundBodies
	// stride has no divisor in common with the bound, so that all of it is visited, and takes
	// it evenly: it is about the golden ratio of it.
	stride = 25633
)

var methodNames = []string{"m0", "m1", "who"}

// source is where models of a constraint come from: within the bound for three of four ids, otherwise
// random ones. All that isn't about classes is up to the id alone.
type source struct {
	*constraint
	// start is a number within the bound.
	start int
	id    uint64
	// found are the numbers of models that hold, relative to the first one looked at.
	found []int
}

// model makes a model that holds, or with skip a later one.
func (s *source) model(skip int) *model {
	shape := rand.New(rand.NewPCG(s.id, 1<<32))
	if s.plain {
		return plainModel(rand.New(rand.NewPCG(s.id, uint64(skip))), shape)
	}
	n := boundClasses
	if s.beyond() {
		n += int(s.id / 4 % 3)
	}
	m := skeleton(n, shape)
	i := 0
	if len(s.found) > 0 {
		i = s.found[len(s.found)-1] + 1
	}
	for ; len(s.found) <= skip; i++ {
		if s.fill(m, i); s.holds == nil || s.holds(m) {
			s.found = append(s.found, i)
		}
	}
	s.fill(m, s.found[skip])
	m.inlines(rand.New(rand.NewPCG(s.id, 1<<33)))
	m.addCallers()
	return m
}

// beyond reports whether models aren't of the enumeration.
func (s *source) beyond() bool { return s.id%4 == 3 }

// fill makes the classes of the i-th model.
func (s *source) fill(m *model, i int) {
	for _, c := range m.classes() {
		*c = class{name: c.name}
	}
	if s.beyond() {
		m.randomClasses(rand.New(rand.NewPCG(s.id, uint64(i))))
	} else {
		m.boundedClasses((s.start + i) % bound)
	}
}

// skeleton is a unit u that others use, and units with a class each, in two or three libraries.
func skeleton(classes int, r *rand.Rand) *model {
	m := &model{units: []*unit{{name: "u"}}}
	libs := 2 + r.IntN(2)
	shared := 0
	if r.IntN(3) == 0 { // what a shared library needs is shared, too
		shared = 1 + r.IntN(libs)
	}
	for i := range libs {
		m.libs = append(m.libs, &library{name: fmt.Sprint("l", i), shared: i < shared})
	}
	for i := range classes {
		name := string(rune('a' + i))
		m.units = append(m.units, &unit{name: name, lib: i * libs / classes, classes: []*class{{name: strings.ToUpper(name)}}})
	}
	m.unit("u").functions = []*function{{name: "u0", param: "int", body: []term{num(2), {op: opParam}}}}
	return m
}

// addUnit adds one in front, which all others know.
func (m *model) addUnit(u *unit) { m.units = slices.Insert(m.units, 0, u) }

// boundedClasses fills in the classes of a model by its number. What constraints ask for changes
// often as numbers go up, so that the next one that holds is near.
func (m *model) boundedClasses(index int) {
	digit := func(n int) int {
		d := index % n
		index /= n
		return d
	}
	cs := m.classes()
	kind := digit(boundBodies)
	for i, c := range cs {
		for k := range digit(3) {
			c.fields = append(c.fields, &field{name: fieldNames[k], typ: "int", k: 10*i + k + 1})
		}
	}
	for i, c := range cs {
		if b := digit(i + 1); b > 0 {
			c.base = cs[b-1].name
		}
	}
	for _, c := range cs {
		switch digit(4) {
		case 1:
			c.methods = []*function{{name: "m0", param: "int"}}
		case 2:
			c.methods = []*function{{name: "m0", param: "int", virtual: true}}
		case 3:
			c.methods = []*function{{name: "m0", param: "long"}}
		}
	}
	for i, c := range cs {
		for _, f := range c.methods {
			f.body = []term{num(10*i + 7)}
			switch base, _ := m.class(c.base); (kind + i) % boundBodies {
			case 0:
				f.body = append(f.body, term{op: opParam})
			case 1:
				f.body = append(f.body, m.fieldTerms(c)...)
			case 2:
				o := cs[(i+1)%len(cs)]
				f.body = append(f.body, m.firstSound(c, term{op: opObject, of: o.name, name: "m0"}, term{op: opSelf, name: "m0"}))
			case 3:
				t := term{op: opParam}
				if base != nil {
					t = term{op: opSuper, of: base.name, name: "m0"}
				}
				f.body = append(f.body, m.firstSound(c, t, term{op: opSelf, name: "m0"}))
			}
		}
	}
}

// fieldTerms access a field, if there is one.
func (m *model) fieldTerms(c *class) []term {
	for _, name := range fieldNames {
		if m.hasField(c, name) {
			return []term{{op: opStore, name: name, k: 1}, {op: opField, name: name}}
		}
	}
	return []term{{op: opParam}}
}

// firstSound is the first of terms that a method may have.
func (m *model) firstSound(c *class, ts ...term) term {
	_, u := m.class(c.name)
	for _, t := range ts {
		if m.soundTerm(u, c, t) {
			return t
		}
	}
	return term{op: opParam}
}

// randomClasses fills in classes at random, beyond the bound.
func (m *model) randomClasses(r *rand.Rand) {
	cs := m.classes()
	for i, c := range cs {
		if i > 0 && r.IntN(3) > 0 {
			c.base, c.vbase = cs[r.IntN(i)].name, r.IntN(6) == 0
		}
		for k, name := range fieldNames {
			if r.IntN(2) == 0 {
				typ := []string{"int", "int", "short", "signed char", "unsigned char"}[r.IntN(5)]
				c.fields = append(c.fields, &field{name: name, typ: typ, k: 10*i + k + 1, static: r.IntN(8) == 0})
			}
		}
		for _, name := range methodNames {
			for _, param := range []string{"int", "long"} {
				if r.IntN(3) > 0 {
					continue
				}
				f := &function{name: name, param: param, virtual: r.IntN(2) == 0 || name == "who"}
				if r.IntN(5) == 0 {
					f.deflt = 1 + r.IntN(3)
				}
				c.methods = append(c.methods, f)
			}
		}
	}
	for i, c := range cs {
		for _, f := range c.methods {
			f.body = []term{num(10*i + r.IntN(10))}
			for range 1 + r.IntN(2) {
				f.body = append(f.body, m.randomTerms(c, r)...)
			}
		}
	}
}

func (m *model) randomTerms(c *class, r *rand.Rand) []term {
	cs := m.classes()
	other := cs[r.IntN(len(cs))]
	name := methodNames[r.IntN(len(methodNames))]
	calls := []term{{op: opSelf, name: name}, {op: opObject, of: other.name, name: name}}
	if c.base != "" {
		calls = append(calls, term{op: opSuper, of: c.base, name: name})
	}
	if other.base != "" {
		calls = append(calls, term{op: opUpcast, of: other.base, name: name, arg: other.name})
	}
	switch r.IntN(7) {
	case 0:
		return []term{{op: opCount, k: 1 + r.IntN(9)}}
	case 1, 2:
		return m.fieldTerms(c)
	case 3:
		return []term{m.firstSound(c, term{op: opBase, of: cs[0].name, arg: other.name}, term{op: opParam})}
	}
	return []term{m.firstSound(c, calls[r.IntN(len(calls))], num(r.IntN(100)))}
}

// inlines decides which methods are inline; it takes as many random numbers for each class.
func (m *model) inlines(r *rand.Rand) {
	for _, c := range m.classes() {
		inline := r.IntN(3) == 0
		for _, f := range c.methods {
			f.inline = inline
		}
	}
}

// addCallers gives each unit free functions that use its class, and the unit before.
func (m *model) addCallers() {
	for i, u := range m.units {
		if i == 0 {
			continue
		}
		f := &function{name: u.name + "0", param: "int", body: []term{num(i)}}
		c := u.classes[0]
		for _, name := range methodNames {
			if m.lookup(c, name) != nil {
				f.body = append(f.body, term{op: opObject, of: c.name, name: name})
			}
			if base, _ := m.class(c.base); base != nil && m.lookup(base, name) != nil {
				f.body = append(f.body, term{op: opUpcast, of: base.name, arg: c.name, name: name})
			}
		}
		g := &function{name: u.name + "1", param: "int", inline: i%2 == 0, body: []term{num(i + 3), {op: opParam}}}
		if i%3 == 2 {
			o := m.units[i-1]
			g.body = append(g.body, term{op: opCall, of: o.name, name: o.functions[0].name})
		}
		u.functions = append(u.functions, f, g)
	}
}

// plainModel is one of C. Only what is in functions depends on r, the rest on shape.
func plainModel(r, shape *rand.Rand) *model {
	m := skeleton(3+shape.IntN(2), shape)
	m.plain = true
	for _, u := range m.units {
		u.classes = nil
		if u.name == "u" {
			continue
		}
		u.globals = []*global{{name: "g" + u.name, typ: "int", k: 1 + r.IntN(9)}, {name: "s" + u.name, typ: "int", k: r.IntN(9), static: true}}
		for k := range 2 + shape.IntN(2) {
			u.functions = append(u.functions, &function{name: fmt.Sprint(u.name, k), param: "int", inline: shape.IntN(4) == 0, static: k == 2})
		}
	}
	for _, u := range m.units[1:] {
		for _, f := range u.functions {
			f.body = []term{num(r.IntN(100))}
			for range 2 + r.IntN(2) {
				o := m.units[r.IntN(len(m.units))]
				t := []term{
					{op: opCall, of: o.name, name: o.functions[r.IntN(len(o.functions))].name},
					{op: opGlobal, of: u.name, name: "s" + u.name},
					{op: opSet, of: u.name, name: "g" + u.name, k: 1},
					{op: opSet, of: u.name, name: "s" + u.name, k: 2},
					{op: opCount, k: 1},
				}[r.IntN(5)]
				if !m.soundTerm(u, nil, t) {
					t = term{op: opParam}
				}
				f.body = append(f.body, t)
			}
		}
	}
	return m
}

// use puts a term into functions of n units that may have it. Terms of a body that is bound to its
// source are for functions that are there.
func (m *model) use(r *rand.Rand, n int, t term) {
	var places [][]*function
	for _, u := range m.units {
		if u.c && !m.plain || u.outside != "" || !m.soundTerm(u, nil, t) {
			continue
		}
		var list []*function
		for _, f := range u.functions {
			if callable(f) && !f.weak && (!t.bound() || !f.inline) && f.second == 0 && !leaf(f) {
				list = append(list, f)
			}
		}
		if len(list) > 0 {
			places = append(places, list)
		}
	}
	r.Shuffle(len(places), func(i, k int) { places[i], places[k] = places[k], places[i] })
	for _, list := range places[:min(n, len(places))] {
		f := list[r.IntN(len(list))]
		f.body = append([]term{t}, f.body...)
	}
}

// leaf reports whether a function is one that something planted is about.
func leaf(f *function) bool { return strings.HasPrefix(f.name, "leaf") }
