package fingerprint

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/packed"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/stamp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
)

// A Memory keeps what the code of tests came to, in a file, so that ComposeAll only
// hashes what it has to look at. What is remembered belongs to the contents of all
// manifests and links of a test, to how it is linked, and to this program.
//
// Whatever is wrong with the file, there is less to remember.
type Memory struct {
	file    string
	program string
	kept    remembered
	changed bool
}

// remembered is the content of the file.
type remembered struct {
	// Program is the state of the program that has written it.
	Program string
	Tests   map[string]*rememberedTest
	Inputs  map[string]*input // by file and content of manifests
}

type rememberedTest struct {
	Code   *summary
	Used   int64    // seconds since 1970
	Inputs []string // keys of its manifests
}

// maxRemembered is how many tests are remembered, those that were used last.
const maxRemembered = 20000

// OpenMemory reads what is remembered in a file. There is no memory, nil, if it isn't
// known what this program is.
func OpenMemory(file string) *Memory {
	// The file that runs, even if another one is in its place by now.
	program := "/proc/self/exe"
	s, err := stamp.Of(program)
	if err != nil {
		if program, err = os.Executable(); err == nil {
			s, err = stamp.Of(program)
		}
	}
	if err != nil {
		return nil
	}
	m := &Memory{file: file, program: s.Exact()}
	if b, err := os.ReadFile(file); err == nil {
		m.kept, _ = decodeMemory(b)
	}
	if m.kept.Program != m.program {
		m.kept = remembered{}
	}
	m.kept.Program = m.program
	if m.kept.Tests == nil {
		m.kept.Tests = map[string]*rememberedTest{}
	}
	if m.kept.Inputs == nil {
		m.kept.Inputs = map[string]*input{}
	}
	return m
}

var errMemory = errors.New("damaged")

func decodeMemory(b []byte) (r remembered, err error) {
	if len(b) < sha256.Size {
		return r, errMemory
	}
	if sum := sha256.Sum256(b[sha256.Size:]); !bytes.Equal(sum[:], b[:sha256.Size]) {
		return r, errMemory
	}
	text, err := packed.Unpack(b[sha256.Size:], 1<<30)
	if err != nil {
		return r, err
	}
	err = json.Unmarshal(text, &r)
	for k, t := range r.Tests {
		if t == nil || t.Code == nil {
			delete(r.Tests, k)
		}
	}
	return r, err
}

// Save writes what has been remembered since it was opened.
func (m *Memory) Save() error {
	if m == nil || !m.changed {
		return nil
	}
	if n := len(m.kept.Tests); n > maxRemembered {
		l := slices.SortedFunc(maps.Keys(m.kept.Tests), func(a, b string) int {
			return cmp.Or(cmp.Compare(m.kept.Tests[a].Used, m.kept.Tests[b].Used), cmp.Compare(a, b))
		})
		for _, k := range l[:n-maxRemembered] {
			delete(m.kept.Tests, k)
		}
	}
	used := map[string]*input{}
	for _, t := range m.kept.Tests {
		for _, k := range t.Inputs {
			used[k] = m.kept.Inputs[k]
		}
	}
	m.kept.Inputs = used
	text, err := json.Marshal(&m.kept)
	if err != nil {
		return err
	}
	b, err := packed.Pack(text)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	if err := os.MkdirAll(filepath.Dir(m.file), 0o777); err != nil {
		return err
	}
	if err := wholefile.Write(m.file, append(sum[:], b...), 0o600); err != nil {
		return err
	}
	m.changed = false
	return nil
}

// recalled is what is remembered of the tests of an invocation.
type recalled struct {
	keys      []string   // of the tests; "" if one isn't to be remembered
	inputKeys [][]string // of their manifests
	summaries []*summary // nil if nothing is remembered
	inputs    map[string]*input
	before    []bool // that were remembered
}

