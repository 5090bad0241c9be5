package linkflags

import (
	"path"
	"slices"
	"strings"
)

// driverFlag is an entry of the table of a driver's flags.
type driverFlag struct {
	// separate and joined say where a value may stand: in the next word, or in
	// the same one.
	separate, joined bool
	effect           driverEffect
}

type driverEffect func(p *parser, name, value string)

// driverFlags are the flags of gcc and clang that matter to a link. Those with a
// value in the same word are found by the longest name that fits.
var driverFlags = func() map[string]driverFlag {
	t := map[string]driverFlag{}
	// A name ends with "=" or "*" if a value follows in the same word, with ":"
	// if it may be the next word.
	define := func(effect driverEffect, spec string) {
		for w := range strings.FieldsSeq(spec) {
			f := driverFlag{effect: effect}
			w, f.separate = strings.CutSuffix(w, ":")
			w, f.joined = strings.CutSuffix(w, "*")
			f.joined = f.joined || strings.HasSuffix(w, "=")
			if _, twice := t[w]; twice {
				panic("linkflags: two entries for " + w)
			}
			t[w] = f
		}
	}

	// What drivers know and take as it is. Files that are written have names of their own.
	define(func(*parser, string, string) {}, `-o*: --output= --output: -MF*: -MT*: -MQ*: -save-temps* --save-temps* -dumpbase: -dumpbase-ext: -dumpdir: -aux-info:`)
	// What compiles, and what a driver tells about its work: another driver may refuse it, or
	// this one with -Werror.
	define(func(p *parser, name, _ string) { p.quiet(name) }, `-D*: -U*: -I*: -iquote*: -isystem*: -idirafter*: -include*: -imacros*: -iprefix*: -iwithprefix*: -isysroot*:
		-fdebug-prefix-map= -ffile-prefix-map= -fmacro-prefix-map= -fdebug-compilation-dir= -ffile-compilation-dir=`)
	define(func(p *parser, name, value string) { p.quiet(name + value) }, `-g* -W* -w -v -pipe -time* -t -pedantic* -Xpreprocessor: -Xassembler:
		-M -MM -MD -MMD -MP -MG
		-fdiagnostics* -fcolor-diagnostics -fno-color-diagnostics -fansi-escape-codes -ftime-report -ftime-trace* -fcrash-diagnostics*
		-fno-crash-diagnostics -fmessage-length= -ferror-limit= -fmax-errors= -fcaret-diagnostics -fno-caret-diagnostics -fshow-column
		-fno-show-column -fverbose-asm
		-fdebug-types-section -fno-debug-types-section -fstandalone-debug -fno-standalone-debug -flimit-debug-info -fno-limit-debug-info -fsplit-dwarf-inlining -fno-split-dwarf-inlining
		-fno-canonical-system-headers -fno-working-directory -pass-exit-codes -no-canonical-prefixes -canonical-prefixes -Qunused-arguments
		-Qn -Qy --start-no-unused-arguments --end-no-unused-arguments`)

	// What chooses among the files that come with the compiler, and what
	// generates code, as the link may do that.
	counts := func(p *parser, name, value string) { p.driverFlag(name + value) }
	define(counts, `-Werror -Werror=* -gz -gz=* -O* -std= -ansi -m* -p -pg -coverage --coverage -pthread -rtlib= --rtlib= -unwindlib= --unwindlib= -stdlib= --stdlib=
		-static-libgcc -shared-libgcc -static-libstdc++ -static-libgfortran -static-libasan -shared-libasan -static-libsan -shared-libsan
		-static-libtsan -static-liblsan -static-libubsan -static-libhwasan -static-openmp -nostdlib -nostdlib++ -nodefaultlibs
		-nostartfiles -nolibc --sysroot= --gcc-install-dir= --gcc-triple= --driver-mode= -fexperimental-library
		-ffast-math -fno-fast-math -funsafe-math-optimizations -fno-unsafe-math-optimizations -fopenmp -fopenmp= -fno-openmp -fopenmp-simd
		-fopenacc -fsanitize= -fno-sanitize= -fsanitize-recover* -fno-sanitize-recover* -fsanitize-trap* -fno-sanitize-trap*
		-fsanitize-undefined-trap-on-error -fsanitize-link-runtime -fno-sanitize-link-runtime -fsanitize-link-c++-runtime
		-fno-sanitize-link-c++-runtime -fsanitize-minimal-runtime -fsanitize-coverage= -fsanitize-ignorelist= -fsanitize-blacklist=
		-fsanitize-address-use-after-scope -fsanitize-memory-track-origins* -fprofile-arcs -ftest-coverage -fprofile-generate
		-fprofile-generate= -fprofile-use -fprofile-use= -fprofile-instr-generate -fprofile-instr-generate= -fprofile-instr-use -fprofile-instr-use=
		-fcs-profile-generate* -fprofile-dir= -fprofile-update= -fno-profile-generate -fno-profile-instr-generate -fcoverage-mapping
		-ftree-parallelize-loops= -fxray-instrument -fno-xray-instrument -fcf-protection -fcf-protection= -fno-lto -fPIC -fpic -fPIE -fpie
		-fno-PIC -fno-pic -fno-PIE -fno-pie -fplt -fno-plt -fcommon -fno-common -fexceptions -fno-exceptions -frtti -fno-rtti
		-fasynchronous-unwind-tables -fno-asynchronous-unwind-tables -funwind-tables -fno-unwind-tables -ffunction-sections
		-fno-function-sections -fdata-sections -fno-data-sections -fstack-protector -fstack-protector-strong -fstack-protector-all
		-fno-stack-protector -fstack-clash-protection -fno-stack-clash-protection -fomit-frame-pointer -fno-omit-frame-pointer
		-foptimize-sibling-calls -fno-optimize-sibling-calls -fvisibility= -fvisibility-inlines-hidden -fstrict-aliasing -fno-strict-aliasing
		-fwrapv -ftrapv -fbuiltin -fno-builtin -ffreestanding -fhosted -fmath-errno -fno-math-errno -fno-inline -finline-functions
		-fno-omit-leaf-frame-pointer -fno-ident -fsigned-char -funsigned-char -fsemantic-interposition -fno-semantic-interposition
		-fsized-deallocation -faligned-new -fcoroutines -fconcepts -fmodules -fno-modules -fuse-cxa-atexit -fno-use-cxa-atexit
		-fthreadsafe-statics -fno-threadsafe-statics -fchar8_t -fno-char8_t -fblocks -fmerge-all-constants -fno-merge-all-constants
		-fno-builtin-* -fprofile-correction -fprofile-continuous -fprofile-list= -fprofile-abs-path -fcoverage-prefix-map= -fcoverage-compilation-dir=
		-fdebug-info-for-profiling -ffile-reproducible -ftrivial-auto-var-init= -ffp-contract= -ftrapping-math -fno-trapping-math -fno-signed-zeros
		-funroll-loops -fno-strict-overflow -fno-delete-null-pointer-checks -fsanitize-address-use-after-return= -fno-sanitize-address-use-after-scope
		-fhardened -fstrict-flex-arrays= -fno-gnu-unique -fms-extensions -nostdinc -nostdinc++ -stdlib++-isystem* --no-default-config
		-fzero-call-used-regs= -ftemplate-depth= -ftemplate-backtrace-limit= -fconstexpr-depth= -fconstexpr-steps=`)
	as := func(spelling string, spec string) {
		define(func(p *parser, _, value string) { p.driverFlag(spelling + value) }, spec)
	}
	as("-nostdlib", `--no-standard-libraries`)
	as("--target=", `--target= -target:`)
	as("--sysroot=", `--sysroot:`)
	as("--param=", `--param= --param:`)
	as("--gcc-toolchain=", `--gcc-toolchain= -gcc-toolchain:`)
	as("-resource-dir=", `-resource-dir= -resource-dir:`)
	define(func(p *parser, _, value string) {
		p.driverFlag(joined("-B", value)...)
		if strings.HasPrefix(value, "static") || strings.HasPrefix(value, "dynamic") || strings.HasPrefix(value, "symbolic") {
			p.opaque("-B" + value + ": not for the linker without -Wl")
		}
	}, `-B*: --prefix= --prefix:`)
	define(func(p *parser, name, value string) {
		p.driverFlag(name + value)
		p.Linker = linkerName(value)
		if p.Linker == "" {
			p.unknowable(name + value)
		}
	}, `-fuse-ld= --ld-path=`)

	// Code is generated by the link, or files are taken in another way.
	define(func(p *parser, name, value string) {
		p.driverFlag(name + value)
		p.opaque(name + value)
	}, `-flto* -ffat-lto-objects -fno-fat-lto-objects -fuse-linker-plugin -fno-use-linker-plugin -fwhole-program* -fno-whole-program-vtables
		-fvirtual-function-elimination -fsplit-lto-unit -fno-split-lto-unit -fthin-link-bitcode= -fthinlto-index= -fembed-bitcode*
		-fplugin= -fpass-plugin= -fvtable-verify= -fbasic-block-sections= -fprofile-sample-use= -fauto-profile=
		-femulated-tls -fno-emulated-tls -fgnu-tm -foffload*`)
	define(func(p *parser, _, _ string) { p.early = append(p.early, "-r") }, `-r`)
	define(func(p *parser, name, value string) {
		p.driverFlag(name + value)
		p.opaque(name + value)
		p.early = append(p.early, "--wrap=pthread_create")
	}, `-fsplit-stack -fno-split-stack`)
	define(func(p *parser, _, value string) { p.flag(joined("-x", value)...); p.unknowable("-x " + value) }, `-x*:`)
	define(func(p *parser, name, value string) {
		p.driverFlag(name + value)
		p.unknowable(name + value)
	}, `-specs= --specs= --config=`)
	define(func(p *parser, name, value string) {
		p.driverFlag(name, value)
		p.unknowable(name + " " + value)
	}, `-mllvm: -Xclang: -wrapper: -specs: --specs: --config:`)

	// What is for the linker.
	define(func(p *parser, _, value string) { p.late = append(p.late, strings.Split(value, ",")...) }, `-Wl,*`)
	define(func(p *parser, _, value string) { p.late = append(p.late, value) }, `-Xlinker: --for-linker= --for-linker:`)
	define(func(p *parser, _, value string) { p.late = append(p.late, joined("-l", value)...) }, `-l*:`)
	first := func(flag string, spec string) {
		define(func(p *parser, _, value string) { p.early = append(p.early, flag, value) }, spec)
	}
	first("-L", `-L*: --library-directory= --library-directory:`)
	first("-u", `-u*: --force-link= --force-link:`)
	first("-z", `-z*:`)
	first("-rpath", `-rpath:`)
	first("-e", `--entry= --entry: -e:`)
	first("-T", `-T:`)
	define(func(p *parser, _, _ string) { p.early = append(p.early, "-s") }, `-s`)
	define(func(p *parser, _, _ string) { p.early = append(p.early, "--export-dynamic") }, `-rdynamic`)

	// The kind of result.
	define(func(p *parser, _, _ string) { p.Shared = true; p.driverFlag("-shared") }, `-shared --shared`)
	define(func(p *parser, _, _ string) { p.PIE = Yes; p.driverFlag("-pie") }, `-pie --pie`)
	define(func(p *parser, _, _ string) { p.PIE = No; p.driverFlag("-no-pie") }, `-no-pie --no-pie -nopie`)
	define(func(p *parser, _, _ string) {
		p.Static = true
		p.driverFlag("-static")
		p.early = append(p.early, "-Bstatic")
	}, `-static --static`)
	define(func(p *parser, _, _ string) {
		p.Static, p.PIE = true, Yes
		p.driverFlag("-static-pie")
		p.early = append(p.early, "-Bstatic")
	}, `-static-pie --static-pie`)
	return t
}()

