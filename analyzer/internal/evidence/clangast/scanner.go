package clangast

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"strconv"
)

// scanner reads JSON from a stream, strictly, without building values. Two thirds of a dump are blanks and
// half of it is source ranges, so it passes over bytes quickly. Tests compare it with a general streaming
// decoder: the language by fuzzing, the speed by a benchmark.
type scanner struct {
	r        io.Reader
	buf      []byte
	pos, end int
	err      error // of r, after buf[:end]
	scratch  []byte
}

// maxString bounds one string, and with it the buffer.
const maxString = 1 << 28

func newScanner(r io.Reader) *scanner { return &scanner{r: r, buf: make([]byte, 1<<18)} }

// fill reads more, and moves buf[keep:end] to the front. It returns the distance moved, and false at the
// end of the input.
func (s *scanner) fill(keep int) (moved int, ok bool) {
	if s.err != nil {
		return 0, false
	}
	moved = keep
	copy(s.buf, s.buf[keep:s.end])
	s.end -= keep
	s.pos -= keep
	if s.end == len(s.buf) {
		if len(s.buf) >= maxString {
			s.err = fmt.Errorf("%w: a string of more than %d bytes", ErrDump, maxString)
			return moved, false
		}
		s.buf = append(s.buf, make([]byte, len(s.buf))...)
	}
	for {
		n, err := s.r.Read(s.buf[s.end:])
		s.end += n
		if err != nil {
			s.err = err
		}
		if n > 0 || err != nil {
			return moved, n > 0
		}
	}
}

// peek passes over white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < s.end && s.buf[s.pos] > ' ' {
		return s.buf[s.pos]
	}
	return s.blanks()
}

// ones has the lowest bit of each byte set: times a byte, it repeats the byte, to compare eight at a time.
const ones = 0x0101010101010101

// blanks is the slow path of peek.
func (s *scanner) blanks() byte {
	for {
		buf, p := s.buf[:s.end], s.pos
		for p < len(buf) {
			if p+8 <= len(buf) {
				x := binary.LittleEndian.Uint64(buf[p:]) ^ ones*' '
				if x == 0 {
					p += 8
					continue
				}
				p += bits.TrailingZeros64(x) / 8
			}
			if c := buf[p]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
				s.pos = p
				return c
			}
			p++
		}
		s.pos = p
		if _, ok := s.fill(s.pos); !ok {
			return 0
		}
	}
}

// fail returns an error with the byte that stands in place of want.
func (s *scanner) fail(want string) error {
	c := s.peek()
	switch {
	case c == 0 && s.err == io.EOF:
		return fmt.Errorf("%w: it ends where %s was expected", ErrDump, want)
	case c == 0 && s.err != nil:
		return fmt.Errorf("%w: %w", ErrDump, s.err)
	}
	return fmt.Errorf("%w: %q where %s was expected", ErrDump, c, want)
}

// expect consumes the byte c.
func (s *scanner) expect(c byte) error {
	if s.peek() != c {
		return s.fail(strconv.QuoteRune(rune(c)))
	}
	s.pos++
	return nil
}

// more reports whether another element of an object or array follows, and
// consumes what separates it, or the closing bracket.
func (s *scanner) more(first bool, closing byte) (bool, error) {
	switch c := s.peek(); {
	case c == closing:
		s.pos++
		return false, nil
	case first:
		return true, nil
	case c == ',':
		s.pos++
		return true, nil
	}
	return false, s.fail("a comma or " + strconv.QuoteRune(rune(closing)))
}

// key reads an object's key and the colon behind it.
func (s *scanner) key() ([]byte, error) {
	k, err := s.str()
	if err != nil {
		return nil, err
	}
	// The colon usually follows at once; reading on would move the buffer.
	if s.pos < s.end && s.buf[s.pos] == ':' {
		s.pos++
		if s.pos < s.end && s.buf[s.pos] == ' ' {
			s.pos++
		}
		return k, nil
	}
	s.scratch = append(s.scratch[:0], k...)
	return s.scratch, s.expect(':')
}

// object reads an object, and calls value to read the value of each key.
func (s *scanner) object(value func(key []byte) error) error {
	if err := s.expect('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.more(first, '}')
		if !more || err != nil {
			return err
		}
		k, err := s.key()
		if err != nil {
			return err
		}
		if err := value(k); err != nil {
			return err
		}
	}
}

// array reads an array, and calls element to read each element.
func (s *scanner) array(element func() error) error {
	if err := s.expect('['); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.more(first, ']')
		if !more || err != nil {
			return err
		}
		if err := element(); err != nil {
			return err
		}
	}
}

// str reads a string. The result is valid until the next call.
func (s *scanner) str() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.fail("a string")
	}
	open := s.pos
	// Nearly all strings are short and without escapes.
	at := open + 1 + plain(s.buf[open+1:s.end])
	for {
		for at < s.end && s.buf[at] != '"' {
			if s.buf[at] == '\\' {
				at++
			}
			at++
		}
		if at < s.end {
			s.pos = at + 1
			return unquote(s.buf[open:s.pos])
		}
		moved, ok := s.fill(open)
		if !ok {
			s.pos = s.end
			return nil, s.fail("the end of a string")
		}
		open, at = open-moved, at-moved
	}
}

// unquote returns the text of a string in quotes.
func unquote(quoted []byte) ([]byte, error) {
	b := quoted[1 : len(quoted)-1]
	if plain(b) == len(b) {
		return b, nil
	}
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil {
		return nil, fmt.Errorf("%w: %q: %v", ErrDump, quoted, err)
	}
	return []byte(text), nil
}

// plain returns the length of the beginning of b without quotes, backslashes and control characters.
func plain(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		// A byte's highest bit is set in below(y, n) if that byte of y is less
		// than n; a borrow can set it wrongly too, but only above such a byte.
		if m := below(x, ' ') | below(x^ones*'"', 1) | below(x^ones*'\\', 1); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

func below(y, n uint64) uint64 { return (y - ones*n) &^ y & (ones * 0x80) }

// scalar reads a string, number, true, false or null as text. The result is
// valid until the next call.
func (s *scanner) scalar() ([]byte, error) {
	if s.peek() == '"' {
		return s.str()
	}
	start := s.pos
	// Most are numbers without sign, fraction and exponent.
	p := start
	for p < s.end && s.buf[p]-'0' <= 9 {
		p++
	}
	if p > start && p < s.end && (s.buf[p] == ',' || s.buf[p] == '\n') && (s.buf[start] != '0' || p == start+1) {
		s.pos = p
		return s.buf[start:p], nil
	}
	isPart := func(c byte) bool {
		return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == '-' || c == '+' || c == '.' || c == 'E'
	}
	for ok := true; ok; {
		for s.pos < s.end && isPart(s.buf[s.pos]) {
			s.pos++
		}
		if s.pos < s.end {
			break
		}
		var moved int
		moved, ok = s.fill(start)
		start -= moved
	}
	b := s.buf[start:s.pos]
	switch {
	case len(b) == 0:
		return nil, s.fail("a value")
	case !json.Valid(b):
		return nil, fmt.Errorf("%w: %q is no value", ErrDump, b)
	}
	return b, nil
}

// skip passes over a value.
func (s *scanner) skip(depth int) error {
	if err := tooDeep(depth); err != nil {
		return err
	}
	switch s.peek() {
	case '{':
		return s.object(func([]byte) error { return s.skip(depth + 1) })
	case '[':
		return s.array(func() error { return s.skip(depth + 1) })
	}
	_, err := s.scalar()
	return err
}
