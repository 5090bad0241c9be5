package linkmodel

import (
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// A Symbol is the number of a name in a Table. It has no version.
type Symbol int32

// None is no symbol.
const None Symbol = -1

// A Table holds what units define and refer to. Units are added once. Any number of programs can then be linked from
// them.
type Table struct {
	names []string
	uses  []symbolUse // of each symbol
	ids   map[string]Symbol
	units []*Unit
}

// symbolUse is the use of a symbol in all units.
type symbolUse struct {
	definitions     int32
	unit, component int32  // of the first definition
	group           Symbol // the signature of its COMDAT group, or None
	groups          int32  // number of COMDAT groups with this signature
	ungrouped       bool   // a definition is outside of COMDAT groups
	restricted      bool   // a definition or reference has another visibility than the default
}

// isPlain reports whether s has only one definition, and neither visibility nor COMDAT groups can make a difference: in
// each program with its unit, s is bound to it.
func (t *Table) isPlain(s Symbol) bool {
	x := &t.uses[s]
	return x.definitions == 1 && !x.restricted && (x.group == None || t.uses[x.group].groups == 1)
}

// A Unit is the linker's view of a manifest.Unit.
type Unit struct {
	// Exact is manifest.Unit.Exact.
	Exact bool
	// Roots is set if some component is a root: it runs or is found without a reference.
	Roots bool
	// Groups are the signatures of COMDAT groups that have roots or no definitions.
	Groups []Symbol
	// Needs are the references with a version, such as "f@V".
	Needs []string
	// Versioned is set if a definition or reference has a version.
	Versioned bool
	// Library is set for a shared library that is known by its content.
	Library bool
	// ThreadLocal is set if a definition or reference is thread-local.
	ThreadLocal bool
	// Protected is a symbol with STV_PROTECTED, or None.
	Protected Symbol
	Defs      []Def
	Refs      []Ref
	restricts bool // a reference has another visibility than the default
}

// A Def is a definition of a symbol.
type Def struct {
	Symbol      Symbol
	Component   int32 // as the caller of Add numbers them
	Binding     manifest.Binding
	Visibility  manifest.Visibility
	Group       Symbol // signature of its COMDAT group, or None
	ThreadLocal bool
	// Mark is set for clang's own definition of asanMark.
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

// Symbol returns the number of a name without its version: "f@V" and "f@@V" are f.
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
		t.names, t.uses = append(t.names, name), append(t.uses, symbolUse{})
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

// Defined reports whether any unit defines s.
func (t *Table) Defined(s Symbol) bool { return s != None && t.uses[s].definitions > 0 }

// DefinedOnce reports whether s has one definition in all units.
func (t *Table) DefinedOnce(s Symbol) bool { return t.uses[s].definitions == 1 }

// DefinedUngrouped reports whether a unit defines s outside of COMDAT groups.
func (t *Table) DefinedUngrouped(s Symbol) bool { return t.uses[s].ungrouped }

// Add adds unit k of m and returns its number. List has the indices of the unit's components in m.
func (t *Table) Add(m *manifest.Manifest, k int, list []int32) int32 {
	n := int32(len(t.units))
	x := &Unit{Protected: None, Exact: m.Units[k].Exact, Library: m.Rung == manifest.Rung_RUNG_CONTENT}
	grouped := map[Symbol]bool{} // whether a group has definitions
	for i, id := range list {
		c := m.Components[id]
		x.Roots = x.Roots || c.Root != ""
		group := None
		if c.Group != "" {
			group = t.Symbol(c.Group)
			defines, known := grouped[group]
			if !known {
				t.uses[group].groups++
			}
			grouped[group] = defines || len(c.Definitions) > 0
			if c.Root != "" && !slices.Contains(x.Groups, group) {
				x.Groups = append(x.Groups, group)
			}
		}
		for _, d := range c.Definitions {
			s := t.Symbol(d.Name)
			use := &t.uses[s]
			if use.definitions++; use.definitions == 1 {
				use.unit, use.component, use.group = n, int32(i), group
			}
			use.ungrouped = use.ungrouped || group == None
			use.restricted = use.restricted || d.Visibility != manifest.Visibility_VISIBILITY_DEFAULT
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
		t.uses[s].restricted = t.uses[s].restricted || r.Visibility != manifest.Visibility_VISIBILITY_DEFAULT
		if strings.Contains(r.Name, "@") {
			x.Needs, x.Versioned = append(x.Needs, r.Name), true
		}
		x.Refs = append(x.Refs, Ref{s, r.Weak, r.Visibility, r.Uses})
	}
	x.Defs = slices.Clip(x.Defs)
	t.units = append(t.units, x)
	return n
}

// protect records a symbol with protected visibility.
func (u *Unit) protect(s Symbol, v manifest.Visibility) {
	if v == manifest.Visibility_VISIBILITY_PROTECTED {
		u.Protected = s
	}
}

// isCopy reports whether a definition is a copy of an inline function, a template, or a type's vtable or name: each
// object that refers to it has one. A replacement of operator new or delete is none. See link-libcxx/new-archive.
func (t *Table) isCopy(d Def) bool {
	name := t.Name(d.Symbol)
	return d.Group != None && strings.HasPrefix(name, "_Z") && !strings.HasPrefix(name, "_Zn") && !strings.HasPrefix(name, "_Zd")
}

func isHidden(v manifest.Visibility) bool {
	return v == manifest.Visibility_VISIBILITY_HIDDEN || v == manifest.Visibility_VISIBILITY_INTERNAL
}
