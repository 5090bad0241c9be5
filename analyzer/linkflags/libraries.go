package linkflags

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/wordset"
)

// runtimes are the libraries of the C and C++ runtimes: what they call in a
// program is known (overrides.txt of package fingerprint). Of libc++, of OpenMP's, and of the
// small libraries beside libstdc++ and the C library, it isn't known.
var runtimes = wordset.Of(`asan atomic anl c c_nonshared clang_rt crypt dl gcc gcc_eh gcc_s gcov hwasan
	itm lsan m mvec nsl nss_files pthread pthread_nonshared resolv rt ssp ssp_nonshared stdc++ supc++
	tsan ubsan unwind util`)

// archives are those that there are only as archives.
var archives = wordset.Of(`stdc++exp stdc++fs stdc++_libbacktrace supc++`)

// SystemLibrary is a library of the system that a line names.
type SystemLibrary struct {
	// Name is that of an Item.
	Name string
	// Static and Shared say what it is, if that is known.
	Static, Shared bool
	// Runtime is set for the runtimes of C and C++. Any other library may call
	// the program by any name, as flex's calls yywrap.
	Runtime bool
}

// Libraries returns the libraries of the system that l names: all items that
// the build doesn't know, in their order.
func (l *Line) Libraries() []SystemLibrary {
	var libs []SystemLibrary
	for _, x := range l.Items {
		if x.Built != "" {
			continue
		}
		base := path.Base(strings.TrimPrefix(x.Name, ":"))
		s := SystemLibrary{Name: x.Name, Static: x.Kind == Library && x.Static}
		stem := base
		if x.Kind == File || strings.HasPrefix(x.Name, ":") {
			s.Shared = strings.Contains(base+".", ".so.")
			s.Static = !s.Shared
			base, _, _ = strings.Cut(strings.TrimPrefix(base, "lib"), ".so")
			stem = strings.TrimSuffix(base, ".a")
		}
		s.Runtime = isRuntime(stem)
		s.Static = s.Static || archives[stem]
		libs = append(libs, s)
	}
	return libs
}

// isRuntime tells whether a library is one of the runtimes, by its name without "lib" and extension.
func isRuntime(stem string) bool { return runtimes[stem] || strings.HasPrefix(stem, "clang_rt.") }

// besides are libraries of the system that others bring along, and that may call any name.
var besides = wordset.Of(`BrokenLocale c++ c++abi gfortran gomp iomp5 omp quadmath thread_db`)

// IsSystems tells whether the base name of a shared library is one under which a part of the
// system is loaded, whoever asks for it. glibc's and the compilers' have a version, LLVM's runtimes
// don't.
func IsSystems(name string) bool {
	stem, version, shared := strings.Cut(strings.TrimPrefix(name, "lib"), ".so")
	if !shared || version == "" && stem != "omp" && !strings.HasPrefix(stem, "clang_rt.") {
		return false
	}
	return isRuntime(stem) || besides[stem] || strings.HasPrefix(stem, "nss_") || strings.HasPrefix(name, "ld-")
}

// Inside tells whether l asks for libraries of the system that are linked into
// the file.
func (l *Line) Inside() bool {
	return l.Static || l.end.Static || slices.ContainsFunc(l.Flags, func(f string) bool { return strings.HasPrefix(f, "-static-") }) ||
		slices.ContainsFunc(l.Libraries(), func(s SystemLibrary) bool { return s.Static })
}

// CxxInside reports whether l asks for libraries of C++ that are linked into the file.
func (l *Line) CxxInside() bool {
	return l.Static || l.end.Static || slices.Contains(l.Flags, "-static-libstdc++") ||
		slices.ContainsFunc(l.Libraries(), func(s SystemLibrary) bool { return s.Static && strings.Contains(s.Name, "c++") })
}

// TakesWhatIsNeeded tells whether references decide what l takes from the system: its
// libraries, or members of those that are linked into the file.
func (l *Line) TakesWhatIsNeeded() bool { return l.Inside() || l.LoadsWhatIsNeeded() }

// LoadsWhatIsNeeded tells whether references decide which libraries of the system l has
// loaded.
func (l *Line) LoadsWhatIsNeeded() bool {
	return !l.Static && (l.end.AsNeeded != No || slices.ContainsFunc(l.Items, func(x Item) bool { return x.Built == "" && x.AsNeeded != No }))
}

// SeesWhatIsNeeded tells whether a program can see which libraries of the system, or
// members of these, are linked: glibc's setlocale knows the categories of which a
// static program has some function, by weak references. Of libraries other than
// those of C and C++ that isn't known.
func (l *Line) SeesWhatIsNeeded() bool {
	return l.Static || l.end.Static || l.TakesWhatIsNeeded() && l.Foreign() ||
		slices.ContainsFunc(l.Libraries(), func(s SystemLibrary) bool {
			return s.Static && strings.TrimPrefix(s.Name, ":lib") == "c.a" || s.Static && s.Name == "c"
		})
}

