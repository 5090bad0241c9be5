package autoep

import "slices"

// sound reports whether a model compiles, as far as is easily told. What isn't, the compiler tells.
func (m *model) sound() bool {
	ok := true
	for _, u := range m.units {
		for _, c := range u.classes {
			ok = ok && m.soundClass(u, c)
		}
		for _, g := range u.globals {
			ok = ok && m.soundGlobal(u, g)
		}
	}
	m.bodies(func(u *unit, c *class, f *function) {
		for _, t := range f.body {
			ok = ok && m.soundTerm(u, c, t)
		}
		ok = ok && (f.param != "T" || !slices.ContainsFunc(f.body, func(t term) bool { return !m.early(u, []term{t}) }))
	})
	for _, t := range m.tests {
		ok = ok && m.soundTest(t)
	}
	return ok
}

func (m *model) soundClass(u *unit, c *class) bool {
	if c.base != "" {
		base, bu := m.class(c.base)
		if base == nil || slices.Index(m.units, bu) > slices.Index(m.units, u) || bu.lib > u.lib {
			return false
		}
	}
	for i, f := range c.fields {
		if slices.ContainsFunc(c.fields[:i], func(o *field) bool { return o.name == f.name }) {
			return false
		}
	}
	lineage := m.lineage(c)[1:]
	for i, f := range c.methods {
		if slices.ContainsFunc(c.methods[:i], func(o *function) bool { return o.name == f.name && o.param == f.param }) {
			return false
		}
		for _, b := range lineage {
			if o := b.method(f.name, f.param); o != nil && o.virtual && f.static {
				return false
			}
		}
	}
	for _, name := range c.usings {
		if len(lineage) == 0 || m.lookup(lineage[0], name) == nil {
			return false
		}
	}
	return true
}

func (m *model) soundGlobal(u *unit, g *global) bool {
	for _, t := range g.init {
		if !m.soundTerm(u, nil, t) {
			return false
		}
	}
	for _, e := range g.table {
		o := m.unit(e[0])
		if o == nil || o.lib > u.lib || o.function(e[1]) == nil {
			return false
		}
	}
	return true
}

// soundTerm reports whether a term of a function of u, or of a method of c, means something.
func (m *model) soundTerm(u *unit, c *class, t term) bool {
	if t.of != "" {
		os := m.owners(t)
		if len(os) == 0 || t.op == opBase && len(os) < 2 || slices.ContainsFunc(os, func(o *unit) bool {
			return o.lib > u.lib || u.c && !o.c && !m.plain
		}) {
			return false
		}
	}
	has := func(class, method string) bool {
		c, _ := m.class(class)
		return c != nil && m.lookup(c, method) != nil
	}
	switch t.op {
	case opField, opStore:
		return c != nil && m.hasField(c, t.name)
	case opSelf:
		return c != nil && m.lookup(c, t.name) != nil
	case opSuper:
		return c != nil && c.name != t.of && m.isBase(t.of, c.name) && has(t.of, t.name)
	case opObject:
		return has(t.of, t.name)
	case opUpcast:
		return m.isBase(t.of, t.arg) && has(t.of, t.name)
	case opCall, opBare, opFar:
		o := m.unit(t.of)
		f := o.function(t.name)
		return f != nil && (o == u || !f.static && !f.private)
	case opGlobal, opSet, opTable, opAlignG:
		o := m.unit(t.of)
		g := o.global(t.name)
		return g != nil && (o == u || !g.static) && !(t.op == opSet && g.constant)
	case opLocal:
		return slices.ContainsFunc(u.classes, func(c *class) bool { return c.anonymous && c.method(t.name, "") != nil })
	}
	return true
}

func (m *model) soundTest(t *test) bool {
	for _, o := range t.objects {
		if c, _ := m.class(o.class); c == nil || o.as != "" && !m.isBase(o.as, o.class) {
			return false
		}
	}
	for _, s := range t.steps {
		if s.object < 0 {
			if u := m.unit(s.unit); u == nil || u.function(s.name) == nil {
				return false
			}
			continue
		}
		o := t.objects[s.object]
		c, _ := m.class(o.as)
		if o.as == "" {
			c, _ = m.class(o.class)
		}
		overloads := m.overloads(c, s.name)
		if len(overloads) == 0 {
			return false
		}
		if s.arg == "" && len(withDefault(overloads)) != 1 {
			return false
		}
	}
	return true
}

// withDefault are those that can be called without an argument.
func withDefault(fs []*function) (some []*function) {
	for _, f := range fs {
		if f.deflt > 0 {
			some = append(some, f)
		}
	}
	return some
}
