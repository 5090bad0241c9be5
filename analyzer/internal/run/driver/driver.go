// Package driver is `tasting test`: it runs the tests of a Bazel workspace whose
// outcome isn't known, and replays the others, without a change of BUILD files.
//
// # How
//
//  1. Expand: `bazel test --nobuild` loads and analyses the patterns and tells
//     which tests there are and with which options they would be run.
//  2. Analyse: `bazel build` with tasting_aspect makes the manifests of all
//     cc_tests. Plain C isn't compiled for that, all else is; nothing is linked.
//     The configuration has to be that of step 1, which Bazel's checksums of it
//     tell. Step 1 is left out if it was done before with the same arguments and
//     bazelrc files: step 2 tells the tests as well (atonce.go).
//  3. Compose: all fingerprints are computed in this process. Tests with C that
//     isn't plain go through step 2 once more, for manifests of the objects.
//  4. Look up: the store is asked for all of them at once.
//  5. Run: `bazel test` gets the tests without a recorded result, and every test
//     that isn't a cc_test. It builds and runs them as ever.
//     The aspect takes part, so that there are manifests of what is built then.
//  6. Record: build events say how each of them ended. A test whose fingerprint
//     isn't what it was before, because a file has been edited in between, isn't
//     recorded (ran.go).
//
// A test of which a step knows too little is run. Whatever fails before step 5
// makes tests run, or ends with Bazel's own message and exit code; it never
// makes a test count as passed.
//
// The key is that of the runner. What the runner learns from the linked program and
// from its own process is predicted: see key.go.
package driver

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/nameset"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkflags"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// Aspect is the label of the aspect that makes manifests.
const Aspect = "@rules_tasting//rules:defs.bzl%tasting_aspect"

// Options of Test.
type Options struct {
	Bazel *bazel.Bazel
	// Args are the arguments of bazel test: flags and target patterns.
	Args []string
	// Aspect is the label of the aspect; empty stands for the constant.
	Aspect string
	// Store is where results are; nil means that every test is run.
	Store store.Store
	// LocalStore is the part of Store on this machine, nil if there is none:
	// tags of Bazel may forbid to share a result.
	LocalStore  store.Store
	Read, Write bool // what may be done with Store
	// StoreName is how reports call the store: without secrets.
	StoreName string
	// Audit is the share of recorded results, 0 to 1, whose tests are run all
	// the same, to compare.
	Audit float64
	// RunsDir is the directory where the run is written down for tasting
	// report, or empty.
	RunsDir string
	// Traces says what traces are for, Tracer is the path of this program, for Bazel to run tests under it.
	Traces Traces
	Tracer string
	// Explain has it told why each test is run.
	Explain bool
	// JUnit is the file for the results of all tests, or empty.
	JUnit string

	Stdin    io.Reader
	Out, Err io.Writer
}

// test is a test of the invocation.
type test struct {
	label   string
	kind    string
	config  string // ID of its configuration
	skipped bool   // not compatible with the platform
	// unlinked says that it is no C++ test that Bazel links: of a rule with that name.
	unlinked bool

	verdict     report.Verdict
	why         string // for a miss, and for report.AlwaysRun the reason
	description *description
	described   string // the file of the description
	bySource    bool   // manifests of sources decide
	composed    *fingerprint.Config
	lines       []*linkflags.Line          // of its links
	data        []string                   // files
	prebuilt    []string                   // libraries that it is linked with
	links       []fingerprint.Contribution // see links
	run         *fingerprint.Run
	key         store.Key
	composition *fingerprint.Composed
	// remote says that it is run by remote execution: only then is the result
	// that of the key.
	remote   bool
	worker   worker      // with remote execution
	recorded *store.Info // of a hit
	byTrace  store.Key   // of the trace that has decided, if one has
	entered  nameset.Set // what its last traced execution may have entered
	missed   *int        // of lookedUp, the count of what it is because nothing usable is recorded, else nil
	trace    *traced     // of an execution, nil if it has none
	xml      [][]byte    // its test.xml files, if they are wanted
	outcome  *outcome    // of an execution
	audit    bool
	uncached bool     // run without Bazel's own caches
	doubt    string   // why an execution may not be that of the fingerprint
	changed  []string // since the nearest recorded fingerprint
}

