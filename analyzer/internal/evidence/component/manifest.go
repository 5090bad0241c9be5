package component

import (
	"maps"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/tu"
)

// salt hashes the properties of the whole unit: format, compilers and flags. It is in every local hash.
func salt(u *tu.Unit, clang string) Hash {
	h := newHasher()
	h.num(manifest.Format)
	h.str(clang)
	h.str(u.Compiler)
	list := func(l []string) {
		h.num(uint64(len(l)))
		for _, s := range l {
			h.str(s)
		}
	}
	list(u.Flags)
	h.num(uint64(len(u.Variants)))
	for _, v := range u.Variants {
		list(v)
	}
	return h.sum()
}

// allFlags returns the flags of u and, behind a "|" each, those of its variants.
func allFlags(u *tu.Unit) []string {
	flags := slices.Clone(u.Flags)
	for _, v := range u.Variants {
		flags = append(append(flags, "|"), v...)
	}
	return flags
}

// fileKinds returns notes for the kinds of files that the code can't be linked into, by the last of
// the flags for position independence.
func fileKinds(u *tu.Unit) (l []*manifest.Component) {
	var fixed, executable []string
	for _, flags := range append([][]string{u.Flags}, u.Variants...) {
		pic := "default"
		for _, f := range flags {
			if l := strings.ToLower(f); l == "-fpic" || l == "-fpie" {
				pic = f
			}
		}
		switch strings.ToLower(pic) {
		case "-fpic":
		case "-fpie":
			executable = append(executable, pic)
		default:
			fixed = append(fixed, pic)
		}
	}
	add := func(name string, flags []string) {
		if flags != nil {
			h := hashOf(flags...)
			l = append(l, &manifest.Component{Name: name, Kind: manifest.Kind_KIND_SECTION, Linkage: manifest.Linkage_LINKAGE_LOCAL, LocalHash: h[:]})
		}
	}
	add(manifest.FixedPlace, fixed)
	add(manifest.Executable, executable)
	return l
}

// visibilities are the arguments of attribute visibility.
var visibilities = map[string]manifest.Visibility{
	"internal": manifest.Visibility_VISIBILITY_INTERNAL, "hidden": manifest.Visibility_VISIBILITY_HIDDEN, "protected": manifest.Visibility_VISIBILITY_PROTECTED,
}

// reachable returns the components with a symbol, and those that they refer to.
func (b *builder) reachable() map[*comp]bool {
	reached := map[*comp]bool{}
	var visit func(c *comp)
	visit = func(c *comp) {
		if reached[c] {
			return
		}
		reached[c] = true
		for _, e := range c.body.links {
			if e.comp != nil {
				visit(e.comp)
			}
		}
	}
	for _, c := range b.comps {
		if !c.ent.local {
			visit(c)
		}
	}
	return reached
}

// hashContents computes h0 of each component: its hash without the local components that it refers to. Functions
// without a symbol that nothing uses are removed if they aren't plain, and not emitted.
func (b *builder) hashContents(clang string) error {
	unit := salt(b.unit, clang)
	hash := func(c *comp) {
		h := newHasher()
		h.hash(unit)
		h.num(uint64(c.ent.kind))
		h.hash(b.sealedHash(&c.body))
		h.hash(b.declarationHash(c.ent))
		c.h0 = h.sum()
	}
	reached := b.reachable()
	for _, c := range b.comps {
		if reached[c] {
			if hash(c); b.doubt != "" {
				return notPlain(b.doubt + ", for " + c.name)
			}
		}
	}
	why := ""
	b.comps = slices.DeleteFunc(b.comps, func(c *comp) bool {
		if reached[c] {
			return false
		}
		b.doubt = ""
		hash(c)
		if b.doubt != "" && b.isEmittedUnused(c.ent) && why == "" {
			why = b.doubt + ", for " + c.name
		}
		return b.doubt != ""
	})
	if why != "" {
		return notPlain(why)
	}
	return nil
}

// isEmittedUnused reports whether a compiler emits a local definition that nothing uses, so that its references are
// linked: gcc does without optimisation, except for inline functions.
func (b *builder) isEmittedUnused(e *entity) bool {
	return e.local && !b.unit.Clang && !e.inline
}

// recursiveInline returns a function of a cycle of functions that are always inlined, or nil. The compiler emits one of
// them, depending on the first reference. See code-order/inline-recursion-by-unreached.
func (b *builder) recursiveInline() *entity {
	const open, done = 1, 2
	state := map[*entity]int{}
	var visit func(e *entity) *entity
	visit = func(e *entity) *entity {
		if state[e] == open {
			return e
		}
		if state[e] == done || e.comp == nil || !slices.Contains(e.kinds, "AlwaysInlineAttr") {
			return nil
		}
		state[e] = open
		for _, to := range e.comp.body.links {
			if to != e {
				if found := visit(to); found != nil {
					return found
				}
			}
		}
		state[e] = done
		return nil
	}
	for _, c := range b.comps {
		if found := visit(c.ent); found != nil {
			return found
		}
	}
	return nil
}

// checkSymbolNames returns an error if several names of one symbol are used: compilers emit it by the first use.
// See code-said/symbol-two-names-order.
func (b *builder) checkSymbolNames() error {
	bySymbol := map[string]*entity{}
	for _, name := range slices.Sorted(maps.Keys(b.ordinary)) {
		e := b.ordinary[name]
		if e.kind > entVariable || !e.used || e.sym == "" {
			continue
		}
		if other := bySymbol[e.sym]; other != nil {
			return notPlain(other.name + " and " + e.name + " are one symbol, and both are used")
		}
		bySymbol[e.sym] = e
	}
	return nil
}

