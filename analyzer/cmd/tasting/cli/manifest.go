package cli

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/spf13/cobra"
)

func init() { register(manifestCommand) }

func manifestCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "manifest", Short: "Look into manifests"}
	var format string
	dump := &cobra.Command{
		Use:   "dump FILE",
		Short: "Print the components of a manifest with hashes, links, flags and fallbacks",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := manifest.Read(args[0])
			if err != nil {
				return err
			}
			switch format {
			case "json":
				return dumpJSON(cmd.OutOrStdout(), m)
			case "text":
				dumpText(cmd.OutOrStdout(), m)
				return nil
			}
			return fmt.Errorf("--format=%s: want json or text", format)
		},
	}
	dump.Flags().StringVar(&format, "format", "text", "output format: json or text")
	cmd.AddCommand(dump)
	return cmd
}

// The JSON form of a manifest. Field names are stable.
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

func toJSON(m *manifest.Manifest) *jsonManifest {
	j := &jsonManifest{Format: m.Format, Rung: manifest.EnumName(m.Rung), Source: m.Source, Clang: m.Clang, Compiler: m.Compiler, Flags: m.Flags, Components: []jsonComponent{}}
	for _, f := range m.Fallbacks {
		j.Fallbacks = append(j.Fallbacks, jsonFallback{f.Component, f.Reason, manifest.EnumName(f.Rung)})
	}
	for _, c := range m.Components {
		links, _ := m.LinkNames(c)
		if links == nil {
			links = []string{}
		}
		j.Components = append(j.Components, jsonComponent{c.Name, manifest.EnumName(c.Kind), manifest.EnumName(c.Linkage), hex.EncodeToString(c.LocalHash), links, c.Aliases(), c.Root, c.File})
	}
	return j
}

func dumpJSON(w io.Writer, m *manifest.Manifest) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(toJSON(m))
}

func dumpText(w io.Writer, m *manifest.Manifest) {
	j := toJSON(m)
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
