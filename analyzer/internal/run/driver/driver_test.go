package driver

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

func option(nameValue string) bazel.Option {
	name, value, _ := strings.Cut(nameValue, "=")
	return bazel.Option{CombinedForm: "--" + nameValue, OptionName: name, OptionValue: value}
}

// names returns what is in a list of contributions.
func names(l []fingerprint.Contribution) map[string]string {
	m := map[string]string{}
	for _, c := range l {
		m[c.Name] = c.SHA256
	}
	return m
}

func TestInvocation(t *testing.T) {
	base := []string{"client_env=PATH=/bin", "client_env=FOO=1"}
	contributions := func(more ...string) map[string]string {
		var o []bazel.Option
		for _, x := range append(base, more...) {
			o = append(o, option(x))
		}
		for i := range o {
			if o[i].OptionName == "client_env" {
				o[i].MetadataTags = []string{"HIDDEN"}
			}
		}
		return names(invocationParts(o))
	}
	same := func(a, b []string) bool { return cmp.Equal(contributions(a...), contributions(b...)) }
	for _, c := range []struct {
		what  string
		a, b  []string
		equal bool
	}{
		{"nothing", nil, nil, true},
		{"jobs", nil, []string{"jobs=3"}, true},
		{"a compiler's flag, which is in manifests", nil, []string{"copt=-O2"}, true},
		{"time-out", nil, []string{"test_timeout=3"}, true},
		{"files for events and logs", nil, []string{"build_event_json_file=x", "build_event_text_file=x", "build_event_binary_file=x", "bes_backend=x", "profile=x"}, true},
		{"an option that isn't known", nil, []string{"some_new_option=1"}, false},
		{"filter", []string{"test_filter=a"}, []string{"test_filter=b"}, false},
		{"order of arguments", []string{"test_arg=a", "test_arg=b"}, []string{"test_arg=b", "test_arg=a"}, false},
		{"two arguments or one", []string{"test_arg=a", "test_arg=b"}, []string{"test_arg=ab"}, false},
		{"inherited variable", []string{"test_env=FOO"}, []string{"test_env=FOO", "client_env=FOO=2"}, false},
		{"variable that isn't inherited", nil, []string{"client_env=BAR=2"}, true},
		{"inherited or the same value", []string{"test_env=FOO"}, []string{"test_env=FOO=1"}, true},
		{"PATH", nil, []string{"client_env=PATH=/usr/bin"}, false},
		{"PATH, strict in words", []string{"incompatible_strict_action_env=true"}, []string{"incompatible_strict_action_env=true", "client_env=PATH=/usr/bin"}, true},
		{"PATH, strict", []string{"incompatible_strict_action_env=1"}, []string{"incompatible_strict_action_env=1", "client_env=PATH=/usr/bin"}, true},
		{"strategy", nil, []string{"test_strategy=standalone"}, true},
		{"network", nil, []string{"sandbox_default_allow_network=false"}, false},
	} {
		if got := same(c.a, c.b); got != c.equal {
			t.Errorf("%s: equal is %v:\n%s", c.what, got, cmp.Diff(contributions(c.a...), contributions(c.b...)))
		}
	}
	for name := range contributions("test_env=SECRET=abc", "remote_header=x=y") {
		if strings.Contains(name, "abc") || strings.Contains(name, "header") {
			t.Errorf("a secret in %q", name)
		}
	}
}

