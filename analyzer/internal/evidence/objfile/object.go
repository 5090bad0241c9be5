package objfile

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/symname"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// object is what a manifest says about a relocatable file.
type object struct {
	member     string
	components []*component
	references []*manifest.Reference
	attributes []byte
	sections   []byte
	content    []byte
	literals   []byte
	fallbacks  []*manifest.Fallback
	libraries  []string // that it asks the linker for, as words of a line
}

// component is what a linker takes from some ranges of one section, nearly
// always a single one. A common symbol (a tentative definition of C) has none.
type component struct {
	name, root, group string
	sec               int
	spans             []span
	syms              []int // defined in it, with a name
	definitions       []*manifest.Definition
	linkage           manifest.Linkage
	links             []link
	unwind            []unwindEntry
	next              int // the component that it runs into, or -1
	entries           []string
	placed            uint32 // see order
	align             uint64 // as it counts, of code
	hash              []byte
}

type span struct{ start, end uint64 }

// base is where offsets in the component count from.
func (c *component) base() uint64 { return c.spans[0].start }

// link is a link of the manifest: to a component of the object, or, with
// component -1, to a symbol.
type link struct {
	component int
	symbol    string
}

// anything is the link to whatever may be there.
var anything = link{-1, manifest.AnySymbol}

// sectionKind says what becomes of the bytes of a section.
type sectionKind uint8

const (
	kindIgnored   sectionKind = iota // not loaded
	kindComponent                    // one or several
	kindLiterals                     // parts of whatever refers to them
	kindUnwind                       // parts of what they describe
	kindHandlers                     // as kindUnwind, if all goes well
)

// reader holds what readObject knows while it reads.
type reader struct {
	*file
	member string
	kinds  []sectionKind
	cuts   []cutting
	pieces [][]piece // by section
	out    []*component
	attrs  frame.Buffer
	// SHF_LINK_ORDER: by section, those that say that they belong to it.
	kept        map[int][]int
	rootCount   map[string]int // how many root sections of each name were met
	fallbacks   []*manifest.Fallback
	returns     map[[2]int]bool // by section and function: whether it may
	rests       map[[2][2]int]bool
	assembly    bool            // Options.Assembly
	defined     map[string]bool // see defines
	rootReasons []*string       // by section
	// Of the component at work: what is hashed, and the places of its links.
	message frame.Buffer
	places  map[link]int
}

func readObject(b []byte, member string, assembly bool) (*object, error) {
	f, err := readFile(b)
	if why := unusual(""); errors.As(err, &why) {
		return whole(b, member, string(why))
	} else if err != nil {
		return nil, damaged(err)
	}
	r := &reader{
		file: f, member: member, assembly: assembly, attrs: f.attributes(), kinds: make([]sectionKind, len(f.sections)), pieces: make([][]piece, len(f.sections)),
		kept: map[int][]int{}, rootCount: map[string]int{}, places: map[link]int{}, returns: map[[2]int]bool{}, rests: map[[2][2]int]bool{},
	}
	if err := r.checkLTO(); err != nil {
		return nil, err
	}
	if why := r.ordinary(); why != "" {
		o, err := whole(b, member, why)
		if err == nil {
			o.libraries = r.libraries()
		}
		return o, err
	}
	r.classify()
	r.split()
	r.readUnwind()
	for _, c := range r.out {
		r.fill(c)
	}
	r.enter()
	r.commons()
	r.everything()
	r.storage()
	r.kindsOfFile()
	return &object{member, r.out, r.references(), r.attrs.Sum128(), r.layout(), frame.Buffer(b).Sum128(), r.literals(), r.fallbacks, r.libraries()}, nil
}

// layout hashes what a linker script may tell sections by, and which addresses are significant
// (.llvm_addrsig): all that isn't for debuggers.
func (r *reader) layout() []byte {
	h := frame.New("tasting sections 6")
	for i := range r.sections {
		s := &r.sections[i]
		to := s
		if s.typ == elf.SHT_RELA {
			to = &r.sections[s.info]
		}
		if ownSection(to.name) && to.typ == elf.SHT_PROGBITS || s.typ == elf.SHT_STRTAB || s.typ == elf.SHT_SYMTAB {
			continue
		}
		h.String(s.name)
		h.Uint(uint64(s.typ))
		h.Uint(uint64(s.flags))
		h.String(s.group)
		h.Uint(s.align)
		h.Uint(s.size)
		h.Bytes(s.data)
	}
	return h.Sum128()
}

// libraries returns the libraries that the object asks the linker for.
func (r *reader) libraries() (list []string) {
	for i := range r.sections {
		switch s := &r.sections[i]; s.typ {
		case shtLLVMDependentLibs:
			list = append(list, words.Directives(words.DependentLibraries, s.data)...)
		case shtLLVMLinkerOptions:
			list = append(list, words.Directives(words.LinkerOptions, s.data)...)
		}
	}
	return list
}

