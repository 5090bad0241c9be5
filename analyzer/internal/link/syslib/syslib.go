// Package syslib finds the files of the system that a program is linked with, and the libraries that it loads. They
// aren't inputs of a build, but can change the outcome of its tests.
//
// A probe finds the linked files: it links an empty program by the same driver and with the same flags (probe.go).
// It has the content of crt1.o, libgcc.a, linker scripts and archives, even if only the driver adds them.
//
// The loaded libraries follow from the rules of the dynamic loader (ld.so(8)). This package applies them to ELF files
// without running them: to the test's program, and to programs and libraries in its data.
package syslib

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Library is a shared library or loader of the system, and its content.
type Library struct {
	Name   string `json:"name"`
	SHA256 Digest `json:"sha256"`
}

// Digest is a SHA-256. As a text it is in hex.
type Digest [sha256.Size]byte

func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

func (d *Digest) UnmarshalText(text []byte) error {
	if n, err := hex.Decode(d[:], text[:min(len(text), 2*len(d))]); err != nil || n < len(d) || len(text) > 2*len(d) {
		return fmt.Errorf("%q is not a SHA-256 in hex", text)
	}
	return nil
}

// Static is the name of the Library for the program itself, if libraries of the system may be linked into it.
const Static = "static"

// Program is an executable, with facts about its links.
type Program struct {
	// Binary is its path.
	Binary string
	// Probed is set if a Probe has the lines of all links. NotProbed is set if the lines are known but weren't probed:
	// shared libraries that Bazel has built are then hashed, too. Both are false if the lines aren't known.
	Probed, NotProbed bool
	// Needs are further libraries of the system on the lines of its links, which it may need.
	Needs []string
	// Data are the files that it may start or load.
	Data []string
}

// Libraries returns the files of the system that the dynamic loader takes for the program, and for programs and
// libraries in its data: the loader and shared libraries, by content, sorted by name. Manifests identify the files
// that Bazel has built.
//
// Without a probe the program itself is one of them, because start files and libraries of the system may
// be linked into it.
//
// An error means that the files aren't known.
func (p Program) Libraries() ([]Library, error) {
	return p.libraries(new(Cache))
}

func (p Program) libraries(cache *Cache) ([]Library, error) {
	r := newResolver(cache)
	r.withBuilt = p.NotProbed
	if err := r.resolve(p.Binary, p.Needs); err != nil {
		return nil, fmt.Errorf("unknown shared libraries: %w", err)
	}
	if r.hash = slices.DeleteFunc(r.hash, func(n named) bool { return n.name == Static }); !p.Probed {
		r.hash = append(r.hash, named{Static, p.Binary})
	}
	if err := r.resolveData(p.Data); err != nil {
		return nil, fmt.Errorf("unknown shared libraries of a program in the data: %w", err)
	}
	return r.libraries()
}

// libraries returns the files that were found, with their content.
func (r *resolver) libraries() ([]Library, error) {
	libs := make([]Library, len(r.hash))
	var g errgroup.Group
	g.SetLimit(16)
	for i, f := range r.hash {
		libs[i].Name = f.name
		if f.path == "" {
			continue
		}
		g.Go(func() (err error) {
			libs[i].SHA256, err = r.cache.hash(f.path)
			return err
		})
	}
	err := g.Wait()
	return Sort(libs), err
}

// Sort sorts libraries by name and content, and removes duplicates.
func Sort(libs []Library) []Library {
	slices.SortFunc(libs, func(a, b Library) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), bytes.Compare(a.SHA256[:], b.SHA256[:]))
	})
	return slices.Compact(libs)
}

// named is a file and the name by which it was requested.
type named struct{ name, path string }

// dataSuffix ends the names of libraries of a program or library in the data. Its process may find another library under
// the same name.
const dataSuffix = " (data)"

// resolver follows DT_NEEDED as ld.so does, breadth first. If ld.so's choice depends on the needing file, its
// cache or the CPU, resolver takes all candidates: keys may differ needlessly, but never agree wrongly.
// Variables of the loader are excluded by ChangesLoading.
type resolver struct {
	allowMissing bool // a library that isn't found is an entry instead of an error
	withBuilt    bool // files that Bazel has built are entries, too
	cache        *Cache

	class   elf.Class
	machine elf.Machine
	built   string   // prefix of the real paths of Bazel's outputs
	dirs    []string // that are searched for libraries of any file
	hash    []named
	seen    map[string]bool // names and DT_SONAMEs
	loaded  map[string]bool // real paths
	queue   []need
}

// need is a reference to a library by the file at a path.
type need struct{ name, by string }

func newResolver(cache *Cache) *resolver {
	return &resolver{cache: cache, seen: map[string]bool{}, loaded: map[string]bool{}}
}

