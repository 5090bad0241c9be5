package objfile

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// Section is a loaded section of an object, and one component of its manifest.
// A common symbol (a tentative definition of C) counts as a section of its own.
type Section struct {
	// Name is that of the component: the global symbol if the section defines
	// exactly one, else the section's name; in an archive with the member's
	// name around it.
	Name string
	// Section is the name in the object, "COMMON" for a common symbol.
	Section string
	// Member is the archive member, empty for an object of its own.
	Member string
	// Symbols are all symbols with a name that are defined in the section,
	// local ones as well, sorted.
	Symbols []string
	// Linkage is the strongest of those of the symbols.
	Linkage manifest.Linkage
	// Root says why the section counts without a reference to it.
	Root string
	// Size in bytes.
	Size uint64
	// Hash is the component's local hash.
	Hash [16]byte
	// Refs are the references to symbols and other sections, in the order of
	// their places, without repetition. References to string literals are
	// left out: they are content.
	Refs []Ref

	globals []string
	links   []link
}

// Ref is a reference from a section.
type Ref struct {
	// Symbol is the symbol that is referred to. For a reference to a place in
	// a section it is the symbol that covers the place, global or local, and
	// empty if there is none.
	Symbol string
	// Section is the index of the section that defines it, among those
	// returned together, or -1 if the object doesn't define it.
	Section int
}

// link is a link of the manifest: to a section of the object, or, with section
// -1, to a symbol.
type link struct {
	section int
	symbol  string
}

// object is a relocatable ELF file.
type object struct {
	member   string
	sections []*Section
}

// ELF constants that debug/elf lacks.
const (
	shfGNURetain         = 0x200000
	shfExclude           = 0x80000000
	shtX86Unwind         = 0x70000001
	shtLLVMLinkerOptions = 0x6fff4c01
	shtLLVMDependentLibs = 0x6fff4c04
	shtCREL              = 0x40000014
	grpComdat            = 1
	stbGNUUnique         = elf.SymBind(10)
	sttGNUIFunc          = elf.SymType(10)
)

// reloc is a relocation of a section.
type reloc struct {
	offset uint64
	typ    uint32
	sym    uint32
	addend int64
	rel    bool // the addend is in the content
}

// reader holds what readObject knows while it reads.
type reader struct {
	*elf.File
	member string
	data   [][]byte       // content of sections that need it
	syms   []elf.Symbol   // syms[0] is the null symbol
	local  [][]elf.Symbol // by section: local symbols with a name
	global [][]elf.Symbol // by section: the others, sorted by name
	relocs [][]reloc      // by section, sorted by offset
	group  []string       // by section: what its COMDAT group says, or ""
	comdat []bool
	attrs  frame.Buffer // what holds for the whole object
	place  []int        // by ELF section: index in out, or -1
	out    []*Section
	outELF []int // by index in out: ELF section, or -1
	unwind map[int][]unwindEntry
	kept   map[int][]int // by ELF section: those that say that they belong to it (SHF_LINK_ORDER)
	// How many root sections of each name were met.
	rootCount map[string]int
	links     map[link]int // of the section at work: place among its links
	refs      map[Ref]bool
}

func readObject(b []byte, member string) (o *object, err error) {
	defer recoverMalformed(&err)
	f, err := openELF(b)
	if err != nil {
		return nil, err
	}
	if f.Type != elf.ET_REL {
		return nil, fmt.Errorf("this is an ELF file of type %v: want a relocatable object", f.Type)
	}
	if f.Machine == elf.EM_MIPS && f.Class == elf.ELFCLASS64 {
		return nil, errors.New("relocations of 64-bit MIPS objects aren't supported: analyze the source instead")
	}
	r := &reader{File: f, member: member, unwind: map[int][]unwindEntry{}, kept: map[int][]int{}, rootCount: map[string]int{}}
	if err := r.load(b); err != nil {
		return nil, fmt.Errorf("malformed ELF file: %w", err)
	}
	if err := r.checkLTO(); err != nil {
		return nil, err
	}
	r.choose()
	if err := r.readUnwind(); err != nil {
		return nil, err
	}
	for i, s := range r.out {
		if r.outELF[i] >= 0 {
			r.fill(i, s)
		}
	}
	r.commons()
	return &object{member, r.out}, nil
}

