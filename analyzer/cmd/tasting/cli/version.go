package cli

import (
	"fmt"
	"io"
	"runtime"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/spf13/cobra"
)

// version is what the program calls itself. tools/release sets it with -X.
var version = unreleased

const unreleased = "development"

// release is the version of this program, "" if it is no release.
func release() string {
	if version == unreleased {
		return ""
	}
	return version
}

func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version [--json]",
		Short: "Print the version and the format of manifests",
		Long: `Print the version and the format of manifests.

Versions with the same formats of manifests and keys share results. Other versions don't see them
and run the tests.`,
		Args: command.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			v := map[string]any{"version": version, "manifest_format": manifest.Format, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			return command.Show(cmd, asJSON, v, func(out io.Writer) {
				fmt.Fprintf(out, "tasting %s\nmanifest format %d\nbuilt with %s for %s\n", version, manifest.Format, v["go"], v["platform"])
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}
