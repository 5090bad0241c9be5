package launcher

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// What there is under a name.
const (
	isThere     = 1 << iota
	isDirectory // compilers go on
	hasPCH      // a precompiled header stands beside it
	isOdd       // compilers may stop at it, as at a link to itself
)

// look tells what there is under a name in a directory, which file it is, and its size
// and time. Units ask for thousands of names in a dozen directories, and hardly any is
// there: it lists the directories.
func (c *cache) look(dir, name string, pch bool) (state int, id [2]uint64, like [2]int64) {
	if filepath.IsAbs(name) {
		dir, name = "", name[1:]
	}
	for {
		first, rest, deeper := strings.Cut(name, "/")
		if !deeper {
			break
		}
		if !c.listed(dir, first) {
			return 0, id, like
		}
		dir, name = dir+"/"+first, rest
	}
	path := dir + "/" + name
	var st syscall.Stat_t
	err := error(syscall.ENOENT)
	if c.listed(dir, name) {
		err = syscall.Stat(path, &st)
	}
	switch {
	case err == nil:
		state = isThere
		if st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
			state |= isDirectory
		}
		id = [2]uint64{uint64(st.Dev), st.Ino}
		like = [2]int64{st.Size, st.Mtim.Sec}
	case err != syscall.ENOENT && err != syscall.ENOTDIR:
		state = isOdd
	}
	// gcc takes a precompiled header where it finds one, clang one of -include.
	if pch && (c.listed(dir, name+".gch") || c.listed(dir, name+".pch")) {
		state |= hasPCH
	}
	return state, id, like
}

// listed tells whether there may be a name in a directory.
func (c *cache) listed(dir, name string) bool {
	if name == "" || name == "." || name == ".." {
		return true
	}
	names, ok := c.dirs[dir]
	if !ok {
		names = list(dir)
		c.dirs[dir] = names
	}
	return names == nil || names[name]
}

// list returns the names in a directory: none if it isn't there, nil if it can't be
// listed.
func list(dir string) map[string]bool {
	f, err := os.Open(dir + "/")
	if os.IsNotExist(err) || errors.Is(err, syscall.ENOTDIR) {
		return map[string]bool{}
	}
	if err != nil {
		return nil
	}
	defer f.Close()
	all, err := f.Readdirnames(-1)
	if err != nil {
		return nil
	}
	names := make(map[string]bool, len(all))
	for _, n := range all {
		names[n] = true
	}
	return names
}
