package ordinary

import (
	"slices"
	"strings"
)

// A config is how units are compiled.
type config struct {
	name, driver string
	flags        []string
	onlyC        bool // there is no library of C++
}

var (
	fastbuild = []string{"-U_FORTIFY_SOURCE", "-fstack-protector", "-fno-omit-frame-pointer", "-fPIC"}
	optimised = []string{"-U_FORTIFY_SOURCE", "-fstack-protector", "-fno-omit-frame-pointer", "-g0", "-O2", "-D_FORTIFY_SOURCE=1", "-DNDEBUG", "-ffunction-sections", "-fdata-sections"}

	gcc      = &config{name: "gcc", driver: "gcc", flags: fastbuild}
	gccOpt   = &config{name: "gcc-opt", driver: "gcc", flags: optimised}
	gccPIC   = &config{name: "gcc-opt-pic", driver: "gcc", flags: append(optimised[:9:9], "-fPIC")}
	gccAsan  = &config{name: "gcc-asan", driver: "gcc", flags: sanitized("address")}
	gccUbsan = &config{name: "gcc-ubsan", driver: "gcc", flags: sanitized("undefined")}
	clang    = &config{name: "clang", driver: "clang", flags: fastbuild}
	clangOpt = &config{name: "clang-opt", driver: "clang", flags: optimised}
	clangPIC = &config{name: "clang-opt-pic", driver: "clang", flags: append(optimised[:9:9], "-fPIC")}
	asan     = &config{name: "asan", driver: "clang", flags: sanitized("address")}
	ubsan    = &config{name: "ubsan", driver: "clang", flags: sanitized("undefined")}
	tsan     = &config{name: "tsan", driver: "clang", flags: sanitized("thread")}
	libcxx   = &config{name: "libc++", driver: "clang", flags: append(fastbuild[:4:4], "-stdlib=libc++")}
	thinLTO  = &config{name: "thin-lto", driver: "clang", flags: append(optimised[:9:9], "-flto=thin")}
	musl     = &config{name: "musl", driver: "musl-gcc", flags: fastbuild, onlyC: true}
)

func sanitized(by string) []string { return append(fastbuild[:4:4], "-fsanitize="+by) }

// may says whether an edit may select a program because of a sanitizer: each unit registers itself when the
// program starts, and lines are in what is registered.
func (w *way) may(kind string) bool {
	return (kind == "file" || kind == "order") && slices.ContainsFunc(w.config.flags, func(f string) bool { return strings.HasPrefix(f, "-fsanitize") })
}

// kind is what cc_libraries are for a link.
type kind string

const (
	shared   kind = "shared"
	archive  kind = "archive"
	startLib kind = "--start-lib"
)

// A way is one to link, as a toolchain's configuration does it.
type way struct {
	name        string
	config      *config
	kind        kind
	front, tail []string // words before the objects, and behind the libraries
	all         bool     // all programs, and not only some
	dynamic     string   // the way with shared libraries that it is compared with
	quick       bool     // also in the lane that decides quickly
}

// Bazel's own configuration for gcc where there is neither gold nor lld, for clang where there is lld, and the
// libraries that it puts at the end.
var (
	byGCC   = []string{"-Wl,-S", "-B/usr/bin", "-Wl,-no-as-needed", "-Wl,-z,relro,-z,now", "-pass-exit-codes"}
	byClang = []string{"-Wl,-S", "-fuse-ld=lld", "-B/usr/bin", "-Wl,-no-as-needed", "-Wl,-z,relro,-z,now"}
	runtime = []string{"-Wl,--push-state,-as-needed", "-lstdc++", "-Wl,--pop-state", "-Wl,--push-state,-as-needed", "-lm", "-Wl,--pop-state"}
	// toolchains_llvm, with its three libraries of C++, and a toolchain of Buildroot's gcc.
	hermetic     = []string{"--target=x86_64-unknown-linux-gnu", "-lm", "-no-canonical-prefixes", "-fuse-ld=lld", "-Wl,--build-id=md5", "-Wl,--hash-style=gnu", "-Wl,-z,relro,-z,now"}
	builtinLibs  = []string{"-L/usr/lib/llvm-21/lib", "-l:libc++.a", "-l:libc++abi.a", "-rtlib=compiler-rt", "-l:libunwind.a", "-lpthread", "-ldl"}
	staticStdcxx = []string{"-l:libstdc++.a"}
	buildroot    = []string{"--sysroot=/", "-no-canonical-prefixes", "-Wl,--dynamic-linker=/lib64/ld-linux-x86-64.so.2", "-Wl,-rpath,/opt/toolchain/lib64", "-Wl,--hash-style=gnu", "-Wl,-z,relro,-z,now"}
)

func with(words []string, more ...string) []string {
	return append(words[:len(words):len(words)], more...)
}

