package check

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/clangtest"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// version is a compiled and analysed text.
type version struct {
	argv    []string
	a       *Analysis
	objects []*Object
	levels  []Level
}

func compile(t *testing.T, text string) version {
	t.Helper()
	return compileAs(t, clangtest.Clang(t), "t.c", text)
}

func compileAs(t *testing.T, clang, name, text string) version {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	v := version{argv: []string{clang, "-O1", file}}
	v.levels = Levels(true, v.argv, true)
	var err error
	if v.a, err = Analyze(context.Background(), v.argv, clang); err != nil {
		t.Fatal(err)
	}
	if v.objects, err = Compile(context.Background(), v.argv, true, v.levels); err != nil {
		t.Fatal(err)
	}
	return v
}

func pair(v, w version) *Pair { return ComparePair(v.a, w.a, v.objects, w.objects, v.levels) }

// with returns v as an analyzer with a bug would see it.
func (v version) with(bug func(m *manifest.Manifest)) version {
	m := proto.Clone(v.a.Manifest).(*manifest.Manifest)
	bug(m)
	v.a = NewAnalysis(m)
	return v
}

// TestBlindAnalyzerIsCaught: the checks must be able to fail.
func TestBlindAnalyzerIsCaught(t *testing.T) {
	const before = `
static int hidden = 1;
static int callee(int x) { return x + 1; }
int f(int x) { return callee(x) + hidden++; }
int other(void) { return 1; }
`
	noHashes := func(m *manifest.Manifest) {
		for _, c := range m.Components {
			c.LocalHash = make([]byte, 16)
		}
	}
	noOther := func(m *manifest.Manifest) {
		m.Components = slices.DeleteFunc(m.Components, func(c *manifest.Component) bool { return c.Name == "other" })
		for _, c := range m.Components {
			c.Links = nil // they count components
		}
	}
	v := compile(t, before)
	for _, test := range []struct {
		name, old, new string
		bug            func(m *manifest.Manifest)
	}{
		{"a function's hash", "return 1", "return 2", noHashes},
		{"a callee's hash", "x + 1", "x + 2", noHashes},
		{"a variable's hash", "hidden = 1", "hidden = 2", noHashes},
		{"a component", "return 1", "return 2", noOther},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := compile(t, strings.Replace(before, test.old, test.new, 1))
			if l := pair(v, w).Violations(); len(l) > 0 {
				t.Fatalf("violation without a bug: %+v", l)
			}
			if len(pair(v.with(test.bug), w.with(test.bug)).Violations()) == 0 {
				t.Error("the bug isn't found")
			}
		})
	}
	t.Run("a link", func(t *testing.T) {
		bad := v.with(func(m *manifest.Manifest) {
			for _, c := range m.Components {
				c.Links = c.Links[:len(c.Links)/2]
			}
		})
		r := compareLinks(bad.a, v.objects[:1], v.levels[:1])
		if len(r.Violations) != 1 || r.Violations[0].Target != "hidden" {
			t.Errorf("the missing link isn't found: %+v", r.Violations)
		}
	})
}

// TestLinksFindWrongLinkage: a static function made visible, and the reverse.
func TestLinksFindWrongLinkage(t *testing.T) {
	v := compile(t, `
extern __attribute__((weak)) int elsewhere(void);
static int s(void) { return 1; }
int f(void) { return elsewhere ? elsewhere() : s(); }
__attribute__((weak)) int w(void) { return 2; }
`)
	if r := compareLinks(v.a, v.objects[:1], v.levels[:1]); len(r.Violations) > 0 || r.Symbols != 3 || r.References != 2 {
		t.Fatalf("%+v", r)
	}
	for name, linkage := range map[string]manifest.Linkage{"f": manifest.Linkage_LINKAGE_LOCAL, "w": manifest.Linkage_LINKAGE_EXTERNAL} {
		bad := v.with(func(m *manifest.Manifest) {
			for _, c := range m.Components {
				if c.Name == name {
					c.Linkage = linkage
				}
			}
		})
		if r := compareLinks(bad.a, v.objects[:1], v.levels[:1]); len(r.Violations) != 1 {
			t.Errorf("%s as %v: %+v", name, linkage, r.Violations)
		}
	}
}

// TestObjectDifferences: what counts as a difference between objects.
func TestObjectDifferences(t *testing.T) {
	const text = `
static int counter;
const char *a(void) { return "first"; }
const char *b(void) { return "second"; }
double c(double x) { return x * 1.5; }
int d(int x) { switch (x) { case 1: return 7; case 2: return 9; case 3: return 2; case 4: return 8; case 5: return 1; } return 0; }
int e(void) { return counter++; }
`
	v := compile(t, text)
	for _, test := range []struct {
		name, old, new string
		want           []string
	}{
		{"nothing", "", "", nil},
		{"a comment", "static", "/* c */ static", nil},
		{"a string", "first", "fiRst", []string{"a"}},
		{"a longer string moves the others", "first", "a longer first", []string{"a"}},
		{"a constant of the pool", "1.5", "2.5", []string{"c"}},
		{"a case", "case 3: return 2", "case 3: return 3", []string{"d"}},
		{"the name of a local variable", "counter", "renamed", nil},
		{"the order of functions", "", "reverse", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			changed := strings.ReplaceAll(text, test.old, test.new)
			if test.old == "" {
				changed = text
			}
			if test.new == "reverse" {
				lines := strings.Split(strings.TrimSpace(text), "\n")
				slices.Reverse(lines[1:])
				changed = strings.Join(lines, "\n")
			}
			w := compile(t, changed)
			for k, level := range v.levels {
				var got []string
				for _, d := range Compare(v.objects[k], w.objects[k]) {
					got = append(got, d.Unit)
				}
				if !slices.Equal(got, test.want) {
					t.Errorf("%s: %q differ, want %q", level.Name, got, test.want)
				}
			}
		})
	}
}

