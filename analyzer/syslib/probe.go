package syslib

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
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

	"github.com/rules-tasting/rules_tasting/analyzer/linkflags"
)

// Linker is a driver that links, and where it is run.
type Linker struct {
	Path string
	Dir  string   // what names of files are relative to
	Env  []string // nil means that of this process
}

// Probe is what a driver and its linker take from the system for a link.
type Probe struct {
	// Files are the files that the linker opens: start files, runtime libraries
	// of the compiler, libraries that flags name, linker scripts behind them. In
	// the order of the link, each one once.
	Files []Library
	// Linker is the linker's own name and version, and the flags that it gets,
	// without directories.
	Linker []string
	// AsNeeded says that the driver asks for --as-needed by itself.
	AsNeeded bool
	// Lines are the lines that were probed, see Covers.
	Lines []string
	// Symbols are what the files of the first line define for others, sorted: a
	// program can't use what only its libraries are linked with.
	Symbols []string

	program string
	files   []string
}

// Probe finds out what links by some lines take from the system: of a program,
// then of the shared libraries that it is linked with. It links, in the directory
// tmp, a program that does nothing by each of them. What the driver adds to a line
// is known to nobody else: it differs with its version, its configuration and
// nearly every flag.
func (x Linker) Probe(ctx context.Context, tmp string, lines ...*linkflags.Line) (*Probe, error) {
	p := &Probe{program: filepath.Join(tmp, "probe")}
	source, object := filepath.Join(tmp, "probe.c"), filepath.Join(tmp, "probe.o")
	if err := os.WriteFile(source, []byte("int main(void) { return 0; }\n"), 0o666); err != nil {
		return nil, err
	}
	var compiled []string
	first := 0 // files of the first line
	for i, l := range lines {
		if p.Covers(l) {
			continue
		}
		p.Lines = append(p.Lines, digest(l))
		compile, flags := l.Probe()
		if compile = append([]string{"-fPIC"}, compile...); !slices.Equal(compile, compiled) {
			if out, err := x.run(ctx, slices.Concat(compile, []string{"-c", source, "-o", object})); err != nil {
				return nil, fmt.Errorf("%w\n%s", err, out)
			}
			compiled = compile
		}
		program := p.program
		if i > 0 {
			program += "2"
		}
		if err := p.link(ctx, x, object, program, flags); err != nil {
			return nil, err
		}
		if i == 0 && l.Shared {
			// A program, to see what the loader makes of the libraries.
			flags = slices.DeleteFunc(flags, func(w string) bool { return w == "-shared" || w == "-Wl,--shared" })
			if err := p.link(ctx, x, object, program, flags); err != nil {
				return nil, err
			}
		}
		if i == 0 {
			first = len(p.files)
		}
	}
	for i, f := range p.files {
		sum, err := hashFile(f)
		if err != nil {
			return nil, err
		}
		file := Library{filepath.Base(f), sum}
		if !slices.Contains(p.Files, file) {
			p.Files = append(p.Files, file)
			if i < first {
				p.Symbols = append(p.Symbols, definitions(f)...)
			}
		}
	}
	slices.Sort(p.Symbols)
	p.Symbols = slices.Compact(p.Symbols)
	return p, nil
}

// Covers tells whether p knows what links by some lines take from the system.
func (p *Probe) Covers(lines ...*linkflags.Line) bool {
	for _, l := range lines {
		if !slices.Contains(p.Lines, digest(l)) {
			return false
		}
	}
	return true
}

// digest is what identifies a line for a probe.
func digest(l *linkflags.Line) string {
	compile, link := l.Probe()
	sum := sha256.Sum256([]byte(strings.Join(compile, "\x00") + "\x00\x00" + strings.Join(link, "\x00")))
	return hex.EncodeToString(sum[:])
}

func (x Linker) run(ctx context.Context, args []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, x.Path, args...)
	cmd.Dir = x.Dir
	if x.Env != nil {
		cmd.Env = x.Env
	}
	// For the messages that are read.
	cmd.Env = append(cmd.Environ(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("it can't be told with which libraries of the system it is linked: %s %s: %w", x.Path, strings.Join(args, " "), err)
	}
	return out, err
}

