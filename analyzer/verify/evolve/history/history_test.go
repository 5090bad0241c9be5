package history

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve"
)

func TestMakefile(t *testing.T) {
	source, reads := evolve.Makefile("bazel-out/k8/bin/_objs/a/a.o: src/a.cc \\\n  /usr/include/x.h src/b\\ c.h \\\n bazel-out/k8/bin/gen.h src/b\\ c.h\n")
	if want := []string{"bazel-out/k8/bin/gen.h", "src/a.cc", "src/b c.h"}; source != "src/a.cc" || !slices.Equal(reads, want) {
		t.Errorf("%q, %q", source, reads)
	}
}

const queryOutput = `{"results":[
{"target":{"type":"RULE","rule":{"name":"//:t","ruleClass":"cc_test","attribute":[{"name":"size","stringValue":"small"},{"name":"generator_location","stringValue":"BUILD:1"}],"ruleInput":["//:t.cc","//:gen.h"]}}},
{"target":{"type":"SOURCE_FILE","sourceFile":{"name":"//:t.cc","location":"/w/t.cc:1:1"}}},
{"target":{"type":"SOURCE_FILE","sourceFile":{"name":"//:other.cc","location":"/w/other.cc:1:1"}}},
{"target":{"type":"GENERATED_FILE","generatedFile":{"name":"//:gen.h","generatingRule":"//:gen"}}},
{"target":{"type":"RULE","rule":{"name":"//:gen","ruleClass":"genrule","attribute":[{"name":"cmd","stringValue":"CMD"}]}}}
]}`

// What counts of the build graph, and what doesn't.
func TestGraph(t *testing.T) {
	sum := func(text string, contents map[string]string) string {
		g, err := readGraph(strings.NewReader(text), func(file string) string { return contents[file] })
		if err != nil {
			t.Fatal(err)
		}
		return g.sum("//:t")
	}
	files := map[string]string{"/w/t.cc": "1", "/w/other.cc": "1"}
	base := sum(queryOutput, files)
	if base == "" {
		t.Fatal("no hash")
	}
	for name, x := range map[string]struct {
		text    string
		files   map[string]string
		differs bool
	}{
		"an attribute":                     {strings.Replace(queryOutput, "small", "large", 1), files, true},
		"one of what is generated":         {strings.Replace(queryOutput, "CMD", "cp", 1), files, true},
		"a source":                         {queryOutput, map[string]string{"/w/t.cc": "2"}, true},
		"a source of nothing":              {queryOutput, map[string]string{"/w/t.cc": "1", "/w/other.cc": "2"}, false},
		"where a macro stands":             {strings.Replace(queryOutput, "BUILD:1", "BUILD:2", 1), files, false},
		"the order of the targets' inputs": {strings.Replace(queryOutput, `"//:t.cc","//:gen.h"`, `"//:gen.h","//:t.cc"`, 1), files, false},
	} {
		if got := sum(x.text, x.files) != base; got != x.differs {
			t.Errorf("%s: differs %t", name, got)
		}
	}
	if _, err := readGraph(strings.NewReader("{"), nil); err == nil {
		t.Error("output that is cut off is taken")
	}
	if s := (&graph{}).sum("//:t"); s != "" {
		t.Errorf("nothing has the hash %q", s)
	}
}

func TestParseChanges(t *testing.T) {
	log := `commit c4 c3

M	src/a.c
A	src/new.h
D	doc/x.md
M	test/a_test.c
commit c3 c2

M	src/a.c
commit c2 c1

M	test/a.c
M	README.md
commit c1 

A	src/a.c
A	tests/a.c
`
	tests := regexp.MustCompile(`(^|/)tests?/`)
	want := []change{{"c4", "c3", []string{"src/a.c", "doc/x.md"}, []string{"src/new.h"}}}
	if d := cmp.Diff(want, parseChanges(log, tests), cmp.AllowUnexported(change{})); d != "" {
		t.Error(d)
	}
}

