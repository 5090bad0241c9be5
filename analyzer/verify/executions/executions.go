// Package executions compares what a test executed with what its fingerprint covers.
//
// A build with clang's counters of functions that are entered says what was executed. Each
// of these has to be a component of the closure, or be in one that counts as a whole: what
// isn't in there, an edit of it would go unnoticed.
package executions

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
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

// Result is the outcome of comparing what a test executed with its closure.
type Result struct {
	// Executed is the number of functions that were entered, Idle that of
	// instrumented ones that were not.
	Executed int `json:"executed"`
	Idle     int `json:"idle"`
	// Closure is the number of components in the closure.
	Closure int `json:"closure"`
	// Inlined is the number of executed functions that the test itself doesn't
	// have: their code is a part of others'.
	Inlined int `json:"inlined"`
	// Whole are executed functions without a component of their own that may
	// belong to what counts as a whole (Wholes, IDs of components), or to the
	// same function of another unit.
	Whole      []Function  `json:"whole"`
	Wholes     []string    `json:"wholes"`
	Violations []Violation `json:"violations"`
}

// Violation is a function that was executed and isn't in the closure.
type Violation struct {
	Function
	// Demangled is the name in C++, if it is another one.
	Demangled string `json:"demangled,omitempty"`
}

// Check checks that every function that a test executed is in its closure.
// The profiles, files or directories of files, are raw ones of clang's entry
// coverage (EntryCoverage), all of one test. clang is the one that compiled it:
// profiles are read by the llvm-profdata beside it. What has doesn't have was inlined,
// unless has is nil.
//
// Errors: a profile that is empty, damaged, of another sort or version; a
// closure of an older format. What has no profile is invisible: libraries that
// aren't instrumented, and processes that didn't write one.
func Check(ctx context.Context, closure *fingerprint.Report, profiles []string, has Functions, clang string) (*Result, error) {
	if closure.Format < 2 {
		return nil, fmt.Errorf("the closure has format %d, which doesn't name all symbols: write it again with this tasting", closure.Format)
	}
	entered, err := readProfiles(ctx, profiles, clang)
	if err != nil {
		return nil, err
	}
	e := compareExecution(closure, entered, has)
	demangle(ctx, clang, e.Violations)
	return e, nil
}

// Entries is the outcome of comparing what a test executed by its counters with the trace of the same run.
type Entries struct {
	// Executed is the number of functions that were entered by the counters, Inlined how many of these have
	// no code of their own, or none that anything refers to that is entered, or is data: what was executed of
	// them is a part of others.
	Executed int `json:"executed"`
	Inlined  int `json:"inlined"`
	// InlinedFunctions are those: a compiler can be asked whether it has inlined them (-Rpass=inline).
	InlinedFunctions []Function `json:"inlinedFunctions,omitempty"`
	// Entered is the number of functions in the trace, which has also those without counters.
	Entered int `json:"entered"`
	// Missing are all other functions of Executed that aren't in the trace, unless that was given up.
	Missing []Function `json:"missing"`
	// GaveUp is why the trace may lack functions.
	GaveUp []string `json:"gaveUp,omitempty"`
}

func (f Function) compare(g Function) int {
	return cmp.Or(strings.Compare(f.Source, g.Source), strings.Compare(f.Symbol, g.Symbol))
}

// CheckTrace checks that every function that a test executed by its counters (see Check) is in the trace of
// that run, or was inlined by the closure of the test as it is without counters. has are the functions of the
// instrumented program and its libraries.
func CheckTrace(ctx context.Context, closure *fingerprint.Report, t *trace.Trace, profiles []string, has Functions, clang string) (*Entries, error) {
	counted, err := readProfiles(ctx, profiles, clang)
	if err != nil {
		return nil, err
	}
	e := &Entries{Missing: []Function{}, GaveUp: t.GaveUp}
	traced := map[string]bool{}
	for _, f := range t.Files {
		e.Entered += len(f.Executed)
		for _, x := range f.Executed {
			for _, s := range x.Symbols {
				traced[ofFile.ReplaceAllString(s.Name, "$1")] = true
			}
		}
	}
	called := callable(closure, traced, has)
	for f, executed := range counted {
		if !executed {
			continue
		}
		e.Executed++
		name := ofFile.ReplaceAllString(f.Symbol, "$1")
		_, there := has[Function{Symbol: name}]
		switch {
		case traced[name]:
		case there && called(f) && len(t.GaveUp) > 0:
		case there && called(f):
			e.Missing = append(e.Missing, f)
		default:
			e.Inlined++
			e.InlinedFunctions = append(e.InlinedFunctions, f)
		}
	}
	slices.SortFunc(e.Missing, Function.compare)
	slices.SortFunc(e.InlinedFunctions, Function.compare)
	return e, nil
}

