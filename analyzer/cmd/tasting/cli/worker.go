package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
)

// workerFlag makes tasting a persistent worker of Bazel: it then answers requests
// to run the command line in front of it with more arguments, many at a time,
// and a build doesn't pay for a process and a sandbox for each file that is
// read. See https://bazel.build/remote/creating.
const workerFlag = "--persistent_worker"

// serve answers requests, each with what Main returns and prints for args and
// those of the request, until there are no more. The commands share nothing.
func serve(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var running sync.WaitGroup
	defer running.Wait()
	var mu sync.Mutex // for stdout
	for requests := bufio.NewReader(stdin); ; {
		r, err := bazel.ReadWorkRequest(requests)
		if err == io.EOF {
			return command.OK
		} else if err != nil {
			fmt.Fprintf(stderr, "tasting: %s: not a work request: %v\n", workerFlag, err)
			return command.Usage
		}
		running.Go(func() {
			code, printed := work(slices.Concat(args, r.Arguments))
			mu.Lock()
			defer mu.Unlock()
			if err := bazel.WriteWorkResponse(stdout, r.ID, code, printed); err != nil {
				fmt.Fprintf(stderr, "tasting: %s: %v\n", workerFlag, err)
			}
		})
	}
}

// work runs a command, and returns its exit code and what it printed. One that
// panics fails alone.
func work(args []string) (code int, printed []byte) {
	var out bytes.Buffer
	code = command.Internal
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(&out, "tasting: panic: %v\n%s", p, debug.Stack())
		}
		printed = out.Bytes()
	}()
	return execute(args, nil, &out, &out), nil
}
