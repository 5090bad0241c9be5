package driver

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
)

// target is a test, as Bazel's events tell it.
type target struct {
	label, kind string
	config      string // ID of its configuration
	skipped     bool   // not compatible with the platform
}

// isCC reports whether the aspect knows tests of that kind.
func (t *target) isCC() bool { return t.kind == "cc_test rule" && !t.skipped }

// expansion is what patterns and options stand for.
type expansion struct {
	*invocation
	targets   []*target         // in order of their labels
	broken    []string          // labels that Bazel couldn't analyse
	suites    []string          // labels of test suites among the patterns
	mnemonics map[string]string // output directory of a configuration
	failed    bool              // Bazel has reported an error
	runAll    string            // why every test has to be run, or ""
	shortcut  *shortcut
	// early is when the analysis began, if that was tried at once, and seen what it says, if it is believed; else nil.
	early *beginning
	seen  *aspectOutputs
}

// expand finds out which tests there are, and with which options they are run.
func expand(ctx context.Context, typed *invocation) (*expansion, error) {
	known := newShortcut(typed)
	x, began, err := known.expand(ctx, typed)
	if err != nil {
		return nil, err
	}
	if x == nil {
		if x, err = askBazel(ctx, typed, known); err != nil {
			return nil, err
		}
		x.early = began
	}
	if x.runAll = x.runsAll(); x.runAll != "" {
		x.invocation = x.withoutTracer()
	}
	return x, nil
}

// askBazel expands by a call of Bazel that builds nothing. If there are no tests to be run, its error is Bazel's exit code.
func askBazel(ctx context.Context, typed *invocation, known *shortcut) (*expansion, error) {
	events := filepath.Join(typed.tmp, "expand.json")
	own := []string{"--nobuild", "--build_tests_only", "--build_event_json_file=" + events, "--bes_backend=", uploadNothing, noCache}
	typed.say("asking Bazel for the tests")
	var messages tail
	var args []string
	call := func() (int, error) {
		messages, args = nil, slices.Concat(typed.args, own, []string{"--"}, typed.patterns)
		return typed.Bazel.Run(ctx, bazel.Streams{Out: typed.Out, Err: &messages}, "test", args...)
	}
	code, err := call()
	if err == nil && code == bazel.ExitUsage {
		own = own[:len(own)-1] // perhaps another option needs the cache
		code, err = call()
	}
	if err != nil {
		return nil, err
	}
	found := newFound(typed)
	readErr := bazel.ReadEvents(events, found.add)
	x := found.complete()
	x.overrides, x.shortcut = without(found.args, own), known
	if why := x.hidesTracer(); x.runUnder != "" && why != "" {
		x.say("tests aren't traced: %s", why)
		plain := typed.withoutTracer()
		return askBazel(ctx, plain, newShortcut(plain))
	}
	end := func(code int) (*expansion, error) {
		x.writeEvents(events) // all that there will be
		return nil, exit(code)
	}
	switch {
	case readErr != nil && code == bazel.ExitOK:
		return nil, readErr
	case readErr != nil: // Bazel didn't come so far as to write events
		x.Err.Write(messages)
		return end(code)
	case code == bazel.ExitOK || code == bazel.ExitBuildFailed && found.finished == "BUILD_FAILURE" && !x.failed:
		// What --nobuild ends with.
	case code == bazel.ExitBuildFailed || found.finished == "PARSING_FAILURE" || code == bazel.ExitNoTests:
		x.failed = x.failed || code != bazel.ExitNoTests
		x.Err.Write(messages)
		if !x.enabled("keep_going") || len(x.targets) == 0 {
			return end(code)
		}
	default:
		x.Err.Write(messages)
		return end(code)
	}
	if len(x.targets) == 0 && !x.failed {
		x.Err.Write(messages) // perhaps why: a file that isn't loaded, with --keep_going
		fmt.Fprintln(x.Err, "ERROR: No test targets were found, yet testing was requested")
		return end(bazel.ExitNoTests)
	}
	if x.enabled("keep_going") && !x.failed {
		if code, err := x.loadPatterns(ctx); err != nil {
			return nil, err
		} else if code == bazel.ExitInterrupted {
			return end(code)
		} else {
			x.failed = code != bazel.ExitOK
		}
	}
	known.remember(x, found, args, own)
	return x, nil
}

