package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/progress"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkflags"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/syslib"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
)

// Bounds of the look-up.
const (
	transfers = 16              // of results at once
	maxLookup = 5 * time.Minute // for all of them; what has no answer then is run
)

// compose computes the fingerprints of all tests that were analysed. A test
// whose fingerprint can't be computed stays a miss, or always runs.
func (s *session) compose(ctx context.Context) (code int, err error) {
	all := s.ofAll()
	if dir := s.Bazel.Cache; dir != "" {
		s.memory = fingerprint.OpenMemory(filepath.Join(dir, fmt.Sprintf("compositions-%016x", xxhash.Sum64String(s.execRoot))))
	}
	s.prober = &prober{dir: s.execRoot, env: pairs(optionsEnv(s.options, "action_env")), tmp: s.tmp, known: map[string]*probe{}}
	known, results, fallbacks := s.composeBy(ctx, s.tests)
	var again []*test
	why := ""
	for i, t := range known {
		if results[i].NotPlain != "" {
			again, why = append(again, t), cmp.Or(why, t.label+": "+results[i].NotPlain)
		}
	}
	if len(again) > 0 {
		s.say("analysing %s by the objects: not all of their C is plain (%s)", count(len(again), "test"), why)
		if code, err = s.analyseBy(ctx, byObject, again); err != nil || code == bazel.ExitInterrupted {
			return code, err
		}
		some, more, besides := s.composeBy(ctx, again)
		for i, t := range known {
			if results[i].NotPlain == "" {
				some, more = append(some, t), append(more, results[i])
			}
		}
		known, results, fallbacks = some, more, append(fallbacks, besides...)
	}
	if err := s.memory.Save(); err != nil {
		s.say("warning: what the tests are composed of isn't remembered: %v", err)
	}
	for _, f := range fallbacks {
		s.fallbacks = append(s.fallbacks, report.Fallback{Source: f.Source, Rung: f.Rung, Reason: f.Reason, Tests: f.Tests})
	}
	for i, t := range known {
		if why := results[i].Unusual; why != "" {
			s.fallbacks = append(s.fallbacks, report.Fallback{Source: t.label, Rung: "whole program", Reason: why, Tests: 1})
		}
	}
	parallel(runtime.NumCPU(), numbers(len(known)), func(i int) {
		t := known[i]
		if results[i].Err != nil {
			t.why = results[i].Err.Error()
			return
		}
		c := results[i].Config
		t.composed, t.lines, t.data, t.prebuilt, t.composition = c, results[i].Lines, results[i].DataFiles, results[i].Prebuilt, &results[i]
		if len(c.AlwaysRun) > 0 {
			t.verdict, t.why = report.AlwaysRun, c.AlwaysRun[0]
			return
		}
		run, err := s.runOf(ctx, t, all)
		if t.remote && t.worker.why != "" {
			err = errors.New(t.worker.why)
		}
		if err != nil {
			t.verdict, t.why = report.AlwaysRun, err.Error()
			return
		}
		if len(c.LocalOnly) > 0 && s.LocalStore == nil {
			t.verdict, t.why = report.AlwaysRun, c.LocalOnly[0]+", and the store is on another machine"
			return
		}
		key, err := fingerprint.Key(c, run)
		if err != nil {
			t.verdict, t.why = report.AlwaysRun, err.Error()
			return
		}
		t.run, t.key, t.why = run, key, "nothing is recorded"
	})
	return 0, nil
}

// composeBy composes those of tests that are described.
func (s *session) composeBy(ctx context.Context, tests []*test) (known []*test, results []fingerprint.Composed, fallbacks []fingerprint.Fallback) {
	var composed []*fingerprint.Test
	for _, t := range tests {
		if t.description == nil {
			continue
		}
		x, err := s.arguments(ctx, t.description)
		if err != nil {
			t.why = err.Error()
			continue
		}
		x.Source, t.links = t.readsSources(), links(x, s.workspaceDir())
		known, composed = append(known, t), append(composed, x)
	}
	line := progress.On(s.Err)
	line.Show("composing the fingerprints of %s", count(len(composed), "test"))
	results, stats := fingerprint.ComposeAll(composed, s.memory)
	line.Clear()
	touches := s.touches()
	for i, t := range known {
		if results[i].Err == nil {
			results[i].Err = touches.remade(t, composed[i], &results[i])
		}
	}
	return known, results, stats.Fallbacks
}

