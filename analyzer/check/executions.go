package check

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/fingerprint"
)

// EntryCoverage are clang's flags for a program that records which of its
// functions are entered. The counters are inserted before anything is inlined;
// a copy of them lives in a file all the time, so that they outlive a crash
// (%c in LLVM_PROFILE_FILE).
var EntryCoverage = []string{
	"-fprofile-generate",
	"-mllvm", "-pgo-function-entry-coverage",
	// Both would hide functions: small ones that are inlined before, and
	// those called in loops out of which the store to the counter is moved.
	"-mllvm", "-disable-preinline",
	"-mllvm", "-runtime-counter-relocation",
	// Functions with more critical edges have no counters.
	"-mllvm", "-pgo-critical-edge-threshold=4294967295",
}

// EntryCoverageLink is the flag for the link of such a program.
const EntryCoverageLink = "-fprofile-generate"

// Function is a function as a profile names it.
type Function struct {
	Symbol string `json:"symbol"`
	// Source is the main file of the unit, for local functions only.
	Source string `json:"source,omitempty"`
}

func (f Function) String() string {
	if f.Source == "" {
		return f.Symbol
	}
	return f.Symbol + " of " + f.Source
}

// Execution is the outcome of comparing what a test executed with its closure.
type Execution struct {
	// Executed is the number of functions that were entered, Idle that of
	// instrumented ones that were not.
	Executed int `json:"executed"`
	Idle     int `json:"idle"`
	// Closure is the number of functions in the closure, and Unseen that of
	// those which no profile mentions: their code isn't instrumented, or the
	// compiler removed it.
	Closure int `json:"closure"`
	Unseen  int `json:"unseen"`
	// Whole are executed functions without a component of their own that may
	// belong to what counts as a whole (Wholes, IDs of components).
	Whole      []Function           `json:"whole"`
	Wholes     []string             `json:"wholes"`
	Violations []ExecutionViolation `json:"violations"`
}

// ExecutionViolation is a function that was executed and isn't in the closure.
type ExecutionViolation struct {
	Function
	// Demangled is the name in C++, if it is another one.
	Demangled string `json:"demangled,omitempty"`
}

// Executions checks that every function that a test executed is in its closure.
// The profiles, files or directories of files, are raw ones of clang's entry
// coverage (EntryCoverage), all of one test. clang is the one that compiled it:
// profiles are read by the llvm-profdata beside it.
//
// Errors: a profile that is empty, damaged, of another sort or version; a
// closure of an older format. What has no profile is invisible: libraries that
// aren't instrumented, and processes that didn't write one.
func Executions(ctx context.Context, closure *fingerprint.Report, profiles []string, clang string) (*Execution, error) {
	if closure.Format < 2 {
		return nil, fmt.Errorf("the closure has format %d, which doesn't name all symbols: write it again with this tasting", closure.Format)
	}
	entered, err := readProfiles(ctx, profiles, clang)
	if err != nil {
		return nil, err
	}
	e := compareExecution(closure, entered)
	demangle(ctx, clang, e.Violations)
	return e, nil
}

func compareExecution(closure *fingerprint.Report, entered map[Function]bool) *Execution {
	x := newClosureIndex(closure)
	e := &Execution{Whole: []Function{}, Wholes: []string{}, Violations: []ExecutionViolation{}}
	seen := map[int]bool{}
	wholes := map[int]bool{}
	for f, executed := range entered {
		comps := x.find(f)
		for _, i := range comps {
			seen[i] = true
		}
		if !executed {
			e.Idle++
			continue
		}
		e.Executed++
		if len(comps) > 0 {
			continue
		}
		if comps = x.wholes(f); len(comps) == 0 {
			e.Violations = append(e.Violations, ExecutionViolation{Function: f})
			continue
		}
		e.Whole = append(e.Whole, f)
		for _, i := range comps {
			wholes[i] = true
		}
	}
	for i, c := range closure.Components {
		if c.Kind == "function" {
			e.Closure++
			if !seen[i] {
				e.Unseen++
			}
		}
		if wholes[i] {
			e.Wholes = append(e.Wholes, c.ID)
		}
	}
	order := func(f, g Function) int {
		return cmp.Or(strings.Compare(f.Source, g.Source), strings.Compare(f.Symbol, g.Symbol))
	}
	slices.SortFunc(e.Whole, order)
	slices.SortFunc(e.Violations, func(v, w ExecutionViolation) int { return order(v.Function, w.Function) })
	return e
}

// closureIndex finds the components of a closure, by their numbers.
type closureIndex struct {
	names map[string][]owner
	files []owner // units that count as a whole
	units []owner // the others of which something is in the closure
	// Nothing tells which hidden functions shared libraries have, and which
	// local ones a section of several functions has.
	libraries, sections []int
}

