package ordinary

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const (
	rowsFile = "testdata/rows.txt"
	pageFile = "../../../docs/contributing/ordinary.md"

	tableBegins = "<!-- table: written by TestRows -->"
	tableEnds   = "<!-- end of the table -->"
)

// TestRows: all that is expected is complete, the page says the same, and an exact program reaches as much
// if it is linked statically as with shared libraries: less with sanitizers, by which each unit that is linked registers itself.
func TestRows(t *testing.T) {
	rows := readRows(t)
	for i := range ways {
		w := &ways[i]
		programs, googletest := 0, false
		for k := range projects {
			p := &projects[k]
			for _, x := range w.programs(p) {
				programs++
				googletest = googletest || p.name == "googletest"
				r := rows[w.name+"\t"+p.name+" "+x.name]
				if r == nil {
					t.Errorf("there is no row of %s: %s %s", w.name, p.name, x.name)
					continue
				}
				d := rows[w.dynamic+"\t"+r.program]
				if d != nil && r.rung == "exact" && d.rung == "exact" && (r.components*10 > d.components*11 || r.components*11 < d.components*10 && !w.may("file")) {
					t.Errorf("%s: %s reaches %d components, and %d with shared libraries", w.name, r.program, r.components, d.components)
				}
			}
		}
		if programs < 3 || !googletest && !w.config.onlyC {
			t.Errorf("%s: %d programs aren't enough", w.name, programs)
		}
	}
	if t.Failed() {
		return
	}
	b, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	page, err := withTable(string(b), rows)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(pageFile, []byte(page), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if string(b) != page {
		t.Errorf("%s isn't what %s says: write it with -update", pageFile, rowsFile)
	}
}

// withTable returns the page with the table of rows between the markers.
func withTable(page string, rows map[string]*row) (string, error) {
	before, rest, ok := strings.Cut(page, tableBegins)
	_, after, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		return "", fmt.Errorf("%s doesn't have %q and %q", pageFile, tableBegins, tableEnds)
	}
	return before + tableBegins + "\n" + table(rows) + tableEnds + after, nil
}

// table returns what the page has between the markers.
func table(rows map[string]*row) string {
	var b strings.Builder
	programs := 0
	var names []string
	for i := range projects {
		names = append(names, projects[i].name)
		programs += len(projects[i].tests)
	}
	fmt.Fprintf(&b, `
- Programs: %d, of %s.
- Edits: %s.

| way | programs | exact | size | needlessly | why not exact |
|---|---|---|---|---|---|
`, programs, strings.Join(names, ", "), strings.Join(kinds, ", "))
	for i := range ways {
		w := &ways[i]
		all, exact, lo, hi := 0, 0, 0, 0
		more := map[string]int{}
		why := map[string]int{}
		for _, key := range sortedKeys(rows) {
			r := rows[key]
			if r.way != w.name {
				continue
			}
			all++
			if r.rung == "exact" {
				exact++
			} else {
				why[r.rung]++
			}
			for _, k := range r.more {
				kind, _, _ := strings.Cut(k, "(")
				more[kind]++
			}
			if d := rows[w.dynamic+"\t"+r.program]; d != nil {
				size := (r.components*100 + d.components/2) / d.components
				if lo == 0 || size < lo {
					lo = size
				}
				hi = max(hi, size)
			}
		}
		size := ""
		if hi > 0 {
			size = fmt.Sprintf("%d-%d", lo, hi)
		}
		var selects []string
		for _, k := range kinds {
			if more[k] > 0 {
				selects = append(selects, fmt.Sprintf("%d %s", more[k], k))
			}
		}
		reasons := sortedKeys(why)
		slices.SortStableFunc(reasons, func(a, b string) int { return why[b] - why[a] })
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %s | %s |\n", w.name, all, exact, size, strings.Join(selects, ", "), strings.ReplaceAll(strings.Join(reasons, "<br>"), "|", "\\|"))
	}
	b.WriteString("\n")
	return b.String()
}
