package wholefile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	for _, content := range []string{"old", "new", ""} {
		if err := wholefile.Write(file, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil || string(b) != content {
			t.Errorf("%q, %v; want %q", b, err, content)
		}
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%v, %v; want permissions 640", info.Mode(), err)
		}
	}
}

// Where a file can't be put, what was there stays, and nothing is left over.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.MkdirAll(filepath.Join(file, "inside"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := wholefile.Write(file, []byte("new"), 0o666); err == nil {
		t.Error("a directory was replaced")
	}
	if err := wholefile.Write(filepath.Join(dir, "none", "file"), nil, 0o666); err == nil {
		t.Error("a file was written into no directory")
	}
	l, err := os.ReadDir(dir)
	if err != nil || len(l) != 1 || !l[0].IsDir() {
		t.Errorf("%v, %v are left", l, err)
	}
}

func TestSealed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"", "text", "two\nlines\n"} {
		if err := wholefile.WriteSealed(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := wholefile.ReadSealed(file); err != nil || string(b) != content {
			t.Errorf("%q, %v; want %q", b, err, content)
		}
	}
	sealed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range sealed {
		for name, damaged := range map[string][]byte{"cut": sealed[:i], "another byte": append(append(append([]byte{}, sealed[:i]...), sealed[i]^1), sealed[i+1:]...)} {
			if err := os.WriteFile(file, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			if b, err := wholefile.ReadSealed(file); !errors.Is(err, wholefile.ErrDamaged) {
				t.Errorf("%s at %d: %q, %v", name, i, b, err)
			}
		}
	}
}