// link links an object to a program and adds what there is to see to p.
func (p *Probe) link(ctx context.Context, x Linker, object, program string, flags []string) error {
	list := program + ".d"
	args := slices.Concat([]string{object}, flags, []string{
		"-o", program, "-Xlinker", "--dependency-file=" + list, "-Wl,--unresolved-symbols=ignore-all,--allow-multiple-definition",
	})
	out, err := x.run(ctx, append(args, "-v", "-Wl,-v"))
	if err != nil {
		if out, err2 := x.run(ctx, args); err2 != nil { // without so many words
			return fmt.Errorf("%w\n%s", err2, out)
		}
		return fmt.Errorf("%w\n%s", err, out)
	}
	if err := p.command(out, object); err != nil {
		return fmt.Errorf("it can't be told how %s links: %w\n%s", x.Path, err, out)
	}
	b, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	for _, f := range dependencies(string(b)) {
		if !filepath.IsAbs(f) {
			f = filepath.Join(x.Dir, f)
		}
		if f = filepath.Clean(f); f != filepath.Clean(object) && !slices.Contains(p.files, f) {
			p.files = append(p.files, f)
		}
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

var directory = regexp.MustCompile(`([=,]|^)[^=,]*/`)

var version = regexp.MustCompile(`^(GNU (ld|gold)|.*LLD|mold)\b.*\d`)

// command reads how the driver called the linker for object from what it said.
func (p *Probe) command(out []byte, object string) error {
	var call []string
	name := ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, " ") && strings.Contains(line, object):
			call = linkflags.Split(line)
		case name == "" && version.MatchString(line):
			name = line
		}
	}
	if len(call) == 0 || name == "" {
		return errors.New("it doesn't show its linker")
	}
	p.Linker = append(p.Linker, name)
	l := linkflags.ParseLinker(slices.DeleteFunc(call[1:], func(w string) bool {
		// Names of temporary files.
		return strings.HasPrefix(w, "-plugin-opt=")
	}), linkflags.Options{})
	for _, f := range l.Flags {
		if strings.HasPrefix(f, "-Wl,--dynamic-linker=") { // a place on the machine that runs it
			p.Linker = append(p.Linker, f)
		} else if !strings.HasPrefix(f, "-L") {
			p.Linker = append(p.Linker, directory.ReplaceAllString(f, "$1"))
		}
	}
	for _, item := range l.Items {
		if item.Name == object {
			p.AsNeeded = p.AsNeeded || item.AsNeeded == linkflags.Yes
		}
		// Libraries that the driver itself asks for, and how.
		p.Linker = append(p.Linker, strings.TrimSpace(filepath.Base(item.Name)+" "+item.State.String()))
	}
	return nil
}

// Loaded returns what the loader takes, on this machine, for a program that needs
// all shared libraries of the link.
func (p *Probe) Loaded(getenv func(string) string) ([]Library, error) {
	r := &resolver{getenv: getenv, systemDirs: systemDirs}
	for _, f := range p.files {
		if name := soname(f); name != "" {
			r.extra = append(r.extra, name)
		}
	}
	if err := r.resolve(p.program); err != nil {
		return nil, fmt.Errorf("unknown shared libraries: %w", err)
	}
	r.hash = slices.DeleteFunc(r.hash, func(n named) bool { return n.name == Static })
	return r.libraries()
}

// soname is the name under which the loader knows a shared library, or "".
func soname(file string) string {
	f, err := elf.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	if l, err := f.DynString(elf.DT_SONAME); err == nil && len(l) == 1 {
		return l[0]
	}
	return ""
}

// probeFormat is the version of the file format of a Probe.
const probeFormat = 2

// probeFile is the file of a Probe, or says why there is none.
type probeFile struct {
	Format   int          `json:"format"`
	Unknown  string       `json:"unknown,omitempty"`
	Linker   []string     `json:"linker,omitempty"`
	AsNeeded bool         `json:"as_needed,omitempty"`
	Lines    []string     `json:"lines,omitempty"`
	Files    []linkedFile `json:"files,omitempty"`
	Symbols  []byte       `json:"symbols,omitempty"` // zstd, one on each line
}

type linkedFile struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// Write writes what counts of p to a file. If p is nil, the file says why it is
// unknown: then the program that is linked has to count with its content.
func (p *Probe) Write(file string, unknown error) error {
	f := probeFile{Format: probeFormat}
	if p == nil {
		f.Unknown = unknown.Error()
	} else {
		f.Linker, f.AsNeeded, f.Lines = p.Linker, p.AsNeeded, p.Lines
		symbols, err := pack(p.Symbols)
		if err != nil {
			return err
		}
		f.Symbols = symbols
		for _, x := range p.Files {
			f.Files = append(f.Files, linkedFile{x.Name, hex.EncodeToString(x.SHA256[:])})
		}
	}
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o666)
}

// ReadProbe reads the file that Write has written. It returns nil if that says
// that nothing is known.
func ReadProbe(file string) (*Probe, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var f probeFile
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if f.Format != probeFormat {
		return nil, fmt.Errorf("%s: format %d, this tasting reads format %d: build it again with one version of tasting", file, f.Format, probeFormat)
	}
	if f.Unknown != "" {
		return nil, nil
	}
	p := &Probe{Linker: f.Linker, AsNeeded: f.AsNeeded, Lines: f.Lines}
	for _, x := range f.Files {
		sum, err := hex.DecodeString(x.SHA256)
		if err != nil || len(sum) != sha256.Size {
			return nil, fmt.Errorf("%s: %s: %q is not a SHA-256 in hex", file, x.Name, x.SHA256)
		}
		p.Files = append(p.Files, Library{x.Name, [32]byte(sum)})
	}
	if p.Symbols, err = unpack(f.Symbols); err != nil {
		return nil, fmt.Errorf("%s: symbols: %w", file, err)
	}
	if len(p.Linker) == 0 {
		return nil, fmt.Errorf("%s: no linker", file)
	}
	return p, nil
}
