package objfile

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/symname"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/wordset"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// Linked returns the manifests that speak for the linked executable or shared
// library at path: those of parts, the objects and archives that it is said to
// be made of, and one of what the linker made of them. If parts don't account
// for everything that is in the file, or there are none, it returns one manifest
// of the file's content, which is a root, and why holds the reason.
//
// Parts account for the file if every symbol in its symbol table that stands for
// code or data, local ones included, and every source file named there, is in one
// of them with the same size and content, apart from what compilers add to every program,
// symbols that are apart in them are so in the file, and it has no more initialisers than they have. So a file without a symbol table
// counts with its content.
//
// The content is that of the sections that are loaded: neither debug information
// nor the build ID count. Of a file that can't be understood all of it counts. An
// error means that the file at path can't be read.
func Linked(path string, parts []string) (manifests []*manifest.Manifest, why string, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	source := sourceName(path)
	if isScript(path, b) {
		m := script(b)
		m.Source = source
		return []*manifest.Manifest{m}, "it is a linker script", nil
	}
	var m *manifest.Manifest
	l, err := readLinked(b)
	if err == nil {
		if len(parts) == 0 {
			why = "its objects aren't known"
		} else if manifests, why = l.explain(parts); why == "" {
			m := l.frame()
			m.Source = source
			return append(manifests, m), "", nil
		}
		m, err = l.content(b)
	}
	if err != nil {
		why = err.Error()
		m = opaque(b, why)
	} else {
		c := m.Components[0]
		c.Root += " as a whole: " + why // for the explanation
		m.Fallbacks = append(m.Fallbacks, &manifest.Fallback{Component: c.Name, Reason: why, Rung: manifest.Rung_RUNG_CONTENT})
	}
	m.Source = source
	return []*manifest.Manifest{m}, why, nil
}

// linked is a linked ELF file.
type linked struct {
	*elf.File
	executable bool
	name       string   // DT_SONAME or "(executable)"
	dynamic    []string // names of dynamic symbols, sorted
	defined    []string // those of them that the file defines
	defs       []*manifest.Definition
	refs       []*manifest.Reference
	copied     map[string]bool
	// Set by explain, sorted, and nearly always empty: global symbols of its
	// parts that it doesn't export, and what it exports and refers
	// to without leaving it to the loader which definition that is.
	hidden, bound []string
}

func readLinked(b []byte) (l *linked, err error) {
	defer recoverMalformed(&err)
	if !isELF(b) {
		return nil, errors.New("it is not an ELF file")
	}
	f, err := openELF(b)
	if err != nil {
		return nil, err
	}
	l = &linked{File: f, name: "(shared library)", copied: map[string]bool{}}
	l.executable = f.Type == elf.ET_EXEC || slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	if flags, err := f.DynValue(elf.DT_FLAGS_1); err == nil && len(flags) == 1 && elf.DynFlag1(flags[0])&elf.DF_1_PIE != 0 {
		l.executable = true // static, position independent
	}
	if f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return nil, fmt.Errorf("it is an ELF file of type %v", f.Type)
	}
	if l.executable {
		l.name = "(executable)"
	} else if names, err := f.DynString(elf.DT_SONAME); err == nil && len(names) == 1 && names[0] != "" {
		l.name = symname.Printable(names[0])
	}
	syms, err := f.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, fmt.Errorf("malformed ELF file: dynamic symbols: %w", err)
	}
	for _, s := range syms {
		name := symname.Printable(s.Name)
		if name == "" || elf.ST_BIND(s.Info) == elf.STB_LOCAL || linkerSymbols[name] {
			continue
		}
		l.dynamic = append(l.dynamic, name)
		if s.Section != elf.SHN_UNDEF {
			l.defined = append(l.defined, name)
		}
		// A variable of a library that an executable refers to without PIC
		// has its place in the executable, and its initial value in the
		// library: as in both a symbol with a version, or among the undefined.
		if l.executable && s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) != elf.STT_FUNC {
			l.copied[name] = true
		}
	}
	l.defs, l.refs = dynamicSymbols(syms)
	slices.Sort(l.dynamic)
	l.dynamic = slices.Compact(l.dynamic)
	slices.Sort(l.defined)
	l.defined = slices.Compact(l.defined)
	return l, nil
}

