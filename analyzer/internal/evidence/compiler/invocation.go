package compiler

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
)

// Invocation is a parsed command line of a compiler.
type Invocation struct {
	Compiler string
	Source   string
	Lang     string // "c", "c++", "asm" or "other"
	// Args are the arguments except those that choose outputs.
	Args []string
	// Code are the flags that decide about generated code.
	Code []string
	// Doubt is why the syntax tree may not show the effect of the flags, or "".
	Doubt string
}

// class is the effect of a flag.
type class uint8

const (
	unknown  class = iota // anything: the unit isn't plain
	text                  // the preprocessed text, which is hashed itself
	code                  // code, as the flag and the syntax tree say completely
	emission              // code, in a way that only an object shows
	quiet                 // neither text nor code: messages, debug information, flags of the link, -O0
	output                // the outputs
)

// flag is an entry of the table of flags.
type flag struct {
	class class
	value bool // its value is the next argument
}

// words returns the flag at the start of args with its value.
func (f flag) words(args []string) []string {
	if f.value && len(args) > 1 {
		return args[:2]
	}
	return args[:1]
}

// exact and prefixes are the table of flags. NAME stands for itself. NAME_ has its value in the next argument,
// NAME* in the same one, NAME+ in either. Any other flag is unknown.
var exact, prefixes = table(map[class]string{
	text: `-D+ -U+ -I+ -isystem+ -iquote+ -idirafter+ -isysroot+ --sysroot_ --sysroot=* -include+ -iprefix_ -iwithprefix_
		-iwithprefixbefore_ -imultilib_ -imultiarch_ -nostdinc -nostdinc++ -undef -trigraphs -x+ -stdlib=* --gcc-toolchain=* -gcc-toolchain_
		-ffile-prefix-map=* -fmacro-prefix-map=* -fcanonical-system-headers -fno-canonical-system-headers -fworking-directory
		-fno-working-directory -no-canonical-prefixes -canonical-prefixes -pthread`,
	code: `-ansi -std=* --std=* -m64 -funwind-tables -fasynchronous-unwind-tables -fPIC -fpic -fPIE -fpie` +
		both(`plt strict-aliasing omit-frame-pointer function-sections data-sections stack-protector
		stack-protector-strong stack-protector-all addrsig ident`),
	emission: `-Wwrite-strings --target=* -target_ -fno-PIC -fno-pic -fno-PIE -fno-pie
		-fvisibility=* -fcf-protection=none -ffp-contract=* -ftls-model=* -falign-functions=* -falign-loops=* -falign-jumps=* -falign-labels=*
		-fno-builtin-* -ftrivial-auto-var-init=* -fstack-reuse=*
		-march=* -mtune=* -mcpu=* -mcmodel=* -mred-zone -mno-red-zone -momit-leaf-frame-pointer -mno-omit-leaf-frame-pointer
		-msse2 -msse3 -mssse3 -msse4* -mavx* -mno-avx* -mfma -mno-fma -mbmi -mbmi2 -mno-bmi -mno-bmi2 -mpopcnt -mlzcnt -maes -mpclmul -msha
		-mf16c -mrdrnd -mrdseed -mcx16 -mmovbe -madx -mprefer-vector-width=* -mbranch-protection=none` +
		both(`semantic-interposition strict-overflow wrapv wrapv-pointer delete-null-pointer-checks optimize-sibling-calls
		common stack-protector-explicit stack-clash-protection builtin short-enums signed-char unsigned-char
		math-errno jump-tables merge-constants merge-all-constants strict-volatile-bitfields
		zero-initialized-in-bss align-functions align-loops align-jumps align-labels inline asm`),
	quiet: `-O0 -w -g* -W* -pedantic -pedantic-errors -v -pipe -Qunused-arguments -L+ -l+ -Xlinker_ -Xanalyzer_ -Wl,* -u+ -z+ -e_ -T+ -s -shared -static -static-pie
		-static-libgcc -shared-libgcc -rdynamic -pie -no-pie -nostdlib -nodefaultlibs -nostartfiles -nolibc -fuse-ld=* -fdiagnostics-* -fno-diagnostics-*
		-fcolor-diagnostics -fno-color-diagnostics -fansi-escape-codes -fcaret-diagnostics -fno-caret-diagnostics -fshow-* -fno-show-* -fmessage-length=*
		-fmax-errors=* -ferror-limit=* -ftemplate-backtrace-limit=* -fdebug-* -fno-debug-* -frandom-seed=* -frecord-gcc-switches -fno-record-gcc-switches
		-frecord-command-line -fno-record-command-line -fverbose-asm -fno-verbose-asm -fvar-tracking -fno-var-tracking -fvar-tracking-assignments
		-fno-var-tracking-assignments -feliminate-unused-debug-types -fno-eliminate-unused-debug-types -fno-crash-diagnostics -fintegrated-cc1
		-fno-integrated-cc1 -fmodule-map-file* -fmodule-name=* -fmodules-decluse -fmodules-strict-decluse -fno-cxx-modules -fno-modules`,
	output: `-c -S -E -fsyntax-only -save-temps -save-temps=* -M -MM -MD -MMD -MG -MP -MV -MF+ -MT+ -MQ+ -MJ+ -o+ --output_ --output=* -dumpbase_ -dumpdir_
		-dumpbase-ext_ --serialize-diagnostics_ -### -P -C -CC -H -fdump-* -ftime-trace -ftime-trace=* -ftime-report* -fstack-usage -fcallgraph-info*
		-gsplit-dwarf* -foptimization-record-file=*`,
	unknown: `-O* -Xclang_ -Xpreprocessor_ -Xassembler_ -Wa,* -Wp,* -mllvm_ --param+ -aux-info_ -arch_ -B+ -specs+ --specs+ -wrapper_ -imacros+
		-include-pch_ -include-pth_ -G+ -A+ -working-directory+ -Xarch_host_ -Xarch_device_ -Xopenmp-target_ -gmodules -gcc-toolchain=* -gen-*
		-fdebug-pass-* -fdebug-types-section -fdebug-info-for-profiling -fpass-plugin=* -fplugin=* -fplugin-arg-*`,
})

