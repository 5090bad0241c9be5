package refgraph

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkmodel"
)

// factory is the name of the factory of a case S.name.
func factory(name string) string {
	return "_ZN7testing8internal15TestFactoryImplI8S_" + name + "_TestE10CreateTestEv"
}

// withFactories writes the factories' names for makeA, makeB and makeC.
func (p prog) withFactories() prog {
	for i := range p {
		for _, name := range []string{"A", "B", "C"} {
			p[i] = strings.ReplaceAll(p[i], "make"+name, factory(name))
		}
	}
	return p
}

// casesOf returns the hashes of the cases of a program by their IDs.
func (p prog) casesOf(t testing.TB) (map[string]Hash, *Closure) {
	t.Helper()
	p.withFactories()
	pool := NewPool()
	x := p.add(t, pool, nil, linkmodel.GNU)
	c := pool.NewComposer()
	closure := c.Compose(x, Roots{Symbols: []string{"main"}, Cases: true})
	m := map[string]Hash{}
	for _, one := range closure.Cases {
		m[one.ID] = one.Hash
	}
	if again := c.Compose(x, Roots{Symbols: []string{"main"}}); again.Hash != closure.Hash || len(again.Cases) > 0 {
		t.Error("cases change the closure, or the composer")
	}
	if got, want := len(closure.Members()), len(p.closure(t).Members()); got != want {
		t.Errorf("with cases the closure has %d members, want %d", got, want)
	}
	return m, closure
}

// Each test holds two programs and the cases that differ. The rest is the case "".
func TestCases(t *testing.T) {
	const both = "code main 1 -> makeA makeB"
	for _, tc := range []struct {
		name string
		a, b prog
		want string
	}{
		{"nothing", prog{both, "code makeA 1", "code makeB 1"}, prog{both, "code makeA 1", "code makeB 1"}, ""},
		{"a factory", prog{both, "code makeA 1", "code makeB 1"}, prog{both, "code makeA 2", "code makeB 1"}, "S_A_Test"},
		{"what one case reaches", prog{both, "code makeA 1 -> f", "code makeB 1", "code f 1"}, prog{both, "code makeA 1 -> f", "code makeB 1", "code f 2"}, "S_A_Test"},
		{"what both reach", prog{both, "code makeA 1 -> f", "code makeB 1 -> f", "code f 1"}, prog{both, "code makeA 1 -> f", "code makeB 1 -> f", "code f 2"}, "S_A_Test S_B_Test"},
		{"main", prog{both, "code makeA 1", "code makeB 1"}, prog{"code main 2 -> makeA makeB", "code makeA 1", "code makeB 1"}, " S_A_Test S_B_Test"},
		{"what main reaches as well", prog{both + " f", "code makeA 1 -> f", "code makeB 1", "code f 1"}, prog{both + " f", "code makeA 1 -> f", "code makeB 1", "code f 2"}, " S_A_Test S_B_Test"},
		{"an initialiser", prog{both, "code makeA 1", "code makeB 1 \n root code i 1"}, prog{both, "code makeA 1", "code makeB 1 \n root code i 2"}, " S_A_Test S_B_Test"},
		{"a case is registered", prog{both, "code makeA 1", "code makeB 1"}, prog{both + " makeC", "code makeA 1", "code makeB 1", "code makeC 1"}, " S_A_Test S_B_Test S_C_Test"},
		{"a case reaches another one's body", prog{both, "code makeA 1 -> f", "code makeB 1 -> g", "code f 1 -> g", "code g 1"}, prog{both, "code makeA 1 -> f", "code makeB 1 -> g", "code f 1 -> g", "code g 2"}, "S_A_Test S_B_Test"},
		{"the order of cases", prog{both, "code makeA 1", "code makeB 1"}, prog{"code main 1 -> makeB makeA", "code makeA 1", "code makeB 1"}, " S_A_Test S_B_Test"},
		{"the order of what a case reaches", prog{both, "code makeA 1 -> f g", "code makeB 1", "code f 1", "code g 1"}, prog{both, "code makeA 1 -> g f", "code makeB 1", "code f 1", "code g 1"}, "S_A_Test"},
		{"the order of variables that another case reaches in the same way",
			prog{both, "code makeA 1 -> " + manifest.OrderOfVariables + " x y", "code makeB 1 -> x y", "variable x 1 \n variable y 2"},
			prog{both, "code makeA 1 -> " + manifest.OrderOfVariables + " x y", "code makeB 1 -> y x", "variable y 2 \n variable x 1"}, "S_A_Test S_B_Test"},
		{"an order that one case sees, and another case's variable",
			prog{both, "code makeA 1 -> " + manifest.OrderOfVariables + " x y", "code makeB 1 -> x", "variable x 1 \n variable y 2 \n variable z 1"},
			prog{both, "code makeA 1 -> " + manifest.OrderOfVariables + " x y", "code makeB 1 -> x z", "variable x 1 \n variable y 2 \n variable z 1"}, "S_B_Test"},
		{"functions that see their files change places",
			prog{both, "code makeA 1 -> f g", "code makeB 1 -> f g", "code f 1 -> __dso_handle", "lib", "code g 1 -> __dso_handle"},
			prog{both, "code makeA 1 -> f g", "code makeB 1 -> g f", "code g 1 -> __dso_handle", "lib", "code f 1 -> __dso_handle"}, "S_A_Test S_B_Test"},
		{"one of two variables of a name is copied",
			prog{both, "code makeA 1 -> set", "code makeB 1 -> get", "code u 1 -> &v", "lib", "code set 1 -> v \n v 1", "lib", "code get 1 -> v \n v 1", "code h 1 -> !v"},
			prog{both, "code makeA 1 -> set", "code makeB 1 -> get", "code u 1 -> &v", "lib", "code get 1 -> v \n v 1", "lib", "code set 1 -> v \n v 1", "code h 1 -> !v"}, "S_A_Test S_B_Test"},
		{"two factories of one case", prog{"code main 1 -> makeA f", "static code makeA 1", "code f 1 -> makeA \n static code makeA 1"}, prog{"code main 1 -> makeA f", "code makeA 1", "code f 1 -> makeA \n static code makeA 2"}, " S_A_Test"},
	} {
		a, _ := tc.a.casesOf(t)
		b, _ := tc.b.casesOf(t)
		var got []string
		all := maps.Clone(a)
		maps.Copy(all, b)
		for _, id := range slices.Sorted(maps.Keys(all)) {
			if a[id] != b[id] {
				got = append(got, id)
			}
		}
		if got := strings.Join(got, " "); got != tc.want || len(a) < 2 {
			t.Errorf("%s: %q differ, want %q (%d cases)", tc.name, got, tc.want, len(a))
		}
	}
}

