package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/stamp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
)

// A result is recorded, or noted as a failure, or withdraws another, only if what
// has run is what the fingerprint was made of. Between the two there are several
// invocations of Bazel, and people save files meanwhile. So after each invocation
// that has run tests, before anything else is built:
//
//   - The fingerprint is computed once more, from what Bazel built in that same
//     invocation. A manifest of an object is made from the very file that was
//     linked, so an edit at any moment shows.
//   - A manifest of a source isn't: the compiler has read the file at another
//     moment. Nor is one of an archive or library in the source tree, which an action
//     reads and the link another one, or that of a linker script. And a file of data
//     is read by the test. If it was edited and edited back in between, its content
//     is what it was. But a file system gives every write a new change time, and so
//     no file that a test's build or the test itself reads may have been touched
//     since the analysis began, nor a link or directory that leads to it.
//   - The linker, the libraries of the system, and the options of Bazel are asked
//     for again.
//
// What is left is Bazel's own: an action that reads a file while it is edited, in
// a session before this one, keeps what it made under the file's other content.

// confirm finds out of tests that were just run whether their fingerprint is that
// of what has run: else it sets why it isn't.
func (s *session) confirm(ctx context.Context, labels []string) {
	var tests []*test
	var composed []*fingerprint.Test
	for _, t := range s.fingerprinted(labels) {
		if t.outcome == nil {
			continue
		}
		t.doubt = "its sources, data or flags were edited while it was tested"
		if !s.observes() {
			t.doubt = "not all tests could be analysed"
			continue
		}
		x := s.afterwards.of(t)
		if s.edited || x == nil || x.err != nil {
			continue
		}
		// --nocache_test_results makes another configuration.
		if x.config != t.config && !t.uncached {
			continue
		}
		d, err := readDescription(x.file)
		if err != nil {
			continue
		}
		c, err := s.arguments(ctx, d)
		if err != nil || !d.equal(t.description) {
			continue
		}
		c.Source, t.described = t.readsSources(), x.file
		tests, composed = append(tests, t), append(composed, c)
	}
	if len(tests) == 0 {
		return
	}
	results, _ := fingerprint.ComposeAll(composed, s.memory)
	s.traces(ctx, tests, composed)
	touches := s.touches()
	system := s.prober.unchanged()
	touched, err := s.touchedSources(ctx, touches)
	for i, t := range tests {
		if results[i].Err != nil || results[i].Config == nil {
			continue
		}
		key, kerr := fingerprint.Key(results[i].Config, t.run)
		remade := touches.remade(t, composed[i], &results[i])
		switch {
		case remade != nil:
			t.doubt = remade.Error()
		case kerr != nil || key != t.key:
		case !system:
			t.doubt = "the linker or libraries of the system were changed while it was tested"
		case t.readsSources() && err != nil:
			t.doubt = fmt.Sprintf("it can't be told whether its sources were edited: %v", err)
		case t.readsSources() && touched[t.label]:
			t.doubt = "its sources were saved while it was tested"
		default:
			t.doubt = touches.inputs(composed[i])
		}
	}
	if s.option("remote_executor") != "" {
		for t, w := range s.workers(ctx, tests) {
			if t.doubt == "" && (w.why != t.worker.why || !slices.Equal(w.parts, t.worker.parts)) {
				t.doubt = "its platform was changed while it was tested"
			}
		}
	}
}

// remade says which file of Bazel's outputs that a composition has read was made once more after
// the invocation that made them: another command may have another configuration, and the
// same directory for it.
func (t *touches) remade(of *test, x *fingerprint.Test, c *fingerprint.Composed) error {
	if t.built.IsZero() {
		return errors.New("bazel doesn't say when it was done, and another command may have built something since")
	}
	files := slices.Concat([]string{of.described, filepath.Join(x.Dir, of.description.Compose)}, x.Links, x.LinkInputs, x.Tools, c.Manifests)
	if x.RepoMapping != "" {
		files = append(files, x.RepoMapping)
	}
	for _, d := range x.Data {
		files = append(files, d.File)
	}
	for _, f := range files {
		again, known := t.again[f]
		if !known {
			place := f
			if !filepath.IsAbs(f) {
				place = filepath.Join(x.Dir, f)
			}
			look := func(place string, s stamp.Stamp) {
				again = again || strings.HasPrefix(place, t.out) && s.After(t.built)
			}
			t.trail.Walk(place, map[string]bool{}, func(place string, s stamp.Stamp) {
				if s.IsLink() {
					look(place, s)
				}
			}, look)
			t.again[f] = again
		}
		if again {
			return fmt.Errorf("another command of Bazel has made %s once more meanwhile", strings.TrimPrefix(f, x.Dir+"/"))
		}
	}
	return nil
}

