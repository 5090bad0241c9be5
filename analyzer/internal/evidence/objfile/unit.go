package objfile

import (
	"debug/elf"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// object is the content of a manifest for one relocatable object.
type object struct {
	member     string
	components []*component
	references []*manifest.Reference
	attributes []byte
	sections   []byte
	content    []byte
	literals   []byte
	fallbacks  []*manifest.Fallback
	libraries  []string // that it requests from the linker, as words of a link line
}

// readObject takes a relocatable object through all phases: parse, classify, cut, hash.
func readObject(b []byte, member string, assembly bool) (*object, error) {
	f, err := parse(b)
	if why := unusualError(""); errors.As(err, &why) {
		return byContent(b, member, string(why))
	} else if err != nil {
		return nil, damaged(err)
	}
	if f.hasLTO() {
		return nil, errLTO
	}
	if why := f.unusualReason(); why != "" {
		return f.byContent(member, why)
	}
	c := &cutter{
		classified: f.classify(), member: member, cuts: make([]cutting, len(f.sections)), pieces: make([][]piece, len(f.sections)),
		returns: map[function]bool{}, coldParts: map[[2]function]bool{},
	}
	c.cut(assembly)
	if !c.attachUnwind() {
		return f.byContent(member, "section .eh_frame: compilers don't write such entries")
	}
	h := &hasher{cutter: c, attributes: f.attributes(), rootCount: map[string]int{}, positions: map[link]int{}}
	for _, x := range h.components {
		h.hash(x)
	}
	c.findEntries()
	h.addCommonSymbols()
	h.addDebugInformation()
	h.addThreadStorage()
	h.addLimits()
	return &object{member, h.components, f.references(), h.attributes.Sum128(), f.layout(), frame.Buffer(b).Sum128(), f.literals(), h.fallbacks, f.libraries()}, nil
}

// hasLTO reports whether the object holds an intermediate form. Linkers prefer it to the machine code next
// to it (-ffat-lto-objects).
func (f *file) hasLTO() bool {
	return slices.ContainsFunc(f.sections, func(s section) bool { return strings.HasPrefix(s.name, ".gnu.lto_") || s.name == ".llvm.lto" })
}

// layout hashes the sections that aren't for debuggers, by which a linker script may select, and the
// significant addresses (.llvm_addrsig; see link-besides/icf-addrsig).
func (f *file) layout() []byte {
	h := frame.New("tasting sections 6")
	for i := range f.sections {
		s := &f.sections[i]
		to := s
		if s.typ == elf.SHT_RELA {
			to = &f.sections[s.info]
		}
		if ownSection(to.name) && to.typ == elf.SHT_PROGBITS || s.typ == elf.SHT_STRTAB || s.typ == elf.SHT_SYMTAB {
			continue
		}
		h.String(s.name)
		h.Uint(uint64(s.typ))
		h.Uint(uint64(s.flags))
		h.String(s.group)
		h.Uint(s.align)
		h.Uint(s.size)
		h.Bytes(s.data)
	}
	return h.Sum128()
}

// literals hashes the strings of the object in their order. A linker puts each where its first copy is, or
// into another one that ends with it. See link-addresses/literals.
func (f *file) literals() []byte {
	h := frame.New("tasting literals of a unit 1")
	for i := range f.sections {
		s := &f.sections[i]
		if s.loaded() && s.flags&(elf.SHF_WRITE|elf.SHF_EXECINSTR) == 0 && (s.flags&elf.SHF_STRINGS != 0 || s.name == ".rodata") {
			h.String(s.name)
			h.Uint(s.align)
			h.Bytes(s.data)
		}
	}
	return h.Sum128()
}

// libraries returns the libraries that the object requests from the linker.
func (f *file) libraries() (list []string) {
	for i := range f.sections {
		switch s := &f.sections[i]; s.typ {
		case shtLLVMDependentLibs:
			list = append(list, words.Directives(words.DependentLibraries, s.data)...)
		case shtLLVMLinkerOptions:
			list = append(list, words.Directives(words.LinkerOptions, s.data)...)
		}
	}
	return list
}

// addCommonSymbols adds a component for each common symbol, and for each global symbol of a section that
// isn't loaded. See link-besides/nonalloc.
func (r *hasher) addCommonSymbols() {
	for i := range r.syms {
		sym := &r.syms[i]
		if sym.local() || sym.name == "" || sym.name == "__gnu_lto_slim" {
			continue
		}
		name, d := "COMMON", definition(sym.info, sym.other, sym.name)
		switch {
		case sym.sec == secUndefined || sym.sec > 0 && r.kinds[sym.sec] == kindComponent:
			continue
		case sym.sec > 0: // not loaded
			name = r.sections[sym.sec].name
		default:
			d.Binding, d.Size = manifest.Binding_BINDING_COMMON, sym.size
		}
		h := frame.New("tasting symbol 1")
		h.Bytes(r.attributes)
		h.String(name)
		h.String(sym.name)
		h.Uint(sym.value) // the alignment, if it is common
		h.Uint(sym.size)
		h.Int(int(sym.info))
		h.Int(int(sym.other))
		defs := []*manifest.Definition{d}
		r.components = append(r.components, &component{name: sym.name, linkage: linkage(defs, false), definitions: defs, hash: h.Sum128()})
	}
}

// add adds a component that defines nothing and isn't linked to.
func (r *hasher) add(name string, h frame.Buffer) {
	r.components = append(r.components, &component{name: name, linkage: manifest.Linkage_LINKAGE_LOCAL, hash: h.Sum128()})
}

// addDebugInformation adds a component for lines, names and places of local symbols: only readers of debug
// information or of symbol tables see them, such as std::stacktrace. It is no root: the composition of a
// fingerprint knows whether there is a reader. See cxx/stacktrace-static-name and code-read/symbolize-global.
func (r *hasher) addDebugInformation() {
	name, h := manifest.DebugLines, frame.New("tasting debug information 2")
	if slices.ContainsFunc(r.sections, func(s section) bool {
		return s.name == ".debug_line" || s.name == ".zdebug_line"
	}) {
		h.Bytes(r.raw)
	} else {
		var names []string
		for n, c := range r.components {
			for _, i := range c.syms {
				if sym := &r.syms[i]; sym.local() && sym.size > 0 && r.sections[c.sec].loaded() {
					var b frame.Buffer
					b.Int(n) // two equal functions may exchange their names; see link-twins/names-own-one
					b.String(sym.name)
					b.Uint(sym.value - c.base())
					b.Bytes(c.hash)
					names = append(names, string(b))
				}
			}
		}
		if len(names) == 0 {
			return // names of global symbols are in the hashes
		}
		slices.Sort(names)
		h.Strings(names)
		name = manifest.LocalNames
	}
	r.add(name, h)
}

// addThreadStorage adds a component for the size of thread-local storage, which the stack of a thread has
// less. It links to what is stored there, if all of that is in components. See code-closure/tls-stack.
func (r *hasher) addThreadStorage() {
	h := frame.New("tasting thread-local storage 1")
	found, all := false, true
	var links []link
	for i := range r.sections {
		if s := &r.sections[i]; s.loaded() && s.flags&elf.SHF_TLS != 0 && s.size > 0 {
			found = true
			h.Uint(s.size)
			h.Uint(s.align)
			before := len(links)
			for n, c := range r.components {
				if c.sec == i {
					links = append(links, link{component: n})
				}
			}
			all = all && len(links) > before
		}
	}
	for i := range r.syms {
		if sym := &r.syms[i]; sym.sec == secCommon && sym.typ() == elf.STT_TLS {
			found, all = true, false
			h.Uint(sym.size)
			h.Uint(sym.value)
		}
	}
	if found {
		r.add(manifest.ThreadStorage, h)
	}
	if found && all {
		r.components[len(r.components)-1].links = links
	}
}

// largeObject is the size in bytes of a large object: 32-bit distances can't span some hundreds of them.
const largeObject = 4 << 20

// addLimits adds components for relocations that linkers refuse in some kinds of files (absolute addresses
// in a position-independent file, local-exec TLS and direct references to preemptible symbols in a
// library; see link-broken/unreached-not-pie and link-broken/unreached-local-exec), and for the size of a
// large object (see link-unreached/huge-objects).
func (r *hasher) addLimits() {
	size := uint64(0)                         // code reaches over 2 GB
	fixed, executable := uint64(0), uint64(0) // sets of relocation types, which linkers treat differently; see link-unreached/object-fixed-kinds
	for i := range r.sections {
		s := &r.sections[i]
		if !s.loaded() {
			continue
		}
		size += min(s.size, math.MaxInt64>>8)
		for j := range s.relocs {
			sym := &r.syms[s.relocs[j].sym]
			switch typ := s.relocs[j].typ; typ {
			case elf.R_X86_64_32, elf.R_X86_64_32S:
				fixed |= 1 << typ
			case elf.R_X86_64_64:
				if s.flags&elf.SHF_WRITE == 0 {
					fixed |= 1 << typ
				}
			case elf.R_X86_64_TPOFF32, elf.R_X86_64_TPOFF64:
				executable |= 1 << typ
			case elf.R_X86_64_PC32, elf.R_X86_64_PC64:
				if !sym.local() && elf.ST_VISIBILITY(sym.other) == elf.STV_DEFAULT {
					executable |= 1 << typ
				}
			}
		}
	}
	for i := range r.syms {
		if sym := &r.syms[i]; sym.sec == secCommon {
			size += min(sym.size, math.MaxInt64>>8)
		}
	}
	note := func(name string, n uint64) {
		if n > 0 {
			h := frame.New("tasting kind of file 5")
			h.Uint(n)
			r.add(name, h)
		}
	}
	note(manifest.FixedPlace, fixed)
	note(manifest.Executable, executable)
	if size >= largeObject {
		note(manifest.Large, (size+1<<20-1)>>20)
	}
}

// references returns the undefined symbols, referred to or not: they make a linker take members of archives.
// See link-archives/globl-only.
func (f *file) references() []*manifest.Reference {
	uses := make([]uint32, len(f.syms))
	for i := range f.sections {
		s := &f.sections[i]
		for j := 0; s.loaded() && j < len(s.relocs); j++ {
			if rel := &s.relocs[j]; f.syms[rel.sym].sec == secUndefined {
				uses[rel.sym] |= usesOf(rel)
			}
		}
	}
	var refs []*manifest.Reference
	for i := range f.syms {
		if s := &f.syms[i]; s.sec == secUndefined && s.name != "" && !s.local() {
			x := reference(s.info, s.other, s.name)
			x.Uses |= uses[i]
			refs = append(refs, x)
		}
	}
	return uniqueReferences(refs)
}

// usesOf returns how a relocation uses its undefined symbol: in all ways if the type isn't known.
func usesOf(rel *reloc) uint32 {
	inside := uint32(0)
	if pc := rel.typ == elf.R_X86_64_PLT32 || rel.typ == elf.R_X86_64_PC32; pc && rel.addend != -4 || !pc && rel.addend != 0 {
		inside = manifest.UseInside // see trace-sound/jump-by-address
	}
	switch rel.typ {
	case elf.R_X86_64_PLT32, elf.R_X86_64_NONE:
		return inside
	case elf.R_X86_64_GOT32, elf.R_X86_64_GOTPCREL, elf.R_X86_64_GOT64, elf.R_X86_64_GOTPCREL64, elf.R_X86_64_GOTPCRELX, elf.R_X86_64_REX_GOTPCRELX,
		elf.R_X86_64_TLSGD, elf.R_X86_64_GOTTPOFF, elf.R_X86_64_GOTPC32_TLSDESC, elf.R_X86_64_TLSDESC_CALL:
		return manifest.UseBound
	}
	return manifest.UseBound | manifest.UseDirect | inside
}
