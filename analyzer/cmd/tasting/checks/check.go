// Package checks has the commands below "tasting check": they measure whether hashes, links and selections are sound.
package checks

import (
	"fmt"
	"io"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/spf13/cobra"
)

// Command returns "tasting check" with all commands below it.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether tasting is right about any code",
	}
	const users, contributors = "users", "contributors"
	cmd.AddGroup(&cobra.Group{ID: users, Title: "Your code base:"}, &cobra.Group{ID: contributors, Title: "For work on tasting itself:"})
	add := func(group string, list ...*cobra.Command) {
		for _, c := range list {
			c.GroupID = group
			cmd.AddCommand(c)
		}
	}
	add(users, workspaceCommand())
	add(contributors, defectsCommand(), evolveCommand(), executionsCommand(), generatedCommand(), historyCommand(), linksCommand(), mutateCommand(), objectsCommand())
	return cmd
}

// conclude prints the result of a check, as JSON or by text. It returns an error with the meaning of violations if there are any.
func conclude(cmd *cobra.Command, asJSON bool, result any, text func(out io.Writer), violations int, what string) error {
	if err := command.Show(cmd, asJSON, result, text); err != nil || violations == 0 {
		return err
	}
	return command.Exit(command.Difference, fmt.Errorf("check %s: %d %s", cmd.Name(), violations, what))
}
