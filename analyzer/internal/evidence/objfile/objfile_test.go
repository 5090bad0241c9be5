package objfile

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// build writes source to a file with the given name in a directory of its own,
// compiles it and returns the object's path.
func build(t testing.TB, name, source string, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("SKIPPED: no gcc to compile with")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	out := strings.TrimSuffix(name, filepath.Ext(name)) + ".o"
	run(t, dir, "gcc", append([]string{"-O1", "-fno-inline", "-ffunction-sections", "-fdata-sections", "-c", name, "-o", out}, flags...)...)
	return filepath.Join(dir, out)
}

func run(t testing.TB, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

func load(t testing.TB, path string) *manifest.Manifest {
	t.Helper()
	m, err := Manifest(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := manifest.Marshal(m) // checks the invariants
	if err != nil {
		t.Fatal(err)
	}
	if m, err = manifest.Unmarshal(b); err != nil {
		t.Fatal(err)
	}
	return m
}

// changed lists the components that are in one manifest only or differ.
func changed(a, b *manifest.Manifest) []string {
	index := func(m *manifest.Manifest) map[string]string {
		all := map[string]string{}
		for _, c := range m.Components {
			if c.Name == manifest.LocalNames {
				continue
			}
			names, own := m.LinkNames(c)
			all[c.Name] = fmt.Sprint(c.LocalHash, names, own, c.Linkage, fmt.Sprint(c.Definitions), c.Root, c.Group)
		}
		return all
	}
	ia, ib := index(a), index(b)
	diff := []string{}
	for n, x := range ia {
		if ib[n] != x {
			diff = append(diff, n)
		}
	}
	for n := range ib {
		if _, ok := ia[n]; !ok {
			diff = append(diff, n)
		}
	}
	slices.Sort(diff)
	return diff
}

const sample = `
int puts(const char *); void perror(const char *);
static int counter;
static const int table[4] = {1, 2, 3, 4};
int *const pointer = &counter;
static int helper(int x) { counter += x; return table[x & 3]; }
int f(int x) { puts("hello"); return helper(x); }
int g(int x) { puts("world"); return helper(x) + 1; }
int main(void) { return f(1) + g(2); }
`

// Each edit of sample changes the components named and no others.
func TestEdits(t *testing.T) {
	base := build(t, "t.c", sample)
	for _, tc := range []struct {
		name     string
		old, new string
		flags    []string
		want     []string
	}{
		{name: "nothing", want: []string{}},
		{name: "debug information", flags: []string{"-g"}, want: []string{manifest.DebugLines}},
		{name: "body", old: "helper(x) + 1", new: "helper(x) + 2", want: []string{"g"}},
		{name: "literal", old: "hello", new: "hullo", want: []string{"f"}},
		{name: "literal's length", old: "hello", new: "good morning to you all", want: []string{"f"}},
		{name: "equal literals", old: "hello", new: "world", want: []string{"f"}},
		{name: "callee", old: `puts("hello")`, new: `perror("hello")`, want: []string{"f"}},
		{name: "value of a constant", old: "{1, 2, 3, 4}", new: "{1, 2, 3, 5}", want: []string{"table"}},
		{name: "alignment of a variable", old: "static int counter", new: "static _Alignas(64) int counter", want: []string{"counter"}},
		{name: "initial value", old: "static int counter;", new: "static int counter = 1;", want: []string{"counter"}},
		{name: "target of a pointer", old: "&counter", new: "&counter + 1", want: []string{"pointer"}},
		{name: "visibility", old: "int g(", new: "__attribute__((visibility(\"hidden\"))) int g(", want: []string{"g", "main"}},
		{name: "weak", old: "int g(", new: "__attribute__((weak)) int g(", want: []string{"g"}},
		{name: "alignment", old: "int g(", new: "__attribute__((aligned(64))) int g(", want: []string{"g"}},
		{name: "function added", old: "int main", new: "int k(void) { return 5; }\nint main", want: []string{"k"}},
		{name: "constructor", old: "int main", new: "__attribute__((constructor)) static void k(void) { counter = 5; }\nint main", want: []string{".init_array", "k"}},
		{name: "constructor's priority", old: "int main", new: "__attribute__((constructor(200))) static void k(void) { counter = 5; }\nint main", want: []string{".init_array.00200", "k"}},
		{name: "retained", old: "static const int table", new: "__attribute__((retain, used)) static const int table", want: []string{"table"}},
		{name: "executable stack", flags: []string{"-Wa,--execstack"}, want: []string{"counter", "f", "g", "helper", "main", "pointer", "table"}},
		{name: "control-flow protection", flags: []string{"-fcf-protection"}, want: []string{"counter", "f", "g", "helper", "main", "pointer", "table"}},
		{name: "unwind table", flags: []string{"-fno-asynchronous-unwind-tables"}, want: []string{"f", "g", "helper", "main"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			edited := strings.Replace(sample, tc.old, tc.new, 1)
			if tc.old != "" && edited == sample {
				t.Fatal("the edit didn't apply")
			}
			got := changed(load(t, base), load(t, build(t, "other.c", edited, tc.flags...)))
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("changed components (-want +got):\n%s", d)
			}
		})
	}
}

// The order of functions and the names of local ones leave every local hash
// and every link as it is.
func TestReorderAndRename(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(sample), "\n")
	lines[5], lines[6] = lines[6], lines[5] // f and g
	a := load(t, build(t, "a.c", sample))
	if d := changed(a, load(t, build(t, "b.c", strings.Join(lines, "\n")))); len(d) > 0 {
		t.Errorf("order of functions changed %q", d)
	}
	renamed := strings.NewReplacer("helper", "assist", "counter", "number").Replace(sample)
	b := load(t, build(t, "c.c", renamed))
	hashes := func(m *manifest.Manifest) []string {
		var l []string
		for _, c := range m.Components {
			if c.Name != manifest.LocalNames {
				l = append(l, fmt.Sprintf("%x", c.LocalHash))
			}
		}
		slices.Sort(l)
		return l
	}
	if d := cmp.Diff(hashes(a), hashes(b)); d != "" {
		t.Errorf("renaming locals changed local hashes:\n%s", d)
	}
}

