// Command tour shows what rules_tasting does, and checks it.
//
// It takes an example of this repository (package story.go has the form, one
// file each the content) into two scratch checkouts. In one the tests are run by
// plain Bazel, in the other by tasting test or as tasting_cc_test, and nothing
// else differs. Then it goes through chapters: each makes an edit that a developer makes, says which tests
// have to be executed now, has both checkouts tested, and prints what happened
// side by side.
//
// Plain Bazel's figures are shown as they are. The other side's have to be what
// the chapter said, test by test, and where the story says so, it has to take less
// time in all: otherwise tour ends with exit code 1.
//
// What was executed is read from Bazel's build events and from the test logs
// (readResults), and what tasting test didn't have Bazel run, from its file of
// the run.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/cputime"
)

// stories are told in this order; the first one, if none is asked for.
var stories = []*story{leveldb, cjson, cppgtest, fmtlib, service}

// service is the story of tests that are clients of a service.
var service = &story{name: "service", script: "story.sh"}

// Exit codes.
const (
	exitOK         = 0
	exitUnexpected = 1
	exitUsage      = 2
	exitInternal   = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var t tour
	flags := flag.NewFlagSet("tour", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&t.module, "module", "", "`path` of rules_tasting's MODULE.bazel")
	flags.StringVar(&t.analyzer, "analyzer", "", "`path` of the tasting program")
	flags.StringVar(&t.fetch, "fetch", "", "`path` of tools/corpus/fetch.sh")
	flags.StringVar(&t.bazel.program, "bazel", "bazel", "Bazel for the scratch checkouts, a `path` or name")
	flags.StringVar(&t.parent, "scratch", "", "`directory` to make the scratch directory in (default: ~/.cache/rules_tasting)")
	flags.BoolVar(&t.keep, "keep", false, "keep the scratch directory")
	flags.Func("bazel_flag", "`flag` for every bazel test, on both sides (may be repeated)", func(flag string) error {
		t.bazel.flags = append(t.bazel.flags, flag)
		return nil
	})
	var only []string
	flags.Func("story", "tell the story with this `name` (may be repeated; default: "+stories[0].name+")", func(name string) error {
		if !slices.ContainsFunc(stories, func(s *story) bool { return s.name == name }) {
			return fmt.Errorf("no such story")
		}
		only = append(only, name)
		return nil
	})
	flags.BoolVar(&t.plain, "plain", true, "also take the plain side; without it, nothing is compared and it takes half the time")
	asJSON := flags.Bool("json", false, "print the outcome as JSON, and progress to standard error")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "tour: unexpected argument %q\n", flags.Arg(0))
		return exitUsage
	}
	for name, value := range map[string]string{"module": t.module, "analyzer": t.analyzer, "fetch": t.fetch} {
		if value == "" {
			fmt.Fprintf(stderr, "tour: -%s is missing; 'bazel run //examples:tour' gives it\n", name)
			return exitUsage
		}
	}

	if only == nil {
		only = []string{stories[0].name}
	}
	t.progress = stdout
	if *asJSON {
		t.progress = stderr
	}
	told, err := t.tell(ctx, slices.DeleteFunc(slices.Clone(stories), func(s *story) bool {
		return !slices.Contains(only, s.name)
	}))
	if err != nil {
		fmt.Fprintf(stderr, "tour: %v\n", err)
		return exitInternal
	}
	if *asJSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		if err := e.Encode(told); err != nil {
			fmt.Fprintf(stderr, "tour: %v\n", err)
			return exitInternal
		}
	}
	for _, s := range told {
		if !s.AsExpected {
			return exitUnexpected
		}
	}
	return exitOK
}

// A tour is one run of this program.
type tour struct {
	module, analyzer, fetch string
	parent                  string
	keep, plain             bool
	bazel                   bazel
	progress                io.Writer

	scratch string // directory of everything below
	servers []checkout
}

