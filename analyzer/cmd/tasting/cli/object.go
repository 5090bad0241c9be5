package cli

import (
	"errors"

	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/objfile"
	"github.com/spf13/cobra"
)

func init() { register(objectCommand) }

func objectCommand() *cobra.Command {
	var output string
	var opt objfile.Options
	cmd := &cobra.Command{
		Use:   "object -o OUT.manifest [--interface-only] FILE.o|FILE.a|FILE.so",
		Short: "Write the manifest of an object file, archive or shared library",
		Long: `Write the manifest of an ELF object, archive or shared library, for code without a
source that can be analyzed. The kind of file is told by its content.

Every loaded section of an object is a component: compile with -ffunction-sections
and -fdata-sections to have one for each function and variable. A shared library
is one component, and so is a linker script in its place.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				return errors.New("object: no -o: name the manifest to write, -o OUT.manifest")
			}
			m, err := objfile.Manifest(args[0], opt)
			if err != nil {
				return err
			}
			return manifest.Write(output, m)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the manifest to `OUT.manifest` (required)")
	cmd.Flags().BoolVar(&opt.InterfaceOnly, "interface-only", false, "of a shared library, hash only the names of its symbols: its content is identified when the test is run")
	return cmd
}
