package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
)

// Step 1 (Expand) is needed because bazelrc files may have lines for "test" alone, which
// "build" ignores. The result of step 1 is remembered for each command line. As long as the bazelrc
// files don't change, step 2 (Analyse) gets the user's patterns. Its events list the tests, the lines of
// bazelrc files and the effective options. If these differ from the remembered ones, or if anything
// fails, the result of step 2 is dropped and both steps are made. After three such failures in a row, both
// steps are made for five minutes.
//
// A wrapper of Bazel may add flags to "bazel test" only. So nothing is remembered if Bazel is a script, if the
// workspace has a tools/bazel, or if a command got other flags than it was given.

// commandLine is the result of step 1 for a command line, without the tests.
type commandLine struct {
	Release   string // of Bazel
	Workspace string // directory
	ExecRoot  string
	Sources   map[string]string // bazelrc files: the checksums of their contents
	Overrides []string          // invocation.overrides, without what differs from call to call
	Options   []bazel.Option    // invocation.options, without that
	Configs   []string          // IDs of the tests' configurations
	Failures  int               // attempts in a row whose step 2 was dropped
}

const (
	maxFailures     = 3
	retryAfter      = 5 * time.Minute
	maxCommandLines = 100 // that are kept
)

// clientOptions are options that Bazel's client adds by itself, and that may differ from call to call.
var clientOptions = []string{
	"startup_time", "command_wait_time", "extract_data_time", "restart_reason", "binary_path", "rc_source", "default_override",
	"client_env", "client_cwd", "isatty", "terminal_columns", "emacs",
}

// stepOptions are options that this program sets in step 1 or 2.
var stepOptions = append([]string{
	"build", "build_tests_only", "check_tests_up_to_date", "check_up_to_date", "bes_backend", "aspects", "output_groups", "run_validations", "remote_download_outputs", "show_result",
	"build_event_json_file_path_conversion", "experimental_build_event_upload_strategy", "remote_cache", "ui_event_filters",
	"color", "curses", "show_progress_rate_limit",
}, fileOptions...)

func isClientOption(o bazel.Option) bool { return slices.Contains(clientOptions, o.OptionName) }

// optionName returns the name of the option in an argument, without dashes.
func optionName(arg string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return name
}

// shortcut is the file where a command line is remembered.
type shortcut struct {
	file     string // its name has the checksum of the command line; "" if nothing can be remembered
	failures int    // commandLine.Failures
	resting  bool   // both steps are made because of too many failures
}

func newShortcut(inv *invocation) *shortcut {
	dir, err := filepath.Abs(inv.Bazel.Dir)
	program := inv.Bazel.BinaryID()
	if inv.Bazel.Cache == "" || err != nil || program == "" {
		return &shortcut{}
	}
	line := fmt.Sprintf("2 %q %q %q %q %q", program, dir, inv.Bazel.Startup, inv.args, inv.patterns)
	return &shortcut{file: filepath.Join(inv.Bazel.Cache, "command-line-"+wholefile.Checksum([]byte(line)))}
}

// expand makes step 2 without step 1, if the result of step 1 is remembered. It returns no expansion if step 1 has to be made.
func (k *shortcut) expand(ctx context.Context, typed *invocation) (*expansion, error) {
	m := k.read()
	if m == nil {
		return nil, nil
	}
	inv := *typed
	inv.options, inv.overrides, inv.execRoot = m.Options, m.Overrides, m.ExecRoot
	if inv.runAllReason() != "" || inv.enabled("keep_going") || inv.isStreamed() {
		return nil, nil // events may lack tests
	}
	inv.beginAnalysis()
	inv.say("analysing the tests")
	f := newFound(typed)
	outputs, code, err := inv.applyAspect(ctx, bySource, f.add, append([]string{noErrors, "--build_tests_only", "--"}, inv.patterns...)...)
	if errors.Is(err, interrupted) {
		return nil, err
	}
	// After an error in a BUILD file, events may lack tests.
	if err != nil || code != bazel.ExitOK || !m.agrees(&inv, f) {
		k.failures++
		m.Failures = k.failures
		k.write(m)
		return nil, nil
	}
	m.Failures = 0
	k.write(m) // it is used now
	for _, o := range f.options {
		if isClientOption(o) {
			m.Options = append(m.Options, o)
		}
	}
	f.options, f.overrides = m.Options, m.Overrides
	x := f.complete()
	x.shortcut, x.outputs = k, outputs
	return x, nil
}

