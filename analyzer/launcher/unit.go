package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/compiler"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
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
	maps  []string
	home  bool
	gch   bool // the compiler may take a precompiled header
	clang bool
	own   []string // directories of the compiler's own headers
	key   string   // in hex
}

// more are flags that read and write nothing, beside those that package compiler knows: what
// they do to code is in the key.
var more = regexp.MustCompile(`^(-O[0-3sgz]?|-Ofast|-f(no-)?(rtti|threadsafe-statics|char8_t|coroutines|concepts|aligned-allocation|sized-deallocation|implicit-templates|use-cxa-atexit|strict-enums|fast-math|finite-math-only|associative-math|reciprocal-math|trapping-math|signed-zeros|unroll-loops|vectorize|tree-vectorize|slp-vectorize|inline-functions|visibility-inlines-hidden|ipa-sra|gcse|tree-[a-z-]+|elide-constructors|operator-names|permissive|relaxed-template-template-args|new-inheriting-ctors|new-ttp-matching|access-control|keep-inline-functions|strict-volatile-bitfields|reorder-functions)|-f(constexpr-(depth|steps|loop-limit|ops-limit)|template-depth|bracket-depth|inline-limit|abi-version|abi-compat-version|clang-abi-compat)=[0-9a-z.]+|-frandom-seed=.*)$`)

// variables are those that change what compilers read or write.
var variables = []string{
	"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH", "LIBRARY_PATH", "CCC_OVERRIDE_OPTIONS",
	"DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "GCC_COMPARE_DEBUG", "SDKROOT", "SYSROOT", "CCC_ADD_ARGS", "GCC_SPECS", "CLANG_CONFIG_FILE_SYSTEM_DIR",
	"CLANG_CONFIG_FILE_USER_DIR", "CLANG_NO_DEFAULT_CONFIG", "SOURCE_DATE_EPOCH", "LD_PRELOAD", "LD_LIBRARY_PATH",
}

// bypassed are beginnings of flags that package compiler knows, and that read or write files, or
// warn of comments, blanks and directories.
var bypassed = []string{"-i", "-fmodule-map-file", "-fprofile", "--config", "-fdiagnostics-format", "-fdiagnostics-add", "-fdiagnostics-set", "-x",
	"-frecord", "-grecord", "-Wdocumentation", "-Weverything", "-Wimplicit-fallthrough=1", "-Wtrailing-whitespace", "-Wleading-whitespace", "-Wmissing-include-dirs",
	"-Wtraditional"}

// compat are warnings of what older standards don't have, as "//" comments.
var compat = regexp.MustCompile(`^-W[^n].*-compat(-pedantic)?$`)

// foreign matches targets whose compilers take another language, that of Microsoft's.
var foreign = regexp.MustCompile(`(?i)windows|win32|msvc|mingw|cyg|uefi|-ps[45]`)

var (
	standard    = regexp.MustCompile(`^(--?std=|-ansi$)`)
	oldStandard = regexp.MustCompile(`^(--?std=(c|gnu)\+\+(98|03|0x|11)|-ansi)$`)
)

// oldC are standards of C that have no "//" comments.
var oldC = regexp.MustCompile(`^(--?std=((c|gnu)(89|8x|90)|c94|iso9899:(1990|199409))|-ansi)$`)

var withContracts = regexp.MustCompile(`^--?std=(c|gnu)\+\+2([6-9]|[c-z])$`)

// searching are beginnings of flags that decide about the compiler's own
// directories.
var searching = []string{"-stdlib=", "--sysroot", "-nostdinc", "--target", "-target", "--gcc-toolchain", "-gcc-toolchain", "-m", "-no-canonical-prefixes", "-canonical-prefixes"}

func beginsWithOne(a string, of []string) bool {
	return slices.ContainsFunc(of, func(p string) bool { return strings.HasPrefix(a, p) })
}

