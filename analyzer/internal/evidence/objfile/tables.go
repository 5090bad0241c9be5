package objfile

import (
	"cmp"
	"debug/elf"
	"slices"
	"strings"
)

// findTables finds the jump tables in section k: no symbol covers one, a function refers to it once, and
// it consists of references to instructions of that function (the cold part may be elsewhere). A table is
// part of its function.
//
// A table ends where another reference leads to, unless it may continue there: the other reference may be
// the beginning of a calculation that ends elsewhere. See code-data/biased-table.
func (r *cutter) findTables(k int) {
	s, c := &r.sections[k], &r.cuts[k]
	if s.flags&elf.SHF_WRITE != 0 || len(s.relocs) == 0 || s.data == nil {
		return
	}
	var last function // of the last table
	for refs := c.refs; len(refs) > 0; {
		here := refsTo(refs, refs[0].at)
		refs = refs[len(here):]
		at, end := here[0].at, int64(s.size)
		if len(refs) > 0 {
			end = min(end, refs[0].at)
		}
		if at < 0 || at >= end || len(here) > 1 || extentAt(c.extents, uint64(at)) >= 0 {
			continue
		}
		end = c.endOfGap(at, end)
		n := r.tableAt(k, uint64(at), uint64(end), here)
		if n == 0 || uint64(at)+n == uint64(end) && r.mayContinue(k, here[0], refs, end) {
			continue
		}
		of, _ := r.functionAt(here[0].from, here[0].site)
		if l := len(c.tables); l > 0 && c.tables[l-1].end == uint64(at) && last == of {
			if c.adjoining == nil {
				c.adjoining = map[uint64]bool{}
			}
			c.adjoining[uint64(at)] = true
		}
		c.tables, last = append(c.tables, piece{start: uint64(at), end: uint64(at) + n, kind: jumpTable}), of
	}
}

// endOfGap returns the start of the first variable behind a place, or end if that is in front.
func (c *cutting) endOfGap(at, end int64) int64 {
	if e, ok := slices.BinarySearchFunc(c.extents, uint64(at), func(e extent, at uint64) int { return cmp.Compare(e.start, at) }); !ok && e < len(c.extents) {
		end = min(end, int64(c.extents[e].start))
	}
	return end
}

// mayContinue reports whether the table of ref may continue at end, where the first of others lead to,
// because there isn't a table of theirs.
func (r *cutter) mayContinue(k int, table ref, others []ref, end int64) bool {
	s, there := &r.sections[k], refsTo(others, end)
	i, hit := firstReloc(s.relocs, uint64(end), uint64(end)+1)
	if len(there) == 0 || !hit {
		return false
	}
	of, _ := r.functionAt(table.from, table.site)
	if !slices.ContainsFunc(there, func(x ref) bool { by, ok := r.functionAt(x.from, x.site); return !ok || by != of }) {
		return false // all are of the same function
	}
	bias := int64(0)
	if r.cuts[k].uses[i].class == useTable {
		bias = end - table.at
	}
	if in, ok := r.jumpTarget(&s.relocs[i], bias); !ok || in != of && !r.isColdPart(in, of) {
		return false
	}
	next := int64(s.size)
	if n := len(there); n < len(others) {
		next = min(next, others[n].at)
	}
	next = r.cuts[k].endOfGap(end, next)
	return r.tableAt(k, uint64(end), uint64(next), there) == 0
}

// tableAt returns the size of the jump table at a place, or 0.
func (r *cutter) tableAt(k int, at, end uint64, refs []ref) uint64 {
	s, c := &r.sections[k], &r.cuts[k]
	of, ok := r.functionAt(refs[0].from, refs[0].site)
	for _, x := range refs {
		if o, k := r.functionAt(x.from, x.site); !k || !ok || o != of || x.use.class != useFolded {
			return 0
		}
	}
	first, _ := firstReloc(s.relocs, at, end)
	n, cell := uint64(0), uint64(0)
	for i := first; i < len(s.relocs) && s.relocs[i].offset == at+n && at+n < end; i++ {
		bias, size := int64(0), uint64(8)
		switch c.uses[i].class {
		case useTable:
			bias, size = int64(n), 4
		case useExact:
		default:
			return 0
		}
		to, ok := r.jumpTarget(&s.relocs[i], bias)
		if !ok || cell != 0 && size != cell || to != of && (to.section == of.section || !r.isColdPart(to, of)) {
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

// jumpTarget returns the function with the instruction that a relocation in a jump table leads to.
func (r *cutter) jumpTarget(rel *reloc, bias int64) (id function, ok bool) {
	sym := &r.syms[rel.sym]
	if !sym.local() || sym.typ() != elf.STT_SECTION || sym.sec <= 0 || r.cuts[sym.sec].code == nil {
		return id, false
	}
	to := int64(sym.value) + rel.addend - bias
	if to < 0 || !r.cuts[sym.sec].code.starts.has(uint64(to)) {
		return id, false
	}
	return r.functionAt(sym.sec, uint64(to))
}

// isColdPart reports whether a function is a part that the compiler has split from another one, or vice versa.
func (r *cutter) isColdPart(part, whole function) bool {
	key := [2]function{part, whole}
	is, known := r.coldParts[key]
	if !known {
		parts := r.namesAt(part)
		is = slices.ContainsFunc(r.namesAt(whole), func(name string) bool {
			return slices.ContainsFunc(parts, func(s string) bool { return strings.HasPrefix(s, name+".") || strings.HasPrefix(name, s+".") })
		})
		r.coldParts[key] = is
	}
	return is
}

// namesAt returns the names of symbols at the beginning of a function.
func (r *cutter) namesAt(id function) (names []string) {
	s, start := &r.sections[id.section], r.cuts[id.section].extents[id.extent].start
	for _, i := range slices.Concat(s.locals, s.globals) {
		if sym := &r.syms[i]; sym.value == start && sym.name != "" {
			names = append(names, sym.name)
		}
	}
	return names
}

// inTable reports whether a place of a section is in a jump table.
func (r *cutter) inTable(k int, at uint64) bool {
	i, ok := slices.BinarySearchFunc(r.cuts[k].tables, at, func(p piece, at uint64) int { return cmp.Compare(p.start, at) })
	return ok || i > 0 && at < r.cuts[k].tables[i-1].end
}
