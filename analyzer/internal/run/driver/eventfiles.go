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

// The user's flags may name files for build events, logs or a profile. This program calls Bazel several times,
// and the user wants the files of the call that runs the tests. So all other calls write elsewhere. If there
// is nothing to run, a call that builds nothing overwrites the files of an earlier call.

// fileOptions are options of Bazel that name files which each command writes.
var fileOptions = []string{
	"build_event_binary_file", "build_event_json_file", "build_event_text_file", "execution_log_binary_file", "execution_log_compact_file",
	"execution_log_json_file", "explain", "memory_profile", "profile", "remote_grpc_log",
}

// reportOptions are fileOptions and the server of build events. Both get a report even if nothing is built.
var reportOptions = append([]string{"bes_backend"}, fileOptions...)

// noFilesFlags returns flags that keep a command from writing the user's files.
func (inv *invocation) noFilesFlags() []string {
	flags := []string{"--bes_backend=", uploadNothing}
	for _, name := range fileOptions {
		if inv.option(name) != "" || inv.userValue(name) != "" {
			flags = append(flags, "--"+name+"="+filepath.Join(inv.tmp, "unused-"+name))
		}
	}
	return flags
}

// query returns queries about the build.
func (inv *invocation) query() *bazel.Query {
	flags := slices.Concat(inv.args, inv.noBuildFlags())
	return &bazel.Query{
		Bazel: inv.Bazel.WithRC(inv.rcFile()), File: filepath.Join(inv.tmp, "query"),
		Flags: func(command string) []string { return inv.flags.Known(command, flags) },
	}
}

// writeEvents copies a file of build events to the user's --build_event_json_file, if there is that flag.
func (inv *invocation) writeEvents(events string) {
	own := inv.userValue("build_event_json_file")
	if own == "" {
		return
	}
	b, err := os.ReadFile(events)
	if err == nil {
		err = os.WriteFile(in(inv.workspaceDir(), own), b, 0o666)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		inv.say("warning: build events can't be written: %v", err)
	}
}

// reportNothing has Bazel write the user's files if there is nothing to run.
func (inv *invocation) reportNothing(ctx context.Context) (code int, err error) {
	if !slices.ContainsFunc(reportOptions, func(name string) bool { return inv.userValue(name) != "" }) {
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
