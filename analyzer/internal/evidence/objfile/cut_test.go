package objfile

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"golang.org/x/arch/x86/x86asm"
)

// together compiles without sections of their own for functions and variables:
// Bazel's default.
func together(t testing.TB, name, source string, flags ...string) *manifest.Manifest {
	t.Helper()
	return load(t, build(t, name, source, append([]string{"-fno-function-sections", "-fno-data-sections"}, flags...)...))
}

// modes are ways to compile that Bazel has.
var modes = [][]string{{"-O0"}, {"-O0", "-fPIC"}, {"-O0", "-fno-pic", "-no-pie"}, {"-O2"}, {"-O2", "-fPIC"}, {"-O2", "-fno-pic"}, {"-Os"}, {"-O2", "-g"}}

func inModes(t *testing.T, f func(t *testing.T, flags []string, optimised bool)) {
	for _, flags := range modes {
		t.Run(strings.Join(flags, ""), func(t *testing.T) { f(t, flags, flags[0] != "-O0") })
	}
}

const switches = `
int puts(const char *); int printf(const char *, ...);
int g(int);
static int counter;
static int calls(int x) { return counter += x; }
__attribute__((noinline)) int f(int x) { puts("hello"); return calls(x); }
__attribute__((noinline)) int g(int x) { puts("world"); return calls(x) + 1; }
__attribute__((noinline)) int choose(int x) {
	switch (x) {
	case 1: puts("one"); return 1; case 2: puts("two"); return calls(x) + 5; case 3: return puts("three"); case 4: return 8; case 5: return g(x); case 6: return 20;
	}
	return 0;
}
__attribute__((noinline)) int other(int x) {
	switch (x) {
	case 1: puts("uno"); return 2; case 2: puts("due"); return calls(x) + 6; case 3: return puts("tre"); case 4: return 9; case 5: return f(x); case 6: return 21;
	}
	return 0;
}
__attribute__((noinline)) double real(int x) { return x * 3.25 + 1.0; }
__attribute__((noinline)) int count(void) { static int n; return ++n; }
int main(void) { return f(1) + g(2) + choose(3) + other(4) + (int)real(5) + count(); }
`

// An edit of one function changes it and nothing else, wherever the others go.
func TestTogether(t *testing.T) {
	inModes(t, func(t *testing.T, flags []string, optimised bool) {
		flags = append(flags, "-fno-inline")
		base := together(t, "t.c", switches, flags...)
		if len(base.Fallbacks) > 0 {
			t.Errorf("not cut: %v", base.Fallbacks)
		}
		for _, tc := range []struct {
			name, old, new string
			want           []string
			literals       []string // without optimisation, if gcc's literals and tables together are another component
		}{
			{"nothing", "", "", nil, nil},
			{"body", "calls(x) + 1", "calls(x) * 3 + 1", []string{"g"}, nil},
			{"callee", "return calls(x); }", "return g(x); }", []string{"f"}, nil},
			{"literal", `"hello"`, `"good morning to all of you who are here"`, []string{"f"}, []string{".rodata", "choose", "g", "other", "real"}},
			{"float", "3.25", "4.75", []string{"real"}, []string{".rodata"}},
			{"case", "return 8", "return puts(\"four\")", []string{"choose"}, []string{".rodata", "choose", "other", "real"}},
			{"cases in another order", "case 4: return 8; case 5: return g(x);", "case 5: return 8; case 4: return g(x);", []string{"choose"}, nil},
			{"function added", "int puts", "int added(int x) { return x * 12345; }\nint puts", []string{"added"}, nil},
			{"static function added", "int main(void) {", "static int more(int x) { return x * 12345; }\nint main(void) { counter += more(counter);", []string{"main", "more"}, nil},
			{"renamed", "calls", "called", []string{"called", "calls"}, nil}, // see hashes below
			{"swapped", `__attribute__((noinline)) int g(int x) { puts("world"); return calls(x) + 1; }`, "int g(int);", []string{}, []string{".rodata", "choose", "g", "other"}},
		} {
			if !optimised && tc.literals != nil {
				tc.want = tc.literals
			}
			t.Run(tc.name, func(t *testing.T) {
				source := strings.Replace(switches, tc.old, tc.new, 1)
				if tc.name == "renamed" {
					source = strings.ReplaceAll(switches, tc.old, tc.new)
				}
				if tc.name == "swapped" {
					source += tc.old
				}
				m := together(t, "t.c", source, flags...)
				if tc.name == "renamed" {
					if d := cmp.Diff(hashes(base), hashes(m)); d != "" {
						t.Errorf("a name of a local function counts:\n%s", d)
					}
					return
				}
				got := changed(base, m)
				got = slices.DeleteFunc(got, func(n string) bool {
					// An assembler makes a jump to a near function shorter.
					short := optimised && (n == "choose" || n == "other") && !slices.Contains(tc.want, n)
					return n == manifest.DebugLines || short
				})
				if !slices.Equal(got, tc.want) {
					t.Errorf("changed %q, want %q", got, tc.want)
				}
			})
		}
	})
}

