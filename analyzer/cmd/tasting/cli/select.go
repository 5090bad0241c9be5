package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ianlancetaylor/demangle"
	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/services/interval"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/spf13/cobra"
)

// selection are the arguments of a selection from a table of a service's tests.
type selection struct {
	dir, before, service string
	manifests            []string
	store                store.Options
}

func selectCommand() *cobra.Command {
	var s selection
	var record, explain bool
	cmd := &cobra.Command{
		Use:   "select --dir=DIR|--service=NAME [--record | --before=FILE] [--why] MANIFEST...",
		Short: "Print which tests of a service a change can affect",
		Long: `Print which tests of a service a change can affect, one a line.

DIR is a table of "tasting service trace --serve". The manifests are those of all that is linked into
the service (output group tasting_manifests of the aspect); @FILE stands for the lines of FILE.

First, call it with --record and the manifests of the version that was traced. With --service as
well, the table goes to the store under that name, and others need no DIR. After a change, call it
with the manifests of the new version.

--before compares with another version, noted by --record --before=FILE. That selects fewer tests,
but it may miss one that needs other functions than when it was traced.`,
		Example: `  tasting service select --dir=kv.traces --record @manifests
  tasting service select --dir=kv.traces --why @manifests
  tasting service select --service=kv --store=grpc://cache:8980 @manifests`,
		Args: command.Args(1, -1, "the MANIFESTs of the service"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if s.manifests, err = command.ExpandArgs(args); err != nil {
				return err
			}
			switch {
			case s.service != "" && !record && s.dir != "":
				return errors.New("select: --dir and --service: name one of them, the table of which is to be used")
			case s.service != "" && record && s.before != "":
				return errors.New("select: --record --before --service: the store has what was collected, without --before")
			case s.dir == "" && (s.service == "" || record):
				return errors.New("select: no --dir: name the directory that tasting service trace --serve has written")
			case s.dir == "":
				if s.dir, err = os.MkdirTemp("", "tasting-select-"); err != nil {
					return err
				}
				defer os.RemoveAll(s.dir)
				load := func(st store.Store) error { return interval.Load(cmd.Context(), st, s.service, s.dir) }
				if err := withStore(cmd, &s.store, load); err != nil {
					return fmt.Errorf("%w: collect its tests, and keep the table with tasting service select --record --service=%s", err, s.service)
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
	f.StringVar(&s.service, "service", "", "`NAME` of the service whose table is put into the store (--record), or taken from it")
	f.BoolVar(&record, "record", false, "note what the service is made of, and select nothing")
	f.StringVar(&s.before, "before", "", "`FILE` of the version that the change is from, if another was traced")
	f.BoolVar(&explain, "why", false, "say why each test is selected, on standard error")
	f.BoolVar(&explain, "explain", false, "the same as --why")
	f.Lookup("explain").Hidden = true
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
		return fmt.Errorf("%s has no tests: collect them with tasting service trace --serve", s.dir)
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
