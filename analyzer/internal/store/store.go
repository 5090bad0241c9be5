// Package store keeps the recorded results of tests.
//
// # What a store promises
//
// A store maps the key of a test, a SHA-256, to the result of an execution
// with that key: its exit code, its log and the files
// it wrote. Since everything that can decide the outcome is in the key,
// the result may be replayed wherever the key is the same.
//
// A wrong replay would be worse than no store at all, so a reader trusts
// nothing: an entry has a checksum over all its fields and the key
// it was written for, and every blob is hashed again before Get returns. A
// mismatch is a miss with an error of its own, and the next Put replaces the entry.
//
// # What is stored
//
// An entry is an ActionResult of the Remote Execution API v2, its contents are
// blobs in a content-addressable store. The backends can therefore be what
// users of Bazel run already: a directory (Disk), a server that speaks Bazel's
// HTTP cache protocol, a server that speaks the API's ActionCache and
// ContentAddressableStorage over gRPC, or several of them one behind the other.
// Open makes a Store of the name of any of these. All of them pass one suite,
// suite_test.go; docs/reference/formats.md describes the entry field by field.
//
// # What a store may cost
//
// A process waits for a server in vain for 5 s (Options.Timeout), all calls taken
// together. Then it makes no more calls, and each method returns why. Time counts as
// lost while the server answers none of the calls under way, and in calls that
// fail. A miss is an answer, and so is each MiB that moves. So a server may be slow,
// but each call ends, and earlier if its context ends.
//
// # Secrets
//
// Values of headers, what credential helpers print and the user part of URLs go
// to the server they are for and nowhere else: not into errors, not into
// anything that a type of this package prints.
package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/packed"
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
	// ErrPartly: of several locations some have recorded the result and some
	// have failed to.
	ErrPartly = errors.New("recorded, but not everywhere")
	// ErrNotAllowed: the mode of the store forbids the call.
	ErrNotAllowed = errors.New("not allowed")
)

// IsMiss reports whether err, from Get, means that the store works but has no
// usable result.
func IsMiss(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrIncomplete) || errors.Is(err, ErrCorrupt)
}

// IsRecorded reports whether err, from Put or RecordPass, means that a result is recorded somewhere.
func IsRecorded(err error) bool {
	return err == nil || errors.Is(err, ErrExists) || errors.Is(err, ErrPartly)
}

// Key is the key of a test's recorded result.
type Key [sha256.Size]byte

// ParseKey parses the lower or upper case hex form of a key.
func ParseKey(s string) (Key, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != sha256.Size {
		return Key{}, fmt.Errorf("%q is not a SHA-256 in hex", s)
	}
	return Key(b), nil
}

// String returns the key in lower case hex.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Result is the result of an execution of a test.
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

// Content returns b as a log or a file of a result.
func Content(b []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b)))
}

// MaxFiles bounds how many files a result has: all of them are open at once.
const MaxFiles = 500

// WriteFile makes a new file below root, and the directories that it is in.
func WriteFile(root *os.Root, name string, executable bool, content io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	mode := fs.FileMode(0o666)
	if executable {
		mode = 0o777
	}
	w, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, content)
	return errors.Join(err, w.Close())
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
	// any other error but ErrPartly the store holds what it held before.
	//
	// If the store is a server, has no hard links or may only be written, two
	// writers at the same moment may both succeed. The last result stays.
	Put(ctx context.Context, key Key, r *Result) error

	// Set is like Put, but replaces a result that is there. It is for entries that
	// inform, and to withdraw a result: by a failed one, or by removing it from a full
	// disk. Of two writers at once one is lost.
	Set(ctx context.Context, key Key, r *Result) error

	// probe returns the result under key as Get does, but without its contents: it only checks that they are there, with the
	// right sizes.
	probe(ctx context.Context, key Key) (*Info, error)
}

// Open returns the store at a location: the absolute path of a directory, an
// http:// or https:// URL of a server that speaks Bazel's HTTP cache protocol,
// a grpc:// or grpcs:// address of one that speaks the Remote Execution API, or
// several of these separated by commas, nearest first (see Layered). Open ignores
// o.Location. The first call of a method connects to a server.
//
// The caller may release connections with Close.
func Open(location string, o Options) (Store, error) {
	parts, err := parseLocation(location)
	if err != nil {
		return nil, err
	}
	if err := o.check(parts); err != nil {
		return nil, err
	}
	stores := make([]Store, len(parts))
	for i, p := range parts {
		if !p.remote() {
			stores[i] = newDisk(p.dir, o.mode())
		} else if stores[i], err = newRemote(p, o); err != nil {
			return nil, err
		}
	}
	if len(stores) == 1 {
		return stores[0], nil
	}
	return &Layered{stores}, nil
}

// Close releases what s keeps between calls: connections to servers.
func Close(s Store) error {
	var err error
	for _, s := range Each(s) {
		if r, ok := s.(*Remote); ok {
			err = errors.Join(err, r.close())
		}
	}
	return err
}

// Document returns v as the log of a result: packed JSON, which ReadDocument reads.
func Document(v any) (*io.SectionReader, error) {
	b, err := json.Marshal(v)
	if err == nil {
		b, err = packed.Pack(b)
	}
	return Content(b), err
}

// SetDocument records v under key, which isn't that of a test.
func SetDocument(ctx context.Context, s Store, key Key, v any) error {
	log, err := Document(v)
	if err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Second)
	return s.Set(ctx, key, &Result{Start: now, End: now, Log: log})
}

// ReadDocument reads into v what Document made. The error is ErrCorrupt for anything else, and for
// more than limit bytes.
func (r *Result) ReadDocument(v any, limit uint64) error {
	if n := r.Log.Size(); uint64(n) > limit {
		return fmt.Errorf("%w: %d bytes", ErrCorrupt, n)
	}
	b, err := io.ReadAll(r.Log)
	if err != nil {
		return err
	}
	if b, err = packed.Unpack(b, limit); err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	return nil
}