func hashes(m *manifest.Manifest) []string {
	var l []string
	for _, c := range m.Components {
		if c.Name != manifest.DebugLines && c.Name != manifest.LocalNames {
			l = append(l, fmt.Sprintf("%x", c.LocalHash))
		}
	}
	slices.Sort(l)
	return l
}

// Cut or compiled into sections of their own, the components and their links are
// the same.
func TestTogetherAsApart(t *testing.T) {
	graph := func(m *manifest.Manifest) map[string][]string {
		g := map[string][]string{}
		for _, c := range m.Components {
			names, _ := m.LinkNames(c)
			slices.Sort(names)
			g[c.Name] = slices.Compact(names)
		}
		return g
	}
	inModes(t, func(t *testing.T, flags []string, optimised bool) {
		apart, as := graph(load(t, build(t, "t.c", switches, flags...))), graph(together(t, "t.c", switches, flags...))
		if d := cmp.Diff(apart, as); d != "" {
			t.Errorf("-apart +together:\n%s", d)
		}
	})
}

// What optimised code refers to may be beside the place that a relocation
// names.
func TestFoldedPlaces(t *testing.T) {
	const source = `
static int before[4] = {1, 2, 3, 4};
static int array[16] = {5};
static int after = 6;
int sum(int n) { int s = 0; for (int i = n; i > 0; i--) s += array[i - 1]; return s; }
int get(void) { return before[0]++ + after++; }
int *first(void) { return array; }
`
	for _, flags := range [][]string{{"-O2"}, {"-O2", "-fPIC"}, {"-O2", "-fno-pic"}, {"-O1"}, {"-O0"}, {"-Os"}} {
		m := together(t, "t.c", source, flags...)
		reaches := reach(m, "sum")
		if slices.Contains(reaches, ".data") || slices.Contains(reaches, "array") {
			continue
		}
		t.Errorf("%v: sum reaches %q, not the array", flags, reaches)
	}
	// Counting from 1.
	const one = `
static int n = 1; static int v[4] = {1, 2, 3, 4}; static int last = 2;
int *const from1 = v - 1, *const from3 = v - 3;
int f(int i) { int *p = v - 1; return p[i]; }
int g(void) { return n + last; }
`
	for _, flags := range modes {
		m := together(t, "t.c", one, flags...)
		n := together(t, "t.c", strings.Replace(one, "3, 4}", "3, 5}", 1), flags...)
		for _, name := range []string{"f", "from1"} {
			if !slices.ContainsFunc(changed(m, n), func(c string) bool { return slices.Contains(reach(n, name), c) }) {
				t.Errorf("%v: %s reaches %q, not the array in front of which it points", flags, name, reach(n, name))
			}
		}
	}
	// The end of an array is where the next variable begins.
	const ends = `
static const int names[4] = {1, 2, 3, 4};
static const int next[4] = {5, 6, 7, 8};
const int *const end = names + 4;
const int *f(void) { return names + 4; }
int g(int i) { return next[i] + names[i]; }
`
	for _, flags := range modes {
		m := together(t, "t.c", ends, flags...)
		n := together(t, "t.c", strings.Replace(ends, "3, 4}", "3, 5}", 1), flags...)
		for _, name := range []string{"f", "end"} {
			if !slices.ContainsFunc(changed(m, n), func(c string) bool { return slices.Contains(reach(n, name), c) }) {
				t.Errorf("%v: %s doesn't reach the array at whose end it points", flags, name)
			}
		}
	}
}

