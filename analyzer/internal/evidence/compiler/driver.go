package compiler

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
)

// Texts in the drivers of gcc and clang only: gcc's specs of C, and clang's message about unknown tools.
const (
	gccDriver   = "%(cpp_unique_options)"
	clangDriver = "Valid tools include '-cc1'"
)

// IsDriver reports whether a file is a driver of gcc or clang itself. A script or program that runs one isn't:
// it may change the compilation, whatever it prints.
func IsDriver(file string) bool { return hasText(file, gccDriver, clangDriver) }

// IsCompiler reports whether a program only compiles: it is a driver, or a known wrapper script.
func IsCompiler(file string) bool {
	return IsDriver(file) || IsDriver(wrappedCompiler(file))
}

// wrappers are digests of the commands of Bazel's cc_wrapper.sh (linux_cc_wrapper.sh.tpl), with
// "%{cc}" for the compiler: as rules_cc and Bazel have it since Bazel 7, and since rules_cc 0.2.9.
var wrappers = []string{
	"e60b91d257702a5c74fe4f1d9c85c4127e62b1532b90032b5982e4816d4f607b",
	"6aa672deb97e1eb274fa835bb925f17ca382443400805272efa3a957751cf331",
}

// The parts that differ between copies of cc_wrapper.sh.
var (
	shell = lazyregexp.New(`^#!(/bin/bash|/bin/sh|/usr/bin/env bash)\n`)
	calls = lazyregexp.New(`(?m)^(/[\w./+@-]+) "\$@"$`)
)

// wrappedCompiler returns the compiler that a known wrapper script runs, or "".
func wrappedCompiler(script string) string {
	f, err := os.Open(script)
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 1 << 16
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil || len(b) == most {
		return ""
	}
	text := string(b)
	m := calls.FindStringSubmatch(text)
	if m == nil || !shell.MatchString(text) || os.Getenv("BASH_ENV") != "" {
		return ""
	}
	if slices.Contains(wrappers, digestOf(text, m[1])) {
		return m[1]
	}
	return ""
}

// digestOf returns the digest of a script's commands without the name of the compiler.
func digestOf(script, compiler string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(commands(strings.ReplaceAll(script, compiler, "%{cc}")))))
}

// commands returns the lines of a script without comments and indentation.
func commands(script string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(script, "\n") {
		if line = strings.Trim(line, " \t"); line != "" && line[0] != '#' {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// hasText reports whether one of the texts is among the constants of an ELF program.
func hasText(program string, texts ...string) bool {
	f, err := elf.Open(program)
	if err != nil {
		return false
	}
	defer f.Close()
	for _, s := range f.Sections {
		if strings.HasPrefix(s.Name, ".rodata") && s.Type == elf.SHT_PROGBITS && s.Flags&(elf.SHF_ALLOC|elf.SHF_EXECINSTR|elf.SHF_WRITE) == elf.SHF_ALLOC && contains(s.Open(), texts) {
			return true
		}
	}
	return false
}

// contains reports whether a stream has one of texts, of less than 64 bytes each. It reads in pieces, because a
// compiler may be large.
func contains(r io.Reader, texts []string) bool {
	b := make([]byte, 0, 1<<18)
	for {
		n, err := io.ReadFull(r, b[len(b):cap(b)])
		b = b[:len(b)+n]
		found := slices.ContainsFunc(texts, func(t string) bool { return bytes.Contains(b, []byte(t)) })
		if found || err != nil {
			return found
		}
		b = append(b[:0], b[len(b)-64:]...)
	}
}
