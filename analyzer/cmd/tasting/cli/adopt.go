package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/tools/adopt"
	"github.com/spf13/cobra"
)

// adoption is what the flags of adopt say.
type adoption struct {
	adopt.Options
	from                   adopt.Dependency
	bazel                  bazel.Bazel
	rules, undo, dry, json bool
	elsewhere              string // the store of "tasting test", if --rules can't take it
}

func adoptCommand() *cobra.Command {
	var a adoption
	cmd := &cobra.Command{
		Use:   "adopt [--rules [TARGETS]] [--ci=SERVICE] | --undo",
		Short: "Set up the workspace for tasting, or take that back",
		Long: `Set up the workspace for tasting, or take that back.

MODULE.bazel gets the dependency on rules_tasting: all that "tasting test" needs. With --rules, each
cc_test among TARGETS (default: //...) becomes a tasting_cc_test, and user.bazelrc, which .bazelrc
then reads, lets tests write to your store from within Bazel's sandbox.

What is added carries the mark "# tasting adopt".`,
		Example: `  tasting adopt --path=/path/to/rules_tasting
  tasting adopt --rules //lib/... --ci=github
  tasting adopt --undo`,
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := bazel.Root(".")
			if err != nil {
				return err
			}
			edits, notes, err := a.plan(cmd, root, args)
			if err != nil {
				return err
			}
			for _, n := range notes {
				fmt.Fprintln(cmd.ErrOrStderr(), n)
			}
			out := cmd.OutOrStdout()
			if a.json {
				list := append([]adopt.Edit{}, edits...) // an empty one isn't null
				if err := command.PrintJSON(out, map[string]any{"edits": list, "notes": notes}); err != nil {
					return err
				}
				out = io.Discard
			}
			for _, e := range edits {
				fmt.Fprintf(out, "%s: %s\n", e.File, e.What)
			}
			if a.Store != "" && !a.dry {
				if err := os.MkdirAll(a.Store, 0o777); err != nil {
					return err
				}
			}
			switch {
			case len(edits) == 0:
				fmt.Fprintln(out, "There is nothing to do.")
				return nil
			case a.dry:
				fmt.Fprintln(out, "Nothing is written (--dry_run).")
				return nil
			}
			if err := adopt.Apply(root, edits); err != nil {
				return err
			}
			switch {
			case a.rules:
				fmt.Fprintln(out, "Next: bazel test //... (--undo takes this back)")
			case !a.undo:
				fmt.Fprintln(out, "Next: tasting test //... (--undo takes this back)")
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&a.rules, "rules", false, "make each cc_test a tasting_cc_test")
	f.StringVar(&a.CI, "ci", "", "add the recipe for a `SERVICE`: "+strings.Join(slices.Sorted(maps.Keys(adopt.Recipes)), ", "))
	f.BoolVar(&a.undo, "undo", false, "take back what carries the mark")
	f.BoolVar(&a.dry, "dry_run", false, "only print what would be edited")
	f.BoolVar(&a.json, "json", false, "print the edits as JSON")
	f.StringVar(&a.from.Version, "release", "", "`VERSION` of rules_tasting (default: that of this program)")
	f.StringVar(&a.from.Path, "path", "", "`DIR` of a checkout of rules_tasting to use")
	f.StringVar(&a.from.Archive, "archive", "", "`URL` of the archive of the release, if no registry has it")
	f.StringVar(&a.from.Integrity, "integrity", "", "`CHECKSUM` of the archive: sha256-...")
	command.AddBazelFlags(f, &a.bazel.Program, &a.bazel.Startup)
	return cmd
}

// plan returns the edits of the workspace at root, and notes on what can't be edited.
func (a *adoption) plan(cmd *cobra.Command, root string, targets []string) (edits []adopt.Edit, notes []string, err error) {
	switch {
	case a.undo && (a.rules || a.CI != "" || len(targets) > 0):
		return nil, nil, errors.New("adopt: --undo takes everything back: give it alone")
	case a.undo:
		return adopt.Undo(root)
	case len(targets) > 0 && !a.rules:
		return nil, nil, fmt.Errorf("adopt: %s: targets are for --rules", targets[0])
	}
	if a.Dependency, err = a.from.Complete(root, release()); err != nil {
		return nil, nil, err
	}
	if a.rules {
		if a.Tests, err = adopt.FindTests(cmd.Context(), &a.bazel, root, targets); err != nil {
			return nil, nil, err
		}
		if err := a.chooseStore(cmd); err != nil {
			return nil, nil, err
		}
	}
	edits, notes, err = adopt.Plan(root, a.Options)
	if a.elsewhere != "" {
		notes = append(notes, fmt.Sprintf("user.bazelrc: names %s, not the store of \"tasting test\", which is no single directory: %s (see docs/how-to/share-a-store.md)", a.Store, a.elsewhere))
	}
	return edits, notes, err
}

// chooseStore takes the store of "tasting test" if that is a directory, else the default one.
func (a *adoption) chooseStore(cmd *cobra.Command) error {
	t, _, _, err := configuredTest(cmd.Root())
	if err != nil {
		return err
	}
	if err := t.complete(); err != nil {
		return err
	}
	if a.Store, err = store.DefaultDir(os.Getenv); err != nil {
		return err
	}
	switch at := t.stores.Location; {
	case at == a.Store:
	case filepath.IsAbs(at) && !strings.Contains(at, ","):
		a.Store, a.NamesStore = at, true
	default:
		a.elsewhere = store.Redact(at)
		return t.checkStore()
	}
	return nil
}
