// Package syslib finds out which shared libraries of the system a program runs
// with, without running it: the dynamic loader's rules (ld.so(8)) applied to
// the ELF file. They are no input of a build, and decide about its tests all
// the same.
package syslib

import (
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/fingerprint"
)

// Library is a shared library or loader of the system and the SHA-256 of its
// content.
type Library struct {
	Name   string
	SHA256 [32]byte
}

// Names of a Library that is the program itself, because libraries are inside
// of it: all of them, or some.
const (
	Static       = "static"
	PartlyStatic = "linked in part statically"
)

// Libraries returns what the dynamic loader will load for binary apart
// from what Bazel has built: the loader and the shared libraries of the system,
// by content. What Bazel has built is known by its manifests already, and its
// content would change with every edit. Of a binary without a loader the whole
// content counts, as the libraries are inside.
//
// So it does if a link flag names a library of the system that isn't loaded: it
// was static, or not needed.
//
// The environment is that of the program, which getenv asks for one variable.
//
// An error means that it can't be told what will be loaded.
func Libraries(binary string, linkFlags []string, getenv func(string) string) ([]Library, error) {
	r := &resolver{getenv: getenv, systemDirs: systemDirs}
	if err := r.resolve(binary); err != nil {
		return nil, fmt.Errorf("unknown shared libraries: %w", err)
	}
	if len(r.hash) > 0 && r.hash[0].name != Static && slices.ContainsFunc(linkFlags, r.notLoaded) {
		r.hash = append(r.hash, named{PartlyStatic, binary})
	}
	libs := make([]Library, len(r.hash))
	errs := make([]error, len(r.hash))
	var wg sync.WaitGroup
	for i, f := range r.hash {
		libs[i].Name = f.name
		wg.Go(func() {
			libs[i].SHA256, errs[i] = hashFile(f.path)
		})
	}
	wg.Wait()
	return libs, errors.Join(errs...)
}

// notLoaded says whether a link flag names a library that is not among those
// that are loaded.
func (r *resolver) notLoaded(flag string) bool {
	name, ok := fingerprint.ForeignLibrary(flag)
	if !ok {
		return false
	}
	name = filepath.Base(strings.TrimPrefix(name, ":"))
	if !strings.Contains(name, ".") {
		name = "lib" + name
	}
	name, _, _ = strings.Cut(name, ".so")
	for _, l := range r.hash {
		if loaded, _, _ := strings.Cut(filepath.Base(l.name), ".so"); loaded == name {
			return false
		}
	}
	return true
}

func hashFile(name string) (sum [32]byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	return [32]byte(h.Sum(nil)), nil
}

// object is an ELF file that is loaded.
type object struct {
	path   string // as the loader sees it, for $ORIGIN
	loader *object
	rpath  []string // directories of DT_RPATH, if there is no DT_RUNPATH
	run    []string // directories of DT_RUNPATH
	hasRun bool
	needed []string
}

// named is a file to be hashed and the name it was asked for.
type named struct{ name, path string }

// resolver follows DT_NEEDED as ld.so does, breadth first. Where ld.so chooses
// by the machine (its cache, subdirectories for CPU levels) all candidates are
// taken: the key may then differ without need, but never agree wrongly.
type resolver struct {
	getenv     func(string) string
	systemDirs func(interp string) ([]string, error)

	class   elf.Class
	machine elf.Machine
	built   string // prefix of the real paths of everything Bazel has built
	dirs    []string
	hash    []named
	seen    map[string]bool // names and DT_SONAMEs
	queue   []*object
}

