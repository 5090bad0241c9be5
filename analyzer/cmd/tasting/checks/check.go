// Package checks has the commands below "tasting check": they measure whether hashes, links and selections are sound.
package checks

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/compiler"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/witness"
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

// clangFor returns the clang that dumps: the named one, or the compiler
// itself if its name says that it is one.
func clangFor(cmd *cobra.Command, clang, compiler string) string {
	if !cmd.Flags().Changed("clang") && clang == "clang" && strings.Contains(filepath.Base(compiler), "clang") {
		return compiler
	}
	return clang
}

// commandLines splits COMPILER [flags] FILE.c... into one command line per file.
func commandLines(args []string) (lines [][]string, err error) {
	var common, files []string
	for i := 0; i < len(args); i++ {
		if i > 0 && !strings.HasPrefix(args[i], "-") && compiler.IsSource(args[i]) {
			files = append(files, args[i])
		} else {
			common = append(common, args[i])
		}
	}
	if len(files) == 0 {
		return nil, errors.New("no source file: want -- COMPILER [flags] FILE.c")
	}
	for _, f := range files {
		lines = append(lines, append(append([]string{}, common...), f))
	}
	return lines, nil
}

func printExplanations(w io.Writer, list []witness.Explanation) {
	for _, e := range list {
		fmt.Fprintf(w, "  VIOLATION by %s: %s of %s: %s\n", e.Evidence, e.What, e.Unit, e.Reason)
	}
}

func counts(c witness.Counts, notPlain string) string {
	s := fmt.Sprintf("%d functions, %d share a section, %d of them are components", c.Functions, c.Sharing, c.Apart)
	if notPlain != "" {
		s += "; not plain C: " + notPlain
	}
	return s
}
