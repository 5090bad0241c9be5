package programs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// A pair is two versions of a program.
type pair struct {
	name  string // its file's and its own
	files []txtar.File
	// Directives may have variants; see readCorpus.
	directives string
}

// readCorpus reads testdata. A section NAME.c or NAME.cc is a pair of one unit,
// NAME/FILE one of the files of a pair. What differs between the versions is
// written {{A}}/{{B}}. Directives are in the file NAME/pair, or are comments at
// the start of NAME.c, one on each line:
//
//	same: WHY              the outcome is the same, and so must be the key
//	coarse: WHY            the outcome is the same, the key needn't be
//	coarse-source: WHY     beside same: by the evidence of sources it needn't be
//	broken: WHY            one version may not compile or link
//	compilers: gcc         only these; default gcc clang
//	levels: -O0            only these; default -O0 -O2
//	mode: dynamic          only this; default static dynamic if there are libraries
//	flags: FLAG...         of all compilations
//	flags a.c: FLAG...     of one more
//	lib NAME: WORD...      libNAME.so if dynamic, libNAME.a if static; NAME may end in .so.N
//	archive NAME: UNIT...  libNAME.a
//	plugin NAME: WORD...   libNAME.so, a data file
//	link: WORD...          the executable; default: units that are in no library,
//	                       then the libraries in their order, then ldflags
//	ldflags: FLAG...       added to the executable's words
//	data: FILE...          files that the program reads
//	run: ARG...            arguments of the program
//	env: NAME=VALUE...     its environment
//
// WORDs are units, names of libraries, and flags; =WORD is WORD as it is. When a library is linked
// statically, only its units count, and a plugin is dynamic in any case. One
// without any isn't there.
func readCorpus(t testing.TB) []pair {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no pairs: %v", err)
	}
	var pairs []pair
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		l, err := parsePairs(strings.TrimSuffix(filepath.Base(name), ".txtar"), b)
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, l...)
	}
	return pairs
}

func parsePairs(category string, b []byte) ([]pair, error) {
	var pairs []pair
	seen := map[string]bool{}
	for _, f := range txtar.Parse(b).Files {
		name, file, several := strings.Cut(f.Name, "/")
		if !several {
			name, file = strings.TrimSuffix(name, path.Ext(name)), f.Name
		}
		name = category + "/" + name
		if n := len(pairs); n == 0 || pairs[n-1].name != name {
			if seen[name] {
				return nil, fmt.Errorf("%s: more than one pair of this name", name)
			}
			seen[name] = true
			pairs = append(pairs, pair{name: name})
		}
		p := &pairs[len(pairs)-1]
		switch {
		case several && file == "pair":
			p.directives = string(f.Data)
			continue
		case !several:
			for line := range strings.Lines(string(f.Data)) {
				d, ok := strings.CutPrefix(line, "// ")
				if key, _, _ := strings.Cut(d, ":"); !ok || !knownDirective(key) {
					break
				}
				p.directives += d
			}
		}
		p.files = append(p.files, txtar.File{Name: file, Data: f.Data})
	}
	return pairs, nil
}

func knownDirective(key string) bool {
	key, _, _ = strings.Cut(key, " ")
	return slices.Contains([]string{"same", "coarse", "coarse-source", "broken", "compilers", "levels", "mode", "flags", "lib", "archive", "plugin", "link", "ldflags", "data", "run", "env"}, key)
}

var variants = regexp.MustCompile(`(?s)\{\{(.*?)\}\}/\{\{(.*?\}*)\}\}`)

// variant returns the first or second version of a text with {{A}}/{{B}}.
func variant(s string, k int) string {
	return variants.ReplaceAllString(s, fmt.Sprintf("${%d}", k+1))
}

// A library is a list of units and flags that are linked or archived.
type library struct {
	name, kind string // lib, archive or plugin
	words      []string
}

