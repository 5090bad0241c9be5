// Package clangast streams clang's JSON dump of a syntax tree (-ast-dump=json) without holding the tree.
//
// A dump is large (a C file of 500 lines can give 25 MB) and has each fact once, in the order of the source.
// Read walks it in one pass and calls a Visitor for each node, parents before children. clang writes a node's
// own keys before its children, so the visitor enters a node when all its keys are known. The memory is bounded
// by the depth of the tree and its largest node.
//
// The format has no specification and no promise of completeness (clang/AST/JSONNodeDumper.h). So the reader
// keeps unknown keys as attributes, and the visitor decides which kinds of nodes it trusts. Pointers (ids) are
// kept apart from attributes, so that they can't get into a hash.
package clangast

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// ID identifies a node within one dump: clang's address of it. 0 is no node.
type ID uint64

// Type is a type of a node.
type Type struct {
	Key  string // the key of the node that holds the type: "type", "argType", ...
	Qual string // as clang prints it
}

// Ref is a reference to a declaration.
type Ref struct {
	Key  string // "referencedDecl", "ownedTagDecl", ...
	ID   ID
	Kind string
	Name string
	Type string
}

// Attr is any other key of a node, with its value as text.
type Attr struct{ Key, Value string }

// Node is a node without its children. A visitor must not keep it.
type Node struct {
	ID    ID
	Kind  string // empty for a null child
	Label string // the key that holds the node in its parent: "inner", "array_filler"
	// Begin and End are offsets of the source range: of its first byte, and of
	// the first byte of its last token; EndLen is that token's length. Begin
	// is -1 if the node has no range.
	Begin, End, EndLen int
	// Loc is the offset of the node's own location, -1 if there is none.
	Loc int
	// Name and Mangled are a declaration's names.
	Name, Mangled string
	// Prev is the previous declaration of the same entity.
	Prev ID
	// Member is the field that a MemberExpr refers to.
	Member ID
	// LabelID is the label that a goto, label or address-of-label names.
	LabelID ID
	Types   []Type
	Refs    []Ref
	Attrs   []Attr
}

// Attr returns the value of an attribute, "" if the node doesn't have it.
func (n *Node) Attr(key string) string {
	for _, a := range n.Attrs {
		if a.Key == key {
			return a.Value
		}
	}
	return ""
}

// Has reports whether the node has an attribute with the value "true".
func (n *Node) Has(key string) bool { return n.Attr(key) == "true" }

// Type returns the node's type under key "type".
func (n *Node) Type() string {
	for _, t := range n.Types {
		if t.Key == "type" {
			return t.Qual
		}
	}
	return ""
}

// Visitor is called for each node of a dump.
type Visitor interface {
	// Enter is called when all of the node's own keys are known. The node is
	// reused after the matching Leave.
	Enter(n *Node) error
	// Leave is called after the node's children.
	Leave(n *Node) error
}

// ErrDump is wrapped by the error of an input that isn't a complete dump.
var ErrDump = errors.New("not a complete clang AST dump")

// Read walks the dump in r. If r isn't one JSON value with a TranslationUnitDecl at its top, the error wraps
// ErrDump, and the visitor may have seen a part of the tree. An error of the visitor is returned
// unchanged.
func Read(r io.Reader, v Visitor) error {
	const buffer = 1 << 18
	options := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	d := &reader{json: jsontext.NewDecoder(bufio.NewReaderSize(r, buffer), options...), v: v, strs: map[string]string{}}
	err := d.node("", true)
	if err == nil {
		if t, end := d.json.ReadToken(); end == nil {
			err = fmt.Errorf("%w: %s behind it", ErrDump, t)
		} else if end != io.EOF {
			err = end
		}
	}
	var ve *visitorError
	switch {
	case errors.As(err, &ve):
		return ve.err
	case err != nil && !errors.Is(err, ErrDump): // it isn't JSON, ends too early or is nested too deep
		return fmt.Errorf("%w: %w", ErrDump, err)
	}
	return err
}

type visitorError struct{ err error }

func (e *visitorError) Error() string { return e.err.Error() }

// visitor wraps an error of the visitor.
func visitor(err error) error {
	if err != nil {
		return &visitorError{err}
	}
	return nil
}

