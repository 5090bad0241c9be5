package objfile

import (
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// Each source has functions, and some of them are entered at their beginning only.
func TestEntries(t *testing.T) {
	for _, tc := range []struct {
		name, source, flags string
		yes, no             string
	}{
		{"plain", sample, "", "f g helper main", ""},
		{"plain, in one section", sample, "-fno-function-sections -O0", "f g helper main", ""},
		{"aligned", "__attribute__((aligned(64))) int f(void) { return 1; } int g(void) { return 2; }", "", "g", "f"},
		{"aligned, in one section", "__attribute__((aligned(64))) int f(void) { return 1; } int g(void) { return 2; }", "-fno-function-sections", "", "f g"},
		{"constructor", "int n; __attribute__((constructor)) static void f(void) { n = 3; }", "", "f", ".init_array n"},
		{"resolver", "static void g(void) {} static void *r(void) { return g; } void f(void) __attribute__((ifunc(\"r\")));", "", "g", "f"},
		{"a label that others know", "int f(int x) { __asm__ volatile(\".globl inner\\ninner: nop\"); return x; } int g(void) { return 1; }", "", "g", ".text.f"},
		{"a jump into the middle", "int f(int x) { return x * 3; } int g(int x) { __asm__ volatile(\"jmp f+3\"); return 1; }", "", "g", "f"},
		{"a jump into the middle, in one section", "static int f(int x) { return x * 3; } int h(int x) { return f(x); } int g(int x) { __asm__ volatile(\"jmp f+3\"); return 1; }", "-fno-function-sections", "g h", "f"},
		{"addresses of labels in data", "int f(int x) { static void *const to[] = {&&a, &&b}; goto *to[x]; a: return 1; b: return 2; }", "-O0", "", "f"},
		{"switch", "int f(int x) { switch (x) { case 0: return 5; case 1: return 9; case 2: return 4; case 3: return 17; case 4: return 3; case 5: return 12; } return 0; }", "-O2 -fno-tree-switch-conversion", "f", ""},
		{"cold pieces", "void die(void) __attribute__((cold, noreturn)); int k(int); int f(int x) { if (__builtin_expect(x > 100, 0)) { k(x); k(x + 1); die(); } return k(x); }", "-O2", "f", ""},
		{"data", "int f = 3; const int g = 4;", "", "", "f g"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := load(t, build(t, "t.c", tc.source, strings.Fields(tc.flags)...))
			entries := map[string][]string{}
			for _, c := range m.Components {
				entries[c.Name] = c.Entries
			}
			for _, name := range strings.Fields(tc.yes) {
				if names := entries[name]; !slices.Equal(names, []string{name}) && !slices.Equal(names, []string{name, name + ".cold"}) {
					t.Errorf("%s has the entries %q", name, entries[name])
				}
			}
			for _, name := range strings.Fields(tc.no) {
				if names, there := entries[name]; !there || names != nil {
					t.Errorf("%s has the entries %q (%t), want none", name, names, there)
				}
			}
		})
	}
}

// A function with several names has all of them: linkers may take another definition for a weak one. A piece has those of its function.
func TestEntriesOfAliases(t *testing.T) {
	for _, tc := range []struct {
		file, source, flags string
		want                map[string]string // of components by one of their names
	}{
		{"t.cc", "struct S { S(); int x; }; S::S() : x(3) {} int g() { return S().x; }", "", map[string]string{"_ZN1SC2Ev": "_ZN1SC1Ev _ZN1SC2Ev", "_Z1gv": "_Z1gv"}},
		{"t.c", "int z(void) { return 1; } int a(void) __attribute__((weak, alias(\"z\")));", "", map[string]string{"z": "a z"}},
		{"t.c", "static int d(void) { return 1; } int b(void) __attribute__((weak, alias(\"d\"))); int a(void) __attribute__((weak, alias(\"d\")));", "", map[string]string{"a": "a b d"}},
		{"t.c", "void die(void) __attribute__((cold)); __attribute__((weak)) int a(int x) { if (__builtin_expect(x == 1, 0)) { die(); x++; die(); } return x; } int z(int) __attribute__((alias(\"a\")));", "-O2",
			map[string]string{"a": "a a.cold z", "a.cold": "a a.cold z"}},
	} {
		m := load(t, build(t, tc.file, tc.source, strings.Fields(tc.flags)...))
		for name, want := range tc.want {
			i := slices.IndexFunc(m.Components, func(c *manifest.Component) bool { return c.Name == name || slices.Contains(c.DefinedNames(), name) })
			if i < 0 || strings.Join(m.Components[i].Entries, " ") != want {
				t.Errorf("%s is component %d of %v", name, i, m.Components)
			}
		}
	}
}
