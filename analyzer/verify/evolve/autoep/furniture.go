package autoep

import (
	"math/rand/v2"
	"slices"
)

// furnitureOperators change what they have planted: what else there is in C and C++.
var furnitureOperators = []operator{
	// A macro in a header that two units use.
	{name: "macro", plain: true, plant: plantMacros, edits: func(m *model) (es []func()) {
		for _, d := range m.unit("u").macros {
			es = append(es, func() { d.k += 5 })
		}
		return es
	}},
	// An enumerator is put in front, or gets a value.
	{name: "enum", plain: true, plant: func(m *model, r *rand.Rand) {
		u := m.unit("u")
		u.enums = append(u.enums, enumerator{"EN0", -1}, enumerator{"EN1", 4}, enumerator{"EN2", -1})
		m.use(r, 2, term{op: opEnum, of: "u", name: "EN0"})
		m.use(r, 2, term{op: opEnum, of: "u", name: "EN2"})
	}, edits: func(m *model) []func() {
		u := m.unit("u")
		return []func(){
			func() { u.enums = append([]enumerator{{"EN", -1}}, u.enums...) },
			func() { u.enums[1].value += 5 },
			func() { u.enums = slices.Insert(u.enums, 2, enumerator{"EN", -1}) },
		}
	}},
	// The initialiser of a global, or its value.
	{name: "init", plain: true, plant: func(m *model, r *rand.Rand) {
		if m.plain {
			m.unit("u").globals = append(m.unit("u").globals, &global{name: "start", typ: "int", k: 12})
			m.use(r, 2, term{op: opGlobal, of: "u", name: "start"})
			return
		}
		plantGlobals(m, r)
	}, edits: func(m *model) (es []func()) {
		for _, g := range m.globals() {
			if len(g.init) > 0 {
				es = append(es, func() { g.init[0].k += 200 }, func() { g.init = append(g.init, num(3)) })
			} else if len(g.table) == 0 {
				es = append(es, func() { g.k += 200 })
			}
		}
		return es
	}},
	// Sources of a library, or globals of a unit, are in another order, and so start-up is.
	{name: "order", plant: plantGlobals, edits: func(m *model) []func() {
		es := m.eachLibrary(func(l *library) { l.backwards = !l.backwards })
		for _, u := range m.units {
			if len(u.globals) > 1 {
				es = append(es, func() { slices.Reverse(u.globals) })
			}
		}
		return es
	}},
	// A function becomes a constructor, or no longer is.
	{name: "boot", plain: true, plant: func(m *model, r *rand.Rand) {
		u := m.units[len(m.units)-1]
		u.globals = append(u.globals, &global{name: "booted", typ: "int", k: 1})
		u.boots = append(u.boots, &boot{global: "booted", k: 30, constructor: r.IntN(2) == 0})
		f := u.functions[0]
		f.body = append(f.body, term{op: opGlobal, of: u.name, name: "booted"})
	}, edits: func(m *model) (es []func()) {
		for _, u := range m.units {
			for _, b := range u.boots {
				es = append(es, func() { b.constructor = !b.constructor })
			}
		}
		return es
	}},
	// What another thread executes.
	{name: "thread", plain: true, plant: func(m *model, _ *rand.Rand) { m.plantFar("thread") }, edits: editFar("leaf_thread")},
	// What a forked child executes.
	{name: "child", plain: true, plant: func(m *model, _ *rand.Rand) { m.plantFar("child") }, edits: editFar("leaf_child")},
	// What a resolver executes when the program is loaded.
	{name: "resolver", plain: true, plant: func(m *model, _ *rand.Rand) {
		u := m.unit("u")
		u.functions = append(u.functions,
			&function{name: "leaf_which", param: "int", static: true, body: []term{num(93)}},
			&function{name: "leaf_chosen", param: "int", private: true, chooser: "leaf_which", body: []term{num(94), {op: opParam}}})
		f := u.functions[0]
		f.body = append([]term{{op: opCall, of: u.name, name: "leaf_chosen"}}, f.body...)
	}, edits: editFar("leaf_which")},
	// A specialisation is added, changed or removed.
	{name: "spec", plant: plantTemplates, edits: func(m *model) (es []func()) {
		for _, t := range m.unit("u").templates {
			es = append(es, func() {
				if len(t.specs) > 0 {
					t.specs[0].k += 9
				} else {
					t.specs = []specialisation{{"int", 8}}
				}
			}, func() { t.specs = nil })
			if len(t.specs) > 0 && t.specs[0].typ != "int" {
				es = append(es, func() { t.specs = append(t.specs, specialisation{"int", 33}) })
			}
		}
		return es
	}},
	// The body of a template of which two units have copies.
	{name: "template", plant: plantTemplates, edits: func(m *model) (es []func()) {
		for _, t := range m.unit("u").templates {
			es = append(es, func() { t.body[len(t.body)-1].k += 11 })
		}
		return es
	}},
	// Attributes of alignment, and noinline.
	{name: "attr", effect: seldom, plain: true, plant: func(m *model, r *rand.Rand) {
		u := m.unit("u")
		u.globals = append(u.globals, &global{name: "aligned", typ: "int", k: 14})
		m.use(r, 2, term{op: opAlignG, of: "u", name: "aligned"})
		m.use(r, 1, term{op: opGlobal, of: "u", name: "aligned"})
	}, edits: func(m *model) (es []func()) {
		for _, g := range m.globals() {
			if len(g.table) == 0 {
				es = append(es, func() { g.align = 32 })
			}
		}
		m.bodies(func(u *unit, _ *class, f *function) {
			if u.outside == "" && !f.noinline && len(es) < 3 {
				es = append(es, func() { f.noinline = true })
			}
		})
		return es
	}},
	// A using-directive or -declaration brings in a better match.
	{name: "using", plant: plantPicks, edits: func(m *model) (es []func()) {
		for _, u := range m.units {
			if len(u.usings) > 0 {
				es = append(es,
					func() { u.usings = append(u.usings, "namespace p1") },
					func() { u.usings = append(u.usings, "p1::leaf_pick") },
					func() { u.usings[0] = "namespace p1" })
			}
		}
		return es
	}},
	// Headers are in another order, one more declares a better match, or one exists that was optional.
	{name: "include", plant: plantIncludes, edits: func(m *model) (es []func()) {
		for _, u := range m.units {
			if len(u.includes) > 1 {
				es = append(es, func() { slices.Reverse(u.includes) }, func() { u.includes = append(u.includes, "better") })
			}
			if u.optional != "" && m.unit(u.optional) == nil {
				es = append(es, func() {
					m.addUnit(&unit{name: u.optional, alone: true, macros: []*macro{{name: "OPTIONAL", k: 9}}})
				})
			}
		}
		return es
	}},
	// Two archives have a function, and a test links them the other way round.
	{name: "linkorder", plain: true, plant: func(m *model, r *rand.Rand) {
		for i, name := range []string{"x", "y"} {
			m.addUnit(&unit{name: name, outside: "l" + name, functions: []*function{
				{name: "leaf_both", param: "int", weak: true, private: i > 0, body: []term{num(70 + i), {op: opParam}}},
				{name: "leaf_" + name, param: "int", body: []term{num(73)}},
			}})
		}
	}, edits: func(m *model) (es []func()) {
		for _, t := range m.tests {
			if len(t.deps) > 1 {
				es = append(es, func() { t.deps = []string{t.deps[1], t.deps[0]} })
			}
		}
		for _, u := range m.units {
			if u.outside != "" {
				es = append(es, func() { u.functions[0].body[0].k += 20 })
			}
		}
		return es
	}},
	// Two definitions in a library, weak or not, of which the linker takes one.
	{name: "weak", plain: true, plant: plantWeak, edits: func(m *model) (es []func()) {
		for _, u := range m.units {
			if f := u.function("leaf_weak"); f != nil {
				if es = append(es, func() { f.body[0].k += 20 }); f.private {
					es = append(es, func() { f.weak = false }, func() { m.libs[u.lib].backwards = true })
				}
			}
		}
		return es
	}},
	// Content of a file that tests read, or which one.
	{name: "data", plain: true, plant: func(m *model, r *rand.Rand) {
		m.data = map[string]string{"data/one.txt": "one 1\n", "data/two.txt": "two 2\n", "data/same.txt": "one 1\n"}
		m.use(r, 1+r.IntN(2), term{op: opData, name: "data/one.txt"})
	}, edits: func(m *model) (es []func()) {
		for _, s := range []string{"one 2\n", "one 1 \n", "one 1\nmore\n", ""} {
			es = append(es, func() { m.data["data/one.txt"] = s })
		}
		for _, name := range []string{"data/two.txt", "data/same.txt"} {
			es = append(es, m.eachTerm(opData, func(t *term) { t.name = name })...)
		}
		return es
	}},
	// -D, of a macro with a default, for all or a library; -funsigned-char.
	{name: "flags", plain: true, plant: func(m *model, r *rand.Rand) {
		m.unit("u").macros = append(m.unit("u").macros, &macro{name: "LEVEL", k: 3, guarded: true})
		m.use(r, 3, term{op: opMacro, of: "u", name: "LEVEL"})
		m.use(r, 2, term{op: opChar})
	}, edits: func(m *model) []func() {
		es := []func(){func() { m.flags = append(m.flags, "-DLEVEL=7") }, func() { m.flags = append(m.flags, "-funsigned-char") }}
		for _, f := range []string{"-DLEVEL=8", "-funsigned-char", "-DUNUSED", "-O1"} {
			es = append(es, m.eachLibrary(func(l *library) { l.flags = append(l.flags, f) })...)
		}
		return es
	}},
	// An entry of a table of functions, or their order.
	{name: "fnptr", plain: true, plant: func(m *model, r *rand.Rand) {
		if last := m.units[len(m.units)-1]; last.global("table") == nil {
			plantTable(m, r)
		}
	}, edits: func(m *model) (es []func()) {
		for _, g := range m.globals() {
			if len(g.table) > 1 {
				es = append(es, func() { slices.Reverse(g.table) }, func() { g.table[0] = [2]string{"u", "u0"} }, func() { g.table[1] = g.table[0] })
			}
		}
		return es
	}},
	// Two units have static functions of a name, which change, or swap bodies.
	{name: "twins", plain: true, plant: plantTwins, edits: func(m *model) []func() {
		var fs []*function
		for _, u := range m.units {
			if f := u.function("leaf_twin"); f != nil {
				fs = append(fs, f)
			}
		}
		var es []func()
		for _, f := range fs {
			es = append(es, func() { f.body[0].k++ }, func() { fs[0].body, fs[len(fs)-1].body = fs[len(fs)-1].body, fs[0].body })
		}
		return es
	}},
	// Two static functions of a unit swap callers, or bodies.
	{name: "swap", plain: true, plant: func(m *model, r *rand.Rand) {
		u := m.units[len(m.units)-1]
		for i, name := range []string{"leaf_s", "leaf_t"} {
			u.functions = append(u.functions, &function{name: name, param: "int", static: true, body: []term{num(80 + i), {op: opParam}}})
			f := u.functions[0]
			f.inline = false
			f.body = append([]term{{op: opCall, of: u.name, name: name}}, f.body...)
		}
	}, edits: func(m *model) []func() {
		for _, u := range m.units {
			s, t := u.function("leaf_s"), u.function("leaf_t")
			if s != nil && t != nil {
				b := u.functions[0].body
				return []func(){func() { s.body, t.body = t.body, s.body }, func() { b[0], b[1] = b[1], b[0] }, func() { s.name, t.name = t.name, s.name }}
			}
		}
		return nil
	}},
	// A definition moves to another unit of the library.
	{name: "move", effect: seldom, plain: true, plant: func(m *model, r *rand.Rand) {
		if !m.plain {
			plantGlobals(m, r)
		}
	}, edits: moves},
	// A global becomes a constant, or a string literal or an array of constants changes.
	{name: "rodata", plain: true, plant: func(m *model, r *rand.Rand) {
		u := m.unit("u")
		u.globals = append(u.globals, &global{name: "fixed", typ: "int", k: 15}, &global{name: "other", typ: "char", k: 15})
		m.use(r, 2, term{op: opGlobal, of: "u", name: "fixed"})
		m.use(r, 2, term{op: opGlobal, of: "u", name: "other"})
		m.use(r, 2, term{op: opText, arg: "abcd"})
		m.use(r, 2, term{op: opList, k: 16})
	}, edits: func(m *model) (es []func()) {
		for _, name := range []string{"fixed", "other"} {
			if g := m.unit("u").global(name); g != nil {
				es = append(es, func() { g.constant = true }, func() { g.constant, g.k = true, 16 }, func() { g.typ = "short" })
			}
		}
		for _, s := range []string{"abcde", "abdc", "bbcd"} {
			es = append(es, m.eachTerm(opText, func(t *term) { t.arg = s })...)
		}
		for _, more := range []int{1, 4, 9} {
			es = append(es, m.eachTerm(opList, func(t *term) { t.k += more })...)
		}
		return es
	}},
	// Two units have a class Local in an anonymous namespace, one of which changes.
	{name: "anon", plant: plantAnonymous, edits: func(m *model) (es []func()) {
		for _, u := range m.units {
			for _, c := range u.classes {
				if c.anonymous {
					f := c.methods[0]
					es = append(es, func() { f.body[0].k += 13 }, func() { f.virtual = !f.virtual },
						func() { c.methods = append(c.methods, &function{name: f.name, param: "T", body: []term{num(91)}}) })
				}
			}
		}
		return es
	}},
	// What is thrown has another type or value.
	{name: "throw", plant: func(m *model, r *rand.Rand) {
		m.use(r, 2, term{op: opThrow, arg: "int", k: 4})
	}, edits: func(m *model) []func() {
		es := m.eachTerm(opThrow, func(t *term) { t.arg = "long" })
		es = append(es, m.eachTerm(opThrow, func(t *term) { t.arg = "char" })...)
		return append(es, m.eachTerm(opThrow, func(t *term) { t.k += 2 })...)
	}},
	// A class that is thrown has another base.
	{name: "raise", plant: func(m *model, r *rand.Rand) {
		u := m.unit("u")
		u.classes = append(u.classes, &class{name: "X0"}, &class{name: "X1"}, &class{name: "X2", base: "X0"})
		m.use(r, 3, term{op: opRaise, of: "X2"})
	}, edits: func(m *model) []func() {
		c, _ := m.class("X2")
		return []func(){func() { c.base = "X1" }, func() { c.base = "" }}
	}},
	// A class overrides what is called only as a virtual function, or no longer does.
	{name: "vtable", plant: func(m *model, r *rand.Rand) {
		u := m.unit("u")
		virtual := func(name string, k int) *function {
			return &function{name: name, param: "int", virtual: true, body: []term{num(k)}}
		}
		u.classes = append(u.classes,
			&class{name: "V0", methods: []*function{virtual("key", 92), virtual("act", 93)}},
			&class{name: "V1", base: "V0", methods: []*function{virtual("key", 94)}},
			&class{name: "V2", base: "V0", methods: []*function{virtual("key", 95), virtual("act", 96)}})
		for _, c := range []string{"V1", "V2"} {
			m.use(r, 2, term{op: opUpcast, of: "V0", arg: c, name: "act"})
		}
	}, edits: func(m *model) []func() {
		v1, _ := m.class("V1")
		v2, _ := m.class("V2")
		act := v2.method("act", "int")
		if act == nil { // another operator has made something else of it
			return nil
		}
		return []func(){
			func() { v1.methods = append(v1.methods, act) },
			func() { v2.methods = v2.methods[:1] },
		}
	}},
	// An archive becomes a shared library, or the other way round.
	{name: "shared", effect: seldom, plain: true, edits: func(m *model) (es []func()) {
		for i, l := range m.libs {
			if last := i == len(m.libs)-1 || !m.libs[i+1].shared; last && l.shared {
				es = append(es, func() { l.shared = false })
			}
			if first := i == 0 || m.libs[i-1].shared; first && !l.shared {
				es = append(es, func() { l.shared = true })
			}
		}
		return es
	}},
	// Arguments of a test.
	{name: "args", plain: true, plant: func(m *model, r *rand.Rand) { m.arguments = true }, edits: func(m *model) (es []func()) {
		for _, t := range m.tests {
			es = append(es, func() { t.args = []string{"2"} }, func() { t.args = append(slices.Clone(t.args), "more") })
		}
		return es
	}},
	// A test has one call less or more.
	{name: "test", plain: true, edits: func(m *model) (es []func()) {
		for _, t := range m.tests {
			if n := len(t.steps); n > 0 {
				es = append(es, func() { t.steps = t.steps[:n-1] }, func() { t.steps = append(slices.Clip(t.steps), t.steps[n-1]) })
			}
		}
		return es
	}},
	// Comments move code to other lines, and a function returns its line.
	{name: "line", plain: true, plant: func(m *model, r *rand.Rand) {
		m.use(r, 2, term{op: opLine})
	}, edits: comment},
	// Nothing but comments and blank lines.
	{name: "comment", effect: never, plain: true, edits: comment},
	// Nothing.
	{name: "same", effect: never, plain: true, edits: func(m *model) []func() { return []func(){func() {}} }},
}

