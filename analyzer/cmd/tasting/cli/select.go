package cli

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ianlancetaylor/demangle"
	"github.com/rules-tasting/rules_tasting/analyzer/interval"
	"github.com/spf13/cobra"
)

func init() { register(selectCommand) }

func selectCommand() *cobra.Command {
	var dir, before string
	var record, explain bool
	cmd := &cobra.Command{
		Use:   "select --dir=DIR [--record | --before=FILE] [--explain] MANIFEST...",
		Short: "Print which tests of a service a change of it can affect",
		Long: `Print which tests of a service a change of it can affect.

DIR is a table that "tasting trace --serve" has written: what the service executed for
each of its tests. The manifests are those of all that is linked into the service, as
the output group tasting_manifests of the aspect has them; @FILE stands for the lines of FILE.

With --record, what the service is made of now is noted in DIR: call it when the
tests have been collected. Later, with the manifests of another version, the tests
are printed, a line each, for which that version can do something else.

That is safe for what was collected: it compares with the version that did execute
the tests. With --before, the change is one from another version, which was noted by
--record --before=FILE. Then few tests are selected though much has changed since the
collection; but a test may need other functions by now, and be missed.

Exit codes: 0 all went well, whether there are such tests or not; 2 bad usage or input.`,
		Example: `  tasting select --dir=kv.traces --record @manifests     # at the version that was collected
  tasting select --dir=kv.traces --explain @manifests    # after a change`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			manifests, err := expandArgs(args)
			if err != nil {
				return err
			}
			if dir == "" {
				return errors.New("select: no --dir: name the directory that tasting trace --serve has written")
			}
			collected := filepath.Join(dir, interval.ProgramFile)
			if before == "" {
				before = collected
			} else if !record {
				fmt.Fprintln(cmd.ErrOrStderr(), "tasting: warning: what tests need was collected with another version than the change is from: one may be missed")
			}
			if record {
				return interval.Record(before, manifests)
			}
			tests, err := interval.Read(dir)
			if err != nil {
				return err
			}
			if len(tests) == 0 {
				return fmt.Errorf("%s has no tests: collect them with tasting trace --serve", dir)
			}
			list, err := interval.Select(tests, before, manifests)
			if err != nil {
				return err
			}
			selected := 0
			for _, s := range list {
				if s.Why == "" {
					continue
				}
				selected++
				fmt.Fprintln(cmd.OutOrStdout(), s.Test)
				if explain {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", s.Test, demangle.Filter(s.Why))
				}
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "tasting: %d of %d tests can be affected\n", selected, len(list))
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "", "`DIR` of the table (required)")
	f.BoolVar(&record, "record", false, "note what the service is made of, and select nothing")
	f.StringVar(&before, "before", "", "`FILE` of the version that the change is from, if it isn't the one that was collected")
	f.BoolVar(&explain, "explain", false, "say of each test why, on standard error")
	return cmd
}
