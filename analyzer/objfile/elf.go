package objfile

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/symname"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// ELF constants that debug/elf lacks.
const (
	shfGNURetain         = 0x200000
	shfExclude           = 0x80000000
	shtX86Unwind         = 0x70000001
	shtLLVMLinkerOptions = 0x6fff4c01
	shtLLVMDependentLibs = 0x6fff4c04
	shtCREL              = 0x40000014
	shfX86Large          = 0x10000000
	shtLLVMAddrsig       = 0x6fff4c03
	shtLLVMBBAddrMap0    = 0x6fff4c08
	shtLLVMBBAddrMap     = 0x6fff4c0a
	shtLLVMOffloading    = 0x6fff4c0b
	shtLLVMCallGraph     = 0x6fff4c09
	shtSFrame            = 0x6ffffff4
	shtAttributes        = 0x70000003 // of ARM, AArch64 and RISC-V
	grpComdat            = 1
	stbGNUUnique         = elf.SymBind(10)
	sttGNUIFunc          = elf.SymType(10)
)

// Values of symbol.sec that are no section.
const (
	secUndefined = 0
	secAbsolute  = -1
	secCommon    = -2 // or another section that only the linker knows
)

// file is a relocatable object. Everything that a header says was checked
// against the size of the file: later code indexes without asking.
type file struct {
	raw      []byte
	class    elf.Class
	order    binary.ByteOrder
	machine  elf.Machine
	sections []section
	names    int      // of sections, the section with them
	syms     []symbol // syms[0] is the null symbol
}

type section struct {
	name            string
	typ             elf.SectionType
	flags           elf.SectionFlag
	size            uint64
	link, info      uint32
	align, entsize  uint64
	data            []byte  // nil if it has none in the file
	relocs          []reloc // sorted by offset
	group           string  // what its group says, or ""
	comdat          string  // the signature of its COMDAT group, or ""
	locals, globals []int   // symbols with a name, by index; globals sorted by name
}

func (s *section) loaded() bool {
	return s.flags&elf.SHF_ALLOC != 0 && uint64(s.flags)&shfExclude == 0
}
func (s *section) code() bool { return s.flags&elf.SHF_EXECINSTR != 0 }

type symbol struct {
	name        string
	info, other byte
	sec         int
	reserved    elf.SectionIndex // of secCommon
	value, size uint64
}

func (s *symbol) bind() elf.SymBind { return elf.ST_BIND(s.info) }
func (s *symbol) typ() elf.SymType  { return elf.ST_TYPE(s.info) }
func (s *symbol) local() bool       { return s.bind() == elf.STB_LOCAL }

// reloc is a relocation of a section.
type reloc struct {
	offset uint64
	addend int64
	typ    uint32
	sym    uint32
	rel    bool // the addend is in the content
}

// layout of the structures of one ELF class.
type layout struct{ header, section, symbol, word int }

var layouts = map[elf.Class]layout{
	elf.ELFCLASS32: {52, 40, 16, 4},
	elf.ELFCLASS64: {64, 64, 24, 8},
}

// readFile parses a relocatable object: sections, symbols, groups and
// relocations. (debug/elf neither knows the relocations of an object nor many
// sections, and takes longer.)
func readFile(b []byte) (*file, error) {
	if len(b) < 20 || !isELF(b) {
		return nil, errors.New("the file is cut off")
	}
	f := &file{raw: b, class: elf.Class(b[elf.EI_CLASS])}
	l, ok := layouts[f.class]
	if !ok || len(b) < l.header {
		return nil, errors.New("the header is damaged or cut off")
	}
	switch elf.Data(b[elf.EI_DATA]) {
	case elf.ELFDATA2LSB:
		f.order = binary.LittleEndian
	case elf.ELFDATA2MSB:
		f.order = binary.BigEndian
	default:
		return nil, errors.New("unknown byte order")
	}
	if t := elf.Type(f.order.Uint16(b[16:])); t != elf.ET_REL {
		return nil, fmt.Errorf("this is an ELF file of type %v: want a relocatable object", t)
	}
	f.machine = elf.Machine(f.order.Uint16(b[18:]))
	if f.machine == elf.EM_MIPS && f.class == elf.ELFCLASS64 {
		return nil, errors.New("relocations of 64-bit MIPS objects aren't supported")
	}
	if err := f.readSections(l); err != nil {
		return nil, err
	}
	if err := f.readSymbols(l); err != nil {
		return nil, err
	}
	for i := range f.sections {
		s := &f.sections[i]
		var err error
		switch s.typ {
		case elf.SHT_REL, elf.SHT_RELA, shtCREL:
			err = f.readRelocs(s)
		case elf.SHT_GROUP:
			err = f.readGroup(s)
		}
		if err != nil {
			return nil, fmt.Errorf("section %d (%s): %w", i, s.name, err)
		}
	}
	for i := range f.sections {
		byOffset := func(a, b reloc) int { return cmp.Compare(a.offset, b.offset) }
		if l := f.sections[i].relocs; !slices.IsSortedFunc(l, byOffset) {
			slices.SortStableFunc(l, byOffset)
		}
	}
	return f, nil
}

