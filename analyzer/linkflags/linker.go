package linkflags

import (
	"path"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/wordset"
)

// option is a flag of a linker as it stands on a line.
type option struct {
	name, value string
	has         bool // a value
}

// words returns the one spelling of o.
func (o option) words() []string {
	switch {
	case len(o.name) == 1 && o.has && (o.name == "O" || strings.HasPrefix(o.value, "@")):
		return []string{"-" + o.name + o.value} // a word that starts with @ is a file
	case len(o.name) == 1 && o.has:
		return []string{"-" + o.name, o.value}
	case len(o.name) == 1:
		return []string{"-" + o.name}
	case o.has:
		return []string{"--" + o.name + "=" + o.value}
	}
	return []string{"--" + o.name}
}

// known is an entry of the table of flags.
type known struct {
	arity  arity
	alias  string // the name to use instead
	effect func(*parser, option)
}

// arity says how a flag takes a value.
type arity uint8

const (
	none     arity = iota
	required       // --flag=value or --flag value
	optional       // --flag or --flag=value
)

// define adds flags to a table. Each word of spec is a name; "=" after it means
// that it has a value, "?" that it may have one. More names after it, separated
// by "|", mean the same.
func define(table map[string]known, effect func(*parser, option), spec string) {
	for w := range strings.FieldsSeq(spec) {
		k := known{effect: effect}
		if s, ok := strings.CutSuffix(w, "="); ok {
			w, k.arity = s, required
		} else if s, ok := strings.CutSuffix(w, "?"); ok {
			w, k.arity = s, optional
		}
		for i, name := range strings.Split(w, "|") {
			if i > 0 {
				k.alias, _, _ = strings.Cut(w, "|")
			}
			if _, twice := table[name]; twice {
				panic("linkflags: two entries for " + name)
			}
			table[name] = k
		}
	}
}

func ignored(*parser, option)    {}
func quiet(p *parser, o option)  { p.quiet(toLinker(o.words()...)...) }
func counts(p *parser, o option) { p.flag(toLinker(o.words()...)...) }
func system(p *parser, o option) { p.systemFlag(toLinker(o.words()...)...) }
func opens(p *parser, o option)  { counts(p, o); p.opaque(strings.Join(o.words(), " ")) }
func anything(p *parser, o option) {
	counts(p, o)
	p.unknowable(strings.Join(o.words(), " "))
	// It may have files of the build taken.
	for _, file := range strings.FieldsFunc(o.value, func(c rune) bool { return strings.ContainsRune("=,:", c) }) {
		if linkable(file) && (IsOutput(file) || p.options.Built(file)) {
			p.item(File, file)
		}
	}
}
func exports(p *parser, o option) { counts(p, o); p.Exported = true }
func rooting(p *parser, o option) { counts(p, o); p.Roots = append(p.Roots, o.value) }

func gives(p *parser, symbols ...string) {
	p.Roots, p.Given = append(p.Roots, symbols...), append(p.Given, symbols...)
}

func hooks(p *parser, o option) { rooting(p, o); p.Hooks = append(p.Hooks, o.value) }

func state(f func(*State)) func(*parser, option) {
	return func(p *parser, _ option) { f(&p.state) }
}

