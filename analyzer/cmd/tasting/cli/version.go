package cli

import (
	"fmt"
	"runtime"

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
	return &cobra.Command{
		Use:   "version",
		Short: "Print which tasting this is",
		Long: `Print which tasting this is: the release, the format of manifests, and how it was
built. Results are shared by all versions with the same format of manifests that call the
parts of a fingerprint alike; others don't find each other's, and execute.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "tasting %s\nmanifest format %d\nbuilt with %s for %s/%s\n",
				version, manifest.Format, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
