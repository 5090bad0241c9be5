package evolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

func (r *Revision) equal(x *Revision) bool { return reflect.DeepEqual(r, x) }

// ErrUnfit is why a program is no evolving program: what its tests print in the first revision is the
// oracle, so they have to pass; and a revision that doesn't compile isn't tested by anybody.
var ErrUnfit = errors.New("unfit")

// Check runs a program through tools, which makeTools returns for its oracle, and RetestAll.
func Check(ctx context.Context, b *Builder, p *Program, makeTools func(Passes) []Tool) (*Trace, error) {
	built := make([]map[string]*Built, len(p.Revisions))
	for i, r := range p.Revisions {
		if err := r.Validate(); err != nil {
			return nil, fmt.Errorf("%s: revision %d: %w", p.Name, i, err)
		}
		var err error
		if built[i], err = b.Build(ctx, r); err != nil {
			return nil, fmt.Errorf("%s: revision %d: %w", p.Name, i, err)
		}
		for _, name := range slices.Sorted(maps.Keys(built[i])) {
			if err := built[i][name].Err; err != nil {
				return nil, fmt.Errorf("%w: %s: revision %d: test %s: %w", ErrUnfit, p.Name, i, name, err)
			}
		}
	}
	oracle := map[string]*Outcome{}
	for i, r := range p.Revisions {
		for _, x := range r.Tests {
			if oracle[x.Name] != nil {
				continue
			}
			o, _, err := built[i][x.Name].Run(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: revision %d: test %s: %w", p.Name, i, x.Name, err)
			}
			if !o.OK() {
				return nil, fmt.Errorf("%w: %s: revision %d: test %s: %s", ErrUnfit, p.Name, i, x.Name, o.Status)
			}
			oracle[x.Name] = o
		}
	}
	return follow(ctx, p, built, func(test string, o *Outcome) bool { return o.OK() && o.Same(oracle[test]) }, makeTools)
}

// follow runs the revisions of a program through RetestAll and then through tools.
func follow(ctx context.Context, p *Program, built []map[string]*Built, passes Passes, makeTools func(Passes) []Tool) (*Trace, error) {
	t := &Trace{Program: p, Results: map[string][]*Result{}}
	for i, r := range p.Revisions {
		outcomes, passed := map[string]*Outcome{}, map[string]bool{}
		for _, x := range r.Tests {
			o, _, err := built[i][x.Name].Run(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: revision %d: test %s: %w", p.Name, i, x.Name, err)
			}
			outcomes[x.Name], passed[x.Name] = o, passes(x.Name, o)
		}
		t.Outcomes, t.Passed = append(t.Outcomes, outcomes), append(t.Passed, passed)
	}
	for _, tool := range makeTools(passes) {
		s := tool.Begin()
		t.Tools = append(t.Tools, tool.Name())
		for i, r := range p.Revisions {
			x, err := s.Revision(ctx, r, built[i])
			if err != nil {
				return nil, fmt.Errorf("%s: revision %d: %s: %w", p.Name, i, tool.Name(), err)
			}
			t.Results[tool.Name()] = append(t.Results[tool.Name()], x)
		}
	}
	return t, nil
}

// Report is what became of many programs.
type Report struct {
	// Programs are those that were checked, Unfit those that weren't, by mode.
	Programs, Unfit map[string]int
	Tools           []string
	Violations      []*Violation
	// Sums are of all revisions but the first of each program, by tool.
	Sums map[string]*Sums
}

// Sums are what a tool has done.
type Sums struct {
	Tests, Selected     int // of the tests in these revisions, those that were selected
	Affected            int // tests whose outcome is another one than in the revision before
	Analysis, Execution time.Duration
}

// Campaign checks programs.
type Campaign struct {
	Builder *Builder
	Tools   func(Passes) []Tool
	// Found is called for each program with violations, Progress after each program, if they aren't nil.
	Found    func(p *Program, v []*Violation)
	Progress func(done int)
}

// round is how many programs are checked before all that was built is forgotten: disk and memory
// hold one round, however long a campaign is.
const round = 512

// Run checks programs, several at once.
func (c *Campaign) Run(ctx context.Context, programs iter.Seq[*Program]) (*Report, error) {
	r := &Report{Programs: map[string]int{}, Unfit: map[string]int{}, Sums: map[string]*Sums{}}
	next, stop := iter.Pull(programs)
	defer stop()
	for done := 0; ; done += round {
		more, err := c.round(ctx, r, next, done)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		if err := c.Builder.Forget(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(r.Violations, compare)
	return r, nil
}

// round checks some programs, and tells whether there are more.
func (c *Campaign) round(ctx context.Context, r *Report, next func() (*Program, bool), done int) (more bool, err error) {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.NumCPU())
	for range round {
		var p *Program
		if p, more = next(); !more || ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			t, err := Check(ctx, c.Builder, p, c.Tools)
			mu.Lock()
			defer mu.Unlock()
			if done++; c.Progress != nil {
				c.Progress(done)
			}
			if errors.Is(err, ErrUnfit) {
				r.Unfit[p.Mode]++
				return nil
			}
			if err != nil {
				return err
			}
			r.add(t, c.Found)
			return nil
		})
	}
	return more, g.Wait()
}

func (r *Report) add(t *Trace, found func(*Program, []*Violation)) {
	r.Programs[t.Program.Mode]++
	r.Tools = t.Tools
	for i := 1; i < len(t.Outcomes); i++ {
		for _, tool := range t.Tools {
			s := r.Sums[tool]
			if s == nil {
				s = new(Sums)
				r.Sums[tool] = s
			}
			x := t.Results[tool][i]
			s.Tests += len(t.Outcomes[i])
			s.Selected += len(x.Selected)
			s.Analysis += x.Analysis
			s.Execution += x.Execution
			for name, o := range t.Outcomes[i] {
				if before := t.Outcomes[i-1][name]; before == nil || !before.Same(o) {
					s.Affected++
				}
			}
		}
	}
	if v := t.Check(); len(v) > 0 {
		r.Violations = append(r.Violations, v...)
		if found != nil {
			found(t.Program, v)
		}
	}
}

func compare(a, b *Violation) int {
	return cmp.Or(strings.Compare(a.Rule, b.Rule), strings.Compare(a.Tool, b.Tool), strings.Compare(a.Mode, b.Mode), strings.Compare(a.Program, b.Program), a.Revision-b.Revision)
}
