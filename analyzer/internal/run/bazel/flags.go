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
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"google.golang.org/protobuf/encoding/protowire"
)

// Flag is what Bazel tells about one of its flags.
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
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(out)))
	if err != nil {
		return nil, fmt.Errorf("bazel help flags-as-proto: %w", err)
	}
	flags, err := readFlags(raw)
	if err == nil && file != "" {
		// What is damaged or can't be written is asked for again.
		_ = os.MkdirAll(b.Cache, 0o777)
		_ = wholefile.WriteSealed(file, raw, 0o644)
	}
	return flags, err
}

// flagsFile returns the file where the flags of this Bazel are kept, or "" if nothing
// may be kept. The program may be one that starts the release which a workspace
// asks for; and releases that a distribution builds have the names of the others.
func (b *Bazel) flagsFile(ctx context.Context) string {
	id, _ := b.identity()
	if b.Cache == "" || id == "" {
		return ""
	}
	version := b.Version(ctx)
	if version == "" {
		return ""
	}
	return filepath.Join(b.Cache, fmt.Sprintf("flags-%s-%s", version, wholefile.Checksum([]byte(id))[:16]))
}

// Version returns the release of Bazel, such as "7.7.1", or "" if the program doesn't say it. It
// is asked once. (Build events of what a distribution has built don't have it.)
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

// identity tells the program from others and earlier ones, and whether it is a script. It
// is empty if there is none.
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

// Binary tells the program from others and earlier ones, as long as it is there, or returns
// "" if it is a script: it may start Bazel with whatever flags.
func (b *Bazel) Binary() string {
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
	err := fields(raw, func(n protowire.Number, v []byte, _ uint64) error {
		if n != 1 {
			return nil
		}
		f, negative, short := &Flag{}, false, ""
		if err := fields(v, func(n protowire.Number, v []byte, x uint64) error {
			switch n {
			case 1:
				f.Name = string(v)
			case 2:
				negative = x != 0
			case 4:
				f.Commands = append(f.Commands, string(v))
			case 5:
				short = string(v)
			case 10:
				f.Value = x != 0
			}
			return nil
		}); err != nil {
			return err
		}
		if f.Name == "" {
			return errFlags
		}
		flags["--"+f.Name] = f
		if negative {
			flags["--no"+f.Name] = &Flag{Name: f.Name, Commands: f.Commands}
		}
		if short != "" {
			flags["-"+short] = f
		}
		return nil
	})
	if err != nil || len(flags) == 0 {
		return flags, errFlags
	}
	return flags, nil
}

// fields calls f for every field of a message; numbers come in x.
func fields(b []byte, f func(n protowire.Number, v []byte, x uint64) error) error {
	for len(b) > 0 {
		n, typ, k := protowire.ConsumeTag(b)
		if k < 0 {
			return protowire.ParseError(k)
		}
		b = b[k:]
		var v []byte
		var x uint64
		switch typ {
		case protowire.BytesType:
			v, k = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			x, k = protowire.ConsumeVarint(b)
		default:
			k = protowire.ConsumeFieldValue(n, typ, b)
		}
		if k < 0 {
			return protowire.ParseError(k)
		}
		b = b[k:]
		if err := f(n, v, x); err != nil {
			return err
		}
	}
	return nil
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
		known := f[name]
		if known == nil {
			l = append(l, x) // Bazel says what is wrong with it
			continue
		}
		for _, c := range known.Commands {
			if c == command {
				l = append(l, x)
				break
			}
		}
	}
	return l
}
