package linkflags

import (
	"path"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
)

// runtimes are the libraries of the C and C++ runtimes. Package fingerprint lists the names that they call in a program
// (overrides.txt and libcxx.txt). It has no list for OpenMP, and for small libraries of gcc and glibc.
var runtimes = words.Set(`asan atomic anl c c++ c++abi c_nonshared clang_rt dl gcc gcc_eh gcc_s gcov hwasan
	itm lsan m mvec nsl nss_files pthread pthread_nonshared resolv rt ssp ssp_nonshared stdc++ supc++
	tsan ubsan unwind util`)

// archives are libraries of the system that exist only as archives.
var archives = words.Set(`stdc++exp stdc++fs stdc++_libbacktrace supc++`)

// systemLibrary is a library of the system that a line names.
type systemLibrary struct {
	name   string
	static bool // it is an archive for certain
	// runtime is set for the runtimes of C and C++. Any other library may call any name in the program, as flex's calls
	// yywrap.
	runtime bool
	// front is set if an item that the build makes is behind it.
	front bool
}

// systemLibraries returns the libraries of the system on the line: all items that the build doesn't know.
func (l *Line) systemLibraries() (libs []systemLibrary) {
	last := l.lastBuilt()
	for i, x := range l.Items {
		if x.Built != "" {
			continue
		}
		s := systemLibrary{front: i < last, name: x.Name, static: x.Kind == Library && x.Static}
		stem := path.Base(strings.TrimPrefix(x.Name, ":"))
		if x.Kind == File || strings.HasPrefix(x.Name, ":") {
			s.static = !strings.Contains(stem+".", ".so.")
			stem, _, _ = strings.Cut(strings.TrimPrefix(stem, "lib"), ".so")
			stem = strings.TrimSuffix(stem, ".a")
		}
		s.runtime = isRuntime(stem)
		s.static = s.static || archives[stem]
		libs = append(libs, s)
	}
	return libs
}

// lastBuilt returns the index of the last item that the build makes, or -1.
func (l *Line) lastBuilt() int {
	last := len(l.Items) - 1
	for last >= 0 && l.Items[last].Built == "" {
		last--
	}
	return last
}

// isRuntime reports whether a library is one of the runtimes, by its name without "lib" and extension, or a start file.
func isRuntime(stem string) bool {
	return runtimes[stem] || strings.HasPrefix(stem, "clang_rt.") || startFile.MatchString(stem)
}

var startFile = lazyregexp.New(`^([SgrM]?crt1|crt[in]|(clang_rt\.)?crt(begin|end)[ST]?(-\w+)?)\.o$`)

// otherLibraries are libraries of the system that aren't runtimes.
var otherLibraries = words.Set(`BrokenLocale gfortran gomp iomp5 omp quadmath thread_db`)

// IsSystemLibrary reports whether the base name of a shared library is that of a library of the system: a loader would take one
// for the other. Names of glibc and the compilers have a version, those of LLVM's runtimes don't.
func IsSystemLibrary(name string) bool {
	stem, version, shared := strings.Cut(strings.TrimPrefix(name, "lib"), ".so")
	if !shared || version == "" && stem != "omp" && !strings.HasPrefix(stem, "clang_rt.") {
		return false
	}
	return isRuntime(stem) || otherLibraries[stem] || strings.HasPrefix(stem, "nss_") || strings.HasPrefix(name, "ld-")
}

// StaticLibraries are the libraries of the system that are linked statically: any, the C library, the C++ library.
type StaticLibraries struct{ Any, C, Cxx bool }

// StaticLibraries returns the libraries of the system that are linked statically into the file.
func (l *Line) StaticLibraries() (in StaticLibraries) {
	in.C = l.Static || l.end.Static
	in.Cxx = in.C || slices.Contains(l.Flags, "-static-libstdc++")
	in.Any = in.Cxx || slices.ContainsFunc(l.Flags, func(f string) bool { return strings.HasPrefix(f, "-static-") })
	for _, s := range l.systemLibraries() {
		in.Any = in.Any || s.static
		in.C = in.C || s.static && (s.name == "c" || strings.HasSuffix(s.name, "libc.a"))
		in.Cxx = in.Cxx || s.static && strings.Contains(s.name, "c++")
	}
	return in
}

