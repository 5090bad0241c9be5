package store

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var testKey = Key{1, 2, 3}

func testEntry(t testing.TB) *repb.ActionResult {
	content := func(s string) *io.SectionReader {
		return io.NewSectionReader(strings.NewReader(s), 0, int64(len(s)))
	}
	e, blobs, err := newEntry(testKey, &Result{
		Host: "h", Start: time.Unix(1, 2), End: time.Unix(3, 4), Log: content("log"),
		Files: []File{{Path: "a", Content: content("A")}, {Path: "b/c", Content: content("A"), Executable: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(blobs) != 2 {
		t.Fatalf("%d blobs, want 2", len(blobs))
	}
	return e
}

func marshal(t testing.TB, e *repb.ActionResult) []byte {
	b, err := proto.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Someone who can write to the store can also compute checksums: an entry with
// a right checksum still must not lead out of the directories of a test.
func TestReadEntryHostile(t *testing.T) {
	resign := func(e *repb.ActionResult) {
		sum := checksum(testKey, e)
		e.ExecutionMetadata.AuxiliaryMetadata[0], _ = anypb.New(wrapperspb.Bytes(sum[:]))
	}
	if _, err := readEntry(testKey, marshal(t, testEntry(t))); err != nil {
		t.Fatalf("unchanged: %v", err)
	}
	for name, change := range map[string]func(e *repb.ActionResult){
		"parent":           func(e *repb.ActionResult) { e.OutputFiles[0].Path = "../a" },
		"absolute":         func(e *repb.ActionResult) { e.OutputFiles[0].Path = "/a" },
		"inner parent":     func(e *repb.ActionResult) { e.OutputFiles[1].Path = "b/../../c" },
		"empty path":       func(e *repb.ActionResult) { e.OutputFiles[0].Path = "" },
		"dot":              func(e *repb.ActionResult) { e.OutputFiles[0].Path = "." },
		"NUL":              func(e *repb.ActionResult) { e.OutputFiles[0].Path = "a\x00" },
		"twice":            func(e *repb.ActionResult) { e.OutputFiles[1].Path = "a" },
		"unordered":        func(e *repb.ActionResult) { e.OutputFiles[0].Path = "z" },
		"digest is a path": func(e *repb.ActionResult) { e.StdoutDigest.Hash = "../../../../etc/passwd" },
		"short digest":     func(e *repb.ActionResult) { e.StdoutDigest.Hash = "ab" },
		"empty digest":     func(e *repb.ActionResult) { e.OutputFiles[0].Digest.Hash = "" },
		"upper case digest": func(e *repb.ActionResult) {
			e.StdoutDigest.Hash = strings.ToUpper(e.StdoutDigest.Hash)
		},
		"negative size": func(e *repb.ActionResult) { e.StdoutDigest.SizeBytes = -1 },
		"time":          func(e *repb.ActionResult) { e.ExecutionMetadata.ExecutionStartTimestamp.Nanos = -1 },
	} {
		e := testEntry(t)
		change(e)
		resign(e)
		if _, err := readEntry(testKey, marshal(t, e)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
	for name, change := range map[string]func(e *repb.ActionResult){
		"no metadata": func(e *repb.ActionResult) { e.ExecutionMetadata = nil },
		"no checksum": func(e *repb.ActionResult) { e.ExecutionMetadata.AuxiliaryMetadata = nil },
		"no log":      func(e *repb.ActionResult) { e.StdoutDigest = nil },
		"no digest":   func(e *repb.ActionResult) { e.OutputFiles[0].Digest = nil },
		"no time":     func(e *repb.ActionResult) { e.ExecutionMetadata.ExecutionCompletedTimestamp = nil },
		"other checksum": func(e *repb.ActionResult) {
			e.ExecutionMetadata.AuxiliaryMetadata[0], _ = anypb.New(timestamppb.Now())
		},
		// Whoever changes one field without the checksum is noticed.
		"exit code": func(e *repb.ActionResult) { e.ExitCode = 1 },
		"host":      func(e *repb.ActionResult) { e.ExecutionMetadata.Worker = "i" },
		"log size":  func(e *repb.ActionResult) { e.StdoutDigest.SizeBytes++ },
		"file gone": func(e *repb.ActionResult) { e.OutputFiles = e.OutputFiles[:1] },
		"mode":      func(e *repb.ActionResult) { e.OutputFiles[0].IsExecutable = true },
		"start":     func(e *repb.ActionResult) { e.ExecutionMetadata.ExecutionStartTimestamp.Seconds++ },
		"end":       func(e *repb.ActionResult) { e.ExecutionMetadata.ExecutionCompletedTimestamp.Nanos++ },
	} {
		e := testEntry(t)
		change(e)
		if _, err := readEntry(testKey, marshal(t, e)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
	if _, err := readEntry(Key{9}, marshal(t, testEntry(t))); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another key: %v, want ErrCorrupt", err)
	}
}

// bazel-remote fills in an empty worker.
func TestHostIsNeverEmpty(t *testing.T) {
	e, _, err := newEntry(testKey, &Result{Log: io.NewSectionReader(strings.NewReader(""), 0, 0)})
	if err != nil || e.ExecutionMetadata.Worker == "" {
		t.Errorf("%v, %v", e, err)
	}
}

// A server may re-encode an entry, which is not damage.
func TestReadEntryReencoded(t *testing.T) {
	e := new(repb.ActionResult)
	if err := proto.Unmarshal(marshal(t, testEntry(t)), e); err != nil {
		t.Fatal(err)
	}
	if _, err := readEntry(testKey, marshal(t, e)); err != nil {
		t.Error(err)
	}
}

// FuzzReadEntry: whatever the bytes are, reading an entry ends with ErrCorrupt
// or with an entry that keeps to its directory and that we could have written.
func FuzzReadEntry(f *testing.F) {
	valid := marshal(f, testEntry(f))
	f.Add(valid)
	f.Add(valid[:len(valid)/2])
	f.Add([]byte{})
	f.Add([]byte("\x20\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := readEntry(testKey, data)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%v, want ErrCorrupt", err)
			}
			return
		}
		for _, o := range e.OutputFiles {
			if o.Path == "" || o.Path[0] == '/' || strings.Contains("/"+o.Path+"/", "/../") {
				t.Fatalf("path %q", o.Path)
			}
		}
		if _, err := readEntry(testKey, marshal(t, e)); err != nil {
			t.Fatalf("read, but not after writing it again: %v", err)
		}
	})
}
