package trace

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/nameset"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/symname"
)

// image is an ELF file of which code may be executed. Only what is needed is read, and names
// only at the end: files may be large, and a program waits meanwhile.
type image struct {
	file   io.ReaderAt
	size   int64
	soname string
	texts  []*text // loaded segments with code
	arch   *machine

	sections []elf.Section64
	names    int // of sections, the section with them
	symtab   []byte
	strtab   []byte
	// entries is how many functions have a breakpoint, unseen the bytes outside of all functions.
	entries, unseen int
	// debugs says why nothing that loads this file can run under a tracer, opaque why its
	// functions can't be known.
	debugs, opaque string
}

// text is a segment with code. All positions are offsets in the file, which are what a mapping has.
type text struct {
	offset  uint64
	address uint64          // as linked
	code    []byte          // as it is in the file
	armed   []byte          // with breakpoints
	own     map[uint64]bool // functions that begin with the same instruction
	counts  map[uint64]uint64
	// Entries until counts were last cleared, outside of intervals and in them.
	outside, inside map[uint64]uint64
}

const (
	symSize = 24
	// maxPart bounds what is read of a file at once.
	maxPart = 1 << 31
)

var (
	errNotELF  = errors.New("it is not an ELF file")
	errForeign = errors.New("it is for another kind of processor")
	errDamaged = errors.New("it is damaged")
)

// tracers are functions of programs that can't run under a tracer, and why.
var tracers = map[string]string{
	"ptrace":               "it traces processes itself",
	"__asan_init":          "its sanitizer looks for leaks by tracing the program itself",
	"__lsan_init":          "its sanitizer looks for leaks by tracing the program itself",
	"__lsan_do_leak_check": "its sanitizer looks for leaks by tracing the program itself",
	"__hwasan_init":        "its sanitizer looks for leaks by tracing the program itself",
}

// ownText are names by which programs find their own code, to read it.
var ownText = []string{"etext", "_etext", "__etext", "__executable_start"}

func (m *image) part(offset, size uint64) ([]byte, error) {
	if n := uint64(m.size); offset > n || size > n-offset || size > maxPart {
		return nil, errDamaged
	}
	b := make([]byte, size)
	if _, err := m.file.ReadAt(b, int64(offset)); err != nil {
		return nil, err
	}
	return b, nil
}

// depth is how much of a file is read.
type depth int

const (
	glance      depth = iota // whether it may be traced
	contents                 // also its code
	breakpoints              // also breakpoints
)

// openImage reads a file. Functions that count as entered get no breakpoints.
func openImage(file io.ReaderAt, size int64, arch *machine, d depth, entered nameset.Set) (*image, error) {
	m := &image{file: file, size: size, arch: arch}
	head, err := m.part(0, 64)
	if err != nil || !bytes.HasPrefix(head, []byte(elf.ELFMAG)) {
		return nil, errNotELF
	}
	if elf.Class(head[elf.EI_CLASS]) != elf.ELFCLASS64 || elf.Data(head[elf.EI_DATA]) != elf.ELFDATA2LSB {
		return nil, errForeign
	}
	var h elf.Header64
	_, _ = binary.Decode(head, binary.LittleEndian, &h)
	if elf.Machine(h.Machine) != arch.elf {
		return nil, errForeign
	}
	if err := m.readSegments(&h, d >= contents); err != nil {
		return nil, err
	}
	if err := m.readSections(&h); err != nil {
		return nil, err
	}
	if err := m.readSymbols(d == breakpoints); err != nil {
		return nil, err
	}
	if d == breakpoints && m.opaque == "" {
		m.arm(entered)
	}
	return m, nil
}

func (m *image) readSegments(h *elf.Header64, contents bool) error {
	if h.Phentsize != 56 {
		return errDamaged
	}
	b, err := m.part(h.Phoff, 56*uint64(h.Phnum))
	if err != nil {
		return err
	}
	for ; len(b) > 0; b = b[56:] {
		var p elf.Prog64
		_, _ = binary.Decode(b, binary.LittleEndian, &p)
		if elf.ProgType(p.Type) != elf.PT_LOAD || elf.ProgFlag(p.Flags)&elf.PF_X == 0 {
			continue
		}
		if elf.ProgFlag(p.Flags)&elf.PF_W != 0 {
			m.opaque = "its code is writable"
		}
		t := &text{offset: p.Off, address: p.Vaddr, own: map[uint64]bool{}, counts: map[uint64]uint64{}, outside: map[uint64]uint64{}, inside: map[uint64]uint64{}}
		if contents {
			if t.code, err = m.part(p.Off, p.Filesz); err != nil {
				return err
			}
		}
		m.texts = append(m.texts, t)
	}
	return nil
}

