package cli

import (
	"errors"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/spf13/cobra"
)

func toolsCommand() *cobra.Command {
	var output string
	var tools fingerprint.Tools
	cmd := &cobra.Command{
		Use:   "tools -o OUT [--variable=NAME=VALUE]... FILE... | @PARAMFILE",
		Short: "Write what the tools are that the build brings for its links",
		Long: `Write the digests of files and directories, and of what links have in their environment.
Of tools that the build has itself, as scripts that stand for a compiler or a linker, nobody
knows what they make of what they link, but that it is the same as long as they are.

@PARAMFILE stands for the words in a file, one in each line.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				return errors.New("tools: no -o: name the file to write, -o OUT")
			}
			files, err := expandArgs(args)
			if err != nil {
				return err
			}
			tools.Files = files
			return tools.Write(output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write what was found to `OUT` (required)")
	cmd.Flags().StringArrayVar(&tools.Variables, "variable", nil, "`NAME=VALUE`: what a link has in its environment (repeatable)")
	return cmd
}
