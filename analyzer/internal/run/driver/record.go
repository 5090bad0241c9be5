package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/cases"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// maxInterrupted bounds the time for recording after an interruption.
const maxInterrupted = 10 * time.Second

// record keeps the results of tests that were just run.
func record(ctx context.Context, d *decisions, e *execution, sources *sources) {
	isInterrupted := e.code == bazel.ExitInterrupted
	if isInterrupted {
		// Earlier passes are still valid.
		limited, cancel := context.WithTimeout(ctx, maxInterrupted)
		defer cancel()
		ctx = limited
	}
	rec := newRecorder(d.invocation)
	ended := map[*decision]time.Time{}
	for _, t := range confirm(ctx, d, e, sources) {
		switch {
		case t.status == "" && !t.audit:
		case isInterrupted && (t.status != "PASSED" || t.doubt != ""): // because of the interruption
		case t.doubt != "":
			if d.Write || t.verdict == report.Hit {
				d.say("%s isn't recorded: %s", t.label, t.doubt)
			}
		case t.verdict == report.Hit:
			d.compare(ctx, rec, t)
		case d.Write && t.verdict == report.Miss:
			if end, ok := rec.recordRun(ctx, t); ok {
				ended[t.decision] = end
			}
		}
	}
	rec.recordClosures(ctx, ended)
	rec.sayRefusals()
}

// recordRun records the outcome of a test, and returns when it ended if the result is kept.
func (r *recorder) recordRun(ctx context.Context, t *confirmed) (end time.Time, ok bool) {
	if t.failed(t.remote) {
		r.recordFailure(ctx, t)
		r.noteFailedCases(ctx, t)
	}
	if t.status != "PASSED" && t.status != "FLAKY" {
		return end, false
	}
	why := t.uncleanReason(t.remote)
	if why == cachedByBazel {
		return end, false // see sayKeptByBazel
	}
	if why != "" {
		r.say("%s isn't recorded: %s", t.label, why)
		return end, false
	}
	result, done, err := t.result(r.zips())
	if err != nil {
		r.say("%s isn't recorded: %v", t.label, err)
		return end, false
	}
	defer done()
	run, result, err := r.passedCases(ctx, t, result)
	if err != nil {
		r.say("%s isn't recorded: %v", t.label, err)
		return end, false
	}
	if err = r.recordPass(ctx, t.decision, t.key, "", result); store.IsRecorded(err) {
		r.recordTrace(ctx, t, result)
		if run != nil {
			err := t.cases.Record(ctx, run, result)
			for _, s := range t.stages {
				err = errors.Join(err, t.cases.RecordTraced(ctx, s, t.run, run, result))
			}
			if err != nil {
				r.addRefusal("recorded by its cases", err)
			}
		}
	}
	return result.End, err == nil || errors.Is(err, store.ErrPartly)
}

// failure returns the result of a test that failed.
func (inv *invocation) failure(log string) *store.Result {
	r := &store.Result{ExitCode: 1, Start: inv.meter.start, End: time.Now(), Log: store.Content([]byte(log))}
	r.Host, _ = os.Hostname()
	return r
}

// recordFailure notes a failure, so that no pass with the same keys is recorded later.
func (r *recorder) recordFailure(ctx context.Context, t *confirmed) {
	for _, key := range t.keys() {
		// Without the note, a flaky test may be recorded.
		_ = store.RecordFailure(ctx, r.storeOf(t.decision), key, r.failure(""))
	}
}

// keys returns the keys under which a result of the test is recorded, if it is.
func (t *confirmed) keys() []store.Key {
	keys := []store.Key{t.key}
	if t.isByTrace() {
		keys = append(keys, t.byTrace.key)
	}
	if t.trace != nil {
		keys = append(keys, t.trace.Key)
	}
	if t.byCases {
		keys = append(keys, t.cases.Keys()...)
	}
	return keys
}

