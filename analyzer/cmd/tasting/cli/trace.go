package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/runner"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/services/interval"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
	"github.com/spf13/cobra"
)

func traceCommand() *cobra.Command {
	var opt trace.Options
	var asJSON bool
	var libraries []string
	var out, only, serve, table string
	var underBazel, merge bool
	var pid int
	cmd := &cobra.Command{
		Use:   "trace [flags] -- PROGRAM [ARGUMENT]... | --attach=PID",
		Short: "Print which functions a program enters, or trace a service for its tests",
		Long: `Print which functions a program enters. The program isn't built again.

PROGRAM runs with a breakpoint at each function of its executable and its own shared libraries, also
in processes that it starts. At its end, a table goes to standard error. The exit code is the program's.`,
		Example: `  tasting service trace -- bazel-bin/parser_test
  tasting service trace --attach=4711
  tasting service trace --serve=unix:kv.sock --intervals=kv.traces -- bazel-bin/kv_server`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (pid == 0) == (len(args) == 0) {
				return errors.New("trace: want a PROGRAM, or a process with --attach=PID")
			}
			if pid != 0 && underBazel {
				return errors.New("trace: what a process of --attach didn't enter isn't known")
			}
			for _, p := range libraries {
				if _, err := filepath.Match(p, ""); err != nil {
					return fmt.Errorf("--library=%s: %w", p, err)
				}
			}
			opt.Own = trace.Matching(libraries)
			run := func(opt trace.Options) (*trace.Result, error) { return runTraced(args, opt) }
			if pid != 0 {
				run = func(opt trace.Options) (*trace.Result, error) { return attach(pid, opt, cmd.ErrOrStderr()) }
			}
			switch {
			case underBazel:
				return traceTest(args, only, opt)
			case serve != "":
				return traceService(run, serve, table, merge, opt, cmd.ErrOrStderr())
			}
			r, err := run(opt)
			if err != nil {
				return err
			}
			if err := writeTrace(r, asJSON, out, cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
				return command.Exit(command.Internal, err)
			}
			return endAs(r)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringArrayVar(&libraries, "library", nil, "trace the system's libraries that match this `PATTERN`, too, such as 'libstdc++*' (repeatable)")
	f.BoolVar(&opt.Naive, "naive", false, "count each entry of a function, not only the first; slow")
	f.BoolVar(&asJSON, "json", false, "write the trace to standard output, and no table")
	f.StringVar(&out, "out", "", "write the trace to this `FILE`, and no table")
	f.StringVar(&serve, "serve", "", "keep apart what each test enters that calls \"tasting service interval\" at this `ADDRESS`, unix:PATH or HOST:PORT")
	f.StringVar(&table, "intervals", "intervals", "with --serve, `DIR` for what was entered in each interval")
	f.BoolVar(&merge, "merge", false, "with --serve, treat intervals that overlap as one, in place of refusing them")
	f.IntVar(&pid, "attach", 0, "trace the process with this `PID` until it ends or you interrupt this command")
	f.BoolVar(&underBazel, "under_bazel", false, "for --run_under of bazel test: leave the functions that weren't entered beside the test's log")
	f.StringVar(&only, "only", "", "with --under_bazel, trace only tests that are in this `DIR`")
	for _, name := range []string{"naive", "under_bazel", "only"} {
		f.Lookup(name).Hidden = true // for tasting itself
	}
	return cmd
}

// endAs ends this program as a traced one has ended.
func endAs(r *trace.Result) error {
	if r.Status.Signaled() {
		runner.Die(r.Status.Signal())
	}
	return command.Exit(r.Status.ExitStatus(), nil)
}

// traceService runs a service, and answers its tests.
func traceService(run func(trace.Options) (*trace.Result, error), address, dir string, merge bool, opt trace.Options, stderr io.Writer) error {
	l, err := interval.Listen(address)
	if err != nil {
		return err
	}
	opt.Control = &trace.Control{Merge: merge}
	served := make(chan struct{})
	go func() {
		interval.Serve(l, opt.Control, dir)
		close(served)
	}()
	r, err := run(opt)
	l.Close()
	<-served
	if err != nil {
		return err
	}
	for _, why := range r.Trace.GaveUp {
		fmt.Fprintf(stderr, "tasting: functions may be missing: %s\n", why)
	}
	return endAs(r)
}

// traceTest runs a test for Bazel.
func traceTest(args []string, only string, opt trace.Options) error {
	// As test-setup.sh of Bazel does without --run_under.
	if root := os.Getenv("TEST_SRCDIR"); !filepath.IsAbs(args[0]) && root != "" {
		args[0] = root + "/" + os.Getenv("TEST_WORKSPACE") + "/" + strings.TrimPrefix(args[0], "./")
	}
	if err := os.Setenv("_", args[0]); err != nil {
		return err
	}
	file := os.Getenv(trace.SplitLogs)
	if file != "" && only != "" {
		t, err := trace.FindWanted(only, os.Getenv("TEST_TARGET"))
		if errors.Is(err, fs.ErrNotExist) {
			file = ""
		}
		opt.Entered = t.Entered // of a file that can't be read, none
	}
	if file == "" {
		return again(args)
	}
	r, err := runTraced(args, opt)
	if errors.Is(err, syscall.ENOEXEC) {
		return again(args)
	}
	if err != nil {
		return err
	}
	if r.Void != "" {
		// What is in that file and isn't a trace keeps the result from being recorded.
		err := trace.CleanTest(os.Getenv)
		if err == nil {
			err = wholefile.Write(file, []byte("void: "+r.Void+"\n"), 0o644)
		}
		if err != nil {
			return command.Exit(command.Internal, fmt.Errorf("the test can't be run once more without a tracer, which it needs (%s): %w", r.Void, err))
		}
		fmt.Fprintf(os.Stderr, "tasting: once more, without a tracer: %s\n", r.Void)
		return again(args)
	}
	// What the test has written there itself stays.
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		encode := func() ([]byte, error) { return trace.EncodeIdle(r.Idle, r.Cases) }
		if r.Idle == nil {
			encode = r.Unknown().Encode
		}
		b, err := encode()
		if err == nil {
			err = wholefile.Write(file, b, 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "tasting: nobody will know what the test has executed: %v\n", err)
		}
	}
	return endAs(r)
}