// parse reads the command line of a compiler. Without a unit it says why the
// compilation is passed on.
func parse(argv []string) (u *unit, bypass string) {
	u = &unit{compiler: argv[0], args: argv[1:]}
	compile, lists, language := false, false, ""
	u.canonical = true
	slashes := true // begin comments
	var defines strings.Builder
	defined := map[string]bool{}
	var late []string // -idirafter
	for i := 0; i < len(u.args); {
		a := u.args[i]
		words := u.args[i : i+1]
		// is tells whether a is a flag with a value, in the same argument or the next.
		value := ""
		is := func(flag string) bool {
			v, ok := strings.CutPrefix(a, flag)
			if ok && v == "" && i+1 < len(u.args) {
				v, words = u.args[i+1], u.args[i:i+2]
			}
			value = v
			return ok && v != ""
		}
		written := false // it says what is done, or written where
		switch {
		case a == "" || a == "-" || a[0] == '@' || a[0] != '-' && u.source != "":
			return nil, "another command line than that of one source"
		case a[0] != '-':
			u.source = a
		case a == "-c":
			compile, written = true, true
		case a == "-MD":
			lists, written = true, true
		case is("-MF"):
			u.depend, written = value, true
		case is("-o"):
			u.object, written = value, true
		case (is("-iquote") || is("-isystem") || is("-idirafter")) && isFile(value):
			return nil, "a map of headers" // or what gcc warns of
		case is("-iquote"):
			u.quoteDirs = append(u.quoteDirs, value)
		case is("-isystem"):
			u.dirs = append(u.dirs, value)
		case is("-idirafter"):
			late = append(late, value)
		case is("-I"):
			if value == "-" {
				return nil, "flag -I-"
			}
			if isFile(value) {
				return nil, "a map of headers"
			}
			u.dirs = append(u.dirs, value)
		case is("-D"):
			name, body, set := strings.Cut(value, "=")
			if !set {
				body = "1"
			}
			if strings.ContainsAny(value, "\r\n") {
				return nil, "a macro of the command line"
			}
			defines.WriteString("#define " + name + " " + body + "\n")
			defined[name] = true
		case a == "-include" && is("-include"):
			u.includes = append(u.includes, `"`+value)
		case u.source == "" && is("-x") && (value == "c" || value == "c++" || value == "c++-header"):
			language = value
		case a == "-fsyntax-only":
			u.syntax, written = true, true
		case is("-fmodule-map-file="):
			u.maps = append(u.maps, value)
			words = u.args[i : i+1]
		case a == "-Xclang" && i+1 < len(u.args) && (u.args[i+1] == "-fno-cxx-modules" || u.args[i+1] == "-fmodule-map-file-home-is-cwd"):
			words = u.args[i : i+2]
			u.home = u.home || u.args[i+1] == "-fmodule-map-file-home-is-cwd"
		case more.MatchString(a):
		default:
			separate, known := compiler.Known(a)
			warning := strings.Replace(a, "-Werror=", "-W", 1)
			if !known || beginsWithOne(warning, bypassed) || compat.MatchString(warning) || strings.Contains(a, "=native") {
				return nil, "flag " + a
			}
			if separate && i+1 < len(u.args) {
				words = u.args[i : i+2]
			}
			u.debug = u.debug || strings.HasPrefix(a, "-g") && a != "-g0"
			u.warns = u.warns || strings.HasPrefix(a, "-W") && !strings.HasPrefix(a, "-Wno-")
			if standard.MatchString(a) {
				u.old = oldStandard.MatchString(a)
				slashes = !oldC.MatchString(a)
			}
			u.contracts = u.contracts || withContracts.MatchString(a)
			if strings.HasSuffix(a, "canonical-system-headers") {
				u.canonical = a == "-fcanonical-system-headers"
			}
			if _, what, ok := strings.Cut(a, "-prefix-map="); ok {
				from, to, _ := strings.Cut(what, "=")
				if from != to {
					u.mapped = append(u.mapped, from)
				}
			}
			if beginsWithOne(a, searching) {
				if strings.Contains(a, "target") && foreign.MatchString(strings.Join(words, " ")) {
					return nil, "flag " + a
				}
				u.search = append(u.search, words...)
			}
		}
		if !written {
			u.rest = append(u.rest, words...)
		}
		i += len(words)
	}
	u.dirs = append(u.dirs, late...)
	if slices.ContainsFunc(slices.Concat(u.quoteDirs, u.dirs), func(d string) bool { return d[0] == '=' || strings.HasPrefix(d, "$SYSROOT") }) {
		return nil, "a directory relative to the sysroot"
	}
	switch {
	case !compile && !u.syntax:
		return nil, "no compilation"
	case u.source == "" || u.object == "" || u.depend == "" || !lists:
		return nil, "no source, object or list of dependencies (-MD -MF)"
	}
	for _, f := range []string{u.object, u.depend} {
		if info, err := os.Lstat(f); err == nil && !info.Mode().IsRegular() {
			return nil, "output to something else than a file" // such as /dev/null
		}
	}
	if (language == "c++-header") != u.syntax {
		return nil, "a header"
	}
	switch ext := filepath.Ext(u.source); {
	case language != "":
		u.cxx = language != "c"
	case slices.Contains([]string{".cc", ".cpp", ".cxx", ".c++", ".C"}, ext):
		u.cxx = true
	case ext == ".c":
		u.cxx = strings.Contains(filepath.Base(u.compiler), "++")
	default:
		return nil, "another language than C and C++"
	}
	if !u.cxx && !slashes {
		return nil, "C of 1990"
	}
	for _, v := range variables {
		if os.Getenv(v) != "" {
			return nil, "environment variable " + v
		}
	}
	u.dates = defined["__DATE__"] && defined["__TIME__"] && defined["__TIMESTAMP__"]
	u.defines = scanText([]byte(defines.String()), u.cxx)
	if d := u.defines; d.Bypass != "" || d.Means != 0 || len(d.Names) > 0 || slices.ContainsFunc(d.Macros, func(m macro) bool {
		return slices.Contains(m.Words, line) || slices.ContainsFunc(builtins, func(b string) bool { return slices.Contains(m.Words, b) })
	}) {
		return nil, "a macro of the command line"
	}
	return u, ""
}

// setKey computes the key of the unit: all but what the files say.
func (u *unit) setKey(compiler string) {
	b := frame.New("tasting cc 9")
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
