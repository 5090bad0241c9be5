package driver

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
)

// docs is where the documentation is.
const docs = "https://github.com/rules-tasting/rules_tasting/blob/main/docs/"

// innerSummary returns the --test_summary for Bazel. Bazel prints test cases, which only it has parsed. This
// program prints everything else, for all tests.
func (inv *invocation) innerSummary() string {
	if v := inv.option("test_summary"); v == "detailed" || v == "testcase" {
		return "--test_summary=" + v
	}
	return "--test_summary=none"
}

// result is a test and its outcome.
type result struct {
	*decision
	outcome *outcome // nil if it wasn't run
}

// isReplayed reports whether the result of a test is a recorded one.
func (r result) isReplayed() bool { return r.verdict == report.Hit && r.outcome == nil }

// status returns Bazel's status of a test, and its duration when it was run or recorded.
func (r result) status() (status string, took time.Duration) {
	if r.skipped {
		return "SKIPPED", 0
	}
	if r.isReplayed() {
		return "PASSED", r.recorded.End.Sub(r.recorded.Start)
	}
	if r.outcome == nil {
		return "NO STATUS", 0
	}
	for _, d := range r.outcome.durations() {
		took += d
	}
	return strings.ReplaceAll(cmp.Or(r.outcome.status, "NO STATUS"), "_", " "), took
}

// durations returns how long each attempt took.
func (o *outcome) durations() []time.Duration {
	if o == nil {
		return nil
	}
	return collect(o.attempts, func(a attempt) time.Duration {
		_, took := a.result.When()
		return took
	})
}

// summary is printed at the end.
type summary struct {
	*decisions
	results   []result
	noOutcome []string // tests that Bazel was to run and whose status it hasn't reported
	ran       bool     // Bazel has run tests
	cost      cost
}

// newSummary returns the summary before any test is run.
func newSummary(d *decisions) *summary {
	return &summary{decisions: d, cost: d.decidingCost(), results: collect(d.tests, func(t *decision) result { return result{decision: t} })}
}

// add adds the outcomes of an execution.
func (s *summary) add(e *execution) {
	s.ran = true
	for i, r := range s.results {
		o := e.outcomes[r.label]
		if o == nil {
			continue
		}
		s.results[i].outcome = o
		if o.status == "" && !r.audit && !s.onlyChecks() { // which runs nothing
			s.noOutcome = append(s.noOutcome, r.label)
		}
	}
}

// print prints all results, and returns Test's exit code, given Bazel's.
func (s *summary) print(ctx context.Context, code int) (int, error) {
	failed := s.failed
	if len(s.noOutcome) > 0 && code == bazel.ExitOK {
		s.say("Bazel says nothing of %s, which it was to run: that isn't a pass", strings.Join(s.noOutcome, ", "))
		failed = true
	}
	if failed && (code == bazel.ExitOK || code == bazel.ExitTestsFailed) {
		code = bazel.ExitBuildFailed
	}
	s.sayKeptByBazel()
	s.printTests(ctx)
	if s.RunsDir != "" {
		if err := s.writeRun(ctx); err != nil {
			s.say("warning: the run can't be written down for \"tasting report\": %v", err)
		}
	}
	if s.JUnit != "" {
		if err := s.writeJUnit(); err != nil {
			return 0, err
		}
	}
	return code, nil
}

// printInterrupted prints the results so far, and asks Bazel for nothing more.
func (s *summary) printInterrupted(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	s.printTests(ctx)
}

// sayKeptByBazel prints how many passes aren't recorded because Bazel had cached them: their machine and libraries
// aren't known. This program doesn't run them once more to record them, because "bazel test" wouldn't run them.
func (s *summary) sayKeptByBazel() {
	kept := filter(s.results, func(r result) bool {
		return s.Write && r.hasKey() && r.lookup != unanswered && r.outcome != nil && r.outcome.status == "PASSED" && r.outcome.uncleanReason(r.remote) == cachedByBazel
	})
	if n := len(kept); n > 0 {
		s.say("Bazel had cached the pass of %s, which tasting hasn't observed: not recorded. --nocache_test_results runs and records all tests", count(n, "test"))
	}
}

// row is a line of the summary: a test and one of its names.
type row struct {
	result
	name, status string
	took         time.Duration
}

// rank orders rows as Bazel's TestSummary.compareTo does: cached and replayed results, passes, tests that weren't run, failures.
func (r row) rank() int {
	switch {
	case r.isReplayed() || r.outcome.isCached():
		return 0
	case r.status == "PASSED":
		return 1
	case r.status == "NO STATUS" || r.status == "SKIPPED":
		return 2
	}
	return 3
}