// affectsLink says whether a section that isn't loaded tells the linker
// something that changes the program.
func affectsLink(s *section) bool {
	return s.typ == shtLLVMLinkerOptions || s.typ == shtLLVMDependentLibs
}

func isLTO(s *section) bool {
	return strings.HasPrefix(s.name, ".gnu.lto_") || s.name == ".llvm.lto"
}

// checkLTO refuses objects with an intermediate form. If there is machine code beside it
// (-ffat-lto-objects), gcc's linker takes the intermediate form all the same, asked for or not:
// with references of its own, and code that all other units have a say in.
func (r *reader) checkLTO() error {
	for i := range r.sections {
		if isLTO(&r.sections[i]) {
			return errLTO
		}
	}
	return nil
}

// classify decides what becomes of each section.
func (r *reader) classify() {
	referred := make([]bool, len(r.sections))
	for i := range r.sections {
		s := &r.sections[i]
		for _, rel := range s.relocs {
			if k := r.syms[rel.sym].sec; k > 0 {
				referred[k] = true
			}
		}
		if s.flags&elf.SHF_LINK_ORDER != 0 {
			r.kept[int(s.link)] = append(r.kept[int(s.link)], i)
		}
	}
	for i := range r.sections {
		s := &r.sections[i]
		switch {
		case affectsLink(s):
			r.kinds[i] = kindComponent
		case !s.loaded(), s.name == ".note.gnu.property":
		case r.isUnwind(i):
			if s.size > 0 {
				r.kinds[i] = kindUnwind
			}
		case isLiterals(s):
			r.kinds[i] = kindLiterals
		case s.size == 0 && !referred[i] && len(s.locals)+len(s.globals) == 0 && (standardName(s.name) != "" || s.flags&elf.SHF_ALLOC == 0):
		case s.name == ".gcc_except_table" || strings.HasPrefix(s.name, ".gcc_except_table."):
			r.kinds[i] = kindHandlers
		default:
			r.kinds[i] = kindComponent
		}
	}
}

// isLiterals says whether a section holds constants that the linker merges with
// equal ones: its entries are part of whoever refers to them.
func isLiterals(s *section) bool {
	return s.flags&elf.SHF_MERGE != 0 && s.flags&elf.SHF_WRITE == 0 && s.typ == elf.SHT_PROGBITS && s.entsize > 0 &&
		standardName(s.name) != "" && len(s.relocs) == 0 && len(s.globals) == 0
}

// rootReason says why section k counts without a reference to it, or "".
func (r *reader) rootReason(k int) string {
	if r.rootReasons == nil {
		r.rootReasons = make([]*string, len(r.sections))
	}
	if r.rootReasons[k] == nil {
		why := r.findRootReason(k)
		r.rootReasons[k] = &why
	}
	return *r.rootReasons[k]
}

func (r *reader) findRootReason(k int) string {
	s := &r.sections[k]
	switch {
	case affectsLink(s):
		return "section " + s.name
	case uint64(s.flags)&shfGNURetain != 0 && !isIdentifier(s.name):
		return "retained section " + s.name
	case s.typ == elf.SHT_INIT_ARRAY || s.typ == elf.SHT_FINI_ARRAY || s.typ == elf.SHT_PREINIT_ARRAY:
		return "section " + s.name
	case r.kinds[k] == kindUnwind:
		return "section " + s.name // what the reader of unwind tables doesn't understand
	case standardName(s.name) != "":
		return ""
	case isIdentifier(s.name):
		return "linker set " + s.name
	}
	return "section " + s.name
}

