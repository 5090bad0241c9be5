package witness

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// LinkResult is the outcome of checking the links of a unit's evidence.
type LinkResult struct {
	File string `json:"file"`
	// Symbols is the number of visible symbols that the object defines, References
	// that of what each of its symbols refers to, and Runtime that of references
	// which only the compiler makes.
	Symbols    int `json:"symbols"`
	References int `json:"references"`
	Runtime    int `json:"runtime"`
	Counts
	// NotPlain is why there is no evidence by source, "" if there is.
	NotPlain   string          `json:"not_plain,omitempty"`
	Violations []LinkViolation `json:"violations"`
}

// LinkViolation is a symbol or a reference that the evidence lacks.
type LinkViolation struct {
	Evidence string `json:"evidence"`
	Symbol   string `json:"symbol"`
	Target   string `json:"target,omitempty"`
	Reason   string `json:"reason"`
}

// Links compiles argv and checks, for every symbol that the object defines:
// the evidence has a component that defines it, with the right binding; and
// everything that its bytes refer to, directly or through local symbols, is in the
// links of that component, in their closure, or in that of the roots. Evidence by
// source is checked without optimisation, which removes references and makes
// new ones that mean the same (printf becomes putchar); and what a compiler calls
// on its own (see Runtime) is excepted there, unless the unit itself defines it.
func Links(ctx context.Context, argv []string, clang string) (*LinkResult, error) {
	v, err := compileParts(ctx, argv, clang, byObject|bySource)
	if err != nil {
		return nil, err
	}
	r := &LinkResult{File: v.File, Counts: v.Counts, NotPlain: v.NotPlain, Violations: []LinkViolation{}}
	for i, e := range v.Evidence {
		if e.Name != Source {
			r.check(v.Code, e, i == 0)
		}
	}
	if v.NotPlain == "" {
		if v, err = compileParts(ctx, append(slices.Clone(argv), "-O0"), clang, bySource); err != nil {
			return nil, err
		}
		for _, e := range v.Evidence {
			r.check(v.Code, e, false)
		}
	}
	return r, nil
}

// check compares what o refers to with e.
func (r *LinkResult) check(o *Object, e *Evidence, count bool) {
	report := func(u *Unit, target, format string, args ...any) {
		r.Violations = append(r.Violations, LinkViolation{e.Name, u.Name, target, fmt.Sprintf(format, args...)})
	}
	var roots, work []int
	for i, c := range e.Manifest.Components {
		if c.Root != "" {
			roots = append(roots, i)
		}
	}
	// The closure of each unit is marked with its number: an object has thousands.
	marks := make([]int, len(e.Manifest.Components))
units:
	for n, name := range sortedUnits(o) {
		u := o.Units[name]
		work = append(work[:0], roots...)
		for _, s := range u.visible() {
			if count {
				r.Symbols++
			}
			if len(e.defines[s]) == 0 {
				report(u, "", "%s is defined and no component defines it", s)
				continue units
			}
			r.binding(u, s, e, report)
			work = append(work, e.defines[s]...)
		}
		if count {
			r.References += len(u.Refs)
		}
		if len(u.visible()) == 0 && !u.Root {
			continue // whoever refers to it is checked
		}
		for len(work) > 0 {
			i := work[len(work)-1]
			if work = work[:len(work)-1]; marks[i] != n+1 {
				marks[i] = n + 1
				work = append(work, e.links[i]...)
			}
		}
		reached := func(i int) bool { return marks[i] == n+1 }
		for v := range reach([]*Unit{u}, func(v *Unit) (next []*Unit) {
			for _, ref := range v.Refs {
				for _, w := range o.owners[ref] {
					if len(w.visible()) == 0 {
						next = append(next, w)
					}
				}
			}
			return next
		}) {
			for _, ref := range v.Refs {
				if e.reaches(o, reached, ref) {
					continue
				}
				if e.Name == Source && len(e.defines[ref]) == 0 && Runtime(ref) {
					r.Runtime++
					continue
				}
				report(u, ref, "%s refers to %s, which is neither in the links of its component nor in their closure", v.Name, ref)
			}
		}
	}
}

// reaches reports whether ref, a symbol that o refers to, is in a closure: one of
// its components defines it, links to it, or, if it is local, has its name. A
// local symbol without a component of its own is in another's.
func (e *Evidence) reaches(o *Object, closure func(component int) bool, ref string) bool {
	in := func(l []int) bool { return slices.ContainsFunc(l, closure) }
	if l := o.owners[ref]; len(l) > 0 && !slices.ContainsFunc(l, func(u *Unit) bool { return len(u.visible()) > 0 }) {
		return len(e.labels[ref]) == 0 || in(e.labels[ref])
	}
	if in(e.defines[ref]) {
		return true
	}
	return in(e.linkers[ref])
}

// binding compares that of a symbol with what the evidence says.
func (r *LinkResult) binding(u *Unit, symbol string, e *Evidence, report func(*Unit, string, string, ...any)) {
	for _, i := range e.defines[symbol] {
		for _, d := range e.Manifest.Components[i].Definitions {
			if d.Name == symbol && u.Symbol == symbol && (d.Binding == manifest.Binding_BINDING_WEAK) != u.Weak {
				report(u, "", "%s has another binding than the manifest says, %s", symbol, d.Binding)
			}
		}
	}
}

// compilerCalls lists what compilers call without being told to: block operations,
// string functions into which others are optimised, checks, arithmetic.
var compilerCalls = words.Set(`memcpy memmove memset memcmp bcmp bzero strlen strcpy stpcpy strcat strncat strchr strrchr memchr puts putchar fputc fputs fwrite
		abort __stack_chk_fail __stack_chk_guard __tls_get_addr _GLOBAL_OFFSET_TABLE_ __dso_handle sincos sincosf exp2 exp10 sqrt fmin fmax floor ceil trunc rint nearbyint fma fmod fmodf fmodl pow ldexp
		__start___sancov_guards __stop___sancov_guards`)

// Runtime reports whether a compiler may refer to a symbol on its own.
func Runtime(symbol string) bool {
	return compilerCalls[symbol] || slices.ContainsFunc(runtimePrefixes, func(p string) bool { return strings.HasPrefix(symbol, p) }) ||
		strings.HasPrefix(symbol, "__") && len(symbol) <= 16 && slices.ContainsFunc(modes, func(m string) bool { return strings.Contains(symbol, m) })
}

var runtimePrefixes = strings.Fields("__asan_ __ubsan_ __tsan_ __msan_ __sanitizer_ __kmpc_ __xray_ __profc_ __llvm_ __cyg_profile_ __gcc_personality_ DW.ref. _Unwind_ .gomp_")

// modes are the modes of operands, which libgcc's and compiler-rt's arithmetic has in its names: __udivti3, __floatunditf.
var modes = strings.Fields("qi hi si di ti hf sf df xf tf sc dc xc tc")
