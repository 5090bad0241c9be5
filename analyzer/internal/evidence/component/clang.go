package component

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/tu"
)

// MinClang and MaxClang are the oldest and the newest major version of clang whose dumps are understood.
const (
	MinClang = 19
	MaxClang = 21
)

// FindClang returns named or, if that is empty, the first clang of the usual names on PATH that is supported.
// If there is none, the error is a NotPlain.
func FindClang(ctx context.Context, named string) (string, error) {
	names := []string{named}
	if named == "" {
		names = []string{"clang"}
		for v := MaxClang; v >= MinClang; v-- {
			names = append(names, "clang-"+strconv.Itoa(v))
		}
	}
	var first error
	for _, n := range names {
		out, err := exec.CommandContext(ctx, n, "--version").Output()
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err == nil {
			err = checkVersion(string(out))
		} else {
			err = fmt.Errorf("no clang that starts (%v)", err)
		}
		if err == nil {
			return n, nil
		}
		if first == nil || errors.Is(first, exec.ErrNotFound) {
			first = err
		}
	}
	return "", notPlain(fmt.Sprintf("%v; install clang %d or name it with --clang", first, MaxClang))
}

// refusalFlags make clang refuse code that gcc or its linker refuses: a test must not be replayed if it doesn't build, even if
// it doesn't reach such code. See code-refused/pointer-types.
var refusalFlags = strings.Fields(`-Werror=incompatible-pointer-types -Werror=pointer-type-mismatch -Werror=conditional-type-mismatch -Werror=gnu-folding-constant
	-Werror=gnu-compound-literal-initializer -Werror=many-braces-around-scalar-init -Werror=undefined-internal`)

// dumpArgs returns the flags for a dump of preprocessed text from standard input. -undef keeps clang from
// expanding predefined macros. Warnings stay on, because some are errors.
func dumpArgs(u *tu.Unit) []string {
	return append(append(slices.Clone(u.DumpFlags), refusalFlags...),
		"-v", "-undef", "-fno-crash-diagnostics", "-ferror-limit=1", "-fno-color-diagnostics", "-fno-caret-diagnostics",
		"-fsyntax-only", "-Xclang", "-ast-dump=json", "-x", "cpp-output", "-")
}

var (
	versionLine = lazyregexp.New(`(?m)^.*clang version (\d+)\..*$`)
	errorLine   = lazyregexp.New(`(?m)^(?:<stdin>:(\d+):(\d+): |[^\s:][^:\n]*:\d+:\d+: )?(?:fatal )?error: (.*)$`)
)

// runClang has clang dump the tree of u's text, and reads it. clang's own failure precedes the reader's, unless
// that is a NotPlain.
func runClang(ctx context.Context, u *tu.Unit, clang string) (b *builder, version string, err error) {
	if clang == "" {
		return nil, "", fmt.Errorf("no clang is configured; install clang %d", MaxClang)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, clang, dumpArgs(u)...)
	cmd.Stdin = bytes.NewReader(u.Text)
	stderr := &head{max: 1 << 16}
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", fmt.Errorf("clang can't be started (%w); install clang %d or name it with --clang", err, MaxClang)
	}
	b, readErr := readDump(u, out)
	var plain *NotPlain
	if errors.As(readErr, &plain) {
		cancel()
		_ = cmd.Wait()
		return nil, "", readErr
	}
	if readErr != nil {
		// Let clang finish, for the sake of its own message.
		_, _ = io.Copy(io.Discard, out)
	}
	waitErr := cmd.Wait()
	if m := versionLine.FindStringSubmatch(stderr.String()); m != nil {
		version = strings.TrimSpace(m[0])
		if err := checkVersion(version); err != nil {
			return nil, version, err
		}
	} else if waitErr == nil {
		return nil, "", errors.New("clang doesn't print its version; is it a clang?")
	}
	if waitErr != nil {
		if m := errorLine.FindStringSubmatch(stderr.String()); m != nil {
			return nil, version, fmt.Errorf("clang reported an error%s: %s", errorPlace(u, m[1], m[2]), m[3])
		}
		return nil, version, fmt.Errorf("clang failed: %v", waitErr)
	}
	return b, version, readErr
}

// checkVersion returns an error unless version has a line of a supported clang.
func checkVersion(version string) error {
	m := versionLine.FindStringSubmatch(version)
	if m == nil {
		return fmt.Errorf("%q is no version of clang", version)
	}
	if major, _ := strconv.Atoi(m[1]); major < MinClang || major > MaxClang {
		return fmt.Errorf("clang %s is not supported, only %d to %d", m[1], MinClang, MaxClang)
	}
	return nil
}

// errorPlace returns the file of an error in the normalised text.
func errorPlace(u *tu.Unit, line, col string) string {
	l, err := strconv.Atoi(line)
	if err != nil {
		return ""
	}
	c, _ := strconv.Atoi(col)
	lines := bytes.SplitAfterN(u.Text, []byte("\n"), max(l, 1))
	if len(lines) < l {
		return ""
	}
	if f := u.FileAt(len(u.Text) - len(lines[len(lines)-1]) + c - 1); f != "" {
		return " in " + f
	}
	return ""
}

// head keeps the first max bytes that are written.
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
