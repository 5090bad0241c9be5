package checks

import (
	"fmt"
	"io"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/executions"
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
