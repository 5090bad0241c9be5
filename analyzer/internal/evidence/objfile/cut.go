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

// cutter cuts sections into pieces, and makes components of them.
type cutter struct {
	*classified
	member     string // of an archive, or ""
	cuts       []cutting
	pieces     [][]piece // by section
	components []*component
	fallbacks  []*manifest.Fallback
	// Results of callReturns and isColdPart.
	returns   map[function]bool
	coldParts map[[2]function]bool
}

// function identifies a function before there are components.
type function struct{ section, extent int }

// piece is a range of a section. It belongs to one component, or is hashed with each component that refers
// to it, by its kind.
type piece struct {
	start, end uint64
	kind       pieceKind
	comp       int
	class      bool // it is a vtable or a type_info: see findClasses
}

type pieceKind uint8

const (
	inComponent pieceKind = iota
	jumpTable             // of the only function that refers to it
	handlers              // an entry of .gcc_except_table, which unwind tables refer to
)

// cutting is the analysis of a section.
type cutting struct {
	extents []extent
	code    *code // nil unless its instructions were decoded
	uses    []use // by relocation
	refs    []ref // relocations against its section symbol, by place
	cut     bool  // it is cut into pieces, not one component
	tables  []piece
	// adjoining has the tables that begin where another one of the same function ends. A
	// reference to one may mean an array elsewhere. See code-data/biased-own-table.
	adjoining map[uint64]bool
	// Of data: the hub is one component of all pieces that references by offset may mean. Its first piece is hubPiece, which is
	// -1 if all pieces are of classes (findClasses).
	hub      bool
	hubPiece int
}

func (c *cutting) hasHub() bool { return c.hub && c.hubPiece >= 0 }

// ref is a reference to a place of a section.
type ref struct {
	at   int64
	use  use
	from int    // the section with the relocation
	site uint64 // its offset there
}

// cut cuts sections and makes components of the pieces.
//
// Code is cut where functions begin, if each byte is in a function and all instructions could be decoded. Data is
// cut where variables begin and, elsewhere, where references lead to. In optimised code a reference may lead into
// another variable than the one it means (see class). Then all candidates are one component, the hub.
func (r *cutter) cut(assembly bool) {
	compiled, gcc := false, false
	if !assembly {
		compiled, gcc = r.producer()
	}
	if compiled {
		for k := range r.sections {
			r.examine(k)
		}
		r.collectReferences()
		each := func(code bool, cut func(k int)) {
			for k := range r.sections {
				if r.cuts[k].cut && r.sections[k].executable() == code {
					cut(k)
				}
			}
		}
		each(true, r.cutCode)
		each(false, r.findTables)
		each(false, func(k int) { r.cutData(k, gcc) })
		r.cutHandlers()
	}
	for k := range r.sections {
		if r.kinds[k] == kindHandlers && !compiled {
			r.kinds[k] = kindComponent
		}
		if r.kinds[k] == kindComponent && !r.cuts[k].cut {
			r.pieces[k] = []piece{{end: r.sections[k].size, comp: -1}}
		}
	}
	r.makeComponents()
}

// producer returns whether a compiler made the object, and whether only gcc did. In handwritten assembly
// any number may be a distance. See code-read/asm-with-ident.
func (f *file) producer() (compiled, gcc bool) {
	if !f.isOneTranslation() {
		return false, false
	}
	for i := range f.sections {
		if s := &f.sections[i]; s.name == ".comment" {
			for _, by := range bytes.Split(s.data, []byte{0}) {
				switch {
				case len(by) == 0:
				case bytes.HasPrefix(by, []byte("GCC: ")):
					compiled, gcc = true, !compiled || gcc
				case bytes.Contains(by, []byte("clang version ")), bytes.Contains(by, []byte("rustc version ")):
					compiled, gcc = true, false
				default: // an assembler that adds its name
					return false, false
				}
			}
		}
	}
	return compiled, gcc
}

