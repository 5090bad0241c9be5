package component

import (
	"bytes"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/clangast"
	"github.com/rules-tasting/rules_tasting/analyzer/ctext"
)

// complete lists the node kinds whose JSON, children included, is known to
// say everything that can influence code (traps A and G). Every other kind
// makes the token text of the whole definition count as well.
var complete = wordSet(`
	CompoundStmt DeclStmt NullStmt IfStmt WhileStmt DoStmt ForStmt SwitchStmt CaseStmt DefaultStmt BreakStmt
	ContinueStmt ReturnStmt GotoStmt IndirectGotoStmt LabelStmt AttributedStmt
	DeclRefExpr IntegerLiteral FloatingLiteral CharacterLiteral StringLiteral ImaginaryLiteral ParenExpr
	UnaryOperator BinaryOperator CompoundAssignOperator ConditionalOperator BinaryConditionalOperator
	OpaqueValueExpr ImplicitCastExpr CStyleCastExpr CallExpr MemberExpr ArraySubscriptExpr InitListExpr
	ImplicitValueInitExpr CompoundLiteralExpr ConstantExpr UnaryExprOrTypeTraitExpr StmtExpr PredefinedExpr
	VAArgExpr GenericSelectionExpr AddrLabelExpr DesignatedInitExpr NoInitExpr ArrayInitLoopExpr ArrayInitIndexExpr
	VarDecl ParmVarDecl FieldDecl IndirectFieldDecl EnumConstantDecl
	BuiltinType PointerType`)

// shallow lists the kinds whose own type, where it is a pointer, doesn't bring
// in what it points to: the pointer is only copied, tested or passed on.
var shallow = wordSet(`
	CompoundStmt DeclStmt NullStmt IfStmt WhileStmt DoStmt ForStmt SwitchStmt CaseStmt DefaultStmt BreakStmt
	ContinueStmt ReturnStmt GotoStmt LabelStmt DeclRefExpr ParenExpr CallExpr MemberExpr InitListExpr ImplicitValueInitExpr
	CompoundLiteralExpr ConditionalOperator StmtExpr VarDecl ParmVarDecl FieldDecl ConstantExpr StringLiteral PredefinedExpr
	UnaryExprOrTypeTraitExpr ArraySubscriptExpr`)

var shallowCasts = wordSet(`LValueToRValue NoOp FunctionToPointerDecay BuiltinFnToFnPtr NullToPointer ArrayToPointerDecay
	PointerToBoolean IntegralCast IntegralToBoolean IntegralToFloating FloatingToIntegral FloatingCast FloatingToBoolean ToVoid`)

func isShallow(n *clangast.Node) bool {
	switch n.Kind {
	case "ImplicitCastExpr", "CStyleCastExpr":
		return shallowCasts[n.Attr("castKind")]
	case "BinaryOperator":
		switch n.Attr("opcode") {
		case "=", "==", "!=", "&&", "||", ",":
			return true
		}
		return false
	case "UnaryOperator":
		// What "*" accesses is the node's own type.
		op := n.Attr("opcode")
		return op == "!" || op == "&" || op == "*"
	}
	return shallow[n.Kind]
}

// bookkeeping lists attributes of nodes that never influence code.
var bookkeeping = wordSet(`isUsed isReferenced isThisDeclarationReferenced completeDefinition inherited`)

func (b *builder) top() *frame { return &b.stack[len(b.stack)-1] }

