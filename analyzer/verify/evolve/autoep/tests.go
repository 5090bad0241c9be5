package autoep

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// test is a random sequence of calls.
type test struct {
	name    string
	units   []string
	objects []object
	steps   []step
	globals []string
	// deps are libraries besides those of the units, in the order of the link.
	deps []string
	args []string
}

// object is one of a class, or a reference to an earlier object by its base.
type object struct {
	class, as string
	of        int
	typ       string
	// bases are those whose state is printed as well, if they still are bases.
	bases []string
}

// step calls a function, or a method of an object (an index), with an argument, if any.
type step struct {
	object     int
	unit, name string
	arg        string
	// callee is the function's full name.
	callee string
}

// stateHeader declares the functions by which tests print an object. A field or method that isn't there counts as -1, so
// that tests outlive it, as if they had found it by reflection.
var stateHeader = func() string {
	var b strings.Builder
	b.WriteString("#ifndef STATE_H\n#define STATE_H\n")
	get := func(name, expr string) {
		fmt.Fprintf(&b, "template <class B> auto state_%s(B *p, int) -> decltype((int)p->%s) { return (int)p->%s; }\n", name, expr, expr)
		fmt.Fprintf(&b, "template <class B> int state_%s(void *, ...) { return -1; }\n", name)
	}
	args := "(int)__is_polymorphic(B), (int)sizeof(B)"
	for _, f := range fieldNames {
		get(f, f)
		args += fmt.Sprintf(", state_%s<B>(p, 0)", f)
	}
	get("who", "who(1)")
	fmt.Fprintf(&b, "template <class B, class T> void state(const char *name, T *p) {\n  printf(\"%%s:%s\\n\", name, %s, state_who<B>(p, 0));\n}\n", strings.Repeat(" %d", len(fieldNames)+3), args)
	b.WriteString("#endif\n")
	return b.String()
}()

var fieldNames = []string{"f0", "f1", "f2"}

// lengths are the most calls of a test.
var lengths = []int{1, 2, 4, 100}

// addTests makes tests that together know each unit; each has one at its centre.
func (m *model) addTests(r *rand.Rand) {
	var centres []*unit
	for _, u := range m.units {
		if slices.ContainsFunc(u.functions, callable) && u.outside == "" {
			centres = append(centres, u)
		}
	}
	r.Shuffle(len(centres), func(i, k int) { centres[i], centres[k] = centres[k], centres[i] })
	n := 2 + r.IntN(3)
	for i := 0; i < max(n, min(len(centres), 6)); i++ {
		u := centres[i%len(centres)]
		t := &test{name: fmt.Sprint("t", i), units: []string{u.name}}
		if o := centres[r.IntN(len(centres))]; o != u && (u.name == "u" || r.IntN(2) == 0) {
			t.units = append(t.units, o.name)
		}
		if m.arguments {
			t.args = []string{"1"}
		}
		m.fill(t, r, 1+r.IntN(lengths[r.IntN(len(lengths))]))
		m.tests = append(m.tests, t)
	}
	m.addOutside(r)
}

// addOutside lets a test call what only tests know.
func (m *model) addOutside(r *rand.Rand) {
	t := m.tests[r.IntN(len(m.tests))]
	for _, u := range m.units {
		if u.outside == "" {
			continue
		}
		t.deps = append(t.deps, u.outside)
		t.units = append(t.units, u.name)
		for _, f := range u.functions {
			if !f.private {
				t.steps = append(t.steps, step{-1, u.name, f.name, "2", f.name})
			}
		}
	}
}

// callable reports whether a test may call a function.
func callable(f *function) bool { return !f.static && !f.private && f.param != "T" }

// fill adds objects and calls.
func (m *model) fill(t *test, r *rand.Rand, n int) {
	w := &writer{m: m}
	var free []step
	for _, name := range t.units {
		u := m.unit(name)
		for _, c := range u.classes {
			if c.anonymous || m.plain {
				continue
			}
			o := object{class: c.name, typ: w.name(u, c.name)}
			base, bu := m.class(c.base)
			if base != nil && r.IntN(2) == 0 {
				o.bases = append(o.bases, w.name(bu, base.name))
				if !slices.Contains(t.units, bu.name) {
					t.units = append(t.units, bu.name)
				}
			}
			t.objects = append(t.objects, o)
			if base != nil && r.IntN(3) == 0 {
				t.objects = append(t.objects, object{class: c.name, as: base.name, of: len(t.objects) - 1, typ: w.name(bu, base.name)})
			}
		}
		for _, f := range u.functions {
			if callable(f) {
				free = append(free, step{-1, u.name, f.name, "", w.name(u, f.name)})
			}
		}
		for _, g := range u.globals {
			if !g.static && len(g.table) == 0 {
				t.globals = append(t.globals, w.name(u, g.name))
			}
		}
	}
	for range n {
		if s, ok := m.call(t, r, free); ok {
			t.steps = append(t.steps, s)
		}
	}
	m.ensureCalls(t, free)
}

