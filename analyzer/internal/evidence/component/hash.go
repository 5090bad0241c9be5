package component

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Hash is a local hash: 128 bits from two independently seeded 64-bit xxhash
// streams.
type Hash [16]byte

const (
	seedA = 0x7461_7374_696e_6741 // "tastingA"
	seedB = 0x7461_7374_696e_6742 // "tastingB"
)

// hasher computes a Hash over framed values, so that each sequence of calls gives another byte stream: a
// value starts with a tag byte, strings have their length in front, numbers are unsigned varints.
//
//	's' LEN BYTES   a string
//	'u' VARINT      a number
//	'h' 16 BYTES    a Hash
//	'(' ... ')'     a node with its children
type hasher struct {
	a, b xxhash.Digest
	buf  []byte
}

func newHasher() *hasher {
	h := &hasher{buf: make([]byte, 0, 2*flushSize)} // there are very many; most hash little
	h.a.ResetWithSeed(seedA)
	h.b.ResetWithSeed(seedB)
	return h
}

// flushSize is the number of bytes in buf from which on they are hashed.
const flushSize = 128

func (h *hasher) flush() {
	h.a.Write(h.buf)
	h.b.Write(h.buf)
	h.buf = h.buf[:0]
}

// grow replaces buf by b, which is buf with a value behind it.
func (h *hasher) grow(b []byte) {
	if h.buf = b; len(b) >= flushSize {
		h.flush()
	}
}

func (h *hasher) str(s string) {
	h.grow(append(binary.AppendUvarint(append(h.buf, 's'), uint64(len(s))), s...))
}

func (h *hasher) num(u uint64) { h.grow(binary.AppendUvarint(append(h.buf, 'u'), u)) }

func (h *hasher) hash(x Hash) { h.grow(append(append(h.buf, 'h'), x[:]...)) }

func (h *hasher) tag(c byte) { h.grow(append(h.buf, c)) }

func (h *hasher) sum() Hash {
	h.flush()
	var x Hash
	binary.BigEndian.PutUint64(x[:8], h.a.Sum64())
	binary.BigEndian.PutUint64(x[8:], h.b.Sum64())
	return x
}

// hashOf returns the hash of a list of strings.
func hashOf(parts ...string) Hash {
	h := newHasher()
	for _, p := range parts {
		h.str(p)
	}
	return h.sum()
}
