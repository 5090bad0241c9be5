package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/driver"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/spf13/cobra"
)

func testCommand() *cobra.Command {
	o := driver.Options{Bazel: &bazel.Bazel{}}
	var stores store.Options
	var traces string
	cmd := &cobra.Command{
		Use:   "test [flags] [flags of bazel test] [--] TARGETS",
		Short: "Run the tests of a Bazel workspace whose outcome isn't known, and replay the others",
		Long: `Run the tests of a Bazel workspace whose outcome isn't known, and replay the others.

Takes what "bazel test" takes, prints what it prints and ends as it does. BUILD files
stay as they are; MODULE.bazel needs "bazel_dep(name = "rules_tasting")".

The fingerprints of all cc_tests among TARGETS are computed before anything is
linked, and of plain C that clang compiles before that. A test whose result is recorded is
neither linked nor run: its log and test.xml are put where Bazel puts them. All
others, and tests of other rules, are handed to "bazel test". Their clean passes are
recorded.

Flags may stand in ~/.tastingrc and in .tastingrc at the root of the workspace, as in
.bazelrc: on lines that begin with "test" tasting's and Bazel's, and on lines that begin with
"common", such as "common --store=grpcs://cache.example.com", tasting's for this command and
for explain, select, store and report, as far as they have them. Flags of the command line
come last. $TASTINGRC names another file in the place of both.

Startup options of Bazel follow --bazel_startup. A flag of Bazel that has the name of
one of the flags below has to be written with "=": --explain=FILE is Bazel's.

Exit codes are those of "bazel test": 0 all tests passed, 1 something couldn't be
built, 2 a bad command line, 3 a test failed, 4 no tests were found, 8 interrupted.`,
		Example: `  tasting test //...
  tasting test --store=grpcs://cache.example.com -c opt //lib/...
  tasting test --explain --test_output=errors //lib:parser_test`,
		// Most flags are Bazel's.
		DisableFlagParsing: true,
	}
	f := cmd.Flags()
	storeFlags(f, &stores)
	f.Float64Var(&o.Audit, "audit", 0.01, "share of recorded results, 0 to 1, whose tests are run all the same, to compare")
	f.StringVar(&traces, "traces", string(driver.TracesOff), "what tests did execute decides, too: off; read, of what is recorded; on, and tests that are run are traced (docs/traces.md)")
	f.StringVar(&o.RunsDir, "runs_dir", "", "`DIR` where runs are written down for \"tasting report\" (default: tasting/runs in $XDG_STATE_HOME or in ~/.local/state)")
	f.BoolVar(&o.Explain, "explain", false, "tell of each test that is run what changed since its nearest recorded fingerprint (--explain=FILE is Bazel's)")
	f.StringVar(&o.JUnit, "junit_xml", "", "write the results of all tests to `FILE`, in JUnit's format")
	addBazelFlags(f, &o.Bazel.Program, &o.Bazel.Startup)
	aspectFlag(f, &o.Aspect)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if o.Args, err = parseOwn(cmd, args); err != nil {
			return err
		}
		if o.Traces, err = driver.ParseTraces(traces); err != nil {
			return err
		}
		if o.Tracer, err = os.Executable(); err != nil {
			return err
		}
		if o.Audit < 0 || o.Audit > 1 {
			return fmt.Errorf("--audit=%v: want a share from 0 to 1", o.Audit)
		}
		if err := completeStore(f, &stores); err != nil {
			return err
		}
		o.Read, o.Write = stores.Mode.CanRead(), stores.Mode.CanWrite()
		if o.Read || o.Write {
			closeStores, err := openStores(&o, stores)
			if err != nil {
				return err
			}
			defer closeStores()
		}
		if o.RunsDir == "" {
			// Without a home there is nothing to report.
			o.RunsDir, _ = report.DefaultDir(os.Getenv)
		}
		if dir, err := os.UserCacheDir(); err == nil {
			o.Bazel.Cache = filepath.Join(dir, "tasting-bazel")
		}
		o.Stdin, o.Out, o.Err = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
		code, err := driver.Test(cmd.Context(), &o)
		if err != nil {
			return err
		}
		return exit(code, nil)
	}
	return cmd
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
