// Package clangtest gives tests a real clang.
package clangtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/verify/served"
)

// Main runs the tests of a package, for its TestMain, with served tools, or else with the
// tools as they are.
func Main(m *testing.M) int {
	stop, err := served.Start("clang", "ld.lld")
	if err != nil {
		fmt.Fprintln(os.Stderr, "clang is loaded at each call:", err)
	}
	defer stop()
	return m.Run()
}

// Clang returns the path of clang. Without one the test is skipped, or fails
// if TASTING_REQUIRE_CLANG is set, as it is where all tests must run.
func Clang(t testing.TB) string { return Tool(t, "clang") }

// GCC returns the path of gcc, as Clang does.
func GCC(t testing.TB) string { return Tool(t, "gcc") }

// Tool returns the path of a compiler.
func Tool(t testing.TB, name string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("TASTING_REQUIRE_CLANG") != "" {
			t.Fatalf("%s is required: %v", name, err)
		}
		t.Skipf("no %s on this machine: %v", name, err)
	}
	return p
}

// Dump returns clang's JSON dump of preprocessed C text.
func Dump(t testing.TB, text []byte) []byte {
	t.Helper()
	cmd := exec.Command(Clang(t), "-undef", "-w", "-fsyntax-only", "-Xclang", "-ast-dump=json", "-x", "cpp-output", "-")
	cmd.Stdin = bytes.NewReader(text)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("clang: %v\n%s", err, stderr.Bytes())
	}
	return out
}
