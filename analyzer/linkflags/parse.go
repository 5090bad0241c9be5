package linkflags

import (
	"path"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/lazyregexp"
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
	p.Entry = slices.DeleteFunc(p.Entry, func(s string) bool { return slices.Contains(p.Roots, s) })
	p.Roots = append(p.Roots, p.Entry...)
	for _, l := range []*[]string{&p.Roots, &p.Entry, &p.Given} {
		slices.Sort(*l)
		*l = slices.Compact(*l)
	}
	return p.Line
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

// flag adds a flag that counts.
func (p *parser) flag(words ...string) {
	for _, w := range words {
		p.Flags = append(p.Flags, Neutral(w))
	}
}

// quiet adds words that only a linker or driver that doesn't know them makes something of.
func (p *parser) quiet(words ...string) {
	for _, w := range words {
		p.Quiet = append(p.Quiet, Neutral(w))
	}
}

// systemFlag adds one that also decides which files of the system are opened.
func (p *parser) systemFlag(words ...string) {
	p.flag(words...)
	p.system = append(p.system, words...)
}

// driverFlag adds one that is for the driver.
func (p *parser) driverFlag(words ...string) {
	p.systemFlag(words...)
	p.driver = append(p.driver, words...)
}

// joined returns the words of a driver's flag that has its value in the same word
// unless that is empty.
func joined(name, value string) []string {
	if value == "" {
		return []string{name, ""}
	}
	return []string{name + value}
}

func (p *parser) opaque(reason string) {
	if reason = Neutral(reason); !slices.Contains(p.Opaque, reason) {
		p.Opaque = append(p.Opaque, reason)
	}
}

// unknowable notes that anything may come of a link.
func (p *parser) unknowable(reason string) {
	p.opaque(reason)
	p.Everything = true
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
				p.unknowable("-l" + name + ", which drivers add, may be " + file)
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
		if x.Built != "" && foreign != "" {
			p.opaque("-l" + x.Name + " may be in " + foreign + ", too")
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

var configuration = lazyregexp.New(`\bbazel-out/[^/]+/`)

// Neutral returns s without the name of a configuration in paths of outputs.
func Neutral(s string) string {
	return configuration.ReplaceAllString(s, "bazel-out/_/")
}