// load reads symbols, relocations, groups, contents and the object's
// attributes.
func (r *reader) load(b []byte) error {
	n := len(r.Sections)
	r.data = make([][]byte, n)
	r.relocs = make([][]reloc, n)
	r.group = make([]string, n)
	r.comdat = make([]bool, n)
	r.place = make([]int, n)
	syms, err := r.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return fmt.Errorf("symbols: %w", err)
	}
	r.syms = append(make([]elf.Symbol, 1, len(syms)+1), syms...)
	for _, s := range r.Sections {
		s.Name = printable(s.Name)
	}
	for i := range r.syms {
		s := &r.syms[i]
		s.Name = printable(s.Name)
		if s.Section == elf.SHN_XINDEX {
			return errors.New("the object has more than 65,000 sections, which isn't supported: split it")
		}
		if s.Section < elf.SHN_LORESERVE && int(s.Section) >= n {
			return fmt.Errorf("symbol %q is in section %d of %d", s.Name, s.Section, n)
		}
	}
	r.local = make([][]elf.Symbol, n)
	r.global = make([][]elf.Symbol, n)
	for _, s := range r.syms[1:] {
		switch {
		case s.Section >= elf.SHN_LORESERVE || s.Name == "" || elf.ST_TYPE(s.Info) == elf.STT_SECTION:
		case elf.ST_BIND(s.Info) == elf.STB_LOCAL:
			r.local[s.Section] = append(r.local[s.Section], s)
		default:
			r.global[s.Section] = append(r.global[s.Section], s)
		}
	}
	for _, l := range r.global {
		slices.SortStableFunc(l, func(a, b elf.Symbol) int { return strings.Compare(a.Name, b.Name) })
	}
	execStack := "absent"
	var properties []byte
	for i, s := range r.Sections {
		switch {
		case s.Type == elf.SHT_NULL:
			continue
		case s.Type == elf.SHT_REL || s.Type == elf.SHT_RELA || s.Type == shtCREL:
			if int(s.Info) >= n {
				return fmt.Errorf("relocations %s are for section %d of %d", s.Name, s.Info, n)
			}
			if s.Type == shtCREL {
				return fmt.Errorf("compact relocations (%s) aren't supported: compile without --crel", s.Name)
			}
			if err := r.readRelocs(s); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		case s.Type == elf.SHT_GROUP:
			if err := r.readGroup(s); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		case s.Name == ".note.GNU-stack":
			execStack = fmt.Sprint(s.Flags&elf.SHF_EXECINSTR != 0)
		}
		if s.Flags&elf.SHF_LINK_ORDER != 0 {
			r.kept[int(s.Link)] = append(r.kept[int(s.Link)], i)
		}
		if s.Type != elf.SHT_NOBITS && (s.Flags&elf.SHF_ALLOC != 0 || affectsLink(s)) {
			if r.data[i], err = s.Data(); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			if s.Name == ".note.gnu.property" {
				properties = append(properties, r.data[i]...)
			}
		}
	}
	for _, l := range r.relocs {
		slices.SortStableFunc(l, func(a, b reloc) int { return cmp.Compare(a.offset, b.offset) })
	}
	flagsAt := 48 // e_flags
	if r.Class == elf.ELFCLASS32 {
		flagsAt = 36
	}
	r.attrs.Int(int(r.Class))
	r.attrs.Int(int(r.Data))
	r.attrs.Int(int(r.Machine))
	abi := r.OSABI
	if abi == elf.ELFOSABI_LINUX { // says only that a GNU extension is in use
		abi = elf.ELFOSABI_NONE
	}
	r.attrs.Int(int(abi))
	r.attrs.Int(int(r.ABIVersion))
	r.attrs.Int(int(r.ByteOrder.Uint32(b[flagsAt:])))
	r.attrs.String(execStack)
	r.attrs.Bytes(properties)
	return nil
}