func (r *resolver) resolve(binary string) error {
	r.seen = map[string]bool{}
	real, err := filepath.EvalSymlinks(binary)
	if err != nil {
		return err
	}
	f, err := elf.Open(real)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(binary), err)
	}
	defer f.Close()
	r.class, r.machine = f.Class, f.Machine
	interp, err := interpreter(f)
	if err != nil {
		return err
	}
	if interp == "" {
		r.hash = []named{{Static, real}}
		return nil
	}
	if i := strings.LastIndex(real, "/bazel-out/"); i >= 0 {
		r.built = real[:i] + "/bazel-out/"
	}
	r.hash = append(r.hash, named{"loader", interp})
	r.seen[filepath.Base(interp)] = true
	if r.dirs, err = r.systemDirs(interp); err != nil {
		return err
	}
	// The kernel, and so $ORIGIN, knows the executable by its real path.
	main, err := r.read(f, real, nil)
	if err != nil {
		return err
	}

	preload := strings.FieldsFunc(r.getenv("LD_PRELOAD"), func(c rune) bool { return c == ' ' || c == ':' })
	if b, err := os.ReadFile("/etc/ld.so.preload"); err == nil {
		preload = append(preload, strings.FieldsFunc(string(b), func(c rune) bool { return strings.ContainsRune(" \t\n:", c) })...)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range preload {
		// Not linked, hence in no manifest.
		if err := r.load(name, main, true); err != nil {
			return err
		}
	}
	r.queue = append([]*object{main}, r.queue...)
	for len(r.queue) > 0 {
		o := r.queue[0]
		r.queue = r.queue[1:]
		for _, n := range o.needed {
			if err := r.load(n, o, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func interpreter(f *elf.File) (string, error) {
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		b := make([]byte, p.Filesz)
		if _, err := p.ReadAt(b, 0); err != nil {
			return "", err
		}
		return strings.TrimRight(string(b), "\x00"), nil
	}
	return "", nil
}

// read returns what the loader uses of f.
func (r *resolver) read(f *elf.File, path string, loader *object) (*object, error) {
	o := &object{path: path, loader: loader}
	for _, tag := range []elf.DynTag{elf.DT_AUDIT, elf.DT_DEPAUDIT, elf.DT_AUXILIARY, elf.DT_FILTER} {
		if v, err := f.DynValue(tag); err == nil && len(v) > 0 {
			return nil, fmt.Errorf("%s has %v, which isn't supported", filepath.Base(path), tag)
		}
	}
	str := func(tag elf.DynTag) ([]string, error) {
		l, err := f.DynString(tag)
		if err != nil {
			return nil, fmt.Errorf("%s: %v", filepath.Base(path), err)
		}
		return l, nil
	}
	paths := func(tag elf.DynTag) (dirs []string, has bool, err error) {
		l, err := str(tag)
		if err != nil {
			return nil, false, err
		}
		for _, p := range l {
			d, err := r.split(p, ":", path)
			if err != nil {
				return nil, false, err
			}
			dirs = append(dirs, d...)
		}
		return dirs, len(l) > 0, nil
	}
	var err error
	if o.run, o.hasRun, err = paths(elf.DT_RUNPATH); err != nil {
		return nil, err
	}
	if !o.hasRun {
		if o.rpath, _, err = paths(elf.DT_RPATH); err != nil {
			return nil, err
		}
	}
	sonames, err := str(elf.DT_SONAME)
	if err != nil {
		return nil, err
	}
	for _, s := range sonames {
		r.seen[s] = true
	}
	o.needed, err = str(elf.DT_NEEDED)
	return o, err
}

// split splits a search path and replaces the loader's variables.
func (r *resolver) split(list, separators, object string) ([]string, error) {
	var dirs []string
	for {
		i := strings.IndexAny(list, separators)
		d := list
		if i >= 0 {
			d = list[:i]
		}
		if d == "" {
			d = "." // an empty element is the working directory
		}
		d, err := expand(d, object)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, d)
		if i < 0 {
			return dirs, nil
		}
		list = list[i+1:]
	}
}

func expand(p, object string) (string, error) {
	origin := filepath.Dir(object)
	p = strings.ReplaceAll(p, "${ORIGIN}", origin)
	p = strings.ReplaceAll(p, "$ORIGIN", origin)
	if strings.Contains(p, "$") {
		return "", fmt.Errorf("library path %s of %s has a variable other than $ORIGIN", p, filepath.Base(object))
	}
	return p, nil
}

// load finds the library that object by asks for.
func (r *resolver) load(name string, by *object, always bool) error {
	if r.seen[name] {
		return nil
	}
	r.seen[name] = true
	found, err := r.find(name, by)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("shared library %s, needed by %s, was not found", name, filepath.Base(by.path))
	}
	for _, p := range found {
		f, err := elf.Open(p)
		if err != nil {
			return err
		}
		o, err := r.read(f, p, by)
		f.Close()
		if err != nil {
			return err
		}
		r.queue = append(r.queue, o)
		real, err := filepath.EvalSymlinks(p)
		if err != nil {
			return err
		}
		if always || r.built == "" || !strings.HasPrefix(real, r.built) {
			r.hash = append(r.hash, named{name, real})
		}
	}
	return nil
}

// find returns the paths of the files that the loader may take for name.
func (r *resolver) find(name string, by *object) ([]string, error) {
	if strings.Contains(name, "/") {
		p, err := expand(name, by.path)
		if err != nil {
			return nil, err
		}
		return r.candidates(nil, p), nil
	}
	var dirs []string
	if !by.hasRun {
		for o := by; o != nil; o = o.loader {
			dirs = append(dirs, o.rpath...)
		}
	}
	if l := r.getenv("LD_LIBRARY_PATH"); l != "" {
		d, err := r.split(l, ":;", by.path)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, d...)
	}
	dirs = append(dirs, by.run...)
	for _, d := range dirs {
		if l := r.inDir(nil, d, name); len(l) > 0 {
			return l, nil
		}
	}
	// The loader would ask its cache. Whatever that says, it is one of these.
	var l []string
	for _, d := range r.dirs {
		l = r.inDir(l, d, name)
	}
	return l, nil
}