// content is the manifest of a file that counts as a whole: a root that defines
// its dynamic symbols and refers to all of them (a library's may be replaced, an
// executable's copy of a variable gets its value from a library).
func (l *linked) content(b []byte) (m *manifest.Manifest, err error) {
	defer recoverMalformed(&err)
	c := &manifest.Component{Name: l.name, Kind: manifest.Kind_KIND_FILE, Root: "shared library", Definitions: slices.Clone(l.defs)}
	if l.executable {
		c.Root = "executable"
		c.Definitions = uniqueDefinitions(append(c.Definitions, manifest.NewDefinitions(manifest.Binding_BINDING_GLOBAL, "main")...))
	}
	c.Linkage = linkage(c.Definitions, false)
	h := frame.New("tasting linked file 2")
	hashDynamic(&h, c.Definitions, l.refs)
	h.Int(int(l.Class))
	h.Int(int(l.Data))
	h.Int(int(l.OSABI))
	h.Int(int(l.Type))
	h.Int(int(l.Machine))
	h.Int(int(l.Entry))
	loaded := 0
	for _, s := range l.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Name == ".note.gnu.build-id" {
			continue
		}
		loaded++
		h.String(s.Name)
		h.Int(int(s.Type))
		h.Int(int(s.Flags))
		h.Int(int(s.Addr))
		h.Int(int(s.Size))
		if s.Type != elf.SHT_NOBITS {
			data, err := s.Data()
			if err != nil {
				return nil, fmt.Errorf("malformed ELF file: %s: %w", s.Name, err)
			}
			h.Bytes(data)
		}
	}
	for _, p := range l.Progs {
		h.Int(int(p.Type))
		h.Int(int(p.Flags))
	}
	if loaded == 0 { // without a table of sections
		h.Bytes(b)
	}
	c.LocalHash = h.Sum128()
	unit := &manifest.Unit{Exact: true, References: l.refs}
	m = &manifest.Manifest{Rung: manifest.Rung_RUNG_CONTENT, Units: []*manifest.Unit{unit}, Symbols: l.dynamic, Components: []*manifest.Component{c}}
	for i := range l.dynamic {
		c.Links = append(c.Links, 2*uint32(i)+1)
	}
	return m, nil
}

// frame is the manifest of what a linker adds to the parts of a file: how it
// binds and initialises, and which libraries it loads in which order.
func (l *linked) frame() *manifest.Manifest {
	h := frame.New("tasting link 1")
	h.Int(int(l.Type))
	h.Int(int(l.Machine))
	for _, tag := range []elf.DynTag{elf.DT_NEEDED, elf.DT_SONAME, elf.DT_AUXILIARY, elf.DT_FILTER} {
		values, _ := l.DynString(tag) // none if there is no dynamic section
		h.Strings(values)
	}
	for _, tag := range []elf.DynTag{elf.DT_FLAGS, elf.DT_FLAGS_1, elf.DT_SYMBOLIC, elf.DT_TEXTREL, elf.DT_BIND_NOW} {
		values, _ := l.DynValue(tag)
		h.Int(len(values))
		for _, v := range values {
			h.Int(int(v))
		}
	}
	h.Strings(l.called(elf.DT_INIT, "_init"))
	h.Strings(l.called(elf.DT_FINI, "_fini"))
	for _, p := range l.Progs {
		if p.Type == elf.PT_GNU_STACK {
			h.Int(int(p.Flags))
		}
	}
	// A version script, --exclude-libs, -Bsymbolic-functions and the like. An
	// executable exports next to nothing.
	if !l.executable {
		h.Strings(l.hidden)
		h.Strings(l.bound)
		for _, s := range l.Sections {
			if s.Type == elf.SHT_GNU_VERDEF {
				data, err := s.Data()
				h.Bytes(data)
				h.String(fmt.Sprint(err))
				h.Strings(l.defined)
			}
		}
	}
	c := &manifest.Component{
		Name: l.name + " (link)", Kind: manifest.Kind_KIND_FILE, Linkage: manifest.Linkage_LINKAGE_LOCAL,
		LocalHash: h.Sum128(), Root: "how a file is linked",
	}
	m := &manifest.Manifest{Rung: manifest.Rung_RUNG_OBJECT, Units: []*manifest.Unit{{Exact: true}}, Components: []*manifest.Component{c}}
	if len(l.hidden)+len(l.bound) > 0 {
		m.Fallbacks = []*manifest.Fallback{{Component: c.Name, Reason: "it doesn't export or use its definitions as its objects say", Rung: manifest.Rung_RUNG_OBJECT}}
	}
	return m
}

