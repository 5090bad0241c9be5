package launcher

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A bench is a directory with sources, and one where objects are kept.
type bench struct {
	t   *testing.T
	dir string // of the sources: the current directory of the compiler
	opt *Options
	out bytes.Buffer
	// program runs in place of the compiler, if there is one.
	program string
	env     []string
}

func newBench(t *testing.T, compiler string) *bench {
	if _, err := exec.LookPath(compiler); err != nil {
		t.Fatalf("%v: the tests of the launcher need gcc and clang", err)
	}
	b := &bench{t: t, dir: t.TempDir()}
	b.opt = &Options{Dir: t.TempDir(), Args: []string{compiler}, Stdout: &b.out, Stderr: &b.out}
	return b
}

// write makes files; an empty content removes one. Files are settled afterwards:
// what was written a moment ago isn't trusted.
func (b *bench) write(files map[string]string) {
	b.t.Helper()
	for name, content := range files {
		name = filepath.Join(b.dir, name)
		if content == "" {
			os.Remove(name)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			b.t.Fatal(err)
		}
		if old, err := os.ReadFile(name); err == nil && string(old) == content {
			continue
		}
		if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
			b.t.Fatal(err)
		}
	}
	time.Sleep(250 * time.Millisecond)
}

// run runs a compiler through the launcher, in a process of its own since both
// depend on the current directory, and returns its exit code and what it did.
func (b *bench) run(args ...string) (code int, did string) {
	b.t.Helper()
	before := b.counts()
	cmd := exec.Command(os.Args[0], append([]string{"-launcher", b.opt.Dir, b.opt.Args[0]}, args...)...)
	cmd.Dir = b.dir
	cmd.Stdout, cmd.Stderr = &b.out, &b.out
	cmd.Env = append(b.environ(), fmt.Sprintf("LAUNCHER_AUDIT=%v", b.opt.Audit), "LAUNCHER_PROGRAM="+b.program)
	cmd.Run()
	return cmd.ProcessState.ExitCode(), strings.TrimSpace(strings.TrimPrefix(b.counts(), before))
}

// environ is the environment of compilers: as Bazel's, without what messages depend on.
func (b *bench) environ() []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return !plain(kv) })
	return append(env, b.env...)
}

func (b *bench) counts() string {
	c, _ := os.ReadFile(filepath.Join(b.opt.Dir, "counts"))
	return string(c)
}

// compile compiles a.c or a.cc to a.o, and for real to b.o: the objects have to be
// the same.
func (b *bench) compile(flags ...string) (did string) {
	b.t.Helper()
	source := "a.cc"
	if _, err := os.Stat(filepath.Join(b.dir, source)); err != nil {
		source = "a.c"
	}
	checked := slices.Contains(flags, "-fsyntax-only")
	if checked {
		source = "h.hpp"
	}
	args := append(flags, "-MD", "-MF", "a.d", "-c", source, "-o", "a.o")
	if checked {
		args = slices.DeleteFunc(args, func(a string) bool { return a == "-c" })
	}
	before := b.out.Len()
	code, did := b.run(args...)
	said := b.out.String()[before:]
	real := exec.Command(b.opt.Args[0], args...)
	for i, a := range real.Args {
		real.Args[i] = map[string]string{"a.o": "b.o", "a.d": "b.d"}[a] + strings.TrimPrefix(strings.TrimPrefix(a, "a.o"), "a.d")
	}
	real.Dir = b.dir
	real.Env = b.environ()
	out, _ := real.CombinedOutput()
	if said != string(out) && b.program == "" && did != "audited: DIFFERENT" {
		b.t.Errorf("%s: the launcher said %q, the compiler %q", did, said, out)
	}
	if want := real.ProcessState.ExitCode(); code != want {
		b.t.Fatalf("%s: exit code %d, and %d for real\n%s%s", did, code, want, out, &b.out)
	}
	if code != 0 {
		return did
	}
	for _, pair := range [][2]string{{"a.o", "b.o"}, {"a.d", "b.d"}} {
		if checked && pair[0] == "a.o" {
			continue
		}
		x, err1 := os.ReadFile(filepath.Join(b.dir, pair[0]))
		y, err2 := os.ReadFile(filepath.Join(b.dir, pair[1]))
		y = bytes.Replace(y, []byte("b.o:"), []byte("a.o:"), 1)
		if err1 != nil || err2 != nil || !bytes.Equal(x, y) {
			b.t.Errorf("%s: %s isn't what the compiler makes: %v, %v", did, pair[0], err1, err2)
		}
	}
	return did
}

