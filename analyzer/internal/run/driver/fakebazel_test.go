package driver

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
	"google.golang.org/protobuf/encoding/protowire"
)

// The test binary plays Bazel, too, if it has that name: for a workspace with one test //:t, which is
// compiled from t.c, linked with lib.a and reads data.txt. The program prints what it was
// made from and what it reads, and passes.
//
// Like Bazel it looks at files when an invocation begins, and runs an action again
// if they aren't what they were; the action reads them when it runs. Between any
// two steps a scenario can do something: the hooks.

func init() {
	if dir, name := filepath.Split(os.Args[0]); name == "bazel" && len(os.Args) > 1 {
		os.Exit(fakeBazel(filepath.Clean(dir), os.Args[1:]))
	}
}

// A scenario is what a fake does.
type scenario struct {
	// Hooks are commands of a shell, run in the workspace before a step of an
	// invocation: "expand", "analyse", "run", "audit", or "INVOCATION STEP" with
	// the steps preprocess, compile, test, end, and after, when another command may begin.
	Hooks map[string]string
	// Source has manifests made of sources.
	Source bool
	// Idle are functions that tests don't enter, if they are traced; "lib" is what there is in the archive.
	Idle []string
	// Attempts are the statuses of a test's attempts; none: it passes.
	Attempts []string
	// Status is the overall one, if it isn't that of the last attempt.
	Status string
	// NoAspect says that the aspect can't be loaded, NotBuilt that a compilation
	// fails.
	NoAspect, NotBuilt bool
	// Failed is the mnemonic of what fails, FailedConfig its configuration, if it isn't a compilation of the
	// test's own.
	Failed, FailedConfig string
	// OtherNotBuilt says that a compilation of another target fails, Interrupted that the
	// user stops the invocation when the test has run.
	OtherNotBuilt, Interrupted bool
	// Silent says that nothing is said of how a test ended.
	Silent bool
	// Cached says that Bazel has kept a pass, until it is told not to take it.
	Cached bool
	Env    map[string]string // of the rule
	// Aborted says that another target can't be analysed, OtherBroken that the aspect
	// can't be applied to it.
	Aborted, OtherBroken bool
	// Config is the ID of the test's configuration, and Release the version, if they
	// aren't the usual ones.
	Config, Release string
	// Policy is a flag that Bazel has from elsewhere, Added one that a client has.
	Policy, Added string
	// NeedsCache says that there is an option that is wrong without --remote_cache.
	NeedsCache bool
}

type fake struct {
	dir string
	scenario
	name   string            // of the invocation
	flags  map[string]string // the last of each
	args   []string
	events []string
	// bazelrcs are those of the command line.
	bazelrcs []string
}

