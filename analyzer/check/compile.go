package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/ctext"
)

// Level is a way of compiling for comparison.
type Level struct {
	Name string
	// Flags are appended to the command line.
	Flags []string
	// Interprocedural is true if code may depend on the other users of local
	// symbols (see the package's comment).
	Interprocedural bool
	// IR compares LLVM IR instead of objects.
	IR bool
	// Direct compiles the source itself rather than its preprocessed text,
	// which lacks a little: clang's preprocessor collapses spaces, and
	// __builtin_COLUMN tells. The level's -O must be that of the command line.
	Direct bool
}

// Levels returns the levels that make sense for a compiler and its flags:
// -O0; the requested -O (or -O2) as the front end emits it, which only clang
// can show, as code and as IR; and with full or another compiler, all passes.
func Levels(clang bool, flags []string, full bool) []Level {
	// C++ is analysed as it is compiled. At another -O, constructors and
	// destructors have other variants, and an object other symbols.
	inv, err := ctext.ParseArgs(flags)
	cxx := err == nil && inv.Lang == "c++"
	opt := "-O2"
	if cxx {
		opt = "-O0"
	}
	for _, f := range flags {
		if strings.HasPrefix(f, "-O") && (cxx || f != "-O0") {
			opt = f
		}
	}
	var levels []Level
	if !cxx {
		levels = append(levels, Level{Name: "-O0", Flags: []string{"-O0"}})
	}
	if clang {
		noPasses := []string{opt, "-Xclang", "-disable-llvm-passes"}
		levels = append(levels, Level{Name: opt + " without passes", Flags: noPasses},
			Level{Name: "IR", Flags: append(noPasses[:3:3], "-S", "-emit-llvm"), IR: true})
	}
	if full || !clang {
		levels = append(levels, Level{Name: opt, Flags: []string{opt}, Interprocedural: true, Direct: true})
	}
	return levels
}

// ErrCompile says that a source doesn't compile.
var ErrCompile = errors.New("doesn't compile")

// sections are the flags that give every symbol its own section.
var sections = []string{"-ffunction-sections", "-fdata-sections", "-w"}

// Compile compiles argv (program, flags, one source file) at each level and
// reads what is emitted. The source is preprocessed once, with the flags of
// argv, so that the levels compile the same text (-O0 itself changes what
// headers define). Nothing is written but temporary files.
func Compile(ctx context.Context, argv []string, clang bool, levels []Level) ([]*Object, error) {
	tmp, err := os.MkdirTemp("", "tasting-check-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	flags, textFlags, source, err := split(argv)
	if err != nil {
		return nil, err
	}
	text := filepath.Join(tmp, "text.i")
	// The names of preprocessed text and outputs may get into the object, so they
	// are the same each time: relative to the temporary directory.
	run := func(dir string, args ...string) error {
		cmd := exec.CommandContext(ctx, argv[0], args...)
		cmd.Dir = dir
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%s: %w (%v): %s", source, ErrCompile, err, firstLines(out.String(), 5))
		}
		return nil
	}
	if err := run("", join(flags, textFlags, "-w", "-E", "-o", text, source)...); err != nil {
		return nil, err
	}
	preprocessed, err := os.ReadFile(text)
	if err != nil {
		return nil, err
	}
	pragmas := bytes.Contains(preprocessed, []byte("#pragma"))
	lang := "cpp-output"
	if inv, err := ctext.ParseArgs(argv); err != nil {
		return nil, err
	} else if inv.Lang == "c++" {
		lang = "c++-cpp-output"
	}
	in := []string{"-x", lang, filepath.Base(text)}
	if clang {
		// clang preprocesses preprocessed text again; at least not with macros.
		in = append([]string{"-undef", "-Wno-unused-command-line-argument"}, in...)
	}
	objects := make([]*Object, len(levels))
	for i, level := range levels {
		out := filepath.Join(tmp, fmt.Sprint("out", i))
		args := join(flags, sections, "-c", "-o", out)
		from, dir := in, tmp
		if level.Direct {
			from, dir = join(textFlags, nil, source), ""
		}
		err := run(dir, join(join(args, level.Flags), from)...)
		if errors.Is(err, ErrCompile) && !level.Direct && pragmas {
			// clang leaves macros in pragmas as they are: its own preprocessed
			// text may not compile.
			err = run("", join(join(args, level.Flags), join(textFlags, nil, source))...)
		}
		if err != nil {
			return nil, err
		}
		b, err := os.ReadFile(out)
		if err != nil {
			return nil, err
		}
		if level.IR {
			objects[i] = ReadIR(b)
		} else if objects[i], err = ReadObject(b); err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
	}
	return objects, nil
}

// join concatenates lists of arguments and single arguments.
func join(a []string, b []string, rest ...string) []string {
	out := make([]string, 0, len(a)+len(b)+len(rest))
	return append(append(append(out, a...), b...), rest...)
}

func firstLines(s string, n int) string {
	lines := strings.SplitN(strings.TrimSpace(s), "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}

// split sorts the arguments of a compiler: those that matter for code, those
// that matter for text only, and the source. What chooses outputs is left out.
func split(argv []string) (flags, text []string, source string, err error) {
	if len(argv) < 2 {
		return nil, nil, "", errors.New("want a compiler and a source file: COMPILER [flags] FILE.c")
	}
	for i := 1; i < len(argv); i++ {
		a := argv[i]
		value := func() []string {
			if i+1 < len(argv) {
				i++
				return []string{a, argv[i]}
			}
			return []string{a}
		}
		switch {
		case a == "-o" || a == "-MF" || a == "-MT" || a == "-MQ" || a == "-x":
			value()
		case a == "-c" || a == "-S" || a == "-E" || strings.HasPrefix(a, "-M") || strings.HasPrefix(a, "-save-temps") || strings.HasPrefix(a, "-flto") || strings.HasPrefix(a, "-g"):
		case a == "-I" || a == "-isystem" || a == "-iquote" || a == "-idirafter" || a == "-D" || a == "-U" || a == "-include" || a == "-imacros":
			text = append(text, value()...)
		case strings.HasPrefix(a, "-I") || strings.HasPrefix(a, "-D") || strings.HasPrefix(a, "-U") || strings.HasPrefix(a, "-isystem") || strings.HasPrefix(a, "-iquote") || strings.HasPrefix(a, "-Wp,"):
			text = append(text, a)
		case a == "-Xclang" || a == "-mllvm" || a == "-target" || a == "--param" || a == "-arch":
			flags = append(flags, value()...)
		case strings.HasPrefix(a, "-o"):
		case !strings.HasPrefix(a, "-"):
			if source != "" {
				return nil, nil, "", fmt.Errorf("more than one source file (%s, %s): name one", source, a)
			}
			source = a
		default:
			flags = append(flags, a)
		}
	}
	if source == "" {
		return nil, nil, "", errors.New("no source file in the compiler's command line")
	}
	return flags, text, source, nil
}
