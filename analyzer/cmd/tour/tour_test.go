package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestStoriesAreValid(t *testing.T) {
	for _, s := range stories {
		if s.script != "" {
			continue
		}
		if len(s.Chapters) == 0 || len(s.Sources) == 0 {
			t.Errorf("story %s has no chapters or no sources", s.name)
		}
		elsewhere := 0
		for _, c := range s.Chapters {
			e := &c.Expect
			if !slices.IsSorted(e.Executed) || !slices.IsSorted(e.Failed) || e.All && e.Executed != nil {
				t.Errorf("story %s, chapter %q: %+v", s.name, c.Title, e)
			}
			if !e.All && slices.ContainsFunc(e.Failed, func(test string) bool { return !slices.Contains(e.Executed, test) }) {
				t.Errorf("story %s, chapter %q: a test fails that isn't executed", s.name, c.Title)
			}
			if c.Elsewhere {
				elsewhere++
			}
		}
		if elsewhere > 1 {
			t.Errorf("story %s: %d second checkouts", s.name, elsewhere)
		}
	}
}

// The progress says how many steps there are.
func TestSteps(t *testing.T) {
	for _, test := range []struct {
		story *story
		plain bool
		want  int
	}{
		{short, true, 2 * (2 + 8 + 1)},
		{short, false, 2 + 8 + 1},
		{stories[3], true, 2 * (2 + 7)},
		{stories[5], true, 1},
	} {
		if got := test.story.steps(test.plain); got != test.want {
			t.Errorf("%s: %d steps, want %d", test.story.name, got, test.want)
		}
	}
	var b strings.Builder
	x := tour{out: &b, stories: []*story{short, stories[5]}, plain: true}
	x.step("a")
	x.step("b")
	if want := "   (step 1 of 23: a)\n   (step 2 of 23: b)\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// The reformatted text must differ in comments and white space only.
func TestReformatC(t *testing.T) {
	const text = `#include <stdio.h>
/* first
    {
*/
#define TWICE(x) \
    ((x) + (x))

static int f(int a,
             int b)
{
    if (a)
    {
        return TWICE(b); /* why */
    }
#ifdef X
    {
        puts("    {");
    }
#endif
    return static_strlen("/*") + static_strlen("*/");
}
`
	got := reformatC(text)
	if !strings.Contains(got, "\t\treturn") || strings.Contains(got, "\n    ") || strings.Count(got, "/*") < 4 {
		t.Errorf("layout is not as described:\n%s", got)
	}
	comment := regexp.MustCompile(`(?s)"[^"\n]*"|/\*.*?\*/`)
	tokens := func(s string) []string {
		return strings.Fields(comment.ReplaceAllStringFunc(s, func(m string) string {
			if m[0] == '"' {
				return m
			}
			return " "
		}))
	}
	if a, b := tokens(text), tokens(got); !slices.Equal(a, b) {
		t.Errorf("tokens changed:\n%q\n%q\n%s", a, b, got)
	}
}

func TestReplaceWantsOneOccurrence(t *testing.T) {
	c := checkout(t.TempDir())
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(string(c), "f"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("a b a")
	for _, old := range []string{"a", "x"} {
		if err := c.replace("f", old, "y"); err == nil {
			t.Errorf("replace(%q): no error", old)
		}
	}
	if err := c.replace("f", "b", "b"); err == nil {
		t.Error("an edit without effect: no error")
	}
	if err := c.replace("f", "b", "c"); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(filepath.Join(string(c), "f")); string(b) != "a c a" {
		t.Errorf("got %q", b)
	}
}

// A story that is to be faster isn't as expected if it is slower in all, whatever
// its chapters say.
func TestTotal(t *testing.T) {
	for _, test := range []struct {
		name           string
		plain, tasting []float64 // seconds of the chapters
		faster         bool
		want           bool
	}{
		{"faster in all", []float64{10, 20}, []float64{12, 2}, true, true},
		{"slower in all", []float64{10, 2}, []float64{12, 1}, true, false},
		{"slower, as may be", []float64{10, 2}, []float64{12, 1}, false, true},
		{"nothing to compare with", nil, []float64{12, 1}, true, true},
	} {
		s := &toldStory{AsExpected: true}
		for i, seconds := range test.tasting {
			c := &toldChapter{AsExpected: true, Tasting: toldSide{Executed: []string{"a"}, Compiled: 2, Seconds: seconds}}
			if test.plain != nil {
				c.Plain = &toldSide{Seconds: test.plain[i]}
			}
			s.Chapters = append(s.Chapters, c)
		}
		s.sum(test.faster)
		var b strings.Builder
		s.printTable(&b, "A story")
		if s.AsExpected != test.want || strings.Contains(b.String(), "SLOWER") == test.want {
			t.Errorf("%s: as expected: %t\n%s", test.name, s.AsExpected, b.String())
		}
		if x := s.Total.Tasting; len(x.Executed) != 2 || x.Compiled != 4 || x.Seconds != test.tasting[0]+test.tasting[1] {
			t.Errorf("%s: %+v", test.name, x)
		}
	}
}

func TestReadResults(t *testing.T) {
	dir := t.TempDir()
	log := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return "file://" + path
	}
	ran := log("ran", "-----\nOK\n")
	again := log("again", "-----\n"+replayNotice+" 0123\nOK\n")
	// As Bazel 7.7.1 writes them, shortened.
	const form = `{"id":{"testResult":{"label":"//:%s","run":1,"shard":1,"attempt":1,"configuration":{"id":"6a"}}},` +
		`"testResult":{"testActionOutput":[{"name":"test.log","uri":"%s"},{"name":"test.xml","uri":"file:///none.xml"}],` +
		`"testAttemptDurationMillis":"8","status":"%s","cachedLocally":%t,"executionInfo":{"cachedRemotely":%t}}}` + "\n"
	events := `{"id":{"started":{}},"started":{"uuid":"x"}}` + "\n" +
		fmt.Sprintf(form, "ran", ran, "PASSED", false, false) +
		fmt.Sprintf(form, "failed", ran, "FAILED", false, false) +
		fmt.Sprintf(form, "again", again, "PASSED", false, false) +
		// The log is that of an earlier run: it says nothing of this one.
		fmt.Sprintf(form, "local", again, "PASSED", true, false) +
		fmt.Sprintf(form, "remote", ran, "PASSED", false, true) +
		// Two shards: one was executed, and failed.
		fmt.Sprintf(form, "sharded", ran, "FAILED", false, false) +
		fmt.Sprintf(form, "sharded", ran, "PASSED", true, false) +
		`{"id":{"testSummary":{"label":"//:ran"}},"testSummary":{"overallStatus":"PASSED"}}` + "\n" +
		`{"id":{"buildMetrics":{}},"buildMetrics":{"actionSummary":{"actionsExecuted":"9","actionData":[` +
		`{"mnemonic":"CppCompile","actionsExecuted":"5"}]}}}` + "\n"
	read := func(events string) (map[string]result, int, error) {
		t.Helper()
		file := filepath.Join(dir, "events")
		if err := os.WriteFile(file, []byte(events), 0o666); err != nil {
			t.Fatal(err)
		}
		return readResults(file)
	}
	got, compiled, err := read(events)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]result{
		"ran":     {executed, true},
		"failed":  {executed, false},
		"again":   {replayed, true},
		"local":   {cached, true},
		"remote":  {cached, true},
		"sharded": {executed, false},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if compiled != 5 {
		t.Errorf("%d units compiled, want 5", compiled)
	}

	if _, _, err := read(strings.Replace(events, `"attempt":1`, `"attempt":2`, 1)); err == nil {
		t.Error("a test that was attempted twice: no error")
	}
	if _, _, err := read(fmt.Sprintf(form, "ran", "bytestream://host/x", "PASSED", false, false)); err == nil {
		t.Error("a test log that can't be read: no error")
	}
}

func TestDifferences(t *testing.T) {
	for _, test := range []struct {
		name   string
		expect expectation
		got    toldSide
		want   int
	}{
		{"as expected", expectation{Executed: []string{"a"}, Others: replayed}, toldSide{Executed: []string{"a"}, Replayed: []string{"b"}}, 0},
		{"too many", expectation{Executed: []string{"a"}}, toldSide{Executed: []string{"a", "b"}}, 1},
		{"too few", expectation{Executed: []string{"a"}}, toldSide{Replayed: []string{"a"}}, 1},
		{"another one", expectation{Executed: []string{"a"}}, toldSide{Executed: []string{"b"}, Replayed: []string{"a"}}, 2},
		{"failure replayed as a pass", expectation{Executed: []string{"a"}, Failed: []string{"a"}}, toldSide{Executed: []string{"a"}}, 1},
		{"failure", expectation{Executed: []string{"a"}}, toldSide{Executed: []string{"a"}, Failed: []string{"a"}}, 1},
		{"cached, not replayed", expectation{Others: replayed}, toldSide{Cached: []string{"a"}}, 1},
		{"replayed, not cached", expectation{Others: cached}, toldSide{Replayed: []string{"a"}}, 1},
		{"all", expectation{All: true}, toldSide{Executed: []string{"a", "b"}}, 0},
		{"not all", expectation{All: true}, toldSide{Executed: []string{"a"}, Replayed: []string{"b"}}, 1},
		{"said", expectation{Says: "why"}, toldSide{Replayed: []string{"a"}, output: "first\nwhy not\n"}, 0},
		{"not said", expectation{Says: "why"}, toldSide{Replayed: []string{"a"}, output: "that is why\n"}, 1},
		{"either", expectation{}, toldSide{Replayed: []string{"a"}, Cached: []string{"b"}}, 0},
	} {
		if got := test.expect.differences([]string{"a", "b"}, &test.got); len(got) != test.want {
			t.Errorf("%s: %q, want %d differences", test.name, got, test.want)
		}
	}
}
