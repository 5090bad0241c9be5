package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// FileReport is the cost of one file with one compiler of the build.
type FileReport struct {
	File      string `json:"file"`
	Compiler  string `json:"compiler"`
	Generated bool   `json:"generated,omitempty"` // not a real program
	CXX       bool   `json:"cxx,omitempty"`

	Compile    Times `json:"compile"`    // COMPILER -O0 -c, as fastbuild does
	Object     Times `json:"object"`     // tasting object
	Preprocess Times `json:"preprocess"` // tasting preprocess
	Analyze    Times `json:"analyze"`    // tasting analyze

	// ObjectCPU is reading the object, over compile.
	ObjectCPU float64 `json:"object_cpu"`
	// Plain is set if the source is plain C. Only then the following fields are set.
	Plain bool `json:"plain"`
	// Analysis is preprocess and analyze, over compile.
	AnalysisCPU  float64 `json:"analysis_cpu"`
	AnalysisWall float64 `json:"analysis_wall"`
	// Unchanged is preprocess over compile: all that is done if the normalised
	// text hasn't changed.
	UnchangedCPU  float64 `json:"unchanged_cpu"`
	UnchangedWall float64 `json:"unchanged_wall"`
	// GoOverClang is analyze's own processor time over that of the clang that it
	// starts to dump the syntax tree.
	GoOverClang float64 `json:"go_over_clang"`
	// MemoryMB is the peak of tasting's own memory in any step.
	MemoryMB float64 `json:"memory_mb"`
}

type input struct {
	name, path string
	flags      []string
	generated  bool
}

// slow is how long the processor may work on a compilation, in seconds, before
// it is repeated less often.
const slow = 5

func measureFile(dir string, in input, compiler string, runs int) (*FileReport, error) {
	f := &FileReport{File: in.name, Compiler: compiler, Generated: in.generated, CXX: filepath.Ext(in.path) == ".cc"}
	object, unit, out, report := filepath.Join(dir, "x.o"), filepath.Join(dir, "x.tu"), filepath.Join(dir, "x.manifest"), filepath.Join(dir, "usage")
	compile := append(append([]string{compiler, "-O0"}, in.flags...), "-c", in.path, "-o", object)
	var goCPU, clangCPU float64
	for i := range runs {
		if i >= 2 && f.Compile.CPU > slow {
			break
		}
		if _, err := execute(&f.Compile, nil, compile...); err != nil {
			return nil, err
		}
		u, err := tasting(&f.Object, report, "internal", "object", "-o", out, object)
		if err != nil {
			return nil, err
		}
		f.MemoryMB = max(f.MemoryMB, u.MemoryMB)
		if f.CXX || i > 0 && !f.Plain {
			continue
		}
		if u, err = tasting(&f.Preprocess, report, append([]string{"internal", "preprocess", "-o", unit, "--"}, compile...)...); err != nil {
			return nil, err
		}
		f.MemoryMB = max(f.MemoryMB, u.MemoryMB)
		if u, err = tasting(&f.Analyze, report, "internal", "analyze", "-o", out, unit); err != nil {
			return nil, err
		}
		m, err := manifest.Read(out)
		if err != nil {
			return nil, err
		}
		if f.Plain = m.Rung == manifest.Rung_RUNG_FUNCTION; !f.Plain {
			continue
		}
		f.MemoryMB = max(f.MemoryMB, u.MemoryMB)
		if i == 0 || u.CPU < goCPU {
			goCPU = u.CPU
		}
		if i == 0 || u.Children < clangCPU {
			clangCPU = u.Children
		}
	}
	f.ObjectCPU = f.Object.CPU / f.Compile.CPU
	if !f.Plain {
		return f, nil
	}
	f.UnchangedCPU = f.Preprocess.CPU / f.Compile.CPU
	f.UnchangedWall = f.Preprocess.Wall / f.Compile.Wall
	f.AnalysisCPU = f.UnchangedCPU + f.Analyze.CPU/f.Compile.CPU
	f.AnalysisWall = f.UnchangedWall + f.Analyze.Wall/f.Compile.Wall
	f.GoOverClang = goCPU / clangCPU
	return f, nil
}

