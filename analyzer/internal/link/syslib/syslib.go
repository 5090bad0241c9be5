// Package syslib finds out what a program takes from the system: files that are linked into it, and
// libraries that it is run with. They are no inputs of a build, but decide about its tests.
//
// A probe shows what is linked: a link of a program that does nothing, by the same driver and with the
// same flags (probe.go). Its result is the content of crt1.o, libgcc.a, a linker script in the place of a
// library, or a static library behind a dynamic one, however they get onto the line.
//
// The rules of the dynamic loader (ld.so(8)) show what is loaded. They are applied to ELF files without
// running them: to the test's program, and to programs and libraries in its data.
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

// Static is the name of a Library that is the program itself, because libraries of the system are or may be
// linked into it.
const Static = "static"

// Program is an executable and what is known about it.
type Program struct {
	// Binary is its path.
	Binary string
	// Probed is set if a Probe shows what the system has added to its link, and to those of the shared
	// libraries that were built.
	Probed bool
	// Alone is set if no probe knows the links. Shared libraries that Bazel has built are then hashed as well.
	Alone bool
	// Needs are libraries of the system that it may need as well, because a line of its link names them.
	// Before the link, that is all that is known.
	Needs []string
	// Data are the files that it may start or load.
	Data []string
}

// Libraries returns the files that the dynamic loader takes for the program, except those that Bazel has
// built: the loader and the shared libraries of the system, by content, sorted by name. What Bazel has
// built is identified by manifests. The same applies to programs and libraries in the data.
//
// Without a probe the program itself is one of them, because start files and libraries of the system may
// be inside.
//
// An error means that the files aren't known.
func (p Program) Libraries() ([]Library, error) {
	return p.libraries(new(Shared))
}

func (p Program) libraries(shared *Shared) ([]Library, error) {
	r := newResolver(shared)
	r.all = p.Alone
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
			libs[i].SHA256, err = r.shared.hash(f.path)
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

// named is a file and the name that it was asked for.
type named struct{ name, path string }

// ofData ends the names of files for a program or library in the data: a process of its own may find another
// library under the same name.
const ofData = " (data)"

// resolver follows DT_NEEDED as ld.so does, breadth first. Where ld.so decides by the file that asks, its
// cache or the CPU, all candidates are taken: the key may differ without need, but never agree wrongly.
// Variables of the loader are excluded by ChangesLoading.
type resolver struct {
	optional bool // a library that isn't found is an entry instead of an error
	all      bool // files that Bazel has built are entries, too
	shared   *Shared

	class   elf.Class
	machine elf.Machine
	built   string   // prefix of the real paths of all that Bazel has built
	dirs    []string // that are searched for libraries of any file
	hash    []named
	seen    map[string]bool // names and DT_SONAMEs
	loaded  map[string]bool // real paths
	queue   []need
}

// need is a reference to a library by the file at a path.
type need struct{ name, by string }

func newResolver(shared *Shared) *resolver {
	return &resolver{shared: shared, seen: map[string]bool{}, loaded: map[string]bool{}}
}

// resolve finds the files for a program, which may need more libraries than it says.
func (r *resolver) resolve(binary string, more []string) error {
	real, err := filepath.EvalSymlinks(binary)
	if err != nil {
		return err
	}
	f, err := r.shared.open(real)
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
	r.startedBy(f.interp)
	if r.dirs, err = systemDirs(f.interp); err != nil {
		return err
	}
	// The kernel, and so $ORIGIN, knows the executable by its real path.
	if err := r.read(f, real); err != nil {
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
	r.optional = true
	for _, name := range more {
		r.queue = append(r.queue, need{name, real})
	}
	return r.follow()
}

// startedBy adds a loader to the loaded files.
func (r *resolver) startedBy(interp string) {
	r.seen[filepath.Base(interp)] = true
	if loader, err := filepath.EvalSymlinks(interp); err == nil {
		r.loaded[loader] = true
	}
}

// outputs returns the prefix of the paths of all that Bazel has built next to a file, or "".
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
	r := newResolver(new(Shared))
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

// LoadsLinked returns the files that a program loads because it is linked with a shared library that Bazel
// hasn't linked. Bazel has it loaded through a symbolic link in a directory of its own, with nothing next
// to it. The program may have the loader search dirs as well.
func LoadsLinked(file string, dirs []string) ([]Library, error) {
	if _, err := os.Stat(file); err != nil || !isELF(file) {
		return nil, err
	}
	r := newResolver(new(Shared))
	f, err := r.shared.open(file)
	if err != nil {
		return nil, err
	}
	r.optional, r.class, r.machine = true, f.class, f.machine
	if r.dirs, err = systemDirs("ld-linux"); err != nil {
		return nil, err
	}
	r.dirs = append(r.dirs, dirs...)
	by := filepath.Join(os.DevNull, filepath.Base(file))
	if err := r.read(f, by); err != nil {
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

// resolveData follows the programs and shared libraries among files, which may be started or loaded. Those for
// other machines are ignored, and a missing library is an entry.
func (r *resolver) resolveData(files []string) error {
	done := map[string]bool{}
	for _, file := range files {
		real, err := filepath.EvalSymlinks(file)
		if err != nil || done[real] || !isELF(real) {
			continue
		}
		done[real] = true
		f, err := r.shared.open(real)
		if err != nil {
			continue
		}
		if err := r.resolveDatum(f, real); err != nil {
			return err
		}
	}
	return nil
}

// resolveDatum follows one of them.
func (r *resolver) resolveDatum(f *dynamic, real string) (err error) {
	if f.kind != elf.ET_EXEC && f.kind != elf.ET_DYN {
		return nil
	}
	d := newResolver(r.shared)
	d.optional, d.built, d.class, d.machine, d.dirs = true, cmp.Or(r.built, outputs(real)), f.class, f.machine, r.dirs
	switch {
	case f.interpErr != nil:
		return f.interpErr
	case f.interp != "": // a program of its own
		if _, err := os.Stat(f.interp); err != nil {
			r.add(named{"no loader " + f.interp + ofData, ""})
			return nil
		}
		d.dirs, err = systemDirs(f.interp)
		d.startedBy(f.interp)
		r.add(named{"loader" + ofData, f.interp})
	case r.dirs == nil: // the program that loads it isn't known
		d.dirs, err = systemDirs("ld-linux")
	case r.class != f.class || r.machine != f.machine:
		return nil
	}
	if err != nil {
		return err
	}
	if err := d.read(f, real); err != nil {
		return err
	}
	if err := d.follow(); err != nil {
		return err
	}
	for _, n := range d.hash {
		r.add(named{n.name + ofData, n.path})
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

// openDynamic reads it.
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

// read adds the directories and the needs of a loaded file.
func (r *resolver) read(f *dynamic, path string) error {
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

// load finds a library. If another file has asked for that name before, a loader takes the library of that
// one. But that file may not be needed in the end: Needs has all that is on a line. So all other candidates
// are taken as well.
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
	case r.optional:
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
		f, err := r.shared.open(p)
		if err != nil {
			return err
		}
		if err := r.read(f, p); err != nil {
			return err
		}
		r.loaded[real] = true
		if always || r.all || r.built == "" || !strings.HasPrefix(real, r.built) {
			r.hash = append(r.hash, named{n.name, real})
		}
	}
	return nil
}

// inDir appends the candidates in one directory. glibc prefers those in subdirectories for features of the
// CPU.
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
	f, err := r.shared.open(p)
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
		// The loader's defaults depend on the distribution. These are all of them.
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