// totals counts rows.
type totals struct {
	passed, unbuilt, failedLocally, failedRemotely, skipped int
	executed, replayed, traced                              int
	audited, confirmed                                      int
	cases                                                   report.Cases
	saved                                                   time.Duration
}

func (n *totals) add(r row) {
	o := r.outcome
	switch {
	case r.isReplayed():
		n.replayed++
		if r.isByTrace() {
			n.traced++
		}
		n.saved += r.took
	case o != nil && len(o.attempts) > 0 && !o.isCached():
		n.executed++
	}
	if c := r.caseCounts(); c != nil {
		n.cases.Executed += c.Executed
		n.cases.Replayed += c.Replayed
	}
	if r.audit && o != nil {
		n.audited++
		if r.status == "PASSED" {
			n.confirmed++
		}
	}
	switch r.status {
	case "PASSED", "FLAKY":
		n.passed++
	case "NO STATUS", "SKIPPED":
		n.skipped++
	case "FAILED TO BUILD":
		n.unbuilt++
	default:
		if slices.ContainsFunc(o.attempts, attempt.isRemote) {
			n.failedRemotely++
		} else {
			n.failedLocally++
		}
	}
}

// String returns the counts in the words of the last line of "bazel test".
func (n *totals) String() string {
	var parts []string
	add := func(n int, one, many, how string) {
		if n == 1 {
			parts = append(parts, "1 "+one+how)
		} else if n > 1 {
			parts = append(parts, fmt.Sprintf("%d %s%s", n, many, how))
		}
	}
	add(n.passed, "test passes", "tests pass", "")
	add(n.unbuilt, "fails", "fail", " to build")
	add(n.failedLocally, "fails", "fail", " locally")
	add(n.failedRemotely, "fails", "fail", " remotely")
	add(n.skipped, "was", "were", " skipped")
	if k := len(parts); k > 1 {
		parts = append(parts[:k-2], parts[k-2]+" and "+parts[k-1])
	}
	return strings.Join(parts, ", ")
}

// printTests prints the results of all tests as bazel test does (its
// TestSummaryPrinter and TerminalTestResultNotifier), with replays marked.
func (s *summary) printTests(ctx context.Context) {
	mode := s.option("test_summary")
	rows := s.rows(ctx)
	n := &totals{}
	for _, r := range rows {
		n.add(r)
		byBazel := s.ran && mode == "detailed" && !r.isReplayed()
		quiet := mode == "terse" && (r.status == "PASSED" || r.status == "NO STATUS" || r.status == "SKIPPED")
		if mode != "none" && mode != "testcase" && !byBazel && !quiet {
			r.print(s.Out, s.isColored())
		}
	}
	if s.onlyChecks() {
		fmt.Fprintf(s.Out, "\nFinished with %d passing and %d failing tests up to date, %d out of date.\n", n.passed, n.unbuilt+n.failedLocally+n.failedRemotely, n.skipped)
		return
	}
	fmt.Fprintf(s.Out, "\nExecuted %d out of %s", n.executed, count(len(rows), "test"))
	if n.replayed > 0 {
		fmt.Fprintf(s.Out, ", %d replayed", n.replayed)
		if n.traced > 0 {
			fmt.Fprintf(s.Out, " (%d by traces)", n.traced)
		}
	}
	fmt.Fprintf(s.Out, ": %s.\n", n)
	if n.cases.Replayed > 0 {
		fmt.Fprintf(s.Out, "Executed %d of %s, of tests that aren't replayed as a whole.\n", n.cases.Executed, count(n.cases.Executed+n.cases.Replayed, "test case"))
	}
	if n.audited > 0 {
		fmt.Fprintf(s.Out, "Audited %s: the recorded result of %d is confirmed.\n", count(n.audited, "test"), n.confirmed)
	}
	if n, why := s.wholePrograms(); n > 0 {
		fmt.Fprintf(s.Out, "%d of %s are identified as a whole: %s (%sreference/messages.md).\n", n, count(len(rows), "test"), why, docs)
	}
	// Compilation isn't part of the cost: the tests that are run need it anyway.
	fmt.Fprintf(s.Out, "Decided in %.1fs (%.1fs CPU).", s.cost.deciding.Seconds(), s.cost.analysis.Seconds())
	if n.replayed > 0 {
		fmt.Fprintf(s.Out, " Saved %.1fs of test time.", n.saved.Seconds())
	}
	fmt.Fprintln(s.Out)
}

// wholePrograms returns the number of tests that are identified as a whole, and the most frequent reasons.
func (d *decisions) wholePrograms() (n int, why string) {
	reasons := map[string]int{}
	for _, t := range d.tests {
		if c := t.composed; c != nil && c.Err == nil && c.Unusual != "" {
			n++
			reasons[c.Unusual]++
		}
	}
	list := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int { return cmp.Or(reasons[b]-reasons[a], strings.Compare(a, b)) })
	const shown = 3
	if len(list) > shown {
		list = append(list[:shown], fmt.Sprintf("and %d more reasons", len(list)-shown))
	}
	return n, strings.Join(list, "; ")
}

