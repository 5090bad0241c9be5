// Package compiler knows gcc and clang from the outside: the meaning of their command lines (invocation.go),
// their output under -v (compiler.go), and which programs are compilers (driver.go).
//
// A flag acts on the text, on code, or on neither, by a table of names and prefixes. Any other flag may do
// anything: then the text, and clang's tree of it, don't determine the object.
package compiler

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
)

// Compiler is the description that a compiler prints of itself under -v.
type Compiler struct {
	// Identity is its version, target and configuration, without paths of its installation.
	Identity string
	// Clang is true for clang, false for gcc.
	Clang  bool
	major  int
	target string
	// Flags are the flags of the compiler proper that its driver, or a wrapper script, derives from the
	// command line and the environment.
	Flags []string
	// doubt is the first of them whose effect the syntax tree may not show.
	doubt string
}

// ErrNoCompiler is wrapped by the error of a compiler that can't be started.
var ErrNoCompiler = errors.New("can't be started; install it, or name another one")

// versionLine matches "gcc version 16.2.0 (Debian 16.2.0-3)" and "Debian clang
// version 21.1.8 (13)", but no line of cc1's own banner, which names paths.
var versionLine = lazyregexp.New(`^(?:[A-Za-z]+ )?(gcc|clang) version ([0-9]+)`)

// Identify parses the output of a compiler under -v.
func Identify(path, printed string) (*Compiler, error) {
	c := &Compiler{}
	var id []string
	for _, line := range strings.Split(printed, "\n") {
		line = strings.TrimSpace(line)
		if m := versionLine.FindStringSubmatch(line); m != nil {
			c.Clang = m[1] == "clang"
			c.major, _ = strconv.Atoi(m[2])
		}
		switch {
		case strings.HasPrefix(line, "Configuration file: "):
			// A configuration file adds flags.
			if b, err := os.ReadFile(strings.TrimPrefix(line, "Configuration file: ")); err == nil {
				sum := sha256.Sum256(b)
				id = append(id, "configuration "+hex.EncodeToString(sum[:]))
			}
		case strings.HasPrefix(line, "Configured with: "):
			// It sets defaults, such as position independence.
			sum := sha256.Sum256([]byte(line))
			id = append(id, "configured "+hex.EncodeToString(sum[:8]))
		case strings.HasPrefix(line, "Target: "):
			c.target = strings.TrimPrefix(line, "Target: ")
			id = append(id, line)
		case versionLine.MatchString(line), strings.HasPrefix(line, "Thread model:"):
			id = append(id, line)
		case strings.HasPrefix(line, "Reading specs from "):
			c.doubt = "-specs"
		case strings.HasPrefix(line, "COLLECT_GCC_OPTIONS="):
			// With flags of a wrapper that the preprocessor doesn't get.
			for _, a := range words.Split(strings.TrimPrefix(line, "COLLECT_GCC_OPTIONS=")) {
				if strings.HasPrefix(a, "-") && (lookup(a).class == unknown || refuses(a)) {
					c.doubt = cmp.Or(c.doubt, a)
				}
			}
		case strings.Contains(line, "/cc1 -E ") || strings.Contains(line, " -cc1 "):
			c.readProper(words.Split(line))
		}
	}
	c.Identity = strings.Join(id, "; ")
	if c.major == 0 || c.target == "" {
		return nil, fmt.Errorf("compiler %s: it prints no version under -v; only gcc and clang are supported", path)
	}
	return c, nil
}

// properExact and properPrefixes are the table of flags that drivers pass to the compiler proper for a plain
// command line, besides those of their own.
var properExact, properPrefixes = table(map[class]string{
	text: `-internal-isystem_ -internal-externc-isystem_ -resource-dir_ -fgnuc-version=* -fskip-odr-check-in-gmf`,
	code: `-triple_ -target-cpu_ -tune-cpu_ -target-feature_ -target-abi_ -mrelocation-model_ -pic-level_ -pic-is-pie -mframe-pointer=* -mcmodel=* -mlarge-data-threshold=*
		-disable-red-zone -stack-protector_ -funwind-tables=* -fno-rounding-math -relaxed-aliasing -complex-range=* -fhalf-no-semantic-interposition -mconstructor-aliases -function-alignment_
		-fdirect-access-external-data -fno-direct-access-external-data -fallow-half-arguments-and-returns -fno-signed-char
		-march=* -mtune=* -fmath-errno -ffp-contract=*`,
	quiet: `-quiet -disable-free -clear-ast-before-backend -disable-llvm-verifier -discard-value-names -main-file-name_ -debugger-tuning=* -debug-info-kind=*
		-dwarf-version=* -fcoverage-compilation-dir=* -ferror-limit_ -fmessage-length_ -mthread-model_ -munwind-tables -split-dwarf-file_
		-split-dwarf-output_ -ggnu-pubnames`,
})

// readProper reads the command line of the compiler proper.
func (c *Compiler) readProper(args []string) {
	native := slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--param") || a == "l1-cache-size" })
	for i := 1; i < len(args); i++ {
		a := args[i]
		if a == "-cc1" || !strings.HasPrefix(a, "-") {
			continue
		}
		f := find(properExact, properPrefixes, a)
		if f.class == unknown {
			f = lookup(a)
		}
		words := f.words(args[i:])
		i += len(words) - 1
		if refuses(a) {
			f.class = unknown
		}
		switch {
		case f.class == code:
		case !c.Clang && native && (strings.HasPrefix(a, "-m") || strings.HasPrefix(a, "--param")):
			// The meaning of "native".
		case f.class == unknown || f.class == emission:
			c.doubt = cmp.Or(c.doubt, strings.Join(words, " "))
		default:
			continue
		}
		c.Flags = append(c.Flags, "cc1:"+strings.Join(words, " "))
	}
}

// Doubt returns why the compiler may compile plain C in another way than the syntax tree says, or "".
func (c *Compiler) Doubt() string {
	switch {
	case c.doubt != "":
		return "flag " + c.doubt + " of the compiler proper"
	case c.major < 10, c.Clang && c.major < 11:
		return "tentative definitions are common"
	case !knownTargets.MatchString(c.target):
		// Others compute with excess precision, or aren't ELF.
		return "target " + c.target
	}
	return ""
}

var knownTargets = lazyregexp.New(`^(x86_64|aarch64)-([a-z0-9_]+-)?linux(-gnu|-musl)?$`)

// effective returns the flags of the command line, and those of the compiler proper.
func (c *Compiler) effective(inv *Invocation) []string {
	all := slices.Clone(inv.Code)
	for _, f := range c.Flags {
		all = append(all, strings.TrimPrefix(f, "cc1:"))
	}
	return all
}

// DumpFlags returns the flags for clang to parse the unit's text as the build's compiler does.
func (c *Compiler) DumpFlags(inv *Invocation) []string {
	out := []string{"--target=" + c.target}
	standard := false
	for _, a := range c.effective(inv) {
		if parses(a) {
			out = append(out, a)
			standard = standard || strings.Contains(a, "std=") || a == "-ansi"
		}
	}
	if !standard {
		out = append(out, c.standard())
	}
	return out
}

// standard returns the default language of a compiler.
func (c *Compiler) standard() string {
	switch {
	case c.Clang && c.major < 11, !c.Clang && c.major < 8:
		return "-std=gnu11"
	case c.Clang || c.major < 15:
		return "-std=gnu17"
	}
	return "-std=gnu23"
}
