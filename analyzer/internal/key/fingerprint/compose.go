package fingerprint

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkflags"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/syslib"
)

// Test has the build's facts about a test.
type Test struct {
	// Links are link files: that of the test's executable, then those of its libraries and archives, in any order.
	Links []string
	// Source uses manifests of sources for the units that have one.
	Source bool
	// Files are the linked files of a test whose links aren't known, in the
	// order of the loader.
	Files []LinkedFile
	// Manifests of everything that is linked into one executable, in the order of
	// the link, if there are neither Links nor Files. Members of archives are
	// linked if they are needed.
	Manifests []string
	// Roots is where the test starts. LinkFlags needn't be repeated there.
	Roots Roots
	// Binary is the runfiles path of the real test executable.
	Binary string
	// Data are the files and directories that the test can read.
	Data []DataFile
	// Empty are runfiles paths of empty files and, with a slash at the end, of empty directories.
	Empty []string
	// RepoMapping is Bazel's file _repo_mapping, which maps names of repositories in runfiles, or empty.
	RepoMapping string
	// Execution are tags that change where or how Bazel executes the test.
	Execution []string
	// LinkFlags are flags of the link that Links don't have.
	LinkFlags []string
	// LinkInputs are files that a link reads besides code, such as linker scripts and version scripts.
	LinkInputs []string
	// Tools are files that identify the build's own tools for the link, written by Tools.Write.
	Tools []string
	// Toolchain is a file of tasting internal probe with the files of the system that links take, or empty.
	Toolchain string
	// EnvKeys are names of variables that the test's declaration sets or inherits.
	EnvKeys []string
	// System returns the files of the system that links with such lines take, or nil if they aren't known. If System is nil,
	// Toolchain is read.
	System func(lines []*linkflags.Line) *syslib.Taken `json:"-"`
	// Opens are words of the test's arguments and environment that name shared libraries.
	Opens []string
	// AlwaysRun are reasons to execute the test in any case.
	AlwaysRun []string
	// LocalOnly are reasons not to share results with other machines.
	LocalOnly []string
	// Store is where results are recorded, empty for the runner's default.
	Store string

	// Idle, if it isn't nil, has the names of functions that an execution of the test didn't enter (trace.Result.Idle). The
	// test is then composed for the key of a trace (docs/explanation/traces.md).
	Idle map[string]bool `json:"-"`
	// Cases is set if Config.Cases are wanted.
	Cases bool

	// Dir is the directory to which names of manifests in link files are relative, or empty for the current one.
	Dir string
}

// LinkedFile is an executable or shared library with the manifests of its units.
type LinkedFile struct {
	Name      string
	Manifests []string
}

// DataFile is a file or directory that the test can read.
type DataFile struct {
	Path string // in the runfiles
	File string // that has its content now
}

// Compose returns the configuration of a test and the report of its fingerprint. Warnings are reasons why the test always
// runs. One is a manifest that can't be read, which isn't an error.
func Compose(t *Test) (c *Config, r *Report, warnings []string, err error) {
	var x Composed
	composeAll([]*Test{t}, nil, func(_ int, c *Composed) { x = *c })
	if x.Err != nil {
		return nil, nil, nil, x.Err
	}
	return x.Config, x.report, x.Warnings, nil
}

// compose makes the Config of a test from the summary of its code. Undefined are the symbols that nothing defines. Taken are
// the files of the system that the lines take, or nil if they aren't known.
func compose(t *Test, code *summary, flags []string, lines []*linkflags.Line, inputs []*input, undefined []string, taken *syslib.Taken, linked []*linkedFile, data *digests) (*Composed, []Contribution, error) {
	c := &Config{
		Format: ConfigFormat, Binary: t.Binary, LinkFlags: flags, Store: t.Store, Code: code.Hash,
		AlwaysRun: slices.Clone(t.AlwaysRun), LocalOnly: slices.Clone(t.LocalOnly), EnvKeys: slices.Clone(t.EnvKeys),
		Cases: code.Cases, NoCases: code.NoCases,
	}
	var warnings []string
	var versions []uint32
	for _, in := range inputs {
		if in.Warning != "" {
			warnings = append(warnings, in.Warning)
		}
		if !in.Corrupt {
			versions = append(versions, in.Format)
		}
	}
	formats := formats(versions)
	declared, err := declaredContributions(t, data.digest)
	if err != nil {
		return nil, nil, err
	}
	c.Contributions = slices.Concat(declared, systemContributions(t, taken), symbolContributions(code, undefined), t.openedLibraries(linked), []Contribution{formats})
	files, err := c.addTestData(t, data)
	if err != nil {
		return nil, nil, err
	}
	if taken != nil {
		c.Needs = slices.Sorted(slices.Values(taken.Needs))
	}
	c.sort()
	c.AlwaysRun = append(c.AlwaysRun, t.undeclared(linked)...)
	for _, s := range code.Missing {
		if code.Unusual == "" || len(t.Links) == 0 { // else it may be in a unit that is known by its content, as with -flto
			warnings = append(warnings, "no manifest defines "+s)
		}
	}
	c.AlwaysRun = append(c.AlwaysRun, warnings...)
	all := contributions(code.Hash, formats, c.parts(formats))
	return &Composed{Config: c, Warnings: warnings, Fingerprint: combine(all), Lines: lines, DataFiles: files, test: t}, all, nil
}

