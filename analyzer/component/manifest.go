package component

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/ctext"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// salt is what the translation unit as a whole contributes to every local
// hash: format, compilers, flags, and the pragmas that act on all of it.
func salt(u *ctext.Unit, x *ctext.Index, clang string) Hash {
	h := newHasher()
	h.num(manifest.Format)
	h.str(u.Lang)
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
	h.str(x.UnitState)
	return h.sum()
}

// allFlags lists the flags of u, and behind a "|" each those of its variants.
func allFlags(u *ctext.Unit) []string {
	flags := slices.Clone(u.Flags)
	for _, v := range u.Variants {
		flags = append(append(flags, "|"), v...)
	}
	return flags
}

// symbolLinks returns a function that gives the link to a symbol, and adds the
// symbol to m if it is new.
func symbolLinks(m *manifest.Manifest) func(s string) uint32 {
	symbols := map[string]uint32{}
	return func(s string) uint32 {
		i, ok := symbols[s]
		if !ok {
			i = uint32(len(m.Symbols))
			symbols[s] = i
			m.Symbols = append(m.Symbols, s)
		}
		return 2*i + 1
	}
}

// manifest computes all hashes and returns the manifest.
func (b *builder) manifest(clang string) *manifest.Manifest {
	u := b.unit
	b.weakAliases()
	extra := b.extra.seal()
	sh := newHasher()
	sh.hash(salt(u, b.x, clang))
	sh.hash(b.sealedHash(&extra))
	unitSalt := sh.sum()

	// First everything but the identity of components that are local to the
	// unit: those have no name that counts, only a content.
	seen := map[Hash]int{}
	for _, c := range b.comps {
		b.resolveLinks(c)
		h := newHasher()
		h.hash(unitSalt)
		h.num(uint64(c.kind))
		h.hash(b.sealedHash(&c.body))
		if c.ent != nil {
			h.hash(b.declarationHash(c.ent))
			c.local = c.ent.local
			c.weak = c.ent.weak || c.ent.inline && !c.local
		}
		c.h0 = h.sum()
		if c.local {
			seen[c.h0]++
		}
	}
	// Then a link to a local component is identified by its content, and by
	// its name where two have the same.
	ordinal := 0
	for _, c := range b.comps {
		h := newHasher()
		h.hash(c.h0)
		for _, e := range c.links {
			if !e.local {
				continue
			}
			if len(e.comps) == 0 {
				h.str(e.sym)
			}
			for _, d := range e.comps {
				h.hash(d.h0)
				if seen[d.h0] > 1 {
					h.str(d.name)
				}
			}
		}
		// Constructors run, and sections are filled, in the order of the text.
		if e := c.ent; e != nil && (e.roots["constructor"] || e.roots["destructor"] || e.roots["section"]) {
			h.num(uint64(ordinal))
			ordinal++
		}
		c.h = h.sum()
	}

	m := &manifest.Manifest{Rung: manifest.Rung_RUNG_FUNCTION, Source: u.Source, Clang: clang, Compiler: u.Compiler, Flags: allFlags(u)}
	index := map[*comp]uint32{}
	used := map[string]bool{}
	for i, c := range b.comps {
		index[c] = uint32(i)
		if used[c.name] {
			if !c.local {
				c.aliases = append(c.aliases, c.name)
			}
			base := c.name
			for n := 2; used[c.name]; n++ {
				c.name = base + "#" + strconv.Itoa(n)
			}
		}
		used[c.name] = true
	}
	symbol := symbolLinks(m)
	for _, c := range b.comps {
		mc := &manifest.Component{Name: c.name, Linkage: manifest.Linkage_LINKAGE_EXTERNAL, LocalHash: append([]byte(nil), c.h[:]...), Root: c.root, File: c.file, Aliases: c.aliases}
		switch c.kind {
		case compFunction:
			mc.Kind = manifest.Kind_KIND_FUNCTION
		case compVariable:
			mc.Kind = manifest.Kind_KIND_VARIABLE
		case compAsm:
			mc.Kind = manifest.Kind_KIND_ASM
		}
		if c.local {
			mc.Linkage = manifest.Linkage_LINKAGE_LOCAL
		} else if c.weak {
			mc.Linkage = manifest.Linkage_LINKAGE_WEAK
		}
		if c.ent != nil {
			mc.Root = c.ent.rootReason()
			mc.Interchangeable = c.local && c.kind == compFunction && !c.ent.addressTaken && mc.Root == ""
		}
		for _, e := range c.links {
			for _, d := range e.comps {
				if e.local {
					mc.Links = append(mc.Links, 2*index[d])
				}
			}
			if !e.local || len(e.comps) == 0 {
				// By name, even if defined here: another unit's definition
				// may be the one that is linked.
				mc.Links = append(mc.Links, symbol(e.sym))
				if len(e.comps) == 0 && (e.weak || e.roots["weakref"]) {
					mc.Links = append(mc.Links, symbol(manifest.WeakReference))
				}
			}
		}
		for _, s := range c.syms {
			mc.Links = append(mc.Links, symbol(s))
		}
		m.Components = append(m.Components, mc)
	}
	if b.unknown != "" {
		m.Fallbacks = append(m.Fallbacks, &manifest.Fallback{Reason: b.unknown, Rung: manifest.Rung_RUNG_UNSPECIFIED})
	}
	for _, f := range b.fallbacks {
		m.Fallbacks = append(m.Fallbacks, &manifest.Fallback{Component: f.component, Reason: f.reason, Rung: manifest.Rung_RUNG_FUNCTION})
	}
	return m
}

