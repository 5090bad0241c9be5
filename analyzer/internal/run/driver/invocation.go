package driver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
)

// invocation is the user's command line and, after Expand, the effective options.
type invocation struct {
	*Options
	tmp      string
	flags    bazel.Flags
	version  string      // of Bazel, by the program, or ""
	printing *sync.Mutex // for Out and Err
	silence  *silence
	meter    *meter
	args     []string // flags for bazel test
	patterns []string
	// runUnder is the --run_under flag that traces tests, or "". TracedFile has the labels of these tests.
	runUnder, tracedFile string

	options   []bazel.Option // effective ones
	overrides []string       // the command line, after the lines of bazelrc files
	execRoot  string
	release   string // of Bazel, by its events
}

// newInvocation asks Bazel for its flags and its version. Files go into tmp.
func newInvocation(ctx context.Context, o *Options, tmp string) (inv *invocation, err error) {
	if _, err := bazel.Root(cmp.Or(o.Bazel.Dir, ".")); err != nil {
		return nil, err
	}
	if tmp, err = filepath.EvalSymlinks(tmp); err != nil { // as Bazel calls it
		return nil, err
	}
	inv = &invocation{Options: o, tmp: tmp, printing: new(sync.Mutex), silence: new(silence), meter: &meter{start: time.Now(), actions: map[string]int{}}}
	if inv.flags, err = o.Bazel.Flags(ctx); err != nil {
		return nil, err
	}
	inv.version = o.Bazel.Version(ctx)
	inv.args, inv.patterns = inv.flags.Split(o.Args)
	if inv.flags[bazel.AllMnemonics] != nil {
		inv.args = append([]string{bazel.AllMnemonics}, inv.args...)
	}
	inv.addTracer()
	return inv, nil
}

// say tells the user something, as Bazel does.
func (inv *invocation) say(format string, args ...any) {
	inv.printing.Lock()
	defer inv.printing.Unlock()
	fmt.Fprintf(inv.Err, "tasting: "+format+"\n", args...)
}

// option returns the effective value of an option.
func (inv *invocation) option(name string) string { return effective(inv.options, name) }

func effective(options []bazel.Option, name string) string {
	for _, o := range slices.Backward(options) {
		if o.OptionName == name {
			return o.OptionValue
		}
	}
	return ""
}

const strictActionEnv = "incompatible_strict_action_env"

// effectiveOptions returns the options of a command, including --incompatible_strict_action_env, on by default since
// Bazel 9, and without runUnder, which isn't the user's. Source: Bazel's
// BazelRuleClassProvider.StrictActionEnvOptions.
func effectiveOptions(e *bazel.Event, release, runUnder string) []bazel.Option {
	options := slices.DeleteFunc(slices.Clone(e.Options()), func(o bazel.Option) bool { return runUnder != "" && o.CombinedForm == runUnder })
	major, _, _ := strings.Cut(release, ".")
	if n, err := strconv.Atoi(major); err == nil && n >= 9 && effective(options, strictActionEnv) == "" {
		options = append(options, bazel.Option{CombinedForm: "--" + strictActionEnv, OptionName: strictActionEnv, OptionValue: "1"})
	}
	return options
}

// enabled reports whether a boolean option is on.
func (inv *invocation) enabled(name string) bool { return isTrue(inv.option(name)) }

// isTrue and isFalse report whether a value is one of Bazel's words for true or false. Events have the
// user's spelling. Source: com.google.devtools.common.options.Converters.BooleanConverter.
func isTrue(value string) bool {
	return slices.Contains([]string{"true", "1", "yes", "t", "y"}, strings.ToLower(value))
}

func isFalse(value string) bool {
	return slices.Contains([]string{"false", "0", "no", "f", "n"}, strings.ToLower(value))
}

// executesAll reports whether the user wants all tests to be executed: recorded results are audited, others recorded.
func (inv *invocation) executesAll() bool { return isFalse(inv.option("cache_test_results")) }

// onlyChecks reports whether the user only asks which tests are up to date.
func (inv *invocation) onlyChecks() bool { return inv.enabled("check_tests_up_to_date") }

// isStreamed reports whether logs are streamed. Then "bazel test" adds options that "build" doesn't. Source: Bazel's TestCommand.
func (inv *invocation) isStreamed() bool { return inv.option("test_output") == "streamed" }

// auditShare returns the share of recorded results that are audited.
func (inv *invocation) auditShare() float64 {
	switch {
	case inv.onlyChecks():
		return 0
	case inv.executesAll():
		return 1
	case inv.DryRun:
		return 0 // chance decides
	}
	return inv.Audit
}

