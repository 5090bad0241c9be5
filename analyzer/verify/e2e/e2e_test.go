package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var keep = flag.Bool("keep", false, "keep the Bazel server and its output for the next run of the test")

// A setup is a way of building and running tests that users have.
type setup struct {
	name  string
	flags []string
}

var setups = []setup{
	{"gcc,linux-sandbox", []string{"--repo_env=CC=gcc", "--spawn_strategy=linux-sandbox"}},
	{"clang,processwrapper-sandbox", []string{"--repo_env=CC=clang", "--spawn_strategy=processwrapper-sandbox"}},
}

// support is in every workspace.
const support = `
-- MODULE.bazel --
module(name = "e2e")

bazel_dep(name = "platforms", version = "0.0.10")
bazel_dep(name = "rules_cc", version = "0.0.11")
bazel_dep(name = "rules_tasting", version = "")
local_path_override(module_name = "rules_tasting", path = %q)

register_toolchains("//tasting:all")
-- tasting/BUILD.bazel --
load("@rules_cc//cc:defs.bzl", "cc_library")
load("@rules_tasting//rules:defs.bzl", "tasting_toolchain")

tasting_toolchain(
    name = "prebuilt",
    analyzer = "tasting",
    clang = %q,
)

toolchain(
    name = "toolchain",
    toolchain = ":prebuilt",
    toolchain_type = "@rules_tasting//rules:toolchain_type",
)

cc_library(
    name = "ran",
    hdrs = ["ran.h"],
    visibility = ["//visibility:public"],
)
-- tasting/ran.h --
#ifndef RAN_H
#define RAN_H
#include <stdio.h>
#include <stdlib.h>
/* Says that the program runs, to those who aren't in its sandbox. */
static void ran(const char *name) {
    FILE *f = fopen(getenv("RAN_LOG"), "a");
    if (!f)
        abort();
    fprintf(f, "%%s\n", name);
    fclose(f);
}
#endif
`

