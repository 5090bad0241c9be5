package runner_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/runner"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// The test binary plays three parts. Started as a link with a configuration
// beside it, it is the runner; started as "real", it is the real test, whose
// arguments say what it does; otherwise it runs the tests.
// It decides before main, where Bazel's test wrapper would act on the variables
// of sharding that are meant for the stand-in.
func init() {
	if filepath.Base(os.Args[0]) == "real" {
		os.Exit(realTest(os.Args[1:]))
	}
	if path, ok := runner.Configured(os.Args[0], os.Getenv); ok && filepath.Base(path) == "t" {
		os.Exit(runner.Main(&runner.Test{
			Path: path, Args: os.Args[1:], Env: os.Environ(), Asked: os.Getenv("ASKED") != "",
			Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		}))
	}
}

// realTest executes one step per argument and counts its executions in the file
// that the working directory's count names.
func realTest(steps []string) int {
	f, err := os.OpenFile("../../count", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		panic(err)
	}
	f.WriteString("x")
	f.Close()
	for _, s := range steps {
		verb, arg, _ := strings.Cut(s, "=")
		switch verb {
		case "out":
			fmt.Println(arg)
		case "err":
			fmt.Fprintln(os.Stderr, arg)
		case "raw":
			os.Stdout.WriteString("no newline \x00\xff\r")
		case "big":
			os.Stdout.Write(bytes.Repeat([]byte("0123456789abcde\n"), 3<<16))
		case "args":
			fmt.Printf("%q\n", steps)
		case "env":
			fmt.Printf("%s=%q\n", arg, os.Getenv(arg))
		case "cat":
			b, _ := os.ReadFile("/dev/stdin")
			fmt.Printf("stdin %q\n", b)
		case "write": // write=VARIABLE:name: a file in a directory, or the file itself
			v, name, _ := strings.Cut(arg, ":")
			p := filepath.Join(os.Getenv(v), name)
			if name == "" {
				p = os.Getenv(v)
			}
			os.MkdirAll(filepath.Dir(p), 0o777)
			if err := os.WriteFile(p, []byte("content of "+arg), 0o777); err != nil {
				panic(err)
			}
		case "link":
			os.Symlink("/etc/passwd", filepath.Join(os.Getenv("TEST_UNDECLARED_OUTPUTS_DIR"), "link"))
		case "emptydir":
			os.Mkdir(filepath.Join(os.Getenv("TEST_UNDECLARED_OUTPUTS_DIR"), "empty"), 0o777)
		case "exit":
			n := 0
			fmt.Sscan(arg, &n)
			return n
		case "sleep":
			d, _ := time.ParseDuration(arg)
			time.Sleep(d)
		case "orphan": // leaves a process behind that holds the output open, as long as a file exists
			c := exec.Command("sh", "-c", `while [ -e "$0" ]; do sleep 0.1; done`, arg)
			c.Stdout, c.Stderr = os.Stdout, os.Stderr
			if err := c.Start(); err != nil {
				panic(err)
			}
		case "handle": // survives a signal, reports it
			c := make(chan os.Signal, 1)
			signal.Notify(c, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGINT)
			fmt.Println("ready")
			fmt.Println("got", <-c)
			signal.Reset()
		case "pid":
			fmt.Println("pid", os.Getpid())
		default:
			panic("step " + s)
		}
	}
	return 0
}

// harness is a test as Bazel has built it, and a store.
type harness struct {
	t      testing.TB
	dir    string // has t, t.tasting, t.runfiles
	store  string
	config fingerprint.Config
	env    []string
}

func newHarness(t testing.TB) *harness {
	h := &harness{t: t, dir: t.TempDir(), config: fingerprint.Config{
		Format: fingerprint.ConfigFormat,
		Code:   strings.Repeat("ab", 32),
		Binary: "_main/real",
	}}
	h.store = filepath.Join(h.dir, "store")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(h.dir, "t.runfiles", "_main")
	for _, err := range []error{
		os.MkdirAll(run, 0o777),
		os.Symlink(exe, filepath.Join(run, "real")),
		os.Symlink(exe, filepath.Join(h.dir, "t")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	h.env = []string{"BAZEL_TEST=1", "TASTING_STORE=" + h.store, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "PWD=/"}
	h.configure()
	return h
}

func (h *harness) configure() {
	h.t.Helper()
	if err := fingerprint.WriteConfig(filepath.Join(h.dir, "t.tasting"), &h.config); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) cmd(args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(h.dir, "t"), args...)
	c.Dir = filepath.Join(h.dir, "t.runfiles", "_main")
	c.Env = h.env
	return c
}

// executions tells how often the real test has been executed.
func (h *harness) executions() int {
	b, err := os.ReadFile(filepath.Join(h.dir, "count"))
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	return len(b)
}

// outcome is what a run looked like from outside.
type outcome struct {
	said   string // the runner's own lines
	log    string // everything else
	code   int
	signal syscall.Signal
	runs   int // executions of the real test
}

var saidLine = regexp.MustCompile(`(?m)^tasting: (.*)\n`)

func (h *harness) run(args ...string) outcome {
	h.t.Helper()
	return h.finish(h.cmd(args...))
}

// finish runs c with one pipe for both streams, as Bazel does.
func (h *harness) finish(c *exec.Cmd) outcome {
	h.t.Helper()
	before := h.executions()
	var log bytes.Buffer
	c.Stdout, c.Stderr = &log, &log
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	o := outcome{runs: h.executions() - before}
	ws := c.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		o.signal = ws.Signal()
		if ws.CoreDump() {
			h.t.Error("the runner dumped core")
		}
	} else {
		o.code = ws.ExitStatus()
	}
	o.log = log.String()
	for _, m := range saidLine.FindAllStringSubmatch(o.log, -1) {
		o.said += m[1] + "\n"
	}
	o.log = saidLine.ReplaceAllString(o.log, "")
	return o
}