// isOneTranslation reports whether an assembler has written the object for one source, by its symbol and
// string tables. A partial link (ld -r) has .comment of all its inputs.
func (f *file) isOneTranslation() bool {
	for i := range f.syms {
		if (f.syms[i].typ() == elf.STT_FILE) != (i == 1) && i > 0 {
			return false
		}
	}
	n := len(f.sections)
	tables := func(types ...elf.SectionType) bool {
		at := n
		for _, typ := range slices.Backward(types) {
			if at--; at > 0 && typ == elf.SHT_SYMTAB && f.sections[at].typ == elf.SHT_SYMTAB_SHNDX {
				at--
			}
			if at <= 0 || f.sections[at].typ != typ {
				return false
			}
		}
		return true
	}
	const symbols, names = elf.SHT_SYMTAB, elf.SHT_STRTAB
	switch {
	case n > 0 && f.sections[f.names].name == ".strtab": // LLVM has one string table
		return true
	case f.names == n-1: // GNU as
		return tables(symbols, names, names)
	}
	return f.names == n-3 && tables(names, symbols, names) // before 2.27
}

// examine reads the symbols and instructions of section k, and decides whether it is cut.
func (r *cutter) examine(k int) {
	s, c := &r.sections[k], &r.cuts[k]
	if r.kinds[k] == kindIgnored {
		return
	}
	c.uses = make([]use, len(s.relocs))
	if !s.loaded() {
		return
	}
	if !s.executable() {
		for i := range s.relocs {
			c.uses[i] = useData(s.relocs[i].typ)
		}
	}
	if r.kinds[k] != kindComponent {
		return
	}
	var why string
	c.extents, why = r.extents(k)
	if why == "" && s.executable() {
		c.code, why = r.decode(k, c.extents, c.uses)
	}
	if s.executable() && why != "" {
		clear(c.uses)
		for i := range s.relocs {
			if u := useData(s.relocs[i].typ); u.class == useExact {
				c.uses[i].class = useFolded // the instruction isn't known
			}
		}
	}
	whole := false // the section stays one component, which is no fallback
	if n := len(s.relocs); why == "" && n > 0 && s.relocs[n-1].offset >= s.size {
		why = "a relocation is for bytes behind its end"
	}
	switch {
	case r.roots[k] != "" || !cuttableSections[standardName(s.name)], s.flags&(elf.SHF_LINK_ORDER|elf.SHF_MERGE) != 0,
		s.typ != elf.SHT_PROGBITS && s.typ != elf.SHT_NOBITS:
		whole = true // its order can be seen
	case !compilerSections[s.name] && len(c.extents) > 1:
		whole = true // compilers put one function or variable into such a section
	}
	if why != "" && !whole && len(s.locals)+len(s.globals) > 1 {
		r.keepWhole(k, why)
	}
	c.cut = why == "" && !whole
}

// cuttableSections are standard names of sections whose order no program sees, because it refers to symbols only.
var cuttableSections = words.Set(".text .rodata .data.rel.ro .data.rel .data .bss .tdata .tbss .ltext .lrodata .ldata .lbss")

// compilerSections are the names of sections in which compilers put several functions or variables.
var compilerSections = words.Set(`.text .text.startup .text.exit .text.unlikely .text.hot .rodata .data .bss .tdata .tbss .ltext .lrodata .ldata .lbss
	.data.rel .data.rel.local .data.rel.ro .data.rel.ro.local`)

// keepWhole makes section k one component, for a reason.
func (r *cutter) keepWhole(k int, why string) {
	r.cuts[k].cut = false
	r.addFallback(r.label(r.sections[k].name), "the section counts as a whole: "+why)
}

