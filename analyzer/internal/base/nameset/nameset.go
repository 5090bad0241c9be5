// Package nameset makes small sets of many names: it keeps 32 bits of the hash of each. So a set may have
// a name that nobody has put in: of 10,000 names in it, with a probability of 1 in 400,000. Its users must be right then, too.
package nameset

import (
	"encoding/binary"
	"errors"
	"iter"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Set is a set of names: their hashes, sorted and each once.
type Set []uint32

func hash(name string) uint32 { return uint32(xxhash.Sum64String(name)) }

// Of returns the set of names.
func Of(names iter.Seq[string]) Set {
	s := Set{}
	for name := range names {
		s = append(s, hash(name))
	}
	slices.Sort(s)
	return slices.Compact(s)
}

// Has reports whether a name is in the set.
func (s Set) Has(name string) bool {
	_, ok := slices.BinarySearch(s, hash(name))
	return ok
}

// Without returns the set without one in n of its names. The salt chooses which names.
func (s Set) Without(n, salt uint32) Set {
	return slices.DeleteFunc(slices.Clone(s), func(h uint32) bool {
		return uint32(xxhash.Sum64(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, h), salt)))%n == 0
	})
}

// Encode encodes the set as the differences between hashes, in the form of binary.PutUvarint.
func (s Set) Encode() []byte {
	var b []byte
	next := uint64(0)
	for _, h := range s {
		b = binary.AppendUvarint(b, uint64(h)-next)
		next = uint64(h) + 1
	}
	return b
}

var errNoSet = errors.New("no set of names")

// Decode decodes what Encode has encoded. It is an error if b is anything else.
func Decode(b []byte) (Set, error) {
	s := Set{}
	next := uint64(0)
	for len(b) > 0 {
		d, n := binary.Uvarint(b)
		if n <= 0 || n > 1 && b[n-1] == 0 || d > 1<<32 || next+d >= 1<<32 {
			return nil, errNoSet
		}
		s = append(s, uint32(next+d))
		next += d + 1
		b = b[n:]
	}
	return s, nil
}
