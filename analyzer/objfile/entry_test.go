package objfile

import (
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
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
		{"what is kept for it", "int f(void) { return 1; }", "-fpatchable-function-entry=2", "", "f"},
		{"data", "int f = 3; const int g = 4;", "", "", "f g"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := load(t, build(t, "t.c", tc.source, strings.Fields(tc.flags)...))
			entries := map[string]string{}
			for _, c := range m.Components {
				entries[c.Name] = c.Entry
			}
			for _, name := range strings.Fields(tc.yes) {
				if entries[name] != name {
					t.Errorf("%s has the entry %q", name, entries[name])
				}
			}
			for _, name := range strings.Fields(tc.no) {
				if entry, there := entries[name]; !there || entry != "" {
					t.Errorf("%s has the entry %q (%t), want none", name, entry, there)
				}
			}
		})
	}
}

// A function with several names has one of them as its entry, always the same.
func TestEntryOfAliases(t *testing.T) {
	m := load(t, build(t, "t.cc", "struct S { S(); int x; }; S::S() : x(3) {} int g() { return S().x; }"))
	i := slices.IndexFunc(m.Components, func(c *manifest.Component) bool { return slices.Contains(c.DefinedNames(), "_ZN1SC2Ev") })
	if i < 0 || m.Components[i].Entry != "_ZN1SC1Ev" {
		t.Errorf("component %d of %v", i, m.Components)
	}
}
