package objfile

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// linkFiles links objects, or what else is given, into a file beside the first.
func linkFiles(t testing.TB, name string, args ...string) string {
	t.Helper()
	dir := filepath.Dir(args[0])
	run(t, dir, "gcc", append(args, "-o", name)...)
	return filepath.Join(dir, name)
}

func linkedManifests(t *testing.T, path string, parts ...string) ([]*manifest.Manifest, string) {
	t.Helper()
	ms, why, err := Linked(path, parts)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ms {
		if _, err := manifest.Marshal(m); err != nil {
			t.Fatal(err)
		}
	}
	return ms, why
}

func readLinkedFile(path string) (*linked, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return readLinked(b)
}

const library = `
int need(int); int exported(int x) { return x; } int table[2] = {1, 2}; static int count;
static int helper(int x) { return need(x) + ++count; }
int f(int x) { return helper(x) + table[0]; }
int g(int x) { return x + 1; }
int h(int x) { return exported(x); }
`

func TestLinkedLibrary(t *testing.T) {
	a, b := build(t, "a.c", library, "-fPIC"), build(t, "b.c", "int need(int x) { return x; }", "-fPIC")
	so := linkFiles(t, "libt.so", a, b, "-shared", "-Wl,-soname,libt.so")
	ms, why := linkedManifests(t, so, a, b)
	if why != "" || len(ms) != 3 {
		t.Fatalf("%d manifests, %q: want those of two objects and of the link", len(ms), why)
	}
	if d := changed(ms[0], load(t, a)); len(d) > 0 {
		t.Errorf("the first manifest isn't that of the first object: %q", d)
	}

	// Another function in it changes that one.
	a2 := build(t, "a.c", strings.Replace(library, "x + 1", "x + 2", 1), "-fPIC")
	ms2, why := linkedManifests(t, linkFiles(t, "libt.so", a2, b, "-shared", "-Wl,-soname,libt.so"), a2, b)
	if why != "" {
		t.Fatal(why)
	}
	if d := changed(ms[0], ms2[0]); !slices.Equal(d, []string{"g"}) {
		t.Errorf("an edit of g changed %q", d)
	}
	if d := changed(ms[2], ms2[2]); len(d) > 0 {
		t.Errorf("an edit of g changed %q of the link", d)
	}

	l, err := readLinkedFile(so)
	if err != nil {
		t.Fatal(err)
	}
	if _, why := l.explain([]string{a, b}); why != "" || len(l.hidden)+len(l.bound) > 0 {
		t.Errorf("hidden %q, bound %q, %q: want none", l.hidden, l.bound, why)
	}

	// How it is linked.
	script := filepath.Join(t.TempDir(), "versions")
	if err := os.WriteFile(script, []byte("{ global: f; local: *; };"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"-Wl,-soname,libt.so", "-Wl,--version-script=" + script}, {"-Wl,-soname,other.so"}, {"-Wl,-soname,libt.so", "-Wl,-Bsymbolic"}, {"-Wl,-soname,libt.so", "-Wl,-Bsymbolic-functions"}, {"-Wl,-soname,libt.so", "-Wl,-z,execstack"}, {"-Wl,-soname,libt.so", "-Wl,--no-as-needed", "-lm"}} {
		ms2, why := linkedManifests(t, linkFiles(t, "libt.so", append([]string{a, b, "-shared"}, flags...)...), a, b)
		if why != "" {
			t.Errorf("%q: %s", flags, why)
		} else if len(changed(ms[2], ms2[2])) == 0 {
			t.Errorf("%q: the link has the same manifest", flags)
		}
	}
}

// A name for the version of its symbols makes another library, however the
// linker writes that down.
func TestLinkedVersions(t *testing.T) {
	a := build(t, "a.c", "int f(void) { return 1; }", "-fPIC")
	script := filepath.Join(t.TempDir(), "versions")
	for _, linker := range []string{"bfd", "lld"} {
		if _, err := exec.LookPath("ld." + linker); err != nil {
			t.Logf("no ld.%s", linker)
			continue
		}
		var got []string
		for _, content := range []string{"V1 { global: *; };", "V2 { global: *; };", "{ global: *; };"} {
			if err := os.WriteFile(script, []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
			ms, _ := linkedManifests(t, linkFiles(t, "libt.so", a, "-shared", "-fuse-ld="+linker, "-Wl,--version-script="+script), a)
			last := ms[len(ms)-1]
			got = append(got, string(last.Components[0].LocalHash))
		}
		if got[0] == got[1] || got[1] == got[2] || got[0] == got[2] {
			t.Errorf("%s: equal hashes of different versions: %x", linker, got)
		}
	}
}

// Whatever is in a file and in none of its objects makes its content count.
func TestLinkedUnexplained(t *testing.T) {
	a := build(t, "a.c", library, "-fPIC")
	b := build(t, "b.c", "int need(int x) { return x; }", "-fPIC")
	static := build(t, "hidden.c", "static int seen; __attribute__((constructor)) static void hidden(void) { seen = 1; }", "-fPIC")
	nameless := build(t, "nameless.s", ".section .init_array,\"aw\"\n.quad 0\n", "-fPIC")
	other := build(t, "a.c", strings.Replace(library, "x + 1", "x * x * x + 1", 1), "-fPIC")
	so := linkFiles(t, "libt.so", a, b, static, "-shared")
	bare := linkFiles(t, "bare.so", a, b, "-shared", "-s")
	alias := linkFiles(t, "alias.so", a, b, "-shared", "-Wl,--defsym,alias=f")
	blob := linkFiles(t, "blob.so", a, b, nameless, "-shared")
	for _, tc := range []struct {
		name  string
		file  string
		parts []string
		want  string
	}{
		{"no objects", so, nil, "aren't known"},
		{"an object less", so, []string{a, static}, "b.c"},
		{"a hidden object", so, []string{a, b}, "hidden.c"},
		{"another object", so, []string{other, b, static}, "g is in it"},
		{"stripped", bare, []string{a, b}, "no symbol table"},
		{"a symbol of the linker's", alias, []string{a, b}, ""},
		{"an initialiser without a symbol", blob, []string{a, b}, "initialisers"},
		{"not an object", so, []string{filepath.Join(filepath.Dir(a), "a.c")}, "want an ELF object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ms, why := linkedManifests(t, tc.file, tc.parts...)
			if why == "" || !strings.Contains(why, tc.want) {
				t.Errorf("reason %q, want %q", why, tc.want)
			}
			if len(ms) != 1 || len(ms[0].Components) != 1 || ms[0].Components[0].Root == "" || ms[0].Rung != manifest.Rung_RUNG_CONTENT {
				t.Fatalf("manifests %v: want one of the content", ms)
			}
			if len(ms[0].Fallbacks) != 1 || ms[0].Fallbacks[0].Reason != why {
				t.Errorf("fallbacks %v", ms[0].Fallbacks)
			}
		})
	}
}

