// Package evaluate is `tasting evaluate`: what would tasting have saved on a
// repository?
//
// # How
//
// It goes through commits of a git repository. At each commit it runs the tests
// with plain `bazel test` and with `tasting test`, one side after the other. The
// first side alternates. Each side has a work tree, an output base and, on request,
// a disk cache of its own, so that neither profits from the other. All of them are
// in a directory of the evaluation: the user's checkout, builds and store are never
// touched.
//
// For each side it counts tests that were executed or replayed, and actions that
// compiled, linked or analysed. It measures wall time, and the CPU time of Bazel's
// server with everything that it starts (package cputime). Plain Bazel is also the
// reference for results: a change was missed if tasting replays a test as passed
// that doesn't pass with plain Bazel.
//
// The evaluation also counts objects that differ from the commit before: only the
// compilations of the others could be saved.
//
// It appends a line for each commit to a file as soon as both sides are done. A
// stopped evaluation goes on after the last line.
package evaluate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
)

// Options of Run. Those that JSON has are a part of the plan.
type Options struct {
	// Dir is a directory in the workspace, which is in a git repository.
	Dir string `json:"-"`
	// Commits is a comma-separated list of commits and ranges A..B. A range is A and
	// the first parents of B after it.
	Commits string `json:"-"`
	// Every keeps only each Nth commit of a range, its first and its last.
	Every int `json:"-"`
	// State is the directory of the evaluation.
	State string `json:"-"`
	// Prepare is a shell command that is run in each work tree after each checkout,
	// or empty. TASTING_SIDE is the name of the tree's side.
	Prepare string
	// DiskCache gives each side a disk cache.
	DiskCache bool
	// Fresh removes Bazel's outputs after each commit, so that each starts as on a new machine.
	Fresh bool
	// Traces adds a side: tasting test with --traces=on, and with --cases if there is Cases.
	Traces bool
	// Cases adds a side: tasting test with --cases.
	Cases bool `json:",omitzero"`
	// Verify executes replayed tests with plain Bazel.
	Verify bool

	// Bazel is the path or name of Bazel, Startup are options for it.
	Bazel   string
	Startup []string
	// Tasting is this program, TestFlags are flags for its command "test".
	Tasting   string `json:"-"`
	TestFlags []string
	// Args are flags of bazel test and target patterns.
	Args []string

	Out, Err io.Writer `json:"-"`
}

// Format is the version of the lines of commits.jsonl.
const Format = 1

// Commit is a line of commits.jsonl: the results of all sides at one commit.
type Commit struct {
	Format  int    `json:"format"`
	Commit  string `json:"commit"`
	Subject string `json:"subject"`
	// First is the side that ran first.
	First string `json:"first"`
	// Cold is true for the first commit: nothing had been built before.
	Cold bool `json:"cold,omitzero"`
	// Resumed is true for the first commit after a stop: servers were started anew,
	// and parts of the commit may have been built already. It is in no sum.
	Resumed bool `json:"resumed,omitzero"`
	// Unbuilt is true if plain Bazel couldn't build everything, or found no tests.
	Unbuilt bool `json:"unbuilt,omitzero"`
	Plain   Side `json:"plain"`
	Tasting Side `json:"tasting"`
	// Traces is tasting test with traces; nil without Options.Traces.
	Traces *Side `json:"traces,omitempty"`
	// Cases is tasting test with cases; nil without Options.Cases.
	Cases *Side `json:"cases,omitempty"`
	// Objects counts the object files of plain Bazel, Different those that are new or
	// differ from the commit before.
	Objects   int `json:"objects"`
	Different int `json:"objects_different"`
	// Missed are replayed tests that don't pass with plain Bazel. The name of a side other than tasting test
	// follows after a space.
	Missed []string `json:"missed,omitempty"`
	// More are the tests that only tasting test executed, if it executed more tests than plain Bazel.
	More []string `json:"more,omitempty"`
	// Verified is the number of replayed tests that plain Bazel executed at this
	// commit, by itself or for Options.Verify.
	Verified int `json:"verified"`
}

