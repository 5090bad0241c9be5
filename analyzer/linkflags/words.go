package linkflags

import (
	"strings"
)

// maxDepth is how deep response files may be nested.
const maxDepth = 16

// expand replaces the names of response files (@FILE) by what is in them. One
// that can't be read stays: it is then the name of a file that starts with @.
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
				out = append(out, p.expand(Split(string(b)), depth+1)...)
				continue
			}
		}
		p.unusual("response file " + a + " can't be read")
		out = append(out, a)
	}
	return out
}

// Split splits the text of a response file as GNU programs and LLVM's do: at
// white space, with quotes of both kinds, and a backslash before any character.
func Split(s string) []string {
	var words []string
	var w strings.Builder
	in, quote := false, byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s):
			i++
			w.WriteByte(s[i])
			in = true
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				w.WriteByte(c)
			}
		case c == '\'' || c == '"':
			quote, in = c, true
		case strings.IndexByte(" \t\n\v\f\r", c) >= 0:
			if in {
				words = append(words, w.String())
				w.Reset()
			}
			in = false
		default:
			w.WriteByte(c)
			in = true
		}
	}
	if in {
		words = append(words, w.String())
	}
	return words
}

// toLinker returns how a driver is told to pass words on.
func toLinker(words ...string) []string {
	for _, w := range words {
		if strings.Contains(w, ",") || w == "" {
			var out []string
			for _, w := range words {
				out = append(out, "-Xlinker", w)
			}
			return out
		}
	}
	return []string{"-Wl," + strings.Join(words, ",")}
}
