package autoep

import (
	"math/rand/v2"
	"slices"
)

// classOperators change classes and what calls mean.
var classOperators = []operator{
	// A subclass gets a method that its base has.
	{name: "override", edits: func(m *model) []func() {
		return m.inherited(func(c *class, f *function) func() {
			return func() {
				c.methods = append(c.methods, &function{name: f.name, param: f.param, virtual: f.virtual, body: []term{num(61), {op: opParam}}})
			}
		})
	}},
	// A subclass gets a field that its base has.
	{name: "hide", edits: func(m *model) (es []func()) {
		for _, c := range m.classes() {
			for _, b := range m.lineage(c)[1:] {
				for _, f := range b.fields {
					if c.field(f.name) == nil {
						es = append(es, func() { c.fields = append(c.fields, &field{name: f.name, typ: "int", k: 77}) })
					}
				}
			}
		}
		return es
	}},
	// A method becomes virtual, or no longer is.
	{name: "virtual", edits: func(m *model) []func() {
		return m.eachMethod(func(c *class, f *function) []func() {
			return []func(){func() { f.virtual = !f.virtual }}
		})
	}},
	// An overload or a template is added that matches better.
	{name: "overload", edits: func(m *model) []func() {
		return m.eachMethod(func(c *class, f *function) (es []func()) {
			for _, param := range []string{"int", "T"} {
				if f.param == "long" && c.method(f.name, param) == nil {
					es = append(es, func() {
						c.methods = append(c.methods, &function{name: f.name, param: param, body: []term{num(62), {op: opParam}}})
					})
				}
			}
			return es
		})
	}, plant: func(m *model, r *rand.Rand) {
		m.somewhere(r, &function{name: "m0", param: "long", body: []term{num(63)}})
	}},
	// A method becomes a static one.
	{name: "static", effect: seldom, edits: func(m *model) []func() {
		return m.eachMethod(func(c *class, f *function) (es []func()) {
			if f.virtual || f.param == "T" || slices.ContainsFunc(f.body, func(t term) bool {
				return slices.Contains([]string{opField, opStore, opSelf, opSuper}, t.op)
			}) {
				return nil
			}
			return append(es, func() { f.static = !f.static })
		})
	}},
	// A class gets a virtual destructor.
	{name: "vdtor", edits: func(m *model) []func() {
		return m.eachClass(func(c *class) []func() { return []func(){func() { c.vdtor = true }} })
	}, plant: func(m *model, r *rand.Rand) { m.useClass(r, opPoly); m.useClass(r, opSize) }},
	// A base becomes a virtual one, or no longer is.
	{name: "vbase", edits: func(m *model) []func() {
		return m.eachClass(func(c *class) (es []func()) {
			if c.base != "" {
				es = append(es, func() { c.vbase = !c.vbase })
			}
			return es
		})
	}, plant: func(m *model, r *rand.Rand) { m.useClass(r, opSize) }},
	// Fields change places, or there is one more, or alignment.
	{name: "layout", plain: true, edits: func(m *model) []func() {
		return m.eachClass(func(c *class) []func() {
			es := []func(){
				func() { c.align = 16 },
				func() { c.fields = append([]*field{{name: "pad", typ: "char"}}, c.fields...) },
			}
			if len(c.fields) > 1 {
				es = append(es, func() { slices.Reverse(c.fields) })
			}
			return es
		})
	}, plant: func(m *model, r *rand.Rand) {
		if m.plain {
			u := m.unit("u")
			u.classes = append(u.classes, &class{name: "S", fields: []*field{{name: "f0", typ: "int"}, {name: "f1", typ: "char"}, {name: "f2", typ: "short"}}})
		}
		m.useClass(r, opSize)
		m.useClass(r, opAlign)
	}},
	// A field gets another type.
	{name: "type", edits: func(m *model) []func() {
		return m.eachClass(func(c *class) (es []func()) {
			for _, f := range c.fields {
				for _, typ := range []string{"signed char", "unsigned char", "short", "long"} {
					if f.typ != typ && !f.static {
						es = append(es, func() { f.typ = typ })
					}
				}
			}
			return es
		})
	}},
	// A using-declaration in a class shows the base's overloads.
	{name: "unhide", edits: func(m *model) []func() {
		return m.inheritedAny(func(c *class, f *function) func() {
			if c.method(f.name, "") == nil || c.method(f.name, "int") != nil || f.param != "int" || slices.Contains(c.usings, f.name) {
				return nil
			}
			return func() { c.usings = append(c.usings, f.name) }
		})
	}},
	// A body moves into the header or out of it, or changes there.
	{name: "inline", plain: true, edits: func(m *model) (es []func()) {
		m.bodies(func(u *unit, _ *class, f *function) {
			if callable(f) && u.outside == "" && !u.alone && !f.weak && f.at == "" {
				es = append(es, func() { f.inline = !f.inline })
			}
			if f.inline {
				es = append(es, func() { f.body = append(f.body, num(64)) })
			}
		})
		return es
	}, plant: func(m *model, r *rand.Rand) {
		u := m.unit("u")
		u.functions = append(u.functions, &function{name: "leaf_in", param: "int", inline: true, body: []term{num(65), {op: opParam}}})
		m.use(r, 2, term{op: opCall, of: "u", name: "leaf_in"})
	}},
	// A default argument in a header.
	{name: "defarg", edits: func(m *model) (es []func()) {
		m.bodies(func(u *unit, _ *class, f *function) {
			if f.deflt > 0 {
				es = append(es, func() { f.deflt = f.deflt%3 + 1 })
			}
			if f.second > 0 {
				es = append(es, func() { f.second += 4 })
			}
		})
		return es
	}, plant: func(m *model, r *rand.Rand) {
		u := m.unit("u")
		u.functions = append(u.functions, &function{name: "leaf_two", param: "int", second: 3, body: []term{num(66), {op: opSecond}}})
		m.use(r, 2, term{op: opCall, of: "u", name: "leaf_two"})
		for _, c := range m.classes() {
			for _, f := range c.methods {
				if c.method(f.name, "") == f && r.IntN(2) == 0 {
					f.deflt = 1 + r.IntN(3)
				}
			}
		}
	}},
}

