package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"
)

// marker is a file in directories that belong to tasting alone. Only there may
// maintenance remove unknown files: a directory that is Bazel's --disk_cache as well
// has no marker.
const marker = "tasting-store"

// Disk is a store in a directory, in the layout of Bazel's disk cache:
//
//	ac/xx/<key>      entries, xx being the first two digits
//	cas/xx/<sha256>  contents
//	tmp/             files that are being written
//
// Every file is written under tmp and then put into place by one atomic step,
// contents before the entry that names them. So a reader, and a reader after a
// crash, sees no entry or a whole one. Nothing is synced to the device: after a
// power failure an entry may be there with garbage in it, which the checks of
// Get turn into a miss, and a sync per file would cost more than most tests.
type Disk struct {
	access
	dir string

	// Progress is called while GC and Verify go through n files, before each.
	Progress func(i, n int)

	// step is called before each step of Put, for tests that stop there.
	step func(string)
}

// OpenDisk returns the store in dir, an absolute path, for reading and writing.
// The directory is created by the first Put.
func OpenDisk(dir string) *Disk { return newDisk(dir, ReadWrite) }

func newDisk(dir string, mode Mode) *Disk {
	d := &Disk{dir: dir, Progress: func(int, int) {}, step: func(string) {}}
	d.access = access{d, mode}
	return d
}

// String returns the directory.
func (d *Disk) String() string { return d.dir }

// Dir returns the directory of the store.
func (d *Disk) Dir() string { return d.dir }

func (d *Disk) acPath(k Key) string {
	h := k.String()
	return filepath.Join(d.dir, "ac", h[:2], h)
}

func (d *Disk) casPath(hash string) string {
	return filepath.Join(d.dir, "cas", hash[:2], hash)
}

// used marks an entry as used now, for GC, if the mode allows writing.
func (d *Disk) used(key Key) {
	if d.mode.CanWrite() {
		now := time.Now()
		// The file system may forbid it.
		_ = os.Chtimes(d.acPath(key), now, now)
	}
}

func (d *Disk) entry(ctx context.Context, key Key) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	data, err := readEntryFile(d.acPath(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	return data, err
}

func (d *Disk) result(ctx context.Context, key Key, e *repb.ActionResult) (*Result, error) {
	return newResult(e, func(dg *repb.Digest) (*io.SectionReader, io.Closer, error) {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		return d.openBlob(key, dg)
	})
}

// openBlob opens a content and hashes it. The file stays open, so that the caller reads
// what was verified, even if the file is removed or replaced meanwhile.
func (d *Disk) openBlob(key Key, dg *repb.Digest) (*io.SectionReader, io.Closer, error) {
	f, err := os.Open(d.casPath(dg.Hash))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w: entry %s: blob %s is missing", ErrIncomplete, key, dg.Hash)
	}
	if err != nil {
		return nil, nil, err
	}
	if err := checkBlob(f, dg.Hash, dg.SizeBytes); err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("entry %s: %w", key, err)
	}
	return io.NewSectionReader(f, 0, dg.SizeBytes), f, nil
}

// checkBlob hashes f; a negative size stands for any size.
func checkBlob(f *os.File, hash string, size int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: blob %s is not a file", ErrCorrupt, hash)
	}
	if size >= 0 && info.Size() != size {
		return fmt.Errorf("%w: blob %s has %d bytes, want %d", ErrCorrupt, hash, info.Size(), size)
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != hash {
		return fmt.Errorf("%w: blob %s has the content of %s", ErrCorrupt, hash, got)
	}
	return nil
}

// readEntryFile reads a file, or more bytes of it than an entry may have.
func readEntryFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxEntry+1))
}

// Set implements Store.
func (d *Disk) Set(ctx context.Context, key Key, r *Result) error {
	err := d.access.Set(ctx, key, r)
	if err != nil && !errors.Is(err, ErrNotAllowed) && r.ExitCode != 0 && os.Remove(d.acPath(key)) == nil {
		return nil // the disk may be full, but the old result is removed
	}
	return err
}

func (d *Disk) set(ctx context.Context, key Key, r *Result) error { return d.put(ctx, key, r, true) }

// put writes a result; with replace, also over one that is there.
func (d *Disk) put(ctx context.Context, key Key, r *Result, replace bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e, blobs, err := newEntry(key, r)
	if err != nil {
		return err
	}
	if err := d.create(); err != nil {
		return err
	}
	for _, b := range blobs {
		if err := ctx.Err(); err != nil {
			return err
		}
		// Also if the blob is there: that one may be damaged, and a new one is
		// young, which keeps GC away from it until the entry names it.
		if err := d.write(d.casPath(b.digest.Hash), true, io.NewSectionReader(b.content, 0, b.digest.SizeBytes)); err != nil {
			return err
		}
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(e)
	if err != nil {
		return err
	}
	err = d.write(d.acPath(key), replace, bytes.NewReader(data))
	if errors.Is(err, fs.ErrExist) {
		// Another writer was faster.
		return fmt.Errorf("%w for %s in %s", ErrExists, key, d.dir)
	}
	return err
}

// create makes the directory and marks it as tasting's own if it is new.
func (d *Disk) create() error {
	d.step("create")
	tmp := filepath.Join(d.dir, "tmp")
	if _, err := os.Stat(tmp); err == nil {
		return nil
	}
	if err := os.MkdirAll(d.dir, 0o777); err != nil {
		return err
	}
	names, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		if err := os.WriteFile(filepath.Join(d.dir, marker), []byte("format 1\n"), 0o666); err != nil {
			return err
		}
	}
	return os.MkdirAll(tmp, 0o777)
}

// write puts a new file at path. Without replace, a file that is there already
// stays and the error is fs.ErrExist.
func (d *Disk) write(path string, replace bool, content io.Reader) (err error) {
	d.step("write " + filepath.Base(filepath.Dir(filepath.Dir(path))))
	tmp := d.tmpName()
	// Not os.CreateTemp: users who share a store have to be able to read it.
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	_, err = io.Copy(f, content)
	d.step("close")
	// Some file systems report a full disk only here.
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	place := os.Link
	if replace {
		place = os.Rename
	}
	d.step("place")
	err = place(tmp, path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		err = place(tmp, path)
	}
	if err != nil && !replace && !errors.Is(err, fs.ErrExist) {
		// A file system without hard links: of two writers at the same moment
		// the last one stays, which is a valid result, too.
		err = os.Rename(tmp, path)
	}
	d.step("placed")
	return err
}

func (d *Disk) tmpName() string {
	return filepath.Join(d.dir, "tmp", fmt.Sprintf("%d-%016x", os.Getpid(), rand.Uint64()))
}
