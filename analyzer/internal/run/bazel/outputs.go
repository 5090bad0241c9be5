package bazel

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// OutputFiles returns the names of the files in a directory of undeclared outputs, in order. It is an error if there is
// anything that can't be recorded: an empty directory, or a file that isn't regular.
func OutputFiles(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			l, err := os.ReadDir(p)
			if err == nil && len(l) == 0 && p != dir {
				err = fmt.Errorf("the test made the empty directory %s, which can't be recorded", p)
			}
			return err
		}
		if !e.Type().IsRegular() {
			return fmt.Errorf("the test wrote %s, which is no regular file", p)
		}
		name, err := filepath.Rel(dir, p)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	return names, err
}