// Enter implements clangast.Visitor.
func (b *builder) Enter(n *clangast.Node) error {
	f := frame{kind: n.Kind, begin: n.Begin}
	if len(b.stack) > 0 {
		f.deep = b.top().deep
		b.top().children++
	}
	b.stack = append(b.stack, f)
	if b.skip > 0 {
		b.skip++
		return nil
	}
	if n.Kind == "TranslationUnitDecl" {
		return nil
	}
	atFile := len(b.stack) == 2
	if atFile {
		b.enterExternal(n)
	}
	switch n.Kind {
	case "FunctionDecl":
		return b.functionDecl(n)
	case "VarDecl":
		return b.varDecl(n, atFile)
	case "ParmVarDecl":
		return b.parmDecl(n)
	case "RecordDecl":
		return b.recordDecl(n)
	case "FieldDecl":
		return b.fieldDecl(n)
	case "IndirectFieldDecl":
		b.skipNode()
		return nil
	case "EnumDecl":
		return b.enumDecl(n)
	case "EnumConstantDecl":
		return b.enumConstant(n)
	case "TypedefDecl":
		return b.typedefDecl(n)
	case "StaticAssertDecl", "EmptyDecl":
		// Checked or nothing; what is evaluated emits no code.
		b.skipNode()
		return nil
	case "FullComment":
		b.skipNode()
		return nil
	case "FileScopeAsmDecl":
		return b.fileAsm(n)
	}
	if strings.HasSuffix(n.Kind, "Attr") {
		return b.attr(n)
	}
	if strings.HasSuffix(n.Kind, "Decl") && b.cur == nil {
		// Of a kind that isn't known: it may act on the whole unit.
		b.extra.h.str(n.Kind)
		if n.Begin >= 0 {
			b.writeText(b.extra, n.Begin, max(nodeEnd(n), n.Begin))
		}
		attrs(b.extra, n)
		b.skipNode()
		return nil
	}
	switch {
	case b.cur != nil:
		if n.Kind == "CompoundStmt" && len(b.stack) == 3 && b.stack[1].kind == "FunctionDecl" {
			b.fn.bodyAt = max(n.Begin, 0)
		}
		return b.node(n)
	case b.enum != nil:
		b.enumInit(n)
	case b.typedefOf != nil:
		// The types below a typedef: all that they say is in its own type
		// string, but for the unnamed tag that it gives a name to.
		for _, r := range n.Refs {
			if t, ok := b.ids[r.ID]; ok && r.Name == "" && t.ent != nil {
				b.unnamed = append(b.unnamed, t.ent)
				if t.ent.name == "" {
					t.ent.name = "typedef " + b.typedefOf.name
				}
				if b.fn == nil && b.tags[b.typedefOf.name] == nil {
					b.tags[b.typedefOf.name] = t.ent
				}
			}
		}
	default:
		b.skipNode()
	}
	return nil
}

func (b *builder) skipNode() {
	b.top().skip = true
	b.skip = 1
}

// Leave implements clangast.Visitor.
func (b *builder) Leave(n *clangast.Node) error {
	f := b.stack[len(b.stack)-1]
	b.stack = b.stack[:len(b.stack)-1]
	if b.skip > 0 {
		b.skip--
		if b.skip > 0 || !f.skip {
			return nil
		}
	}
	if f.open {
		b.cur.h.tag(')')
	}
	if f.scope {
		b.cur.h.str("scope end")
	}
	if f.leave != nil {
		return f.leave(n)
	}
	return nil
}

// enterExternal finds the extent of the text that belongs to a declaration at
// file scope, with leading and trailing attributes.
func (b *builder) enterExternal(n *clangast.Node) {
	if n.Begin < 0 || n.Begin < b.prevEnd {
		return // implicit, or shares its specifiers with the previous one
	}
	b.lead = b.prevEnd
}

func (b *builder) leaveExternal(end int) {
	if end > b.prevEnd {
		b.prevEnd = end
	}
}

// node writes an expression, a statement or a part of one.
func (b *builder) node(n *clangast.Node) error {
	s := b.cur
	if n.Kind == "ParenExpr" && !b.protectParens || n.Kind == "NullStmt" && b.stack[len(b.stack)-2].kind == "CompoundStmt" {
		return nil // no code stems from these
	}
	switch n.Kind {
	case "CompoundStmt":
		if len(n.Attrs) == 0 && b.stack[len(b.stack)-2].kind == "CompoundStmt" {
			return nil // no code stems from its braces, unless openScope says so
		}
	case "DeclStmt", "CompoundLiteralExpr":
		b.openScope()
	}
	if !complete[n.Kind] && n.Kind != "" {
		s.markOpaque(n.Kind)
	}
	f := b.top()
	f.open = true
	s.h.tag('(')
	s.h.str(n.Kind)
	if n.Label != "inner" {
		s.h.str("label " + n.Label)
	}
	d := value
	if !isShallow(n) {
		f.deep = true
	}
	if f.deep {
		d = pointee
	}
	b.keys(s, n, d)
	return nil
}

