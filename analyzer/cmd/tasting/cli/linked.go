package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/objfile"
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

// manifests writes the manifests of the files into a new directory, which the
// caller removes.
func (l linkedFiles) manifests() (dir string, files []string, err error) {
	if len(l) == 0 {
		return "", nil, nil
	}
	dir, err = os.MkdirTemp("", "tasting-linked-")
	if err != nil {
		return "", nil, err
	}
	for _, x := range l {
		ms, _, err := objfile.Linked(x.file, x.parts)
		if err != nil {
			return dir, nil, errors.Join(err, os.RemoveAll(dir))
		}
		for _, m := range ms {
			file := filepath.Join(dir, fmt.Sprintf("%d.manifest", len(files)))
			if err := manifest.Write(file, m); err != nil {
				return dir, nil, errors.Join(err, os.RemoveAll(dir))
			}
			files = append(files, file)
		}
	}
	return dir, files, nil
}
