package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/progress"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/spf13/cobra"
)

// looked is what the commands below "tasting store" are told.
type looked struct{ store.Options }

func storeCommand() *cobra.Command {
	o := &looked{}
	cmd := parent("store", "Look after a store of recorded results", storePing(o), storeStat(o), storeGC(o), storeVerify(o))
	cmd.Long = `Look after a store of recorded results.

LOCATION is a directory, or for ping also a server. Without it, the store in force is meant, which
"tasting config" shows. A directory may be removed at any time: tests run then.`
	storeFlags(cmd.PersistentFlags(), &o.Options)
	return cmd
}

// complete sets what flags leave open, the location by args if they name one.
func (o *looked) complete(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		location := args[0]
		if !store.IsRemote(location) && !strings.ContainsAny(location, ",:") {
			abs, err := filepath.Abs(location)
			if err != nil {
				return err
			}
			location = abs
		}
		if err := cmd.Flags().Set("store", location); err != nil {
			return err
		}
	}
	return completeStore(cmd.Flags(), &o.Options)
}

// disk opens the directory that args name, or the one in force.
func (o *looked) disk(cmd *cobra.Command, args []string) (*store.Disk, error) {
	if err := o.complete(cmd, args); err != nil {
		return nil, err
	}
	if store.IsRemote(o.Location) {
		return nil, fmt.Errorf("%s: %s is for directories; whether the server works, tasting store ping says", store.Redact(o.Location), cmd.CommandPath())
	}
	if strings.Contains(o.Location, ",") {
		return nil, fmt.Errorf("%s: %s is for one directory: name it", o.Location, cmd.CommandPath())
	}
	dir, err := filepath.Abs(o.Location)
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
		return nil, fmt.Errorf("%w; name the directory of a store (see %s --help)", err, cmd.CommandPath())
	}
	return d, nil
}

// counted has d count on a terminal the files that it has gone through, until stop.
func counted(cmd *cobra.Command, d *store.Disk) (stop func()) {
	line := progress.On(cmd.ErrOrStderr())
	d.Progress = func(i, n int) { line.Show("%d of %d files of the store", i, n) }
	return line.Clear
}

// pinged is what ping prints of a location.
type pinged struct {
	Location string   `json:"location"`
	About    []string `json:"about,omitempty"`
	Read     string   `json:"read"`
	Write    string   `json:"write"`
	OK       bool     `json:"ok"`
}

