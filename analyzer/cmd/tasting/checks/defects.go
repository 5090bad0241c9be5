package checks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/tools/evaluate"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve/history"
	"github.com/spf13/cobra"
)

func defectsCommand() *cobra.Command {
	var o history.Options
	var commits, tests string
	var limit int
	cmd := &cobra.Command{
		Use:   "defects --commits=A..B --dir=DIR [flags] [flags of bazel test] [--] TARGETS",
		Short: "Put fixed bugs back, and check that tools select the tests that show them",
		Long: `Find commits that change code and tests, where a test passes and fails with the code of the commit
before. Have each evolve from the fix to the bug: no tool may miss the test. Called again, it goes on
where it stopped. DIR has candidates.jsonl, a line for each such commit.`,
		DisableFlagParsing: true, // most flags are Bazel's
	}
	f := cmd.Flags()
	f.StringVar(&commits, "commits", "", "`RANGE` of git log (required)")
	f.StringVar(&tests, "tests", `(?i)(^|/)(test|tests|testing|testdata)/|(^|/)[^/]*test[^/]*$`, "`REGEXP` of paths of tests")
	f.IntVar(&limit, "limit", 0, "stop when `N` are kept")
	recordFlags(f, &o)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return recording(cmd, &o, args, func(ctx context.Context) error {
			if commits == "" {
				return errors.New("check defects: want --commits=A..B")
			}
			re, err := regexp.Compile(tests)
			if err != nil {
				return fmt.Errorf("--tests: %w", err)
			}
			return runDefects(ctx, cmd.OutOrStdout(), &o, commits, re, limit)
		})
	}
	return cmd
}

func runDefects(ctx context.Context, out io.Writer, o *history.Options, commits string, tests *regexp.Regexp, limit int) error {
	git, err := evaluate.Open(ctx, o.Dir)
	if err != nil {
		return err
	}
	r, err := history.Open(ctx, o)
	if err != nil {
		return err
	}
	defer r.Close()
	count := map[string]int{}
	all, err := r.Defects(ctx, commits, tests, limit, func(i, n int, c *history.Candidate) {
		count[c.Verdict]++
		fmt.Fprintf(o.Err, "tasting: %d/%d %s %s: %s\n", i, n, c.Commit[:8], c.Subject, c.Verdict)
	})
	if err != nil {
		return err
	}
	var traces []*evolve.Trace
	for _, c := range all {
		if c.Verdict != history.Kept {
			continue
		}
		var revisions []*history.Revision
		for _, id := range []string{c.Fixed(), c.Buggy()} {
			x, err := history.Load(o.State, id)
			if err != nil {
				return err
			}
			revisions = append(revisions, x)
		}
		t, err := replay(ctx, o, filepath.Base(git.Top)+" "+c.Commit[:8], "defects", revisions, false)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s  %d of %d tests fail  %s\n", c.Commit[:8], len(c.Failing), len(revisions[1].Tests), c.Subject)
		traces = append(traces, t)
	}
	fmt.Fprintf(out, "\n%d commits change code and tests: %d are kept, %d have a test that doesn't compile without their code, %d change no outcome, %d don't build\n\n",
		len(all), count[history.Kept], count[history.Uncompiled], count[history.Unaffected], count[history.Unbuilt])
	return judge(out, "check defects", traces...)
}
