package check

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

	"github.com/rules-tasting/rules_tasting/analyzer/ctext"
)

// Campaign describes a mutation campaign: small edits of real code, each
// compared with the original as ComparePair does. An edit that changes what is
// emitted and no hash is a violation; one that changes a hash and nothing that
// is emitted costs precision.
type Campaign struct {
	// Commands are the compiler's command lines, one source file each.
	Commands [][]string
	// Clang dumps syntax trees and expands #include lines.
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
	// Full also compares the code after all optimisations.
	Full bool
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
	// Kinds has a row for each kind of edit, and Total is their sum.
	Kinds      []KindReport `json:"kinds"`
	Total      KindReport   `json:"total"`
	Violations []Finding    `json:"violations"`
	// Imprecise are neutral edits that changed a hash though nothing that is
	// emitted differs.
	Imprecise []Finding `json:"imprecise,omitempty"`
}

// KindReport counts the edits of one kind.
type KindReport struct {
	Kind string `json:"kind"`
	// Neutral kinds are meant not to change anything.
	Neutral  bool `json:"neutral,omitempty"`
	Tried    int  `json:"tried"`
	Compiled int  `json:"compiled"`
	// Emitted differ in code or data, or at least in IR.
	Emitted int `json:"emitted"`
	// Changed differ in the identity of at least one entry.
	Changed int `json:"changed"`
	// Unneeded differ in an identity, and in nothing that is emitted.
	Unneeded int `json:"unneeded"`
	// Wide differ in what is emitted, and also in the identity of entries that
	// don't reach it.
	Wide       int `json:"wide"`
	Violations int `json:"violations"`
	// Fallback were analysed as a whole file.
	Fallback int `json:"fallback"`
}

// Finding is an edit to look at.
type Finding struct {
	File  string `json:"file"`
	Kind  string `json:"kind"`
	Where string `json:"where"`
	// Before and After show the first edited place.
	Before string `json:"before"`
	After  string `json:"after"`
	// Differences aren't explained by any hash.
	Differences []Explanation `json:"differences,omitempty"`
	// Entries changed without need.
	Entries []string `json:"entries,omitempty"`
	// Number identifies the edit within its kind and file.
	Number int `json:"number"`
}

// mutant is a translation unit under mutation.
type mutant struct {
	dir    string
	name   string
	argv   []string // without the source
	src    *source
	base   *Analysis
	objs   []*Object
	levels []Level
}

// job is one edit to try.
type job struct {
	m    *mutant
	e    edit
	n    int
	kind int
}

// Run runs the campaign. Temporary files are removed.
func (c *Campaign) Run(ctx context.Context) (*Report, error) {
	tmp, err := os.MkdirTemp("", "tasting-mutate-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	var deadline time.Time
	if c.Time > 0 {
		deadline = time.Now().Add(c.Time)
	}
	var mutants []*mutant
	for i, argv := range c.Commands {
		m, err := c.prepare(ctx, argv, filepath.Join(tmp, fmt.Sprint(i)))
		if err != nil {
			return nil, err
		}
		mutants = append(mutants, m)
	}
	jobs, available, err := c.plan(mutants)
	if err != nil {
		return nil, err
	}
	r := &Report{Seed: c.Seed, Available: available, Planned: len(jobs), Violations: []Finding{}}
	rows := make([]KindReport, len(kinds))
	var mu sync.Mutex
	var wg sync.WaitGroup
	var firstErr error
	queue := make(chan job)
	for w := range runtime.GOMAXPROCS(0) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := range queue {
				p, err := c.try(ctx, j, w)
				mu.Lock()
				switch {
				case err != nil && !errors.Is(err, ErrCompile):
					if firstErr == nil {
						firstErr = err
					}
				default:
					r.count(&rows[j.kind], j, p)
				}
				if c.Progress != nil {
					c.Progress(r.Tried, r.Planned)
				}
				mu.Unlock()
			}
		}()
	}
	for _, j := range jobs {
		if ctx.Err() != nil || !deadline.IsZero() && time.Now().After(deadline) {
			break
		}
		queue <- j
	}
	close(queue)
	wg.Wait()
	if firstErr == nil {
		firstErr = ctx.Err()
	}
	if firstErr != nil {
		return nil, firstErr
	}
	r.Total.Kind = "total"
	for i, row := range rows {
		if row.Tried == 0 {
			continue
		}
		row.Kind, row.Neutral = kinds[i].name, neutral[kinds[i].name]
		r.Kinds = append(r.Kinds, row)
		r.Total.Tried += row.Tried
		r.Total.Compiled += row.Compiled
		r.Total.Emitted += row.Emitted
		r.Total.Changed += row.Changed
		r.Total.Unneeded += row.Unneeded
		r.Total.Wide += row.Wide
		r.Total.Violations += row.Violations
		r.Total.Fallback += row.Fallback
	}
	for _, l := range [][]Finding{r.Violations, r.Imprecise} {
		slices.SortFunc(l, func(a, b Finding) int {
			return strings.Compare(a.Kind+"\x00"+a.File+fmt.Sprintf("%08d", a.Number), b.Kind+"\x00"+b.File+fmt.Sprintf("%08d", b.Number))
		})
	}
	return r, nil
}

