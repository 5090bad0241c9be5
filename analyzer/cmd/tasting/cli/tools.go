package cli

import (
	"errors"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/spf13/cobra"
)

func toolsCommand() *cobra.Command {
	var output string
	var tools fingerprint.Tools
	cmd := &cobra.Command{
		Use:   "tools -o OUT [--variable=NAME=VALUE]... FILE... | @PARAMFILE",
		Short: "Write the digests of tools that the build provides for its links",
		Long: `Write the digests of link tools that the build provides, such as a wrapper script, and of variables.
@PARAMFILE stands for the lines of a file.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				return errors.New("tools: no -o: name the file to write, -o OUT")
			}
			files, err := command.ExpandArgs(args)
			if err != nil {
				return err
			}
			tools.Files = files
			return tools.Write(output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "`FILE` to write (required)")
	cmd.Flags().StringArrayVar(&tools.Variables, "variable", nil, "`NAME=VALUE` in the environment of links (repeatable)")
	return cmd
}
