package trace

import (
	"fmt"
	"io"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Print prints a trace for people: functions by files.
func (r *Result) Print(w io.Writer) {
	t := r.Trace
	n, all := 0, 0
	for _, f := range t.Files {
		fmt.Fprintf(w, "\n%s: %d of %d functions", f.Name, len(f.Executed), f.Functions)
		if f.Unseen > 0 {
			fmt.Fprintf(w, ", and %d bytes of code without symbols", f.Unseen)
		}
		fmt.Fprintln(w)
		n, all = n+len(f.Executed), all+f.Functions
		for _, x := range f.Executed {
			var names []string
			for _, s := range x.Symbols {
				name := demangle.Filter(s.Name)
				if s.Unit != "" {
					name += " of " + s.Unit
				}
				names = append(names, name)
			}
			count := "-"
			if x.Count > 0 {
				count = fmt.Sprint(x.Count)
			}
			fmt.Fprintf(w, "%s %s\n", count, strings.Join(names, " = "))
		}
	}
	s := r.Stats
	fmt.Fprintf(w, "\n%d of %d functions in %d files; %d processes, %d threads, %d stops\n", n, all, len(t.Files), s.Processes, s.Threads, s.Stops)
	for _, why := range t.GaveUp {
		fmt.Fprintf(w, "tasting: functions may be missing: %s\n", why)
	}
}
