package objfile

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// piece is a range of a section that belongs to one component, or, with a kind,
// to the content of whatever refers to it.
type piece struct {
	start, end uint64
	kind       pieceKind
	comp       int
}

type pieceKind uint8

const (
	inComponent pieceKind = iota
	jumpTable             // of the one function that refers to it
	handlers              // of exceptions: what the unwind tables of a function refer to
)

// cutting is what is known about a section before it is cut.
type cutting struct {
	extents []extent
	code    *code
	uses    []use // by relocation
	refs    []ref // to it by place instead of by symbol
	cut     bool  // in pieces, instead of as a whole
	tables  []piece
	// beyond are the places of tables that begin where another one of the same function
	// ends: what leads there may be meant for an array elsewhere.
	beyond map[uint64]bool
	// Of data: all that references by place can lead to is one component, of
	// which this is the first piece.
	hub      bool
	hubPiece int
}

// ref is a reference to a place in a section.
type ref struct {
	at   int64
	use  use
	from int // section
	site uint64
}

// split decides which bytes of the object are one component.
//
// Code is cut where functions begin, if every byte is in one and decoding made
// sense of all. Data is cut where variables begin, and, outside of them, where
// references lead to. That is right only if a reference leads into what it
// refers to, which optimised code doesn't promise (see class): then all that it
// might refer to becomes one component.
func (r *reader) split() {
	r.cuts = make([]cutting, len(r.sections))
	compiled, gcc := r.producer()
	if compiled {
		for k := range r.sections {
			r.prepare(k)
		}
		r.gather()
		for k := range r.sections {
			if c := &r.cuts[k]; c.cut && r.sections[k].code() {
				r.cutCode(k)
			}
		}
		for k := range r.sections {
			if c := &r.cuts[k]; c.cut && !r.sections[k].code() {
				r.findTables(k)
			}
		}
		for k := range r.sections {
			if c := &r.cuts[k]; c.cut && !r.sections[k].code() {
				r.cutData(k, gcc)
			}
		}
		r.cutHandlers()
	}
	for k := range r.sections {
		if r.kinds[k] == kindHandlers && !compiled {
			r.kinds[k] = kindComponent
		}
	}
	for k := range r.sections {
		if r.kinds[k] == kindComponent && !r.cuts[k].cut {
			r.pieces[k] = []piece{{end: r.sections[k].size, comp: -1}}
		}
	}
	r.makeComponents()
}

// producer says whether a compiler made the object, and whether only gcc did.
// In what people write in assembly anything may lead anywhere.
func (r *reader) producer() (compiled, gcc bool) {
	if r.assembly || !r.oneTranslation() {
		return false, false
	}
	for i := range r.sections {
		if s := &r.sections[i]; s.name == ".comment" {
			for _, by := range bytes.Split(s.data, []byte{0}) {
				switch {
				case len(by) == 0:
				case bytes.HasPrefix(by, []byte("GCC: ")):
					compiled, gcc = true, !compiled || gcc
				case bytes.Contains(by, []byte("clang version ")), bytes.Contains(by, []byte("rustc version ")):
					compiled, gcc = true, false
				default: // an assembler says its name, too
					return false, false
				}
			}
		}
	}
	return compiled, gcc
}

// oneTranslation tells whether an assembler has written the object for one source, as its tables
// of symbols and names say. A linker (-r) makes one of several objects, which has the signatures
// of compilers that made any of them.
func (r *reader) oneTranslation() bool {
	for i := range r.syms {
		if (r.syms[i].typ() == elf.STT_FILE) != (i == 1) && i > 0 {
			return false
		}
	}
	n := len(r.sections)
	tables := func(types ...elf.SectionType) bool {
		at := n
		for _, typ := range slices.Backward(types) {
			if at--; at > 0 && typ == elf.SHT_SYMTAB && r.sections[at].typ == elf.SHT_SYMTAB_SHNDX {
				at--
			}
			if at <= 0 || r.sections[at].typ != typ {
				return false
			}
		}
		return true
	}
	const symbols, names = elf.SHT_SYMTAB, elf.SHT_STRTAB
	switch {
	case n > 0 && r.sections[r.names].name == ".strtab": // LLVM has one table of all names
		return true
	case r.names == n-1: // GNU as
		return tables(symbols, names, names)
	}
	return r.names == n-3 && tables(names, symbols, names) // before 2.27
}

