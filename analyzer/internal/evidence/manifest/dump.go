package manifest

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// jsonManifest is the JSON form of a manifest. Field names are stable.
type jsonManifest struct {
	Format     uint32          `json:"format"`
	Rung       string          `json:"rung"`
	Source     string          `json:"source,omitempty"`
	Clang      string          `json:"clang,omitempty"`
	Compiler   string          `json:"compiler,omitempty"`
	Flags      []string        `json:"flags,omitempty"`
	Fallbacks  []jsonFallback  `json:"fallbacks,omitempty"`
	Components []jsonComponent `json:"components"`
}

type jsonFallback struct {
	Component string `json:"component,omitempty"`
	Reason    string `json:"reason"`
	Rung      string `json:"rung"`
}

type jsonComponent struct {
	Name      string   `json:"name"`
	Kind      string   `json:"kind"`
	Linkage   string   `json:"linkage"`
	LocalHash string   `json:"local_hash"`
	Links     []string `json:"links"`
	Aliases   []string `json:"aliases,omitempty"`
	Root      string   `json:"root,omitempty"`
	File      string   `json:"file,omitempty"`
}

func (m *Manifest) json() *jsonManifest {
	j := &jsonManifest{Format: m.Format, Rung: EnumName(m.Rung), Source: m.Source, Clang: m.Clang, Compiler: m.Compiler, Flags: m.Flags, Components: []jsonComponent{}}
	for _, f := range m.Fallbacks {
		j.Fallbacks = append(j.Fallbacks, jsonFallback{f.Component, f.Reason, EnumName(f.Rung)})
	}
	for _, c := range m.Components {
		links, _ := m.LinkNames(c)
		if links == nil {
			links = []string{}
		}
		j.Components = append(j.Components, jsonComponent{c.Name, EnumName(c.Kind), EnumName(c.Linkage), hex.EncodeToString(c.LocalHash), links, c.Aliases(), c.Root, c.File})
	}
	return j
}

// DumpJSON writes m as JSON.
func DumpJSON(w io.Writer, m *Manifest) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(m.json())
}

// DumpText writes m for people.
func DumpText(w io.Writer, m *Manifest) {
	j := m.json()
	fmt.Fprintf(w, "format %d, rung %s, source %s\n", j.Format, j.Rung, j.Source)
	if j.Clang != "" {
		fmt.Fprintf(w, "clang %s\ncompiler %s\nflags %s\n", j.Clang, j.Compiler, strings.Join(j.Flags, " "))
	}
	for _, f := range j.Fallbacks {
		fmt.Fprintf(w, "fallback %s %s: %s\n", f.Rung, f.Component, f.Reason)
	}
	for _, c := range j.Components {
		fmt.Fprintf(w, "%s %s %s %s", c.LocalHash, c.Kind, c.Linkage, c.Name)
		if c.Root != "" {
			fmt.Fprintf(w, " root=%q", c.Root)
		}
		if c.File != "" {
			fmt.Fprintf(w, " file=%s", c.File)
		}
		fmt.Fprintln(w)
		for _, a := range c.Aliases {
			fmt.Fprintf(w, "  = %s\n", a)
		}
		for _, l := range c.Links {
			fmt.Fprintf(w, "  -> %s\n", l)
		}
	}
}
