package driver

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

func texts(t *testing.T, files []store.File) map[string]string {
	t.Helper()
	m := map[string]string{}
	for _, f := range files {
		b, err := io.ReadAll(reader(f))
		if err != nil {
			t.Fatal(err)
		}
		m[f.Path] = string(b)
		if f.Executable {
			m[f.Path] += " (executable)"
		}
	}
	return m
}

// What Bazel's script writes into a log isn't the test's.
func TestOwnLog(t *testing.T) {
	head := "exec ${PAGER:-/usr/bin/less} \"$0\" || exit 1\nExecuting tests from //p:t\n" + strings.Repeat("-", 77) + "\n"
	for log, want := range map[string]string{
		head:                     "",
		head + "a\n":             "a\n",
		head + head:              head,
		"a\n" + head:             "a\n" + head,
		head[:len(head)-2]:       head[:len(head)-2],
		"":                       "",
		strings.Repeat("x", 1e5): strings.Repeat("x", 1e5),
	} {
		if got, err := io.ReadAll(ownLog(store.Content([]byte(log)))); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", log, got, err)
		}
	}
}

// Outputs are recorded one by one, and are an archive again where Bazel makes one.
func TestPack(t *testing.T) {
	file := func(name, content string, executable bool) store.File {
		return store.File{Path: name, Executable: executable, Content: store.Content([]byte(content))}
	}
	files := []store.File{
		file("test.xml", "x", false), file("test.outputs/a/b.txt", "b", false), file("test.outputs/run", "r", true), file("test.outputs/deep/test.log", "no log", false),
		file("test.outputs/shard_1_of_2/test.xml", "no xml", false),
		file("shard_1_of_2/test.outputs/c", strings.Repeat("c", 1e5), false), file("shard_1_of_2/test.log", "l", false),
	}
	var open opened
	defer open.close()
	packed, err := pack(files, time.Now(), &open)
	if err != nil || len(open) != 2 {
		t.Fatal(err)
	}
	if _, ok := texts(t, packed)["test.outputs/a/b.txt"]; ok || len(packed) != 4 {
		t.Errorf("packed %d files", len(packed))
	}
	var unpacked []store.File
	for _, f := range packed {
		name := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(name, []byte(texts(t, []store.File{f})[f.Path]), 0o666); err != nil {
			t.Fatal(err)
		}
		x, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		l, err := contents(f.Path, x, true, &open)
		if err != nil {
			t.Fatal(err)
		}
		unpacked = append(unpacked, l...)
	}
	if d := cmp.Diff(texts(t, files), texts(t, unpacked)); d != "" {
		t.Error(d)
	}
}

// An archive that can't be repeated, or that leads elsewhere, isn't recorded.
func TestUnpack(t *testing.T) {
	for what, add := range map[string]func(*zip.Writer) error{
		"an empty directory": func(w *zip.Writer) error { _, err := w.Create("d/"); return err },
		"a way out":          func(w *zip.Writer) error { _, err := w.Create("../f"); return err },
		"a link": func(w *zip.Writer) error {
			h := &zip.FileHeader{Name: "l"}
			h.SetMode(os.ModeSymlink | 0o777)
			_, err := w.CreateHeader(h)
			return err
		},
	} {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		if err := add(w); err != nil {
			t.Fatal(err)
		}
		w.Close()
		var open opened
		defer open.close()
		files, err := unpack(store.Content(b.Bytes()), &open)
		if err == nil {
			t.Errorf("%s: %v", what, texts(t, files))
		}
	}
	if _, err := unpack(store.Content([]byte("no archive")), nil); err == nil {
		t.Error("no archive: no error")
	}
}
