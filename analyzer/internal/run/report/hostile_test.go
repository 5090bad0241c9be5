package report

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// evil breaks out of any place in a page where it isn't escaped.
const evil = `</script><script>window.broken = 1; throw "broken"</script>"'><img src=x onerror="throw 'img'">{{.}}` + "\u2028<!--<script>`${1}"

// hostile has evil in every string of a run.
func hostile() []*Run {
	r := &Run{
		ID: "hostile", Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), End: time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC).Add(time.Hour),
		Workspace: evil, Commit: evil, Branch: evil, Host: evil,
		Store: Store{Location: evil, Lookups: 2, Hits: 1, Misses: 1, LookupSeconds: 0.01},
		Tests: []Test{
			{Label: "//a:" + evil, Verdict: Miss, Status: "PASSED", Seconds: 1, Fingerprint: evil, Reason: evil, Changed: []string{evil}},
			{Label: "//b:" + evil, Verdict: Hit, Status: "PASSED", Seconds: 1},
			{Label: evil, Verdict: AlwaysRun, Status: evil, Reason: evil},
			{Label: "javascript:alert(1)", Verdict: Other, Status: "FAILED", Reason: "javascript:alert(1)"},
		},
		Fallbacks: []Fallback{{Source: evil, Rung: evil, Reason: evil, Tests: 1}},
		Cost:      &Cost{CPUSeconds: 5, Actions: map[string]int{evil: 1}}, Plain: &Cost{CPUSeconds: 4242},
	}
	other := *r
	other.ID, other.Workspace, other.Start, other.Tests = "hostile2", "b", r.Start.Add(time.Hour), r.Tests[:2]
	return []*Run{r, &other}
}

func TestEscaping(t *testing.T) {
	var b Builder
	for _, r := range hostile() {
		b.Add(r)
	}
	b.AddDamaged(Damaged{evil, evil})
	var page bytes.Buffer
	if err := b.Data().HTML(&page); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, bad := range []string{"<script", "</script", "<img", "<!--", "onerror=\"", "\u2028<", `style=""`} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if !strings.Contains(text, durationText(4242)) {
		t.Error("the page doesn't have the cost of plain bazel test")
	}
	// It is all there, escaped.
	if n := strings.Count(text, "&lt;/script&gt;"); n < 8 {
		t.Errorf("%d escaped labels", n)
	}
}
