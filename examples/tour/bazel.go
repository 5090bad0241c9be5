package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
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
}

// command returns a Bazel command in a workspace, stripped of what the Bazel
// that runs this program has put into the environment.
func (b *bazel) command(ctx context.Context, workspace checkout, args ...string) *exec.Cmd {
	// What Bazel has downloaded is shared with the user's other workspaces, what
	// it has built isn't.
	base := filepath.Join(b.scratch, "bazel-"+filepath.Base(string(workspace)))
	cmd := exec.CommandContext(ctx, b.program, append([]string{"--output_base=" + base}, args...)...)
	cmd.Dir = string(workspace)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return slices.ContainsFunc([]string{
			"BAZEL_", "BUILD_", "GIT_", "JAVA_RUNFILES=", "PYTHON_RUNFILES=", "RUNFILES_", "TASTING_", "TEST_", "XML_OUTPUT_FILE=",
		}, func(prefix string) bool { return strings.HasPrefix(kv, prefix) })
	})
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

// test runs all tests of the workspace and returns the results by test, and the
// wall time that the command took. A test that fails is no error.
func (b *bazel) test(ctx context.Context, workspace checkout, flags ...string) (results map[string]result, took time.Duration, err error) {
	events, err := os.CreateTemp(b.scratch, "events-*.json")
	if err != nil {
		return nil, 0, err
	}
	defer os.Remove(events.Name())
	defer events.Close()

	args := slices.Concat([]string{
		"test", "//...", "--keep_going", "--build_event_json_file=" + events.Name(),
		// The reader sees a table, and the log whatever goes wrong.
		"--color=no", "--curses=no", "--noshow_progress", "--test_output=summary",
		// No links to where Bazel works: these are nobody's workspaces.
		"--symlink_prefix=/",
		// Nobody else's results: a cache in the user's settings would count as ours.
		"--remote_cache=", "--disk_cache=",
	}, flags, b.flags)
	var output bytes.Buffer
	cmd := b.command(ctx, workspace, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	start := time.Now()
	err = cmd.Run()
	took = time.Since(start)
	fmt.Fprintf(b.log, "%s$ %s\n%s\n", workspace, strings.Join(cmd.Args, " "), output.Bytes())

	const testsFailed = 3 // Bazel's exit code if all was built and some test failed
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == testsFailed {
		err = nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("bazel test in %s: %w\n%s", workspace, err, output.Bytes())
	}
	results, err = readResults(events)
	if err != nil {
		return nil, 0, fmt.Errorf("build events of bazel test in %s: %w", workspace, err)
	}
	return results, took, nil
}

// shutdown ends the Bazel server of the workspace.
func (b *bazel) shutdown(workspace checkout) error {
	if out, err := b.command(context.Background(), workspace, "shutdown").CombinedOutput(); err != nil {
		return fmt.Errorf("bazel shutdown in %s: %w\n%s", workspace, err, out)
	}
	return nil
}

// event is the part of Bazel's build event protocol, in JSON, that tells about
// tests (build_event_stream.proto).
type event struct {
	ID struct {
		TestResult *struct {
			Label string
		}
	}
	TestResult struct {
		Status        string
		CachedLocally bool
		ExecutionInfo struct {
			CachedRemotely bool
		}
		TestActionOutput []struct {
			Name string
			URI  string
		}
	}
}

// readResults reads the results of tests, by their names without "//:",
// from a file of build events.
func readResults(events io.Reader) (results map[string]result, err error) {
	results = make(map[string]result)
	d := json.NewDecoder(bufio.NewReader(events))
	for {
		var e event
		if err := d.Decode(&e); err == io.EOF {
			return results, nil
		} else if err != nil {
			return nil, err
		}
		if e.ID.TestResult == nil {
			continue
		}
		name := strings.TrimPrefix(e.ID.TestResult.Label, "//:")
		if _, again := results[name]; again {
			return nil, fmt.Errorf("test %s: reported twice; the tour counts neither shards nor repeated runs", name)
		}
		r := result{verdict: executed, passed: e.TestResult.Status == "PASSED"}
		if e.TestResult.CachedLocally || e.TestResult.ExecutionInfo.CachedRemotely {
			r.verdict = cached
		} else {
			for _, output := range e.TestResult.TestActionOutput {
				if output.Name != "test.log" {
					continue
				}
				is, err := isReplay(output.URI)
				if err != nil {
					return nil, fmt.Errorf("test %s: %w", name, err)
				}
				if is {
					r.verdict = replayed
				}
			}
		}
		results[name] = r
	}
}

// isReplay tells whether the test log at uri says that it is a replay.
func isReplay(uri string) (bool, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" {
		return false, fmt.Errorf("test log %s: want a file:// address", uri)
	}
	log, err := os.ReadFile(filepath.FromSlash(u.Path))
	if err != nil {
		return false, err
	}
	for line := range bytes.Lines(log) {
		if bytes.HasPrefix(line, []byte(replayNotice)) {
			return true, nil
		}
	}
	return false, nil
}

// replayNotice begins the line of a test log that says that the log is a replay
// (analyzer/runner).
const replayNotice = "tasting: replayed result of fingerprint "
