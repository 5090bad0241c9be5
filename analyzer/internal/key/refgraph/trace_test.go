package refgraph

import (
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkmodel"
)

// traced is the closure of a program in which some functions are idle.
func (p prog) traced(t testing.TB, idle string) *Closure {
	t.Helper()
	names := map[string]bool{}
	for _, name := range strings.Fields(idle) {
		names[name] = true
	}
	pool := NewPool()
	x := p.add(t, pool, nil, linkmodel.GNU)
	return pool.NewComposer().Compose(x, Roots{Symbols: []string{"main"}, Idle: names})
}

// Each case holds two programs, the functions that the first one didn't enter, and whether both then
// have the same hash.
func TestTraces(t *testing.T) {
	for _, tc := range []struct {
		name, idle string
		a, b       prog
		same       bool
	}{
		{"content of a stub", "f", prog{"code main 1 -> f", "code f 1"}, prog{"code main 1 -> f", "code f 2"}, true},
		{"links of a stub", "f", prog{"code main 1 -> f", "code f 1 -> g \n code g 1"}, prog{"code main 1 -> f", "code f 1 -> h \n code h 1"}, true},
		{"what only a stub reaches", "f", prog{"code main 1 -> f", "code f 1 -> g \n code g 1"}, prog{"code main 1 -> f", "code f 1 -> g \n code g 2"}, true},
		{"what a stub and another function reach", "f", prog{"code main 1 -> f g", "code f 1 -> g \n code g 1"}, prog{"code main 1 -> f g", "code f 1 -> g \n code g 2"}, false},
		{"name of a stub", "f g", prog{"code main 1 -> f", "code f 1"}, prog{"code main 1 -> g", "code g 1"}, false},
		{"name of a local stub", "f g", prog{"code main 1 -> f \n static code f 1"}, prog{"code main 1 -> g \n static code g 1"}, false},
		{"linkage of a stub", "f", prog{"code main 1 -> f", "code f 1"}, prog{"code main 1 -> f", "weak code f 1"}, false},
		{"a stub is no longer there", "f", prog{"code main 1 -> f", "code f 1"}, prog{"code main 1 -> f", "code g 1"}, false},
		{"what isn't a function", "f", prog{"code main 1 -> f", "f 1"}, prog{"code main 1 -> f", "f 2"}, false},
		{"a function becomes something else", "f", prog{"code main 1 -> f", "code f 1"}, prog{"code main 1 -> f", "f 1"}, false},
		{"a function that runs by itself", "f", prog{"code main 1", "root code f 1"}, prog{"code main 1", "root code f 2"}, false},
		{"an initialiser is added", "f", prog{"code main 1 -> f", "code f 1"}, prog{"code main 1 -> f", "code f 1 \n root code g 2"}, false},
		{"a table of functions, one of them a stub", "f", prog{"code main 1 -> t", "t 1 -> f g", "code f 1", "code g 1"}, prog{"code main 1 -> t", "t 1 -> g f", "code f 1", "code g 1"}, false},
		{"what was entered", "g", prog{"code main 1 -> f g", "code f 1", "code g 1"}, prog{"code main 1 -> f g", "code f 2", "code g 1"}, false},
		{"what has been entered is called elsewhere", "g", prog{"code main 1 -> f g", "code f 1", "code g 1"}, prog{"code main 1 -> g f", "code f 1", "code g 1"}, false},
		{"another definition of a stub wins", "f", prog{"code main 1 -> f", "weak code f 1", "weak code f 2"}, prog{"code main 1 -> f", "weak code f 2", "weak code f 1"}, true},
		{"local stubs of one name are exchanged", "s",
			prog{"code main 1 -> f g", "code f 1 -> s \n static code s 1", "code g 2 -> s \n static code s 2"},
			prog{"code main 1 -> f g", "code f 1 -> s \n static code s 2", "code g 2 -> s \n static code s 1"}, true},
		{"local stubs of one name become one", "s",
			prog{"code main 1 -> f g", "code f 1 -> s \n static code s 1", "code g 2 -> s \n static code s 1"},
			prog{"code main 1 -> f g", "code f 1 -> s \n code g 2 -> s \n static code s 1"}, false},
		// No execution sees in which file a stub is. What sees in which file it is itself refers to a symbol
		// of which each file has its own (finalize-twins-cxx).
		{"twins with stubs are exchanged", "s",
			prog{"code main 1 -> f g", "code f 1 -> h \n static code h 5 -> s \n static code s 1", "lib", "code g 2 -> h \n static code h 5 -> s \n static code s 1"},
			prog{"code main 1 -> f g", "code g 2 -> h \n static code h 5 -> s \n static code s 1", "lib", "code f 1 -> h \n static code h 5 -> s \n static code s 1"}, true},
	} {
		a, b := tc.a.traced(t, tc.idle), tc.b.traced(t, tc.idle)
		if (a.Hash == b.Hash) != tc.same {
			t.Errorf("%s: same is %t, want %t", tc.name, a.Hash == b.Hash, tc.same)
		}
		if a.Hash == tc.a.closure(t).Hash {
			t.Errorf("%s: a trace has the hash of all", tc.name)
		}
		if c := tc.a.traced(t, strings.Join(a.Idle, " ")); c.Hash != a.Hash {
			t.Errorf("%s: %q isn't all that decides of what is idle", tc.name, a.Idle)
		}
	}
}

// A composer that has seen traces composes as ever.
func TestTracesAndOthers(t *testing.T) {
	p := prog{"code main 1 -> f g", "code f 1 -> h", "code g 2 -> h \n code h 3"}
	pool := NewPool()
	x := p.add(t, pool, nil, linkmodel.GNU)
	c := pool.NewComposer()
	var want [3]Hash
	idle := []map[string]bool{nil, {"f": true}, {"h": true}}
	for i := range idle {
		want[i] = pool.NewComposer().Compose(x, Roots{Symbols: []string{"main"}, Idle: idle[i]}).Hash
	}
	for i, k := range []int{0, 1, 2, 1, 0, 2, 2, 0} {
		if got := c.Compose(x, Roots{Symbols: []string{"main"}, Idle: idle[k]}).Hash; got != want[k] {
			t.Errorf("composition %d, of %v, has another hash", i, idle[k])
		}
	}
	if slices.Contains(want[:2], want[2]) || want[0] == want[1] {
		t.Error("different closures have one hash")
	}
}

// Who can look at what isn't entered has no trace.
func TestTracesOpaque(t *testing.T) {
	for symbol, want := range map[string]string{"dlinfo": "dlinfo", "backtrace_full": "backtrace_full", "_end": "_end", "_ZNSt4__Cr4coutE": "_ZNSt4__Cr4coutE", "dladdr": "where functions begin", "_Unwind_Find_FDE": "where functions begin", "puts": ""} {
		p := prog{"code main 1 -> f", "code f 1 -> " + symbol}
		if got := p.traced(t, "").Opaque; (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", symbol, got, want)
		}
		if got := p.traced(t, "f").Opaque; got != "" {
			t.Errorf("%s, which isn't executed: %q", symbol, got)
		}
	}
}
