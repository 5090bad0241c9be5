package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
)

// batch is the tests of one call of "bazel test".
type batch struct {
	name   string
	tests  []*decision
	broken []string // labels that Bazel couldn't analyse: it prints why once more
	flags  []string
	filter string // the --test_filter, if only some cases are executed
	first  bool
}

// batches returns a batch of the tests to be run, and one of the tests to be audited.
func (d *decisions) batches() (list []*batch) {
	run, audit := &batch{name: "run", broken: d.broken}, &batch{name: "audit"}
	// A result from Bazel's own cache would be no audit.
	audit.flags = []string{"--nocache_test_results"}
	audit.tests = filter(d.tests, func(t *decision) bool { return t.audit })
	run.tests = filter(d.tests, func(t *decision) bool { return t.isRun() && !t.audit && !t.isPartial() })
	hits := filter(d.tests, func(t *decision) bool { return t.verdict == report.Hit })
	auditing := ""
	if n := len(audit.tests); n > 0 {
		auditing = fmt.Sprintf(", %d of the recorded to audit", n)
	}
	partly := d.caseBatches()
	n := len(run.labels())
	for _, b := range partly {
		n += len(b.tests)
	}
	d.say("%s: %d recorded, %d to run%s", count(len(d.tests)+len(d.broken), "test"), len(hits), n, auditing)
	for _, b := range slices.Concat([]*batch{run}, partly, []*batch{audit}) {
		if len(b.labels()) > 0 {
			b.first = list == nil
			list = append(list, b)
		}
	}
	return list
}

func (b *batch) labels() []string { return slices.Concat(labels(b.tests), b.broken) }

// outcome is the status and the attempts of a test that Bazel was to run.
type outcome struct {
	status   string // overall, as in the test summary; "" if it wasn't run
	attempts []attempt
}

type attempt struct {
	run, shard, attempt int
	result              *bazel.TestResult
}

// file returns the path of a file that Bazel has kept of an attempt.
func (a attempt) file(name string) (path string, ok bool, err error) {
	for _, f := range a.result.TestActionOutput {
		if f.Name == name {
			path, err = f.Path()
			return path, err == nil, err
		}
	}
	return "", false, nil
}

// execution is a batch and its outcomes.
type execution struct {
	*batch
	outcomes map[string]*outcome // of all tests of the batch, by label
	code     int
	// outputs are those of the invocation that ran the tests: its manifests are of the objects that were linked.
	outputs *aspectOutputs
	edited  bool // the effective options differ from those of the expansion
}

// execute has Bazel run a batch, and reads the outcomes.
func execute(ctx context.Context, d *decisions, b *batch) (*execution, error) {
	events := filepath.Join(d.tmp, b.name+".json")
	targets, err := d.targetArgs(b.name, b.labels())
	if err == nil {
		err = d.listTraced(b.tests)
	}
	if err != nil {
		return nil, err
	}
	args := slices.Clone(d.args)
	if !b.first {
		args = append(args, d.noFilesFlags()...)
	}
	args = append(args, "--build_event_json_file="+events, filesHere)
	if groups := outputGroups(filter(b.tests, (*decision).hasFingerprint), d.runUnder != ""); d.appliesAspect() && groups != "" {
		args = append(args, "--aspects="+d.Aspect, "--output_groups="+groups)
	}
	args = append(args, d.innerSummary())
	out := withoutTotal(d.Out)
	code, err := d.Bazel.Run(ctx, bazel.Streams{In: d.Stdin, Out: out, Err: d.Err}, "test", slices.Concat(args, b.flags, targets)...)
	out.flush()
	if err != nil {
		return nil, err
	}
	if b.first {
		d.writeEvents(events)
	}
	e := &execution{batch: b, outcomes: map[string]*outcome{}, code: code, outputs: newAspectOutputs(d.Aspect)}
	err = e.readEvents(d.expansion, events)
	if err != nil && code != bazel.ExitOK && (errors.Is(err, os.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF)) {
		err = nil // Bazel stopped before it had written all events
	}
	if e.edited {
		d.shortcut.remove()
	}
	return e, err
}

