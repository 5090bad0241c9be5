package refgraph

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkmodel"
)

// prog is a program: units in the order of the link, and between them words that
// say where they are linked:
//
//	lib [bsymbolic] [uncertain] [indirect] [needs=N]...	begins a static library, which isn't on the
//		line of the executable if it is indirect; those that it needs, from 1
//	archive	begins an archive, end ends it
//
// A unit has one line per component:
//
//	[WORD]... NAME HASH [-> LINK...]
//
// with the words static, weak, unique, common, hidden, protected, root, code (a function that can be a stub),
// type, othertype, variable and function (which may be ordered by their addresses), group=SIGNATURE and set=SECTION. A link is to the component of that
// name if it is a local one of the unit, otherwise to the symbol: ?f is a weak
// reference, !f a hidden one, &f a direct one, =f is the component of this unit itself, whatever
// the linker does.
type prog []string

func newUnit(t testing.TB, name, text string) *manifest.Manifest {
	t.Helper()
	m := &manifest.Manifest{Rung: manifest.Rung_RUNG_OBJECT, Source: name, Units: []*manifest.Unit{{Exact: true}}}
	own, local := map[string]uint32{}, map[string]bool{}
	var links [][]string
	for line := range strings.Lines(text) {
		def, to, _ := strings.Cut(line, "->")
		f := strings.Fields(def)
		if len(f) == 0 {
			continue
		}
		c := &manifest.Component{Kind: manifest.Kind_KIND_FUNCTION, Linkage: manifest.Linkage_LINKAGE_EXTERNAL}
		d := &manifest.Definition{Binding: manifest.Binding_BINDING_GLOBAL}
		code := false
		for ; len(f) > 2; f = f[1:] {
			group, grouped := strings.CutPrefix(f[0], "group=")
			switch {
			case f[0] == "static":
				c.Linkage = manifest.Linkage_LINKAGE_LOCAL
			case f[0] == "weak":
				c.Linkage, d.Binding = manifest.Linkage_LINKAGE_WEAK, manifest.Binding_BINDING_WEAK
			case f[0] == "unique":
				c.Linkage, d.Binding = manifest.Linkage_LINKAGE_WEAK, manifest.Binding_BINDING_UNIQUE
			case f[0] == "common":
				c.Linkage, d.Binding, d.Size = manifest.Linkage_LINKAGE_WEAK, manifest.Binding_BINDING_COMMON, 4
			case f[0] == "hidden":
				d.Visibility = manifest.Visibility_VISIBILITY_HIDDEN
			case f[0] == "protected":
				d.Visibility = manifest.Visibility_VISIBILITY_PROTECTED
			case f[0] == "code":
				code = true
			case placeKinds[f[0]] != 0:
				c.Places = []uint32{uint32(len(m.Components))*manifest.PlaceKinds + placeKinds[f[0]]}
			case f[0] == "root":
				c.Root = "constructor"
			case grouped:
				c.Group = group
			case strings.HasPrefix(f[0], "set="):
				c.Linkage, c.Root = manifest.Linkage_LINKAGE_LOCAL, LinkerSet+f[0][4:]
			default:
				t.Fatalf("line %q", line)
			}
		}
		if c.Name, c.LocalHash = f[0], hash16(f[1]); code {
			c.Entries = []string{c.Name}
		}
		if c.Linkage != manifest.Linkage_LINKAGE_LOCAL {
			d.Name = c.Name
			c.Definitions = append(c.Definitions, d)
		}
		own[c.Name], local[c.Name] = uint32(len(m.Components)), c.Linkage == manifest.Linkage_LINKAGE_LOCAL
		m.Components = append(m.Components, c)
		links = append(links, strings.Fields(to))
	}
	symbols := map[string]uint32{}
	for i, l := range links {
		for _, to := range l {
			name := strings.TrimLeft(to, "?!&=")
			if own, ok := own[name]; ok && (local[name] || to[0] == '=') {
				m.Components[i].Links = append(m.Components[i].Links, 2*own)
				continue
			}
			k, ok := symbols[name]
			if !ok {
				k = uint32(len(m.Symbols))
				symbols[name] = k
				m.Symbols = append(m.Symbols, name)
				if _, ok := own[name]; !ok {
					r := &manifest.Reference{Name: name, Weak: to[0] == '?'}
					if to[0] == '&' {
						r.Uses = manifest.UseDirect
					}
					if to[0] == '!' {
						r.Visibility = manifest.Visibility_VISIBILITY_HIDDEN
					}
					m.Units[0].References = append(m.Units[0].References, r)
				}
			}
			m.Components[i].Links = append(m.Components[i].Links, 2*k+1)
		}
	}
	b, err := manifest.Marshal(m)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if m, err = manifest.Unmarshal(b); err != nil {
		t.Fatal(err)
	}
	return m
}

var placeKinds = map[string]uint32{
	"type": manifest.PlaceTypes, "othertype": manifest.PlaceOtherTypes, "variable": manifest.PlaceVariables, "function": manifest.PlaceFunctions,
}

func hash16(s string) []byte { return binary.BigEndian.AppendUint64([]byte("12345678"), fnv(s)) }