// What a description says of an execution counts, and so does what Bazel is told. (Tags and
// requirements are among the arguments of the composition.)
func TestDeclared(t *testing.T) {
	type given struct {
		d       description
		options string
		release string
		client  map[string]string
		label   string
		remote  bool
		links   []fingerprint.Contribution
		data    []fingerprint.File
	}
	run := func(g given) *fingerprint.Run {
		inv := &invocation{execRoot: "/base/execroot/_main", release: g.release}
		for _, o := range strings.Fields(g.options) {
			inv.options = append(inv.options, option(o))
		}
		for i := range inv.options {
			if inv.options[i].OptionName == "client_env" {
				inv.options[i].MetadataTags = []string{"HIDDEN"}
			}
		}
		config := &fingerprint.Config{EnvKeys: slices.Sorted(maps.Keys(g.d.Env)), Data: g.data}
		x := &subject{target: &target{label: g.label}, evidence: &evidence{description: &g.d}, composed: &fingerprint.Composed{Config: config}, remote: g.remote, symlinks: g.links}
		all := inv.commonInputs()
		all.client = g.client
		return inv.declaredRun(x, all)
	}
	base := func() given {
		return given{
			d: description{Args: []string{"a", "b"}, Variables: map[string]string{"V": "1"}, Env: map[string]string{"E": "1"},
				EnvInherited: []string{"I"}},
			options: "client_env=PATH=/bin test_env=T=1 test_arg=c", release: "7.7.1", client: map[string]string{"I": "1", "PATH": "/bin"}, label: "//p:t",
		}
	}
	want := run(base())
	if !slices.Equal(want.Args, []string{"a", "b", "c"}) || len(want.Besides) > 0 || want.External || want.Shards != 0 || want.Dir != "\x00runfiles\x00/_main" {
		t.Errorf("%+v", want)
	}
	for _, kv := range []string{"E=1", "I=1", "T=1", "PATH=.:/bin", "TEST_BINARY=p/t", "TEST_TARGET=//p:t", "TEST_WORKSPACE=_main", "XML_OUTPUT_FILE=\x00set"} {
		if !slices.Contains(want.Env, kv) {
			t.Errorf("no %s in %q", kv, want.Env)
		}
	}
	for name, c := range map[string]struct {
		change func(*given)
		hidden bool // an observer of the test can't see it, so that the key says so
	}{
		"args":                       {func(g *given) { g.d.Args = []string{"ab"} }, false},
		"args to be expanded":        {func(g *given) { g.d.Args = []string{"a", "$(V)"} }, true},
		"args with quotes":           {func(g *given) { g.d.Args = []string{"'a b'"} }, true},
		"no arg at all":              {func(g *given) { g.d.Args = []string{"a", "b", ""} }, true},
		"--test_arg":                 {func(g *given) { g.options += " test_arg=d" }, false},
		"env":                        {func(g *given) { g.d.Env = map[string]string{"E": "2"} }, false},
		"more env":                   {func(g *given) { g.d.Env = map[string]string{"E": "1", "F": ""} }, false},
		"env of Bazel's":             {func(g *given) { g.d.Env = map[string]string{"E": "1", "TZ": "CET"} }, true},
		"inherited":                  {func(g *given) { g.d.EnvInherited = nil }, false},
		"inherited, value":           {func(g *given) { g.client["I"] = "2" }, false},
		"--test_env":                 {func(g *given) { g.options = strings.ReplaceAll(g.options, "test_env=T=1", "test_env=T=2") }, false},
		"--test_env of Bazel's":      {func(g *given) { g.options += " test_env=TEST_TMPDIR=/x" }, true},
		"--test_env that may be its": {func(g *given) { g.options += " test_env=GTEST_BRIEF=1" }, true},
		"--action_env":               {func(g *given) { g.options += " action_env=A=1" }, false},
		"strict":                     {func(g *given) { g.options += " incompatible_strict_action_env=1" }, false},
		"no PATH":                    {func(g *given) { g.options = "test_env=T=1 test_arg=c" }, true},
		"empty filter":               {func(g *given) { g.options += " test_filter=" }, false},
		"two of a variable":          {func(g *given) { g.options += " action_env=T=2" }, true},
		"test of another repository": {func(g *given) { g.label = "@@r//p:t" }, false},
		"filter":                     {func(g *given) { g.options += " test_filter=x" }, false},
		"shards":                     {func(g *given) { g.d.ShardCount = 3 }, true},
		"shards, forced":             {func(g *given) { g.options += " test_sharding_strategy=forced=3" }, true},
		"label":                      {func(g *given) { g.label = "//p:u" }, false},
		"repository":                 {func(g *given) { g.label = "@@r//p:t" }, false},
		"option":                     {func(g *given) { g.options += " sandbox_default_allow_network=false" }, true},
		"release":                    {func(g *given) { g.release = "8.1.0" }, true},
		"remote":                     {func(g *given) { g.remote = true }, true},
		"links among data":           {func(g *given) { g.links = []fingerprint.Contribution{{Name: "links", SHA256: "12345678"}} }, true},
		"external data":              {func(g *given) { g.data = []fingerprint.File{{Path: "r/x"}} }, false},
	} {
		g := base()
		c.change(&g)
		got := run(g)
		if cmp.Equal(want, got) {
			t.Errorf("%s: no difference", name)
		}
		if hidden := len(got.Besides) > 0 || got.Shards > 0; hidden != c.hidden {
			t.Errorf("%s: a runner may see the same: %t, %+v", name, !hidden, got.Besides)
		}
	}
	for _, same := range []func(*given){
		func(g *given) { g.options += " jobs=3" },
		func(g *given) { g.options = strings.ReplaceAll(g.options, "test_env=T=1", "test_env=T client_env=T=1") },
		func(g *given) { g.d.Compose, g.d.Linker = "elsewhere", "ld" },
		func(g *given) {
			g.options += " test_timeout=60 test_strategy=standalone sandbox_writable_path=/x test_sharding_strategy=explicit"
		},
		func(g *given) { g.d.ShardCount, g.options = 3, g.options+" test_sharding_strategy=disabled" },
		func(g *given) { g.d.ShardCount = -1 },
	} {
		g := base()
		same(&g)
		if d := cmp.Diff(want, run(g)); d != "" {
			t.Error(d)
		}
	}
}