func withoutPasses(l Level) bool { return strings.HasSuffix(l.Name, "without passes") }

// prepare puts a unit into one file, and compiles and analyses it.
func (c *Campaign) prepare(ctx context.Context, argv []string, dir string) (*mutant, error) {
	flags, text, file, err := split(argv)
	if err != nil {
		return nil, err
	}
	all, err := rewriteIncludes(ctx, c.Clang, argv)
	if err != nil {
		return nil, err
	}
	inv, err := ctext.ParseArgs(argv)
	if err != nil {
		return nil, err
	}
	cxx := inv.Lang == "c++"
	m := &mutant{dir: dir, name: filepath.Base(file), argv: join([]string{argv[0]}, join(flags, text)), src: readSource(file, all, cxx, c.Main)}
	m.levels = Levels(true, argv, c.Full)
	if !cxx {
		// IR shows what the front end's code shows, and more. Of C++ the analyzer
		// itself reads IR: there code is the witness.
		m.levels = slices.DeleteFunc(m.levels, withoutPasses)
	}
	// The one file must be as good as the original.
	direct, err := Compile(ctx, argv, true, m.levels)
	if cxx && errors.Is(err, ErrCompile) { // Coroutines need passes.
		m.levels = slices.DeleteFunc(Levels(true, argv, true), withoutPasses)
		direct, err = Compile(ctx, argv, true, m.levels)
	}
	if err != nil {
		return nil, err
	}
	if _, err := c.compare(ctx, m, all, 0); err != nil {
		return nil, err
	}
	if !m.base.Clang {
		return nil, fmt.Errorf("%s: mutation needs clang as the compiler, %s is another one", file, argv[0])
	}
	for k := range m.levels {
		if d := Compare(direct[k], m.objs[k]); len(d) > 0 {
			return nil, fmt.Errorf("%s: with its headers in one file, %s of %s differs at %s: can't mutate this unit", file, d[0].What, d[0].Unit, m.levels[k].Name)
		}
	}
	return m, nil
}

// compare compiles and analyses text and compares it with the original, which
// is what the first call for a mutant gets.
func (c *Campaign) compare(ctx context.Context, m *mutant, text []byte, worker int) (*Pair, error) {
	dir := filepath.Join(m.dir, fmt.Sprint(worker))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, m.name)
	if err := os.WriteFile(file, text, 0o666); err != nil {
		return nil, err
	}
	argv := join(m.argv, nil, file)
	objs, err := Compile(ctx, argv, true, m.levels)
	if err != nil {
		return nil, err
	}
	a, err := Analyze(ctx, argv, c.Clang)
	if err != nil {
		return nil, err
	}
	if m.objs == nil {
		m.base, m.objs = a, objs
		return nil, nil
	}
	return ComparePair(m.base.fresh(), a, m.objs, objs, m.levels), nil
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
					perKind[ki] = append(perKind[ki], job{m, e, n, ki})
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

// try applies an edit. A nil pair without an error means that the edit changes
// nothing in the text.
func (c *Campaign) try(ctx context.Context, j job, worker int) (*Pair, error) {
	text := j.e.apply(j.m.src.text)
	if text == nil || bytes.Equal(text, j.m.src.text) {
		return nil, fmt.Errorf("no edit: %w", ErrCompile)
	}
	return c.compare(ctx, j.m, text, worker)
}

func (r *Report) count(row *KindReport, j job, p *Pair) {
	r.Tried++
	row.Tried++
	if p == nil {
		return
	}
	row.Compiled++
	if len(p.Emitted) > 0 {
		row.Emitted++
	}
	if len(p.Changed) > 0 {
		row.Changed++
	}
	if p.Fallback != "" {
		row.Fallback++
	}
	f := j.finding()
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
