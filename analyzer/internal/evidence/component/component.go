// Package component turns one translation unit of plain C into components:
// functions and variables, each with a local hash and links.
//
// # What a local hash covers
//
// A local hash (TASTING, section 2.2; cHash) covers everything in a
// component's own definition that can influence the code or data emitted for
// it: the nodes of its syntax tree with their types, operators, values and
// structure; the content of the types that it uses; the declarations, but not
// the definitions, of the functions and variables that it refers to, in the
// order in which it could see them; and what the unit as a whole contributes
// (compiler, flags). Locals are numbered, so their names don't count, and
// neither do comments, layout, redundant declarations or the order of
// independent ones.
//
// # Nothing is dropped silently
//
// clang's dump is incomplete. So only plain C is analysed: the nodes of the
// kinds in the allow-list complete are known to say everything, and so are the
// words of type strings in typeWords. Any other node, word, or name that could
// be taken for one of these, makes the unit not plain as soon as something that
// is emitted depends on it. Packages compiler and tu have the lists for flags, attributes
// and text. Attributes count by their text, because the dump lacks most of
// their arguments, and all of those that only gcc knows.
//
// # How far a type goes
//
// Code that only copies a pointer doesn't depend on what it points to. A use
// of a type therefore has a depth: its name, its value (size, layout,
// attributes), or also the value of what it points to. The rule errs towards
// more: only the node kinds in shallow stop at a pointer.
//
// # Identity of local components
//
// The name of a static function doesn't count, but which one is called does.
// A reference to it is therefore identified by its content, and by its name as
// well if another local component of the unit has the same content.
package component

import (
	"context"
	"io"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/clangast"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/tu"
)

// NotPlain is the error of a unit that isn't plain C, or of which no syntax tree
// can be had: its evidence is its object file.
type NotPlain = tu.NotPlain

func notPlain(reason string) error { return &NotPlain{Reason: reason} }

// readDump reads a dump of u's text. One that isn't complete is an error.
func readDump(u *tu.Unit, dump io.Reader) (*builder, error) {
	b, err := newBuilder(u)
	if err != nil {
		return nil, err
	}
	return b, clangast.Read(dump, b)
}

// Analyze dumps the syntax tree of u with the program clang and returns the
// manifest. If u isn't plain, or the tree can't be had (no clang, an unsupported
// version, a parse error, a crash, a broken dump), the error is a NotPlain with
// the reason. Any other error is ctx's.
func Analyze(ctx context.Context, u *tu.Unit, clang string) (*manifest.Manifest, error) {
	if u.NotPlain != "" {
		return nil, notPlain(u.NotPlain)
	}
	b, version, err := runClang(ctx, u, clang)
	if err == nil {
		var m *manifest.Manifest
		if m, err = b.manifest(version); err == nil {
			return m, nil
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if e, ok := err.(*NotPlain); ok {
		return nil, e
	}
	return nil, notPlain(err.Error())
}
