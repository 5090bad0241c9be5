package cli

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/objfile"
	"github.com/rules-tasting/rules_tasting/analyzer/syslib"
)

// linkedFiles are the values of the flags --linked and --part, in their order.
type linkedFiles []linkedFile

// linkedFile is a linked file and the objects that it is said to be made of.
type linkedFile struct {
	file  string
	parts []string
}

type linkedFlag struct{ *linkedFiles }

func (f linkedFlag) Set(file string) error {
	*f.linkedFiles = append(*f.linkedFiles, linkedFile{file: file})
	return nil
}
func (linkedFlag) String() string { return "" }
func (linkedFlag) Type() string   { return "FILE" }

type partFlag struct{ *linkedFiles }

func (f partFlag) Set(file string) error {
	l := *f.linkedFiles
	if len(l) == 0 {
		return errors.New("a part of what? Put --linked=FILE in front of it")
	}
	last := &l[len(l)-1]
	last.parts = append(last.parts, file)
	return nil
}
func (partFlag) String() string { return "" }
func (partFlag) Type() string   { return "FILE" }

// describe returns the files in the order of the loader, with manifests that it
// writes into a new directory, which the caller removes. Libraries that other programs may open count as a whole.
func (l linkedFiles) describe(opened bool) (dir string, files []fingerprint.LinkedFile, err error) {
	if len(l) == 0 {
		return "", nil, nil
	}
	dir, err = os.MkdirTemp("", "tasting-linked-")
	if err != nil {
		return "", nil, err
	}
	n := 0
	for _, x := range l.inOrder() {
		if opened {
			x.parts = nil
		}
		ms, _, err := objfile.Linked(x.file, x.parts)
		if err != nil {
			return dir, nil, errors.Join(err, os.RemoveAll(dir))
		}
		f := fingerprint.LinkedFile{Name: filepath.Base(x.file)}
		for _, m := range ms {
			name := filepath.Join(dir, fmt.Sprintf("%d.manifest", n))
			n++
			if err := manifest.Write(name, m); err != nil {
				return dir, nil, errors.Join(err, os.RemoveAll(dir))
			}
			f.Manifests = append(f.Manifests, name)
		}
		// The last one is of the link.
		for _, x := range ms[len(ms)-1].Fallbacks {
			if len(ms) > 1 {
				f.Uncertain = x.Reason
			}
		}
		files = append(files, f)
	}
	return dir, files, nil
}

// inOrder returns the files in the order in which the first one, the executable,
// needs them. What it doesn't need follows.
func (l linkedFiles) inOrder() linkedFiles {
	place := map[string]int{}
	first := syslib.Needed(l[0].file) // none: the order is that of the command line
	for i, name := range first {
		place[name] = i - len(first)
	}
	out := slices.Clone(l)
	slices.SortStableFunc(out[1:], func(a, b linkedFile) int { return cmp.Compare(place[soname(a.file)], place[soname(b.file)]) })
	return out
}

// soname is the name by which a library is needed.
func soname(file string) string {
	if f, err := elf.Open(file); err == nil {
		defer f.Close()
		if names, err := f.DynString(elf.DT_SONAME); err == nil && len(names) == 1 {
			return filepath.Base(names[0])
		}
	}
	return filepath.Base(file)
}