func (r *reader) readRelocs(s *elf.Section) error {
	b, err := s.Data()
	if err != nil {
		return err
	}
	word := 8
	if r.Class == elf.ELFCLASS32 {
		word = 4
	}
	size := 2 * word
	if s.Type == elf.SHT_RELA {
		size += word
	}
	if len(b)%size != 0 {
		return fmt.Errorf("%d bytes are no list of relocations", len(b))
	}
	get := func(b []byte) uint64 {
		if word == 4 {
			return uint64(r.ByteOrder.Uint32(b))
		}
		return r.ByteOrder.Uint64(b)
	}
	for ; len(b) > 0; b = b[size:] {
		info := get(b[word:])
		rel := reloc{offset: get(b), rel: s.Type == elf.SHT_REL}
		if word == 4 {
			rel.sym, rel.typ = uint32(info>>8), uint32(info&0xff)
		} else {
			rel.sym, rel.typ = uint32(info>>32), uint32(info)
		}
		if !rel.rel {
			rel.addend = int64(get(b[2*word:]))
			if word == 4 {
				rel.addend = int64(int32(rel.addend))
			}
		}
		if int(rel.sym) >= len(r.syms) {
			return fmt.Errorf("symbol %d of %d", rel.sym, len(r.syms))
		}
		r.relocs[s.Info] = append(r.relocs[s.Info], rel)
	}
	return nil
}

// readGroup notes for each member of a section group its signature: the linker
// keeps one group of each signature.
func (r *reader) readGroup(s *elf.Section) error {
	b, err := s.Data()
	if err != nil {
		return err
	}
	if len(b) < 4 || len(b)%4 != 0 || int(s.Info) >= len(r.syms) {
		return errors.New("bad section group")
	}
	sig := r.syms[s.Info]
	text := "group"
	if r.ByteOrder.Uint32(b)&grpComdat != 0 {
		text = "comdat"
	}
	comdat := text == "comdat"
	if elf.ST_BIND(sig.Info) != elf.STB_LOCAL {
		text += " " + sig.Name
	}
	for b = b[4:]; len(b) > 0; b = b[4:] {
		i := r.ByteOrder.Uint32(b)
		if int(i) >= len(r.Sections) {
			return fmt.Errorf("section %d of %d", i, len(r.Sections))
		}
		r.group[i] = text
		r.comdat[i] = comdat
	}
	return nil
}

// affectsLink says whether a section that isn't loaded tells the linker
// something that changes the program.
func affectsLink(s *elf.Section) bool {
	return s.Type == shtLLVMLinkerOptions || s.Type == shtLLVMDependentLibs || isLTO(s)
}

func isLTO(s *elf.Section) bool {
	return strings.HasPrefix(s.Name, ".gnu.lto_") || s.Name == ".llvm.lto"
}

// checkLTO refuses objects that hold no machine code beside the intermediate
// form. If there is both, each says what the code does.
func (r *reader) checkLTO() error {
	if !slices.ContainsFunc(r.Sections, isLTO) {
		return nil
	}
	for _, s := range r.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Size > 0 && !strings.HasPrefix(s.Name, ".note") {
			return nil
		}
	}
	return errLTO
}

// choose decides which sections are components.
func (r *reader) choose() {
	referred := make([]bool, len(r.Sections))
	for _, l := range r.relocs {
		for _, rel := range l {
			if s := r.syms[rel.sym].Section; s < elf.SHN_LORESERVE {
				referred[s] = true
			}
		}
	}
	for i, s := range r.Sections {
		r.place[i] = -1
		loaded := s.Flags&elf.SHF_ALLOC != 0 && uint64(s.Flags)&shfExclude == 0
		switch {
		case affectsLink(s):
		case !loaded, s.Name == ".note.gnu.property", isUnwind(s), r.isLiterals(i):
			continue
		case s.Size == 0 && !referred[i] && len(r.local[i])+len(r.global[i]) == 0:
			continue
		}
		r.place[i] = len(r.out)
		r.outELF = append(r.outELF, i)
		r.out = append(r.out, &Section{Section: s.Name, Member: r.member, Size: s.Size, Root: rootReason(s)})
	}
}

func isUnwind(s *elf.Section) bool {
	return s.Name == ".eh_frame" || s.Type == shtX86Unwind
}

