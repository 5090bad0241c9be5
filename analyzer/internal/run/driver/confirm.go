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
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/cases"
)

// A result is recorded, noted as a failure, or withdraws another one, only if the fingerprint is that of the program that
// has run. Several calls of Bazel lie between the two, and users save files meanwhile. So after each call
// that has run tests, before the next build:
//
//   - The fingerprint is computed once more, from the files of that same
//     invocation. The manifest of an object is made from the very file that was
//     linked, so every edit changes it.
//   - A source, a data file, a linker script, and an archive or library in the source tree are read twice: by the
//     action that makes the manifest, and by the compiler, the link or the test. An edit between the two
//     that was undone leaves the content as it was. But every write changes the file's ctime. So
//     none of these files may have been touched since the analysis began, nor a symbolic link or
//     directory that leads to it.
//   - The linker, the libraries of the system, and the options of Bazel are read again.
//
// One hole is Bazel's own: if a file was edited in an earlier session while an action read it, Bazel
// keeps the action's output under the wrong content.

// confirmed is a test that was run, with a doubt if the program that has run may have another fingerprint.
type confirmed struct {
	*decision
	*outcome
	doubt string            // why the program that has run may not have the fingerprint, or ""
	now   *evidence         // of the program that has run; nil if it has another fingerprint
	parts *fingerprint.Test // the composition's arguments after the run
	trace *executionTrace   // nil if it has none
	// stages are those of its cases, if it was traced.
	stages []cases.Traced
}

// confirm composes tests that were just run once more.
func confirm(ctx context.Context, d *decisions, e *execution, sources *sources) (all []*confirmed) {
	for _, t := range filter(e.tests, (*decision).hasFingerprint) {
		x := &confirmed{decision: t, outcome: e.outcomes[t.label], doubt: "its sources, data or flags were edited while it was tested"}
		all = append(all, x)
		if !d.appliesAspect() {
			x.doubt = "not all tests could be analysed"
		} else {
			d.readAgain(ctx, e, x)
		}
	}
	tests := filter(all, func(t *confirmed) bool { return t.now != nil })
	if len(tests) == 0 {
		return all
	}
	results, _ := fingerprint.ComposeAll(collect(tests, func(t *confirmed) *fingerprint.Test { return t.parts }), d.memory)
	d.findTraces(ctx, e, tests)
	touches := d.touches(e.outputs.built)
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
			t.doubt = cmp.Or(ofSources(t.decision), touches.inputDoubt(t.parts))
		}
	}
	if d.option("remote_executor") != "" {
		d.confirmWorkers(ctx, tests)
	}
	return all
}

// readAgain reads the evidence for a test that was just run. It sets t.now if the description is the same as before.
func (d *decisions) readAgain(ctx context.Context, e *execution, t *confirmed) {
	now, err := e.outputs.evidence(t.target, t.group(), t.audit || e.filter != "")
	if err != nil || e.edited || !now.equal(t.description) {
		return
	}
	if t.parts, err = d.arguments(ctx, now); err == nil {
		t.now = now
	}
}

func (d *decisions) confirmWorkers(ctx context.Context, tests []*confirmed) {
	workers := d.workers(ctx, collect(tests, func(t *confirmed) *subject { return t.subject }))
	for _, t := range tests {
		if w := workers[t.subject]; t.doubt == "" && (w.why != t.worker.why || !slices.Equal(w.parts, t.worker.parts)) {
			t.doubt = "its platform was changed while it was tested"
		}
	}
}

// remade returns an error if a file that a composition has read was made after the build ended. A command
// with another configuration may write to the same directory.
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
		again, known := t.isRemade[f]
		if !known {
			look := func(place string, s stamp.Stamp) {
				again = again || strings.HasPrefix(place, t.out) && s.After(t.built)
			}
			t.trail.Walk(in(x.Dir, f), map[string]bool{}, func(place string, s stamp.Stamp) {
				if s.IsLink() {
					look(place, s)
				}
			}, look)
			t.isRemade[f] = again
		}
		if again {
			return fmt.Errorf("another command of Bazel has made %s once more meanwhile", strings.TrimPrefix(f, x.Dir+"/"))
		}
	}
	return nil
}

// touches finds files that were touched since the analysis began, and touched links and directories that lead to
// them: see package stamp. It misses a directory that was moved away and back if a file was made or removed in it later.
type touches struct {
	trail           stamp.Trail
	since           time.Time
	outputBase, out string            // directories of Bazel's
	linkDoubts      map[string]string // by file of a link: see linkDoubt
	built           time.Time         // end of the last build
	isRemade        map[string]bool   // by file: it was made after built
}

// touches returns a check of files against the beginning of the analysis and the end of the last build.
func (a *analysis) touches(built time.Time) *touches {
	real := func(dir string) string {
		if r, err := filepath.EvalSymlinks(dir); err == nil {
			return r
		}
		return dir
	}
	return &touches{
		since: a.meter.analysisBegan, outputBase: real(filepath.Join(a.execRoot, "..", "..")) + "/", out: real(filepath.Join(a.execRoot, "bazel-out")) + "/",
		trail: stamp.Trail{}, linkDoubts: map[string]string{}, built: built, isRemade: map[string]bool{},
	}
}

// touched reports whether a file was touched, a file below it if it is a directory, or a link or directory that leads to it.
func (t *touches) touched(file string) bool {
	found := false
	t.trail.Walk(file, map[string]bool{}, func(place string, x stamp.Stamp) {
		// Bazel itself remakes links to repositories, and changes modes of its directories.
		if !strings.HasPrefix(place, t.outputBase) && !strings.HasPrefix(place, t.out) {
			found = found || x.IsLink() && x.Since(t.since) || x.IsDir() && x.MovedAfter(t.since)
		}
	}, func(place string, x stamp.Stamp) {
		// Bazel's outputs are those that the test has read until the next build: see remade.
		found = found || !strings.HasPrefix(place, t.out) && (x.Since(t.since) || x.Several() && x.After(t.since))
	})
	return found
}

// inputDoubt returns why the files that a test or its links read aren't those of the analysis, or "": one was touched.
func (t *touches) inputDoubt(x *fingerprint.Test) string {
	for _, d := range x.Data {
		if t.touched(d.File) {
			return fmt.Sprintf("its data %s was saved while it was tested", d.Path)
		}
	}
	for _, f := range slices.Concat(x.Links, x.LinkInputs) {
		why, known := t.linkDoubts[f]
		if !known {
			why = t.linkDoubt(f, x.Dir, !slices.Contains(x.LinkInputs, f))
			t.linkDoubts[f] = why
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// linkDoubt returns a doubt if f was touched or, if f describes a link, a file that f names. Else it returns "".
func (t *touches) linkDoubt(f, dir string, describes bool) string {
	files := []string{f}
	if describes {
		var err error
		if files, err = fingerprint.LinkFiles(f, dir); err != nil {
			return err.Error()
		}
	}
	for _, f := range files {
		if t.touched(in(dir, f)) {
			return fmt.Sprintf("%s, which is linked, was saved while it was tested", strings.TrimPrefix(f, dir+"/"))
		}
	}
	return ""
}