func TestMain(m *testing.M) {
	flag.Parse()
	// One workspace and one Bazel for all.
	if err := flag.Set("test.parallel", "1"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// A test of its own for each set-up and group, for Bazel to run in shards.

func TestGCC(t *testing.T)     { runScripts(t, setups[0], both) }
func TestGCCOnce(t *testing.T) { runScripts(t, setups[0], "gcc") }
func TestClang(t *testing.T)   { runScripts(t, setups[1], both) }
func TestOnce(t *testing.T)    { runScripts(t, setups[1], "clang") }
func TestDriver(t *testing.T)  { runScripts(t, setups[1], "driver") }

// runScripts runs the scripts of a group.
func runScripts(t *testing.T, s setup, group string) {
	b := newBazel(t)
	testscript.Run(t, testscript.Params{
		Files:               scripts(t, group),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               func(env *testscript.Env) error { return b.reset(env, s) },
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"bazel":    b.run,
			"ran":      b.ran,
			"spawns":   b.spawns,
			"replace":  replace,
			"checkout": b.checkout,
			"fetch":    b.fetch,
			"check":    b.check,
			"tasting":  b.tasting,
			"recipe":   b.recipe,
			"remote":   b.remote,
			"commit":   b.commit,
			"evaluate": b.evaluate,
			"recorded": b.recorded,
			"corpus":   corpus,
			"runners":  b.runners,
		},
		Condition: func(cond string) (bool, error) {
			if cond == "gcc" || cond == "clang" {
				return strings.HasPrefix(s.name, cond), nil
			}
			return false, fmt.Errorf("unknown condition %s", cond)
		},
	})
}

// once names the scripts in which the compiler makes no difference, with their group: gcc's run with gcc,
// clang's and those of tasting test (driver) with clang, ccache's in TestCcache.
var once = map[string]string{
	"blobs": "gcc", "checkouts": "gcc", "contract": "gcc", "onekey": "gcc", "options": "gcc", "recipe": "gcc", "replay": "gcc", "runfiles": "gcc", "runtime": "gcc", "test_runner": "gcc", "toolchain": "gcc",
	"evaluate": "clang", "explain": "clang", "history": "clang", "traces": "clang", "traces_runner": "clang",
	"ccache": "ccache",
	"cases":  "driver", "driver": "driver", "edges": "driver", "hostile": "driver", "opened": "driver", "remote": "driver", "started": "driver",
}

// both is the group of all others.
const both = "both"

// scripts returns the files of a group's scripts.
func scripts(t *testing.T, group string) []string {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < len(once) {
		t.Fatalf("%d scripts: %v", len(files), err)
	}
	return slices.DeleteFunc(files, func(f string) bool {
		return group != cmp.Or(once[strings.TrimSuffix(filepath.Base(f), ".txtar")], both)
	})
}

// bazel is a Bazel server for one workspace after the other.
type bazel struct {
	program  string
	dir      string // holds everything below
	rules    string // the module rules_tasting
	analyzer string
	clang    string

	setup     setup
	work      string          // the script's directory
	workspace string          // where its files are copied to
	fresh     map[string]bool // workspaces that this script has used
	servers   map[string]bool // workspaces that have a Bazel server
	checked   string          // workspace that has one of tasting check
	engine    string          // address of the script's remote execution, or empty
}

func newBazel(t *testing.T) *bazel {
	t.Helper()
	program, err := exec.LookPath("bazel")
	if err != nil {
		t.Fatalf("%v: the end-to-end tests run a nested Bazel, which has to be called bazel and be in PATH", err)
	}
	clang, err := exec.LookPath("clang")
	if err != nil {
		t.Fatalf("%v: the end-to-end tests need clang in PATH", err)
	}
	b := &bazel{program: program, dir: t.TempDir(), clang: clang, servers: map[string]bool{}}
	if *keep {
		b.dir = filepath.Join(os.TempDir(), "rules_tasting-e2e")
	}
	b.rules, b.analyzer = module(t, b.dir)
	t.Cleanup(func() {
		if *keep {
			return
		}
		for dir := range b.servers {
			b.expunge(t, dir)
		}
		if err := b.removeEvaluation(); err != nil {
			t.Error(err)
		}
		if b.checked != "" {
			b.expunge(t, b.checked, "--output_base="+b.checkBase())
		}
	})
	return b
}

// expunge removes what Bazel built in a workspace.
func (b *bazel) expunge(t *testing.T, workspace string, startup ...string) {
	cmd := exec.Command(b.program, b.startup(append(startup, "clean", "--expunge")...)...)
	cmd.Dir = workspace
	cmd.Env = environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("bazel clean --expunge: %v\n%s", err, out)
	}
}

// module returns the directory of the module rules_tasting and a prebuilt
// analyzer: from runfiles under Bazel, else from the source tree.
func module(t *testing.T, tmp string) (dir, analyzer string) {
	t.Helper()
	if runfiles, ok := os.LookupEnv("TEST_SRCDIR"); ok {
		dir = filepath.Join(runfiles, os.Getenv("TEST_WORKSPACE"))
		analyzer = filepath.Join(runfiles, os.Getenv("E2E_ANALYZER"))
		return dir, analyzer
	}
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	analyzer = filepath.Join(tmp, "tasting")
	cmd := exec.Command("go", "build", "-o", analyzer, "./analyzer/cmd/tasting")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir, analyzer
}

// environ is the environment of the nested Bazel, without what the outer one
// tells its tests.
func environ() []string {
	env := []string{"HOME=" + os.TempDir(), "USER=e2e", "LC_ALL=C.UTF-8"}
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case "PATH", "TMPDIR", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS", "CCACHE_DIR":
			env = append(env, e)
		}
	}
	return env
}

// startup puts Bazel's startup options before a command.
func (b *bazel) startup(args ...string) []string {
	return append([]string{
		"--output_user_root=" + filepath.Join(b.dir, "out"),
		"--max_idle_secs=60",
		"--host_jvm_args=-XX:TieredStopAtLevel=1", // servers don't live long enough for more
		"--nohome_rc",
		"--noworkspace_rc",
	}, args...)
}

