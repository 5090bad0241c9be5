package objfile

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/symname"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// unusualReason returns why an object isn't ordinary, as gcc and clang make them for x86-64, or "". It is ordinary if
// each section and each global symbol is.
func (f *file) unusualReason() string {
	for k := range f.sections {
		if why := f.ordinarySection(k); why != "" {
			return fmt.Sprintf("section %s: %s", f.sections[k].name, why)
		}
	}
	for i := range f.syms {
		if why := f.ordinarySymbol(&f.syms[i]); why != "" {
			return fmt.Sprintf("symbol %s: %s", symname.Printable(f.syms[i].name), why)
		}
	}
	return ""
}

// ordinarySection returns why section k isn't ordinary, or "". An ordinary one has
//
//   - a type, flags and an alignment of those below,
//   - if it is loaded, a name that compilers give to sections with these flags: a standard one, alone or
//     with that of its function or variable (.text.hot.f, .rodata.str1.1), that of a note, unwind table or
//     list of initialisers, or an identifier, which is a root for its bounds (__start_NAME),
//   - constants that linkers can merge one by one, if it is mergeable,
//   - relocations of those below, TLS code sequences of the psABI, and no references to local symbols of
//     another COMDAT group.
//
// If it isn't loaded, it is for debuggers or linkers. A linker may lay out any other section in another
// way, or refuse it.
func (f *file) ordinarySection(k int) string {
	s := &f.sections[k]
	const known = elf.SHF_WRITE | elf.SHF_ALLOC | elf.SHF_EXECINSTR | elf.SHF_MERGE | elf.SHF_STRINGS | elf.SHF_INFO_LINK | elf.SHF_LINK_ORDER |
		elf.SHF_GROUP | elf.SHF_TLS | elf.SHF_COMPRESSED | shfGNURetain | shfX86Large | shfExclude
	switch {
	case !slices.Contains(ordinaryTypes, s.typ):
		return fmt.Sprintf("its type %#x isn't known", uint32(s.typ))
	case s.flags&^known != 0:
		return fmt.Sprintf("its flags %#x aren't known", uint64(s.flags&^known))
	case s.flags&elf.SHF_COMPRESSED != 0 && s.flags&elf.SHF_ALLOC != 0:
		return "it is loaded and compressed"
	case s.align > 1<<12:
		return fmt.Sprintf("it is aligned to %d bytes", s.align)
	case s.flags&elf.SHF_ALLOC == 0:
		if s.typ == elf.SHT_PROGBITS && s.size > 0 && !ownSection(s.name) {
			return "it isn't loaded, and for no tool that is known"
		}
		return ""
	case s.size == 0 && len(s.locals)+len(s.globals) == 0:
		return ""
	}
	if why := f.ordinaryName(k); why != "" {
		return why
	}
	for i := range s.relocs {
		rel := &s.relocs[i]
		far := rel.addend > 1<<30 || rel.addend < -1<<30
		switch {
		case !slices.Contains(ordinaryRelocs, rel.typ):
			return fmt.Sprintf("it has a relocation of type %v", rel.typ)
		case far && (rel.typ == elf.R_X86_64_PC32 || rel.typ == elf.R_X86_64_PLT32):
			return "it has a relocation that may not fit"
		case !isOrdinaryTLS(s, rel):
			return "it finds thread-local variables in another way than the psABI says"
		}
		if why := f.ordinaryTarget(k, &f.syms[rel.sym]); why != "" {
			return why
		}
	}
	return ""
}

// moduleGroup matches the signatures of COMDAT groups that only one object has: clang's address sanitizer makes
// one for each local variable, with a hash of all exported names.
var moduleGroup = lazyregexp.New(`\.[0-9a-f]{32}$`)

// ordinaryTarget returns why section k may not refer to a symbol, or "". If a linker keeps the COMDAT group
// of another object, it refuses references to local symbols of this one. See link-broken/comdat-local.
func (f *file) ordinaryTarget(k int, sym *symbol) string {
	s := &f.sections[k]
	if sym.sec <= 0 || !sym.local() || s.flags&elf.SHF_LINK_ORDER != 0 || f.isUnwind(k) || standardName(s.name) == ".gcc_except_table" {
		return ""
	}
	if group := f.sections[sym.sec].comdat; group != "" && group != s.comdat && !moduleGroup.MatchString(group) {
		return fmt.Sprintf("it refers to a local symbol of the section group %s, which a linker may drop", symname.Printable(group))
	}
	return ""
}

