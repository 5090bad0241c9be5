// Package stamp finds out whether a file has been touched.
//
// A digest describes the content of a file at the moment when it is read. Only the
// file system knows whether the file had that content all the time between two
// moments: every write, rename, replacement and change of times sets the change time
// (ctime), which no program can choose. So if the stamps before and after a run are
// equal, and the digest is right once, the run has read that content.
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
	return of(os.Stat(path))
}

// At returns the state of the file at path, without following a symbolic link.
func At(path string) (Stamp, error) {
	return of(os.Lstat(path))
}

func of(info fs.FileInfo, err error) (Stamp, error) {
	if err != nil {
		return Stamp{}, err
	}
	s := Stamp{mode: info.Mode(), size: info.Size(), modified: info.ModTime(), changed: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.dev, s.ino, s.links = uint64(st.Dev), uint64(st.Ino), uint64(st.Nlink)
		s.changed = changeTime(st)
	}
	return s, nil
}

// Same reports whether a file with stamp s now, and t before or later, was left
// alone in between. It ignores the change time of a file with several names:
// making or removing a hard link, as sandboxes and caches do, changes it.
func (s Stamp) Same(t Stamp) bool {
	if s.links > 1 || t.links > 1 {
		s.changed, t.changed, s.links, t.links = s.modified, t.modified, 0, 0
	}
	return s.mode == t.mode && s.size == t.size && s.dev == t.dev && s.ino == t.ino && s.links == t.links &&
		s.modified.Equal(t.modified) && s.changed.Equal(t.changed)
}

// String returns equal strings for two stamps if and only if Same holds for them.
func (s Stamp) String() string {
	if s.links > 1 {
		s.changed, s.links = s.modified, 0
	}
	return fmt.Sprintf("%o %d %d %d %d %d %d", uint32(s.mode), s.size, s.dev, s.ino, s.links, s.modified.UnixNano(), s.changed.UnixNano())
}

// Exact is like String, but has the change time of a file with several names as well.
func (s Stamp) Exact() string { return fmt.Sprintf("%s %d", s, s.changed.UnixNano()) }

// File identifies the file: it is the same for all names of it.
func (s Stamp) File() string { return fmt.Sprintf("%x-%x", s.dev, s.ino) }

// slack is how much the clock of a file system may be behind the program's clock:
// times of files advance in ticks.
const slack = 100 * time.Millisecond

// coarse is the slack where times seem to have no fractions, as on some file systems.
const coarse = 2 * time.Second

// before returns the earliest time that a file touched at t may have, given one of the file's times.
func before(t, of time.Time) time.Time {
	if of.Nanosecond() == 0 {
		return t.Add(-coarse)
	}
	return t.Add(-slack)
}

// Since reports whether the file may have been touched at t or later.
func (s Stamp) Since(t time.Time) bool {
	last := s.modified
	if s.links <= 1 && s.changed.After(last) {
		last = s.changed
	}
	return !last.Before(before(t, last))
}

// Several reports whether a file has several names. Since ignores that a name was made; After
// doesn't.
func (s Stamp) Several() bool { return s.links > 1 && !s.mode.IsDir() }

// After reports whether the file was touched after t. It may miss a change within one tick of the
// file system's clock. If times have no fractions, it allows for that.
func (s Stamp) After(t time.Time) bool {
	return s.changed.After(t) || s.changed.Nanosecond() == 0 && s.changed.After(t.Add(-coarse))
}

// MovedAfter reports whether a directory was moved after t. Making or removing a file in
// it sets its modification and change times, a move the change time only. So a move
// is missed if a file was made in the directory later.
func (s Stamp) MovedAfter(t time.Time) bool {
	return s.changed.After(before(t, s.changed)) && s.changed.After(s.modified)
}

// Kept reports whether a file with state s now, and t before or later, was left alone in
// between. A directory must not have been moved; files may have been made in it.
func (s Stamp) Kept(t Stamp) bool {
	if s.mode.IsDir() && t.mode.IsDir() {
		return s.dev == t.dev && s.ino == t.ino && (s.changed.Equal(t.changed) || !s.changed.After(s.modified))
	}
	return s.Same(t)
}

// IsDir reports whether it is the state of a directory.
func (s Stamp) IsDir() bool { return s.mode.IsDir() }

// IsLink reports whether it is the state of a symbolic link.
func (s Stamp) IsLink() bool { return s.mode&fs.ModeSymlink != 0 }
