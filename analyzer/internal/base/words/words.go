// Package words reads text that is a list of words: the lists in this program (of flags,
// keywords, names), response files, and the sections in which an object asks a linker for libraries.
package words

import "strings"

// Set returns the words of a text, which blanks separate.
func Set(text string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		m[w] = true
	}
	return m
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