func fnv(s string) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(s) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// add adds the units of p to a pool, those that it hasn't yet, and returns the
// program.
func (p prog) add(t testing.TB, pool *Pool, known map[string]int32, linker linkmodel.Linker) *linkmodel.Program {
	t.Helper()
	x := &linkmodel.Program{Files: []linkmodel.File{{Name: "executable", Linker: linker}}}
	file := &x.Files[0]
	archive, lazy := 0, false
	for i, text := range p {
		f := strings.Fields(text)
		switch {
		case text == "archive":
			archive++
			lazy = true
		case text == "end":
			lazy = false
		case len(f) > 0 && f[0] == "lib":
			number := int32(len(x.Files))
			x.Files[0].Entries = append(x.Files[0].Entries, linkmodel.Entry{Library: number})
			x.Files = append(x.Files, linkmodel.File{Name: fmt.Sprint("library ", number), Linker: linker})
			file, lazy = &x.Files[number], false
			for _, w := range f[1:] {
				switch need, ok := strings.CutPrefix(w, "needs="); {
				case w == "bsymbolic":
					file.Bsymbolic = true
				case w == "indirect":
					x.Files[0].Entries = slices.DeleteFunc(x.Files[0].Entries, func(e linkmodel.Entry) bool { return e.Library == number })
				case w == "uncertain":
					x.Unusual = "a version script"
				case ok:
					file.Entries = append(file.Entries, linkmodel.Entry{Library: int32(need[0] - '0')})
				default:
					t.Fatalf("word %q", w)
				}
			}
		default:
			u, ok := known[text]
			if !ok {
				u = pool.Add(newUnit(t, fmt.Sprint("unit", i), text))[0]
				if known != nil {
					known[text] = u
				}
			}
			file.Entries = append(file.Entries, linkmodel.Entry{Unit: u, Lazy: lazy, Archive: archive})
		}
	}
	if s := pool.Symbols.Lookup("main"); s != linkmodel.None {
		x.Needs = []linkmodel.Symbol{s}
	}
	return x
}

func (p prog) closure(t testing.TB) *Closure {
	t.Helper()
	pool := NewPool()
	x := p.add(t, pool, nil, linkmodel.GNU)
	return pool.NewComposer().Compose(x, Roots{Symbols: []string{"main"}, System: inLibc})
}

// inLibc says that all symbols that no unit defines are in the C library.
func inLibc(string) string { return "" }

