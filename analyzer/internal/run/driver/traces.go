package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/nameset"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/progress"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/frontier"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
)

// Traces says what traces are for: see docs/traces.md.
type Traces string

const (
	// TracesOff: nothing.
	TracesOff Traces = "off"
	// TracesRead: tests that aren't known by their fingerprints may be known by a trace.
	TracesRead Traces = "read"
	// TracesOn: what is run is traced, too.
	TracesOn Traces = "on"
)

// auditTraces is how many times as often a result is audited that a trace has decided about.
const auditTraces = 5

// How tests are traced
//
// "bazel test" runs them by this program (--run_under), which traces those whose labels are in a file, and leaves what
// a test didn't enter beside its log. The flag is in all invocations, and is always the same, for with another one Bazel
// would analyse the workspace anew. On other machines this program isn't: with remote execution nothing is traced.

// hiddenBySandbox begins the paths that tests in Bazel's sandbox don't see: they have a directory of that name of
// their own, unless the command line has one of showsAll.
var hiddenBySandbox = "/tmp/"

var showsAll = []string{"--noincompatible_sandbox_hermetic_tmp", "--sandbox_add_mount_pair=/tmp", "--spawn_strategy=local", "--spawn_strategy=processwrapper-sandbox"}

// collect has tests traced that are run, if that can be.
func (s *session) collect() {
	if s.Traces != TracesOn || s.Store == nil || !s.Write || s.flags["--run_under"] == nil {
		return
	}
	why := ""
	dir, err := filepath.Abs(s.Bazel.Dir)
	s.only = filepath.Join(s.Bazel.Cache, "traced-"+wholefile.Checksum([]byte(dir))[:16])
	hidden := func(path string) bool {
		return strings.HasPrefix(path, hiddenBySandbox) && !slices.ContainsFunc(s.args, func(a string) bool { return slices.Contains(showsAll, a) })
	}
	switch {
	case err != nil:
		why = err.Error()
	case s.Bazel.Cache == "":
		why = "there is no directory for caches"
	case hidden(s.Tracer):
		why = "Bazel's sandbox hides " + s.Tracer
	case hidden(s.only):
		why = "Bazel's sandbox hides " + s.only
	case !trace.Permitted():
		why = "ptrace isn't permitted here"
	}
	if why != "" {
		s.say("warning: tests aren't traced: %s", why)
		return
	}
	s.runUnder = trace.RunUnder(s.Tracer, "--only="+s.only)
	s.args = append([]string{s.runUnder}, s.args...)
}

// hides are options by which a sandbox may hide this program from tests.
var hides = []string{"sandbox_block_path", "sandbox_tmpfs_path", "experimental_use_hermetic_linux_sandbox", "experimental_docker_image"}

// outOfReach says why tests can't be run by this program, by the effective options, or returns "".
func (s *session) outOfReach() string {
	for _, o := range s.options {
		if o.OptionName == "remote_executor" && o.OptionValue != "" {
			return "this program isn't on the machines of remote execution"
		}
		if slices.Contains(hides, o.OptionName) && o.OptionValue != "" && !isFalse(o.OptionValue) {
			return "--" + o.OptionName + " may hide this program"
		}
	}
	return ""
}

// withoutTracer has Bazel run tests as if no trace were wanted.
func (s *session) withoutTracer() {
	if s.runUnder != "" {
		s.args = without(s.args, []string{s.runUnder})
		s.runUnder = ""
	}
}

// listTraced says which of the tests that are run now are traced.
func (s *session) listTraced(labels []string) error {
	if s.runUnder == "" {
		return nil
	}
	var traced []trace.Wanted
	for _, t := range s.fingerprinted(labels) {
		if t.verdict == report.Miss {
			traced = append(traced, trace.Wanted{Label: t.label, Entered: trace.Again(t.entered, t.key[:])})
		}
	}
	return trace.WriteWanted(s.only, traced)
}

// traceKey returns the key of what a test with a frontier was composed to, or why there is none.
func (t *test) traceKey(c *fingerprint.Composed) (store.Key, error) {
	if err := c.Undecided(); err != nil {
		return store.Key{}, err
	}
	return fingerprint.Key(c.Config, t.run)
}