// Side is the result of one way to run the tests. Times are in seconds.
type Side struct {
	// Exit is the exit code, as of bazel test.
	Exit int `json:"exit"`
	// Tests counts tests with a result, by what was done with them.
	Tests    int `json:"tests"`
	Executed int `json:"executed"`
	Replayed int `json:"replayed,omitzero"`
	ByTrace  int `json:"by_trace,omitzero"` // of Replayed
	// Of the tests that tasting test decided by their cases: test cases that were executed and that were replayed.
	CasesExecuted int `json:"cases_executed,omitzero"`
	CasesReplayed int `json:"cases_replayed,omitzero"`
	Cached        int `json:"cached"`
	// Failed counts tests that are in one of the numbers above, or weren't built.
	Failed int `json:"failed"`
	// Compiled, Linked and Analysed count actions that were executed, not taken from a
	// cache: compilations, links, and those of tasting's aspect.
	Compiled int     `json:"compiled"`
	Linked   int     `json:"linked"`
	Analysed int     `json:"analysed,omitzero"`
	Wall     float64 `json:"wall"`
	CPU      float64 `json:"cpu"`
	// Deciding is the wall time until tasting knew which tests to run.
	Deciding float64 `json:"deciding,omitzero"`
}

// Names of sides.
const (
	plain   = "plain"
	tasting = "tasting"
	traces  = "traces"
	byCases = "cases"
)

// evaluation is one call of Run.
type evaluation struct {
	*Options
	git     *Repository
	plan    plan
	flags   bazel.Flags
	sides   map[string]*side
	objects objects
	all     []Commit
}

// plan identifies what an evaluation measures. A stopped evaluation goes on only with an equal plan.
type plan struct {
	Format     int
	Repository string
	Commits    []string // in the place of those of Options
	*Options
}

// sideNames returns the names of the sides of an evaluation.
func (o *Options) sideNames() []string {
	names := []string{plain, tasting}
	if o.Traces {
		names = append(names, traces)
	}
	if o.Cases {
		names = append(names, byCases)
	}
	return names
}

// Run evaluates. It returns ErrMissed if it reached the end and a change was
// missed. Every other error ends it early; lines that were written stay.
func Run(ctx context.Context, o *Options) (err error) {
	e := &evaluation{Options: o}
	if e.git, err = Open(ctx, o.Dir); err != nil {
		return err
	}
	commits, err := e.git.List(ctx, o.Commits, o.Every)
	if err != nil {
		return err
	}
	e.plan = plan{Format, e.git.Top, commits, o}
	if err := e.resume(); err != nil {
		return err
	}
	if e.flags, err = (&bazel.Bazel{Program: o.Bazel, Dir: o.Dir, Startup: o.Startup, Cache: o.State}).Flags(ctx); err != nil {
		return err
	}
	e.objects = readObjects(e.objectsFile())
	e.sides = map[string]*side{}
	for _, name := range o.sideNames() {
		s, err := e.newSide(ctx, name)
		if err != nil {
			return err
		}
		e.sides[name] = s
		defer s.close()
	}
	var titles []string
	for _, name := range o.sideNames() {
		titles = append(titles, strconv.Quote(e.title(name)))
	}
	say(o.Err, "%d commits, each by %s, in %s; CPU time by %s", len(commits), strings.Join(titles, " and by "), o.State, e.sides[plain].meter.Method())
	done := len(e.all)
	if done > 0 {
		say(o.Err, "%d of them are done already", done)
	}
	t := newTable(o.Out)
	for i := range e.all {
		t.row(&e.all[i])
	}
	for i := done; i < len(commits); i++ {
		c, err := e.commit(ctx, i)
		if ctx.Err() != nil {
			return fmt.Errorf("stopped after %d of %d commits: the same command goes on there", i, len(commits))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", commits[i], err)
		}
		c.Resumed = done > 0 && i == done
		if err := e.append(c); err != nil {
			return err
		}
		t.row(c)
	}
	t.sums(e.all)
	page := filepath.Join(o.State, "report.html")
	if err := e.page(page); err != nil {
		return err
	}
	say(o.Err, "wrote %s and %s", e.lines(), page)
	var missed []string
	for _, c := range e.all {
		missed = append(missed, c.Missed...)
	}
	if len(missed) > 0 {
		return fmt.Errorf("%w: %s", ErrMissed, strings.Join(missed, " "))
	}
	return nil
}