// reach lists the names of all components of m that one reaches.
func reach(m *manifest.Manifest, from string) []string {
	var out []string
	var visit func(name string)
	visit = func(name string) {
		if slices.Contains(out, name) {
			return
		}
		out = append(out, name)
		for _, c := range m.Components {
			if c.Name == name || c.Defines(name) {
				names, _ := m.LinkNames(c)
				for _, n := range names {
					visit(n)
				}
			}
		}
	}
	visit(from)
	return out
}

// Strings in the middle of which a reference leads are one.
func TestPartsOfStrings(t *testing.T) {
	const source = `
int puts(const char *);
int f(void) { return puts("hello world"); }
int g(void) { return puts(&"hello world"[6]); }
int h(void) { return puts("another"); }
`
	for _, flags := range modes {
		m := together(t, "t.c", source, flags...)
		for _, tc := range []struct {
			old, new string
			want     []string
		}{
			{`"hello world"`, `"hello World"`, []string{"f", "g"}},
			{`"another"`, `"any other"`, []string{"h"}},
		} {
			if flags[0] == "-O0" {
				tc.want = []string{".rodata"} // all three are one
			}
			if d := changed(m, together(t, "t.c", strings.ReplaceAll(source, tc.old, tc.new), flags...)); !slices.Equal(slices.DeleteFunc(d, func(n string) bool { return n == manifest.DebugLines }), tc.want) {
				t.Errorf("%v: %s changed %q, want %q", flags, tc.old, d, tc.want)
			}
		}
	}
}

// A call of what follows is a call like any other.
func TestNextFunction(t *testing.T) {
	const source = "static int f(int x), g(int x); int main(void) { return f(2) * g(4); }\n%s%s"
	const f, g = "static int f(int x) { return x + 1; }\n", "static int g(int x) { return x * 3; }\n"
	a, b := together(t, "t.c", fmt.Sprintf(source, f, g), "-O0"), together(t, "t.c", fmt.Sprintf(source, g, f), "-O0")
	if d := changed(a, b); len(d) > 0 {
		t.Errorf("changed %q", d)
	}
}

// Handlers of exceptions and tables for the unwinder belong to their function.
func TestHandlersTogether(t *testing.T) {
	const source = `
void may(); struct A {}; struct B {}; struct Guard { ~Guard(); };
int f() { try { may(); } catch (A &) { return 1; } return 0; }
int g() { may(); return 2; }
int h() { Guard a; may(); return 3; }
int k() { try { Guard a; may(); } catch (...) { return 4; } return 5; }
`
	inModes(t, func(t *testing.T, flags []string, _ bool) {
		m := together(t, "t.cc", source, flags...)
		for _, tc := range []struct {
			old, new, want string
		}{
			{"catch (A &)", "catch (B &)", "_Z1fv"},
			{"catch (...)", "catch (A)", "_Z1kv"},
			{"int g() {", "int g() noexcept {", "_Z1gv"},
			{"Guard a; may(); return 3;", "may(); Guard a; may(); return 3;", "_Z1hv"},
		} {
			n := together(t, "t.cc", strings.Replace(source, tc.old, tc.new, 1), flags...)
			var functions []string
			for _, c := range changed(m, n) {
				if strings.HasSuffix(c, "v") {
					functions = append(functions, c)
				}
			}
			if !slices.Equal(functions, []string{tc.want}) {
				t.Errorf("%s to %s changed %q, want %s", tc.old, tc.new, functions, tc.want)
			}
		}
	})
}

