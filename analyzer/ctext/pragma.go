package ctext

import (
	"bytes"
	"sort"
	"strings"
)

type pragmaClass uint8

const (
	pragmaDiagnostic pragmaClass = iota // can't influence code: dropped
	pragmaScoped                        // state at file scope, with a known family
	pragmaLoop                          // applies to the next statement only
	pragmaUnit                          // acts on the whole unit, or unknown
)

// diagnostic lists the pragmas that only control messages.
var diagnostic = []string{
	"GCC diagnostic", "clang diagnostic", "GCC system_header", "clang system_header", "GCC warning",
	"GCC error", "GCC poison", "once", "message", "region", "endregion", "mark", "warning",
}

// scoped lists the pragmas whose effect starts at their place in the file.
var scoped = []string{
	"pack", "GCC visibility", "clang attribute", "GCC push_options", "GCC pop_options", "GCC optimize",
	"GCC target", "GCC reset_options", "STDC", "clang fp", "float_control", "ms_struct", "clang section",
	"fenv_access", "fp_contract", "optimize", "clang optimize",
}

var loops = []string{"clang loop", "unroll", "nounroll", "GCC ivdep", "GCC unroll", "GCC novector", "omp", "unroll_and_jam", "nounroll_and_jam"}

// pragmaBody returns the words after "#pragma", or the directive itself if it
// is another one.
func pragmaBody(line []byte) string {
	s := strings.Join(strings.Fields(string(line[1:])), " ")
	if b, ok := strings.CutPrefix(s, "pragma "); ok {
		return b
	}
	return "#" + s
}

func hasWord(s string, words []string) bool {
	for _, w := range words {
		if strings.HasPrefix(s, w) && (len(s) == len(w) || !isIdent(s[len(w)])) {
			return true
		}
	}
	return false
}

func classify(line []byte) pragmaClass {
	switch s := pragmaBody(line); {
	case hasWord(s, diagnostic):
		return pragmaDiagnostic
	case hasWord(s, scoped):
		return pragmaScoped
	case hasWord(s, loops):
		return pragmaLoop
	}
	return pragmaUnit
}

// Span is a range of Unit.Text.
type Span struct{ Begin, End int }

// Index holds what Scan finds in a unit's text besides its tokens.
type Index struct {
	// Attributes are the ranges of all attribute specifiers, ascending:
	// __attribute__((...)), [[...]], __declspec(...), _Alignas(...).
	Attributes []Span
	// Pragmas are the ranges of all pragmas, ascending.
	Pragmas []Span
	// UnitState holds the text of every pragma that acts on the whole unit,
	// in order; it belongs to the hash of every component of the unit.
	UnitState string
	// Asm are the ranges of all asm statements, declarations and labels,
	// from the keyword to the closing parenthesis.
	Asm []Span

	states []pragmaState
}

type pragmaState struct {
	off   int
	state string
}

// Scan indexes the text of a unit in one pass.
func Scan(text []byte) *Index {
	x := &Index{}
	lex := NewLexer(text, 0)
	st := newStates()
	depth := 0
	var unit []string
	var prev Token
	for {
		t := lex.Next()
		if t.Kind == EOF {
			break
		}
		switch s := text[t.Off:t.End]; t.Kind {
		case Pragma:
			x.Pragmas = append(x.Pragmas, Span{t.Off, t.End})
			c := classify(s)
			if c == pragmaLoop && depth > 0 {
				break
			}
			if c != pragmaScoped {
				unit = append(unit, pragmaBody(s))
			}
			st.apply(pragmaBody(s))
			x.states = append(x.states, pragmaState{t.End, st.String()})
		case Punct:
			switch {
			case s[0] == '{':
				depth++
			case s[0] == '}':
				depth--
			case s[0] == '[' && prev.Kind == Punct && text[prev.Off] == '[' && prev.End == prev.Off+1:
				if e := balanced(text, prev.Off); e > 0 && bytes.HasSuffix(text[prev.Off:e], []byte("]]")) {
					x.Attributes = append(x.Attributes, Span{prev.Off, e})
				}
			}
		case Ident:
			switch string(s) {
			case "__attribute__", "__attribute", "__declspec", "_Alignas", "alignas":
				if e := group(text, t.End); e > 0 {
					x.Attributes = append(x.Attributes, Span{t.Off, e})
				}
			case "asm", "__asm__", "__asm":
				if e := group(text, t.End); e > 0 {
					x.Asm = append(x.Asm, Span{t.Off, e})
				}
			}
		}
		prev = t
	}
	x.UnitState = strings.Join(unit, "\n")
	return x
}