// openScope writes that the innermost block ends the life of something: of a
// variable, or of a compound literal (C17 6.5.2.5, paragraph 5).
func (b *builder) openScope() {
	for i := len(b.stack) - 1; i >= 0; i-- {
		if f := &b.stack[i]; f.kind == "CompoundStmt" {
			if !f.open && !f.scope {
				f.scope = true
				b.cur.h.str("scope")
			}
			return
		}
	}
}

// keys writes what a node says of itself.
func (b *builder) keys(s *stream, n *clangast.Node, d depth) {
	for _, t := range n.Types {
		s.h.str(t.Key)
		b.writeType(s, t.Qual, d)
	}
	if n.Name != "" && n.LabelID == 0 {
		s.h.str("name " + n.Name)
	}
	attrs(s, n)
	if n.Member != 0 {
		b.reference(s, clangast.Ref{Key: "member", ID: n.Member, Kind: "FieldDecl", Name: n.Name})
	}
	if n.Kind == "StringLiteral" && slices.ContainsFunc(n.Attrs, func(a clangast.Attr) bool { return strings.Contains(a.Value, " at <stdin>:") }) {
		b.unknown = "__PRETTY_FUNCTION__ holds the position of a type without a name"
	}
	if n.LabelID != 0 {
		s.h.str("label")
		s.h.num(uint64(b.label(n.LabelID)))
		if n.Kind == "AddrLabelExpr" && b.fn != nil {
			// Its value is an address inside the function.
			s.use(b.fn.ent, name)
		}
	}
	for _, r := range n.Refs {
		if r.Key != "foundReferencedDecl" {
			b.reference(s, r)
		}
	}
}

// attrs writes the attributes of a node, except bookkeeping and those given.
func attrs(s *stream, n *clangast.Node, except ...string) {
	for _, a := range n.Attrs {
		if !bookkeeping[a.Key] && !slices.Contains(except, a.Key) {
			s.h.str(a.Key)
			s.h.str(a.Value)
		}
	}
}

func (b *builder) label(id clangast.ID) int {
	if b.fn == nil {
		return 0
	}
	l, ok := b.fn.labels[id]
	if !ok {
		l = len(b.fn.labels) + 1
		b.fn.labels[id] = l
	}
	return l
}

// reference writes a reference to a declaration.
func (b *builder) reference(s *stream, r clangast.Ref) {
	s.h.str(r.Key)
	t, ok := b.ids[r.ID]
	switch {
	case !ok && r.Kind == "FunctionDecl":
		// Implicitly declared: builtins, and functions of C89.
		e := b.ordinaryEntity(r.Name, entFunction)
		if e.kind == entFunction {
			if len(e.decls) == 0 {
				ds := newStream()
				ds.h.str("implicit " + r.Type)
				e.decls = append(e.decls, declaration{typ: ds.seal()})
			}
			s.use(e, name)
			return
		}
		s.markOpaque("reference to an undeclared " + r.Kind)
	case !ok:
		s.h.str(r.Kind + " " + r.Name)
		s.markOpaque("reference to an undeclared " + r.Kind)
	case t.enum != "":
		s.h.str("enumerator " + t.enum)
		if t.ent != nil {
			s.use(t.ent, value)
		}
	case t.field != "":
		s.h.str("field " + t.field)
		s.use(t.ent, value)
	case t.local > 0:
		s.h.str("local")
		s.h.num(uint64(t.local))
		if t.ent != nil {
			s.use(t.ent, name)
		}
	default:
		if !b.isCallee() {
			t.ent.addressTaken = true
		}
		s.use(t.ent, value)
	}
}

// isCallee reports whether the node being read is the function that a call
// names.
func (b *builder) isCallee() bool {
	n := len(b.stack)
	return n > 2 && b.stack[n-1].kind == "DeclRefExpr" && b.stack[n-2].kind == "ImplicitCastExpr" &&
		b.stack[n-3].kind == "CallExpr" && b.stack[n-3].children == 1
}

