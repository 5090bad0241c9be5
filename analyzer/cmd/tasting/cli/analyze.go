package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/compiler"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/component"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/objfile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/tu"
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
	cmd.Flags().StringVar(clang, "clang", def, "clang that dumps syntax trees (default also: $TASTING_CLANG, or the build's compiler if that is a clang)")
}

// findClangFlag adds --clang for a command that looks for a clang if none is named.
func findClangFlag(cmd *cobra.Command, clang *string) {
	cmd.Flags().StringVar(clang, "clang", os.Getenv("TASTING_CLANG"), fmt.Sprintf("clang %d to %d, which dumps syntax trees (default: $TASTING_CLANG, or the first of clang, clang-%d, ... on PATH that is one)",
		component.MinClang, component.MaxClang, component.MaxClang))
}

func analyzeCommand() *cobra.Command {
	var out, clang, evidence string
	cmd := &cobra.Command{
		Use:   "analyze -o OUT.manifest {FILE.tu | -- COMPILER [flags] FILE}",
		Short: "Write the manifest of one translation unit",
		Long: `Write the manifest of one translation unit: its components with local hashes and links.

Give the command line of the build's compiler behind "--". Plain C that is compiled
by clang is analysed by its syntax tree if there is a clang that can dump it;
anything else is compiled by that very command, and its object file is read.
--evidence=source refuses what isn't plain C, and takes that of other compilers,
too; --evidence=object compiles everything.

Of a normalised unit that 'tasting preprocess' wrote, and that isn't plain C,
the manifest only says so.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return errors.New("analyze: no output named; use -o OUT.manifest")
			}
			ctx := cmd.Context()
			var m *manifest.Manifest
			var err error
			switch {
			case evidence != "auto" && evidence != "source" && evidence != "object":
				err = fmt.Errorf("analyze: --evidence=%s: want auto, source or object", evidence)
			case cmd.ArgsLenAtDash() == 0:
				m, err = analyzeCommandLine(ctx, args, clang, evidence)
			case len(args) != 1:
				err = errors.New("analyze: want one FILE.tu, or a command line behind --")
			case evidence == "object":
				err = fmt.Errorf("analyze: %s is text; --evidence=object needs a command line behind --", args[0])
			default:
				m, err = analyzeUnit(ctx, args[0], clang, evidence)
			}
			if err != nil {
				return err
			}
			return manifest.Write(out, m)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "manifest to write")
	cmd.Flags().StringVar(&evidence, "evidence", "auto", "what the manifest is made from: source (plain C only), object, or auto")
	findClangFlag(cmd, &clang)
	return cmd
}

// analyzeSource returns the manifest of u by its syntax tree, or a NotPlain.
func analyzeSource(ctx context.Context, u *tu.Unit, clang string) (*manifest.Manifest, error) {
	if u.NotPlain == "" {
		var err error
		if clang, err = component.FindClang(ctx, clang); err != nil {
			return nil, err
		}
	}
	return component.Analyze(ctx, u, clang)
}

// analyzeUnit returns the manifest of a normalised unit.
func analyzeUnit(ctx context.Context, name, clang, evidence string) (*manifest.Manifest, error) {
	u, err := tu.ReadUnit(name)
	if err != nil {
		return nil, err
	}
	m, err := analyzeSource(ctx, u, clang)
	var not *component.NotPlain
	if errors.As(err, &not) && evidence == "auto" {
		return manifest.NewNotPlain(u.Source, not.Reason), nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.Source, err)
	}
	return m, nil
}

// analyzeCommandLine returns the manifest of what a compiler's command line
// compiles.
func analyzeCommandLine(ctx context.Context, argv []string, clang, evidence string) (*manifest.Manifest, error) {
	inv, err := compiler.ParseArgs(argv)
	if err != nil {
		return nil, err
	}
	var not *component.NotPlain
	if evidence == "source" || evidence == "auto" && inv.Lang == "c" {
		u, _, err := tu.Preprocess(ctx, argv, tu.Options{AnyCompiler: evidence == "source"})
		if err != nil {
			return nil, err
		}
		m, err := analyzeSource(ctx, u, clang)
		if !errors.As(err, &not) || evidence == "source" {
			if err != nil {
				err = fmt.Errorf("%s: %w", inv.Source, err)
			}
			return m, err
		}
	}
	m, err := compiled(ctx, inv)
	if err == nil && not != nil {
		m.Fallbacks = append(m.Fallbacks, manifest.NotPlainFallback(not.Reason))
	}
	return m, err
}

// compiled returns the manifest of the object file that a command line makes.
func compiled(ctx context.Context, inv *compiler.Invocation) (*manifest.Manifest, error) {
	tmp, err := os.MkdirTemp("", "tasting-object-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	object := filepath.Join(tmp, "object.o")
	argv := inv.CompileTo(object)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %s failed (%w): %s", inv.Source, inv.Compiler, err, strings.TrimSpace(stderr.String()))
	}
	m, err := objfile.Manifest(object, objfile.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", inv.Source, err)
	}
	m.Source = inv.Source
	if filepath.IsAbs(m.Source) { // a manifest holds no absolute path
		m.Source = filepath.Base(m.Source)
	}
	return m, nil
}

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
				opt.Declared = declaredFiles(slices.Concat(listed, declared), system)
			}
			u, read, err := tu.Preprocess(cmd.Context(), args, opt)
			if err != nil {
				return err
			}
			if unused != "" {
				if err := writeUnused(unused, listed, append(read, u.Source)); err != nil {
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

// looksUp reports whether one of the files may depend on others that the
// preprocessor's output doesn't name.
func looksUp(files map[string]bool) bool {
	for f := range files {
		if b, err := os.ReadFile(f); err == nil && lookups.Match(b) {
			return true
		}
	}
	return false
}

var lookups = regexp.MustCompile(`__has_include|embed\b|\.inc`)

// declaredFiles tells whether a compilation may read a file: one of names, or one below a
// directory of the compiler's.
func declaredFiles(names, system []string) func(string) bool {
	is := map[string]bool{}
	for _, n := range names {
		is[filepath.Clean(n)] = true
	}
	return func(name string) bool {
		name = filepath.Clean(name)
		return is[name] || slices.ContainsFunc(system, func(dir string) bool { return strings.HasPrefix(name, filepath.Clean(dir)+"/") })
	}
}

// writeUnused writes those of the listed inputs that weren't read.
func writeUnused(name string, listed, read []string) error {
	used := map[string]bool{}
	for _, r := range read {
		used[filepath.Clean(r)] = true
		if real, err := filepath.EvalSymlinks(r); err == nil {
			used[real] = true
		}
	}
	var unread []string
	own := map[string]bool{filepath.Clean(read[len(read)-1]): true} // of those read, the build's
	for _, line := range listed {
		if used[filepath.Clean(line)] {
			own[line] = true
		} else {
			unread = append(unread, line)
		}
	}
	if len(unread) == 0 || looksUp(own) {
		unread = nil
	}
	var b strings.Builder
	for _, line := range unread {
		b.WriteString(line + "\n")
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
