package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
)

// The bar for what tracing may cost.
const perFunction, fixed, share = 5 * time.Microsecond, 10 * time.Millisecond, 0.03

// tracing is what a program took, each the least of all rounds.
type tracing struct {
	functions, entered  int
	bare, traced, again time.Duration
}

// bar is how much more tracing may take.
func (m *tracing) bar() time.Duration {
	return time.Duration(share*float64(m.bare)) + time.Duration(m.entered)*perFunction + fixed
}

// benchTraces runs programs as they are, traced, and traced once more when it is
// known what they enter, in turns, and prints CPU times of program and tracer.
//
// The bar is 3 % of the program's CPU time, 5 µs for each function that is entered, and 10 ms.
func benchTraces(args []string) error {
	f := flag.NewFlagSet("bench traces", flag.ExitOnError)
	n := f.Int("n", 3, "`ROUNDS`: the smallest CPU time of each counts")
	_ = f.Parse(args)
	w := newTable(os.Stdout)
	fmt.Fprintln(w, "program\tfunctions\tentered\tbare, ms\ttraced: more, ms\tof the bar\tonce more: more, ms\tof the bar\t")
	var first, later []float64
	for _, p := range f.Args() {
		m, err := measureTraces(p, *n)
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
	fmt.Printf("%d programs, medians: %.2f of the bar, once more %.2f\n", len(first), medianOf(first), medianOf(later))
	return nil
}

// measureTraces runs a program as it is, traced, and once more, n times in turns.
func measureTraces(p string, n int) (*tracing, error) {
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
		before := cpuOf(syscall.RUSAGE_SELF) + cpuOf(syscall.RUSAGE_CHILDREN)
		r, err := f(cmd)
		took := cpuOf(syscall.RUSAGE_SELF) + cpuOf(syscall.RUSAGE_CHILDREN) - before
		if err == nil && (r.Status != 0 || r.Void != "") {
			err = fmt.Errorf("%s: %s %s", p, r.Ending(), r.Void)
		}
		if *least == 0 || took < *least {
			*least = took
		}
		return r, err
	}
	traced := func(opt trace.Options) func(*exec.Cmd) (*trace.Result, error) {
		return func(cmd *exec.Cmd) (*trace.Result, error) { return trace.Run(cmd, opt, nil) }
	}
	m := new(tracing)
	for round := range n {
		if _, err := start(&m.bare, trace.Bare); err != nil {
			return nil, err
		}
		r, err := start(&m.traced, traced(trace.Options{}))
		if err != nil {
			return nil, err
		}
		m.entered, m.functions = r.Stats.Entries, 0
		for _, f := range r.Trace.Files {
			m.functions += f.Functions
		}
		// Which of the functions get a breakpoint again differs from round to round.
		again := trace.Spared(r.Trace.Entered(), fmt.Appendf(nil, "%4d", round))
		if _, err := start(&m.again, traced(trace.Options{Entered: again})); err != nil {
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