// reset makes b ready for a script.
func (b *bazel) reset(env *testscript.Env, s setup) error {
	b.setup = s
	b.work = env.WorkDir
	b.workspace = filepath.Join(b.dir, "workspace")
	b.fresh = map[string]bool{}
	b.engine = ""
	if err := b.removeEvaluation(); err != nil {
		return err
	}
	for _, dir := range []string{"store", "state"} {
		if err := os.RemoveAll(filepath.Join(b.dir, dir)); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(b.dir, dir), 0o777); err != nil {
			return err
		}
	}
	env.Vars = append(environ(), "WORK="+env.WorkDir, "RAN_LOG="+b.ranLog(), "ANALYZER="+b.analyzer, "STORE="+filepath.Join(b.dir, "store"))
	return nil
}

func (b *bazel) ranLog() string  { return filepath.Join(b.dir, "state", "ran") }
func (b *bazel) execLog() string { return filepath.Join(b.dir, "state", "execution.json") }

// supportFiles adds to a script's files what all have.
func (b *bazel) supportFiles() map[string]string {
	files := map[string]string{}
	name := ""
	for line := range strings.Lines(fmt.Sprintf(support, b.rules, b.clang)) {
		if n, ok := strings.CutPrefix(line, "-- "); ok {
			name = strings.TrimSuffix(n, " --\n")
		} else if name != "" {
			files[name] += line
		}
	}
	return files
}

// sync makes the workspace hold the script's files and nothing else, touching
// only what differs.
func (b *bazel) sync() error {
	want := b.supportFiles()
	mode := map[string]fs.FileMode{}
	err := filepath.WalkDir(b.work, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.Name() == ".tmp" {
				return fs.SkipDir
			}
			return err
		}
		rel, err := filepath.Rel(b.work, name)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want[rel] += string(content) // A script's MODULE.bazel extends the common one.
		mode[rel] = info.Mode().Perm()
		return nil
	})
	if err != nil {
		return err
	}
	analyzer, err := os.ReadFile(b.analyzer)
	if err != nil {
		return err
	}
	want["tasting/tasting"] = string(analyzer)
	mode["tasting/tasting"] = 0o755

	if err := os.MkdirAll(b.workspace, 0o777); err != nil {
		return err
	}
	err = filepath.WalkDir(b.workspace, func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.Name() == ".git" {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(b.workspace, name)
		if err != nil {
			return err
		}
		content, ok := want[rel]
		if !ok {
			return os.Remove(name)
		}
		if old, err := os.ReadFile(name); err == nil && string(old) == content {
			delete(want, rel)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for rel, content := range want {
		name := filepath.Join(b.workspace, rel)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			return err
		}
		m := mode[rel]
		if m == 0 {
			m = 0o644
		}
		if err := os.WriteFile(name, []byte(content), m); err != nil {
			return err
		}
		if err := os.Chmod(name, m); err != nil {
			return err
		}
	}
	return nil
}

// flags are those of a build.
func (b *bazel) flags() []string {
	return append(slices.Clone(b.setup.flags),
		"--noenable_workspace",
		"--lockfile_mode=off",
		"--incompatible_strict_action_env",
		"--symlink_prefix=/",
		"--nosandbox_debug",
		"--show_progress=0",
		"--noshow_loading_progress",
		"--execution_log_json_file="+b.execLog(),
		"--test_env=RAN_LOG="+b.ranLog(),
		"--sandbox_writable_path="+filepath.Join(b.dir, "state"),
		"--sandbox_writable_path="+filepath.Join(b.dir, "store"),
	)
}

// prepare makes the workspace ready for a command.
func (b *bazel) prepare(ts *testscript.TestScript) {
	ts.Check(b.sync())
	ts.Check(removeIfExists(b.execLog()))
	b.servers[b.workspace] = true
	if !b.fresh[b.workspace] {
		// No script inherits outputs from another.
		b.fresh[b.workspace] = true
		cmd := exec.Command(b.program, b.startup("clean")...)
		cmd.Dir = b.workspace
		cmd.Env = environ()
		if out, err := cmd.CombinedOutput(); err != nil {
			ts.Fatalf("bazel clean: %v\n%s", err, out)
		}
	}
}

// tasting is the command tasting.
func (b *bazel) tasting(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 || args[0] != "test" {
		ts.Fatalf("usage: tasting test [ARGS...]")
	}
	b.prepare(ts)
	command := append([]string{"-C", b.workspace, b.analyzer, "test", "--audit=0", "--store=" + filepath.Join(b.dir, "store")}, b.driverFlags()...)
	err := ts.Exec("env", append(command, args[1:]...)...)
	if err != nil && !neg {
		ts.Fatalf("tasting %s: %v", strings.Join(args, " "), err)
	}
	if err == nil && neg {
		ts.Fatalf("tasting %s: succeeded unexpectedly", strings.Join(args, " "))
	}
}

// driverFlags are those of tasting test.
func (b *bazel) driverFlags() []string {
	flags := []string{"--bazel=" + b.program}
	for _, o := range b.startup() {
		flags = append(flags, "--bazel_startup="+o)
	}
	flags = append(flags, b.flags()...)
	if b.engine != "" {
		flags = append(flags, b.remoteFlags()...)
	}
	return flags
}

// recipe is the command recipe.
func (b *bazel) recipe(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: recipe KIND [TARGET...]")
	}
	b.prepare(ts)
	flags := b.driverFlags()
	if args[0] != "nightly" {
		flags = append(flags, "--audit=0") // else one replay of a hundred is an execution
	}
	ts.Check(ts.Exec("env", append([]string{
		"-C", b.workspace, "TASTING=" + b.analyzer, "TASTING_STORE=" + filepath.Join(b.dir, "store"),
		"TASTING_FLAGS=" + strings.Join(flags, " "), "TASTING_OUT=" + ts.MkAbs(".tmp/ci"),
		"sh", filepath.Join(b.rules, "docs/ci/tasting.sh"),
	}, args...)...))
}