// hit, miss and always check the verdict of a run.
func (o outcome) verdict() string {
	first, _, _ := strings.Cut(o.said, "\n")
	switch {
	case strings.HasPrefix(first, "replayed result of fingerprint ") && o.runs == 0:
		return "hit"
	case strings.HasPrefix(first, "always run: ") && o.runs == 1:
		return "always"
	case strings.HasSuffix(first, "; running") && o.runs == 1:
		return "miss"
	}
	return fmt.Sprintf("unclear: %d executions, %q", o.runs, first)
}

func (h *harness) want(verdict string, o outcome) outcome {
	h.t.Helper()
	if got := o.verdict(); got != verdict {
		h.t.Fatalf("verdict %s, want %s\n%s%s", got, verdict, o.said, o.log)
	}
	return o
}

// entries counts what is recorded.
func (h *harness) entries() int {
	h.t.Helper()
	s, err := store.OpenDisk(h.store).Stat(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return s.Entries
}

func TestReplay(t *testing.T) {
	h := newHarness(t)
	args := []string{"out=one", "err=two", "raw", "out=three", "args", "raw"}
	first := h.want("miss", h.run(args...))
	if !strings.HasPrefix(first.log, "one\ntwo\nno newline \x00\xff\rthree\n") || !strings.HasSuffix(first.said, "recorded\n") {
		t.Errorf("log %q, said %q", first.log, first.said)
	}
	second := h.want("hit", h.run(args...))
	// The runner's own last line starts on a new line.
	if second.log+"\n" != first.log || second.code != 0 {
		t.Errorf("replayed log %q, want %q", second.log, first.log)
	}
	ok, err := regexp.MatchString(`^replayed result of fingerprint [0-9a-f]{64}, recorded 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ on .+; to execute the test, use --test_env=TASTING=off\n$`, second.said)
	if err != nil || !ok {
		t.Errorf("said %q", second.said)
	}
}

// Arguments that look like tasting's own must reach the test.
func TestArgumentsPassThrough(t *testing.T) {
	h := newHarness(t)
	for _, args := range [][]string{{"args"}, {"args", "out=--help"}, {"args", "out="}, {"args", "out=a b\n'\""}} {
		for _, verdict := range []string{"miss", "hit"} {
			o := h.want(verdict, h.run(args...))
			if want := fmt.Sprintf("%q\n", args); !strings.HasPrefix(o.log, want) {
				t.Errorf("%s: log %q, want %q", verdict, o.log, want)
			}
		}
	}
	// Even an argument that is a command of tasting.
	if o := h.run("--help"); !strings.Contains(o.log, "step --help") {
		t.Errorf("--help: %q", o.log)
	}
}

func TestStdin(t *testing.T) {
	h := newHarness(t)
	c := h.cmd("cat")
	c.Stdin = strings.NewReader("hello")
	if o := h.want("miss", h.finish(c)); o.log != "stdin \"hello\"\n" {
		t.Errorf("log %q", o.log)
	}
}

func TestBigLog(t *testing.T) {
	h := newHarness(t)
	first := h.want("miss", h.run("out=start", "big", "big", "out=end"))
	second := h.want("hit", h.run("out=start", "big", "big", "out=end"))
	if len(first.log) != 6<<20+10 || first.log != second.log {
		t.Errorf("logs of %d and %d bytes", len(first.log), len(second.log))
	}
}

// started has the test started as Bazel does, by a script that was asked to
// start something: "" stands for the test.
func started(asked string, by ...string) func(c *exec.Cmd) {
	return func(c *exec.Cmd) {
		dir := filepath.Dir(c.Path)
		test := filepath.Join(filepath.Base(dir), "t")
		setup := filepath.Join(dir, "test-setup.sh")
		if err := os.WriteFile(setup, []byte("shift; \"$@\"; exit $?\n"), 0o666); err != nil {
			panic(err)
		}
		c.Env = append(slices.Clone(c.Env), "TEST_BINARY="+test)
		if asked == "" {
			asked = "./" + test
		}
		c.Args = slices.Concat([]string{"sh", setup, asked}, by, []string{c.Path}, c.Args[1:])
		c.Path = "/bin/sh"
	}
}

// What is different in the key, or isn't.
func TestKey(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t)
	h.want("miss", h.run("out=x"))
	h.want("hit", h.run("out=x"))
	// Another test, in the data of this one.
	other := filepath.Join(t.TempDir(), "other")
	if err := errors.Join(os.MkdirAll(other, 0o777), os.CopyFS(other, os.DirFS(h.dir))); err != nil {
		t.Fatal(err)
	}
	sha := strings.Repeat("cd", 32)
	type change func(c *exec.Cmd)
	config := func(f func(*fingerprint.Config)) change {
		return func(*exec.Cmd) {
			old := h.config
			f(&h.config)
			h.configure()
			h.config = old
		}
	}
	env := func(kv ...string) change { return func(c *exec.Cmd) { c.Env = append(slices.Clone(c.Env), kv...) } }
	for _, c := range []struct {
		name   string
		change change
		want   string
	}{
		{"nothing", func(*exec.Cmd) {}, "hit"},
		{"code", config(func(c *fingerprint.Config) { c.Code = sha }), "miss"},
		{"data", config(func(c *fingerprint.Config) { c.Data = []fingerprint.File{{Path: "_main/a", SHA256: sha}} }), "miss"},
		{"data path", config(func(c *fingerprint.Config) { c.Data = []fingerprint.File{{Path: "_main/b", SHA256: sha}} }), "miss"},
		{"link flags", config(func(c *fingerprint.Config) { c.LinkFlags = []string{"-z", "now"} }), "miss"},
		{"contribution", config(func(c *fingerprint.Config) {
			c.Contributions = []fingerprint.Contribution{{Name: "clang", SHA256: sha}}
		}), "miss"},
		{"store", config(func(c *fingerprint.Config) { c.Store = "/nonexistent" }), "hit"},
		{"always", config(func(c *fingerprint.Config) { c.AlwaysRun = []string{"tags: external"} }), "always"},
		{"argument", func(c *exec.Cmd) { c.Args = append(c.Args, "out=y") }, "miss"},
		{"joined arguments", func(c *exec.Cmd) { c.Args = []string{c.Args[0], "out=x out=y"} }, "miss"},
		{"variable", env("FOO=1"), "miss"},
		{"empty variable", env("FOO="), "miss"},
		{"test filter", env("TESTBRIDGE_TEST_ONLY=A.b"), "miss"},
		{"fail fast", env("TESTBRIDGE_TEST_RUNNER_FAIL_FAST=1"), "miss"},
		{"shard 0", env("TEST_TOTAL_SHARDS=2", "TEST_SHARD_INDEX=0"), "miss"},
		{"shard 1", env("TEST_TOTAL_SHARDS=2", "TEST_SHARD_INDEX=1"), "miss"},
		{"TZ", env("TZ=UTC"), "miss"},
		{"GLIBC_TUNABLES", env("GLIBC_TUNABLES=glibc.malloc.check=1"), "miss"},
		{"TEST_SIZE", env("TEST_SIZE=large"), "hit"},
		{"TEST_TIMEOUT", env("TEST_TIMEOUT=10000"), "hit"},
		{"declared TEST_SIZE", func(c *exec.Cmd) {
			config(func(c *fingerprint.Config) { c.EnvKeys = []string{"TEST_SIZE"} })(c)
			env("TEST_SIZE=large")(c)
		}, "miss"},
		{"TEST_TARGET", env("TEST_TARGET=//other"), "miss"},
		{"another TEST_TARGET", env("TEST_TARGET=//one:more"), "miss"},
		{"TEST_BINARY", func(c *exec.Cmd) {
			started("./t")(c)
			env("TEST_BINARY=t")(c)
		}, "miss"},
		{"TEST_NAME", env("TEST_NAME=other"), "miss"},
		{"TEST_WORKSPACE", env("TEST_WORKSPACE=other"), "miss"},
		{"TEST_WORKSPACE again", env("TEST_WORKSPACE=other"), "hit"},
		{"--legacy_external_runfiles", func(c *exec.Cmd) {
			if err := os.MkdirAll(filepath.Join(h.dir, "t.runfiles/other/external"), 0o777); err != nil {
				t.Fatal(err)
			}
			env("TEST_WORKSPACE=other")(c)
		}, "miss"},
		{"GTEST_OUTPUT", env("GTEST_OUTPUT=xml"), "miss"},
		{"EXPERIMENTAL_SPLIT_XML_GENERATION", env("EXPERIMENTAL_SPLIT_XML_GENERATION=1"), "miss"},
		{"RUN_UNDER_RUNFILES", env("RUN_UNDER_RUNFILES=1"), "miss"},
		{"left behind by a shell", env("OLDPWD=/x", "SHLVL=3"), "hit"},
		{"functions of a shell", env("BASH_FUNC_rlocation%%=() {\n}"), "miss"},
		{"the same of another shell", env("BASH_FUNC_rlocation%%=() { }"), "hit"},
		{"USER", env("USER=somebody"), "miss"},
		{"USER as Bazel sets it", env("USER=" + me.Username), "hit"},
		{"declared USER", func(c *exec.Cmd) {
			config(func(c *fingerprint.Config) { c.EnvKeys = []string{"USER"} })(c)
			env("USER=x")(c)
		}, "miss"},
		{"declared USER, another value", func(c *exec.Cmd) {
			config(func(c *fingerprint.Config) { c.EnvKeys = []string{"USER"} })(c)
			env("USER=y")(c)
		}, "miss"},
		{"TEST_TMPDIR is set", env("TEST_TMPDIR=/tmp/a"), "miss"},
		{"TEST_TMPDIR elsewhere", env("TEST_TMPDIR=/tmp/b"), "hit"},
		{"TMPDIR elsewhere", env("TMPDIR=/var/tmp"), "hit"},
		{"path in runfiles", env("TEST_SRCDIR=/r1", "DATA=/r1/_main/x:/r1"), "miss"},
		{"the same elsewhere", env("TEST_SRCDIR=/r2/r", "DATA=/r2/r/_main/x:/r2/r"), "hit"},
		{"not the same", env("TEST_SRCDIR=/r2/r", "DATA=/r2/r/_main/x:/r2/s"), "miss"},
		{"working directory", func(c *exec.Cmd) { c.Dir = os.TempDir() }, "unclear"},
		{"coverage", env("COVERAGE_DIR=/x"), "always"},
		{"COVERAGE", env("COVERAGE=1"), "always"},
		{"runs_per_test", env("TEST_RUN_NUMBER=1", "TEST_RANDOM_SEED=1"), "always"},
		{"off", env("TASTING=off"), "always"},
		{"on", env("TASTING=on"), "hit"},
		{"misspelt", env("TASTING=no"), "always"},
		{"LD_AUDIT", env("LD_AUDIT=/nonexistent.so"), "always"},
		{"LD_PRELOAD", env("LD_PRELOAD=./data/libx.so"), "always"},
		{"LD_LIBRARY_PATH", env("LD_LIBRARY_PATH=data"), "always"},
		{"empty LD_LIBRARY_PATH", env("LD_LIBRARY_PATH="), "miss"},
		{"LD_DYNAMIC_WEAK", env("LD_DYNAMIC_WEAK="), "always"},
		{"LD_ORIGIN_PATH", env("LD_ORIGIN_PATH=/x"), "always"},
		{"LD_BIND_NOW", env("LD_BIND_NOW=1"), "miss"},
		{"order of initialisers", env("GLIBC_TUNABLES=glibc.rtld.dynamic_sort=1"), "always"},
		{"by hand", func(c *exec.Cmd) { c.Env = c.Env[1:] }, "always"},
		{"by hand, asked", func(c *exec.Cmd) { c.Env = append(slices.Clone(c.Env[1:]), "ASKED=1") }, "miss"},
		{"run_under", env("_=/usr/bin/env"), "always"},
		{"run_under a script", started("tool"), "always"},
		{"started by Bazel", started(""), "miss"},
		{"started by Bazel again", started(""), "hit"},
		{"started by a test", started("", "/bin/sh", "-c", `"$0" "$@"; exit $?`), "always"},
		{"in the place of a test", started("", "/bin/sh", "-c", `shift; exec "$0" "$@"`, filepath.Join(other, "t")), "always"},
		{"not run_under", env("_=" + filepath.Join(h.dir, "t")), "hit"},
		{"other store", env("TASTING_STORE=" + filepath.Join(h.dir, "other")), "miss"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h.t = t
			cmd := h.cmd("out=x")
			c.change(cmd)
			if c.want == "unclear" {
				// The real test can't count its execution from there.
				if o := h.finish(cmd); !strings.Contains(o.said, "no recorded result") {
					t.Errorf("said %q", o.said)
				}
			} else {
				h.want(c.want, h.finish(cmd))
			}
			h.configure()
		})
	}
}