// runTraced runs a program as the runner runs a test.
func runTraced(args []string, opt trace.Options) (*trace.Result, error) {
	c := exec.Command(args[0], args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 16)
	for _, s := range runner.Forwarded {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	defer close(signals)
	defer signal.Stop(signals)
	return trace.Run(c, opt, func() {
		go func() {
			for s := range signals {
				_ = c.Process.Signal(s) // it may have ended just now
			}
		}()
	})
}

// attach traces a process until it ends, or this one is told to end.
func attach(pid int, opt trace.Options, stderr io.Writer) (*trace.Result, error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer close(signals)
	defer signal.Stop(signals)
	if opt.Control == nil {
		opt.Control = new(trace.Control)
	}
	return trace.Attach(pid, opt, func() {
		fmt.Fprintf(stderr, "tasting: attached to %d\n", pid)
		go func() {
			if _, told := <-signals; told {
				opt.Control.Leave()
			}
		}()
	})
}

// again runs a program without a tracer, as Bazel wants a result in any case.
func again(args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	err = syscall.Exec(path, args, os.Environ())
	if errors.Is(err, syscall.ENOEXEC) { // a script that doesn't say by what: as shells do, of which Bazel's is one
		return syscall.Exec("/bin/bash", append([]string{"bash", path}, args[1:]...), os.Environ())
	}
	return err
}

func writeTrace(r *trace.Result, asJSON bool, out string, stdout, stderr io.Writer) error {
	if r.Void != "" {
		fmt.Fprintf(stderr, "tasting: the program may end differently without a tracer: %s; nothing is recorded\n", r.Void)
		return nil
	}
	if !asJSON && out == "" {
		r.Print(stderr)
		return nil
	}
	for _, why := range r.Trace.GaveUp {
		fmt.Fprintf(stderr, "tasting: functions may be missing: %s\n", why)
	}
	b, err := r.Trace.Marshal()
	if err != nil {
		return err
	}
	if out != "" {
		if err := wholefile.Write(out, b, 0o644); err != nil {
			return err
		}
	}
	if asJSON {
		_, err = stdout.Write(b)
	}
	return err
}