func comment(m *model) (es []func()) {
	for _, u := range m.units {
		es = append(es, func() { u.comments++ })
	}
	return es
}

func (m *model) eachLibrary(f func(l *library)) (es []func()) {
	for _, l := range m.libs {
		es = append(es, func() { f(l) })
	}
	return es
}

func (m *model) eachTerm(op string, f func(t *term)) (es []func()) {
	m.bodies(func(_ *unit, _ *class, fn *function) {
		for i := range fn.body {
			if fn.body[i].op == op {
				es = append(es, func() { f(&fn.body[i]) })
			}
		}
	})
	return es
}

func (m *model) globals() (all []*global) {
	for _, u := range m.units {
		all = append(all, u.globals...)
	}
	return all
}

func plantMacros(m *model, r *rand.Rand) {
	u := m.unit("u")
	u.macros = append(u.macros, &macro{name: "K0", k: 17}, &macro{name: "K1", k: 18, function: true})
	m.use(r, 2, term{op: opMacro, of: "u", name: "K0"})
	m.use(r, 2, term{op: opMacro, of: "u", name: "K1", arg: "((int)n)"})
}

// overloads are two of a name: the one with int is the better match.
func overloads(ns ...string) []*function {
	return []*function{
		{name: "leaf_pick", ns: ns[0], param: "long", inline: true, body: []term{num(81)}},
		{name: "leaf_pick", ns: ns[1], param: "int", inline: true, body: []term{num(82)}},
	}
}

