package witness

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/compiler"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/corporatest"
)

// TestVersionPairs compares two releases of real libraries.
func TestVersionPairs(t *testing.T) {
	clang := clangtest.Clang(t)
	for _, c := range corporatest.All {
		t.Run(c.Name, func(t *testing.T) {
			cc, level := "clang++", "-O2"
			if !c.Cxx {
				cc, level = "clang", "-O0" // what is optimised isn't plain
			}
			results, err := Objects(t.Context(), ObjectsOptions{
				A: c.Fetch(t, c.Old), B: c.Fetch(t, c.New),
				Compiler: slices.Concat([]string{cc, level}, c.Flags), Clang: clang,
			})
			if err != nil {
				t.Fatal(err)
			}
			emitted := 0
			for _, r := range results {
				for _, p := range r.Pairs {
					emitted += len(p.Emitted)
					for _, v := range p.Violations() {
						t.Errorf("%s by %s: %s of %s: %s", r.Name, p.Evidence, v.What, v.Unit, v.Reason)
					}
				}
				if r.NotPlain != "" && !c.Cxx {
					t.Logf("%s isn't plain C: %s", r.Name, r.NotPlain)
				}
			}
			if emitted == 0 {
				t.Error("the versions don't differ: nothing was checked")
			}
		})
	}
}

// TestLinksOfCorpora checks that what code refers to is in its links, by clang and
// by gcc.
func TestLinksOfCorpora(t *testing.T) {
	clang := clangtest.Clang(t)
	var all Counts
	for _, c := range corporatest.All {
		dir := c.Fetch(t, c.New)
		files, err := filepath.Glob(filepath.Join(dir, "*.c*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no sources: %v", err)
		}
		compilers := []string{"clang", "gcc"}
		if c.Cxx {
			compilers = []string{"clang++", "g++"}
		}
		for _, cc := range compilers {
			t.Run(c.Name+" by "+cc, func(t *testing.T) {
				references := 0
				for i, f := range files {
					if !compiler.IsSource(f) || len(files) > 2 && i%2 != len(cc)%2 { // of several, half by each
						continue
					}
					r, err := Links(t.Context(), c.Command([]string{cc, "-O2"}, dir, f), clang)
					if err != nil {
						t.Fatal(err)
					}
					references += r.References
					all.Add(r.Counts)
					for _, v := range r.Violations {
						t.Errorf("%s by %s: %s", r.File, v.Evidence, v.Reason)
					}
				}
				if references == 0 {
					t.Error("no references: nothing was checked")
				}
			})
		}
	}
	t.Logf("%d functions, %d share a section, %d of them are components", all.Functions, all.Sharing, all.Apart)
	if all.Sharing < 1000 {
		t.Error("fewer than 1,000 functions share a section")
	}
}
