package tu

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/compiler"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/token"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
)

func lexAll(s string) (out []string) {
	l := token.New([]byte(s), 0)
	for t := l.Next(); t.Kind != token.EOF; t = l.Next() {
		out = append(out, s[t.Off:t.End])
	}
	return out
}

func normalized(raw string) *Unit {
	u := &Unit{Source: "a.c", Clang: true, Flags: []string{}, DumpFlags: []string{}, Files: []string{}, Segments: [][2]int{}}
	u.normalize([]byte(raw), false)
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
		l := token.New([]byte(s), 0)
		for {
			tok := l.Next()
			if tok.Kind == token.EOF {
				break
			}
			text := []byte(s[tok.Off:tok.End])
			if tok.Kind == token.Marker || tok.Kind == token.Pragma && isDiagnostic(text) {
				continue
			}
			if tok.Kind == token.Pragma {
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
			scanned(t, u.Text)
		}
	})
}

// scanned scans a text and asks for all that the index knows.
func scanned(t *testing.T, text []byte) {
	x, err := Scan(text)
	if err != nil {
		return
	}
	for i := range text {
		from, to, _ := x.Extent(i, i+1)
		if from > i || to <= i || to > len(text) {
			t.Fatalf("the declaration at %d is [%d,%d) of %d", i, from, to, len(text))
		}
		x.Attributes(text, from, to)
	}
}

func FuzzScan(f *testing.F) {
	f.Add([]byte("int main(void) { return \"x\"[0] + 'y' /* z */; } // end\n#pragma pack(1)\n"))
	f.Add([]byte("R\"(\n)\" \\\n 1e+ .. /*"))
	f.Fuzz(func(t *testing.T, b []byte) { scanned(t, b) })
}

