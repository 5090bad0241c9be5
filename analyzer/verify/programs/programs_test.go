// Package programs tests the promise itself: pairs of programs are compiled,
// linked and run, and where the outcomes of two versions differ, so must their
// keys. It knows nothing of why they differ; that is what it is good for.
//
// A pair that isn't marked as the same must differ somewhere, or it tests
// nothing. One that is must have equal keys everywhere: that is precision.
package programs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/probed"
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "probes-")
	if err != nil {
		panic(err)
	}
	probes.Dir = dir
	code := clangtest.Main(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// probes are those of the links of all programs, in a directory without their files.
var probes probed.Links

var exhaustive = flag.Bool("exhaustive", false, "run also what can no longer be a violation, build all configurations of pairs that are known to be tests, not one of three,"+
	" build links of gcc's objects at -O0 as well, and analyse sources in every configuration")

// A finding is what became of one configuration of a pair under one kind of
// evidence. Outcomes are empty if the keys differ, and it is known already that
// the pair is a test: then there is nothing to find out.
type finding struct {
	config
	source   bool
	outcomes [2]string
	keys     [2]string
}

func (f *finding) String() string {
	if f.source {
		return f.config.String() + " by source"
	}
	return f.config.String()
}

func (f *finding) differs() bool   { return f.outcomes[0] != f.outcomes[1] }
func (f *finding) violation() bool { return f.differs() && f.keys[0] == f.keys[1] }
func (f *finding) coarse() bool    { return f.outcomes[0] != "" && !f.differs() && f.keys[0] != f.keys[1] }

// check builds, runs and identifies both versions in every configuration. With traces, those of the first
// configurations with and without optimisation in which both are run are checked as well.
func (p *pair) check(ctx context.Context, objs *objects, key keyer, dir string, traces *traces) (findings []finding, v *version, err error) {
	var versions [2]*version
	var src [2]string
	for i := range versions {
		if versions[i], err = p.version(i); err != nil {
			return nil, nil, err
		}
		src[i] = filepath.Join(dir, fmt.Sprint("src", i))
		for _, f := range versions[i].files {
			if err := write(filepath.Join(src[i], f.Name), f.Data); err != nil {
				return nil, nil, err
			}
		}
	}
	v = versions[0]
	differs, traced := false, map[string]bool{}
	for i, c := range v.configs() {
		if differs && !*exhaustive && (c.like(p.name) || (crc32.ChecksumIEEE([]byte(p.name))+uint32(i))%3 != 0) {
			continue
		}
		if testing.Short() && i > 0 && (differs || v.same || v.coarse) {
			break // it is a test, and was passed
		}
		var programs [2]*program
		for i, v := range versions {
			out := filepath.Join(dir, fmt.Sprintf("%s%s-%s-%d", c.compiler, c.opt, c.mode, i))
			if programs[i], err = plan(ctx, objs, v, src[i], out, c); err != nil {
				return nil, nil, err
			}
		}
		two := []finding{{config: c}}
		if programs[0].bySource() || programs[1].bySource() {
			two = append(two, finding{config: c, source: true})
		}
		needed := *exhaustive || !differs || v.same || v.coarse
		for k := range two {
			f := &two[k]
			for i, x := range programs {
				f.keys[i], err = key(x, f.source)
				if errors.Is(err, errAlwaysRun) {
					f.keys[i] = fmt.Sprintf("version %d: %v", i, err)
				} else if err != nil {
					return nil, nil, fmt.Errorf("%s: version %d: %w", f, i, err)
				}
			}
			needed = needed || f.keys[0] == f.keys[1]
		}
		if needed {
			var outcomes [2]string
			for i, x := range programs {
				if i == 1 && x.content() == programs[0].content() {
					outcomes[1] = outcomes[0]
				} else if outcomes[i], err = x.outcome(ctx); err != nil {
					return nil, nil, fmt.Errorf("%s: version %d: %w", c, i, err)
				}
			}
			for k := range two {
				two[k].outcomes = outcomes
			}
			if traces != nil && !traced[c.opt] && programs[0].content() != programs[1].content() {
				if err := traces.check(ctx, p.name, c, programs, outcomes); err != nil {
					return nil, nil, fmt.Errorf("%s: %w", c, err)
				}
				traced[c.opt] = true
			}
			differs = differs || outcomes[0] != outcomes[1]
		}
		findings = append(findings, two...)
	}
	return findings, v, nil
}

// verdict returns what is wrong with a pair.
func verdict(v *version, findings []finding) (wrong []string) {
	differs := false
	for _, f := range findings {
		differs = differs || f.differs()
		switch {
		case f.violation():
			wrong = append(wrong, fmt.Sprintf("violation: %s: the outcome is %s or %s under one key", &f, f.outcomes[0], f.outcomes[1]))
		case (v.same || v.coarse) && f.differs():
			wrong = append(wrong, fmt.Sprintf("not the same: %s: the outcome is %s or %s", &f, f.outcomes[0], f.outcomes[1]))
		case v.precise(f.source) && f.coarse():
			wrong = append(wrong, fmt.Sprintf("imprecise: %s: two keys for %s", &f, f.outcomes[0]))
		}
	}
	if !v.same && !v.coarse && !differs {
		wrong = append(wrong, fmt.Sprintf("the outcome never differs, so the pair is no test: %s", findings[0].outcomes[0]))
	}
	return wrong
}

func TestPrograms(t *testing.T) {
	for _, name := range []string{"clang", "clang++", "gcc", "g++", "ld.lld"} {
		clangtest.Tool(t, name)
	}
	objs := &objects{dir: t.TempDir(), clang: clangtest.Clang(t)}
	var mu sync.Mutex
	type count struct{ pairs, findings, ran, differ, violations, coarse int }
	counts := map[string]*count{}
	violated, imprecise := map[string][]string{}, map[string][]string{}
	var traced traces
	permitted := trace.Permitted()
	if !permitted {
		t.Log("traces aren't checked: this machine doesn't permit them")
	}
	t.Run("pairs", func(t *testing.T) {
		for i, p := range readCorpus(t) {
			if testing.Short() && i%8 != 0 {
				continue
			}
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				var some *traces
				if permitted && (*allTraces || testing.Short() || strings.HasPrefix(p.name, "trace-")) {
					some = &traced
				}
				findings, v, err := p.check(context.Background(), objs, composed, t.TempDir(), some)
				if err != nil {
					t.Fatal(err)
				}
				for _, w := range verdict(v, findings) {
					t.Error(w)
				}
				mu.Lock()
				defer mu.Unlock()
				category, _, _ := strings.Cut(p.name, "/")
				for _, category := range []string{category, "total"} {
					n := counts[category]
					if n == nil {
						n = &count{}
						counts[category] = n
					}
					n.pairs++
					for _, f := range findings {
						n.findings++
						for x, is := range map[*int]bool{&n.ran: f.outcomes[0] != "", &n.differ: f.differs(), &n.violations: f.violation(), &n.coarse: f.coarse()} {
							if is {
								*x++
							}
						}
					}
				}
				for _, f := range findings {
					if f.violation() {
						violated[p.name] = append(violated[p.name], f.String())
					}
					if f.coarse() && v.precise(f.source) {
						imprecise[p.name] = append(imprecise[p.name], f.String())
					}
				}
			})
		}
	})
	categories := make([]string, 0, len(counts))
	for c := range counts {
		categories = append(categories, c)
	}
	slices.Sort(categories)
	for _, c := range categories {
		n := counts[c]
		t.Logf("%-14s %4d pairs, %4d findings, %4d with outcomes: %4d differ, %4d of them under one key; %4d equal under two keys", c, n.pairs, n.findings, n.ran, n.differ, n.violations, n.coarse)
	}
	for what, pairs := range map[string]map[string][]string{"violate": violated, "are imprecise": imprecise} {
		var names []string
		for name, configs := range pairs {
			names = append(names, fmt.Sprintf("%s (%s)", name, strings.Join(configs, "; ")))
		}
		slices.Sort(names)
		t.Logf("%d pairs %s:\n%s", len(names), what, strings.Join(names, "\n"))
	}
	t.Log(traced.String())
	var cpu time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err == nil {
			cpu += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	t.Logf("%.0f CPU seconds", cpu.Seconds())
}