// behind compiles behind a command of the shell.
func (b *bench) behind(command, want string, flags ...string) {
	b.t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = b.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("%v\n%s", err, out)
	}
	time.Sleep(250 * time.Millisecond)
	if did := b.compile(flags...); did != want {
		b.t.Errorf("behind %q: %q, want %q\n%s", command, did, want, &b.out)
	}
}

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "-launcher" {
		o := &Options{Dir: os.Args[2], Args: os.Args[3:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
		fmt.Sscan(os.Getenv("LAUNCHER_AUDIT"), &o.Audit)
		if p := os.Getenv("LAUNCHER_PROGRAM"); p != "" {
			program = func(string) string { return p }
		}
		code, err := Run(context.Background(), o)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 99
		}
		os.Exit(code)
	}
	// They wait more than they compute.
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// What becomes of a second compilation.
const (
	bytesSame = "same bytes"
	tokens    = "same tokens"
	shifted   = "same tokens on other lines"
	changed   = "compiled: changed"
	notText   = "compiled: text that isn't understood"
)

const (
	lib  = "inline int f(int x) {\n  return x + 1;\n}\n"
	lib2 = "inline int f(int x) {\n  return x + 2;\n}\n"
	uses = "#include \"h.h\"\nint use() { return f(2); }\n"

	asserts = "#include <assert.h>\ninline int f(int x) {\n  assert(x);\n  return x;\n}\n"
	many    = "inline int g1(int x) { return x; }\ninline int g2(int x) { return x; }\ninline int g3(int x) { return x; }\ninline int g4(int x) { return x; }\ninline int g5(int x) { return x; }\ninline int g6(int x) { return x; }\n"
)

// edits are pairs of versions: what differs from the first version, and what the
// launcher is to do. Whatever it does, the object has to be that of the compiler.
var edits = []struct {
	name          string
	before, after map[string]string
	flags         string
	want          string
	only          string // compiler
	back          string // what it does then with the first version, if that isn't bytesSame
}{
	{name: "nothing", before: m("a.cc", uses, "h.h", lib), after: m(), want: bytesSame},
	{name: "comment", before: m("a.cc", uses, "h.h", "// one\n"+lib), after: m("h.h", "// two, three\n"+lib), want: tokens},
	{name: "comment on more lines", before: m("a.cc", uses, "h.h", "// one\n"+lib), after: m("h.h", "// one\n// two\n/* three\n */\n"+lib), want: shifted},
	{name: "layout", before: m("a.cc", uses, "h.h", lib), after: m("h.h", "inline int f( int x )\n{\n\n    return x+1;\n}\n"), want: changed}, // blanks show in macros
	{name: "indentation", before: m("a.cc", uses, "h.h", lib), after: m("h.h", "inline int f(int x) {\n      return x   + 1;\n\n}\n"), want: shifted, only: "g++"},
	{name: "indentation, of which clang may warn", before: m("a.cc", uses, "h.h", lib), after: m("h.h", "inline int f(int x) {\n      return x   + 1;\n\n}\n"), want: changed, only: "clang++"},
	{name: "code", before: m("a.cc", uses, "h.h", lib), after: m("h.h", strings.Replace(lib, "1", "2", 1)), want: changed},
	{name: "blank that is spelled", before: m("a.cc", "#define S(x) #x\n#include \"h.h\"\n", "h.h", "const char *s = S(a+b);\n"), after: m("h.h", "const char *s = S(a +b);\n"), want: changed},
	{name: "blank that is none", before: m("a.cc", "#define S(x) #x\n#include \"h.h\"\n", "h.h", "const char *s = S(a  + b);\n"), after: m("h.h", "const char *s = S(a /* and */ + b);\n"), want: tokens, only: "g++"},
	{name: "blank that is none, of which clang may warn", before: m("a.cc", "#define S(x) #x\n#include \"h.h\"\n", "h.h", "const char *s = S(a  + b);\n"), after: m("h.h", "const char *s = S(a /* and */ + b);\n"), want: changed, only: "clang++"},
	{name: "macro with parameters", before: m("a.cc", "#include \"h.h\"\nint x = F(1);\n", "h.h", "#define F(x) + 3\n"), after: m("h.h", "#define F (x) + 3\nconst int x1 = 1;\n#undef F\n#define F(x) 4\n"), want: changed},

	{name: "line of its own", before: m("a.cc", uses, "h.h", "inline int f(int x) { return x + __LINE__; }\n"), after: m("h.h", "//\ninline int f(int x) { return x + __LINE__; }\n"), want: changed},
	{name: "line of a user", before: m("a.cc", "#include \"h.h\"\nint use() { return L; }\n", "h.h", "#define L __LINE__\n"), after: m("h.h", "//\n#define L __LINE__\n"), want: shifted},
	{name: "system headers that paste in conditions", before: m("a.cc", "#include <cstdint>\n#include <cmath>\n#include <cassert>\n"+uses, "h.h", lib), after: m("h.h", "//\n"+lib), want: shifted},
	{name: "line by two macros", before: m("a.cc", "#define L __LINE__\n#define CAT(a, b) a##b\n#define C(a, b) CAT(a, b)\n#include \"h.h\"\nint y = x3 + x4;\n", "h.h", "\n\nint C(x, L) = 5;\nextern int x4;\n"),
		after: m("h.h", "\n\n\nint C(x, L) = 5;\nextern int x3;\n"), want: changed},
	{name: "line that is spelled", before: m("a.cc", "#define T(x) #x\n#define S(x) T(x)\n#include \"h.h\"\n", "h.h", "const char *s = \"at \" S(__LINE__);\n"), after: m("h.h", "//\nconst char *s = \"at \" S(__LINE__);\n"), want: changed},
	{name: "line in a condition", before: m("a.cc", uses, "h.h", lib+"#if __LINE__ > 4\nint g;\n#endif\n"), after: m("h.h", "//\n"+lib+"#if __LINE__ > 4\nint g;\n#endif\n"), want: changed},
	{name: "condition that asks for a macro of lines", before: m("a.cc", "#define WHERE __LINE__\n"+uses, "h.h", lib+"#if defined WHERE || defined(WHERE)\nint g;\n#endif\n"), after: m("h.h", "//\n"+lib+"#if defined WHERE || defined(WHERE)\nint g;\n#endif\n"), want: shifted},
	{name: "condition that asks for it and expands it", before: m("a.cc", "#define WHERE __LINE__\n"+uses, "h.h", lib+"#if defined(WHERE) && WHERE > 4\nint g;\n#endif\n"), after: m("h.h", "//\n"+lib+"#if defined(WHERE) && WHERE > 4\nint g;\n#endif\n"), want: changed},
	{name: "condition that ends in a question", before: m("a.cc", "#define WHERE __LINE__\n"+uses, "h.h", lib+"#if !defined WHERE\n#elif WHERE > 4\nint g;\n#endif\n"), after: m("h.h", "//\n"+lib+"#if !defined WHERE\n#elif WHERE > 4\nint g;\n#endif\n"), want: changed},
	{name: "line in a condition by a macro", before: m("a.cc", "#define WHERE __LINE__\n"+uses, "h.h", lib+"#if WHERE > 4\nint g;\n#endif\n"), after: m("h.h", "//\n"+lib+"#if WHERE > 4\nint g;\n#endif\n"), want: changed},
	{name: "line by the command line", flags: "-DWHERE=__LINE__", before: m("a.cc", uses, "h.h", lib+"#if WHERE > 4\nint g;\n#endif\n"), after: m("h.h", "//\n"+lib+"#if WHERE > 4\nint g;\n#endif\n"), want: "passed on: a macro of the command line"},
	{name: "assert", before: m("a.cc", uses, "h.h", "#include <assert.h>\ninline int f(int x) { assert(x); return x; }\n"), after: m("h.h", "//\n#include <assert.h>\ninline int f(int x) { assert(x); return x; }\n"), want: changed},
	{name: "assert elsewhere", before: m("a.cc", "#include \"g.h\"\n"+uses, "g.h", "#include <assert.h>\ninline int g(int x) { assert(x); return x; }\n", "h.h", lib), after: m("h.h", "//\n"+lib), want: shifted},
	{name: "behind an assert", before: m("a.cc", uses, "h.h", asserts+many), after: m("h.h", asserts+"//\n"+many), want: shifted},
	{name: "right behind an assert", before: m("a.cc", uses, "h.h", asserts+many), after: m("h.h", strings.TrimSuffix(asserts, "}\n")+"//\n}\n"+many), want: shifted},
	{name: "in front of an assert", before: m("a.cc", uses, "h.h", asserts+many+"inline int g(int x) { assert(x > 1); return x; }\nint h = g(2);\n"), after: m("h.h", asserts+"//\n"+many+"inline int g(int x) { assert(x > 1); return x; }\nint h = g(2);\n"), want: changed},
	{name: "in an assert that begins early", before: m("a.cc", uses, "h.h", "#define L(...) __LINE__\ninline int f(int x) { return L(\n"+strings.Repeat("x + ", 30)+"\n"+strings.Repeat("x + ", 30)+"x); }\n"), after: m("h.h", "#define L(...) __LINE__\ninline int f(int x) { return L(\n"+strings.Repeat("x + ", 30)+"\n//\n"+strings.Repeat("x + ", 30)+"x); }\n"), want: changed},
	{name: "parentheses that don't match", before: m("a.cc", uses, "h.h", "#define L __LINE__\ninline int f(int x) { return L\n#if 1\n+ (x\n#else\n+ (x + 1\n#endif\n); }\n"+many), after: m("h.h", "#define L __LINE__\ninline int f(int x) { return L\n#if 1\n+ (x\n#else\n+ (x + 1\n#endif\n); }\n//\n"+many), want: changed},
	{name: "in a chain of calls", before: m("a.cc", uses, "h.h", "#define L2(x) __LINE__\n#define L(y) L2\ninline int f(int x) { return L(1)\n(2); }\n"), after: m("h.h", "#define L2(x) __LINE__\n#define L(y) L2\ninline int f(int x) { return L(1)\n//\n(2); }\n"), want: changed},
	{name: "assertion in a default argument", before: m("a.cc", uses, "h.h", "#include <assert.h>\ninline int g(int n = ((void)assert(true), 1)) { return n; }\ninline int f(int x) {\n  return x + g();\n}\n"), after: m("h.h", "#include <assert.h>\ninline int g(int n = ((void)assert(true), 1)) { return n; }\ninline int f(int x) {\n//\n  return x + g();\n}\n"), want: changed, only: "g++"},
	{name: "behind a name that is pasted", before: m("a.cc", uses, "h.h", "#define AT __LINE__\n#define P(x) x ## T\ninline int f(int x) { return x; }\n"+many+"int h = P(A);\n"), after: m("h.h", "#define AT __LINE__\n#define P(x) x ## T\ninline int f(int x) { return x; }\n//\n"+many+"int h = P(A);\n"), want: changed},
	{name: "line of the caller", before: m("a.cc", "inline int line(int n = __builtin_LINE()) { return n; }\n"+uses, "h.h", "inline int f(int x) { return x + line(); }\n"),
		after: m("h.h", "//\ninline int f(int x) { return x + line(); }\n"), want: changed},
	{name: "line of the caller by a macro", before: m("a.cc", "#define HERE __builtin_LINE()\n#define ARG(a, b) a = b\ninline int line(ARG(int n, HERE)) { return n; }\n"+uses, "h.h", "inline int f(int x) { return x + line(); }\n"),
		after: m("h.h", "//\ninline int f(int x) { return x + line(); }\n"), want: changed},
	{name: "line of who initialises", before: m("a.cc", "struct S { int a; int n = __builtin_LINE(); };\n"+uses, "h.h", "inline int f(int x) { S s{x}; return s.n; }\n"),
		after: m("h.h", "//\ninline int f(int x) { S s{x}; return s.n; }\n"), want: changed},
	{name: "line of who initialises, braces", before: m("a.cc", "struct alignas(8) S { int a; int n{__builtin_LINE()}; };\n"+uses, "h.h", "inline int f(int x) { S s{x}; return s.n; }\n"),
		after: m("h.h", "//\ninline int f(int x) { S s{x}; return s.n; }\n"), want: changed},
	{name: "line of who calls a lambda", before: m("a.cc", "inline auto make() { return [](int n = __builtin_LINE()) { return n; }; }\n"+uses, "h.h", "inline int f(int x) { return x + make()(); }\n"),
		after: m("h.h", "//\ninline int f(int x) { return x + make()(); }\n"), want: changed},
	{name: "column", flags: "-std=c++20", before: m("a.cc", "#include <source_location>\n"+uses, "h.h", "inline int f(int x) { return std::source_location::current().column(); }\n"),
		after: m("h.h", "inline int f(int x) {    return std::source_location::current().column(); }\n"), want: changed},
	{name: "debug information", flags: "-g", before: m("a.cc", uses, "h.h", lib), after: m("h.h", "//\n"+lib), want: changed},
	{name: "debug information, columns", flags: "-g", before: m("a.cc", uses, "h.h", lib), after: m("h.h", strings.Replace(lib, "  return", "   return", 1)), want: changed},

	{name: "hidden by a new header", flags: "-Ione -Itwo", before: m("a.cc", "#include <h.h>\nint use() { return f(2); }\n", "two/h.h", lib), after: m("one/h.h", strings.Replace(lib, "1", "7", 1)), want: changed},
	{name: "hidden beside the file", flags: "-iquote two", before: m("a.cc", uses, "two/h.h", lib), after: m("h.h", strings.Replace(lib, "1", "7", 1)), want: changed},
	{name: "hidden beside a header", flags: "-Itwo", before: m("a.cc", "#include \"sub/g.h\"\nint use() { return f(2); }\n", "sub/g.h", "#include \"h.h\"\n", "two/h.h", lib), after: m("sub/h.h", strings.Replace(lib, "1", "7", 1)), want: changed},
	{name: "asked for and new", flags: "-Ione", before: m("a.cc", "#if __has_include(<h.h>)\nint x = 1;\n#else\nint x = 2;\n#endif\n"), after: m("one/h.h", "//\n"), want: changed},
	{name: "next header", flags: "-Ione -Itwo -Ithree", before: m("a.cc", "#include <h.h>\nint use() { return f(2); }\n", "one/h.h", "#include_next <h.h>\n", "three/h.h", lib), after: m("two/h.h", strings.Replace(lib, "1", "7", 1)), want: changed},
	{name: "nothing new that matters", flags: "-Ione", before: m("a.cc", uses, "h.h", lib), after: m("one/other.h", "x\n"), want: bytesSame},
	{name: "included by the command line", flags: "-include i.h", before: m("a.cc", uses, "h.h", lib, "i.h", "#define int long\n"), after: m("i.h", "#define int short\n"), want: changed},
	{name: "computed", before: m("a.cc", "#define N \"h.h\"\n#include N\nint use() { return f(2); }\n", "h.h", lib), after: m(), want: "compiled: computed include"},
	{name: "date", before: m("a.cc", "const char *s = __DATE__;\n"), after: m(), want: "compiled: date or time"},
	{name: "date of the command line", flags: `-Wno-builtin-macro-redefined -D__DATE__="r" -D__TIME__="r" -D__TIMESTAMP__="r"`, before: m("a.cc", "const char *s = __DATE__;\n"), after: m(), want: bytesSame},
	{name: "incbin", before: m("a.c", "__asm__(\".data\\n.incbin \\\"d\\\"\\n\");\n", "d", "one"), after: m("d", "two"), want: "compiled: incbin"},
	{name: "incbin in pieces", before: m("a.c", "__asm__(\".data\\n\" \".inc\" \"bin \\\"d\\\"\\n\");\n", "d", "one"), after: m("d", "two"), want: "compiled: .inc"},
	{name: "as Bazel says it", flags: "-U_FORTIFY_SOURCE -fstack-protector -Wall -fno-omit-frame-pointer -std=c++14 -fPIC -iquote . -iquote bin -no-canonical-prefixes -Wno-builtin-macro-redefined -D__DATE__=\"r\" -D__TIMESTAMP__=\"r\" -D__TIME__=\"r\"",
		before: m("a.cc", "#include <stdio.h>\n#include <string>\n"+uses, "h.h", lib), after: m("h.h", "//\n"+lib), want: shifted},
	{name: "name that ends so", before: m("a.cc", "#define NAME \"a/b.inc\"\n"+uses, "h.h", lib), after: m("h.h", "//\n"+lib), want: shifted},
	{name: "include of an assembler", before: m("a.c", "__asm__(\".include \\\"d\\\"\\n\");\n", "d", ".data\n.byte 1\n"), after: m("d", ".data\n.byte 2\n"), want: "compiled: .include"},
	{name: "embed", flags: "-std=c23", before: m("a.c", "const unsigned char d[] = {\n# /**/ embed \"d\"\n};\n", "d", "one"), after: m("d", "two"), want: "compiled: #embed"},

	{name: "comment in a string", before: m("a.cc", uses+"const char *s = \"http://a\";\n", "h.h", lib), after: m("a.cc", uses+"const char *s = \"http://b\";\n"), want: changed},
	{name: "comment in a raw string", before: m("a.cc", uses+"const char *s = R\"(\" // a)\";\n", "h.h", lib), after: m("a.cc", uses+"const char *s = R\"(\" // b)\";\n"), want: changed},
	{name: "code behind a raw string", before: m("a.cc", uses+"const char *s = R\"(\" /*)\"; int q = 1; const char *t = R\"(*/)\";\n", "h.h", lib), after: m("a.cc", uses+"const char *s = R\"(\" /*)\"; int q = 2; const char *t = R\"(*/)\";\n"), want: changed},
	{name: "comment that goes on", before: m("a.cc", uses+"// \\\nint q;\n", "h.h", lib), after: m("a.cc", uses+"// \nint q;\n"), want: "compiled: new"},
	{name: "comment that a splice ends", flags: "-Wno-comment", before: m("a.cc", uses+"/* *\\\n/ int q; // */\n", "h.h", lib), after: m("a.cc", uses+"/* *\\\n/ int r; // */\n"), want: notText},
	{name: "comment that a splice begins", before: m("a.cc", uses+"/\\\n* // */ int q;\n", "h.h", lib), after: m("a.cc", uses+"/\\\n* // */ int r;\n"), want: notText},
	{name: "comment in a name", before: m("a.cc", "#include <x//h.h>\n"+uses, "h.h", lib, "x/h.h", "int q;\n"), flags: "-I.", after: m("a.cc", "#include <x//g.h>\n"+uses, "x/g.h", "int r;\n"), want: changed},
	{name: "directive with a comment over lines", before: m("a.cc", uses+"#define A /* x\n// */ int q;\nA\n", "h.h", lib), after: m("a.cc", uses+"#define A /* x\n// */ int r;\nA\n"), want: changed},
	{name: "trigraph", flags: "-trigraphs -Wno-trigraphs", before: m("a.cc", uses+"// ??/\nint q;\n", "h.h", lib), after: m("a.cc", uses+"// ??\nint q;\n"), want: "compiled: new"},
	{name: "quote in a block that is left out", before: m("a.cc", uses, "h.h", lib+"#if 0\ndon't // a\n#endif\n"), after: m("h.h", lib+"#if 0\ndon't // b\n#endif\n"), want: notText, only: "clang++"},
	{name: "error that isn't reached", before: m("a.cc", uses, "h.h", lib+"#if 0\n#error you don't /x \\\n  want that\n#endif\n"), after: m("h.h", "//\n"+lib+"#if 0\n#error you don't /x \\\n  want that\n#endif\n"), want: shifted, only: "clang++"},
	{name: "digits", flags: "-std=c++17", before: m("a.cc", uses, "h.h", lib+"int q = 1'000; // it's\n"), after: m("h.h", lib+"int q = 1'000; // is\n"), want: tokens},
	{name: "comment that a compiler reads", flags: "-Wimplicit-fallthrough", before: m("a.cc", uses, "h.h", "inline int f(int x) { switch (x) { case 1: x++; /* fall through */ case 2: x++; } return x; }\n"),
		after: m("h.h", "inline int f(int x) { switch (x) { case 1: x++; /* and on */ case 2: x++; } return x; }\n"), want: changed, only: "g++"},
	{name: "warning", flags: "-Wall", before: m("a.cc", uses+"static int q;\n", "h.h", lib), after: m(), want: bytesSame},
	{name: "warning, and another file moves", flags: "-Wall", before: m("a.cc", uses+"static int q;\n", "h.h", lib), after: m("h.h", "//\n"+lib), want: shifted},
	{name: "warning that moves", flags: "-Wall", before: m("a.cc", uses+"static int q;\n", "h.h", lib), after: m("a.cc", "//\n"+uses+"static int q;\n"), want: changed},
	{name: "warning with a comment in its line", flags: "-Wall", before: m("a.cc", uses+"static int q; // a\n", "h.h", lib), after: m("a.cc", uses+"static int q; // b\n"), want: changed},
	{name: "warning of what another file has", flags: "-Wall", before: m("a.cc", uses+"static int q = f(1) + N(0);\n", "h.h", lib+"#define N(x) (x == 0 & x)\n"), after: m("h.h", "//\n"+lib+"#define N(x) (x == 0 & x)\n"), want: changed},
	{name: "warning that a file brings", flags: "-Wall", before: m("a.cc", uses+"static int q;\n", "h.h", lib), after: m("h.h", lib+"static int r;\n"), want: changed},
	{name: "warning by an absolute name", flags: "-Wall -fdiagnostics-absolute-paths", before: m("a.cc", uses+"static int q;\n", "h.h", lib), after: m("h.h", "//\n"+lib), want: "passed on: flag -fdiagnostics-absolute-paths", only: "clang++"},
	{name: "warning in a line that isn't there", flags: "-Wall", before: m("a.cc", uses+"#line 3 \"h.y\"\nstatic int q; // a\n", "h.h", lib), after: m("a.cc", uses+"#line 3 \"h.y\"\nstatic int q; // b\n"), want: changed, back: changed},
	{name: "warning in what is pasted", flags: "-Wall", before: m("a.cc", uses+"#define C(a, b) static int a##b\nC(q, r);\n", "h.h", lib), after: m("h.h", "//\n"+lib), want: "compiled: it fails or warns", only: "clang++"},
	{name: "warning whose text is the same", flags: "-Wall", before: m("a.cc", uses+"static int q;\n", "h.h", "#define X\n"+lib), after: m("h.h", lib), want: changed},
	{name: "error", before: m("a.cc", uses+"int q(\n", "h.h", lib), after: m(), want: "compiled: it fails or warns"},
	{name: "header that is checked", flags: "-xc++-header -fsyntax-only", before: m("h.hpp", "#include \"h.h\"\n", "h.h", lib), after: m("h.h", "//\n"+lib), want: shifted},
	{name: "header that is checked and wrong", flags: "-xc++-header -fsyntax-only", before: m("h.hpp", "#include \"h.h\"\n", "h.h", lib), after: m("h.h", "//\n"+lib+"}\n"), want: "compiled: it fails or warns"},
	// What was handed out wrongly once: h.h moves, and asks for a line in a way that was overlooked.
	{name: "raw string with a line marker", before: m("a.cc", "const char *k = R\"(\n# 1 \"zzz.h\"\nint x;\n)\";\nint g() { return __LINE__; }\n"),
		after: m("a.cc", "//\nconst char *k = R\"(\n# 1 \"zzz.h\"\nint x;\n)\";\nint g() { return __LINE__; }\n"), want: changed},
	{name: "builtin pasted in a default argument", before: m("a.cc", "#include \"g.h\"\n#include \"h.h\"\nint use() { return f(); }\n", "g.h", "#define P(a, b) a##b\ninline int where(int n = P(__builtin_, LINE)()) { return n; }\n", "h.h", "inline int f() { return where(); }\n"),
		after: m("h.h", "//\ninline int f() { return where(); }\n"), want: changed},
	{name: "builtin pasted in a member's initialiser", before: m("a.cc", "#include \"g.h\"\n#include \"h.h\"\nint use() { return f(); }\n", "g.h", "#define P(a, b) a##b\nstruct S { int a; int n = P(__builtin_LI, NE)(); };\n", "h.h", "inline int f() { S s{1}; return s.n; }\n"),
		after: m("h.h", "//\ninline int f() { S s{1}; return s.n; }\n"), want: changed},
	{name: "builtin pasted on the command line", flags: "-DLN=__builtin_##LINE", before: m("a.cc", "#define P(a, b) a##b\n"+uses, "h.h", lib), after: m("h.h", "//\n"+lib), want: shifted},
	{name: "assert by another name on the command line", flags: "-DCHECK=assert", before: m("a.cc", uses, "h.h", lib), after: m("h.h", "//\n"+lib), want: "passed on: a macro of the command line"},
	{name: "assert in brackets", flags: "-std=c++17", before: m("a.cc", "#include <assert.h>\n#include \"g.h\"\n#include \"h.h\"\nint use() { return f(); }\n", "g.h", "static int arr[1]; extern int ok;\nstruct S { int a; int n = arr[assert(ok), 0]; };\n", "h.h", "inline int f() { S s{1}; return s.n; }\n"),
		after: m("h.h", "//\ninline int f() { S s{1}; return s.n; }\n"), want: changed},
	{name: "assert behind a question mark", flags: "-std=c++17", before: m("a.cc", "#include <assert.h>\n#include \"g.h\"\n#include \"h.h\"\nint use() { return f(); }\n", "g.h", "extern int ok;\nstruct S { int a; int n = ok ? assert(ok), 1 : 2; };\n", "h.h", "inline int f() { S s{1}; return s.n; }\n"),
		after: m("h.h", "//\ninline int f() { S s{1}; return s.n; }\n"), want: changed, only: "clang++"},
	{name: "class in a body with braces in its base", flags: "-std=c++20", before: m("a.cc", "#include \"g.h\"\n#include \"h.h\"\nint use() { return f(); }\n", "g.h", "template <auto> struct B {};\nstruct T {};\ninline auto make() { struct S : B<T{}> { int n = __builtin_LINE(); }; return S{}; }\n", "h.h", "inline int f() { decltype(make()) s{}; return s.n; }\n"),
		after: m("h.h", "//\ninline int f() { decltype(make()) s{}; return s.n; }\n"), want: changed},
	{name: "class with a lambda in its base", flags: "-std=c++20", before: m("a.cc", "#include \"g.h\"\n#include \"h.h\"\nint use() { return f(); }\n", "g.h", "template <auto> struct B {};\nstruct C {};\nstruct S : B<[]{}>, decltype(C()) { int n = __builtin_LINE(); };\n", "h.h", "inline int f() { S s{}; return s.n; }\n"),
		after: m("h.h", "//\ninline int f() { S s{}; return s.n; }\n"), want: changed},
	{name: "lines that are the same to gcc", before: m("a.c", "void g(int);\nvoid f(int x) {\n  while (x) {\n#line 5\n g(1);\n#line 5\n     continue;\n  }\n}\n"), after: m("a.c", "void g(int);\nvoid f(int x) {\n  while (x) {\n#line 5\n g(1);\n#line 5\n continue;\n  }\n}\n"), want: changed},
	{name: "lines that are those of a header", flags: "-Wall", before: m("a.c", "void g(int);\n#include \"h.h\"\n#line 3 \"h.h\"\n      continue;\n  }\n}\n", "h.h", "void f(int x) {\n  while (x) {\n\n\n      g(1);\n"), after: m("h.h", "void f(int x) {\n  while (x) {\n      g(1);\n"), want: changed},
	{name: "parentheses that are left out", before: m("a.c", "#include \"h.h\"\n", "h.h", "#define L(...) __LINE__\nint q = L(\n#if 0\n)\n#endif\n"+strings.Repeat("1 + ", 300)+"\n"+strings.Repeat("1 +\n", 300)+"#if 0\n(\n#endif\n1);\n"),
		after: m("h.h", "#define L(...) __LINE__\nint q = L(\n#if 0\n)\n#endif\n"+strings.Repeat("1 + ", 300)+"\n//\n"+strings.Repeat("1 +\n", 300)+"#if 0\n(\n#endif\n1);\n"), want: changed, only: "clang++"},
	{name: "module maps", flags: "-fmodule-name=a -Xclang -fno-cxx-modules -Xclang -fmodule-map-file-home-is-cwd -fmodule-map-file=a.map -fmodules-strict-decluse", only: "clang++",
		before: m("a.cc", uses, "h.h", lib, "a.map", "module \"a\" {\n  export *\n  use \"b\"\n}\nextern module \"b\" \"b.map\"\n", "b.map", "module \"b\" {\n  textual header \"h.h\"\n}\n"),
		after:  m("h.h", "//\n"+lib), want: shifted},
	{name: "module map that forbids an include", flags: "-fmodule-name=a -Xclang -fno-cxx-modules -Xclang -fmodule-map-file-home-is-cwd -fmodule-map-file=a.map -fmodules-strict-decluse", only: "clang++",
		before: m("a.cc", uses, "h.h", lib, "a.map", "module \"a\" {\n  use \"b\"\n}\nextern module \"b\" \"b.map\"\n", "b.map", "module \"b\" {\n  textual header \"h.h\"\n}\n"),
		after:  m("b.map", "module \"b\" {\n}\n"), want: "compiled: it fails or warns"},
	{name: "pragma that reads a file", before: m("a.cc", "#pragma GCC dependency \"d\"\n"+uses, "h.h", lib, "d", "x\n"), after: m(), want: "compiled: #pragma GCC dependency", only: "clang++"},
	{name: "include without a blank", flags: "-Itwo", before: m("a.cc", "#include\"h.h\"\nint use() { return f(2); }\n", "two/h.h", lib), after: m("h.h", strings.Replace(lib, "1", "7", 1)), want: changed},
	{name: "date without a blank", before: m("a.cc", "const char *s = __DATE__\" x\";\n"), after: m(), want: "compiled: date or time"},
	{name: "no raw string", flags: "-std=c++17", before: m("a.cc", "#define XR\n#define b\n#define F(x) x\nconst char *s = F(XR\"(a\" b)\" // \"; int q = 1;\n"), after: m("a.cc", "#define XR\n#define b\n#define F(x) x\nconst char *s = F(XR\"(a\" b)\" // \"; int q = 2;\n"), want: changed},
	{name: "include behind a splice", flags: "-Itwo", before: m("a.cc", "#\\\ninclude \"h.h\"\nint use() { return f(2); }\n", "two/h.h", lib), after: m("h.h", strings.Replace(lib, "1", "7", 1)), want: changed},
	{name: "include behind a spliced digraph", flags: "-Itwo", before: m("a.cc", "%\\\n:include \"h.h\"\nint use() { return f(2); }\n", "two/h.h", lib), after: m("h.h", strings.Replace(lib, "1", "7", 1)), want: notText},
	{name: "carriage return", before: m("a.cc", uses+"// a\rint q = 1;\n", "h.h", lib), after: m("a.cc", uses+"// a\rint q = 2;\n"), want: notText},
	{name: "computed include with a splice", flags: "-Itwo -DN=\"h.h\"", before: m("a.cc", "#inc\\\nlude N\nint use() { return f(2); }\n", "two/h.h", lib), after: m("h.h", strings.Replace(lib, "1", "7", 1)), want: notText},
	{name: "include behind a quote in a comment", flags: "-Itwo", before: m("a.cc", "#if 0\ndon't\n#endif\n/* \" */ #include \"h.h\"\nint use() { return f(2); }\n", "two/h.h", lib), after: m("h.h", strings.Replace(lib, "1", "7", 1)), want: notText, only: "clang++"},
	{name: "has_include by a macro", flags: "-Ione", before: m("a.cc", "#define H __has_include\n#if H(<h.h>)\nint x = 1;\n#else\nint x = 2;\n#endif\n"), after: m("one/h.h", "//\n"), want: "compiled: __has_include in a macro"},
	{name: "has_include by a macro that is called alike", flags: "-Ione", before: m("a.cc", "#define T_HAS_INCLUDE __has_include\n#if T_HAS_INCLUDE(<h.h>)\nint x = 1;\n#else\nint x = 2;\n#endif\n"), after: m("one/h.h", "//\n"), want: changed},
	{name: "has_include by a macro with a parameter", flags: "-Ione", before: m("a.cc", "#define T_HAS_INCLUDE(x) __has_include(x)\n#if T_HAS_INCLUDE(<h.h>)\nint x = 1;\n#else\nint x = 2;\n#endif\n"), after: m("one/h.h", "//\n"), want: changed},
	{name: "has_include by a macro that makes the name", flags: "-Ione", before: m("a.cc", "#define T_HAS_INCLUDE(x) __has_include(<x>)\n#if T_HAS_INCLUDE(h.h)\nint x = 1;\n#else\nint x = 2;\n#endif\n"), after: m("one/h.h", "//\n"), want: "compiled: computed __has_include"},
	{name: "has_include by a macro with a macro", flags: "-Ione", before: m("a.cc", "#define T_HAS_INCLUDE __has_include\n#define F <h.h>\n#if T_HAS_INCLUDE(F)\nint x = 1;\n#else\nint x = 2;\n#endif\n"), after: m("one/h.h", "//\n"), want: "compiled: computed __has_include"},
	{name: "dependency by _Pragma", before: m("a.cc", "_Pragma(\"GCC dependency \\\"d\\\"\")\n"+uses, "h.h", lib, "d", "x\n"), after: m("d", ""), want: "compiled: it fails or warns"},
	{name: "incbin in two strings", before: m("a.c", "__asm__(\".data\\n.in\" \"cbin \\\"d\\\"\\n\");\n", "d", "one"), after: m("d", "two"), want: "compiled: directive .incbin"},
	{name: "incbin of macros", before: m("a.c", "#define S(x) #x\nasm(\".data\\nx: .\" S(inc) S(bin) \" \\\"d\\\"\\n.text\");\n", "d", "one"), after: m("d", "two"), want: "compiled: directive .\" s"},
	{name: "incbin of macros alone", before: m("a.c", "#define S(x) #x\nasm(\".data\\nx: \" S(.inc) S(bin) \" \\\"d\\\"\\n.text\");\n", "d", "one"), after: m("d", "two"), want: "compiled: directive .inc)"},
	{name: "incbin of a macro that ends", before: m("a.c", "#define D \".in\"\nasm(\".data\\nx: \" D \"cbin \\\"d\\\"\\n.text\");\n", "d", "one"), after: m("d", "two"), want: "compiled: directive .in\""},
	{name: "incbin of a macro's argument", before: m("a.c", "#define I(x) x\nasm(\".data\\nx: \" I(\".in\") \"cbin \\\"d\\\"\\n.text\");\n", "d", "one"), after: m("d", "two"), want: "compiled: directive .in\") \""},
	{name: "incbin behind a comment", before: m("a.c", "asm(\".data\\nx: .in\" /* \\\" */ \"cbin \\\"d\\\"\\n.text\");\n", "d", "one"), after: m("d", "two"), want: "compiled: directive .incbin"},
	{name: "incbin with an escape", before: m("a.c", "asm(\".data\\n.inc\\x62in \\\"d\\\"\\n.text\");\n", "d", "one"), after: m("d", "two"), want: "compiled: directive .incbin"},
	{name: "incbin with an octal escape", before: m("a.c", "asm(\".data\\n\\56in\\143bin \\\"d\\\"\\n.text\");\n", "d", "one"), after: m("d", "two"), want: "compiled: directive .incbin"},
	{name: "include with an escape", before: m("a.c", "asm(\".incl\\165de \\\"d\\\"\");\n", "d", ".data\n.byte 1\n"), after: m("d", ".data\n.byte 2\n"), want: "compiled: directive .include"},
	{name: "incbin by a macro of the assembler", before: m("a.c", "asm(\".macro m a\\n.inc\\\\a \\\"d\\\"\\n.endm\\n.data\\nm bin\\n.text\");\n", "d", "one"), after: m("d", "two"), want: "compiled: directive .macro"},
	{name: "incbin by a loop of the assembler", before: m("a.c", "asm(\".data\\n.irp a,bin\\n.inc\\\\a \\\"d\\\"\\n.endr\\n.text\");\n", "d", "one"), after: m("d", "two"), want: "compiled: directive .irp"},
	{name: "incbin in one of two dialects", before: m("a.c", "void f(void) { asm(\".data\\n.inc{bin|x} \\\"d\\\"\\n.text\" : : \"r\"(1)); }\n", "d", "one"), after: m("d", "two"), want: "compiled: directive .inc{"},
	{name: "incbin in parts of two kinds", before: m("a.cc", "asm(\".data\\nx: .in\" R\"(cbin \"d\")\" \"\\n.text\");\n", "d", "one"), after: m("d", "two"), want: "compiled: directive .in\" r"},
	{name: "assembly that is none of that", before: m("a.c", "#define S(x) #x\n#define L(n) \".L\" #n\nint g asm(S(n) \"ame\");\nconst char *v = S(1) \".\" \"2\" \".in\", *n = \"\\n{\\033[0m\";\nint f(int x) { asm(\"\\t.p2align 4\\n\" L(f) \"%=:\\tjmp .+2\\n\\t.pushsection .note.\" S(n) \",\\\"a\\\"\\n.popsection\" : \"+r\"(x)); return x; }\n"), after: m(), want: bytesSame},
	{name: "incbin with a splice", before: m("a.c", "__asm__(\".data\\n.in\\\ncbin \\\"d\\\"\\n\");\n", "d", "one"), after: m("d", "two"), want: "compiled: incbin"},
	{name: "embed with a splice", flags: "-std=c23", before: m("a.c", "const unsigned char d[] = {\n#em\\\nbed \"d\"\n};\n", "d", "// one"), after: m("d", "// two"), want: notText},
	{name: "alias of a header", flags: "-fms-extensions -Itwo", before: m("a.cc", "#pragma include_alias(\"q.h\", \"h.h\")\n#include \"q.h\"\nint use() { return f(2); }\n", "two/h.h", lib), after: m("h.h", strings.Replace(lib, "1", "7", 1)), want: "passed on: flag -fms-extensions", only: "clang++"},
	{name: "line pasted of three", before: m("a.cc", "#define P(a, b) a##_LI##b\n"+uses, "h.h", lib+"#if P(_, NE__) > 4\nint g;\n#endif\n"), after: m("h.h", "//\n"+lib+"#if P(_, NE__) > 4\nint g;\n#endif\n"), want: changed},
	{name: "date with a splice", before: m("a.cc", "const char *s = __DA\\\nTE__;\n"), after: m(), want: notText},
	{name: "line directive", before: m("a.cc", uses, "h.h", "#line 100 \"gen.y\"\ninline int f(int x) { return x + __LINE__; }\n"), after: m("h.h", "#line 100 \"gen.y\"\n\ninline int f(int x) { return x + __LINE__; }\n"), want: changed},
	{name: "line directive in C", before: m("a.c", "# 100 \"gen.y\"\nint f(int x) { return x + __LINE__; }\n"), after: m("a.c", "# 100 \"gen.y\"\n\nint f(int x) { return x + __LINE__; }\n"), want: changed},
	{name: "prefix map", flags: "-ffile-prefix-map=h.h=x.h", before: m("a.cc", uses, "h.h", "inline int f(int x) { return x + __LINE__; }\n"), after: m("h.h", "\ninline int f(int x) { return x + __LINE__; }\n"), want: changed},
	{name: "name of a lambda", flags: "-std=c++20", before: m("a.cc", "template<class T> const char *name(T) { return __PRETTY_FUNCTION__; }\n#include \"h.h\"\nconst char *use() { return f(); }\n", "h.h", "inline const char *f() { return name([] {}); }\n"), after: m("h.h", "//\ninline const char *f() { return name([] {}); }\n"), want: changed, only: "clang++"},
	{name: "name of a lambda, column", flags: "-std=c++20", before: m("a.cc", "template<class T> const char *name(T) { return __PRETTY_FUNCTION__; }\n#include \"h.h\"\nconst char *use() { return f(); }\n", "h.h", "inline const char *f() { return name([] {}); }\n"), after: m("h.h", "inline const char *f() { return   name([] {}); }\n"), want: changed, only: "clang++"},
	{name: "name of a lambda elsewhere", flags: "-std=c++20", before: m("a.cc", "#include <assert.h>\ntemplate<class T> int name(T t) { assert(t()); return 1; }\n#include \"g.h\"\n"+uses, "g.h", "inline int g() { extern int z; return name([] { return z; }); }\n", "h.h", lib+"inline int q = g();\n"), after: m("h.h", "//\n"+lib+"inline int q = g();\n"), want: shifted},
	{name: "name of a lambda there, by assert", flags: "-std=c++20 -I.", before: m("a.cc", "#include <assert.h>\ntemplate<class T> int name(T t) { assert(t()); return 1; }\n#include <x/../g.h>\n"+uses, "x/y", "x\n", "g.h", "inline int g() { extern int z; return name([] { return z; }); }\n", "h.h", lib+"inline int q = g();\n"), after: m("g.h", "//\ninline int g() { extern int z; return name([] { return z; }); }\n"), want: changed, only: "clang++"},
	{name: "contract", flags: "-std=c++26", before: m("a.cc", uses, "h.h", "inline int f(int x) { contract_assert(x > 0); return x; }\n"), after: m("h.h", "//\ninline int f(int x) { contract_assert(x > 0); return x; }\n"), want: changed, only: "g++"},
	{name: "date by pasting", before: m("a.cc", "#define T(a) __DA##a\nconst char *s = T(TE__);\n"), after: m(), want: "compiled: date or time"},
	{name: "local class", before: m("a.cc", "inline auto make() { struct S { int a; int n = __builtin_LINE(); }; return S{1}; }\n"+uses, "h.h", "inline int f(int x) { decltype(make()) s{x}; return s.n; }\n"), after: m("h.h", "//\ninline int f(int x) { decltype(make()) s{x}; return s.n; }\n"), want: changed},
	{name: "member in parentheses", before: m("a.cc", "struct S { int a; int (n){__builtin_LINE()}; };\n"+uses, "h.h", "inline int f(int x) { S s{x}; return s.n; }\n"), after: m("h.h", "//\ninline int f(int x) { S s{x}; return s.n; }\n"), want: changed},
	{name: "member with an attribute", before: m("a.cc", "struct S { int a; int n __attribute__((aligned(8))){__builtin_LINE()}; };\n"+uses, "h.h", "inline int f(int x) { S s{x}; return s.n; }\n"), after: m("h.h", "//\ninline int f(int x) { S s{x}; return s.n; }\n"), want: changed},
	{name: "line of who initialises a member of a local class in braces", before: m("a.cc", "inline auto make() { struct S { int a; int n{__builtin_LINE()}; }; return S{1}; }\n"+uses, "h.h", "inline int f(int x) { decltype(make()) s{x}; return s.n; }\n"), after: m("h.h", "//\ninline int f(int x) { decltype(make()) s{x}; return s.n; }\n"), want: changed},
	{name: "line in a body elsewhere", before: m("a.cc", "struct T { T(); int n; };\nT::T() : n{1} { n = __builtin_LINE(); }\nint line() { if (T t; t.n) { return __builtin_LINE(); } return 0; }\n"+uses, "h.h", lib), after: m("h.h", "//\n"+lib), want: shifted},
	{name: "line of who makes a template's object", flags: "-std=c++20", before: m("a.cc", "template<class T> requires (sizeof(T) > 1) struct S { T a; T (n) = T(__builtin_LINE()); };\n"+uses, "h.h", "inline int f(int x) { S<int> s{x}; return s.n; }\n"), after: m("h.h", "//\ninline int f(int x) { S<int> s{x}; return s.n; }\n"), want: changed},
	{name: "misleading indentation", flags: "-Wall -Werror", before: m("a.cc", uses, "h.h", "int a(); int b();\ninline int f(int x) {\n  if (x)\n    a();\n  b();\n  return x;\n}\n"), after: m("h.h", "int a(); int b();\ninline int f(int x) {\n  if (x)\n    a();\n    b();\n  return x;\n}\n"), want: "compiled: it fails or warns"},
	{name: "empty body", flags: "-Wall -Werror", before: m("a.cc", uses, "h.h", "inline int f(int x) {\n  if (x)\n    ;\n  return x;\n}\n"), after: m("h.h", "inline int f(int x) {\n  if (x) ;\n  return x;\n}\n"), want: "compiled: it fails or warns", only: "clang++"},
	{name: "comment in a comment", flags: "-Wall -Werror", before: m("a.cc", uses, "h.h", lib+"/* a */\n"), after: m("h.h", lib+"/* /* a */\n"), want: "compiled: it fails or warns"},
	{name: "bidirectional text", flags: "-Werror", before: m("a.cc", uses, "h.h", lib+"/* a */\n"), after: m("h.h", lib+"/* \u202e a */\n"), want: "compiled: it fails or warns", only: "g++"},
	{name: "invalid text", flags: "-Winvalid-utf8 -Werror", before: m("a.cc", uses, "h.h", lib+"/* a */\n"), after: m("h.h", lib+"/* \xff\xfe a */\n"), want: "compiled: it fails or warns", only: "clang++"},
	{name: "documentation", flags: "-Wdocumentation -Werror", before: m("a.cc", uses, "h.h", "/// \\param x one\n"+lib), after: m("h.h", "/// \\param y one\n"+lib), want: "passed on: flag -Wdocumentation", only: "clang++"},
	{name: "any comment", flags: "-Wimplicit-fallthrough=1 -Werror", before: m("a.cc", uses, "h.h", "inline int f(int x) { switch (x) { case 1: x++; /* go on */\n case 2: x++; } return x; }\n"), after: m("h.h", "inline int f(int x) { switch (x) { case 1: x++; \n case 2: x++; } return x; }\n"), want: "passed on: flag -Wimplicit-fallthrough=1", only: "g++"},
	{name: "trailing blanks", flags: "-Wtrailing-whitespace=any -Werror", before: m("a.cc", uses, "h.h", lib), after: m("h.h", strings.Replace(lib, ";", "; ", 1)), want: "passed on: flag -Wtrailing-whitespace=any", only: "g++"},
	{name: "comments in statements without braces", flags: "-Wall -Wextra", before: m("a.cc", uses, "h.h", "inline int f(int x) {\n  if (x)\n    return 2;\n  for (;;) if (x++) break;\n  do x++; while (x < 4);\n  while (x < 9)\n    if (x++ > 3)\n      x++;\n    else\n      x += 2;\n  return x;\n}\n"), after: m("h.h", "// a\n"+strings.ReplaceAll("inline int f(int x) {\n  if (x)\n    return 2;\n  for (;;) if (x++) break;\n  do x++; while (x < 4);\n  while (x < 9)\n    if (x++ > 3)\n      x++;\n    else\n      x += 2;\n  return x;\n}\n", "\n    return 2;", "\n    // b\n    return 2; // c\n")), want: shifted},
	{name: "no raw string in C++98", flags: "-std=c++98", before: m("a.cc", "#define R\n#define b\n#define F(x) x\nconst char *s = F(R\"(a\" b)\" // \"; int q = 1;\n"), after: m("a.cc", "#define R\n#define b\n#define F(x) x\nconst char *s = F(R\"(a\" b)\" // \"; int q = 2;\n"), want: notText},
	{name: "no digits in C++11", flags: "-std=c++11", before: m("a.cc", "#define F(x)\nF(1'a//') int q = 1;\n"), after: m("a.cc", "#define F(x)\nF(1'a//') int q = 2;\n"), want: notText},
	{name: "no raw string in C", flags: "-std=c11 -x c", before: m("a.cc", "#define R\n#define b\n#define F(x) x\nconst char *s = F(R\"(a\" b)\" // \"; int q = 1;\n"), after: m("a.cc", "#define R\n#define b\n#define F(x) x\nconst char *s = F(R\"(a\" b)\" // \"; int q = 2;\n"), want: notText},
	{name: "include by a digraph", flags: "-Itwo", before: m("a.cc", "%:include \"h.h\"\nint use() { return f(2); }\n", "two/h.h", lib), after: m("h.h", strings.Replace(lib, "1", "7", 1)), want: notText},
	{name: "include behind a comment", flags: "-Itwo", before: m("a.cc", "/* a\n*/ # /* b */ include /* c */ \"h.h\"\nint use() { return f(2); }\n", "two/h.h", lib), after: m("h.h", strings.Replace(lib, "1", "7", 1)), want: notText},
	{name: "line spliced", before: m("a.cc", uses, "h.h", "inline int f(int x) { return x + __LI\\\nNE__; }\n"), after: m("h.h", "\ninline int f(int x) { return x + __LI\\\nNE__; }\n"), want: notText},
	{name: "line in arguments over lines", before: m("a.cc", "#define F(x, y) x\n"+uses, "h.h", "inline int f(int x) { return x + F(__LINE__,\n  1); }\n"), after: m("h.h", "inline int f(int x) { return x + F(__LINE__,\n\n  1); }\n"), want: changed},
	{name: "parent directory", flags: "-Ione/../two -Ithree", before: m("a.cc", "#include <h.h>\nint use() { return f(2); }\n", "three/h.h", lib, "one/x", "x"), after: m("two/h.h", strings.Replace(lib, "1", "7", 1)), want: changed},
	{name: "C without // comments", flags: "-std=c89", before: m("a.c", "int x = 8 //* c */ 2\n;\n"), after: m("a.c", "int x = 8 //* c */ 4\n;\n"), want: "passed on: C of 1990"},
	{name: "trigraph in a literal", only: "g++", flags: "-std=c11 -Wno-multichar", before: m("a.c", "int x = '??'//b';\n"), after: m("a.c", "int x = '??'//c';\n"), want: notText},
	{name: "has_include with a quote in a macro", flags: "-Isub", before: m("a.cc", "#include <m.h>\n#if T_HAS_INCLUDE_G\nint x = 1;\n#else\nint x = 2;\n#endif\n", "sub/m.h", "#define T_HAS_INCLUDE_G __has_include(\"g.h\")\n"), after: m("g.h", "//\n"), want: "compiled: __has_include in a macro"},
	{name: "has_include by a macro with two parameters", flags: "-Isub", before: m("a.cc", "#define T_HAS_INCLUDE(a, b) __has_include(b)\n#if T_HAS_INCLUDE(<q.h>, <h.h>)\nint x = 1;\n#else\nint x = 2;\n#endif\n", "sub/m.h", "//\n"), after: m("sub/h.h", "//\n"), want: "compiled: computed __has_include"},
	{name: "has_include by a macro that another one brings", flags: "-Isub", before: m("a.cc", "#define T_HAS_INCLUDE(b) __has_include(b)\n#define ID(x) x\n#if ID(T_HAS_INCLUDE)(<h.h>)\nint x = 1;\n#else\nint x = 2;\n#endif\n", "sub/m.h", "//\n"), after: m("sub/h.h", "//\n"), want: "compiled: computed __has_include"},
	{name: "has_include that is pasted", flags: "-Isub", before: m("a.cc", "#define P(a, b) a##b\n#if P(__has_, include)(<h.h>)\nint x = 1;\n#else\nint x = 2;\n#endif\n", "sub/m.h", "//\n"), after: m("sub/h.h", "//\n"), want: "compiled: __has_include that may be pasted"},
	{name: "has_include by a macro that is pasted", flags: "-Isub", before: m("a.cc", "#define T_HAS_INCLUDE(b) __has_include(b)\n#define P(a, b) a##b\n#if P(T_HAS_, INCLUDE)(<h.h>)\nint x = 1;\n#else\nint x = 2;\n#endif\n", "sub/m.h", "//\n"), after: m("sub/h.h", "//\n"), want: "compiled: __has_include that may be pasted"},
	{name: "place of a lambda behind a cast", only: "clang++", flags: "-std=c++17", before: m("a.cc", named+"#include \"h.h\"\n", "h.h", "int q = ((Name)[] {}).v;\n"), after: m("h.h", "\n\n\n\n\n\n\n\n\nint q = ((Name)[] {}).v;\n"), want: changed},
	{name: "place of a lambda behind a macro", only: "clang++", flags: "-std=c++17", before: m("a.cc", named+"#define SET (Name)\n#include \"h.h\"\n", "h.h", "int q = (SET [] {}).v;\n"), after: m("h.h", "\n\n\n\n\n\n\n\n\nint q = (SET [] {}).v;\n"), want: changed},
	{name: "place of a class with an attribute", only: "clang++", flags: "-std=c++17", before: m("a.cc", named+"#include \"h.h\"\n", "h.h", "struct __attribute__((packed)) { int a; } x; int q = Name(x).v;\n"), after: m("h.h", "\n\n\n\n\n\n\n\n\nstruct __attribute__((packed)) { int a; } x; int q = Name(x).v;\n"), want: changed},
	{name: "line in a condition of another file", before: m("a.cc", "#include \"h.h\"\n#include \"g.h\"\n", "h.h", "#if __LINE__ > 0\n#define L __LINE__\n#else\n#define L 0\n#endif\n", "g.h", "int g = L;\n"), after: m("g.h", "//\nint g = L;\n"), want: changed},
	{name: "layout that a pragma makes an error", only: "g++", before: m("a.cc", uses, "h.h", "#pragma GCC diagnostic error \"-Wmisleading-indentation\"\nint a(); int b();\ninline int f(int x) {\n  if (x)\n    a();\n  b();\n  return x;\n}\n"), after: m("h.h", "#pragma GCC diagnostic error \"-Wmisleading-indentation\"\nint a(); int b();\ninline int f(int x) {\n  if (x)\n    a();\n    b();\n  return x;\n}\n"), want: "compiled: it fails or warns"},
	{name: "comment that a pragma makes an error", only: "clang++", before: m("a.cc", "#include \"h.h\"\n", "h.h", "#pragma clang diagnostic error \"-Wdocumentation\"\n/// \\param x one\nint f(int x);\n"), after: m("h.h", "#pragma clang diagnostic error \"-Wdocumentation\"\n/// \\param y one\nint f(int x);\n"), want: "compiled: it fails or warns"},
	{name: "bom computed include", only: "g++", flags: "-Ione -Itwo -DN=<h.h>", before: m("a.cc", "\xef\xbb\xbf#include N\nint use() { return f(2); }\n", "two/h.h", lib), after: m("one/h.h", "inline int f(int x) {\n  return x + 7;\n}\n"), want: notText},
	{name: "bom has include", only: "clang++", flags: "-Ione", before: m("a.cc", "\xef\xbb\xbf#if __has_include(<h.h>)\nint x=1;\n#else\nint x=2;\n#endif\n"), after: m("one/h.h", "inline int f(int x) {\n  return x + 7;\n}\n"), want: notText},
	{name: "bom include", only: "g++", flags: "-Ione -Itwo", before: m("a.cc", "\xef\xbb\xbf#include <h.h>\nint use() { return f(2); }\n", "two/h.h", lib), after: m("one/h.h", "inline int f(int x) {\n  return x + 7;\n}\n"), want: notText},
	{name: "bom line condition", only: "g++", before: m("a.cc", "\xef\xbb\xbf/**/#if __LINE__ > 1\nint x=1;\n#else\nint x=2;\n#endif\n"), after: m("a.cc", "\xef\xbb\xbf/*\n*/#if __LINE__ > 1\nint x=1;\n#else\nint x=2;\n#endif\n"), want: notText},
	{name: "computed asm macro", only: "clang++", flags: "-std=c++26", before: m("a.cc", "#define A asm\nconstexpr char t[] = {'.','d','a','t','a',';','.','i','n','c','b','i','n','\"','d','\"',';','.','t','e','x','t',0};\nstruct V { const char *p; int n; constexpr int size() const { return n; } constexpr const char *data() const { return p; } };\nA((V{t, 22}));\n", "d", "one"), after: m("d", "two2"), want: "compiled: computed assembly"},
	{name: "define column", only: "clang++", flags: "-DCOL=__builtin_COLUMN()", before: m("a.c", "int s = COL;\n"), after: m("a.c", "int  s  =   COL;\n"), want: "passed on: a macro of the command line"},
	{name: "define date", only: "g++", flags: "-DSTAMP=__DATE__", before: m("a.c", "const char *s = STAMP;\n"), after: m(), want: "passed on: a macro of the command line"},
	{name: "define has include", only: "g++", flags: "-DT_HAS_INCLUDE_X=__has_include(<x.h>) -Ione", before: m("a.c", "#if T_HAS_INCLUDE_X\nint x = 1;\n#else\nint x = 2;\n#endif\n"), after: m("one/x.h", "\n"), want: "passed on: a macro of the command line"},
	{name: "define pretty", only: "clang++", flags: "-DWHERE=__PRETTY_FUNCTION__ -std=c++17", before: m("h.h", "\n", "a.cc", "#include \"h.h\"\ntemplate<class T> constexpr int n(T) { return sizeof(WHERE); }\nint q = n([] {});\n"), after: m("a.cc", "#include \"h.h\"\ntemplate<class T> constexpr int n(T) { return sizeof(WHERE); }\n\n\n\n\n\n\n\n\nint q = n([] {});\n"), want: "passed on: a macro of the command line"},
	{name: "doubt has include NUL", only: "g++", flags: "-Ione -Wno-null-character", before: m("a.cc", "// \x00\n#if 1 < 2 && __has_include(<h.h>)\nint x=1;\n#else\nint x=2;\n#endif\n"), after: m("one/h.h", "\n"), want: changed},
	{name: "doubt has include comment", only: "g++", flags: "-Ione -w", before: m("a.cc", "// what??/x\n#if __has_include /* < */ ( /* < */ <h.h>)\nint x=1;\n#else\nint x=2;\n#endif\n"), after: m("one/h.h", "\n"), want: notText},
	{name: "doubt has include less", only: "clang++", flags: "-Ione", before: m("a.cc", "#if 0\ndon't\n#endif\n#if 1 < 2 && __has_include(<h.h>)\nint x=1;\n#else\nint x=2;\n#endif\n"), after: m("one/h.h", "\n"), want: notText},
	{name: "doubt has include name space", only: "g++", flags: "-Ione -w", before: m("a.cc", "// what??/x\n#if __has_include(<h h.h>)\nint x=1;\n#else\nint x=2;\n#endif\n"), after: m("one/h h.h", "\n"), want: notText},
	{name: "doubt has include quote", only: "g++", flags: "-Ione -w", before: m("a.cc", "// what??/x\n#if '\"' && __has_include(\"h.h\")\nint x=1;\n#else\nint x=2;\n#endif\n"), after: m("h.h", "\n"), want: notText},
	{name: "empty switch", only: "clang++", flags: "-Werror", before: m("a.c", "void f(int x) { switch (x)\n ; }\n"), after: m("a.c", "void f(int x) { switch (x) ; }\n"), want: "compiled: it fails or warns"},
	{name: "fallthrough spliced", only: "g++", flags: "-Wextra -Werror", before: m("a.c", "int g(int x) { switch (x) { case 1: x++; /* fa\\\nll through */\n case 2: x++; } return x; }\n"), after: m("a.c", "int g(int x) { switch (x) { case 1: x++; /* fo\\\nll through */\n case 2: x++; } return x; }\n"), want: "compiled: it fails or warns"},
	{name: "formfeed directive", only: "g++", flags: "-pedantic -Werror", before: m("a.c", "#define A 1\nint x = A;\n"), after: m("a.c", "#define A\x0c1\nint x = A;\n"), want: "compiled: it fails or warns"},
	{name: "funcsig", only: "clang++", flags: "-std=c++17 -fms-extensions", before: m("h.h", "int q = Name([] {}).v;\n", "a.cc", "struct Name { int v; template<class T> constexpr Name(T) : v(sizeof(__FUNCSIG__)) {} };\n#include \"h.h\"\n"), after: m("h.h", "\n\n\n\n\n\n\n\n\nint q = Name([] {}).v;\n"), want: "passed on: flag -fms-extensions"},
	{name: "lambda behind delete macro", only: "clang++", flags: "-std=c++17", before: m("h.h", "int q = Name(delete [] {}).v;\n", "a.cc", named+"#define delete\n#include \"h.h\"\n"), after: m("h.h", "\n\n\n\n\n\n\n\n\nint q = Name(delete [] {}).v;\n"), want: changed},
	{name: "lambda digraph", only: "clang++", flags: "-std=c++17", before: m("h.h", "int q = Name(<::> {}).v;\n", "a.cc", named+"#include \"h.h\"\n"), after: m("h.h", "\n\n\n\n\n\n\n\n\nint q = Name(<::> {}).v;\n"), want: notText},
	{name: "lambda file in parentheses", only: "clang++", flags: "-std=c++20", before: m("a.cc", "#include <assert.h>\ntemplate<class T> int name(T t) { assert(t()); return 1; }\n#include \"d(1)/g.h\"\nint q = g();\n", "d(1)/g.h", "inline int g() { extern int z; return name([] { return z; }); }\n"), after: m("d(1)/g.h", "//\ninline int g() { extern int z; return name([] { return z; }); }\n"), want: "compiled: a list of dependencies with odd names"},
	{name: "lambda trigraph", only: "clang++", flags: "-std=c++17 -trigraphs -Wno-trigraphs", before: m("h.h", "int q = Name(??(??) {}).v;\n", "a.cc", named+"#include \"h.h\"\n"), after: m("h.h", "\n\n\n\n\n\n\n\n\nint q = Name(??(??) {}).v;\n"), want: notText},
	{name: "misleading IF macro", only: "g++", flags: "-Wall -Wextra -Werror", before: m("a.c", "void a(void); void b(void); void c(void); extern int n; extern int v[4];\n#define IF if\nvoid f(int x) {\n  IF (x)\n    a();\n  b();\n}\n"), after: m("a.c", "void a(void); void b(void); void c(void); extern int n; extern int v[4];\n#define IF if\nvoid f(int x) {\n  IF (x)\n    a();\n    b();\n}\n"), want: "compiled: it fails or warns"},
	{name: "misleading brace continues", only: "clang++", flags: "-Wall -Werror", before: m("a.cc", "struct S { int a; operator int(); }; extern int s; void a(int); extern int n;\nvoid f(int x) {\n  while (n)\n    s = S{1}\n  and n;\n  a(1);\n}\n"), after: m("a.cc", "struct S { int a; operator int(); }; extern int s; void a(int); extern int n;\nvoid f(int x) {\n  while (n)\n    s = S{1}\n  and n;\n    a(1);\n}\n"), want: "compiled: it fails or warns"},
	{name: "misleading brace in macro", only: "g++", flags: "-Wall -Werror", before: m("a.c", "void a(int); extern int n;\n#define END }\nvoid f(int x) {\n  while (n)\n    if (x) { a(1); END\n  a(2);\n}\n"), after: m("a.c", "void a(int); extern int n;\n#define END }\nvoid f(int x) {\n  while (n)\n    if (x) { a(1); END\n    a(2);\n}\n"), want: "compiled: it fails or warns"},
	{name: "misleading foreach macro", only: "g++", flags: "-Wall -Wextra -Werror", before: m("a.c", "void a(void); void b(void); void c(void); extern int n; extern int v[4];\n#define FOREACH(i) for (int i = 0; i < 3; i++)\nvoid f(void) {\n  FOREACH(i)\n    a();\n  b();\n}\n"), after: m("a.c", "void a(void); void b(void); void c(void); extern int n; extern int v[4];\n#define FOREACH(i) for (int i = 0; i < 3; i++)\nvoid f(void) {\n  FOREACH(i)\n    a();\n    b();\n}\n"), want: "compiled: it fails or warns"},
	{name: "misleading while if else", only: "g++", flags: "-Wall -Wextra -Werror", before: m("a.c", "void a(void); void b(void); void c(void); extern int n; extern int v[4];\nvoid f(int x) {\n  while (n)\n    if (x) a(); else c();\n  b();\n}\n"), after: m("a.c", "void a(void); void b(void); void c(void); extern int n; extern int v[4];\nvoid f(int x) {\n  while (n)\n    if (x) a(); else c();\n    b();\n}\n"), want: "compiled: it fails or warns"},
	{name: "misleading while if else clang", only: "clang++", flags: "-Wall -Wextra -Werror", before: m("a.cc", "void a(void); void b(void); void c(void); extern int n; extern int v[4];\nvoid f(int x) {\n  while (n)\n    if (x) { a(); } else { c(); }\n  b();\n}\n"), after: m("a.cc", "void a(void); void b(void); void c(void); extern int n; extern int v[4];\nvoid f(int x) {\n  while (n)\n    if (x) { a(); } else { c(); }\n    b();\n}\n"), want: "compiled: it fails or warns"},
	{name: "ms comment paste", only: "clang++", flags: "-fms-extensions", before: m("a.cc", "#define C /##/\nint a;\nC int x = 1;\nint y = 1;\n"), after: m("a.cc", "#define C /##/\nint a;\nC int x = 1; int y = 1;\n"), want: "passed on: flag -fms-extensions"},
	{name: "pasted column", only: "clang++", before: m("a.cc", "#define PASTE(a,b) a##b\nint q = PASTE(__built, in_COLUMN)();\n"), after: m("a.cc", "#define PASTE(a,b) a##b\nint q    =    PASTE(__built, in_COLUMN)();\n"), want: changed},
	{name: "pasted date", only: "g++", before: m("a.cc", "#define PASTE(a,b,c,d) a##b##c##d\nconst char*q = PASTE(__,DA,TE,__);\n"), after: m(), want: "compiled: date or time"},
	{name: "pasted source location", only: "g++", flags: "-std=c++20", before: m("a.cc", "#define P(a,b) a##b\n#include <cstddef>\nnamespace std { struct source_location { struct __impl { const char* _M_file_name; const char* _M_function_name; unsigned _M_line, _M_column; }; }; }\nconst void *q = P(__built, in_source_location)();\n"), after: m("a.cc", "#define P(a,b) a##b\n#include <cstddef>\nnamespace std { struct source_location { struct __impl { const char* _M_file_name; const char* _M_function_name; unsigned _M_line, _M_column; }; }; }\nconst void *q   =    P(__built, in_source_location)();\n"), want: changed},
	{name: "pragma error by macro", only: "g++", before: m("a.cc", "#define DO(x) _Pragma(#x)\n#define DIAG(k, w) DO(GCC diagnostic k w)\nDIAG(error, \"-Wmisleading-indentation\")\nint a(); int b();\nvoid f(int x) {\n  if (x)\n    a();\n  b();\n}\n"), after: m("a.cc", "#define DO(x) _Pragma(#x)\n#define DIAG(k, w) DO(GCC diagnostic k w)\nDIAG(error, \"-Wmisleading-indentation\")\nint a(); int b();\nvoid f(int x) {\n  if (x)\n    a();\n    b();\n}\n"), want: "compiled: it fails or warns"},
	{name: "pragma error comment", only: "g++", before: m("a.cc", "#pragma GCC diagnostic /*\n*/ error \"-Wmisleading-indentation\"\nint a(); int b();\nvoid f(int x) {\n  if (x)\n    a();\n  b();\n}\n"), after: m("a.cc", "#pragma GCC diagnostic /*\n*/ error \"-Wmisleading-indentation\"\nint a(); int b();\nvoid f(int x) {\n  if (x)\n    a();\n    b();\n}\n"), want: "compiled: it fails or warns"},
	{name: "pragma error doc by macro", only: "clang++", before: m("a.cc", "#define DO(x) _Pragma(#x)\n#define DIAG(k, w) DO(clang diagnostic k w)\nDIAG(error, \"-Wdocumentation\")\n/// \\param x one\nint f(int x);\n"), after: m("a.cc", "#define DO(x) _Pragma(#x)\n#define DIAG(k, w) DO(clang diagnostic k w)\nDIAG(error, \"-Wdocumentation\")\n/// \\param y one\nint f(int x);\n"), want: "compiled: it fails or warns"},
	{name: "pragma warning documentation", only: "clang++", flags: "-Werror", before: m("a.cc", "#pragma clang diagnostic warning \"-Wdocumentation\"\n/// \\param x one\nint f(int x);\n"), after: m("a.cc", "#pragma clang diagnostic warning \"-Wdocumentation\"\n/// \\param y one\nint f(int x);\n"), want: changed},
	{name: "pretty function pasted", only: "clang++", flags: "-std=c++17", before: m("h.h", "int q = Name([] {}).v;\n", "a.cc", "#define P(a,b) a##b\nstruct Name { int v; template<class T> constexpr Name(T) : v(sizeof(P(__PRETTY_,FUNCTION__))) {} };\n#include \"h.h\"\n"), after: m("h.h", "\n\n\n\n\n\n\n\n\nint q = Name([] {}).v;\n"), want: changed},
	{name: "raw string behind bad utf8", only: "g++", flags: "-w", before: m("a.cc", "#define F(x)\nF(\xffR\"(\" // )\") int q = 1;\n"), after: m("a.cc", "#define F(x)\nF(\xffR\"(\" // )\") int q = 2;\n"), want: notText},
	{name: "raw string behind nbsp", only: "clang++", flags: "-w", before: m("a.cc", "#define F(x)\nF(\xc2\xa0R\"(\" // )\") int q = 1;\n"), after: m("a.cc", "#define F(x)\nF(\xc2\xa0R\"(\" // )\") int q = 2;\n"), want: notText},
	{name: "section incbin", only: "g++", before: m("a.c", "__attribute__((section(\".data;.in\" \"cbin \\\"d\\\"#\"))) int q = 5;\n", "d", "one"), after: m("d", "two2"), want: "compiled: directive .incbin"},
	{name: "slashes c90 compat", only: "g++", flags: "-std=c99 -Wc90-c99-compat -Werror", before: m("a.c", "int x; /* a */\n"), after: m("a.c", "int x; // a\n"), want: "passed on: flag -Wc90-c99-compat"},
	{name: "slashes gnu89 pedantic", only: "g++", flags: "-std=gnu89 -pedantic-errors", before: m("a.c", "int x; /* a */\n"), after: m("a.c", "int x; // a\n"), want: "passed on: C of 1990"},
	{name: "traditional indent", only: "g++", flags: "-Wtraditional -Werror", before: m("a.c", "#define A 1\nint x = A;\n"), after: m("a.c", " #define A 1\nint x = A;\n"), want: "passed on: flag -Wtraditional"},
	{name: "vtab directive pedantic errors", only: "g++", flags: "-pedantic-errors", before: m("a.c", "#define A 1\nint x = A;\n"), after: m("a.c", "#define A\x0b1\nint x = A;\n"), want: "compiled: it fails or warns"},
	{name: "werror documentation", only: "clang++", flags: "-Werror=documentation", before: m("a.cc", "/// \\param x one\nint f(int x);\n"), after: m("a.cc", "/// \\param y one\nint f(int x);\n"), want: "passed on: flag -Werror=documentation"},
	{name: "werror fallthrough1", only: "g++", flags: "-Werror=implicit-fallthrough=1", before: m("a.c", "int g(int x) { switch (x) { case 1: x++; /* go on */\n case 2: x++; } return x; }\n"), after: m("a.c", "int g(int x) { switch (x) { case 1: x++;\n case 2: x++; } return x; }\n"), want: "passed on: flag -Werror=implicit-fallthrough=1"},
	{name: "werror missing include dirs", only: "g++", flags: "-Werror=missing-include-dirs -Ione", before: m("a.c", "int x;\n", "one/x", "x"), after: m("one/x", ""), want: "passed on: flag -Werror=missing-include-dirs"},
	{name: "werror newline eof", only: "clang++", flags: "-Werror=newline-eof", before: m("a.c", "#include \"h.h\"\n", "h.h", "int y;\n"), after: m("h.h", "int y;"), want: "compiled: it fails or warns"},
	{name: "werror trailing whitespace", only: "g++", flags: "-Werror=trailing-whitespace", before: m("a.c", "int x;\n"), after: m("a.c", "int x; \n"), want: "passed on: flag -Werror=trailing-whitespace"},
	{name: "dependency behind a comment", before: m("a.c", "#pragma GCC dependency /**/ \"d\"\nint x;\n", "d", "x"), after: m(), want: "compiled: #pragma GCC dependency", only: "g++"},
	{name: "import", flags: "-Wno-deprecated", before: m("a.c", "#import \"h.h\"\nint first;\n", "h.h", "\n"), after: m(), want: "compiled: #import", only: "g++"},
	{name: "mapped name of a lambda", flags: "-std=c++20 -I. -fmacro-prefix-map=./=x/", before: m("a.cc", "#include <assert.h>\ntemplate<class T> int name(T t) { assert(t()); return 1; }\n#include <g.h>\nint q = g();\n", "g.h", "inline int g() { extern int z; return name([] { return z; }); }\n"), after: m("g.h", "//\ninline int g() { extern int z; return name([] { return z; }); }\n"), want: changed, only: "clang++"},
	{name: "name by a header of a sysroot", flags: "-std=c++17 --sysroot=sr -nostdinc++", before: m("a.cc", "#include <name.h>\n#include \"h.h\"\n", "sr/usr/include/name.h", named, "h.h", "int q = Name([] {}).v;\n"), after: m("h.h", "\n\n\n\n\n\n\n\n\nint q = Name([] {}).v;\n"), want: changed, only: "clang++"},
	{name: "comment that takes a warning back", flags: "-Wall -Werror", before: m("a.c", "void a(void);\nvoid f(int x) {\n  if (x)\n    a();\n// c\n    a();\n}\n"), after: m("a.c", "void a(void);\nvoid f(int x) {\n  if (x)\n    a();\n    // c\n    a();\n}\n"), want: "compiled: it fails or warns", only: "g++"},
	{name: "warnings that a macro switches off", before: m("a.cc", "#define DO(x) _Pragma(#x)\n#define OFF(k, w) DO(GCC diagnostic k w)\nOFF(ignored, \"-Wunused\")\n"+uses, "h.h", lib), after: m("h.h", "//\n"+lib), want: shifted},
	{name: "line that asks for a file", flags: "-Ione", before: m("a.c", "#line __has_include(<h.h>)\nint x = __LINE__;\n", "one/x", "x"), after: m("one/h.h", "\n"), want: "compiled: __has_include in #line", only: "g++"},
	{name: "name that is the date", before: m("a.c", "#line 1 __DATE__\nconst char *s = __FILE__;\n"), after: m(), want: "compiled: date or time"},
	{name: "ident that is the date", before: m("a.c", "#ident __DATE__\nint x;\n"), after: m(), want: "compiled: computed #ident", only: "g++"},
	{name: "ident that is a string", before: m("a.c", "#include \"h.h\"\n", "h.h", "#ident \"x\"\nint x;\n"), after: m("h.h", "//\n#ident \"x\"\nint x;\n"), want: shifted, only: "g++"},
	{name: "embed behind a comment", before: m("a.c", "char x[] = {\n# /* words */ embed \"d\"\n};\n", "d", "a b"), after: m("d", "a  b"), want: "compiled: #embed", only: "g++"},
	{name: "has_include of a name that is a macro", flags: "-Ione", before: m("a.cc", "#define T_HAS_INCLUDE(x) __has_include(x)\n#if T_HAS_INCLUDE(<linux/h.h>)\nint x = 1;\n#else\nint x = 2;\n#endif\n"), after: m("one/1/h.h", "//\n"), want: "compiled: computed __has_include"},
}

// named has the length of the name of a function that says where a lambda is.
const named = "struct Name { int v; template<class T> constexpr Name(T) : v(sizeof(__PRETTY_FUNCTION__)) {} };\n"

func m(l ...string) map[string]string {
	files := map[string]string{}
	for i := 0; i < len(l); i += 2 {
		files[l[i]] = l[i+1]
	}
	return files
}

func TestEdits(t *testing.T) {
	for _, compiler := range []string{"g++", "clang++"} {
		for _, e := range edits {
			if e.only != "" && e.only != compiler {
				continue
			}
			t.Run(compiler+"/"+e.name, func(t *testing.T) {
				t.Parallel()
				compiler := compiler
				if e.before["a.c"] != "" {
					compiler = map[string]string{"g++": "gcc", "clang++": "clang"}[compiler]
				}
				b := newBench(t, compiler)
				b.write(e.before)
				first := b.compile(strings.Fields(e.flags)...)
				b.write(e.after)
				if did := b.compile(strings.Fields(e.flags)...); did != e.want {
					t.Errorf("%q, then %q; want %q\n%s", first, did, e.want, &b.out)
				}
				// Back again: the first compilation isn't forgotten.
				back := maps.Clone(e.before)
				for name := range e.after {
					if _, ok := back[name]; !ok {
						back[name] = ""
					}
				}
				b.write(back)
				did := b.compile(strings.Fields(e.flags)...)
				if first == "compiled: new" && did != cmp.Or(e.back, bytesSame) {
					t.Errorf("back again: %q", did)
				}
			})
		}
	}
}

// TestPrecompiled: gcc takes a header that is precompiled from where it looks for
// the header.
func TestPrecompiled(t *testing.T) {
	b := newBench(t, "g++")
	b.write(m("a.cc", uses, "h.h", lib))
	if did := b.compile(); did != "compiled: new" {
		t.Fatal(did)
	}
	b.write(m("h.h", strings.Replace(lib, "1", "7", 1)))
	cmd := exec.Command("g++", "-x", "c++-header", "h.h", "-o", "h.h.gch")
	cmd.Dir = b.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b.write(m("h.h", lib))
	if did := b.compile(); did != changed && !strings.HasPrefix(did, "compiled: ") {
		t.Errorf("%q", did)
	}
}

// TestAliases: what "#pragma once" takes for the same file depends on links.
func TestAliases(t *testing.T) {
	for _, compiler := range []string{"g++", "clang++"} {
		b := newBench(t, compiler)
		header := "#pragma once\ninline int C(f, __COUNTER__)() { return 1; }\n"
		b.write(m("a.cc", "#define CAT(a, b) a##b\n#define C(a, b) CAT(a, b)\n#include \"one/h.h\"\n#include \"two/h.h\"\nint use = __COUNTER__;\n", "one/h.h", header, "two/h.h", header+"\n"))
		two := filepath.Join(b.dir, "two/h.h")
		os.Remove(two)
		if err := os.Symlink("../one/h.h", two); err != nil {
			t.Fatal(err)
		}
		b.compile()
		os.Remove(two)
		b.write(m("two/h.h", header))
		old := time.Now().Add(-time.Hour) // gcc takes a copy of the same second for the same file
		if err := os.Chtimes(two, old, old); err != nil {
			t.Fatal(err)
		}
		time.Sleep(250 * time.Millisecond)
		if did := b.compile(); did != changed {
			t.Errorf("%s: %q", compiler, did)
		}
		os.Remove(two)
		if err := os.Link(filepath.Join(b.dir, "one/h.h"), two); err != nil {
			t.Fatal(err)
		}
		time.Sleep(250 * time.Millisecond)
		b.compile()
	}
}

// TestCopies: gcc takes a copy that was saved in the same second for the same file.
func TestCopies(t *testing.T) {
	b := newBench(t, "g++")
	header := "#pragma once\nC(int f, __COUNTER__);\n"
	b.write(m("a.cc", "#define CAT(a, b) a##b\n#define C(a, b) CAT(a, b)\n#include \"one/h.h\"\n#include \"two/h.h\"\nint use = __COUNTER__;\n", "one/h.h", header, "two/h.h", header))
	for i, seconds := range []time.Duration{0, 10} {
		for _, name := range []string{"one/h.h", "two/h.h"} {
			old := time.Now().Truncate(time.Minute).Add(-time.Hour)
			if name == "two/h.h" {
				old = old.Add(seconds * time.Second)
			}
			if err := os.Chtimes(filepath.Join(b.dir, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(250 * time.Millisecond)
		if did := b.compile(); did != []string{"compiled: new", changed}[i] {
			t.Errorf("%d: %q", i, did)
		}
	}
}

// TestLooked: what compilers find where they look for headers, but for its content.
func TestLooked(t *testing.T) {
	const once = "#pragma once\n#ifndef A1\n#define A1\n#include \"x/a.h\"\n#else\nint second;\n#endif\nint y;\n"
	includes := "#include <h.h>\nint use() { return f(2); }\n"
	for _, x := range []struct {
		name, flags   string
		files         map[string]string
		before, after string // commands
		want          string
	}{
		{"link to itself", "-Ione -Itwo", m("a.cc", includes, "two/h.h", lib, "one/x", "x"), "", "ln -s h.h one/h.h", "compiled: it fails or warns"},
		{"link to elsewhere", "-isystem $D/a_link_that_has_a_long_name", m("a.cc", includes, "v1/h.h", lib, "v2/h.h", lib2), "ln -s v1 a_link_that_has_a_long_name", "ln -sfn v2 a_link_that_has_a_long_name", changed},
		{"directory that was another one", "-Ione -isystem two -Wall -Werror", m("a.cc", includes, "one/h.h", lib+"static int unused;\n"), "ln -s one two", "rm two; mkdir two; ln one/h.h two/h.h", "compiled: it fails or warns"},
		{"copy of the source", "-w", m("a.c", once, "x/a.h", once), "touch -d @1000000000 a.c x/a.h", "touch -d @1000000009 x/a.h", changed},
		{"directory that comes", "-Ione", m("a.cc", uses, "h.h", lib), "", "mkdir one", bytesSame},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "g++")
			if x.files["a.c"] != "" {
				b.opt.Args[0] = "gcc"
			}
			b.write(x.files)
			flags := strings.Fields(strings.ReplaceAll(x.flags, "$D", b.dir))
			b.behind(x.before, "compiled: new", flags...)
			b.behind(x.after, x.want, flags...)
		})
	}
}

// TestTwoDirectories: the same command line and relative names, elsewhere.
func TestTwoDirectories(t *testing.T) {
	for flags, want := range map[string]string{"-O1": "same tokens", "-g": "compiled: new", "-isystem include/some/very/long/way/../../../../../i": changed} {
		t.Setenv("PWD", ".") // compilers take only an absolute one
		b := newBench(t, "gcc")
		for i, number := range []string{"1", "2"} {
			b.dir = t.TempDir()
			b.write(m("a.c", "// "+number+"\n#if __has_include(<h.h>)\n#include <h.h>\n#endif\nint x;\n", "include/some/very/long/way/x", "x", "i/h.h", "int h = "+number+";\n"))
			if did := b.compile(strings.Fields(flags)...); did != []string{"compiled: new", want}[i] {
				t.Errorf("%s, %d: %q, want %q\n%s", flags, i, did, want, &b.out)
			}
		}
	}
}

// TestHardLinked: an edit that keeps size and time of a file with two names is seen.
func TestHardLinked(t *testing.T) {
	b := newBench(t, "g++")
	b.write(m("a.cc", uses, "h.h", lib))
	h := filepath.Join(b.dir, "h.h")
	if err := os.Link(h, h+".link"); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	for i, text := range []string{lib, lib2} {
		if err := os.WriteFile(h, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(h, old, old); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2300 * time.Millisecond) // so that scans are kept
		if did := b.compile(); did != []string{"compiled: new", changed}[i] {
			t.Errorf("%d: %q", i, did)
		}
	}
}

// TestDirectory: compilers go on where a directory has the name of a header.
func TestDirectory(t *testing.T) {
	for _, compiler := range []string{"g++", "clang++"} {
		b := newBench(t, compiler)
		b.write(m("a.cc", "#include <h.h>\nint use() { return f(2); }\n", "two/h.h", lib, "one/h.h/x", "x\n"))
		b.compile("-Ione", "-Itwo")
		if err := os.RemoveAll(filepath.Join(b.dir, "one/h.h")); err != nil {
			t.Fatal(err)
		}
		b.write(m("one/h.h", strings.Replace(lib, "1", "7", 1)))
		if did := b.compile("-Ione", "-Itwo"); did != changed {
			t.Errorf("%s: %q", compiler, did)
		}
	}
}

// TestPrecompiledIncluded: clang takes a precompiled header for -include.
func TestPrecompiledIncluded(t *testing.T) {
	b := newBench(t, "clang++")
	b.write(m("a.cc", "int use() { return f(2); }\n", "h.h", strings.Replace(lib, "1", "7", 1)))
	cmd := exec.Command("clang++", "-x", "c++-header", "h.h", "-o", "h.h.pch")
	cmd.Dir = b.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pch, err := os.ReadFile(filepath.Join(b.dir, "h.h.pch"))
	if err != nil {
		t.Fatal(err)
	}
	b.write(m("h.h.pch", ""))
	b.compile("-include", "h.h")
	if did := b.compile("-include", "h.h"); did != bytesSame {
		t.Errorf("%q", did)
	}
	b.write(m("h.h.pch", string(pch)))
	if did := b.compile("-include", "h.h"); did != "compiled: a precompiled header" {
		t.Errorf("%q\n%s", did, &b.out)
	}
}

func TestPassedOn(t *testing.T) {
	b := newBench(t, "g++")
	b.write(m("a.cc", uses, "h.h", lib, "b.cc", "int b;\n", "s.s", ".data\n", "args", "-O1\n"))
	for args, want := range map[string]string{
		"-MD -MF a.d -E a.cc -o a.i":                              "passed on: flag -E",
		"-c a.cc -o a.o":                                          "passed on: no source, object or list of dependencies (-MD -MF)",
		"-MD -MF a.d -c a.cc":                                     "passed on: no source, object or list of dependencies (-MD -MF)",
		"-MD -MF a.d -c a.cc b.cc":                                "passed on: another command line than that of one source",
		"-MD -MF a.d -c a.cc -o a.o @args":                        "passed on: another command line than that of one source",
		"-MD -MF a.d -c s.s -o a.o":                               "passed on: another language than C and C++",
		"-MD -MF a.d -c a.cc -o a.o --coverage":                   "passed on: flag --coverage",
		"-MD -MF a.d -c a.cc -o a.o -Wa,-L":                       "passed on: flag -Wa,-L",
		"-MD -MF a.d -c a.cc -o a.o -save-temps":                  "passed on: flag -save-temps",
		"-MD -MF a.d -c a.cc -o a.o -imacros h.h":                 "passed on: flag -imacros",
		"-MD -MF a.d -c a.cc -o a.o -fmodules-ts":                 "passed on: flag -fmodules-ts",
		"-MD -MF a.d -c a.cc -o a.o -march=native":                "passed on: flag -march=native",
		"-MD -MF a.d -c a.cc -o a.o -mcpu=native+crypto":          "passed on: flag -mcpu=native+crypto",
		"-MD -MF a.d -c a.cc -o a.o -isystem =/usr/x":             "passed on: a directory relative to the sysroot",
		"-MD -MF a.d -c a.cc -o /dev/null":                        "passed on: output to something else than a file",
		"-MD -MF a.d -c a.cc -o a.o -I h.h":                       "passed on: a map of headers",
		"-MF a.d -c a.cc -o a.o":                                  "passed on: no source, object or list of dependencies (-MD -MF)",
		"-MD -MF a.d -c a.cc -o a.o -frecord-command-line":        "passed on: flag -frecord-command-line",
		"-MD -MF a.d -c a.cc -o a.o --target=x86_64-windows-msvc": "passed on: flag --target=x86_64-windows-msvc",
		"-MD -MF a.d -c a.cc -o a.o -fno-show-source-location":    "passed on: flag -fno-show-source-location",
		"--version": "passed on: flag --version",
	} {
		if code, did := b.run(strings.Fields(args)...); did != want {
			t.Errorf("%s: %d %q, want %q", args, code, did, want)
		}
	}
	for kv, name := range map[string]string{"CPATH=" + b.dir: "CPATH", "COMPILER_PATH=": "COMPILER_PATH", "CC_PRINT_HEADERS=1": "CC_PRINT_HEADERS"} {
		b.env = []string{kv}
		if did := b.compile(); did != "passed on: environment variable "+name {
			t.Errorf("%s: %q", kv, did)
		}
	}
}

// TestMappedHeaders: which module a header is of, module maps say by names of files.
func TestMappedHeaders(t *testing.T) {
	flags := strings.Fields("-fmodule-name=a -Xclang -fno-cxx-modules -fmodule-map-file=a.map -fmodules-decluse")
	files := m("a.cc", "#include \"h.h\"\nint use() { return f(2); }\n", "real/h.h", lib, "a.map", "module a {\n  use b\n}\nextern  module b\n  \"b.map\"\n",
		"b.map", "module b {\n  textual header \"real/h.h\"\n}\n")
	for name, edit := range map[string]string{
		"a copy":             "rm h.h && cp real/h.h h.h",
		"an external map":    "echo 'module b { }' > b.map",
		"no longer a use":    "echo 'module a { } extern module b \"b.map\"' > a.map",
		"another name of it": "ln real/h.h two.h && sed -i 's/real/./' b.map",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "clang++")
			b.write(files)
			if err := os.Symlink("real/h.h", filepath.Join(b.dir, "h.h")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(250 * time.Millisecond)
			for _, want := range []string{"compiled: new", bytesSame} {
				if did := b.compile(flags...); did != want {
					t.Fatalf("%q, want %q\n%s", did, want, &b.out)
				}
			}
			cmd := exec.Command("sh", "-c", edit)
			cmd.Dir = b.dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			time.Sleep(250 * time.Millisecond)
			if did := b.compile(flags...); did == bytesSame {
				t.Errorf("%q", did)
			}
		})
	}
}

