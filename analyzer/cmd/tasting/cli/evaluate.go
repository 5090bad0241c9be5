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

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/tools/evaluate"
	"github.com/spf13/cobra"
)

func evaluateCommand() *cobra.Command {
	var o evaluate.Options
	var aspect string
	cmd := &cobra.Command{
		Use:   "evaluate --commits=A..B [flags] [flags of bazel test] [--] TARGETS",
		Short: "Measure what tasting test would have saved at past commits",
		Long: `Measure what "tasting test" would have saved at past commits of a git repository.

It runs TARGETS at each commit with plain "bazel test" and with "tasting test", and prints what each
ran, compiled and cost. Work trees, output bases and stores are in DIR; your own stay as they are.
Called again, it goes on where it stopped.

DIR has commits.jsonl, a line for each commit; report.html, a page with plots; and Bazel's output in
plain/log-N.txt and tasting/log-N.txt.

Exit code 1: a test was replayed that doesn't pass with plain Bazel.`,
		Example: `  tasting evaluate --commits=main~30..main --verify //...
  tasting evaluate --commits=v1.0..v1.1 --every=5 -c opt -- //lib/...`,
		// Most flags are Bazel's.
		DisableFlagParsing: true,
	}
	f := cmd.Flags()
	f.StringVar(&o.Commits, "commits", "", "`COMMITS`: A..B for A and the first parents of B after it, or single ones such as A,B,A")
	f.IntVar(&o.Every, "every", 1, "only each `N`th commit of a range, and its ends")
	f.StringVar(&o.State, "dir", "", "`DIR` of the evaluation, not below /tmp (default: below tasting-evaluate in the user's cache directory)")
	f.StringVar(&o.Prepare, "prepare", "", "shell `COMMAND` to run after each checkout, for example to add rules_tasting; $TASTING_SIDE is plain or tasting")
	f.BoolVar(&o.DiskCache, "disk_caches", false, "give each side a --disk_cache of its own")
	f.BoolVar(&o.Fresh, "fresh", false, "remove Bazel's outputs after each commit; disk caches and the store stay")
	f.BoolVar(&o.Traces, "traces", false, "also run tasting test with --traces=on [--cases]")
	f.BoolVar(&o.Cases, "cases", false, "also run tasting test with --cases")
	f.BoolVar(&o.Verify, "verify", false, "run replayed tests with plain Bazel, outside of the measurement")
	command.AddBazelFlags(f, &o.Bazel, &o.Startup)
	command.AspectFlag(f, &aspect)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if o.Args, err = command.ParseOwn(cmd, args); err != nil {
			return err
		}
		if o.Commits == "" || len(o.Args) == 0 {
			return errors.New("evaluate: want --commits=A..B and targets, as in 'tasting evaluate --commits=main~30..main //...'")
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
			return command.Exit(command.Difference, err)
		}
		return err
	}
	return cmd
}