// session is one call of Test.
type session struct {
	*Options
	tmp      string
	flags    bazel.Flags
	args     []string // flags for bazel test
	patterns []string

	options   []bazel.Option // effective ones
	overrides []string       // the command line, after the lines of bazelrc files
	execRoot  string
	release   string            // of Bazel, by its events
	version   string            // the same by the program, or ""
	mnemonics map[string]string // output directory of a configuration
	tests     []*test
	broken    []string // labels that Bazel couldn't analyse
	suites    []string // labels of those among patterns
	lookedUp  report.Store
	refused   refusals
	fallbacks []report.Fallback
	// analysed says that step 2 went well for all tests.
	analysed bool
	// afterwards is what the aspect says in step 5 of the tests that are run: made
	// of the same sources as they are.
	afterwards *aspectOutputs
	failed     bool // Bazel reported an error before step 5
	// Where the command line is remembered, and as what; or "".
	remembered, rememberedAs string
	failures                 int  // commandLine.Failures
	resting                  bool // there are too many of them
	edited                   bool // flags changed before step 5
	start                    time.Time
	from                     time.Time // when step 2 began
	built                    time.Time // when the last invocation ended that built something
	prober                   *prober
	// Sources of those tests to be run whose fingerprint is made of sources.
	sources    []bazel.Source
	sourcesOf  []string
	sourcesErr error
	ran        bool       // Bazel has run tests
	printing   sync.Mutex // for Out and Err
	// runUnder is the flag by which Bazel has tests traced, or "", only the file with the labels of those that are.
	runUnder, only string
	cost           cost
	memory         *fingerprint.Memory // of compositions; nil without a directory for it
	askCache       sync.Once
	silent         bool // see cacheIsSilent
}

