package syslib

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// resolved returns the real paths of the files that are hashed for binary.
func resolved(t *testing.T, binary string) ([]string, error) {
	t.Helper()
	r := newResolver(new(Cache))
	if err := r.resolve(binary, nil); err != nil {
		return nil, err
	}
	var l []string
	for _, f := range r.hash {
		p, err := filepath.EvalSymlinks(f.path)
		if err != nil {
			t.Fatal(err)
		}
		l = append(l, p)
	}
	slices.Sort(l)
	return slices.Compact(l), nil
}

var traced = regexp.MustCompile(`(?m)(/\S+) \(0x`)

// loaded returns the real paths that the loader itself says it would load.
func loaded(t *testing.T, binary string) []string {
	t.Helper()
	c := exec.Command(binary)
	c.Env = []string{"LD_TRACE_LOADED_OBJECTS=1"}
	out, err := c.Output()
	if err != nil {
		t.Skipf("%s: %v", binary, err)
	}
	var l []string
	for _, m := range traced.FindAllStringSubmatch(string(out), -1) {
		p, err := filepath.EvalSymlinks(m[1])
		if err != nil {
			t.Fatal(err)
		}
		l = append(l, p)
	}
	slices.Sort(l)
	return slices.Compact(l)
}

// The loader is the judge: everything that it loads has to be among what is
// hashed. On an ordinary system the two are the same.
func TestResolveAsTheLoader(t *testing.T) {
	n := 0
	for _, name := range []string{"sh", "bash", "git", "python3", "gcc", "ld", "perl", "tar", "ssh", "curl"} {
		p, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		b, err := os.ReadFile(p)
		if err != nil || !strings.HasPrefix(string(b), "\x7fELF") || !strings.Contains(string(b[:4096]), "/ld-linux") {
			continue
		}
		n++
		want := loaded(t, p)
		got, err := resolved(t, p)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, l := range want {
			if !slices.Contains(got, l) {
				t.Errorf("%s: %s is loaded but not hashed; hashed are %v", name, l, got)
			}
		}
		if len(got) > 2*len(want) {
			t.Errorf("%s: %d files are hashed, %d are loaded", name, len(got), len(want))
		}
	}
	if n == 0 {
		t.Skip("no dynamic ELF programs here")
	}
}

// compile builds shared libraries and programs from C; each argument list is
// one call of the compiler.
func compile(t *testing.T, dir string, calls ...string) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	for _, args := range calls {
		c := exec.Command(cc, strings.Fields(args)...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}
}