// check returns an error if a definition isn't plain.
func (b *builder) check() error {
	if b.late != "" {
		return notPlain(b.late + " is used before all is said of it")
	}
	for _, name := range slices.Sorted(maps.Keys(b.ordinary)) {
		// All declarations, and the compiler, decide whether it is emitted. See code-data/gnu-inline.
		if e := b.ordinary[name]; e.inline && !e.local {
			return notPlain("inline function " + name + " with external linkage")
		}
	}
	if err := b.checkWeights(); err != nil {
		return err
	}
	if err := b.checkSymbolNames(); err != nil {
		return err
	}
	if e := b.recursiveInline(); e != nil {
		return notPlain("function " + e.name + " is always inlined in one that is always inlined in it")
	}
	for _, c := range b.comps {
		e := c.ent
		switch {
		case e.labelled:
			return notPlain("asm label of the defined " + e.name)
		case e.local && (e.library || isCompilerCalled(e.name)):
			return notPlain("static " + e.name + " has the name of a library's")
		}
		for _, name := range []string{e.name, e.sym} {
			if b.x.Released[name] {
				return notPlain(name + " is defined, and an attribute malloc names it")
			}
			if b.x.Labels[name] {
				return notPlain(name + " is defined, and the asm label of another function")
			}
		}
	}
	return nil
}

// manifest computes all hashes and returns the manifest.
func (b *builder) manifest(clang string) (*manifest.Manifest, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	u, unit := b.unit, &manifest.Unit{References: b.references()}
	if err := b.hashContents(clang); err != nil {
		return nil, err
	}
	b.identifyLocals()
	m := &manifest.Manifest{Rung: manifest.Rung_RUNG_FUNCTION, Units: []*manifest.Unit{unit}, Source: u.Source, Clang: clang, Compiler: u.Compiler, Flags: allFlags(u)}
	index := map[*comp]uint32{}
	bySymbol := map[string]*comp{}
	for i, c := range b.comps {
		index[c] = uint32(i)
		if !c.ent.local {
			bySymbol[c.ent.sym] = c
		}
	}
	symbols := map[string]uint32{}
	for _, c := range b.comps {
		mc := c.component()
		for _, l := range c.body.links {
			// The compiler may have inlined the unit's own definition, and the linker may choose another one.
			own := l.comp
			if own == nil && !l.local {
				own = bySymbol[l.sym] // __builtin_memcpy, and memcpy
			}
			if i, ok := index[own]; ok {
				mc.Links = append(mc.Links, 2*i)
			}
			if l.local {
				continue
			}
			i, ok := symbols[l.sym]
			if !ok {
				i = uint32(len(m.Symbols))
				symbols[l.sym] = i
				m.Symbols = append(m.Symbols, l.sym)
			}
			mc.Links = append(mc.Links, 2*i+1)
		}
		m.Components = append(m.Components, mc)
	}
	manifest.NumberNames(m.Components)
	m.Components = append(m.Components, fileKinds(u)...)
	return m, nil
}

// identifyLocals computes the final hash of each component. A local component that it refers to is in there by
// its content, and by its name if another one has the same content.
func (b *builder) identifyLocals() {
	seen := map[Hash]int{}
	for _, c := range b.comps {
		if c.ent.local {
			seen[c.h0]++
		}
	}
	for _, c := range b.comps {
		h := newHasher()
		h.hash(c.h0)
		for _, e := range c.body.links {
			switch {
			case !e.local:
			case e.comp == nil:
				h.str(e.sym)
			default:
				h.hash(e.comp.h0)
				if seen[e.comp.h0] > 1 {
					h.str(e.comp.name)
				}
			}
		}
		c.h = h.sum()
	}
}

// component returns c for the manifest, without links.
func (c *comp) component() *manifest.Component {
	e := c.ent
	m := &manifest.Component{Name: c.name, Kind: manifest.Kind_KIND_FUNCTION, LocalHash: slices.Clone(c.h[:]), Root: e.root(), File: c.file, Linkage: manifest.Linkage_LINKAGE_LOCAL}
	if e.kind == entVariable {
		m.Kind = manifest.Kind_KIND_VARIABLE
	}
	if !e.local {
		m.Linkage = manifest.Linkage_LINKAGE_EXTERNAL
		m.Definitions = []*manifest.Definition{{Name: e.sym, Binding: manifest.Binding_BINDING_GLOBAL, Visibility: visibilities[e.visibility]}}
	}
	return m
}

// references returns all symbols that the unit may leave undefined.
func (b *builder) references() []*manifest.Reference {
	names := map[string]manifest.Visibility{}
	for _, c := range b.comps {
		for _, l := range c.body.links {
			if !l.local {
				names[l.sym] = max(names[l.sym], visibilities[l.visibility])
			}
		}
	}
	for _, c := range b.comps {
		if !c.ent.local {
			delete(names, c.ent.sym)
		}
	}
	var out []*manifest.Reference
	for _, n := range slices.Sorted(maps.Keys(names)) {
		out = append(out, &manifest.Reference{Name: n, Visibility: names[n]})
	}
	return out
}

// root returns why a definition is a root, or "".
func (e *entity) root() string {
	switch {
	case e.local || e.kind != entFunction:
		return ""
	case e.library:
		return "library function"
	case isCompilerCalled(e.sym):
		return "called by compilers"
	}
	return ""
}
