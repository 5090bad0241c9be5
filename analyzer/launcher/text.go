package launcher

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
// if the text doesn't say all that counts: what it asks for with a builtin isn't in
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
	for _, b := range builtins {
		if bytes.Contains(text.Bytes(), []byte(b)) {
			return nil
		}
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
	return !u.clang || !r.Places && !u.named(files, p.scans)
}

// sameFiles tells whether two records are of the same files.
func (r *record) sameFiles(s *record) bool {
	return slices.Equal(r.Files, s.Files) && slices.Equal(r.Maps, s.Maps) && r.Exists == s.Exists
}

// textSum hashes a preprocessed text: its lines without blanks at their ends and
// without those that are empty, and of the line markers which file they are from,
// and whether it is a system header.
func textSum(text []byte) uint64 {
	h := xxhash.New()
	var in, said []byte // files
	var raw []byte      // the end of the raw string that a line is in
	for line := range bytes.Lines(text) {
		if raw != nil {
			h.Write(line)
			i := bytes.Index(line, raw)
			if i < 0 {
				continue
			}
			raw = openRaw(line[i+len(raw):])
			continue
		}
		if file := markerOf(line); file != nil {
			in = file
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
	}
	return h.Sum64()
}

// markerOf returns what counts of a line marker, or nil: # LINE "FILE" FLAGS.
func markerOf(line []byte) []byte {
	if len(line) < 3 || line[0] != '#' || line[1] != ' ' || line[2] < '0' || line[2] > '9' {
		return nil
	}
	_, rest, ok := bytes.Cut(line, []byte(`"`))
	end := bytes.LastIndexByte(rest, '"')
	if !ok || end < 0 {
		return nil
	}
	// Flags 1 and 2 say that the file begins, or that it goes on.
	file := rest[: end+1 : end+1]
	for _, f := range bytes.Fields(rest[end+1:]) {
		if f[0] > '2' {
			file = append(file, f[0])
		}
	}
	return file
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
