// Package objfile makes manifests of object files, archives and shared
// libraries: the rung of the ladder for code without a parseable source, such
// as assembly and prebuilt libraries.
//
// # Relocatable objects
//
// Every section that is loaded is a component. With -ffunction-sections and
// -fdata-sections that is a function or a variable each; without, it is all
// code or all data of the object, which is coarse but sound. The local hash
// covers what the linker takes from the section: type, flags, alignment, size,
// content, the global symbols defined in it with their attributes, and every
// relocation with what it refers to. A global symbol is referred to by name,
// another section by the place of the link to it and the offset, a string
// literal by its content: so neither the names of local symbols nor the place
// of a literal in its section matter.
//
// What holds for the object as a whole (machine, ABI flags, properties such as
// control-flow protection, whether it asks for an executable stack) is in every
// local hash.
//
// Unwind tables (.eh_frame) refer to functions, not the reverse, but decide
// what happens when an exception passes through a function: each entry counts
// as a part of the section that it describes, including its references to the
// personality routine and the table of handlers.
//
// Sections that run or are found without a reference are roots: initialisers
// and finalisers, retained sections, and all sections with names that compilers
// don't choose by themselves, because the linker or a linker script may provide
// symbols for their bounds (__start_NAME).
//
// Left out, because they aren't loaded: debug information, comments, symbol and
// string tables, address-significance tables and profiles.
//
// # Archives
//
// The components of all members. Which members the linker takes depends on
// what each one defines, so a component "(members)" describes that; it counts
// only if some symbol has several definitions, or if several members have
// roots, whose order is theirs.
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
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// Options of Manifest.
type Options struct {
	// InterfaceOnly hashes only the names of a shared library's symbols.
	InterfaceOnly bool
}

// Manifest returns the manifest of the object, archive or shared library at
// path. The path doesn't enter any hash.
func Manifest(path string, opt Options) (*manifest.Manifest, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var m *manifest.Manifest
	if isScript(path, b) {
		m = script(b)
	} else if m, err = fromBytes(b, opt); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m.Source = filepath.ToSlash(path)
	if filepath.IsAbs(path) { // a manifest holds no absolute path
		m.Source = filepath.Base(path)
	}
	return m, nil
}

