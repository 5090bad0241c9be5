package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/nameset"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/cases"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/frontier"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/plan"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
)

// maxFind is the longest that a test waits for traces.
const maxFind = 20 * time.Second

// maxFrontiers is for reading or writing frontiers.
const maxFrontiers = 5 * time.Second

// traces are the parts of a test. If no result is recorded for its fingerprint, they give the keys of traces
// (docs/explanation/traces.md).
type traces struct {
	program *frontier.Program
	label   string // under which its frontiers are
	run     *fingerprint.Run
	place   func(path string) string
	// entered are the functions that the last execution may have entered, nil if they aren't known.
	entered nameset.Set
}

// readTraces returns nil if the build has traces off for this test.
func (r *runner) readTraces(run *fingerprint.Run) *traces {
	label := r.env.get("TEST_TARGET")
	file := r.Path + frontier.ProgramSuffix
	if _, err := os.Stat(file); label == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	p, err := frontier.ReadProgram(file)
	if err != nil {
		r.say("traces don't decide: %v", err)
		return nil
	}
	if p.Unknown != "" {
		return nil // it has no key, as the build knows
	}
	// Each shard executes other functions.
	if n := r.env.get("TEST_TOTAL_SHARDS"); n != "" {
		label += " shard " + r.env.get("TEST_SHARD_INDEX") + " of " + n
	}
	return &traces{p, label, run, r.runfile, nil}
}

// collect reports whether the test is traced when it is executed.
func (t *traces) collect() bool { return t != nil && t.program.Collect }

// trace runs the test to its end under a tracer.
func (r *runner) trace(o *outcome, t *traces, files []*os.File, c *copier, signals <-chan os.Signal) (syscall.WaitStatus, error) {
	cmd := &exec.Cmd{
		Path: r.binary, Args: append([]string{r.binary}, r.Args...), Env: r.childEnv(),
		Stdin: files[0], Stdout: files[1], Stderr: files[2], SysProcAttr: procAttr(),
	}
	ended := make(chan struct{})
	var passing sync.WaitGroup
	result, err := trace.Run(cmd, trace.Options{Entered: t.entered}, func() {
		c.closeWriters()
		passing.Go(func() { o.passOn(cmd.Process, signals, ended) })
	})
	close(ended)
	passing.Wait()
	if err != nil {
		return 0, err
	}
	o.idle, o.times, o.void = result.Idle, result.Cases, result.Void
	return result.Status, nil
}

// executeAgain runs a test once more without the tracer. Why is the reason for which its run under the tracer was void.
func (r *runner) executeAgain(spool *spool, why string) (*outcome, error) {
	r.say("once more, without a tracer: %s", why)
	if err := trace.CleanTest(r.env.get); err != nil {
		return nil, fmt.Errorf("it can't be run once more without a tracer, which it needs (%s): %w", why, err)
	}
	o, err := r.executeOnce(spool, nil)
	if err == nil && o.obstacle == "" {
		o.obstacle = "it had to be run once more without a tracer: " + why
	}
	return o, err
}

