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
	"unsafe"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/nameset"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/symname"
)

// image is an ELF file with code that may be executed. It is read as far as needed, and names
// only at the end: files may be large, and the program waits meanwhile.
type image struct {
	file   io.ReaderAt
	size   int64
	soname string
	texts  []*text // loaded segments with code
	arch   *machine

	elf    *elf.File
	symtab []symbol
	strtab []byte
	// entries is how many functions have a breakpoint, unseen the bytes outside of all functions.
	entries, unseen int
	// debugs is why a program that loads this file can't run under a tracer, opaque why its
	// functions can't be known.
	debugs, opaque string
}

// text is a segment with code. All positions are offsets in the file, which are what a mapping has.
type text struct {
	offset  uint64
	address uint64          // as linked
	code    []byte          // as it is in the file
	armed   []byte          // with breakpoints
	cover   []byte          // 1 where a function is; only while breakpoints are made
	own     map[uint64]bool // functions that begin with the same instruction
	counts  map[uint64]uint64
	// Entries until counts were last cleared, outside of intervals and in them.
	outside, inside map[uint64]uint64
	// Functions that tell test cases apart, and the case in which a function was first entered (Cases).
	markers map[uint64]string
	first   map[uint64]int
}

const (
	symSize = 24
	// maxPart bounds the bytes of a file that are read at once.
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
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errNotELF, err)
	}
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB || f.Machine != arch.elf {
		return nil, errForeign
	}
	m := &image{file: file, size: size, elf: f, arch: arch}
	if err := m.readSegments(d >= contents); err != nil {
		return nil, err
	}
	if err := m.readDynamic(); err != nil {
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

func (m *image) readSegments(contents bool) (err error) {
	for _, p := range m.elf.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X == 0 {
			continue
		}
		if p.Flags&elf.PF_W != 0 {
			m.opaque = "its code is writable"
		}
		t := &text{offset: p.Off, address: p.Vaddr, own: map[uint64]bool{}, counts: map[uint64]uint64{}, outside: map[uint64]uint64{}, inside: map[uint64]uint64{}, markers: map[uint64]string{}, first: map[uint64]int{}}
		if contents {
			if t.code, err = m.part(p.Off, p.Filesz); err != nil {
				return err
			}
		}
		m.texts = append(m.texts, t)
	}
	return nil
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
	relocations, err := m.elf.DynValue(elf.DT_TEXTREL)
	flags, err2 := m.elf.DynValue(elf.DT_FLAGS)
	sonames, err3 := m.elf.DynString(elf.DT_SONAME)
	if len(relocations) > 0 || slices.ContainsFunc(flags, func(f uint64) bool { return elf.DynFlag(f)&elf.DF_TEXTREL != 0 }) {
		m.opaque = "its code is changed when it is loaded (text relocations): compile it with -fPIC"
	}
	if len(sonames) > 0 {
		m.soname = path.Base(sonames[0])
	}
	return errors.Join(err, err2, err3)
}

