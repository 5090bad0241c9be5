package component

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/clangast"
	"github.com/rules-tasting/rules_tasting/analyzer/ctext"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/clangtest"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// analyze returns the manifest of C text.
func analyze(t testing.TB, cc, text string, flags ...string) *manifest.Manifest {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(dir, "a.c")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	argv := append(append([]string{clangtest.Tool(t, cc)}, flags...), "-c", name)
	u, _, err := ctext.Preprocess(context.Background(), argv, ctext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := Analyze(context.Background(), u, clangtest.Clang(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func find(t testing.TB, m *manifest.Manifest, name string) *manifest.Component {
	t.Helper()
	for _, c := range m.Components {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no component %q (fallbacks: %v)", name, m.Fallbacks)
	return nil
}

func localHash(t testing.TB, m *manifest.Manifest, name string) string {
	return hex.EncodeToString(find(t, m, name).LocalHash)
}

func links(t testing.TB, m *manifest.Manifest, name string) string {
	l, _ := m.LinkNames(find(t, m, name))
	return strings.Join(l, " ")
}

// Edits that can't influence the code of f.
func TestHashIgnores(t *testing.T) {
	base := `struct S { int a, b; struct S *next; };
enum E { A, B };
static int helper(int x) { return x + 1; }
int other(void) { return 0; }
int f(struct S *s, int n) { int i; for (i = 0; i < n; i++) s->a += helper(i) + B; out: return s->b; }
`
	for name, edit := range map[string][2]string{
		"comment":                        {"return s->b", "return /* why */ s->b"},
		"layout":                         {"int i; for", "int i;\n\n  for"},
		"name of a local":                {"int i; for (i = 0; i < n; i++) s->a += helper(i)", "int k; for (k = 0; k < n; k++) s->a += helper(k)"},
		"name of a parameter":            {"int n) { int i; for (i = 0; i < n;", "int m) { int i; for (i = 0; i < m;"},
		"name of a label":                {"out:", "end:"},
		"name of a static function":      {"helper", "assistant"},
		"body of a callee":               {"return x + 1", "return x + 2"},
		"redundant declaration":          {"int f(struct", "int f(struct S *, int); int f(struct"},
		"another function":               {"return 0", "return 1"},
		"order of functions":             {"int other(void) { return 0; }\n", ""},
		"a later enumerator":             {"A, B }", "A, B, C = 1 }"},
		"what a pointer field points to": {"enum E", "struct T; enum E"},
		"unused type":                    {"enum E", "struct U { int z; }; enum E"},
		"unused declaration":             {"enum E", "int unused(void); enum E"},
		"parentheses":                    {"helper(i) + B", "(helper(i) + (B))"},
		"null statement":                 {"int i; for", "int i;; for"},
	} {
		changed := strings.ReplaceAll(base, edit[0], edit[1])
		if changed == base {
			t.Fatalf("%s: the edit changes nothing", name)
		}
		for _, cc := range []string{"clang", "gcc"} {
			if a, b := localHash(t, analyze(t, cc, base), "f"), localHash(t, analyze(t, cc, changed), "f"); a != b && name != "body of a callee" && name != "name of a static function" {
				t.Errorf("%s (%s): the hash of f changes", name, cc)
			}
		}
	}
}

// Edits that can influence the code of f.
func TestHashCovers(t *testing.T) {
	base := `typedef unsigned size;
struct S { int a; int b; struct S *next; };
enum E { A, B };
int g(int); int g2(int);
extern int v;
int f(struct S *s, int n) {
  if (n > 3) goto one;
  s->a += g(n) + B + (int)sizeof(size) + v;
one: n++;
two: return s->next->b;
}
`
	for name, edit := range map[string][2]string{
		"constant":            {"n > 3", "n > 4"},
		"operator":            {"n > 3", "n >= 3"},
		"callee":              {"g(n)", "g2(n)"},
		"field":               {"next->b", "next->a"},
		"field type":          {"int b;", "long b;"},
		"field order":         {"int a; int b;", "int b; int a;"},
		"new field":           {"int a; int b;", "int a; char c; int b;"},
		"enumerator":          {"A, B", "A, C, B"},
		"typedef":             {"typedef unsigned size", "typedef unsigned long size"},
		"goto":                {"goto one", "goto two"},
		"callee's attribute":  {"int g(int);", "__attribute__((pure)) int g(int);"},
		"its attribute":       {"int f(", "__attribute__((noinline)) int f("},
		"attribute elsewhere": {"extern int v;", "extern int v; int f(struct S *, int) __attribute__((cold));"},
		"packing pragma":      {"struct S {", "#pragma pack(1)\nstruct S {"},
		"type of a variable":  {"extern int v", "extern short v"},
		"volatile":            {"extern int v", "extern volatile int v"},
		"unknown pragma":      {"extern int v", "#pragma frobnicate\nextern int v"},
		"type of a parameter": {"int n)", "long n)"},
		"statement":           {"one: n++", "one: ++n; n++"},
		"statement attribute": {"one: n++", "one:; __attribute__((nomerge)) g(1); n++"},
		"alignment of a type": {"*next; };", "*next; } __attribute__((aligned(64)));"},
		"pragma in force":     {"int f(", "#pragma STDC FP_CONTRACT ON\nint f("},
		"asm label of callee": {"int g(int);", "int g(int) __asm__(\"gg\");"},
	} {
		changed := strings.ReplaceAll(base, edit[0], edit[1])
		if changed == base {
			t.Fatalf("%s: the edit changes nothing", name)
		}
		for _, cc := range []string{"clang", "gcc"} {
			if a, b := localHash(t, analyze(t, cc, base), "f"), localHash(t, analyze(t, cc, changed), "f"); a == b {
				t.Errorf("%s (%s): the hash of f stays", name, cc)
			}
		}
	}
}

func TestFlagsCount(t *testing.T) {
	src := "int f(int x) { return x; }\n"
	base := localHash(t, analyze(t, "clang", src, "-O1"), "f")
	for _, flag := range []string{"-O2", "-fwrapv", "-fPIC", "-march=x86-64-v3", "-funsigned-char", "-fsanitize=undefined"} {
		if localHash(t, analyze(t, "clang", src, "-O1", flag), "f") == base {
			t.Errorf("%s doesn't count", flag)
		}
	}
	for _, flag := range []string{"-Wall", "-g", "-DUNUSED", "-I.", "-MD"} {
		if localHash(t, analyze(t, "clang", src, "-O1", flag), "f") != base {
			t.Errorf("%s counts", flag)
		}
	}
}

// What only gcc understands counts by its text.
func TestGCCOnly(t *testing.T) {
	branch := "int f(int x) {\n#ifndef __clang__\n  x += 1;\n#endif\n  return x; }\n"
	if localHash(t, analyze(t, "gcc", branch), "f") == localHash(t, analyze(t, "gcc", strings.Replace(branch, "+= 1", "+= 2", 1)), "f") {
		t.Error("code that only gcc compiles doesn't count")
	}
	attr := "__attribute__((optimize(\"O1\"))) int f(int x) { return x; }\n"
	if localHash(t, analyze(t, "gcc", attr), "f") == localHash(t, analyze(t, "gcc", strings.Replace(attr, "O1", "O3", 1)), "f") {
		t.Error("an attribute that only gcc knows doesn't count")
	}
	nested := "int f(int x) { int g(int y) { return x + y; } return g(1); }\n"
	if m := analyze(t, "gcc", nested); m.Rung != manifest.Rung_RUNG_FILE || len(m.Fallbacks) != 1 || !strings.Contains(m.Fallbacks[0].Reason, "clang reported an error in") {
		t.Errorf("a nested function: rung %v, fallbacks %v", m.Rung, m.Fallbacks)
	}
}

func TestLinks(t *testing.T) {
	m := analyze(t, "clang", `#define offsetof __builtin_offsetof
int ext(void); extern int ev; int bound(void); void drop(int *); int resolver(void); int in_asm(void);
static int s1(void) { return 1; }
static int table[] = { 1, 2 };
int (*fp)(void) = s1;
int calls(void) { return ext() + s1() + ev; }
int vla(void) { int a[bound()]; return sizeof a; }
int cleaned(void) { __attribute__((cleanup(drop))) int x = 1; return x; }
int target(void) { return 2; }
int alias_of(void) __attribute__((alias("target")));
static int counter(void) { static int n; return ++n; }
int uses_counter(void) { return counter(); }
int assembler(void) { __asm__("call in_asm"); return 0; }
int *address(void) { return &table[1]; }
int recursive(int n) { return n ? recursive(n - 1) : 0; }
__attribute__((constructor)) static void init(void) { ext(); }
int implicit_builtin(char *p) { return __builtin_strlen(p); }
`)
	for name, want := range map[string]string{
		"calls": "ext s1 ev", "fp": "s1", "uses_counter": "counter", "counter": "counter.n",
		"address": "table", "recursive": "recursive", "init": "ext",
	} {
		if got := links(t, m, name); got != want {
			t.Errorf("%s links to %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"vla": "bound", "cleaned": "drop", "alias_of": "target", "assembler": "in_asm", "implicit_builtin": "__builtin_strlen"} {
		if got := links(t, m, name); !strings.Contains(" "+got+" ", " "+want+" ") {
			t.Errorf("%s links to %q, want %q among them", name, got, want)
		}
	}
	if r := find(t, m, "init").Root; r != "constructor" {
		t.Errorf("init: root %q", r)
	}
	if !find(t, m, "counter").Interchangeable || find(t, m, "s1").Interchangeable {
		t.Error("only functions whose address isn't taken are interchangeable")
	}
}

// Two local functions of equal content are told apart by name.
func TestEqualLocalsAreTold(t *testing.T) {
	a := "static int x(void) { return 1; } static int y(void) { return 1; } int f(void) { return x(); } int g(void) { return y(); }"
	b := strings.Replace(a, "{ return y(); }", "{ return x(); }", 1)
	if localHash(t, analyze(t, "clang", a), "g") == localHash(t, analyze(t, "clang", b), "g") {
		t.Error("g may call x or y, and its hash is the same")
	}
}

// A manifest must not depend on where the checkout is.
func TestNoPathInManifest(t *testing.T) {
	text := "static struct { int a; } s; int f(void) { struct { int b; } t = { 1 }; return t.b + s.a; }\n"
	var first []byte
	for range 2 {
		dir := t.TempDir()
		t.Chdir(dir)
		if err := os.WriteFile("a.c", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		u, _, err := ctext.Preprocess(context.Background(), []string{clangtest.Clang(t), "-c", "a.c"}, ctext.Options{})
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
		if bytes.Contains(b, []byte(dir)) {
			t.Errorf("the manifest holds %s", dir)
		}
		if first == nil {
			first = b
		} else if !bytes.Equal(first, b) {
			t.Error("two directories give two manifests")
		}
	}
}

// dumpOf returns a unit and its real dump.
func dumpOf(t testing.TB, text string) (*ctext.Unit, []byte) {
	u := &ctext.Unit{Source: "a.c", Lang: "c", Clang: true, Text: []byte(text), Files: []string{"a.c"}, Segments: [][2]int{{0, 0}}}
	return u, clangtest.Dump(t, u.Text)
}

const variety = `typedef struct P { int x; union { int u; float f; }; } P;
enum { A = 5, B };
static int h(int n) { static int c = 1; switch (n) { case 1 ... 3: return c; default: break; } return B; }
int table[4] = { [2] = A };
__asm__("nop");
#pragma pack(push, 1)
struct Q { char c; int i; };
#pragma pack(pop)
int f(P *p, struct Q q) { int a[h(1)]; l: if (p->u) goto l; return sizeof a + q.i + __builtin_offsetof(P, f); }
`

// Whatever a dump is cut to, the result is an error, never a manifest.
func TestTruncatedDump(t *testing.T) {
	u, dump := dumpOf(t, variety)
	if _, err := FromDump(u, bytes.NewReader(dump), "clang"); err != nil {
		t.Fatal(err)
	}
	end := len(bytes.TrimRight(dump, "\n"))
	r := rand.New(rand.NewSource(1))
	for range 1000 {
		n := r.Intn(end)
		if m, err := FromDump(u, bytes.NewReader(dump[:n]), "clang"); m != nil || !errors.Is(err, clangast.ErrDump) {
			t.Fatalf("cut after %d of %d bytes: manifest %v, error %v", n, end, m != nil, err)
		}
	}
}

// A damaged dump never panics.
func TestDamagedDump(t *testing.T) {
	u, dump := dumpOf(t, variety)
	r := rand.New(rand.NewSource(2))
	for range 2000 {
		b := bytes.Clone(dump)
		for range 1 + r.Intn(4) {
			b[r.Intn(len(b))] = `0123456789"{}[],:x-`[r.Intn(19)]
		}
		_, _ = FromDump(u, bytes.NewReader(b), "clang")
	}
}

func FuzzFromDump(f *testing.F) {
	u, dump := dumpOf(f, "int f(int x) { static int s; return x + s; }\n")
	f.Add(dump)
	// Short ones lead the fuzzer further than clang's own, which name all builtins.
	f.Add([]byte(`{"kind":"TranslationUnitDecl","inner":[{"kind":"FunctionDecl","name":"f","type":{"qualType":"int (int)"},"inner":[{"kind":"CompoundStmt","inner":[]}]}]}`))
	f.Add([]byte(`{"kind":"TranslationUnitDecl","inner":[{"kind":"FunctionDecl","inner":[{"kind":"CompoundStmt"}]},{"kind":"VarDecl"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := FromDump(u, bytes.NewReader(b), "clang")
		if err != nil {
			return
		}
		if _, err := manifest.Marshal(m); err != nil {
			t.Errorf("an invalid manifest: %v", err)
		}
	})
}

// script makes an executable that stands in for clang: fault injection only.
func script(t *testing.T, body string) string {
	name := filepath.Join(t.TempDir(), "clang")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// Every way in which the dump can't be had leads to the whole-file rung, and
// says why.
func TestFallbacks(t *testing.T) {
	u, dump := dumpOf(t, variety)
	good := filepath.Join(t.TempDir(), "dump")
	if err := os.WriteFile(good, dump, 0o644); err != nil {
		t.Fatal(err)
	}
	version := "echo 'clang version 21.1.8' >&2\n"
	for name, c := range map[string]struct{ clang, reason string }{
		"missing":     {"/no/such/clang", "can't be started"},
		"none":        {"", "no clang is configured"},
		"old":         {script(t, "echo 'clang version 3.4.1' >&2; cat "+good), "clang 3 is not supported"},
		"new":         {script(t, "echo 'clang version 99.0.0' >&2; cat "+good), "clang 99 is not supported"},
		"not clang":   {script(t, "cat "+good), "doesn't print its version"},
		"crash":       {script(t, version+"head -c 1000 "+good+"; kill -SEGV $$"), "clang failed: signal: segmentation fault"},
		"killed":      {script(t, version+"kill -KILL $$"), "clang failed: signal: killed"},
		"parse error": {script(t, version+"echo '<stdin>:1:1: error: no good' >&2; exit 1"), "clang reported an error in a.c: no good"},
		"cut":         {script(t, version+"head -c 1000 "+good), "not a complete clang AST dump"},
		"silent":      {script(t, version), "not a complete clang AST dump"},
		"garbage":     {script(t, version+"echo '{\"kind\": 5'"), "not a complete clang AST dump"},
	} {
		m, err := Analyze(context.Background(), u, c.clang)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if m.Rung != manifest.Rung_RUNG_FILE || len(m.Fallbacks) != 1 || !strings.Contains(m.Fallbacks[0].Reason, c.reason) {
			t.Errorf("%s: rung %v, fallbacks %v, want %q", name, m.Rung, m.Fallbacks, c.reason)
		}
		if len(m.Components) != 1 || m.Components[0].Root == "" || !strings.Contains(" "+links(t, m, m.Components[0].Name)+" ", " h ") {
			t.Errorf("%s: the file is no root that links to all it names: %v", name, m.Components)
		}
	}
	m, err := Analyze(context.Background(), u, script(t, version+"cat "+good))
	if err != nil || m.Rung != manifest.Rung_RUNG_FUNCTION {
		t.Errorf("the same with a whole dump: %v, %v", m.GetRung(), err)
	}
}

// The hash of a whole file changes with every token, and only with tokens.
func TestOpaqueHash(t *testing.T) {
	hash := func(text string) string {
		u := &ctext.Unit{Source: "a.c", Lang: "c", Text: []byte(text)}
		return hex.EncodeToString(opaque(u, "", "reason").Components[0].LocalHash)
	}
	if hash("int f ( void ) ;") != hash("int f(void);") {
		t.Error("layout counts")
	}
	if hash("int f(void);") == hash("int g(void);") || hash("ab c") == hash("a bc") {
		t.Error("tokens don't count")
	}
}

// What the first runs over minimal pairs found.
func TestFoundByPairs(t *testing.T) {
	for name, c := range map[string]struct{ text, from, to string }{
		"unnamed enum":        {"typedef enum { A = 1 } T; int f(T *p) { return p[1]; }", "1 }", "1000 }"},
		"unnamed struct":      {"typedef struct { int a; int b; } S; unsigned long f(void) { return __builtin_offsetof(S, b); }", "int a", "long a"},
		"visibility pragma":   {"#pragma GCC visibility push(hidden)\nextern int v;\n#pragma GCC visibility pop\nint f(void) { return v; }", "hidden", "default"},
		"macro in a pragma":   {"#define M 1\n#define N M\n#pragma pack(N)\nstruct T { char c; int i; };\n#pragma pack()\nint f(struct T *s) { return s->i; }", "M 1", "M 2"},
		"order of macros":     {"#define N 1\n#pragma pack(N)\n#undef N\n#define N 2\nstruct T { char c; int i; };\nint f(struct T *s) { return s->i; }", "#pragma pack(N)\n#undef N\n#define N 2\n", "#undef N\n#define N 2\n#pragma pack(N)\n"},
		"line of enumerator":  {"enum { A = __builtin_LINE(), B }; int f(void) { return B; }", "enum", "\nenum"},
		"line in a type":      {"typedef char T[__builtin_LINE()]; unsigned long f(void) { return sizeof(T); }", "typedef", "\ntypedef"},
		"line of a bound":     {"extern char v[__builtin_LINE()]; unsigned long f(void) { return sizeof v; }", "extern", "\nextern"},
		"order of asm labels": {"__asm__(\"nop\\ng: nop\"); int f(void) { return 1; }", "g:", "h:"},
	} {
		if localHash(t, analyze(t, "clang", c.text, "-fshort-enums", "-fPIC"), "f") == localHash(t, analyze(t, "clang", strings.Replace(c.text, c.from, c.to, 1), "-fshort-enums", "-fPIC"), "f") {
			t.Errorf("%s: the hash of f stays", name)
		}
	}
	l := analyze(t, "clang", "int f(int x) { static void *t[] = { &&a, &&b }; goto *t[x]; a: return 1; b: return 2; }")
	if got := links(t, l, "f.t"); got != "f" {
		t.Errorf("a table of labels links to %q, want its function", got)
	}
	m := analyze(t, "clang", "int one(void) { return 1; }\n#pragma weak g = one\n__asm__(\"nop\\nlab: nop\\n\\tcall\\ttwo\");\nint f(void) { __asm__(\"nop\\n\\tca\" \"ll\\tthree\"); return 0; }")
	if l := links(t, m, "g"); l != "one" || find(t, m, "g").Linkage != manifest.Linkage_LINKAGE_WEAK {
		t.Errorf("g links to %q", l)
	}
	if a := find(t, m, "asm#0"); strings.Join(a.Aliases, " ") != "lab" || !strings.Contains(links(t, m, "asm#0"), "two") {
		t.Errorf("asm#0 defines %q and links to %q", a.Aliases, links(t, m, "asm#0"))
	}
	if l := links(t, m, "f"); !strings.Contains(l, "three") {
		t.Errorf("f links to %q", l)
	}
}

// Sanitizers put positions into what they emit.
func TestPositionsCountWhereTheyAreEmitted(t *testing.T) {
	a := "int f(int x) { return x + 1; }"
	for flag, want := range map[string]bool{"-fsanitize=undefined": true, "-O1": false} {
		if got := localHash(t, analyze(t, "clang", a, flag), "f") != localHash(t, analyze(t, "clang", strings.Replace(a, "x + 1", "x  +  1", 1), flag), "f"); got != want {
			t.Errorf("%s: a column counts: %v, want %v", flag, got, want)
		}
	}
}
