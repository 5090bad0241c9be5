package launcher

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/lazyregexp"
)

// external matches a declaration of a module that another map has.
var external = lazyregexp.New(`extern\s+module\s+(?:"[^"]*"|[A-Za-z0-9_.]+)\s+"([^"]+)"`)

// unclear are words and signs outside of quotes with which a map says more of files than their names, or may hide a
// declaration.
var unclear = [][]byte{[]byte("umbrella"), []byte("//"), []byte("/*")}

// moduleMap is a file that says which header is of which module.
type moduleMap struct {
	file    string
	headers []string // that it names, but for those of absolute names, which are the toolchain's
	unclear bool
}

// allMaps returns the module maps of the command line, those that they name, and those that clang
// looks for beside them.
func (u *unit) allMaps() []moduleMap {
	if u.moduleMaps != nil {
		return u.moduleMaps
	}
	seen := map[string]bool{}
	var add func(file string)
	add = func(file string) {
		if seen[file] {
			return
		}
		seen[file] = true
		b, err := os.ReadFile(file)
		m := moduleMap{file: file}
		if err != nil {
			u.moduleMaps = append(u.moduleMaps, m) // whoever hashes it sees that
			return
		}
		dir := dirOf(file) + "/"
		if u.home {
			dir = ""
		}
		from := func(name string) string {
			if filepath.IsAbs(name) {
				return name
			}
			return dir + name // not cleaned: links may be on the way
		}
		var outside []byte
		for i, part := range bytes.Split(b, []byte(`"`)) {
			if i%2 == 0 {
				outside = append(outside, part...)
			} else if len(part) > 0 && part[0] != '/' {
				m.headers = append(m.headers, from(string(part)))
			}
		}
		others := external.FindAllSubmatch(b, -1)
		m.unclear = bytes.Count(outside, []byte("extern")) != len(others) || bytes.Contains(b, []byte(`\`))
		for _, w := range unclear {
			m.unclear = m.unclear || bytes.Contains(outside, w)
		}
		u.moduleMaps = append(u.moduleMaps, m)
		for _, o := range others {
			add(from(string(o[1])))
		}
		if name := filepath.Base(file); name == "module.modulemap" || name == "module.map" {
			add(dirOf(file) + "/module.private.modulemap")
			add(dirOf(file) + "/module_private.map")
		}
	}
	for _, f := range u.maps {
		add(f)
	}
	return u.moduleMaps
}

// hashMap hashes a module map. One that isn't there has a hash as well: a sandbox
// has no maps but those of direct dependencies, and clang does without.
func hashMap(file string) uint64 {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	return xxhash.Sum64(b)
}

// hashMapped writes which of the files that maps name are there, and which of the files that were found they are:
// that decides which module a header is of.
func (u *unit) hashMapped(h io.Writer, inodes map[[2]uint64]int) {
	for _, m := range u.allMaps() {
		for _, name := range m.headers {
			var st syscall.Stat_t
			number := -1
			if syscall.Stat(name, &st) == nil {
				number = inodes[[2]uint64{uint64(st.Dev), st.Ino}]
			}
			fmt.Fprintf(h, "%s %d\x00", name, number)
		}
	}
}
