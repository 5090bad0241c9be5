package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/compiler"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/lazyregexp"
)

// unit is a compilation, as its command line says it.
type unit struct {
	compiler       string
	args           []string
	rest           []string // of args, all but what is done and what is written where
	source         string
	object, depend string
	cxx            bool
	syntax         bool     // it is only checked: there is no object
	old            bool     // C++ without raw strings, or quotes in numbers
	debug          bool     // there is debug information
	contracts      bool     // assertions of the language say where they are
	warns          bool     // it may warn of layout
	canonical      bool     // gcc may call headers by their real paths
	mapped         []string // beginnings of names of files that are called otherwise
	dates          bool     // dates and times are macros of the command line
	includes       []string // -include, as names in quotes
	defines        *scan    // of -D
	quoteDirs      []string // -iquote
	dirs           []string // all other directories, the compiler's own included
	// search are the flags that decide about the compiler's own directories.
	search []string
	// maps are the module maps that -fmodule-map-file names, home says that what
	// they name is relative to the current directory. Without -fmodules they only
	// forbid includes.
	maps []string
	home bool
	// moduleMaps are these and what they lead to, once they were read.
	moduleMaps []moduleMap
	gch        bool // the compiler may take a precompiled header
	clang      bool
	own        []string // directories of the compiler's own headers
	key        string   // in hex
}

// more are flags that read and write nothing, beside those that package compiler knows: what
// they do to code is in the key.
var more = lazyregexp.New(`^(-O[0-3sgz]?|-Ofast|-f(no-)?(rtti|threadsafe-statics|char8_t|coroutines|concepts|aligned-allocation|sized-deallocation|implicit-templates|use-cxa-atexit|strict-enums|fast-math|finite-math-only|associative-math|reciprocal-math|trapping-math|signed-zeros|unroll-loops|vectorize|tree-vectorize|slp-vectorize|inline-functions|visibility-inlines-hidden|ipa-sra|gcse|tree-[a-z-]+|elide-constructors|operator-names|permissive|relaxed-template-template-args|new-inheriting-ctors|new-ttp-matching|access-control|keep-inline-functions|strict-volatile-bitfields|reorder-functions)|-f(constexpr-(depth|steps|loop-limit|ops-limit)|template-depth|bracket-depth|inline-limit|abi-version|abi-compat-version|clang-abi-compat)=[0-9a-z.]+|-frandom-seed=.*)$`)

// variables are those that change what compilers read or write.
var variables = []string{
	"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH", "LIBRARY_PATH", "CCC_OVERRIDE_OPTIONS",
	"DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "GCC_COMPARE_DEBUG", "SDKROOT", "SYSROOT", "CCC_ADD_ARGS", "GCC_SPECS", "CLANG_CONFIG_FILE_SYSTEM_DIR",
	"CLANG_CONFIG_FILE_USER_DIR", "CLANG_NO_DEFAULT_CONFIG", "SOURCE_DATE_EPOCH", "EXPERIMENTAL_SARIF_SOCKET",
}

// bypassed are beginnings of flags that package compiler knows, and that read or write files, or
// warn of comments, blanks and directories.
var bypassed = []string{"-i", "-fmodule-map-file", "-fprofile", "--config", "-fdiagnostics-format", "-fdiagnostics-add", "-fdiagnostics-set", "-x",
	"-frecord", "-grecord", "-Wdocumentation", "-Weverything", "-Wimplicit-fallthrough=1", "-Wtrailing-whitespace", "-Wleading-whitespace", "-Wmissing-include-dirs",
	"-Wtraditional", "-fno-show-source-location", "-fdiagnostics-absolute-paths"}

// compat are warnings of what older standards don't have, as "//" comments.
var compat = lazyregexp.New(`^-W[^n].*-compat(-pedantic)?$`)

// foreign matches targets whose compilers take another language, that of Microsoft's.
var foreign = lazyregexp.New(`(?i)windows|win32|msvc|mingw|cyg|uefi|-ps[45]`)

var (
	standard    = lazyregexp.New(`^(--?std=|-ansi$)`)
	oldStandard = lazyregexp.New(`^(--?std=(c|gnu)\+\+(98|03|0x|11)|-ansi)$`)
)

// oldC are standards of C that have no "//" comments.
var oldC = lazyregexp.New(`^(--?std=((c|gnu)(89|8x|90)|c94|iso9899:(1990|199409))|-ansi)$`)

var withContracts = lazyregexp.New(`^--?std=(c|gnu)\+\+2([6-9]|[c-z])$`)

