package checks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/tools/evaluate"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve/history"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// recordedTools returns the tools that go through what was recorded.
func recordedTools(kinds, traces bool) func(evolve.Passes) []evolve.Tool {
	return func(p evolve.Passes) []evolve.Tool {
		l := append([]evolve.Tool{evolve.RetestAll(p)}, commonTools(p, true, traces, false)...)
		if kinds {
			for _, k := range evolve.ChangeKinds {
				l = append(l, evolve.Transformed(p, k))
			}
		}
		return l
	}
}

// collected is what a tool needs beside a build: a query for the build graph, or what the aspect makes.
func collected(tool string, r *history.Revision) float64 {
	switch {
	case tool == "targets":
		return r.Query
	case tool == history.RealTool:
		return 0 // it is in what it takes to decide
	case tool == ours+", by source":
		if r.AllBySource() {
			return r.Sources
		}
		return r.Objects + r.Sources
	case strings.HasPrefix(tool, "hybrid") || strings.HasPrefix(tool, ours) || slices.ContainsFunc(evolve.ChangeKinds, func(k evolve.ChangeKind) bool { return k.ID == tool }):
		return r.Objects
	}
	return 0
}

func recordFlags(f *pflag.FlagSet, o *history.Options) {
	f.StringVar(&o.State, "dir", "", "`DIR` for everything, not below /tmp (required)")
	f.StringVar(&o.Prepare, "prepare", "", "shell `COMMAND` to run after each checkout")
	command.AddBazelFlags(f, &o.Bazel, &o.Startup)
	command.AspectFlag(f, &o.Aspect)
	f.Bool("traces", false, "add tasting with traces as a tool")
	f.Bool("real", false, "also run \"tasting test\" at each revision")
}

// recording parses the arguments of a command that records, of which most are Bazel's.
func recording(cmd *cobra.Command, o *history.Options, args []string, do func(ctx context.Context) error) (err error) {
	if o.Args, err = command.ParseOwn(cmd, args); err != nil {
		return err
	}
	if o.State == "" || len(o.Args) == 0 {
		return fmt.Errorf("%s: want --dir=DIR and targets", cmd.CommandPath())
	}
	if o.Dir, err = os.Getwd(); err != nil {
		return err
	}
	if o.State, err = filepath.Abs(o.State); err != nil {
		return err
	}
	if real, _ := cmd.Flags().GetBool("real"); real {
		if o.Tasting, err = os.Executable(); err != nil {
			return err
		}
	}
	if traces, _ := cmd.Flags().GetBool("traces"); traces {
		if o.Tracer, err = command.Tracer(); err != nil {
			return err
		}
	}
	o.Err = cmd.ErrOrStderr()
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return do(ctx)
}

func historyCommand() *cobra.Command {
	var o history.Options
	var commits string
	var every int
	var kinds bool
	cmd := &cobra.Command{
		Use:   "history --commits=A..B --dir=DIR [flags] [flags of bazel test] [--] TARGETS",
		Short: "Check what tools select at commits of a git repository",
		Long: `Build and test TARGETS at commits of a git repository with Bazel, in a clone and an output base of
their own. Then check by rules which tests tasting and other tools select. Called again, it goes on
where it stopped. DIR has matrix.jsonl, what each tool selected, and plots.html.`,
		Example:            `  tasting check history --commits=main~100..main --dir=$HOME/history --prepare='cat /path/to/addition >> MODULE.bazel' //...`,
		DisableFlagParsing: true, // most flags are Bazel's
	}
	f := cmd.Flags()
	f.StringVar(&commits, "commits", "", "`COMMITS`: A..B, or single ones separated by commas (required)")
	f.IntVar(&every, "every", 1, "only each `N`th commit of a range, and its ends")
	f.BoolVar(&o.Objects, "objects", false, "also do \"check objects\"; needs --copt=-ffunction-sections --copt=-fdata-sections")
	f.BoolVar(&kinds, "kinds", false, "add a hybrid tool for each kind of change")
	recordFlags(f, &o)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return recording(cmd, &o, args, func(ctx context.Context) error {
			if commits == "" {
				return errors.New("check history: want --commits=A..B, such as --commits=main~100..main")
			}
			return runHistory(ctx, cmd.OutOrStdout(), &o, commits, every, kinds)
		})
	}
	return cmd
}

