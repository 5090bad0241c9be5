// Package component turns a translation unit of plain C into components: functions and variables, each with a
// local hash and links. Its input is a normalised unit (package tu) and clang's dump of the syntax tree
// (package clangast), its output a manifest.
//
// builder (builder.go, visit.go) visits the nodes of the dump and writes them to streams, one for each
// declaration and definition. At the end of the unit, resolver (entity.go) turns streams into hashes, and
// manifest.go makes the manifest.
//
// # What a local hash covers
//
// A local hash (TASTING, section 2.2; cHash) covers everything in a component's own definition that can
// influence its code or data: the nodes of its syntax tree with their types, operators, values and structure;
// the content of the types that it uses; the declarations, but not the definitions, of the functions and
// variables that it refers to, in the order in which it could see them; and what applies to the whole unit
// (compiler, flags). Locals are numbered, so their names aren't hashed. Neither are comments, layout, redundant
// declarations and the order of independent ones.
//
// # Nothing is dropped silently
//
// clang's dump is incomplete. So only plain C is analysed: nodes of completeKinds, and type strings of typeWords, which the
// dump has in full. Any other node or word, and a name that could be mistaken for one of these words, makes the unit not
// plain if something emitted depends on it. Packages compiler and tu have the lists for flags, attributes and text. The
// text of attributes is hashed, because the dump lacks most of their arguments, and all attributes that only gcc knows.
//
// # Depth of a type
//
// Code that only copies a pointer doesn't depend on the pointee. So each use of a type has a depth: its name,
// its value (size, layout, attributes), or also the value of the pointee. Only the node kinds in shallow stop
// at a pointer.
//
// # Identity of local components
//
// The name of a static function isn't hashed, but it matters which one is called. So a reference has the
// content of the function, and its name as well if another local component of the unit has the same content.
package component

import (
	"context"
	"io"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/clangast"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/tu"
)

// NotPlain is the error of a unit that isn't plain C, or whose syntax tree isn't available: its evidence is
// its object file.
type NotPlain = tu.NotPlain

func notPlain(reason string) error { return &NotPlain{Reason: reason} }

// readDump reads a complete dump of u's text.
func readDump(u *tu.Unit, dump io.Reader) (*builder, error) {
	b, err := newBuilder(u)
	if err != nil {
		return nil, err
	}
	return b, clangast.Read(dump, b)
}

// Analyze dumps the syntax tree of u with the program clang and returns the manifest. The error is a
// NotPlain, with the reason, if u isn't plain or there is no tree (no clang, an unsupported version, a
// parse error, a crash, a broken dump). Any other error is ctx's.
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