// weakAliases makes components of the symbols that "#pragma weak NEW = OLD"
// defines. The pragma's text is in all hashes of the unit.
func (b *builder) weakAliases() {
	for _, p := range b.x.Pragmas {
		f := strings.Fields(strings.ReplaceAll(string(b.unit.Text[p.Begin:p.End]), "=", " = "))
		if len(f) != 5 || f[1] != "weak" || f[3] != "=" {
			continue
		}
		e := &entity{kind: entFunction, name: f[2], sym: f[2], weak: true}
		s := newStream()
		s.h.str("weak alias")
		s.symbols = []string{f[4]}
		b.define(e, &comp{ent: e, name: f[2], kind: compFunction, body: s.seal(), file: b.unit.FileAt(p.Begin)})
	}
}

// rootReason says why a definition runs or matters without being referred to,
// "" if it doesn't.
func (e *entity) rootReason() string {
	var out string
	for _, r := range []string{"constructor", "destructor", "used", "retain", "section", "init_priority", "ifunc", "library function"} {
		if e.roots[r] {
			if out != "" {
				out += ", "
			}
			out += r
		}
	}
	if out == "" && !e.local && e.kind == entFunction && reserved(e.sym) {
		out = "called by compilers"
	}
	return out
}

// resolveLinks lists everything that c refers to: by the nodes of its body in
// their order, then by token text and attributes, sorted.
func (b *builder) resolveLinks(c *comp) {
	have := map[*entity]bool{}
	syms := map[string]bool{}
	add := func(e *entity) {
		if e != nil && e.kind <= entVariable && !have[e] {
			have[e] = true
			c.links = append(c.links, e)
		}
	}
	// What a type or declaration mentions in attributes counts as well.
	types := map[*entity]bool{}
	var visit func(e *entity)
	stream := func(s *sealed) {
		for _, l := range s.links {
			add(l)
		}
		for _, w := range s.words {
			if e := b.ordinary[w]; e != nil {
				e.addressTaken = true // text doesn't say what it does with it
				add(e)
			}
		}
		for _, w := range s.symbols {
			syms[w] = true
		}
		for _, u := range s.uses {
			if u.ent.kind > entVariable {
				visit(u.ent)
			}
		}
	}
	visit = func(e *entity) {
		if types[e] {
			return
		}
		types[e] = true
		if e.content != nil {
			stream(e.content)
		}
	}
	stream(&c.body)
	if c.ent != nil {
		for i := range c.ent.attrs {
			stream(&c.ent.attrs[i])
		}
		for i := range c.ent.decls {
			stream(&c.ent.decls[i].typ)
		}
		delete(have, c.ent)
	}
	for s := range syms {
		if e := b.ordinary[s]; e != nil && e.kind <= entVariable {
			add(e)
			if e.sym == s {
				continue
			}
		}
		c.syms = append(c.syms, s)
	}
	sort.Strings(c.syms)
}

// opaque returns the manifest of a unit that can't be analysed by function: one
// component for the whole text, which refers to everything that the text names.
func opaque(u *ctext.Unit, clang, reason string) *manifest.Manifest {
	x := ctext.Scan(u.Text)
	h := newHasher()
	h.hash(salt(u, x, ""))
	lex := ctext.NewLexer(u.Text, 0)
	names, defs := map[string]bool{}, map[string]bool{}
	depth := 0
	var prev string
	for {
		t := lex.Next()
		if t.Kind == ctext.EOF {
			break
		}
		s := string(u.Text[t.Off:t.End])
		h.str(s)
		switch {
		case t.Kind == ctext.Ident:
			names[s] = true
		case t.Kind == ctext.Pragma:
			for _, w := range ctext.Words(u.Text[t.Off:t.End]) {
				names[w] = true
			}
		case s == "{":
			depth++
		case s == "}":
			depth--
		case s == "(" && depth == 0 && prev != "":
			defs[prev] = true
		}
		prev = ""
		if t.Kind == ctext.Ident {
			prev = s
		}
	}
	for _, w := range ctext.Words(ctext.StringContents(u.Text)) {
		names[w] = true
	}
	for _, s := range u.Sites {
		h.str(s.Position)
	}
	h.str(u.Unnamed)
	h.str(string(u.Emitted)) // in a default argument, a site stands for the place of the call
	if u.Lang == "c++" {
		names[manifest.AnySymbol] = true // symbols aren't identifiers
	}
	sum := h.sum()
	c := &manifest.Component{Name: "file " + u.Source, Kind: manifest.Kind_KIND_FILE, Linkage: manifest.Linkage_LINKAGE_EXTERNAL, LocalHash: sum[:], Root: "opaque file", File: u.Source}
	m := &manifest.Manifest{Rung: manifest.Rung_RUNG_FILE, Source: u.Source, Clang: clang, Compiler: u.Compiler, Flags: u.Flags, Components: []*manifest.Component{c}}
	for n := range names {
		m.Symbols = append(m.Symbols, n)
	}
	sort.Strings(m.Symbols)
	for i := range m.Symbols {
		c.Links = append(c.Links, uint32(2*i+1))
	}
	for d := range defs {
		c.Aliases = append(c.Aliases, d)
	}
	sort.Strings(c.Aliases)
	m.Fallbacks = []*manifest.Fallback{{Reason: reason, Rung: manifest.Rung_RUNG_FILE}}
	return m
}
