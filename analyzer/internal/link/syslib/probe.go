package syslib

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkflags"
)

// Linker is a compiler driver by which a probe links.
type Linker struct {
	Path string
	Dir  string   // the working directory
	Env  []string // nil is that of this process
	// Cache is the cache of the same linker's probes, or nil.
	Cache *Cache
}

// Cache keeps links, and the files that they read, for further probes by the same linker: each line is
// linked once. It is safe for concurrent use, and valid as long as the system doesn't change.
type Cache struct {
	mu      sync.Mutex
	objects map[string]string // by the flags that they are compiled with
	links   map[string]*sharedLink
	files   map[string]*File // by path
	hashes  sync.Map         // by path: func() (Digest, error)
	opened  sync.Map         // by path: func() (*dynamic, error)
}

// open returns the part of a file that the loader reads.
func (s *Cache) open(path string) (*dynamic, error) { return once(&s.opened, path, openDynamic) }

// hash returns the SHA-256 of a file.
func (s *Cache) hash(path string) (Digest, error) { return once(&s.hashes, path, wholefile.Digest) }

// once returns the known result for a path, or reads the file.
func once[T any](known *sync.Map, path string, read func(string) (T, error)) (T, error) {
	f, _ := known.LoadOrStore(path, sync.OnceValues(func() (T, error) { return read(path) }))
	return f.(func() (T, error))()
}

type sharedLink struct {
	Link
	program string
	err     error
}

// Probe has the files of the system that a driver and its linker use for some link lines.
type Probe struct {
	// Links are the links that were probed, each once.
	Links []Link

	program string // by the first line
	shared  *Cache
}

// Link is the result of a probe for one line.
type Link struct {
	// Line identifies the line: see Probe.Of.
	Line string `json:"line"`
	// Linker is the linker's own name and version, and the flags that it gets,
	// without directories.
	Linker []string `json:"linker"`
	// Name is the linker: "bfd", "gold", "lld" or "mold".
	Name string `json:"name"`
	// AsNeeded is the default of --as-needed that the driver passes.
	AsNeeded linkflags.Choice `json:"as_needed"`
	// Files are the files that the linker opens, in order, each once: start files, runtime libraries of
	// the compiler, libraries that flags name, linker scripts.
	Files []*File `json:"-"`
}

// File is a file that a linker opens.
type File struct {
	Library
	// Symbols are the symbols that it defines for others, sorted.
	Symbols names `json:"symbols"`
	// Wants are mangled names that a member of an archive of the C++ library leaves undefined: linkers take
	// the first definition on the line.
	Wants names `json:"wants,omitempty"`
	// Soname is the DT_SONAME of a shared library, or "".
	Soname string `json:"soname,omitempty"`
}

// Taken are the files of the system that the links of a program and of its shared libraries use.
type Taken struct {
	// Linker has the linkers of all lines.
	Linker []string
	// Name and AsNeeded are those of all links, or "" and linkflags.Default if they differ.
	Name     string
	AsNeeded linkflags.Choice
	// Files are the files of all lines, each once.
	Files []Library
	// Needs are the DT_SONAMEs of the shared libraries among them.
	Needs []string
	// Wants are the Wants of all Files.
	Wants []string

	program []*File
}

// Of returns the files of the system that links by some lines take: the line of a program, then those of its
// libraries. It returns nil unless p has all lines.
func (p *Probe) Of(lines ...*linkflags.Line) *Taken {
	t := new(Taken)
	seen := map[string]bool{}
	for i, l := range lines {
		line := LineID(l)
		if seen[line] {
			continue
		}
		seen[line] = true
		link := p.link(line)
		if link == nil {
			return nil
		}
		t.Linker = append(t.Linker, link.Linker...)
		if i == 0 {
			t.Name, t.AsNeeded = link.Name, link.AsNeeded
		}
		if link.Name != t.Name {
			t.Name = ""
		}
		if link.AsNeeded != t.AsNeeded {
			t.AsNeeded = linkflags.Default
		}
		for _, f := range link.Files {
			if !slices.Contains(t.Files, f.Library) {
				t.Files, t.Wants = append(t.Files, f.Library), append(t.Wants, f.Wants...)
			}
			if f.Soname != "" && !slices.Contains(t.Needs, f.Soname) {
				t.Needs = append(t.Needs, f.Soname)
			}
		}
		if i == 0 {
			t.program = link.Files
		}
	}
	return t
}