func find(t *testing.T, m *manifest.Manifest, name string) *manifest.Component {
	t.Helper()
	for _, c := range m.Components {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no component %s in %v", name, m)
	return nil
}

func TestLinks(t *testing.T) {
	m := load(t, build(t, "t.c", sample))
	got := map[string][]string{}
	for _, c := range m.Components {
		got[c.Name], _ = m.LinkNames(c)
	}
	want := map[string][]string{
		"main": {"f", "g"}, "f": {"puts", "helper"}, "g": {"puts", "helper"},
		"helper": {"counter", "table"}, "pointer": {"counter"}, "counter": nil, "table": nil, manifest.LocalNames: nil,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("links (-want +got):\n%s", d)
	}
}

// Sections that count without a reference.
func TestRoots(t *testing.T) {
	m := load(t, build(t, "t.c", `
static void c1(void) { __asm__ volatile("nop"); }
static void c2(void) { __asm__ volatile("nop;nop"); }
__attribute__((constructor)) static void ctor(void) { c1(); }
__attribute__((destructor)) static void dtor(void) { c2(); }
__attribute__((section("handlers"), used)) static void (*entry)(void) = c1;
__attribute__((retain, used)) static int kept = 4;
__asm__(".section .preinit_array,\"aw\",@preinit_array\n.quad 0\n.text");
int plain = 5;
`))
	got := map[string]string{}
	for _, c := range m.Components {
		if c.Root != "" {
			got[c.Name] = c.Root
		}
	}
	want := map[string]string{
		".init_array": "section .init_array", ".fini_array": "section .fini_array", "handlers": "linker set handlers",
		"kept": "retained section .data.kept", ".preinit_array": "section .preinit_array",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("roots (-want +got):\n%s", d)
	}
	names, _ := m.LinkNames(find(t, m, ".init_array"))
	if !slices.Equal(names, []string{"ctor"}) {
		t.Errorf(".init_array links to %q", names)
	}
}

func TestSymbolKinds(t *testing.T) {
	const source = `
int common;
__thread int tls = 1;
__attribute__((weak)) int weak(void) { return 1; }
static int impl(void) { return 2; }
static int (*resolve(void))(void) { return impl; }
int ifunc(void) __attribute__((ifunc("resolve")));
extern int maybe(void) __attribute__((weak));
int user(void) { return maybe ? maybe() : tls; }
__asm__(".section .text.once,\"axG\",@progbits,once,comdat\n.weak once\nonce: ret\n.text");
`
	m := load(t, build(t, "t.c", source, "-fcommon", "-fPIC"))
	for name, want := range map[string]manifest.Linkage{
		"common": manifest.Linkage_LINKAGE_WEAK, "weak": manifest.Linkage_LINKAGE_WEAK, "once": manifest.Linkage_LINKAGE_WEAK,
		"tls": manifest.Linkage_LINKAGE_EXTERNAL, "impl": manifest.Linkage_LINKAGE_LOCAL,
	} {
		if c := find(t, m, name); c.Linkage != want {
			t.Errorf("%s: linkage %v, want %v", name, c.Linkage, want)
		}
	}
	// The section of the resolver defines the indirect function.
	names, _ := m.LinkNames(find(t, m, "ifunc"))
	if !slices.Equal(names, []string{"impl"}) {
		t.Errorf("ifunc links to %q", names)
	}
	for _, tc := range []struct{ old, new, name string }{
		{"int common;", "long common;", "common"},
		{"tls = 1", "tls = 2", "tls"},
		{"maybe(void) __attribute__((weak))", "maybe(void)", "user"},
	} {
		d := changed(m, load(t, build(t, "t.c", strings.Replace(source, tc.old, tc.new, 1), "-fcommon", "-fPIC")))
		if !slices.Equal(d, []string{tc.name}) {
			t.Errorf("%s to %s changed %q, want %q", tc.old, tc.new, d, tc.name)
		}
	}
}

// Handlers of C++ exceptions are found through unwind tables only.
func TestExceptionTables(t *testing.T) {
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("SKIPPED: no g++ to compile with")
	}
	const source = `
void may();
struct A {}; struct B {};
int f() { try { may(); } catch (A &) { return 1; } return 0; }
int g() { may(); return 2; }
`
	a := load(t, build(t, "t.cc", source))
	names, _ := a.LinkNames(find(t, a, "_Z1fv"))
	for _, want := range []string{"DW.ref._ZTI1A", "DW.ref.__gxx_personality_v0"} {
		if !slices.Contains(names, want) {
			t.Errorf("f links to %q, not to %s", names, want)
		}
	}
	b := load(t, build(t, "t.cc", strings.Replace(source, "A &", "B &", 1)))
	if d := changed(a, b); !slices.Contains(d, "_Z1fv") || slices.Contains(d, "_Z1gv") {
		t.Errorf("another handler changed %q", d)
	}
}

