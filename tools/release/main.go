// Command release makes a release out of a checkout:
//
//	go run ./tools/release [-url URL] VERSION OUT
//
// OUT then has
//
//	rules_tasting-VERSION.tar.gz     the sources at HEAD, with the version and the programs named
//	tasting-VERSION-linux-CPU        the program, for each platform
//	registry/                        a Bazel registry of this one release: what goes into a pull
//	                                 request to another registry, and usable as it is
//	MODULE.bazel                     what a user writes
//
// URL is where the files of OUT will be. The same commit and the same Go make the same
// files. See CONTRIBUTING.md for the steps around it.
package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/rules-tasting/rules_tasting/tools/release/bundle"
)

// platforms are GOARCH by the names of CPUs in @platforms//cpu.
var platforms = map[string]string{"aarch64": "arm64", "x86_64": "amd64"}

func main() {
	url := flag.String("url", "", "where the files will be (default: the releases of "+bundle.Home+")")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: release [-url URL] VERSION OUT")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Arg(0), flag.Arg(1), *url); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, version, out, url string) error {
	if url == "" {
		url = bundle.Home + "/releases/download/v" + version
	}
	files, err := checkout(ctx)
	if err != nil {
		return err
	}
	r := bundle.Release{Version: version, URL: strings.TrimSuffix(url, "/"), Programs: map[string][]byte{}}
	if _, err := r.Files(files); err != nil {
		return err // before anything is built
	}
	for cpu, arch := range platforms {
		if r.Programs[cpu], err = build(ctx, arch, version); err != nil {
			return err
		}
	}
	made, err := r.Files(files)
	if err != nil {
		return err
	}
	for _, f := range made {
		name := filepath.Join(out, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(name, f.Content, os.FileMode(f.Mode)); err != nil {
			return err
		}
		fmt.Println(name)
	}
	return nil
}

// checkout returns the files at HEAD.
func checkout(ctx context.Context) ([]bundle.File, error) {
	dirty, err := output(exec.CommandContext(ctx, "git", "status", "--porcelain"))
	if err != nil {
		return nil, err
	}
	if len(dirty) > 0 {
		return nil, fmt.Errorf("the checkout has changes that aren't committed, and wouldn't be in the release:\n%s", dirty)
	}
	b, err := output(exec.CommandContext(ctx, "git", "archive", "--format=tar", "HEAD"))
	if err != nil {
		return nil, err
	}
	var files []bundle.File
	for t := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeSymlink {
			continue
		}
		content, err := io.ReadAll(t)
		if err != nil {
			return nil, err
		}
		files = append(files, bundle.File{Name: h.Name, Mode: h.Mode & 0o755, Link: h.Linkname, Content: content})
	}
}

// build returns the program for an architecture.
func build(ctx context.Context, arch, version string) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "tasting-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	program := filepath.Join(tmp, "tasting")
	const cli = "github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/cli"
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid= -X "+cli+".version="+version, "-o", program, "./analyzer/cmd/tasting")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	if _, err := output(cmd); err != nil {
		return nil, err
	}
	return os.ReadFile(program)
}

// output runs a command and returns what it prints.
func output(cmd *exec.Cmd) ([]byte, error) {
	var said bytes.Buffer
	cmd.Stderr = &said
	b, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", cmd, err, said.Bytes())
	}
	return b, err
}