// word reads an address or offset.
func (f *file) word(b []byte) uint64 {
	if f.class == elf.ELFCLASS32 {
		return uint64(f.order.Uint32(b))
	}
	return f.order.Uint64(b)
}

// part returns size bytes of the file.
func (f *file) part(offset, size uint64) ([]byte, bool) {
	if n := uint64(len(f.raw)); offset > n || size > n-offset {
		return nil, false
	}
	return f.raw[offset : offset+size : offset+size], true
}

// text returns the string at an offset of a table of strings.
func text(table string, at uint32) (string, bool) {
	if at == 0 && table == "" {
		return "", true
	}
	if uint64(at) >= uint64(len(table)) {
		return "", false
	}
	s := table[at:]
	n := strings.IndexByte(s, 0)
	if n < 0 {
		return "", false
	}
	return symname.Printable(s[:n]), true
}

func (f *file) readSections(l layout) error {
	word := l.word
	offset := f.word(f.raw[16+8+2*word:])
	tail := f.raw[l.header-6:]
	size, count, names := int(f.order.Uint16(tail)), uint64(f.order.Uint16(tail[2:])), uint64(f.order.Uint16(tail[4:]))
	if offset == 0 {
		return nil
	}
	if size != l.section {
		return fmt.Errorf("section headers of %d bytes", size)
	}
	first, ok := f.part(offset, uint64(l.section))
	if !ok {
		return errors.New("the section headers are cut off")
	}
	if count == 0 { // more than fit into the field
		count = f.word(first[8+3*word:])
	}
	if names == uint64(elf.SHN_XINDEX) {
		names = uint64(f.order.Uint32(first[8+4*word:]))
	}
	if count > uint64(len(f.raw))/uint64(l.section) {
		return errors.New("the section headers are cut off")
	}
	table, ok := f.part(offset, count*uint64(l.section))
	if !ok {
		return errors.New("the section headers are cut off")
	}
	f.sections = make([]section, count)
	nameAt := make([]uint32, count)
	for i := range f.sections {
		b, s := table[i*l.section:], &f.sections[i]
		nameAt[i] = f.order.Uint32(b)
		s.typ = elf.SectionType(f.order.Uint32(b[4:]))
		s.flags = elf.SectionFlag(f.word(b[8:]))
		s.size = f.word(b[8+3*word:])
		s.link, s.info = f.order.Uint32(b[8+4*word:]), f.order.Uint32(b[12+4*word:])
		s.align, s.entsize = f.word(b[16+4*word:]), f.word(b[16+5*word:])
		if s.typ == elf.SHT_NULL {
			s.size = 0
			continue
		}
		if s.size > math.MaxInt64/2 {
			return fmt.Errorf("section %d has %d bytes", i, s.size)
		}
		if s.typ != elf.SHT_NOBITS {
			if s.data, ok = f.part(f.word(b[8+2*word:]), s.size); !ok {
				return fmt.Errorf("section %d is cut off", i)
			}
		}
	}
	if names >= count {
		return errors.New("there are no names of sections")
	}
	f.names = int(names)
	strs := string(f.sections[names].data)
	for i := range f.sections {
		s := &f.sections[i]
		if s.typ == elf.SHT_NULL {
			continue
		}
		if s.name, ok = text(strs, nameAt[i]); !ok {
			return fmt.Errorf("section %d has no name", i)
		}
	}
	return nil
}

