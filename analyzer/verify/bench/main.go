// Command bench measures what this project costs.
//
//	./bazelw --exec go run ./analyzer/verify/bench                      analysis and replay, on real files of C and C++
//	./bazelw --exec go run ./analyzer/verify/bench scale                composition of thousands of tests
//	./bazelw --exec go run ./analyzer/verify/bench store                stores under load
//	./bazelw --exec go run ./analyzer/verify/bench traces PROGRAM...    tracing
//
// Each prints a table, or all but the last with --json the same for programs. docs/contributing/benchmarks.md explains
// the figures. A benchmark never fails for being slow, only if a run itself fails.
//
// The program contains tasting: it starts itself in place of it, so that a
// process can report its own memory and processor time apart from clang's.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/cli"
)

// benchmarks are the benchmarks by their names on the command line, with their further arguments.
var benchmarks = map[string]func(args []string) error{"files": benchFiles, "scale": benchScale, "store": benchStore, "traces": benchTraces}

func main() {
	if report := os.Getenv(childVariable); report != "" {
		code := cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr)
		if err := writeUsage(report); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			code = 3
		}
		os.Exit(code)
	}
	name, args := "files", os.Args[1:]
	if len(args) > 0 && benchmarks[args[0]] != nil {
		name, args = args[0], args[1:]
	}
	if err := benchmarks[name](args); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %s: %v\n", name, err)
		os.Exit(1)
	}
}

func newTable(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
}

func printJSON(v any) error {
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func medianOf(l []float64) float64 {
	l = slices.Sorted(slices.Values(l))
	return (l[(len(l)-1)/2] + l[len(l)/2]) / 2
}