// Only these variables may be missing from the key; docs/reference/what-counts.md gives the
// reason for each of them.
func TestVariablesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../../../docs/reference/what-counts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range slices.Concat(runner.HiddenVariables, runner.OwnVariables) {
		if !strings.Contains(string(doc), "`"+v+"`") {
			t.Errorf("docs/reference/what-counts.md doesn't mention `%s`: say there why it isn't in the key", v)
		}
	}
}

// The test doesn't see what isn't in the key.
func TestOwnVariablesAreHidden(t *testing.T) {
	h := newHarness(t)
	h.env = append(h.env, "TASTING=on", "TASTING_STORE_MODE=rw", "TEST_SIZE=small", "TEST_TIMEOUT=60", "OLDPWD=/x", "SHLVL=1", "TEST_TARGET=//:t")
	steps := []string{"env=TASTING", "env=TASTING_STORE", "env=TASTING_STORE_MODE", "env=TEST_SIZE", "env=TEST_TIMEOUT", "env=OLDPWD", "env=SHLVL", "env=_"}
	want := ""
	for _, s := range steps {
		want += strings.TrimPrefix(s, "env=") + "=\"\"\n"
	}
	want += "BAZEL_TEST=\"1\"\nTEST_TARGET=\"//:t\"\n"
	o := h.want("miss", h.run(append(steps, "env=BAZEL_TEST", "env=TEST_TARGET")...))
	if o.log != want {
		t.Errorf("log %q, want %q", o.log, want)
	}
}

