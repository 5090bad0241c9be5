// Package workspace checks in a whole Bazel workspace that links and closures
// are sound, without a change of its BUILD files.
//
// # The idea
//
// Bazel knows everything that packages witness and executions need, and tells it:
//
//   - which tests there are: bazel query;
//   - the closure of each: the output group tasting_closure of the aspect;
//   - the command line of each compiler: bazel aquery. In the execution root,
//     where Bazel itself would start it, witness.Links does the same;
//   - the functions that a test executes: flags can be added to every compilation
//     (--per_file_copt) and link (--linkopt) of a build, external repositories
//     included, and a command can be put in front of every test (--run_under):
//     one that names the file of the profile, among the outputs that Bazel keeps
//     of a test.
//
// The real tests are run: of a tasting_cc_test, the cc_test behind it.
//
// All that is built has an output base of its own, so that the user's builds
// stay as they are.
package workspace

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/compiler"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	buildevents "github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/executions"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/witness"
	"golang.org/x/sync/errgroup"
)

// Options of Check.
type Options struct {
	Bazel   string   // program
	Flags   []string // for all of Bazel's commands that know them
	Targets []string // patterns; one that starts with "-" takes away
	// Dir is a directory in the workspace, empty for the current one.
	Dir string
	// OutputBase is where Bazel works, empty for a place in the user's cache.
	OutputBase string
	// Clang analyses, and reads profiles; empty for the build's compiler.
	Clang string
	// SkipLinks and SkipExecutions leave out a check.
	SkipLinks, SkipExecutions bool
	// Tracer is a tasting by which tests are traced while they run instrumented, or empty: what
	// counters see has to be in the trace.
	Tracer string
	// Sample is the number of units whose links are checked, 0 for all.
	Sample int
	// Log is where Bazel's messages go.
	Log io.Writer
	// Progress is called with what is done, and with how many of how many are, if it isn't nil.
	Progress func(what string, done, total int)
}

// Report is the outcome of Check.
type Report struct {
	Links *Links `json:"links,omitempty"`
	Tests []Test `json:"tests,omitempty"`
}

// Links is the outcome of witness.Links for all units.
type Links struct {
	Units   int `json:"units"`
	Checked int `json:"checked"`
	// Skipped are units that can't be compared, Errors those that could not be
	// compiled or analysed.
	Skipped    []UnitError `json:"skipped"`
	Errors     []UnitError `json:"errors"`
	Symbols    int         `json:"symbols"`
	References int         `json:"references"`
	Runtime    int         `json:"runtime"`
	witness.Counts
	Violations []Violation `json:"violations"`
}

// UnitError is the reason why a unit wasn't checked.
type UnitError struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

// Violation is one of witness.Links, with its file.
type Violation struct {
	File string `json:"file"`
	witness.LinkViolation
}

// Test is the outcome of executions.Check for a test.
type Test struct {
	Label string `json:"label"`
	// Failed is true if the instrumented test failed. What it executed counts
	// all the same.
	Failed bool `json:"failed,omitempty"`
	// Error is the reason why the test could not be checked, or empty.
	Error string `json:"error,omitempty"`
	// Others is the number of profiles of programs and libraries in the test's
	// data. Their content is in the fingerprint instead of their functions.
	Others    int                `json:"others,omitempty"`
	Execution *executions.Result `json:"execution,omitempty"`
	// Trace compares a trace of the same run with what it executed, if it was traced (Options.Tracer).
	Trace *executions.Entries `json:"trace,omitempty"`
}

// Violations returns the number of violations of both checks.
func (r *Report) Violations() (n int) {
	if r.Links != nil {
		n = len(r.Links.Violations)
	}
	for _, t := range r.Tests {
		if t.Execution != nil {
			n += len(t.Execution.Violations)
		}
		if t.Trace != nil {
			n += len(t.Trace.Missing)
		}
	}
	return n
}

// Unchecked returns the number of units and tests that could not be checked.
// Those that are skipped don't count.
func (r *Report) Unchecked() (n int) {
	if r.Links != nil {
		n = len(r.Links.Errors)
	}
	for _, t := range r.Tests {
		if t.Error != "" || t.Trace != nil && len(t.Trace.GaveUp) > 0 {
			n++
		}
	}
	return n
}