type reader struct {
	json *jsontext.Decoder
	v    Visitor
	pool []*Node
	// strs interns the short strings that repeat (kinds, keys, types).
	strs map[string]string
}

// get returns an empty node.
func (d *reader) get() *Node {
	if n := len(d.pool); n > 0 {
		node := d.pool[n-1]
		d.pool = d.pool[:n-1]
		*node = Node{Types: node.Types[:0], Refs: node.Refs[:0], Attrs: node.Attrs[:0], Begin: -1, End: -1, Loc: -1}
		return node
	}
	return &Node{Begin: -1, End: -1, Loc: -1}
}

// intern keeps one copy of each short string, up to a bounded number.
func (d *reader) intern(b []byte) string {
	if len(b) > 64 {
		return string(b)
	}
	if t, ok := d.strs[string(b)]; ok {
		return t
	}
	if len(d.strs) > 1<<14 {
		clear(d.strs)
	}
	t := string(b)
	d.strs[t] = t
	return t
}

// scalar reads a string, number, true, false or null as text. The result is valid until the next call.
func (d *reader) scalar() ([]byte, error) {
	v, err := d.json.ReadValue()
	if err != nil {
		return nil, err
	}
	if v.Kind() != '"' {
		return v, nil
	}
	if text := v[1 : len(v)-1]; bytes.IndexByte(text, '\\') < 0 {
		return text, nil
	}
	return jsontext.AppendUnquote(nil, v)
}

// fields reads an object, and calls value to read the value of each key.
func (d *reader) fields(value func(key []byte) error) error {
	if t, err := d.json.ReadToken(); err != nil {
		return err
	} else if t.Kind() != '{' {
		return fmt.Errorf("%w: %s in the place of an object", ErrDump, t)
	}
	for d.json.PeekKind() != '}' {
		k, err := d.scalar()
		if err != nil {
			return err
		}
		if err := value(k); err != nil {
			return err
		}
	}
	_, err := d.json.ReadToken()
	return err
}

