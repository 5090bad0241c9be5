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
	p.drive(p.expand(args, 0))
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

// ofTheSystem ends what is said of a library of the system that isn't known.
const ofTheSystem = " of the system may call or look up any name"

func (p *parser) finish() *Line {
	driver, system := p.Flags, p.system
	p.Flags, p.system = nil, nil
	p.run(slices.Concat(p.early, p.expand(p.late, 0)))
	if p.format != "" {
		p.blob("what the driver adds")
	}
	// Drivers put -L in front of what they pass on.
	var dirs []string
	for _, d := range p.dirs {
		if !IsOutput(d + "/") {
			dirs = append(dirs, joined("-L", d)...)
		}
	}
	p.system = slices.Concat(system, dirs, p.system)
	for i, d := range dirs {
		dirs[i] = Neutral(d)
	}
	p.Flags = slices.Concat(driver, dirs, p.Flags, p.dangling)
	p.end = p.state
	p.end.Group, p.end.Lazy = 0, false
	p.resolve()
	for _, s := range p.fromSystem() {
		if !s.runtime {
			p.unusual(s.name + ofTheSystem)
		}
		if s.static && s.front && !strings.HasSuffix(s.name, ".o") {
			p.unusual(s.name + ", an archive of the system, is in front of what is built") // see link-inside/front-weak
		}
	}
	if !p.Shared && (slices.Contains(p.Flags, "-nostartfiles") || slices.Contains(p.Flags, "-nostdlib")) &&
		!slices.ContainsFunc(p.Items, func(x Item) bool { return strings.HasSuffix(x.Name, "crt1.o") }) {
		p.unusual("nothing on the line calls main")
	}
	return p.Line
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
		o := option{words: []string{w}, driver: true}
		var k known
		var ok bool
		if o.name, o.value, k, ok = lookUpDriver(w); !ok {
			if w[1:] != "" && (w[1] == 'e' || w[1] == 'T') {
				// Drivers pass these on as they are, so that -export-dynamic
				// and -Ttext=0 are what they are for the linker.
				p.early = append(p.early, w)
				continue
			}
			counts(p, o)
			p.unusual("unknown flag " + w)
			continue
		}
		if o.name == w && k.separate && !strings.HasSuffix(w, "=") {
			if len(args) == 0 {
				p.unusual("flag " + w + " without a value")
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

// lookUpDriver finds the flag w in the table.
func lookUpDriver(w string) (name, value string, k known, ok bool) {
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
			counts(p, option{words: toLinker(w)})
			p.unusual("unknown flag " + w)
			continue
		}
		if k.separate && !o.has {
			if len(line) == 0 {
				p.unusual("flag " + w + " without a value")
				p.dangling = append(p.dangling, toLinker(w)...)
				return
			}
			o.value, o.has, line = line[0], true, line[1:]
		}
		o.words = toLinker(o.linkerWords()...)
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
	if ok && (long || o.name == "o" || !strings.HasPrefix(o.name, "o")) && (k.joined || !o.has) && (len(o.name) > 1 || !o.has) {
		if k.alias != "" {
			o.name = k.alias
		}
		return o, k, o.name != "O" || o.has
	}
	if long || name == "" || abbreviates(name) {
		return o, k, false
	}
	// A letter and its value.
	o = option{name: name[:1], value: name[1:], has: true}
	if k = linkerFlags[o.name]; !k.separate {
		return o, k, false
	}
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

// blob notes a file that is linked as it is: its name and its bytes are all that counts of it.
func (p *parser) blob(name string) {
	p.Blobs = append(p.Blobs, name)
	counts(p, option{words: toLinker("--format="+p.format, name, "--format=default")})
	p.unusual("--format=" + p.format)
}

func (p *parser) file(name string) {
	if p.format != "" {
		p.blob(name)
		return
	}
	p.item(File, name)
	if !words.Linkable(name) {
		p.unusual(name + " may be a linker script")
	}
}

// IsOutput tells whether a path is that of an output of the build.
func IsOutput(p string) bool {
	return strings.HasPrefix(p, "bazel-out/") || strings.Contains(p, "/bazel-out/")
}

// parser reads a line.
type parser struct {
	*Line
	options Options
	// early and late are the words that the linker gets: those that the driver
	// puts in front, and those whose place on the line it keeps.
	early, late []string
	// dangling are flags without the value that they need: nothing may follow.
	dangling []string
	dirs     []string // of -L

	state  State
	states []State
	// format is that of the files that follow, if they aren't objects, archives or libraries.
	format  string
	formats []string // when the states were kept
	groups  int
}

// joined returns the words of a driver's flag that has its value in the same word
// unless that is empty.
func joined(name, value string) []string {
	if value == "" {
		return []string{name, ""}
	}
	return []string{name + value}
}

// unusual notes why all that is linked has to count.
func (p *parser) unusual(reason string) {
	if reason = Neutral(reason); !slices.Contains(p.Unusual, reason) {
		p.Unusual = append(p.Unusual, reason)
	}
}

func (p *parser) item(k Kind, name string) {
	p.Items = append(p.Items, Item{Kind: k, Name: name, State: p.state})
}

// implicit are libraries that drivers link by themselves, some for a flag.
var implicit = strings.Fields(`asan atomic atomic_asneeded c c++ c++abi dl gcc gcc_eh gcc_s gcov gomp gomp-plugin-host hwasan iomp5 itm lsan m
	omp pthread quadmath resolv rt ssp ssp_nonshared stdc++ stdc++exp supc++ tsan ubsan unwind`)

// resolve finds the items that the build knows.
func (p *parser) resolve() {
	for _, d := range p.dirs {
		if path.IsAbs(d) || strings.HasPrefix(d, "external/") {
			continue // of the toolchain
		}
		for _, name := range implicit {
			if slices.Contains(p.driver, "-nostdlib") || slices.Contains(p.driver, "-nodefaultlibs") {
				break
			}
			if file := p.find(d, &Item{Name: name}); file != "" {
				p.unusual("-l" + name + ", which drivers add, may be " + file)
				if !slices.ContainsFunc(p.Items, func(x Item) bool { return x.Kind == Library && x.Name == name }) {
					p.item(File, file)
				}
			}
		}
	}
	for i := range p.Items {
		x := &p.Items[i]
		if x.Kind == File {
			if IsOutput(x.Name) || p.options.Built(x.Name) {
				x.Built = x.Name
			}
			continue
		}
		foreign := ""
		for _, d := range p.dirs {
			if x.Built = p.find(d, x); x.Built != "" {
				break
			}
			if foreign == "" && !IsOutput(d+"/") {
				foreign = d
			}
		}
		// Names that Bazel makes of the labels of libraries are nobody else's.
		if x.Built != "" && foreign != "" && !mangled.MatchString(x.Built) {
			p.unusual("-l" + x.Name + " may be in " + foreign + ", too")
		}
	}
}

// find returns the path of a library in a directory, if the build knows it.
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

// mangled matches a library that Bazel has named by its label.
var mangled = lazyregexp.New(`/_solib_[^/]+/lib(lib|[^/]*_S)[^/]*$`)

var configuration = lazyregexp.New(`\bbazel-out/[^/]+/`)

// Neutral returns s without the name of a configuration in paths of outputs.
func Neutral(s string) string {
	return configuration.ReplaceAllString(s, "bazel-out/_/")
}