// owner is a component that has a symbol.
type owner struct {
	comp   int
	local  bool
	source string // of a local symbol, if known
}

func newClosureIndex(closure *fingerprint.Report) *closureIndex {
	x := &closureIndex{names: map[string][]owner{}}
	add := func(symbol string, o owner) {
		symbol = ofFile.ReplaceAllString(symbol, "$1")
		x.names[symbol] = append(x.names[symbol], o)
	}
	for i, c := range closure.Components {
		name, _, _ := strings.Cut(c.Name, "#") // the second definition of a name
		for _, s := range append([]string{name}, c.Symbols...) {
			add(s, owner{i, c.Linkage == "local", c.Source})
		}
		for _, d := range c.Copies {
			add(d.Name, owner{i, true, d.Source})
		}
		switch {
		case c.Kind == "file" && c.Name == "file "+c.Source:
			x.files = append(x.files, owner{i, false, c.Source})
		case c.Kind == "file" && c.Linkage != "local":
			x.libraries = append(x.libraries, i)
		case c.Kind == "section" && strings.HasPrefix(c.Name, ".text"):
			if s := symbolOfSection(c.Name); s != "" {
				add(s, owner{i, true, ""})
			} else {
				x.sections = append(x.sections, i)
			}
		case c.Kind != "file" && c.Kind != "section":
			x.units = append(x.units, owner{i, false, c.Source})
		}
	}
	return x
}

// ofFile matches names with that of the file, which the analyzer doesn't tell
// clang: a unit's dynamic initialisers, and -funique-internal-linkage-names.
var ofFile = regexp.MustCompile(`^(_GLOBAL__sub_I_).*$|\.__uniq\.\d+`)

// passes matches what clang's passes before that of the counters append.
var passes = regexp.MustCompile(`\.(specialized|llvm)\.\d+$`)

// find returns the components that f is or belongs to.
func (x *closureIndex) find(f Function) []int {
	f.Symbol = ofFile.ReplaceAllString(f.Symbol, "$1")
	for {
		if l := x.exact(f); len(l) > 0 {
			return l
		}
		cut := -1
		if m := passes.FindStringIndex(f.Symbol); m != nil {
			cut = m[0]
		} else if f.isC() {
			// The manifest of C is made of the source: versions for other CPUs
			// and bodies of OpenMP's regions belong to their function.
			cut = strings.LastIndexByte(f.Symbol, '.')
		}
		if cut <= 0 {
			return nil
		}
		f.Symbol = f.Symbol[:cut]
	}
}

// isC says whether f may be a function of C.
func (f Function) isC() bool {
	if f.Source != "" {
		return isC(f.Source)
	}
	return !strings.HasPrefix(f.Symbol, "_Z")
}

func isC(source string) bool { return filepath.Ext(source) == ".c" || filepath.Ext(source) == ".i" }

func (x *closureIndex) exact(f Function) (found []int) {
	for _, o := range x.names[f.Symbol] {
		var same bool
		switch {
		case f.Source != "":
			same = o.local && (o.source == "" || sameSource(f.Source, o.source))
		case o.local:
			// The body of an inline function of C++ whose symbol another unit
			// has is local to the manifest and not to the profile.
			same = !isC(o.source)
		default:
			same = true
		}
		if same {
			found = append(found, o.comp)
		}
	}
	return found
}

// wholes returns the components that f may be a part of although none says so.
func (x *closureIndex) wholes(f Function) (found []int) {
	in := func(o owner) bool { return f.Source == "" || sameSource(f.Source, o.source) }
	for _, o := range x.files {
		if in(o) {
			found = append(found, o.comp)
		}
	}
	if f.Source == "" {
		return append(found, x.libraries...)
	}
	if slices.ContainsFunc(x.units, in) {
		return found // if it were in the closure, it would have its component
	}
	return slices.Concat(found, x.libraries, x.sections)
}

// sameSource compares a source in a profile, as on the compiler's command line,
// with one in a manifest: relative to where it was written, or a base name.
func sameSource(profile, manifest string) bool {
	profile = filepath.ToSlash(filepath.Clean(profile))
	return profile == manifest || filepath.IsAbs(profile) && strings.HasSuffix(profile, "/"+manifest)
}

