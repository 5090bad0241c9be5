package linkflags

import (
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
)

// maxDepth is how deep response files may be nested.
const maxDepth = 16

// expand replaces response files (@FILE) by their words. The name of one that can't be read stays.
func (p *parser) expand(args []string, depth int) []string {
	var out []string
	for _, a := range args {
		name, ok := strings.CutPrefix(a, "@")
		if !ok || name == "" {
			out = append(out, a)
			continue
		}
		if depth < maxDepth && p.options.Open != nil {
			if b, err := p.options.Open(name); err == nil {
				out = append(out, p.expand(words.Split(string(b)), depth+1)...)
				continue
			}
		}
		p.markUnusual("response file " + a + " can't be read")
		out = append(out, a)
	}
	return out
}

// toLinker returns words for a driver that pass words on to the linker.
func toLinker(words ...string) []string {
	if !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, ",") || w == "" }) {
		return []string{"-Wl," + strings.Join(words, ",")}
	}
	var out []string
	for _, w := range words {
		out = append(out, "-Xlinker", w)
	}
	return out
}
