package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/fingerprint"
	"github.com/spf13/cobra"
)

func init() {
	register(fingerprintCommand)
	register(explainCommand)
	register(composeCommand)
}

func fingerprintCommand() *cobra.Command {
	var roots fingerprint.Roots
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fingerprint [--root=SYMBOL]... [--json] MANIFEST...",
		Short: "Print the fingerprint of the test that is linked from manifests",
		Long: `Print the fingerprint of the test that is linked from manifests, a SHA-256 in hex.

The manifests are those of everything that is linked, in the order of the link.
The fingerprint identifies all code that is reachable from the roots: main or the
symbols given, what manifests call a root (constructors, shared libraries and the
like), and definitions that replace a symbol of a system library.

With --json, print the closure as well: every component with its manifest, local
and global hash and links, the roots with the reason for each, and all
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

func explainCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain [--json] OLD.json NEW.json",
		Short: "Say why two fingerprints differ",
		Long: `Say why two fingerprints differ: which components and other contributions changed,
were added or removed, and for each component a shortest chain of references from
a root to it.

OLD.json and NEW.json are the output of "tasting fingerprint --json" or the file
that "tasting compose --closure" wrote.

Exit code: 0 if the fingerprints are equal, 1 if they differ, 2 if a file can't be
read.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			before, err := fingerprint.ReadReport(args[0])
			if err != nil {
				return err
			}
			after, err := fingerprint.ReadReport(args[1])
			if err != nil {
				return err
			}
			c := fingerprint.Explain(before, after)
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				e.SetEscapeHTML(false)
				if err := e.Encode(c); err != nil {
					return err
				}
			} else {
				c.Text(cmd.OutOrStdout())
			}
			if !c.Equal {
				return exit(exitDifference, nil)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the differences as JSON")
	return cmd
}

func composeCommand() *cobra.Command {
	var t fingerprint.Test
	var output, closure string
	var data []string
	cmd := &cobra.Command{
		Use:   "compose -o NAME.tasting --binary=PATH [flags] MANIFEST...",
		Short: "Write what the runner needs to know of a test",
		Long: `Write what the runner needs to know of a test: the identity of all its code, of its
data and of its link. Bazel runs this command when it builds a test.

The manifests are those of everything that is linked, in the order of the link. A
manifest that is damaged or was written by a newer version of tasting makes the
test run always; a warning on standard error and the configuration name it.

An argument @FILE stands for the arguments in FILE, one on each line.`,
		// Files of arguments hold flags as well.
		DisableFlagParsing: true,
	}
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", "", "write the configuration to `NAME.tasting` (required)")
	f.StringVar(&closure, "closure", "", "write what the fingerprint is made of to `FILE`, for \"tasting explain\"")
	f.StringVar(&t.Binary, "binary", "", "runfiles `PATH` of the real test executable (required)")
	f.StringArrayVar(&data, "data", nil, "`RUNFILES_PATH=FILE`: a file or directory that the test can read (repeatable)")
	f.StringArrayVar(&t.Empty, "data-empty", nil, "`RUNFILES_PATH` of an empty file that the test can read, or of a directory if it ends with a slash (repeatable)")
	f.StringArrayVar(&t.LinkFlags, "link-flag", nil, "a `FLAG` of the link, without output paths; symbols that it names are roots (repeatable)")
	f.StringArrayVar(&t.LinkInputs, "link-input", nil, "a `FILE` that the link reads beside code, such as a linker script: implies --all-roots (repeatable)")
	f.StringArrayVar(&t.LinkLine, "link-line", nil, "an `ARGUMENT` of the link, with names: counts where it matters how something is linked (repeatable)")
	f.StringArrayVar(&t.OnDemand, "on-demand", nil, "a `MANIFEST` of those given whose code the linker takes only if needed, as that of an archive (repeatable)")
	f.StringArrayVar(&t.Misplaced, "misplaced", nil, "a `MANIFEST` of those given whose place isn't that in the link (repeatable)")
	f.StringArrayVar(&t.EnvKeys, "env-key", nil, "`NAME` of an environment variable that the test's declaration mentions (repeatable)")
	f.StringArrayVar(&t.AlwaysRun, "always-run", nil, "`REASON` to execute the test in any case (repeatable)")
	f.StringArrayVar(&t.LocalOnly, "local-only", nil, "`REASON` not to keep results on another machine (repeatable)")
	f.StringVar(&t.Store, "store", "", "`LOCATION` of recorded results (default: the runner's)")
	f.StringArrayVar(&t.Roots.Symbols, "root", nil, "`SYMBOL` where execution starts instead of main (repeatable)")
	f.BoolVar(&t.Roots.Exported, "all-roots", false, "start at every definition that other files can refer to: for programs that look up symbols at run time")
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
		case t.Binary == "":
			return errors.New("compose: no --binary: give the runfiles path of the test executable")
		}
		for _, d := range data {
			file, err := splitData(d)
			if err != nil {
				return err
			}
			t.Data = append(t.Data, file)
		}
		t.Manifests = f.Args()
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
			if err := errors.Join(fingerprint.WriteReport(out, r), out.Close()); err != nil {
				return err
			}
		}
		return fingerprint.WriteConfig(output, c)
	}
	return cmd
}

// splitData splits RUNFILES_PATH=FILE. Both may contain "=": the first split that
// leaves the name of a file is taken.
func splitData(s string) (fingerprint.DataFile, error) {
	for i, c := range []byte(s) {
		if c != '=' || i == 0 {
			continue
		}
		if _, err := os.Lstat(s[i+1:]); err == nil {
			return fingerprint.DataFile{Path: s[:i], File: s[i+1:]}, nil
		}
	}
	return fingerprint.DataFile{}, fmt.Errorf("--data=%s: want RUNFILES_PATH=FILE, and the file must exist", s)
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
