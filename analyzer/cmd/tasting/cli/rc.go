package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/adopt"
	"github.com/rules-tasting/rules_tasting/analyzer/linkflags"
)

// rcName is the name of a file with flags, as .bazelrc is for Bazel: a command and flags
// on each line, in quotes where there are blanks in them.
const rcName = ".tastingrc"

// rcFlags returns the flags that files have for "tasting test": that of the user and then
// that of the workspace, or the one in $TASTINGRC. It also returns which of them have any.
func rcFlags(dir string, getenv func(string) string) (flags, files []string, err error) {
	list := []string{getenv("TASTINGRC")}
	if list[0] == "" {
		list = nil
		if home := getenv("HOME"); home != "" {
			list = append(list, filepath.Join(home, rcName))
		}
		if root, err := adopt.Root(dir); err == nil {
			list = append(list, filepath.Join(root, rcName))
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
				if !strings.HasPrefix(w, "-") || w == "--" {
					return nil, nil, fmt.Errorf("%s:%d: %q is no flag; one with a value is written --flag=value", file, n, w)
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