// ordinaryName returns why compilers don't give a loaded section its name, or why it can't be merged. See
// link-ordered/data-set-c.
func (f *file) ordinaryName(k int) string {
	s := &f.sections[k]
	const access = elf.SHF_WRITE | elf.SHF_EXECINSTR | elf.SHF_TLS
	flags, name := s.flags&access, standardName(s.name)
	o, standard := standardSections[name]
	switch {
	case s.flags&elf.SHF_LINK_ORDER != 0 && !standard && !f.isUnwind(k) && s.name != "asan_globals" && !strings.HasPrefix(s.name, "__sancov_"):
		return "it is in the order of other sections" // see link-lookup/init-axo and link-lookup/init-array-o
	case standard && s.size > 0 && (flags != o.flags || o.empty != (s.typ == elf.SHT_NOBITS)):
		return "it has other flags than compilers give it"
	case standard && !f.namedByCompiler(k):
		return "compilers don't give it that name"
	case standard:
	case s.typ == elf.SHT_NOTE && strings.HasPrefix(s.name, ".note."), f.isUnwind(k):
		if flags != 0 {
			return "it has other flags than compilers give it"
		}
	case isInitArray(s):
		if base, _, _ := strings.Cut(strings.TrimPrefix(s.name, "."), "."); flags != elf.SHF_WRITE || base != "init_array" && base != "fini_array" && base != "preinit_array" {
			return "it has other flags than compilers give it"
		}
	case s.name == ".init" || s.name == ".fini": // a part of _init and _fini, which run it: a root. See code-attr/section-init-code and link-order/init-section-units
		if flags != elf.SHF_EXECINSTR || s.typ != elf.SHT_PROGBITS {
			return "it has other flags than compilers give it"
		}
	case !isIdentifier(s.name):
		return "its name isn't known"
	case flags&elf.SHF_WRITE != 0 && flags&elf.SHF_EXECINSTR != 0:
		return "it has code that can be written"
	}
	if s.flags&elf.SHF_MERGE != 0 && s.entsize > 0 && (s.flags&elf.SHF_WRITE != 0 || s.size%s.entsize != 0 || f.isScattered(k)) {
		return "its constants can't be merged one by one"
	}
	return ""
}

// isScattered reports whether a linker may separate the literals that a symbol of section k covers, because it
// merges each with an equal one. LLVM has a section .rodata.cst4 for constants and puts a table named
// cst4 into it (see code-torn/cst4-extern); assembly may have several strings behind a label (see
// code-torn/string-label). A string without an end isn't mergeable either.
func (f *file) isScattered(k int) bool {
	s := &f.sections[k]
	table := func(i int) bool {
		sym := &f.syms[i]
		if s.flags&elf.SHF_STRINGS == 0 {
			return sym.size > s.entsize
		}
		if sym.typ() == elf.STT_NOTYPE && sym.size == 0 {
			return !strings.HasPrefix(sym.name, ".L") // no compiler's
		}
		_, end, ok := literalAt(s.data, sym.value, s.entsize, true)
		return !ok || sym.size > end-sym.value
	}
	if s.flags&elf.SHF_STRINGS != 0 && s.size > 0 {
		if _, _, ok := literalAt(s.data, s.size-s.entsize, s.entsize, true); !ok {
			return true
		}
	}
	return slices.ContainsFunc(s.locals, table) || slices.ContainsFunc(s.globals, table)
}

// ordinarySymbol returns why a symbol isn't ordinary, or "". Linkers may refuse to copy a variable without a
// type or without bytes (see link-unreached/copy-of-nothing), and an absolute symbol is in no section.
func (f *file) ordinarySymbol(s *symbol) string {
	v := elf.ST_VISIBILITY(s.other)
	switch {
	case s.local() || s.name == "__gnu_lto_slim":
	case s.sec == secAbsolute:
		return "it is a number"
	case s.sec == secCommon && s.reserved != elf.SHN_COMMON:
		return "it is in a section that isn't known"
	case v == elf.STV_HIDDEN || v == elf.STV_INTERNAL || s.sec <= 0:
	case s.typ() == elf.STT_NOTYPE && f.sections[s.sec].loaded() && !f.sections[s.sec].executable():
		return "it is data without a type"
	case s.typ() == elf.STT_OBJECT && s.size == 0:
		return "it is data without bytes"
	}
	return ""
}

var ordinaryTypes = []elf.SectionType{
	elf.SHT_NULL, elf.SHT_PROGBITS, elf.SHT_NOBITS, elf.SHT_SYMTAB, elf.SHT_SYMTAB_SHNDX, elf.SHT_STRTAB, elf.SHT_RELA, elf.SHT_NOTE, elf.SHT_GROUP,
	elf.SHT_INIT_ARRAY, elf.SHT_FINI_ARRAY, elf.SHT_PREINIT_ARRAY, shtX86Unwind,
	shtLLVMLinkerOptions, shtLLVMDependentLibs, shtLLVMAddrsig, shtLLVMCallGraph,
}

