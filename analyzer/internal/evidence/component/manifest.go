package component

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/tu"
)

// salt is what the translation unit as a whole contributes to every local
// hash: format, compilers and flags.
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

// allFlags lists the flags of u, and behind a "|" each those of its variants.
func allFlags(u *tu.Unit) []string {
	flags := slices.Clone(u.Flags)
	for _, v := range u.Variants {
		flags = append(append(flags, "|"), v...)
	}
	return flags
}

// kindsOfFile returns the components that say for which kinds of files the code is,
// by flags: of the flags that make it position independent the last counts.
func kindsOfFile(u *tu.Unit) (l []*manifest.Component) {
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

// visibilities are those of attributes.
var visibilities = map[string]manifest.Visibility{
	"internal": manifest.Visibility_VISIBILITY_INTERNAL, "hidden": manifest.Visibility_VISIBILITY_HIDDEN, "protected": manifest.Visibility_VISIBILITY_PROTECTED,
}

// reachable returns the components that something emitted can depend on: those
// with a symbol, and what they refer to.
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

// contents computes h0 of every component: all of its hash but which local
// components it refers to. Functions without a symbol that nothing uses are left
// out if they aren't plain, and not emitted.
func (b *builder) contents(clang string) error {
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
		if b.doubt != "" && b.keeps(c.ent) && why == "" {
			why = b.doubt + ", for " + c.name
		}
		return b.doubt != ""
	})
	if why != "" {
		return notPlain(why)
	}
	return nil
}

// keeps says whether a compiler emits a local definition that nothing uses: gcc
// does without optimisation, but for inline functions. So what it refers to is
// linked.
func (b *builder) keeps(e *entity) bool {
	return e.local && !b.unit.Clang && !e.inline
}

// inlinesItself returns a function of several that are always inlined in each other, if there is
// one: which of them disappears is up to what the unit refers to first.
func (b *builder) inlinesItself() *entity {
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

// sameSymbol returns an error if several names of one function or variable are used: compilers
// make it of what they use first.
func (b *builder) sameSymbol() error {
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

// check returns an error if a definition isn't plain for what it is.
func (b *builder) check() error {
	if b.late != "" {
		return notPlain(b.late + " is used before all is said of it")
	}
	for _, name := range slices.Sorted(maps.Keys(b.ordinary)) {
		// Whether there is code for it depends on all of its declarations, and on the compiler.
		if e := b.ordinary[name]; e.inline && !e.local {
			return notPlain("inline function " + name + " with external linkage")
		}
	}
	if err := b.weighs(); err != nil {
		return err
	}
	if err := b.sameSymbol(); err != nil {
		return err
	}
	if e := b.inlinesItself(); e != nil {
		return notPlain("function " + e.name + " is always inlined in one that is always inlined in it")
	}
	for _, c := range b.comps {
		e := c.ent
		switch {
		case e.labelled:
			return notPlain("asm label of the defined " + e.name)
		case e.local && (e.library || reserved(e.name)):
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
	u := b.unit
	if err := b.check(); err != nil {
		return nil, err
	}
	unit := &manifest.Unit{References: b.references()}
	if err := b.contents(clang); err != nil {
		return nil, err
	}
	// A link to a local component, which has no name that counts, is identified
	// by its content, and by its name where two have the same.
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

	m := &manifest.Manifest{Rung: manifest.Rung_RUNG_FUNCTION, Units: []*manifest.Unit{unit}, Source: u.Source, Clang: clang, Compiler: u.Compiler, Flags: allFlags(u)}
	index := map[*comp]uint32{}
	bySymbol := map[string]*comp{}
	used := map[string]bool{}
	for i, c := range b.comps {
		index[c] = uint32(i)
		if !c.ent.local {
			bySymbol[c.ent.sym] = c
		}
		base := c.name
		for n := 2; used[c.name]; n++ {
			c.name = base + "#" + strconv.Itoa(n)
		}
		used[c.name] = true
	}
	symbols := map[string]uint32{}
	for _, c := range b.comps {
		e := c.ent
		mc := &manifest.Component{Name: c.name, Kind: manifest.Kind_KIND_FUNCTION, LocalHash: slices.Clone(c.h[:]), Root: e.root(), File: c.file}
		if e.kind == entVariable {
			mc.Kind = manifest.Kind_KIND_VARIABLE
		}
		switch {
		case e.local:
			mc.Linkage = manifest.Linkage_LINKAGE_LOCAL
		default:
			mc.Linkage = manifest.Linkage_LINKAGE_EXTERNAL
			mc.Definitions = []*manifest.Definition{{Name: e.sym, Binding: manifest.Binding_BINDING_GLOBAL, Visibility: visibilities[e.visibility]}}
		}
		for _, l := range c.body.links {
			// The compiler may have inlined the unit's own definition, and the
			// linker may choose another.
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
	m.Components = append(m.Components, kindsOfFile(u)...)
	return m, nil
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

// root says why a definition runs or matters without being referred to, "" if it
// doesn't.
func (e *entity) root() string {
	switch {
	case e.local || e.kind != entFunction:
		return ""
	case e.library:
		return "library function"
	case reserved(e.sym):
		return "called by compilers"
	}
	return ""
}
