package autoep

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve"
)

func TestMain(m *testing.M) { os.Exit(clangtest.Main(m)) }

func programs(seed uint64, n int, modes ...string) []*evolve.Program {
	return slices.Collect(Programs(Options{Seed: seed, N: n, Modes: modes}))
}

func TestSameSeedSamePrograms(t *testing.T) {
	a, b, c := programs(1, 600), programs(1, 600), programs(2, 600)
	if !reflect.DeepEqual(a, b) {
		t.Error("the same seed made other programs")
	}
	if reflect.DeepEqual(a, c) {
		t.Error("another seed made the same programs")
	}
	if rest := slices.Collect(Programs(Options{Seed: 1, N: 600, Skip: 590})); !reflect.DeepEqual(rest, a[590:]) {
		t.Error("without the first ones, others are left")
	}
}

func TestProgramsAreValid(t *testing.T) {
	const n = 2000
	ps := programs(7, n)
	if len(ps) != n {
		t.Fatalf("%d programs, want %d", len(ps), n)
	}
	count, several := map[string]int{}, 0
	for _, p := range ps {
		count[p.Mode]++
		if len(p.Revisions) > 2 {
			several++
		}
		for i, r := range p.Revisions {
			if err := r.Validate(); err != nil {
				t.Errorf("%s, revision %d: %v", p.Name, i, err)
			}
			if len(r.Tests) < 2 || len(r.Tests) > 6 || len(r.Libraries) < 2 {
				t.Errorf("%s, revision %d: %d tests, %d libraries", p.Name, i, len(r.Tests), len(r.Libraries))
			}
		}
		if strings.HasSuffix(p.Mode, "+same") != reflect.DeepEqual(p.Revisions[0], p.Revisions[1]) {
			t.Errorf("%s: are the first two revisions the same? want so of operator same alone", p.Name)
		}
	}
	low, high := n, 0
	for _, c := range count {
		low, high = min(low, c), max(high, c)
	}
	if high-low > 1 {
		t.Errorf("modes have %d to %d programs", low, high)
	}
	if several < n/20 || several > n/5 {
		t.Errorf("%d of %d programs have several changes", several, n)
	}
	for _, m := range Modes() {
		if count[m] == 0 {
			t.Errorf("mode %s has no program", m)
		}
	}
}

// TestBound asks that walking by strides visits each model within the bound once, and that models differ.
func TestBound(t *testing.T) {
	seen, different := map[int]bool{}, map[string]bool{}
	for i := range bound {
		seen[i*stride%bound] = true
	}
	if len(seen) != bound {
		t.Errorf("strides visit %d of %d models", len(seen), bound)
	}
	const n = 2000
	for i := range n {
		m := skeleton(boundClasses, random(1))
		m.boundedClasses(i * stride % bound)
		files := m.revision().Files
		different[fmt.Sprint(files)] = true
	}
	// Without methods, it doesn't matter what they do.
	if len(different) < n*9/10 {
		t.Errorf("%d of %d models differ", len(different), n)
	}
}

// TestOperatorsChangeOutput builds programs of each operator until a test prints something else after the change.
func TestOperatorsChangeOutput(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds more than a hundred programs")
	}
	builder := func(c, cxx string) *evolve.Builder {
		clangtest.Tool(t, cxx)
		return &evolve.Builder{Dir: t.TempDir(), C: c, CXX: cxx, Flags: []string{"-O0", "-w"}}
	}
	clang, gcc := builder("clang", "clang++"), builder("gcc", "g++")
	if _, err := exec.LookPath("ld.lld"); err == nil { // takes half as long
		clang.Links = []string{"-fuse-ld=lld"}
	}
	for i, o := range operators {
		t.Run(o.name, func(t *testing.T) {
			tries := map[effect]int{often: 15, seldom: 1, never: 1}[o.effect]
			// The seed makes another constraint come first.
			for k, p := range programs(uint64(i), tries, "*+"+o.name) {
				if k == 0 {
					if _, err := outputs(t, gcc, p.Revisions[0]); err != nil {
						t.Errorf("%s: %v", p.Name, err)
					}
				}
				was, err := outputs(t, clang, p.Revisions[0])
				if err != nil {
					t.Fatalf("%s: %v", p.Name, err)
				}
				is, err := outputs(t, clang, p.Revisions[1])
				if err != nil {
					t.Logf("%s: revision 1: %v", p.Name, err)
					continue
				}
				changed := !maps.Equal(was, is)
				if changed && o.effect == never {
					t.Errorf("%s: outputs differ", p.Name)
				}
				if changed {
					return
				}
			}
			if o.effect == often {
				t.Errorf("no output has changed in %d programs", tries)
			}
		})
	}
}

// outputs runs the tests of a revision. It is an error if one isn't built, or fails.
func outputs(t *testing.T, b *evolve.Builder, r *evolve.Revision) (map[string]string, error) {
	tests, err := b.Build(t.Context(), r)
	if err != nil {
		return nil, err
	}
	outputs := map[string]string{}
	for name, x := range tests {
		o, _, err := x.Run(t.Context())
		if err := errors.Join(err, x.Err); err != nil {
			return nil, err
		}
		if !o.OK() {
			return nil, fmt.Errorf("%s: %s", name, o.Status)
		}
		outputs[name] = o.Output
	}
	return outputs, nil
}

// An operator finds nothing left of what its mode has planted, where another one was there before
// (JD8+vtable-4 of seed 2026).
func TestNothingLeft(t *testing.T) {
	n := 0
	for range Programs(Options{Seed: 2026, N: 12, Modes: []string{"JD8+vtable"}}) {
		n++
	}
	if n != 12 {
		t.Errorf("%d programs", n)
	}
}