func TestLinkedExecutable(t *testing.T) {
	const source = "int need(int); int unused(void) { return 1; } int main(void) { return need(3); }"
	dir := filepath.Dir(linkFiles(t, "libneed.so", build(t, "need.c", "int need(int x) { return x; } int other(void) { return 2; }", "-fPIC"), "-shared"))
	program := func(source string, flags ...string) *manifest.Manifest {
		t.Helper()
		o := build(t, "main.c", source, flags...)
		ms, why := linkedManifests(t, linkFiles(t, "program", o, "-L"+dir, "-lneed", "-Wl,--build-id"))
		if why == "" || len(ms) != 1 {
			t.Fatalf("%d manifests, %q", len(ms), why)
		}
		return ms[0]
	}
	m := program(source)
	c := find(t, m, "(executable)")
	if c.Root != "executable as a whole: its objects aren't known" || !slices.Contains(c.DefinedNames(), "main") {
		t.Errorf("component %v", c)
	}
	if names, _ := m.LinkNames(c); !slices.Contains(names, "need") {
		t.Errorf("no link to need: %q", names)
	}
	if d := changed(m, program(source, "-g")); len(d) > 0 {
		t.Error("debug information counts")
	}
	if d := changed(m, program(strings.Replace(source, "return 1", "return 2", 1))); len(d) == 0 {
		t.Error("code doesn't count")
	}
	if d := changed(m, program(source, "-Wa,--execstack")); len(d) == 0 {
		t.Error("an executable stack doesn't count")
	}

	o := build(t, "main.c", source)
	if ms, why := linkedManifests(t, linkFiles(t, "program", o, "-L"+dir, "-lneed"), o); why != "" || len(ms) != 2 {
		t.Errorf("%d manifests, %q: want those of the object and of the link", len(ms), why)
	}
	if ms, why := linkedManifests(t, o, o); !strings.Contains(why, "ELF file of type ET_REL") || len(ms) != 1 || ms[0].Symbols[0] != manifest.AnySymbol {
		t.Errorf("an object in the place of an executable: %q, %v", why, ms)
	}
}

func TestLinkedOpaque(t *testing.T) {
	file := filepath.Join(t.TempDir(), "libt.so")
	var hashes []string
	for _, content := range []string{"", "\xcf\xfa\xed\xfe\x07", "\xcf\xfa\xed\xfe\x08", "INPUT(-lm)"} {
		if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		ms, why := linkedManifests(t, file)
		if why == "" || len(ms) != 1 || len(ms[0].Components) != 1 || ms[0].Components[0].Root == "" || !slices.Equal(ms[0].Symbols, []string{manifest.AnySymbol}) {
			t.Fatalf("%q: %q, %v", content, why, ms)
		}
		h := string(ms[0].Components[0].LocalHash)
		if slices.Contains(hashes, h) {
			t.Errorf("%q: the hash of another content", content)
		}
		hashes = append(hashes, h)
	}
	if _, _, err := Linked(filepath.Join(t.TempDir(), "nowhere"), nil); err == nil {
		t.Error("no error for a file that isn't there")
	}
}

func TestLinkedDamaged(t *testing.T) {
	a := build(t, "a.c", library, "-fPIC")
	so := linkFiles(t, "libt.so", a, "-shared")
	b, err := os.ReadFile(so)
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "libbad.so")
	for i := 0; i < len(b); i += 97 {
		cut := slices.Clone(b)
		cut[i] ^= 0xff
		for _, content := range [][]byte{b[:i], cut} {
			if err := os.WriteFile(bad, content, 0o666); err != nil {
				t.Fatal(err)
			}
			// A file among the data of a test must not fail its build.
			if ms, _ := linkedManifests(t, bad, a); len(ms) == 0 {
				t.Fatalf("byte %d: no manifest", i)
			}
		}
	}
}