// readsSources tells whether a fingerprint is made of sources that Bazel's compiler
// reads for itself.
func (t *test) readsSources() bool { return t.bySource && t.description.Source }

// touches tells of files whether they were touched since the analysis began, or
// whether what leads to them was: see package stamp. A directory that was moved away
// and back isn't noticed if something was made or removed in it later.
type touches struct {
	trail           stamp.Trail
	from            time.Time
	outputBase, out string            // directories of Bazel's
	linked          map[string]string // of links, and what they read: see link
	built           time.Time         // session.built
	again           map[string]bool   // of files: whether one was made after that
}

func (s *session) touches() *touches {
	real := func(dir string) string {
		if r, err := filepath.EvalSymlinks(dir); err == nil {
			return r
		}
		return dir
	}
	return &touches{stamp.Trail{}, s.from, real(filepath.Join(s.execRoot, "..", "..")) + "/", real(filepath.Join(s.execRoot, "bazel-out")) + "/", map[string]string{}, s.built, map[string]bool{}}
}

// touched tells whether a file, or one in a directory, was touched, or what leads to
// it.
func (t *touches) touched(file string) bool {
	found := false
	t.trail.Walk(file, map[string]bool{}, func(place string, x stamp.Stamp) {
		// Bazel makes links to repositories anew, and modes of its directories.
		if !strings.HasPrefix(place, t.outputBase) && !strings.HasPrefix(place, t.out) {
			found = found || x.IsLink() && x.Since(t.from) || x.IsDir() && x.MovedAfter(t.from)
		}
	}, func(place string, x stamp.Stamp) {
		// What Bazel makes has the content which the test found as long as nothing
		// else is built: see remade.
		found = found || !strings.HasPrefix(place, t.out) && (x.Since(t.from) || x.Several() && x.After(t.from))
	})
	return found
}

// inputs says which file that a test or its links read was touched, or returns "".
func (t *touches) inputs(x *fingerprint.Test) string {
	for _, d := range x.Data {
		if t.touched(d.File) {
			return fmt.Sprintf("its data %s was saved while it was tested", d.Path)
		}
	}
	for _, f := range slices.Concat(x.Links, x.LinkInputs) {
		why, known := t.linked[f]
		if !known {
			why = t.link(f, x.Dir, !slices.Contains(x.LinkInputs, f))
			t.linked[f] = why
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// link says which file that a link read was touched: f itself, or one of those that it names as
// the description of a link.
func (t *touches) link(f, dir string, describes bool) string {
	files := []string{f}
	if describes {
		var err error
		if files, err = fingerprint.LinkFiles(f, dir); err != nil {
			return err.Error()
		}
	}
	for _, f := range files {
		if !filepath.IsAbs(f) {
			f = filepath.Join(dir, f)
		}
		if t.touched(f) {
			return fmt.Sprintf("%s, which is linked, was saved while it was tested", strings.TrimPrefix(f, dir+"/"))
		}
	}
	return ""
}

// listSources finds out which files are read to build tests whose fingerprints
// were made of sources, as far as they are to be recorded or audited.
func (s *session) listSources(ctx context.Context, labels []string) {
	var tests []string
	for _, t := range s.fingerprinted(labels) {
		if t.readsSources() && (s.Write || t.audit) {
			tests = append(tests, t.label)
		}
	}
	if len(tests) == 0 {
		return
	}
	s.sources, s.sourcesErr = s.Bazel.Sources(ctx, s.rcFile(), filepath.Join(s.tmp, "sources"), s.queryFlags("cquery"), tests)
	s.sourcesOf = tests
}

// touchedSources tells of which tests with manifests of sources one was touched
// since the analysis began.
func (s *session) touchedSources(ctx context.Context, touches *touches) (map[string]bool, error) {
	if s.sourcesErr != nil || len(s.sourcesOf) == 0 {
		return nil, s.sourcesErr
	}
	var labels []string
	for _, x := range s.sources {
		if _, err := os.Stat(x.Path); err != nil || touches.touched(x.Path) {
			labels = append(labels, x.Label)
		}
	}
	if len(labels) == 0 {
		return nil, nil
	}
	tests, err := s.Bazel.Dependents(ctx, s.rcFile(), filepath.Join(s.tmp, "dependents"), s.queryFlags("cquery"), s.sourcesOf, labels)
	touched := map[string]bool{}
	for _, l := range tests {
		touched[l] = true
	}
	return touched, err
}
