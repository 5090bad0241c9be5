// Package wholefile writes files that others may be reading, or that a killed
// process mustn't leave half done: whoever looks sees the old content or the new
// one, whole.
package wholefile

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Write puts a file with content b and permissions perm, regardless of the umask,
// into the place of path, whose directory exists. After an error the old file is
// still there. A process that is killed may leave a file .tmp-N beside it.
func Write(path string, b []byte, perm fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	// Some file systems report a full disk only when the file is closed.
	if err = errors.Join(err, f.Chmod(perm), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// ErrDamaged says that a sealed file isn't what was written.
var ErrDamaged = errors.New("damaged")

// WriteSealed writes a file as Write does, behind a line with the checksum of b.
func WriteSealed(path string, b []byte, perm fs.FileMode) error {
	return Write(path, append([]byte(Checksum(b)+"\n"), b...), perm)
}

// ReadSealed returns the content of a file that WriteSealed wrote, or ErrDamaged.
func ReadSealed(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	sum, b, _ := bytes.Cut(b, []byte("\n"))
	if string(sum) != Checksum(b) {
		return nil, fmt.Errorf("%s: %w", path, ErrDamaged)
	}
	return b, nil
}

// Checksum returns the SHA-256 of b, in hex.
func Checksum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
