package objfile

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/symname"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// isDynamic reports whether b is a shared library, by its e_type (ET_DYN) in either byte order.
func isDynamic(b []byte) bool {
	return isELF(b) && len(b) >= 18 && (string(b[16:18]) == "\x03\x00" || string(b[16:18]) == "\x00\x03")
}

// linkedFile returns the manifest of an executable or a shared library: a root that defines its dynamic
// symbols and refers to all of them. (A definition of the program replaces the library's, and an
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
	c.Definitions, refs = definitionsOf(globals(syms, linkerSymbols))
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
		all, _ := f.Symbols() // a stripped file has none
		for _, s := range all {
			if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
				syms = append(syms, s) // a reader of debug information may be linked statically
			}
		}
		if err := hashLoaded(&h, f, b); err != nil {
			return nil, err
		}
		whole := frame.Buffer(b).Sum128()
		m.Units[0].Content = whole
		m.Components = append(m.Components, &manifest.Component{Name: manifest.DebugLines, Kind: manifest.Kind_KIND_FILE, Linkage: manifest.Linkage_LINKAGE_LOCAL, LocalHash: whole})
		if namesOwnFile(b) {
			m.Symbols = append(m.Symbols, manifest.OwnProgram)
		}
	case !opt.InterfaceOnly:
		h.Bytes(b)
	}
	c.LocalHash = h.Sum128()
	for _, s := range globals(syms, linkerSymbols) {
		m.Symbols = append(m.Symbols, symname.Printable(s.Name))
	}
	slices.Sort(m.Symbols)
	m.Symbols = slices.Compact(m.Symbols)
	for i := range m.Symbols {
		c.Links = append(c.Links, 2*uint32(i)+1)
	}
	return m, nil
}

// hashLoaded appends the loaded sections of a file except the build ID, which depends on debug information.
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
	if loaded == 0 { // there are no section headers
		h.Bytes(b)
	}
	return nil
}

// linkerSymbols are defined by the linker and start files in each library and program. No reference is
// bound to them across files.
var linkerSymbols = map[string]bool{"_start": true, "_init": true, "_fini": true, "_end": true, "_edata": true, "__bss_start": true}

// globals returns the symbols that aren't local, have a name, and aren't among others.
func globals(syms []elf.Symbol, others map[string]bool) []elf.Symbol {
	return slices.DeleteFunc(slices.Clone(syms), func(s elf.Symbol) bool {
		return s.Name == "" || elf.ST_BIND(s.Info) == elf.STB_LOCAL || others[s.Name]
	})
}

// definitionsOf returns the definitions and references of symbols. A definition with a hidden version V, which no new
// link is bound to, is named foo@V.
func definitionsOf(syms []elf.Symbol) ([]*manifest.Definition, []*manifest.Reference) {
	var defs []*manifest.Definition
	var refs []*manifest.Reference
	for _, s := range syms {
		name := symname.Printable(s.Name)
		if s.Section == elf.SHN_UNDEF {
			refs = append(refs, reference(s.Info, s.Other, name))
			continue
		}
		if s.HasVersion && s.VersionIndex.IsHidden() && s.Version != "" {
			name += "@" + symname.Printable(s.Version)
		}
		d := definition(s.Info, s.Other, name)
		if s.Section == elf.SHN_COMMON {
			d.Binding, d.Size = manifest.Binding_BINDING_COMMON, s.Size
		}
		defs = append(defs, d)
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
		h.Flag(r.Weak)
	}
}
