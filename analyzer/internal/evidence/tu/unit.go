package tu

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/token"
)

// unitMagic starts every .tu file. Its number is the version of the format.
const unitMagic = "tasting-tu 4\n"

// ErrUnit is the error of a file that is not a complete normalised translation unit.
var (
	ErrUnit    = errors.New("not a normalised translation unit of this version of tasting")
	errDamaged = fmt.Errorf("%w: it begins as one and is damaged or cut off; preprocess again", ErrUnit)
)

// Unit is a normalised translation unit: the input of a compilation, without what can't influence the code.
type Unit struct {
	// Source is the main file as named on the command line.
	Source string `json:"source"`
	// NotPlain is why the unit isn't plain. If it is set, the fields below are empty.
	NotPlain string `json:"not_plain,omitempty"`
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
	// Text holds the tokens and pragmas.
	Text []byte `json:"-"`
}

// packPrelude and floatPrelude declare for clang what gcc has built in.
const packPrelude = `int __builtin_va_arg_pack(void);
int __builtin_va_arg_pack_len(void);
`

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
		return nil, errDamaged
	}
	u := &Unit{}
	if err := json.Unmarshal(rest[:h], u); err != nil {
		return nil, fmt.Errorf("%w (%v)", errDamaged, err)
	}
	for i, s := range u.Segments {
		if s[0] < 0 || s[0] > t || s[1] < 0 || s[1] >= len(u.Files) || i > 0 && s[0] < u.Segments[i-1][0] {
			return nil, fmt.Errorf("%w (segment %d)", errDamaged, i)
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

// FileAt returns the presumed name of the file of Text[off].
func (u *Unit) FileAt(off int) string {
	i := sort.Search(len(u.Segments), func(i int) bool { return u.Segments[i][0] > off })
	if i == 0 {
		return ""
	}
	return u.Files[u.Segments[i-1][1]]
}

// normalize lexes the output of a preprocessor (with line markers) into u's Text, Files and Segments. It
// returns the names of all files in the markers, in order of appearance.
func (u *Unit) normalize(raw []byte, gcc bool) (read []string) {
	out := make([]byte, 0, len(raw))
	lex := token.New(raw, 0)
	seen := map[string]bool{}
	fileIdx := map[string]int{}
	file, system := u.Source, false
	floats := map[bool]bool{} // are gcc's _FloatN types used in the system's files, and in others?
	pack := false
	idx, lastSeg, atStart := -1, -1, true
	var prev token.Token
	for t := lex.Next(); t.Kind != token.EOF; t = lex.Next() {
		text := raw[t.Off:t.End]
		switch t.Kind {
		case token.Marker:
			if name, flags, ok := parseMarker(text); ok {
				file, system, idx = name, slices.Contains(flags, "3"), -1
				if !seen[name] {
					seen[name] = true
					read = append(read, name)
				}
			}
			continue
		case token.Pragma:
			if isDiagnostic(text) {
				continue
			}
			if !atStart {
				out = append(out, '\n')
				atStart = true
			}
		case token.Ident:
			if text[0] == '_' && gcc {
				if gccFloats[string(text)] {
					floats[system] = true
				}
				pack = pack || bytes.HasPrefix(text, []byte("__builtin_va_arg_pack"))
			}
		}
		if !atStart && needsSpace(raw, prev, t) {
			out = append(out, ' ')
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
			u.Segments = append(u.Segments, [2]int{len(out), idx})
			lastSeg = idx
		}
		if t.Kind == token.Pragma {
			text = bytes.Join(bytes.Fields(text), []byte(" "))
		}
		out = append(out, text...)
		atStart = false
		if t.Kind == token.Pragma || t.Kind == token.Punct && len(text) == 1 && (text[0] == ';' || text[0] == '{' || text[0] == '}') {
			out = append(out, '\n')
			atStart = true
		}
		prev = t
	}
	// gcc has the _FloatN types built in, clang hasn't. For declarations of system headers, types of the
	// same representation do; elsewhere clang refuses the unit.
	prelude := ""
	if floats[true] && !floats[false] {
		prelude = floatPrelude
	}
	if pack {
		prelude += packPrelude
	}
	u.Text = append([]byte(prelude), out...)
	for i := range u.Segments {
		u.Segments[i][0] += len(prelude)
	}
	return read
}

// diagnosticPragmas are the pragmas that only control messages.
var diagnosticPragmas = []string{"GCC diagnostic", "clang diagnostic", "GCC system_header", "clang system_header", "once", "message", "region", "endregion", "mark"}

// isDiagnostic reports whether a directive only controls messages. A directive that turns warnings into errors may
// prevent the object.
func isDiagnostic(line []byte) bool {
	body, ok := strings.CutPrefix(strings.Join(strings.Fields(string(line[1:])), " ")+" ", "pragma ")
	_, kind, _ := strings.Cut(body, " diagnostic ")
	return ok && !strings.HasPrefix(kind, "error") && !strings.HasPrefix(kind, "fatal") && slices.ContainsFunc(diagnosticPragmas, func(d string) bool { return strings.HasPrefix(body, d) && !token.IsIdent(body[len(d)]) })
}

// relative returns name for a manifest: relative to the current directory, or the base name if it lies
// elsewhere.
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

// needsSpace reports whether b must be kept apart from a: always, except next to brackets, commas and semicolons.
func needsSpace(raw []byte, a, b token.Token) bool {
	free := func(t token.Token) bool {
		if t.Kind != token.Punct || t.End-t.Off != 1 {
			return false
		}
		switch raw[t.Off] {
		case '(', ')', '{', '}', '[', ']', ',', ';':
			return true
		}
		return false
	}
	return !free(a) && !free(b)
}

var (
	lineMarker = lazyregexp.New(`^#[ \t]*(?:line)?[ \t]*[0-9]+[ \t]*"((?:[^"\\]|\\.)*)"(.*)`)
	escape     = lazyregexp.New(`\\(?:[0-7]{1,3}|.)`)
)

// parseMarker reads # LINE "FILE" FLAGS.
func parseMarker(b []byte) (file string, flags []string, ok bool) {
	m := lineMarker.FindStringSubmatch(string(b))
	if m == nil {
		return "", nil, false
	}
	file = escape.ReplaceAllStringFunc(m[1], func(s string) string {
		if c, err := strconv.ParseUint(s[1:], 8, 16); err == nil { // as both compilers print other bytes
			return string([]byte{byte(c)})
		}
		return s[1:]
	})
	return file, strings.Fields(m[2]), true
}
