package report

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
)

// Format is the version of the files that WriteRun writes.
//
// History:
//
//	1: first version
//	2: cost, plain; files of format 1 are read as well
const Format = 2

// Verdict is the decision about a test before anything ran.
type Verdict string

const (
	// Hit: a result is recorded under the test's fingerprint.
	Hit Verdict = "hit"
	// Miss: none is.
	Miss Verdict = "miss"
	// AlwaysRun: there is a reason to execute the test in any case.
	AlwaysRun Verdict = "always-run"
	// Other: the test has no fingerprint, for example because of its language.
	Other Verdict = "other"
)

// Run is one invocation of "tasting test". A file holds one run. It contains names
// of tests, components and machines. It contains no values of environment
// variables, no output of tests and no credentials.
type Run struct {
	// Format is the version of this schema.
	Format int `json:"format"`
	// ID identifies the run: letters, digits, "-" and "_". WriteRun chooses one if
	// it is empty.
	ID    string    `json:"id"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	// Workspace is a name that is the same in all checkouts, such as that of
	// the root module. Tests of different workspaces are different tests.
	Workspace string `json:"workspace,omitzero"`
	// Commit is the checked-out commit, Branch the name that it was checked out by.
	Commit string `json:"commit,omitzero"`
	Branch string `json:"branch,omitzero"`
	// Host is the machine on which tasting ran.
	Host string `json:"host,omitzero"`

	Store     Store      `json:"store"`
	Tests     []Test     `json:"tests"`
	Fallbacks []Fallback `json:"fallbacks,omitempty"`
	// Cost is nil if it isn't known.
	Cost *Cost `json:"cost,omitempty"`
	// Plain is the cost of plain "bazel test" at the same commit, measured by
	// "tasting evaluate".
	Plain *Cost `json:"plain,omitempty"`
}

// Cost is the cost of an invocation.
type Cost struct {
	// WallSeconds from its start to its end.
	WallSeconds float64 `json:"wall_seconds"`
	// CPUSeconds of Bazel's server, all processes that it starts, and tasting. 0 if
	// they weren't measured.
	CPUSeconds float64 `json:"cpu_seconds,omitzero"`
	// DecidingSeconds is the wall time until Bazel was told which tests to run. It
	// includes the compilations that this needs.
	DecidingSeconds float64 `json:"deciding_seconds,omitzero"`
	// AnalysisCPUSeconds is the CPU time of tasting's own actions and process, which
	// plain "bazel test" doesn't have.
	AnalysisCPUSeconds float64 `json:"analysis_cpu_seconds,omitzero"`
	// Actions counts the actions that Bazel executed in all invocations, by mnemonic.
	Actions map[string]int `json:"actions,omitempty"`
}

// Store counts a run's look-ups in the store of results.
type Store struct {
	// Location of the store. Anything that could be a credential is cut out.
	Location string `json:"location,omitzero"`
	// Lookups is the number of fingerprints that were looked up, and so
	// Hits + Misses + Damaged + Errors.
	Lookups int `json:"lookups"`
	Hits    int `json:"hits"`
	Misses  int `json:"misses"`
	// Traces counts the hits that a trace has found.
	Traces int `json:"traces,omitzero"`
	// Damaged counts entries that failed verification. They are treated as misses.
	Damaged int `json:"damaged,omitzero"`
	// Errors counts look-ups that the store didn't answer.
	Errors int `json:"errors,omitzero"`
	// LookupSeconds is the wall time of all look-ups together.
	LookupSeconds float64 `json:"lookup_seconds"`
}

// Test is one test target of a run.
type Test struct {
	// Label as Bazel prints it.
	Label string `json:"label"`
	// Fingerprint in hex; "" if the test has none.
	Fingerprint string  `json:"fingerprint,omitzero"`
	Verdict     Verdict `json:"verdict"`
	// Status as Bazel reports it: PASSED, FAILED, FLAKY, TIMEOUT, INCOMPLETE,
	// REMOTE_FAILURE, FAILED_TO_BUILD, NO_STATUS.
	Status string `json:"status"`
	// Cached: Bazel didn't execute the test since its own cache had the result.
	Cached bool `json:"cached,omitzero"`
	// Seconds is the duration of the execution; for a replayed test, of the recorded
	// execution. 0 if it isn't known.
	Seconds float64 `json:"seconds,omitzero"`
	// Reason why the test was executed, for people.
	Reason string `json:"reason,omitzero"`
	// Changed names the components or other contributions that differ from the nearest
	// recorded fingerprint of this test.
	Changed []string `json:"changed,omitempty"`
	// Trace: the hit was found by a trace, not by the fingerprint.
	Trace bool `json:"trace,omitzero"`
	// Audited: the test was executed although its verdict is a hit.
	Audited bool `json:"audited,omitzero"`
	// Cases of GoogleTest, if the test wasn't decided as a whole.
	Cases *Cases `json:"cases,omitempty"`
}

// Cases counts test cases, with their instantiations.
type Cases struct {
	Executed int `json:"executed"`
	Replayed int `json:"replayed,omitzero"`
}

// Fallback is a step down the ladder of docs/reference/messages.md.
type Fallback struct {
	// Source is the file with the fallback, or the test that counts as a whole.
	Source string `json:"source"`
	// Rung it is on now: "object", "content" or "always run"; for a test, "whole program".
	Rung   string `json:"rung"`
	Reason string `json:"reason,omitzero"`
	// Tests is the number of tests in the run that link the source.
	Tests int `json:"tests"`
}

// maxFile bounds the size of a file that is read, in bytes: a run of 100,000
// tests has some 30 MB.
const maxFile = 1 << 30

var idPattern = lazyregexp.New(`^[A-Za-z0-9_-]{1,64}$`)

// validate returns an error if r isn't a valid run.
func (r *Run) validate() error {
	switch {
	case r.Format < 1 || r.Format > Format:
		return fmt.Errorf("format %d, this tasting reads formats 1 to %d", r.Format, Format)
	case !idPattern.MatchString(r.ID):
		return fmt.Errorf("id %q: want up to 64 letters, digits, - and _", r.ID)
	// Years of four digits, as RFC 3339 has them; 1 is that of the zero time.
	case r.Start.Year() < 1970 || r.Start.Year() > 9998:
		return fmt.Errorf("start %v: not a time that a run can have", r.Start)
	case r.End.Before(r.Start) || r.End.Year() > 9999:
		return fmt.Errorf("end %v is before start %v", r.End, r.Start)
	}
	s := r.Store
	if !validCounts(s.Lookups, s.Hits, s.Misses, s.Damaged, s.Errors) {
		return fmt.Errorf("store: a count is negative or above %d", maxCount)
	}
	if !validSeconds(s.LookupSeconds) {
		return fmt.Errorf("store: lookup_seconds %v: want a duration", s.LookupSeconds)
	}
	for _, c := range []*Cost{r.Cost, r.Plain} {
		if c == nil {
			continue
		}
		for _, x := range []float64{c.WallSeconds, c.CPUSeconds, c.DecidingSeconds, c.AnalysisCPUSeconds} {
			if !validSeconds(x) {
				return fmt.Errorf("cost: %v: want a duration", x)
			}
		}
		for name, n := range c.Actions {
			if !validCounts(n) {
				return fmt.Errorf("cost: %d actions of %s", n, name)
			}
		}
	}
	for i, t := range r.Tests {
		switch {
		case t.Label == "":
			return fmt.Errorf("tests[%d]: no label", i)
		case !slices.Contains([]Verdict{Hit, Miss, AlwaysRun, Other}, t.Verdict):
			return fmt.Errorf("%s: verdict %q: want hit, miss, always-run or other", t.Label, t.Verdict)
		case !validSeconds(t.Seconds):
			return fmt.Errorf("%s: seconds %v: want a duration", t.Label, t.Seconds)
		case i > 0 && r.Tests[i-1].Label >= t.Label:
			return fmt.Errorf("%s: tests are not in order, or there twice", t.Label)
		}
	}
	for _, f := range r.Fallbacks {
		if !validCounts(f.Tests) {
			return fmt.Errorf("fallback of %s: %d tests", f.Source, f.Tests)
		}
	}
	return nil
}

const (
	maxCount   = 1 << 40
	maxSeconds = 1e6 // 11 days
)

func validCounts(n ...int) bool { return slices.Min(n) >= 0 && slices.Max(n) <= maxCount }

func validSeconds(s float64) bool { return s >= 0 && s <= maxSeconds && !math.IsNaN(s) }

// userinfo matches a URL up to its host.
var userinfo = lazyregexp.New(`([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s,"'<>]*@`)

// query matches a URL with a query or fragment. Signed URLs have a key in it.
var query = lazyregexp.New(`([A-Za-z][A-Za-z0-9+.-]*://[^?#\s,"'<>]*)[?#][^\s,"'<>]*`)

// redact removes user information, queries and fragments from all URLs in s.
func redact(s string) string {
	if !strings.Contains(s, "://") {
		return s
	}
	return query.ReplaceAllString(userinfo.ReplaceAllString(s, "$1"), "$1")
}

// normalise returns a copy of r in its written form: sorted, in UTC, without
// credentials in URLs.
func (r *Run) normalise() *Run {
	c := *r
	c.Format = Format
	c.Start, c.End = r.Start.UTC(), r.End.UTC()
	c.Workspace, c.Branch, c.Store.Location = redact(r.Workspace), redact(r.Branch), redact(r.Store.Location)
	c.Tests = slices.Clone(r.Tests)
	if c.Tests == nil {
		c.Tests = []Test{}
	}
	for i := range c.Tests {
		t := &c.Tests[i]
		t.Reason = redact(t.Reason)
		if len(t.Changed) == 0 {
			t.Changed = nil // JSON omits both
		}
	}
	slices.SortFunc(c.Tests, func(a, b Test) int { return strings.Compare(a.Label, b.Label) })
	// slices.Clone would distinguish [] from nil.
	c.Fallbacks = append([]Fallback(nil), r.Fallbacks...)
	for i := range c.Fallbacks {
		c.Fallbacks[i].Reason = redact(c.Fallbacks[i].Reason)
	}
	slices.SortFunc(c.Fallbacks, func(a, b Fallback) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Rung, b.Rung), strings.Compare(a.Reason, b.Reason))
	})
	return &c
}

