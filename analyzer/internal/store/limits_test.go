package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

func TestLimits(t *testing.T) {
	for text, want := range map[string]string{"10G": "10G", "1024M": "1G", "1000": "1000", "0": "0", "1536K": "1536K", "16384T": "16384T"} {
		var s store.Size
		if err := s.Set(text); err != nil || s.String() != want {
			t.Errorf("size %s: %s, %v", text, &s, err)
		}
	}
	for _, text := range []string{"", "G", "1Q", "1KM", "-1", "99999999999G"} {
		if err := new(store.Size).Set(text); err == nil {
			t.Errorf("size %q: no error", text)
		}
	}
	for text, want := range map[string]string{"30d": "30d", "24h": "1d", "12h": "12h0m0s", "0": "0"} {
		var a store.Age
		if err := a.Set(text); err != nil || a.String() != want {
			t.Errorf("age %s: %s, %v", text, &a, err)
		}
	}
	for _, text := range []string{"", "d", "never", "-1h", "3"} {
		if err := new(store.Age).Set(text); err == nil {
			t.Errorf("age %q: no error", text)
		}
	}
}

func TestTidy(t *testing.T) {
	dir := newDir(t)
	d := store.OpenDisk(dir)
	stamp := filepath.Join(dir, "tmp", "tidied")
	o := store.Options{Location: dir, MaxSize: 25000}
	record := func(k string) {
		t.Helper()
		mustPut(t, d, Key(k), Result(strings.Repeat(k, 10000)))
	}
	for i, k := range []string{"a", "b", "c"} {
		record(k)
		ageAll(t, dir, time.Duration(30-i)*24*time.Hour)
	}
	for i, k := range []string{"a", "b", "c"} {
		age(t, acPath(dir, Key(k)), time.Duration(30-i)*24*time.Hour)
	}
	// Once a day.
	if r := store.Tidy(ctx, o); len(r) != 1 || r[0].Dir != dir || r[0].RemovedEntries != 1 {
		t.Fatalf("%+v", r)
	}
	if got := have(t, d, "abc"); got != "bc" {
		t.Errorf("kept %q", got)
	}
	record("d")
	record("e")
	if r := store.Tidy(ctx, o); r != nil {
		t.Errorf("twice a day: %+v", r)
	}
	age(t, stamp, 25*time.Hour)
	// What is younger than an hour stays, in a store that is too large as well, if it belongs to an entry that stays.
	if r := store.Tidy(ctx, o); len(r) != 1 {
		t.Errorf("the next day: %+v", r)
	}
	if s, err := d.Stat(ctx); err != nil || s.Temporary != 0 {
		t.Errorf("the stamp counts as a file that is unfinished: %+v, %v", s, err)
	}
	// Not without limits, nor in a directory of somebody else.
	age(t, stamp, 25*time.Hour)
	if r := store.Tidy(ctx, store.Options{Location: dir}); r != nil {
		t.Errorf("without limits: %+v", r)
	}
	if err := os.Remove(filepath.Join(dir, "tasting-store")); err != nil {
		t.Fatal(err)
	}
	if r := store.Tidy(ctx, store.Options{Location: dir, MaxSize: 1}); r != nil {
		t.Errorf("a foreign directory: %+v", r)
	}
	if r := store.Tidy(ctx, store.Options{Location: filepath.Join(dir, "none"), MaxSize: 1}); r != nil {
		t.Errorf("no directory: %+v", r)
	}
}

func TestCreate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := store.Create(dir + ",grpc://host.invalid:1"); err != nil {
		t.Fatal(err)
	}
	if err := store.OpenDisk(dir).Check(); err != nil {
		t.Error(err)
	}
	if err := store.Create("/proc/nope"); err == nil {
		t.Error("a directory in /proc: no error")
	}
}
