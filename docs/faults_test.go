package docs

import (
	"fmt"
	"path"
	"strings"
	"testing"
)

// faults are sites of an index and one page or source, and what the checks must find there.
var faults = []struct{ check, name, text, want string }{
	{"links", "docs/A.md", "[b](README.md#there)", "README.md#there"},
	{"links", "docs/A.md", "[b](nowhere.md)", "nowhere.md"},
	{"commands", "A.md", "\n    tasting store stat --nope\n", "--nope"},
	{"commands", "A.md", "```\n$ tasting store nowhere\n```\n", "nowhere"},
	{"flags", "A.md", "Use `--nope=1`.", "--nope"},
	{"messages", "docs/reference/messages.md", "| `seen: NAME`, `not REASON there` | |\n", "not REASON there"},
	{"messages", "A.md", "`tasting: nothing of the kind`", "nothing of the kind"},
	{"sentences", "docs/A.md", strings.Repeat("word ", maxSentence+1), "36 words"},
	{"sentences", "docs/A.md", strings.Repeat("word ", maxMedian+1), "median"},
	{"history", "docs/A.md", "It is no longer slow.", "no longer"},
	{"history", "docs/A.md", "On 2026-01-02, it was.", "2026-01"},
	{"reachable", "docs/A.md", "", "docs/A.md"},
	{"size", "README.md", strings.Repeat("\n", maxReadme+1), "README.md"},
	{"size", "docs/A.md", strings.Repeat("word ", maxWords), "28001 words"},
	{"pages in code", "a.go", "// See docs/" + strings.ToLower("A.md."), "a.go"},
	{"reasons", "analyzer/internal/run/runner/a.go", `r.say("it has moved")`, "it has moved"},
}

// Each check can fail.
func TestChecksCanFail(t *testing.T) {
	tried := map[string]bool{}
	for _, f := range faults {
		tried[f.check] = true
		s := &site{pages: map[string]string{"docs/README.md": "index"}, sources: map[string]string{}, code: "seen: %s"}
		if path.Ext(f.name) == ".md" {
			s.pages[f.name] = f.text
		} else {
			s.sources[f.name] = f.text
		}
		if found := fmt.Sprint(checks[f.check](s)); !strings.Contains(found, f.want) {
			t.Errorf("%s: found %s, want %s", f.check, found, f.want)
		}
	}
	if len(tried) != len(checks) {
		t.Errorf("only %v were tried", tried)
	}
}