// What decides about the libraries that a test loads must not go unnoticed.
func TestLoading(t *testing.T) {
	d := func(env map[string]string, inherited ...string) *description {
		return &description{Env: env, EnvInherited: inherited}
	}
	for _, c := range []struct {
		name    string
		d       *description
		options []string
		known   bool
	}{
		{"nothing", d(map[string]string{"E": "1"}, "I"), []string{"test_env=FOO", "client_env=LD_PRELOAD=x", "client_env=PATH=/bin"}, true},
		{"rule", d(map[string]string{"LD_LIBRARY_PATH": "x"}), nil, false},
		{"rule, another", d(map[string]string{"LD_ORIGIN_PATH": "x"}), nil, false},
		{"rule, harmless", d(map[string]string{"LD_BIND_NOW": "1", "GLIBC_TUNABLES": "glibc.malloc.check=1"}), nil, true},
		{"rule, order of initialisers", d(map[string]string{"GLIBC_TUNABLES": "glibc.rtld.dynamic_sort=1"}), nil, false},
		{"inherited", d(nil, "LD_PRELOAD"), []string{"client_env=LD_PRELOAD=/x.so"}, false},
		{"inherited, not set", d(nil, "LD_PRELOAD"), nil, true},
		{"inherited, strict", d(nil, "LD_LIBRARY_PATH"), []string{"client_env=LD_LIBRARY_PATH=/x", "incompatible_strict_action_env=1"}, false},
		{"option", d(nil), []string{"test_env=LD_LIBRARY_PATH=/x"}, false},
		{"option, empty", d(nil), []string{"test_env=LD_LIBRARY_PATH="}, true},
		{"option of all actions", d(nil), []string{"action_env=LD_DYNAMIC_WEAK="}, false},
		{"option, inherited", d(nil), []string{"action_env=LD_AUDIT", "client_env=LD_AUDIT=/x.so"}, false},
		{"option, inherited, not set", d(nil), []string{"test_env=LD_AUDIT"}, true},
		{"option, then cleared", d(nil), []string{"test_env=LD_LIBRARY_PATH=/x", "action_env=LD_LIBRARY_PATH="}, false},
		{"rule clears what the user has", d(map[string]string{"LD_LIBRARY_PATH": ""}), []string{"client_env=LD_LIBRARY_PATH=/x"}, false},
		{"user", d(nil), []string{"client_env=LD_LIBRARY_PATH=/x"}, false},
		{"user, strict", d(nil), []string{"client_env=LD_LIBRARY_PATH=/x", "incompatible_strict_action_env=1"}, true},
	} {
		var o []bazel.Option
		for _, x := range c.options {
			o = append(o, option(x))
		}
		if why := c.d.loaderDoubt(o); (why == "") != c.known {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

// What actions and tests have of the user's environment: the last mention counts, and of tests
// their own option. (Each was tried with Bazel 7.7.1, but for what only later ones have.)
func TestOptionsEnv(t *testing.T) {
	const client = "client_env=PATH=/p client_env=LD_LIBRARY_PATH=/l client_env=LIBRARY_PATH=/x client_env=HOME=/h"
	for options, want := range map[string][2]string{ // of actions, of tests
		"":                                 {"LD_LIBRARY_PATH=/l PATH=/p"},
		"incompatible_strict_action_env=1": {"PATH=/bin:/usr/bin:/usr/local/bin"},
		"action_env=LIBRARY_PATH":          {"LD_LIBRARY_PATH=/l LIBRARY_PATH=/x PATH=/p"},
		"incompatible_strict_action_env=1 action_env=PATH action_env=A=B=C": {"A=B=C PATH=/p"},
		"action_env==PATH action_env=B=1":                                   {"B=1 LD_LIBRARY_PATH=/l"},
		"action_env=UNSET test_env=HOME host_action_env=HOME":               {"LD_LIBRARY_PATH=/l PATH=/p", "HOME=/h LD_LIBRARY_PATH=/l PATH=/p"},
		"test_env=X=1 action_env=X=2":                                       {"LD_LIBRARY_PATH=/l PATH=/p X=2", "LD_LIBRARY_PATH=/l PATH=/p X=1"},
		"test_env=X=3 test_env=X":                                           {"LD_LIBRARY_PATH=/l PATH=/p"},
		"action_env=X=4 action_env=X":                                       {"LD_LIBRARY_PATH=/l PATH=/p"},
	} {
		var o []bazel.Option
		for _, x := range strings.Fields(client + " " + options) {
			o = append(o, option(x))
		}
		if want[1] == "" {
			want[1] = want[0]
		}
		got := [2]string{strings.Join(pairs(optionsEnv(o, "action_env")), " "), strings.Join(pairs(optionsEnv(o, "action_env", "test_env")), " ")}
		if got != want {
			t.Errorf("%s: %q, want %q", options, got, want)
		}
	}
}

// Since a release of Bazel actions have nothing of the user's environment, unless it is told.
func TestDefaults(t *testing.T) {
	for _, c := range []struct {
		release, options string
		want             bool
	}{
		{"7.7.1", "", false},
		{"8.5.0", "", false},
		{"9.0.0", "", true},
		{"10.0.0-pre.20270101.1", "", true},
		{"9.0.0", "incompatible_strict_action_env=false", false},
		{"8.5.0", "incompatible_strict_action_env=yes", true},
		{"development version", "", false},
	} {
		// As Bazel writes it, shortened.
		name, value, _ := strings.Cut(c.options, "=")
		event := fmt.Sprintf(`{"id":{"structuredCommandLine":{"commandLineLabel":"canonical"}},"structuredCommandLine":{"sections":[{"sectionLabel":"command options","optionList":{"option":[`+
			`{"combinedForm":"--test_env=A","optionName":"test_env","optionValue":"A"},{"combinedForm":"--%s","optionName":%q,"optionValue":%q}]}}]}}`, c.options, name, value)
		seen := false
		file := filepath.Join(t.TempDir(), "events")
		if err := os.WriteFile(file, []byte(event+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := bazel.ReadEvents(file, func(e *bazel.Event) error {
			seen = true
			if got := isEnvStrict(effectiveOptions(e, c.release, "")); got != c.want {
				t.Errorf("%s %s: %t", c.release, c.options, got)
			}
			return nil
		}); err != nil || !seen {
			t.Fatal(err)
		}
	}
}

// What a bazelrc says for tests alone must reach the analysis, and nothing else.
func TestRC(t *testing.T) {
	inv := &invocation{flags: bazel.Flags{}, overrides: []string{
		"test", "--default_override=1:common=--a", "--default_override=1:build=--b", "--default_override=1:build:x=--c",
		"--default_override=2:test=--test_env=X=1 2", "--default_override=2:test=--test_env", "--default_override=2:test=Y",
		"--default_override=2:test:x=--f", "--default_override=3:testing=--g", "--default_override=3:test=--only_test",
	}}
	for _, f := range []struct{ name, commands string }{{"test_env", "build test"}, {"f", "build test"}, {"only_test", "test"}} {
		inv.flags["--"+f.name] = &bazel.Flag{Name: f.name, Value: f.name == "test_env", Commands: strings.Fields(f.commands)}
	}
	got, err := inv.buildLines()
	want := "build '--test_env=X=1 2'\nbuild '--test_env=Y'\nbuild:x '--f'\n"
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, cmp.Diff(want, got))
	}
	inv.overrides = []string{`--default_override=2:test=--test_env=it's \"`}
	if got, err := inv.buildLines(); err != nil || got != `build '--test_env=it\'s \\"'`+"\n" {
		t.Errorf("a quote: %s, %v", got, err)
	}
	inv.overrides = []string{"--default_override=2:test=--test_env=a\nb"}
	if got, err := inv.buildLines(); err == nil {
		t.Errorf("a line end: %s", got)
	}
}

// The analysis has a file of events of its own: the run has to write the user's.
func TestUserValue(t *testing.T) {
	flags := bazel.Flags{"--f": {Name: "f", Value: true}, "--config": {Name: "config", Value: true}}
	rc := []string{"test", "--default_override=1:test=--f=rc", "--default_override=1:build:x=--f=x", "--default_override=1:test:y=--config=x", "--default_override=1:run=--f=run"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{rc, "rc"},
		{rc[:1], ""},
		{append(rc, "--f=1", "--g"), "1"},
		{append(rc, "--default_override=3:build=--f=build"), "rc"},
		{append(rc, "--default_override=3:test:z=--f=z", "--config=x", "--config=z", "--config=x"), "x"},
		{append(rc, "--default_override=3:test:z=--config=z"), "rc"},
		{append(rc, "--f=1", "--f", "2"), "2"},
		{append(rc, "--config=y"), "x"},
		{append(rc, "--config=y", "--f="), ""},
		{append(rc, "--", "--f=3"), "rc"},
	} {
		inv := &invocation{flags: flags, overrides: c.args}
		if got := inv.userValue("f"); got != c.want {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}

func withStatus(status string, change func(*bazel.TestResult)) *bazel.TestResult {
	r := &bazel.TestResult{Status: status, TestAttemptStart: "2026-01-02T03:04:05Z", TestAttemptDuration: "2s"}
	if change != nil {
		change(r)
	}
	return r
}

func TestUnclean(t *testing.T) {
	pass := withStatus("PASSED", nil)
	cached := withStatus("PASSED", func(r *bazel.TestResult) { r.CachedLocally = true })
	remotely := withStatus("PASSED", func(r *bazel.TestResult) { r.ExecutionInfo.Strategy = "remote" })
	for _, c := range []struct {
		name     string
		attempts []attempt
		remote   bool
		clean    bool
	}{
		{"one pass", []attempt{{1, 1, 1, pass}}, false, true},
		{"shards", []attempt{{1, 1, 1, pass}, {1, 2, 1, pass}}, false, true},
		{"a shard is missing", []attempt{{1, 2, 1, pass}}, false, false},
		{"none", nil, false, false},
		{"flaky", []attempt{{1, 1, 1, withStatus("FAILED", nil)}, {1, 1, 2, pass}}, false, false},
		{"second attempt alone", []attempt{{1, 1, 2, pass}}, false, false},
		{"timed out", []attempt{{1, 1, 1, withStatus("TIMEOUT", nil)}}, false, false},
		{"runs", []attempt{{1, 1, 1, pass}, {2, 1, 1, pass}}, false, false},
		{"cached here", []attempt{{1, 1, 1, cached}}, false, false},
		{"remote", []attempt{{1, 1, 1, remotely}}, true, true},
		{"remote, and ran here", []attempt{{1, 1, 1, pass}}, true, false},
		{"not remote, and ran there", []attempt{{1, 1, 1, remotely}}, false, false},
		{"remote, one shard ran here", []attempt{{1, 1, 1, remotely}, {1, 2, 1, pass}}, true, false},
		{"in the sandbox", []attempt{{1, 1, 1, withStatus("PASSED", func(r *bazel.TestResult) { r.ExecutionInfo.Strategy = "linux-sandbox" })}}, false, true},
		{"in a container", []attempt{{1, 1, 1, withStatus("PASSED", func(r *bazel.TestResult) { r.ExecutionInfo.Strategy = "docker" })}}, false, false},
		{"cached elsewhere", []attempt{{1, 1, 1, withStatus("PASSED", func(r *bazel.TestResult) { r.ExecutionInfo.CachedRemotely = true })}}, false, false},
		{"cached here, with warnings", []attempt{{1, 1, 1, withStatus("PASSED", func(r *bazel.TestResult) { r.CachedLocally, r.Warning = true, []string{"x"} })}}, false, false},
		{"warnings", []attempt{{1, 1, 1, withStatus("PASSED", func(r *bazel.TestResult) { r.Warning = []string{"x"} })}}, false, false},
	} {
		why := (&outcome{attempts: c.attempts}).uncleanReason(c.remote)
		if (why == "") != c.clean {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

// Options with which nothing is known of what a test sees.
func TestRunAll(t *testing.T) {
	for option, want := range map[string]bool{
		"spawn_strategy=": false, "spawn_strategy=remote,worker,sandboxed,local": false, "spawn_strategy=docker,local": true,
		"strategy=CppCompile=docker": false, "strategy=TestRunner=docker": true, "strategy=TestRunner=linux-sandbox": false,
		"strategy_regexp=Testing.*=docker": true, "test_strategy=exclusive": false,
		"sandbox_add_mount_pair=/a": false, "sandbox_add_mount_pair=/a:/a": false, "sandbox_add_mount_pair=/a:/b": true,
		"experimental_use_hermetic_linux_sandbox=1": true, "experimental_use_hermetic_linux_sandbox=0": false,
		"runs_per_test=1": false, "runs_per_test=2": true,
	} {
		name, value, _ := strings.Cut(option, "=")
		inv := &invocation{Options: &Options{Store: store.OpenDisk(t.TempDir())}}
		inv.options = []bazel.Option{{OptionName: name, OptionValue: value}}
		if why := inv.runAllReason(); (why != "") != want {
			t.Errorf("%s: %q", option, why)
		}
	}
}

// What speaks against a pass, now or later: nothing but a failure.
func TestFailed(t *testing.T) {
	remotely := func(r *bazel.TestResult) { r.ExecutionInfo.Strategy = "remote" }
	for _, c := range []struct {
		name     string
		attempts []*bazel.TestResult
		remote   bool
		want     bool
	}{
		{"failed", []*bazel.TestResult{withStatus("FAILED", nil)}, false, true},
		{"passed", []*bazel.TestResult{withStatus("PASSED", nil)}, false, false},
		{"at the second attempt", []*bazel.TestResult{withStatus("FAILED", nil), withStatus("PASSED", nil)}, false, true},
		{"after a time-out", []*bazel.TestResult{withStatus("TIMEOUT", nil), withStatus("PASSED", nil)}, false, false},
		{"time-out", []*bazel.TestResult{withStatus("TIMEOUT", nil)}, false, false},
		{"incomplete", []*bazel.TestResult{withStatus("INCOMPLETE", nil)}, false, false},
		{"remote failure", []*bazel.TestResult{withStatus("REMOTE_FAILURE", nil)}, false, false},
		{"failed to build", []*bazel.TestResult{withStatus("FAILED_TO_BUILD", nil)}, false, false},
		{"tool stopped", []*bazel.TestResult{withStatus("TOOL_HALTED_BEFORE_TESTING", nil)}, false, false},
		{"not run", nil, false, false},
		{"failed there", []*bazel.TestResult{withStatus("FAILED", remotely)}, true, true},
		{"failed there, and was to run here", []*bazel.TestResult{withStatus("FAILED", remotely)}, false, false},
		{"failed here, and was to run there", []*bazel.TestResult{withStatus("FAILED", nil)}, true, false},
	} {
		o := &outcome{}
		for i, r := range c.attempts {
			o.attempts = append(o.attempts, attempt{1, 1, i + 1, r})
		}
		if got := o.failed(c.remote); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestWithout(t *testing.T) {
	got := without([]string{"test", "--a", "--b=", "--a", "--b=", "--c", "--", "--d"}, []string{"--a", "--b=", "--e"})
	if d := cmp.Diff([]string{"test", "--a", "--b=", "--c", "--", "--d"}, got); d != "" {
		t.Error(d)
	}
}

func TestIsRemote(t *testing.T) {
	for _, c := range []struct {
		d    description
		want bool
	}{
		{description{}, true},
		{description{Tags: []string{"small", "no-remote-cache"}}, true},
		{description{Tags: []string{"no-remote"}}, false},
		{description{Tags: []string{"local"}}, false},
		{description{Tags: []string{"exclusive"}}, false},
		{description{Requirements: map[string]string{"no-remote-exec": "1"}}, false},
	} {
		if got := c.d.isRemote(); got != c.want {
			t.Errorf("%+v: %v", c.d, got)
		}
	}
}

func TestTestlogs(t *testing.T) {
	x := &expansion{invocation: &invocation{execRoot: "/x"}, mnemonics: map[string]string{"1": "k8-opt"}}
	for label, want := range map[string]string{
		"//:t":              "/x/bazel-out/k8-opt/testlogs/t",
		"//a/b:t/u":         "/x/bazel-out/k8-opt/testlogs/a/b/t/u",
		"@@re2~//a:t":       "/x/bazel-out/k8-opt/testlogs/external/re2~/a/t",
		"@@googletest~//:t": "/x/bazel-out/k8-opt/testlogs/external/googletest~/t",
	} {
		if got := filepath.Join(x.testlogs(&target{label: label, config: "1"})); got != want {
			t.Errorf("%s: %s, want %s", label, got, want)
		}
	}
}

func TestWithoutTotal(t *testing.T) {
	for in, want := range map[string]string{
		"": "",
		"out\n\nExecuted 1 out of 2 tests: 1 test passes.\n":                                   "out\n\n",
		"out\nExecuted 1 out of 1 test: 1 test passes.\nThere were tests whose size\n":         "out\n",
		"out\n\nFinished with 1 passing and 0 failing tests up to date, 0 out of date.\n":      "out\n\n",
		"\x1b[0m\x1b[32mExecuted 2 out of 2 tests: x\n":                                        "",
		"Executed 1 out of 2 tests: of a nested Bazel\na\nb\nc\nd\nExecuted 1 out of 1 test\n": "Executed 1 out of 2 tests: of a nested Bazel\na\nb\nc\nd\n",
		"no line end": "no line end",
	} {
		var b bytes.Buffer
		w := withoutTotal(&b)
		for i := range len(in) {
			io.WriteString(w, in[i:i+1])
		}
		w.flush()
		if b.String() != want {
			t.Errorf("%q: %q, want %q", in, b.String(), want)
		}
	}
}

// The summary is Bazel's, with replays marked; the JUnit file has all tests.
func TestReports(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) bazel.File {
		p := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(p), 0o777)
		if err := os.WriteFile(p, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		return bazel.File{Name: filepath.Base(name), URI: "file://" + p}
	}
	recorded := &store.Info{Start: time.Unix(0, 0), End: time.Unix(1, 5e8)}
	suites := []byte(`<testsuites><testsuite name="Gtest.Suite" tests="2"><testcase name="a &lt; b"/></testsuite></testsuites>`)
	failed := withStatus("FAILED", func(r *bazel.TestResult) {
		r.TestActionOutput = []bazel.File{file("f/test.log", "log"), file("f/test.xml", `<testsuite name="a/f" errors="1"><testcase name="x"><error message="m"/></testcase></testsuite>`)}
	})
	slow := withStatus("PASSED", func(r *bazel.TestResult) { r.TestAttemptDuration = "4s" })
	var out, messages bytes.Buffer
	test := func(label string, verdict report.Verdict, o *outcome) result {
		return result{&decision{subject: &subject{target: &target{label: label}}, verdict: verdict}, o}
	}
	hit, skipped := test("//a:hit", report.Hit, nil), test("//a:skipped", report.Other, nil)
	hit.recorded, hit.xml, skipped.skipped = recorded, [][]byte{suites}, true
	inv := &invocation{Options: &Options{Out: &out, Err: &messages, JUnit: filepath.Join(dir, "junit.xml")}, tmp: dir, printing: new(sync.Mutex)}
	s := &summary{decisions: &decisions{analysis: &analysis{expansion: &expansion{invocation: inv, broken: []string{"//b:broken"}}}}, ran: true, results: []result{
		test("//a:f", report.Miss, &outcome{"FAILED", []attempt{{1, 1, 1, failed}}}),
		hit,
		test("//a:pass", report.Other, &outcome{"PASSED", []attempt{{1, 1, 1, withStatus("PASSED", nil)}}}),
		test("//a:shards", report.Other, &outcome{"PASSED", []attempt{{1, 1, 1, withStatus("PASSED", nil)}, {1, 2, 1, slow}}}),
		test("//a:<&>", report.Miss, &outcome{}),
		skipped,
	}}
	rows := map[string]string{
		"": `//a:hit                                                       (replayed) PASSED in 1.5s
//a:pass                                                                 PASSED in 2.0s
//a:shards                                                               PASSED in 4.0s
  Stats over 2 runs: max = 4.0s, min = 2.0s, avg = 3.0s, dev = 1.0s
//a:<&>                                                               NO STATUS
//a:skipped                                                             SKIPPED
//a:f                                                                    FAILED in 2.0s
  DIR/f/test.log
//b:broken                                                      FAILED TO BUILD
`,
		"terse": `//a:f                                                                    FAILED in 2.0s
  DIR/f/test.log
//b:broken                                                      FAILED TO BUILD
`,
		// Bazel prints the others.
		"detailed": "//a:hit                                                       (replayed) PASSED in 1.5s\n",
		"none":     "", "testcase": "",
	}
	rows["short"] = rows[""]
	for mode, want := range rows {
		out.Reset()
		inv.options = []bazel.Option{{OptionName: "test_summary", OptionValue: mode}}
		s.printTests(t.Context())
		want += "\nExecuted 3 out of 7 tests, 1 replayed: 3 tests pass, 1 fails to build, 1 fails locally and 2 were skipped.\nDecided in 0.0s (0.0s CPU). Saved 1.5s of test time.\n"
		if d := cmp.Diff(want, strings.ReplaceAll(out.String(), dir, "DIR")); d != "" {
			t.Errorf("--test_summary=%s (-want +got):\n%s", mode, d)
		}
	}
	out.Reset()
	inv.options = []bazel.Option{{OptionName: "test_summary", OptionValue: "none"}, {OptionName: "check_tests_up_to_date", OptionValue: "1"}}
	s.printTests(t.Context())
	if want := "\nFinished with 3 passing and 2 failing tests up to date, 2 out of date.\n"; out.String() != want {
		t.Errorf("--check_tests_up_to_date: %q, want %q", out.String(), want)
	}
	if err := s.writeJUnit(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(s.JUnit)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Suites []struct {
			Name    string `xml:"name,attr"`
			Verdict string `xml:"tasting,attr"`
			Cases   []struct {
				Name    string    `xml:"name,attr"`
				Error   *struct{} `xml:"error"`
				Failure *struct{} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b, &all); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	var list []string
	for _, x := range all.Suites {
		c := x.Cases[0]
		list = append(list, fmt.Sprintf("%s|%s|%s|%v", x.Name, x.Verdict, c.Name, c.Error != nil || c.Failure != nil))
	}
	if d := cmp.Diff([]string{"//a:f|miss|x|true", "//a:hit.Gtest.Suite|hit|a < b|false", "//a:pass||//a:pass|false", "//a:shards||//a:shards|false", "//a:<&>||//a:<&>|true", "//a:skipped||//a:skipped|false", "//b:broken||//b:broken|true"}, list); d != "" {
		t.Errorf("JUnit (-want +got):\n%s\n%s", d, b)
	}
	if messages.Len() > 0 {
		t.Error(messages.String())
	}
}

// What is asked for beside the tests that are run: the evidence that decided, and
// none for those without a fingerprint.
func TestGroups(t *testing.T) {
	by := func(label string, sources, source bool) *decision {
		return &decision{subject: &subject{target: &target{label: label}, evidence: &evidence{description: &description{Source: source}, sources: sources}}, key: store.Key{1}}
	}
	c, objects, cxx := by("c", true, true), by("objects", false, true), by("c++", true, false)
	sh := &decision{subject: &subject{target: &target{label: "sh"}}}
	for want, tests := range map[string][][]*decision{
		"+tasting_source": {{c}}, "+tasting_test": {{objects}, {cxx}}, "": {{sh}, nil}, "+tasting_source,+tasting_test": {{c, cxx, sh}},
	} {
		for _, l := range tests {
			if got := outputGroups(filter(l, (*decision).hasFingerprint), false); got != want {
				t.Errorf("%s: %q, want %q", labels(l), got, want)
			}
		}
	}
	if got := outputGroups([]*decision{c}, true); got != "+tasting_source,+tasting_test" {
		t.Errorf("traced: %q", got)
	}
}

// TestLinks: links among what actions make count by where they lead, those to directories, too, unless Bazel has made them.
func TestLinks(t *testing.T) {
	base := t.TempDir()
	root, workspace := filepath.Join(base, "execroot", "_main"), t.TempDir()
	d := filepath.Join(root, "bazel-out", "d")
	os.MkdirAll(filepath.Join(d, "s1"), 0o777)
	os.WriteFile(filepath.Join(d, "s1", "f"), nil, 0o666)
	link := func(target string) {
		os.Remove(filepath.Join(d, "l"))
		if err := os.Symlink(target, filepath.Join(d, "l")); err != nil {
			t.Fatal(err)
		}
	}
	test := func(names []string, empty ...string) []fingerprint.Contribution {
		x := &fingerprint.Test{Dir: root, Empty: empty}
		for _, name := range names {
			x.Data = append(x.Data, fingerprint.DataFile{Path: "p/d/" + name, File: filepath.Join(d, name)})
		}
		return symlinks(x, workspace)
	}
	files := []string{"s1/f", "l/f"}
	link("s1")
	if l := test(files); l != nil {
		t.Errorf("files in no directory of one action: %v", l)
	}
	l := test(files, "p/d/")
	link("./s1")
	if again := test(files, "p/d/"); l == nil || slices.Equal(l, again) {
		t.Errorf("%v, and where it leads elsewhere %v", l, again)
	}
	for _, target := range []string{filepath.Join(d, "s1", "f"), filepath.Join(base, "external", "x"), filepath.Join(workspace, "x")} {
		link(target)
		if l := test([]string{"l"}); l != nil {
			t.Errorf("a link of Bazel's to %s: %v", target, l)
		}
	}
	link("/somewhere/x1")
	l = test([]string{"l"})
	link("/somewhere/x2")
	if again := test([]string{"l"}); l == nil || slices.Equal(l, again) {
		t.Errorf("declared to lead to x1 %v, to x2 %v", l, again)
	}
}