func (f *file) readSymbols(l layout) error {
	table, index := -1, []byte(nil)
	for i := range f.sections {
		switch f.sections[i].typ {
		case elf.SHT_SYMTAB:
			if table >= 0 {
				return errors.New("two symbol tables")
			}
			table = i
		case elf.SHT_SYMTAB_SHNDX:
			index = f.sections[i].data
		}
	}
	f.syms = make([]symbol, 1)
	if table < 0 {
		return nil
	}
	t := &f.sections[table]
	if int(t.link) >= len(f.sections) || len(t.data)%l.symbol != 0 {
		return errors.New("the symbol table is damaged")
	}
	names := string(f.sections[t.link].data)
	n := len(t.data) / l.symbol
	f.syms = make([]symbol, max(n, 1))
	for i := 1; i < n; i++ {
		b, s := t.data[i*l.symbol:], &f.syms[i]
		var shndx uint32
		if l.word == 4 {
			s.value, s.size = f.word(b[4:]), f.word(b[8:])
			s.info, s.other, shndx = b[12], b[13], uint32(f.order.Uint16(b[14:]))
		} else {
			s.info, s.other, shndx = b[4], b[5], uint32(f.order.Uint16(b[6:]))
			s.value, s.size = f.word(b[8:]), f.word(b[16:])
		}
		var ok bool
		if s.name, ok = text(names, f.order.Uint32(b)); !ok {
			return fmt.Errorf("symbol %d has no name", i)
		}
		switch k := elf.SectionIndex(shndx); {
		case k == elf.SHN_XINDEX:
			if len(index) < 4*i+4 {
				return fmt.Errorf("symbol %q has no section", s.name)
			}
			if shndx = f.order.Uint32(index[4*i:]); shndx == 0 {
				return fmt.Errorf("symbol %q has no section", s.name)
			}
			fallthrough
		case k < elf.SHN_LORESERVE:
			if uint64(shndx) >= uint64(len(f.sections)) {
				return fmt.Errorf("symbol %q is in section %d of %d", s.name, shndx, len(f.sections))
			}
			s.sec = int(shndx)
		case k == elf.SHN_ABS:
			s.sec = secAbsolute
		default:
			s.sec, s.reserved = secCommon, k
		}
		if s.sec > 0 && s.name != "" && s.typ() != elf.STT_SECTION {
			sec := &f.sections[s.sec]
			if s.local() {
				sec.locals = append(sec.locals, i)
			} else {
				sec.globals = append(sec.globals, i)
			}
		}
	}
	for i := range f.sections {
		slices.SortStableFunc(f.sections[i].globals, func(a, b int) int { return strings.Compare(f.syms[a].name, f.syms[b].name) })
	}
	return nil
}

// readGroup notes for each member of a section group its signature: the linker
// keeps one COMDAT group of each signature.
func (f *file) readGroup(s *section) error {
	b := s.data
	if len(b) < 4 || len(b)%4 != 0 || uint64(s.info) >= uint64(len(f.syms)) {
		return errors.New("bad section group")
	}
	signature := f.syms[s.info]
	comdat := f.order.Uint32(b)&grpComdat != 0
	name := signature.name
	if signature.typ() == elf.STT_SECTION && signature.sec > 0 {
		name = f.sections[signature.sec].name
	}
	if comdat && name == "" {
		return errors.New("a COMDAT group without a signature")
	}
	said := "group"
	if comdat {
		said = "comdat"
	}
	if !signature.local() {
		said += " " + name
	}
	for b = b[4:]; len(b) > 0; b = b[4:] {
		i := f.order.Uint32(b)
		if uint64(i) >= uint64(len(f.sections)) {
			return fmt.Errorf("section %d of %d", i, len(f.sections))
		}
		f.sections[i].group = said
		if comdat {
			f.sections[i].comdat = name
		}
	}
	return nil
}

func (f *file) readRelocs(s *section) error {
	if uint64(s.info) >= uint64(len(f.sections)) {
		return fmt.Errorf("relocations for section %d of %d", s.info, len(f.sections))
	}
	to := &f.sections[s.info]
	if !to.loaded() && !affectsLink(to) {
		return nil // nothing reads those of debug information
	}
	var err error
	if s.typ == shtCREL {
		to.relocs, err = readCREL(s.data, to.relocs, len(f.syms))
		return err
	}
	to.relocs, err = readRelocs(s.data, to.relocs, len(f.syms), f.class, f.order, s.typ == elf.SHT_RELA)
	return err
}

