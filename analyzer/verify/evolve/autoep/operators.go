package autoep

import "math/rand/v2"

// operator changes a model in one place.
type operator struct {
	name string
	// plain is for C, too.
	plain bool
	// plant adds to all revisions what the operator needs.
	plant func(m *model, r *rand.Rand)
	// edits are changes, each in a place of its own.
	edits func(m *model) []func()
	// inOrder means that the first sound edit is the one.
	inOrder bool
	// effect is how often tests print something else: by default often.
	effect effect
}

type effect int

const (
	often effect = iota
	seldom
	never
)

// operators are those of RTSCheck's Table III, then those about classes (classes.go), then those
// that plant what they change (furniture.go).
var operators = append(append([]operator{
	// Add a base class.
	{name: "E1", edits: addBase},
	// Copy a field to another class.
	{name: "E2", edits: copyField(0)},
	// Copy a field to another class, with another value.
	{name: "E3", edits: copyField(50)},
	// Copy a method to another class.
	{name: "E4", edits: copyMethod(0)},
	// Copy a method to another class, with another constant.
	{name: "E5", edits: copyMethod(50)},
	// The next program of the enumeration whose classes the tests can use.
	{name: "E6", plain: true, inOrder: true, edits: nextProgram},
	// Increase a constant.
	{name: "E7", plain: true, edits: increase},
	// Remove a base class.
	{name: "E8", edits: func(m *model) (es []func()) {
		for _, c := range m.classes() {
			if c.base != "" {
				es = append(es, func() { c.base, c.vbase = "", false })
			}
		}
		return es
	}},
	// Remove a method.
	{name: "E9", edits: removeMethod},
}, classOperators...), furnitureOperators...)

func addBase(m *model) (es []func()) {
	for i, c := range m.classes() {
		for _, b := range m.classes()[:i] {
			if c.base == "" {
				es = append(es, func() { c.base = b.name })
			}
		}
	}
	return es
}

// pairs calls f with all pairs of different classes.
func (m *model) pairs(f func(from, to *class)) {
	for _, from := range m.classes() {
		for _, to := range m.classes() {
			if from != to {
				f(from, to)
			}
		}
	}
}

func copyField(more int) func(m *model) []func() {
	return func(m *model) (es []func()) {
		m.pairs(func(from, to *class) {
			for _, f := range from.fields {
				n := *f
				n.k += more
				if to.field(f.name) == nil {
					es = append(es, func() { to.fields = append(to.fields, &n) })
				} else if more > 0 {
					es = append(es, func() { *to.field(f.name) = n })
				}
			}
		})
		return es
	}
}

func copyMethod(more int) func(m *model) []func() {
	return func(m *model) (es []func()) {
		m.pairs(func(from, to *class) {
			for _, f := range from.methods {
				n := *f
				n.body = append([]term(nil), f.body...)
				n.body[0].k += more
				if old := to.method(f.name, f.param); old == nil {
					es = append(es, func() { to.methods = append(to.methods, &n) })
				} else if more > 0 {
					n.virtual = old.virtual
					es = append(es, func() { *old = n })
				}
			}
		})
		return es
	}
}

func nextProgram(m *model) (es []func()) {
	for i := 1; i <= 40; i++ {
		es = append(es, func() { *m = *m.next(i) })
	}
	return es
}

// increase returns an edit for each constant: of fields, globals, bodies.
func increase(m *model) (es []func()) {
	add := func(k *int) { es = append(es, func() { *k += 100 }) }
	for _, c := range m.classes() {
		for _, f := range c.fields {
			add(&f.k)
		}
	}
	m.bodies(func(u *unit, _ *class, f *function) {
		if u.outside == "" {
			for i := range f.body {
				if op := f.body[i].op; op == opConst || op == opCount {
					add(&f.body[i].k)
				}
			}
		}
	})
	for _, u := range m.units {
		for _, g := range u.globals {
			if len(g.table) == 0 && len(g.init) == 0 {
				add(&g.k)
			}
			for i := range g.init {
				if g.init[i].op == opConst {
					add(&g.init[i].k)
				}
			}
		}
	}
	return es
}

func removeMethod(m *model) (es []func()) {
	for _, c := range m.classes() {
		for i := range c.methods {
			es = append(es, func() { c.methods = append(c.methods[:i:i], c.methods[i+1:]...) })
		}
	}
	return es
}
