// Package manifest is the contract between analysis and composition: what one
// translation unit, object file, archive or shared library contributes to the
// fingerprints of the tests that link it.
//
// A manifest lists components (functions, variables, asm blocks, sections,
// whole files). Each has a local hash, which covers everything in its own
// definition that can influence the code or data emitted for it, and links,
// which name every component that it references (TASTING, section 2.2). The
// composition side resolves the links across all manifests of a test and
// needs nothing else: no source, no compiler, no path.
//
// The format is a versioned protocol buffer (manifest.proto). A manifest is
// deterministic: same inputs give the same bytes, whatever the checkout's
// path, the machine or the number of CPUs.
package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Format is the version of the manifest format and of every rule that decides
// what enters a hash. It is raised whenever a hash could change meaning.
//
//	1: first version.
//	2: definitions with binding and visibility instead of aliases, units, COMDAT
//	   groups; a link to an own component leads to that one only.
//	3: components that name local functions, and tell how much thread-local storage
//	   there is.
//	4: how objects use undefined symbols, and which symbols are thread-local; empty
//	   sections of linker sets and initialisers; jump tables that an array may be
//	   referred to through.
//	5: what linkers may choke on; references to thread-local variables aren't direct
//	   unless they are at a fixed distance.
//	6: how large units are; symbols that only the linker has a place for; entries of unwind
//	   tables that linkers don't follow.
//	7: the order of sections that belong to others; a function's type in front of it is a part
//	   of it; more of C isn't plain.
//	8: attributes of C with all of their declaration.
//	9: flags and words of C that are known to be plain, and no others.
//	10: what begins up to 4 KiB behind a place that code refers to; sections that aren't
//	    loaded; significant addresses.
//	11: no functions are said to be indistinguishable from their copies: return addresses tell.
//	12: sections named as compilers for other machines name them, or after no variable of theirs, are
//	    people's; strings behind a label of assembly; other names of what asks for loaded files.
//	13: which functions are entered at their beginning only (no hash has it); jumps into the middle of functions
//	    elsewhere, and sizes of symbols, refer to anything.
//	14: all names of such functions, and those of their pieces (no hash has them).
//	15: the order of components in memory, and what orders them by their addresses or reads its
//	    own program.
//	16: references to another place than a symbol's (no hash has them).
//	17: the places of all ranges of a component (no hash has them).
const Format = 17

// Uses of an undefined symbol by an object, in Reference.Uses.
const (
	// UseDirect: the code or data has its address or the distance to it, not by the GOT or PLT. If a library defines
	// it, the executable has a copy relocation or a canonical PLT entry.
	UseDirect = 1 << iota
	// UseBound: it is bound when the file is loaded, unlike a mere call.
	UseBound
	// UseThreadLocal: it is a thread-local variable.
	UseThreadLocal
	// UseInside: it may refer to another place than the symbol's. It enters no hash.
	UseInside
)

// Names of notes: local components to which nothing refers. In an archive a number follows. (Resolver is a root.)
const (
	// DebugLines notes debug information. Only its readers see it.
	DebugLines = "(debug lines)"
	// LocalNames notes the local functions in the symbol table of an object without debug information.
	LocalNames = "(local names)"
	// ThreadStorage notes the size of thread-local storage, which is on the stacks of threads.
	ThreadStorage = "(thread-local storage)"
	// FixedPlace notes code or data for position-dependent executables only.
	FixedPlace = "(for a fixed place)"
	// Executable notes code for executables only.
	Executable = "(for executables)"
	// Large notes a size of data. With many such units, 32-bit distances may overflow.
	Large = "(large)"
	// Resolver is the root of a resolver (STT_GNU_IFUNC), which the loader calls for any reference.
	Resolver = "resolver of a function"
	// Unusual notes sections and symbols because of which a linker may fail, or lay out other sections in another way.
	Unusual = "(unusual)"
)

// Kinds of components that a program may order by their addresses, in Component.Places.
const (
	// PlaceTypes is the name of a type that begins with '*': libstdc++ compares it by its address.
	PlaceTypes = 1 + iota
	// PlaceOtherTypes is any other name of a type. libc++ compares all names by their addresses.
	PlaceOtherTypes
	PlaceVariables
	PlaceFunctions
	PlaceKinds // the number of kinds, and 1
)

// Pseudo symbols: a component refers to one if it depends on the whole program.
const (
	// OwnProgram: the component reads its own file, or the file's place in memory.
	OwnProgram = "*program"
	// OrderOfTypes and the like: the component orders these by their addresses.
	OrderOfTypes     = "*types"
	OrderOfLiterals  = "*literals"
	OrderOfVariables = "*variables"
	OrderOfFunctions = "*functions"
)

// Magic starts every manifest file, so that a foreign or truncated file is
// recognised before it is parsed.
const Magic = "tasting-manifest\n"

// AnySymbol in Manifest.Symbols stands for any symbol of the test: the unit's references aren't known.
const AnySymbol = "*"

