package driver

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkflags"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/syslib"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
)

// invocationParts contributes the options of Bazel and the user's variables that can change
// a test's outcome: "option NAME" for each option, with its values in order.
func invocationParts(options []bazel.Option) []fingerprint.Contribution {
	values := map[string][]string{}
	client := clientEnv(options)
	modified := modifiesTests(options)
	for _, o := range options {
		if e := effectOf(o); e == nothing || e == runsAll {
			continue
		}
		name := "option " + o.OptionName
		if modified && slices.Contains(modifying, o.OptionName) {
			name += " of tests"
		}
		v := o.OptionValue
		if setsEnv(o) {
			if name, _, assigned := strings.Cut(v, "="); !assigned {
				v = inherited(client, name)
			}
		}
		values[name] = append(values[name], v)
	}
	// Bazel passes these on to all actions unless told otherwise.
	if !isEnvStrict(options) {
		for _, name := range []string{"PATH", "LD_LIBRARY_PATH"} {
			values["environment variable "+name] = []string{inherited(client, name)}
		}
	}
	return collect(slices.Sorted(maps.Keys(values)), func(name string) fingerprint.Contribution {
		return fingerprint.NewContribution(name, values[name])
	})
}

// mappings contributes the workspace's file that maps platforms to options and options to platforms.
// No event lists the mappings in effect. Source: Bazel's PlatformMappingFunction.
func (inv *invocation) mappings() []fingerprint.Contribution {
	b, err := inv.readMappings()
	if err != nil {
		return nil
	}
	values := []string{string(b)}
	for _, o := range inv.options {
		if o.OptionName == "platforms" || o.OptionName == "cpu" || o.OptionName == "platform_mappings" {
			values = append(values, o.OptionName+"="+o.OptionValue)
		}
	}
	return []fingerprint.Contribution{fingerprint.NewContribution("platform mappings", values)}
}

func (inv *invocation) readMappings() ([]byte, error) {
	return os.ReadFile(in(inv.workspaceDir(), cmp.Or(inv.option("platform_mappings"), "platform_mappings")))
}

// testFlags matches flags about how tests are run.
var testFlags = lazyregexp.New(`(?m)^[^#\n]*(--(?:no)?(?:test_\w*|\w*action_env|run_under|runs_per_test|cache_test_results|collect_code_coverage|\w*strategy\w*|\w*sandbox\w*))`)

// commonInputs are the effects of options and of the user's environment on all tests.
type commonInputs struct {
	client     map[string]string // the user's environment
	env        map[string]string // the part of it that tests inherit
	disputed   []string
	args       []string
	filter     *string // nil if there is none
	mappings   []fingerprint.Contribution
	invocation []fingerprint.Contribution
}

func (inv *invocation) commonInputs() *commonInputs {
	all := &commonInputs{
		client: clientEnv(inv.options), env: optionsEnv(inv.options, "action_env", "test_env"), disputed: disputed(inv.options),
		mappings: inv.mappings(), invocation: invocationParts(inv.options),
	}
	for _, o := range inv.options {
		switch o.OptionName {
		case "test_arg":
			all.args = append(all.args, o.OptionValue)
		case "test_filter": // even an empty one sets the variable
			all.filter = &o.OptionValue
		}
	}
	return all
}

// declaredRun returns the part of a test's key that a runner would observe inside of the test, without the libraries of
// this machine. If that can't be predicted, its causes are in the key.
//
// The environment of tests is known for the releases of Bazel in modelled. With
// others, and on the workers of remote execution, the key has the options in place of their effects, and
// the release.
func (inv *invocation) declaredRun(t *subject, all *commonInputs) *fingerprint.Run {
	c, d := t.composed.Config, t.description
	run := &fingerprint.Run{
		Dir: "\x00runfiles\x00/" + inv.runfilesRoot(), Executable: c.Executable, Shards: inv.shards(d),
		Besides: slices.Concat(all.mappings, t.worker.parts, t.symlinks),
	}
	besides := func(name string, values ...string) {
		run.Besides = append(run.Besides, fingerprint.NewContribution(name, values))
	}
	isModelled := modelled[inv.major()] && !t.remote
	if !isModelled {
		besides("release of Bazel", inv.major())
	}
	for _, x := range all.invocation {
		isInKey := !isModelled // else the key has its effect
		if name, isOption := strings.CutPrefix(x.Name, "option "); isOption {
			switch optionEffects()[name] {
			case ifUnmodelled:
			case ifRemote:
				isInKey = inv.option("remote_executor") != ""
			case ifExclusive:
				isInKey = slices.ContainsFunc(d.Tags, func(tag string) bool { return strings.HasPrefix(tag, "exclusive") })
			default:
				isInKey = true
			}
		}
		if isInKey {
			run.Besides = append(run.Besides, x)
		}
	}
	env, contested := inv.environment(t, all)
	run.Env = fingerprint.Environment(env, c.EnvKeys, func(v string) string { return v })
	if len(contested) > 0 {
		besides("variables that Bazel sets as well", contested...)
	}
	if slices.ContainsFunc(d.Args, func(a string) bool { return !literal.MatchString(a) }) {
		besides("arguments as declared", slices.Concat(d.Args, []string{""}, pairs(d.Variables))...)
	}
	run.Args = slices.Concat(d.Args, all.args)
	run.External = inv.hasExternalRunfiles(t)
	slices.SortFunc(run.Besides, func(x, y fingerprint.Contribution) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.SHA256, y.SHA256))
	})
	// Files without read permission, ports below 1024, chown: root is different from everybody
	// else, who are alike.
	run.Root = os.Geteuid() == 0
	return run
}

