package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/runner"
	"github.com/spf13/cobra"
)

// runTest hands over to the runner if the program was started as a test; the
// arguments are the test's then and must not be parsed.
func runTest(args []string) (code int, ok bool) {
	path, ok := runner.Configured(args[0], os.Getenv)
	if !ok {
		return 0, false
	}
	return runner.Main(thisTest(path, args)), true
}

// thisTest is a test that takes the place of this program; args[0] is its name.
func thisTest(path string, args []string) *runner.Test {
	return &runner.Test{Path: path, Args: args[1:], Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
}

func runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run TEST [ARGUMENT]...",
		Short: "Replay the recorded result of a test, or run and record it",
		Long: `Replay the recorded result of TEST, the executable of a tasting_cc_test, or run and record it. Bazel
doesn't need this command. It replays only what it has recorded itself: Bazel's arguments and
environment differ. The exit code is the test's, or 3 if it can't be started.`,
		Args: command.Args(1, -1, "the TEST to run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			config := args[0] + fingerprint.ConfigSuffix
			if _, err := os.Stat(config); errors.Is(err, fs.ErrNotExist) {
				if _, err := os.Stat(args[0]); err != nil {
					return command.Exit(command.Internal, err)
				}
				return command.Exit(command.Internal, fmt.Errorf("%s is no tasting_cc_test: there is no %s", args[0], config))
			}
			t := thisTest(args[0], args)
			t.Asked = true
			return command.Exit(runner.Main(t), nil)
		},
	}
	// What follows TEST is the test's.
	cmd.Flags().SetInterspersed(false)
	return cmd
}