// A program whose functions or cases may see each other is decided as a whole.
func TestNoCases(t *testing.T) {
	for text, want := range map[string]string{
		"code makeA 1":                          "",
		"code makeA 1 -> _Unwind_Find_FDE":      "where functions begin",
		"code makeA 1 -> _end":                  "_end",
		"code makeA 1 -> dlinfo":                "dlinfo",
		"code f 1":                              "no factory",
		"code makeA 1 -> makeB \n code makeB 1": "a case may execute others",
		"code makeA 1 -> g \n code g 1 -> h \n code h 1 -> makeB \n code makeB 1":     "a case may execute others",
		"code makeA 1 -> _Z13RUN_ALL_TESTSv \n code _Z13RUN_ALL_TESTSv 1":             "a case may execute others",
		"code makeA 1 \n code f 1 -> _Z13RUN_ALL_TESTSv \n code _Z13RUN_ALL_TESTSv 1": "",
		"code makeA 1 -> system":            "starts programs",
		"code makeA 1 \n code f 1 -> execv": "starts programs",
		"code makeA 1 \n code f 1 -> " + deathTestChild + " \n code " + deathTestChild + " 1 -> execv": "",
		"code makeA 1 -> FLAGS_gtest_filter":                                          "which cases are selected",
		"code makeA 1 \n code FLAGS_gtest_filter 1 \n code f 1 -> FLAGS_gtest_filter": "which cases are selected",
	} {
		_, x := prog{"code main 1 -> makeA f", text}.casesOf(t)
		if (x.NoCases == "") != (want == "") || !strings.Contains(x.NoCases, want) || (len(x.Cases) == 0) != (want != "") {
			t.Errorf("%s: %q, %d cases, want %q", text, x.NoCases, len(x.Cases), want)
		}
	}
}

// Programs with equal hashes of a case are equal when the other cases' factories are stubs of the whole program.
func TestCasesAreExact(t *testing.T) {
	n := 20_000
	if testing.Short() {
		n = 6_000
	}
	r := rand.New(rand.NewPCG(3, 4))
	one := func(n int) bool { return r.IntN(n) == 0 }
	type caseHash struct {
		id   string
		hash Hash
	}
	stubbed, text := map[caseHash]Hash{}, map[caseHash]prog{}
	repeated := 0
	for range n {
		words := []string{"f", "g", "x", "y", manifest.OrderOfVariables, manifest.OrderOfTypes, manifest.OrderOfFunctions, "__dso_handle", "&x"}
		links := func() (l string) {
			for _, w := range r.Perm(len(words)) {
				if one(4) {
					l += " " + words[w]
				}
			}
			return l
		}
		p := prog{"code main 1 -> makeA makeB" + links(), "code makeA 1 ->" + links() + "\n code makeB 1 ->" + links()}
		components := []string{"code f 1 ->" + links(), "function code g 2 ->" + links(), "variable x 1", []string{"variable", "type", "othertype"}[r.IntN(3)] + " y 2"}
		r.Shuffle(len(components), func(i, k int) { components[i], components[k] = components[k], components[i] })
		at := r.IntN(len(components) + 1)
		p = append(p, strings.Join(components[:at], "\n"))
		if one(2) {
			p = append(p, "lib")
		}
		p = append(p, strings.Join(components[at:], "\n")).withFactories()
		pool := NewPool()
		x := p.add(t, pool, nil, linkmodel.GNU)
		c := pool.NewComposer()
		roots := Roots{Symbols: []string{"main"}, System: inLibc, Cases: true}
		whole := c.Compose(x, roots)
		if whole.NoCases != "" {
			t.Fatal(whole.NoCases)
		}
		for id, idle := range map[string][]string{"": {"A", "B"}, "S_A_Test": {"B"}, "S_B_Test": {"A"}} {
			roots := Roots{Symbols: roots.Symbols, System: inLibc, Idle: map[string]bool{}}
			for _, name := range idle {
				roots.Idle[factory(name)] = true
			}
			k := caseHash{id, whole.Cases[slices.IndexFunc(whole.Cases, func(one Case) bool { return one.ID == id })].Hash}
			h := c.Compose(x, roots).Hash
			if other, ok := stubbed[k]; ok {
				repeated++
				if other != h {
					t.Fatalf("two programs have one hash of %q:\n%q\n%q", id, p, text[k])
				}
			}
			stubbed[k], text[k] = h, p
		}
	}
	if repeated < n/10 {
		t.Errorf("only %d of %d cases were met twice: the test proves little", repeated, 3*n)
	}
}
