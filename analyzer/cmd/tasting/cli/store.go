package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/progress"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func storeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "store", Short: "Look after a store of recorded results"}
	cmd.AddCommand(storeStat(), storeGC(), storeVerify(), storePing())
	return cmd
}

// storeOf opens the store in the directory that args names, or the default one.
func storeOf(cmd *cobra.Command, args []string) (*store.Disk, error) {
	location := ""
	if len(args) > 0 {
		location = args[0]
	} else {
		// The flags of a store that files have, which these commands haven't.
		var o store.Options
		f := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
		storeFlags(f, &o)
		if _, err := setRC(".", cmd, f, os.Getenv); err != nil {
			return nil, err
		}
		if err := completeStore(f, &o); err != nil {
			return nil, err
		}
		location = o.Location
	}
	if store.IsRemote(location) {
		return nil, fmt.Errorf("%s: %s is for directories: a server's contents are counted, checked and removed by whoever runs it; name a DIR, or see whether the server works with: tasting store ping", store.Redact(location), cmd.CommandPath())
	}
	if len(args) == 0 && strings.Contains(location, ",") {
		return nil, fmt.Errorf("%s: several directories; name one DIR", location)
	}
	dir, err := filepath.Abs(location)
	if err != nil {
		return nil, err
	}
	d := store.OpenDisk(dir)
	// A misspelt name must not look like an empty store.
	err = d.Check()
	if len(args) == 0 && errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(cmd.ErrOrStderr(), "tasting: %v\n", err)
		return d, nil // the first test that passes makes it
	}
	if err != nil {
		return nil, fmt.Errorf("%w; name the DIR of a store, as in --store or $TASTING_STORE (see %s --help)", err, cmd.CommandPath())
	}
	return d, nil
}

const defaultStore = "Without DIR it is the default store: that of .tastingrc or $TASTING_STORE, or tasting in\nthe user's cache directory. A server's contents are a matter of whoever runs it."

