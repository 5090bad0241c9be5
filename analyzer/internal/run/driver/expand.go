package driver

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
)

// target is a test, as Bazel's events describe it.
type target struct {
	label, kind string
	config      string // ID of its configuration
	skipped     bool   // not compatible with the platform
}

// isCC reports whether the aspect analyses the test.
// hasRunner reports whether the test's own runner looks results up. The rule is that of the macro tasting_cc_test.
func (t *target) hasRunner() bool { return t.kind == "_replaying_test rule" }

// byRunner is what is known of such a test.
const byRunner = "its own runner decides, and its test.log says how (tasting_cc_test)"

func (t *target) isCC() bool { return t.kind == "cc_test rule" && !t.skipped }

// expansion has the tests that match the patterns, and the effective options.
type expansion struct {
	*invocation
	targets   []*target         // in order of their labels
	broken    []string          // labels that Bazel couldn't analyse
	suites    []string          // labels of test suites among the patterns
	mnemonics map[string]string // output directory of a configuration
	failed    bool              // Bazel has reported an error
	runAll    string            // why every test has to be run, or ""
	shortcut  *shortcut
	outputs   *aspectOutputs // of the analysis, if the shortcut has made it; else nil
}

// expand finds the tests and the options with which they are run.
func expand(ctx context.Context, inv *invocation) (*expansion, error) {
	known := newShortcut(inv)
	x, err := known.expand(ctx, inv)
	if x == nil && err == nil {
		x, err = askBazel(ctx, inv, known)
	}
	if err != nil {
		return nil, err
	}
	if x.runAll = x.runAllReason(); x.runAll != "" {
		x.invocation = x.withoutTracer()
	}
	return x, nil
}

// askBazel expands by a call of Bazel that builds nothing. If there are no tests, its error is Bazel's exit code.
func askBazel(ctx context.Context, inv *invocation, known *shortcut) (*expansion, error) {
	events := filepath.Join(inv.tmp, "expand.json")
	own := []string{"--nobuild", "--build_tests_only", "--build_event_json_file=" + events, "--bes_backend=", uploadNothing, noCache}
	inv.say("asking Bazel for the tests")
	var messages bytes.Buffer
	var args []string
	call := func() (int, error) {
		messages.Reset()
		args = slices.Concat(inv.args, own, []string{"--"}, inv.patterns)
		return inv.Bazel.Run(ctx, bazel.Streams{Out: inv.Out, Err: &messages}, "test", args...)
	}
	code, err := call()
	if err == nil && code == bazel.ExitUsage {
		own = own[:len(own)-1] // perhaps another option needs the cache
		code, err = call()
	}
	if err != nil {
		return nil, err
	}
	found := newFound(inv)
	readErr := bazel.ReadEvents(events, found.add)
	x := found.complete()
	x.overrides, x.shortcut = without(found.args, own), known
	if why := x.hidesTracer(); x.runUnder != "" && why != "" {
		x.say("tests aren't traced: %s", why)
		plain := inv.withoutTracer()
		return askBazel(ctx, plain, newShortcut(plain))
	}
	end := func(code int) (*expansion, error) {
		x.Err.Write(messages.Bytes())
		x.writeEvents(events) // all that there will be
		return nil, exit(code)
	}
	switch {
	case readErr != nil && code == bazel.ExitOK:
		return nil, readErr
	case readErr != nil: // Bazel stopped before it wrote events
		return end(code)
	case code == bazel.ExitOK || code == bazel.ExitBuildFailed && found.finished == "BUILD_FAILURE" && !x.failed:
		// --nobuild ends like that.
	case code == bazel.ExitNoTests && len(x.patterns) == 0 && x.option("target_pattern_file") == "":
		x.say("no targets are named: say which, such as tasting test //...")
		return end(code)
	case code == bazel.ExitBuildFailed || found.finished == "PARSING_FAILURE" || code == bazel.ExitNoTests:
		x.failed = x.failed || code != bazel.ExitNoTests
		if !x.enabled("keep_going") || len(x.targets) == 0 {
			return end(code)
		}
		x.Err.Write(messages.Bytes())
	default:
		return end(code)
	}
	if len(x.targets) == 0 && !x.failed {
		// Bazel's messages may say why: a file that isn't loaded, with --keep_going.
		messages.WriteString("ERROR: No test targets were found, yet testing was requested\n")
		return end(bazel.ExitNoTests)
	}
	if x.enabled("keep_going") && !x.failed {
		code, err := x.loadPatterns(ctx)
		if errors.Is(err, interrupted) {
			return end(code)
		} else if err != nil {
			return nil, err
		}
		x.failed = code != bazel.ExitOK
	}
	known.remember(x, found, args, own)
	return x, nil
}

// loadPatterns has Bazel report errors in BUILD files. With --keep_going, "bazel test --nobuild" exits with 0 in spite of them.
func (x *expansion) loadPatterns(ctx context.Context) (code int, err error) {
	args := append(x.noBuildFlags(), "--nobuild", "--build_tests_only", "--build_event_json_file=", "--")
	return x.buildSilently(ctx, append(args, x.patterns...)...)
}

// found is an expansion that is read from build events.
type found struct {
	*expansion
	tests        map[string]*target
	aborted      map[string]string // why Bazel couldn't analyse a label
	incompatible map[string]bool
	args         []string // of the client
	finished     string
}

func newFound(typed *invocation) *found {
	inv := *typed
	return &found{
		expansion: &expansion{invocation: &inv, mnemonics: map[string]string{}},
		tests:     map[string]*target{}, aborted: map[string]string{}, incompatible: map[string]bool{},
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

// severalConfigs is the kind of a test that Bazel has configured more than once.
const severalConfigs = "several configurations"

func (f *found) addTarget(e *bazel.Event) {
	t := &target{label: e.ID.TargetConfigured.Label, kind: e.Configured.TargetKind}
	for _, c := range e.Children {
		if id := c.TargetCompleted; id.Aspect == "" {
			if t.config != "" && t.config != id.Configuration.ID {
				t.kind = severalConfigs
			}
			t.config = id.Configuration.ID
		}
	}
	if old := f.tests[t.label]; old != nil && (old.config != t.config || old.kind == severalConfigs) {
		t.kind = severalConfigs
	}
	if e.Configured.TestSize != "" && e.Configured.TestSize != "UNKNOWN" {
		f.tests[t.label] = t
	}
}

// complete returns the expansion after the last event.
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
