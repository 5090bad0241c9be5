package linkflags

import (
	"path"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
)

// option is a flag on a line.
type option struct {
	name, value string
	hasValue    bool
	words       []string // for a driver, in one spelling
	driver      bool     // it is a flag of the driver
}

// text returns o as one word, for reasons.
func (o option) text() string {
	if o.driver {
		return strings.Join(o.words, " ")
	}
	return strings.Join(o.linkerWords(), " ")
}

// linkerWords returns o for a linker, in one spelling.
func (o option) linkerWords() []string {
	switch {
	case len(o.name) == 1 && o.hasValue && (o.name == "O" || strings.HasPrefix(o.value, "@")):
		return []string{"-" + o.name + o.value} // a word that starts with @ would be a response file
	case len(o.name) == 1 && o.hasValue:
		return []string{"-" + o.name, o.value}
	case len(o.name) == 1:
		return []string{"-" + o.name}
	case o.hasValue:
		return []string{"--" + o.name + "=" + o.value}
	}
	return []string{"--" + o.name}
}

// effect applies a flag to the line that is read.
type effect func(*parser, option)

func ignore(*parser, option) {}

// record records the text of a flag.
func record(p *parser, o option) {
	for _, w := range o.words {
		p.Flags = append(p.Flags, Neutral(w))
	}
}

// recordSystem records a flag that chooses among the files of the system. Probes link with all of
// these flags, and compile with those of the driver (Line.Probe in libraries.go).
func recordSystem(p *parser, o option) {
	record(p, o)
	p.system = append(p.system, o.words...)
	if o.driver {
		p.driver = append(p.driver, o.words...)
	}
}

// recordUnusual records an unusual flag.
func recordUnusual(p *parser, o option) {
	if o.driver {
		recordSystem(p, o)
	} else {
		record(p, o)
	}
	p.markUnusual(o.text())
	// It may name a file that is linked.
	for _, file := range strings.FieldsFunc(o.value, func(c rune) bool { return strings.ContainsRune("=,:", c) }) {
		if words.Linkable(file) && (isOutput(file) || p.options.Built(file)) {
			p.addItem(File, file)
		}
	}
}

// setState returns the effect of a flag for the items after it.
func setState(f func(*State)) effect { return func(p *parser, _ option) { f(&p.State) } }

// flag is an entry of a table.
type flag struct {
	// separate is set if the value may be the next word, joined if it may be in the same word.
	separate, joined bool
	alias            string // the name to use instead
	effect           effect
}

// define adds flags to a table. Each word of spec is a name, with aliases after "|". A linker's flag ends with "=" if it has
// a value, and with "?" if it may have one. A driver's flag ends with "=" or "*" if its value is in the same word, and with
// ":" if it may be the next word.
func define(table map[string]flag, e effect, spec string) {
	for w := range strings.FieldsSeq(spec) {
		k := flag{effect: e}
		if strings.HasPrefix(w, "-") {
			w, k.separate = strings.CutSuffix(w, ":")
			w, k.joined = strings.CutSuffix(w, "*")
			k.joined = k.joined || strings.HasSuffix(w, "=")
		} else if s, ok := strings.CutSuffix(w, "="); ok {
			w, k.separate, k.joined = s, true, true
		} else {
			w, k.joined = strings.CutSuffix(w, "?")
		}
		for i, name := range strings.Split(w, "|") {
			if i > 0 {
				k.alias, _, _ = strings.Cut(w, "|")
			}
			if _, ok := table[name]; ok {
				panic("linkflags: two entries for " + name)
			}
			table[name] = k
		}
	}
}

