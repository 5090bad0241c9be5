// Package frame writes down values so that two different sequences of values
// never give the same bytes. Everything that is hashed for a fingerprint goes
// through it.
//
//	number  unsigned LEB128 (encoding/binary's Uvarint)
//	string  its length as a number, then its bytes
//	list    its length as a number, then its elements
//	struct  its fields in order, without a length: their number is fixed
//
// Every hashed message starts with a string that names what it describes and
// the version of that description, so that messages of two kinds can't be
// equal either. A reader who knows the name can take a message apart again
// without ambiguity: that is all that framing has to achieve.
package frame

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Buffer holds a message. The zero value is an empty one.
type Buffer []byte

// New starts a message with its name.
func New(name string) Buffer {
	var b Buffer
	b.String(name)
	return b
}

// Uint appends a number.
func (b *Buffer) Uint(n uint64) { *b = binary.AppendUvarint(*b, n) }

// Int appends the length of a list, or a number that can't be negative.
func (b *Buffer) Int(n int) { b.Uint(uint64(n)) }

// Flag appends a 0 or a 1.
func (b *Buffer) Flag(x bool) {
	if x {
		b.Uint(1)
	} else {
		b.Uint(0)
	}
}

// String appends a string.
func (b *Buffer) String(s string) {
	b.Int(len(s))
	*b = append(*b, s...)
}

// Bytes appends a string given as bytes.
func (b *Buffer) Bytes(s []byte) {
	b.Int(len(s))
	*b = append(*b, s...)
}

// Strings appends a list of strings.
func (b *Buffer) Strings(l []string) {
	b.Int(len(l))
	for _, s := range l {
		b.String(s)
	}
}

// Sum returns the SHA-256 of the message.
func (b Buffer) Sum() [32]byte { return sha256.Sum256(b) }

// Seeds of the two halves of Sum128.
const (
	seedHigh = 0x7461_7374_6f62_6a41
	seedLow  = 0x7461_7374_6f62_6a42
)

// Sum128 returns the local hash of the message: two independently seeded
// 64-bit xxHashes.
func (b Buffer) Sum128() []byte {
	var h xxhash.Digest
	out := make([]byte, 0, 16)
	for _, seed := range [...]uint64{seedHigh, seedLow} {
		h.ResetWithSeed(seed)
		h.Write(b)
		out = binary.BigEndian.AppendUint64(out, h.Sum64())
	}
	return out
}
