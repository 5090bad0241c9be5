package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/progress"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/cases"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/frontier"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/plan"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
)

// Tracing is the part of Options that is about traces.
type Tracing struct {
	Traces Traces // off, read or on
	// Tracer is the path of this program, for Bazel to run tests under it.
	Tracer string

	hidden string // overrides hiddenBySandbox
}

// Traces are the values of --traces: see docs/how-to/use-traces.md.
type Traces string

const (
	TracesOff Traces = "off"
	// TracesRead looks up tests without a result for their fingerprint by their traces.
	TracesRead Traces = "read"
	// TracesOn traces tests that are run, too.
	TracesOn Traces = "on"
)

// executionTrace is the trace of a run of a test.
type executionTrace = plan.Trace

// traceHit is a recorded trace: its key, and the functions that its run didn't enter. The composition isn't kept: it has all that
// the test is linked from.
type traceHit struct {
	key  store.Key
	idle []string
}

// auditTraces multiplies the share of audits for results that were found by a trace.
const auditTraces = 5

// How tests are traced
//
// "bazel test" runs tests under this program (--run_under). A file lists the labels of tests that it traces. It writes the
// functions that a test didn't enter beside the test's log. The flag is the same in all invocations: with another one, Bazel
// would analyse the workspace anew. Nothing is traced with remote execution: this program isn't on other machines.

// hiddenBySandbox begins the paths that Bazel's sandbox hides from tests behind a directory of its own, unless
// the command line has one of unhidingFlags.
const hiddenBySandbox = "/tmp/"

var unhidingFlags = []string{"--noincompatible_sandbox_hermetic_tmp", "--sandbox_add_mount_pair=/tmp", "--spawn_strategy=local", "--spawn_strategy=processwrapper-sandbox"}

// addTracer adds the flag that traces tests, if it is wanted and can work.
func (inv *invocation) addTracer() {
	if inv.Traces != TracesOn || inv.Store == nil || !inv.Write || inv.flags["--run_under"] == nil {
		return
	}
	why := ""
	dir, err := filepath.Abs(inv.Bazel.Dir)
	inv.tracedFile = filepath.Join(inv.Bazel.Cache, "traced-"+wholefile.Checksum([]byte(dir))[:16])
	isHidden := func(path string) bool {
		return strings.HasPrefix(path, cmp.Or(inv.hidden, hiddenBySandbox)) && !slices.ContainsFunc(inv.args, func(a string) bool { return slices.Contains(unhidingFlags, a) })
	}
	switch {
	case err != nil:
		why = err.Error()
	case inv.Bazel.Cache == "":
		why = "there is no directory for caches"
	case isHidden(inv.Tracer):
		why = "Bazel's sandbox hides " + inv.Tracer + ": install tasting in another directory"
	case isHidden(inv.tracedFile):
		why = "Bazel's sandbox hides " + inv.tracedFile + ": set XDG_CACHE_HOME to another directory"
	case !trace.Permitted():
		why = "ptrace isn't permitted here"
	}
	if why != "" {
		inv.say("warning: tests aren't traced: %s", why)
		return
	}
	inv.runUnder = trace.RunUnder(inv.Tracer, "--only="+inv.tracedFile)
	inv.args = append([]string{inv.runUnder}, inv.args...)
}

// hidingOptions are options by which a sandbox may hide this program from tests.
var hidingOptions = []string{"sandbox_block_path", "sandbox_tmpfs_path", "experimental_use_hermetic_linux_sandbox", "experimental_docker_image"}

// hidesTracer returns the effective option because of which tests can't be run under this program, or "".
func (inv *invocation) hidesTracer() string {
	for _, o := range inv.options {
		if o.OptionName == "remote_executor" && o.OptionValue != "" {
			return "this program isn't on the machines of remote execution"
		}
		if slices.Contains(hidingOptions, o.OptionName) && o.OptionValue != "" && !isFalse(o.OptionValue) {
			return "--" + o.OptionName + " may hide this program"
		}
	}
	return ""
}

// withoutTracer returns a copy of the invocation that traces no tests.
func (inv *invocation) withoutTracer() *invocation {
	plain := *inv
	if inv.runUnder != "" {
		plain.args, plain.runUnder = without(inv.args, []string{inv.runUnder}), ""
	}
	return &plain
}

// listTraced writes tracedFile: the tests that have a key, and audits of what traces have found.
func (inv *invocation) listTraced(tests []*decision) error {
	if inv.runUnder == "" {
		return nil
	}
	isTraced := func(t *decision) bool { return t.hasKey() || t.audit && t.isByTrace() }
	return trace.WriteWanted(inv.tracedFile, collect(filter(tests, isTraced), func(t *decision) trace.Wanted {
		w := trace.Wanted{Label: t.label}
		if t.traced != nil && t.cases == nil && !t.audit { // of cases, it has to be known when they enter a function
			w.Entered = trace.Spared(t.traced.Entered, t.key[:])
		}
		return w
	}))
}

