package launcher

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// parts is how many parts of the same number of tokens a file has for heads.
const parts = 32

// heads are hashes of the lines on which the tokens of the first part of a file are, those of
// the first two, and so on. They tell up to where a file is the same, lines and all, if only
// its lines have changed. Zeros say nothing.
type heads [parts - 1]uint32

// MarshalText is for JSON, where numbers take most of the time of a hit.
func (h heads) MarshalText() ([]byte, error) {
	b := make([]byte, 0, 4*len(h))
	for _, x := range h {
		b = binary.BigEndian.AppendUint32(b, x)
	}
	return hex.AppendEncode(nil, b), nil
}

// UnmarshalText reads what MarshalText has written.
func (h *heads) UnmarshalText(text []byte) error {
	var b [4 * len(h)]byte
	if n, err := hex.Decode(b[:], text[:min(len(text), 2*len(b))]); err != nil || 2*n != len(text) || n != len(b) {
		return errors.New("heads of another length, or that aren't hexadecimal")
	}
	for i := range h {
		h[i] = binary.BigEndian.Uint32(b[4*i:])
	}
	return nil
}

// place counts a token's line for heads.
func (s *scanner) place() {
	const prime = 0x9e3779b185ebca87
	s.placed = (s.placed ^ uint64(s.line)) * prime
	s.placed ^= s.placed >> 29
	s.places = append(s.places, uint32(s.placed>>32)|1)
}

func (s *scanner) heads() (h heads) {
	for i := range h {
		if n := len(s.places) * (i + 1) / parts; n > 0 {
			h[i] = s.places[n-1]
		}
	}
	return h
}

// unmoved returns how many tokens of a file are on the lines that they were on, for certain.
// Before are its heads at that time.
func (x *scan) unmoved(before heads) int {
	n := 0
	for i := range before {
		if before[i] == 0 || before[i] != x.Heads[i] {
			break
		}
		n = x.Count * (i + 1) / parts
	}
	return n
}

// behind tells whether a file may ask for lines behind its first n tokens, by one of the words
// in asking: in an expansion that begins or ends there. Definitions of macros ask where these
// are used.
func behind(b []byte, cxx bool, n int, asking map[string]bool) bool {
	s := newScanner(b, cxx)
	var found []int
	depth, odd := 0, false // of parentheses outside of directives
	// The last token there, the first of what is called now or was called last, and that of
	// the directive. What a macro stands for may be called in turn: F(1)(2).
	last, callee, directive := 0, 0, 0
	closed := false // the last token ended a call
	from := 0
	s.seen = func(i int, t []byte) {
		if s.directive == "#" && t[0] == '#' {
			directive = i
			odd = odd || depth != 0 // a condition may leave some of them out
		}
		if i == n {
			from = last
			if depth > 0 || closed {
				from = callee
			}
			if s.directive != "" {
				from = min(from, directive)
			}
		}
		if s.directive == "" {
			switch string(t) {
			case "(":
				if depth == 0 && !closed {
					callee = last
				}
				depth++
			case ")":
				depth--
				odd = odd || depth < 0
			}
			closed = depth == 0 && t[0] == ')'
			last = i
		}
		if s.define == nil && asking[string(t)] {
			found = append(found, i)
		}
	}
	s.scan()
	if odd || depth != 0 || s.doubt || n == 0 {
		from = 0
	}
	return slices.ContainsFunc(found, func(i int) bool { return i >= from })
}

// askingWords are those that may be expanded to something that asks for a line, in a unit of
// such files with their directives: macros that paste may be anything.
func askingWords(files []*scan) map[string]bool {
	asking := map[string]bool{line: true, "_Pragma": true} // which may expand what it has
	for _, b := range builtins {
		asking[b] = true
	}
	for n := 0; n != len(asking); {
		n = len(asking)
		for _, x := range files {
			for i := range x.Macros {
				m := &x.Macros[i]
				if !asking[m.Name] && (m.Pastes || slices.ContainsFunc(m.Words, func(w string) bool { return asking[w] })) {
					asking[m.Name] = true
				}
			}
		}
	}
	return asking
}

// quiet tells whether nothing in files that have moved asks for a line that has changed, as
// far as that is certain without the preprocessor. Was are the files of the record, scans what
// they are now, and all has the macros of the command line as well.
func (u *unit) quiet(was []dependency, scans, all []*scan) bool {
	for i, x := range scans {
		if x.Callers && was[i].Path != "/usr/include/assert.h" {
			return false
		}
	}
	if pasted(all)&callers != 0 {
		return false
	}
	asking := askingWords(all)
	for i, x := range scans {
		if x.Lines == was[i].Lines {
			continue
		}
		b, err := os.ReadFile(was[i].Path)
		if err != nil || xxhash.Sum64(b) != x.Raw || behind(b, u.cxx && !u.old, x.unmoved(was[i].Heads), asking) {
			return false
		}
	}
	return true
}

// mayMove tells whether a file is one that is edited: of others heads aren't kept.
func mayMove(path string) bool { return !filepath.IsAbs(path) }
