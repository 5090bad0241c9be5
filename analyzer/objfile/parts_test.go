package objfile

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What compilers and linkers do in all the ways that differ: each link is explained
// by its objects.
var ordinaryParts = map[string]string{
	"main.c": "int text(int); int main(int n, char **v) { return text(n); }",
	"a.c": `
extern int shared, puts(const char *); int other(int), far(void) __attribute__((weak)), (*volatile call)(int) = other;
__thread int tls = 3, zeroed; extern __thread int elsewhere; static __thread long own = 5, own2;
static int count, started = 7; static const char *const names[] = {"one", "two", "three"}; extern const char *list[];
static const double numbers[] = {1.5, 2.5, 3.5}; struct { int *at; char name[8]; } record = {&shared, "seven"}; int tentative[100];
static __attribute__((noinline)) int same(int x) { return x + ++count; }
__attribute__((constructor)) static void start(void) { started++; }
__attribute__((weak)) int twice(int x) { return 2 * x; }
int alias(int) __attribute__((alias("twice"))); __attribute__((visibility("hidden"))) int hid(int x) { return x ^ 5; }
int text(int x) { switch (x) { case 0: return puts("zero"); case 1: return puts(names[tls & 1]); case 2: return other(3); case 3: return same(x);
	case 4: return elsewhere + own2++; case 5: return far ? far() : 0; case 6: return call(5) + (call == other); case 7: return tls++ + zeroed++ + own++; }
	return numbers[x % 3] * x + shared + started + tentative[x] + list[0][1]; }
int floats(float x) { return x * 3.25f + 1e10; }
`,
	"b.c": `
int puts(const char *), hid(int), twice(int); int shared = 4; __thread int elsewhere = 9; static int count = 2; extern __thread int tls;
static __attribute__((noinline)) int same(int x) { return x + ++count; }
static int third(int x) { return same(x) + 3; } int (*const table[])(int) = {third, twice, hid};
const char *list[] = {"two", "three", "wo"};
int other(int x) { return same(x) + table[x & 1](x) + hid(x) + (puts == 0) + tls + elsewhere + (hid == twice); }
void *address(int x) { return x ? (void *)&tls : x < -1 ? (void *)&elsewhere : (void *)puts; }
`,
	"c.cc": `
#include <map>
#include <stdexcept>
#include <string>
struct base { virtual ~base() {} virtual int f(int x) { return x; } }; struct derived : base { int f(int x) override; std::string s = "a string"; };
inline int counter() { static int n = 1; return ++n; }
template <class T> T larger(T a, T b) { if (a < b) throw std::runtime_error("less"); return a; }
int derived::f(int x) { try { return larger(x, counter()); } catch (const std::exception &e) { return e.what()[0]; } }
thread_local std::string local = "local"; std::map<std::string, int> *make() { return new std::map<std::string, int>{{"k", 1}, {local, 2}}; }
static derived object; base *get() { return &object; } extern "C" int other(int); int ((*pointer)(int)) = other;
`,
	"d.cc": `
#include <map>
#include <string>
inline int counter() { static int n = 1; return ++n; }
static __attribute__((noinline)) int same(int x) { return x + counter(); } std::map<std::string, int> *make();
int last(int x) { return same(x) + make()->at("k") + (dynamic_cast<std::string *>((std::string *)nullptr) != nullptr); }
`,
}

// compileParts compiles files into objects beside each other.
func compileParts(t testing.TB, sources map[string]string, compiler string, flags ...string) (objects []string) {
	t.Helper()
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skipf("SKIPPED: no %s", compiler)
	}
	dir := t.TempDir()
	for _, name := range []string{"main.c", "a.c", "b.c", "c.cc", "d.cc"} {
		if content, ok := sources[name]; ok {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
			o := filepath.Join(dir, name+".o")
			run(t, dir, compiler, append([]string{"-c", name, "-o", o}, flags...)...)
			objects = append(objects, o)
		}
	}
	return objects
}

