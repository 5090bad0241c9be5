package component

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/tu"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
)

// evidence returns the manifest of C text, or why it isn't plain.
func evidence(t testing.TB, cc, text string, flags ...string) (*manifest.Manifest, string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "a.c")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	argv := append(append([]string{clangtest.Tool(t, cc)}, flags...), "-c", name)
	u, _, err := tu.Preprocess(context.Background(), argv, tu.Options{AnyCompiler: true})
	if err != nil {
		t.Fatal(err)
	}
	m, err := Analyze(context.Background(), u, clangtest.Clang(t))
	var not *NotPlain
	if errors.As(err, &not) {
		return nil, not.Reason
	}
	if err != nil {
		t.Fatal(err)
	}
	return m, ""
}

// What is plain, and why what isn't is not. Sources that one of the compilers
// refuses name the other.
func TestPlain(t *testing.T) {
	const headers = "#include <assert.h>\n#include <ctype.h>\n#include <errno.h>\n#include <inttypes.h>\n#include <limits.h>\n#include <math.h>\n#include <stdarg.h>\n#include <stdbool.h>\n" +
		"#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <time.h>\n"
	for i, c := range []struct{ source, flags, reason string }{
		// Plain.
		{"int f(int x) { return x + 1; }", "", ""},
		{headers + "int f(char *b) { assert(b); bool x = true; snprintf(b, 3, \"%\" PRId64, (int64_t)1); return x + toupper(*b) + errno + isnan(sqrt(2)) + atoi(b); }", "-O0", ""},
		{headers + "int f(char *b) { assert(b); bool x = true; snprintf(b, 3, \"%\" PRId64, (int64_t)1); return x + toupper(*b) + errno + isnan(sqrt(2)) + atoi(b); }", "", ""},
		{headers + "int f(char *b) { sscanf(b, \"x\"); printf(\"%s\", b); memcpy(b, b + 9, 3); return fgets(b, 4, stdin) != 0; }", "-D_FORTIFY_SOURCE=1", ""},
		{headers + "int f(char *b) { strcpy(b, \"x\"); fread(b, 1, 2, stdin); return (int)time(0); }", "-D_FORTIFY_SOURCE=2 -std=c11", ""},
		{"#include <pthread.h>\n#include <unistd.h>\nint f(void) { return getpid(); }", "-O0", ""},
		{"#pragma once\n#pragma GCC diagnostic push\n#pragma GCC diagnostic ignored \"-Wall\"\n#pragma message(\"x\")\nint f(void) { return 1; }", "", ""},
		{"_Pragma(\"GCC diagnostic push\") int f(void) { return 1; }", "", ""},
		{"int g(int) __attribute__((nonnull, nothrow, leaf, pure, warn_unused_result)); int f(int x) { return g(x); }", "", ""},
		{"void g(const char *, ...) __attribute__((format(printf, 1, 2))); void f(void) { g(\"x\"); }", "", ""},
		{"void *g(int) __attribute__((malloc, alloc_size(1), returns_nonnull)); void *f(void) { return g(1); }", "", ""},
		{"void h(void *); void *g(int) __attribute__((malloc(h, 1))); void *f(void) { return g(1); }", "", ""},
		{"_Noreturn void g(void); void f(void) { g(); }", "", ""},
		{"__attribute__((noinline)) static int g(void) { return 1; } int f(void) { return g(); }", "", ""},
		{"struct __attribute__((packed)) S { char c; int i; }; int f(struct S *s) { return s->i; }", "", ""},
		{"struct S { char c; } __attribute__((aligned(16))); int f(void) { return sizeof(struct S); }", "", ""},
		{"char v[4] __attribute__((aligned(__alignof__(long long)))); int f(void) { return v[0]; }", "", ""},
		{"extern int g(int) __asm__(\"\" \"g2\"); int f(int x) { return g(x); }", "", ""},
		{"int f(int x) { int *p = &(int){x}; return ({ int y = *p; y + 1; }); }", "", ""},
		{"int f(int x) { switch (x) { case 1 ... 4: return 2; default: return 3; } }", "", ""},
		{"struct { int a; union { int b; float c; }; } v = { .c = 1 }; int f(void) { return v.b; }", "", ""},
		{"#ifdef __has_include\n#if __has_include(<stdio.h>)\nint f(void) { return 1; }\n#endif\n#endif", "", ""},
		{"typedef __typeof__(sizeof 1) unused; int f(void) { return 1; }", "", ""},
		{"static inline int g(int n) { int a[n]; return sizeof a; } int f(void) { return 1; }", "", ""},
		{"const char *f(void) { return __func__; }", "", ""},
		{"int f(int a[static 3], int b[const]) { return a[0] + b[0]; }", "", ""},
		{"int f(int n, int a[n]);  int g(void) { return 1; }", "", ""},
		{"int module, import; int f(void) { return module + import; }", "", ""},
		{"int f(void) { return 1; }", "-U_FORTIFY_SOURCE -fstack-protector -Wunused-but-set-parameter -Wno-free-nonheap-object -fno-omit-frame-pointer -fno-canonical-system-headers -Wno-builtin-macro-redefined -D__DATE__=\"redacted\" -frandom-seed=x -iquote . -Wl,-z,now", ""},
		{"const char *f(void) { return __DATE__; }", "-D__DATE__=\"redacted\"", ""},

		{"#include <stddef.h>\nstruct S { int a; struct { int c[3]; } b; }; int f(void) { return offsetof(struct S, b.c[2]); }", "", ""},
		{"static int __redisAsyncFree(int x) { return x; } int f(int x) { return __redisAsyncFree(x); }", "", ""},

		// Flags.
		{"int f(void) { return 1; }", "-Wall -Werror", "flag -Werror"},
		{"int f(void) { return 1; }", "-O1", "flag -O1"},
		{"int f(void) { return 1; }", "-Werror=unused", "flag -Werror=unused"},
		{"int f(void) { return 1; }", "-pedantic-errors", "flag -pedantic-errors"},
		{"int f(void) { return 1; }", "-fexec-charset=UTF-8", "flag -fexec-charset=UTF-8"},
		{"int f(void) { return 1; }", "-finput-charset=UTF-8", "flag -finput-charset=UTF-8"},
		{"int f(void) { return 1; }", "-finstrument-functions", "flag -finstrument-functions"},
		{"int f(void) { return 1; }", "-fsanitize=undefined", "flag -fsanitize=undefined"},
		{"int f(void) { return 1; }", "--coverage", "flag --coverage"},
		{"int f(void) { return 1; }", "-fprofile-arcs", "flag -fprofile-arcs"},
		{"int f(void) { return 1; }", "-fopenmp", "flag -fopenmp"},
		{"int f(void) { return 1; }", "-flto", "flag -flto"},
		{"int f(void) { return 1; }", "-fpack-struct", "flag -fpack-struct"},
		{"int f(void) { return 1; }", "-ftrapv", "flag -ftrapv"},
		{"int f(void) { return 1; }", "-fpatchable-function-entry=2", "flag -fpatchable-function-entry=2"},
		{"int f(void) { return 1; }", "-m32", "flag -m32"},
		{"int f(void) { return 1; }", "-mlong-double-64", "flag -mlong-double-64"},
		{"int f(void) { return 1; }", "-mno-sse2", "flag -mno-sse2"},
		{"int f(void) { return 1; }", "-Wa,--noexecstack", "flag -Wa,--noexecstack"},
		{"int f(void) { return 1; }", "-Wp,-DX", "flag -Wp,-DX"},
		{"int f(void) { return 1; }", "-Xassembler --noexecstack", "flag -Xassembler"},
		{"int f(void) { return 1; }", "-imacros /dev/null", "flag -imacros"},
		{"int f(void) { return 1; }", "-B /tmp", "flag -B"},
		{"int f(void) { return 1; }", "-fshort-wchar", "flag -fshort-wchar"},
		{"int f(void) { return 1; }", "-fprotect-parens", "flag -fprotect-parens"},
		{"int v; int f(void) { return v; }", "-fcommon", "flag -fcommon"},
		{"int f(void) { return 1; }", "-x c++", "it is another language"},
		{"#include <stdio.h>\nint f(void) { return 1; }", "-std=c++98", "flag -std=c++98"},

		// Text.
		{"__asm__(\"nop\");\nint f(void) { return 1; }", "", "asm"},
		{"int f(void) { __asm__(\"nop\"); return 1; }", "", "asm"},
		{"int f(void) { register int x __asm__(\"ebx\") = 1; return x; }", "", "asm"},
		{"int v __asm__(\"w\");\nint f(void) { return v; }", "", "asm"},
		{"int g(void) __asm__(\"a.b\"); int f(void) { return g(); }", "", "asm"},
		{"int g(void) __asm__(\"$g\"); int f(void) { return g(); }", "", "asm"},
		{"int g(void) __asm__(\"g2\"); int g(void) { return 1; }", "", "asm label of the defined g"},
		{"int g(void) __asm__(\"h\"); static int h(void) { return 1; } int f(void) { return g() + h(); }", "", "one symbol"},
		{"int g(void) __asm__(\"h\"); static int h(void) { return 1; } int f(void) { return h(); }", "", "asm label of another function"},
		{"unsigned long strlen(const char *s) { return 3; } unsigned long f(char *s) { return __builtin_strlen(s); }", "-fno-builtin", "flag -fno-builtin"},
		{"unsigned long strlen(const char *s); unsigned long f(char *s) { return strlen(s); } unsigned long g(char *s) { return __builtin_strlen(s); }", "", "one symbol"},
		{"int f(int x) __attribute__((flatten)); int f(int x) { return x; }", "", "attribute flatten"},
		{"__attribute__((overloadable)) int f(int x) { return x; }", "", "attribute overloadable"},
		{"int g(int) [[gnu::pure]]; int f(int x) { return g(x); } int g [[gnu::pure]] (int);", "-std=c23", "attribute in brackets"},
		{"int *g(void *p) __attribute__((nonnull(1))); int *f(void) { return g((void *)1); } int *g(void *p) __attribute__((nonnull(1)));", "", ""},
		{"int *g(void *p); int *f(void) { return g((void *)1); } int *g(void *p __attribute__((nonnull)));", "", "used before"},
		{"int g(int); int f(int x) { return g(x); } __attribute__((unused)) int g(int x) { return x; }", "", ""},
		{"int rel(void) { static int ro; return ro++; }", "", "linkers know sections"},
		{"int (*p)(void) __asm__(\"q\"); int f(void) { return p(); }", "", "asm label of the defined p"},
		{"#pragma pack(1)\nint f(void) { return 1; }", "", "directive #pragma pack(1)"},
		{"#pragma weak g\nint f(void) { return 1; }", "", "directive #pragma weak g"},
		{"#pragma STDC FP_CONTRACT ON\nint f(void) { return 1; }", "", "directive #pragma STDC"},
		{"#pragma GCC optimize(\"O3\")\nint f(void) { return 1; }", "", "directive #pragma GCC optimize"},
		{"int\n#pragma GCC visibility push(default)\nf(void) { return 1; }\n#pragma GCC visibility pop\n", "", "directive #pragma GCC visibility"},
		{"int f(void) {\n#pragma GCC visibility push(default)\nreturn 1; }\n#pragma GCC visibility pop\n", "", "directive #pragma GCC visibility"},
		{"#pragma GCC visibility push(hidden)\nint f(void) { return 1; }\n#pragma GCC visibility pop\n", "", "directive #pragma GCC visibility"},
		{"#pragma frobnicate\nint f(void) { return 1; }", "", "directive #pragma frobnicate"},
		{"#pragma omp parallel\nint f(void) { return 1; }", "", "directive #pragma omp"},
		{"#define M weak g\n#pragma M\nint f(void) { return 1; }", "", "directive #pragma"},
		{"int f(void) { _Pragma(\"STDC FENV_ACCESS ON\") return 1; }", "", "directive #pragma STDC"},
		{"#pragma GCC diagnostic error \"-Wreturn-type\"\nint f(void) { return 1; }", "", "directive #pragma GCC diagnostic error"},
		{"_Pragma(\"clang diagnostic fatal \\\"-Wreturn-type\\\"\") int f(void) { return 1; }", "", "directive #pragma clang diagnostic fatal"},
		{"#ident \"x\"\nint f(void) { return 1; }", "", "directive #ident"},
		{"const char *f(void) { return __TIME__; }", "", "__TIME__"},
		{"#define P(a, b) a##b\nconst char *f(void) { return P(__DA, TE__); }", "", "__DATE__"},
		{"int f(void) { return __builtin_LINE(); }", "", "__builtin_LINE"},
		{"typedef char T[__builtin_LINE()]; int f(void) { return sizeof(T); }", "", "__builtin_LINE"},
		{"const char v[] = {\n#embed \"a.c\"\n}; int f(void) { return v[0]; }", "-std=gnu23", "#embed in a.c"},
		{"const char v[] = {\n#/* x */embed \"a.c\"\n}; int f(void) { return v[0]; }", "-std=gnu23", "#embed in a.c"},
		{"const char v[] = {\n%:embed \"a.c\"\n}; int f(void) { return v[0]; }", "-std=gnu23", "#embed in a.c"},
		{"const char v[] = {\n#em\\\nbed \"a.c\"\n}; int f(void) { return v[0]; }", "-std=gnu23", "#embed in a.c"},
		{"#if __has_embed(\"x\")\n#endif\nint f(void) { return 1; }", "-std=gnu23", "#embed in a.c"},
		{"int f(void) <% return 1; %>", "", "operator <%"},
		{"int f(int *a) { return a<:0:>; }", "", "operator <:"},
		{"const char *f(void) { return \"what??!\"; }", "", "trigraph"},
		{"const char *f(void) { return R\"(x)\"; }", "-std=gnu17", "raw string"},
		{"const char *f(void) { return \"x\\\\\\N{LATIN SMALL LETTER E}\"; }", "", "escape in braces"},
		{"const char *f(void) { return \"x\\\\N{LATIN SMALL LETTER E}\" \"{\\x41{\"; }", "", ""},
		{"int f(void) { return sizeof(struct { int a; }); }", "", "defined in parentheses"},
		{"int f(int *p) { return ((struct __attribute__((packed)) S { int a; } *)p + 1) != 0; }", "", "defined in parentheses"},
		{"int f(struct S { int a; } *p) { return sizeof *p; }", "", "defined in parentheses"},
		{"int f(void) { return sizeof(enum e : typeof(1L) { a }); }", "-std=gnu23", "typeof"},
		{"struct S { int a; }; int f(struct S x) { return ({ struct T { int b; } t = { 1 }; f((struct S){ t.b }); }); }", "", ""},
		{"int f(void) { return 'ab'; }", "", "character literal 'ab'"},
		{"int $x; int f(void) { return $x; }", "", "name $x"},
		{"int \u00e9; int f(void) { return \u00e9; }", "clang", "name"},
		{"_Float16 v; int f(void) { return v > 1; }", "", "_Float16"},
		{"int f(int x) { __auto_type y = x; return y; }", "", "__auto_type"},

		{"int v[] = { [0 ... 3] = 7, 1 }; int *f(void) { return v; }", "", "range designator"},
		{"int f(int n) { switch (n) { case 0 ... 3: return 1; } return 2; }", "", ""},
		{"int f(int n) { typedef int T[n++]; return n; }", "", "depends on values"},
		{"int f(int n) { typedef int T[3]; T v; return v[n]; }", "", ""},
		{"extern _Thread_local int v; int f(void) { return v; }", "", "_Thread_local"},
		{"char v[300000000]; int f(void) { return v[1]; }", "", "of many megabytes"},
		{"long v[600000], w[600000]; int f(void) { return 1; }", "", "variable w, of many megabytes"},
		{"_BitInt(65536) v[1000]; int f(void) { return 1; }", "clang", "of many megabytes"},
		{"struct S { int n; char c[]; } s = { 1, { [10000000] = 1 } };", "", "of many megabytes"},
		{"int f(void) { return 1; }", "-Werror-unused", "flag -Werror-unused"},
		{"int f(void) { return 1; }", "-Wfatal-errors=unused", "flag -Wfatal-errors=unused"},
		{"int f(int x) { return __builtin_constant_p(x); } int g(void) { return 1; }", "", "__builtin_constant_p"},
		{"double f(double x) { return __builtin_elementwise_sin(x); }", "clang", "__builtin_elementwise_sin"},
		{"long v[30000], w[30000]; int f(void) { return 1; }", "", ""},
		{"char *v = (char[300000000]){0};", "", "compound literal, of many megabytes"},
		{"__attribute__((aligned(1 << 30))) char v;", "", "attribute aligned of many bytes"},
		{"__attribute__((aligned(1073741824))) char v;", "", "attribute aligned of many bytes"},
		{"__attribute__((aligned(sizeof(long)))) char v; char w __attribute__((aligned(64)));", "", ""},
		{"__attribute__((aligned(4096 * sizeof(long)))) char v;", "", "attribute aligned of many bytes"},
		{"#define S(x) #x\n#define T(x) S(x)\nconst char *f(void) { return T(__TIME__); }", "", "time as text"},
		{"int f(int c) { return __builtin_ia32_crc32qi(c, 1); }", "", "__builtin_ia32_crc32qi"},
		{"extern void *__tls_get_addr(unsigned long *); void *f(unsigned long *i) { return __tls_get_addr(i); }", "", "__tls_get_addr"},
		// Attributes.
		{"__attribute__((constructor)) static void f(void) { }", "", "attribute constructor"},
		{"int t(void) { return 1; } int f(void) __attribute__((alias(\"t\")));", "", "attribute alias"},
		{"__attribute__((section(\"s\"))) int v; int f(void) { return v; }", "", "attribute section"},
		{"__attribute__((used)) static int v; int f(void) { return 1; }", "", "attribute used"},
		{"int f(void); __attribute__((visibility(\"hidden\"))) int f(void) { return 1; }", "", "isn't on the first declaration"},
		{"__attribute__((target(\"avx2\"))) int f(void) { return 1; }", "", "attribute target"},
		{"void d(int *); int f(void) { __attribute__((cleanup(d))) int x = 1; return x; }", "", "attribute cleanup"},
		{"__attribute__((frobnicate)) int f(void) { return 1; }", "", "attribute frobnicate"},
		{"typedef int V __attribute__((vector_size(16))); V f(V a) { return a + a; }", "", "attribute vector_size"},
		{"typedef int T; char v[4] __attribute__((aligned(sizeof(T)))); int f(void) { return v[0]; }", "", "attribute aligned"},
		{"struct __attribute__((packed)) S; struct S { char c; int i; }; int f(struct S *s) { return s->i; }", "", "isn't defined there"},
		{"void h(void *p) { } void *g(int) __attribute__((malloc(h, 1))); void *f(void) { return g(1); }", "", "an attribute malloc names it"},
		{"__attribute__((no_instrument_function)) int f(void) { return 1; }", "", "attribute no_instrument_function"},
		{"int f(void) { __attribute__((nomerge)) f(); return 1; }", "", "attribute nomerge"},
		{"extern int v __attribute__((tls_model(\"local-exec\"))); int f(void) { return v; }", "", "attribute tls_model"},

		{"_Alignas(16) char v[4]; int f(void) { return v[0]; }", "", "_Alignas"},
		{"int f(int x) { static void *t[] = { &&a, &&b }; goto *t[x]; a: return 1; b: return 2; }", "", "AddrLabelExpr"},
		{"int f(double x) { return _Generic(x, double: 1, default: 2); }", "", "GenericSelectionExpr"},
		{"_Thread_local int v; int f(void) { return v; }", "", "_Thread_local"},
		{"double f(double _Complex x) { return __real__ x; }", "", "__real__"},
		{"void g(void) __attribute__((weak)); int f(void) { return 1; }", "", ""},
		{"void g(void) __attribute__((weak)); void f(void) { g(); }", "", "WeakAttr"},
		{"inline int g(void) { return 1; } int f(void) { return g(); }", "-std=c99", "inline function g with external linkage"},
		{"inline int g(void) { return 1; } extern int g(void); int f(void) { return g(); }", "-std=c99", "inline function g with external linkage"},
		{"extern inline int g(void) { return 1; } int f(void) { return g(); }", "-std=gnu89", "inline function g with external linkage"},
		{"constexpr int v = 3; int f(void) { return v; } int *g(void) { return nullptr; }", "-std=gnu23", "constexpr"},
		{"int f(void) { return 1; }", "-g -Wall -fPIC -ffunction-sections -fno-strict-aliasing -fstack-protector -MD -MF /dev/null -DX=1 -I. -pthread -std=c17", ""},
		{"__attribute__((visibility(\"hidden\"))) int f(void) { return 1; }", "", ""},
		{"#pragma GCC visibility push(default)\n#include <stdio.h>\n#pragma GCC visibility pop\nint f(void) { return puts(\"x\"); }", "", ""},

		// The tree.
		{"int f(int n) { int a[n]; return sizeof a; }", "", "variable bound"},
		{"int h(void); int f(void) { return sizeof(int[h()]); }", "", "variable bound"},
		{"int f(int n, int a[n++]) { return n + a[0]; }", "", "variable bound"},
		{"int f(int n, int a[2][n]) { return a[1][1]; }", "", "variable bound"},
		{"int f(int x) { __typeof__(x) y = x; return y; }", "", "typeof"},
		{"struct S { int a, b[2]; }; int f(int i) { return __builtin_offsetof(struct S, b[i]); }", "", "offsetof of more"},
		{"int f(int i) { return __builtin_offsetof(struct { int a, b; }, b); }", "", "offsetof of more"},
		{"enum { N = 1 }; struct S { int a, b[2]; }; int f(void) { return __builtin_offsetof(struct S, b[N]); }", "", "offsetof of more"},
		{"int f(int *p) { return __atomic_load_n(p, 5); }", "", "AtomicExpr"},
		{"typedef unsigned char bool; bool f(bool x) { return x; }", "-std=gnu17", "type named bool"},
		{"typedef unsigned short char16_t; char16_t f(char16_t x) { return x; }", "", "type named char16_t"},
		{"typedef int noreturn; noreturn f(void) { return 1; }", "", "type named noreturn"},
		{"struct S { int a; }; int f(void) { struct S { long b; } s = { 1 }; return s.b; }", "", "type S hides another"},
		{"typedef int T; int f(void) { typedef char T; T x = 1; return x; }", "", "type T hides another"},
		{"inline int g(void); int f(void) { int g(void); return g(); } inline int g(void) { return 1; }", "-std=c99", "declaration of function g in a block"},
		{"int g(int); int f(int x) { return g(x); } int g(int) __attribute__((const));", "", "used before all is said of it"},
		{"int g(int) __attribute__((const)); int g(int); int f(int x) { return g(x); } int g(int);", "", ""},
		{"void g(int) __attribute__((noreturn)); void f(int x) { g(x); } void g(int x) { for (;;) g(x); }", "", ""},
		{"extern const int v; int f(void) { return v; } const int v = 3;", "", "used before all is said of it"},
		{"typedef const int T; extern T v; int f(void) { return v; } T v = 3;", "", "used before all is said of it"},
		{"extern const int v; const int v = 3; int f(void) { return v; }", "", ""},
		{"extern int v; int f(void) { return v; } int v = 3;", "", ""},
		{"int a[]; int a[5]; int *f(void) { return a; }", "", "used before all is said of it"},
		{"extern int a[]; int a[5]; int *f(void) { return a; }", "", ""},
		{"extern int a[]; int *f(void) { return a; } int a[5];", "", "used before all is said of it"},
		{"struct s; extern struct s v; struct s { int i; }; int f(void) { return v.i; }", "", "before it is complete"},
		{"enum e; extern enum e v; enum e { A }; int f(void) { return v; }", "", "before it is complete"},
		{"struct s; extern struct s v; struct s *f(void) { return &v; }", "", ""},
		{"typedef int T; typedef int T; int f(T x) { return x; }", "", ""},
		{"typedef int T; typedef T U; typedef T T; typedef U T; typedef int U; int f(T x, U y) { return x + y; }", "", ""},
		{"typedef int T; int f(T x) { return x; } typedef int T __attribute__((aligned(64))); typedef int T __attribute__((aligned(64))); T v;", "", "declared in two ways"},
		{"int f(int x) { return g(x); } int g(int) __attribute__((const));", "-std=gnu89", "used before"},
		{"static int g(int x); int f(int x) { return g(x); } static int g(int x __attribute__((unused))) { return 1; }", "", ""},
		{"void g(void) __attribute__((noreturn)); void f(void) { g(); } __attribute__((noreturn)) void g(void) { for (;;); }", "", ""},
		{"void g(void); void f(void) { g(); } __attribute__((noreturn)) void g(void) { for (;;); }", "", "used before"},
		{"extern const char *p; const char *f(void) { return p; } const char *p = \"x\";", "", ""},
		{"extern const char *const p; const char *f(void) { return p; } const char *const p = \"x\";", "", "used before"},
		{"int v; int f(int x) { switch (x) { case 1: x++; __attribute__((fallthrough)); case 2: x++; } extern int v; return v + x; }", "", "declaration of variable v in a block"},
		{"int f(int n) { if (n) f(n - 1); int f(int) __attribute__((const)); return n; }", "", "declaration of function f in a block"},
		{"#include <stdarg.h>\n#include <stdio.h>\nint f(va_list *x) { return va_arg(*x, int); }", "", ""},
		{"typedef int T; typedef int T __attribute__((aligned(64))); int f(T x) { return x; }", "", "declared in two ways"},
		{"static void *memcpy(void *a, const void *b, unsigned long n) { return a; } int f(int *p) { memcpy(p, p, 4); return 1; }", "", "has the name of a library's"},
		{"enum { A = __builtin_constant_p(1) }; int f(void) { return A; }", "", "CallExpr in an enumerator"},
		{"int f(const char *p) { char *q = (char *)p; return *q; } int g(unsigned *p) { int *q = p; return *q; }", "", ""},
		{"int f(float *p) { return p != 0; } enum { N = 2 }; int v[N]; int g(int *p) { return f(p); }", "clang", "incompatible pointer types"},
		{"int *p; float *q; int f(int x) { return (x ? p : q) != 0; }", "clang", "pointer type mismatch"},
		{"static const int n = 3; int f(int x) { switch (x) { case n: return 1; } return 2; }", "clang", "not an integer constant expression"},
		{"static const int n = 3; int v[n]; int f(void) { return 1; }", "clang", "folded to constant array"},
		{"static int g(void); int f(void) { return g(); }", "", "has internal linkage but is not defined"},
		{"int f(int x) { int g(int y) { return x + y; } return g(1); }", "gcc", "clang reported an error in"},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			for _, cc := range []string{"clang", "gcc"} {
				if c.flags == "gcc" && cc == "clang" || c.flags == "clang" && cc == "gcc" || c.flags == "-mlong-double-64" && cc == "clang" {
					continue
				}
				if cc == "clang" && (strings.HasPrefix(c.flags, "-fexec-charset") || strings.Contains(c.flags, "canonical") || strings.Contains(c.source, "R\"(")) {
					// It refuses them, or has no such literal.
					continue
				}
				flags := strings.TrimPrefix(strings.TrimPrefix(c.flags, "gcc"), "clang")
				_, reason := evidence(t, cc, c.source, strings.Fields(flags)...)
				if (reason == "") != (c.reason == "") || !strings.Contains(reason, c.reason) {
					t.Errorf("%s %s:\n%s\nnot plain for %q, want %q", cc, c.flags, strings.TrimPrefix(c.source, headers), reason, c.reason)
				}
			}
		})
	}
}
