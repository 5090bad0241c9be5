package linkflags

import (
	"path"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
)

// Parse reads the words of a link's command line after the name of the driver.
func Parse(args []string, o Options) *Line {
	p := newParser(o)
	p.readDriver(p.expand(args, 0))
	return p.finish()
}

// ParseLinker reads the words of a line after the name of the linker itself.
func ParseLinker(args []string, o Options) *Line {
	p := newParser(o)
	p.late = args
	return p.finish()
}

func newParser(o Options) *parser {
	if o.Built == nil {
		o.Built = func(string) bool { return false }
	}
	return &parser{Line: new(Line), options: o}
}

// mayCallAny is the end of the reason for an unknown library of the system.
const mayCallAny = " of the system may call or look up any name"

// finish reads what the driver passes to the linker, and completes the line.
func (p *parser) finish() *Line {
	driver, system := p.Flags, p.system
	p.Flags, p.system = nil, nil
	p.readLinker(slices.Concat(p.early, p.expand(p.late, 0)))
	if p.format != "" {
		p.addBlob("what the driver adds")
	}
	// Drivers put -L in front of all that they pass on.
	var dirs []string
	for _, d := range p.dirs {
		if !isOutput(d + "/") {
			dirs = append(dirs, joined("-L", d)...)
		}
	}
	p.system = slices.Concat(system, dirs, p.system)
	for i, d := range dirs {
		dirs[i] = Neutral(d)
	}
	p.Flags = slices.Concat(driver, dirs, p.Flags, p.dangling)
	p.end = p.State
	p.end.Group, p.end.Lazy = 0, false
	p.resolve()
	for _, s := range p.systemLibraries() {
		if !s.runtime {
			p.markUnusual(s.name + mayCallAny)
		}
		if s.static && s.front && !strings.HasSuffix(s.name, ".o") {
			p.markUnusual(s.name + ", an archive of the system, is in front of what is built") // see link-inside/front-weak
		}
	}
	if !p.Shared && (slices.Contains(p.Flags, "-nostartfiles") || slices.Contains(p.Flags, "-nostdlib")) &&
		!slices.ContainsFunc(p.Items, func(x Item) bool { return strings.HasSuffix(x.Name, "crt1.o") }) {
		p.markUnusual("nothing on the line calls main")
	}
	return p.Line
}

// readDriver reads the line of a driver.
func (p *parser) readDriver(args []string) {
	for len(args) > 0 {
		w := args[0]
		args = args[1:]
		if w == "" || w[0] != '-' {
			p.late = append(p.late, w)
			continue
		}
		o := option{words: []string{w}, driver: true}
		var k flag
		var ok bool
		if o.name, o.value, k, ok = lookUpDriver(w); !ok {
			if w[1:] != "" && (w[1] == 'e' || w[1] == 'T') {
				// Drivers pass these on unchanged: -export-dynamic and -Ttext=0 are flags of the linker.
				p.early = append(p.early, w)
				continue
			}
			record(p, o)
			p.markUnusual("unknown flag " + w)
			continue
		}
		if o.name == w && k.separate && !strings.HasSuffix(w, "=") {
			if len(args) == 0 {
				p.markUnusual("flag " + w + " without a value")
				p.dangling = append(p.dangling, w)
				return
			}
			if o.value, args = args[0], args[1:]; k.joined {
				o.words = joined(w, o.value)
			} else {
				o.words = []string{w, o.value}
			}
		}
		k.effect(p, o)
	}
}

// lookUpDriver finds a driver's flag.
func lookUpDriver(w string) (name, value string, k flag, ok bool) {
	const longest = 64 // name of a flag
	if k, ok = driverFlags[w]; ok {
		return w, "", k, true
	}
	for n := min(len(w), longest); n > 0; n-- {
		if k, ok = driverFlags[w[:n]]; ok && k.joined {
			return w[:n], w[n:], k, true
		}
	}
	return "", "", k, false
}

// readLinker reads the line of a linker.
func (p *parser) readLinker(line []string) {
	for len(line) > 0 {
		w := line[0]
		line = line[1:]
		if w == "" || w[0] != '-' {
			p.addFile(w)
			continue
		}
		o, k, ok := lookUpLinker(w)
		if !ok {
			record(p, option{words: toLinker(w)})
			p.markUnusual("unknown flag " + w)
			continue
		}
		if k.separate && !o.hasValue {
			if len(line) == 0 {
				p.markUnusual("flag " + w + " without a value")
				p.dangling = append(p.dangling, toLinker(w)...)
				return
			}
			o.value, o.hasValue, line = line[0], true, line[1:]
		}
		o.words = toLinker(o.linkerWords()...)
		k.effect(p, o)
	}
}

// lookUpLinker finds a linker's flag.
func lookUpLinker(w string) (o option, k flag, ok bool) {
	name := w[1:]
	long := strings.HasPrefix(name, "-")
	if long {
		name = name[1:]
	}
	o.name, o.value, o.hasValue = strings.Cut(name, "=")
	k, ok = linkerFlags[o.name]
	if ok && (long || o.name == "o" || !strings.HasPrefix(o.name, "o")) && (k.joined || !o.hasValue) && (len(o.name) > 1 || !o.hasValue) {
		if k.alias != "" {
			o.name = k.alias
		}
		return o, k, o.name != "O" || o.hasValue
	}
	if long || name == "" || abbreviates(name) {
		return o, k, false
	}
	// One letter, followed by its value.
	o = option{name: name[:1], value: name[1:], hasValue: true}
	if k = linkerFlags[o.name]; !k.separate {
		return o, k, false
	}
	if k.alias != "" {
		o.name = k.alias
	}
	return o, k, true
}