// readRelocs appends the relocations in b, a section of type SHT_RELA or SHT_REL.
func readRelocs(b []byte, to []reloc, syms int, class elf.Class, order binary.ByteOrder, rela bool) ([]reloc, error) {
	word := 8
	if class == elf.ELFCLASS32 {
		word = 4
	}
	size := 2 * word
	if rela {
		size += word
	}
	if len(b)%size != 0 {
		return nil, fmt.Errorf("%d bytes are no list of relocations", len(b))
	}
	to = slices.Grow(to, len(b)/size)
	for ; len(b) > 0; b = b[size:] {
		rel := reloc{rel: !rela}
		if word == 4 {
			info := order.Uint32(b[4:])
			rel.offset, rel.sym, rel.typ = uint64(order.Uint32(b)), info>>8, info&0xff
			if rela {
				rel.addend = int64(int32(order.Uint32(b[8:])))
			}
		} else {
			info := order.Uint64(b[8:])
			rel.offset, rel.sym, rel.typ = order.Uint64(b), uint32(info>>32), uint32(info)
			if rela {
				rel.addend = int64(order.Uint64(b[16:]))
			}
		}
		if uint64(rel.sym) >= uint64(syms) {
			return nil, fmt.Errorf("a relocation refers to symbol %d of %d", rel.sym, syms)
		}
		to = append(to, rel)
	}
	return to, nil
}

// readCREL appends the compact relocations in b. After a header (their number,
// whether they have addends, and how far offsets are shifted) each says by how
// much it differs from the one before: a byte with flags and the low bits of the
// offset, then what the flags announce, as LEB128.
func readCREL(b []byte, to []reloc, syms int) ([]reloc, error) {
	cut := errors.New("the compact relocations are cut off")
	unsigned := func() (uint64, bool) {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, false
		}
		b = b[n:]
		return v, true
	}
	signed := func() (int64, bool) {
		var v int64
		for shift := 0; shift < 70 && len(b) > 0; shift += 7 {
			c := b[0]
			b = b[1:]
			v |= int64(c&0x7f) << min(shift, 63)
			if c < 0x80 {
				if c&0x40 != 0 && shift < 57 {
					v |= -1 << (shift + 7)
				}
				return v, true
			}
		}
		return 0, false
	}
	header, ok := unsigned()
	if !ok || header/8 > uint64(len(b)) {
		return nil, cut
	}
	addends := header&4 != 0
	flags := 2
	if addends {
		flags = 3
	}
	var offset uint64
	rel := reloc{rel: !addends}
	for range header / 8 {
		if len(b) == 0 {
			return nil, cut
		}
		c := b[0]
		b = b[1:]
		offset += uint64(c >> flags)
		if c >= 0x80 {
			high, ok := unsigned()
			if !ok {
				return nil, cut
			}
			offset += high<<(7-flags) - 0x80>>flags
		}
		for bit, field := range []func(int64){
			func(d int64) { rel.sym += uint32(d) },
			func(d int64) { rel.typ += uint32(d) },
			func(d int64) { rel.addend += d },
		} {
			if bit < flags && c>>bit&1 != 0 {
				d, ok := signed()
				if !ok {
					return nil, cut
				}
				field(d)
			}
		}
		rel.offset = offset << (header & 3)
		if uint64(rel.sym) >= uint64(syms) {
			return nil, fmt.Errorf("a relocation refers to symbol %d of %d", rel.sym, syms)
		}
		to = append(to, rel)
	}
	return to, nil
}

// attributes is what holds for the object as a whole: machine, ABI flags,
// properties such as control-flow protection, whether it asks for an executable
// stack.
func (f *file) attributes() frame.Buffer {
	var h frame.Buffer
	stack, properties := "absent", []byte(nil)
	for i := range f.sections {
		switch s := &f.sections[i]; s.name {
		case ".note.GNU-stack":
			stack = fmt.Sprint(s.code())
		case ".note.gnu.property":
			properties = append(properties, s.data...)
		}
	}
	flagsAt := 48 // e_flags
	if f.class == elf.ELFCLASS32 {
		flagsAt = 36
	}
	abi := elf.OSABI(f.raw[elf.EI_OSABI])
	if abi == elf.ELFOSABI_LINUX { // says only that a GNU extension is in use
		abi = elf.ELFOSABI_NONE
	}
	h.Int(int(f.class))
	h.Int(int(f.raw[elf.EI_DATA]))
	h.Int(int(f.machine))
	h.Int(int(abi))
	h.Int(int(f.raw[elf.EI_ABIVERSION]))
	h.Uint(uint64(f.order.Uint32(f.raw[flagsAt:])))
	h.String(stack)
	h.Bytes(properties)
	return h
}

