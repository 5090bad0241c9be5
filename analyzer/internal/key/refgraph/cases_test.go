package refgraph

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkmodel"
)

// casesOf returns the hashes of the cases of a program by their IDs.
func (p prog) casesOf(t testing.TB) (map[string]Hash, *Closure) {
	t.Helper()
	for i := range p {
		for _, name := range []string{"A", "B", "C"} {
			p[i] = strings.ReplaceAll(p[i], "make"+name, "_ZN7testing8internal15TestFactoryImplI8S_"+name+"_TestE10CreateTestEv")
		}
	}
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