// major returns the first number of the release of Bazel.
func (inv *invocation) major() string {
	major, _, _ := strings.Cut(cmp.Or(inv.version, inv.release), ".")
	return major
}

// workspaceDir returns the directory of MODULE.bazel or WORKSPACE.
func (inv *invocation) workspaceDir() string {
	start := inv.option("client_cwd")
	if root, ok := bazel.Workspace(start); ok {
		return root
	}
	return start
}

// runfilesRoot returns the name of the directory in the runfiles where a test starts: that of its workspace.
func (inv *invocation) runfilesRoot() string { return filepath.Base(inv.execRoot) }

// strategies run a test on this machine, with its file system, or on workers whose platform is known.
// (A persistent worker runs no test, but an option for all actions may name that strategy.)
var strategies = []string{"local", "standalone", "sandboxed", "linux-sandbox", "processwrapper-sandbox", "darwin-sandbox", "worker", "dynamic", "dynamic_worker", "remote", "exclusive"}

// runAllReason returns why every test has to be run, or "".
func (inv *invocation) runAllReason() string {
	if inv.Store == nil {
		return "no store"
	}
	if inv.executesAll() && !inv.Write {
		return "--nocache_test_results"
	}
	if b, err := inv.readMappings(); err == nil {
		if flag := testFlags.FindSubmatch(b); flag != nil {
			return fmt.Sprintf("%s for some platforms (platform_mappings)", flag[1])
		}
	}
	if inv.userValue("run_under") != "" {
		return "--run_under" // in a bazelrc, which the command line may replace
	}
	for _, o := range inv.options {
		if why := runAllReasonOf(o); why != "" {
			return why
		}
	}
	return ""
}

// runAllReasonOf returns why every test has to be run with an option, or "".
func runAllReasonOf(o bazel.Option) string {
	because := false
	value := o.OptionValue
	switch o.OptionName {
	case "runs_per_test":
		because = value != "1"
	case "run_under":
		because = value != ""
	case "collect_code_coverage", "experimental_use_hermetic_linux_sandbox":
		because = isTrue(value)
	case "dynamic_local_strategy", "dynamic_remote_strategy", "spawn_strategy", "strategy", "strategy_regexp", "test_strategy":
		// With other strategies, the libraries that tests load aren't known.
		names := value[strings.LastIndexByte(value, '=')+1:]
		if of := strings.TrimSuffix(value, names); of != "" && of != "TestRunner=" && o.OptionName != "strategy_regexp" {
			return "" // of other actions
		}
		for name := range strings.SplitSeq(names, ",") {
			if name != "" && !slices.Contains(strategies, name) {
				return "--" + o.OptionName + "=" + value
			}
		}
	case "sandbox_add_mount_pair":
		if from, to, ok := strings.Cut(value, ":"); ok && from != to {
			return "--sandbox_add_mount_pair=" + value
		}
	}
	if because {
		return "--" + o.OptionName
	}
	return ""
}

// bazelBuild runs `bazel build` with the user's flags for tests, and args. The error is interrupted if the user interrupts Bazel.
func (inv *invocation) bazelBuild(ctx context.Context, streams bazel.Streams, args ...string) (code int, err error) {
	if err := inv.writeRC(); err != nil {
		return 0, err
	}
	own := slices.Clone(inv.args)
	if inv.onlyChecks() {
		// The look-up needs the objects, which this flag would keep from being built.
		own = append(own, "--nocheck_up_to_date") // which --check_tests_up_to_date implies
	}
	if inv.isStreamed() {
		own = append(own, "--test_sharding_strategy=disabled", "--test_strategy=exclusive")
	}
	code, err = inv.Bazel.WithRC(inv.rcFile()).Run(ctx, streams, "build", inv.flags.Known("build", append(own, args...))...)
	if err == nil && code == bazel.ExitInterrupted {
		err = interrupted
	}
	return code, err
}

// targetArgs returns the last arguments of a command, which name targets. It writes them to a file, because a command
// line is bounded, unless one has a "#", with which a comment begins there.
func (inv *invocation) targetArgs(name string, labels []string) ([]string, error) {
	if slices.ContainsFunc(labels, func(l string) bool { return strings.Contains(l, "#") }) {
		return append([]string{"--"}, labels...), nil
	}
	file := filepath.Join(inv.tmp, name)
	return []string{"--target_pattern_file=" + file}, os.WriteFile(file, []byte(strings.Join(labels, "\n")+"\n"), 0o666)
}

