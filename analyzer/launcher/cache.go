package launcher

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/rules-tasting/rules_tasting/analyzer/compiler"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/stamp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/wholefile"
	"github.com/rules-tasting/rules_tasting/analyzer/linkflags"
)

// cache is the directory where everything is kept. Any number of processes may use
// it: a file is there as a whole or not at all, and what is damaged isn't there.
//
//	files/     scans, by the number of the file; of its last state only
//	compilers/ what compilers are, and where they look for headers
//	units/     records, by the key of the unit
//	objects/   object files, zstd
//	counts     a line for each call
type cache struct {
	dir string
	// What this process has seen:
	scans map[string]*scan           // by path
	dirs  map[string]map[string]bool // names in directories; nil if one can't be listed
	// before is dirs from before the compiler was started, or nil.
	before map[string]map[string]bool
}

func (c *cache) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

// open makes the directory. It says why it can't be used.
func (c *cache) open() string {
	for _, d := range []string{"files", "compilers", "units", "objects"} {
		if err := os.MkdirAll(c.path(d), 0o777); err != nil {
			return "the directory can't be written"
		}
	}
	return ""
}

// write puts a file into place and tells whether that went well.
func (c *cache) write(file string, b []byte) bool {
	return wholefile.Write(file, b, 0o600) == nil
}

// count notes what was done, for Counts.
func (c *cache) count(what string) {
	f, err := os.OpenFile(c.path("counts"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return
	}
	_, _ = f.WriteString(strings.ReplaceAll(what, "\n", " ") + "\n")
	_ = f.Close()
}

// Counts returns how often each thing was done in a directory of records.
func Counts(dir string) (map[string]int, error) {
	b, err := os.ReadFile(filepath.Join(dir, "counts"))
	if err != nil {
		return nil, err
	}
	n := map[string]int{}
	for line := range bytes.Lines(b) {
		n[string(bytes.TrimSpace(line))]++
	}
	return n, nil
}

// installed is what is known of a compiler.
type installed struct {
	Identity string   // "" if it isn't understood
	Dirs     []string // where it looks for headers by itself
	GCH      bool
	// Files that it is made of, directories where it would find others, and links that
	// lead to them, with their states.
	Files []compilerFile
}

type compilerFile struct{ Path, State string }

// identify finds out what the compiler of a unit is. It says why it isn't known.
func (c *cache) identify(ctx context.Context, u *unit) string {
	path, err := exec.LookPath(u.compiler)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "the compiler isn't found"
	}
	b := frame.New("compiler 5")
	b.String(path)
	b.String(os.Getenv("PATH"))
	b.Flag(u.cxx)
	b.Strings(u.search)
	for _, w := range u.search {
		// Such as --sysroot: here it is another one than elsewhere.
		if a := w[strings.LastIndexByte(w, '=')+1:]; a != "" && !filepath.IsAbs(a) {
			if _, err := os.Stat(a); err == nil {
				dir, err := os.Getwd()
				if err != nil {
					return "the compiler may be another one in each directory"
				}
				b.String(dir)
			}
		}
	}
	file := c.path("compilers", fmt.Sprintf("%x", b.Sum128()))
	x := &installed{}
	if b, err := os.ReadFile(file); err != nil || json.Unmarshal(b, x) != nil || !x.current() {
		if x, err = inspect(ctx, path, u); err != nil {
			return "the compiler isn't there"
		}
		if b, err := json.Marshal(x); err == nil {
			c.write(file, b)
		}
	}
	if x.Identity == "" {
		return "the compiler isn't understood"
	}
	u.dirs = append(u.dirs, x.Dirs...)
	u.warns = u.warns || !x.GCH // clang warns of empty bodies unasked
	u.gch, u.clang = x.GCH, !x.GCH
	if !slices.ContainsFunc(u.search, func(a string) bool { return beginsWithOne(a, elsewhere) }) {
		u.own = slices.DeleteFunc(slices.Clone(x.Dirs), func(d string) bool { return !ownDir.MatchString(d) })
	}
	u.setKey(filepath.Base(path) + " " + x.Identity)
	return ""
}

func (x *installed) current() bool {
	return len(x.Files) > 0 && !slices.ContainsFunc(x.Files, func(f compilerFile) bool {
		s, err := stamp.At(f.Path)
		return err != nil || s.Exact() != f.State
	})
}

// ownDir matches directories of headers that come with a compiler, unless one of
// elsewhere has it look in others.
var (
	ownDir    = lazyregexp.New(`/(c\+\+|lib/gcc|lib/clang)/`)
	elsewhere = []string{"--sysroot", "-nostdinc", "--gcc-toolchain", "-gcc-toolchain"}
)