// TestOtherCase: clang warns of a name that is that of a file but for case.
func TestOtherCase(t *testing.T) {
	b := newBench(t, "clang++")
	b.write(m("a.cc", "#include \"Foo.h\"\n", "Foo.h", "int x;\n", "foo.h", "int x;\n"))
	b.compile()
	if did := b.compile(); did != bytesSame {
		t.Fatalf("%q", did)
	}
	b.behind("rm Foo.h && ln -s foo.h Foo.h", "compiled: a name that is another one but for case")
}

// TestPipe: what can be read once only isn't read again.
func TestPipe(t *testing.T) {
	b := newBench(t, "g++")
	b.write(m("a.cc", "int x;\n"))
	pipe := filepath.Join(b.dir, "pipe.h")
	if err := syscall.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	go os.WriteFile(pipe, []byte("int y;\n"), 0o666)
	if code, did := b.run("-include", "pipe.h", "-MD", "-MF", "a.d", "-c", "a.cc", "-o", "a.o"); code != 0 || did != "compiled: a file that it reads can't be read" {
		t.Errorf("%d %q\n%s", code, did, &b.out)
	}
}

// TestOutput: who reads what a compiler says on both streams reads it in order, as
// "-v" and what the linker says to it.
func TestOutput(t *testing.T) {
	var want strings.Builder
	script := "#!/bin/sh\n"
	for i := range 300 {
		fmt.Fprintf(&want, "o%d,e%d,", i, i)
		script += fmt.Sprintf("printf o%d,; printf e%d, >&2\n", i, i)
	}
	compiler := filepath.Join(t.TempDir(), "cc")
	if err := os.WriteFile(compiler, []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, compiler)
	if _, did := b.run("-v"); did == "" || b.out.String() != want.String() {
		t.Errorf("%q: the streams are mixed up:\n%s", did, &b.out)
	}
}