// isIdentifier tells whether linkers may define bounds of sections named so. GNU ld takes
// names that begin with a digit.
func isIdentifier(s string) bool {
	for _, c := range []byte(s) {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// makeComponents turns pieces into components and gives them their symbols.
func (r *reader) makeComponents() {
	for k := range r.sections {
		hub := -1
		for i := range r.pieces[k] {
			p := &r.pieces[k][i]
			switch {
			case p.kind != inComponent:
				continue
			case p.comp != hubComponent:
				p.comp = r.newComponent(k)
			default:
				if hub < 0 {
					hub = r.newComponent(k)
					r.cuts[k].hubPiece = i
				}
				p.comp = hub
			}
			c := r.out[p.comp]
			c.spans = append(c.spans, span{p.start, p.end})
		}
		if r.kinds[k] != kindComponent || len(r.pieces[k]) == 0 {
			continue
		}
		for _, i := range slices.Concat(r.sections[k].locals, r.sections[k].globals) {
			at := 0
			if r.cuts[k].cut {
				if at = r.find(k, int64(r.syms[i].value)); at < 0 {
					continue // a mark between code and data
				}
			}
			if p := r.pieces[k][at]; p.kind == inComponent {
				c := r.out[p.comp]
				c.syms = append(c.syms, i)
				if r.syms[i].typ() == sttGNUIFunc && c.root == "" {
					// The loader calls it for any reference, reached or not.
					c.root = manifest.Resolver
				}
			}
		}
		c := &r.cuts[k]
		if c.code == nil {
			continue
		}
		for i, e := range c.extents {
			r.runsInto(k, i, e)
		}
	}
}

func (r *reader) newComponent(k int) int {
	r.out = append(r.out, &component{sec: k, root: r.rootReason(k), group: r.sections[k].comdat, next: -1})
	return len(r.out) - 1
}

// runsInto notes where control goes at the end of function i of section k.
func (r *reader) runsInto(k, i int, e extent) {
	if e.padTraps {
		return
	}
	l := r.pieces[k]
	for _, x := range e.exits {
		switch last := i+1 == len(r.cuts[k].extents); {
		case !last && r.cuts[k].cut:
			if !x.withCall || r.comesBack(k, x.call) {
				r.out[l[i].comp].next = l[i+1].comp
			}
		case last && !x.withCall && r.rootReason(k) == "":
			// Out of the section, into whatever a linker puts behind it. (A call
			// is taken not to come back there: the compiler knew.)
			r.out[l[len(l)-1].comp].next = beyond
		}
	}
}

// beyond is the next component of code that runs out of its section.
const beyond = -2

// comesBack says whether what the call at a place calls may return.
func (r *reader) comesBack(k int, at uint64) bool {
	c := &r.cuts[k]
	target := func(k int, to uint64) bool {
		e := covering(r.cuts[k].extents, to)
		if r.cuts[k].code == nil || e < 0 || r.cuts[k].extents[e].start != to {
			return true
		}
		id := [2]int{k, e}
		known, ok := r.returns[id]
		if !ok {
			x := r.cuts[k].extents[e]
			r.returns[id] = true // as long as it isn't known
			known = x.returns || slices.ContainsFunc(x.exits, func(x exit) bool { return !x.withCall || r.comesBack(k, x.call) })
			r.returns[id] = known
		}
		return known
	}
	if i, ok := slices.BinarySearchFunc(c.code.sites, at, func(s site, at uint64) int { return cmp.Compare(s.at, at) }); ok {
		return target(k, c.code.sites[i].target)
	}
	i, hit := firstReloc(r.sections[k].relocs, at, at+4)
	if !hit {
		return true
	}
	rel, sym := &r.sections[k].relocs[i], &r.syms[r.sections[k].relocs[i].sym]
	switch {
	case neverReturns(sym.name) && sym.sec <= 0: // not one of its own of that name
		return false
	case sym.sec > 0 && sym.typ() == elf.STT_SECTION:
		to := int64(sym.value) + rel.addend + int64(c.uses[i].bias)
		return to < 0 || target(sym.sec, uint64(to))
	case sym.sec > 0 && sym.bind() != elf.STB_WEAK:
		return target(sym.sec, sym.value)
	}
	return true
}

// isMethod says whether a component may be a method of C++.
func (r *reader) isMethod(c *component) bool {
	return slices.ContainsFunc(c.syms, func(i int) bool { return strings.HasPrefix(r.syms[i].name, "_Z") })
}

// fill completes a component of the output.
func (r *reader) fill(c *component) {
	clear(r.places)
	h := &r.message
	*h = (*h)[:0]
	h.String("tasting section 2")
	h.Bytes(r.attrs)
	r.hashSection(h, c)
	r.hashExtents(h, c)
	r.hashAlignment(h, c)
	r.define(h, c)
	base := c.base()
	h.Int(len(c.spans))
	for _, p := range c.spans {
		h.Uint(p.start - base)
		r.hashContent(h, c, p)
	}
	switch {
	case c.next >= 0:
		h.String("runs into")
		h.Int(r.addLink(c, link{component: c.next}))
	case c.next == beyond:
		h.String("runs out")
		r.addLink(c, anything)
		r.doubt(c, "control runs out of its section at the end of the function")
	default:
		h.String("")
	}
	h.Int(len(c.unwind))
	for _, e := range c.unwind {
		h.Bytes(e.bytes)
		h.Uint(uint64(e.place))
		r.hashRelocs(h, c, e.section, e.relocs, nil, e.start)
	}
	// Sections that are kept because of this one.
	for _, j := range r.kept[c.sec] {
		for _, p := range r.pieces[j] {
			if p.kind == inComponent {
				h.Int(r.addLink(c, link{component: p.comp}))
			}
		}
	}
	r.ask(c)
	c.hash = h.Sum128()
}

// doubt notes why a component is linked to anything.
func (r *reader) doubt(c *component, reason string) {
	r.fallbacks = append(r.fallbacks, &manifest.Fallback{Component: c.name, Reason: reason, Rung: manifest.Rung_RUNG_OBJECT})
}

// hashSection appends the section of a component, and where among those that run or are linked to
// others it is.
func (r *reader) hashSection(h *frame.Buffer, c *component) {
	s := &r.sections[c.sec]
	// A standard name tells the function or variable, whose name enters by its
	// symbol if it is global, and can't matter if it is local.
	name := standardName(s.name)
	if name == "" || len(r.kept[c.sec]) > 0 {
		name = s.name // what belongs to it is in the order of such names
	}
	h.String(name)
	h.Uint(uint64(s.typ))
	h.Uint(uint64(s.flags &^ (elf.SHF_GROUP | elf.SHF_INFO_LINK | elf.SHF_LINK_ORDER)))
	h.Uint(s.entsize)
	h.String(s.group)
	if c.root == "" {
		return
	}
	// Initialisers of one priority run in the order of their sections, and a
	// priority can be written in several ways.
	kind := s.name
	if s.typ == elf.SHT_INIT_ARRAY || s.typ == elf.SHT_FINI_ARRAY || s.typ == elf.SHT_PREINIT_ARRAY {
		kind = s.typ.String()
	}
	h.Int(r.rootCount[kind])
	r.rootCount[kind]++
}

// hashExtents appends where variables without content are: nothing else shows where one of them
// ends, for the next begins behind its padding.
func (r *reader) hashExtents(h *frame.Buffer, c *component) {
	if r.sections[c.sec].typ != elf.SHT_NOBITS || len(c.syms) < 2 {
		return
	}
	extents := make([]span, len(c.syms))
	for i, n := range c.syms {
		extents[i] = span{r.syms[n].value - c.base(), r.syms[n].size}
	}
	slices.SortFunc(extents, func(a, b span) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end)) })
	h.Int(len(extents))
	for _, x := range extents {
		h.Uint(x.start)
		h.Uint(x.end)
	}
}