// link returns the link by the line with an id, or nil.
func (p *Probe) link(line string) *Link {
	k := slices.IndexFunc(p.Links, func(x Link) bool { return x.Line == line })
	if k < 0 {
		return nil
	}
	return &p.Links[k]
}

// Provides reports whether a file that the linker opens for the program defines a symbol. The program can't
// use files of its libraries' links.
func (t *Taken) Provides(symbol string) bool {
	return slices.ContainsFunc(t.program, func(f *File) bool {
		_, ok := slices.BinarySearch(f.Symbols, symbol)
		return ok
	})
}

// Probe finds the files of the system that links by some lines take: it links an empty program by each line, in
// the directory tmp. The files that a driver adds to a line depend on its version, its configuration and most
// flags. If there is an error, the probe has the lines that could be linked.
func (x Linker) Probe(ctx context.Context, tmp string, lines ...*linkflags.Line) (*Probe, error) {
	shared := x.Cache
	if shared == nil {
		shared = new(Cache)
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.links == nil {
		shared.objects, shared.links, shared.files = map[string]string{}, map[string]*sharedLink{}, map[string]*File{}
	}
	p := &Probe{shared: shared}
	var failed []error
	for i, l := range lines {
		line := LineID(l)
		if p.link(line) != nil {
			continue
		}
		key := fmt.Sprint(line, i == 0)
		known := shared.links[key]
		if known == nil {
			known = shared.link(ctx, x, filepath.Join(tmp, fmt.Sprint("line", i)), l, i == 0)
			shared.links[key] = known
		}
		if i == 0 {
			p.program = known.program
		}
		if known.err != nil {
			failed = append(failed, known.err)
			continue
		}
		p.Links = append(p.Links, known.Link)
	}
	return p, errors.Join(failed...)
}

// link links a program or library by a line, in a directory that it makes. The names of its files are the same
// for all lines, because linkers get them.
func (s *Cache) link(ctx context.Context, x Linker, dir string, l *linkflags.Line, first bool) *sharedLink {
	program := filepath.Join(dir, "probe")
	link := &sharedLink{Link: Link{Line: LineID(l)}, program: program}
	if link.err = os.Mkdir(dir, 0o777); link.err != nil {
		return link
	}
	compile, flags := l.Probe()
	compile = append([]string{"-fPIC"}, slices.DeleteFunc(compile, func(w string) bool {
		return w == "-shared" || w == "-pthread" // no effect on an object
	})...)
	words := strings.Join(compile, "\x00")
	object := s.objects[words]
	if object == "" {
		object = program + ".o"
		if link.err = os.WriteFile(program+".c", []byte("int main(void) { return 0; }\n"), 0o666); link.err != nil {
			return link
		}
		if out, err := x.run(ctx, slices.Concat(compile, []string{"-c", program + ".c", "-o", object})); err != nil {
			link.err = fmt.Errorf("%w\n%s", err, out)
			return link
		}
		s.objects[words] = object
	}
	link.err = link.linkObject(ctx, x, object, program, flags, s)
	for _, name := range l.FlagPaths() {
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
			continue // the linker handles it
		}
		if link.err == nil {
			link.err = link.addFile(s, name)
		}
	}
	if link.err == nil && first && l.Shared {
		// Also a program, for the loader.
		flags = slices.DeleteFunc(flags, func(w string) bool { return w == "-shared" || w == "-Wl,--shared" })
		link.err = link.linkObject(ctx, x, object, program, flags, s)
	}
	return link
}

