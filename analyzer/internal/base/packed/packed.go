// Package packed makes files that are read and written as a whole small, by zstd.
package packed

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// encoder keeps its buffers from one call to the next, and may be used concurrently.
var encoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest))
})

// Pack compresses b, fast, and the same way each time.
func Pack(b []byte) ([]byte, error) {
	e, err := encoder()
	if err != nil {
		return nil, err
	}
	return e.EncodeAll(b, nil), nil
}

// Unpack returns what Pack has compressed. It is an error if b is anything else, or is more than limit bytes without
// compression.
func Unpack(b []byte, limit uint64) ([]byte, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(limit))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.DecodeAll(b, nil)
}