// hashAlignment appends how a component is aligned. The place of a function in its section tells
// nothing: what is in front of it, and the linker, move it. But it is aligned as it was asked for, by
// more than the 2 bytes that all methods of C++ are.
func (r *reader) hashAlignment(h *frame.Buffer, c *component) {
	s := &r.sections[c.sec]
	align, rest := s.align, uint64(0)
	if align > 1 {
		rest = c.base() % align
	}
	if r.cuts[c.sec].cut && s.code() && align <= 16 {
		if rest != 0 {
			align = rest & -rest
		}
		if rest = 0; align < 2 || align == 2 && (s.align > 2 || r.isMethod(c)) {
			align = 0
		}
		c.align = align
	}
	h.Uint(align)
	h.Uint(rest)
}

// define names the component and appends the symbols that it defines.
func (r *reader) define(h *frame.Buffer, c *component) {
	s := &r.sections[c.sec]
	var locals, globals []int
	for _, i := range c.syms {
		if !r.syms[i].local() {
			globals = append(globals, i)
		} else {
			locals = append(locals, i)
		}
	}
	h.Int(len(globals))
	for _, i := range globals {
		sym := &r.syms[i]
		c.definitions = append(c.definitions, definition(sym.info, sym.other, sym.name))
		h.String(sym.name)
		h.Uint(sym.value - c.base())
		h.Uint(sym.size)
		h.Int(int(sym.info))
		h.Int(int(sym.other))
	}
	c.definitions = uniqueDefinitions(c.definitions)
	c.linkage = linkage(c.definitions, c.group != "")
	// A component is named after what it is, if that is one function or
	// variable, which may have several names.
	one := func(l []int) (name string) {
		for _, i := range l {
			if r.syms[i].value != r.syms[l[0]].value {
				return ""
			}
			if name == "" || r.syms[i].name < name {
				name = r.syms[i].name
			}
		}
		return name
	}
	c.name = one(globals)
	if c.name == "" && len(globals) == 0 && (c.root == "" || standardName(s.name) != "") {
		if c.name = one(locals); c.name != "" {
			c.name = r.label(c.name)
		}
	}
	if c.name == "" {
		c.name = r.label(s.name)
	}
}

// hashContent appends the bytes of a range and what they refer to.
func (r *reader) hashContent(h *frame.Buffer, c *component, p span) {
	s, cut := &r.sections[c.sec], &r.cuts[c.sec]
	size := p.end - p.start
	h.Uint(size)
	relocs, uses := s.relocs, cut.uses
	if cut.cut {
		first, _ := firstReloc(relocs, p.start, p.end)
		end, _ := firstReloc(relocs, p.end, p.end)
		relocs = relocs[first:end]
		if uses != nil {
			uses = uses[first:end]
		}
	}
	if s.data == nil {
		h.String("")
		r.hashRelocs(h, c, c.sec, relocs, uses, c.base())
		return
	}
	h.Bytes(s.data[p.start:p.end])
	if cut.cut && cut.code != nil {
		// A distance that stands for a link doesn't count.
		data := (*h)[uint64(len(*h))-size:]
		sites := sitesIn(cut.code.sites, p)
		for _, x := range sites {
			if at := data[x.at-p.start:]; x.width == 1 {
				at[0] = 0
			} else {
				clear(at[:4])
			}
		}
		h.Int(len(sites))
		for _, x := range sites {
			to := r.pieces[c.sec][r.find(c.sec, int64(x.target))].comp
			h.Uint(x.at - p.start)
			h.Int(r.addLink(c, link{component: to}))
			h.Uint(x.target - r.out[to].base())
		}
	}
	r.hashRelocs(h, c, c.sec, relocs, uses, c.base())
}