// abbreviates reports whether a word may be the beginning of a long flag for a linker. Words that begin with l, L or o aren't:
// a value follows these letters.
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

// addBlob records a file that is linked as data. Its name becomes symbols, and its content is a link input.
func (p *parser) addBlob(name string) {
	p.Blobs = append(p.Blobs, name)
	record(p, option{words: toLinker("--format="+p.format, name, "--format=default")})
	p.markUnusual("--format=" + p.format)
}

// addFile records a file on the line.
func (p *parser) addFile(name string) {
	if p.format != "" {
		p.addBlob(name)
		return
	}
	p.addItem(File, name)
	if !words.Linkable(name) {
		p.markUnusual(name + " may be a linker script")
	}
}

// isOutput reports whether a path is that of an output of the build.
func isOutput(p string) bool {
	return strings.HasPrefix(p, "bazel-out/") || strings.Contains(p, "/bazel-out/")
}

// parser reads a line.
type parser struct {
	*Line
	options Options
	// early and late are the words that the driver passes to the linker: early ones in front, late ones at their place on the line.
	early, late []string
	// dangling is a last flag without its value.
	dangling []string
	dirs     []string // of -L

	savedState // of the next item
	saved      []savedState
	groups     int
}

// savedState is the state that --push-state saves.
type savedState struct {
	State
	format string // of --format, or empty for objects, archives and libraries
}

// joined returns the words of a driver's flag with its value in the same word. An empty value is a word of its own.
func joined(name, value string) []string {
	if value == "" {
		return []string{name, ""}
	}
	return []string{name + value}
}

// markUnusual records a reason why the link is unusual.
func (p *parser) markUnusual(reason string) {
	if reason = Neutral(reason); !slices.Contains(p.Unusual, reason) {
		p.Unusual = append(p.Unusual, reason)
	}
}

// addItem adds a file or library to the line.
func (p *parser) addItem(k Kind, name string) {
	p.Items = append(p.Items, Item{Kind: k, Name: name, State: p.State})
}

// driverLibraries are libraries that drivers link without -l, some of them because of a flag.
var driverLibraries = strings.Fields(`asan atomic atomic_asneeded c c++ c++abi dl gcc gcc_eh gcc_s gcov gomp gomp-plugin-host hwasan iomp5 itm lsan m
	omp pthread quadmath resolv rt ssp ssp_nonshared stdc++ stdc++exp supc++ tsan ubsan unwind`)

// resolve finds the items that the build knows.
func (p *parser) resolve() {
	for _, d := range p.dirs {
		if path.IsAbs(d) || strings.HasPrefix(d, "external/") {
			continue // of the toolchain
		}
		for _, name := range driverLibraries {
			if slices.Contains(p.driver, "-nostdlib") || slices.Contains(p.driver, "-nodefaultlibs") {
				break
			}
			if file := p.find(d, &Item{Name: name}); file != "" {
				p.markUnusual("-l" + name + ", which drivers add, may be " + file)
				if !slices.ContainsFunc(p.Items, func(x Item) bool { return x.Kind == Library && x.Name == name }) {
					p.addItem(File, file)
				}
			}
		}
	}
	for i := range p.Items {
		x := &p.Items[i]
		if x.Kind == File {
			if isOutput(x.Name) || p.options.Built(x.Name) {
				x.Built = x.Name
			}
			continue
		}
		foreign := ""
		for _, d := range p.dirs {
			if x.Built = p.find(d, x); x.Built != "" {
				break
			}
			if foreign == "" && !isOutput(d+"/") {
				foreign = d
			}
		}
		// No library of the system has a name that Bazel makes of a label.
		if x.Built != "" && foreign != "" && !mangledLibrary.MatchString(x.Built) {
			p.markUnusual("-l" + x.Name + " may be in " + foreign + ", too")
		}
	}
}

// find returns the path of a library in a directory, or "" if the build has none there.
func (p *parser) find(dir string, x *Item) string {
	names := []string{"lib" + x.Name + ".so", "lib" + x.Name + ".a"}
	if file, ok := strings.CutPrefix(x.Name, ":"); ok {
		names = []string{file}
	} else if x.Static {
		names = names[1:]
	}
	for _, n := range names {
		for _, file := range []string{dir + "/" + n, path.Join(dir, n)} {
			if p.options.Built(file) {
				return file
			}
		}
	}
	return ""
}

// mangledLibrary matches libraries that Bazel has named by their labels.
var mangledLibrary = lazyregexp.New(`/_solib_[^/]+/lib(lib|[^/]*_S)[^/]*$`)

// configuration matches the name of a configuration in paths of outputs.
var configuration = lazyregexp.New(`\bbazel-out/[^/]+/`)

// Neutral returns s with "_" for the names of configurations in paths of outputs.
func Neutral(s string) string {
	return configuration.ReplaceAllString(s, "bazel-out/_/")
}
