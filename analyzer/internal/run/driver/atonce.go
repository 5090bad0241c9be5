package driver

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
)

// What step 1 is for before step 2 is what bazelrc files say for "test" alone, which
// "build" doesn't heed. That is remembered for each command line. As long as these
// files hold what they held, step 2 is given the user's patterns, and its events say
// which tests there are, what it has read in bazelrc files, and its effective options. If
// these aren't as they were, or if anything went wrong, nothing of it is believed, and both
// steps are made. After several such attempts in succession there is none for an hour.
//
// Whoever stands in front of Bazel may add flags to "bazel test", which nobody sees if no
// test is run. So nothing is remembered of a Bazel that is a script, nor in a workspace with
// a tools/bazel, nor if a command got other flags than it was given.

// A commandLine is what step 1 has found out of a command line, but for the tests.
type commandLine struct {
	Key       string // all that the file's name is a checksum of
	Release   string // of Bazel
	Workspace string // directory
	ExecRoot  string
	Sources   map[string]string // bazelrc files: the checksums of their contents
	Overrides []string          // session.overrides, without what differs from call to call
	Options   []bazel.Option    // session.options, without that
	Configs   []string          // IDs of the tests' configurations
	Failures  int               // attempts that weren't believed, in succession
}

const (
	maxFailures     = 3
	retryAfter      = time.Hour
	maxCommandLines = 100 // that are kept
)

// ofClients are options that a client adds to those of the user, or to its bazelrc files,
// and that may differ from call to call.
var ofClients = []string{
	"startup_time", "command_wait_time", "extract_data_time", "restart_reason", "binary_path", "rc_source", "default_override",
	"client_env", "client_cwd", "isatty", "terminal_columns", "emacs",
}

// ofSteps are options that step 1 or 2 sets.
var ofSteps = append([]string{
	"build", "build_tests_only", "check_tests_up_to_date", "check_up_to_date", "bes_backend", "aspects", "output_groups", "run_validations", "remote_download_outputs", "show_result",
	"build_event_json_file_path_conversion", "experimental_build_event_upload_strategy", "remote_cache", "ui_event_filters",
}, outputs...)

func isOfClients(o bazel.Option) bool { return slices.Contains(ofClients, o.OptionName) }

// optionName is the name of an option in an argument, without dashes.
func optionName(arg string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return name
}

// commandLineFile is the file where the command line is remembered, and its key, or "".
func (s *session) commandLineFile() (file, key string) {
	dir, err := filepath.Abs(s.Bazel.Dir)
	program := s.Bazel.Binary()
	if s.Bazel.Cache == "" || err != nil || program == "" {
		return "", ""
	}
	b, err := json.Marshal([]any{"tasting command line 1", program, dir, s.Bazel.Startup, s.args, s.patterns})
	if err != nil {
		return "", ""
	}
	return filepath.Join(s.Bazel.Cache, "command-line-"+wholefile.Checksum(b)[:16]), string(b)
}

// rememberCommandLine keeps what was found by a command with args, some of which are not
// the user's.
func (s *session) rememberCommandLine(x *expansion, args, own []string) {
	if s.remembered == "" || s.failed || s.resting || added(x.args, args) || hasWrapper(s.workspaceDir()) {
		return
	}
	m := &commandLine{Key: s.rememberedAs, Release: x.release, Workspace: s.workspaceDir(), ExecRoot: x.execRoot, Sources: map[string]string{}, Failures: s.failures}
	for _, name := range rcFiles(s.overrides) {
		if m.Sources[name] = checksum(name); m.Sources[name] == "" {
			return
		}
	}
	m.Overrides = slices.DeleteFunc(slices.Clone(s.overrides), func(a string) bool {
		name := optionName(a)
		return slices.Contains(ofClients, name) && name != "rc_source" && name != "default_override"
	})
	m.Options = slices.DeleteFunc(slices.Clone(s.options), func(o bazel.Option) bool { return isOfClients(o) || slices.Contains(own, o.CombinedForm) })
	for _, t := range s.tests {
		m.Configs = append(m.Configs, t.config)
	}
	slices.Sort(m.Configs)
	m.Configs = slices.Compact(m.Configs)
	s.keep(m)
}

// recallCommandLine returns what is remembered of the command line, or nil.
func (s *session) recallCommandLine() *commandLine {
	b, err := wholefile.ReadSealed(s.remembered)
	m := new(commandLine)
	if err != nil || json.Unmarshal(b, m) != nil || m.Key != s.rememberedAs || hasWrapper(m.Workspace) {
		return nil
	}
	s.failures = m.Failures
	if info, err := os.Stat(s.remembered); m.Failures >= maxFailures && (err != nil || time.Since(info.ModTime()) < retryAfter) {
		s.resting = true
		return nil
	}
	for name, sum := range m.Sources {
		if checksum(name) != sum {
			return nil
		}
	}
	return m
}

