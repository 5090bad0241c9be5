package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
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

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"count":    count,
	"duration": durationText,
	"percent":  percentText,
	"readable": func(id string) string { return explain.Readable(id, false) },
	"millis":   millisText,
	"time":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") },
	"short":    short,
	"share":    func(a, b int) float64 { return round2(100 * float64(a) / float64(max(b, 1))) },
	"verdict":  func(v Verdict) string { return string(v) },
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

// HTML writes d as one page for people, which needs no other file.
func (d *Data) HTML(w io.Writer) error {
	hash := sha256.Sum256([]byte(pageJS))
	p := &page{
		Data:   d,
		Style:  template.CSS(pageCSS),
		Script: template.JS(pageJS),
		// Only this script and this style; nothing is loaded from anywhere.
		Policy: "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-" +
			base64.StdEncoding.EncodeToString(hash[:]) + "'; base-uri 'none'; form-action 'none'",
		Columns: d.Runs[d.Matrix.FirstRun:],
	}
	p.build()
	return pageTemplate.Execute(w, p)
}

// page is what the template shows.
type page struct {
	*Data
	Style    template.CSS
	Script   template.JS
	Policy   string
	Columns  []RunData // runs in pictures
	Newest   *RunData
	Cards    []card
	Notices  []string
	Charts   []*chart // in the section of outcomes
	Latency  *chart
	Matrix   *matrixView
	Rungs    []rungCount
	Tips     tips
	MaxCause int // executions of the first cause
	MaxWhy   int // executions of the first reason
	Several  bool
}

type card struct{ Title, Value, Unit, Note, Class string }

// tips is what the script shows beside the pointer: for each chart a text per
// column, and for the matrix the states of each row.
type tips struct {
	Columns []string            `json:"columns"`
	Charts  map[string][]string `json:"charts"`
	Rows    []string            `json:"rows"`
	Labels  []string            `json:"labels"`
	States  map[string]string   `json:"states"`
}

// chart is a drawing whose x axis are the runs. Shapes are in a box of Width by
// 100, which is stretched to the size that the page gives it.
type chart struct {
	ID, Title, About string
	Width            int
	Shapes           []shape
	X, Y             []tick
	Legend           []key
	// Empty says why there is nothing to draw.
	Empty string
}

type shape struct{ Class, D string }

type tick struct {
	At    float64 // percent of the axis
	Text  string
	Sub   string
	Minor bool // may be left out in a narrow window
}

type key struct{ Class, Name string }

type rungCount struct {
	Rung    string
	Sources int
}

type matrixView struct {
	Width, Height int
	Shapes        []shape
	Strip         string // path of the share of executed tests
	X             []tick
	Legend        []key
	Labels        []rowLabel
	Tall          bool
}

type rowLabel struct{ Package, Name string }

func (p *page) build() {
	p.Several = len(p.Totals.Workspaces) > 1
	if n := len(p.Runs); n > 0 {
		p.Newest = &p.Runs[n-1]
	}
	p.Tips = tips{Columns: []string{}, Charts: map[string][]string{}, Rows: []string{}, Labels: []string{}, States: map[string]string{}}
	for i := range p.Columns {
		p.Tips.Columns = append(p.Tips.Columns, runTitle(&p.Columns[i]))
	}
	p.notices()
	if len(p.Runs) == 0 {
		return
	}
	p.cards()
	p.Charts = []*chart{p.verdicts(), p.times(), p.ratios()}
	if c := p.costs(); c != nil {
		p.Charts = append(p.Charts, c)
	}
	p.Latency = p.latency()
	p.Matrix = p.matrix()
	if len(p.Components) > 0 {
		p.MaxCause = p.Components[0].Executions
	}
	if len(p.Reasons) > 0 {
		p.MaxWhy = p.Reasons[0].Executions
	}
	for _, f := range p.Fallbacks {
		if !f.InUse {
			continue
		}
		i := slices.IndexFunc(p.Rungs, func(r rungCount) bool { return r.Rung == f.Rung })
		if i < 0 {
			i = len(p.Rungs)
			p.Rungs = append(p.Rungs, rungCount{Rung: f.Rung})
		}
		p.Rungs[i].Sources++
	}
}

