package bazel

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// IsWorkspace reports whether a directory is the root of a workspace.
func IsWorkspace(dir string) bool {
	return slices.ContainsFunc([]string{"MODULE.bazel", "REPO.bazel", "WORKSPACE.bazel", "WORKSPACE"}, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	})
}

// Workspace returns the root of the workspace that a directory is in, if it is in one.
func Workspace(dir string) (root string, ok bool) {
	for !IsWorkspace(dir) {
		if dir == filepath.Dir(dir) {
			return "", false
		}
		dir = filepath.Dir(dir)
	}
	return dir, true
}

// Root returns the root of the workspace that a directory is in, without links, as Bazel
// calls it.
func Root(dir string) (string, error) {
	real, err := filepath.Abs(dir)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return "", err
	}
	root, ok := Workspace(real)
	if !ok {
		return "", fmt.Errorf("%s is in no workspace of Bazel: there is no MODULE.bazel or WORKSPACE in it or above", dir)
	}
	return root, nil
}
