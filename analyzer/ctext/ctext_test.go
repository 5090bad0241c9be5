package ctext

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
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
		scanned(t, b)
	})
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
		l := NewLexer([]byte(s), 0)
		for {
			tok := l.Next()
			if tok.Kind == EOF {
				break
			}
			text := []byte(s[tok.Off:tok.End])
			if tok.Kind == Marker || tok.Kind == Pragma && diagnoses(text) {
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

func TestParseArgs(t *testing.T) {
	for _, c := range []struct {
		args, code, source, lang, doubt string
	}{
		{"gcc -O0 -Wall -c a.c -o a.o", "", "a.c", "c", ""},
		{"gcc -O2 -Wall -c a.c -o a.o", "", "a.c", "c", "flag -O2"},
		{"gcc -O -O0 a.c", "", "a.c", "c", "flag -O"},
		{"gcc -MD -MF a.d -frandom-seed=x -fPIC -iquote . -isystem y -DX=1 -g -c a.c -o a.o", "-fPIC", "a.c", "c", ""},
		{"gcc -I inc -Iinc -D X=b.c -Ub.c -include b.c -idirafter b.c -isysroot b.c --sysroot b.c a.c", "", "a.c", "c", ""},
		{"gcc -MT b.c -MQ b.c -MJ b.c -L b.c -l b.c -u b.c -z b.c -T b.c -Xlinker b.c -dumpbase b.c --serialize-diagnostics b.c a.c", "", "a.c", "c", ""},
		{"gcc -Xassembler b.c a.c", "", "a.c", "c", "flag -Xassembler"},
		{"gcc -aux-info b.c a.c", "", "a.c", "c", "flag -aux-info"},
		{"gcc --param x=y a.c", "", "a.c", "c", "flag --param"},
		{"clang -arch b.c -Xclang b.c -Xpreprocessor b.c -mllvm b.c a.c", "", "a.c", "c", "flag -arch"},
		{"clang -target x86_64-linux-gnu a.c", "", "a.c", "c", "flag -target"},
		{"clang -std=c17 -march=native -mllvm -x -c a.c", "-std=c17", "a.c", "c", "flag -march=native"},
		{"g++ -fno-plt a.cc", "-fno-plt", "a.cc", "c++", ""},
		{"clang -fexceptions a.c", "", "a.c", "c", "flag -fexceptions"},
		{"clang -ffreestanding a.c", "", "a.c", "c", "flag -ffreestanding"},
		{"g++ a.c", "", "a.c", "c++", ""},
		{"gcc -c a.S", "", "a.S", "asm", ""},
		{"gcc -c a.m", "", "a.m", "other", ""},
		{"gcc -c a.i", "", "a.i", "other", ""},
		{"gcc -x c -fno-plt -funknown-to-us a.weird", "-fno-plt", "a.weird", "c", "flag -funknown-to-us"},
		{"gcc -xc++ a.c -x c", "", "a.c", "c++", ""},
		{"clang -pthread -fmodules-strict-decluse -fmodule-name=//a -fmodule-map-file=a.map -Xclang -fmodule-map-file-home-is-cwd -Xclang -fno-cxx-modules -fPIC a.c", "-fPIC", "a.c", "c", ""},
		{"clang -fmodules -fmodule-name=//a a.c", "", "a.c", "c", "flag -fmodules"},
		{"gcc -Wa,--noexecstack -Wl,-z,now a.c", "", "a.c", "c", "flag -Wa,--noexecstack"},
		{"gcc -std=c++17 a.c", "", "a.c", "c", "flag -std=c++17"},
		{"gcc -c -", "", "-", "other", "standard input"},
		{"gcc -funknown b.d a.c", "", "a.c", "c", "flag -funknown"},
		{"gcc a.c b.o c.a", "", "a.c", "c", ""},
	} {
		inv, err := ParseArgs(strings.Fields(c.args))
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		if got := strings.Join(inv.code, " "); got != c.code || inv.Source != c.source || inv.Lang != c.lang || inv.doubt != c.doubt {
			t.Errorf("%s: code %q, source %q, language %q, doubt %q", c.args, got, inv.Source, inv.Lang, inv.doubt)
		}
	}
	for _, bad := range []string{"", "gcc -c", "gcc a.c b.c", "gcc @nowhere"} {
		if _, err := ParseArgs(strings.Fields(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// The command that makes an object is the build's, but for what it writes.
func TestCompileTo(t *testing.T) {
	inv, err := ParseArgs(strings.Fields("g++ -O2 -MD -MF a.d -MTx -save-temps -E -S -o a.o -oa.o --output=b -DX=1 -std=c++20 -funknown -x c++ a.cc"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(inv.CompileTo("out"), " "), "g++ -O2 -DX=1 -std=c++20 -funknown -x c++ a.cc -c -o out"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestResponseFiles(t *testing.T) {
	dir := t.TempDir()
	rsp := filepath.Join(dir, "args")
	if err := os.WriteFile(rsp, []byte("-O1 '-DX=a b' \"-fno-plt\"\n-c a\\ b.c"), 0o644); err != nil {
		t.Fatal(err)
	}
	inv, err := ParseArgs([]string{"gcc", "@" + rsp})
	if err != nil {
		t.Fatal(err)
	}
	if inv.Source != "a b.c" || strings.Join(inv.code, " ") != "-fno-plt" {
		t.Errorf("source %q, code %q", inv.Source, inv.code)
	}
}

// What changes compilers from outside makes a unit not plain.
func TestEnvironment(t *testing.T) {
	for _, v := range environment {
		t.Setenv(v, "x")
		if inv, err := ParseArgs([]string{"gcc", "a.c"}); err != nil || inv.doubt != "environment variable "+v {
			t.Errorf("%s: doubt %q, %v", v, inv.doubt, err)
		}
		os.Unsetenv(v)
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
		if embeds([]byte(s)) != want {
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
	if _, _, err := Preprocess(context.Background(), []string{"/no/such/compiler", "a.c"}, Options{}); !errors.Is(err, ErrNoCompiler) {
		t.Errorf("no compiler: got %v", err)
	}
}

// identified is a compiler that is told flags of which the command line has nothing, as those
// of a configuration file.
func identified(t *testing.T, path string, flags ...string) *compiler {
	t.Helper()
	file := filepath.Join(t.TempDir(), "t.c")
	if err := os.WriteFile(file, []byte("int x;\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append(flags, "-E", "-w", "-v", file)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	c, err := identify(path, said.String())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFlagsCount: a configuration file may add flags.
func TestFlagsCount(t *testing.T) {
	for _, cc := range []string{clangtest.Clang(t), clangtest.GCC(t)} {
		plain := identified(t, cc).flags
		if d := cmp.Diff(plain, identified(t, cc, "-Wall", "-g", "-I"+t.TempDir()).flags); d != "" {
			t.Errorf("%s: flags that can't influence code count (-without +with):\n%s", cc, d)
		}
		for _, f := range []string{"-fno-strict-aliasing", "-march=haswell", "-std=c11"} {
			if c := identified(t, cc, f); slices.Equal(plain, c.flags) {
				t.Errorf("%s: %s is lost: %q", cc, f, c.flags)
			}
		}
	}
}

// What it adds is judged as well.
func TestFlagsAreJudged(t *testing.T) {
	for _, cc := range []string{clangtest.Clang(t), clangtest.GCC(t)} {
		for _, flag := range []string{"-fsanitize=address", "-finstrument-functions", "-ftrapv", "-pg", "-O2"} {
			if err := identified(t, cc, flag).plain(&Invocation{}); err == nil || !strings.Contains(err.Error(), "of the compiler proper") {
				t.Errorf("%s %s: not plain for %v", filepath.Base(cc), flag, err)
			}
		}
	}
}

// TestWrappers: what runs a compiler may do with -c what it doesn't with -E. Only Bazel's
// script and that of `tasting cc` are known not to.
func TestWrappers(t *testing.T) {
	clang, gcc := clangtest.Clang(t), clangtest.GCC(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o777); err != nil {
			t.Fatal(err)
		}
		return name
	}
	// One of a kind with Bazel's own, which the end-to-end tests have.
	bazels := func(compiler string) string {
		return "#!/bin/bash\n#\n# Of the test.\nset -eu\n\n# Call the compiler\n" + compiler + " \"$@\"\n\nOUTPUT=\n"
	}
	wrappers = append(slices.Clip(wrappers), digestOf(bazels("%{cc}"), "%{cc}"))
	t.Cleanup(func() { wrappers = wrappers[:len(wrappers)-1] })
	// The test has the launcher's sign, as `tasting` has it.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tasting := func(self, compiler string) string {
		return "#!/bin/sh\nexec '" + self + "' 'cc' '--dir=/x' '--audit=0.005' '--' '" + compiler + "' \"$@\"\n"
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(clang, link); err != nil {
		t.Fatal(err)
	}
	elf := filepath.Join(dir, "elf")
	source := write("elf.c", "#include <unistd.h>\nint main(int c, char **v) { return execv(\""+clang+"\", v); }\n")
	if out, err := exec.Command(gcc, source, "-o", elf).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	script := write("script", "#!/bin/sh\nexec "+clang+" \"$@\"\n")
	ours := write("ours", tasting(self, clang))
	good := bazels(clang)
	for _, c := range []struct {
		name, file string
		want       bool
	}{
		{"clang", clang, true},
		{"gcc", gcc, true},
		{"link", link, true},
		{"script", script, false},
		{"program", elf, false},
		{"Bazel's", write("bazel", good), true},
		{"Bazel's with other comments", write("comments", strings.ReplaceAll(good, "# Call", "  # call\n\n# ")), true},
		{"Bazel's of gcc", write("of-gcc", bazels(gcc)), true},
		{"Bazel's with another shell", write("zsh", strings.Replace(good, "#!/bin/bash", "#!/bin/zsh", 1)), false},
		{"Bazel's and more", write("more", good+"objcopy x \"$OUTPUT\"\n"), false},
		{"Bazel's and more, far behind", write("far", good+strings.Repeat("#\n", 1<<16)+"objcopy x \"$OUTPUT\"\n"), false},
		{"Bazel's with another flag", write("flag", bazels(clang+" -g")), false},
		{"Bazel's with a variable", write("variable", strings.Replace(good, "set -eu", "set -eu\nexport CPATH=/x", 1)), false},
		{"Bazel's of a script", write("of-script", bazels(script)), false},
		{"Bazel's of itself", write("itself", bazels(filepath.Join(dir, "itself"))), false},
		{"that of tasting cc", ours, true},
		{"that of tasting cc, of a script", write("ours-of-script", tasting(self, script)), false},
		{"that of another program", write("other", tasting(elf, clang)), false},
		{"Bazel's of that of tasting cc", write("of-ours", bazels(ours)), true},
		{"none", filepath.Join(dir, "none"), false},
	} {
		if got := isCompiler(c.file); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "a.c"), []byte("int x;\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for cc, want := range map[string]string{
		clang: "", filepath.Join(dir, "bazel"): "", script: "compiler script may be one that runs another", elf: "compiler elf may be one that runs another",
	} {
		u, _, err := Preprocess(context.Background(), []string{cc, "-c", filepath.Join(dir, "a.c")}, Options{})
		if err != nil || !strings.HasPrefix(u.NotPlain, want) || (u.NotPlain == "") != (want == "") || (len(u.Text) == 0) != (want != "") {
			t.Errorf("%s: not plain for %q, %v", cc, u.NotPlain, err)
		}
	}
	t.Setenv("BASH_ENV", source)
	if isCompiler(filepath.Join(dir, "bazel")) {
		t.Error("what bash reads first isn't noticed")
	}
}

// Pieces are joined where one ends.
func TestContains(t *testing.T) {
	text := strings.Repeat(" ", 1<<18-10) + clangDriver + strings.Repeat(" ", 1<<19)
	if !contains(strings.NewReader(text), []string{gccDriver, clangDriver}) || contains(strings.NewReader(text), []string{gccDriver}) {
		t.Error("lost, or found where there is nothing")
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
