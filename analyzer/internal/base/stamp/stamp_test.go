package stamp_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/stamp"
)

// Each change of a file, with its old times where a program can set them.
func TestStamp(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(file string) error
		same   bool
	}{
		{"nothing", func(string) error { return nil }, true},
		{"read", func(f string) error { _, err := os.ReadFile(f); return err }, true},
		{"written", func(f string) error { return os.WriteFile(f, []byte("new"), 0o666) }, false},
		{"written and written back", func(f string) error {
			if err := os.WriteFile(f, []byte("new"), 0o666); err != nil {
				return err
			}
			return os.WriteFile(f, []byte("old"), 0o666)
		}, false},
		{"replaced", func(f string) error {
			if err := os.WriteFile(f+"~", []byte("old"), 0o666); err != nil {
				return err
			}
			return os.Rename(f+"~", f)
		}, false},
		{"moved away and back", func(f string) error {
			if err := os.Rename(f, f+"~"); err != nil {
				return err
			}
			return os.Rename(f+"~", f)
		}, false},
		{"executable", func(f string) error { return os.Chmod(f, 0o777) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(file, []byte("old"), 0o666); err != nil {
				t.Fatal(err)
			}
			old := time.Now().Add(-time.Hour)
			if err := os.Chtimes(file, old, old); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond) // a tick of the file system's clock
			before, err := stamp.Of(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.change(file); err != nil {
				t.Fatal(err)
			}
			if !c.same {
				if err := os.Chtimes(file, time.Time{}, old); err != nil {
					t.Fatal(err)
				}
			}
			after, err := stamp.Of(file)
			if err != nil || after.Same(before) != c.same {
				t.Errorf("%+v and %+v (%v)", before, after, err)
			}
		})
	}
}

func TestLinks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	stampOf := func() stamp.Stamp {
		s, err := stamp.Of(file)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if err := os.WriteFile(file, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(file, file+"1"); err != nil {
		t.Skip(err)
	}
	before := stampOf()
	time.Sleep(20 * time.Millisecond)
	if err := os.Link(file, file+"2"); err != nil {
		t.Fatal(err)
	}
	if !stampOf().Same(before) {
		t.Error("another link is a change")
	}
	if err := os.WriteFile(file, []byte("y"), 0o666); err != nil {
		t.Fatal(err)
	}
	if stampOf().Same(before) {
		t.Error("a write is no change")
	}
}

func TestSince(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	now, hour := time.Now(), time.Hour
	if err := os.Chtimes(file, now.Add(-hour), now.Add(-hour)); err != nil {
		t.Fatal(err)
	}
	s, err := stamp.Of(file)
	if err != nil {
		t.Fatal(err)
	}
	// The time that a program has set doesn't hide the change.
	if !s.Since(now) || !s.Since(now.Add(-2*hour)) || s.Since(now.Add(hour)) {
		t.Errorf("%+v, now %v", s, now)
	}
}

func TestMovedAfter(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(dir string) error
		moved  bool
	}{
		{"nothing", func(string) error { return nil }, false},
		{"a file made in it", func(d string) error { return os.WriteFile(filepath.Join(d, "f"), nil, 0o666) }, false},
		{"a file removed from it", func(d string) error { return os.Remove(filepath.Join(d, "old")) }, false},
		{"moved away and back", func(d string) error {
			if err := os.Rename(d, d+"~"); err != nil {
				return err
			}
			return os.Rename(d+"~", d)
		}, true},
	} {
		dir := filepath.Join(t.TempDir(), "dir")
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "old"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		start := time.Now()
		time.Sleep(20 * time.Millisecond)
		if err := c.change(dir); err != nil {
			t.Fatal(err)
		}
		s, err := stamp.Of(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.MovedAfter(start); got != c.moved {
			t.Errorf("%s: moved: %t", c.name, got)
		}
	}
}
