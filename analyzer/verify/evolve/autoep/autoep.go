// Package autoep generates small evolving programs in C and C++, as the component AutoEP of
// RTSCheck does for Java (Zhu, Legunsen, Shi, Gligoric; ICSE 2019, II.B).
//
// # The idea
//
// Mistakes of a tool that selects tests hide in the relations between parts of a program: a class
// that inherits, a field that hides another one, an overload that becomes a better match, two
// definitions of which the linker takes the first. There are few such relations, and each is seen in
// a small program already. So small programs are enumerated up to a bound (and drawn at random
// beyond it), random tests capture what they do, and small changes evolve them. Whoever then skips a
// test whose output differs has a bug.
//
// # A program
//
// A model (model.go) is data: units with classes, functions, globals, macros, templates, in libraries.
// A constraint makes models (constraints.go, generate.go): those with some inheritance, with C alone.
// An operator (operators.go, furniture.go) changes a model in one of several places. A mode is one of
// each, such as JD4+E3. What an operator needs and models lack, such as a macro in a header, it
// plants in all revisions. Operators never see text, so that what they make compiles nearly always: a
// model that can't is recognised (sound.go) and not taken. The rest is up to who builds it.
//
// # Without undefined behaviour
//
// Each function has a parameter n and guards its calls by it, with n-1 for the callee. So
// there is no recursion without end, whatever is copied, moved or overridden. What is computed stays
// small, so that nothing overflows.
//
// # Tests
//
// A test (tests.go) calls functions and methods in a random sequence of at most 1, 2, 4 or 100
// calls, whose arguments are constants or earlier results, and prints results and the state of all
// objects: their fields, those of their bases, and their types. Its source stays the same in
// later revisions, unless the operator is about tests.
package autoep

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve"
)

// Options say which programs to make.
type Options struct {
	// Seed decides about everything random: the same options give the same programs.
	Seed uint64
	// N is how many programs to make, spread evenly over all modes.
	N int
	// Skip is how many of them to leave out, from the first.
	Skip int
	// Modes are names, or patterns such as *+E3 (path.Match); none means all.
	Modes []string
}

// Modes returns the names of all modes.
func Modes() []string {
	var names []string
	for _, m := range modes(nil) {
		names = append(names, m.String())
	}
	return names
}

// Check is an error if one of patterns stands for no mode.
func Check(patterns []string) error {
	for _, p := range patterns {
		if len(modes([]string{p})) > 0 {
			continue
		}
		var cs, ops []string
		for _, c := range constraints {
			cs = append(cs, c.name)
		}
		for _, o := range operators {
			ops = append(ops, o.name)
		}
		return fmt.Errorf("%q is no mode, nor a pattern of modes: a mode is CONSTRAINT+OPERATOR, with one of %s and one of %s", p, strings.Join(cs, " "), strings.Join(ops, " "))
	}
	return nil
}

type mode struct {
	constraint *constraint
	operator   *operator
}

func (m mode) String() string { return m.constraint.name + "+" + m.operator.name }

func modes(patterns []string) (all []mode) {
	for i := range constraints {
		for k := range operators {
			m := mode{&constraints[i], &operators[k]}
			if m.constraint.plain && !m.operator.plain {
				continue
			}
			if len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
				ok, _ := path.Match(p, m.String())
				return ok
			}) {
				all = append(all, m)
			}
		}
	}
	return all
}

// Programs makes evolving programs, one of each mode in turn. A mode that has no program (as none
// of its models has a place for the operator) is left out.
func Programs(o Options) iter.Seq[*evolve.Program] {
	return func(yield func(*evolve.Program) bool) {
		ms := modes(o.Modes)
		random(o.Seed, "modes").Shuffle(len(ms), func(i, k int) { ms[i], ms[k] = ms[k], ms[i] })
		for n, number := 0, 0; n < o.N && len(ms) > 0; number++ {
			next := ms[:0:0]
			for _, m := range ms {
				if n == o.N {
					return
				}
				p := m.program(o.Seed, number)
				if p == nil {
					continue
				}
				if n++; n > o.Skip && !yield(p) {
					return
				}
				next = append(next, m)
			}
			ms = next
		}
	}
}