// both returns -fNAME and -fno-NAME for each name.
func both(names string) string {
	var b strings.Builder
	for n := range strings.FieldsSeq(names) {
		b.WriteString(" -f" + n + " -fno-" + n)
	}
	return b.String()
}

// table parses lists of flags.
func table(names map[class]string) (exact, prefixes map[string]flag) {
	exact, prefixes = map[string]flag{}, map[string]flag{}
	for c, list := range names {
		for _, n := range strings.Fields(list) {
			name := n[:len(n)-1]
			switch n[len(n)-1] {
			case '_':
				exact[name] = flag{c, true}
			case '*':
				prefixes[name] = flag{c, false}
			case '+':
				exact[name], prefixes[name] = flag{c, true}, flag{c, false}
			default:
				exact[n] = flag{c, false}
			}
		}
	}
	return exact, prefixes
}

// lookup returns the flag of an argument: itself, or its longest prefix in the table.
func lookup(a string) flag { return find(exact, prefixes, a) }

func find(exact, prefixes map[string]flag, a string) flag {
	if f, ok := exact[a]; ok {
		return f
	}
	for n := len(a); n > 1; n-- {
		if f, ok := prefixes[a[:n]]; ok {
			return f
		}
	}
	return flag{}
}

// refuses reports whether a flag turns warnings into errors.
func refuses(flag string) bool {
	return flag == "-pedantic-errors" || strings.HasPrefix(flag, "-Werror") || strings.HasPrefix(flag, "-Wfatal-errors=") || strings.HasPrefix(flag, "-Wfatal-errors-")
}

// standards are those of C. In an older or foreign one, words have another meaning.
var standards = lazyregexp.New(`^--?std=(c|gnu|iso9899:)(89|90|9x|99|11|1x|17|18|23|2x|2y|199409|1990|1999|2011|2017|2018|2024)$`)

// parses reports whether the plain flag a decides how C is parsed.
func parses(a string) bool {
	return a == "-ansi" || a == "-fno-signed-char" || strings.HasPrefix(a, "-std=") || strings.HasPrefix(a, "--std=")
}

// environment are the variables that change what a compiler does.
var environment = []string{"CCC_OVERRIDE_OPTIONS", "GCC_EXEC_PREFIX", "COMPILER_PATH", "GCC_COMPARE_DEBUG", "LD_PRELOAD"}

var languages = map[string]string{
	".c": "c", ".cc": "c++", ".cp": "c++", ".cxx": "c++", ".cpp": "c++", ".c++": "c++", ".CPP": "c++", ".C": "c++", ".ii": "c++",
	".S": "asm", ".s": "asm", ".sx": "asm", ".asm": "asm", ".i": "other", ".m": "other", ".mm": "other", ".cu": "other", ".cppm": "c++",
}

// IsSource reports whether a file's name is that of C or C++ that compiles by itself.
func IsSource(name string) bool {
	l := languages[filepath.Ext(name)]
	return l == "c" || l == "c++" || filepath.Ext(name) == ".i"
}

