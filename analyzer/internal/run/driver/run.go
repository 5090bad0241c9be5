package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// outcome is what Bazel tells about a test that it has run.
type outcome struct {
	status   string // overall, as in the test summary; "" if it wasn't run
	attempts []attempt
}

type attempt struct {
	run, shard, attempt int
	result              *bazel.TestResult
}

// run has Bazel run what must be run, records results, replays the others and
// tells about all.
func (s *session) run(ctx context.Context) (code int, err error) {
	var labels, audits []string
	for _, t := range s.tests {
		switch {
		case t.skipped:
		case t.audit:
			t.uncached = true
			audits = append(audits, t.label)
		case t.verdict != report.Hit:
			labels = append(labels, t.label)
		}
	}
	// Bazel says what is wrong with these.
	labels = append(labels, s.broken...)
	hits := 0
	for _, t := range s.tests {
		if t.verdict == report.Hit {
			hits++
		}
	}
	s.say("%s: %d recorded, %d to be run%s", count(len(s.tests)+len(s.broken), "test"), hits, len(labels), auditing(len(audits)))
	s.listSources(ctx, slices.Concat(labels, audits))
	s.decided()
	if len(labels) > 0 {
		if code, err = s.bazelTest(ctx, labels, "run"); err != nil {
			return 0, err
		}
		if code == bazel.ExitInterrupted {
			return s.interrupted(ctx), nil
		}
	}
	if len(audits) > 0 {
		// Without the results that Bazel itself has kept: these would be no audit.
		c, err := s.bazelTest(ctx, audits, "audit", "--nocache_test_results")
		if err != nil {
			return 0, err
		}
		if c == bazel.ExitInterrupted {
			return s.interrupted(ctx), nil
		}
		code = cmp.Or(code, c)
	}
	if !s.ran {
		if code, err = s.reportNothing(ctx); err != nil || code == bazel.ExitInterrupted {
			return code, err
		}
	}
	if l := s.unheard(labels); len(l) > 0 && code == bazel.ExitOK {
		s.say("Bazel says nothing of %s, which it was to run: that isn't a pass", strings.Join(l, ", "))
		s.failed = true
	}
	if s.failed && (code == bazel.ExitOK || code == bazel.ExitTestsFailed) {
		code = bazel.ExitBuildFailed
	}
	s.keptByBazel()
	s.summary(ctx)
	if s.RunsDir != "" {
		if err := s.writeRun(ctx); err != nil {
			s.say("warning: the run can't be written down for \"tasting report\": %v", err)
		}
	}
	if s.JUnit != "" {
		if err := s.writeJUnit(); err != nil {
			return 0, err
		}
	}
	return code, nil
}

// interrupted prints what had ended by then, and asks Bazel for nothing more.
func (s *session) interrupted(ctx context.Context) (code int) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	s.summary(ctx)
	return bazel.ExitInterrupted
}

// keptByBazel says how many passes aren't recorded because Bazel has them from an earlier run: it doesn't say where
// that was, nor with which libraries of the system. To execute them only to record them would cost what "bazel test" doesn't.
func (s *session) keptByBazel() {
	n := 0
	for _, t := range s.tests {
		if o := t.outcome; s.Write && t.verdict == report.Miss && t.hasFingerprint() && o != nil && o.status == "PASSED" && o.unclean(t.remote) == cachedByBazel {
			n++
		}
	}
	if n > 0 {
		s.say("%s passed in an earlier run of Bazel that tasting hasn't observed: not recorded. --nocache_test_results runs and records all tests", count(n, "test"))
	}
}

// unheard returns those of tests that Bazel was told to run of which it hasn't said how they ended.
func (s *session) unheard(labels []string) (l []string) {
	if s.checks() {
		return nil // nothing is run
	}
	for _, t := range s.tests {
		if t.outcome != nil && t.outcome.status == "" && slices.Contains(labels, t.label) {
			l = append(l, t.label)
		}
	}
	return l
}

