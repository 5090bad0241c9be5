package fingerprint

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/refgraph"
)

// Composed is the result of ComposeAll for one test.
type Composed struct {
	// Config and Warnings are those of Compose.
	Config   *Config
	Warnings []string
	// Fingerprint is that of Compose's report, in hex.
	Fingerprint string
	// Err is why this test can't be composed: then there is nothing else.
	Err error

	test *Test
}

func (c *Composed) set(x *composition) {
	c.Config, c.Warnings, c.Fingerprint = x.config, x.warnings, combine(x.contributions)
}

// Report composes the test once more, alone, for the report of its closure.
// It is an error if its fingerprint isn't the same, because a file has changed.
func (c *Composed) Report() (*Report, error) {
	if c.Err != nil {
		return nil, c.Err
	}
	_, r, _, err := Compose(c.test)
	if err != nil {
		return nil, err
	}
	if r.Fingerprint != c.Fingerprint {
		return nil, fmt.Errorf("%s: its fingerprint was %s and now is %s: a manifest or a data file has been changed meanwhile; start again", c.test.Binary, c.Fingerprint, r.Fingerprint)
	}
	return r, nil
}

// Stats says how ComposeAll came to its results.
type Stats struct {
	Manifests  int // files read
	Components int
	Links      int
	// Alone is the number of tests that were composed by Compose: all that they
	// link can be reached, or there is doubt whether the result would be that
	// of Compose.
	Alone int
	// Affected is the number of components that were hashed for one of the
	// other tests alone, beside what all have in common.
	Affected int
	// Fallbacks are the sources that aren't analysed at the level of functions.
	Fallbacks []Fallback
}

// Fallback is a source that was stepped down for (docs/fallbacks.md).
type Fallback struct {
	Source string
	Rung   string // where it is now
	Reason string
	Tests  int // that link it
}

// ComposeAll composes all tests of an invocation, and reads each of their files
// once. The result for each test is that of Compose for this test, whatever
// else is in the invocation.
func ComposeAll(tests []*Test) ([]Composed, Stats) {
	var stats Stats
	number := map[string]int32{}
	var files []string
	links := make([][]int32, len(tests))
	for i, t := range tests {
		links[i] = make([]int32, len(t.Manifests))
		for k, f := range t.Manifests {
			n, ok := number[f]
			if !ok {
				n = int32(len(files))
				number[f] = n
				files = append(files, f)
			}
			links[i][k] = n
		}
	}
	number = nil
	inputs := make([]*input, len(files))
	units := make([]*refgraph.Unit, len(files))
	parallel(len(files), func() func(int) {
		return func(i int) {
			var m *manifest.Manifest
			if m, inputs[i] = readInput(files[i]); m != nil {
				units[i] = refgraph.NewUnit(m)
			}
		}
	})
	stats.Manifests = len(files)
	// Units are what can be used of the manifests.
	unit := make([]int32, len(files))
	var usable []*refgraph.Unit
	for i, u := range units {
		unit[i] = -1
		if u != nil {
			unit[i] = int32(len(usable))
			usable = append(usable, u)
		}
	}
	units = nil
	stats.Fallbacks = fallbacks(inputs, links)
	programs := make([][]int32, len(tests))
	parallel(len(tests), func() func(int) {
		return func(i int) {
			programs[i] = make([]int32, 0, len(links[i]))
			for _, n := range links[i] {
				if unit[n] >= 0 {
					programs[i] = append(programs[i], unit[n])
				}
			}
		}
	})
	u := refgraph.NewUniverse(usable, programs)
	stats.Components, stats.Links = u.Len(), u.Links()
	overrides := u.Defined(overrides())
	data := new(digests)
	out := make([]Composed, len(tests))
	var alone, affected atomic.Int64
	batch := min(refgraph.ShareMax, (len(tests)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	parallel((len(tests)+batch-1)/max(batch, 1), func() func(int) {
		p, sharer := u.NewProgram(), u.NewSharer()
		var in []*input
		return func(b int) {
			type pending struct {
				to *Composed
				x  *composition
			}
			var together []pending
			var closures []*refgraph.ProgramClosure
			for i := b * batch; i < min((b+1)*batch, len(tests)); i++ {
				t, c := tests[i], &out[i]
				in = in[:0]
				for _, n := range links[i] {
					in = append(in, inputs[n])
				}
				c.test = t
				var x *composition
				x, c.Err = compose(t, in, data.digest, func(roots Roots) code { return roots.together(p, programs[i], in, overrides) })
				if x != nil {
					affected.Add(int64(p.Affected()))
					together, closures = append(together, pending{c, x}), append(closures, x.closure.(*refgraph.ProgramClosure))
				} else if c.Err == nil {
					alone.Add(1)
					if x, _, _, c.Err = composeAlone(t); c.Err == nil {
						c.set(x)
					}
				}
			}
			sharer.Share(closures)
			for _, y := range together {
				y.x.finish()
				y.to.set(y.x)
			}
		}
	})
	stats.Alone, stats.Affected = int(alone.Load()), int(affected.Load())
	return out, stats
}

func fallbacks(inputs []*input, links [][]int32) []Fallback {
	tests := make([]int, len(inputs))
	for _, l := range links {
		for _, n := range l {
			tests[n]++
		}
	}
	var l []Fallback
	for i, in := range inputs {
		if in.fallback != nil {
			f := *in.fallback
			f.Tests = tests[i]
			l = append(l, f)
		}
	}
	slices.SortFunc(l, func(a, b Fallback) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Rung, b.Rung), strings.Compare(a.Reason, b.Reason), b.Tests-a.Tests)
	})
	return l
}

// together is closure for a program of a universe.
func (r Roots) together(p *refgraph.Program, units []int32, inputs []*input, overrides []int32) code {
	lookup, weak := false, false
	for _, in := range inputs {
		lookup, weak = lookup || in.lookup, weak || in.weak
	}
	resolved := r.resolve(lookup)
	if resolved.Exported || len(r.OnDemand) > 0 && weak {
		return code{failed: true}
	}
	p.Link(units)
	c, ok := p.Closure(resolved, overrides)
	if !ok {
		return code{failed: true}
	}
	ambiguous := c.Ambiguous()
	if len(r.OnDemand) > 0 && (ambiguous || c.RootIn(r.OnDemand)) {
		return code{failed: true}
	}
	return code{closure: c, linking: ambiguous}
}

// parallel calls a function with 0 to n-1, in any order, on all processors. New
// makes one for each of them.
func parallel(n int, new func() func(i int)) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			f := new()
			for {
				i := int(next.Add(1) - 1)
				if i >= n {
					return
				}
				f(i)
			}
		})
	}
	wg.Wait()
}

// digests remembers the digests of files.
type digests struct{ files sync.Map }

func (d *digests) digest(file string) (string, bool, error) {
	type result struct {
		sum        string
		executable bool
		err        error
	}
	once, _ := d.files.LoadOrStore(file, sync.OnceValue(func() result {
		sum, executable, err := digest(file)
		return result{sum, executable, err}
	}))
	r := once.(func() result)()
	return r.sum, r.executable, r.err
}