func (b *builder) newLocal(id clangast.ID) int {
	b.fn.locals++
	b.ids[id] = target{local: b.fn.locals}
	b.fn.ids = append(b.fn.ids, id)
	return b.fn.locals
}

func (b *builder) functionDecl(n *clangast.Node) error {
	if n.Name == "" {
		return fmt.Errorf("%w: a function without a name", clangast.ErrDump)
	}
	e := b.ordinaryEntity(n.Name, entFunction)
	if e.kind != entFunction {
		// Shadowed names in block scope can't collide in C; be safe.
		e = &entity{kind: entFunction, name: n.Name}
	}
	if n.Mangled != "" {
		e.sym = n.Mangled
	}
	if e.sym == n.Name && strings.HasSuffix(n.Type(), "__attribute__((regcall))") {
		e.sym = "__regcall3__" + n.Name // the dump's mangledName lacks it
	}
	b.ids[n.ID] = target{ent: e}
	storage := n.Attr("storageClass")
	e.local = e.local || storage == "static"
	e.inline = e.inline || n.Has("inline")
	ds := newStream()
	b.writeType(ds, n.Type(), name)
	attrs(ds, n, "storageClass", "inline", "isImplicit")
	outer := b.scope
	b.decl, b.owner = ds, e
	b.cur = newStream()
	nested := b.fn != nil // a declaration inside a function
	if !nested {
		b.fn = &function{ent: e, labels: map[clangast.ID]int{}, names: map[string][]*entity{}, tags: map[string][]*entity{}, bodyAt: -1}
	}
	f := b.top()
	f.deep = false
	body := false
	f.leave = func(n *clangast.Node) error {
		b.finishDecl(ds, n)
		e.decls = append(e.decls, declaration{typ: ds.seal(), storage: storage, inline: n.Has("inline")})
		cur, fn := b.cur, b.fn
		b.scope = outer
		if nested {
			return nil
		}
		for _, id := range fn.ids {
			delete(b.ids, id)
		}
		body = fn.bodyAt >= 0
		end := nodeEnd(n)
		declEnd := fn.bodyAt
		if !body {
			if n.Begin >= 0 {
				declEnd = b.declEnd(end)
				end = declEnd
			}
		}
		if n.Begin >= 0 {
			b.declAttributes(e, ctext.Within(b.x.Attributes, b.lead, declEnd), b.lead, declEnd)
		}
		if body {
			c := &comp{ent: e, name: e.sym, kind: compFunction, file: b.unit.FileAt(n.Begin)}
			c.body = b.finishBody(cur, n.Begin, end, e.sym)
			b.define(e, c)
		} else if e.isAlias() {
			b.aliasComp(e, n)
		}
		b.leaveExternal(end)
		return nil
	}
	return nil
}

// declAttributes adds the attribute specifiers of one declaration to e.
func (b *builder) declAttributes(e *entity, spans []ctext.Span, begin, end int) {
	for _, sp := range spans {
		s := newStream()
		b.writeText(s, sp.Begin, sp.End)
		words := ctext.Words(b.unit.Text[sp.Begin:sp.End])
		for _, w := range words {
			s.word(w)
			switch w := strings.Trim(w, "_"); w {
			case "constructor", "destructor", "used", "retain", "section", "init_priority":
				b.root(e, w)
			case "alias", "ifunc", "weakref":
				b.root(e, w)
				s.symbols = append(s.symbols, words...)
			case "weak", "selectany":
				e.weak = true
			}
		}
		e.attrs = append(e.attrs, s.seal())
	}
	if st := b.x.PragmaState(end); st != "" {
		s := newStream()
		s.h.str("pragma " + st)
		e.attrs = append(e.attrs, s.seal())
		if strings.Contains(st, "clang section") {
			b.root(e, "section")
		}
	}
}

func (b *builder) root(e *entity, reason string) {
	if e.roots == nil {
		e.roots = map[string]bool{}
	}
	e.roots[reason] = true
}

