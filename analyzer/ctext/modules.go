package ctext

import (
	"bytes"
	"slices"
	"strings"
)

// oldStandards have no modules: there, import is a name like any other.
var oldStandards = []string{"-std=c++98", "-std=c++03", "-std=c++0x", "-std=c++11", "-std=c++1y", "-std=c++14", "-std=c++1z", "-std=c++17",
	"-std=gnu++98", "-std=gnu++03", "-std=gnu++0x", "-std=gnu++11", "-std=gnu++1y", "-std=gnu++14", "-std=gnu++1z", "-std=gnu++17"}

// ImportsModules reports whether the text has an import of a module, of C++20
// or clang's own, or is one: then it isn't all that is compiled.
func (u *Unit) ImportsModules() bool {
	old := false
	for _, f := range u.Flags { // the last one decides
		if strings.HasPrefix(f, "-std=") || strings.HasPrefix(f, "--std=") {
			old = slices.Contains(oldStandards, strings.TrimPrefix(f, "-"))
			old = old || slices.Contains(oldStandards, f)
		}
	}
	old = old && !slices.ContainsFunc(u.Flags, importsModules)
	lex := NewLexer(u.Text, 0)
	start, declares := true, false // at the start of a declaration; behind "import" there
	for {
		t := lex.Next()
		text := u.Text[t.Off:t.End]
		switch {
		case t.Kind == EOF:
			return false
		case t.Kind == Marker:
			continue
		case t.Kind == Pragma:
			if f := bytes.Fields(text); len(f) > 2 && string(f[1]) == "clang" && string(f[2]) == "module" {
				return true
			}
			continue
		case declares && (t.Kind == Ident || t.Kind == String || t.Kind == Punct && (text[0] == '<' || text[0] == ':' && len(text) == 1 || text[0] == ';')):
			return true
		}
		declares = false
		if t.Kind == Ident && start && u.Lang == "c++" {
			switch string(text) {
			case "export", "__export":
				continue // still at the start
			case "import", "module":
				declares = !old
			case "__import", "__module", "__preprocessed_import", "__preprocessed_module":
				declares = true
			}
		}
		switch string(text) {
		case ";", "{", "}", "<%", "%>":
			start = true
		default:
			start = false
		}
	}
}
