package refgraph

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// invocation is a set of units and the programs that are linked from them.
type invocation struct {
	sources  []Source
	programs [][]int32
}

// newInvocation makes few units with few symbols and hashes, so that several
// definitions, copies, twins, cycles, overrides and missing definitions are
// frequent.
func newInvocation(t testing.TB, choose func(n int) int) invocation {
	var inv invocation
	externals := []string{"main", "f", "g", "h", "w", "v"}
	locals := []string{"x", "y", "z"}
	for i := range 2 + choose(6) {
		var b strings.Builder
		defined := map[string]bool{}
		for _, e := range externals {
			if choose(3) > 0 {
				continue
			}
			defined[e] = true
			if choose(3) > 0 {
				b.WriteString("weak ")
			}
			if choose(12) == 0 {
				b.WriteString("root ")
			}
			writeComp(&b, choose, e, externals, locals)
		}
		for _, l := range locals {
			if choose(3) > 0 {
				continue
			}
			switch choose(6) {
			case 0, 1:
				b.WriteString("static ")
			case 2:
				b.WriteString("root static ")
			default:
				b.WriteString("shared ")
			}
			writeComp(&b, choose, l, externals, locals)
		}
		inv.sources = append(inv.sources, tu(t, fmt.Sprint("tu", i), b.String()))
	}
	programs := 1 + choose(5)
	if choose(100) == 1 {
		programs += 64 // more than a word of a mask
	}
	for range programs {
		var p []int32
		for i := range inv.sources {
			if choose(3) > 0 {
				p = append(p, int32(i))
			}
		}
		for i := range p {
			k := i + choose(len(p)-i)
			p[i], p[k] = p[k], p[i]
		}
		inv.programs = append(inv.programs, p)
	}
	return inv
}

func writeComp(b *strings.Builder, choose func(n int) int, name string, externals, locals []string) {
	fmt.Fprint(b, name, " ", choose(2), " ->")
	links := append(slices.Clone(externals), locals...)
	for range choose(4) {
		k := choose(len(links))
		b.WriteString(" " + links[k])
		links = slices.Delete(links, k, k+1)
	}
	b.WriteString("\n")
}

// check composes every program of inv alone and in a universe. It returns how
// many the universe could compose, and how many of them had components of their
// own, more than one definition, twins.
func (inv invocation) check(t testing.TB) (shared, affected, ambiguous, twins int) {
	t.Helper()
	units := make([]*Unit, len(inv.sources))
	for i, s := range inv.sources {
		units[i] = NewUnit(s.Manifest)
	}
	u := NewUniverse(units, inv.programs)
	p := u.NewProgram()
	overrides := []string{"h", "nowhere", "v"}
	roots := Roots{Symbols: []string{"main", "f"}, Overrides: overrides}
	var closures []*ProgramClosure
	var alones []*Closure
	var which []int
	for i, units := range inv.programs {
		var alone []Source
		onDemand := map[int]bool{}
		for k, s := range units {
			alone = append(alone, inv.sources[s])
			onDemand[k] = s%2 == 0
		}
		p.Link(units)
		got, ok := p.Closure(roots, u.Defined(overrides))
		if !ok {
			continue
		}
		shared++
		want := New(alone).Closure(roots)
		if p.Affected() > 0 {
			affected++
		}
		if want.Ambiguous() {
			ambiguous++
		}
		if _, ok := want.sharing(); ok {
			twins++
		}
		if got.Ambiguous() != want.Ambiguous() || got.RootIn(onDemand) != want.RootIn(onDemand) ||
			got.Defines("main") != want.Defines("main") || got.Defines("v") != want.Defines("v") {
			t.Errorf("program %d, units %v: ambiguous %v, root on demand %v; alone %v, %v\n%v", i, units,
				got.Ambiguous(), got.RootIn(onDemand), want.Ambiguous(), want.RootIn(onDemand), inv)
		}
		closures, alones, which = append(closures, got), append(alones, want), append(which, i)
	}
	u.NewSharer().Share(closures)
	for k, got := range closures {
		if got.Hash() != alones[k].Hash() {
			t.Errorf("program %d, units %v: hash %x; alone %x\n%v", which[k], inv.programs[which[k]], got.Hash(), alones[k].Hash(), inv)
		}
	}
	return shared, affected, ambiguous, twins
}

func (inv invocation) String() string {
	var b strings.Builder
	for i, s := range inv.sources {
		fmt.Fprintf(&b, "unit %d\n", i)
		for _, c := range s.Manifest.Components {
			names, own := s.Manifest.LinkNames(c)
			fmt.Fprintln(&b, "   ", c.Name, manifest.Linkage_name[int32(c.Linkage)], c.LocalHash[15], c.Root, c.Interchangeable, names, own)
		}
	}
	fmt.Fprintln(&b, inv.programs)
	return b.String()
}

// A program's hash doesn't depend on what else is composed with it.
func TestUniverse(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var n, programs, shared, affected, ambiguous, twins int
	for n = range 30000 {
		inv := newInvocation(t, r.IntN)
		programs += len(inv.programs)
		s, a, m, w := inv.check(t)
		shared, affected, ambiguous, twins = shared+s, affected+a, ambiguous+m, twins+w
		if t.Failed() {
			t.Fatal("invocation ", n)
		}
	}
	t.Logf("%d programs, %d of them composed together, %d with components of their own, %d with several definitions, %d with twins", programs, shared, affected, ambiguous, twins)
	if shared < programs*9/10 || affected < programs/10 || affected > programs*95/100 || ambiguous < programs/10 || twins < programs/50 {
		t.Error("the programs don't cover what they are to cover")
	}
}

func FuzzUniverse(f *testing.F) {
	f.Add([]byte("012345678901234567890123456789"))
	f.Fuzz(func(t *testing.T, b []byte) {
		newInvocation(t, func(n int) int {
			if len(b) == 0 {
				return 0
			}
			c := int(b[0]) % n
			b = b[1:]
			return c
		}).check(t)
	})
}