// Test runs tests as bazel test would and returns bazel test's exit code. An
// error means that Bazel couldn't be asked, or what it says not be understood;
// the exit code is then of no use.
func Test(ctx context.Context, o *Options) (code int, err error) {
	tmp, err := os.MkdirTemp("", "tasting-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(tmp)
	// As Bazel calls it.
	if tmp, err = filepath.EvalSymlinks(tmp); err != nil {
		return 0, err
	}
	mine := *o
	o = &mine // Bazel's flags may set Audit
	s := &session{Options: o, tmp: tmp, mnemonics: map[string]string{}, start: time.Now(), afterwards: newAspectOutputs(o.Aspect)}
	if s.flags, err = o.Bazel.Flags(ctx); err != nil {
		return 0, err
	}
	s.version = o.Bazel.Version(ctx)
	s.args, s.patterns = s.flags.Split(o.Args)
	if s.flags[bazel.AllMnemonics] != nil {
		s.args = append([]string{bazel.AllMnemonics}, s.args...)
	}
	if s.Aspect == "" {
		s.Aspect = Aspect
	}
	s.collect()
	s.remembered, s.rememberedAs = s.commandLineFile()
	believed, code, err := s.atOnce(ctx)
	if err != nil || code == bazel.ExitInterrupted {
		return code, err
	}
	if !believed {
		if code, done, err := s.expand(ctx); done || err != nil {
			if done && err == nil {
				s.writeEvents(s.expandEvents()) // all that there will be
			}
			return code, err
		}
	}
	reason := s.runAll()
	switch {
	case s.checks():
		s.Audit = 0
	case s.executesAll():
		s.Audit = 1
	}
	if reason != "" {
		s.withoutTracer()
	} else {
		if !believed {
			if code, err := s.analyse(ctx); err != nil || code == bazel.ExitInterrupted {
				return code, err
			}
		}
		if s.option("remote_executor") != "" {
			s.findWorkers(ctx)
		}
		if code, err := s.compose(ctx); err != nil || code == bazel.ExitInterrupted {
			return code, err
		}
		s.warn()
		s.lookup(ctx)
		if err := s.lookupTraces(ctx); err != nil {
			return 0, err
		}
		s.explain(ctx)
	}
	for _, t := range s.tests {
		if reason != "" && t.isCC() {
			t.verdict, t.why = report.AlwaysRun, reason
		}
	}
	return s.run(ctx)
}

// say tells the user something, as Bazel does.
func (s *session) say(format string, args ...any) {
	s.printing.Lock()
	defer s.printing.Unlock()
	fmt.Fprintf(s.Err, "tasting: "+format+"\n", args...)
}

// isCC tells whether the aspect knows the test.
func (t *test) isCC() bool { return t.kind == "cc_test rule" && !t.skipped && !t.unlinked }

// option returns the effective value of an option.
func (s *session) option(name string) string { return effective(s.options, name) }

func effective(options []bazel.Option, name string) string {
	for _, o := range slices.Backward(options) {
		if o.OptionName == name {
			return o.OptionValue
		}
	}
	return ""
}

const strictActionEnv = "incompatible_strict_action_env"

// optionsOf returns the options of a command, with one that users of a release of Bazel
// have without saying so, and without runUnder, which isn't theirs. Source: Bazel's
// BazelRuleClassProvider.StrictActionEnvOptions.
func optionsOf(e *bazel.Event, release, runUnder string) []bazel.Option {
	options := slices.DeleteFunc(slices.Clone(e.Options()), func(o bazel.Option) bool { return runUnder != "" && o.CombinedForm == runUnder })
	major, _, _ := strings.Cut(release, ".")
	if n, err := strconv.Atoi(major); err == nil && n >= 9 && effective(options, strictActionEnv) == "" {
		options = append(options, bazel.Option{CombinedForm: "--" + strictActionEnv, OptionName: strictActionEnv, OptionValue: "1"})
	}
	return options
}

// enabled tells whether a boolean option is on.
func (s *session) enabled(name string) bool { return isTrue(s.option(name)) }

// isTrue and isFalse tell what a boolean value means, which Bazel passes on as the user has
// spelt it. Source: com.google.devtools.common.options.Converters.BooleanConverter.
func isTrue(value string) bool {
	return slices.Contains([]string{"true", "1", "yes", "t", "y"}, strings.ToLower(value))
}

func isFalse(value string) bool {
	return slices.Contains([]string{"false", "0", "no", "f", "n"}, strings.ToLower(value))
}

// expand asks Bazel which tests there are. It is done if there is nothing more
// to do.
func (s *session) expand(ctx context.Context) (code int, done bool, err error) {
	events := s.expandEvents()
	own := []string{"--nobuild", "--build_tests_only", "--build_event_json_file=" + events, "--bes_backend=", uploadNothing, noCache}
	args := slices.Concat(s.args, own, []string{"--"}, s.patterns)
	messages := &tail{limit: 64 << 10}
	s.say("asking Bazel for the tests")
	code, err = s.Bazel.Run(ctx, bazel.Streams{Out: s.Out, Err: messages}, "test", args...)
	if err == nil && code == bazel.ExitUsage {
		// Perhaps another option needs the cache.
		own = own[:len(own)-1]
		args = slices.Concat(s.args, own, []string{"--"}, s.patterns)
		messages = &tail{limit: 64 << 10}
		code, err = s.Bazel.Run(ctx, bazel.Streams{Out: s.Out, Err: messages}, "test", args...)
	}
	if err != nil {
		return 0, true, err
	}
	found := s.newExpansion()
	err = bazel.ReadEvents(events, found.add)
	s.take(found)
	s.overrides = without(found.args, own)
	if why := s.outOfReach(); s.runUnder != "" && why != "" {
		s.say("tests aren't traced: %s", why)
		s.withoutTracer()
		s.remembered, s.rememberedAs = s.commandLineFile()
		s.tests = nil
		return s.expand(ctx)
	}
	if err != nil {
		if code != bazel.ExitOK {
			// Bazel didn't come so far as to write events.
			s.Err.Write(messages.buf)
			return code, true, nil
		}
		return 0, true, err
	}
	switch {
	case code == bazel.ExitOK || code == bazel.ExitBuildFailed && found.finished == "BUILD_FAILURE" && !s.failed:
		// What --nobuild ends with.
	case code == bazel.ExitBuildFailed || found.finished == "PARSING_FAILURE" || code == bazel.ExitNoTests:
		s.failed = s.failed || code != bazel.ExitNoTests
		s.Err.Write(messages.buf)
		if !s.enabled("keep_going") || len(s.tests) == 0 {
			return code, true, nil
		}
	default:
		s.Err.Write(messages.buf)
		return code, true, nil
	}
	if len(s.tests) == 0 && !s.failed {
		s.Err.Write(messages.buf) // perhaps why: a file that isn't loaded, with --keep_going
		fmt.Fprintln(s.Err, "ERROR: No test targets were found, yet testing was requested")
		return bazel.ExitNoTests, true, nil
	}
	if s.enabled("keep_going") && !s.failed {
		// The exit code of --nobuild says nothing of errors in BUILD files.
		messages = &tail{limit: 64 << 10}
		more := append(s.builtNothing(), "--nobuild", "--build_tests_only", "--build_event_json_file=", "--")
		code, err := s.build(ctx, bazel.Streams{Err: messages}, append(more, s.patterns...)...)
		if err != nil || code == bazel.ExitInterrupted {
			return code, true, err
		}
		if s.failed = code != bazel.ExitOK; s.failed {
			s.Err.Write(messages.buf)
		}
	}
	s.rememberCommandLine(found, args, own)
	return 0, false, nil
}

// expansion is what build events say of the tests that patterns stand for, and of the
// invocation.
type expansion struct {
	tests        map[string]*test
	children     map[string]string // labels that Bazel couldn't analyse: why
	incompatible map[string]bool
	configured   map[string]bool // with their configurations
	failed       bool
	finished     string
	suites       []string

	runUnder  string // see optionsOf
	release   string
	args      []string
	options   []bazel.Option
	execRoot  string
	mnemonics map[string]string
}

func (s *session) newExpansion() *expansion {
	return &expansion{
		runUnder: s.runUnder, tests: map[string]*test{}, children: map[string]string{}, incompatible: map[string]bool{},
		configured: map[string]bool{}, mnemonics: map[string]string{},
	}
}

func (x *expansion) add(e *bazel.Event) error {
	switch {
	case e.ID.Started != nil:
		x.release = e.Started.BuildToolVersion
	case e.ID.UnstructuredCommandLine != nil:
		x.args = e.UnstructuredCommandLine.Args
	case e.Options() != nil:
		x.options = optionsOf(e, x.release, x.runUnder)
	case e.ID.Workspace != nil:
		x.execRoot = e.WorkspaceInfo.LocalExecRoot
	case e.ID.Configuration.ID != "":
		x.mnemonics[e.ID.Configuration.ID] = e.Configuration.Mnemonic
	case e.ID.TargetConfigured.Label != "" && e.ID.TargetConfigured.Aspect == "":
		if e.Aborted != nil && e.Aborted.Reason != "SKIPPED" {
			x.children[e.ID.TargetConfigured.Label] = e.Aborted.Reason
		}
		if e.Configured == nil {
			break
		}
		t := &test{label: e.ID.TargetConfigured.Label, kind: e.Configured.TargetKind, verdict: report.Other}
		for _, c := range e.Children {
			if c.TargetCompleted.Aspect != "" {
				continue
			}
			key := t.label + " " + c.TargetCompleted.Configuration.ID
			if t.config != "" && !x.configured[key] {
				// The same test in several configurations.
				t.kind = "several configurations"
			}
			x.configured[key] = true
			t.config = c.TargetCompleted.Configuration.ID
		}
		if old := x.tests[t.label]; old != nil && old.config != t.config {
			t.kind = "several configurations"
		}
		if e.Configured.TestSize != "" && e.Configured.TestSize != "UNKNOWN" {
			x.tests[t.label] = t
		}
	case e.ID.TargetCompleted.Label != "" && e.Aborted != nil && e.Aborted.Reason != "NO_BUILD" && e.Aborted.Reason != "SKIPPED":
		x.children[e.ID.TargetCompleted.Label] = e.Aborted.Reason
	case e.ID.TargetCompleted.Label != "" && e.ID.TargetCompleted.Aspect == "" && e.Aborted != nil && e.Aborted.Reason == "SKIPPED":
		x.incompatible[e.ID.TargetCompleted.Label] = true
	case e.ID.TargetCompleted.Label == "" && e.Aborted != nil:
		x.failed = true
	case e.ID.Pattern != nil:
		for _, suite := range e.Expanded.TestSuiteExpansions {
			x.suites = append(x.suites, suite.SuiteLabel)
		}
	case e.ID.BuildFinished != nil:
		x.finished = e.Finished.ExitCode.Name
	}
	return nil
}

// take makes what was found that of the session.
func (s *session) take(x *expansion) {
	s.options, s.execRoot, s.mnemonics, s.release = x.options, x.execRoot, x.mnemonics, x.release
	for l, t := range x.tests {
		t.skipped = x.incompatible[l]
		if x.children[l] == "" {
			s.tests = append(s.tests, t)
		}
	}
	s.broken, s.suites = slices.Sorted(maps.Keys(x.children)), x.suites
	slices.SortFunc(s.tests, func(a, b *test) int { return strings.Compare(a.label, b.label) })
	s.failed = x.failed || len(s.broken) > 0
}

func (s *session) expandEvents() string { return filepath.Join(s.tmp, "expand.json") }

// without returns args without those of own, the last of each: the user may have
// said the same.
func without(args, own []string) []string {
	args = slices.Clone(args)
	for _, o := range own {
		for i, a := range slices.Backward(args) {
			if a == o {
				args = slices.Delete(args, i, i+1)
				break
			}
		}
	}
	return args
}

// strategies are those that run a test on this machine, among its files, or on workers that
// have been asked. (A persistent worker runs no test, but what is said for all actions is said
// for those as well that one does.)
var strategies = []string{"local", "standalone", "sandboxed", "linux-sandbox", "processwrapper-sandbox", "darwin-sandbox", "worker", "dynamic", "dynamic_worker", "remote", "exclusive"}

// executesAll tells whether the user wants all tests to be executed: results that are known are compared, others recorded.
func (s *session) executesAll() bool { return isFalse(s.option("cache_test_results")) }

// checks tells whether the user asks which tests are up to date, and has none executed.
func (s *session) checks() bool { return isTrue(s.option("check_tests_up_to_date")) }

// runAll returns why every test has to be run, or "". optionTable has the options by which it decides.
func (s *session) runAll() string {
	if s.Store == nil {
		return "no store"
	}
	if s.executesAll() && !s.Write {
		return "--nocache_test_results"
	}
	if b, err := s.readMappings(); err == nil {
		if flag := ofTests.FindSubmatch(b); flag != nil {
			return fmt.Sprintf("%s for some platforms (platform_mappings)", flag[1])
		}
	}
	if s.given("run_under") != "" {
		return "--run_under" // in a bazelrc, which the command line may replace
	}
	for _, o := range s.options {
		switch o.OptionName {
		case "runs_per_test":
			if o.OptionValue != "1" {
				return "--runs_per_test"
			}
		case "run_under":
			if o.OptionValue != "" {
				return "--run_under"
			}
		case "collect_code_coverage":
			if isTrue(o.OptionValue) {
				return "--collect_code_coverage"
			}
		case "dynamic_local_strategy", "dynamic_remote_strategy", "spawn_strategy", "strategy", "strategy_regexp", "test_strategy":
			// What else there is runs tests with libraries of which nothing is known here.
			value := o.OptionValue[strings.LastIndexByte(o.OptionValue, '=')+1:]
			if of := strings.TrimSuffix(o.OptionValue, value); of != "" && of != "TestRunner=" && o.OptionName != "strategy_regexp" {
				continue // of other actions
			}
			for name := range strings.SplitSeq(value, ",") {
				if name != "" && !slices.Contains(strategies, name) {
					return "--" + o.OptionName + "=" + o.OptionValue
				}
			}
		case "sandbox_add_mount_pair":
			if from, to, ok := strings.Cut(o.OptionValue, ":"); ok && from != to {
				return "--sandbox_add_mount_pair=" + o.OptionValue
			}
		case "experimental_use_hermetic_linux_sandbox":
			if isTrue(o.OptionValue) {
				return "--experimental_use_hermetic_linux_sandbox"
			}
		}
	}
	return ""
}

// tail keeps the end of what is written to it.
type tail struct {
	buf   []byte
	limit int
}

func (t *tail) Write(b []byte) (int, error) {
	t.buf = append(t.buf, b...)
	if len(t.buf) > 2*t.limit {
		t.buf = slices.Clone(t.buf[len(t.buf)-t.limit:])
	}
	return len(b), nil
}

// filesHere makes Bazel tell in build events where files are on this machine, even
// if a remote cache has them too.
const filesHere = "--nobuild_event_json_file_path_conversion"

// rcLine is an argument that a bazelrc file has for a command.
type rcLine struct{ file, command, config, arg string }

const override = "--default_override="

// rcLines returns those of a client's arguments, which tell the server of them, in their
// order.
func rcLines(args []string) (lines []rcLine) {
	files := rcFiles(args)
	for _, a := range args {
		x, ok := strings.CutPrefix(a, override)
		if !ok {
			continue
		}
		file, x, _ := strings.Cut(x, ":")
		if n, err := strconv.Atoi(file); err == nil && n >= 0 && n <= len(files) {
			file = append([]string{"client"}, files...)[n]
		}
		section, arg, _ := strings.Cut(x, "=")
		command, config, _ := strings.Cut(section, ":")
		lines = append(lines, rcLine{file, command, config, arg})
	}
	return lines
}

// rcFiles returns the bazelrc files of a client's arguments, in the order of their numbers,
// from 1. What has the number 0 is the client itself.
func rcFiles(args []string) (files []string) {
	for _, a := range args {
		if f, ok := strings.CutPrefix(a, "--rc_source="); ok && f != "client" {
			files = append(files, f)
		}
	}
	return files
}

// given returns the value of an option that this command line replaces in one of
// its invocations: of the command line itself, else of a bazelrc, or "".
func (s *session) given(name string) (value string) {
	// What is said for a more specific command counts more.
	commands := []string{"always", "common", "build", "test"}
	lines := make([]map[string][]string, len(commands)) // by configuration
	for k := range lines {
		lines[k] = map[string][]string{}
	}
	all := slices.DeleteFunc(slices.Clone(s.overrides), func(a string) bool { return strings.HasPrefix(a, override) })
	for _, l := range rcLines(s.overrides) {
		if k := slices.Index(commands, l.command); k >= 0 {
			lines[k][l.config] = append(lines[k][l.config], l.arg)
		}
	}
	used := map[string]bool{}
	var apply func(args []string)
	apply = func(args []string) {
		words, _ := s.flags.Split(args)
		for _, w := range words {
			if v, ok := strings.CutPrefix(w, "--"+name+"="); ok && w != s.runUnder {
				value = v
			} else if c, ok := strings.CutPrefix(w, "--config="); ok && !used[c] {
				used[c] = true
				for _, l := range lines {
					apply(l[c])
				}
				used[c] = false
			}
		}
	}
	for _, l := range lines {
		apply(l[""])
	}
	if s.enabled("enable_platform_specific_config") {
		for _, l := range lines {
			apply(l[runtime.GOOS])
		}
	}
	apply(all)
	return value
}

// inQuotes has what is special between quotes in a bazelrc stand for itself. Source: Bazel's
// blaze_util::Tokenize.
var inQuotes = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

// rc returns a bazelrc with what the user's files say for "test" alone, said for
// "build": the analysis has to be that of the tests. It is empty if they say
// nothing.
func (s *session) rc() (string, error) {
	var b strings.Builder
	var command string
	var words []string
	flush := func() error {
		for _, f := range s.flags.Known("build", words) {
			if strings.Contains(f, "\n") {
				return fmt.Errorf("%s: a line end in a flag for \"test\" in a bazelrc can't be passed on: move it to \"build\"", f)
			}
			fmt.Fprintf(&b, "%s '%s'\n", command, inQuotes.Replace(f))
		}
		words = nil
		return nil
	}
	var split []string
	for _, l := range rcLines(s.overrides) {
		if l.command != "test" {
			continue
		}
		section := strings.TrimSuffix("build:"+l.config, ":")
		if command != section {
			words, _ = s.flags.Split(split)
			if err := flush(); err != nil {
				return "", err
			}
			split = nil
		}
		command = section
		split = append(split, l.arg)
	}
	words, _ = s.flags.Split(split)
	err := flush()
	return b.String(), err
}

// Output groups of the aspect: with manifests of objects, and with those of
// sources where C has some.
const (
	byObject = "tasting_test"
	bySource = "tasting_source"
)

// analyse has Bazel make the manifests of all cc_tests: of C by its sources,
// before anything is compiled, of all else by the objects.
func (s *session) analyse(ctx context.Context) (code int, err error) {
	s.begin()
	tests := s.candidates()
	if len(tests) == 0 {
		return 0, nil
	}
	s.say("analysing %s", count(len(tests), "test"))
	s.analysed = true
	return s.analyseBy(ctx, bySource, tests)
}

// begin notes that step 2 begins.
func (s *session) begin() {
	if s.from.IsZero() {
		s.from = time.Now()
		s.cost.workers = s.workersCPU()
	}
}

// candidates returns the tests that the aspect knows.
func (s *session) candidates() (tests []*test) {
	for _, t := range s.tests {
		if t.isCC() {
			t.verdict, t.why = report.Miss, "it couldn't be analysed"
			tests = append(tests, t)
		}
	}
	return tests
}

// build runs `bazel build` with the flags that the user has for tests, and with args.
func (s *session) build(ctx context.Context, streams bazel.Streams, args ...string) (code int, err error) {
	if err := s.writeRC(); err != nil {
		return 0, err
	}
	own := slices.Clone(s.args)
	if s.checks() {
		// Whether a result is recorded shows when its objects are there.
		own = append(own, "--nocheck_up_to_date") // which --check_tests_up_to_date implies
	}
	if s.streams() {
		own = append(own, "--test_sharding_strategy=disabled", "--test_strategy=exclusive")
	}
	return s.Bazel.RunRC(ctx, streams, s.rcFile(), "build", s.flags.Known("build", append(own, args...))...)
}

// streams tells whether "bazel test" adds options of its own, which "build" doesn't. Source:
// Bazel's TestCommand.
func (s *session) streams() bool { return s.option("test_output") == "streamed" }

// writeRC writes the file with rc's lines.
func (s *session) writeRC() error {
	lines, err := s.rc()
	if err != nil {
		return err
	}
	return os.WriteFile(s.rcFile(), []byte(lines), 0o666)
}

// rcFile is the file with rc's lines.
func (s *session) rcFile() string { return filepath.Join(s.tmp, "rc") }

// warn says so if there are tests whose results can't be recorded or replayed for
// a reason that isn't the test's own.
func (s *session) warn() {
	n, all, why := 0, 0, ""
	for _, t := range s.tests {
		if t.isCC() {
			all++
			if t.verdict == report.Miss && !t.hasFingerprint() {
				n++
				why = cmp.Or(why, t.label+": "+t.why)
			}
		}
	}
	if n > 0 {
		s.say("warning: %d of %d tests have no fingerprint, they are run and not recorded. %s", n, all, why)
	}
}

// analyseBy has Bazel build an output group of the aspect for tests, and reads
// their descriptions.
func (s *session) analyseBy(ctx context.Context, group string, tests []*test) (code int, err error) {
	var labels []string
	for _, t := range tests {
		labels = append(labels, t.label)
	}
	targets, err := s.targets(group, labels)
	if err != nil {
		return 0, err
	}
	seen, code, err := s.applyAspect(ctx, group, nil, append([]string{"--nobuild_tests_only", "--keep_going"}, targets...)...)
	if err != nil || code == bazel.ExitInterrupted {
		return code, err
	}
	if code != bazel.ExitOK && !seen.applied {
		return 0, fmt.Errorf(`bazel can't apply %s to any of the tests, so that no result would ever be recorded or replayed.
Bazel has said above what is wrong with it. If it sees no repository of that name, put
    bazel_dep(name = "rules_tasting")
into MODULE.bazel, or say --aspect=LABEL. To only run the tests, use "bazel test"`, s.Aspect)
	}
	all := s.describe(tests, seen, group)
	s.analysed = s.analysed && all && code == bazel.ExitOK
	return code, nil
}

// noErrors has Bazel print no errors, nor what the actions that fail have printed.
const noErrors = "--ui_event_filters=-error"

// applyAspect has Bazel build an output group of the aspect, with the user's flags and
// some more arguments, and returns what it has made. If more isn't nil, it gets the
// events as well, and the caller goes on to another invocation if this one fails. An error that
// a later invocation prints isn't printed here.
func (s *session) applyAspect(ctx context.Context, group string, more func(*bazel.Event) error, args ...string) (seen *aspectOutputs, code int, err error) {
	seen, code, err = s.applyOnce(ctx, group, more, append([]string{noErrors}, args...)...)
	if err != nil || code == bazel.ExitOK || code == bazel.ExitInterrupted || more != nil || code == bazel.ExitBuildFailed && s.failsAgain(seen) {
		return seen, code, err
	}
	return s.applyOnce(ctx, group, more, args...)
}

// failsAgain tells whether all that has failed are actions of the tests themselves: these fail
// again where the tests are run. What isn't a test has another configuration than one (--trim_test_configuration),
// for the same output directory.
func (s *session) failsAgain(seen *aspectOutputs) bool {
	for _, a := range seen.failed {
		ofTests := slices.ContainsFunc(s.tests, func(t *test) bool { return s.mnemonics[t.config] == seen.mnemonics[a.config] })
		if !ofTests || strings.HasPrefix(a.mnemonic, "Tasting") {
			return false
		}
	}
	return len(seen.failed) > 0 && !seen.aborted
}

func (s *session) applyOnce(ctx context.Context, group string, more func(*bazel.Event) error, args ...string) (seen *aspectOutputs, code int, err error) {
	events := filepath.Join(s.tmp, group+".json")
	own := append(s.aside(), "--build_event_json_file="+events, filesHere,
		"--aspects="+s.Aspect, "--output_groups="+group, "--norun_validations",
		"--remote_download_outputs=toplevel", "--show_result=0")
	if s.cacheIsSilent(ctx) {
		own = append(own, noCache)
	}
	code, err = s.build(ctx, bazel.Streams{In: s.Stdin, Out: s.Out, Err: s.Err}, append(own, args...)...)
	if err != nil || code == bazel.ExitInterrupted {
		return nil, code, err
	}
	seen = newAspectOutputs(s.Aspect)
	s.built = time.Time{}
	var failed error
	err = bazel.ReadEvents(events, func(e *bazel.Event) error {
		seen.add(e)
		s.note(e)
		s.cost.add(e)
		if more != nil {
			failed = more(e)
		}
		return failed
	})
	if code != bazel.ExitOK {
		err = failed // a Bazel that fails may write no events, or only some
	}
	return seen, code, err
}

// describe reads the descriptions of tests, and tells whether there are all.
func (s *session) describe(tests []*test, seen *aspectOutputs, group string) (all bool) {
	all = true
	for _, t := range tests {
		x := seen.found[group][t.label]
		t.description, t.bySource = nil, group == bySource
		switch {
		case x == nil && seen.succeeded[t.label]:
			t.unlinked, t.verdict, t.why = true, report.Other, ""
		case x == nil:
			all = false
		case x.config != t.config:
			t.why = "the analysis has another configuration than the test"
		case x.err != nil:
			t.why = x.err.Error()
		default:
			var err error
			t.described = x.file
			if t.description, err = readDescription(x.file); err != nil {
				t.why = err.Error()
			}
		}
	}
	return all
}

// aspectOutputs collects from build events where the descriptions of tests are.
type aspectOutputs struct {
	sets      bazel.FileSets
	found     map[string]map[string]*aspectOutput // by group and label
	applied   bool                                // to some target, even if its actions failed
	failed    []failedAction
	aborted   bool              // something wasn't analysed
	mnemonics map[string]string // as those of a session
	// succeeded are those to which the aspect of that name was applied, whatever it made.
	succeeded map[string]bool
	aspect    string
}

type failedAction struct{ mnemonic, config string }

type aspectOutput struct {
	config string // ID of the configuration
	file   string
	err    error
}

// newAspectOutputs returns room for what the aspect LABEL%NAME makes.
func newAspectOutputs(aspect string) *aspectOutputs {
	_, name, _ := strings.Cut(aspect, "%")
	found := map[string]map[string]*aspectOutput{byObject: {}, bySource: {}}
	return &aspectOutputs{sets: bazel.FileSets{}, found: found, succeeded: map[string]bool{}, aspect: name, mnemonics: map[string]string{}}
}

func (l *aspectOutputs) add(e *bazel.Event) {
	l.sets.Add(e)
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
		if g.Name != byObject && g.Name != bySource {
			continue
		}
		for _, set := range g.FileSets {
			for _, f := range l.sets.Files(set.ID) {
				if strings.HasSuffix(f.Name, descriptionSuffix) {
					x := &aspectOutput{config: c.Configuration.ID}
					x.file, x.err = f.Path()
					l.found[g.Name][c.Label] = x
				}
			}
		}
	}
}

// of returns what was made of a test for its fingerprint, or nil.
func (l *aspectOutputs) of(t *test) *aspectOutput {
	if t.readsSources() {
		return l.found[bySource][t.label]
	}
	return l.found[byObject][t.label]
}

// note notes when an invocation that builds something ends.
func (s *session) note(e *bazel.Event) {
	if ended := e.Finished.FinishTime; !ended.IsZero() {
		s.built = ended.Add(time.Millisecond) // of which it has no fractions
	}
}

// targets returns the arguments that name targets, the last ones of a command: a file of the
// name, which may be any length, unless there is a "#" in one of them, behind which Bazel takes
// the rest of a line for a comment.
func (s *session) targets(name string, labels []string) ([]string, error) {
	if slices.ContainsFunc(labels, func(l string) bool { return strings.Contains(l, "#") }) {
		return append([]string{"--"}, labels...), nil
	}
	file := filepath.Join(s.tmp, name)
	return []string{"--target_pattern_file=" + file}, os.WriteFile(file, []byte(strings.Join(labels, "\n")+"\n"), 0o666)
}
