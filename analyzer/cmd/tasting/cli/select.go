package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ianlancetaylor/demangle"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/services/interval"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/spf13/cobra"
)

// selection is what is asked of a table of a service's tests.
type selection struct {
	dir, before, service string
	manifests            []string
	store                store.Options
}

func selectCommand() *cobra.Command {
	var s selection
	var record, explain bool
	cmd := &cobra.Command{
		Use:   "select --dir=DIR|--service=NAME [--record | --before=FILE] [--explain] MANIFEST...",
		Short: "Print which tests of a service a change of it can affect",
		Long: `Print which tests of a service a change of it can affect.

DIR is a table that "tasting trace --serve" has written: what the service executed for
each of its tests. The manifests are those of all that is linked into the service, as
the output group tasting_manifests of the aspect has them; @FILE stands for the lines of FILE.

With --record, what the service is made of now is noted in DIR: call it when the
tests have been collected. With --service as well, the table is kept in the store under
that name; then everybody who knows the store does without DIR. Later, with the
manifests of another version, the tests are printed, a line each, for which that version
can do something else.

That is safe for what was collected: it compares with the version that did execute
the tests. With --before, the change is one from another version, which was noted by
--record --before=FILE. Then few tests are selected though much has changed since the
collection; but a test may need other functions by now, and be missed.

Exit codes: 0 all went well, whether there are such tests or not; 2 bad usage or input.`,
		Example: `  tasting select --dir=kv.traces --record @manifests     # at the version that was collected
  tasting select --dir=kv.traces --explain @manifests    # after a change
  tasting select --dir=kv.traces --service=kv --store=grpc://cache:8980 --record @manifests
  tasting select --service=kv --store=grpc://cache:8980 @manifests`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if s.manifests, err = expandArgs(args); err != nil {
				return err
			}
			switch {
			case s.service != "" && !record && s.dir != "":
				return errors.New("select: --dir and --service: name one of them, the table of which is to be used")
			case s.service != "" && record && s.before != "":
				return errors.New("select: --record --before --service: the store has what was collected, without --before")
			case s.dir == "" && (s.service == "" || record):
				return errors.New("select: no --dir: name the directory that tasting trace --serve has written")
			case s.dir == "":
				if s.dir, err = os.MkdirTemp("", "tasting-select-"); err != nil {
					return err
				}
				defer os.RemoveAll(s.dir)
				load := func(st store.Store) error { return interval.Load(cmd.Context(), st, s.service, s.dir) }
				if err := withStore(cmd, &s.store, load); err != nil {
					return fmt.Errorf("%w: collect its tests, and keep the table with tasting select --record --service=%s", err, s.service)
				}
			}
			if s.before == "" {
				s.before = filepath.Join(s.dir, interval.ProgramFile)
			} else if !record {
				fmt.Fprintln(cmd.ErrOrStderr(), "tasting: warning: what tests need was collected with another version than the change is from: one may be missed")
			}
			if record {
				return s.record(cmd)
			}
			return s.print(cmd, explain)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.dir, "dir", "", "`DIR` of the table")
	f.StringVar(&s.service, "service", "", "`NAME` of the service whose newest table is in the store: with --record to put it there, else to use it in the place of DIR")
	f.BoolVar(&record, "record", false, "note what the service is made of, and select nothing")
	f.StringVar(&s.before, "before", "", "`FILE` of the version that the change is from, if it isn't the one that was collected")
	f.BoolVar(&explain, "explain", false, "say of each test why, on standard error")
	storeFlags(f, &s.store)
	return cmd
}

// record notes what the service is made of, and keeps the table in the store under the name of the service, if it has one.
func (s *selection) record(cmd *cobra.Command) error {
	if err := interval.Record(s.before, s.manifests); err != nil || s.service == "" {
		return err
	}
	err := withStore(cmd, &s.store, func(st store.Store) error { return interval.Save(cmd.Context(), st, s.service, s.dir) })
	if errors.Is(err, store.ErrPartly) {
		fmt.Fprintf(cmd.ErrOrStderr(), "tasting: warning: the table is %v\n", err)
		return nil
	}
	return err
}

// print prints the tests that a change can affect, and to standard error why, if explain is set.
func (s *selection) print(cmd *cobra.Command, explain bool) error {
	tests, err := interval.Read(s.dir)
	if err != nil {
		return err
	}
	if len(tests) == 0 {
		return fmt.Errorf("%s has no tests: collect them with tasting trace --serve", s.dir)
	}
	list, err := interval.Select(tests, s.before, s.manifests)
	if err != nil {
		return err
	}
	selected := 0
	for _, x := range list {
		if x.Why == "" {
			continue
		}
		selected++
		fmt.Fprintln(cmd.OutOrStdout(), x.Test)
		if explain {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", x.Test, demangle.Filter(x.Why))
		}
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "tasting: %d of %d tests can be affected\n", selected, len(list))
	return nil
}
