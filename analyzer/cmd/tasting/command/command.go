// Package command has what the commands of tasting share: exit codes, flags of more than one command, and how arguments are
// checked.
package command

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/component"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/driver"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes are stable: scripts depend on them.
const (
	OK         = 0
	Difference = 1 // a difference was found
	Usage      = 2 // bad usage or bad input
	Internal   = 3 // internal error
)

// Error carries the exit code of a command.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Exit wraps err, which may be nil, so that the program ends with code.
func Exit(code int, err error) error { return &Error{code, err} }

// AddBazelFlags adds the flags of a command that starts Bazel.
func AddBazelFlags(f *pflag.FlagSet, program *string, startup *[]string) {
	f.StringVar(program, "bazel", "bazel", "`PATH` of Bazel")
	f.StringArrayVar(startup, "bazel_startup", nil, "a startup `OPTION` for Bazel (repeatable)")
}

// AspectFlag adds --aspect.
func AspectFlag(f *pflag.FlagSet, aspect *string) {
	f.StringVar(aspect, "aspect", driver.Aspect, "`LABEL` of the aspect")
}

// ClangFlag adds --clang.
func ClangFlag(cmd *cobra.Command, clang *string) {
	def := os.Getenv("TASTING_CLANG")
	if def == "" {
		def = "clang"
	}
	cmd.Flags().StringVar(clang, "clang", def, "clang that dumps syntax trees (or $TASTING_CLANG, or the compiler that is checked)")
}

// FindClangFlag adds --clang for a command that searches for a clang if none is named.
func FindClangFlag(cmd *cobra.Command, clang *string) {
	cmd.Flags().StringVar(clang, "clang", os.Getenv("TASTING_CLANG"), fmt.Sprintf("clang %d to %d (default: $TASTING_CLANG, or the first on PATH)",
		component.MinClang, component.MaxClang))
}

// homonym is a boolean flag of ours that Bazel has as well: with a value, it is Bazel's.
const homonym = "explain"

// IsOwn reports whether x, found for an argument of a command whose other flags are Bazel's, is our flag. Assigned is set if the
// argument has a value.
func IsOwn(x *pflag.Flag, assigned bool) bool {
	return x != nil && !(x.Name == homonym && x.Value.Type() == "bool" && assigned)
}

// ParseOwn parses those of args that are flags of cmd, which has DisableFlagParsing, and returns the others: Bazel's.
func ParseOwn(cmd *cobra.Command, args []string) (rest []string, err error) {
	own, rest := SplitOwn(cmd.Flags(), args)
	if err := cmd.Flags().Parse(own); err != nil {
		return nil, FlagError(cmd, err)
	}
	if help, _ := cmd.Flags().GetBool("help"); help {
		return nil, pflag.ErrHelp
	}
	return rest, nil
}

// SplitOwn splits arguments into flags of f with their values, and the rest. Arguments from "--" on are rest.
func SplitOwn(f *pflag.FlagSet, args []string) (own, rest []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return own, append(rest, args[i:]...)
		}
		long, isLong := strings.CutPrefix(a, "--")
		name, _, assigned := strings.Cut(long, "=")
		var x *pflag.Flag
		if isLong {
			x = f.Lookup(name)
		}
		switch {
		case a == "-h":
			own = append(own, a)
		case !IsOwn(x, assigned):
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

// ExpandArgs replaces each @FILE by the lines of FILE. The lines are taken literally: one may start with @.
func ExpandArgs(args []string) ([]string, error) {
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

// Show prints v as JSON, or calls text.
func Show(cmd *cobra.Command, asJSON bool, v any, text func(out io.Writer)) error {
	if asJSON {
		return PrintJSON(cmd.OutOrStdout(), v)
	}
	text(cmd.OutOrStdout())
	return nil
}

// PrintJSON prints v, indented.
func PrintJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// plainPath matches paths that a shell takes as one word.
var plainPath = regexp.MustCompile(`^[\w./+@%=:,-]+$`)

// Tracer returns the path of this program, which Bazel starts tests under.
func Tracer() (string, error) {
	program, err := os.Executable()
	switch {
	case err != nil:
		return "", err
	case !plainPath.MatchString(program):
		return "", fmt.Errorf("--traces: a shell would split %s into words: put tasting at a path without special characters", program)
	}
	return program, nil
}