var (
	// ErrFormat is the error of a manifest that a newer analyzer has written.
	ErrFormat = errors.New("manifest format is newer than this tasting; use the version of tasting that wrote it, or rebuild the manifest")
	// ErrCorrupt is the error of a file that is not a complete manifest.
	ErrCorrupt = errors.New("not a tasting manifest")
	errDamaged = fmt.Errorf("%w: it begins as one and is damaged or cut off; build it again", ErrCorrupt)
)

// Marshal validates m, puts it into canonical form (components sorted by
// name, links renumbered) and returns its deterministic encoding.
func Marshal(m *Manifest) ([]byte, error) {
	m.Format = Format
	canonicalize(m)
	if err := Validate(m); err != nil {
		return nil, err
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	out := append([]byte(Magic), protowire.AppendVarint(nil, uint64(len(body)))...)
	return append(out, body...), nil
}

// Unmarshal reads what Marshal wrote. It returns ErrCorrupt or ErrFormat
// (wrapped) for anything else.
func Unmarshal(b []byte) (*Manifest, error) {
	if len(b) < len(Magic) || string(b[:len(Magic)]) != Magic {
		return nil, ErrCorrupt
	}
	b = b[len(Magic):]
	n, k := protowire.ConsumeVarint(b)
	if k < 0 || n != uint64(len(b)-k) {
		return nil, errDamaged
	}
	m := &Manifest{}
	if err := (proto.UnmarshalOptions{DiscardUnknown: false}).Unmarshal(b[k:], m); err != nil {
		return nil, fmt.Errorf("%w (%v)", errDamaged, err)
	}
	if m.Format > Format {
		return nil, fmt.Errorf("format %d: %w", m.Format, ErrFormat)
	}
	if err := Validate(m); err != nil {
		return nil, fmt.Errorf("%w (%v)", errDamaged, err)
	}
	return m, nil
}

// Unknown returns why tests that link the unit always run, or "".
func (m *Manifest) Unknown() string {
	for _, f := range m.Fallbacks {
		if f.Rung == Rung_RUNG_UNSPECIFIED {
			return f.Reason
		}
	}
	return ""
}

// notPlain starts the reason of a unit without source evidence.
const notPlain = "not plain C: "

// NewNotPlain returns the manifest of a unit that isn't plain C: its evidence is its object file.
func NewNotPlain(source, reason string) *Manifest {
	return &Manifest{Rung: Rung_RUNG_OBJECT, Source: source, Units: []*Unit{{}}, Fallbacks: []*Fallback{NotPlainFallback(reason)}}
}

// NotPlainFallback is the fallback of a unit whose object file is read because its source isn't plain C.
func NotPlainFallback(reason string) *Fallback {
	return &Fallback{Reason: notPlain + strings.TrimPrefix(reason, notPlain), Rung: Rung_RUNG_OBJECT}
}

// NotPlain returns the reason if m is that of NewNotPlain, or "". (The manifest of an object is exact about its
// units, even if it is empty.)
func (m *Manifest) NotPlain() string {
	if m.Rung != Rung_RUNG_OBJECT || len(m.Components) > 0 || len(m.Units) != 1 || m.Units[0].Exact || len(m.Fallbacks) != 1 {
		return ""
	}
	reason, ok := strings.CutPrefix(m.Fallbacks[0].Reason, notPlain)
	if !ok {
		return ""
	}
	return reason
}

// Validate checks the invariants that readers rely on.
func Validate(m *Manifest) error {
	if m.Format == 0 {
		return errors.New("no format version")
	}
	if m.Rung == Rung_RUNG_UNSPECIFIED {
		return errors.New("no rung")
	}
	if len(m.Units) == 0 {
		return errors.New("no unit")
	}
	for i, c := range m.Components {
		if i > 0 && m.Components[i-1].Name >= c.Name {
			return fmt.Errorf("components are not sorted or %q is repeated", c.Name)
		}
		if c.Name == "" || len(c.LocalHash) != 16 || c.Kind == Kind_KIND_UNSPECIFIED || c.Linkage == Linkage_LINKAGE_UNSPECIFIED {
			return fmt.Errorf("component %q is incomplete", c.Name)
		}
		if int(c.Unit) >= len(m.Units) {
			return fmt.Errorf("component %q is in unit %d of %d", c.Name, c.Unit, len(m.Units))
		}
		if c.Linkage == Linkage_LINKAGE_LOCAL && len(c.Definitions) > 0 {
			return fmt.Errorf("component %q is local and defines %s", c.Name, c.Definitions[0].Name)
		}
		for k, d := range c.Definitions {
			if d.Name == "" || d.Binding == Binding_BINDING_UNSPECIFIED || k > 0 && c.Definitions[k-1].Name >= d.Name {
				return fmt.Errorf("component %q has an incomplete or repeated definition %q", c.Name, d.Name)
			}
		}
		for _, l := range c.Links {
			if l%2 == 0 && int(l/2) >= len(m.Components) || l%2 == 1 && int(l/2) >= len(m.Symbols) {
				return fmt.Errorf("component %q has a link out of range", c.Name)
			}
		}
	}
	return nil
}

// canonicalize makes all strings UTF-8, sorts the components, drops symbols without a reference, sorts the
// rest and renumbers the links.
func canonicalize(m *Manifest) {
	m.makeUTF8()
	old := slices.Clone(m.Components)
	slices.SortStableFunc(m.Components, func(a, b *Component) int { return strings.Compare(a.Name, b.Name) })
	pos := make(map[*Component]uint32, len(old))
	for i, c := range m.Components {
		pos[c] = uint32(i)
	}
	used := map[string]uint32{}
	for _, c := range old {
		for _, l := range c.Links {
			if l%2 == 1 && int(l/2) < len(m.Symbols) {
				used[m.Symbols[l/2]] = 0
			}
		}
	}
	syms := slices.Sorted(maps.Keys(used))
	for i, s := range syms {
		used[s] = uint32(i)
	}
	for _, c := range old {
		seen := make(map[uint32]bool, len(c.Links))
		links := c.Links[:0]
		for _, l := range c.Links {
			switch {
			case l%2 == 0 && int(l/2) < len(old):
				l = 2 * pos[old[l/2]]
			case l%2 == 1 && int(l/2) < len(m.Symbols):
				l = 2*used[m.Symbols[l/2]] + 1
			}
			if !seen[l] {
				seen[l] = true
				links = append(links, l)
			}
		}
		c.Links = links
		slices.SortStableFunc(c.Definitions, func(a, b *Definition) int { return strings.Compare(a.Name, b.Name) })
	}
	m.Symbols = syms
	slices.SortStableFunc(m.Fallbacks, func(a, b *Fallback) int {
		return cmp.Or(strings.Compare(a.Component, b.Component), strings.Compare(a.Reason, b.Reason))
	})
}

// NumberNames numbers components with the same name: f, f#2, f#3.
func NumberNames(l []*Component) {
	taken, last := map[string]bool{}, map[string]int{}
	for _, c := range l {
		name := c.Name
		for taken[c.Name] {
			last[name] = max(last[name], 1) + 1
			c.Name = fmt.Sprintf("%s#%d", name, last[name])
		}
		taken[c.Name] = true
	}
}

// makeUTF8 makes all strings UTF-8.
func (m *Manifest) makeUTF8() {
	m.Source, m.Clang, m.Compiler = text(m.Source), text(m.Clang), text(m.Compiler)
	texts(m.Flags)
	texts(m.Symbols)
	for _, f := range m.Fallbacks {
		f.Component, f.Reason = text(f.Component), text(f.Reason)
	}
	for _, c := range m.Components {
		c.Name, c.Root, c.File, c.Group = text(c.Name), text(c.Root), text(c.File), text(c.Group)
		for _, d := range c.Definitions {
			d.Name = text(d.Name)
		}
	}
	for _, u := range m.Units {
		u.Name = text(u.Name)
		for _, r := range u.References {
			r.Name = text(r.Name)
		}
	}
}

// text returns s with bytes that aren't UTF-8 as \xNN, because a protocol buffer can't hold them.
func text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, s[0])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

