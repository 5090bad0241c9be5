package objfile

import (
	"bytes"
	"debug/elf"
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
	sizes int // of the fields for the place and the length of code: 4 or 8
}

// splitUnwind attaches the entries of section k to the components that they
// describe. It fails before it has changed anything.
func (r *reader) splitUnwind(k int) bool {
	s := &r.sections[k]
	if len(s.globals) > 0 || s.data == nil {
		return false
	}
	type entry struct {
		component int
		unwind    []unwindEntry
	}
	var out []entry
	commons := map[int]common{} // by offset
	for at := 0; at < len(s.data); {
		if len(s.data)-at < 4 {
			return false
		}
		size := r.order.Uint32(s.data[at:])
		if size == 0 { // end of the table
			if at+4 != len(s.data) {
				return false
			}
			break
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
		id := r.order.Uint32(s.data[at+4:])
		if id == 0 {
			sizes := r.pointerSize(s.data[at+8 : end])
			if sizes == 0 {
				return false // linkers may refuse it
			}
			commons[at] = common{e, sizes}
			at = int(end)
			continue
		}
		cie, ok := commons[at+4-int(id)]
		if !ok || len(e.relocs) == 0 || e.relocs[0].offset != uint64(at)+8 {
			return false
		}
		rel := e.relocs[0]
		sym := &r.syms[rel.sym]
		if sym.sec <= 0 || r.kinds[sym.sec] != kindComponent || len(r.pieces[sym.sec]) == 0 {
			return false
		}
		clear(e.bytes[4:min(8, len(e.bytes))]) // the distance to the common entry
		// Which global symbol the assembler chose for the code's place is no
		// reference to that symbol.
		e.relocs = e.relocs[1:]
		place := int64(sym.value) + rel.addend
		pieces := r.pieces[sym.sec]
		if r.cuts[sym.sec].cut {
			i := r.find(sym.sec, place)
			length := uint64(0)
			if at+8+2*cie.sizes <= int(end) {
				field := s.data[at+8+cie.sizes:]
				if length = uint64(r.order.Uint32(field)); cie.sizes == 8 {
					length = r.order.Uint64(field)
				}
			} else {
				return false
			}
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
			mine.place = place - int64(r.out[p.comp].base())
			out = append(out, entry{p.comp, []unwindEntry{cie.unwindEntry, mine}})
		}
		at = int(end)
	}
	for _, e := range out {
		r.out[e.component].unwind = append(r.out[e.component].unwind, e.unwind...)
	}
	return true
}

// pointerSize reads from common information, without its first 8 bytes, how many
// bytes addresses of code have in the entries that refer to it, or 0.
func (r *reader) pointerSize(b []byte) int {
	word := 8
	if r.class == elf.ELFCLASS32 {
		word = 4
	}
	if len(b) < 2 || b[0] != 1 {
		return 0
	}
	augmentation, b, ok := bytes.Cut(b[1:], []byte{0})
	if !ok {
		return 0
	}
	if len(augmentation) == 0 {
		return word
	}
	if augmentation[0] != 'z' {
		return 0
	}
	for range 4 { // alignment of code and data, return address, length of what follows
		for len(b) > 0 && b[0] >= 0x80 {
			b = b[1:]
		}
		if len(b) == 0 {
			return 0
		}
		b = b[1:]
	}
	for _, c := range augmentation[1:] {
		if len(b) == 0 {
			return 0
		}
		switch c {
		case 'R':
			switch b[0] & 0x0f {
			case 0:
				return word
			case 3, 11:
				return 4
			case 4, 12:
				return 8
			}
			return 0
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
	return word
}