func (m *image) readSections(h *elf.Header64) error {
	if h.Shoff == 0 || h.Shnum == 0 {
		return nil
	}
	if h.Shentsize != 64 {
		return errDamaged
	}
	b, err := m.part(h.Shoff, 64*uint64(h.Shnum))
	if err != nil {
		return err
	}
	m.sections = make([]elf.Section64, h.Shnum)
	_, _ = binary.Decode(b, binary.LittleEndian, m.sections)
	m.names = int(h.Shstrndx)
	return m.readDynamic()
}

// nameSections returns the names of sections, empty ones if there are none.
func (m *image) nameSections() []string {
	names := make([]string, len(m.sections))
	if m.names < len(m.sections) {
		if strs, err := m.part(m.sections[m.names].Off, m.sections[m.names].Size); err == nil {
			for i, s := range m.sections {
				names[i] = stringAt(strs, uint64(s.Name))
			}
		}
	}
	return names
}

// stringAt returns a string of a table, or "".
func stringAt(table []byte, at uint64) string {
	if at >= uint64(len(table)) {
		return ""
	}
	n := bytes.IndexByte(table[at:], 0)
	if n < 0 {
		return ""
	}
	return string(table[at : at+uint64(n)])
}

func (m *image) readDynamic() error {
	for _, s := range m.sections {
		if elf.SectionType(s.Type) != elf.SHT_DYNAMIC || int(s.Link) >= len(m.sections) {
			continue
		}
		b, err := m.part(s.Off, s.Size)
		if err != nil {
			return err
		}
		for ; len(b) >= 16; b = b[16:] {
			tag, value := elf.DynTag(binary.LittleEndian.Uint64(b)), binary.LittleEndian.Uint64(b[8:])
			switch {
			case tag == elf.DT_NULL:
				return nil
			case tag == elf.DT_TEXTREL, tag == elf.DT_FLAGS && elf.DynFlag(value)&elf.DF_TEXTREL != 0:
				m.opaque = "its code is changed when it is loaded (text relocations): compile it with -fPIC"
			case tag == elf.DT_SONAME:
				l := m.sections[s.Link]
				strs, err := m.part(l.Off, l.Size)
				if err != nil {
					return err
				}
				m.soname = path.Base(stringAt(strs, value))
			}
		}
	}
	return nil
}

// readSymbols reads the symbol table, or for a file that isn't traced the dynamic one.
func (m *image) readSymbols(static bool) error {
	table := -1
	for i, s := range m.sections {
		switch elf.SectionType(s.Type) {
		case elf.SHT_SYMTAB:
			table = i
		case elf.SHT_DYNSYM:
			if table < 0 {
				table = i
			}
		}
	}
	if static && (table < 0 || elf.SectionType(m.sections[table].Type) != elf.SHT_SYMTAB) && m.opaque == "" {
		m.opaque = "it has no symbol table: don't strip it"
	}
	if table < 0 {
		return nil
	}
	t := m.sections[table]
	if t.Entsize != symSize || int(t.Link) >= len(m.sections) {
		return errDamaged
	}
	var err error
	if m.symtab, err = m.part(t.Off, t.Size/symSize*symSize); err != nil {
		return err
	}
	if m.strtab, err = m.part(m.sections[t.Link].Off, m.sections[t.Link].Size); err != nil {
		return err
	}
	found := m.revealing()
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if why := tracers[name]; why != "" {
			m.debugs = why
		} else if static && m.opaque == "" {
			m.opaque = fmt.Sprintf("it may read its own code, where %s is", name)
		}
	}
	return nil
}

// revealing returns the names of symbols that say how a file behaves, without versions.
func (m *image) revealing() map[string]bool {
	found := map[string]bool{}
	for b := m.symtab; len(b) > 0; b = b[symSize:] {
		at := uint64(binary.LittleEndian.Uint32(b))
		if at+2 > uint64(len(m.strtab)) {
			continue
		}
		// Most are skipped by their first bytes: they are C++'s.
		first, second := m.strtab[at], m.strtab[at+1]
		if first != 'p' && first != 'e' && first != '_' || first == '_' && second == 'Z' {
			continue
		}
		name, _, _ := strings.Cut(stringAt(m.strtab, at), "@")
		if _, ok := tracers[name]; ok || slices.Contains(ownText, name) {
			found[name] = true
		}
	}
	return found
}

// symbolNamed returns where in the code a symbol is, or nil.
func (m *image) symbolNamed(name string) (*text, uint64) {
	for b := m.symtab; len(b) > 0; b = b[symSize:] {
		if s := symbolAt(b); s.shndx != uint16(elf.SHN_UNDEF) && stringAt(m.strtab, uint64(s.name)) == name {
			return m.find(s.value)
		}
	}
	return nil, 0
}

// symbol is an entry of the symbol table.
type symbol struct {
	name  uint32
	info  byte
	shndx uint16
	value uint64
	size  uint64
}