// prepare reads what symbols and instructions say about section k.
func (r *reader) prepare(k int) {
	s, c := &r.sections[k], &r.cuts[k]
	if r.kinds[k] == kindIgnored {
		return
	}
	c.uses = make([]use, len(s.relocs))
	if !s.loaded() {
		return
	}
	if !s.code() {
		for i := range s.relocs {
			c.uses[i] = useData(s.relocs[i].typ)
		}
	}
	if r.kinds[k] != kindComponent {
		return
	}
	var why string
	c.extents, why = r.extents(k)
	if why == "" && s.code() {
		c.code, why = r.decode(k, c.extents, c.uses)
	}
	if s.code() && why != "" {
		clear(c.uses)
		for i := range s.relocs {
			if u := useData(s.relocs[i].typ); u.class == useExact {
				c.uses[i].class = useFolded // whatever it is in
			}
		}
	}
	whole := "" // what must stay together however it was made
	if n := len(s.relocs); why == "" && n > 0 && s.relocs[n-1].offset >= s.size {
		why = "a relocation is for bytes behind its end"
	}
	switch {
	case r.rootReason(k) != "" || !cuttable[standardName(s.name)], s.flags&(elf.SHF_LINK_ORDER|elf.SHF_MERGE) != 0,
		s.typ != elf.SHT_PROGBITS && s.typ != elf.SHT_NOBITS:
		whole = "its order can be seen"
	case !ownNames[s.name] && len(c.extents) > 1:
		// Compilers put one function or variable into a section with a name of
		// its own, people several.
		whole = "its name was given to several"
	}
	if why != "" && whole == "" && len(s.locals)+len(s.globals) > 1 {
		r.coarse(k, why)
	}
	c.cut = why == "" && whole == ""
}

// cuttable are the standard names of sections of which compilers know nothing but
// the symbols in them.
var cuttable = words.Set(".text .rodata .data.rel.ro .data.rel .data .bss .tdata .tbss .ltext .lrodata .ldata .lbss")

// ownNames are the names that compilers give to sections of many functions or
// variables.
var ownNames = words.Set(`.text .text.startup .text.exit .text.unlikely .text.hot .rodata .data .bss .tdata .tbss .ltext .lrodata .ldata .lbss
	.data.rel .data.rel.local .data.rel.ro .data.rel.ro.local`)

// coarse keeps section k whole, for a reason.
func (r *reader) coarse(k int, why string) {
	r.cuts[k].cut = false
	r.fallbacks = append(r.fallbacks, &manifest.Fallback{
		Component: r.label(r.sections[k].name), Reason: "the section counts as a whole: " + why, Rung: manifest.Rung_RUNG_OBJECT,
	})
}