// recall looks up the tests of a batch.
func (m *Memory) recall(b *batch) *recalled {
	tests, manifests, files := b.tests, b.manifests, b.files
	r := &recalled{summaries: make([]*summary, len(tests)), inputs: map[string]*input{}}
	if m == nil {
		return r
	}
	r.keys, r.inputKeys, r.before = make([]string, len(tests)), make([][]string, len(tests)), make([]bool, len(tests))
	sums := make([]string, len(files))
	parallel(len(files), func(i int) { sums[i], _, _ = digest(files[i]) })
	digests := map[string]string{}
	for i, f := range files {
		digests[f] = sums[i]
	}
	for i, t := range tests {
		if b.linked[i] == nil || t.Idle != nil {
			continue
		}
		key, err := codeKey(t, b.linked[i], b.links)
		if taken := b.taken[i]; taken != nil {
			key.String(taken.Name)
			key.Int(int(taken.AsNeeded))
			key.Strings(taken.Wants)
			key.Flag(isGNU(taken))
		}
		for _, f := range manifests[i] {
			if digests[f] == "" {
				err = errMemory // who reads it says what is wrong
			}
			key.String(f)
			key.String(digests[f])
			r.inputKeys[i] = append(r.inputKeys[i], f+" "+digests[f])
		}
		if err != nil {
			continue
		}
		sum := key.Sum()
		r.keys[i] = hex.EncodeToString(sum[:])
		x := m.kept.Tests[r.keys[i]]
		if x == nil || slices.ContainsFunc(r.inputKeys[i], func(k string) bool { return m.kept.Inputs[k] == nil }) {
			continue
		}
		r.summaries[i], r.before[i] = x.Code, true
		for n, k := range r.inputKeys[i] {
			r.inputs[manifests[i][n]] = m.kept.Inputs[k]
		}
	}
	return r
}

// ErrNoText is the error for names that JSON can't hold.
var ErrNoText = errors.New("a name that is no text")

// IsText tells whether what was made JSON of had text in it only: JSON has the same
// letter for all bytes that are none, which Go's encoder writes as it is since version 1.27.
func IsText(b []byte) bool {
	return !bytes.Contains(b, []byte(`\ufffd`)) && !bytes.ContainsRune(b, '\ufffd')
}

// intact tells whether x can be kept as it is.
func intact(x any) bool {
	b, err := json.Marshal(x)
	return err == nil && IsText(b)
}

// codeKey begins the key of a test with all that decides about its closure, but for
// its manifests.
func codeKey(t *Test, files []*linkedFile, known map[string]*link) (frame.Buffer, error) {
	b := frame.New("tasting remembered composition 3")
	text, err := json.Marshal(t)
	if !IsText(text) {
		err = ErrNoText
	}
	b.Bytes(text)
	for _, name := range t.Links {
		b.Bytes(known[name].sum[:])
	}
	b.Int(len(files))
	for _, f := range files {
		b.Flag(f.opened)
		b.Int(len(f.read))
		for _, o := range f.read {
			b.String(o.name)
			b.Bytes(o.sum[:])
		}
	}
	return b, err
}

// remember keeps what has been found out, if the manifests are still those whose
// digests are in the keys.
func (m *Memory) remember(r *recalled, inputs map[string]*input) {
	if m == nil {
		return
	}
	now := time.Now().Unix()
	same := map[string]bool{}
	for i, key := range r.keys {
		if key == "" || r.summaries[i] == nil {
			continue
		}
		if r.before[i] {
			// Who is used stays; that needn't be written down each time.
			x := m.kept.Tests[key]
			m.changed = m.changed || now-x.Used > 24*60*60
			x.Used = now
			continue
		}
		good := intact(r.summaries[i])
		for _, k := range r.inputKeys[i] {
			if _, done := same[k]; !done {
				file := k[:len(k)-2*sha256.Size-1]
				sum, _, err := digest(file)
				same[k] = err == nil && k == fmt.Sprintf("%s %s", file, sum) && inputs[file] != nil && inputs[file].err == nil && intact(inputs[file])
			}
			good = good && same[k]
		}
		if !good {
			continue
		}
		for _, k := range r.inputKeys[i] {
			m.kept.Inputs[k] = inputs[k[:len(k)-2*sha256.Size-1]]
		}
		m.kept.Tests[key] = &rememberedTest{Code: r.summaries[i], Used: now, Inputs: r.inputKeys[i]}
		m.changed = true
	}
}