// LineID identifies a line for a probe.
func LineID(l *linkflags.Line) string {
	compile, link := l.Probe()
	var words []string
	for _, part := range [][]string{compile, link, l.FlagPaths()} {
		words = append(append(words, part...), "")
	}
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return hex.EncodeToString(sum[:])
}

func (x Linker) run(ctx context.Context, args []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, x.Path, args...)
	cmd.Dir = x.Dir
	if x.Env != nil {
		cmd.Env = x.Env
	}
	// command parses messages.
	cmd.Env = append(cmd.Environ(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("it can't be told with which libraries of the system it is linked: %s %s: %w", x.Path, strings.Join(args, " "), err)
	}
	return out, err
}

// linkObject links an object to a program, and adds the linker and the files that it opens to l.
func (l *Link) linkObject(ctx context.Context, x Linker, object, program string, flags []string, cache *Cache) error {
	list := program + ".d"
	args := slices.Concat([]string{object}, flags, []string{
		"-o", program, "-Xlinker", "--dependency-file=" + list, "-Wl,--unresolved-symbols=ignore-all,--allow-multiple-definition",
	})
	out, err := x.run(ctx, append(args, "-v", "-Wl,-v"))
	if err != nil {
		if out, err2 := x.run(ctx, args); err2 != nil { // -v may be the reason
			return fmt.Errorf("%w\n%s", err2, out)
		}
		return fmt.Errorf("%w\n%s", err, out)
	}
	if err := l.readCommand(out, object); err != nil {
		return fmt.Errorf("it can't be told how %s links: %w\n%s", x.Path, err, out)
	}
	b, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	for _, path := range dependencies(string(b)) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(x.Dir, path)
		}
		if path = filepath.Clean(path); path == filepath.Clean(object) {
			continue
		}
		if err := l.addFile(cache, path); err != nil {
			return err
		}
	}
	return nil
}

// addFile adds a file that the linker opens.
func (l *Link) addFile(cache *Cache, path string) error {
	f := cache.files[path]
	if f == nil {
		sum, err := cache.hash(path)
		if err != nil {
			return err
		}
		f = &File{Library: Library{filepath.Base(path), sum}, Symbols: definitions(path), Wants: wants(path)}
		if d, err := cache.open(path); err == nil && len(d.sonames) == 1 {
			f.Soname = d.sonames[0]
		}
		cache.files[path] = f
	}
	if !slices.ContainsFunc(l.Files, func(known *File) bool { return known.Library == f.Library }) {
		l.Files = append(l.Files, f)
	}
	return nil
}

// dependencies returns the prerequisites of the first rule of a makefile.
func dependencies(s string) []string {
	s, _, _ = strings.Cut(s, "\n\n")
	_, s, _ = strings.Cut(s, ":")
	var files []string
	s = strings.NewReplacer("\\\n", " ", "\\ ", "\x00", "\\#", "#", "$$", "$").Replace(s)
	for f := range strings.FieldsSeq(s) {
		files = append(files, strings.ReplaceAll(f, "\x00", " "))
	}
	return files
}

var directoryPrefix = regexp.MustCompile(`([=,]|^)[^=,]*/`)

var linkerVersion = regexp.MustCompile(`^(GNU ld|GNU gold|.*LLD|mold)\b.*\d`)

// linkerNames are the linkers by the last word of linkerVersion's match.
var linkerNames = map[string]string{"ld": "bfd", "gold": "gold", "LLD": "lld", "mold": "mold"}

