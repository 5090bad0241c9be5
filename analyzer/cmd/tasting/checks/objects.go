package checks

import (
	"errors"
	"fmt"
	"io"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/witness"
	"github.com/spf13/cobra"
)

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
