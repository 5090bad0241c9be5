package trace

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/nameset"
)

// again is one of how many functions that were entered gets a breakpoint in the next execution.
const again = 8

// Again returns which functions need no breakpoint when a test is executed once more, given what it has entered before: they
// count as entered, and are spared a stop. One in eight is looked at again, others each time by the salt (4 bytes or
// more), so that what isn't entered any more doesn't count for long.
func Again(entered nameset.Set, salt []byte) nameset.Set {
	return entered.Without(again, binary.LittleEndian.Uint32(salt))
}

// Entered returns the names of all functions of the trace.
func (t *Trace) Entered() nameset.Set {
	return nameset.Of(func(yield func(string) bool) {
		for _, f := range t.Files {
			for _, x := range f.Executed {
				for _, s := range x.Symbols {
					if !yield(s.Name) {
						return
					}
				}
			}
		}
	})
}

// Wanted is a test that is to be traced.
type Wanted struct {
	Label   string
	Entered nameset.Set // see Options
}

// EncodeWanted encodes tests: for each a line with its label, a tab, and its functions that count as entered.
func EncodeWanted(tests []Wanted) []byte {
	var b bytes.Buffer
	for _, t := range tests {
		b.WriteString(t.Label + "\t" + base64.StdEncoding.EncodeToString(t.Entered.Encode()) + "\n")
	}
	return b.Bytes()
}

// FindWanted looks the test with a label up in a file of EncodeWanted. It is fs.ErrNotExist if it isn't there.
func FindWanted(file, label string) (Wanted, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return Wanted{}, err
	}
	for line := range bytes.Lines(b) {
		rest, ok := bytes.CutPrefix(line, []byte(label+"\t"))
		if !ok {
			continue
		}
		packed, err := base64.StdEncoding.DecodeString(string(bytes.TrimSuffix(rest, []byte("\n"))))
		if err == nil && !bytes.HasSuffix(rest, []byte("\n")) {
			err = errors.New("it was cut off")
		}
		if err != nil {
			return Wanted{}, err
		}
		entered, err := nameset.Decode(packed)
		return Wanted{label, entered}, err
	}
	return Wanted{}, fs.ErrNotExist
}
