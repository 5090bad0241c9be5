package history

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
)

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// The box of a plot, in which labels are to the right of Width.
const plotWidth, plotHeight = 640.0, 300.0

// plot is a drawing of sums over revisions, a line for each tool.
type plot struct {
	Title, Unit string
	Lines       []*line
	Grid        []gridLine
}

type line struct {
	Tool, Points, Dash, Sum string
	Color                   template.CSS
	LabelY                  float64
	end                     float64
}

type gridLine struct {
	Y    float64
	Text string
}

// colors tell eight lines apart, also for people who see few (Okabe and Ito); further ones are dashed.
var colors = []template.CSS{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f", "#7f7f7f"}

// Page writes two plots as a page of its own: how many tests each tool has selected, and how long it took to
// decide and to execute, summed up from revision to revision.
func Page(w io.Writer, name string, tools []string, rows []*Row) error {
	selected := newPlot("Tests selected", "tests", tools, rows, func(r *Row, tool string) float64 { return float64(len(r.Selected[tool])) })
	seconds := newPlot("Time to decide, to make what that needs, and to execute", "s", tools, rows, func(r *Row, tool string) float64 {
		return r.Analysis[tool] + r.Collection[tool] + r.Execution[tool]
	})
	return pageTemplate.Execute(w, struct {
		Name          string
		Revisions     int
		First, Last   string
		Width, Height float64
		Plots         []*plot
	}{name, len(rows), short(rows[0].ID), short(rows[len(rows)-1].ID), plotWidth, plotHeight, []*plot{selected, seconds}})
}

func short(id string) string { return id[:min(8, len(id))] }

func newPlot(title, unit string, tools []string, rows []*Row, of func(r *Row, tool string) float64) *plot {
	p := &plot{Title: title, Unit: unit}
	most := 0.0
	sums := make([][]float64, len(tools))
	for i, tool := range tools {
		sum := 0.0
		for _, r := range rows {
			sum += of(r, tool)
			sums[i] = append(sums[i], sum)
		}
		most = max(most, sum)
	}
	y := func(v float64) float64 { return plotHeight - plotHeight*v/max(most, 1e-9) }
	for k := range 5 {
		v := most * float64(k) / 4
		p.Grid = append(p.Grid, gridLine{y(v), fmt.Sprintf("%.4g", v)})
	}
	for i, tool := range tools {
		var points strings.Builder
		for k, v := range sums[i] {
			fmt.Fprintf(&points, "%.1f,%.1f ", plotWidth*float64(k+1)/float64(len(rows)), y(v))
		}
		last := sums[i][len(rows)-1]
		l := &line{Tool: tool, Points: fmt.Sprintf("0,%g %s", plotHeight, strings.TrimSpace(points.String())), Sum: fmt.Sprintf("%.4g", last), Color: colors[i%len(colors)], end: y(last)}
		if i >= len(colors) {
			l.Dash = "5 3"
		}
		p.Lines = append(p.Lines, l)
	}
	// Labels stand beside the ends of lines, and not on each other.
	const space = 15
	order := slices.SortedFunc(slices.Values(p.Lines), func(a, b *line) int { return cmp.Compare(a.end, b.end) })
	at := 0.0
	for i, l := range order {
		l.LabelY = max(l.end, at)
		if left := float64(len(order)-1-i) * space; l.LabelY+left > plotHeight {
			l.LabelY = max(at, plotHeight-left)
		}
		at = l.LabelY + space
	}
	return p
}