// called returns the names of what a flag (-init, -fini) has the loader call in the place of
// the start-up files' own function.
func (l *linked) called(tag elf.DynTag, own string) (names []string) {
	values, _ := l.DynValue(tag)
	syms, _ := l.Symbols()
	for _, s := range syms {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) != elf.STT_SECTION && s.Name != "" && slices.Contains(values, s.Value) {
			if s.Name == own {
				return nil
			}
			names = append(names, symname.Printable(s.Name))
		}
	}
	slices.Sort(names)
	return names
}

// compilerSymbols are in every linked file: of the compiler's start files and
// of the linker.
var compilerSymbols = wordset.Of(`_DYNAMIC _GLOBAL_OFFSET_TABLE_ _TLS_MODULE_BASE_ _PROCEDURE_LINKAGE_TABLE_ _IO_stdin_used __FRAME_END__ __GNU_EH_FRAME_HDR
	__TMC_END__ __TMC_LIST__ __EH_FRAME_BEGIN__ __abi_tag __bss_start __data_start __do_global_dtors_aux __do_global_dtors_aux_fini_array_entry __dso_handle
	__frame_dummy_init_array_entry __init_array_start __init_array_end __fini_array_start __fini_array_end
	__preinit_array_start __preinit_array_end __rela_iplt_start __rela_iplt_end __executable_start __etext __ehdr_start
	_edata _end _etext _fini _init _start _dl_relocate_static_pie completed.0 data_start deregister_tm_clones dtor_idx.0 edata end etext
	frame_dummy register_tm_clones static_reloc.c __libc_csu_init __libc_csu_fini __wrap_main atexit at_quick_exit __stack_chk_fail_local`)

// compilerFiles are the sources of the compiler's start files.
var compilerFiles = wordset.Of(`crtstuff.c crti.S crtn.S start.S abi-note.c abi-note.S init.c elf-init.c static-reloc.c crt1.o crti.o crtn.o Scrt1.o atexit.c
	at_quick_exit.c stack_chk_fail_local.c`)

// explain returns the manifests of parts, or why they don't account for what is
// in l.
func (l *linked) explain(parts []string) (manifests []*manifest.Manifest, why string) {
	defer func() {
		if p := recover(); p != nil { // as recoverMalformed
			manifests, why = nil, fmt.Sprintf("malformed ELF file: %v", p)
		}
	}()
	syms, err := l.Symbols()
	if err != nil {
		return nil, "it has no symbol table that tells what is in it"
	}
	x := &contents{places: map[sized][]place{}, sources: map[string]bool{}, initialisers: map[string]uint64{}, exported: map[string]bool{}}
	for _, name := range l.defined {
		x.exported[name] = true
	}
	for _, p := range parts {
		m, err := l.readPart(p, x)
		if err != nil {
			return nil, err.Error()
		}
		manifests = append(manifests, m)
	}
	found, why := l.account(syms, x)
	if why != "" {
		return nil, why
	}
	c, err := l.compare(syms, x.defined)
	if err != nil {
		return nil, err.Error()
	}
	if why := c.unlike(found, x.defined); why != "" {
		return nil, why
	}
	slices.Sort(l.hidden)
	l.hidden = slices.Compact(l.hidden)
	if l.bound, err = l.boundSymbols(manifests); err != nil {
		return nil, err.Error()
	}
	for _, s := range l.Sections {
		// One is the compiler's own.
		if kind := initialiser(s.Name); kind != "" && s.Size > x.initialisers[kind]+l.word() {
			return nil, fmt.Sprintf("it has more initialisers (%s) than its known objects", s.Name)
		}
	}
	return manifests, ""
}

// contents is what is in the parts of a linked file.
type contents struct {
	places       map[sized][]place
	sources      map[string]bool
	initialisers map[string]uint64 // bytes of addresses, by the section that they go to
	exported     map[string]bool   // by the linked file
}

type sized struct {
	name string
	size uint64
}

// defined returns where a symbol of the linked file may be from.
func (x *contents) defined(s elf.Symbol) []place {
	full := symname.Printable(s.Name)
	if l := x.places[sized{full, s.Size}]; l != nil {
		return l
	}
	return x.places[sized{bare(full), s.Size}]
}