// tell tells stories in a scratch directory.
func (t *tour) tell(ctx context.Context, stories []*story) (told []*toldStory, err error) {
	// What is given as a path is relative to where we are, and may be a
	// symbolic link out of the runfiles: the module is where its file really is.
	for _, path := range []*string{&t.module, &t.analyzer, &t.fetch} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return nil, err
		}
		if *path, err = filepath.EvalSymlinks(abs); err != nil {
			return nil, err
		}
	}
	if os.Getenv("HOME") == "" {
		// A Bazel test has none, but the programs that we start look there for
		// caches and settings.
		u, err := user.Current()
		if err != nil {
			return nil, fmt.Errorf("%w; set HOME", err)
		}
		os.Setenv("HOME", u.HomeDir)
	}
	if t.parent == "" {
		t.parent = os.Getenv("RULES_TASTING_CACHE") // see bazelw
	}
	if t.parent == "" {
		// Not /tmp: sandboxes have a /tmp of their own, and no store in it.
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("%w; give a directory with -scratch", err)
		}
		t.parent = filepath.Join(cache, "rules_tasting")
	}
	if err := os.MkdirAll(t.parent, 0o777); err != nil {
		return nil, err
	}
	if t.scratch, err = os.MkdirTemp(t.parent, "tasting-tour-"); err != nil {
		return nil, err
	}
	if t.scratch, err = filepath.EvalSymlinks(t.scratch); err != nil {
		return nil, err
	}
	defer func() {
		for _, workspace := range t.servers {
			err = errors.Join(err, t.bazel.shutdown(workspace))
		}
		if t.keep {
			fmt.Fprintf(t.progress, "\nKept: %s\n", t.scratch)
		} else {
			err = errors.Join(err, removeAll(t.scratch))
		}
	}()

	t.bazel.scratch, t.bazel.meters = t.scratch, map[checkout]*cputime.Meter{}
	log, err := os.Create(filepath.Join(t.scratch, "bazel.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	t.bazel.log = log
	if err := t.prebuilt(ctx); err != nil {
		return nil, err
	}
	for _, s := range stories {
		tell := t.tellOne
		if s.script != "" {
			tell = t.tellScript
		}
		ts, err := tell(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("story %s: %w", s.name, err)
		}
		told = append(told, ts)
	}
	return told, nil
}

// tellScript tells a story that is a program of its own.
func (t *tour) tellScript(ctx context.Context, s *story) (*toldStory, error) {
	fmt.Fprintf(t.progress, "\n%s\n\n", s.name)
	cmd := command(ctx, checkout(t.scratch), filepath.Join(filepath.Dir(t.module), "examples", s.name, s.script))
	cmd.Env = append(cmd.Env, "TASTING="+t.analyzer, "STORY_SCRATCH="+t.scratch)
	cmd.Stdout, cmd.Stderr = t.progress, t.progress
	err := cmd.Run()
	told := &toldStory{Name: s.name, AsExpected: err == nil}
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 1 {
		err = nil
	}
	return told, err
}

// prebuilt makes a module of the analyzer that we were given, so that the
// scratch checkouts don't build it, and Go, again.
func (t *tour) prebuilt(ctx context.Context) error {
	clang := os.Getenv("TASTING_CLANG")
	if clang == "" {
		clang = "clang"
	}
	clang, err := exec.LookPath(clang)
	if err != nil {
		return fmt.Errorf("%w; install clang, or set TASTING_CLANG to its path", err)
	}
	version, err := exec.CommandContext(ctx, clang, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s --version: %w", clang, err)
	}
	analyzer, err := os.ReadFile(t.analyzer)
	if err != nil {
		return err
	}
	dir := filepath.Join(t.scratch, "prebuilt")
	return errors.Join(
		os.Mkdir(dir, 0o777),
		os.WriteFile(filepath.Join(dir, "tasting"), analyzer, 0o777),
		os.WriteFile(filepath.Join(dir, "clang.txt"), version, 0o666),
		os.WriteFile(filepath.Join(dir, "MODULE.bazel"), []byte(`module(name = "prebuilt_tasting")

bazel_dep(name = "rules_tasting")
`), 0o666),
		os.WriteFile(filepath.Join(dir, "BUILD.bazel"), fmt.Appendf(nil, `load("@rules_tasting//rules:defs.bzl", "tasting_toolchain")

tasting_toolchain(
    name = "prebuilt",
    analyzer = "tasting",
    clang = %q,
    clang_files = ["clang.txt"],
)

toolchain(
    name = "prebuilt_toolchain",
    toolchain = ":prebuilt",
    toolchain_type = "@rules_tasting//rules:toolchain_type",
)
`, clang), 0o666),
	)
}

// A side is one of the two that are compared.
type side struct {
	name  string
	plain bool
	run   []string // the command line of tasting test, if that runs its tests
	flags []string // of its tests
	here  checkout
	there checkout // the second checkout
}

// sides checks out the sides of a story: that of plain Bazel, unless it is left out, and the other one.
func (t *tour) sides(ctx context.Context, s *story) ([]*side, error) {
	store := filepath.Join(t.scratch, "store")
	if err := os.MkdirAll(store, 0o777); err != nil {
		return nil, err
	}
	tasting := &side{name: "tasting", flags: s.flags}
	if s.rule {
		tasting.flags = slices.Concat(s.flags, []string{"--@rules_tasting//rules:store=" + store, "--sandbox_writable_path=" + store})
	} else {
		// An audit would run a test now and then whose result is recorded.
		tasting.run = []string{t.analyzer, "test", "--store=" + store, "--audit=0"}
	}
	sides := []*side{tasting}
	if t.plain {
		sides = []*side{{name: "plain", plain: true, flags: s.flags}, tasting}
	}
	for _, side := range sides {
		side.here = checkout(filepath.Join(t.scratch, s.name+"-"+side.name))
		side.there = side.here + "-elsewhere"
		if err := t.checkOut(ctx, s, side); err != nil {
			return nil, err
		}
	}
	return sides, nil
}

func (t *tour) tellOne(ctx context.Context, s *story) (*toldStory, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	version, err := t.bazel.version(ctx)
	if err != nil {
		return nil, err
	}
	sides, err := t.sides(ctx, s)
	if err != nil {
		return nil, err
	}
	told := &toldStory{Name: s.name, Sources: s.sources[0].corpus, Bazel: version, Tests: s.tests, AsExpected: true}
	told.printTitle(t.progress)
	for _, side := range sides {
		if err := t.build(ctx, s, told, side, side.here); err != nil {
			return nil, err
		}
	}
	for i, c := range s.chapters {
		ch := &toldChapter{Title: c.title, Tells: c.tells, Expected: toldExpectation{
			Executed: names(c.expect.executed), Failed: names(c.expect.failed), Others: c.expect.others,
		}}
		ch.printBefore(t.progress, i+1, len(s.tests))
		if c.elsewhere {
			for _, side := range sides {
				if err := t.cloneElsewhere(side); err != nil {
					return nil, err
				}
				if err := t.build(ctx, s, told, side, side.there); err != nil {
					return nil, err
				}
			}
		}
		for _, side := range sides {
			played, err := t.play(ctx, s, c, side)
			if err != nil {
				return nil, fmt.Errorf("chapter %q, %s: %w", c.title, side.name, err)
			}
			if side.plain {
				ch.Plain = played
			} else {
				ch.Tasting = *played
			}
		}
		ch.Differences = c.expect.differences(&ch.Tasting)
		ch.AsExpected = len(ch.Differences) == 0
		told.AsExpected = told.AsExpected && ch.AsExpected
		told.Chapters = append(told.Chapters, ch)
		ch.printAfter(t.progress)
	}
	told.sum(s.faster)
	told.printTable(t.progress)
	return told, nil
}

// build builds a checkout before its first chapter, if its story says so.
func (t *tour) build(ctx context.Context, s *story, told *toldStory, side *side, workspace checkout) error {
	if !s.sharedObjects {
		return nil
	}
	built, err := t.bazel.build(ctx, workspace, filepath.Join(t.scratch, s.name+"-objects"), side.flags...)
	if err != nil {
		return err
	}
	told.Builds = append(told.Builds, toldBuild{filepath.Base(string(workspace)), built.took.Seconds()})
	told.printBuild(t.progress)
	return nil
}

// checkOut makes the first checkout of a side: the example's files, its fetched
// sources, the side's rule, and the way to rules_tasting.
func (t *tour) checkOut(ctx context.Context, s *story, side *side) error {
	root := filepath.Dir(t.module)
	dir := string(side.here)
	if err := copyExample(dir, filepath.Join(root, "examples", s.name), s.sources); err != nil {
		return err
	}
	for _, source := range s.sources {
		if out, err := exec.CommandContext(ctx, t.fetch, source.corpus, filepath.Join(dir, source.dir)).CombinedOutput(); err != nil {
			return fmt.Errorf("fetching %s: %w\n%s", source.corpus, err, out)
		}
	}
	if err := side.here.replace("MODULE.bazel", `path = "../.."`, fmt.Sprintf("path = %q", root)); err != nil {
		return err
	}
	if err := side.here.rewrite("MODULE.bazel", func(text string) (string, error) {
		return text + fmt.Sprintf(`
bazel_dep(name = "prebuilt_tasting")
local_path_override(
    module_name = "prebuilt_tasting",
    path = %q,
)

register_toolchains("@prebuilt_tasting//:all")
`, filepath.Join(t.scratch, "prebuilt")), nil
	}); err != nil {
		return err
	}
	if s.rule && side.plain {
		if err := side.here.replace("BUILD.bazel", tastingLoad, plainLoad); err != nil {
			return err
		}
	}
	t.servers = append(t.servers, side.here)
	// The sources are ignored where they don't belong to the repository; here they do.
	return errors.Join(
		side.here.git("init", "--quiet"),
		side.here.git("add", "--all", "--force"),
		side.here.commit("As fetched"),
	)
}

// cloneElsewhere makes the second checkout of a side, if there is none yet.
func (t *tour) cloneElsewhere(side *side) error {
	if slices.Contains(t.servers, side.there) {
		return nil
	}
	if err := side.here.git("clone", "--quiet", string(side.here), string(side.there)); err != nil {
		return err
	}
	t.servers = append(t.servers, side.there)
	return nil
}

// play brings a side into the state of a chapter and tests it.
func (t *tour) play(ctx context.Context, s *story, c chapter, side *side) (*toldSide, error) {
	workspace := side.here
	if c.elsewhere {
		workspace = side.there
	}
	if c.edit != nil {
		if err := c.edit(workspace); err != nil {
			return nil, err
		}
	}
	test := t.bazel.test
	if side.run != nil {
		test = t.bazel.tastingTest(side.run)
	}
	o, err := test(ctx, workspace, side.flags...)
	if err != nil {
		return nil, err
	}
	told := &toldSide{
		Executed: names(nil), Replayed: names(nil), Cached: names(nil), Failed: names(nil),
		Compiled: o.compiled, Seconds: o.took.Seconds(), CPU: o.cpu.Seconds(),
	}
	for _, test := range s.tests {
		r, ok := o.results[test]
		if !ok {
			return nil, fmt.Errorf("no report from Bazel of test %s", test)
		}
		list := map[verdict]*[]string{executed: &told.Executed, replayed: &told.Replayed, cached: &told.Cached}[r.verdict]
		*list = append(*list, test)
		if !r.passed {
			told.Failed = append(told.Failed, test)
		}
	}
	if len(o.results) != len(s.tests) {
		return nil, fmt.Errorf("reports from Bazel of %d tests, the story knows of %d", len(o.results), len(s.tests))
	}
	return told, nil
}

// copyExample copies what is committed of an example: not its fetched sources,
// the user's settings, or the links that Bazel makes.
func copyExample(dst, src string, sources []source) error {
	return filepath.WalkDir(src, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dst, name)
		switch {
		case slices.ContainsFunc(sources, func(s source) bool { return name == s.dir }):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(to, 0o777)
		case !d.Type().IsRegular() || name == "user.bazelrc":
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o666)
	})
}

// removeAll removes dir, write-protected directories of Bazel's included.
func removeAll(dir string) error {
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o700)
		}
		return err
	})
	return errors.Join(err, os.RemoveAll(dir))
}