// What people write in assembly counts together where it can't be taken apart.
func TestHandWritten(t *testing.T) {
	for name, tc := range map[string]struct {
		source string
		// Components that must reach the last one.
		from, to string
	}{
		"falls into the next":  {`__asm__(".text\n.globl a\n.type a,@function\na: mov $1, %eax\n.size a,.-a\n.globl b\n.type b,@function\nb: ret\n.size b,.-b");`, "a", "b"},
		"falls over padding":   {`__asm__(".text\n.globl a\n.type a,@function\na: mov $1, %eax\n.size a,.-a\n.p2align 4\n.globl b\n.type b,@function\nb: ret\n.size b,.-b");`, "a", "b"},
		"call at the end":      {`__asm__(".text\n.globl a\n.type a,@function\na: call c\n.size a,.-a\n.globl b\n.type b,@function\nb: ret\n.size b,.-b\n.globl c\n.type c,@function\nc: ret\n.size c,.-c");`, "a", "b"},
		"jumps into another":   {`__asm__(".text\n.globl a\n.type a,@function\na: jmp .Lmid\n.size a,.-a\n.globl b\n.type b,@function\nb: nop\n.Lmid: ret\n.size b,.-b");`, "a", "b"},
		"no sizes":             {`__asm__(".text\n.globl a\na: jmp *%rax\n.globl b\nb: ret");`, ".text", ".text"},
		"no symbol between":    {`__asm__(".text\n.globl a\n.type a,@function\na: ret\n.size a,.-a\n mov $2, %eax\n.globl b\n.type b,@function\nb: ret\n.size b,.-b");`, ".text", ".text"},
		"data in code":         {`__asm__(".text\n.globl a\n.type a,@function\na: jmp 1f\n.byte 0xe8, 1, 0\n1: jmp b\n.size a,.-a\n.globl b\n.type b,@function\nb: ret\n.size b,.-b");`, ".text", ".text"},
		"empty function":       {`__asm__(".text\n.globl a\n.type a,@function\na:\n.size a,0\n.globl b\n.type b,@function\nb: ret\n.size b,.-b");`, "a", "a"},
		"pushsection":          {`int puts(const char *); __asm__(".pushsection set,\"a\"\n.quad b\n.popsection"); int b(void) { return puts("x"); } int a(void) { return 1; }`, "set", "b"},
		"overlapping":          {`__asm__(".text\n.globl a\n.type a,@function\na: nop\n.globl b\n.type b,@function\nb: ret\n.size a,.-a\n.size b,.-b");`, ".text", ".text"},
		"beyond a symbol":      {`__asm__(".data\n.globl a\n.type a,@object\na: .long 1\n.size a,4\nb: .long 2\n.size b,4\n.text\n"); extern int a; int f(void) { int r; __asm__("movl a+4(%%rip), %0" : "=r"(r)); return r; }`, "f", "b"},
		"in front of a symbol": {`__asm__(".data\nb: .long 1\n.size b,4\n.globl a\n.type a,@object\na: .long 2\n.size a,4\n.text\n"); extern int a; int f(void) { int r; __asm__("movl a-4(%%rip), %0" : "=r"(r)); return r; }`, "f", "b"},
		"beyond the section":   {`__asm__(".text\n.globl a\n.type a,@function\na: mov $1, %eax\n.size a,.-a\n");`, "a", manifest.AnySymbol},
	} {
		t.Run(name, func(t *testing.T) {
			m := together(t, "t.c", tc.source, "-O2")
			find(t, m, tc.from)
			if r := reach(m, tc.from); !slices.Contains(r, tc.to) {
				t.Errorf("%s reaches %q, not %s", tc.from, r, tc.to)
			}
		})
	}
	// Assembly without a compiler: a section is one component.
	m := together(t, "t.S", ".text\n.globl a\n.type a,@function\na: ret\n.size a,.-a\n.globl b\n.type b,@function\nb: ret\n.size b,.-b\n")
	if c := find(t, m, ".text"); len(c.Definitions) != 2 {
		t.Errorf("definitions %v", c.Definitions)
	}
}

