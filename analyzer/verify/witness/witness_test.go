package witness

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
)

func TestMain(m *testing.M) { os.Exit(clangtest.Main(m)) }

func compile(t *testing.T, text string) *Version {
	t.Helper()
	return compileAs(t, clangtest.Clang(t), "t.c", text)
}

func compileAs(t *testing.T, compiler, name, text string, flags ...string) *Version {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	v, err := Compile(t.Context(), slices.Concat([]string{compiler}, flags, []string{file}), clangtest.Clang(t))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func violations(pairs []*Pair) (list []Explanation) {
	for _, p := range pairs {
		list = append(list, p.Violations()...)
	}
	return list
}

// with returns v with the evidence that an analyzer with a bug would make.
func with(t *testing.T, v *Version, bug func(m *manifest.Manifest)) *Version {
	t.Helper()
	bad := *v
	bad.Evidence = nil
	for _, e := range v.Evidence {
		m := proto.Clone(e.Manifest).(*manifest.Manifest)
		bug(m)
		e, err := newEvidence(e.Name, m)
		if err != nil {
			t.Fatal(err)
		}
		bad.Evidence = append(bad.Evidence, e)
	}
	return &bad
}

// What is at the end of one thing in the object, and of another in the next version,
// is no difference if the bytes are the same.
func TestSameBytes(t *testing.T) {
	for _, c := range []struct {
		name, compiler, file, before, after string
		differ                              []string // units
	}{
		// A literal that nothing refers to any more; behind it, none ends.
		{"literals", "g++", "a.cc", `const char *f() { return "one"; } const char *g() { return "two"; } const char *h() { return "six"; }`,
			`const char *f() { return "one"; } [[noreturn]] const char *g() { return "two"; } const char *h() { return "six"; }`, []string{"_Z1gv"}},
		{"literals that differ", "g++", "a.cc", `const char *f() { return "one"; } const char *g() { return "two"; } const char *h() { return "six"; }`,
			`const char *f() { return "one"; } [[noreturn]] const char *g() { return "2"; } const char *h() { return "six"; }`, []string{"_Z1fv", "_Z1gv"}},
		// A number goes, and with it what .rodata was aligned for: nothing to a text beside it.
		{"alignment of numbers", "gcc", "a.c", `double d(int i) { return i * 1.37; } const char *g(void) { return "two"; }`,
			`double d(int i) { return i; } const char *g(void) { return "two"; }`, []string{"d"}},
		{"alignment of masks", "gcc", "a.c", `double d(double x) { return -x; } double e(int i) { return i * 1.37; } double f(int i) { return i * 2.37; }`,
			`double d(double x) { return x; } double e(int i) { return i * 1.37; } double f(int i) { return i * 2.37; }`, []string{"d"}},
		// An element that was padding, and one that wasn't.
		{"padding", "gcc", "a.c", "static const int t[30] = {1}; int f(int i) { return t[i]; } static const int u[9] = {2}; int g(int i) { return u[i]; }",
			"static const int t[31] = {1}; int f(int i) { return t[i]; } static const int u[9] = {2}; int g(int i) { return u[i]; }", []string{"t"}},
	} {
		v, w := compileAs(t, clangtest.Tool(t, c.compiler), c.file, c.before, "-O0"), compileAs(t, clangtest.Tool(t, c.compiler), c.file, c.after, "-O0")
		var units []string
		for _, d := range Compare(v.Code, w.Code) {
			units = append(units, d.Unit)
		}
		if !slices.Equal(units, c.differ) {
			t.Errorf("%s: %q differ, want %q", c.name, units, c.differ)
		}
		if l := violations(ComparePair(v, w)); len(l) > 0 {
			t.Errorf("%s: %+v", c.name, l)
		}
	}
}

// TestBlindAnalyzerIsCaught: the checks must be able to fail, for each sort of
// evidence.
func TestBlindAnalyzerIsCaught(t *testing.T) {
	const before = `
static int hidden = 1;
__attribute__((noinline)) static int callee(int x) { return x + 1; }
int f(int x) { return callee(x) + hidden++; }
int other(void) { return 1; }
`
	noHashes := func(m *manifest.Manifest) {
		for _, c := range m.Components {
			c.LocalHash = make([]byte, 16)
		}
	}
	noDefinition := func(m *manifest.Manifest) {
		for _, c := range m.Components {
			c.Definitions = slices.DeleteFunc(c.Definitions, func(d *manifest.Definition) bool { return d.Name == "other" })
			if len(c.Definitions) == 0 {
				c.Linkage = manifest.Linkage_LINKAGE_LOCAL
			}
		}
	}
	v := compile(t, before)
	if len(v.Evidence) != 3 || v.Sharing != 3 {
		t.Fatalf("%d sorts of evidence (%s), %+v", len(v.Evidence), v.NotPlain, v.Counts)
	}
	for _, test := range []struct {
		name, old, new string
		bug            func(m *manifest.Manifest)
	}{
		{"a function's hash", "return 1", "return 2", noHashes},
		{"a callee's hash", "x + 1", "x + 2", noHashes},
		{"a variable's hash", "hidden = 1", "hidden = 2", noHashes},
		{"a definition", "return 1", "return 2", noDefinition},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := compile(t, strings.Replace(before, test.old, test.new, 1))
			if l := violations(ComparePair(v, w)); len(l) > 0 {
				t.Fatalf("violation without a bug: %+v", l)
			}
			for _, p := range ComparePair(with(t, v, test.bug), with(t, w, test.bug)) {
				if len(p.Violations()) == 0 {
					t.Errorf("%s: the bug isn't found", p.Evidence)
				}
			}
		})
	}
	t.Run("a link", func(t *testing.T) {
		v := compile(t, strings.Replace(before, "return 1", "extern int far(void); return far()", 1))
		bad := with(t, v, func(m *manifest.Manifest) {
			for _, c := range m.Components {
				c.Links = slices.DeleteFunc(c.Links, func(l uint32) bool { return l%2 == 1 && m.Symbols[l/2] == "far" })
			}
		})
		for i, e := range bad.Evidence {
			var good, r LinkResult
			good.check(v.Code, v.Evidence[i], true)
			if r.check(v.Code, e, true); len(r.Violations) != 1 || r.Violations[0].Target != "far" || len(good.Violations) > 0 {
				t.Errorf("%s: the missing link isn't found: %+v, without a bug %+v", e.Name, r.Violations, good.Violations)
			}
		}
	})
}

