package trace

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/packed"
)

// maxIdle bounds the size in bytes of names that are decoded.
const maxIdle = 1 << 30

// idleHead begins names that are encoded.
const idleHead = "tasting idle 1\n"

// EncodeIdle encodes names of functions, such as those of Result.Idle: compressed by zstd, a line with the
// format, and one for each name, sorted. Names with line ends, which compilers don't make, are left out: it is
// always right to take a function for one that was entered.
func EncodeIdle(idle map[string]bool) ([]byte, error) {
	var b strings.Builder
	b.WriteString(idleHead)
	for _, name := range slices.Sorted(maps.Keys(idle)) {
		if !strings.Contains(name, "\n") {
			b.WriteString(name + "\n")
		}
	}
	return packed.Pack([]byte(b.String()))
}

// UnknownError is why it isn't known what a program entered.
type UnknownError string

func (why UnknownError) Error() string { return string(why) }

const unknownHead = "tasting unknown 1\n"

// Encode encodes the reason, in the place of names.
func (why UnknownError) Encode() ([]byte, error) {
	return packed.Pack([]byte(unknownHead + string(why)))
}

// DecodeIdle decodes what EncodeIdle has encoded; what UnknownError.Encode has, is returned as that error. It is
// another one if b is anything else, or cut off.
func DecodeIdle(b []byte) (map[string]bool, error) {
	text, err := packed.Unpack(b, maxIdle)
	if err != nil {
		return nil, fmt.Errorf("no names of functions: %w", err)
	}
	if why, ok := strings.CutPrefix(string(text), unknownHead); ok {
		return nil, UnknownError(why)
	}
	names, ok := strings.CutPrefix(string(text), idleHead)
	if !ok || names != "" && !strings.HasSuffix(names, "\n") {
		return nil, errors.New("no names of functions, or of another version")
	}
	idle := map[string]bool{}
	for name := range strings.Lines(names) {
		idle[strings.TrimSuffix(name, "\n")] = true
	}
	return idle, nil
}
