package check

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/component"
	"github.com/rules-tasting/rules_tasting/analyzer/ctext"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/refgraph"
)

// Analysis is a manifest with what Explain needs of it: who reaches what, and
// the identity of each root.
type Analysis struct {
	Manifest *manifest.Manifest
	// Clang is true if the compiler of the build is a clang.
	Clang bool

	graph  *refgraph.Graph
	byName map[string][]int // components by name and alias
	links  [][]int          // within the manifest
	users  [][]int          // the reverse
	hashes map[string]refgraph.Hash
}

// Analyze analyses the source in argv, a compiler's command line.
func Analyze(ctx context.Context, argv []string, clang string) (*Analysis, error) {
	u, _, err := ctext.Preprocess(ctx, argv, ctext.Options{})
	if err != nil {
		return nil, err
	}
	m, err := component.Analyze(ctx, u, clang)
	if err != nil {
		return nil, err
	}
	// The canonical form is what composition will see.
	b, err := manifest.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.Source, err)
	}
	if m, err = manifest.Unmarshal(b); err != nil {
		return nil, fmt.Errorf("%s: %w", u.Source, err)
	}
	a := NewAnalysis(m)
	a.Clang = u.Clang
	return a, nil
}

// NewAnalysis prepares a manifest in canonical form.
func NewAnalysis(m *manifest.Manifest) *Analysis {
	a := &Analysis{
		Manifest: m, byName: map[string][]int{}, hashes: map[string]refgraph.Hash{},
		graph: refgraph.New([]refgraph.Source{{Name: m.Source, Manifest: m}}),
		links: make([][]int, len(m.Components)), users: make([][]int, len(m.Components)),
	}
	for i, c := range m.Components {
		for _, n := range append([]string{c.Name}, c.Aliases...) {
			a.byName[n] = append(a.byName[n], i)
		}
	}
	// With a section for each function, the section's name tells local ones.
	for i, c := range m.Components {
		if n := symbolOfSection(c.Name); n != "" && c.Kind == manifest.Kind_KIND_SECTION && a.byName[n] == nil {
			a.byName[n] = []int{i}
		}
	}
	for i, c := range m.Components {
		for _, l := range c.Links {
			to := []int{int(l / 2)}
			if l%2 == 1 {
				to = a.byName[m.Symbols[l/2]]
			}
			for _, t := range to {
				a.links[i] = append(a.links[i], t)
				a.users[t] = append(a.users[t], i)
			}
		}
	}
	return a
}

// symbolOfSection returns what -ffunction-sections and -fdata-sections append
// to the name of a section, "" if nothing.
func symbolOfSection(name string) string {
	for _, p := range []string{".text.unlikely.", ".text.startup.", ".text.exit.", ".text.hot.", ".text.", ".data.rel.ro.local.", ".data.rel.ro.",
		".data.rel.local.", ".data.rel.", ".data.", ".bss.", ".rodata.", ".tbss.", ".tdata."} {
		if s, ok := strings.CutPrefix(name, p); ok {
			s, _, _ = strings.Cut(s, "#")
			return s
		}
	}
	return ""
}

// find returns the components that a symbol of an object belongs to. What
// compilers derive from a function has its name with a suffix: f.cold,
// f.part.0, static locals f.x and f.x.1, versions f.avx2.
func (a *Analysis) find(symbol string) []int {
	symbol, _, _ = strings.Cut(symbol, "#")
	for {
		if l := a.byName[symbol]; len(l) > 0 {
			return l
		}
		// A symbol version, name@VERSION or name@@VERSION.
		i := max(strings.LastIndexByte(symbol, '.'), strings.IndexByte(symbol, '@'))
		if i <= 0 {
			return nil
		}
		symbol = symbol[:i]
	}
}

// reach returns what is connected to start by next, start included.
func reach(start []int, next func(int) []int) map[int]bool {
	seen := map[int]bool{}
	work := slices.Clone(start)
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		if !seen[i] {
			seen[i] = true
			work = append(work, next(i)...)
		}
	}
	return seen
}