// aliasComp makes a component of a declaration that is a definition through
// its attribute: alias or ifunc.
func (b *builder) aliasComp(e *entity, n *clangast.Node) {
	if len(e.comps) > 0 {
		return
	}
	s := newStream()
	s.h.str("alias")
	c := &comp{ent: e, name: e.sym, kind: compFunction, file: b.unit.FileAt(n.Begin), body: s.seal()}
	if e.kind == entVariable {
		c.kind = compVariable
	}
	b.define(e, c)
}

// define adds a component that defines e. There may be several: versions of a
// function for several targets.
func (b *builder) define(e *entity, c *comp) {
	b.comps = append(b.comps, c)
	e.comps = append(e.comps, c)
}

func (b *builder) varDecl(n *clangast.Node, atFile bool) error {
	if n.Name == "" {
		return fmt.Errorf("%w: a variable without a name", clangast.ErrDump)
	}
	storage := n.Attr("storageClass")
	if !atFile && b.fn != nil && storage != "extern" {
		return b.localVar(n, storage)
	}
	e := b.ordinaryEntity(n.Name, entVariable)
	if e.kind != entVariable {
		e = &entity{kind: entVariable, name: n.Name}
	}
	if n.Mangled != "" {
		e.sym = n.Mangled
	}
	e.local = e.local || storage == "static"
	b.ids[n.ID] = target{ent: e}
	ds := newStream()
	b.writeType(ds, n.Type(), value)
	attrs(ds, n, "storageClass", "init", "tls")
	cs := newStream()
	b.writeType(cs, n.Type(), value)
	outer := b.scope
	b.decl, b.owner, b.cur = ds, e, cs
	init := n.Attr("init") != ""
	tls := n.Attr("tls")
	b.top().deep = false
	b.top().leave = func(n *clangast.Node) error {
		b.finishDecl(ds, n)
		e.decls = append(e.decls, declaration{typ: ds.seal(), storage: storage, tls: tls})
		b.scope = outer
		if !atFile {
			return nil // extern inside a function: its text is the function's
		}
		end := nodeEnd(n)
		if n.Begin >= 0 {
			end = b.declEnd(end)
			b.declAttributes(e, ctext.Within(b.x.Attributes, b.lead, end), b.lead, end)
		}
		b.leaveExternal(end)
		if e.isAlias() {
			b.aliasComp(e, n)
			return nil
		}
		if init || storage != "extern" {
			c := &comp{ent: e, name: e.sym, kind: compVariable, file: b.unit.FileAt(n.Begin)}
			c.body = b.finishBody(cs, n.Begin, end, e.sym)
			if len(e.comps) > 0 { // a tentative definition before the real one
				if init {
					*e.comps[0] = *c
				}
				return nil
			}
			b.define(e, c)
		}
		return nil
	}
	return nil
}

// localVar handles variables of a function. A static one is a component of
// its own.
func (b *builder) localVar(n *clangast.Node, storage string) error {
	num := b.newLocal(n.ID)
	s := b.cur
	if storage == "static" {
		e := &entity{kind: entVariable, name: n.Name, sym: b.fn.ent.sym + "." + n.Name, local: true}
		b.ids[n.ID] = target{ent: e, local: num}
		s.h.str("static local")
		s.h.num(uint64(num))
		s.use(e, name)
		ds := newStream()
		b.writeType(ds, n.Type(), value)
		e.decls = append(e.decls, declaration{typ: ds.seal(), storage: storage, tls: n.Attr("tls")})
		cs := newStream()
		b.writeType(cs, n.Type(), value)
		b.cur = cs
		begin, end := n.Begin, nodeEnd(n)
		if p := &b.stack[len(b.stack)-2]; p.kind == "DeclStmt" && p.begin >= 0 && begin > p.begin {
			begin = p.begin // with leading attributes
		}
		b.top().deep = false
		b.top().leave = func(n *clangast.Node) error {
			b.cur = s
			c := &comp{ent: e, name: e.sym, kind: compVariable, file: b.unit.FileAt(begin)}
			if begin >= 0 {
				end = b.declEnd(end)
				b.declAttributes(e, ctext.Within(b.x.Attributes, begin, end), begin, end)
			}
			c.body = b.finishBody(cs, begin, end, e.sym)
			b.define(e, c)
			return nil
		}
		return nil
	}
	f := b.top()
	f.open = true
	s.h.tag('(')
	s.h.str("VarDecl")
	s.h.num(uint64(num))
	b.writeType(s, n.Type(), value)
	attrs(s, n)
	return nil
}

