package cases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"golang.org/x/sync/errgroup"
)

// Set are the cases of a test that has no result.
type Set struct {
	label string
	store store.Store
	list  []testCase // the first one is the rest
}

// testCase is a case of a Set.
type testCase struct {
	id      string
	key     store.Key
	known   *Record   // nil if it isn't known
	byTrace store.Key // the key of a trace by which it is known, or zero
}

// transfers bounds the calls of a store at once.
const transfers = 16

// Wanted reports whether a test is to be decided by its cases.
func Wanted(c *fingerprint.Config) bool { return len(c.Cases) > 0 || c.NoCases != "" }

// Open returns the cases of a test with a key for run, and looks them up if asked. Its error is why the test is decided as a
// whole.
func Open(ctx context.Context, s store.Store, label string, c *fingerprint.Config, run *fingerprint.Run, lookUp bool) (*Set, error) {
	if why := refusal(c, run); why != "" {
		return nil, errors.New(why)
	}
	keys, err := keysOf(c, run)
	if err != nil {
		return nil, err
	}
	x := &Set{label: label, store: s}
	for _, of := range c.Cases {
		x.list = append(x.list, testCase{id: of.ID, key: keys[of.ID]})
	}
	r, err := s.Get(ctx, dependentKey(label))
	switch {
	case err == nil:
		r.Close()
		return nil, errors.New("its cases depend on each other")
	case errors.Is(err, store.ErrNotAllowed) || !lookUp:
		return x, nil
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	x.each(func(c *testCase) { c.known = x.get(ctx, c.key) })
	return x, nil
}

// keysOf returns the keys of the cases of a composition by their IDs.
func keysOf(c *fingerprint.Config, run *fingerprint.Run) (map[string]store.Key, error) {
	keys := map[string]store.Key{}
	for _, of := range c.Cases {
		key, err := fingerprint.Key(of.Of(c), run)
		if err != nil {
			return nil, err
		}
		keys[of.ID] = key
	}
	return keys, nil
}

// get returns the record under a key, or nil.
func (x *Set) get(ctx context.Context, key store.Key) *Record {
	r, err := x.store.Get(ctx, key)
	if err != nil {
		return nil
	}
	defer r.Close()
	if r.ExitCode != 0 { // withdrawn
		return nil
	}
	record, _ := decode(r)
	return record
}

// refusal returns why a test is decided as a whole, or "".
func refusal(c *fingerprint.Config, run *fingerprint.Run) string {
	isGoogleTests := func(word string) bool {
		return strings.HasPrefix(strings.TrimLeft(word, "-"), "gtest_") || strings.HasPrefix(word, "GTEST_") || strings.HasPrefix(word, "TESTBRIDGE_")
	}
	isSet := func(prefix string) bool {
		return slices.ContainsFunc(run.Env, func(kv string) bool { return strings.HasPrefix(kv, prefix) })
	}
	switch {
	case c.NoCases != "":
		return c.NoCases
	case len(c.Cases) < 3: // the rest and one
		return "it has one case"
	case run.Shards > 1, isSet("TEST_TOTAL_SHARDS="):
		return "it is sharded"
	case isSet("TESTBRIDGE_TEST_ONLY="):
		return "--test_filter chooses its cases"
	case slices.ContainsFunc(run.Args, isGoogleTests):
		return "it has flags of GoogleTest"
	case slices.ContainsFunc(run.Env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return isGoogleTests(name) && !slices.Contains(fingerprint.SetByBazel, name)
	}):
		return "its environment has flags of GoogleTest"
	}
	return ""
}

// dependentKey is the key of the note that the cases of a test depend on each other.
func dependentKey(label string) store.Key {
	b := frame.New("tasting dependent cases 1")
	b.String(label)
	return b.Sum()
}

// each calls f with each case, concurrently.
func (x *Set) each(f func(c *testCase)) {
	var g errgroup.Group
	g.SetLimit(transfers)
	for i := range x.list {
		g.Go(func() error { f(&x.list[i]); return nil })
	}
	_ = g.Wait() // f returns no error
}

// Len is the number of cases.
func (x *Set) Len() int { return len(x.list) - 1 }

// unknown are the IDs of cases that aren't known.
func (x *Set) unknown() (ids []string) {
	for _, c := range x.list[1:] {
		if c.known == nil {
			ids = append(ids, c.id)
		}
	}
	return ids
}

// AllKnown reports whether the outcome of the test is known.
func (x *Set) AllKnown() bool { return x.list[0].known != nil && len(x.unknown()) == 0 }

// SomeKnown reports whether the program has to be executed, but only some of its cases. A filter that selects no case would
// show nothing of what all cases share.
func (x *Set) SomeKnown() bool {
	n := len(x.unknown())
	return n > 0 && n < x.Len()
}

// String describes the cases that aren't known.
func (x *Set) String() string {
	const shown = 4
	l := x.unknown()
	n := len(l)
	if n > shown {
		l = append(l[:shown], "…")
	}
	return fmt.Sprintf("%d of %d: %s", n, x.Len(), strings.Join(l, ", "))
}

// recorded returns the records of known cases.
func (x *Set) recorded() (l []*Record) {
	for _, c := range x.list[1:] {
		if c.known != nil {
			l = append(l, c.known)
		}
	}
	return l
}

// all returns the records of known cases and of the rest.
func (x *Set) all() []*Record {
	if x.list[0].known == nil {
		return x.recorded()
	}
	return append(x.recorded(), x.list[0].known)
}

// KnowsRest reports whether the names that belong to no case are known.
func (x *Set) KnowsRest() bool { return x.list[0].known != nil }

