package fingerprint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/packed"
)

// # The closure file
//
// A closure file is a Report in a small part of the space of its JSON:
//
//	"tasting closure 4\n"
//	xxHash64 of the rest, in hex, "\n"
//	Report.Key and Report.Run: JSON, "\n"
//	all other fields of the report: JSON, compressed with zstd
//
// The third line is apart so that the runner can add what a run knows without unpacking the report.
// Equal reports give equal bytes. A new layout gets a new number in the first line.
const closureMagic = "tasting closure 4\n"

// ClosureSuffix is appended to the path of a test's executable to find its
// closure file.
const ClosureSuffix = ".closure"

// maxClosure bounds the size in bytes of an unpacked closure file.
const maxClosure = 512 << 20

// ErrClosure is wrapped by every error of DecodeClosure.
var ErrClosure = errors.New("not a valid closure file")

// IsClosure reports whether b is the beginning of a closure file, of any version.
func IsClosure(b []byte) bool { return bytes.HasPrefix(b, []byte("tasting closure ")) }

// closureRun is the part of a closure file that only a run knows.
type closureRun struct {
	Key string `json:"key,omitempty"`
	Run []Part `json:"run,omitempty"`
}

// WriteClosure writes r as a closure file.
func WriteClosure(w io.Writer, r *Report) error {
	b, err := EncodeClosure(r)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// EncodeClosure returns the closure file of r.
func EncodeClosure(r *Report) ([]byte, error) {
	built := *r
	built.Key, built.Run = "", nil
	text, err := json.Marshal(&built, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, err
	}
	if text, err = packed.Pack(text); err != nil {
		return nil, err
	}
	return joinClosure(closureRun{r.Key, r.Run}, text)
}

// RecordedClosure returns the closure file that is kept beside the result of a
// run: that of the build, with the parts that the run added.
func RecordedClosure(closure []byte, parts []Part) ([]byte, error) {
	_, report, err := splitClosure(closure)
	if err != nil {
		return nil, err
	}
	return joinClosure(closureRun{Run: parts}, report)
}

// DecodeClosure reads a closure file. Every error wraps ErrClosure.
func DecodeClosure(b []byte) (*Report, error) {
	run, report, err := splitClosure(b)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	text, err := packed.Unpack(report, maxClosure)
	if err == nil {
		err = json.Unmarshal(text, r, jsontext.AllowInvalidUTF8(true))
	}
	var x closureRun
	if err == nil {
		err = json.Unmarshal(run, &x, jsontext.AllowInvalidUTF8(true))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrClosure, err)
	}
	r.Key, r.Run = x.Key, x.Run
	return r, nil
}

// joinClosure makes a closure file of its two parts.
func joinClosure(run closureRun, report []byte) ([]byte, error) {
	line, err := json.Marshal(run, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, err
	}
	rest := slices.Concat(line, []byte("\n"), report)
	return slices.Concat(fmt.Appendf([]byte(closureMagic), "%016x\n", xxhash.Sum64(rest)), rest), nil
}

// splitClosure checks a closure file and returns its two parts.
func splitClosure(b []byte) (run, report []byte, err error) {
	magic, rest, _ := bytes.Cut(b, []byte("\n"))
	if IsClosure(b) && string(magic)+"\n" != closureMagic {
		return nil, nil, fmt.Errorf("%w: it is a %q, and this program reads %q", ErrClosure, magic, closureMagic[:len(closureMagic)-1])
	}
	sum, rest, _ := bytes.Cut(rest, []byte("\n"))
	if !IsClosure(b) || string(sum) != fmt.Sprintf("%016x", xxhash.Sum64(rest)) {
		return nil, nil, fmt.Errorf("%w: it is damaged or cut off", ErrClosure)
	}
	run, report, _ = bytes.Cut(rest, []byte("\n"))
	return run, report, nil
}