func TestJudge(t *testing.T) {
	with := map[string]string{"a": "PASSED", "b": "PASSED", "c": "FAILED"}
	for want, without := range map[string]map[string]string{
		Kept + " a":   {"a": "FAILED", "b": "FAILED_TO_BUILD", "c": "FAILED"},
		Uncompiled:    {"a": "PASSED", "b": "FAILED_TO_BUILD", "c": "PASSED"},
		Unaffected:    {"a": "PASSED", "b": "FLAKY", "c": "FAILED"},
		Kept + " a b": {"a": "TIMEOUT", "b": "FAILED"},
	} {
		c := &Candidate{}
		c.judge(with, without)
		if got := strings.Join(append([]string{c.Verdict}, c.Failing...), " "); got != want {
			t.Errorf("%v: %s, want %s", without, got, want)
		}
	}
	c := &Candidate{Failing: []string{"of an earlier run"}}
	if c.judge(map[string]string{"a": "FAILED"}, nil); c.Verdict != Unbuilt || c.Failing != nil {
		t.Errorf("%+v", c)
	}
}

// recorded writes a revision with one test, whose manifests are empty.
func recorded(t *testing.T, dir, id, status, inputs string, reads map[string]string) *Revision {
	s := state{dir}
	blob := func(text string) string {
		name, err := s.blob([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	r := &Revision{Format: Format, ID: id, Tests: []Test{{Label: "//:t", Status: status, Seconds: 1.5, Inputs: inputs, Graph: "g" + inputs, Compose: blob("--binary=t"), Links: []int{0}}}}
	u := Unit{Path: "t.o", Source: "t.cc", Sum: "s" + inputs, Manifest: blob("")}
	for _, name := range slices.Sorted(maps.Keys(reads)) {
		u.Reads = append(u.Reads, len(r.Files))
		r.Files = append(r.Files, File{name, reads[name]})
	}
	r.Units = []Unit{u}
	r.Links = []Link{{Output: "t", Kind: "executable", Text: blob("tasting link 1\noutput t\nkind executable\nunit t.o\t" + u.Manifest + "\narg t.o\n"), Units: []int{0}}}
	if err := s.save(r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	want := recorded(t, dir, "r1", "PASSED", "1", map[string]string{"t.cc": "1"})
	got, err := Load(dir, "r1")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := Load(dir, "r2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what isn't recorded: %v", err)
	}
	name := state{dir}.revision("r1")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for change, message := range map[string]string{
		`"format":1|"format":2`:   "has format 2",
		`"links":[0]|"links":[7]`: "damaged",
		`"id":"r1"|"id":"r9"`:     "damaged",
		`"units":[0]|"units":[`:   "damaged",
		`"links":[0]|"links":[]`:  "damaged",
	} {
		from, to, _ := strings.Cut(change, "|")
		if !strings.Contains(string(text), from) {
			t.Fatalf("no %s in %s", from, text)
		}
		if err := os.WriteFile(name, []byte(strings.Replace(string(text), from, to, 1)), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir, "r1"); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v", change, err)
		}
	}
}

// Tools go through what is recorded, from the second revision on, and sums are of these.
func TestReplay(t *testing.T) {
	dir := t.TempDir()
	revisions := []*Revision{
		recorded(t, dir, "r1", "PASSED", "1", map[string]string{"t.cc": "1"}),
		recorded(t, dir, "r2", "PASSED", "1", map[string]string{"t.cc": "2"}), // a comment
		recorded(t, dir, "r3", "FAILED", "2", map[string]string{"t.cc": "3"}),
		recorded(t, dir, "r4", "PASSED", "1", map[string]string{"t.cc": "2"}),
	}
	p := NewReplay(dir, t.TempDir())
	tools := func(p evolve.Passes) []evolve.Tool {
		return []evolve.Tool{evolve.RetestAll(p), evolve.BazelCache(p), evolve.Files(p), evolve.Targets(p)}
	}
	trace, err := p.Run(t.Context(), "repository", "history", revisions, tools)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, tool := range trace.Tools {
		s := tool + ":"
		for _, r := range trace.Results[tool] {
			s += " " + map[bool]string{true: "1", false: "0"}[len(r.Selected) > 0]
		}
		got = append(got, s)
	}
	// What has failed is executed again, with whatever inputs.
	if want := []string{"RetestAll: 1 1 1 1 1", "bazel: 1 0 0 1 1", "files: 1 0 1 1 1", "targets: 1 0 0 1 1"}; !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	rows := Rows(trace, revisions, func(tool string, _ *Revision) float64 { return 0.5 })
	if len(rows) != 3 || !slices.Equal(rows[1].Differs, []string{"//:t"}) || rows[0].Changed || !rows[1].Changed {
		t.Errorf("%+v", rows)
	}
	s := Sum(rows, "bazel", false)
	if s.Tests != 3 || s.Selected != 2 || s.Execution != 3 || s.Collection != 1.5 || s.AEC <= s.AE || s.Ratio < 0.66 || s.Ratio > 0.67 {
		t.Errorf("%+v", s)
	}
	if s := Sum(rows, "files", true); s.Revisions != 2 || s.Selected != 2 {
		t.Errorf("%+v", s)
	}
	var out strings.Builder
	if err := Text(&out, trace.Tools, rows); err != nil || !strings.Contains(out.String(), "all revisions: 3, with 3 tests") {
		t.Errorf("%v\n%s", err, out.String())
	}
	var page strings.Builder
	if err := Page(&page, "<p>", trace.Tools, rows); err != nil || strings.Contains(page.String(), "<p>:") {
		t.Errorf("%v\n%s", err, page.String())
	}
	for _, want := range []string{"RetestAll 3 tests<", "bazel 2 tests<", "<title>&lt;p&gt;", `points="0,300 213.3,200.0 426.7,100.0 640.0,0.0" style="stroke:#0072b2"`} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %s:\n%s", want, page.String())
		}
	}
	if r := evolve.NewReport(trace); len(r.Wrong("bazel")) > 0 || r.Programs["history"] != 1 {
		t.Errorf("%+v", r)
	}
}

