package driver

import (
	"bytes"
	"io"
	"os"
	"strconv"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/progress"
	"golang.org/x/sys/unix"
)

// lineWriter passes each line that is written to take, with its end.
type lineWriter struct {
	out   io.Writer
	take  func(line []byte) error
	begun []byte
}

func (w *lineWriter) Write(b []byte) (int, error) {
	for part := range bytes.Lines(b) {
		w.begun = append(w.begun, part...)
		if !bytes.HasSuffix(part, []byte("\n")) {
			break
		}
		line := w.begun
		w.begun = nil
		if err := w.take(line); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// flush ends the output with the line that has begun.
func (w *lineWriter) flush() { w.out.Write(w.begun) }

// buildSummary matches lines of the summary. Its group is the movements of the cursor in front, which stay. Preparation
// matches lines that are left out if the output isn't a terminal.
var (
	buildSummary = lazyregexp.New(`^((?:\r|\x1b\[1A|\x1b\[K)*)(?:\x1b\[32m)?INFO: (?:\x1b\[0m)?(?:Analyzed |Found |Elapsed time: |\d+ process(?:es)?|Build completed|Build Event Protocol|Invocation ID: |$)`)
	preparation  = lazyregexp.New(`^(?:Computing main repo mapping|Loading|Analyzing|    currently loading): |^(?:FAILED: ?$|Use --verbose_failures )`)
)

// quiet passes on Bazel's output during the analysis, without the summary of a successful build, which the call that runs tests
// prints. Messages of compilers stay, because no later call prints them.
func quiet(out io.Writer, isTerminal bool) *lineWriter {
	return &lineWriter{out: out, take: func(line []byte) error {
		if m := buildSummary.FindSubmatch(line[:len(line)-1]); m != nil {
			line = m[1]
		} else if !isTerminal && preparation.Match(line) {
			return nil
		}
		_, err := out.Write(line)
		return err
	}}
}

// quietFlags returns the flags for a call of Bazel whose output goes through quiet. It shows its progress on a
// terminal, and elsewhere once a minute.
func (inv *invocation) quietFlags() (flags []string) {
	if progress.On(inv.Err) == nil {
		return []string{"--show_progress_rate_limit=60"}
	}
	for _, name := range []string{"curses", "color"} {
		if v := inv.option(name); v == "" || v == "auto" {
			flags = append(flags, "--"+name+"=yes")
		}
	}
	if f, ok := inv.Err.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			flags = append(flags, "--terminal_columns="+strconv.Itoa(int(size.Col)))
		}
	}
	return flags
}

// isColored reports whether the summary has colours, by --color, else NO_COLOR, else on a terminal.
func (inv *invocation) isColored() bool {
	if v := inv.option("color"); v != "" && v != "auto" {
		return isTrue(v)
	}
	return os.Getenv("NO_COLOR") == "" && progress.On(inv.Out) != nil
}

// colored returns text in the colour that Bazel has for a status.
func colored(status, text string) string {
	code := "31;1" // of failures
	switch status {
	case "PASSED":
		code = "32"
	case "FLAKY":
		code = "35"
	case "NO STATUS", "SKIPPED":
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