func (b *builder) parmDecl(n *clangast.Node) error {
	if b.fn == nil || b.cur == nil {
		b.skipNode()
		return nil
	}
	num := b.newLocal(n.ID)
	s := b.cur
	b.top().open = true
	s.h.tag('(')
	s.h.str("ParmVarDecl")
	s.h.num(uint64(num))
	b.writeType(s, n.Type(), value)
	if sc := n.Attr("storageClass"); sc != "" {
		s.h.str(sc)
	}
	// The original type of an array parameter isn't in the dump.
	if n.Begin >= 0 && strings.IndexByte(string(b.unit.Text[n.Begin:nodeEnd(n)]), '[') >= 0 {
		b.writeText(s, n.Begin, nodeEnd(n))
	} else if n.Begin >= 0 {
		// ... and its bounds may stand behind the name.
		lex := ctext.NewLexer(b.unit.Text, nodeEnd(n))
		if t := lex.Next(); t.Kind == ctext.Punct && b.unit.Text[t.Off] == '[' {
			b.writeText(s, n.Begin, b.declEnd(nodeEnd(n)))
		}
	}
	return nil
}

func (b *builder) recordDecl(n *clangast.Node) error {
	var e *entity
	switch {
	case n.Name == "":
		e = b.anonEntity(b.position(n.Loc))
	case b.fn != nil:
		e = b.localType(n, b.fn.tags)
	default:
		e = b.tagEntity(n.Name)
	}
	b.ids[n.ID] = target{ent: e}
	if b.fn != nil {
		b.fn.ids = append(b.fn.ids, n.ID)
	}
	s := newStream()
	attrs(s, n)
	outer := b.scope
	b.cur, b.decl, b.owner = s, nil, e
	b.top().deep = false
	defined := n.Has("completeDefinition")
	b.top().leave = func(n *clangast.Node) error {
		b.scope = outer
		if !defined {
			return nil
		}
		e.kind = entRecord
		b.finishType(e, s, n)
		return nil
	}
	return nil
}

// localType returns the entity of a type declared inside a function.
func (b *builder) localType(n *clangast.Node, scope map[string][]*entity) *entity {
	if n.Prev != 0 {
		if t, ok := b.ids[n.Prev]; ok && t.ent != nil {
			return t.ent
		}
	}
	e := &entity{kind: entRecord, name: n.Name}
	scope[n.Name] = append(scope[n.Name], e)
	return e
}

// finishType completes the content of a type: attributes, the pragmas in
// force (packing isn't in the dump), and text where nodes don't say all.
func (b *builder) finishType(e *entity, s *stream, n *clangast.Node) {
	if n.Begin >= 0 {
		begin, end := n.Begin, b.declEnd(nodeEnd(n))
		if b.fn == nil && len(b.stack) == 1 {
			begin = min(begin, b.lead)
			b.leaveExternal(end)
		}
		if st := b.x.PragmaState(nodeEnd(n)); st != "" {
			s.h.str("pragma " + st)
		}
		if st := b.x.PragmaState(n.Begin); st != "" {
			s.h.str("pragma " + st)
		}
		b.writeSpans(s, ctext.Within(b.x.Attributes, begin, end))
		if len(ctext.Within(b.x.Pragmas, n.Begin, nodeEnd(n))) > 0 {
			s.markOpaque("pragma inside a definition")
		}
		b.writeSites(s, begin, end)
		if s.opaque != "" {
			b.writeText(s, n.Begin, end)
		}
	}
	c := s.seal()
	e.content = &c
}

func (b *builder) fieldDecl(n *clangast.Node) error {
	if b.owner == nil || b.cur == nil {
		return fmt.Errorf("field %q outside of a record", n.Name)
	}
	field := n.Name
	if field == "" {
		field = "(unnamed)"
	}
	b.ids[n.ID] = target{ent: b.owner, field: field}
	if b.fn != nil {
		b.fn.ids = append(b.fn.ids, n.ID)
	}
	s := b.cur
	b.top().open = true
	s.h.tag('(')
	s.h.str("FieldDecl")
	s.h.str(n.Name)
	b.writeType(s, n.Type(), value)
	attrs(s, n)
	return nil
}

