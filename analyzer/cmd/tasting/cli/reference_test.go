package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "rewrite docs/cli.md")

const referenceFile = "../../../../docs/cli.md"

// reference renders all commands and flags as Markdown, and reports what has
// no description.
func reference() (text string, undocumented []string) {
	var b strings.Builder
	b.WriteString(`# The command line

Written by ` + "`go test ./analyzer/cmd/tasting/cli -run TestReference -update`" + `; don't edit.

Exit codes: 0 fine, 1 a test failed or a difference was found, 2 bad usage or bad input, 3 internal error.
`)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.HasParent() && c.Name() != "help" && c.Name() != "completion" {
			if c.Short == "" {
				undocumented = append(undocumented, c.CommandPath())
			}
			fmt.Fprintf(&b, "\n## %s\n\n%s.\n", c.CommandPath(), c.Short)
			if !c.HasSubCommands() {
				fmt.Fprintf(&b, "\n    %s\n", c.UseLine())
			}
			if c.Long != "" {
				fmt.Fprintf(&b, "\n%s\n", c.Long)
			}
			if c.Example != "" {
				fmt.Fprintf(&b, "\nFor example:\n\n    %s\n", strings.ReplaceAll(strings.TrimSpace(c.Example), "\n  ", "\n    "))
			}
			if c.LocalFlags().HasAvailableFlags() {
				b.WriteString("\n| flag | default | meaning |\n|---|---|---|\n")
			}
			c.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if f.Name == "help" {
					return
				}
				if f.Usage == "" {
					undocumented = append(undocumented, c.CommandPath()+" --"+f.Name)
				}
				name := "`--" + f.Name + "`"
				if f.Shorthand != "" {
					name += ", `-" + f.Shorthand + "`"
				}
				def := f.DefValue
				if def != "" && def != "[]" {
					def = "`" + def + "`"
				} else {
					def = ""
				}
				fmt.Fprintf(&b, "| %s | %s | %s |\n", name, def, strings.ReplaceAll(f.Usage, "|", `\|`))
			})
		}
		for _, sub := range c.Commands() {
			if c.Name() != "completion" { // cobra's
				walk(sub)
			}
		}
	}
	walk(Root())
	return b.String(), undocumented
}

// Every command and flag is documented, and the documentation is current.
func TestReference(t *testing.T) {
	t.Setenv("TASTING_CLANG", "")
	got, undocumented := reference()
	for _, u := range undocumented {
		t.Errorf("%s has no description", u)
	}
	if *update {
		if err := os.WriteFile(referenceFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("docs/cli.md is out of date; go test ./analyzer/cmd/tasting/cli -run TestReference -update\n%s", d)
	}
}
