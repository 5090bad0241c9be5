package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/objfile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/frontier"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func composeCommand() *cobra.Command {
	var t fingerprint.Test
	var output, closure, program string
	var traces bool
	var linked []string
	cmd := &cobra.Command{
		Use:   "compose -o NAME.tasting --binary=PATH [flags] MANIFEST...",
		Short: "Write what the runner needs to know of a test",
		Long: `Write what the runner needs to know of a test: the fingerprint of its code, its data and its link.

Linked files are named by --link, by --linked, or by their MANIFESTs in the order of the link.
@FILE stands for the lines of FILE.`,
		// Files of arguments hold flags as well.
		DisableFlagParsing: true,
	}
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", "", "`FILE` to write (required)")
	f.StringVar(&closure, "closure", "", "write the closure to `NAME.closure`")
	f.StringVar(&program, "program", "", "write what a runner with traces reads to `NAME.traces`")
	f.BoolVar(&traces, "traces", false, "have the runner trace runs")
	finish := t.AddFlags(f)
	f.StringArrayVar(&linked, "linked", nil, "a linked `FILE`, identified by content: first the executable (repeatable)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		args, err := command.ExpandArgs(args)
		if err != nil {
			return err
		}
		if err := f.Parse(args); err != nil {
			return err
		}
		if help, _ := f.GetBool("help"); help {
			return pflag.ErrHelp
		}
		if output == "" {
			return errors.New("compose: no -o: name the file to write, -o NAME.tasting")
		}
		if err := finish(""); err != nil {
			return err
		}
		dir, err := os.MkdirTemp("", "tasting-linked-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := addLinked(&t, linked, dir); err != nil {
			return err
		}
		c, r, warnings, err := fingerprint.Compose(&t)
		if err != nil {
			return err
		}
		for _, w := range warnings {
			fmt.Fprintf(cmd.ErrOrStderr(), "tasting: warning: the test will always run: %s\n", w)
		}
		write := func(out io.Writer) error { return fingerprint.WriteClosure(out, r) }
		if err := writeFile(closure, write, cmd.OutOrStdout()); err != nil {
			return err
		}
		if program != "" {
			if err := frontier.WriteProgram(program, &t, traces); err != nil {
				return err
			}
		}
		return fingerprint.WriteConfig(output, c)
	}
	return cmd
}

// addLinked adds files that count by their content, whose manifests it writes into dir: an executable and its libraries.
func addLinked(t *fingerprint.Test, files []string, dir string) error {
	for i, file := range files {
		m, err := objfile.ManifestOrContent(file, objfile.Options{Executable: i == 0, Library: i > 0})
		if err != nil {
			return err
		}
		name := filepath.Join(dir, fmt.Sprintf("%d.manifest", i))
		if err := manifest.Write(name, m); err != nil {
			return err
		}
		t.Files = append(t.Files, fingerprint.LinkedFile{Name: filepath.Base(file), Manifests: []string{name}})
	}
	return nil
}
