package evolve

import (
	"context"
	"slices"
	"time"
)

// Tool selects tests of the revisions of a program.
type Tool interface {
	// Name is what reports call it.
	Name() string
	// Begin begins with a program, of which nothing is known yet.
	Begin() Session
}

// Session is a tool that goes through the revisions of one program.
type Session interface {
	// Revision goes on to a revision, and returns what the tool has done and seen. Tests are those
	// of the revision, by their names, compiled.
	Revision(ctx context.Context, r *Revision, tests map[string]*Built) (*Result, error)
}

// Result is what a tool has done in a revision.
type Result struct {
	// Selected are the tests that it has executed, or tried to, sorted; Failed are those that it
	// reports as failed, with what it has seen of them.
	Selected []string
	Failed   map[string]*Outcome
	// Analysis is how long it took to select, Execution how long what it has selected took.
	Analysis, Execution time.Duration
	// Unlike are, of a tool that knows what tests execute, those that were left out and don't execute what they did when
	// their outcome was recorded; Collectors are those of which the naive collector doesn't see what the smart one sees. Both are
	// sorted, and have each with what differs.
	Unlike, Collectors []string
}

// Passes reports whether an outcome is a pass of a test: what it prints is what it printed in the first
// revision that has it (the oracle of AutoEP, the paper, II.B).
type Passes func(test string, o *Outcome) bool

// selector is a Tool that only selects. What it selects is executed.
type selector struct {
	name   string
	begin  func() selecting
	passes Passes
}

// selecting is a session of a selector.
type selecting interface {
	// affected reports for each test of a revision whether its code or data require that it
	// is executed.
	affected(tests []*Built) ([]bool, error)
	// executed notes an execution, passed or not.
	executed(ctx context.Context, x *Built, passed bool) error
}

// collecting is a session of a selector that knows what tests execute.
type collecting interface {
	// unlike returns how the execution of a test that was left out differs from the recorded one that decided that, or "".
	unlike(ctx context.Context, x *Built) (string, error)
	// collectors returns how the traces of a test by the naive and the smart collector differ, or "".
	collectors(ctx context.Context, x *Built) (string, error)
}

func (s *selector) Name() string   { return s.name }
func (s *selector) Begin() Session { return &selection{s, s.begin(), map[string]bool{}} }

type selection struct {
	*selector
	selecting
	failed map[string]bool // the last time
}

