package fingerprint

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkflags"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkmodel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/syslib"
)

// # The link file
//
// For each file that Bazel links or archives, the rules write a link file:
//
//	tasting link 1
//	output PATH
//	alias PATH              another path of the same file
//	kind executable|shared|archive
//	unit PATH<TAB>MANIFEST  a file that may be on the line, and its manifest
//	source PATH<TAB>MANIFEST    the manifest of the source that PATH is compiled from
//	library PATH<TAB>FILE   a shared library that Bazel doesn't link, and its place
//	arg WORD                of the command line, without the program, in order
//	member PATH             of an archive, in order
const linkMagic = "tasting link 1"

// LinkFile is the content of a link file that isn't written by the rules.
type LinkFile struct {
	Output string
	Kind   string // executable, shared or archive
	// Manifests are pairs of a file that may be on the line and its manifest, Sources of a file and its source's manifest.
	Manifests, Sources [][2]string
	// Words are the arguments, or the members of an archive.
	Words []string
}

// Text returns the content of the file.
func (l *LinkFile) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\noutput %s\nkind %s\n", linkMagic, l.Output, l.Kind)
	for _, m := range l.Manifests {
		fmt.Fprintf(&b, "unit %s\t%s\n", m[0], m[1])
	}
	for _, m := range l.Sources {
		fmt.Fprintf(&b, "source %s\t%s\n", m[0], m[1])
	}
	word := "arg"
	if l.Kind == "archive" {
		word = "member"
	}
	for _, w := range l.Words {
		fmt.Fprintf(&b, "%s %s\n", word, w)
	}
	return b.String()
}

// link is the content of a link file.
type link struct {
	dir      string // names are relative to it
	output   string
	aliases  []string
	kind     string
	units    map[string]string
	sources  map[string]string
	prebuilt map[string]string
	args     []string
	members  []string
	sum      [sha256.Size]byte // of the file
}

