// Package component turns one translation unit into components: functions,
// variables and asm blocks, each with a local hash and links.
//
// # What a local hash covers
//
// A local hash (TASTING, section 2.2; cHash) covers everything in a
// component's own definition that can influence the code or data emitted for
// it: the nodes of its syntax tree with their types, operators, values and
// structure; the content of the types that it uses; the declarations, but not
// the definitions, of the functions and variables that it refers to; the
// attributes of its whole redeclaration chain; the pragmas in force; and what
// the unit as a whole contributes (compiler, flags). Locals are numbered, so
// their names don't count, and neither do comments, layout, redundant
// declarations or the order of independent ones.
//
// # Nothing is dropped silently
//
// clang's dump is incomplete. The nodes of the kinds in the allow-list
// complete are known to say everything; as soon as a definition holds any
// other node, or asm, a pragma, a variable array bound or typeof, its token
// text counts as well, and every identifier in the text is resolved by name,
// to functions, variables and types alike. Attribute specifiers always count
// by their text, because the dump lacks most of their arguments, and all of
// those that only gcc knows.
//
// # How far a type goes
//
// Code that only copies a pointer doesn't depend on what it points to. A use
// of a type therefore has a depth: its name, its value (size, layout,
// attributes), or also the value of what it points to. The rule errs towards
// more: only the node kinds in shallow stop at a pointer.
//
// # Identity of local components
//
// The name of a static function doesn't count, but which one is called does.
// A reference to it is therefore identified by its content, and by its name as
// well if another local component of the unit has the same content.
//
// A unit that clang can't parse becomes one component for its whole text: the
// next rung of the ladder of fallbacks.
package component

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/clangast"
	"github.com/rules-tasting/rules_tasting/analyzer/ctext"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// MinClang is the oldest major version of clang whose dumps are understood.
// MaxClang is the newest one that was tested.
const (
	MinClang = 19
	MaxClang = 21
)

// FromDump reads a dump of u's text and returns the manifest. A dump that
// isn't complete is an error, never a manifest.
func FromDump(u *ctext.Unit, dump io.Reader, clang string) (*manifest.Manifest, error) {
	b, err := readDump(u, dump)
	if err != nil {
		return nil, err
	}
	return b.manifest(clang), nil
}

func readDump(u *ctext.Unit, dump io.Reader) (b *builder, err error) {
	b = newBuilder(u)
	defer func() {
		// A dump that contradicts its own format can lead to offsets outside of
		// the text; that makes it invalid, not the program.
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", clangast.ErrDump, r)
		}
	}()
	if err := clangast.Read(dump, b); err != nil {
		return nil, err
	}
	return b, nil
}

// Analyze dumps the syntax tree of u with the program clang and returns the
// manifest. If the tree can't be had (no clang, an unsupported version, a
// parse error, a crash, a broken dump), the manifest is that of the whole
// file, with the reason in its fallbacks; err is only for a cancelled ctx.
func Analyze(ctx context.Context, u *ctext.Unit, clang string) (*manifest.Manifest, error) {
	if u.ImportsModules() {
		m := opaque(u, "", "imports a module, whose content isn't in the text")
		m.Fallbacks[0].Rung = manifest.Rung_RUNG_UNSPECIFIED
		return m, nil
	}
	if u.Lang != "c" {
		var m *manifest.Manifest
		var version string
		var err error
		if u.Clang {
			m, version, err = analyzeIR(ctx, u, clang)
		} else {
			m, err = analyzeObject(ctx, u)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return opaque(u, version, err.Error()), nil
		}
		return m, nil
	}
	b, version, err := runClang(ctx, u, clang)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return opaque(u, version, err.Error()), nil
	}
	return b.manifest(version), nil
}

// dumpArgs are the flags for a dump of preprocessed text on standard input.
// -undef keeps the second preprocessing from expanding predefined macros.
func dumpArgs(u *ctext.Unit) []string {
	return append(slices.Clone(u.DumpFlags),
		"-v", "-undef", "-w", "-fno-crash-diagnostics", "-ferror-limit=1", "-fno-color-diagnostics", "-fno-caret-diagnostics",
		"-fsyntax-only", "-Xclang", "-ast-dump=json", "-x", "cpp-output", "-")
}

var (
	versionLine = regexp.MustCompile(`(?m)^.*clang version (\d+)\..*$`)
	errorLine   = regexp.MustCompile(`(?m)^(?:<stdin>:(\d+):(\d+): |[^\s:][^:\n]*:\d+:\d+: )?(?:fatal )?error: (.*)$`)
)

func runClang(ctx context.Context, u *ctext.Unit, clang string) (b *builder, version string, err error) {
	version, err = clangOutput(ctx, u, clang, dumpArgs(u), func(out io.Reader) (err error) {
		b, err = readDump(u, out)
		return err
	})
	return b, version, err
}

// clangOutput runs clang with u's text as its standard input, gives its standard
// output to read, and returns its version. Its own failure counts more than
// read's.
func clangOutput(ctx context.Context, u *ctext.Unit, clang string, args []string, read func(io.Reader) error) (version string, err error) {
	if clang == "" {
		return "", fmt.Errorf("no clang is configured; install clang %d", MaxClang)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, clang, args...)
	cmd.Stdin = bytes.NewReader(u.Text)
	stderr := &head{max: 1 << 16}
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	widen(out)
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("clang can't be started (%w); install clang %d or name it with --clang", err, MaxClang)
	}
	readErr := read(out)
	if readErr != nil {
		// Let clang finish, for the sake of its own message.
		_, _ = io.Copy(io.Discard, out)
	}
	waitErr := cmd.Wait()
	if m := versionLine.FindStringSubmatch(stderr.String()); m != nil {
		version = strings.TrimSpace(m[0])
		if err := supported(version); err != nil {
			return version, err
		}
	} else if waitErr == nil {
		return "", errors.New("clang doesn't print its version; is it a clang?")
	}
	if waitErr != nil {
		if m := errorLine.FindStringSubmatch(stderr.String()); m != nil {
			return version, fmt.Errorf("clang reported an error%s: %s", errorPlace(u, m[1], m[2]), m[3])
		}
		return version, fmt.Errorf("clang failed: %v", waitErr)
	}
	return version, readErr
}

// supported returns an error unless version, a line with "clang version N.", is
// one whose output is understood.
func supported(version string) error {
	m := versionLine.FindStringSubmatch(version)
	if m == nil {
		return fmt.Errorf("%q is no version of clang", version)
	}
	if major, _ := strconv.Atoi(m[1]); major < MinClang || major > MaxClang {
		return fmt.Errorf("clang %s is not supported, only %d to %d", m[1], MinClang, MaxClang)
	}
	return nil
}

// errorPlace names the file of an error in the normalised text.
func errorPlace(u *ctext.Unit, line, col string) string {
	l, err := strconv.Atoi(line)
	if err != nil {
		return ""
	}
	c, _ := strconv.Atoi(col)
	off := 0
	for ; l > 1; l-- {
		i := bytes.IndexByte(u.Text[off:], '\n')
		if i < 0 {
			return ""
		}
		off += i + 1
	}
	if f := u.FileAt(off + c - 1); f != "" {
		return " in " + f
	}
	return ""
}

// head keeps the beginning of what is written, up to max bytes.
type head struct {
	bytes.Buffer
	max int
}

func (t *head) Write(p []byte) (int, error) {
	if room := t.max - t.Len(); room > 0 {
		t.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
