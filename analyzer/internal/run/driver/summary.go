package driver

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// Values of --test_summary, of which only those that change what is printed here have a name.
const (
	summaryNone     = "none"
	summaryTerse    = "terse"
	summaryDetailed = "detailed"
	summaryTestcase = "testcase"
)

// innerSummary is the --test_summary of Bazel's own invocations. Bazel prints test cases, since it has
// parsed them: of replayed tests there are none to print, as of those that it has cached. All else is
// printed here, for all tests.
func (s *session) innerSummary() string {
	if v := s.option("test_summary"); v == summaryDetailed || v == summaryTestcase {
		return "--test_summary=" + v
	}
	return "--test_summary=" + summaryNone
}

// row is what the summary says of a test under one of its names.
type row struct {
	*test
	name, status string
	took         time.Duration
}

// rank orders rows as Bazel's TestSummary.compareTo does: results that were there before come first, then
// passes, and last what needs attention.
func (r row) rank() int {
	switch {
	case r.replayed() || r.outcome.cached():
		return 0
	case r.status == "PASSED":
		return 1
	case r.status == "NO STATUS" || r.status == "SKIPPED":
		return 2
	}
	return 3
}

// replayed tells whether the result of a test is a recorded one.
func (t *test) replayed() bool { return t.verdict == report.Hit && t.outcome == nil }

// summary prints what became of all tests as bazel test does (its
// TestSummaryPrinter and TerminalTestResultNotifier), with replays marked.
func (s *session) summary(ctx context.Context) {
	mode := s.option("test_summary")
	rows := s.rows(ctx)
	passed, unbuilt, failed, remotely, skipped, executed, replayed, traced := 0, 0, 0, 0, 0, 0, 0, 0
	var saved time.Duration
	for _, r := range rows {
		o := r.outcome
		switch {
		case r.replayed():
			replayed++
			if r.byTrace != (store.Key{}) {
				traced++
			}
			saved += r.took
		case o != nil && len(o.attempts) > 0 && !o.cached():
			executed++
		}
		switch r.status {
		case "PASSED", "FLAKY":
			passed++
		case "NO STATUS", "SKIPPED":
			skipped++
		case "FAILED TO BUILD":
			unbuilt++
		default:
			if slices.ContainsFunc(o.attempts, func(a attempt) bool { return a.result.ExecutionInfo.Strategy == "remote" }) {
				remotely++
			} else {
				failed++
			}
		}
		byBazel := s.ran && mode == summaryDetailed && !r.replayed()
		quiet := mode == summaryTerse && (r.status == "PASSED" || r.status == "NO STATUS" || r.status == "SKIPPED")
		if mode != summaryNone && mode != summaryTestcase && !byBazel && !quiet {
			r.print(s.Out)
		}
	}
	var parts []string
	add := func(n int, one, many, how string) {
		if n == 1 {
			parts = append(parts, "1 "+one+how)
		} else if n > 1 {
			parts = append(parts, fmt.Sprintf("%d %s%s", n, many, how))
		}
	}
	add(passed, "test passes", "tests pass", "")
	add(unbuilt, "fails", "fail", " to build")
	add(failed, "fails", "fail", " locally")
	add(remotely, "fails", "fail", " remotely")
	add(skipped, "was", "were", " skipped")
	if n := len(parts); n > 1 {
		parts = append(parts[:n-2], parts[n-2]+" and "+parts[n-1])
	}
	if s.checks() {
		fmt.Fprintf(s.Out, "\nFinished with %d passing and %d failing tests up to date, %d out of date.\n", passed, unbuilt+failed+remotely, skipped)
		return
	}
	fmt.Fprintf(s.Out, "\nExecuted %d out of %s", executed, count(len(rows), "test"))
	if replayed > 0 {
		fmt.Fprintf(s.Out, ", %d replayed", replayed)
		if traced > 0 {
			fmt.Fprintf(s.Out, " (%d by traces)", traced)
		}
	}
	fmt.Fprintf(s.Out, ": %s.\n", strings.Join(parts, ", "))
	if n, why := s.whole(); n > 0 {
		fmt.Fprintf(s.Out, "%d of %s counted as a whole: %s (docs/fallbacks.md).\n", n, count(len(rows), "test"), why)
	}
	if s.cost.deciding > 0 {
		// What deciding has compiled, tests that are run would have needed anyway.
		fmt.Fprintf(s.Out, "Deciding took %.1fs, %.1fs of it CPU time of the analysis", s.cost.deciding.Seconds(), s.cost.analysis.Seconds())
		if replayed > 0 {
			fmt.Fprintf(s.Out, "; what was replayed had taken %.1fs", saved.Seconds())
		}
		fmt.Fprintln(s.Out, ".")
	}
}

