package evolve

import (
	"context"
	"maps"

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
		return &byTrace{byKey{keys, nil, map[string]bool{}}, e, map[string][]map[string]bool{}}
	}, p}
}

// byTrace is a tool that knows also what tests didn't enter when they were executed.
type byTrace struct {
	byKey
	evidence *Evidence
	traces   map[string][]map[string]bool // of tests by their names, the newest first
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
			b.passed[b.now[tests[i].Test.Name]] = true
		}
	}
	return affected, nil
}

func (b *byTrace) executed(ctx context.Context, x *Built, passed bool) error {
	if err := b.byKey.executed(ctx, x, passed); err != nil || !passed || b.now[x.Test.Name] == "" {
		return err
	}
	r, err := x.Traced(ctx)
	if err != nil || r == nil || r.Idle == nil {
		return err
	}
	idle := b.evidence.idle(r)
	keys, frontiers, err := traceKeys([]*Built{x}, []map[string]bool{idle}, b.evidence)
	if err != nil || keys[0] == "" {
		return err
	}
	// What isn't in the closure of the trace decides nothing.
	frontier := map[string]bool{}
	for _, name := range frontiers[0] {
		frontier[name] = true
	}
	b.passed[keys[0]] = true
	l := b.traces[x.Test.Name]
	b.traces[x.Test.Name] = append([]map[string]bool{frontier}, l[:min(len(l), maxTraces-1)]...)
	return nil
}

// idle returns the functions that were idle, to an evidence that may be broken.
func (e *Evidence) idle(r *trace.Result) map[string]bool {
	if e.forget == nil {
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
