package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func sources() []File {
	return []File{
		{Name: "rules/private/release.bzl", Mode: 0o644, Content: []byte("# Programs.\nPROGRAMS = {}\n")},
		{Name: "MODULE.bazel", Mode: 0o644, Content: []byte("module(\n    name = \"rules_tasting\",\n    version = \"\",\n)\n")},
		{Name: "CHANGELOG.md", Mode: 0o644, Content: []byte("# Changes\n\n## 1.2.3\n\n- One.\n")},
		{Name: "bazelw", Mode: 0o755, Content: []byte("#!/bin/sh\n")},
		{Name: "link", Mode: 0o755, Link: "bazelw"},
	}
}

// unpack returns the files of an archive.
func unpack(t *testing.T, b []byte) map[string]*tar.Header {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*tar.Header{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		h.PAXRecords = map[string]string{"content": string(content)}
		files[h.Name] = h
	}
}

func TestFiles(t *testing.T) {
	r := Release{Version: "1.2.3", URL: "https://example.com/v1.2.3", Programs: map[string][]byte{"x86_64": []byte("intel"), "aarch64": []byte("arm")}}
	source := sources()
	made, err := r.Files(source)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(source)
	again, err := r.Files(source)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]File{}
	for _, f := range made {
		out[f.Name] = f
		i := slices.IndexFunc(again, func(g File) bool { return g.Name == f.Name })
		if i < 0 || !bytes.Equal(again[i].Content, f.Content) {
			t.Errorf("%s depends on the order of the files", f.Name)
		}
	}
	if string(out["tasting-1.2.3-linux-x86_64"].Content) != "intel" || out["tasting-1.2.3-linux-x86_64"].Mode != 0o755 {
		t.Errorf("%+v", out["tasting-1.2.3-linux-x86_64"])
	}
	archived := unpack(t, out["rules_tasting-1.2.3.tar.gz"].Content)
	content := func(name string) string { return archived["rules_tasting-1.2.3/"+name].PAXRecords["content"] }
	if len(archived) != len(source) || archived["rules_tasting-1.2.3/bazelw"].Mode != 0o755 || archived["rules_tasting-1.2.3/link"].Linkname != "bazelw" {
		t.Errorf("%v", archived)
	}
	sum := sha256.Sum256([]byte("arm"))
	for _, want := range []string{`"aarch64": struct(`, hex.EncodeToString(sum[:]), `urls = ["https://example.com/v1.2.3/tasting-1.2.3-linux-aarch64"]`} {
		if !strings.Contains(content("rules/private/release.bzl"), want) {
			t.Errorf("release.bzl:\n%swant %s", content("rules/private/release.bzl"), want)
		}
	}
	const entry = "registry/modules/rules_tasting/1.2.3/"
	if m := content("MODULE.bazel"); !strings.Contains(m, `version = "1.2.3"`) || m != string(out[entry+"MODULE.bazel"].Content) {
		t.Errorf("MODULE.bazel: %s", m)
	}
	for _, key := range []string{`"homepage": "https://`, `"name": "`, `"versions": [`, `"yanked_versions": {}`} {
		if text := string(out["registry/modules/rules_tasting/metadata.json"].Content); !strings.Contains(text, key) {
			t.Errorf("metadata.json:\n%swant %s", text, key)
		}
	}
	var where struct{ URL, Integrity, StripPrefix string }
	if err := json.Unmarshal(bytes.ReplaceAll(out[entry+"source.json"].Content, []byte("strip_prefix"), []byte("StripPrefix")), &where); err != nil {
		t.Fatal(err)
	}
	sum = sha256.Sum256(out["rules_tasting-1.2.3.tar.gz"].Content)
	if where.URL != "https://example.com/v1.2.3/rules_tasting-1.2.3.tar.gz" || where.StripPrefix != "rules_tasting-1.2.3" || where.Integrity != "sha256-"+base64.StdEncoding.EncodeToString(sum[:]) {
		t.Errorf("%+v", where)
	}
	if string(source[4].Content) != string(sources()[0].Content) {
		t.Error("the checkout's own files were changed")
	}
}

func TestRefused(t *testing.T) {
	for _, test := range []struct {
		name, version, file, content, want string
	}{
		{"a version", "1.2", "", "", "MAJOR.MINOR.PATCH"},
		{"no section", "1.2.4", "", "", `CHANGELOG.md: "## 1.2.4" is there 0 times, want once: give what is unreleased this heading`},
		{"a version in the tree", "1.2.3", "MODULE.bazel", `version = "1",`, "MODULE.bazel"},
		{"programs in the tree", "1.2.3", "rules/private/release.bzl", "PROGRAMS = {1: 2}", "release.bzl"},
	} {
		t.Run(test.name, func(t *testing.T) {
			source := sources()
			for i := range source {
				if source[i].Name == test.file {
					source[i].Content = []byte(test.content)
				}
			}
			if _, err := (&Release{Version: test.version}).Files(source); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
