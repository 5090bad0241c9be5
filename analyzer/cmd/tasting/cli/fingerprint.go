package cli

import (
	"fmt"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/spf13/cobra"
)

func fingerprintCommand() *cobra.Command {
	var roots fingerprint.Roots
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fingerprint [--root=SYMBOL]... [--json] MANIFEST...",
		Short: "Print the fingerprint of the test that is linked from manifests",
		Long: `Print the fingerprint of the test that is linked from manifests, a SHA-256 in hex.

The manifests are those of everything that is linked into one executable, in the
order of the link; members of archives are linked if they are needed. The fingerprint identifies all code that is reachable from the roots: main or the
symbols given, what manifests call a root (constructors, shared libraries and the
like), and definitions that replace a symbol of a system library.

With --json, print the closure as well: every component with its manifest, local
hash and links, the roots with the reason for each, and all
contributions. That is what "tasting explain" compares.

An argument @FILE stands for the arguments in FILE, one on each line.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := expandArgs(args)
			if err != nil {
				return err
			}
			r, err := fingerprint.FromFiles(args, roots)
			if err != nil {
				return err
			}
			if asJSON {
				return fingerprint.WriteReport(cmd.OutOrStdout(), r)
			}
			fmt.Fprintln(cmd.OutOrStdout(), r.Fingerprint)
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&roots.Symbols, "root", nil, "`SYMBOL` where execution starts instead of main (repeatable)")
	cmd.Flags().BoolVar(&roots.Exported, "all-roots", false, "start at every definition that other files can refer to: for programs that look up symbols at run time")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what the fingerprint is made of, as JSON")
	return cmd
}
