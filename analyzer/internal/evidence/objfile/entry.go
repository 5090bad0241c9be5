package objfile

import (
	"cmp"
	"debug/elf"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/symname"
)

// enter notes of which components a breakpoint at the beginning sees whether anything of them is
// executed: functions of a compiler into which nothing leads but to their beginning, or from themselves.
// That a function returns, unwinds or jumps back into one that it was called by enters nothing.
//
// All names count: of a weak one, the program may have another definition, and linkers may leave out local ones.
func (r *reader) enter() {
	inside := r.enteredInside()
	named := map[string][]*component{} // code
	for i, c := range r.out {
		s := &r.sections[c.sec]
		if !s.code() {
			continue
		}
		enters := s.align <= 16 && r.cuts[c.sec].cut && r.cuts[c.sec].code != nil && c.root == "" && len(c.spans) == 1 && len(r.kept[c.sec]) == 0 && !inside[i]
		sized := false
		for _, n := range c.syms {
			sym := &r.syms[n]
			named[sym.name] = append(named[sym.name], c)
			switch {
			case sym.value != c.base():
				enters = false // who knows that place
			case sym.typ() == elf.STT_FUNC && sym.name != "":
				sized = sized || sym.size > 0
				c.entries = append(c.entries, symname.Printable(sym.name))
			}
		}
		if !enters || !sized {
			c.entries = nil
		}
		slices.Sort(c.entries)
		c.entries = slices.Compact(c.entries)
	}
	r.enterPieces(named)
	for _, c := range r.out {
		if c.entries == nil {
			c.align = 0
		}
	}
}

// enterPieces has a function and its pieces be executed together: a piece is if its function is, by whatever name that was
// called, and code of that name, which may be somebody else's, may go on in the middle of the function.
func (r *reader) enterPieces(named map[string][]*component) {
	for _, c := range r.out {
		for _, n := range c.syms {
			of, is := symname.PieceOf(r.syms[n].name)
			if !is {
				continue
			}
			for _, whole := range named[of] {
				if c.entries == nil || whole.entries == nil {
					c.entries, whole.entries = nil, nil
					continue
				}
				all := slices.Concat(c.entries, whole.entries)
				slices.Sort(all)
				all = slices.Compact(all)
				c.entries, whole.entries = all, slices.Clone(all)
			}
		}
	}
}

// enteredInside returns the components into which something else may lead, not to their beginning.
func (r *reader) enteredInside() map[int]bool {
	inside := map[int]bool{}
	// lead notes a reference from a place to another one.
	lead := func(from int, site uint64, k int, to int64) {
		if k <= 0 || k >= len(r.cuts) || !r.sections[k].code() || !r.cuts[k].cut {
			return
		}
		n := r.find(k, to)
		if n < 0 || int64(r.pieces[k][n].start) == to {
			return
		}
		own, ok := r.origin(from, site)
		of, known := r.origin(k, uint64(to))
		if ok && known && (own == of || r.isPiece(own, of) || r.isPiece(of, own)) {
			return // whoever is there was in it before
		}
		inside[r.pieces[k][n].comp] = true
	}
	for k := range r.sections {
		s, c := &r.sections[k], &r.cuts[k]
		if c.uses == nil || r.isUnwind(k) || r.kinds[k] == kindHandlers {
			continue // unwinding leads to where calls were made
		}
		if c.code != nil {
			for _, x := range c.code.sites {
				lead(k, x.at, k, int64(x.target))
			}
		}
		for i := range s.relocs {
			rel, u := &s.relocs[i], c.uses[i]
			sym := &r.syms[rel.sym]
			if sym.sec <= 0 || r.inTable(k, rel.offset) {
				continue
			}
			if u.class == useTable || u.class == useUnknown {
				r.all(sym.sec, inside) // where it leads to isn't known
				continue
			}
			lead(k, rel.offset, sym.sec, int64(sym.value)+rel.addend+int64(u.bias))
		}
	}
	return inside
}

// isPiece tells whether a function is what a compiler has split from another one, as package trace
// understands it: it is executed if that one is.
func (r *reader) isPiece(part, whole [2]int) bool {
	names := r.namesAt(whole)
	return slices.ContainsFunc(r.namesAt(part), func(name string) bool {
		of, is := symname.PieceOf(name)
		return is && slices.Contains(names, of)
	})
}

// inTable tells whether a place of a section is in a function's jump table.
func (r *reader) inTable(k int, at uint64) bool {
	i, ok := slices.BinarySearchFunc(r.cuts[k].tables, at, func(p piece, at uint64) int { return cmp.Compare(p.start, at) })
	return ok || i > 0 && at < r.cuts[k].tables[i-1].end
}

// all notes all components of a section.
func (r *reader) all(k int, in map[int]bool) {
	for _, p := range r.pieces[k] {
		if p.kind == inComponent && p.comp >= 0 {
			in[p.comp] = true
		}
	}
}
