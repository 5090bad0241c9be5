package evaluate

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
)

// objects are the object files of an output base, by their paths below it.
type objects map[string]object

type object struct {
	Size     int64
	Modified time.Time
	Hash     uint64
}

// readObjects reads the file of save. If it can't be read, all objects count as different once.
func readObjects(file string) objects {
	o := objects{}
	if b, err := os.ReadFile(file); err == nil {
		_ = json.Unmarshal(b, &o)
	}
	return o
}

func (o objects) save(file string) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o666)
}

// census counts the object files for the target platform in an output base, and those
// that are new or differ from the call before.
func (o objects) census(base string) (all, different int, err error) {
	now := map[string]object{}
	root := filepath.Join(base, "execroot")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		parts := strings.Split(rel, string(filepath.Separator))
		switch {
		case err != nil && path == root:
			return fs.SkipAll // nothing was built
		case err != nil:
			return err
		case d.IsDir() && len(parts) == 2 && parts[1] != "bazel-out", d.IsDir() && len(parts) == 3 && strings.Contains(parts[2], "-exec"):
			return fs.SkipDir
		case !d.Type().IsRegular() || !strings.HasSuffix(path, ".o"):
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		x := object{Size: info.Size(), Modified: info.ModTime().UTC()}
		old, known := o[rel]
		if known && old.Size == x.Size && old.Modified.Equal(x.Modified) {
			x.Hash = old.Hash
		} else {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			x.Hash = xxhash.Sum64(b)
		}
		all++
		if !known || old.Hash != x.Hash {
			different++
		}
		now[rel] = x
		return nil
	})
	// A file that is gone may come back.
	maps.Copy(o, now)
	return all, different, err
}