// entry is the name under which component i can be entered from outside: its
// symbol, "" for what is a root in any case; ok is false for what can only be
// reached from inside.
func (a *Analysis) entry(i int) (name string, ok bool) {
	c := a.Manifest.Components[i]
	switch {
	case c.Root != "":
		return "", true
	case c.Linkage != manifest.Linkage_LINKAGE_LOCAL:
		return c.Name, true
	}
	return "", false
}

// entries returns the entries that reach any of comps.
func (a *Analysis) entries(comps []int) map[string]bool {
	out := map[string]bool{}
	for i := range reach(comps, func(i int) []int { return a.users[i] }) {
		if name, ok := a.entry(i); ok {
			out[name] = true
		}
	}
	return out
}

// hash returns the identity of a test that enters at name and links nothing
// but this unit.
func (a *Analysis) hash(name string) refgraph.Hash {
	h, ok := a.hashes[name]
	if !ok {
		roots := refgraph.Roots{}
		if name != "" {
			roots.Symbols = []string{name}
		}
		h = a.graph.Closure(roots).Hash()
		a.hashes[name] = h
	}
	return h
}

// Explanation of a difference.
type Explanation struct {
	Difference
	Level string `json:"level"`
	// Components that the unit belongs to, by name.
	Components []string `json:"components"`
	// Missed are the entries that reach the unit and whose identity is the
	// same in both versions: a test that enters there would be replayed
	// wrongly. "" stands for roots that every test has.
	Missed []string `json:"missed,omitempty"`
	// Reason says why the difference isn't explained, "" if it is.
	Reason string `json:"reason,omitempty"`
}

// Violation reports whether the difference isn't explained.
func (e *Explanation) Violation() bool { return e.Reason != "" }

// Explain decides whether a difference between two objects is visible in the
// hashes of their analyses a and b.
func Explain(a, b *Analysis, oa, ob *Object, level Level, d Difference) Explanation {
	e := Explanation{Difference: d, Level: level.Name}
	x, y := a.unit(oa, d.a, nil), b.unit(ob, d.b, nil)
	names := map[string]bool{}
	for _, i := range x {
		names[a.Manifest.Components[i].Name] = true
	}
	for _, i := range y {
		names[b.Manifest.Components[i].Name] = true
	}
	e.Components = sorted(names)
	if d.a == nil && localOnly(ob, d.b) || d.b == nil && localOnly(oa, d.a) {
		// Emitted because something else refers to it, or no longer: that
		// differs as well, and has to be explained itself.
		return e
	}
	if (d.a == nil || d.b == nil) && sameLocal(a, b, d.Unit) {
		return e // it was there before, for an alias or inlining not by itself
	}
	if len(x) == 0 && len(y) == 0 {
		e.Reason = "no component has this symbol"
		return e
	}
	if d.a == nil && len(y) == 0 || d.b == nil && len(x) == 0 {
		e.Reason = "no component has this symbol"
		return e
	}
	if level.Interprocedural && connectedDiffers(a, b, x, y) {
		return e
	}
	entries := a.entries(x)
	for n := range b.entries(y) {
		entries[n] = true
	}
	if len(entries) == 0 {
		if !sameLocally(a, b, x, y) {
			return e
		}
		e.Reason = "no entry reaches its component, and the component is the same"
		return e
	}
	for n := range entries {
		if a.hash(n) == b.hash(n) {
			e.Missed = append(e.Missed, n)
		}
	}
	slices.Sort(e.Missed)
	if len(e.Missed) > 0 {
		show := e.Missed[0]
		if show == "" {
			show = "what every test contains"
		}
		e.Reason = fmt.Sprintf("reached from %s, whose identity is the same in both versions", show)
	}
	return e
}

// reserved reports a name that no C program may define: the compiler made it.
func reserved(symbol string) bool {
	return strings.HasPrefix(symbol, ".") || strings.HasPrefix(symbol, "__") || strings.HasPrefix(symbol, "DW.ref.")
}