// bringsForeign matches flags of drivers that bring libraries along that aren't among the
// runtimes: libc++, and those that run loops in parallel.
var bringsForeign = lazyregexp.New(`^-(?:-?stdlib=libc\+\+|fopenmp(?:=.*)?|fopenacc|ftree-parallelize-loops(?:=.*)?)$`)

// Foreign tells whether the line names a library of the system that may call
// the program by any name.
func (l *Line) Foreign() bool {
	return slices.ContainsFunc(l.Flags, bringsForeign.MatchString) || slices.ContainsFunc(l.Libraries(), func(s SystemLibrary) bool { return !s.Runtime })
}

// System is what l takes from the system, as words that Parse reads: Flags, and
// the items that the build doesn't know.
func (l *Line) System() []string {
	return append(slices.Clone(l.Flags), l.items(func(s State) State { s.Group, s.Lazy = 0, false; return s })...)
}

// Probe returns flags that link a program of nothing in the same way, as far as
// they decide which files of the system the linker opens, and flags to compile it
// with. Libraries that such a program doesn't need are linked, too: each once, in
// an order of its own.
func (l *Line) Probe() (compile, link []string) {
	link = append(once(l.system), "-Wl,--no-as-needed")
	sorted := *l
	sorted.Items = slices.Clone(l.Items)
	for i := range sorted.Items {
		sorted.Items[i].State = State{Static: sorted.Items[i].Static}
	}
	slices.SortFunc(sorted.Items, func(a, b Item) int {
		return cmp.Or(compareBool(a.Static, b.Static), cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name), strings.Compare(a.Built, b.Built))
	})
	sorted.Items = slices.Compact(sorted.Items)
	return once(l.driver), append(link, sorted.items(func(s State) State { return State{Static: s.Static} })...)
}

// Named returns the absolute paths in flags that count: of scripts, lists of symbols,
// plugins, which the build doesn't know, and of directories.
func (l *Line) Named() []string {
	var names []string
	for _, w := range slices.Concat(l.Flags, l.system) {
		// With and without what is in front of the path and behind it.
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

// Driven returns what is said to the driver that may have it add libraries, or leave them
// out, or take others.
func (l *Line) Driven() []string {
	return slices.DeleteFunc(slices.Clone(l.driver), func(w string) bool { return !driven.MatchString(w) })
}

var driven = lazyregexp.New(`^-(?:nostd|nodefaultlibs|nolibc|nostartfiles|static|shared-lib|stdlib|-?rtlib|-?unwindlib|-?stdlib|fsanitize|fno-sanitize|fopenmp|fopenacc|ftree-parallelize|fprofile|fcs-profile|fxray|-?coverage|pg?$|pthread|m|-sysroot|-target|-gcc|gcc|-driver-mode|B|fsplit-stack|fexperimental)`)

// once returns words without repetitions of those that say no more when they are said
// again: each library on a line may say them.
func once(words []string) (l []string) {
	for _, w := range words {
		if w != "-pthread" || !slices.Contains(l, w) {
			l = append(l, w)
		}
	}
	return l
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// items are the words for what l takes from the system, with the states that f
// makes.
func (l *Line) items(f func(State) State) []string {
	base := State{Static: l.Static}
	var words []string
	now := base
	for _, x := range l.Items {
		if x.Built != "" {
			continue
		}
		if s := f(x.State); s != now {
			if now != base {
				words = append(words, "-Wl,--pop-state")
			}
			if s != base {
				words = append(words, "-Wl,--push-state"+s.from(base))
			}
			now = s
		}
		switch {
		case x.Kind == File:
			words = append(words, x.Name)
		case x.Name == "":
			words = append(words, "-l", "")
		default:
			words = append(words, "-l"+x.Name)
		}
	}
	if now != base {
		words = append(words, "-Wl,--pop-state")
	}
	if end := f(l.end); end != base {
		words = append(words, "-Wl"+end.from(base))
	}
	return words
}

// from returns the flags, each after a comma, that make s of base.
func (s State) from(base State) string {
	flags := ""
	if s.Static && !base.Static {
		flags += ",-Bstatic"
	} else if !s.Static && base.Static {
		flags += ",-Bdynamic"
	}
	switch s.AsNeeded {
	case Yes:
		flags += ",--as-needed"
	case No:
		flags += ",--no-as-needed"
	}
	if s.WholeArchive {
		flags += ",--whole-archive"
	}
	return flags
}