// driverFlags are the flags of gcc and clang. A flag with a value in the same word is found by the longest name that is a
// prefix of the word.
var driverFlags = func() map[string]flag {
	t := map[string]flag{}
	// Flags that change only the names of written files.
	define(t, ignore, `-o*: --output= --output: -MF*: -MT*: -MQ*: -save-temps* --save-temps* -dumpbase: -dumpbase-ext: -dumpdir: -aux-info:`)
	// Flags for compilations and diagnostics. A driver may refuse them, or warn of them, which -Werror makes an error.
	define(t, record, `-D*: -U*: -I*: -iquote*: -isystem*: -idirafter*: -include*: -imacros*: -iprefix*: -iwithprefix*: -isysroot*: -fdebug-prefix-map=
		-ffile-prefix-map= -fmacro-prefix-map= -fdebug-compilation-dir= -ffile-compilation-dir= -g* -W* -w -v -pipe -time* -t -pedantic* -Xpreprocessor: -Xassembler: -M
		-MM -MD -MMD -MP -MG -fdiagnostics* -fcolor-diagnostics -fno-color-diagnostics -fansi-escape-codes -ftime-report -ftime-trace* -fcrash-diagnostics*
		-fno-crash-diagnostics -fmessage-length= -ferror-limit= -fmax-errors= -fcaret-diagnostics -fno-caret-diagnostics -fshow-column -fno-show-column -fverbose-asm
		-fdebug-types-section -fno-debug-types-section -fstandalone-debug -fno-standalone-debug -flimit-debug-info -fno-limit-debug-info -fsplit-dwarf-inlining
		-fno-split-dwarf-inlining -fno-canonical-system-headers -fno-working-directory -pass-exit-codes -no-canonical-prefixes -canonical-prefixes -Qunused-arguments
		-Qn -Qy --start-no-unused-arguments --end-no-unused-arguments`)
	// Flags that choose among the compiler's own files, and flags for the code that a link generates.
	define(t, recordSystem, `-Werror -Werror=* -gz -gz=* -O* -std= -ansi -m* -p -pg -coverage --coverage -pthread -rtlib= --rtlib= -unwindlib= --unwindlib= -stdlib= --stdlib=
		-static-libgcc -shared-libgcc -static-libstdc++ -static-libgfortran -static-libasan -shared-libasan -static-libsan -shared-libsan -static-libtsan
		-static-liblsan -static-libubsan -static-libhwasan -static-openmp -nostdlib -nostdlib++ -nodefaultlibs -nostartfiles -nolibc --sysroot= --gcc-install-dir=
		--gcc-triple= --driver-mode= -fexperimental-library -fno-fast-math -fno-unsafe-math-optimizations -fno-openmp -fopenmp-simd -fsanitize= -fno-sanitize=
		-fsanitize-recover* -fno-sanitize-recover* -fsanitize-trap* -fno-sanitize-trap* -fsanitize-undefined-trap-on-error -fsanitize-link-runtime
		-fno-sanitize-link-runtime -fsanitize-link-c++-runtime -fno-sanitize-link-c++-runtime -fsanitize-minimal-runtime -fsanitize-coverage= -fsanitize-ignorelist=
		-fsanitize-blacklist= -fsanitize-address-use-after-scope -fsanitize-memory-track-origins* -fprofile-arcs -ftest-coverage -fprofile-generate -fprofile-generate=
		-fprofile-use -fprofile-use= -fprofile-instr-generate -fprofile-instr-generate= -fprofile-instr-use -fprofile-instr-use= -fcs-profile-generate* -fprofile-dir=
		-fprofile-update= -fno-profile-generate -fno-profile-instr-generate -fcoverage-mapping -fxray-instrument -fno-xray-instrument -fcf-protection -fcf-protection=
		-fno-lto -fPIC -fpic -fPIE -fpie -fno-PIC -fno-pic -fno-PIE -fno-pie -fplt -fno-plt -fcommon -fno-common -fexceptions -fno-exceptions -frtti -fno-rtti
		-fasynchronous-unwind-tables -fno-asynchronous-unwind-tables -funwind-tables -fno-unwind-tables -ffunction-sections -fno-function-sections -fdata-sections
		-fno-data-sections -fstack-protector -fstack-protector-strong -fstack-protector-all -fno-stack-protector -fstack-clash-protection -fno-stack-clash-protection
		-fomit-frame-pointer -fno-omit-frame-pointer -foptimize-sibling-calls -fno-optimize-sibling-calls -fvisibility= -fvisibility-inlines-hidden -fstrict-aliasing
		-fno-strict-aliasing -fwrapv -ftrapv -fbuiltin -fno-builtin -ffreestanding -fhosted -fmath-errno -fno-math-errno -fno-inline -finline-functions
		-fno-omit-leaf-frame-pointer -fno-ident -fsigned-char -funsigned-char -fsemantic-interposition -fno-semantic-interposition -fsized-deallocation -faligned-new
		-fcoroutines -fconcepts -fmodules -fno-modules -fuse-cxa-atexit -fno-use-cxa-atexit -fthreadsafe-statics -fno-threadsafe-statics -fchar8_t -fno-char8_t -fblocks
		-fmerge-all-constants -fno-merge-all-constants -fno-builtin-* -fprofile-correction -fprofile-continuous -fprofile-list= -fprofile-abs-path
		-fcoverage-prefix-map= -fcoverage-compilation-dir= -fdebug-info-for-profiling -ffile-reproducible -ftrivial-auto-var-init= -ffp-contract= -ftrapping-math
		-fno-trapping-math -fno-signed-zeros -funroll-loops -fno-strict-overflow -fno-delete-null-pointer-checks -fsanitize-address-use-after-return=
		-fno-sanitize-address-use-after-scope -fhardened -fstrict-flex-arrays= -fno-gnu-unique -fms-extensions -nostdinc -nostdinc++ -stdlib++-isystem*
		--no-default-config -fzero-call-used-regs= -ftemplate-depth= -ftemplate-backtrace-limit= -fconstexpr-depth= -fconstexpr-steps=`)
	as := func(spelling, spec string) {
		define(t, func(p *parser, o option) {
			o.words = joined(spelling, o.value)
			recordSystem(p, o)
		}, spec)
	}
	as("-nostdlib", `--no-standard-libraries`)
	as("--target=", `--target= -target:`)
	as("--sysroot=", `--sysroot:`)
	as("--param=", `--param= --param:`)
	as("--gcc-toolchain=", `--gcc-toolchain= -gcc-toolchain:`)
	as("-resource-dir=", `-resource-dir= -resource-dir:`)
	define(t, func(p *parser, o option) {
		o.words = joined("-B", o.value)
		recordSystem(p, o)
		if strings.HasPrefix(o.value, "static") || strings.HasPrefix(o.value, "dynamic") || strings.HasPrefix(o.value, "symbolic") {
			p.markUnusual("-B" + o.value + ": not for the linker without -Wl")
		}
	}, `-B*: --prefix= --prefix:`)
	define(t, func(p *parser, o option) {
		recordSystem(p, o)
		if p.Linker = linkerName(o.value); p.Linker == "" {
			p.markUnusual(o.text())
		}
	}, `-fuse-ld= --ld-path=`)
	// Flags that generate code in the link, take files in another way, set up the processor (crtfastmath.o), or add libraries
	// that may call any name in a program.
	define(t, recordUnusual, `-flto* -ffat-lto-objects -fno-fat-lto-objects -fuse-linker-plugin -fno-use-linker-plugin -fwhole-program* -fno-whole-program-vtables
		-fvirtual-function-elimination -fsplit-lto-unit -fno-split-lto-unit -fthin-link-bitcode= -fthinlto-index= -fembed-bitcode* -fplugin= -fpass-plugin=
		-fvtable-verify= -fbasic-block-sections= -fprofile-sample-use= -fauto-profile= -femulated-tls -fno-emulated-tls -fgnu-tm -foffload* -fsplit-stack
		-fno-split-stack -specs= --specs= --config= -mllvm: -Xclang: -wrapper: -specs: --specs: --config: -Ofast -ffast-math -funsafe-math-optimizations -mdaz-ftz
		-fopenmp -fopenmp= -fopenacc -ftree-parallelize-loops=`)
	define(t, func(p *parser, o option) {
		o.words = joined("-x", o.value)
		record(p, o)
		p.markUnusual("-x " + o.value)
	}, `-x*:`)

	// Flags for the linker.
	define(t, func(p *parser, o option) { p.late = append(p.late, strings.Split(o.value, ",")...) }, `-Wl,*`)
	define(t, func(p *parser, o option) { p.late = append(p.late, o.value) }, `-Xlinker: --for-linker= --for-linker:`)
	define(t, func(p *parser, o option) { p.late = append(p.late, joined("-l", o.value)...) }, `-l*:`)
	for flag, spec := range map[string]string{
		"-L": `-L*: --library-directory= --library-directory:`, "-u": `-u*: --force-link= --force-link:`, "-z": `-z*:`, "-rpath": `-rpath:`,
		"-e": `--entry= --entry: -e:`, "-T": `-T:`,
	} {
		define(t, func(p *parser, o option) { p.early = append(p.early, flag, o.value) }, spec)
	}
	for flag, word := range map[string]string{"-r": "-r", "-s": "-s", "-rdynamic": "--export-dynamic"} {
		define(t, func(p *parser, _ option) { p.early = append(p.early, word) }, flag)
	}

	// The kind of output.
	kind := func(spelling, spec string, shared, static bool) {
		define(t, func(p *parser, o option) {
			o.words = []string{spelling}
			recordSystem(p, o)
			p.Shared, p.Static = p.Shared || shared, p.Static || static
			if static {
				p.early = append(p.early, "-Bstatic")
			}
		}, spec)
	}
	kind("-shared", `-shared --shared`, true, false)
	kind("-pie", `-pie --pie`, false, false)
	kind("-no-pie", `-no-pie --no-pie -nopie`, false, false)
	kind("-static", `-static --static`, false, true)
	kind("-static-pie", `-static-pie --static-pie`, false, true)
	return t
}()