// lookupTraces replays tests that aren't known by their fingerprints, but by a trace.
func (s *session) lookupTraces(ctx context.Context) error {
	if s.Traces == TracesOff || s.Traces == "" || !s.Read {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxLookup)
	defer cancel()
	var asked []*test
	for _, t := range s.tests {
		if t.hasKey() && t.missed != nil {
			asked = append(asked, t)
		}
	}
	frontiers := map[*test][]map[string]bool{}
	var mu sync.Mutex
	var failed error
	parallel(transfers, asked, func(t *test) {
		known, err := frontier.Read(ctx, s.storeOf(t), t.label)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = err
		} else if len(known.Frontiers) > 0 {
			frontiers[t], t.entered = known.Frontiers, known.Entered
		}
	})
	if failed != nil && s.lookedUp.Errors == 0 { // else it is known
		s.say("warning: not all traces can be read: %v", failed)
	}
	asked = slices.DeleteFunc(asked, func(t *test) bool { return frontiers[t] == nil })
	tests, composed, err := s.byObjects(ctx, asked)
	if err != nil || len(tests) == 0 {
		return err
	}
	defer s.tellRefused()
	line := progress.On(s.Err)
	defer line.Clear()
	traced := fingerprint.NewTraced(composed)
	for round := range frontier.Max {
		var which []int
		var idle []map[string]bool
		for i, t := range tests {
			if l := frontiers[t]; t.verdict == report.Miss && round < len(l) {
				which, idle = append(which, i), append(idle, l[round])
			}
		}
		if len(which) == 0 || ctx.Err() != nil {
			break
		}
		line.Show("looking up %s by what they have executed", count(len(which), "test"))
		touches := s.touches()
		keys := map[store.Store]map[store.Key]*test{}
		place := map[*test]int{}
		for k, c := range traced.Compose(which, idle) {
			t := tests[which[k]]
			key, err := t.traceKey(&c)
			if err == nil {
				err = touches.remade(t, composed[which[k]], &c)
			}
			if err != nil {
				continue
			}
			st := s.storeOf(t)
			if keys[st] == nil {
				keys[st] = map[store.Key]*test{}
			}
			keys[st][key] = t
			place[t] = which[k]
		}
		// Files may have been saved since the fingerprint was computed: what is recorded for it has to be of the same.
		same := func(t *test) bool {
			if t.readsSources() {
				return false // objects were made later than that
			}
			c := &traced.Compose([]int{place[t]}, []map[string]bool{nil})[0]
			key, err := t.traceKey(c)
			return err == nil && key == t.key
		}
		for st, of := range keys {
			s.replayTraces(ctx, st, of, same)
		}
	}
	return nil
}

// byObjects returns what tests are composed of by their objects, as traces want it: of C by its sources, Bazel has
// to make objects first. Those are left out of which that can't be told.
func (s *session) byObjects(ctx context.Context, tests []*test) (known []*test, composed []*fingerprint.Test, err error) {
	var labels []string
	for _, t := range tests {
		if t.readsSources() {
			labels = append(labels, t.label)
		}
	}
	seen := newAspectOutputs(s.Aspect)
	if len(labels) > 0 {
		s.say("compiling what %s made of, of which traces are known", map[bool]string{true: "1 test is", false: count(len(labels), "test") + " are"}[len(labels) == 1])
		targets, err := s.targets(byObject, labels)
		if err != nil {
			return nil, nil, err
		}
		if seen, _, err = s.applyAspect(ctx, byObject, nil, append([]string{"--nobuild_tests_only", "--keep_going"}, targets...)...); err != nil {
			return nil, nil, err
		}
		if seen == nil {
			return nil, nil, nil // interrupted, which step 5 will be as well
		}
	}
	for _, t := range tests {
		if x, err := s.byObject(ctx, t, t.description, seen); err == nil {
			known, composed = append(known, t), append(composed, x)
		}
	}
	return known, composed, nil
}

// byObject returns what a test is composed of by its objects. The description is that of its manifests, or if these
// are of sources, the aspect has made another one.
func (s *session) byObject(ctx context.Context, t *test, d *description, seen *aspectOutputs) (*fingerprint.Test, error) {
	if t.readsSources() {
		o := seen.found[byObject][t.label]
		switch {
		case o == nil:
			return nil, errors.New("the aspect doesn't tell of its objects")
		case o.err != nil:
			return nil, o.err
		case o.config != t.config && !t.uncached: // see confirm
			return nil, errors.New("the analysis has another configuration than the test")
		}
		var err error
		if d, err = readDescription(o.file); err != nil {
			return nil, err
		}
	}
	return s.arguments(ctx, d)
}

// replayTraces replays those tests of which the store has the result under the key of a trace, and records it for their
// fingerprints, if these are of the same.
func (s *session) replayTraces(ctx context.Context, st store.Store, of map[store.Key]*test, same func(*test) bool) {
	var keys []store.Key
	for key := range of {
		keys = append(keys, key)
	}
	outcomes := store.Lookup(ctx, st, keys, store.LookupOptions{})
	var mu sync.Mutex
	parallel(transfers, numbers(len(keys)), func(i int) {
		t := of[keys[i]]
		if outcomes[i].Err != nil || outcomes[i].Info.ExitCode != 0 {
			return
		}
		// A test that has failed with this very fingerprint isn't decided about by anything else.
		if store.Noted(ctx, st, t.key) != nil {
			return
		}
		if s.replay(ctx, st, t, keys[i], same(t)) != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		t.hit(outcomes[i].Info, auditTraces*s.Audit)
		t.byTrace = keys[i]
		*t.missed--
		s.lookedUp.Hits++
		s.lookedUp.Traces++
	})
}