// remember keeps the expansion that a call of Bazel with args has found. Own are the args that this program has added.
func (k *shortcut) remember(x *expansion, f *found, args, own []string) {
	if k.file == "" || x.failed || k.resting || isChanged(f.args, args) || hasWrapper(x.workspaceDir()) {
		return
	}
	m := &commandLine{Release: x.release, Workspace: x.workspaceDir(), ExecRoot: x.execRoot, Sources: map[string]string{}, Failures: k.failures}
	for _, name := range rcFiles(x.overrides) {
		if m.Sources[name] = checksum(name); m.Sources[name] == "" {
			return
		}
	}
	m.Overrides = slices.DeleteFunc(slices.Clone(x.overrides), func(a string) bool {
		name := optionName(a)
		return slices.Contains(clientOptions, name) && name != "rc_source" && name != "default_override"
	})
	m.Options = slices.DeleteFunc(slices.Clone(x.options), func(o bazel.Option) bool { return isClientOption(o) || slices.Contains(own, o.CombinedForm) })
	m.Configs = collect(x.targets, func(t *target) string { return t.config })
	slices.Sort(m.Configs)
	m.Configs = slices.Compact(m.Configs)
	k.write(m)
}

// read returns the remembered command line, or nil.
func (k *shortcut) read() *commandLine {
	b, err := wholefile.ReadSealed(k.file)
	m := new(commandLine)
	if err != nil || json.Unmarshal(b, m) != nil || hasWrapper(m.Workspace) {
		return nil
	}
	k.failures = m.Failures
	if m.Failures >= maxFailures && time.Since(modTime(k.file)) < retryAfter {
		k.resting = true
		return nil
	}
	for name, sum := range m.Sources {
		if checksum(name) != sum {
			return nil
		}
	}
	return m
}

// modTime returns when a file was written last, or the zero time if there is none.
func modTime(file string) time.Time {
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// write keeps m, and removes the command line that wasn't used for longest if there are too many. If it fails, the next call makes both steps.
func (k *shortcut) write(m *commandLine) {
	b, err := json.Marshal(m)
	dir := filepath.Dir(k.file)
	if err != nil || os.MkdirAll(dir, 0o777) != nil {
		return
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "command-line-*")); len(files) >= maxCommandLines && !slices.Contains(files, k.file) {
		_ = os.Remove(slices.MinFunc(files, func(a, b string) int { return modTime(a).Compare(modTime(b)) }))
	}
	_ = wholefile.WriteSealed(k.file, b, 0o600) // flags may have secrets
}

// remove forgets the command line.
func (k *shortcut) remove() {
	if k.file != "" {
		_ = os.Remove(k.file)
	}
}

// hasWrapper reports whether a workspace has a tools/bazel, which Bazel's launchers start in the place of Bazel.
func hasWrapper(workspace string) bool {
	_, err := os.Lstat(filepath.Join(workspace, "tools", "bazel"))
	return err == nil
}

// agrees reports whether step 1 would return the remembered result with the tests that step 2 has found.
func (m *commandLine) agrees(inv *invocation, f *found) bool {
	if len(f.tests) == 0 || len(f.aborted) > 0 || f.failed || f.release != m.Release || f.execRoot != m.ExecRoot {
		return false
	}
	for l, t := range f.tests {
		if !f.incompatible[l] && !slices.Contains(m.Configs, t.config) {
			return false
		}
	}
	return maps.EqualFunc(rcSettings(f.args, inv.rcFile()), rcSettings(m.Overrides, ""), slices.Equal[[]string]) &&
		maps.EqualFunc(inv.buildOptions(f.options), inv.buildOptions(m.Options), slices.Equal[[]string])
}

// buildOptions returns the values of the options that "build" has, too, without those that differ between the steps.
func (inv *invocation) buildOptions(options []bazel.Option) map[string][]string {
	values := map[string][]string{}
	for _, o := range options {
		f := inv.flags["--"+o.OptionName]
		if !isClientOption(o) && !slices.Contains(stepOptions, o.OptionName) && (f == nil || slices.Contains(f.Commands, "build")) {
			values[o.OptionName] = append(values[o.OptionName], o.OptionValue)
		}
	}
	return values
}

// isChanged reports whether a command got other arguments than it was passed.
func isChanged(args, passed []string) bool {
	sorted := func(args []string) []string {
		return slices.Sorted(slices.Values(filter(args, func(a string) bool {
			return a != "--" && !(strings.HasPrefix(a, "--") && slices.Contains(clientOptions, optionName(a)))
		})))
	}
	return !slices.Equal(sorted(args[min(1, len(args)):]), sorted(passed)) // behind the command
}

// rcSettings returns the arguments that bazelrc files have for each command and configuration, from a client's
// arguments. It leaves out the file except and options that describe the client.
func rcSettings(args []string, except string) map[string][]string {
	lines := map[string][]string{}
	for _, l := range rcLines(args) {
		if l.file != except && !(l.file == "client" && slices.Contains(clientOptions, optionName(l.arg))) {
			command := l.command + ":" + l.config
			lines[command] = append(lines[command], l.file+" "+l.arg)
		}
	}
	return lines
}

// checksum returns the checksum of a regular file, or "".
func checksum(file string) string {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return wholefile.Checksum(b)
}