func (p *page) cards() {
	t, n := &p.Totals, p.Newest
	avoided := card{Title: "Executions avoided", Value: "–", Note: "no test had a result"}
	if t.Avoided != nil {
		avoided.Value, avoided.Unit = percent(*t.Avoided)
		avoided.Note = fmt.Sprintf("%s of %s test results were replayed", count(t.Replayed), count(t.Tests))
		if t.ByTrace > 0 {
			avoided.Note += fmt.Sprintf(", %s of them by traces", count(t.ByTrace))
		}
	}
	saved := card{Title: "Test time saved", Note: "no durations are recorded"}
	saved.Value, saved.Unit = splitUnit(durationText(t.SavedTime))
	if t.SavedShare != nil {
		saved.Note = fmt.Sprintf("%s of the %s that executing everything takes", percentText(t.SavedShare), durationText(t.All()))
	}
	if t.DecidingTime > 0 {
		saved.Note += fmt.Sprintf("; deciding took %s, %s of CPU time", durationText(t.DecidingTime), durationText(t.AnalysisTime))
	}
	hit := card{Title: "Hit ratio", Value: "–", Note: "no test had a fingerprint"}
	if t.HitRatio != nil {
		hit.Value, hit.Unit = percent(*t.HitRatio)
		hit.Note = "newest run: no test with a fingerprint"
		if n.HitRatio != nil {
			hit.Note = fmt.Sprintf("newest run: %s", percentText(n.HitRatio))
		}
	}
	last := card{Title: "Newest run", Value: count(n.Executed()), Unit: "executed", Note: fmt.Sprintf("of %s tests", count(n.Tests))}
	if n.Failed > 0 {
		last.Note += fmt.Sprintf(", %s failed", count(n.Failed))
		last.Class = "bad"
	} else if n.NoResult == 0 {
		last.Note += ", none failed"
	}
	if n.NoResult > 0 {
		last.Note += fmt.Sprintf(", %s without a result", count(n.NoResult))
	}
	p.Cards = []card{avoided, saved, hit, last}
}

func (p *page) notices() {
	t := &p.Totals
	if n := len(p.Damaged) + p.DamagedOmitted; n > 0 {
		p.Notices = append(p.Notices, fmt.Sprintf("%s could not be read and %s not counted: see the end of this page.", plural(n, "file", "files"), isAre(n)))
	}
	if t.Duplicates > 0 {
		p.Notices = append(p.Notices, fmt.Sprintf("%s read twice and counted once.", plural(t.Duplicates, "run was", "runs were")))
	}
	if p.Newest != nil && p.Newest.Store.Errors > 0 {
		p.Notices = append(p.Notices, fmt.Sprintf("In the newest run the store did not answer %s.", plural(p.Newest.Store.Errors, "look-up", "look-ups")))
	}
}

// verdicts shows how many tests had which outcome.
func (p *page) verdicts() *chart {
	c := p.newChart("verdicts", "Tests by outcome", "Number of tests in each run, by what was done with them.")
	var parts [][]float64
	var texts []string
	for i := range p.Columns {
		r := &p.Columns[i]
		by := r.byState()
		var part []float64
		text := plural(r.Tests, "test", "tests")
		for _, s := range stateOrder {
			part = append(part, float64(by[s]))
			if by[s] > 0 {
				text += "\n" + stateInfo[s].name + ": " + count(by[s])
			}
		}
		parts = append(parts, part)
		texts = append(texts, text)
	}
	var keys []key
	for _, s := range stateOrder {
		keys = append(keys, stateKey(s))
	}
	c.bars(parts, keys, 1, func(v float64) string { return count(int(v)) })
	if c.Empty != "" {
		c.Empty = "No run has a test."
	}
	p.Tips.Charts[c.ID] = texts
	return c
}

// stateOrder is that of stacked bars, from the bottom up, and of legends.
var stateOrder = []State{Replayed, Cached, Missed, AuditedHit, Always, Foreign, Failed, Absent}

func stateKey(s State) key {
	letter := string(stateInfo[s].letter)
	if s == Absent {
		letter = "n"
	}
	return key{"s-" + letter, stateInfo[s].name}
}

// times shows what was executed and what was saved.
func (p *page) times() *chart {
	c := p.newChart("times", "Test time, executed and saved", "Sum of the durations of single tests in each run. Saved is what the recorded executions of replayed tests took.")
	var parts [][]float64
	var texts []string
	most := 0.0
	for i := range p.Columns {
		r := &p.Columns[i]
		parts = append(parts, []float64{r.SavedTime, r.CachedTime, r.ExecutedTime})
		most = max(most, r.All())
		text := "executed: " + durationText(r.ExecutedTime) + "\nsaved by replaying: " + durationText(r.SavedTime)
		if r.CachedTime > 0 {
			text += "\nsaved by Bazel's own cache: " + durationText(r.CachedTime)
		}
		texts = append(texts, text)
	}
	unit, name := 1.0, "s"
	switch {
	case most >= 2*3600:
		unit, name = 3600, "h"
	case most >= 120:
		unit, name = 60, "min"
	}
	c.bars(parts, []key{{"s-r", "saved by replaying"}, {"s-c", "saved by Bazel's own cache"}, {"s-m", "executed"}}, unit,
		func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) + " " + name })
	if c.Empty != "" {
		c.Empty = "No run has the duration of a test."
	}
	p.Tips.Charts[c.ID] = texts
	return c
}

