// Package driver is `tasting test`: it replays the tests of a Bazel workspace that have a recorded
// result, and runs the others. BUILD files needn't be changed.
//
// # How
//
// Test is a list of phases. Each phase returns a value of its own and doesn't change that of the phase before.
//
//  1. Expand (expand.go): `bazel test --nobuild` loads and analyses the patterns. Its events list the tests and
//     the options with which they would be run.
//  2. Analyse (analyse.go): `bazel build` with tasting_aspect makes the manifests of all
//     cc_tests. It compiles everything but plain C, and links nothing.
//     The checksum of its configuration has to be that of step 1. Step 1 is left out if it was done
//     before with the same arguments and bazelrc files: step 2 lists the tests as well (shortcut.go).
//     Then this process composes all tests. Tests with C that
//     isn't plain go through Bazel once more, for manifests of the objects (evidence.go).
//  3. Decide (decide.go): each test has a key (key.go). One look-up asks the store for all of them. Recorded
//     results are replayed.
//  4. Execute (execute.go): `bazel test` builds and runs the tests without a recorded result, and every test
//     that isn't a cc_test. It applies the aspect, too, for manifests of the objects that it links.
//  5. Record (record.go): build events say how each test ended. If a file was edited meanwhile,
//     so that a test's fingerprint has changed, its result isn't recorded (confirm.go).
//  6. Print: the summary (summary.go), the run for `tasting report` (report.go), JUnit's file (junit.go).
//
// A test is run if a phase knows too little of it. A failure before Execute
// makes tests run, or ends with Bazel's own message and exit code. It never
// makes a test pass.
//
// The key is that of the runner. The driver predicts what the runner reads from the linked program and
// from its own process: see key.go.
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
	// Aspect is the label of the aspect.
	Aspect string
	// Store has the results. Nil means that every test is run.
	Store store.Store
	// LocalStore is the part of Store on this machine, or nil. It has the results that tags of Bazel forbid to share.
	LocalStore  store.Store
	Read, Write bool // whether Store may be read and written
	// StoreName is the name of the store in reports, without secrets.
	StoreName string
	// Audit is the share of recorded results, 0 to 1, that are compared with a run.
	Audit float64
	// RunsDir is the directory for the files of tasting report, or empty.
	RunsDir string
	Tracing
	// Cases is set if tests of GoogleTest are decided by their cases.
	Cases bool
	// Explain prints why each test is run.
	Explain bool
	// DryRun prints which tests would be run, and why. It runs none.
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

// Test runs tests as bazel test would and returns its exit code. It returns an error instead if Bazel
// can't be called or its answer can't be read.
func Test(ctx context.Context, o *Options) (code int, err error) {
	tmp, err := os.MkdirTemp("", "tasting-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(tmp)
	inv, err := newInvocation(ctx, o, tmp)
	if err != nil {
		return 0, err
	}
	code, err = test(ctx, inv)
	if end, ok := errors.AsType[exit](err); ok {
		return int(end), nil
	}
	return code, err
}

func test(ctx context.Context, inv *invocation) (code int, err error) {
	x, err := expand(ctx, inv)
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
	for i := 0; i < len(batches); i++ {
		e, err := execute(ctx, d, batches[i])
		if err != nil {
			return 0, err
		}
		if again := d.takeFailed(e); again != nil {
			batches = append(batches, again)
		}
		record(ctx, d, e, sources)
		d.keepCases(e)
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