// ErrMissed is the error of an evaluation in which a test was replayed that doesn't pass.
var ErrMissed = errors.New("tests were replayed that don't pass with plain bazel test")

func say(w io.Writer, format string, args ...any) { fmt.Fprintf(w, "tasting: "+format+"\n", args...) }

func (e *evaluation) lines() string { return filepath.Join(e.State, "commits.jsonl") }

func (e *evaluation) objectsFile() string { return filepath.Join(e.State, "objects.json") }

// Agree compares a plan with that of a file, so that only the same work is resumed. If there is no file, Agree
// writes it, and known is false. It is an error if the file has another plan: the message claims that the directory
// "has an evaluation of" something else.
func Agree(file string, plan any, claim string) (known bool, err error) {
	want, err := json.MarshalIndent(plan, "", " ")
	if err != nil {
		return false, err
	}
	switch have, err := os.ReadFile(file); {
	case errors.Is(err, fs.ErrNotExist):
		return false, os.WriteFile(file, want, 0o666)
	case err != nil:
		return false, err
	case !bytes.Equal(have, want):
		return false, fmt.Errorf("%s %s something else (%s): name another directory with --dir, or delete it", filepath.Dir(file), claim, filepath.Base(file))
	}
	return true, nil
}

// resume makes the directory of the evaluation, or reads the commits that are done.
func (e *evaluation) resume() error {
	if err := os.MkdirAll(e.State, 0o777); err != nil {
		return err
	}
	if known, err := Agree(filepath.Join(e.State, "plan.json"), e.plan, "has an evaluation of"); err != nil || !known {
		return err
	}
	b, err := os.ReadFile(e.lines())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	whole := b[:bytes.LastIndexByte(b, '\n')+1] // a full disk may have cut the last line
	for line := range bytes.Lines(whole) {
		var c Commit
		if err := json.Unmarshal(line, &c); err != nil || c.Format != Format || len(e.all) == len(e.plan.Commits) || c.Commit != e.plan.Commits[len(e.all)] {
			return fmt.Errorf("%s: line %d isn't of this evaluation: delete %s and start again", e.lines(), len(e.all)+1, e.State)
		}
		e.all = append(e.all, c)
	}
	if len(whole) < len(b) {
		return os.Truncate(e.lines(), int64(len(whole)))
	}
	return nil
}

