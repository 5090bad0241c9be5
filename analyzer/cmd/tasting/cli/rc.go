package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/linkflags"
	"github.com/spf13/pflag"
)

// rcName is the name of a file with flags, as .bazelrc is for Bazel: a command and flags
// on each line, in quotes where there are blanks in them.
const rcName = ".tastingrc"

// rcFlags returns the flags that files have for "tasting test": that of the user and then
// that of the workspace, or the one in $TASTINGRC. It also returns which of them have any.
func rcFlags(dir string, own *pflag.FlagSet, getenv func(string) string) (flags, files []string, err error) {
	list := []string{getenv("TASTINGRC")}
	if list[0] == "" {
		list = nil
		if home := getenv("HOME"); home != "" {
			list = append(list, filepath.Join(home, rcName))
		}
		if root, err := bazel.Root(dir); err == nil {
			if file := filepath.Join(root, rcName); !slices.Contains(list, file) {
				list = append(list, file)
			}
		}
	}
	for _, file := range list {
		b, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) && getenv("TASTINGRC") == "" {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		n, had := 0, len(flags)
		for line := range strings.Lines(string(b)) {
			n++
			if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
				continue
			}
			words := linkflags.Split(line)
			if len(words) == 0 {
				continue
			}
			for _, w := range words[1:] {
				// A flag that lacks its value would take the next word of the command line.
				x := own.Lookup(strings.TrimPrefix(w, "--"))
				if !strings.HasPrefix(w, "-") || w == "--" || w == "-c" || w == "-j" || x != nil && x.Value.Type() != "bool" {
					return nil, nil, fmt.Errorf("%s:%d: %q: want flags alone, those with a value as --flag=value", file, n, w)
				}
			}
			if words[0] != "test" {
				return nil, nil, fmt.Errorf("%s:%d: %q: want test, and flags behind it", file, n, words[0])
			}
			flags = append(flags, words[1:]...)
		}
		if len(flags) > had {
			files = append(files, file)
		}
	}
	return flags, files, nil
}
