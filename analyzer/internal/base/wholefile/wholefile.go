// Package wholefile writes and hashes whole files. Other processes may be reading a file that is
// written, and this process may be killed: a reader sees the old content or the new one, whole.
package wholefile

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces the file at path by one with content b and permissions perm, regardless of the
// umask. The directory must exist. After an error the old file is still there. A process that is
// killed may leave a file .tmp-N next to it.
func Write(path string, b []byte, perm fs.FileMode) error {
	return WriteFrom(path, perm, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// WriteFrom is like Write, with the content that write writes.
func WriteFrom(path string, perm fs.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-")
	if err != nil {
		return err
	}
	err = write(f)
	// Some file systems report a full disk only when the file is closed.
	if err = errors.Join(err, f.Chmod(perm), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// ErrDamaged is the error for a sealed file that isn't what was written.
var ErrDamaged = errors.New("damaged")

// WriteSealed is like Write, and puts a line with the checksum of b in front of b.
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

// Digest returns the SHA-256 of the content of the file at path.
func Digest(path string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
