package stamp_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/stamp"
)

func TestTrail(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.MkdirAll(filepath.Join(root, "a", "b"), 0o777),
		os.WriteFile(filepath.Join(root, "a", "b", "f"), nil, 0o666),
		os.Symlink("a/b", filepath.Join(root, "dir")),
		os.Symlink("../../dir/./f", filepath.Join(root, "a", "b", "link")),
		os.Symlink(filepath.Join(root, "dir", "link"), filepath.Join(root, "absolute")),
		os.Symlink("nowhere", filepath.Join(root, "dangling")),
		os.Symlink("loop", filepath.Join(root, "loop")),
		os.Symlink("..", filepath.Join(root, "a", "b", "up")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	trail := stamp.Trail{}
	in := func(names ...string) (l []string) {
		for _, n := range names {
			l = append(l, filepath.Join(root, n))
		}
		return l
	}
	// What is above root is on every way.
	below := func(l *[]string) func(string, stamp.Stamp) {
		return func(place string, _ stamp.Stamp) {
			if len(place) > len(root) && !slices.Contains(*l, place) {
				*l = append(*l, place)
			}
		}
	}
	for _, c := range []struct {
		path string
		way  []string
		real string // or "" if it leads nowhere
	}{
		{"a/b/f", in("a", "a/b"), "a/b/f"},
		{"a//b/", in("a"), "a/b"},
		{"dir/f", in("dir", "a", "a/b"), "a/b/f"},
		{"dir/link", in("dir", "a", "a/b", "a/b/link"), "a/b/f"},
		{"absolute", in("absolute", "dir", "a", "a/b", "a/b/link"), "a/b/f"},
		{"dangling", in("dangling"), ""},
		{"loop", in("loop"), ""},
		{"a/b/f/x", in("a", "a/b", "a/b/f"), ""},
		{"nothing", nil, ""},
	} {
		var way []string
		real, s, err := trail.Follow("", root+"/"+c.path, below(&way))
		if (err != nil) != (c.real == "") || !slices.Equal(way, c.way) {
			t.Errorf("%s: by %q to %s, %v; want %q", c.path, way, real, err, c.way)
		}
		if want, serr := stamp.Of(root + "/" + c.path); err == nil && (serr != nil || real != filepath.Join(root, c.real) || s != want) {
			t.Errorf("%s: %s with %v; want %s with %v", c.path, real, s, c.real, want)
		}
	}
	var way, what []string
	trail.Walk(filepath.Join(root, "dir"), map[string]bool{}, below(&way), below(&what))
	slices.Sort(way)
	if want := in("a", "a/b", "a/b/link", "a/b/up", "dir"); !slices.Equal(way, want) {
		t.Errorf("by %q, want %q", way, want)
	}
	slices.Sort(what)
	if want := in("a", "a/b", "a/b/f"); !slices.Equal(what, want) {
		t.Errorf("to %q, want %q", what, want)
	}
}
