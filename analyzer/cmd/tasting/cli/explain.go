package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/explain"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/spf13/cobra"
)

// explained is the JSON form of an explanation.
type explained struct {
	*explain.Comparison
	// Label and Recorded say with what was compared: the result that is called
	// old.
	Label    string         `json:"label,omitempty"`
	Recorded *explain.Entry `json:"recorded,omitempty"`
	Last     *explain.Entry `json:"last,omitempty"` // the result that is called new, unless that is a closure
}

func explainCommand() *cobra.Command {
	var asJSON, all, exitCode bool
	var o store.Options
	var last int
	cmd := &cobra.Command{
		Use:   "explain [flags] LABEL [NEW] | OLD NEW",
		Short: "Say why a test runs: what changed since its recorded result",
		Long: `Say why a test runs: what changed since its recorded result, what was added and what was removed.
For each component it prints a shortest chain of references from a root. Causes come first.

With LABEL alone, it compares the last recorded result of the test with earlier ones: why the test
ran then. With NEW, it compares the closure NEW with the recorded result that differs least.
Closures (NAME.closure, output group tasting_closure) lack arguments, environment and libraries of
the system, which only a run knows.

"tasting test --why" says the same of each test before it runs.`,
		Example: `  tasting explain //lib:parser_test
  tasting explain old/parser_test.closure bazel-bin/lib/parser_test.closure`,
		Args: command.Args(0, 2, "a LABEL and at most one closure, NEW, or two closures, OLD and NEW"),
		RunE: func(cmd *cobra.Command, args []string) error {
			label := ""
			if len(args) > 0 && (strings.HasPrefix(args[0], "//") || strings.HasPrefix(args[0], "@")) {
				label, args = wholeLabel(args[0]), args[1:]
			}
			e := explained{Label: label}
			var err error
			switch {
			case label != "" && len(args) < 2:
				err = e.compareRecorded(cmd, &o, args, last)
			case label == "" && len(args) == 2:
				err = e.compareFiles(args[0], args[1])
			default:
				err = errors.New("explain: want the LABEL of a test, such as //pkg:name, or two closures, OLD and NEW")
			}
			if err != nil {
				return err
			}
			err = command.Show(cmd, asJSON, e, func(out io.Writer) {
				if e.Recorded != nil {
					fmt.Fprintf(out, "%s: old is the result recorded %s on %s\n", label, e.Recorded.Time.Format(time.RFC3339), e.Recorded.Host)
				}
				if e.Last != nil {
					fmt.Fprintf(out, "new is the last recorded result, of %s; failed and replayed runs aren't recorded\n", e.Last.Time.Format(time.RFC3339))
				}
				e.Text(out, all)
			})
			if err == nil && exitCode && !e.Equal {
				return command.Exit(command.Difference, nil)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print all differences as JSON, with mangled names")
	f.BoolVar(&all, "all", false, "print all differences, flags and names in full")
	f.BoolVar(&exitCode, "exit_code", false, "end with exit code 1 if there are differences")
	storeFlags(f, &o)
	f.IntVar(&last, "last", 10, "look at so `MANY` of the last recorded results")
	return cmd
}

// wholeLabel is a label as results of the main repository are recorded, with the name of the target.
func wholeLabel(label string) string {
	if own := strings.TrimLeft(label, "@"); strings.HasPrefix(own, "//") {
		label = own
	}
	if dir, name, ok := strings.Cut(label, "//"); ok && name != "" && !strings.Contains(name, ":") {
		label = dir + "//" + name + ":" + path.Base(name)
	}
	return label
}

// compareRecorded compares a recorded result with a closure, or with the last one.
func (e *explained) compareRecorded(cmd *cobra.Command, o *store.Options, args []string, last int) error {
	if !strings.Contains(e.Label, "//") || !strings.Contains(e.Label, ":") {
		return fmt.Errorf("explain: %s: want the whole label of a test, such as //pkg:name", e.Label)
	}
	if last < 1 {
		return fmt.Errorf("explain: --last=%d: want a positive number", last)
	}
	// A misspelt name must not look like an empty store.
	if cmd.Flags().Changed("store") && store.Local(o.Location) == o.Location && !strings.Contains(o.Location, ",") {
		if _, err := os.Stat(o.Location); err != nil {
			return err
		}
	}
	return withStore(cmd, o, func(s store.Store) (err error) {
		var before, now *explain.Recorded
		if len(args) == 0 {
			before, now, err = explain.Last(cmd.Context(), s, e.Label, last)
			if now != nil {
				e.Last = &now.Entry
			}
		} else {
			now = new(explain.Recorded)
			if now.Report, err = fingerprint.ReadReport(args[0]); err != nil {
				return err
			}
			before, err = explain.Nearest(cmd.Context(), s, e.Label, now.Report, last)
		}
		if errors.Is(err, explain.ErrNone) {
			return fmt.Errorf("explain: %s has no recorded result in %s. Only passes are recorded; why a test runs that has none yet, tasting test --why says", e.Label, store.Redact(o.Location))
		}
		if err != nil {
			return err
		}
		e.Recorded = &before.Entry
		e.Comparison = explain.Compare(before.Report, now.Report)
		return nil
	})
}

func (e *explained) compareFiles(old, new string) error {
	before, err := fingerprint.ReadReport(old)
	if err != nil {
		return err
	}
	after, err := fingerprint.ReadReport(new)
	if err != nil {
		return err
	}
	e.Comparison = explain.Compare(before, after)
	return nil
}