// TestBadInput: what is damaged is as if it weren't there.
func TestBadInput(t *testing.T) {
	damage := func(f func(string) error) func(b *bench, dir string) {
		return func(b *bench, dir string) {
			n := 0
			filepath.WalkDir(filepath.Join(b.opt.Dir, dir), func(path string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					n++
					if err := f(path); err != nil {
						b.t.Fatal(err)
					}
				}
				return nil
			})
			if n == 0 {
				b.t.Fatalf("no files in %s", dir)
			}
		}
	}
	flip := damage(func(path string) error {
		c, err := os.ReadFile(path)
		if err == nil && len(c) > 0 {
			c[len(c)-1] ^= 1
			c[len(c)/2] ^= 1
		}
		return os.WriteFile(path, c, 0o666)
	})
	cut := damage(func(path string) error { return os.Truncate(path, 20) })
	empty := damage(func(path string) error { return os.Truncate(path, 0) })
	for _, dir := range []string{"objects", "units", "compilers", "files"} {
		for name, f := range map[string]func(*bench, string){"flip": flip, "cut": cut, "empty": empty, "removed": damage(os.Remove)} {
			t.Run(dir+"/"+name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, "clang++")
				b.write(m("a.cc", uses, "h.h", lib))
				time.Sleep(2 * time.Second) // so that scans are kept
				b.compile()
				f(b, dir)
				did := b.compile() // which compares with the real object
				if again := dir == "objects" || dir == "units"; again != strings.Contains(did, "compiled:") || !again && did != bytesSame {
					t.Errorf("%q\n%s", did, &b.out)
				}
				if did := b.compile(); did != bytesSame {
					t.Errorf("afterwards %q", did)
				}
			})
		}
	}
	t.Run("no directory", func(t *testing.T) {
		b := newBench(t, "clang++")
		b.write(m("a.cc", uses, "h.h", lib))
		b.opt.Dir = "/proc/nothing"
		if did := b.compile(); did != "" {
			t.Errorf("%q", did)
		}
	})
}

