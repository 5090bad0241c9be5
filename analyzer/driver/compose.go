package driver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/report"
	"github.com/rules-tasting/rules_tasting/analyzer/store"
	"github.com/spf13/pflag"
)

// Bounds of the look-up.
const (
	lookups   = 64               // at once
	maxLookup = 60 * time.Second // for all of them; what has no answer then is run
)

// compose computes the fingerprints of all tests that were analysed. A test
// whose fingerprint can't be computed stays a miss, or always runs.
func (s *session) compose(ctx context.Context) {
	client := clientEnv(s.options)
	common := invocation(s.options)
	remote := s.option("remote_executor") != ""
	p := &prober{dir: s.execRoot, tmp: s.tmp, env: func(name string) string { return client[name] }, known: map[string]*probe{}}
	parallel(runtime.NumCPU(), s.tests, func(t *test) {
		d := t.description
		if d == nil {
			return
		}
		c, _, err := composeOne(s.execRoot, d)
		if err != nil {
			t.why = err.Error()
			return
		}
		t.composed = c
		if len(c.AlwaysRun) > 0 {
			t.verdict, t.why = report.AlwaysRun, c.AlwaysRun[0]
			return
		}
		parts := append(append([]fingerprint.Contribution{}, common...), d.declaration(client)...)
		if !remote {
			// Elsewhere, the execution properties and the options say on which
			// machine, as they do for Bazel.
			libraries, changed, err := p.libraries(ctx, d, c.LinkFlags)
			if err != nil {
				t.verdict, t.why = report.AlwaysRun, err.Error()
				return
			}
			parts, t.systemChanged = append(parts, libraries...), changed
		}
		t.parts = parts
		if t.key, err = keyOf(c, parts); err != nil {
			t.why = err.Error()
			return
		}
		t.why = "nothing is recorded"
	})
}

// composeOne reads the arguments that the aspect has written for one test.
func composeOne(execRoot string, d *description) (*fingerprint.Config, *fingerprint.Report, error) {
	f, err := os.Open(filepath.Join(execRoot, d.Compose))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	var args []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		args = append(args, lines.Text())
	}
	if err := lines.Err(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", d.Compose, err)
	}
	t := &fingerprint.Test{}
	flags := pflag.NewFlagSet("compose", pflag.ContinueOnError)
	flags.StringP("output", "o", "", "")
	flags.String("closure", "", "")
	finish := t.AddFlags(flags)
	if err := errors.Join(flags.Parse(args)); err != nil {
		return nil, nil, fmt.Errorf("%s: %w: the rules are of another version than this program", d.Compose, err)
	}
	if err := finish(execRoot); err != nil {
		return nil, nil, err
	}
	c, r, _, err := fingerprint.Compose(t)
	return c, r, err
}

// lookup asks the store for all fingerprints, and chooses what is audited.
func (s *session) lookup(ctx context.Context) {
	if !s.Read {
		for _, t := range s.tests {
			if t.hasKey() {
				t.why = "the store isn't read"
			}
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, maxLookup)
	defer cancel()
	var mu sync.Mutex
	failures := map[string]int{}
	count := func(n *int) {
		mu.Lock()
		defer mu.Unlock()
		*n++
	}
	start := time.Now()
	parallel(lookups, s.tests, func(t *test) {
		if !t.hasKey() {
			return
		}
		r, err := s.Store.Get(ctx, t.key)
		switch {
		case err == nil && r.ExitCode == 0:
			t.verdict, t.recorded, t.why = report.Hit, r, ""
			t.audit = rand.Float64() < s.Audit
			count(&s.lookedUp.Hits)
		case err == nil:
			r.Close()
			t.why = "the recorded result was withdrawn"
			count(&s.lookedUp.Misses)
		case errors.Is(err, store.ErrNotFound):
			count(&s.lookedUp.Misses)
		case store.IsMiss(err):
			t.why = err.Error()
			count(&s.lookedUp.Damaged)
		default:
			count(&s.lookedUp.Errors)
			t.why = "the store can't be read: " + err.Error()
			mu.Lock()
			failures[err.Error()]++
			mu.Unlock()
		}
	})
	s.lookedUp.LookupSeconds = time.Since(start).Seconds()
	s.lookedUp.Lookups = s.lookedUp.Hits + s.lookedUp.Misses + s.lookedUp.Damaged + s.lookedUp.Errors
	n, example := 0, ""
	for e, k := range failures {
		n, example = n+k, max(example, e)
	}
	if n > 0 {
		s.say("warning: %d of the look-ups failed, their tests are run: %s", n, example)
	}
}

// hasKey tells whether the store can be asked for the test's result.
func (t *test) hasKey() bool { return t.verdict == report.Miss && t.hasFingerprint() }

func (t *test) hasFingerprint() bool { return t.key != store.Key{} }

// parallel calls f for every element, n at a time.
func parallel[T any](n int, l []T, f func(T)) {
	var wg sync.WaitGroup
	next := make(chan T)
	for range min(n, len(l)) {
		wg.Go(func() {
			for x := range next {
				f(x)
			}
		})
	}
	for _, x := range l {
		next <- x
	}
	close(next)
	wg.Wait()
}
