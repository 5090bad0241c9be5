package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
)

// workerFlag makes tasting a persistent worker of Bazel: it then answers requests
// to run the command line in front of it with more arguments, many at a time,
// and a build doesn't pay for a process and a sandbox for each file that is
// read. See https://bazel.build/remote/creating.
const workerFlag = "--persistent_worker"

// workRequest and workResponse are those of worker_protocol.proto, as JSON.
type workRequest struct {
	Arguments []string `json:"arguments"`
	RequestID int      `json:"requestId"`
}

type workResponse struct {
	ExitCode  int    `json:"exitCode"`
	Output    string `json:"output"`
	RequestID int    `json:"requestId"`
}

// serve answers requests, each with what Main returns and prints for args and
// those of the request, until there are no more. The commands share nothing.
func serve(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var running sync.WaitGroup
	defer running.Wait()
	var mu sync.Mutex // for stdout
	requests, responses := json.NewDecoder(stdin), json.NewEncoder(stdout)
	for {
		var r workRequest
		if err := requests.Decode(&r); errors.Is(err, io.EOF) {
			return exitOK
		} else if err != nil {
			fmt.Fprintf(stderr, "tasting: %s: not a work request: %v\n", workerFlag, err)
			return exitUsage
		}
		running.Go(func() {
			w := work(args, r)
			mu.Lock()
			defer mu.Unlock()
			if err := responses.Encode(w); err != nil {
				fmt.Fprintf(stderr, "tasting: %s: %v\n", workerFlag, err)
			}
		})
	}
}

// work runs a command. One that panics fails alone.
func work(args []string, r workRequest) (w workResponse) {
	var out bytes.Buffer
	w = workResponse{ExitCode: exitInternal, RequestID: r.RequestID}
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(&out, "tasting: panic: %v\n%s", p, debug.Stack())
		}
		w.Output = out.String()
	}()
	w.ExitCode = execute(slices.Concat(args, r.Arguments), nil, &out, &out)
	return w
}
