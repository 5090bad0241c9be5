package ctext

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// unitMagic starts every .tu file; its number is raised with every change of
// the format.
const unitMagic = "tasting-tu 3\n"

// ErrUnit says that a file is not a complete normalised translation unit.
var ErrUnit = errors.New("not a complete normalised translation unit; delete it and preprocess again")

// Unit is a normalised translation unit: what the compiler of the build
// compiles, without anything that can't influence the generated code.
type Unit struct {
	// Source is the main file as named on the command line.
	Source string `json:"source"`
	// Lang is "c" or "c++".
	Lang string `json:"lang"`
	// Compiler identifies the compiler of the build: version and target.
	Compiler string `json:"compiler"`
	// Clang is true if the compiler of the build is a clang.
	Clang bool `json:"clang,omitempty"`
	// Flags are those that can influence generated code, in order.
	Flags []string `json:"flags"`
	// Variants are the flags of further compilations of the same source (with
	// and without -fPIC, say) that differ from Flags.
	Variants [][]string `json:"variants,omitempty"`
	// DumpFlags are the flags that clang needs to parse Text as the compiler
	// of the build does.
	DumpFlags []string `json:"dump_flags"`
	// Files are the presumed names of the files that Text stems from.
	Files []string `json:"files"`
	// Segments map Text to Files: {offset, index into Files}, ascending.
	Segments [][2]int `json:"segments"`
	// Sites are the tokens that read their own source position, or that of what
	// they name.
	Sites []Site `json:"sites,omitempty"`
	// Unnamed is a digest of where lambdas and types without a name are, if their
	// positions get into names that a pinned site sees.
	Unnamed string `json:"unnamed,omitempty"`
	// Text holds the tokens and pragmas.
	Text []byte `json:"-"`
	// Emitted is, compressed by gzip, what the compiler of the build makes of the
	// source itself if source positions may get into it, because those of Text
	// are others: of C++, a clang's IR before any pass, or another compiler's
	// object file with a section for each function.
	Emitted []byte `json:"emitted,omitempty"`
	// Compile is the command, without input and output, that makes the build's
	// object file of Text, if that is what is analysed: for C++ that another
	// compiler than clang compiles.
	Compile []string `json:"compile,omitempty"`

	unnamed    []sourceLine // lines of lambdas and types without a name
	renumbered bool         // a #line names another file
}

const floatPrelude = `typedef float _Float32;
typedef double _Float64;
typedef double _Float32x;
typedef long double _Float64x;
typedef __float128 _Float128;
`

var gccFloats = map[string]bool{"_Float32": true, "_Float64": true, "_Float128": true, "_Float32x": true, "_Float64x": true}

// Encode returns the bytes of a .tu file.
func (u *Unit) Encode() ([]byte, error) {
	h, err := json.Marshal(u)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%d %d\n", unitMagic, len(h), len(u.Text))
	b.Write(h)
	b.WriteByte('\n')
	b.Write(u.Text)
	return b.Bytes(), nil
}

// DecodeUnit reads what Encode wrote, or returns ErrUnit, wrapped.
func DecodeUnit(b []byte) (*Unit, error) {
	rest, ok := bytes.CutPrefix(b, []byte(unitMagic))
	if !ok {
		return nil, ErrUnit
	}
	line, rest, ok := bytes.Cut(rest, []byte("\n"))
	hs, ts, ok2 := strings.Cut(string(line), " ")
	h, err1 := strconv.Atoi(hs)
	t, err2 := strconv.Atoi(ts)
	if !ok || !ok2 || err1 != nil || err2 != nil || h < 0 || t < 0 || h > len(rest) || len(rest) != h+1+t || rest[h] != '\n' {
		return nil, ErrUnit
	}
	u := &Unit{}
	if err := json.Unmarshal(rest[:h], u); err != nil {
		return nil, fmt.Errorf("%w (%v)", ErrUnit, err)
	}
	for i, s := range u.Segments {
		if s[0] < 0 || s[0] > t || s[1] < 0 || s[1] >= len(u.Files) || i > 0 && s[0] < u.Segments[i-1][0] {
			return nil, fmt.Errorf("%w (segment %d)", ErrUnit, i)
		}
	}
	u.Text = rest[h+1:]
	return u, nil
}

// ReadUnit reads the .tu file name.
func ReadUnit(name string) (*Unit, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	u, err := DecodeUnit(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return u, nil
}

// ReadEmitted returns Emitted, decompressed.
func (u *Unit) ReadEmitted() ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(u.Emitted))
	if err != nil {
		return nil, fmt.Errorf("%w (%v)", ErrUnit, err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("%w (%v)", ErrUnit, err)
	}
	return b, nil
}