func plantPicks(m *model, r *rand.Rand) {
	m.addUnit(&unit{name: "picks", alone: true, functions: overloads("p0", "p1")})
	for _, u := range m.pick(r, 2) {
		u.usings = append(u.usings, "namespace p0")
		u.includes = append(u.includes, "picks")
		m.bind(u, term{op: opBare, of: "picks", name: "leaf_pick"})
	}
}

func plantIncludes(m *model, r *rand.Rand) {
	fs := overloads("", "")
	m.addUnit(&unit{name: "better", alone: true, functions: fs[1:]})
	m.addUnit(&unit{name: "worse", alone: true, functions: fs[:1]})
	m.addUnit(&unit{name: "conf1", alone: true, macros: []*macro{{name: "CONF", k: 1, guarded: true}}})
	m.addUnit(&unit{name: "conf2", alone: true, macros: []*macro{{name: "CONF", k: 2, guarded: true}}})
	for _, u := range m.pick(r, 2) {
		u.includes = append(u.includes, "conf1", "conf2")
		u.optional = "optional"
		m.bind(u, term{op: opBare, of: "worse", name: "leaf_pick"})
		m.bind(u, term{op: opMacro, name: "CONF"})
		m.bind(u, term{op: opMacro, name: "OPTIONAL"})
	}
}