// TestNearCalls: calls inside of a section have no relocations.
func TestNearCalls(t *testing.T) {
	const text = `
__attribute__((section(".tasting"))) static int callee(int x) { return x; }
__attribute__((section(".tasting"))) int between(int x) { return x + 1; }
__attribute__((section(".tasting"))) int caller(int x) { return callee(x); }
`
	v := compile(t, text)
	if refs := v.objects[0].Units["caller"].Refs; !slices.Contains(refs, "callee") {
		t.Errorf("caller refers to %q", refs)
	}
	for _, test := range []struct{ old, new, want string }{
		{"x + 1", "x * x * x + 1", "between"},
		{"callee(x)", "between(x)", "caller"},
	} {
		w := compile(t, strings.Replace(text, test.old, test.new, 1))
		d := slices.DeleteFunc(Compare(v.objects[0], w.objects[0]), func(d Difference) bool { return d.Unit == "callee" })
		if len(d) != 1 || d[0].Unit != test.want {
			t.Errorf("%s: %+v, want %s", test.new, d, test.want)
		}
	}
}

// TestNumberedSymbols: a new local symbol takes the name of another one, which
// gets a number.
func TestNumberedSymbols(t *testing.T) {
	const text = "int seed(); struct A { A(); };\nint first = seed(), second = seed();\nint f() { return first; }\n"
	clang := clangtest.Tool(t, "clang++")
	v := compileAs(t, clang, "t.cc", text)
	// Nothing runs the initialiser of a thread's variable at the start.
	w := compileAs(t, clang, "t.cc", strings.Replace(text, "int first", "static thread_local A added; int first", 1))
	p := pair(v, w)
	if len(p.Emitted) == 0 {
		t.Error("nothing differs: nothing was tested")
	}
	for _, e := range p.Emitted {
		if e.Violation() || e.Unit == "__cxx_global_var_init" && e.What != "only in B" || strings.HasPrefix(e.Unit, "_GLOBAL__sub_I") {
			t.Errorf("%s: %s of %s %s", e.Level, e.What, e.Unit, e.Reason)
		}
	}
	w = compileAs(t, clang, "t.cc", strings.Replace(text, "second = seed()", "second = seed() + 1", 1))
	if p := pair(v, w); len(p.Emitted) == 0 || len(p.Violations()) > 0 {
		t.Errorf("%+v", p.Emitted)
	}
}

// TestHandlers: the addresses of the types that handlers catch are in one
// section for all functions.
func TestHandlers(t *testing.T) {
	const text = "int g(); struct A { int x; };\nint f() { try { return g(); } catch (A &a) { return a.x; } }\nint h() { return g(); }\n"
	clang := clangtest.Tool(t, "clang++")
	v := compileAs(t, clang, "t.cc", text)
	for _, test := range []struct{ old, new, want string }{
		{"return g(); }\n", "try { return g(); } catch (int) { throw; } }\n", "_Z1hv"},
		{"(A &a) { return a.x; }", "(int &a) { return a; }", "_Z1fv"},
	} {
		w := compileAs(t, clang, "t.cc", strings.Replace(text, test.old, test.new, 1))
		var got []string
		for _, d := range Compare(v.objects[0], w.objects[0]) {
			if !strings.HasPrefix(d.Unit, "_ZT") && !strings.HasPrefix(d.Unit, "DW.ref") {
				got = append(got, d.Unit)
			}
		}
		if !slices.Equal(got, []string{test.want}) {
			t.Errorf("%s: %q differ, want %s", test.new, got, test.want)
		}
	}
}

// TestInlineOrder: clang's -O0 code depends on the order in which always_inline
// functions come, which is no difference; what they do is one.
func TestInlineOrder(t *testing.T) {
	const (
		first  = "__attribute__((always_inline)) static inline int one(int x) { int a[4] = {x}; return a[x & 3]; }\n"
		second = "__attribute__((always_inline)) static inline int two(int x) { char b[9] = {x}; return one(b[x & 7]); }\n"
		user   = "int f(int x) { return two(x) + one(x); }\n"
		other  = "int g(int x) { return one(x); }\n"
	)
	v := compile(t, first+second+user+other)
	w := compile(t, first+second+other+user)
	if d := Compare(v.objects[0], w.objects[0]); len(d) != 1 || d[0].Unit != "f" {
		t.Fatalf("the order makes no difference at -O0, so nothing is tested: %+v", d)
	}
	if p := pair(v, w); len(p.Emitted) != 0 {
		t.Errorf("the order of always_inline functions counts: %+v", p.Emitted)
	}
	w = compile(t, first+strings.Replace(second, "x & 7", "x & 6", 1)+other+user)
	if p := pair(v, w); len(p.Emitted) == 0 {
		t.Error("a changed always_inline function makes no difference")
	}
}

