package objfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// What isn't ordinary counts as a whole, with the reason.
func TestUnusual(t *testing.T) {
	const asm = "int f(int x) { return x + 1; } __asm__(\"%s\"); int g(void); int h(void) { return g(); }"
	for _, tc := range []struct{ name, source, flags, want string }{
		{"32 bits", "", "-m32", "it isn't for x86-64"},
		{"another machine", "", "--target=aarch64-linux-gnu", "it isn't for x86-64"},
		{"big endian", "", "--target=powerpc64-linux-gnu", "it isn't for x86-64"},
		{"compact relocations", "", "-O1 -Wa,--crel,--allow-experimental-crel", "section .crel.text: its type 0x40000014 isn't known"},
		{"a type", `.section .text.x,\"ax\",@0x60000001\n.byte 1`, "", "section .text.x: its type 0x60000001 isn't known"},
		{"a flag", `.section .data.x,\"0x40000003\",@progbits\n.byte 1`, "", "section .data.x: its flags 0x40000000 aren't known"},
		{"an alignment", `.data\n.balign 8192\n.byte 1`, "", "section .data: it is aligned to 8192 bytes"},
		{"a name", `.section .odd,\"aw\"\n.byte 1`, "", "section .odd: its name isn't known"},
		{"a name with a dot", `.section .data.startup,\"aw\"\n.byte 1`, "", "section .data.startup: compilers don't give it that name"},
		{"initialisers of old", `.section .ctors,\"aw\"\n.quad 0`, "", "section .ctors: its name isn't known"},
		{"code that can be written", `.section .text.f,\"awx\",@progbits\nnop`, "", "section .text.f: it has other flags than compilers give it"},
		{"a set of such code", `.section set,\"awx\",@progbits\nnop`, "", "section set: it has code that can be written"},
		{"constants", `.section .rodata.cst4,\"aM\",@progbits,4\n.byte 1`, "", "section .rodata.cst4: its constants can't be merged one by one"},
		{"a string without an end", `.section .rodata.str1.1,\"aMS\",@progbits,1\n.byte 65`, "", "section .rodata.str1.1: its constants can't be merged one by one"},
		{"a table of strings", `.section .rodata.str1.1,\"aMS\",@progbits,1\ntwo: .asciz \"a\"\n.asciz \"b\"\n`, "", "section .rodata.str1.1: its constants can't be merged one by one"},
		{"a relocation", `.data\n.byte f`, "", "section .data: it has a relocation of type R_X86_64_8"},
		{"a size", `.data\n.quad f@SIZE`, "", "section .data: it has a relocation of type R_X86_64_SIZE64"},
		{"a distance", `.text\nlea f+0x7fffff00(%rip), %rax`, "", "section .text: it has a relocation that may not fit"},
		{"a thread", `.text\nlea v@gottpoff(%rip), %rax`, "", "section .text: it finds thread-local variables in another way than the psABI says"},
		{"tokens", `.section .tokens,\"\"\n.byte 1`, "", "section .tokens: it isn't loaded, and for no tool that is known"},
		{"the order of others", `l: nop\n.section set,\"ao\",@progbits,l\n.quad 1`, "", "section set: it is in the order of other sections"},
		{"a group", `.section .text.k,\"axG\",@progbits,k,comdat\n.weak k\nk: nop\nl: nop\n.data\n.quad l`, "", "section .data: it refers to a local symbol of the section group k, which a linker may drop"},
		{"an unwind table", `.section .eh_frame,\"a\",@unwind\n.long 0`, "", "section .eh_frame: compilers don't write such entries"},
		{"a number", `.globl n\n.set n, 42`, "", "symbol n: it is a number"},
		{"data without a type", `.globl d\n.data\nd: .quad 1`, "", "symbol d: it is data without a type"},
		{"data without bytes", `.globl d\n.type d,@object\n.data\nd: .quad 1`, "", "symbol d: it is data without bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			flags := append(strings.Fields(tc.flags), "-O0")
			if strings.Contains(tc.flags, "-O1") {
				flags = flags[:len(flags)-1]
			}
			o := compileWith(t, compiler(t, "clang", "clang-21"), "t.c", strings.Replace(asm, "%s", tc.source, 1), flags...)
			m, c := wholeUnit(t, o)
			if got := m.Fallbacks[0].Reason; got != tc.want {
				t.Errorf("reason %q, want %q", got, tc.want)
			}
			if names := c.DefinedNames(); !slices.Contains(names, "f") || !slices.Contains(names, "h") || slices.Contains(names, "g") {
				t.Errorf("it defines %q", names)
			}
			if names, _ := m.LinkNames(c); !slices.Contains(names, "g") || !slices.Contains(names, manifest.AnySymbol) {
				t.Errorf("it links to %q", names)
			}
			if !slices.ContainsFunc(m.Units[0].References, func(r *manifest.Reference) bool { return r.Name == "g" }) {
				t.Errorf("references %v", m.Units[0].References)
			}
			other := compileWith(t, compiler(t, "clang", "clang-21"), "t.c", strings.Replace(strings.Replace(asm, "%s", tc.source, 1), "x + 1", "x + 2", 1), flags...)
			if d := changed(m, load(t, other)); !slices.Contains(d, c.Name) {
				t.Errorf("an edit changed %q", d)
			}
		})
	}
}

