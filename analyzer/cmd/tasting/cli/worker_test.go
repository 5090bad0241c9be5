package cli

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
)

// request encodes a WorkRequest (worker_protocol.proto) as Bazel sends it: also with
// fields that aren't known here.
func request(id int, args ...string) []byte {
	var b []byte
	for _, a := range args {
		b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), a)
	}
	b = protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), "an input")
	b = protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.VarintType), uint64(id))
	return protowire.AppendBytes(nil, b)
}

// response is a WorkResponse.
type response struct {
	code, id int
	output   string
}

func (w *response) read(r *bufio.Reader) error {
	size, err := binary.ReadUvarint(r)
	if err != nil {
		return err
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	for len(b) > 0 {
		n, typ, k := protowire.ConsumeTag(b)
		b = b[max(k, 0):]
		var x uint64
		var v []byte
		if typ == protowire.BytesType {
			v, k = protowire.ConsumeBytes(b)
		} else {
			x, k = protowire.ConsumeVarint(b)
		}
		if k < 0 {
			return protowire.ParseError(k)
		}
		b = b[k:]
		switch n {
		case 1:
			w.code = int(int32(x))
		case 2:
			w.output = string(v)
		case 3:
			w.id = int(int32(x))
		}
	}
	return nil
}

// TestWorker: a worker answers every request as a process of its own would, and
// one that goes wrong harms no other.
func TestWorker(t *testing.T) {
	t.Chdir(t.TempDir())
	const n = 20
	for i := range n {
		if err := os.WriteFile(fmt.Sprint(i), []byte(strings.Repeat("x", i)), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("again", 0o777); err != nil {
		t.Fatal(err)
	}
	in, requests := io.Pipe()
	out, responses := io.Pipe()
	done := make(chan int)
	go func() {
		code := Main([]string{"tasting", "internal", "object", "--each", "--persistent_worker"}, in, responses, os.Stderr)
		responses.Close()
		done <- code
	}()
	go func() {
		for i := range n {
			requests.Write(request(i+1, fmt.Sprintf("%d=%d.m", i, i), fmt.Sprintf("%d=again/%d.m", i, i)))
		}
		requests.Write(request(n+1, "nowhere=x.m"))
		requests.Write(request(0, "0=once.m"))
	}()
	seen := map[int]response{}
	for r := bufio.NewReader(out); len(seen) < n+2; {
		var x response
		if err := x.read(r); err != nil {
			t.Fatal(err)
		}
		seen[x.id] = x
	}
	requests.Close()
	if code := <-done; code != command.OK {
		t.Errorf("the worker ends with %d", code)
	}
	for id, r := range seen {
		if bad := id == n+1; bad != (r.code != 0) || bad != strings.Contains(r.output, "nowhere") {
			t.Errorf("request %d: exit code %d, %q", id, r.code, r.output)
		}
	}
	for i := range n {
		var stderr bytes.Buffer
		if code := Main([]string{"tasting", "internal", "object", "-o", "alone.m", fmt.Sprint(i)}, nil, io.Discard, &stderr); code != command.OK {
			t.Fatal(stderr.String())
		}
		want, err := os.ReadFile("alone.m")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{fmt.Sprint(i, ".m"), filepath.Join("again", fmt.Sprint(i, ".m"))} {
			if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s isn't what a process of its own writes: %v", name, err)
			}
		}
	}
}

// TestWorkerBadRequest: what isn't a request ends the worker; Bazel starts another.
func TestWorkerBadRequest(t *testing.T) {
	whole := string(request(1, "0=0.m"))
	for _, in := range []string{"{", "\x80", "\x01\x0a", "\x03\x0a\x05x", whole[:len(whole)-1], strings.Repeat("\xff", 9) + "\x01"} {
		var stdout, stderr bytes.Buffer
		if code := Main([]string{"tasting", "internal", "object", "--persistent_worker"}, strings.NewReader(in), &stdout, &stderr); code != command.Usage || !strings.Contains(stderr.String(), "not a work request") || stdout.Len() > 0 {
			t.Errorf("%q: exit code %d, %q, %q", in, code, stdout.String(), stderr.String())
		}
	}
}
