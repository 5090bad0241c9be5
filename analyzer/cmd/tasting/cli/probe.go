package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkflags"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/syslib"
	"github.com/spf13/cobra"
)

func probeCommand() *cobra.Command {
	var output string
	var known, links, files []string
	cmd := &cobra.Command{
		Use:   "probe -o OUT.json [--link=FILE]... [--line=FILE]... [--known=FILE]... -- LINKER [FLAG]...",
		Short: "Find out what a link takes from the system",
		Long: `Link a program that does nothing, by the driver LINKER and with the flags of a link
as far as they choose files of the system, and write which files the linker opens:
start files, runtime libraries, libraries that flags name and linker scripts behind
them, files that flags name by an absolute path, by content and without directories,
and how the driver calls its linker. What
the build makes or knows is left out: files below bazel-out that have their path on
the line, and those given with --known, which may be found by -l.

With --link the lines are those of a program and its libraries, as the rules describe
them, first that of the program; with --line they are lines of programs and libraries
that have nothing to do with each other. Then FLAG is not needed.

If the link fails, or the linker is too old to tell what it opens (--dependency-file,
from 2020), OUT.json says why nothing is known; with --line it has the lines that can
be linked.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				return errors.New("probe: no -o: name the file to write, -o OUT.json")
			}
			options := linkflags.Options{Open: os.ReadFile, Built: func(path string) bool { return slices.Contains(known, path) }}
			var lines []*linkflags.Line
			if len(links) > 0 {
				var err error
				if lines, err = (&fingerprint.Test{Links: links}).Lines(); err != nil {
					return err
				}
			}
			for _, file := range files {
				b, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				lines = append(lines, linkflags.Parse(strings.Split(strings.TrimSuffix(string(b), "\n"), "\n"), options))
			}
			if len(lines) == 0 {
				lines = append(lines, linkflags.Parse(args[1:], options))
			}
			tmp, err := os.MkdirTemp("", "tasting-probe-")
			if err != nil {
				return err
			}
			tmp, err = filepath.Abs(tmp)
			if err != nil {
				return err
			}
			probe, unknown := syslib.Linker{Path: args[0]}.Probe(cmd.Context(), tmp, lines...)
			if unknown != nil {
				unknown = errors.New(strings.ReplaceAll(unknown.Error(), tmp, "TMP"))
				if len(files) == 0 || len(probe.Links) == 0 {
					probe = nil
				}
			}
			return errors.Join(probe.Write(output, unknown), os.RemoveAll(tmp))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write what was found to `OUT.json` (required)")
	cmd.Flags().StringArrayVar(&links, "link", nil, "a `FILE` that describes how a file is linked, as for compose (repeatable)")
	cmd.Flags().StringArrayVar(&files, "line", nil, "a `FILE` with the words of a line after LINKER, each on a line of its own (repeatable)")
	cmd.Flags().StringArrayVar(&known, "known", nil, "a `FILE` of the link whose content counts elsewhere (repeatable)")
	return cmd
}