func sitesIn(l []site, p span) []site {
	at := func(s site, at uint64) int { return cmp.Compare(s.at, at) }
	first, _ := slices.BinarySearchFunc(l, p.start, at)
	end, _ := slices.BinarySearchFunc(l, p.end, at)
	return l[first:end]
}

// addLink returns the place of l among the links of c, counted from 1. 0 is c
// itself.
func (r *reader) addLink(c *component, l link) int {
	if l.component >= 0 && r.out[l.component] == c {
		return 0
	}
	k, ok := r.places[l]
	if !ok {
		c.links = append(c.links, l)
		k = len(c.links)
		r.places[l] = k
	}
	return k
}

// hashRelocs appends relocations of section k with the identity of what they
// refer to, and adds the links.
func (r *reader) hashRelocs(h *frame.Buffer, c *component, k int, relocs []reloc, uses []use, base uint64) {
	h.Int(len(relocs))
	for i := range relocs {
		rel := &relocs[i]
		h.Uint(rel.offset - base)
		h.Uint(uint64(rel.typ))
		u := use{class: useExact}
		if uses != nil {
			u = uses[i]
		}
		r.hashTarget(h, c, rel, u)
		if r.syms[rel.sym].name == tlsGetAddr && !(i > 0 && isTLSCall(relocs[i-1].typ)) {
			// Not what compilers make of an access: it may be any variable of any file.
			r.addLink(c, link{-1, manifest.AnySymbol})
		}
		if sym := &r.syms[rel.sym]; r.leadsInside(c.sec, rel, u) && !sym.local() {
			// Only people jump into the middle of other functions.
			r.addLink(c, anything)
			r.doubt(c, "it goes on in the middle of "+symname.Printable(sym.name))
		}
	}
}

// leadsInside tells whether control goes to another place of a function than its beginning. Where nothing was
// decoded, as in people's assembly, only calls and jumps by name are known.
func (r *reader) leadsInside(k int, rel *reloc, u use) bool {
	branch, inside := u.branch, rel.addend+int64(u.bias) != 0
	if r.sections[k].code() && r.cuts[k].code == nil {
		branch, inside = rel.typ == elf.R_X86_64_PLT32, rel.addend != -4
	}
	return branch && inside
}

const tlsGetAddr = "__tls_get_addr"

// isTLSCall tells whether a relocation is that of the argument of a compiler's call of
// __tls_get_addr, which comes right behind it.
func isTLSCall(typ elf.R_X86_64) bool {
	return typ == elf.R_X86_64_TLSGD || typ == elf.R_X86_64_TLSLD
}

// hashTarget appends what a relocation refers to.
func (r *reader) hashTarget(h *frame.Buffer, c *component, rel *reloc, u use) {
	sym := &r.syms[rel.sym]
	target := sym.value + uint64(rel.addend)
	switch {
	case rel.sym == 0:
		h.String("none")
		h.Uint(target)
	case !sym.local():
		h.String("global")
		h.String(sym.name)
		h.Uint(uint64(rel.addend))
		h.Int(int(elf.ST_VISIBILITY(sym.other)))
		h.Uint(flag(sym.sec == secUndefined && sym.bind() == elf.STB_WEAK)) // may stay undefined
		h.Int(r.addLink(c, link{-1, sym.name}))
		r.hashBeyond(h, c, rel, u)
	case sym.sec < 0: // absolute
		h.String("absolute")
		h.Uint(target)
	case r.kinds[sym.sec] == kindComponent:
		switch sym.typ() {
		case elf.STT_TLS, sttGNUIFunc:
			h.Int(int(sym.typ()))
		default:
			h.Int(0)
		}
		r.hashPlace(h, c, rel, u)
	case r.kinds[sym.sec] == kindLiterals:
		r.hashLiteral(h, sym, rel, u)
	case r.kinds[sym.sec] == kindHandlers:
		p := r.pieces[sym.sec][r.find(sym.sec, int64(target))]
		b := bytes.TrimRight(r.sections[sym.sec].data[p.start:p.end], "\x00") // padding
		h.String("handlers")
		h.Bytes(b)
		r.hashInlined(h, c, sym.sec, p)
	default: // debug information and the like
		h.String("other")
		h.String(r.sections[sym.sec].name)
		h.Uint(target)
	}
}

// hashInlined appends the relocations of a piece that counts as part of c.
func (r *reader) hashInlined(h *frame.Buffer, c *component, k int, p piece) {
	s := &r.sections[k]
	first, _ := firstReloc(s.relocs, p.start, p.end)
	end, _ := firstReloc(s.relocs, p.end, p.end)
	h.Int(end - first)
	class := useExact
	if p.kind == handlers {
		class = useDirect // what it refers to is read, or called
	}
	for i := first; i < end; i++ {
		rel, u := s.relocs[i], use{class: class}
		h.Uint(rel.offset - p.start)
		h.Uint(uint64(rel.typ))
		if p.kind == jumpTable && r.cuts[k].uses[i].class == useTable {
			rel.addend -= int64(rel.offset - p.start) // relative to the table
		}
		r.hashTarget(h, c, &rel, u)
	}
}

