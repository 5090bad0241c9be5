package autoep

import "slices"

// model is a program as data. Units are in an order: what is in a header refers to earlier units only,
// so that no header includes itself; and a later unit isn't in an earlier library.
type model struct {
	// plain is C alone.
	plain bool
	units []*unit
	libs  []*library
	flags []string
	data  map[string]string
	tests []*test
	// arguments: tests have some.
	arguments bool
	// planted are operators.
	planted []string
	// next makes a later model of the enumeration, with the same tests.
	next func(skip int) *model
}

type library struct {
	name   string
	shared bool
	flags  []string
	// backwards are its sources in the other order.
	backwards bool
}

// unit is a header and a source of the same name.
type unit struct {
	name string
	// lib is an index of model.libs. outside is a library that only tests know.
	lib     int
	outside string
	// c is in C, even if the program isn't.
	c bool
	// alone is a header without a source.
	alone     bool
	ns        string
	macros    []*macro
	enums     []enumerator
	templates []*template
	classes   []*class
	globals   []*global
	functions []*function
	boots     []*boot
	// includes are units whose headers the source includes in front of those that it needs.
	includes []string
	// optional is a header that the source includes if it exists.
	optional string
	// usings are those of the source: "namespace p0", "p1::pick".
	usings []string
	// comments counts comments in front.
	comments int
}

// macro is a number, or a function of x.
type macro struct {
	name     string
	k        int
	function bool
	// guarded is defined unless it is already.
	guarded bool
}

// enumerator has a value, or is one more than the one before it.
type enumerator struct {
	name  string
	value int // -1: none
}

// template is one of functions, or of classes with a value.
type template struct {
	name  string
	class bool
	body  []term
	specs []specialisation
}

type specialisation struct {
	typ string
	k   int
}

type class struct {
	name, base string
	// vbase: the base is a virtual one.
	vbase   bool
	fields  []*field
	methods []*function
	// usings are methods of the base that it doesn't hide.
	usings []string
	// anonymous is in the anonymous namespace of the source.
	anonymous bool
	// vdtor: it has a virtual destructor.
	vdtor bool
	align int
}

type field struct {
	name, typ string
	k         int
	static    bool
}

type global struct {
	name, typ string
	k         int
	// init makes it initialised at start-up.
	init     []term
	constant bool
	static   bool
	// inline is a definition in the header.
	inline bool
	align  int
	// table is one of functions, each as unit and name.
	table [][2]string
	// at is the unit with the definition, if it is another one.
	at string
}

// function is a free one or a method. Its parameter is n, of type int, long or T, a template's.
type function struct {
	name, ns, param         string
	virtual, static, inline bool
	weak, noinline          bool
	// private isn't in the header.
	private bool
	// deflt is the default of n, second that of a second parameter d; 0: there is none.
	deflt, second int
	// chooser is a function that says, when the program is loaded, which of two this one is (ifunc).
	chooser string
	body    []term
	at      string
}

// boot is a function that changes a global, at start-up if it is a constructor.
type boot struct {
	global      string
	k           int
	constructor bool
}

// term is a step of a function's body: a value that the result is made of, or a statement.
type term struct {
	op string
	// of is a class or a unit, name is in it, and arg is a class, a type or a text.
	of, name, arg string
	k             int
}

// What the terms of a body are.
const (
	opConst  = "const"
	opParam  = "param"
	opSecond = "second"
	opField  = "field"
	opStore  = "store"  // changes a field
	opSelf   = "self"   // calls a method of this
	opSuper  = "super"  // calls a method of a base, not as a virtual one
	opObject = "object" // calls a method of a new object
	opUpcast = "upcast" // the same, of class arg, through a reference to its base
	opSize   = "size"
	opAlign  = "align"
	opBase   = "base" // whether a class is the base of arg
	opPoly   = "poly" // whether a class has virtual functions
	opLocal  = "local"
	opCall   = "call"
	opFar    = "far"  // a call in another thread, or in a child
	opBare   = "bare" // a call without a namespace, as overload resolution has it
	opTable  = "table"
	opGlobal = "global"
	opSet    = "set"
	opAlignG = "alignof global"
	opMacro  = "macro"
	opEnum   = "enum"
	opFuncT  = "function template"
	opClassT = "class template"
	opCount  = "count" // a static variable of the function
	opChar   = "char"  // whether char is signed
	opText   = "text"  // a string literal
	opList   = "list"  // an array of constants of the function
	opThrow  = "throw"
	opRaise  = "raise" // throws a class, and catches its bases X0 or X1
	opLine   = "line"
	opData   = "data"
)

