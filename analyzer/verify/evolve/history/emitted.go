package history

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/rules-tasting/rules_tasting/analyzer/verify/witness"
)

// Emitted is what compilers have emitted for the units of revisions, compared with what their manifests
// say: as `tasting check objects` does for two versions of a source. It knows nothing of tests.
type Emitted struct {
	// Units are pairs of different objects of a unit in successive revisions, Differences what is
	// different in them, Changed and Unneeded the entries whose identity is another one, and those
	// of them that reach nothing different.
	Units, Differences, Changed, Unneeded int
	// Violations are differences that no identity shows.
	Violations []string
}

// Compare compares the objects of successive revisions. They have to be kept, and made with a section
// for each function and variable.
func (p *Replay) Compare(revisions []*Revision) (*Emitted, error) {
	e := &Emitted{}
	compared := map[[2]string]bool{}
	for i := 1; i < len(revisions); i++ {
		before := map[string]*Unit{}
		for k := range revisions[i-1].Units {
			u := &revisions[i-1].Units[k]
			before[u.Path] = u
		}
		for k := range revisions[i].Units {
			now := &revisions[i].Units[k]
			was := before[now.Path]
			if was == nil || was.Object == "" || now.Object == "" || was.Object == now.Object || compared[[2]string{was.Object, now.Object}] {
				continue
			}
			compared[[2]string{was.Object, now.Object}] = true
			if err := p.compare(e, revisions[i], was, now); err != nil {
				return nil, err
			}
		}
	}
	return e, nil
}

func (p *Replay) compare(e *Emitted, r *Revision, was, now *Unit) error {
	var versions [2]*witness.Version
	for i, u := range []*Unit{was, now} {
		b, err := os.ReadFile(filepath.Join(p.dir, u.Object))
		if err != nil {
			return err
		}
		m, err := p.blob(u.Manifest)
		if err != nil {
			return err
		}
		if versions[i], err = witness.FromObject(u.Source, b, m); err != nil {
			return fmt.Errorf("%s: %w", u.Path, err)
		}
	}
	e.Units++
	for _, pair := range witness.ComparePair(versions[0], versions[1]) {
		e.Differences += len(pair.Emitted)
		e.Changed += len(pair.Changed)
		e.Unneeded += len(pair.Unneeded)
		for _, v := range pair.Violations() {
			e.Violations = append(e.Violations, fmt.Sprintf("%s: %s: %s: %s", r.ID, now.Source, v.Unit, v.Reason))
		}
	}
	return nil
}
