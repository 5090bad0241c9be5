package trace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Format is the version of the form in which traces are written.
const Format = 1

type document struct {
	Format int `json:"tastingTrace"`
	*Trace
}

// lines breaks lines before files and functions. None of these texts is inside a JSON string, where quotes are escaped.
var lines = strings.NewReplacer(`"files":[{`, "\"files\":[\n{", `]},{"name":`, "]},\n{\"name\":", `{"address":`, "\n {\"address\":", `,"gaveUp":`, ",\n\"gaveUp\":")

// Marshal encodes a trace as JSON with a line per function. Equal traces give equal bytes.
func (t *Trace) Marshal() ([]byte, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	d := document{Format, &Trace{t.Naive, append([]File{}, t.Files...), t.GaveUp}} // an empty list isn't null
	for i := range d.Files {
		d.Files[i].Executed = append([]Function{}, d.Files[i].Executed...)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(d)
	return []byte(lines.Replace(b.String())), err
}

// Unmarshal reads what Marshal wrote, and nothing else: any other bytes are an error.
func Unmarshal(b []byte) (*Trace, error) {
	var version struct {
		Format int `json:"tastingTrace"`
	}
	if err := json.Unmarshal(b, &version); err != nil {
		return nil, fmt.Errorf("this is no trace: %w", err)
	}
	if version.Format != Format {
		return nil, fmt.Errorf("this is a trace of format %d, or none: want format %d; collect it again", version.Format, Format)
	}
	d := document{Trace: new(Trace)}
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("the trace is damaged: %w", err)
	}
	again, err := d.Trace.Marshal()
	if err != nil {
		return nil, fmt.Errorf("the trace is damaged: %w", err)
	}
	if !bytes.Equal(again, b) {
		return nil, errors.New("the trace is damaged: that isn't how it was written")
	}
	return d.Trace, nil
}

// check returns an error if there can't be such a trace.
func (t *Trace) check() error {
	if !ascending(t.Files, compareFiles) {
		return errors.New("files aren't sorted")
	}
	if !ascending(t.GaveUp, strings.Compare) {
		return errors.New("reasons aren't sorted")
	}
	for _, f := range t.Files {
		kind, hex, _ := strings.Cut(f.ID, ":")
		switch {
		case f.Name == "" || strings.ContainsRune(f.Name, '/'):
			return fmt.Errorf("a file is called %q", f.Name)
		case kind != "build-id" && kind != "sha256" || hex == "" || strings.Trim(hex, "0123456789abcdef") != "":
			return fmt.Errorf("%s has the ID %q", f.Name, f.ID)
		case f.Functions < 0 || f.Unseen < 0:
			return fmt.Errorf("%s has less than nothing", f.Name)
		case !ascending(f.Executed, compareFunctions):
			return fmt.Errorf("functions of %s aren't sorted", f.Name)
		}
		for _, x := range f.Executed {
			if len(x.Symbols) == 0 || !ascending(x.Symbols, compareSymbols) {
				return fmt.Errorf("names of a function of %s aren't sorted", f.Name)
			}
			for _, s := range x.Symbols {
				if s.Name == "" || strings.ContainsRune(s.Unit, '/') {
					return fmt.Errorf("a function of %s has the name %q and the unit %q", f.Name, s.Name, s.Unit)
				}
			}
		}
	}
	return nil
}

func compareFiles(a, b File) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
}

func compareFunctions(a, b Function) int { return cmp.Compare(a.Address, b.Address) }

func compareSymbols(a, b Symbol) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Unit, b.Unit))
}

// ascending reports whether each element is greater than the one in front of it, so that none is there twice.
func ascending[T any](l []T, compare func(a, b T) int) bool {
	for i := range l[min(1, len(l)):] {
		if compare(l[i], l[i+1]) >= 0 {
			return false
		}
	}
	return true
}

// normalise sorts everything.
func (t *Trace) normalise() {
	for i := range t.Files {
		f := &t.Files[i]
		for k := range f.Executed {
			x := &f.Executed[k]
			slices.SortFunc(x.Symbols, compareSymbols)
			x.Symbols = slices.Compact(x.Symbols)
		}
		slices.SortFunc(f.Executed, compareFunctions)
	}
	slices.SortFunc(t.Files, compareFiles)
	slices.Sort(t.GaveUp)
	t.GaveUp = slices.Compact(t.GaveUp)
}
