package autoep

import (
	"math/rand/v2"
	"slices"
)

// constraint makes models: those that hold, with something planted.
type constraint struct {
	name string
	// plain is C alone.
	plain bool
	holds func(m *model) bool
	plant func(m *model, r *rand.Rand)
	// finish is done when operators have planted what they need, too.
	finish func(m *model)
}

// constraints are those of RTSCheck's Table II, and some of C and C++.
var constraints = []constraint{
	// No constraints.
	{name: "JD1"},
	// A class with a method and a superclass.
	{name: "JD2", holds: anyClass(func(m *model, c *class) bool {
		return c.base != "" && len(c.methods) > 0
	})},
	// A class with a method and a subclass.
	{name: "JD3", holds: anyClass(func(m *model, c *class) bool {
		return len(c.methods) > 0 && m.hasSubclass(c)
	})},
	// A class with a field and a superclass.
	{name: "JD4", holds: anyClass(func(m *model, c *class) bool {
		return c.base != "" && len(c.fields) > 0
	})},
	// A class with a method and a field.
	{name: "JD5", holds: anyClass(func(m *model, c *class) bool {
		return len(c.methods) > 0 && len(c.fields) > 0
	})},
	// Some inheritance.
	{name: "JD6", holds: anyClass(func(m *model, c *class) bool { return c.base != "" })},
	// Some method.
	{name: "JD7", holds: anyClass(func(m *model, c *class) bool { return len(c.methods) > 0 })},
	// Some field.
	{name: "JD8", holds: anyClass(func(m *model, c *class) bool { return len(c.fields) > 0 })},
	// A method that calls a method.
	{name: "JD9", holds: anyTerm(term.calls)},
	// A field and an access to it.
	{name: "JD10", holds: anyTerm(func(t term) bool { return t.op == opField || t.op == opStore })},

	// Templates of functions and classes, used in two units.
	{name: "T1", plant: plantTemplates},
	// Units are in namespaces.
	{name: "N1", finish: func(m *model) {
		for i, u := range m.units {
			if !u.c && !u.alone && u.outside == "" && len(u.usings) == 0 {
				u.ns = []string{"n0", "n1", "n0::in"}[i%3]
			}
		}
	}},
	// Globals with initialisers that depend on those of other units.
	{name: "G1", plant: plantGlobals},
	// Tables of function pointers.
	{name: "F1", plant: plantTable},
	// Bodies are in headers, where they may.
	{name: "H1", finish: func(m *model) {
		m.bodies(func(u *unit, c *class, f *function) {
			f.inline = f.inline || !f.private && !f.weak && f.at == "" && u.outside == ""
		})
	}},
	// Classes have a virtual function that tells them apart, as do virtual bases.
	{name: "V1", plant: func(m *model, r *rand.Rand) {
		for i, c := range m.classes() {
			if c.method("who", "") == nil && r.IntN(4) > 0 {
				c.methods = append(c.methods, &function{name: "who", param: "int", virtual: true, body: []term{num(100 + i)}})
			}
			c.vbase = c.vbase || c.base != "" && r.IntN(2) == 0
		}
	}},
	// All libraries are shared.
	{name: "S1", plant: func(m *model, r *rand.Rand) {
		for _, l := range m.libs {
			l.shared = true
		}
	}},
	// Plain C.
	{name: "C1", plain: true},
	// C++ that calls a unit of C.
	{name: "M1", plant: func(m *model, r *rand.Rand) {
		c := &unit{name: "z", c: true, globals: []*global{{name: "gz", typ: "int", k: 3}}}
		c.functions = []*function{
			{name: "hidden", param: "int", static: true, body: []term{num(21), {op: opCount, k: 1}}},
			{name: "z0", param: "int", body: []term{{op: opCall, of: "z", name: "hidden"}, {op: opGlobal, of: "z", name: "gz"}}},
			{name: "z1", param: "int", inline: true, body: []term{num(22), {op: opSet, of: "z", name: "gz", k: 1}}},
		}
		m.addUnit(c)
		m.use(r, 2, term{op: opCall, of: "z", name: "z0"})
		m.use(r, 1, term{op: opCall, of: "z", name: "z1"})
	}},
}

func anyClass(is func(m *model, c *class) bool) func(m *model) bool {
	return func(m *model) bool {
		return slices.ContainsFunc(m.classes(), func(c *class) bool { return is(m, c) })
	}
}

// anyTerm reports whether a term of a method is something.
func anyTerm(is func(t term) bool) func(m *model) bool {
	return func(m *model) (found bool) {
		m.bodies(func(_ *unit, c *class, f *function) {
			for _, t := range f.body {
				found = found || c != nil && is(t)
			}
		})
		return found
	}
}

func (m *model) hasSubclass(c *class) bool {
	return slices.ContainsFunc(m.classes(), func(s *class) bool { return s.base == c.name })
}

func plantTemplates(m *model, r *rand.Rand) {
	u := m.unit("u")
	if len(u.templates) > 0 {
		return
	}
	u.templates = append(u.templates,
		&template{name: "pick", body: []term{{op: opParam}, num(31)}, specs: []specialisation{{"long", 5}}},
		&template{name: "Trait", class: true, body: []term{num(41)}})
	m.use(r, 2, term{op: opFuncT, of: "u", name: "pick", arg: "int"})
	m.use(r, 1, term{op: opFuncT, of: "u", name: "pick", arg: "long"})
	m.use(r, 2, term{op: opClassT, of: "u", name: "Trait", arg: "int"})
}

func plantGlobals(m *model, r *rand.Rand) {
	if m.unit("u").global("dyn_u") != nil {
		return
	}
	var before string
	var of *unit
	for i, u := range m.units {
		if u.alone || u.c || u.outside != "" {
			continue
		}
		g := &global{name: "dyn_" + u.name, typ: "int", init: []term{num(50 + i)}}
		if len(u.functions) > 0 && i%2 == 0 {
			g.init = append(g.init, term{op: opCall, of: u.name, name: u.functions[0].name})
		}
		if of != nil {
			g.init = append(g.init, term{op: opGlobal, of: of.name, name: before})
		}
		g.inline = m.early(u, g.init) && r.IntN(4) == 0
		u.globals = append(u.globals, g)
		before, of = g.name, u
	}
	m.use(r, 2, term{op: opGlobal, of: of.name, name: before})
}

func plantTable(m *model, r *rand.Rand) {
	last := m.units[len(m.units)-1]
	var entries [][2]string
	for _, u := range m.units {
		for _, f := range u.functions {
			if callable(f) && f.second == 0 && u.lib <= last.lib && u.outside == "" {
				entries = append(entries, [2]string{u.name, f.name})
			}
		}
	}
	r.Shuffle(len(entries), func(i, k int) { entries[i], entries[k] = entries[k], entries[i] })
	last.globals = append(last.globals, &global{name: "table", typ: "int", table: entries[:2]})
	last.functions = append(last.functions, &function{name: "through", param: "int", body: []term{
		num(3), {op: opTable, of: last.name, name: "table"}, {op: opParam},
	}})
}
