package syslib

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkflags"
)

// linker returns a driver for tests.
func linker(t *testing.T, name, dir string) Linker {
	t.Helper()
	cc, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s here", name)
	}
	return Linker{Path: cc, Dir: dir}
}

func probe(t *testing.T, x Linker, l *linkflags.Line) *Probe {
	t.Helper()
	p, err := x.Probe(context.Background(), t.TempDir(), l)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *Probe) names() []string {
	var l []string
	for _, x := range p.Links {
		for _, f := range x.Files {
			l = append(l, f.Name)
		}
	}
	return l
}

func (p *Probe) linkers() []string {
	var l []string
	for _, x := range p.Links {
		l = append(l, x.Linker...)
	}
	return l
}

// write writes p and returns the text.
func write(t *testing.T, p *Probe) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "probe.json")
	if err := p.Write(file, nil); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	q, err := ReadProbe(file)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(p.Links, q.Links) {
		t.Errorf("%+v is read, and was written as %+v", q.Links, p.Links)
	}
	return string(b)
}

// drivers are those whose links are probed, with their linkers.
var drivers = []string{"cc", "clang", "clang -fuse-ld=lld", "gcc -fuse-ld=lld", "clang++"}

func eachDriver(t *testing.T, f func(t *testing.T, x Linker, flags []string)) {
	for _, d := range drivers {
		t.Run(d, func(t *testing.T) {
			words := strings.Fields(d)
			x := linker(t, words[0], t.TempDir())
			if len(words) > 1 {
				if out, err := exec.Command(x.Path, words[1], "-Wl,--version").CombinedOutput(); err != nil {
					t.Skipf("%s: %v\n%s", d, err, out)
				}
			}
			f(t, x, words[1:])
		})
	}
}

// What the libraries define that are linked, shared or not, and no other does.
func TestProbeSymbols(t *testing.T) {
	eachDriver(t, func(t *testing.T, x Linker, flags []string) {
		for _, c := range []struct {
			flags   string
			yes, no string
		}{
			{"", "malloc __dso_handle _start", "nobody_defines_this _ZNSt13runtime_errorC1EPKc"},
			{"-static -lm", "malloc cbrtl", "nobody_defines_this _ZNSt13runtime_errorC1EPKc"},
			{"-lstdc++", "_ZNSt13runtime_errorC1EPKc _ZTIi", "_ZNKSt4hashI5ThingEclERKS0_"},
		} {
			if filepath.Base(x.Path) == "clang++" {
				c.no = "nobody_defines_this"
			}
			l := linkflags.Parse(append(slices.Clone(flags), strings.Fields(c.flags)...), linkflags.Options{})
			p := probe(t, x, l)
			write(t, p)
			taken := p.Of(l)
			for _, s := range strings.Fields(c.yes) {
				if !taken.Provides(s) {
					t.Errorf("%q: nothing defines %s: %q", c.flags, s, taken.Files)
				}
			}
			for _, s := range strings.Fields(c.no) {
				if taken.Provides(s) {
					t.Errorf("%q: something defines %s", c.flags, s)
				}
			}
		}
	})
}

// What a line leaves to the driver.
func TestProbeDefaults(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ driver, flags, name string }{{"gcc", "-fuse-ld=bfd", "bfd"}, {"gcc", "-fuse-ld=lld", "lld"}, {"clang", "-fuse-ld=lld", "lld"}} {
		x := linker(t, c.driver, dir)
		for flag, want := range map[string]linkflags.Choice{"--as-needed": linkflags.Yes, "--no-as-needed": linkflags.No} {
			// Distributions have such drivers.
			wrapper := filepath.Join(dir, c.driver+flag)
			if err := os.WriteFile(wrapper, []byte("#!/bin/sh\nexec "+x.Path+" -Wl,"+flag+" \"$@\"\n"), 0o777); err != nil {
				t.Fatal(err)
			}
			program := linkflags.Parse([]string{c.flags}, linkflags.Options{})
			library := linkflags.Parse([]string{c.flags, "-shared", "-Wl,--as-needed", "-lm"}, linkflags.Options{})
			p, err := Linker{Path: wrapper, Dir: dir}.Probe(context.Background(), t.TempDir(), program, library)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "probe.json")
			if err := p.Write(file, nil); err != nil {
				t.Fatal(err)
			}
			if p, err = ReadProbe(file); err != nil {
				t.Fatal(err)
			}
			if taken := p.Of(program, library); taken.Name != c.name || taken.AsNeeded != want {
				t.Errorf("%s: %q, as-needed %d, want %q, %d", wrapper, taken.Name, taken.AsNeeded, c.name, want)
			}
			p.Links[1].Name, p.Links[1].AsNeeded = "mold", linkflags.Yes+linkflags.No-want
			if taken := p.Of(program, library); taken.Name != "" || taken.AsNeeded != linkflags.Default {
				t.Errorf("links don't agree: %q, as-needed %d", taken.Name, taken.AsNeeded)
			}
		}
	}
}

