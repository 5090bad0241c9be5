package objfile

import (
	"bytes"
	"cmp"
	"debug/elf"
	"slices"
)

// unwindEntry is the description of one range of code in .eh_frame, together
// with the common information entry that it builds on.
type unwindEntry struct {
	bytes  []byte
	relocs []reloc
}

// readUnwind splits the unwind tables into their entries (System V ABI for
// AMD64, 4.2.4; the format is that of all ELF machines) and attaches each to
// the section that it describes. A table that it doesn't understand becomes a
// component of its own and a root.
func (r *reader) readUnwind() error {
	for k, s := range r.Sections {
		if !isUnwind(s) || s.Flags&elf.SHF_ALLOC == 0 || s.Size == 0 {
			continue
		}
		entries, ok := r.splitUnwind(k)
		if !ok {
			r.place[k] = len(r.out)
			r.outELF = append(r.outELF, k)
			r.out = append(r.out, &Section{Section: s.Name, Member: r.member, Size: s.Size, Root: "section " + s.Name})
			continue
		}
		for i, e := range entries {
			r.unwind[i] = append(r.unwind[i], e...)
		}
	}
	return nil
}

// splitUnwind returns the entries of .eh_frame section k by the component that
// they describe.
func (r *reader) splitUnwind(k int) (map[int][]unwindEntry, bool) {
	data, relocs := r.data[k], r.relocs[k]
	within := func(begin, end int) []reloc {
		first, _ := slices.BinarySearchFunc(relocs, uint64(begin), func(r reloc, at uint64) int { return cmp.Compare(r.offset, at) })
		var in []reloc
		for _, rel := range relocs[first:] {
			if rel.offset >= uint64(end) {
				break
			}
			rel.offset -= uint64(begin)
			in = append(in, rel)
		}
		return in
	}
	common := map[int]unwindEntry{} // by offset
	out := map[int][]unwindEntry{}
	for at := 0; at < len(data); {
		if len(data)-at < 4 {
			return nil, false
		}
		size := r.ByteOrder.Uint32(data[at:])
		if size == 0 { // end of the table
			if at+4 != len(data) {
				return nil, false
			}
			break
		}
		end := uint64(at) + 4 + uint64(size)
		if size < 4 || size >= 0xfffffff0 || end > uint64(len(data)) {
			return nil, false
		}
		// Entries are padded with no-operations, the last one more than others.
		e := unwindEntry{bytes.TrimRight(slices.Clone(data[at:end]), "\x00"), within(at, int(end))}
		clear(e.bytes[:min(4, len(e.bytes))]) // size
		id := r.ByteOrder.Uint32(data[at+4:])
		if id == 0 {
			common[at] = e
		} else {
			cie, ok := common[at+4-int(id)]
			if !ok || len(e.relocs) == 0 || e.relocs[0].offset != 8 {
				return nil, false
			}
			sym := r.syms[e.relocs[0].sym]
			if sym.Section == elf.SHN_UNDEF || sym.Section >= elf.SHN_LORESERVE || r.place[sym.Section] < 0 {
				return nil, false
			}
			i := r.place[sym.Section]
			clear(e.bytes[4:min(8, len(e.bytes))]) // the distance to the common entry
			// Which global symbol the assembler chose for the code's place is
			// no reference to that symbol.
			start := e.relocs[0]
			e.relocs = e.relocs[1:]
			place := reloc{offset: start.offset, typ: start.typ, addend: start.addend + int64(sym.Value)}
			e.relocs = append([]reloc{place}, e.relocs...)
			out[i] = append(out[i], cie, e)
		}
		at = int(end)
	}
	return out, true
}
