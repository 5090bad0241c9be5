package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// A toldStory is the outcome of a story, and tour's JSON output a list of them.
type toldStory struct {
	Name       string         `json:"name"`
	Sources    string         `json:"sources"` // name@version
	Bazel      string         `json:"bazel"`
	Tests      []string       `json:"tests"`
	Builds     []toldBuild    `json:"builds,omitempty"` // that no side's seconds have
	Chapters   []*toldChapter `json:"chapters"`
	Total      toldTotal      `json:"total"`
	AsExpected bool           `json:"as_expected"` // in all chapters, and in total
}

// A toldTotal is the sum of all chapters.
type toldTotal struct {
	Plain   *toldSide `json:"plain,omitempty"` // nil without that side
	Tasting toldSide  `json:"tasting"`
	// Slower: the other side took more seconds than plain Bazel, and was to take
	// fewer.
	Slower bool `json:"slower,omitempty"`
}

func (s *toldSide) add(x *toldSide) {
	s.Executed = names(append(s.Executed, x.Executed...))
	s.Replayed = names(append(s.Replayed, x.Replayed...))
	s.Cached = names(append(s.Cached, x.Cached...))
	s.Failed = names(append(s.Failed, x.Failed...))
	s.Compiled += x.Compiled
	s.Seconds += x.Seconds
	s.CPU += x.CPU
}

// sum adds up the chapters of a story that is to be faster than by plain Bazel, or
// not.
func (s *toldStory) sum(faster bool) {
	for _, c := range s.Chapters {
		if c.Plain != nil {
			if s.Total.Plain == nil {
				s.Total.Plain = new(toldSide)
			}
			s.Total.Plain.add(c.Plain)
		}
		s.Total.Tasting.add(&c.Tasting)
	}
	t := &s.Total
	t.Slower = faster && t.Plain != nil && t.Tasting.Seconds >= t.Plain.Seconds
	s.AsExpected = s.AsExpected && !t.Slower
}

// A toldBuild is the build of a checkout before its first chapter.
type toldBuild struct {
	Checkout string  `json:"checkout"`
	Seconds  float64 `json:"seconds"` // wall time
}

type toldChapter struct {
	Title       string          `json:"title"`
	Tells       string          `json:"tells"`
	Expected    toldExpectation `json:"expected"`        // of Tasting
	Plain       *toldSide       `json:"plain,omitempty"` // nil without that side
	Tasting     toldSide        `json:"tasting"`
	AsExpected  bool            `json:"as_expected"`
	Differences []string        `json:"differences,omitempty"`
}

type toldExpectation struct {
	Executed []string `json:"executed"`
	Failed   []string `json:"failed"`
	Others   verdict  `json:"others,omitempty"` // of every other test; empty: replayed or cached
}

// A toldSide says what happened to the tests of one side: each is in one of
// Executed, Replayed and Cached.
type toldSide struct {
	Executed []string `json:"executed"`
	Replayed []string `json:"replayed"`
	Cached   []string `json:"cached"`
	Failed   []string `json:"failed"`
	Compiled int      `json:"compiled"` // units
	Seconds  float64  `json:"seconds"`  // wall time of the command, compilation and analysis included
	CPU      float64  `json:"cpu"`      // seconds, of all processes, Bazel's server included
}

func (s *toldStory) printTitle(w io.Writer) {
	fmt.Fprintf(w, `The tour of %s: %d tests, %s.

Executed: the test's program was run. Replayed: rules_tasting answered from a
record. Cached: Bazel found nothing to do. Compiled: units. Seconds and CPU
seconds are those of the whole command: builds, analysis, Bazel's server.
`, s.Sources, len(s.Tests), s.Bazel)
}

// printBuild prints the last build.
func (s *toldStory) printBuild(w io.Writer) {
	if len(s.Builds) == 1 {
		fmt.Fprint(w, "\nBuilt beforehand, in neither side's seconds; all but the first build take its objects:\n")
	}
	b := s.Builds[len(s.Builds)-1]
	fmt.Fprintf(w, "   built     %-49s %7.1f s\n", b.Checkout, b.Seconds)
}