func fakeBazel(dir string, args []string) int {
	f := &fake{dir: dir, flags: map[string]string{}}
	b, err := os.ReadFile(filepath.Join(dir, "scenario.json"))
	if err == nil {
		err = json.Unmarshal(b, &f.scenario)
	}
	must(err)
	for strings.HasPrefix(args[0], "--") {
		if file, ok := strings.CutPrefix(args[0], "--bazelrc="); ok {
			f.bazelrcs = append(f.bazelrcs, file)
		}
		args = args[1:] // startup options
	}
	command := args[0]
	f.args = args
	if f.Added != "" {
		f.args = append(args[:1:1], append([]string{f.Added}, args[1:]...)...)
	}
	for _, a := range args[1:] {
		if a == "--" {
			break
		}
		name, value, _ := strings.Cut(a, "=")
		f.flags[strings.TrimPrefix(name, "--")] = value
	}
	code := 0
	switch _, nobuild := f.flags["nobuild"]; {
	case command == "help":
		f.help()
		return 0
	case command == "cquery":
		f.name = "query"
		must(f.note())
		f.query()
		if name := f.flags["build_event_json_file"]; name != "" {
			must(os.WriteFile(name, []byte("of a query"), 0o666))
		}
		return 0
	case nobuild && command == "build":
		f.name = "load"
		f.hook("")
	case nobuild:
		f.name = "expand"
		f.expand()
	case command == "build" && f.flags["aspects"] != "":
		f.name = "analyse"
		code = f.build()
	case command == "build":
		f.name = "nothing"
	default:
		f.name = strings.TrimSuffix(filepath.Base(f.flags["target_pattern_file"]), ".json")
		code = f.build()
	}
	must(f.note())
	if f.name == "expand" && f.NeedsCache && f.flags["remote_cache"] == "" {
		return bazel.ExitUsage
	}
	f.event(`{"id":{"buildFinished":{}},"finished":{"exitCode":{"name":"SUCCESS"},"finishTime":%s}}`, quoted(time.Now()))
	f.hook("after")
	if name := f.flags["build_event_json_file"]; name != "" {
		must(os.WriteFile(name, []byte(strings.Join(f.events, "\n")+"\n"), 0o666))
	}
	for _, flag := range []string{"build_event_text_file", "build_event_binary_file", "profile", "bes_backend"} {
		if name := f.flags[flag]; name != "" {
			must(os.WriteFile(name, []byte(f.name), 0o666))
		}
	}
	return code
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// note writes down what caches and uploads the command has.
func (f *fake) note() error {
	log, err := os.OpenFile(filepath.Join(f.dir, "caches"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "%s: cache %q, upload %q\n", f.name, f.flags["remote_cache"], f.flags["experimental_build_event_upload_strategy"])
	return log.Close()
}

func (f *fake) hook(step string) {
	name := strings.TrimSpace(f.name + " " + step)
	if h := f.Hooks[name]; h != "" {
		c := exec.Command("sh", "-ec", h)
		c.Dir = filepath.Join(f.dir, "ws")
		out, err := c.CombinedOutput()
		if err != nil {
			panic(fmt.Sprintf("hook %s: %v\n%s", name, err, out))
		}
	}
}

func (f *fake) event(format string, args ...any) {
	f.events = append(f.events, fmt.Sprintf(format, args...))
}

func quoted(x any) string {
	b, err := json.Marshal(x)
	must(err)
	return string(b)
}

func (f *fake) help() {
	var raw []byte
	for _, name := range []string{"build_event_json_file", "build_event_text_file", "build_event_binary_file", "profile", "bes_backend", "test_env", "target_pattern_file", "cache_test_results", "run_under", "remote_cache", "experimental_build_event_upload_strategy"} {
		var b []byte
		b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), name)
		for _, c := range []string{"build", "test", "cquery"} {
			b = protowire.AppendString(protowire.AppendTag(b, 4, protowire.BytesType), c)
		}
		b = protowire.AppendVarint(protowire.AppendTag(b, 10, protowire.VarintType), 1)
		raw = protowire.AppendBytes(protowire.AppendTag(raw, 1, protowire.BytesType), b)
	}
	fmt.Println(base64.StdEncoding.EncodeToString(raw))
}

func (f *fake) execRoot() string        { return filepath.Join(f.dir, "out", "execroot", "_main") }
func (f *fake) path(name string) string { return filepath.Join(f.dir, "ws", name) }
func (f *fake) output(name string) string {
	return filepath.Join(f.execRoot(), "bazel-out/k8/bin", name)
}

// options are the effective ones.
func (f *fake) options() {
	var l []map[string]any
	for _, a := range append(f.args[1:], f.Policy) {
		if a == "--nobuild" {
			l = append(l, map[string]any{"combinedForm": a, "optionName": "build", "optionValue": "0"})
		}
		if name, value, ok := strings.Cut(strings.TrimPrefix(a, "--"), "="); ok && strings.HasPrefix(a, "--") {
			if last, ok := f.flags[name]; ok && name != "test_env" && last != value {
				continue // it is said again
			}
			l = append(l, map[string]any{"combinedForm": a, "optionName": name, "optionValue": value})
		}
	}
	for _, name := range []string{"FAKE_VARIABLE", "PATH"} {
		l = append(l, map[string]any{"optionName": "client_env", "optionValue": name + "=" + os.Getenv(name), "metadataTags": []string{"HIDDEN"}})
	}
	f.event(`{"id":{"structuredCommandLine":{"commandLineLabel":"canonical"}},"structuredCommandLine":{"sections":[{"sectionLabel":"command options","optionList":{"option":%s}}]}}`, quoted(l))
}

func (f *fake) expand() {
	f.hook("")
	f.found()
}