// inDir appends what the loader may take from one directory: glibc prefers
// subdirectories for what the CPU can do.
func (r *resolver) inDir(l []string, dir, name string) []string {
	levels, _ := filepath.Glob(filepath.Join(dir, "glibc-hwcaps", "*", name))
	for _, p := range levels {
		l = r.candidates(l, p)
	}
	return r.candidates(l, filepath.Join(dir, name))
}

// candidates appends p if it is a library that the loader would not skip, and
// not the same file as one in l.
func (r *resolver) candidates(l []string, p string) []string {
	info, err := os.Stat(p)
	if err != nil || !info.Mode().IsRegular() {
		return l
	}
	f, err := elf.Open(p)
	if err != nil {
		return l
	}
	defer f.Close()
	if f.Class != r.class || f.Machine != r.machine {
		return l
	}
	for _, q := range l {
		if other, err := os.Stat(q); err == nil && os.SameFile(info, other) {
			return l
		}
	}
	return append(l, p)
}

// systemDirs returns the directories in which a loader looks last.
func systemDirs(interp string) ([]string, error) {
	base := filepath.Base(interp)
	switch {
	case strings.HasPrefix(base, "ld-linux") || strings.HasPrefix(base, "ld64.so") || base == "ld.so.1":
		dirs, err := confDirs("/etc/ld.so.conf", 0)
		if err != nil {
			return nil, err
		}
		// The defaults that were compiled into the loader depend on the
		// distribution; these are all that are in use.
		dirs = append(dirs, "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/lib32", "/usr/lib32", "/libx32", "/usr/libx32")
		for _, pattern := range []string{"/lib/*-linux-gnu*", "/usr/lib/*-linux-gnu*"} {
			l, _ := filepath.Glob(pattern)
			dirs = append(dirs, l...)
		}
		// The loader's own directory: a distribution like NixOS has all there.
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

// confDirs reads the directories in a configuration file of ldconfig.
func confDirs(file string, depth int) ([]string, error) {
	if depth > 8 {
		return nil, fmt.Errorf("%s includes itself", file)
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
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
	return dirs, nil
}