// without returns args without the last occurrence of each of own. The user may have given the same flag.
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

// in returns the path of a file whose name may be relative to a directory.
func in(dir, file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}

// filter returns the elements of a list that are to be kept.
func filter[T any](list []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(x T) bool { return !keep(x) })
}

// collect returns f of each element of a list.
func collect[T, R any](list []T, f func(T) R) (l []R) {
	for _, x := range list {
		l = append(l, f(x))
	}
	return l
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// rcLine is an argument that a bazelrc file has for a command.
type rcLine struct{ file, command, config, arg string }

const override = "--default_override="

// rcLines returns the lines of bazelrc files, in their order, from the client's arguments to the server.
func rcLines(args []string) (lines []rcLine) {
	files := append([]string{"client"}, rcFiles(args)...)
	for _, a := range args {
		x, ok := strings.CutPrefix(a, override)
		if !ok {
			continue
		}
		file, x, _ := strings.Cut(x, ":")
		if n, err := strconv.Atoi(file); err == nil && n >= 0 && n < len(files) {
			file = files[n]
		}
		section, arg, _ := strings.Cut(x, "=")
		command, config, _ := strings.Cut(section, ":")
		lines = append(lines, rcLine{file, command, config, arg})
	}
	return lines
}

// rcFiles returns the bazelrc files of a client's arguments, in the order of their numbers,
// from 1. The client itself has the number 0.
func rcFiles(args []string) (files []string) {
	for _, a := range args {
		if f, ok := strings.CutPrefix(a, "--rc_source="); ok && f != "client" {
			files = append(files, f)
		}
	}
	return files
}

// rcArgs returns the arguments that bazelrc files have for commands, by configuration, in the order of commands. A flag and its
// value may be on two lines.
func (inv *invocation) rcArgs(commands ...string) map[string][]string {
	of := map[string][]string{}
	for _, command := range commands {
		for _, l := range rcLines(inv.overrides) {
			if l.command == command {
				of[l.config] = append(of[l.config], l.arg)
			}
		}
	}
	return of
}

// userValue returns the user's value of an option that this program overrides in some calls of Bazel: the value on the
// command line, else in a bazelrc, or "".
func (inv *invocation) userValue(name string) (value string) {
	of := inv.rcArgs("always", "common", "build", "test") // a more specific command counts more
	applied := map[string]bool{}                          // configurations being applied
	var apply func(args []string)
	apply = func(args []string) {
		words, _ := inv.flags.Split(args)
		for _, w := range words {
			if v, ok := strings.CutPrefix(w, "--"+name+"="); ok && w != inv.runUnder {
				value = v
			} else if c, ok := strings.CutPrefix(w, "--config="); ok && !applied[c] {
				applied[c] = true
				apply(of[c])
				applied[c] = false
			}
		}
	}
	apply(of[""])
	if inv.enabled("enable_platform_specific_config") {
		apply(of[runtime.GOOS])
	}
	apply(slices.DeleteFunc(slices.Clone(inv.overrides), func(a string) bool { return strings.HasPrefix(a, override) }))
	return value
}

// inQuotes escapes the characters that are special between quotes in a bazelrc. Source: Bazel's
// blaze_util::Tokenize.
var inQuotes = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

// buildLines returns a bazelrc that has the lines for "test" of the user's files as lines for "build",
// because the analysis needs the options of the tests.
func (inv *invocation) buildLines() (string, error) {
	var b strings.Builder
	of := inv.rcArgs("test")
	for _, config := range slices.Sorted(maps.Keys(of)) {
		words, _ := inv.flags.Split(of[config])
		for _, f := range inv.flags.Known("build", words) {
			if strings.Contains(f, "\n") {
				return "", fmt.Errorf("%s: a line end in a flag for \"test\" in a bazelrc can't be passed on: move it to \"build\"", f)
			}
			fmt.Fprintf(&b, "%s '%s'\n", strings.TrimSuffix("build:"+config, ":"), inQuotes.Replace(f))
		}
	}
	return b.String(), nil
}

// rcFile returns the file that writeRC writes.
func (inv *invocation) rcFile() string { return filepath.Join(inv.tmp, "rc") }

func (inv *invocation) writeRC() error {
	lines, err := inv.buildLines()
	if err != nil {
		return err
	}
	return os.WriteFile(inv.rcFile(), []byte(lines), 0o666)
}