// Each case holds two programs and whether they have the same hash.
func TestPairs(t *testing.T) {
	const (
		hidden = " \n hidden weak h 3 -> n \n hidden weak n 4" // an inline function and its static variable
		dlsym  = "main 1 -> dlsym"
	)
	for _, tc := range []struct {
		name string
		a, b prog
		same bool
	}{
		{"body", prog{"main 1 -> f", "f 1"}, prog{"main 1 -> f", "f 2"}, false},
		{"unreachable", prog{"main 1 -> f", "f 1 \n g 1"}, prog{"main 1 -> f", "f 1 \n g 2"}, true},
		{"unreachable added", prog{"main 1 -> f", "f 1"}, prog{"main 1 -> f", "f 1 \n g 2 -> f"}, true},
		{"definition appears", prog{"main 1 -> f", "g 1"}, prog{"main 1 -> f", "f 1"}, false},
		{"moved function", prog{"main 1 -> f g", "f 1 -> g \n g 2"}, prog{"main 1 -> f g", "f 1 -> g", "g 2"}, true},
		{"moved into main's unit", prog{"main 1 -> f", "f 1"}, prog{"main 1 -> f \n f 1"}, true},
		{"moved to a library", prog{"main 1 -> f", "f 1"}, prog{"main 1 -> f", "lib", "f 1"}, false},
		{"library split", prog{"main 1 -> f", "lib", "f 1 -> g \n g 2 -> h \n h 3"}, prog{"main 1 -> f", "lib", "h 3", "g 2 -> h", "lib", "f 1 -> g"}, false},
		{"local renamed", prog{"main 1 -> x \n static x 2"}, prog{"main 1 -> y \n static y 2"}, true},
		{"order of links", prog{"main 1 -> f g", "f 1 \n g 2"}, prog{"main 1 -> g f", "f 1 \n g 2"}, false},
		{"exchanged definitions", prog{"main 1 -> f g", "f 1 \n g 2"}, prog{"main 1 -> f g", "f 2 \n g 1"}, false},

		// Strongly connected groups: m <-> o, o -> k. A change in k must be seen
		// through m.
		{"child of another member", prog{"main 1 -> m", "m 1 -> o \n o 2 -> m k \n k 3"}, prog{"main 1 -> m", "m 1 -> o \n o 2 -> m k \n k 4"}, false},
		{"other member", prog{"main 1 -> m", "m 1 -> o \n o 2 -> m"}, prog{"main 1 -> m", "m 1 -> o \n o 3 -> m"}, false},
		// Same members, same children, other edges: the sorted form can't tell.
		{"members exchange children", prog{"main 1 -> m", "m 1 -> o k \n o 2 -> m l \n k 3 \n l 4"}, prog{"main 1 -> m", "m 1 -> o l \n o 2 -> m k \n k 3 \n l 4"}, false},
		{"entry into a group", prog{"main 1 -> x \n static x 1 -> y \n static y 2 -> x"}, prog{"main 1 -> y \n static x 1 -> y \n static y 2 -> x"}, false},
		{"self reference", prog{"main 1 -> f", "f 1 -> f"}, prog{"main 1 -> f", "f 1"}, false},
		{"group renamed", prog{"main 1 -> x \n static x 1 -> y \n static y 2 -> x"}, prog{"main 1 -> b \n static b 1 -> a \n static a 2 -> b"}, true},
		{"group moved", prog{"main 1 -> m", "m 1 -> o \n o 2 -> m"}, prog{"main 1 -> m", "lib", "o 2 -> m", "lib", "m 1 -> o"}, false},

		// Order in memory.
		{"types in another order", prog{"main 1 -> f g", "f 1 -> x \n static type x 3", "g 2 -> y \n static type y 4"}, prog{"main 1 -> f g", "g 2 -> y \n static type y 4", "f 1 -> x \n static type x 3"}, false},
		{"equal types in another order", prog{"main 1 -> f g", "f 1 -> x \n static type x 3", "g 2 -> x \n static type x 3"}, prog{"main 1 -> f g", "g 2 -> x \n static type x 3", "f 1 -> x \n static type x 3"}, false},
		{"types in another order within a unit", prog{"main 1 -> x y \n static type x 3 \n static type y 4"}, prog{"main 1 -> x y \n static type y 4 \n static type x 3"}, false},
		{"types in libraries in another order", prog{"main 1 -> f g", "lib", "f 1 -> x \n static type x 3", "lib", "g 2 -> y \n static type y 4"}, prog{"main 1 -> f g", "lib", "g 2 -> y \n static type y 4", "lib", "f 1 -> x \n static type x 3"}, false},
		{"types and what isn't reached", prog{"main 1 -> f g", "f 1 -> x \n static type x 3 \n static type z 5", "g 2 -> y \n static type y 4"}, prog{"main 1 -> f g", "h 5 -> z \n static type z 5", "f 1 -> x \n k 1 \n static type x 3", "u 1", "g 2 -> y \n static type y 4"}, true},
		{"one type that moves", prog{"main 1 -> f g", "f 1 -> x \n static type x 3", "g 2"}, prog{"main 1 -> f g", "g 2", "f 1 -> x \n static type x 3"}, true},
		{"names of other types in another order", prog{"main 1 -> x y", "othertype x 3", "othertype y 4"}, prog{"main 1 -> x y", "othertype y 4", "othertype x 3"}, true},
		{"names of other types in another order, with libc++", prog{"main 1 -> x y *types", "othertype x 3", "othertype y 4"}, prog{"main 1 -> x y *types", "othertype y 4", "othertype x 3"}, false},
		{"variables in another order", prog{"main 1 -> x y", "variable x 3", "variable y 4"}, prog{"main 1 -> x y", "variable y 4", "variable x 3"}, true},
		{"variables in an order that counts", prog{"main 1 -> f x y", "f 1 -> *variables", "variable x 3", "variable y 4"}, prog{"main 1 -> f x y", "f 1 -> *variables", "variable y 4", "variable x 3"}, false},
		{"variables in an order that counts for what isn't reached", prog{"main 1 -> x y", "f 1 -> *variables", "variable x 3", "variable y 4"}, prog{"main 1 -> x y", "f 1 -> *variables", "variable y 4", "variable x 3"}, true},
		{"functions among variables whose order counts", prog{"main 1 -> *variables x y", "function x 3", "variable y 4"}, prog{"main 1 -> *variables x y", "variable y 4", "function x 3"}, true},
		{"functions in an order that counts", prog{"main 1 -> *functions *variables x y", "function x 3", "function y 4"}, prog{"main 1 -> *functions *variables x y", "function y 4", "function x 3"}, false},

		// Sharing.
		{"static variable is split", // moving g takes a copy of x along
			prog{"main 1 -> f g", "f 1 -> x \n g 2 -> x \n static x 3"},
			prog{"main 1 -> f g", "f 1 -> x \n static x 3", "g 2 -> x \n static x 3"}, false},
		{"equal statics are exchanged",
			prog{"main 1 -> f g", "f 1 -> x y \n g 2 -> x y \n static x 3 \n static y 3"},
			prog{"main 1 -> f g", "f 1 -> x y \n g 2 -> y x \n static x 3 \n static y 3"}, false},
		{"equal statics are renamed",
			prog{"main 1 -> f g", "f 1 -> x y \n g 2 -> x y \n static x 3 \n static y 3"},
			prog{"main 1 -> f g", "f 1 -> y x \n g 2 -> y x \n static x 3 \n static y 3"}, true},
		{"header's static function is split",
			prog{"main 1 -> f g", "f 1 -> s \n g 2 -> s \n static s 3"},
			prog{"main 1 -> f g", "f 1 -> s \n static s 3", "g 2 -> s \n static s 3"}, false},
		{"header's static function is split between libraries",
			prog{"main 1 -> f g", "lib", "f 1 -> s \n g 2 -> s \n static s 3"},
			prog{"main 1 -> f g", "lib", "f 1 -> s \n static s 3", "lib", "g 2 -> s \n static s 3"}, false},
		{"header's static function is split between libraries that bind a symbol in their own way",
			prog{"main 1 -> f g", "lib", "f 1 -> s \n g 2 -> s \n static s 3 -> h \n hidden weak h 5"},
			prog{"main 1 -> f g", "lib", "f 1 -> s \n static s 3 -> h \n hidden weak h 5", "lib", "g 2 -> s \n static s 3 -> h \n hidden weak h 5"}, false},
		{"header's recursive static functions are split",
			prog{"main 1 -> f g", "f 1 -> s \n g 2 -> s \n static s 3 -> t \n static t 4 -> s"},
			prog{"main 1 -> f g", "f 1 -> s \n static s 3 -> t \n static t 4 -> s", "g 2 -> s \n static s 3 -> t \n static t 4 -> s"}, false},
		{"header's static function with a static variable is split",
			prog{"main 1 -> f g", "f 1 -> s \n g 2 -> s \n static s 3 -> n \n static n 4"},
			prog{"main 1 -> f g", "f 1 -> s \n static s 3 -> n \n static n 4", "g 2 -> s \n static s 3 -> n \n static n 4"}, false},
		{"header's functions around a static variable are split",
			prog{"main 1 -> f g", "f 1 -> r \n g 2 -> r \n static r 5 -> s \n static s 3 -> n \n static n 4"},
			prog{"main 1 -> f g", "f 1 -> r \n static r 5 -> s \n static s 3 -> n \n static n 4", "g 2 -> r \n static r 5 -> s \n static s 3 -> n \n static n 4"}, false},
		{"twins outside the closure",
			prog{"main 1 -> f", "f 1 -> x \n static x 3"},
			prog{"main 1 -> f", "f 1 -> x \n static x 3", "g 2 -> x \n static x 3"}, true},
		{"function with a hidden inline function's static variable moves to another library",
			prog{"main 1 -> f g", "lib", "f 1 -> h" + hidden, "g 2 -> h" + hidden, "lib", "k 1"},
			prog{"main 1 -> f g", "lib", "f 1 -> h" + hidden, "lib", "k 1", "g 2 -> h" + hidden}, false},
		{"function with a default inline function's static variable moves to another library",
			prog{"main 1 -> f g", "lib", "f 1 -> h \n weak h 3 -> n \n weak n 4", "g 2 -> h \n weak h 3 -> n \n weak n 4", "lib", "k 1"},
			prog{"main 1 -> f g", "lib", "f 1 -> h \n weak h 3 -> n \n weak n 4", "lib", "k 1", "g 2 -> h \n weak h 3 -> n \n weak n 4"}, true},
		{"libraries with hidden copies are merged",
			prog{"main 1 -> f g", "lib", "f 1 -> h" + hidden, "lib", "g 2 -> h" + hidden},
			prog{"main 1 -> f g", "lib", "f 1 -> h" + hidden, "g 2 -> h" + hidden}, false},
		{"a third library with hidden copies that nobody uses",
			prog{"main 1 -> f g", "lib", "f 1 -> h" + hidden, "lib", "g 2 -> h" + hidden},
			prog{"main 1 -> f g", "lib", "f 1 -> h" + hidden, "lib", "g 2 -> h" + hidden, "lib", "k 2 -> h" + hidden}, false},
		{"the same unit in two libraries instead of one", // each has its own x
			prog{"main 1 -> f g", "lib", "f 1 -> c", "c 1 -> x \n static x 3", "lib", "g 1 -> c"},
			prog{"main 1 -> f g", "lib", "f 1 -> c", "c 1 -> x \n static x 3", "lib", "g 1 -> c", "c 1 -> x \n static x 3"}, true}, // the first one wins for both
		{"the same unit in two libraries, hidden",
			prog{"main 1 -> f g", "lib", "f 1 -> c", "g 1 -> c", "hidden c 1 -> x \n static x 3"},
			prog{"main 1 -> f g", "lib", "f 1 -> c", "hidden c 1 -> x \n static x 3", "lib", "g 1 -> c", "hidden c 1 -> x \n static x 3"}, false},

		// Several definitions in a file.
		{"copy of an inline function",
			prog{"main 1 -> f w \n weak w 5", "f 1"},
			prog{"main 1 -> f w \n weak w 5", "f 1 -> w \n weak w 5"}, false}, // f links to it now
		{"copy of an inline function that nobody here needs",
			prog{"main 1 -> f w \n weak w 5", "f 1"},
			prog{"main 1 -> f w \n weak w 5", "f 1 \n weak w 5"}, true},
		{"copies refer to copies",
			prog{"main 1 -> v \n weak v 5 -> w \n weak w 6 -> v", "f 1"},
			prog{"main 1 -> v \n weak v 5 -> w \n weak w 6 -> v", "weak v 5 -> w \n weak w 6 -> v \n f 1"}, true},
		{"weak default is overridden", prog{"main 1 -> w", "weak w 5"}, prog{"main 1 -> w", "weak w 5", "w 6"}, false},
		{"overriding definition changes", prog{"main 1 -> w", "weak w 5", "w 6"}, prog{"main 1 -> w", "weak w 5", "w 7"}, false},
		{"loser changes", prog{"main 1 -> w", "weak w 5", "w 6"}, prog{"main 1 -> w", "weak w 7", "w 6"}, true},
		{"loser changes whom it calls", prog{"main 1 -> w", "weak w 5 -> f", "w 6", "f 1"}, prog{"main 1 -> w", "weak w 5 -> f", "w 6", "f 2"}, true},
		{"order of weak definitions", prog{"main 1 -> w", "weak w 5", "weak w 6"}, prog{"main 1 -> w", "weak w 6", "weak w 5"}, false},
		{"order of definitions, same winner", prog{"main 1 -> w", "weak w 5", "w 6"}, prog{"main 1 -> w", "w 6", "weak w 5"}, true},
		{"overridden in its own unit", prog{"main 1 -> w \n weak w 5", "w 6"}, prog{"main 1 -> w \n weak w 5", "w 7"}, false},
		{"inlined definition", // the compiler may have used the first body of w
			prog{"main 1 -> =w w \n weak w 5", "w 6"}, prog{"main 1 -> =w w \n weak w 7", "w 6"}, false},
		{"definition of the unit itself", prog{"main 1 -> w \n weak w 5", "w 6"}, prog{"main 1 -> w \n weak w 7", "w 6"}, true},
		{"members of one archive are grouped differently",
			prog{"main 1 -> w v", "weak w 5", "weak w 6 \n v 1"}, prog{"main 1 -> w v", "weak w 5 \n v 1", "weak w 6"}, true},
		{"weak becomes strong", prog{"main 1 -> w", "weak w 5"}, prog{"main 1 -> w", "w 5"}, false},
		{"local doesn't resolve", prog{"main 1 -> s", "static s 1"}, prog{"main 1 -> s", "static s 2"}, true},
		{"a tentative definition gets a value", prog{"main 1 -> v", "common v 1"}, prog{"main 1 -> v", "common v 1", "v 2"}, false},
		{"several tentative definitions", prog{"main 1 -> v", "common v 1", "common v 2"}, prog{"main 1 -> v", "common v 1", "common v 3"}, false},
		{"discarded group", prog{"main 1 -> f g", "weak group=f f 1", "weak group=f f 2 \n weak group=f g 2", "weak g 3"},
			prog{"main 1 -> f g", "weak group=f f 1", "weak group=f f 2 \n weak group=f g 4", "weak g 3"}, true},
		{"kept group", prog{"main 1 -> f g", "weak group=f f 2 \n weak group=f g 2", "weak g 3"},
			prog{"main 1 -> f g", "weak group=f f 2 \n weak group=f g 4", "weak g 3"}, false},

		// Several files: which there are, in which order, and which needs which is in the shape of a link.
		{"a library that wins nothing", prog{"main 1 -> f w", "lib", "f 1 -> w \n weak w 5"}, prog{"main 1 -> f w", "lib", "f 1 -> w \n weak w 5", "lib", "k 1 \n w 6"}, false},
		{"a library that wins", prog{"main 1 -> f w", "lib", "f 1 -> w \n weak w 5"}, prog{"main 1 -> f w", "lib", "k 1 \n w 6", "lib", "f 1 -> w \n weak w 5"}, false},
		{"order of libraries, the winner is the executable", prog{"main 1 -> f w \n weak w 4", "lib", "f 1 -> w", "lib", "weak w 5", "lib", "w 6"},
			prog{"main 1 -> f w \n weak w 4", "lib", "w 6", "lib", "weak w 5", "lib", "f 1 -> w"}, true},
		{"order of libraries, another winner", prog{"main 1 -> w", "lib", "weak w 5", "lib", "w 6"}, prog{"main 1 -> w", "lib", "w 6", "lib", "weak w 5"}, false},
		{"loser in another library changes", prog{"main 1 -> w", "lib", "weak w 5", "lib", "w 6"}, prog{"main 1 -> w", "lib", "weak w 5", "lib", "w 7"}, true},
		{"winner is weak, and in the first library", prog{"main 1 -> w", "lib", "weak w 5", "lib", "w 6"}, prog{"main 1 -> w", "lib", "weak w 7", "lib", "w 6"}, false},
		{"-Bsymbolic moves to another library",
			prog{"main 1 -> f g", "lib bsymbolic", "f 1 -> w \n weak w 5", "lib", "g 1 -> w \n weak w 6"},
			prog{"main 1 -> f g", "lib", "f 1 -> w \n weak w 5", "lib bsymbolic", "g 1 -> w \n weak w 6"}, false},
		{"-Bsymbolic moves, and only one library has definitions",
			prog{"main 1 -> f", "lib", "f 1 -> w", "lib bsymbolic", "w 5 -> v \n v 1", "lib", "k 1"},
			prog{"main 1 -> f", "lib", "f 1 -> w", "lib", "w 5 -> v \n v 1", "lib bsymbolic", "k 1"}, false},
		{"hidden, and used by another library", prog{"main 1 -> g", "lib", "f 1", "lib", "g 1 -> ?f"}, prog{"main 1 -> g", "lib", "hidden f 1", "lib", "g 1 -> ?f"}, false},
		{"hidden by a reference elsewhere in its library", prog{"main 1 -> g", "lib", "f 1", "k 1 -> f", "lib", "g 1 -> ?f"}, prog{"main 1 -> g", "lib", "f 1", "k 1 -> !f", "lib", "g 1 -> ?f"}, false},
		{"hidden definition and another one", prog{"main 1 -> f g", "lib", "f 1 -> w \n hidden w 5", "lib", "g 1 -> w \n w 6"}, prog{"main 1 -> f g", "lib", "f 1 -> w \n hidden w 5", "lib", "g 1 -> w \n w 7"}, false},
		{"hidden definition comes first", prog{"main 1 -> g", "lib", "hidden w 5", "lib", "g 1 -> w \n w 6"}, prog{"main 1 -> g", "lib", "hidden w 7", "lib", "g 1 -> w \n w 6"}, true},
		{"protected definition is replaced for others only", prog{"main 1 -> f \n w 4", "lib", "f 1 -> w \n protected w 5"}, prog{"main 1 -> f \n w 4", "lib", "f 1 -> w \n protected w 6"}, false},
		{"default definition is replaced", prog{"main 1 -> f \n w 4", "lib", "f 1 -> w \n w 5"}, prog{"main 1 -> f \n w 4", "lib", "f 1 -> w \n w 6"}, true},
		{"protected variable that dead code of the executable refers to", // it may have a copy
			prog{"main 1 -> f g", "lib", "f 1 -> v \n protected v 1", "lib", "g 1 -> v"},
			prog{"main 1 -> f g \n dead 1 -> v", "lib", "f 1 -> v \n protected v 1", "lib", "g 1 -> v"}, false},
		{"version script: a loser changes", prog{"main 1 -> w", "lib uncertain", "weak w 5", "w 6"}, prog{"main 1 -> w", "lib uncertain", "weak w 7", "w 6"}, false},
		{"version script: one definition moves to the library that has it", prog{"main 1 -> g", "lib uncertain", "k 1", "lib", "f 1", "lib", "g 1 -> ?f"},
			prog{"main 1 -> g", "lib uncertain", "k 1", "f 1", "lib", "k 2", "lib", "g 1 -> ?f"}, false},
		{"versions: a loser changes", prog{"main 1 -> w", "lib", "w@V1 5", "lib", "w@V2 6"}, prog{"main 1 -> w", "lib", "w@V1 5", "lib", "w@V2 7"}, false},
		{"executable may not export to what isn't on its line", prog{"main 1 -> f \n weak w 4", "lib needs=2", "f 1 -> w", "lib", "w 5"}, prog{"main 1 -> f \n weak w 4", "lib needs=2", "f 1 -> w", "lib", "w 6"}, true},

		// Archives.
		{"member that isn't needed", prog{"main 1 -> f", "archive", "f 1", "root static c 1 \n g 1", "end"}, prog{"main 1 -> f", "archive", "f 1", "root static c 2 \n g 1", "end"}, true},
		{"member that is needed", prog{"main 1 -> f", "archive", "f 1 -> g", "root static c 1 \n g 1", "end"}, prog{"main 1 -> f", "archive", "f 1 -> g", "root static c 2 \n g 1", "end"}, false},
		{"member needed by dead code", prog{"main 1 \n dead 1", "archive", "root static c 1 \n g 1", "end"}, prog{"main 1 \n dead 1 -> g", "archive", "root static c 1 \n g 1", "end"}, false},
		{"member needed weakly", prog{"main 1 \n dead 1", "archive", "root static c 1 \n g 1", "end"}, prog{"main 1 \n dead 1 -> ?g", "archive", "root static c 1 \n g 1", "end"}, true},
		{"member of whom a library has what is needed", prog{"main 1 -> f", "lib", "f 1"}, prog{"archive", "root static c 1 \n f 2", "end", "main 1 -> f", "lib", "f 1"}, true},

		// Linker sets.
		{"element of a set moves to another library", prog{"main 1 -> f g", "lib", "f 1 -> __start_s", "set=s e 1", "lib", "g 1 -> __stop_s", "set=s d 2"},
			prog{"main 1 -> f g", "lib", "f 1 -> __start_s", "lib", "set=s e 1", "g 1 -> __stop_s", "set=s d 2"}, false},
		{"function that walks a set is split between libraries", // each walks that of its library
			prog{"main 1 -> f g", "lib", "f 1 -> w \n static w 1 -> __start_s \n g 1 -> w", "set=s e 1", "lib", "k 1"},
			prog{"main 1 -> f g", "lib", "f 1 -> w \n static w 1 -> __start_s", "set=s e 1", "lib", "g 1 -> w \n static w 1 -> __start_s"}, false},

		// Roots.
		{"constructor", prog{"main 1", "root static c 1"}, prog{"main 1", "root static c 2"}, false},
		{"constructor's callee", prog{"main 1", "root static c 1 -> f \n f 1"}, prog{"main 1", "root static c 1 -> f \n f 2"}, false},
		{"order of constructors", prog{"main 1", "root static c 1", "root static d 2"}, prog{"main 1", "root static d 2", "root static c 1"}, false},
		{"order of units without roots", prog{"main 1 -> f", "root static c 1", "f 1"}, prog{"f 1", "root static c 1", "main 1 -> f"}, true},
		{"order of libraries without roots", prog{"main 1 -> f", "lib", "root static c 1", "lib", "f 1"}, prog{"main 1 -> f", "lib", "f 1", "lib", "root static c 1"}, false},
		{"order of libraries with roots", prog{"main 1", "lib", "root static c 1", "lib", "root static d 1"}, prog{"main 1", "lib", "root static d 2", "lib", "root static c 1"}, false},
		{"libraries with constructors are merged", // they ran last library first
			prog{"main 1", "lib", "root static c 1", "lib", "root static d 2"}, prog{"main 1", "lib", "root static c 1", "root static d 2"}, false},
		{"a library with a constructor comes to need another one",
			prog{"main 1", "lib", "root static c 1", "lib", "root static d 2"}, prog{"main 1", "lib", "root static c 1", "lib needs=1", "root static d 2"}, false},
		{"a library without constructors comes to need another one", // c runs before d now
			prog{"main 1", "lib", "root static c 1", "lib", "root static d 2", "lib", "k 1"}, prog{"main 1", "lib", "root static c 1", "lib", "root static d 2", "lib needs=1", "k 1"}, false},
		{"a library comes to need another one, and one has a constructor",
			prog{"main 1", "lib", "root static c 1", "lib", "k 2"}, prog{"main 1", "lib", "root static c 1", "lib needs=1", "k 2"}, false},
		{"constructor moves from the executable to a library", prog{"main 1", "root static c 1", "root static d 2"}, prog{"main 1", "root static d 2", "lib", "root static c 1"}, false},
		{"two equal constructors", prog{"main 1", "root static c 1"}, prog{"main 1", "root static c 1", "root static c 1"}, false},
		{"two equal constructors in one group", prog{"main 1", "root static group=g c 1"}, prog{"main 1", "root static group=g c 1", "root static group=g c 1"}, true},
		{"two equal constructors in one group in two libraries", prog{"main 1", "lib", "root static group=g c 1"}, prog{"main 1", "lib", "root static group=g c 1", "lib", "root static group=g c 1"}, false},
		{"root is defined", prog{"f 1"}, prog{"main 1 \n f 1"}, false},
		{"function that is only looked up", prog{dlsym, "lib", "f 1"}, prog{dlsym, "lib", "f 2"}, false},
		{"function of the executable, which exports none", prog{dlsym, "f 1"}, prog{dlsym, "f 2"}, true},
		{"functions that are only looked up, in another order", prog{dlsym, "lib", "f 1", "lib", "f 2"}, prog{dlsym, "lib", "f 2", "lib", "f 1"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if same := tc.a.closure(t).Hash == tc.b.closure(t).Hash; same != tc.same {
				t.Errorf("same hash: %v, want %v", same, tc.same)
			}
		})
	}
}

