package evaluate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/cputime"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
)

// run runs git in dir, with an identity.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// history makes a repository whose main has the commits a to e, tagged by their
// names; d is the merge of x.
func history(t *testing.T) string {
	dir := t.TempDir()
	run(t, dir, "init", "-q")
	commit := func(name string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o666); err != nil {
			t.Fatal(err)
		}
		run(t, dir, "add", "-A")
		run(t, dir, "commit", "-q", "-m", "subject "+name)
		run(t, dir, "tag", name)
	}
	for _, c := range []string{"a", "b", "c"} {
		commit(c)
	}
	run(t, dir, "checkout", "-q", "-b", "side")
	commit("x")
	run(t, dir, "checkout", "-q", "main")
	run(t, dir, "merge", "-q", "--no-ff", "-m", "d", "side")
	run(t, dir, "tag", "d")
	commit("e")
	return dir
}

func TestList(t *testing.T) {
	dir := history(t)
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o777); err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), filepath.Join(dir, "sub"))
	if err != nil || r.Prefix != "sub/" {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, c := range []struct {
		commits string
		every   int
		want    string
	}{
		{"a..e", 1, "a b c d e"},
		{"a..e", 2, "a c e"},
		{"a..d", 2, "a c d"},
		{"a..e", 9, "a e"},
		{"a,b,a", 1, "a b a"},
		{"a..b,e", 1, "a b e"},
	} {
		l, err := r.List(t.Context(), c.commits, c.every)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range l {
			got = append(got, run(t, dir, "tag", "--points-at", x))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s, every %d: %s, want %s", c.commits, c.every, got, c.want)
		}
	}
	for commits, want := range map[string]string{
		"nothing": "--commits: nothing", "e..a": "no commit of a comes after e", "a..": "", "a..nothing": "--commits: a..nothing", "--all": "--commits: --all",
	} {
		if l, err := r.List(t.Context(), commits, 1); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, %v", commits, l, err)
		}
	}
	if s := r.Subject(t.Context(), "b"); s != "subject b" {
		t.Error(s)
	}
	if _, err := Open(t.Context(), t.TempDir()); err == nil {
		t.Error("a directory without a repository")
	}
}