// lookupTraces replays tests that have a result for a trace, but none for their fingerprints.
func (d *decisions) lookupTraces(ctx context.Context) error {
	if d.Traces == TracesOff || d.Traces == "" || !d.Read {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxLookup)
	defer cancel()
	tests, plans, err := d.withObjects(ctx, d.readFrontiers(ctx))
	if err != nil || len(tests) == 0 {
		return err
	}
	rec := newRecorder(d.invocation)
	defer rec.sayRefusals()
	line := progress.On(d.Err)
	defer line.Clear()
	line.Show("looking up %s by what they have executed", count(len(tests), "test"))
	p := plan.New(plans)
	frontiers := collect(tests, func(t *decision) []map[string]bool { return t.traced.Frontiers })
	// Nothing may be recorded for a fingerprint if files have been saved since it was computed.
	recorderFor := func(i int) *recorder {
		if tests[i].readsSources() || p.Confirm(i) != nil { // objects were made later than sources were read
			return nil
		}
		return rec
	}
	isDecided := func(i int) bool { return ctx.Err() != nil || tests[i].verdict != report.Miss }
	p.Search(frontiers, isDecided, func(round []*plan.Trace) {
		touches := d.touches(d.built)
		byStore := map[store.Store][]*plan.Trace{}
		for _, x := range round {
			t := tests[x.Test]
			if x.Err == nil && touches.remade(t.evidence, plans[x.Test].Objects, x.Composed) == nil {
				byStore[d.storeOf(t)] = append(byStore[d.storeOf(t)], x)
			}
		}
		for st, traces := range byStore {
			d.replayTraces(ctx, st, tests, traces, recorderFor)
		}
	})
	return nil
}

// planned returns a test as plans have it, by its objects.
func (t *decision) planned(objects *fingerprint.Test) plan.Test {
	return plan.Test{Objects: objects, Run: t.run, Fingerprint: t.key}
}

// readFrontiers reads what the traced executions of tests entered, and returns the tests that have some.
func (d *decisions) readFrontiers(ctx context.Context) []*decision {
	var mu sync.Mutex
	var failed error
	parallel(transfers, len(d.tests), func(i int) {
		t := d.tests[i]
		if !t.hasKey() || !t.lookup.mayHaveTrace() {
			return
		}
		known, err := frontier.Read(ctx, d.storeOf(t), t.label)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = err
		} else if len(known.Frontiers) > 0 {
			t.traced = known
		}
	})
	if failed != nil && d.lookups().Errors == 0 { // else lookupIn has printed a warning
		d.say("warning: not all traces can be read: %v", failed)
	}
	return filter(d.tests, func(t *decision) bool { return t.traced != nil })
}

// replayTraces replays tests whose result the store has under the key of a trace. RecorderFor returns the recorder that
// records it under a test's fingerprint, or nil.
func (d *decisions) replayTraces(ctx context.Context, st store.Store, tests []*decision, traces []*plan.Trace, recorderFor func(i int) *recorder) {
	keys := collect(traces, func(x *plan.Trace) store.Key { return x.Key })
	outcomes := store.Lookup(ctx, st, keys, nil)
	parallel(transfers, len(keys), func(i int) {
		t := tests[traces[i].Test]
		// A test that has failed with this very fingerprint isn't replayed by a trace.
		if outcomes[i].Err != nil || outcomes[i].Info.ExitCode != 0 || store.Noted(ctx, st, t.key) != nil {
			return
		}
		if d.replay(ctx, st, t, keys[i], recorderFor(traces[i].Test)) == nil {
			t.hit(outcomes[i].Info, auditTraces*d.auditShare())
			t.byTrace = &traceHit{keys[i], traces[i].Composed.Idle}
		}
	})
}

