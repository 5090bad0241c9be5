package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve"
	"github.com/spf13/pflag"
)

// Replay runs recorded revisions through tools that select tests.
type Replay struct {
	state
	builder *evolve.Builder
	blobs   map[string][]byte
}

// NewReplay returns one for the revisions in a directory. What is composed is kept in another one.
func NewReplay(dir, composed string) *Replay {
	return &Replay{state{dir}, &evolve.Builder{Dir: composed}, map[string][]byte{}}
}

// Run runs revisions through tools. The first revision comes twice: a tool must select nothing the second time.
func (p *Replay) Run(ctx context.Context, name, mode string, revisions []*Revision, makeTools func(evolve.Passes) []evolve.Tool) (*evolve.Trace, error) {
	program := &evolve.Program{Name: name, Mode: mode}
	var built []map[string]*evolve.Built
	for i, x := range revisions {
		r, tests, err := p.built(x)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.ID, err)
		}
		program.Revisions, built = append(program.Revisions, r), append(built, tests)
		if i == 0 {
			program.Revisions, built = append(program.Revisions, r), append(built, tests)
		}
	}
	t, err := evolve.Go(ctx, program, built, makeTools)
	if err == nil {
		addReal(t, revisions)
	}
	return t, err
}

// built returns a revision as tools see it.
func (p *Replay) built(x *Revision) (*evolve.Revision, map[string]*evolve.Built, error) {
	r := &evolve.Revision{Files: map[string]string{}}
	for _, f := range x.Files {
		r.Files[f.Path] = f.Sum
	}
	units := make([]*evolve.Unit, len(x.Units))
	for i, u := range x.Units {
		unit := &evolve.Unit{Source: strings.ReplaceAll(u.Source, " ", "\u00a0"), Object: u.Manifest + " " + u.BySource, Sum: u.Sum}
		for _, k := range u.Reads {
			unit.Reads = append(unit.Reads, x.Files[k].Path)
		}
		var err error
		if unit.Manifest, err = p.blob(u.Manifest); err == nil && u.BySource != "" {
			unit.BySource, err = p.blob(u.BySource)
		}
		if err != nil {
			return nil, nil, err
		}
		units[i] = unit
	}
	files := make([]*evolve.File, len(x.Links))
	for i, l := range x.Links {
		files[i] = &evolve.File{Name: l.Output, Kind: l.Kind}
		for _, k := range l.Units {
			files[i].Units = append(files[i].Units, units[k])
		}
	}
	tests := map[string]*evolve.Built{}
	for i := range x.Tests {
		t := &x.Tests[i]
		test := &evolve.Test{Name: t.Label, Args: t.Args}
		for _, k := range t.Data {
			test.Data = append(test.Data, x.Files[k].Path)
		}
		r.Tests = append(r.Tests, *test)
		o := &evolve.Outcome{Built: t.built(), Status: t.Status}
		if t.passed() {
			o.Status = "exit status 0"
		}
		var err error
		if !t.built() {
			err = errors.New(t.Status)
		}
		var linked []*evolve.File
		of := map[string]*evolve.Unit{}
		for _, k := range t.Links {
			linked = append(linked, files[k])
			for n, u := range x.Links[k].Units {
				of[x.Units[u].Path] = files[k].Units[n]
			}
		}
		tests[t.Label] = p.builder.NewRecorded(test, r, linked, err, &evolve.Recorded{
			Inputs: t.Inputs, Graph: t.Graph, Outcome: o, Took: time.Duration(t.Seconds * float64(time.Second)),
			Env:     []string{"description " + t.Description},
			Compose: p.compose(t, of),
			Traced:  func() (*trace.Result, error) { return p.traced(t) },
		})
	}
	return r, tests, nil
}

// traced returns what is known of the trace of a test.
func (p *Replay) traced(t *Test) (*trace.Result, error) {
	if t.Idle == "" {
		return nil, nil
	}
	b, err := p.blob(t.Idle)
	if err != nil {
		return nil, err
	}
	idle, _, err := trace.DecodeIdle(b)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): delete %s, and all is recorded again", t.Idle, err, p.dir)
	}
	return &trace.Result{Trace: new(trace.Trace), Idle: idle}, nil
}

