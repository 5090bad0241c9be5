// Package linkflags parses the command line of a link. It is the one place that decides what a flag means.
//
// # Input and output
//
// The input is the words of a driver's line. The output is a Line: the files and libraries, each with the state in which it
// is linked, the flags that are part of a test's key, and reasons why the link is unusual. For example,
//
//	gcc -o t t.o -Wl,--as-needed -lz -Wl,-Map,t.map,--wrap=f
//
// has the items t.o and -lz, the second with AsNeeded, the flags -Wl,--Map=t.map and -Wl,--wrap=f, and the reason --wrap=f.
//
// # Two programs, two languages
//
// The line is read by a compiler driver (gcc, clang), which translates some flags, passes on others (-Wl, -Xlinker), and
// keeps the order of files and libraries. What it passes on is read by a linker, for which -B or -E means something else.
// So a line is read in two steps, by two tables (flags.go): the first step makes the linker's line.
//
// # Effects
//
// A table has for each flag its effect:
//   - ignore: no program can see it, and no linker refuses it.
//   - record: its text is in Line.Flags, and so in the key of a test.
//   - recordSystem: in addition, it decides which files of the system are opened.
//   - setState: it decides how the items after it are linked (State).
//   - recordUnusual: its text is recorded and a reason in Line.Unusual. The whole link is then hashed by content.
//
// A flag that is in no table is unusual. So a missing flag costs a run, never a wrong result.
//
// # What isn't on the line
//
// The driver adds files and flags, which differ between installations. Line.Probe returns a line that shows them: see
// package syslib.
package linkflags

import "strings"

// Line is the command line of a link.
type Line struct {
	// Items are the files and libraries, in order.
	Items []Item
	// Flags are the recorded flags, in order, each meaning in one spelling. They have no outputs and no items. Parse reads
	// them again.
	Flags []string
	// Blobs are the files that are linked as data (--format=binary).
	Blobs []string
	// Unusual are the reasons why all that is linked is hashed by content, in its order.
	Unusual []string
	// RunPath are the directories of -rpath.
	RunPath []string
	// Soname is the DT_SONAME of a shared library, or empty.
	Soname string
	// GCSections is set by --gc-sections, NoUndefined if undefined symbols of a shared library may be errors (-z defs).
	GCSections, NoUndefined bool
	// Bsymbolic is set by -Bsymbolic.
	Bsymbolic bool
	// Linker is "bfd", "gold", "lld" or "mold", or "" for the driver's default.
	Linker string
	// Static is set by -static and -static-pie.
	Static bool
	// Shared is set if the output is a shared library.
	Shared bool

	// system are the recordSystem flags, driver those of them that are for the driver.
	system, driver []string
	// end is the state at the end of the line, in which the driver's own libraries are linked.
	end State
}

// Item is a file or a library on the line.
type Item struct {
	Kind Kind
	// Name is a path, or the value of -l, in which ":" is followed by the name of a file.
	Name string
	// Built is the path of the file if the build makes or knows it.
	Built string
	State
}

// Kind is the kind of an Item.
type Kind uint8

const (
	// File is an object, an archive, a shared library or a linker script.
	File Kind = iota
	// Library is a library that is searched for (-l).
	Library
)

// State is how an item is linked, by the flags before it.
type State struct {
	WholeArchive bool
	// AsNeeded is Yes if the linker leaves out a shared library that nothing needs. By Default some distributions' drivers
	// pass --as-needed.
	AsNeeded Choice
	// Static is set by -Bstatic: only archives are searched for.
	Static bool
	// Lazy is set by --start-lib: objects are linked on demand, like members of archives.
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

// Options are facts that aren't on a line.
type Options struct {
	// Open reads a response file (@FILE). Without it none can be read.
	Open func(path string) ([]byte, error)
	// Built reports whether the build makes or knows the file at a path, so that its content is hashed elsewhere. It isn't
	// called for an output of the build that is on the line by its path.
	Built func(path string) bool
}

// FillIn sets the driver's defaults in l: the linker ("" if it isn't known), and --as-needed (or Default).
func (l *Line) FillIn(linker string, asNeeded Choice) {
	if l.Linker == "" {
		l.Linker = linker
	}
	fill := func(s *State) {
		if s.AsNeeded == Default {
			s.AsNeeded = asNeeded
		}
	}
	for i := range l.Items {
		fill(&l.Items[i].State)
	}
	fill(&l.end)
}
