package witness

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/compiler"
)

// ObjectsOptions describe two versions to compare.
type ObjectsOptions struct {
	// A and B are source files, or directories with sources of the same names.
	A, B string
	// Compiler is the compiler with its flags, without a source. In a flag, {}
	// stands for the directory, A or B.
	Compiler []string
	// Clang dumps syntax trees.
	Clang string
}

// ObjectsResult is the outcome for one pair.
type ObjectsResult struct {
	Name string `json:"name"`
	// Counts are those of the second version.
	Counts
	// NotPlain is why there is no evidence by source, "" if there is.
	NotPlain string  `json:"not_plain,omitempty"`
	Pairs    []*Pair `json:"pairs"`
}

// Objects compares two versions of a unit, or of all units that two
// directories have in common, sorted by name. Of directories, units that don't
// compile in both versions are an error: they would check nothing.
func Objects(ctx context.Context, o ObjectsOptions) ([]ObjectsResult, error) {
	names, dirs, err := pairNames(o.A, o.B)
	if err != nil {
		return nil, err
	}
	var out []ObjectsResult
	for _, name := range names {
		var side [2]*Version
		for k, root := range []string{o.A, o.B} {
			dir, file := filepath.Dir(root), root
			if dirs {
				dir, file = root, filepath.Join(root, name)
			}
			argv := inDir(o.Compiler, dir)
			if dirs {
				argv = append(argv, "-I", root)
			}
			if side[k], err = Compile(ctx, append(argv, file), o.Clang); err != nil {
				return nil, err
			}
		}
		out = append(out, ObjectsResult{name, side[1].Counts, cmp.Or(side[0].NotPlain, side[1].NotPlain), ComparePair(side[0], side[1])})
	}
	return out, nil
}

// inDir replaces {} in args.
func inDir(args []string, dir string) []string {
	args = slices.Clone(args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "{}", dir)
	}
	return args
}

// pairNames returns the sources that two directories have in common, or the second of two files.
func pairNames(a, b string) (names []string, dirs bool, err error) {
	var isDir [2]bool
	var sources [2][]string
	for i, p := range []string{a, b} {
		st, err := os.Stat(p)
		if err != nil {
			return nil, false, err
		}
		if isDir[i] = st.IsDir(); !isDir[i] {
			continue
		}
		entries, err := os.ReadDir(p)
		for _, e := range entries {
			if compiler.IsSource(e.Name()) {
				sources[i] = append(sources[i], e.Name())
			}
		}
		if err == nil && len(sources[i]) == 0 {
			err = fmt.Errorf("%s: %w: want two source files, or two directories with sources", p, fs.ErrNotExist)
		}
		if err != nil {
			return nil, false, err
		}
	}
	switch {
	case isDir[0] != isDir[1]:
		return nil, false, fmt.Errorf("%s and %s: want two source files or two directories", a, b)
	case !isDir[0]:
		return []string{b}, false, nil
	}
	names = slices.DeleteFunc(sources[0], func(n string) bool { return !slices.Contains(sources[1], n) })
	if len(names) == 0 {
		return nil, false, fmt.Errorf("%s and %s have no source in common", a, b)
	}
	return names, true, nil
}