// ratios shows the hit ratio over time.
func (p *page) ratios() *chart {
	c := p.newChart("ratios", "Hit ratio", "Hits over hits and misses, and the share of all results that needed no execution: replayed, or cached by Bazel.")
	hits, avoided := make([]*float64, len(p.Columns)), make([]*float64, len(p.Columns))
	var texts []string
	for i := range p.Columns {
		r := &p.Columns[i]
		hits[i] = r.HitRatio
		avoided[i] = ratio(float64(r.Replayed+r.Counts.Cached), float64(r.Tests))
		texts = append(texts, "hit ratio: "+percentText(hits[i])+"\nnot executed: "+percentText(avoided[i]))
	}
	p.Tips.Charts[c.ID] = texts
	drawn := c.line("l-2", avoided, 1)
	if c.line("l-1", hits, 1) || drawn {
		for i := range 5 {
			c.Y = append(c.Y, tick{At: float64(25 * i), Text: strconv.Itoa(25*i) + "%"})
		}
		c.Legend = []key{{"l-1", "hit ratio"}, {"l-2", "not executed, of all tests"}}
	} else {
		c.Empty = "No test had a fingerprint or a result."
	}
	return c
}

// costs shows what runs cost beside plain "bazel test", or, if nobody has tried
// that, what deciding cost beside what it saved. It is nil if nothing is known.
func (p *page) costs() *chart {
	ours, plain := make([]*float64, len(p.Columns)), make([]*float64, len(p.Columns))
	deciding, saved := make([]*float64, len(p.Columns)), make([]*float64, len(p.Columns))
	var texts []string
	most, mostDeciding, known := 0.0, 0.0, false
	for i := range p.Columns {
		r := &p.Columns[i]
		var text []string
		if c := r.Cost; c != nil {
			deciding[i], saved[i], known = &c.DecidingSeconds, &r.SavedTime, true
			mostDeciding = max(mostDeciding, c.DecidingSeconds, r.SavedTime)
			text = append(text, "deciding: "+durationText(c.DecidingSeconds)+", "+durationText(c.AnalysisCPUSeconds)+" of CPU time", "saved by replaying: "+durationText(r.SavedTime))
			if r.Plain != nil {
				ours[i], plain[i] = &c.CPUSeconds, &r.Plain.CPUSeconds
				most = max(most, c.CPUSeconds, r.Plain.CPUSeconds)
				text = append([]string{"CPU time: " + durationText(c.CPUSeconds), "plain bazel test: " + durationText(r.Plain.CPUSeconds)}, text...)
			}
		}
		texts = append(texts, strings.Join(text, "\n"))
	}
	if !known {
		return nil
	}
	c := p.newChart("costs", "Deciding, and what it saved", "Wall time until Bazel was told which tests to run, compilations for that included, and the durations of the replayed tests.")
	first, second, names := deciding, saved, [2]string{"deciding", "saved by replaying"}
	if most > 0 {
		c = p.newChart("costs", "CPU time, beside plain bazel test", "Of Bazel's server and all that it starts, one after the other on the same machine.")
		first, second, names = ours, plain, [2]string{"tasting test", "bazel test"}
		mostDeciding = most
	}
	p.Tips.Charts[c.ID] = texts
	step, top := axis(mostDeciding)
	c.line("l-2", second, top)
	c.line("l-1", first, top)
	c.yTicks(step, top, func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) + " s" })
	c.Legend = []key{{"l-1", names[0]}, {"l-2", names[1]}}
	return c
}