// ensureCalls gives a test something to do: functions of its units, if it has room.
func (m *model) ensureCalls(t *test, free []step) {
	if len(t.steps) == 1 {
		return
	}
	for i, s := range free {
		if i < 4 {
			s.arg = "2"
			t.steps = append(t.steps, s)
		}
	}
}

// call picks what to call, and with what.
func (m *model) call(t *test, r *rand.Rand, free []step) (step, bool) {
	all := slices.Clone(free)
	for i, o := range t.objects {
		static := o.class
		if o.as != "" {
			static = o.as
		}
		c, _ := m.class(static)
		for _, name := range methodNames {
			if m.lookup(c, name) != nil {
				all = append(all, step{object: i, name: name, callee: fmt.Sprintf("o%d.%s", i, name)})
			}
		}
	}
	if len(all) == 0 {
		return step{}, false
	}
	s := all[r.IntN(len(all))]
	s.arg = fmt.Sprintf("%d%s", r.IntN(4), []string{"", "", "", "L"}[r.IntN(4)])
	if n := len(t.steps); n > 0 && r.IntN(2) == 0 {
		s.arg = fmt.Sprintf("r[%d] & 3", r.IntN(n))
	}
	var overloads []*function
	if s.object < 0 {
		overloads = []*function{m.unit(s.unit).function(s.name)}
	} else {
		static := t.objects[s.object].class
		if as := t.objects[s.object].as; as != "" {
			static = as
		}
		c, _ := m.class(static)
		overloads = m.overloads(c, s.name)
	}
	if defaults := withDefault(overloads); r.IntN(2) == 0 && len(defaults) == 1 {
		s.arg = ""
	}
	return s, true
}

// testDeps are the libraries that a test links, dependents first, and the files that these may read.
func (m *model) testDeps(t *test) (deps, data []string) {
	need := map[string]bool{}
	for _, name := range t.units {
		if u := m.unit(name); u != nil && u.outside == "" && !u.alone {
			need[m.libs[u.lib].name] = true
		}
	}
	for i := len(m.libs) - 1; i >= 0; i-- {
		if !need[m.libs[i].name] {
			continue
		}
		deps = append(deps, m.libs[i].name)
		for _, d := range m.libDeps(i) {
			need[d] = true
		}
		for _, u := range m.units {
			for _, f := range u.functions {
				for _, x := range f.body {
					if x.op == opData && u.lib == i && !slices.Contains(data, x.name) {
						data = append(data, x.name)
					}
				}
			}
		}
	}
	return append(deps, t.deps...), data
}

// testSource renders a test.
func (m *model) testSource(t *test) string {
	w := &writer{m: m}
	w.line("#include \"sys.h\"")
	if !m.plain {
		w.line("#include \"state.h\"")
	}
	for _, name := range t.units {
		w.line("#include \"%s.h\"", name)
	}
	if len(t.args) > 0 {
		w.line("int main(int argc, char **argv) {")
	} else {
		w.line("int main(void) {")
	}
	n := len(t.steps)
	w.line("  int r[%d] = {0};", n+1)
	for i, o := range t.objects {
		if o.as != "" {
			w.line("  %s &o%d = o%d;", o.typ, i, o.of)
		} else {
			w.line("  %s o%d;", o.typ, i)
		}
	}
	if len(t.args) > 0 {
		w.line("  r[%d] = argc > 1 ? argv[1][0] : 0;", n)
	}
	for i, s := range t.steps {
		arg := s.arg
		if len(t.args) > 0 && arg != "" && i == 0 {
			arg = fmt.Sprintf("r[%d] & 3", n)
		}
		w.line("  r[%d] = %s(%s);", i, s.callee, arg)
	}
	w.line("  for (int i = 0; i <= %d; i++) printf(\"%%d\\n\", r[i]);", n)
	for i, o := range t.objects {
		for _, b := range append([]string{o.typ}, o.bases...) {
			w.line("  state<%s>(\"o%d\", &o%d);", b, i, i)
		}
		for _, b := range t.objects {
			if b.typ != o.typ {
				w.line("  printf(\"%%d\\n\", (int)__is_base_of(%s, %s));", b.typ, o.typ)
			}
		}
	}
	for _, g := range t.globals {
		w.line("  printf(\"%s %%d\\n\", (int)%s);", g, g)
	}
	w.line("  return 0;\n}")
	return w.String()
}
