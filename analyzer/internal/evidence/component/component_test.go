package component

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/hex"
	"errors"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/clangast"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/tu"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
)

func TestMain(m *testing.M) { os.Exit(clangtest.Main(m)) }

// analyze returns the manifest of plain C text.
func analyze(t testing.TB, cc, text string, flags ...string) *manifest.Manifest {
	t.Helper()
	m, reason := evidence(t, cc, text, flags...)
	if m == nil {
		t.Fatalf("not plain: %s\n%s", reason, text)
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
		"type of a variable":  {"extern int v", "extern short v"},
		"volatile":            {"extern int v", "extern volatile int v"},
		"type of a parameter": {"int n)", "long n)"},
		"statement":           {"one: n++", "one: ++n; n++"},
		"alignment of a type": {"*next; };", "*next; } __attribute__((aligned(64)));"},
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
	base := localHash(t, analyze(t, "clang", src), "f")
	for _, flag := range []string{"-fPIC", "-fno-strict-aliasing", "-std=c11", "-fstack-protector", "-fdata-sections"} {
		if localHash(t, analyze(t, "clang", src, flag), "f") == base {
			t.Errorf("%s doesn't count", flag)
		}
	}
	for _, flag := range []string{"-Wall", "-g", "-DUNUSED", "-I.", "-MD"} {
		if localHash(t, analyze(t, "clang", src, flag), "f") != base {
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
}

func TestLinks(t *testing.T) {
	m := analyze(t, "clang", `int ext(void); extern int ev;
static int s1(void) { return 1; }
static int table[] = { 1, 2 };
int (*fp)(void) = s1;
int calls(void) { return ext() + s1() + ev; }
static int counter(void) { static int n; return ++n; }
int uses_counter(void) { return counter(); }
int *address(void) { return &table[1]; }
int recursive(int n) { return n ? recursive(n - 1) : 0; }
int target(void) { return 2; }
int calls_target(void) { return target(); }
static inline int in(void) { return ext(); }
int calls_in(void) { return in(); }
int implicit_builtin(char *p) { return __builtin_strlen(p); }
int inlined(int x) { return __builtin_expect(x, 1); }
`, "-std=c99")
	// A definition of the unit itself is there twice: by its component, and by its symbol.
	for name, want := range map[string]string{
		"calls": "ext s1! ev", "fp": "s1!", "uses_counter": "counter!", "counter": "counter.n!", "address": "table!", "recursive": "recursive! recursive",
		"calls_target": "target! target", "calls_in": "in!", "in": "ext", "implicit_builtin": "strlen", "inlined": "__builtin_expect",
	} {
		c := find(t, m, name)
		names, own := m.LinkNames(c)
		for i := range names {
			if own[i] {
				names[i] += "!"
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s links to %q, want %q", name, got, want)
		}
	}
	var refs []string
	for _, r := range m.Units[0].References {
		refs = append(refs, r.Name)
	}
	slices.Sort(refs)
	if got := strings.Join(refs, " "); got != "__builtin_expect ev ext strlen" || m.Units[0].Exact {
		t.Errorf("the unit refers to %q, exact: %v", got, m.Units[0].Exact)
	}
}

// Which symbols a unit defines.
func TestDefinitions(t *testing.T) {
	for _, c := range []struct{ source, flags, want string }{
		{"int f(void) { return 1; } static int s; int v; int w = 1; extern int e; const int k = 2; int use(void) { return s + e; }", "", "f k use v w"},
		{"__attribute__((visibility(\"hidden\"))) int f(void) { return 1; }", "", "f(hidden)"},
		{"__attribute__((visibility(\"protected\"))) int f(void); int f(void) { return 1; }", "", "f(protected)"},
		{"__attribute__((visibility(\"internal\"))) extern int v; int v;", "", "v(hidden)"}, // as clang says; for a linker the same
		{"#pragma GCC visibility push(default)\nint f(void) { return 1; }\n#pragma GCC visibility pop\nint g(void) { return 1; }", "", "f g"},
		{"static inline int f(void) { return 1; } int g(void) { return f(); }", "", "g"},
		{"int a[]; int b[3]; static int c; extern int c; int *d(void) { return &c; }", "", "a b d"},
	} {
		for _, cc := range []string{"clang", "gcc"} {
			m := analyze(t, cc, c.source, strings.Fields(c.flags)...)
			var got []string
			for _, comp := range m.Components {
				for _, d := range comp.Definitions {
					name := d.Name
					if d.Visibility != manifest.Visibility_VISIBILITY_DEFAULT {
						name += "(" + strings.ToLower(strings.TrimPrefix(d.Visibility.String(), "VISIBILITY_")) + ")"
					}
					got = append(got, name)
				}
			}
			slices.Sort(got)
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("%s %s: %s: defines %q, want %q", cc, c.flags, c.source, s, c.want)
			}
			// The compiler agrees.
			object := filepath.Join(t.TempDir(), "a.o")
			cmd := exec.Command(clangtest.Tool(t, cc), append(strings.Fields(c.flags), "-O0", "-w", "-x", "c", "-c", "-o", object, "-")...)
			cmd.Stdin = strings.NewReader(c.source)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", cc, err, out)
			}
			f, err := elf.Open(object)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			syms, _ := f.Symbols()
			var real []string
			for _, s := range syms {
				if elf.ST_BIND(s.Info) != elf.STB_LOCAL && s.Section != elf.SHN_UNDEF {
					switch elf.ST_VISIBILITY(s.Other) {
					case elf.STV_HIDDEN, elf.STV_INTERNAL:
						s.Name += "(hidden)"
					case elf.STV_PROTECTED:
						s.Name += "(protected)"
					}
					real = append(real, s.Name)
				}
			}
			slices.Sort(real)
			if strings.Join(real, " ") != c.want {
				t.Errorf("%s %s: %s: the object defines %q", cc, c.flags, c.source, real)
			}
		}
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
		u, _, err := tu.Preprocess(context.Background(), []string{clangtest.Clang(t), "-c", "a.c"}, tu.Options{})
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
func dumpOf(t testing.TB, text string) (*tu.Unit, []byte) {
	u := &tu.Unit{Source: "a.c", Text: []byte(text), Files: []string{"a.c"}, Segments: [][2]int{{0, 0}}}
	return u, clangtest.Dump(t, u.Text)
}

const variety = `typedef struct P { int x; union { int u; float f; }; } P;
enum { A = 5, B };
static int h(int n) { static int c = 1; switch (n) { case 1 ... 3: return c; default: break; } return B; }
int table[4] = { [2] = A };
struct Q { char c; int i; } __attribute__((packed));
int f(P *p, struct Q q, int b[static 2]) { enum { L = 3 }; l: if (p->u) goto l; return sizeof(P) + q.i + h(L) + b[1]; }
`

// Whatever a dump is cut to, the result is an error, never a manifest.
func TestTruncatedDump(t *testing.T) {
	u, dump := dumpOf(t, variety)
	if _, err := fromDump(u, bytes.NewReader(dump), "clang"); err != nil {
		t.Fatal(err)
	}
	end := len(bytes.TrimRight(dump, "\n"))
	r := rand.New(rand.NewSource(1))
	for range 1000 {
		n := r.Intn(end)
		if m, err := fromDump(u, bytes.NewReader(dump[:n]), "clang"); m != nil || !errors.Is(err, clangast.ErrDump) {
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
		_, _ = fromDump(u, bytes.NewReader(b), "clang")
	}
}

func fromDump(u *tu.Unit, dump io.Reader, clang string) (*manifest.Manifest, error) {
	b, err := readDump(u, dump)
	if err != nil {
		return nil, err
	}
	return b.manifest(clang)
}

func FuzzFromDump(f *testing.F) {
	u, dump := dumpOf(f, "int f(int x) { static int s; return x + s; }\n")
	f.Add(dump)
	// Short ones lead the fuzzer further than clang's own, which name all builtins.
	f.Add([]byte(`{"kind":"TranslationUnitDecl","inner":[{"kind":"FunctionDecl","name":"f","type":{"qualType":"int (int)"},"inner":[{"kind":"CompoundStmt","inner":[]}]}]}`))
	f.Add([]byte(`{"kind":"TranslationUnitDecl","inner":[{"kind":"FunctionDecl","inner":[{"kind":"CompoundStmt"}]},{"kind":"VarDecl"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := fromDump(u, bytes.NewReader(b), "clang")
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

// Every way in which the dump can't be had makes the unit not plain, and says
// why.
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
		var not *NotPlain
		if m != nil || !errors.As(err, &not) || !strings.Contains(not.Reason, c.reason) {
			t.Errorf("%s: manifest: %v, error %v, want %q", name, m != nil, err, c.reason)
		}
	}
	m, err := Analyze(context.Background(), u, script(t, version+"cat "+good))
	if err != nil || m.Rung != manifest.Rung_RUNG_FUNCTION {
		t.Errorf("the same with a whole dump: %v, %v", m.GetRung(), err)
	}
}

// The first clang of a supported version is found, whatever "clang" is.
func TestFindClang(t *testing.T) {
	dir := t.TempDir()
	clang := func(name, version string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho 'Debian clang version "+version+" (1)'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	ctx := context.Background()
	var not *NotPlain
	if _, err := FindClang(ctx, ""); !errors.As(err, &not) || !strings.Contains(not.Reason, "no clang that starts") {
		t.Errorf("none: %v", err)
	}
	clang("clang", "22.1.0")
	if _, err := FindClang(ctx, ""); !errors.As(err, &not) || !strings.Contains(not.Reason, "clang 22 is not supported") {
		t.Errorf("only clang 22: %v", err)
	}
	clang("clang-19", "19.1.0")
	clang("clang-20", "20.1.0")
	if got, err := FindClang(ctx, ""); got != "clang-20" {
		t.Errorf("found %q, %v", got, err)
	}
	clang("clang", "21.1.0")
	if got, err := FindClang(ctx, ""); got != "clang" {
		t.Errorf("found %q, %v", got, err)
	}
	if got, err := FindClang(ctx, "clang-19"); got != "clang-19" {
		t.Errorf("named: found %q, %v", got, err)
	}
	clang("clang-19", "18.1.0")
	if _, err := FindClang(ctx, "clang-19"); !errors.As(err, &not) {
		t.Errorf("named and too old: %v", err)
	}
}
