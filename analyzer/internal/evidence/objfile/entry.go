package objfile

import (
	"debug/elf"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/symname"
)

// findEntries sets the entries of each function for which a breakpoint at its beginning is enough to see that
// it runs: nothing but itself leads into it elsewhere. (A return, an unwinder or longjmp leads to a function
// that was entered before.)
//
// All names are entries: a program may have another definition of a weak one, and a linker may drop local
// ones. See trace-sound/weak-handlers.
func (r *cutter) findEntries() {
	inside := r.enteredInside()
	named := map[string][]*component{} // code
	for i, c := range r.components {
		s := &r.sections[c.sec]
		if !s.executable() {
			continue
		}
		enters := s.align <= 16 && r.cuts[c.sec].cut && r.cuts[c.sec].code != nil && c.root == "" && len(c.spans) == 1 && len(r.ordered[c.sec]) == 0 && !inside[i]
		sized := false
		for _, n := range c.syms {
			sym := &r.syms[n]
			named[sym.name] = append(named[sym.name], c)
			switch {
			case sym.value != c.base():
				enters = false // others may enter at that symbol
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
	r.joinPieces(named)
	for _, c := range r.components {
		if c.entries == nil {
			c.align = 0
		}
	}
}

// joinPieces gives a function and the pieces that the compiler has split from it the same entries: a piece
// runs if its function does, by whatever name. See trace-sound/cold-name.
func (r *cutter) joinPieces(named map[string][]*component) {
	for _, c := range r.components {
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

// enteredInside returns the components that something else may enter at another place than the beginning.
// See trace-sound/jump-assembly.
func (r *cutter) enteredInside() map[int]bool {
	inside := map[int]bool{}
	// lead handles a reference from a place to another one.
	lead := func(from int, site uint64, k int, to int64) {
		if k <= 0 || k >= len(r.cuts) || !r.sections[k].executable() || !r.cuts[k].cut {
			return
		}
		n := r.pieceAt(k, to)
		if n < 0 || int64(r.pieces[k][n].start) == to {
			return
		}
		own, ok := r.functionAt(from, site)
		of, known := r.functionAt(k, uint64(to))
		if ok && known && (own == of || r.isPiece(own, of) || r.isPiece(of, own)) {
			return // it was entered before
		}
		inside[r.pieces[k][n].comp] = true
	}
	for k := range r.sections {
		s, c := &r.sections[k], &r.cuts[k]
		if c.uses == nil || r.isUnwind(k) || r.kinds[k] == kindHandlers {
			continue // an unwinder leads to a function that was entered before
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
				for _, p := range r.pieces[sym.sec] { // the target isn't known
					inside[p.comp] = inside[p.comp] || p.kind == inComponent
				}
				continue
			}
			lead(k, rel.offset, sym.sec, int64(sym.value)+rel.addend+int64(u.bias))
		}
	}
	return inside
}

// isPiece reports whether a function is a piece of another one, as package trace understands it.
func (r *cutter) isPiece(part, whole function) bool {
	names := r.namesAt(whole)
	return slices.ContainsFunc(r.namesAt(part), func(name string) bool {
		of, is := symname.PieceOf(name)
		return is && slices.Contains(names, of)
	})
}
