package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Args returns a check that a command has min to max arguments; a negative max is no limit. What names the arguments.
func Args(min, max int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case max == 0 && len(args) > 0:
			return fmt.Errorf("%s takes no argument %q%s", cmd.CommandPath(), args[0], seeHelp(cmd))
		case len(args) < min || max >= 0 && len(args) > max:
			return fmt.Errorf("%s: want %s%s", cmd.CommandPath(), what, seeHelp(cmd))
		}
		return nil
	}
}

func seeHelp(cmd *cobra.Command) string { return fmt.Sprintf(" (see %s --help)", cmd.CommandPath()) }

// Normal lets a flag be written with - and with _, which is what help texts have.
func Normal(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	return pflag.NormalizedName(strings.ReplaceAll(name, "-", "_"))
}

// wanted are the values of flags by type: what to say instead of Go's own words.
var wanted = map[string]string{
	"float64": "a number, such as 0.05", "int": "a whole number", "uint64": "a whole number", "duration": "a duration with a unit, such as 5s", "bool": "true or false",
}

// FlagError returns an error about a flag that names the command, too.
func FlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var bad *pflag.InvalidValueError
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1:
		if near := Nearest(cmd.Flags(), unknown.GetSpecifiedName()); near != "" {
			return fmt.Errorf("%s has no flag --%s; did you mean --%s?", cmd.CommandPath(), unknown.GetSpecifiedName(), near)
		}
		return fmt.Errorf("%s has no flag --%s%s", cmd.CommandPath(), unknown.GetSpecifiedName(), seeHelp(cmd))
	case errors.As(err, &bad):
		f := bad.GetFlag()
		want := wanted[f.Value.Type()]
		if f.Name == "audit" {
			want = "a share from 0 to 1"
		} else if f.Name == "attach" {
			want = "the number of a process"
		}
		if want != "" {
			return fmt.Errorf("%s: --%s=%s: want %s", cmd.CommandPath(), f.Name, bad.GetValue(), want)
		}
	}
	return fmt.Errorf("%s: %w", cmd.CommandPath(), err)
}

// Nearest returns the visible flag whose name is nearest to name, or "" if none is near.
func Nearest(f *pflag.FlagSet, name string) string {
	names := &cobra.Command{SuggestionsMinimumDistance: 2} // cobra compares names of commands
	f.VisitAll(func(x *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: x.Name, Hidden: x.Hidden, Run: func(*cobra.Command, []string) {}})
	})
	for _, near := range names.SuggestionsFor(string(Normal(nil, name))) {
		return near
	}
	return ""
}
