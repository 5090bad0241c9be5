package witness

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/component"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/objfile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/tu"
)

// The names of the evidence, as in the package's comment.
const (
	Shared   = "object"
	Sections = "object with sections"
	Source   = "source"
)

// Version is a translation unit as it was compiled, and its evidence.
type Version struct {
	File string
	// Code is what the compiler emits, and IR, of plain C only, what clang's
	// front end does.
	Code, IR *Object
	Evidence []*Evidence
	// NotPlain is why there is no evidence by source, "" if there is.
	NotPlain string
	Counts

	placed map[string]place // symbols of the shared object
}

// place is where an object has a symbol.
type place struct {
	align uint64
	// bytes are those of a local variable without relocations up to the next symbol,
	// padding included.
	bytes string
}

// Counts say how much there was to tell apart.
type Counts struct {
	// Functions is the number of functions in the object that is built without
	// a section for each, and Sharing that of those that aren't alone in theirs.
	Functions int `json:"functions"`
	Sharing   int `json:"sharing"`
	// Apart are those of Sharing that are a component of their own.
	Apart int `json:"apart"`
}

// Add adds those of another unit.
func (c *Counts) Add(d Counts) {
	c.Functions += d.Functions
	c.Sharing += d.Sharing
	c.Apart += d.Apart
}

// ErrCompile is returned for a source that doesn't compile.
var ErrCompile = errors.New("doesn't compile")

// Compile compiles the source in argv, a compiler's command line, with its own
// flags: as it is, for the evidence, and with a section for everything, for
// comparison. clang dumps the syntax tree of plain C. Nothing is written but
// temporary files.
func Compile(ctx context.Context, argv []string, clang string) (*Version, error) {
	return compileParts(ctx, argv, clang, byObject|bySource|withIR)
}

// parts are what is made of a source beside its code.
type parts int

const (
	byObject parts = 1 << iota // evidence by both objects
	bySource                   // evidence by source, if code isn't optimised
	byTree                     // evidence by source, even if it is
	withIR                     // the IR, if there is evidence by source
)

func compileParts(ctx context.Context, argv []string, clang string, want parts) (*Version, error) {
	tmp, err := os.MkdirTemp("", "tasting-check-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	flags, text, source, err := SplitArgs(argv)
	if err != nil {
		return nil, err
	}
	output := func(more ...string) (file string, b []byte, err error) {
		file = filepath.Join(tmp, fmt.Sprint(len(more), ".o"))
		cmd := exec.CommandContext(ctx, argv[0], slices.Concat(flags, text, more, []string{"-w", "-o", file, source})...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			return "", nil, CompileError(ctx, source, err, out.String())
		}
		b, err = os.ReadFile(file)
		return file, b, err
	}
	v := &Version{File: source}
	file, b, err := output("-c", "-ffunction-sections", "-fdata-sections")
	if err != nil {
		return nil, err
	}
	if v.Code, err = ReadObject(b); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	if want&byObject != 0 {
		apart, err := objectEvidence(Sections, source, file)
		if err != nil {
			return nil, err
		}
		if file, b, err = output("-c"); err != nil {
			return nil, err
		}
		shared, err := objectEvidence(Shared, source, file)
		if err != nil {
			return nil, err
		}
		v.Evidence = append(v.Evidence, shared, apart)
		if err := v.read(b, shared); err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
	}
	if want&(bySource|byTree) == 0 {
		return v, nil
	}
	if want&byTree != 0 {
		argv = slices.DeleteFunc(slices.Clone(argv), func(a string) bool { return strings.HasPrefix(a, "-O") })
	}
	e, err := sourceEvidence(ctx, argv, clang)
	if err != nil {
		var why *component.NotPlain
		if errors.As(err, &why) {
			v.NotPlain = why.Reason
			return v, nil
		}
		return nil, err
	}
	v.Evidence = append(v.Evidence, e)
	if want&withIR != 0 {
		if _, b, err = output("-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes"); err != nil {
			return nil, err
		}
		v.IR = ReadIR(b)
	}
	return v, nil
}

// FromObject returns the version of a unit whose object, with a section for everything, and manifest
// somebody else has made.
func FromObject(source string, object, encoded []byte) (*Version, error) {
	code, err := ReadObject(object)
	if err != nil {
		return nil, err
	}
	m, err := manifest.Unmarshal(encoded)
	if err != nil {
		return nil, err
	}
	e, err := newEvidence(Sections, m)
	if err != nil {
		return nil, err
	}
	return &Version{File: source, Code: code, Evidence: []*Evidence{e}}, nil
}

// CompileError tells a source that doesn't compile from a compiler that can't.
func CompileError(ctx context.Context, source string, err error, out string) error {
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.As(err, &exit) || !exit.Exited(), strings.Contains(out, "No space left on device"), strings.Contains(out, "(program cc1"):
		return fmt.Errorf("%s: the compiler failed: %w: %s", source, err, firstLines(out, 5))
	}
	return fmt.Errorf("%s: %w (%v): %s", source, ErrCompile, err, firstLines(out, 5))
}

