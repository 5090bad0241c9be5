package fingerprint

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/packed"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/stamp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
)

// A Memory keeps compositions of tests in a file, so that ComposeAll reads the
// manifests of a test only if they are new. The key of a composition has the contents
// of all manifests and links of the test, and its flags. A file belongs to one version
// of this program.
//
// A damaged file is an empty memory.
type Memory struct {
	file    string
	program string
	kept    remembered
	changed bool
}

// remembered is the content of the file.
type remembered struct {
	// Program is the stamp of the program that wrote the file.
	Program string
	Tests   map[string]*rememberedTest
	Inputs  map[string]*rememberedInput // by name and content of the manifest
}

type rememberedTest struct {
	Code *summary
	Used int64 // seconds since 1970
}

// A rememberedInput was used when the last of its tests was, or later.
type rememberedInput struct {
	Input *input
	Used  int64
}

// maxRemembered is the number of tests that are kept. Those that were used last stay.
const maxRemembered = 20000

// OpenMemory reads a memory from a file. It returns nil, which is no memory, if this
// program has no stamp.
func OpenMemory(file string) *Memory {
	// This is the file that runs, even if another file has replaced it.
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
	if b, err := wholefile.ReadSealed(file); err == nil {
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
		m.kept.Inputs = map[string]*rememberedInput{}
	}
	return m
}

func decodeMemory(b []byte) (r remembered, err error) {
	text, err := packed.Unpack(b, 1<<30)
	if err != nil {
		return r, err
	}
	err = json.Unmarshal(text, &r)
	for k, t := range r.Tests {
		if t == nil || t.Code == nil {
			delete(r.Tests, k)
		}
	}
	for k, x := range r.Inputs {
		if x == nil || x.Input == nil {
			delete(r.Inputs, k)
		}
	}
	return r, err
}

// Save writes the file of m if it has changed.
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
	first := int64(math.MaxInt64)
	for _, t := range m.kept.Tests {
		first = min(first, t.Used)
	}
	maps.DeleteFunc(m.kept.Inputs, func(_ string, x *rememberedInput) bool { return x.Used < first })
	text, err := json.Marshal(&m.kept)
	if err != nil {
		return err
	}
	b, err := packed.Pack(text)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.file), 0o777); err != nil {
		return err
	}
	if err := wholefile.WriteSealed(m.file, b, 0o600); err != nil {
		return err
	}
	m.changed = false
	return nil
}

// recalled is the part of a memory for the tests of an invocation.
type recalled struct {
	tests  []recalledTest
	inputs map[string]*input // by name of the manifest
}

type recalledTest struct {
	key       string   // "" if the test can't be remembered
	inputKeys []string // of its manifests
	summary   *summary // nil if the test isn't remembered
	known     bool     // the test was remembered
}

// recall looks up the tests of a batch.
func (m *Memory) recall(b *batch) *recalled {
	r := &recalled{tests: make([]recalledTest, len(b.tests)), inputs: map[string]*input{}}
	if m == nil {
		return r
	}
	parallel(len(b.files), func(i int) { _, _ = b.data.digest(b.files[i]) }) // fills the cache
	for i, t := range b.tests {
		if b.linked[i] == nil || t.Idle != nil {
			continue
		}
		of := &r.tests[i]
		key, err := codeKey(t, b.linked[i], b.links)
		if taken := b.taken[i]; taken != nil {
			key.String(taken.Name)
			key.Int(int(taken.AsNeeded))
			key.Strings(taken.Wants)
			key.Flag(isGNU(taken))
			key.Flag(mayExport(taken))
		}
		for _, f := range b.manifests[i] {
			d, e := b.data.digest(f)
			err = cmp.Or(err, e) // the reader of the manifest reports e
			key.String(f)
			key.String(d.sum)
			of.inputKeys = append(of.inputKeys, f+" "+d.sum)
		}
		if err != nil {
			continue
		}
		sum := key.Sum()
		of.key = hex.EncodeToString(sum[:])
		x := m.kept.Tests[of.key]
		if x == nil || slices.ContainsFunc(of.inputKeys, func(k string) bool { return m.kept.Inputs[k] == nil }) {
			continue
		}
		of.summary, of.known = x.Code, true
		for n, k := range of.inputKeys {
			r.inputs[b.manifests[i][n]] = m.kept.Inputs[k].Input
		}
	}
	return r
}

// ErrNoText is the error for names that aren't UTF-8.
var ErrNoText = errors.New("a name that is no text")

// IsText reports whether all strings in JSON were valid UTF-8 when they were encoded. JSON has one
// letter for all invalid bytes; Go's encoder writes it unescaped since version 1.27.
func IsText(b []byte) bool {
	return !bytes.Contains(b, []byte(`\ufffd`)) && !bytes.ContainsRune(b, '\ufffd')
}

// isIntact reports whether all strings in x survive JSON.
func isIntact(x any) bool {
	b, err := json.Marshal(x)
	return err == nil && IsText(b)
}

// codeKey begins the key of a test with everything that its closure depends on, except
// for its manifests.
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
		b.Int(len(f.responseFiles))
		for _, o := range f.responseFiles {
			b.String(o.name)
			b.Bytes(o.sum[:])
		}
	}
	return b, err
}

// remember adds new compositions, if the manifests still have the digests of the keys.
func (m *Memory) remember(r *recalled, inputs map[string]*input) {
	if m == nil {
		return
	}
	now := time.Now().Unix()
	same := map[string]bool{}
	for _, t := range r.tests {
		if t.key == "" || t.summary == nil {
			continue
		}
		if t.known {
			// A used test stays. Its time of use is saved at most once a day.
			x := m.kept.Tests[t.key]
			m.changed = m.changed || now-x.Used > 24*60*60
			x.Used = now
			for _, k := range t.inputKeys {
				m.kept.Inputs[k].Used = now
			}
			continue
		}
		good := isIntact(t.summary)
		for _, k := range t.inputKeys {
			if _, done := same[k]; !done {
				file := k[:len(k)-2*sha256.Size-1]
				now, err := digest(file)
				same[k] = err == nil && k == file+" "+now.sum && inputs[file] != nil && inputs[file].err == nil && isIntact(inputs[file])
			}
			good = good && same[k]
		}
		if !good {
			continue
		}
		for _, k := range t.inputKeys {
			m.kept.Inputs[k] = &rememberedInput{inputs[k[:len(k)-2*sha256.Size-1]], now}
		}
		m.kept.Tests[t.key] = &rememberedTest{Code: t.summary, Used: now}
		m.changed = true
	}
}
