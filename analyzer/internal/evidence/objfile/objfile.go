// Package objfile makes manifests of what a build links: objects, archives and
// shared libraries. What isn't in the object doesn't run, so this evidence has to
// believe no parser and no compiler.
//
// # Relocatable objects
//
// An object is cut into components: functions, variables, and sections that can't
// be cut. Every loaded byte is in one of them, and so is every relocation. A local
// hash covers what a linker takes from the component: its content without what
// links stand for, the section's type, flags and alignment, the global symbols
// that it defines, and what each relocation refers to. A global symbol is referred
// to by name (and the linker decides what that is), a place in the object by the
// place of the link to its component and the offset there, a string by its
// content. So neither names of local symbols nor places count. What holds for the
// object as a whole (ABI flags, properties such as control-flow
// protection, whether it asks for an executable stack) is in every local hash.
//
// Compilers put all functions into one section unless they are told otherwise,
// and assemblers then resolve references between them without leaving a trace but
// a distance. To cut such a section, all of its instructions are decoded (code.go,
// x86.go). Only what adds up is cut (split.go): every byte of code is
// covered by a symbol or does nothing, each jump leads to an instruction, each
// relocation is that of an operand. A function that may run over its end links to
// the next one. In data a reference says where it leads, not what it means: where
// optimised code may count from another place, all variables that it could mean
// are one component. Objects that no known compiler signed (.comment) are not cut:
// in what people write in assembly, a distance can be in any number.
//
// What belongs to one function without being in it, is part of it: jump tables,
// strings and numbers without a name, entries of the unwind table with the handlers
// of exceptions that they refer to (unwind.go).
//
// Sections that run or are found without a reference are roots, and are never cut,
// because their order can be seen: initialisers and finalisers, retained sections,
// and sections with identifiers for names, because the linker provides symbols for their
// bounds (__start_NAME). Resolvers of functions (STT_GNU_IFUNC) are roots, too: the loader
// calls them for any reference, reached or not.
//
// An object that compilers don't make of C and C++ for x86-64 is a root as a whole, that may refer
// to anything: ordinary.go says which ones they do make.
//
// Left out, because they aren't loaded: comments, symbol and string tables,
// address-significance tables, profiles, and debug information. Of an object with
// line tables there is one more component, "(debug lines)", to which nothing links,
// for whoever finds a reader of debug information in the program.
//
// What has to be believed:
//   - Compilers let code run into what follows only where that is no error of the
//     program: a function whose last instruction is a call, at the end of its
//     section, doesn't come back from that call; neither do calls of functions such
//     as abort.
//   - Compilers give no distances between functions in numbers, but in tables of
//     jumps.
//   - Variables are reached from references to them, to their end, or to a place at
//     most one element (of 256 bytes) in front of an array, unless code is optimised
//     (see class). Literals are reached from references to them or to their end.
//
// # Archives
//
// The components of all members, each of which is a unit: which ones a linker
// takes depends on the references of the others, so the model of the link
// decides.
//
// # Shared libraries
//
// A single component, which is a root, defines all dynamic symbols and links to
// all of them, undefined or not: a program that defines such a symbol itself
// replaces the library's (interposition). Its hash is that of the content, or
// for libraries of the system, whose identity is established when the test is
// run, of the names only.
//
// # Linker scripts
//
// Text under the name of a library is a script. It is a root and may refer to
// any symbol.
package objfile

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/symname"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// Options of Manifest.
type Options struct {
	// InterfaceOnly hashes only the names of a shared library's symbols.
	InterfaceOnly bool
	// Executable and Library say that the file was linked for a test, which executes or loads
	// it: what is loaded of it counts.
	Executable, Library bool
	// Assembly says that an object was made of assembly, which may be a compiler's that
	// somebody has changed: nothing is believed that only compilers keep to.
	Assembly bool
}