func TestResolveSearchPaths(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// bazel-out holds what Bazel has built, prebuilt what it has not; both have
	// their own a and b, and a needs b.
	for _, f := range []string{"execroot/bazel-out/bin", "execroot/bazel-out/lib", "prebuilt", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, f), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(filepath.Join(dir, "b.c"), []byte("int b(void) { return 1; }\n"), 0o666)
	os.WriteFile(filepath.Join(dir, "a.c"), []byte("int b(void); int a(void) { return b(); }\n"), 0o666)
	os.WriteFile(filepath.Join(dir, "main.c"), []byte("int a(void); int main(void) { return a(); }\n"), 0o666)
	const out = "execroot/bazel-out/"
	compile(t, dir,
		"-shared -fPIC -o "+out+"lib/libb.so b.c",
		"-shared -fPIC -o prebuilt/libb.so b.c",
		"-shared -fPIC -o other/libb.so b.c",
		"-shared -fPIC -o "+out+"lib/liba.so a.c -L"+out+"lib -lb -Wl,-rpath,$ORIGIN -Wl,--enable-new-dtags",
		"-shared -fPIC -o prebuilt/liba.so a.c -Lprebuilt -lb -Wl,-rpath,$ORIGIN -Wl,--enable-new-dtags",
		"-shared -fPIC -o other/liba.so a.c -Lother -lb",
		"-o "+out+"bin/built main.c -L"+out+"lib -la -Wl,-rpath,$ORIGIN/../lib -Wl,--enable-new-dtags -Wl,--allow-shlib-undefined",
		"-o "+out+"bin/prebuilt main.c -Lprebuilt -la -Wl,-rpath,"+dir+"/prebuilt -Wl,--enable-new-dtags -Wl,--allow-shlib-undefined",
		"-o "+out+"bin/rpath main.c -Lother -la -Wl,-rpath,"+dir+"/other -Wl,--disable-new-dtags -Wl,--allow-shlib-undefined",
		"-o "+out+"bin/runpath main.c -Lother -la -Wl,-rpath,"+dir+"/other -Wl,--enable-new-dtags -Wl,--allow-shlib-undefined",
		"-o "+out+"bin/lib main.c -Lother -la -Wl,-rpath,/usr/$LIB -Wl,--allow-shlib-undefined",
		"-o "+out+"bin/nowhere main.c -Lother -la -Wl,--allow-shlib-undefined",
	)
	prog := func(n string) string { return filepath.Join(dir, out, "bin", n) }
	// A link, as in the runfiles.
	link := filepath.Join(dir, "link")
	os.Symlink(prog("built"), link)
	lib := func(p string) string { return filepath.Join(dir, p) }
	for _, c := range []struct {
		name, binary string
		want         []string // below dir
		err          string
	}{
		{"built by Bazel", prog("built"), nil, ""},
		{"through a link", link, nil, ""},
		{"prebuilt", prog("prebuilt"), []string{lib("prebuilt/liba.so"), lib("prebuilt/libb.so")}, ""},
		{"RPATH is inherited", prog("rpath"), []string{lib("other/liba.so"), lib("other/libb.so")}, ""},
		{"RUNPATH isn't, but counts", prog("runpath"), []string{lib("other/liba.so"), lib("other/libb.so")}, ""},
		{"$LIB", prog("lib"), nil, "a variable other than $ORIGIN"},
		{"nowhere", prog("nowhere"), nil, "shared library liba.so, needed by nowhere, was not found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := resolved(t, c.binary)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var below []string
			for _, l := range got {
				if strings.HasPrefix(l, dir) {
					below = append(below, l)
				}
			}
			if !slices.Equal(below, c.want) {
				t.Errorf("hashed %v, want %v", below, c.want)
			}
			for _, l := range loaded(t, c.binary) {
				if !slices.Contains(got, l) && !strings.HasPrefix(l, lib(out)) {
					t.Errorf("%s is loaded but not hashed", l)
				}
			}
		})
	}

	t.Run("content", func(t *testing.T) {
		sum := func() string {
			libs, err := Program{Binary: prog("prebuilt"), Probed: true}.Libraries()
			if err != nil {
				t.Fatal(err)
			}
			var s strings.Builder
			for _, l := range libs {
				s.WriteString(l.Name)
				s.Write(l.SHA256[:])
			}
			return s.String()
		}
		before := sum()
		if again := sum(); again != before {
			t.Error("not deterministic")
		}
		os.WriteFile(filepath.Join(dir, "b.c"), []byte("int b(void) { return 2; }\n"), 0o666)
		compile(t, dir, "-shared -fPIC -o prebuilt/libb.so b.c")
		if sum() == before {
			t.Error("a changed library isn't noticed")
		}
	})

	// A subdirectory for a CPU level comes first, if the CPU has that level;
	// which one it has must not matter.
	t.Run("hwcaps", func(t *testing.T) {
		d := lib("other/glibc-hwcaps/x86-64-v2")
		os.MkdirAll(d, 0o777)
		compile(t, dir, "-shared -fPIC -o "+d+"/libb.so b.c")
		got, err := resolved(t, prog("rpath"))
		if err != nil || !slices.Contains(got, filepath.Join(d, "libb.so")) || !slices.Contains(got, lib("other/libb.so")) {
			t.Errorf("%v %v", got, err)
		}
	})

	t.Run("static", func(t *testing.T) {
		os.WriteFile(filepath.Join(dir, "static.c"), []byte("int main(void) { return 0; }\n"), 0o666)
		compile(t, dir, "-static -o static static.c")
		got, err := resolved(t, lib("static"))
		if err != nil || !slices.Equal(got, []string{lib("static")}) {
			t.Errorf("%v %v", got, err)
		}
	})

	// What was linked into the program isn't known without a probe.
	t.Run("no probe", func(t *testing.T) {
		for _, probed := range []bool{false, true} {
			for _, binary := range []string{prog("built"), lib("static")} {
				libs, err := Program{Binary: binary, Probed: probed}.Libraries()
				if err != nil {
					t.Fatal(err)
				}
				if got := slices.ContainsFunc(libs, func(l Library) bool { return l.Name == Static }); got == probed {
					t.Errorf("%s, probed %v: it counts itself: %v", filepath.Base(binary), probed, got)
				}
			}
		}
	})

	t.Run("not ELF", func(t *testing.T) {
		if got, err := resolved(t, lib("b.c")); err == nil {
			t.Errorf("%v", got)
		}
	})
}