func TestLinkedAsUsual(t *testing.T) {
	for _, flags := range []string{
		"gcc -O0 -fPIC", "gcc -O2 -fPIC -ffunction-sections -fdata-sections -mtls-dialect=gnu2", "gcc -O2 -fno-pic -no-pie", "gcc -Os -fPIE -pie -g -fno-plt -fcf-protection",
		"clang -O0 -fPIC -ffunction-sections", "clang -O2 -fPIC -fcommon -fvisibility=hidden -fno-plt", "clang -O2 -fno-pic -no-pie", "clang -O2 -fPIE -pie -mtls-dialect=gnu2",
	} {
		t.Run(flags, func(t *testing.T) {
			flags := strings.Fields(flags)
			compile := slices.DeleteFunc(slices.Clone(flags[1:]), func(f string) bool { return strings.HasSuffix(f, "-pie") })
			objects := compileParts(t, ordinaryParts, flags[0], compile...)
			kinds := []string{"-shared", "-shared -Wl,-Bsymbolic,--gc-sections,-O2", "-shared -Wl,-z,pack-relative-relocs,-z,now,--no-relax", "-no-pie"}
			if !slices.Contains(compile, "-fPIC") {
				kinds = []string{"-no-pie"}
				if slices.Contains(compile, "-fPIE") {
					kinds = []string{"-pie"}
				}
			}
			for _, linker := range []string{"bfd", "lld"} {
				if _, err := exec.LookPath("ld." + linker); err != nil {
					continue
				}
				for _, kind := range kinds {
					parts := objects
					if linker == "lld" && len(kinds) == 1 { // copies of variables without a version aren't known
						parts = parts[:3]
					}
					args := append(slices.Clone(parts), "-fuse-ld="+linker, "-lstdc++")
					file := linkFiles(t, "linked", append(args, strings.Fields(kind)...)...)
					if _, why := linkedManifests(t, file, parts...); why != "" {
						t.Errorf("%s %s: %s", linker, kind, why)
					}
				}
			}
		})
	}
}

// Static programs, and what has no library here.
func TestLinkedAlone(t *testing.T) {
	sources := map[string]string{"a.c": ordinaryParts["a.c"], "b.c": ordinaryParts["b.c"],
		"main.c": "int text(int); int puts(const char *s) { return *s; } int __tls_get_addr; void _start(void) { text(1); }"}
	for _, how := range []string{
		"gcc -O2 -static -fuse-ld=bfd", "gcc -O2 -fPIC -static -fuse-ld=lld", "clang -O2 -static -fuse-ld=lld", "clang -O0 -static -fuse-ld=bfd", "clang -O2 -fPIE -static-pie -fuse-ld=lld",
		"clang --target=aarch64-linux-gnu -O2 -fPIC -shared -fuse-ld=lld", "clang --target=aarch64-linux-gnu -O0 -static -fuse-ld=lld",
		"clang --target=aarch64-linux-gnu -O2 -fPIC -ffunction-sections -static -fuse-ld=lld", "clang -m32 -O2 -fPIC -shared -fuse-ld=lld", "clang -m32 -O0 -static -fuse-ld=lld",
		"gcc -m32 -O2 -fPIC -shared -fuse-ld=bfd", "gcc -m32 -O2 -fPIC -static -fuse-ld=bfd",
	} {
		t.Run(how, func(t *testing.T) {
			flags := strings.Fields(how)
			isLink := func(f string) bool {
				return strings.HasPrefix(f, "-static") || f == "-shared" || strings.HasPrefix(f, "-fuse-ld")
			}
			objects := compileParts(t, sources, flags[0], append(slices.DeleteFunc(slices.Clone(flags[1:]), isLink), "-fno-stack-protector")...)
			run(t, filepath.Dir(objects[0]), flags[0], append(append(flags[1:], "-nostdlib", "-o", "linked"), objects...)...)
			if _, why := linkedManifests(t, filepath.Join(filepath.Dir(objects[0]), "linked"), objects...); why != "" {
				t.Error(why)
			}
		})
	}
}