// TestAudit: an object that isn't what the compiler makes is found, and the
// compiler's is used.
func TestAudit(t *testing.T) {
	b := newBench(t, "clang++")
	b.write(m("a.cc", uses, "h.h", lib))
	b.compile()
	b.opt.Audit = 1
	if did := b.compile(); did != "audited" {
		t.Fatalf("%q", did)
	}
	u, c := b.unit()
	r := c.records(u)
	r[0].Sum++
	c.remember(u, r)
	if did := b.compile(); did != "audited: DIFFERENT" || !strings.Contains(b.out.String(), "compiled to another object") {
		t.Errorf("%q\n%s", did, &b.out)
	}
	b.opt.Audit = 0
	if did := b.compile(); did != "compiled: new" {
		t.Errorf("%q", did)
	}
}

// unit is what the launcher knows of the only unit.
func (b *bench) unit() (*unit, *cache) {
	b.t.Helper()
	files, err := filepath.Glob(filepath.Join(b.opt.Dir, "units", "*"))
	if err != nil || len(files) != 1 {
		b.t.Fatalf("%q, %v", files, err)
	}
	return &unit{key: filepath.Base(files[0])}, &cache{dir: b.opt.Dir}
}

// TestConcurrent: many at once, on the same directory.
func TestConcurrent(t *testing.T) {
	b := newBench(t, "clang++")
	files := m("h.h", lib)
	for i := range 6 {
		files[fmt.Sprintf("s%d.cc", i)] = uses + fmt.Sprintf("int s = %d;\n", i)
	}
	b.write(files)
	want := map[string][]byte{}
	for round := range 3 {
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				name := fmt.Sprintf("s%d", i)
				cmd := exec.Command(os.Args[0], "-launcher", b.opt.Dir, "clang++", "-MD", "-MF", name+".d", "-c", name+".cc", "-o", name+".o")
				cmd.Dir = b.dir
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
		wg.Wait()
		for i := range 6 {
			o, err := os.ReadFile(filepath.Join(b.dir, fmt.Sprintf("s%d.o", i)))
			name := fmt.Sprint(i)
			if err != nil || round > 0 && !bytes.Equal(o, want[name]) {
				t.Errorf("round %d: s%d.o: %v", round, i, err)
			}
			want[name] = o
		}
	}
	counts, err := Counts(b.opt.Dir)
	if err != nil || counts[bytesSame] != 12 || counts["compiled: new"] != 6 {
		t.Errorf("%v %v", counts, err)
	}
}

