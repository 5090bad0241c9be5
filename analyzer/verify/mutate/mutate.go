// Package mutate edits real code at random places, in small ways, and asks package witness
// of each edit whether what the compiler emits differs where no hash does.
//
// The kinds of edits are those of RTSCheck (E1 to E9) and further ones of C and C++
// (edits.go, edits_cxx.go). They are made in the text of a unit with all its headers
// in one file, before macros are expanded (source.go), by a parser that knows as much of
// C++ as it takes to find places (cxx.go).
package mutate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/compiler"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/witness"
)

// Campaign describes a mutation campaign: small edits of real code, each
// compared with the original as witness.ComparePair does. An edit that changes what is
// emitted and no hash is a violation; one that changes a hash and nothing that
// is emitted costs precision.
type Campaign struct {
	// Commands are the compiler's command lines, one source file each.
	Commands [][]string
	// Clang dumps syntax trees.
	Clang string
	// Seed decides which edits are taken; the same seed takes the same ones.
	Seed uint64
	// Sample is the number of edits to try, 0 for all.
	Sample int
	// Time ends the campaign early, 0 for no limit. How far it got is in the
	// report.
	Time time.Duration
	// Kinds limits the campaign to some kinds of edits, if not empty.
	Kinds []string
	// Main limits edits to the source files: headers stay as they are. Of C++
	// headers, most is never emitted.
	Main bool
	// Progress, if not nil, is called after each edit.
	Progress func(done, total int)
}

// Report is the outcome of a campaign.
type Report struct {
	Seed uint64 `json:"seed"`
	// Available, Planned and Tried count edits. Tried is less than Planned if
	// time ran out.
	Available int `json:"available"`
	Planned   int `json:"planned"`
	Tried     int `json:"tried"`
	// Counts are those of the originals.
	witness.Counts
	// Kinds has a row for each sort of evidence and kind of edit, and Totals one
	// for each sort of evidence.
	Kinds      []KindReport `json:"kinds"`
	Totals     []KindReport `json:"totals"`
	Violations []Finding    `json:"violations"`
	// Imprecise are neutral edits that changed a hash though nothing that is
	// emitted differs.
	Imprecise []Finding `json:"imprecise,omitempty"`
}

// KindReport counts the edits of one kind.
type KindReport struct {
	Evidence string `json:"evidence"`
	Kind     string `json:"kind"`
	// Neutral kinds are meant not to change anything.
	Neutral bool `json:"neutral,omitempty"`
	Tried   int  `json:"tried"`
	// Compared compile, and both versions have this sort of evidence.
	Compared int `json:"compared"`
	// Emitted differ in code or data, or of sources at least in IR.
	Emitted int `json:"emitted"`
	// Changed differ in the identity of at least one entry.
	Changed int `json:"changed"`
	// Unneeded differ in an identity, and in nothing that is emitted.
	Unneeded int `json:"unneeded"`
	// Wide differ in what is emitted, and also in the identity of entries that
	// don't reach it.
	Wide       int `json:"wide"`
	Violations int `json:"violations"`
}

// Finding is an edit to look at.
type Finding struct {
	Evidence string `json:"evidence"`
	File     string `json:"file"`
	Kind     string `json:"kind"`
	Where    string `json:"where"`
	// Before and After show the first edited place.
	Before string `json:"before"`
	After  string `json:"after"`
	// Differences aren't explained by any hash.
	Differences []witness.Explanation `json:"differences,omitempty"`
	// Entries changed without need.
	Entries []string `json:"entries,omitempty"`
	// Number identifies the edit within its kind and file.
	Number int `json:"number"`
}

// mutant is a translation unit under mutation.
type mutant struct {
	dir  string
	name string
	argv []string // without the source
	src  *source
	base *witness.Version
}

// job is one edit to try.
type job struct {
	m *mutant
	e edit
	n int
}

