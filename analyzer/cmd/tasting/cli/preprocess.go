package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/tu"
	"github.com/spf13/cobra"
)

func preprocessCommand() *cobra.Command {
	var out, unused, inputs, clang, evidence string
	var variants, declared, system []string
	cmd := &cobra.Command{
		Use:   "preprocess -o OUT.tu -- COMPILER [flags] FILE.c",
		Short: "Write the normalised translation unit that a compiler would compile",
		Long: `Run the preprocessor of the build's own compiler and write a normalised
translation unit: tokens without comments and layout, and the flags that decide
about generated code. It stays the same, byte for byte, under edits that can't
matter, so that a build system need not analyse again. Of a unit that isn't
plain C it only says why. C that gcc compiles is plain with --evidence=source only.`,
		Args: cobra.MinimumNArgs(1),
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
				return exit(exitInternal, err)
			}
			return os.WriteFile(out, b, 0o644)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "normalised unit to write")
	cmd.Flags().StringVar(&unused, "unused-inputs", "", "file to write the unused ones of --inputs to, one per line")
	cmd.Flags().StringVar(&inputs, "inputs", "", "file that lists headers which the compilation may read, one per line")
	cmd.Flags().StringArrayVar(&declared, "declared", nil, "another file that the compilation may read, the source among them; then a unit that reads what isn't declared, nor in a directory of --system-include, isn't plain (repeatable)")
	cmd.Flags().StringArrayVar(&system, "system-include", nil, "directory of headers that the compiler has by itself (repeatable)")
	// Accepted here as well, so that build systems can pass the same flags to
	// both steps.
	findClangFlag(cmd, &clang)
	cmd.Flags().StringVar(&evidence, "evidence", "auto", "what is plain C: only what clang compiles (auto), or that of gcc, too (source)")
	cmd.Flags().StringArrayVar(&variants, "variant", nil, "response file with another command line that compiles the same source; may be repeated")
	return cmd
}
