package evolve

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Trace is what tools have done with a program.
type Trace struct {
	Program *Program
	// Outcomes are what each test of each revision does, by RetestAll, and Passed whether that is a pass.
	Outcomes []map[string]*Outcome
	Passed   []map[string]bool
	// Tools are their names, Results what they did, revision after revision.
	Tools   []string
	Results map[string][]*Result
}

// Violation is what speaks against a tool in a program.
type Violation struct {
	Rule, Kind, Tool, Program, Mode string
	Revision                        int
	Tests                           []string
	Detail                          string
}

func (v *Violation) String() string {
	return fmt.Sprintf("%s (%s): %s, %s, revision %d: %s: %s", v.Rule, v.Kind, v.Tool, v.Program, v.Revision, v.Detail, strings.Join(v.Tests, ", "))
}

// Group is what violations have in common that are likely one bug.
func (v *Violation) Group() string { return v.Rule + " " + v.Tool + " " + v.Mode }

// Kinds of violations.
const (
	Safety     = "safety"
	Precision  = "precision"
	Generality = "generality"
)

// Rule is a rule of the paper's Table I, or one like these.
type Rule struct {
	ID, Kind, Text string
	// check calls found for each revision of a tool that violates it.
	check func(t *Trace, tool string, found func(revision int, tests []string, detail string))
}

// Rules are R1 to R7 of the paper, by tests rather than by their number, and with what a test that fails
// prints, as its section on future work asks for; then the axioms of the proof of Ekstazi's safety (Mansky,
// Gunter), 5.1 and 6, as far as programs can show them: outputs are equivalent if neither the outcomes
// nor what was collected can be told apart.
var Rules = []Rule{
	{"R1", Safety, "a test that newly fails isn't seen to fail, or to fail like that", newlyFailed},
	{"R2", Safety, "no test is selected, all other tools select all, and some do something else", func(t *Trace, tool string, found func(int, []string, string)) {
		extreme(t, tool, func(revision int, tests []string, detail string) {
			// A tool that knows more than all others may be right.
			if t.differs(revision) {
				found(revision, tests, detail)
			}
		}, func(own, all int) bool { return own == 0 }, func(other, all int) bool { return other == all })
	}},
	{"R3", Precision, "all tests are selected in all revisions, and some do what they did", alwaysAll},
	{"R4", Precision, "all tests are selected, and all other tools select none", func(t *Trace, tool string, found func(int, []string, string)) {
		extreme(t, tool, found, func(own, all int) bool { return own == all }, func(other, all int) bool { return other == 0 })
	}},
	{"R5", Precision, "tests are selected though nothing has changed", unchanged},
	{"R6", Generality, "in the first revision, not all tests are selected", first},
	{"R7", Generality, "a test fails that passes by RetestAll", moreFailures},
	{"A1", Safety, "a test is left out that was executed in the revision before, and it fails (existence safety)", func(t *Trace, tool string, found func(int, []string, string)) {
		leftOut(t, tool, found, func(steps int) bool { return steps == 1 })
	}},
	{"A2", Safety, "a test is left out several times, and in the end it fails (lemma 5.2, transitivity)", func(t *Trace, tool string, found func(int, []string, string)) {
		leftOut(t, tool, found, func(steps int) bool { return steps > 1 })
	}},
	{"A3", Safety, "a test is left out that doesn't execute what it did when its outcome was recorded (equivalence)", func(t *Trace, tool string, found func(int, []string, string)) {
		each(t, tool, found, "don't execute what decided", func(r *Result) []string { return r.Unlike })
	}},
	{"A4", Safety, "the naive collector and the smart one see different functions (lemma 6.5)", func(t *Trace, tool string, found func(int, []string, string)) {
		each(t, tool, found, "another trace by the naive collector", func(r *Result) []string { return r.Collectors })
	}},
}

// Check returns what speaks against each tool but RetestAll.
func (t *Trace) Check() (l []*Violation) {
	for _, tool := range t.Tools {
		for _, r := range Rules {
			r.check(t, tool, func(revision int, tests []string, detail string) {
				l = append(l, &Violation{r.ID, r.Kind, tool, t.Program.Name, t.Program.Mode, revision, tests, detail})
			})
		}
	}
	return l
}

