package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
)

// DefaultGrace is how long GC leaves a blob alone that no entry names: a writer
// may be about to write that entry.
const DefaultGrace = time.Hour

// Stat describes the contents of a store.
type Stat struct {
	Entries   int   `json:"entries"`    // recorded results
	Blobs     int   `json:"blobs"`      // their contents
	Temporary int   `json:"unfinished"` // unfinished files
	Bytes     int64 `json:"bytes"`      // size of all of these files
	// Oldest and Newest are when the least and the most recently used entries
	// were recorded or replayed; zero without entries.
	Oldest time.Time `json:"least_recently_used,omitzero"`
	Newest time.Time `json:"most_recently_used,omitzero"`
}

// Check returns an error if the directory isn't there, or is no store: neither empty, nor made by tasting, nor
// in the layout of Bazel's disk cache.
func (d *Disk) Check() error {
	names, err := os.ReadDir(d.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: nothing has been recorded there", err)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s: this is no directory", d.dir)
	case err != nil:
		return err
	}
	if len(names) > 0 && !slices.ContainsFunc(names, func(e fs.DirEntry) bool {
		return e.Name() == marker || e.IsDir() && (e.Name() == "ac" || e.Name() == "cas")
	}) {
		return fmt.Errorf("%s: this is no store: it has neither a file %s nor a directory ac or cas", d.dir, marker)
	}
	return nil
}

// file is a file of the store.
type file struct {
	path string
	info fs.FileInfo
}