// inspection is a look at a compiler.
type inspection struct {
	installed
	path    string
	search  []string // as in unit
	files   []string // that it is made of
	watched []string
	version string
	odd     bool // it isn't understood
}

// inspect asks a compiler where it looks for headers, and hashes the programs and
// libraries that it consists of.
func inspect(ctx context.Context, path string, u *unit) (*installed, error) {
	x := &inspection{path: path, search: u.search, files: []string{path}, watched: slices.Clone(placesOfHeaders), odd: !compiler.IsDriver(path)}
	if err := x.askForHeaders(ctx, u.cxx); err != nil {
		return nil, err
	}
	if x.odd || len(x.Dirs) == 0 || x.version == "" {
		err := x.follow(path)
		return &x.installed, err
	}
	if err := x.askForPrograms(ctx); err != nil {
		return nil, err
	}
	if x.GCH {
		if err := x.askForPlaces(ctx); err != nil {
			return nil, err
		}
	}
	for _, d := range x.Dirs {
		x.watched = append(x.watched, d, d+"/..") // what isn't there isn't printed
	}
	identity, err := x.hash()
	if err != nil {
		return nil, err
	}
	for _, d := range x.watched {
		if err := x.watch(d); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(x.Files, func(a, b compilerFile) int { return strings.Compare(a.Path+a.State, b.Path+b.State) })
	x.Files = slices.Compact(x.Files)
	if !x.odd {
		x.Identity = identity
	}
	return &x.installed, nil
}

func (x *inspection) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, x.path, append(slices.Clone(x.search), args...)...)
}

// askForHeaders reads where the compiler looks for headers, and what it says of itself on the way.
func (x *inspection) askForHeaders(ctx context.Context, cxx bool) error {
	language := "c"
	if cxx {
		language = "c++"
	}
	cmd := x.command(ctx, "-v", "-E", "-x", language, "/dev/null")
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return err
	}
	listed := false
	for line := range strings.Lines(said.String()) {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(text, "#include ") && strings.HasSuffix(text, "search starts here:"):
			listed = true
		case strings.HasPrefix(text, "End of search list"):
			listed = false
		case listed && strings.HasPrefix(line, " "):
			x.Dirs = append(x.Dirs, text)
		case strings.HasPrefix(text, "ignoring nonexistent directory "):
			x.Dirs = append(x.Dirs, strings.Trim(strings.TrimPrefix(text, "ignoring nonexistent directory "), `"`))
		case strings.HasPrefix(text, "Configuration file: "), strings.HasPrefix(text, "Reading specs from "):
			x.odd = true // flags that aren't known
		case strings.HasPrefix(text, "COLLECT_GCC="):
			x.odd = x.odd || text != "COLLECT_GCC="+x.path // it runs another one
		case strings.HasPrefix(text, "gcc version "):
			x.GCH = true
			x.version = text
		case strings.Contains(text, "clang version "):
			x.version = text
		case strings.HasPrefix(text, "InstalledDir: "):
			dir := strings.TrimPrefix(text, "InstalledDir: ")
			x.files = append(x.files, dir) // where configuration files are
			x.watched = append(x.watched, dir+"/../include/c++", dir+"/../lib/clang")
		case strings.HasPrefix(text, "System configuration file directory: "), strings.HasPrefix(text, "User configuration file directory: "):
			_, dir, _ := strings.Cut(text, ": ")
			x.watched = append(x.watched, dir)
		case strings.HasPrefix(text, "Found candidate GCC installation: "):
			// The newest is taken, and is asked for headers.
			dir := filepath.Dir(strings.TrimPrefix(text, "Found candidate GCC installation: "))
			x.files = append(x.files, dir, filepath.Dir(dir))
		case strings.Contains(text, " -cc1 ") && filepath.IsAbs(linkflags.Split(text)[0]):
			a, err1 := filepath.EvalSymlinks(linkflags.Split(text)[0])
			b, err2 := filepath.EvalSymlinks(x.path)
			x.odd = x.odd || err1 != nil || err2 != nil || a != b
		}
	}
	return nil
}

// askForPrograms finds the programs that the compiler runs.
func (x *inspection) askForPrograms(ctx context.Context) error {
	for _, program := range []string{"cc1", "cc1plus", "as"} {
		out, err := x.command(ctx, "-print-prog-name="+program).Output()
		if err != nil {
			return err
		}
		name := strings.TrimSpace(string(out))
		p, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		x.files = append(x.files, p)
		x.odd = x.odd || x.GCH && !isProgram(p)
		if strings.Contains(name, "/") {
			continue
		}
		// One that comes to be in front of it is taken.
		for _, d := range filepath.SplitList(os.Getenv("PATH")) {
			if filepath.Join(d, name) == p {
				break
			}
			if info, err := os.Stat(d); err == nil && info.IsDir() && filepath.IsAbs(d) {
				x.watched = append(x.watched, d)
			}
		}
	}
	return nil
}