// linkerName returns what -fuse-ld= calls a linker.
func linkerName(value string) string {
	name := path.Base(value)
	if i := strings.LastIndex(name, "ld."); i >= 0 {
		name = name[i+len("ld."):]
	}
	name = strings.TrimRight(name, "-0123456789") // ld.lld-21
	if slices.Contains([]string{"bfd", "gold", "lld", "mold"}, name) {
		return name
	}
	return ""
}

// drive reads the line of a driver.
func (p *parser) drive(args []string) {
	for len(args) > 0 {
		w := args[0]
		args = args[1:]
		if w == "" || w[0] != '-' {
			p.late = append(p.late, w)
			continue
		}
		name, value, f, ok := lookUpDriver(w)
		if !ok {
			if w[1:] != "" && (w[1] == 'e' || w[1] == 'T') {
				// Drivers pass these on as they are, so that -export-dynamic
				// and -Ttext=0 are what they are for the linker.
				p.early = append(p.early, w)
				continue
			}
			p.flag(w)
			p.unknowable("unknown flag " + w)
			continue
		}
		if name == w && f.separate && !strings.HasSuffix(w, "=") {
			if len(args) == 0 {
				p.opaque("flag " + w + " without a value")
				p.dangling = append(p.dangling, w)
				return
			}
			value, args = args[0], args[1:]
		}
		f.effect(p, name, value)
	}
}

// lookUpDriver finds the flag w in the table.
func lookUpDriver(w string) (name, value string, f driverFlag, ok bool) {
	const longest = 64 // name of a flag
	if f, ok = driverFlags[w]; ok {
		return w, "", f, true
	}
	for n := min(len(w), longest); n > 0; n-- {
		if f, ok = driverFlags[w[:n]]; ok && f.joined {
			return w[:n], w[n:], f, true
		}
	}
	return "", "", f, false
}
