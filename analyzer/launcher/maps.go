package launcher

import (
	"os"
	"path/filepath"
	"regexp"

	"github.com/cespare/xxhash/v2"
)

// external matches a declaration of a module that another map has.
var external = regexp.MustCompile(`extern module (?:"[^"]*"|[A-Za-z0-9_.]+) "([^"]+)"`)

// allMaps returns the module maps of the command line, and those that they name.
func (u *unit) allMaps() (files []string) {
	seen := map[string]bool{}
	var add func(file string)
	add = func(file string) {
		if seen[file] {
			return
		}
		seen[file] = true
		files = append(files, file)
		b, err := os.ReadFile(file)
		if err != nil {
			return // whoever reads it again sees that
		}
		for _, m := range external.FindAllSubmatch(b, -1) {
			next := string(m[1])
			if !u.home && !filepath.IsAbs(next) {
				next = filepath.Join(filepath.Dir(file), next)
			}
			add(next)
		}
	}
	for _, f := range u.maps {
		add(f)
	}
	return files
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
