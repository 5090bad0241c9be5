package evaluate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/cputime"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
)

// side is one of the ways to run the tests.
type side struct {
	*evaluation
	name  string
	dir   string
	tree  string // work tree
	base  string // output base
	meter *cputime.Meter
	logs  int // number of logs so far
}

func (e *evaluation) newSide(ctx context.Context, name string) (*side, error) {
	dir := filepath.Join(e.State, name)
	s := &side{evaluation: e, name: name, dir: dir, tree: filepath.Join(dir, "tree"), base: filepath.Join(dir, "base")}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(s.tree, ".git")); errors.Is(err, fs.ErrNotExist) {
		// A clone may have been cut off.
		if err := os.RemoveAll(s.tree); err != nil {
			return nil, err
		}
		if err := e.git.Clone(ctx, s.tree); err != nil {
			return nil, err
		}
	}
	// The meter doesn't see servers that an earlier call left behind.
	s.shutdown()
	s.meter = cputime.NewMeter(fmt.Sprintf("tasting-evaluate-%d-%s", os.Getpid(), name), s.base)
	return s, nil
}

func (s *side) title() string { return s.Options.title(s.name) }

// title returns the command of a side.
func (o *Options) title(side string) string {
	if side == plain {
		return "bazel test"
	}
	return strings.Join(append([]string{"tasting test"}, o.sideFlags(side)...), " ")
}

// sideFlags are the flags of tasting test that make a side.
func (o *Options) sideFlags(side string) []string {
	switch {
	case side == traces && o.Cases:
		return []string{"--traces=on", "--cases"}
	case side == traces:
		return []string{"--traces=on"}
	case side == byCases:
		return []string{"--cases"}
	}
	return nil
}

func (s *side) workspace() string { return filepath.Join(s.tree, s.git.Prefix) }

// command returns a command in the workspace of s.
func (s *side) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = s.workspace()
	return cmd
}

func (s *side) shutdown() {
	if _, err := os.Stat(s.base); err == nil {
		_ = s.command(context.Background(), s.Bazel, s.startup("shutdown")...).Run() // there may be no server
	}
}

func (s *side) close() {
	s.shutdown()
	_ = s.meter.Close()
}

func (s *side) startup(command string) []string {
	return slices.Concat(s.Startup, []string{"--output_base=" + s.base, command})
}

// expunge removes the whole output base.
func (s *side) expunge(ctx context.Context) error {
	if out, err := s.command(ctx, s.Bazel, append(s.startup("clean"), "--expunge")...).CombinedOutput(); err != nil {
		return fmt.Errorf("bazel clean --expunge: %w\n%s", err, out)
	}
	return nil
}

// checkout checks out a commit in the work tree of s. Files that stay the same keep
// their times, as in a user's work tree.
func (s *side) checkout(ctx context.Context, commit string) error {
	if _, err := Git(ctx, s.tree, "checkout", "--quiet", "--force", "--detach", commit); err != nil {
		return err
	}
	if s.Prepare == "" {
		return nil
	}
	cmd := s.command(ctx, "sh", "-c", s.Prepare)
	cmd.Env = append(os.Environ(), "TASTING_SIDE="+s.name)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("--prepare failed in %s: %w\n%s", cmd.Dir, err, out)
	}
	return nil
}

// result is the result of one run.
type result struct {
	Side
	tests map[string]outcome // of plain Bazel, by label
	// replayed and executed are labels of tasting test.
	replayed, executed []string
	run                *report.Run // of tasting test, nil if it has written none
}

type outcome struct {
	status   string // as in the test summary; "" if it wasn't built
	executed bool
}

// run runs the tests once.
func (s *side) run(ctx context.Context) (*result, error) {
	flags, patterns := s.flags.Split(s.Args)
	if s.DiskCache {
		flags = append(flags, "--disk_cache="+filepath.Join(s.dir, "disk_cache"))
	}
	targets := append([]string{"--"}, patterns...)
	if s.name == plain {
		return s.runPlain(ctx, append(flags, targets...))
	}
	runs := filepath.Join(s.dir, "run")
	if err := os.RemoveAll(runs); err != nil {
		return nil, err
	}
	args := []string{"test", "--bazel=" + s.Bazel, "--bazel_startup=--output_base=" + s.base, "--store=" + filepath.Join(s.dir, "store"), "--runs_dir=" + runs, "--audit=0"}
	args = append(args, s.sideFlags(s.name)...)
	for _, x := range s.Startup {
		args = append(args, "--bazel_startup="+x)
	}
	r := &result{}
	if err := s.measure(ctx, r, s.Tasting, slices.Concat(args, s.TestFlags, flags, targets)); err != nil {
		return nil, err
	}
	if _, err := report.ReadRuns(runs, func(x *report.Run) { r.run = x }); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if r.run != nil {
		r.count()
	}
	return r, nil
}

