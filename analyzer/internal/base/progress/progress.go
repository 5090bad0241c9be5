// Package progress shows on a terminal how far long work is, on a line that the next one replaces.
// It shows nothing if the output isn't a terminal.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// A Line is the last line of a terminal. All methods of a nil Line do nothing. They may be
// called from several goroutines.
type Line struct {
	w io.Writer

	mu    sync.Mutex
	shown time.Time
}

// every is how often a Line is shown at most.
const every = 100 * time.Millisecond

// On returns the last line of a terminal, or nil if w is none.
func On(w io.Writer) *Line {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return nil
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return &Line{w: w}
}

// Show replaces the line, unless that was done just now.
func (l *Line) Show(format string, args ...any) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.shown) >= every {
		l.shown = now
		fmt.Fprintf(l.w, "\r\x1b[Ktasting: "+format, args...)
	}
}

// Clear leaves an empty line, if there was one.
func (l *Line) Clear() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.shown.IsZero() {
		fmt.Fprint(l.w, "\r\x1b[K")
		l.shown = time.Time{}
	}
}
