// Package clangast streams clang's JSON dump of a syntax tree
// (-ast-dump=json) without ever holding the tree.
//
// A dump is large (a C file of 500 lines can give 25 MB, a C++ test 740 MB)
// and says each thing once, in the order of the source. Read walks it in one
// pass and calls a Visitor for each node, parents before children: clang
// writes a node's own keys before its children, so everything that the node
// says is known when the visitor enters it. Memory is bounded by the depth of
// the tree and its largest node.
//
// The format has no specification and no promise of completeness
// (clang/AST/JSONNodeDumper.h). So the reader keeps every key that it doesn't
// know as a plain attribute, and leaves it to the visitor to decide which
// kinds of node it trusts. Pointer values (ids) are parsed apart from the
// attributes, so that they can't slip into a hash.
package clangast

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ID identifies a node within one dump: clang's address of it. 0 is no node.
type ID uint64

// Type is a type as clang prints it.
type Type struct {
	Key       string // the key of the node that holds the type: "type", "argType", ...
	Qual      string // as written
	Desugared string // without the outermost sugar; empty if that is Qual
}

// Ref is a reference to a declaration.
type Ref struct {
	Key  string // "referencedDecl", "ownedTagDecl", ...
	ID   ID
	Kind string
	Name string
	Type string
}

// Attr is any other key of a node with its value as text.
type Attr struct{ Key, Value string }

// Node is one node without its children. The visitor must not keep it.
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
	// Member is what a MemberExpr refers to.
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

// ErrDump says that the input is not a complete dump.
var ErrDump = errors.New("not a complete clang AST dump")

// Read walks the dump in r. Anything but one whole JSON value with a
// TranslationUnitDecl at its top is an error that wraps ErrDump; the visitor
// may have seen a part of the tree by then.
func Read(r io.Reader, v Visitor) error {
	d := &reader{dec: jsontext.NewDecoder(r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)), v: v}
	err := d.node("", 0)
	if err == nil {
		if _, err2 := d.dec.ReadToken(); err2 != io.EOF {
			err = fmt.Errorf("%w: more after its end", ErrDump)
		}
	}
	var ve *visitorError
	if errors.As(err, &ve) {
		return ve.err
	}
	if err != nil && !errors.Is(err, ErrDump) {
		err = fmt.Errorf("%w: %v", ErrDump, err)
	}
	return err
}

// maxDepth bounds the recursion: deeper trees are refused, not a stack
// overflow.
const maxDepth = 9000

type visitorError struct{ err error }

func (e *visitorError) Error() string { return e.err.Error() }

type reader struct {
	dec  *jsontext.Decoder
	v    Visitor
	pool []*Node
	// strs interns the short strings that repeat (kinds, keys, types).
	strs map[string]string
}

func (d *reader) get() *Node {
	if n := len(d.pool); n > 0 {
		node := d.pool[n-1]
		d.pool = d.pool[:n-1]
		*node = Node{Types: node.Types[:0], Refs: node.Refs[:0], Attrs: node.Attrs[:0], Begin: -1, End: -1, Loc: -1}
		return node
	}
	return &Node{Begin: -1, End: -1, Loc: -1}
}

func (d *reader) enter(n *Node) error {
	if err := d.v.Enter(n); err != nil {
		return &visitorError{err}
	}
	return nil
}

// node reads the object that follows as a node.
func (d *reader) node(label string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: nested deeper than %d", ErrDump, maxDepth)
	}
	t, err := d.dec.ReadToken()
	if err != nil {
		return err
	}
	if t.Kind() != '{' {
		return fmt.Errorf("%w: want an object, got %v", ErrDump, t.Kind())
	}
	return d.members(label, depth)
}

