package driver

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
)

// The user's flags name files in which Bazel writes about a call: build events, logs,
// a profile. This program calls Bazel several times, and the user wants to
// read about the call that runs the tests. So all other calls write elsewhere. If there
// is nothing to run, a call that builds nothing writes these files, so that they aren't those of an
// earlier call.

// outputs are options of Bazel that name files which each command writes.
var outputs = []string{
	"build_event_binary_file", "build_event_json_file", "build_event_text_file", "execution_log_binary_file", "execution_log_compact_file",
	"execution_log_json_file", "explain", "memory_profile", "profile", "remote_grpc_log",
}

// reports are options that name files or a server which the user wants written even if nothing is
// built.
var reports = append([]string{"bes_backend"}, outputs...)

// aside returns flags that keep a command from writing the user's files.
func (inv *invocation) aside() []string {
	flags := []string{"--bes_backend=", uploadNothing}
	for _, name := range outputs {
		if inv.option(name) != "" || inv.userValue(name) != "" {
			flags = append(flags, "--"+name+"="+filepath.Join(inv.tmp, "unused-"+name))
		}
	}
	return flags
}

// query returns queries about the build.
func (inv *invocation) query() *bazel.Query {
	flags := slices.Concat(inv.args, inv.builtNothing())
	return &bazel.Query{
		Bazel: inv.Bazel.WithRC(inv.rcFile()), File: filepath.Join(inv.tmp, "query"),
		Flags: func(command string) []string { return inv.flags.Known(command, flags) },
	}
}

// writeEvents makes a file of build events that of the user, if one is wanted.
func (inv *invocation) writeEvents(events string) {
	own := inv.userValue("build_event_json_file")
	if own == "" {
		return
	}
	if !filepath.IsAbs(own) {
		own = filepath.Join(inv.workspaceDir(), own) // where Bazel runs
	}
	b, err := os.ReadFile(events)
	if err == nil {
		err = os.WriteFile(own, b, 0o666)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		inv.say("warning: build events can't be written: %v", err)
	}
}

// reportNothing has Bazel write the user's files if there is nothing to run.
func (inv *invocation) reportNothing(ctx context.Context) (code int, err error) {
	if !slices.ContainsFunc(reports, func(name string) bool { return inv.userValue(name) != "" }) {
		return bazel.ExitOK, nil
	}
	targets := filepath.Join(inv.tmp, "nothing")
	if err := os.WriteFile(targets, nil, 0o666); err != nil {
		return 0, err
	}
	var messages bytes.Buffer
	code, err = inv.bazelBuild(ctx, bazel.Streams{Out: inv.Out, Err: &messages}, "--target_pattern_file="+targets)
	if err != nil || code != bazel.ExitOK {
		inv.Err.Write(messages.Bytes())
	}
	return code, err
}