// declaredContributions contributes what the build declares for a test's execution, and the files that its link reads besides
// code.
func declaredContributions(t *Test, digest digester) (l []Contribution, err error) {
	add := func(name, file string) {
		d, e := digest(file)
		err = errors.Join(err, e)
		l = append(l, Contribution{name, d.sum})
	}
	if t.RepoMapping != "" {
		add(repoMapping, t.RepoMapping)
	}
	if len(t.Execution) > 0 {
		l = append(l, NewContribution("execution tags", t.Execution))
	}
	for i, f := range t.LinkInputs {
		add(fmt.Sprintf("link input %d %s", i+1, linkflags.Neutral(strings.TrimPrefix(f, t.Dir+"/"))), f)
	}
	for _, f := range t.Tools {
		add("tools of the link", f)
	}
	return l, err
}

// undeclared returns reasons to always run the test: files that are linked as data (--format) and whose content isn't known.
// They are neither LinkInputs nor files of the system, which a probe knows.
func (t *Test) undeclared(linked []*linkedFile) (reasons []string) {
	for _, f := range linked {
		if f.line == nil {
			continue
		}
		for _, name := range f.line.Blobs {
			if file := filepath.Clean(inDir(t.Dir, name)); !filepath.IsAbs(name) && !slices.ContainsFunc(t.LinkInputs, func(s string) bool {
				return filepath.Clean(s) == file || strings.HasPrefix(file, filepath.Clean(s)+"/")
			}) {
				reasons = append(reasons, name+" is linked as data (--format), and not among additional_linker_inputs")
			}
		}
	}
	return reasons
}

// systemContributions contributes LinkedFromSystem or NotProbed.
func systemContributions(t *Test, taken *syslib.Taken) []Contribution {
	if taken == nil {
		if len(t.Links) > 0 {
			return []Contribution{NewContribution(NotProbed, nil)}
		}
		return nil
	}
	words := append(slices.Clone(taken.Linker), "")
	for _, f := range taken.Files {
		words = append(words, f.Name, hex.EncodeToString(f.SHA256[:]))
	}
	return []Contribution{NewContribution(LinkedFromSystem, words)}
}

// symbolContributions contributes symbols that a linker may refuse: a replay must not hide that the test no longer links. Whether
// a linker does refuse them depends on all that is linked.
func symbolContributions(code *summary, undefined []string) (l []Contribution) {
	if len(undefined) > 0 {
		l = append(l, NewContribution("undefined symbols", append(slices.Clone(undefined), code.Content)))
	}
	if len(code.Duplicates) > 0 {
		l = append(l, NewContribution("symbols with several definitions", append(slices.Clone(code.Duplicates), code.Content)))
	}
	return l
}

// addTestData adds the data of a test, and returns its files.
func (c *Config) addTestData(t *Test, data *digests) (files []string, err error) {
	var links []string
	for _, d := range t.Data {
		if err := addData(c, &files, &links, data.stat, data.digest, d.Path, d.File); errors.Is(err, fs.ErrNotExist) {
			return nil, noData(d.Path + "=" + d.File)
		} else if err != nil {
			return nil, fmt.Errorf("data %s: %w", d.Path, err)
		}
		if info, err := data.stat(d.File); err == nil && info.IsDir() {
			c.Directories = append(c.Directories, d.Path)
		}
	}
	c.Contributions = append(c.Contributions, linksInDirectories(links)...)
	for _, name := range t.Empty {
		c.Data = append(c.Data, emptyFile(name))
	}
	return files, nil
}