// inputs returns the files to measure: real ones from the corpora, which are
// fetched if need be, and a generated one.
func inputs(dir string) ([]input, error) {
	var in []input
	for _, c := range []struct{ corpus, files string }{
		{"zlib", "deflate.c inflate.c trees.c"},
		{"lua", "src/lvm.c src/lparser.c src/lapi.c src/lstrlib.c"},
		{"sqlite3", "sqlite3.c"},
	} {
		sources, err := fetch(c.corpus)
		if err != nil {
			return nil, err
		}
		for _, f := range strings.Fields(c.files) {
			in = append(in, input{name: c.corpus + " " + filepath.Base(f), path: filepath.Join(sources, f)})
		}
	}
	cxx, err := inputsCXX(dir)
	if err != nil {
		return nil, err
	}
	in = append(in, cxx...)
	table := filepath.Join(dir, "table.c")
	if err := writeTable(table, 500_000); err != nil {
		return nil, err
	}
	return append(in, input{name: "table of 500000", path: table, generated: true}), nil
}

// inputsCXX returns tests of {fmt} with googletest, and small users of the
// standard library.
func inputsCXX(dir string) ([]input, error) {
	fmtlib, err := fetch("fmtlib")
	if err != nil {
		return nil, err
	}
	gtest, err := fetch("googletest")
	if err != nil {
		return nil, err
	}
	flags := []string{"-std=c++17", "-w", "-I" + fmtlib + "/include", "-I" + gtest + "/googletest/include", "-I" + gtest + "/googlemock/include"}
	in := []input{
		{name: "gtest os-test.cc", path: filepath.Join(fmtlib, "test/os-test.cc"), flags: flags},
		{name: "gtest base-test.cc", path: filepath.Join(fmtlib, "test/base-test.cc"), flags: flags},
		{name: "fmtlib format.cc", path: filepath.Join(fmtlib, "src/format.cc"), flags: flags},
	}
	for name, text := range map[string]string{"containers": containers, "streams": streams} {
		file := filepath.Join(dir, name+".cc")
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			return nil, err
		}
		in = append(in, input{name: name + ".cc", path: file, flags: flags[:2]})
	}
	slices.SortFunc(in, func(a, b input) int { return strings.Compare(a.name, b.name) })
	return in, nil
}

const containers = `#include <algorithm>
#include <map>
#include <string>
#include <vector>
std::vector<std::string> words(const std::string &s) {
  std::map<std::string, int> count;
  std::string w;
  for (char c : s)
    if (c == ' ') count[w]++, w.clear(); else w += c;
  std::vector<std::string> out;
  for (auto &x : count) out.push_back(x.first);
  std::sort(out.begin(), out.end(), [&](auto &a, auto &b) { return count[a] > count[b]; });
  return out;
}
`

const streams = `#include <iostream>
#include <regex>
#include <sstream>
int matches(const std::string &s) {
  std::istringstream in(s);
  std::regex r("([a-z]+)=([0-9]+)");
  std::smatch m;
  int n = 0;
  for (std::string line; std::getline(in, line);)
    if (std::regex_match(line, m, r)) n += std::stoi(m[2]);
  std::cout << n << std::endl;
  return n;
}
`

// fetch returns the directory with the sources of the newest pinned version.
func fetch(corpus string) (string, error) {
	const script = "tools/corpus/fetch.sh"
	list, err := exec.Command(script, "--list").Output()
	if err != nil {
		return "", fmt.Errorf("%s --list: %w; start the benchmark in the root of the repository", script, err)
	}
	name := ""
	for _, f := range strings.Fields(string(list)) {
		if strings.HasPrefix(f, corpus+"@") {
			name = f
			break
		}
	}
	if name == "" {
		return "", fmt.Errorf("%s is not in tools/corpus/corpora.lock", corpus)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "rules_tasting", "bench", name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "fetch-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	fmt.Fprintln(os.Stderr, "bench: fetching", name)
	commands := []*exec.Cmd{exec.Command(script, name, tmp)}
	if corpus == "sqlite3" {
		// The amalgamation is made by sqlite's own build.
		for _, argv := range [][]string{{"./configure"}, {"make", "sqlite3.c"}} {
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Dir = tmp
			commands = append(commands, cmd)
		}
	}
	for _, cmd := range commands {
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
		}
	}
	return dir, os.Rename(tmp, dir)
}

// writeTable writes a C file that is one enormous initialiser, as generators of
// lookup tables produce.
func writeTable(file string, n int) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprintf(w, "const unsigned table[%d] = {\n", n)
	x := uint32(1)
	for range n {
		x = x*1664525 + 1013904223
		fmt.Fprintf(w, "%d,\n", x>>1)
	}
	fmt.Fprintln(w, "};")
	return w.Flush()
}
