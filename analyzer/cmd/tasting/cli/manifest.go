package cli

import (
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/spf13/cobra"
)

func manifestCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "manifest", Short: "Look into manifests"}
	cmd.AddCommand(dumpCommand("Print the components of a manifest with hashes, links, flags and fallbacks", "", manifest.Read, manifest.DumpJSON, manifest.DumpText))
	return cmd
}
