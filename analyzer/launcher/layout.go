package launcher

import (
	"bytes"
	"unicode/utf8"
)

// placed is a token that isn't in a directive.
type placed struct{ start, end int }

// misleads tells whether compilers may warn of the layout of a file
// (-Wmisleading-indentation, -Wempty-body): behind the statement that an if, else,
// for or while without braces has, there is something on the same line, or further
// to the right than the line of the if.
func misleads(b []byte, tokens []placed) bool {
	word := func(i int) string {
		if i >= len(tokens) {
			return ""
		}
		return string(b[tokens[i].start:tokens[i].end])
	}
	for i := range tokens {
		j := i + 1
		switch word(i) {
		case "else":
			if word(j) == "if" {
				continue
			}
		case "if", "for", "while":
			for word(j) == "constexpr" || word(j) == "!" || word(j) == "consteval" {
				j++
			}
			if word(j) == "(" {
				depth := 0
				for ; j < len(tokens); j++ {
					switch word(j) {
					case "(":
						depth++
					case ")":
						depth--
					}
					if depth == 0 {
						break
					}
				}
				j++
			} else if word(j) != "{" {
				return true
			}
		default:
			continue
		}
		if j >= len(tokens) || directiveIn(b[tokens[i].start:tokens[j].start]) {
			return true
		}
		if word(j) == "{" {
			continue
		}
		if word(j) == ";" && (word(i) == "if" || word(i) == "else" || word(j+1) == "{") || !clear(b, tokens, i, j, word) {
			return true
		}
	}
	return false
}

// clear tells whether it is clear where the statement ends that begins at token j
// and belongs to the keyword at token i.
func clear(b []byte, tokens []placed, i, j int, word func(int) string) bool {
	depth := 0
	for k := j; k < len(tokens); k++ {
		w := word(k)
		switch w {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		}
		if depth < 0 {
			return true // it is an argument of a macro
		}
		if depth > 0 || w != ";" && w != "}" {
			continue
		}
		if k+1 == len(tokens) {
			return true
		}
		next := word(k + 1)
		if w == "}" && (next == "while" || next == "catch" || !isPart(next[0]) && next != "}" && next != "{" && next != "*" && next != "+" && next != "-" && next != "(" && next != "~" && next != "!" && next != "[" && next != "&") {
			continue // the statement goes on
		}
		if directiveIn(b[tokens[i].start:tokens[k+1].start]) {
			return false
		}
		if next == "}" || next == "else" {
			return true
		}
		mine, fresh := indentation(b, tokens[k+1].start)
		its, _ := indentation(b, tokens[i].start)
		return fresh && mine <= its
	}
	return true
}

// directiveIn tells whether a line of a text begins with "#", after its first one.
func directiveIn(text []byte) bool {
	for {
		_, rest, ok := bytes.Cut(text, []byte("\n"))
		if !ok {
			return false
		}
		if l := bytes.TrimLeft(rest, " \t"); bytes.HasPrefix(l, []byte("#")) || bytes.HasPrefix(l, []byte("%:")) {
			return true
		}
		text = rest
	}
}

// indentation returns how wide the blanks are that begin the line of a position, and
// whether there is nothing else in front of it.
func indentation(b []byte, p int) (width int, fresh bool) {
	start := bytes.LastIndexByte(b[:p], '\n') + 1
	for ; start < p && (b[start] == ' ' || b[start] == '\t'); start++ {
		if width++; b[start] == '\t' {
			width = (width + 7) / 8 * 8
		}
	}
	return width, start == p
}

// odd tells whether compilers may warn of a comment: of another that begins in it
// (-Wcomment), of bytes that are no text, and of text that runs from right to left.
func odd(comment []byte) bool {
	if bytes.Contains(comment[2:], []byte("/*")) || !utf8.Valid(comment) {
		return true
	}
	return bytes.ContainsFunc(comment, func(r rune) bool {
		return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x61c || r == 0x2028 || r == 0x2029
	})
}
