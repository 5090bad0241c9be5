package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/ctext"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// LinkResult is the outcome of checking a unit's links.
type LinkResult struct {
	File string `json:"file"`
	// Symbols is the number of symbols that the object defines at -O0,
	// References that of symbols referred to by each, and Runtime that of
	// references which only the compiler makes.
	Symbols    int             `json:"symbols"`
	References int             `json:"references"`
	Runtime    int             `json:"runtime"`
	Violations []LinkViolation `json:"violations"`
}

// LinkViolation is a symbol or a reference that the manifest lacks.
type LinkViolation struct {
	Level  string `json:"level"`
	Symbol string `json:"symbol"`
	Target string `json:"target,omitempty"`
	Reason string `json:"reason"`
}

// ErrNoWitness says that there is nothing to compare a unit with.
var ErrNoWitness = errors.New("nothing to compare the links with")

// Links compiles argv and checks, for every symbol that the object defines:
// the manifest has a component for it, with the right linkage; and everything
// that its bytes refer to is in the links of that component, in their closure,
// or in that of the roots. What a compiler calls on its own (see Runtime) is excepted, unless
// the unit itself defines it.
func Links(ctx context.Context, argv []string, clang string) (*LinkResult, error) {
	a, err := Analyze(ctx, argv, clang)
	if err != nil {
		return nil, err
	}
	if a.Manifest.Rung == manifest.Rung_RUNG_OBJECT {
		return nil, fmt.Errorf("%s: %w: its manifest is made of its object code; check it with clang", a.Manifest.Source, ErrNoWitness)
	}
	// Optimisation removes references and makes new ones that mean the same
	// (printf becomes putchar, equal constants become one): only what the front
	// end emits is compared.
	levels := Levels(a.Clang, argv, false)
	if inv, err := ctext.ParseArgs(argv); err != nil {
		return nil, err
	} else if inv.Lang == "c++" {
		levels = levels[:1]
	} else {
		levels = slices.DeleteFunc(levels, func(l Level) bool { return l.IR || l.Interprocedural })
	}
	objects, err := Compile(ctx, argv, a.Clang, levels)
	if err != nil {
		return nil, err
	}
	return compareLinks(a, objects, levels), nil
}

func compareLinks(a *Analysis, objects []*Object, levels []Level) *LinkResult {
	r := &LinkResult{File: a.Manifest.Source, Violations: []LinkViolation{}}
	for k, level := range levels {
		r.check(a, objects[k], level, k == 0)
	}
	return r
}

func (r *LinkResult) check(a *Analysis, o *Object, level Level, count bool) {
	report := func(u *Unit, target, format string, args ...any) {
		r.Violations = append(r.Violations, LinkViolation{level.Name, u.Name, target, fmt.Sprintf(format, args...)})
	}
	for _, name := range sortedUnits(o) {
		u := o.Units[name]
		if count && u.Symbol != "" {
			r.Symbols++
		}
		comps := a.unit(o, u, nil)
		if len(comps) == 0 && u.Symbol != "" {
			report(u, "", "%s is defined and no component has this symbol", u.Symbol)
			continue
		}
		if u.Symbol != "" && len(a.byName[u.Symbol]) > 0 {
			r.linkage(a, u, report)
		}
		// Every test contains the roots.
		closure := a.closure(slices.Concat(comps, a.roots()))
		names := a.names(closure)
		for _, ref := range u.Refs {
			if count {
				r.References++
			}
			if names[ref] || a.local(o, ref, closure) {
				continue
			}
			if len(a.byName[ref]) == 0 && Runtime(ref) {
				if count {
					r.Runtime++
				}
				continue
			}
			report(u, ref, "%s refers to %s, which is neither in the links of %s nor in their closure", u.Name, ref, strings.Join(a.componentNames(comps), ", "))
		}
	}
}

// linkage compares the binding of a symbol with what the manifest says.
func (r *LinkResult) linkage(a *Analysis, u *Unit, report func(*Unit, string, string, ...any)) {
	for _, i := range a.byName[u.Symbol] {
		c := a.Manifest.Components[i]
		if c.Kind == manifest.Kind_KIND_FILE {
			return
		}
		local := c.Linkage == manifest.Linkage_LINKAGE_LOCAL && !slices.Contains(c.Aliases, u.Symbol)
		switch {
		case local && !u.Local:
			report(u, "", "%s is visible outside, and the manifest says that it is local", u.Symbol)
		case u.Weak && c.Linkage == manifest.Linkage_LINKAGE_EXTERNAL:
			report(u, "", "%s is weak, and the manifest says that it isn't", u.Symbol)
		}
	}
}

func (a *Analysis) roots() (out []int) {
	for i, c := range a.Manifest.Components {
		if c.Root != "" {
			out = append(out, i)
		}
	}
	return out
}

// closure returns what comps reach.
func (a *Analysis) closure(comps []int) map[int]bool {
	return reach(comps, func(i int) []int { return a.links[i] })
}

// names returns all symbols that the closure's components define or refer to.
func (a *Analysis) names(closure map[int]bool) map[string]bool {
	out := map[string]bool{}
	for i := range closure {
		c := a.Manifest.Components[i]
		out[c.Name] = true
		for _, n := range c.Aliases {
			out[n] = true
		}
		links, _ := a.Manifest.LinkNames(c)
		for _, n := range links {
			out[n] = true
		}
	}
	return out
}

// local reports whether ref belongs to a component in the closure under
// another name: static locals, parts of functions, tables of the compiler.
func (a *Analysis) local(o *Object, ref string, closure map[int]bool) bool {
	u := o.Units[ref]
	if u == nil {
		return false
	}
	for _, i := range a.unit(o, u, nil) {
		if closure[i] {
			return true
		}
	}
	return false
}

func (a *Analysis) componentNames(comps []int) []string {
	var out []string
	for _, i := range comps {
		out = append(out, a.Manifest.Components[i].Name)
	}
	return out
}

// compilerCalls lists what compilers call without being told to: block operations,
// string functions into which others are optimised, checks, arithmetic.
var compilerCalls = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`memcpy memmove memset memcmp bcmp bzero strlen strcpy stpcpy strcat strncat strchr strrchr memchr puts putchar fputc fputs fwrite
		abort __stack_chk_fail __stack_chk_guard __tls_get_addr _GLOBAL_OFFSET_TABLE_ __dso_handle sincos sincosf exp2 exp10 sqrt fmin fmax floor ceil trunc rint nearbyint fma fmod fmodf fmodl pow ldexp
		__start___sancov_guards __stop___sancov_guards`) {
		m[w] = true
	}
	return m
}()

// Runtime reports a symbol that a compiler may refer to on its own.
func Runtime(symbol string) bool {
	if compilerCalls[symbol] {
		return true
	}
	for _, p := range []string{"__asan_", "__ubsan_", "__tsan_", "__msan_", "__sanitizer_", "__kmpc_", "__xray_", "__profc_", "__llvm_", "__cyg_profile_", "__gcc_personality_", "DW.ref.", "_Unwind_", ".gomp_"} {
		if strings.HasPrefix(symbol, p) {
			return true
		}
	}
	// libgcc's and compiler-rt's arithmetic has the modes of its operands in
	// its names: __udivti3, __floatunditf.
	if strings.HasPrefix(symbol, "__") && len(symbol) <= 16 {
		for _, m := range []string{"qi", "hi", "si", "di", "ti", "hf", "sf", "df", "xf", "tf", "sc", "dc", "xc", "tc"} {
			if strings.Contains(symbol, m) {
				return true
			}
		}
	}
	return false
}