// traced is what an execution of a test was, by its trace.
type traced struct {
	key      store.Key
	frontier []string
	entered  nameset.Set
}

// traces finds out of tests that were run the keys of their traces, given what has run. Why a test has none, it says
// in --explain only: most have their reason in every run.
func (s *session) traces(ctx context.Context, tests []*test, composed []*fingerprint.Test) {
	if s.runUnder == "" {
		return
	}
	var known []*test
	var idle []map[string]bool
	var those []*fingerprint.Test
	for i, t := range tests {
		t.trace = nil
		dirs := t.outcome.dirs()
		if dirs == nil {
			continue
		}
		names, err := trace.ReadIdle(dirs)
		if err == nil && names == nil {
			err = errors.New("nothing is known of what it has executed")
		}
		x := composed[i]
		if err == nil && t.readsSources() {
			x, err = s.byObject(ctx, t, nil, s.afterwards)
		}
		if err != nil {
			s.noTrace(t, err)
			continue
		}
		known, idle, those = append(known, t), append(idle, names), append(those, x)
	}
	if len(known) == 0 {
		return
	}
	touches := s.touches()
	for i, c := range fingerprint.NewTraced(those).Compose(numbers(len(those)), idle) {
		key, err := known[i].traceKey(&c)
		if err == nil {
			err = touches.remade(known[i], those[i], &c)
		}
		if err != nil {
			s.noTrace(known[i], err)
			continue
		}
		known[i].trace = &traced{key, c.Idle, c.Entered}
	}
}

// knownTraces returns the keys of all traces that are known of a test: nobody shall replay what an audit has shown to be
// wrong, whichever of them led to it.
func (s *session) knownTraces(ctx context.Context, t *test) (keys []store.Key, err error) {
	if t.readsSources() {
		return nil, nil // what a trace finds for it isn't recorded for its fingerprint
	}
	known, err := frontier.Read(ctx, s.storeOf(t), t.label)
	if err != nil || len(known.Frontiers) == 0 {
		return nil, err
	}
	x, err := s.arguments(ctx, t.description)
	if err != nil {
		return nil, err
	}
	for _, c := range fingerprint.NewTraced([]*fingerprint.Test{x}).Compose(make([]int, len(known.Frontiers)), known.Frontiers) {
		if key, err := t.traceKey(&c); err == nil {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

func (s *session) noTrace(t *test, why error) {
	if s.Explain {
		s.say("%s has no trace: %v", t.label, why)
	}
}

// dirs returns the directories of the logs of a test's shards, or nil if one was executed in several attempts.
func (o *outcome) dirs() (dirs []string) {
	for _, a := range o.attempts {
		if a.attempt > 1 || a.run > 1 {
			return nil
		}
		for _, f := range a.result.TestActionOutput {
			if f.Name != logName {
				continue
			}
			p, err := f.Path()
			if err != nil {
				return nil
			}
			dirs = append(dirs, filepath.Dir(p))
		}
	}
	if len(dirs) < len(o.attempts) {
		return nil
	}
	return dirs
}

// recordTrace keeps a result of a test under the key of its trace as well.
func (s *session) recordTrace(ctx context.Context, t *test, r *store.Result) {
	if t.trace == nil {
		return
	}
	const byTrace = " by its trace"
	if store.IsRecorded(s.recordPass(ctx, t, t.trace.key, byTrace, r)) {
		if err := frontier.Add(ctx, s.storeOf(t), t.label, t.trace.frontier, t.trace.entered); err != nil {
			s.refused.add("recorded"+byTrace, err)
		}
	}
}

// isIdle tells whether a file beside a test's log is what tracing it has left there.
func isIdle(name, path string) bool {
	if !is(filepath.ToSlash(name), trace.IdleFile) {
		return false
	}
	b, err := os.ReadFile(path)
	if err == nil {
		_, err = trace.DecodeIdle(b)
	}
	var unknown trace.UnknownError
	return err == nil || errors.As(err, &unknown)
}

// ParseTraces parses the value of --traces.
func ParseTraces(value string) (Traces, error) {
	t := Traces(value)
	if !slices.Contains([]Traces{TracesOff, TracesRead, TracesOn}, t) {
		return "", fmt.Errorf("--traces=%s: want off, read or on", value)
	}
	return t, nil
}