// How linkers choose among definitions.
func TestDefinitions(t *testing.T) {
	const source = `
__attribute__((visibility("protected"))) int prot(void) { return 1; }
__attribute__((visibility("hidden"))) int hid(void) { return 2; }
__attribute__((weak)) int weak(void) { return 3; }
int old(void) { return 4; } int new(void) { return 5; }
__asm__(".symver old,api@V1\n.symver new,api@@V2");
int common; extern int undefined, maybe __attribute__((weak)), concealed __attribute__((visibility("hidden")));
int *uses(int i) { return i == 1 ? &undefined : i == 2 ? &concealed : &maybe; }
static int target(void) { return 6; } int alias(void) __attribute__((alias("target")));
`
	m := together(t, "t.c", source, "-fcommon", "-fPIC")
	got := map[string]string{}
	for _, c := range m.Components {
		for _, d := range c.Definitions {
			got[d.Name] = strings.ToLower(fmt.Sprint(strings.TrimPrefix(d.Binding.String(), "BINDING_"), " ", strings.TrimPrefix(d.Visibility.String(), "VISIBILITY_"), " ", d.Size))
		}
	}
	want := map[string]string{
		"prot": "global protected 0", "hid": "global hidden 0", "weak": "weak default 0", "common": "common default 4",
		"old": "global default 0", "new": "global default 0", "api@V1": "global default 0", "api@@V2": "global default 0",
		"uses": "global default 0", "alias": "global default 0",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("definitions (-want +got):\n%s", d)
	}
	var refs []string
	for _, x := range m.Units[0].References {
		refs = append(refs, fmt.Sprint(x.Name, " ", x.Weak, " ", x.Visibility))
	}
	slices.Sort(refs) // they are in the order of the symbol table
	if d := cmp.Diff([]string{"_GLOBAL_OFFSET_TABLE_ false VISIBILITY_DEFAULT", "concealed false VISIBILITY_HIDDEN", "maybe true VISIBILITY_DEFAULT", "undefined false VISIBILITY_DEFAULT"}, refs); d != "" {
		t.Errorf("references (-want +got):\n%s", d)
	}

	m = together(t, "t.cc", `inline int counter() { static int n; return ++n; } int use() { return counter(); }`)
	c, n := find(t, m, "_Z7counterv"), find(t, m, "_ZZ7countervE1n")
	if c.Group != "_Z7counterv" || c.Linkage != manifest.Linkage_LINKAGE_WEAK || n.Group == "" || n.Definitions[0].Binding != manifest.Binding_BINDING_UNIQUE {
		t.Errorf("inline function %v with static variable %v", c, n)
	}
}

// A reference through a symbol is the linker's, even if the object defines it.
func TestLinksBySymbol(t *testing.T) {
	const source = `int f(void) { return 1; } static int l(void) { return 2; } int g(void) { return f() + l(); }`
	for _, m := range []*manifest.Manifest{together(t, "t.c", source, "-fPIC"), load(t, build(t, "t.c", source, "-fPIC"))} {
		got := map[string]bool{}
		c := find(t, m, "g")
		names, own := m.LinkNames(c)
		for i, n := range names {
			got[n] = own[i]
		}
		if d := cmp.Diff(map[string]bool{"f": false, "l": true}, got); d != "" {
			t.Errorf("links of g (-want +got):\n%s", d)
		}
	}
}

// inChroot runs a compiler that may not be installed outside of the build's root.
func compiler(t testing.TB, names ...string) string {
	for _, n := range names {
		if path, err := exec.LookPath(n); err == nil {
			return path
		}
	}
	t.Skipf("SKIPPED: none of %q", names)
	return ""
}

func compileWith(t testing.TB, compiler, name, source string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	run(t, dir, compiler, append([]string{"-c", name, "-o", "t.o"}, flags...)...)
	return filepath.Join(dir, "t.o")
}

