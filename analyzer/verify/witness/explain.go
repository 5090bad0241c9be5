package witness

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/refgraph"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkmodel"
)

// Evidence is a manifest, and what identifies a test that links nothing but its
// unit, for each symbol at which the test may begin.
type Evidence struct {
	Name     string
	Manifest *manifest.Manifest

	defines      map[string][]int // components by the symbols that they define
	labels       map[string][]int // by their names
	linkers      map[string][]int // and by the symbols that they link to
	links, users [][]int          // within the manifest
	pool         *refgraph.Pool
	composer     *refgraph.Composer
	program      *linkmodel.Program
	mu           sync.Mutex               // a version may be compared by many at once
	identities   map[string]refgraph.Hash // of entries, once they are asked for
	roots        refgraph.Hash            // of what every test contains
}

// newEvidence prepares m, as composition will see it.
func newEvidence(name string, m *manifest.Manifest) (*Evidence, error) {
	b, err := manifest.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Source, err)
	}
	if m, err = manifest.Unmarshal(b); err != nil {
		return nil, fmt.Errorf("%s: %w", m.Source, err)
	}
	e := &Evidence{
		Name: name, Manifest: m, defines: map[string][]int{}, labels: map[string][]int{}, linkers: map[string][]int{},
		links: make([][]int, len(m.Components)), users: make([][]int, len(m.Components)),
		pool: refgraph.NewPool(), identities: map[string]refgraph.Hash{},
	}
	for i, c := range m.Components {
		for _, d := range c.Definitions {
			// A version of a symbol: NAME@VERSION, NAME@@VERSION.
			n, _, _ := strings.Cut(d.Name, "@")
			e.defines[n] = append(e.defines[n], i)
		}
		n, _, _ := strings.Cut(c.Name, "#")
		e.labels[n] = append(e.labels[n], i)
	}
	for i, c := range m.Components {
		for _, l := range c.Links {
			to := []int{int(l / 2)}
			if l%2 == 1 {
				n, _, _ := strings.Cut(m.Symbols[l/2], "@")
				to = e.defines[n]
				e.linkers[n] = append(e.linkers[n], i)
			}
			for _, t := range to {
				e.links[i] = append(e.links[i], t)
				e.users[t] = append(e.users[t], i)
			}
		}
	}
	file := linkmodel.File{Name: m.Source}
	for _, u := range e.pool.Add(m) {
		file.Entries = append(file.Entries, linkmodel.Entry{Unit: u})
	}
	e.program = &linkmodel.Program{Files: []linkmodel.File{file}}
	e.composer = e.pool.NewComposer()
	e.roots = e.identity("")
	return e, nil
}

// identity is that of a test that begins at symbol.
func (e *Evidence) identity(symbol string) refgraph.Hash {
	e.mu.Lock()
	defer e.mu.Unlock()
	h, ok := e.identities[symbol]
	if !ok {
		h = e.composer.Compose(e.program, refgraph.Roots{Symbols: []string{symbol}}).Hash
		e.identities[symbol] = h
	}
	return h
}

// same reports whether a test that begins at symbol, "" for what every test
// contains, has the same identity in both.
func same(a, b *Evidence, symbol string) bool {
	if symbol == "" || a.roots != b.roots {
		return a.roots == b.roots
	}
	return a.identity(symbol) == b.identity(symbol)
}

// Explanation of a difference.
type Explanation struct {
	Difference
	Evidence string `json:"evidence"`
	// Missed are the entries that reach the unit and whose identity is the
	// same in both versions: a test that enters there would be replayed
	// wrongly. "" stands for what every test has.
	Missed []string `json:"missed,omitempty"`
	// Reason is why the difference isn't explained, "" if it is.
	Reason string `json:"reason,omitempty"`
}

// Violation reports whether the difference isn't explained.
func (e *Explanation) Violation() bool { return e.Reason != "" }

// explain decides whether a difference between what two versions emit is visible
// in their evidence: whoever reaches it in the object, on either side, has
// another identity.
func explain(a, b *Version, oa, ob *Object, ea, eb *Evidence, d Difference) Explanation {
	x := Explanation{Difference: d, Evidence: ea.Name}
	if ea.Name == Shared && d.a != nil && d.b != nil {
		switch p, q := a.placed[d.a.Symbol], b.placed[d.b.Symbol]; {
		case d.What == "alignment" && p.align == q.align:
			return x // the object that runs has it at a place that is as good
		case d.What == "bytes" && p.bytes != "" && p.bytes == q.bytes:
			return x // zeros at its end were padding before
		}
	}
	entries := oa.entries(d.a)
	maps.Copy(entries, ob.entries(d.b))
	for n := range entries {
		if same(ea, eb, n) {
			x.Missed = append(x.Missed, n)
		}
	}
	slices.Sort(x.Missed)
	if len(x.Missed) > 0 && ea.Name == Source && oa != a.IR && connectedDiffers(ea, eb, x.Missed) {
		x.Missed = nil
	}
	if len(x.Missed) > 0 {
		show := x.Missed[0]
		if show == "" {
			show = "what every test contains"
		}
		x.Reason = fmt.Sprintf("reached from %s, whose identity is the same in both versions", show)
	}
	return x
}

