package evolve

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/trace"
)

// maxTraces is how many traces of a test are remembered.
const maxTraces = 8

// OursWithTraces executes a test if neither its key by an evidence is known nor that of one of its
// traces (docs/traces.md).
func OursWithTraces(name string, p Passes, e *Evidence) Tool {
	return &selector{name, func() selecting {
		keys := func(tests []*Built) ([]string, error) { return Keys(tests, e) }
		return &byTrace{byKey{keys, nil, map[string]bool{}}, e, map[string][]map[string]bool{}, map[string]string{}}
	}, p}
}

// byTrace is a tool that knows also what tests didn't enter when they were executed.
type byTrace struct {
	byKey
	evidence *Evidence
	traces   map[string][]map[string]bool // of tests by their names, the newest first
	of       map[string]string            // the key of the trace that is recorded under a key
}

func (b *byTrace) affected(tests []*Built) ([]bool, error) {
	affected, err := b.byKey.affected(tests)
	if err != nil {
		return nil, err
	}
	var asked []*Built
	var idle []map[string]bool
	var which []int
	for i, x := range tests {
		if affected[i] && b.now[x.Test.Name] != "" {
			for _, t := range b.traces[x.Test.Name] {
				asked, idle, which = append(asked, x), append(idle, t), append(which, i)
			}
		}
	}
	keys, _, err := traceKeys(asked, idle, b.evidence)
	if err != nil {
		return nil, err
	}
	for k, i := range which {
		if b.passed[keys[k]] {
			affected[i] = false
			now := b.now[tests[i].Test.Name]
			b.passed[now], b.of[now] = true, keys[k]
		}
	}
	return affected, nil
}

func (b *byTrace) executed(ctx context.Context, x *Built, passed bool) error {
	if err := b.byKey.executed(ctx, x, passed); err != nil || !passed || b.now[x.Test.Name] == "" {
		return err
	}
	key, names, known, err := b.trace(ctx, x)
	if err != nil || !known || key == "" {
		return err
	}
	// What isn't in the closure of the trace decides nothing.
	frontier := map[string]bool{}
	for _, name := range names {
		frontier[name] = true
	}
	b.passed[key], b.of[b.now[x.Test.Name]] = true, key
	l := b.traces[x.Test.Name]
	b.traces[x.Test.Name] = append([]map[string]bool{frontier}, l[:min(len(l), maxTraces-1)]...)
	return nil
}

// trace returns the key of a test's trace, "" if it has none, and what of that is in the closure. It isn't known
// if the machine was busy.
func (b *byTrace) trace(ctx context.Context, x *Built) (key string, names []string, known bool, err error) {
	r, _, err := x.Traced(ctx)
	if err != nil || r == nil {
		return "", nil, false, err
	}
	if r.Idle == nil {
		return "", nil, true, nil
	}
	keys, frontiers, err := traceKeys([]*Built{x}, []map[string]bool{b.evidence.idle(r)}, b.evidence)
	if err != nil {
		return "", nil, false, err
	}
	return keys[0], frontiers[0], true, nil
}

func (b *byTrace) unlike(ctx context.Context, x *Built) (bool, error) {
	recorded := b.of[b.now[x.Test.Name]]
	if recorded == "" {
		return false, nil
	}
	key, _, known, err := b.trace(ctx, x)
	return known && key != recorded, err
}

func (b *byTrace) collectors(ctx context.Context, x *Built) (string, error) {
	smart, naive, err := x.Traced(ctx)
	if err != nil || smart == nil || naive == nil {
		return "", err
	}
	if !slices.Equal(smart.Trace.GaveUp, naive.Trace.GaveUp) || smart.Void != naive.Void {
		return fmt.Sprintf("smart: %q %s, naive: %q %s", smart.Trace.GaveUp, smart.Void, naive.Trace.GaveUp, naive.Void), nil
	}
	idle := b.evidence.idle(smart)
	for _, name := range slices.Sorted(maps.Keys(idle)) {
		if !naive.Idle[name] {
			return name + " is idle to the smart one alone", nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(naive.Idle)) {
		if !idle[name] {
			return name + " is idle to the naive one alone", nil
		}
	}
	return "", nil
}

// idle returns the functions that were idle, to an evidence that may be broken.
func (e *Evidence) idle(r *trace.Result) map[string]bool {
	if e.forget == nil || r.Idle == nil {
		return r.Idle
	}
	idle := maps.Clone(r.Idle)
	for _, f := range r.Trace.Files {
		for _, x := range f.Executed {
			for _, s := range x.Symbols {
				if e.forget(f.Name, s) {
					idle[s.Name] = true
				}
			}
		}
	}
	return idle
}

// traceKeys returns the keys of traces of tests, given what these didn't enter, "" for none, and what of
// that is in the closure.
func traceKeys(tests []*Built, idle []map[string]bool, e *Evidence) (keys []string, frontiers [][]string, err error) {
	composed := make([]*fingerprint.Test, len(tests))
	for i, x := range tests {
		if composed[i], err = x.composed(e); err != nil {
			return nil, nil, err
		}
		composed[i].Idle = idle[i]
	}
	keys, frontiers = make([]string, len(tests)), make([][]string, len(tests))
	all, _ := fingerprint.ComposeAll(composed, nil)
	for i, c := range all {
		if c.Err != nil {
			return nil, nil, c.Err
		}
		if c.Undecided() != nil {
			continue
		}
		if keys[i], err = tests[i].key(c.Config, e); err != nil {
			return nil, nil, err
		}
		frontiers[i] = c.Idle
	}
	return keys, frontiers, nil
}
