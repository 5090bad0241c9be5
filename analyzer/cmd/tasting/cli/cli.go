// Package cli is the command line of tasting. Each file holds one command: it parses flags, calls one package of the analyzer and
// maps errors to exit codes.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/checks"
	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/spf13/cobra"
)

// Groups of "tasting --help".
var groups = []*cobra.Group{
	{ID: "daily", Title: "Daily:"},
	{ID: "setup", Title: "Setup and care:"},
	{ID: "service", Title: "Services (experimental):"},
	{ID: "check", Title: "Checks and inspection:"},
}

// internalName is the command that has those below it which rules of Bazel call.
const internalName = "internal"

// Root returns the whole command tree.
func Root() *cobra.Command {
	root := &cobra.Command{
		Use:           "tasting",
		Short:         "Never run a C or C++ test whose outcome is already known",
		Long:          "tasting runs the C and C++ tests of a Bazel workspace whose outcome isn't known, and replays the others.",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("tasting {{.Version}}\n")
	root.AddGroup(groups...)
	add := func(group string, list ...*cobra.Command) {
		for _, c := range list {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("daily", testCommand(), explainCommand(), reportCommand())
	add("setup", adoptCommand(), configCommand(), evaluateCommand(), storeCommand())
	add("service", parent("service", "Trace services and select their tests", traceCommand(), intervalCommand(), selectCommand()))
	add("check", checks.Command(), inspectCommand())
	add("", versionCommand())
	internal := parent(internalName, "What rules of Bazel call", analyzeCommand(), composeCommand(), objectCommand(), preprocessCommand(), probeCommand(), runCommand(), toolsCommand())
	internal.Hidden = true
	root.AddCommand(internal)
	root.SetGlobalNormalizationFunc(command.Normal)
	root.SetFlagErrorFunc(command.FlagError)
	visit(root, func(c *cobra.Command) {
		c.DisableFlagsInUseLine = true
		if c.HasSubCommands() && c != root {
			c.RunE = subcommand
		}
	})
	return root
}

// parent returns a command that has others below it.
func parent(name, short string, list ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short}
	cmd.AddCommand(list...)
	return cmd
}

// visit calls f with cmd and all commands below it.
func visit(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, c := range cmd.Commands() {
		visit(c, f)
	}
}

// subcommand is run in place of a command that doesn't exist.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return fmt.Errorf("unknown command %q for %q: want one of %s", args[0], cmd.CommandPath(), strings.Join(names, ", "))
}

// Main runs the command line args (args[0] is the program) and returns the exit code. Errors without an exit code of their own
// are bad usage or input.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if code, ok := runTest(args); ok {
		return code
	}
	collectLater()
	// "bazel run" starts programs in their runfiles, not where the user is.
	if dir := os.Getenv("BUILD_WORKING_DIRECTORY"); dir != "" {
		if wd, err := os.Getwd(); err == nil && strings.Contains(wd, ".runfiles/") {
			if err := os.Chdir(dir); err != nil {
				fmt.Fprintf(stderr, "tasting: %v\n", err)
				return command.Usage
			}
		}
	}
	if last := len(args) - 1; last > 2 && args[last] == workerFlag && args[1] == internalName && slices.Contains([]string{"object", "compose"}, args[2]) {
		return serve(args[1:last], stdin, stdout, stderr)
	}
	return execute(args[1:], stdin, stdout, stderr)
}

// collectLater delays the first garbage collection from a heap of 4 MiB to one of 32. Most processes, such as the runner's, end
// before it. Later collections are as usual.
func collectLater() {
	if os.Getenv("GOGC") != "" {
		return
	}
	usual := debug.SetGCPercent(800)
	runtime.AddCleanup(new([32]byte), func(percent int) { debug.SetGCPercent(percent) }, usual)
}

// execute runs a command.
func execute(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := Root()
	args, err := withRC(root, args)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err == nil {
		err = root.Execute()
	}
	if err == nil {
		return command.OK
	}
	code := command.Usage
	var e *command.Error
	if errors.As(err, &e) {
		code = e.Code
	}
	if msg := err.Error(); msg != "" {
		fmt.Fprintf(stderr, "tasting: %s\n", msg)
	}
	return code
}
