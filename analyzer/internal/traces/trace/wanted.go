package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/nameset"
)

// rearmEvery is the number of entered functions of which one gets a breakpoint in the next execution.
const rearmEvery = 8

// Spared returns the functions that get no breakpoint in the next execution of a test, from those that it has entered before.
// They are taken for entered, and cost no stop. One in eight gets a breakpoint again, chosen by the salt (4 bytes or more).
// So a function that the test has stopped entering is soon idle.
func Spared(entered nameset.Set, salt []byte) nameset.Set {
	return entered.Without(rearmEvery, binary.LittleEndian.Uint32(salt))
}

// Entered returns the names of all functions of the trace.
func (t *Trace) Entered() nameset.Set {
	return nameset.Of(func(yield func(string) bool) {
		for _, s := range t.Symbols() {
			if !yield(s.Name) {
				return
			}
		}
	})
}

// Wanted is a test that is to be traced.
type Wanted struct {
	Label   string
	Entered nameset.Set // see Options
}

// wantedFile is the file of a test.
func wantedFile(dir, label string) string {
	sum := sha256.Sum256([]byte(label))
	return filepath.Join(dir, hex.EncodeToString(sum[:16]))
}

// WriteWanted makes a directory in which FindWanted finds these tests, and no others.
func WriteWanted(dir string, tests []Wanted) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, t := range tests {
		if err := os.WriteFile(wantedFile(dir, t.Label), t.Entered.Encode(), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// FindWanted looks up the test with a label. It is fs.ErrNotExist if it isn't there.
func FindWanted(dir, label string) (Wanted, error) {
	file := wantedFile(dir, label)
	b, err := os.ReadFile(file)
	if err != nil {
		return Wanted{}, err
	}
	entered, err := nameset.Decode(b)
	if err != nil {
		return Wanted{}, fmt.Errorf("%s: %w", file, err)
	}
	return Wanted{label, entered}, nil
}
