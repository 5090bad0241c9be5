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
// A closure file is a compressed Report:
//
//	"tasting closure 3\n"
//	xxHash64 of the rest, in hex, "\n"
//	Key and Run of the report: JSON, "\n"
//	the rest of the report: JSON, by zstd. Links and roots are indices of components.
//
// Equal reports give equal bytes. A version with another content changes the first line.
const closureMagic = "tasting closure 3\n"

// ClosureSuffix is appended to the path of a test's executable to find its
// closure file.
const ClosureSuffix = ".closure"

// maxClosure bounds the bytes of an unpacked closure file.
const maxClosure = 512 << 20

// ErrClosure is wrapped by every error of DecodeClosure.
var ErrClosure = errors.New("not a valid closure file")

// IsClosure reports whether b is the beginning of a closure file, of any version.
func IsClosure(b []byte) bool { return bytes.HasPrefix(b, []byte("tasting closure ")) }

// WriteClosure writes r as a closure file. It returns an error if IDs aren't unique, or a link or root leads nowhere.
func WriteClosure(w io.Writer, r *Report) error {
	b, err := EncodeClosure(r)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

type closureRun struct {
	Key string `json:"key,omitempty"`
	Run []Part `json:"run,omitempty"`
}

// A closureReport is a report by indices.
type closureReport struct {
	Report
	Links [][]int32 // of each component
	Roots []int32   // the components of Report.Roots
}

// EncodeClosure returns the closure file of r. See WriteClosure.
func EncodeClosure(r *Report) ([]byte, error) {
	index := make(map[string]int32, len(r.Components))
	for i, c := range r.Components {
		if _, ok := index[c.ID]; ok {
			return nil, fmt.Errorf("two components have the ID %s", c.ID)
		}
		index[c.ID] = int32(i)
	}
	find := func(what, id string) (int32, error) {
		i, ok := index[id]
		if !ok {
			return 0, fmt.Errorf("%s leads to %s, which is no component", what, id)
		}
		return i, nil
	}
	x := closureReport{Report: *r, Links: make([][]int32, len(r.Components)), Roots: make([]int32, len(r.Roots))}
	x.Key, x.Run = "", nil
	x.Components, x.Report.Roots = slices.Clone(r.Components), slices.Clone(r.Roots)
	var err error
	for i := range x.Components {
		c := &x.Components[i]
		for _, id := range c.Links {
			to, e := find("a link of "+c.ID, id)
			err = errors.Join(err, e)
			x.Links[i] = append(x.Links[i], to)
		}
		c.Links = nil
		if c.Name == c.ID {
			c.Name = ""
		}
	}
	for i := range x.Report.Roots {
		to, e := find("a root", x.Report.Roots[i].Component)
		err = errors.Join(err, e)
		x.Roots[i], x.Report.Roots[i].Component = to, ""
	}
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(&x, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, err
	}
	if text, err = packed.Pack(text); err != nil {
		return nil, err
	}
	return closureFile(closureRun{r.Key, r.Run}, text)
}

func closureFile(run closureRun, report []byte) ([]byte, error) {
	line, err := json.Marshal(run, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, err
	}
	rest := slices.Concat(line, []byte("\n"), report)
	return slices.Concat(fmt.Appendf([]byte(closureMagic), "%016x\n", xxhash.Sum64(rest)), rest), nil
}

// splitClosure takes a closure file apart.
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

// RecordedClosure returns the closure file for a recorded result: the closure file of the build, with the parts of the run.
func RecordedClosure(closure []byte, parts []Part) ([]byte, error) {
	_, report, err := splitClosure(closure)
	if err != nil {
		return nil, err
	}
	return closureFile(closureRun{Run: parts}, report)
}

// DecodeClosure reads a closure file. Every error wraps ErrClosure.
func DecodeClosure(b []byte) (*Report, error) {
	run, report, err := splitClosure(b)
	if err != nil {
		return nil, err
	}
	bad := func(err error) (*Report, error) { return nil, fmt.Errorf("%w: %w", ErrClosure, err) }
	text, err := packed.Unpack(report, maxClosure)
	if err != nil {
		return bad(err)
	}
	var x closureReport
	if err := json.Unmarshal(text, &x, jsontext.AllowInvalidUTF8(true)); err != nil {
		return bad(err)
	}
	var of closureRun
	if err := json.Unmarshal(run, &of, jsontext.AllowInvalidUTF8(true)); err != nil {
		return bad(err)
	}
	r := &x.Report
	r.Key, r.Run = of.Key, of.Run
	if len(x.Links) != len(r.Components) || len(x.Roots) != len(r.Roots) {
		return bad(errors.New("links or roots are missing"))
	}
	seen := make(map[string]bool, len(r.Components))
	for i := range r.Components {
		if seen[r.Components[i].ID] {
			return bad(fmt.Errorf("two components have the ID %s", r.Components[i].ID))
		}
		seen[r.Components[i].ID] = true
	}
	id := func(i int32) string {
		if i < 0 || int(i) >= len(r.Components) {
			err = errors.New("a link or root leads nowhere")
			return ""
		}
		return r.Components[i].ID
	}
	for i, links := range x.Links {
		c := &r.Components[i]
		c.Links = make([]string, len(links))
		for k, to := range links {
			c.Links[k] = id(to)
		}
		if c.Name == "" {
			c.Name = c.ID
		}
	}
	for i, to := range x.Roots {
		r.Roots[i].Component = id(to)
	}
	if err != nil {
		return bad(err)
	}
	return r, nil
}
