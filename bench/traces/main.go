// The traces command measures what collecting traces costs: it runs programs as they are, traced, and traced once more when it is
// known what they enter, in turns, and prints CPU times of program and tracer.
//
//	./bazelw --exec go run ./bench/traces [-n ROUNDS] PROGRAM...
//
// The bar is 3 % of the program's CPU time, 5 µs for each function that is entered, and 10 ms.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/trace"
)

const perFunction, fixed, share = 5 * time.Microsecond, 10 * time.Millisecond, 0.03

func main() {
	n := flag.Int("n", 3, "`ROUNDS`: the smallest CPU time of each counts")
	flag.Parse()
	if err := run(flag.Args(), *n, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "traces:", err)
		os.Exit(1)
	}
}

// cpu is the CPU time of this process and of its children that have ended.
func cpu() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		_ = syscall.Getrusage(who, &u)
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}

func run(programs []string, n int, out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "program\tfunctions\tentered\tbare, ms\ttraced: more, ms\tof the bar\tonce more: more, ms\tof the bar\t")
	var first, later []float64
	for _, p := range programs {
		p, err := filepath.Abs(p)
		if err != nil {
			return err
		}
		var bare, traced, again []time.Duration
		entered, functions := 0, 0
		scratch, err := os.MkdirTemp("", "bench-traces-")
		if err != nil {
			return err
		}
		start := func(opt trace.Options, f func(*exec.Cmd, trace.Options) (*trace.Result, error)) (*trace.Result, time.Duration, error) {
			cmd := exec.Command(p)
			cmd.Env = append(os.Environ(), "TEST_TMPDIR="+scratch, "TEST_SRCDIR="+p+".runfiles", "TEST_WORKSPACE=_main")
			if dir := p + ".runfiles/_main"; isDir(dir) {
				cmd.Dir = dir
			}
			before := cpu()
			r, err := f(cmd, opt)
			took := cpu() - before
			if err == nil && (r.Status != 0 || r.Void != "") {
				err = fmt.Errorf("%s: %s %s", p, r.Ending(), r.Void)
			}
			return r, took, err
		}
		tracing := func(cmd *exec.Cmd, opt trace.Options) (*trace.Result, error) { return trace.Run(cmd, opt, nil) }
		for round := range n {
			_, took, err := start(trace.Options{}, func(cmd *exec.Cmd, _ trace.Options) (*trace.Result, error) { return trace.Bare(cmd) })
			if err != nil {
				return err
			}
			bare = append(bare, took)
			r, took, err := start(trace.Options{}, tracing)
			if err != nil {
				return err
			}
			traced = append(traced, took)
			entered, functions = r.Stats.Entries, 0
			for _, f := range r.Trace.Files {
				functions += f.Functions
			}
			_, took, err = start(trace.Options{Entered: trace.Again(r.Trace.Entered(), fmt.Appendf(nil, "%4d", round))}, tracing)
			if err != nil {
				return err
			}
			again = append(again, took)
		}
		if err := os.RemoveAll(scratch); err != nil {
			return err
		}
		b := slices.Min(bare)
		bar := time.Duration(share*float64(b)) + time.Duration(entered)*perFunction + fixed
		more := func(l []time.Duration) (time.Duration, float64) {
			d := slices.Min(l) - b
			return d, float64(d) / float64(bar)
		}
		t, ofBar := more(traced)
		a, againOfBar := more(again)
		first, later = append(first, ofBar), append(later, againOfBar)
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.1f\t%.2f\t%.1f\t%.2f\t\n", filepath.Base(p), functions, entered, ms(b), ms(t), ofBar, ms(a), againOfBar)
	}
	if err := w.Flush(); err != nil || len(first) == 0 {
		return err
	}
	slices.Sort(first)
	slices.Sort(later)
	fmt.Fprintf(out, "%d programs, medians: %.2f of the bar, once more %.2f\n", len(first), first[len(first)/2], later[len(later)/2])
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