// hashPlace appends the place that a relocation against a local symbol leads to.
func (r *reader) hashPlace(h *frame.Buffer, c *component, rel *reloc, u use) {
	sym := &r.syms[rel.sym]
	k := sym.sec
	l := r.pieces[k]
	in := func(p piece, at int64) {
		h.Int(r.addLink(c, link{component: p.comp}))
		h.Uint(uint64(at - int64(r.out[p.comp].base())))
	}
	if !r.cuts[k].cut {
		if u.class == useUnknown || u.class == useTable || sym.typ() != elf.STT_SECTION {
			h.String("section")
			in(l[0], int64(sym.value)+rel.addend)
		} else {
			h.String("place")
			in(l[0], int64(sym.value)+rel.addend+int64(u.bias))
		}
		return
	}
	at := int64(sym.value) + rel.addend + int64(u.bias)
	switch {
	case sym.typ() != elf.STT_SECTION:
		h.String("symbol")
		in(l[r.find(k, int64(sym.value))], int64(sym.value))
		h.Uint(uint64(rel.addend))
		r.hashBeyond(h, c, rel, u)
	case u.class == useTable:
		// The field holds the distance from a place between the beginning of
		// the component and the field, so the addend is too great by as much.
		h.String("distance")
		low := at - int64(rel.offset-min(rel.offset, c.base()))
		first, _ := slices.BinarySearchFunc(l, low, func(p piece, low int64) int { return cmp.Compare(int64(p.end), low+1) })
		end := first
		for end < len(l) && int64(l[end].start) <= at {
			end++
		}
		if first == end { // damaged
			first, end = 0, len(l)
		}
		for _, p := range l[first:end] {
			in(p, at)
		}
	default:
		i := r.find(k, at)
		switch {
		case i >= 0 && l[i].kind == jumpTable:
			h.String("table")
			h.Uint(l[i].end - l[i].start)
			r.hashInlined(h, c, k, l[i])
			if r.cuts[k].hub && r.cuts[k].beyond[uint64(at)] {
				in(l[r.cuts[k].hubPiece], at)
			}
		default:
			h.String("place")
			if i < 0 && r.cuts[k].hub { // out of everything
				i = r.cuts[k].hubPiece
			}
			if i >= 0 {
				in(l[i], at)
			}
		}
		// Without this reference there were no such table.
		if i >= 0 && l[i].kind == jumpTable && l[i].start == uint64(at) && len(refsTo(r.cuts[k].refs, at)) == 1 {
			return
		}
		for _, other := range r.beside(k, i, at, u) {
			in(l[other], at)
		}
	}
}

// refsTo returns those of refs that lead to a place.
func refsTo(refs []ref, at int64) []ref {
	first, _ := slices.BinarySearchFunc(refs, at, func(x ref, at int64) int { return cmp.Compare(x.at, at) })
	n := first
	for n < len(refs) && refs[n].at == at {
		n++
	}
	return refs[first:n]
}

// hashBeyond appends what a relocation against a symbol leads to if that is out
// of what the symbol covers: compilers don't do that, people do in assembly.
func (r *reader) hashBeyond(h *frame.Buffer, c *component, rel *reloc, u use) {
	sym := &r.syms[rel.sym]
	if sym.sec <= 0 || !r.cuts[sym.sec].cut {
		return
	}
	e := covering(r.cuts[sym.sec].extents, sym.value)
	if e < 0 {
		return
	}
	x := r.cuts[sym.sec].extents[e]
	biases := []int8{u.bias}
	if u.class == useUnknown {
		if rel.typ != elf.R_X86_64_PC32 && rel.typ != elf.R_X86_64_PLT32 {
			return // of thread-local variables and the like
		}
		biases = []int8{4, 5, 6, 8} // whatever follows in the instruction
	}
	for _, b := range biases {
		at := int64(sym.value) + rel.addend + int64(b)
		if at >= int64(x.start) && at < int64(x.end) {
			continue
		}
		if i := r.find(sym.sec, at); i >= 0 && r.pieces[sym.sec][i].kind == inComponent {
			p := r.pieces[sym.sec][i].comp
			h.String("beyond")
			h.Int(r.addLink(c, link{component: p}))
			h.Uint(uint64(at - int64(r.out[p].base())))
		}
	}
}

// maxInFront is how many bytes in front of a variable a reference to it may lead: by an element
// or a row of an array, or to where a structure would begin that had the variable as a member.
const maxInFront = 4 << 10