// Sections returns the loaded sections of the relocatable object, or of all
// members of the archive, at path, in file order.
func Sections(path string) ([]Section, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	objs, _, err := readObjects(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var all []Section
	for _, o := range objs {
		base := len(all)
		for _, s := range o.sections {
			for i := range s.Refs {
				if s.Refs[i].Section >= 0 {
					s.Refs[i].Section += base
				}
			}
			all = append(all, *s)
		}
	}
	return all, nil
}

func fromBytes(b []byte, opt Options) (m *manifest.Manifest, err error) {
	if isELF(b) {
		f, err := openELF(b)
		if err != nil {
			return nil, err
		}
		if f.Type == elf.ET_DYN {
			return sharedLibrary(f, b, opt)
		}
	}
	if opt.InterfaceOnly {
		return nil, errors.New("only a shared library has an interface apart from its content")
	}
	objs, foreign, err := readObjects(b)
	if err != nil {
		return nil, err
	}
	m = &manifest.Manifest{Rung: manifest.Rung_RUNG_OBJECT}
	symbol := map[string]uint32{}
	for _, o := range objs {
		first := uint32(len(m.Components))
		for _, s := range o.sections {
			c := &manifest.Component{
				Name: s.Name, Kind: manifest.Kind_KIND_SECTION, Linkage: s.Linkage, LocalHash: s.Hash[:],
				Aliases: s.globals, Root: s.Root, File: o.member,
			}
			for _, l := range s.links {
				if l.section >= 0 {
					c.Links = append(c.Links, 2*(first+uint32(l.section)))
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
			Root: "not an object", File: f.name,
		})
		m.Fallbacks = append(m.Fallbacks, &manifest.Fallback{Component: f.name, Reason: "archive member is not an ELF object", Rung: manifest.Rung_RUNG_CONTENT})
	}
	if bytes.HasPrefix(b, []byte(arMagic)) {
		m.Components = append(m.Components, archiveIndex(objs))
	}
	uniqueNames(m.Components)
	return m, nil
}

// archiveIndex describes the members of an archive in their order: what each
// one defines and needs, and what in it is a root. It is a root itself if
// several members have some, because their order is that of the members.
func archiveIndex(objs []*object) *manifest.Component {
	c := &manifest.Component{Name: "(members)", Kind: manifest.Kind_KIND_FILE, Linkage: manifest.Linkage_LINKAGE_LOCAL}
	h := frame.New("tasting archive 1")
	h.Int(len(objs))
	withRoots := 0
	for _, o := range objs {
		var defs, needs, roots []string
		for _, s := range o.sections {
			for _, g := range s.globals {
				defs = append(defs, fmt.Sprintf("%s %d", g, s.Linkage))
			}
			for _, l := range s.links {
				if l.section < 0 {
					needs = append(needs, l.symbol)
				}
			}
			if s.Root != "" {
				roots = append(roots, string(s.Hash[:]))
			}
		}
		if len(roots) > 0 {
			withRoots++
		}
		for _, l := range [][]string{defs, needs, roots} {
			slices.Sort(l)
			h.Strings(slices.Compact(l))
		}
	}
	if withRoots > 1 {
		c.Root = "order of the archive's members"
	}
	c.LocalHash = h.Sum128()
	return c
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
func readObjects(b []byte) (objs []*object, foreign []arMember, err error) {
	switch {
	case isELF(b):
		o, err := readObject(b, "")
		return []*object{o}, nil, err
	case bytes.HasPrefix(b, []byte(thinMagic)):
		return nil, nil, errors.New("a thin archive holds no code, only the paths of objects: give the objects, or create the archive without the T modifier")
	case !bytes.HasPrefix(b, []byte(arMagic)):
		return nil, nil, notAnObject(b)
	}
	members, err := readArchive(b)
	if err != nil {
		return nil, nil, err
	}
	count := map[string]int{}
	for _, m := range members {
		name := printable(m.name)
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
		o, err := readObject(m.data, name)
		if err != nil {
			return nil, nil, fmt.Errorf("member %s: %w", name, err)
		}
		objs = append(objs, o)
	}
	return objs, foreign, nil
}

// printable returns a name as it can be stored in a manifest: assemblers allow
// any bytes.
func printable(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strconv.QuoteToASCII(name)
}

var errLTO = errors.New("the object holds an intermediate form for link-time optimisation instead of code: analyze its source, or compile it without -flto")

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

// openELF parses the headers.
func openELF(b []byte) (f *elf.File, err error) {
	defer recoverMalformed(&err)
	f, err = elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("malformed ELF file: %w", err)
	}
	return f, nil
}

// recoverMalformed turns a panic over a damaged file into an error: the input
// comes from other tools, and debug/elf doesn't promise to survive everything.
func recoverMalformed(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("malformed ELF file: %v", p)
	}
}

func sharedLibrary(f *elf.File, content []byte, opt Options) (m *manifest.Manifest, err error) {
	defer recoverMalformed(&err)
	syms, err := f.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, fmt.Errorf("malformed ELF file: dynamic symbols: %w", err)
	}
	m = &manifest.Manifest{Rung: manifest.Rung_RUNG_CONTENT}
	c := &manifest.Component{Name: "(shared library)", Kind: manifest.Kind_KIND_FILE, Linkage: manifest.Linkage_LINKAGE_EXTERNAL, Root: "shared library"}
	if names, err := f.DynString(elf.DT_SONAME); err == nil && len(names) == 1 && names[0] != "" {
		c.Name = names[0]
	}
	c.Name = printable(c.Name)
	var all []string
	for _, s := range syms {
		s.Name = printable(s.Name)
		if s.Name == "" || elf.ST_BIND(s.Info) == elf.STB_LOCAL || linkerSymbols[s.Name] {
			continue
		}
		all = append(all, s.Name)
		if s.Section != elf.SHN_UNDEF {
			c.Aliases = append(c.Aliases, s.Name)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	slices.Sort(c.Aliases)
	c.Aliases = slices.Compact(c.Aliases)
	m.Symbols = all
	for i := range all {
		c.Links = append(c.Links, 2*uint32(i)+1)
	}
	h := frame.New("tasting shared library 1")
	h.Strings(c.Aliases)
	h.Strings(all)
	if !opt.InterfaceOnly {
		h.Bytes(content)
	}
	c.LocalHash = h.Sum128()
	m.Components = []*manifest.Component{c}
	return m, nil
}

// linkerSymbols are defined by the linker in every library and program;
// nothing is bound through them across libraries.
var linkerSymbols = map[string]bool{"_init": true, "_fini": true, "_end": true, "_edata": true, "__bss_start": true}