// links contributes where links lead that rules declare, or that are in directories that actions
// make: their files count by content. Bazel's own are absolute, and lead to what it has made or to sources.
func links(x *fingerprint.Test, workspace string) []fingerprint.Contribution {
	var l []string
	own := func(target string) bool {
		return filepath.IsAbs(target) && slices.ContainsFunc([]string{filepath.Join(x.Dir, "..", ".."), workspace}, func(dir string) bool {
			real, err := filepath.EvalSymlinks(dir)
			return strings.HasPrefix(target, dir+"/") || err == nil && strings.HasPrefix(target, real+"/")
		})
	}
	trees := slices.DeleteFunc(slices.Clone(x.Empty), func(name string) bool { return !strings.HasSuffix(name, "/") })
	seen := map[string]bool{}
	add := func(name, file string) {
		if seen[file] {
			return
		}
		seen[file] = true
		if target, err := os.Readlink(file); err == nil && !own(target) {
			l = append(l, name, target)
		}
	}
	for _, d := range x.Data {
		if !strings.HasPrefix(d.File, filepath.Join(x.Dir, "bazel-out")+"/") {
			continue
		}
		add(d.Path, d.File)
		for _, tree := range trees {
			// The directories between.
			name, file := path.Dir(d.Path), path.Dir(d.File)
			for ; strings.HasPrefix(name, tree); name, file = path.Dir(name), path.Dir(file) {
				add(name, file)
			}
		}
	}
	if l == nil {
		return nil
	}
	return []fingerprint.Contribution{fingerprint.NewContribution("links among the data", l)}
}

// arguments reads what the aspect has written for one test.
func (s *session) arguments(ctx context.Context, d *description) (*fingerprint.Test, error) {
	b, err := os.ReadFile(filepath.Join(s.execRoot, d.Compose))
	if err != nil {
		return nil, err
	}
	t := &fingerprint.Test{}
	flags := pflag.NewFlagSet("compose", pflag.ContinueOnError)
	flags.StringP("output", "o", "", "")
	flags.String("closure", "", "")
	flags.String("program", "", "")
	flags.Bool("traces", false, "")
	finish := t.AddFlags(flags)
	if err := flags.Parse(strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")); err != nil {
		return nil, fmt.Errorf("%s: %w: the rules are of another version than this program", d.Compose, err)
	}
	t.System = func(lines []*linkflags.Line) *syslib.Taken {
		if system, err := s.prober.libraries(ctx, d, lines); err == nil {
			return system.taken
		}
		return nil // it will be run
	}
	for _, o := range s.options {
		// What sanitizers are told is as if the test's rule had it.
		if name, _, _ := strings.Cut(o.OptionValue, "="); (o.OptionName == "test_env" || o.OptionName == "action_env") && syslib.ForSanitizer(name) {
			t.EnvKeys = append(t.EnvKeys, name)
		}
	}
	err = finish(s.execRoot)
	t.Toolchain = "" // which the prober asks
	return t, err
}

// lookup asks the stores for all fingerprints, replays what is recorded, and
// chooses what is audited.
func (s *session) lookup(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxLookup)
	defer cancel()
	start := time.Now()
	asked := map[store.Store][]*test{}
	for _, t := range s.tests {
		switch {
		case !t.hasKey():
		case !s.Read:
			t.why = "the store isn't read"
		default:
			st := s.storeOf(t)
			asked[st] = append(asked[st], t)
		}
	}
	for st, tests := range asked {
		s.lookupIn(ctx, st, tests)
	}
	l := &s.lookedUp
	l.LookupSeconds = time.Since(start).Seconds()
	l.Lookups = l.Hits + l.Misses + l.Damaged + l.Errors
}

