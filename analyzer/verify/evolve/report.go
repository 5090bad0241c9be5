package evolve

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Text writes what became of the programs: what each tool selected of the tests in all revisions but
// the first, how long that took, and how many programs violate which rule, by groups that are likely
// one bug each.
func (r *Report) Text(w io.Writer) error {
	fmt.Fprintf(w, "%d programs, and %d that aren't fit: they don't compile, or a test fails from the beginning\n\n", total(r.Programs), total(r.Unfit))
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "tool\tselected\t%\tanalysis\texecution\t")
	for _, rule := range Rules {
		fmt.Fprintf(t, "%s\t", rule.ID)
	}
	fmt.Fprintln(t)
	count := map[string]int{} // by rule and tool
	for _, v := range r.Violations {
		count[v.Rule+v.Tool]++
	}
	for _, tool := range r.Tools {
		s := r.Sums[tool]
		if s == nil {
			s = new(Sums)
		}
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%s\t%s\t", tool, s.Selected, percent(s.Selected, s.Tests), s.Analysis.Round(time.Millisecond), s.Execution.Round(time.Millisecond))
		for _, rule := range Rules {
			fmt.Fprintf(t, "%d\t", count[rule.ID+tool])
		}
		fmt.Fprintln(t)
	}
	if len(r.Tools) > 0 && r.Sums[r.Tools[0]] != nil {
		s := r.Sums[r.Tools[0]]
		fmt.Fprintf(t, "(outcome differs)\t%d\t%.1f\t\t\t%s\n", s.Affected, percent(s.Affected, s.Tests), strings.Repeat("\t", len(Rules)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, g := range r.Groups() {
		fmt.Fprintf(w, "\n%d programs: %s\n", g.Count, g.First)
	}
	return nil
}

func total(counts map[string]int) (n int) {
	for _, k := range counts {
		n += k
	}
	return n
}

func percent(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(n) / float64(of)
}

// Group is one likely bug: violations of a rule by a tool in programs of a mode.
type Group struct {
	Count int
	First *Violation
}

// Groups returns the groups of violations, the largest first.
func (r *Report) Groups() []Group {
	groups := map[string]*Group{}
	for _, v := range r.Violations {
		g := groups[v.Group()]
		if g == nil {
			g = &Group{First: v}
			groups[v.Group()] = g
		}
		g.Count++
	}
	var l []Group
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		l = append(l, *groups[name])
	}
	slices.SortStableFunc(l, func(a, b Group) int { return b.Count - a.Count })
	return l
}

// Wrong returns the violations of rules of safety and generality by a tool: there must be none.
func (r *Report) Wrong(tool string) (l []*Violation) {
	for _, v := range r.Violations {
		if v.Tool == tool && v.Kind != Precision {
			l = append(l, v)
		}
	}
	return l
}

// FaultsText writes in which programs each fault was found, by which rules, and in which mode most often.
func (r *Report) FaultsText(w io.Writer) error {
	fmt.Fprintf(w, "%d programs\n\n", total(r.Programs))
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "fault\twhat is broken\tprograms\trules\tmost often in")
	for _, f := range Faults {
		programs, rules, modes := map[string]bool{}, map[string]bool{}, map[string]int{}
		for _, v := range r.Wrong(f.Name) {
			if rules[v.Rule] = true; !programs[v.Program] {
				programs[v.Program] = true
				modes[v.Mode]++
			}
		}
		most := "-"
		for _, m := range slices.Sorted(maps.Keys(modes)) {
			if modes[m] > modes[most] {
				most = m
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\n", f.Name, f.Text, len(programs), strings.Join(slices.Sorted(maps.Keys(rules)), ", "), most)
	}
	return t.Flush()
}