// TestLinksFindWrongBinding: a weak function made global, and the reverse.
func TestLinksFindWrongBinding(t *testing.T) {
	v := compile(t, `
extern __attribute__((weak)) int elsewhere(void);
static int v = 1;
__attribute__((noinline)) static int s(void) { return v++; }
int f(void) { return elsewhere ? elsewhere() : s(); }
__attribute__((weak)) int w(void) { return 2; }
`)
	for i, e := range v.Evidence {
		var r LinkResult
		if r.check(v.Code, e, true); len(r.Violations) > 0 || r.Symbols != 2 || r.References != 3 {
			t.Fatalf("%s: %+v", e.Name, r)
		}
		for name, binding := range map[string]manifest.Binding{"f": manifest.Binding_BINDING_WEAK, "w": manifest.Binding_BINDING_GLOBAL} {
			bad := with(t, v, func(m *manifest.Manifest) {
				for _, c := range m.Components {
					for _, d := range c.Definitions {
						if d.Name == name {
							d.Binding = binding
						}
					}
				}
			})
			var r LinkResult
			if r.check(v.Code, bad.Evidence[i], false); len(r.Violations) != 1 {
				t.Errorf("%s: %s as %v: %+v", e.Name, name, binding, r.Violations)
			}
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
			for _, differences := range [][]Difference{Compare(v.Code, w.Code), Compare(v.IR, w.IR)} {
				var got []string
				for _, d := range differences {
					got = append(got, d.Unit)
				}
				if !slices.Equal(got, test.want) && (test.name != "a case" || !slices.Equal(got, []string{"d", "switch.table.d"})) {
					t.Errorf("%q differ, want %q", got, test.want)
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
__attribute__((section(".tasting"))) int caller(int x) { return callee(x) + 1; }
`
	v := compile(t, text)
	if refs := v.Code.Units["caller"].Refs; !slices.Contains(refs, "callee") {
		t.Errorf("caller refers to %q", refs)
	}
	for _, test := range []struct{ old, new, want string }{
		{"x + 1", "x * x * x + 1", "between"},
		{"callee(x) +", "between(x) +", "caller"},
	} {
		w := compile(t, strings.Replace(text, test.old, test.new, 1))
		d := slices.DeleteFunc(Compare(v.Code, w.Code), func(d Difference) bool { return d.Unit == "callee" || d.Unit == "section .tasting" })
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
	v := compileAs(t, clang, "t.cc", text, "-O0")
	// Nothing runs the initialiser of a thread's variable at the start.
	w := compileAs(t, clang, "t.cc", strings.Replace(text, "int first", "static thread_local A added; int first", 1), "-O0")
	d := Compare(v.Code, w.Code)
	if len(d) == 0 {
		t.Error("nothing differs: nothing was tested")
	}
	for _, d := range d {
		if d.Unit == "__cxx_global_var_init" && d.What != "only in B" || strings.HasPrefix(d.Unit, "_GLOBAL__sub_I") {
			t.Errorf("%s of %s", d.What, d.Unit)
		}
	}
	w = compileAs(t, clang, "t.cc", strings.Replace(text, "second = seed()", "second = seed() + 1", 1), "-O0")
	if p := ComparePair(v, w); len(p) != 2 || len(p[0].Emitted) == 0 || len(violations(p)) > 0 {
		t.Errorf("%+v", p)
	}
}

// TestHandlers: the addresses of the types that handlers catch are in one
// section for all functions.
func TestHandlers(t *testing.T) {
	const text = "int g(); struct A { int x; };\nint f() { try { return g(); } catch (A &a) { return a.x; } }\nint h() { return g(); }\n"
	clang := clangtest.Tool(t, "clang++")
	v := compileAs(t, clang, "t.cc", text, "-O1")
	for _, test := range []struct{ old, new, want string }{
		{"return g(); }\n", "try { return g(); } catch (int) { throw; } }\n", "_Z1hv"},
		{"(A &a) { return a.x; }", "(int &a) { return a; }", "_Z1fv"},
	} {
		w := compileAs(t, clang, "t.cc", strings.Replace(text, test.old, test.new, 1), "-O1")
		var got []string
		for _, d := range Compare(v.Code, w.Code) {
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
	if d := Compare(v.Code, w.Code); len(d) != 1 || d[0].Unit != "f" {
		t.Fatalf("the order makes no difference at -O0, so nothing is tested: %+v", d)
	}
	if v.IR == nil || w.IR == nil {
		t.Fatal(v.NotPlain)
	}
	if !inlineOrder(v.IR, w.IR)("f") {
		t.Error("the order of always_inline functions counts")
	}
	w = compile(t, first+strings.Replace(second, "x & 7", "x & 6", 1)+other+user)
	if inlineOrder(v.IR, w.IR)("f") {
		t.Error("a changed always_inline function makes no difference")
	}
}