// connectedDiffers reports whether everything that is connected to entries
// through local components differs: see the package's comment.
func connectedDiffers(a, b *Evidence, entries []string) bool {
	side := func(e *Evidence, entry string) (out []string) {
		start := e.defines[entry]
		for i := range reach(start, func(i int) []int {
			if e.Manifest.Components[i].Linkage == manifest.Linkage_LINKAGE_LOCAL {
				return slices.Concat(e.links[i], e.users[i])
			}
			return e.links[i]
		}) {
			c := e.Manifest.Components[i]
			links, _ := e.Manifest.LinkNames(c)
			out = append(out, fmt.Sprintf("%s %x %v %q %v %q", c.Name, c.LocalHash, c.Linkage, c.Root, c.Definitions, links))
		}
		slices.Sort(out)
		return out
	}
	for _, n := range entries {
		if slices.Equal(side(a, n), side(b, n)) {
			return false
		}
	}
	return true
}

// Pair is the outcome of comparing two versions by one sort of evidence.
type Pair struct {
	Evidence string `json:"evidence"`
	// Emitted are all differences in what is emitted.
	Emitted []Explanation `json:"emitted"`
	// Changed are the entries whose identity differs.
	Changed []string `json:"changed"`
	// Unneeded are those of them that reach nothing that differs in what is
	// emitted: tests that would run without need.
	Unneeded []string `json:"unneeded,omitempty"`
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

// ComparePair compares what is emitted for two versions with each sort of
// evidence that both have.
func ComparePair(a, b *Version) []*Pair {
	code := Compare(a.Code, b.Code)
	var pairs []*Pair
	for _, ea := range a.Evidence {
		i := slices.IndexFunc(b.Evidence, func(e *Evidence) bool { return e.Name == ea.Name })
		if i < 0 {
			continue
		}
		eb := b.Evidence[i]
		p := &Pair{Evidence: ea.Name}
		needed := map[string]bool{}
		compare := func(oa, ob *Object, list []Difference) {
			for _, d := range list {
				p.Emitted = append(p.Emitted, explain(a, b, oa, ob, ea, eb, d))
				maps.Copy(needed, oa.entries(d.a))
				maps.Copy(needed, ob.entries(d.b))
			}
		}
		if ea.Name == Source && a.IR != nil && b.IR != nil {
			compare(a.IR, b.IR, Compare(a.IR, b.IR))
			inlined := inlineOrder(a.IR, b.IR)
			compare(a.Code, b.Code, slices.DeleteFunc(slices.Clone(code), func(d Difference) bool { return d.What == "bytes" && inlined(d.Unit) }))
		} else {
			compare(a.Code, b.Code, code)
		}
		all := map[string]bool{"": true}
		for n := range ea.defines {
			all[n] = true
		}
		for n := range eb.defines {
			all[n] = true
		}
		for _, n := range slices.Sorted(maps.Keys(all)) {
			if !same(ea, eb, n) {
				p.Changed = append(p.Changed, n)
				if !needed[n] && !needed[""] {
					p.Unneeded = append(p.Unneeded, n)
				}
			}
		}
		slices.SortStableFunc(p.Emitted, func(x, y Explanation) int { return cmp.Compare(x.Unit, y.Unit) })
		pairs = append(pairs, p)
	}
	return pairs
}

// inlineOrder returns a function that reports whether the code of a unit may differ by nothing but the
// order in which clang inlined always_inline functions, which follows that of all
// functions in the file and decides where variables are in the stack frame:
// everything that the unit reaches is the same in IR, and there is an
// always_inline function among it. Only evidence by source leaves that out.
func inlineOrder(a, b *Object) func(unit string) bool {
	differs := map[string]bool{}
	for _, d := range Compare(a, b) {
		differs[d.Unit] = true
	}
	return func(unit string) bool {
		inline := false
		for n := range reach([]string{unit}, func(n string) []string {
			if u := a.Units[n]; u != nil {
				return u.Refs
			}
			return nil
		}) {
			if differs[n] {
				return false
			}
			u := a.Units[n]
			inline = inline || u != nil && bytes.Contains(u.Text, []byte("alwaysinline"))
		}
		return inline && a.Units[unit] != nil
	}
}