// isLiterals says whether section i holds constants that the linker merges with
// equal ones: its entries are part of whoever refers to them.
func (r *reader) isLiterals(i int) bool {
	s := r.Sections[i]
	return s.Flags&elf.SHF_MERGE != 0 && s.Flags&elf.SHF_WRITE == 0 && s.Type == elf.SHT_PROGBITS && s.Entsize > 0 &&
		standardName(s.Name) != "" && len(r.relocs[i]) == 0 && len(r.global[i]) == 0
}

// standardNames are the names, or their beginnings up to a dot, that compilers
// give to sections which count only if something refers to them.
var standardNames = []string{
	".text", ".rodata", ".rodata1", ".data.rel.ro", ".data.rel", ".data", ".data1", ".bss", ".tdata", ".tbss", ".tm_clone_table",
	".ltext", ".lrodata", ".ldata", ".lbss", ".sdata", ".sbss", ".sdata2", ".sbss2", ".srodata",
	".gcc_except_table", ".ARM.exidx", ".ARM.extab", ".gnu.linkonce", ".opd", ".toc", ".got2", ".stapsdt.base",
}

// standardName returns the standard name that name belongs to, or "".
func standardName(name string) string {
	for _, s := range standardNames {
		if rest, ok := strings.CutPrefix(name, s); ok && (rest == "" || rest[0] == '.') {
			return s
		}
	}
	return ""
}

func rootReason(s *elf.Section) string {
	switch {
	case affectsLink(s):
		return "section " + s.Name
	case uint64(s.Flags)&shfGNURetain != 0:
		return "retained section " + s.Name
	case s.Type == elf.SHT_INIT_ARRAY || s.Type == elf.SHT_FINI_ARRAY || s.Type == elf.SHT_PREINIT_ARRAY:
		return "section " + s.Name
	case standardName(s.Name) != "":
		return ""
	case isIdentifier(s.Name):
		return "linker set " + s.Name
	}
	return "section " + s.Name
}