// pick returns up to n units with a source, callers and no namespace.
func (m *model) pick(r *rand.Rand, n int) (us []*unit) {
	for _, u := range m.units {
		if !u.alone && !u.c && u.outside == "" && len(u.functions) > 0 {
			us = append(us, u)
		}
	}
	r.Shuffle(len(us), func(i, k int) { us[i], us[k] = us[k], us[i] })
	return us[:min(n, len(us))]
}

// bind puts a term into the first function of a unit, which has to stay in its source.
func (m *model) bind(u *unit, t term) {
	f := u.functions[0]
	f.inline, f.private = false, false
	f.body = append([]term{t}, f.body...)
}

// plantWeak defines a weak function in two units of a library.
func plantWeak(m *model, r *rand.Rand) {
	for i, u := range m.units {
		if u.alone || u.outside != "" || u.c {
			continue
		}
		for _, o := range m.units[i+1:] {
			if o.lib != u.lib || o.c || o.alone || o.outside != "" || u.function("leaf_weak") != nil {
				continue
			}
			u.functions = append(u.functions, &function{name: "leaf_weak", param: "int", weak: true, body: []term{num(83)}})
			o.functions = append(o.functions, &function{name: "leaf_weak", param: "int", weak: true, private: true, body: []term{num(84)}})
			m.bind(o, term{op: opCall, of: u.name, name: "leaf_weak"})
			m.use(r, 2, term{op: opCall, of: u.name, name: "leaf_weak"})
			return
		}
	}
}

