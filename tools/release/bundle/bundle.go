// Package bundle makes the files of a release: the archive of the sources that names the
// prebuilt programs, and the entry of a Bazel registry. The same input makes the same files.
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
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	module = "rules_tasting"
	// Home is the project's page.
	Home = "https://github.com/rules-tasting/rules_tasting"
)

// File is one of a tree; its name has slashes.
type File struct {
	Name    string
	Mode    int64
	Link    string // what it leads to, if it is a symbolic link
	Content []byte
}

// Release is what a release is made of beside the sources.
type Release struct {
	Version string // MAJOR.MINOR.PATCH
	URL     string // where its files will be, without a slash at the end
	// Programs are the tasting programs by the CPU that runs them, as in @platforms//cpu.
	Programs map[string][]byte
}

// versions are those that registries sort, as semantic versions.
var versions = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// Files returns the files of the release of a checkout: first the programs.
func (r *Release) Files(source []File) ([]File, error) {
	if !versions.MatchString(r.Version) {
		return nil, fmt.Errorf("version %q: want MAJOR.MINOR.PATCH", r.Version)
	}
	source = slices.Clone(source)
	var made []File
	named := "PROGRAMS = {\n"
	for _, cpu := range slices.Sorted(maps.Keys(r.Programs)) {
		p := File{Name: fmt.Sprintf("tasting-%s-linux-%s", r.Version, cpu), Mode: 0o755, Content: r.Programs[cpu]}
		made = append(made, p)
		sum := sha256.Sum256(p.Content)
		named += fmt.Sprintf("    %q: struct(\n        sha256 = %q,\n        urls = [%q],\n    ),\n", cpu, hex.EncodeToString(sum[:]), r.URL+"/"+p.Name)
	}
	if err := edit(source, "rules/private/release.bzl", "PROGRAMS = {}\n", named+"}\n"); err != nil {
		return nil, err
	}
	if err := edit(source, "MODULE.bazel", `    version = "",`, fmt.Sprintf("    version = %q,", r.Version)); err != nil {
		return nil, err
	}
	if err := edit(source, "CHANGELOG.md", "\n## "+r.Version+"\n", "\n## "+r.Version+"\n"); err != nil {
		return nil, fmt.Errorf("%w: give what is unreleased this heading", err)
	}
	prefix := module + "-" + r.Version
	b, err := archive(prefix, source)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	sources := File{Name: prefix + ".tar.gz", Mode: 0o644, Content: b}
	integrity := "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
	i := slices.IndexFunc(source, func(f File) bool { return f.Name == "MODULE.bazel" })
	entry := "registry/modules/" + module + "/"
	return append(made, sources,
		File{Name: "registry/bazel_registry.json", Mode: 0o644, Content: []byte("{}\n")},
		File{Name: entry + "metadata.json", Mode: 0o644, Content: jsonOf(map[string]any{
			"homepage": Home, "maintainers": []any{map[string]any{"name": "The rules_tasting team", "github": "rules-tasting"}}, "repository": []string{"github:" + strings.TrimPrefix(Home, "https://github.com/")},
			"versions": []string{r.Version}, "yanked_versions": map[string]string{},
		})},
		File{Name: entry + r.Version + "/MODULE.bazel", Mode: 0o644, Content: source[i].Content},
		File{Name: entry + r.Version + "/source.json", Mode: 0o644, Content: jsonOf(map[string]any{
			"url": r.URL + "/" + sources.Name, "integrity": integrity, "strip_prefix": prefix,
		})},
		File{Name: entry + r.Version + "/presubmit.yml", Mode: 0o644, Content: []byte(presubmit)},
		File{Name: "MODULE.bazel", Mode: 0o644, Content: fmt.Appendf(nil, `# From a registry that has it:
bazel_dep(name = %[1]q, version = %[2]q)

# From the archive, if none has it:
archive_override(
    module_name = %[1]q,
    integrity = %[3]q,
    strip_prefix = %[4]q,
    urls = [%[5]q],
)
`, module, r.Version, integrity, prefix, r.URL+"/"+sources.Name)},
	), nil
}

// presubmit is what a registry tries before it takes the module.
const presubmit = `matrix:
  platform: ["debian11", "ubuntu2204"]
  bazel: ["7.x", "8.x"]
tasks:
  verify:
    Name: "The program runs"
    platform: ${{ platform }}
    bazel: ${{ bazel }}
    build_targets:
      - "@rules_tasting//rules:tasting"
`

// edit replaces what a file has exactly once.
func edit(files []File, name, old, new string) error {
	i := slices.IndexFunc(files, func(f File) bool { return f.Name == name })
	if i < 0 {
		return fmt.Errorf("%s: there is no such file", name)
	}
	if n := strings.Count(string(files[i].Content), old); n != 1 {
		return fmt.Errorf("%s: %q is there %d times, want once", name, strings.TrimSpace(old), n)
	}
	files[i].Content = []byte(strings.Replace(string(files[i].Content), old, new, 1))
	return nil
}

// archive returns a tar.gz of files, the same for the same files.
func archive(prefix string, files []File) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	for _, f := range slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Name, b.Name) }) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(prefix, f.Name), Mode: f.Mode, Size: int64(len(f.Content)), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
		if f.Link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
		}
		if err := t.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		if _, err := t.Write(f.Content); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func jsonOf(v any) []byte {
	b, err := json.MarshalIndent(v, "", "    ")
	if err != nil {
		panic(err) // maps of strings
	}
	return append(b, '\n')
}