// Manifest returns the manifest of the object, archive or shared library at
// path. The path doesn't enter any hash.
func Manifest(path string, opt Options) (*manifest.Manifest, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := fromFile(path, b, opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m.Source = sourceName(path)
	return m, nil
}

// ManifestOrContent is Manifest for a build, which has to go on: a file that
// isn't understood, such as the intermediate form of link-time optimisation,
// counts with its content and may refer to any symbol. Why, is in its fallback.
func ManifestOrContent(path string, opt Options) (*manifest.Manifest, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := fromFile(path, b, opt)
	if err != nil && (opt.InterfaceOnly || errors.Is(err, errThin)) {
		return nil, fmt.Errorf("%s: %w", path, err)
	} else if err != nil {
		m = opaque(b, err.Error())
	}
	m.Source = sourceName(path)
	return m, nil
}

func fromFile(path string, b []byte, opt Options) (*manifest.Manifest, error) {
	if isScript(path, b) {
		return script(b), nil
	}
	return fromBytes(b, opt)
}

// sourceName returns path as a manifest says it: never absolute.
func sourceName(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Base(path)
	}
	return filepath.ToSlash(path)
}

// opaque is the manifest of a file that can't be taken apart: a root that may
// refer to any symbol. What it defines isn't known.
func opaque(b []byte, why string) *manifest.Manifest {
	h := frame.New("tasting opaque file 1")
	h.Bytes(b)
	const name = "(file)"
	return &manifest.Manifest{
		Rung: manifest.Rung_RUNG_CONTENT, Units: []*manifest.Unit{{}}, Symbols: []string{manifest.AnySymbol},
		Components: []*manifest.Component{{
			Name: name, Kind: manifest.Kind_KIND_FILE, Linkage: manifest.Linkage_LINKAGE_LOCAL, LocalHash: h.Sum128(),
			Root: "file as a whole: " + why, Links: []uint32{1},
		}},
		Fallbacks: []*manifest.Fallback{{Component: name, Reason: why, Rung: manifest.Rung_RUNG_CONTENT}},
	}
}

func fromBytes(b []byte, opt Options) (m *manifest.Manifest, err error) {
	if opt.Executable || opt.Library || isDynamic(b) {
		return linkedFile(b, opt)
	}
	if opt.InterfaceOnly {
		return nil, errors.New("only a shared library has an interface apart from its content")
	}
	objs, foreign, err := readObjects(b, opt.Assembly)
	if err != nil {
		return nil, err
	}
	m = &manifest.Manifest{Rung: manifest.Rung_RUNG_OBJECT}
	symbol := map[string]uint32{}
	for _, o := range objs {
		unit := uint32(len(m.Units))
		m.Units = append(m.Units, &manifest.Unit{Name: o.member, Exact: true, References: o.references, Attributes: o.attributes, Sections: o.sections, Content: o.content, Literals: o.literals})
		first := uint32(len(m.Components))
		m.Fallbacks = append(m.Fallbacks, o.fallbacks...)
		m.Flags = append(m.Flags, o.libraries...)
		for i, x := range o.components {
			c := &manifest.Component{
				Name: x.name, Kind: manifest.Kind_KIND_SECTION, Linkage: x.linkage, LocalHash: x.hash,
				Root: x.root, File: o.member, Definitions: x.definitions, Unit: unit, Group: x.group, Entries: x.entries, Alignment: uint32(x.align),
			}
			if x.placed != 0 {
				c.Place = uint32(i)*manifest.PlaceKinds + x.placed
			}
			for _, l := range x.links {
				if l.component >= 0 {
					c.Links = append(c.Links, 2*(first+uint32(l.component)))
					continue
				}
				k, ok := symbol[l.symbol]
				if !ok {
					k = uint32(len(m.Symbols))
					symbol[l.symbol] = k
					m.Symbols = append(m.Symbols, l.symbol)
				}
				c.Links = append(c.Links, 2*k+1)
			}
			m.Components = append(m.Components, c)
		}
	}
	for _, f := range foreign {
		h := frame.New("tasting file 1")
		h.Bytes(f.data)
		m.Components = append(m.Components, &manifest.Component{
			Name: f.name, Kind: manifest.Kind_KIND_FILE, Linkage: manifest.Linkage_LINKAGE_LOCAL, LocalHash: h.Sum128(),
			Root: "not an object", File: f.name, Unit: uint32(len(m.Units)),
		})
		m.Units = append(m.Units, &manifest.Unit{Name: f.name})
		m.Fallbacks = append(m.Fallbacks, &manifest.Fallback{Component: f.name, Reason: "archive member is not an ELF object", Rung: manifest.Rung_RUNG_CONTENT})
	}
	if len(m.Units) == 0 { // an empty archive
		m.Units = []*manifest.Unit{{Exact: true}}
	}
	uniqueNames(m.Components)
	return m, nil
}

