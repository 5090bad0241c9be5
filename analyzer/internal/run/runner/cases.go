package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/cases"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
)

// filterVariable has the filter by which Bazel has a test execute some of its cases (--test_filter).
const filterVariable = "TESTBRIDGE_TEST_ONLY"

// testCases are the cases of a test that has no result (docs/explanation/cases.md).
type testCases struct {
	*cases.Set
	failed []string // names of cases that failed without the known ones
	filter string   // of the last execution
}

// byCases looks up the cases of a test, and replays the test if all are known. It returns nil if the test is decided as a whole.
func (r *runner) byCases(s *openStore, read bool, key store.Key, run *fingerprint.Run, t *traces) (x *testCases, code int, done bool) {
	label := r.env.get("TEST_TARGET")
	if !cases.Wanted(r.config) || label == "" {
		return nil, 0, false
	}
	x = &testCases{}
	// The store is used later, too, each time with a limit of its own.
	err := s.do(maxGet, func(ctx context.Context, st store.Store) (err error) {
		// A test that has failed with this very fingerprint is executed as a whole.
		x.Set, err = cases.Open(ctx, st, label, r.config, run, read && store.Noted(ctx, st, key) == nil)
		return err
	})
	if err != nil {
		r.say("decided as a whole: %v", err)
		return nil, 0, false
	}
	if read {
		r.findCases(s, key, x, t)
	}
	if x.AllKnown() {
		res, _ := x.Replay()
		code, err = r.replay("the cases of fingerprint", key, res)
		done = err == nil
	}
	return x, code, done
}

// executeCases executes the cases that aren't known, and all if that fails. The caller closes the spool.
func (r *runner) executeCases(rec *recorder) (o *outcome, s *spool, err error) {
	if c := rec.cases; c != nil && c.SomeKnown() {
		c.filter = cases.Filter(c.KnownNames())
		r.say("only cases run whose outcome isn't known, %s", c)
		s = newSpool()
		if o, err = r.executeWith(filterVariable+"="+c.filter, s); err != nil {
			return nil, s, err
		}
		passed := o.code == 0 && o.signal == 0
		run, err := r.readCases(c, s, passed)
		switch {
		case passed && err == nil || !passed && o.obstacle != "":
			return o, s, nil // with an obstacle, somebody has ended it
		case passed:
			r.say("%v: running all cases", err)
		default:
			r.say("failed without the cases that are known: running all cases")
			c.failed = []string{"an unknown case"}
			if run != nil && len(run.Failed()) > 0 {
				c.failed = run.Failed()
			}
		}
		if err := trace.CleanTest(r.env.get); err != nil {
			return nil, s, fmt.Errorf("all cases can't be run: %w", err)
		}
		s.Close()
		c.filter = ""
	}
	s = newSpool()
	o, err = r.execute(s, rec.traces)
	return o, s, err
}

// executeWith executes the test with one more variable.
func (r *runner) executeWith(variable string, s *spool) (*outcome, error) {
	env := r.Env
	defer func() { r.Env = env }()
	r.Env = append(slices.Clone(env), variable)
	return r.execute(s, nil) // a trace of some cases isn't one of the test
}

// readCases reads the cases of an execution.
func (r *runner) readCases(c *testCases, s *spool, passed bool) (*cases.Run, error) {
	text, err := os.ReadFile(r.env.get("XML_OUTPUT_FILE"))
	if err != nil {
		return nil, err
	}
	log, err := io.ReadAll(s.Content())
	if err != nil {
		return nil, err
	}
	return c.Read(text, log, c.filter != "", passed)
}

// passedCases returns the result of the whole test, given that of an execution that has passed. Run is nil if nothing is
// recorded by cases. The error is why nothing is recorded.
func (r *runner) passedCases(rec *recorder, s *spool, res *store.Result) (run *cases.Run, whole *store.Result, err error) {
	c := rec.cases
	if c == nil {
		return nil, res, nil
	}
	if c.failed != nil {
		r.sayDependent(rec, c.failed)
		return nil, res, errors.New("some of its cases fail without the others")
	}
	run, err = r.readCases(c, s, true)
	if err == nil && slices.ContainsFunc(res.Files, func(f store.File) bool { return f.Path != xmlFile }) {
		err = errors.New("it writes files besides test.xml")
	}
	if err != nil {
		if c.filter == "" {
			err = nil
		}
		return nil, res, err
	}
	whole, _ = c.Passed(run, c.filter != "", res)
	if whole != res {
		file := r.env.get("XML_OUTPUT_FILE")
		if err := errors.Join(os.Remove(file), r.placeFiles(whole.Files)); err != nil {
			r.say("no test.xml: %v", err)
		}
		replayed := io.NewSectionReader(whole.Log, res.Log.Size(), whole.Log.Size()-res.Log.Size())
		if _, err := io.Copy(r.Stdout, replayed); err != nil {
			r.say("the log could not be written: %v", err)
		}
	}
	return run, whole, nil
}

// recordCases keeps the results of cases of an execution that has passed, also by the traces of its stages.
func (r *runner) recordCases(rec *recorder, o *outcome, run *cases.Run, res *store.Result) error {
	stages := r.composeStages(rec, o)
	return rec.store.do(maxStore, func(ctx context.Context, _ store.Store) error {
		err := rec.cases.Record(ctx, run, res)
		for _, s := range stages {
			err = errors.Join(err, rec.cases.RecordTraced(ctx, s, rec.run, run, res))
		}
		return err
	})
}

// failedCases notes the cases that failed in a whole execution.
func (r *runner) failedCases(rec *recorder, s *spool, res *store.Result) {
	c := rec.cases
	if c == nil || c.filter != "" {
		return
	}
	run, err := r.readCases(c, s, false)
	if err != nil {
		return
	}
	var wrong []string
	_ = rec.store.do(maxStore, func(ctx context.Context, _ store.Store) error { // nothing is lost if that doesn't work
		wrong = c.Failed(ctx, run, &store.Result{ExitCode: 1, Host: res.Host, Start: res.Start, End: res.End, Log: store.Content(nil)})
		return nil
	})
	if len(wrong) > 0 {
		r.sayDependent(rec, wrong)
	}
}

// sayDependent remembers that the cases of the test depend on each other.
func (r *runner) sayDependent(rec *recorder, names []string) {
	why := strings.Join(names, ", ")
	r.say("its cases depend on each other, or its keys lack something (%s): it is decided as a whole from now on", why)
	_ = rec.store.do(maxStore, func(ctx context.Context, st store.Store) error {
		return cases.SetDependent(ctx, st, r.env.get("TEST_TARGET"), &store.Result{ExitCode: 1, Log: store.Content([]byte(why + "\n"))})
	})
}
