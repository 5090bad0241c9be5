package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	buildevents "github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/cputime"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
)

// A verdict is how the outcome of a test came about.
type verdict string

const (
	executed verdict = "executed" // its program was run
	replayed verdict = "replayed" // Bazel started it, and it printed its record
	cached   verdict = "cached"   // Bazel answered without starting it
)

// A result is what one invocation of Bazel reported of one test.
type result struct {
	verdict verdict
	passed  bool
}

// A bazel runs Bazel in scratch workspaces.
type bazel struct {
	program string
	scratch string   // directory for outputs
	flags   []string // of every test command
	log     io.Writer
	meters  map[checkout]*cputime.Meter // of the workspaces that have had a server
}

// meter returns that of the workspace's Bazel.
func (b *bazel) meter(workspace checkout) *cputime.Meter {
	m := b.meters[workspace]
	if m == nil {
		m = cputime.NewMeter(fmt.Sprintf("tasting-tour-%d-%d", os.Getpid(), len(b.meters)), b.outputBase(workspace))
		b.meters[workspace] = m
	}
	return m
}

// outputBase returns the directory of the workspace's Bazel. What Bazel has
// downloaded is shared with the user's other workspaces, what it has built isn't.
func (b *bazel) outputBase(workspace checkout) string {
	return filepath.Join(b.scratch, "bazel-"+filepath.Base(string(workspace)))
}

// startup returns the startup options of the workspace's Bazel.
func (b *bazel) startup(workspace checkout) []string {
	return []string{
		"--output_base=" + b.outputBase(workspace),
		"--local_startup_timeout_secs=1800",       // 120 s, the default, are too few on a busy machine
		"--host_jvm_args=-XX:TieredStopAtLevel=1", // a server lives for minutes: optimising it costs more than it saves
	}
}

// command returns a Bazel command in a workspace.
func (b *bazel) command(ctx context.Context, workspace checkout, args ...string) *exec.Cmd {
	return command(ctx, workspace, b.program, append(b.startup(workspace), args...)...)
}

// command returns a command in a workspace, stripped of what the Bazel that
// runs this program has put into the environment, or git whose hook it is.
func command(ctx context.Context, workspace checkout, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = string(workspace)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return slices.ContainsFunc([]string{
			"BAZEL_", "BUILD_", "GIT_", "JAVA_RUNFILES=", "PYTHON_RUNFILES=", "RUNFILES_", "TASTING_", "TEST_", "XML_OUTPUT_FILE=",
		}, func(prefix string) bool { return strings.HasPrefix(kv, prefix) })
	})
	cmd.Env = append(cmd.Env, "TASTINGRC="+os.DevNull)
	return cmd
}

// version returns what `bazel --version` prints.
func (b *bazel) version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, b.program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", b.program, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// build builds all of the workspace, with a disk cache.
func (b *bazel) build(ctx context.Context, workspace checkout, cache string, flags ...string) (*toldSide, error) {
	// Later commands are without the cache: all outputs have to be here, lists of headers included.
	told, _, err := b.run(workspace, b.command(ctx, workspace, "build", "//..."), slices.Concat(flags, []string{
		"--disk_cache=" + cache, "--remote_download_outputs=all", "--noexperimental_inmemory_dotd_files",
	}))
	return told, err
}

// test runs all tests of the workspace by bazel test. A test that fails is no error.
func (b *bazel) test(ctx context.Context, workspace checkout, flags ...string) (*toldSide, error) {
	told, results, err := b.run(workspace, b.command(ctx, workspace, "test", "//...", "--test_output=summary"), flags)
	if err == nil {
		told.sort(results)
	}
	return told, err
}

