package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
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
		Long: `Link an empty program with the driver LINKER and those flags that choose files of the system. Write
which files the linker opens, by content, and how the driver calls its linker. If a link fails,
OUT.json says why.`,
		Args: command.Args(1, -1, "a LINKER behind --"),
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
	cmd.Flags().StringVarP(&output, "output", "o", "", "`FILE` to write (required)")
	cmd.Flags().StringArrayVar(&links, "link", nil, "a `FILE` of the rules that describes a link: first the executable's (repeatable)")
	cmd.Flags().StringArrayVar(&files, "line", nil, "a `FILE` with the words of another line, one a line (repeatable)")
	cmd.Flags().StringArrayVar(&known, "known", nil, "a `FILE` of the link to leave out (repeatable)")
	return cmd
}