// latency shows the mean time of a look-up.
func (p *page) latency() *chart {
	c := p.newChart("latency", "Time of a look-up", "Wall time of all look-ups of a run, divided by their number, in milliseconds. Marked runs met damaged entries or errors of the store.")
	values := make([]*float64, len(p.Columns))
	var texts []string
	most := 0.0
	for i := range p.Columns {
		r := &p.Columns[i]
		values[i] = r.LookupMilliseconds
		if values[i] != nil {
			most = max(most, *values[i])
		}
		text := plural(r.Store.Lookups, "look-up", "look-ups") + ", " + millisText(values[i]) + " each"
		if r.Store.Damaged > 0 {
			text += "\ndamaged entries: " + count(r.Store.Damaged)
		}
		if r.Store.Errors > 0 {
			text += "\nerrors: " + count(r.Store.Errors)
		}
		texts = append(texts, text)
	}
	p.Tips.Charts[c.ID] = texts
	step, top := axis(most)
	if !c.line("l-1", values, top) {
		c.Empty = "No run has looked up anything."
		return c
	}
	c.yTicks(step, top, func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) + " ms" })
	var marks path
	for i := range p.Columns {
		if s := &p.Columns[i].Store; s.Damaged+s.Errors > 0 {
			marks.rect(float64(i), 0, 1, 100)
		}
	}
	if len(marks) > 0 {
		c.Shapes = append([]shape{{"mark", string(marks)}}, c.Shapes...)
		c.Legend = []key{{"l-1", "milliseconds per look-up"}, {"mark", "damaged entries or errors"}}
	}
	return c
}

func (p *page) newChart(id, title, about string) *chart {
	return &chart{ID: id, Title: title, About: about, Width: len(p.Columns), X: p.xTicks()}
}

// xTicks labels up to eight runs.
func (p *page) xTicks() []tick {
	n := len(p.Columns)
	layout := "2 Jan"
	first, last := p.Columns[0].Start, p.Columns[n-1].Start
	switch d := last.Sub(first); {
	case d > 300*24*time.Hour:
		layout = "Jan 2006"
	case d < 36*time.Hour:
		layout = "15:04"
	}
	step := (n + 7) / 8
	var ticks []tick
	for i := step / 2; i < n; i += step {
		r := &p.Columns[i]
		at := round2(100 * (float64(i) + 0.5) / float64(n))
		ticks = append(ticks, tick{At: at, Text: r.Start.UTC().Format(layout), Sub: short(r.Commit), Minor: n > 3 && (len(ticks)%3 != 1 || at > 85)})
	}
	return ticks
}

// bars stacks parts, one list per column with a number per key.
func (c *chart) bars(parts [][]float64, keys []key, unit float64, label func(float64) string) {
	most := 0.0
	for _, part := range parts {
		sum := 0.0
		for _, v := range part {
			sum += v / unit
		}
		most = max(most, sum)
	}
	if most == 0 {
		c.Empty = "Nothing to show."
		return
	}
	step, top := axis(most)
	if unit == 1 && most == math.Trunc(most) && step < 1 {
		step, top = 1, math.Ceil(most)
	}
	// A few bars must not look like walls.
	width := min(0.82, float64(len(parts))/14)
	if len(parts) > 120 {
		width = 1
	}
	base := make([]float64, len(parts))
	for k := range keys {
		var d path
		for i, part := range parts {
			if h := 100 * part[k] / unit / top; h > 0 {
				d.rect(float64(i)+(1-width)/2, 100-base[i]-h, width, h)
				base[i] += h
			}
		}
		if len(d) > 0 {
			c.Shapes = append(c.Shapes, shape{keys[k].Class, string(d)})
			c.Legend = append(c.Legend, keys[k])
		}
	}
	c.yTicks(step, top, label)
}

// line draws values from 0 to top; where there is none it is broken. It tells
// whether there is any.
func (c *chart) line(class string, values []*float64, top float64) bool {
	var d, dots path
	for i, v := range values {
		if v == nil {
			continue
		}
		x, y := float64(i)+0.5, 100-100**v/top
		op := byte('L')
		if i == 0 || values[i-1] == nil {
			op = 'M'
		}
		d.point(op, x, y)
		alone := op == 'M' && (i+1 == len(values) || values[i+1] == nil)
		if alone || len(values) <= 60 {
			// A line without length is drawn as a round dot.
			dots.point('M', x, y)
			dots = append(dots, "h0"...)
		}
	}
	if len(d) == 0 {
		return false
	}
	c.Shapes = append(c.Shapes, shape{class, string(d)})
	if len(dots) > 0 {
		c.Shapes = append(c.Shapes, shape{class + " dots", string(dots)})
	}
	return true
}

func (c *chart) yTicks(step, top float64, label func(float64) string) {
	for i := 0; float64(i)*step <= top*1.0001; i++ {
		v := float64(i) * step
		c.Y = append(c.Y, tick{At: round2(100 * v / top), Text: label(math.Round(v*1e6) / 1e6)})
	}
}

