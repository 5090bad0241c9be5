package evolve

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
)

// Archives are what ar makes.
func TestArchive(t *testing.T) {
	if _, err := exec.LookPath("ar"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	var names []string
	var objects [][]byte
	for name, text := range map[string]string{
		"a.cc.o":                     "int f() { return 1; } static int g = 3; int h() { return g; }",
		"a_name_that_is_long.cc.o":   "inline int i() { static int n; return n++; } int (*p)() = i; extern int u; int v = u;",
		"another_with_a_name.cc.o":   "__attribute__((weak)) int w = 4;",
		"nothing.cc.o":               "",
		"exactly15_cha.o":            "struct A { virtual void f(); }; void A::f() {}",
		"common_and_what_is_tls.c.o": "int c; _Thread_local int t;",
	} {
		source := filepath.Join(dir, name[:len(name)-2])
		write := os.WriteFile(source, []byte(text), 0o666)
		lang := "c++"
		if filepath.Ext(source) == ".c" {
			lang = "c"
		}
		out, err := exec.Command(clangtest.GCC(t), "-fcommon", "-w", "-x", lang, "-c", source, "-o", filepath.Join(dir, name)).CombinedOutput()
		if err != nil || write != nil {
			t.Fatal(write, err, string(out))
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for _, n := range names {
		b, err := os.ReadFile(filepath.Join(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, b)
	}
	for n := range len(names) + 1 {
		if err := run(t.Context(), dir, append([]string{"ar", "rcsD", filepath.Join(dir, string(rune('a'+n))+".a")}, names[:n]...)); err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(dir, string(rune('a'+n))+".a"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := archive(names[:n], objects[:n])
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("of %d: %v\n%q\nwant\n%q", n, err, got, want)
		}
	}
}

// What stands in for a driver makes the same, and is used.
func TestLines(t *testing.T) {
	b := newBuilder(t)
	for range 2 { // compared, then alone
		if _, err := Check(t.Context(), b, example("c.cc|40|41"), tools); err != nil {
			t.Fatal(err)
		}
		b.units.Clear()
		b.linked.Clear()
		b.ran.Clear()
		if err := os.RemoveAll(filepath.Join(b.Dir, "linked")); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	b.lines.Range(func(_, e any) bool {
		n++
		if l := e.(*line); l.argv == nil || l.state.Load() != same {
			t.Errorf("%d: %q", l.state.Load(), l.argv)
		}
		return true
	})
	if n < 5 { // C and C++; of a shared library; links
		t.Errorf("%d lines", n)
	}
	// What differs isn't used.
	l := &line{argv: []string{"x"}}
	file := filepath.Join(t.TempDir(), "f")
	put := func(s string) func() error { return func() error { return write(file, s) } }
	for range 2 {
		if err := l.do([]string{file}, put("driver"), put("line")); err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(file); string(b) != "driver" || l.state.Load() != different {
			t.Errorf("%s", b)
		}
	}
}

func TestWordsOfLine(t *testing.T) {
	got := words.Split(` "/usr/bin/a b" -c "-rpath" "\$ORIGIN" "" x\ y "-DA=\"b\""`)
	if want := []string{"/usr/bin/a b", "-c", "-rpath", "$ORIGIN", "", "x y", `-DA="b"`}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A compiler reads nothing that directives don't tell.
func TestReads(t *testing.T) {
	r := &Revision{Files: map[string]string{
		"a.cc":    "#include \"sub/x.h\"\n#ifdef NO\n# include <n.h>\n#endif\n",
		"sub/x.h": "#include \"y.h\"\n#include <sys.h>\n",
		"sub/y.h": "", "y.h": "", "n.h": "", "other.h": "",
		"has.cc": "#if __has_include(\"n.h\")\n#endif\n#if __has_include(<gone.h>)\n#endif\n",
		"b.cc":   "#define H \"n.h\"\n#include H\n", "c.cc": "#include \\\n \"n.h\"\n", "d.cc": "%:include \"n.h\"\n", "e.cc": "# /**/ include \"n.h\"\n",
		"f.cc": "#include /**/ \"n.h\"\n", "g.cc": "#include \"/etc/x\"\n", "h.cc": "asm(\".incbin \\\"n.h\\\"\");\n", "i.cc": "/**/ #include \"n.h\"\n",
	}}
	for source, want := range map[string][]string{
		"a.cc":   {"a.cc", "n.h", "sub/x.h", "sub/y.h", "y.h"},
		"has.cc": {"has.cc", "n.h"},
		"i.cc":   {"i.cc", "n.h"},
		"b.cc":   nil, "c.cc": nil, "d.cc": nil, "e.cc": nil, "f.cc": nil, "g.cc": nil, "h.cc": nil,
	} {
		if got := new(Builder).reads(r, source, []string{"-O0", "-w", "-DX=1", "-fPIC"}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
	for _, w := range []string{"-include", "-Iy", "@x", "-Wp,-include,y.h", "-fprofile-use=x", "x", "-Xclang"} {
		if got := new(Builder).reads(r, "i.cc", []string{w}); got != nil {
			t.Errorf("%s: %q", w, got)
		}
	}
}
