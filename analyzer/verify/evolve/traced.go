package evolve

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
)

// maxTraces is how many traces of a test are remembered.
const maxTraces = 8

// OursWithTraces executes a test if neither its key by an evidence is known nor that of one of its
// traces (docs/explanation/traces.md).
func OursWithTraces(name string, p Passes, e *Evidence) Tool {
	return &selector{name, func() selecting {
		keys := func(tests []*Built) ([]string, error) { return Keys(tests, e) }
		return &byTrace{byKey{keys, nil, map[string]bool{}}, e, map[string][]map[string]bool{}, map[string]string{}, map[string]*trace.Result{}}
	}, p}
}

// byTrace is a tool that knows also what tests didn't enter when they were executed.
type byTrace struct {
	byKey
	evidence *Evidence
	traces   map[string][]map[string]bool // of tests by their names, the newest first
	of       map[string]string            // the key of the trace that is recorded under a key
	known    map[string]*trace.Result     // a trace that has a key
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
	r, key, names, err := b.trace(ctx, x)
	if err != nil || key == "" {
		return err
	}
	// What isn't in the closure of the trace decides nothing.
	frontier := map[string]bool{}
	for _, name := range names {
		frontier[name] = true
	}
	b.passed[key], b.of[b.now[x.Test.Name]], b.known[key] = true, key, r
	l := b.traces[x.Test.Name]
	b.traces[x.Test.Name] = append([]map[string]bool{frontier}, l[:min(len(l), maxTraces-1)]...)
	return nil
}

// trace returns a test's trace, nil if the machine was busy, its key, "" if it has none, and what of the trace is in the closure.
func (b *byTrace) trace(ctx context.Context, x *Built) (r *trace.Result, key string, names []string, err error) {
	r, _, err = x.Traced(ctx)
	if err != nil || r == nil || r.Idle == nil {
		return r, "", nil, err
	}
	keys, frontiers, err := traceKeys([]*Built{x}, []map[string]bool{b.evidence.idle(r)}, b.evidence)
	if err != nil {
		return nil, "", nil, err
	}
	return r, keys[0], frontiers[0], nil
}

func (b *byTrace) unlike(ctx context.Context, x *Built) (string, error) {
	recorded := b.of[b.now[x.Test.Name]]
	if recorded == "" {
		return "", nil
	}
	r, key, _, err := b.trace(ctx, x)
	if err != nil || r == nil || key == recorded {
		return "", err
	}
	before := b.known[recorded]
	switch {
	case len(r.Trace.GaveUp) > 0 || r.Void != "":
		return fmt.Sprintf("nothing is known: %v %s", r.Unknown(), r.Void), nil
	case r.Idle == nil: // code without a symbol keeps it from having a key, but isn't part of a fingerprint if nothing refers to it
		return differ(executed(r), executed(before), "executed now", "executed before"), nil
	}
	if d := differ(b.evidence.idle(r), b.evidence.idle(before), "idle now", "idle before"); d != "" {
		return d, nil
	}
	return fmt.Sprintf("the same functions, and the key %q instead of %q", key, recorded), nil
}

// executed returns the names of functions that a trace has.
func executed(r *trace.Result) map[string]bool {
	names := map[string]bool{}
	for _, s := range r.Trace.Symbols() {
		names[s.Name] = true
	}
	return names
}

func (b *byTrace) collectors(ctx context.Context, x *Built) (string, error) {
	smart, naive, err := x.Traced(ctx)
	if err != nil || smart == nil || naive == nil {
		return "", err
	}
	if !slices.Equal(smart.Trace.GaveUp, naive.Trace.GaveUp) || smart.Void != naive.Void {
		return fmt.Sprintf("smart: %q %s, naive: %q %s", smart.Trace.GaveUp, smart.Void, naive.Trace.GaveUp, naive.Void), nil
	}
	return differ(b.evidence.idle(smart), naive.Idle, "idle to the smart one", "idle to the naive one"), nil
}

// differ names functions that are in one of two sets, or returns "".
func differ(one, other map[string]bool, here, there string) string {
	var parts []string
	for _, x := range []struct {
		is, isnt map[string]bool
		where    string
	}{{one, other, here}, {other, one, there}} {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(x.is)) {
			if !x.isnt[name] {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			parts = append(parts, fmt.Sprintf("%s only: %d, %s", x.where, len(names), strings.Join(names[:min(len(names), 5)], " ")))
		}
	}
	return strings.Join(parts, "; ")
}

// idle returns the functions that were idle, to an evidence that may be broken.
func (e *Evidence) idle(r *trace.Result) map[string]bool {
	if e.forget == nil || r.Idle == nil {
		return r.Idle
	}
	idle := maps.Clone(r.Idle)
	for file, s := range r.Trace.Symbols() {
		if e.forget(file, s) {
			idle[s.Name] = true
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