func (s *selection) Revision(ctx context.Context, r *Revision, tests map[string]*Built) (*Result, error) {
	result := &Result{Failed: map[string]*Outcome{}}
	start := time.Now()
	var list []*Built
	for i := range r.Tests {
		list = append(list, tests[r.Tests[i].Name])
	}
	affected, err := s.affected(list)
	if err != nil {
		return nil, err
	}
	for i, x := range list {
		// What has failed is executed again by all: nobody records it.
		if affected[i] || s.failed[x.Test.Name] {
			result.Selected = append(result.Selected, x.Test.Name)
		}
	}
	slices.Sort(result.Selected)
	result.Analysis = time.Since(start)
	if h, ok := s.selecting.(*hybrid); ok {
		result.Analysis, h.spared = result.Analysis+h.spared, 0
	}
	if c, ok := s.selecting.(collecting); ok {
		if err := result.collect(ctx, c, list); err != nil {
			return nil, err
		}
	}
	for _, name := range result.Selected {
		x := tests[name]
		o, took, err := x.Run(ctx)
		if err != nil {
			return nil, err
		}
		result.Execution += took
		passed := s.passes(name, o)
		if s.failed[name] = !passed; !passed {
			result.Failed[name] = o
		}
		if err := s.executed(ctx, x, passed); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// collect compares the traces of tests: Unlike and Collectors of the result.
func (r *Result) collect(ctx context.Context, c collecting, tests []*Built) error {
	for _, x := range tests {
		differ, err := c.collectors(ctx, x)
		if err != nil {
			return err
		}
		if differ != "" {
			r.Collectors = append(r.Collectors, x.Test.Name+" ("+differ+")")
		}
		if slices.Contains(r.Selected, x.Test.Name) {
			continue
		}
		unlike, err := c.unlike(ctx, x)
		if err != nil {
			return err
		}
		if unlike != "" {
			r.Unlike = append(r.Unlike, x.Test.Name+" ("+unlike+")")
		}
	}
	slices.Sort(r.Unlike)
	slices.Sort(r.Collectors)
	return nil
}

// RetestAll executes everything.
func RetestAll(p Passes) Tool {
	return &selector{"RetestAll", func() selecting { return all{} }, p}
}

type all struct{}

func (all) affected(tests []*Built) ([]bool, error) {
	return slices.Repeat([]bool{true}, len(tests)), nil
}
func (all) executed(context.Context, *Built, bool) error { return nil }

// byKey are tools that know an outcome by a key, whenever that was: "" is a test without one.
type byKey struct {
	keys   func([]*Built) ([]string, error)
	now    map[string]string // of the tests of this revision
	passed map[string]bool
}

func (k *byKey) affected(tests []*Built) ([]bool, error) {
	keys, err := k.keys(tests)
	if err != nil {
		return nil, err
	}
	k.now = map[string]string{}
	affected := make([]bool, len(tests))
	for i, x := range tests {
		k.now[x.Test.Name] = keys[i]
		affected[i] = keys[i] == "" || !k.passed[keys[i]]
	}
	return affected, nil
}

func (k *byKey) executed(_ context.Context, x *Built, passed bool) error {
	if key := k.now[x.Test.Name]; passed && key != "" {
		k.passed[key] = true
	}
	return nil
}

func newByKey(name string, p Passes, keys func([]*Built) ([]string, error)) Tool {
	return &selector{name, func() selecting { return &byKey{keys, nil, map[string]bool{}} }, p}
}

// BazelCache executes a test if any input of its action is another one: what `bazel test` does with
// a cache of all that it has seen.
func BazelCache(p Passes) Tool {
	return newByKey("bazel", p, func(tests []*Built) ([]string, error) {
		keys := make([]string, len(tests))
		for i, x := range tests {
			if x.Err == nil {
				keys[i] = x.Inputs()
			}
		}
		return keys, nil
	})
}

// Ours executes a test if its key by an evidence isn't known.
func Ours(name string, p Passes, e *Evidence) Tool {
	return newByKey(name, p, func(tests []*Built) ([]string, error) { return Keys(tests, e) })
}

// byFiles are tools that compare the last revision in which a test was executed: a test depends on
// the contents of files.
type byFiles struct {
	files func(*Built) []string
	more  func(*Built) string // what else counts
	last  map[string]map[string]string
}

func (f *byFiles) state(x *Built) map[string]string {
	state := map[string]string{}
	for _, name := range f.files(x) {
		state[name] = x.revision.Files[name]
	}
	if f.more != nil {
		state[""] = f.more(x)
	}
	return state
}

func (f *byFiles) affected(tests []*Built) ([]bool, error) {
	affected := make([]bool, len(tests))
	for i, x := range tests {
		last, known := f.last[x.Test.Name]
		affected[i] = !known || x.Err != nil
		for name, text := range last {
			now, ok := x.revision.Files[name]
			if name == "" {
				now, ok = f.more(x), true
			}
			affected[i] = affected[i] || !ok || now != text
		}
	}
	return affected, nil
}

func (f *byFiles) executed(_ context.Context, x *Built, _ bool) error {
	f.last[x.Test.Name] = f.state(x)
	return nil
}

// Targets selects by the build graph, as bazel-diff and target-determinator do: a test is affected if
// a file or a rule is another one of a target that it depends on.
func Targets(p Passes) Tool {
	return &selector{"targets", func() selecting {
		return &byFiles{files: graphFiles, more: rules, last: map[string]map[string]string{}}
	}, p}
}

// Files selects as Ekstazi does (Gligoric, Eloussi, Marinov; ISSTA 2015), as far as that is possible
// without a class loader: a test depends on the contents of the files that were read for what it
// is linked from, and of its data.
func Files(p Passes) Tool {
	return &selector{"files", func() selecting { return &byFiles{files: readFiles, last: map[string]map[string]string{}} }, p}
}

// readFiles are the files that a test is made from, and its data.
func readFiles(x *Built) []string {
	l := slices.Clone(x.Test.Data)
	for _, f := range x.Files {
		for _, u := range f.Units {
			l = append(l, u.Reads...)
		}
	}
	slices.Sort(l)
	return slices.Compact(l)
}

// graphFiles are the files of the rules that a test depends on: of those that were recorded, what
// rules returns says it.
func graphFiles(x *Built) []string {
	if x.recorded != nil {
		return nil
	}
	return readFiles(x)
}

// rules are the attributes of what a test depends on.
func rules(x *Built) string {
	if x.recorded != nil {
		return x.recorded.Graph
	}
	parts := slices.Concat(x.revision.Flags, []string{""}, x.Test.Args, x.Test.Data)
	for _, f := range x.Files {
		parts = append(parts, f.Name, f.Kind)
		parts = append(parts, f.Words...)
	}
	for _, l := range x.revision.Libraries {
		if slices.ContainsFunc(x.Files, func(f *File) bool { return f.Name == "lib"+l.Name+".a" || f.Name == "lib"+l.Name+".so" }) {
			parts = append(append(parts, l.Name), l.Flags...)
		}
	}
	return sum(parts...)
}
