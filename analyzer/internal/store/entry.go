package store

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// maxEntry bounds the size in bytes of an entry that is read: a thousand files
// with long names fit.
const maxEntry = 4 << 20

// blob is a content and its digest.
type blob struct {
	digest  *repb.Digest
	content *io.SectionReader
}

// newEntry describes r, recorded under key, as an ActionResult and returns the
// blobs it refers to, without duplicates.
func newEntry(key Key, r *Result) (*repb.ActionResult, []blob, error) {
	contents := map[string]*io.SectionReader{}
	add := func(c *io.SectionReader) (*repb.Digest, error) {
		d, err := digestOf(c)
		if err == nil {
			contents[d.Hash] = c
		}
		return d, err
	}
	if r.Log == nil {
		return nil, nil, fmt.Errorf("result for %s has no log", key)
	}
	log, err := add(r.Log)
	if err != nil {
		return nil, nil, err
	}
	e := &repb.ActionResult{
		ExitCode:     int32(r.ExitCode),
		StdoutDigest: log,
		ExecutionMetadata: &repb.ExecutedActionMetadata{
			Worker:                      cmp.Or(r.Host, "unknown"), // some servers replace an empty one, which would be damage
			ExecutionStartTimestamp:     timestamppb.New(r.Start),
			ExecutionCompletedTimestamp: timestamppb.New(r.End),
		},
	}
	files := slices.Clone(r.Files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for _, f := range files {
		d, err := add(f.Content)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		e.OutputFiles = append(e.OutputFiles, &repb.OutputFile{Path: f.Path, Digest: d, IsExecutable: f.Executable})
	}
	if err := checkEntry(e); err != nil {
		return nil, nil, err
	}
	sum := checksum(key, e)
	any, err := anypb.New(wrapperspb.Bytes(sum[:]))
	if err != nil {
		return nil, nil, err
	}
	e.ExecutionMetadata.AuxiliaryMetadata = []*anypb.Any{any}
	var blobs []blob
	for _, d := range digestsOf(e) {
		blobs = append(blobs, blob{d, contents[d.Hash]})
	}
	return e, blobs, nil
}

// digestOf hashes c.
func digestOf(c *io.SectionReader) (*repb.Digest, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(c, 0, c.Size()))
	if err != nil {
		return nil, err
	}
	return &repb.Digest{Hash: hex.EncodeToString(h.Sum(nil)), SizeBytes: n}, nil
}

// checksum covers every field of an entry that a reader uses, and the key that
// it was written for. Without it, an entry that was cut off between two fields
// (a crash before the data reached the disk) would be a valid protobuf message
// of a shorter result.
func checksum(key Key, e *repb.ActionResult) [sha256.Size]byte {
	b := frame.New("tasting store entry 1")
	b.Bytes(key[:])
	b.Uint(uint64(uint32(e.ExitCode)))
	b.String(e.ExecutionMetadata.Worker)
	for _, t := range []*timestamppb.Timestamp{e.ExecutionMetadata.ExecutionStartTimestamp, e.ExecutionMetadata.ExecutionCompletedTimestamp} {
		b.Uint(uint64(t.Seconds))
		b.Uint(uint64(uint32(t.Nanos)))
	}
	digest := func(d *repb.Digest) {
		b.String(d.Hash)
		b.Uint(uint64(d.SizeBytes))
	}
	digest(e.StdoutDigest)
	b.Int(len(e.OutputFiles))
	for _, f := range e.OutputFiles {
		b.String(f.Path)
		digest(f.Digest)
		b.Flag(f.IsExecutable)
	}
	return b.Sum()
}

// readEntry parses and checks the entry of key. The blobs it names may still be
// missing or wrong.
func readEntry(key Key, data []byte) (*repb.ActionResult, error) {
	if len(data) > maxEntry {
		return nil, fmt.Errorf("%w: entry %s is larger than %d bytes", ErrCorrupt, key, maxEntry)
	}
	e := new(repb.ActionResult)
	if err := proto.Unmarshal(data, e); err != nil {
		return nil, fmt.Errorf("%w: entry %s: %v", ErrCorrupt, key, err)
	}
	if err := checkEntry(e); err != nil {
		return nil, fmt.Errorf("%w: entry %s: %v", ErrCorrupt, key, err)
	}
	aux := e.ExecutionMetadata.AuxiliaryMetadata
	want := new(wrapperspb.BytesValue)
	if len(aux) != 1 || aux[0].UnmarshalTo(want) != nil {
		return nil, fmt.Errorf("%w: entry %s: no checksum", ErrCorrupt, key)
	}
	if sum := checksum(key, e); !bytes.Equal(sum[:], want.Value) {
		return nil, fmt.Errorf("%w: entry %s: wrong checksum", ErrCorrupt, key)
	}
	return e, nil
}

