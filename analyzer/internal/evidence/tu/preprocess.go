package tu

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/compiler"
)

// Options are options of Preprocess.
type Options struct {
	// Variants are further command lines that compile the same source.
	Variants [][]string
	// AnyCompiler accepts units of other compilers than clang as plain. They accept other C, and
	// constants have other values.
	AnyCompiler bool
	// Declared, if it isn't nil, reports whether the build lets a compilation read a file, as the
	// preprocessor spells it. A unit that reads another file isn't plain: it is compiled, so that the
	// build refuses it.
	Declared func(name string) bool
}

// NotPlain is the error of a unit that isn't plain C: its evidence is its object file.
type NotPlain struct{ Reason string }

func (e *NotPlain) Error() string { return "not plain C: " + e.Reason }

func notPlain(format string, args ...any) error { return &NotPlain{fmt.Sprintf(format, args...)} }

// PreprocessError is the error of a source that doesn't compile.
type PreprocessError struct {
	Source string
	Err    error
	Stderr string
}

func (e *PreprocessError) Error() string {
	return fmt.Sprintf("%s: preprocessing failed (%v): %s", e.Source, e.Err, strings.TrimSpace(e.Stderr))
}

func (e *PreprocessError) Unwrap() error { return e.Err }

// timeMacros keep macros whose value changes with each run unexpanded, unless the command line or the source defines them.
var timeMacros = []string{"-D__TIME__=__TIME__", "-D__DATE__=__DATE__", "-D__TIMESTAMP__=__TIMESTAMP__"}

// Preprocess runs the preprocessor of argv's compiler with all of argv's flags. It returns the normalised
// unit and the names of all files that were read, as the preprocessor spells them. A unit that isn't plain
// has no text, but the reason.
func Preprocess(ctx context.Context, argv []string, opt Options) (*Unit, []string, error) {
	u, read, err := preprocess(ctx, argv, opt.AnyCompiler)
	if err != nil {
		return nil, nil, err
	}
	for _, other := range opt.Variants {
		v, more, err := preprocess(ctx, other, opt.AnyCompiler)
		if err != nil {
			return nil, nil, err
		}
		read = append(read, more...)
		switch {
		case u.NotPlain != "":
		case v.NotPlain != "":
			u.reject(v.NotPlain)
		case !bytes.Equal(u.Text, v.Text) || !slices.Equal(u.DumpFlags, v.DumpFlags):
			u.reject("it is compiled in several ways, which read different text") // __PIC__, say
		case !slices.Equal(u.Flags, v.Flags):
			u.Variants = append(u.Variants, v.Flags)
		}
	}
	slices.SortFunc(u.Variants, slices.Compare)
	if opt.Declared != nil && u.NotPlain == "" {
		if reason := refusalReason(append([][]string{argv}, opt.Variants...), read, opt.Declared); reason != "" {
			u.reject(reason)
		}
	}
	return u, read, nil
}

// refusalReason returns why the build refuses to compile the unit, or "": a directory on a command line, or a file that was
// read, isn't declared.
func refusalReason(lines [][]string, read []string, declared func(name string) bool) string {
	for _, line := range lines {
		for _, dir := range compiler.IncludeDirs(line) {
			if !filepath.IsLocal(dir) && !declared(filepath.Join(dir, "x")) {
				return "it looks for headers in " + filepath.Base(dir) + ", outside of the build"
			}
		}
	}
	for _, name := range read {
		if !declared(name) && isFile(name) {
			return "it includes " + relative(name) + ", which no dependency declares"
		}
	}
	return ""
}