// shards returns the number of shards that Bazel makes of a test, or 0 for none. Source: Bazel's
// TestShardingStrategy.
func (inv *invocation) shards(d *description) int {
	strategy := inv.option("test_sharding_strategy")
	if strategy == "disabled" {
		return 0
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(strategy, "forced=")); err == nil {
		return n
	}
	return max(0, d.ShardCount) // -1 unless it is declared
}

// modelled are the major versions of Bazel whose environment of tests is known: see environment.
var modelled = words.Set("7")

// literal matches arguments that Bazel passes on as they are in the BUILD file.
var literal = lazyregexp.New(`^[\w./=:,+@%^-]+$`)

// environment returns the environment that Bazel starts a test with on this machine, and the variables
// of the user and the rule that Bazel may override. Source: Bazel's TestPolicy,
// TestRunnerAction.setupEnvVariables and test-setup.sh. (onekey.txtar compares it with what a runner sees.)
func (inv *invocation) environment(t *subject, all *commonInputs) (env, contested []string) {
	d := t.description
	values := maps.Clone(all.env)
	maps.Copy(values, d.Env)
	for _, name := range d.EnvInherited {
		if v, set := all.client[name]; set {
			values[name] = v
		}
	}
	own := map[string]string{
		"BAZEL_TEST": "1", "EXPERIMENTAL_SPLIT_XML_GENERATION": "1", "RUN_UNDER_RUNFILES": "1", "TZ": "UTC",
		"TEST_BINARY": inv.testBinary(t), "TEST_TARGET": t.label, "TEST_WORKSPACE": inv.runfilesRoot(),
	}
	for _, name := range fingerprint.SetByBazel {
		own[name] = ""
	}
	if all.filter != nil {
		own["TESTBRIDGE_TEST_ONLY"] = *all.filter
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		_, set := own[name]
		if set || bazelVariables.MatchString(name) {
			contested = append(contested, name+"="+values[name])
		}
	}
	contested = append(contested, all.disputed...)
	if path, set := values["PATH"]; set {
		values["PATH"] = ".:" + path
	} else {
		contested = append(contested, "PATH")
	}
	maps.Copy(values, own)
	return pairs(values), contested
}

// bazelVariables matches the names of variables that Bazel sets for some tests.
var bazelVariables = lazyregexp.New(`^(TEST_|GTEST_|TESTBRIDGE_|BASH_FUNC_|COVERAGE|RUNFILES_|BAZEL_|EXPERIMENTAL_|OLDPWD$|SHLVL$|_$)`)

// testBinary returns the path of a test's executable in the runfiles of its workspace.
func (inv *invocation) testBinary(t *subject) string {
	repo, pkg, name := splitLabel(t.label)
	switch {
	case repo != "":
		return "../" + repo + "/" + filepath.Join(pkg, name)
	case pkg == "" && !strings.Contains(name, "/"):
		return "./" + name
	}
	return filepath.Join(pkg, name)
}

// splitLabel returns the parts of a label as build events spell it. Repo is "" in the main repository.
func splitLabel(label string) (repo, pkg, name string) {
	repo, rest, _ := strings.Cut(label, "//")
	pkg, name, _ = strings.Cut(rest, ":")
	return strings.TrimLeft(repo, "@"), pkg, name
}

// hasExternalRunfiles reports whether the runfiles have the files of other repositories in WORKSPACE/external, too.
func (inv *invocation) hasExternalRunfiles(t *subject) bool {
	legacy := inv.option("legacy_external_runfiles")
	if isFalse(legacy) || legacy == "" && !modelled[inv.major()] {
		return false
	}
	if strings.HasPrefix(t.label, "@") {
		return true // the test itself
	}
	return slices.ContainsFunc(t.composed.Config.Data, func(f fingerprint.File) bool { return !strings.HasPrefix(f.Path, inv.runfilesRoot()+"/") })
}

// isEnvStrict reports whether Bazel hides the user's PATH and LD_LIBRARY_PATH from tests.
func isEnvStrict(options []bazel.Option) bool {
	return isTrue(effective(options, strictActionEnv))
}