// keep writes what is remembered. What can't be kept is asked for again.
func (s *session) keep(m *commandLine) {
	b, err := json.Marshal(m)
	if err != nil || os.MkdirAll(s.Bazel.Cache, 0o777) != nil {
		return
	}
	if _, err := os.Stat(s.remembered); err != nil {
		s.forgetCommandLines(maxCommandLines - 1)
	}
	_ = wholefile.WriteSealed(s.remembered, b, 0o600) // flags may have secrets
}

// forget has the next call make both steps.
func (s *session) forget() {
	if s.remembered != "" {
		_ = os.Remove(s.remembered)
	}
}

// forgetCommandLines leaves n of those that are remembered, the last ones that were used.
func (s *session) forgetCommandLines(n int) {
	files, _ := filepath.Glob(filepath.Join(s.Bazel.Cache, "command-line-*"))
	used := map[string]time.Time{}
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			used[f] = info.ModTime()
		}
	}
	slices.SortFunc(files, func(a, b string) int { return used[b].Compare(used[a]) })
	for _, f := range files[min(n, len(files)):] {
		_ = os.Remove(f)
	}
}

// hasWrapper tells whether there is a program in a workspace that Bazel's launchers start in
// the place of Bazel.
func hasWrapper(workspace string) bool {
	_, err := os.Lstat(filepath.Join(workspace, "tools", "bazel"))
	return err == nil
}

// atOnce makes step 2 without step 1, if that was made before.
func (s *session) atOnce(ctx context.Context) (believed bool, code int, err error) {
	m := s.recallCommandLine()
	if m == nil {
		return false, 0, nil
	}
	s.options, s.overrides, s.execRoot = m.Options, m.Overrides, m.ExecRoot
	defer func() {
		if !believed {
			s.options, s.overrides, s.execRoot = nil, nil, ""
		}
	}()
	if s.runAll() != "" || s.enabled("keep_going") || s.streams() {
		return false, 0, nil // there may be tests that Bazel doesn't tell of
	}
	s.begin()
	s.say("analysing the tests")
	found := s.newExpansion()
	args := append([]string{"--build_tests_only", "--"}, s.patterns...)
	seen, code, err := s.applyAspect(ctx, bySource, found.add, args...)
	if code == bazel.ExitInterrupted {
		return false, code, nil
	}
	// Whatever an error in a BUILD file leaves out, nothing tells of it.
	if believed = err == nil && code == bazel.ExitOK && s.agrees(m, found); !believed {
		m.Failures++
		s.failures = m.Failures
		s.keep(m)
		return false, 0, nil
	}
	if m.Failures > 0 {
		m.Failures = 0
		s.keep(m)
	}
	_ = os.Chtimes(s.remembered, time.Time{}, time.Now()) // it is used
	for _, o := range found.options {
		if isOfClients(o) {
			m.Options = append(m.Options, o)
		}
	}
	found.options = m.Options
	s.take(found)
	tests := s.candidates()
	s.analysed = s.describe(tests, seen, bySource) && len(tests) > 0
	return true, 0, nil
}

// agrees tells whether step 1 would find what is remembered, and the tests that step 2 has found.
func (s *session) agrees(m *commandLine, found *expansion) bool {
	if len(found.tests) == 0 || len(found.children) > 0 || found.failed || found.release != m.Release || found.execRoot != m.ExecRoot {
		return false
	}
	for l, t := range found.tests {
		if !found.incompatible[l] && !slices.Contains(m.Configs, t.config) {
			return false
		}
	}
	return maps.EqualFunc(said(found.args, s.rcFile()), said(m.Overrides, ""), slices.Equal[[]string]) &&
		maps.EqualFunc(s.ofBuild(found.options), s.ofBuild(m.Options), slices.Equal[[]string])
}

// ofBuild returns the values of the options that "build" knows as well, without those that
// differ between the steps.
func (s *session) ofBuild(options []bazel.Option) map[string][]string {
	values := map[string][]string{}
	for _, o := range options {
		f := s.flags["--"+o.OptionName]
		if !isOfClients(o) && !slices.Contains(ofSteps, o.OptionName) && (f == nil || slices.Contains(f.Commands, "build")) {
			values[o.OptionName] = append(values[o.OptionName], o.OptionValue)
		}
	}
	return values
}

// added tells whether a command got other arguments than it was passed.
func added(args, passed []string) bool {
	count := map[string]int{}
	add := func(args []string, n int) {
		for _, a := range args {
			if !strings.HasPrefix(a, "--") || !slices.Contains(ofClients, optionName(a)) {
				count[a] += n
			}
		}
	}
	add(args[min(1, len(args)):], 1) // behind the command
	add(passed, -1)
	delete(count, "--")
	for _, n := range count {
		if n != 0 {
			return true
		}
	}
	return false
}

// said returns what bazelrc files say for each command and configuration, by a client's
// arguments, but for one of the files and what is said of a terminal.
func said(args []string, except string) map[string][]string {
	lines := map[string][]string{}
	for _, l := range rcLines(args) {
		if l.file != except && !(l.file == "client" && slices.Contains(ofClients, optionName(l.arg))) {
			command := l.command + ":" + l.config
			lines[command] = append(lines[command], l.file+" "+l.arg)
		}
	}
	return lines
}

// checksum returns that of a regular file, or "".
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
