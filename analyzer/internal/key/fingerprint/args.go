package fingerprint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// AddFlags adds the flags of `tasting compose` that describe t. When f has been
// parsed, finish completes t: the arguments are manifests, and names of files
// are taken relative to dir, or to the current directory if that is empty.
func (t *Test) AddFlags(f *pflag.FlagSet) (finish func(dir string) error) {
	var data []string
	f.StringVar(&t.Binary, "binary", "", "runfiles `PATH` of the real test (required)")
	f.StringArrayVar(&data, "data", nil, "`RUNFILES_PATH=FILE` that the test can read (repeatable)")
	f.StringArrayVar(&t.Empty, "data-empty", nil, "`RUNFILES_PATH` of an empty file, or, with a slash at its end, of a directory (repeatable)")
	f.StringArrayVar(&t.Links, "link", nil, "a `FILE` of the rules that describes a link: first the executable's (repeatable)")
	f.BoolVar(&t.Source, "source", false, "prefer manifests made from source")
	f.StringArrayVar(&t.LinkFlags, "link-flag", nil, "a `FLAG` of the link that no --link has; symbols that it names are roots (repeatable)")
	f.StringVar(&t.RepoMapping, "repo-mapping", "", "Bazel's `FILE` _repo_mapping")
	f.StringArrayVar(&t.Execution, "execution-tag", nil, "a `TAG` that says how Bazel runs the test (repeatable)")
	f.StringArrayVar(&t.LinkInputs, "link-input", nil, "a `FILE` that a link reads, such as a script: implies --all_roots (repeatable)")
	f.StringArrayVar(&t.Tools, "tools", nil, "a `FILE` of \"tasting internal tools\" (repeatable)")
	f.StringVar(&t.Toolchain, "toolchain-files", "", "`FILE` of \"tasting internal probe\"")
	f.StringArrayVar(&t.EnvKeys, "env-key", nil, "`NAME` of a variable of the test's declaration (repeatable)")
	f.StringArrayVar(&t.Opens, "opens", nil, "a `WORD` of arguments or environment that names a shared library (repeatable)")
	f.StringArrayVar(&t.AlwaysRun, "always-run", nil, "`REASON` to always run the test (repeatable)")
	f.StringArrayVar(&t.LocalOnly, "local-only", nil, "`REASON` to use no server (repeatable)")
	f.BoolVar(&t.Cases, "cases", false, "the test is decided by its test cases")
	f.StringVar(&t.Store, "store", "", "`LOCATION` of the store")
	f.StringArrayVar(&t.Roots.Symbols, "root", nil, "`SYMBOL` that is a root instead of main (repeatable)")
	f.BoolVar(&t.Roots.Exported, "all-roots", false, "every global definition is a root")
	return func(dir string) error {
		if t.Binary == "" {
			return errors.New("compose: no --binary: give the runfiles path of the test executable")
		}
		for _, d := range data {
			files := splitData(dir, d)
			if len(files) == 0 {
				return noData(d)
			}
			if len(files) > 1 {
				t.AlwaysRun = append(t.AlwaysRun, fmt.Sprintf("which file of the data is meant by %s can't be told, there are several: rename one that has \"=\" in its name", d))
			}
			t.Data = append(t.Data, files[0])
		}
		t.Manifests = f.Args()
		for _, l := range [][]string{t.Manifests, t.Links, t.LinkInputs, t.Tools} {
			for i, name := range l {
				l[i] = inDir(dir, name)
			}
		}
		for _, name := range []*string{&t.Toolchain, &t.RepoMapping} {
			if *name != "" {
				*name = inDir(dir, *name)
			}
		}
		t.Dir = dir
		return nil
	}
}

func inDir(dir, name string) string {
	if dir == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

func noData(word string) error {
	return fmt.Errorf("--data=%s: want RUNFILES_PATH=FILE, and the file must exist", word)
}

// splitData splits RUNFILES_PATH=FILE. Both may contain "=": it returns each way that leaves the name of a file.
func splitData(dir, s string) (files []DataFile) {
	if path, file, ok := strings.Cut(s, "="); ok && path != "" && file != "" && !strings.Contains(file, "=") {
		return []DataFile{{Path: path, File: inDir(dir, file)}} // whether it exists shows when it is read
	}
	for i, c := range []byte(s) {
		if c != '=' || i == 0 {
			continue
		}
		if _, err := os.Lstat(inDir(dir, s[i+1:])); err == nil {
			files = append(files, DataFile{Path: s[:i], File: inDir(dir, s[i+1:])})
		}
	}
	return files
}
