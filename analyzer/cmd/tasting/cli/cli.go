// Package cli is the thin command line of tasting: each file holds one
// command, parses its flags, calls one package of the analyzer and maps
// errors to exit codes.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes, stable: others script against them.
const (
	exitOK         = 0 // fine
	exitDifference = 1 // a test failed or a difference was found
	exitUsage      = 2 // bad usage or bad input
	exitInternal   = 3 // internal error
)

// exitError carries the exit code of a command.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exit wraps err, which may be nil, so that Main returns code.
func exit(code int, err error) error { return &exitError{code, err} }

// Root returns the whole command tree.
func Root() *cobra.Command {
	root := &cobra.Command{
		Use:           "tasting",
		Short:         "Never run a C or C++ test whose outcome is already known",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		adoptCommand(), analyzeCommand(), checkCommand(), closureCommand(), composeCommand(), evaluateCommand(), explainCommand(), fingerprintCommand(),
		intervalCommand(), manifestCommand(), objectCommand(), preprocessCommand(), probeCommand(), reportCommand(), runCommand(), selectCommand(),
		storeCommand(), testCommand(), toolsCommand(), traceCommand(), versionCommand())
	for _, c := range root.Commands() {
		if c.HasSubCommands() {
			c.RunE = subcommand
		}
	}
	return root
}

// subcommand is run in the place of one that isn't there.
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

// Main runs the command line args (args[0] is the program) and returns the
// exit code. Errors that carry no code of their own are bad usage or input.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if code, ok := runTest(args); ok {
		return code
	}
	collectLater()
	// bazel run starts programs in their runfiles, not where the user is.
	if dir := os.Getenv("BUILD_WORKING_DIRECTORY"); dir != "" {
		if wd, err := os.Getwd(); err == nil && strings.Contains(wd, ".runfiles/") {
			if err := os.Chdir(dir); err != nil {
				fmt.Fprintf(stderr, "tasting: %v\n", err)
				return exitUsage
			}
		}
	}
	if n := len(args) - 1; n > 1 && args[n] == workerFlag && (args[1] == "object" || args[1] == "compose") {
		return serve(args[1:n], stdin, stdout, stderr)
	}
	return execute(args[1:], stdin, stdout, stderr)
}

// collectLater delays the first garbage collection from a heap of 4 MiB to one of 32. Most processes, such as the runner's,
// end before it. Later collections are as usual.
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
		return exitOK
	}
	code := exitUsage
	var e *exitError
	if errors.As(err, &e) {
		code = e.code
	}
	if msg := err.Error(); msg != "" {
		fmt.Fprintf(stderr, "tasting: %s\n", msg)
	}
	return code
}
