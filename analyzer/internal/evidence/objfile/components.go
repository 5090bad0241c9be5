package objfile

import (
	"cmp"
	"debug/elf"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// component is some ranges of one section, nearly always a single one. A common symbol (a tentative
// definition of C) has none.
type component struct {
	name, root, group string
	sec               int
	spans             []span
	syms              []int // symbols with a name that it defines, local ones first
	definitions       []*manifest.Definition
	linkage           manifest.Linkage
	links             []link
	unwind            []unwindEntry
	next              int      // the component that control falls into, -1 or outside
	entries           []string // see findEntries
	place             uint32   // a manifest.Place constant, or 0
	align             uint64   // of code, as hashed
	hash              []byte
}

type span struct {
	start, end uint64
	rank       uint32 // among all spans of the object
}

// base is the start of the component, to which offsets in it are relative.
func (c *component) base() uint64 { return c.spans[0].start }

// link refers to a component of the object or, if component is -1, to a symbol.
type link struct {
	component int
	symbol    string
}

// anyLink is the link of code whose target isn't known.
var anyLink = link{-1, manifest.AnySymbol}

// makeComponents makes components of pieces, and gives them their symbols.
func (r *cutter) makeComponents() {
	rank := uint32(0)
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
			c := r.components[p.comp]
			c.spans = append(c.spans, span{p.start, p.end, rank})
			rank++
		}
		if r.kinds[k] != kindComponent || len(r.pieces[k]) == 0 {
			continue
		}
		for _, i := range slices.Concat(r.sections[k].locals, r.sections[k].globals) {
			at := 0
			if r.cuts[k].cut {
				at = r.pieceAt(k, int64(r.syms[i].value))
			}
			if p := r.pieces[k][at]; p.kind == inComponent {
				c := r.components[p.comp]
				c.syms = append(c.syms, i)
				if r.syms[i].typ() == elf.STT_GNU_IFUNC && c.root == "" {
					c.root = manifest.Resolver // the loader calls it for any reference; see code-attr/two-ifuncs-one-unit
				}
			}
		}
		for i, e := range r.cuts[k].extents {
			if r.cuts[k].code != nil {
				r.fallThrough(k, i, e)
			}
		}
	}
}

func (r *cutter) newComponent(k int) int {
	r.components = append(r.components, &component{sec: k, root: r.roots[k], group: r.sections[k].comdat, next: -1})
	return len(r.components) - 1
}

// fallThrough sets the component that follows function i of section k. See code-asm/naked-falls.
func (r *cutter) fallThrough(k, i int, e extent) {
	if e.padTraps {
		return
	}
	l := r.pieces[k]
	for _, x := range e.exits {
		switch last := i+1 == len(r.cuts[k].extents); {
		case !last && r.cuts[k].cut:
			if !x.withCall || r.callReturns(k, x.call) {
				r.components[l[i].comp].next = l[i+1].comp
			}
		case last && !x.withCall && r.roots[k] == "":
			// The linker decides what follows. (A call at the end of a section doesn't return.)
			r.components[l[len(l)-1].comp].next = outsideSection
		}
	}
}

// outsideSection is the next component of code that runs over the end of its section.
const outsideSection = -2

// callReturns reports whether the call with a field at a place may return.
func (r *cutter) callReturns(k int, at uint64) bool {
	c := &r.cuts[k]
	target := func(k int, to uint64) bool {
		e := extentAt(r.cuts[k].extents, to)
		if r.cuts[k].code == nil || e < 0 || r.cuts[k].extents[e].start != to {
			return true
		}
		id := function{k, e}
		known, ok := r.returns[id]
		if !ok {
			x := r.cuts[k].extents[e]
			r.returns[id] = true // for recursion
			known = x.returns || slices.ContainsFunc(x.exits, func(x exit) bool { return !x.withCall || r.callReturns(k, x.call) })
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
	case neverReturns(sym.name) && sym.sec <= 0: // not its own function; see code-asm/called-noreturn-name
		return false
	case sym.sec > 0 && sym.typ() == elf.STT_SECTION:
		to := int64(sym.value) + rel.addend + int64(c.uses[i].bias)
		return to < 0 || target(sym.sec, uint64(to))
	case sym.sec > 0 && sym.bind() != elf.STB_WEAK:
		return target(sym.sec, sym.value)
	}
	return true
}
