package evolve

import (
	"context"
	"slices"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
)

// Recorded is what was noted down of a test that somebody else has built and executed: Bazel, at a
// commit of a repository. Tools that select tests go through such revisions without building
// anything again, as often as needed.
type Recorded struct {
	// Inputs identifies all that an execution of the test is given, Graph the rules and files that it
	// depends on.
	Inputs, Graph string
	Outcome       *Outcome
	Took          time.Duration
	// Compose returns what composition needs to know of the test, and Env is what else counts. Unit
	// returns the file of a manifest that speaks for a unit.
	Compose func(e *Evidence, unit func(u *Unit, manifest []byte) (file string, err error)) (*fingerprint.Test, error)
	Env     []string
	// Traced returns what is known of a trace of the execution, nil if nothing is.
	Traced func() (*trace.Result, error)
}

// NewRecorded returns a test of a revision whose Files are sums of contents. Err is why it isn't
// built, if it isn't. Builder keeps what is composed.
func (b *Builder) NewRecorded(t *Test, r *Revision, files []*File, err error, x *Recorded) *Built {
	return &Built{Test: t, Files: files, Err: err, b: b, revision: r, recorded: x}
}

func (x *Built) composedRecorded(e *Evidence) (*fingerprint.Test, error) {
	dir := x.b.linksDir()
	t, err := x.recorded.Compose(e, func(u *Unit, manifest []byte) (string, error) { return x.writeManifest(dir, u, manifest, e) })
	if err == nil && e.Test != nil {
		e.Test(t)
	}
	return t, err
}

// File writes a text into a file of its own, if it isn't there yet.
func (b *Builder) File(name, text string) (string, error) { return b.file(b.linksDir(), name, text) }

// Go runs recorded revisions of a program through tools, as Check does with one that it builds.
// A test passes if it ends well: there is no other oracle.
func Go(ctx context.Context, p *Program, built []map[string]*Built, makeTools func(Passes) []Tool) (*Trace, error) {
	return follow(ctx, p, built, func(_ string, o *Outcome) bool { return o.OK() }, makeTools)
}

// NewReport returns the report on programs that have gone through the same tools.
func NewReport(traces ...*Trace) *Report {
	r := &Report{Programs: map[string]int{}, Unfit: map[string]int{}, Sums: map[string]*Sums{}}
	for _, t := range traces {
		r.add(t, nil)
	}
	slices.SortFunc(r.Violations, compare)
	return r
}