func (p *Replay) blob(name string) ([]byte, error) {
	if b, ok := p.blobs[name]; ok {
		return b, nil
	}
	b, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		return nil, fmt.Errorf("the record isn't complete (%w): delete %s, and all is recorded again", err, p.dir)
	}
	p.blobs[name] = b
	return b, nil
}

// compose returns what is composed for a test, whose units are given by their paths.
func (p *Replay) compose(t *Test, units map[string]*evolve.Unit) func(*evolve.Evidence, func(*evolve.Unit, []byte) (string, error)) (*fingerprint.Test, error) {
	return func(e *evolve.Evidence, file func(*evolve.Unit, []byte) (string, error)) (*fingerprint.Test, error) {
		args, err := p.blob(t.Compose)
		if err != nil {
			return nil, err
		}
		x := &fingerprint.Test{Source: e.Source}
		flags := pflag.NewFlagSet("compose", pflag.ContinueOnError)
		finish := x.AddFlags(flags)
		if err := flags.Parse(strings.Split(string(args), "\n")); err != nil {
			return nil, err
		}
		x.Source = e.Source
		if err := finish(p.dir); err != nil {
			return nil, err
		}
		if e.Of == nil {
			return x, nil
		}
		for i, name := range x.Links {
			if x.Links[i], err = p.rewritten(name, units, file); err != nil {
				return nil, err
			}
		}
		return x, nil
	}
}

// rewritten returns a link file that names other manifests.
func (p *Replay) rewritten(name string, units map[string]*evolve.Unit, file func(*evolve.Unit, []byte) (string, error)) (string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		word, rest, _ := strings.Cut(line, " ")
		if word != "unit" && word != "source" {
			continue
		}
		path, _, _ := strings.Cut(rest, "\t")
		u := units[path]
		manifest := u.Manifest
		if word == "source" {
			manifest = u.BySource
		}
		m, err := file(u, manifest)
		if err != nil {
			return "", err
		}
		lines[i] = word + " " + path + "\t" + m
	}
	return p.builder.File("link", strings.Join(lines, "\n"))
}

// Row is what tools have done in one revision: a line of the execution matrix.
type Row struct {
	ID      string
	Subject string
	// Tests are all, with their status, Seconds what each takes, Differs those whose status is another
	// one than in the revision before.
	Tests   map[string]string
	Seconds map[string]float64
	Differs []string `json:",omitempty"`
	// Selected are the tests that each tool has selected, Analysis how long that took it, Collection
	// how long it took to make what it is decided from beside what a build leaves anyway, and Execution
	// how long what it has selected took: all in seconds.
	Selected                        map[string][]string
	Analysis, Collection, Execution map[string]float64
	Build                           float64
	// Changed reports whether anything has changed for any test, by the build graph and all files.
	Changed bool
}

// AllBySource reports whether all that is linked has a manifest of its source.
func (r *Revision) AllBySource() bool {
	return !slices.ContainsFunc(r.Units, func(u Unit) bool { return u.BySource == "" })
}

// Collection returns the seconds that it takes to make what a tool needs beside a build, by the name of the tool.
type Collection func(tool string, r *Revision) float64

// Rows returns the rows of all revisions but the first. Tools are in the order of the trace.
func Rows(t *evolve.Trace, revisions []*Revision, collection Collection) (rows []*Row) {
	for i := 1; i < len(revisions); i++ {
		x, k := revisions[i], i+1 // the first comes twice
		row := &Row{
			ID: x.ID, Subject: x.Subject, Build: x.Build, Tests: map[string]string{}, Seconds: map[string]float64{},
			Selected: map[string][]string{}, Analysis: map[string]float64{}, Collection: map[string]float64{}, Execution: map[string]float64{},
		}
		for _, test := range x.Tests {
			row.Tests[test.Label], row.Seconds[test.Label] = test.Status, test.Seconds
			if before := t.Outcomes[k-1][test.Label]; before == nil || !before.Same(t.Outcomes[k][test.Label]) {
				row.Differs = append(row.Differs, test.Label)
			}
		}
		for _, tool := range t.Tools {
			r := t.Results[tool][k]
			row.Selected[tool] = r.Selected
			row.Analysis[tool], row.Execution[tool] = r.Analysis.Seconds(), r.Execution.Seconds()
			row.Collection[tool] = collection(tool, x)
		}
		row.Changed = !maps.Equal(graphs(revisions[i-1]), graphs(x))
		rows = append(rows, row)
	}
	return rows
}

