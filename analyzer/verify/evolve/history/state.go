// Package history makes evolving programs of real repositories: of their commits (EvoEP), and of bugs
// that were fixed together with a test, put back (DefectsEP; Zhu et al., ICSE 2019, II.C and II.D).
//
// # Recorded once
//
// Bazel builds the tests of a revision, with this tool's aspect, in a clone and an output base of its
// own, and executes what its own cache doesn't have. What came out is noted down in a Revision: of
// each test what it is linked from, what was read to compile that, data, arguments, and how it
// ended. Equal inputs have equal outcomes, so what Bazel doesn't execute again has its last one.
//
// # Selected as often as needed
//
// Tools that select tests (package evolve) go through such revisions without building anything.
package history

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/stamp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
)

// Format is the version of the files of revisions.
const Format = 1

// Revision is what was noted down of one.
type Revision struct {
	Format int `json:"format"`
	// ID names it among those in a directory: a commit, perhaps with a suffix.
	ID      string `json:"id"`
	Subject string `json:"subject"`
	// Unbuilt is why nothing of it was tested, or empty.
	Unbuilt string `json:"unbuilt,omitempty"`
	// Others are tests that the aspect doesn't know: they aren't C or C++.
	Others []string `json:"others,omitempty"`
	Tests  []Test   `json:"tests"`
	Links  []Link   `json:"links"`
	Units  []Unit   `json:"units"`
	Files  []File   `json:"files"`
	// Wall times in seconds: of a build of the tests, of what the aspect makes of objects and then of
	// sources, of the execution, and of a query for the build graph.
	Build   float64 `json:"build"`
	Objects float64 `json:"objects"`
	Sources float64 `json:"sources"`
	Test    float64 `json:"test"`
	Query   float64 `json:"query"`
	// Real is what `tasting test` did, if it was run; RealAgain is that of a second run of the first
	// revision.
	Real      *Real `json:"real,omitempty"`
	RealAgain *Real `json:"real_again,omitempty"`
}

// Real are the tests that `tasting test` hasn't replayed, and the wall time until it knew that, and of
// all, in seconds.
type Real struct {
	Selected []string `json:"selected"`
	Deciding float64  `json:"deciding"`
	Wall     float64  `json:"wall"`
}

// Test is what was noted down of a test. Numbers are indices.
type Test struct {
	Label   string  `json:"label"`
	Status  string  `json:"status"`           // as in Bazel's test summary
	Seconds float64 `json:"seconds"`          // its last execution
	Cached  bool    `json:"cached,omitempty"` // Bazel had it from the revision before
	Inputs  string  `json:"inputs"`
	Graph   string  `json:"graph"`
	// Compose is the blob of the arguments of tasting compose, which name other blobs. Description
	// says how Bazel starts the test.
	Compose     string   `json:"compose,omitempty"`
	Description string   `json:"description,omitempty"`
	Args        []string `json:"args,omitempty"`
	Links       []int    `json:"links,omitempty"` // the executable first
	// Idle is the blob of the names of functions that its last execution didn't enter, or empty.
	Idle string `json:"idle,omitempty"`
	Data []int  `json:"data,omitempty"` // files, by their paths in the runfiles
}

// Link is a file that is linked or archived.
type Link struct {
	Output string `json:"output"`
	Kind   string `json:"kind"`
	Text   string `json:"text"` // blob of the link file, in which manifests are blobs
	Units  []int  `json:"units"`
}

// Unit is something on the line of a link that isn't linked itself.
type Unit struct {
	Path   string `json:"path"`   // as on the line
	Source string `json:"source"` // or Path again
	Sum    string `json:"sum"`
	// Manifest is the blob of its manifest, BySource of the one of its source, if there is one.
	Manifest string `json:"manifest"`
	BySource string `json:"by_source,omitempty"`
	Reads    []int  `json:"reads,omitempty"` // files
	// Object is the blob of itself, if these are kept.
	Object string `json:"object,omitempty"`
}

// File is a file that was read.
type File struct {
	Path string `json:"path"`
	Sum  string `json:"sum"`
}

// state is a directory with revisions and blobs.
type state struct{ dir string }

func (s state) revision(id string) string { return filepath.Join(s.dir, "revisions", id+".json") }

// Load reads a revision. It is fs.ErrNotExist if that isn't recorded.
func Load(dir, id string) (*Revision, error) {
	name := state{dir}.revision(id)
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var version struct{ Format int }
	r := new(Revision)
	if err := json.Unmarshal(b, &version); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): delete it, and it is recorded again", name, err)
	}
	if version.Format != Format {
		return nil, fmt.Errorf("%s has format %d, and this tasting reads %d: use the tasting that has recorded it, or another directory", name, version.Format, Format)
	}
	err = json.Unmarshal(b, r)
	if err == nil {
		err = r.validate(id)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): delete it, and it is recorded again", name, err)
	}
	return r, nil
}

func (r *Revision) validate(id string) error {
	if r.ID != id {
		return fmt.Errorf("it is of %q", r.ID)
	}
	in := func(indices []int, n int) error {
		for _, i := range indices {
			if i < 0 || i >= n {
				return fmt.Errorf("index %d of %d", i, n)
			}
		}
		return nil
	}
	var errs []error
	for _, t := range r.Tests {
		errs = append(errs, in(t.Links, len(r.Links)), in(t.Data, len(r.Files)))
		if t.built() && len(t.Links) == 0 {
			errs = append(errs, fmt.Errorf("%s isn't linked from anything", t.Label))
		}
	}
	for _, l := range r.Links {
		errs = append(errs, in(l.Units, len(r.Units)))
	}
	for _, u := range r.Units {
		errs = append(errs, in(u.Reads, len(r.Files)))
	}
	return errors.Join(errs...)
}

// built reports whether there was anything to execute.
func (t *Test) built() bool { return t.Compose != "" }

// passed reports whether it ended well.
func (t *Test) passed() bool { return t.Status == "PASSED" || t.Status == "FLAKY" }

func (s state) save(r *Revision) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	name := s.revision(r.ID)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return wholefile.Write(name, b, 0o666)
}

// blob keeps a text by its content, and returns its name in the directory.
func (s state) blob(b []byte) (string, error) {
	h := fmt.Sprintf("%x", sha256.Sum256(b))
	name := filepath.Join("blobs", h[:2], h[2:])
	file := filepath.Join(s.dir, name)
	if _, err := os.Stat(file); err == nil {
		return name, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return "", err
	}
	return name, wholefile.Write(file, b, 0o666)
}

// sums are checksums of files, which are read again if they were touched.
type sums map[string]summed

type summed struct{ stamp, sum string }

func (s sums) of(file string) (string, error) {
	now, err := stamp.Of(file)
	if err != nil {
		return "", err
	}
	if x, ok := s[file]; ok && x.stamp == now.Exact() && !now.IsDir() {
		return x.sum, nil
	}
	h := sha256.New()
	if now.IsDir() {
		err = filepath.WalkDir(file, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			fmt.Fprintf(h, "%s\x00", name[len(file):])
			return copyInto(h, name)
		})
	} else {
		err = copyInto(h, file)
	}
	if err != nil {
		return "", err
	}
	sum := fmt.Sprintf("%x", h.Sum(nil)[:16])
	s[file] = summed{now.Exact(), sum}
	return sum, nil
}

func copyInto(w io.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