// tastingTest runs all tests of the workspace by tasting test: given is its command line but for what there is to say about Bazel.
func (b *bazel) tastingTest(ctx context.Context, workspace checkout, given []string, flags ...string) (*toldSide, error) {
	runs, err := os.MkdirTemp(b.scratch, "runs-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(runs)
	args := append(slices.Clone(given[1:]), "//...", "--bazel="+b.program, "--runs_dir="+runs, "--test_output=summary")
	for _, option := range b.startup(workspace) {
		args = append(args, "--bazel_startup="+option)
	}
	told, results, err := b.run(workspace, command(ctx, workspace, given[0], args...), flags)
	if err != nil {
		return nil, err
	}
	// What Bazel compiled in its other invocations, and the tests that it wasn't told to run, are known to tasting test alone.
	damaged, err := report.ReadRuns(runs, func(r *report.Run) {
		told.Compiled = r.Cost.Actions[compile]
		for _, test := range r.Tests {
			name := strings.TrimPrefix(test.Label, "//:")
			if _, ran := results[name]; !ran && test.Verdict == report.Hit && test.Status == "PASSED" {
				results[name] = result{replayed, true}
			}
		}
	})
	if err == nil && len(damaged) > 0 {
		err = fmt.Errorf("%v", damaged)
	}
	told.sort(results)
	return told, err
}

// run runs a command that starts Bazel, with these flags and those that all have. The tests aren't sorted yet.
func (b *bazel) run(workspace checkout, cmd *exec.Cmd, flags []string) (*toldSide, map[string]result, error) {
	events := filepath.Join(b.scratch, "events.json")
	if err := os.WriteFile(events, nil, 0o666); err != nil { // tasting test may need no Bazel that writes it
		return nil, nil, err
	}
	defer os.Remove(events)
	cmd.Args = slices.Concat(cmd.Args, []string{
		"--keep_going", "--build_event_json_file=" + events,
		// The reader sees a table, and the log whatever goes wrong.
		"--color=no", "--curses=no", "--noshow_progress",
		// No links to where Bazel works: these are nobody's workspaces.
		"--symlink_prefix=/",
		// Nobody else's results: a cache in the user's settings would count as ours.
		"--remote_cache=", "--disk_cache=",
	}, flags, b.flags)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	begin := time.Now()
	cpu, err := b.meter(workspace).Run(cmd)
	took := time.Since(begin)
	fmt.Fprintf(b.log, "%s$ %s\n%s\n", workspace, strings.Join(cmd.Args, " "), output.Bytes())

	const testsFailed = 3 // Bazel's exit code if all was built and some test failed
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == testsFailed {
		err = nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s in %s: %w\n%s", cmd, workspace, err, output.Bytes())
	}
	results, compiled, err := readResults(events)
	if err != nil {
		return nil, nil, fmt.Errorf("build events of %s in %s: %w", cmd, workspace, err)
	}
	return &toldSide{Compiled: compiled, Seconds: took.Seconds(), CPU: cpu.Seconds(), output: output.String()}, results, nil
}

// shutdown ends the Bazel server of the workspace.
func (b *bazel) shutdown(workspace checkout) error {
	if out, err := b.command(context.Background(), workspace, "shutdown").CombinedOutput(); err != nil {
		return fmt.Errorf("bazel shutdown in %s: %w\n%s", workspace, err, out)
	}
	// A group with processes that still end is left to the system.
	_ = b.meter(workspace).Close()
	return nil
}

// compile is Bazel's name of actions that compile a unit.
const compile = "CppCompile"

// readResults reads the results of tests, by their names without "//:", and how
// many units were compiled, from a file of build events. The shards of a test
// are one: executed if one of them was, passed if all have.
func readResults(events string) (results map[string]result, compiled int, err error) {
	results = map[string]result{}
	err = buildevents.ReadEvents(events, func(e *buildevents.Event) error {
		e.Actions(func(mnemonic string, executed int, _ time.Duration) {
			if mnemonic == compile {
				compiled += executed
			}
		})
		if e.TestResult == nil {
			return nil
		}
		name := strings.TrimPrefix(e.ID.TestResult.Label, "//:")
		if e.ID.TestResult.Run > 1 || e.ID.TestResult.Attempt > 1 {
			return fmt.Errorf("test %s: run more than once, which the tour doesn't count", name)
		}
		r := result{executed, e.TestResult.Status == "PASSED"}
		if e.TestResult.CachedLocally || e.TestResult.ExecutionInfo.CachedRemotely {
			r.verdict = cached
		} else if is, err := isReplay(e.TestResult); err != nil {
			return fmt.Errorf("test %s: %w", name, err)
		} else if is {
			r.verdict = replayed
		}
		if other, sharded := results[name]; sharded {
			if other.verdict != r.verdict {
				r.verdict = executed
			}
			r.passed = r.passed && other.passed
		}
		results[name] = r
		return nil
	})
	return results, compiled, err
}

// isReplay reports whether the log of a test says that it is a replay.
func isReplay(r *buildevents.TestResult) (is bool, err error) {
	for _, output := range r.TestActionOutput {
		if output.Name != "test.log" {
			continue
		}
		file, err := output.Path()
		if err != nil {
			return false, err
		}
		log, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		is = is || bytes.Contains(append([]byte("\n"), log...), []byte("\n"+replayNotice))
	}
	return is, nil
}

// replayNotice begins the line of a test log that says that the log is a replay
// (analyzer/internal/run/runner).
const replayNotice = "tasting: replayed result of fingerprint "