// gather collects the references by place to sections that may be cut.
func (r *reader) gather() {
	for k := range r.sections {
		s, c := &r.sections[k], &r.cuts[k]
		if c.uses == nil {
			continue
		}
		for i := range s.relocs {
			rel := &s.relocs[i]
			sym := &r.syms[rel.sym]
			if rel.sym == 0 || !sym.local() || sym.sec <= 0 || !r.cuts[sym.sec].cut && r.kinds[sym.sec] != kindHandlers {
				continue
			}
			if sym.typ() != elf.STT_SECTION {
				to := &r.cuts[sym.sec]
				if to.cut && covering(to.extents, sym.value) < 0 {
					r.coarse(sym.sec, sym.name+" has no size")
				}
				if !to.cut {
					to.refs = append(to.refs, ref{at: -1}) // handlers that go by a name
				}
				continue
			}
			u := c.uses[i]
			if r.isUnwind(k) || r.kinds[k] == kindHandlers {
				u.class = useExact
			}
			to := &r.cuts[sym.sec]
			to.refs = append(to.refs, ref{int64(sym.value) + rel.addend + int64(u.bias), u, k, rel.offset})
			if u.class == useUnknown || u.class == useTable && (!r.sections[sym.sec].code() || !c.cut) {
				if to.cut {
					r.coarse(sym.sec, fmt.Sprintf("what %s+%#x refers to isn't known", s.name, rel.offset))
				}
			}
		}
	}
	for k := range r.cuts {
		slices.SortFunc(r.cuts[k].refs, func(a, b ref) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.from, b.from), cmp.Compare(a.site, b.site))
		})
	}
}

// cutCode cuts section k where its functions begin.
func (r *reader) cutCode(k int) {
	c := &r.cuts[k]
	for _, x := range c.refs {
		if x.use.class != useTable && (x.at < 0 || covering(c.extents, uint64(x.at)) < 0) {
			r.coarse(k, fmt.Sprintf("%s+%#x refers to bytes that no symbol covers", r.sections[x.from].name, x.site))
			return
		}
	}
	for _, e := range c.extents {
		r.pieces[k] = append(r.pieces[k], piece{start: e.start, end: e.end, comp: -1})
	}
}

// find returns the index of the piece of section k that covers a place, or -1.
func (r *reader) find(k int, at int64) int {
	l := r.pieces[k]
	if at < 0 {
		return -1
	}
	i, ok := slices.BinarySearchFunc(l, uint64(at), func(p piece, at uint64) int { return cmp.Compare(p.start, at) })
	if ok {
		// What is empty begins where the next one does.
		return i
	}
	if i == 0 || uint64(at) >= l[i-1].end {
		return -1
	}
	return i - 1
}

// origin returns what identifies the function at a place of a section, before
// there are components.
func (r *reader) origin(k int, at uint64) (id [2]int, ok bool) {
	if r.cuts[k].code == nil {
		return id, false
	}
	e := covering(r.cuts[k].extents, at)
	return [2]int{k, e}, e >= 0
}

// findTables finds the jump tables in section k: what a function refers to once, no symbol covers, and that
// consists of references to instructions of that function, of which the rest may be
// in another section. Each table is part of the function.
//
// A table ends where another reference leads to, unless it may go on: that one may
// be the beginning of a calculation that ends elsewhere.
func (r *reader) findTables(k int) {
	s, c := &r.sections[k], &r.cuts[k]
	if s.flags&elf.SHF_WRITE != 0 || len(s.relocs) == 0 || s.data == nil {
		return
	}
	refs := c.refs
	var last [2]int // the function of the last table
	for i := 0; i < len(refs); {
		j := i + 1
		for j < len(refs) && refs[j].at == refs[i].at {
			j++
		}
		at, end := refs[i].at, int64(s.size)
		if j < len(refs) {
			end = min(end, refs[j].at)
		}
		if at >= 0 && at < end && j-i == 1 && covering(c.extents, uint64(at)) < 0 {
			end = c.upTo(at, end)
			if n := r.tableAt(k, uint64(at), uint64(end), refs[i:j]); n > 0 && (uint64(at)+n < uint64(end) || !r.goesOn(k, refs[i], refs[j:], end)) {
				of, _ := r.origin(refs[i].from, refs[i].site)
				if l := len(c.tables); l > 0 && c.tables[l-1].end == uint64(at) && last == of {
					if c.beyond == nil {
						c.beyond = map[uint64]bool{}
					}
					c.beyond[uint64(at)] = true
				}
				c.tables, last = append(c.tables, piece{start: uint64(at), end: uint64(at) + n, kind: jumpTable}), of
			}
		}
		i = j
	}
}

