// The traces command measures what collecting traces costs: it runs programs as they are, traced, and traced once more when it is
// known what they enter, in turns, and prints CPU times of program and tracer.
//
//	./bazelw --exec go run ./analyzer/verify/bench/traces [-n ROUNDS] PROGRAM...
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

	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
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

// measured is what a program took, each the least of all rounds.
type measured struct {
	functions, entered  int
	bare, traced, again time.Duration
}

// bar is how much more tracing may take.
func (m *measured) bar() time.Duration {
	return time.Duration(share*float64(m.bare)) + time.Duration(m.entered)*perFunction + fixed
}

func run(programs []string, n int, out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "program\tfunctions\tentered\tbare, ms\ttraced: more, ms\tof the bar\tonce more: more, ms\tof the bar\t")
	var first, later []float64
	for _, p := range programs {
		m, err := measure(p, n)
		if err != nil {
			fmt.Fprintf(os.Stderr, "left out: %v\n", err)
			continue
		}
		t, a := m.traced-m.bare, m.again-m.bare
		first, later = append(first, float64(t)/float64(m.bar())), append(later, float64(a)/float64(m.bar()))
		k := len(first) - 1
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.1f\t%.2f\t%.1f\t%.2f\t\n", filepath.Base(p), m.functions, m.entered, ms(m.bare), ms(t), first[k], ms(a), later[k])
	}
	if err := w.Flush(); err != nil || len(first) == 0 {
		return err
	}
	slices.Sort(first)
	slices.Sort(later)
	fmt.Fprintf(out, "%d programs, medians: %.2f of the bar, once more %.2f\n", len(first), first[len(first)/2], later[len(later)/2])
	return nil
}

// measure runs a program as it is, traced, and once more, n times in turns.
func measure(p string, n int) (*measured, error) {
	p, err := filepath.Abs(p)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "bench-traces-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	start := func(least *time.Duration, f func(*exec.Cmd) (*trace.Result, error)) (*trace.Result, error) {
		cmd := exec.Command(p)
		cmd.Env = append(os.Environ(), "TEST_TMPDIR="+scratch, "TEST_SRCDIR="+p+".runfiles", "TEST_WORKSPACE=_main")
		cmd.Dir = scratch // some write where they are
		if dir := p + ".runfiles/_main"; isDir(dir) {
			cmd.Dir = dir
		}
		before := cpu()
		r, err := f(cmd)
		took := cpu() - before
		if err == nil && (r.Status != 0 || r.Void != "") {
			err = fmt.Errorf("%s: %s %s", p, r.Ending(), r.Void)
		}
		if *least == 0 || took < *least {
			*least = took
		}
		return r, err
	}
	tracing := func(opt trace.Options) func(*exec.Cmd) (*trace.Result, error) {
		return func(cmd *exec.Cmd) (*trace.Result, error) { return trace.Run(cmd, opt, nil) }
	}
	m := new(measured)
	for round := range n {
		if _, err := start(&m.bare, trace.Bare); err != nil {
			return nil, err
		}
		r, err := start(&m.traced, tracing(trace.Options{}))
		if err != nil {
			return nil, err
		}
		m.entered, m.functions = r.Stats.Entries, 0
		for _, f := range r.Trace.Files {
			m.functions += f.Functions
		}
		// Which of the functions get a breakpoint again differs from round to round.
		again := trace.Again(r.Trace.Entered(), fmt.Appendf(nil, "%4d", round))
		if _, err := start(&m.again, tracing(trace.Options{Entered: again})); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
