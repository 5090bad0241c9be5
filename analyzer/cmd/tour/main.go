// Command tour shows what rules_tasting does, and checks it.
//
// It takes an example of this repository into two scratch checkouts. In one the tests are run by plain Bazel, in the
// other by tasting test or as tasting_cc_test, and nothing else differs. A story (type story) has the chapters. Each
// makes an edit that a developer makes, says which tests have to be executed now, has both checkouts tested, and
// prints what happened side by side.
//
// The short tour tells one story, of a small project. The long one tells all.
//
// Plain Bazel's figures are shown as they are. The other side's have to be those of the chapter, test by test.
// Where the story says so, that side also has to take less time in all. Otherwise tour ends with exit code 1.
//
// Which tests were executed is read from Bazel's build events and from the test logs (readResults). Tests that
// tasting test didn't have Bazel run are read from its file of the run.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/progress"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/cputime"
)

// stories are told in this order. The first one is the short tour, all of them are the long one.
// The last one is of tests that are clients of a service.
var stories = []*story{short, read("leveldb"), read("cjson"), read("cpp_gtest"), read("fmt"), {name: "service", script: "story.sh"}}

var short = read("short")

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
	t := tour{out: stdout}
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
	all := flags.Bool("all", false, "the long tour: all stories")
	flags.Func("story", "tell the story with this `name` (may be repeated; default: "+short.name+")", func(name string) error {
		i := slices.IndexFunc(stories, func(s *story) bool { return s.name == name })
		if i < 0 {
			return errors.New("no such story")
		}
		t.stories = append(t.stories, stories[i])
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
	if *all {
		t.stories = stories
	} else if t.stories == nil {
		t.stories = stories[:1]
	}
	if *asJSON {
		t.out = stderr
	}
	t.line = progress.On(t.out)
	told, err := t.tell(ctx)
	if err == nil && *asJSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		err = e.Encode(told)
	}
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "tour: %v\n", err)
		return exitInternal
	case slices.ContainsFunc(told, func(s *toldStory) bool { return !s.AsExpected }):
		return exitUnexpected
	}
	return exitOK
}

// A tour is one run of this program.
type tour struct {
	module, analyzer, fetch string
	parent                  string
	keep, plain             bool
	stories                 []*story
	bazel                   bazel
	out                     io.Writer
	line                    *progress.Line

	scratch string // directory of everything below
	done    int    // steps that have begun
}

// step shows what the tour waits for from now on.
func (t *tour) step(what string) {
	all := 0
	for _, s := range t.stories {
		all += s.steps(t.plain)
	}
	t.done++
	if t.line == nil {
		fmt.Fprintf(t.out, "   (step %d of %d: %s)\n", t.done, all, what)
		return
	}
	t.line.Clear() // or it wouldn't be shown right after another one
	t.line.Show("step %d of %d: %s", t.done, all, what)
}

// prepare makes the scratch directory.
func (t *tour) prepare() (err error) {
	// A path is relative to the working directory, and may be a symbolic link out of the runfiles: the module is where
	// its file really is.
	for _, path := range []*string{&t.module, &t.analyzer, &t.fetch} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		if *path, err = filepath.EvalSymlinks(abs); err != nil {
			return err
		}
	}
	if os.Getenv("HOME") == "" {
		// A Bazel test has none, but the programs that we start look there for caches and settings.
		u, err := user.Current()
		if err != nil {
			return fmt.Errorf("%w; set HOME", err)
		}
		os.Setenv("HOME", u.HomeDir)
	}
	if t.parent = cmp.Or(t.parent, os.Getenv("RULES_TASTING_CACHE")); t.parent == "" { // see bazelw
		// Not /tmp: sandboxes have a /tmp of their own, and no store in it.
		cache, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("%w; give a directory with -scratch", err)
		}
		t.parent = filepath.Join(cache, "rules_tasting")
	}
	if err := os.MkdirAll(t.parent, 0o777); err != nil {
		return err
	}
	if t.scratch, err = os.MkdirTemp(t.parent, "tasting-tour-"); err != nil {
		return err
	}
	t.scratch, err = filepath.EvalSymlinks(t.scratch)
	return err
}

