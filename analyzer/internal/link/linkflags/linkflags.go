// Package linkflags says what the command line of a link means: it is the one
// place that decides about a flag.
//
// # Two programs, two languages
//
// The line is that of a compiler driver (gcc, clang), which translates some
// flags, passes on others (-Wl, -Xlinker), and keeps the order of files and
// libraries. What it passes on is read by a linker, which has flags of its own:
// a -B or -E means something else there. So a line is read in two steps, by two
// tables (flags.go): the driver's makes of it the line that the linker gets.
//
// # Tables
//
// Each of the two has a table of the flags that it knows. A flag is
//   - harmless: it changes nothing that a program can see, and no linker refuses it,
//   - counted: its text is in Flags, and so in the key of a test,
//   - of the system: it counts, and decides which files of the system are opened as well,
//   - state: it says how the items after it are linked (State),
//   - unusual: it counts, and is a reason in Unusual. The program then counts as a whole.
//
// A flag that is in no table is unusual. To forget a flag costs a run, never a wrong result.
//
// # What isn't on the line
//
// The driver adds files and flags of its own, which differ from one installation
// to the next. Line.Probe is the line that shows them: see package syslib.
package linkflags

import "strings"

// Line is what the command line of a link says.
type Line struct {
	// Items are the files and libraries, in order.
	Items []Item
	// Flags are those that count, in order and in one spelling for each meaning:
	// without outputs and what Items say. Parse reads them again.
	Flags []string
	// Blobs are the files that are linked as they are, whatever they are called (--format=binary).
	Blobs []string
	// Unusual has the words and files that no table calls ordinary: all that is linked counts
	// then, in its order.
	Unusual []string
	// RunPath are the directories in which the loader is told to look for libraries.
	RunPath []string
	// Soname is the name under which a loader is to know a shared library, or empty.
	Soname string
	// GCSections says that sections are dropped that nothing refers to, NoUndefined that undefined
	// symbols of a shared library may be errors.
	GCSections, NoUndefined bool
	// Bsymbolic says that references of a shared library to its own definitions are bound to them.
	Bsymbolic bool
	// Linker is "bfd", "gold", "lld" or "mold", or "" if it is the driver's
	// default.
	Linker string
	// Static is set if the driver was asked for a static program.
	Static bool
	// Shared is set if the result is a shared library.
	Shared bool

	// system are the Flags that decide which files of the system are opened, and
	// driver those of them that are for the driver.
	system, driver []string
	// end is the state at the end: in it the driver's own libraries are linked.
	end State
}

// Item is a file or a library on the line.
type Item struct {
	Kind Kind
	// Name is a path, or what follows -l, which starts with ":" if it is the
	// name of a file.
	Name string
	// Built is the path of the file if it is among those that the build makes or
	// knows.
	Built string
	State
}

// Kind says what the name of an Item is.
type Kind uint8

const (
	// File is an object, an archive, a shared library or a linker script.
	File Kind = iota
	// Library is searched for.
	Library
)

// State is what flags before an item say about it.
type State struct {
	WholeArchive bool
	// AsNeeded says whether a shared library is left out if nothing needs it.
	// Some distributions' drivers do so by Default.
	AsNeeded Choice
	// Static is set if only archives are searched for.
	Static bool
	// Lazy is set for objects that are taken as members of an archive are.
	Lazy bool
	// Group is the number of the group, from 1, or 0 outside of groups.
	Group int
}

// String returns s in words.
func (s State) String() string {
	var words []string
	for _, w := range []struct {
		on   bool
		word string
	}{{s.Static, "static"}, {s.AsNeeded == Yes, "as-needed"}, {s.AsNeeded == No, "needed"}, {s.WholeArchive, "whole"}, {s.Lazy, "lazy"}, {s.Group > 0, "group"}} {
		if w.on {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, " ")
}

// Choice is yes, no, or left to the driver.
type Choice uint8

const (
	Default Choice = iota
	Yes
	No
)

// Options is what a line doesn't say.
type Options struct {
	// Open reads a response file: @FILE. Without it none can be read.
	Open func(path string) ([]byte, error)
	// Built tells whether the build makes or knows the file at a path: then its
	// content counts elsewhere. Of files that the line names by a path, outputs
	// are known in any case.
	Built func(path string) bool
}

// FillIn says what l leaves to the driver: which linker it calls, and whether it passes
// --as-needed. Both may be unknown: "" and Default.
func (l *Line) FillIn(linker string, asNeeded Choice) {
	if l.Linker == "" {
		l.Linker = linker
	}
	for i := range l.Items {
		if l.Items[i].AsNeeded == Default {
			l.Items[i].AsNeeded = asNeeded
		}
	}
	if l.end.AsNeeded == Default {
		l.end.AsNeeded = asNeeded
	}
}
