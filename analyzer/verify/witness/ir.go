package witness

import (
	"fmt"
	"slices"
	"strings"
)

// ReadIR cuts textual LLVM IR into units, one for every function and variable
// defined in it. Numbered attributes, metadata, types and private constants
// are replaced by what they stand for, declarations belong to those who use
// them, and what only says where something is in the source is left out.
//
// IR is compared textually, so it shows more than what reaches the object, and
// differences in it alone are reported as such.
func ReadIR(b []byte) *Object {
	r := &irReader{def: map[string]string{}, body: map[string][]string{}}
	var fn string
	for _, line := range strings.Split(string(b), "\n") {
		switch {
		case fn != "":
			if line == "}" {
				fn = ""
			} else if !strings.HasPrefix(line, "; ") {
				r.body[fn] = append(r.body[fn], line)
			}
		case strings.HasPrefix(line, "define "):
			fn = irGlobal(line)
			r.def[fn] = line
			r.body[fn] = []string{}
		case strings.HasPrefix(line, "declare "):
			r.def[irGlobal(line)] = line
		case strings.HasPrefix(line, "attributes #"), strings.HasPrefix(line, "!"), strings.HasPrefix(line, "%"), strings.HasPrefix(line, "$"):
			if name, val, ok := strings.Cut(strings.TrimPrefix(line, "attributes "), " = "); ok {
				r.def[name] = val
			}
		case strings.HasPrefix(line, "@"):
			if name := irGlobal(line); name != "" {
				_, val, _ := strings.Cut(line, " = ")
				r.def[name] = val
			}
		case strings.HasPrefix(line, "module asm "):
			r.asm = append(r.asm, line)
		}
	}
	units := map[string]*Unit{}
	for name, val := range r.def {
		if name == "" || name[0] != '@' || strings.HasPrefix(val, "declare ") || irPrivate(val) || r.external(val) {
			continue
		}
		t := text{seen: map[string]bool{}}
		u := &Unit{Name: irSymbol(name), Local: irLocal(val) || hasField(val, "available_externally")}
		u.Symbol = u.Name
		if strings.HasPrefix(name, "@llvm.") {
			u.Name, u.Symbol = "section "+name[1:], ""
			u.Root = name == "@llvm.global_ctors" || name == "@llvm.global_dtors" || name == "@llvm.used"
		}
		r.line(&t, val, name)
		for _, l := range r.body[name] {
			t.WriteByte('\n')
			r.line(&t, l, name)
		}
		u.Text, u.Locals, u.Refs = t.Bytes(), t.locals, t.refs
		units[u.Name] = u
	}
	if len(r.asm) > 0 {
		u := &Unit{Name: "section module asm", Root: true, Text: []byte(strings.Join(r.asm, "\n"))}
		units[u.Name] = u
	}
	return newObject(units)
}

type irReader struct {
	def  map[string]string   // @name, #1, !1, %type, $comdat: definition
	body map[string][]string // of functions
	asm  []string
}

// irGlobal returns the first @name in a line.
func irGlobal(line string) string {
	if i := strings.IndexByte(line, '@'); i >= 0 {
		return line[i : i+irName(line[i:])]
	}
	return ""
}

// irName returns the length of the name at the start of s, with its sigil.
func irName(s string) int {
	if len(s) > 1 && s[1] == '"' {
		if i := strings.IndexByte(s[2:], '"'); i >= 0 {
			return i + 3
		}
	}
	n := 1
	for n < len(s) && (s[n] == '_' || s[n] == '.' || s[n] == '$' || s[n] == '-' || s[n] >= '0' && s[n] <= '9' || s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z') {
		n++
	}
	return n
}

// irSymbol returns the linker's symbol of @name: \01 suppresses mangling.
func irSymbol(name string) string {
	return strings.TrimPrefix(strings.Trim(name[1:], `"`), `\01`)
}

// irHead returns the words of a definition before its body.
func irHead(val string) []string {
	f := strings.Fields(val)
	return f[:min(len(f), 6)]
}

func hasField(val, word string) bool { return slices.Contains(irHead(val), word) }

func irPrivate(val string) bool { return hasField(val, "private") }
func irLocal(val string) bool   { return hasField(val, "internal") || irPrivate(val) }

// external reports a variable that is only declared.
func (r *irReader) external(val string) bool {
	return !strings.HasPrefix(val, "define ") && (hasField(val, "external") || hasField(val, "extern_weak") || hasField(val, "available_externally"))
}

// line writes a line of the unit self with everything numbered resolved.
func (r *irReader) line(t *text, s, self string) {
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '"':
			j := strings.IndexByte(s[i+1:], '"')
			if j < 0 {
				j = len(s) - i - 2
			}
			t.WriteString(s[i : i+j+2])
			i += j + 2
		case c == '@':
			n := irName(s[i:])
			r.global(t, s[i:i+n], self)
			i += n
		case c == '#' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9':
			n := irName(s[i:])
			t.WriteString(r.def[s[i:i+n]])
			i += n
		case c == '!' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9':
			n := irName(s[i:])
			r.nested(t, s[i:i+n], self)
			i += n
		case strings.HasPrefix(s[i:], "!srcloc !"):
			i += len("!srcloc ")
			i += irName(s[i:])
		case (c == '%' || c == '$') && r.def[s[i:i+irName(s[i:])]] != "":
			n := irName(s[i:])
			r.nested(t, s[i:i+n], self)
			i += n
		default:
			t.WriteByte(c)
			i++
		}
	}
}

// nested writes a type or metadata node by content, cycles by distance.
func (r *irReader) nested(t *text, name, self string) {
	if k := slices.Index(t.stack, name); k >= 0 {
		fmt.Fprintf(t, "<cycle %d>", len(t.stack)-k)
		return
	}
	t.stack = append(t.stack, name)
	t.WriteByte('<')
	r.line(t, r.def[name], self)
	t.WriteByte('>')
	t.stack = t.stack[:len(t.stack)-1]
}

func (r *irReader) global(t *text, name, self string) {
	val := r.def[name]
	symbol := irSymbol(name)
	switch {
	case strings.HasPrefix(name, "@llvm."):
		t.WriteString(name)
	case val != "" && irPrivate(val) && !strings.HasPrefix(val, "define "):
		r.nested(t, name, self)
	case strings.HasPrefix(val, "declare "):
		t.ref(symbol)
		fmt.Fprintf(t, "%q", symbol)
		if !t.seen["declare "+name] {
			t.seen["declare "+name] = true
			// Attributes only: the declaration's own name is written.
			_, rest, _ := strings.Cut(val, name)
			t.WriteByte('{')
			r.line(t, rest, self)
			t.WriteByte('}')
		}
	default:
		t.ref(symbol)
		t.symbol(symbol, val != "" && irLocal(val))
		if r.external(val) && !t.seen["declare "+name] {
			t.seen["declare "+name] = true
			t.WriteByte('{')
			r.line(t, val, self)
			t.WriteByte('}')
		}
	}
}