// readProfiles returns the functions of raw profiles, and whether each was
// entered.
func readProfiles(ctx context.Context, profiles []string, clang string) (map[Function]bool, error) {
	tool, err := besideClang(ctx, clang, "llvm-profdata")
	if err != nil {
		return nil, err
	}
	entered := map[Function]bool{}
	for _, p := range profiles {
		files := 0
		err := filepath.WalkDir(p, func(file string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			files++
			return readProfile(ctx, tool, file, entered)
		})
		if err != nil {
			return nil, err
		}
		if files == 0 {
			return nil, fmt.Errorf("%s: no profiles: link the program with %s, and run it with LLVM_PROFILE_FILE=DIR/%%p-%%m%%c.profraw", p, EntryCoverageLink)
		}
	}
	// A library of the program may be idle, the program itself isn't.
	for _, executed := range entered {
		if executed {
			return entered, nil
		}
	}
	return nil, fmt.Errorf("%s: no function was entered, not even main: not the profiles of a run", strings.Join(profiles, " "))
}

// readProfile adds the functions of a profile to entered. One at a time: of a
// mixture, llvm-profdata only warns.
func readProfile(ctx context.Context, tool, file string, entered map[Function]bool) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if info.Size() == 0 { // llvm-profdata ignores it
		return fmt.Errorf("%s: the profile is empty: the program ended before it wrote one; set LLVM_PROFILE_FILE to a name with %%c", file)
	}
	cmd := exec.CommandContext(ctx, tool, "merge", "--text", "-o", "-", file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %s can't read the profile (%w); name the clang that compiled the program with --clang: %s", file, tool, err, firstLines(stderr.String(), 5))
	}
	if err := parseProfile(out, entered); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// parseProfile reads the text of an indexed profile: flags, which start with a
// colon, and for each function its name, a hash, the number of counters and
// the counters. A function appears once for each body that it has.
func parseProfile(text []byte, entered map[Function]bool) error {
	flags := map[string]bool{}
	var record []string
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(nil, 1<<24)
	for s.Scan() {
		line := s.Text()
		switch {
		case line == "" || line[0] == '#':
			continue
		case line[0] == ':' && len(record) == 0:
			flags[line] = true
			continue
		}
		if record = append(record, line); len(record) < 4 {
			continue
		}
		n, err := strconv.ParseUint(record[3], 10, 64)
		if err != nil || record[2] != "1" {
			return fmt.Errorf("%s: not the record of a function that is counted when it is entered, which has one counter; compile with %s", strings.Join(record, " "), strings.Join(EntryCoverage, " "))
		}
		f := Function{Symbol: record[0]}
		// Neither a symbol of C and C++ nor a usual path has a semicolon.
		if i := strings.LastIndexByte(f.Symbol, ';'); i >= 0 {
			f = Function{f.Symbol[i+1:], f.Symbol[:i]}
		}
		entered[f] = entered[f] || n > 0
		record = record[:0]
	}
	switch {
	case s.Err() != nil:
		return s.Err()
	case len(record) > 0:
		return errors.New("the profile ends within a record")
	case !flags[":ir"] || !flags[":single_byte_coverage"]:
		return fmt.Errorf("not a profile of entered functions; compile with %s", strings.Join(EntryCoverage, " "))
	}
	return nil
}

// BuildID returns the build ID, in hex, of the program or library that wrote a
// profile, empty if it has none.
func BuildID(ctx context.Context, profile, clang string) (string, error) {
	tool, err := besideClang(ctx, clang, "llvm-profdata")
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, tool, "show", "--binary-ids", profile).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %s can't read the profile: %w", profile, tool, err)
	}
	_, ids, _ := strings.Cut(string(out), "Binary IDs:")
	return strings.TrimSpace(ids), nil
}

// besideClang returns a tool of clang's own version.
func besideClang(ctx context.Context, clang, tool string) (string, error) {
	out, err := exec.CommandContext(ctx, clang, "--print-prog-name="+tool).Output()
	if err != nil {
		return "", fmt.Errorf("%s can't be asked for its %s: %w", clang, tool, err)
	}
	path := strings.TrimSpace(string(out))
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("no %s beside %s: install LLVM's tools of the same version (Debian: llvm)", tool, clang)
	}
	return path, nil
}

// demangle adds names of C++, if there is a tool for it.
func demangle(ctx context.Context, clang string, l []ExecutionViolation) {
	tool, err := besideClang(ctx, clang, "llvm-cxxfilt")
	if err != nil || len(l) == 0 {
		return
	}
	var in bytes.Buffer
	for _, v := range l {
		fmt.Fprintln(&in, v.Symbol)
	}
	cmd := exec.CommandContext(ctx, tool)
	cmd.Stdin = &in
	out, err := cmd.Output()
	names := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if err != nil || len(names) != len(l) {
		return
	}
	for i, n := range names {
		if n != l[i].Symbol {
			l[i].Demangled = n
		}
	}
}