func (b *builder) enumDecl(n *clangast.Node) error {
	var e *entity
	switch {
	case n.Name == "":
		e = b.anonEntity(b.position(n.Loc))
	case b.fn != nil:
		e = b.localType(n, b.fn.tags)
	default:
		e = b.tagEntity(n.Name)
	}
	e.kind = entEnum
	b.ids[n.ID] = target{ent: e}
	if b.fn != nil {
		b.fn.ids = append(b.fn.ids, n.ID)
	}
	outer := b.scope
	s := newStream()
	for _, t := range n.Types {
		s.h.str(t.Key)
		b.writeType(s, t.Qual, value)
	}
	st := &enumState{next: new(big.Int), lo: new(big.Int), hi: new(big.Int)}
	for _, site := range b.unit.Sites {
		if site.Off >= n.Begin && site.Off < nodeEnd(n) {
			st.sites += " at " + site.Position
		}
	}
	b.cur, b.decl, b.owner, b.enum = nil, nil, e, st
	b.top().leave = func(n *clangast.Node) error {
		b.scope = outer
		if st.members == 0 {
			return nil
		}
		// Its size and sign follow from the extreme values.
		s.h.str(st.lo.String())
		s.h.str(st.hi.String())
		if st.unknown {
			s.markOpaque("value of an enumerator")
		}
		b.finishType(e, s, n)
		return nil
	}
	return nil
}

// enumConstant finds the value of an enumerator: that of its ConstantExpr, or
// one more than the previous one's.
func (b *builder) enumConstant(n *clangast.Node) error {
	st := b.enum
	if st == nil {
		return fmt.Errorf("enumerator %q outside of an enum", n.Name)
	}
	st.explicit, st.hasInit = nil, false
	b.top().leave = func(n *clangast.Node) error {
		v := new(big.Int).Set(st.next)
		if st.explicit != nil {
			v = st.explicit
		}
		st.next = new(big.Int).Add(v, big.NewInt(1))
		if st.members == 0 || v.Cmp(st.lo) < 0 {
			st.lo = v
		}
		if st.members == 0 || v.Cmp(st.hi) > 0 {
			st.hi = v
		}
		st.members++
		if st.hasInit && st.explicit == nil {
			st.unknown = true
		}
		t := target{enum: v.String() + " " + n.Type() + st.sites}
		if st.unknown {
			// Then the whole enum counts, by its text.
			t = target{enum: "unknown " + n.Name + st.sites, ent: b.owner}
		}
		b.ids[n.ID] = t
		if b.fn == nil {
			b.enums[n.Name] = enumerator{t.enum, t.ent}
		} else {
			b.fn.ids = append(b.fn.ids, n.ID)
		}
		return nil
	}
	return nil
}

// enumInit reads the initialiser of an enumerator, or what is below it.
func (b *builder) enumInit(n *clangast.Node) {
	b.enum.hasInit = true
	switch n.Kind {
	case "ConstantExpr":
		if v, ok := new(big.Int).SetString(n.Attr("value"), 10); ok && b.enum.explicit == nil {
			b.enum.explicit = v
		}
	case "ImplicitCastExpr", "ParenExpr":
		return // the value is below
	}
	b.skipNode()
}

// finishDecl completes the stream of a declaration whose type the dump doesn't
// show completely.
func (b *builder) finishDecl(ds *stream, n *clangast.Node) {
	if n.Kind == "VarDecl" && n.Begin >= 0 {
		b.writeSites(ds, n.Begin, nodeEnd(n))
	}
	if ds.opaque != "" && n.Begin >= 0 {
		b.writeText(ds, n.Begin, nodeEnd(n))
	}
}

