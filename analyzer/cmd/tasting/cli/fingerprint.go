package cli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/objfile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/frontier"
	"github.com/spf13/cobra"
)

func init() {
	register(fingerprintCommand)
	register(composeCommand)
}

func fingerprintCommand() *cobra.Command {
	var roots fingerprint.Roots
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fingerprint [--root=SYMBOL]... [--json] MANIFEST...",
		Short: "Print the fingerprint of the test that is linked from manifests",
		Long: `Print the fingerprint of the test that is linked from manifests, a SHA-256 in hex.

The manifests are those of everything that is linked into one executable, in the
order of the link; members of archives are linked if they are needed. The fingerprint identifies all code that is reachable from the roots: main or the
symbols given, what manifests call a root (constructors, shared libraries and the
like), and definitions that replace a symbol of a system library.

With --json, print the closure as well: every component with its manifest, local
hash and links, the roots with the reason for each, and all
contributions. That is what "tasting explain" compares.

An argument @FILE stands for the arguments in FILE, one on each line.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := expandArgs(args)
			if err != nil {
				return err
			}
			r, err := fingerprint.FromFiles(args, roots)
			if err != nil {
				return err
			}
			if asJSON {
				return fingerprint.WriteReport(cmd.OutOrStdout(), r)
			}
			fmt.Fprintln(cmd.OutOrStdout(), r.Fingerprint)
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&roots.Symbols, "root", nil, "`SYMBOL` where execution starts instead of main (repeatable)")
	cmd.Flags().BoolVar(&roots.Exported, "all-roots", false, "start at every definition that other files can refer to: for programs that look up symbols at run time")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what the fingerprint is made of, as JSON")
	return cmd
}

func composeCommand() *cobra.Command {
	var t fingerprint.Test
	var output, closure, program string
	var traces bool
	var linked []string
	cmd := &cobra.Command{
		Use:   "compose -o NAME.tasting --binary=PATH [flags] MANIFEST...",
		Short: "Write what the runner needs to know of a test",
		Long: `Write what the runner needs to know of a test: the identity of all its code, of its
data and of its link. Bazel runs this command when it builds a test.

What is linked is said in one of three ways. --link=FILE, for the executable and
each library, names descriptions of links as the rules write them. --linked=FILE
names the linked executable, and then each library, which count by their content.
Otherwise the manifests given are those of everything that is linked into the
executable, in the order of the link.

A manifest that is damaged or was written by a newer version of tasting makes the
test run always; a warning on standard error and the configuration name it.

An argument @FILE stands for the arguments in FILE, one on each line.`,
		// Files of arguments hold flags as well.
		DisableFlagParsing: true,
	}
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", "", "write the configuration to `NAME.tasting` (required)")
	f.StringVar(&closure, "closure", "", "write what the fingerprint is made of to `NAME.closure`, for \"tasting explain\"")
	f.StringVar(&program, "program", "", "write what the test is composed of to `NAME.traces`, for a runner that looks tests up by what they did execute")
	f.BoolVar(&traces, "traces", false, "have the runner trace executions as well")
	finish := t.AddFlags(f)
	f.StringArrayVar(&linked, "linked", nil, "`FILE` that was linked and counts by its content: first the executable, then shared libraries (repeatable)")
	f.BoolP("help", "h", false, "help for compose")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		args, err := expandArgs(args)
		if err != nil {
			return err
		}
		if err := f.Parse(args); err != nil {
			return err
		}
		if help, _ := f.GetBool("help"); help {
			return cmd.Help()
		}
		switch {
		case output == "":
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
		for i, file := range linked {
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
		c, r, warnings, err := fingerprint.Compose(&t)
		if err != nil {
			return err
		}
		for _, w := range warnings {
			fmt.Fprintf(cmd.ErrOrStderr(), "tasting: warning: the test will always run: %s\n", w)
		}
		if closure != "" {
			out, err := os.Create(closure)
			if err != nil {
				return err
			}
			if err := errors.Join(fingerprint.WriteClosure(out, r), out.Close()); err != nil {
				return err
			}
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

// expandArgs replaces every @FILE by the lines of FILE. Lines are taken as they
// are, so that an argument of a file may start with @.
func expandArgs(args []string) ([]string, error) {
	var out []string
	for _, a := range args {
		file, ok := strings.CutPrefix(a, "@")
		if !ok {
			out = append(out, a)
			continue
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		s := bufio.NewScanner(f)
		s.Buffer(nil, 1<<24)
		for s.Scan() {
			if line := s.Text(); line != "" {
				out = append(out, line)
			}
		}
		f.Close()
		if err := s.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return out, nil
}