// fileSuffix ends the name of a file with a run. Other files are ignored.
const fileSuffix = ".tasting-run.json"

// WriteRun writes r as a file into dir, which it makes if need be, and returns the
// file's path. A reader of the directory sees the whole file or none. A file with the
// same ID is an error. The content depends only on r, not on the order of tests and
// fallbacks. Credentials in URLs are cut out.
func WriteRun(dir string, r *Run) (path string, err error) {
	c := r.normalise()
	if c.ID == "" {
		b := make([]byte, 16)
		rand.Read(b)
		c.ID = hex.EncodeToString(b)
	}
	if err := c.validate(); err != nil {
		return "", fmt.Errorf("this run can't be written: %w", err)
	}
	text, err := json.Marshal(c, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	// Names sort by time. Only runs with the same ID have the same name.
	path = filepath.Join(dir, c.Start.Format("20060102T150405Z")+"-"+c.ID+fileSuffix)
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("%s: a run with this id is there already", path)
	}
	if err := wholefile.Write(path, append(text, '\n'), 0o644); err != nil {
		return "", err
	}
	return path, nil
}

// ReadRun reads a file of WriteRun. The error doesn't name the file.
func ReadRun(text []byte) (*Run, error) {
	r := new(Run)
	if err := json.Unmarshal(text, r, json.RejectUnknownMembers(true)); err != nil {
		// A newer format may have unknown fields: report the format, not the field.
		var head struct {
			Format int `json:"format"`
		}
		if json.Unmarshal(text, &head) == nil && head.Format > Format {
			return nil, fmt.Errorf("format %d, this tasting reads formats 1 to %d", head.Format, Format)
		}
		return nil, shorten(err)
	}
	if err := r.validate(); err != nil {
		return nil, err
	}
	// Another writer may have left credentials in it.
	return r.normalise(), nil
}

