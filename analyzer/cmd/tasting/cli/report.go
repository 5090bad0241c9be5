package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/spf13/cobra"
)

func reportCommand() *cobra.Command {
	var dirs []string
	var page, data string
	cmd := &cobra.Command{
		Use:   "report [--runs=DIR]... [-o FILE.html] [--json=FILE]",
		Short: "Write a page on what runs of \"tasting test\" ran and saved",
		Long: `Write a page on what runs of "tasting test" ran and saved.

The page is one file without references to others. Damaged run files are named and left out.`,
		Example: `  tasting report -o report.html
  tasting report --runs=laptop --runs=ci --json=-`,
		Args: command.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(dirs) == 0 {
				dir, err := report.DefaultDir(os.Getenv)
				if err != nil {
					return err
				}
				dirs = []string{dir}
			}
			if page == "" && data == "" {
				page = "tasting-report.html"
			}
			var b report.Builder
			for _, dir := range dirs {
				damaged, err := report.ReadRuns(dir, b.Add)
				if err != nil {
					return fmt.Errorf("no runs can be read: %w; name a directory that \"tasting test\" has written to with --runs", err)
				}
				for _, d := range damaged {
					fmt.Fprintf(cmd.ErrOrStderr(), "tasting: %s is left out: %s\n", filepath.Join(dir, d.File), d.Reason)
				}
				b.AddDamaged(damaged...)
			}
			d := b.Data()
			if d.Totals.Runs == 0 {
				where := strings.Join(dirs, ", ")
				if len(d.Damaged) > 0 {
					return fmt.Errorf("no run in %s can be read, as said above: name another directory with --runs", where)
				}
				return fmt.Errorf("no runs in %s: \"tasting test\" writes them; name another directory with --runs", where)
			}
			if err := writeFile(data, d.JSON, cmd.OutOrStdout()); err != nil {
				return err
			}
			if err := writeFile(page, d.HTML, cmd.OutOrStdout()); err != nil {
				return err
			}
			for _, f := range []string{page, data} {
				if f != "" && f != "-" {
					fmt.Fprintf(cmd.ErrOrStderr(), "tasting: wrote %s (runs: %d, tests: %d)\n", f, d.Totals.Runs, d.Totals.Targets)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&dirs, "runs", nil, "`DIR` with runs (repeatable; default: where tasting test writes them)")
	cmd.Flags().StringVarP(&page, "output", "o", "", "`FILE` for the page, - for standard output (default: tasting-report.html, or none with --json)")
	cmd.Flags().StringVar(&data, "json", "", "`FILE` for the same as JSON, - for standard output")
	return cmd
}

// writeFile writes a file, whole or not at all; "" stands for none and "-" for
// stdout.
func writeFile(name string, write func(io.Writer) error, stdout io.Writer) error {
	switch name {
	case "":
		return nil
	case "-":
		return write(stdout)
	}
	var b bytes.Buffer
	err := write(&b)
	if err == nil {
		err = wholefile.Write(name, b.Bytes(), 0o644)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
