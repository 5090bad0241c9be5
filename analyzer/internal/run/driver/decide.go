package driver

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/progress"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/frontier"
	"golang.org/x/sync/errgroup"
)

// Bounds of the look-up.
const (
	transfers = 16              // of results at once
	maxLookup = 5 * time.Minute // for all results; tests without an answer by then are run
)

// decision is whether a test is run, and why.
type decision struct {
	*subject
	verdict  report.Verdict
	why      string // for a miss or report.AlwaysRun
	run      *fingerprint.Run
	key      store.Key // zero if the test has no fingerprint
	lookup   lookup
	recorded *store.Info     // of a hit
	byTrace  *traceHit       // that made this a hit, or nil
	traced   *frontier.Known // of its traced executions; nil if there are none or nobody has asked
	xml      [][]byte        // its test.xml files, for --junit_xml
	audit    bool            // a hit that is run all the same, without Bazel's own caches
	changed  []string        // parts of the key that differ from the nearest recorded one
	closure  []byte          // to be recorded with a pass, if it is known
	cases    *testCases      // nil if it is decided as a whole
	byCases  bool            // the results of its cases made this a hit
}

// lookup is the answer of a store about a fingerprint.
type lookup int

const (
	notLookedUp lookup = iota
	recorded
	withdrawn
	absent
	damaged
	unanswered
)

// mayHaveTrace reports whether the store has no usable result for the fingerprint, but perhaps one for a trace.
func (l lookup) mayHaveTrace() bool { return l == absent || l == damaged || l == unanswered }

// decisions are about all tests of an analysis.
type decisions struct {
	*analysis
	tests     []*decision
	lookingUp time.Duration
	built     time.Time // end of the last build
}

// decide looks up all tests, and replays the recorded results.
func decide(ctx context.Context, a *analysis) (*decisions, error) {
	d := &decisions{analysis: a, tests: make([]*decision, len(a.subjects)), built: a.built}
	all := a.commonInputs()
	parallel(runtime.NumCPU(), len(a.subjects), func(i int) { d.tests[i] = a.decideByKey(ctx, a.subjects[i], all) })
	if a.runAll != "" {
		return d, nil
	}
	d.warn()
	d.lookupAll(ctx)
	if err := d.lookupTraces(ctx); err != nil {
		return nil, err
	}
	d.lookupCases(ctx)
	d.explain(ctx)
	return d, nil
}

// decideByKey returns the decision before the store is read: not a C++ test, always run, or a miss with its key.
func (a *analysis) decideByKey(ctx context.Context, t *subject, all *commonInputs) *decision {
	d := &decision{subject: t, verdict: report.Other}
	if !t.isCC() {
		return d
	}
	alwaysRun := func(why string) *decision {
		d.verdict, d.why = report.AlwaysRun, why
		return d
	}
	if a.runAll != "" {
		return alwaysRun(a.runAll)
	}
	d.verdict = report.Miss
	if t.composed == nil {
		d.why = t.why
		return d
	}
	if err := t.composed.Err; err != nil {
		d.why = err.Error()
		return d
	}
	c := t.composed.Config
	if len(c.AlwaysRun) > 0 {
		return alwaysRun(c.AlwaysRun[0])
	}
	run := a.declaredRun(t, all)
	err := a.addLibraries(ctx, t, run)
	if t.remote && t.worker.why != "" {
		err = errors.New(t.worker.why)
	}
	if err != nil {
		return alwaysRun(err.Error())
	}
	if len(c.LocalOnly) > 0 && a.LocalStore == nil {
		return alwaysRun(c.LocalOnly[0] + ", and the store is on another machine")
	}
	key, err := fingerprint.Key(c, run)
	if err != nil {
		return alwaysRun(err.Error())
	}
	d.run, d.key, d.why = run, key, "nothing is recorded"
	return d
}

// warn prints how many tests that don't always run have no fingerprint, and why one of them hasn't.
func (d *decisions) warn() {
	all := filter(d.tests, (*decision).isCC)
	unidentified := filter(all, func(t *decision) bool { return t.verdict == report.Miss && !t.hasFingerprint() && t.why != notBuilt })
	if len(unidentified) > 0 {
		d.say("warning: %d of %d tests have no fingerprint, they are run and not recorded. %s: %s", len(unidentified), len(all), unidentified[0].label, unidentified[0].why)
	}
}