// count adds up the tests and actions of a run of tasting test.
func (r *result) count() {
	for _, t := range r.run.Tests {
		switch {
		case t.Status == "SKIPPED":
			continue
		case t.Verdict == report.Hit && !t.Audited:
			r.Replayed++
			if t.Trace {
				r.ByTrace++
			}
			r.replayed = append(r.replayed, t.Label)
		case t.Cached:
			r.Cached++
		case t.Status != "NO_STATUS" && t.Status != "FAILED_TO_BUILD":
			r.Executed++
			r.executed = append(r.executed, t.Label)
			if t.Cases != nil && t.Cases.Replayed > 0 {
				r.replayed = append(r.replayed, t.Label) // a part of it
			}
		}
		if t.Cases != nil {
			r.CasesExecuted += t.Cases.Executed
			r.CasesReplayed += t.Cases.Replayed
		}
		r.Tests++
		if !passed(t.Status) {
			r.Failed++
		}
	}
	if c := r.run.Cost; c != nil {
		r.Deciding = c.DecidingSeconds
		for mnemonic, n := range c.Actions {
			r.action(mnemonic, n)
		}
	}
}

// passed reports whether Bazel's status of a test is a pass. A test that fails by chance passes in one attempt of several.
func passed(status string) bool { return status == "PASSED" || status == "FLAKY" }

// more returns the tests that r executed and plain Bazel didn't, if r executed more tests.
func (r *result) more(p *result) []string {
	if r.Executed <= p.Executed {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.executed), func(label string) bool { return p.tests[label].executed })
}

func (s *Side) action(mnemonic string, n int) {
	switch {
	case mnemonic == "CppCompile":
		s.Compiled += n
	case mnemonic == "CppLink":
		s.Linked += n
	case strings.HasPrefix(mnemonic, "Tasting"):
		s.Analysed += n
	}
}

// runPlain runs bazel test and reads its build events.
func (s *side) runPlain(ctx context.Context, args []string) (*result, error) {
	events := filepath.Join(s.dir, "events.json")
	if err := os.Remove(events); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	own := append(s.startup("test"), "--build_event_json_file="+events)
	if s.flags[bazel.AllMnemonics] != nil {
		own = append(own, bazel.AllMnemonics)
	}
	r := &result{tests: map[string]outcome{}}
	if err := s.measure(ctx, r, s.Bazel, append(own, args...)); err != nil {
		return nil, err
	}
	err := bazel.ReadEvents(events, func(e *bazel.Event) error {
		switch {
		case e.TestResult != nil:
			x := r.tests[e.ID.TestResult.Label]
			x.executed = x.executed || !e.TestResult.CachedLocally && !e.TestResult.ExecutionInfo.CachedRemotely
			r.tests[e.ID.TestResult.Label] = x
		case e.TestSummary != nil:
			x := r.tests[e.ID.TestSummary.Label]
			x.status = e.TestSummary.OverallStatus
			r.tests[e.ID.TestSummary.Label] = x
		}
		e.Actions(func(mnemonic string, n int, _ time.Duration) { r.action(mnemonic, n) })
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, x := range r.tests {
		r.Tests++
		switch {
		case x.executed:
			r.Executed++
		case passed(x.status):
			r.Cached++
		}
		if !passed(x.status) {
			r.Failed++
		}
	}
	return r, nil
}

// verify executes tests that plain Bazel has built.
func (s *side) verify(ctx context.Context, labels []string) (map[string]outcome, error) {
	file := filepath.Join(s.dir, "verify")
	if err := os.WriteFile(file, []byte(strings.Join(labels, "\n")+"\n"), 0o666); err != nil {
		return nil, err
	}
	flags, _ := s.flags.Split(s.Args)
	r, err := s.runPlain(ctx, append(flags, "--nocache_test_results", "--keep_going", "--target_pattern_file="+file))
	if err != nil {
		return nil, err
	}
	return r.tests, nil
}

// measure runs a program to its end, and sets the exit code, wall time and CPU time of r.
func (s *side) measure(ctx context.Context, r *result, program string, args []string) error {
	s.logs++
	log, err := os.Create(s.log())
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := s.command(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	// Neither the user's store nor the user's flags may have a part in it.
	own := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "TASTING_") })
	cmd.Env = append(own, "TASTINGRC="+os.DevNull)
	start := time.Now()
	cpu, err := s.meter.Run(cmd)
	r.Wall, r.CPU = time.Since(start).Seconds(), cpu.Seconds()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	r.Exit = cmd.ProcessState.ExitCode()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.Exit == bazel.ExitUsage || r.Exit < 0 || r.Exit > bazel.ExitInterrupted {
		return s.ended(r)
	}
	return nil
}

// log returns the file with the output of the last command.
func (s *side) log() string { return filepath.Join(s.dir, fmt.Sprintf("log-%d.txt", s.logs)) }

// ended returns an error with the exit code of the last command and the end of its output.
func (s *side) ended(r *result) error {
	return fmt.Errorf("exit code %d; %s ends with:\n%s", r.Exit, s.log(), end(s.log()))
}

// end returns the last lines of a file.
func end(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
