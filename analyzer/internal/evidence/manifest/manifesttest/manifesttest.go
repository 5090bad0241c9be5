// Package manifesttest makes manifests for tests.
package manifesttest

import (
	"fmt"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// Source returns the manifest of a source with functions, each of them a name, what its hash is
// made of, and the symbols that it refers to.
func Source(t testing.TB, name string, functions ...[]string) *manifest.Manifest {
	t.Helper()
	m := &manifest.Manifest{Rung: manifest.Rung_RUNG_FUNCTION, Source: name, Units: []*manifest.Unit{{Exact: true}}}
	for _, f := range functions {
		c := &manifest.Component{
			Name: f[0], Kind: manifest.Kind_KIND_FUNCTION, Linkage: manifest.Linkage_LINKAGE_EXTERNAL, LocalHash: fmt.Appendf(nil, "%16s", f[1]),
			Definitions: manifest.NewDefinitions(manifest.Binding_BINDING_GLOBAL, f[0]),
		}
		for _, l := range f[2:] {
			c.Links = append(c.Links, 2*uint32(len(m.Symbols))+1)
			m.Symbols = append(m.Symbols, l)
			m.Units[0].References = append(m.Units[0].References, &manifest.Reference{Name: l})
		}
		m.Components = append(m.Components, c)
	}
	if _, err := manifest.Marshal(m); err != nil {
		t.Fatal(err)
	}
	return m
}