// What the C++ library wants of a program that it is linked into.
func TestProbeWants(t *testing.T) {
	x := linker(t, "g++", t.TempDir())
	static, dynamic := linkflags.Parse([]string{"-static-libstdc++"}, linkflags.Options{}), linkflags.Parse(nil, linkflags.Options{})
	p, err := x.Probe(context.Background(), t.TempDir(), static, dynamic)
	if err != nil {
		t.Fatal(err)
	}
	write(t, p)
	if got := p.Of(dynamic).Wants; len(got) > 0 {
		t.Errorf("a shared library wants %q", got)
	}
	const ostream, typeName = "_ZNSo5flushEv", "_ZTSSt16_Sp_counted_baseILN9__gnu_cxx12_Lock_policyE2EE"
	if got := p.Of(static).Wants; !slices.Contains(got, ostream) || slices.Contains(got, typeName) || slices.Contains(got, "malloc") {
		t.Errorf("an archive wants %d names, %s among them: %v", len(got), ostream, slices.Contains(got, ostream))
	}
}

// What only a shared library is linked with, its program can't use.
func TestProbeSymbolsOfLibraries(t *testing.T) {
	x := linker(t, "cc", t.TempDir())
	program, library := linkflags.Parse(nil, linkflags.Options{}), linkflags.Parse([]string{"-shared", "-lstdc++"}, linkflags.Options{})
	p, err := x.Probe(context.Background(), t.TempDir(), program, library)
	if err != nil {
		t.Fatal(err)
	}
	const thrower = "_ZNSt13runtime_errorC1EPKc"
	alone, both := p.Of(program), p.Of(program, library)
	if !both.Provides("malloc") || both.Provides(thrower) || !p.Of(library).Provides(thrower) {
		t.Errorf("symbols of the library's line, or none: %q", both.Files)
	}
	if len(alone.Files) >= len(both.Files) || len(alone.Linker) >= len(both.Linker) {
		t.Errorf("alone %+v, both %+v", alone, both)
	}
}

