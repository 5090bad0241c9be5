package programs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/syslib"
)

// A keyer says what identifies the outcome of a program, by the evidence of
// objects or, where there is one, of sources.
type keyer func(p *program, source bool) (string, error)

// errAlwaysRun says that a program has no key: it is always run.
var errAlwaysRun = errors.New("it is always run")

// composed is the key that the rules would come to.
func composed(p *program, source bool) (string, error) { return composedWithout(p, source, nil) }

// composedWithout is the key of a trace of the program, given the functions that it didn't enter, or, if that
// is nil, that which the rules would come to.
func composedWithout(p *program, source bool, idle map[string]bool) (string, error) {
	t := &fingerprint.Test{Binary: p.links[0].output, Source: source, Idle: idle, Dir: p.dir + ".links"}
	for _, kv := range p.v.env {
		name, value, _ := strings.Cut(kv, "=")
		if syslib.ChangesLoading(name, value) {
			return "", errAlwaysRun // by the runner
		}
		t.EnvKeys = append(t.EnvKeys, name)
	}
	for _, obj := range p.objects {
		if obj.refused && (!source || obj.source == "") {
			return "", errAlwaysRun // Bazel says what is wrong
		}
	}
	if err := os.MkdirAll(p.dir+".links", 0o777); err != nil {
		return "", err
	}
	write := func(name, text string) (string, error) {
		name = filepath.Join(p.dir+".links", name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			return "", err
		}
		return name, os.WriteFile(name, []byte(text), 0o666)
	}
	for _, name := range p.v.data {
		file, err := write("data/"+name, string(p.file(name)))
		if err != nil {
			return "", err
		}
		t.Data = append(t.Data, fingerprint.DataFile{Path: name, File: file})
	}
	var more [][2]string
	for _, name := range p.inputs() {
		file, err := write(name, string(p.file(name)))
		if err != nil {
			return "", err
		}
		if ext := path.Ext(name); ext != ".a" && ext != ".so" {
			t.LinkInputs = append(t.LinkInputs, file)
			continue
		}
		m, err := writeObjectManifest(file, false)
		if err != nil {
			return "", err
		}
		more = append(more, [2]string{name, m})
	}
	for _, l := range p.links {
		file, err := write(l.output+".link", p.describe(l, more))
		if err != nil {
			return "", err
		}
		t.Links = append(t.Links, file)
	}
	t.System = probes.By(p.c.driver(p.v.cxx()), probes.Dir)
	c, _ := fingerprint.ComposeAll([]*fingerprint.Test{t}, nil)
	switch {
	case c[0].Err != nil:
		return "", c[0].Err
	case c[0].NotPlain != "":
		return composedWithout(p, false, idle) // as tasting test does
	case c[0].Opaque != "":
		return "", fmt.Errorf("%w: %s", errAlwaysRun, c[0].Opaque)
	case len(c[0].Config.AlwaysRun) > 0:
		return "", fmt.Errorf("%w: %q", errAlwaysRun, c[0].Config.AlwaysRun)
	}
	return fmt.Sprintf("%s %x", c[0].Fingerprint, p.run()), nil
}

// describe returns the link file of a file, with more units.
func (p *program) describe(l *linked, more [][2]string) string {
	f := fingerprint.LinkFile{Output: l.output, Kind: l.kind}
	for _, u := range l.units {
		f.Manifests = append(f.Manifests, [2]string{u, p.objects[u].manifest})
		if s := p.objects[u].source; s != "" {
			f.Sources = append(f.Sources, [2]string{u, s})
		}
	}
	f.Manifests = append(f.Manifests, more...)
	for _, w := range l.words {
		if name, ok := strings.CutPrefix(w, "@"); ok {
			w = "@" + filepath.Join(p.dir+".links", name)
		}
		f.Words = append(f.Words, w)
	}
	return f.Text()
}

// run identifies what only a run knows: arguments, environment, data files. A
// plugin counts by content, and so by all that it is linked from.
func (p *program) run() []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", p.v.run, p.v.env)
	for _, name := range p.v.data {
		fmt.Fprintf(h, "%q %q", name, p.file(name))
	}
	for _, l := range p.plugins {
		fmt.Fprintf(h, "%q %q", l.output, l.words)
		for _, u := range l.units {
			fmt.Fprintf(h, "%x", p.objects[u].sum)
		}
		for _, name := range p.inputs() {
			if strings.Contains(strings.Join(l.words, " "), name) {
				fmt.Fprintf(h, "%q", p.file(name))
			}
		}
	}
	return h.Sum(nil)
}

// bySource says whether sources speak for units.
func (p *program) bySource() bool {
	return slices.ContainsFunc(p.links, func(l *linked) bool {
		return slices.ContainsFunc(l.units, func(u string) bool { return p.objects[u].source != "" })
	})
}