func texts(list []string) {
	for i, s := range list {
		list[i] = text(s)
	}
}

// DefinedNames returns the symbols that c defines, sorted.
func (c *Component) DefinedNames() []string {
	var names []string
	for _, d := range c.Definitions {
		names = append(names, d.Name)
	}
	return names
}

// Aliases returns the symbols that c defines besides its name, sorted.
func (c *Component) Aliases() (names []string) {
	for _, d := range c.Definitions {
		if d.Name != c.Name {
			names = append(names, d.Name)
		}
	}
	return names
}

// Defines reports whether c defines the symbol name.
func (c *Component) Defines(name string) bool {
	return slices.ContainsFunc(c.Definitions, func(d *Definition) bool { return d.Name == name })
}

// NewDefinitions returns definitions of names with one binding and default visibility, sorted.
func NewDefinitions(b Binding, names ...string) []*Definition {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	var l []*Definition
	for _, n := range names {
		l = append(l, &Definition{Name: n, Binding: b})
	}
	return l
}

// LinkNames returns the names that c links to, in order, and for each whether it is a component of m.
func (m *Manifest) LinkNames(c *Component) (names []string, own []bool) {
	for _, l := range c.Links {
		if l%2 == 0 {
			names, own = append(names, m.Components[l/2].Name), append(own, true)
		} else {
			names, own = append(names, m.Symbols[l/2]), append(own, false)
		}
	}
	return names, own
}

// Read reads the manifest in the file path. Errors name the file.
func Read(path string) (*Manifest, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := Unmarshal(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Write writes m to the file path: whole, or not at all.
func Write(path string, m *Manifest) error {
	b, err := Marshal(m)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := wholefile.Write(path, b, 0o644); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// EnumName returns the name of an enumeration's value for people: KIND_FUNCTION is "function".
func EnumName(value fmt.Stringer) string {
	_, name, _ := strings.Cut(value.String(), "_")
	return strings.ToLower(name)
}
