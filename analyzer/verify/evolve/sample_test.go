package evolve_test

import (
	"slices"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/clangtest"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve/autoep"
)

// TestSample is a small campaign with a fixed seed: no rule of safety or generality is violated by
// this tool, and by others some is. docs/checks.md has the command of the full one.
func TestSample(t *testing.T) {
	clangtest.Tool(t, "clang++")
	b := &evolve.Builder{Dir: t.TempDir(), C: "clang", CXX: "clang++", Flags: []string{"-O0", "-w"}, Clang: clangtest.Clang(t)}
	const object, source = "by object", "by source"
	c := &evolve.Campaign{Builder: b, Tools: func(p evolve.Passes) []evolve.Tool {
		return []evolve.Tool{
			evolve.BazelCache(p), evolve.Files(p), evolve.Hybrid(p, true),
			evolve.Ours(object, p, &evolve.Evidence{}), evolve.Ours(source, p, &evolve.Evidence{Source: true}),
		}
	}}
	programs := slices.Collect(autoep.Programs(autoep.Options{Seed: 1, N: 16}))
	// What is in no source.
	programs = slices.AppendSeq(programs, autoep.Programs(autoep.Options{Seed: 1, N: 8, Modes: []string{"*+args", "*+flags"}}))
	r, err := c.Run(t.Context(), slices.Values(programs))
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{object, source} {
		for _, v := range r.Wrong(tool) {
			t.Error(v)
		}
		if s := r.Sums[tool]; s.Selected < s.Affected || s.Selected >= r.Sums["bazel"].Selected {
			t.Errorf("%s selects %d tests of %d, of which %d print something else", tool, s.Selected, s.Tests, s.Affected)
		}
	}
	if len(r.Wrong("files")) == 0 {
		t.Error("no rule is violated by who looks only at files")
	}
}