// resolve finds the files for a program, which may need more libraries than its DT_NEEDED.
func (r *resolver) resolve(binary string, more []string) error {
	real, err := filepath.EvalSymlinks(binary)
	if err != nil {
		return err
	}
	f, err := r.cache.open(real)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(binary), err)
	}
	r.class, r.machine = f.class, f.machine
	if f.interpErr != nil {
		return f.interpErr
	}
	if f.interp == "" {
		r.hash = []named{{Static, real}}
		return nil
	}
	r.built = outputs(real)
	r.hash = append(r.hash, named{"loader", f.interp})
	r.addLoader(f.interp)
	if r.dirs, err = systemDirs(f.interp); err != nil {
		return err
	}
	// The kernel, and so $ORIGIN, knows the executable by its real path.
	if err := r.addNeeds(f, real); err != nil {
		return err
	}
	if b, err := os.ReadFile("/etc/ld.so.preload"); err == nil {
		for _, name := range strings.FieldsFunc(string(b), func(c rune) bool { return strings.ContainsRune(" \t\n:", c) }) {
			if err := r.load(need{name, real}, true); err != nil { // not linked, hence in no manifest
				return err
			}
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := r.follow(); err != nil {
		return err
	}
	r.allowMissing = true
	for _, name := range more {
		r.queue = append(r.queue, need{name, real})
	}
	return r.follow()
}

// addLoader adds a loader to the loaded files.
func (r *resolver) addLoader(interp string) {
	r.seen[filepath.Base(interp)] = true
	if loader, err := filepath.EvalSymlinks(interp); err == nil {
		r.loaded[loader] = true
	}
}

// outputs returns the prefix of the paths of Bazel's outputs if a file is one, or "".
func outputs(file string) string {
	if i := strings.LastIndex(file, "/bazel-out/"); i >= 0 {
		return file[:i] + "/bazel-out/"
	}
	return ""
}

// follow loads the needs of loaded files.
func (r *resolver) follow() error {
	for len(r.queue) > 0 {
		n := r.queue[0]
		r.queue = r.queue[1:]
		if err := r.load(n, false); err != nil {
			return err
		}
	}
	return nil
}

// Loads returns the files for a program or shared library in the data of a test, as Program.Libraries does, or
// nil if the file is neither. The test is linked as program is (DT_RPATH), or empty if that isn't known.
func Loads(file, program string) ([]Library, error) {
	if !isELF(file) {
		return nil, nil
	}
	r := newResolver(new(Cache))
	if program != "" {
		if err := r.resolve(program, nil); err != nil {
			return nil, err
		}
		r.hash = nil
	}
	if err := r.resolveData([]string{file}); err != nil {
		return nil, err
	}
	return r.libraries()
}

// LoadsLinked returns the files that a program loads because it is linked with a prebuilt shared library. The
// program finds it by a symbolic link in a directory of Bazel's that has no other files. Dirs are the program's
// run path.
func LoadsLinked(file string, dirs []string) ([]Library, error) {
	if _, err := os.Stat(file); err != nil || !isELF(file) {
		return nil, err
	}
	r := newResolver(new(Cache))
	f, err := r.cache.open(file)
	if err != nil {
		return nil, err
	}
	r.allowMissing, r.class, r.machine = true, f.class, f.machine
	if r.dirs, err = systemDirs("ld-linux"); err != nil {
		return nil, err
	}
	r.dirs = append(r.dirs, dirs...)
	by := filepath.Join(os.DevNull, filepath.Base(file))
	if err := r.addNeeds(f, by); err != nil {
		return nil, err
	}
	clear(r.seen)
	for _, name := range f.sonames {
		r.queue = append(r.queue, need{name, by})
	}
	if err := r.follow(); err != nil {
		return nil, err
	}
	return r.libraries()
}

// resolveData follows the programs and shared libraries among files. It ignores those for other machines. A missing library
// is an entry.
func (r *resolver) resolveData(files []string) error {
	done := map[string]bool{}
	for _, file := range files {
		real, err := filepath.EvalSymlinks(file)
		if err != nil || done[real] || !isELF(real) {
			continue
		}
		done[real] = true
		f, err := r.cache.open(real)
		if err != nil {
			continue
		}
		if err := r.resolveDataFile(f, real); err != nil {
			return err
		}
	}
	return nil
}

// resolveDataFile follows a program or shared library.
func (r *resolver) resolveDataFile(f *dynamic, real string) (err error) {
	if f.kind != elf.ET_EXEC && f.kind != elf.ET_DYN {
		return nil
	}
	d := newResolver(r.cache)
	d.allowMissing, d.built, d.class, d.machine, d.dirs = true, cmp.Or(r.built, outputs(real)), f.class, f.machine, r.dirs
	switch {
	case f.interpErr != nil:
		return f.interpErr
	case f.interp != "": // a program of its own
		if _, err := os.Stat(f.interp); err != nil {
			r.add(named{"no loader " + f.interp + dataSuffix, ""})
			return nil
		}
		d.dirs, err = systemDirs(f.interp)
		d.addLoader(f.interp)
		r.add(named{"loader" + dataSuffix, f.interp})
	case r.dirs == nil: // the program that loads it isn't known
		d.dirs, err = systemDirs("ld-linux")
	case r.class != f.class || r.machine != f.machine:
		return nil
	}
	if err != nil {
		return err
	}
	if err := d.addNeeds(f, real); err != nil {
		return err
	}
	if err := d.follow(); err != nil {
		return err
	}
	for _, n := range d.hash {
		r.add(named{n.name + dataSuffix, n.path})
	}
	return nil
}

// add adds a file once.
func (r *resolver) add(n named) {
	if !slices.Contains(r.hash, n) {
		r.hash = append(r.hash, n)
	}
}

// isELF reports whether a file begins as ELF files do.
func isELF(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [4]byte
	_, err = io.ReadFull(f, magic[:])
	return err == nil && string(magic[:]) == elf.ELFMAG
}

// maxInterpreter is the longest path of a loader that the kernel accepts (PATH_MAX).
const maxInterpreter = 4096

// interpreter returns the path of a program's loader (PT_INTERP), or "".
func interpreter(f *elf.File) (string, error) {
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		if p.Filesz > maxInterpreter {
			return "", fmt.Errorf("the path of its loader has %d bytes", p.Filesz)
		}
		b := make([]byte, p.Filesz)
		if _, err := p.ReadAt(b, 0); err != nil {
			return "", err
		}
		return strings.TrimRight(string(b), "\x00"), nil
	}
	return "", nil
}