// upTo returns where the first variable behind a place begins, if that is before end.
func (c *cutting) upTo(at, end int64) int64 {
	if e, ok := slices.BinarySearchFunc(c.extents, uint64(at), func(e extent, at uint64) int { return cmp.Compare(e.start, at) }); !ok && e < len(c.extents) {
		end = min(end, int64(c.extents[e].start))
	}
	return end
}

// goesOn says whether the table that ref leads to may go on at end, where the first
// of others leads to: unless what is there is the table of that one.
func (r *reader) goesOn(k int, table ref, others []ref, end int64) bool {
	n := 0
	for n < len(others) && others[n].at == end {
		n++
	}
	s := &r.sections[k]
	i, hit := firstReloc(s.relocs, uint64(end), uint64(end)+1)
	if n == 0 || !hit {
		return false
	}
	of, _ := r.origin(table.from, table.site)
	if !slices.ContainsFunc(others[:n], func(x ref) bool { by, ok := r.origin(x.from, x.site); return !ok || by != of }) {
		return false // both are parts of one function
	}
	sym := &r.syms[s.relocs[i].sym]
	if !sym.local() || sym.typ() != elf.STT_SECTION || sym.sec <= 0 || r.cuts[sym.sec].code == nil {
		return false
	}
	to := int64(sym.value) + s.relocs[i].addend
	if r.cuts[k].uses[i].class == useTable {
		to -= end - table.at
	}
	if to < 0 || !r.cuts[sym.sec].code.starts.has(uint64(to)) {
		return false
	}
	if in, ok := r.origin(sym.sec, uint64(to)); !ok || in != of && !r.restOf(in, of) {
		return false
	}
	next := int64(s.size)
	if n < len(others) {
		next = min(next, others[n].at)
	}
	next = r.cuts[k].upTo(end, next)
	return r.tableAt(k, uint64(end), uint64(next), others[:n]) == 0
}

// restOf says whether a function is the part of another one that compilers put
// elsewhere, as it is hardly run.
func (r *reader) restOf(part, whole [2]int) bool {
	key := [2][2]int{part, whole}
	is, known := r.rests[key]
	if !known {
		parts := r.namesAt(part)
		is = slices.ContainsFunc(r.namesAt(whole), func(name string) bool {
			return slices.ContainsFunc(parts, func(s string) bool { return strings.HasPrefix(s, name+".") || strings.HasPrefix(name, s+".") })
		})
		r.rests[key] = is
	}
	return is
}

// namesAt returns the names of symbols at the beginning of a function: a section and the number of its extent.
func (r *reader) namesAt(id [2]int) (l []string) {
	s := &r.sections[id[0]]
	for _, i := range slices.Concat(s.locals, s.globals) {
		if sym := &r.syms[i]; sym.value == r.cuts[id[0]].extents[id[1]].start && sym.name != "" {
			l = append(l, sym.name)
		}
	}
	return l
}

// tableAt returns the size of the jump table at a place, or 0.
func (r *reader) tableAt(k int, at, end uint64, refs []ref) uint64 {
	s, c := &r.sections[k], &r.cuts[k]
	of, ok := r.origin(refs[0].from, refs[0].site)
	for _, x := range refs {
		if o, k := r.origin(x.from, x.site); !k || !ok || o != of || x.use.class != useFolded {
			return 0
		}
	}
	first, _ := firstReloc(s.relocs, at, end)
	n, cell := uint64(0), uint64(0)
	for i := first; i < len(s.relocs) && s.relocs[i].offset == at+n && at+n < end; i++ {
		rel, sym := &s.relocs[i], &r.syms[s.relocs[i].sym]
		if !sym.local() || sym.typ() != elf.STT_SECTION || sym.sec <= 0 || r.cuts[sym.sec].code == nil {
			return 0
		}
		to, size := int64(sym.value)+rel.addend, uint64(8)
		switch c.uses[i].class {
		case useTable:
			to -= int64(n)
			size = 4
		case useExact:
		default:
			return 0
		}
		if cell != 0 && size != cell || to < 0 || !r.cuts[sym.sec].code.starts.has(uint64(to)) {
			return 0
		}
		if o, ok := r.origin(sym.sec, uint64(to)); !ok || o != of && (sym.sec == of[0] || !r.restOf(o, of)) {
			return 0
		}
		cell, n = size, n+size
	}
	if n == 0 || at+n > end || !isZero(s.data[at+n:end]) {
		return 0
	}
	if _, hit := firstReloc(s.relocs, at+n, end); hit {
		return 0
	}
	return n
}