// version is one version of a pair.
type version struct {
	files        []txtar.File
	units        []string
	flags        map[string][]string // of a unit, or "" for all
	libs         []library
	link         []string
	ldflags      []string
	modes        []string
	compilers    []string
	levels       []string
	data         []string
	run, env     []string
	same, coarse bool
	coarseSource bool
	broken       bool
}

// precise says whether the key must be the same.
func (v *version) precise(source bool) bool { return v.same && !(source && v.coarseSource) }

func (p *pair) version(k int) (*version, error) {
	var gone []string
	v := &version{flags: map[string][]string{}, compilers: []string{"gcc", "clang"}, levels: []string{"-O0", "-O2"}}
	for _, f := range p.files {
		v.files = append(v.files, txtar.File{Name: f.Name, Data: []byte(variant(string(f.Data), k))})
		if isUnit(f.Name) {
			v.units = append(v.units, f.Name)
		}
	}
	for line := range strings.Lines(variant(p.directives, k)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		key, val, ok := strings.Cut(line, ":")
		key, arg, _ := strings.Cut(key, " ")
		words := strings.Fields(val)
		if !ok || !knownDirective(key) {
			return nil, fmt.Errorf("%s: %q is no directive", p.name, line)
		}
		switch key {
		case "same":
			v.same = true
		case "coarse":
			v.coarse = true
		case "coarse-source":
			v.coarseSource = true
		case "broken":
			v.broken = true
		case "compilers":
			v.compilers = words
		case "levels":
			v.levels = words
		case "mode":
			v.modes = words
		case "flags":
			v.flags[arg] = append(v.flags[arg], words...)
		case "lib", "archive", "plugin":
			if !slices.ContainsFunc(words, isUnit) {
				gone = append(gone, arg)
				break
			}
			v.libs = append(v.libs, library{arg, key, words})
		case "link":
			v.link = words
		case "ldflags":
			v.ldflags = words
		case "data":
			v.data = words
		case "run":
			v.run = words
		case "env":
			v.env = words
		}
	}
	if v.link == nil {
		placed := map[string]bool{}
		var libs []string
		for _, l := range v.libs {
			for _, w := range l.words {
				placed[w] = true
			}
			if l.kind != "plugin" {
				libs = append(libs, l.name)
			}
		}
		for _, u := range v.units {
			if !placed[u] {
				v.link = append(v.link, u)
			}
		}
		v.link = append(v.link, libs...)
	}
	v.link = slices.DeleteFunc(append(v.link, v.ldflags...), func(w string) bool { return slices.Contains(gone, w) })
	for i := range v.libs {
		v.libs[i].words = slices.DeleteFunc(v.libs[i].words, func(w string) bool { return slices.Contains(gone, w) })
	}
	if v.modes == nil {
		v.modes = []string{"static"}
		if slices.ContainsFunc(v.libs, func(l library) bool { return l.kind == "lib" }) {
			v.modes = []string{"static", "dynamic"}
		}
	}
	return v, nil
}

func isUnit(name string) bool {
	return slices.Contains([]string{".c", ".cc", ".S"}, path.Ext(name))
}

func (v *version) cxx() bool {
	return slices.ContainsFunc(v.units, func(u string) bool { return path.Ext(u) == ".cc" })
}

// TestCorpus: how many pairs there must be.
func TestCorpus(t *testing.T) {
	all, links, same := 0, 0, 0
	for _, p := range readCorpus(t) {
		all++
		if strings.HasPrefix(p.name, "link-") {
			links++
		}
		v, err := p.version(0)
		if err != nil {
			t.Error(err)
			continue
		}
		if v.same {
			same++
		}
		text := p.directives
		for _, f := range p.files {
			text += string(f.Data)
		}
		if !variants.MatchString(text) {
			t.Errorf("%s: no {{A}}/{{B}}", p.name)
		}
	}
	t.Logf("%d pairs, %d of links, %d that are the same", all, links, same)
	if all < 400 || links < 120 || same < 60 {
		t.Errorf("%d pairs, %d of links, %d that are the same: want 400, 120, 60", all, links, same)
	}
}