// KnownNames returns the full names of the known cases.
func (x *Set) KnownNames() (names []string) {
	for _, r := range x.recorded() {
		for _, r := range r.Results {
			names = append(names, r.FullName())
		}
	}
	return names
}

// MayHave returns a function that reports whether the test may have a case of a full name whose outcome isn't known.
func (x *Set) MayHave() func(full string) bool {
	known, unknown := x.KnownNames(), x.unknown()
	return func(full string) bool {
		suite, name, _ := strings.Cut(full, ".")
		isRest := func(r Result) bool { return r.FullName() == full }
		switch {
		case slices.Contains(known, full):
			return false
		case x.list[0].known == nil || slices.ContainsFunc(x.list[0].known.Results, isRest):
			return true
		}
		return slices.ContainsFunc(candidates(suite, name), func(id string) bool { return slices.Contains(unknown, id) })
	}
}

// Counts counts cases, with their instantiations.
type Counts struct{ Executed, Replayed int }

// xmlName is the name of the file with the cases in a result.
const xmlName = "test.xml"

// Replay returns the result of a test whose cases are all known.
func (x *Set) Replay() (*store.Result, Counts) {
	seconds := 0.0
	for _, r := range x.all() {
		for _, r := range r.Results {
			seconds += r.Seconds()
		}
	}
	end := time.Now()
	return x.merge(nil, x.all(), end.Add(-time.Duration(seconds*float64(time.Second))), end)
}

func (x *Set) merge(executed *Run, records []*Record, start, end time.Time) (*store.Result, Counts) {
	var n Counts
	if executed != nil {
		n.Executed = executed.ran()
	}
	for _, r := range records {
		n.Replayed += len(r.Results)
	}
	text, log := merge(executed, records)
	r := &store.Result{Start: start, End: end, Log: store.Content(log), Files: []store.File{{Path: xmlName, Content: store.Content(text)}}}
	r.Host, _ = os.Hostname()
	return r, n
}

// Passed returns the result of the whole test, given that of an execution that has passed. If only unknown cases were to be
// executed, the known ones that it hasn't reported are added.
func (x *Set) Passed(run *Run, partial bool, result *store.Result) (*store.Result, Counts) {
	missing := run.missing(x.recorded())
	if !partial || len(missing) == 0 { // a program that ignores filters has executed all
		return result, Counts{Executed: run.ran()}
	}
	return x.merge(run, missing, result.Start, result.End)
}

// Record records the cases of an execution that has passed and that aren't known. Result is that of the test. Nothing is
// recorded of an execution that failed: what keeps a program from passing, such as a leak, may belong to any case.
func (x *Set) Record(ctx context.Context, run *Run, result *store.Result) error {
	return x.record(ctx, run, result, func(c *testCase) (store.Key, bool) { return c.key, c.known == nil })
}

// record records the cases of a run under the keys that keyOf returns.
func (x *Set) record(ctx context.Context, run *Run, result *store.Result, keyOf func(c *testCase) (store.Key, bool)) (failed error) {
	var mu sync.Mutex
	x.each(func(c *testCase) {
		key, ok := keyOf(c)
		if !ok {
			return
		}
		log, err := store.Document(run.of(c.id))
		if err == nil {
			err = store.RecordPass(ctx, x.store, key, &store.Result{Host: result.Host, Start: result.Start, End: result.End, Log: log})
		}
		if _, flaky := errors.AsType[*store.FlakyError](err); !flaky && !store.IsRecorded(err) {
			mu.Lock()
			defer mu.Unlock()
			failed = err
		}
	})
	return failed
}

// Failed notes the cases that failed in an execution of all cases. It returns the IDs of those that were known: their records
// are withdrawn.
func (x *Set) Failed(ctx context.Context, run *Run, result *store.Result) (wrong []string) {
	failed := run.failedIDs()
	for _, c := range x.list[1:] {
		if !slices.Contains(failed, c.id) {
			continue
		}
		if c.known != nil {
			wrong = append(wrong, c.id)
		}
		// Without the note, a flaky case may be recorded.
		_ = store.RecordFailure(ctx, x.store, c.key, result)
		if c.byTrace != (store.Key{}) {
			_ = store.RecordFailure(ctx, x.store, c.byTrace, result)
		}
	}
	return wrong
}

// Keys are the keys by which the cases are known, or would be.
func (x *Set) Keys() (keys []store.Key) {
	for _, c := range x.list {
		keys = append(keys, c.key)
		if c.byTrace != (store.Key{}) {
			keys = append(keys, c.byTrace)
		}
	}
	return keys
}

// SetDependent remembers that the cases of a test depend on each other, or that its keys lack something, by a result with the
// reason as its log: it is decided as a whole from then on.
func SetDependent(ctx context.Context, s store.Store, label string, reason *store.Result) error {
	return s.Set(ctx, dependentKey(label), reason)
}

// Read reads the cases of an execution from its files. If it is partial, it is an error if one of the unknown cases wasn't
// executed: a program may have its own idea of a filter. If it has passed, it is an error if a case has failed: a program may
// tolerate so many.
func (x *Set) Read(text, log []byte, partial, passed bool) (*Run, error) {
	run, err := read(text, log, func(id string) bool { return slices.ContainsFunc(x.list, func(c testCase) bool { return c.id == id }) })
	if err == nil && passed && len(run.Failed()) > 0 {
		return nil, fmt.Errorf("it passes, although %s fails", run.Failed()[0])
	}
	if err != nil || !partial {
		return run, err
	}
	for _, id := range x.unknown() {
		if len(run.of(id).Results) == 0 {
			return nil, fmt.Errorf("it has left out %s", id)
		}
	}
	if run.ran() == 0 {
		return nil, errors.New("it has executed no case")
	}
	return run, nil
}
