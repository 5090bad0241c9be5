package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/cases"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/plan"
)

// How cases are executed
//
// A test without a result is looked up by its cases (docs/explanation/cases.md). If some of them are known, "bazel test"
// runs the test with a --test_filter that leaves these out. Bazel has the filter in its own key, so it takes no part of a test
// for the whole. A test that fails so is run once more as a whole before it is called red: if it then passes, its cases
// depend on each other, and it is decided as a whole from then on.

// testCases are the cases of a test that has no result.
type testCases struct {
	*cases.Set
	// partial is set if only the unknown ones are to be executed.
	partial bool
	// failed are the names of cases that failed when the others weren't executed.
	failed []string
	counts cases.Counts
}

// lookupCases looks up the cases of tests without a result.
func (d *decisions) lookupCases(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxLookup)
	defer cancel()
	parallel(runtime.NumCPU(), len(d.tests), func(i int) {
		t := d.tests[i]
		if !t.hasKey() || !cases.Wanted(t.composed.Config) {
			return
		}
		if err := d.findCases(ctx, t); err != nil && d.Explain {
			d.say("%s is decided as a whole: %v", t.label, err)
		}
	})
}

// findCases looks up the cases of a test. Its error is why the test is decided as a whole.
func (d *decisions) findCases(ctx context.Context, t *decision) error {
	st := d.storeOf(t)
	// A test that has failed with this very fingerprint is executed as a whole.
	lookUp := d.Read && t.lookup.mayHaveTrace() && store.Noted(ctx, st, t.key) == nil
	x, err := cases.Open(ctx, st, t.label, t.composed.Config, t.run, lookUp)
	if err != nil {
		return err
	}
	t.cases = &testCases{Set: x}
	audited := d.auditShare()
	if lookUp {
		d.findTracedCases(ctx, t)
	}
	if x.ByTrace() {
		audited *= auditTraces
	}
	switch {
	case x.AllKnown():
		r, counts := x.Replay()
		t.cases.counts, t.byCases = counts, true
		t.hit(&store.Info{Host: r.Host, Start: r.Start, End: r.End}, audited)
		if !d.DryRun {
			d.keep(t, r)
		}
	case x.SomeKnown():
		t.cases.partial = rand.Float64() >= audited
	}
	return nil
}

// findTracedCases looks up the unknown cases of a test by its traces.
func (d *decisions) findTracedCases(ctx context.Context, t *decision) {
	if d.Traces == TracesOff || d.Traces == "" || t.readsSources() {
		return
	}
	frontiers := t.cases.Frontiers(ctx)
	if len(frontiers) == 0 {
		return
	}
	objects, err := d.arguments(ctx, t.evidence)
	if err != nil {
		return
	}
	p := plan.New([]plan.Test{t.planned(objects)})
	if p.Confirm(0) != nil {
		return
	}
	touches := d.touches(d.built)
	for _, names := range frontiers {
		x := p.Compose([]int{0}, []map[string]bool{names})[0]
		if x.Err == nil && touches.remade(t.evidence, objects, x.Composed) == nil {
			t.cases.LookUpTraced(ctx, x, t.run)
		}
	}
}

// keep puts the files of a merged result where Bazel puts those of a test.
func (d *decisions) keep(t *decision, r *store.Result) {
	if d.JUnit != "" {
		b, _ := io.ReadAll(reader(r.Files[0])) // of memory
		t.xml = append(t.xml, b)
	}
	if err := d.write(t, t.key, r, d.files(t.subject, r)); err != nil {
		d.say("warning: %s: its log can't be written: %v", t.label, err)
	}
}

// caseBatches returns batches of the tests of which only some cases are executed.
func (d *decisions) caseBatches() (list []*batch) {
	var together []*decision
	for _, t := range d.tests {
		switch {
		case !t.isPartial():
		case !t.cases.KnowsRest(): // the names that belong to no case aren't known
			list = append(list, &batch{tests: []*decision{t}})
		default:
			together = append(together, t)
		}
	}
	if len(together) > 0 {
		list = append(list, &batch{tests: together})
	}
	for i, b := range list {
		b.name = fmt.Sprintf("cases-%d", i)
		b.filter = b.caseFilter()
		b.flags = []string{"--test_filter=" + b.filter}
	}
	return list
}

// isPartial reports whether only some cases of a test are executed.
func (t *decision) isPartial() bool {
	return t.cases != nil && t.cases.partial && t.isRun() && !t.audit
}