// TestCompilerChanges: links that lead to a compiler, and what it finds on its own.
// A script may do anything, as a file of flags may.
// A compiler is asked what it is once.
func TestIdentityIsKept(t *testing.T) {
	for _, compiler := range []string{"g++", "clang++"} {
		b := newBench(t, compiler)
		b.write(m("a.cc", uses, "h.h", lib))
		b.compile()
		known := func() (files []string) {
			l, err := filepath.Glob(filepath.Join(b.opt.Dir, "compilers", "*"))
			if err != nil || len(l) == 0 {
				t.Fatalf("%s: %v, %v", compiler, l, err)
			}
			for _, f := range l {
				s, err := os.Stat(f)
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, f+" "+s.ModTime().String())
			}
			return files
		}
		before := known()
		b.compile()
		if after := known(); !slices.Equal(before, after) {
			t.Errorf("%s: asked again: %v, then %v", compiler, before, after)
		}
	}
}

func TestCompilerChanges(t *testing.T) {
	find := func(t *testing.T, name string) string {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Run("link", func(t *testing.T) {
		b := newBench(t, "g++")
		b.write(m("a.cc", uses, "h.h", lib))
		b.opt.Args[0] = filepath.Join(t.TempDir(), "c++")
		for i, compiler := range []string{"g++", "clang++"} {
			os.Remove(b.opt.Args[0])
			if err := os.Symlink(find(t, compiler), b.opt.Args[0]); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"compiled: new", bytesSame} {
				if did := b.compile(); did != want {
					t.Errorf("%d: %q, want %q\n%s", i, did, want, &b.out)
				}
			}
		}
	})
	for _, compiler := range []string{"g++", "clang++"} {
		t.Run("script, "+compiler, func(t *testing.T) {
			b := newBench(t, compiler)
			b.write(m("a.cc", uses, "h.h", lib))
			b.opt.Args[0] = filepath.Join(t.TempDir(), "cxx++")
			if err := os.WriteFile(b.opt.Args[0], []byte("#!/bin/sh\nexec "+compiler+" \"$@\"\n"), 0o777); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if did := b.compile(); did != "passed on: the compiler isn't understood" {
					t.Errorf("%q\n%s", did, &b.out)
				}
			}
		})
	}
	for compiler, flags := range map[string][]string{"gcc": nil, "clang": {"-no-canonical-prefixes"}} {
		// Told its name, a compiler takes itself for the program that runs it.
		t.Run("program, "+compiler, func(t *testing.T) {
			b := newBench(t, compiler)
			b.write(m("a.c", "int x = X;\n", "w/w.c", `#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int c, char **v) {
	char **w = calloc(c + 3, sizeof *w);
	w[0] = v[0], w[1] = "-B" B;
	memcpy(w + 2, v + 1, (c - 1) * sizeof *w);
	w[c + 1] = getenv("WFLAGS");
	execv(REAL, w);
}
`))
			cc1, err := exec.Command("gcc", "-print-prog-name=cc1").Output()
			if err != nil {
				t.Fatal(err)
			}
			b.opt.Args[0] = filepath.Join(t.TempDir(), compiler)
			if out, err := exec.Command("gcc", filepath.Join(b.dir, "w/w.c"), "-o", b.opt.Args[0], "-DB=\""+filepath.Dir(string(cc1))+"\"", "-DREAL=\""+find(t, compiler)+"\"").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, b.env = range [][]string{{"WFLAGS=-DX=0"}, {"WFLAGS=-DX=5"}} {
				if did := b.compile(flags...); did != "passed on: the compiler isn't understood" {
					t.Errorf("%s: %q\n%s", b.env, did, &b.out)
				}
			}
		})
	}
	t.Run("parts of gcc", func(t *testing.T) {
		gcc, err := filepath.EvalSymlinks(find(t, "gcc")) // by /bin it would be installed elsewhere
		if err != nil {
			t.Fatal(err)
		}
		ask := func(what string) string {
			out, err := exec.Command(gcc, what).Output()
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(string(out))
		}
		program, err := os.ReadFile(gcc)
		if err != nil {
			t.Fatal(err)
		}
		libgcc, machine := filepath.Dir(ask("-print-libgcc-file-name")), ask("-dumpmachine")
		cc1, specs := ask("-print-prog-name=cc1"), strings.Replace(ask("-dumpspecs"), "*cc1:\n", "*cc1:\n-DX=5 ", 1)+"\n"
		under := func(dir, path string) string { // as of where gcc is installed
			rel, err := filepath.Rel(filepath.Join(filepath.Dir(gcc), ".."), path)
			if err != nil {
				t.Fatal(err)
			}
			return filepath.Join(dir, rel)
		}
		for _, test := range []struct {
			name string
			make func(dir string) (file, text string)
		}{
			{"specs", func(dir string) (string, string) {
				return filepath.Join(under(dir, libgcc), "specs"), specs
			}},
			{"specs of the machine", func(dir string) (string, string) {
				return filepath.Join(dir, machine, "lib/specs"), specs
			}},
			{"as", func(dir string) (string, string) {
				return filepath.Join(dir, machine, "bin/as"), "#!/bin/sh\nexec as \"$@\"\n"
			}},
			{"cc1", func(dir string) (string, string) {
				return under(dir, cc1), "#!/bin/sh\nexec " + cc1 + " \"$@\" -DX=$X\n"
			}},
		} {
			t.Run(test.name, func(t *testing.T) {
				b := newBench(t, "gcc")
				b.write(m("a.c", "#ifndef X\n#define X 0\n#endif\nint x = X;\n"))
				b.env = []string{"X=5"}
				dir := t.TempDir()
				b.opt.Args[0] = filepath.Join(dir, "bin/gcc")
				own := under(dir, cc1)
				for _, err := range []error{os.MkdirAll(filepath.Dir(own), 0o777), os.MkdirAll(under(dir, libgcc), 0o777), os.MkdirAll(filepath.Join(dir, machine, "lib"), 0o777), os.Mkdir(filepath.Join(dir, machine, "bin"), 0o777),
					os.Mkdir(filepath.Join(dir, "bin"), 0o777), os.Symlink(cc1, own), os.WriteFile(b.opt.Args[0], program, 0o777)} {
					if err != nil {
						t.Fatal(err)
					}
				}
				if did := b.compile(); did != "compiled: new" {
					t.Fatalf("%q\n%s", did, &b.out)
				}
				file, text := test.make(dir)
				os.Remove(file)
				if err := os.WriteFile(file, []byte(text), 0o777); err != nil {
					t.Fatal(err)
				}
				if did := b.compile(); did != "passed on: the compiler isn't understood" {
					t.Errorf("%q\n%s", did, &b.out)
				}
			})
		}
	})
	t.Run("configuration file", func(t *testing.T) {
		b := newBench(t, "clang++")
		real, err := filepath.EvalSymlinks(find(t, "clang++"))
		if err != nil {
			t.Fatal(err)
		}
		program, err := os.ReadFile(real)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		b.opt.Args[0] = filepath.Join(dir, "clang++")
		if err := os.WriteFile(b.opt.Args[0], program, 0o777); err != nil {
			t.Fatal(err)
		}
		b.write(m("a.cc", uses, "h.h", lib))
		if did := b.compile(); did != "compiled: new" {
			t.Skipf("a compiler that doesn't run elsewhere: %q\n%s", did, &b.out)
		}
		if err := os.WriteFile(filepath.Join(dir, "clang++.cfg"), []byte("-O2\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		if did := b.compile(); did != "passed on: the compiler isn't understood" {
			t.Errorf("%q\n%s", did, &b.out)
		}
	})
	t.Run("newer headers of gcc", func(t *testing.T) {
		b := newBench(t, "clang++")
		add := func(version string) {
			gcc := "gcc/lib/gcc/x86_64-linux-gnu/" + version
			b.write(m(gcc+"/crtbegin.o", "x", gcc+"/crtbeginS.o", "x", "gcc/include/c++/"+version+"/h.h", "inline int f(int x) { return x + "+version+"; }\n"))
		}
		b.write(m("a.cc", "#include <h.h>\nint use() { return f(2); }\n"))
		add("9")
		flags := []string{"--target=x86_64-linux-gnu", "--gcc-toolchain=gcc"}
		b.compile(flags...)
		if did := b.compile(flags...); did != bytesSame {
			t.Errorf("%q\n%s", did, &b.out)
		}
		add("10")
		if did := b.compile(flags...); did != "compiled: new" {
			t.Errorf("%q\n%s", did, &b.out)
		}
	})
}

