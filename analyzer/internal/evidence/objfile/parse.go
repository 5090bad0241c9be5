package objfile

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/symname"
)

// ELF constants that debug/elf lacks.
const (
	shfGNURetain         = 0x200000
	shfExclude           = 0x80000000
	shtX86Unwind         = 0x70000001
	shtLLVMLinkerOptions = 0x6fff4c01
	shtLLVMDependentLibs = 0x6fff4c04
	shfX86Large          = 0x10000000
	shtLLVMAddrsig       = 0x6fff4c03
	shtLLVMCallGraph     = 0x6fff4c09
	grpComdat            = 1
	stbGNUUnique         = elf.SymBind(10)
)

// Values of symbol.sec that are no section.
const (
	secUndefined = 0
	secAbsolute  = -1
	secCommon    = -2 // or another section that only the linker knows
)

// file is a parsed relocatable object for x86-64. parse has checked each offset and index in its
// headers, so later phases index without asking.
type file struct {
	raw      []byte
	sections []section
	names    int             // e_shstrndx
	syms     []symbol        // syms[0] is the null symbol
	defined  map[string]bool // see defines
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
	group           string  // "comdat" or "group" and the signature if that is global, or ""
	comdat          string  // the signature of its COMDAT group, or ""
	locals, globals []int   // indices of symbols with a name; globals sorted by name
}

// loaded reports whether the section is part of the linked file.
func (s *section) loaded() bool {
	return s.flags&elf.SHF_ALLOC != 0 && uint64(s.flags)&shfExclude == 0
}

// executable reports whether the section holds instructions.
func (s *section) executable() bool { return s.flags&elf.SHF_EXECINSTR != 0 }

type symbol struct {
	name        string
	info, other byte
	sec         int
	reserved    elf.SectionIndex // the index that sec == secCommon stands for
	value, size uint64
}

func (s *symbol) bind() elf.SymBind { return elf.ST_BIND(s.info) }

func (s *symbol) typ() elf.SymType { return elf.ST_TYPE(s.info) }

func (s *symbol) local() bool { return s.bind() == elf.STB_LOCAL }

// reloc is an entry of a SHT_RELA section.
type reloc struct {
	offset uint64
	addend int64
	typ    elf.R_X86_64
	sym    uint32
}

// Sizes of the structures of 64-bit ELF.
const headerSize, sectionSize, symbolSize, relocSize = 64, 64, 24, 24

var order = binary.LittleEndian

// unusualError is the reason why an object is identified by its content.
type unusualError string

func (u unusualError) Error() string { return string(u) }

