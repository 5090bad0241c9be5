package fingerprint

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/refgraph"
)

// Test is what the build knows of a test.
type Test struct {
	// Manifests of everything that is linked, in the order of the link.
	Manifests []string
	// OnDemand are those of Manifests whose code the linker may leave out.
	OnDemand []string
	// Roots holds where the test starts. LinkFlags needn't be repeated there.
	Roots Roots
	// Binary is the runfiles path of the real test executable.
	Binary string
	// Data maps runfiles paths to files or directories.
	Data []DataFile
	// Empty are runfiles paths of empty files, and with a slash at the end, of
	// directories.
	Empty []string
	// LinkFlags are the flags of the link, without output paths.
	LinkFlags []string
	// LinkInputs are files that the link reads beside code: linker scripts,
	// version scripts.
	LinkInputs []string
	// LinkLine is the command line of the link with the names of what is
	// linked. It counts where it matters how and in which order that is done.
	LinkLine []string
	// Misplaced are those of Manifests whose place isn't that in the link: if
	// there is a root in one, LinkLine counts.
	Misplaced []string
	// EnvKeys are names of variables that the test's declaration mentions.
	EnvKeys []string
	// AlwaysRun are reasons to execute the test in any case.
	AlwaysRun []string
	// LocalOnly are reasons not to keep results on another machine.
	LocalOnly []string
	// Store is where results are recorded, empty for the runner's default.
	Store string
}

// DataFile is a file or directory that the test can read.
type DataFile struct {
	Path string // in the runfiles
	File string // where its content is now
}

// Compose returns the configuration of a test and what its fingerprint, as far
// as the build knows it, is made of. Warnings say what makes the test always
// run.
//
// A manifest that can't be understood doesn't fail the build of the test: it
// makes the test run always, and the reason names it.
func Compose(t *Test) (c *Config, r *Report, warnings []string, err error) {
	x, sources, closure, err := composeAlone(t)
	if err != nil {
		return nil, nil, nil, err
	}
	r = newReport(x.contributions, sources, closure)
	r.LinkFlags, r.AlwaysRun = slices.Clone(x.config.LinkFlags), slices.Clone(x.config.AlwaysRun)
	return x.config, r, x.warnings, nil
}

func composeAlone(t *Test) (x *composition, sources []refgraph.Source, closure *refgraph.Closure, err error) {
	inputs := make([]*input, len(t.Manifests))
	for i, f := range t.Manifests {
		m, in := readInput(f)
		inputs[i] = in
		if m != nil {
			sources = append(sources, refgraph.Source{Name: sourceName(m, f), Manifest: m})
		}
	}
	x, err = compose(t, inputs, digest, func(roots Roots) code {
		var linking bool
		closure, linking = roots.closure(sources)
		return code{closure: closure, linking: linking}
	})
	if x != nil {
		x.finish()
	}
	return x, sources, closure, err
}

// An input is what counts of a manifest beside its components.
type input struct {
	err      error  // the test can't be composed
	corrupt  bool   // it can't be understood
	warning  string // why the test always runs
	format   uint32
	flags    []string // of a linker script
	lookup   bool     // it may refer to any symbol
	weak     bool     // it has references that may stay undefined
	fallback *Fallback
}

// readInput reads the manifest in file; it is nil if it can't be used.
func readInput(file string) (*manifest.Manifest, *input) {
	m, err := manifest.Read(file)
	if errors.Is(err, manifest.ErrCorrupt) || errors.Is(err, manifest.ErrFormat) {
		return nil, &input{corrupt: true, warning: "manifest " + err.Error()}
	}
	if err != nil {
		return nil, &input{err: err}
	}
	in := &input{format: m.Format, lookup: looksUp(m), weak: slices.Contains(m.Symbols, manifest.WeakReference)}
	if why := m.Unknown(); why != "" {
		in.warning = fmt.Sprintf("%s: %s", sourceName(m, file), why)
	}
	for _, f := range m.Fallbacks {
		if f.Component == "" {
			in.fallback = &Fallback{Source: sourceName(m, file), Rung: enumName(m.Rung), Reason: f.Reason}
			if f.Rung == manifest.Rung_RUNG_UNSPECIFIED {
				in.fallback.Rung = "always run"
			}
			break
		}
	}
	if m.Rung == manifest.Rung_RUNG_CONTENT {
		in.flags = m.Flags
	}
	return m, in
}

// code is what is found out about a test's code.
type code struct {
	closure interface {
		Hash() refgraph.Hash
		Defines(symbol string) bool
		RootIn(sources map[int]bool) bool
	}
	linking bool // see Roots.closure
	failed  bool // the closure can't be had in this way
}

// A composition is what became of a test. Until it is finished, the hash of its
// code isn't known.
type composition struct {
	config        *Config
	contributions []Contribution
	warnings      []string

	closure interface{ Hash() refgraph.Hash }
	formats Contribution
	more    []Contribution // that only the report lists
}

func (x *composition) finish() {
	hash := x.closure.Hash()
	x.config.Code = hex.EncodeToString(hash[:])
	x.contributions = contributions(hash, x.formats, x.more)
}