// printBefore prints what is known before any test is run.
func (c *toldChapter) printBefore(w io.Writer, number, tests int) {
	fmt.Fprintf(w, "\n%d. %s\n   %s\n", number, strings.ToUpper(c.Title[:1])+c.Title[1:], c.Tells)
	line := fmt.Sprintf("   expected  %2d executed", len(c.Expected.Executed))
	if n := len(c.Expected.Executed); 0 < n && n < tests {
		line += ": " + strings.Join(c.Expected.Executed, " ")
	}
	if rest := tests - len(c.Expected.Executed); rest > 0 {
		others := string(c.Expected.Others)
		if others == "" {
			others = "replayed or cached"
		}
		line += fmt.Sprintf("; %d %s", rest, others)
	}
	if len(c.Expected.Failed) > 0 {
		line += "; fails: " + strings.Join(c.Expected.Failed, " ")
	}
	fmt.Fprintln(w, line)
}

func (c *toldChapter) printAfter(w io.Writer) {
	verdict := "as expected"
	if !c.AsExpected {
		verdict = "NOT AS EXPECTED"
	}
	if c.Plain != nil {
		fmt.Fprintf(w, "   plain     %s\n", c.Plain.line(false))
	}
	fmt.Fprintf(w, "   tasting   %s  %s\n", c.Tasting.line(true), verdict)
	for _, d := range c.Differences {
		fmt.Fprintf(w, "      %s\n", d)
	}
}

func (s *toldSide) line(replays bool) string {
	middle := strings.Repeat(" ", len(" 21 replayed,"))
	if replays {
		middle = fmt.Sprintf(" %2d replayed,", len(s.Replayed))
	}
	line := fmt.Sprintf("%2d executed,%s %2d cached, %2d compiled %7.1f s, %5.1f CPU s", len(s.Executed), middle, len(s.Cached), s.Compiled, s.Seconds, s.CPU)
	if len(s.Failed) > 0 {
		line += "; fails: " + strings.Join(s.Failed, " ")
	}
	return line
}

// printTable prints all chapters side by side.
func (s *toldStory) printTable(w io.Writer) {
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...any) {
		for i, cell := range cells {
			if i == 0 { // the title is at the left
				fmt.Fprintf(tw, "%-22v\t", cell)
				continue
			}
			fmt.Fprintf(tw, "%v\t", cell)
		}
		fmt.Fprintln(tw)
	}
	row("", "plain", "", "", "", "", "tasting", "", "", "", "", "", "expected", "")
	row("chapter", "executed", "cached", "compiled", "s", "CPU s", "executed", "replayed", "cached", "compiled", "s", "CPU s", "executed", "")
	line := func(title string, p, t *toldSide, expected int, verdict string) {
		cells := []any{title, "-", "-", "-", "-", "-"}
		if p != nil {
			cells = []any{title, len(p.Executed), len(p.Cached), p.Compiled, seconds(p.Seconds), seconds(p.CPU)}
		}
		row(append(cells, len(t.Executed), len(t.Replayed), len(t.Cached), t.Compiled, seconds(t.Seconds), seconds(t.CPU), expected, verdict)...)
	}
	expected, verdict := 0, "ok"
	for _, c := range s.Chapters {
		v := "ok"
		if !c.AsExpected {
			v, verdict = "NOT OK", "NOT OK"
		}
		line(c.Title, c.Plain, &c.Tasting, len(c.Expected.Executed), v)
		expected += len(c.Expected.Executed)
	}
	if s.Total.Slower {
		verdict = "SLOWER"
	}
	line("total", s.Total.Plain, &s.Total.Tasting, expected, verdict)
	tw.Flush()
}

func seconds(s float64) string { return fmt.Sprintf("%.1f", s) }

// names returns a list that is [] in JSON if it is empty.
func names(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