func TestUnusual(t *testing.T) {
	hash := func(p prog, unusual string) Hash {
		pool := NewPool()
		linked := p.add(t, pool, nil, linkmodel.GNU)
		return pool.NewComposer().Compose(linked, Roots{Symbols: []string{"main"}, Unusual: unusual}).Hash
	}
	a, b := prog{"main 1", "plugin 1"}, prog{"main 1", "plugin 2"}
	if hash(a, "") != hash(b, "") {
		t.Error("an unreachable function counts")
	}
	if hash(a, "-rdynamic") == hash(b, "-rdynamic") {
		t.Error("an unreachable function of an unusual link doesn't count")
	}
}

// One manifest of an archive is as good as one for each member.
func TestManyUnits(t *testing.T) {
	members := []string{"f 1 -> g", "root static c 1 \n g 1", "root static d 1 \n h 1"}
	alone := append(append(prog{"main 1 -> f", "archive"}, members...), "end").closure(t).Hash
	archive := &manifest.Manifest{Rung: manifest.Rung_RUNG_OBJECT}
	for i, text := range members {
		m := newUnit(t, "", text)
		m.Units[0].Name = fmt.Sprint("member", i)
		comps, symbols := uint32(len(archive.Components)), uint32(len(archive.Symbols))
		for _, c := range m.Components {
			for k, l := range c.Links {
				if l%2 == 0 {
					c.Links[k] += 2 * comps
				} else {
					c.Links[k] += 2 * symbols
				}
			}
			c.Unit = uint32(i)
		}
		archive.Units = append(archive.Units, m.Units...)
		archive.Components, archive.Symbols = append(archive.Components, m.Components...), append(archive.Symbols, m.Symbols...)
	}
	pool := NewPool()
	p := prog{"main 1 -> f"}.add(t, pool, nil, linkmodel.GNU)
	for _, u := range pool.Add(archive) {
		p.Files[0].Entries = append(p.Files[0].Entries, linkmodel.Entry{Unit: u, Lazy: true, Archive: 1})
	}
	if got := pool.NewComposer().Compose(p, Roots{Symbols: []string{"main"}}).Hash; got != alone {
		t.Error("members in one manifest have another hash than members in manifests of their own")
	}
}

