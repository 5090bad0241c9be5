package objfile

import (
	"bytes"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// isScript reports whether a linker takes the file for a linker script: text under the name of a library.
func isScript(path string, b []byte) bool {
	base := filepath.Base(path)
	library := filepath.Ext(base) == ".so" || filepath.Ext(base) == ".a" || strings.Contains(base, ".so.")
	return library && len(b) > 0 && !bytes.HasPrefix(b, []byte(arMagic)) && !bytes.HasPrefix(b, []byte(thinMagic)) &&
		utf8.Valid(b) && bytes.IndexByte(b, 0) < 0
}

// script returns the manifest of a linker script. Its Flags are the libraries that it names and the build
// may not know, as words of a link line.
func script(b []byte) *manifest.Manifest {
	h := frame.New("tasting linker script 1")
	h.Bytes(b)
	m := anySymbol(h, "(linker script)", "linker script", "a linker script can refer to any symbol")
	for _, w := range strings.FieldsFunc(string(b), func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("(),;\"'", r) }) {
		static := filepath.Ext(w) == ".a" || filepath.Ext(w) == ".o"
		if strings.HasPrefix(w, "-l") || strings.HasPrefix(w, "/") && strings.Contains(w, ".so") || static {
			m.Flags = append(m.Flags, w)
		}
	}
	return m
}