// ordinary are the standard names of sections (standardNames) with the flags that
// compilers give to them, and whether they are without content.
var ordinary = map[string]struct {
	flags elf.SectionFlag
	empty bool
}{
	".text": {flags: elf.SHF_EXECINSTR}, ".ltext": {flags: elf.SHF_EXECINSTR},
	".rodata": {}, ".rodata1": {}, ".lrodata": {}, ".srodata": {}, ".gcc_except_table": {},
	".data": {flags: elf.SHF_WRITE}, ".data1": {flags: elf.SHF_WRITE}, ".ldata": {flags: elf.SHF_WRITE}, ".sdata": {flags: elf.SHF_WRITE},
	".data.rel": {flags: elf.SHF_WRITE}, ".data.rel.ro": {flags: elf.SHF_WRITE},
	".bss": {elf.SHF_WRITE, true}, ".bss.rel.ro": {elf.SHF_WRITE, true}, ".lbss": {elf.SHF_WRITE, true}, ".sbss": {elf.SHF_WRITE, true},
	".tdata": {flags: elf.SHF_WRITE | elf.SHF_TLS}, ".tbss": {elf.SHF_WRITE | elf.SHF_TLS, true},
}

// ordinaryTypes are the types of sections that mean nothing for the rest of a file.
var ordinaryTypes = []elf.SectionType{
	elf.SHT_NULL, elf.SHT_PROGBITS, elf.SHT_SYMTAB, elf.SHT_STRTAB, elf.SHT_RELA, elf.SHT_REL, shtCREL, elf.SHT_NOTE, elf.SHT_NOBITS, elf.SHT_GROUP,
	elf.SHT_SYMTAB_SHNDX, elf.SHT_INIT_ARRAY, elf.SHT_FINI_ARRAY, elf.SHT_PREINIT_ARRAY, shtX86Unwind,
	// LLVM's, whose content is for linkers that order or fold, or for tools.
	shtLLVMLinkerOptions, shtLLVMDependentLibs, shtLLVMAddrsig, shtLLVMBBAddrMap, shtLLVMBBAddrMap0, shtLLVMOffloading, shtLLVMCallGraph,
	elf.SHT_GNU_ATTRIBUTES, shtSFrame, shtAttributes,
}

// unusual adds a component for what may change what a linker makes of the others, or
// whether it makes anything, reached or not: sections of types that aren't known, or with
// flags or an alignment that those of this name don't have (one that is writable and can be
// executed makes that of everything beside it); what can't be merged; relocations that
// may not fit; data without a type, which can't be copied; and numbers.
func (r *reader) unusual() {
	if l := r.file.unusual(); len(l) > 0 {
		h := frame.New("tasting unusual 1")
		h.Strings(l)
		r.out = append(r.out, &component{name: manifest.Unusual, linkage: manifest.Linkage_LINKAGE_LOCAL, hash: h.Sum128()})
	}
}