// A static library of the system counts with its content, however it got onto
// the line.
func TestProbeSpellings(t *testing.T) {
	eachDriver(t, func(t *testing.T, x Linker, flags []string) {
		dir := x.Dir
		lib := func(value string) {
			os.WriteFile(filepath.Join(dir, "x.c"), []byte("int x(void) { return "+value+"; }\n"), 0o666)
			compile(t, dir, "-c -fPIC x.c")
			os.Remove(filepath.Join(dir, "libx.a"))
			if out, err := exec.Command("ar", "rcs", filepath.Join(dir, "libx.a"), filepath.Join(dir, "x.o")).CombinedOutput(); err != nil {
				t.Skipf("ar: %v\n%s", err, out)
			}
		}
		os.WriteFile(filepath.Join(dir, "y.c"), []byte("int y(void) { return 1; }\n"), 0o666)
		compile(t, dir, "-shared -fPIC -o liby.so.1 -Wl,-soname,liby.so.1 y.c")
		os.WriteFile(filepath.Join(dir, "liby.so"), []byte("INPUT(liby.so.1 libx.a)\n"), 0o666)
		os.WriteFile(filepath.Join(dir, "x.rsp"), []byte("-l x"), 0o666)
		lines := []string{
			"-lx", "-l x", "-l:libx.a", "-Wl,-lx", "-Wl,-l,x", "-Wl,--library=x", "-Wl,--library,x", "-Xlinker --library -Xlinker x", "libx.a", dir + "/libx.a",
			"-Wl,--whole-archive,libx.a,--no-whole-archive", "-Wl,--whole-archive -lx -Wl,--no-whole-archive", "-Wl,--start-group -lx -lm -Wl,--end-group",
			"-Wl,-( -lx -Wl,-)", "-Wl,-Bstatic,-lx,-Bdynamic", "-Wl,-dn -lx -Wl,-dy", "-Wl,--as-needed -lx", "-Wl,-as-needed,-lx", "-Wl,--push-state,--as-needed,-lx,--pop-state",
			"@x.rsp", "-Wl,@x.rsp", "-ly", "-l:liby.so", "-Wl,--as-needed -ly", "-static -lx", "-shared -lx", "-pie -lx",
		}
		var parsed []*linkflags.Line
		for _, line := range lines {
			parsed = append(parsed, linkflags.Parse(append(strings.Fields("-L. "+line), flags...), linkflags.Options{
				Open: func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, name)) },
			}))
		}
		sums := map[string][32]byte{}
		for _, value := range []string{"1", "2"} {
			lib(value)
			p, err := x.Probe(t.Context(), t.TempDir(), parsed...)
			if err != nil {
				t.Fatal(err)
			}
			write(t, p)
			for i, line := range lines {
				files := p.Of(parsed[i]).Files
				k := slices.IndexFunc(files, func(f Library) bool { return f.Name == "libx.a" })
				if k < 0 {
					t.Errorf("%s: libx.a isn't among %q", line, files)
				} else if sums[line] == files[k].SHA256 {
					t.Errorf("%s: another content makes no difference", line)
				} else {
					sums[line] = files[k].SHA256
				}
			}
		}
		// An object asks for it.
		words := words.Directives(words.DependentLibraries, []byte("x\x00"))
		l := linkflags.Parse(slices.Concat([]string{"-L."}, flags, words), linkflags.Options{})
		if p := probe(t, x, l); !slices.Contains(p.names(), "libx.a") {
			t.Errorf("#pragma comment(lib): libx.a isn't among %q", p.names())
		}
	})
}

// What the driver adds is known: start files, libgcc, what is behind libc.so.
func TestProbeToolchain(t *testing.T) {
	eachDriver(t, func(t *testing.T, x Linker, flags []string) {
		for _, c := range []struct {
			line string
			want []string // beginnings of names
			not  []string
		}{
			{"", []string{"Scrt1.o|crt1.o", "crti.o", "crtbegin", "crtend", "crtn.o", "libc.so"}, nil},
			{"-no-pie", []string{"crt1.o", "crti.o"}, []string{"Scrt1.o"}},
			{"-shared", []string{"crti.o", "crtbeginS.o"}, nil},
			{"-static", []string{"crt1.o", "libc.a"}, []string{"libc.so"}},
			{"-nostartfiles", []string{"libc.so"}, []string{"crti.o"}},
			{"-nostdlib", nil, []string{"crti.o", "libc.so"}},
			{"-lm", []string{"libm."}, nil},
			{"-Wl,--as-needed -lm", []string{"libm."}, nil},
			{"-pg", []string{"gcrt1.o"}, nil},
			{"-ffast-math", []string{"crtfastmath.o"}, nil},
		} {
			p := probe(t, x, linkflags.Parse(append(strings.Fields(c.line), flags...), linkflags.Options{}))
			has := func(prefixes string) bool {
				return slices.ContainsFunc(p.names(), func(n string) bool {
					return slices.ContainsFunc(strings.Split(prefixes, "|"), func(w string) bool { return strings.HasPrefix(n, w) })
				})
			}
			for _, w := range c.want {
				if !has(w) {
					t.Errorf("%s: no %s among %q", c.line, w, p.names())
				}
			}
			for _, w := range c.not {
				if has(w) {
					t.Errorf("%s: %s among %q", c.line, w, p.names())
				}
			}
			// The same in another directory, and without names of directories.
			text := write(t, p)
			if again := write(t, probe(t, x, linkflags.Parse(append(strings.Fields(c.line), flags...), linkflags.Options{}))); again != text {
				t.Errorf("%s: not deterministic:\n%s\n%s", c.line, text, again)
			}
			for _, f := range p.linkers()[1:] {
				if strings.Contains(f, "/") && !strings.HasPrefix(f, "-Wl,--dynamic-linker=") {
					t.Errorf("%s: a path: %s", c.line, f)
				}
			}
		}
	})
}

