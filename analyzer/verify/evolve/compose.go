package evolve

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
)

// Evidence is what the key of a test is made of.
type Evidence struct {
	// Source uses the manifest of a unit's source, if it has one.
	Source bool
	// Of returns the manifest of a unit, given the one that the analyzer has made: it may be coarser,
	// or, to check the checker, broken. Nil stands for no change. Its ID tells it from others.
	Of func(u *Unit, m *manifest.Manifest) *manifest.Manifest
	ID string
	// IDOf is the ID for one unit, if what Of makes of it isn't the same in all evidence with another
	// ID: "" if that is no change. Nil stands for ID.
	IDOf func(u *Unit) string
	// Test changes what is composed, to check the checker.
	Test func(t *fingerprint.Test)
	// More faults: see Faults.
	sorted, noShared, noArgs bool
	otherCase                bool
	forget                   func(file string, s trace.Symbol) bool
}

// Keys are the keys of tests by an evidence, "" for one that has none: it always runs. They are
// composed together, so that what they have in common is read once.
func Keys(tests []*Built, e *Evidence) ([]string, error) {
	keys := make([]string, len(tests))
	var composed []*fingerprint.Test
	var which []int
	for i, x := range tests {
		if x.Err != nil {
			continue // Bazel says what is wrong
		}
		t, err := x.composed(e)
		if err != nil {
			return nil, err
		}
		composed, which = append(composed, t), append(which, i)
	}
	all, _ := fingerprint.ComposeAll(composed, nil)
	var byObject []int // as tasting test does for what isn't plain C
	for k, c := range all {
		i := which[k]
		switch {
		case c.Err != nil:
			return nil, c.Err
		case c.NotPlain != "":
			byObject = append(byObject, i)
		case len(c.Config.AlwaysRun) == 0:
			key, err := tests[i].key(c.Config, e)
			if err != nil {
				return nil, err
			}
			keys[i] = key
		}
	}
	if len(byObject) > 0 {
		var some []*Built
		for _, i := range byObject {
			some = append(some, tests[i])
		}
		o := *e
		o.Source = false
		again, err := Keys(some, &o)
		if err != nil {
			return nil, err
		}
		for k, i := range byObject {
			keys[i] = again[k]
		}
	}
	return keys, nil
}

func (x *Built) key(c *fingerprint.Config, e *Evidence) (string, error) {
	args := x.Test.Args
	if e.noArgs {
		args = nil
	}
	env := []string{"TEST_TARGET=//:" + x.Test.Name}
	if x.recorded != nil {
		env = append(env, x.recorded.Env...)
	}
	key, err := fingerprint.Key(c, &fingerprint.Run{Args: args, Env: env})
	return fmt.Sprintf("%x", key), err
}

func (b *Builder) linksDir() string { return filepath.Join(b.Dir, "links") }

// composed is what the rules would say of the test.
func (x *Built) composed(e *Evidence) (*fingerprint.Test, error) {
	if x.recorded != nil {
		return x.composedRecorded(e)
	}
	dir := x.b.linksDir()
	t := &fingerprint.Test{Binary: "_main/" + x.Test.Name, Source: e.Source}
	for _, f := range x.Files {
		if e.noShared && f.Kind == "shared" {
			continue
		}
		text, err := x.describe(dir, f, e)
		if err != nil {
			return nil, err
		}
		link, err := x.b.file(dir, f.Name+".link", text)
		if err != nil {
			return nil, err
		}
		t.Links = append(t.Links, link)
	}
	for _, d := range x.Test.Data {
		file, err := x.b.file(dir, filepath.Base(d), x.revision.Files[d])
		if err != nil {
			return nil, err
		}
		t.Data = append(t.Data, fingerprint.DataFile{Path: "_main/" + d, File: file})
	}
	t.System = x.b.probes.By(x.driver(), x.b.Dir)
	if e.Test != nil {
		e.Test(t)
	}
	return t, nil
}

