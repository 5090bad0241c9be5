package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/component"
	"github.com/rules-tasting/rules_tasting/analyzer/ctext"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
	"github.com/spf13/cobra"
)

func init() {
	register(analyzeCommand)
	register(preprocessCommand)
}

// clangFlag adds --clang.
func clangFlag(cmd *cobra.Command, clang *string) {
	def := os.Getenv("TASTING_CLANG")
	if def == "" {
		def = "clang"
	}
	cmd.Flags().StringVar(clang, "clang", def, "clang that dumps syntax trees (default also: $TASTING_CLANG, or the build's compiler if that is a clang); if empty, every unit is analysed as a whole file")
}

func analyzeCommand() *cobra.Command {
	var out, clang string
	cmd := &cobra.Command{
		Use:   "analyze -o OUT.manifest {FILE.tu | -- COMPILER [flags] FILE.c}",
		Short: "Write the manifest of one translation unit",
		Long: `Write the manifest of one translation unit: its components with local hashes and links.

Give the command line of the build's compiler behind "--", or a normalised unit
that 'tasting preprocess' wrote. A unit that clang can't parse gets the manifest
of its whole text, and a message.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return errors.New("analyze: no output named; use -o OUT.manifest")
			}
			ctx := cmd.Context()
			var u *ctext.Unit
			var err error
			if cmd.ArgsLenAtDash() == 0 {
				u, _, err = ctext.Preprocess(ctx, args, ctext.Options{})
				if err == nil && u.Clang && !cmd.Flags().Changed("clang") && clang == "clang" {
					clang = args[0]
				}
			} else if len(args) == 1 {
				u, err = ctext.ReadUnit(args[0])
			} else {
				err = errors.New("analyze: want one FILE.tu, or a command line behind --")
			}
			if err != nil {
				return err
			}
			m, err := component.Analyze(ctx, u, clang)
			if err != nil {
				return err
			}
			for _, f := range m.Fallbacks {
				switch f.Rung {
				case manifest.Rung_RUNG_UNSPECIFIED:
					fmt.Fprintf(cmd.ErrOrStderr(), "tasting: %s: %s; tests that link it always run (see docs/fallbacks.md)\n", u.Source, f.Reason)
				case manifest.Rung_RUNG_FILE:
					fmt.Fprintf(cmd.ErrOrStderr(), "tasting: %s: %s; falls back to a whole-file hash (see docs/fallbacks.md)\n", u.Source, f.Reason)
				}
			}
			return manifest.Write(out, m)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "manifest to write")
	clangFlag(cmd, &clang)
	return cmd
}

func preprocessCommand() *cobra.Command {
	var out, unused, inputs, clang string
	var variants []string
	cmd := &cobra.Command{
		Use:   "preprocess -o OUT.tu -- COMPILER [flags] FILE.c",
		Short: "Write the normalised translation unit that a compiler would compile",
		Long: `Run the preprocessor of the build's own compiler and write a normalised
translation unit: tokens without comments and layout, and the flags that decide
about generated code. It stays the same, byte for byte, under edits that can't
matter, so that a build system need not analyse again.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return errors.New("preprocess: no output named; use -o OUT.tu")
			}
			if cmd.ArgsLenAtDash() != 0 {
				return errors.New("preprocess: put the compiler's command line behind --")
			}
			var opt ctext.Options
			for _, v := range variants {
				b, err := os.ReadFile(v)
				if err != nil {
					return err
				}
				opt.Variants = append(opt.Variants, ctext.SplitResponse(string(b)))
			}
			u, read, err := ctext.Preprocess(cmd.Context(), args, opt)
			if err != nil {
				return err
			}
			for _, v := range opt.Variants {
				more, err := addVariantText(cmd.Context(), u, v)
				if err != nil {
					return err
				}
				read = append(read, more...)
			}
			if unused != "" {
				if err := writeUnused(unused, inputs, read, u.Source); err != nil {
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
	// Accepted here as well, so that build systems can pass the same flags to
	// both steps.
	clangFlag(cmd, &clang)
	cmd.Flags().StringArrayVar(&variants, "variant", nil, "response file with another command line that compiles the same source; may be repeated")
	return cmd
}

// addVariantText has the text of another compilation of u's source count for all
// of u if it isn't the same: macros such as __PIC__ and __PIE__ depend on flags.
// It returns the names of the files that were read.
func addVariantText(ctx context.Context, u *ctext.Unit, argv []string) (read []string, err error) {
	v, read, err := ctext.Preprocess(ctx, argv, ctext.Options{})
	if err != nil {
		return nil, err
	}
	if bytes.Equal(v.Text, u.Text) && slices.Equal(v.Sites, u.Sites) {
		return read, nil
	}
	b, err := v.Encode()
	if err != nil {
		return nil, exit(exitInternal, err)
	}
	u.Flags = append(u.Flags, fmt.Sprintf("variant text:%x", sha256.Sum256(b)))
	return read, nil
}

// embeds says whether a file may include others of which the preprocessor's
// output doesn't tell that they were read.
func embeds(files []string) bool {
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // "<built-in>" and the like
		}
		if includes.Match(b) {
			return true
		}
	}
	return false
}

var includes = regexp.MustCompile(`#\s*embed|\.incbin|\.include`)

// writeUnused writes those of the listed inputs that weren't read.
func writeUnused(name, inputs string, read []string, source string) error {
	used := map[string]bool{source: true}
	for _, r := range read {
		used[filepath.Clean(r)] = true
		if real, err := filepath.EvalSymlinks(r); err == nil {
			used[real] = true
		}
	}
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer out.Close()
	if inputs == "" || embeds(append([]string{source}, read...)) {
		return nil
	}
	f, err := os.Open(inputs)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(out)
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
		if line != "" && !used[filepath.Clean(line)] {
			fmt.Fprintln(w, line)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	return w.Flush()
}