// whole returns how many tests count as a whole, and the most frequent reasons.
func (s *session) whole() (n int, why string) {
	reasons := map[string]int{}
	for _, t := range s.tests {
		if t.composition != nil && t.composition.Unusual != "" {
			n++
			reasons[t.composition.Unusual]++
		}
	}
	list := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int { return cmp.Or(reasons[b]-reasons[a], strings.Compare(a, b)) })
	const shown = 3
	if len(list) > shown {
		list = append(list[:shown], fmt.Sprintf("and %d more reasons", len(list)-shown))
	}
	return n, strings.Join(list, "; ")
}

// rows are the lines of the summary, in order.
func (s *session) rows(ctx context.Context) (rows []row) {
	names := s.names(ctx)
	for _, t := range s.tests {
		status, took := t.status()
		for _, name := range names(t.label) {
			rows = append(rows, row{t, name, status, took})
		}
	}
	for _, l := range s.broken {
		rows = append(rows, row{&test{label: l}, names(l)[0], "FAILED TO BUILD", 0})
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), strings.Compare(a.name, b.name))
	})
	return rows
}

// names returns a function from the label of a test to the names under which Bazel shows it: repositories as
// the main one calls them, and aliases that the command line names. Whatever Bazel can't be asked is shown as
// it is in build events.
func (s *session) names(ctx context.Context) func(label string) []string {
	err := s.writeRC()
	repos := map[string]string{}
	if err == nil && slices.ContainsFunc(s.tests, func(t *test) bool { return strings.HasPrefix(t.label, "@") }) {
		repos, _ = s.Bazel.Repositories(ctx, s.rcFile(), s.queryFlags("mod"))
	}
	shown := func(label string) string {
		repo, rest, ok := strings.Cut(strings.TrimLeft(label, "@"), "//")
		if name := repos[repo]; ok && repo != "" && name != "" {
			return "@" + name + "//" + rest
		}
		return label
	}
	aliases := map[string][]string{}
	if asked := s.unknownPatterns(shown); len(asked) > 0 && err == nil {
		actual, _ := s.Bazel.Aliases(ctx, s.rcFile(), filepath.Join(s.tmp, "aliases"), s.queryFlags("query"), asked)
		for alias, label := range actual {
			aliases[label] = append(aliases[label], shown(alias))
		}
	}
	return func(label string) []string { return append(aliases[label], shown(label)) }
}

// unknownPatterns returns the patterns of single targets that are neither tests nor suites: perhaps aliases.
func (s *session) unknownPatterns(shown func(label string) string) (patterns []string) {
	known := slices.Clone(append(s.broken, s.suites...))
	for _, t := range s.tests {
		known = append(known, t.label)
	}
	for _, p := range s.patterns {
		if single.MatchString(p) && !slices.ContainsFunc(known, func(l string) bool { return l == p || shown(l) == p }) {
			patterns = append(patterns, p)
		}
	}
	return patterns
}

// single matches the pattern of a single target, spelt in full.
var single = lazyregexp.New(`^@{0,2}[^/:]*//[^:]*:[^:*]+$`)