// dynamic is the part of a file that the loader reads.
type dynamic struct {
	class     elf.Class
	machine   elf.Machine
	kind      elf.Type
	interp    string // "" if it has none
	interpErr error

	sonames, needed, rpath, runpath []string
	err                             error // of the four
}

// openDynamic reads the part of a file that the loader reads.
func openDynamic(path string) (*dynamic, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d := &dynamic{class: f.Class, machine: f.Machine, kind: f.Type}
	d.interp, d.interpErr = interpreter(f)
	for _, tag := range []elf.DynTag{elf.DT_AUDIT, elf.DT_DEPAUDIT, elf.DT_AUXILIARY, elf.DT_FILTER} {
		if v, err := f.DynValue(tag); err == nil && len(v) > 0 && d.err == nil {
			d.err = fmt.Errorf("%s has %v, which isn't supported", filepath.Base(path), tag)
		}
	}
	for _, x := range []struct {
		tag elf.DynTag
		l   *[]string
	}{{elf.DT_RUNPATH, &d.runpath}, {elf.DT_RPATH, &d.rpath}, {elf.DT_SONAME, &d.sonames}, {elf.DT_NEEDED, &d.needed}} {
		if v, err := f.DynValue(x.tag); err == nil && len(v) == 0 {
			continue // it would read all strings to find none
		}
		if *x.l, err = f.DynString(x.tag); err != nil && d.err == nil {
			d.err = fmt.Errorf("%s: %v", filepath.Base(path), err)
		}
	}
	return d, nil
}

// addNeeds adds the run path and the needs of a loaded file.
func (r *resolver) addNeeds(f *dynamic, path string) error {
	if f.err != nil {
		return f.err
	}
	var dirs []string
	if paths := slices.Concat(f.runpath, f.rpath); len(paths) > 0 {
		dirs = strings.Split(strings.Join(paths, ":"), ":")
	}
	for _, dir := range dirs {
		dir, err := expand(cmp.Or(dir, "."), path) // an empty element is the working directory
		if err != nil {
			return err
		}
		if !slices.Contains(r.dirs, dir) {
			r.dirs = append(slices.Clip(r.dirs), dir)
		}
	}
	for _, s := range f.sonames {
		r.seen[s] = true
	}
	for _, name := range f.needed {
		r.queue = append(r.queue, need{name, path})
	}
	return nil
}

// expand replaces a variable of the loader in a path.
func expand(p, object string) (string, error) {
	p = strings.NewReplacer("${ORIGIN}", filepath.Dir(object), "$ORIGIN", filepath.Dir(object)).Replace(p)
	if strings.Contains(p, "$") {
		return "", fmt.Errorf("library path %s of %s has a variable other than $ORIGIN", p, filepath.Base(object))
	}
	return p, nil
}

