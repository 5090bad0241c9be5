package objfile

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/symname"
)

// hasher computes the local hash and the links of each component.
type hasher struct {
	*cutter
	attributes frame.Buffer   // of the object as a whole
	rootCount  map[string]int // root sections of each name so far
	// Of the component that is being hashed: its message, and the positions of its links.
	message   frame.Buffer
	positions map[link]int
}

// hash computes the hash of a component. The message has the attributes of the object, the section, the
// definitions, the content with relocations, the component that control falls into, and the unwind entries.
func (r *hasher) hash(c *component) {
	clear(r.positions)
	h := &r.message
	*h = (*h)[:0]
	h.String("tasting section 2")
	h.Bytes(r.attributes)
	r.hashSection(h, c)
	r.hashExtents(h, c)
	r.hashAlignment(h, c)
	r.hashDefinitions(h, c)
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
	case c.next == outsideSection:
		h.String("runs out")
		r.addLink(c, anyLink)
		r.addFallback(c.name, "control runs out of its section at the end of the function")
	default:
		h.String("")
	}
	h.Int(len(c.unwind))
	for _, e := range c.unwind {
		h.Bytes(e.bytes)
		h.Uint(uint64(e.place))
		r.hashRelocs(h, c, e.section, e.relocs, nil, e.start)
	}
	// A linker keeps the sections in the order of this one. See code-data/link-order-set.
	for _, j := range r.ordered[c.sec] {
		for _, p := range r.pieces[j] {
			if p.kind == inComponent {
				h.Int(r.addLink(c, link{component: p.comp}))
			}
		}
	}
	r.linkToProgram(c)
	c.hash = h.Sum128()
}

// hashSection appends the section of a component, and its number among roots of that name: they run in
// order. See code-attr/constructor-order.
func (r *hasher) hashSection(h *frame.Buffer, c *component) {
	s := &r.sections[c.sec]
	// Behind a standard name is that of a function or variable, which is in the hash if it is global.
	name := standardName(s.name)
	if name == "" || len(r.ordered[c.sec]) > 0 {
		name = s.name // linkers order sections by it, and others with them
	}
	h.String(name)
	h.Uint(uint64(s.typ))
	h.Uint(uint64(s.flags &^ (elf.SHF_GROUP | elf.SHF_INFO_LINK | elf.SHF_LINK_ORDER)))
	h.Uint(s.entsize)
	h.String(s.group)
	if c.root == "" {
		return
	}
	kind := s.name
	if isInitArray(s) {
		kind = s.typ.String() // a priority has several spellings; see code-data/init-two-spellings
	}
	h.Int(r.rootCount[kind])
	r.rootCount[kind]++
}

// hashExtents appends the ranges of the variables of a component without content: nothing else shows
// where padding begins. See code-data/end-bss-gap.
func (r *hasher) hashExtents(h *frame.Buffer, c *component) {
	if r.sections[c.sec].typ != elf.SHT_NOBITS || len(c.syms) < 2 {
		return
	}
	extents := make([]span, len(c.syms))
	for i, n := range c.syms {
		extents[i] = span{start: r.syms[n].value - c.base(), end: r.syms[n].size}
	}
	slices.SortFunc(extents, func(a, b span) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end)) })
	h.Int(len(extents))
	for _, x := range extents {
		h.Uint(x.start)
		h.Uint(x.end)
	}
}

// hashAlignment appends the alignment of a component. For a function in a section with others, it is that of its
// offset. (Methods of C++ are aligned to 2 bytes in any case.) See code-attr/aligned-variable.
func (r *hasher) hashAlignment(h *frame.Buffer, c *component) {
	s := &r.sections[c.sec]
	isMethod := func(i int) bool { return strings.HasPrefix(r.syms[i].name, "_Z") }
	align, rest := s.align, uint64(0)
	if align > 1 {
		rest = c.base() % align
	}
	if r.cuts[c.sec].cut && s.executable() && align <= 16 {
		if rest != 0 {
			align = rest & -rest
		}
		if rest = 0; align < 2 || align == 2 && (s.align > 2 || slices.ContainsFunc(c.syms, isMethod)) {
			align = 0
		}
		c.align = align
	}
	h.Uint(align)
	h.Uint(rest)
}

