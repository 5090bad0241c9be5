// Package driver is `tasting test`: it runs the tests of a Bazel workspace whose
// outcome isn't known, and replays the others, without a change of BUILD files.
//
// # How
//
// Test is a list of phases. Each one makes a value of its own from that of the phase before, which
// it doesn't change.
//
//  1. Expand (expand.go): `bazel test --nobuild` loads and analyses the patterns and tells
//     which tests there are and with which options they would be run.
//  2. Analyse (analyse.go): `bazel build` with tasting_aspect makes the manifests of all
//     cc_tests. Plain C isn't compiled for that, all else is; nothing is linked.
//     The configuration has to be that of step 1, which Bazel's checksums of it
//     tell. Step 1 is left out if it was done before with the same arguments and
//     bazelrc files: step 2 tells the tests as well (shortcut.go).
//     Then all tests are composed in this process. Tests with C that
//     isn't plain go through Bazel once more, for manifests of the objects (evidence.go).
//  3. Decide (decide.go): each test has a key (key.go), and the store is asked for all of them at once. What it
//     knows is replayed.
//  4. Execute (execute.go): `bazel test` gets the tests without a recorded result, and every test
//     that isn't a cc_test. It builds and runs them as usual.
//     The aspect takes part, so that there are manifests of what is built then.
//  5. Record (record.go): build events say how each of them ended. A test whose fingerprint
//     isn't what it was before, because a file has been edited in between, isn't
//     recorded (confirm.go).
//  6. Print: the summary (summary.go), the run for `tasting report` (report.go), JUnit's file (junit.go).
//
// A test is run if a phase knows too little of it. A failure before Execute
// makes tests run, or ends with Bazel's own message and exit code; it never
// makes a test count as passed.
//
// The key is that of the runner. What the runner learns from the linked program and
// from its own process is predicted: see key.go.
package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// Aspect is the label of the aspect that makes manifests.
const Aspect = "@rules_tasting//rules:defs.bzl%tasting_aspect"

// Options of Test.
type Options struct {
	Bazel *bazel.Bazel
	// Args are the arguments of bazel test: flags and target patterns.
	Args []string
	// Aspect is the label of the aspect; empty stands for the constant.
	Aspect string
	// Store is where results are; nil means that every test is run.
	Store store.Store
	// LocalStore is the part of Store on this machine, nil if there is none:
	// tags of Bazel may forbid to share a result.
	LocalStore  store.Store
	Read, Write bool // what may be done with Store
	// StoreName is how reports call the store: without secrets.
	StoreName string
	// Audit is the share of recorded results, 0 to 1, whose tests are run all
	// the same, to compare.
	Audit float64
	// RunsDir is the directory where the run is written down for tasting
	// report, or empty.
	RunsDir string
	Tracing
	// Explain prints why each test is run.
	Explain bool
	// DryRun has it print which tests would be run, and why, in place of running any.
	DryRun bool
	// JUnit is the file for the results of all tests, or empty.
	JUnit string

	Stdin    io.Reader
	Out, Err io.Writer
}

// exit is the error that ends Test with an exit code of Bazel's.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

const interrupted = exit(bazel.ExitInterrupted)

// Test runs tests as bazel test would and returns bazel test's exit code. An
// error means that Bazel couldn't be asked, or that its answer wasn't understood;
// the exit code is then of no use.
func Test(ctx context.Context, o *Options) (code int, err error) {
	tmp, err := os.MkdirTemp("", "tasting-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(tmp)
	typed, err := newInvocation(ctx, o, tmp)
	if err != nil {
		return 0, err
	}
	code, err = test(ctx, typed)
	if end, ok := errors.AsType[exit](err); ok {
		return int(end), nil
	}
	return code, err
}

func test(ctx context.Context, typed *invocation) (code int, err error) {
	x, err := expand(ctx, typed)
	if err != nil {
		return 0, err
	}
	a, err := analyse(ctx, x)
	if err != nil {
		return 0, err
	}
	d, err := decide(ctx, a)
	if err != nil {
		return 0, err
	}
	if d.DryRun {
		return d.printPlan()
	}
	batches := d.batches()
	sources := d.listSources(ctx)
	s := newSummary(d)
	for _, b := range batches {
		e, err := execute(ctx, d, b)
		if err != nil {
			return 0, err
		}
		record(ctx, d, e, sources)
		s.add(e)
		if e.code == bazel.ExitInterrupted {
			s.printInterrupted(ctx)
			return e.code, nil
		}
		code = cmp.Or(code, e.code)
	}
	if len(batches) == 0 {
		if code, err = d.reportNothing(ctx); err != nil {
			return 0, err
		}
	}
	return s.print(ctx, code)
}