func TestAssembly(t *testing.T) {
	const source = ".globl add\n.type add,@function\nadd: lea (%rdi,%rsi), %eax\n call other\n ret\n"
	a := load(t, build(t, "t.S", source))
	c := find(t, a, "add")
	if names, _ := a.LinkNames(c); !slices.Equal(names, []string{"other"}) {
		t.Errorf("links %q", names)
	}
	b := load(t, build(t, "t.S", strings.Replace(source, "%rsi", "%rdx", 1)))
	if d := changed(a, b); !slices.Equal(d, []string{"add"}) {
		t.Errorf("changed %q", d)
	}
}

// What a linker has made of a compiler's object and one of assembly is signed by the compiler.
func TestPartialLink(t *testing.T) {
	for _, linker := range []string{"ld.bfd", "ld.lld"} {
		linked := func(value string) *manifest.Manifest {
			c := build(t, "a.c", "int first(int); int main(int c, char **v) { return first(c); }", "-fno-function-sections")
			s := build(t, "b.S", `.text
.globl first
.type first, @function
first: lea first(%rip), %rax
 add $(second - first), %rax
 jmp *%rax
.size first, . - first
.type second, @function
second: mov $`+value+`, %eax
 ret
.size second, . - second
.section .note.GNU-stack,"",@progbits
`)
			dir := t.TempDir()
			run(t, dir, linker, "-r", "-o", "m.o", c, s)
			return load(t, filepath.Join(dir, "m.o"))
		}
		a, b := linked("2"), linked("3")
		if d := changed(a, b); !slices.Contains(d, ".text") {
			t.Errorf("%s: changed %q, and first jumps there", linker, d)
		}
	}
}

