package objfile

import (
	"debug/elf"
	"strings"
)

// sectionKind is the treatment of a section.
type sectionKind uint8

const (
	kindIgnored   sectionKind = iota // not in the linked file
	kindComponent                    // one or several components
	kindLiterals                     // each literal is part of the components that refer to it
	kindUnwind                       // each entry is part of the code that it describes
	kindHandlers                     // .gcc_except_table: as kindUnwind
)

// classified is a file whose sections have a kind. Later phases make a kindHandlers section
// a kindComponent if they don't understand it.
type classified struct {
	*file
	kinds   []sectionKind
	roots   []string      // why a section is a root, or ""
	ordered map[int][]int // by section, the SHF_LINK_ORDER sections that follow its order
}

// classify finds the kind of each section, and which are roots.
func (f *file) classify() *classified {
	r := &classified{file: f, kinds: make([]sectionKind, len(f.sections)), roots: make([]string, len(f.sections)), ordered: map[int][]int{}}
	referred := make([]bool, len(r.sections))
	for i := range r.sections {
		s := &r.sections[i]
		for _, rel := range s.relocs {
			if k := r.syms[rel.sym].sec; k > 0 {
				referred[k] = true
			}
		}
		if s.flags&elf.SHF_LINK_ORDER != 0 {
			r.ordered[int(s.link)] = append(r.ordered[int(s.link)], i)
		}
	}
	for i := range r.sections {
		s := &r.sections[i]
		switch {
		case affectsLink(s):
			r.kinds[i] = kindComponent
		case !s.loaded(), s.name == ".note.gnu.property":
		case r.isUnwind(i):
			if s.size > 0 {
				r.kinds[i] = kindUnwind
			}
		case isLiterals(s):
			r.kinds[i] = kindLiterals
		case s.size == 0 && !referred[i] && len(s.locals)+len(s.globals) == 0 && (standardName(s.name) != "" || s.flags&elf.SHF_ALLOC == 0):
		case s.name == ".gcc_except_table" || strings.HasPrefix(s.name, ".gcc_except_table."):
			r.kinds[i] = kindHandlers
		default:
			r.kinds[i] = kindComponent
		}
		r.roots[i] = r.rootReason(i)
	}
	return r
}

// affectsLink reports whether an unloaded section tells the linker something that changes the program.
func affectsLink(s *section) bool {
	return s.typ == shtLLVMLinkerOptions || s.typ == shtLLVMDependentLibs
}

// isLiterals reports whether a section holds constants that a linker merges with equal ones
// (SHF_MERGE).
func isLiterals(s *section) bool {
	return s.flags&elf.SHF_MERGE != 0 && s.flags&elf.SHF_WRITE == 0 && s.typ == elf.SHT_PROGBITS && s.entsize > 0 &&
		standardName(s.name) != "" && len(s.relocs) == 0 && len(s.globals) == 0
}

// rootReason returns why the components of section k are roots, or "": the section runs by itself, has a
// name that __start_NAME finds (see code-closure/linker-set-other-unit), or isn't understood.
func (r *classified) rootReason(k int) string {
	s := &r.sections[k]
	switch {
	case affectsLink(s):
	case uint64(s.flags)&shfGNURetain != 0 && !isIdentifier(s.name):
		return "retained section " + s.name // see g-complete/retain-attribute
	case isInitArray(s):
	case standardName(s.name) != "":
		return ""
	case isIdentifier(s.name):
		return "linker set " + s.name
	}
	return "section " + s.name
}

// isInitArray reports whether a section is a list of initialisers or finalisers.
func isInitArray(s *section) bool {
	return s.typ == elf.SHT_INIT_ARRAY || s.typ == elf.SHT_FINI_ARRAY || s.typ == elf.SHT_PREINIT_ARRAY
}

// isIdentifier reports whether linkers define __start_NAME and __stop_NAME for a section with that name.
// GNU ld accepts a digit in front. See link-files/set-digit-libraries.
func isIdentifier(s string) bool {
	for _, c := range []byte(s) {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// isUnwind reports whether section k is an unwind table.
func (f *file) isUnwind(k int) bool {
	s := &f.sections[k]
	return s.name == ".eh_frame" || s.typ == shtX86Unwind
}
