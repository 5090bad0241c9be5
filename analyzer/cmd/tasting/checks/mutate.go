package checks

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/progress"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/mutate"
	"github.com/spf13/cobra"
)

func mutateCommand() *cobra.Command {
	var asJSON bool
	c := mutate.Campaign{}
	cmd := &cobra.Command{
		Use:   "mutate [flags] -- COMPILER [flags] FILE.c...",
		Short: "Edit code in many small ways, and check that hashes follow what is emitted",
		Long: `Edit the sources and their headers in many small ways, compile each mutant, and compare it with the
original as "tasting check objects" does.`,
		Args: command.Args(2, -1, "-- COMPILER [flags] FILE.c..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			lines, err := commandLines(args)
			if err != nil {
				return err
			}
			c.Commands = lines
			c.Clang = clangFor(cmd, c.Clang, args[0])
			line := progress.On(cmd.ErrOrStderr())
			c.Progress = func(done, total int) { line.Show("%d of %d edits", done, total) }
			r, err := c.Run(cmd.Context())
			line.Clear()
			if err != nil {
				return err
			}
			return conclude(cmd, asJSON, r, func(out io.Writer) { printReport(out, r) },
				len(r.Violations), "edits change what is emitted and no hash: this is a bug of the analyzer")
		},
	}
	cmd.Flags().Uint64Var(&c.Seed, "seed", 1, "which edits")
	cmd.Flags().IntVar(&c.Sample, "sample", 1000, "how many edits to try; 0: all")
	cmd.Flags().DurationVar(&c.Time, "time", 0, "stop after this time, such as 5m")
	cmd.Flags().StringSliceVar(&c.Kinds, "kinds", nil, "only these kinds of edits")
	cmd.Flags().BoolVar(&c.Main, "main", false, "don't edit headers")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	command.ClangFlag(cmd, &c.Clang)
	return cmd
}

func printReport(out io.Writer, r *mutate.Report) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "evidence\tkind\ttried\tcompared\temitted\tchanged\tunneeded\twide\tviolations\t")
	for _, k := range slices.Concat(r.Kinds, r.Totals) {
		name := k.Kind
		if k.Neutral {
			name += " (neutral)"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", k.Evidence, name, k.Tried, k.Compared, k.Emitted, k.Changed, k.Unneeded, k.Wide, k.Violations)
	}
	w.Flush()
	fmt.Fprintf(out, "seed %d: tried %d of %d planned, %d available; %s\n", r.Seed, r.Tried, r.Planned, r.Available, counts(r.Counts, ""))
	show := func(title string, f mutate.Finding) {
		fmt.Fprintf(out, "%s %s %s in %s\n  - %s\n  + %s\n", title, f.Kind, f.File, f.Where, f.Before, f.After)
		printExplanations(out, f.Differences)
		if len(f.Entries) > 0 {
			fmt.Fprintf(out, "  changed: %s\n", strings.Join(f.Entries[:min(len(f.Entries), 8)], " "))
		}
	}
	for _, f := range r.Violations {
		show("VIOLATION", f)
	}
	for _, f := range r.Imprecise {
		show("imprecise", f)
	}
}
