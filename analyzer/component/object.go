package component

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/ctext"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/objfile"
)

// analyzeObject returns the manifest of C++ that another compiler than clang
// compiles: that compiler's own code for it, each function in a section of its
// own. clang can't speak for it: it doesn't parse the other's standard library,
// and with its own, every "#ifdef __clang__" of any header could be another
// program.
func analyzeObject(ctx context.Context, u *ctext.Unit) (*manifest.Manifest, error) {
	tmp, err := os.MkdirTemp("", "tasting-object-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	object := filepath.Join(tmp, "object.o")
	if u.Emitted != nil {
		b, err := u.ReadEmitted()
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(object, b, 0o666); err != nil {
			return nil, err
		}
	} else if err := compileText(ctx, u, object); err != nil {
		return nil, err
	}
	m, err := objfile.Manifest(object, objfile.Options{})
	if err != nil {
		return nil, err
	}
	unit := salt(u, ctext.Scan(u.Text), "")
	for _, c := range m.Components {
		h := newHasher()
		h.hash(unit)
		h.str(string(c.LocalHash))
		sum := h.sum()
		c.LocalHash, c.File = sum[:], u.Source
	}
	m.Source, m.Compiler, m.Flags = u.Source, u.Compiler, allFlags(u)
	return m, nil
}

// compileText makes the object file of u's text.
func compileText(ctx context.Context, u *ctext.Unit, object string) error {
	if len(u.Compile) == 0 {
		return fmt.Errorf("no command line of the compiler: %w", ctext.ErrUnit)
	}
	args := append(slices.Clone(u.Compile[1:]), "-w", "-g0", "-fpermissive", "-x", "c++-cpp-output", "-o", object, "-")
	cmd := exec.CommandContext(ctx, u.Compile[0], append(args, ctext.ObjectFlags...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdin = bytes.NewReader(u.Text)
	stderr := &head{max: 1 << 16}
	cmd.Stderr = stderr
	if err := cmd.Run(); err != nil {
		if m := errorLine.FindStringSubmatch(stderr.String()); m != nil {
			return fmt.Errorf("the compiler reported an error%s: %s", errorPlace(u, m[1], m[2]), m[3])
		}
		return fmt.Errorf("the compiler failed: %v", err)
	}
	return nil
}
