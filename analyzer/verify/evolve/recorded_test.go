package evolve

import (
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// What kinds of changes there are between two units.
func TestChanges(t *testing.T) {
	unit := func(text string) *manifest.Manifest {
		m := &manifest.Manifest{Symbols: []string{"a", "b"}}
		for _, w := range strings.Fields(text) {
			name, hash, _ := strings.Cut(w, "=")
			c := &manifest.Component{Name: name, LocalHash: []byte(hash), Linkage: manifest.Linkage_LINKAGE_EXTERNAL}
			switch {
			case strings.HasPrefix(name, "inline"):
				c.Linkage = manifest.Linkage_LINKAGE_WEAK
			case strings.HasPrefix(name, "static"), strings.HasPrefix(name, "."), strings.HasPrefix(name, "_GLOBAL"):
				c.Linkage = manifest.Linkage_LINKAGE_LOCAL
			}
			if strings.HasSuffix(hash, ">b") {
				c.LocalHash, c.Links = []byte(strings.TrimSuffix(hash, ">b")), []uint32{2*1 + 1}
			}
			m.Components = append(m.Components, c)
		}
		return m
	}
	for _, c := range []struct{ before, now, want string }{
		{"f=1 inline=1", "inline=1 f=1", ""},
		{"f=1", "f=2", "CE"},
		{"f=1", "f=1>b", "CE"},
		{"f=1", "f=1 g=1 inlined=1", "AE AI"},
		{"f=1 static=1", "f=1", "DS"},
		{"_ZTV1A=1 .rodata=1 _GLOBAL__sub_I_x=1", "_ZTV1A=2 .rodata=2 .init_array=1 _GLOBAL__sub_I_x=2", "AG CC CG CT"},
	} {
		if got := strings.Join(Changes(unit(c.before), unit(c.now)), " "); got != c.want {
			t.Errorf("%s to %s: %s, want %s", c.before, c.now, got, c.want)
		}
	}
	if len(ChangeKinds) != 3*len(classes) || !slices.ContainsFunc(ChangeKinds, func(k ChangeKind) bool { return k.ID == "DI" && strings.HasSuffix(k.Text, "deleted") }) {
		t.Errorf("%v", ChangeKinds)
	}
}

// A unit with a change of a kind counts as a whole, and only then.
func TestTransformed(t *testing.T) {
	b := newBuilder(t)
	b.Links = []string{"-fuse-ld=lld"} // as Bazel links
	kind := func(id string) ChangeKind {
		return ChangeKinds[slices.IndexFunc(ChangeKinds, func(k ChangeKind) bool { return k.ID == id })]
	}
	trace, err := Check(t.Context(), b, example("a.cc|7|8"), func(p Passes) []Tool {
		return []Tool{Hybrid(p, false), Transformed(p, kind("CE")), Transformed(p, kind("AE"))}
	})
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]string{"hybrid": "", "CE": "ta", "AE": ""} {
		if got := strings.Join(trace.Results[tool][1].Selected, " "); got != want {
			t.Errorf("%s selects %q, want %q", tool, got, want)
		}
	}
}

// What was recorded goes through tools without being built again.
func TestRecorded(t *testing.T) {
	b := &Builder{Dir: t.TempDir()}
	test := Test{Name: "t"}
	revision := func(inputs, graph, text string, ok bool) (*Revision, map[string]*Built) {
		r := &Revision{Files: map[string]string{"t.cc": text}, Tests: []Test{test}}
		o := &Outcome{Built: true, Status: "FAILED"}
		if ok {
			o.Status = "exit status 0"
		}
		f := []*File{{Name: "t", Kind: "executable", Units: []*Unit{{Source: "t.cc", Reads: []string{"t.cc"}}}}}
		return r, map[string]*Built{"t": b.NewRecorded(&r.Tests[0], r, f, nil, &Recorded{Inputs: inputs, Graph: graph, Outcome: o})}
	}
	p := &Program{Name: "p", Mode: "m"}
	var built []map[string]*Built
	for _, x := range []struct {
		inputs, graph, text string
		ok                  bool
	}{{"1", "1", "1", true}, {"1", "1", "1", true}, {"1", "2", "1", true}, {"1", "2", "2", true}, {"2", "2", "2", false}} {
		r, tests := revision(x.inputs, x.graph, x.text, x.ok)
		p.Revisions, built = append(p.Revisions, r), append(built, tests)
	}
	trace, err := Go(t.Context(), p, built, func(p Passes) []Tool { return []Tool{RetestAll(p), BazelCache(p), Targets(p), Files(p)} })
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]string{"RetestAll": "11111", "bazel": "10001", "targets": "10100", "files": "10010"} {
		got := ""
		for _, r := range trace.Results[tool] {
			got += string('0' + rune(len(r.Selected)))
		}
		if got != want {
			t.Errorf("%s: %s, want %s", tool, got, want)
		}
	}
	report := NewReport(trace)
	if len(report.Wrong("bazel")) != 0 || len(report.Wrong("files")) == 0 || len(report.Wrong("targets")) == 0 {
		t.Errorf("%v", report.Violations)
	}
}