func (f *file) unusual() (list []string) {
	const known = elf.SHF_WRITE | elf.SHF_ALLOC | elf.SHF_EXECINSTR | elf.SHF_MERGE | elf.SHF_STRINGS | elf.SHF_INFO_LINK | elf.SHF_LINK_ORDER |
		elf.SHF_GROUP | elf.SHF_TLS | elf.SHF_COMPRESSED | shfGNURetain | shfX86Large | shfExclude
	for i := range f.sections {
		s := &f.sections[i]
		var relocs []string
		is := !slices.Contains(ordinaryTypes, s.typ) || s.flags&^known != 0 || s.align > 1<<12
		if s.loaded() && s.size > 0 {
			const access = elf.SHF_WRITE | elf.SHF_EXECINSTR | elf.SHF_TLS
			o, standard := ordinary[standardName(s.name)]
			is = is || s.flags&elf.SHF_WRITE != 0 && s.flags&elf.SHF_EXECINSTR != 0 ||
				standard && (s.flags&access != o.flags || o.empty && s.typ != elf.SHT_NOBITS) || s.badlyMerged()
			for _, r := range s.relocs {
				if f.machine == elf.EM_X86_64 && strange(s, r) {
					relocs = append(relocs, fmt.Sprint(" ", r.typ))
				}
			}
		}
		if is || len(relocs) > 0 {
			list = append(list, fmt.Sprintf("%s %#x %#x %d", s.name, uint32(s.typ), uint64(s.flags&^elf.SHF_GROUP), s.align)+strings.Join(relocs, ""))
		}
	}
	for i := range f.syms {
		switch s := &f.syms[i]; {
		case s.local():
		case s.sec == secAbsolute:
			list = append(list, fmt.Sprintf("%s = %#x", s.name, s.value))
		case visibility(s.other) == manifest.Visibility_VISIBILITY_HIDDEN || visibility(s.other) == manifest.Visibility_VISIBILITY_INTERNAL:
		case s.sec > 0 && s.typ() == elf.STT_NOTYPE && f.sections[s.sec].loaded() && f.sections[s.sec].flags&elf.SHF_EXECINSTR == 0:
			list = append(list, "without a type: "+s.name)
		case s.sec > 0 && s.typ() == elf.STT_OBJECT && s.size == 0:
			list = append(list, "without bytes: "+s.name) // no executable has a copy of it
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// badlyMerged tells whether a section is to be merged and some linker refuses it.
func (s *section) badlyMerged() bool {
	switch n := s.entsize; {
	case s.flags&elf.SHF_MERGE == 0 || n == 0:
		return false
	case s.flags&elf.SHF_WRITE != 0 || s.size%n != 0:
		return true
	default:
		return s.flags&elf.SHF_STRINGS != 0 && uint64(len(s.data)) >= n && slices.ContainsFunc(s.data[uint64(len(s.data))-n:], func(b byte) bool { return b != 0 })
	}
}

// strange tells whether linkers may refuse a relocation for x86-64 for what it is, or
// for the instruction that it is in: few addresses fit into a byte, and thread-local
// storage is found by the instructions of the psABI only.
func strange(s *section, r reloc) bool {
	// like tells whether the bytes in front of the place are those, and what is behind it
	// begins with one of others.
	like := func(before string, after ...string) bool {
		n := uint64(len(before))
		if r.offset < n || r.offset > uint64(len(s.data)) || uint64(len(s.data))-r.offset < 4 {
			return false
		}
		for i, want := range []byte(before) {
			got := s.data[r.offset-n+uint64(i)]
			ok := got == want
			switch want {
			case anyRegister:
				ok = got&0xc7 == 5
			case anyREX:
				ok = got&^4 == 0x48
			case movOrAdd:
				ok = got == 0x8b || got == 0x03
			}
			if !ok {
				return false
			}
		}
		rest := s.data[r.offset+4:]
		return len(after) == 0 || slices.ContainsFunc(after, func(a string) bool { return bytes.HasPrefix(rest, []byte(a)) })
	}
	switch elf.R_X86_64(r.typ) {
	case elf.R_X86_64_8, elf.R_X86_64_16, elf.R_X86_64_PC8, elf.R_X86_64_PC16:
		return true
	case elf.R_X86_64_TLSGD:
		return !like("\x66\x48\x8d\x3d", "\x66\x66\x48\xe8", "\x66\x48\xff\x15")
	case elf.R_X86_64_TLSLD:
		return !like("\x48\x8d\x3d", "\xe8", "\x67\xe8", "\xff\x15")
	case elf.R_X86_64_GOTTPOFF:
		return !like(string([]byte{anyREX, movOrAdd, anyRegister}))
	case elf.R_X86_64_GOTPC32_TLSDESC:
		return !like(string([]byte{anyREX, 0x8d, anyRegister}))
	case elf.R_X86_64_PC32, elf.R_X86_64_PLT32:
		return r.addend > 1<<30 || r.addend < -1<<30
	}
	return false
}

// In patterns of instructions, where they can't stand for themselves.
const anyREX, movOrAdd, anyRegister = 0, 1, 2