// rows returns the lines of the summary, in order.
func (s *summary) rows(ctx context.Context) (rows []row) {
	names := s.names(ctx)
	for _, r := range s.results {
		status, took := r.status()
		for _, name := range names(r.label) {
			rows = append(rows, row{r, name, status, took})
		}
	}
	for _, l := range s.broken {
		rows = append(rows, row{result{decision: &decision{}}, names(l)[0], "FAILED TO BUILD", 0})
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), strings.Compare(a.name, b.name))
	})
	return rows
}

// names returns a function from the label of a test to the names that Bazel prints: with the main repository's names of
// other repositories, and the aliases on the command line. If a query fails, the name is that of build events.
func (x *expansion) names(ctx context.Context) func(label string) []string {
	err := x.writeRC()
	repos := map[string]string{}
	if err == nil && slices.ContainsFunc(x.targets, func(t *target) bool { return strings.HasPrefix(t.label, "@") }) {
		repos, _ = x.query().Repositories(ctx)
	}
	shown := func(label string) string {
		repo, rest, ok := strings.Cut(strings.TrimLeft(label, "@"), "//")
		if name := repos[repo]; ok && repo != "" && name != "" {
			return "@" + name + "//" + rest
		}
		return label
	}
	aliases := map[string][]string{}
	if asked := x.unknownPatterns(shown); len(asked) > 0 && err == nil {
		actual, _ := x.query().Aliases(ctx, asked)
		for alias, label := range actual {
			aliases[label] = append(aliases[label], shown(alias))
		}
	}
	return func(label string) []string { return append(aliases[label], shown(label)) }
}

// unknownPatterns returns the patterns of single targets that are neither tests nor suites: perhaps aliases.
func (x *expansion) unknownPatterns(shown func(label string) string) []string {
	known := slices.Concat(x.broken, x.suites, labels(x.targets))
	return filter(x.patterns, func(p string) bool {
		return singleTarget.MatchString(p) && !slices.ContainsFunc(known, func(l string) bool { return l == p || shown(l) == p })
	})
}

// singleTarget matches the pattern of a single target, spelt in full.
var singleTarget = lazyregexp.New(`^@{0,2}[^/:]*//[^:]*:[^:*]+$`)

// print prints a row in the form of Bazel's TestSummaryPrinter.
func (r row) print(out io.Writer, color bool) {
	message, times := r.status, ""
	o := r.outcome
	each := o.durations()
	switch {
	case r.status == "NO STATUS" || r.status == "SKIPPED" || r.status == "FAILED TO BUILD":
	case r.isReplayed():
		message = "(replayed) " + message
		each = []time.Duration{r.took}
	case o.isCached():
		message = "(cached) " + message
	}
	switch n := len(each); {
	case message == "NO STATUS" || message == "FAILED TO BUILD":
	case n == 1:
		times = fmt.Sprintf(" in %.1fs", each[0].Seconds())
	case n > 1:
		failed := len(filter(o.attempts, func(a attempt) bool { return a.result.Status != "PASSED" }))
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
	width := max(0, 78-len(message))
	if color {
		message = colored(r.status, message)
	}
	fmt.Fprintf(out, "%-*s %s%s\n", width, r.name, message, times)
	if o == nil {
		return
	}
	for _, a := range o.attempts {
		for _, w := range a.result.Warning {
			fmt.Fprintf(out, "  WARNING: %s\n", w)
		}
	}
	for _, a := range o.attempts {
		if p, ok, _ := a.file(logName); ok && a.result.Status != "PASSED" {
			fmt.Fprintf(out, "  %s\n", p)
		}
	}
}

var totalLine = lazyregexp.New(`^(\x1b\[[0-9;]*m)*(?:Executed \d+ out of \d+ tests?\b|Finished with \d+ passing and )`)

// withoutTotal cuts Bazel's last line "Executed N out of M tests" (or "Finished with N passing") and what
// follows, because the summary has a total of all tests. Bazel has no flag for that. An earlier such line is a test's own and stays.
func withoutTotal(out io.Writer) *lineWriter {
	var held []byte // from the last total on
	lines := 0      // held
	return &lineWriter{out: out, take: func(line []byte) (err error) {
		switch {
		case totalLine.Match(line):
			_, err = out.Write(held)
			held, lines = line, 1
		case lines > 0 && lines < 4:
			held = append(held, line...)
			lines++
		default:
			_, err = out.Write(append(held, line...))
			held, lines = nil, 0
		}
		return err
	}}
}
