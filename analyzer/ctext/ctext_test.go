package ctext

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/clangtest"
)

func lexAll(s string) (out []string) {
	l := NewLexer([]byte(s), 0)
	for {
		t := l.Next()
		if t.Kind == EOF {
			return out
		}
		out = append(out, s[t.Off:t.End])
	}
}

func TestLexer(t *testing.T) {
	for in, want := range map[string][]string{
		`a+++b`:                            {"a", "++", "+", "b"},
		`x<<=1'000u;`:                      {"x", "<<=", "1'000u", ";"},
		`"a\"b" 'c' L"w" u8"x" R"d(")")d"`: {`"a\"b"`, `'c'`, `L"w"`, `u8"x"`, `R"d(")")d"`},
		".5e-3f 0x1p+4 1..2":               {".5e-3f", "0x1p+4", "1..2"},
		"a/*c*/b//d\ne":                    {"a", "b", "e"},
		"# 1 \"f\" 2\n#pragma pack(1)\nx":  {"# 1 \"f\" 2", "#pragma pack(1)", "x"},
		"a#b":                              {"a", "#", "b"},
		"p->q ... %:%: <:: <:::":           {"p", "->", "q", "...", "%:%:", "<", "::", "<:", "::"},
		"\"open":                           {"\"open"},
		"@`":                               {"@", "`"},
	} {
		if got := lexAll(in); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// Every byte that isn't white space or comment belongs to a token, and tokens
// don't overlap: nothing can be lost.
func FuzzLexer(f *testing.F) {
	f.Add([]byte("int main(void) { return \"x\"[0] + 'y' /* z */; } // end\n#pragma pack(1)\n"))
	f.Add([]byte("R\"(\n)\" \\\n 1e+ .. /*"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := NewLexer(b, 0)
		end := 0
		for {
			tok := l.Next()
			if tok.Kind == EOF {
				break
			}
			if tok.Off < end || tok.End <= tok.Off || tok.End > len(b) {
				t.Fatalf("token [%d,%d) after %d", tok.Off, tok.End, end)
			}
			end = tok.End
		}
		Scan(b)
	})
}

func normalized(raw string) *Unit {
	u := &Unit{Source: "a.c", Lang: "c", Clang: true, Flags: []string{}, DumpFlags: []string{}, Files: []string{}, Segments: [][2]int{}}
	u.normalize([]byte(raw))
	return u
}

func TestNormalizeForgetsLayout(t *testing.T) {
	a := normalized("# 1 \"a.c\"\nint f ( void )\n{ return 1+ +2; }\n# 7 \"b.h\" 1 3\nint g;\n")
	b := normalized("# 1 \"a.c\"\n\n\n#pragma GCC diagnostic ignored \"-Wall\"\nint   f(void){return 1 + + 2;}\n# 99 \"b.h\" 1 3\nint\ng\n;\n")
	if string(a.Text) != string(b.Text) {
		t.Errorf("%q != %q", a.Text, b.Text)
	}
	if want := "int f(void){\nreturn 1 + + 2;\n}\nint g;\n"; string(a.Text) != want {
		t.Errorf("got %q, want %q", a.Text, want)
	}
	if got := a.FileAt(strings.Index(string(a.Text), "g;")); got != "b.h" {
		t.Errorf("g stems from %q, want b.h", got)
	}
	ea, _ := a.Encode()
	eb, _ := b.Encode()
	if !bytes.Equal(ea, eb) {
		t.Error("the encoded units differ")
	}
}

func TestNormalizeKeepsTokensApart(t *testing.T) {
	for _, s := range []string{"a + +b", "a - -b", "a< <b", "x . . .", "int long a", "1 .e", "a & &b", "L \"x\"", "a ## b"} {
		if got := lexAll(string(normalized(s).Text)); !reflect.DeepEqual(got, lexAll(s)) {
			t.Errorf("%q became %q", s, got)
		}
	}
}

// Lexing the normalised text again gives the same tokens.
func FuzzNormalize(f *testing.F) {
	f.Add("# 1 \"a.c\"\nint f(void){return __builtin_LINE();}\n#pragma STDC FP_CONTRACT ON\nx")
	f.Fuzz(func(t *testing.T, s string) {
		u := normalized(s)
		var want []string
		l := NewLexer([]byte(s), 0)
		for {
			tok := l.Next()
			if tok.Kind == EOF {
				break
			}
			text := []byte(s[tok.Off:tok.End])
			if tok.Kind == Marker || tok.Kind == Pragma && classify(text) == pragmaDiagnostic {
				continue
			}
			if tok.Kind == Pragma {
				text = bytes.Join(bytes.Fields(text), []byte(" "))
			}
			want = append(want, string(text))
		}
		if got := lexAll(string(u.Text)); strings.Join(got, "\x00") != strings.Join(want, "\x00") && !strings.ContainsAny(s, "\\\"'#") {
			t.Errorf("%q became %q", want, got)
		}
		b, err := u.Encode()
		if err != nil {
			t.Skip(err)
		}
		v, err := DecodeUnit(b)
		if err != nil {
			t.Fatalf("can't read back: %v", err)
		}
		if !bytes.Equal(u.Text, v.Text) {
			t.Error("text changed on the way")
		}
	})
}

func TestSitesCarryPositions(t *testing.T) {
	u := normalized("# 10 \"dir/a.c\"\nint x =\n  __builtin_LINE();\n")
	if len(u.Sites) != 1 || u.Sites[0].Position != "dir/a.c:11:3" {
		t.Fatalf("sites: %+v", u.Sites)
	}
	if got := string(u.Text[u.Sites[0].Off:][:len("__builtin_LINE")]); got != "__builtin_LINE" {
		t.Errorf("the site's offset is at %q", got)
	}
}

func TestDecodeUnitRefuses(t *testing.T) {
	good, err := normalized("int x;").Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeUnit(good); err != nil {
		t.Fatal(err)
	}
	for n := range good {
		if _, err := DecodeUnit(good[:n]); !errors.Is(err, ErrUnit) {
			t.Fatalf("a prefix of %d bytes: got %v, want ErrUnit", n, err)
		}
	}
	if _, err := DecodeUnit(append(good, 'x')); !errors.Is(err, ErrUnit) {
		t.Errorf("trailing garbage: got %v", err)
	}
}

func FuzzDecodeUnit(f *testing.F) {
	b, _ := normalized("# 1 \"a.h\"\nint x;").Encode()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if u, err := DecodeUnit(b); err == nil {
			u.FileAt(len(u.Text))
			Scan(u.Text)
		}
	})
}