// hashDefinitions appends the global symbols of a component, and names it.
func (r *hasher) hashDefinitions(h *frame.Buffer, c *component) {
	s := &r.sections[c.sec]
	n := 0
	for n < len(c.syms) && r.syms[c.syms[n]].local() {
		n++
	}
	locals, globals := c.syms[:n], c.syms[n:]
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
	// The name is the first one of the only function or variable, otherwise that of the section.
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

// hashContent appends the bytes of a range and its references.
func (r *hasher) hashContent(h *frame.Buffer, c *component, p span) {
	s, cut := &r.sections[c.sec], &r.cuts[c.sec]
	size := p.end - p.start
	h.Uint(size)
	relocs, uses := s.relocs, cut.uses
	if cut.cut {
		first, end := relocsIn(relocs, p.start, p.end)
		relocs, uses = relocs[first:end], uses[first:end]
	}
	if s.data == nil {
		h.String("")
	} else {
		h.Bytes(s.data[p.start:p.end])
	}
	if cut.cut && cut.code != nil {
		// Distances are hashed as links.
		data := (*h)[uint64(len(*h))-size:]
		sites := sitesIn(cut.code.sites, p)
		for _, x := range sites {
			at := x.at - p.start
			clear(data[at : at+uint64(x.width)])
		}
		h.Int(len(sites))
		for _, x := range sites {
			to := r.pieces[c.sec][r.pieceAt(c.sec, int64(x.target))].comp
			h.Uint(x.at - p.start)
			h.Int(r.addLink(c, link{component: to}))
			h.Uint(x.target - r.components[to].base())
		}
	}
	r.hashRelocs(h, c, c.sec, relocs, uses, c.base())
}

// sitesIn returns the sites in a range.
func sitesIn(l []site, p span) []site {
	at := func(s site, at uint64) int { return cmp.Compare(s.at, at) }
	first, _ := slices.BinarySearchFunc(l, p.start, at)
	end, _ := slices.BinarySearchFunc(l, p.end, at)
	return l[first:end]
}

// addLink returns the position of l among the links of c, counted from 1. It is 0 for c itself.
func (r *hasher) addLink(c *component, l link) int {
	if l.component >= 0 && r.components[l.component] == c {
		return 0
	}
	k, ok := r.positions[l]
	if !ok {
		c.links = append(c.links, l)
		k = len(c.links)
		r.positions[l] = k
	}
	return k
}

// hashRelocs appends relocations of section k with their targets, and adds the links.
func (r *hasher) hashRelocs(h *frame.Buffer, c *component, k int, relocs []reloc, uses []use, base uint64) {
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
		sym := &r.syms[rel.sym]
		compiled := i > 0 && (relocs[i-1].typ == elf.R_X86_64_TLSGD || relocs[i-1].typ == elf.R_X86_64_TLSLD)
		if sym.name == "__tls_get_addr" && !compiled {
			r.addLink(c, anyLink) // a call with any module and offset; see link-files/tls-by-number
		}
		if r.entersMiddle(c.sec, rel, u) && !sym.local() {
			r.addLink(c, anyLink)
			r.addFallback(c.name, "it goes on in the middle of "+symname.Printable(sym.name))
		}
	}
}

// entersMiddle reports whether a jump, or an address, leads into the middle of a function, as in handwritten assembly.
// In code that wasn't decoded, the ModRM byte before a field tells an operand in memory from a branch. See
// trace-sound/jump-assembly. An address counts if the unit defines the symbol, since another definition may win: see
// trace-sound/jump-by-address-weak. If it doesn't, manifest.UseInside says so.
func (r *cutter) entersMiddle(k int, rel *reloc, u use) bool {
	s, sym := &r.sections[k], &r.syms[rel.sym]
	branch, inside := u.branch, rel.addend+int64(u.bias) != 0
	address := sym.sec > 0 && sym.typ() != elf.STT_OBJECT && r.sections[sym.sec].executable()
	switch rel.typ {
	case elf.R_X86_64_PLT32, elf.R_X86_64_PC32:
		if s.executable() && r.cuts[k].code == nil {
			operand := 0 < rel.offset && rel.offset <= uint64(len(s.data)) && s.data[rel.offset-1]&0xc7 == 5
			branch = rel.typ == elf.R_X86_64_PLT32 || !operand
			inside = rel.addend != -4
		}
	case elf.R_X86_64_64, elf.R_X86_64_32, elf.R_X86_64_32S, elf.R_X86_64_PC64:
		inside = rel.addend != 0
	default:
		return branch && inside
	}
	return (branch || address) && inside
}

