// Package symname knows what compilers do with names of symbols.
package symname

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// PieceOf returns the name of the function that a compiler has split a piece from, if the name is that of one.
// Compilers jump into the middle of pieces, and back, so that entries say little of them.
func PieceOf(name string) (string, bool) {
	if strings.IndexByte(name, '.') < 0 { // most names, quickly
		return "", false
	}
	for _, mark := range []string{".cold", ".__part."} {
		if i := strings.LastIndex(name, mark); i > 0 && strings.Trim(name[i+len(mark):], ".0123456789") == "" {
			return name[:i], true
		}
	}
	return "", false
}

// Printable returns a name as it can be stored in a manifest: assemblers allow any bytes.
func Printable(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strconv.QuoteToASCII(name)
}
