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
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/plan"
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

// confirmed is a test that was run, and whether its fingerprint is that of what has run.
type confirmed struct {
	*decision
	*outcome
	doubt string      // why an execution may not be that of the fingerprint
	trace *plan.Trace // nil if it has none
}

// confirm composes tests that were just run once more.
func confirm(ctx context.Context, d *decisions, e *execution, sources *sources) (all []*confirmed) {
	var tests []*confirmed
	var evidences []*evidence
	var composed []*fingerprint.Test
	for _, t := range fingerprinted(e.tests) {
		x := &confirmed{decision: t, outcome: e.outcomes[t], doubt: "its sources, data or flags were edited while it was tested"}
		all = append(all, x)
		if !d.observes() {
			x.doubt = "not all tests could be analysed"
		} else if now, c := d.evidenceNow(ctx, e, t); now != nil {
			tests, evidences, composed = append(tests, x), append(evidences, now), append(composed, c)
		}
	}
	if len(tests) == 0 {
		return all
	}
	results, _ := fingerprint.ComposeAll(composed, d.memory)
	d.findTraces(ctx, e, tests, evidences, composed)
	touches := d.touches(e.seen.built)
	system := d.prober.unchanged()
	ofSources := sources.doubts(ctx, d.invocation, touches)
	for i, t := range tests {
		if results[i].Err != nil || results[i].Config == nil {
			continue
		}
		key, err := fingerprint.Key(results[i].Config, t.run)
		remade := touches.remade(evidences[i], composed[i], &results[i])
		switch {
		case remade != nil:
			t.doubt = remade.Error()
		case err != nil || key != t.key:
		case !system:
			t.doubt = "the linker or libraries of the system were changed while it was tested"
		default:
			t.doubt = cmp.Or(ofSources(t.decision), touches.inputs(composed[i]))
		}
	}
	if d.option("remote_executor") != "" {
		d.confirmWorkers(ctx, tests)
	}
	return all
}

// evidenceNow returns what a test is made of that was just run, or nil if it can't be the same as before.
func (d *decisions) evidenceNow(ctx context.Context, e *execution, t *decision) (*evidence, *fingerprint.Test) {
	x := e.seen.found[t.group()][t.label]
	if e.edited || x == nil || x.err != nil {
		return nil, nil
	}
	// --nocache_test_results makes another configuration.
	if x.config != t.config && !t.audit {
		return nil, nil
	}
	now, err := readDescription(x.file)
	if err != nil {
		return nil, nil
	}
	c, err := d.arguments(ctx, now)
	if err != nil || !now.equal(t.description) {
		return nil, nil
	}
	c.Source = t.readsSources()
	return &evidence{description: now, file: x.file, sources: t.evidence.sources}, c
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

// remade says which file of Bazel's outputs that a composition has read was made once more after
// the invocation that made them: another command may have another configuration, and the
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

// touches says of files whether they were touched since the analysis began, or
// whether what leads to them was: see package stamp. A directory that was moved away
// and back isn't noticed if something was made or removed in it later.
type touches struct {
	trail           stamp.Trail
	from            time.Time
	outputBase, out string            // directories of Bazel's
	linked          map[string]string // of links, and what they read: see link
	built           time.Time         // when the last call of Bazel had built
	again           map[string]bool   // of files: whether one was made after that
}

// touches returns touches of files since the analysis began, of which a call of Bazel has built some.
func (a *analysis) touches(built time.Time) *touches {
	real := func(dir string) string {
		if r, err := filepath.EvalSymlinks(dir); err == nil {
			return r
		}
		return dir
	}
	return &touches{
		from: a.began.time, outputBase: real(filepath.Join(a.execRoot, "..", "..")) + "/", out: real(filepath.Join(a.execRoot, "bazel-out")) + "/",
		trail: stamp.Trail{}, linked: map[string]string{}, built: built, again: map[string]bool{},
	}
}

// touched reports whether a file, or one in a directory, was touched, or what leads to
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

// inputs says which file was touched that a test or its links read, or returns "".
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
