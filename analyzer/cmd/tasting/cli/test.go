package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/driver"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/spf13/cobra"
)

// tester is what "tasting test" is told.
type tester struct {
	driver.Options
	cmd       *cobra.Command
	stores    store.Options
	traces    string
	byDefault map[string]bool // flags that complete has set because nothing else did
}

func testCommand() *cobra.Command { return newTest().cmd }

func newTest() *tester {
	t := &tester{Options: driver.Options{Bazel: &bazel.Bazel{}}}
	t.cmd = &cobra.Command{
		Use:   "test [flags] [flags of bazel test] [--] TARGETS",
		Short: "Run the tests whose outcome isn't known, and replay the others",
		Long: `Run the tests of a Bazel workspace whose outcome isn't known, and replay the others.

It takes the flags of "bazel test", prints what that prints and ends with its exit code. BUILD files
stay as they are; "tasting adopt" adds rules_tasting to MODULE.bazel.

First it computes the keys of all cc_tests among TARGETS. A test whose result is recorded is neither
linked nor run: its log and test.xml are put where Bazel puts them. "bazel test" runs all other
tests, and tasting records their passes.

Flags may stand in ~/.tastingrc and in .tastingrc at the root of the workspace, in lines that begin
with "test" or "common". $TASTINGRC names another file in place of both.

Exit codes: 0 all tests passed, 1 a target can't be built, 2 bad command line, 3 a test failed, 4 no
tests, 8 interrupted.`,
		Example: `  tasting test //...
  tasting test --store=grpcs://cache.example.com -c opt //lib/...
  tasting test --why --test_output=errors //lib:parser_test
  tasting test --dry_run //...`,
		DisableFlagParsing: true, // most flags are Bazel's
	}
	f := t.cmd.Flags()
	storeFlags(f, &t.stores)
	f.Float64Var(&t.Audit, "audit", 0.01, "share of replayed tests, 0 to 1, that are run all the same, to compare")
	f.StringVar(&t.traces, "traces", string(driver.TracesOff), "also use traces, which say what functions a run entered: off, read, or on (read and record)")
	f.BoolVar(&t.Options.Cases, "cases", false, "of tests of GoogleTest, run only the test cases whose outcome isn't known; this assumes that cases don't depend on each other")
	f.StringVar(&t.RunsDir, "runs_dir", "", "`DIR` for a file on each run, for \"tasting report\" (default: tasting/runs in $XDG_STATE_HOME)")
	f.BoolVar(&t.Explain, "why", false, "say why each test runs: what changed since its nearest recorded result")
	f.BoolVar(&t.Explain, "explain", false, "the same as --why; --explain=FILE is Bazel's")
	f.Lookup("explain").Hidden = true
	f.BoolVar(&t.DryRun, "dry_run", false, "print as JSON which tests would run and why; run and record nothing")
	f.StringVar(&t.JUnit, "junit_xml", "", "write the results of all tests to `FILE`, in JUnit's format")
	command.AddBazelFlags(f, &t.Bazel.Program, &t.Bazel.Startup)
	command.AspectFlag(f, &t.Aspect)
	t.cmd.RunE = func(_ *cobra.Command, args []string) error { return t.run(args) }
	return t
}

// gcPercent has the process collect garbage less often than by default: it is short-lived, and most of its memory is in use.
const gcPercent = 400

// run runs the tests that args name.
func (t *tester) run(args []string) (err error) {
	if t.Args, err = command.ParseOwn(t.cmd, args); err != nil {
		return err
	}
	if t.Options.Traces, err = driver.ParseTraces(t.traces); err != nil {
		return err
	}
	if t.Tracer, err = os.Executable(); err != nil {
		return err
	}
	if t.Audit < 0 || t.Audit > 1 {
		return fmt.Errorf("--audit=%v: want a share from 0 to 1", t.Audit)
	}
	named := t.RunsDir != ""
	if err := t.complete(); err != nil {
		return err
	}
	if err := t.checkFlags(); err != nil {
		return err
	}
	if t.DryRun {
		t.stores.Mode = t.stores.Mode.WithoutWriting()
	}
	t.Read, t.Write = t.stores.Mode.CanRead(), t.stores.Mode.CanWrite()
	if t.Read || t.Write {
		closeStores, err := openStores(&t.Options, t.stores)
		if err != nil {
			return err
		}
		defer closeStores()
	}
	t.Stdin, t.Out, t.Err = t.cmd.InOrStdin(), t.cmd.OutOrStdout(), t.cmd.ErrOrStderr()
	if t.Write {
		if err := store.Create(t.stores.Location); err != nil {
			fmt.Fprintf(t.Err, "tasting: warning: the store can't be created: %v; tests run, and nothing is recorded there\n", err)
		}
	}
	debug.SetGCPercent(gcPercent)
	code, err := driver.Test(t.cmd.Context(), &t.Options)
	if err != nil {
		return err
	}
	if code != bazel.ExitInterrupted && !t.DryRun {
		t.tidy(t.cmd.Context(), !named)
	}
	return command.Exit(code, nil)
}