// readSymbols reads the symbol table, or for a file that isn't traced the dynamic one.
func (m *image) readSymbols(static bool) error {
	table := m.elf.SectionByType(elf.SHT_SYMTAB)
	if static && table == nil && m.opaque == "" {
		m.opaque = "it has no symbol table: don't strip it"
	}
	if table == nil {
		table = m.elf.SectionByType(elf.SHT_DYNSYM)
	}
	if table == nil {
		return nil
	}
	if table.Entsize != symSize || int(table.Link) >= len(m.elf.Sections) {
		return errDamaged
	}
	b, err := table.Data()
	if err != nil {
		return err
	}
	m.symtab = unsafe.Slice((*symbol)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/symSize) // both are little-endian
	if m.strtab, err = m.elf.Sections[table.Link].Data(); err != nil {
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
	for _, s := range m.symtab {
		at := uint64(s.Name)
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
	for _, s := range m.symtab {
		if s.Shndx != uint16(elf.SHN_UNDEF) && stringAt(m.strtab, uint64(s.Name)) == name {
			return m.find(s.Value)
		}
	}
	return nil, 0
}

// symbol is an entry of the symbol table.
type symbol elf.Sym64

func (s *symbol) function() bool {
	const ifunc = 10
	t := elf.SymType(s.Info & 15)
	return (t == elf.STT_FUNC || t == ifunc) && s.Shndx != uint16(elf.SHN_UNDEF)
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
	for _, t := range m.texts {
		t.armed, t.cover = slices.Clone(t.code), make([]byte, len(t.code))
	}
	code := make([]bool, len(m.elf.Sections))
	for i, s := range m.elf.Sections {
		const want = elf.SHF_ALLOC | elf.SHF_EXECINSTR
		code[i] = s.Flags&want == want && s.Type == elf.SHT_PROGBITS
	}
	var sizeless []*symbol
	labels := map[uint64]bool{} // where a symbol is that isn't a function's
	locals := false             // whether a function is local; "strip -x" leaves none
	trap := m.arch.trap
	spared := map[uint64]bool{} // addresses of functions of which isSpared reports true for a name
	if len(entered) > 0 {
		for i := range m.symtab {
			if s := &m.symtab[i]; s.function() && m.isSpared(entered, s) {
				spared[s.Value] = true
			}
		}
	}
	for i := range m.symtab {
		s := &m.symtab[i]
		if int(s.Shndx) >= len(code) || !code[s.Shndx] {
			continue
		}
		if !s.function() {
			if elf.SymType(s.Info&15) == elf.STT_NOTYPE && !m.mapping(s) {
				labels[s.Value] = true
			}
			continue
		}
		t, at := m.find(s.Value)
		if t == nil {
			continue
		}
		locals = locals || elf.SymBind(s.Info>>4) == elf.STB_LOCAL
		marker := m.marker(s)
		if marker != "" {
			t.markers[at] = marker
		}
		if n := uint64(len(trap)); uint64(len(t.code))-at >= n && m.arch.aligned(s.Value) && !t.isArmed(at, trap) && (!spared[s.Value] || marker != "") {
			if bytes.Equal(t.code[at:at+n], trap) {
				t.own[at] = true
			}
			copy(t.armed[at:], trap)
			m.entries++
		}
		if s.Size == 0 {
			sizeless = append(sizeless, s)
		}
		fill(t.cover[at:], s.Size)
	}
	// A function without a size ends where the next symbol is.
	for _, s := range sizeless {
		t, at := m.find(s.Value)
		c, n := t.cover[at:], 1
		for n < len(c) && c[n] == 0 && !labels[s.Value+uint64(n)] {
			n++
		}
		fill(c, uint64(n))
	}
	m.countUnseen()
	if m.unseen > 0 && !locals {
		m.opaque = fmt.Sprintf("%d bytes of its code belong to no function with a symbol, and it has no symbols of local functions: don't strip it", m.unseen)
	}
	for _, t := range m.texts {
		t.cover = nil
	}
}

// marker returns the name of a function that tells test cases apart, or "".
func (m *image) marker(s *symbol) string {
	at := uint64(s.Name)
	if at >= uint64(len(m.strtab)) || !bytes.HasPrefix(m.strtab[at:], []byte("_ZN7testing")) { // most, quickly
		return ""
	}
	name := stringAt(m.strtab, at)
	if name == caseBegins || name == caseEnds || symname.TestCase(name) != "" {
		return name
	}
	return ""
}

// isSpared reports whether a function, or the one that it is a piece of, gets no breakpoint.
func (m *image) isSpared(entered nameset.Set, s *symbol) bool {
	name := symname.Printable(stringAt(m.strtab, uint64(s.Name)))
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
	return m.arch.elf == elf.EM_AARCH64 && uint64(s.Name) < uint64(len(m.strtab)) && m.strtab[s.Name] == '$'
}

func (m *image) countUnseen() {
	for _, s := range m.elf.Sections {
		if s.Flags&elf.SHF_EXECINSTR == 0 || linkers(s.Name) {
			continue
		}
		t, at := m.find(s.Addr)
		if t == nil {
			continue
		}
		c := t.cover[:min(at+s.Size, uint64(len(t.code)))]
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

// linkers reports whether a linker makes up a section: it leads from one function to another.
func linkers(section string) bool {
	return strings.HasPrefix(section, ".plt") || section == ".iplt" || section == ".init" || section == ".fini"
}

// id identifies the file.
func (m *image) id() (string, error) {
	if s := m.elf.Section(".note.gnu.build-id"); s != nil && s.Type == elf.SHT_NOTE {
		b, err := s.Data()
		if err != nil {
			return "", err
		}
		// The length of the name, that of the ID, NT_GNU_BUILD_ID, and the name.
		if len(b) > 16 && b[4] > 0 && string(b[8:16]) == "\x03\x00\x00\x00GNU\x00" {
			return "build-id:" + hex.EncodeToString(b[16:][:min(int(binary.LittleEndian.Uint32(b[4:])), len(b)-16)]), nil
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
	m.functions(func(s *symbol) bool { return at[s.Value] != nil }, func(s *symbol, name, unit string) {
		f := at[s.Value]
		f.Symbols = append(f.Symbols, Symbol{name, unit})
		names[name] = true
	})
	// One round is enough: a piece is named after its function, not after another piece.
	entered := len(at)
	dotted := func(s *symbol) bool {
		name, _, _ := bytes.Cut(m.strtab[min(int(s.Name), len(m.strtab)):], []byte{0})
		return bytes.IndexByte(name, '.') >= 0
	}
	m.functions(dotted, func(s *symbol, name, unit string) {
		if base, ok := symname.PieceOf(name); !ok || !names[base] || at[s.Value] != nil && at[s.Value].Count > 0 {
			return
		}
		if at[s.Value] == nil {
			at[s.Value] = &Function{Address: s.Value}
		}
		at[s.Value].Symbols = append(at[s.Value].Symbols, Symbol{name, unit})
	})
	list := make([]Function, 0, max(entered, len(at)))
	for _, f := range at {
		list = append(list, *f)
	}
	return list
}

// never is the number of a test case in which what wasn't executed is first entered.
const never = math.MaxInt

// idle adds the names of all functions to names, with the number of the test case in which one of that name was first
// entered, in this file and in those before. It is 0 if it was entered elsewhere, or without a breakpoint.
func (m *image) idle(executed []Function, names map[string]int) {
	at := map[uint64]bool{}
	for _, f := range executed {
		at[f.Address] = true
	}
	m.functions(func(*symbol) bool { return true }, func(s *symbol, name, _ string) {
		t, off := m.find(s.Value)
		n := never
		if _, isPiece := symname.PieceOf(name); at[s.Value] && isPiece || !t.isArmed(off, m.arch.trap) {
			n = 0
		} else if at[s.Value] {
			n = t.first[off]
		}
		if other, known := names[name]; known {
			n = min(n, other)
		}
		names[name] = n
	})
}

// functions calls f for each function's symbol that is wanted.
func (m *image) functions(wanted func(s *symbol) bool, f func(s *symbol, name, unit string)) {
	unit := ""
	for i := range m.symtab {
		s := &m.symtab[i]
		if elf.SymType(s.Info&15) == elf.STT_FILE {
			if unit = stringAt(m.strtab, uint64(s.Name)); unit != "" {
				unit = symname.Printable(path.Base(unit))
			}
			continue
		}
		if !s.function() {
			continue
		}
		if t, _ := m.find(s.Value); t == nil || !wanted(s) {
			continue
		}
		of := ""
		if elf.SymBind(s.Info>>4) == elf.STB_LOCAL {
			of = unit
		}
		name := symname.Printable(stringAt(m.strtab, uint64(s.Name)))
		if name == "" {
			name = "0x" + strconv.FormatUint(s.Value, 16)
		}
		f(s, name, of)
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
