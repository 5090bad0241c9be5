package ctext

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// compiler is what is known about a compiler besides its path.
type compiler struct {
	// identity is its version, target and configuration, without any path
	// that depends on where it is installed.
	identity string
	// clang is true for clang, false for gcc and what behaves like it.
	clang bool
	// flags are those of the compiler proper that its driver, or a script in
	// its place, derives from the command line and the environment.
	flags []string
}

// ErrNoCompiler says that a compiler can't be started.
var ErrNoCompiler = errors.New("can't be started; install it, or name another one")

// identify reads what a compiler says of itself under -v.
func identify(path, output string) (*compiler, error) {
	c := &compiler{}
	var id []string
	for _, line := range strings.Split(output, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "Configuration file: "):
			// A configuration file adds flags: its content counts.
			if b, err := os.ReadFile(strings.TrimPrefix(line, "Configuration file: ")); err == nil {
				sum := sha256.Sum256(b)
				id = append(id, "configuration "+hex.EncodeToString(sum[:]))
			}
		case strings.HasPrefix(line, "Configured with: "):
			// Decides about defaults, such as position independence.
			sum := sha256.Sum256([]byte(line))
			id = append(id, "configured "+hex.EncodeToString(sum[:8]))
		case versionLine.MatchString(line), strings.HasPrefix(line, "Target:"), strings.HasPrefix(line, "Thread model:"):
			id = append(id, line)
			c.clang = c.clang || strings.Contains(line, "clang version ")
		case strings.Contains(line, "/cc1 -E ") || strings.Contains(line, "/cc1plus -E ") || strings.Contains(line, " -cc1 "):
			c.flags = append(c.flags, properFlags(SplitResponse(line))...)
		}
	}
	c.identity = strings.Join(id, "; ")
	if c.identity == "" {
		return nil, fmt.Errorf("compiler %s: it prints no version under -v; only gcc and clang are supported", path)
	}
	return c, nil
}

// properFlags returns those of the flags of a compiler proper (cc1) that can
// influence code and say nothing of places, messages and macros.
func properFlags(args []string) []string {
	var out []string
	modules := slices.ContainsFunc(args, importsModules)
	for i := 1; i < len(args); i++ {
		a := args[i]
		var value string
		if separateValue[a] || a == "-target-cpu" || a == "-target-feature" || a == "-tune-cpu" || a == "-mrelocation-model" || a == "-main-file-name" || a == "-pic-level" ||
			a == "-resource-dir" || a == "-triple" || strings.HasPrefix(a, "-internal-") || a == "-imultiarch" || a == "-stack-protector" || a == "-mframe-pointer" {
			if i+1 < len(args) {
				i++
				value = args[i]
			}
		}
		switch {
		case !strings.HasPrefix(a, "-f") && !strings.HasPrefix(a, "-m") && !strings.HasPrefix(a, "-O") && !strings.HasPrefix(a, "-t") && a != "--param" && a != "-pic-level" && a != "-stack-protector":
		case !modules && hasPrefix(a, moduleMaps):
		case a == "-main-file-name", outputs[a], hasPrefix(a, outputPrefixes), !influencesCode(a), strings.Contains(a, "/"), strings.Contains(value, "/"):
		case strings.HasPrefix(a, "-fcoverage-compilation-dir"), strings.HasPrefix(a, "-fno-color"), strings.HasPrefix(a, "-fcolor"), a == "-fworking-directory":
		case value != "":
			out = append(out, "cc1:"+a+" "+value)
		default:
			out = append(out, "cc1:"+a)
		}
	}
	return out
}

// versionLine matches "gcc version 16.2.0 (Debian 16.2.0-3)" and "Debian clang
// version 21.1.8 (13)", but no line of cc1's own banner, which names paths.
var versionLine = regexp.MustCompile(`^([A-Za-z]+ )?(gcc|clang) version [0-9]`)

// defaultStd asks a compiler for the language standard that it uses when the
// command line names none. gcc's differs from clang's and between versions.
func (c *compiler) defaultStd(ctx context.Context, inv *Invocation) (string, error) {
	cmd := exec.CommandContext(ctx, inv.Compiler, "-E", "-dM", "-x", inv.Lang, os.DevNull)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("compiler %s: can't tell its default language standard: %w", inv.Compiler, err)
	}
	macro, table := "__STDC_VERSION__", cStandards
	if inv.Lang == "c++" {
		macro, table = "__cplusplus", cxxStandards
	}
	gnu := !bytes.Contains(out, []byte("#define __STRICT_ANSI__"))
	for _, line := range strings.Split(string(out), "\n") {
		f := strings.Fields(line)
		if len(f) == 3 && f[1] == macro {
			v, _ := strconv.Atoi(strings.TrimRight(f[2], "L"))
			for _, s := range table {
				if v <= s.version {
					if gnu {
						return "-std=" + s.gnu, nil
					}
					return "-std=" + s.iso, nil
				}
			}
			return "-std=" + table[len(table)-1].gnu, nil
		}
	}
	return "-std=gnu89", nil
}

type standard struct {
	version  int
	gnu, iso string
}

var cStandards = []standard{
	{199409, "gnu89", "c89"}, {199901, "gnu99", "c99"}, {201112, "gnu11", "c11"}, {201710, "gnu17", "c17"}, {202311, "gnu23", "c23"},
}

var cxxStandards = []standard{
	{199711, "gnu++98", "c++98"}, {201103, "gnu++11", "c++11"}, {201402, "gnu++14", "c++14"}, {201703, "gnu++17", "c++17"}, {202002, "gnu++20", "c++20"}, {202302, "gnu++23", "c++23"},
}

func native(flags []string) bool {
	for _, f := range flags {
		if strings.HasPrefix(f, "-m") && strings.HasSuffix(f, "=native") {
			return true
		}
	}
	return false
}

// resolvedCPU returns what "native" means on this machine, as flags: the code
// depends on it.
func resolvedCPU(ctx context.Context, inv *Invocation) ([]string, error) {
	args := append(append([]string{}, inv.codegen...), "-E", "-###", "-x", inv.Lang, os.DevNull)
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, inv.Compiler, args...)
	cmd.Stderr = &out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("compiler %s: can't tell the CPU that 'native' stands for: %w", inv.Compiler, err)
	}
	var cpu []string
	fields := SplitResponse(out.String())
	for i, f := range fields {
		switch {
		case f == "-target-cpu" || f == "-target-feature" || f == "-tune-cpu" || f == "--param":
			if i+1 < len(fields) {
				cpu = append(cpu, "cpu:"+fields[i+1])
			}
		case strings.HasPrefix(f, "-m") && !strings.HasSuffix(f, "=native"):
			cpu = append(cpu, "cpu:"+f)
		}
	}
	return cpu, nil
}