// beside returns which other variables than the one in piece i of section k, if
// there is one, a place may mean. The address of the end of an array is where the
// next variable begins; what begins to count at 1 takes the address in front
// of an array; and container_of does so of the head of a list.
func (r *reader) beside(k, i int, at int64, u use) []int {
	l := r.pieces[k]
	if r.sections[k].code() || u.class == useDirect || i >= 0 && r.cuts[k].hub {
		return nil
	}
	var out []int
	if j := r.before(k, at); j >= 0 {
		out = append(out, j)
	}
	// What is in front of an array or a member may be several variables.
	j, _ := slices.BinarySearchFunc(l, at+1, func(p piece, at int64) int { return cmp.Compare(int64(p.start), at) })
	for ; j < len(l) && int64(l[j].start)-at <= maxInFront; j++ {
		if l[j].kind == inComponent {
			out = append(out, j)
		}
	}
	return out
}

// before returns the index of the variable that ends where another may begin, or -1.
func (r *reader) before(k int, at int64) int {
	l := r.pieces[k]
	if at <= 0 {
		return -1
	}
	i, _ := slices.BinarySearchFunc(l, uint64(at), func(p piece, at uint64) int { return cmp.Compare(p.start, at) })
	if i == 0 || l[i-1].end != uint64(at) || l[i-1].kind != inComponent {
		return -1
	}
	return i - 1
}

// hashLiteral appends the content of the literal that rel refers to: the whole
// entry, and the place in it. If the place can't be told for sure, the whole
// section stands for it.
func (r *reader) hashLiteral(h *frame.Buffer, sym *symbol, rel *reloc, u use) {
	s := &r.sections[sym.sec]
	at, addend, exact := sym.value, uint64(rel.addend), true
	if sym.typ() == elf.STT_SECTION {
		// Not if the addend also holds the distance to the end of the instruction.
		exact = u.bias == 0 && (u.class == useExact || u.class == useFolded || u.class == useDirect)
		at, addend = sym.value+addend, 0
	}
	if begin, end, ok := entry(s.data, at, s.entsize, s.flags&elf.SHF_STRINGS != 0); ok && exact {
		h.String("literal")
		h.Bytes(s.data[begin:end])
		h.Uint(at - begin)
	} else {
		h.String("literals")
		h.Bytes(s.data)
		h.Uint(at)
	}
	h.Uint(addend)
	h.Uint(uint64(s.flags &^ elf.SHF_GROUP))
	h.Uint(s.entsize)
	h.Uint(s.align)
}

// entry finds the entry of a section of mergeable constants that contains at.
func entry(data []byte, at, size uint64, isString bool) (begin, end uint64, ok bool) {
	n := uint64(len(data))
	if at >= n || size == 0 || size > n {
		return 0, 0, false
	}
	begin = at - at%size
	if !isString {
		return begin, begin + size, begin+size <= n
	}
	zero := func(at uint64) bool {
		for _, c := range data[at : at+size] {
			if c != 0 {
				return false
			}
		}
		return true
	}
	end = begin
	for begin >= size && !zero(begin-size) {
		begin -= size
	}
	for ; end+size <= n; end += size {
		if zero(end) {
			return begin, end + size, true
		}
	}
	return 0, 0, false // not terminated
}

// commons adds a component for each common symbol.
func (r *reader) commons() {
	for i := range r.syms {
		sym := &r.syms[i]
		if sym.local() || sym.name == "" || sym.name == "__gnu_lto_slim" {
			continue
		}
		name, d := "COMMON", definition(sym.info, sym.other, sym.name)
		switch {
		case sym.sec == secUndefined || sym.sec > 0 && r.kinds[sym.sec] == kindComponent:
			continue
		case sym.sec > 0: // of what isn't loaded
			name = r.sections[sym.sec].name
		default:
			d.Binding, d.Size = manifest.Binding_BINDING_COMMON, sym.size
		}
		h := frame.New("tasting symbol 1")
		h.Bytes(r.attrs)
		h.String(name)
		h.String(sym.name)
		h.Uint(sym.value) // of a common symbol: the alignment
		h.Uint(sym.size)
		h.Int(int(sym.info))
		h.Int(int(sym.other))
		defs := []*manifest.Definition{d}
		r.out = append(r.out, &component{name: sym.name, linkage: linkage(defs, false), definitions: defs, hash: h.Sum128()})
	}
}

// everything adds a component for what only readers of debug information or of
// symbol tables see, such as std::stacktrace: lines, names of local symbols,
// places. It is no root: whoever composes a fingerprint knows whether there is
// such a reader.
func (r *reader) everything() {
	name, h := manifest.DebugLines, frame.New("tasting debug information 2")
	if slices.ContainsFunc(r.sections, func(s section) bool {
		return s.name == ".debug_line" || s.name == ".zdebug_line"
	}) {
		h.Bytes(r.raw)
	} else {
		var names []string
		for n, c := range r.out {
			for _, i := range c.syms {
				if sym := &r.syms[i]; sym.local() && sym.size > 0 && r.sections[c.sec].loaded() {
					var b frame.Buffer
					b.Int(n) // equal ones may exchange their names
					b.String(sym.name)
					b.Uint(sym.value - c.base())
					b.Bytes(c.hash)
					names = append(names, string(b))
				}
			}
		}
		if len(names) == 0 {
			return // others are in the hashes of what they name
		}
		slices.Sort(names)
		h.Strings(names)
		name = manifest.LocalNames
	}
	r.out = append(r.out, &component{name: name, linkage: manifest.Linkage_LINKAGE_LOCAL, hash: h.Sum128()})
}

