package objfile

import (
	"bytes"
	"cmp"
	"slices"
)

// unwindEntry is the description of one range of code in .eh_frame, or the
// common information that it builds on.
type unwindEntry struct {
	section int
	start   uint64
	bytes   []byte
	relocs  []reloc
	place   int64 // of the code, in its component
}

// readUnwind splits the unwind tables into their entries (System V ABI for
// AMD64, 4.2.4; the format is that of all ELF machines) and attaches each to
// the components that it describes. A table that it doesn't understand becomes
// a component of its own and a root.
func (r *reader) readUnwind() {
	for k := range r.sections {
		if r.kinds[k] != kindUnwind || r.splitUnwind(k) {
			continue
		}
		i := r.newComponent(k)
		r.out[i].spans = []span{{0, r.sections[k].size}}
		r.out[i].syms = slices.Concat(r.sections[k].locals, r.sections[k].globals)
		r.pieces[k] = []piece{{end: r.sections[k].size, comp: i}}
		r.kinds[k] = kindComponent
	}
}

// common is what the entries of one kind of code have in common.
type common struct {
	unwindEntry
	sizes     int  // of the fields for the place and the length of code: 4 or 8
	augmented bool // its entries have more fields
}

// unwindTable is a section of unwind tables that is being read.
type unwindTable struct {
	*reader
	section   int
	commons   map[int]common // by offset
	described map[int][]span // of sections
	out       []attached
}

// attached are the entries for a piece of code, for its component.
type attached struct {
	component int
	unwind    []unwindEntry
}

// splitUnwind attaches the entries of section k to the components that they
// describe. It fails before it has changed anything.
func (r *reader) splitUnwind(k int) bool {
	s := &r.sections[k]
	if len(s.globals) > 0 || s.data == nil {
		return false
	}
	t := &unwindTable{reader: r, section: k, commons: map[int]common{}, described: map[int][]span{}}
	for at := 0; at < len(s.data); {
		if len(s.data)-at < 4 {
			return false
		}
		size := order.Uint32(s.data[at:])
		if size == 0 { // end of the table: for readers of what linkers don't rewrite, of all tables
			return false
		}
		end := uint64(at) + 4 + uint64(size)
		if size < 4 || size >= 0xfffffff0 || end > uint64(len(s.data)) {
			return false
		}
		first, _ := firstReloc(s.relocs, uint64(at), end)
		last, _ := firstReloc(s.relocs, end, end)
		// Entries are padded with no-operations, the last one more than others.
		e := unwindEntry{section: k, start: uint64(at), bytes: bytes.TrimRight(slices.Clone(s.data[at:end]), "\x00"), relocs: s.relocs[first:last]}
		clear(e.bytes[:min(4, len(e.bytes))]) // size
		if id := order.Uint32(s.data[at+4:]); id != 0 {
			if !t.describe(e, s.data[at+8:end], at+4-int(id)) {
				return false
			}
		} else {
			sizes, augmented := r.pointerSize(s.data[at+8 : end])
			if sizes == 0 {
				return false // linkers may refuse it
			}
			t.commons[at] = common{e, sizes, augmented}
		}
		at = int(end)
	}
	if t.overlap() {
		return false // linkers refuse it
	}
	for _, e := range t.out {
		r.out[e.component].unwind = append(r.out[e.component].unwind, e.unwind...)
	}
	return true
}

// describe reads an entry that describes code, from b, its fields, with the common information at
// an offset.
func (t *unwindTable) describe(e unwindEntry, b []byte, with int) bool {
	cie, ok := t.commons[with]
	if !ok || len(e.relocs) == 0 || e.relocs[0].offset != e.start+8 {
		return false
	}
	rel := e.relocs[0]
	sym := &t.syms[rel.sym]
	if sym.sec <= 0 || t.kinds[sym.sec] != kindComponent || len(t.pieces[sym.sec]) == 0 {
		return false
	}
	clear(e.bytes[4:min(8, len(e.bytes))]) // the distance to the common entry
	// Which global symbol the assembler chose for the code's place is no
	// reference to that symbol.
	e.relocs = e.relocs[1:]
	place := int64(sym.value) + rel.addend
	if 2*cie.sizes > len(b) {
		return false
	}
	field := b[cie.sizes:]
	length := uint64(order.Uint32(field))
	if cie.sizes == 8 {
		length = order.Uint64(field)
	}
	code := span{uint64(place), uint64(place) + length}
	if place < 0 || code.end < code.start || code.end > t.sections[sym.sec].size || !t.followsInstructions(field[cie.sizes:], cie) {
		return false // linkers warn of it, or make something else of the tables of all units
	}
	t.described[sym.sec] = append(t.described[sym.sec], code)
	pieces := t.pieces[sym.sec]
	if t.cuts[sym.sec].cut {
		i := t.find(sym.sec, place)
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
		mine := e
		mine.place = place - int64(t.reader.out[p.comp].base())
		t.out = append(t.out, attached{p.comp, []unwindEntry{cie.unwindEntry, mine}})
	}
	return true
}

