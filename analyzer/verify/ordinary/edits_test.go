package ordinary

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// kinds are those of edits, in the order of tables.
var kinds = []string{"comment", "unreached", "libc", "template", "reached", "table", "initialiser", "file", "order"}

// edited is a source with an edit; new says that there was none.
type edited struct {
	unit, text string
	new        bool
}

// edit makes an edit of a kind, or returns nil if the project has none of it.
func (p *project) edit(kind string, read func(name string) (string, error)) (*edited, error) {
	e := &edited{unit: p.edits.unit}
	if kind == "table" && p.edits.tableIn != "" {
		e.unit = p.edits.tableIn
	}
	text, err := read(e.unit)
	if err != nil {
		return nil, err
	}
	cxx := path.Ext(e.unit) != ".c"
	replace := func(change [2]string) {
		if e.text = strings.Replace(text, change[0], change[1], 1); e.text == text {
			err = fmt.Errorf("%s: there is no %q", e.unit, change[0])
		}
	}
	switch kind {
	case "comment":
		e.text = "/* What this is for. */ " + text // lines are in the program with sanitizers
	case "unreached":
		e.text = text + "\nint ordinary_unreached(int x) { return 3 * x + 1; }\n"
	case "libc":
		e.text = text + "\n#include <stdlib.h>\nlong ordinary_libc(void) { return lrand48(); }\n"
	case "template":
		if !cxx {
			return nil, nil
		}
		e.text = text + "\n#include <string>\n#include <vector>\nvoid ordinary_template(std::vector<std::string>& v) { v.push_back(\"x\"); }\n"
	case "reached":
		if p.edits.reached[0] == "" {
			return nil, nil
		}
		replace(p.edits.reached)
	case "table":
		if p.edits.table[0] == "" {
			return nil, nil
		}
		replace(p.edits.table)
	case "initialiser":
		e.text = text + "\n#include <stdlib.h>\nstatic void __attribute__((constructor)) ordinary_initialiser(void) { setenv(\"ORDINARY\", \"1\", 1); }\n"
		if cxx {
			e.text = text + "\n#include <stdlib.h>\nstatic int ordinary_initialiser = setenv(\"ORDINARY\", \"1\", 1);\n"
		}
	case "file":
		e.unit, e.new = path.Join(path.Dir(e.unit), "ordinary_new"+path.Ext(e.unit)), true
		e.text = "int ordinary_new(int x) { return 5 * x + 1; }\n"
	case "order":
		if p.edits.swap == "" {
			return nil, nil
		}
		const end = "\n}\n"
		before, rest, found := strings.Cut(text, "\n"+p.edits.swap)
		first, rest, found1 := strings.Cut(rest, end)
		second, rest, found2 := strings.Cut(rest, end)
		if !found || !found1 || !found2 {
			return nil, fmt.Errorf("%s: there is no function %q with another one behind it", e.unit, p.edits.swap)
		}
		e.text = before + "\n" + second + end + "\n" + p.edits.swap + first + end + rest
	}
	return e, err
}

// must says whether an edit of a kind has to select a program, which links the edited unit or not.
func (p *project) must(kind, program string, linked bool) bool {
	switch kind {
	case "reached":
		return slices.Contains(p.edits.reachedBy, program)
	case "table":
		return slices.Contains(p.edits.tableBy, program)
	}
	return kind == "initialiser" && linked
}