// compose does what Compose does with any way to find the closure of roots, but
// for what finish does. It returns nil if that failed.
func compose(t *Test, inputs []*input, digest digester, find func(Roots) code) (*composition, error) {
	c := &Config{
		Format: ConfigFormat, Binary: t.Binary, LinkFlags: slices.Clone(t.LinkFlags), Store: t.Store,
		AlwaysRun: slices.Clone(t.AlwaysRun), LocalOnly: slices.Clone(t.LocalOnly), EnvKeys: slices.Clone(t.EnvKeys),
	}
	var warnings []string
	var versions []uint32
	n := 0
	onDemand, misplaced := map[int]bool{}, map[int]bool{}
	isOnDemand, isMisplaced := set(t.OnDemand), set(t.Misplaced)
	for i, f := range t.Manifests {
		in := inputs[i]
		if in.err != nil {
			return nil, in.err
		}
		if in.warning != "" {
			warnings = append(warnings, in.warning)
		}
		if in.corrupt {
			continue
		}
		if len(isOnDemand) > 0 && isOnDemand[f] {
			onDemand[n] = true
		}
		if len(isMisplaced) > 0 && isMisplaced[f] {
			misplaced[n] = true
		}
		n++
		if !slices.Contains(versions, in.format) {
			versions = append(versions, in.format)
		}
		c.LinkFlags = append(c.LinkFlags, in.flags...)
	}
	for i, f := range t.LinkInputs {
		sum, _, err := digest(f)
		if err != nil {
			return nil, err
		}
		c.Contributions = append(c.Contributions, Contribution{fmt.Sprintf("link input %d %s", i+1, path.Base(f)), sum})
	}
	var executable []string
	for _, d := range t.Data {
		if err := addData(c, &executable, digest, d.Path, d.File); err != nil {
			return nil, fmt.Errorf("data %s: %w", d.Path, err)
		}
	}
	for _, name := range t.Empty {
		c.Data = append(c.Data, emptyFile(name))
	}
	slices.SortFunc(c.Data, func(a, b File) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.SHA256, b.SHA256))
	})
	c.Data = slices.Compact(c.Data)
	if len(executable) > 0 {
		slices.Sort(executable)
		c.Contributions = append(c.Contributions, NewContribution("executable data files", slices.Compact(executable)))
	}
	slices.Sort(c.EnvKeys)
	c.EnvKeys = slices.Compact(c.EnvKeys)
	formats := formats(versions)
	c.Contributions = append(c.Contributions, formats)
	roots := t.Roots
	roots.OnDemand = onDemand
	roots.LinkFlags = append(slices.Clone(roots.LinkFlags), c.LinkFlags...)
	// A linker script can refer to any symbol.
	roots.Exported = roots.Exported || len(t.LinkInputs) > 0
	found := find(roots)
	if found.failed {
		return nil, nil
	}
	if len(t.LinkLine) > 0 && (found.linking || found.closure.RootIn(misplaced) || len(t.LinkInputs) > 1) {
		c.Contributions = append(c.Contributions, NewContribution("link line", t.LinkLine))
	}
	slices.SortFunc(c.Contributions, func(a, b Contribution) int { return strings.Compare(a.Name, b.Name) })

	// The report has all of it, one contribution for each file.
	more := slices.DeleteFunc(slices.Clone(c.Contributions), func(x Contribution) bool { return x == formats })
	for _, d := range c.Data {
		more = append(more, Contribution{"data " + d.Path, d.SHA256})
	}
	if len(c.LinkFlags) > 0 {
		more = append(more, NewContribution("link flags", c.LinkFlags))
	}
	if len(c.EnvKeys) > 0 {
		more = append(more, NewContribution("names of environment variables", c.EnvKeys))
	}
	for _, s := range roots.missing(found.closure) {
		warnings = append(warnings, "no manifest defines "+s)
	}
	c.AlwaysRun = append(c.AlwaysRun, warnings...)
	return &composition{config: c, warnings: warnings, closure: found.closure, formats: formats, more: more}, nil
}

func set(l []string) map[string]bool {
	m := make(map[string]bool, len(l))
	for _, s := range l {
		m[s] = true
	}
	return m
}

// addData adds the file at file, or everything in it, as runfile name. Symbolic
// links count with what they lead to; the operating system ends the walk if one
// leads back.
func addData(c *Config, executable *[]string, digest digester, name, file string) error {
	info, err := os.Stat(file)
	if err != nil {
		// A link to nowhere is an input too: its target's name is all there is.
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
		sum, exec, err := digest(file)
		if err != nil {
			return err
		}
		if exec {
			*executable = append(*executable, name)
		}
		c.Data = append(c.Data, File{name, sum})
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
		if err := addData(c, executable, digest, name+"/"+e.Name(), filepath.Join(file, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func emptyFile(name string) File {
	sum := sha256.Sum256(nil)
	return File{name, hex.EncodeToString(sum[:])}
}

type digester func(file string) (sum string, executable bool, err error)

// digest returns the SHA-256 of the content of a file, in hex, and whether its
// owner may execute it.
func digest(file string) (sum string, executable bool, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", false, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", false, err
	}
	return hex.EncodeToString(h.Sum(nil)), info.Mode()&0o100 != 0, nil
}

// WriteReport writes r as JSON; equal reports give equal bytes.
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
		return nil, fmt.Errorf("%s: not the output of tasting fingerprint --json or tasting compose --closure: %w", file, err)
	}
	if r.Format == 0 || r.Fingerprint == "" {
		return nil, fmt.Errorf("%s: not the output of tasting fingerprint --json or tasting compose --closure", file)
	}
	if r.Format > ReportFormat {
		return nil, fmt.Errorf("%s: format %d is newer than this tasting, which reads format %d: use the version that wrote it", file, r.Format, ReportFormat)
	}
	return r, nil
}