// tell tells the stories in a scratch directory.
func (t *tour) tell(ctx context.Context) (told []*toldStory, err error) {
	if err := t.prepare(); err != nil {
		return nil, err
	}
	defer func() {
		t.line.Clear()
		for workspace := range t.bazel.meters {
			err = errors.Join(err, t.bazel.shutdown(workspace))
		}
		if t.keep {
			fmt.Fprintf(t.out, "\nKept: %s\n", t.scratch)
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
	begin := time.Now()
	for i, s := range t.stories {
		tell := t.tellOne
		if s.script != "" {
			tell = t.tellScript
		}
		name := fmt.Sprintf("Story %d of %d of the tour", i+1, len(t.stories))
		if len(t.stories) == 1 && s == short {
			name = "The short tour"
		}
		ts, err := tell(ctx, s, name)
		if err != nil {
			return nil, fmt.Errorf("story %s: %w", s.name, err)
		}
		told = append(told, ts)
	}
	t.line.Clear()
	fmt.Fprintf(t.out, "\nTold in %v.", time.Since(begin).Round(time.Second))
	if len(t.stories) == 1 && t.stories[0] == short {
		fmt.Fprintf(t.out, " The long tour, with larger projects: --all.")
	}
	fmt.Fprintln(t.out)
	return told, nil
}

// tellScript tells a story that is a program of its own.
func (t *tour) tellScript(ctx context.Context, s *story, name string) (*toldStory, error) {
	t.step(s.script + " of " + s.name)
	t.line.Clear()
	fmt.Fprintf(t.out, "\n%s: %s\n\n", name, s.name)
	cmd := command(ctx, checkout(t.scratch), filepath.Join(filepath.Dir(t.module), "examples", s.name, s.script))
	cmd.Env = append(cmd.Env, "TASTING="+t.analyzer, "STORY_SCRATCH="+t.scratch)
	cmd.Stdout, cmd.Stderr = t.out, t.out
	err := cmd.Run()
	told := &toldStory{Name: s.name, AsExpected: err == nil}
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 1 {
		err = nil
	}
	return told, err
}

// tellOne tells a story by its chapters.
func (t *tour) tellOne(ctx context.Context, s *story, name string) (*toldStory, error) {
	version, err := t.bazel.version(ctx)
	if err != nil {
		return nil, err
	}
	told := &toldStory{Name: s.name, About: cmp.Or(s.About, s.Sources[0].Corpus), Bazel: version, AsExpected: true}
	told.printTitle(t.out, name)
	sides, err := t.sides(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, side := range sides {
		if err := t.build(ctx, s, side, side.here); err != nil {
			return nil, err
		}
	}
	for i := range s.Chapters {
		c := &s.Chapters[i]
		ch := &toldChapter{Title: c.Title, Tells: c.Tells, Expected: c.Expect}
		t.line.Clear()
		ch.printBefore(t.out, i+1, len(told.Tests))
		if c.Elsewhere {
			for _, side := range sides {
				if err := t.cloneElsewhere(ctx, side); err != nil {
					return nil, err
				}
				if err := t.build(ctx, s, side, side.there); err != nil {
					return nil, err
				}
			}
		}
		for _, side := range sides {
			t.step(fmt.Sprintf("%s of %s, chapter %d of %d", side.title, s.name, i+1, len(s.Chapters)))
			played, err := t.play(ctx, told, c, side)
			if err != nil {
				return nil, fmt.Errorf("chapter %q, %s: %w", c.Title, side.name, err)
			}
			if side.plain {
				ch.Plain = played
			} else {
				ch.Tasting = *played
			}
		}
		ch.Differences = c.Expect.differences(told.Tests, &ch.Tasting)
		ch.AsExpected = len(ch.Differences) == 0
		told.AsExpected = told.AsExpected && ch.AsExpected
		told.Chapters = append(told.Chapters, ch)
		t.line.Clear()
		ch.printAfter(t.out)
	}
	told.sum(s.Faster)
	told.printTable(t.out, name)
	return told, nil
}

// build builds a checkout before its first chapter, with the objects that the story's first checkout has made. That
// counts for no side.
func (t *tour) build(ctx context.Context, s *story, side *side, workspace checkout) error {
	name := filepath.Base(string(workspace))
	t.step("bazel build of " + name)
	built, err := t.bazel.build(ctx, workspace, filepath.Join(t.scratch, s.name+"-objects"), side.flags...)
	if err == nil {
		t.line.Clear()
		fmt.Fprintf(t.out, "   built     %-49s %7.1f s, %5.1f CPU s\n", name, built.Seconds, built.CPU)
	}
	return err
}

// play brings a side into the state of a chapter and tests it.
func (t *tour) play(ctx context.Context, story *toldStory, c *chapter, side *side) (*toldSide, error) {
	workspace := side.here
	if c.Elsewhere {
		workspace = side.there
	}
	for i := range c.Edits {
		if err := workspace.apply(&c.Edits[i]); err != nil {
			return nil, err
		}
	}
	var told *toldSide
	var err error
	if side.run == nil {
		told, err = t.bazel.test(ctx, workspace, side.flags...)
	} else {
		told, err = t.bazel.tastingTest(ctx, workspace, slices.Concat(side.run, c.Flags), side.flags...)
	}
	if err != nil {
		return nil, err
	}
	tests := slices.Sorted(slices.Values(slices.Concat(told.Executed, told.Replayed, told.Cached)))
	if story.Tests == nil {
		story.Tests = tests
	}
	if len(tests) == 0 || !slices.Equal(tests, story.Tests) {
		return nil, fmt.Errorf("reports from Bazel of the tests %q, the story knows of %q", tests, story.Tests)
	}
	return told, nil
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
