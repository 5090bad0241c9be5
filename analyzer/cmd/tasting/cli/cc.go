package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/launcher"
	"github.com/spf13/cobra"
)

func init() { register(ccCommand) }

func ccCommand() *cobra.Command {
	var o launcher.Options
	var install string
	var counts bool
	cmd := &cobra.Command{
		Use:   "cc [--dir=DIR] [--audit=SHARE] -- COMPILER [ARG]...",
		Short: "Compile C or C++, or hand out the object file of an earlier compilation that would be the same",
		Long: `Compile C or C++, or hand out the object file of an earlier compilation that would be the same.

An object is handed out if the command line, the compiler and all files that were
read are the same but for comments, layout and lines that nothing asks for. All else,
and whatever isn't understood, is compiled as if tasting weren't there.

    tasting cc --install=$HOME/.cache/tasting-cc/bin -- clang

writes a script of the compiler's name that calls it so, for Bazel's CC. See docs/cc.md.

The exit code is the compiler's.`,
		Example: `  tasting cc --install=$HOME/.cache/tasting-cc/bin -- clang
  tasting cc --counts`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Dir == "" {
				cache, err := os.UserCacheDir()
				if err != nil {
					return fmt.Errorf("%w: name a directory with --dir", err)
				}
				o.Dir = filepath.Join(cache, "tasting-cc")
			}
			var err error
			if o.Dir, err = filepath.Abs(o.Dir); err != nil {
				return err
			}
			switch {
			case counts:
				return printCounts(cmd, o.Dir)
			case len(args) == 0:
				return errors.New("want -- COMPILER")
			case o.Audit < 0 || o.Audit > 1:
				return fmt.Errorf("--audit=%v: want a share from 0 to 1", o.Audit)
			case install != "":
				return installLauncher(cmd, install, &o, args)
			}
			o.Args = args
			o.Stdin, o.Stdout, o.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			code, err := launcher.Run(cmd.Context(), &o)
			if err != nil {
				return err
			}
			return exit(code, nil)
		},
	}
	cmd.Flags().StringVar(&o.Dir, "dir", "", "`DIR` where objects are kept (default: tasting-cc in the user's cache directory)")
	cmd.Flags().Float64Var(&o.Audit, "audit", 0.005, "share of objects, 0 to 1, that are compiled although they are known, to compare")
	cmd.Flags().StringVar(&install, "install", "", "write a script that stands for the compiler into `DIR`")
	cmd.Flags().BoolVar(&counts, "counts", false, "print how often what was done, and compile nothing")
	return cmd
}

func printCounts(cmd *cobra.Command, dir string) error {
	counts, err := launcher.Counts(dir)
	if err != nil {
		return err
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	for _, name := range names {
		fmt.Fprintf(cmd.OutOrStdout(), "%8d %s\n", counts[name], name)
	}
	return nil
}

// installLauncher writes a script that runs a compiler through this program.
func installLauncher(cmd *cobra.Command, dir string, o *launcher.Options, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	compiler, err := exec.LookPath(args[0])
	if err == nil {
		compiler, err = filepath.Abs(compiler)
	}
	if err != nil {
		return err
	}
	// Bazel's sandbox lets through only what exists.
	if err := errors.Join(os.MkdirAll(dir, 0o777), os.MkdirAll(o.Dir, 0o777)); err != nil {
		return err
	}
	words := []string{self, "cc", "--dir=" + o.Dir, fmt.Sprintf("--audit=%v", o.Audit), "--", compiler}
	for i, w := range words {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	name := filepath.Join(dir, filepath.Base(compiler))
	if err := os.WriteFile(name, []byte("#!/bin/sh\nexec "+strings.Join(words, " ")+` "$@"`+"\n"), 0o777); err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), name)
	return nil
}