// unit returns the components that a unit of an object belongs to. A local or
// reserved symbol that no component has (a table or a lock that the compiler
// made) belongs to those who refer to it.
func (a *Analysis) unit(o *Object, u *Unit, seen map[*Unit]bool) []int {
	if u == nil {
		return nil
	}
	set := map[int]bool{}
	if section, ok := strings.CutPrefix(u.Name, "section "); ok {
		return a.section(o, u, section)
	}
	for _, i := range a.find(u.Symbol) {
		set[i] = true
	}
	if len(set) == 0 {
		// File-scope asm can define any symbol, and so can C++ that is analysed
		// as a whole.
		for i, c := range a.Manifest.Components {
			if c.Kind == manifest.Kind_KIND_ASM || c.Kind == manifest.Kind_KIND_FILE {
				set[i] = true
			}
		}
	}
	if len(set) == 0 && (u.Local || reserved(u.Symbol)) && !seen[u] {
		if seen == nil {
			seen = map[*Unit]bool{}
		}
		seen[u] = true
		for _, v := range o.Units {
			if v != u && slices.Contains(v.Refs, u.Name) {
				for _, i := range a.unit(o, v, seen) {
					set[i] = true
				}
			}
		}
	}
	if len(set) == 0 && (reserved(u.Symbol) || u.Local && a.Manifest.Rung == manifest.Rung_RUNG_OBJECT) {
		// Nobody refers to it: a record of the unit as a whole, or a second name
		// that gcc gave to one of equal functions.
		for i := range a.Manifest.Components {
			set[i] = true
		}
	}
	return keys(set)
}

// section returns the components that what no symbol covers may belong to:
// file-scope asm, or the parts of an ordered table.
func (a *Analysis) section(o *Object, u *Unit, section string) []int {
	set := map[int]bool{}
	for i, c := range a.Manifest.Components {
		if c.Kind == manifest.Kind_KIND_ASM || c.Kind == manifest.Kind_KIND_FILE || c.Kind == manifest.Kind_KIND_INITIALIZER {
			set[i] = true
		}
	}
	for _, r := range u.Refs {
		for _, i := range a.find(r) {
			set[i] = true
		}
	}
	if linkerReads(section) || len(set) == 0 {
		// A message to the linker concerns all of the unit.
		for i := range a.Manifest.Components {
			set[i] = true
		}
	}
	return keys(set)
}

func keys(set map[int]bool) []int {
	out := make([]int, 0, len(set))
	for i := range set {
		out = append(out, i)
	}
	slices.Sort(out)
	return out
}

// localOnly reports a local unit that is in one object only and is there
// because of another unit that refers to it.
func localOnly(o *Object, u *Unit) bool {
	if u.Symbol == "" || !u.Local && !reserved(u.Symbol) {
		return false
	}
	for _, v := range o.Units {
		if v != u && slices.Contains(v.Refs, u.Name) && !strings.HasPrefix(v.Name, "section llvm.") {
			return true
		}
	}
	return false
}

// describe identifies a component by everything that composition uses.
func (a *Analysis) describe(i int) string {
	c := a.Manifest.Components[i]
	names, _ := a.Manifest.LinkNames(c)
	return fmt.Sprintf("%x %v %q %q %q", c.LocalHash, c.Linkage, c.Root, c.Aliases, names)
}

// differs reports whether any component of x isn't in b in the same form, or
// the reverse.
func differs(a, b *Analysis, x, y map[int]bool) bool {
	side := func(a *Analysis, x map[int]bool) []string {
		var out []string
		for i := range x {
			out = append(out, a.Manifest.Components[i].Name+" "+a.describe(i))
		}
		slices.Sort(out)
		return out
	}
	return !slices.Equal(side(a, x), side(b, y))
}

// sameLocally compares closures.
func sameLocally(a, b *Analysis, x, y []int) bool {
	return !differs(a, b, reach(x, func(i int) []int { return a.links[i] }), reach(y, func(i int) []int { return b.links[i] }))
}

// connectedDiffers compares everything connected to x and y through local
// components, with their closures.
func connectedDiffers(a, b *Analysis, x, y []int) bool {
	side := func(a *Analysis, x []int) map[int]bool {
		group := reach(x, func(i int) []int {
			var out []int
			out = append(out, a.links[i]...)
			if a.Manifest.Components[i].Linkage == manifest.Linkage_LINKAGE_LOCAL {
				out = append(out, a.users[i]...)
			}
			return out
		})
		return group
	}
	return differs(a, b, side(a, x), side(b, y))
}