// searching are beginnings of flags that decide about the compiler's own
// directories.
var searching = []string{"-stdlib=", "--sysroot", "-nostdinc", "--target", "-target", "--gcc-toolchain", "-gcc-toolchain", "-m", "-no-canonical-prefixes", "-canonical-prefixes"}

func beginsWithOne(a string, of []string) bool {
	return slices.ContainsFunc(of, func(p string) bool { return strings.HasPrefix(a, p) })
}

// parse reads the command line of a compiler. Without a unit it says why the
// compilation is passed on.
func parse(argv []string) (u *unit, bypass string) {
	l := &commandLine{unit: &unit{compiler: argv[0], args: argv[1:], canonical: true}, slashes: true, defined: map[string]bool{}}
	for i := 0; i < len(l.args); {
		a := &argument{text: l.args[i], words: l.args[i : i+1], behind: l.args[i+1:]}
		if bypass = l.read(a); bypass != "" {
			return nil, bypass
		}
		if !a.written {
			l.rest = append(l.rest, a.words...)
		}
		i += len(a.words)
	}
	l.dirs = append(l.dirs, l.late...)
	for _, step := range []func() string{l.complete, l.setLanguage, environment, l.setMacros} {
		if bypass = step(); bypass != "" {
			return nil, bypass
		}
	}
	return l.unit, ""
}

// commandLine is what is read of a command line beside the unit.
type commandLine struct {
	*unit
	compile, lists bool
	language       string
	slashes        bool // begin comments
	macros         strings.Builder
	defined        map[string]bool
	late           []string // -idirafter
}

// argument is one of a command line.
type argument struct {
	text    string
	words   []string // it, and the next one if that is its value
	behind  []string
	value   string
	written bool // it says what is done, or written where
}

// is tells whether a is a flag with a value, in the same argument or the next.
func (a *argument) is(flag string) bool {
	v, ok := strings.CutPrefix(a.text, flag)
	if ok && v == "" && len(a.behind) > 0 {
		v = a.behind[0]
		a.take()
	}
	a.value = v
	return ok && v != ""
}

// take makes the next argument a part of a.
func (a *argument) take() { a.words = []string{a.text, a.behind[0]} }

// read takes in an argument, or says why the compilation is passed on.
func (l *commandLine) read(a *argument) (bypass string) {
	switch {
	case a.text == "" || a.text == "-" || a.text[0] == '@' || a.text[0] != '-' && l.source != "":
		return "another command line than that of one source"
	case a.text[0] != '-':
		l.source = a.text
	case a.text == "-c":
		l.compile, a.written = true, true
	case a.text == "-MD":
		l.lists, a.written = true, true
	case a.is("-MF"):
		l.depend, a.written = a.value, true
	case a.is("-o"):
		l.object, a.written = a.value, true
	case (a.is("-iquote") || a.is("-isystem") || a.is("-idirafter")) && isFile(a.value):
		return "a map of headers" // or what gcc warns of
	case a.is("-iquote"):
		l.quoteDirs = append(l.quoteDirs, a.value)
	case a.is("-isystem"):
		l.dirs = append(l.dirs, a.value)
	case a.is("-idirafter"):
		l.late = append(l.late, a.value)
	case a.is("-I"):
		if a.value == "-" {
			return "flag -I-"
		}
		if isFile(a.value) {
			return "a map of headers"
		}
		l.dirs = append(l.dirs, a.value)
	case a.is("-D"):
		name, body, set := strings.Cut(a.value, "=")
		if !set {
			body = "1"
		}
		if strings.ContainsAny(a.value, "\r\n") {
			return "a macro of the command line"
		}
		l.macros.WriteString("#define " + name + " " + body + "\n")
		l.defined[name] = true
	case a.text == "-include" && a.is("-include"):
		l.includes = append(l.includes, `"`+a.value)
	case l.source == "" && a.is("-x") && (a.value == "c" || a.value == "c++" || a.value == "c++-header"):
		l.language = a.value
	case a.text == "-fsyntax-only":
		l.syntax, a.written = true, true
	case a.is("-fmodule-map-file="):
		l.maps = append(l.maps, a.value)
		a.words = a.words[:1]
	case a.text == "-Xclang" && len(a.behind) > 0 && (a.behind[0] == "-fno-cxx-modules" || a.behind[0] == "-fmodule-map-file-home-is-cwd"):
		a.take()
		l.home = l.home || a.behind[0] == "-fmodule-map-file-home-is-cwd"
	case more.MatchString(a.text):
	default:
		return l.readKnown(a)
	}
	return ""
}

