package cli

import (
	"os"

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
	return runner.Main(&runner.Test{
		Path: path, Args: args[1:], Env: os.Environ(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	}), true
}

func runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run TEST [ARGUMENT]...",
		Short: "Replay the recorded result of a test, or execute the test and record it",
		Long: `Replay the recorded result of a test, or execute the test and record it.

TEST is the executable of a test that was built with TEST.tasting beside it.
Bazel starts such a test without this command, and started by hand it is always
executed. This command replays what it has recorded itself, with the same arguments,
environment and working directory. Bazel starts the test with others, which are known to
Bazel alone, so that its results have other keys: for these use "bazel test".
.tastingrc isn't read. The exit code is the test's, or 3 if it could not be started.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return exit(runner.Main(&runner.Test{
				Path: args[0], Args: args[1:], Env: os.Environ(), Asked: true,
				Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
			}), nil)
		},
	}
	// What follows TEST is the test's.
	cmd.Flags().SetInterspersed(false)
	return cmd
}
