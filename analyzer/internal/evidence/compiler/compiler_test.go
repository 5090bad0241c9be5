package compiler

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
)

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
		if got := strings.Join(inv.Code, " "); got != c.code || inv.Source != c.source || inv.Lang != c.lang || inv.Doubt != c.doubt {
			t.Errorf("%s: code %q, source %q, language %q, doubt %q", c.args, got, inv.Source, inv.Lang, inv.Doubt)
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
	if inv.Source != "a b.c" || strings.Join(inv.Code, " ") != "-fno-plt" {
		t.Errorf("source %q, code %q", inv.Source, inv.Code)
	}
}

// What changes compilers from outside makes a unit not plain.
func TestEnvironment(t *testing.T) {
	for _, v := range environment {
		t.Setenv(v, "x")
		if inv, err := ParseArgs([]string{"gcc", "a.c"}); err != nil || inv.Doubt != "environment variable "+v {
			t.Errorf("%s: doubt %q, %v", v, inv.Doubt, err)
		}
		os.Unsetenv(v)
	}
}

// identified is a compiler that is told flags of which the command line has nothing, as those
// of a configuration file.
func identified(t *testing.T, path string, flags ...string) *Compiler {
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
	c, err := Identify(path, said.String())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFlagsCount: a configuration file may add flags.
func TestFlagsCount(t *testing.T) {
	for _, cc := range []string{clangtest.Clang(t), clangtest.GCC(t)} {
		plain := identified(t, cc).Flags
		if d := cmp.Diff(plain, identified(t, cc, "-Wall", "-g", "-I"+t.TempDir()).Flags); d != "" {
			t.Errorf("%s: flags that can't influence code count (-without +with):\n%s", cc, d)
		}
		for _, f := range []string{"-fno-strict-aliasing", "-march=haswell", "-std=c11"} {
			if c := identified(t, cc, f); slices.Equal(plain, c.Flags) {
				t.Errorf("%s: %s is lost: %q", cc, f, c.Flags)
			}
		}
	}
}

// What it adds is judged as well.
func TestFlagsAreJudged(t *testing.T) {
	for _, cc := range []string{clangtest.Clang(t), clangtest.GCC(t)} {
		for _, flag := range []string{"-fsanitize=address", "-finstrument-functions", "-ftrapv", "-pg", "-O2"} {
			if doubt := identified(t, cc, flag).Doubt(); !strings.Contains(doubt, "of the compiler proper") {
				t.Errorf("%s %s: doubt %q", filepath.Base(cc), flag, doubt)
			}
		}
	}
}

// TestWrappers: what runs a compiler may do with -c what it doesn't with -E. Only Bazel's
// script is known not to.
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
		{"none", filepath.Join(dir, "none"), false},
	} {
		if got := IsCompiler(c.file); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	t.Setenv("BASH_ENV", source)
	if IsCompiler(filepath.Join(dir, "bazel")) {
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
