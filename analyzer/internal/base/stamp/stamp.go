// Package stamp tells whether a file has been touched.
//
// A digest says what a file holds at the moment at which it is read. Whether it
// held the same all the time between two moments, only the file system knows: it
// gives every write, rename, replacement and change of times a new change time,
// which no program can set. So two equal stamps around a run, and the right
// digest once, say that the run has read that content.
package stamp

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Stamp is a state of a file.
type Stamp struct {
	mode     fs.FileMode
	size     int64
	dev, ino uint64
	links    uint64
	modified time.Time
	changed  time.Time
}

// Of returns the state of the file that path leads to.
func Of(path string) (Stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Stamp{}, err
	}
	return of(info), nil
}

// At returns the state of what is at path: of a symbolic link, its own.
func At(path string) (Stamp, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return Stamp{}, err
	}
	return of(info), nil
}

func of(info fs.FileInfo) Stamp {
	s := Stamp{mode: info.Mode(), size: info.Size(), modified: info.ModTime(), changed: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.dev, s.ino, s.links = uint64(st.Dev), uint64(st.Ino), uint64(st.Nlink)
		s.changed = changeTime(st)
	}
	return s
}

// Same tells whether a file with stamp s now, and t before or later, was left
// alone in between. The change time of a file with several names says nothing:
// whoever makes or removes a link to it, as sandboxes and caches do, changes it.
func (s Stamp) Same(t Stamp) bool {
	if s.links > 1 || t.links > 1 {
		s.changed, t.changed, s.links, t.links = s.modified, t.modified, 0, 0
	}
	return s.mode == t.mode && s.size == t.size && s.dev == t.dev && s.ino == t.ino && s.links == t.links &&
		s.modified.Equal(t.modified) && s.changed.Equal(t.changed)
}

// String is the same for stamps of which Same is true, and for no others.
func (s Stamp) String() string {
	if s.links > 1 {
		s.changed, s.links = s.modified, 0
	}
	return fmt.Sprintf("%o %d %d %d %d %d %d", uint32(s.mode), s.size, s.dev, s.ino, s.links, s.modified.UnixNano(), s.changed.UnixNano())
}

// Exact is String with the time of change, links or not.
func (s Stamp) Exact() string { return fmt.Sprintf("%s %d", s, s.changed.UnixNano()) }

// File is the same for all names of a file.
func (s Stamp) File() string { return fmt.Sprintf("%x-%x", s.dev, s.ino) }

// slack is how much the clock of a file system may be behind that of the program:
// times of files advance in ticks.
const slack = 100 * time.Millisecond

// coarse is the slack where times seem to have no fractions, as on some file systems.
const coarse = 2 * time.Second

// before is the time since which a time of a file means that it may have been touched at t.
func before(t, of time.Time) time.Time {
	if of.Nanosecond() == 0 {
		return t.Add(-coarse)
	}
	return t.Add(-slack)
}

// Since tells whether the file may have been touched at t or later.
func (s Stamp) Since(t time.Time) bool {
	last := s.modified
	if s.links <= 1 && s.changed.After(last) {
		last = s.changed
	}
	return !last.Before(before(t, last))
}

// Several tells whether a file has several names. Since doesn't tell whether one was made: After
// does.
func (s Stamp) Several() bool { return s.links > 1 && !s.mode.IsDir() }

// After tells whether the file was touched after t, but for the tick of the file system's
// clock, or where its times have no fractions.
func (s Stamp) After(t time.Time) bool {
	return s.changed.After(t) || s.changed.Nanosecond() == 0 && s.changed.After(t.Add(-coarse))
}

// MovedAfter tells whether a directory was moved after t: what is made or removed in
// it changes both of its times, a move the second one only. So a move doesn't show
// if something was made in the directory later.
func (s Stamp) MovedAfter(t time.Time) bool {
	return s.changed.After(before(t, s.changed)) && s.changed.After(s.modified)
}

// Kept tells whether what has state s now, and t before or later, was left alone in
// between, or as a directory at least not moved. What is made in a directory means
// nothing.
func (s Stamp) Kept(t Stamp) bool {
	if s.mode.IsDir() && t.mode.IsDir() {
		return s.dev == t.dev && s.ino == t.ino && (s.changed.Equal(t.changed) || !s.changed.After(s.modified))
	}
	return s.Same(t)
}

// IsDir tells whether it is the state of a directory.
func (s Stamp) IsDir() bool { return s.mode.IsDir() }

// IsLink tells whether it is the state of a symbolic link.
func (s Stamp) IsLink() bool { return s.mode&fs.ModeSymlink != 0 }