// hashTarget appends the target of a relocation.
func (r *hasher) hashTarget(h *frame.Buffer, c *component, rel *reloc, u use) {
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
		h.Flag(sym.sec == secUndefined && sym.bind() == elf.STB_WEAK) // it may stay undefined; see code-attr/weak-undefined
		h.Int(r.addLink(c, link{-1, sym.name}))
		r.hashBeyond(h, c, rel, u)
	case sym.sec < 0: // absolute
		h.String("absolute")
		h.Uint(target)
	case r.kinds[sym.sec] == kindComponent:
		switch sym.typ() {
		case elf.STT_TLS, elf.STT_GNU_IFUNC:
			h.Int(int(sym.typ()))
		default:
			h.Int(0)
		}
		r.hashPlace(h, c, rel, u)
	case r.kinds[sym.sec] == kindLiterals:
		r.hashLiteral(h, sym, rel, u)
	case r.kinds[sym.sec] == kindHandlers:
		p := r.pieces[sym.sec][r.pieceAt(sym.sec, int64(target))]
		b := bytes.TrimRight(r.sections[sym.sec].data[p.start:p.end], "\x00") // padding
		h.String("handlers")
		h.Bytes(b)
		r.hashInlined(h, c, sym.sec, p)
	default: // a section that isn't loaded
		h.String("other")
		h.String(r.sections[sym.sec].name)
		h.Uint(target)
	}
}