func (e *evaluation) append(c *Commit) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(e.lines(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	e.all = append(e.all, *c)
	return errors.Join(err, f.Close(), e.objects.save(e.objectsFile()))
}

// commit runs all sides at a commit.
func (e *evaluation) commit(ctx context.Context, i int) (*Commit, error) {
	c := &Commit{Format: Format, Commit: e.plan.Commits[i], Cold: i == 0}
	c.Subject = e.git.Subject(ctx, c.Commit)
	names := e.sideNames()
	first := i % len(names)
	order := slices.Concat(names[first:], names[:first])
	c.First = order[0]
	for _, name := range order {
		if err := e.sides[name].checkout(ctx, c.Commit); err != nil {
			return nil, err
		}
	}
	results := map[string]*result{}
	for _, name := range order {
		say(e.Err, "%d/%d %s %s: %s", i+1, len(e.plan.Commits), short(c.Commit), c.Subject, e.sides[name].title())
		r, err := e.sides[name].run(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.sides[name].title(), err)
		}
		// A side that can't build the first commit won't build later ones.
		if i == 0 && r.Exit != bazel.ExitOK && r.Executed+r.Cached+r.Replayed == 0 {
			return nil, fmt.Errorf("%s has run no test at the first commit: begin with a commit at which TARGETS build, or have --prepare make it one. %w", e.sides[name].title(), e.sides[name].ended(r))
		}
		results[name] = r
	}
	p, t := results[plain], results[tasting]
	c.Plain, c.Tasting = p.Side, t.Side
	if x := results[traces]; x != nil {
		c.Traces = &x.Side
	}
	if x := results[byCases]; x != nil {
		c.Cases = &x.Side
	}
	if c.Unbuilt = !slices.Contains([]int{bazel.ExitOK, bazel.ExitTestsFailed}, p.Exit); c.Unbuilt {
		say(e.Err, "%s doesn't build: see %s", short(c.Commit), e.sides[plain].log())
	}
	if c.More = t.more(p); len(c.More) > 0 {
		say(e.Err, "%s: executed by tasting test and not by bazel test: %s", short(c.Commit), strings.Join(c.More, " "))
	}
	var err error
	if c.Objects, c.Different, err = e.objects.census(e.sides[plain].base); err != nil {
		return nil, err
	}
	if err = e.verify(ctx, c, p, results); err != nil {
		return nil, err
	}
	if err := e.writeRun(c, t.run); err != nil {
		return nil, err
	}
	if e.Fresh {
		for _, s := range e.sides {
			if err := s.expunge(ctx); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// verify finds tests that sides have replayed and that don't pass with plain Bazel.
func (e *evaluation) verify(ctx context.Context, c *Commit, p *result, results map[string]*result) error {
	truth, cached := map[string]outcome{}, []string{}
	for _, r := range results {
		for _, label := range r.replayed {
			if _, ok := truth[label]; ok {
				continue
			}
			truth[label] = p.tests[label]
			if !truth[label].executed {
				cached = append(cached, label)
			}
		}
	}
	slices.Sort(cached)
	if e.Verify && len(cached) > 0 {
		say(e.Err, "executing %d tests that were replayed", len(cached))
		again, err := e.sides[plain].verify(ctx, cached)
		if err != nil {
			return err
		}
		for _, label := range cached {
			truth[label] = outcome{again[label].status, true}
		}
	}
	for _, side := range slices.Sorted(maps.Keys(results)) {
		for _, label := range results[side].replayed {
			x := truth[label]
			if x.executed {
				c.Verified++
			}
			if passed(x.status) {
				continue
			}
			missed := label
			if side != tasting {
				missed += " " + side
			}
			c.Missed = append(c.Missed, missed)
			say(e.Err, "%s: %s was replayed as passed by %s; with plain bazel test it is %s", short(c.Commit), label, e.title(side), cmp.Or(x.status, "not built"))
		}
	}
	return nil
}

// writeRun writes the run of tasting test, with the costs of both sides, for the page.
func (e *evaluation) writeRun(c *Commit, r *report.Run) error {
	if r == nil {
		return nil // tasting test ended early
	}
	r.Commit = c.Commit
	if r.Cost != nil {
		r.Cost.CPUSeconds = c.Tasting.CPU
	}
	r.Plain = &report.Cost{WallSeconds: c.Plain.Wall, CPUSeconds: c.Plain.CPU}
	_, err := report.WriteRun(filepath.Join(e.State, "runs"), r)
	return err
}

func (e *evaluation) page(name string) error {
	var b report.Builder
	damaged, err := report.ReadRuns(filepath.Join(e.State, "runs"), b.Add)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // no commit could be built
	}
	if err != nil {
		return err
	}
	b.AddDamaged(damaged...)
	var page bytes.Buffer
	if err := b.Data().HTML(&page); err != nil {
		return err
	}
	return os.WriteFile(name, page.Bytes(), 0o666)
}

func short(commit string) string { return commit[:min(len(commit), 8)] }
