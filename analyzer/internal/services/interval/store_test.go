package interval

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
)

func TestStore(t *testing.T) {
	s := store.OpenDisk(filepath.Join(t.TempDir(), "store"))
	dir := t.TempDir()
	if err := Load(t.Context(), s, "kv", t.TempDir()); !store.IsMiss(err) {
		t.Errorf("of what isn't there: %v", err)
	}
	if err := Write(dir, &trace.Interval{Name: "//a:b c", Result: &trace.Result{Trace: &trace.Trace{Files: []trace.File{}}, Idle: map[string]bool{"f": true}}}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{ProgramFile: "program", "other": "text"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := Save(t.Context(), s, "kv", dir); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := Load(t.Context(), s, "kv", to); err != nil {
		t.Fatal(err)
	}
	list, err := Read(to)
	if err != nil || len(list) != 1 || list[0].Name != "//a:b c" || !list[0].Idle["f"] {
		t.Errorf("%v, %v", list, err)
	}
	if b, err := os.ReadFile(filepath.Join(to, ProgramFile)); err != nil || string(b) != "program" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(to, "other")); err == nil {
		t.Error("a file is there that isn't the table's")
	}
	if err := Load(t.Context(), s, "other", t.TempDir()); !store.IsMiss(err) {
		t.Errorf("of another service: %v", err)
	}

	// What is damaged is said to be.
	r, err := s.Get(t.Context(), keyOf("kv"))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(r.Log)
	r.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{[]byte("text"), whole[:len(whole)-20]} {
		if err := s.Set(t.Context(), keyOf("kv"), &store.Result{Log: store.Content(b)}); err != nil {
			t.Fatal(err)
		}
		if err := Load(t.Context(), s, "kv", t.TempDir()); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%d of %d bytes: %v", len(b), len(whole), err)
		}
	}
	for name, want := range map[string]bool{"a.trace": true, "a.idle": true, ProgramFile: true, "a": false, "../a.trace": false, "b/a.trace": false, "..": false, strings.Repeat("/", 2) + "a.idle": false} {
		if ofTable(name) != want {
			t.Errorf("%s is a file of a table: %t", name, !want)
		}
	}
}

// Of a list of stores, the newest table is loaded, whichever has it and whichever can't be asked.
func TestListOfStores(t *testing.T) {
	dirs := []string{filepath.Join(t.TempDir(), "near"), filepath.Join(t.TempDir(), "far")}
	list, err := store.Open(dirs[0]+",/proc/tasting,"+dirs[1], store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	save := func(s store.Store, text string) error {
		t.Helper()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, ProgramFile), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return Save(t.Context(), s, "kv", dir)
	}
	want := func(text string) {
		t.Helper()
		to := t.TempDir()
		if err := Load(t.Context(), list, "kv", to); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(to, ProgramFile)); err != nil || string(b) != text {
			t.Errorf("%q, %v, want %q", b, err, text)
		}
	}
	if err := save(list, "old"); !errors.Is(err, store.ErrPartly) {
		t.Errorf("%v", err)
	}
	want("old")
	// Somebody else has saved a newer one, further away.
	if err := save(store.OpenDisk(dirs[1]), "new"); err != nil {
		t.Fatal(err)
	}
	newer, err := store.OpenDisk(dirs[1]).Get(t.Context(), keyOf("kv"))
	if err != nil {
		t.Fatal(err)
	}
	defer newer.Close()
	newer.End = newer.End.Add(time.Minute) // on a clock that goes on
	if err := store.OpenDisk(dirs[1]).Set(t.Context(), keyOf("kv"), newer); err != nil {
		t.Fatal(err)
	}
	want("new")
}