// compare compares a recorded result with a run.
func (d *decisions) compare(ctx context.Context, rec *recorder, t *confirmed) {
	status := strings.ReplaceAll(cmp.Or(t.status, "not run"), "_", " ")
	failed := t.failed(t.remote)
	if failed && status == "FAILED" && d.Write {
		rec.noteFailedCases(ctx, t)
		rec.recordFailure(ctx, t)
	}
	switch {
	case status == "PASSED":
		return
	case !failed || status != "FAILED":
		d.say("the audit of %s says nothing, it ended as %s: the recorded result stays", t.label, status)
		return
	}
	d.sayAuditFailed(t)
	if !d.Write {
		d.say("the recorded result stays: the store isn't written")
		return
	}
	keys, err := d.knownTraces(ctx, t.decision)
	for _, key := range append(keys, t.keys()...) {
		err = errors.Join(err, d.storeOf(t.decision).Set(ctx, key, d.failure("withdrawn by an audit\n")))
	}
	if cases.Wanted(t.composed.Config) { // no result of a case may be replayed either
		err = errors.Join(err, cases.SetDependent(ctx, d.storeOf(t.decision), t.label, d.failure("an audit has failed\n")))
	}
	if err != nil {
		d.say("warning: the recorded result isn't withdrawn everywhere: %v", err)
	} else {
		d.say("the recorded result is withdrawn")
	}
}

func (inv *invocation) sayAuditFailed(t *confirmed) {
	log := "none"
	for _, a := range t.attempts {
		if p, ok, _ := a.file(logName); ok {
			log = p
		}
	}
	inv.say("AUDIT FAILED: %s ended as FAILED, and a pass was recorded on %s by %s for the same key %s.\n"+
		"  The test is flaky, depends on something that isn't declared, or its key lacks something: please report the last.\n"+
		"  Log of this run: %s\n"+
		"  More: %s", t.label, t.recorded.End.UTC().Format(time.RFC3339), t.recorded.Host, t.key, log, docs+"how-to/troubleshoot.md")
	if !inv.Explain {
		inv.say("--why prints what the key is made of")
		return
	}
	c := t.composed.Config
	fmt.Fprintf(inv.Err, "  The key is made of\n    code %s\n", c.Code)
	for _, d := range c.Data {
		fmt.Fprintf(inv.Err, "    data %s %s\n", d.Path, d.SHA256)
	}
	for _, p := range c.Contributions {
		fmt.Fprintf(inv.Err, "    %s %s\n", p.Name, p.SHA256)
	}
	for _, p := range t.run.Parts() {
		fmt.Fprintf(inv.Err, "    %s %s\n", p.Name, p.Sum)
	}
}

// recorder records results. It keeps the reasons for which a store refuses results, to print one warning for a
// store that is full or down.
type recorder struct {
	*invocation
	mu       sync.Mutex
	refusals map[string][]string // reasons by what was refused
}

func newRecorder(inv *invocation) *recorder {
	return &recorder{invocation: inv, refusals: map[string][]string{}}
}

func (r *recorder) addRefusal(what string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusals[what] = append(r.refusals[what], strings.TrimPrefix(err.Error(), store.ErrPartly.Error()+": "))
}

// sayRefusals prints how many results haven't been kept.
func (r *recorder) sayRefusals() {
	for _, what := range slices.Sorted(maps.Keys(r.refusals)) {
		whys := r.refusals[what]
		r.say("warning: %s not %s: %s", map[bool]string{true: "1 result is", false: fmt.Sprint(len(whys), " results are")}[len(whys) == 1], what, slices.Max(whys))
	}
}

// recordPass records a pass of a test under a key. By is the kind of key in messages, or "".
func (r *recorder) recordPass(ctx context.Context, t *decision, key store.Key, by string, result *store.Result) error {
	err := store.RecordPass(ctx, r.storeOf(t), key, result)
	_, flaky := errors.AsType[*store.FlakyError](err)
	switch {
	case flaky:
		r.say("%s isn't recorded%s: %v", t.label, by, err)
	case errors.Is(err, store.ErrPartly):
		r.addRefusal("recorded everywhere"+by, err)
	case !store.IsRecorded(err):
		r.addRefusal("recorded"+by, err)
	}
	return err
}