// readPart returns the manifest of an object or archive, and adds to x what is in it.
func (l *linked) readPart(path string, x *contents) (*manifest.Manifest, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := Manifest(path, Options{})
	if err != nil {
		return nil, err
	}
	members := []arMember{{data: b}}
	if bytes.HasPrefix(b, []byte(arMagic)) {
		if members, err = readArchive(b); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, member := range members {
		f, err := readFile(member.data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if f.machine != l.Machine || f.class != l.Class {
			return nil, fmt.Errorf("%s is for another machine", path)
		}
		for _, s := range f.sections {
			x.initialisers[initialiser(s.name)] += s.size
		}
		for i, s := range f.syms {
			if s.typ() == elf.STT_FILE {
				x.sources[s.name] = true
			} else if s.sec != secUndefined {
				at := place{file: f, sec: s.sec, at: s.value, local: s.local(), typ: s.typ()}
				if s.sec == secCommon {
					at.at = uint64(i)
				}
				k := sized{s.name, s.size}
				x.places[k] = append(x.places[k], at)
				if !s.local() && elf.ST_VISIBILITY(s.other) == elf.STV_DEFAULT && !x.exported[s.name] {
					l.hidden = append(l.hidden, s.name)
				}
			}
		}
	}
	return m, nil
}

// account returns those of the symbols of l that are in its parts, or why not all are that
// have to be.
func (l *linked) account(syms []elf.Symbol, x *contents) (found []elf.Symbol, why string) {
	for _, s := range syms {
		name, _, versioned := strings.Cut(s.Name, "@")
		switch typ := elf.ST_TYPE(s.Info); {
		case strings.HasPrefix(s.Name, "__wrap_") && !compilerSymbols[s.Name]:
			return nil, fmt.Sprintf("it may be linked with --wrap, for which %s is", symname.Printable(s.Name))
		case s.Name == "" || typ == elf.STT_SECTION || s.Section == elf.SHN_UNDEF:
		case typ == elf.STT_FILE:
			if !x.sources[symname.Printable(s.Name)] && !compilerFiles[s.Name] {
				return nil, fmt.Sprintf("code of %s is in it, which is in none of its known objects", s.Name)
			}
		case versioned && l.copied[name] && x.places[sized{symname.Printable(s.Name), s.Size}] == nil:
		case len(x.defined(s)) > 0:
			found = append(found, s)
		case compilerSymbols[s.Name]:
		default:
			return nil, fmt.Sprintf("%s is in it, which none of its known objects defines", symname.Printable(s.Name))
		}
	}
	return found, ""
}

// boundSymbols returns the functions and variables that l exports and its parts refer to,
// but that none of its relocations leaves to the loader.
func (l *linked) boundSymbols(parts []*manifest.Manifest) ([]string, error) {
	syms, err := l.DynamicSymbols()
	if errors.Is(err, elf.ErrNoSymbols) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	own := map[string]bool{} // by name: whether a relocation refers to it
	for _, s := range syms {
		if typ := elf.ST_TYPE(s.Info); s.Section != elf.SHN_UNDEF && (typ == elf.STT_FUNC || typ == elf.STT_OBJECT) {
			own[symname.Printable(s.Name)] = false
		}
	}
	relocs, err := l.dynamicRelocs()
	if err != nil {
		return nil, err
	}
	for _, r := range relocs {
		if _, ok := own[r.name]; ok {
			own[r.name] = true
		}
	}
	var bound []string
	for _, m := range parts {
		for _, name := range m.Symbols {
			if open, ok := own[name]; ok && !open {
				bound = append(bound, name)
			}
		}
	}
	slices.Sort(bound)
	return slices.Compact(bound), nil
}

// dynamicReloc is a relocation for the loader, with the name of its symbol, if any.
type dynamicReloc struct {
	reloc
	name string
}

func (l *linked) dynamicRelocs() (list []dynamicReloc, err error) {
	syms, err := l.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, err
	}
	for _, s := range l.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Type != elf.SHT_REL && s.Type != elf.SHT_RELA {
			continue
		}
		b, err := s.Data()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		relocs, err := readRelocs(b, nil, len(syms)+1, l.Class, l.ByteOrder, s.Type == elf.SHT_RELA)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		for _, r := range relocs {
			name := ""
			if r.sym > 0 {
				name = symname.Printable(syms[r.sym-1].Name)
			}
			list = append(list, dynamicReloc{r, name})
		}
	}
	return list, nil
}

// word is the size of an address in bytes.
func (l *linked) word() uint64 {
	if l.Class == elf.ELFCLASS32 {
		return 4
	}
	return 8
}

// initialiser returns the section of a linked file that one of an object
// goes to, if it is one of addresses of functions that run by themselves.
func initialiser(section string) string {
	for _, name := range []string{".preinit_array", ".init_array", ".fini_array"} {
		if section == name || strings.HasPrefix(section, name+".") {
			return name
		}
	}
	switch {
	case section == ".ctors" || strings.HasPrefix(section, ".ctors."):
		return ".init_array"
	case section == ".dtors" || strings.HasPrefix(section, ".dtors."):
		return ".fini_array"
	}
	return ""
}