// Check runs the checks over the tests of a workspace and all that they link.
// It changes the current directory while it runs.
func Check(ctx context.Context, opt Options) (r *Report, err error) {
	if err := opt.complete(); err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "tasting-workspace-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	b := &bazel{program: opt.Bazel, dir: opt.Dir, outputBase: opt.OutputBase, tmp: tmp, flags: opt.Flags, log: opt.Log}
	if len(opt.Flags) > 0 {
		if b.known, err = (&buildevents.Bazel{Program: b.program, Dir: b.dir, Startup: b.startup()}).Flags(ctx); err != nil {
			return nil, err
		}
	}
	labels, err := b.tests(ctx, opt.Targets)
	if err != nil {
		return nil, err
	}
	if len(labels) == 0 {
		return nil, fmt.Errorf("no cc_test or tasting_cc_test in %s", strings.Join(opt.Targets, " "))
	}
	units, err := b.compilations(ctx, labels)
	if err != nil {
		return nil, err
	}
	if len(units) == 0 {
		return nil, fmt.Errorf("nothing is compiled for the tests in %s", strings.Join(opt.Targets, " "))
	}
	opt.Progress("build", 0, len(labels))
	// Makes generated sources, too.
	closures, err := b.build(ctx, "build", labels, "--aspects=@rules_tasting//rules:defs.bzl%tasting_aspect", "--output_groups=+tasting_closure")
	if err != nil {
		return nil, err
	}
	// The build with instrumentation takes the place of these programs.
	functions := map[string]executions.Functions{}
	if !opt.SkipExecutions {
		for label, c := range closures {
			if functions[label], err = functionsOf(c.files); err != nil {
				return nil, err
			}
		}
	}
	root, err := b.executionRoot(ctx)
	if err != nil {
		return nil, err
	}
	// Command lines are relative to it, and so are the names in manifests.
	wd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if err := os.Chdir(root); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Chdir(wd)) }()

	clang, err := opt.findClang(ctx, units)
	if err != nil {
		return nil, err
	}
	r = &Report{}
	if !opt.SkipLinks {
		if r.Links, err = links(ctx, units, clang, opt.Sample, opt.Progress); err != nil {
			return nil, err
		}
	}
	if !opt.SkipExecutions {
		if r.Tests, err = execute(ctx, b, labels, closures, functions, clang, &opt); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// complete sets the options that are left open.
func (opt *Options) complete() (err error) {
	if opt.Progress == nil {
		opt.Progress = func(string, int, int) {}
	}
	if opt.Dir == "" {
		if opt.Dir, err = os.Getwd(); err != nil {
			return err
		}
	}
	if opt.OutputBase == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("no place for Bazel's outputs (%w): name one with --output-base", err)
		}
		opt.OutputBase = filepath.Join(cache, "rules_tasting", fmt.Sprintf("check-%x", sha256.Sum256([]byte(opt.Dir)))[:22])
	}
	return nil
}

// findClang returns the clang that analyses: the named one, or the first among the compilers of units. To check
// executions, all of these have to be clang.
func (opt *Options) findClang(ctx context.Context, units []compilation) (string, error) {
	clang := opt.Clang
	seen := map[string]bool{}
	for _, u := range units {
		program := u.argv[0]
		if seen[program] {
			continue
		}
		seen[program] = true
		out, err := exec.CommandContext(ctx, program, "--version").Output()
		switch isClang := bytes.Contains(out, []byte("clang version")); {
		case err != nil:
			return "", fmt.Errorf("%s, the compiler of %s, can't be started: %w", program, u.source, err)
		case isClang:
			clang = cmp.Or(clang, program)
		case !opt.SkipExecutions:
			return "", fmt.Errorf("%s is not clang, and only clang tells which functions a test executes: build with clang (--bazel-flag=--repo_env=CC=clang), or check links only (--skip-executions)", program)
		}
	}
	return cmp.Or(clang, "clang"), nil
}

// links checks units of C and C++, or a sample of them that is spread evenly.
func links(ctx context.Context, units []compilation, clang string, sample int, progress func(string, int, int)) (*Links, error) {
	l := &Links{Units: len(units), Skipped: []UnitError{}, Errors: []UnitError{}, Violations: []Violation{}}
	units = slices.DeleteFunc(slices.Clone(units), func(u compilation) bool {
		other := !compiler.IsSource(u.source)
		if other {
			l.Skipped = append(l.Skipped, UnitError{u.source, "not C or C++"})
		}
		return other
	})
	if sample > 0 && sample < len(units) {
		var some []compilation
		for i := range sample {
			some = append(some, units[i*len(units)/sample])
		}
		units = some
	}
	results := make([]*witness.LinkResult, len(units))
	errs := make([]error, len(units))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, u := range units {
		progress("links of "+u.source, i+1, len(units))
		g.Go(func() error { results[i], errs[i] = witness.Links(ctx, u.argv, clang); return nil })
	}
	_ = g.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for i, r := range results {
		if err := errs[i]; err != nil {
			l.Errors = append(l.Errors, UnitError{units[i].source, err.Error()})
			continue
		}
		l.Checked++
		l.Symbols += r.Symbols
		l.References += r.References
		l.Runtime += r.Runtime
		l.Counts.Add(r.Counts)
		for _, v := range r.Violations {
			l.Violations = append(l.Violations, Violation{r.File, v})
		}
	}
	return l, nil
}

// instrumented are flags of bazel test for a run that leaves profiles in the
// directory profiles of each test's outputs, and its trace by a tasting, if there is one.
func instrumented(tracer string) []string {
	start := `exec "$0" "$@"`
	if tracer != "" {
		start = `exec ` + tracer + ` trace --out="$TEST_UNDECLARED_OUTPUTS_DIR/` + traceFile + `" -- "$0" "$@"`
	}
	return []string{
		`--per_file_copt=\.(c|cc|cpp|cxx|c\+\+|C)$@` + strings.Join(executions.EntryCoverage, ","),
		"--linkopt=" + executions.EntryCoverageLink,
		`--run_under=/bin/sh -c 'LLVM_PROFILE_FILE="$TEST_UNDECLARED_OUTPUTS_DIR/` + profiles + `/%p-%m%c.profraw"; export LLVM_PROFILE_FILE; ` + start + `'`,
		"--nozip_undeclared_test_outputs",
		"--nocache_test_results", "--runs_per_test=1", "--flaky_test_attempts=1",
	}
}