// inherited returns NAME=VALUE for a variable of the user, or NAME if it isn't set.
func inherited(client map[string]string, name string) string {
	if value, set := client[name]; set {
		return name + "=" + value
	}
	return name
}

// loaderDoubt returns why the libraries that a test loads aren't known, or "": its environment has a variable
// of the loader. Unless isEnvStrict, tests inherit one of these from the user, LD_LIBRARY_PATH.
func (d *description) loaderDoubt(options []bazel.Option) string {
	words := slices.Concat(d.EnvInherited, pairs(d.Env)) // NAME=VALUE, or NAME for the user's value
	if !isEnvStrict(options) {
		words = append(words, "LD_LIBRARY_PATH")
	}
	// A mention of the variable is enough, even if a later one overrides it.
	for _, o := range options {
		if setsEnv(o) {
			words = append(words, o.OptionValue)
		}
	}
	client := clientEnv(options)
	var set []string
	for _, word := range words {
		name, value, known := strings.Cut(word, "=")
		if !known {
			value, known = client[name]
		}
		if known && syslib.ChangesLoading(name, value) {
			set = append(set, name)
		}
	}
	if len(set) == 0 {
		return ""
	}
	return slices.Min(set) + " is set: what it has the test load isn't known"
}

// optionsEnv returns the environment of all actions: it lacks the variables of a single action. Actions inherit no other
// variable from the user, such as LIBRARY_PATH. The options with the given names are applied in the order of the names.
// Within an option, the last mention of a variable wins.
// Source: Bazel's BazelRuleClassProvider.SHELL_ACTION_ENV, ActionEnvironment.
func optionsEnv(options []bazel.Option, names ...string) map[string]string {
	client := clientEnv(options)
	env := map[string]string{}
	inherit := func(name string) {
		if v, set := client[name]; set {
			env[name] = v
		}
	}
	if isEnvStrict(options) {
		env["PATH"] = "/bin:/usr/bin:/usr/local/bin"
	} else {
		inherit("PATH")
		inherit("LD_LIBRARY_PATH")
	}
	for _, option := range names {
		last := map[string]string{} // the whole word
		for _, o := range options {
			if o.OptionName != option {
				continue
			}
			if name, unset := strings.CutPrefix(o.OptionValue, "="); unset {
				delete(last, name)
				delete(env, name)
				continue
			}
			name, _, _ := strings.Cut(o.OptionValue, "=")
			last[name] = o.OptionValue
		}
		for name, word := range last {
			if _, value, assigned := strings.Cut(word, "="); assigned {
				env[name] = value
			} else {
				inherit(name)
			}
		}
	}
	return env
}

// disputed returns the options that set one variable to different values.
func disputed(options []bazel.Option) (words []string) {
	said := map[string][]string{} // by variable
	for _, o := range options {
		if setsEnv(o) {
			name, _, _ := strings.Cut(strings.TrimPrefix(o.OptionValue, "="), "=")
			said[name] = append(said[name], o.OptionName+"="+o.OptionValue)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if l := said[name]; len(slices.Compact(slices.Clone(l))) > 1 {
			words = append(words, l...)
		}
	}
	return words
}

// setsEnv reports whether an option sets, unsets or inherits a variable of tests.
func setsEnv(o bazel.Option) bool { return o.OptionName == "test_env" || o.OptionName == "action_env" }

// clientEnv returns the environment that Bazel's client has passed on.
func clientEnv(options []bazel.Option) map[string]string {
	env := map[string]string{}
	for _, o := range options {
		if o.OptionName == "client_env" {
			k, v, _ := strings.Cut(o.OptionValue, "=")
			env[k] = v
		}
	}
	return env
}

func pairs(m map[string]string) []string {
	return collect(slices.Sorted(maps.Keys(m)), func(k string) string { return k + "=" + m[k] })
}

// addLibraries adds the libraries of this machine to run, if the test runs here. It returns an error
// if it doesn't know the libraries that the test loads or, if it runs remotely, is linked with.
func (a *analysis) addLibraries(ctx context.Context, t *subject, run *fingerprint.Run) error {
	if why := t.loaderDoubt(a.options); why != "" {
		return errors.New(why)
	}
	system, err := a.prober.libraries(ctx, t.description, t.composed.Lines)
	switch {
	case t.remote && slices.ContainsFunc(t.composed.Lines, func(l *linkflags.Line) bool { return l.StaticLibraries().Any }):
		return errors.New("it links libraries of the system statically, which may be those of another machine") // another one may link
	case err != nil || t.remote:
		return err
	}
	data, err := a.prober.loads(t.composed, system.program)
	if err != nil {
		return err
	}
	run.Libraries = syslib.Sort(slices.Concat(system.loaded, data))
	run.Machine, err = syslib.Machine()
	return err
}
