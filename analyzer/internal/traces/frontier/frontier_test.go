package frontier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/nameset"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

func newStore(t testing.TB) store.Store { return store.OpenDisk(filepath.Join(t.TempDir(), "store")) }

func entered(name string) nameset.Set { return nameset.Of(slices.Values([]string{"with " + name})) }

func put(t testing.TB, s store.Store, label string, b []byte) {
	t.Helper()
	if err := s.Set(context.Background(), keyOf(label), &store.Result{Log: store.Content(b)}); err != nil {
		t.Fatal(err)
	}
}

func TestAdd(t *testing.T) {
	s := newStore(t)
	if k, err := Read(t.Context(), s, "//:a"); err != nil || len(k.Frontiers)+len(k.Entered) > 0 {
		t.Errorf("%v, %v", k, err)
	}
	add := func(label string, names ...string) {
		t.Helper()
		if err := Add(t.Context(), s, label, names, entered(names[0])); err != nil {
			t.Fatal(err)
		}
	}
	want := func(label string, want ...[]string) {
		t.Helper()
		got, err := read(t.Context(), s, label)
		if err != nil {
			t.Fatal(label, err)
		}
		if d := cmp.Diff(want, got.Frontiers); d != "" {
			t.Errorf("%s: %s", label, d)
		}
		// What was entered is that of the newest.
		if k, err := Read(t.Context(), s, label); err != nil || !k.Entered.Has("with "+want[0][0]) || len(k.Entered) != 1 {
			t.Errorf("%s: %v %v", label, k, err)
		}
	}
	add("//:a", "f", "g")
	add("//:a", "f")
	add("//:b", "h")
	want("//:a", []string{"f"}, []string{"f", "g"})
	want("//:b", []string{"h"})
	// What was seen again is the newest, once.
	add("//:a", "f", "g")
	want("//:a", []string{"f", "g"}, []string{"f"})
	for i := range Max {
		add("//:a", fmt.Sprint(i))
	}
	if k, err := Read(t.Context(), s, "//:a"); err != nil || len(k.Frontiers) != Max || !cmp.Equal(k.Frontiers[0], map[string]bool{fmt.Sprint(Max - 1): true}) {
		t.Errorf("%v, %v", k, err)
	} else if !k.Frontiers[Max-1]["0"] {
		t.Errorf("the oldest are %v", k.Frontiers[Max-1])
	}
}

// Names that are too many leave the newest.
func TestAddLarge(t *testing.T) {
	s := newStore(t)
	half := strings.Repeat("x", maxNames*2/3)
	for _, name := range []string{"1", "2"} {
		if err := Add(t.Context(), s, "//:a", []string{half + name}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if k, err := Read(t.Context(), s, "//:a"); err != nil || len(k.Frontiers) != 1 || !k.Frontiers[0][half+"2"] {
		t.Errorf("%v", err)
	}
	if err := Add(t.Context(), s, "//:a", []string{half, half}, nil); err == nil {
		t.Error("no error for names that are too many")
	}
}

// What is damaged is said to be, and is written anew.
func TestDamaged(t *testing.T) {
	s := newStore(t)
	if err := Add(t.Context(), s, "//:other", []string{"f"}, entered("f")); err != nil {
		t.Fatal(err)
	}
	r, err := s.Get(t.Context(), keyOf("//:other"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := io.ReadAll(r.Log)
	r.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{nil, []byte("text"), other, other[:len(other)-3]} {
		put(t, s, "//:a", b)
		if _, err := Read(t.Context(), s, "//:a"); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%q: %v", b, err)
		}
		if err := Add(t.Context(), s, "//:a", []string{"g"}, nil); err != nil {
			t.Error(err)
		}
		if k, err := Read(t.Context(), s, "//:a"); err != nil || len(k.Frontiers) != 1 {
			t.Errorf("%v, %v", k, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("text"))
	s := newStore(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		put(t, s, "//:a", b)
		if k, err := Read(t.Context(), s, "//:a"); err == nil && len(k.Frontiers) > Max {
			t.Errorf("%d frontiers", len(k.Frontiers))
		}
	})
}

// Of a list of stores, what any of them knows is known, and each keeps what it knew.
func TestListOfStores(t *testing.T) {
	for _, bad := range []string{"http://127.0.0.1:1", "/proc/tasting"} {
		near, far := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "store")
		list, err := store.Open(bad+","+near+","+far, store.Options{Retries: new(int)})
		if err != nil {
			t.Fatal(err)
		}
		if k, err := Read(t.Context(), list, "//:a"); err != nil || len(k.Frontiers) > 0 {
			t.Errorf("nothing: %v, %v", k, err)
		}
		if err := Add(t.Context(), store.OpenDisk(far), "//:a", []string{"f"}, entered("f")); err != nil {
			t.Fatal(err)
		}
		want := func(s store.Store, first string, frontiers ...string) {
			t.Helper()
			k, err := Read(t.Context(), s, "//:a")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range k.Frontiers {
				for name := range f {
					got = append(got, name)
				}
			}
			if d := cmp.Diff(frontiers, got); d != "" || !k.Entered.Has("with "+first) {
				t.Errorf("%v: %s, entered %v", s, d, k.Entered)
			}
		}
		want(list, "f", "f")
		if err := Add(t.Context(), list, "//:a", []string{"g"}, entered("g")); err != nil {
			t.Fatal(err)
		}
		want(list, "g", "g", "f")
		want(store.OpenDisk(near), "g", "g")
		want(store.OpenDisk(far), "g", "g", "f")
	}
}

// A test that one store knows to be refused has no frontiers in any other, and gets none.
func TestRefuse(t *testing.T) {
	dirs := t.TempDir()
	one, other := filepath.Join(dirs, "one"), filepath.Join(dirs, "other")
	first, second := store.OpenDisk(one), store.OpenDisk(other)
	both, err := store.Open(one+","+other, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []store.Store{first, second} {
		if err := Add(t.Context(), s, "//:a", []string{"f"}, entered("f")); err != nil {
			t.Fatal(err)
		}
	}
	if err := Refuse(t.Context(), second, "//:a"); err != nil {
		t.Fatal(err)
	}
	if err := Add(t.Context(), second, "//:a", []string{"g"}, entered("g")); err != nil {
		t.Fatal(err)
	}
	for _, s := range []store.Store{second, both} {
		if k, err := Read(t.Context(), s, "//:a"); err != nil || len(k.Frontiers)+len(k.Entered) > 0 {
			t.Errorf("%+v, %v", k, err)
		}
	}
	if k, err := Read(t.Context(), first, "//:a"); err != nil || len(k.Frontiers) != 1 {
		t.Errorf("%+v, %v", k, err)
	}
}
