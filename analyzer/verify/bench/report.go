package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Report is the result of a run; times are in seconds.
type Report struct {
	Machine string       `json:"machine"`
	Clang   string       `json:"clang"`
	GCC     string       `json:"gcc"`
	Files   []FileReport `json:"files"`
	Runner  RunnerReport `json:"runner"`
}

func benchFiles(args []string) error {
	f := flag.NewFlagSet("bench", flag.ExitOnError)
	asJSON := f.Bool("json", false, "print JSON, not a table")
	runs := f.Int("n", 5, "repetitions; the least of them counts")
	only := f.String("files", "", "measure only the files whose name contains this")
	_ = f.Parse(args)
	dir, err := os.MkdirTemp("", "tasting-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	inputs, err := inputs(dir)
	if err != nil {
		return err
	}
	r := Report{Machine: machine(), Clang: version("clang"), GCC: version("gcc")}
	for _, in := range inputs {
		for _, compiler := range []string{"clang", "gcc"} {
			if !strings.Contains(in.name, *only) {
				continue
			}
			fmt.Fprintf(os.Stderr, "bench: %s with %s\n", in.name, compiler)
			f, err := measureFile(dir, in, compiler, *runs)
			if err != nil {
				return err
			}
			r.Files = append(r.Files, *f)
		}
	}
	fmt.Fprintln(os.Stderr, "bench: runner")
	if r.Runner, err = measureRunner(dir, 10**runs); err != nil {
		return err
	}
	if *asJSON {
		return printJSON(r)
	}
	return r.print(os.Stdout)
}

func (r *Report) print(out io.Writer) error {
	fmt.Fprintf(out, "%s; %s; %s\n\n", r.Machine, r.Clang, r.GCC)
	w := newTable(out)
	fmt.Fprintln(w, "file\tcompiler\t-O0 -c\tobject\tanalysis\t(wall)\tunchanged\t(wall)\tGo/clang\tmemory\t")
	row := func(f *FileReport) {
		fmt.Fprintf(w, "%s\t%s\t%.2f s\t%.3f\t", f.File, f.Compiler, f.Compile.CPU, f.ObjectCPU)
		if f.Plain {
			fmt.Fprintf(w, "%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t", f.AnalysisCPU, f.AnalysisWall, f.UnchangedCPU, f.UnchangedWall, f.GoOverClang)
		} else {
			fmt.Fprint(w, "\t\t\t\t\t")
		}
		fmt.Fprintf(w, "%.0f MB\t\n", f.MemoryMB)
	}
	for i := range r.Files {
		row(&r.Files[i])
	}
	for _, compiler := range []string{"clang", "gcc"} {
		for _, plain := range []bool{true, false} {
			if m := median(r.Files, compiler, plain); m != nil {
				row(m)
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	fmt.Fprintln(w, "\twall\tmedian\tCPU\toverhead\t")
	ms := func(name string, t Times, over string) {
		fmt.Fprintf(w, "%s\t%.1f ms\t%.1f ms\t%.1f ms\t%s\t\n", name, 1e3*t.Wall, 1e3*t.MedianWall, 1e3*t.CPU, over)
	}
	p := &r.Runner
	ms("bare test", p.Bare, "")
	ms("tasting --help", p.Start, "")
	ms("hit", p.Hit, fmt.Sprintf("%.1f ms", 1e3*p.HitOverStart))
	ms("miss", p.Miss, fmt.Sprintf("%.1f ms", 1e3*p.MissOverBareAndStart))
	return w.Flush()
}

// median returns the medians of the ratios of the real files of plain C, or of all
// others.
func median(files []FileReport, compiler string, plain bool) *FileReport {
	var real []FileReport
	for _, f := range files {
		if f.Compiler == compiler && !f.Generated && f.Plain == plain {
			real = append(real, f)
		}
	}
	if len(real) < 2 {
		return nil
	}
	m := &FileReport{File: "median of plain C", Compiler: compiler, Plain: plain}
	if !plain {
		m.File = "median of others"
	}
	figures := func(f *FileReport) []*float64 {
		return []*float64{&f.Compile.CPU, &f.ObjectCPU, &f.AnalysisCPU, &f.AnalysisWall, &f.UnchangedCPU, &f.UnchangedWall, &f.GoOverClang, &f.MemoryMB}
	}
	for i, figure := range figures(m) {
		var l []float64
		for k := range real {
			l = append(l, *figures(&real[k])[i])
		}
		*figure = medianOf(l)
	}
	return m
}

// machine describes where the figures come from.
func machine() string {
	model := runtime.GOARCH
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if k, v, _ := strings.Cut(line, ":"); strings.TrimSpace(k) == "model name" {
			model = strings.TrimSpace(v)
			break
		}
	}
	return fmt.Sprintf("%d x %s, %s", runtime.NumCPU(), model, runtime.Version())
}

func version(compiler string) string {
	b, err := exec.Command(compiler, "--version").Output()
	if err != nil {
		return compiler + ": " + err.Error()
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}