func newlyFailed(t *Trace, tool string, found func(int, []string, string)) {
	for i := 1; i < len(t.Outcomes); i++ {
		var missed, unlike []string
		for _, name := range slices.Sorted(maps.Keys(t.Outcomes[i])) {
			before, known := t.Passed[i-1][name]
			if t.Passed[i][name] || !before && known {
				continue
			}
			switch seen := t.Results[tool][i].Failed[name]; {
			case seen == nil:
				missed = append(missed, name)
			case !seen.Same(t.Outcomes[i][name]):
				unlike = append(unlike, name)
			}
		}
		if len(missed) > 0 {
			found(i, missed, "newly failed and not selected")
		}
		if len(unlike) > 0 {
			found(i, unlike, "newly failed, and seen to fail in another way")
		}
	}
}

// extreme compares how many tests a tool selects with what all others do.
func extreme(t *Trace, tool string, found func(int, []string, string), own, others func(n, all int) bool) {
	if len(t.Tools) < 2 {
		return
	}
	for i := 1; i < len(t.Outcomes); i++ {
		all := len(t.Outcomes[i])
		if all == 0 || !own(len(t.Results[tool][i].Selected), all) {
			continue
		}
		if !slices.ContainsFunc(t.Tools, func(x string) bool { return x != tool && !others(len(t.Results[x][i].Selected), all) }) {
			found(i, t.Results[tool][i].Selected, fmt.Sprintf("%d of %d selected", len(t.Results[tool][i].Selected), all))
		}
	}
}

// differs reports whether a test does something else than in the revision before.
func (t *Trace) differs(revision int) bool {
	for name, o := range t.Outcomes[revision] {
		if before := t.Outcomes[revision-1][name]; before == nil || !before.Same(o) {
			return true
		}
	}
	return false
}

// alwaysAll finds a tool that never leaves out a test, though the outcome of one didn't change. In a small
// program all tests may be affected, always: the paper counts that, too.
func alwaysAll(t *Trace, tool string, found func(int, []string, string)) {
	var spare []string // as the last one has it
	last := len(t.Outcomes) - 1
	for i := 1; i <= last; i++ {
		if len(t.Results[tool][i].Selected) < len(t.Outcomes[i]) {
			return
		}
		for name, o := range t.Outcomes[i] {
			if before := t.Outcomes[i-1][name]; before != nil && before.Same(o) && t.Passed[i-1][name] {
				spare = append(spare, name)
			}
		}
	}
	slices.Sort(spare)
	if len(spare) > 0 {
		found(last, slices.Compact(spare), "all selected, always, and these do what they did")
	}
}

func unchanged(t *Trace, tool string, found func(int, []string, string)) {
	if len(t.Outcomes) < 2 || !t.Program.Revisions[0].equal(t.Program.Revisions[1]) {
		return
	}
	if l := t.Results[tool][1].Selected; len(l) > 0 {
		found(1, l, "selected, and nothing has changed")
	}
}

func first(t *Trace, tool string, found func(int, []string, string)) {
	if n := len(t.Results[tool][0].Selected); n != len(t.Outcomes[0]) {
		found(0, t.Results[tool][0].Selected, fmt.Sprintf("%d of %d selected", n, len(t.Outcomes[0])))
	}
}

func moreFailures(t *Trace, tool string, found func(int, []string, string)) {
	for i := range t.Outcomes {
		var l []string
		for _, name := range slices.Sorted(maps.Keys(t.Results[tool][i].Failed)) {
			if t.Passed[i][name] {
				l = append(l, name)
			}
		}
		if len(l) > 0 {
			found(i, l, "failed, and pass by RetestAll")
		}
	}
}

// leftOut finds tests that were left out and don't pass, by how many revisions ago they were executed. A tool that
// leaves a test out says that it passes: what fails is executed again.
func leftOut(t *Trace, tool string, found func(int, []string, string), counts func(steps int) bool) {
	steps := map[string]int{}
	for i, r := range t.Results[tool] {
		var failed []string
		for _, name := range slices.Sorted(maps.Keys(t.Outcomes[i])) {
			if steps[name]++; slices.Contains(r.Selected, name) {
				steps[name] = 0
			} else if !t.Passed[i][name] && counts(steps[name]) {
				failed = append(failed, name)
			}
		}
		if len(failed) > 0 {
			found(i, failed, "left out, and failed")
		}
	}
}

// each reports the revisions whose result names tests.
func each(t *Trace, tool string, found func(int, []string, string), detail string, tests func(*Result) []string) {
	for i, r := range t.Results[tool] {
		if l := tests(r); len(l) > 0 {
			found(i, l, detail)
		}
	}
}