// ParseArgs parses argv, the command line of a compiler: program, flags and
// one source file. Response files (@FILE) are expanded.
func ParseArgs(argv []string) (*Invocation, error) {
	if len(argv) == 0 {
		return nil, errors.New("no compiler given: want -- COMPILER [flags] FILE.c")
	}
	inv := &Invocation{Compiler: argv[0]}
	args, err := inv.expand(argv[1:], 0)
	if err != nil {
		return nil, err
	}
	var sources []string
	lang, sourceLang := "none", "" // that of -x so far, and at the last source
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "-" || !strings.HasPrefix(a, "-") {
			if lang == "none" && isObject(a) {
				continue // for the linker
			}
			sources = append(sources, a)
			sourceLang = lang
			inv.Args = append(inv.Args, a)
			continue
		}
		f := lookup(a)
		words := f.words(args[i:])
		i += len(words) - 1
		if strings.HasPrefix(a, "-x") {
			lang = strings.TrimPrefix(strings.Join(words, ""), "-x")
		}
		inv.add(f.class, words)
	}
	if inv.Doubt != "" && len(sources) > 1 {
		// An unknown flag may have a value.
		sources = slices.DeleteFunc(sources, func(s string) bool { return languages[filepath.Ext(s)] == "" })
		sources = sources[max(0, len(sources)-1):]
	}
	switch len(sources) {
	case 0:
		return nil, fmt.Errorf("no source file in the command line of %s", inv.Compiler)
	case 1:
		inv.Source = sources[0]
	default:
		return nil, fmt.Errorf("more than one source file (%s, %s): analyse one translation unit at a time", sources[0], sources[1])
	}
	inv.Lang = inv.language(sourceLang)
	if inv.Source == "-" {
		inv.doubts("standard input")
	}
	for _, v := range environment {
		if os.Getenv(v) != "" {
			inv.doubts("environment variable " + v)
		}
	}
	return inv, nil
}

// add adds a flag with its value.
func (inv *Invocation) add(c class, words []string) {
	switch a := words[0]; {
	case a == "-Xclang" && len(words) == 2 && (words[1] == "-fno-cxx-modules" || words[1] == "-fmodule-map-file-home-is-cwd"):
		c = quiet // Bazel's layering_check
	case refuses(a): // only the compiler knows whether it makes an object
		c = unknown
	case strings.Contains(a, "std=") && c == code && !standards.MatchString(a):
		c = unknown
	}
	switch c {
	case output:
		return
	case unknown, emission:
		inv.doubts("flag " + words[0])
	case code:
		inv.Code = append(inv.Code, words...)
	}
	inv.Args = append(inv.Args, words...)
}

// language returns the language of the source, for which -x says x or none.
func (inv *Invocation) language(x string) string {
	switch {
	case strings.HasPrefix(x, "assembler"):
		return "asm"
	case x == "c" || x == "c++":
		return x
	case x != "none":
		return "other"
	}
	l := languages[filepath.Ext(inv.Source)]
	if (l == "c" || l == "") && strings.Contains(filepath.Base(inv.Compiler), "++") {
		return "c++"
	}
	return cmp.Or(l, "other")
}

// IncludeDirs returns the directories in which a command line looks for headers.
func IncludeDirs(argv []string) (dirs []string) {
	for i, a := range argv {
		for _, name := range []string{"-I", "-isystem", "-iquote", "-idirafter"} {
			dir, is := strings.CutPrefix(a, name)
			if is && dir == "" && i+1 < len(argv) {
				dir = argv[i+1]
			}
			if is && dir != "" {
				dirs = append(dirs, dir)
				break
			}
		}
	}
	return dirs
}

// doubts adds a reason why flags aren't plain.
func (inv *Invocation) doubts(reason string) { inv.Doubt = cmp.Or(inv.Doubt, reason) }

// CompileTo returns the command line that compiles the source to the object file name.
func (inv *Invocation) CompileTo(name string) []string {
	return append(append([]string{inv.Compiler}, inv.Args...), "-c", "-o", name)
}

// isObject reports whether a word is a file for the linker.
func isObject(a string) bool {
	return slices.Contains([]string{".o", ".a", ".so", ".lo"}, filepath.Ext(a))
}

// expand replaces response files with their arguments.
func (inv *Invocation) expand(args []string, depth int) ([]string, error) {
	var out []string
	for _, a := range args {
		name, ok := strings.CutPrefix(a, "@")
		if !ok {
			out = append(out, a)
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("response file %s: %w", name, err)
		}
		if depth > 8 {
			return nil, fmt.Errorf("response file %s: nested too deeply", name)
		}
		if bytes.ContainsAny(b, "\v\f") {
			inv.doubts("response file with characters that not all compilers take for blanks")
		}
		words := words.Split(string(b))
		if slices.Contains(words, "") || bytes.ContainsFunc(b, func(c rune) bool { return c == 0 || c >= utf8.RuneSelf }) {
			inv.doubts("response file with empty words or with other characters than ASCII's, which compilers read in several ways")
		}
		inner, err := inv.expand(words, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, inner...)
	}
	return out, nil
}
