package objfile

import (
	"bytes"
	"cmp"
	"slices"
)

// unwindEntry is an FDE or CIE of .eh_frame.
type unwindEntry struct {
	section int
	start   uint64
	bytes   []byte
	relocs  []reloc
	place   int64 // offset of the code in its component
}

// attachUnwind splits unwind tables into their entries (System V ABI for AMD64, 4.2.4) and attaches
// each to the components that it describes. It fails for a table that compilers don't write. See
// link-unreached/fde-overlap.
func (r *cutter) attachUnwind() bool {
	for k := range r.sections {
		if r.kinds[k] == kindUnwind && !r.splitUnwind(k) {
			return false
		}
	}
	return true
}

// cie is a common information entry.
type cie struct {
	unwindEntry
	pointer   int  // size of the place and the length of code in its FDEs: 4 or 8
	augmented bool // its FDEs have augmentation data
}

// unwindTable is an .eh_frame section while it is read.
type unwindTable struct {
	*cutter
	section   int
	cies      map[int]cie    // by offset
	described map[int][]span // by section
}

// splitUnwind attaches the entries of section k.
func (r *cutter) splitUnwind(k int) bool {
	s := &r.sections[k]
	if len(s.globals) > 0 || s.data == nil {
		return false
	}
	t := &unwindTable{cutter: r, section: k, cies: map[int]cie{}, described: map[int][]span{}}
	for at := 0; at < len(s.data); {
		if len(s.data)-at < 4 {
			return false
		}
		size := order.Uint32(s.data[at:])
		if size == 0 {
			return false // the end of all tables; see link-unreached/fde-terminator
		}
		end := uint64(at) + 4 + uint64(size)
		if size < 4 || size >= 0xfffffff0 || end > uint64(len(s.data)) {
			return false
		}
		first, last := relocsIn(s.relocs, uint64(at), end)
		// Entries are padded with DW_CFA_nop, the last one by more than others.
		e := unwindEntry{section: k, start: uint64(at), bytes: bytes.TrimRight(slices.Clone(s.data[at:end]), "\x00"), relocs: s.relocs[first:last]}
		clear(e.bytes[:min(4, len(e.bytes))]) // size
		if id := order.Uint32(s.data[at+4:]); id != 0 {
			if !t.addFDE(e, s.data[at+8:end], at+4-int(id)) {
				return false
			}
		} else {
			pointer, augmented := pointerSize(s.data[at+8 : end])
			if pointer == 0 {
				return false // linkers may refuse it; see link-unreached/eh-augmentation
			}
			t.cies[at] = cie{e, pointer, augmented}
		}
		at = int(end)
	}
	return !t.overlap() // GNU ld refuses that; see link-unreached/fde-overlap
}

// addFDE reads an FDE with the fields b and the CIE at an offset.
func (t *unwindTable) addFDE(e unwindEntry, b []byte, cieAt int) bool {
	info, ok := t.cies[cieAt]
	if !ok || len(e.relocs) == 0 || e.relocs[0].offset != e.start+8 {
		return false
	}
	rel := e.relocs[0]
	sym := &t.syms[rel.sym]
	if sym.sec <= 0 || t.kinds[sym.sec] != kindComponent || len(t.pieces[sym.sec]) == 0 {
		return false
	}
	clear(e.bytes[4:min(8, len(e.bytes))]) // the distance to the CIE
	// This relocation gives the place of the code: its symbol isn't a reference.
	e.relocs = e.relocs[1:]
	place := int64(sym.value) + rel.addend
	if 2*info.pointer > len(b) {
		return false
	}
	field := b[info.pointer:]
	length := uint64(order.Uint32(field))
	if info.pointer == 8 {
		length = order.Uint64(field)
	}
	code := span{start: uint64(place), end: uint64(place) + length}
	if place < 0 || code.end < code.start || code.end > t.sections[sym.sec].size || !hasKnownInstructions(field[info.pointer:], info) {
		return false // it changes what linkers make of all tables; see link-unreached/fde-fatal
	}
	t.described[sym.sec] = append(t.described[sym.sec], code)
	pieces := t.pieces[sym.sec]
	if t.cuts[sym.sec].cut {
		i := t.pieceAt(sym.sec, place)
		if i < 0 {
			return false
		}
		j := i + 1
		for j < len(pieces) && length > 0 && pieces[j].start-uint64(place) < length {
			j++
		}
		if pieces = pieces[i:j]; len(pieces) > 16 {
			return false
		}
	}
	for _, p := range pieces {
		if p.kind != inComponent {
			return false
		}
		c := t.components[p.comp]
		e.place = place - int64(c.base())
		c.unwind = append(c.unwind, info.unwindEntry, e)
	}
	return true
}