func TestExitCodes(t *testing.T) {
	h := newHarness(t)
	for _, code := range []int{1, 2, 3, 42, 127, 255} {
		for range 2 { // a failure is not recorded
			o := h.want("miss", h.run("out=failing", fmt.Sprint("exit=", code)))
			if o.code != code || o.log != "failing\n" || strings.Contains(o.said, "recorded\n") {
				t.Errorf("%+v, want exit code %d", o, code)
			}
		}
	}
}

// A pass after a failure with the same fingerprint isn't recorded: the
// fingerprint doesn't decide the outcome. A failure in another mode, or by a
// signal, says nothing.
func TestFlaky(t *testing.T) {
	h := newHarness(t)
	real := filepath.Join(h.dir, "t.runfiles", "_main", "real")
	os.Remove(real)
	if err := os.Symlink("/bin/sh", real); err != nil {
		t.Fatal(err)
	}
	// What isn't declared: a file.
	flag := filepath.Join(h.dir, "flag")
	args := []string{"-c", "printf x >>../../count; test -e ../../flag || exit 1; grep -q kill ../../flag && kill -9 $$; grep -q abort ../../flag && { ulimit -c 0; kill -ABRT $$; }; true"}
	state := func(s string) {
		if err := os.WriteFile(flag, []byte(s), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	state("kill")
	h.want("miss", h.run(args...))
	state("")
	h.want("miss", h.run(args...))
	h.want("hit", h.run(args...))

	h.config.Code = strings.Repeat("cd", 32)
	h.configure()
	os.Remove(flag)
	if o := h.want("miss", h.run(args...)); o.code != 1 {
		t.Errorf("%+v", o)
	}
	state("")
	for range 2 {
		if o := h.want("miss", h.run(args...)); o.code != 0 || !strings.Contains(o.said, "not recorded: the test failed with the same fingerprint on 20") {
			t.Errorf("%+v", o)
		}
	}
	// A crash is a failure, as the end of a test by assert.
	h.config.Code = strings.Repeat("23", 32)
	h.configure()
	state("abort")
	if o := h.want("miss", h.run(args...)); o.signal != syscall.SIGABRT {
		t.Errorf("%+v", o)
	}
	state("")
	if o := h.want("miss", h.run(args...)); o.code != 0 || !strings.Contains(o.said, "not recorded: the test failed with the same fingerprint on 20") {
		t.Errorf("%+v", o)
	}
	// Unless it was the machine that failed.
	h.config.Code = strings.Repeat("01", 32)
	h.configure()
	os.Remove(flag)
	infra := filepath.Join(h.dir, "infra")
	h.env = append(h.env, "TEST_INFRASTRUCTURE_FAILURE_FILE="+infra)
	if err := os.WriteFile(infra, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	h.want("miss", h.run(args...))
	os.Remove(infra)
	state("")
	h.want("miss", h.run(args...))
	h.want("hit", h.run(args...))
	// Other fingerprints are other tests.
	h.config.Code = strings.Repeat("ef", 32)
	h.configure()
	h.want("miss", h.run(args...))
	h.want("hit", h.run(args...))
	// Who doesn't read the store finds out that what is recorded isn't all.
	os.Remove(flag)
	h.env = append(h.env, "TASTING_STORE_MODE=wo")
	if o := h.want("miss", h.run(args...)); o.code != 1 {
		t.Errorf("%+v", o)
	}
	h.env = h.env[:len(h.env)-1]
	state("")
	if o := h.want("miss", h.run(args...)); o.code != 0 || !strings.Contains(o.said, "withdrawn") {
		t.Errorf("%+v", o)
	}
}

// If the test dies from a signal, so does the runner.
func TestDeathBySignal(t *testing.T) {
	h := newHarness(t)
	// A shell, since Go's runtime has its own way with signals.
	real := filepath.Join(h.dir, "t.runfiles", "_main", "real")
	os.Remove(real)
	if err := os.Symlink("/bin/sh", real); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{
		syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGUSR1,
		syscall.SIGXCPU, syscall.SIGSEGV, syscall.SIGABRT, syscall.SIGQUIT, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL,
		syscall.SIGTRAP, syscall.SIGSYS, syscall.SIGPROF, syscall.SIGSTKFLT, syscall.Signal(34),
	} {
		for _, env := range []string{"TASTING=on", "TASTING=off"} {
			c := h.cmd("-c", fmt.Sprintf("printf x >>../../count; ulimit -c 0; echo before; kill -%d $$", int(sig)))
			c.Env = append(slices.Clone(c.Env), env)
			if o := h.finish(c); o.signal != sig || o.log != "before\n" || o.runs != 1 {
				t.Errorf("%v, %s: %+v", sig, env, o)
			}
		}
	}
	// None is a result. A crash is noted as a failure, a signal that somebody may
	// have sent isn't: see TestFlaky.
	if want := 7; h.entries() != want {
		t.Errorf("%d entries, want %d", h.entries(), want)
	}
}

// hangs is the time after which a test gives up.
const hangs = 10 * time.Minute

// background starts a run and waits until its log has the text ready.
func (h *harness) background(ready string, args ...string) (*exec.Cmd, *os.File) {
	h.t.Helper()
	log, err := os.Create(filepath.Join(h.t.TempDir(), "log"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { log.Close() })
	c := h.cmd(args...)
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Process.Kill() })
	deadline := time.Now().Add(hangs)
	for time.Now().Before(deadline) {
		if b, _ := os.ReadFile(log.Name()); strings.Contains(string(b), ready) {
			return c, log
		}
		time.Sleep(5 * time.Millisecond)
	}
	h.t.Fatalf("no %q in the log", ready)
	return nil, nil
}

// A time-out: Bazel sends SIGTERM. What was written so far is in the log,
// without waiting for the end, and nothing is recorded.
func TestTimeout(t *testing.T) {
	h := newHarness(t)
	c, log := h.background("so far\n", "out=so far", "sleep=1h")
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	if ws := c.ProcessState.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != syscall.SIGTERM {
		t.Errorf("ended by %v, want SIGTERM", c.ProcessState)
	}
	b, _ := os.ReadFile(log.Name())
	if !strings.HasSuffix(string(b), "so far\n") {
		t.Errorf("log %q", b)
	}
	if h.entries() != 0 {
		t.Errorf("%d entries", h.entries())
	}
}

// A test that handles a signal and passes is no clean pass.
func TestHandledSignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGINT} {
		h := newHarness(t)
		c, log := h.background("ready\n", "handle", "out=after")
		if err := c.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("%v: %v", sig, err)
		}
		b, _ := os.ReadFile(log.Name())
		if !strings.Contains(string(b), fmt.Sprintf("got %v\nafter\n", sig)) || !strings.Contains(string(b), "tasting: not recorded: "+sig.String()+" was received") {
			t.Errorf("%v: log %q", sig, b)
		}
		if h.entries() != 0 {
			t.Errorf("%v: %d entries", sig, h.entries())
		}
	}
}

