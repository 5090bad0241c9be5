// Package objfile makes manifests of the files that a build links: relocatable objects, archives, shared
// libraries and linker scripts. Code that isn't in the object doesn't run, so this evidence relies on no
// parser and no compiler.
//
// # Relocatable objects
//
// The input is the content of an ELF file for x86-64, the output its components: functions, variables,
// and sections that can't be cut, each with a local hash and links. There are four phases, each with a
// type of its own that has the results of those before it:
//
//	parse     parse.go       file        sections, symbols, groups, relocations
//	          ordinary.go                whether gcc and clang make such objects; others are one root
//	classify  classify.go    classified  what becomes of each section, which ones are roots
//	cut       cut.go         cutter      where functions and variables begin, by symbols and references
//	          code.go x86.go             instructions of sections with several functions
//	          tables.go                  jump tables, which are parts of functions
//	          components.go unwind.go    pieces and unwind entries to components
//	hash      hash.go        hasher      local hashes and links
//	          entry.go order.go unit.go  what traces, programs and linkers see beside them
//
// Every loaded byte and every relocation is in a component. A local hash covers the content without the
// fields that links stand for, the section's type, flags and alignment, the global symbols that the
// component defines, and the target of each relocation: a global symbol by name, a place in the object by
// the position of the link to its component and the offset there, a string by its content. So neither
// names of local symbols nor places of components are hashed. Attributes of the object as a whole (ABI
// flags, control-flow protection, an executable stack) are in every local hash.
//
// Compilers put all functions into one section unless they are told otherwise, and the assembler resolves
// references between them to bare distances. Such a section is cut only if it is fully understood: each
// byte of code is covered by a symbol or is padding, each instruction can be decoded, each jump leads to
// an instruction, each relocation is that of an operand. A function that may run over its end links to the
// next one. In data a reference gives a place, not the variable that is meant: optimised code may count
// from another one, and then all variables that it may mean are one component. Objects that no known
// compiler has signed (.comment) are not cut: any number in handwritten assembly may be a distance.
//
// What belongs to one function is part of it: jump tables, strings and numbers without a name, and its
// unwind entries with the exception handlers that they refer to.
//
// Sections that run or are found without a reference are roots, and are never cut, because their order
// can be seen: initialisers and finalisers, retained sections, and those with identifiers for names, as
// linkers define symbols for their bounds (__start_NAME). Resolvers of functions (STT_GNU_IFUNC) are roots
// as well.
//
// Sections that aren't loaded are ignored: comments, symbol and string tables, profiles, and debug
// information. An object with line tables has one more component, "(debug lines)", without links to it,
// for programs that read debug information.
//
// Assumptions:
//   - Compilers let control run over the end of a function only where the program has no error: a
//     function that ends in a call at the end of its section doesn't return from that call, and calls of
//     functions such as abort don't return.
//   - Compilers store distances between functions only in jump tables.
//   - Variables are reached by references to them, to their end, or to a place at most maxInFront bytes in
//     front of them (hash.go), unless code is optimised (see class in code.go). Literals are reached by
//     references to them or to their end.
//
// # Archives
//
// The components of all members, each of which is a unit. The model of the link decides which members a
// linker takes.
//
// # Shared libraries
//
// A root that defines all dynamic symbols and links to all of them, undefined or not: a program that
// defines such a symbol replaces the library's (interposition). Its hash is that of the content, or of the
// names only if it is a library of the system, which the run identifies.
//
// # Linker scripts
//
// Text under the name of a library is a linker script: a root that may refer to any symbol.
package objfile

