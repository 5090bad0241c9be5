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

// quiet passes on what Bazel prints while it analyses, without its account of a build that went well: the call that runs tests
// gives one. Messages of compilers stay, because no later call prints them.
type quiet struct {
	out        io.Writer
	isTerminal bool
	line       []byte // begun
}

// account matches a line that is left out, with the movements of a cursor in front of it, which stay; preparing
// matches one that is left out where no cursor moves.
var (
	account   = lazyregexp.New(`^((?:\r|\x1b\[1A|\x1b\[K)*)(?:\x1b\[32m)?INFO: (?:\x1b\[0m)?(?:Analyzed |Found |Elapsed time: |\d+ process(?:es)?|Build completed|Build Event Protocol|Invocation ID: |$)`)
	preparing = lazyregexp.New(`^(?:Computing main repo mapping|Loading|Analyzing|    currently loading): `)
)

func (q *quiet) Write(b []byte) (int, error) {
	for _, part := range bytes.SplitAfter(b, []byte("\n")) {
		q.line = append(q.line, part...)
		if !bytes.HasSuffix(q.line, []byte("\n")) {
			continue
		}
		line := q.line
		q.line = nil
		if m := account.FindSubmatch(line[:len(line)-1]); m != nil {
			line = m[1]
		} else if !q.isTerminal && preparing.Match(line) {
			continue
		}
		if _, err := q.out.Write(line); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// flush ends the output.
func (q *quiet) flush() { q.out.Write(q.line) }

// quietFlags are the flags for a call of Bazel behind a quiet: on a terminal it shows its progress there all the same, elsewhere
// once a minute.
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

// isColored reports whether the summary has colours. --color decides; without it, they are for terminals, unless NO_COLOR is set.
func (inv *invocation) isColored() bool {
	switch v := inv.option("color"); {
	case v == "" || v == "auto":
		return os.Getenv("NO_COLOR") == "" && progress.On(inv.Out) != nil
	default:
		return isTrue(v)
	}
}

// colored returns text in the colour that Bazel has for a status.
func colored(status, text string) string {
	code := "31;1" // failed in one way or other
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
