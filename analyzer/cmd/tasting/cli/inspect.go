package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/spf13/cobra"
)

func inspectCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect [--json] FILE...",
		Short: "Print a manifest, a closure or a test's configuration",
		Long: `Print what a file holds, which is told by its content: the components of a manifest; what a
fingerprint is made of (NAME.closure); or what the runner knows of a test (NAME.tasting).

Several manifests are those of a program, in the order of its link: its fingerprint is printed, with
--json also its closure. @FILE stands for the lines of FILE.`,
		Args: command.Args(1, -1, "a FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := command.ExpandArgs(args)
			if err != nil {
				return err
			}
			if len(args) > 1 {
				return printFingerprint(cmd.OutOrStdout(), args, asJSON)
			}
			return inspect(cmd.OutOrStdout(), args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// inspect prints a file of any kind.
func inspect(out io.Writer, file string, asJSON bool) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if m, err := manifest.Unmarshal(b); err == nil {
		if asJSON {
			return manifest.DumpJSON(out, m)
		}
		manifest.DumpText(out, m)
		return nil
	}
	if strings.HasSuffix(file, fingerprint.ConfigSuffix) {
		c, err := fingerprint.ReadConfig(file)
		if err != nil {
			return err
		}
		return command.PrintJSON(out, c)
	}
	r, err := fingerprint.ReadReport(file)
	switch {
	case err != nil && !fingerprint.IsClosure(b):
		return fmt.Errorf("%s is neither a manifest, a closure nor the configuration of a test (NAME%s)", file, fingerprint.ConfigSuffix)
	case err != nil:
		return err
	case asJSON:
		return fingerprint.WriteReport(out, r)
	}
	fingerprint.DumpReport(out, r)
	return nil
}

// printFingerprint prints the fingerprint of the program that is linked from manifests, or its closure.
func printFingerprint(out io.Writer, manifests []string, asJSON bool) error {
	r, err := fingerprint.FromFiles(manifests, fingerprint.Roots{})
	if err != nil {
		return err
	}
	if asJSON {
		return fingerprint.WriteReport(out, r)
	}
	_, err = fmt.Fprintln(out, r.Fingerprint)
	return err
}
