package component

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
)

// closure returns all that f's outcome depends on: the hashes of the components
// that it reaches in the unit, and the symbols that they refer to.
func closure(t *testing.T, m *manifest.Manifest, f string) string {
	t.Helper()
	var out []string
	seen := map[*manifest.Component]bool{}
	var visit func(c *manifest.Component)
	visit = func(c *manifest.Component) {
		if seen[c] {
			return
		}
		seen[c] = true
		out = append(out, fmt.Sprintf("%x", c.LocalHash))
		for _, l := range c.Links {
			if l%2 == 0 {
				visit(m.Components[l/2])
			} else {
				out = append(out, m.Symbols[l/2])
			}
		}
	}
	visit(find(t, m, f))
	slices.Sort(out)
	return strings.Join(out, " ")
}

// object compiles C text at -O1, each function in a section of its own.
func object(t *testing.T, cc, source string, flags ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.c"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(clangtest.Tool(t, cc), append([]string{"-O1", "-w", "-c", "a.c"}, flags...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", cc, err, out, source)
	}
	b, err := os.ReadFile(filepath.Join(dir, "a.o"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var variants = regexp.MustCompile(`(?s)<<(.*?)\|\|(.*?)>>`)

// Pairs of plain sources whose code for f differs: so must the hashes that f
// reaches, though what is optimised isn't plain. "<<A||B>>" is A in one and B in the other.
func TestPairs(t *testing.T) {
	for i, c := range []struct{ source, flags string }{
		// Expressions.
		{"int f(int x) { return x + <<1||2>>; }", ""},
		{"int f(int x) { return x <<+||->> 3; }", ""},
		{"int f(int x, int y) { return <<x < y||x <= y>>; }", ""},
		{"int f(int x, unsigned y) { return (<<int||unsigned>>)x > 5 && y; }", ""},
		{"long f(int x) { return <<(unsigned)x||x>>; }", ""},
		{"double f(void) { return <<0.1||0.10000000000000002>>; }", ""},
		{"float f(void) { return <<1e-40f||1.1e-40f>>; }", ""},
		{"long double f(void) { return <<1.1L||1.1>>; }", ""},
		{"const char *f(void) { return <<\"a\\0b\"||\"a\\0c\">>; }", ""},
		{"const char *f(void) { return <<\"\\xff\"||\"\\xfe\">>; }", ""},
		{"const char *f(void) { return <<\"\u00e9\"||\"e\">>; }", ""},
		{"const int *f(void) { return <<L\"ab\"||L\"ac\">>; }", ""},
		{"int f(void) { return sizeof <<\"abc\"||\"ab\">>; }", ""},
		{"int f(void) { return <<'a'||'\\xe1'>>; }", ""},
		{"int f(int x) { return x ? <<1 : 2||2 : 1>>; }", ""},
		{"int f(int x, int y) { return x <<&&||&>> y; }", ""},
		{"int f(int x) { return <<x++ + 1||++x + 1>>; }", ""},
		{"int g(int, int); int f(int a, int b) { return g(<<a, b||b, a>>); }", ""},
		{"int g(void), h(void); int f(void) { return <<g||h>>(); }", ""},
		{"int f(int *p) { return p[<<1||2>>]; }", ""},
		{"int f(int *p) { return *(<<p + 1||1 + p + 1>>); }", ""},
		{"unsigned f(int x) { return <<(unsigned char)||(signed char)>>x; }", ""},
		{"int f(void) { return (<<int||char>>)300; }", ""},
		{"int f(int x) { return __builtin_expect(x, 1) + __builtin_<<ctz||clz>>(x); }", ""},
		{"_Bool f(int x) { return <<(_Bool)x||x & 1>>; }", ""},
		{"int f(int x) { return ({ int y = x; <<y + 1||y + 2>>; }); }", ""},
		{"int f(void) { return <<true||false>>; }", "-std=gnu23"},
		{"const char *f(void) { return __func__ + <<0||1>>; }", ""},

		// Statements.
		{"int f(int x) { <<while (x) x -= 3;||do x -= 3; while (x);>> return x; }", ""},
		{"int g(void); int f(int x) { if (x) goto <<a||b>>; g(); a: g(); b: return 1; }", ""},
		{"int f(int x) { switch (x) { case <<1||2>>: return 3; default: return 4; } }", ""},
		{"int f(int x) { switch (x) { case 1 ... <<4||5>>: return 3; default: return 4; } }", ""},
		{"int g(void); int f(int x) { switch (x) { case 1: g(); <<break;||>> case 2: g(); } return 0; }", ""},
		{"int g(void); int f(int x) { for (int i = 0; i < x; i++) { if (g()) <<break||continue>>; g(); } return 0; }", ""},
		{"int f(void) { <<volatile ||>>int x = 1; return x + x; }", ""},
		{"void g(int *); int f(void) { int x = 1; g(&x); { int y<<||= 1>>; g(&y); } return x; }", ""},
		{"void f(int *p) { <<*p = 1;||>> *(volatile int *)p = 2; }", ""},

		// Variables and initialisers.
		{"int v = <<1||2>>; int *f(void) { return &v; }", ""},
		{"static int v = <<1||2>>; int *f(void) { return &v; }", ""},
		{"static <<const ||>>int v = 1; int f(int *p) { *p = 3; return v; } int *h(void) { return (int *)&v; }", ""},
		{"int v[] = { [<<1||2>>] = 7 }; int *f(void) { return v; }", ""},
		{"struct S { int a, b; } v = { .<<a||b>> = 7 }; struct S *f(void) { return &v; }", ""},
		{"union U { float a; int b; } v = { .<<a||b>> = 7 }; union U *f(void) { return &v; }", ""},
		{"int f(void) { static int n = <<1||2>>; return ++n; }", ""},
		{"int f(void) { <<static||auto>> int n = 1; return ++n; }", ""},
		{"static int a, b; int *v = <<&a||&b>>; int **f(void) { return a++ + b++ ? &v : 0; }", ""},
		{"extern <<int||short>> v; int f(void) { return v; }", ""},
		{"extern <<volatile ||>>int v; int f(void) { return v + v; }", ""},
		{"int *f(int x) { static int t[4] = { <<1||2>>, 3 }; return t + x; }", ""},
		{"int f(void) { return *(int[]){<<1||2>>, 3}; }", ""},
		{"<<static||>> int v; int *f(void) { return &v; } void h(void) { v = 3; }", ""},
		{"char v[<<3||4>>]; unsigned long f(void) { return sizeof v; }", ""},

		// Types.
		{"struct S { <<int a; char b;||char b; int a;>> }; int f(struct S *p) { return p->a; }", ""},
		{"struct S { int a; <<int||long>> b; int c; }; int f(struct S *p) { return p->c; }", ""},
		{"struct S { int a : <<3||4>>; int b : 5; }; int f(struct S *p) { return p->b; }", ""},
		{"struct S { <<unsigned||int>> a : 3; }; int f(struct S *p) { return p->a; }", ""},
		{"struct S { int a : 3; <<int : 0;||>> int b : 4; }; int f(struct S *p) { return p->b; }", ""},
		{"struct T { <<int a;||int a, b;>> }; struct S { struct T t; int c; }; int f(struct S *p) { return p->c; }", ""},
		{"typedef <<int||short>> T; int f(T *p) { return p[1]; }", ""},
		{"typedef struct { int a<<||, b>>; } T; int f(T *p) { return p[1].a; }", ""},
		{"enum E { A<<||= 3>>, B }; int f(void) { return B; }", ""},
		{"enum E { A = <<1||-1>> }; int f(enum E e) { return e < 0; }", ""},
		{"enum E { A = 1<<||, B = 0x1ffffffff>> }; unsigned long f(void) { return sizeof(enum E); }", ""},
		{"enum E : <<short||long>> { A }; unsigned long f(void) { return sizeof(enum E); }", "-std=gnu23"},
		{"enum E { A } <<||__attribute__((packed))>>; unsigned long f(void) { return sizeof(enum E); }", ""},
		{"struct S { char a; int b; } <<||__attribute__((packed))>>; int f(struct S *p) { return p->b; }", ""},
		{"struct S { char a; int b <<||__attribute__((packed))>>; }; int f(struct S *p) { return p->b; }", ""},
		{"struct <<||__attribute__((packed))>> S { char a; int b; }; int f(struct S *p) { return p->b; }", ""},
		{"typedef int T __attribute__((aligned(<<4||16>>))); struct S { char a; T b; }; int f(struct S *p) { return p->b; }", ""},
		{"typedef int T __attribute__((mode(<<DI||SI>>))); long f(T *p) { return p[1]; }", ""},
		{"struct S { char a; char b __attribute__((aligned(<<4||8>>))); }; int f(struct S *p) { return p->b; }", ""},
		{"char v[4] __attribute__((aligned(<<1||64>>))); char *f(void) { return v; }", ""},
		{"void g(char *); void f(void) { char v[4] __attribute__((aligned(<<1||64>>))); g(v); }", ""},
		{"struct S { int a; struct { int b; <<int c;||>> }; int d; }; int f(struct S *p) { return p->d; }", ""},
		{"struct S { int n; int a[<<||1>>]; }; unsigned long f(void) { return sizeof(struct S); }", ""},
		{"int f(void) { struct L { int a<<||, b>>; }; return sizeof(struct L); }", ""},
		{"<<struct||union>> U { int a; int b; }; int f(union V *x, <<struct||union>> U *p) { return p->b; }", ""},
		{"int f(int a[<<||static 3>>], int n) { int s = 0; for (int i = 0; i < n; i++) s += a[0]; return s; }", "clang"},
		{"int (*f(void))[<<3||4>>] { return 0; } unsigned long g(void) { return sizeof *f(); } ", "g"},

		{"struct S { int a, b; char c; }; unsigned long f(void) { return __builtin_offsetof(struct S, <<b||c>>); }", ""},
		{"struct S { int a; <<int||long>> b; char c; }; unsigned long f(void) { return __builtin_offsetof(struct S, c); }", ""},
		{"typedef struct { int a; struct { int b<<||, d>>; } c[4]; } T; unsigned long f(void) { return __builtin_offsetof(T, c[<<1||2>>].b); }", ""},
		{"typedef struct { int a; struct { int b<<||, d>>; } c[4]; } T; unsigned long f(void) { return __builtin_offsetof(T, c[2].b); }", ""},
		{"struct S { int a, b, c; }; struct T { int b, a; }; unsigned long f(void) { return __builtin_offsetof(struct <<S||T>>, b); }", ""},
		{"typedef int T<<|| __attribute__((may_alias))>>; int f(T *p, float *q) { *p = 1; *q = 2; return *p; }", "-O2"},
		{"struct S { int a; }<<|| __attribute__((may_alias))>>; int f(struct S *p, float *q) { p->a = 1; *q = 2; return p->a; }", "-O2"},

		// Functions, their declarations and attributes.
		{"extern int v<<|| __attribute__((visibility(\"hidden\")))>>; int f(void) { return v; }", "-fPIC"},
		{"__attribute__((visibility(\"<<default||hidden>>\"))) int f(void) { return 1; }", "-fPIC"},
		{"int f(<<int||char>> x) { return x; }", ""},
		{"<<int||long>> f(int x) { return x; }", ""},
		{"int g(<<int||long>>); int f(int x) { return g(x); }", ""},
		{"int g(<<void||>>); int f(int x) { return g(); }", "-std=gnu17"},
		{"int g(int<<||, ...>>); int f(int x) { return g(x); }", ""},
		{"<<||__attribute__((pure))>> int g(int); int f(int x) { return g(x) + g(x); }", ""},
		{"int g(int) <<||__attribute__((const))>>; int f(int x) { return g(x) + g(x); }", ""},
		{"int g(int)<<||;int g(int) __attribute__((const))>>; int f(int x) { return g(x) + g(x); }", ""},
		{"void g(void) <<||__attribute__((noreturn))>>; int f(int x) { if (x) g(); return x; }", ""},
		{"<<||_Noreturn>> void g(void); int f(int x) { if (x) g(); return x; }", ""},
		{"void g(void *) __attribute__((nonnull<<(1)||>>)); void h(int *p, int *q) __attribute__((nonnull(<<1||2>>))); int f(int *p, int *q) { h(p, q); return (p ? 1 : 2) + (q ? 3 : 4); }", "gcc -O2"},
		{"<<||__attribute__((noinline))>> static int g(int x) { return x + 1; } int f(int x) { return g(x) * 3; }", ""},
		{"static <<||inline __attribute__((always_inline))>> int g(int x) { for (int i = 0; i < x; i++) x ^= x << 3; return x; } int f(int x) { return g(x) + g(x * 5) + g(x + 7) + g(x + 6); }", "-O0"},
		{"static int g(int x) { return x + <<1||2>>; } int f(int x) { return g(x); }", ""},
		{"int g(int x) { return x + <<1||2>>; } int f(int x) { return g(x); }", ""},
		{"static int a(void) { return 1; } static int b(void) { return 1; } int (*f(void))(void) { return <<a||b>>; } void *h[] = { a, b };", ""},
		{"static int a(void) { static int n; return ++n; } static int b(void) { static int n; return ++n; } int f(void) { return <<a||b>>(); } int h(void) { return a() - b(); }", ""},
		{"int f(void) <<||__attribute__((cold))>>; int f(void) { return 1; }", ""},
		{"__attribute__((aligned(<<16||64>>))) int f(void) { return 1; }", ""},
		{"int g(int) <<||__asm__(\"gg\")>>; int f(int x) { return g(x); }", ""},
		{"int f(int x) <<__attribute__((aligned(64))), g(int)||, g(int) __attribute__((aligned(64)))>>; int f(int x) { return x; }", ""},
		{"struct S { int a; } <<__attribute__((aligned(32))) v||v __attribute__((aligned(32)))>>; unsigned long f(void) { return sizeof v; }", ""},
		{"char <<a __attribute__((aligned(64))), b||a, b __attribute__((aligned(64)))>>; char *f(void) { return &b; }", ""},
		{"static const char *<<g||h>>(void) { return __func__; } const char *f(void) { return <<g||h>>(); }", ""},
		{"void *g(int) __attribute__((alloc_size(1)<<||, malloc>>)); int f(int *p) { *p = 1; int *q = g(4); *q = 2; return *p; }", ""},
		{"void *g(void) <<||__attribute__((returns_nonnull))>>; int f(void) { return g() ? 1 : 2; }", "-O2"},
		{"#include <stdarg.h>\nint f(int n, ...) { va_list a; va_start(a, n); return va_arg(a, <<int||double>>); }", ""},
		{"int f(int a, int b) <<{ return a; }||{ return b; }>>", ""},
		{"int f(a, b) <<int a; char b;||char a; int b;>> { return a; }", "-std=gnu89"},
		{"#include <string.h>\nvoid f(char *a, char *b) { <<memcpy||memmove>>(a, b, 100); }", ""},
		{"#include <stdio.h>\nint f(const char *s) { int x; return sscanf(s, \"<<%d||%x>>\", &x); }", "-std=gnu17"},
		{"#include <stdio.h>\n#include <string.h>\nchar b[<<8||9>>]; void f(const char *s) { strcpy(b, s); }", "-O2 -D_FORTIFY_SOURCE=2"},
		{"#include <assert.h>\nvoid f(int x) { assert(x > <<1||2>>); }", ""},
		{"#include <assert.h>\n<<||\n>>void f(int x) { assert(x > 1); }", ""},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			var flags []string
			compilers, root, differ := []string{"clang", "gcc"}, "f", false
			for _, w := range strings.Fields(c.flags) {
				switch w {
				case "clang", "gcc":
					compilers = []string{w}
				case "g":
					root = "g"
				case "idle": // the difference can't be seen in the code of one of them
					differ = true
				default:
					flags = append(flags, w)
				}
			}
			plain := slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return strings.HasPrefix(f, "-O") })
			a, b := variants.ReplaceAllString(c.source, "$1"), variants.ReplaceAllString(c.source, "$2")
			for _, cc := range compilers {
				differ = differ || !bytes.Equal(object(t, cc, a, flags...), object(t, cc, b, flags...))
				x, why1 := evidence(t, cc, a, plain...)
				y, why2 := evidence(t, cc, b, plain...)
				if why1+why2 != "" {
					t.Errorf("%s: %s: not plain: %s%s", cc, c.source, why1, why2)
				} else if closure(t, x, root) == closure(t, y, root) {
					t.Errorf("%s: %s: the hashes are equal", cc, c.source)
				}
			}
			if !differ {
				t.Errorf("%s: the code is the same", c.source)
			}
		})
	}
}
