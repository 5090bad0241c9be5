package ctext

import (
	"bytes"
	"slices"
	"strings"
)

// oldStandards have no modules: there, import is a name like any other.
var oldStandards = words("c++98 c++03 c++0x c++11 c++1y c++14 c++1z c++17 gnu++98 gnu++03 gnu++0x gnu++11 gnu++1y gnu++14 gnu++1z gnu++17")

// ImportsModules reports whether the text has an import of a module, of C++20
// or clang's own, or is one: then it isn't all that is compiled.
func (u *Unit) ImportsModules() bool {
	old := false
	for _, f := range u.Flags { // the last one decides
		if standard, ok := strings.CutPrefix(strings.TrimLeft(f, "-"), "std="); ok {
			old = oldStandards[standard]
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
