package cli

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/tools/evaluate"
	"github.com/spf13/cobra"
)

func evaluateCommand() *cobra.Command {
	var o evaluate.Options
	var aspect string
	cmd := &cobra.Command{
		Use:   "evaluate --commits=A..B [flags] [flags of bazel test] [--] TARGETS",
		Short: "Measure what tasting test would have saved at commits of a git repository",
		Long: `Measure what tasting test would have saved at commits of a git repository.

Runs TARGETS at each commit with plain "bazel test" and with "tasting test", one after
the other, and prints what each of them executed, compiled and cost. Both have work
trees, output bases and stores of their own in the directory of the evaluation: the
checkout that it is called in, its builds and its store are never touched. Called
again, it goes on where it was stopped.

The directory has commits.jsonl, a line for each commit; report.html, a page with
plots; and what Bazel printed, in plain/log-N.txt and tasting/log-N.txt. See
docs/evaluate.md.

Exit codes: 0 done, 1 a test was replayed that doesn't pass with plain Bazel, 2 bad
usage, or it couldn't go on.`,
		Example: `  tasting evaluate --commits=main~30..main --verify //...
  tasting evaluate --commits=v1.0..v1.1 --every=5 -c opt -- //lib/...`,
		// Most flags are Bazel's.
		DisableFlagParsing: true,
	}
	f := cmd.Flags()
	f.StringVar(&o.Commits, "commits", "", "`COMMITS`: A..B for A and the first parents of B after it, or single ones, with commas between them: A,B,A has a revert")
	f.IntVar(&o.Every, "every", 1, "of a range, only each `N`th commit, and its ends")
	f.StringVar(&o.State, "dir", "", "`DIR` of the evaluation; not below /tmp, which Bazel's sandbox hides (default: below tasting-evaluate in the user's cache directory, by what is evaluated)")
	f.StringVar(&o.Prepare, "prepare", "", "shell `COMMAND` to run in the workspace after each checkout, as to add rules_tasting to MODULE.bazel; $TASTING_SIDE is plain or tasting")
	f.BoolVar(&o.DiskCache, "disk_caches", false, "give each side a --disk_cache of its own")
	f.BoolVar(&o.Fresh, "fresh", false, "remove Bazel's outputs after each commit, as on a new machine; disk caches and the store stay")
	f.BoolVar(&o.Traces, "traces", false, "also run tasting test with --traces=on, as a third side")
	f.BoolVar(&o.Verify, "verify", false, "execute with plain Bazel whatever was replayed, outside of the measurement")
	addBazelFlags(f, &o.Bazel, &o.Startup)
	aspectFlag(f, &aspect)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if o.Args, err = parseOwn(cmd, args); err != nil {
			return err
		}
		if o.Commits == "" || len(o.Args) == 0 {
			return errors.New("want --commits=A..B and targets")
		}
		if o.Every < 1 {
			return fmt.Errorf("--every=%d: want 1 or more", o.Every)
		}
		if o.Dir, err = os.Getwd(); err != nil {
			return err
		}
		if o.Tasting, err = os.Executable(); err != nil {
			return err
		}
		if o.State == "" {
			cache, err := os.UserCacheDir()
			if err != nil {
				return fmt.Errorf("%w: name a directory with --dir", err)
			}
			id := sha256.Sum256([]byte(o.Dir + "\x00" + strings.Join(args, "\x00")))
			o.State = filepath.Join(cache, "tasting-evaluate", fmt.Sprintf("%x", id[:6]))
		}
		if o.State, err = filepath.Abs(o.State); err != nil {
			return err
		}
		o.TestFlags = []string{"--aspect=" + aspect}
		o.Out, o.Err = cmd.OutOrStdout(), cmd.ErrOrStderr()
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = evaluate.Run(ctx, &o)
		if errors.Is(err, evaluate.ErrMissed) {
			return exit(exitDifference, err)
		}
		return err
	}
	return cmd
}