// shorten removes the content of a damaged file from an error, and keeps the place.
func shorten(err error) error {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("not a JSON object, or cut off: byte %d: %w", syntax.ByteOffset, syntax.Err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not a JSON object, or cut off")
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return fmt.Errorf("byte %d: %s doesn't fit the schema of format %d", semantic.ByteOffset, cmp.Or(string(semantic.JSONPointer), "/"), Format)
	}
	return err
}

// Damaged is a file that could not be read as a run.
type Damaged struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

// ReadRuns calls add with each run in dir, in the order of the file names, so that
// not all have to be in memory. It returns the base names of files that are damaged
// or of another format. The error is that of the directory.
func ReadRuns(dir string, add func(*Run)) ([]Damaged, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var damaged []Damaged
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), fileSuffix) {
			continue
		}
		r, err := readFile(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			damaged = append(damaged, Damaged{e.Name(), err.Error()})
			continue
		}
		add(r)
	}
	return damaged, nil
}

func readFile(path string) (*Run, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case info.Size() > maxFile:
		return nil, fmt.Errorf("larger than %d bytes", maxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ReadRun(text)
}

// DefaultDir returns the directory where runs are kept if none is named:
// tasting/runs in $XDG_STATE_HOME, or in .local/state in the home directory.
// getenv is os.Getenv or a substitute for it.
func DefaultDir(getenv func(string) string) (string, error) {
	// See the XDG Base Directory Specification: relative paths are ignored.
	if state := getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "tasting", "runs"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "tasting", "runs"), nil
	}
	return "", errors.New("no directory for runs: set XDG_STATE_HOME or HOME, or name one")
}

// Limits of a directory of runs for Tidy.
const (
	MaxAge   = 90 * 24 * time.Hour
	MaxBytes = 500 << 20
)

// Tidy removes runs from dir that are older than MaxAge, and the oldest ones while there are more than MaxBytes.
func Tidy(dir string) {
	entries, _ := os.ReadDir(dir) // their names sort by time
	var total int64
	for _, e := range slices.Backward(entries) {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.HasSuffix(e.Name(), fileSuffix) {
			continue
		}
		if total += info.Size(); total > MaxBytes || time.Since(info.ModTime()) > MaxAge {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