// wholeUnit returns the manifest of an object that counts as a whole, and its component.
func wholeUnit(t *testing.T, o string) (*manifest.Manifest, *manifest.Component) {
	t.Helper()
	m := load(t, o)
	for _, c := range m.Components {
		if strings.HasPrefix(c.Root, "unit as a whole: ") && len(m.Fallbacks) == 1 && m.Fallbacks[0].Rung == manifest.Rung_RUNG_CONTENT && m.Fallbacks[0].Component == c.Name {
			if len(m.Components) != 2 || !strings.HasPrefix(m.Components[0].Name, manifest.Unusual) && !strings.HasPrefix(m.Components[1].Name, manifest.Unusual) {
				t.Errorf("components %v", m.Components)
			}
			return m, c
		}
	}
	t.Fatalf("it doesn't count as a whole: %v", m)
	return nil, nil
}

// What compilers make of ordinary code is ordinary, whatever they are told.
func TestOrdinary(t *testing.T) {
	const c = `
extern int shared, puts(const char *); int other(int), far(void) __attribute__((weak)), (*volatile call)(int) = other;
__thread int tls = 3, zeroed; extern __thread int elsewhere; static __thread long own2; static int count, started = 7;
static const char *const names[] = {"one", "two", "three"}; struct { int *at; char name[8]; } record = {&shared, "seven"}; int tentative[100];
static const double numbers[] = {1.5, 2.5, 3.5}; static __attribute__((noinline)) int same(int x) { return x + ++count; }
__attribute__((constructor)) static void start(void) { started++; } __attribute__((destructor(200))) static void end(void) { started++; }
__attribute__((section("my_set"), used)) static int entry = 4; _Alignas(64) char aligned[64] = {1};
__attribute__((cold)) int cold(int x) { return x + puts("cold"); } __attribute__((visibility("hidden"))) int hidden(int x) { return x ^ 5; }
int text(int x) { switch (x) { case 0: return puts("zero"); case 1: return puts(names[tls & 1]); case 2: return other(3); case 3: return same(x);
	case 4: return elsewhere + own2++; case 5: return far ? far() : 0; case 6: return call(5) + (call == other); case 7: return tls++ + zeroed++; }
	return numbers[x % 3] * x + shared + started + tentative[x] + *record.at + *(int *)L"wide"; }
`
	const cxx = `
#include <map>
#include <stdexcept>
#include <string>
struct base { virtual ~base() {} virtual int f(int x) { return x; } }; struct derived : base { int f(int x) override; std::string s = "a string"; };
inline int counter() { static int n = 1; return ++n; }
int derived::f(int x) { try { if (x < counter()) throw std::runtime_error("less"); return 3; } catch (const std::exception &e) { return e.what()[0]; } }
thread_local std::string local = "local"; std::map<std::string, int> *make() { return new std::map<std::string, int>{{"k", 1}, {local, 2}}; }
static derived object; base *get() { return &object; }
`
	for _, flags := range []string{
		"-O0", "-O2 -g -ffunction-sections -fdata-sections -fPIC", "-Os -fno-pic -fcommon -fno-plt", "-O2 -mcmodel=medium", "-O1 -fPIC -mtls-dialect=gnu2",
		"-O1 -fsanitize=address -fPIC -ffunction-sections", "-O1 -fsanitize=undefined", "-O1 -fsanitize=thread", "--coverage", "-O2 -fprofile-generate", "-O2 -fcf-protection -fstack-clash-protection -fstack-protector-strong -gz",
	} {
		for _, compiler := range []string{"gcc", "clang"} {
			for name, source := range map[string]string{"t.c": c, "t.cc": cxx} {
				if testing.Short() && (compiler == "gcc") == (name == "t.c") {
					continue
				}
				dir := t.TempDir()
				if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o666); err != nil {
					t.Fatal(err)
				}
				run(t, dir, compiler, append(strings.Fields(flags), "-c", name, "-o", "t.o")...)
				for _, f := range load(t, filepath.Join(dir, "t.o")).Fallbacks {
					if f.Rung == manifest.Rung_RUNG_CONTENT {
						t.Errorf("%s %s %s: %s", compiler, flags, name, f.Reason)
					}
				}
			}
		}
	}
}