func plantTwins(m *model, r *rand.Rand) {
	for i, u := range m.pick(r, 2) {
		u.functions = append(u.functions, &function{name: "leaf_twin", param: "int", static: true, body: []term{num(85 + i), {op: opParam}}})
		f := u.functions[0]
		f.inline = false
		f.body = append([]term{{op: opCall, of: u.name, name: "leaf_twin"}}, f.body...)
	}
}

func plantAnonymous(m *model, r *rand.Rand) {
	for i, u := range m.pick(r, 2) {
		u.classes = append(u.classes, &class{name: "Local", anonymous: true, methods: []*function{
			{name: "local", param: "long", virtual: true, inline: true, body: []term{num(87 + i), {op: opParam}}},
		}})
		m.bind(u, term{op: opLocal, name: "local"})
	}
}

// moves are those of definitions; declarations stay.
func moves(m *model) (es []func()) {
	for _, u := range m.units {
		for _, o := range m.units {
			if u == o || u.lib != o.lib || u.ns != o.ns || u.c != o.c || o.alone || u.alone || u.outside != "" || o.outside != "" {
				continue
			}
			for _, f := range u.functions {
				if callable(f) && f.at == "" && !f.inline && !f.weak && m.free(u, o, f.body) {
					es = append(es, func() { f.at = o.name })
				}
			}
			for _, g := range u.globals {
				if !g.static && g.at == "" && !g.inline && m.free(u, o, g.init) {
					es = append(es, func() { g.at = o.name })
				}
			}
		}
	}
	return es
}

// free reports whether terms of u mean the same in o.
func (m *model) free(u, o *unit, body []term) bool {
	return !slices.ContainsFunc(body, func(t term) bool {
		return t.bound() || !m.soundTerm(o, nil, t) || t.op == opMacro && t.of == ""
	})
}

// plantFar adds a function that is called in another thread, or in a child.
func (m *model) plantFar(how string) {
	u := m.unit("u")
	u.functions = append(u.functions, &function{name: "leaf_" + how, param: "int", static: true, body: []term{num(91), {op: opParam}}})
	f := u.functions[0]
	f.body = append([]term{{op: opFar, of: u.name, name: "leaf_" + how, arg: how}}, f.body...)
}

func editFar(name string) func(m *model) []func() {
	return func(m *model) (es []func()) {
		if f := m.unit("u").function(name); f != nil {
			es = append(es, func() { f.body[0].k++ }, func() { f.body[0].k += 3 })
		}
		return es
	}
}