// graphs returns the hashes of the build graph below each test.
func graphs(r *Revision) map[string]string {
	m := map[string]string{}
	for _, t := range r.Tests {
		m[t.Label] = t.Graph
	}
	return m
}

// Totals are sums over revisions.
type Totals struct {
	Revisions, Tests, Selected      int
	Analysis, Collection, Execution float64
	// Ratio is the mean of the ratios of the revisions, as HyRTS has it, AE and AEC those of times to
	// that of all tests.
	Ratio, AE, AEC float64
}

// Sum sums up what a tool has done. Of nothing but changes are those revisions where anything has
// changed for a test.
func Sum(rows []*Row, tool string, onlyChanged bool) (s Totals) {
	for _, r := range rows {
		if onlyChanged && !r.Changed || len(r.Tests) == 0 {
			continue
		}
		s.Revisions++
		s.Tests += len(r.Tests)
		s.Selected += len(r.Selected[tool])
		s.Analysis += r.Analysis[tool]
		s.Collection += r.Collection[tool]
		s.Execution += r.Execution[tool]
		s.Ratio += float64(len(r.Selected[tool])) / float64(len(r.Tests))
		all := 0.0
		for _, x := range r.Seconds {
			all += x
		}
		if all > 0 {
			s.AE += (r.Analysis[tool] + r.Execution[tool]) / all
			s.AEC += (r.Analysis[tool] + r.Collection[tool] + r.Execution[tool]) / all
		}
	}
	n := float64(max(s.Revisions, 1))
	s.Ratio, s.AE, s.AEC = s.Ratio/n, s.AE/n, s.AEC/n
	return s
}

// Text writes a row for each revision, with how many tests each tool has selected, and sums.
func Text(w io.Writer, tools []string, rows []*Row) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "revision\ttests\tdiffer\t%s\t  \n", strings.Join(tools, "\t"))
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d\t%d\t", short(r.ID), len(r.Tests), len(r.Differs))
		for _, tool := range tools {
			fmt.Fprintf(t, "%d\t", len(r.Selected[tool]))
		}
		fmt.Fprintf(t, "  %s\n", subject(r))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, only := range []bool{false, true} {
		title := "all revisions"
		if only {
			title = "revisions where a file or rule below some test has changed"
		}
		all := Sum(rows, "", only)
		fmt.Fprintf(w, "\n%s: %d, with %d tests\n", title, all.Revisions, all.Tests)
		t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "tool\tselected\t%\tmean %\tanalysis s\texecution s\tcollection s\tAE %\tAEC %\t")
		for _, tool := range tools {
			s := Sum(rows, tool, only)
			fmt.Fprintf(t, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.1f\t%.1f\t\n", tool, s.Selected, 100*float64(s.Selected)/float64(max(s.Tests, 1)), 100*s.Ratio, s.Analysis, s.Execution, s.Collection, 100*s.AE, 100*s.AEC)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func subject(r *Row) string {
	if len(r.Subject) > 40 {
		return r.Subject[:40]
	}
	return r.Subject
}

// WriteMatrix writes a line of JSON for each row.
func WriteMatrix(w io.Writer, rows []*Row) error {
	e := json.NewEncoder(w)
	for _, r := range rows {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// Testable splits off revisions of which nothing was tested: who selects tests has nothing to select. They
// are left out.
func Testable(revisions []*Revision) (built, left []*Revision) {
	for _, r := range revisions {
		if r.Unbuilt == "" {
			built = append(built, r)
		} else {
			left = append(left, r)
		}
	}
	return slices.Clip(built), left
}