// members reads a node after its opening brace.
func (d *reader) members(label string, depth int) error {
	n := d.get()
	n.Label = label
	entered := false
	for d.dec.PeekKind() == '"' {
		key, err := d.str()
		if err != nil {
			return err
		}
		switch k := d.dec.PeekKind(); {
		case k == '[':
			if !entered {
				if err := d.check(n, depth); err != nil {
					return err
				}
				if err := d.enter(n); err != nil {
					return err
				}
				entered = true
			}
			if err := d.children(n, key, depth); err != nil {
				return err
			}
		case k == '{':
			if entered {
				return fmt.Errorf("%w: key %q after the children of a %s", ErrDump, key, n.Kind)
			}
			if err := d.object(n, key); err != nil {
				return err
			}
		default:
			if err := d.scalar(n, key, entered); err != nil {
				return err
			}
		}
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	if !entered {
		if err := d.check(n, depth); err != nil {
			return err
		}
		if err := d.enter(n); err != nil {
			return err
		}
	}
	if err := d.v.Leave(n); err != nil {
		return &visitorError{err}
	}
	d.pool = append(d.pool, n)
	return nil
}

func (d *reader) check(n *Node, depth int) error {
	if depth == 0 && n.Kind != "TranslationUnitDecl" {
		return fmt.Errorf("%w: its top is %q, not a TranslationUnitDecl", ErrDump, n.Kind)
	}
	return nil
}

// children reads an array. Its objects are nodes; other values are kept as
// children of kind "value", so that they can't be lost.
func (d *reader) children(_ *Node, key string, depth int) error {
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	for {
		switch d.dec.PeekKind() {
		case '{':
			if err := d.node(key, depth+1); err != nil {
				return err
			}
		case ']':
			_, err := d.dec.ReadToken()
			return err
		case '"', '0', 't', 'f', 'n':
			t, err := d.dec.ReadToken()
			if err != nil {
				return err
			}
			c := d.get()
			c.Label, c.Kind = key, "value"
			c.Attrs = append(c.Attrs, Attr{"value", t.String()})
			if err := d.enter(c); err != nil {
				return err
			}
			if err := d.v.Leave(c); err != nil {
				return &visitorError{err}
			}
			d.pool = append(d.pool, c)
		case '[':
			if err := d.children(nil, key, depth+1); err != nil {
				return err
			}
		default:
			_, err := d.dec.ReadToken()
			if err == nil {
				err = fmt.Errorf("%w: unexpected token in array %q", ErrDump, key)
			}
			return err
		}
	}
}

func (d *reader) str() (string, error) {
	t, err := d.dec.ReadToken()
	if err != nil {
		return "", err
	}
	return d.intern(t.String()), nil
}

// intern keeps one copy of each short string, up to a bounded number.
func (d *reader) intern(s string) string {
	if len(s) > 64 {
		return s
	}
	if t, ok := d.strs[s]; ok {
		return t
	}
	if d.strs == nil || len(d.strs) > 1<<14 {
		d.strs = make(map[string]string)
	}
	s = strings.Clone(s)
	d.strs[s] = s
	return s
}

func (d *reader) scalar(n *Node, key string, entered bool) error {
	t, err := d.dec.ReadToken()
	if err != nil {
		return err
	}
	if entered {
		return fmt.Errorf("%w: key %q after the children of a %s", ErrDump, key, n.Kind)
	}
	s := t.String()
	switch key {
	case "id":
		n.ID = parseID(s)
	case "kind":
		n.Kind = d.intern(s)
	case "name":
		n.Name = d.intern(s)
	case "mangledName":
		n.Mangled = d.intern(s)
	case "previousDecl":
		n.Prev = parseID(s)
	case "referencedMemberDecl":
		n.Member = parseID(s)
	case "declId", "targetLabelDeclId", "labelDeclId":
		n.LabelID = parseID(s)
	case "parentDeclContextId":
	default:
		if !isPointer(s) {
			n.Attrs = append(n.Attrs, Attr{key, d.intern(s)})
		}
	}
	return nil
}

// object reads an object that is no node: a location, a type, a reference, or
// something unknown, whose leaves become attributes "key.sub".
func (d *reader) object(n *Node, key string) error {
	switch key {
	case "range":
		return d.rangeOf(n)
	case "loc":
		loc, _, err := d.location()
		n.Loc = loc
		return err
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	var typ Type
	var ref Ref
	mark := len(n.Attrs)
	for d.dec.PeekKind() == '"' {
		k, err := d.str()
		if err != nil {
			return err
		}
		if d.dec.PeekKind() == '{' {
			if k == "type" { // of a referenced declaration
				var m Node
				if err := d.object(&m, k); err != nil {
					return err
				}
				ref.Type = m.Type()
				continue
			}
			if err := d.object(n, key+"."+k); err != nil {
				return err
			}
			continue
		}
		if d.dec.PeekKind() == '[' {
			v, err := d.dec.ReadValue()
			if err != nil {
				return err
			}
			n.Attrs = append(n.Attrs, Attr{key + "." + k, string(v)})
			continue
		}
		t, err := d.dec.ReadToken()
		if err != nil {
			return err
		}
		s := t.String()
		switch k {
		case "qualType":
			typ.Qual = d.intern(s)
		case "desugaredQualType":
			typ.Desugared = d.intern(s)
		case "typeAliasDeclId":
		case "id":
			ref.ID = parseID(s)
		case "kind":
			ref.Kind = d.intern(s)
		case "name":
			ref.Name = d.intern(s)
		default:
			if !isPointer(s) {
				n.Attrs = append(n.Attrs, Attr{key + "." + k, d.intern(s)})
			}
		}
	}
	if _, err := d.dec.ReadToken(); err != nil {
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

func (d *reader) rangeOf(n *Node) error {
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	for d.dec.PeekKind() == '"' {
		k, err := d.str()
		if err != nil {
			return err
		}
		off, length, err := d.location()
		if err != nil {
			return err
		}
		if k == "begin" {
			n.Begin = off
		} else {
			n.End, n.EndLen = off, length
		}
	}
	_, err := d.dec.ReadToken()
	return err
}

// location reads a location object. Where a token was split or comes from a
// macro, the place of the expansion counts.
func (d *reader) location() (off, tokLen int, err error) {
	off = -1
	if d.dec.PeekKind() != '{' {
		return off, 0, d.dec.SkipValue()
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return off, 0, err
	}
	for d.dec.PeekKind() == '"' {
		t, err := d.dec.ReadToken()
		if err != nil {
			return off, 0, err
		}
		switch k := t.String(); k {
		case "offset", "tokLen":
			t, err := d.dec.ReadToken()
			if err != nil {
				return off, 0, err
			}
			u, err := strconv.ParseUint(t.String(), 10, 31)
			if err != nil {
				return off, 0, fmt.Errorf("%w: %s: %v", ErrDump, k, err)
			}
			if k == "offset" {
				off = int(u)
			} else {
				tokLen = int(u)
			}
		case "expansionLoc":
			if off, tokLen, err = d.location(); err != nil {
				return off, 0, err
			}
		default:
			if err := d.dec.SkipValue(); err != nil {
				return off, 0, err
			}
		}
	}
	_, err = d.dec.ReadToken()
	return off, tokLen, err
}

func parseID(s string) ID {
	u, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
	if err != nil {
		return 0
	}
	return ID(u)
}

// isPointer recognises the addresses that clang prints, wherever they occur:
// they differ from run to run.
func isPointer(s string) bool {
	if len(s) < 8 || !strings.HasPrefix(s, "0x") {
		return false
	}
	for _, c := range s[2:] {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}
