package trace

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// maxIdle bounds the size in bytes of names that are decoded.
const maxIdle = 1 << 30

// idleHead begins names that are encoded.
const idleHead = "tasting idle 1\n"

// EncodeIdle encodes names of functions, such as those of Result.Idle: compressed by zstd, a line with the
// format, and one for each name, sorted. Names with line ends, which compilers don't make, are left out: it is
// always right to take a function for one that was entered.
func EncodeIdle(idle map[string]bool) ([]byte, error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(idleHead)
	for _, name := range slices.Sorted(maps.Keys(idle)) {
		if !strings.Contains(name, "\n") {
			b.WriteString(name + "\n")
		}
	}
	return e.EncodeAll([]byte(b.String()), nil), nil
}

// DecodeIdle decodes what EncodeIdle has encoded. It is an error if b is anything else, or cut off.
func DecodeIdle(b []byte) (map[string]bool, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxIdle))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	text, err := d.DecodeAll(b, nil)
	if err != nil {
		return nil, fmt.Errorf("no names of functions: %w", err)
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
