// Package evolve checks tools that select tests, ours among them, as RTSCheck does (Zhu, Legunsen,
// Shi, Gligoric; ICSE 2019): evolving programs go through every tool, revision after revision, and
// rules turn what each tool has selected and seen into likely violations of safety, precision and
// generality.
//
// # What goes through
//
// A Program is a sequence of revisions of code and tests. It may be generated (package autoep),
// or be of a repository (DefectsEP and EvoEP, by `tasting evaluate`).
//
// # Who selects
//
// A Tool runs a revision: it may keep what it likes from earlier ones, and tells which tests it has
// executed. Builds are shared by all tools: what differs is what they know, not what compilers make.
//
// # Who judges
//
// RetestAll executes everything, so that it is known what each test does in each revision. Rules
// compare the other tools with that, test by test.
package evolve

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Program is an evolving program: revisions of code and tests, in their order (the paper, II.A).
type Program struct {
	// Name identifies it, Mode says what it was made by: "JD4+E3". Both are for reports.
	Name, Mode string
	Revisions  []*Revision
}

// Revision is one state of a program. It is plain data: equal revisions are the same.
type Revision struct {
	// Files are all files, sources and data, by their slash-separated paths.
	Files map[string]string
	// Libraries are what tests link.
	Libraries []Library
	// Tests are programs of their own, as cc_tests are.
	Tests []Test
	// Flags are those of all compilations, behind the ones of the configuration.
	Flags []string
}

// Library is an archive or a shared library.
type Library struct {
	Name    string
	Sources []string
	// Deps are names of libraries that it needs.
	Deps []string
	// Shared libraries are loaded; others are archives.
	Shared bool
	// Flags are those of its compilations alone, behind Revision.Flags.
	Flags []string
}

// Test is a program that prints what it sees and exits with 0, or fails.
type Test struct {
	Name    string
	Sources []string
	// Deps are names of libraries, in the order of the link.
	Deps []string
	// Data are files that it may read, by the paths in Files, which are those at run time as well.
	Data []string
	Args []string
}

// IsCXX reports whether a source is C++, by its name.
func IsCXX(source string) bool { return path.Ext(source) != ".c" }

// Validate says what is wrong with a revision, if that can be told without a compiler.
func (r *Revision) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for name := range r.Files {
		if path.Clean(name) != name || strings.HasPrefix(name, "/") || strings.HasPrefix(name, "..") {
			wrong("file %q: want a path like lib/a.cc", name)
		}
	}
	libraries := map[string]bool{}
	sources := func(of string, list []string) {
		for _, s := range list {
			if _, ok := r.Files[s]; !ok {
				wrong("%s: there is no file %s", of, s)
			}
			if !slices.Contains([]string{".c", ".cc"}, path.Ext(s)) {
				wrong("%s: %s is neither .c nor .cc", of, s)
			}
		}
	}
	for _, l := range r.Libraries {
		sources("library "+l.Name, l.Sources)
		for _, d := range l.Deps {
			if !libraries[d] {
				wrong("library %s: %s isn't a library in front of it", l.Name, d)
			}
		}
		if libraries[l.Name] {
			wrong("two libraries %s", l.Name)
		}
		libraries[l.Name] = true
	}
	tests := map[string]bool{}
	for _, t := range r.Tests {
		sources("test "+t.Name, t.Sources)
		for _, d := range t.Deps {
			if !libraries[d] {
				wrong("test %s: there is no library %s", t.Name, d)
			}
		}
		for _, d := range t.Data {
			if _, ok := r.Files[d]; !ok {
				wrong("test %s: there is no file %s", t.Name, d)
			}
		}
		if tests[t.Name] {
			wrong("two tests %s", t.Name)
		}
		tests[t.Name] = true
	}
	return errors.Join(errs...)
}
