package cli

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/spf13/pflag"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"tasting":     func() { os.Exit(Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) },
		"fingerprint": printProgram,
	})
}

// printProgram prints the fingerprint of the program that is linked from manifests, also of one alone, which tasting inspect dumps.
func printProgram() {
	var roots fingerprint.Roots
	f := pflag.NewFlagSet("fingerprint", pflag.ExitOnError)
	f.StringArrayVar(&roots.Symbols, "root", nil, "")
	f.BoolVar(&roots.Exported, "all_roots", false, "")
	asJSON := f.Bool("json", false, "")
	_ = f.Parse(os.Args[1:])
	r, err := fingerprint.FromFiles(f.Args(), roots)
	if err == nil && *asJSON {
		err = fingerprint.WriteReport(os.Stdout, r)
	} else if err == nil {
		fmt.Println(r.Fingerprint)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// Each file in testdata/script is a session on the command line. Run with
// UPDATE_SCRIPTS=1 to rewrite the expected outputs.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		RequireExplicitExec: true,
	})
}