// readCommand parses the driver's call of the linker for object.
func (l *Link) readCommand(out []byte, object string) error {
	var call []string
	name := ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, " ") && strings.Contains(line, object):
			call = words.Split(line)
		case name == "" && linkerVersion.MatchString(line):
			name = line
			words := strings.Fields(linkerVersion.FindStringSubmatch(line)[1])
			l.Name = linkerNames[words[len(words)-1]]
		}
	}
	if len(call) == 0 || name == "" {
		return errors.New("it doesn't show its linker")
	}
	l.Linker = append(l.Linker, name)
	line := linkflags.ParseLinker(slices.DeleteFunc(call[1:], func(w string) bool {
		// Names of temporary files.
		return strings.HasPrefix(w, "-plugin-opt=")
	}), linkflags.Options{})
	for _, f := range line.Flags {
		if strings.HasPrefix(f, "-Wl,--dynamic-linker=") { // a place on the machine that runs it
			l.Linker = append(l.Linker, f)
		} else if !strings.HasPrefix(f, "-L") {
			l.Linker = append(l.Linker, directoryPrefix.ReplaceAllString(f, "$1"))
		}
	}
	for _, item := range line.Items {
		if item.Name == object {
			// Drivers pass it in front of all files. Linkers default to --no-as-needed.
			l.AsNeeded = linkflags.No
			if item.AsNeeded == linkflags.Yes {
				l.AsNeeded = linkflags.Yes
			}
		}
		// Libraries that the driver adds.
		l.Linker = append(l.Linker, strings.TrimSpace(filepath.Base(item.Name)+" "+item.State.String()))
	}
	return nil
}

// Program returns the program that was linked by the first line.
func (p *Probe) Program() string { return p.program }

// Loaded returns the files that this machine's loader takes for a program that was linked by the first line and needs
// all shared libraries of t, which has all lines.
func (p *Probe) Loaded(t *Taken) ([]Library, error) {
	return Program{Binary: p.program, Probed: true, Needs: t.Needs}.libraries(cmp.Or(p.shared, new(Cache)))
}

// probeFormat is the version of the file format of a Probe.
const probeFormat = 5

// probeFile is the content of a file: a Probe, or the reason why there is none.
type probeFile struct {
	Format  int          `json:"format"`
	Unknown string       `json:"unknown,omitempty"`
	Files   []*File      `json:"files,omitempty"`
	Links   []probedLink `json:"links,omitempty"`
}

type probedLink struct {
	Link
	Indices []int `json:"files"`
}

// Write writes p or, if p is nil, the reason unknown to a file. Without a probe, the linked program is identified by
// its content.
func (p *Probe) Write(file string, unknown error) error {
	out := probeFile{Format: probeFormat}
	if p == nil {
		out.Unknown = unknown.Error()
	} else {
		for _, l := range p.Links {
			x := probedLink{Link: l}
			for _, f := range l.Files {
				n := slices.Index(out.Files, f)
				if n < 0 {
					n = len(out.Files)
					out.Files = append(out.Files, f)
				}
				x.Indices = append(x.Indices, n)
			}
			out.Links = append(out.Links, x)
		}
	}
	b, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o666)
}

// ReadProbe reads a file that Write has written. It returns nil if the file has no probe.
func ReadProbe(file string) (*Probe, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p, err := parseProbe(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

func parseProbe(b []byte) (*Probe, error) {
	var in probeFile
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, err
	}
	if in.Format != probeFormat {
		return nil, fmt.Errorf("format %d, this tasting reads format %d: build it again with one version of tasting", in.Format, probeFormat)
	}
	if in.Unknown != "" {
		return nil, nil
	}
	p := new(Probe)
	for _, x := range in.Links {
		if len(x.Linker) == 0 {
			return nil, errors.New("no linker")
		}
		for _, n := range x.Indices {
			if n < 0 || n >= len(in.Files) || in.Files[n] == nil {
				return nil, fmt.Errorf("there is no file %d", n)
			}
			x.Link.Files = append(x.Link.Files, in.Files[n])
		}
		p.Links = append(p.Links, x.Link)
	}
	if len(p.Links) == 0 {
		return nil, errors.New("no links")
	}
	return p, nil
}
