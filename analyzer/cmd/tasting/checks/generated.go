package checks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/progress"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/component"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve/autoep"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve/history"
	"github.com/spf13/cobra"
)

func generatedCommand() *cobra.Command {
	var o history.Options
	a := autoep.Options{}
	var clang string
	var link []string
	cmd := &cobra.Command{
		Use:   "generated --dir=DIR --prepare=COMMAND [flags] [flags of bazel test]",
		Short: "Confirm with Bazel what check evolve says of generated programs",
		Long: `Generate programs that evolve, as packages of a Bazel workspace. Compare what tools select there and
without Bazel. Called again, it goes on where it stopped.`,
		DisableFlagParsing: true, // most flags are Bazel's
	}
	f := cmd.Flags()
	f.IntVar(&a.N, "programs", 200, "how many programs")
	f.Uint64Var(&a.Seed, "seed", 1, "which programs")
	f.StringSliceVar(&a.Modes, "modes", nil, "only these `MODES`, such as JD4+E3 or *+E3")
	f.StringVar(&clang, "clang", "clang", "clang that dumps syntax trees")
	f.StringArrayVar(&link, "linkopt", []string{"-fuse-ld=lld"}, "a `FLAG` of all links (repeatable)")
	recordFlags(f, &o)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return recording(cmd, &o, append(args, "--real", "//..."), func(ctx context.Context) error {
			return runGenerated(ctx, cmd, &o, a, clang, link)
		})
	}
	return cmd
}

func runGenerated(ctx context.Context, cmd *cobra.Command, o *history.Options, a autoep.Options, clang string, link []string) error {
	g := &generated{Options: o}
	if err := g.checkDirectly(ctx, a, clang, link); err != nil {
		return err
	}
	repository := filepath.Join(o.State, "repository")
	commits, err := history.Repository(ctx, repository, fmt.Sprintf("%+v", a), g.programs)
	if err != nil {
		return err
	}
	o.Dir = repository
	g.revisions, err = recordAll(ctx, o, commits, func(i int) string { return fmt.Sprintf("revision %d of %d programs", i, len(g.programs)) })
	if err != nil {
		return err
	}
	if _, left := history.Testable(g.revisions); len(left) > 0 {
		return fmt.Errorf("%s: see the logs in %s", left[0].Unbuilt, o.State)
	}
	if g.recorded, err = replay(ctx, o, "generated", "generated", g.revisions, false); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	missed, err := g.compare(out)
	if err != nil {
		return err
	}
	fmt.Fprintln(out)
	if err := judge(out, "check generated", g.recorded); err != nil {
		return err
	}
	if missed > 0 {
		return command.Exit(command.Difference, fmt.Errorf("check generated: %d tests print something new and aren't selected: this is a bug of the analyzer, please report it", missed))
	}
	return nil
}

// generated are programs that were checked without Bazel and recorded with it.
type generated struct {
	*history.Options
	programs  []*evolve.Program
	direct    []*evolve.Trace // of each program, without Bazel
	revisions []*history.Revision
	recorded  *evolve.Trace // of revisions: all programs at once; the first comes twice
}

// checkDirectly generates programs and checks them without Bazel.
func (g *generated) checkDirectly(ctx context.Context, a autoep.Options, clang string, link []string) error {
	clang, err := component.FindClang(ctx, clang)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tasting-generated-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &evolve.Builder{Dir: dir, C: "clang", CXX: "clang++", Flags: []string{"-O0", "-w"}, Clang: clang, Links: link, Traces: g.Tracer != ""}
	line := progress.On(g.Err)
	defer line.Clear()
	for p := range autoep.Programs(a) {
		line.Show("%d programs without Bazel", len(g.programs))
		t, err := evolve.Check(ctx, b, p, func(evolve.Passes) []evolve.Tool {
			// For Bazel, too, a test passes if it ends well.
			return recordedTools(false, g.Tracer != "")(func(_ string, x *evolve.Outcome) bool { return x.OK() })
		})
		if errors.Is(err, evolve.ErrUnfit) {
			continue
		} else if err != nil {
			return err
		}
		g.programs, g.direct = append(g.programs, p), append(g.direct, t)
	}
	return nil
}

// comparison is what two tools select.
type comparison struct {
	same, changed         int
	with, without, unseen []string
}

// compare prints what tools select with and without Bazel, and returns how many tests that print something new one of ours
// doesn't select with Bazel.
func (g *generated) compare(out io.Writer) (missed int, err error) {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "with Bazel\twithout\tsame\tonly with\tonly without\tprint something new\tnot selected of these\t")
	for _, pair := range comparedTools {
		c := g.comparison(pair[0], pair[1])
		name := pair[0]
		if name == bazelItself {
			name = "bazel test"
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t\n", name, pair[1], c.same, len(c.with), len(c.without), c.changed, len(c.unseen))
		if strings.HasPrefix(pair[1], ours) {
			missed += len(c.unseen)
			for _, at := range c.unseen {
				fmt.Fprintf(g.Err, "tasting: %s doesn't select what prints something new: %s\n", pair[0], at)
			}
		}
		for _, l := range [][]string{c.with, c.without} {
			for _, at := range l[:min(len(l), 10)] {
				fmt.Fprintf(g.Err, "tasting: %s and %s differ: %s\n", pair[0], pair[1], at)
			}
		}
	}
	return missed, table.Flush()
}

// comparison compares what a tool selects with Bazel with what one selects without.
func (g *generated) comparison(with, without string) (c comparison) {
	for n := range g.revisions {
		selected := g.recorded.Results[with][n+min(n, 1)].Selected // the first comes twice
		if with == bazelItself {
			selected = g.revisions[n].Executed()
		}
		for i, p := range g.programs {
			if n >= len(p.Revisions) {
				continue
			}
			for _, x := range p.Revisions[n].Tests {
				there := slices.Contains(selected, history.Label(i, x.Name))
				here := slices.Contains(g.direct[i].Results[without][n].Selected, x.Name)
				at := fmt.Sprintf("%s, revision %d, %s in %s", p.Name, n, x.Name, history.Label(i, x.Name))
				if n > 0 && isNew(g.direct[i], n, x.Name) {
					if c.changed++; !there {
						c.unseen = append(c.unseen, at)
					}
				}
				switch {
				case there == here:
					c.same++
				case there:
					c.with = append(c.with, at)
				default:
					c.without = append(c.without, at)
				}
			}
		}
	}
	return c
}

// isNew reports whether a test prints in a revision what it hasn't printed in an earlier one: a tool
// that doesn't execute it misses that.
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