var ways = []way{
	{name: "gcc, shared libraries", config: gcc, kind: shared, front: byGCC, tail: runtime, all: true},
	{name: "gcc, archives, bfd", config: gcc, kind: archive, front: byGCC, tail: runtime, all: true, dynamic: "gcc, shared libraries"},
	{name: "gcc, archives, gold", config: gcc, kind: archive, front: with(byGCC, "-fuse-ld=gold"), tail: runtime, dynamic: "gcc, shared libraries"},
	{name: "gcc, --start-lib, lld", config: gcc, kind: startLib, front: with(byGCC, "-fuse-ld=lld"), tail: runtime, dynamic: "gcc, shared libraries"},
	{name: "gcc -c opt, archives, bfd", config: gccOpt, kind: archive, front: with(byGCC[1:], "-Wl,--gc-sections"), tail: runtime},
	{name: "gcc -c opt, shared libraries", config: gccPIC, kind: shared, front: with(byGCC[1:], "-Wl,--gc-sections"), tail: runtime},
	{name: "gcc asan, shared libraries", config: gccAsan, kind: shared, front: with(byGCC, "-fsanitize=address"), tail: runtime},
	{name: "gcc ubsan, archives, bfd", config: gccUbsan, kind: archive, front: with(byGCC, "-fsanitize=undefined"), tail: runtime},
	{name: "gcc, archives, static libstdc++", config: gcc, kind: archive, front: with(byGCC, "-static-libgcc"), tail: with(staticStdcxx, "-lm"), dynamic: "gcc, shared libraries"},
	{name: "g++ -static-libstdc++, archives", config: gcc, kind: archive, front: with(byGCC, "-static-libstdc++", "-static-libgcc"), tail: runtime, dynamic: "gcc, shared libraries"},
	{name: "Buildroot's gcc, archives", config: gcc, kind: archive, front: buildroot, tail: []string{"-lstdc++", "-lm"}, dynamic: "gcc, shared libraries"},
	{name: "Buildroot's gcc, shared libraries", config: gcc, kind: shared, front: buildroot, tail: []string{"-lstdc++", "-lm"}},
	{name: "gcc -static, archives, bfd", config: gcc, kind: archive, front: with(byGCC, "-static"), tail: runtime, dynamic: "gcc, shared libraries"},
	{name: "musl -static, archives, bfd", config: musl, kind: archive, front: []string{"-static", "-Wl,-z,relro,-z,now"}},
	{name: "clang, shared libraries", config: clang, kind: shared, front: byClang, tail: runtime, all: true, quick: true},
	{name: "clang, --start-lib, lld", config: clang, kind: startLib, front: byClang, tail: runtime, all: true, dynamic: "clang, shared libraries", quick: true},
	{name: "clang, archives, lld", config: clang, kind: archive, front: byClang, tail: runtime, dynamic: "clang, shared libraries"},
	{name: "clang, archives, mold", config: clang, kind: archive, front: with(byClang[:1], "-fuse-ld=mold", "-Wl,-no-as-needed", "-Wl,-z,relro,-z,now"), tail: runtime, dynamic: "clang, shared libraries"},
	{name: "clang -c opt, --start-lib, lld", config: clangOpt, kind: startLib, front: with(byClang[1:], "-Wl,--gc-sections"), tail: runtime},
	{name: "clang -c opt, shared libraries", config: clangPIC, kind: shared, front: with(byClang[1:], "-Wl,--gc-sections"), tail: runtime},
	{name: "clang asan, shared libraries", config: asan, kind: shared, front: with(byClang, "-fsanitize=address"), tail: runtime},
	{name: "clang asan, --start-lib, lld", config: asan, kind: startLib, front: with(byClang, "-fsanitize=address"), tail: runtime, dynamic: "clang asan, shared libraries"},
	{name: "clang ubsan, shared libraries", config: ubsan, kind: shared, front: with(byClang, "-fsanitize=undefined"), tail: runtime},
	{name: "clang tsan, shared libraries", config: tsan, kind: shared, front: with(byClang, "-fsanitize=thread"), tail: runtime},
	{name: "clang libc++, shared libraries", config: libcxx, kind: shared, front: with(byClang, "-stdlib=libc++"), tail: []string{"-lc++", "-lm"}},
	{name: "clang libc++, --start-lib, lld", config: libcxx, kind: startLib, front: with(byClang, "-stdlib=libc++"), tail: []string{"-lc++", "-lm"}, dynamic: "clang libc++, shared libraries"},
	{name: "toolchains_llvm builtin-libc++, --start-lib", config: libcxx, kind: startLib, front: hermetic, tail: builtinLibs, dynamic: "clang libc++, shared libraries"},
	{name: "toolchains_llvm builtin-libc++, shared libraries", config: libcxx, kind: shared, front: hermetic, tail: builtinLibs},
	{name: "toolchains_llvm stdc++, --start-lib", config: clang, kind: startLib, front: with(hermetic, "--sysroot=/"), tail: staticStdcxx, dynamic: "clang, shared libraries"},
	{name: "toolchains_llvm dynamic-stdc++, shared libraries", config: clang, kind: shared, front: with(hermetic, "--sysroot=/"), tail: []string{"-lstdc++"}},
	{name: "clang -static, --start-lib, lld", config: clang, kind: startLib, front: with(byClang, "-static"), tail: runtime, dynamic: "clang, shared libraries"},
	{name: "clang thin LTO, --start-lib, lld", config: thinLTO, kind: startLib, front: with(byClang[1:], "-flto=thin", "-Wl,--gc-sections"), tail: runtime},
}

// tried returns those of a project's programs that are compiled and linked in a way: without -all few in C++.
func (w *way) tried(p *project) []program {
	switch {
	case *all:
	case p.name == "leveldb" || p.name == "fmtlib", w.config == gcc && (p.name == "abseil" || p.name == "snappy"):
		return nil
	case p.name == "googletest" && slices.Contains([]*config{gccPIC, gccAsan, gccUbsan, clangPIC, ubsan, tsan, thinLTO}, w.config):
		return nil
	}
	return w.programs(p)
}

// programs returns those of a project that are linked in a way: of few projects the first two, if it isn't all.
func (w *way) programs(p *project) []program {
	cxx := !slices.ContainsFunc(p.libs, func(l library) bool { return strings.HasSuffix(l.srcs[0], ".c") })
	switch {
	case cxx && w.config.onlyC:
	case w.all:
		return p.tests
	case slices.Contains([]string{"googletest", "jansson", "zlib"}, p.name):
		return p.tests[:2]
	}
	return nil
}
