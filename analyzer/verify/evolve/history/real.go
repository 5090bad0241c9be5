package history

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
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve"
)

// RealTool is the name of `tasting test` itself among the tools.
const RealTool = "tasting test"

func (r *Recorder) store() string { return filepath.Join(r.State, "store") }

// real runs `tasting test` on what is checked out, with a store of its own.
func (r *Recorder) real(ctx context.Context) (*Real, error) {
	runs := filepath.Join(r.State, "run")
	if err := os.RemoveAll(runs); err != nil {
		return nil, err
	}
	args := []string{"test", "--bazel=" + r.Bazel, "--aspect=" + r.Aspect, "--store=" + r.store(), "--runs_dir=" + runs, "--audit=0"}
	for _, x := range r.bazel.Startup {
		args = append(args, "--bazel_startup="+x)
	}
	args = slices.Concat(args, r.flags, own, []string{"--"}, r.patterns)
	cmd := exec.CommandContext(ctx, r.Tasting, args...)
	cmd.Dir = r.workspace()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "TASTING_") { // the user's store
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, "TASTINGRC="+os.DevNull)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil && !(errors.As(err, &exit) && slices.Contains([]int{bazel.ExitTestsFailed, bazel.ExitBuildFailed}, exit.ExitCode())) {
		return nil, fmt.Errorf("tasting test: %w\n%s", err, lastLine(string(out)))
	}
	x, tests := &Real{Selected: []string{}, Wall: time.Since(start).Seconds()}, 0
	_, err = report.ReadRuns(runs, func(run *report.Run) {
		if run.Cost != nil {
			x.Deciding = run.Cost.DecidingSeconds
		}
		for _, t := range run.Tests {
			if tests++; t.Verdict != report.Hit {
				x.Selected = append(x.Selected, t.Label)
			}
		}
	})
	if errors.Is(err, fs.ErrNotExist) || err == nil && tests == 0 {
		err = fmt.Errorf("tasting test has written no run: %s", lastLine(string(out)))
	}
	slices.Sort(x.Selected)
	return x, err
}

// addReal adds what `tasting test` did to a trace, if it was run in all revisions.
func addReal(t *evolve.Trace, revisions []*Revision) {
	var results []*evolve.Result
	for i, x := range revisions {
		runs := []*Real{x.Real}
		if i == 0 {
			runs = append(runs, x.RealAgain)
		}
		for _, run := range runs {
			if run == nil {
				return
			}
			r := &evolve.Result{Failed: map[string]*evolve.Outcome{}, Analysis: time.Duration(run.Deciding * float64(time.Second))}
			for _, test := range x.Tests {
				if !slices.Contains(run.Selected, test.Label) {
					continue
				}
				r.Selected = append(r.Selected, test.Label)
				r.Execution += time.Duration(test.Seconds * float64(time.Second))
				if !test.passed() {
					r.Failed[test.Label] = t.Outcomes[len(results)][test.Label]
				}
			}
			results = append(results, r)
		}
	}
	t.Tools = append(t.Tools, RealTool)
	t.Results[RealTool] = results
}