func isIdentifier(s string) bool {
	for i, c := range []byte(s) {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// fill completes component i of the output.
func (r *reader) fill(i int, s *Section) {
	k := r.outELF[i]
	es := r.Sections[k]
	r.links, r.refs = map[link]int{}, map[Ref]bool{}
	h := frame.New("tasting section 1")
	h.Bytes(r.attrs)
	// A standard name tells the function or variable, whose name enters by its
	// symbol if it is global, and can't matter if it is local.
	name := standardName(es.Name)
	if name == "" {
		name = es.Name
	}
	if isLTO(es) {
		name = name[:strings.LastIndexByte(name, '.')] // a random suffix
	}
	h.String(name)
	h.Uint(uint64(es.Type))
	h.Uint(uint64(es.Flags &^ (elf.SHF_GROUP | elf.SHF_INFO_LINK | elf.SHF_LINK_ORDER)))
	h.Uint(es.Addralign)
	h.Uint(es.Entsize)
	h.Uint(es.Size)
	h.Bytes(r.data[k])
	h.String(r.group[k])
	if s.Root != "" {
		// Initialisers of one name run in the order of their sections.
		h.Int(r.rootCount[s.Section])
		r.rootCount[s.Section]++
	}

	globals := r.global[k]
	for _, sym := range append(slices.Clone(r.local[k]), globals...) {
		s.Symbols = append(s.Symbols, sym.Name)
	}
	slices.Sort(s.Symbols)
	s.Linkage = manifest.Linkage_LINKAGE_LOCAL
	h.Int(len(globals))
	for _, sym := range globals {
		s.globals = append(s.globals, sym.Name)
		h.String(sym.Name)
		h.Uint(sym.Value)
		h.Uint(sym.Size)
		h.Int(int(sym.Info))
		h.Int(int(sym.Other))
		weak := r.comdat[k] || elf.ST_BIND(sym.Info) == elf.STB_WEAK || elf.ST_BIND(sym.Info) == stbGNUUnique
		if !weak {
			s.Linkage = manifest.Linkage_LINKAGE_EXTERNAL
		} else if s.Linkage == manifest.Linkage_LINKAGE_LOCAL {
			s.Linkage = manifest.Linkage_LINKAGE_WEAK
		}
	}
	s.Name = s.Section
	if len(s.globals) == 1 {
		s.Name = s.globals[0]
	} else if r.member != "" {
		s.Name = r.member + "(" + s.Section + ")"
	} else if s.Name == "" {
		s.Name = "(section without a name)"
	}

	r.hashRelocs(&h, i, r.relocs[k])
	entries := r.unwind[i]
	h.Int(len(entries))
	for _, e := range entries {
		h.Bytes(e.bytes)
		r.hashRelocs(&h, i, e.relocs)
	}
	// Sections that are kept because of this one.
	for _, j := range r.kept[k] {
		if r.place[j] >= 0 {
			h.Int(r.addLink(s, link{section: r.place[j]}))
		}
	}
	s.Hash = [16]byte(h.Sum128())
}

// addLink returns the place of l among the links of s.
func (r *reader) addLink(s *Section, l link) int {
	k, ok := r.links[l]
	if !ok {
		k = len(s.links)
		r.links[l] = k
		s.links = append(s.links, l)
	}
	return k
}

func (r *reader) addRef(s *Section, ref Ref) {
	if !r.refs[ref] {
		r.refs[ref] = true
		s.Refs = append(s.Refs, ref)
	}
}

// hashRelocs appends relocations with the identity of what they refer to, and
// adds the links.
func (r *reader) hashRelocs(h *frame.Buffer, i int, relocs []reloc) {
	s := r.out[i]
	h.Int(len(relocs))
	for _, rel := range relocs {
		h.Uint(rel.offset)
		h.Uint(uint64(rel.typ))
		sym := r.syms[rel.sym]
		bind, typ := elf.ST_BIND(sym.Info), elf.ST_TYPE(sym.Info)
		target := sym.Value + uint64(rel.addend)
		switch {
		case rel.sym == 0:
			h.String("none")
			h.Uint(target)
		case bind != elf.STB_LOCAL:
			h.String("global")
			h.String(sym.Name)
			h.Uint(uint64(rel.addend))
			h.Int(int(elf.ST_VISIBILITY(sym.Other)))
			l := link{-1, sym.Name}
			at := -1
			if sym.Section == elf.SHN_UNDEF && bind == elf.STB_WEAK {
				h.Int(1) // may stay undefined
			} else {
				h.Int(0)
			}
			if sym.Section > elf.SHN_UNDEF && sym.Section < elf.SHN_LORESERVE {
				at = r.place[sym.Section]
				// A link to the only symbol of a section is a link to the
				// section.
				if at >= 0 && len(r.global[sym.Section]) == 1 {
					l = link{section: at}
				}
			}
			h.Int(r.addLink(s, l))
			r.addRef(s, Ref{sym.Name, at})
			if sym.Section == elf.SHN_UNDEF && bind == elf.STB_WEAK {
				r.addLink(s, link{-1, manifest.WeakReference})
			}
		case sym.Section >= elf.SHN_LORESERVE: // absolute
			h.String("absolute")
			h.Uint(target)
		case r.place[sym.Section] >= 0:
			h.String("section")
			h.Uint(target)
			switch typ {
			case elf.STT_TLS, sttGNUIFunc:
				h.Int(int(typ))
			default:
				h.Int(0)
			}
			at := r.place[sym.Section]
			h.Int(r.addLink(s, link{section: at}))
			r.addRef(s, Ref{r.symbolAt(sym, rel), at})
		case r.isLiterals(int(sym.Section)):
			r.hashLiteral(h, sym, rel)
		default: // debug information and the like
			h.String("other")
			h.String(r.Sections[sym.Section].Name)
			h.Uint(target)
		}
	}
}

// hashLiteral appends the content of the literal that rel refers to: the whole
// entry, and the place in it. If the place can't be told for sure, the whole
// section stands for it.
func (r *reader) hashLiteral(h *frame.Buffer, sym elf.Symbol, rel reloc) {
	k := int(sym.Section)
	s, data := r.Sections[k], r.data[k]
	at, addend := sym.Value, uint64(rel.addend)
	exact := !rel.rel
	if elf.ST_TYPE(sym.Info) == elf.STT_SECTION {
		// The addend of a relative relocation also holds the distance from
		// the place to the end of the instruction.
		exact = exact && r.Machine == elf.EM_X86_64 && isAbsolute(rel.typ)
		at, addend = sym.Value+addend, 0
	}
	if begin, end, ok := entry(data, at, s.Entsize, s.Flags&elf.SHF_STRINGS != 0); ok && exact {
		h.String("literal")
		h.Bytes(data[begin:end])
		h.Uint(at - begin)
	} else {
		h.String("literals")
		h.Bytes(data)
		h.Uint(at)
	}
	h.Uint(addend)
	h.Uint(uint64(s.Flags &^ elf.SHF_GROUP))
	h.Uint(s.Entsize)
	h.Uint(s.Addralign)
}

// isAbsolute says whether an x86-64 relocation stores an address, so that its
// addend is an offset and nothing else.
func isAbsolute(typ uint32) bool {
	switch elf.R_X86_64(typ) {
	case elf.R_X86_64_64, elf.R_X86_64_32, elf.R_X86_64_32S:
		return true
	}
	return false
}

// entry finds the entry of a section of mergeable constants that contains at.
func entry(data []byte, at, size uint64, isString bool) (begin, end uint64, ok bool) {
	n := uint64(len(data))
	if at >= n || size == 0 || size > n {
		return 0, 0, false
	}
	if !isString {
		begin = at - at%size
		return begin, begin + size, begin+size <= n
	}
	zero := make([]byte, size)
	for end = 0; end+size <= n; {
		begin = end
		for end+size <= n && !bytes.Equal(data[end:end+size], zero) {
			end += size
		}
		if end+size > n {
			return 0, 0, false // not terminated
		}
		end += size
		if at < end {
			return begin, end, true
		}
	}
	return 0, 0, false
}

// symbolAt returns the name of the symbol that covers what a relocation
// against a local symbol refers to. For a section symbol the place is a guess
// on machines with relative addends: good enough for checks and explanations.
func (r *reader) symbolAt(sym elf.Symbol, rel reloc) string {
	if sym.Name != "" && elf.ST_TYPE(sym.Info) != elf.STT_SECTION {
		return sym.Name
	}
	at := int64(sym.Value) + rel.addend
	if r.Machine == elf.EM_X86_64 && !isAbsolute(rel.typ) {
		at += 4
	}
	name, start := "", int64(-1)
	for _, c := range append(slices.Clone(r.local[sym.Section]), r.global[sym.Section]...) {
		if v := int64(c.Value); v <= max(at, 0) && v > start {
			name, start = c.Name, v
		}
	}
	return name
}

// commons adds a component for each common or absolute global symbol.
func (r *reader) commons() {
	for _, sym := range r.syms[1:] {
		if elf.ST_BIND(sym.Info) == elf.STB_LOCAL || sym.Name == "" || sym.Name == "__gnu_lto_slim" {
			continue
		}
		name, linkage := "COMMON", manifest.Linkage_LINKAGE_WEAK
		switch {
		case sym.Section == elf.SHN_UNDEF || sym.Section < elf.SHN_LORESERVE && r.place[sym.Section] >= 0:
			continue
		case sym.Section == elf.SHN_ABS:
			name, linkage = "ABSOLUTE", manifest.Linkage_LINKAGE_EXTERNAL
			if elf.ST_BIND(sym.Info) == elf.STB_WEAK {
				linkage = manifest.Linkage_LINKAGE_WEAK
			}
		case sym.Section < elf.SHN_LORESERVE:
			name, linkage = r.Sections[sym.Section].Name, manifest.Linkage_LINKAGE_EXTERNAL
		}
		h := frame.New("tasting symbol 1")
		h.Bytes(r.attrs)
		h.String(name)
		h.String(sym.Name)
		h.Uint(sym.Value) // of a common symbol: the alignment
		h.Uint(sym.Size)
		h.Int(int(sym.Info))
		h.Int(int(sym.Other))
		r.outELF = append(r.outELF, -1)
		r.out = append(r.out, &Section{
			Name: sym.Name, Section: name, Member: r.member, Symbols: []string{sym.Name}, Linkage: linkage, Size: sym.Size,
			Hash: [16]byte(h.Sum128()), globals: []string{sym.Name},
		})
	}
}