// askForPlaces finds where specs and programs may come to be.
func (x *inspection) askForPlaces(ctx context.Context) error {
	cmd := x.command(ctx, "-print-search-dirs")
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		_, dirs, _ := strings.Cut(strings.TrimSpace(line), ": =")
		x.watched = append(x.watched, filepath.SplitList(dirs)...)
	}
	return nil
}

// hash returns the hash of the version and of all files, with their libraries.
func (x *inspection) hash() (string, error) {
	id := frame.New("compiler")
	id.String(x.version)
	seen := map[string]bool{}
	files := x.files
	for i := 0; i < len(files); i++ {
		if seen[files[i]] {
			continue
		}
		seen[files[i]] = true
		real, err := filepath.EvalSymlinks(files[i])
		if err == nil {
			err = x.follow(files[i]) // before it is read
		}
		if err != nil {
			return "", err
		}
		if seen["real "+real] {
			continue
		}
		seen["real "+real] = true
		if info, err := os.Stat(real); err == nil && info.IsDir() {
			continue
		}
		sum, err := hashFile(real)
		if err != nil {
			return "", err
		}
		id.Uint(sum)
		files = append(files, libraries(real)...)
	}
	return fmt.Sprintf("%x", id.Sum128()), nil
}

// placesOfHeaders are directories in which compilers look for installations of others, whose
// headers they take, and what says where a loader looks for libraries.
var placesOfHeaders = []string{"/etc/ld.so.cache", "/usr/include/c++", "/usr/lib/gcc", "/usr/lib/gcc-cross", "/usr/local/lib/gcc", "/opt/rh"}

// watch notes what may come to be at path: the nearest directory that is there.
func (x *installed) watch(path string) error {
	for {
		err := x.follow(path)
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) || path == "/" {
			return err
		}
		path = filepath.Dir(path)
	}
}

// follow notes what a path leads to, and the links on the way.
func (x *installed) follow(path string) error {
	if !filepath.IsAbs(path) {
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		path = dir + "/" + path
	}
	// Not cleaned: "/bin/.." is "/usr", where "/bin" is a link.
	real, s, err := stamp.Trail{}.Follow(path, func(place string, s stamp.Stamp) {
		if s.IsLink() {
			x.Files = append(x.Files, compilerFile{place, s.Exact()})
		}
	})
	if err == nil && real == "" {
		real = "/"
		s, err = stamp.At(real)
	}
	if err == nil {
		x.Files = append(x.Files, compilerFile{real, s.Exact()})
	}
	return err
}

// isProgram tells whether a part of a compiler is no script, which may do anything.
func isProgram(path string) bool {
	f, err := elf.Open(path)
	if err == nil {
		f.Close()
	}
	return err == nil
}

// libraries returns all files that may be libraries of a program: those that its loader says it would load,
// and those of the names that it asks for, wherever they are found.
func libraries(program string) (files []string) {
	f, err := elf.Open(program)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.ImportedLibraries()
	dirs := []string{filepath.Dir(program), filepath.Join(filepath.Dir(program), "..", "lib"), "/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib"}
	for _, d := range []string{"/lib", "/usr/lib"} {
		triples, _ := filepath.Glob(d + "/*-linux-*")
		dirs = append(dirs, triples...)
	}
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		l, _ := f.DynString(tag)
		for _, x := range l {
			for _, d := range filepath.SplitList(x) {
				dirs = append(dirs, strings.ReplaceAll(d, "$ORIGIN", filepath.Dir(program)))
			}
		}
	}
	if slices.ContainsFunc(f.Progs, isForGlibc) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, program)
		cmd.Dir = os.TempDir()
		cmd.Env = append(os.Environ(), "LD_TRACE_LOADED_OBJECTS=1") // ld.so(8): it loads, and runs nothing
		out, _ := cmd.Output()
		for word := range strings.FieldsSeq(string(out)) {
			if filepath.IsAbs(word) {
				files = append(files, word)
			}
		}
	}
	for _, n := range names {
		for _, d := range dirs {
			if p := filepath.Join(d, n); isFile(p) {
				files = append(files, p)
			}
		}
	}
	return files
}

// isForGlibc tells of a part of a program whether it names the loader of glibc. Others may run the program.
func isForGlibc(p *elf.Prog) bool {
	if p.Type != elf.PT_INTERP || p.Filesz > 4096 {
		return false
	}
	name, err := io.ReadAll(p.Open())
	return err == nil && bytes.HasPrefix(name[bytes.LastIndexByte(name, '/')+1:], []byte("ld-linux"))
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func hashFile(path string) (uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	h := xxhash.New()
	_, err = io.Copy(h, f)
	return h.Sum64(), err
}
