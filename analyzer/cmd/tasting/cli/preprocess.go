package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/tu"
	"github.com/spf13/cobra"
)

func preprocessCommand() *cobra.Command {
	var out, unused, inputs, clang, evidence string
	var variants, declared, system []string
	cmd := &cobra.Command{
		Use:   "preprocess -o OUT.tu -- COMPILER [flags] FILE.c",
		Short: "Write a normalised translation unit",
		Long: `Run the build's preprocessor and write a normalised translation unit: tokens without comments and
layout, and the flags that affect generated code.`,
		Args: command.Args(1, -1, "a command line behind --"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return errors.New("preprocess: no output named; use -o OUT.tu")
			}
			if cmd.ArgsLenAtDash() != 0 {
				return errors.New("preprocess: put the compiler's command line behind --")
			}
			if evidence != "auto" && evidence != "source" {
				return fmt.Errorf("preprocess: --evidence=%s: want auto or source", evidence)
			}
			opt := tu.Options{AnyCompiler: evidence == "source"}
			for _, v := range variants {
				b, err := os.ReadFile(v)
				if err != nil {
					return err
				}
				opt.Variants = append(opt.Variants, words.Split(string(b)))
			}
			var listed []string
			if inputs != "" {
				b, err := os.ReadFile(inputs)
				if err != nil {
					return err
				}
				listed = strings.FieldsFunc(string(b), func(c rune) bool { return c == '\n' || c == '\r' })
			}
			if cmd.Flags().Changed("declared") {
				opt.Declared = tu.DeclaredFiles(slices.Concat(listed, declared), system)
			}
			u, read, err := tu.Preprocess(cmd.Context(), args, opt)
			if err != nil {
				return err
			}
			if unused != "" {
				if err := tu.WriteUnused(unused, listed, append(read, u.Source)); err != nil {
					return err
				}
			}
			b, err := u.Encode()
			if err != nil {
				return command.Exit(command.Internal, err)
			}
			return os.WriteFile(out, b, 0o644)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "`FILE` to write (required)")
	cmd.Flags().StringVar(&unused, "unused-inputs", "", "`FILE` for those of --inputs that weren't read")
	cmd.Flags().StringVar(&inputs, "inputs", "", "`FILE` that lists headers that a plain unit may read")
	cmd.Flags().StringArrayVar(&declared, "declared", nil, "a `FILE` that a plain unit may read (repeatable)")
	cmd.Flags().StringArrayVar(&system, "system-include", nil, "`DIR` of headers that a plain unit may read (repeatable)")
	// Accepted here as well, so that build systems can pass the same flags to
	// both steps.
	command.FindClangFlag(cmd, &clang)
	cmd.Flags().StringVar(&evidence, "evidence", "auto", "auto; source: take gcc's plain C, too")
	cmd.Flags().StringArrayVar(&variants, "variant", nil, "`FILE` with another command line for the source (repeatable)")
	return cmd
}