// hashInlined appends the relocations of a piece that is part of c.
func (r *hasher) hashInlined(h *frame.Buffer, c *component, k int, p piece) {
	s := &r.sections[k]
	first, end := relocsIn(s.relocs, p.start, p.end)
	h.Int(end - first)
	class := useExact
	if p.kind == handlers {
		class = useDirect // a type_info is read, code is entered
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
func (r *hasher) hashPlace(h *frame.Buffer, c *component, rel *reloc, u use) {
	sym := &r.syms[rel.sym]
	k := sym.sec
	l, at := r.pieces[k], int64(sym.value)+rel.addend+int64(u.bias)
	in := func(p piece, at int64) {
		h.Int(r.addLink(c, link{component: p.comp}))
		h.Uint(uint64(at - int64(r.components[p.comp].base())))
	}
	if !r.cuts[k].cut {
		if u.class == useUnknown || u.class == useTable || sym.typ() != elf.STT_SECTION {
			h.String("section")
			at -= int64(u.bias)
		} else {
			h.String("place")
		}
		in(l[0], at)
		return
	}
	switch {
	case sym.typ() != elf.STT_SECTION:
		h.String("symbol")
		in(l[r.pieceAt(k, int64(sym.value))], int64(sym.value))
		h.Uint(uint64(rel.addend))
		r.hashBeyond(h, c, rel, u)
	case u.class == useTable:
		// The distance counts from a place between the start of the component and the field, so the
		// addend is too great by at most as much.
		h.String("distance")
		low := at - int64(rel.offset-min(rel.offset, c.base()))
		first, _ := slices.BinarySearchFunc(l, low, func(p piece, low int64) int { return cmp.Compare(int64(p.end), low+1) })
		end := first
		for end < len(l) && int64(l[end].start) <= at {
			end++
		}
		if first == end { // no compiler's
			first, end = 0, len(l)
		}
		for _, p := range l[first:end] {
			in(p, at)
		}
	default:
		i := r.pieceAt(k, at)
		switch {
		case i >= 0 && l[i].kind == jumpTable:
			h.String("table")
			h.Uint(l[i].end - l[i].start)
			r.hashInlined(h, c, k, l[i])
			if r.cuts[k].hasHub() && r.cuts[k].adjoining[uint64(at)] {
				in(l[r.cuts[k].hubPiece], at)
			}
		default:
			h.String("place")
			if i < 0 && r.cuts[k].hasHub() { // out of all pieces
				i = r.cuts[k].hubPiece
			}
			if i >= 0 {
				in(l[i], at)
			}
		}
		// The only reference to a table means the table.
		if i >= 0 && l[i].kind == jumpTable && l[i].start == uint64(at) && len(refsTo(r.cuts[k].refs, at)) == 1 {
			return
		}
		for _, other := range r.neighbours(k, i, at, u, r.isInClass(c, rel)) {
			in(l[other], at)
		}
	}
}

// hashBeyond appends the target of a relocation if it is in another component than the relocation's symbol, as in
// handwritten assembly. See code-asm/beyond-end and code-asm/before-begin.
func (r *hasher) hashBeyond(h *frame.Buffer, c *component, rel *reloc, u use) {
	sym := &r.syms[rel.sym]
	if sym.sec <= 0 || !r.cuts[sym.sec].cut {
		return
	}
	e := extentAt(r.cuts[sym.sec].extents, sym.value)
	if e < 0 {
		return
	}
	x := r.cuts[sym.sec].extents[e]
	biases := []int8{u.bias}
	if u.class == useUnknown {
		if rel.typ != elf.R_X86_64_PC32 && rel.typ != elf.R_X86_64_PLT32 {
			return // the offset of a thread-local variable, or a GOT entry
		}
		biases = []int8{4, 5, 6, 8} // depends on the immediate behind the field
	}
	for _, b := range biases {
		at := int64(sym.value) + rel.addend + int64(b)
		if at >= int64(x.start) && at < int64(x.end) {
			continue
		}
		if i := r.pieceAt(sym.sec, at); i >= 0 && r.pieces[sym.sec][i].kind == inComponent {
			p := r.pieces[sym.sec][i].comp
			h.String("beyond")
			h.Int(r.addLink(c, link{component: p}))
			h.Uint(uint64(at - int64(r.components[p].base())))
		}
	}
}

// maxInFront bounds the distance from the target of a reference to the variable behind it that it may mean. Code refers to
// the front of an array that counts from 1 (see code-front/front-2d), and by container_of (see code-front/list-head-data).
const maxInFront = 4 << 10

// neighbours returns the pieces besides piece i of section k whose variables a reference to an offset may mean: the
// variable that ends there, and those behind it. See code-torn/array-end-before-suffix.
func (r *cutter) neighbours(k, i int, at int64, u use, inClass bool) []int {
	l := r.pieces[k]
	if r.sections[k].executable() || u.class == useDirect {
		return nil
	}
	if c := &r.cuts[k]; i >= 0 && c.hub {
		if c.hasHub() && !inClass && l[i].comp != l[c.hubPiece].comp && l[i].kind == inComponent {
			return []int{c.hubPiece} // a place in a vtable, for an array of the hub
		}
		return nil
	}
	var out []int
	if j := r.endingAt(k, at); j >= 0 {
		out = append(out, j)
	}
	j, _ := slices.BinarySearchFunc(l, at+1, func(p piece, at int64) int { return cmp.Compare(int64(p.start), at) })
	for ; j < len(l) && int64(l[j].start)-at <= maxInFront; j++ {
		if l[j].kind == inComponent {
			out = append(out, j)
		}
	}
	return out
}

// isInClass reports whether a relocation of a component is a word of a vtable or a type_info, which leads to where it says.
func (r *cutter) isInClass(c *component, rel *reloc) bool {
	i := r.pieceAt(c.sec, int64(rel.offset))
	return i >= 0 && r.pieces[c.sec][i].class
}

// endingAt returns the index of the variable that ends at an offset, or -1.
func (r *cutter) endingAt(k int, at int64) int {
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

// hashLiteral appends the literal that rel refers to, and the place in it, or the whole section if the
// literal isn't certain.
func (r *hasher) hashLiteral(h *frame.Buffer, sym *symbol, rel *reloc, u use) {
	s := &r.sections[sym.sec]
	at, addend, exact := sym.value, uint64(rel.addend), true
	if sym.typ() == elf.STT_SECTION {
		// With a bias, the immediate behind the field may be part of the addend.
		exact = u.bias == 0 && (u.class == useExact || u.class == useFolded || u.class == useDirect)
		at, addend = sym.value+addend, 0
	}
	if begin, end, ok := literalAt(s.data, at, s.entsize, s.flags&elf.SHF_STRINGS != 0); ok && exact {
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

// literalAt returns the literal in a section of mergeable constants that contains an offset.
func literalAt(data []byte, at, size uint64, isString bool) (begin, end uint64, ok bool) {
	n := uint64(len(data))
	if at >= n || size == 0 || size > n {
		return 0, 0, false
	}
	begin = at - at%size
	if !isString {
		return begin, begin + size, begin+size <= n
	}
	zero := func(at uint64) bool { return len(bytes.Trim(data[at:at+size], "\x00")) == 0 }
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

// attributes encodes the properties of the whole object: its ABI, .note.gnu.property (such as control-flow protection),
// and whether it asks for an executable stack.
func (f *file) attributes() frame.Buffer {
	var h frame.Buffer
	stack, properties := "absent", []byte(nil)
	for i := range f.sections {
		switch s := &f.sections[i]; s.name {
		case ".note.GNU-stack":
			stack = fmt.Sprint(s.executable())
		case ".note.gnu.property":
			properties = append(properties, s.data...)
		}
	}
	abi := elf.OSABI(f.raw[elf.EI_OSABI])
	if abi == elf.ELFOSABI_LINUX { // a GNU extension is in use
		abi = elf.ELFOSABI_NONE
	}
	h.Int(int(abi))
	h.Int(int(f.raw[elf.EI_ABIVERSION]))
	h.Uint(uint64(order.Uint32(f.raw[48:])))
	h.String(stack)
	h.Bytes(properties)
	return h
}
