package bazel

import (
	"os"
	"path/filepath"
	"time"
)

// MaxUnused is how long a file stays in Cache that isn't written again.
const MaxUnused = 30 * 24 * time.Hour

// Tidy removes old files from Cache. All of them can be made again.
func (b *Bazel) Tidy() {
	if b.Cache == "" {
		return
	}
	for _, kind := range []string{"flags-*", "command-line-*", "compositions-*"} {
		files, _ := filepath.Glob(filepath.Join(b.Cache, kind))
		for _, file := range files {
			if info, err := os.Lstat(file); err == nil && time.Since(info.ModTime()) > MaxUnused {
				_ = os.Remove(file)
			}
		}
	}
}