// TestMeanwhile: files are changed while the compiler runs, and some are what they
// were when it ends. Its object isn't that of the files that are there then.
// TestPlaces: files are looked for where compilers look, whatever leads there.
func TestPlaces(t *testing.T) {
	const long = "a_directory_of_headers_with_a_name_that_is_longer_than_the_real_path_of_what_it_has/and_one_more_directory_in_it"
	for _, test := range []struct{ name, compilers, flags, setup, change, want string }{
		{"link beside a header of the system", "gcc", "-fcanonical-system-headers -isystem " + long,
			"mkdir -p " + long + "/s v1 v2; echo '#include \"b.h\"' > " + long + "/s/a.h; echo 'int b = 1;' > v1/b.h; echo 'int b = 2;' > v2/b.h; ln -s ../../../v1/b.h " + long + "/s/b.h; echo '#include <s/a.h>' > a.c",
			"ln -sfn ../../../v2/b.h " + long + "/s/b.h", changed},
		{"directory behind a link", "gcc clang", "-Itwo",
			"mkdir -p other/sub two; ln -s other/sub l; echo '#include \"x.h\"' > other/g.h; echo 'int x = 1;' > two/x.h; echo '#include \"l/../g.h\"' > a.c",
			"echo 'int x = 2;' > other/x.h", changed},
		{"directory that becomes a file", "gcc", "-Ione/sub", "mkdir one; echo 'int x;' > a.c", "rmdir one; echo > one", "compiled: it fails or warns"},
		{"file in place of a directory", "gcc", "-isystem one", "mkdir one; echo 'int x;' > a.c", "rmdir one; echo > one", "passed on: a map of headers"},
		{"directory in a sysroot", "clang", "--target=x86_64-linux-gnu --sysroot=$PWD/sr", "mkdir -p sr/usr/include; echo 'int x = 1;' > sr/usr/include/x.h; echo '#include <x.h>' > a.c",
			"mkdir sr/usr/include/x86_64-linux-gnu; echo 'int x = 2;' > sr/usr/include/x86_64-linux-gnu/x.h", "compiled: new"},
	} {
		for compiler := range strings.FieldsSeq(test.compilers) {
			t.Run(test.name+" "+compiler, func(t *testing.T) {
				b := newBench(t, compiler)
				flags := strings.Fields(strings.ReplaceAll(test.flags, "$PWD", b.dir))
				b.behind(test.setup, "compiled: new", flags...)
				b.behind(test.change, test.want, flags...)
			})
		}
	}
}