func isZero(b []byte) bool {
	return len(b) < 64 && len(bytes.Trim(b, "\x00")) == 0
}

// cutData cuts section k where its variables begin. named says that references to global variables never go by place.
func (r *reader) cutData(k int, named bool) {
	s, c := &r.sections[k], &r.cuts[k]
	tables := map[uint64]bool{}
	for _, t := range c.tables {
		tables[t.start] = true
	}
	var refs []ref
	for _, x := range c.refs {
		if x.at >= 0 && tables[uint64(x.at)] {
			continue
		}
		refs = append(refs, x)
		if x.use.class == useFolded || x.at < 0 || x.at > int64(s.size) {
			c.hub = true
		}
	}
	asked := c.hub
	c.hub = c.hub || len(c.beyond) > 0
	if c.hub {
		for _, x := range refs {
			if e := -1; x.at >= 0 {
				if e = covering(c.extents, uint64(x.at)); e >= 0 && !c.extents[e].local {
					named = false // by another name of it
				}
			}
		}
	}
	// What is known for sure, in order.
	fixed := slices.Clone(c.tables)
	for _, e := range c.extents {
		if !c.hub || named && !e.local {
			fixed = append(fixed, piece{start: e.start, end: e.end, comp: -1})
		}
	}
	slices.SortFunc(fixed, func(a, b piece) int { return cmp.Compare(a.start, b.start) })
	var out []piece
	at := uint64(0)
	for i := 0; i <= len(fixed); i++ {
		end := s.size
		if i < len(fixed) {
			end = fixed[i].start
		}
		if at < end {
			var why string
			if c.hub {
				first, _ := slices.BinarySearchFunc(c.extents, at, func(e extent, at uint64) int { return cmp.Compare(e.start, at) })
				if _, hit := firstReloc(s.relocs, at, end); hit || s.data != nil && !isZero(s.data[at:end]) || r.refersInto(refs, at, end) ||
					first < len(c.extents) && c.extents[first].start < end {
					out = append(out, piece{start: at, end: end, comp: hubComponent})
				}
			} else if out, why = r.cutGap(s, refs, at, end, out); why != "" {
				r.coarse(k, why)
				return
			}
		}
		if i < len(fixed) {
			out = append(out, fixed[i])
			at = fixed[i].end
		}
	}
	if c.hub && !slices.ContainsFunc(out, func(p piece) bool { return p.comp == hubComponent && p.kind == inComponent }) {
		if asked {
			r.coarse(k, "references lead to places out of it")
			return
		}
		c.hub = false // there are tables only
	}
	if c.hub && len(c.extents) > 1 {
		r.fallbacks = append(r.fallbacks, &manifest.Fallback{
			Component: r.label(s.name), Reason: "local variables of the section count together: optimised code refers to places beside them", Rung: manifest.Rung_RUNG_OBJECT,
		})
	}
	r.pieces[k] = out
	for _, x := range refs {
		if !c.hub && r.find(k, x.at) < 0 && (x.use.class == useDirect || r.before(k, x.at) < 0) {
			r.pieces[k] = nil
			r.coarse(k, fmt.Sprintf("%s+%#x refers to bytes that no symbol covers", r.sections[x.from].name, x.site))
			return
		}
	}
}

// hubComponent stands for the one component of a hub until it has a number.
const hubComponent = -2