// load finds a library. If another file has needed that name before, a loader takes the library of that
// file. But that file may not be loaded, because Needs has all libraries on a line. So load takes all candidates.
func (r *resolver) load(n need, always bool) error {
	again := r.seen[n.name]
	r.seen[n.name] = true
	var found []string
	if strings.Contains(n.name, "/") {
		p, err := expand(n.name, n.by)
		if err != nil && !again {
			return err
		}
		found = r.candidates(nil, p)
	} else {
		for _, d := range r.dirs {
			found = r.inDir(found, d, n.name)
		}
	}
	switch {
	case len(found) > 0 || again:
	case r.allowMissing:
		r.add(named{"no " + n.name, ""})
	default:
		return fmt.Errorf("shared library %s, needed by %s, was not found", n.name, filepath.Base(n.by))
	}
	for _, p := range found {
		real, err := filepath.EvalSymlinks(p)
		if err != nil {
			return err
		}
		if again && r.loaded[real] {
			continue
		}
		f, err := r.cache.open(p)
		if err != nil {
			return err
		}
		if err := r.addNeeds(f, p); err != nil {
			return err
		}
		r.loaded[real] = true
		if always || r.withBuilt || r.built == "" || !strings.HasPrefix(real, r.built) {
			r.hash = append(r.hash, named{n.name, real})
		}
	}
	return nil
}

// inDir appends the candidates in one directory. glibc prefers subdirectories for features of the CPU.
func (r *resolver) inDir(l []string, dir, name string) []string {
	levels, _ := filepath.Glob(filepath.Join(dir, "glibc-hwcaps", "*", name))
	for _, p := range levels {
		l = r.candidates(l, p)
	}
	return r.candidates(l, filepath.Join(dir, name))
}

// candidates appends p if it is a library for the machine, and not the same file as one in l.
func (r *resolver) candidates(l []string, p string) []string {
	info, err := os.Stat(p)
	if err != nil || !info.Mode().IsRegular() {
		return l
	}
	f, err := r.cache.open(p)
	if err != nil || f.class != r.class || f.machine != r.machine {
		return l
	}
	for _, q := range l {
		if other, err := os.Stat(q); err == nil && os.SameFile(info, other) {
			return l
		}
	}
	return append(l, p)
}

// systemDirs returns the directories that a loader searches last.
func systemDirs(interp string) ([]string, error) {
	base := filepath.Base(interp)
	switch {
	case strings.HasPrefix(base, "ld-linux") || strings.HasPrefix(base, "ld64.so") || base == "ld.so.1":
		dirs, err := confDirs("/etc/ld.so.conf", 0)
		if err != nil {
			return nil, err
		}
		// The loader's defaults depend on the distribution. This is the union.
		dirs = append(dirs, "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/lib32", "/usr/lib32", "/libx32", "/usr/libx32")
		for _, pattern := range []string{"/lib/*-linux-gnu*", "/usr/lib/*-linux-gnu*"} {
			l, _ := filepath.Glob(pattern)
			dirs = append(dirs, l...)
		}
		// NixOS has libraries in the loader's directory.
		if real, err := filepath.EvalSymlinks(interp); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
		slices.Sort(dirs)
		return slices.Compact(dirs), nil
	case strings.HasPrefix(base, "ld-musl-"):
		arch := strings.TrimSuffix(strings.TrimPrefix(base, "ld-musl-"), ".so.1")
		b, err := os.ReadFile("/etc/ld-musl-" + arch + ".path")
		if errors.Is(err, fs.ErrNotExist) {
			return []string{"/lib", "/usr/local/lib", "/usr/lib"}, nil
		}
		return strings.FieldsFunc(string(b), func(c rune) bool { return c == ':' || c == '\n' }), err
	}
	return nil, fmt.Errorf("unknown dynamic loader %s", interp)
}

// confDirs returns the directories in a configuration file of ldconfig.
func confDirs(file string, depth int) ([]string, error) {
	if depth > 8 {
		return nil, fmt.Errorf("%s includes itself", file)
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var dirs []string
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "hwcap" {
			continue
		}
		if f[0] != "include" {
			d, _, _ := strings.Cut(f[0], "=")
			dirs = append(dirs, d)
			continue
		}
		for _, pattern := range f[1:] {
			if !filepath.IsAbs(pattern) {
				pattern = filepath.Join(filepath.Dir(file), pattern)
			}
			l, err := filepath.Glob(pattern)
			if err != nil {
				return nil, fmt.Errorf("%s: %v", file, err)
			}
			for _, p := range l {
				d, err := confDirs(p, depth+1)
				if err != nil {
					return nil, err
				}
				dirs = append(dirs, d...)
			}
		}
	}
	return dirs, err
}
