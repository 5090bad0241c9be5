package bazel

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// WorkRequest is an action that Bazel has a persistent worker do
// (worker_protocol.proto), without fields that no worker of this project needs.
type WorkRequest struct {
	Arguments []string
	ID        int32
}

// ReadWorkRequest reads the next request, behind its length. It returns io.EOF at
// the end of the input, and another error if it reads anything but a request.
func ReadWorkRequest(in *bufio.Reader) (WorkRequest, error) {
	var r WorkRequest
	size, err := binary.ReadUvarint(in)
	if err != nil {
		return r, err
	}
	if size > math.MaxInt32 {
		return r, fmt.Errorf("WorkRequest: %d bytes are more than a message has", size)
	}
	var b bytes.Buffer // grows with the input, because the length may be wrong
	if _, err := io.CopyN(&b, in, int64(size)); err == io.EOF {
		return r, fmt.Errorf("WorkRequest: %w", io.ErrUnexpectedEOF)
	} else if err != nil {
		return r, err
	}
	l, err := fields(b.Bytes())
	for _, f := range l {
		switch f.number {
		case 1:
			r.Arguments = append(r.Arguments, string(f.bytes))
		case 3:
			r.ID = int32(f.varint)
		}
	}
	if err != nil {
		err = fmt.Errorf("WorkRequest: %w", err)
	}
	return r, err
}

// WriteWorkResponse answers the request of that ID with an exit code, and what was
// printed.
func WriteWorkResponse(out io.Writer, id int32, exitCode int, printed []byte) error {
	var b []byte
	for _, f := range []struct {
		n protowire.Number
		x int32
	}{{1, int32(exitCode)}, {3, id}} {
		b = protowire.AppendVarint(protowire.AppendTag(b, f.n, protowire.VarintType), uint64(f.x))
	}
	// Strings of protocol buffers are UTF-8: Bazel would take another for a broken worker.
	b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), bytes.ToValidUTF8(printed, []byte("\uFFFD")))
	_, err := out.Write(protowire.AppendBytes(nil, b))
	return err
}
