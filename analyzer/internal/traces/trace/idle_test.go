package trace

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEncodeIdle(t *testing.T) {
	for _, want := range []map[string]bool{{}, {"f": true}, {"f": true, "_Z1gv": true, "a b": true, "": true}} {
		b, err := EncodeIdle(want, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := DecodeIdle(b); err != nil || !maps.Equal(got, want) {
			t.Errorf("%v: %v, %v", want, got, err)
		}
		for n := range b {
			if got, _, err := DecodeIdle(b[:n]); err == nil {
				t.Errorf("%d of %d bytes are %v", n, len(b), got)
			}
		}
	}
	why := UnknownError("it dances\nand sings")
	b, err := why.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := DecodeIdle(b); got != nil || err != why {
		t.Errorf("%v, %v", got, err)
	}
	b, err = EncodeIdle(map[string]bool{"f\ng": true, "h": true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := DecodeIdle(b); err != nil || !maps.Equal(got, map[string]bool{"h": true}) {
		t.Errorf("%v, %v", got, err)
	}
}

func FuzzDecodeIdle(f *testing.F) {
	b, err := EncodeIdle(map[string]bool{"f": true, "g": true}, &Cases{map[string]int{"h": 2}, map[string]int{"A_B_Test": 3}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		idle, cases, err := DecodeIdle(b)
		if err != nil {
			return
		}
		again, err := EncodeIdle(idle, cases)
		if err != nil {
			t.Fatal(err)
		}
		if got, c, err := DecodeIdle(again); err != nil || !maps.Equal(got, idle) || !cmp.Equal(c, cases) {
			t.Errorf("%v comes back as %v, %v", idle, got, err)
		}
	})
}

// What a test didn't enter is what none of its shards did.
func TestReadIdle(t *testing.T) {
	shard := func(names ...string) string {
		dir := t.TempDir()
		if names == nil {
			return dir // given up
		}
		idle := map[string]bool{}
		for _, name := range names {
			idle[name] = true
		}
		b, err := EncodeIdle(idle, nil)
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, filepath.Dir(IdleFile)), 0o777)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, IdleFile), b, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for _, c := range []struct {
		dirs []string
		want map[string]bool // nil for what isn't known
	}{
		{nil, nil},
		{[]string{shard("f", "g")}, map[string]bool{"f": true, "g": true}},
		{[]string{shard("f", "g"), shard("g", "h")}, map[string]bool{"g": true}},
		{[]string{shard("f"), shard()}, nil},
	} {
		got, _, err := ReadIdle(c.dirs)
		if err != nil || (got == nil) != (c.want == nil) || !maps.Equal(got, c.want) {
			t.Errorf("%v: %v, %v: want %v", c.dirs, got, err, c.want)
		}
	}
	torn := shard("f")
	if err := os.WriteFile(filepath.Join(torn, IdleFile), []byte("text"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadIdle([]string{torn}); err == nil {
		t.Error("no error for something else")
	}
}

func TestRunUnder(t *testing.T) {
	for want, words := range map[string][]string{
		"--run_under=/a/tasting service trace --under_bazel --":                   {"/a/tasting"},
		"--run_under=/a/tasting service trace --under_bazel --only=/x/y --":       {"/a/tasting", "--only=/x/y"},
		`--run_under='/a b/it'\''s' service trace --under_bazel '--only=/x y' --`: {"/a b/it's", "--only=/x y"},
	} {
		if got := RunUnder(words[0], words[1:]...); got != want {
			t.Errorf("%q: %s", words, got)
		}
	}
}