// Fields at the end of a section that are shorter than most, or nothing.
func TestLinkedShortFields(t *testing.T) {
	a := build(t, "a.S", ".globl _start\n_start: ret\n.data\n.globl b\n.type b, @object\n.size b, 1\nb: .byte small\n.reloc b, R_X86_64_NONE, b\n.section .note.GNU-stack\n")
	b := build(t, "b.S", ".globl small\nsmall = 5\n.section .note.GNU-stack\n")
	if _, why := linkedManifests(t, linkFiles(t, "t", a, b, "-static", "-no-pie", "-nostdlib"), a, b); why != "" {
		t.Error(why)
	}
}

// A library that was compiled in another way than its objects, with the same symbols.
func TestLinkedOfOthers(t *testing.T) {
	const source = `
int puts(const char *), one(int), two(int); extern int v1, v2; static int counter = 7, counters[2] = {5, 6}; __thread int own = 7; int v1 = 3, v2 = 3; int common;
static int used(int x) { return x * 3 + counter; } static int other(int x) { return x * 5 + counters[0]; }
const char *const list[] = {"first"}; int one(int x) { return x + 1; } int two(int x) { return x + 2; } int (*pointer)(int) = one, *address = &v1;
int f(int x) { puts("hello"); return one(x) + v1 + own; } int g(int x) { return used(x) + other(x); }
int h(int x) { switch (x) { case 0: return 5; case 1: return 19; case 2: return one(7); case 3: return two(9); case 4: return -1; case 5: return 12; } return 0; }
double d(double x) { return x * 2.75; } int equal1(int x) { return x * 77; } int equal2(int x) { return x * 77; }
`
	for _, how := range []string{"gcc bfd -O1 -fPIC -fno-inline", "gcc lld -O1 -fPIC -fno-inline -ffunction-sections -fno-plt", "clang lld -O1 -fPIC -fno-inline", "clang bfd -O1 -fPIC -fno-inline -fdata-sections -fno-plt"} {
		flags := strings.Fields(how)
		compiler, linker, flags := flags[0], flags[1], flags[2:]
		if _, err := exec.LookPath("ld." + linker); err != nil {
			continue
		}
		parts := compileParts(t, map[string]string{"a.c": source}, compiler, flags...)
		link := func(object string, flags ...string) string {
			_, why := linkedManifests(t, linkFiles(t, "liba.so", append([]string{object, "-shared", "-fuse-ld=" + linker}, flags...)...), parts...)
			return why
		}
		if why := link(parts[0]); why != "" {
			t.Errorf("%s: %s", how, why)
		}
		for _, edit := range [][2]string{
			{"x + 1", "x + 3"}, {"x * 3", "x * 9"}, {"counter = 7", "counter = 8"}, {"{5, 6}", "{9, 6}"}, {"own = 7", "own = 8"},
			{`"hello"`, `"hallo"`}, {`"first"`, `"worst"`}, {"return one(x)", "return two(x)"}, {"+ v1", "+ v2"}, {"= one,", "= two,"}, {"&v1", "&v2"},
			{"used(x) + other(x)", "other(x) + used(x)"}, {"return 19", "return 18"}, {"2.75", "3.75"}, {"one(7)", "two(7)"},
		} {
			objects := compileParts(t, map[string]string{"a.c": strings.Replace(source, edit[0], edit[1], 1)}, compiler, flags...)
			if why := link(objects[0]); !strings.HasSuffix(why, "but not as in its known objects") {
				t.Errorf("%s, %q: %q", how, edit, why)
			}
		}
		if slices.Contains(flags, "-ffunction-sections") {
			if why := link(parts[0], "-Wl,--icf=none"); why != "" {
				t.Errorf("%s, --icf=none: %s", how, why)
			}
			if why := link(parts[0], "-Wl,--icf=all"); why != "equal1 and equal2 have one address in it, but not in its known objects" {
				t.Errorf("%s, --icf=all: %q", how, why)
			}
			parts = compileParts(t, map[string]string{"a.c": `
static int a(int x) { return x * 7; } static int b(int x) { return x * 7; } int f(void) { int (*volatile p)(int) = a, (*volatile q)(int) = b; return p == q; }`}, compiler, flags...)
			if why := link(parts[0], "-Wl,--icf=all,-x"); why != "f is in it, but not as in its known objects" {
				t.Errorf("%s, --icf=all of functions without symbols: %q", how, why)
			}
		}
	}
}