// uniqueNames numbers components of equal names in their order.
func uniqueNames(comps []*manifest.Component) {
	taken := map[string]bool{}
	next := map[string]int{}
	for _, c := range comps {
		name := c.Name
		for taken[c.Name] {
			next[name] = max(next[name], 1) + 1
			c.Name = fmt.Sprintf("%s#%d", name, next[name])
		}
		taken[c.Name] = true
	}
}

// readObjects reads a relocatable object or the members of an archive; foreign
// are members that aren't objects.
func readObjects(b []byte, assembly bool) (objs []*object, foreign []arMember, err error) {
	switch {
	case isELF(b):
		o, err := readObject(b, "", assembly)
		return []*object{o}, nil, err
	case bytes.HasPrefix(b, []byte(thinMagic)):
		return nil, nil, errThin
	case !bytes.HasPrefix(b, []byte(arMagic)):
		return nil, nil, notAnObject(b)
	}
	members, err := readArchive(b)
	if err != nil {
		return nil, nil, err
	}
	count := map[string]int{}
	for _, m := range members {
		name := symname.Printable(m.name)
		if count[m.name]++; count[m.name] > 1 {
			name = fmt.Sprintf("%s#%d", m.name, count[m.name])
		}
		if !isELF(m.data) {
			if isBitcode(m.data) {
				return nil, nil, fmt.Errorf("member %s: %w", name, errLTO)
			}
			foreign = append(foreign, arMember{name, m.data})
			continue
		}
		o, err := readObject(m.data, name, assembly)
		if err != nil {
			return nil, nil, fmt.Errorf("member %s: %w", name, err)
		}
		objs = append(objs, o)
	}
	return objs, foreign, nil
}

var errThin = errors.New("a thin archive holds no code, only the paths of objects: give the objects, or create the archive without the T modifier")

var errLTO = errors.New("the object holds an intermediate form for link-time optimisation, which linkers take for the code: compile it without -flto")

func isELF(b []byte) bool     { return bytes.HasPrefix(b, []byte(elf.ELFMAG)) }
func isBitcode(b []byte) bool { return bytes.HasPrefix(b, []byte("BC\xc0\xde")) }

func notAnObject(b []byte) error {
	const want = "want an ELF object, an archive or a shared library"
	switch {
	case isBitcode(b):
		return errLTO
	case len(b) == 0:
		return errors.New("the file is empty: " + want)
	}
	return errors.New(want)
}

// isDynamic says whether b is a shared library, by its header.
func isDynamic(b []byte) bool {
	if !isELF(b) || len(b) < 18 {
		return false
	}
	var order binary.ByteOrder = binary.LittleEndian
	if elf.Data(b[elf.EI_DATA]) == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	return elf.Type(order.Uint16(b[16:])) == elf.ET_DYN
}

func damaged(err error) error { return fmt.Errorf("malformed ELF file: %w", err) }

// recoverMalformed turns a panic over a damaged file into an error: the input
// comes from other tools, and debug/elf doesn't promise to survive everything.
func recoverMalformed(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("malformed ELF file: %v", p)
	}
}