func num(k int) term { return term{op: opConst, k: k} }

// calls reports whether a term calls a method.
func (t term) calls() bool {
	return slices.Contains([]string{opSelf, opSuper, opObject, opUpcast}, t.op)
}

// bound reports whether a term means something else, or nothing, in another function than a free one of
// its unit's source.
func (t term) bound() bool {
	return slices.Contains([]string{opLocal, opBare, opFar, opData, opSecond, opLine}, t.op)
}

// find returns the first of list that is something, or nil.
func find[T any](list []*T, is func(*T) bool) *T {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i]
	}
	return nil
}

func (m *model) unit(name string) *unit {
	return find(m.units, func(u *unit) bool { return u.name == name })
}

// class finds one that isn't anonymous, and its unit.
func (m *model) class(name string) (*class, *unit) {
	for _, u := range m.units {
		for _, c := range u.classes {
			if c.name == name && !c.anonymous {
				return c, u
			}
		}
	}
	return nil, nil
}

// classes are all that aren't anonymous.
func (m *model) classes() (all []*class) {
	for _, u := range m.units {
		for _, c := range u.classes {
			if !c.anonymous {
				all = append(all, c)
			}
		}
	}
	return all
}

func (u *unit) function(name string) *function {
	return find(u.functions, func(f *function) bool { return f.name == name })
}

func (u *unit) global(name string) *global {
	return find(u.globals, func(g *global) bool { return g.name == name })
}

func (c *class) field(name string) *field {
	return find(c.fields, func(f *field) bool { return f.name == name })
}

func (c *class) method(name, param string) *function {
	return find(c.methods, func(f *function) bool { return f.name == name && (param == "" || f.param == param) })
}

// hasField looks into bases as well, as the language does.
func (m *model) hasField(c *class, name string) bool {
	return slices.ContainsFunc(m.lineage(c), func(c *class) bool { return c.field(name) != nil })
}

// lookup returns the class whose methods of a name are those of c.
func (m *model) lookup(c *class, name string) *class {
	return find(m.lineage(c), func(c *class) bool { return c.method(name, "") != nil })
}

// overloads are the methods of a name that a call on an object of c chooses from.
func (m *model) overloads(c *class, name string) (all []*function) {
	for _, c := range m.lineage(c) {
		for _, f := range c.methods {
			if f.name == name {
				all = append(all, f)
			}
		}
		if len(all) > 0 && !slices.Contains(c.usings, name) {
			break
		}
	}
	return all
}

// lineage is a class, its base, and so on.
func (m *model) lineage(c *class) (all []*class) {
	for c != nil && len(all) <= len(m.units) {
		all = append(all, c)
		c, _ = m.class(c.base)
	}
	return all
}

func (m *model) isBase(base, of string) bool {
	c, _ := m.class(of)
	return slices.ContainsFunc(m.lineage(c), func(b *class) bool { return b.name == base })
}

// owner is the unit that a term refers to, if any.
func (m *model) owner(t term) *unit {
	switch t.op {
	case opUpcast, opBase:
		_, u := m.class(t.arg)
		return u
	case opSuper, opObject, opSize, opAlign, opPoly, opRaise:
		_, u := m.class(t.of)
		return u
	}
	return m.unit(t.of)
}

// owners are all units that a term refers to.
func (m *model) owners(t term) (us []*unit) {
	if o := m.owner(t); o != nil {
		us = append(us, o)
	}
	if _, o := m.class(t.of); o != nil && t.op == opBase {
		us = append(us, o)
	}
	return us
}

// inHeader reports whether a function is defined in the header: if it is meant to be, and may.
func (m *model) inHeader(u *unit, f *function) bool {
	return f.param == "T" || f.inline && m.early(u, f.body)
}

// early reports whether terms refer only to what is known in the header of a unit.
func (m *model) early(u *unit, body []term) bool {
	for _, t := range body {
		if t.bound() {
			return false
		}
		for _, o := range m.owners(t) {
			if slices.Index(m.units, o) > slices.Index(m.units, u) {
				return false
			}
			if f := o.function(t.name); t.op == opCall && f != nil && (f.static || f.private) {
				return false
			}
			if g := o.global(t.name); g != nil && g.static {
				return false
			}
		}
	}
	return true
}

// bodies calls f with each body: of functions (c is nil) and methods.
func (m *model) bodies(f func(u *unit, c *class, fn *function)) {
	for _, u := range m.units {
		for _, c := range u.classes {
			for _, fn := range c.methods {
				f(u, c, fn)
			}
		}
		for _, fn := range u.functions {
			f(u, nil, fn)
		}
	}
}
