// Package wordset makes sets of words out of text, for the lists in this program: of flags,
// keywords, names.
package wordset

import "strings"

// Of returns the words of a text, which blanks separate.
func Of(text string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		m[w] = true
	}
	return m
}
