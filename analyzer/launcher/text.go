package launcher

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
)

// preprocessed is what the preprocessor makes of a unit, and of which files.
type preprocessed struct {
	files *record // without an object
	scans []*scan // of its files
	sum   uint64
	loose []string // see textSum
	cpu   time.Duration
}

// preprocess has the preprocessor run as the compiler would have it. There are no
// files if the text doesn't say all that counts: columns, and lines of callers, aren't
// in it; or if it warns, as the compiler would. It is nil where another time it may.
func (c *cache) preprocess(ctx context.Context, u *unit) *preprocessed {
	start := time.Now()
	depend, err := os.CreateTemp(c.dir, ".tmp-")
	if err != nil {
		return nil
	}
	depend.Close()
	defer os.Remove(depend.Name())
	var text, messages bytes.Buffer
	cmd := exec.CommandContext(ctx, u.compiler, append(slices.Clone(u.rest), "-E", "-MD", "-MF", depend.Name(), "-MQ", u.object)...)
	cmd.Stdout, cmd.Stderr = &text, &messages
	if cmd.Run() != nil || messages.Len() > 0 {
		return &preprocessed{}
	}
	// The lines of a builtin are known where it stands, and nowhere else.
	lines := false
	for _, b := range builtins {
		if bytes.Contains(text.Bytes(), []byte(b)) {
			if lines = b == builtinLine; !lines {
				return &preprocessed{}
			}
		}
	}
	if lines && !inBodies(text.Bytes()) {
		return &preprocessed{}
	}
	list, err := os.ReadFile(depend.Name())
	if err != nil {
		return nil
	}
	p := &preprocessed{cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	p.sum, p.loose = textSum(text.Bytes())
	files, scans, err := c.describe(u, list, start)
	if err != nil {
		return nil
	}
	if !c.expands(u, files, scans, text.Bytes()) {
		p.files, p.scans = files, scans
	}
	return p
}

// expands tells whether a pragma of a preprocessed text has the name of a macro, which
// compilers may expand: the text doesn't say to what.
func (c *cache) expands(u *unit, files *record, scans []*scan, text []byte) bool {
	words := map[string]bool{}
	for line := range bytes.Lines(text) {
		for _, w := range pragmaWords(line) {
			words[w] = true
		}
	}
	if len(words) == 0 {
		return false
	}
	for i, x := range scans {
		if c.directives(files.Files[i].Path, x) != nil {
			return true
		}
	}
	for _, x := range append(slices.Clone(scans), u.defines) {
		if slices.ContainsFunc(x.Macros, func(m macro) bool { return words[m.Name] }) {
			return true
		}
	}
	return false
}

// fits tells whether the compiler makes the object of r of a text, if its sum is the
// one of r: not what depends on lines and columns as well.
func (p *preprocessed) fits(u *unit, r *record) bool {
	if p.files == nil || len(r.Messages) > 0 || p.sum != r.Text || !slices.Equal(p.files.Maps, r.Maps) {
		return false
	}
	old := map[string]dependency{}
	for _, d := range r.Files {
		old[d.Path] = d
	}
	files := make([]dependency, len(p.scans))
	for i, x := range p.scans {
		path := p.files.Files[i].Path
		files[i] = dependency{Path: path, Raw: old[path].Raw}
		if x.Raw != files[i].Raw && u.warns && x.Layout != old[path].Layout {
			return false
		}
	}
	means := u.means(files, p.scans)
	if means&(columns|strict) != 0 {
		return false
	}
	if u.clang {
		for _, f := range p.loose {
			i := slices.IndexFunc(files, func(d dependency) bool { return filepath.Clean(d.Path) == f })
			if i < 0 || p.scans[i].Lines != old[files[i].Path].Lines {
				return false
			}
		}
	}
	return !u.clang || !u.named(r, files, p.scans, means)
}

// sameFiles tells whether two records are of the same files.
func (r *record) sameFiles(s *record) bool {
	return slices.Equal(r.Files, s.Files) && slices.Equal(r.Maps, s.Maps) && r.Exists == s.Exists
}

// textSum hashes a preprocessed text: its lines without blanks at their ends and
// without those that are empty; of the line markers which file they are from, and
// whether it is a system header; and of what has a builtin that asks for a line, which
// one it is on, and which the next text is on: macros may go over several.
//
// For clang a builtin is on the line of the parenthesis that ends the outermost macro
// around it, which the text doesn't have. Loose are the files where the next line has
// no text, so that the macro may end there.
func textSum(text []byte) (sum uint64, loose []string) {
	h := xxhash.New()
	var in, said []byte // files
	var raw []byte      // the end of the raw string that a line is in
	number := 0
	asked := false // by the text before
	at := 0        // its line
	ended := func() {
		if f := fileOf(in); !slices.Contains(loose, f) {
			loose = append(loose, f)
		}
	}
	for line := range bytes.Lines(text) {
		number++
		if raw != nil {
			h.Write(line)
			if i := bytes.Index(line, raw); i >= 0 {
				raw = openRaw(line[i+len(raw):])
				fmt.Fprintf(h, "\n# %d", number) // code may follow that asks
			}
			asked, at = true, 0
			continue
		}
		if file, n := marker(line); file != nil {
			if asked && !bytes.Equal(in, file) {
				ended()
				at = -1
			}
			in, number = file, n-1
			continue
		}
		trimmed := bytes.TrimSpace(line)
		if len(trimmed) == 0 {
			continue
		}
		if !bytes.Equal(in, said) {
			said = in
			h.Write([]byte("\n#"))
			h.Write(in)
		}
		h.Write([]byte("\n"))
		if raw = openRaw(line); raw != nil {
			trimmed = line
		}
		h.Write(trimmed)
		if asked && at >= 0 && number != at+1 {
			ended()
		}
		at = number
		asks := bytes.Contains(line, []byte(builtinLine))
		if asks || asked {
			fmt.Fprintf(h, "\n# %d", number)
		}
		asked = asks
	}
	if asked {
		ended()
	}
	return h.Sum64(), loose
}

// fileOf returns the file that a line marker names, as marker returns it.
func fileOf(marked []byte) string {
	quoted := string(marked[:bytes.LastIndexByte(marked, '"')+1])
	if name, err := strconv.Unquote(`"` + quoted); err == nil {
		quoted = name
	}
	return filepath.Clean(quoted)
}

// marker returns what counts of a line marker, or nil, and the number of the next
// line: # LINE "FILE" FLAGS.
func marker(line []byte) (file []byte, number int) {
	if len(line) < 3 || line[0] != '#' || line[1] != ' ' || line[2] < '0' || line[2] > '9' {
		return nil, 0
	}
	n, rest, ok := bytes.Cut(line[2:], []byte(` "`))
	end := bytes.LastIndexByte(rest, '"')
	number, err := strconv.Atoi(string(n))
	if !ok || end < 0 || err != nil {
		return nil, 0
	}
	// Flags 1 and 2 say that the file begins, or that it goes on.
	file = rest[: end+1 : end+1]
	for _, f := range bytes.Fields(rest[end+1:]) {
		if f[0] > '2' {
			file = append(file, f[0])
		}
	}
	return file, number
}

// openRaw returns the end of a raw string literal that goes on behind the line.
func openRaw(line []byte) []byte {
	for p := 0; p < len(line); {
		c := line[p]
		start := p
		switch {
		case c == '"' || c == '\'':
			for p++; p < len(line) && line[p] != c; p++ {
				if line[p] == '\\' {
					p++
				}
			}
			for p++; p < len(line) && isPart(line[p]); p++ { // a suffix
			}
		case isPart(c):
			for p < len(line) && (isPart(line[p]) || c <= '9' && line[p] == '\'' && p+1 < len(line) && isPart(line[p+1])) {
				p++
			}
			switch string(line[start:p]) {
			case "R", "LR", "uR", "UR", "u8R":
			default:
				continue
			}
			if p == len(line) || line[p] != '"' {
				continue
			}
			rest := line[p+1:]
			open := bytes.IndexByte(rest[:min(17, len(rest))], '(')
			if open < 0 || bytes.ContainsAny(rest[:open], " )\\\t\v\f\n") {
				continue
			}
			end := slices.Concat([]byte(")"), rest[:open], []byte(`"`))
			i := bytes.Index(rest[open:], end)
			if i < 0 {
				return end
			}
			p += 1 + open + i + len(end)
		default:
			p++
		}
	}
	return nil
}

// eager has the text compared whenever that is possible, for tests.
var eager = false

// canCompare tells whether the text of a unit may tell that its object is the same: it
// doesn't know lines for a debugger, and not all that is warned of; a source that was
// edited has another text, most likely.
func (c *cache) canCompare(u *unit, known []*record) bool {
	return len(known) > 0 && len(known[0].Messages) == 0 && !u.debug && !u.contracts && !u.werror && (eager || !known[0].Dear) && c.same(u, known[0], func(d dependency, x *scan) bool {
		return filepath.Clean(d.Path) != filepath.Clean(u.source) || x.Tokens == d.Tokens
	})
}

// textPays tells whether the preprocessor is to run before the compiler does: there is
// a text to compare with, and no file has other code outside of directives.
func (c *cache) textPays(u *unit, known []*record) bool {
	return c.canCompare(u, known) && (eager || slices.ContainsFunc(known, func(r *record) bool { return r.Text != 0 }) &&
		c.same(u, known[0], func(d dependency, x *scan) bool { return x.Raw == d.Raw || x.Code == d.Code }))
}

// same tells whether all files of a record are there and like they were.
func (c *cache) same(u *unit, r *record, like func(dependency, *scan) bool) bool {
	return !slices.ContainsFunc(r.Files, func(d dependency) bool {
		x, err := c.readScan(d.Path, u.cxx && !u.old)
		return err != nil && !eager || err == nil && !like(d, x)
	})
}