// TestEveryKindOfEdit: each kind must be able to make a mutant that compiles,
// neutral ones must be neutral, and the same seed must take the same edits.
func TestEveryKindOfEdit(t *testing.T) {
	clang := clangtest.Clang(t)
	names := Kinds()
	ofC, ofCxx := names[:len(names)-len(cxxKinds)], names[len(names)-len(cxxKinds):]
	for _, test := range []struct {
		argv   []string
		kinds  []string
		sample int
	}{
		{[]string{clang, "-O2", "testdata/sample.c"}, ofC, 6 * len(ofC)},
		{[]string{clang, "-O2", "-std=c++20", "testdata/sample.cc"}, ofCxx, 6 * len(ofCxx)},
	} {
		t.Run(test.argv[len(test.argv)-1], func(t *testing.T) {
			c := Campaign{Commands: [][]string{test.argv}, Clang: clang, Seed: 1, Sample: test.sample, Kinds: test.kinds}
			r, err := c.Run(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			compiled := map[string]KindReport{}
			for _, k := range r.Kinds {
				compiled[k.Kind] = k
			}
			for _, k := range test.kinds {
				if compiled[k].Compiled == 0 {
					t.Errorf("%s: no mutant compiles", k)
				}
			}
			if r.Total.Emitted == 0 || r.Total.Changed == 0 {
				t.Errorf("nothing changed: %+v", r.Total)
			}
			t.Logf("%+v", r.Total)
			for _, f := range r.Violations {
				t.Errorf("violation: %s in %s:\n- %s\n+ %s\n%+v", f.Kind, f.Where, f.Before, f.After, f.Differences)
			}
			plan := func() (list []string) {
				m, err := c.prepare(context.Background(), c.Commands[0], t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				jobs, _, err := c.plan([]*mutant{m})
				if err != nil {
					t.Fatal(err)
				}
				for _, j := range jobs {
					f := j.finding()
					list = append(list, f.Kind+f.Before+f.After)
				}
				return list
			}
			if !slices.Equal(plan(), plan()) {
				t.Error("the same seed takes different edits")
			}
		})
	}
}

// TestDeclarationsOfCxx: what the edits of C++ take declarations to be.
func TestDeclarationsOfCxx(t *testing.T) {
	const text = `
BEGIN_NAMESPACE
namespace n { extern "C" {
template <typename T, int N = (3 > 2)> struct A<T[N]> final : public B<T, int>, virtual C { using B<T, int>::B; A() : B<T, int>{1}, c{2} {} ~A(); int c{3}, d; unsigned e : 3; bool operator()(int) const noexcept { return 1; } };
enum class E : char { a, b = 2 };
} }
#ifdef X
int f(int x) {
#else
auto f(long x) -> long {
#endif
  return [=] { return x < 1; }();
}
struct G *g(), h(int) noexcept(false);
n::A<int> v(3), w{4};
template <> int n::A<int>::m(int) try { return 1; } catch (...) { return 2; }
`
	s := readSource("t.cc", []byte(text), true, false)
	var got []string
	for _, d := range s.decls {
		class := ""
		if d.class >= 0 {
			class = s.classes[d.class].name + ": "
		}
		got = append(got, fmt.Sprintf("%s%s %s%s", class, d.kind, d.name, map[bool]string{true: " {}"}[d.body >= 0]))
	}
	want := []string{"A: using ", "A: function A {}", "A: function ~A", "A: variable c", "A: variable e", "A: function operator() {}", "class A {}", "enum E {}", "function f {}", "function g", "function v", "function m {}"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if len(s.classes) != 1 || len(s.classes[0].bases) != 2 || s.at(s.classes[0].bases[0].name) != "B" || s.at(s.classes[0].bases[1].name) != "C" {
		t.Errorf("%+v", s.classes)
	}
}

// C is compared at -O0 as well, C++ only as it is analysed.
func TestLevels(t *testing.T) {
	for _, test := range []struct{ argv, want string }{
		{"clang a.c", "-O0,-O2 without passes,IR,-O2"},
		{"clang -O1 a.c", "-O0,-O1 without passes,IR,-O1"},
		{"clang++ a.cc", "-O0 without passes,IR,-O0"},
		{"clang++ -O3 a.cc", "-O3 without passes,IR,-O3"},
		{"clang++ -O3 -O0 a.cc", "-O0 without passes,IR,-O0"},
	} {
		var got []string
		for _, level := range Levels(true, strings.Fields(test.argv), true) {
			got = append(got, level.Name)
		}
		if strings.Join(got, ",") != test.want {
			t.Errorf("%s: %s, want %s", test.argv, strings.Join(got, ","), test.want)
		}
	}
}
