package evaluate

import (
	"fmt"
	"io"
	"strings"
)

// table prints a row for each commit as soon as it is known.
type table struct{ out io.Writer }

const tableHead = `                bazel test                       tasting test                                     objects
commit       executed compiled   CPU s  wall s  executed replayed compiled analysed   CPU s  wall s   CPU  different  note
`

func newTable(out io.Writer) *table {
	fmt.Fprint(out, tableHead)
	return &table{out}
}

func (t *table) row(c *Commit) {
	var notes []string
	add := func(on bool, note string) {
		if on {
			notes = append(notes, note)
		}
	}
	add(c.Cold, "cold")
	add(c.Resumed, "resumed: in no sum")
	add(c.Unbuilt, "doesn't build")
	add(c.Plain.Exit != c.Tasting.Exit, fmt.Sprintf("exit codes %d and %d", c.Plain.Exit, c.Tasting.Exit))
	add(c.Cases != nil && c.Cases.Exit != c.Plain.Exit, "another exit code by cases")
	add(c.Traces != nil && c.Traces.Exit != c.Plain.Exit, "another exit code by traces")
	add(len(c.More) > 0, fmt.Sprintf("%d more executed", c.Tasting.Executed-c.Plain.Executed))
	add(len(c.Missed) > 0, fmt.Sprintf("%d MISSED", len(c.Missed)))
	t.line(short(c.Commit), &c.Plain, &c.Tasting, c.Different, strings.Join(append(notes, c.Subject), ", "))
	t.others(&c.Plain, c.Traces, c.Cases)
}

// others prints lines of tasting test with traces and with cases, unless they are nil.
func (t *table) others(p, traced, cases *Side) {
	line := func(name string, x *Side, note string) {
		fmt.Fprintf(t.out, "%-46s  %8d %8d %8d %8d %7.1f %7.1f %s  %9s  %s\n", name, x.Executed, x.Replayed, x.Compiled, x.Analysed, x.CPU, x.Wall, ratio(p, x), "", note)
	}
	ran := func(x *Side) string {
		return fmt.Sprintf("%d of %d test cases executed", x.CasesExecuted, x.CasesExecuted+x.CasesReplayed)
	}
	switch {
	case traced != nil && cases != nil:
		line("  with --traces=on --cases", traced, fmt.Sprintf("%d replayed by traces, %s", traced.ByTrace, ran(traced)))
	case traced != nil:
		line("  with --traces=on", traced, fmt.Sprintf("%d replayed by traces", traced.ByTrace))
	}
	if cases != nil {
		line("  with --cases", cases, ran(cases))
	}
}

// ratio returns the CPU time of x over that of p.
func ratio(p, x *Side) string {
	if p.CPU == 0 {
		return "    -"
	}
	return fmt.Sprintf("%5.2f", x.CPU/p.CPU)
}

func (t *table) line(name string, p, x *Side, different int, note string) {
	fmt.Fprintf(t.out, "%-12s %8d %8d %7.1f %7.1f  %8d %8d %8d %8d %7.1f %7.1f %s  %9d  %s\n",
		name, p.Executed, p.Compiled, p.CPU, p.Wall, x.Executed, x.Replayed, x.Compiled, x.Analysed, x.CPU, x.Wall, ratio(p, x), different, note)
}

// sums ends the table with the sums of all commits after the first one.
func (t *table) sums(all []Commit) {
	var p, x Side
	var traced, cases *Side
	addTo := func(sum **Side, x *Side) {
		if x == nil {
			return
		}
		if *sum == nil {
			*sum = new(Side)
		}
		(*sum).add(x)
	}
	different, commits, above, more, unbuilt, verified := 0, 0, 0, 0, 0, 0
	for i := range all {
		c := &all[i]
		if c.Unbuilt {
			unbuilt++
		}
		verified += c.Verified
		if c.Cold || c.Resumed {
			continue
		}
		commits++
		p.add(&c.Plain)
		x.add(&c.Tasting)
		addTo(&traced, c.Traces)
		addTo(&cases, c.Cases)
		different += c.Different
		if c.Tasting.Executed > c.Plain.Executed {
			more++
		}
		if c.Tasting.CPU > 1.1*c.Plain.CPU+1 {
			above++
		}
	}
	if commits > 0 { // a cold start alone has no sum
		t.line("sum", &p, &x, different, fmt.Sprintf("%d commits after the first one", commits))
		t.others(&p, traced, cases)
		share := func(n int) float64 { return 100 * float64(n) / float64(max(p.Tests, 1)) }
		fmt.Fprintf(t.out, "\nOf %d tests bazel test executed %d (%.1f %%), tasting test %d (%.1f %%).\n", p.Tests, p.Executed, share(p.Executed), x.Executed, share(x.Executed))
		if traced != nil {
			fmt.Fprintf(t.out, "With traces it executed %d (%.1f %%).\n", traced.Executed, share(traced.Executed))
		}
		if cases != nil {
			fmt.Fprintf(t.out, "With cases it executed %d (%.1f %%), and of their %d test cases %d.\n", cases.Executed, share(cases.Executed), cases.CasesExecuted+cases.CasesReplayed, cases.CasesExecuted)
		}
		fmt.Fprintf(t.out, "%d commits where tasting test executed more tests than bazel test.\n", more)
		fmt.Fprintf(t.out, "Of %d compilations by bazel test, %d made an object that was new or different.\n", p.Compiled, different)
		fmt.Fprintf(t.out, "%d commits cost tasting test more than 1.1 times the CPU time of bazel test and a second.\n", above)
	}
	fmt.Fprintf(t.out, "%d replayed results were compared with an execution at the same commit.\n", verified)
	if unbuilt > 0 {
		fmt.Fprintf(t.out, "%d commits don't build, or have no tests.\n", unbuilt)
	}
}

func (s *Side) add(x *Side) {
	s.Tests += x.Tests
	s.Executed += x.Executed
	s.Replayed += x.Replayed
	s.ByTrace += x.ByTrace
	s.CasesExecuted += x.CasesExecuted
	s.CasesReplayed += x.CasesReplayed
	s.Cached += x.Cached
	s.Failed += x.Failed
	s.Compiled += x.Compiled
	s.Linked += x.Linked
	s.Analysed += x.Analysed
	s.Wall += x.Wall
	s.CPU += x.CPU
	s.Deciding += x.Deciding
}