func storePing() *cobra.Command {
	var o store.Options
	cmd := &cobra.Command{
		Use:   "ping [flags]",
		Short: "Try whether a store can be read and written, and how fast it answers",
		Long: `Try whether a store can be read and written, and how fast it answers. Each
location is asked for a result that doesn't exist, and if the mode allows it, a small
entry is written that is of no use for anything else.

Flags that aren't given are taken from the environment: the file that
$TASTING_STORE_FLAGS names, $TASTING_STORE and $TASTING_STORE_MODE. The exit code
is 1 if something that the mode allows doesn't work.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withStore(cmd, &o, func(s store.Store) error {
				out := cmd.OutOrStdout()
				ok := true
				for _, h := range store.Ping(cmd.Context(), s) {
					fmt.Fprintf(out, "store %s\n", h.Location)
					for _, line := range h.About {
						fmt.Fprintf(out, "  %s\n", line)
					}
					fmt.Fprintf(out, "  read: %s\n  write: %s\n", answer(h.CanRead, h.Read, h.ReadErr, nil), answer(h.CanWrite, h.Write, h.WriteErr, h.ReadErr))
					ok = ok && h.OK()
				}
				if !ok {
					return exit(exitDifference, nil)
				}
				return nil
			})
		},
	}
	storeFlags(cmd.Flags(), &o)
	return cmd
}

// answer is what ping says of reading or writing; before is why it wasn't tried.
func answer(can bool, took time.Duration, err, before error) string {
	switch {
	case !can:
		return "not allowed by the mode"
	case err != nil:
		return fmt.Sprintf("FAILED: %v", err)
	case before != nil:
		return "not tried"
	}
	return fmt.Sprintf("ok, %.1f ms", took.Seconds()*1000)
}

func storeStat() *cobra.Command {
	var runs string
	cmd := &cobra.Command{
		Use:   "stat [DIR]",
		Short: "Print the number and size of entries and blobs, and how often results were found",
		Long: `Print the number and size of entries and blobs, and how often results were found.

What was found is counted over the runs of "tasting test" with this store that are written
down on this machine ("tasting report" draws them), those of runners aren't.

` + defaultStore,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := storeOf(cmd, args)
			if err != nil {
				return err
			}
			s, err := d.Stat(cmd.Context())
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "store %s\nentries %d\nblobs %d\nunfinished %d\nbytes %d (%s)\n", d.Dir(), s.Entries, s.Blobs, s.Temporary, s.Bytes, inUnits(s.Bytes))
			if s.Entries > 0 {
				fmt.Fprintf(out, "least recently used %s\nmost recently used %s\n", s.Oldest.UTC().Format(time.RFC3339), s.Newest.UTC().Format(time.RFC3339))
			}
			if runs == "" {
				if runs, err = report.DefaultDir(os.Getenv); err != nil {
					return nil // without a home there are no runs
				}
			}
			location, err := filepath.Abs(d.Dir())
			if err != nil {
				return err
			}
			n, lookups, hits := 0, 0, 0
			if _, err := report.ReadRuns(runs, func(r *report.Run) {
				if r.Store.Location == store.Redact(location) {
					n, lookups, hits = n+1, lookups+r.Store.Lookups, hits+r.Store.Hits
				}
			}); err == nil && lookups > 0 {
				fmt.Fprintf(out, "hits %d of %d look-ups (%.1f %%), runs %d\n", hits, lookups, 100*float64(hits)/float64(lookups), n)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&runs, "runs", "", "`DIR` with runs (default: where tasting test writes them)")
	return cmd
}

func storeGC() *cobra.Command {
	var size, age string
	o := store.GCOptions{}
	cmd := &cobra.Command{
		Use:   "gc [--max-size=SIZE] [--max-age=AGE] [DIR]",
		Short: "Remove the least recently used entries, and blobs that no entry needs",
		Long: `Remove the least recently used entries, and blobs that no entry needs.

Tests may run and record meanwhile. Nothing is removed from a directory that
tasting has not created, such as Bazel's --disk_cache.

` + defaultStore,
		Example: `  tasting store gc --max-size=10G --max-age=30d`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.MaxBytes, err = parseSize(size); err != nil {
				return fmt.Errorf("--max-size: %w", err)
			}
			if o.MaxAge, err = parseAge(age); err != nil {
				return fmt.Errorf("--max-age: %w", err)
			}
			if o.Grace < 0 {
				return fmt.Errorf("--grace=%v: want no negative duration", o.Grace)
			}
			d, err := storeOf(cmd, args)
			if err != nil {
				return err
			}
			line := progress.On(cmd.ErrOrStderr())
			d.Progress = func(i, n int) { line.Show("%d of %d files of the store", i, n) }
			r, err := d.GC(cmd.Context(), o)
			line.Clear()
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "removed %d entries, %d blobs, %d bytes\nkept %d entries, %d blobs, %d bytes\n",
				r.RemovedEntries, r.RemovedBlobs, r.RemovedBytes, r.KeptEntries, r.KeptBlobs, r.KeptBytes)
			if o.MaxBytes > 0 && r.KeptBytes > o.MaxBytes {
				fmt.Fprintf(cmd.ErrOrStderr(), "tasting: that is more than --max-size=%s: the rest is in use, or younger than --grace=%v and may belong to a result that is being recorded\n", size, o.Grace)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&size, "max-size", "", "keep at most this many bytes; K, M, G, T stand for powers of 1024 (default: no limit)")
	cmd.Flags().StringVar(&age, "max-age", "", "keep entries that were used within this time, like 30d or 12h (default: no limit)")
	cmd.Flags().DurationVar(&o.Grace, "grace", store.DefaultGrace, "keep blobs that are younger, whether an entry needs them or not: someone may be writing that entry")
	return cmd
}

func storeVerify() *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:   "verify [--delete] [DIR]",
		Short: "Read and hash everything and report what is damaged",
		Long: `Read and hash everything and report what is damaged.

The exit code is 1 if something is. Damage does no harm apart from a miss: no
damaged result is ever replayed.

` + defaultStore,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := storeOf(cmd, args)
			if err != nil {
				return err
			}
			line := progress.On(cmd.ErrOrStderr())
			d.Progress = func(i, n int) { line.Show("%d of %d files of the store", i, n) }
			problems, err := d.Verify(cmd.Context(), remove)
			line.Clear()
			for _, p := range problems {
				removed := ""
				if p.Removed {
					removed = " (removed)"
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %v%s\n", p.Path, p.Err, removed)
			}
			if err != nil {
				return err
			}
			if len(problems) > 0 {
				return exit(exitDifference, nil)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&remove, "delete", false, "remove what is damaged")
	return cmd
}

// inUnits formats a number of bytes in the units that parseSize takes.
func inUnits(n int64) string {
	x, unit := float64(n), 0
	for ; x >= 1024 && unit < 4; unit++ {
		x /= 1024
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %ciB", x, "KMGT"[unit-1])
}

// parseSize parses a number of bytes like 500M; "" is 0.
func parseSize(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	digits := strings.TrimRight(s, "KMGT")
	shift := 0
	if unit := s[len(digits):]; len(unit) == 1 {
		shift = 10 * (1 + strings.Index("KMGT", unit))
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || len(s) > len(digits)+1 || n <= 0 || n<<shift>>shift != n || n<<shift <= 0 {
		return 0, fmt.Errorf("%q: want a number of bytes like 1000000, 500M or 10G", s)
	}
	return n << shift, nil
}

// parseAge parses a duration like 30d or 12h; "" is 0.
func parseAge(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(strings.TrimSuffix(s, "d"), 10, 16); err == nil && strings.HasSuffix(s, "d") && n > 0 {
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q: want a duration like 30d or 12h", s)
	}
	return d, nil
}
