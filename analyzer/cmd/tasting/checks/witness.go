package checks

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/progress"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/compiler"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/mutate"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/witness"
	"github.com/spf13/cobra"
)

func linksCommand() *cobra.Command {
	var clang string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "links [--] COMPILER [flags] FILE.c...",
		Short: "Check that components have all references of their code",
		Args:  command.Args(2, -1, "COMPILER [flags] FILE.c..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			lines, err := commandLines(args)
			if err != nil {
				return err
			}
			clang = clangFor(cmd, clang, args[0])
			var all []witness.LinkResult
			violations := 0
			line := progress.On(cmd.ErrOrStderr())
			defer line.Clear()
			for i, argv := range lines {
				line.Show("%d of %d units", i, len(lines))
				r, err := witness.Links(cmd.Context(), argv, clang)
				if err != nil {
					return err
				}
				violations += len(r.Violations)
				all = append(all, *r)
			}
			line.Clear()
			return conclude(cmd, asJSON, all, func(out io.Writer) {
				for _, r := range all {
					fmt.Fprintf(out, "%s: %d symbols, %d references; %s\n", r.File, r.Symbols, r.References, counts(r.Counts, r.NotPlain))
					for _, v := range r.Violations {
						fmt.Fprintf(out, "  VIOLATION by %s: %s\n", v.Evidence, v.Reason)
					}
				}
			}, violations, "references or symbols that no manifest shows: this is a bug of the analyzer, please report it with the source")
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	command.ClangFlag(cmd, &clang)
	return cmd
}

func objectsCommand() *cobra.Command {
	var clang string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "objects A B [-- COMPILER flags]",
		Short: "Compare what is emitted for two versions with their hashes",
		Long: `Compile two versions of a translation unit. Wherever the object files differ, the identity of each
entry that reaches the difference has to differ, for each kind of evidence.

A and B are source files or directories. In a flag, {} stands for the directory of the version.`,
		Args: command.Args(2, -1, "two versions, A B [-- COMPILER flags]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			pair, compiler := args, []string{"clang"}
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				pair, compiler = args[:n], args[n:]
			}
			if len(pair) != 2 || len(compiler) == 0 {
				return errors.New("check objects: want two versions, A B [-- COMPILER flags]")
			}
			clang = clangFor(cmd, clang, compiler[0])
			results, err := witness.Objects(cmd.Context(), witness.ObjectsOptions{A: pair[0], B: pair[1], Compiler: compiler, Clang: clang})
			if err != nil {
				return err
			}
			violations := 0
			for _, r := range results {
				for _, p := range r.Pairs {
					violations += len(p.Violations())
				}
			}
			return conclude(cmd, asJSON, results, func(out io.Writer) {
				for _, r := range results {
					for _, p := range r.Pairs {
						fmt.Fprintf(out, "%s by %s: %d differences in what is emitted, %d entries changed, %d of them without need\n", r.Name, p.Evidence, len(p.Emitted), len(p.Changed), len(p.Unneeded))
						printExplanations(out, p.Violations())
					}
					fmt.Fprintf(out, "%s: %s\n", r.Name, counts(r.Counts, r.NotPlain))
				}
			}, violations, "differences that no hash shows: this is a bug of the analyzer, please report it with both versions")
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print all differences as JSON")
	command.ClangFlag(cmd, &clang)
	return cmd
}

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

// clangFor returns the clang that dumps: the named one, or the compiler
// itself if its name says that it is one.
func clangFor(cmd *cobra.Command, clang, compiler string) string {
	if !cmd.Flags().Changed("clang") && clang == "clang" && strings.Contains(filepath.Base(compiler), "clang") {
		return compiler
	}
	return clang
}

// commandLines splits COMPILER [flags] FILE.c... into one command line per file.
func commandLines(args []string) (lines [][]string, err error) {
	var common, files []string
	for i := 0; i < len(args); i++ {
		if i > 0 && !strings.HasPrefix(args[i], "-") && compiler.IsSource(args[i]) {
			files = append(files, args[i])
		} else {
			common = append(common, args[i])
		}
	}
	if len(files) == 0 {
		return nil, errors.New("no source file: want -- COMPILER [flags] FILE.c")
	}
	for _, f := range files {
		lines = append(lines, append(append([]string{}, common...), f))
	}
	return lines, nil
}

func printExplanations(w io.Writer, list []witness.Explanation) {
	for _, e := range list {
		fmt.Fprintf(w, "  VIOLATION by %s: %s of %s: %s\n", e.Evidence, e.What, e.Unit, e.Reason)
	}
}

func counts(c witness.Counts, notPlain string) string {
	s := fmt.Sprintf("%d functions, %d share a section, %d of them are components", c.Functions, c.Sharing, c.Apart)
	if notPlain != "" {
		s += "; not plain C: " + notPlain
	}
	return s
}