var ordinaryRelocs = []elf.R_X86_64{
	elf.R_X86_64_NONE, elf.R_X86_64_64, elf.R_X86_64_PC32, elf.R_X86_64_PLT32, elf.R_X86_64_32, elf.R_X86_64_32S, elf.R_X86_64_PC64,
	elf.R_X86_64_GOTPCREL, elf.R_X86_64_GOTPCRELX, elf.R_X86_64_REX_GOTPCRELX,
	elf.R_X86_64_TLSGD, elf.R_X86_64_TLSLD, elf.R_X86_64_DTPOFF32, elf.R_X86_64_DTPOFF64, elf.R_X86_64_GOTTPOFF, elf.R_X86_64_TPOFF32, elf.R_X86_64_TPOFF64,
	elf.R_X86_64_GOTPC32_TLSDESC, elf.R_X86_64_TLSDESC_CALL,
	// Of the medium and large code models.
	elf.R_X86_64_GOTOFF64, elf.R_X86_64_GOTPC32, elf.R_X86_64_GOTPC64, elf.R_X86_64_GOT64, elf.R_X86_64_GOTPCREL64, elf.R_X86_64_PLTOFF64,
}

// standardSections are the names, or their beginnings up to a dot, of sections that only matter if something
// refers to them, with the flags that compilers give them, and whether they are SHT_NOBITS.
var standardSections = map[string]struct {
	flags elf.SectionFlag
	empty bool
}{
	".text": {flags: elf.SHF_EXECINSTR}, ".ltext": {flags: elf.SHF_EXECINSTR},
	".rodata": {}, ".lrodata": {}, ".gcc_except_table": {},
	".data": {flags: elf.SHF_WRITE}, ".ldata": {flags: elf.SHF_WRITE},
	".data.rel": {flags: elf.SHF_WRITE}, ".data.rel.ro": {flags: elf.SHF_WRITE},
	".bss": {elf.SHF_WRITE, true}, ".bss.rel.ro": {elf.SHF_WRITE, true}, ".lbss": {elf.SHF_WRITE, true},
	".tdata": {flags: elf.SHF_WRITE | elf.SHF_TLS}, ".tbss": {elf.SHF_WRITE | elf.SHF_TLS, true},
}

// standardName returns the longest standard name that equals name, or is the part of it in front of a dot,
// or "".
func standardName(name string) string {
	for at := len(name); at > 0; at = strings.LastIndexByte(name[:at], '.') {
		if _, ok := standardSections[name[:at]]; ok {
			return name[:at]
		}
	}
	return ""
}

// sectionWords are words that compilers put behind a standard name, alone or in front of the name of a
// function or variable.
var sectionWords = map[string]map[string]bool{
	".text": words.Set("startup exit unlikely hot unknown split"), ".ltext": words.Set("startup exit unlikely hot unknown split"),
	".ldata": words.Set("rel ro local"), ".data.rel": words.Set("local"), ".data.rel.ro": words.Set("local"),
}

// namedByCompiler reports whether a compiler may have given section k its name, which begins with a standard
// name. Programmers give such names, too: a linker puts sections of one name next to each other, so a program can walk
// from the first to the last. See link-ordered/data-set-one-unit.
func (f *file) namedByCompiler(k int) bool {
	s := &f.sections[k]
	name := standardName(s.name)
	rest := s.name[len(name):]
	symbols := slices.Concat(s.globals, s.locals)
	isObject := func(i int) bool { return f.syms[i].typ() == elf.STT_OBJECT }
	if name == ".gcc_except_table" && slices.ContainsFunc(symbols, isObject) {
		return false // see link-ordered/set-handlers
	}
	// The section of a variable has its name, any other one that of a function.
	variable := s.flags&elf.SHF_WRITE != 0 && !strings.HasPrefix(name, ".data.rel.ro") || rest != "" && slices.ContainsFunc(symbols, isObject)
	isFor := func(name string) bool {
		if !variable {
			return f.defines(name)
		}
		return slices.ContainsFunc(symbols, func(i int) bool { return f.syms[i].name == name })
	}
	for rest != "" {
		word := rest[1:]
		merged := word
		if s.flags&elf.SHF_MERGE != 0 {
			merged = withoutMerged(word)
		}
		if merged == "" && (s.executable() || word != "") || strings.HasPrefix(word, ".L") || isFor(word) || isFor(merged) {
			return true
		}
		word, _, _ = strings.Cut(word, ".")
		if !sectionWords[name][word] {
			return false
		}
		rest = rest[1+len(word):]
	}
	return true
}