// The runner is killed: the test doesn't go on, nothing is recorded.
func TestRunnerKilled(t *testing.T) {
	h := newHarness(t)
	c, log := h.background("started", "pid", "out=started", "sleep=1h")
	c.Process.Kill()
	c.Wait()
	b, _ := os.ReadFile(log.Name())
	m := regexp.MustCompile(`pid (\d+)`).FindSubmatch(b)
	if m == nil {
		t.Fatalf("log %q", b)
	}
	deadline := time.Now().Add(hangs)
	for {
		// Gone, or a zombie that nobody waits for.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%s/stat", m[1]))
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the real test still runs: %s", stat)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if h.entries() != 0 {
		t.Errorf("%d entries", h.entries())
	}
	h.want("miss", h.run("pid", "out=started"))
}

// Processes that a test leaves behind don't keep the runner, but its result is
// not recorded: their output would be missing.
func TestOrphans(t *testing.T) {
	h := newHarness(t)
	log, err := os.Create(filepath.Join(h.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	c := h.cmd("out=x", "orphan="+log.Name())
	c.Stdout, c.Stderr = log, log
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(log.Name())
	if !strings.Contains(string(b), "x\ntasting: not recorded: processes that the test left behind hold its output open\n") || h.entries() != 0 {
		t.Errorf("log %q, %d entries", b, h.entries())
	}
}

// A log that takes its time, as on a busy machine, is complete, and recorded.
func TestSlowLog(t *testing.T) {
	h := newHarness(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// The first line fills the log (F_SETPIPE_SZ), so that the second one stays in the test's own pipe.
	if _, _, e := syscall.Syscall(syscall.SYS_FCNTL, w.Fd(), 1031, 4096); e != 0 {
		t.Fatal(e)
	}
	c := h.cmd("out="+strings.Repeat("x", 8<<10), "sleep=200ms", "out="+strings.Repeat("y", 50<<10), "write=AT_END")
	end := filepath.Join(h.dir, "end")
	c.Env = append(slices.Clone(c.Env), "AT_END="+end)
	c.Stdout, c.Stderr = w, w
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	for _, err := os.Stat(end); err != nil; _, err = os.Stat(end) {
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(time.Second) // longer than processes that were left behind may hold the output
	b, err := io.ReadAll(r)
	if err := errors.Join(err, c.Wait()); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b, []byte("y")); n < 50<<10 || !bytes.Contains(b, []byte("y\ntasting: recorded\n")) {
		t.Errorf("%d bytes of the last line: %q", n, b[max(0, len(b)-200):])
	}
}

// outputs sets the variables for files that a test may write.
func (h *harness) outputs() string {
	dir := h.t.TempDir()
	h.env = append(h.env, "XML_OUTPUT_FILE="+filepath.Join(dir, "x", "test.xml"),
		"TEST_UNDECLARED_OUTPUTS_DIR="+filepath.Join(dir, "outputs"),
		"TEST_UNDECLARED_OUTPUTS_ANNOTATIONS_DIR="+filepath.Join(dir, "annotations"),
		"TEST_PREMATURE_EXIT_FILE="+filepath.Join(dir, "premature"),
		"TEST_INFRASTRUCTURE_FAILURE_FILE="+filepath.Join(dir, "infrastructure"),
		"TEST_UNUSED_RUNFILES_LOG_FILE="+filepath.Join(dir, "unused"),
		"TEST_LOGSPLITTER_OUTPUT_FILE="+filepath.Join(dir, "split"),
	)
	for _, d := range []string{"x", "outputs", "annotations"} {
		os.Mkdir(filepath.Join(dir, d), 0o777)
	}
	return dir
}

func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	m := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		info, _ := e.Info()
		m[rel] = fmt.Sprintf("%v %s", info.Mode().Perm()&0o100 != 0, b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestOutputs(t *testing.T) {
	h := newHarness(t)
	env := h.env
	args := []string{"write=XML_OUTPUT_FILE:", "write=TEST_UNDECLARED_OUTPUTS_DIR:a/b/c", "write=TEST_UNDECLARED_OUTPUTS_DIR:d", "write=TEST_UNDECLARED_OUTPUTS_ANNOTATIONS_DIR:n.part", "out=done"}
	first := h.outputs()
	h.want("miss", h.run(args...))
	h.env = slices.Clone(env)
	second := h.outputs()
	h.want("hit", h.run(args...))
	want := tree(t, first)
	if len(want) != 4 {
		t.Errorf("the test wrote %v", want)
	}
	if d := cmp.Diff(want, tree(t, second)); d != "" {
		t.Errorf("replayed files (-want +got):\n%s", d)
	}
	// Old files where the new ones go don't matter to a replay, links do: it never
	// writes through one, to wherever it leads. Then the test is executed.
	h.env = append(slices.Clone(env), "TEST_SHARD_STATUS_FILE="+filepath.Join(t.TempDir(), "status"))
	h.outputs()
	h.want("miss", h.run(args...))
	for _, c := range []struct{ link, to, want string }{
		{"outputs/a", "outside", "miss"},
		{"outputs/a", "inside", "miss"},
		{"outputs/a/b", "outside", "miss"},
		{"outputs/a/b/c", "outside/file", "hit"}, // replaced
		{"annotations/n.part", "outside/file", "hit"},
		{"x/test.xml", "outside/file", "hit"},
		{"status", "outside/file", "miss"},
	} {
		h.env = slices.Clone(env)
		dir := h.outputs()
		h.env = append(h.env, "TEST_SHARD_STATUS_FILE="+filepath.Join(dir, "status"))
		outside := t.TempDir()
		os.WriteFile(filepath.Join(outside, "file"), []byte("theirs"), 0o666)
		os.Mkdir(filepath.Join(dir, "outputs", "inside"), 0o777)
		os.MkdirAll(filepath.Dir(filepath.Join(dir, c.link)), 0o777)
		to := strings.Replace(c.to, "outside", outside, 1)
		if err := os.Symlink(to, filepath.Join(dir, c.link)); err != nil {
			t.Fatal(err)
		}
		o := h.run(args...)
		replayed := o.runs == 0
		if replayed != (c.want == "hit") {
			t.Errorf("%s to %s: %+v", c.link, c.to, o)
		}
		got := tree(t, outside)
		if replayed && !cmp.Equal(got, map[string]string{"file": "false theirs"}) || len(tree(t, filepath.Join(dir, "outputs", "inside"))) > 0 && replayed {
			t.Errorf("%s to %s: the replay left its directory: %v %q", c.link, c.to, got, o.said)
		}
	}
}

// A pass with something that a replay couldn't repeat isn't recorded.
func TestUncleanPass(t *testing.T) {
	for _, c := range []struct {
		step, env, want string
	}{
		{"write=TEST_PREMATURE_EXIT_FILE:", "", "the test ended prematurely"},
		{"write=TEST_INFRASTRUCTURE_FAILURE_FILE:", "", "the test reported an infrastructure failure"},
		{"write=TEST_UNUSED_RUNFILES_LOG_FILE:", "", "the test wrote a log of unused runfiles"},
		{"write=TEST_LOGSPLITTER_OUTPUT_FILE:", "", "the test wrote split logs"},
		{"link", "", "which is no regular file"},
		{"emptydir", "", "the empty directory"},
		{"out=not sharded", "TEST_TOTAL_SHARDS=2", "the test doesn't support sharding"},
	} {
		h := newHarness(t)
		dir := h.outputs()
		h.env = append(h.env, "TEST_SHARD_STATUS_FILE="+filepath.Join(dir, "shard"))
		if c.env != "" {
			h.env = append(h.env, c.env)
		}
		o := h.want("miss", h.run(c.step))
		if o.code != 0 || !strings.Contains(o.said, "not recorded: ") || !strings.Contains(o.said, c.want) || h.entries() != 0 {
			t.Errorf("%s: %+v, %d entries", c.step, o, h.entries())
		}
	}
}

// Files that were there before can't be told from the test's.
func TestOutputsInTheWay(t *testing.T) {
	for _, f := range []string{"x/test.xml", "outputs/old", "annotations/old"} {
		h := newHarness(t)
		dir := h.outputs()
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		if o := h.want("miss", h.run("out=x")); !strings.Contains(o.said, "was there before the test started") || h.entries() != 0 {
			t.Errorf("%s: %+v", f, o)
		}
	}
}

func TestSharding(t *testing.T) {
	h := newHarness(t)
	env := h.env
	for _, verdict := range []string{"miss", "hit"} {
		status := filepath.Join(t.TempDir(), "status")
		h.env = append(slices.Clone(env), "TEST_TOTAL_SHARDS=2", "TEST_SHARD_INDEX=1", "TEST_SHARD_STATUS_FILE="+status)
		h.want(verdict, h.run("write=TEST_SHARD_STATUS_FILE:"))
		if _, err := os.Stat(status); err != nil {
			t.Errorf("%s: %v", verdict, err)
		}
	}
}

func TestStoreModes(t *testing.T) {
	h := newHarness(t)
	mode := func(m string) outcome {
		c := h.cmd("out=x")
		c.Env = append(slices.Clone(c.Env), "TASTING_STORE_MODE="+m)
		return h.finish(c)
	}
	for _, m := range []string{"ro", "off"} {
		h.want("miss", mode(m))
		if h.entries() != 0 {
			t.Errorf("mode %s has recorded something", m)
		}
	}
	h.want("miss", mode("wo"))
	if h.entries() != 1 {
		t.Errorf("mode wo has recorded nothing")
	}
	h.want("hit", mode("ro"))
	h.want("hit", mode("rw"))
	// What must not be read is replaced.
	if o := h.want("miss", mode("wo")); !strings.HasSuffix(o.said, "\nrecorded\n") {
		t.Errorf("said %q", o.said)
	}
	h.want("miss", mode("off"))
	if o := h.want("miss", mode("readonly")); !strings.Contains(o.said, "want rw, ro, wo or off") {
		t.Errorf("said %q", o.said)
	}
}

func TestDamagedEntry(t *testing.T) {
	h := newHarness(t)
	h.want("miss", h.run("out=x"))
	for _, sub := range []string{"ac", "cas"} {
		filepath.WalkDir(filepath.Join(h.store, sub), func(p string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				err = os.Truncate(p, 1)
			}
			return err
		})
		o := h.want("miss", h.run("out=x"))
		if !strings.Contains(o.said, "recorded result is damaged") || !strings.HasSuffix(o.said, "recorded\n") {
			t.Errorf("%s: said %q", sub, o.said)
		}
		if o := h.want("hit", h.run("out=x")); o.log != "x\n" {
			t.Errorf("log %q", o.log)
		}
	}
}

func TestUnusableStore(t *testing.T) {
	h := newHarness(t)
	file := filepath.Join(h.dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ store, want string }{
		{filepath.Join(file, "store"), "not a directory"},
		{"relative", "want the absolute path"},
		{"/proc/tasting", "not recorded: "},
	} {
		cmd := h.cmd("out=x")
		cmd.Env = append(slices.DeleteFunc(slices.Clone(cmd.Env), func(s string) bool { return strings.HasPrefix(s, "TASTING_STORE=") }), "TASTING_STORE="+c.store)
		o := h.want("miss", h.finish(cmd))
		if o.code != 0 || o.log != "x\n" || !strings.Contains(o.said, c.want) {
			t.Errorf("%s: %+v, want %q", c.store, o, c.want)
		}
	}
}

// A sandbox that mounts the store read-only: the line says what to write into
// .bazelrc.
func TestReadOnlyStore(t *testing.T) {
	h := newHarness(t)
	h.want("miss", h.run("out=known"))
	sh := exec.Command("sh", "-c", `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd "$1" && shift && exec "$@"`,
		h.store, filepath.Join(h.dir, "t.runfiles", "_main"), filepath.Join(h.dir, "t"))
	sh.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if err := exec.Command("unshare", "-Urm", "true").Run(); err != nil {
		t.Skipf("no user namespaces here: %v", err)
	}
	run := func(arg string) outcome {
		c := *sh
		c.Env = h.env
		c.Args = append(slices.Clone(sh.Args), arg)
		return h.finish(&c)
	}
	o := h.want("miss", run("out=new"))
	if want := "put into .bazelrc: test --sandbox_writable_path=" + h.store; o.code != 0 || !strings.Contains(o.said, want) {
		t.Errorf("%+v, want %q", o, want)
	}
	if os.Getuid() == 0 {
		h.want("hit", run("out=known"))
	}
}

// The disk is full, for the copy of the log or for the store: the test is not
// disturbed.
func TestFileSizeLimit(t *testing.T) {
	h := newHarness(t)
	for _, limit := range []string{"1", "4096"} { // in blocks of 512 bytes
		c := exec.Command("sh", "-c", `trap "" XFSZ; ulimit -f `+limit+`; exec "$0" "$@"`, filepath.Join(h.dir, "t"), "out=start", "big", "out=end")
		c.Dir, c.Env = filepath.Join(h.dir, "t.runfiles", "_main"), h.env
		o := h.want("miss", h.finish(c))
		if o.code != 0 || !strings.HasSuffix(o.log, "\nend\n") || len(o.log) != 3<<20+10 || !strings.Contains(o.said, "not recorded: ") || h.entries() != 0 {
			t.Errorf("limit %s: code %d, %d bytes, said %q", limit, o.code, len(o.log), o.said)
		}
	}
}

func TestConcurrentRuns(t *testing.T) {
	h := newHarness(t)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			c := h.cmd("out=x", "out=y")
			var log bytes.Buffer
			c.Stdout, c.Stderr = &log, &log
			if err := c.Run(); err != nil || !strings.Contains(log.String(), "\nx\ny\n") {
				t.Errorf("%v: %q", err, log.String())
			}
		})
	}
	wg.Wait()
	h.want("hit", h.run("out=x", "out=y"))
	if h.entries() != 1 {
		t.Errorf("%d entries", h.entries())
	}
}