// found says which tests there are, and by which files and flags.
func (f *fake) found() {
	f.event(`{"id":{"started":{}},"started":{"buildToolVersion":%q}}`, cmp.Or(f.Release, "7.7.1"))
	f.event(`{"id":{"unstructuredCommandLine":{}},"unstructuredCommandLine":{"args":%s}}`, quoted(append(slices.Clone(f.args), f.rcs()...)))
	f.options()
	f.event(`{"id":{"workspace":{}},"workspaceInfo":{"localExecRoot":%s}}`, quoted(f.execRoot()))
	config := cmp.Or(f.Config, "c")
	f.event(`{"id":{"configuration":{"id":%q}},"configuration":{"mnemonic":"k8"}}`, config)
	if f.Aborted || f.OtherBroken && f.name == "analyse" {
		f.event(`{"id":{"targetCompleted":{"label":"//:other","configuration":{"id":%q}}},"aborted":{"reason":"ANALYSIS_FAILURE"}}`, config)
	}
	f.event(`{"id":{"targetConfigured":{"label":"//:t","aspect":"a"}},"configured":{"targetKind":"cc_test rule","testSize":"MEDIUM"}}`)
	f.event(`{"id":{"targetConfigured":{"label":"//:t"}},"children":[{"targetCompleted":{"label":"//:t","aspect":"a","configuration":{"id":"d"}}},{"targetCompleted":{"label":"//:t","configuration":{"id":%q}}}],"configured":{"targetKind":"cc_test rule","testSize":"MEDIUM"}}`, config)
}

// rcs are the arguments by which a client tells the server about bazelrc files: that of
// the workspace, which says things for "test" line by line, and those of --bazelrc.
func (f *fake) rcs() []string {
	args := []string{"--rc_source=client", "--default_override=0:common=--isatty=0"}
	for i, file := range append([]string{f.path(".bazelrc")}, f.bazelrcs...) {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		args = append(args, "--rc_source="+file)
		for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
			if command, flag, ok := strings.Cut(line, " "); ok {
				args = append(args, fmt.Sprintf("--default_override=%d:%s=%s", i+1, command, strings.Trim(flag, "'")))
			}
		}
	}
	return args
}

// action returns what an action makes of an input: what it made before, if the
// input has the digest that it had, else its content now.
func (f *fake) action(name, digest string, read func() string) string {
	cache := filepath.Join(f.dir, "cache", name+"-"+digest)
	if b, err := os.ReadFile(cache); err == nil {
		return string(b)
	}
	f.hook(name)
	out := read()
	must(os.MkdirAll(filepath.Dir(cache), 0o777))
	must(os.WriteFile(cache, []byte(out), 0o666))
	return out
}

func (f *fake) read(name string) string {
	b, err := os.ReadFile(f.path(name))
	must(err)
	return strings.TrimSpace(string(b))
}

// build is an invocation with the aspect; one of "test" then runs the test.
func (f *fake) build() int {
	f.hook("")
	f.found()
	fails := func(message string) {
		if f.flags["ui_event_filters"] != "-error" {
			fmt.Fprintln(os.Stderr, "ERROR: "+message)
		}
	}
	if f.NoAspect && f.flags["aspects"] != "" {
		fails("No repository visible as '@rules_tasting' from main repository")
		return 1
	}
	if f.NotBuilt {
		fails("t.c:1: it doesn't compile")
		f.event(`{"id":{"configuration":{"id":"trimmed"}},"configuration":{"mnemonic":"k8"}}`)
		f.event(`{"id":{"actionCompleted":{"label":"//:t","configuration":{"id":%q}}},"action":{"exitCode":1,"type":%q}}`, cmp.Or(f.FailedConfig, f.Config, "c"), cmp.Or(f.Failed, "CppCompile"))
		if f.flags["aspects"] != "" {
			f.event(`{"id":{"targetCompleted":{"label":"//:t","aspect":"a","configuration":{"id":"c"}}},"completed":{}}`)
		}
		f.event(`{"id":{"targetCompleted":{"label":"//:t","configuration":{"id":"c"}}},"completed":{}}`)
		return 1
	}
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(f.read("t.c"))))
	source := func() string { return f.read("t.c") }
	text, object := "", ""
	if f.Source {
		text = f.action("preprocess", digest, source)
	}
	if !f.Source || f.name != "analyse" {
		object = f.action("compile", digest, source)
	}
	if !f.Source {
		text = object
	}
	// One action reads the archive for its manifest, another one links it.
	archive := fmt.Sprintf("%x", sha256.Sum256([]byte(f.read("lib.a"))))
	library := f.action("read", archive, func() string { return f.read("lib.a") })
	if f.name != "analyse" {
		object += " " + f.action("link", digest+archive, func() string { return f.read("lib.a") })
	}
	if _, going := f.flags["keep_going"]; f.OtherNotBuilt && !going && f.name != "analyse" && f.flags["aspects"] != "" {
		fmt.Fprintln(os.Stderr, "ERROR: other.c:1: it doesn't compile")
		return 1
	}
	f.aspect(text, library)
	code := 0
	if f.name != "analyse" {
		code = f.test(object)
	}
	if f.OtherNotBuilt && code == 0 {
		code = 1
	}
	f.hook("end")
	return code
}