// caseFilter leaves out the cases that are known for one of the batch's tests and that no other of them may have to execute.
func (b *batch) caseFilter() string {
	var names []string
	for _, t := range b.tests {
		names = append(names, t.cases.KnownNames()...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, t := range b.tests {
		names = slices.DeleteFunc(names, t.cases.MayHave())
	}
	return cases.Filter(names)
}

// takeFailed takes the tests that didn't pass out of an execution of cases, and returns a batch that runs them as a whole, or nil.
func (d *decisions) takeFailed(e *execution) *batch {
	if e.filter == "" || e.code == bazel.ExitInterrupted {
		return nil
	}
	var again []*decision
	for _, t := range e.tests {
		o := e.outcomes[t.label]
		r, err := o.readCases(t.cases)
		if len(o.attempts) == 0 || o.status == "PASSED" && err == nil {
			continue
		}
		again = append(again, t)
		t.cases.partial = false
		switch {
		case o.status == "PASSED": // it isn't known what it has executed
			d.say("%s: %v: running all cases", t.label, err)
			t.cases = nil
		case err == nil && len(r.Failed()) > 0:
			t.cases.failed = r.Failed()
		default:
			t.cases.failed = []string{"an unknown case"}
		}
		delete(e.outcomes, t.label)
	}
	if len(again) == 0 {
		return nil
	}
	e.tests = filter(e.tests, func(t *decision) bool { return !slices.Contains(again, t) })
	if e.code == bazel.ExitTestsFailed {
		e.code = bazel.ExitOK
	}
	if failed := filter(again, func(t *decision) bool { return t.cases != nil }); len(failed) > 0 {
		d.say("%s failed without the cases that are known: running all cases", count(len(failed), "test"))
	}
	return &batch{name: e.name + "-whole", tests: again}
}

// readCases reads the cases of an execution of a test from the files that Bazel has kept.
func (o *outcome) readCases(of *testCases) (*cases.Run, error) {
	if len(o.attempts) != 1 {
		return nil, errors.New("it was executed several times")
	}
	read := func(name string) ([]byte, error) {
		p, ok, err := o.attempts[0].file(name)
		if err == nil && !ok {
			err = errors.New("Bazel has kept no " + name)
		}
		if err != nil {
			return nil, err
		}
		return os.ReadFile(p)
	}
	text, err := read(xmlName)
	if err != nil {
		return nil, err
	}
	log, err := read(logName)
	if err == nil {
		log, err = io.ReadAll(ownLog(store.Content(log)))
	}
	if err != nil {
		return nil, err
	}
	return of.Read(text, log, of.partial, o.status == "PASSED")
}

// keepCases puts the results of all cases where Bazel puts those of a test, for tests of which it has run some. It comes when
// Bazel's own files have been recorded.
func (d *decisions) keepCases(e *execution) {
	for _, t := range e.tests {
		o := e.outcomes[t.label]
		if t.cases == nil || len(o.attempts) == 0 || o.status != "PASSED" {
			continue
		}
		run, err := o.readCases(t.cases)
		if err != nil {
			continue
		}
		start, took := o.attempts[0].result.When()
		own := &store.Result{Start: start, End: start.Add(took)}
		whole, counts := t.cases.Passed(run, t.cases.partial, own)
		if t.cases.counts = counts; whole != own {
			d.keep(t, whole)
		}
	}
}

// passedCases reads the cases of a test that has passed, and returns the result of the whole test. Run is nil if nothing is recorded by
// cases. The error is why nothing is recorded.
func (r *recorder) passedCases(ctx context.Context, t *confirmed, result *store.Result) (run *cases.Run, whole *store.Result, err error) {
	if t.cases == nil {
		return nil, result, nil
	}
	if t.cases.failed != nil {
		r.sayDependent(ctx, t, t.cases.failed)
		return nil, nil, errors.New("some of its cases fail without the others")
	}
	run, err = t.readCases(t.cases)
	if err == nil && slices.ContainsFunc(result.Files, func(f store.File) bool { return f.Path != xmlName }) {
		err = errors.New("it writes files besides test.xml")
	}
	if err != nil {
		if t.cases.partial {
			return nil, nil, err
		}
		if r.Explain {
			r.say("%s isn't recorded by its cases: %v", t.label, err)
		}
		return nil, result, nil
	}
	whole, _ = t.cases.Passed(run, t.cases.partial, result)
	return run, whole, nil
}

// noteFailedCases notes the cases that failed in a whole execution.
func (r *recorder) noteFailedCases(ctx context.Context, t *confirmed) {
	if t.cases == nil || t.cases.partial {
		return
	}
	run, err := t.readCases(t.cases)
	if err != nil {
		return
	}
	wrong := t.cases.Failed(ctx, run, r.failure(""))
	if len(wrong) > 0 {
		r.say("AUDIT FAILED: of %s these cases have failed, and their passes were recorded: %s", t.label, strings.Join(wrong, ", "))
		r.sayDependent(ctx, t, wrong)
	}
}

// sayDependent remembers that the cases of a test depend on each other.
func (r *recorder) sayDependent(ctx context.Context, t *confirmed, names []string) {
	why := strings.Join(names, ", ")
	r.say("the cases of %s depend on each other, or its keys lack something (%s): it is decided as a whole from now on", t.label, why)
	if err := cases.SetDependent(ctx, r.storeOf(t.decision), t.label, r.failure(why+"\n")); err != nil {
		r.addRefusal("remembered", err)
	}
}

// caseCounts are the cases of a run, for its summary and its report.
func (t *decision) caseCounts() *report.Cases {
	if t.cases == nil || t.cases.counts == (cases.Counts{}) {
		return nil
	}
	return (*report.Cases)(&t.cases.counts)
}
