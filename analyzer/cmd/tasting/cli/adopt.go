package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/tools/adopt"
	"github.com/spf13/cobra"
)

func init() { register(adoptCommand) }

func adoptCommand() *cobra.Command {
	var d adopt.Dependency
	var o adopt.Options
	var rules, undo, dry bool
	b := &bazel.Bazel{}
	cmd := &cobra.Command{
		Use:   "adopt [--rules [TARGETS]] [--ci=SERVICE] | --undo",
		Short: "Set up the workspace for tasting, or take that back",
		Long: `Set up the workspace for tasting, or take that back.

MODULE.bazel gets the dependency on rules_tasting. That is all that "tasting test" needs.
With --rules each cc_test among TARGETS (default: //...) becomes a tasting_cc_test, and
user.bazelrc, which .bazelrc is made to read, lets your tests record results from within
Bazel's sandbox, in a directory that is made. With --ci a recipe for that service is put
where it looks for one: see docs/ci.md.

Files are edited where they have to be, so that a diff shows nothing else. What is added
carries a mark, "# tasting adopt"; --undo takes back what does. Called twice, it changes
nothing more. Of tests that it can't change, such as those of macros, it says so.

Exit codes: 0 done, 2 bad usage or input.`,
		Example: `  tasting adopt
  tasting adopt --rules //lib/... --ci=github
  tasting adopt --undo`,
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := bazel.Root(".")
			if err != nil {
				return err
			}
			var edits []adopt.Edit
			var notes []string
			if undo {
				if rules || o.CI != "" || len(args) > 0 {
					return errors.New("adopt: --undo takes everything back: give it alone")
				}
				edits, notes, err = adopt.Undo(root)
			} else {
				if len(args) > 0 && !rules {
					return fmt.Errorf("adopt: %s: targets are for --rules", args[0])
				}
				if o.Dependency, err = dependency(d, root); err != nil {
					return err
				}
				if rules {
					if o.Tests, err = testsIn(cmd, b, root, args); err != nil {
						return err
					}
					if o.Store, err = store.DefaultDir(os.Getenv); err != nil {
						return err
					}
				}
				edits, notes, err = adopt.Plan(root, o)
			}
			if err != nil {
				return err
			}
			for _, n := range notes {
				fmt.Fprintln(cmd.ErrOrStderr(), n)
			}
			if o.Store != "" && !dry {
				if err := os.MkdirAll(o.Store, 0o777); err != nil {
					return err
				}
			}
			for _, e := range edits {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", e.File, e.What)
			}
			switch {
			case len(edits) == 0:
				fmt.Fprintln(cmd.OutOrStdout(), "There is nothing to do.")
				return nil
			case dry:
				fmt.Fprintln(cmd.OutOrStdout(), "Nothing is written (--dry_run).")
				return nil
			}
			if err := adopt.Apply(root, edits); err != nil {
				return err
			}
			if !undo {
				fmt.Fprintln(cmd.OutOrStdout(), "Next: tasting test //... (--undo takes this back)")
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&rules, "rules", false, "make each cc_test a tasting_cc_test")
	f.StringVar(&o.CI, "ci", "", "add the recipe for a `SERVICE`: "+strings.Join(slices.Sorted(maps.Keys(adopt.Recipes)), ", "))
	f.BoolVar(&undo, "undo", false, "take back what carries the mark")
	f.BoolVar(&dry, "dry_run", false, "only say what would be done")
	f.StringVar(&d.Version, "release", "", "`VERSION` of rules_tasting (default: that of this program)")
	f.StringVar(&d.Path, "path", "", "`DIR` of a checkout of rules_tasting to use")
	f.StringVar(&d.Archive, "archive", "", "`URL` of the archive of the release, if no registry has it")
	f.StringVar(&d.Integrity, "integrity", "", "`CHECKSUM` of the archive, as in source.json of the release: sha256-...")
	f.StringVar(&b.Program, "bazel", "bazel", "`PATH` of Bazel")
	f.StringArrayVar(&b.Startup, "bazel_startup", nil, "a startup `OPTION` for Bazel (repeatable)")
	return cmd
}

// dependency completes what the flags say of where rules_tasting comes from.
func dependency(d adopt.Dependency, root string) (adopt.Dependency, error) {
	if d.Path != "" {
		if d.Version != "" || d.Archive != "" {
			return d, errors.New("adopt: --path names a checkout, which is no release")
		}
		path, err := filepath.Abs(d.Path)
		if err == nil {
			path, err = filepath.EvalSymlinks(path)
		}
		if err != nil {
			return d, fmt.Errorf("adopt: --path=%s is no checkout of rules_tasting: %w", d.Path, err)
		}
		if _, err := os.Stat(filepath.Join(path, "rules/defs.bzl")); err != nil {
			return d, fmt.Errorf("adopt: --path=%s is no checkout of rules_tasting: %w", d.Path, err)
		}
		d.Path, err = filepath.Rel(root, path)
		return d, err
	}
	if d.Version == "" && version != unreleased {
		d.Version = version
	}
	switch {
	case d.Version == "":
		return d, errors.New("adopt: this program is no release, so name one with --release, or a checkout of rules_tasting with --path")
	case (d.Archive == "") != (d.Integrity == ""):
		return d, errors.New("adopt: want both of --archive and --integrity, or none")
	}
	return d, nil
}

// testsIn asks Bazel where the cc_test rules among patterns are, but for those that are to
// stay as they are, such as the real tests of tasting_cc_test.
func testsIn(cmd *cobra.Command, b *bazel.Bazel, root string, patterns []string) ([]adopt.Test, error) {
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
	out, err := b.Output(cmd.Context(), "query", "--output=location", "--norelative_locations", query)
	if err != nil {
		return nil, fmt.Errorf("adopt: the tests can't be listed: %w", err)
	}
	return adopt.ReadTests(root, out)
}
