package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/progress"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/component"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve/autoep"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve/history"
	"github.com/spf13/cobra"
)

func checkGeneratedCommand() *cobra.Command {
	var o history.Options
	a := autoep.Options{}
	var clang string
	var link []string
	cmd := &cobra.Command{
		Use:   "generated --dir=DIR --prepare=COMMAND [flags] [flags of bazel test]",
		Short: "Confirm with Bazel what check evolve says of generated programs",
		Long: `Generate programs that evolve, as "tasting check evolve" does, make each a package of a
Bazel workspace and their revisions commits of it, and compare what tools select there,
"bazel test" and "tasting test" among them, with what they select without Bazel.

Tests that print something new without Bazel have to be selected with it. Called again,
it goes on where it was stopped. The exit code is 1 if this tool violates a rule of safety or
generality, or doesn't select a test that prints something new.`,
		Example:            `  tasting check generated --programs=200 --dir=$HOME/generated --prepare='examples/suites/overlay.sh generated /path/to/tasting' --copt=-O0`,
		DisableFlagParsing: true, // most flags are Bazel's
	}
	f := cmd.Flags()
	f.IntVar(&a.N, "programs", 200, "how many programs")
	f.Uint64Var(&a.Seed, "seed", 1, "which programs")
	f.StringSliceVar(&a.Modes, "modes", nil, "only these `MODES` (default: all)")
	f.StringVar(&clang, "clang", "clang", "the clang that dumps syntax trees, for evidence by source")
	f.StringArrayVar(&link, "linkopt", []string{"-fuse-ld=lld"}, "a `FLAG` of all links without Bazel, as to use the linker that Bazel's toolchain has found (repeatable)")
	recordFlags(f, &o)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return recording(cmd, &o, append(args, "--real", "//..."), func(ctx context.Context) error {
			return runGenerated(ctx, cmd, &o, a, clang, link)
		})
	}
	return cmd
}

func runGenerated(ctx context.Context, cmd *cobra.Command, o *history.Options, a autoep.Options, clang string, link []string) error {
	clang, err := component.FindClang(ctx, clang)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tasting-generated-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &evolve.Builder{Dir: dir, C: "clang", CXX: "clang++", Flags: []string{"-O0", "-w"}, Clang: clang, Links: link, Traces: o.Tracer != ""}
	var programs []*evolve.Program
	var direct []*evolve.Trace
	line := progress.On(o.Err)
	for p := range autoep.Programs(a) {
		line.Show("%d programs without Bazel", len(programs))
		t, err := evolve.Check(ctx, b, p, func(evolve.Passes) []evolve.Tool {
			// For Bazel, too, a test passes if it ends well.
			return recordedTools(false, o.Tracer != "")(func(_ string, x *evolve.Outcome) bool { return x.OK() })
		})
		if errors.Is(err, evolve.ErrUnfit) {
			continue
		} else if err != nil {
			return err
		}
		programs, direct = append(programs, p), append(direct, t)
	}
	line.Clear()
	repository := filepath.Join(o.State, "repository")
	commits, err := history.Repository(ctx, repository, fmt.Sprintf("%+v", a), programs)
	if err != nil {
		return err
	}
	o.Dir = repository
	r, err := history.Open(ctx, o)
	if err != nil {
		return err
	}
	defer r.Close()
	var all []*history.Revision
	for i, c := range commits {
		fmt.Fprintf(o.Err, "tasting: revision %d of %d programs\n", i, len(programs))
		x, err := r.Commit(ctx, c)
		if err == nil && x.Unbuilt != "" {
			err = fmt.Errorf("%s: see the logs in %s", x.Unbuilt, o.State)
		}
		if err != nil {
			return err
		}
		all = append(all, x)
	}
	p, done, err := newReplay(o.State)
	if err != nil {
		return err
	}
	defer done()
	t, err := p.Run(ctx, "generated", "generated", all, recordedTools(false, o.Tracer != ""))
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "with Bazel\twithout\tsame\tonly with\tonly without\tprint something new\tnot selected of these\t")
	missed := 0
	for _, pair := range comparedTools {
		same, changed, with, without, unseen := 0, 0, []string{}, []string{}, []string{}
		for n := range all {
			selected := t.Results[pair[0]][n+min(n, 1)].Selected // the first comes twice
			if pair[0] == bazelItself {
				selected = all[n].Executed()
			}
			for i, p := range programs {
				if n >= len(p.Revisions) {
					continue
				}
				for _, x := range p.Revisions[n].Tests {
					there := slices.Contains(selected, history.Label(i, x.Name))
					here := slices.Contains(direct[i].Results[pair[1]][n].Selected, x.Name)
					at := fmt.Sprintf("%s, revision %d, %s in %s", p.Name, n, x.Name, history.Label(i, x.Name))
					if n > 0 && isNew(direct[i], n, x.Name) {
						if changed++; !there {
							unseen = append(unseen, at)
						}
					}
					switch {
					case there == here:
						same++
					case there:
						with = append(with, at)
					default:
						without = append(without, at)
					}
				}
			}
		}
		name := pair[0]
		if name == bazelItself {
			name = "bazel test"
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t\n", name, pair[1], same, len(with), len(without), changed, len(unseen))
		if strings.HasPrefix(pair[1], ours) {
			missed += len(unseen)
			for _, at := range unseen {
				fmt.Fprintf(o.Err, "tasting: %s doesn't select what prints something new: %s\n", pair[0], at)
			}
		}
		for _, l := range [][]string{with, without} {
			for _, at := range l[:min(len(l), 10)] {
				fmt.Fprintf(o.Err, "tasting: %s and %s differ: %s\n", pair[0], pair[1], at)
			}
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	report := reportOn(t)
	if err := report.Text(out); err != nil {
		return err
	}
	if err := wrong("check generated", report); err != nil {
		return err
	}
	if missed > 0 {
		return exit(exitDifference, fmt.Errorf("check generated: %d tests print something new and aren't selected: this is a bug of the analyzer, please report it", missed))
	}
	return nil
}

// isNew tells whether a test prints in a revision what it hasn't printed in an earlier one: who
// doesn't execute it doesn't see that.
func isNew(t *evolve.Trace, n int, test string) bool {
	for _, before := range t.Outcomes[:n] {
		if o := before[test]; o != nil && o.Same(t.Outcomes[n][test]) {
			return false
		}
	}
	return true
}

// bazelItself stands for what Bazel executes.
const bazelItself = "RetestAll"

// comparedTools are the tools with and without Bazel that are compared.
var comparedTools = [][2]string{
	{bazelItself, "bazel"}, {"bazel", "bazel"}, {"targets", "targets"}, {"files", "files"}, {"hybrid", "hybrid"}, {"hybrid F", "hybrid F"},
	{ours + ", whole files", ours + ", whole files"}, {ours, ours}, {ours + ", by source", ours + ", by source"}, {history.RealTool, ours + ", by source"},
}
