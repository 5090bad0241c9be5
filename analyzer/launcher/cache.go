package launcher

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
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

// compiler is what is known of a compiler.
type compiler struct {
	Identity string
	Dirs     []string // where it looks for headers by itself
	GCH      bool
	// Debug says that it makes debug information unasked, as a script in its place
	// may want it.
	Debug bool
	// Files that it is made of, and directories where it would find others, with
	// their states.
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
	b := frame.New("compiler 2")
	b.String(path)
	b.String(os.Getenv("PATH"))
	b.Flag(u.cxx)
	b.Strings(u.search)
	file := c.path("compilers", fmt.Sprintf("%x", b.Sum128()))
	x := &compiler{}
	if b, err := os.ReadFile(file); err != nil || json.Unmarshal(b, x) != nil || !x.current() {
		if x, err = inspect(ctx, path, u); err != nil {
			return "the compiler isn't understood"
		}
		if b, err := json.Marshal(x); err == nil {
			c.write(file, b)
		}
	}
	u.dirs = append(u.dirs, x.Dirs...)
	u.debug = u.debug || x.Debug
	u.warns = u.warns || !x.GCH // clang warns of empty bodies unasked
	u.gch, u.clang, u.own = x.GCH, !x.GCH, x.Dirs
	u.setKey(filepath.Base(path) + " " + x.Identity)
	return ""
}

func (x *compiler) current() bool {
	return len(x.Files) > 0 && !slices.ContainsFunc(x.Files, func(f compilerFile) bool {
		s, err := stamp.Of(f.Path)
		return err != nil || s.String() != f.State
	})
}

// never are beginnings of flags of a compiler proper that a unit isn't remembered
// with, wherever they come from.
var never = []string{"-fsanitize=", "-fprofile-", "-ftest-coverage", "-coverage-", "--coverage", "-fplugin", "-load", "-save-temps", "-fmodules", "-fopenmp", "-include-pch", "-ivfsoverlay"}

// inspect asks a compiler where it looks for headers, and hashes the programs and
// libraries that it consists of.
func inspect(ctx context.Context, path string, u *unit) (*compiler, error) {
	language := "c"
	if u.cxx {
		language = "c++"
	}
	cmd := exec.CommandContext(ctx, path, append(slices.Clone(u.search), "-v", "-E", "-x", language, "/dev/null")...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	x := &compiler{}
	files := []string{path}
	listed, version := false, ""
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
		case strings.HasPrefix(text, "Configuration file: "):
			files = append(files, strings.TrimPrefix(text, "Configuration file: "))
		case strings.HasPrefix(text, "gcc version "):
			x.GCH = true
			version = text
		case strings.Contains(text, "clang version "):
			version = text
		case strings.HasPrefix(text, "InstalledDir: "):
			files = append(files, strings.TrimPrefix(text, "InstalledDir: ")) // where configuration files are
		case strings.HasPrefix(text, "Found candidate GCC installation: "):
			// The newest is taken, and is asked for headers.
			dir := filepath.Dir(strings.TrimPrefix(text, "Found candidate GCC installation: "))
			files = append(files, dir, filepath.Dir(dir))
		case strings.HasPrefix(text, "COLLECT_GCC_OPTIONS="), strings.Contains(text, " -cc1 "), strings.Contains(text, "/cc1 -E "), strings.Contains(text, "/cc1plus -E "):
			words := linkflags.Split(text)
			if filepath.IsAbs(words[0]) {
				files = append(files, words[0]) // behind a script
			}
			for _, w := range words {
				if beginsWithOne(w, never) {
					return nil, fmt.Errorf("%s has %s of its own", path, w)
				}
				x.Debug = x.Debug || strings.HasPrefix(w, "-debug-info-kind=") || strings.HasPrefix(w, "-g") && w != "-g0"
			}
		case strings.HasPrefix(text, "Reading specs from ") && !strings.Contains(text, "built-in"):
			files = append(files, strings.TrimPrefix(text, "Reading specs from "))
		}
	}
	if len(x.Dirs) == 0 || version == "" {
		return nil, fmt.Errorf("%s says neither a version nor where it looks for headers", path)
	}
	for _, program := range []string{"cc1", "cc1plus", "as"} {
		out, err := exec.CommandContext(ctx, path, append(slices.Clone(u.search), "-print-prog-name="+program)...).Output()
		if err != nil {
			return nil, err
		}
		if p, err := exec.LookPath(strings.TrimSpace(string(out))); err == nil {
			files = append(files, p)
		}
	}
	if out, err := exec.CommandContext(ctx, path, append(slices.Clone(u.search), "-print-libgcc-file-name")...).Output(); err == nil && x.GCH {
		if dir := filepath.Dir(strings.TrimSpace(string(out))); filepath.IsAbs(dir) {
			files = append(files, dir) // where specs are
		}
	}
	id := frame.New("compiler")
	id.Flag(x.Debug)
	id.String(version)
	seen := map[string]bool{}
	for i := 0; i < len(files); i++ {
		real, err := filepath.EvalSymlinks(files[i])
		if err != nil {
			return nil, err
		}
		if seen[real] {
			continue
		}
		seen[real] = true
		before, err := stamp.Of(real)
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(real); err == nil && info.IsDir() {
			x.Files = append(x.Files, compilerFile{real, before.String()})
			continue
		}
		sum, err := hashFile(real)
		if err != nil {
			return nil, err
		}
		id.Uint(sum)
		x.Files = append(x.Files, compilerFile{real, before.String()})
		files = append(files, libraries(real)...)
	}
	x.Identity = fmt.Sprintf("%x", id.Sum128())
	return x, nil
}

// libraries returns all files that may be libraries of a program: those of the
// names that it asks for, wherever they are found.
func libraries(program string) (files []string) {
	f, err := elf.Open(program)
	if err != nil {
		return nil // a script, which stands for itself
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
	for _, n := range names {
		for _, d := range dirs {
			if p := filepath.Join(d, n); isFile(p) {
				files = append(files, p)
			}
		}
	}
	return files
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