// print prints a row in the form of Bazel's TestSummaryPrinter.
func (r row) print(out io.Writer) {
	message, times := r.status, ""
	o := r.outcome
	var each []time.Duration
	if o != nil {
		for _, a := range o.attempts {
			_, d := a.result.When()
			each = append(each, d)
		}
	}
	switch {
	case r.status == "NO STATUS" || r.status == "SKIPPED" || r.status == "FAILED TO BUILD":
	case r.replayed():
		message = "(replayed) " + message
		each = []time.Duration{r.took}
	case o.cached():
		message = "(cached) " + message
	}
	switch n := len(each); {
	case message == "NO STATUS" || message == "FAILED TO BUILD":
	case n == 1:
		times = fmt.Sprintf(" in %.1fs", each[0].Seconds())
	case n > 1:
		failed := 0
		for _, a := range o.attempts {
			if a.result.Status != "PASSED" {
				failed++
			}
		}
		switch r.status {
		case "FLAKY":
			times = fmt.Sprintf(", failed in %d out of %d", failed, n)
		case "FAILED", "TIMEOUT":
			times = fmt.Sprintf(" in %d out of %d", failed, n)
		}
		var squares float64
		mean := r.took.Seconds() / float64(n)
		for _, d := range each {
			squares += (d.Seconds() - mean) * (d.Seconds() - mean)
		}
		longest := slices.Max(each).Seconds()
		times += fmt.Sprintf(" in %.1fs\n  Stats over %d runs: max = %.1fs, min = %.1fs, avg = %.1fs, dev = %.1fs",
			longest, n, longest, slices.Min(each).Seconds(), mean, math.Sqrt(squares/float64(n)))
	}
	fmt.Fprintf(out, "%-*s %s%s\n", max(0, 78-len(message)), r.name, message, times)
	if o == nil {
		return
	}
	for _, a := range o.attempts {
		for _, w := range a.result.Warning {
			fmt.Fprintf(out, "  WARNING: %s\n", w)
		}
	}
	for _, a := range o.attempts {
		for _, f := range a.result.TestActionOutput {
			if p, err := f.Path(); err == nil && f.Name == logName && a.result.Status != "PASSED" {
				fmt.Fprintf(out, "  %s\n", p)
			}
		}
	}
}

// cached tells whether Bazel had all results of a test already.
func (o *outcome) cached() bool {
	return o != nil && len(o.attempts) > 0 && !slices.ContainsFunc(o.attempts, func(a attempt) bool {
		return !a.result.CachedLocally && !a.result.ExecutionInfo.CachedRemotely
	})
}

// status returns how a test ended, in Bazel's words, and how long it took, or
// did when it was recorded.
func (t *test) status() (status string, took time.Duration) {
	if t.skipped {
		return "SKIPPED", 0
	}
	if t.outcome == nil {
		if t.verdict == report.Hit {
			return "PASSED", t.recorded.End.Sub(t.recorded.Start)
		}
		return "NO STATUS", 0
	}
	for _, a := range t.outcome.attempts {
		_, d := a.result.When()
		took += d
	}
	status = t.outcome.status
	if status == "" {
		status = "NO STATUS"
	}
	return strings.ReplaceAll(status, "_", " "), took
}

// withoutTotal passes on what Bazel prints, without its last "Executed N out of
// M tests" (or "Finished with N passing") and what follows: the summary is of all tests. Bazel has no flag for
// that. A line of that form in the middle, which a test has printed, stays.
type withoutTotal struct {
	out  io.Writer
	line []byte // begun
	held []byte // from such a line on
	rest int    // lines held
}

var total = lazyregexp.New(`^(\x1b\[[0-9;]*m)*(?:Executed \d+ out of \d+ tests?\b|Finished with \d+ passing and )`)

func (w *withoutTotal) Write(b []byte) (int, error) {
	for _, part := range bytes.SplitAfter(b, []byte("\n")) {
		w.line = append(w.line, part...)
		if !bytes.HasSuffix(w.line, []byte("\n")) {
			continue
		}
		line := w.line
		w.line = nil
		switch {
		case total.Match(line):
			if _, err := w.out.Write(w.held); err != nil {
				return 0, err
			}
			w.held, w.rest = line, 1
		case w.rest > 0 && w.rest < 4:
			w.held = append(w.held, line...)
			w.rest++
		default:
			if _, err := w.out.Write(append(w.held, line...)); err != nil {
				return 0, err
			}
			w.held, w.rest = nil, 0
		}
	}
	return len(b), nil
}

// flush ends the output.
func (w *withoutTotal) flush() { w.out.Write(w.line) }
