package adopt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
)

// Complete checks where rules_tasting comes from, and fills in what is left open, for the workspace at root. Release is
// the version of this program, "" if it is none.
func (d Dependency) Complete(root, release string) (Dependency, error) {
	if d.Path != "" {
		if d.Version != "" || d.Archive != "" {
			return d, errors.New("adopt: --path names a checkout, which is no release")
		}
		path, err := filepath.Abs(d.Path)
		if err == nil {
			path, err = filepath.EvalSymlinks(path)
		}
		if err == nil {
			_, err = os.Stat(filepath.Join(path, "rules/defs.bzl"))
		}
		if err != nil {
			return d, fmt.Errorf("adopt: --path=%s is no checkout of rules_tasting: %w", d.Path, err)
		}
		d.Path, err = filepath.Rel(root, path)
		return d, err
	}
	d.Version = cmp.Or(d.Version, release)
	switch {
	case d.Version == "" && d.Archive != "":
		return d, errNoRelease
	case (d.Archive == "") != (d.Integrity == ""):
		return d, errors.New("adopt: want both of --archive and --integrity, or none")
	}
	return d, nil
}

// errNoRelease is the error if there is nothing to depend on.
var errNoRelease = errors.New("adopt: this program is no release, so name one with --release, or a checkout of rules_tasting with --path")

// FindTests returns the cc_test rules among patterns, by a query of Bazel. It leaves out tests with the tag no-tasting, such
// as the real tests of tasting_cc_test.
func FindTests(ctx context.Context, b *bazel.Bazel, root string, patterns []string) ([]Test, error) {
	if len(patterns) == 0 {
		patterns = []string{"//..."}
	}
	var some, others []string
	for _, p := range patterns {
		if not, ok := strings.CutPrefix(p, "-"); ok {
			others = append(others, strconv.Quote(not))
		} else {
			some = append(some, strconv.Quote(p))
		}
	}
	query := fmt.Sprintf(`let all = kind("^cc_test rule$", set(%s) except set(%s)) in $all except attr(tags, "\bno-tasting\b", $all)`, strings.Join(some, " "), strings.Join(others, " "))
	out, err := b.Output(ctx, "query", "--output=location", "--norelative_locations", query)
	if err != nil {
		return nil, fmt.Errorf("adopt: the tests can't be listed: %w", err)
	}
	return ReadTests(root, out)
}
