package bazel

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"google.golang.org/protobuf/encoding/protowire"
)

// Flag is a flag of Bazel.
type Flag struct {
	Name     string
	Value    bool     // it takes a value, which may be the next argument
	Commands []string // that know it
}

// Flags are the flags of a version of Bazel, by name, by negated name and by
// abbreviation.
type Flags map[string]*Flag

// Flags asks Bazel for its flags, once for each release: that takes a second of
// CPU time when the server has just been started.
func (b *Bazel) Flags(ctx context.Context) (Flags, error) {
	file := b.flagsFile(ctx)
	if raw, err := wholefile.ReadSealed(file); err == nil {
		return readFlags(raw)
	}
	out, err := b.Output(ctx, "help", "flags-as-proto")
	if err != nil {
		return nil, err
	}
	var flags Flags
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(out)))
	if err == nil {
		flags, err = readFlags(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("%s isn't Bazel: it doesn't answer \"help flags-as-proto\" as Bazel does; name Bazel with --bazel=PATH", b.Program)
	}
	if file != "" {
		// If that fails, the next call asks Bazel again.
		_ = os.MkdirAll(b.Cache, 0o777)
		_ = wholefile.WriteSealed(file, raw, 0o644)
	}
	return flags, nil
}

// flagsFile returns the file with the flags of this Bazel, or "" if nothing
// may be kept. Its name has the version, because a launcher starts a workspace's release, and
// the program's identity, because distributions build releases of the same name.
func (b *Bazel) flagsFile(ctx context.Context) string {
	id, _ := b.identity()
	version := b.Version(ctx)
	if b.Cache == "" || id == "" || version == "" {
		return ""
	}
	return filepath.Join(b.Cache, fmt.Sprintf("flags-%s-%s", version, wholefile.Checksum([]byte(id))[:16]))
}

// Version returns the release of Bazel, such as "7.7.1", or "" if the program doesn't print it. It runs the
// program once. (Build events lack the release if a distribution has built Bazel.)
func (b *Bazel) Version(ctx context.Context) string {
	if b.version == nil {
		b.version = sync.OnceValue(func() string {
			cmd := exec.CommandContext(ctx, b.Program, "--version") // starts no server
			cmd.Dir = b.Dir
			out, err := cmd.Output()
			if version := release.FindSubmatch(out); err == nil && version != nil {
				return string(version[1])
			}
			return ""
		})
	}
	return b.version()
}

// identity returns the path, size and time of the program, and whether it is a script. It returns "" if there is no
// program.
func (b *Bazel) identity() (id string, script bool) {
	program, err := exec.LookPath(b.Program)
	if err != nil {
		return "", false
	}
	f, err := os.Open(program)
	if err != nil {
		return "", false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", false
	}
	start := make([]byte, 2)
	_, err = io.ReadFull(f, start)
	return fmt.Sprint(program, info.Size(), info.ModTime().UnixNano()), err != nil || string(start) == "#!"
}

// BinaryID returns the identity of the program, or "" if it is a script, which may add flags.
func (b *Bazel) BinaryID() string {
	if id, script := b.identity(); !script {
		return id
	}
	return ""
}

var release = regexp.MustCompile(`^bazel ([0-9]+\.[0-9]+\.[0-9]+)\s*$`)

var errFlags = errors.New("bazel help flags-as-proto: not a FlagCollection")

// readFlags reads a FlagCollection (bazel_flags.proto).
func readFlags(raw []byte) (Flags, error) {
	flags := Flags{}
	infos, err := fields(raw)
	for _, info := range infos {
		if info.number != 1 {
			continue
		}
		f, negative, short := &Flag{}, false, ""
		l, err := fields(info.bytes)
		for _, x := range l {
			switch x.number {
			case 1:
				f.Name = string(x.bytes)
			case 2:
				negative = x.varint != 0
			case 4:
				f.Commands = append(f.Commands, string(x.bytes))
			case 5:
				short = string(x.bytes)
			case 10:
				f.Value = x.varint != 0
			}
		}
		if err != nil || f.Name == "" {
			return nil, errFlags
		}
		flags["--"+f.Name] = f
		if negative {
			flags["--no"+f.Name] = &Flag{Name: f.Name, Commands: f.Commands}
		}
		if short != "" {
			flags["-"+short] = f
		}
	}
	if err != nil || len(flags) == 0 {
		return flags, errFlags
	}
	return flags, nil
}

// field is a field of a message: its bytes or its varint, by its type.
type field struct {
	number protowire.Number
	bytes  []byte
	varint uint64
}

// fields returns the fields of a message, in their order.
func fields(b []byte) (l []field, err error) {
	for len(b) > 0 {
		n, typ, k := protowire.ConsumeTag(b)
		if k < 0 {
			return l, protowire.ParseError(k)
		}
		b = b[k:]
		f := field{number: n}
		switch typ {
		case protowire.BytesType:
			f.bytes, k = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			f.varint, k = protowire.ConsumeVarint(b)
		default:
			k = protowire.ConsumeFieldValue(n, typ, b)
		}
		if k < 0 {
			return l, protowire.ParseError(k)
		}
		b, l = b[k:], append(l, f)
	}
	return l, nil
}

// Split splits the arguments of a command into flags, each with its value in
// one string, and target patterns. Whatever follows "--" is a pattern.
func (f Flags) Split(args []string) (flags, patterns []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			return flags, append(patterns, args[i+1:]...)
		case len(a) < 2 || a[0] != '-':
			patterns = append(patterns, a)
		default:
			known := f[a]
			if known != nil && known.Value && i+1 < len(args) {
				i++
				flags = append(flags, "--"+known.Name+"="+args[i])
			} else if known != nil && !strings.HasPrefix(a, "--") {
				flags = append(flags, "--"+known.Name)
			} else {
				flags = append(flags, a)
			}
		}
	}
	return flags, patterns
}

// Known returns those of flags, as from Split, that a command knows. Flags of
// Starlark ("--//rules:store=x"), which all commands know that build, are among
// them.
func (f Flags) Known(command string, flags []string) []string {
	var l []string
	for _, x := range flags {
		name, _, _ := strings.Cut(x, "=")
		known := f[name] // nil if Bazel says what is wrong with it
		if known == nil || slices.Contains(known.Commands, command) {
			l = append(l, x)
		}
	}
	return l
}
