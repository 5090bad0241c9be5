package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/progress"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/compiler"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/executions"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/mutate"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/witness"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/workspace"
	"github.com/spf13/cobra"
)

func init() { register(checkCommand) }

func checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Measure on any code whether hashes and links are sound (see docs/checks.md)",
	}
	cmd.AddCommand(checkObjectsCommand(), checkLinksCommand(), checkMutateCommand(), checkExecutionsCommand(), checkWorkspaceCommand(), checkEvolveCommand(), checkHistoryCommand(), checkDefectsCommand(), checkGeneratedCommand())
	return cmd
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

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func checkObjectsCommand() *cobra.Command {
	var clang string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "objects A B [-- COMPILER flags]",
		Short: "Compare what is emitted for two versions with their hashes",
		Long: `Compile two versions of a translation unit, and check that wherever the object
files differ, the identity of every entry that reaches the difference differs, by
every sort of evidence: the object without and with -ffunction-sections, and the
source of plain C that clang compiles.

A and B are source files, or directories: then every source that both have is a
pair, and -I A or -I B is added to the flags. In a flag, {} stands for the
directory of the version.`,
		Args: cobra.MinimumNArgs(2),
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
			out := cmd.OutOrStdout()
			if asJSON {
				if err := printJSON(out, results); err != nil {
					return err
				}
			}
			for _, r := range results {
				for _, p := range r.Pairs {
					violations += len(p.Violations())
					if !asJSON {
						fmt.Fprintf(out, "%s by %s: %d differences in what is emitted, %d entries changed, %d of them without need\n", r.Name, p.Evidence, len(p.Emitted), len(p.Changed), len(p.Unneeded))
						printExplanations(out, p.Violations())
					}
				}
				if !asJSON {
					fmt.Fprintf(out, "%s: %s\n", r.Name, counts(r.Counts, r.NotPlain))
				}
			}
			if violations > 0 {
				return exit(exitDifference, fmt.Errorf("check objects: %d differences that no hash shows: this is a bug of the analyzer, please report it with both versions", violations))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print all differences as JSON")
	clangFlag(cmd, &clang)
	return cmd
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

func checkLinksCommand() *cobra.Command {
	var clang string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "links [--] COMPILER [flags] FILE.c...",
		Short: "Check that every symbol that code refers to is in its component's links",
		Args:  cobra.MinimumNArgs(2),
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
			out := cmd.OutOrStdout()
			if asJSON {
				if err := printJSON(out, all); err != nil {
					return err
				}
			} else {
				for _, r := range all {
					fmt.Fprintf(out, "%s: %d symbols, %d references; %s\n", r.File, r.Symbols, r.References, counts(r.Counts, r.NotPlain))
					for _, v := range r.Violations {
						fmt.Fprintf(out, "  VIOLATION by %s: %s\n", v.Evidence, v.Reason)
					}
				}
			}
			if violations > 0 {
				return exit(exitDifference, fmt.Errorf("check links: %d references or symbols that no manifest shows: this is a bug of the analyzer, please report it with the source", violations))
			}
			return nil
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	clangFlag(cmd, &clang)
	return cmd
}

func checkMutateCommand() *cobra.Command {
	var asJSON bool
	c := mutate.Campaign{}
	cmd := &cobra.Command{
		Use:   "mutate [flags] -- COMPILER [flags] FILE.c...",
		Short: "Edit code in many small ways and check that hashes follow what is emitted",
		Long: `Edit the sources and their headers in many small ways, compile each mutant, and
compare it with the original as 'tasting check objects' does. Nothing is written
to the source tree.

Kinds of edits: ` + strings.Join(mutate.Kinds(), ", ") + `.`,
		Args: cobra.MinimumNArgs(2),
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
			out := cmd.OutOrStdout()
			if asJSON {
				if err := printJSON(out, r); err != nil {
					return err
				}
			} else {
				printReport(out, r)
			}
			if len(r.Violations) > 0 {
				return exit(exitDifference, fmt.Errorf("check mutate: %d edits change what is emitted and no hash: this is a bug of the analyzer", len(r.Violations)))
			}
			return nil
		},
	}
	cmd.Flags().Uint64Var(&c.Seed, "seed", 1, "which edits are taken")
	cmd.Flags().IntVar(&c.Sample, "sample", 1000, "number of edits to try, 0 for all")
	cmd.Flags().DurationVar(&c.Time, "time", 0, "stop after this time, such as 5m (default no limit)")
	cmd.Flags().StringSliceVar(&c.Kinds, "kinds", nil, "only these kinds of edits")
	cmd.Flags().BoolVar(&c.Main, "main", false, "edit the source files only, not their headers")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	clangFlag(cmd, &c.Clang)
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

func checkExecutionsCommand() *cobra.Command {
	var clang string
	var programs []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "executions CLOSURE PROFILE...",
		Short: "Check that every function that a test executed is in its closure",
		Long: `Check that every function that a test executed is in its closure.

CLOSURE is what "tasting compose --closure" or "tasting fingerprint --json" wrote
for the test. Each PROFILE is a raw profile of a run of the test, or a
directory of such. The test, with all its libraries, is compiled by clang with

    ` + strings.ReplaceAll(strings.Join(executions.EntryCoverage, " "), " -mllvm", " \\\n        -mllvm") + `

beside its own flags, linked with

    ` + executions.EntryCoverageLink + `

and run with LLVM_PROFILE_FILE=DIR/%p-%m%c.profraw. Code that is compiled
otherwise is invisible.

Optimised objects lack functions that were inlined everywhere. --program names the
test and its libraries without instrumentation: what has no symbol there is a part
of its callers.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			closure, err := fingerprint.ReadReport(args[0])
			if err != nil {
				return err
			}
			var has executions.Functions
			for _, p := range programs {
				if has == nil {
					has = executions.Functions{}
				}
				if err := has.Add(p); err != nil {
					return fmt.Errorf("check executions: %w", err)
				}
			}
			r, err := executions.Check(cmd.Context(), closure, args[1:], has, clang)
			if err != nil {
				return fmt.Errorf("check executions: %w", err)
			}
			out := cmd.OutOrStdout()
			if asJSON {
				if err := printJSON(out, r); err != nil {
					return err
				}
			} else {
				printExecution(out, args[0], r)
			}
			if n := len(r.Violations); n > 0 {
				return exit(exitDifference, fmt.Errorf("check executions: %d executed functions are not in the closure: this is a bug of the analyzer, please report it with the source", n))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	cmd.Flags().StringArrayVar(&programs, "program", nil, "the test, or a library of it, as `FILE` without instrumentation (repeatable; default: nothing was inlined)")
	clangFlag(cmd, &clang)
	cmd.Flags().Lookup("clang").Usage = "clang that compiled the test (default also: $TASTING_CLANG); the llvm-profdata beside it reads the profiles"
	return cmd
}

func printExecution(out io.Writer, name string, r *executions.Result) {
	fmt.Fprintf(out, "%s: %d functions executed, %d instrumented and not executed, %d inlined; %d components in the closure\n", name, r.Executed, r.Idle, r.Inlined, r.Closure)
	if len(r.Whole) > 0 {
		fmt.Fprintf(out, "  %d executed functions may belong to what counts as a whole (%s): %s\n", len(r.Whole), strings.Join(r.Wholes, ", "), r.Whole[0])
	}
	for _, v := range r.Violations {
		what := v.Function.String()
		if v.Demangled != "" {
			what += " (" + v.Demangled + ")"
		}
		fmt.Fprintf(out, "  VIOLATION: %s was executed and is not in the closure\n", what)
	}
}

func printEntries(out io.Writer, e *executions.Entries) {
	fmt.Fprintf(out, "  trace: %d functions entered, %d executed by their counters, %d of them inlined\n", e.Entered, e.Executed, e.Inlined)
	for _, why := range e.GaveUp {
		fmt.Fprintf(out, "  the trace was given up: %s\n", why)
	}
	for _, f := range e.Missing {
		fmt.Fprintf(out, "  VIOLATION: %s was executed and is not in the trace\n", f)
	}
}

func checkWorkspaceCommand() *cobra.Command {
	var asJSON, verbose, traces bool
	// bazel run starts programs elsewhere.
	opt := workspace.Options{Log: io.Discard, Dir: os.Getenv("BUILD_WORKING_DIRECTORY")}
	cmd := &cobra.Command{
		Use:   "workspace [flags] [TARGETS...]",
		Short: "Check links and executions of all tests of a Bazel workspace",
		Long: `Check a Bazel workspace that depends on rules_tasting, without a change of its
BUILD files: 'tasting check links' for every unit that a test links, external
repositories included, and 'tasting check executions' for every test. For that,
all tests are built with clang's instrumentation and run once, outside of the
runner that replays.

TARGETS are patterns of Bazel, by default //...; behind "--", one that starts
with "-" takes away. Bazel works in an output base of its own, which stays, so
that the next time only changes are built: the user's builds aren't touched.

The build's compiler has to be clang. With another one, only links can be checked
(--skip-executions).`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if opt.Targets = args; len(args) == 0 {
				opt.Targets = []string{"//..."}
			}
			if verbose {
				opt.Log = cmd.ErrOrStderr()
			}
			if traces {
				var err error
				if opt.Tracer, err = tracer(); err != nil {
					return err
				}
			}
			line := progress.On(cmd.ErrOrStderr())
			opt.Progress = func(what string, done, total int) { line.Show("%s, %d of %d", what, done, total) }
			r, err := workspace.Check(cmd.Context(), opt)
			line.Clear()
			if err != nil {
				return fmt.Errorf("check workspace: %w", err)
			}
			out := cmd.OutOrStdout()
			if asJSON {
				if err := printJSON(out, r); err != nil {
					return err
				}
			} else {
				printWorkspace(out, r)
			}
			if n := r.Violations(); n > 0 {
				return exit(exitDifference, fmt.Errorf("check workspace: %d violations: this is a bug of the analyzer, please report it with the source", n))
			}
			if n := r.Unchecked(); n > 0 {
				return fmt.Errorf("check workspace: %d units or tests could not be checked", n)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&opt.Bazel, "bazel", "bazel", "`PATH` of Bazel")
	f.StringArrayVar(&opt.Flags, "bazel-flag", nil, "a `FLAG` for all commands of Bazel that know it, such as --config=clang (repeatable)")
	f.StringVar(&opt.OutputBase, "output-base", "", "`DIR` where Bazel works (default: one for the workspace in the user's cache)")
	f.StringVar(&opt.Clang, "clang", os.Getenv("TASTING_CLANG"), "clang that analyses units and whose llvm-profdata reads profiles (default: $TASTING_CLANG, or the build's compiler)")
	f.BoolVar(&opt.SkipLinks, "skip-links", false, "don't check links")
	f.BoolVar(&opt.SkipExecutions, "skip-executions", false, "don't run tests")
	f.BoolVar(&traces, "traces", false, "trace tests while they run instrumented: what counters see has to be in the trace (docs/traces.md)")
	f.IntVar(&opt.Sample, "sample", 0, "check links of `N` units only, spread evenly (default all)")
	f.BoolVar(&asJSON, "json", false, "print the report as JSON")
	f.BoolVarP(&verbose, "verbose", "v", false, "print Bazel's messages to standard error")
	return cmd
}

func printWorkspace(out io.Writer, r *workspace.Report) {
	if l := r.Links; l != nil {
		fmt.Fprintf(out, "links: %d of %d units checked, %d skipped, %d failed; %d symbols, %d references; %s; %d violations\n",
			l.Checked, l.Units, len(l.Skipped), len(l.Errors), l.Symbols, l.References, counts(l.Counts, ""), len(l.Violations))
		for _, u := range l.Skipped {
			fmt.Fprintf(out, "  skipped: %s: %s\n", u.File, u.Reason)
		}
		for _, u := range l.Errors {
			fmt.Fprintf(out, "  FAILED: %s: %s\n", u.File, u.Reason)
		}
		for _, v := range l.Violations {
			fmt.Fprintf(out, "  VIOLATION in %s by %s: %s\n", v.File, v.Evidence, v.Reason)
		}
	}
	if r.Tests == nil {
		return
	}
	var checked, executed, idle, inlined, whole, violations int
	for _, t := range r.Tests {
		if e := t.Execution; e != nil {
			checked++
			executed += e.Executed
			idle += e.Idle
			inlined += e.Inlined
			whole += len(e.Whole)
			violations += len(e.Violations)
		}
	}
	fmt.Fprintf(out, "executions: %d of %d tests checked; %d functions executed, %d instrumented and not executed, %d inlined, %d in what counts as a whole; %d violations\n",
		checked, len(r.Tests), executed, idle, inlined, whole, violations)
	var traces, givenUp, counted, missing int
	for _, t := range r.Tests {
		if e := t.Trace; e != nil {
			traces++
			counted += e.Executed
			missing += len(e.Missing)
			if len(e.GaveUp) > 0 {
				givenUp++
			}
		}
	}
	if traces > 0 {
		fmt.Fprintf(out, "traces: %d, %d of them given up; %d functions executed by their counters, %d of them missing\n", traces, givenUp, counted, missing)
	}
	for _, t := range r.Tests {
		if t.Failed {
			fmt.Fprintf(out, "  %s failed with instrumentation\n", t.Label)
		}
		if t.Error != "" {
			fmt.Fprintf(out, "  NOT CHECKED: %s: %s\n", t.Label, t.Error)
			continue
		}
		fmt.Fprint(out, "  ")
		printExecution(out, t.Label, t.Execution)
		if t.Trace != nil {
			printEntries(out, t.Trace)
		}
		if t.Others > 0 {
			fmt.Fprintf(out, "  %d profiles of programs in its data left out\n", t.Others)
		}
	}
}
