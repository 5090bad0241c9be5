// Package token splits preprocessed C and C++ into tokens. It has no errors: a text that no compiler would
// accept has tokens as well.
package token

import (
	"bytes"
	"strings"
)

// Kind classifies a token of preprocessed text.
type Kind uint8

// Token kinds. A pragma is a whole directive line without its newline.
const (
	EOF Kind = iota
	Ident
	Number
	String
	Char
	Punct
	Pragma
	Marker // a line marker, # LINE "FILE" FLAGS; not a token of the language
)

// Token is one token: Text[Off:End] of the lexed text.
type Token struct {
	Kind     Kind
	Off, End int
}

// Lexer splits preprocessed C or C++ text into tokens. It never fails: bytes
// that begin no token are returned as one-byte Punct tokens, so that every
// byte other than white space and comments belongs to some token.
type Lexer struct {
	text      []byte
	pos       int
	lineStart bool
}

// New returns a lexer for text[from:].
func New(text []byte, from int) *Lexer {
	return &Lexer{text: text, pos: from, lineStart: from == 0 || from <= len(text) && text[from-1] == '\n'}
}

// identBytes is 1 for bytes that begin an identifier, and 2 for digits.
var identBytes = func() (t [256]uint8) {
	for c := range t {
		switch c := byte(c); {
		case c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80:
			t[c] = 1
		case c >= '0' && c <= '9':
			t[c] = 2
		}
	}
	return t
}()

// IsIdentStart reports whether a byte can begin an identifier.
func IsIdentStart(c byte) bool { return identBytes[c] == 1 }

// IsDigit reports whether a byte is a decimal digit.
func IsDigit(c byte) bool { return c >= '0' && c <= '9' }

// IsIdent reports whether a byte can be in an identifier.
func IsIdent(c byte) bool { return identBytes[c] != 0 }

// puncts are the operators longer than one byte, longest first.
var puncts = []string{
	"%:%:", "<<=", ">>=", "...", "->*", "<=>",
	"->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||",
	"*=", "/=", "%=", "+=", "-=", "&=", "^=", "|=", "##", "::", ".*", "<:", ":>", "<%", "%>", "%:",
}

var punctsBy = func() (t [256][]string) {
	for _, s := range puncts {
		t[s[0]] = append(t[s[0]], s)
	}
	return t
}()

// Back makes t, the last token, the next one again.
func (l *Lexer) Back(t Token) { l.pos = t.Off }

// Next returns the next token; at the end of the text its kind is EOF.
func (l *Lexer) Next() Token {
	t := l.text
	for l.pos < len(t) {
		c := t[l.pos]
		switch {
		case c == '\n':
			l.lineStart = true
			l.pos++
			continue
		case c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f':
			l.pos++
			continue
		case c == '/' && l.pos+1 < len(t) && t[l.pos+1] == '/':
			l.pos = l.lineEnd(l.pos)
			continue
		case c == '/' && l.pos+1 < len(t) && t[l.pos+1] == '*':
			end := bytes.Index(t[l.pos+2:], []byte("*/"))
			if end < 0 {
				l.pos = len(t)
			} else {
				l.pos += end + 4
			}
			continue
		case c == '\\' && l.pos+1 < len(t) && t[l.pos+1] == '\n':
			l.pos += 2
			continue
		}
		start := l.pos
		if c == '#' && l.lineStart {
			l.pos = l.lineEnd(start)
			l.lineStart = false
			return Token{directive(t[start:l.pos]), start, l.pos}
		}
		l.lineStart = false
		end, kind := l.token(start)
		l.pos = end
		return Token{kind, start, end}
	}
	return Token{EOF, len(t), len(t)}
}

func (l *Lexer) lineEnd(p int) int {
	if n := bytes.IndexByte(l.text[p:], '\n'); n >= 0 {
		return p + n
	}
	return len(l.text)
}

// directive tells line markers from other directives, which are pragmas, so that an unknown one isn't lost.
func directive(line []byte) Kind {
	s := strings.TrimLeft(string(line[1:min(len(line), 16)]), " \t")
	s = strings.TrimLeft(strings.TrimPrefix(s, "line"), " \t")
	if s != "" && IsDigit(s[0]) {
		return Marker
	}
	return Pragma
}

// token returns the end and the kind of the token at p.
func (l *Lexer) token(p int) (int, Kind) {
	t := l.text
	c := t[p]
	switch {
	case IsIdentStart(c):
		e := p + 1
		for e < len(t) && IsIdent(t[e]) {
			e++
		}
		if e < len(t) && (t[e] == '"' || t[e] == '\'') && e-p <= 3 {
			switch string(t[p:e]) {
			case "L", "u", "U", "u8":
				return l.quoted(e), quotedKind(t[e])
			case "R", "LR", "uR", "UR", "u8R":
				if t[e] == '"' {
					return l.raw(e), String
				}
			}
		}
		return e, Ident
	case IsDigit(c) || c == '.' && p+1 < len(t) && IsDigit(t[p+1]):
		e := p + 1
		for e < len(t) {
			switch c := t[e]; {
			case (c == '+' || c == '-') && strings.IndexByte("eEpP", t[e-1]) >= 0:
			case c == '\'' && e+1 < len(t) && IsIdent(t[e+1]):
			case IsIdent(c) || c == '.':
			default:
				return e, Number
			}
			e++
		}
		return e, Number
	case c == '"' || c == '\'':
		return l.quoted(p), quotedKind(c)
	}
	return l.punct(p), Punct
}

func quotedKind(quote byte) Kind {
	if quote == '"' {
		return String
	}
	return Char
}

// punct returns the end of the operator at p.
func (l *Lexer) punct(p int) int {
	t := l.text
	c := t[p]
	switch c {
	case '(', ')', '{', '}', '[', ']', ',', ';', '?', '~':
		return p + 1 // they begin no longer operator
	case '<':
		// C++ [lex.pptoken]: in "A<::B>" there is no digraph "<:".
		if rest := t[p:]; bytes.HasPrefix(rest, []byte("<::")) && (len(rest) == 3 || rest[3] != ':' && rest[3] != '>') {
			return p + 1
		}
	}
	for _, s := range punctsBy[c] {
		if bytes.HasPrefix(t[p:], []byte(s)) {
			return p + len(s)
		}
	}
	return p + 1
}

func (l *Lexer) quoted(p int) int {
	q := l.text[p]
	for p++; p < len(l.text); p++ {
		switch l.text[p] {
		case '\\':
			p++
		case q:
			return p + 1
		case '\n':
			return p
		}
	}
	return len(l.text)
}

func (l *Lexer) raw(p int) int {
	t := l.text
	o := p + 1
	for o < len(t) && t[o] != '(' && o-p <= 17 {
		o++
	}
	if o >= len(t) || t[o] != '(' {
		return l.quoted(p)
	}
	end := ")" + string(t[p+1:o]) + "\""
	if i := bytes.Index(t[o:], []byte(end)); i >= 0 {
		return o + i + len(end)
	}
	return len(t)
}