// clang: other jump tables, other strings, other unwind tables.
func TestClang(t *testing.T) {
	clang := compiler(t, "clang", "clang-21")
	for _, flags := range [][]string{{"-O0"}, {"-O2"}, {"-O2", "-fPIC"}, {"-O2", "-fPIC", "-fno-semantic-interposition"}} {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			flags = append(flags, "-w")
			m := load(t, compileWith(t, clang, "t.c", switches, flags...))
			for _, tc := range []struct {
				old, new string
				want     []string
			}{
				{"calls(x) + 1", "calls(x) * 3 + 1", []string{"g"}},
				{`"hello"`, `"good morning"`, []string{"f"}},
				{"return 8", "return puts(\"four\")", []string{"choose"}},
				{"int puts", "int added(int x) { return x * 12345; }\nint puts", []string{"added"}},
			} {
				n := load(t, compileWith(t, clang, "t.c", strings.Replace(switches, tc.old, tc.new, 1), flags...))
				if d := changed(m, n); !slices.Equal(d, tc.want) {
					t.Errorf("%s to %s changed %q, want %q", tc.old, tc.new, d, tc.want)
				}
			}
		})
	}
}

// The length decoder agrees with full ones on real code.
func TestDecodeX86(t *testing.T) {
	object, err := os.ReadFile(build(t, "t.c", switches, "-O2"))
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	f, err := parse(object)
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.sections {
		b := f.sections[i].data
		for at := 0; f.sections[i].executable() && at < len(b); {
			in, ok := decodeX86(b[at:])
			want, err := x86asm.Decode(b[at:], 64)
			if !ok || err != nil || want.Len != in.size {
				t.Fatalf("%x: %d bytes, want %d (%v)", b[at:min(at+15, len(b))], in.size, want.Len, want)
			}
			if relative := want.PCRel > 0; relative != (in.rel > 0) || relative && (want.PCRelOff != in.rel || want.PCRel != in.relSize) {
				t.Errorf("%x: relative field at %d of %d bytes, want %d of %d (%v)", b[at:at+in.size], in.rel, in.relSize, want.PCRelOff, want.PCRel, want)
			}
			at += in.size
			compared++
		}
	}
	if compared < 100 {
		t.Errorf("%d instructions compared", compared)
	}
}

// The C library has the newest vector instructions.
func TestDecodeLibrary(t *testing.T) {
	const archive = "/usr/lib/x86_64-linux-gnu/libc.a"
	b, err := os.ReadFile(archive)
	if err != nil {
		t.Skip("SKIPPED: ", err)
	}
	out, err := exec.Command("objdump", "-dw", "--no-show-raw-insn", archive).Output()
	if err != nil {
		t.Skip("SKIPPED: ", err)
	}
	// Where instructions begin, by member, in order, and section.
	var listed []map[string]map[uint64]string
	var starts map[uint64]string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "file format") {
			listed = append(listed, map[string]map[uint64]string{})
		} else if name, ok := strings.CutPrefix(line, "Disassembly of section "); ok {
			starts = map[uint64]string{}
			listed[len(listed)-1][strings.TrimSuffix(name, ":")] = starts
		} else if at, text, ok := strings.Cut(line, ":\t"); ok {
			if n, err := strconv.ParseUint(at, 16, 64); err == nil {
				starts[n] = text
			}
		}
	}
	members, err := readArchive(b)
	if err != nil || len(members) != len(listed) {
		t.Fatalf("%v, %d members, %d listed", err, len(members), len(listed))
	}
	compared := 0
	for i, m := range members {
		f, err := parse(m.data)
		if err != nil {
			t.Fatal(err)
		}
		for k := range f.sections {
			s := &f.sections[k]
			for _, j := range slices.Concat(s.locals, s.globals) {
				y := &f.syms[j]
				if !s.executable() || y.typ() != elf.STT_FUNC {
					continue
				}
				for at, end := y.value, y.value+y.size; at < end; {
					in, ok := decodeX86(s.data[at:end])
					text, begins := listed[i][s.name][at]
					_, ends := listed[i][s.name][at+uint64(in.size)]
					if !ok || !begins || !ends && at+uint64(in.size) < s.size {
						t.Fatalf("%s: %s+%#x (%s): %d bytes, %v", m.name, y.name, at-y.value, text, in.size, ok)
					}
					if rip := strings.Contains(text, "(%rip)"); rip != (in.rel > 0 && !in.branch) {
						t.Fatalf("%s: %s+%#x (%s): relative to its place: %v", m.name, y.name, at-y.value, text, in)
					}
					at += uint64(in.size)
					compared++
				}
			}
		}
	}
	t.Logf("%d instructions compared", compared)
}