// TestSignal: who ends the launcher ends the compiler.
func TestSignal(t *testing.T) {
	b := newBench(t, "gcc")
	b.program = filepath.Join(t.TempDir(), "gcc")
	if err := os.WriteFile(b.program, []byte("#!/bin/sh\ntrap 'echo ended > ended; exit 3' TERM\ntouch started\nwhile :; do sleep 0.1; done\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	b.write(m("a.c", "int x;\n"))
	cmd := exec.Command(os.Args[0], "-launcher", b.opt.Dir, "gcc", "-MD", "-MF", "a.d", "-c", "a.c", "-o", "a.o")
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), "LAUNCHER_PROGRAM="+b.program)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for started := filepath.Join(b.dir, "started"); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(started); err == nil {
			break
		}
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	if _, err := os.Stat(filepath.Join(b.dir, "ended")); err != nil || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("%v, %v", err, cmd.ProcessState)
	}
}

func TestMeanwhile(t *testing.T) {
	for _, compiler := range []string{"g++", "clang++"} {
		for _, test := range []struct{ name, before, after string }{
			{"source", "sed -i s/use/used/ a.cc", "sed -i s/used/use/ a.cc"},
			{"header", "sed -i s/2/3/ x/h.h", "sed -i s/3/2/ x/h.h"},
			{"header moved away", "mv x/h.h h", "mv h x/h.h"},
			{"header removed", "cp x/h.h h; rm x/h.h", "cp h x/h.h; rm h"},
			{"directory moved away", "mv x z", "mv z x"},
			{"header added", "mkdir w; cp y/h.h w", "rm -r w"},
			{"only afterwards", "", "sed -i s/2/3/ x/h.h"},
			{"link", "ln -sfn y l", "ln -sfn x l"},
			{"another file's name", "", "ln -f y/h.h x/h.h"},
			{"another file's name, added", "", "mkdir w; ln y/h.h w/h.h"},
			{"asked for, and gone afterwards", "", "rm o.h"},
			{"asked for, and there afterwards", "mv o.h w.h", "mv w.h o.h"},
			{"link, only afterwards", "", "ln -sfn y l"},
		} {
			t.Run(compiler+", "+test.name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, compiler)
				b.program = filepath.Join(t.TempDir(), "cxx++")
				// Once only.
				script := `#!/bin/sh
mv now then 2>/dev/null && {
	` + test.before + `
	` + compiler + ` "$@"
	code=$?
	` + test.after + `
	exit $code
}
exec ` + compiler + ` "$@"
`
				if err := os.WriteFile(b.program, []byte(script), 0o777); err != nil {
					t.Fatal(err)
				}
				b.write(m("a.cc", "#include <h.h>\nint use(int x) { return f(x); }\n#if __has_include(\"o.h\")\nint o;\n#endif\n", "o.h", "\n",
					"x/h.h", "inline int f(int x) { return x + 2; }\n", "y/h.h", "inline int f(int x) { return x * 7; }\n", "now", "x"))
				if err := os.Symlink("x", filepath.Join(b.dir, "l")); err != nil {
					t.Fatal(err)
				}
				flags := []string{"-Iw", "-Il", "-Ix", "-Iy"}
				code, did := b.run(append(flags, "-MD", "-MF", "a.d", "-c", "a.cc", "-o", "a.o")...)
				if _, err := os.Stat(filepath.Join(b.dir, "then")); code != 0 || err != nil {
					t.Fatalf("%d, %q, %v\n%s", code, did, err, &b.out)
				}
				time.Sleep(250 * time.Millisecond)
				b.compile(flags...)
				if did := b.compile(flags...); did != bytesSame {
					t.Errorf("%q", did)
				}
			})
		}
	}
}

func TestDependencies(t *testing.T) {
	got, err := dependencies([]byte("a.o: a.cc b.h \\\n  c.h b.h\n\nb.h:\n"))
	if err != nil || !slices.Equal(got, []string{"a.cc", "b.h", "c.h"}) {
		t.Errorf("%q %v", got, err)
	}
	for _, bad := range []string{"", "a.o:", "a.o: a\\ b.h\n", "a.o: $$x\n"} {
		if got, err := dependencies([]byte(bad)); err == nil {
			t.Errorf("%q: %q", bad, got)
		}
	}
}

// FuzzRecords: whatever is in a file of records, a unit whose files aren't those of
// a record isn't taken for it.
func FuzzRecords(f *testing.F) {
	dir := f.TempDir()
	source := filepath.Join(dir, "a.cc")
	if err := os.WriteFile(source, []byte(uses), 0o666); err != nil {
		f.Fatal(err)
	}
	raw := scanText([]byte(uses), true).Raw
	f.Add([]byte("[null]"))
	f.Add([]byte("[{}]"))
	for _, r := range []record{
		{Files: dependencyList{{Path: source, Raw: 1, Lines: 2, Tokens: 3, Heads: heads{7}}}, Asked: &asked{Files: []string{"x"}}, Depend: []byte("a")},
		{Files: dependencyList{{Path: "/nothing"}}, Maps: dependencyList{{Path: "/nothing"}}, Exists: 5},
	} {
		text, err := json.Marshal([]record{r})
		var again []record
		if err != nil || json.Unmarshal(text, &again) != nil || !reflect.DeepEqual(again, []record{r}) {
			f.Fatalf("%s %+v %v", text, again, err)
		}
		f.Add(text)
	}
	f.Add([]byte(`[{"Files":{"Paths":["` + source + `"],"Hashes":"YQ=="}}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		u, why := parse([]string{"/nothing/cc", "-MD", "-MF", "a.d", "-c", source, "-o", "a.o"})
		if why != "" {
			t.Fatal(why)
		}
		u.key = "key"
		c := &cache{dir: t.TempDir(), scans: map[string]*scan{}, dirs: map[string]map[string]bool{}}
		if why := c.open(); why != "" {
			t.Fatal(why)
		}
		if !c.write(c.recordFile(u), append([]byte(checksum(text)+"\n"), text...)) {
			t.Fatal("not written")
		}
		for _, r := range c.records(u) {
			for _, bytes := range []bool{true, false} {
				if how := c.matches(t.Context(), u, r, bytes); how != "" && !slices.ContainsFunc(r.Files, func(d dependency) bool { return d.Raw == raw }) {
					t.Errorf("%q: %s", how, text)
				}
			}
		}
	})
}

// TestAsked: what asks for lines isn't taken over from a compilation that had other
// text of the same files.
func TestAsked(t *testing.T) {
	const header = "#if __has_include(\"x.h\")\ninline int f() { return __LINE__; }\n#else\ninline int f() { return 0; }\n#endif\nint q = f();\n"
	for _, compiler := range []string{"g++", "clang++"} {
		b := newBench(t, compiler)
		for i, files := range []map[string]string{
			m("a.cc", "#include \"h.h\"\n#include \"g.h\"\n", "h.h", header, "g.h", "int g;\n"),
			m("g.h", "//\nint g;\n"), // the preprocessor has run
			m("x.h", "//\n"),
			m("h.h", "//\n"+header),
		} {
			b.write(files)
			if did := b.compile(); did != []string{"compiled: new", shifted, changed, changed}[i] {
				t.Errorf("%s, %d: %q", compiler, i, did)
			}
		}
	}
}

// FuzzScan: what the scanner takes for a comment is none where it says what a text
// without comments is: a text and the same with a comment between two tokens have
// the same tokens, or it isn't certain.
func FuzzScan(f *testing.F) {
	for _, e := range edits {
		for _, files := range []map[string]string{e.before, e.after} {
			for _, c := range files {
				f.Add([]byte(c), true)
				f.Add([]byte(c), false)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, cxx bool) {
		x := scanText(b, cxx)
		if y := scanText(b, cxx); x.Tokens != y.Tokens || x.Lines != y.Lines {
			t.Error("not deterministic")
		}
		asking(b)
		if x.Tokens == x.Raw || bytes.Contains(bytes.ToLower(b), []byte("fall")) || bytes.Count(b, []byte("/*")) > 1 || odd(append([]byte("    "), bytes.ReplaceAll(b, []byte("/*"), nil)...)) {
			return // comments that count
		}
		// Lines count as soon as there is a token that isn't a comment.
		b = append(b, "\n\n;\n"...)
		y := scanText(append([]byte("/* c */\n"), b...), cxx)
		if z := scanText(append([]byte("/* d \n*/ \n"), b...), cxx); y.Tokens != z.Tokens || y.Lines == z.Lines && y.Tokens != scanText(nil, cxx).Tokens {
			t.Errorf("a comment counts, or its lines don't: %q", b)
		}
	})
}

// Compilers that compute the text of assembly are newer than those that tests have.
func TestComputedAssembly(t *testing.T) {
	for text, want := range map[string]string{
		"asm((text()));": "computed assembly", "__asm__ volatile ((text()) : :);": "computed assembly", "int g((*asm_f)(1)); int h = asm_f((1));": "",
		"#define A asm\nA((text()));": "computed assembly", "#define A __asm__ volatile\n": "computed assembly", "asm X (\"\");": "computed assembly",
		"asm volatile goto(\"\" : : : : a); int x asm(NAME(\"y\"));": "", "#ifdef asm\n#undef asm\n#endif\n": "",
		`asm(".inc\N{LATIN SMALL LETTER B}in");`: "escape by a name",
	} {
		if x := scanText([]byte(text), true); x.Bypass != want {
			t.Errorf("%s: %q, want %q", text, x.Bypass, want)
		}
	}
}

// TestMessages: what changes the form of messages has them made anew.
func TestMessages(t *testing.T) {
	for _, compiler := range []string{"g++", "clang++"} {
		b := newBench(t, compiler)
		b.write(m("a.cc", uses+"static int q;\n", "h.h", lib))
		for i, want := range []string{"compiled: new", bytesSame, "compiled: it fails or warns", bytesSame} {
			b.env = map[int][]string{2: {"LC_ALL=C.UTF-8"}}[i]
			if did := b.compile("-Wall"); did != want {
				t.Errorf("%s, call %d: %q, want %q", compiler, i, did, want)
			}
		}
		// More of them than are kept.
		many := uses
		for i := range 2000 {
			many += fmt.Sprintf("static int q%d;\n", i)
		}
		b.write(m("a.cc", many))
		for range 2 {
			if did := b.compile("-Wall"); did != "compiled: it fails or warns" {
				t.Errorf("%s, many: %q", compiler, did)
			}
		}
	}
}