func storePing(o *looked) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ping [LOCATION]",
		Short: "Try whether a store can be read and written, and how fast it answers",
		Long: `Try whether a store can be read and written, and how fast it answers.

If the mode allows it, a small entry is written.

Exit code 1: something that the mode allows doesn't work.`,
		Args: command.Args(0, 1, "one LOCATION at most"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(cmd, args); err != nil {
				return err
			}
			return withStore(cmd, &o.Options, func(s store.Store) error {
				ok, list := true, []pinged{}
				for _, h := range store.Ping(cmd.Context(), s) {
					list = append(list, pinged{h.Location, h.About, answer(h.CanRead, h.Read, h.ReadErr, nil), answer(h.CanWrite, h.Write, h.WriteErr, h.ReadErr), h.OK()})
					ok = ok && h.OK()
				}
				err := command.Show(cmd, asJSON, list, func(out io.Writer) {
					for _, p := range list {
						fmt.Fprintf(out, "store %s\n", p.Location)
						for _, line := range p.About {
							fmt.Fprintf(out, "  %s\n", line)
						}
						fmt.Fprintf(out, "  read: %s\n  write: %s\n", p.Read, p.Write)
					}
				})
				if err == nil && !ok {
					return command.Exit(command.Difference, nil)
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// answer returns how reading or writing went; before is why it wasn't tried.
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

// counts is what stat prints.
type counts struct {
	Store string `json:"store"`
	*store.Stat
	Lookups int `json:"lookups"`
	Hits    int `json:"hits"`
	Runs    int `json:"runs"`
}

func storeStat(o *looked) *cobra.Command {
	var runs string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stat [LOCATION]",
		Short: "Print the number and size of entries and blobs, and how often results were found",
		Long: `Print the number and size of entries and blobs, and how often results were found.

Hits are those of "tasting test" with this store, by the run files of this machine.`,
		Args: command.Args(0, 1, "one LOCATION at most"),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := o.disk(cmd, args)
			if err != nil {
				return err
			}
			s, err := d.Stat(cmd.Context())
			if err != nil {
				return err
			}
			c := &counts{Store: d.Dir(), Stat: s}
			if runs == "" {
				runs, _ = report.DefaultDir(os.Getenv) // without a home there are no runs
			}
			if runs != "" {
				_, _ = report.ReadRuns(runs, func(r *report.Run) {
					if r.Store.Location == store.Redact(c.Store) {
						c.Runs, c.Lookups, c.Hits = c.Runs+1, c.Lookups+r.Store.Lookups, c.Hits+r.Store.Hits
					}
				})
			}
			return command.Show(cmd, asJSON, c, c.print)
		},
	}
	cmd.Flags().StringVar(&runs, "runs", "", "`DIR` with runs (default: where tasting test writes them)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func (c *counts) print(out io.Writer) {
	fmt.Fprintf(out, "store %s\nentries %d\nblobs %d\nunfinished %d\nbytes %d (%s)\n", c.Store, c.Entries, c.Blobs, c.Temporary, c.Bytes, inUnits(c.Bytes))
	if c.Entries > 0 {
		fmt.Fprintf(out, "least recently used %s\nmost recently used %s\n", c.Oldest.Format(time.RFC3339), c.Newest.Format(time.RFC3339))
	}
	if c.Lookups > 0 {
		fmt.Fprintf(out, "hits %d of %d look-ups (%.1f %%), runs %d\n", c.Hits, c.Lookups, 100*float64(c.Hits)/float64(c.Lookups), c.Runs)
	}
}

func storeGC(o *looked) *cobra.Command {
	var size store.Size
	var age store.Age
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "gc [--max_size=SIZE] [--max_age=AGE] [LOCATION]",
		Short: "Remove the least recently used results, and contents that no result needs",
		Long: `Remove the least recently used results, and contents that no result needs.

Tests may run and record meanwhile. Nothing is removed from a directory that tasting hasn't created,
such as Bazel's --disk_cache.`,
		Example: `  tasting store gc --max_size=10G --max_age=30d`,
		Args:    command.Args(0, 1, "one LOCATION at most"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if grace < 0 {
				return fmt.Errorf("--grace=%v: want no negative duration", grace)
			}
			d, err := o.disk(cmd, args)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("max_size") {
				size = o.MaxSize
			}
			if !cmd.Flags().Changed("max_age") {
				age = o.MaxAge
			}
			stop := counted(cmd, d)
			r, err := d.GC(cmd.Context(), store.GCOptions{MaxBytes: int64(size), MaxAge: time.Duration(age), Grace: grace})
			stop()
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "removed %d entries, %d blobs, %d bytes\nkept %d entries, %d blobs, %d bytes\n",
				r.RemovedEntries, r.RemovedBlobs, r.RemovedBytes, r.KeptEntries, r.KeptBlobs, r.KeptBytes)
			if size > 0 && r.KeptBytes > int64(size) {
				fmt.Fprintf(cmd.ErrOrStderr(), "tasting: that is more than --max_size=%s: the rest is in use, or younger than --grace=%v and may belong to a result that is being recorded\n", &size, grace)
			}
			return nil
		},
	}
	cmd.Flags().Var(&size, "max_size", "keep at most this `SIZE`, such as 500M or 10G; 0: no limit (default: --store_max_size)")
	cmd.Flags().Var(&age, "max_age", "keep results that were used within this `AGE`, such as 30d or 12h; 0: no limit (default: --store_max_age)")
	cmd.Flags().DurationVar(&grace, "grace", store.DefaultGrace, "keep younger contents even if no result needs them")
	return cmd
}

func storeVerify(o *looked) *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:   "verify [--delete] [LOCATION]",
		Short: "Read and hash everything, and report what is damaged",
		Long: `Read and hash everything, and report what is damaged.

A damaged result is never replayed: its test runs. Exit code 1: something is damaged.`,
		Args: command.Args(0, 1, "one LOCATION at most"),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := o.disk(cmd, args)
			if err != nil {
				return err
			}
			stop := counted(cmd, d)
			problems, err := d.Verify(cmd.Context(), remove)
			stop()
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
				return command.Exit(command.Difference, nil)
			}
			s, err := d.Stat(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "verified %d entries, %d blobs\n", s.Entries, s.Blobs)
			return err
		},
	}
	cmd.Flags().BoolVar(&remove, "delete", false, "remove what is damaged")
	return cmd
}

// inUnits formats a number of bytes in the units that sizes have.
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
