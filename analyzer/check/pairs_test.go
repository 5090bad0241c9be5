package check

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/clangtest"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

var variants = regexp.MustCompile(`(?s)\{\{(.*?)\}\}/\{\{(.*?\}*)\}\}`)

// variant returns the first or second version of a text with {{A}}/{{B}}.
func variant(s string, k int) string {
	return variants.ReplaceAllString(s, fmt.Sprintf("${%d}", k+1))
}

// pairCase is a minimal pair. Its directives are comments at the start:
//
//	// flags: FLAGS      the compiler's, default -O1; may have variants
//	// compiler: gcc     default clang
//	// level: full       only the full -O shows the difference
//	// level: ir         only LLVM IR shows the difference
//	// level: ir-only    only IR is compared: the target isn't 64-bit ELF
//	// same              both versions emit the same and have equal hashes
//	// same-code: WHY    both emit the same, but hashes may differ
type pairCase struct {
	name, text string
	directives map[string]string
}

func readPairs(t testing.TB) []pairCase {
	files, err := filepath.Glob("testdata/pairs/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no pairs: %v", err)
	}
	var out []pairCase
	for _, name := range files {
		ar, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range ar.Files {
			c := pairCase{name: strings.TrimSuffix(filepath.Base(name), ".txtar") + "/" + f.Name, text: string(f.Data), directives: map[string]string{}}
			for _, line := range strings.Split(c.text, "\n") {
				d, ok := strings.CutPrefix(line, "// ")
				if !ok {
					break
				}
				key, val, _ := strings.Cut(d, ": ")
				c.directives[key] = val
			}
			if !variants.MatchString(c.text) {
				t.Fatalf("%s: no {{A}}/{{B}}", c.name)
			}
			out = append(out, c)
		}
	}
	return out
}

// TestPairs compiles both versions of each minimal pair. Where what is emitted
// differs, the hashes must differ, and the reverse.
func TestPairs(t *testing.T) {
	clang := clangtest.Clang(t)
	clangtest.GCC(t)
	for _, c := range readPairs(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			runPair(t, c, clang)
		})
	}
}

func runPair(t *testing.T, c pairCase, clang string) {
	ctx := context.Background()
	name := c.directives["compiler"]
	if name == "" {
		name = "clang"
	}
	flags, ok := c.directives["flags"]
	if !ok {
		flags = "-O1"
	}
	dir := t.TempDir()
	var analyses [2]*Analysis
	var objects [2][]*Object
	var levels []Level
	for k := range 2 {
		// The file's own name may be in the object.
		src := filepath.Join(dir, "t"+filepath.Ext(c.name))
		if err := os.WriteFile(src, []byte(variant(c.text, k)), 0o666); err != nil {
			t.Fatal(err)
		}
		argv := append(append([]string{name}, strings.Fields(variant(flags, k))...), src)
		levels = Levels(name == "clang", argv, true)
		if name == "clang" {
			// IR shows what the front end's code shows, and more.
			levels = slices.DeleteFunc(levels, func(l Level) bool { return strings.HasSuffix(l.Name, "without passes") })
		}
		if c.directives["level"] == "ir-only" {
			levels = levels[1:2]
		}
		if variants.MatchString(flags) {
			// Which levels there are depends on the flags: compare as given.
			levels = []Level{{Name: "as given", Interprocedural: true, Direct: true}}
		}
		var err error
		if objects[k], err = Compile(ctx, argv, name == "clang", levels); err != nil {
			t.Fatalf("version %d: %v", k, err)
		}
		if analyses[k], err = Analyze(ctx, argv, clang); err != nil {
			t.Fatalf("version %d: %v", k, err)
		}
	}
	p := ComparePair(analyses[0], analyses[1], objects[0], objects[1], levels)
	emitted, code, early := 0, 0, 0
	for _, e := range p.Emitted {
		emitted++
		if e.Level != "IR" {
			code++
			if !levels[len(levels)-1].Interprocedural || e.Level != levels[len(levels)-1].Name {
				early++
			}
		}
		if e.Violation() {
			t.Errorf("violation: at %s, %s of %s differs, %s", e.Level, e.What, e.Unit, e.Reason)
		}
	}
	_, same := c.directives["same"]
	_, sameCode := c.directives["same-code"]
	switch {
	case same || sameCode:
		if emitted > 0 {
			t.Errorf("the pair is to be the same, but %s of %s differs at %s", p.Emitted[0].What, p.Emitted[0].Unit, p.Emitted[0].Level)
		}
		if same && len(p.Changed) > 0 {
			t.Errorf("imprecise: nothing that is emitted differs, but the identity of %q does", p.Changed)
		}
		if sameCode && len(p.Changed) == 0 {
			t.Errorf("more precise than the pair says: mark it '// same'")
		}
	case emitted == 0:
		t.Errorf("nothing that is emitted differs: the pair is no test")
	case code == 0 && !strings.HasPrefix(c.directives["level"], "ir"):
		t.Errorf("only IR differs: mark it '// level: ir'")
	case code > 0 && c.directives["level"] == "ir":
		t.Errorf("code differs as well: don't mark it '// level: ir'")
	case code == early && early > 0 && c.directives["level"] == "full" && levels[0].Name != "as given":
		t.Errorf("differs at other levels as well: don't mark it '// level: full'")
	}
	if p.Fallback != "" && c.directives["rung"] != "file" {
		t.Errorf("analysed as a whole file: %s", p.Fallback)
	}
	if t.Failed() {
		t.Logf("source:\n%s", c.text)
		for k := range 2 {
			t.Logf("manifest %d:\n%s", k, dump(analyses[k].Manifest))
		}
	}
}

func dump(m *manifest.Manifest) string {
	var b strings.Builder
	for _, c := range m.Components {
		links, _ := m.LinkNames(c)
		fmt.Fprintf(&b, "%x %s %s %s root=%q aliases=%q -> %q\n", c.LocalHash, c.Kind, c.Linkage, c.Name, c.Root, c.Aliases, links)
	}
	for _, f := range m.Fallbacks {
		fmt.Fprintf(&b, "fallback %s: %s\n", f.Component, f.Reason)
	}
	return b.String()
}
