package driver

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/progress"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkflags"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/syslib"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/spf13/pflag"
)

// subject is a test and the result of its analysis.
type subject struct {
	*target
	*evidence                            // nil if the aspect has made none that can be used
	why       string                     // why there is no evidence
	unlinked  bool                       // its rule is named cc_test but links nothing: it isn't Bazel's own
	symlinks  []fingerprint.Contribution // see symlinks
	composed  *fingerprint.Composed      // nil without evidence
	// remote is set if the key is for remote execution. A result of this machine isn't recorded under it.
	remote bool
	worker worker // with remote execution
}

func (t *subject) isCC() bool { return t.target.isCC() && !t.unlinked }

// analysis is the result of analysing all tests.
type analysis struct {
	*expansion
	subjects  []*subject // of all targets
	complete  bool       // the aspect was applied to all C++ tests without an error
	fallbacks []report.Fallback
	prober    *prober
	memory    *fingerprint.Memory // of compositions; nil without a directory for it
	built     time.Time           // end of the last build
}

// analyse has Bazel make the manifests of all cc_tests, and composes them.
func analyse(ctx context.Context, x *expansion) (*analysis, error) {
	a := &analysis{expansion: x}
	var tests []*subject // those that the aspect analyses
	for _, t := range x.targets {
		s := &subject{target: t}
		a.subjects = append(a.subjects, s)
		if s.isCC() {
			s.why = "it couldn't be analysed"
			tests = append(tests, s)
		}
	}
	if x.runAll != "" {
		return a, nil
	}
	a.beginAnalysis()
	a.complete = true
	if x.outputs != nil {
		a.built = x.outputs.built
		a.complete = describe(tests, x.outputs, bySource)
	} else if len(tests) > 0 {
		first := ""
		if _, err := os.Stat(a.memoryFile()); err != nil && a.Bazel.Cache != "" {
			first = "; the first time, Bazel may build the analyzer too, for a few minutes"
		}
		a.say("analysing %s%s", count(len(tests), "test"), first)
		if err := a.analyseBy(ctx, bySource, tests); err != nil {
			return nil, err
		}
	}
	a.findWorkers(ctx)
	return a, a.compose(ctx)
}

func labels[T interface{ name() string }](tests []T) []string { return collect(tests, T.name) }

func (t *target) name() string { return t.label }

// analyseBy has Bazel build an output group of the aspect for tests, and reads
// their descriptions.
func (a *analysis) analyseBy(ctx context.Context, group string, tests []*subject) error {
	outputs, code, err := a.applyTo(ctx, group, labels(tests))
	if err != nil {
		return err
	}
	a.built = outputs.built
	if code != bazel.ExitOK && !outputs.applied {
		return fmt.Errorf(`bazel can't apply %s to any of the tests, so that no result would ever be recorded or replayed.
Bazel has said above what is wrong with it. If it knows no repository @rules_tasting, add that to MODULE.bazel by
    tasting adopt                   # with a release
    tasting adopt --path=CHECKOUT   # with a checkout of rules_tasting
If the aspect has another label, say --aspect=LABEL. To only run the tests, use "bazel test"`, a.Aspect)
	}
	all := describe(tests, outputs, group)
	a.complete = a.complete && all && code == bazel.ExitOK
	return nil
}

// describe reads the descriptions of tests, and reports whether it has found all of them.
func describe(tests []*subject, outputs *aspectOutputs, group string) (all bool) {
	all = true
	for _, t := range tests {
		var err error
		t.evidence, err = outputs.evidence(t.target, group, false)
		switch {
		case err == errNothingMade && outputs.succeeded[t.label]:
			t.unlinked = true
		case err == errNothingMade:
			all = false
			if outputs.failsAgain {
				t.why = notBuilt
			}
		case err != nil:
			t.why = err.Error()
		}
	}
	return all
}

