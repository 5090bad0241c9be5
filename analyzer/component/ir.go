package component

import (
	"context"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/ctext"
	"github.com/rules-tasting/rules_tasting/analyzer/llvmir"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// irArgs are the flags for the IR of preprocessed C++ on standard input, as
// the front end emits it with the flags of the build.
func irArgs(u *ctext.Unit) []string {
	// Without line markers clang can't tell the headers of the system, where it
	// forgives what elsewhere is an error by default.
	return append(append(slices.Clone(u.DumpFlags), "-v", "-undef", "-w", "-Wno-everything", "-ferror-limit=1", "-fno-color-diagnostics", "-fno-caret-diagnostics",
		"-x", "c++-cpp-output", "-o", "-", "-"), ctext.IRFlags...)
}

// analyzeIR returns the manifest of C++ that clang compiles.
func analyzeIR(ctx context.Context, u *ctext.Unit, clang string) (m *manifest.Manifest, version string, err error) {
	var mod *llvmir.Module
	if u.Emitted != nil {
		for part := range strings.SplitSeq(u.Compiler, "; ") {
			if versionLine.MatchString(part) {
				version = part
			}
		}
		if err := supported(version); err != nil {
			return nil, version, err
		}
		b, err := u.ReadEmitted()
		if err != nil {
			return nil, version, err
		}
		if mod, err = llvmir.Parse(b); err != nil {
			return nil, version, err
		}
		return fromIR(u, mod, version), version, nil
	}
	version, err = clangOutput(ctx, u, clang, irArgs(u), func(out io.Reader) error {
		b, err := io.ReadAll(out)
		if err == nil {
			mod, err = llvmir.Parse(b)
		}
		return err
	})
	if err != nil {
		return nil, version, err
	}
	return fromIR(u, mod, version), version, nil
}

// fromIR returns the manifest of u, whose IR is mod.
func fromIR(u *ctext.Unit, mod *llvmir.Module, clang string) *manifest.Manifest {
	x := ctext.Scan(u.Text)
	sh := newHasher()
	sh.hash(salt(u, x, clang))
	sh.num(uint64(len(mod.State)))
	for _, s := range mod.State {
		sh.str(s)
	}
	// Directives in it (sections, macros) act on all code that follows.
	for _, s := range mod.Asm {
		sh.str(s)
	}
	unit := sh.sum()

	m := &manifest.Manifest{Rung: manifest.Rung_RUNG_FUNCTION, Source: u.Source, Clang: clang, Compiler: u.Compiler, Flags: allFlags(u)}
	bySymbol := map[string]int{}
	h0 := make([]Hash, len(mod.Globals))
	same := map[Hash]int{}
	for i, g := range mod.Globals {
		bySymbol[g.Symbol] = i
		h := newHasher()
		h.hash(unit)
		h.num(uint64(g.Kind))
		h.str(string(g.Content))
		if u.Emitted == nil && g.Places {
			h.str(u.Unnamed)
		}
		h0[i] = h.sum()
		if ownCopy(g) {
			same[h0[i]]++
		}
	}
	named := map[string]bool{} // in asm
	for _, g := range mod.Globals {
		for _, s := range g.Words {
			named[s] = true
		}
	}
	asm := []byte(strings.Join(mod.Asm, "\n"))
	for _, s := range ctext.Words(asm) {
		named[s] = true
	}
	symbol := symbolLinks(m)
	// What the linker and the loader see in order.
	ordered := map[string]int{}
	for _, g := range slices.SortedFunc(slices.Values(mod.Globals), func(a, b *llvmir.Global) int { return a.Position - b.Position }) {
		if rootSection(g) {
			ordered[g.Symbol] = len(ordered) + 1
		}
	}
	for i, g := range mod.Globals {
		c := &manifest.Component{Name: g.Symbol, Kind: irKind(g), Linkage: irLinkage(g), Root: irRoot(g), File: u.Source}
		h := newHasher()
		h.hash(h0[i])
		have := map[string]bool{g.Symbol: true}
		link := func(s string) {
			if have[s] {
				return
			}
			have[s] = true
			if k, ok := bySymbol[s]; ok && ownCopy(mod.Globals[k]) {
				// A local global is identified by its content, and by its name
				// where two have the same.
				h.hash(h0[k])
				if same[h0[k]] > 1 {
					h.str(s)
				}
				c.Links = append(c.Links, uint32(2*k))
				if mod.Globals[k].Linkage == llvmir.Local {
					return
				}
			}
			c.Links = append(c.Links, symbol(s))
		}
		for _, s := range g.Refs {
			link(s)
		}
		for _, s := range g.Words {
			link(s)
		}
		if g.Weak {
			link(manifest.WeakReference)
		}
		if g.Asm {
			m.Fallbacks = append(m.Fallbacks, &manifest.Fallback{Component: g.Symbol, Reason: "words of inline asm count as references", Rung: manifest.Rung_RUNG_FUNCTION})
		}
		h.num(uint64(ordered[g.Symbol]))
		c.Interchangeable = c.Kind == manifest.Kind_KIND_FUNCTION && c.Root == "" && ownCopy(g) && (g.Linkage == llvmir.Inline || !g.AddressTaken && !named[g.Symbol])
		sum := h.sum()
		c.LocalHash = sum[:]
		m.Components = append(m.Components, c)
	}
	if slices.ContainsFunc(mod.Asm, func(s string) bool { return !globl.MatchString(s) }) {
		h := newHasher()
		h.hash(unit)
		h.str("module asm")
		sum := h.sum()
		c := &manifest.Component{Name: "asm#0", Kind: manifest.Kind_KIND_ASM, Linkage: manifest.Linkage_LINKAGE_EXTERNAL, LocalHash: sum[:], Root: "file-scope asm", File: u.Source, Aliases: labels(asm)}
		seen := map[string]bool{}
		for _, w := range ctext.Words(asm) {
			if seen[w] {
				continue
			}
			seen[w] = true
			if k, ok := bySymbol[w]; ok && mod.Globals[k].Linkage == llvmir.Local {
				c.Links = append(c.Links, uint32(2*k))
			} else {
				c.Links = append(c.Links, symbol(w))
			}
		}
		m.Components = append(m.Components, c)
		m.Fallbacks = append(m.Fallbacks, &manifest.Fallback{Component: c.Name, Reason: "token text: file-scope asm", Rung: manifest.Rung_RUNG_FUNCTION})
	}
	return m
}

// ownCopy reports a definition that only this unit uses. That of an inline
// function whose symbol another unit has is one of these: the optimiser may use
// it in the place of a call, but the linker never sees it.
func ownCopy(g *llvmir.Global) bool {
	return g.Linkage == llvmir.Local || g.Linkage == llvmir.Inline
}

// globl matches asm that only names a symbol, so that the linker takes what
// defines it: libstdc++ does that in <iostream>.
var globl = regexp.MustCompile(`^\s*\.globl\s+_Z[\w.$]+\s*$`)

func irKind(g *llvmir.Global) manifest.Kind {
	switch {
	case g.Appended && (g.Symbol == "llvm.global_ctors" || g.Symbol == "llvm.global_dtors"):
		return manifest.Kind_KIND_INITIALIZER
	case strings.HasPrefix(g.Symbol, "_ZTV") || strings.HasPrefix(g.Symbol, "_ZTC") || strings.HasPrefix(g.Symbol, "_ZTT"):
		return manifest.Kind_KIND_VTABLE
	case g.Kind == llvmir.Variable:
		return manifest.Kind_KIND_VARIABLE
	}
	return manifest.Kind_KIND_FUNCTION
}

func irLinkage(g *llvmir.Global) manifest.Linkage {
	switch {
	case ownCopy(g) || g.Appended:
		return manifest.Linkage_LINKAGE_LOCAL
	case g.Linkage == llvmir.External:
		return manifest.Linkage_LINKAGE_EXTERNAL
	}
	return manifest.Linkage_LINKAGE_WEAK
}

// rootSection reports a definition in a section that the source names: a
// linker script or a loop over the section may find it.
func rootSection(g *llvmir.Global) bool {
	return g.Section != "" && !g.Appended && g.Section != ".text.startup"
}

// irRoot says why a definition runs or matters without being referred to.
func irRoot(g *llvmir.Global) string {
	switch {
	case g.Symbol == "llvm.global_ctors":
		return "constructor"
	case g.Symbol == "llvm.global_dtors":
		return "destructor"
	case g.Appended:
		return "used"
	case rootSection(g):
		return "section"
	case g.Kind == llvmir.IFunc:
		return "ifunc"
	case g.Linkage == llvmir.External && reservedCXX(g.Symbol):
		return "called by compilers"
	}
	return ""
}

// reservedCXX recognises symbols that libraries or a compiler may call on their
// own: those of C, replaced operator new and delete, and definitions in the
// standard's and the ABI's namespaces.
func reservedCXX(sym string) bool {
	for _, p := range []string{"_Znw", "_Zna", "_Zdl", "_Zda", "_ZNSt", "_ZNKSt", "_ZSt", "_ZTVSt", "_ZTISt", "_ZTVN10__cxxabiv1", "_ZN10__cxxabiv1", "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx"} {
		if strings.HasPrefix(sym, p) {
			return true
		}
	}
	return reserved(sym)
}
