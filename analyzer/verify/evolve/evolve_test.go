package evolve

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
)

func TestMain(m *testing.M) { os.Exit(clangtest.Main(m)) }

func newBuilder(t *testing.T) *Builder {
	clangtest.Tool(t, "clang++")
	return &Builder{Dir: t.TempDir(), C: "clang", CXX: "clang++", Flags: []string{"-O0", "-w"}, Clang: clangtest.Clang(t)}
}

// tools are all that start no Bazel.
func tools(p Passes) []Tool {
	return []Tool{
		BazelCache(p), Targets(p), Files(p), Hybrid(p, false), Hybrid(p, true),
		Ours("by source", p, &Evidence{Source: true, ID: ""}), Ours("by object", p, &Evidence{}), Ours("whole files", p, WholeFiles()),
	}
}

// program returns one with two tests over a library each, and a third one that both need, in as many
// revisions as there are changes: each replaces a text in a file by another one.
func example(changes ...string) *Program {
	r := &Revision{
		Files: map[string]string{
			"print.h": "extern \"C\" int printf(const char *, ...);\n",
			"a.h":     "int a();\n", "a.cc": "#include \"a.h\"\n#include \"c.h\"\nint a() { return c() + 1; }\nint unused() { return 7; }\n",
			"b.h": "int b();\n", "b.cc": "#include \"b.h\"\n#include \"c.h\"\nint b() { return c() + 2; }\n",
			"c.h": "enum { k = 5 };\nint c();\n", "c.cc": "#include \"c.h\"\nstatic int x = 40;\nint c() { return x; }\n",
			"plain.c": "static int n = 1;\nint plain(void) { return n; }\nint idle(void) { return 2; }\n",
			"ta.cc":   "#include \"print.h\"\n#include \"a.h\"\nint main() { printf(\"%d\\n\", a()); return 0; }\n",
			"tb.cc":   "#include \"print.h\"\n#include \"b.h\"\nint main() { printf(\"%d\\n\", b()); return 0; }\n",
			"tp.c":    "int printf(const char *, ...);\nint plain(void);\nint main(void) { printf(\"%d\\n\", plain()); return 0; }\n",
			"data":    "1\n",
		},
		Libraries: []Library{{Name: "base", Sources: []string{"c.cc"}}, {Name: "a", Sources: []string{"a.cc"}, Deps: []string{"base"}}, {Name: "b", Sources: []string{"b.cc"}, Deps: []string{"base"}, Shared: true}, {Name: "plain", Sources: []string{"plain.c"}}},
		Tests:     []Test{{Name: "ta", Sources: []string{"ta.cc"}, Deps: []string{"a"}}, {Name: "tb", Sources: []string{"tb.cc"}, Deps: []string{"b"}, Data: []string{"data"}}, {Name: "tp", Sources: []string{"tp.c"}, Deps: []string{"plain"}}},
	}
	p := &Program{Name: "example", Mode: "example", Revisions: []*Revision{r}}
	for _, c := range changes {
		next := *p.Revisions[len(p.Revisions)-1]
		next.Files = maps.Clone(next.Files)
		if c != "" {
			f := strings.Split(c, "|")
			next.Files[f[0]] = strings.Replace(next.Files[f[0]], f[1], f[2], 1)
		}
		p.Revisions = append(p.Revisions, &next)
	}
	return p
}

// What each tool selects.
func TestTools(t *testing.T) {
	b := newBuilder(t)
	for _, c := range []struct{ name, change, want string }{
		{"nothing", "", ""},
		{"a comment", "a.cc|int a|/* */ int a", "targets: ta; files: ta"},
		{"what nobody uses", "a.cc|7|8", "bazel: ta; targets: ta; files: ta; whole files: ta"},
		{"a function", "a.cc|+ 1|+ 3", "bazel: ta; targets: ta; files: ta; hybrid: ta; hybrid F: ta; by source: ta; by object: ta; whole files: ta"},
		{"a variable", "c.cc|40|41", "bazel: ta tb; targets: ta tb; files: ta tb; hybrid: ta tb; hybrid F: ta tb; by source: ta tb; by object: ta tb; whole files: ta tb"},
		{"an unused constant in a header", "c.h|5|6", "targets: ta tb; files: ta tb"},
		{"data", "data|1|2", "bazel: tb; targets: tb; files: tb; hybrid: tb; hybrid F: tb; by source: tb; by object: tb; whole files: tb"},
		{"C that nobody uses", "plain.c|return 2|return 3", "bazel: tp; targets: tp; files: tp; whole files: tp"},
		{"C", "plain.c|n = 1|n = 2", "bazel: tp; targets: tp; files: tp; hybrid: tp; hybrid F: tp; by source: tp; by object: tp; whole files: tp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			trace, err := Check(t.Context(), b, example(c.change), tools)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, tool := range trace.Tools {
				if l := trace.Results[tool][1].Selected; len(l) > 0 {
					got = append(got, tool+": "+strings.Join(l, " "))
				}
			}
			if s := strings.Join(got, "; "); s != c.want {
				t.Errorf("%s\nwant %s", s, c.want)
			}
			for _, v := range trace.Check() {
				if v.Kind != Precision {
					t.Error(v)
				}
			}
		})
	}
}