// readKnown is read for the flags that package compiler knows.
func (l *commandLine) readKnown(arg *argument) (bypass string) {
	a := arg.text
	separate, known := compiler.Known(a)
	warning := strings.Replace(a, "-Werror=", "-W", 1)
	if !known || beginsWithOne(warning, bypassed) || compat.MatchString(warning) || strings.Contains(a, "=native") {
		return "flag " + a
	}
	if separate && len(arg.behind) > 0 {
		arg.take()
	}
	l.debug = l.debug || strings.HasPrefix(a, "-g") && a != "-g0"
	l.warns = l.warns || strings.HasPrefix(a, "-W") && !strings.HasPrefix(a, "-Wno-")
	if standard.MatchString(a) {
		l.old = oldStandard.MatchString(a)
		l.slashes = !oldC.MatchString(a)
	}
	l.contracts = l.contracts || withContracts.MatchString(a)
	if strings.HasSuffix(a, "canonical-system-headers") {
		l.canonical = a == "-fcanonical-system-headers"
	}
	if _, what, ok := strings.Cut(a, "-prefix-map="); ok {
		from, to, _ := strings.Cut(what, "=")
		if from != to {
			l.mapped = append(l.mapped, from)
		}
	}
	if beginsWithOne(a, searching) {
		if strings.Contains(a, "target") && foreign.MatchString(strings.Join(arg.words, " ")) {
			return "flag " + a
		}
		l.search = append(l.search, arg.words...)
	}
	return ""
}

// complete says what a command line lacks or has that isn't that of a compilation of
// one file to another.
func (l *commandLine) complete() (bypass string) {
	if slices.ContainsFunc(slices.Concat(l.quoteDirs, l.dirs), func(d string) bool { return d[0] == '=' || strings.HasPrefix(d, "$SYSROOT") }) {
		return "a directory relative to the sysroot"
	}
	switch {
	case !l.compile && !l.syntax:
		return "no compilation"
	case l.source == "" || l.object == "" || l.depend == "" || !l.lists:
		return "no source, object or list of dependencies (-MD -MF)"
	}
	for _, f := range []string{l.object, l.depend} {
		if info, err := os.Lstat(f); err == nil && !info.Mode().IsRegular() {
			return "output to something else than a file" // such as /dev/null
		}
	}
	return ""
}

// setLanguage finds out whether the source is C or C++.
func (l *commandLine) setLanguage() (bypass string) {
	if (l.language == "c++-header") != l.syntax {
		return "a header"
	}
	switch ext := filepath.Ext(l.source); {
	case l.language != "":
		l.cxx = l.language != "c"
	case slices.Contains([]string{".cc", ".cpp", ".cxx", ".c++", ".C"}, ext):
		l.cxx = true
	case ext == ".c":
		l.cxx = strings.Contains(filepath.Base(l.compiler), "++")
	default:
		return "another language than C and C++"
	}
	if !l.cxx && !l.slashes {
		return "C of 1990"
	}
	return ""
}

// prefixes are beginnings of others, those of the loader among them.
var prefixes = []string{"CC_PRINT_", "CC_LOG_", "FORCE_CLANG_", "LD_"}

// environment says which of variables is set, if only to nothing.
func environment() (bypass string) {
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains(variables, name) || beginsWithOne(name, prefixes) {
			return "environment variable " + name
		}
	}
	return ""
}

// setMacros scans the macros of the command line.
func (l *commandLine) setMacros() (bypass string) {
	l.dates = l.defined["__DATE__"] && l.defined["__TIME__"] && l.defined["__TIMESTAMP__"]
	d := scanText([]byte(l.macros.String()), l.cxx)
	l.defines = d
	if d.Bypass != "" || d.Means != 0 || len(d.Names) > 0 || slices.ContainsFunc(d.Macros, func(m macro) bool {
		return slices.Contains(m.Words, line) || slices.ContainsFunc(builtins, func(b string) bool { return slices.Contains(m.Words, b) })
	}) {
		return "a macro of the command line"
	}
	return ""
}

// setKey computes the key of the unit: all but what the files say.
func (u *unit) setKey(compiler string) {
	b := frame.New("tasting cc 10")
	b.String(compiler)
	b.Strings(u.args)
	b.Strings(u.dirs)
	if u.debug {
		// Debug information has the directory, as PWD calls it.
		b.String(directory())
	}
	u.key = fmt.Sprintf("%x", b.Sum128())
}

// directory is the current one by the name that compilers give it.
func directory() string {
	pwd := os.Getenv("PWD")
	a, err1 := os.Stat(pwd)
	b, err2 := os.Stat(".")
	if err1 == nil && err2 == nil && filepath.IsAbs(pwd) && os.SameFile(a, b) {
		return pwd
	}
	dir, _ := os.Getwd()
	return dir
}
