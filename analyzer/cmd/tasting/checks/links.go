package checks

import (
	"fmt"
	"io"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/progress"
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
