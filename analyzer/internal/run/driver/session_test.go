package driver

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkflags"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// A workspace with a fake Bazel, and a store.
type workspace struct {
	t   testing.TB
	dir string
	scenario
	options Options
}

// What the files of a workspace hold. Their times are old: they were there long
// before the session.
var original = map[string]string{"t.c": "good", "data.txt": "data", "unused.h": "unused", "lib.a": "lib", "MODULE.bazel": ""}

func newWorkspace(t testing.TB) *workspace {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip(err)
	}
	w := &workspace{t: t, dir: t.TempDir()}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, filepath.Join(w.dir, "bazel")); err != nil {
		t.Fatal(err)
	}
	execRoot := filepath.Join(w.dir, "out", "execroot", "_main")
	for _, d := range []string{filepath.Join(w.dir, "ws"), filepath.Join(execRoot, "bazel-out")} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.Mkdir(filepath.Join(w.dir, "ws", "dir"), 0o777),
		os.WriteFile(filepath.Join(w.dir, "ws", "dir", "file"), nil, 0o666),
		os.Symlink("data.txt", filepath.Join(w.dir, "ws", "cur.txt")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range append(slices.Collect(maps.Keys(original)), "cur.txt", "dir") {
		if err := os.Symlink(filepath.Join(w.dir, "ws", name), filepath.Join(execRoot, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.dir, "cc"), []byte("#!/bin/sh\nexec gcc \"$@\"\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	s := store.OpenDisk(filepath.Join(w.dir, "store"))
	w.options = Options{Bazel: &bazel.Bazel{Program: filepath.Join(w.dir, "bazel"), Dir: filepath.Join(w.dir, "ws")}, Store: s, LocalStore: s, Read: true, Write: true, Aspect: Aspect}
	w.restore()
	return w
}

// restore has the workspace be what it was, as a new checkout of it.
func (w *workspace) restore() {
	w.t.Helper()
	old := time.Now().Add(-time.Hour)
	for name, content := range original {
		file := filepath.Join(w.dir, "ws", name)
		if b, err := os.ReadFile(file); err == nil && string(b) == content {
			continue
		}
		if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
			w.t.Fatal(err)
		}
		if err := os.Chtimes(file, old, old); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, dir := range []string{"cache", "out/execroot/_main/bazel-out"} {
		if err := os.RemoveAll(filepath.Join(w.dir, dir)); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(w.dir, "out/execroot/_main/bazel-out"), 0o777); err != nil {
		w.t.Fatal(err)
	}
	// Longer than the slack in the comparison of times.
	time.Sleep(150 * time.Millisecond)
}

// session is what a session has said, and how it ended.
type ended struct {
	code     int
	err      error
	out, say string
	log      string // of the test
}

func (w *workspace) test(args ...string) ended {
	w.t.Helper()
	b, err := json.Marshal(w.scenario)
	if err == nil {
		err = os.WriteFile(filepath.Join(w.dir, "scenario.json"), b, 0o666)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	var out, say bytes.Buffer
	o := w.options
	o.Out, o.Err, o.Args = &out, &say, append(append(args, "--client_cwd="+filepath.Join(w.dir, "ws")), "//:t")
	var e ended
	e.code, e.err = Test(w.t.Context(), &o)
	e.out, e.say = out.String(), say.String()
	logged, _ := os.ReadFile(filepath.Join(w.dir, "out/execroot/_main/bazel-out/k8/testlogs/t/test.log"))
	e.log = string(logged)
	return e
}

func (e ended) replayed() bool {
	return strings.Contains(e.out, "//:t") && strings.Contains(e.out, "(replayed) ")
}

func TestSession(t *testing.T) {
	for _, source := range []bool{false, true} {
		w := newWorkspace(t)
		w.Source = source
		first := w.test()
		if first.err != nil || first.code != 0 || first.replayed() || strings.Contains(first.say, "isn't recorded") {
			t.Fatalf("source %v: %+v", source, first)
		}
		second := w.test()
		if second.err != nil || second.code != 0 || !second.replayed() || !strings.Contains(second.log, "ran good lib with data\n") {
			t.Errorf("source %v: %+v", source, second)
		}
		if err := os.WriteFile(filepath.Join(w.dir, "ws", "t.c"), []byte("other"), 0o666); err != nil {
			t.Fatal(err)
		}
		if third := w.test(); third.code != 0 || third.replayed() {
			t.Errorf("source %v, edited: %+v", source, third)
		}
	}
}

// A dry run tells which tests would run, and touches nothing.
func TestDryRun(t *testing.T) {
	w := newWorkspace(t)
	dry := func(args ...string) (e ended, planned struct {
		Tests []struct {
			Label, Verdict, Reason string
			Run                    bool
		}
	}) {
		t.Helper()
		w.options.DryRun, w.options.Write = true, false
		e = w.test(args...)
		w.options.DryRun, w.options.Write = false, true
		if err := json.Unmarshal([]byte(e.out), &planned); err != nil || e.err != nil || e.code != 0 || len(planned.Tests) != 1 {
			t.Fatalf("%v: %+v", err, e)
		}
		return e, planned
	}
	e, p := dry()
	if x := p.Tests[0]; x.Label != "//:t" || !x.Run || x.Verdict != "miss" || x.Reason != "nothing is recorded" || e.log != "" {
		t.Errorf("%+v %+v", x, e)
	}
	if e := w.test(); e.replayed() || e.code != 0 {
		t.Fatalf("a dry run has recorded: %+v", e)
	}
	log := filepath.Join(w.dir, "out/execroot/_main/bazel-out/k8/testlogs/t/test.log")
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	e, p = dry()
	if x := p.Tests[0]; x.Run || x.Verdict != "hit" || e.log != "" {
		t.Errorf("%+v %+v", x, e)
	}
	if _, p = dry("--cache_test_results=no"); !p.Tests[0].Run {
		t.Errorf("%+v", p)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "ws", "t.c"), []byte("other"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, p = dry(); !p.Tests[0].Run || p.Tests[0].Verdict != "miss" {
		t.Errorf("%+v", p)
	}
}

// What Bazel says of a build that went well isn't said twice; all else is.
func TestQuiet(t *testing.T) {
	var b bytes.Buffer
	q := quiet(&b, false)
	for _, part := range []string{
		"Loading: \n\x1b[32mLoading:\x1b[0m 0 packages\n\r\x1b[1A\x1b[K\x1b[32mINFO: \x1b[0mAnalyzed target //:t.\n", "INFO: Found 3 tar", "gets...\nINFO: From Compiling t.cc:\nt.cc:1: warning: x\n",
		"INFO: \nINFO: Elapsed time: 1s\nINFO: 2 processes: 1 internal.\nINFO: Build completed successfully, 1 total action\nERROR: it\nend",
	} {
		q.Write([]byte(part))
	}
	q.flush()
	if want := "\x1b[32mLoading:\x1b[0m 0 packages\n\r\x1b[1A\x1b[KINFO: From Compiling t.cc:\nt.cc:1: warning: x\nERROR: it\nend"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// Files are saved at every boundary of a session: as they will stay, or edited and
// edited back later, with their old times. Whatever has run, a later session must
// not replay it for what hasn't. Three tests, for Bazel to run in shards.
func TestEdits(t *testing.T)       { edits(t, kind{source: true}, kind{}) }
func TestEditsAtOnce(t *testing.T) { edits(t, kind{source: true, known: true}, kind{known: true}) }
func TestEditsTraced(t *testing.T) { edits(t, kind{source: true, traced: true}, kind{traced: true}) }

type kind struct{ source, known, traced bool }

func edits(t *testing.T, kinds ...kind) {
	keep := func(file, commands string) string {
		return "touch -r " + file + " .ref; " + commands + "; touch -r .ref " + file + "; rm .ref"
	}
	// The moments of a session, in order.
	moments := []string{
		"expand", "analyse", "analyse preprocess", "analyse compile", "analyse read", "analyse end", "run", "run preprocess", "run compile", "run read", "run link", "run test", "run end",
	}
	for _, x := range kinds {
		for _, file := range []string{"t.c", "lib.a", "data.txt"} {
			if file != "t.c" && x.traced {
				continue // what is in lib.a isn't executed, and data are in both keys
			}
			for i, m := range moments {
				if strings.HasSuffix(m, "preprocess") && !x.source || m == "expand" && x.known || file == "lib.a" && x.known || (strings.HasSuffix(m, "read") || m == "run link") != (file == "lib.a") && strings.Contains(m, " ") && !strings.HasSuffix(m, "end") {
					continue
				}
				// i == k: it stays as it was edited.
				for _, k := range slices.Compact([]int{i, min(i+1, len(moments)-1), len(moments) - 1}) {
					name := strings.Join([]string{map[bool]string{true: "source", false: "object"}[x.source], file, m, "to", moments[k]}, " ")
					if x.known {
						name += ", at once"
					}
					if x.traced {
						name += ", traced"
					}
					t.Run(name, func(t *testing.T) {
						t.Parallel() // it mostly waits
						w := newWorkspace(t)
						w.Source = x.source
						if x.traced {
							w.trace()
						}
						if x.known {
							w.options.Bazel.Cache = t.TempDir()
							w.options.Write = false
							w.test()
							w.restore()
							w.options.Write = true
						}
						edit := keep(file, "printf edit >"+file)
						back := keep(file, "printf "+original[file]+" >"+file)
						w.Hooks = map[string]string{m: edit}
						if k > i {
							w.Hooks[moments[k]] = back
						}
						first := w.test()
						if first.err != nil {
							t.Fatalf("%+v", first)
						}
						ran := first.log
						if x, err := w.options.Store.(*store.Disk).Stat(t.Context()); err != nil {
							t.Fatal(err)
						} else if x.Entries == 0 {
							return // nothing can be replayed
						}
						w.Hooks = nil
						w.restore()
						second := w.test()
						if second.err != nil {
							t.Fatalf("%+v", second)
						}
						if second.replayed() && !strings.Contains(second.log, "ran good lib with data\n") {
							t.Errorf("replayed %q for the original files; the first session said\n%s", second.log, first.say)
						}
						// Nor for the edited ones.
						if err := os.WriteFile(filepath.Join(w.dir, "ws", file), []byte("edit"), 0o666); err != nil {
							t.Fatal(err)
						}
						os.RemoveAll(filepath.Join(w.dir, "cache"))
						want := strings.Replace("ran good lib with data\n", map[string]string{"t.c": "good", "lib.a": "lib", "data.txt": "data"}[file], "edit", 1)
						if third := w.test(); third.err != nil || third.replayed() && !strings.Contains(third.log, want) {
							t.Errorf("replayed %q for the edited files, ran %q (%v); the first session said\n%s", third.log, ran, third.err, first.say)
						}
					})
				}
			}
		}
	}
}

// What changes beside the test's files, or doesn't.
func TestRecordedOnlyIf(t *testing.T) {
	for _, c := range []struct {
		name   string
		source bool
		hooks  map[string]string
		want   string // why it isn't recorded, or ""
	}{
		{"nothing", true, nil, ""},
		{"another file", true, map[string]string{"run test": "echo x >new.c"}, ""},
		{"saved as it was", true, map[string]string{"run test": "printf good >t.c"}, "its sources were saved while it was tested"},
		{"the object decides", false, map[string]string{"run test": "printf good >t.c"}, ""},
		{"data saved as they were", false, map[string]string{"run test": "printf data >data.txt"}, "its data _main/data.txt was saved while it was tested"},
		{"a link to data retargeted and back", false, map[string]string{"run test": "ln -sfn t.c cur.txt; ln -sfn data.txt cur.txt"}, "its data _main/cur.txt was saved while it was tested"},
		{"a directory moved and moved back", false, map[string]string{"run test": "mv dir bak; mv bak dir"}, "its data _main/dir/file was saved while it was tested"},
		{"a directory of sources moved and moved back", true, map[string]string{"run test": "mv ../ws ../bak; mv ../bak ../ws"}, "its sources were saved while it was tested"},
		{"files made beside data", true, map[string]string{"run test": "echo x >dir/new; mkdir -p dir/more; rm dir/new"}, ""},
		{"Bazel's links", true, map[string]string{"run test": "ws=$PWD; cd ../out/execroot/_main; ln -sfn $ws/data.txt data.txt; mkdir x; chmod 700 .; chmod 755 ."}, ""},
		{"an archive saved as it was", false, map[string]string{"run test": "printf lib >lib.a"}, "lib.a, which is linked, was saved while it was tested"},
		{"edited", false, map[string]string{"run": "printf other >t.c"}, "its sources, data or flags were edited while it was tested"},
		{"another linker", false, map[string]string{"run test": `sed -i 's/gcc/gcc -Wl,-z,now/' ../cc`}, "the linker or libraries of the system were changed while it was tested"},
		{"the test makes its data", false, map[string]string{"run test": "echo x >../out/execroot/_main/bazel-out/k8/bin/new"}, ""},
	} {
		for _, attempts := range [][]string{{"PASSED"}, {"FAILED"}} {
			t.Run(c.name+" "+attempts[0], func(t *testing.T) {
				w := newWorkspace(t)
				w.Source, w.Hooks, w.Attempts = c.source, c.hooks, attempts
				e := w.test()
				s, err := w.options.Store.(*store.Disk).Stat(t.Context())
				if e.err != nil || err != nil {
					t.Fatal(e.err, err)
				}
				if (s.Entries == 0) != (c.want != "") || !strings.Contains(e.say, c.want) {
					t.Errorf("%d entries, said %s", s.Entries, e.say)
				}
			})
		}
	}
}

// Another call of Bazel that has had the lock since has left its own log.
func TestOverwritten(t *testing.T) {
	logs := "cd ../out/execroot/_main/bazel-out/k8/testlogs/t; "
	for _, c := range []struct {
		name, hook string
		recorded   bool
	}{
		{"nothing", "", true},
		{"running", logs + "rm *; printf other >test.log", false},
		{"run", logs + `rm *; printf other >test.log; printf 'x\001' >test.cache_status`, false},
		{"run by another version", logs + `rm *; printf other >test.log; printf '\010\001' >test.cache_status`, false},
		{"damaged", logs + `printf '\377' >test.cache_status`, false},
	} {
		w := newWorkspace(t)
		w.Hooks = map[string]string{"run end": c.hook}
		const why = "//:t isn't recorded: its log and outputs are not of this run"
		if e := w.test(); e.err != nil || strings.Contains(e.say, why) == c.recorded {
			t.Errorf("%s: %+v", c.name, e)
		}
		w.Hooks = nil
		if e := w.test(); e.replayed() != c.recorded {
			t.Errorf("%s, later: %+v", c.name, e)
		}
	}
	// A replay of what Bazel has just run leaves that alone. Else it is no run, and leaves
	// nothing that says so.
	w := newWorkspace(t)
	w.test()
	dir := filepath.Join(w.dir, "out/execroot/_main/bazel-out/k8/testlogs/t")
	for _, c := range []struct {
		name, hook string
		kept       bool
	}{
		{"as recorded", "", true},
		{"another log", logs + "rm test.log; printf other >test.log", false},
		{"after that", "", false},
	} {
		w.Hooks = map[string]string{"analyse end": c.hook}
		if e := w.test(); !e.replayed() || strings.Contains(e.log, "tasting: replayed") == c.kept {
			t.Errorf("%s: %+v", c.name, e)
		}
		if _, err := os.Stat(filepath.Join(dir, bazel.StatusFile)); (err == nil) != c.kept {
			t.Errorf("%s: %s: %v", c.name, bazel.StatusFile, err)
		}
	}
	w = newWorkspace(t)
	w.test()
	w.Hooks = map[string]string{"analyse end": logs + "mkdir test.outputs; touch test.outputs/more"}
	if e := w.test(); !e.replayed() || !strings.Contains(e.log, "tasting: replayed") {
		t.Errorf("other outputs: %+v", e)
	}
}

// A failure at one attempt is noted, so that no later pass is replayed. A time-out
// isn't a failure.
func TestFlaky(t *testing.T) {
	for _, c := range []struct {
		attempts []string
		status   string
		noted    bool
	}{
		{[]string{"FAILED", "PASSED"}, "FLAKY", true},
		{[]string{"FAILED"}, "FAILED", true},
		{[]string{"TIMEOUT", "PASSED"}, "FLAKY", false},
		{[]string{"TIMEOUT"}, "TIMEOUT", false},
		{[]string{"REMOTE_FAILURE"}, "REMOTE_FAILURE", false},
		{[]string{"INCOMPLETE"}, "INCOMPLETE", false},
	} {
		w := newWorkspace(t)
		w.Attempts, w.Status = c.attempts, c.status
		if e := w.test(); e.err != nil || strings.Contains(e.say, "isn't recorded") != (c.status == "FLAKY") {
			t.Errorf("%v: %+v", c.attempts, e)
		}
		w.Attempts, w.Status = nil, ""
		if e := w.test(); e.replayed() || strings.Contains(e.say, "isn't recorded: the test failed with the same fingerprint") != c.noted {
			t.Errorf("%v, then a pass: %+v", c.attempts, e)
		}
		if e := w.test(); e.replayed() == c.noted {
			t.Errorf("%v, later: replayed is %v", c.attempts, e.replayed())
		}
	}
}

// A pass that Bazel has kept stays Bazel's: nothing is executed to be recorded. If all tests are to be executed, they are
// recorded, and a failure then is one.
func TestCached(t *testing.T) {
	const kept = "Bazel had cached the pass of 1 test, which tasting hasn't observed"
	w := newWorkspace(t)
	w.options.Write = false
	w.test()
	w.options.Write, w.Cached = true, true
	for range 2 {
		if e := w.test(); e.err != nil || e.code != 0 || e.replayed() || strings.Count(e.say, kept) != 1 || !strings.Contains(e.out, "(cached) PASSED") || !strings.Contains(e.out, "Executed 0 out of 1 test: 1 test passes.") {
			t.Errorf("kept: %+v", e)
		}
	}
	w.options.Write = false
	if e := w.test(); strings.Contains(e.say, kept) {
		t.Errorf("nothing would be recorded anyway: %+v", e)
	}
	w.options.Write = true
	if e := w.test("--cache_test_results=0"); e.err != nil || e.code != 0 || strings.Contains(e.say, kept) || !strings.Contains(e.out, "Executed 1 out of 1 test: 1 test passes.") {
		t.Errorf("all are to be executed: %+v", e)
	}
	if e := w.test(); !e.replayed() {
		t.Errorf("it isn't recorded: %+v", e)
	}
	if e := w.test("--cache_test_results=0"); e.replayed() || !strings.Contains(e.out, "Executed 1 out of 1 test: 1 test passes.") {
		t.Errorf("all are to be executed, what is recorded as well: %+v", e)
	}
	w.Attempts = []string{"FAILED"}
	if e := w.test("--cache_test_results=0"); e.code != bazel.ExitTestsFailed || !strings.Contains(e.out, "FAILED in") {
		t.Errorf("it fails: %+v", e)
	}
	w.Attempts = nil
	if e := w.test(); e.replayed() {
		t.Errorf("it has failed with this fingerprint: %+v", e)
	}
}

// Nothing is executed to find out whether tests are up to date, and a recorded result is.
func TestUpToDate(t *testing.T) {
	w := newWorkspace(t)
	check := "--check_tests_up_to_date=1"
	if e := w.test(check); e.code != bazel.ExitBuildFailed || !strings.Contains(e.out, "NO STATUS") || !strings.Contains(e.out, "Finished with 0 passing and 0 failing tests up to date, 1 out of date.") {
		t.Errorf("not up to date: %+v", e)
	}
	w.test()
	w.options.Audit = 1
	if e := w.test(check); e.code != 0 || !e.replayed() || !strings.Contains(e.out, "Finished with 1 passing and 0 failing tests up to date, 0 out of date.") {
		t.Errorf("recorded: %+v", e)
	}
}

// Another target that can't be built doesn't keep a result from being recorded, where Bazel
// goes on after it.
func TestOtherNotBuilt(t *testing.T) {
	for flag, recorded := range map[string]bool{"--keep_going=true": true, "--keep_going=Y": true, "--keep_going=1": true, "--test_env=A=B": false} {
		w := newWorkspace(t)
		w.OtherNotBuilt = true
		if e := w.test(flag); e.err != nil || e.code != bazel.ExitBuildFailed || strings.Contains(e.say, "isn't recorded: not all tests could be analysed") == recorded {
			t.Errorf("%s: %+v", flag, e)
		}
		if e := w.test(flag); e.replayed() != recorded || e.code == bazel.ExitOK && !recorded {
			t.Errorf("%s, again: %+v", flag, e)
		}
	}
}

// What has passed before an interruption is recorded, what has failed isn't noted.
func TestInterrupted(t *testing.T) {
	w := newWorkspace(t)
	w.Interrupted = true
	if e := w.test(); e.err != nil || e.code != bazel.ExitInterrupted || !strings.Contains(e.out, "PASSED in") || !strings.Contains(e.out, "Executed 1 out of 1 test: 1 test passes.") {
		t.Errorf("%+v", e)
	}
	w.Interrupted = false
	if e := w.test(); !e.replayed() {
		t.Errorf("after an interruption: %+v", e)
	}
	w = newWorkspace(t)
	w.Interrupted, w.Attempts = true, []string{"FAILED"}
	w.test()
	w.Interrupted, w.Attempts = false, nil
	if e := w.test(); e.code != 0 || strings.Contains(e.say, "isn't recorded") {
		t.Errorf("after a test that failed when it was interrupted: %+v", e)
	}
}

// An audit withdraws a result if the test comes to its end and fails, and for
// nothing else.
func TestAudit(t *testing.T) {
	for _, c := range []struct {
		name      string
		change    func(w *workspace)
		withdrawn bool
		want      string
	}{
		{"passed", func(*workspace) {}, false, ""},
		{"failed", func(w *workspace) { w.Attempts = []string{"FAILED"} }, true, "AUDIT FAILED"},
		{"time-out", func(w *workspace) { w.Attempts = []string{"TIMEOUT"} }, false, "the audit of //:t says nothing, it ended as TIMEOUT"},
		{"remote failure", func(w *workspace) { w.Attempts = []string{"REMOTE_FAILURE"} }, false, "it ended as REMOTE FAILURE"},
		{"incomplete", func(w *workspace) { w.Attempts = []string{"INCOMPLETE"} }, false, "it ended as INCOMPLETE"},
		{"flaky", func(w *workspace) { w.Attempts, w.Status = []string{"FAILED", "PASSED"}, "FLAKY" }, false, "it ended as FLAKY"},
		{"flaky after a time-out", func(w *workspace) { w.Attempts, w.Status = []string{"TIMEOUT", "PASSED"}, "FLAKY" }, false, "it ended as FLAKY"},
		{"failed build", func(w *workspace) {
			w.Hooks = map[string]string{"audit": `sed -i 's/"NotBuilt":false/"NotBuilt":true/' ../scenario.json`}
		}, false, ""},
		{"edited", func(w *workspace) {
			w.Hooks, w.Attempts = map[string]string{"audit": "printf other >t.c"}, []string{"FAILED"}
		}, false, "isn't recorded: its sources, data or flags were edited"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorkspace(t)
			w.test()
			w.options.Audit = 1
			c.change(w)
			if e := w.test(); e.err != nil || !strings.Contains(e.say, "1 of the recorded to audit") || !strings.Contains(e.say, c.want) {
				t.Errorf("%+v", e)
			}
			w.options.Audit, w.Attempts, w.Status, w.Hooks = 0, nil, "", nil
			w.restore()
			if e := w.test(); e.replayed() == c.withdrawn {
				t.Errorf("later: %+v", e)
			}
		})
	}
}

// A link that is where a replay writes, of an earlier run of the test or whatever
// made it, leads nowhere.
func TestReplayThroughLinks(t *testing.T) {
	w := newWorkspace(t)
	w.Release = "8.0.0" // which doesn't put outputs into an archive
	logs := filepath.Join(w.dir, "out/execroot/_main/bazel-out/k8/testlogs")
	w.Hooks = map[string]string{"run test": "mkdir -p " + logs + "/t/test.outputs/d; printf mine >" + logs + "/t/test.outputs/d/out.txt"}
	w.test()
	w.Hooks = nil
	replay := func(name string, want bool) {
		t.Helper()
		outside := t.TempDir()
		for _, f := range []string{"out.txt", "test.log"} {
			if err := os.WriteFile(filepath.Join(outside, f), []byte("theirs"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		link := filepath.Join(logs, name)
		if err := os.RemoveAll(link); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(link), 0o777); err != nil {
			t.Fatal(err)
		}
		to := outside
		if strings.Contains(filepath.Base(name), ".txt") || filepath.Base(name) == "test.log" {
			to = filepath.Join(outside, filepath.Base(name))
		}
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
		e := w.test()
		if !e.replayed() || strings.Contains(e.say, "can't be written") == want {
			t.Errorf("%s: %+v", name, e)
		}
		for _, f := range []string{"out.txt", "test.log"} {
			if b, err := os.ReadFile(filepath.Join(outside, f)); err != nil || string(b) != "theirs" {
				t.Errorf("%s: %s is %q now (%v)", name, f, b, err)
			}
		}
		if b, err := os.ReadFile(filepath.Join(logs, "t/test.outputs/d/out.txt")); want && (err != nil || string(b) != "mine") {
			t.Errorf("%s: replayed %q, %v", name, b, err)
		}
	}
	replay("t/test.outputs", true)
	replay("t/test.outputs/d", true)
	replay("t/test.outputs/d/out.txt", true)
	replay("t/test.log", true)
	replay("t", false)
}

// The files in which the user wants to read about the invocation: they are about
// the one that runs the tests, and new.
func TestOutputs(t *testing.T) {
	t.Run("in two steps", func(t *testing.T) { testOutputs(t, newWorkspace(t)) })
	t.Run("at once", func(t *testing.T) {
		w := newWorkspace(t)
		w.options.Bazel.Cache = t.TempDir()
		testOutputs(t, w)
	})
}

func testOutputs(t *testing.T, w *workspace) {
	read := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(w.dir, name))
		return string(b)
	}
	var flags []string
	for _, name := range []string{"build_event_text_file", "build_event_binary_file", "profile", "bes_backend"} {
		flags = append(flags, "--"+name+"="+filepath.Join(w.dir, name))
	}
	flags = append(flags, "--build_event_json_file="+filepath.Join(w.dir, "json"))
	check := func(what, invocation, json string) {
		t.Helper()
		for _, name := range []string{"build_event_text_file", "build_event_binary_file", "profile", "bes_backend"} {
			if got := read(name); got != invocation {
				t.Errorf("%s: %s is of %q, want that of %q", what, name, got, invocation)
			}
			os.Remove(filepath.Join(w.dir, name))
		}
		if got := read("json"); !strings.Contains(got, json) || !strings.Contains(got, "buildFinished") {
			t.Errorf("%s: events %q, want %q", what, got, json)
		}
		if err := os.WriteFile(filepath.Join(w.dir, "json"), []byte("stale"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	w.test(flags...)
	check("run", "run", `"overallStatus":"PASSED"`)
	if e := w.test(flags...); !e.replayed() {
		t.Errorf("%+v", e)
	}
	check("nothing to run", "nothing", "SUCCESS")
	w.options.Audit = 1
	w.test(flags...)
	check("only an audit", "audit", `"overallStatus":"PASSED"`)
	w.options.Audit = 0
	// Without such flags there is no further invocation.
	w.test()
	if read("profile") != "" {
		t.Error("a profile that nobody wanted")
	}
	// The user's Bazel says it in another way.
	w.Hooks = map[string]string{"nothing": "exit 1"}
	if e := w.test(); e.err != nil || !e.replayed() {
		t.Errorf("%+v", e)
	}
	// Which tests a file is read for, a query tells.
	w.Source = true
	w.Hooks = map[string]string{"run end": "touch t.c"}
	if err := os.WriteFile(filepath.Join(w.dir, "ws", "t.c"), []byte("edited"), 0o666); err != nil {
		t.Fatal(err)
	}
	w.test(flags...)
	check("touched", "run", `"overallStatus":"PASSED"`)
}

// What Bazel says nothing of hasn't passed.
func TestUnheard(t *testing.T) {
	w := newWorkspace(t)
	w.Silent = true
	for range 2 { // with and without step 1
		if e := w.test(); e.err != nil || e.code != bazel.ExitBuildFailed || !strings.Contains(e.say, "Bazel says nothing of //:t") {
			t.Errorf("%+v", e)
		}
	}
}

// If the aspect can't be applied, all is green and nothing is ever replayed: that is
// an error. If a test isn't built, Bazel says so, and it is one that failed.
func TestAnalysisFails(t *testing.T) {
	w := newWorkspace(t)
	w.NoAspect = true
	e := w.test()
	if e.err == nil || !strings.Contains(e.err.Error(), "tasting adopt --path=CHECKOUT") || !strings.Contains(e.say, "No repository visible") || e.log != "" {
		t.Errorf("%+v", e)
	}
	w.NoAspect = false
	w.test()
	w.NotBuilt = true
	e = w.test()
	if e.err != nil || e.code != bazel.ExitBuildFailed || e.replayed() || !strings.Contains(e.out, "FAILED TO BUILD") || strings.Contains(e.say, "have no fingerprint") {
		t.Errorf("not built: %+v", e)
	}
}

// What doesn't compile is said once: by the invocation that runs the tests. What that one may not say is said before.
func TestErrorsOnce(t *testing.T) {
	for _, c := range []struct {
		failed, config string
		times          int
	}{
		{"CppCompile", "c", 1},
		{"Genrule", "trimmed", 1},
		{"TastingObject", "c", 2},
		{"GoCompilePkg", "exec", 2},
	} {
		w := newWorkspace(t)
		w.NotBuilt, w.Failed, w.FailedConfig = true, c.failed, c.config
		for _, known := range []bool{false, true} {
			if known { // step 1 was made before
				w.NotBuilt = false
				w.test()
				w.NotBuilt = true
				if err := os.WriteFile(filepath.Join(w.dir, "ws/t.c"), []byte("edited"), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			e := w.test()
			if n := strings.Count(e.say, "it doesn't compile"); e.err != nil || e.code != bazel.ExitBuildFailed || n != c.times {
				t.Errorf("%+v, known: %t: said %d times: %+v", c, known, n, e)
			}
		}
	}
}

// Variables of the loader: what it loads isn't known.
func TestPreload(t *testing.T) {
	w := newWorkspace(t)
	w.Env = map[string]string{"LD_PRELOAD": "data/libx.so"}
	for range 2 {
		if e := w.test(); e.err != nil || e.replayed() {
			t.Errorf("%+v", e)
		}
	}
}

// TestOneProbe: tests that are linked alike share a probe, however many libraries
// they have.
func TestOneProbe(t *testing.T) {
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	linker := filepath.Join(dir, "cc")
	if err := os.WriteFile(linker, []byte("#!/bin/sh\necho x >>"+calls+"\nexec gcc \"$@\"\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	p := &prober{dir: dir, env: os.Environ(), tmp: dir}
	line := func(args ...string) *linkflags.Line { return linkflags.Parse(args, linkflags.Options{}) }
	program, library, other := line("-pie", "-lm"), line("-shared", "-lm"), line("-shared", "-lm", "-ldl")
	count := func() int {
		b, _ := os.ReadFile(calls)
		return bytes.Count(b, []byte("x"))
	}
	first := 0
	for i, lines := range [][]*linkflags.Line{{program, library}, {program, library, line("-shared", "-lm")}, {program, library, library, library}} {
		if _, err := p.libraries(t.Context(), &description{Linker: linker}, lines); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = count()
		}
		if n := count(); n == 0 || n != first {
			t.Errorf("%d: %d calls of the linker, %d for the first test", i, n, first)
		}
	}
	if _, err := p.libraries(t.Context(), &description{Linker: linker}, []*linkflags.Line{program, library, other}); err != nil {
		t.Fatal(err)
	}
	if n := count(); n <= first {
		t.Errorf("%d calls with another line", n)
	}
}

// Another command of Bazel may build for another configuration in the same directory, as soon as one
// has ended.
func TestMeanwhile(t *testing.T) {
	const remake = `sleep 0.05; find ../out/execroot/_main/bazel-out -type f | while read f; do cp "$f" "$f.new"; mv "$f.new" "$f"; done`
	for _, source := range []bool{false, true} {
		w := newWorkspace(t)
		w.Source = source
		w.Hooks = map[string]string{"run after": remake}
		if e := w.test(); e.replayed() || !strings.Contains(e.say, "isn't recorded: another command of Bazel has made") {
			t.Errorf("source %t: after the run: %s%s", source, e.out, e.say)
		}
		w.Hooks = nil
		w.test()
		if e := w.test(); !e.replayed() {
			t.Errorf("source %t: nothing recorded: %s%s", source, e.out, e.say)
		}
		w.Hooks = map[string]string{"analyse after": remake}
		if e := w.test(); e.replayed() || !strings.Contains(e.say, "another command of Bazel has made") {
			t.Errorf("source %t: after the analysis: %s%s", source, e.out, e.say)
		}
		w.Hooks = nil
		if e := w.test(); !e.replayed() {
			t.Errorf("source %t: for ever: %s%s", source, e.out, e.say)
		}
	}
}

// TestPrebuiltLibrary: what only a library needs that the test is linked with and Bazel
// hasn't linked. The program that is probed doesn't need that one.
func TestPrebuiltLibrary(t *testing.T) {
	dir := t.TempDir()
	compile := func(value, args string) {
		t.Helper()
		cmd := exec.Command("gcc", strings.Fields("-shared -fPIC -x c - "+args)...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader("int f(void) { return "+value+"; }")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	compile("1", "-o libsystem.so")
	compile("1", "-o libprebuilt.so -x none -Wl,--no-as-needed -L. -lsystem")
	text := "tasting link 1\noutput t\nkind executable\nunit lib/libprebuilt.so\tmanifest\nlibrary lib/libprebuilt.so\tlibprebuilt.so\nlibrary lib/other.so\tother.so\narg -Llib\narg -lprebuilt\narg -Wl,-rpath," + dir + "\n"
	if err := os.WriteFile(filepath.Join(dir, "link"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := manifest.Write(filepath.Join(dir, "manifest"), &manifest.Manifest{Rung: manifest.Rung_RUNG_CONTENT, Units: []*manifest.Unit{{}}}); err != nil {
		t.Fatal(err)
	}
	composed, _ := fingerprint.ComposeAll([]*fingerprint.Test{{Binary: "t", Links: []string{filepath.Join(dir, "link")}, Dir: dir}}, nil)
	if composed[0].Err != nil {
		t.Fatal(composed[0].Err)
	}
	p := &prober{}
	before, err := p.loads(&composed[0], "")
	if err != nil || !p.unchanged() {
		t.Fatal("it has changed", err)
	}
	compile("2", "-o libsystem.so")
	after, err := new(prober).loads(&composed[0], "")
	if err != nil || slices.Equal(before, after) {
		t.Errorf("another library makes no difference: %v, %v", after, err)
	}
	if p.unchanged() {
		t.Error("it is said to be unchanged")
	}
}
