package driver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
)

// trace has tests traced, which don't enter what there is in the archive.
func (w *workspace) trace() {
	if !trace.Permitted() {
		w.t.Skip("ptrace isn't permitted")
	}
	w.options.Traces, w.options.Tracer, w.options.Bazel.Cache = TracesOn, "/a/tasting", w.t.TempDir()
	w.options.hidden = "/hidden/" // the test may be in /tmp
	w.Idle = []string{"lib"}
}

func (w *workspace) write(file, content string) {
	w.t.Helper()
	name, old := filepath.Join(w.dir, "ws", file), time.Now().Add(-time.Hour)
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Chtimes(name, old, old); err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(150 * time.Millisecond) // see restore
}

func (e ended) byTrace() bool { return e.replayed() && strings.Contains(e.out, "(1 by traces)") }

// A change of what a test hasn't executed replays it, also where only its results may be read, and from then on by
// its fingerprint. All else runs it.
func TestTraces(t *testing.T) {
	for _, source := range []bool{false, true} {
		w := newWorkspace(t)
		w.Source = source
		w.trace()
		w.options.RunsDir = t.TempDir()
		first := w.test()
		if first.err != nil || first.code != 0 || first.replayed() || strings.Contains(first.say, "isn't recorded") {
			t.Fatalf("source %v: %+v", source, first)
		}
		if again := w.test(); again.code != 0 || !again.replayed() || again.byTrace() {
			t.Errorf("source %v, by its fingerprint: %+v", source, again)
		}
		w.write("lib.a", "other")
		w.options.Traces = TracesOff
		w.options.Write = false
		if off := w.test(); off.code != 0 || off.replayed() {
			t.Errorf("source %v, off: %+v", source, off)
		}
		w.options.Traces = TracesRead
		if read := w.test(); read.code != 0 || !read.byTrace() || !strings.Contains(read.log, ", trace ") || !strings.Contains(read.log, "ran good lib with data") {
			t.Errorf("source %v, read: %+v", source, read)
		}
		w.options.Traces, w.options.Write = TracesOn, true
		if on := w.test(); on.code != 0 || !on.byTrace() {
			t.Errorf("source %v, on: %+v", source, on)
		}
		traces := 0
		if _, err := report.ReadRuns(w.options.RunsDir, func(r *report.Run) {
			for _, x := range r.Tests {
				if x.Trace && x.Verdict == report.Hit {
					traces++
				}
			}
			if r.Store.Lookups != r.Store.Hits+r.Store.Misses {
				t.Errorf("%+v", r.Store)
			}
		}); err != nil || traces != 2 {
			t.Errorf("source %v: %d tests are replayed by traces, %v", source, traces, err)
		}
		w.options.Traces = TracesOff
		if later := w.test(); later.code != 0 || later.replayed() != !source {
			// What was compiled later than the sources were read isn't recorded by these.
			t.Errorf("source %v, later: %+v", source, later)
		}
		w.options.Traces = TracesOn
		for _, file := range []string{"t.c", "data.txt"} {
			w.write(file, "edit")
			if e := w.test(); e.code != 0 || e.replayed() {
				t.Errorf("source %v, %s: %+v", source, file, e)
			}
		}
		// What it has entered before has no breakpoints, but for some of it.
		w.Idle = []string{}
		for _, content := range []string{"1", "2", "3"} {
			w.write("t.c", content)
			w.test()
		}
		if _, err := os.Stat(filepath.Join(w.dir, "spared")); err != nil {
			t.Errorf("source %v: %v", source, err)
		}
	}
}