// Run runs the campaign, up to the first error that isn't that of an edit:
// what a campaign found that ran on in a broken environment would mean nothing.
// Temporary files are removed.
func (c *Campaign) Run(ctx context.Context) (*Report, error) {
	tmp, err := os.MkdirTemp("", "tasting-mutate-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	r := &Report{Seed: c.Seed, Violations: []Finding{}}
	var mutants []*mutant
	for i, argv := range c.Commands {
		m, err := c.prepare(ctx, argv, filepath.Join(tmp, fmt.Sprint(i)))
		if err != nil {
			return nil, err
		}
		mutants = append(mutants, m)
		r.Counts.Add(m.base.Counts)
	}
	jobs, available, err := c.plan(mutants)
	if err != nil {
		return nil, err
	}
	r.Available, r.Planned = available, len(jobs)
	if err := c.tryAll(ctx, r, jobs); err != nil {
		return nil, err
	}
	for _, m := range mutants {
		if err := c.again(ctx, m); err != nil {
			return nil, err
		}
	}
	for _, l := range [][]Finding{r.Violations, r.Imprecise} {
		slices.SortFunc(l, func(a, b Finding) int {
			return strings.Compare(a.Evidence+a.Kind+"\x00"+a.File+fmt.Sprintf("%08d", a.Number), b.Evidence+b.Kind+"\x00"+b.File+fmt.Sprintf("%08d", b.Number))
		})
	}
	return r, nil
}

// tryAll tries jobs and adds to r what comes of them.
func (c *Campaign) tryAll(ctx context.Context, r *Report, jobs []job) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var timeout <-chan time.Time
	if c.Time > 0 {
		timeout = time.After(c.Time)
	}
	type row struct{ evidence, kind string }
	rows := map[row]*KindReport{}
	tried := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	queue := make(chan job)
	for w := range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for j := range queue {
				pairs, err := c.try(ctx, j, w)
				if err != nil && !errors.Is(err, witness.ErrCompile) {
					stop(fmt.Errorf("edit %d of kind %s: %w", j.n, j.e.kind, err))
					continue
				}
				mu.Lock()
				r.Tried++
				tried[j.e.kind]++
				for _, p := range pairs {
					at := row{p.Evidence, j.e.kind}
					if rows[at] == nil {
						rows[at] = &KindReport{Evidence: at.evidence, Kind: at.kind, Neutral: neutral[at.kind]}
					}
					r.count(rows[at], j, p)
				}
				if c.Progress != nil {
					c.Progress(r.Tried, r.Planned)
				}
				mu.Unlock()
			}
		})
	}
feed:
	for _, j := range jobs {
		select {
		case queue <- j:
		case <-timeout:
			break feed
		case <-ctx.Done():
			break feed
		}
	}
	close(queue)
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for _, evidence := range []string{witness.Shared, witness.Sections, witness.Source} {
		total := KindReport{Evidence: evidence, Kind: "total"}
		for _, k := range kinds {
			if tried[k.name] == 0 {
				continue
			}
			x := rows[row{evidence, k.name}]
			if x == nil {
				x = &KindReport{Evidence: evidence, Kind: k.name, Neutral: neutral[k.name]}
			}
			x.Tried = tried[k.name]
			r.Kinds = append(r.Kinds, *x)
			total.Tried += x.Tried
			total.Compared += x.Compared
			total.Emitted += x.Emitted
			total.Changed += x.Changed
			total.Unneeded += x.Unneeded
			total.Wide += x.Wide
			total.Violations += x.Violations
		}
		r.Totals = append(r.Totals, total)
	}
	return nil
}

// prepare puts a unit into one file, and compiles it.
func (c *Campaign) prepare(ctx context.Context, argv []string, dir string) (*mutant, error) {
	flags, text, file, err := witness.SplitArgs(argv)
	if err != nil {
		return nil, err
	}
	all, err := rewriteIncludes(ctx, argv)
	if err != nil {
		return nil, err
	}
	inv, err := compiler.ParseArgs(argv)
	if err != nil {
		return nil, err
	}
	m := &mutant{dir: dir, name: filepath.Base(file), argv: slices.Concat(argv[:1], flags, text), src: readSource(file, all, inv.Lang == "c++", c.Main)}
	// The one file must be as good as the original.
	direct, err := witness.Compile(ctx, argv, c.Clang)
	if err != nil {
		return nil, err
	}
	if m.base, err = c.compile(ctx, m, all, 0); err != nil {
		return nil, err
	}
	if d := witness.Compare(direct.Code, m.base.Code); len(d) > 0 {
		return nil, fmt.Errorf("%s: with its headers in one file, %s of %s differs: can't mutate this unit", file, d[0].What, d[0].Unit)
	}
	return m, nil
}

// again reports an error unless the original still compiles to what it did:
// otherwise "doesn't compile" says nothing about the edits.
func (c *Campaign) again(ctx context.Context, m *mutant) error {
	v, err := c.compile(ctx, m, m.src.text, 0)
	if err != nil {
		return fmt.Errorf("the original compiled before the campaign: %w", err)
	}
	for _, p := range witness.ComparePair(m.base, v) {
		if len(p.Emitted) > 0 || len(p.Changed) > 0 {
			return fmt.Errorf("%s: the unchanged original differs from what it was before the campaign", m.name)
		}
	}
	return nil
}

