// Command suite runs tests of an upstream project with plain `bazel test` and
// with `tasting test`, side by side in one run: cold, unchanged, after a comment
// in a header of all, and, with this comment, after a change of one function.
//
//	go run ./bench/suite -tasting PATH -workspace DIR TARGETS
//
// DIR is what suites/prepare.sh makes. Both sides have an output base of their
// own, which is removed at the end; sources are put back as they were.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/bazel"
)

// edit is a change of one file.
type edit struct{ name, file, before, after string }

var edits = []edit{
	{"cold", "", "", ""},
	{"unchanged", "", "", ""},
	{"comment in absl/base/macros.h", "abseil/absl/base/macros.h", "// File: macros.h", "// This file: macros.h"},
	{"EqualsIgnoreCase in absl/strings/match.cc", "abseil/absl/strings/match.cc", "(piece1.size() == piece2.size() &&", "(piece1.size() - piece2.size() == 0 &&"},
}

// side is one way to run tests.
type side struct {
	name    string
	program string
	args    []string // in front of the targets
}

// counts of one run.
type counts struct {
	tests, executed, replayed, compiled int
	wall                                time.Duration
}

func main() {
	tasting := flag.String("tasting", "tasting", "PATH of the program")
	workspace := flag.String("workspace", "", "DIR that suites/prepare.sh made")
	scratch := flag.String("scratch", os.TempDir(), "DIR for outputs; not /tmp with Bazel's sandbox")
	flag.Parse()
	if err := run(*tasting, *workspace, *scratch, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(1)
	}
}

func run(tasting, workspace, scratch string, targets []string) (err error) {
	if workspace == "" || len(targets) == 0 {
		return errors.New("want -workspace=DIR and targets")
	}
	dir, err := os.MkdirTemp(scratch, "suite-")
	if err != nil {
		return err
	}
	sides := []side{
		{"bazel test", "bazel", []string{"--output_base=" + dir + "/plain", "test"}},
		{"tasting test", tasting, []string{"test", "--bazel_startup=--output_base=" + dir + "/tasting", "--store=" + dir + "/store", "--runs_dir=" + dir + "/runs", "--audit=0"}},
	}
	defer func() {
		for _, name := range []string{"plain", "tasting"} {
			stop := exec.Command("bazel", "--output_base="+filepath.Join(dir, name), "shutdown")
			stop.Dir = workspace
			stop.Run()
		}
		filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				os.Chmod(p, 0o777) // Bazel's outputs are read-only
			}
			return nil
		})
		os.RemoveAll(dir)
	}()
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "\ttests\texecuted\treplayed\tcompiled\twall")
	var undos []func() error
	defer func() {
		for _, undo := range undos {
			err = errors.Join(err, undo())
		}
	}()
	for _, e := range edits {
		undo, err := e.apply(workspace)
		if err != nil {
			return err
		}
		undos = append(undos, undo)
		for _, s := range sides {
			c, err := s.run(workspace, dir, targets)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", e.name, s.name, err)
			}
			fmt.Fprintf(w, "%s: %s\t%d\t%d\t%d\t%d\t%.1f s\n", e.name, s.name, c.tests, c.executed, c.replayed, c.compiled, c.wall.Seconds())
			w.Flush()
		}
	}
	return nil
}

// apply makes the edit, and returns how to take it back.
func (e edit) apply(workspace string) (undo func() error, err error) {
	if e.file == "" {
		return func() error { return nil }, nil
	}
	name := filepath.Join(workspace, e.file)
	old, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(string(old), e.before) {
		return nil, fmt.Errorf("%s has no %q: it is another version", name, e.before)
	}
	return func() error { return os.WriteFile(name, old, 0o666) }, os.WriteFile(name, []byte(strings.Replace(string(old), e.before, e.after, 1)), 0o666)
}

var replays = regexp.MustCompile(`(?m)^Executed \d+ out of (\d+) tests?(?:, (\d+) replayed)?`)

// run tests once and counts. A test that fails is an error: these pass.
func (s side) run(workspace, dir string, targets []string) (c counts, err error) {
	events := filepath.Join(dir, "events.json")
	os.Remove(events)
	args := append(append([]string{}, s.args...), "--build_event_json_file="+events, "--keep_going", "--")
	cmd := exec.CommandContext(context.Background(), s.program, append(args, targets...)...)
	cmd.Dir = workspace
	cmd.Stderr = os.Stderr
	start := time.Now()
	out, err := cmd.Output()
	c.wall = time.Since(start)
	if err != nil {
		return c, fmt.Errorf("%w\n%s", err, out)
	}
	m := replays.FindSubmatch(out)
	if m == nil {
		return c, fmt.Errorf("no summary:\n%s", out)
	}
	fmt.Sscan(string(m[1]), &c.tests)
	fmt.Sscan(string(m[2]), &c.replayed)
	executed := map[string]bool{} // of several shards, too
	err = bazel.ReadEvents(events, func(e *bazel.Event) error {
		if e.TestResult != nil && !e.TestResult.CachedLocally {
			executed[e.ID.TestResult.Label] = true
		}
		for _, a := range e.BuildMetrics.ActionSummary.ActionData {
			if a.Mnemonic == "CppCompile" {
				n, _ := a.ActionsExecuted.Int64()
				c.compiled += int(n)
			}
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) && s.name == "tasting test" {
		err = nil // nothing was left for Bazel
	}
	c.executed = len(executed)
	return c, err
}
