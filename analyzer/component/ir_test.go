package component

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-tasting/rules_tasting/analyzer/ctext"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/clangtest"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

func analyzeCXX(t *testing.T, compiler, source string) *manifest.Manifest {
	t.Helper()
	return analyzeCXXFile(t, compiler, filepath.Join(t.TempDir(), "t.cc"), source)
}

func analyzeCXXFile(t *testing.T, compiler, file, source string) *manifest.Manifest {
	t.Helper()
	if err := os.WriteFile(file, []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	u, _, err := ctext.Preprocess(context.Background(), []string{compiler, "-O1", "-c", file}, ctext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := Analyze(context.Background(), u, clangtest.Clang(t))
	if err != nil {
		t.Fatal(err)
	}
	b, err := manifest.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = manifest.Unmarshal(b); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestCXXRoots: what runs without being referred to, with both compilers.
func TestCXXRoots(t *testing.T) {
	for _, test := range []struct {
		name, source string
		want         []string // symbols that some root is, or leads to
		not          []string
	}{
		{"nothing", "int f() { return 1; }", nil, []string{"_Z1fv"}},
		{"standard streams", "#include <iostream>\nint f() { return 1; }", nil, []string{"_Z1fv"}},
		{"dynamic initialiser", "int g(); int v = g();", []string{"_Z1gv"}, nil},
		{"static member of a template", "int g(); template <class T> struct S { static int v; }; template <class T> int S<T>::v = g(); int f() { return S<int>::v; }", []string{"_Z1gv"}, nil},
		{"destructor of a global", "struct A { ~A(); }; A a;", []string{"_ZN1AD1Ev"}, nil},
		{"constant initialiser", "int v = 3; int f() { return v; }", nil, []string{"v", "_Z1fv"}},
		{"registration", "struct R { R(int (*)()); }; namespace { int t() { return 1; } R r(t); }", []string{"_ZN1RC1EPFivE"}, nil},
		{"replaced operator new", "void *operator new(decltype(sizeof 0) n) { return (void *)n; }", []string{"_Znwm"}, nil},
		{"used", "__attribute__((used)) static int g() { return 1; }", []string{"_ZL1gv"}, nil},
		{"section", "__attribute__((section(\"list\"))) int v = 1;", []string{"v"}, nil},
		{"virtual table", "struct A { virtual int f() { return 1; } }; A *g() { return new A; }", nil, []string{"_ZTV1A", "_ZN1A1fEv"}},
	} {
		for _, compiler := range []string{clangtest.Clang(t), clangtest.GCC(t)} {
			if test.name == "used" && compiler == clangtest.GCC(t) {
				continue // whatever uses it does so by a relocation
			}
			t.Run(test.name+"/"+filepath.Base(compiler), func(t *testing.T) {
				m := analyzeCXX(t, compiler, test.source)
				reached := map[string]bool{}
				var visit func(i int)
				visit = func(i int) {
					c := m.Components[i]
					if reached[c.Name] {
						return
					}
					for _, n := range append(c.Aliases, c.Name) {
						reached[n] = true
					}
					for _, l := range c.Links {
						if l%2 == 0 {
							visit(int(l / 2))
							continue
						}
						s := m.Symbols[l/2]
						reached[s] = true
						if k := slices.IndexFunc(m.Components, func(c *manifest.Component) bool { return c.Name == s || slices.Contains(c.Aliases, s) }); k >= 0 {
							visit(k)
						}
					}
				}
				for i, c := range m.Components {
					if c.Root != "" || slices.Contains(c.Aliases, "_Znwm") { // by composition's list
						visit(i)
					}
				}
				has := func(s string) bool {
					return reached[s] || slices.ContainsFunc([]string{".text.", ".data.", ".bss."}, func(p string) bool { return reached[p+s] })
				}
				for _, s := range test.want {
					if !has(s) && !(strings.HasSuffix(s, "D1Ev") && has(strings.TrimSuffix(s, "D1Ev")+"D2Ev")) {
						t.Errorf("no root leads to %s:\n%s", s, describe(m))
					}
				}
				for _, s := range test.not {
					if has(s) {
						t.Errorf("a root leads to %s:\n%s", s, describe(m))
					}
				}
			})
		}
	}
}

func describe(m *manifest.Manifest) string {
	var b strings.Builder
	for _, c := range m.Components {
		links, _ := m.LinkNames(c)
		fmt.Fprintf(&b, "%s %s %s root=%q aliases=%q -> %q\n", c.Kind, c.Linkage, c.Name, c.Root, c.Aliases, links)
	}
	return b.String()
}

// TestCXXPlaceDoesNotCount: a function is the same in whatever file it is.
func TestCXXPlaceDoesNotCount(t *testing.T) {
	const decl = "struct A { A(); ~A(); int v; }; int g(A &); "
	const f = "int f() { A a; return g(a) + [](int x) { return x + 1; }(a.v); } "
	find := func(m *manifest.Manifest) string {
		for _, c := range m.Components {
			if c.Name == "_Z1fv" || slices.Contains(c.Aliases, "_Z1fv") {
				return fmt.Sprintf("%x", c.LocalHash)
			}
		}
		t.Fatalf("no f:\n%s", describe(m))
		return ""
	}
	for _, compiler := range []string{clangtest.Clang(t), clangtest.GCC(t)} {
		a := find(analyzeCXX(t, compiler, decl+f))
		b := find(analyzeCXX(t, compiler, "static int n; const char *h() { n++; return \"text\"; } template <class T> struct B { T t; }; B<long> x;\n\n"+decl+"/* here */ "+f))
		if d := cmp.Diff(a, b); d != "" {
			t.Errorf("%s: %s", filepath.Base(compiler), d)
		}
	}
}

// TestCXXPositions: a source position counts for the functions that it gets into,
// and makes no difference between the others and their copies in other units.
func TestCXXPositions(t *testing.T) {
	const source = `template <class T> inline T twice(T x) { return x + x; }
int h() { return twice(2); } /* comment */
int g(int, int line = __builtin_LINE());
int f() { return g(1); }
template <class T> const char *name(T) { return __PRETTY_FUNCTION__; }
const char *k() { return name([] {}); }
`
	file := filepath.Join(t.TempDir(), "t.cc")
	hashes := func(source string) map[string]string {
		out := map[string]string{}
		for _, c := range analyzeCXXFile(t, clangtest.Clang(t), file, source).Components {
			out[c.Name] = fmt.Sprintf("%x", c.LocalHash)
		}
		return out
	}
	before := hashes(source)
	for _, test := range []struct {
		name, source string
		want         []string // those of f, h, k and twice that differ
	}{
		{"comment", strings.Replace(source, "comment", "longer comment", 1), nil},
		{"line above", "\n" + source, []string{"_Z1fv", "_Z1kv"}},
		{"line below", source + "\n", nil},
		{"column of a lambda", strings.Replace(source, "return name", "return  name", 1), []string{"_Z1kv"}},
		{"no positions", strings.Split(source, "/*")[0], nil},
	} {
		after := hashes(test.source)
		var got []string
		for _, symbol := range []string{"_Z1fv", "_Z1hv", "_Z1kv", "_Z5twiceIiET_S0_"} {
			if after[symbol] != "" && before[symbol] != after[symbol] {
				got = append(got, symbol)
			}
		}
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%s: %s", test.name, d)
		}
	}
}

// TestUnknown: what clang calls a type without a name says where it is, and the
// normalised text doesn't.
func TestUnknown(t *testing.T) {
	clang := clangtest.Clang(t)
	for text, want := range map[string]bool{
		"void p(const char *); void f(struct { int a; } *x) { p(__PRETTY_FUNCTION__); }\n": true,
		"void p(const char *); void f(struct { int a; } *x) { p(__func__); }\n":            false,
		"void p(const char *); void f(void) { p(__PRETTY_FUNCTION__); }\n":                 false,
	} {
		file := filepath.Join(t.TempDir(), "t.c")
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		u, _, err := ctext.Preprocess(context.Background(), []string{clang, "-w", "-c", file}, ctext.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := Analyze(context.Background(), u, clang)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Unknown(); (got != "") != want {
			t.Errorf("%s: unknown %q", text, got)
		}
	}
}