func TestMembers(t *testing.T) {
	pool := NewPool()
	p := prog{"main 1 -> f x \n static x 2", "lib", "f 1 -> x gone \n static x 2 \n root static c 3 \n dead 4"}.add(t, pool, nil, linkmodel.GNU)
	closure := pool.NewComposer().Compose(p, Roots{Symbols: []string{"main", "nowhere"}})
	var got []string
	members := closure.Members()
	name := func(m Member) string {
		return fmt.Sprint(m.File, "/", pool.units[m.Unit].comps[m.Component].name)
	}
	for _, m := range members {
		var links []string
		for _, l := range m.Links {
			links = append(links, name(members[l]))
		}
		got = append(got, fmt.Sprint(name(m), m.Roots, links))
	}
	want := []string{"0/main[main] [1/f 0/x]", "1/c[] []", "1/f[] [1/x]", "0/x[] []", "1/x[] []"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if want := []string{"gone"}; !slices.Equal(closure.Unresolved, want) {
		t.Errorf("unresolved %q, want %q", closure.Unresolved, want)
	}
}

// The winner comes first; equal copies are no contest.
func TestContests(t *testing.T) {
	closure := prog{"main 1 -> w v", "lib", "weak w 5 \n weak v 1", "lib", "w 6 \n weak v 1"}.closure(t)
	got := closure.Contests()
	if len(got) != 1 || got[0].Symbol != "w" || got[0].Winners != 1 || len(got[0].Copies) != 2 || got[0].Copies[0].File != 1 || got[0].Copies[1].File != 2 {
		t.Errorf("contests %+v", got)
	}
}

func TestDuplicates(t *testing.T) {
	closure := prog{"main 1 -> f", "f 1", "f 2", "weak f 3"}.closure(t)
	if want := []string{"f"}; !slices.Equal(closure.Duplicates, want) {
		t.Errorf("duplicates %q, want %q", closure.Duplicates, want)
	}
}

// A chain of 300,000 calls must not exhaust the stack.
func TestDeepChain(t *testing.T) {
	pool := NewPool()
	m := &manifest.Manifest{Units: []*manifest.Unit{{Exact: true}}}
	n := 300_000
	for i := range n {
		c := &manifest.Component{Name: fmt.Sprintf("f%08d", i), Kind: manifest.Kind_KIND_FUNCTION, Linkage: manifest.Linkage_LINKAGE_EXTERNAL, LocalHash: hash16(fmt.Sprint(i))}
		if i == 0 {
			c.Name = "main"
		}
		c.Definitions = manifest.NewDefinitions(manifest.Binding_BINDING_GLOBAL, c.Name)
		if i+1 < n {
			c.Links = []uint32{2 * uint32(i+1)}
		}
		m.Components = append(m.Components, c)
	}
	u := pool.Add(m)[0]
	p := &linkmodel.Program{Files: []linkmodel.File{{Entries: []linkmodel.Entry{{Unit: u}}}}}
	if got := len(pool.NewComposer().Compose(p, Roots{Symbols: []string{"main"}}).Members()); got != n {
		t.Errorf("%d members", got)
	}
}

// 200 units with 500 components each, and 100 programs that link a part of them.
func BenchmarkCompose(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	const units, components, inline = 200, 500, 60
	pool := NewPool()
	name := func(u, i int) string { return fmt.Sprintf("_ZN7project%03d8function%03dEv", u, i) }
	for u := range units {
		m := &manifest.Manifest{Units: []*manifest.Unit{{Exact: true}}}
		symbols := map[string]uint32{}
		add := func(name string, hash int, linkage manifest.Linkage, binding manifest.Binding) *manifest.Component {
			c := &manifest.Component{Name: name, Kind: manifest.Kind_KIND_FUNCTION, Linkage: linkage, LocalHash: hash16(fmt.Sprint(hash)), Definitions: manifest.NewDefinitions(binding, name)}
			m.Components = append(m.Components, c)
			return c
		}
		defined := map[string]bool{}
		for i := range components - inline {
			add(name(u, i), u*components+i, manifest.Linkage_LINKAGE_EXTERNAL, manifest.Binding_BINDING_GLOBAL)
			defined[name(u, i)] = true
		}
		for i := range inline { // of which each is in a tenth of all units
			k := r.IntN(inline * 10)
			if n := fmt.Sprintf("_ZN6inline%dEv", k); !defined[n] {
				defined[n] = true
				add(n, -i, manifest.Linkage_LINKAGE_WEAK, manifest.Binding_BINDING_WEAK).Group = n
			}
		}
		for i, c := range m.Components {
			for range 6 {
				to := m.Components[min(len(m.Components)-1, i+1+r.IntN(40))].Name
				switch {
				case r.IntN(100) == 0:
					to = m.Components[r.IntN(i+1)].Name
				case r.IntN(3) == 0 && u+1 < units:
					to = name(u+1+r.IntN(units-u-1), r.IntN(components-inline))
				}
				k, ok := symbols[to]
				if !ok {
					k = uint32(len(m.Symbols))
					symbols[to] = k
					m.Symbols = append(m.Symbols, to)
					if !defined[to] {
						m.Units[0].References = append(m.Units[0].References, &manifest.Reference{Name: to})
					}
				}
				c.Links = append(c.Links, 2*k+1)
			}
		}
		pool.Add(m)
	}
	var programs []*linkmodel.Program
	for i := range 100 {
		p := &linkmodel.Program{Files: make([]linkmodel.File, 1)}
		for u := i; u < units; u++ {
			if u == i || u > 100 && r.IntN(3) > 0 {
				if r.IntN(4) == 0 {
					p.Files = append(p.Files, linkmodel.File{})
					p.Files[0].Entries = append(p.Files[0].Entries, linkmodel.Entry{Library: int32(len(p.Files) - 1)})
				}
				f := &p.Files[len(p.Files)-1]
				f.Entries = append(f.Entries, linkmodel.Entry{Unit: int32(u)})
			}
		}
		programs = append(programs, p)
	}
	nodes := 0
	for b.Loop() {
		c := pool.NewComposer()
		nodes = 0
		for i, p := range programs {
			c.Compose(p, Roots{Symbols: []string{name(i, 0)}})
			nodes += len(c.order)
		}
	}
	b.ReportMetric(float64(nodes)/100, "components/program")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/100, "µs/program")
}