// list returns the files below sub, which may not exist.
func (d *Disk) list(ctx context.Context, sub string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(filepath.Join(d.dir, sub), func(p string, e fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil && !e.IsDir() {
			if info, err = e.Info(); err == nil {
				files = append(files, file{p, info})
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return ctx.Err() // removed meanwhile
		}
		return errors.Join(err, ctx.Err())
	})
	return files, err
}

// Stat counts what is in the store; contents aren't read.
func (d *Disk) Stat(ctx context.Context) (*Stat, error) {
	s := new(Stat)
	for sub, n := range map[string]*int{"ac": &s.Entries, "cas": &s.Blobs, "tmp": &s.Temporary} {
		files, err := d.list(ctx, sub)
		if err != nil {
			return nil, err
		}
		files = slices.DeleteFunc(files, func(f file) bool { return isOwn(f.info) })
		*n = len(files)
		for _, f := range files {
			s.Bytes += f.info.Size()
			if sub != "ac" {
				continue
			}
			t := f.info.ModTime().UTC()
			if s.Oldest.IsZero() || t.Before(s.Oldest) {
				s.Oldest = t
			}
			if t.After(s.Newest) {
				s.Newest = t
			}
		}
	}
	return s, ctx.Err()
}

// GCOptions are the limits of a store. A zero limit is no limit.
type GCOptions struct {
	MaxBytes int64         // size of all entries and blobs
	MaxAge   time.Duration // since an entry was last used
	Grace    time.Duration // see DefaultGrace
}

// GCReport is the result of GC.
type GCReport struct {
	RemovedEntries, RemovedBlobs int
	RemovedBytes                 int64
	KeptEntries, KeptBlobs       int
	KeptBytes                    int64
}

// GC removes the least recently used entries beyond the limits, damaged
// entries, and blobs and temporary files that are older than the grace period
// and belong to no entry. Readers and writers may be at work; a blob of an
// entry that is kept is never removed, also if the entry was to be removed and
// is used or replaced meanwhile. Of two at once, the second one waits.
func (d *Disk) GC(ctx context.Context, o GCOptions) (*GCReport, error) {
	unlock, err := d.mayRemove()
	if err != nil {
		return nil, err
	}
	defer unlock()
	return d.gc(ctx, o)
}

// gc is GC for a directory that is locked.
func (d *Disk) gc(ctx context.Context, o GCOptions) (*GCReport, error) {
	now := time.Now()
	// Entries are listed before blobs: a blob that an entry names after this
	// moment was written after it too, hence is young.
	var lists [3][]file
	for i, sub := range []string{"ac", "cas", "tmp"} {
		l, err := d.list(ctx, sub)
		if err != nil {
			return nil, err
		}
		lists[i] = l
	}
	acs, cas, tmp := lists[0], lists[1], lists[2]
	r := new(GCReport)
	drop, refs, err := d.choose(ctx, acs, cas, o, now)
	if err != nil {
		return nil, err
	}
	remove := func(f file, n *int) (removed bool, err error) {
		removed, err = d.remove(f)
		if removed {
			*n++
			r.RemovedBytes += f.info.Size()
		}
		return removed, errors.Join(err, ctx.Err())
	}
	d.step("remove entries")
	for _, f := range drop {
		removed, err := remove(f, &r.RemovedEntries)
		if err != nil {
			return r, err
		}
		if removed {
			continue
		}
		// It has been used or replaced since it was listed, and needs its blobs.
		digests, err := d.digests(f.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !IsMiss(err) {
			return r, err
		}
		for _, dg := range digests {
			refs[dg.Hash]++
		}
	}
	d.step("remove blobs")
	for i, f := range slices.Concat(cas, tmp) {
		d.Progress(i, len(cas)+len(tmp))
		if refs[filepath.Base(f.path)] > 0 || now.Sub(f.info.ModTime()) < o.Grace || isOwn(f.info) {
			continue
		}
		if _, err := remove(f, &r.RemovedBlobs); err != nil {
			return r, err
		}
	}
	s, err := d.Stat(ctx)
	if err != nil {
		return r, err
	}
	r.KeptEntries, r.KeptBlobs, r.KeptBytes = s.Entries, s.Blobs, s.Bytes
	return r, nil
}

// choose returns the entries of acs to remove, and how many of the others need each blob.
func (d *Disk) choose(ctx context.Context, acs, cas []file, o GCOptions, now time.Time) (drop []file, refs map[string]int, err error) {
	sizes := map[string]int64{} // of blobs
	for _, f := range cas {
		sizes[filepath.Base(f.path)] = f.info.Size()
	}
	type entry struct {
		file
		digests []*repb.Digest
	}
	var entries []entry
	refs = map[string]int{}
	var total int64
	for i, f := range acs {
		d.Progress(i, len(acs))
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		digests, err := d.digests(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil && !IsMiss(err) {
			return nil, nil, err
		}
		if err != nil || o.MaxAge > 0 && now.Sub(f.info.ModTime()) > o.MaxAge {
			drop = append(drop, f)
			continue
		}
		entries = append(entries, entry{f, digests})
		total += f.info.Size()
		for _, dg := range digests {
			if refs[dg.Hash]++; refs[dg.Hash] == 1 {
				total += sizes[dg.Hash]
			}
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return a.info.ModTime().Compare(b.info.ModTime()) })
	for o.MaxBytes > 0 && total > o.MaxBytes && len(entries) > 0 {
		e := entries[0]
		entries = entries[1:]
		drop = append(drop, e.file)
		total -= e.info.Size()
		for _, dg := range e.digests {
			if refs[dg.Hash]--; refs[dg.Hash] == 0 {
				total -= sizes[dg.Hash]
			}
		}
	}
	return drop, refs, nil
}

// lockName is a file in tmp that GC and Verify lock while they remove files: remove takes a file
// out of its place for a moment, and another GC that lists entries at that moment
// would take its blobs for garbage.
const lockName = "lock"

// mayRemove returns an error unless everything in the directory is tasting's, and waits
// until no other process removes files.
func (d *Disk) mayRemove() (unlock func(), err error) {
	names, err := os.ReadDir(d.dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(names) == 0 {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(names, func(e fs.DirEntry) bool { return e.Name() == marker }) {
		return d.lock(syscall.LOCK_EX)
	}
	return nil, fmt.Errorf("%s: not removing anything: the directory was not created by tasting and may hold other things, like Bazel's --disk_cache. If all of it is tasting's, create the file %s in it", d.dir, marker)
}

// remove removes f unless it was replaced or used since it was listed. The
// check comes after a rename, so that no replacement can slip in between.
func (d *Disk) remove(f file) (bool, error) {
	tmp := d.tmpName()
	err := os.Rename(f.path, tmp)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer os.Remove(tmp)
	info, err := os.Lstat(tmp)
	if err != nil {
		return false, err
	}
	if os.SameFile(info, f.info) && info.ModTime().Equal(f.info.ModTime()) {
		return true, nil
	}
	// If there is a file again, it is a newer one.
	if err := os.Link(tmp, f.path); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, os.Rename(tmp, f.path)
	}
	return false, nil
}

// readKey reads the entry in a file below ac.
func (d *Disk) readKey(path string) (Key, *repb.ActionResult, error) {
	key, err := ParseKey(filepath.Base(path))
	if err != nil || d.acPath(key) != path {
		return key, nil, fmt.Errorf("%w: %s is not the name of an entry", ErrCorrupt, path)
	}
	data, err := readEntryFile(path)
	if err != nil {
		return key, nil, err
	}
	e, err := readEntry(key, data)
	return key, e, err
}

// digests returns the digests of the contents of an entry, each once.
func (d *Disk) digests(path string) ([]*repb.Digest, error) {
	_, e, err := d.readKey(path)
	if err != nil {
		return nil, err
	}
	return digestsOf(e), nil
}

// Problem is something that Verify found.
type Problem struct {
	Path    string // of the entry or blob
	Err     error  // ErrCorrupt or ErrIncomplete, with the details
	Removed bool
}

// Verify reads and hashes everything in the store and returns the problems,
// sorted by path. With remove, damaged blobs and entries that are damaged or
// incomplete are removed.
func (d *Disk) Verify(ctx context.Context, remove bool) ([]Problem, error) {
	if remove {
		unlock, err := d.mayRemove()
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	var problems []Problem
	found := func(f file, err error) error {
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil // fine, or gone meanwhile
		}
		if !IsMiss(err) {
			return err
		}
		p := Problem{Path: f.path, Err: err}
		if remove {
			if p.Removed, err = d.remove(f); err != nil {
				return err
			}
		}
		problems = append(problems, p)
		return nil
	}
	// Blobs first: an entry whose blob has just been removed is incomplete.
	cas, err := d.list(ctx, "cas")
	if err != nil {
		return nil, err
	}
	for i, f := range cas {
		d.Progress(i, len(cas))
		if err := ctx.Err(); err != nil {
			return problems, err
		}
		if err := found(f, d.verifyBlob(f.path)); err != nil {
			return problems, err
		}
	}
	acs, err := d.list(ctx, "ac")
	if err != nil {
		return nil, err
	}
	for _, f := range acs {
		// The contents of blobs have been checked.
		key, e, err := d.readKey(f.path)
		if err == nil {
			err = d.check(ctx, key, e)
		}
		if err := found(f, err); err != nil {
			return problems, err
		}
	}
	slices.SortFunc(problems, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
	return problems, nil
}

func (d *Disk) verifyBlob(path string) error {
	hash := filepath.Base(path)
	if len(hash) < 2 || d.casPath(hash) != path {
		return fmt.Errorf("%w: %s is not the name of a blob", ErrCorrupt, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return checkBlob(f, hash, -1)
}

func (d *Disk) check(_ context.Context, key Key, e *repb.ActionResult) error {
	for _, dg := range digestsOf(e) {
		info, err := os.Stat(d.casPath(dg.Hash))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: entry %s: blob %s is missing", ErrIncomplete, key, dg.Hash)
		}
		if err != nil {
			return err
		}
		if info.Size() != dg.SizeBytes {
			return fmt.Errorf("%w: entry %s: blob %s has %d bytes, want %d", ErrCorrupt, key, dg.Hash, info.Size(), dg.SizeBytes)
		}
	}
	return nil
}