// FileAt returns the presumed name of the file that Text[off] stems from.
func (u *Unit) FileAt(off int) string {
	lo, hi := 0, len(u.Segments)
	for lo < hi {
		if mid := (lo + hi) / 2; u.Segments[mid][0] <= off {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return ""
	}
	return u.Files[u.Segments[lo-1][1]]
}

// normalize lexes the output of a preprocessor (with line markers) into u's
// Text, Files, Segments and Sites. It returns the names of all files that the
// markers mention, in order of appearance, as spelled there.
func (u *Unit) normalize(raw []byte) (read []string) {
	var out bytes.Buffer
	out.Grow(len(raw) / 2)
	lex := NewLexer(raw, 0)
	seen := map[string]bool{}
	fileIdx := map[string]int{}
	file, line, lineOff, system := u.Source, 1, 0, false
	floatTypes := map[bool]bool{} // by system: does such code use gcc's _FloatN types?
	idx, lastSeg, atStart := -1, -1, true
	var prev Token
	var where place
	var lastLine sourceLine
	marked := false // as the system's
	scanned := 0
	for {
		t := lex.Next()
		if t.Kind == EOF {
			break
		}
		for i := scanned; i < t.Off; i++ {
			if raw[i] == '\n' {
				line++
				lineOff = i + 1
			}
		}
		scanned = t.Off
		if t.Kind == Marker {
			if n, name, flags, ok := parseMarker(raw[t.Off:t.End]); ok {
				// An #include and the way back have a flag, a #line hasn't.
				u.renumbered = u.renumbered || len(read) > 0 && name != file && !strings.HasPrefix(name, "<") && !strings.HasPrefix(file, "<") &&
					!slices.Contains(flags, "1") && !slices.Contains(flags, "2")
				line, file, system, idx = n-1, name, slices.Contains(flags, "3"), -1
				if !seen[name] {
					seen[name] = true
					read = append(read, name)
				}
			}
			continue
		}
		text := raw[t.Off:t.End]
		if t.Kind == Pragma && classify(text) == pragmaDiagnostic {
			continue
		}
		if t.Kind == Pragma && !atStart {
			out.WriteByte('\n')
			atStart = true
		}
		if !atStart && needsSpace(raw, prev, t) {
			out.WriteByte(' ')
		}
		if u.Clang && u.Lang == "c++" && system != marked {
			// clang forgives the system's headers what is an error elsewhere.
			if !atStart {
				out.WriteByte('\n')
				atStart = true
			}
			marked = system
			out.WriteString(marker("text", 1, system))
		}
		if idx < 0 {
			var ok bool
			if idx, ok = fileIdx[file]; !ok {
				idx = len(u.Files)
				fileIdx[file] = idx
				u.Files = append(u.Files, relative(file))
			}
		}
		if idx != lastSeg {
			u.Segments = append(u.Segments, [2]int{out.Len(), idx})
			lastSeg = idx
		}
		if t.Kind == Ident && text[0] == '_' && gccFloats[string(text)] {
			floatTypes[system] = true
		}
		if t.Kind == Ident && u.isSite(string(text)) {
			site := Site{Position: fmt.Sprintf("%s:%d:%d", file, line, t.Off-lineOff+1), at: sourceLine{file, line}}
			if site.Pinned = u.Lang == "c++" && where.pins(string(text)); site.Pinned {
				where.now.site = true
				if where.marks(string(text)) {
					if !atStart {
						out.WriteByte('\n')
					}
					out.WriteString(marker(file, line, system))
				}
			}
			site.Off = out.Len()
			u.Sites = append(u.Sites, site)
		}
		if u.Lang == "c++" {
			if where.token(t, raw) && u.Clang {
				u.unnamed = append(u.unnamed, lastLine, sourceLine{file, line})
			}
			lastLine = sourceLine{file, line}
		}
		if t.Kind == Pragma {
			text = bytes.Join(bytes.Fields(text), []byte(" "))
		}
		out.Write(text)
		atStart = false
		if t.Kind == Pragma || t.Kind == Punct && len(text) == 1 && (text[0] == ';' || text[0] == '{' || text[0] == '}') {
			out.WriteByte('\n')
			atStart = true
		}
		prev = t
	}
	if where.doubt {
		u.unpin()
	}
	u.Text = out.Bytes()
	// gcc's C has the _FloatN types built in, clang's hasn't. Where only
	// declarations of system headers use them, names for the same
	// representation do; elsewhere clang refuses the unit.
	if !u.Clang && u.Lang == "c" && floatTypes[true] && !floatTypes[false] {
		u.Text = append([]byte(floatPrelude), u.Text...)
		for i := range u.Segments {
			u.Segments[i][0] += len(floatPrelude)
		}
		for i := range u.Sites {
			u.Sites[i].Off += len(floatPrelude)
		}
	}
	return read
}

// relative returns name as it may enter a manifest: relative to the current
// directory, or the base name alone if it lies elsewhere.
func relative(name string) string {
	if !filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, name); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return filepath.Base(name)
}

// needsSpace reports whether b must be kept apart from a: always, except
// beside brackets, commas and semicolons, which never join with a neighbour.
func needsSpace(raw []byte, a, b Token) bool {
	free := func(t Token) bool {
		if t.Kind != Punct || t.End-t.Off != 1 {
			return false
		}
		switch raw[t.Off] {
		case '(', ')', '{', '}', '[', ']', ',', ';':
			return true
		}
		return false
	}
	if (a.Kind == String || a.Kind == Char) && b.Kind == Ident && a.End == b.Off {
		return false // a suffix that C++ users define
	}
	return !free(a) && !free(b)
}

// parseMarker reads # LINE "FILE" FLAGS.
func parseMarker(b []byte) (line int, file string, flags []string, ok bool) {
	s := strings.TrimLeft(string(b[1:]), " \t")
	s = strings.TrimLeft(strings.TrimPrefix(s, "line"), " \t")
	i := 0
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	line, err := strconv.Atoi(s[:i])
	s = strings.TrimLeft(s[i:], " \t")
	if err != nil || s == "" || s[0] != '"' {
		return 0, "", nil, false
	}
	var name strings.Builder
	for j := 1; j < len(s); j++ {
		switch s[j] {
		case '"':
			return line, name.String(), strings.Fields(s[j+1:]), true
		case '\\':
			j++
			if j < len(s) {
				if s[j] >= '0' && s[j] <= '7' { // octal, as both compilers print other bytes
					v, n := 0, 0
					for n < 3 && j < len(s) && s[j] >= '0' && s[j] <= '7' {
						v, j, n = v*8+int(s[j]-'0'), j+1, n+1
					}
					j--
					name.WriteByte(byte(v))
				} else {
					name.WriteByte(s[j])
				}
			}
		default:
			name.WriteByte(s[j])
		}
	}
	return 0, "", nil, false
}