// loadPatterns has Bazel say what is wrong with BUILD files: with --keep_going, the exit code of "bazel test --nobuild" doesn't.
func (x *expansion) loadPatterns(ctx context.Context) (code int, err error) {
	var messages tail
	args := append(x.builtNothing(), "--nobuild", "--build_tests_only", "--build_event_json_file=", "--")
	code, err = x.bazelBuild(ctx, bazel.Streams{Err: &messages}, append(args, x.patterns...)...)
	if err == nil && code != bazel.ExitOK && code != bazel.ExitInterrupted {
		x.Err.Write(messages)
	}
	return code, err
}

// found is what build events say of the tests that patterns stand for, and of the
// invocation.
type found struct {
	*expansion
	tests        map[string]*target
	aborted      map[string]string // labels that Bazel couldn't analyse: why
	incompatible map[string]bool
	configured   map[string]bool // with their configurations
	args         []string        // of the client
	finished     string
}

func newFound(typed *invocation) *found {
	inv := *typed
	return &found{
		expansion: &expansion{invocation: &inv, mnemonics: map[string]string{}},
		tests:     map[string]*target{}, aborted: map[string]string{}, incompatible: map[string]bool{}, configured: map[string]bool{},
	}
}

func (f *found) add(e *bazel.Event) error {
	completed := e.ID.TargetCompleted
	switch {
	case e.ID.Started != nil:
		f.release = e.Started.BuildToolVersion
	case e.ID.UnstructuredCommandLine != nil:
		f.args = e.UnstructuredCommandLine.Args
	case e.Options() != nil:
		f.options = effectiveOptions(e, f.release, f.runUnder)
	case e.ID.Workspace != nil:
		f.execRoot = e.WorkspaceInfo.LocalExecRoot
	case e.ID.Configuration.ID != "":
		f.mnemonics[e.ID.Configuration.ID] = e.Configuration.Mnemonic
	case e.ID.TargetConfigured.Label != "" && e.ID.TargetConfigured.Aspect == "":
		if e.Aborted != nil && e.Aborted.Reason != "SKIPPED" {
			f.aborted[e.ID.TargetConfigured.Label] = e.Aborted.Reason
		}
		if e.Configured != nil {
			f.addTarget(e)
		}
	case completed.Label != "" && e.Aborted != nil && e.Aborted.Reason != "NO_BUILD" && e.Aborted.Reason != "SKIPPED":
		f.aborted[completed.Label] = e.Aborted.Reason
	case completed.Label != "" && completed.Aspect == "" && e.Aborted != nil && e.Aborted.Reason == "SKIPPED":
		f.incompatible[completed.Label] = true
	case completed.Label == "" && e.Aborted != nil:
		f.failed = true
	case e.ID.Pattern != nil:
		for _, suite := range e.Expanded.TestSuiteExpansions {
			f.suites = append(f.suites, suite.SuiteLabel)
		}
	case e.ID.BuildFinished != nil:
		f.finished = e.Finished.ExitCode.Name
	}
	return nil
}

func (f *found) addTarget(e *bazel.Event) {
	t := &target{label: e.ID.TargetConfigured.Label, kind: e.Configured.TargetKind}
	for _, c := range e.Children {
		if c.TargetCompleted.Aspect != "" {
			continue
		}
		key := t.label + " " + c.TargetCompleted.Configuration.ID
		if t.config != "" && !f.configured[key] {
			// The same test in several configurations.
			t.kind = "several configurations"
		}
		f.configured[key] = true
		t.config = c.TargetCompleted.Configuration.ID
	}
	if old := f.tests[t.label]; old != nil && old.config != t.config {
		t.kind = "several configurations"
	}
	if e.Configured.TestSize != "" && e.Configured.TestSize != "UNKNOWN" {
		f.tests[t.label] = t
	}
}

// complete returns the expansion when there are no more events.
func (f *found) complete() *expansion {
	f.broken = slices.Sorted(maps.Keys(f.aborted))
	f.failed = f.failed || len(f.broken) > 0
	for _, label := range slices.Sorted(maps.Keys(f.tests)) {
		if t := f.tests[label]; f.aborted[label] == "" {
			t.skipped = f.incompatible[label]
			f.targets = append(f.targets, t)
		}
	}
	return f.expansion
}

// beginning is when the analysis began, and what was spent by then.
type beginning struct {
	time    time.Time
	workers time.Duration // CPU time of Bazel's workers
	spent   spent
}

func (inv *invocation) begin() *beginning {
	return &beginning{time: time.Now(), workers: inv.workersCPU()}
}
