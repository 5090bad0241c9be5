package witness

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
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
//	// same              both versions emit the same and have equal hashes
//	// same-code: WHY    both emit the same, but the hashes of their sources may
//	//                   differ
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
	flags, ok := c.directives["flags"]
	if !ok {
		flags = "-O1"
	}
	_, same := c.directives["same"]
	_, sameCode := c.directives["same-code"]
	dir := t.TempDir()
	emitted := 0
	var versions [2]*Version
	// A source is evidence without optimisation, but its tree says all there is to
	// optimise. IR is compared before it.
	source := byTree
	if strings.Contains(flags, "{{-O") {
		source = bySource
	}
	for _, pass := range []struct {
		level string
		want  parts
	}{{"-O0", byObject}, {"", byObject | source | withIR}} {
		level := pass.level
		for k := range 2 {
			// The file's own name may be in the object.
			src := filepath.Join(dir, "t"+filepath.Ext(c.name))
			if err := os.WriteFile(src, []byte(variant(c.text, k)), 0o666); err != nil {
				t.Fatal(err)
			}
			argv := append(strings.Fields(cmp.Or(c.directives["compiler"], "clang")+" "+variant(flags, k)+" "+level), src)
			var err error
			if versions[k], err = compileParts(t.Context(), argv, clang, pass.want); err != nil {
				t.Fatalf("version %d: %v", k, err)
			}
		}
		for _, p := range ComparePair(versions[0], versions[1]) {
			emitted += len(p.Emitted)
			for _, e := range p.Violations() {
				t.Errorf("violation: by %s, with %q, %s of %s differs, %s", p.Evidence, level, e.What, e.Unit, e.Reason)
			}
			switch {
			case (same || sameCode) && len(p.Emitted) > 0:
				t.Errorf("the pair is to be the same, but %s of %s differs with %q", p.Emitted[0].What, p.Emitted[0].Unit, level)
			case same && len(p.Changed) > 0, len(p.Emitted) == 0 && !sameCode && p.Evidence != Source && len(p.Changed) > 0:
				t.Errorf("imprecise: with %q nothing that is emitted differs, but by %s the identity of %q does", level, p.Evidence, p.Changed)
			}
		}
	}
	if emitted == 0 && !same && !sameCode {
		t.Errorf("nothing that is emitted differs: the pair is no test (%s)", versions[0].NotPlain)
	}
	if t.Failed() {
		t.Logf("source:\n%s", c.text)
		for k := range 2 {
			for _, e := range versions[k].Evidence {
				t.Logf("version %d, %s:\n%s", k, e.Name, dump(e.Manifest))
			}
		}
	}
}

func dump(m *manifest.Manifest) string {
	var b strings.Builder
	for _, c := range m.Components {
		links, _ := m.LinkNames(c)
		fmt.Fprintf(&b, "%x %s %s %s root=%q definitions=%q -> %q\n", c.LocalHash, c.Kind, c.Linkage, c.Name, c.Root, c.DefinedNames(), links)
	}
	for _, f := range m.Fallbacks {
		fmt.Fprintf(&b, "fallback %s: %s\n", f.Component, f.Reason)
	}
	return b.String()
}
