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
}

// preprocess has the preprocessor run as the compiler would have it, and returns nil
// if the text doesn't say all that counts: columns, and lines of callers, aren't in
// it. Nor if it warns, as the compiler would.
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
		return nil
	}
	// The lines of a builtin are known where it stands, and nowhere else.
	lines := false
	for _, b := range builtins {
		if bytes.Contains(text.Bytes(), []byte(b)) {
			if lines = b == builtinLine; !lines {
				return nil
			}
		}
	}
	if lines && !inBodies(text.Bytes()) {
		return nil
	}
	list, err := os.ReadFile(depend.Name())
	if err != nil {
		return nil
	}
	p := &preprocessed{sum: textSum(text.Bytes())}
	if p.files, p.scans, err = c.describe(u, list, start); err != nil {
		return nil
	}
	return p
}

// fits tells whether the compiler makes the object of r of a text, if its sum is the
// one of r: not what depends on lines and columns as well.
func (p *preprocessed) fits(u *unit, r *record) bool {
	if p.sum != r.Text || !slices.Equal(p.files.Maps, r.Maps) {
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
		if x.Columns || x.Raw != files[i].Raw && u.warns && x.Misleads {
			return false
		}
	}
	return !u.clang || !u.named(r, files, p.scans)
}

// sameFiles tells whether two records are of the same files.
func (r *record) sameFiles(s *record) bool {
	return slices.Equal(r.Files, s.Files) && slices.Equal(r.Maps, s.Maps) && r.Exists == s.Exists
}

// textSum hashes a preprocessed text: its lines without blanks at their ends and
// without those that are empty; of the line markers which file they are from, and
// whether it is a system header; and of what has a builtin that asks for a line, which
// one it is on, and which the next text is on: macros may go over several.
func textSum(text []byte) uint64 {
	h := xxhash.New()
	var in, said []byte // files
	var raw []byte      // the end of the raw string that a line is in
	number := 0
	asked := false // by the text before
	for line := range bytes.Lines(text) {
		number++
		if raw != nil {
			h.Write(line)
			if i := bytes.Index(line, raw); i >= 0 {
				raw = openRaw(line[i+len(raw):])
				fmt.Fprintf(h, "\n# %d", number) // code may follow that asks
			}
			asked = true
			continue
		}
		if file, n := markerOf(line); file != nil {
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
		asks := bytes.Contains(line, []byte(builtinLine))
		if asks || asked {
			fmt.Fprintf(h, "\n# %d", number)
		}
		asked = asks
	}
	return h.Sum64()
}

// markerOf returns what counts of a line marker, or nil, and the number of the next
// line: # LINE "FILE" FLAGS.
func markerOf(line []byte) (file []byte, number int) {
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

// openRaw returns the end of a raw string literal that goes on behind the line. One
// that isn't a raw string in truth does no harm: its lines count as they are.
func openRaw(line []byte) []byte {
	for {
		i := bytes.Index(line, []byte(`R"`))
		if i < 0 {
			return nil
		}
		line = line[i+2:]
		open := bytes.IndexByte(line[:min(17, len(line))], '(')
		if open < 0 || bytes.ContainsAny(line[:open], " )\\\t\v\f\n\"") {
			continue
		}
		end := slices.Concat([]byte(")"), line[:open], []byte(`"`))
		i = bytes.Index(line, end)
		if i < 0 {
			return end
		}
		line = line[i+len(end):]
	}
}

// edited tells whether the source itself isn't that of a record: then its text is
// another one, most likely.
func (c *cache) edited(u *unit, r *record) bool {
	for _, d := range r.Files {
		if filepath.Clean(d.Path) == filepath.Clean(u.source) {
			x, err := c.readScan(d.Path, u.cxx && !u.old)
			return err != nil || x.Tokens != d.Tokens
		}
	}
	return true
}