// A program and its libraries are linked with flags of their own.
func TestProbeLines(t *testing.T) {
	x := linker(t, "cc", t.TempDir())
	parse := func(line string) *linkflags.Line { return linkflags.Parse(strings.Fields(line), linkflags.Options{}) }
	p, err := x.Probe(context.Background(), t.TempDir(), parse("-no-pie -lm"), parse("-no-pie"), parse("-shared"), parse("-shared -Wl,-z,now"), parse("-shared -ldl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"crt1.o", "crtbeginS.o", "libm.so.6"} {
		if !slices.Contains(p.names(), want) {
			t.Errorf("no %s among %q", want, p.names())
		}
	}
	if !slices.ContainsFunc(p.names(), func(n string) bool { return strings.HasPrefix(n, "libdl.") }) {
		t.Errorf("no libdl among %q", p.names())
	}
	for line, want := range map[string]bool{
		"-no-pie -lm": true, "-shared": true, "-shared -Wl,-z,relro a.o bazel-out/b.a -u c": false, "-shared bazel-out/b.a -u c": true, "-shared -ldl": true, "": false, "-shared -lz": false,
		"-shared -Wl,-Bstatic -ldl": false, "-no-pie -shared": false,
	} {
		if got := p.Of(parse("-no-pie"), parse(line)) != nil; got != want {
			t.Errorf("%s is covered: %v", line, got)
		}
	}
	links := 0
	for _, w := range p.linkers() {
		if w == "probe.o as-needed" || w == "probe.o" {
			links++
		}
	}
	if links != 4 {
		t.Errorf("%d links, want 4", links)
	}
	if libs, err := p.Loaded(p.Of(parse("-no-pie"), parse("-shared -ldl"))); err != nil || !slices.ContainsFunc(libs, func(l Library) bool { return l.Name == "loader" }) {
		t.Errorf("%v, %v", libs, err)
	}
}

// A probe knows nothing of what the build makes, and needs none of it.
func TestProbeWithoutOutputs(t *testing.T) {
	x := linker(t, "cc", t.TempDir())
	line := "-o bazel-out/k8/bin/t bazel-out/k8/bin/t.o -Lbazel-out/k8/bin/_solib -lfoo bazel-out/k8/bin/libbar.a -Wl,--version-script=gone.lds -Wl,--wrap=f -u gone -Wl,--require-defined=gone -Wl,-T,gone.ld -Wl,-z,now"
	known := func(p string) bool { return p == "bazel-out/k8/bin/_solib/libfoo.so" }
	p := probe(t, x, linkflags.Parse(strings.Fields(line), linkflags.Options{Built: known}))
	q := probe(t, x, linkflags.Parse(nil, linkflags.Options{}))
	if p.Links[0].Line = q.Links[0].Line; write(t, p) != write(t, q) {
		t.Errorf("got %+v\nwant %+v", p, q)
	}
}

// A file that a flag names by a path which the build doesn't know counts with its content.
func TestProbeNamed(t *testing.T) {
	x := linker(t, "cc", t.TempDir())
	dir := t.TempDir()
	script, list := filepath.Join(dir, "a,b.map"), filepath.Join(dir, "list")
	for _, line := range [][]string{
		{"-Xlinker", "--version-script=" + script},
		{"-Xlinker", "--version-script", "-Xlinker", script},
		{"-Wl,-T," + list + ",-z,now"},
		{"-T" + list},
		{"-Wl,--dynamic-list=" + list},
		{"-Wl,--just-symbols=" + list},
		{"-Wl,-R," + list + ".o"},
		{"-shared", "-Wl,--symbol-ordering-file," + list},
		{"-Wl,--retain-symbols-file," + list},
	} {
		l := linkflags.Parse(line, linkflags.Options{})
		var seen []string
		for _, text := range []string{"{ global: one; };", "{ global: two; };"} {
			for _, name := range []string{script, list, list + ".o"} {
				if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			seen = append(seen, write(t, probe(t, x, l)))
		}
		if seen[0] == seen[1] {
			t.Errorf("%q: what is in the file doesn't count", line)
		}
		if LineID(l) == LineID(linkflags.Parse(nil, linkflags.Options{})) {
			t.Errorf("%q is taken for a line that names no file", line)
		}
	}
}

func TestProbeUnknown(t *testing.T) {
	x := linker(t, "cc", t.TempDir())
	ctx, l := context.Background(), func(line string) *linkflags.Line { return linkflags.Parse(strings.Fields(line), linkflags.Options{}) }
	for _, c := range []struct {
		x    Linker
		line string
		want string
	}{
		{Linker{Path: "/nonexistent/cc"}, "", "/nonexistent/cc"},
		{x, "-lnosuchlibrary", "nosuchlibrary"},
		{x, "-fuse-ld=nosuchlinker", "nosuchlinker"},
		{Linker{Path: "true"}, "", "doesn't show its linker"},
	} {
		p, err := c.x.Probe(ctx, t.TempDir(), l(c.line))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, %v, want an error with %q", c.x.Path, c.line, p, err, c.want)
		}
	}
	file := filepath.Join(t.TempDir(), "probe.json")
	var none *Probe
	if err := none.Write(file, errors.New("why")); err != nil {
		t.Fatal(err)
	}
	if p, err := ReadProbe(file); p != nil || err != nil {
		t.Errorf("%v, %v", p, err)
	}
	for _, bad := range []string{"", "{}", `{"format":2}`, `{"format":3}`, `{"format":3,"more":1}`} {
		os.WriteFile(file, []byte(bad), 0o666)
		if p, err := ReadProbe(file); err == nil {
			t.Errorf("%s: %+v", bad, p)
		}
	}
}

// FuzzReadProbe: whatever the file, it is an error or a probe that can be asked
// and that is written as it was read.
func FuzzReadProbe(f *testing.F) {
	file := func(t testing.TB, p *Probe) []byte {
		name := filepath.Join(t.TempDir(), "probe.json")
		if err := p.Write(name, errors.New("why")); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	line := linkflags.Parse(nil, linkflags.Options{})
	crt, libc := &File{Library: Library{Name: "crt1.o"}, Symbols: []string{"_start"}}, &File{Library: Library{Name: "libc.so.6"}, Symbols: []string{"free", "malloc"}}
	whole := file(f, &Probe{Links: []Link{{LineID(line), []string{"GNU ld 2"}, "bfd", linkflags.Yes, []*File{crt, libc}}, {"0", []string{"LLD 21"}, "lld", linkflags.No, []*File{libc}}}})
	f.Add(whole)
	f.Add(file(f, nil))
	f.Add(bytes.Replace(whole, []byte("1\n"), []byte("2\n"), 1))
	f.Add(bytes.Replace(whole, []byte(`"symbols": "`), []byte(`"symbols": "AAAA`), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseProbe(b)
		if err != nil || p == nil {
			return
		}
		if taken := p.Of(line); taken != nil {
			taken.Provides("malloc")
		}
		q, err := parseProbe(file(t, p))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p.Links, q.Links, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}

// FuzzArchiveIndex: whatever follows the magic string, it is names or none.
func FuzzArchiveIndex(f *testing.F) {
	index := func(name string, size int, body string) []byte {
		return fmt.Appendf(nil, "%-16s%-12d%-6d%-6d%-8o%-10d`\n%s", name, 0, 0, 0, 0o644, size, body)
	}
	f.Add(index("/", 12, "\x00\x00\x00\x02\x00\x00\x00\x08\x00\x00\x00\x08a\x00b\x00"))
	f.Add(index("/SYM64/", 18, "\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x08a\x00"))
	f.Add(index("/", 4, "\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, s := range archiveIndex(bytes.NewReader(b)) {
			if strings.Contains(s, "\x00") {
				t.Errorf("%q", s)
			}
		}
	})
}

// What a program would be run with that needs all libraries of the line.
func TestProbeLoaded(t *testing.T) {
	eachDriver(t, func(t *testing.T, x Linker, flags []string) {
		for _, line := range []string{"-lm", "-Wl,--as-needed -lm", "-shared -lm", "-lm -pthread"} {
			parsed := linkflags.Parse(append(strings.Fields(line), flags...), linkflags.Options{})
			p := probe(t, x, parsed)
			libs, err := p.Loaded(p.Of(parsed))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"loader", "libm.so.6", "libc.so.6"} {
				if !slices.ContainsFunc(libs, func(l Library) bool { return l.Name == want }) {
					t.Errorf("%s: no %s among %v", line, want, libs)
				}
			}
		}
		static := linkflags.Parse(append(flags, "-static"), linkflags.Options{})
		p := probe(t, x, static)
		if libs, err := p.Loaded(p.Of(static)); err != nil || len(libs) > 0 {
			t.Errorf("-static: %v, %v", libs, err)
		}
	})
}

// Programs and libraries among the data are run or loaded with what they need.
func TestData(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, d := range []string{"sys", "bazel-out/bin"} {
		os.MkdirAll(path(d), 0o777)
	}
	for name, text := range map[string]string{
		"a.c": "int a(void) { return 1; }\n", "b.c": "int a(void); int b(void) { return a(); }\n", "main.c": "int main(void) { return 0; }\n", "script": "#!/bin/sh\n", "broken": "\x7fELF",
	} {
		os.WriteFile(path(name), []byte(text), 0o666)
	}
	compile(t, dir,
		"-shared -fPIC -o sys/liba.so a.c",
		"-shared -fPIC -o bazel-out/bin/plugin.so b.c -Lsys -la -Wl,-rpath,"+path("sys"),
		"-o bazel-out/bin/test main.c",
		"-o bazel-out/bin/tool main.c -Wl,--no-as-needed -Lsys -la -Wl,-rpath,"+path("sys"),
		"-o bazel-out/bin/lost main.c -Wl,--no-as-needed -Lsys -la",
		"-static -o bazel-out/bin/static main.c",
		"-c -o object.o main.c",
	)
	libraries := func(binary string, data ...string) []Library {
		t.Helper()
		p := Program{Binary: path("bazel-out/bin/" + binary), Probed: true}
		for _, d := range data {
			p.Data = append(p.Data, path(d))
		}
		libs, err := p.Libraries()
		if err != nil {
			t.Fatal(err)
		}
		return libs
	}
	has := func(libs []Library, name string) bool {
		return slices.ContainsFunc(libs, func(l Library) bool { return l.Name == name || l.Name == name+dataSuffix })
	}
	// Whether the test is run with it or its data is.
	distinct := func(libs []Library) []Library {
		libs = slices.Clone(libs)
		for i := range libs {
			libs[i].Name = strings.TrimSuffix(libs[i].Name, dataSuffix)
		}
		return Sort(libs)
	}
	alone := libraries("test")
	for _, d := range []string{"script", "broken", "object.o", "main.c", "sys", "gone", "bazel-out/bin/static", "bazel-out/bin/test"} {
		if got := libraries("test", d); !slices.Equal(distinct(got), distinct(alone)) {
			t.Errorf("%s: %v", d, got)
		}
	}
	for _, binary := range []string{"test", "static"} {
		for _, d := range []string{"bazel-out/bin/tool", "bazel-out/bin/plugin.so"} {
			if got := libraries(binary, d); !has(got, "liba.so") || has(got, "plugin.so") {
				t.Errorf("%s with %s: %v", binary, d, got)
			}
		}
	}
	if got := libraries("static", "bazel-out/bin/tool"); !has(got, "loader") {
		t.Errorf("a tool's loader doesn't count: %v", got)
	}
	if got := libraries("test", "bazel-out/bin/lost"); !has(got, "no liba.so") {
		t.Errorf("a missing library doesn't count: %v", got)
	}
	for file, want := range map[string]string{"bazel-out/bin/tool": "liba.so (data) loader (data)", "bazel-out/bin/plugin.so": "liba.so (data)", "script": "", "gone": "", "bazel-out/bin/static": ""} {
		libs, err := Loads(path(file), "")
		var names []string
		for _, l := range libs {
			if !strings.HasPrefix(l.Name, "libc.so.6") && !strings.HasPrefix(l.Name, "ld-") {
				names = append(names, l.Name)
			}
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%s loads %s, want %s (%v)", file, got, want, err)
		}
	}
	// Linked, a library isn't where its neighbours are.
	compile(t, dir, "-shared -fPIC -o near.so a.c -Wl,-soname,near.so")
	compile(t, dir, "-shared -fPIC -o linked.so -Wl,--no-as-needed near.so -Lsys -la -Wl,-soname,liblinked.so.1 -Wl,-rpath,$ORIGIN -Wl,-rpath,"+path("sys"))
	for dirs, want := range map[string]string{"": "liba.so no liblinked.so.1 no near.so", path("far"): "liba.so liblinked.so.1 no near.so"} {
		os.Mkdir(path("far"), 0o777)
		compile(t, dir, "-shared -fPIC -o far/liblinked.so.1 a.c")
		libs, err := LoadsLinked(path("linked.so"), strings.Fields(dirs))
		var names []string
		for _, l := range libs {
			if l.Name != "libc.so.6" && !strings.HasPrefix(l.Name, "ld-") {
				names = append(names, l.Name)
			}
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("linked, with %q: %s, want %s (%v)", dirs, got, want, err)
		}
	}
	if _, err := LoadsLinked(path("gone"), nil); err == nil {
		t.Error("no error for a library that isn't there")
	}
	before := libraries("test", "bazel-out/bin/tool")
	os.WriteFile(path("a.c"), []byte("int a(void) { return 2; }\n"), 0o666)
	compile(t, dir, "-shared -fPIC -o sys/liba.so a.c")
	if after := libraries("test", "bazel-out/bin/tool"); slices.Equal(before, after) {
		t.Error("another library makes no difference")
	}
}

// A library that a program may not need after all mustn't hide where another one finds its own.
func TestShadowed(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"one", "two"} {
		os.MkdirAll(filepath.Join(dir, d), 0o777)
	}
	for name, text := range map[string]string{"b.c": "int b(void) { return 1; }\n", "c.c": "int b(void) { return 2; }\n", "a.c": "int b(void); int a(void) { return b(); }\n", "main.c": "int main(void) { return 0; }\n"} {
		os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666)
	}
	compile(t, dir,
		"-shared -fPIC -o one/libb.so b.c", "-shared -fPIC -o two/libb.so c.c",
		"-shared -fPIC -o one/liba.so a.c -Ltwo -lb -Wl,-rpath,"+filepath.Join(dir, "two"),
		"-o test main.c -Wl,--no-as-needed -Lone -lb -la -Wl,-rpath,"+filepath.Join(dir, "one"),
		"-o old main.c -Wl,--disable-new-dtags -Wl,-rpath,"+filepath.Join(dir, "one"),
		"-shared -fPIC -o plugin.so a.c -Lone -lb",
	)
	found := func(libs []Library, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		var l []string
		for _, x := range libs {
			if strings.Contains(x.Name, "libb") {
				l = append(l, fmt.Sprintf("%s %x", x.Name, x.SHA256[:4]))
			}
		}
		return strings.Join(l, ", ")
	}
	sum := func(name string) string {
		s, err := wholefile.Digest(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x", s[:4])
	}
	p := Program{Binary: filepath.Join(dir, "test"), Probed: true}
	if got := found(p.Libraries()); !strings.Contains(got, sum("one/libb.so")) || !strings.Contains(got, sum("two/libb.so")) {
		t.Errorf("%s: one of the two doesn't count", got)
	}
	// What the program says of where to look, its libraries among the data use as well.
	if got := found(Loads(filepath.Join(dir, "plugin.so"), "")); got != "no libb.so (data) 00000000" {
		t.Errorf("without a program: %s", got)
	}
	if got, want := found(Loads(filepath.Join(dir, "plugin.so"), filepath.Join(dir, "old"))), "libb.so (data) "+sum("one/libb.so"); got != want {
		t.Errorf("with a program: %s, want %s", got, want)
	}
}

func TestDependencies(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                       nil,
		"x: \\\n  a \\\n  b\n\na:\n\nb:\n":       {"a", "b"},
		"x: \\\n a\\ b \\\n c\\#d $$e\n\na\\ b:": {"a b", "c#d", "$e"},
	} {
		if got := dependencies(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q", text, got)
		}
	}
}
