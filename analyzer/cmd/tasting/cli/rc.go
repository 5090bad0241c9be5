package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// rcName is the name of a file with flags, as .bazelrc is for Bazel: on each line a command, or
// common for all, and flags, in quotes where there are blanks in them.
const rcName = ".tastingrc"

// rcCommands are the commands that read such files. An action of a build must not: its result
// has to be the same everywhere.
var rcCommands = []string{"test", "explain", "select", "store", "report"}

// withRC sets the flags that files have for the command of args, and returns args with those
// that files have for Bazel.
func withRC(root *cobra.Command, args []string) ([]string, error) {
	cmd, rest, err := root.Find(args)
	if err != nil || !slices.Contains(rcCommands, topLevel(cmd).Name()) || slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		return args, nil
	}
	bazels, err := setRC(".", cmd, cmd.Flags(), os.Getenv)
	if len(bazels) == 0 {
		return args, err
	}
	return slices.Concat(args[:1:1], bazels, rest), err
}

// topLevel is cmd, or the command that it is a subcommand of.
func topLevel(cmd *cobra.Command) *cobra.Command {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	return cmd
}

// findFlag returns the flag of a command, or one of its subcommands that read files, or nil.
func findFlag(cmd *cobra.Command, name string) *pflag.Flag {
	f := cmd.Flags().Lookup(name)
	for _, sub := range cmd.Commands() {
		if f == nil && (cmd.HasParent() || slices.Contains(rcCommands, sub.Name())) {
			f = findFlag(sub, name)
		}
	}
	return f
}

// rcFiles returns the files for a directory: that of the user and then that of the workspace, or
// the one in $TASTINGRC, which has to be there.
func rcFiles(dir string, getenv func(string) string) (files []string, needed bool) {
	if file := getenv("TASTINGRC"); file != "" {
		return []string{file}, true
	}
	if home := getenv("HOME"); home != "" {
		files = append(files, filepath.Join(home, rcName))
	}
	if root, err := bazel.Root(dir); err == nil {
		if file := filepath.Join(root, rcName); !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files, false
}

// setRC sets those of own, which are flags of cmd, that files have. What they have for the
// command comes after what they have for all. It returns the flags of Bazel.
func setRC(dir string, cmd *cobra.Command, own *pflag.FlagSet, getenv func(string) string) (bazels []string, err error) {
	files, needed := rcFiles(dir, getenv)
	var common, special []func() error
	for _, file := range files {
		b, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) && !needed {
			continue
		}
		if err != nil {
			return nil, err
		}
		n := 0
		for line := range strings.Lines(string(b)) {
			n++
			if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
				continue
			}
			words := words.Split(line)
			if len(words) == 0 {
				continue
			}
			scope, all := cmd.Root(), words[0] == "common"
			if !all {
				if !slices.Contains(rcCommands, words[0]) {
					return nil, fmt.Errorf("%s:%d: %q: want common, or one of %s, and flags behind it", file, n, words[0], strings.Join(rcCommands, ", "))
				}
				scope, _, _ = scope.Find(words[:1])
			}
			for _, w := range words[1:] {
				name, value, assigned := strings.Cut(strings.TrimPrefix(w, "--"), "=")
				x := findFlag(scope, name)
				isBool := x != nil && x.Value.Type() == "bool"
				// A flag that lacks its value would take the next word of the command line.
				if !strings.HasPrefix(w, "-") || w == "--" || w == "-c" || w == "-j" || x != nil && !isBool && !assigned {
					return nil, fmt.Errorf("%s:%d: %q: want flags alone, those with a value as --flag=value", file, n, w)
				}
				ofBazel := words[0] == "test" && (x == nil || isBool && assigned)
				switch {
				case x == nil && !ofBazel:
					return nil, fmt.Errorf("%s:%d: %q: tasting knows no such flag here; flags of Bazel are for test alone", file, n, w)
				case !all && scope != topLevel(cmd):
				case ofBazel:
					bazels = append(bazels, w)
				case own.Lookup(name) != nil:
					set := func() error {
						if isBool && !assigned {
							value = "true"
						}
						if err := own.Set(name, value); err != nil {
							return fmt.Errorf("%s:%d: %w", file, n, err)
						}
						return nil
					}
					if all {
						common = append(common, set)
					} else {
						special = append(special, set)
					}
				}
			}
		}
	}
	for _, set := range append(common, special...) {
		if err := set(); err != nil {
			return nil, err
		}
	}
	return bazels, nil
}