// run is the command bazel.
func (b *bazel) run(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: bazel COMMAND [ARGS...]")
	}
	b.prepare(ts)
	command := b.startup(args[0])
	switch args[0] {
	case "build", "test", "coverage", "run":
		command = append(command, b.flags()...)
		if b.engine != "" {
			command = append(command, b.remoteFlags()...)
		}
		command = append(command, "--test_output=all", "--@rules_tasting//rules:store="+filepath.Join(b.dir, "store"))
	}
	command = append(command, args[1:]...)
	// In the workspace, wherever the script is.
	err := ts.Exec("env", append([]string{"-C", b.workspace, b.program}, command...)...)
	if err != nil && !neg {
		ts.Fatalf("bazel %s: %v", strings.Join(args, " "), err)
	}
	if err == nil && neg {
		ts.Fatalf("bazel %s: succeeded unexpectedly", strings.Join(args, " "))
	}
}

func (b *bazel) checkBase() string { return filepath.Join(b.dir, "check") }

// check is the command check.
func (b *bazel) check(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(b.sync())
	b.checked = b.workspace
	program := filepath.Join(b.dir, "bazel.sh")
	ts.Check(os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\nexec '%s' \"$@\"\n", strings.Join(append([]string{b.program}, b.startup()...), "' '")), 0o777))
	command := []string{"-C", b.workspace, b.analyzer, "check", "workspace", "--bazel=" + program, "--output-base=" + b.checkBase()}
	for _, f := range append([]string{"--noenable_workspace", "--lockfile_mode=off", "--incompatible_strict_action_env"}, b.setup.flags...) {
		command = append(command, "--bazel-flag="+f)
	}
	err := ts.Exec("env", append(command, args...)...)
	if err != nil && !neg {
		ts.Fatalf("check %s: %v", strings.Join(args, " "), err)
	}
	if err == nil && neg {
		ts.Fatalf("check %s: succeeded unexpectedly", strings.Join(args, " "))
	}
}

