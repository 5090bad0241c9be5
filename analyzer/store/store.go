// Package store keeps the recorded results of tests.
//
// # What a store promises
//
// A store maps the fingerprint of a test, a SHA-256, to what was seen when a
// test with that fingerprint was executed: its exit code, its log and the files
// it wrote. Since everything that can decide the outcome is in the fingerprint,
// the result may be replayed wherever the fingerprint is the same.
//
// A wrong replay would be worse than no store at all, so a reader trusts
// nothing: an entry carries a checksum over all that it says, including the key
// it was written for, and every blob is hashed again before Get returns. What
// doesn't match is reported by a named error and is a miss; the next Put
// replaces it.
//
// # What is stored
//
// An entry is an ActionResult of the Remote Execution API v2, its contents are
// blobs in a content-addressable store. The backends can therefore be what
// users of Bazel run already; docs/store.md describes the entry field by field.
// Disk is the directory backend; the others pass the same suite, package
// storetest.
package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"time"
)

// Reasons why Get has no result and Put has not stored one. Any other error
// means that the store could not be reached or used.
var (
	// ErrNotFound: nothing is recorded under the key.
	ErrNotFound = errors.New("no recorded result")
	// ErrIncomplete: there is an entry, but one of its blobs is gone. Caches
	// that evict blobs independently of entries do that.
	ErrIncomplete = errors.New("recorded result is incomplete")
	// ErrCorrupt: there is an entry, but it or a blob isn't what was written.
	ErrCorrupt = errors.New("recorded result is damaged")
	// ErrExists: a valid result is recorded already; it was left as it is.
	ErrExists = errors.New("a result is already recorded")
)

// IsMiss tells whether err, from Get, means that the store works but has no
// usable result.
func IsMiss(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrIncomplete) || errors.Is(err, ErrCorrupt)
}

// Key is the fingerprint of a test.
type Key [sha256.Size]byte

// ParseKey parses the lower or upper case hex form of a key.
func ParseKey(s string) (Key, error) {
	var k Key
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(k) {
		return k, fmt.Errorf("%q is not a SHA-256 in hex", s)
	}
	copy(k[:], b)
	return k, nil
}

// String returns the key in lower case hex.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Result is what was seen when a test was executed.
type Result struct {
	ExitCode int
	Host     string    // name of the machine that executed the test
	Start    time.Time // when the execution started
	End      time.Time // when it ended, which is when it was recorded
	Log      *io.SectionReader
	Files    []File

	closers []io.Closer
}

// File is a file that the test wrote.
type File struct {
	// Path is relative to a root that the caller chooses: slash-separated,
	// without "." and "..".
	Path       string
	Executable bool
	Content    *io.SectionReader
}

// Close releases the contents of a result that came from Get.
func (r *Result) Close() error {
	var err error
	for _, c := range r.closers {
		err = errors.Join(err, c.Close())
	}
	r.closers = nil
	return err
}

// Store is a place for recorded results. Its methods may be called from many
// goroutines and many processes at once.
type Store interface {
	// Get returns the result recorded under key, with all contents verified.
	// The caller closes it. Without a usable result the error is one for which
	// IsMiss holds; every other error means that the store isn't usable now,
	// and repeating the call may help.
	Get(ctx context.Context, key Key) (*Result, error)

	// Put records r under key; contents are read from their beginning. If a
	// valid result is there already, it stays and the error is ErrExists. After
	// any other error the store holds what it held before.
	Put(ctx context.Context, key Key, r *Result) error

	// Set is Put, but replaces what is there. It is for entries that inform, and
	// never for the result of a test.
	Set(ctx context.Context, key Key, r *Result) error
}

// DefaultDir returns the directory of the default store: getenv's
// TASTING_STORE, or tasting in the user's cache directory.
//
// Bazel gives tests no HOME, or one that is only for this test (TEST_TMPDIR),
// hence the home directory of the passwd database as a last resort.
func DefaultDir(getenv func(string) string) (string, error) {
	if dir := getenv("TASTING_STORE"); dir != "" {
		if !filepath.IsAbs(dir) {
			return "", fmt.Errorf("TASTING_STORE=%s: want an absolute path", dir)
		}
		return dir, nil
	}
	if dir := getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "tasting"), nil
	}
	home := getenv("HOME")
	if !filepath.IsAbs(home) || home == getenv("TEST_TMPDIR") {
		u, err := user.LookupId(fmt.Sprint(os.Getuid()))
		if err != nil {
			return "", fmt.Errorf("no HOME and no home directory of user %d (%v): set TASTING_STORE to a directory", os.Getuid(), err)
		}
		home = u.HomeDir
	}
	return filepath.Join(home, ".cache", "tasting"), nil
}