// random returns a source of random numbers for one purpose.
func random(seed uint64, purpose ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, purpose...)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// change is an operator at one of its places.
type change struct {
	operator *operator
	place    int
}

// evolution is the first revision of a program, which can be made any number of times, so that
// there is no need to copy models: a later one is the first one with changes.
type evolution struct {
	make func() *model
}

// after returns the model with changes, or nil if there are no such places.
func (e evolution) after(changes []change) *model {
	m := e.make()
	for _, c := range changes {
		edits := c.operator.edits(m)
		if c.place >= len(edits) {
			return nil
		}
		edits[c.place]()
	}
	return m
}

// evolve adds a change by an operator, at the first place from a random one that leaves a sound
// program, and another one.
func (e evolution) evolve(r *rand.Rand, changes []change, o *operator) ([]change, bool) {
	before := e.after(changes)
	n := len(o.edits(before))
	if n == 0 {
		return changes, false
	}
	start := r.IntN(n)
	if o.inOrder {
		start = 0
	}
	for i := range n {
		more := append(slices.Clip(changes), change{o, (start + i) % n})
		m := e.after(more)
		if m != nil && m.sound() && (o.name == "same" || !reflect.DeepEqual(m.revision(), before.revision())) {
			return more, true
		}
	}
	return changes, false
}

// tries are how many models may lack a place for an operator. It has no divisor in common with the bound,
// so that the programs of a mode begin everywhere in the enumeration.
const tries = 199

// program makes one program of a mode, from the first model that has a place.
func (md mode) program(seed uint64, number int) *evolve.Program {
	for try := range tries {
		r := random(seed, md.String(), number, try)
		ops := []*operator{md.operator}
		if r.IntN(10) == 0 { // several operators
			for range 1 + r.IntN(2) {
				o := &operators[r.IntN(len(operators))]
				if o.plain || !md.constraint.plain {
					ops = append(ops, o)
				}
			}
		}
		// Each mode starts elsewhere in the enumeration.
		start := random(seed, md.String()).IntN(bound)
		src := &source{constraint: md.constraint, start: start + (number*tries+try)%bound*stride, id: r.Uint64()}
		e := evolution{func() *model { return src.first(ops) }}
		if !e.make().sound() {
			continue
		}
		if changes, ok := md.changes(e, r, ops); ok {
			return &evolve.Program{
				Name:      fmt.Sprintf("%s-%d", md, number),
				Mode:      md.String(),
				Revisions: e.revisions(changes),
			}
		}
	}
	return nil
}

// changes returns the changes by which each revision after the first differs from the first. If
// there are several operators, the last revision undoes one of them.
func (md mode) changes(e evolution, r *rand.Rand, ops []*operator) (list [][]change, ok bool) {
	var all []change
	for i, o := range ops {
		more, ok := e.evolve(r, all, o)
		if i == 0 && !ok {
			return nil, false
		}
		if ok {
			list, all = append(list, more), more
		}
	}
	if n := len(list); len(ops) > 1 {
		before := [][]change{nil}
		list = append(list, append(before, list...)[n-1])
	}
	return list, true
}

func (e evolution) revisions(list [][]change) []*evolve.Revision {
	all := []*evolve.Revision{e.make().revision()}
	for _, changes := range list {
		all = append(all, e.after(changes).revision())
	}
	return all
}

// first makes the first revision's model: classes, then what constraint and operators plant, then tests.
func (s *source) first(ops []*operator) *model {
	build := func(skip int) *model {
		m := s.model(skip)
		r := rand.New(rand.NewPCG(s.id, 1))
		if s.plant != nil {
			s.plant(m, r)
		}
		for _, o := range ops {
			if o.plant != nil && !slices.Contains(m.planted, o.name) {
				m.planted = append(m.planted, o.name)
				o.plant(m, r)
			}
		}
		slices.SortStableFunc(m.units, func(a, b *unit) int { return cmp.Compare(a.lib, b.lib) })
		if s.finish != nil {
			s.finish(m)
		}
		return m
	}
	m := build(0)
	m.addTests(rand.New(rand.NewPCG(s.id, 2)))
	tests := m.tests
	m.next = func(skip int) *model {
		next := build(skip)
		next.tests, next.next = tests, m.next
		return next
	}
	return m
}
