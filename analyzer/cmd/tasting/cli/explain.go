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

func init() {
	register(explainCommand)
	register(closureCommand)
}

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
			out := cmd.OutOrStdout()
			if asJSON {
				if err := printJSON(out, e); err != nil {
					return err
				}
			} else {
				if e.Recorded != nil {
					fmt.Fprintf(out, "%s: old is the result recorded %s on %s\n", label, e.Recorded.Time.Format(time.RFC3339), e.Recorded.Host)
				}
				e.Text(out, all)
			}
			if !e.Equal {
				return exit(exitDifference, nil)
			}
			return nil
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
	if err := completeStore(cmd.Flags(), o); err != nil {
		return err
	}
	// A misspelt name must not look like an empty store.
	if cmd.Flags().Changed("store") && store.Local(o.Location) == o.Location && !strings.Contains(o.Location, ",") {
		if _, err := os.Stat(o.Location); err != nil {
			return err
		}
	}
	s, err := store.Open(o.Location, *o)
	if err != nil {
		return err
	}
	defer store.Close(s)
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

func closureCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "closure", Short: "Look into closures"}
	var format string
	dump := &cobra.Command{
		Use:   "dump FILE",
		Short: "Print what a fingerprint is made of",
		Long: `Print what a fingerprint is made of: its contributions, the sources with flags and
fallbacks, the roots, and every component that they reach, with its hash and links.

FILE is the file NAME.closure of a test, or the output of "tasting fingerprint
--json", which is also what --format=json prints.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := fingerprint.ReadReport(args[0])
			if err != nil {
				return err
			}
			switch format {
			case "json":
				return fingerprint.WriteReport(cmd.OutOrStdout(), r)
			case "text":
				dumpClosure(cmd.OutOrStdout(), r)
				return nil
			}
			return fmt.Errorf("--format=%s: want json or text", format)
		},
	}
	dump.Flags().StringVar(&format, "format", "text", "output format: json or text")
	cmd.AddCommand(dump)
	return cmd
}

func dumpClosure(w io.Writer, r *fingerprint.Report) {
	fmt.Fprintf(w, "fingerprint %s\n", r.Fingerprint)
	for _, s := range r.AlwaysRun {
		fmt.Fprintf(w, "always run: %s\n", s)
	}
	for _, c := range r.Contributions {
		fmt.Fprintf(w, "contribution %s %s\n", c.SHA256, c.Name)
	}
	for _, p := range r.Run {
		fmt.Fprintf(w, "run %s %s\n", p.Sum, p.Name)
	}
	if len(r.LinkFlags) > 0 {
		fmt.Fprintf(w, "link flags %s\n", strings.Join(r.LinkFlags, " "))
	}
	for _, u := range r.Units {
		fmt.Fprintf(w, "source %s, rung %s\n", u.Source, u.Rung)
		if u.Compiler != "" {
			fmt.Fprintf(w, "  compiler %s\n  flags %s\n", u.Compiler, strings.Join(u.Flags, " "))
		}
		for _, s := range u.Fallbacks {
			fmt.Fprintf(w, "  fallback: %s\n", s)
		}
	}
	for _, x := range r.Roots {
		fmt.Fprintf(w, "root %s: %s\n", x.Component, strings.Join(x.Why, ", "))
	}
	if r.Unusual != "" {
		fmt.Fprintf(w, "counts as a whole: %s\n", r.Unusual)
	}
	for _, x := range r.Contested {
		fmt.Fprintf(w, "contested %s\n", x.Text())
	}
	for _, c := range r.Components {
		fmt.Fprintf(w, "%s %s %s %s", c.Local, c.Kind, c.Linkage, c.ID)
		if c.File != "" {
			fmt.Fprintf(w, " file=%s", c.File)
		}
		fmt.Fprintln(w)
		for _, s := range c.Symbols {
			fmt.Fprintf(w, "  = %s\n", s)
		}
		for _, to := range c.Links {
			fmt.Fprintf(w, "  -> %s\n", to)
		}
	}
}