// TestCheckout: each side has a tree of its own; the repository isn't touched.
func TestCheckout(t *testing.T) {
	dir := history(t)
	r, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	before := run(t, dir, "for-each-ref") + run(t, dir, "worktree", "list") + run(t, dir, "status")
	tree := filepath.Join(t.TempDir(), "tree")
	if err := r.Clone(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	s := &side{evaluation: &evaluation{Options: &Options{Prepare: `echo "$TASTING_SIDE" > a; echo new > prepared`}, git: r}, name: plain, tree: tree}
	for _, c := range []string{"x", "b", "e"} {
		if err := s.checkout(t.Context(), run(t, dir, "rev-parse", c)); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"a": "plain\n", "prepared": "new\n", c: c} {
			if got, _ := os.ReadFile(filepath.Join(tree, name)); string(got) != want {
				t.Errorf("%s: %s: %q", c, name, got)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(tree, "x")); err != nil {
		t.Error(err) // e has it by the merge
	}
	s.Prepare = "echo no >&2; exit 3"
	if err := s.checkout(t.Context(), "e"); err == nil || !strings.Contains(err.Error(), "--prepare failed") || !strings.Contains(err.Error(), "no") {
		t.Error(err)
	}
	if after := run(t, dir, "for-each-ref") + run(t, dir, "worktree", "list") + run(t, dir, "status"); after != before {
		t.Errorf("the repository was touched:\n%s\n%s", before, after)
	}
}

func TestCensus(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(t.TempDir(), "objects.json")
	o := readObjects(file)
	write := func(name, content string) {
		t.Helper()
		name = filepath.Join(base, "execroot", "_main", name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want := func(all, different int) {
		t.Helper()
		a, d, err := o.census(base)
		if err != nil || a != all || d != different {
			t.Errorf("%d objects, %d different, %v; want %d, %d", a, d, err, all, different)
		}
		// What is kept is as good.
		if err := o.save(file); err != nil {
			t.Fatal(err)
		}
		o = readObjects(file)
	}
	want(0, 0)
	write("bazel-out/k8-fastbuild/bin/a.o", "a")
	write("bazel-out/k8-fastbuild/bin/b.pic.o", "b")
	write("bazel-out/k8-opt-exec-ST-1/bin/tool.o", "t")
	write("bazel-out/k8-fastbuild/bin/c.d", "d")
	write("external/x/source.o", "s")
	want(2, 2)
	want(2, 0)
	write("bazel-out/k8-fastbuild/bin/a.o", "changed")
	write("bazel-out/k8-fastbuild/bin/b.pic.o", "b") // compiled again, the same
	want(2, 1)
	if err := os.Remove(filepath.Join(base, "execroot/_main/bazel-out/k8-fastbuild/bin/a.o")); err != nil {
		t.Fatal(err)
	}
	want(1, 0)
	write("bazel-out/k8-fastbuild/bin/a.o", "changed") // is back
	want(2, 0)
	if err := os.WriteFile(file, []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	o = readObjects(file)
	want(2, 2)
}

func newEvaluation(t *testing.T, commits ...string) *evaluation {
	state := t.TempDir()
	return &evaluation{
		Options: &Options{State: state, Out: io.Discard, Err: io.Discard},
		plan:    plan{Format: Format, Commits: commits, Options: new(Options)},
		objects: readObjects(filepath.Join(state, "objects.json")),
	}
}

func TestResume(t *testing.T) {
	e := newEvaluation(t, "a", "b", "c")
	again := func() *evaluation {
		return &evaluation{Options: e.Options, plan: e.plan, objects: e.objects}
	}
	if err := e.resume(); err != nil || len(e.all) != 0 {
		t.Fatal(err)
	}
	a, b := &Commit{Format: Format, Commit: "a", Cold: true, Plain: Side{Executed: 4}}, &Commit{Format: Format, Commit: "b", Missed: []string{"//:t"}}
	for _, c := range []*Commit{a, b} {
		if err := e.append(c); err != nil {
			t.Fatal(err)
		}
	}
	if r := again(); r.resume() != nil || !cmp.Equal(r.all, []Commit{*a, *b}) {
		t.Errorf("%+v", r.all)
	}
	// A line that was cut off is done again.
	text, _ := os.ReadFile(e.lines())
	if err := os.WriteFile(e.lines(), append(text, text[:10]...), 0o666); err != nil {
		t.Fatal(err)
	}
	r := again()
	if err := r.resume(); err != nil || len(r.all) != 2 {
		t.Fatalf("%+v, %v", r.all, err)
	}
	if err := r.append(&Commit{Format: Format, Commit: "c"}); err != nil {
		t.Fatal(err)
	}
	if r := again(); r.resume() != nil || len(r.all) != 3 {
		t.Errorf("%+v", r.all)
	}
	for name, damage := range map[string]string{
		"order": `{"format":1,"commit":"b"}`, "format": `{"format":9,"commit":"a"}`, "JSON": `{"format":`, "more": string(text) + string(text),
	} {
		if err := os.WriteFile(e.lines(), []byte(damage+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := again().resume(); err == nil || !strings.Contains(err.Error(), "isn't of this evaluation") {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := again()
	other.plan.Args = []string{"//other"}
	if err := other.resume(); err == nil || !strings.Contains(err.Error(), "evaluation of something else") {
		t.Error(err)
	}
}

// TestMissed: what is replayed and doesn't pass with plain Bazel was missed.
func TestMissed(t *testing.T) {
	e := newEvaluation(t)
	c := &Commit{Commit: "abc"}
	p := &result{tests: map[string]outcome{
		"//:good": {"PASSED", true}, "//:cached": {"PASSED", false}, "//:bad": {"FAILED", true}, "//:flaky": {"FLAKY", true}, "//:late": {"TIMEOUT", true}, "//:run": {"FAILED", true},
	}}
	replayed := []string{"//:good", "//:cached", "//:bad", "//:flaky", "//:late", "//:unbuilt"}
	if err := e.verify(t.Context(), c, p, map[string]*result{plain: p, tasting: {replayed: replayed}, traces: {replayed: []string{"//:good", "//:bad"}}}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(c.Missed)
	if !slices.Equal(c.Missed, []string{"//:bad", "//:bad traces", "//:late", "//:unbuilt"}) || c.Verified != 6 {
		t.Errorf("%+v", c)
	}
}

func TestCount(t *testing.T) {
	r := &result{run: &report.Run{
		Tests: []report.Test{
			{Label: "//:hit", Verdict: report.Hit, Status: "PASSED"},
			{Label: "//:audited", Verdict: report.Hit, Status: "PASSED", Audited: true},
			{Label: "//:miss", Verdict: report.Miss, Status: "FAILED"},
			{Label: "//:cached", Verdict: report.Other, Status: "PASSED", Cached: true},
			{Label: "//:unbuilt", Verdict: report.Other, Status: "FAILED_TO_BUILD"},
			{Label: "//:elsewhere", Verdict: report.Other, Status: "SKIPPED"},
		},
		Cost: &report.Cost{DecidingSeconds: 2, Actions: map[string]int{"CppCompile": 3, "CppLink": 4, "TastingObject": 5, "TastingCompose": 1, "FileWrite": 9}},
	}}
	r.count()
	want := Side{Tests: 5, Executed: 2, Replayed: 1, Cached: 1, Failed: 2, Compiled: 3, Linked: 4, Analysed: 6, Deciding: 2}
	if d := cmp.Diff(want, r.Side); d != "" || !slices.Equal(r.replayed, []string{"//:hit"}) {
		t.Errorf("%s%s", r.replayed, d)
	}
	// What counts is what was executed: by plain Bazel one test, and another one.
	p := &result{Side: Side{Executed: 1}, tests: map[string]outcome{"//:miss": {"FAILED", false}, "//:audited": {"PASSED", false}, "//:hit": {"PASSED", true}}}
	if got := r.more(p); !slices.Equal(got, []string{"//:audited", "//:miss"}) {
		t.Errorf("more: %s", got)
	}
	p.Executed = 2
	if got := r.more(p); got != nil {
		t.Errorf("no more: %s", got)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	tab := newTable(&out)
	all := []Commit{
		{Commit: "0123456789", Subject: "first", Cold: true, Plain: Side{Tests: 3, Executed: 3, Compiled: 5, CPU: 10, Wall: 5}, Tasting: Side{Executed: 3, Compiled: 5, Analysed: 5, CPU: 11, Wall: 6}, Different: 5},
		{Commit: "1123456789", Subject: "second", Plain: Side{Tests: 3, Executed: 3, Compiled: 4, CPU: 8, Wall: 4}, Tasting: Side{Executed: 1, Replayed: 2, Compiled: 4, Analysed: 1, CPU: 6, Wall: 3}, Different: 1, Verified: 2},
		{Commit: "2123456789", Subject: "third", Resumed: true, Plain: Side{Tests: 3, Exit: 3, CPU: 99}, Tasting: Side{CPU: 1}, Missed: []string{"//:a"}},
		{Commit: "3123456789", Subject: "fourth", Unbuilt: true, Plain: Side{Exit: 1, CPU: 1}, Tasting: Side{Exit: 1, CPU: 2.2}},
		{Commit: "4123456789", Subject: "fifth", Plain: Side{Tests: 3, Executed: 1, Cached: 2, CPU: 1, Wall: 1}, Tasting: Side{Tests: 3, Executed: 2, Replayed: 1, CPU: 1, Wall: 1}, More: []string{"//:x", "//:y"}},
	}
	for i := range all {
		tab.row(&all[i])
	}
	tab.sums(all)
	const want = tableHead + `01234567            3        5    10.0     5.0         3        0        5        5    11.0     6.0  1.10          5  cold, first
11234567            3        4     8.0     4.0         1        2        4        1     6.0     3.0  0.75          1  second
21234567            0        0    99.0     0.0         0        0        0        0     1.0     0.0  0.01          0  resumed: in no sum, exit codes 3 and 0, 1 MISSED, third
31234567            0        0     1.0     0.0         0        0        0        0     2.2     0.0  2.20          0  doesn't build, fourth
41234567            1        0     1.0     1.0         2        1        0        0     1.0     1.0  1.00          0  1 more executed, fifth
sum                 4        4    10.0     5.0         3        3        4        1     9.2     4.0  0.92          1  3 commits after the first one

Of 6 tests bazel test executed 4 (66.7 %), tasting test 3 (50.0 %).
1 commits where tasting test executed more tests than bazel test.
Of 4 compilations by bazel test, 1 made an object that was new or different.
1 commits cost tasting test more than 1.1 times the CPU time of bazel test and a second.
2 replayed results were compared with an execution at the same commit.
1 commits don't build, or have no tests.
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

// TestSideTitles: with --cases, the side with traces has cases, too, and its row counts them.
func TestSideTitles(t *testing.T) {
	for _, tc := range []struct {
		o    Options
		want []string
	}{
		{Options{}, []string{"bazel test", "tasting test"}},
		{Options{Traces: true}, []string{"bazel test", "tasting test", "tasting test --traces=on"}},
		{Options{Traces: true, Cases: true}, []string{"bazel test", "tasting test", "tasting test --traces=on --cases", "tasting test --cases"}},
	} {
		var got []string
		for _, name := range tc.o.sideNames() {
			got = append(got, tc.o.title(name))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
	var out bytes.Buffer
	newTable(&out).row(&Commit{Commit: "0123456789", Traces: &Side{ByTrace: 4, CasesExecuted: 1, CasesReplayed: 2}, Cases: &Side{CasesExecuted: 2, CasesReplayed: 1}})
	for _, want := range []string{"4 replayed by traces, 1 of 3 test cases executed\n", "2 of 3 test cases executed\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q isn't in\n%s", want, &out)
		}
	}
}

// TestMeasure: exit codes that say nothing about tests end the evaluation, with the
// end of what was printed; the user's store isn't seen.
func TestMeasure(t *testing.T) {
	t.Setenv("TASTING_STORE", "/the/users")
	e := newEvaluation(t)
	e.git = &Repository{}
	s := &side{evaluation: e, name: plain, dir: t.TempDir(), tree: t.TempDir(), meter: cputime.NewMeter(fmt.Sprintf("tasting-test-measure-%d", os.Getpid()), t.TempDir())}
	var r result
	if err := s.measure(t.Context(), &r, "sh", []string{"-c", `echo "store=$TASTING_STORE"; exit 3`}); err != nil || r.Exit != 3 || r.Wall <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if log, _ := os.ReadFile(filepath.Join(s.dir, "log-1.txt")); string(log) != "store=\n" {
		t.Errorf("%q", log)
	}
	if err := s.measure(t.Context(), &r, "sh", []string{"-c", "echo bad flag; exit 2"}); err == nil || !strings.Contains(err.Error(), "bad flag") {
		t.Error(err)
	}
	if err := s.measure(t.Context(), &r, "sh", []string{"-c", "kill -9 $$"}); err == nil {
		t.Error("killed, and no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.measure(ctx, &r, "sleep", []string{"9"}); err == nil {
		t.Error("stopped, and no error")
	}
}