func symbolAt(b []byte) symbol {
	_ = b[symSize-1]
	return symbol{binary.LittleEndian.Uint32(b), b[4], binary.LittleEndian.Uint16(b[6:]), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])}
}

func (s *symbol) function() bool {
	const ifunc = 10
	t := elf.SymType(s.info & 15)
	return (t == elf.STT_FUNC || t == ifunc) && s.shndx != uint16(elf.SHN_UNDEF)
}

// find returns the segment that an address as linked is in, and its place there.
func (m *image) find(address uint64) (*text, uint64) {
	for _, t := range m.texts {
		if at := address - t.address; at < uint64(len(t.code)) {
			return t, at
		}
	}
	return nil, 0
}

// arm makes the copies with breakpoints, and counts code that belongs to no function.
func (m *image) arm(entered nameset.Set) {
	cover := make([][]byte, len(m.texts)) // 1 where a function is
	for i, t := range m.texts {
		t.armed = slices.Clone(t.code)
		cover[i] = make([]byte, len(t.code))
	}
	code := make([]bool, len(m.sections))
	for i, s := range m.sections {
		const want = elf.SHF_ALLOC | elf.SHF_EXECINSTR
		code[i] = elf.SectionFlag(s.Flags)&want == want && elf.SectionType(s.Type) == elf.SHT_PROGBITS
	}
	var sizeless []symbol
	labels := map[uint64]bool{} // where a symbol is that isn't a function's
	trap := m.arch.trap
	spared := map[uint64]bool{} // of which one name is among those that count as entered
	if len(entered) > 0 {
		for b := m.symtab; len(b) > 0; b = b[symSize:] {
			if s := symbolAt(b); s.function() && m.among(entered, &s) {
				spared[s.value] = true
			}
		}
	}
	for b := m.symtab; len(b) > 0; b = b[symSize:] {
		s := symbolAt(b)
		if int(s.shndx) >= len(code) || !code[s.shndx] {
			continue
		}
		if !s.function() {
			if elf.SymType(s.info&15) == elf.STT_NOTYPE && !m.mapping(&s) {
				labels[s.value] = true
			}
			continue
		}
		for i, t := range m.texts {
			at := s.value - t.address
			if at >= uint64(len(t.code)) {
				continue
			}
			if n := uint64(len(trap)); uint64(len(t.code))-at >= n && m.arch.aligned(s.value) && !t.isArmed(at, trap) && !spared[s.value] {
				if bytes.Equal(t.code[at:at+n], trap) {
					t.own[at] = true
				}
				copy(t.armed[at:], trap)
				m.entries++
			}
			if s.size == 0 {
				sizeless = append(sizeless, s)
			}
			fill(cover[i][at:], s.size)
			break
		}
	}
	// A function without a size ends where the next symbol is.
	for _, s := range sizeless {
		for i, t := range m.texts {
			if at := s.value - t.address; at < uint64(len(t.code)) {
				c, n := cover[i][at:], 1
				for n < len(c) && c[n] == 0 && !labels[s.value+uint64(n)] {
					n++
				}
				fill(c, uint64(n))
			}
		}
	}
	m.countUnseen(cover)
}

// among tells whether a function, or one that it is a piece of, is among those that count as entered.
func (m *image) among(entered nameset.Set, s *symbol) bool {
	name := symname.Printable(stringAt(m.strtab, uint64(s.name)))
	base, ok := symname.PieceOf(name)
	return entered.Has(name) || ok && entered.Has(base)
}

// isArmed reports whether there is a breakpoint.
func (t *text) isArmed(at uint64, trap []byte) bool {
	n := uint64(len(trap))
	return at+n <= uint64(len(t.armed)) && bytes.Equal(t.armed[at:at+n], trap) && (!bytes.Equal(t.code[at:at+n], trap) || t.own[at])
}

// entered reports whether a breakpoint was met that a byte belongs to.
func (t *text) entered(at uint64, trap []byte) bool {
	n := uint64(len(trap))
	return t.counts[at-(at+t.address)%n] > 0
}

var ones = bytes.Repeat([]byte{1}, 4096)

func fill(b []byte, n uint64) {
	for b = b[:min(n, uint64(len(b)))]; len(b) > 0; {
		b = b[copy(b, ones):]
	}
}

// mapping reports whether it is a symbol that says only where code begins ($x).
func (m *image) mapping(s *symbol) bool {
	return m.arch.elf == elf.EM_AARCH64 && uint64(s.name) < uint64(len(m.strtab)) && m.strtab[s.name] == '$'
}

