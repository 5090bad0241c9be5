package objfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// linkFiles links objects, or what else is given, into a file beside the first.
func linkFiles(t testing.TB, name string, args ...string) string {
	t.Helper()
	dir := filepath.Dir(args[0])
	run(t, dir, "gcc", append(args, "-o", name)...)
	return filepath.Join(dir, name)
}

func linked(t *testing.T, path string, opt Options) *manifest.Manifest {
	t.Helper()
	m, err := ManifestOrContent(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := manifest.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if m.Rung != manifest.Rung_RUNG_CONTENT || len(m.Fallbacks) != 1 {
		t.Fatalf("%v: want a root that counts by its content, with the reason", m)
	}
	return m
}

func TestLinked(t *testing.T) {
	const source = "int need(int); const char own[] = \"/proc/self/status\"; int unused(void) { return own[6]; } int main(void) { return need(3); }"
	dir := filepath.Dir(linkFiles(t, "libneed.so", build(t, "need.c", "int need(int x) { return x; } int other(void) { return 2; }", "-fPIC"), "-shared"))
	program := func(source string, flags ...string) *manifest.Manifest {
		t.Helper()
		return linked(t, linkFiles(t, "program", build(t, "main.c", source, flags...), "-L"+dir, "-lneed", "-Wl,--build-id"), Options{Executable: true})
	}
	root := func(m *manifest.Manifest) *manifest.Component {
		return m.Components[slices.IndexFunc(m.Components, func(c *manifest.Component) bool { return c.Root != "" })]
	}
	m := program(source)
	names, _ := m.LinkNames(root(m))
	if root(m).Root != "executable as a whole: its objects aren't known" || !slices.Contains(root(m).DefinedNames(), "main") || !slices.Contains(names, "need") || slices.Contains(names, manifest.OwnProgram) {
		t.Errorf("component %v with links to %q", root(m), names)
	}
	if debug := program(source, "-g"); !slices.Equal(changed(m, debug), []string{manifest.DebugLines}) {
		t.Errorf("debug information changed %q", changed(m, debug))
	}
	for what, other := range map[string]*manifest.Manifest{
		"code":                program(strings.Replace(source, "own[6]", "own[7]", 1)),
		"an executable stack": program(source, "-Wa,--execstack"),
	} {
		if !slices.Contains(changed(m, other), root(m).Name) {
			t.Errorf("%s doesn't count", what)
		}
	}
	// What is linked statically may read lines, or the whole file.
	own := program(strings.Replace(source, "status", "exe", 1) + "int backtrace_full(void) { return 1; }")
	if names, _ := own.LinkNames(root(own)); !slices.Contains(names, "backtrace_full") || !slices.Contains(names, manifest.OwnProgram) || len(own.Units[0].Content) == 0 {
		t.Errorf("a reader of its own file has links to %q", names)
	}

	library := linked(t, filepath.Join(dir, "libneed.so"), Options{Library: true})
	if c := root(library); c.Root != "shared library as a whole: its objects aren't known" || !slices.Equal(c.DefinedNames(), []string{"need", "other"}) {
		t.Errorf("component %v", c)
	}
}

func TestLinkedOpaque(t *testing.T) {
	file := filepath.Join(t.TempDir(), "libt.so")
	seen := map[string]bool{}
	for _, content := range []string{"", "\xcf\xfa\xed\xfe\x07", "\xcf\xfa\xed\xfe\x08", "INPUT(-lm)"} {
		if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		m, err := ManifestOrContent(file, Options{Library: true})
		if err != nil || len(m.Components) != 1 || m.Components[0].Root == "" || !slices.Equal(m.Symbols, []string{manifest.AnySymbol}) {
			t.Fatalf("%q: %v, %v", content, err, m)
		}
		if h := string(m.Components[0].LocalHash); seen[h] {
			t.Errorf("%q: the hash of another content", content)
		} else {
			seen[h] = true
		}
	}
	if m, _ := ManifestOrContent(build(t, "a.c", "int main(void) { return 0; }"), Options{Executable: true}); !strings.Contains(m.Fallbacks[0].Reason, "ELF file of type ET_REL") {
		t.Errorf("an object in the place of an executable: %v", m)
	}
}

func TestLinkedDamaged(t *testing.T) {
	so := linkFiles(t, "libt.so", build(t, "a.c", "int f(int x) { return x; }", "-fPIC"), "-shared")
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
			if m, err := ManifestOrContent(bad, Options{Library: true}); err != nil || len(m.Components) == 0 {
				t.Fatalf("byte %d: no manifest: %v", i, err)
			}
		}
	}
}
