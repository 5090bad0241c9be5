package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/explain"
)

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"add":      func(a, b int) int { return a + b },
	"count":    count,
	"duration": durationText,
	"millis":   millisText,
	"percent":  percentText,
	"plural":   plural,
	"readable": func(id string) string { return explain.Readable(id, false) },
	"share":    func(a, b int) float64 { return percentOf(float64(a), float64(b)) },
	"short":    shortCommit,
	"states":   func() []State { return stateOrder },
	"time":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") },
}).Parse(pageHTML))

// JSON writes d for programs.
func (d *Data) JSON(w io.Writer) error {
	text, err := json.Marshal(d, json.Deterministic(true), jsontext.Multiline(true), jsontext.WithIndent(" "), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// HTML writes d as one page for people, which needs no other file and no script.
func (d *Data) HTML(w io.Writer) error {
	p := &page{Data: d}
	if n := len(d.Runs); n > 0 {
		p.Newest = &d.Runs[n-1]
		p.rows()
	}
	return pageTemplate.Execute(w, p)
}

// page is the input of the template.
type page struct {
	*Data
	Newest *RunData // nil if there is no run
	Rows   []runRow
	Ruler  string // numbers of runs, above the states of the matrix
	Plain  bool   // the cost of plain "bazel test" is known for a run
}

// runRow is a run in the table of runs.
type runRow struct {
	*RunData
	Number int // from 1, in the order of time
	// Outcomes and Durations are bars.
	Outcomes, Durations []segment
}

// segment is a part of a bar.
type segment struct {
	State State
	Width float64 // in percent of the longest bar
}

// stateOrder is the order of states in bars and legends.
var stateOrder = []State{Replayed, Cached, Missed, AuditedHit, Always, NoFingerprint, Failed, Absent}

// Class returns the class of s in the page's style.
func (s State) Class() string {
	if s == Absent {
		return "s-n"
	}
	return "s-" + s.Letter()
}

// Letter returns the letter of s in the matrix.
func (s State) Letter() string { return string(stateInfo[s].letter) }

// Name returns the name of s for people.
func (s State) Name() string { return stateInfo[s].name }

// Letters returns the letter of a span for each of its runs.
func (s span) Letters() string { return strings.Repeat(s.State.Letter(), s.N) }

// bar returns the segments of a bar, where most is the length of the longest bar.
func bar(most float64, values [numStates]float64) []segment {
	var l []segment
	for _, s := range stateOrder {
		if values[s] > 0 {
			l = append(l, segment{s, percentOf(values[s], most)})
		}
	}
	return l
}

// rows fills in the newest runs, newest first.
func (p *page) rows() {
	var mostTests int
	var mostTime float64
	shown := p.Runs[p.Matrix.FirstRun:]
	for i := range shown {
		r := &shown[i]
		mostTests = max(mostTests, r.Tests+r.NoResult)
		mostTime = max(mostTime, r.All())
		p.Plain = p.Plain || r.Plain != nil
	}
	for i := range slices.Backward(shown) {
		r := &shown[i]
		row := runRow{RunData: r, Number: p.Matrix.FirstRun + i + 1}
		var tests [numStates]float64
		for s := range numStates {
			tests[s] = float64(*r.fields()[s])
		}
		row.Outcomes = bar(float64(mostTests), tests)
		row.Durations = bar(mostTime, [numStates]float64{Replayed: r.SavedTime, Cached: r.CachedTime, Missed: r.ExecutedTime})
		if len(p.Rows)%rulerStep == 0 {
			p.Ruler += fmt.Sprintf("%-*d", rulerStep, row.Number)
		}
		p.Rows = append(p.Rows, row)
	}
}

// rulerStep is the number of runs between two numbers above the matrix.
const rulerStep = 10

// shortCommit abbreviates a commit.
func shortCommit(commit string) string {
	runes := []rune(commit)
	switch {
	case len(runes) >= 32:
		return string(runes[:8])
	case len(runes) > 10:
		return string(runes[:9]) + "…"
	}
	return commit
}

// count writes 1234567 as 1,234,567.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// durationText writes seconds with two or three digits and a unit.
func durationText(s float64) string {
	switch {
	case s == 0:
		return "0 s"
	case s < 0.9995:
		return strconv.Itoa(int(math.Max(1, math.Round(s*1e3)))) + " ms"
	case s < 99.95:
		return digits(s) + " s"
	case s < 99.5*60:
		return digits(s/60) + " min"
	}
	return digits(s/3600) + " h"
}

func digits(f float64) string {
	if f < 9.95 {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return count(int(math.Round(f)))
}

// percentText writes a share. It doesn't round to 0% or 100% unless the share is exactly that.
func percentText(f *float64) string {
	if f == nil {
		return "–"
	}
	s := strconv.FormatFloat(100**f, 'f', 1, 64)
	switch {
	case *f > 0 && s == "0.0":
		s = "<0.1"
	case *f < 1 && s == "100.0":
		s = ">99.9"
	case *f == 0 || *f == 1:
		s = strings.TrimSuffix(s, ".0")
	}
	return s + "%"
}

// percentOf returns a in percent of b, with two decimals.
func percentOf(a, b float64) float64 { return math.Round(1e4*a/b) / 100 }

func millisText(ms *float64) string {
	if ms == nil {
		return "–"
	}
	return strconv.FormatFloat(*ms, 'f', -1, 64) + " ms"
}