func TestConfiguration(t *testing.T) {
	valid := fmt.Sprintf(`{"format":2,"code":%q,"binary":"_main/real"}`, strings.Repeat("ab", 32))
	for _, c := range []struct{ name, config, want string }{
		{"empty", "", "EOF"},
		{"garbled", "}{", "invalid character"},
		{"cut off", valid[:len(valid)/2], "unexpected EOF"},
		{"newer", strings.Replace(valid, ":2,", ":3,", 1), "format 3"},
		{"unknown field", strings.Replace(valid, `"code"`, `"salt":"x","code"`, 1), "unknown field"},
		{"outside", strings.Replace(valid, "_main/real", "../real", 1), "want a runfiles path"},
		{"missing binary", strings.Replace(valid, "/real", "/gone", 1), "the real test _main/gone is not in the runfiles"},
	} {
		h := newHarness(t)
		if err := os.WriteFile(filepath.Join(h.dir, "t.tasting"), []byte(c.config), 0o666); err != nil {
			t.Fatal(err)
		}
		o := h.run("out=x")
		if o.code != runner.ExitInternal || o.runs != 0 || !strings.Contains(o.said, c.want) || !strings.Contains(o.said, "build it again") {
			t.Errorf("%s: %+v, want %q", c.name, o, c.want)
		}
	}
	h := newHarness(t)
	os.Remove(filepath.Join(h.dir, "t.tasting"))
	h.env = append(h.env, "TEST_BINARY=./pkg/t")
	if o := h.run("out=x"); o.code != runner.ExitInternal || !strings.Contains(o.said, "t.tasting: no such file") {
		t.Errorf("no configuration: %+v", o)
	}
}