// notBuilt is why a test has no description if Bazel says more of it when it is to run the test.
const notBuilt = "it doesn't build"

// noErrors keeps Bazel from printing errors and the output of actions that fail.
const noErrors = "--ui_event_filters=-error"

// filesHere makes build events have the paths of files on this machine, even if a remote cache has them too.
const filesHere = "--nobuild_event_json_file_path_conversion"

// applyTo has Bazel build an output group of the aspect for tests. An error that
// a later invocation prints isn't printed here.
func (x *expansion) applyTo(ctx context.Context, group string, labels []string) (outputs *aspectOutputs, code int, err error) {
	targets, err := x.targetArgs(group, labels)
	if err != nil {
		return nil, 0, err
	}
	args := append([]string{"--nobuild_tests_only", "--keep_going"}, targets...)
	outputs, code, err = x.applyAspect(ctx, group, nil, append([]string{noErrors}, args...)...)
	if err != nil || code == bazel.ExitOK {
		return outputs, code, err
	}
	again := code == bazel.ExitBuildFailed && x.failsAgain(outputs)
	if !again || x.DryRun {
		if outputs, code, err = x.applyAspect(ctx, group, nil, args...); err != nil {
			return outputs, code, err
		}
	}
	outputs.failsAgain = again
	return outputs, code, nil
}

// failsAgain reports whether only actions of the tests themselves have failed. They fail again when
// the tests are run. A target that isn't a test has another configuration (--trim_test_configuration) with
// the same output directory.
func (x *expansion) failsAgain(outputs *aspectOutputs) bool {
	for _, a := range outputs.failed {
		ofTests := slices.ContainsFunc(x.targets, func(t *target) bool { return x.mnemonics[t.config] == outputs.mnemonics[a.config] })
		if !ofTests || strings.HasPrefix(a.mnemonic, "Tasting") {
			return false
		}
	}
	return len(outputs.failed) > 0 && !outputs.aborted
}

// applyAspect has Bazel build an output group of the aspect, with the user's flags and args.
// It passes the events to more, too, unless that is nil. The error is interrupted if the user interrupts Bazel.
func (inv *invocation) applyAspect(ctx context.Context, group string, more func(*bazel.Event) error, args ...string) (outputs *aspectOutputs, code int, err error) {
	events := filepath.Join(inv.tmp, group+".json")
	own := append(inv.noFilesFlags(), "--build_event_json_file="+events, filesHere,
		"--aspects="+inv.Aspect, "--output_groups="+group, "--norun_validations",
		"--remote_download_outputs=toplevel", "--show_result=0")
	if inv.cacheIsSilent(ctx) {
		own = append(own, noCache)
	}
	messages := quiet(inv.Err, progress.On(inv.Err) != nil)
	code, err = inv.bazelBuild(ctx, bazel.Streams{In: inv.Stdin, Out: inv.Out, Err: messages}, slices.Concat(inv.quietFlags(), own, args)...)
	messages.flush()
	if err != nil {
		return nil, code, err
	}
	outputs = newAspectOutputs(inv.Aspect)
	var failed error
	err = bazel.ReadEvents(events, func(e *bazel.Event) error {
		inv.meter.add(e)
		outputs.add(e)
		if more != nil {
			failed = more(e)
		}
		return failed
	})
	if code != bazel.ExitOK {
		err = failed // if Bazel fails, events may be missing
	}
	return outputs, code, err
}

// aspectOutputs has the build events' facts about the aspect: the description files of tests, and failures.
type aspectOutputs struct {
	sets       bazel.FileSets
	found      map[aspectOutput]descriptionFile
	applied    bool // to some target, even if its actions failed
	failed     []failedAction
	aborted    bool              // a target wasn't analysed
	failsAgain bool              // see expansion.failsAgain
	mnemonics  map[string]string // see expansion
	// succeeded are the targets to which the aspect was applied, even if it made nothing.
	succeeded map[string]bool
	aspect    string
	built     time.Time // end of the build
}

