package words

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// Sections in which an object requests libraries, by #pragma comment(lib).
const (
	DependentLibraries = ".deplibs"
	LinkerOptions      = ".linker-options"
)

// Directives returns what an object asks a linker for in the section of a name,
// as words of a link's line. What isn't understood is a flag that nobody knows. A
// linker that doesn't know such sections passes them over.
func Directives(section string, content []byte) (words []string) {
	if len(content) == 0 {
		return nil
	}
	l := strings.Split(string(bytes.TrimSuffix(content, []byte{0})), "\x00")
	switch section {
	case DependentLibraries:
		for _, name := range l {
			words = append(words, directive(name))
		}
	case LinkerOptions: // pairs of a kind and a value
		for i := 0; i < len(l); i += 2 {
			if l[i] == "lib" && i+1 < len(l) {
				words = append(words, directive(l[i+1]))
			} else {
				words = append(words, "--directive="+strings.Join(l[i:min(i+2, len(l))], ","))
			}
		}
	default:
		words = []string{"--directive=" + section}
	}
	return words
}

// directive requests a library as an object does: by its name, by the name of its
// file, or by a path.
func directive(name string) string {
	switch {
	case strings.Contains(name, "/") && !strings.HasPrefix(name, "-"):
		return name
	case Linkable(name):
		return "-l:" + name
	}
	return "-l" + name
}

// Linkable reports whether a file has the name of an object, an archive or a shared library.
func Linkable(name string) bool {
	base := path.Base(name)
	return slices.Contains([]string{".o", ".obj", ".lo", ".a", ".la", ".lib", ".rlib", ".so", ".ifso"}, path.Ext(base)) || strings.Contains(base, ".so.")
}