// aspect makes the files of the aspect, with manifests that have text as the hash of
// main, and library as that of what is in the archive.
func (f *fake) aspect(text, library string) {
	must(os.MkdirAll(f.output(""), 0o777))
	write := func(name, file, symbol, text, entry string, calls ...string) {
		hash := sha256.Sum256([]byte(text))
		var links []uint32
		for i := range calls {
			links = append(links, uint32(2*i+1))
		}
		must(manifest.Write(f.output(name), &manifest.Manifest{
			Format: manifest.Format, Rung: manifest.Rung_RUNG_FUNCTION, Source: file, Units: []*manifest.Unit{{Name: file, Exact: true}}, Symbols: calls,
			Components: []*manifest.Component{{Name: symbol, Kind: manifest.Kind_KIND_FUNCTION, Linkage: manifest.Linkage_LINKAGE_EXTERNAL, LocalHash: hash[:16], Entries: []string{entry}, Links: links,
				Definitions: manifest.NewDefinitions(manifest.Binding_BINDING_GLOBAL, symbol)}},
		}))
	}
	write("t.manifest", "t.c", "main", text, "", "lib")
	write("lib.manifest", "lib.a", "lib", library, "lib")
	must(os.WriteFile(f.output("t.compose"), []byte("--binary=_main/t\n--data=_main/data.txt=data.txt\n--data=_main/cur.txt=cur.txt\n--data=_main/dir/file=dir/file\n--data=_main/made.txt=bazel-out/k8/bin/made.txt\n--link=bazel-out/k8/bin/t.link\n"), 0o666))
	must(os.WriteFile(f.output("t.link"), []byte("tasting link 1\noutput t\nkind executable\nunit t.o\tbazel-out/k8/bin/t.manifest\nunit lib.a\tbazel-out/k8/bin/lib.manifest\narg t.o\narg -Wl,--whole-archive\narg lib.a\n"), 0o666))
	must(os.WriteFile(f.output("made.txt"), []byte("made"), 0o666))
	must(os.WriteFile(f.output("t"+descriptionSuffix), []byte(quoted(description{
		Compose: "bazel-out/k8/bin/t.compose", Source: f.Source, Linker: filepath.Join(f.dir, "cc"), Env: f.Env,
	})), 0o666))
	f.event(`{"id":{"namedSet":{"id":"0"}},"namedSetOfFiles":{"files":[{"name":"t%s","uri":%s}]}}`, descriptionSuffix, quoted("file://"+f.output("t"+descriptionSuffix)))
	for group := range strings.SplitSeq(f.flags["output_groups"], ",") {
		f.event(`{"id":{"targetCompleted":{"label":"//:t","aspect":"a","configuration":{"id":%q}}},"completed":{"success":true,"outputGroup":[{"name":%q,"fileSets":[{"id":"0"}]}]}}`,
			cmp.Or(f.Config, "c"), strings.TrimPrefix(group, "+"))
	}
}