// A section is a compiler's if it has a standard name and that of what is in it.
func TestNamesOfSections(t *testing.T) {
	const source = `
int puts(const char *);
static int f(int x) { switch (x) { case 1: return 7; case 2: return 99; case 3: return 5; case 4: return 12; case 5: return 1; } return 0; }
__attribute__((cold, noinline)) static int hot(int x) { static int unlikely; return f(x) + ++unlikely; }
const char *const names[] = {"a", "b"};
double d(double x) { return x * 3.25; }
int main(int c, char **v) { puts(names[c]); return hot(c); }
`
	for _, compiler := range []string{"gcc", "clang"} {
		for _, level := range []string{"-O0", "-O2"} {
			for _, split := range [][]string{{}, {"-ffunction-sections", "-fdata-sections"}} {
				dir := t.TempDir()
				if err := os.WriteFile(filepath.Join(dir, "t.c"), []byte(source), 0o666); err != nil {
					t.Fatal(err)
				}
				run(t, dir, compiler, slices.Concat([]string{level, "-fPIC", "-c", "t.c", "-o", "t.o"}, split)...)
				for _, c := range load(t, filepath.Join(dir, "t.o")).Components {
					if c.Root != "" {
						t.Errorf("%s %s %q: root %q", compiler, level, split, c.Root)
					}
				}
			}
		}
	}
}

func TestArchive(t *testing.T) {
	one := build(t, "a_member_with_a_long_name.c", "static int x; int f(void) { return ++x; }")
	two := build(t, "b.c", "static int x; int g(void) { return ++x + 1; }")
	dir := t.TempDir()
	run(t, dir, "ar", "rcsD", "l.a", one, two)
	m := load(t, filepath.Join(dir, "l.a"))
	var got []string
	for _, c := range m.Components {
		got = append(got, c.Name)
	}
	want := []string{"(local names)", "(local names)#2", "a_member_with_a_long_name.o(x)", "b.o(x)", "f", "g"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("components (-want +got):\n%s", d)
	}
	if names, _ := m.LinkNames(find(t, m, "g")); !slices.Equal(names, []string{"b.o(x)"}) {
		t.Errorf("g links to %q", names)
	}

	// Two members of one name, and a local section per member.
	run(t, dir, "cp", two, "a_member_with_a_long_name.o")
	run(t, dir, "ar", "qcsD", "twice.a", one, "a_member_with_a_long_name.o")
	m = load(t, filepath.Join(dir, "twice.a"))
	find(t, m, "a_member_with_a_long_name.o(x)")
	find(t, m, "a_member_with_a_long_name.o#2(x)")

	run(t, dir, "ar", "rcsT", "thin.a", one)
	if _, err := Manifest(filepath.Join(dir, "thin.a"), Options{}); err == nil || !strings.Contains(err.Error(), "thin archive") {
		t.Errorf("thin archive: error %v", err)
	}
	os.WriteFile(filepath.Join(dir, "empty.a"), []byte(arMagic), 0o666)
	load(t, filepath.Join(dir, "empty.a"))

	os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("text"), 0o666)
	run(t, dir, "ar", "rcsD", "mixed.a", one, "notes.txt")
	if c := find(t, load(t, filepath.Join(dir, "mixed.a")), "notes.txt"); c.Root == "" {
		t.Error("a member that isn't an object is no root")
	}
	if _, err := Manifest(filepath.Join(dir, "l.a"), Options{InterfaceOnly: true}); err == nil {
		t.Error("the interface of an archive: no error")
	}
}

// Initialisers of an object run in the order of its sections.
func TestOrderOfInitialisers(t *testing.T) {
	sections := func(first, second string) *manifest.Manifest {
		const section = ".section .init_array,\"awG\",@init_array,%[1]s,comdat\n.quad %[1]s\n"
		return load(t, build(t, "t.S", fmt.Sprintf(section, first)+fmt.Sprintf(section, second)))
	}
	if len(changed(sections("f", "g"), sections("g", "f"))) == 0 {
		t.Error("the order of sections with initialisers doesn't count")
	}
}