// overlap tells whether two entries describe the same code.
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

// followsInstructions tells whether the instructions of an entry, from its fields behind those
// for the place and the length of code on, are ones that linkers know.
func (r *reader) followsInstructions(b []byte, c common) bool {
	if c.augmented {
		n, rest, ok := leb(b)
		if !ok || n > uint64(len(rest)) {
			return false
		}
		b = rest[n:]
	}
	return knownInstructions(b, c.sizes)
}

// knownInstructions tells whether b consists of call frame instructions (DWARF 5, 6.4.2 and
// 7.24, and GNU's) to its end. Linkers that don't follow them leave all tables of a file as
// they are.
func knownInstructions(b []byte, address int) bool {
	for len(b) > 0 {
		op := b[0]
		b = b[1:]
		numbers, fixed, block := 0, 0, false
		switch {
		case op>>6 == 2: // offset
			numbers = 1
		case op>>6 != 0: // advance_loc, restore
		case op == 0x00, op == 0x0a, op == 0x0b, op == 0x2d:
		case op == 0x01: // set_loc
			fixed = address
		case op == 0x02:
			fixed = 1
		case op == 0x03:
			fixed = 2
		case op == 0x04:
			fixed = 4
		case op == 0x06, op == 0x07, op == 0x08, op == 0x0d, op == 0x0e, op == 0x13, op == 0x2e:
			numbers = 1
		case op == 0x05, op == 0x09, op == 0x0c, op == 0x11, op == 0x12, op == 0x14, op == 0x15, op == 0x2f:
			numbers = 2
		case op == 0x0f: // an expression
			block = true
		case op == 0x10, op == 0x16: // of a register
			numbers, block = 1, true
		default:
			return false
		}
		for range numbers {
			var ok bool
			if _, b, ok = leb(b); !ok {
				return false
			}
		}
		if block {
			n, rest, ok := leb(b)
			if !ok || n > uint64(len(rest)) {
				return false
			}
			b = rest[n:]
		}
		if fixed > len(b) {
			return false
		}
		b = b[fixed:]
	}
	return true
}

// leb reads a number of variable length (DWARF 5, 7.6) without a sign.
func leb(b []byte) (n uint64, rest []byte, ok bool) {
	for i := 0; i < len(b) && i < 10; i++ {
		n |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return n, b[i+1:], true
		}
	}
	return 0, nil, false
}

// pointerSize reads from common information, without its first 8 bytes, how many
// bytes addresses of code have in the entries that refer to it, or 0, and whether they are
// augmented.
func (r *reader) pointerSize(b []byte) (size int, augmented bool) {
	const word = 8
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
	size = word
	if len(augmentation) > 0 {
		n, rest, ok := leb(b)
		if !ok || augmentation[0] != 'z' || n > uint64(len(rest)) {
			return 0, false
		}
		if size = encodedSize(augmentation[1:], rest[:n]); size == 0 {
			return 0, false
		}
		b = rest[n:]
	}
	if !knownInstructions(b, size) {
		return 0, false
	}
	return size, len(augmentation) > 0
}

// encodedSize reads from the augmentation of common information how many bytes addresses of
// code have, or 0.
func encodedSize(augmentation, b []byte) (size int) {
	const word = 8
	size = word
	for _, c := range augmentation {
		if len(b) == 0 && c != 'S' && c != 'B' {
			return 0
		}
		switch c {
		case 'R':
			switch b[0] & 0x0f {
			case 0:
				size = word
			case 3, 11:
				size = 4
			case 4, 12:
				size = 8
			default:
				return 0
			}
			b = b[1:]
		case 'L':
			b = b[1:]
		case 'P':
			skip := 1
			switch b[0] & 0x0f {
			case 0:
				skip += word
			case 2, 10:
				skip += 2
			case 3, 11:
				skip += 4
			case 4, 12:
				skip += 8
			default:
				return 0
			}
			if len(b) < skip {
				return 0
			}
			b = b[skip:]
		case 'S', 'B':
		default:
			return 0
		}
	}
	return size
}
