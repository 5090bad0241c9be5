package cases

import (
	"context"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/frontier"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/plan"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
)

// Cases by traces
//
// A traced execution of all cases gives each case a second key: that of the case, with what it didn't enter as stubs. The run has
// a few stages (trace.Cases). Each has a frontier, by which later versions are composed.

// frontiersOf is the name of the frontiers of a test's cases.
func frontiersOf(label string) string { return label + " cases" }

// Traced are the cases of one stage of an execution.
type Traced struct {
	*plan.Trace
	Stage trace.Stage
}

// Frontiers reads the frontiers by which LookUpTraced may find a case, if one isn't known.
func (x *Set) Frontiers(ctx context.Context) []map[string]bool {
	if x.AllKnown() {
		return nil
	}
	known, err := frontier.Read(ctx, x.store, frontiersOf(x.label))
	if err != nil {
		return nil
	}
	return known.Frontiers
}

// LookUpTraced looks up the cases that aren't known by the trace of one of the frontiers. A case that has failed isn't known by
// any.
func (x *Set) LookUpTraced(ctx context.Context, t *plan.Trace, run *fingerprint.Run) {
	if t.Err != nil {
		return
	}
	keys, err := keysOf(t.Composed.Config, run)
	if err != nil {
		return
	}
	x.each(func(c *testCase) {
		key, ok := keys[c.id]
		if c.known != nil || !ok || store.Noted(ctx, x.store, c.key) != nil {
			return
		}
		if c.known = x.get(ctx, key); c.known != nil {
			c.byTrace = key
		}
	})
}

// Clone returns a copy whose look-ups don't change x.
func (x *Set) Clone() *Set {
	c := *x
	c.list = slices.Clone(x.list)
	return &c
}

// ByTrace reports whether a case is known by a trace.
func (x *Set) ByTrace() bool { return len(x.Keys()) > len(x.list) }

// RecordTraced records the cases of a stage of an execution that has passed, and keeps its frontier. A case that has failed with its
// own key isn't recorded by a trace either.
func (x *Set) RecordTraced(ctx context.Context, t Traced, of *fingerprint.Run, run *Run, result *store.Result) error {
	keys, err := keysOf(t.Composed.Config, of)
	if err != nil {
		return err
	}
	err = x.record(ctx, run, result, func(c *testCase) (store.Key, bool) {
		key, ok := keys[c.id]
		return key, ok && t.Stage.Has(c.id) && store.Noted(ctx, x.store, c.key) == nil
	})
	if err != nil {
		return err
	}
	return t.Keep(ctx, x.store, frontiersOf(x.label))
}