func (m *image) countUnseen(cover [][]byte) {
	names := m.nameSections()
	for i, s := range m.sections {
		if elf.SectionFlag(s.Flags)&elf.SHF_EXECINSTR == 0 || linkers(names[i]) {
			continue
		}
		for k, t := range m.texts {
			at := s.Addr - t.address
			if at >= uint64(len(t.code)) {
				continue
			}
			c := cover[k][:min(at+s.Size, uint64(len(t.code)))]
			for {
				n := bytes.IndexByte(c[at:], 0)
				if n < 0 {
					break
				}
				from := at + uint64(n)
				at = uint64(len(c))
				if n := bytes.IndexByte(c[from:], 1); n >= 0 {
					at = from + uint64(n)
				}
				if !m.arch.padding(t.code[from:at]) {
					m.unseen += int(at - from)
				}
			}
		}
	}
}

// linkers reports whether a linker makes up a section: it leads from one function to another.
func linkers(section string) bool {
	return strings.HasPrefix(section, ".plt") || section == ".iplt" || section == ".init" || section == ".fini"
}

// id identifies the file.
func (m *image) id() (string, error) {
	for _, s := range m.sections {
		if elf.SectionType(s.Type) != elf.SHT_NOTE {
			continue
		}
		b, err := m.part(s.Off, s.Size)
		if err != nil {
			return "", err
		}
		for len(b) >= 12 {
			name, desc := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
			typ := binary.LittleEndian.Uint32(b[8:])
			end := 12 + (name+3)&^3 + (desc+3)&^3
			if end > uint64(len(b)) {
				break
			}
			if typ == 3 && string(b[12:12+name]) == "GNU\x00" && desc > 0 {
				return "build-id:" + hex.EncodeToString(b[12+(name+3)&^3:][:desc]), nil
			}
			b = b[end:]
		}
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(m.file, 0, m.size)); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// executed names the functions that were entered, and their pieces.
func (m *image) executed() []Function {
	at := map[uint64]*Function{}
	for _, t := range m.texts {
		for off, n := range t.counts {
			a := t.address + off
			at[a] = &Function{Address: a, Count: n}
		}
	}
	names := map[string]bool{}
	m.functions(func(s *symbol) bool { return at[s.value] != nil }, func(s *symbol, name, unit string) {
		f := at[s.value]
		f.Symbols = append(f.Symbols, Symbol{name, unit})
		names[name] = true
	})
	// One round is enough: a piece is named after its function, not after another piece.
	entered := len(at)
	dotted := func(s *symbol) bool {
		name, _, _ := bytes.Cut(m.strtab[min(int(s.name), len(m.strtab)):], []byte{0})
		return bytes.IndexByte(name, '.') >= 0
	}
	m.functions(dotted, func(s *symbol, name, unit string) {
		if base, ok := symname.PieceOf(name); !ok || !names[base] || at[s.value] != nil && at[s.value].Count > 0 {
			return
		}
		if at[s.value] == nil {
			at[s.value] = &Function{Address: s.value}
		}
		at[s.value].Symbols = append(at[s.value].Symbols, Symbol{name, unit})
	})
	list := make([]Function, 0, max(entered, len(at)))
	for _, f := range at {
		list = append(list, *f)
	}
	return list
}

// idle notes of the names of all functions whether they have breakpoints and aren't among those that
// were executed: in this file and in those that were noted before.
func (m *image) idle(executed []Function, names map[string]bool) {
	at := map[uint64]bool{}
	for _, f := range executed {
		at[f.Address] = true
	}
	m.functions(func(*symbol) bool { return true }, func(s *symbol, name, _ string) {
		t, off := m.find(s.value)
		is := t.isArmed(off, m.arch.trap) && !at[s.value]
		if other, known := names[name]; known {
			is = is && other
		}
		names[name] = is
	})
}

// functions calls f for each function's symbol that is wanted.
func (m *image) functions(wanted func(s *symbol) bool, f func(s *symbol, name, unit string)) {
	unit := ""
	for b := m.symtab; len(b) > 0; b = b[symSize:] {
		s := symbolAt(b)
		if elf.SymType(s.info&15) == elf.STT_FILE {
			if unit = stringAt(m.strtab, uint64(s.name)); unit != "" {
				unit = symname.Printable(path.Base(unit))
			}
			continue
		}
		if !s.function() {
			continue
		}
		if t, _ := m.find(s.value); t == nil || !wanted(&s) {
			continue
		}
		of := ""
		if elf.SymBind(s.info>>4) == elf.STB_LOCAL {
			of = unit
		}
		name := symname.Printable(stringAt(m.strtab, uint64(s.name)))
		if name == "" {
			name = "0x" + strconv.FormatUint(s.value, 16)
		}
		f(&s, name, of)
	}
}

// openFile opens the image of a file.
func openFile(file string, arch *machine, d depth, entered nameset.Set) (*image, *os.File, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > math.MaxInt64/2) {
		err = errNotELF
	}
	var m *image
	if err == nil {
		m, err = openImage(f, info.Size(), arch, d, entered)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return m, f, nil
}