// ran is the command ran.
func (b *bazel) ran(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! ran")
	}
	content, err := os.ReadFile(b.ranLog())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		ts.Fatalf("%v", err)
	}
	ts.Check(removeIfExists(b.ranLog()))
	got := strings.Fields(string(content))
	slices.Sort(got)
	want := slices.Sorted(slices.Values(args))
	if !slices.Equal(got, want) {
		ts.Fatalf("programs that ran: %v, want %v", got, want)
	}
}

// spawns is the command spawns.
func (b *bazel) spawns(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! spawns")
	}
	got, err := countSpawns(b.execLog())
	ts.Check(err)
	for _, arg := range args {
		mnemonic, count, _ := strings.Cut(arg, "=")
		want, err := strconv.Atoi(count)
		if err != nil {
			ts.Fatalf("usage: spawns MNEMONIC=N...")
		}
		if got[mnemonic] != want {
			ts.Fatalf("%d actions %s ran, want %d (all: %v)", got[mnemonic], mnemonic, want, got)
		}
	}
}

// countSpawns counts the actions in an execution log by mnemonic.
func countSpawns(log string) (map[string]int, error) {
	spawns, err := readSpawns(log)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, s := range spawns {
		// Bazel's second half of a test: it makes test.xml of test.log.
		xml := len(s.CommandArgs) > 0 && strings.HasSuffix(s.CommandArgs[0], "generate-xml.sh")
		if !s.CacheHit && !xml {
			counts[s.Mnemonic]++
		}
	}
	return counts, nil
}

// spawn is a process in an execution log.
type spawn struct {
	CommandArgs []string
	Mnemonic    string
	TargetLabel string
	CacheHit    bool
	Runner      string
}

func readSpawns(log string) ([]spawn, error) {
	content, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	var spawns []spawn
	decoder := json.NewDecoder(bytes.NewReader(content))
	for {
		var s spawn
		if err := decoder.Decode(&s); err == io.EOF {
			return spawns, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", log, err)
		}
		spawns = append(spawns, s)
	}
}

// checkout is the command checkout.
func (b *bazel) checkout(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: checkout DIR")
	}
	b.workspace = filepath.Join(b.dir, args[0], "workspace")
}

// fetch is the command fetch.
func (b *bazel) fetch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: fetch OUTPUT NAME")
	}
	key, file := "bazel-bin", args[0]
	if f, ok := strings.CutPrefix(file, "testlogs/"); ok {
		key, file = "bazel-testlogs", f
	}
	cmd := exec.Command(b.program, b.startup("info", key, "--noenable_workspace", "--lockfile_mode=off")...)
	cmd.Dir = b.workspace
	cmd.Env = environ()
	dir, err := cmd.Output()
	ts.Check(err)
	content, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), file))
	ts.Check(err)
	name := filepath.Join(b.work, ".tmp", args[1])
	ts.Check(os.MkdirAll(filepath.Dir(name), 0o777))
	ts.Check(os.WriteFile(name, content, 0o666))
}

// replace is the command replace.
func replace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: replace FILE OLD NEW")
	}
	name := ts.MkAbs(args[0])
	content, err := os.ReadFile(name)
	ts.Check(err)
	if n := strings.Count(string(content), args[1]); n != 1 {
		ts.Fatalf("%s: %q occurs %d times, want once", args[0], args[1], n)
	}
	ts.Check(os.WriteFile(name, []byte(strings.Replace(string(content), args[1], args[2], 1)), 0o644))
}

// corpus is the command corpus: it puts the sources of a corpus, without BUILD files, into a directory of the script.
func corpus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: corpus NAME@VERSION DIRECTORY")
	}
	dir := ts.MkAbs(args[1])
	// From the directory of this test.
	script, err := filepath.Abs("../../../tools/corpus/fetch.sh")
	ts.Check(err)
	out, err := exec.Command(script, args[0], dir).CombinedOutput()
	if err != nil {
		ts.Fatalf("%v\n%s", err, out)
	}
	ts.Check(filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && slices.Contains([]string{"BUILD", "BUILD.bazel", "MODULE.bazel", "WORKSPACE"}, e.Name()) {
			err = os.Remove(name)
		}
		return err
	}))
}

func removeIfExists(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
