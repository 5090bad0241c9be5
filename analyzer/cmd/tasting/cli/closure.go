package cli

import (
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/spf13/cobra"
)

func closureCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "closure", Short: "Look into closures"}
	cmd.AddCommand(dumpCommand("Print what a fingerprint is made of", `Print what a fingerprint is made of: its contributions, the sources with flags and
fallbacks, the roots, and every component that they reach, with its hash and links.

FILE is the file NAME.closure of a test, or the output of "tasting fingerprint
--json", which is also what --format=json prints.`, fingerprint.ReadReport, fingerprint.WriteReport, fingerprint.DumpReport))
	return cmd
}