func TestScan(t *testing.T) {
	text := "__attribute__((aligned(8)))int a;\nint f(int b[2])__attribute__((pure));\n" +
		"struct __attribute__((packed))S{\nint c;\n}__attribute__((aligned(2)))d;\n" +
		"int g(void){\nint e __attribute__((unused));\nreturn 1;\n}\nint h __attribute__((weak)), *i = (int[]){\n1};\n"
	x, err := Scan([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]struct{ declaration, attributes, doubt string }{
		"int a":   {"int a", "__attribute__((aligned(8))) __attribute__ ( ( aligned ( 8 ) ) ) int a ;", ""},
		"f(":      {"int f(", "__attribute__((pure))", ""},
		"c;":      {"struct", "__attribute__((packed)) __attribute__((aligned(2))) struct __attribute__ ( ( packed ) ) S { int c ; } __attribute__ ( ( aligned ( 2 ) ) ) d ;", ""},
		"d;":      {"struct", "__attribute__((packed)) __attribute__((aligned(2))) struct __attribute__ ( ( packed ) ) S { int c ; } __attribute__ ( ( aligned ( 2 ) ) ) d ;", ""},
		"return":  {"int g", "", ""},
		"*i":      {"int h", "__attribute__((weak)) int h __attribute__ ( ( weak ) ) , * i = ( int [ ] ) { 1 } ;", "attribute weak"},
		"int g(v": {"int g", "", ""},
	} {
		i := strings.Index(text, at)
		from, to, doubt := x.Extent(i, i+1)
		attributes, _ := x.Attributes([]byte(text), from, to)
		got := strings.ReplaceAll(strings.TrimSpace(attributes), "\n", " ")
		if !strings.Contains(text[from:to], want.declaration) || strings.Count(text[from:to], "int g") > 1 || got != want.attributes || doubt != want.doubt {
			t.Errorf("%s: declaration %q, attributes %q, doubt %q", at, text[from:to], got, doubt)
		}
	}
}

// However #embed is written, it is found; words that only contain it aren't.
func TestEmbeds(t *testing.T) {
	for s, want := range map[string]bool{
		"#embed <x>": true, "  #  embed \"x\"": true, "%:embed <x>": true, "??=embed <x>": true, "#em\\\nbed <x>": true, "#em??/\nbed <x>": true,
		"#/* a\n b */embed <x>": true, "/* a */ # /* b */ embed <x>": true, "#if __has_embed(<x>)": true, "#\\\n\\\nembed <x>": true,
		"#e\\ \n\\\nmbe??/\nd <x>": true, "#e\\\r\nmbed <x>": true, "#if CAT(__has_,embed)(<x>)": true, "#define E embed": true,
		"// embedded": false, "int embed;": false, "// to embed": false, "#define embedded 1": false, "/* #1 embeds */": false,
	} {
		if hasEmbed([]byte(s)) != want {
			t.Errorf("%q: %v", s, !want)
		}
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
				u, read, err := Preprocess(context.Background(), []string{cc, "-c", "a.c", "-o", "a.o"}, Options{AnyCompiler: true})
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
	if _, _, err := Preprocess(context.Background(), []string{"/no/such/compiler", "a.c"}, Options{}); !errors.Is(err, compiler.ErrNoCompiler) {
		t.Errorf("no compiler: got %v", err)
	}
}

// What runs a compiler may do more to a unit than its preprocessor shows.
func TestPreprocessByScript(t *testing.T) {
	clang := clangtest.Clang(t)
	dir := t.TempDir()
	script, source := filepath.Join(dir, "script"), filepath.Join(dir, "a.c")
	for name, text := range map[string]string{script: "#!/bin/sh\nexec " + clang + " \"$@\"\n", source: "int x;\n"} {
		if err := os.WriteFile(name, []byte(text), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for cc, want := range map[string]string{clang: "", script: "compiler script may be one that runs another"} {
		u, _, err := Preprocess(context.Background(), []string{cc, "-c", source}, Options{})
		if err != nil || !strings.HasPrefix(u.NotPlain, want) || (u.NotPlain == "") != (want == "") || (len(u.Text) == 0) != (want != "") {
			t.Errorf("%s: not plain for %q, %v", cc, u.NotPlain, err)
		}
	}
}

// Two compilations of a source are one unit if they read the same text.
func TestVariants(t *testing.T) {
	cc := clangtest.GCC(t)
	dir := t.TempDir()
	source := filepath.Join(dir, "a.c")
	unit := func(text string, flags ...string) *Unit {
		if err := os.WriteFile(source, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		u, _, err := Preprocess(context.Background(), []string{cc, "-fno-plt", "-c", source}, Options{AnyCompiler: true, Variants: [][]string{append([]string{cc, "-c", source}, flags...)}})
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	if u := unit("int x;\n", "-fPIC"); len(u.Variants) != 1 || u.NotPlain != "" {
		t.Errorf("variants %q, not plain for %q", u.Variants, u.NotPlain)
	}
	if u := unit("int x;\n", "-fno-plt"); len(u.Variants) != 0 {
		t.Errorf("the same flags are another variant: %q", u.Variants)
	}
	if u := unit("#ifdef __PIE__\nint x;\n#endif\n", "-fPIC"); !strings.Contains(u.NotPlain, "different text") {
		t.Errorf("different text: not plain for %q", u.NotPlain)
	}
	if u := unit("int x;\n", "-fsanitize=undefined"); !strings.Contains(u.NotPlain, "-fsanitize") {
		t.Errorf("a variant that isn't plain: %q", u.NotPlain)
	}
}

// A precompiled header would be read in the place of the header.
func TestPrecompiledHeader(t *testing.T) {
	cc := clangtest.GCC(t)
	t.Chdir(t.TempDir())
	for name, s := range map[string]string{"a.c": "#include \"a.h\"\n", "a.h": "int x;\n", "a.h.gch": ""} {
		if err := os.WriteFile(name, []byte(s), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	u, _, err := Preprocess(context.Background(), []string{cc, "-c", "a.c"}, Options{AnyCompiler: true})
	if err != nil || !strings.Contains(u.NotPlain, "precompiled header beside a.h") {
		t.Errorf("not plain for %q, %v", u.NotPlain, err)
	}
}

// BenchmarkNormalize measures the text of a unit without the preprocessor: B/s of
// its output.
func BenchmarkNormalize(b *testing.B) {
	const part = `# 12 "/usr/include/x.h" 3
extern int snprintf (char *__restrict __s, size_t __maxlen, const char *__restrict __format, ...) __attribute__ ((__nothrow__)) __attribute__ ((__format__ (__printf__, 3, 4)));
static inline int f(const struct s *a, unsigned long n)
{
  if (n == 0 || !(a->b < n)) { return (int)(a->c[n - 1] >> 3) && "text"[0] != 'c'; }
  for (int i = 0; i < 0x1fu; i++) { a->d[i] += i ? -1 : 1; }
  return g(1) ? 1 : h(a) != 7;
}
# 40 "a.h"
`
	text := []byte(strings.Repeat(part, 4000))
	for name, f := range map[string]func(){
		"normalize": func() { (&Unit{Source: "a.c"}).normalize(text, true) },
		"scan": func() {
			u := &Unit{Source: "a.c"}
			u.normalize(text, false)
			if _, err := Scan(u.Text); err != nil {
				b.Fatal(err)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				f()
			}
		})
	}
}