// collectReferences collects the references by place to sections that may be cut.
func (r *cutter) collectReferences() {
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
				if to.cut && extentAt(to.extents, sym.value) < 0 {
					r.keepWhole(sym.sec, sym.name+" has no size")
				}
				if !to.cut {
					to.refs = append(to.refs, ref{at: -1}) // handlers with a name
				}
				continue
			}
			u := c.uses[i]
			if r.isUnwind(k) || r.kinds[k] == kindHandlers {
				u.class = useExact
			}
			to := &r.cuts[sym.sec]
			to.refs = append(to.refs, ref{int64(sym.value) + rel.addend + int64(u.bias), u, k, rel.offset})
			if u.class == useUnknown || u.class == useTable && (!r.sections[sym.sec].executable() || !c.cut) {
				if to.cut {
					r.keepWhole(sym.sec, fmt.Sprintf("what %s+%#x refers to isn't known", s.name, rel.offset))
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
func (r *cutter) cutCode(k int) {
	c := &r.cuts[k]
	for _, x := range c.refs {
		if x.use.class != useTable && (x.at < 0 || extentAt(c.extents, uint64(x.at)) < 0) {
			r.keepWhole(k, fmt.Sprintf("%s+%#x refers to bytes that no symbol covers", r.sections[x.from].name, x.site))
			return
		}
	}
	for _, e := range c.extents {
		r.pieces[k] = append(r.pieces[k], piece{start: e.start, end: e.end, comp: -1})
	}
}

// cutData cuts section k where its variables begin. named is set if all references to global variables are by symbol.
func (r *cutter) cutData(k int, named bool) {
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
	needed := c.hub
	c.hub = c.hub || len(c.adjoining) > 0
	if c.hub {
		for _, x := range refs {
			if e := -1; x.at >= 0 {
				if e = extentAt(c.extents, uint64(x.at)); e >= 0 && !c.extents[e].local {
					named = false // it goes by a local alias
				}
			}
		}
	}
	// The pieces that are certain, in order.
	fixed := slices.Clone(c.tables)
	classes := r.findClasses(k)
	for i, e := range c.extents {
		if !c.hub || named && !e.local || classes[i] {
			fixed = append(fixed, piece{start: e.start, end: e.end, comp: -1, class: classes[i]})
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
				if _, hit := firstReloc(s.relocs, at, end); hit || s.data != nil && !isZero(s.data[at:end]) || firstRef(refs, int64(at)) < firstRef(refs, int64(end)) ||
					first < len(c.extents) && c.extents[first].start < end {
					out = append(out, piece{start: at, end: end, comp: hubComponent})
				}
			} else if out, why = r.cutGap(s, refs, at, end, out); why != "" {
				r.keepWhole(k, why)
				return
			}
		}
		if i < len(fixed) {
			out = append(out, fixed[i])
			at = fixed[i].end
		}
	}
	hasHub := slices.ContainsFunc(out, func(p piece) bool { return p.comp == hubComponent && p.kind == inComponent })
	c.hubPiece = -1
	switch {
	case !c.hub || hasHub:
	case needed && (!slices.Contains(classes, true) || slices.ContainsFunc(refs, func(x ref) bool { return pieceIn(out, x.at) < 0 })):
		r.keepWhole(k, "references lead to places out of it")
		return
	default:
		c.hub = needed // else there are tables only
	}
	if hasHub && len(c.extents) > 1 {
		r.addFallback(r.label(s.name), "local variables of the section count together: optimised code refers to places beside them")
	}
	r.pieces[k] = out
	for _, x := range refs {
		if !c.hub && r.pieceAt(k, x.at) < 0 && (x.use.class == useDirect || r.endingAt(k, x.at) < 0) {
			r.pieces[k] = nil
			r.keepWhole(k, fmt.Sprintf("%s+%#x refers to bytes that no symbol covers", r.sections[x.from].name, x.site))
			return
		}
	}
}

// findClasses returns for each extent of section k, if that has a hub, whether it is the vtable or the type_info of a
// class. References that mean one lead into it: no compiler indexes it like an array. See cxx/anonymous-vtables-array.
func (r *cutter) findClasses(k int) []bool {
	s, c := &r.sections[k], &r.cuts[k]
	out := make([]bool, len(c.extents))
	if !c.hub {
		return out
	}
	names := map[int]map[uint64]string{} // by section and place
	is := func(k int, at uint64, prefix string) bool {
		if names[k] == nil {
			names[k] = map[uint64]string{}
			for _, i := range slices.Concat(r.sections[k].locals, r.sections[k].globals) {
				if name := r.syms[i].name; name != "" {
					names[k][r.syms[i].value] = name
				}
			}
		}
		return strings.HasPrefix(names[k][at], prefix)
	}
	// target returns the relocation of a word, and the section and the place of its target; sec is 0 if it is elsewhere.
	target := func(at uint64) (rel *reloc, sec int, place uint64) {
		i, hit := firstReloc(s.relocs, at, at+8)
		if !hit || s.relocs[i].offset != at {
			return nil, 0, 0
		}
		rel = &s.relocs[i]
		sym := &r.syms[rel.sym]
		return rel, max(sym.sec, 0), sym.value + uint64(rel.addend)
	}
	typeInfo := func(at uint64) bool {
		rel, sec, place := target(at)
		return rel != nil && (is(sec, place, "_ZTI") || strings.HasPrefix(r.syms[rel.sym].name, "_ZTI"))
	}
	function := func(at uint64) bool {
		rel, sec, _ := target(at)
		return rel != nil && (sec > 0 && r.sections[sec].executable() || sec == 0 && !strings.HasPrefix(r.syms[rel.sym].name, "_ZT"))
	}
	for i, e := range c.extents {
		switch {
		case e.end-e.start < 16:
		case is(k, e.start, "_ZTI"):
			rel, sec, _ := target(e.start)
			out[i] = rel != nil && sec == 0 && rel.addend == 16 && strings.HasPrefix(r.syms[rel.sym].name, "_ZTVN10__cxxabiv1")
		case is(k, e.start, "_ZTV"):
			// Without a function at its end, its own address point may be its end.
			rel, _, _ := target(e.start)
			out[i] = rel == nil && e.end-e.start >= 24 && typeInfo(e.start+8) && function(e.end-8)
		}
	}
	return out
}

// hubComponent is the component of the pieces of a hub until it has an index.
const hubComponent = -2

// cutGap appends the pieces between two variables: a pointer to a type_info to which only handlers refer
// is one by itself, and the rest is one from the first reference on.
func (r *cutter) cutGap(s *section, refs []ref, at, end uint64, out []piece) ([]piece, string) {
	refs = refs[firstRef(refs, int64(at)):firstRef(refs, int64(end))]
	first := end
	if len(refs) > 0 {
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
		if s.data == nil || !r.isTypeInfoPointer(s, here, p.start, next) {
			return append(out, p), ""
		}
		p.end = p.start + 8
		out = append(out, p)
	}
	return out, ""
}

// isTypeInfoPointer reports whether the bytes to which refs lead are a pointer to a type_info for handlers
// (DW.ref.*), and padding.
func (r *cutter) isTypeInfoPointer(s *section, refs []ref, start, end uint64) bool {
	if end-start < 8 || !isZero(s.data[start:end]) {
		return false
	}
	if slices.ContainsFunc(refs, func(x ref) bool { return r.kinds[x.from] != kindHandlers && !r.isUnwind(x.from) }) {
		return false
	}
	i, hit := firstReloc(s.relocs, start, end)
	return hit && s.relocs[i].offset == start && (i+1 == len(s.relocs) || s.relocs[i+1].offset >= end)
}

// cutHandlers cuts exception tables where unwind tables refer to them, unless anything else does.
func (r *cutter) cutHandlers() {
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
		for _, i := range s.locals { // clang's symbols are at places that unwind tables refer to
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

// pieceAt returns the index of the piece of section k that contains an offset, or -1.
func (r *cutter) pieceAt(k int, at int64) int { return pieceIn(r.pieces[k], at) }

// pieceIn returns the index of the piece that contains an offset, or -1.
func pieceIn(l []piece, at int64) int {
	if at < 0 {
		return -1
	}
	i, ok := slices.BinarySearchFunc(l, uint64(at), func(p piece, at uint64) int { return cmp.Compare(p.start, at) })
	if ok {
		return i // an empty piece begins where the next one does
	}
	if i == 0 || uint64(at) >= l[i-1].end {
		return -1
	}
	return i - 1
}

// functionAt returns the function at a place of a section.
func (r *cutter) functionAt(k int, at uint64) (id function, ok bool) {
	if r.cuts[k].code == nil {
		return id, false
	}
	e := extentAt(r.cuts[k].extents, at)
	return function{k, e}, e >= 0
}

// isZero reports whether b is padding: less than 64 zero bytes.
func isZero(b []byte) bool {
	return len(b) < 64 && len(bytes.Trim(b, "\x00")) == 0
}

// label returns the name of a component after a section or a local symbol.
func label(member, name string) string {
	if name = strings.TrimSpace(name); name == "" {
		name = "(section without a name)"
	}
	if member != "" {
		return member + "(" + name + ")"
	}
	return name
}

func (r *cutter) label(name string) string { return label(r.member, name) }

// refsTo returns the references to a place. refs are sorted.
func refsTo(refs []ref, at int64) []ref { return refs[firstRef(refs, at):firstRef(refs, at+1)] }

// firstRef returns the index of the first reference to a place or behind it. refs are sorted.
func firstRef(refs []ref, at int64) int {
	i, _ := slices.BinarySearchFunc(refs, at, func(x ref, at int64) int { return cmp.Compare(x.at, at) })
	return i
}

// addFallback adds the reason why a component is larger, or has more links, than its source.
func (r *cutter) addFallback(component, reason string) {
	r.fallbacks = append(r.fallbacks, &manifest.Fallback{Component: component, Reason: reason, Rung: manifest.Rung_RUNG_OBJECT})
}
