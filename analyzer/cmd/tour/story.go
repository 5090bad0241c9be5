package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A story is an example with the chapters that the tour tells about it.
type story struct {
	name    string   // of its directory below examples/
	sources []source // to fetch; the first one is what it is about
	flags   []string // of Bazel, on both sides
	tests   []string // every test of the example, without "//:"; sorted
	// rule: the example's BUILD.bazel loads the rule of its tests by the line
	// tastingLoad; plain Bazel's checkouts get plainLoad instead. Without it
	// the checkouts are the same, and one side's tests are run by tasting test.
	rule bool
	// sharedObjects: each checkout is built before its first chapter, with a
	// cache of what the first of them has built. That counts for no side.
	sharedObjects bool
	// faster: all chapters together take fewer seconds than by plain Bazel.
	faster   bool
	chapters []chapter
	// script is told instead of chapters: a program beside the example's files that finds the analyzer in TASTING, makes
	// its scratch directory in STORY_SCRATCH, prints what happens, and ends with 1 if something isn't as expected.
	script string
}

const (
	tastingLoad = "\n" + `load("@rules_tasting//rules:defs.bzl", cc_test = "tasting_cc_test")`
	plainLoad   = "\n" + `load("@rules_cc//cc:defs.bzl", "cc_test")`
)

// A source is what tools/corpus/fetch.sh fetches into a directory of the example.
type source struct {
	corpus string // NAME@VERSION
	dir    string
}

// A chapter brings a checkout into some state and says, before any test is
// run, which tests rules_tasting must execute there.
type chapter struct {
	title string
	tells string // what happens, in a sentence
	// elsewhere is set if the chapter plays in a second checkout: another
	// directory with a clone of the first, and with a Bazel of its own that
	// knows nothing of the first one's.
	elsewhere bool
	// edit changes the checkout, nil doesn't. It starts from what the last chapter
	// in the same checkout left.
	edit   edit
	expect expectation
}

// An expectation is what must happen to the tests of the side that uses
// rules_tasting.
type expectation struct {
	executed []string // sorted
	failed   []string // sorted; some of those executed
	// others is what must happen to every test that isn't executed. Empty:
	// both replayed and cached will do.
	others verdict
}

// differences compares what happened with what must happen, in sentences.
func (e *expectation) differences(got *toldSide) []string {
	var all []string
	differ := func(what string, got, want []string) {
		for _, test := range got {
			if !slices.Contains(want, test) {
				all = append(all, fmt.Sprintf("%s was %s, unexpectedly", test, what))
			}
		}
		for _, test := range want {
			if !slices.Contains(got, test) {
				all = append(all, fmt.Sprintf("%s should have been %s", test, what))
			}
		}
	}
	differ("executed", got.Executed, e.executed)
	differ("failed", got.Failed, e.failed)
	switch e.others {
	case replayed:
		differ("cached", got.Cached, nil)
	case cached:
		differ("replayed", got.Replayed, nil)
	}
	return all
}

func (s *story) validate() error {
	if s.script != "" {
		return nil
	}
	if len(s.chapters) == 0 || len(s.sources) == 0 {
		return fmt.Errorf("story %s has no chapters or no sources", s.name)
	}
	known := func(names []string) error {
		if !slices.IsSorted(names) {
			return fmt.Errorf("%q isn't sorted", names)
		}
		for _, name := range names {
			if !slices.Contains(s.tests, name) {
				return fmt.Errorf("no test is called %s", name)
			}
		}
		return nil
	}
	if err := known(s.tests); err != nil {
		return fmt.Errorf("story %s: %w", s.name, err)
	}
	for _, c := range s.chapters {
		if err := errors.Join(known(c.expect.executed), known(c.expect.failed)); err != nil {
			return fmt.Errorf("story %s, chapter %q: %w", s.name, c.title, err)
		}
	}
	return nil
}

// A checkout is the directory of an example's workspace, a git repository.
type checkout string

// git runs git in the checkout.
func (c checkout) git(args ...string) error {
	cmd := exec.Command("git", append([]string{
		"-C", string(c), "-c", "user.name=tour", "-c", "user.email=tour@localhost", "-c", "commit.gpgsign=false",
	}, args...)...)
	// The caller may be a hook of another repository.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "GIT_") })
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s in %s: %w\n%s", strings.Join(args, " "), c, err, out)
	}
	return nil
}

// An edit changes a checkout.
type edit = func(checkout) error

// steps returns an edit of several steps.
func steps(edits ...edit) edit {
	return func(c checkout) error {
		for _, e := range edits {
			if err := e(c); err != nil {
				return err
			}
		}
		return nil
	}
}

func git(args ...string) edit { return func(c checkout) error { return c.git(args...) } }

// restore takes all edits of files back that are not committed.
func restore(paths ...string) edit {
	return git(slices.Concat([]string{"checkout", "--quiet", "--"}, paths)...)
}

func replace(file, old, new string) edit {
	return func(c checkout) error { return c.replace(file, old, new) }
}

// reformat changes the layout of a C file beyond recognition, but no token of it.
func reformat(file string) edit {
	return func(c checkout) error {
		return c.rewrite(file, func(text string) (string, error) { return reformatC(text), nil })
	}
}

// commit records the edits of files that are already in the repository.
func (c checkout) commit(message string) error {
	return c.git("commit", "--quiet", "--all", "--message", message)
}

// replace replaces the only occurrence of old in file.
func (c checkout) replace(file, old, new string) error {
	return c.rewrite(file, func(text string) (string, error) {
		if n := strings.Count(text, old); n != 1 {
			return "", fmt.Errorf("want one %q, found %d: the sources aren't those that the tour was written for", old, n)
		}
		return strings.Replace(text, old, new, 1), nil
	})
}

func (c checkout) rewrite(file string, change func(string) (string, error)) error {
	path := filepath.Join(string(c), file)
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := change(string(b))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if text == string(b) {
		return fmt.Errorf("%s: the edit changes nothing", path)
	}
	return os.WriteFile(path, []byte(text), 0o666)
}

// reformatC indents by tabs instead of four blanks, puts opening braces at the
// end of the line before, and comments on every function body: for sources
// whose comments are all of the /* */ kind.
func reformatC(text string) string {
	var out []string
	inComment := false
	for line := range strings.SplitSeq(text, "\n") {
		start := inComment
		if i := strings.LastIndex(line, "/*"); i >= 0 {
			inComment = true
		}
		if i := strings.LastIndex(line, "*/"); i >= 0 && i > strings.LastIndex(line, "/*") {
			inComment = false
		}
		if start || inComment {
			out = append(out, line)
			continue
		}
		rest := strings.TrimLeft(line, " ")
		line = strings.Repeat("\t", (len(line)-len(rest))/4) + rest
		if strings.TrimSpace(line) == "{" && len(out) > 0 && joinable(out[len(out)-1]) {
			if line == "{" {
				out = slices.Insert(out, len(out)-1, "/* The tour was here. */")
			}
			out[len(out)-1] += " {"
			continue
		}
		out = append(out, line)
	}
	return "/* Reformatted, for a change. */\n\n" + strings.Join(out, "\n")
}

// joinable reports whether a token may follow at the end of line.
func joinable(line string) bool {
	line = strings.TrimSpace(line)
	return line != "" && line[0] != '#' && line[len(line)-1] != '\\'
}