// findTraces finds the traces of tests that were run. It prints why a test has none only with --explain: most reasons
// are the same in every run.
func (d *decisions) findTraces(ctx context.Context, e *execution, tests []*confirmed) {
	if d.runUnder == "" || e.filter != "" { // it has entered what some cases enter
		return
	}
	no := func(t *confirmed, why error) {
		if d.Explain {
			d.say("%s has no trace: %v", t.label, why)
		}
	}
	// What is composed: tests, and the stages of their cases.
	var plans []plan.Test
	var which []int
	var idle []map[string]bool
	var use []func(x *executionTrace)
	var of []*confirmed
	for _, t := range tests {
		dirs := t.dirs()
		if dirs == nil {
			continue
		}
		names, times, err := trace.ReadIdle(dirs)
		if err == nil && names == nil {
			err = errors.New("nothing is known of what it has executed")
		}
		if err == nil && t.isByTrace() {
			d.refuseRandom(ctx, t, names)
		}
		x := t.parts
		if err == nil && t.readsSources() {
			x, err = d.objects(ctx, t.decision, e.outputs)
		}
		if err != nil {
			no(t, err)
			continue
		}
		add := func(names map[string]bool, f func(x *executionTrace)) {
			which, idle, use = append(which, len(plans)), append(idle, names), append(use, f)
		}
		add(names, func(x *executionTrace) { t.trace = x })
		if t.cases != nil {
			for _, s := range times.Stages(names) {
				add(s.Idle, func(x *executionTrace) { t.stages = append(t.stages, cases.Traced{Trace: x, Stage: s}) })
			}
		}
		plans, of = append(plans, t.planned(x)), append(of, t)
	}
	if len(plans) == 0 {
		return
	}
	touches := d.touches(e.outputs.built)
	for k, x := range plan.New(plans).Compose(which, idle) {
		err := x.Err
		if err == nil {
			err = touches.remade(of[x.Test].now, plans[x.Test].Objects, x.Composed)
		}
		if err != nil {
			no(of[x.Test], err)
			continue
		}
		use[k](x)
	}
}

// refuseRandom ends the use of traces for a test whose audit has entered a function that the recorded trace hadn't. What such a
// test enters is random.
func (d *decisions) refuseRandom(ctx context.Context, t *confirmed, idle map[string]bool) {
	entered := filter(t.byTrace.idle, func(name string) bool { return !idle[name] })
	if len(entered) == 0 {
		return
	}
	d.say("%s is no longer replayed by traces: its runs enter different functions, such as %s", t.label, entered[0])
	if !d.Write {
		return
	}
	if err := frontier.Refuse(ctx, d.storeOf(t.decision), t.label); err != nil {
		d.say("warning: %s can still be replayed by traces: %v", t.label, err)
	}
}

// knownTraces returns the keys of all known traces of a test. A result that an audit has shown to be wrong may not be
// replayed by any of them.
func (d *decisions) knownTraces(ctx context.Context, t *decision) (keys []store.Key, err error) {
	if t.readsSources() {
		return nil, nil // what a trace finds for it isn't recorded for its fingerprint
	}
	known, err := frontier.Read(ctx, d.storeOf(t), t.label)
	if err != nil || len(known.Frontiers) == 0 {
		return nil, err
	}
	x, err := d.arguments(ctx, t.evidence)
	if err != nil {
		return nil, err
	}
	for _, x := range plan.New([]plan.Test{t.planned(x)}).Compose(make([]int, len(known.Frontiers)), known.Frontiers) {
		if x.Err == nil {
			keys = append(keys, x.Key)
		}
	}
	return keys, nil
}

// dirs returns the directories of the logs of a test's shards, or nil if one was executed in several attempts.
func (o *outcome) dirs() (dirs []string) {
	for _, a := range o.attempts {
		p, ok, _ := a.file(logName)
		if !ok || a.attempt > 1 || a.run > 1 {
			return nil
		}
		dirs = append(dirs, filepath.Dir(p))
	}
	return dirs
}

// recordTrace keeps a result of a test under the key of its trace as well.
func (r *recorder) recordTrace(ctx context.Context, t *confirmed, result *store.Result) {
	if t.trace == nil {
		return
	}
	const byTrace = " by its trace"
	if store.IsRecorded(r.recordPass(ctx, t.decision, t.trace.Key, byTrace, result)) {
		if err := t.trace.Keep(ctx, r.storeOf(t.decision), t.label); err != nil {
			r.addRefusal("recorded"+byTrace, err)
		}
	}
}

// isOfTracer reports whether a file beside a test's log was written by the tracer.
func isOfTracer(name, path string) bool {
	if !isNamed(filepath.ToSlash(name), trace.IdleFile) {
		return false
	}
	b, err := os.ReadFile(path)
	if err == nil {
		_, _, err = trace.DecodeIdle(b)
	}
	_, unknown := errors.AsType[trace.UnknownError](err)
	return err == nil || unknown
}

// ParseTraces parses the value of --traces.
func ParseTraces(value string) (Traces, error) {
	t := Traces(value)
	if !slices.Contains([]Traces{TracesOff, TracesRead, TracesOn}, t) {
		return "", fmt.Errorf("--traces=%s: want off, read or on", value)
	}
	return t, nil
}