func (c *Campaign) compile(ctx context.Context, m *mutant, text []byte, worker int) (*witness.Version, error) {
	dir := filepath.Join(m.dir, fmt.Sprint(worker))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, m.name)
	if err := os.WriteFile(file, text, 0o666); err != nil {
		return nil, err
	}
	return witness.Compile(ctx, append(slices.Clone(m.argv), file), c.Clang)
}

// plan chooses the edits: of each kind about the same number, in an order that
// mixes kinds and files, so that a campaign that runs out of time has seen
// some of everything.
func (c *Campaign) plan(mutants []*mutant) (jobs []job, available int, err error) {
	for _, k := range c.Kinds {
		if !slices.Contains(Kinds(), k) {
			return nil, 0, fmt.Errorf("no kind of edit is called %q; there are %s", k, strings.Join(Kinds(), ", "))
		}
	}
	perKind := make([][]job, len(kinds))
	for ki, k := range kinds {
		if len(c.Kinds) > 0 && !slices.Contains(c.Kinds, k.name) {
			continue
		}
		for _, m := range mutants {
			n := 0
			k.gen(m.src, func(where string, parts ...part) {
				e := edit{k.name, where, parts}
				n++
				if len(parts) > 0 {
					perKind[ki] = append(perKind[ki], job{m, e, n})
				}
			})
		}
		available += len(perKind[ki])
		// Each kind has its own stream, so that a new kind leaves the others'
		// choices as they are.
		rng := rand.New(rand.NewPCG(c.Seed, hashString(k.name)))
		rng.Shuffle(len(perKind[ki]), func(a, b int) { perKind[ki][a], perKind[ki][b] = perKind[ki][b], perKind[ki][a] })
	}
	want := available
	if c.Sample > 0 {
		want = min(want, c.Sample)
	}
	for round := 0; len(jobs) < want; round++ {
		for ki := range perKind {
			if round < len(perKind[ki]) && len(jobs) < want {
				jobs = append(jobs, perKind[ki][round])
			}
		}
	}
	return jobs, available, nil
}

func hashString(s string) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for i := 0; i < len(s); i++ {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// Kinds lists the kinds of edits.
func Kinds() []string {
	var out []string
	for _, k := range kinds {
		out = append(out, k.name)
	}
	return out
}

// try applies an edit.
func (c *Campaign) try(ctx context.Context, j job, worker int) ([]*witness.Pair, error) {
	text := j.e.apply(j.m.src.text)
	if text == nil || bytes.Equal(text, j.m.src.text) {
		return nil, fmt.Errorf("no edit: %w", witness.ErrCompile)
	}
	v, err := c.compile(ctx, j.m, text, worker)
	if err != nil {
		return nil, err
	}
	return witness.ComparePair(j.m.base, v), nil
}

func (r *Report) count(row *KindReport, j job, p *witness.Pair) {
	row.Compared++
	if len(p.Emitted) > 0 {
		row.Emitted++
	}
	if len(p.Changed) > 0 {
		row.Changed++
	}
	f := j.finding()
	f.Evidence = p.Evidence
	if v := p.Violations(); len(v) > 0 {
		row.Violations++
		f.Differences = v
		r.Violations = append(r.Violations, f)
	}
	switch {
	case len(p.Changed) > 0 && len(p.Emitted) == 0:
		row.Unneeded++
		if neutral[j.e.kind] {
			f.Entries = p.Unneeded
			r.Imprecise = append(r.Imprecise, f)
		}
	case len(p.Unneeded) > 0:
		row.Wide++
	}
}

// finding shows an edit in its line.
func (j job) finding() Finding {
	text, p := j.m.src.text, j.e.parts[0]
	begin, end := j.m.src.lineStart(p.off), p.end
	for end < len(text) && text[end] != '\n' {
		end++
	}
	short := func(s string) string {
		if len(s) > 300 {
			s = s[:300] + "..."
		}
		return s
	}
	f := Finding{File: j.m.name, Kind: j.e.kind, Where: j.e.where, Number: j.n}
	f.Before = short(string(text[begin:end]))
	f.After = short(string(text[begin:p.off]) + p.new + string(text[p.end:end]))
	return f
}