// linkedFile is the manifest of an executable or a shared library: a root that defines its
// dynamic symbols and refers to all of them. (A library's may be replaced; an
// executable's copy of a variable gets its value from a library.)
func linkedFile(b []byte, opt Options) (m *manifest.Manifest, err error) {
	defer recoverMalformed(&err)
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, damaged(err)
	}
	if f.Type != elf.ET_DYN && f.Type != elf.ET_EXEC {
		return nil, fmt.Errorf("it is an ELF file of type %v", f.Type)
	}
	syms, err := f.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, fmt.Errorf("malformed ELF file: dynamic symbols: %w", err)
	}
	c := &manifest.Component{Name: "(shared library)", Kind: manifest.Kind_KIND_FILE, Root: "shared library"}
	var refs []*manifest.Reference
	c.Definitions, refs = dynamicSymbols(syms)
	if opt.Executable {
		c.Name, c.Root = "(executable)", "executable"
		c.Definitions = uniqueDefinitions(append(c.Definitions, manifest.NewDefinitions(manifest.Binding_BINDING_GLOBAL, "main")...))
	} else if names, err := f.DynString(elf.DT_SONAME); err == nil && len(names) == 1 && names[0] != "" {
		c.Name = symname.Printable(names[0])
	}
	c.Linkage = linkage(c.Definitions, false)
	m = &manifest.Manifest{Rung: manifest.Rung_RUNG_CONTENT, Units: []*manifest.Unit{{Exact: true, References: refs}}, Components: []*manifest.Component{c}}
	h := frame.New("tasting shared library 2")
	hashDynamic(&h, c.Definitions, refs)
	switch {
	case opt.Executable || opt.Library:
		const why = "its objects aren't known"
		c.Root += " as a whole: " + why // for the explanation
		m.Fallbacks = []*manifest.Fallback{{Component: c.Name, Reason: why, Rung: manifest.Rung_RUNG_CONTENT}}
		all, _ := f.Symbols() // none if it is stripped, of lines too
		for _, s := range all {
			if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
				syms = append(syms, s) // readers of debug information may be linked statically
			}
		}
		if err := hashLoaded(&h, f, b); err != nil {
			return nil, err
		}
		whole := frame.Buffer(b).Sum128()
		m.Units[0].Content = whole
		m.Components = append(m.Components, &manifest.Component{Name: manifest.DebugLines, Kind: manifest.Kind_KIND_FILE, Linkage: manifest.Linkage_LINKAGE_LOCAL, LocalHash: whole})
		if readsOwn(b) {
			m.Symbols = append(m.Symbols, manifest.OwnProgram)
		}
	case !opt.InterfaceOnly:
		h.Bytes(b)
	}
	c.LocalHash = h.Sum128()
	for _, s := range syms {
		if name := symname.Printable(s.Name); name != "" && elf.ST_BIND(s.Info) != elf.STB_LOCAL && !linkerSymbols[name] {
			m.Symbols = append(m.Symbols, name)
		}
	}
	slices.Sort(m.Symbols)
	m.Symbols = slices.Compact(m.Symbols)
	for i := range m.Symbols {
		c.Links = append(c.Links, 2*uint32(i)+1)
	}
	return m, nil
}

// hashLoaded appends what is loaded of a file: neither debug information nor the build ID.
func hashLoaded(h *frame.Buffer, f *elf.File, b []byte) error {
	h.String(fmt.Sprint(f.Class, f.Data, f.OSABI, f.Type, f.Machine, f.Entry))
	loaded := 0
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Name == ".note.gnu.build-id" {
			continue
		}
		loaded++
		h.String(fmt.Sprint(s.Name, s.Type, s.Flags, s.Addr, s.Size))
		if s.Type != elf.SHT_NOBITS {
			data, err := s.Data()
			if err != nil {
				return fmt.Errorf("malformed ELF file: %s: %w", s.Name, err)
			}
			h.Bytes(data)
		}
	}
	for _, p := range f.Progs {
		h.String(fmt.Sprint(p.Type, p.Flags))
	}
	if loaded == 0 { // without a table of sections
		h.Bytes(b)
	}
	return nil
}

// linkerSymbols are defined by the linker and its start files in every library and program;
// nothing is bound through them across libraries.
var linkerSymbols = map[string]bool{"_start": true, "_init": true, "_fini": true, "_end": true, "_edata": true, "__bss_start": true}

