package evolve_test

import (
	"os/exec"
	"slices"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve/autoep"
)

// builder links with lld, as Bazel does where there is one.
func builder(t *testing.T) *evolve.Builder {
	clangtest.Tool(t, "clang++")
	b := &evolve.Builder{Dir: t.TempDir(), C: "clang", CXX: "clang++", Flags: []string{"-O0", "-w"}, Clang: clangtest.Clang(t), Traces: true}
	if _, err := exec.LookPath("ld.lld"); err == nil {
		b.Links = []string{"-fuse-ld=lld"}
	}
	return b
}

// TestSample is a small campaign with a fixed seed: no rule of safety or generality is violated by
// this tool, and by others some is. docs/contributing/verification.md has the command of the full one.
func TestSample(t *testing.T) {
	const object, source, traces = "by object", "by source", "with traces"
	c := &evolve.Campaign{Builder: builder(t), Tools: func(p evolve.Passes) []evolve.Tool {
		return []evolve.Tool{
			evolve.BazelCache(p), evolve.Files(p), evolve.Hybrid(p, true),
			evolve.Ours(object, p, &evolve.Evidence{}), evolve.Ours(source, p, &evolve.Evidence{Source: true}),
			evolve.OursWithTraces(traces, p, &evolve.Evidence{}),
		}
	}}
	n := 60
	if testing.Short() {
		n = 16
	}
	programs := slices.Collect(autoep.Programs(autoep.Options{Seed: 1, N: n}))
	// What is in no source, and what is in C.
	programs = slices.AppendSeq(programs, autoep.Programs(autoep.Options{Seed: 1, N: n / 2, Modes: []string{"*+args", "*+flags", "C1+*", "S1+thread", "S1+child", "S1+resolver"}}))
	r, err := c.Run(t.Context(), slices.Values(programs))
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{object, source, traces} {
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

// TestSampleByCases is the same with test cases in the place of tests.
func TestSampleByCases(t *testing.T) {
	const tests, cases = "by tests", "by cases"
	c := &evolve.Campaign{Builder: builder(t), Tools: func(p evolve.Passes) []evolve.Tool {
		return []evolve.Tool{evolve.Ours(tests, p, &evolve.Evidence{}), evolve.OursByCases(cases, p, &evolve.Evidence{})}
	}}
	r, err := c.Run(t.Context(), evolve.ByCases(autoep.Programs(autoep.Options{Seed: 2, N: 24})))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Wrong(cases) {
		t.Error(v)
	}
	if s := r.Sums[cases]; s.Selected < s.Affected || s.Selected >= r.Sums[tests].Selected {
		t.Errorf("%d cases of %d are selected, %d print something else, and by tests %d are selected", s.Selected, s.Tests, s.Affected, r.Sums[tests].Selected)
	}
}

// TestEachFault asks that each analyzer that is broken on purpose violates a rule of safety.
func TestEachFault(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds 40 programs")
	}
	c := &evolve.Campaign{Builder: builder(t), Tools: func(p evolve.Passes) (l []evolve.Tool) {
		for _, f := range evolve.Faults {
			l = append(l, f.Tool(p))
		}
		return l
	}}
	r, err := c.Run(t.Context(), evolve.WithCases(autoep.Programs(autoep.Options{Seed: 1, N: 40, Modes: evolve.FaultModes()})))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range evolve.Faults {
		if f.Traces && !trace.Permitted() {
			t.Logf("%s isn't looked for: this machine permits no traces", f.Name)
			continue
		}
		// That two collectors differ would be found if it made no difference.
		if !slices.ContainsFunc(r.Wrong(f.Name), func(v *evolve.Violation) bool { return v.Rule != "A4" }) {
			t.Errorf("%s: no rule finds that %s", f.Name, f.Text)
		}
	}
}
