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

// isScript reports whether a linker that is given the file takes it for a
// script: the text that it finds under the name of a library.
func isScript(path string, b []byte) bool {
	base := filepath.Base(path)
	library := filepath.Ext(base) == ".so" || filepath.Ext(base) == ".a" || strings.Contains(base, ".so.")
	return library && len(b) > 0 && !bytes.HasPrefix(b, []byte(arMagic)) && !bytes.HasPrefix(b, []byte(thinMagic)) &&
		utf8.Valid(b) && bytes.IndexByte(b, 0) < 0
}

// script returns the manifest of a linker script: a root that may refer to any
// symbol. Its Flags are the libraries that it names and that the build may not
// know, as the command line of a link would name them.
func script(b []byte) *manifest.Manifest {
	h := frame.New("tasting linker script 1")
	h.Bytes(b)
	c := &manifest.Component{
		Name: "(linker script)", Kind: manifest.Kind_KIND_FILE, Linkage: manifest.Linkage_LINKAGE_LOCAL, LocalHash: h.Sum128(),
		Root: "linker script", Links: []uint32{1},
	}
	m := &manifest.Manifest{
		Rung: manifest.Rung_RUNG_CONTENT, Units: []*manifest.Unit{{}}, Symbols: []string{manifest.AnySymbol}, Components: []*manifest.Component{c},
		Fallbacks: []*manifest.Fallback{{Component: c.Name, Reason: "a linker script can refer to any symbol", Rung: manifest.Rung_RUNG_CONTENT}},
	}
	for _, w := range strings.FieldsFunc(string(b), func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("(),;\"'", r) }) {
		static := filepath.Ext(w) == ".a" || filepath.Ext(w) == ".o"
		if strings.HasPrefix(w, "-l") || strings.HasPrefix(w, "/") && strings.Contains(w, ".so") || static {
			m.Flags = append(m.Flags, w)
		}
	}
	return m
}
