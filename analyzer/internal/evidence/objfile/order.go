package objfile

import (
	"bytes"
	"cmp"
	"debug/elf"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// linkToProgram sets c.place, by which programs may order components in memory. It links c to the orders of addresses
// that it can observe (manifest.OrderOfTypes and the like), and to manifest.OwnProgram if it reads the program's file.
func (r *hasher) linkToProgram(c *component) {
	s, ofAbseil := &r.sections[c.sec], false
	for _, i := range c.syms {
		sym := &r.syms[i]
		ofAbseil = ofAbseil || strings.HasPrefix(sym.name, "_ZN4absl") || strings.HasPrefix(sym.name, "_ZNK4absl")
		kind := uint32(manifest.PlaceVariables)
		switch {
		case sym.typ() == elf.STT_FUNC && s.executable():
			kind = manifest.PlaceFunctions
			for _, what := range ordersBy(sym.name) {
				r.addLink(c, link{-1, what})
			}
		case sym.typ() != elf.STT_OBJECT && sym.typ() != elf.STT_TLS:
			continue
		case strings.HasPrefix(sym.name, "_ZTS"):
			kind = manifest.PlaceOtherTypes
			if sym.value < uint64(len(s.data)) && s.data[sym.value] == '*' {
				kind = manifest.PlaceTypes
			}
		}
		if c.place == 0 || kind < c.place {
			c.place = kind
		}
	}
	if slices.ContainsFunc(c.links, func(l link) bool { return strings.Contains(l.symbol, treeInsert) }) &&
		!slices.ContainsFunc(c.syms, func(i int) bool { return strings.Contains(r.syms[i].name, "6__treeI") }) {
		r.addLink(c, link{-1, manifest.OrderOfVariables})
		r.addLink(c, link{-1, manifest.OrderOfTypes})
	}
	if namesOwnFile(r.message) && !r.isSymbolizer() || slices.ContainsFunc(c.links, func(l link) bool { return symbolize.MatchString(l.symbol) }) && !ofAbseil {
		r.addLink(c, link{-1, manifest.OwnProgram})
	}
}

// symbolize matches Abseil's function that finds names of functions in the program's own file. Abseil calls
// it only to report a deadlock or a fatal error.
var symbolize = lazyregexp.New(`^_ZN4absl(?:12lts_[0-9]{8})?9SymbolizeE`)

// isSymbolizer reports whether the object defines absl::Symbolize.
func (f *file) isSymbolizer() bool {
	return slices.ContainsFunc(f.syms, func(s symbol) bool { return s.sec > 0 && symbolize.MatchString(s.name) })
}

// treeInsert is in the name of the function of libc++ by which sets and maps grow. Where all else is inlined,
// optimised code calls it, and no name has the type of the key. See link-libcxx/leaky-map.
const treeInsert = "27__tree_balance_after_insert"

const (
	// firstOfKey matches the text in front of the first type in the key of an ordered container.
	firstOfKey = `(?:NS_12__value_typeI)?(?:(?:St|NS_)(?:4pairI|5tupleIJ|5arrayI|8optionalI|7variantIJ|6vectorI)|N?S[0-9A-Z]*_I)*[a-z]*`
	ordered    = `(?:St(?:8_Rb_tree|3map|3set|8multimap|8multiset)|` + libcxx + `(?:6__tree|3map|3set|8multimap|8multiset))I` + firstOfKey
	// The namespaces of libc++: of its ABI versions, Chromium's and Android's.
	libcxx         = `St(?:3__[12]|4__Cr|6__ndk1)`
	libcxxLess     = `(?:(?:4less|7greater|6__less)I|6ranges(?:4less|7greater)E)`
	libcxxPointers = `(?:NS_11__wrap_iterIP|NS_16__deque_iteratorI|P)P`
	byLess         = `.*(?:4less|7greater)`
	variable       = `(?:[^KcwaDv]|K[^cwaDv])` // the pointee of a pointer to a variable
)

// Names of functions that order pointers to string literals, to functions or to anything. See
// link-addresses/literals, functions and categories.
var (
	ofLiterals = lazyregexp.New(ordered + `PK[cwD]` + byLess)
	ofCode     = lazyregexp.New(ordered + `P(?:Do|DO.*E|Dw.*E)?F` + byLess)
	ofAny      = lazyregexp.New(ordered + `(?:P|(?:St|NS_)10error_code|(?:St|NS_)15error_condition)` + byLess +
		`|(?:sort|heap|merge)[a-z_]*I(?:N9__gnu_cxx17__normal_iteratorI|St15_Deque_iteratorI)?PP.*(?:4less|7greater|less_iter)` +
		`|^_ZN` + libcxx + `.*(?:sort|heap|merge|nth_element)[a-z_]*(?:B[0-9a-z]+)?I.*(?:(?:4less|7greater)IP|` + libcxxLess + `.*` + libcxxPointers + `|` + libcxxPointers + `.*` + libcxxLess + `)` +
		`|^_ZN` + libcxx + `(?:4list|12forward_list)IP.*(?:sort|merge)` +
		`|^_ZNK(?:St|` + libcxx + `)(?:4less|7greater)IP` + variable +
		`|14error_category(?:lt|ss)(?:B[0-9a-z]+)?E|^_Z(?:N` + libcxx + `|St)(?:lt|ss)(?:B[0-9a-z]+E)?RK(?:St|NS_)1[05]error_co`)
	// libc++ compares the names of all types by their addresses. See link-addresses/types-before.
	ofTypes = lazyregexp.New(libcxx + `.*10type_index|St9type_info6beforeB`)
	// GoogleMock's own sets of mock objects: only its messages about failures are in their order.
	harmless = lazyregexp.New(`N7testing(?:12_GLOBAL__N_115MockObjectState|8internal25UntypedFunctionMockerBase)E`)
)

// ordersBy returns the orders of addresses that a function with a name can observe, or manifest.OwnProgram.
func ordersBy(name string) (what []string) {
	if !strings.Contains(name, "4less") && !strings.Contains(name, "6__less") && !strings.Contains(name, "7greater") && !strings.Contains(name, "less_iter") && !strings.Contains(name, "error_c") && !strings.Contains(name, "type_in") && !strings.Contains(name, "5align") ||
		!strings.HasPrefix(name, "_Z") || harmless.MatchString(name) {
		return nil
	}
	switch {
	case strings.HasPrefix(name, "_ZSt5align"):
		what = append(what, manifest.OwnProgram) // std::align: all that lies in front decides; see link-addresses/aligned
	case ofLiterals.MatchString(name):
		what = append(what, manifest.OrderOfFunctions, manifest.OrderOfLiterals, manifest.OrderOfVariables)
	case ofCode.MatchString(name):
		what = append(what, manifest.OrderOfFunctions, manifest.OrderOfVariables)
	case ofAny.MatchString(name):
		what = append(what, manifest.OrderOfVariables)
	}
	if ofTypes.MatchString(name) {
		what = append(what, manifest.OrderOfTypes)
	}
	return what
}

// ownFiles matches files of a process. Code may hold the first eight bytes as a number.
var ownFiles = lazyregexp.New(`/proc/(?:(?:thread-)?se(?:lf(?:/([a-z_]*)([^\x00]*))?)?|%[a-z]+/([a-z_]*))`)

// harmlessFiles are files of a process that don't show its program, except for its size. RevealingFiles show its program
// or its memory. See link-addresses/same-status and own-map.
var (
	harmlessFiles = words.Set("attr auxv cgroup cmdline comm coredump_filter cwd environ fd fdinfo io limits loginuid mountinfo mounts mountstats " +
		"net ns oom_adj oom_score oom_score_adj personality root sched schedstat sessionid setgroups stat status task uid_map gid_map wchan")
	revealingFiles = words.Set("exe map_files maps mem numa_maps pagemap smaps smaps_rollup statm")
)

// namesOwnFile reports whether the content of a component names a file that shows its program. See link-addresses/own-file.
func namesOwnFile(content []byte) bool {
	if !bytes.Contains(content, []byte("/proc/")) {
		return false
	}
	return slices.ContainsFunc(ownFiles.FindAllSubmatch(content, -1), func(m [][]byte) bool {
		word, rest, ofNumber := string(m[1]), string(m[2]), string(m[3])
		if word == "task" {
			word = cmp.Or(rest[strings.LastIndex(rest, "/")+1:], word)
		}
		return revealingFiles[ofNumber] || ofNumber == "" && !harmlessFiles[word]
	})
}