import (
	"bytes"
	"cmp"
	"debug/elf"
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

// Options are options of Manifest.
type Options struct {
	// InterfaceOnly hashes only the names of a shared library's symbols.
	InterfaceOnly bool
	// Executable and Library are set for a file that was linked for a test, which executes or loads
	// it: its loaded content is hashed.
	Executable, Library bool
	// Assembly is set for an object made of assembly, which somebody may have edited: nothing is
	// assumed that only compilers keep to.
	Assembly bool
}

// Manifest returns the manifest of the object, archive, shared library or linker script at path. The path
// is in no hash.
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

// ManifestOrContent is Manifest for a build, which has to go on: a file that isn't understood, such as the
// intermediate form of link-time optimisation, is a root of its content that may refer to any symbol. The
// reason is in its fallback.
func ManifestOrContent(path string, opt Options) (*manifest.Manifest, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := fromFile(path, b, opt)
	if err != nil && (opt.InterfaceOnly || errors.Is(err, errThin)) {
		return nil, fmt.Errorf("%s: %w", path, err)
	} else if err != nil {
		h := frame.New("tasting opaque file 1")
		h.Bytes(b)
		m = anySymbol(h, "(file)", "file as a whole: "+err.Error(), err.Error())
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

// sourceName returns path as a manifest has it: never absolute.
func sourceName(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Base(path)
	}
	return filepath.ToSlash(path)
}

// anySymbol returns the manifest of a file that is a root and may refer to any symbol.
func anySymbol(hashed frame.Buffer, name, root, reason string) *manifest.Manifest {
	return &manifest.Manifest{
		Rung: manifest.Rung_RUNG_CONTENT, Units: []*manifest.Unit{{}}, Symbols: []string{manifest.AnySymbol},
		Components: []*manifest.Component{{
			Name: name, Kind: manifest.Kind_KIND_FILE, Linkage: manifest.Linkage_LINKAGE_LOCAL, LocalHash: hashed.Sum128(), Root: root, Links: []uint32{1},
		}},
		Fallbacks: []*manifest.Fallback{{Component: name, Reason: reason, Rung: manifest.Rung_RUNG_CONTENT}},
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
		for _, x := range o.components {
			c := &manifest.Component{
				Name: x.name, Kind: manifest.Kind_KIND_SECTION, Linkage: x.linkage, LocalHash: x.hash,
				Root: x.root, File: o.member, Definitions: x.definitions, Unit: unit, Group: x.group, Entries: x.entries, Alignment: uint32(x.align),
			}
			for _, p := range x.spans {
				if x.place != 0 {
					c.Places = append(c.Places, p.rank*manifest.PlaceKinds+x.place)
				}
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
	manifest.NumberNames(m.Components)
	return m, nil
}

// readObjects reads a relocatable object or the members of an archive. foreign are members that aren't
// objects.
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

func isELF(b []byte) bool { return bytes.HasPrefix(b, []byte(elf.ELFMAG)) }

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

func damaged(err error) error { return fmt.Errorf("malformed ELF file: %w", err) }

// recoverMalformed turns a panic into an error: the input comes from other tools, and debug/elf doesn't
// promise to survive everything.
func recoverMalformed(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("malformed ELF file: %v", p)
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

// uniqueDefinitions sorts definitions by name, and keeps the strongest of each name. (Only a damaged file has
// several.)
func uniqueDefinitions(l []*manifest.Definition) []*manifest.Definition {
	slices.SortStableFunc(l, func(a, b *manifest.Definition) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Binding, b.Binding))
	})
	return slices.CompactFunc(l, func(a, b *manifest.Definition) bool { return a.Name == b.Name })
}

// uniqueReferences merges references of one name, which only a damaged file has. It keeps the order, in which
// lld takes members of archives. See link-order/archive-pull-order.
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

// linkage returns the linkage of a component with these definitions.
func linkage(defs []*manifest.Definition, comdat bool) manifest.Linkage {
	switch {
	case len(defs) == 0:
		return manifest.Linkage_LINKAGE_LOCAL
	case !comdat && slices.ContainsFunc(defs, func(d *manifest.Definition) bool { return d.Binding == manifest.Binding_BINDING_GLOBAL }):
		return manifest.Linkage_LINKAGE_EXTERNAL
	}
	return manifest.Linkage_LINKAGE_WEAK
}