// axis returns the distance of ticks, of which there are three to six, and the
// end of an axis on which most fits.
func axis(most float64) (step, top float64) {
	if most <= 0 {
		return 1, 1
	}
	step = math.Pow(10, math.Floor(math.Log10(most)))
	for _, f := range []float64{0.2, 0.5, 1, 2} {
		if most/(step*f) <= 5 {
			step *= f
			break
		}
	}
	return step, step * math.Ceil(most/step-1e-9)
}

// matrix draws the execution matrix.
func (p *page) matrix() *matrixView {
	m := &p.Data.Matrix
	if len(m.Rows) == 0 {
		return nil
	}
	v := &matrixView{Width: m.Columns, Height: len(m.Rows), X: p.xTicks(), Tall: len(m.Rows) <= 40}
	var byState [numStates]path
	// Gaps between columns, as far as they can be seen.
	gap := 0.0
	if m.Columns <= 60 {
		gap = 0.06
	}
	for i, row := range m.Rows {
		for _, s := range row.runs {
			if s.state == Absent {
				continue
			}
			if gap == 0 {
				byState[s.state].rect(float64(s.start), float64(i)+0.06, float64(s.n), 0.88)
				continue
			}
			for j := range s.n {
				byState[s.state].rect(float64(s.start+j)+gap/2, float64(i)+0.06, 1-gap, 0.88)
			}
		}
		p.Tips.Rows = append(p.Tips.Rows, row.States)
		label := row.Label
		if p.Several {
			label = row.Workspace + " " + label
		}
		p.Tips.Labels = append(p.Tips.Labels, label)
		pkg, name := label, ""
		if j := strings.LastIndexByte(label, ':'); j >= 0 {
			pkg, name = label[:j], label[j:]
		}
		v.Labels = append(v.Labels, rowLabel{pkg, name})
	}
	for _, s := range stateOrder {
		p.Tips.States[string(stateInfo[s].letter)] = stateInfo[s].name
		if len(byState[s]) > 0 {
			k := stateKey(s)
			v.Shapes = append(v.Shapes, shape{k.Class, string(byState[s])})
			v.Legend = append(v.Legend, k)
		}
	}
	var strip path
	for i, e := range m.Executed {
		if e != nil && *e > 0 {
			strip.rect(float64(i)+gap/2, 100-100**e, 1-gap, 100**e)
		}
	}
	v.Strip = string(strip)
	return v
}

// path is the text of an SVG path.
type path []byte

func (p *path) number(f float64) { *p = strconv.AppendFloat(*p, round2(f), 'f', -1, 64) }

func (p *path) point(op byte, x, y float64) {
	*p = append(*p, op)
	p.number(x)
	*p = append(*p, ' ')
	p.number(y)
}

func (p *path) rect(x, y, w, h float64) {
	// Both ends are rounded, so that neighbours meet.
	x1, y1 := round2(x+w), round2(y+h)
	x, y = round2(x), round2(y)
	p.point('M', x, y)
	*p = append(*p, 'H')
	p.number(x1)
	*p = append(*p, 'V')
	p.number(y1)
	*p = append(*p, 'H')
	p.number(x)
	*p = append(*p, 'z')
}

func round2(f float64) float64 { return math.Round(f*100) / 100 }

func runTitle(r *RunData) string {
	s := r.Start.UTC().Format("2006-01-02 15:04") + " UTC"
	for _, x := range []string{r.Branch, short(r.Commit)} {
		if x != "" {
			s += " · " + x
		}
	}
	return s
}

// short cuts a commit to what people compare.
func short(commit string) string {
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

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
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

func splitUnit(s string) (value, unit string) {
	value, unit, _ = strings.Cut(s, " ")
	return value, unit
}

// percent doesn't round to 0 or 100 what isn't.
func percent(f float64) (value, unit string) {
	s := strconv.FormatFloat(100*f, 'f', 1, 64)
	switch {
	case f > 0 && s == "0.0":
		s = "<0.1"
	case f < 1 && s == "100.0":
		s = ">99.9"
	case f == 0 || f == 1:
		s = strings.TrimSuffix(s, ".0")
	}
	return s, "%"
}

func percentText(f *float64) string {
	if f == nil {
		return "–"
	}
	s, unit := percent(*f)
	return s + unit
}

func millisText(ms *float64) string {
	if ms == nil {
		return "–"
	}
	return strconv.FormatFloat(*ms, 'f', -1, 64) + " ms"
}