func objectEvidence(name, source, file string) (*Evidence, error) {
	m, err := objfile.Manifest(file, objfile.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	m.Source = filepath.ToSlash(source)
	return newEvidence(name, m)
}

func sourceEvidence(ctx context.Context, argv []string, clang string) (*Evidence, error) {
	u, _, err := tu.Preprocess(ctx, argv, tu.Options{})
	if err != nil {
		return nil, err
	}
	m, err := component.Analyze(ctx, u, clang)
	if err != nil {
		return nil, err
	}
	return newEvidence(Source, m)
}

// read counts the functions in the object without sections, and looks where it
// places its symbols.
func (v *Version) read(b []byte, e *Evidence) error {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return err
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return err
	}
	v.placed = map[string]place{}
	starts := map[elf.SectionIndex][]uint64{}
	for _, s := range symbols {
		starts[s.Section] = append(starts[s.Section], s.Value)
	}
	for _, l := range starts {
		slices.Sort(l)
	}
	contents := map[elf.SectionIndex][]byte{} // of sections without relocations
	for i, s := range f.Sections {
		if s.Type == elf.SHT_PROGBITS && s.Flags&elf.SHF_ALLOC != 0 {
			if contents[elf.SectionIndex(i)], err = s.Data(); err != nil {
				return err
			}
		}
	}
	for _, s := range f.Sections {
		if s.Type == elf.SHT_RELA || s.Type == elf.SHT_REL {
			delete(contents, elf.SectionIndex(s.Info))
		}
	}
	places := map[elf.SectionIndex]map[uint64][]string{}
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF || int(s.Section) >= len(f.Sections) {
			continue
		}
		align := f.Sections[s.Section].Addralign
		if s.Value != 0 {
			align = min(align, s.Value&-s.Value)
		}
		at := place{align: align}
		if b := contents[s.Section]; bindOf(s) == elf.STB_LOCAL && typeOf(s) == elf.STT_OBJECT && s.Value < uint64(len(b)) {
			end := uint64(len(b))
			l := starts[s.Section]
			if i, _ := slices.BinarySearch(l, s.Value+1); i < len(l) {
				end = min(end, l[i])
			}
			at.bytes = string(b[s.Value:end])
		}
		v.placed[s.Name] = at
		if typeOf(s) == elf.STT_FUNC {
			if places[s.Section] == nil {
				places[s.Section] = map[uint64][]string{}
			}
			places[s.Section][s.Value] = append(places[s.Section][s.Value], s.Name)
		}
	}
	for _, functions := range places {
		v.Functions += len(functions)
		if len(functions) < 2 {
			continue
		}
		v.Sharing += len(functions)
		for _, names := range functions {
			if slices.ContainsFunc(names, func(n string) bool { return len(e.labels[n]) > 0 }) {
				v.Apart++
			}
		}
	}
	return nil
}

func firstLines(s string, n int) string {
	lines := strings.SplitN(strings.TrimSpace(s), "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}

// SplitArgs sorts the arguments of a compiler: those that matter for code, those
// that matter for text only, and the source. What chooses outputs or sections is
// left out.
func SplitArgs(argv []string) (flags, text []string, source string, err error) {
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
		case a == "-c" || a == "-S" || a == "-E" || strings.HasPrefix(a, "-M") || strings.HasPrefix(a, "-save-temps") || strings.HasPrefix(a, "-flto") || strings.HasPrefix(a, "-g"),
			a == "-ffunction-sections" || a == "-fdata-sections":
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