// callable reports whether something that was entered, or isn't a function, refers to a function.
func callable(closure *fingerprint.Report, traced map[string]bool, has Functions) func(f Function) bool {
	x := newClosureIndex(closure)
	number := make(map[string]int, len(closure.Components))
	for i, c := range closure.Components {
		number[c.ID] = i
	}
	referred := make([]bool, len(closure.Components))
	for _, r := range closure.Roots {
		referred[number[r.Component]] = true
	}
	for _, c := range closure.Components {
		function, entered := false, false
		for _, s := range append([]string{c.Name}, c.Symbols...) {
			s = ofFile.ReplaceAllString(s, "$1")
			_, is := has[Function{Symbol: s}]
			function, entered = function || is, entered || traced[s]
		}
		for _, to := range c.Links {
			referred[number[to]] = referred[number[to]] || entered || !function
		}
	}
	return func(f Function) bool {
		return slices.ContainsFunc(x.find(f), func(i int) bool { return referred[i] })
	}
}

// Functions are those that programs have, as the closure knows them: without
// instrumentation. Of a local one, the source is a base name. Each has the visible
// names of its code.
type Functions map[Function][]string

// Add adds what is in the symbol table of a program or library.
func (has Functions) Add(file string) error {
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return fmt.Errorf("%s: %w: name the program as it was linked, not stripped", file, err)
	}
	symbols = slices.DeleteFunc(symbols, func(s elf.Symbol) bool {
		t := elf.ST_TYPE(s.Info)
		return t != elf.STT_FILE && (s.Section == elf.SHN_UNDEF || t != elf.STT_FUNC && t != elf.STT_GNU_IFUNC)
	})
	visible := map[uint64][]string{}
	for _, s := range symbols {
		if elf.ST_BIND(s.Info) != elf.STB_LOCAL {
			visible[s.Value] = append(visible[s.Value], s.Name)
		}
	}
	source := ""
	for _, s := range symbols {
		name := Function{Symbol: ofFile.ReplaceAllString(s.Name, "$1")}
		if elf.ST_TYPE(s.Info) == elf.STT_FILE {
			source = filepath.Base(s.Name)
			continue
		}
		has[name] = append(has[name], visible[s.Value]...) // also of local ones: they may have been hidden
		if elf.ST_BIND(s.Info) == elf.STB_LOCAL {
			name.Source = source
			has[name] = append(has[name], visible[s.Value]...)
		}
	}
	return nil
}

func compareExecution(closure *fingerprint.Report, entered map[Function]bool, has Functions) *Result {
	x := newClosureIndex(closure)
	e := &Result{Whole: []Function{}, Wholes: []string{}, Violations: []Violation{}, Closure: len(closure.Components)}
	wholes := map[int]bool{}
	for f, executed := range entered {
		if !executed {
			e.Idle++
			continue
		}
		e.Executed++
		if len(x.find(f)) > 0 {
			continue
		}
		own := Function{Symbol: ofFile.ReplaceAllString(f.Symbol, "$1")}
		if f.Source != "" {
			own.Source = filepath.Base(f.Source)
		}
		names, there := has[own]
		if has != nil && !there {
			e.Inlined++
			continue
		}
		if slices.ContainsFunc(names, func(n string) bool { return len(x.find(Function{Symbol: n})) > 0 }) {
			continue
		}
		comps := x.wholes(f)
		if len(comps) == 0 {
			e.Violations = append(e.Violations, Violation{Function: f})
			continue
		}
		e.Whole = append(e.Whole, f)
		for _, i := range comps {
			wholes[i] = true
		}
	}
	for i, c := range closure.Components {
		if wholes[i] {
			e.Wholes = append(e.Wholes, c.ID)
		}
	}
	slices.SortFunc(e.Whole, Function.compare)
	slices.SortFunc(e.Violations, func(v, w Violation) int { return v.compare(w.Function) })
	return e
}