// parse reads sections, symbols, groups and relocations. (debug/elf doesn't read relocations and
// reserved section indices, and is slower.)
func parse(b []byte) (*file, error) {
	if len(b) < headerSize || !isELF(b) {
		return nil, errors.New("the file is cut off")
	}
	machine := elf.Machine(order.Uint16(b[18:]))
	if elf.Class(b[elf.EI_CLASS]) != elf.ELFCLASS64 || elf.Data(b[elf.EI_DATA]) != elf.ELFDATA2LSB || machine != elf.EM_X86_64 {
		return nil, unusualError("it isn't for x86-64")
	}
	f := &file{raw: b}
	if t := elf.Type(order.Uint16(b[16:])); t != elf.ET_REL {
		return nil, fmt.Errorf("this is an ELF file of type %v: want a relocatable object", t)
	}
	if err := f.readSections(); err != nil {
		return nil, err
	}
	if err := f.readSymbols(); err != nil {
		return nil, err
	}
	for i := range f.sections {
		s := &f.sections[i]
		var err error
		switch s.typ {
		case elf.SHT_RELA:
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

// slice returns size bytes of the file from offset.
func (f *file) slice(offset, size uint64) ([]byte, bool) {
	if n := uint64(len(f.raw)); offset > n || size > n-offset {
		return nil, false
	}
	return f.raw[offset : offset+size : offset+size], true
}

// stringAt returns the string at an offset of a string table.
func stringAt(table string, at uint32) (string, bool) {
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

// readSections reads the section headers (gABI 4.8).
func (f *file) readSections() error {
	offset := order.Uint64(f.raw[40:])
	size, count, names := int(order.Uint16(f.raw[58:])), uint64(order.Uint16(f.raw[60:])), uint64(order.Uint16(f.raw[62:]))
	if offset == 0 {
		return nil
	}
	if size != sectionSize {
		return fmt.Errorf("section headers of %d bytes", size)
	}
	first, ok := f.slice(offset, sectionSize)
	if ok && count == 0 { // more sections than e_shnum can hold
		count = order.Uint64(first[32:])
	}
	if ok && names == uint64(elf.SHN_XINDEX) {
		names = uint64(order.Uint32(first[40:]))
	}
	table, whole := f.slice(offset, min(count, uint64(len(f.raw)))*sectionSize)
	if !ok || !whole {
		return errors.New("the section headers are cut off")
	}
	f.sections = make([]section, count)
	nameAt := make([]uint32, count)
	for i := range f.sections {
		b, s := table[i*sectionSize:], &f.sections[i]
		nameAt[i] = order.Uint32(b)
		s.typ = elf.SectionType(order.Uint32(b[4:]))
		s.flags = elf.SectionFlag(order.Uint64(b[8:]))
		s.size = order.Uint64(b[32:])
		s.link, s.info = order.Uint32(b[40:]), order.Uint32(b[44:])
		s.align, s.entsize = order.Uint64(b[48:]), order.Uint64(b[56:])
		if s.typ == elf.SHT_NULL {
			s.size = 0
			continue
		}
		if s.size > math.MaxInt64/2 {
			return fmt.Errorf("section %d has %d bytes", i, s.size)
		}
		if s.typ != elf.SHT_NOBITS {
			if s.data, ok = f.slice(order.Uint64(b[24:]), s.size); !ok {
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
		if s.name, ok = stringAt(strs, nameAt[i]); !ok {
			return fmt.Errorf("section %d has no name", i)
		}
	}
	return nil
}

// readSymbols reads the symbol table (gABI 4.18).
func (f *file) readSymbols() error {
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
	if int(t.link) >= len(f.sections) || len(t.data)%symbolSize != 0 {
		return errors.New("the symbol table is damaged")
	}
	names := string(f.sections[t.link].data)
	n := len(t.data) / symbolSize
	f.syms = make([]symbol, max(n, 1))
	for i := 1; i < n; i++ {
		b, s := t.data[i*symbolSize:], &f.syms[i]
		s.info, s.other = b[4], b[5]
		s.value, s.size = order.Uint64(b[8:]), order.Uint64(b[16:])
		shndx := uint32(order.Uint16(b[6:]))
		var ok bool
		if s.name, ok = stringAt(names, order.Uint32(b)); !ok {
			return fmt.Errorf("symbol %d has no name", i)
		}
		switch k := elf.SectionIndex(shndx); {
		case k == elf.SHN_XINDEX:
			if len(index) < 4*i+4 || order.Uint32(index[4*i:]) == 0 {
				return fmt.Errorf("symbol %q has no section", s.name)
			}
			shndx = order.Uint32(index[4*i:])
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

// readGroup stores the group of each member of a SHT_GROUP section. A linker keeps one COMDAT group
// of each signature.
func (f *file) readGroup(s *section) error {
	b := s.data
	if len(b) < 4 || len(b)%4 != 0 || uint64(s.info) >= uint64(len(f.syms)) {
		return errors.New("bad section group")
	}
	signature := f.syms[s.info]
	comdat := order.Uint32(b)&grpComdat != 0
	name := signature.name
	if signature.typ() == elf.STT_SECTION && signature.sec > 0 {
		name = f.sections[signature.sec].name
	}
	if comdat && name == "" {
		return errors.New("a COMDAT group without a signature")
	}
	group := "group"
	if comdat {
		group = "comdat"
	}
	if !signature.local() {
		group += " " + name
	}
	for b = b[4:]; len(b) > 0; b = b[4:] {
		i := order.Uint32(b)
		if uint64(i) >= uint64(len(f.sections)) {
			return fmt.Errorf("section %d of %d", i, len(f.sections))
		}
		f.sections[i].group = group
		if comdat {
			f.sections[i].comdat = name
		}
	}
	return nil
}

// readRelocs appends the entries of a SHT_RELA section to the section that they apply to.
func (f *file) readRelocs(s *section) error {
	if uint64(s.info) >= uint64(len(f.sections)) {
		return fmt.Errorf("relocations for section %d of %d", s.info, len(f.sections))
	}
	to := &f.sections[s.info]
	if !to.loaded() && !affectsLink(to) {
		return nil // debug information is hashed as raw bytes
	}
	if len(s.data)%relocSize != 0 {
		return fmt.Errorf("%d bytes are no list of relocations", len(s.data))
	}
	to.relocs = slices.Grow(to.relocs, len(s.data)/relocSize)
	for b := s.data; len(b) > 0; b = b[relocSize:] {
		rel := reloc{offset: order.Uint64(b), typ: elf.R_X86_64(order.Uint32(b[8:])), sym: order.Uint32(b[12:]), addend: int64(order.Uint64(b[16:]))}
		if uint64(rel.sym) >= uint64(len(f.syms)) {
			return fmt.Errorf("a relocation refers to symbol %d of %d", rel.sym, len(f.syms))
		}
		to.relocs = append(to.relocs, rel)
	}
	return nil
}