// search calls use with the index and the trace of each frontier, until it returns false. It leaves out traces without a key. It
// returns an error if the test's fingerprint isn't of.
func (t *traces) search(of store.Key, frontiers []map[string]bool, use func(i int, x *plan.Trace) bool) error {
	dir, err := os.MkdirTemp("", "tasting-traces-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	x, err := t.program.Unpack(dir, t.place)
	if err != nil {
		return err
	}
	p := plan.New([]plan.Test{{Objects: x, Run: t.run, Fingerprint: of}})
	if err := p.Confirm(0); err != nil {
		return err
	}
	var failed error
	ended, i := false, -1
	p.Search([][]map[string]bool{frontiers}, func(int) bool { return ended }, func(round []*plan.Trace) {
		i++
		switch x := round[0]; {
		case x.Err == nil:
			ended = !use(i, x)
		case x.Composed.Err != nil || x.Composed.Undecided() == nil: // else nothing may be replayed by this trace
			failed, ended = x.Err, true
		}
	})
	return failed
}

// found is the result that is recorded under the key of a trace, nil if there is none.
type found struct {
	key store.Key
	res *store.Result
	// entered are the functions that the last execution may have entered.
	entered nameset.Set
	err     error
}

// find looks up all known traces.
func (t *traces) find(s *openStore, of store.Key) (f found) {
	var known *frontier.Known
	if err := s.do(maxFrontiers, func(ctx context.Context, st store.Store) (err error) {
		known, err = frontier.Read(ctx, st, t.label)
		return err
	}); err != nil || len(known.Frontiers) == 0 {
		f.err = err
		return f
	}
	f.entered = known.Entered
	failed := t.search(of, known.Frontiers, func(_ int, trace *plan.Trace) bool {
		x, getErr := s.get(trace.Key, maxGet)
		switch {
		case getErr == nil && x.ExitCode == 0:
			f.key, f.res = trace.Key, x
		case getErr == nil: // withdrawn
			x.Close()
		case !store.IsMiss(getErr):
			f.err = getErr
		}
		return f.res == nil
	})
	if f.res != nil {
		// A test that has failed with this very fingerprint isn't replayed by a trace.
		f.err = s.do(maxGet, func(ctx context.Context, st store.Store) error { return store.Noted(ctx, st, of) })
	}
	if f.err = errors.Join(failed, f.err); f.err != nil && f.res != nil {
		f.res.Close()
		f.res = nil
	}
	return f
}

// byTrace replays the result of a trace, if there is one, and records it under the test's fingerprint. Told is set if
// the caller writes a line about the store.
func (r *runner) byTrace(s *openStore, write bool, fingerprint store.Key, t *traces, told bool) (code int, done bool) {
	f, ok := inTime(r, maxFind, func() found { return t.find(s, fingerprint) })
	if !ok {
		f.err = errNoTime
	}
	t.entered = trace.Spared(f.entered, fingerprint[:])
	if f.err != nil && !told {
		r.say("traces don't decide: %v", f.err)
	}
	if f.res == nil {
		return 0, false
	}
	defer f.res.Close()
	code, err := r.replay("trace", f.key, f.res)
	if err != nil {
		r.say("result of trace %s could not be replayed: %v; running", f.key, err)
		return 0, false
	}
	if write && code == 0 {
		// Nothing is lost if that doesn't work.
		_ = s.do(maxRest, func(ctx context.Context, st store.Store) error { return store.RecordPass(ctx, st, fingerprint, f.res) })
	}
	return code, true
}

// recordTrace keeps the result of an execution under the key of its trace, a failure as a note.
func (r *runner) recordTrace(rec *recorder, idle map[string]bool, res *store.Result) {
	if rec.traces == nil || idle == nil {
		return
	}
	newest, ok := inTime(r, maxStore, func() (newest *plan.Trace) {
		if err := rec.traces.search(rec.key, []map[string]bool{idle}, func(_ int, x *plan.Trace) bool { newest = x; return false }); err != nil {
			return &plan.Trace{Err: err}
		}
		return newest
	})
	if !ok {
		r.say("not recorded by its trace: %v", errNoTime)
		return
	}
	if newest == nil {
		return
	}
	err := newest.Err
	if err == nil {
		err = rec.store.do(maxStore, func(ctx context.Context, s store.Store) error {
			if res.ExitCode != 0 {
				return store.RecordFailure(ctx, s, newest.Key, res)
			}
			err := store.RecordPass(ctx, s, newest.Key, res)
			if store.IsRecorded(err) {
				err = newest.Keep(ctx, s, rec.traces.label)
			}
			return err
		})
	}
	if err != nil && res.ExitCode == 0 {
		r.say("not recorded by its trace: %v", err)
	}
}

// composeStages returns the traces of the stages of an execution of all cases.
func (r *runner) composeStages(rec *recorder, o *outcome) []cases.Traced {
	if rec.traces == nil || o.idle == nil {
		return nil
	}
	stages := o.times.Stages(o.idle)
	var idle []map[string]bool
	for _, s := range stages {
		idle = append(idle, s.Idle)
	}
	list, ok := inTime(r, maxStore, func() (list []cases.Traced) {
		// Without one of them, its cases aren't recorded by a trace.
		_ = rec.traces.search(rec.key, idle, func(i int, x *plan.Trace) bool {
			list = append(list, cases.Traced{Trace: x, Stage: stages[i]})
			return true
		})
		return list
	})
	if !ok {
		return nil
	}
	return list
}

// findCases looks up the cases that aren't known by the traces of the test.
func (r *runner) findCases(s *openStore, of store.Key, x *testCases, t *traces) {
	if t == nil {
		return
	}
	t.entered = nil // of cases, it has to be known when they enter a function
	var frontiers []map[string]bool
	err := s.do(maxFrontiers, func(ctx context.Context, _ store.Store) error {
		frontiers = x.Frontiers(ctx)
		return nil
	})
	if err != nil || len(frontiers) == 0 {
		return
	}
	found, ok := inTime(r, maxFind, func() *cases.Set {
		known := x.Clone()
		err := t.search(of, frontiers, func(_ int, trace *plan.Trace) bool {
			more := known.Clone()
			err := s.do(maxGet, func(ctx context.Context, _ store.Store) error {
				more.LookUpTraced(ctx, trace, t.run)
				return nil
			})
			if err == nil {
				known = more
			}
			return err == nil && !known.AllKnown()
		})
		if err != nil {
			return nil
		}
		return known
	})
	if ok && found != nil {
		x.Set = found
	}
}
