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

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
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
	sttGNUIFunc          = elf.SymType(10)
)

// Values of symbol.sec that are no section.
const (
	secUndefined = 0
	secAbsolute  = -1
	secCommon    = -2 // or another section that only the linker knows
)

// file is a relocatable object for x86-64. Everything that a header says was checked
// against the size of the file: later code indexes without asking.
type file struct {
	raw      []byte
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
	typ    elf.R_X86_64
	sym    uint32
}

// Sizes of the structures of 64-bit ELF.
const headerSize, sectionSize, symbolSize, relocSize = 64, 64, 24, 24

var order = binary.LittleEndian

// unusual is why an object isn't one that is taken apart.
type unusual string

func (u unusual) Error() string { return string(u) }

// readFile parses a relocatable object: sections, symbols, groups and
// relocations. (debug/elf neither knows the relocations of an object nor many
// sections, and takes longer.)
func readFile(b []byte) (*file, error) {
	if len(b) < headerSize || !isELF(b) {
		return nil, errors.New("the file is cut off")
	}
	machine := elf.Machine(order.Uint16(b[18:]))
	if elf.Class(b[elf.EI_CLASS]) != elf.ELFCLASS64 || elf.Data(b[elf.EI_DATA]) != elf.ELFDATA2LSB || machine != elf.EM_X86_64 {
		return nil, unusual("it isn't for x86-64")
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

func (f *file) readSections() error {
	offset := order.Uint64(f.raw[40:])
	size, count, names := int(order.Uint16(f.raw[58:])), uint64(order.Uint16(f.raw[60:])), uint64(order.Uint16(f.raw[62:]))
	if offset == 0 {
		return nil
	}
	if size != sectionSize {
		return fmt.Errorf("section headers of %d bytes", size)
	}
	first, ok := f.part(offset, sectionSize)
	if !ok {
		return errors.New("the section headers are cut off")
	}
	if count == 0 { // more than fit into the field
		count = order.Uint64(first[32:])
	}
	if names == uint64(elf.SHN_XINDEX) {
		names = uint64(order.Uint32(first[40:]))
	}
	if count > uint64(len(f.raw))/sectionSize {
		return errors.New("the section headers are cut off")
	}
	table, ok := f.part(offset, count*sectionSize)
	if !ok {
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
			if s.data, ok = f.part(order.Uint64(b[24:]), s.size); !ok {
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
		if s.name, ok = text(names, order.Uint32(b)); !ok {
			return fmt.Errorf("symbol %d has no name", i)
		}
		switch k := elf.SectionIndex(shndx); {
		case k == elf.SHN_XINDEX:
			if len(index) < 4*i+4 {
				return fmt.Errorf("symbol %q has no section", s.name)
			}
			if shndx = order.Uint32(index[4*i:]); shndx == 0 {
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
	comdat := order.Uint32(b)&grpComdat != 0
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
		i := order.Uint32(b)
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

// attributes is what holds for the object as a whole: ABI flags,
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
	abi := elf.OSABI(f.raw[elf.EI_OSABI])
	if abi == elf.ELFOSABI_LINUX { // says only that a GNU extension is in use
		abi = elf.ELFOSABI_NONE
	}
	h.Int(int(abi))
	h.Int(int(f.raw[elf.EI_ABIVERSION]))
	h.Uint(uint64(order.Uint32(f.raw[48:])))
	h.String(stack)
	h.Bytes(properties)
	return h
}