func (r *reader) refersInto(refs []ref, at, end uint64) bool {
	i, _ := slices.BinarySearchFunc(refs, int64(at), func(x ref, at int64) int { return cmp.Compare(x.at, at) })
	return i < len(refs) && refs[i].at < int64(end)
}

// cutGap cuts what is between variables: the addresses of descriptions of classes, to which only tables of handlers refer, each
// by itself, and the rest as one piece from where a reference leads to on.
func (r *reader) cutGap(s *section, refs []ref, at, end uint64, out []piece) ([]piece, string) {
	i, _ := slices.BinarySearchFunc(refs, int64(at), func(x ref, at int64) int { return cmp.Compare(x.at, at) })
	refs = refs[i:]
	n, _ := slices.BinarySearchFunc(refs, int64(end), func(x ref, at int64) int { return cmp.Compare(x.at, at) })
	refs = refs[:n]
	first := end
	if n > 0 {
		first = uint64(refs[0].at)
	}
	if _, hit := firstReloc(s.relocs, at, first); s.data != nil && (hit || !isZero(s.data[at:first])) {
		return nil, fmt.Sprintf("nothing refers to the bytes at %#x", at)
	}
	for len(refs) > 0 {
		here, next := refsTo(refs, refs[0].at), end
		if refs = refs[len(here):]; len(refs) > 0 {
			next = uint64(refs[0].at)
		}
		p := piece{start: uint64(here[0].at), end: end, comp: -1}
		if s.data == nil || !r.isStub(s, here, p.start, next) {
			return append(out, p), ""
		}
		p.end = p.start + 8
		out = append(out, p)
	}
	return out, ""
}

// isStub says whether the bytes that only the tables of handlers refer to are the
// address of a class's description, and padding.
func (r *reader) isStub(s *section, refs []ref, start, end uint64) bool {
	if end-start < 8 || !isZero(s.data[start:end]) {
		return false
	}
	for _, x := range refs {
		if r.kinds[x.from] != kindHandlers && !r.isUnwind(x.from) {
			return false
		}
	}
	i, hit := firstReloc(s.relocs, start, end)
	return hit && s.relocs[i].offset == start && (i+1 == len(s.relocs) || s.relocs[i+1].offset >= end)
}

// cutHandlers cuts tables of exception handlers where unwind tables refer to
// them, if nothing else does.
func (r *reader) cutHandlers() {
	for k := range r.sections {
		s, c := &r.sections[k], &r.cuts[k]
		if r.kinds[k] != kindHandlers {
			continue
		}
		var out []piece
		ok := len(s.globals) == 0 && len(c.refs) > 0 && s.data != nil
		for _, x := range c.refs {
			switch {
			case !r.isUnwind(x.from) || x.at < 0 || x.at >= int64(s.size):
				ok = false
			case len(out) == 0 || out[len(out)-1].start != uint64(x.at):
				if len(out) > 0 {
					out[len(out)-1].end = uint64(x.at)
				}
				out = append(out, piece{start: uint64(x.at), end: s.size, kind: handlers})
			}
		}
		for _, i := range s.locals { // a reference may go by symbol; clang's are names of what unwind tables refer to
			ok = ok && slices.ContainsFunc(out, func(p piece) bool { return p.start == r.syms[i].value })
		}
		if ok && isZero(s.data[:out[0].start]) {
			if _, hit := firstReloc(s.relocs, 0, out[0].start); !hit {
				r.pieces[k] = out
				continue
			}
		}
		r.kinds[k] = kindComponent
	}
}

func (r *reader) isUnwind(k int) bool {
	s := &r.sections[k]
	return s.name == ".eh_frame" || s.typ == shtX86Unwind
}

// label returns the name of a section or a local symbol as that of a component.
func label(member, name string) string {
	if name = strings.TrimSpace(name); name == "" {
		name = "(section without a name)"
	}
	if member != "" {
		return member + "(" + name + ")"
	}
	return name
}

func (r *reader) label(name string) string { return label(r.member, name) }
