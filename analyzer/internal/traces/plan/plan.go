// Package plan computes the keys of traces: it composes a test with the functions that an execution didn't enter as stubs
// (docs/explanation/traces.md).
//
// A test without a result for its fingerprint is composed once more for each of its frontiers, with stubs in
// the place of the functions that the execution with this frontier didn't enter. This composition's key is the key of a trace.
// If a pass is recorded under it, the test would pass again. The pass of a traced test is recorded under
// the key of the new trace, and the new frontier is kept (package frontier).
package plan

import (
	"context"
	"errors"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/frontier"
)

// Test is a test that may be looked up by traces.
type Test struct {
	// Objects are the arguments of a composition by objects.
	Objects *fingerprint.Test
	// Run is the execution's part of the key.
	Run         *fingerprint.Run
	Fingerprint store.Key
}

// Plan composes tests by frontiers. It may be used concurrently.
type Plan struct {
	tests  []Test
	traced *fingerprint.Traced
}

// New reads what tests are linked from, once.
func New(tests []Test) *Plan {
	var objects []*fingerprint.Test
	for _, t := range tests {
		objects = append(objects, t.Objects)
	}
	return &Plan{tests, fingerprint.NewTraced(objects)}
}

// Trace is the composition of a test with a frontier, and its key.
type Trace struct {
	Test     int // its index
	Key      store.Key
	Composed *fingerprint.Composed
	// Err is why there is no key.
	Err error
}

// Compose returns for each k the trace of the test with the index which[k] and the frontier frontiers[k].
func (p *Plan) Compose(which []int, frontiers []map[string]bool) []*Trace {
	var traces []*Trace
	for k, c := range p.traced.Compose(which, frontiers) {
		t := &Trace{Test: which[k], Composed: &c, Err: c.Undecided()}
		if t.Err == nil {
			t.Key, t.Err = fingerprint.Key(c.Config, p.tests[which[k]].Run)
		}
		traces = append(traces, t)
	}
	return traces
}

var errOther = errors.New("what it is made of isn't what was fingerprinted: a file was saved meanwhile, or the file beside it is of another build")

// Confirm returns an error unless the test with index i still has its fingerprint.
func (p *Plan) Confirm(i int) error {
	t := p.Compose([]int{i}, []map[string]bool{nil})[0]
	if t.Err == nil && t.Key != p.tests[i].Fingerprint {
		return errOther
	}
	return t.Err
}

// Search calls try with the traces of all tests by the first of their frontiers, then by the second, and so on.
// It leaves out tests that are decided.
func (p *Plan) Search(frontiers [][]map[string]bool, decided func(i int) bool, try func(round []*Trace)) {
	for round := range frontier.Max {
		var which []int
		var names []map[string]bool
		for i, l := range frontiers {
			if round < len(l) && !decided(i) {
				which, names = append(which, i), append(names, l[round])
			}
		}
		if len(which) == 0 {
			return
		}
		try(p.Compose(which, names))
	}
}

// Keep adds the frontier of a trace as the newest one of the test with a label. A pass has to be recorded under its key.
func (t *Trace) Keep(ctx context.Context, s store.Store, label string) error {
	return frontier.Add(ctx, s, label, t.Composed.Idle, t.Composed.Entered)
}
