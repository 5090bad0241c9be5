package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// configuration is what "tasting test" would be told without flags.
type configuration struct {
	Files    []string      `json:"files"` // .tastingrc files that were read
	Settings []configValue `json:"settings"`
	Bazel    []configValue `json:"bazel_flags,omitempty"`
	err      error         // of the store
}

type configValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
}

func configCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "config [--json]",
		Short: "Print the settings in force, and where each comes from",
		Long: `Print the settings that "tasting test" has here without flags, and where each comes from: a default,
a line of a .tastingrc, a variable, or a file with flags of the store.`,
		Args: command.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfiguration(cmd.Root())
			if err != nil {
				return err
			}
			err = command.Show(cmd, asJSON, c, func(out io.Writer) {
				w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
				for _, v := range append(c.Settings, c.Bazel...) {
					fmt.Fprintf(w, "%s\t%s\t%s\n", v.Name, v.Value, v.From)
				}
				w.Flush()
			})
			return cmp.Or(err, c.err)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// configuredTest returns "tasting test" with what .tastingrc files say, and where each flag has its value from.
func configuredTest(root *cobra.Command) (t *tester, rc *settings, places map[string]string, err error) {
	if rc, err = readRC(".", root, os.Getenv); err != nil {
		return nil, nil, nil, err
	}
	t = newTest()
	root.AddCommand(t.cmd) // for its name
	defer root.RemoveCommand(t.cmd)
	places, err = rc.apply(t.cmd, t.cmd.Flags())
	return t, rc, places, err
}

func readConfiguration(root *cobra.Command) (*configuration, error) {
	t, rc, places, err := configuredTest(root)
	if err != nil {
		return nil, err
	}
	f := t.cmd.Flags()
	before := map[string]string{}
	f.VisitAll(func(x *pflag.Flag) { before[x.Name] = x.Value.String() })
	if err := t.complete(); err != nil {
		return nil, err
	}
	variables := map[string]string{"store": store.LocationVariable, "store_mode": store.ModeVariable}
	c := &configuration{Files: rc.files, err: t.checkStore()}
	f.VisitAll(func(x *pflag.Flag) {
		v := configValue{x.Name, strings.Trim(x.Value.String(), "[]"), places[x.Name]}
		variable := variables[x.Name]
		switch {
		case x.Hidden || x.Name == "help":
			return
		case v.From != "":
		case variable != "" && os.Getenv(variable) != "":
			v.From = "$" + variable
		case before[x.Name] != x.Value.String() && !t.byDefault[x.Name]:
			v.From = t.flagsFile()
		default:
			v.From = "default"
		}
		c.Settings = append(c.Settings, v)
	})
	for _, x := range rc.list {
		if x.isBazels {
			name, value, _ := strings.Cut(x.word, "=")
			if strings.Contains(name, "header") {
				value = "(hidden)"
			}
			c.Bazel = append(c.Bazel, configValue{name, value, x.place})
		}
	}
	return c, nil
}
