package driver

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/report"
	"github.com/rules-tasting/rules_tasting/analyzer/store"
)

// summary prints what became of all tests as bazel test does (its
// TestSummaryPrinter and AggregatingTestListener), with replays marked.
func (s *session) summary() {
	passed, failed, skipped, executed, replayed, traced := 0, 0, 0, 0, 0, 0
	var saved time.Duration
	for _, t := range s.tests {
		status, took := t.status()
		mark, times := "", ""
		o := t.outcome
		switch {
		case t.verdict == report.Hit && o == nil:
			mark = "(replayed) "
			replayed++
			if t.byTrace != (store.Key{}) {
				traced++
			}
			saved += took
		case o.cached():
			mark = "(cached) "
		case o != nil && len(o.attempts) > 0:
			executed++
		}
		if took > 0 || status == "PASSED" {
			times = fmt.Sprintf(" in %.1fs", took.Seconds())
		}
		switch status {
		case "PASSED", "FLAKY":
			passed++
		case "NO STATUS", "SKIPPED":
			skipped++
		default:
			failed++
		}
		line := mark + status + times
		fmt.Fprintf(s.Out, "%-*s %s\n", max(0, 78-len(line)), t.label, line)
		if o == nil || status == "PASSED" {
			continue
		}
		for _, a := range o.attempts {
			for _, f := range a.result.TestActionOutput {
				if p, err := f.Path(); err == nil && f.Name == "test.log" && a.result.Status != "PASSED" {
					fmt.Fprintf(s.Out, "  %s\n", p)
				}
			}
		}
	}
	for _, l := range s.broken {
		fmt.Fprintf(s.Out, "%-*s %s\n", 78-len("FAILED TO BUILD"), l, "FAILED TO BUILD")
		failed++
	}
	parts := []string{}
	add := func(n int, one, many string) {
		if n == 1 {
			parts = append(parts, "1 "+one)
		} else if n > 1 {
			parts = append(parts, fmt.Sprintf("%d %s", n, many))
		}
	}
	add(passed, "test passes", "tests pass")
	add(failed, "fails", "fail")
	add(skipped, "was skipped", "were skipped")
	all := len(s.tests) + len(s.broken)
	fmt.Fprintf(s.Out, "\nExecuted %d out of %s", executed, count(all, "test"))
	if replayed > 0 {
		fmt.Fprintf(s.Out, ", %d replayed", replayed)
		if traced > 0 {
			fmt.Fprintf(s.Out, " (%d by traces)", traced)
		}
	}
	fmt.Fprintf(s.Out, ": %s.\n", strings.Join(parts, ", "))
	if s.cost.deciding > 0 {
		// What deciding has compiled, tests that are run would have needed anyway.
		fmt.Fprintf(s.Out, "Deciding took %.1fs, %.1fs of it CPU time of the analysis", s.cost.deciding.Seconds(), s.cost.analysis.Seconds())
		if replayed > 0 {
			fmt.Fprintf(s.Out, "; what was replayed had taken %.1fs", saved.Seconds())
		}
		fmt.Fprintln(s.Out, ".")
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
// M tests" and what follows: the summary is of all tests. Bazel has no flag for
// that. A line of that form in the middle, which a test has printed, stays.
type withoutTotal struct {
	out  io.Writer
	line []byte // begun
	held []byte // from such a line on
	rest int    // lines held
}

var total = lazyregexp.New(`^(\x1b\[[0-9;]*m)*Executed \d+ out of \d+ tests?\b`)

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