type failedAction struct{ mnemonic, config string }

// aspectOutput names an output group of the aspect for a test.
type aspectOutput struct{ group, label string }

// descriptionFile is the file in an output group that describes a test.
type descriptionFile struct {
	config string // ID of the configuration
	file   string
	err    error // why there is no path of the file on this machine
}

// newAspectOutputs returns empty outputs of the aspect LABEL%NAME.
func newAspectOutputs(aspect string) *aspectOutputs {
	_, name, _ := strings.Cut(aspect, "%")
	return &aspectOutputs{sets: bazel.FileSets{}, found: map[aspectOutput]descriptionFile{}, succeeded: map[string]bool{}, aspect: name, mnemonics: map[string]string{}}
}

func (l *aspectOutputs) add(e *bazel.Event) {
	l.sets.Add(e)
	if ended := e.Finished.FinishTime; !ended.IsZero() {
		l.built = ended.Add(time.Millisecond) // it is cut to a millisecond
	}
	if id := e.ID.Configuration.ID; id != "" {
		l.mnemonics[id] = e.Configuration.Mnemonic
	}
	if a := e.ID.ActionCompleted; a != nil && !e.Action.Success {
		l.failed = append(l.failed, failedAction{e.Action.Type, a.Configuration.ID})
	}
	l.aborted = l.aborted || e.Aborted != nil && !slices.Contains([]string{"SKIPPED", "NO_BUILD"}, e.Aborted.Reason)
	c := e.ID.TargetCompleted
	if c.Label == "" || c.Aspect == "" || e.Completed == nil {
		return
	}
	l.applied = true
	if !e.Completed.Success {
		return
	}
	if _, name, _ := strings.Cut(c.Aspect, "%"); name == l.aspect {
		l.succeeded[c.Label] = true
	}
	for _, g := range e.Completed.OutputGroup {
		for _, set := range g.FileSets {
			for _, f := range l.sets.Files(set.ID) {
				if strings.HasSuffix(f.Name, descriptionSuffix) {
					file, err := f.Path()
					l.found[aspectOutput{g.Name, c.Label}] = descriptionFile{c.Configuration.ID, file, err}
				}
			}
		}
	}
}

// memoryFile returns the file with the compositions of this workspace's tests.
func (a *analysis) memoryFile() string {
	return filepath.Join(a.Bazel.Cache, fmt.Sprintf("compositions-%016x", xxhash.Sum64String(a.execRoot)))
}

// compose computes the fingerprints of all tests that are described.
func (a *analysis) compose(ctx context.Context) error {
	if a.Bazel.Cache != "" {
		a.memory = fingerprint.OpenMemory(a.memoryFile())
	}
	a.prober = &prober{dir: a.execRoot, env: pairs(optionsEnv(a.options, "action_env")), tmp: a.tmp}
	a.composeAll(ctx, a.subjects)
	if err := a.composeObjects(ctx); err != nil {
		return err
	}
	if err := a.memory.Save(); err != nil {
		a.say("warning: the compositions of the tests aren't remembered: %v", err)
	}
	for _, t := range a.subjects {
		if t.composed != nil && t.composed.Unusual != "" {
			a.fallbacks = append(a.fallbacks, report.Fallback{Source: t.label, Rung: "whole program", Reason: t.composed.Unusual, Tests: 1})
		}
	}
	return nil
}

