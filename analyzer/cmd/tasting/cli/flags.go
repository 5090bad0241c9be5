package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/component"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/driver"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// addBazelFlags adds the flags of a command that starts Bazel.
func addBazelFlags(f *pflag.FlagSet, program *string, startup *[]string) {
	f.StringVar(program, "bazel", "bazel", "`PATH` of Bazel")
	f.StringArrayVar(startup, "bazel_startup", nil, "a startup `OPTION` for Bazel (repeatable)")
}

// aspectFlag adds --aspect.
func aspectFlag(f *pflag.FlagSet, aspect *string) {
	f.StringVar(aspect, "aspect", driver.Aspect, "`LABEL` of the aspect")
}

// clangFlag adds --clang.
func clangFlag(cmd *cobra.Command, clang *string) {
	def := os.Getenv("TASTING_CLANG")
	if def == "" {
		def = "clang"
	}
	cmd.Flags().StringVar(clang, "clang", def, "clang that dumps syntax trees (default also: $TASTING_CLANG, or the build's compiler if that is a clang)")
}

// findClangFlag adds --clang for a command that looks for a clang if none is named.
func findClangFlag(cmd *cobra.Command, clang *string) {
	cmd.Flags().StringVar(clang, "clang", os.Getenv("TASTING_CLANG"), fmt.Sprintf("clang %d to %d, which dumps syntax trees (default: $TASTING_CLANG, or the first of clang, clang-%d, ... on PATH that is one)",
		component.MinClang, component.MaxClang, component.MaxClang))
}

// storeFlags adds the flags of a store to f.
func storeFlags(f *pflag.FlagSet, o *store.Options) {
	o.AddFlags(f)
	f.String(storeFlagsFile, "", "`FILE` with flags of the store, one on each line (default: $TASTING_STORE_FLAGS)")
}

const storeFlagsFile = "store_flags"

// completeStore sets the options that f leaves open: from the file of --store_flags and from the environment.
func completeStore(f *pflag.FlagSet, o *store.Options) error {
	return o.Complete(f, func(name string) string {
		if file, _ := f.GetString(storeFlagsFile); name == store.FlagsVariable && file != "" {
			if abs, err := filepath.Abs(file); err == nil {
				return abs
			}
		}
		return os.Getenv(name)
	})
}

// withStore calls f with the store that flags and environment name.
func withStore(cmd *cobra.Command, o *store.Options, f func(store.Store) error) error {
	if err := completeStore(cmd.Flags(), o); err != nil {
		return err
	}
	s, err := store.Open(o.Location, *o)
	if err != nil {
		return err
	}
	defer store.Close(s)
	return f(s)
}

// parseOwn parses those of args that are flags of cmd, which has DisableFlagParsing, and returns the others: Bazel's.
func parseOwn(cmd *cobra.Command, args []string) (rest []string, err error) {
	own, rest := splitOwn(cmd.Flags(), args)
	if err := cmd.Flags().Parse(own); err != nil {
		return nil, err
	}
	if help, _ := cmd.Flags().GetBool("help"); help {
		return nil, pflag.ErrHelp
	}
	return rest, nil
}

// splitOwn splits arguments into those that f knows and the others. Behind "--" all are others.
func splitOwn(f *pflag.FlagSet, args []string) (own, rest []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return own, append(rest, args[i:]...)
		}
		name, _, assigned := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		x := f.Lookup(name)
		switch {
		case a == "-h":
			own = append(own, a)
		case !strings.HasPrefix(a, "--") || x == nil || x.Value.Type() == "bool" && assigned:
			rest = append(rest, a)
		case x.Value.Type() == "bool" || assigned || i+1 == len(args):
			own = append(own, a)
		default:
			own = append(own, a, args[i+1])
			i++
		}
	}
	return own, rest
}

// expandArgs replaces every @FILE by the lines of FILE. Lines are taken as they
// are, so that an argument of a file may start with @.
func expandArgs(args []string) ([]string, error) {
	var out []string
	for _, a := range args {
		file, ok := strings.CutPrefix(a, "@")
		if !ok {
			out = append(out, a)
			continue
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		s := bufio.NewScanner(f)
		s.Buffer(nil, 1<<24)
		for s.Scan() {
			if line := s.Text(); line != "" {
				out = append(out, line)
			}
		}
		f.Close()
		if err := s.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return out, nil
}

// show prints v as JSON, or what text prints.
func show(cmd *cobra.Command, asJSON bool, v any, text func(out io.Writer)) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), v)
	}
	text(cmd.OutOrStdout())
	return nil
}

func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// dumpCommand returns a command that prints what read returns of a file.
func dumpCommand[T any](short, long string, read func(file string) (T, error), asJSON func(io.Writer, T) error, asText func(io.Writer, T)) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "dump FILE",
		Short: short,
		Long:  long,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := read(args[0])
			if err != nil {
				return err
			}
			switch format {
			case "json":
				return asJSON(cmd.OutOrStdout(), v)
			case "text":
				asText(cmd.OutOrStdout(), v)
				return nil
			}
			return fmt.Errorf("--format=%s: want json or text", format)
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "output format: json or text")
	return cmd
}
