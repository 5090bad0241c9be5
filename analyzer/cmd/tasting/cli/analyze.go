package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/compiler"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/component"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/objfile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/tu"
	"github.com/spf13/cobra"
)

func analyzeCommand() *cobra.Command {
	var out, clang, evidence string
	cmd := &cobra.Command{
		Use:   "analyze -o OUT.manifest {FILE.tu | -- COMPILER [flags] FILE}",
		Short: "Write the manifest of a translation unit",
		Long:  `Write the manifest of a translation unit: its components with local hashes and references.`,
		Args:  command.Args(1, -1, "a FILE.tu, or a command line behind --"),
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
	cmd.Flags().StringVarP(&out, "output", "o", "", "`FILE` to write (required)")
	cmd.Flags().StringVar(&evidence, "evidence", "auto", "auto: plain C of clang from source, the rest from objects; source: plain C only; object: objects only")
	command.FindClangFlag(cmd, &clang)
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
	if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %s failed (%w): %s", inv.Source, inv.Compiler, err, bytes.TrimSpace(out))
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