// solib matches directories in which Bazel puts links to shared libraries.
var solib = lazyregexp.New(`^(\$ORIGIN|[^$])[^$]*/_solib_[^/]+(/[^./][^/]*)*/?$`)

// linkerFlags are the flags of the linkers bfd, gold, lld and mold.
var linkerFlags = func() map[string]flag {
	t := map[string]flag{}
	// Flags that all linkers know and that change no program.
	define(t, ignore, `o|output= M|print-map trace|t trace-symbol|y= v verbose? print-gc-sections no-print-gc-sections no-demangle`)
	// Flags that some linkers refuse. A running program can't see many of them.
	define(t, record, `Map= threads? thread-count= no-threads build-id? error-limit= color-diagnostics? no-color-diagnostics compress-debug-sections= dependency-file=
		reproduce= time-trace? time-trace-file= time-trace-granularity= stats no-stats print-memory-usage print-map-discarded cref no-cref demangle? gdb-index
		no-gdb-index debug-names no-debug-names print-icf-sections no-print-icf-sections print-archive-stats= why-extract= why-live= keep-memory no-keep-memory
		reduce-memory-overheads keep-files-mapped no-keep-files-mapped mmap-output-file no-mmap-output-file map-whole-files no-map-whole-files fork no-fork V
		separate-debug-file? add-gnu-debuglink= no-warnings|w warn-common no-warn-common warn-once warn-section-align warn-textrel warn-shared-textrel
		detect-odr-violations no-detect-odr-violations warn-backrefs no-warn-backrefs warn-backrefs-exclude= warn-symbol-ordering no-warn-symbol-ordering
		warn-ifunc-textrel no-warn-ifunc-textrel warn-execstack no-warn-execstack warn-rwx-segments no-warn-rwx-segments warn-mismatch no-warn-mismatch
		warn-search-mismatch no-warn-search-mismatch no-fatal-warnings check-sections no-check-sections error-execstack no-error-execstack error-rwx-segments
		no-error-rwx-segments strip-all|s strip-debug|S discard-none strip-debug-gdb strip-debug-non-line strip-lto-sections
		strip-discarded no-strip-discarded gc-keep-exported no-gc-keep-exported O= relax no-relax relax-gp no-relax-gp optimize-bb-jumps no-optimize-bb-jumps
		hash-style= hash-size= eh-frame-hdr no-eh-frame-hdr ld-generated-unwind-info no-ld-generated-unwind-info allow-shlib-undefined undefined-version
		no-undefined-version sort-common? image-base= text-segment|Ttext-segment= rodata-segment|Trodata-segment= ldata-segment|Tldata-segment= rosegment no-rosegment
		N|omagic n|nmagic orphan-handling= emit-relocs|q no-emit-relocs fix-cortex-a53-843419 fix-cortex-a53-835769 no-fix-cortex-a53-843419 no-fix-cortex-a53-835769
		force-bti apply-dynamic-relocs no-apply-dynamic-relocs pack-dyn-relocs= use-android-relr-tags package-metadata? execute-only no-execute-only no-merge-strings
		ignore-unresolved-symbol= keep-unique= ignore-data-address-equality ignore-function-address-equality no-export-dynamic enable-linker-version
		disable-linker-version define-common|d|dc|dp no-define-common dynamic-undefined-weak EL EB`)
	define(t, recordSystem, `m= sysroot= nostdlib enable-new-dtags disable-new-dtags no-dynamic-linker pie|pic-executable no-pie`)
	define(t, func(p *parser, o option) { p.Shared = true; recordSystem(p, o) }, `shared|Bshareable`)
	define(t, func(p *parser, o option) { record(p, o); p.GCSections = o.name == "gc-sections" }, `gc-sections no-gc-sections`)
	define(t, func(p *parser, o option) { record(p, o); p.NoUndefined = true }, `no-undefined defs no-allow-shlib-undefined unresolved-symbols= warn-unresolved-symbols
		error-unresolved-symbols`)
	define(t, func(p *parser, o option) { record(p, o); p.Soname = path.Base(o.value) }, `soname|h=`)
	define(t, func(p *parser, o option) {
		if o.value == "none" {
			record(p, o)
		} else {
			recordUnusual(p, o) // manifests don't have .llvm_addrsig, which it reads: see link-besides/icf-addrsig
		}
	}, `icf=`)
	define(t, func(p *parser, o option) { record(p, o); p.Bsymbolic = o.name == "Bsymbolic" }, `Bsymbolic Bno-symbolic`)

	// Flags that name symbols, export them, choose definitions, or change the order of units or sections. A flag that is
	// missing here is unusual as well, but its value in the next word becomes a file. Those that leave out symbols of functions
	// are here for traces: see trace-sound/discard-all.
	define(t, recordUnusual, `undefined|u= require-defined= entry|e= init= fini= defsym= wrap= export-dynamic|E export-dynamic-symbol= export-dynamic-symbol-list=
		dynamic-list= dynamic-list-data dynamic-list-cpp-new dynamic-list-cpp-typeinfo version-script= default-script|dT= script|T= just-symbols= section-start= Ttext=
		Tdata= Tbss= retain-symbols-file= discard-all|x discard-locals|X exclude-libs= auxiliary|f= filter|F= audit= depaudit|P= plugin= plugin-opt= mllvm= oformat= mri-script|c=
		relocatable|r|i symbol-ordering-file= section-ordering-file= call-graph-ordering-file= sort-section= remap-inputs= fatal-warnings`)

	// Flags for the items after them.
	define(t, setState(func(s *State) { s.WholeArchive = true }), `whole-archive`)
	define(t, setState(func(s *State) { s.WholeArchive = false }), `no-whole-archive`)
	define(t, setState(func(s *State) { s.AsNeeded = Yes }), `as-needed`)
	define(t, setState(func(s *State) { s.AsNeeded = No }), `no-as-needed`)
	define(t, setState(func(s *State) { s.Static = true }), `Bstatic|dn|non_shared|static`)
	define(t, setState(func(s *State) { s.Static = false }), `Bdynamic|dy|call_shared`)
	define(t, setState(func(s *State) { s.Lazy = true }), `start-lib`)
	define(t, setState(func(s *State) { s.Lazy = false }), `end-lib`)
	define(t, func(p *parser, _ option) { p.groups++; p.State.Group = p.groups }, `start-group|(`)
	define(t, setState(func(s *State) { s.Group = 0 }), `end-group|)`)
	define(t, func(p *parser, _ option) {
		p.saved = append(p.saved, p.savedState)
	}, `push-state`)
	define(t, func(p *parser, o option) {
		n := len(p.saved) - 1
		if n < 0 {
			recordUnusual(p, o)
			return
		}
		s := p.saved[n]
		p.saved = p.saved[:n]
		if s.format != p.format {
			s.format = "?" // gold restores the format, other linkers don't
		}
		s.Group, s.Lazy = p.State.Group, p.State.Lazy // linkers don't save these
		p.savedState = s
	}, `pop-state`)
	define(t, func(p *parser, o option) {
		p.format = strings.TrimPrefix(o.value, "default")
		if strings.HasPrefix(o.value, "elf") {
			p.format = ""
			recordUnusual(p, o)
		}
	}, `format|b=`)

	// Libraries, and directories in which they are searched for.
	define(t, func(p *parser, o option) {
		if p.format != "" {
			p.addBlob("-l" + o.value)
			return
		}
		p.addItem(Library, o.value)
	}, `library|l=`)
	define(t, func(p *parser, o option) { p.dirs = append(p.dirs, o.value) }, `library-path|L=`)
	define(t, func(p *parser, o option) {
		if o.name == "rpath" {
			p.RunPath = append(p.RunPath, strings.Split(o.value, ":")...)
		}
		for _, dir := range strings.Split(o.value, ":") {
			if !solib.MatchString(dir) { // it is the same for all of the build's libraries
				recordSystem(p, o)
				break
			}
		}
	}, `rpath= rpath-link=`)
	define(t, func(p *parser, o option) { // -rpath for a directory, --just-symbols for a file
		o.name = "rpath"
		if words.Linkable(o.value) {
			o.name = "just-symbols"
		}
		o.words = toLinker(o.linkerWords()...)
		t[o.name].effect(p, o)
	}, `R=`)
	define(t, func(p *parser, o option) {
		recordSystem(p, o)
		if !isKnownLoader(o.value) {
			p.markUnusual(o.text())
		}
	}, `dynamic-linker|I=`)
	define(t, recordKeyword, `z=`)
	return t
}()