// complete sets what the command line and files leave open.
func (t *tester) complete() error {
	f := t.cmd.Flags()
	if err := completeStore(f, &t.stores); err != nil {
		return err
	}
	t.byDefault = map[string]bool{"store": t.stores.IsDefault, "runs_dir": t.RunsDir == ""}
	if t.RunsDir == "" {
		t.RunsDir, _ = report.DefaultDir(os.Getenv) // without a home there is nothing to report
	}
	if dir, err := os.UserCacheDir(); err == nil {
		t.Bazel.Cache = filepath.Join(dir, "tasting-bazel")
	}
	return nil
}

// flagsFile returns the name of the file with flags of the store.
func (t *tester) flagsFile() string {
	if file, _ := t.cmd.Flags().GetString(storeFlagsFile); file != "" {
		return file
	}
	return os.Getenv(store.FlagsVariable)
}

// checkFlags returns an error for a flag that Bazel doesn't know and that is nearly one of tasting's.
func (t *tester) checkFlags() error {
	for _, a := range t.Args {
		if a == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		if !strings.HasPrefix(a, "--") || strings.ContainsAny(name, "/@:") {
			continue
		}
		near := command.Nearest(t.cmd.Flags(), name)
		if near == "" || slices.ContainsFunc(t.Args, func(a string) bool { return strings.HasPrefix(a, "--flag_alias="+name+"=") }) {
			continue
		}
		known, err := t.Bazel.Flags(t.cmd.Context())
		if err != nil {
			return err
		}
		if known["--"+name] == nil {
			return fmt.Errorf("%sneither tasting nor Bazel knows --%s; did you mean --%s?", t.placeOf(a), name, near)
		}
	}
	return nil
}

// checkStore returns an error if the location of the store is none.
func (t *tester) checkStore() error {
	s, err := store.Open(t.stores.Location, t.stores)
	if err == nil {
		store.Close(s)
	}
	return err
}

// placeOf returns the place of a flag of Bazel in a .tastingrc, as the beginning of a message, or "".
func (t *tester) placeOf(word string) string {
	rc, err := readRC(".", t.cmd.Root(), os.Getenv)
	if err != nil {
		return ""
	}
	for _, x := range rc.list {
		if x.isBazels && x.word == word {
			return x.place + ": "
		}
	}
	return ""
}

// tidy removes files of tasting beyond the limits of their directories. With runs, it removes files of runs, too.
func (t *tester) tidy(ctx context.Context, runs bool) {
	if t.Write {
		for _, r := range store.Tidy(ctx, t.stores) {
			fmt.Fprintf(t.Err, "tasting: removed %d recorded results from %s (limits: %s, %s unused)\n", r.RemovedEntries, r.Dir, &t.stores.MaxSize, &t.stores.MaxAge)
		}
	}
	if runs && t.RunsDir != "" {
		report.Tidy(t.RunsDir)
	}
	t.Bazel.Tidy()
}

// openStores opens the stores of o, and returns a function that closes them.
func openStores(o *driver.Options, options store.Options) (closeAll func(), err error) {
	all, err := store.Open(options.Location, options)
	if err != nil {
		return nil, err
	}
	o.Store, o.LocalStore, o.StoreName = all, all, store.Redact(options.Location)
	if !store.IsRemote(options.Location) {
		return func() { store.Close(all) }, nil
	}
	o.LocalStore = nil
	if name := store.Local(options.Location); name != "" {
		if o.LocalStore, err = store.Open(name, options); err != nil {
			store.Close(all)
			return nil, err
		}
	}
	local := o.LocalStore
	return func() {
		store.Close(local)
		store.Close(all)
	}, nil
}