// What isn't known to be idle was executed.
func TestNotIdle(t *testing.T) {
	for name, idle := range map[string][]string{"given up": nil, "executed": {"other"}} {
		w := newWorkspace(t)
		w.trace()
		w.Idle = idle
		if e := w.test(); e.code != 0 || strings.Contains(e.say, "isn't recorded") {
			t.Fatalf("%s: %+v", name, e)
		}
		w.write("lib.a", "other")
		if e := w.test(); e.code != 0 || e.replayed() {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// A test that fails has no trace that speaks for it, nor does one whose failure was noted, whichever of its results is
// found.
func TestTracesFail(t *testing.T) {
	w := newWorkspace(t)
	w.trace()
	w.Attempts = []string{"FAILED"}
	if e := w.test(); e.code != 3 {
		t.Fatalf("%+v", e)
	}
	// The same execution, says its trace, and it passes: it is flaky.
	w.write("lib.a", "other")
	w.Attempts = nil
	if e := w.test(); e.code != 0 || !strings.Contains(e.say, "isn't recorded by its trace") {
		t.Errorf("%+v", e)
	}
	w.write("lib.a", "third")
	if e := w.test(); e.code != 0 || e.replayed() {
		t.Errorf("%+v", e)
	}
}

// An audit withdraws what a trace has found, and what was recorded for that.
func TestAuditTraces(t *testing.T) {
	w := newWorkspace(t)
	w.trace()
	if e := w.test(); e.code != 0 {
		t.Fatalf("%+v", e)
	}
	w.write("lib.a", "other")
	w.options.Audit = 1. / auditTraces // all of those by traces
	w.Attempts = []string{"FAILED"}
	if e := w.test(); e.code != 3 || !strings.Contains(e.say, "AUDIT FAILED") || !strings.Contains(e.say, "the recorded result is withdrawn") {
		t.Fatalf("%+v", e)
	}
	w.Attempts, w.options.Audit = nil, 0
	for _, content := range []string{"other", "third"} {
		w.write("lib.a", content)
		if e := w.test(); e.code != 0 || e.replayed() {
			t.Errorf("%s: %+v", content, e)
		}
	}
}

// An audit of what a trace has found ends traces of a test that enters other functions by chance.
func TestRandomTraces(t *testing.T) {
	for _, random := range []bool{false, true} {
		w := newWorkspace(t)
		w.trace()
		if e := w.test(); e.code != 0 {
			t.Fatalf("%+v", e)
		}
		w.write("lib.a", "other")
		if random {
			w.Idle = []string{}
		}
		w.options.Audit = 1. / auditTraces
		if e := w.test(); e.code != 0 || strings.Contains(e.say, "//:t is no longer replayed by traces: its runs enter different functions, such as lib") != random {
			t.Errorf("random %v: %+v", random, e)
		}
		w.Idle, w.options.Audit = []string{"lib"}, 0
		w.write("lib.a", "third")
		if e := w.test(); e.code != 0 || e.byTrace() == random {
			t.Errorf("random %v, later: %+v", random, e)
		}
		w.write("lib.a", "fourth")
		if e := w.test(); e.code != 0 || e.byTrace() == random {
			t.Errorf("random %v, after one more run: %+v", random, e)
		}
	}
}

// A later audit withdraws the trace, too, which has led to what it finds wrong.
func TestLaterAudit(t *testing.T) {
	w := newWorkspace(t)
	w.trace()
	if e := w.test(); e.code != 0 {
		t.Fatalf("%+v", e)
	}
	w.write("lib.a", "other")
	if e := w.test(); e.code != 0 || !e.byTrace() {
		t.Fatalf("%+v", e)
	}
	w.options.Audit, w.Attempts = 1, []string{"FAILED"}
	if e := w.test(); e.code != 3 || !strings.Contains(e.say, "the recorded result is withdrawn") {
		t.Fatalf("%+v", e)
	}
	w.options.Audit, w.Attempts = 0, nil
	w.write("lib.a", "third")
	if e := w.test(); e.code != 0 || e.replayed() {
		t.Errorf("%+v", e)
	}
}

// Users have tools of their own, and machines elsewhere.
func TestNotTraced(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(w *workspace)
		args []string
		want string
	}{
		"a tool on the command line": {func(w *workspace) {}, []string{"--run_under=valgrind"}, ""},
		"a tool in a bazelrc":        {func(w *workspace) { w.write(".bazelrc", "test --run_under=valgrind\n") }, nil, ""},
		"a tool behind a config":     {func(w *workspace) { w.write(".bazelrc", "test:mem --run_under=valgrind\n") }, nil, "traced"},
		"a tool for a platform": {func(w *workspace) {
			w.write(".bazelrc", "common --enable_platform_specific_config=1\ntest:linux --run_under=valgrind\n")
		}, []string{"--enable_platform_specific_config=1"}, ""},
		"a sandbox that hides": {func(w *workspace) {}, []string{"--sandbox_block_path=/a"}, "tests aren't traced: --sandbox_block_path may hide this program"},
		"no directory":         {func(w *workspace) { w.options.Bazel.Cache = "" }, nil, "tests aren't traced: there is no directory for caches"},
		"hidden":               {func(w *workspace) { w.options.Tracer = "/hidden/tasting" }, nil, "tests aren't traced: Bazel's sandbox hides /hidden/tasting"},
		"hidden, and shown":    {func(w *workspace) { w.options.Tracer = "/hidden/tasting" }, []string{"--spawn_strategy=local"}, "traced"},
		"nothing is written":   {func(w *workspace) { w.options.Write = false }, nil, ""},
	} {
		w := newWorkspace(t)
		w.trace()
		c.set(w)
		w.Hooks = map[string]string{"run test": "tr '\\0' '\\n' </proc/$PPID/cmdline >../cmdline"}
		e := w.test(c.args...)
		if e.err != nil || e.code != 0 || c.want != "traced" && !strings.Contains(e.say, c.want) {
			t.Errorf("%s: %+v", name, e)
		}
		b, err := os.ReadFile(filepath.Join(w.dir, "cmdline"))
		if err != nil {
			t.Fatal(err)
		}
		if traced := strings.Contains(string(b), "--under_bazel"); traced != (c.want == "traced") {
			t.Errorf("%s: traced %v: %s", name, traced, b)
		}
	}
}

func TestTraceKey(t *testing.T) {
	w := newWorkspace(t)
	w.trace()
	if e := w.test(); e.code != 0 {
		t.Fatalf("%+v", e)
	}
	s, ok := w.options.Store.(*store.Disk)
	if !ok {
		t.Fatal("no directory")
	}
	stat, err := s.Stat(t.Context())
	// The result twice, the frontier, and a history with its closure.
	if err != nil || stat.Entries != 5 {
		t.Errorf("%+v, %v", stat, err)
	}
}
