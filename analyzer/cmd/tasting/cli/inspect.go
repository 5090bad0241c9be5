package cli

import (
	"bytes"
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
				return printFingerprint(cmd.OutOrStdout(), args, fingerprint.Roots{}, asJSON)
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
		return dump(out, m, asJSON, manifest.DumpJSON, manifest.DumpText)
	}
	if strings.HasSuffix(file, fingerprint.ConfigSuffix) {
		c, err := fingerprint.ReadConfig(file)
		if err != nil {
			return err
		}
		return command.PrintJSON(out, c)
	}
	r, err := fingerprint.ReadReport(file)
	if err == nil {
		return dump(out, r, asJSON, fingerprint.WriteReport, fingerprint.DumpReport)
	}
	if bytes.HasPrefix(b, []byte("tasting closure ")) {
		return err
	}
	return fmt.Errorf("%s is neither a manifest, a closure nor the configuration of a test (NAME%s)", file, fingerprint.ConfigSuffix)
}

func dump[T any](out io.Writer, v T, asJSON bool, toJSON func(io.Writer, T) error, toText func(io.Writer, T)) error {
	if asJSON {
		return toJSON(out, v)
	}
	toText(out, v)
	return nil
}

// printFingerprint prints the fingerprint of the program that is linked from manifests, or its closure.
func printFingerprint(out io.Writer, manifests []string, roots fingerprint.Roots, asJSON bool) error {
	r, err := fingerprint.FromFiles(manifests, roots)
	if err != nil {
		return err
	}
	if asJSON {
		return fingerprint.WriteReport(out, r)
	}
	_, err = fmt.Fprintln(out, r.Fingerprint)
	return err
}

// Commands that "tasting inspect" stands for, with their names of earlier versions.

func fingerprintCommand() *cobra.Command {
	var roots fingerprint.Roots
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fingerprint [--root=SYMBOL]... [--json] MANIFEST...",
		Short: "Print the fingerprint of the program that is linked from manifests",
		Args:  command.Args(1, -1, "a MANIFEST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := command.ExpandArgs(args)
			if err != nil {
				return err
			}
			return printFingerprint(cmd.OutOrStdout(), args, roots, asJSON)
		},
	}
	cmd.Flags().StringArrayVar(&roots.Symbols, "root", nil, "`SYMBOL` where execution starts instead of main (repeatable)")
	cmd.Flags().BoolVar(&roots.Exported, "all_roots", false, "start at every definition that other files can refer to")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the closure as well, as JSON")
	return cmd
}

func manifestCommand() *cobra.Command {
	return parent("manifest", "Print manifests", dumpCommand(manifest.Read, manifest.DumpJSON, manifest.DumpText))
}

func closureCommand() *cobra.Command {
	return parent("closure", "Print closures", dumpCommand(fingerprint.ReadReport, fingerprint.WriteReport, fingerprint.DumpReport))
}

func dumpCommand[T any](read func(file string) (T, error), toJSON func(io.Writer, T) error, toText func(io.Writer, T)) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "dump FILE",
		Short: "Print a file",
		Args:  command.Args(1, 1, "one FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := read(args[0])
			if err != nil {
				return err
			}
			if format != "json" && format != "text" {
				return fmt.Errorf("--format=%s: want json or text", format)
			}
			return dump(cmd.OutOrStdout(), v, format == "json", toJSON, toText)
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "json or text")
	return cmd
}
