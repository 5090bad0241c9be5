package launcher

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// A layout is where the tokens outside of directives stand, as compilers see that which
// warn of it (-Wmisleading-indentation, -Wempty-body): which of them begin lines, and in
// which columns they all are. Comments and directives between two tokens count where a
// line of them is less indented than the next of the tokens: gcc takes that for a hint.
type layout struct {
	b      []byte
	at     int // how far it is read
	column int
	first  int // column of the first character of the line that is no blank, from 1
	h      *xxhash.Digest
}

// add counts the token at p.
func (l *layout) add(p int) {
	const none = 1 << 30
	fresh, least := l.h == nil, none
	if fresh {
		l.h = xxhash.New()
	}
	for ; l.at < p; l.at++ {
		switch c := l.b[l.at]; c {
		case '\n':
			if fresh && l.first > 0 {
				least = min(least, l.first)
			}
			fresh, l.column, l.first = true, 0, 0
		case '\t':
			l.column = l.column/8*8 + 8
		case ' ', '\r':
			l.column++
		default:
			l.column++
			if l.first == 0 {
				l.first = l.column
			}
		}
	}
	if l.first == 0 {
		l.first = l.column + 1
	}
	if least >= l.first {
		least = none
	}
	var b [16]byte
	if fresh {
		b[0] = 1
		binary.LittleEndian.PutUint32(b[4:], uint32(l.first))
		binary.LittleEndian.PutUint32(b[8:], uint32(least))
	}
	binary.LittleEndian.PutUint32(b[12:], uint32(l.column))
	l.h.Write(b[:])
}

// sum is 0 if there are no tokens.
func (l *layout) sum() uint64 {
	if l.h == nil {
		return 0
	}
	return l.h.Sum64()
}

// odd tells whether compilers may warn of a comment: of another that begins in it
// (-Wcomment), of bytes that are no text, and of text that runs from right to left.
func odd(comment []byte) bool {
	if bytes.Contains(comment[2:], []byte("/*")) || bytes.IndexByte(comment, 0) >= 0 || !utf8.Valid(comment) {
		return true
	}
	return bytes.ContainsFunc(comment, func(r rune) bool {
		return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x61c || r == 0x2028 || r == 0x2029
	})
}