const profiles, traceFile = "tasting-profiles", "tasting-trace"

// executions runs the tests and compares what each executes with its closure.
func execute(ctx context.Context, b *bazel, labels []string, closures map[string]*built, functions map[string]executions.Functions, clang string, opt *Options) ([]Test, error) {
	opt.Progress("build and run with instrumentation", 0, len(labels))
	runs, err := b.build(ctx, "test", labels, instrumented(opt.Tracer)...)
	if err != nil {
		return nil, err
	}
	tests := make([]Test, len(labels))
	for i, label := range labels {
		tests[i].Label = label
		opt.Progress("what "+label+" executed", i+1, len(labels))
		if err := tests[i].check(ctx, closures[label], runs[label], functions[label], clang, opt.Tracer != ""); err != nil {
			tests[i].Error = err.Error()
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return tests, nil
}

func (t *Test) check(ctx context.Context, composed, run *built, has executions.Functions, clang string, traced bool) error {
	isClosure := func(f string) bool { return strings.HasSuffix(f, fingerprint.ClosureSuffix) }
	var i int
	if composed != nil {
		i = slices.IndexFunc(composed.files, isClosure)
	}
	if composed == nil || i < 0 {
		return fmt.Errorf("no closure: %s", reason(composed))
	}
	if run == nil || len(run.logs) == 0 || len(run.files) == 0 {
		return fmt.Errorf("not run with instrumentation: %s", reason(run))
	}
	t.Failed = run.failed
	closure, err := fingerprint.ReadReport(composed.files[i])
	if err != nil {
		return err
	}
	data := dataIDs(closure, run.files[0]+".runfiles")
	var own []string
	for _, log := range run.logs {
		dir := filepath.Join(filepath.Dir(log), "test.outputs", profiles)
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("it wrote no profile to %s: is it a program of an uninstrumented build, or does it clear its environment?", dir)
		} else if err != nil {
			return err
		}
		for _, e := range entries {
			file := filepath.Join(dir, e.Name())
			if len(data) > 0 {
				id, err := executions.BuildID(ctx, file, clang)
				if err != nil {
					return err
				}
				if data[id] {
					t.Others++
					continue
				}
			}
			own = append(own, file)
		}
	}
	if t.Execution, err = executions.Check(ctx, closure, own, has, clang); err != nil || !traced {
		return err
	}
	return t.checkTrace(ctx, closure, run, own, clang)
}

// checkTrace compares the traces of a run, of one shard or several, with its profiles.
func (t *Test) checkTrace(ctx context.Context, closure *fingerprint.Report, run *built, profiles []string, clang string) error {
	all := new(trace.Trace)
	for _, log := range run.logs {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(log), "test.outputs", traceFile))
		if err != nil {
			return fmt.Errorf("it left no trace; its log says why: %w", err)
		}
		x, err := trace.Unmarshal(b)
		if err != nil {
			return fmt.Errorf("%s: %w", log, err)
		}
		all.Files, all.GaveUp = append(all.Files, x.Files...), append(all.GaveUp, x.GaveUp...)
	}
	has, err := functionsOf(run.files)
	if err == nil {
		t.Trace, err = executions.CheckTrace(ctx, closure, all, profiles, has, clang)
	}
	return err
}

// functionsOf returns the functions of the programs among files, and of the
// libraries in their runfiles.
func functionsOf(files []string) (executions.Functions, error) {
	has := executions.Functions{}
	for _, f := range files {
		if strings.HasSuffix(f, fingerprint.ClosureSuffix) {
			continue
		}
		if err := has.Add(f); err != nil {
			return nil, err
		}
		err := filepath.WalkDir(f+".runfiles", func(lib string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.Contains(d.Name(), ".so") {
				_ = has.Add(lib) // data may be anything
			} else if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return has, nil
}

func reason(b *built) string {
	if b == nil || b.aborted == "" {
		return "Bazel reports nothing of it; --verbose shows its messages"
	}
	return b.aborted
}

// dataIDs returns the build IDs of the programs and libraries among the data of
// a test.
func dataIDs(closure *fingerprint.Report, runfiles string) map[string]bool {
	ids := map[string]bool{}
	for _, c := range closure.Contributions {
		name, ok := strings.CutPrefix(c.Name, "data ")
		if !ok {
			continue
		}
		f, err := elf.Open(filepath.Join(runfiles, name))
		if err != nil {
			continue // not a program
		}
		if s := f.Section(".note.gnu.build-id"); s != nil {
			// A header of 12 bytes and the name "GNU".
			if b, err := s.Data(); err == nil && len(b) > 16 {
				ids[hex.EncodeToString(b[16:])] = true
			}
		}
		f.Close()
	}
	return ids
}