func preprocess(ctx context.Context, argv []string, anyCompiler bool) (*Unit, []string, error) {
	inv, err := compiler.ParseArgs(argv)
	if err != nil {
		return nil, nil, err
	}
	u := &Unit{Source: relative(inv.Source), Flags: slices.Clone(inv.Code), Files: []string{}, Segments: [][2]int{}}
	doubt := inv.Doubt
	if doubt == "" && inv.Lang != "c" {
		doubt = "it is another language"
	}
	if doubt != "" {
		u.reject(doubt)
		return u, nil, nil
	}
	if file, err := exec.LookPath(inv.Compiler); err == nil && !compiler.IsCompiler(file) {
		u.reject(fmt.Sprintf("compiler %s may be one that runs another, and do more than its preprocessor shows", filepath.Base(inv.Compiler)))
		return u, nil, nil
	}
	// -v makes the same run tell which compiler it is.
	args := append(append(slices.Clone(timeMacros), inv.Args...), "-E", "-w", "-v")
	cmd := exec.CommandContext(ctx, inv.Compiler, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	raw, err := cmd.Output()
	var exited *exec.ExitError
	switch {
	case errors.As(err, &exited):
		return nil, nil, &PreprocessError{inv.Source, err, messages(stderr.String())}
	case err != nil:
		return nil, nil, fmt.Errorf("compiler %s: %w (%v)", inv.Compiler, compiler.ErrNoCompiler, err)
	}
	comp, err := compiler.Identify(inv.Compiler, stderr.String())
	if err != nil {
		return nil, nil, err
	}
	u.Compiler, u.Clang = comp.Identity, comp.Clang
	u.Flags = append(u.Flags, comp.Flags...)
	u.DumpFlags = comp.DumpFlags(inv)
	read := u.normalize(raw, !comp.Clang)
	if doubt := comp.Doubt(); doubt != "" {
		u.reject(doubt)
	} else if err := plainFiles(append([]string{inv.Source}, read...)); err != nil {
		u.reject(err.Error())
	} else if _, err := Scan(u.Text); err != nil {
		u.reject(err.Error())
	} else if !comp.Clang && !anyCompiler {
		u.reject("gcc compiles it, and what is C, and what constants are worth, isn't the same for clang")
	}
	return u, read, nil
}

// reject makes u a unit that isn't plain: only its source and the reason are left.
func (u *Unit) reject(reason string) {
	*u = Unit{Source: u.Source, NotPlain: strings.TrimPrefix(reason, "not plain C: ")}
}

// isFile reports whether a line marker names a file: not <built-in>, <command-line>, the working directory,
// or a name from #line.
func isFile(name string) bool {
	if strings.HasPrefix(name, "<") || strings.HasSuffix(name, "//") {
		return false
	}
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// plainFiles returns an error for a file that hides others from the preprocessor's output: precompiled
// headers, and #embed.
func plainFiles(names []string) error {
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] || !isFile(name) {
			continue
		}
		seen[name] = true
		for _, ext := range []string{".gch", ".pch"} {
			if _, err := os.Lstat(name + ext); err == nil {
				return notPlain("precompiled header beside %s", relative(name))
			}
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if hasEmbed(b) {
			return notPlain("#embed in %s", relative(name))
		}
	}
	return nil
}

var (
	splice = lazyregexp.New(`(\\|\?\?/)[ \t\f\v]*\r?\n`)
	// A directive may stand behind a comment.
	embedding = lazyregexp.New(`(?m)(^[ \t\f\v]*(#|%:|\?\?=)|\*/).*embed\b`)
)

// hasEmbed reports whether a source may have an #embed or __has_embed, in any spelling.
func hasEmbed(b []byte) bool {
	if !bytes.Contains(b, []byte("embed")) && !mayEndInEmbed(b) {
		return false
	}
	return embedding.Match(splice.ReplaceAll(b, nil))
}

// mayEndInEmbed reports whether a spliced line may end inside the word embed.
func mayEndInEmbed(b []byte) bool {
	for i := 0; ; i++ {
		n := bytes.IndexByte(b[i:], '\n')
		if n < 0 || i+n+1 == len(b) {
			return false
		}
		i += n
		if strings.IndexByte("mbed\\?", b[i+1]) < 0 {
			continue
		}
		if line := bytes.TrimRight(b[:i], " \t\f\v\r"); bytes.HasSuffix(line, []byte(`\`)) || bytes.HasSuffix(line, []byte("??/")) {
			return true
		}
	}
}

// messages returns the lines of a compiler's output that report an error, or all lines if there is none.
func messages(stderr string) string {
	errs := slices.DeleteFunc(strings.Split(stderr, "\n"), func(line string) bool { return !strings.Contains(line, "error:") })
	return cmp.Or(strings.Join(errs, "\n"), stderr)
}