// A change that is undone is known by keys, and not to who compares with the last revision only.
func TestUndone(t *testing.T) {
	trace, err := Check(t.Context(), newBuilder(t), example("a.cc|+ 1|+ 1 + b - b|", "a.cc|+ 1 + b - b|+ 1"), tools)
	if err == nil || !strings.Contains(err.Error(), "a.cc") {
		t.Fatalf("what doesn't compile is checked: %v, %v", trace, err)
	}
	trace, err = Check(t.Context(), newBuilder(t), example("c.cc|= 40|= 41 - 1", "c.cc|return x|return x + 0 * x", "c.cc|return x + 0 * x|return x"), tools)
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]bool{"by object": false, "bazel": false, "files": true, "hybrid": true} {
		if got := slices.Contains(trace.Results[tool][3].Selected, "ta"); got != want {
			t.Errorf("%s selects ta: %t", tool, got)
		}
	}
}

// Each fault is found in some program, and made smaller there; the same program replays it.
func TestFaults(t *testing.T) {
	b := newBuilder(t)
	p := example("c.cc|40|41")
	var fault Fault
	for _, f := range Faults {
		if f.Name == "outer references" {
			fault = f
		}
	}
	e := fault.Evidence()
	makeTools := func(p Passes) []Tool { return []Tool{Ours("broken", p, e), Ours("by object", p, &Evidence{})} }
	trace, err := Check(t.Context(), b, p, makeTools)
	if err != nil {
		t.Fatal(err)
	}
	v := trace.Check()
	if len(v) == 0 || v[0].Rule != "R1" || v[0].Tool != "broken" || slices.ContainsFunc(v, func(x *Violation) bool { return x.Tool == "by object" && x.Kind != Precision }) {
		t.Fatalf("%v", v)
	}
	small := Reduce(t.Context(), b, p, makeTools, v[0])
	if n := len(small.Revisions[0].Tests); n != 1 || len(small.Revisions[0].Files) >= len(p.Revisions[0].Files) {
		t.Errorf("%d tests and %d files are left", n, len(small.Revisions[0].Files))
	}
	dir := t.TempDir()
	if err := small.Write(dir, v); err != nil {
		t.Fatal(err)
	}
	again, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(small, again); d != "" {
		t.Error(d)
	}
}

// The axioms, on results that are made up: what is left out has to pass, in the next revision (A1) and later (A2),
// and to execute what it did (A3); and collectors agree (A4).
func TestAxioms(t *testing.T) {
	const pass, fail = true, false
	for _, c := range []struct {
		name     string
		passed   []bool
		selected []bool
		result   Result // of the last revision
		want     []string
	}{
		{"nothing is left out", []bool{pass, fail}, []bool{true, true}, Result{}, nil},
		{"what passes is left out", []bool{pass, pass, pass}, []bool{true, false, false}, Result{}, nil},
		{"what fails is left out", []bool{pass, fail}, []bool{true, false}, Result{}, []string{"A1 1"}},
		{"what has failed before is left out", []bool{pass, fail, fail}, []bool{true, true, false}, Result{}, []string{"A1 2"}},
		{"what fails later is left out", []bool{pass, pass, fail}, []bool{true, false, false}, Result{}, []string{"A2 2"}},
		{"twice", []bool{pass, fail, fail}, []bool{true, false, false}, Result{}, []string{"A1 1", "A2 2"}},
		{"it executes something else", []bool{pass, pass}, []bool{true, false}, Result{Unlike: []string{"t"}}, []string{"A3 1"}},
		{"collectors", []bool{pass, pass}, []bool{true, true}, Result{Collectors: []string{"t"}}, []string{"A4 1"}},
	} {
		trace := &Trace{Program: &Program{Name: "p"}, Tools: []string{"tool"}, Results: map[string][]*Result{}}
		for i, passed := range c.passed {
			r := &Result{}
			if i == len(c.passed)-1 {
				r.Unlike, r.Collectors = c.result.Unlike, c.result.Collectors
			}
			if c.selected[i] {
				r.Selected = []string{"t"}
			}
			trace.Outcomes, trace.Passed = append(trace.Outcomes, map[string]*Outcome{"t": {}}), append(trace.Passed, map[string]bool{"t": passed})
			trace.Results["tool"] = append(trace.Results["tool"], r)
		}
		var got []string
		for _, r := range Rules {
			if strings.HasPrefix(r.ID, "A") {
				r.check(trace, "tool", func(revision int, tests []string, _ string) {
					if !slices.Equal(tests, []string{"t"}) {
						t.Errorf("%s: %s of %v", c.name, r.ID, tests)
					}
					got = append(got, fmt.Sprintf("%s %d", r.ID, revision))
				})
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Test cases in the place of tests: a case runs if what it reaches has changed, or what all cases share.
func TestCases(t *testing.T) {
	b := newBuilder(t)
	for _, c := range []struct{ change, want string }{
		{"", ""},
		{"a.cc|+ 1|+ 3", "ta"},
		{"b.cc|+ 2|+ 3", "tb"},
		{"c.cc|40|41", "ta tb"},
		{"a.cc|7|8", ""},
	} {
		for as := range roles {
			p := example(c.change).byCases(as)
			for i, r := range example(c.change).Revisions {
				if n := len(p.Revisions[i].Tests); n != len(r.Tests) || len(p.Revisions[i].Tests[n-1].Args) != 1 {
					t.Fatalf("%d tests: %+v", n, p.Revisions[i].Tests)
				}
			}
			trace, err := Check(t.Context(), b, p, func(p Passes) []Tool { return []Tool{OursByCases("cases", p, &Evidence{})} })
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(trace.Results["cases"][1].Selected, " ")
			want := c.want
			switch {
			case want == "", as == alone, as == variable: // no text gets longer
			case as == suite, as == generator, want == "ta": // registration refers to all of them
				want = "ta tb"
			}
			if got != want {
				t.Errorf("%q, role %d: %q is selected, want %q", c.change, as, got, want)
			}
			for _, v := range trace.Check() {
				if v.Kind != Precision {
					t.Error(v)
				}
			}
		}
	}
}
