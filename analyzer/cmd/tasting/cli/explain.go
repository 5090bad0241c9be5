package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

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
}

func explainCommand() *cobra.Command {
	var asJSON, all bool
	var label string
	var o store.Options
	var last int
	cmd := &cobra.Command{
		Use:   "explain [flags] OLD NEW | --label=LABEL [NEW]",
		Short: "Say why two fingerprints differ",
		Long: `Say why two fingerprints differ: what changed, was added or removed, by name, and
for each component a shortest chain of references from a root to it. Causes come
first: data, arguments, environment, system libraries, flags, compilers, ways of
analysis; then components whose own definition changed; then what is reached in
addition, no longer, or by other references.

OLD and NEW are closures: the file NAME.closure of a test (output group
tasting_closure), or the output of "tasting fingerprint --json". What only a run
knows (arguments, environment, system libraries) isn't in them.

With --label, OLD is looked up in the store: of the last results that were
recorded for the test of that label the one that differs least from NEW. Without
NEW it is the last recorded result that is explained, by the ones before it:
why the test was run. Then what only a run knows is compared as well.

Exit code: 0 if the fingerprints are equal, 1 if they differ, 2 if a closure
can't be read or nothing is recorded.`,
		Example: `  tasting explain --label=//lib:parser_test
  tasting explain old/parser_test.closure bazel-bin/lib/parser_test.closure`,
		RunE: func(cmd *cobra.Command, args []string) error {
			label = wholeLabel(label)
			e := explained{Label: label}
			var err error
			switch {
			case label != "" && len(args) < 2:
				err = e.compareRecorded(cmd, &o, args, last)
			case label == "" && len(args) == 2:
				err = e.compareFiles(args[0], args[1])
			default:
				err = errors.New("explain: want two closures, OLD and NEW, or --label=//pkg:name and at most one, NEW")
			}
			if err != nil {
				return err
			}
			err = show(cmd, asJSON, e, func(out io.Writer) {
				if e.Recorded != nil {
					fmt.Fprintf(out, "%s: old is the result recorded %s on %s\n", label, e.Recorded.Time.Format(time.RFC3339), e.Recorded.Host)
				}
				e.Text(out, all)
			})
			if err == nil && !e.Equal {
				return exit(exitDifference, nil)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print all differences as JSON, with mangled names")
	f.BoolVar(&all, "all", false, "print all differences, flags and names in full")
	f.StringVar(&label, "label", "", "`LABEL` of a test whose recorded results are looked up, as Bazel prints it")
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
		return fmt.Errorf("explain: --label=%s: want the whole label of a test, as //pkg:name", e.Label)
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
		} else {
			now = new(explain.Recorded)
			if now.Report, err = fingerprint.ReadReport(args[0]); err != nil {
				return err
			}
			before, err = explain.Nearest(cmd.Context(), s, e.Label, now.Report, last)
		}
		if errors.Is(err, explain.ErrNone) {
			return fmt.Errorf("explain: %w; results are recorded by tasting test and by bazel test of tasting_cc_test, and their explanations with them", err)
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
