package fingerprint

import (
	"bytes"
	"fmt"
	"os"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkflags"
)

// Tools are the build's own tools for its links, and their environment.
type Tools struct {
	Files     []string // and directories
	Variables []string // NAME=VALUE
}

var externalDir = lazyregexp.New(`external/[^/]+/`)

// Write writes a file that identifies the tools. It doesn't depend on the order of Files.
func (t *Tools) Write(output string) error {
	var c Config
	var files, links []string
	for _, f := range t.Files {
		// The directory of a module depends on the version of Bazel.
		name := externalDir.ReplaceAllString(linkflags.Neutral(f), "external/")
		if err := addData(&c, &files, &links, os.Stat, digest, name, f); err != nil {
			return fmt.Errorf("tool %s: %w", f, err)
		}
	}
	lines := slices.Concat(links, t.Variables)
	for _, f := range c.Data {
		lines = append(lines, f.SHA256+" "+f.Path)
	}
	slices.Sort(lines)
	var b bytes.Buffer
	for _, l := range slices.Compact(lines) {
		fmt.Fprintf(&b, "%q\n", l)
	}
	return wholefile.Write(output, b.Bytes(), 0o666)
}