// composeAll composes the tests that have a description.
func (a *analysis) composeAll(ctx context.Context, tests []*subject) {
	var known []*subject
	var composed []*fingerprint.Test
	for _, t := range tests {
		if t.evidence == nil {
			continue
		}
		x, err := a.arguments(ctx, t.evidence)
		if err != nil {
			t.why = err.Error()
			continue
		}
		t.symlinks = symlinks(x, a.workspaceDir())
		known, composed = append(known, t), append(composed, x)
	}
	line := progress.On(a.Err)
	line.Show("composing the fingerprints of %s", count(len(composed), "test"))
	results, stats := fingerprint.ComposeAll(composed, a.memory)
	line.Clear()
	touches := a.touches(a.built)
	for i, t := range known {
		t.composed = &results[i]
		if t.composed.Err == nil {
			t.composed.Err = touches.remade(t.evidence, composed[i], t.composed)
		}
	}
	for _, f := range stats.Fallbacks {
		a.fallbacks = append(a.fallbacks, report.Fallback{Source: f.Source, Rung: f.Rung, Reason: f.Reason, Tests: f.Tests})
	}
}

// symlinks contributes the targets of symbolic links that rules declare or that lie in tree artifacts. (The key has
// the content of a data file, not its target.) Bazel's own links are left out: they are absolute and lead to outputs or sources.
func symlinks(x *fingerprint.Test, workspace string) []fingerprint.Contribution {
	own := func(target string) bool {
		return filepath.IsAbs(target) && slices.ContainsFunc([]string{filepath.Join(x.Dir, "..", ".."), workspace}, func(dir string) bool {
			real, err := filepath.EvalSymlinks(dir)
			return strings.HasPrefix(target, dir+"/") || err == nil && strings.HasPrefix(target, real+"/")
		})
	}
	trees := filter(x.Empty, func(name string) bool { return strings.HasSuffix(name, "/") })
	type place struct{ name, file string }
	var places []place // several files of one name count
	for _, d := range x.Data {
		if !strings.HasPrefix(d.File, filepath.Join(x.Dir, "bazel-out")+"/") {
			continue
		}
		places = append(places, place{d.Path, d.File})
		for _, tree := range trees {
			// The directories between.
			name, file := path.Dir(d.Path), path.Dir(d.File)
			for ; strings.HasPrefix(name, tree); name, file = path.Dir(name), path.Dir(file) {
				places = append(places, place{name, file})
			}
		}
	}
	slices.SortFunc(places, func(x, y place) int { return cmp.Or(strings.Compare(x.name, y.name), strings.Compare(x.file, y.file)) })
	var l []string
	for _, p := range slices.Compact(places) {
		if target, err := os.Readlink(p.file); err == nil && !own(target) {
			l = append(l, p.name, target)
		}
	}
	if l == nil {
		return nil
	}
	return []fingerprint.Contribution{fingerprint.NewContribution("links among the data", l)}
}

// arguments reads the arguments for tasting compose that the aspect has written for a test.
func (a *analysis) arguments(ctx context.Context, d *evidence) (*fingerprint.Test, error) {
	b, err := os.ReadFile(filepath.Join(a.execRoot, d.Compose))
	if err != nil {
		return nil, err
	}
	t := &fingerprint.Test{}
	flags := pflag.NewFlagSet("compose", pflag.ContinueOnError)
	flags.StringP("output", "o", "", "")
	flags.String("closure", "", "")
	flags.String("program", "", "")
	flags.Bool("traces", false, "")
	finish := t.AddFlags(flags)
	if err := flags.Parse(strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")); err != nil {
		return nil, fmt.Errorf("%s: %w: the rules are of another version than this program", d.Compose, err)
	}
	t.System = func(lines []*linkflags.Line) *syslib.Taken {
		if system, err := a.prober.libraries(ctx, d.description, lines); err == nil {
			return system.taken
		}
		return nil // the test will be run
	}
	for _, o := range a.options {
		// Options of sanitizers are in the key as if the test's rule set them.
		if name, _, _ := strings.Cut(o.OptionValue, "="); setsEnv(o) && syslib.ForSanitizer(name) {
			t.EnvKeys = append(t.EnvKeys, name)
		}
	}
	err = finish(a.execRoot)
	t.Source, t.Cases = d.readsSources(), t.Cases || a.Cases
	t.Toolchain = "" // the prober has it
	return t, err
}