func (b *builder) typedefDecl(n *clangast.Node) error {
	var e *entity
	if b.fn != nil {
		e = b.localType(n, b.fn.names)
	} else {
		e = b.ordinaryEntity(n.Name, entTypedef)
	}
	e.kind = entTypedef
	s := newStream()
	outer := b.scope
	b.cur, b.decl, b.owner, b.typedefOf = nil, nil, e, e
	fn := b.fn
	b.top().leave = func(n *clangast.Node) error {
		unnamed := b.unnamed
		b.scope = outer
		// Only now is the unnamed tag known that the type string calls by the
		// typedef's name.
		e.typ = b.resolveType(s, n.Type())
		e.typ.ents = append(e.typ.ents, unnamed...)
		if n.Begin < 0 {
			return nil
		}
		end := b.declEnd(nodeEnd(n))
		begin := n.Begin
		if fn == nil && len(b.stack) == 1 {
			begin = min(begin, b.lead)
			b.leaveExternal(end)
		}
		b.writeSpans(s, ctext.Within(b.x.Attributes, begin, end))
		b.writeSites(s, begin, end)
		if s.opaque != "" {
			b.writeText(s, begin, end)
		}
		c := s.seal()
		e.content = &c
		return nil
	}
	return nil
}

func (b *builder) fileAsm(n *clangast.Node) error {
	s := newStream()
	begin, end := n.Begin, nodeEnd(n)
	if begin < 0 {
		return fmt.Errorf("file-scope asm without a source range")
	}
	end = b.declEnd(end)
	b.writeText(s, begin, end)
	b.asmSymbols(s, begin, end)
	if st := b.x.PragmaState(begin); st != "" {
		s.h.str("pragma " + st)
	}
	b.leaveExternal(end)
	// Directives in it (sections, macros) act on all code that follows.
	b.writeText(b.extra, begin, end)
	c := &comp{name: fmt.Sprintf("asm#%d", b.asm), kind: compAsm, root: "file-scope asm", file: b.unit.FileAt(begin)}
	c.body = s.seal()
	c.aliases = labels(ctext.StringContents(b.unit.Text[begin:end]))
	b.asm++
	b.comps = append(b.comps, c)
	b.fallbacks = append(b.fallbacks, fallback{c.name, "token text: file-scope asm"})
	b.skipNode()
	return nil
}

// labels returns the symbols that asm text defines.
func labels(text []byte) []string {
	seen := map[string]bool{}
	var out []string
	for i := 0; i < len(text); {
		w := ctext.Words(text[i:])
		if len(w) == 0 {
			break
		}
		j := bytes.Index(text[i:], []byte(w[0])) + i + len(w[0])
		k := j
		for k < len(text) && text[k] == ' ' {
			k++
		}
		if k < len(text) && (text[k] == ':' || text[k] == '=') && !seen[w[0]] {
			seen[w[0]] = true
			out = append(out, w[0])
		}
		i = j
	}
	return out
}

// attr handles an attribute node. The specifier's text counts wherever it is
// written; the node tells of implicit ones.
func (b *builder) attr(n *clangast.Node) error {
	if b.owner != nil && b.decl != nil && len(b.stack) > 1 && b.stack[len(b.stack)-2].kind == declKind(b.owner) {
		switch n.Kind {
		case "BuiltinAttr":
			b.root(b.owner, "library function")
		case "WeakAttr", "WeakRefAttr", "SelectAnyAttr":
			b.owner.weak = true
		case "ConstructorAttr", "DestructorAttr", "UsedAttr", "RetainAttr", "SectionAttr":
			b.root(b.owner, strings.ToLower(strings.TrimSuffix(n.Kind, "Attr")))
		}
		if !n.Has("inherited") {
			// A keyword such as _Noreturn has no specifier.
			s := newStream()
			s.h.str(n.Kind)
			for _, r := range n.Refs {
				b.reference(s, r)
			}
			b.owner.attrs = append(b.owner.attrs, s.seal())
		}
		b.skipNode()
		return nil
	}
	if b.cur != nil {
		b.cur.h.str(n.Kind)
		for _, r := range n.Refs {
			b.reference(b.cur, r)
		}
	}
	b.skipNode()
	return nil
}

func declKind(e *entity) string {
	if e.kind == entFunction {
		return "FunctionDecl"
	}
	return "VarDecl"
}