// elements reads an array, and calls element to read each element.
func (d *reader) elements(element func() error) error {
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	for d.json.PeekKind() != ']' {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := d.json.ReadToken()
	return err
}

// node reads an object as a node: the top of the tree, or another one.
func (d *reader) node(label string, top bool) error {
	n := d.get()
	n.Label = label
	entered := false
	enter := func() error {
		if entered {
			return nil
		}
		entered = true
		if top && n.Kind != "TranslationUnitDecl" {
			return fmt.Errorf("%w: its top is %q, not a TranslationUnitDecl", ErrDump, n.Kind)
		}
		return visitor(d.v.Enter(n))
	}
	err := d.fields(func(k []byte) error {
		key := d.intern(k)
		switch c := d.json.PeekKind(); {
		case c == '[':
			if err := enter(); err != nil {
				return err
			}
			return d.children(key)
		case entered:
			return fmt.Errorf("%w: key %q behind the children of a %s", ErrDump, key, n.Kind)
		case c == '{':
			return d.object(n, key)
		}
		return d.attribute(n, key)
	})
	if err != nil {
		return err
	}
	if err := enter(); err != nil {
		return err
	}
	return d.leave(n)
}

// leave has the visitor leave a node, which may be reused then.
func (d *reader) leave(n *Node) error {
	if err := d.v.Leave(n); err != nil {
		return visitor(err)
	}
	d.pool = append(d.pool, n)
	return nil
}

// children reads an array. Its objects are nodes, and its other values children of kind "value", so that
// nothing is lost.
func (d *reader) children(key string) error {
	return d.elements(func() error {
		switch d.json.PeekKind() {
		case '{':
			return d.node(key, false)
		case '[':
			return d.children(key)
		}
		v, err := d.scalar()
		if err != nil {
			return err
		}
		c := d.get()
		c.Label, c.Kind = key, "value"
		c.Attrs = append(c.Attrs, Attr{"value", string(v)})
		if err := d.v.Enter(c); err != nil {
			return visitor(err)
		}
		return d.leave(c)
	})
}

// attribute reads the value of a key of a node.
func (d *reader) attribute(n *Node, key string) error {
	v, err := d.scalar()
	if err != nil {
		return err
	}
	switch key {
	case "id":
		n.ID = parseID(v)
	case "kind":
		n.Kind = d.intern(v)
	case "name":
		n.Name = d.intern(v)
	case "mangledName":
		n.Mangled = d.intern(v)
	case "previousDecl":
		n.Prev = parseID(v)
	case "referencedMemberDecl":
		n.Member = parseID(v)
	case "declId", "targetLabelDeclId", "labelDeclId":
		n.LabelID = parseID(v)
	case "parentDeclContextId":
	default:
		if !isPointer(v) {
			n.Attrs = append(n.Attrs, Attr{key, d.intern(v)})
		}
	}
	return nil
}

// object reads an object that isn't a node: a location, a type, a reference, or an unknown one, whose leaves
// become attributes KEY.SUBKEY.
func (d *reader) object(n *Node, key string) error {
	switch key {
	case "range":
		return d.rangeOf(n)
	case "loc":
		loc, _, err := d.location()
		n.Loc = loc
		return err
	}
	var typ Type
	var ref Ref
	mark := len(n.Attrs)
	err := d.fields(func(kb []byte) error {
		k := d.intern(kb)
		switch c := d.json.PeekKind(); {
		case c == '{' && k == "type": // of a referenced declaration
			m := d.get()
			if err := d.object(m, k); err != nil {
				return err
			}
			ref.Type = m.Type()
			d.pool = append(d.pool, m)
			return nil
		case c == '{':
			return d.object(n, key+"."+k)
		case c == '[':
			return d.list(n, key+"."+k)
		}
		v, err := d.scalar()
		if err != nil {
			return err
		}
		switch k {
		case "qualType":
			typ.Qual = d.intern(v)
		case "desugaredQualType", "typeAliasDeclId":
		case "id":
			ref.ID = parseID(v)
		case "kind":
			ref.Kind = d.intern(v)
		case "name":
			ref.Name = d.intern(v)
		default:
			if !isPointer(v) {
				n.Attrs = append(n.Attrs, Attr{key + "." + k, d.intern(v)})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case typ.Qual != "":
		typ.Key = key
		n.Types = append(n.Types, typ)
	case ref.ID != 0 || ref.Kind != "":
		ref.Key = key
		n.Refs = append(n.Refs, ref)
	case len(n.Attrs) == mark:
		n.Attrs = append(n.Attrs, Attr{key, "{}"})
	}
	return nil
}

// list reads an array in an object that isn't a node.
func (d *reader) list(n *Node, key string) error {
	return d.elements(func() error {
		switch d.json.PeekKind() {
		case '{':
			return d.object(n, key+".")
		case '[':
			return d.list(n, key)
		}
		v, err := d.scalar()
		if err == nil && !isPointer(v) {
			n.Attrs = append(n.Attrs, Attr{key, string(v)})
		}
		return err
	})
}

// rangeOf reads the source range of a node.
func (d *reader) rangeOf(n *Node) error {
	return d.fields(func(k []byte) error {
		begin := string(k) == "begin"
		off, length, err := d.location()
		if begin {
			n.Begin = off
		} else {
			n.End, n.EndLen = off, length
		}
		return err
	})
}

// location reads a location. That of a token that was split, or is from a macro, is that of the expansion.
func (d *reader) location() (off, tokLen int, err error) {
	off = -1
	err = d.fields(func(k []byte) (err error) {
		switch string(k) {
		case "offset":
			off, err = d.number()
		case "tokLen":
			tokLen, err = d.number()
		case "expansionLoc":
			off, tokLen, err = d.location()
		default:
			err = d.json.SkipValue()
		}
		return err
	})
	return off, tokLen, err
}

// number reads a small unsigned number.
func (d *reader) number() (int, error) {
	v, err := d.scalar()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(string(v), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is no offset", ErrDump, v)
	}
	return int(n), nil
}

// parseID reads an address such as "0x55d0c8a3f2b8". Anything else is 0.
func parseID(b []byte) ID {
	if len(b) < 3 || b[0] != '0' || b[1] != 'x' {
		return 0
	}
	n, err := strconv.ParseUint(string(b[2:]), 16, 64)
	if err != nil {
		return 0
	}
	return ID(n)
}

// isPointer reports whether a value is an address, which differs from run to run.
func isPointer(b []byte) bool { return len(b) >= 8 && parseID(b) != 0 }