func auditing(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d of the recorded to be run as an audit", n)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// bazelTest has Bazel run tests and reads what became of them.
func (s *session) bazelTest(ctx context.Context, labels []string, name string, more ...string) (code int, err error) {
	events := filepath.Join(s.tmp, name+".json")
	targets, err := s.targets(name, labels)
	if err == nil {
		err = s.listTraced(labels)
	}
	if err != nil {
		return 0, err
	}
	args := slices.Clone(s.args)
	if s.ran {
		args = append(args, s.aside()...)
	}
	args = append(args, "--build_event_json_file="+events, filesHere)
	if groups := s.groups(labels); s.observes() && groups != "" {
		args = append(args, "--aspects="+s.Aspect, "--output_groups="+groups)
	}
	args = append(args, s.innerSummary())
	out := &withoutTotal{out: s.Out}
	code, err = s.Bazel.Run(ctx, bazel.Streams{In: s.Stdin, Out: out, Err: s.Err}, "test", slices.Concat(args, more, targets)...)
	out.flush()
	if err != nil {
		return 0, err
	}
	if !s.ran {
		s.writeEvents(events)
	}
	s.ran = true
	byLabel := map[string]*test{}
	for _, t := range s.tests {
		byLabel[t.label] = t
	}
	of := func(label string) *outcome {
		t := byLabel[label]
		if t == nil {
			return &outcome{}
		}
		if t.outcome == nil {
			t.outcome = &outcome{}
		}
		return t.outcome
	}
	for _, l := range labels {
		of(l)
	}
	s.built = time.Time{}
	err = bazel.ReadEvents(events, func(e *bazel.Event) error {
		s.afterwards.add(e)
		s.note(e)
		s.cost.add(e)
		switch {
		case e.Options() != nil:
			if !slices.Equal(invocation(optionsOf(e, s.release, s.runUnder)), invocation(s.options)) {
				s.edited = true
				s.forget()
			}
		case e.TestResult != nil:
			o := of(e.ID.TestResult.Label)
			o.attempts = append(o.attempts, attempt{e.ID.TestResult.Run, e.ID.TestResult.Shard, e.ID.TestResult.Attempt, e.TestResult})
		case e.ID.TargetCompleted.Aspect == "" && e.Completed != nil && !e.Completed.Success && byLabel[e.ID.TargetCompleted.Label] != nil && !s.checks():
			of(e.ID.TargetCompleted.Label).status = "FAILED_TO_BUILD"
		case e.TestSummary != nil:
			of(e.ID.TestSummary.Label).status = e.TestSummary.OverallStatus
		}
		return nil
	})
	if err != nil && code != bazel.ExitOK && (errors.Is(err, os.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF)) {
		err = nil // it hadn't come so far, or was stopped
	}
	if err != nil {
		return code, err
	}
	if code == bazel.ExitInterrupted {
		// What had passed by then did. Who has interrupted isn't kept waiting.
		limited, cancel := context.WithTimeout(ctx, maxLastWords)
		defer cancel()
		ctx = limited
	}
	s.confirm(ctx, labels)
	s.record(ctx, labels, code == bazel.ExitInterrupted)
	return code, nil
}

// maxLastWords is how long results are recorded for after an interruption.
const maxLastWords = 10 * time.Second

// observes tells whether the aspect says of tests afterwards what has run. A test that can't
// be analysed would keep others from being run, unless Bazel is to keep going.
func (s *session) observes() bool { return s.analysed || s.enabled("keep_going") }

// groups adds the output groups of the aspect that say afterwards what was run of
// tests.
func (s *session) groups(labels []string) string {
	add := map[string]bool{}
	for _, t := range s.fingerprinted(labels) {
		if t.readsSources() {
			add["+"+bySource] = true
		}
		if !t.readsSources() || s.runUnder != "" {
			add["+"+byObject] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(add)), ",")
}

// unclean says why a pass isn't recorded, or "".
func (o *outcome) unclean(remote bool) string {
	shards, cached := map[int]bool{}, ""
	for _, a := range o.attempts {
		switch {
		case a.result.Status != "PASSED" || a.attempt > 1:
			return "it took several attempts"
		case a.run > 1:
			return "it is one of several runs"
		case len(a.result.Warning) > 0:
			return "the test wrote warnings, which aren't recorded"
		case a.result.CachedLocally || a.result.ExecutionInfo.CachedRemotely:
			cached = cachedByBazel
		case remote != (a.result.ExecutionInfo.Strategy == "remote"):
			return "by its tags it was to run remotely, or here, and it didn't"
		case !slices.Contains(ranBy, a.result.ExecutionInfo.Strategy):
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

// ranBy are the strategies as events call them; an empty name is of events that don't say it.
var ranBy = append([]string{""}, strategies...)

const cachedByBazel = "Bazel has it from an earlier run, and doesn't say where, and with which libraries of the system, that was"

// failed tells whether a test has come to its end and failed, at least once:
// nothing else speaks against a pass. Time may be short, and machines fail.
func (o *outcome) failed(remote bool) bool {
	return slices.ContainsFunc(o.attempts, func(a attempt) bool {
		if slices.ContainsFunc(a.result.TestActionOutput, func(f bazel.File) bool { return f.Name == "test.infrastructure_failure" }) {
			return false // as a runner does
		}
		return a.result.Status == "FAILED" && !a.result.CachedLocally && !a.result.ExecutionInfo.CachedRemotely &&
			remote == (a.result.ExecutionInfo.Strategy == "remote")
	})
}

// record keeps the results of tests that were just run.
func (s *session) record(ctx context.Context, labels []string, interrupted bool) {
	recorded := map[*test]time.Time{}
	defer func() {
		s.remember(ctx, recorded)
		s.tellRefused()
	}()
	for _, t := range s.fingerprinted(labels) {
		o := t.outcome
		switch {
		case o == nil || o.status == "" && !t.audit:
			continue
		case interrupted && (o.status != "PASSED" || t.doubt != ""):
			continue // that may be why
		case t.doubt != "":
			if s.Write || t.verdict == report.Hit {
				s.say("%s isn't recorded: %s", t.label, t.doubt)
			}
			continue
		case t.verdict == report.Hit:
			s.audited(ctx, t)
			continue
		case !s.Write || t.verdict != report.Miss:
			continue
		}
		if o.failed(t.remote) {
			s.noteFailure(ctx, t)
		}
		if o.status != "PASSED" && o.status != "FLAKY" {
			continue
		}
		why := o.unclean(t.remote)
		if why == cachedByBazel {
			continue // keptByBazel tells of it
		}
		if why == "" {
			r, done, err := o.result(s.zips())
			if err == nil {
				if err = s.recordPass(ctx, t, t.key, "", r); store.IsRecorded(err) {
					s.recordTrace(ctx, t, r)
				}
				done()
				if err == nil || errors.Is(err, store.ErrPartly) {
					recorded[t] = r.End
				}
			} else {
				why = err.Error()
			}
		}
		if why != "" {
			s.say("%s isn't recorded: %s", t.label, why)
		}
	}
}

// noteFailure keeps a pass with the same fingerprint from being recorded, now or
// later.
func (s *session) noteFailure(ctx context.Context, t *test) {
	r := &store.Result{ExitCode: 1, Start: s.start, End: time.Now(), Log: store.Content(nil)}
	r.Host, _ = os.Hostname()
	for _, key := range t.keys() {
		// Nothing is lost if that doesn't work.
		_ = store.RecordFailure(ctx, s.storeOf(t), key, r)
	}
}

// keys are what a result of the test is recorded under, if it is.
func (t *test) keys() []store.Key {
	keys := []store.Key{t.key}
	if t.byTrace != (store.Key{}) {
		keys = append(keys, t.byTrace)
	}
	if t.trace != nil {
		keys = append(keys, t.trace.key)
	}
	return keys
}

// audited compares a recorded result with a run.
func (s *session) audited(ctx context.Context, t *test) {
	status := strings.ReplaceAll(cmp.Or(t.outcome.status, "not run"), "_", " ")
	failed := t.outcome.failed(t.remote)
	if failed && status == "FAILED" && s.Write {
		s.noteFailure(ctx, t)
	}
	switch {
	case status == "PASSED":
		return
	case !failed || status != "FAILED":
		s.say("the audit of %s says nothing, it ended as %s: the recorded result stays", t.label, status)
		return
	}
	log := ""
	for _, a := range t.outcome.attempts {
		for _, f := range a.result.TestActionOutput {
			if p, err := f.Path(); err == nil && f.Name == "test.log" {
				log = p
			}
		}
	}
	s.say("AUDIT FAILED: %s ended as %s, and a pass was recorded on %s by %s for the same fingerprint %s.\n"+
		"  The test is flaky, depends on something that isn't declared, or its fingerprint lacks something: please report the last.\n"+
		"  Log of this run: %s", t.label, status, t.recorded.End.UTC().Format(time.RFC3339), t.recorded.Host, t.key, cmp.Or(log, "none"))
	fmt.Fprintf(s.Err, "  The fingerprint is made of\n    code %s\n", t.composed.Code)
	for _, d := range t.composed.Data {
		fmt.Fprintf(s.Err, "    data %s %s\n", d.Path, d.SHA256)
	}
	for _, p := range t.composed.Contributions {
		fmt.Fprintf(s.Err, "    %s %s\n", p.Name, p.SHA256)
	}
	for _, p := range t.run.Parts() {
		fmt.Fprintf(s.Err, "    %s %s\n", p.Name, p.Sum)
	}
	if !s.Write {
		s.say("the recorded result stays: the store isn't written")
		return
	}
	r := &store.Result{ExitCode: 1, Start: s.start, End: time.Now(), Log: store.Content([]byte("withdrawn by an audit\n"))}
	r.Host, _ = os.Hostname()
	keys, err := s.knownTraces(ctx, t)
	for _, key := range append(keys, t.keys()...) {
		err = errors.Join(err, s.storeOf(t).Set(ctx, key, r))
	}
	if err != nil {
		s.say("warning: the recorded result isn't withdrawn everywhere: %v", err)
	} else {
		s.say("the recorded result is withdrawn")
	}
}
