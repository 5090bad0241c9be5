// Package served has small calls of clang and lld done by copies that are loaded already: three
// quarters of what such a call costs is loading LLVM, 30 ms of 40.
package served

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed testdata/serve.c
var serveSource []byte

//go:embed testdata/call.c
var callSource []byte

// Start puts stand-ins for tools, the first of which is clang, into PATH, of which each has
// a copy of the tool forked that has been loaded before. Where that can't be had, PATH is
// as it was.
func Start(tools ...string) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, f := range stops {
			f()
		}
	}
	// A socket's name has 107 characters at most.
	dir, err := os.MkdirTemp("/tmp", "tasting-served-")
	if err != nil {
		return stop, err
	}
	stops = append(stops, func() { os.RemoveAll(dir) })
	serving, call := filepath.Join(dir, "serve.so"), filepath.Join(dir, "call")
	if err := build(serving, serveSource, "-shared", "-fPIC"); err != nil {
		return stop, err
	}
	if err := build(call, callSource, "-static"); err != nil {
		return stop, err
	}
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o777); err != nil {
		return stop, err
	}
	for _, name := range tools {
		tool, err := exec.LookPath(name)
		if err != nil {
			return stop, err
		}
		end, err := start(tool, serving, filepath.Join(bin, name+".sock"))
		if err != nil {
			return stop, fmt.Errorf("%s: %w", tool, err)
		}
		stops = append([]func(){end}, stops...)
	}
	for _, name := range tools {
		b, err := os.ReadFile(call)
		if err == nil {
			err = os.WriteFile(filepath.Join(bin, name), b, 0o777)
		}
		if err != nil {
			return stop, err
		}
	}
	if err := os.Symlink("clang", filepath.Join(bin, "clang++")); err != nil {
		return stop, err
	}
	os.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return stop, nil
}

func build(out string, source []byte, flags ...string) error {
	file := out + ".c"
	if err := os.WriteFile(file, source, 0o666); err != nil {
		return err
	}
	if b, err := exec.Command("gcc", append(flags, "-O1", "-o", out, file)...).CombinedOutput(); err != nil {
		return fmt.Errorf("gcc: %w: %s", err, b)
	}
	return nil
}

// start starts a server, which ends with its standard input.
func start(tool, serving, socket string) (stop func(), err error) {
	cmd := exec.Command(tool)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+serving, "LD_BIND_NOW=1", "SERVE_SOCKET="+socket)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		in.Close()
		cmd.Wait()
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}