// Order returns the order of the items, or nil if the build's items are in front of all libraries of the system. If both
// define a symbol, linkers and loaders take the first. See link-order/system-library-order-nested. One word stands for
// adjacent items of the build.
func (l *Line) Order() []string {
	system := func(x Item) bool { return x.Built == "" }
	items := l.Items[:l.lastBuilt()+1]
	if !slices.ContainsFunc(items, system) {
		return nil
	}
	first := slices.IndexFunc(items, func(x Item) bool { return !system(x) })
	together := !slices.ContainsFunc(items[first:], system)
	words := []string{"order:"}
	for i, it := range l.Items {
		switch {
		case system(it):
			words = append(words, it.Name)
		case !together:
			words = append(words, "(built)"+Neutral(it.Built))
		case i == first:
			words = append(words, "(built)")
		}
	}
	return []string{strings.Join(words, " ")}
}

// SystemInputs identifies the files of the system that the link takes, for any kind of output.
func (l *Line) SystemInputs() string {
	words := slices.DeleteFunc(withoutRepeats(l.system), outputKind.MatchString)
	for _, s := range l.systemLibraries() {
		words = append(words, s.name)
	}
	return strings.Join(words, "\n")
}

// outputKind matches flags for the kind of output.
var outputKind = lazyregexp.New(`^(-Wl,-)?-(shared|pie|no-pie)$`)

// Code returns the Flags that may change the behaviour of code in a file, without those for the kind of output. It has each
// flag once, the last one first: if two exclude each other, the last one wins. See link-files/unused-execstack.
func (l *Line) Code() string {
	var words []string
	for _, f := range slices.Backward(l.Flags) {
		if !slices.Contains(words, f) && !outputKind.MatchString(f) && !notCode.MatchString(f) {
			words = append(words, f)
		}
	}
	return strings.Join(words, "\n")
}

var notCode = lazyregexp.New(`^(-pthread|-L.*|-Wl,-(s|-strip-(debug|all)|-(rpath|dynamic-linker|soname)=.*))$`)

// Words returns Flags, and the items that the build doesn't know, with their states.
func (l *Line) Words() []string {
	words := slices.Clone(l.Flags)
	for _, x := range l.Items {
		if x.Built == "" {
			words = append(words, strings.TrimSpace(strings.Join(x.words(), " ")+" "+x.State.String()))
		}
	}
	if end := l.end.String(); end != "" {
		words = append(words, "what the driver adds "+end)
	}
	return words
}

// words returns an item as words of a driver's line.
func (x *Item) words() []string {
	if x.Kind == File {
		return []string{x.Name}
	}
	return joined("-l", x.Name)
}

// Probe returns flags to compile and link an empty program so that the linker opens the same files of the system.
// Libraries that it doesn't need are linked as well, each once, in an order that doesn't depend on l.
func (l *Line) Probe() (compile, link []string) {
	link = append(withoutRepeats(l.system), "-Wl,--no-as-needed")
	state := l.Static
	static := func(s bool) {
		if s != state {
			link = append(link, map[bool]string{true: "-Wl,-Bstatic", false: "-Wl,-Bdynamic"}[s])
		}
		state = s
	}
	for _, s := range []bool{false, true} {
		var items []string
		for _, x := range l.Items {
			if x.Built == "" && x.Static == s {
				items = append(items, strings.Join(x.words(), "\x00"))
			}
		}
		slices.Sort(items)
		for _, x := range slices.Compact(items) {
			static(s)
			link = append(link, strings.Split(x, "\x00")...)
		}
	}
	static(l.end.Static)
	return withoutRepeats(l.driver), link
}

// FlagPaths returns the absolute paths in recorded flags: of directories, and of scripts, lists of symbols and plugins that the
// build doesn't know.
func (l *Line) FlagPaths() []string {
	var names []string
	for _, w := range slices.Concat(l.Flags, l.system) {
		// A path may begin behind a letter of a flag or a separator, and end at a comma.
		for i, c := range w {
			if c == '/' && (i == 0 || strings.ContainsRune("=,:@TBR", rune(w[i-1]))) {
				first, _, _ := strings.Cut(w[i:], ",")
				names = append(names, w[i:], first)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// withoutRepeats returns words with only the first -pthread: each library on a line may add one.
func withoutRepeats(words []string) (l []string) {
	for _, w := range words {
		if w != "-pthread" || !slices.Contains(l, w) {
			l = append(l, w)
		}
	}
	return l
}