func (m *model) eachClass(f func(c *class) []func()) (es []func()) {
	for _, c := range m.classes() {
		es = append(es, f(c)...)
	}
	return es
}

func (m *model) eachMethod(f func(c *class, fn *function) []func()) []func() {
	return m.eachClass(func(c *class) (es []func()) {
		for _, fn := range c.methods {
			es = append(es, f(c, fn)...)
		}
		return es
	})
}

// inheritedAny returns edits for the methods that classes inherit.
func (m *model) inheritedAny(edit func(c *class, f *function) func()) []func() {
	return m.eachClass(func(c *class) (es []func()) {
		for _, b := range m.lineage(c)[1:] {
			for _, f := range b.methods {
				if e := edit(c, f); e != nil {
					es = append(es, e)
				}
			}
		}
		return es
	})
}

// inherited leaves out what the class has as well.
func (m *model) inherited(edit func(c *class, f *function) func()) []func() {
	return m.inheritedAny(func(c *class, f *function) func() {
		if c.method(f.name, f.param) != nil || f.param == "T" {
			return nil
		}
		return edit(c, f)
	})
}

// somewhere gives a class a method, if it has none of the name, and its unit's function a call.
func (m *model) somewhere(r *rand.Rand, f *function) {
	cs := m.classes()
	c := cs[r.IntN(len(cs))]
	if c.method(f.name, "") == nil {
		c.methods = append(c.methods, f)
		m.use(r, 1, term{op: opObject, of: c.name, name: f.name})
	}
}

// useClass adds a term about each class to a function.
func (m *model) useClass(r *rand.Rand, op string) {
	for _, c := range m.classes() {
		m.use(r, 1, term{op: op, of: c.name})
	}
}
