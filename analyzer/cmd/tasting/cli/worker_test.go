package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
	in, requests := io.Pipe()
	out, responses := io.Pipe()
	done := make(chan int)
	go func() {
		code := Main([]string{"tasting", "object", "--each", "--persistent_worker"}, in, responses, os.Stderr)
		responses.Close()
		done <- code
	}()
	go func() {
		// Bazel writes one on each line; more fields than are known do no harm.
		for i := range n {
			fmt.Fprintf(requests, `{"arguments":["%d=%d.m","%d=again/%d.m"],"inputs":[{"path":"%d","digest":"eA=="}],"requestId":%d}`+"\n", i, i, i, i, i, i+1)
		}
		fmt.Fprintf(requests, `{"arguments":["nowhere=x.m"],"requestId":%d}`+"\n", n+1)
		fmt.Fprintln(requests, `{"arguments":["0=once.m"]}`)
	}()
	if err := os.Mkdir("again", 0o777); err != nil {
		t.Fatal(err)
	}
	seen := map[int]workResponse{}
	for d := json.NewDecoder(out); len(seen) < n+2; {
		var r workResponse
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		seen[r.RequestID] = r
	}
	requests.Close()
	if code := <-done; code != exitOK {
		t.Errorf("the worker ends with %d", code)
	}
	for id, r := range seen {
		if bad := id == n+1; bad != (r.ExitCode != 0) || bad != strings.Contains(r.Output, "nowhere") {
			t.Errorf("request %d: exit code %d, %q", id, r.ExitCode, r.Output)
		}
	}
	for i := range n {
		var stderr bytes.Buffer
		if code := Main([]string{"tasting", "object", "-o", "alone.m", fmt.Sprint(i)}, nil, io.Discard, &stderr); code != exitOK {
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
	for _, in := range []string{"{", "x", `{"arguments":1}`, `{"requestId":"x"}`} {
		var stdout, stderr bytes.Buffer
		if code := Main([]string{"tasting", "object", "--persistent_worker"}, strings.NewReader(in), &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "not a work request") || stdout.Len() > 0 {
			t.Errorf("%s: exit code %d, %q, %q", in, code, stdout.String(), stderr.String())
		}
	}
}
