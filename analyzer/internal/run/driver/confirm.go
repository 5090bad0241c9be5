package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/stamp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
)

// A result is recorded, noted as a failure, or withdraws another one, only if the program that
// has run is the one of the fingerprint. Several calls of Bazel lie between the two,
// and people save files meanwhile. So after each call
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

// confirmed is a test that was run, with a doubt if the program that has run may have another fingerprint.
type confirmed struct {
	*decision
	*outcome
	doubt string            // why an execution may not be that of the fingerprint
	now   *evidence         // of what has run; nil if it can't be that of the fingerprint
	parts *fingerprint.Test // what it is composed of by now
	trace *executionTrace   // nil if it has none
}

// confirm composes tests that were just run once more.
func confirm(ctx context.Context, d *decisions, e *execution, sources *sources) (all []*confirmed) {
	var tests []*confirmed
	var composed []*fingerprint.Test
	for _, t := range fingerprinted(e.tests) {
		x := &confirmed{decision: t, outcome: e.outcomes[t.label], doubt: "its sources, data or flags were edited while it was tested"}
		all = append(all, x)
		if !d.observes() {
			x.doubt = "not all tests could be analysed"
		} else if d.readAgain(ctx, e, x); x.now != nil {
			tests, composed = append(tests, x), append(composed, x.parts)
		}
	}
	if len(tests) == 0 {
		return all
	}
	results, _ := fingerprint.ComposeAll(composed, d.memory)
	d.findTraces(ctx, e, tests)
	touches := d.touches(e.seen.built)
	system := d.prober.unchanged()
	ofSources := sources.doubts(ctx, d.invocation, touches)
	for i, t := range tests {
		if results[i].Err != nil || results[i].Config == nil {
			continue
		}
		key, err := fingerprint.Key(results[i].Config, t.run)
		remade := touches.remade(t.now, t.parts, &results[i])
		switch {
		case remade != nil:
			t.doubt = remade.Error()
		case err != nil || key != t.key:
		case !system:
			t.doubt = "the linker or libraries of the system were changed while it was tested"
		default:
			t.doubt = cmp.Or(ofSources(t.decision), touches.inputs(t.parts))
		}
	}
	if d.option("remote_executor") != "" {
		d.confirmWorkers(ctx, tests)
	}
	return all
}

// readAgain reads the evidence for a test that was just run. It sets t.now only if that may be the same as before.
func (d *decisions) readAgain(ctx context.Context, e *execution, t *confirmed) {
	now, err := e.seen.evidence(t.target, t.group(), t.audit)
	if err != nil || e.edited || !now.equal(t.description) {
		return
	}
	if t.parts, err = d.arguments(ctx, now.description); err != nil {
		return
	}
	t.parts.Source, t.now = now.readsSources(), now
}

func (d *decisions) confirmWorkers(ctx context.Context, tests []*confirmed) {
	var subjects []*subject
	for _, t := range tests {
		subjects = append(subjects, t.subject)
	}
	workers := d.workers(ctx, subjects)
	for _, t := range tests {
		if w := workers[t.subject]; t.doubt == "" && (w.why != t.worker.why || !slices.Equal(w.parts, t.worker.parts)) {
			t.doubt = "its platform was changed while it was tested"
		}
	}
}

// remade returns an error if Bazel has made a file anew that a composition has read, after the
// invocation that made all of them: another command may have another configuration, and the
// same directory for it.
func (t *touches) remade(of *evidence, x *fingerprint.Test, c *fingerprint.Composed) error {
	if t.built.IsZero() {
		return errors.New("bazel doesn't say when it was done, and another command may have built something since")
	}
	files := slices.Concat([]string{of.file, filepath.Join(x.Dir, of.Compose)}, x.Links, x.LinkInputs, x.Tools, c.Manifests)
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

// touches tells whether files, or links and directories that lead to them, were touched since the
// analysis began: see package stamp. A directory that was moved away
// and back isn't noticed if something was made or removed in it later.
type touches struct {
	trail           stamp.Trail
	from            time.Time
	outputBase, out string            // directories of Bazel's
	linked          map[string]string // of links, and what they read: see link
	built           time.Time         // when the last call of Bazel had built
	again           map[string]bool   // of files: whether one was made after that
}

// touches looks at files from now on. Built is when the last call of Bazel had built.
func (a *analysis) touches(built time.Time) *touches {
	real := func(dir string) string {
		if r, err := filepath.EvalSymlinks(dir); err == nil {
			return r
		}
		return dir
	}
	return &touches{
		from: a.meter.began, outputBase: real(filepath.Join(a.execRoot, "..", "..")) + "/", out: real(filepath.Join(a.execRoot, "bazel-out")) + "/",
		trail: stamp.Trail{}, linked: map[string]string{}, built: built, again: map[string]bool{},
	}
}

// touched reports whether a file was touched, a file in a directory, or a link or directory that leads
// to it.
func (t *touches) touched(file string) bool {
	found := false
	t.trail.Walk(file, map[string]bool{}, func(place string, x stamp.Stamp) {
		// Bazel makes links to repositories anew, and modes of its directories.
		if !strings.HasPrefix(place, t.outputBase) && !strings.HasPrefix(place, t.out) {
			found = found || x.IsLink() && x.Since(t.from) || x.IsDir() && x.MovedAfter(t.from)
		}
	}, func(place string, x stamp.Stamp) {
		// Bazel's outputs have the content that the test has found as long as nothing
		// else is built: see remade.
		found = found || !strings.HasPrefix(place, t.out) && (x.Since(t.from) || x.Several() && x.After(t.from))
	})
	return found
}

// inputs returns why the files that a test or its links read aren't those of the analysis, or "": one was touched.
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

// link returns which file of a link was touched, or "": f itself or, if f describes the link, a file that it
// names.
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