// lookupAll asks the stores for all keys, replays the recorded results, and chooses the audits.
func (d *decisions) lookupAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxLookup)
	defer cancel()
	start := time.Now()
	asked := map[store.Store][]*decision{}
	for _, t := range d.tests {
		switch {
		case !t.hasKey():
		case !d.Read:
			t.why = "the store isn't read"
		default:
			st := d.storeOf(t)
			asked[st] = append(asked[st], t)
		}
	}
	for st, tests := range asked {
		d.lookupIn(ctx, st, tests)
	}
	d.lookingUp = time.Since(start)
}

func (d *decisions) lookupIn(ctx context.Context, st store.Store, tests []*decision) {
	keys := collect(tests, func(t *decision) store.Key { return t.key })
	line := progress.On(d.Err)
	defer line.Clear()
	outcomes := store.Lookup(ctx, st, keys, func(n int) { line.Show("looking up %d of %s", n, count(len(keys), "result")) })
	var mu sync.Mutex
	replayed, failures, example := 0, 0, ""
	parallel(transfers, len(tests), func(i int) {
		t, err := tests[i], outcomes[i].Err
		isWithdrawn := err == nil && outcomes[i].Info.ExitCode != 0
		if err == nil && !isWithdrawn {
			err = d.replay(ctx, st, t, t.key, nil)
		}
		mu.Lock()
		defer mu.Unlock()
		line.Show("replaying %s", count(replayed, "result"))
		switch {
		case isWithdrawn:
			t.why, t.lookup = "the recorded result was withdrawn", withdrawn
		case err == nil:
			t.hit(outcomes[i].Info, d.auditShare())
			replayed++
		case errors.Is(err, store.ErrNotFound):
			t.lookup = absent
		case store.IsMiss(err):
			t.why, t.lookup = err.Error(), damaged
		default:
			t.why, t.lookup = "the store can't be read: "+err.Error(), unanswered // another location may know a trace
			failures, example = failures+1, max(example, err.Error())
		}
	})
	if failures > 0 {
		d.say("warning: the store gave no answer for %s, which will run: %s. \"tasting store ping\" says more", count(failures, "test"), inShort(example))
	}
}

// inShort cuts gRPC's prefix from the reason for a failed connection.
func inShort(message string) string {
	if i := strings.LastIndex(message, "dial "); i >= 0 {
		return strings.Trim(message[i:], `"`)
	}
	return message
}

// hit makes the verdict a hit, and chooses it for an audit with probability audit.
func (t *decision) hit(info *store.Info, audit float64) {
	t.verdict, t.lookup, t.recorded, t.why = report.Hit, recorded, info, ""
	t.audit = rand.Float64() < audit
}

// lookups counts the answers of the store.
func (d *decisions) lookups() report.Store {
	n := map[lookup]int{}
	for _, t := range d.tests {
		n[t.lookup]++
	}
	return report.Store{
		Location: d.StoreName, Lookups: len(d.tests) - n[notLookedUp], LookupSeconds: d.lookingUp.Seconds(), Traces: len(filter(d.tests, (*decision).isByTrace)),
		Hits: n[recorded], Misses: n[withdrawn] + n[absent], Damaged: n[damaged], Errors: n[unanswered],
	}
}

// hasKey reports whether the store can be asked for the test's result.
func (t *decision) hasKey() bool { return t.verdict == report.Miss && t.hasFingerprint() }

func (t *decision) hasFingerprint() bool { return t.key != store.Key{} }

func (t *decision) isByTrace() bool { return t.byTrace != nil }

// isRun reports whether Bazel is to run the test.
func (t *decision) isRun() bool { return !t.skipped && (t.audit || t.verdict != report.Hit) }

// storeOf returns the store in which the test's result may be recorded.
func (inv *invocation) storeOf(t *decision) store.Store {
	if len(t.composed.Config.LocalOnly) > 0 {
		return inv.LocalStore
	}
	return inv.Store
}

// parallel calls f for each number from 0 to n-1, at most limit of them at a time.
func parallel(limit, n int, f func(i int)) {
	var g errgroup.Group
	g.SetLimit(limit)
	for i := range n {
		g.Go(func() error { f(i); return nil })
	}
	_ = g.Wait()
}
