package history

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/tools/evaluate"
)

// What became of a commit that changes code and tests.
const (
	Kept       = "kept"          // a test passes with the code of the commit, and fails without
	Uncompiled = "uncompiled"    // a test doesn't compile without it, and none is kept for
	Unaffected = "unaffected"    // all tests that pass with it pass without
	Unbuilt    = "doesn't build" // no test passes with it
)

// Candidate is a commit that changes code and tests.
type Candidate struct {
	Format  int      `json:"format"`
	Commit  string   `json:"commit"`
	Subject string   `json:"subject"`
	Verdict string   `json:"verdict"`
	Failing []string `json:"failing,omitempty"` // tests for which it is kept
}

// change is what a commit changes in files that aren't tests: which of them its parent has, and which
// it hasn't.
type change struct {
	commit, parent   string
	before, addition []string
}

// source matches files of code.
var source = regexp.MustCompile(`\.(c|cc|cpp|cxx|h|hh|hpp|hxx|inc|inl|S)$`)

// changes lists commits that change code and tests, the oldest first.
func (r *Recorder) changes(ctx context.Context, commits string, tests *regexp.Regexp) (l []change, err error) {
	out, err := evaluate.Git(ctx, r.git.Top, "log", "--no-merges", "--reverse", "--no-renames", "--name-status", "--format=commit %H %P", "--end-of-options", commits)
	if err != nil {
		return nil, err
	}
	return parseChanges(out, tests), nil
}

// parseChanges reads what git log prints.
func parseChanges(log string, tests *regexp.Regexp) (l []change) {
	var c change
	var code, test bool
	add := func() {
		if c.parent != "" && code && test {
			l = append(l, c)
		}
	}
	for line := range strings.SplitSeq(log, "\n") {
		if rest, ok := strings.CutPrefix(line, "commit "); ok {
			add()
			c, code, test = change{}, false, false
			c.commit, c.parent, _ = strings.Cut(rest, " ")
			continue
		}
		status, name, ok := strings.Cut(line, "\t")
		switch {
		case !ok:
		case tests.MatchString(name):
			test = true
		default:
			code = code || source.MatchString(name)
			if status == "A" {
				c.addition = append(c.addition, name)
			} else {
				c.before = append(c.before, name)
			}
		}
	}
	add()
	return l
}

// Defects finds commits that fix something that one of their tests shows, calls found after each
// candidate, and returns all candidates. Max bounds how many are kept, 0 doesn't.
func (r *Recorder) Defects(ctx context.Context, commits string, tests *regexp.Regexp, max int, found func(i, n int, c *Candidate)) (all []*Candidate, err error) {
	list, err := r.changes(ctx, commits, tests)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(r.State, "candidates.jsonl")
	known, err := readCandidates(file)
	if err != nil {
		return nil, err
	}
	kept := 0
	for i := range list {
		c := known[list[i].commit]
		if c == nil {
			if c, err = r.candidate(ctx, &list[i]); err != nil {
				return nil, err
			}
			if err := appendLine(file, c); err != nil {
				return nil, err
			}
		}
		found(i+1, len(list), c)
		all = append(all, c)
		if c.Verdict == Kept {
			if kept++; kept == max {
				break
			}
		}
	}
	return all, nil
}

func readCandidates(file string) (map[string]*Candidate, error) {
	known := map[string]*Candidate{}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for n := 1; s.Scan(); n++ {
		c := new(Candidate)
		if err := json.Unmarshal(s.Bytes(), c); err != nil {
			return nil, fmt.Errorf("%s:%d is damaged (%w): delete the line", file, n, err)
		}
		if c.Format != Format {
			return nil, fmt.Errorf("%s:%d has format %d, and this tasting reads %d: use another directory", file, n, c.Format, Format)
		}
		known[c.Commit] = c
	}
	return known, s.Err()
}

func appendLine(file string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}

// Fixed and Buggy are the IDs of the revisions of a kept candidate: what it is, and its tests on the
// code before it.
func (c *Candidate) Fixed() string { return c.Commit }
func (c *Candidate) Buggy() string { return c.Commit + "-without" }

func (r *Recorder) candidate(ctx context.Context, x *change) (*Candidate, error) {
	c := &Candidate{Format: Format, Commit: x.commit, Subject: r.git.Subject(ctx, x.commit)}
	// Most are not kept: they are looked through without the aspect.
	if err := r.checkout(ctx, x.commit, "", nil, nil); err != nil {
		return nil, err
	}
	with, err := r.statuses(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.checkout(ctx, x.commit, x.parent, x.before, x.addition); err != nil {
		return nil, err
	}
	without, err := r.statuses(ctx)
	if err != nil {
		return nil, err
	}
	if c.judge(with, without); c.Verdict != Kept {
		return c, nil
	}
	fixed, err := r.revision(ctx, c.Fixed(), x.commit, "", nil, nil)
	if err != nil {
		return nil, err
	}
	buggy, err := r.revision(ctx, c.Buggy(), x.commit, x.parent, x.before, x.addition)
	if err != nil {
		return nil, err
	}
	c.judge(fixed.statuses(), buggy.statuses()) // once more: tests may be flaky
	return c, nil
}

// judge compares how tests end with the code of a commit, and without.
func (c *Candidate) judge(with, without map[string]string) {
	c.Failing = nil
	passing, uncompiled := false, false
	for label, status := range with {
		if !(&Test{Status: status}).passed() {
			continue
		}
		passing = true
		switch s := without[label]; s {
		case "PASSED", "FLAKY":
		case "FAILED", "TIMEOUT":
			c.Failing = append(c.Failing, label)
		default:
			uncompiled = true
		}
	}
	slices.Sort(c.Failing)
	switch {
	case len(c.Failing) > 0:
		c.Verdict = Kept
	case uncompiled:
		c.Verdict = Uncompiled
	case passing:
		c.Verdict = Unaffected
	default:
		c.Verdict = Unbuilt
	}
}

func (r *Revision) statuses() map[string]string {
	m := map[string]string{}
	for _, t := range r.Tests {
		m[t.Label] = t.Status
	}
	return m
}

// statuses builds and executes the tests of what is checked out, and returns how they end.
func (r *Recorder) statuses(ctx context.Context) (map[string]string, error) {
	m := map[string]string{}
	_, _, err := r.run(ctx, "test", []string{"--test_output=errors"}, func(e *bazel.Event) error {
		switch c := e.ID.TargetCompleted; {
		case e.TestSummary != nil:
			m[e.ID.TestSummary.Label] = e.TestSummary.OverallStatus
		case e.Completed != nil && c.Aspect == "" && !e.Completed.Success:
			m[c.Label] = "FAILED_TO_BUILD"
		}
		return nil
	})
	return m, err
}
