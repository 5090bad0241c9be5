package fingerprint

import (
	"fmt"
	"io"
	"strings"
)

// DumpReport writes a report as text.
func DumpReport(w io.Writer, r *Report) {
	fmt.Fprintf(w, "fingerprint %s\n", r.Fingerprint)
	for _, s := range r.AlwaysRun {
		fmt.Fprintf(w, "always run: %s\n", s)
	}
	for _, c := range r.Contributions {
		fmt.Fprintf(w, "contribution %s %s\n", c.SHA256, c.Name)
	}
	for _, p := range r.Run {
		fmt.Fprintf(w, "run %s %s\n", p.Sum, p.Name)
	}
	if len(r.LinkFlags) > 0 {
		fmt.Fprintf(w, "link flags %s\n", strings.Join(r.LinkFlags, " "))
	}
	for _, u := range r.Units {
		fmt.Fprintf(w, "source %s, rung %s\n", u.Source, u.Rung)
		if u.Compiler != "" {
			fmt.Fprintf(w, "  compiler %s\n  flags %s\n", u.Compiler, strings.Join(u.Flags, " "))
		}
		for _, s := range u.Fallbacks {
			fmt.Fprintf(w, "  fallback: %s\n", s)
		}
	}
	for _, x := range r.Roots {
		fmt.Fprintf(w, "root %s: %s\n", x.Component, strings.Join(x.Why, ", "))
	}
	if r.Unusual != "" {
		fmt.Fprintf(w, "counts as a whole: %s\n", r.Unusual)
	}
	for _, x := range r.Contested {
		fmt.Fprintf(w, "contested %s\n", x.Text())
	}
	for _, c := range r.Components {
		fmt.Fprintf(w, "%s %s %s %s", c.Local, c.Kind, c.Linkage, c.ID)
		if c.File != "" {
			fmt.Fprintf(w, " file=%s", c.File)
		}
		fmt.Fprintln(w)
		for _, s := range c.Symbols {
			fmt.Fprintf(w, "  = %s\n", s)
		}
		for _, to := range c.Links {
			fmt.Fprintf(w, "  -> %s\n", to)
		}
	}
}