// Of a linked file's functions and variables each byte counts, but for what a loader writes.
func TestLinkedFlipped(t *testing.T) {
	sources := map[string]string{"main.c": ordinaryParts["main.c"], "a.c": ordinaryParts["a.c"], "b.c": ordinaryParts["b.c"]}
	for _, how := range []string{"gcc -O2 -fPIC bfd -shared", "gcc -O2 -fPIC -fno-plt lld -no-pie", "gcc -O2 -fPIC -mtls-dialect=gnu2 lld -shared", "gcc -O2 -fPIC -mtls-dialect=gnu2 bfd -pie", "clang -O0 -fPIC -fno-plt lld -shared", "clang -O2 -fno-pic bfd -no-pie", "gcc -O1 -fPIE -ffunction-sections lld -pie"} {
		t.Run(how, func(t *testing.T) {
			flags := strings.Fields(how)
			n := len(flags) - 2
			if _, err := exec.LookPath("ld." + flags[n]); err != nil {
				t.Skipf("SKIPPED: no ld.%s", flags[n])
			}
			objects := compileParts(t, sources, flags[0], flags[1:n]...)
			file := linkFiles(t, "linked", append(slices.Clone(objects), "-fuse-ld="+flags[n], flags[n+1])...)
			if _, why := linkedManifests(t, file, objects...); why != "" {
				t.Fatal(why)
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			l, err := readLinked(b)
			if err != nil {
				t.Fatal(err)
			}
			syms, err := l.Symbols()
			if err != nil {
				t.Fatal(err)
			}
			relocs, err := l.dynamicRelocs()
			if err != nil {
				t.Fatal(err)
			}
			tls := uint64(0)
			for _, p := range l.Progs {
				if p.Type == elf.PT_TLS {
					tls = p.Vaddr
				}
			}
			written := map[uint64]bool{}
			for _, r := range relocs {
				for k := range uint64(8) {
					written[r.offset+k] = true
				}
			}
			flipped := 0
			for _, s := range syms {
				if s.Section == elf.SHN_UNDEF || int(s.Section) >= len(l.Sections) || strings.HasPrefix(s.Name, "_") || s.Name == "main" {
					continue
				}
				in := l.Sections[s.Section]
				for k := range s.Size {
					if written[s.Value+k] || in.Type != elf.SHT_PROGBITS {
						continue
					}
					at := in.Offset + s.Value - in.Addr + k
					if elf.ST_TYPE(s.Info) == elf.STT_TLS {
						at += tls
					}
					b[at] ^= 1
					if x, err := readLinked(b); err == nil {
						if _, why := x.explain(objects); why == "" {
							t.Errorf("byte %d of %s in %s doesn't count", k, s.Name, in.Name)
						}
					}
					b[at] ^= 1
					flipped++
				}
			}
			if flipped < 300 {
				t.Errorf("only %d bytes were tried", flipped)
			}
		})
	}
}

// Of any bytes it is told in bounded time whether objects account for them, and nothing breaks.
func FuzzLinked(f *testing.F) {
	sources := map[string]string{"main.c": ordinaryParts["main.c"], "a.c": ordinaryParts["a.c"], "b.c": ordinaryParts["b.c"]}
	objects := compileParts(f, sources, "gcc", "-O1", "-fPIC")
	for _, kind := range []string{"-shared", "-no-pie", "-pie"} {
		b, err := os.ReadFile(linkFiles(f, "linked", append(slices.Clone(objects), kind)...))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := readLinked(b)
		if err != nil {
			return
		}
		if _, why := l.explain(objects); strings.Contains(why, "runtime error") {
			t.Error(why)
		}
	})
}