// Encodings that compilers rarely emit.
func TestDecodeX86Vectors(t *testing.T) {
	for _, tc := range []struct {
		code      string
		size, rel int
	}{
		{"\xc5\xf8\x77", 3, 0},                                     // vzeroupper
		{"\xc5\xfb\x10\x05\x01\x00\x00\x00", 8, 4},                 // vmovsd 1(%rip), %xmm0
		{"\xc4\xe3\x7d\x39\xc0\x01", 6, 0},                         // vextracti128 $1
		{"\xc4\xe2\x7d\x18\x05\x00\x00\x00\x00", 9, 5},             // vbroadcastss (%rip)
		{"\xc5\xfd\x70\x05\x00\x00\x00\x00\x1b", 9, 4},             // vpshufd $0x1b, (%rip)
		{"\x62\xf1\x7c\x48\x28\x05\x00\x00\x00\x00", 10, 6},        // vmovaps (%rip), %zmm0
		{"\x62\xf3\x7d\x48\x3b\xc0\x01", 7, 0},                     // vextracti32x8 $1
		{"\x66\x0f\x3a\x0f\x05\x00\x00\x00\x00\x08", 10, 5},        // palignr $8, (%rip)
		{"\x66\x0f\x38\x00\x05\x00\x00\x00\x00", 9, 5},             // pshufb (%rip)
		{"\x8f\xe8\x78\xc0\xc1\x05", 6, 0},                         // vprotb $5 (XOP)
		{"\x66\x66\x48\xe8\x00\x00\x00\x00", 8, 4},                 // call __tls_get_addr
		{"\xc7\xf8\x00\x00\x00\x00", 6, 2},                         // xbegin
		{"\x48\xb8\x01\x02\x03\x04\x05\x06\x07\x08", 10, 0},        // movabs
		{"\x64\x48\x8b\x04\x25\x28\x00\x00\x00", 9, 0},             // mov %fs:0x28, %rax
		{"\xf6\x05\x00\x00\x00\x00\x01", 7, 2},                     // testb $1, (%rip)
		{"\xf7\x15\x00\x00\x00\x00", 6, 2},                         // notl (%rip)
		{"\x66\xc7\x05\x00\x00\x00\x00\x01\x00", 9, 3},             // movw $1, (%rip)
		{"\xd5\x00\x90", 0, 0},                                     // REX2
		{"\x62\xf4\x7c\x08\x01\xc0", 0, 0},                         // APX
		{"\x66\xe8\x00\x00\x00\x00", 0, 0},                         // processors differ
		{"\x06", 0, 0}, {"\x48", 0, 0}, {"\xe8\x00\x00", 0, 0}, {}, // damaged
	} {
		in, ok := decodeX86([]byte(tc.code))
		if ok != (tc.size > 0) || in.size != tc.size && ok || ok && in.rel != tc.rel {
			t.Errorf("%x: size %d, field at %d, %v: want %d, %d", tc.code, in.size, in.rel, ok, tc.size, tc.rel)
		}
	}
}

func BenchmarkObject(b *testing.B) {
	const source = "#include <algorithm>\n#include <functional>\n#include <iostream>\n#include <map>\n#include <regex>\n#include <string>\n" +
		"std::map<std::string, std::function<int(int)>> ops; std::regex re(\"a(b|c)*\"); int f(std::string &s) { std::smatch m; std::sort(s.begin(), s.end()); return regex_match(s, m, re) + ops.size(); }\n"
	for name, flags := range map[string][]string{"O0": {"-O0"}, "O0debug": {"-O0", "-g"}, "O2": {"-O2"}} {
		path := build(b, "t.cc", source, append(flags, "-fno-function-sections", "-fno-data-sections", "-finline")...)
		content, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(content)))
			for b.Loop() {
				m, err := fromBytes(content, Options{})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := manifest.Marshal(m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