// checkEntry checks everything that can be checked without the blobs. It is
// applied to what is written as well, so that nothing unreadable is stored.
func checkEntry(e *repb.ActionResult) error {
	m := e.ExecutionMetadata
	if m == nil || m.ExecutionStartTimestamp == nil || m.ExecutionCompletedTimestamp == nil {
		return fmt.Errorf("no execution metadata")
	}
	for _, t := range []*timestamppb.Timestamp{m.ExecutionStartTimestamp, m.ExecutionCompletedTimestamp} {
		if err := t.CheckValid(); err != nil {
			return err
		}
	}
	if err := checkDigest(e.StdoutDigest); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	sizes := map[string]int64{e.StdoutDigest.Hash: e.StdoutDigest.SizeBytes}
	for i, f := range e.OutputFiles {
		if !fs.ValidPath(f.Path) || f.Path == "." || strings.ContainsAny(f.Path, "\x00\\") {
			return fmt.Errorf("file %q: not a clean relative path", f.Path)
		}
		if err := checkDigest(f.Digest); err != nil {
			return fmt.Errorf("file %s: %w", f.Path, err)
		}
		if size, ok := sizes[f.Digest.Hash]; ok && size != f.Digest.SizeBytes {
			return fmt.Errorf("blob %s: two sizes", f.Digest.Hash)
		}
		sizes[f.Digest.Hash] = f.Digest.SizeBytes
		if i > 0 && e.OutputFiles[i-1].Path >= f.Path {
			return fmt.Errorf("file %s: files are not in order", f.Path)
		}
	}
	return nil
}

func checkDigest(d *repb.Digest) error {
	if d == nil {
		return fmt.Errorf("no digest")
	}
	// The hash becomes a file name: it must be nothing but hex.
	if b, err := hex.DecodeString(d.Hash); err != nil || len(b) != sha256.Size || strings.ToLower(d.Hash) != d.Hash {
		return fmt.Errorf("%q is not a SHA-256", d.Hash)
	}
	if d.SizeBytes < 0 {
		return fmt.Errorf("size %d", d.SizeBytes)
	}
	return nil
}

// digestsOf returns the digests of the contents of e, each once.
func digestsOf(e *repb.ActionResult) []*repb.Digest {
	l := []*repb.Digest{e.StdoutDigest}
	seen := map[string]bool{e.StdoutDigest.Hash: true}
	for _, f := range e.OutputFiles {
		if !seen[f.Digest.Hash] {
			seen[f.Digest.Hash] = true
			l = append(l, f.Digest)
		}
	}
	return l
}

// nonEmptyDigests returns the digests of the contents of e that aren't empty.
func nonEmptyDigests(e *repb.ActionResult) []*repb.Digest {
	return slices.DeleteFunc(digestsOf(e), func(d *repb.Digest) bool { return d.SizeBytes == 0 })
}

// newResult builds the result that e describes. Open returns the verified content of a digest, and is
// called once for each.
func newResult(e *repb.ActionResult, open func(*repb.Digest) (*io.SectionReader, io.Closer, error)) (*Result, error) {
	info := infoOf(e)
	r := &Result{ExitCode: info.ExitCode, Host: info.Host, Start: info.Start, End: info.End}
	contents := map[string]*io.SectionReader{}
	for _, d := range digestsOf(e) {
		c, closer, err := open(d)
		if err != nil {
			r.Close()
			return nil, err
		}
		contents[d.Hash] = c
		r.closers = append(r.closers, closer)
	}
	// Readers of one content must not share an offset.
	reader := func(d *repb.Digest) *io.SectionReader { return io.NewSectionReader(contents[d.Hash], 0, d.SizeBytes) }
	r.Log = reader(e.StdoutDigest)
	for _, f := range e.OutputFiles {
		r.Files = append(r.Files, File{Path: f.Path, Executable: f.IsExecutable, Content: reader(f.Digest)})
	}
	return r, nil
}
