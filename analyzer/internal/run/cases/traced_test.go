package cases

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/plan"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
)

// A case is recorded under the key of the stage that has it, unless it has failed with its own key.
func TestTraced(t *testing.T) {
	config := func(code string) *fingerprint.Config {
		c := &fingerprint.Config{Format: fingerprint.ConfigFormat, Binary: "_main/t", Code: strings.Repeat("0", 64)}
		for i, id := range []string{"", "Plain_One_Test", "Plain_Two_Test"} {
			c.Cases = append(c.Cases, fingerprint.Case{ID: id, Code: strings.Repeat(string(code[i]), 64)})
		}
		return c
	}
	s := store.OpenDisk(filepath.Join(t.TempDir(), "store"))
	of := &fingerprint.Run{}
	open := func(code string) *Set {
		x, err := Open(t.Context(), s, "//:t", config(code), of, true)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	run := &Run{Results: []Result{{Suite: "Plain", Name: "One", id: "Plain_One_Test"}, {Suite: "Plain", Name: "Two", id: "Plain_Two_Test"}}}
	result := &store.Result{Log: store.Content(nil)}
	x := open("abc")
	two := &Run{Results: []Result{{Suite: "Plain", Name: "Two", id: "Plain_Two_Test", failed: true}}}
	x.Failed(t.Context(), two, &store.Result{ExitCode: 1, Log: store.Content(nil)})
	if err := x.Record(t.Context(), run, result); err != nil {
		t.Fatal(err)
	}
	stages := (&trace.Cases{First: map[string]int{"f": 2}, Last: map[string]int{"Plain_One_Test": 1, "Plain_Two_Test": 2}}).Stages(map[string]bool{})
	for i, code := range []string{"123", "456"} {
		traced := Traced{&plan.Trace{Composed: &fingerprint.Composed{Config: config(code)}}, stages[i]}
		if err := x.RecordTraced(t.Context(), traced, of, run, result); err != nil {
			t.Fatal(err)
		}
	}
	for code, want := range map[string]string{
		"abc": "1 of 2: Plain_Two_Test", // its own key
		"def": "2 of 2: Plain_One_Test, Plain_Two_Test",
	} {
		if got := open(code).String(); got != want {
			t.Errorf("%s: %s", code, got)
		}
	}
	for code, want := range map[string]string{
		"123": "1 of 2: Plain_Two_Test", // of the first stage
		"153": "2 of 2: Plain_One_Test, Plain_Two_Test",
		"456": "2 of 2: Plain_One_Test, Plain_Two_Test", // of the second, which has failed
	} {
		x := open("def")
		known := x.Clone()
		known.LookUpTraced(t.Context(), &plan.Trace{Composed: &fingerprint.Composed{Config: config(code)}}, of)
		if got := known.String(); got != want || x.ByTrace() || known.ByTrace() != (code != "153") {
			t.Errorf("by %s: %s", code, got)
		}
	}
	if x := open("def"); len(x.Frontiers(t.Context())) != 1 {
		t.Errorf("frontiers: %v", x.Frontiers(t.Context()))
	}
}