// sort sorts the lists whose order has no meaning.
func (c *Config) sort() {
	// The order of several files with one path decides which one is in the runfiles.
	slices.SortStableFunc(c.Data, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	c.Data = slices.Compact(c.Data)
	for _, l := range []*[]string{&c.Directories, &c.Executable, &c.EnvKeys} {
		slices.Sort(*l)
		*l = slices.Compact(*l)
	}
	slices.SortFunc(c.Contributions, Contribution.compare)
}

// parts returns the contributions for a report: one for each file, without formats.
func (c *Config) parts(formats Contribution) []Contribution {
	more := slices.DeleteFunc(slices.Clone(c.Contributions), func(x Contribution) bool { return x == formats })
	for _, d := range c.Data {
		more = append(more, Contribution{"data " + d.Path, d.SHA256})
	}
	if len(c.Executable) > 0 {
		more = append(more, NewContribution("executable data files", c.Executable))
	}
	if len(c.LinkFlags) > 0 {
		more = append(more, NewContribution("link flags", c.LinkFlags))
	}
	if len(c.EnvKeys) > 0 {
		more = append(more, NewContribution("names of environment variables", c.EnvKeys))
	}
	return more
}

// taken returns the files of the system that links with such lines take, or nil if they aren't known.
func (t *Test) taken(lines []*linkflags.Line) (*syslib.Taken, error) {
	if t.System != nil {
		return t.System(lines), nil
	}
	if t.Toolchain == "" {
		return nil, nil
	}
	probe, err := syslib.ReadProbe(t.Toolchain)
	if err != nil || probe == nil {
		return nil, err
	}
	// The probe may not know the libraries that objects and scripts ask for.
	return probe.Of(lines...), nil
}

// undefined returns the symbols that no library of the system on the lines defines. Without a probe, names decide: the
// symbols of overrides.txt are defined, and those of libm only if it is on the line. (Drivers for C++ add libm.)
func undefined(symbols []string, lines []*linkflags.Line, taken *syslib.Taken) []string {
	math := len(lines) == 0 || slices.ContainsFunc(lines[0].Items, func(it linkflags.Item) bool { return it.Kind == linkflags.Library && it.Name == "m" })
	return slices.DeleteFunc(slices.Clone(symbols), func(s string) bool {
		if slices.Contains(linkerSymbols, s) {
			return true
		}
		if taken != nil {
			return taken.Provides(s)
		}
		if slices.ContainsFunc(lines, isBare) || isCxx(s) && slices.ContainsFunc(lines, isBareCxx) {
			return false
		}
		_, known := slices.BinarySearch(shared(), s)
		if optionalSymbols.MatchString(s) {
			return false
		}
		if known && !math {
			_, missing := slices.BinarySearch(libm(), s)
			return !missing
		}
		return known || fundamentalTypes.MatchString(s) || maybeCxx.MatchString(s)
	})
}

// systemLibrary returns the library of the system that surely defines a symbol, or the symbol if none does. It returns "" for
// the C library, which every file needs.
func systemLibrary(symbol string) string {
	_, known := slices.BinarySearch(shared(), symbol)
	_, math := slices.BinarySearch(libm(), symbol)
	switch {
	case slices.Contains(linkerSymbols, symbol), strings.HasPrefix(symbol, "__start_"), strings.HasPrefix(symbol, "__stop_"):
		return ""
	case runtimeSymbols.MatchString(symbol):
		return runtimeSymbols.FindStringSubmatch(symbol)[1]
	case vectorSymbols.MatchString(symbol):
		return "mvec"
	case isCxx(symbol):
		return "C++"
	case math:
		return "m"
	case unwindSymbols.MatchString(symbol): // in libgcc_s, or in libunwind
		return "unwind"
	case libgccSymbols.MatchString(symbol):
		return "gcc"
	case known && !optionalSymbols.MatchString(symbol):
		return ""
	}
	return symbol
}

// runtimeSymbols matches symbols of the runtimes of sanitizers and coverage.
var runtimeSymbols = lazyregexp.New(`^__(asan|hwasan|lsan|msan|tsan|ubsan|sanitizer|gcov|llvm_profile)_`)

// vectorSymbols matches functions of libmvec, by the vector function ABI.
var vectorSymbols = lazyregexp.New(`^_ZGV[a-z][MN][0-9x]`)

// unwindSymbols matches symbols of the unwinder.
var unwindSymbols = lazyregexp.New(`^(_Unwind_|__(de)?register_frame|__gcc_personality|__emutls_)`)

// libgccSymbols matches symbols of libgcc.
var libgccSymbols = lazyregexp.New(`^(__gcc_.*|__cpu_.*|__[a-z]+[dhstx][ifc][0-9]?)$`)

// isBare reports whether a link lacks the libraries that drivers add.
func isBare(l *linkflags.Line) bool {
	return slices.ContainsFunc(l.Flags, func(f string) bool {
		return f == "-nostdlib" || f == "-nodefaultlibs" || f == "-nolibc"
	})
}

// isBareCxx reports whether a link lacks the C++ library.
func isBareCxx(l *linkflags.Line) bool { return slices.Contains(l.Flags, "-nostdlib++") }

// isCxx reports whether a symbol may be in the C++ library.
func isCxx(symbol string) bool {
	return strings.HasPrefix(symbol, "_Z") || strings.HasPrefix(symbol, "__cxa_") || strings.HasPrefix(symbol, "__gxx_")
}

// linkerSymbols are symbols that the linker defines in each file. (__executable_start is in executables only.)
var linkerSymbols = []string{"_GLOBAL_OFFSET_TABLE_", "_DYNAMIC", "_end", "end", "_edata", "edata", "_etext", "etext", "__bss_start", "__ehdr_start"}

// optionalSymbols matches symbols of libatomic and compiler-rt, which drivers don't add.
var optionalSymbols = lazyregexp.New(`^(__atomic_([a-eg-z]|f[a-km-z]).*|__mulo[dst]i4)$`)

// fundamentalTypes matches the type information of fundamental types, which the C++ library defines.
var fundamentalTypes = lazyregexp.New(`^_ZT[IS](PK?)?[a-z]$`)

// maybeCxx matches symbols that may be in the C++ library. Without a probe, the key has the content of the test's binary, which
// shows that they were defined.
var maybeCxx = lazyregexp.New(`^_ZN?K?St`)

// An input is the part of a manifest that compositions need besides its units.
type input struct {
	err       error     // why the test can't be composed
	Corrupt   bool      `json:",omitempty"` // it can't be read
	Warning   string    `json:",omitempty"` // why the test always runs
	Format    uint32    // of the manifest
	Libraries []string  `json:",omitempty"` // that a linker script or an object requests
	NotPlain  string    `json:",omitempty"` // why there is no evidence by source
	Fallback  *Fallback `json:",omitempty"`
}

// readInput reads a manifest. It returns nil for one that can't be used.
func readInput(file string) (*manifest.Manifest, *input) {
	m, err := manifest.Read(file)
	if errors.Is(err, manifest.ErrCorrupt) || errors.Is(err, manifest.ErrFormat) {
		return nil, &input{Corrupt: true, Warning: "manifest " + err.Error()}
	}
	if err != nil {
		return nil, &input{err: err}
	}
	in := &input{Format: m.Format}
	if why := m.Unknown(); why != "" {
		in.Warning = fmt.Sprintf("%s: %s", sourceName(m, file), why)
	}
	for _, f := range m.Fallbacks {
		if f.Component == "" {
			in.Fallback = &Fallback{Source: sourceName(m, file), Rung: manifest.EnumName(m.Rung), Reason: f.Reason}
			if f.Rung == manifest.Rung_RUNG_UNSPECIFIED {
				in.Fallback.Rung = "always run"
			}
			break
		}
	}
	if m.Rung == manifest.Rung_RUNG_CONTENT || m.Rung == manifest.Rung_RUNG_OBJECT {
		in.Libraries = m.Flags
	}
	in.NotPlain = m.NotPlain()
	return m, in
}

// linksName is the name of the Contribution with the targets of symbolic links in directories of data.
const linksName = "links in directories"

// linksInDirectories contributes the targets of symbolic links in directories of data. The content of a target is hashed as
// if it were in the place of the link.
func linksInDirectories(links []string) []Contribution {
	if len(links) == 0 {
		return nil
	}
	return []Contribution{NewContribution(linksName, slices.Sorted(slices.Values(links)))}
}

// StaleDirectory returns the first of c's Directories whose content has changed or can't be read, or "". At returns the
// file of a runfiles path.
func (c *Config) StaleDirectory(at func(path string) string) string {
	var links []string
	for _, dir := range c.Directories {
		var now Config
		if err := addData(&now, new([]string), &links, os.Stat, digest, dir, at(dir)); err != nil {
			return dir
		}
		then := slices.DeleteFunc(slices.Clone(c.Data), func(f File) bool { return !strings.HasPrefix(f.Path, dir+"/") })
		slices.SortFunc(now.Data, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
		if !slices.Equal(now.Data, then) {
			return dir
		}
	}
	then := slices.DeleteFunc(slices.Clone(c.Contributions), func(x Contribution) bool { return x.Name != linksName })
	if !slices.Equal(linksInDirectories(links), then) {
		return strings.Join(c.Directories, " or ")
	}
	return ""
}

// addData adds a file, or all files in a directory, to the data as name. A symbolic link is hashed with the content of its
// target, and in a directory with the target's name, unless that is absolute and so differs between machines. The
// operating system refuses to follow a cycle.
func addData(c *Config, files, links *[]string, stat statter, digest digester, name, file string) error {
	info, err := stat(file)
	if err != nil {
		// A dangling link is an input, too: its content is the name of its target.
		if target, lerr := os.Readlink(file); lerr == nil && errors.Is(err, fs.ErrNotExist) {
			b := frame.New("tasting dangling link 1")
			b.String(target)
			sum := b.Sum()
			c.Data = append(c.Data, File{name, hex.EncodeToString(sum[:])})
			return nil
		}
		return err
	}
	if !info.IsDir() {
		d, err := digest(file)
		if err != nil {
			return err
		}
		if d.executable {
			c.Executable = append(c.Executable, name)
		}
		c.Data = append(c.Data, File{name, d.sum})
		*files = append(*files, file)
		return nil
	}
	entries, err := os.ReadDir(file)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		c.Data = append(c.Data, emptyFile(name+"/"))
	}
	for _, e := range entries {
		if target, err := os.Readlink(filepath.Join(file, e.Name())); err == nil && !filepath.IsAbs(target) {
			*links = append(*links, name+"/"+e.Name()+" -> "+target)
		}
		if err := addData(c, files, links, stat, digest, name+"/"+e.Name(), filepath.Join(file, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func emptyFile(name string) File {
	sum := sha256.Sum256(nil)
	return File{name, hex.EncodeToString(sum[:])}
}

// mayBeOpened reports whether another program may open the test's shared libraries, and so reach code in them that the test
// doesn't reach. It may be among the data, or a program of the system that gets a library's name.
func (t *Test) mayBeOpened(stat statter, isProgram func(file string) bool) bool {
	found := len(t.Opens) > 0
	look := func(file string) (fileDigest, error) {
		found = found || isProgram(file)
		return fileDigest{}, nil
	}
	for _, d := range t.Data {
		if found {
			break
		}
		_ = addData(new(Config), new([]string), new([]string), stat, look, d.Path, d.File) // its reader returns the error
	}
	return found
}

// scripts are extensions of scripts.
var scripts = words.Set(`awk bash class cjs csh fish gdb jar js jl ksh lua mjs mk php pl pm ps1 py pyc pyz rb scm sh tcl ts zsh`)

// isProgram reports whether a file is a program, library or script. Its mode doesn't matter: Bazel makes all files
// executable in remote actions.
func isProgram(file string) bool {
	if scripts[strings.ToLower(strings.TrimPrefix(filepath.Ext(file), "."))] {
		return true
	}
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [4]byte
	n, _ := io.ReadFull(f, magic[:])
	return bytes.HasPrefix(magic[:n], []byte("#!")) || string(magic[:n]) == elf.ELFMAG
}

// libraryWord matches words that name a shared library, or a directory in which Bazel puts some.
var libraryWord = lazyregexp.New(`\.so\b|\b_solib_`)

type (
	digester func(file string) (fileDigest, error)
	statter  func(file string) (os.FileInfo, error)
)

// fileDigest is the SHA-256 of the content of a file, in hex, and whether its owner may execute it.
type fileDigest struct {
	sum        string
	executable bool
}

func digest(file string) (fileDigest, error) {
	info, err := os.Stat(file)
	if err != nil {
		return fileDigest{}, err
	}
	hash, err := wholefile.Digest(file)
	if err != nil {
		return fileDigest{}, err
	}
	return fileDigest{hex.EncodeToString(hash[:]), info.Mode()&0o100 != 0}, nil
}

// WriteReport writes r as JSON. Equal reports give equal bytes.
func WriteReport(w io.Writer, r *Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// maxReport bounds the size in bytes of a file with a report in it.
const maxReport = 1 << 30

// ReadReport reads what WriteReport or WriteClosure wrote. Errors name the file.
func ReadReport(file string) (*Report, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxReport+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxReport {
		return nil, fmt.Errorf("%s: larger than %d bytes: not a closure", file, maxReport)
	}
	r := new(Report)
	if IsClosure(b) {
		if r, err = DecodeClosure(b); err != nil {
			return nil, fmt.Errorf("%s: %w; build the test again", file, err)
		}
	} else if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: not the output of tasting inspect --json or tasting internal compose --closure: %w", file, err)
	}
	if r.Format == 0 || r.Fingerprint == "" {
		return nil, fmt.Errorf("%s: not the output of tasting inspect --json or tasting internal compose --closure", file)
	}
	if r.Format > ReportFormat {
		return nil, fmt.Errorf("%s: format %d is newer than this tasting, which reads format %d: use the version that wrote it", file, r.Format, ReportFormat)
	}
	return r, nil
}