func readLink(file, dir string) (*link, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	l := &link{dir: dir, units: map[string]string{}, sources: map[string]string{}, prebuilt: map[string]string{}, sum: sha256.Sum256(b)}
	texts := map[string]*string{"output": &l.output, "kind": &l.kind}
	lists := map[string]*[]string{"alias": &l.aliases, "arg": &l.args, "member": &l.members}
	pairs := map[string]map[string]string{"unit": l.units, "source": l.sources, "library": l.prebuilt}
	s := bufio.NewScanner(bytes.NewReader(b))
	s.Buffer(nil, 1<<24)
	for n := 1; s.Scan(); n++ {
		word, rest, _ := strings.Cut(s.Text(), " ")
		bad := false
		switch {
		case n == 1:
			bad = s.Text() != linkMagic
		case texts[word] != nil:
			*texts[word] = rest
		case lists[word] != nil:
			*lists[word] = append(*lists[word], rest)
		case pairs[word] != nil:
			path, file, ok := strings.Cut(rest, "\t")
			bad = !ok
			pairs[word][path] = inDir(dir, file)
		default:
			bad = true
		}
		if bad {
			return nil, fmt.Errorf("%s:%d: %q: not the description of a link that this tasting reads: build it again with one version of the rules", file, n, s.Text())
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if l.output == "" || l.kind == "" {
		return nil, fmt.Errorf("%s: it is cut off: build it again", file)
	}
	return l, nil
}

// manifest returns the file of the manifest of a path on the line, or "". Source prefers the manifest of the source.
func (l *link) manifest(path string, source bool) string {
	if m, ok := l.sources[path]; ok && source {
		return m
	}
	return l.units[path]
}

// A lineItem is an item of a line with its manifests, or a shared library that Bazel links.
type lineItem struct {
	manifests []string
	library   *link // a shared library, or nil
	lazy      bool
	members   bool // only members of archives are lazy
	archive   int
	from      string // the archive's name for flags
	group     int
	line      *linkflags.Item // nil without a line
	system    bool            // a library of the system is in front of it
	// part is set if the manifest of a shared library that is known by its content is that of the linked file itself.
	part bool
}

// asNeeded reports whether the linker may leave out a library.
func (it *lineItem) asNeeded() bool { return it.line != nil && it.line.AsNeeded != linkflags.No }

// A linkedFile is a file of a test, with its line read.
type linkedFile struct {
	name  string
	link  *link // nil if there is no link file
	items []lineItem
	line  *linkflags.Line
	// uncertain is why the link is unusual, for other reasons than flags, or empty.
	uncertain string
	// responseFiles are the response files of the line.
	responseFiles []responseFile
	// prebuilt are the shared libraries on the line that Bazel doesn't link.
	prebuilt []string
	// severalConfigs is set if a link reads a file in several configurations.
	severalConfigs bool
	// taken are the files of the system that all links take, or nil if they aren't known.
	taken *syslib.Taken
	// opened is set if other programs may open the libraries of the test.
	opened bool
}

type responseFile struct {
	name string
	sum  [sha256.Size]byte // zero if it can't be read
}

// links are the link files of a test, by the paths of the files that they describe.
type links map[string]*link

func (x links) add(l *link) {
	for _, p := range append([]string{l.output}, l.aliases...) {
		if x[p] == nil {
			x[p] = l
		}
	}
}

// read reads the line of a link. Source prefers manifests of sources.
func (x links) read(l *link, source bool) *linkedFile {
	f := &linkedFile{name: l.output, link: l}
	f.line = linkflags.Parse(l.args, linkflags.Options{
		Open: func(name string) ([]byte, error) {
			b, err := os.ReadFile(inDir(l.dir, name))
			x := responseFile{name: name}
			if err == nil {
				x.sum = sha256.Sum256(b)
			}
			f.responseFiles = append(f.responseFiles, x)
			return b, err
		},
		Built: func(path string) bool {
			return x[path] != nil || l.units[path] != "" || path == l.output
		},
	})
	archives, system, linked := 0, false, map[string]bool{}
	searchedAgain := map[int]bool{} // groups with a library of the system: their archives are searched again behind it
	for _, it := range f.line.Items {
		searchedAgain[it.Group] = searchedAgain[it.Group] || it.Built == "" && it.Group > 0
	}
	for i := range f.line.Items {
		it := &f.line.Items[i]
		file := it.Built
		if file == "" {
			system = true
			continue
		}
		item := lineItem{system: system || searchedAgain[it.Group], line: it, lazy: it.Lazy, group: it.Group}
		switch known := x[file]; {
		case known != nil && known != l && known.kind == "shared":
			item.library = known
		case known != nil && known != l && known.kind == "archive":
			for _, m := range known.members {
				if name := known.manifest(m, source); name != "" {
					item.manifests = append(item.manifests, name)
				} else {
					f.uncertain = fmt.Sprintf("%s is in %s and has no manifest", m, file)
				}
			}
			item.from, item.lazy = path.Base(file), !it.WholeArchive
		default:
			name := l.manifest(file, source)
			if name == "" {
				f.uncertain = fmt.Sprintf("%s is linked and has no manifest", file)
				continue
			}
			if startFile.MatchString(file) {
				f.uncertain = fmt.Sprintf("GNU ld takes %s for a file of compilers", file)
			}
			item.manifests = []string{name}
			if library := l.prebuilt[file]; library != "" {
				f.prebuilt = append(f.prebuilt, library)
			}
			if strings.HasSuffix(file, ".a") {
				item.from = path.Base(file)
			}
			item.lazy = item.lazy || !it.WholeArchive && item.from != ""
		}
		if item.lazy && item.library == nil {
			archives++
			item.archive = archives
		}
		if item.library == nil && !isShared(file) {
			f.checkRepeated(item, linked)
		}
		f.items = append(f.items, item)
	}
	return f
}

func isShared(file string) bool {
	return strings.Contains(path.Base(file)+".", ".so.")
}

// startFile matches objects whose .ctors and .dtors GNU ld's script places apart. See link-moved/crtend-name.
var startFile = lazyregexp.New(`crt(begin|end).?\.o$`)

// checkRepeated makes the file uncertain if an object is on the line twice: its initialisers run twice. An archive may be
// searched twice. See link-files/object-twice-constructor.
func (f *linkedFile) checkRepeated(it lineItem, linked map[string]bool) {
	for _, name := range it.manifests {
		if !it.lazy && linked[name] {
			f.uncertain = path.Base(name) + " is on the line twice"
		}
		linked[name] = true
	}
}

// program returns the files of a test in the order of the loader: the executable, then its libraries, breadth first.
func (x links) program(executable *link, source bool) []*linkedFile {
	files := []*linkedFile{x.read(executable, source)}
	seen := map[*link]bool{executable: true}
	for i := 0; i < len(files); i++ {
		for _, it := range files[i].items {
			if l := it.library; l != nil && !seen[l] {
				seen[l] = true
				files = append(files, x.read(l, source))
			}
		}
	}
	return files
}

// Lines returns the lines of the test's links: that of its executable, then those of its libraries.
func (t *Test) Lines() ([]*linkflags.Line, error) {
	files, err := t.linkedFiles(func(name string) (*link, error) { return readLink(name, t.Dir) })
	return lines(files), err
}

// LinkFiles returns the names of the files that a link reads: objects, archives, libraries, scripts and response files. File
// is its link file. All names are relative to dir.
func LinkFiles(file, dir string) ([]string, error) {
	l, err := readLink(file, dir)
	if err != nil {
		return nil, err
	}
	names := slices.Collect(maps.Keys(l.units))
	for _, o := range (links{}).read(l, false).responseFiles {
		names = append(names, o.name)
	}
	return names, nil
}

func lines(files []*linkedFile) []*linkflags.Line {
	var l []*linkflags.Line
	for _, f := range files {
		if f.line != nil {
			l = append(l, f.line)
		}
	}
	return l
}

// lineFlags returns the words of all lines, in the order of the loader, without repeated lines. The shape of the link has the
// line of each file.
func lineFlags(files []*linkedFile) (l []string) {
	var seen []string
	for _, f := range files {
		if f.line == nil {
			continue
		}
		words := append(f.line.Words(), f.systemOrder()...)
		if text := strings.Join(words, "\n"); !slices.Contains(seen, text) {
			l, seen = append(l, words...), append(seen, text)
		}
	}
	return l
}

// systemOrder returns the order of libraries of the system and of items that Bazel has built, unless the latter come
// first. For an unusual line it returns a hash of all words: one of them may be a script, or change the meaning of later ones.
func (f *linkedFile) systemOrder() []string {
	if f.unusualReason() == "" {
		return f.line.Order()
	}
	b := frame.New("tasting order of a link 1")
	f.writeWords(&b)
	return []string{fmt.Sprintf("order: %x", b.Sum128())}
}

// writeWords appends all words of the line, and its response files.
func (f *linkedFile) writeWords(b *frame.Buffer) {
	for _, w := range f.link.args {
		b.String(f.neutral(w))
	}
	for _, o := range f.responseFiles {
		b.String(f.neutral(o.name))
		b.Bytes(o.sum[:])
	}
}

// lineID identifies a line: the kind of its output, its flags, and its libraries of the system.
func (f *linkedFile) lineID() string {
	b := frame.New("tasting line 1")
	b.Flag(f.line.Shared)
	b.Strings(f.line.Words())
	b.Strings(f.systemOrder())
	sum := b.Sum128()
	return hex.EncodeToString(sum[:6])
}

// neutral returns a word of the line without names of configurations, unless the link reads a file in several of them.
func (f *linkedFile) neutral(word string) string {
	if f.severalConfigs {
		return word
	}
	return linkflags.Neutral(word)
}

// OpenedLibraries is the name of a Contribution: the names and lines of a test's libraries, if other programs may open them.
// Their whole content is then hashed.
const OpenedLibraries = "libraries that other programs may open"

// openedLibraries returns the contribution OpenedLibraries, if other programs may open libraries.
func (t *Test) openedLibraries(files []*linkedFile) []Contribution {
	if !files[0].opened && len(t.Opens) == 0 {
		return nil
	}
	b := frame.New("tasting opened libraries 1")
	for _, f := range files[1:] {
		b.String(f.neutral(f.name))
		if f.link != nil {
			b.Int(len(f.link.aliases))
			for _, name := range f.link.aliases {
				b.String(f.neutral(name))
			}
			f.writeWords(&b)
		}
	}
	sum := b.Sum()
	return []Contribution{{OpenedLibraries, hex.EncodeToString(sum[:])}}
}

// checkNames makes libraries uncertain that share a name. A loader loads one library of each name, by DT_SONAME or
// by the name of the file or symbolic link. See link-load/soname-twice and link-needed/same-basename.
func checkNames(files []*linkedFile) {
	type library struct {
		*linkedFile
		given, loaded bool // the name is that of -soname; it is loaded by this name
	}
	by := map[string][]library{}
	for _, f := range files {
		if f.line == nil || f.link == nil {
			continue
		}
		if name := f.line.Soname; name != "" {
			by[name] = append(by[name], library{f, true, true})
		}
		by[path.Base(f.name)] = append(by[path.Base(f.name)], library{f, false, len(f.link.aliases) == 0})
		for _, s := range f.link.aliases {
			by[path.Base(s)] = append(by[path.Base(s)], library{f, false, true})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		l := by[name]
		for _, x := range l {
			if (x.given || x.loaded) && linkflags.IsSystemLibrary(name) {
				x.uncertain = "it may be loaded as the system's " + name
			}
		}
		if !slices.ContainsFunc(l, func(x library) bool { return x.given }) {
			l = slices.DeleteFunc(l, func(x library) bool { return !x.loaded })
		}
		if !slices.ContainsFunc(l, func(x library) bool { return x.linkedFile != l[0].linkedFile }) {
			continue
		}
		for _, x := range l {
			x.uncertain = "several libraries may be loaded as " + name
		}
	}
}

// unusualReason returns why the file's link is unusual, or "".
func (f *linkedFile) unusualReason() string {
	if f.uncertain != "" || f.line == nil || len(f.line.Unusual) == 0 {
		return f.uncertain
	}
	return "the line of the link: " + f.line.Unusual[0]
}

// linkers are the models of linkers by their names. That of any other is linkmodel.AnyLinker.
var linkers = map[string]linkmodel.Linker{"bfd": linkmodel.GNU, "lld": linkmodel.LLD, "gold": linkmodel.Gold, "mold": linkmodel.Mold}

// loadOrder lists the files of a program in the order of the loader.
type loadOrder struct {
	pool    *pool
	byLink  map[*link]*linkedFile
	queue   []loadedFile
	numbers map[loadedFile]int32 // indices in queue
}

// loadedFile is a linked file, or a library that is known by its content: a unit.
type loadedFile struct {
	file *linkedFile
	unit int32
}

// add returns the number of a file.
func (l *loadOrder) add(f loadedFile) int32 {
	n, ok := l.numbers[f]
	if !ok {
		n = int32(len(l.queue))
		l.numbers[f] = n
		l.queue = append(l.queue, f)
	}
	return n
}

// model returns files as a program of the pool's units, in the order of the loader, which searches breadth first. Manifests
// that can't be used have no units.
func model(files []*linkedFile, needs []string, overrides []linkmodel.Symbol, pool *pool) *linkmodel.Program {
	l := &loadOrder{pool: pool, byLink: map[*link]*linkedFile{}, numbers: map[loadedFile]int32{}}
	for _, f := range files {
		if f.link != nil {
			l.byLink[f.link] = f
		}
	}
	p := &linkmodel.Program{Overrides: overrides, Needs: pool.Defined(needs)}
	for i, f := range files {
		if i == 0 || f.link == nil { // without links, the order is given
			l.add(loadedFile{file: f})
		}
	}
	for i := 0; i < len(l.queue); i++ {
		at := l.queue[i]
		f := at.file
		if f == nil {
			p.Files = append(p.Files, linkmodel.File{Name: pool.sources[at.unit].name, Entries: []linkmodel.Entry{{Unit: at.unit}}})
			continue
		}
		x := linkmodel.File{Name: f.name}
		if f.line != nil {
			f.describe(&x, pool)
		}
		x.Entries = l.entries(f)
		p.Files = append(p.Files, x)
	}
	return p
}

// describe sets the properties of a file from its line.
func (f *linkedFile) describe(x *linkmodel.File, pool *pool) {
	l := f.line
	x.Bsymbolic, x.Linker, x.GCSections, x.Complete = l.Bsymbolic, linkers[l.Linker], l.GCSections, !l.Shared || l.NoUndefined
	x.Line, x.Code, x.System = f.lineID(), l.Code(), l.SystemInputs()
	in := l.StaticLibraries()
	if f.taken != nil {
		x.CxxWants = pool.Defined(f.taken.Wants)
	} else {
		x.CxxInside = in.Cxx
	}
	if in.Any {
		x.Code += "\n" + x.System
	}
}

// entries returns the units and libraries on the line of a file, and adds the libraries to the queue.
func (l *loadOrder) entries(file *linkedFile) (entries []linkmodel.Entry) {
	linked := map[int32]bool{}
	for _, it := range file.items {
		if it.library != nil {
			entries = append(entries, linkmodel.Entry{Library: l.add(loadedFile{file: l.byLink[it.library]}), AsNeeded: it.asNeeded(), Group: it.group})
			continue
		}
		for _, name := range it.manifests {
			for _, unit := range l.pool.numbers[name] {
				if l.pool.Symbols.Unit(unit).Library && !it.part {
					entries = append(entries, linkmodel.Entry{Library: l.add(loadedFile{unit: unit}), AsNeeded: it.asNeeded(), Group: it.group})
					continue
				}
				// An archive that is on the line twice is searched twice, an object is linked once.
				lazy := it.lazy && (!it.members || l.pool.sources[unit].member)
				if lazy || !linked[unit] {
					entries = append(entries, linkmodel.Entry{Unit: unit, Lazy: lazy, BehindSystem: it.system, Archive: it.archive, From: it.from, Group: it.group})
				}
				linked[unit] = linked[unit] || !lazy
			}
		}
	}
	return entries
}
