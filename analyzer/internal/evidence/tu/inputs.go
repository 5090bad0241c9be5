package tu

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
)

// mayReadOthers reports whether one of the files may depend on files that the preprocessor's output doesn't name.
func mayReadOthers(files map[string]bool) bool {
	for f := range files {
		if b, err := os.ReadFile(f); err == nil && lookupWords.Match(b) {
			return true
		}
	}
	return false
}

var lookupWords = lazyregexp.New(`__has_include|embed\b|\.inc`)

// DeclaredFiles returns a function that reports whether a compilation may read a file: one of names, or one below a
// directory of the compiler's.
func DeclaredFiles(names, system []string) func(string) bool {
	is := map[string]bool{}
	for _, n := range names {
		is[filepath.Clean(n)] = true
	}
	return func(name string) bool {
		name = filepath.Clean(name)
		return is[name] || slices.ContainsFunc(system, func(dir string) bool { return strings.HasPrefix(name, filepath.Clean(dir)+"/") })
	}
}

// WriteUnused writes a file with those of the listed inputs that weren't read, one per line. The last one of read is the source.
func WriteUnused(name string, listed, read []string) error {
	used := map[string]bool{}
	for _, r := range read {
		used[filepath.Clean(r)] = true
		if real, err := filepath.EvalSymlinks(r); err == nil {
			used[real] = true
		}
	}
	var unread []string
	own := map[string]bool{filepath.Clean(read[len(read)-1]): true} // of those read, the build's
	for _, line := range listed {
		if used[filepath.Clean(line)] {
			own[line] = true
		} else {
			unread = append(unread, line)
		}
	}
	if len(unread) == 0 || mayReadOthers(own) {
		unread = nil
	}
	var b strings.Builder
	for _, line := range unread {
		b.WriteString(line + "\n")
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