// describe returns the link file of a file, and writes the manifests that it names.
func (x *Built) describe(dir string, f *File, e *Evidence) (string, error) {
	l := fingerprint.LinkFile{Output: f.Name, Kind: f.Kind, Words: f.Words}
	if e.sorted {
		n := min(2, len(f.Words))
		l.Words = slices.Concat(f.Words[:n], slices.Sorted(slices.Values(f.Words[n:])))
	}
	for _, u := range f.Units {
		name := objectName(u)
		file, err := x.writeManifest(dir, u, u.Manifest, e)
		if err != nil {
			return "", err
		}
		l.Manifests = append(l.Manifests, [2]string{name, file})
		if u.BySource != nil {
			if file, err = x.writeManifest(dir, u, u.BySource, e); err != nil {
				return "", err
			}
			l.Sources = append(l.Sources, [2]string{name, file})
		}
	}
	return l.Text(), nil
}

// writeManifest writes what an evidence makes of an encoded manifest.
func (x *Built) writeManifest(dir string, u *Unit, b []byte, e *Evidence) (string, error) {
	type known struct{ object, manifest, evidence string }
	id := e.ID
	if e.IDOf != nil {
		id = e.IDOf(u)
	}
	k := known{u.Object, string(b[:min(len(b), 64)]), id} // by object or by source
	if file, ok := x.b.written.Load(k); ok {
		return file.(string), nil
	}
	if e.Of != nil && (e.IDOf == nil || id != "") {
		m, err := manifest.Unmarshal(b)
		if err != nil {
			return "", err
		}
		if b, err = manifest.Marshal(e.Of(u, m)); err != nil {
			return "", err
		}
	}
	file, err := x.b.file(dir, "manifest", string(b))
	if err == nil {
		x.b.written.Store(k, file)
	}
	return file, err
}

// file writes a text into a file of its own, if it isn't there yet.
func (b *Builder) file(dir, name, text string) (string, error) {
	h := sha256.Sum256([]byte(text))
	file := filepath.Join(dir, fmt.Sprintf("%x", h[:1]), fmt.Sprintf("%x-%s", h[1:16], name))
	if _, ok := b.written.Load(file); ok {
		return file, nil
	}
	tmp := filepath.Join(dir, "tmp")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o777), os.MkdirAll(tmp, 0o777)); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(tmp, "")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	b.written.Store(file, true)
	return file, err
}

const wholeID = "whole files"

// WholeFiles is evidence by which each unit counts as a whole: the granularity of files. A unit
// that is reached at all refers to all that anything in it refers to.
func WholeFiles() *Evidence {
	return &Evidence{ID: wholeID, Of: func(u *Unit, m *manifest.Manifest) *manifest.Manifest { return whole(m, u.Sum) }}
}

// whole makes one component of all of a unit's.
func whole(m *manifest.Manifest, sum string) *manifest.Manifest {
	one := &manifest.Component{Name: "(file)", Kind: manifest.Kind_KIND_FILE, Linkage: manifest.Linkage_LINKAGE_LOCAL, LocalHash: hash16(sum)}
	linked := map[uint32]bool{}
	for _, c := range m.Components {
		for _, l := range c.Links {
			if l%2 == 1 && !linked[l] {
				linked[l] = true
				one.Links = append(one.Links, l)
			}
		}
		if one.Root == "" {
			one.Root = c.Root
		}
		if len(c.Definitions) > 0 {
			one.Definitions, one.Linkage = append(one.Definitions, c.Definitions...), manifest.Linkage_LINKAGE_EXTERNAL
		}
	}
	slices.SortFunc(one.Definitions, func(a, b *manifest.Definition) int { return strings.Compare(a.Name, b.Name) })
	one.Definitions = slices.CompactFunc(one.Definitions, func(a, b *manifest.Definition) bool { return a.Name == b.Name })
	return &manifest.Manifest{Rung: manifest.Rung_RUNG_OBJECT, Source: m.Source, Flags: m.Flags, Symbols: m.Symbols, Components: []*manifest.Component{one}, Units: m.Units}
}

func hash16(s string) []byte {
	h := sha256.Sum256([]byte(s))
	return h[:16]
}