func TestPragmaState(t *testing.T) {
	text := `int a;
#pragma pack(push, 1)
int b;
#pragma pack(pop)
int c;
#pragma STDC FP_CONTRACT OFF
int d;
#pragma STDC FP_CONTRACT ON
int e;
#pragma something odd
int f;
`
	x := Scan([]byte(text))
	at := func(s string) string { return x.PragmaState(strings.Index(text, s)) }
	if at("a;") != "" || at("c;") != "" {
		t.Errorf("a popped pragma stays in force: %q %q", at("a;"), at("c;"))
	}
	if at("b;") != "pack=1;" {
		t.Errorf("b: %q", at("b;"))
	}
	if at("d;") == at("e;") || at("d;") == "" {
		t.Errorf("d: %q, e: %q", at("d;"), at("e;"))
	}
	if x.UnitState != "something odd" || !strings.Contains(at("f;"), "something odd") {
		t.Errorf("an unknown pragma doesn't count: %q, %q", x.UnitState, at("f;"))
	}
}

func TestAttributeSpans(t *testing.T) {
	text := `__attribute__((aligned(8))) int a [[gnu::unused]]; int b[c[0]]; int d __attribute__((x("]]")));`
	x := Scan([]byte(text))
	var got []string
	for _, s := range x.Attributes {
		got = append(got, text[s.Begin:s.End])
	}
	want := []string{"__attribute__((aligned(8)))", "[[gnu::unused]]", `__attribute__((x("]]")))`}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParseArgs(t *testing.T) {
	for _, c := range []struct {
		args, codegen, source, lang string
	}{
		{"gcc -O2 -Wall -c a.c -o a.o", "-O2", "a.c", "c"},
		{"gcc -MD -MF a.d -frandom-seed=x -fPIC -iquote . -isystem y -DX=1 -g -c a.c -o a.o", "-fPIC", "a.c", "c"},
		{"clang -std=c17 -march=native -mllvm -x -c a.c", "-std=c17 -march=native -mllvm -x", "a.c", "c"},
		{"g++ -fno-exceptions a.cc", "-fno-exceptions", "a.cc", "c++"},
		{"gcc -x c -fwrapv -funknown-to-us a.weird", "-fwrapv -funknown-to-us", "a.weird", "c"},
		{"clang -pthread -fmodules-strict-decluse -fmodule-name=//a -fmodule-map-file=a.map -Xclang -fmodule-map-file-home-is-cwd -Xclang -fno-cxx-modules -O1 a.cc", "-O1", "a.cc", "c++"},
		{"clang -fmodules -fmodule-name=//a a.cc", "-fmodules -fmodule-name=//a", "a.cc", "c++"},
		{"gcc -Wa,--noexecstack -Wl,-z,now a.c", "-Wa,--noexecstack", "a.c", "c"},
	} {
		inv, err := ParseArgs(strings.Fields(c.args))
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		if got := strings.Join(inv.codegen, " "); got != c.codegen || inv.Source != c.source || inv.Lang != c.lang {
			t.Errorf("%s: codegen %q, source %q, language %q", c.args, got, inv.Source, inv.Lang)
		}
	}
	for _, bad := range []string{"", "gcc -c", "gcc a.c b.c", "gcc a.S", "gcc @nowhere"} {
		if _, err := ParseArgs(strings.Fields(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestResponseFiles(t *testing.T) {
	dir := t.TempDir()
	rsp := filepath.Join(dir, "args")
	if err := os.WriteFile(rsp, []byte("-O1 '-DX=a b' \"-fy\"\n-c a\\ b.c"), 0o644); err != nil {
		t.Fatal(err)
	}
	inv, err := ParseArgs([]string{"gcc", "@" + rsp})
	if err != nil {
		t.Fatal(err)
	}
	if inv.Source != "a b.c" || strings.Join(inv.codegen, " ") != "-O1 -fy" {
		t.Errorf("source %q, codegen %q", inv.Source, inv.codegen)
	}
}

// A flag that names a file counts by the file's content.
func TestFlagFilesCountByContent(t *testing.T) {
	dir := t.TempDir()
	f := filepath.Join(dir, "list")
	flags := func(content string) string {
		if err := os.WriteFile(f, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		inv, err := ParseArgs([]string{"clang", "-fsanitize-ignorelist=" + f, "-c", "a.c"})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(inv.codegen, " ")
	}
	if flags("a") == flags("b") {
		t.Error("the content of an ignore list doesn't count")
	}
}

func TestPreprocess(t *testing.T) {
	for _, cc := range []string{clangtest.Clang(t), clangtest.GCC(t)} {
		t.Run(filepath.Base(cc), func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			write := func(name, s string) {
				t.Helper()
				if err := os.WriteFile(name, []byte(s), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			unit := func() []byte {
				t.Helper()
				u, read, err := Preprocess(context.Background(), []string{cc, "-O2", "-c", "a.c", "-o", "a.o"}, Options{})
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(strings.Join(read, " "), "used.h") || strings.Contains(strings.Join(read, " "), "unused.h") {
					t.Errorf("files read: %q", read)
				}
				b, err := u.Encode()
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(b, []byte(dir)) {
					t.Errorf("the unit contains the directory %s", dir)
				}
				return b
			}
			write("used.h", "#define M(x) ((x) + 1)\n")
			write("a.c", "#include \"used.h\"\n#ifdef NO\n#include \"unused.h\"\n#endif\nint f(int x) { return M(x); }\n")
			first := unit()
			write("used.h", "// comment\n#define M(x) \\\n  ((x)+1)\n#define UNUSED 1\n")
			write("a.c", "/* c */\n#include \"used.h\"\n\nint f(int x)\n{\n  return M(x); // d\n}\n")
			if !bytes.Equal(first, unit()) {
				t.Error("comments and layout change the unit")
			}
			write("used.h", "#define M(x) ((x) + 2)\n")
			if bytes.Equal(first, unit()) {
				t.Error("a used macro doesn't change the unit")
			}
			write("a.c", "#include \"nowhere.h\"\n")
			var pe *PreprocessError
			if _, _, err := Preprocess(context.Background(), []string{cc, "-c", "a.c"}, Options{}); !errors.As(err, &pe) {
				t.Errorf("a missing header: got %v", err)
			}
		})
	}
	if _, _, err := Preprocess(context.Background(), []string{"/no/such/compiler", "a.c"}, Options{}); !errors.Is(err, ErrNoCompiler) {
		t.Errorf("no compiler: got %v", err)
	}
}

func TestStringContents(t *testing.T) {
	for in, want := range map[string]string{
		`"call o" "ne\n\tcall two"; x "\x41\101\\"`: "call one\n\tcall two\nAA\\\n",
		`f(L"a", u8"b")`: "a\nb\n",
		`'"' x`:          "",
		`"\e[\q"`:        "\033[q\n",
	} {
		if got := string(StringContents([]byte(in))); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

// unitFlags preprocesses a source and returns the flags that count.
func unitFlags(t *testing.T, dir, compiler, source string, flags ...string) []string {
	t.Helper()
	file := filepath.Join(dir, "t.c")
	if err := os.WriteFile(file, []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	u, _, err := Preprocess(context.Background(), append(append([]string{compiler}, flags...), file), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return u.Flags
}

// TestWrapperCounts: a script in the compiler's place may add flags.
func TestWrapperCounts(t *testing.T) {
	for _, real := range []string{clangtest.Clang(t), clangtest.GCC(t)} {
		dir := t.TempDir()
		wrapper := filepath.Join(dir, "cc")
		flags := func(extra string) []string {
			if err := os.WriteFile(wrapper, []byte("#!/bin/sh\nexec "+real+" "+extra+" \"$@\"\n"), 0o777); err != nil {
				t.Fatal(err)
			}
			return unitFlags(t, dir, wrapper, "int x;\n")
		}
		plain := flags("")
		if d := cmp.Diff(plain, flags("-Wall -g -I"+dir)); d != "" {
			t.Errorf("%s: flags that can't influence code count (-without +with):\n%s", real, d)
		}
		for _, f := range []string{"-fwrapv", "-O2", "-march=haswell", "-fno-strict-aliasing"} {
			if f == "-fno-strict-aliasing" && strings.Contains(real, "clang") {
				f += " -O1"
			}
			if slices.Equal(plain, flags(f)) {
				t.Errorf("%s: %s of a wrapper is lost: %q", real, f, plain)
			}
		}
	}
}

// TestAssembledFilesCount: asm can include files in many ways.
func TestAssembledFilesCount(t *testing.T) {
	clang, gcc := clangtest.Clang(t), clangtest.GCC(t)
	for _, test := range []struct {
		name, source, changed string
		flags                 []string
	}{
		{"plain", `__asm__(".incbin \"DIR/data\"");`, "data", nil},
		{"two strings", `__asm__(".incbin \"" "DIR/data" "\"");`, "data", nil},
		{"nested", `__asm__(".include \"DIR/inner.s\"");`, "data", nil},
		{"directive of two strings", `__asm__(".inc" "bin \"DIR/data\"");`, "data", nil},
		{"include path", `__asm__(".incbin \"data\"");`, "data", []string{"-Wa,-IDIR"}},
	} {
		for _, compiler := range []string{clang, gcc} {
			dir := t.TempDir()
			in := func(s string) string { return strings.ReplaceAll(s, "DIR", dir) }
			write := func(name, content string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			var flags []string
			for _, f := range test.flags {
				flags = append(flags, in(f))
			}
			write("inner.s", in(".incbin \"DIR/data\"\n"))
			write("data", "one")
			before := unitFlags(t, dir, compiler, in(test.source), flags...)
			if again := unitFlags(t, dir, compiler, in(test.source), flags...); !slices.Equal(before, again) {
				t.Errorf("%s, %s: not the same twice: %q, %q", compiler, test.name, before, again)
			}
			write(test.changed, "two")
			if slices.Equal(before, unitFlags(t, dir, compiler, in(test.source), flags...)) {
				t.Errorf("%s, %s: the file's content doesn't count: %q", compiler, test.name, before)
			}
		}
	}
}

// The name of a file to include in C isn't a directive of the assembler.
func TestNotAssembled(t *testing.T) {
	flags := unitFlags(t, t.TempDir(), clangtest.Clang(t), "const char *f[] = {\"a.inc\", \"b\"};\n")
	if slices.Contains(flags, "assembled") {
		t.Errorf("flags %q", flags)
	}
}

// A site is pinned if nothing but its own place decides about its value.
func TestPinnedSites(t *testing.T) {
	for _, c := range []struct {
		text string
		want bool
	}{
		{"void f() { g(__builtin_LINE()); }", true},
		{"void f(int a = 1) { if (a) { g(__builtin_LINE()); } }", true},
		{"struct S { S() : a(1), b{2} { g(__builtin_LINE()); } };", true},
		{"void f() const noexcept { do { g(__builtin_FILE()); } while (0); }", true},
		{"int f(int x) { auto l = [x](int a) { return a + __builtin_LINE(); }; return l(x); }", true},
		{"int f() { int n = 1; return n + __builtin_LINE(); }", true},
		{"template <class T> void f(T) { __assert_fail(\"x\", __builtin_FILE(), 3, __extension__ __PRETTY_FUNCTION__); }", true},
		{"void f() { g(__PRETTY_FUNCTION__); }", false},
		{"void f() { g(__builtin_COLUMN()); }", false},
		{"void f(int a = __builtin_LINE());", false},
		{"void f() { void g(int a = __builtin_LINE()); }", false},
		{"struct S { int a = __builtin_LINE(); };", false},
		{"struct S { int a{__builtin_LINE()}; };", false},
		{"void f() { struct S { int a{__builtin_LINE()}; }; }", false},
		{"void f(T t = (T){__builtin_LINE()});", false},
		{"void f(T t = decltype(t){__builtin_LINE()});", false},
		{"void f(int a = [](int b) { ; return b; }(1) + __builtin_LINE());", false},
		{"struct S { int a; S() : a(__builtin_LINE()) {} };", false},
		{"int n[] = {__builtin_LINE()};", false},
		{"template <int N = __builtin_LINE()> void f();", false},
	} {
		u := &Unit{Source: "a.cc", Lang: "c++", Clang: true}
		u.normalize([]byte("# 1 \"a.cc\"\n" + c.text + "\n"))
		if len(u.Sites) == 0 {
			t.Errorf("%s: no site", c.text)
		}
		for _, s := range u.Sites {
			if s.Pinned != c.want {
				t.Errorf("%s: pinned %t at %s", c.text, s.Pinned, s.Position)
			}
		}
	}
}

// Lines of lambdas and of types without a name, whose positions clang has in names.
func TestUnnamedLines(t *testing.T) {
	u := &Unit{Source: "a.cc", Lang: "c++", Clang: true}
	u.normalize([]byte(`# 1 "a.cc"
[[nodiscard]] int a[3];
auto l = [] {};
struct S { int a; };
struct
{ int b; } v;
enum class E : int { x };
enum : int { y };
int f(int *p) { return p[0] + a[1] + [&] { return 1; }(); }
`))
	var got []int
	for _, l := range u.unnamed {
		if len(got) == 0 || got[len(got)-1] != l.line {
			got = append(got, l.line)
		}
	}
	if want := []int{2, 4, 5, 7, 8}; !slices.Equal(got, want) {
		t.Errorf("lines %d, want %d", got, want)
	}
}

func TestImportsModules(t *testing.T) {
	for _, c := range []struct {
		text, flag string
		want       bool
	}{
		{"import std;", "-std=c++20", true},
		{"export module a.b;", "-std=c++23", true},
		{"module; int a;", "", true},
		{"export import :part;", "", true},
		{"import <vector>;", "", true},
		{"int a; import \"a.h\";", "", true},
		{"__import a;", "-std=c++17", true},
		{"#pragma clang module import std\n", "-fmodules", true},
		{"import a;", "-std=c++17", false},
		{"import a;", "-std=c++17 -fmodules", true},
		{"void f() { import(1); module = 2; x.import; }", "", false},
		{"struct module *m; module *n;", "", false},
		{"#pragma clang diagnostic push\nint a;", "", false},
	} {
		u := &Unit{Source: "a.cc", Lang: "c++", Flags: strings.Fields(c.flag)}
		u.normalize([]byte("# 1 \"a.cc\"\n" + c.text + "\n"))
		if got := u.ImportsModules(); got != c.want {
			t.Errorf("%s with %s: %t", c.text, c.flag, got)
		}
	}
}

// BenchmarkNormalize measures the text of a unit of C++ without the
// preprocessor: B/s of its output.
func BenchmarkNormalize(b *testing.B) {
	const part = `# 12 "/usr/include/c++/16/bits/x.h" 3
namespace std __attribute__ ((__visibility__ ("default"))) {
template<typename _Tp, typename = _Require<__is_swappable<_Tp>>> inline constexpr bool __f(const _Tp& __a, unsigned long __n) noexcept
{
  if (__n == 0 || !(__a < __n)) { return static_cast<bool>(__a[__n - 1] >> 3) && "text"[0] != 'c'; }
  auto __g = [&](int __x) -> decltype(__x) { struct { int y; } s = {__x}; return s.y += 0x1fu; };
  return __g(1) ? true : __builtin_LINE() != 7;
}
}
# 40 "a.h"
`
	text := []byte(strings.Repeat(part, 4000))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		u := &Unit{Source: "a.cc", Lang: "c++", Clang: true}
		u.normalize(text)
	}
}
