package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// rcName is the name of a file with flags, as .bazelrc is for Bazel: each line has a command, or common for all of them, and
// flags, in quotes if there are blanks in them.
const rcName = ".tastingrc"

const common = "common"

// rcCommands are the commands that read such files. Commands that a build or a test calls must not: their results may not depend
// on the user's files.
var rcCommands = []string{"adopt", "check", "evaluate", "explain", "report", "service", "store", "test"}

// setting is a flag in a file.
type setting struct {
	command           string // one of rcCommands, or common
	word, name, value string
	isBazels          bool
	place             string // FILE:LINE
}

// settings are those of all files, in order.
type settings struct {
	files []string // that were read
	list  []setting
}

// withRC sets the flags that files have for the command of args, and returns args with the files' flags for Bazel.
func withRC(root *cobra.Command, args []string) ([]string, error) {
	cmd, rest, err := root.Find(args)
	if err != nil || rcCommand(cmd) == "" || slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		return args, nil
	}
	s, err := readRC(".", root, os.Getenv)
	if err != nil {
		return nil, err
	}
	cmd.InheritedFlags() // adds them to Flags
	if _, err := s.apply(cmd, cmd.Flags()); err != nil {
		return nil, err
	}
	if bazels := s.bazelFlags(cmd); len(bazels) > 0 {
		args = slices.Concat(args[:1:1], bazels, rest)
	}
	return args, nil
}

// rcCommand returns the name of a command in files, or "" if it reads none.
func rcCommand(cmd *cobra.Command) string {
	for ; cmd.HasParent(); cmd = cmd.Parent() {
		if slices.Contains(rcCommands, cmd.Name()) {
			return cmd.Name()
		}
	}
	return ""
}

// findFlag returns a flag of one of the commands that name stands for, or nil.
func findFlag(root *cobra.Command, name, flag string) (found *pflag.Flag) {
	visit(root, func(c *cobra.Command) {
		if of := rcCommand(c); found == nil && of != "" && (name == common || of == name) {
			c.InheritedFlags() // adds them to Flags
			found = c.Flags().Lookup(flag)
		}
	})
	return found
}

// rcFiles returns the files for a directory: that of the user, then that of the workspace; or the one in $TASTINGRC, which is
// needed.
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

// readRC reads the files for a directory.
func readRC(dir string, root *cobra.Command, getenv func(string) string) (*settings, error) {
	files, needed := rcFiles(dir, getenv)
	s := &settings{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) && !needed {
			continue
		}
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, file)
		n := 0
		for line := range strings.Lines(string(b)) {
			n++
			if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
				continue
			}
			if err := s.addLine(root, fmt.Sprintf("%s:%d", file, n), words.Split(line)); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

func (s *settings) addLine(root *cobra.Command, place string, words []string) error {
	if len(words) == 0 {
		return nil
	}
	of := words[0]
	if of != common && !slices.Contains(rcCommands, of) {
		return fmt.Errorf("%s: %q: want common, or one of %s, and flags behind it", place, of, strings.Join(rcCommands, ", "))
	}
	for _, w := range words[1:] {
		name, value, assigned := strings.Cut(strings.TrimPrefix(w, "--"), "=")
		x := findFlag(root, of, name)
		isBool := x != nil && x.Value.Type() == "bool"
		// A flag without its value would take the next word of the command line.
		if !strings.HasPrefix(w, "-") || w == "--" || w == "-c" || w == "-j" || x != nil && !isBool && !assigned {
			return fmt.Errorf("%s: %q: want flags alone, those with a value as --flag=value, and comments on lines of their own", place, w)
		}
		ofBazel := of == "test" && !command.IsOwn(x, assigned)
		if x == nil && !ofBazel {
			return fmt.Errorf("%s: %q: tasting knows no such flag here; flags of Bazel are for test alone", place, w)
		}
		if isBool && !assigned {
			value = "true"
		}
		s.list = append(s.list, setting{of, w, name, value, ofBazel, place})
	}
	return nil
}

// apply sets those of own, which are flags of cmd, that files have: first those of common lines. It returns where each has its
// value from.
func (s *settings) apply(cmd *cobra.Command, own *pflag.FlagSet) (places map[string]string, err error) {
	places = map[string]string{}
	for _, of := range []string{common, rcCommand(cmd)} {
		for _, x := range s.list {
			f := own.Lookup(x.name)
			if x.command != of || x.isBazels || f == nil {
				continue
			}
			if err := own.Set(x.name, x.value); err != nil {
				return nil, fmt.Errorf("%s: %w", x.place, err)
			}
			places[f.Name] = x.place
		}
	}
	return places, nil
}

// bazelFlags returns the flags of Bazel that files have for cmd.
func (s *settings) bazelFlags(cmd *cobra.Command) (words []string) {
	for _, x := range s.list {
		if x.isBazels && x.command == rcCommand(cmd) {
			words = append(words, x.word)
		}
	}
	return words
}