// closureIndex finds the components of a closure, by their numbers.
type closureIndex struct {
	names map[string][]owner
	// Nothing tells which hidden functions shared libraries have, and which
	// local ones a section of several functions has.
	libraries []int
	sections  []owner
}

// owner is a component that has a symbol.
type owner struct {
	comp     int
	local    bool
	source   string
	bySource bool // what the evidence is
}

func newClosureIndex(closure *fingerprint.Report) *closureIndex {
	x := &closureIndex{names: map[string][]owner{}}
	for i, c := range closure.Components {
		o := owner{i, c.Linkage == "local", c.Source, c.Kind == "function"}
		if strings.HasSuffix(c.File, ".o") {
			o.source = c.File // a member of an archive
		}
		name, _, _ := strings.Cut(c.Name, "#") // the second one of a name
		if inner, ok := strings.CutPrefix(name, c.File+"("); ok {
			name = strings.TrimSuffix(inner, ")")
		}
		for _, s := range append([]string{name}, c.Symbols...) {
			s = ofFile.ReplaceAllString(s, "$1")
			x.names[s] = append(x.names[s], o)
		}
		switch {
		case c.Kind == "file" && c.Linkage != "local":
			x.libraries = append(x.libraries, i)
		case c.Kind == "section" && textSection.MatchString(name):
			x.sections = append(x.sections, o)
		}
	}
	return x
}

// textSection matches the sections where compilers put functions together.
var textSection = regexp.MustCompile(`^\.text(\.(unlikely|hot|startup|exit))?$`)

// ofFile matches names with that of the file, which the analyzer doesn't tell
// clang: a unit's dynamic initialisers, and -funique-internal-linkage-names.
var ofFile = regexp.MustCompile(`^(_GLOBAL__sub_I_).*$|\.__uniq\.\d+`)

// passes matches what clang's passes before that of the counters append.
var passes = regexp.MustCompile(`\.(specialized|llvm)\.\d+$`)

// find returns the components that f is or belongs to.
func (x *closureIndex) find(f Function) (found []int) {
	f.Symbol = ofFile.ReplaceAllString(f.Symbol, "$1")
	for part := false; ; {
		for _, o := range x.names[f.Symbol] {
			same := !o.local
			if f.Source != "" {
				same = o.local && sameSource(f.Source, o.source)
			}
			if same && (!part || o.bySource) {
				found = append(found, o.comp)
			}
		}
		cut := -1
		if m := passes.FindStringIndex(f.Symbol); m != nil {
			cut = m[0]
		} else {
			// A source doesn't tell what compilers make: versions for other CPUs
			// and bodies of OpenMP's regions belong to their function.
			part = true
			cut = strings.LastIndexByte(f.Symbol, '.')
		}
		if cut <= 0 || len(found) > 0 {
			return found
		}
		f.Symbol = f.Symbol[:cut]
	}
}

// wholes returns the components that f may be a part of although none says so:
// libraries, sections of its unit, and if it is local and known by its source,
// functions of other units that may stand for it because they are equal.
func (x *closureIndex) wholes(f Function) []int {
	found := slices.Clone(x.libraries)
	if f.Source == "" {
		return found
	}
	for _, o := range x.sections {
		if sameSource(f.Source, o.source) {
			found = append(found, o.comp)
		}
	}
	for _, o := range x.names[f.Symbol] {
		if o.local && o.bySource {
			found = append(found, o.comp)
		}
	}
	return found
}

// sameSource compares a source in a profile, as on the compiler's command line,
// with one in a manifest: relative to where it was written, or a base name; or
// with its object file.
func sameSource(profile, manifest string) bool {
	if object, ok := strings.CutSuffix(filepath.Base(manifest), ".o"); ok {
		name := filepath.Base(profile)
		return strings.TrimSuffix(object, ".pic") == strings.TrimSuffix(name, filepath.Ext(name))
	}
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
		return fmt.Errorf("%s: %s can't read the profile (%w); name the clang that compiled the program with --clang: %s", file, tool, err, strings.TrimSpace(stderr.String()))
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
func demangle(ctx context.Context, clang string, l []Violation) {
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