// withoutMerged returns a name without the suffix for sections of literals ("str1.8", "cst16").
func withoutMerged(name string) string {
	i := max(strings.LastIndex(name, "str"), strings.LastIndex(name, "cst"))
	if i < 0 || i > 0 && name[i-1] != '.' || name[i+3:] == "" || strings.Trim(name[i+3:], ".0123456789") != "" {
		return name
	}
	return name[:max(i-1, 0)]
}

// defines reports whether there is a symbol of that name in a section.
func (f *file) defines(name string) bool {
	if f.defined == nil {
		f.defined = map[string]bool{}
		for i := range f.syms {
			if f.syms[i].sec > 0 {
				f.defined[f.syms[i].name] = true
			}
		}
	}
	return f.defined[name]
}

// ownSection reports whether an unloaded section is one that compilers and assemblers make for debuggers,
// linkers and themselves. See link-besides/nonalloc-own.
func ownSection(name string) bool {
	return name == ".comment" || name == ".note.GNU-stack" || name == ".gnu_debuglink" || slices.ContainsFunc([]string{".debug_", ".zdebug_", ".gnu.debuglto_", ".llvm", "__llvm_cov", ".stab", ".ctf", ".BTF", ".GCC.command.line", ".gdb_index", ".pseudo_probe"},
		func(s string) bool { return strings.HasPrefix(name, s) })
}

// isOrdinaryTLS reports whether a relocation isn't for TLS, or is in a code sequence of the psABI, which
// linkers rewrite. See link-unreached/tls-sequence.
func isOrdinaryTLS(s *section, rel *reloc) bool {
	var before [4]byte
	n := min(rel.offset, 4)
	if end := uint64(len(s.data)); end < 4 || rel.offset > end-4 {
		return s.data == nil
	}
	copy(before[4-n:], s.data[rel.offset-n:])
	behind := func(l ...string) bool {
		return slices.ContainsFunc(l, func(x string) bool { return bytes.HasPrefix(s.data[rel.offset+4:], []byte(x)) })
	}
	wide, op, relative := before[1]&^4 == 0x48, before[2], before[3]&0xc7 == 5
	switch rel.typ {
	case elf.R_X86_64_TLSGD:
		return string(before[:]) == "\x66\x48\x8d\x3d" && behind("\x66\x66\x48\xe8", "\x66\x48\xff\x15")
	case elf.R_X86_64_TLSLD:
		return string(before[1:]) == "\x48\x8d\x3d" && behind("\xe8", "\x67\xe8", "\xff\x15")
	case elf.R_X86_64_GOTTPOFF:
		return wide && (op == 0x8b || op == 0x03) && relative
	case elf.R_X86_64_GOTPC32_TLSDESC:
		return wide && op == 0x8d && relative
	}
	return true
}

// byContent is the function of that name for an object that was parsed.
func (f *file) byContent(member, why string) (*object, error) {
	o, err := byContent(f.raw, member, why)
	if err == nil {
		o.libraries = f.libraries()
	}
	return o, err
}

// byContent returns an object that isn't ordinary: a root of its content that may refer to any symbol.
func byContent(b []byte, member, why string) (o *object, err error) {
	defer recoverMalformed(&err)
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, damaged(err)
	}
	if f.Type != elf.ET_REL {
		return nil, fmt.Errorf("this is an ELF file of type %v: want a relocatable object", f.Type)
	}
	syms, err := f.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, damaged(err)
	}
	h := frame.New("tasting unit as a whole 1")
	h.Bytes(b)
	hash := h.Sum128()
	c := &component{name: label(member, "(unit)"), root: "unit as a whole: " + why, links: []link{anyLink}, hash: hash}
	note := &component{name: manifest.Unusual + " " + label(member, why), linkage: manifest.Linkage_LINKAGE_LOCAL, hash: hash}
	o = &object{member: member, attributes: hash, sections: hash, content: frame.Buffer(b).Sum128(), literals: hash}
	for _, s := range globals(syms, nil) {
		c.links = append(c.links, link{-1, symname.Printable(s.Name)})
	}
	c.definitions, o.references = definitionsOf(globals(syms, nil))
	for _, x := range o.references {
		x.Uses |= manifest.UseBound | manifest.UseDirect
	}
	c.linkage = linkage(c.definitions, false)
	o.components = []*component{c, note}
	o.fallbacks = []*manifest.Fallback{{Component: c.name, Reason: why, Rung: manifest.Rung_RUNG_CONTENT}}
	return o, nil
}
