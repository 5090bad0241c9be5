package stamp

import (
	"os"
	"strings"
	"syscall"
)

// A Trail is the directories and symbolic links that lead to files. If a path is made to
// lead elsewhere and back, the file at its end doesn't show it. But a link that was
// replaced has another change time, and so has a directory that was moved (see MovedAfter).
//
// Each place is looked at once.
type Trail map[string]*step

type step struct {
	stamp Stamp
	to    string // of a link
	err   error
}

// maxLinks is how many links may be on the way to a file, as in Linux.
const maxLinks = 40

// Follow calls way for each directory and link on the way from dir, a path without links, to the file at
// rest, in order. It returns the path of the file without links, and its state.
func (t Trail) Follow(dir, rest string, way func(place string, s Stamp)) (real string, s Stamp, err error) {
	links := 0
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		switch name {
		case "", ".":
			continue
		case "..":
			dir = dir[:max(strings.LastIndexByte(dir, '/'), 0)]
			continue
		}
		place := dir + "/" + name
		x := t.look(place)
		switch {
		case x.err != nil:
			return "", Stamp{}, x.err
		case !x.stamp.IsLink():
			if dir = place; strings.Trim(rest, "/") != "" {
				way(place, x.stamp)
			}
			continue
		case links == maxLinks:
			return "", Stamp{}, &os.PathError{Op: "follow", Path: place, Err: syscall.ELOOP}
		}
		way(place, x.stamp)
		links++
		if strings.HasPrefix(x.to, "/") {
			dir = ""
		}
		rest = x.to + "/" + rest
	}
	if x := t[dir]; x != nil {
		s = x.stamp
	}
	return dir, s, nil
}

func (t Trail) look(place string) *step {
	x := t[place]
	if x == nil {
		x = new(step)
		if x.stamp, x.err = At(place); x.stamp.IsLink() {
			x.to, x.err = os.Readlink(place)
		}
		t[place] = x
	}
	return x
}

// Walk follows path, and if it leads to a directory, everything below it, also
// through links. It calls way for the places on the way, and what for the files and directories
// that path leads to. It skips directories that are in seen, and links to nowhere.
func (t Trail) Walk(path string, seen map[string]bool, way, what func(place string, s Stamp)) {
	t.walk("", path, seen, way, what)
}

func (t Trail) walk(dir, path string, seen map[string]bool, way, what func(place string, s Stamp)) {
	real, s, err := t.Follow(dir, path, way)
	if err != nil || seen[real] {
		return
	}
	what(real, s)
	if !s.IsDir() {
		return
	}
	seen[real] = true
	entries, err := os.ReadDir(real)
	if err != nil {
		return
	}
	for _, e := range entries {
		t.walk(real, e.Name(), seen, way, what)
	}
}
