package frontier

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/packed"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
)

// ProgramSuffix is appended to the path of a test's executable to find its Program, if the build uses traces.
const ProgramSuffix = ".traces"

// ProgramFormat is the version of the files of WriteProgram.
//
// History:
//
//	1  first version
const ProgramFormat = 1

// maxProgram bounds the size in bytes of such a file, packed and unpacked.
const maxProgram = 1 << 30

// A Program is a test with the content of all files that it is composed of, except for its data. The runner has
// neither manifests nor descriptions of links. With a Program it composes the test again, given a frontier.
type Program struct {
	Format int `json:"format"`
	// Collect reports whether executions are traced; else traces are only looked up.
	Collect bool `json:"collect,omitempty"`
	// Unknown is the reason why the test can't be composed again. If it is set, the fields below are empty.
	Unknown string `json:"unknown,omitempty"`
	// Test has relative names of files, those of Files. Its data have only paths.
	Test  *fingerprint.Test `json:"test,omitempty"`
	Files map[string][]byte `json:"files,omitempty"`
}

// paths returns the fields of a test with names of files that are read to compose it.
func paths(t *fingerprint.Test) (fields []*string) {
	for _, l := range [][]string{t.Links, t.Manifests, t.LinkInputs, t.Tools} {
		for i := range l {
			fields = append(fields, &l[i])
		}
	}
	for i := range t.Files {
		for k := range t.Files[i].Manifests {
			fields = append(fields, &t.Files[i].Manifests[k])
		}
	}
	return append(fields, &t.RepoMapping, &t.Toolchain)
}

// WriteProgram writes the Program of a test that is composed in the current directory.
func WriteProgram(file string, t *fingerprint.Test, collect bool) error {
	p := &Program{Format: ProgramFormat, Collect: collect}
	if err := p.fill(t); err != nil {
		p = &Program{Format: ProgramFormat, Unknown: err.Error()}
	}
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if b, err = packed.Pack(b); err != nil {
		return err
	}
	return wholefile.Write(file, b, 0o666)
}

// fill adds t and the files that it is composed of. It is an error if one can't be added.
func (p *Program) fill(t *fingerprint.Test) error {
	if len(t.AlwaysRun) > 0 {
		return errors.New(t.AlwaysRun[0])
	}
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if !fingerprint.IsText(b) {
		return fingerprint.ErrNoText
	}
	p.Files = map[string][]byte{}
	if err := json.Unmarshal(b, &p.Test); err != nil {
		return err
	}
	for i := range p.Test.Data {
		d := &p.Test.Data[i]
		if info, err := os.Stat(d.File); err == nil && info.IsDir() {
			return fmt.Errorf("its data %s is a directory", d.Path)
		}
		d.File = ""
	}
	take := func(name, as string) error {
		b, err := os.ReadFile(name)
		p.Files[as] = b
		return err
	}
	for i, name := range paths(p.Test) {
		if *name == "" {
			continue
		}
		as := *name
		if filepath.IsAbs(as) { // written for this composition
			as = fmt.Sprintf("absolute/%d", i)
		}
		if err := take(*name, as); err != nil {
			return err
		}
		*name = as
	}
	manifests, opened, err := t.Inputs()
	if err != nil {
		return err
	}
	for _, name := range manifests {
		if filepath.IsAbs(name) {
			if len(t.Links) > 0 {
				return fmt.Errorf("its link names %s", name)
			}
			continue // one of paths
		}
		if err := take(name, name); err != nil {
			return err
		}
	}
	for _, name := range opened {
		if filepath.IsAbs(name) {
			return fmt.Errorf("its link reads %s", name)
		}
		if err := take(name, name); err != nil {
			delete(p.Files, name) // the link finds no such file either
		}
	}
	return nil
}

// ReadProgram reads a file of WriteProgram.
func ReadProgram(file string) (*Program, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if b, err = packed.Unpack(b, maxProgram); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	p := new(Program)
	if err := json.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	switch {
	case p.Format != ProgramFormat:
		return nil, fmt.Errorf("%s: format %d, this tasting reads format %d: build the test again with one version of tasting", file, p.Format, ProgramFormat)
	case p.Unknown == "" && p.Test == nil:
		return nil, fmt.Errorf("%s: it is cut off: build the test again", file)
	}
	return p, nil
}

// Unpack writes the files of p, whose Unknown is empty, into a directory, and returns the test. place returns the name of
// a data file, given its path in the runfiles.
func (p *Program) Unpack(dir string, place func(path string) string) (*fingerprint.Test, error) {
	for _, name := range slices.Sorted(maps.Keys(p.Files)) {
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("%q is no name of a file", name)
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return nil, err
		}
		if err := os.WriteFile(to, p.Files[name], 0o666); err != nil {
			return nil, err
		}
	}
	x := *p.Test
	t := &x
	for _, l := range []*[]string{&t.Links, &t.Manifests, &t.LinkInputs, &t.Tools} {
		*l = slices.Clone(*l)
	}
	t.Data, t.Files = slices.Clone(t.Data), slices.Clone(t.Files)
	for i := range t.Files {
		t.Files[i].Manifests = slices.Clone(t.Files[i].Manifests)
	}
	for _, name := range paths(t) {
		if *name != "" {
			if !filepath.IsLocal(*name) {
				return nil, fmt.Errorf("%q is no name of a file", *name)
			}
			*name = filepath.Join(dir, *name)
		}
	}
	for i := range t.Data {
		if t.Data[i].File = place(t.Data[i].Path); t.Data[i].File == "" {
			return nil, fmt.Errorf("its data %s isn't there", t.Data[i].Path)
		}
	}
	t.Dir = dir
	return t, nil
}