// Libraries whose files were compiled of other sources than their known objects, with the same names and sizes; and such
// as are made of these, in ways that are easily taken for another.
func TestLinkedOfWhat(t *testing.T) {
	for _, c := range []struct {
		name, flags, link string
		known, linked     map[string]string // a.c, b.c and main.c; none for what is known
		want              bool
	}{
		{"an address comes to be", "-fdata-sections", "", map[string]string{"a.c": "int x; int *at;"}, map[string]string{"a.c": "int x; int *at = &x;"}, false},
		{"an address goes", "", "", map[string]string{"a.c": "int x; int *at = &x;"}, map[string]string{"a.c": "int x; int *at;"}, false},
		{"a number becomes an address", "-fdata-sections", "", map[string]string{"a.c": "int x; long v[2] = {0, 5};"}, map[string]string{"a.c": "int x; long v[2] = {(long)&x, 5};"}, false},
		{"two variables become one", "", "", map[string]string{"a.c": "static int n; int f(void) { return ++n; }", "b.c": "static int n; int g(void) { return ++n; }"},
			map[string]string{"a.c": "__attribute__((visibility(\"hidden\"))) int n; int f(void) { return ++n; }", "b.c": "extern __attribute__((visibility(\"hidden\"))) int n; int g(void) { return ++n; }"}, false},
		{"a static function is exported", "-fno-inline", "-Wl,-Bsymbolic", map[string]string{"a.c": "static int helper(int x) { return x * 3; } int f(int x) { return helper(x); }"},
			map[string]string{"a.c": "__attribute__((visibility(\"protected\"))) int helper(int x) { return x * 3; } int f(int x) { return helper(x); }"}, false},
		{"a resolver", "", "", map[string]string{"a.c": "static int one(void) { return 1; } void *r(void) { return one; } void *f(void) { return one; }"},
			map[string]string{"a.c": "static int one(void) { return 1; } void *r(void) { return one; } __asm__(\".type f, @gnu_indirect_function\"); void *f(void) { return one; }"}, false},
		{"a variable can't be written", "", "", map[string]string{"a.c": "int t[4] = {1, 2, 3, 4};"}, map[string]string{"a.c": "const int t[4] = {1, 2, 3, 4};"}, false},
		{"a variable is aligned less", "", "", map[string]string{"a.c": "long pad = 1; _Alignas(64) int t[4] = {1};"}, map[string]string{"a.c": "long pad = 1; _Alignas(4) int t[4] = {1};"}, false},
		{"through large addresses", "-mcmodel=large", "", map[string]string{"a.c": "int one(int x) { return x + 1; } int two(int x) { return x + 2; } int f(void) { return one(7); }"},
			map[string]string{"a.c": "int one(int x) { return x + 1; } int two(int x) { return x + 2; } int f(void) { return two(7); }"}, false},
		{"the first holder of a name is removed", "-ffunction-sections -fdata-sections", "-Wl,--gc-sections", map[string]string{
			"a.c": "static int count; __attribute__((visibility(\"hidden\"))) int unused(int x) { return x + ++count; }",
			"b.c": "static int count; int b(int x) { return x * 3 + ++count; }", "main.c": "static int count; int c(int x) { return x - ++count; }"}, nil, true},
		{"in front of a thread-local array", "", "", map[string]string{"a.c": "static __thread int arr[10]; int f(int i) { return arr[i - 1]; }"}, nil, true},
	} {
		for _, how := range []string{"gcc bfd", "clang lld"} {
			compiler, linker, _ := strings.Cut(how, " ")
			if _, err := exec.LookPath("ld." + linker); err != nil {
				continue
			}
			flags := append([]string{"-O1", "-fPIC", "-w"}, strings.Fields(c.flags)...)
			parts := compileParts(t, c.known, compiler, flags...)
			objects := parts
			if c.linked != nil {
				objects = compileParts(t, c.linked, compiler, flags...)
			}
			args := append(slices.Clone(objects), "-shared", "-fuse-ld="+linker)
			_, why := linkedManifests(t, linkFiles(t, "libt.so", append(args, strings.Fields(c.link)...)...), parts...)
			if (why == "") != c.want {
				t.Errorf("%s, %s: %q", c.name, how, why)
			}
			if c.linked != nil { // and of itself
				if _, why := linkedManifests(t, linkFiles(t, "libt.so", append(args, strings.Fields(c.link)...)...), objects...); why != "" && c.name != "through large addresses" {
					t.Errorf("%s, %s: %q", c.name, how, why)
				}
			}
		}
	}
}