// group returns the end of the parenthesis group that follows off, possibly
// after qualifiers such as volatile or goto; 0 if there is none.
func group(text []byte, off int) int {
	lex := NewLexer(text, off)
	for range 4 {
		t := lex.Next()
		if t.Kind == Punct && text[t.Off] == '(' {
			return balanced(text, t.Off)
		}
		if t.Kind != Ident {
			return 0
		}
	}
	return 0
}

// balanced returns the end of the bracket group that starts at off, 0 if it
// is never closed.
func balanced(text []byte, off int) int {
	lex := NewLexer(text, off)
	depth := 0
	for {
		t := lex.Next()
		if t.Kind == EOF {
			return 0
		}
		if t.Kind != Punct || t.End-t.Off != 1 {
			continue
		}
		switch text[t.Off] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth--; depth == 0 {
				return t.End
			}
		}
	}
}

// PragmaState describes the pragmas in force at off: equal strings mean equal
// state. It is empty where no pragma has an effect.
func (x *Index) PragmaState(off int) string {
	i := sort.Search(len(x.states), func(i int) bool { return x.states[i].off > off })
	if i == 0 {
		return ""
	}
	return x.states[i-1].state
}

// Within returns the spans that begin in [begin, end).
func Within(spans []Span, begin, end int) []Span {
	i := sort.Search(len(spans), func(i int) bool { return spans[i].Begin >= begin })
	j := i
	for j < len(spans) && spans[j].Begin < end {
		j++
	}
	return spans[i:j]
}

// states tracks the effect of pragmas, by family. A family's value is the text
// that set it; what isn't understood is appended, which is always safe.
type states struct {
	cur   map[string]string
	stack map[string][]string
}

func newStates() *states {
	return &states{map[string]string{}, map[string][]string{}}
}

func (s *states) push(f, value string) {
	s.stack[f] = append(s.stack[f], s.cur[f])
	s.cur[f] = value
}

func (s *states) pop(f string) {
	if n := len(s.stack[f]); n > 0 {
		s.cur[f], s.stack[f] = s.stack[f][n-1], s.stack[f][:n-1]
	} else {
		s.cur[f] = ""
	}
}

func (s *states) apply(body string) {
	args := func(prefix string) (string, bool) {
		a, ok := strings.CutPrefix(body, prefix)
		a = strings.TrimSpace(a)
		if !ok || !strings.HasPrefix(a, "(") || !strings.HasSuffix(a, ")") {
			return "", false
		}
		return strings.ReplaceAll(a[1:len(a)-1], " ", ""), true
	}
	appendTo := func(f string) { s.cur[f] += body + "\n" }
	switch {
	case strings.HasPrefix(body, "pack"):
		a, ok := args("pack")
		v, push := strings.CutPrefix(a, "push,")
		switch {
		case ok && a == "push":
			s.push("pack", s.cur["pack"])
		case ok && push && v != "" && isDigit(v[0]):
			s.push("pack", v)
		case ok && a == "pop":
			s.pop("pack")
		case ok && (a == "" || isDigit(a[0])):
			s.cur["pack"] = a
		default:
			appendTo("pack")
		}
	case strings.HasPrefix(body, "GCC visibility"):
		if a, ok := args("GCC visibility push"); ok {
			s.push("visibility", a)
		} else if body == "GCC visibility pop" {
			s.pop("visibility")
		} else {
			appendTo("visibility")
		}
	case strings.HasPrefix(body, "clang attribute"):
		if a, ok := strings.CutPrefix(body, "clang attribute push"); ok {
			s.push("attribute", s.cur["attribute"]+a+"\n")
		} else if body == "clang attribute pop" {
			s.pop("attribute")
		} else {
			appendTo("attribute")
		}
	case body == "GCC push_options":
		s.push("options", s.cur["options"])
	case body == "GCC pop_options":
		s.pop("options")
	case body == "GCC reset_options":
		s.cur["options"] = ""
	case strings.HasPrefix(body, "GCC optimize"), strings.HasPrefix(body, "GCC target"):
		appendTo("options")
	case strings.HasPrefix(body, "STDC "):
		if f := strings.Fields(body); len(f) == 3 {
			s.cur["STDC "+f[1]] = f[2]
		} else {
			appendTo("STDC")
		}
	default:
		appendTo("other")
	}
}

func (s *states) String() string {
	var keys []string
	for k, v := range s.cur {
		if v != "" {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	var b strings.Builder
	for _, k := range keys {
		b.WriteString(k + "=" + s.cur[k] + ";")
	}
	return b.String()
}
