package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// A toldStory is the outcome of a story, and tour's JSON output a list of them.
type toldStory struct {
	Name       string         `json:"name"`
	About      string         `json:"about"` // the project, name@version if it is somebody else's
	Bazel      string         `json:"bazel"`
	Tests      []string       `json:"tests"`
	Chapters   []*toldChapter `json:"chapters"`
	Total      toldTotal      `json:"total"`
	AsExpected bool           `json:"as_expected"` // in all chapters, and in total
}

// A toldTotal is the sum of all chapters.
type toldTotal struct {
	Plain   *toldSide `json:"plain,omitempty"` // nil without that side
	Tasting toldSide  `json:"tasting"`
	// Slower: the other side took more seconds than plain Bazel, and was to take fewer.
	Slower bool `json:"slower,omitempty"`
}

type toldChapter struct {
	Title       string      `json:"title"`
	Tells       string      `json:"tells"`
	Expected    expectation `json:"expected"`        // of Tasting
	Plain       *toldSide   `json:"plain,omitempty"` // nil without that side
	Tasting     toldSide    `json:"tasting"`
	AsExpected  bool        `json:"as_expected"`
	Differences []string    `json:"differences,omitempty"`
}

// A toldSide says what happened to the tests of one side: each is in one of
// Executed, Replayed and Cached.
type toldSide struct {
	Executed []string `json:"executed,omitempty"`
	Replayed []string `json:"replayed,omitempty"`
	Cached   []string `json:"cached,omitempty"`
	Failed   []string `json:"failed,omitempty"`
	Compiled int      `json:"compiled"` // units
	Seconds  float64  `json:"seconds"`  // wall time of the command, compilation and analysis included
	CPU      float64  `json:"cpu"`      // seconds, of all processes, Bazel's server included

	output string
}

func (s *toldSide) add(x *toldSide) {
	s.Executed = append(s.Executed, x.Executed...)
	s.Replayed = append(s.Replayed, x.Replayed...)
	s.Cached = append(s.Cached, x.Cached...)
	s.Failed = append(s.Failed, x.Failed...)
	s.Compiled += x.Compiled
	s.Seconds += x.Seconds
	s.CPU += x.CPU
}

// sort puts tests where they belong.
func (s *toldSide) sort(results map[string]result) {
	lists := map[verdict]*[]string{executed: &s.Executed, replayed: &s.Replayed, cached: &s.Cached}
	for _, test := range slices.Sorted(maps.Keys(results)) {
		r := results[test]
		*lists[r.verdict] = append(*lists[r.verdict], test)
		if !r.passed {
			s.Failed = append(s.Failed, test)
		}
	}
}

// sum adds up the chapters of a story that is to be faster than by plain Bazel, or not.
func (s *toldStory) sum(faster bool) {
	t := &s.Total
	for _, c := range s.Chapters {
		if c.Plain != nil {
			if t.Plain == nil {
				t.Plain = new(toldSide)
			}
			t.Plain.add(c.Plain)
		}
		t.Tasting.add(&c.Tasting)
	}
	t.Slower = faster && t.Plain != nil && t.Tasting.Seconds >= t.Plain.Seconds
	s.AsExpected = s.AsExpected && !t.Slower
}

func (s *toldStory) printTitle(w io.Writer, name string) {
	fmt.Fprintf(w, `
%s: %s, %s.

Executed: the test's program was run. Replayed: rules_tasting answered from a
record. Cached: Bazel found nothing to do. Compiled: units. Seconds and CPU
seconds are those of the whole command: builds, analysis, Bazel's server.
Builds before a checkout's first chapter are in neither side's seconds. All but
the first build take its objects.

`, name, s.About, s.Bazel)
}

// printBefore prints what is known before any test is run. Tests is their number, or 0 if that isn't known yet.
func (c *toldChapter) printBefore(w io.Writer, number, tests int) {
	fmt.Fprintf(w, "\n%d. %s\n   %s\n", number, strings.ToUpper(c.Title[:1])+c.Title[1:], c.Tells)
	e := &c.Expected
	line := "all executed"
	if !e.All {
		line = fmt.Sprintf("%2d executed", len(e.Executed))
		if len(e.Executed) > 0 {
			line += ": " + strings.Join(e.Executed, " ")
		}
		others := string(e.Others)
		if others == "" {
			others = "replayed or cached"
		}
		line += fmt.Sprintf("; %d %s", tests-len(e.Executed), others)
	}
	if len(e.Failed) > 0 {
		line += "; fails: " + strings.Join(e.Failed, " ")
	}
	fmt.Fprintf(w, "   expected  %s\n", line)
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
	for line := range strings.Lines(c.Tasting.output) {
		if c.Expected.Says != "" && strings.HasPrefix(line, c.Expected.Says) {
			fmt.Fprintf(w, "   it says   %s", line)
		}
	}
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
func (s *toldStory) printTable(w io.Writer, name string) {
	fmt.Fprintf(w, "\n%s: %s, %d tests, %s\n", name, s.About, len(s.Tests), s.Bazel)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "%-22s\tplain\t\t\t\t\ttasting\t\t\t\t\t\t\t\n", "") // titles are at the left
	fmt.Fprintf(tw, "%-22s\texecuted\tcached\tcompiled\ts\tCPU s\texecuted\treplayed\tcached\tcompiled\ts\tCPU s\tas expected\t\n", "chapter")
	line := func(title string, p, t *toldSide, verdict string) {
		plain := "-\t-\t-\t-\t-"
		if p != nil {
			plain = fmt.Sprintf("%d\t%d\t%d\t%.1f\t%.1f", len(p.Executed), len(p.Cached), p.Compiled, p.Seconds, p.CPU)
		}
		fmt.Fprintf(tw, "%-22s\t%s\t%d\t%d\t%d\t%d\t%.1f\t%.1f\t%s\t\n", title, plain,
			len(t.Executed), len(t.Replayed), len(t.Cached), t.Compiled, t.Seconds, t.CPU, verdict)
	}
	verdict := "yes"
	for _, c := range s.Chapters {
		v := "yes"
		if !c.AsExpected {
			v, verdict = "NO", "NO"
		}
		line(c.Title, c.Plain, &c.Tasting, v)
	}
	if s.Total.Slower {
		verdict = "SLOWER"
	}
	line("total", s.Total.Plain, &s.Total.Tasting, verdict)
	tw.Flush()
}
