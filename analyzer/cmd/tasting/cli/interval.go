package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/runner"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/services/interval"
	"github.com/spf13/cobra"
)

// maxInterval is how long services may take to open or close an interval.
const maxInterval = 30 * time.Second

func intervalCommand() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:   "interval [--at=ADDRESS,...] start NAME | stop NAME | run NAME -- PROGRAM [ARGUMENT]...",
		Short: "Tell traced services when a test begins and ends",
		Long: `Tell traced services when a test begins and ends.

"tasting service trace --serve" listens at the addresses: unix:PATH or HOST:PORT, separated by
commas. Without an address, the command does nothing, so tests may always call it. "run" has the
exit code of the program.`,
		Example: `  tasting service interval --at=unix:kv.sock run //kv:get_test -- bazel-bin/kv/get_test`,
		Args:    command.Args(2, -1, "start NAME, stop NAME, or run NAME -- PROGRAM"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 2 && args[2] == "--" {
				args = append(args[:2:2], args[3:]...)
			}
			if at == "" {
				at = os.Getenv(interval.Addresses)
			}
			c := interval.NewClient(at)
			say := func(f func(context.Context, string) error) error {
				ctx, cancel := context.WithTimeout(cmd.Context(), maxInterval)
				defer cancel()
				err := f(ctx, args[1])
				if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
					err = fmt.Errorf("no service listens at %s: start it under tasting service trace --serve (%w)", at, err)
				}
				return err
			}
			switch {
			case args[0] == "start" && len(args) == 2:
				return say(c.Start)
			case args[0] == "stop" && len(args) == 2:
				return say(c.Stop)
			case args[0] != "run" || len(args) < 3:
				return fmt.Errorf("interval: want start NAME, stop NAME or run NAME -- PROGRAM, not %q", args)
			}
			if err := say(c.Start); err != nil {
				return err
			}
			x := exec.Command(args[2], args[3:]...)
			x.Stdin, x.Stdout, x.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			err := x.Run()
			var ended *exec.ExitError
			if err != nil && !errors.As(err, &ended) {
				return errors.Join(err, say(c.Stop))
			}
			if err := say(c.Stop); err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "tasting: what it has executed isn't known: %v\n", err)
			}
			if ws := x.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
				runner.Die(ws.Signal())
			}
			return command.Exit(x.ProcessState.ExitCode(), nil)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVar(&at, "at", "", "`ADDRESSES` of the services (default: $"+interval.Addresses+")")
	return cmd
}