func (r *reader) storage() {
	h := frame.New("tasting thread-local storage 1")
	found := false
	for i := range r.sections {
		if s := &r.sections[i]; s.loaded() && s.flags&elf.SHF_TLS != 0 && s.size > 0 {
			found = true
			h.Uint(s.size)
			h.Uint(s.align)
		}
	}
	for i := range r.syms {
		if sym := &r.syms[i]; sym.sec == secCommon && sym.typ() == elf.STT_TLS {
			found = true
			h.Uint(sym.size)
			h.Uint(sym.value)
		}
	}
	if found {
		r.out = append(r.out, &component{name: manifest.ThreadStorage, linkage: manifest.Linkage_LINKAGE_LOCAL, hash: h.Sum128()})
	}
}

// large are as many bytes that it takes hundreds of objects with them until code can't
// refer to all of their data.
const large = 4 << 20

// kindsOfFile adds a component if the object isn't for all kinds of files: linkers
// refuse addresses of fewer bytes than there may be in what isn't loaded at a fixed
// place, and in libraries distances to what others may define, and places in the
// thread-local storage of the executable; and absolute addresses in what isn't
// written; and much more than fits.
func (r *reader) kindsOfFile() {
	size := uint64(0)                         // code can't refer farther than 2 GB
	fixed, executable := uint64(0), uint64(0) // sets of types of relocations: linkers refuse some of them, and others not
	for i := range r.sections {
		s := &r.sections[i]
		if !s.loaded() {
			continue
		}
		size += min(s.size, math.MaxInt64>>8)
		for j := range s.relocs {
			sym := &r.syms[s.relocs[j].sym]
			switch typ := s.relocs[j].typ; typ {
			case elf.R_X86_64_32, elf.R_X86_64_32S:
				fixed |= 1 << typ
			case elf.R_X86_64_64:
				if s.flags&elf.SHF_WRITE == 0 {
					fixed |= 1 << typ
				}
			case elf.R_X86_64_TPOFF32, elf.R_X86_64_TPOFF64:
				executable |= 1 << typ
			case elf.R_X86_64_PC32, elf.R_X86_64_PC64:
				if !sym.local() && elf.ST_VISIBILITY(sym.other) == elf.STV_DEFAULT {
					executable |= 1 << typ
				}
			}
		}
	}
	for i := range r.syms {
		if sym := &r.syms[i]; sym.sec == secCommon {
			size += min(sym.size, math.MaxInt64>>8)
		}
	}
	note := func(name string, n uint64) {
		if n > 0 {
			h := frame.New("tasting kind of file 5")
			h.Uint(n)
			r.out = append(r.out, &component{name: name, linkage: manifest.Linkage_LINKAGE_LOCAL, hash: h.Sum128()})
		}
	}
	note(manifest.FixedPlace, fixed)
	note(manifest.Executable, executable)
	if size >= large {
		note(manifest.Large, (size+1<<20-1)>>20)
	}
}

// references are the undefined symbols, referred to or not: they make a linker
// take members of archives.
func (r *reader) references() []*manifest.Reference {
	uses := make([]uint32, len(r.syms))
	for i := range r.sections {
		s := &r.sections[i]
		for j := 0; s.loaded() && j < len(s.relocs); j++ {
			if rel := &s.relocs[j]; r.syms[rel.sym].sec == secUndefined {
				uses[rel.sym] |= usesOf(rel.typ)
			}
		}
	}
	var refs []*manifest.Reference
	for i := range r.syms {
		if s := &r.syms[i]; s.sec == secUndefined && s.name != "" && !s.local() {
			x := reference(s.info, s.other, s.name)
			x.Uses |= uses[i]
			refs = append(refs, x)
		}
	}
	return uniqueReferences(refs)
}

// usesOf says how a relocation uses the symbol that it is against. What isn't known
// is all that may be.
func usesOf(typ elf.R_X86_64) uint32 {
	switch typ {
	case elf.R_X86_64_PLT32, elf.R_X86_64_NONE:
		return 0
	case elf.R_X86_64_GOT32, elf.R_X86_64_GOTPCREL, elf.R_X86_64_GOT64, elf.R_X86_64_GOTPCREL64, elf.R_X86_64_GOTPCRELX, elf.R_X86_64_REX_GOTPCRELX,
		elf.R_X86_64_TLSGD, elf.R_X86_64_GOTTPOFF, elf.R_X86_64_GOTPC32_TLSDESC, elf.R_X86_64_TLSDESC_CALL:
		return manifest.UseBound
	}
	return manifest.UseBound | manifest.UseDirect
}