// dynamicSymbols returns what a linked file defines for others and needs from
// them, each sorted by name, without repetition. The name of a hidden version of
// a symbol, which no new link is bound to, is foo@V; that of all others is the
// plain one.
func dynamicSymbols(syms []elf.Symbol) ([]*manifest.Definition, []*manifest.Reference) {
	var defs []*manifest.Definition
	var refs []*manifest.Reference
	for _, s := range syms {
		name := symname.Printable(s.Name)
		if s.Name == "" || elf.ST_BIND(s.Info) == elf.STB_LOCAL || linkerSymbols[s.Name] {
			continue
		}
		if s.Section == elf.SHN_UNDEF {
			refs = append(refs, reference(s.Info, s.Other, name))
			continue
		}
		if s.HasVersion && s.VersionIndex.IsHidden() && s.Version != "" {
			name += "@" + symname.Printable(s.Version)
		}
		defs = append(defs, definition(s.Info, s.Other, name))
	}
	return uniqueDefinitions(defs), uniqueReferences(refs)
}

func hashDynamic(h *frame.Buffer, defs []*manifest.Definition, refs []*manifest.Reference) {
	h.Int(len(defs))
	for _, d := range defs {
		h.String(d.Name)
		h.Int(int(d.Binding))
		h.Int(int(d.Visibility))
	}
	h.Int(len(refs))
	for _, r := range refs {
		h.String(r.Name)
		h.Uint(flag(r.Weak))
	}
}

func definition(info, other byte, name string) *manifest.Definition {
	d := &manifest.Definition{Name: name, Binding: manifest.Binding_BINDING_GLOBAL, Visibility: visibility(other), ThreadLocal: elf.ST_TYPE(info) == elf.STT_TLS}
	switch elf.ST_BIND(info) {
	case elf.STB_WEAK:
		d.Binding = manifest.Binding_BINDING_WEAK
	case stbGNUUnique:
		d.Binding = manifest.Binding_BINDING_UNIQUE
	}
	return d
}

func reference(info, other byte, name string) *manifest.Reference {
	r := &manifest.Reference{Name: name, Weak: elf.ST_BIND(info) == elf.STB_WEAK, Visibility: visibility(other)}
	if elf.ST_TYPE(info) == elf.STT_TLS {
		r.Uses = manifest.UseThreadLocal
	}
	return r
}

func visibility(other byte) manifest.Visibility { return manifest.Visibility(elf.ST_VISIBILITY(other)) }

// uniqueDefinitions sorts. Of several with one name, which only a damaged file
// has, the strongest stays.
func uniqueDefinitions(l []*manifest.Definition) []*manifest.Definition {
	slices.SortStableFunc(l, func(a, b *manifest.Definition) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Binding, b.Binding))
	})
	return slices.CompactFunc(l, func(a, b *manifest.Definition) bool { return a.Name == b.Name })
}

// uniqueReferences keeps the order, which is that in which lld takes members of
// archives. Several with one name, which only a damaged file has, are one, which
// needs a definition if any of them does.
func uniqueReferences(l []*manifest.Reference) []*manifest.Reference {
	at := make(map[string]int, len(l))
	out := l[:0]
	for _, r := range l {
		if i, ok := at[r.Name]; ok {
			out[i].Weak = out[i].Weak && r.Weak
			out[i].Uses |= r.Uses
			continue
		}
		at[r.Name] = len(out)
		out = append(out, r)
	}
	return out
}

// linkage is what the definitions of a component say together.
func linkage(defs []*manifest.Definition, comdat bool) manifest.Linkage {
	switch {
	case len(defs) == 0:
		return manifest.Linkage_LINKAGE_LOCAL
	case !comdat && slices.ContainsFunc(defs, func(d *manifest.Definition) bool { return d.Binding == manifest.Binding_BINDING_GLOBAL }):
		return manifest.Linkage_LINKAGE_EXTERNAL
	}
	return manifest.Linkage_LINKAGE_WEAK
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