// overlap reports whether two FDEs describe the same code.
func (t *unwindTable) overlap() bool {
	for _, l := range t.described {
		slices.SortFunc(l, func(a, b span) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end)) })
		for i := 1; i < len(l); i++ {
			if l[i].start < l[i-1].end {
				return true
			}
		}
	}
	return false
}

// hasKnownInstructions reports whether linkers know the instructions of an FDE, whose fields behind the
// length of the code are b.
func hasKnownInstructions(b []byte, c cie) bool {
	if c.augmented {
		n, rest, ok := leb(b)
		if !ok || n > uint64(len(rest)) {
			return false
		}
		b = rest[n:]
	}
	return knownInstructions(b, c.pointer)
}

// cfaOperands are the operands of call frame instructions (DWARF 5, 6.4.2 and 7.24, and GNU's): u is a
// LEB128 number, b a block, p a pointer, a digit that many bytes.
var cfaOperands = map[byte]string{
	0x00: "", 0x01: "p", 0x02: "1", 0x03: "2", 0x04: "4", 0x05: "uu", 0x06: "u", 0x07: "u", 0x08: "u", 0x09: "uu", 0x0a: "", 0x0b: "",
	0x0c: "uu", 0x0d: "u", 0x0e: "u", 0x0f: "b", 0x10: "ub", 0x11: "uu", 0x12: "uu", 0x13: "u", 0x14: "uu", 0x15: "uu", 0x16: "ub",
	0x2d: "", 0x2e: "u", 0x2f: "uu",
}

// knownInstructions reports whether b consists of call frame instructions that linkers know. A linker that
// doesn't know one leaves all tables of a file as they are. See link-unreached/fde-terminator.
func knownInstructions(b []byte, pointer int) bool {
	for len(b) > 0 {
		op := b[0]
		b = b[1:]
		operands, known := cfaOperands[op]
		switch op >> 6 {
		case 1, 3: // DW_CFA_advance_loc, DW_CFA_restore
			known = true
		case 2: // DW_CFA_offset
			operands, known = "u", true
		}
		if !known {
			return false
		}
		for _, x := range operands {
			n, ok := uint64(0), true
			switch x {
			case 'u':
				_, b, ok = leb(b)
			case 'b':
				n, b, ok = leb(b)
			case 'p':
				n = uint64(pointer)
			default:
				n = uint64(x - '0')
			}
			if !ok || n > uint64(len(b)) {
				return false
			}
			b = b[n:]
		}
	}
	return true
}

// leb reads an unsigned LEB128 number (DWARF 5, 7.6).
func leb(b []byte) (n uint64, rest []byte, ok bool) {
	for i := 0; i < len(b) && i < 10; i++ {
		n |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return n, b[i+1:], true
		}
	}
	return 0, nil, false
}

// pointerSize returns the size of pointers to code in the FDEs of a CIE with the fields b, or 0, and whether
// they have augmentation data.
func pointerSize(b []byte) (size int, augmented bool) {
	if len(b) < 2 || b[0] != 1 {
		return 0, false
	}
	augmentation, b, ok := bytes.Cut(b[1:], []byte{0})
	for range 3 { // alignment of code and data, return address
		if ok {
			_, b, ok = leb(b)
		}
	}
	if !ok {
		return 0, false
	}
	size = 8
	if len(augmentation) > 0 {
		n, rest, ok := leb(b)
		if !ok || augmentation[0] != 'z' || n > uint64(len(rest)) {
			return 0, false
		}
		if size = augmentedSize(augmentation[1:], rest[:n]); size == 0 {
			return 0, false
		}
		b = rest[n:]
	}
	if !knownInstructions(b, size) {
		return 0, false
	}
	return size, len(augmentation) > 0
}

// augmentedSize returns the size of pointers to code that the augmentation of a CIE asks for, or 0.
func augmentedSize(augmentation, data []byte) int {
	size := 8
	for _, c := range augmentation {
		if c == 'S' || c == 'B' {
			continue
		}
		if len(data) == 0 {
			return 0
		}
		encoded := encodedSizes[data[0]&0x0f]
		data = data[1:]
		switch {
		case c == 'R' && encoded >= 4:
			size = encoded
		case c == 'L':
		case c == 'P' && encoded > 0 && encoded <= len(data):
			data = data[encoded:]
		default:
			return 0
		}
	}
	return size
}

// encodedSizes are the sizes of pointers by their DW_EH_PE encoding: absptr, udata8, sdata8; udata2, sdata2; udata4, sdata4.
var encodedSizes = map[byte]int{0x00: 8, 0x04: 8, 0x0c: 8, 0x02: 2, 0x0a: 2, 0x03: 4, 0x0b: 4}