func (f *fake) test(object string) int {
	_, fresh := f.flags["nocache_test_results"]
	fresh = fresh || f.flags["cache_test_results"] == "0"
	if f.flags["check_tests_up_to_date"] == "1" {
		fmt.Fprintln(os.Stderr, "ERROR: action 'Testing //:t' is not up-to-date")
		return 1
	}
	if f.Cached && !fresh {
		log := filepath.Join(f.execRoot(), "bazel-out/k8/testlogs/t/test.log")
		f.event(`{"id":{"testResult":{"label":"//:t","run":1,"shard":1,"attempt":1}},"testResult":{"status":"PASSED","cachedLocally":true,"testAttemptStart":"2026-01-02T03:04:05Z","testAttemptDuration":"1s","testActionOutput":[{"name":"test.log","uri":%s}]}}`, quoted("file://"+log))
		f.event(`{"id":{"testSummary":{"label":"//:t"}},"testSummary":{"overallStatus":"PASSED"}}`)
		return 0
	}
	f.hook("test")
	if f.Silent {
		return 0
	}
	attempts := f.Attempts
	if len(attempts) == 0 {
		attempts = []string{"PASSED"}
	}
	logs := filepath.Join(f.execRoot(), "bazel-out/k8/testlogs/t")
	must(os.MkdirAll(logs, 0o777))
	log := filepath.Join(logs, "test.log")
	must(os.RemoveAll(log))
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	status := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	status = protowire.AppendVarint(protowire.AppendTag(status, 15, protowire.VarintType), uint64(start.UnixMilli()))
	must(os.WriteFile(filepath.Join(logs, bazel.StatusFile), status, 0o666))
	must(os.WriteFile(log, fmt.Appendf(nil, "ran %s with %s\n", object, f.read("data.txt")), 0o666))
	files := fmt.Sprintf(`[{"name":"test.log","uri":%s}]`, quoted("file://"+log))
	outputs := filepath.Join(logs, "test.outputs")
	if b, err := os.ReadFile(filepath.Join(outputs, "d", "out.txt")); err == nil && string(b) != "theirs" {
		files = fmt.Sprintf(`[{"name":"test.log","uri":%s},{"name":"test.outputs__d","uri":%s}]`, quoted("file://"+log), quoted("file://"+filepath.Join(outputs, "d", "out.txt")))
	}
	idle := filepath.Join(logs, trace.IdleFile)
	must(os.RemoveAll(filepath.Dir(idle)))
	if run := strings.Split(f.flags["run_under"], " --only="); len(run) == 2 && f.Idle != nil {
		if wanted, err := trace.FindWanted(strings.TrimSuffix(run[1], " --"), "//:t"); err == nil {
			if len(wanted.Entered) > 0 {
				must(os.WriteFile(filepath.Join(f.dir, "spared"), nil, 0o666))
			}
			names := map[string]bool{}
			for _, name := range f.Idle {
				names[name] = true
			}
			b, err := trace.EncodeIdle(names, nil)
			must(err)
			must(os.MkdirAll(filepath.Dir(idle), 0o777))
			must(os.WriteFile(idle, b, 0o666))
			files = strings.TrimSuffix(files, "]") + fmt.Sprintf(`,{"name":"test.splitlogs","uri":%s}]`, quoted("file://"+idle))
		}
	}
	for i, status := range attempts {
		f.event(`{"id":{"testResult":{"label":"//:t","run":1,"shard":1,"attempt":%d}},"testResult":{"status":%q,"testAttemptStart":%q,"testAttemptDuration":"1s","testActionOutput":%s,"executionInfo":{"strategy":"local"}}}`, i+1, status, start.Format(time.RFC3339), files)
	}
	last := attempts[len(attempts)-1]
	overall := last
	if f.Status != "" {
		overall = f.Status
	}
	f.event(`{"id":{"testSummary":{"label":"//:t"}},"testSummary":{"overallStatus":%q}}`, overall)
	switch {
	case f.Interrupted:
		return 8
	case last != "PASSED":
		return 3
	}
	return 0
}

// query answers which sources there are, or which tests depend on some.
func (f *fake) query() {
	b, err := os.ReadFile(f.flags["query_file"])
	must(err)
	if strings.Contains(string(b), "rdeps(") {
		if strings.Contains(string(b), `"//:t.c"`) {
			fmt.Println("//:t (c)")
		}
		return
	}
	var l []string
	for _, name := range []string{"t.c", "unused.h"} {
		l = append(l, fmt.Sprintf(`{"target":{"type":"SOURCE_FILE","sourceFile":{"name":"//:%s","location":%s}}}`, name, quoted(f.path(name)+":1:1")))
	}
	fmt.Printf(`{"results":[%s]}`, strings.Join(l, ","))
}