func (s *session) lookupIn(ctx context.Context, st store.Store, tests []*test) {
	keys := make([]store.Key, len(tests))
	for i, t := range tests {
		keys[i] = t.key
	}
	line := progress.On(s.Err)
	defer line.Clear()
	outcomes := store.Lookup(ctx, st, keys, store.LookupOptions{Progress: func(n int) { line.Show("looking up %d of %s", n, count(len(keys), "result")) }})
	var mu sync.Mutex
	failures, example := 0, ""
	parallel(transfers, numbers(len(tests)), func(i int) {
		t, err := tests[i], outcomes[i].Err
		withdrawn := err == nil && outcomes[i].Info.ExitCode != 0
		if err == nil && !withdrawn {
			err = s.replay(ctx, st, t, t.key, false)
		}
		mu.Lock()
		defer mu.Unlock()
		line.Show("replaying %s", count(s.lookedUp.Hits, "result"))
		switch {
		case withdrawn:
			t.why = "the recorded result was withdrawn"
			s.lookedUp.Misses++
		case err == nil:
			t.hit(outcomes[i].Info, s.Audit)
			s.lookedUp.Hits++
		case errors.Is(err, store.ErrNotFound):
			t.missed = &s.lookedUp.Misses
			*t.missed++
		case store.IsMiss(err):
			t.why, t.missed = err.Error(), &s.lookedUp.Damaged
			*t.missed++
		default:
			t.why = "the store can't be read: " + err.Error()
			failures, example = failures+1, max(example, err.Error())
			t.missed = &s.lookedUp.Errors // another location may know a trace
			*t.missed++
		}
	})
	if failures > 0 {
		s.say("warning: %d of the look-ups failed, their tests are run: %s", failures, example)
	}
}

// hit notes that the result of a test is known, which is audited with some probability.
func (t *test) hit(recorded *store.Info, audit float64) {
	t.verdict, t.recorded, t.why = report.Hit, recorded, ""
	t.audit = rand.Float64() < audit
}

// hasKey tells whether the store can be asked for the test's result.
func (t *test) hasKey() bool { return t.verdict == report.Miss && t.hasFingerprint() }

func (t *test) hasFingerprint() bool { return t.key != store.Key{} }

// fingerprinted returns the tests among those with labels that have a fingerprint.
func (s *session) fingerprinted(labels []string) (tests []*test) {
	among := map[string]bool{}
	for _, l := range labels {
		among[l] = true
	}
	for _, t := range s.tests {
		if among[t.label] && t.hasFingerprint() {
			tests = append(tests, t)
		}
	}
	return tests
}

// storeOf returns where the test's result may be.
func (s *session) storeOf(t *test) store.Store {
	if len(t.composed.LocalOnly) > 0 {
		return s.LocalStore
	}
	return s.Store
}

// numbers returns 0 to n-1.
func numbers(n int) []int {
	l := make([]int, n)
	for i := range l {
		l[i] = i
	}
	return l
}

// parallel calls f for every element, n at a time.
func parallel[T any](n int, l []T, f func(T)) {
	var g errgroup.Group
	g.SetLimit(n)
	for _, x := range l {
		g.Go(func() error { f(x); return nil })
	}
	_ = g.Wait()
}

var errStatic = errors.New("it links libraries of the system statically, which may be those of another machine")

// machine completes run by what counts of this machine for a test that runs on it. It is an error
// if it can't be told what it will be run with, or, if it runs remotely, linked with.
func (s *session) machine(ctx context.Context, t *test, run *fingerprint.Run) error {
	if why := t.description.loading(s.options); why != "" {
		return errors.New(why)
	}
	system, err := s.prober.libraries(ctx, t.description, t.lines)
	switch {
	case t.remote && slices.ContainsFunc(t.lines, func(l *linkflags.Line) bool { return l.Inside().Any }):
		return errStatic // it may be another machine that links
	case err != nil || t.remote:
		return err
	}
	data, err := s.prober.loads(t, system.program)
	if err != nil {
		return err
	}
	run.Libraries = syslib.Sort(slices.Concat(system.loaded, data))
	run.Machine, err = syslib.Machine()
	return err
}