func (e *execution) readEvents(x *expansion, file string) error {
	for _, t := range e.tests {
		e.outcomes[t.label] = &outcome{}
	}
	of := func(label string) *outcome { return cmp.Or(e.outcomes[label], &outcome{}) }
	return bazel.ReadEvents(file, func(event *bazel.Event) error {
		x.meter.add(event)
		e.outputs.add(event)
		id := event.ID
		switch {
		case event.Options() != nil:
			options := effectiveOptions(event, x.release, x.runUnder)
			if e.filter != "" { // it isn't the user's
				options = filter(options, func(o bazel.Option) bool { return o.OptionName != "test_filter" })
			}
			e.edited = e.edited || !slices.Equal(invocationParts(options), invocationParts(x.options))
		case event.TestResult != nil:
			o := of(id.TestResult.Label)
			o.attempts = append(o.attempts, attempt{id.TestResult.Run, id.TestResult.Shard, id.TestResult.Attempt, event.TestResult})
		case id.TargetCompleted.Aspect == "" && event.Completed != nil && !event.Completed.Success && !x.onlyChecks():
			of(id.TargetCompleted.Label).status = "FAILED_TO_BUILD"
		case event.TestSummary != nil:
			of(id.TestSummary.Label).status = event.TestSummary.OverallStatus
		}
		return nil
	})
}

// appliesAspect reports whether the aspect is applied when tests run. Without --keep_going, one test that it can't analyse
// would keep Bazel from running any test.
func (a *analysis) appliesAspect() bool { return a.complete || a.enabled("keep_going") }

// uncleanReason returns why a pass isn't recorded, or "".
func (o *outcome) uncleanReason(remote bool) string {
	shards, cached := map[int]bool{}, ""
	for _, a := range o.attempts {
		switch {
		case a.result.Status != "PASSED" || a.attempt > 1:
			return "it took several attempts"
		case a.run > 1:
			return "it is one of several runs"
		case len(a.result.Warning) > 0:
			return "the test wrote warnings, which aren't recorded"
		case a.isCached():
			cached = cachedByBazel
		case remote != a.isRemote():
			return "by its tags it was to run remotely, or here, and it didn't"
		case !slices.Contains(knownStrategies, a.result.ExecutionInfo.Strategy):
			return "Bazel ran it by " + a.result.ExecutionInfo.Strategy + ", of which it isn't known what tests see there"
		}
		shards[a.shard] = true
	}
	if len(shards) == 0 {
		return "Bazel doesn't say how it went"
	}
	for i := range len(shards) {
		if !shards[i+1] {
			return "Bazel doesn't say how all shards went"
		}
	}
	return cached
}

// knownStrategies are the strategies, and "" for events that don't name one.
var knownStrategies = append([]string{""}, strategies...)

const cachedByBazel = "Bazel has it from an earlier run, and doesn't say where, and with which libraries of the system, that was"

func (a attempt) isCached() bool {
	return a.result.CachedLocally || a.result.ExecutionInfo.CachedRemotely
}

func (a attempt) isRemote() bool { return a.result.ExecutionInfo.Strategy == "remote" }

// failed reports whether an attempt has failed here. Timeouts and failures of the infrastructure
// say nothing against a recorded pass.
func (o *outcome) failed(remote bool) bool {
	return slices.ContainsFunc(o.attempts, func(a attempt) bool {
		if slices.ContainsFunc(a.result.TestActionOutput, func(f bazel.File) bool { return f.Name == "test.infrastructure_failure" }) {
			return false
		}
		return a.result.Status == "FAILED" && !a.isCached() && remote == a.isRemote()
	})
}

// isCached reports whether Bazel had all results of a test already.
func (o *outcome) isCached() bool {
	return o != nil && len(o.attempts) > 0 && !slices.ContainsFunc(o.attempts, func(a attempt) bool { return !a.isCached() })
}
