package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	buildevents "github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
)

// A bazel runs Bazel in a workspace, with a server and outputs of its own.
type bazel struct {
	program    string
	dir        string // in the workspace
	outputBase string
	tmp        string   // directory
	flags      []string // the user's
	known      buildevents.Flags
	log        io.Writer
}

func (b *bazel) startup() []string {
	return []string{"--output_base=" + b.outputBase, "--max_idle_secs=60"}
}

// flagsOf returns the user's flags that a command knows: on its command line, where they count
// more than what any bazelrc says.
func (b *bazel) flagsOf(command string) []string {
	return slices.DeleteFunc(b.known.Known(command, b.flags), func(f string) bool {
		return command == "query" && (strings.HasPrefix(f, "--@") || strings.HasPrefix(f, "--//")) // of Starlark, for builds
	})
}

// run runs a Bazel command and returns its standard output. The error holds the
// end of its messages; exited says whether it is only that Bazel ended with
// another exit code than 0.
func (b *bazel) run(ctx context.Context, command string, args ...string) (out []byte, exited bool, err error) {
	// The server needs memory and ends soon.
	argv := append(append(b.startup(), command), b.flagsOf(command)...)
	argv = append(argv, args...)
	cmd := exec.CommandContext(ctx, b.program, argv...)
	cmd.Dir = b.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, io.MultiWriter(&stderr, b.log)
	fmt.Fprintf(b.log, "$ %s\n", strings.Join(cmd.Args, " "))
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return stdout.Bytes(), errors.As(err, &exit), fmt.Errorf("bazel %s: %w\n%s", command, err, strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
	return stdout.Bytes(), false, nil
}

// testQuery asks for the cc_tests among targets: of a tasting_cc_test the real
// one. As in bazel test, tests tagged "manual" don't match wildcards.
func testQuery(targets []string) string {
	var q strings.Builder
	for _, t := range targets {
		op := " union "
		if t[0] == '-' {
			op, t = " except ", t[1:]
		}
		set := fmt.Sprintf("tests('%s')", t)
		if strings.HasSuffix(t, "...") || strings.HasSuffix(t, ":all") || strings.HasSuffix(t, ":*") || strings.HasSuffix(t, ":all-targets") {
			if op == " union " {
				set += ` except attr(tags, '[\[ ]manual[,\]]', ` + set + `)`
			}
		}
		if q.Len() > 0 {
			q.WriteString(op)
		}
		fmt.Fprintf(&q, "(let t = %s in kind('cc_test rule', $t) union labels(real, kind('_replaying_test rule', $t)))", set)
	}
	return q.String()
}

// tests returns the labels of the C and C++ tests among targets, as build events
// name them.
func (b *bazel) tests(ctx context.Context, targets []string) ([]string, error) {
	out, _, err := b.run(ctx, "query", "--output=label", "--consistent_labels", "--order_output=full", testQuery(targets))
	if err != nil {
		return nil, err
	}
	labels := strings.Fields(string(out))
	for i, l := range labels {
		if strings.HasPrefix(l, "@@//") {
			labels[i] = strings.TrimPrefix(l, "@@") // of the workspace itself
		}
	}
	slices.Sort(labels)
	return labels, nil
}

// executionRoot returns the directory where compilers run.
func (b *bazel) executionRoot(ctx context.Context) (string, error) {
	out, _, err := b.run(ctx, "info", "execution_root")
	return strings.TrimSpace(string(out)), err
}

// compilation is a compiler's command line.
type compilation struct {
	source string
	argv   []string
}

// compilations returns the command lines that compile tests and all that they
// link. Of a source that is compiled with and without -fPIC and else alike, the
// former.
func (b *bazel) compilations(ctx context.Context, tests []string) ([]compilation, error) {
	query, err := os.CreateTemp(b.tmp, "query-")
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(query, `mnemonic("CppCompile", deps(set(%s)))`, strings.Join(tests, " "))
	if err := errors.Join(err, query.Close()); err != nil {
		return nil, err
	}
	out, _, err := b.run(ctx, "aquery", "--output=jsonproto", "--include_artifacts=false", "--include_commandline", "--query_file="+query.Name())
	if err != nil {
		return nil, err
	}
	return readActions(out)
}

func readActions(text []byte) ([]compilation, error) {
	var graph struct {
		Actions []struct {
			ConfigurationID int `json:"configurationId"`
			Arguments       []string
		}
		Configuration []struct {
			ID     int
			IsTool bool
		}
	}
	if err := json.Unmarshal(text, &graph); err != nil {
		return nil, fmt.Errorf("output of bazel aquery: %w", err)
	}
	tool := map[int]bool{}
	for _, c := range graph.Configuration {
		tool[c.ID] = c.IsTool
	}
	byKey := map[string]compilation{}
	for _, a := range graph.Actions {
		if tool[a.ConfigurationID] || len(a.Arguments) == 0 {
			continue
		}
		key, c, pic := compilationOf(a.Arguments)
		if _, ok := byKey[key]; !ok || pic {
			byKey[key] = c
		}
	}
	list := make([]compilation, 0, len(byKey))
	for _, c := range byKey {
		list = append(list, c)
	}
	slices.SortFunc(list, func(x, y compilation) int {
		return slices.Compare(append([]string{x.source}, x.argv...), append([]string{y.source}, y.argv...))
	})
	return list, nil
}

// compilationOf also returns a key that doesn't say where the outputs are, nor
// whether the code is position-independent.
func compilationOf(argv []string) (key string, c compilation, pic bool) {
	c.argv = argv
	var rest []string
	for i := 0; i < len(argv); i++ {
		a := argv[i]
		switch {
		case (a == "-o" || a == "-MF") && i+1 < len(argv):
			i++
		case a == "-fPIC":
			pic = true
		case strings.HasPrefix(a, "-frandom-seed="):
		default:
			if a == "-c" && i+1 < len(argv) {
				c.source = argv[i+1]
			}
			rest = append(rest, a)
		}
	}
	return strings.Join(rest, "\x00"), c, pic
}

// built is what Bazel's build events tell of a target.
type built struct {
	files   []string // of the output groups asked for, or the executable
	logs    []string // test.log of each run and shard
	failed  bool     // a run of the test failed
	aborted string   // why there is nothing
}

// build runs bazel build or test for targets, and returns what became of each.
// That some fail is no error.
func (b *bazel) build(ctx context.Context, command string, targets []string, flags ...string) (map[string]*built, error) {
	tmp := b.tmp
	patterns, events := filepath.Join(tmp, "targets"), filepath.Join(tmp, "events")
	if err := os.WriteFile(patterns, []byte(strings.Join(targets, "\n")), 0o666); err != nil {
		return nil, err
	}
	_, exited, err := b.run(ctx, command, append([]string{
		"--target_pattern_file=" + patterns, "--build_event_json_file=" + events, "--keep_going", "--skip_incompatible_explicit_targets",
		// No links into our outputs in the user's workspace.
		"--symlink_prefix=/",
	}, flags...)...)
	if err != nil && !exited {
		return nil, err
	}
	results, readErr := readEvents(events)
	if readErr != nil {
		return nil, errors.Join(fmt.Errorf("bazel %s: %w", command, readErr), err)
	}
	if len(results) == 0 && err != nil {
		return nil, err
	}
	return results, nil
}

// readEvents returns what a file of build events tells about targets.
func readEvents(file string) (map[string]*built, error) {
	results, sets := map[string]*built{}, buildevents.FileSets{}
	err := buildevents.ReadEvents(file, func(e *buildevents.Event) error { return addEvent(results, sets, e) })
	return results, err
}

func addEvent(results map[string]*built, sets buildevents.FileSets, e *buildevents.Event) error {
	target := func(label string) *built {
		if results[label] == nil {
			results[label] = &built{}
		}
		return results[label]
	}
	sets.Add(e)
	switch {
	case e.ID.TargetCompleted.Label != "":
		b := target(e.ID.TargetCompleted.Label)
		if e.Aborted != nil {
			b.aborted = strings.TrimSpace(e.Aborted.Reason + " " + e.Aborted.Description)
		} else if e.Completed == nil || !e.Completed.Success {
			b.aborted = "it can't be built"
		}
		if e.Completed == nil {
			return nil
		}
		for _, g := range e.Completed.OutputGroup {
			for _, set := range g.FileSets {
				for _, f := range sets.Files(set.ID) {
					p, err := f.Path()
					if err != nil {
						return err
					}
					b.files = append(b.files, p)
				}
			}
		}
	case e.TestResult != nil:
		b := target(e.ID.TestResult.Label)
		b.failed = b.failed || e.TestResult.Status != "PASSED"
		for _, f := range e.TestResult.TestActionOutput {
			if f.Name != "test.log" {
				continue
			}
			p, err := f.Path()
			if err != nil {
				return err
			}
			b.logs = append(b.logs, p)
		}
	}
	return nil
}
