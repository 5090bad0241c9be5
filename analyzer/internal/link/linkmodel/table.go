package linkmodel

import (
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// A Symbol is the number of a name in a Table, without its version.
type Symbol int32

// None is no symbol.
const None Symbol = -1

// A Table holds what units define and need. Units are added once; any number of
// programs can then be linked from them.
type Table struct {
	names []string
	ids   map[string]Symbol
	units []*Unit
	// Of each symbol: how many definitions it has in all units, the first of
	// them, whether one of them is outside of COMDAT groups, whether any mention of it constrains its visibility,
	// and of how many COMDAT groups it is the signature.
	definers []int32
	first    []definer
	alone    []bool
	special  []bool
	groups   []int32
}

type definer struct {
	unit, component int32
	group           Symbol
}

// plain says that a symbol has one definition, of which no link makes anything
// else than it is: whoever links it refers to it.
func (t *Table) plain(s Symbol) bool {
	if t.definers[s] != 1 || t.special[s] {
		return false
	}
	g := t.first[s].group
	return g == None || t.groups[g] == 1
}

// A Unit is what a linker sees of a manifest.Unit.
type Unit struct {
	// Exact is that of manifest.Unit.
	Exact bool
	// Roots says whether something in it runs or is found without a reference.
	Roots bool
	// Groups are the signatures of COMDAT groups with such components, or without
	// definitions.
	Groups []Symbol
	// Needs are the references that name a version, with it.
	Needs []string
	// Versioned says that it mentions a symbol with a version.
	Versioned bool
	// Library says that it is a shared library, which nobody links again.
	Library bool
	// ThreadLocal says that it defines something thread-local, or takes it to be so.
	ThreadLocal bool
	// Protected is a symbol with protected visibility that it mentions, or None.
	Protected Symbol
	Defs      []Def
	Refs      []Ref
	restricts bool // a reference is of another visibility than the default
}

// A Def is a definition of a symbol.
type Def struct {
	Symbol     Symbol
	Component  int32 // as the caller of Add numbers them
	Binding    manifest.Binding
	Visibility manifest.Visibility
	Group      Symbol // signature of its COMDAT group, or None
	// ThreadLocal says that each thread has one.
	ThreadLocal bool
	// Mark says that it is clang's own definition of asanMark.
	Mark bool
}

// A Ref is an undefined symbol.
type Ref struct {
	Symbol     Symbol
	Weak       bool
	Visibility manifest.Visibility
	Uses       uint32 // as in the manifest
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{ids: map[string]Symbol{}} }

// Symbol returns the number of a name. A version counts for nothing but that
// there is one: "f@V" and "f@@V" are f.
func (t *Table) Symbol(name string) Symbol {
	id, ok := t.ids[name]
	if !ok {
		base, version, versioned := strings.Cut(name, "@")
		if versioned && base != "" && version != "" {
			id = t.Symbol(base)
			t.ids[name] = id
			return id
		}
		id = Symbol(len(t.names))
		t.ids[name] = id
		t.names = append(t.names, name)
		t.definers = append(t.definers, 0)
		t.first = append(t.first, definer{})
		t.special = append(t.special, false)
		t.groups = append(t.groups, 0)
		t.alone = append(t.alone, false)
	}
	return id
}

// Lookup returns the number of a name, or None if no unit mentions it.
func (t *Table) Lookup(name string) Symbol {
	if id, ok := t.ids[name]; ok {
		return id
	}
	return None
}

// Name returns the name of a symbol.
func (t *Table) Name(s Symbol) string { return t.names[s] }

// Len returns the number of symbols.
func (t *Table) Len() int { return len(t.names) }

// Unit returns unit i.
func (t *Table) Unit(i int32) *Unit { return t.units[i] }

// Defined says whether any unit defines s.
func (t *Table) Defined(s Symbol) bool { return s != None && t.definers[s] > 0 }

// DefinedAlone says whether a unit defines s outside of COMDAT groups.
func (t *Table) DefinedAlone(s Symbol) bool { return t.alone[s] }

// Add adds unit k of m, whose components are those with the indices in list,
// and returns its number.
func (t *Table) Add(m *manifest.Manifest, k int, list []int32) int32 {
	n := int32(len(t.units))
	x := &Unit{Protected: None, Exact: m.Units[k].Exact, Library: m.Rung == manifest.Rung_RUNG_CONTENT}
	grouped := map[Symbol]bool{} // whether something is defined in it
	for i, id := range list {
		c := m.Components[id]
		x.Roots = x.Roots || c.Root != ""
		group := None
		if c.Group != "" {
			group = t.Symbol(c.Group)
			defines, known := grouped[group]
			if !known {
				t.groups[group]++
			}
			grouped[group] = defines || len(c.Definitions) > 0
			if c.Root != "" && !slices.Contains(x.Groups, group) {
				x.Groups = append(x.Groups, group)
			}
		}
		for _, d := range c.Definitions {
			s := t.Symbol(d.Name)
			if t.definers[s]++; t.definers[s] == 1 {
				t.first[s] = definer{n, int32(i), group}
			}
			t.alone[s] = t.alone[s] || group == None
			t.special[s] = t.special[s] || d.Visibility != manifest.Visibility_VISIBILITY_DEFAULT
			x.ThreadLocal = x.ThreadLocal || d.ThreadLocal
			x.protect(s, d.Visibility)
			x.Versioned = x.Versioned || strings.Contains(d.Name, "@")
			x.Defs = append(x.Defs, Def{s, int32(i), d.Binding, d.Visibility, group, d.ThreadLocal,
				d.Name == asanMark && d.Binding == manifest.Binding_BINDING_COMMON && d.Visibility == manifest.Visibility_VISIBILITY_HIDDEN && d.Size == 8})
		}
	}
	for group, defines := range grouped {
		if !defines && !slices.Contains(x.Groups, group) {
			x.Groups = append(x.Groups, group)
		}
	}
	slices.Sort(x.Groups)
	for _, r := range m.Units[k].References {
		s := t.Symbol(r.Name)
		x.restricts = x.restricts || r.Visibility != manifest.Visibility_VISIBILITY_DEFAULT
		x.protect(s, r.Visibility)
		x.ThreadLocal = x.ThreadLocal || r.Uses&manifest.UseThreadLocal != 0
		t.special[s] = t.special[s] || r.Visibility != manifest.Visibility_VISIBILITY_DEFAULT
		if strings.Contains(r.Name, "@") {
			x.Needs, x.Versioned = append(x.Needs, r.Name), true
		}
		x.Refs = append(x.Refs, Ref{s, r.Weak, r.Visibility, r.Uses})
	}
	x.Defs = slices.Clip(x.Defs)
	t.units = append(t.units, x)
	return n
}

func (u *Unit) protect(s Symbol, v manifest.Visibility) {
	if v == manifest.Visibility_VISIBILITY_PROTECTED {
		u.Protected = s
	}
}

// isCopy reports whether a definition is a copy of an inline function, of a template or of what
// belongs to a type: whoever refers to it has one. What replaces operator new or delete is none.
func (t *Table) isCopy(d Def) bool {
	name := t.Name(d.Symbol)
	return d.Group != None && strings.HasPrefix(name, "_Z") && !strings.HasPrefix(name, "_Zn") && !strings.HasPrefix(name, "_Zd")
}

func hides(v manifest.Visibility) bool {
	return v == manifest.Visibility_VISIBILITY_HIDDEN || v == manifest.Visibility_VISIBILITY_INTERNAL
}