// The runfiles may be found in several ways.
func TestRunfiles(t *testing.T) {
	h := newHarness(t)
	inside := filepath.Join(h.dir, "t.runfiles", "_main")
	elsewhere := filepath.Join(h.dir, "elsewhere", "_main")
	move := func() {
		if err := os.MkdirAll(filepath.Dir(elsewhere), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(inside, elsewhere); err != nil {
			t.Fatal(err)
		}
	}
	// Started from within the runfiles, as Bazel does.
	exe, _ := os.Readlink(filepath.Join(h.dir, "t"))
	os.Symlink(exe, filepath.Join(inside, "t"))
	os.Symlink(filepath.Join(h.dir, "t.tasting"), filepath.Join(inside, "t.tasting"))
	c := h.cmd("out=x")
	c.Path, c.Args[0] = filepath.Join(inside, "t"), "./t"
	h.want("miss", h.finish(c))

	move()
	manifest := filepath.Join(h.dir, "MANIFEST")
	os.WriteFile(manifest, []byte("_main/other /x\n_main/real "+filepath.Join(elsewhere, "real")+"\n"), 0o666)
	for _, v := range []string{"RUNFILES_DIR=" + filepath.Dir(elsewhere), "TEST_SRCDIR=" + filepath.Dir(elsewhere), "RUNFILES_MANIFEST_FILE=" + manifest} {
		c := h.cmd("out=" + v)
		c.Dir = elsewhere
		c.Env = append(slices.Clone(c.Env), v)
		h.want("miss", h.finish(c))
	}
}

// Bazel doesn't see what is edited in a directory of sources: the configuration may be
// older than its files.
func TestStaleDirectory(t *testing.T) {
	h := newHarness(t)
	dir := filepath.Join(h.dir, "t.runfiles", "_main", "dd")
	os.MkdirAll(filepath.Join(dir, "sub", "none"), 0o777)
	os.WriteFile(filepath.Join(dir, "sub", "x"), []byte("1"), 0o666)
	data := func(path, content string) fingerprint.File {
		return fingerprint.File{Path: path, SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(content)))}
	}
	h.config.Data = []fingerprint.File{data("_main/dd-other", ""), data("_main/dd/sub/none/", ""), data("_main/dd/sub/x", "1")}
	os.WriteFile(dir+"-other", nil, 0o666)
	h.config.Directories = []string{"_main/dd"}
	h.configure()
	h.want("miss", h.run("out=x"))
	h.want("hit", h.run("out=x"))
	for _, edit := range []struct{ do, undo string }{
		{"printf 2 >sub/x", "printf 1 >sub/x"},
		{"printf 2 >new", "rm new"},
		{"mkdir sub/empty", "rmdir sub/empty"},
		{"mv sub sup", "mv sup sub"},
		{"mv sub/x sub/none", "mv sub/none/x sub"},
	} {
		for _, step := range []struct{ command, want string }{{edit.do, "always"}, {edit.undo, "hit"}} {
			c := exec.Command("sh", "-ec", step.command)
			c.Dir = dir
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			h.want(step.want, h.run("out=x"))
		}
	}
}
