package report

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// sample makes up runs of a project, as they could have been: mostly small
// changes, now and then one that everything includes, a day without the store,
// tests that always run and tests in other languages. The same seed, the same
// runs.
func sample(runs, tests int, seed uint64) []*Run {
	rng := rand.New(rand.NewPCG(seed, 1))
	packages := max(9, tests/12)
	label := func(i int) string {
		return fmt.Sprintf("//%s/%s:%s_test", []string{"net", "base", "codec", "storage", "ui"}[i%packages%5],
			[]string{"http", "pool", "frame", "index", "layout", "cache", "text"}[i%packages%7], fmt.Sprintf("case_%05d", i))
	}
	cost := make([]float64, tests)
	for i := range cost {
		cost[i] = float64(int(rng.ExpFloat64()*4000)+3) / 1000
	}
	var list []*Run
	start := time.Date(2026, 3, 2, 7, 30, 0, 0, time.UTC)
	for n := range runs {
		start = start.Add(time.Duration(20+rng.IntN(300)) * time.Minute)
		branch := "main"
		if n%3 == 1 {
			branch = fmt.Sprintf("feature/%d", n/7)
		}
		r := &Run{
			ID: fmt.Sprintf("%08x", rng.Uint32()), Start: start, Workspace: "shipyard", Branch: branch, Host: fmt.Sprintf("ci-%d", 1+rng.IntN(4)),
			Commit: fmt.Sprintf("%016x%016x%08x", rng.Uint64(), rng.Uint64(), rng.Uint32()),
			Store:  Store{Location: "grpcs://cache.example.com/tasting"},
		}
		pkg, second := rng.IntN(packages), rng.IntN(packages)
		all := n == 0 || rng.IntN(25) == 0
		down := n > 0 && n == runs/2
		if n%5 != 4 {
			r.Cost = &Cost{WallSeconds: 30 + float64(n), DecidingSeconds: 4 + float64(n%7), AnalysisCPUSeconds: 1.5, Actions: map[string]int{"CppCompile": 10 + n, "TastingObject": 3}}
		}
		for i := range tests {
			t := Test{Label: label(i), Status: "PASSED", Seconds: cost[i], Fingerprint: fmt.Sprintf("%064x", i)}
			if rng.IntN(40) == 0 && n < runs*i/(2*tests) {
				continue // didn't exist yet
			}
			switch {
			case i%97 == 5:
				t.Verdict, t.Reason, t.Fingerprint = AlwaysRun, "tag external", ""
			case i%41 == 7:
				t.Verdict, t.Fingerprint = Other, ""
				t.Cached = n%4 != 0
			case down:
				t.Verdict, t.Reason = Miss, "store could not be read: no answer within 10s"
			case all:
				t.Verdict, t.Reason, t.Changed = Miss, "nothing recorded", []string{"base::Buffer::grow(unsigned long)"}
				if n == 0 {
					t.Changed = nil
				}
			case i%packages == pkg, i%packages == second && i%3 == 0:
				t.Verdict, t.Reason = Miss, "nothing recorded"
				t.Changed = []string{fmt.Sprintf("codec::Frame%d::decode(std::string_view)", pkg%9)}
				if i%3 == 0 {
					t.Changed = append(t.Changed, "_ZTVN3net10ConnectionE")
				}
				if rng.IntN(30) == 0 {
					t.Status = "FAILED"
				}
			default:
				t.Verdict = Hit
				t.Audited = rng.IntN(100) == 0
			}
			if rng.IntN(400) == 0 && t.Verdict == Miss {
				t.Status = "FLAKY"
			}
			if t.Verdict == Hit || t.Verdict == Miss {
				r.Store.Lookups++
				switch {
				case down:
					r.Store.Errors++
				case t.Verdict == Hit:
					r.Store.Hits++
				default:
					r.Store.Misses++
				}
			}
			r.Tests = append(r.Tests, t)
		}
		r.Store.LookupSeconds = float64(r.Store.Lookups)*(0.0006+0.0004*rng.Float64()) + 0.01
		if down {
			r.Store.LookupSeconds += float64(tests) * 0.004
		}
		if n%17 == 11 {
			r.Store.Damaged, r.Store.Misses = 1, max(0, r.Store.Misses-1)
		}
		r.Fallbacks = []Fallback{
			{"third_party/crypto/x86.S", "object", "assembler source", tests / 3},
			{"base/legacy.c", "file", "clang reported an error in base/legacy.c: function definition is not allowed here", tests / 9},
			{"codec/simd.c", "function, with its token text", "asm", tests / 12},
		}
		if n < runs/3 {
			r.Fallbacks = append(r.Fallbacks, Fallback{"ui/modules.cc", "always run", "unit imports a module", 4})
		}
		r.End = start.Add(time.Duration(len(r.Tests)) * 40 * time.Millisecond)
		list = append(list, r)
	}
	return list
}