// symbols returns the names in an expression.
func symbols(expression string) []string {
	l := strings.FieldsFunc(expression, func(c rune) bool {
		return c < 0x80 && c != '_' && c != '$' && c != '.' && c != '@' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
	l = slices.DeleteFunc(l, func(s string) bool { return s[0] >= '0' && s[0] <= '9' })
	for _, s := range l {
		if name, _, versioned := strings.Cut(s, "@"); versioned && name != "" {
			l = append(l, name)
		}
	}
	return l
}

// asks matches expressions of linker scripts that say where sections are, or how big.
var asks = lazyregexp.New(`[A-Z_]\s*\(|(^|[^\w.$])\.($|[^\w.$])|SIZEOF_HEADERS|CONSTANT`)

// solib matches a directory in which Bazel puts links to shared libraries.
var solib = lazyregexp.New(`^(\$ORIGIN|[^$])[^$]*/_solib_[^/]+(/[^./][^/]*)*/?$`)

// linkerFlags are the flags of the linkers bfd, gold, lld and mold.
var linkerFlags = func() map[string]known {
	t := map[string]known{}
	// What each of the linkers knows and takes as it is.
	define(t, ignored, `o|output= M|print-map trace|t trace-symbol|y= v verbose print-gc-sections no-print-gc-sections no-demangle`)
	// What a linker tells about its work, how it does it, and what is in no
	// part of a file that is loaded: another linker may refuse it, or its value.
	define(t, quiet, `map-whole-files V stats print-memory-usage
		print-icf-sections no-print-icf-sections print-archive-stats= cref no-cref demangle? no-color-diagnostics
		no-threads thread-count-initial=
		thread-count-middle= thread-count-final= time-trace? time-trace-granularity= repro perf
		build-id-chunk-size-for-treehash= build-id-min-file-size-for-treehash= keep-memory no-keep-memory max-cache-size= reduce-memory-overheads
		no-keep-files-mapped keep-files-mapped mmap-output-file no-mmap-output-file fork no-fork quick-exit no-quick-exit no-map-whole-files
		error-handling-script= gdb-index no-gdb-index debug-names no-debug-names save-temps?
		why-extract= qmagic
		no-separate-debug-file start-stop-gc-report no-stats print-output-format print-sysroot
		link-mapless no-link-mapless print-map-discarded no-print-map-discarded print-map-locals no-print-map-locals
		no-ctf-variables`)
	// What may make the link an error is in the next list, too.
	define(t, counts, `Map= threads? thread-count= build-id? error-limit= color-diagnostics? compress-debug-sections= dependency-file= reproduce= time-trace-file=
		separate-debug-file? add-gnu-debuglink= no-warnings|w warn-common no-warn-common warn-once warn-section-align warn-textrel warn-shared-textrel detect-odr-violations no-detect-odr-violations why-live= warn-constructors warn-multiple-gp
		warn-alternate-em warn-backrefs no-warn-backrefs warn-backrefs-exclude= warn-symbol-ordering no-warn-symbol-ordering warn-ifunc-textrel
		no-warn-ifunc-textrel warn-execstack no-warn-execstack warn-rwx-segments no-warn-rwx-segments warn-execstack-objects warn-mismatch no-warn-mismatch
		warn-search-mismatch no-warn-search-mismatch warn-drop-version no-warn-drop-version fatal-warnings no-fatal-warnings check-sections no-check-sections no-undefined defs error-execstack no-error-execstack error-rwx-segments
		no-error-rwx-segments help target-help version ignore-unresolved-symbol= discard-sframe gnu-tls-tag no-gnu-tls-tag gnu2-tls-tag no-gnu2-tls-tag version-exports-section= strip-all|s strip-debug|S discard-all|x discard-locals|X discard-none strip-debug-gdb strip-debug-non-line strip-lto-sections strip-discarded
		no-strip-discarded gc-sections no-gc-sections gc-keep-exported no-gc-keep-exported keep-unique= ignore-data-address-equality
		ignore-function-address-equality O= relax no-relax relax-gp no-relax-gp optimize-bb-jumps no-optimize-bb-jumps
		hash-style= hash-size= hash-bucket-empty-fraction= eh-frame-hdr no-eh-frame-hdr ld-generated-unwind-info no-ld-generated-unwind-info
		allow-shlib-undefined no-allow-shlib-undefined unresolved-symbols= warn-unresolved-symbols error-unresolved-symbols
		undefined-version no-undefined-version soname|h= sort-common?
		spare-dynamic-tags= stub-group-size= text-segment|Ttext-segment= rodata-segment|Trodata-segment= ldata-segment|Tldata-segment=
		image-base= rosegment no-rosegment N|omagic n|nmagic no-omagic no-nmagic orphan-handling=
		emit-relocs|q no-emit-relocs target1-rel target1-abs target2= fix-cortex-a53-843419 fix-cortex-a53-835769 no-fix-cortex-a53-843419
		no-fix-cortex-a53-835769 fix-cortex-a8 no-fix-cortex-a8 fix-v4bx fix-v4bx-interworking use-blx no-use-blx be8 no-be8 pic-veneer
		merge-exidx-entries no-merge-exidx-entries no-apply-dynamic-relocs apply-dynamic-relocs pack-dyn-relocs= use-android-relr-tags
		tls-optimize no-tls-optimize toc-optimize no-toc-optimize toc-sort no-toc-sort plt-align plt-static-chain save-restore-funcs no-save-restore-funcs
		no-plt-localentry power10-stubs? no-power10-stubs pcrel-optimize no-pcrel-optimize emit-stub-syms
		force-bti secure-plt bss-plt define-common|d|dc|dp no-define-common traditional-format rela rel package-metadata? no-ctors-in-init-array ctors-in-init-array
		disable-multiple-abs-defs enable-linker-version disable-linker-version enable-non-contiguous-regions-warnings execute-only no-execute-only
		G|gpsize= architecture|A= EB EL nocompact no-merge-strings dynamic-undefined-weak long-plt no-long-plt
		export-dynamic-symbol-unneeded no-export-dynamic bti-report= gcs-report= gcs-report-dynamic= gcs=`)
	define(t, func(p *parser, o option) {
		counts(p, o)
		if o.value != "all" && o.value != "none" {
			p.unknowable(strings.Join(o.words(), " ")) // .llvm_addrsig decides what is folded, and is no part of manifests
		}
	}, `icf= safe-icf`)
	define(t, system, `m= sysroot= nostdlib enable-new-dtags disable-new-dtags no-dynamic-linker no-add-needed add-needed`)

	// Symbols.
	define(t, rooting, `undefined|u= require-defined=`)
	define(t, func(p *parser, o option) { counts(p, o); p.Entry = append(p.Entry, o.value) }, `entry|e=`)
	define(t, hooks, `init= fini=`)
	define(t, func(p *parser, o option) {
		opens(p, o)
		gives(p, symbols(o.value)...)
		if asks.MatchString(o.value) {
			p.unknowable(strings.Join(o.words(), " "))
		}
	}, `defsym= undefined-glob=`)
	define(t, func(p *parser, o option) {
		opens(p, o)
		gives(p, o.value, "__wrap_"+o.value, "__real_"+o.value)
	}, `wrap=`)
	define(t, exports, `export-dynamic|E`)
	define(t, func(p *parser, o option) { opens(p, o); p.Exported = true }, `export-dynamic-symbol= export-dynamic-symbol-list= dynamic-list= dynamic-list-data dynamic-list-cpp-new dynamic-list-cpp-typeinfo
		default-script|dT=`)
	for name, b := range map[string]Bsymbolic{
		"Bsymbolic": BsymbolicAll, "Bsymbolic-functions": BsymbolicFunctions, "Bsymbolic-non-weak": BsymbolicNonWeak,
		"Bsymbolic-non-weak-functions": BsymbolicNonWeakFunctions, "Bno-symbolic": BsymbolicNone,
	} {
		define(t, func(p *parser, o option) { counts(p, o); p.Bsymbolic = b }, name)
	}

	// The state of what follows.
	define(t, state(func(s *State) { s.WholeArchive = true }), `whole-archive`)
	define(t, state(func(s *State) { s.WholeArchive = false }), `no-whole-archive`)
	define(t, state(func(s *State) { s.AsNeeded = Yes }), `as-needed`)
	define(t, state(func(s *State) { s.AsNeeded = No }), `no-as-needed`)
	define(t, state(func(s *State) { s.Static = true }), `Bstatic|dn|non_shared|static`)
	define(t, state(func(s *State) { s.Static = false }), `Bdynamic|dy|call_shared`)
	define(t, state(func(s *State) { s.Lazy = true }), `start-lib`)
	define(t, state(func(s *State) { s.Lazy = false }), `end-lib`)
	define(t, func(p *parser, _ option) { p.groups++; p.state.Group = p.groups }, `start-group|(`)
	define(t, state(func(s *State) { s.Group = 0 }), `end-group|)`)
	define(t, func(p *parser, _ option) {
		p.states, p.formats = append(p.states, p.state), append(p.formats, p.format)
	}, `push-state`)
	define(t, func(p *parser, o option) {
		n := len(p.states) - 1
		if n < 0 {
			opens(p, o)
			return
		}
		s := p.states[n]
		if p.formats[n] != p.format {
			p.format = "?" // gold restores it, and others don't
		}
		p.states, p.formats = p.states[:n], p.formats[:n]
		s.Group, s.Lazy = p.state.Group, p.state.Lazy // not part of what is kept
		p.state = s
	}, `pop-state`)

	define(t, func(p *parser, o option) {
		p.format = o.value
		if o.value == "default" {
			p.format = ""
		} else if strings.HasPrefix(o.value, "elf") {
			p.format = ""
			anything(p, o)
		}
	}, `format|b=`)

	// Items and where they are searched for.
	define(t, func(p *parser, o option) {
		if p.format != "" {
			p.blob("-l" + o.value)
			return
		}
		p.item(Library, o.value)
	}, `library|l=`)
	define(t, func(p *parser, o option) { p.dirs = append(p.dirs, o.value) }, `library-path|L=`)
	define(t, func(p *parser, o option) {
		if o.name == "rpath" {
			p.RunPath = append(p.RunPath, strings.Split(o.value, ":")...)
		}
		// Where Bazel has put what it has linked is no news.
		if slices.ContainsFunc(strings.Split(o.value, ":"), func(dir string) bool { return !solib.MatchString(dir) }) {
			system(p, o)
		}
	}, `rpath= rpath-link=`)
	define(t, func(p *parser, o option) { // -rpath if it is a directory
		o.name = "rpath"
		if linkable(o.value) {
			o.name = "just-symbols"
		}
		t[o.name].effect(p, o)
	}, `R=`)
	define(t, func(p *parser, o option) {
		system(p, o)
		if !loader(o.value) {
			p.opaque(strings.Join(o.words(), " "))
		}
	}, `dynamic-linker|I=`)

	// The kind of result.
	define(t, func(p *parser, o option) { p.Shared = true; system(p, o) }, `shared|Bshareable`)
	define(t, func(p *parser, o option) { p.PIE = Yes; system(p, o) }, `pie|pic-executable`)
	define(t, func(p *parser, o option) { p.PIE = No; system(p, o) }, `no-pie`)

	// What takes the choice of a definition, or the order, out of our hands.
	define(t, opens, `default-symver default-imported-symver version-script= retain-symbols-file= exclude-libs= allow-multiple-definition noinhibit-exec plugin-opt= plugin-save-temps lto-O= lto-partitions= lto-obj-path= lto-emit-asm lto-emit-llvm lto-sample-profile= lto-whole-program-visibility
		lto-cs-profile-generate lto-cs-profile-file= lto-basic-block-sections= lto-unique-basic-block-section-names lto-newpm-passes= lto-aa-pipeline=
		lto-pgo-warn-mismatch no-lto-pgo-warn-mismatch thinlto-index-only? thinlto-jobs= thinlto-cache-dir= thinlto-cache-policy= thinlto-emit-imports-files
		fat-lto-objects no-fat-lto-objects opt-remarks-filename= opt-remarks-passes= opt-remarks-format= opt-remarks-with-hotness mllvm=
		copy-dt-needed-entries no-copy-dt-needed-entries call-graph-ordering-file= call-graph-profile-sort?
		no-call-graph-profile-sort auxiliary|f= filter|F= audit= depaudit|P= Bgroup Y= force-group-allocation
		no-gnu-unique gnu-unique accept-unknown-input-arch zdefs ctf-variables ctf-share-types=`)
	define(t, anything, `just-symbols= section-start= Ttext= Tdata= Tbss= script|T= mri-script|c= relocatable|r|i Ur plugin= oformat= remap-inputs= remap-inputs-file= symbol-ordering-file= section-ordering-file=
		shuffle-sections= shuffle-sections-seed= randomize-section-padding= sort-section= split-by-file? split-by-reloc? unique? enable-non-contiguous-regions embedded-relocs`)
	define(t, keyword, `z=`)
	return t
}()

// keywords of -z that choose no definition and no order.
var keywords = wordset.Of(`now lazy relro norelro execstack noexecstack defs undefs combreloc nocombreloc common nocommon text notext textoff textwarn origin nodefaultlib
	nodelete nodlopen nodump nocopyreloc copyreloc global separate-code noseparate-code separate-loadable-segments max-page-size= common-page-size= stack-size=
	start-stop-gc nostart-stop-gc start-stop-visibility= ibt ibtplt shstk cet-report= lam-u48 lam-u57 lam-u48-report= lam-u57-report= lam-report=
	x86-64-baseline x86-64-v2 x86-64-v3 x86-64-v4 isa-level-report= force-ibt retpolineplt hazardplt pac-plt force-bti bti-report= gcs= gcs-report= gcs-report-dynamic=
	dynamic-undefined-weak nodynamic-undefined-weak extern-protected-data noextern-protected-data indirect-extern-access
	noindirect-extern-access call-nop= rel rela pack-relative-relocs nopack-relative-relocs rewrite-endbr dead-reloc-in-nonalloc= keep-text-section-prefix
	nokeep-text-section-prefix nognustack gnustack sectionheader nosectionheader memory-seal nomemory-seal mark-plt nomark-plt report-relative-reloc unique-symbol
	nounique-symbol ifunc-noplt wxneeded unique nounique loadfltr no-dynamic-linker`)

func keyword(p *parser, o option) {
	name, _, has := strings.Cut(o.value, "=")
	if has {
		name += "="
	}
	if o.value == "origin" || o.value == "nodefaultlib" {
		system(p, o)
		return
	}
	counts(p, o)
	switch {
	case o.value == "muldefs" || o.value == "initfirst" || o.value == "interpose":
		p.opaque("-z " + o.value)
	case !keywords[name]:
		p.unknowable("-z " + o.value)
	}
}

// loader tells whether a path is that of a dynamic loader whose rules are known.
func loader(p string) bool {
	base := path.Base(p)
	return strings.HasPrefix(base, "ld-linux") || strings.HasPrefix(base, "ld-musl-") || strings.HasPrefix(base, "ld64.so") || base == "ld.so.1"
}

// short are the flags of one letter that may have their value in the same word.
const short = "eulLTzohImyYRfFcbAGPO"

// run reads the line of a linker.
func (p *parser) run(line []string) {
	for len(line) > 0 {
		w := line[0]
		line = line[1:]
		if w == "" || w[0] != '-' {
			p.file(w)
			continue
		}
		o, k, ok := lookUp(w)
		if !ok {
			p.unknown(w)
			continue
		}
		if k.arity == required && !o.has {
			if len(line) == 0 {
				p.opaque("flag " + w + " without a value")
				p.dangling = append(p.dangling, toLinker(w)...)
				return
			}
			o.value, o.has, line = line[0], true, line[1:]
		}
		k.effect(p, o)
	}
}

// lookUp finds the flag w in the table.
func lookUp(w string) (o option, k known, ok bool) {
	name := w[1:]
	long := strings.HasPrefix(name, "-")
	if long {
		name = name[1:]
	}
	o.name, o.value, o.has = strings.Cut(name, "=")
	k, ok = linkerFlags[o.name]
	if ok && (long || o.name == "o" || !strings.HasPrefix(o.name, "o")) && (k.arity != none || !o.has) && (len(o.name) > 1 || !o.has) {
		if k.alias != "" {
			o.name = k.alias
		}
		return o, k, o.name != "O" || o.has
	}
	if long || name == "" || !strings.Contains(short, name[:1]) || abbreviates(name) {
		return o, k, false
	}
	// A letter and its value.
	o = option{name[:1], name[1:], true}
	k = linkerFlags[o.name]
	if k.alias != "" {
		o.name = k.alias
	}
	return o, k, true
}

// abbreviates tells whether a linker may take a word for the beginning of a long
// flag. Those of one letter that drivers pass on are what they are.
func abbreviates(name string) bool {
	if strings.ContainsRune("lLo", rune(name[0])) || len(name) < 3 {
		return false
	}
	name, _, _ = strings.Cut(name, "=")
	for long := range linkerFlags {
		if strings.HasPrefix(long, name) {
			return true
		}
	}
	return false
}

func (p *parser) unknown(word string) {
	p.flag(toLinker(word)...)
	p.unknowable("unknown flag " + word)
}

// blob notes a file that is linked as it is: its name and its bytes are all that counts of it.
func (p *parser) blob(name string) {
	p.Blobs = append(p.Blobs, name)
	p.flag(toLinker("--format="+p.format, name, "--format=default")...)
	p.unknowable("--format=" + p.format)
}

func (p *parser) file(name string) {
	if p.format != "" {
		p.blob(name)
		return
	}
	p.item(File, name)
	if !linkable(name) {
		p.opaque(name + " may be a linker script")
	}
}

// linkable tells whether a file has the name of an object, an archive or a shared
// library.
func linkable(name string) bool {
	base := path.Base(name)
	return slices.Contains([]string{".o", ".obj", ".lo", ".a", ".la", ".lib", ".rlib", ".so", ".ifso"}, path.Ext(base)) || strings.Contains(base, ".so.")
}