func TestSharedLibrary(t *testing.T) {
	lib := func(source string) string {
		o := build(t, "t.c", source, "-fPIC")
		run(t, filepath.Dir(o), "gcc", "-shared", "-nostdlib", "-Wl,-soname,libt.so.1", "-Wl,--build-id=none", "t.o", "-o", "libt.so")
		return filepath.Join(filepath.Dir(o), "libt.so")
	}
	a := lib("int need(void); static int x; int f(void) { return need() + x; }")
	b := lib("int need(void); static int x; int f(void) { return need() + x + 1; }")
	m := load(t, a)
	c := find(t, m, "libt.so.1")
	if c.Root == "" || !slices.Equal(c.DefinedNames(), []string{"f"}) || c.Kind != manifest.Kind_KIND_FILE {
		t.Errorf("component %v", c)
	}
	if names, _ := m.LinkNames(c); !slices.Equal(names, []string{"f", "need"}) {
		t.Errorf("links to %q", names)
	}
	if d := changed(m, load(t, b)); !slices.Equal(d, []string{"libt.so.1"}) {
		t.Errorf("another body changed %q", d)
	}
	face := func(path string) *manifest.Manifest {
		m, err := Manifest(path, Options{InterfaceOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if d := changed(face(a), face(b)); len(d) > 0 {
		t.Errorf("another body changed the interface: %q", d)
	}
	if d := changed(face(a), face(lib("int needed(void); int f(void) { return needed(); }"))); len(d) == 0 {
		t.Error("another reference didn't change the interface")
	}
}

// The manifest depends neither on the path nor on the run.
func TestDeterministic(t *testing.T) {
	a := load(t, build(t, "t.c", sample))
	b := load(t, build(t, "t.c", sample))
	a.Source, b.Source = "", ""
	x, _ := manifest.Marshal(a)
	y, _ := manifest.Marshal(b)
	if !bytes.Equal(x, y) {
		t.Error("two objects of one source in two directories have different manifests")
	}
	if bytes.Contains(x, []byte(os.TempDir())) {
		t.Error("a path is in the manifest")
	}
}

func TestRefused(t *testing.T) {
	lto := build(t, "t.c", sample, "-flto")
	object, err := os.ReadFile(build(t, "t.c", sample))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		content string
		want    string
	}{
		"empty.o": {"", "empty"},
		"text.o":  {"hello", "want an ELF object"},
		"bc.o":    {"BC\xc0\xde1234", "link-time optimisation"},
		"cut.o":   {string(object[:len(object)/2]), "malformed ELF file"},
		"head.o":  {string(object[:20]), "malformed ELF file"},
		"cut.a":   {arMagic + "x.o/            0           0     0     644     1000      `\nabc", "cut off"},
		"bsd.a":   {arMagic + "#1/4            0           0     0     644     8         `\nx.o\x00abcd", "BSD"},
	} {
		path := filepath.Join(dir, name)
		os.WriteFile(path, []byte(tc.content), 0o666)
		if _, err := Manifest(path, Options{}); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v, want %q and the file's name", name, err, tc.want)
		}
	}
	for _, file := range []string{lto, build(t, "t.c", sample, "-flto", "-ffat-lto-objects")} {
		if _, err := Manifest(file, Options{}); err == nil || !strings.Contains(err.Error(), "-flto") {
			t.Errorf("LTO object %s: error %v", file, err)
		}
	}
}

// A linker takes text under the name of a library for a script.
func TestLinkerScript(t *testing.T) {
	dir := t.TempDir()
	load := func(name, text string) *manifest.Manifest {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return load(t, path)
	}
	const text = "/* GNU ld script */ GROUP ( libx.so.1 AS_NEEDED ( -ly /lib/libz.so.1 ) libfl.a )\n"
	m := load("libx.so", text)
	if len(m.Components) != 1 || m.Components[0].Root == "" {
		t.Fatalf("components %v, want one that is a root", m.Components)
	}
	if links, _ := m.LinkNames(m.Components[0]); !slices.Equal(links, []string{manifest.AnySymbol}) {
		t.Errorf("links %q, want any symbol", links)
	}
	if want := []string{"-ly", "/lib/libz.so.1", "libfl.a"}; !slices.Equal(m.Flags, want) {
		t.Errorf("libraries %q, want %q", m.Flags, want)
	}
	if other := load("libx.so.2", text+" "); bytes.Equal(m.Components[0].LocalHash, other.Components[0].LocalHash) {
		t.Error("an edit of the script doesn't change its hash")
	}
}

// Whatever is overwritten in an object, reading it ends in a manifest or an
// error.
// What #pragma comment(lib) asks for is a library of the link.
func TestDependentLibraries(t *testing.T) {
	object := func(name string) *manifest.Manifest {
		text := ".section .deplibs,\"MS\",@0x6fff4c04,1\n.asciz \"" + name + "\"\n.asciz \"libz.a\"\n.text\n.globl f\nf: ret\n"
		return load(t, build(t, "a.s", text))
	}
	a, b := object("m"), object("n")
	if want := []string{"-lm", "-l:libz.a"}; !slices.Equal(a.Flags, want) {
		t.Errorf("libraries %q, want %q", a.Flags, want)
	}
	if len(changed(a, b)) == 0 {
		t.Error("another library makes no difference")
	}
}

func TestDamaged(t *testing.T) {
	for _, path := range []string{
		build(t, "t.c", sample), build(t, "t.c", switches, "-fno-function-sections"), build(t, "t.c", switches, "-fno-function-sections", "-O0"),
	} {
		object, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range object {
			for _, v := range []byte{0, 1, 8, 0x7f, 0xff} {
				b := bytes.Clone(object)
				b[i] = v
				if m, err := fromBytes(b, Options{}); err == nil {
					if _, err := manifest.Marshal(m); err != nil {
						t.Fatalf("byte %d set to %d: %v", i, v, err)
					}
				}
			}
		}
	}
}

func FuzzObject(f *testing.F) {
	if _, err := exec.LookPath("gcc"); err == nil {
		read := func(path string) {
			b, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
		o := build(f, "t.c", sample)
		read(o)
		run(f, filepath.Dir(o), "ar", "rcsD", "t.a", "t.o")
		read(filepath.Join(filepath.Dir(o), "t.a"))
		run(f, filepath.Dir(o), "gcc", "-shared", "-nostdlib", "-fPIC", "t.c", "-o", "t.so")
		read(filepath.Join(filepath.Dir(o), "t.so"))
		for _, flags := range modes {
			read(build(f, "t.c", switches, append([]string{"-fno-function-sections", "-fno-data-sections"}, flags...)...))
		}
		read(build(f, "t.cc", "void may(); struct A {}; int f() { try { may(); } catch (A &) { return 1; } return 0; } int g() { may(); return 2; }", "-fno-function-sections"))
		read(build(f, "t.S", ".text\n.globl a\na: jmp b\n.data\n.long a-b\nb: .quad b\n"))
	}
	if clang, err := exec.LookPath("clang"); err == nil {
		for _, flags := range [][]string{{"-O2"}, {"--target=aarch64-linux-gnu", "-O1"}, {"-Wa,--crel,--allow-experimental-crel"}} {
			b, err := os.ReadFile(compileWith(f, clang, "t.c", switches, append(flags, "-w")...))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Add([]byte(arMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := fromBytes(b, Options{})
		if err != nil {
			return
		}
		x, err := manifest.Marshal(m)
		if err != nil {
			t.Fatalf("an invalid manifest: %v", err)
		}
		m, _ = fromBytes(b, Options{})
		if y, _ := manifest.Marshal(m); !bytes.Equal(x, y) {
			t.Fatal("two manifests of one object differ")
		}
	})
}

func TestUniqueNames(t *testing.T) {
	var comps []*manifest.Component
	for _, n := range []string{"a", "a", "a#2", "a"} {
		comps = append(comps, &manifest.Component{Name: n})
	}
	manifest.NumberNames(comps)
	seen := map[string]bool{}
	for _, c := range comps {
		seen[c.Name] = true
	}
	if got := slices.Sorted(maps.Keys(seen)); len(got) != 4 {
		t.Errorf("names %q", got)
	}
}
