package checks

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/progress"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/executions"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/workspace"
	"github.com/spf13/cobra"
)

func executionsCommand() *cobra.Command {
	var clang string
	var programs []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "executions CLOSURE PROFILE...",
		Short: "Check that every function that a test entered is in its closure",
		Long: `Check that every function that a test entered is in its closure.

CLOSURE is NAME.closure of the test, a PROFILE a raw profile or a directory of such. Compile with

    ` + strings.ReplaceAll(strings.Join(executions.EntryCoverage, " "), " -mllvm", " \\\n        -mllvm") + `

link with ` + executions.EntryCoverageLink + `, and run with LLVM_PROFILE_FILE=DIR/%p-%m%c.profraw. Of
optimised code, --program tells what was inlined: it has no symbol there.`,
		Args: command.Args(2, -1, "a CLOSURE and PROFILEs"),
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
			return conclude(cmd, asJSON, r, func(out io.Writer) { printExecution(out, args[0], r) },
				len(r.Violations), "executed functions are not in the closure: this is a bug of the analyzer, please report it with the source")
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	cmd.Flags().StringArrayVar(&programs, "program", nil, "the test, or a library of it, without instrumentation: `FILE` (repeatable)")
	command.ClangFlag(cmd, &clang)
	cmd.Flags().Lookup("clang").Usage = "clang that compiled the test, next to its llvm-profdata"
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

func workspaceCommand() *cobra.Command {
	var asJSON, verbose, traces bool
	// bazel run starts programs elsewhere.
	opt := workspace.Options{Log: io.Discard, Dir: os.Getenv("BUILD_WORKING_DIRECTORY")}
	cmd := &cobra.Command{
		Use:   "workspace [flags] [TARGETS...]",
		Short: "Check references and executions of all tests of your workspace",
		Long: `Check a Bazel workspace that depends on rules_tasting: that components have all references of their
code, for each unit that a test links, and that each function that a test entered is in its closure.
Bazel builds all tests with clang's instrumentation, in an output base of its own that stays, and
runs them once.

TARGETS are patterns of Bazel (default: //...). The build's compiler has to be clang; with gcc, use
--skip_executions.

Exit code 1: there are violations, which are bugs of tasting: please report them.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if opt.Targets = args; len(args) == 0 {
				opt.Targets = []string{"//..."}
			}
			if verbose {
				opt.Log = cmd.ErrOrStderr()
			}
			if traces {
				var err error
				if opt.Tracer, err = command.Tracer(); err != nil {
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
			err = conclude(cmd, asJSON, r, func(out io.Writer) { printWorkspace(out, r) },
				r.Violations(), "violations: this is a bug of the analyzer, please report it with the source")
			if n := r.Unchecked(); err == nil && n > 0 {
				return fmt.Errorf("check workspace: %d units or tests could not be checked", n)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&opt.Bazel, "bazel", "bazel", "`PATH` of Bazel")
	f.StringArrayVar(&opt.Flags, "bazel-flag", nil, "a `FLAG` of Bazel, such as --config=clang (repeatable)")
	f.StringVar(&opt.OutputBase, "output-base", "", "`DIR` where Bazel works (default: one for the workspace in the user's cache)")
	f.StringVar(&opt.Clang, "clang", os.Getenv("TASTING_CLANG"), "clang with llvm-profdata (default: $TASTING_CLANG, or the build's compiler)")
	f.BoolVar(&opt.SkipLinks, "skip-links", false, "don't check links")
	f.BoolVar(&opt.SkipExecutions, "skip-executions", false, "don't run tests")
	f.BoolVar(&traces, "traces", false, "also trace tests: what counters see has to be in the trace")
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
	var traces, givenUp, counted, missing int
	for _, t := range r.Tests {
		if e := t.Execution; e != nil {
			checked++
			executed += e.Executed
			idle += e.Idle
			inlined += e.Inlined
			whole += len(e.Whole)
			violations += len(e.Violations)
		}
		if e := t.Trace; e != nil {
			traces++
			counted += e.Executed
			missing += len(e.Missing)
			if len(e.GaveUp) > 0 {
				givenUp++
			}
		}
	}
	fmt.Fprintf(out, "executions: %d of %d tests checked; %d functions executed, %d instrumented and not executed, %d inlined, %d in what counts as a whole; %d violations\n",
		checked, len(r.Tests), executed, idle, inlined, whole, violations)
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

func printEntries(out io.Writer, e *executions.Entries) {
	fmt.Fprintf(out, "  trace: %d functions entered, %d executed by their counters, %d of them inlined\n", e.Entered, e.Executed, e.Inlined)
	for _, why := range e.GaveUp {
		fmt.Fprintf(out, "  the trace was given up: %s\n", why)
	}
	for _, f := range e.Missing {
		fmt.Fprintf(out, "  VIOLATION: %s was executed and is not in the trace\n", f)
	}
}