func TestCandidates(t *testing.T) {
	file := filepath.Join(t.TempDir(), "candidates.jsonl")
	c := &Candidate{Format: Format, Commit: "c1", Verdict: Kept, Failing: []string{"//:t"}}
	if err := appendLine(file, c); err != nil {
		t.Fatal(err)
	}
	known, err := readCandidates(file)
	if err != nil || len(known) != 1 || !cmp.Equal(known["c1"], c) {
		t.Errorf("%v, %v", known, err)
	}
	for _, line := range []string{"{", `{"format":9}`} {
		if err := os.WriteFile(file, []byte(line+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := readCandidates(file); err == nil {
			t.Errorf("%s is taken", line)
		}
	}
}

// A file is read again when it was touched.
func TestSums(t *testing.T) {
	s, dir := sums{}, t.TempDir()
	file := filepath.Join(dir, "f")
	sum := func(name string) string {
		x, err := s.of(name)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	write := func(text string, at time.Time) {
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o666), os.Chtimes(file, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	write("1", start)
	one, tree := sum(file), sum(dir)
	write("2", start.Add(time.Second))
	if sum(file) == one || sum(dir) == tree {
		t.Error("a change isn't seen")
	}
	write("1", start.Add(2*time.Second))
	if sum(file) != one || sum(dir) != tree {
		t.Error("the same content has another sum")
	}
}

// A generated revision as a package: words that a shell or Bazel would change, data, kinds of
// libraries.
func TestBuildFile(t *testing.T) {
	r := &evolve.Revision{
		Files:     map[string]string{"a.h": "", "a.cc": "", "t.cc": `read("data/x"); include("a.h")`, "data/x": ""},
		Flags:     []string{"-O1"},
		Libraries: []evolve.Library{{Name: "base", Sources: []string{"a.cc"}}, {Name: "a", Sources: []string{"a.cc"}, Deps: []string{"base"}, Shared: true, Flags: []string{`-DX="a $b"`}}},
		Tests:     []evolve.Test{{Name: "t", Sources: []string{"t.cc"}, Deps: []string{"a"}, Data: []string{"data/x"}, Args: []string{"it's", "2"}}},
	}
	text := buildFile(r)
	for _, want := range []string{
		`hdrs = ["a.h"]`, `deps = [":headers",":lib_base"]`, `linkstatic = True`, `name = "lib_a"`, `copts = ["-O1","'-DX=\"a $$b\"'"]`,
		`args = ["'it'\\''s'","2"]`, `data = ["data/x"]`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	dir := t.TempDir()
	if err := errors.Join(writePackage(dir, "p0001", &evolve.Revision{Files: map[string]string{"old.cc": ""}}), writePackage(dir, "p0001", r)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "p0001", "t.cc"))
	if err != nil || string(b) != `read("p0001/data/x"); include("a.h")` {
		t.Errorf("%s, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "p0001", "old.cc")); err == nil {
		t.Error("a file of the revision before is left")
	}
}

// A run of the tool itself is one more tool.
func TestReal(t *testing.T) {
	dir := t.TempDir()
	revisions := []*Revision{recorded(t, dir, "r1", "PASSED", "1", nil), recorded(t, dir, "r2", "FAILED", "2", nil)}
	revisions[0].Real, revisions[0].RealAgain = &Real{Selected: []string{"//:t"}}, &Real{}
	tools := func(p evolve.Passes) []evolve.Tool { return []evolve.Tool{evolve.BazelCache(p)} }
	for _, c := range []struct {
		real  *Real
		wrong int
		tools string
	}{{nil, 0, "bazel"}, {&Real{Selected: []string{"//:t"}, Deciding: 2}, 0, "bazel tasting test"}, {&Real{}, 3, "bazel tasting test"}} {
		revisions[1].Real = c.real
		trace, err := NewReplay(dir, t.TempDir()).Run(t.Context(), "repository", "history", revisions, tools)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(trace.Tools, " "); got != c.tools {
			t.Errorf("%s, want %s", got, c.tools)
		}
		if l := evolve.NewReport(trace).Wrong(RealTool); len(l) != c.wrong {
			t.Errorf("%+v: %v", c.real, l)
		}
	}
}

// A repository of programs is made once, and no other one is taken for it.
func TestRepository(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "repository")
	program := func(texts ...string) *evolve.Program {
		p := &evolve.Program{}
		for _, text := range texts {
			p.Revisions = append(p.Revisions, &evolve.Revision{Files: map[string]string{"a.cc": text}})
		}
		return p
	}
	programs := []*evolve.Program{program("1", "2", "3"), program("1", "2")}
	commits, err := Repository(t.Context(), dir, "seed 1", programs)
	if err != nil || len(commits) != 3 {
		t.Fatalf("%q, %v", commits, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "p0001", "a.cc")); err != nil || string(b) != "2" {
		t.Errorf("%q, %v", b, err)
	}
	if again, err := Repository(t.Context(), dir, "seed 1", programs); err != nil || !slices.Equal(again, commits) {
		t.Errorf("%q, %v", again, err)
	}
	if _, err := Repository(t.Context(), dir, "seed 2", programs); err == nil {
		t.Error("other programs are taken")
	}
}

// What a test didn't enter is what none of its shards did, and comes back as it was.
func TestIdle(t *testing.T) {
	r := &Recorder{state: state{t.TempDir()}}
	shard := func(names string) string {
		dir := t.TempDir()
		file := filepath.Join(dir, trace.IdleFile)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if names != "" {
			idle := map[string]bool{}
			for name := range strings.FieldsSeq(names) {
				idle[name] = true
			}
			b, err := trace.EncodeIdle(idle, nil)
			if err == nil {
				err = os.WriteFile(file, b, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return filepath.Join(dir, "test.log")
	}
	for _, c := range []struct {
		logs []string
		want map[string]bool // nil for what isn't known
	}{
		{nil, nil},
		{[]string{shard("f\ng\n")}, map[string]bool{"f": true, "g": true}},
		{[]string{shard("f\ng\n"), shard("g\nh\n")}, map[string]bool{"g": true}},
		{[]string{shard("f\n"), shard("")}, nil}, // given up
	} {
		blob, err := r.idle(c.logs)
		if err != nil || (blob == "") != (c.want == nil) {
			t.Errorf("%v: %q, %v", c.logs, blob, err)
			continue
		}
		p := NewReplay(r.dir, t.TempDir())
		got, err := p.traced(&Test{Idle: blob})
		if err != nil || c.want != nil && !maps.Equal(got.Idle, c.want) || c.want == nil && got != nil {
			t.Errorf("%v: %v, %v: want %v", c.logs, got, err, c.want)
		}
	}
	if _, err := NewReplay(r.dir, t.TempDir()).traced(&Test{Idle: "blobs/no"}); err == nil {
		t.Error("no error for a blob that isn't there")
	}
}
