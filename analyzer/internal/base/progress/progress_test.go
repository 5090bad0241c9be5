package progress

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	var b bytes.Buffer
	l := &Line{w: &b}
	l.Clear()
	l.Show("%d of %d", 1, 2)
	l.shown = l.shown.Add(time.Hour) // too early, however slow this is
	l.Show("%d of %d", 2, 2)
	l.Clear()
	l.Clear()
	if got, want := b.String(), "\r\x1b[Ktasting: 1 of 2\r\x1b[K"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Logs have no use for it.
func TestOn(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if On(f) != nil || On(new(bytes.Buffer)) != nil {
		t.Error("a file is taken for a terminal")
	}
	var none *Line
	none.Show("x")
	none.Clear()
}