// Pair is the outcome of comparing two versions.
type Pair struct {
	// Emitted are all differences in what is emitted, at any level.
	Emitted []Explanation `json:"emitted"`
	// Changed are the entries whose identity differs.
	Changed []string `json:"changed"`
	// Unneeded are those of them that reach nothing that differs in what is
	// emitted at any level: tests that would run without need.
	Unneeded []string `json:"unneeded,omitempty"`
	// Fallback is why one of the versions was analysed as a whole file.
	Fallback string `json:"fallback,omitempty"`
}

// Violations returns the differences that aren't explained.
func (p *Pair) Violations() []Explanation {
	var out []Explanation
	for _, e := range p.Emitted {
		if e.Violation() {
			out = append(out, e)
		}
	}
	return out
}

// ComparePair compares what is emitted for two versions, level by level, with
// their analyses.
func ComparePair(a, b *Analysis, oa, ob []*Object, levels []Level) *Pair {
	p := &Pair{}
	needed := map[string]bool{}
	inlined := inlineOrder(oa, ob, levels)
	for k, level := range levels {
		for _, d := range Compare(oa[k], ob[k]) {
			if d.What == "bytes" && level.Name == "-O0" && inlined(d.Unit) {
				continue
			}
			e := Explain(a, b, oa[k], ob[k], level, d)
			p.Emitted = append(p.Emitted, e)
			for n := range a.entries(a.unit(oa[k], d.a, nil)) {
				needed[n] = true
			}
			for n := range b.entries(b.unit(ob[k], d.b, nil)) {
				needed[n] = true
			}
		}
	}
	all := map[string]bool{}
	for _, s := range []*Analysis{a, b} {
		for i := range s.Manifest.Components {
			if n, ok := s.entry(i); ok {
				all[n] = true
			}
		}
		for _, f := range s.Manifest.Fallbacks {
			if f.Rung == manifest.Rung_RUNG_FILE {
				p.Fallback = f.Reason
			}
		}
	}
	for _, n := range sorted(all) {
		if a.hash(n) != b.hash(n) {
			p.Changed = append(p.Changed, n)
			if !needed[n] && !needed[""] {
				p.Unneeded = append(p.Unneeded, n)
			}
		}
	}
	slices.SortStableFunc(p.Emitted, func(x, y Explanation) int { return cmp.Compare(x.Unit, y.Unit) })
	return p
}

// inlineOrder tells for units of the -O0 objects whether their code may differ
// by nothing but the order in which clang inlined always_inline functions,
// which follows that of all functions in the file and decides where variables
// are in the stack frame: everything that the unit reaches is the same in IR,
// and there is an always_inline function among it.
func inlineOrder(oa, ob []*Object, levels []Level) func(unit string) bool {
	ir := slices.IndexFunc(levels, func(l Level) bool { return l.IR })
	if ir < 0 {
		return func(string) bool { return false }
	}
	a, b := oa[ir], ob[ir]
	differs := map[string]bool{}
	for _, d := range Compare(a, b) {
		differs[d.Unit] = true
	}
	return func(unit string) bool {
		seen := map[string]bool{}
		work, inline := []string{unit}, false
		for len(work) > 0 {
			n := work[len(work)-1]
			work = work[:len(work)-1]
			u := a.Units[n]
			if u == nil || seen[n] {
				continue
			}
			seen[n] = true
			if differs[n] {
				return false
			}
			inline = inline || bytes.Contains(u.Text, []byte("alwaysinline"))
			work = append(work, u.Refs...)
		}
		return inline && seen[unit]
	}
}

// sameLocal reports a symbol of a local component that is the same in both.
func sameLocal(a, b *Analysis, symbol string) bool {
	x, y := a.byName[symbol], b.byName[symbol]
	return len(x) == 1 && len(y) == 1 && a.Manifest.Components[x[0]].Linkage == manifest.Linkage_LINKAGE_LOCAL &&
		a.describe(x[0]) == b.describe(y[0])
}

// fresh returns a copy of a whose cache isn't shared, for concurrent use.
func (a *Analysis) fresh() *Analysis {
	c := *a
	c.hashes = map[string]refgraph.Hash{}
	return &c
}
