package main

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A story is an example with the chapters that the tour tells about it: a file of the directory stories.
type story struct {
	name    string
	Example string   // its directory below examples/, if it isn't name
	About   string   // the project, if it isn't the first of Sources
	Sources []source // to fetch
	Flags   []string // of Bazel, on both sides
	// Loads: the example's BUILD.bazel loads tasting_cc_test by the line tastingLoad. Checkouts whose tests are
	// plain get plainLoad instead.
	Loads bool
	// Rule: one side's tests are tasting_cc_test. Otherwise the checkouts are the same, and one side's tests are run by
	// tasting test.
	Rule bool
	// Faster: all chapters together take fewer seconds than by plain Bazel.
	Faster   bool
	Chapters []chapter
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
	Corpus string // NAME@VERSION
	Dir    string
}

// A chapter brings a checkout into some state and says, before any test is
// run, which tests rules_tasting must execute there.
type chapter struct {
	Title string
	Tells string // what happens, in a sentence
	// Elsewhere is set if the chapter plays in a second checkout: another
	// directory with a clone of the first, and with a Bazel of its own that
	// knows nothing of the first one's. One chapter of a story may.
	Elsewhere bool
	// Edits change the checkout. They start from what the last chapter in the same checkout left.
	Edits  []edit
	Flags  []string // more flags of tasting test
	Expect expectation
}

// An edit changes a checkout: it runs git, or changes or writes a file.
type edit struct {
	Git  string // arguments, with blanks between them
	File string
	// Old occurs once in the file and becomes New. If it is empty, New becomes the content of the file. $SCRATCH in New
	// is the directory that the checkout is in.
	Old, New string
	// Reformat changes the layout of a C file, but no token of it.
	Reformat bool
}

// An expectation is what must happen to the tests of the side that uses
// rules_tasting.
type expectation struct {
	All      bool     `json:"all,omitempty"`      // tests are executed
	Executed []string `json:"executed,omitempty"` // otherwise; sorted
	Failed   []string `json:"failed,omitempty"`   // some of those executed; sorted
	// Others is what must happen to every test that isn't executed. Empty:
	// both replayed and cached will do.
	Others verdict `json:"others,omitempty"`
	// Says is the beginning of a line that tasting test must print.
	Says string `json:"says,omitempty"`
}

//go:embed stories/*.yaml
var files embed.FS

// read returns the story with a name.
func read(name string) *story {
	b, err := files.ReadFile("stories/" + name + ".yaml")
	s := &story{name: name}
	if err == nil {
		d := yaml.NewDecoder(bytes.NewReader(b))
		d.KnownFields(true)
		err = d.Decode(s)
	}
	if err != nil {
		panic(fmt.Sprintf("story %s: %v", name, err)) // it is a part of this program
	}
	return s
}

// steps counts what the tour waits for: checkouts, builds, and tests.
func (s *story) steps(plain bool) int {
	if s.script != "" {
		return 1
	}
	n := 2 + len(s.Chapters)
	if slices.ContainsFunc(s.Chapters, func(c chapter) bool { return c.Elsewhere }) {
		n++
	}
	if plain {
		n *= 2
	}
	return n
}

// differences compares what happened to all tests with what must happen, in sentences.
func (e *expectation) differences(tests []string, got *toldSide) []string {
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
	executed := e.Executed
	if e.All {
		executed = tests
	}
	differ("executed", got.Executed, executed)
	differ("failed", got.Failed, e.Failed)
	switch e.Others {
	case replayed:
		differ("cached", got.Cached, nil)
	case cached:
		differ("replayed", got.Replayed, nil)
	}
	if !slices.ContainsFunc(strings.Split(got.output, "\n"), func(line string) bool { return strings.HasPrefix(line, e.Says) }) {
		all = append(all, fmt.Sprintf("nothing was printed that begins with %q", e.Says))
	}
	return all
}

// apply makes an edit.
func (c checkout) apply(e *edit) error {
	switch text := strings.ReplaceAll(e.New, "$SCRATCH", filepath.Dir(string(c))); {
	case e.Git != "":
		return c.git(strings.Fields(e.Git)...)
	case e.Reformat:
		return c.rewrite(e.File, func(text string) (string, error) { return reformatC(text), nil })
	case e.Old == "":
		return os.WriteFile(filepath.Join(string(c), e.File), []byte(text), 0o666)
	default:
		return c.replace(e.File, e.Old, text)
	}
}

var indent = regexp.MustCompile("(?m)^(    )+")

// reformatC indents by tabs instead of four blanks, and puts a comment on the first line and one before each function's
// body: for sources with functions as in cJSON.
func reformatC(text string) string {
	text = indent.ReplaceAllStringFunc(text, func(blanks string) string { return strings.Repeat("\t", len(blanks)/4) })
	return "/* Reformatted, for a change. */\n\n" + strings.ReplaceAll(text, ")\n{\n", ")\n/* The tour was here. */\n{\n")
}