func runHistory(ctx context.Context, out io.Writer, o *history.Options, commits string, every int, kinds bool) error {
	git, err := evaluate.Open(ctx, o.Dir)
	if err != nil {
		return err
	}
	list, err := git.List(ctx, commits, every)
	if err != nil {
		return err
	}
	all, err := recordAll(ctx, o, list, func(i int) string {
		return fmt.Sprintf("%d/%d %s %s", i+1, len(list), list[i][:8], git.Subject(ctx, list[i]))
	})
	if err != nil {
		return err
	}
	all, left := history.Testable(all)
	for _, x := range left {
		fmt.Fprintf(o.Err, "tasting: %s is left out: %s\n", x.ID[:8], x.Unbuilt)
	}
	if len(all) < 2 {
		return fmt.Errorf("check history: %d of %d commits can be tested: see the logs in %s", len(all), len(list), o.State)
	}
	t, err := replay(ctx, o, filepath.Base(git.Top), "history", all, kinds)
	if err != nil {
		return err
	}
	rows := history.Rows(t, all, collected)
	if err := history.Text(out, t.Tools, rows); err != nil {
		return err
	}
	var matrix, plots bytes.Buffer
	if err := errors.Join(history.WriteMatrix(&matrix, rows), history.Page(&plots, filepath.Base(git.Top), t.Tools, rows)); err != nil {
		return err
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(o.State, "matrix.jsonl"), matrix.Bytes(), 0o666),
		os.WriteFile(filepath.Join(o.State, "plots.html"), plots.Bytes(), 0o666)); err != nil {
		return err
	}
	fmt.Fprintln(out)
	verdict := judge(out, "check history", t)
	if o.Objects {
		e, err := history.NewReplay(o.State, "").Compare(all)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\n%d objects that differ from those of the revision before: %d differences in what is emitted, %d entries changed, %d of them without need, %d differences that no hash shows\n",
			e.Units, e.Differences, e.Changed, e.Unneeded, len(e.Violations))
		if len(e.Violations) > 0 {
			return command.Exit(command.Difference, fmt.Errorf("check history: what is emitted differs, and no hash shows it: this is a bug of the analyzer, please report it:\n%s", strings.Join(e.Violations, "\n")))
		}
	}
	return verdict
}

// recordAll records commits, and says each time what it does.
func recordAll(ctx context.Context, o *history.Options, commits []string, say func(i int) string) (all []*history.Revision, err error) {
	r, err := history.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for i, c := range commits {
		fmt.Fprintf(o.Err, "tasting: %s\n", say(i))
		x, err := r.Commit(ctx, c)
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}

// replay runs recorded revisions through the tools.
func replay(ctx context.Context, o *history.Options, name, mode string, revisions []*history.Revision, kinds bool) (*evolve.Trace, error) {
	dir, err := os.MkdirTemp(o.State, "composed-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	return history.NewReplay(o.State, dir).Run(ctx, name, mode, revisions, recordedTools(kinds, o.Tracer != ""))
}

// judge prints a report by the rules, which compare all other tools with RetestAll. It returns an error if this tool
// violates a rule of safety or generality.
func judge(out io.Writer, name string, traces ...*evolve.Trace) error {
	for _, t := range traces {
		t.Tools = slices.DeleteFunc(t.Tools, func(name string) bool { return name == "RetestAll" })
	}
	r := evolve.NewReport(traces...)
	if err := r.Text(out); err != nil {
		return err
	}
	l := ourViolations(r)
	if len(l) == 0 {
		return nil
	}
	return command.Exit(command.Difference, fmt.Errorf("%s: %d violations of safety or generality: this is a bug of the analyzer, please report it:\n%s", name, len(l), strings.Join(l, "\n")))
}