// zKeywords are the keywords of -z that choose no definition and no order.
var zKeywords = words.Set(`now lazy relro norelro execstack noexecstack defs undefs combreloc nocombreloc common nocommon text notext textoff textwarn origin
		nodefaultlib nodelete nodlopen nodump copyreloc global separate-code noseparate-code separate-loadable-segments max-page-size= common-page-size= stack-size=
		start-stop-gc nostart-stop-gc start-stop-visibility= ibt ibtplt shstk cet-report= lam-u48 lam-u57 lam-u48-report= lam-u57-report= lam-report= x86-64-baseline
		x86-64-v2 x86-64-v3 x86-64-v4 isa-level-report= force-ibt retpolineplt hazardplt pac-plt force-bti bti-report= gcs= gcs-report= gcs-report-dynamic=
		dynamic-undefined-weak nodynamic-undefined-weak extern-protected-data noextern-protected-data indirect-extern-access noindirect-extern-access call-nop= rel rela
		pack-relative-relocs nopack-relative-relocs rewrite-endbr dead-reloc-in-nonalloc= keep-text-section-prefix nokeep-text-section-prefix nognustack gnustack
		sectionheader nosectionheader memory-seal nomemory-seal mark-plt nomark-plt report-relative-reloc unique-symbol nounique-symbol ifunc-noplt wxneeded unique
		nounique loadfltr no-dynamic-linker`)

// recordKeyword is the effect of -z.
func recordKeyword(p *parser, o option) {
	name, _, hasValue := strings.Cut(o.value, "=")
	if hasValue {
		name += "="
	}
	switch {
	case o.value == "origin" || o.value == "nodefaultlib":
		recordSystem(p, o)
	case zKeywords[name]:
		record(p, o)
		p.NoUndefined = p.NoUndefined || o.value == "defs"
	default:
		record(p, o)
		p.markUnusual("-z " + o.value)
	}
}

// isKnownLoader reports whether a path is that of glibc's or musl's dynamic loader, whose rules are known.
func isKnownLoader(p string) bool {
	base := path.Base(p)
	return strings.HasPrefix(base, "ld-linux") || strings.HasPrefix(base, "ld-musl-") || strings.HasPrefix(base, "ld64.so") || base == "ld.so.1"
}

// linkerName returns the linker that the value of -fuse-ld= names, or "".
func linkerName(value string) string {
	name := path.Base(value)
	if i := strings.LastIndex(name, "ld."); i >= 0 {
		name = name[i+len("ld."):]
	}
	switch name = strings.TrimRight(name, "-0123456789"); name { // ld.lld-21
	case "bfd", "gold", "lld", "mold":
		return name
	}
	return ""
}
