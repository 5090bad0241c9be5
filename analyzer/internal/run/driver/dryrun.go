package driver

import (
	"encoding/json"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
)

// planned is the entry of a test in the output of a dry run.
type planned struct {
	Label   string         `json:"label"`
	Run     bool           `json:"run"` // it would be given to Bazel
	Verdict report.Verdict `json:"verdict"`
	Reason  string         `json:"reason,omitempty"`
	Changed []string       `json:"changed,omitempty"` // since the nearest recorded result
	Key     string         `json:"fingerprint,omitempty"`
}

// printPlan prints which tests would be run. Its exit code is 0 if Bazel could analyse all of them.
func (d *decisions) printPlan() (code int, err error) {
	tests := []planned{}
	for _, t := range d.tests {
		p := planned{Label: t.label, Run: t.isRun(), Verdict: t.verdict, Reason: t.why, Changed: t.changed}
		switch {
		case t.skipped:
			p.Reason = "it isn't compatible with the platform"
		case t.audit:
			p.Reason = "--nocache_test_results"
		case t.verdict == report.Other:
			p.Reason = "it isn't a cc_test"
		}
		if t.hasFingerprint() {
			p.Key = t.key.String()
		}
		tests = append(tests, p)
	}
	for _, label := range d.broken {
		tests = append(tests, planned{Label: label, Verdict: report.Other, Reason: "Bazel can't analyse it"})
	}
	e := json.NewEncoder(d.Out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if d.failed {
		code = bazel.ExitBuildFailed
	}
	return code, e.Encode(map[string]any{"tests": tests})
}
