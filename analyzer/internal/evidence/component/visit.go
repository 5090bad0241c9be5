package component

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/clangast"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/token"
)

// completeKinds are the kinds of nodes whose JSON, with that of the children, has everything that can influence code.
// No other kind is plain.
var completeKinds = words.Set(`
	CompoundStmt DeclStmt NullStmt IfStmt WhileStmt DoStmt ForStmt SwitchStmt CaseStmt DefaultStmt BreakStmt
	ContinueStmt ReturnStmt GotoStmt LabelStmt AttributedStmt
	DeclRefExpr IntegerLiteral FloatingLiteral CharacterLiteral StringLiteral ParenExpr
	UnaryOperator BinaryOperator CompoundAssignOperator ConditionalOperator
	ImplicitCastExpr CStyleCastExpr CallExpr MemberExpr ArraySubscriptExpr InitListExpr
	ImplicitValueInitExpr CompoundLiteralExpr ConstantExpr UnaryExprOrTypeTraitExpr StmtExpr PredefinedExpr
	VAArgExpr CXXBoolLiteralExpr
	OffsetOfExpr VarDecl ParmVarDecl FieldDecl IndirectFieldDecl`)

// completeAttrs are the attributes whose node adds nothing to their text.
var completeAttrs = words.Set(`NoThrowAttr LeafAttr PureAttr ConstAttr RestrictAttr ReturnsNonNullAttr NonNullAttr NoReturnAttr C11NoReturnAttr
	AlwaysInlineAttr NoInlineAttr ColdAttr HotAttr PackedAttr AlignedAttr UnusedAttr FallThroughAttr
	WarnUnusedResultAttr ReturnsTwiceAttr AllocSizeAttr SentinelAttr
	DeprecatedAttr FormatAttr FormatArgAttr ModeAttr BuiltinAttr AsmLabelAttr VisibilityAttr MayAliasAttr
	AvailableOnlyInDefaultEvalMethodAttr`)

// silentAttrs are attributes that only warn or suppress warnings.
var silentAttrs = words.Set(`UnusedAttr DeprecatedAttr WarnUnusedResultAttr FallThroughAttr`)

// shallowKinds are the kinds whose own type, if it is a pointer, is used at depth value: the pointer is only
// copied, tested or passed on.
var shallowKinds = words.Set(`
	CompoundStmt DeclStmt NullStmt IfStmt WhileStmt DoStmt ForStmt SwitchStmt CaseStmt DefaultStmt BreakStmt
	ContinueStmt ReturnStmt GotoStmt LabelStmt DeclRefExpr ParenExpr CallExpr MemberExpr InitListExpr ImplicitValueInitExpr
	CompoundLiteralExpr ConditionalOperator StmtExpr VarDecl ParmVarDecl FieldDecl ConstantExpr StringLiteral PredefinedExpr
	UnaryExprOrTypeTraitExpr ArraySubscriptExpr`)

var shallowCasts = words.Set(`LValueToRValue NoOp FunctionToPointerDecay BuiltinFnToFnPtr NullToPointer ArrayToPointerDecay
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
		// The type of "*" is that of the accessed object.
		op := n.Attr("opcode")
		return op == "!" || op == "&" || op == "*"
	}
	return shallowKinds[n.Kind]
}

// bookkeeping are attributes of nodes that never influence code.
var bookkeeping = words.Set(`isUsed isReferenced isThisDeclarationReferenced completeDefinition inherited`)

func (b *builder) top() *frame { return &b.stack[len(b.stack)-1] }

// Enter implements clangast.Visitor.
func (b *builder) Enter(n *clangast.Node) error {
	f := frame{kind: n.Kind}
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
	// Offsets that contradict the text are no reason to fail later.
	if size := len(b.unit.Text); n.Begin > size || nodeEnd(n) > size || n.Loc > size || n.Begin >= 0 && nodeEnd(n) < n.Begin {
		return fmt.Errorf("%w: a %s outside of the text", clangast.ErrDump, n.Kind)
	}
	if declare := declarationKinds[n.Kind]; declare != nil {
		return declare(b, n)
	}
	switch {
	case codelessKinds[n.Kind]:
		b.skipNode()
	case strings.HasSuffix(n.Kind, "Attr"):
		return b.attr(n)
	case strings.HasSuffix(n.Kind, "Decl") && b.cur == nil:
		return notPlain(n.Kind) // it may act on the whole unit
	case b.cur != nil:
		if n.Kind == "CompoundStmt" && len(b.stack) == 3 && b.stack[1].kind == "FunctionDecl" {
			b.fn.bodyAt = max(n.Begin, 0)
		}
		return b.node(n)
	case b.enum != nil:
		b.enumInit(n)
	case b.typedefOf != nil:
		b.nameUnnamed(n.Refs)
	default:
		b.skipNode()
	}
	return nil
}

// declarationKinds has the methods of builder that enter declarations, by kind.
var declarationKinds = map[string]func(b *builder, n *clangast.Node) error{
	"FunctionDecl": (*builder).functionDecl, "VarDecl": (*builder).varDecl, "ParmVarDecl": (*builder).parmDecl,
	"RecordDecl": (*builder).recordDecl, "FieldDecl": (*builder).fieldDecl,
	"EnumDecl": (*builder).enumDecl, "EnumConstantDecl": (*builder).enumConstant, "TypedefDecl": (*builder).typedefDecl,
}

// codelessKinds are the kinds of nodes without code.
var codelessKinds = words.Set(`StaticAssertDecl EmptyDecl FullComment IndirectFieldDecl`)

// atEnd has leave called at the end of the current node, in the scope of now.
func (b *builder) atEnd(leave func(n *clangast.Node) error) {
	outer := b.scope
	f := b.top()
	f.deep = false
	f.leave = func(n *clangast.Node) error {
		b.scope = outer
		return leave(n)
	}
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

// node writes an expression, a statement or a part of one.
func (b *builder) node(n *clangast.Node) error {
	s := b.cur
	if n.Kind == "ParenExpr" || n.Kind == "NullStmt" && b.stack[len(b.stack)-2].kind == "CompoundStmt" {
		return nil // no code
	}
	switch n.Kind {
	case "CompoundStmt":
		if len(n.Attrs) == 0 && b.stack[len(b.stack)-2].kind == "CompoundStmt" {
			return nil // no code, unless openScope says so
		}
	case "CompoundLiteralExpr":
		b.openScope()
		b.addWeight("compound literal", n)
	case "DeclStmt":
		b.openScope()
	case "InitListExpr":
		// The type of a variable doesn't have the size of a flexible array.
		if in := b.stack[len(b.stack)-2].kind; in != "InitListExpr" || strings.HasSuffix(n.Type(), "]") {
			b.addWeight("initial value", n)
		}
	}
	if !completeKinds[n.Kind] && n.Kind != "" {
		s.addDoubt(n.Kind)
	}
	f := b.openNode(s, n.Kind)
	if n.Kind == "OffsetOfExpr" {
		b.offsetOf(s, n)
	}
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

// openNode opens the current node in a stream.
func (b *builder) openNode(s *stream, kind string) *frame {
	f := b.top()
	f.open = true
	s.h.tag('(')
	s.h.str(kind)
	return f
}

// offsetOf writes the operands of an offsetof, which the dump lacks. Only a type and a member are plain. See
// code-data/offsetof.
func (b *builder) offsetOf(s *stream, n *clangast.Node) {
	text := b.unit.Text
	lex := token.New(text, max(n.Begin, 0))
	next := func() (token.Kind, string) {
		t := lex.Next()
		return t.Kind, string(text[t.Off:t.End])
	}
	var typ, member []string
	_, word := next()
	_, open := next()
	kind, w := next()
	for ; kind == token.Ident; kind, w = next() {
		typ = append(typ, w)
	}
	ok := word == "__builtin_offsetof" && open == "(" && w == "," && typ != nil
	for kind, w = next(); kind == token.Ident || kind == token.Number || w == "." || w == "[" || w == "]"; kind, w = next() {
		ok = ok && (kind != token.Ident || member == nil || member[len(member)-1] == ".")
		member = append(member, w)
	}
	if !ok || w != ")" || member == nil {
		s.addDoubt("offsetof of more than a type and a member")
		return
	}
	b.writeType(s, strings.Join(typ, " "), value)
	s.h.str(strings.Join(member, " "))
}

// openScope writes that the innermost block ends the life of a variable or compound literal (C17 6.5.2.5,
// paragraph 5).
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

// keys writes the types, names, attributes and references of a node.
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
	if n.LabelID != 0 {
		s.h.str("label")
		s.h.num(uint64(b.label(n.LabelID)))
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
				e.declare(ds.seal(), ds)
				e.sym = builtinSymbol(r.Name)
			}
			e.used = true
			s.use(e, name)
			return
		}
		s.addDoubt("reference to an undeclared " + r.Kind)
	case !ok:
		s.h.str(r.Kind + " " + r.Name)
		s.addDoubt("reference to an undeclared " + r.Kind)
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
		// In itself, all is known.
		if t.ent != b.owner && (b.fn == nil || t.ent != b.fn.ent) {
			t.ent.used = true
		}
		s.use(t.ent, value)
	}
}

func (b *builder) newLocal(id clangast.ID) int {
	b.fn.locals++
	b.bind(id, target{local: b.fn.locals})
	return b.fn.locals
}

func (b *builder) functionDecl(n *clangast.Node) error {
	if n.Name == "" {
		return fmt.Errorf("%w: a function without a name", clangast.ErrDump)
	}
	if b.fn != nil {
		return notPlain("declaration of function " + n.Name + " in a block")
	}
	e := b.ordinaryEntity(n.Name, entFunction)
	if e.kind != entFunction {
		return fmt.Errorf("%w: %s is a function and something else", clangast.ErrDump, n.Name)
	}
	if n.Mangled != "" {
		e.sym = builtinSymbol(n.Mangled)
	}
	b.ids[n.ID] = target{ent: e}
	storage, err := storageOf(n)
	if err != nil {
		return err
	}
	e.local = e.local || storage == "static"
	ds := newStream()
	b.writeType(ds, n.Type(), name)
	attrs(ds, n, "storageClass", "inline", "isImplicit")
	typ := ds.seal()
	if n.Has("inline") {
		ds.h.str("inline")
		e.inline = true
	}
	cur := newStream()
	fn := &function{ent: e, labels: map[clangast.ID]int{}, names: map[string]*entity{}, tags: map[string]*entity{}, bodyAt: -1}
	b.atEnd(func(n *clangast.Node) error {
		body := fn.bodyAt >= 0
		if n.Begin >= 0 {
			end, to := nodeEnd(n), -1
			if body {
				end = max(fn.bodyAt, n.Begin)
				to = end
			}
			b.writeBounds(ds, n.Begin, end, body)
			b.writeAttributes(ds, n, -1, to)
		}
		if e.declare(typ, ds) && !n.Has("isImplicit") {
			b.late = e.name
		}
		for _, id := range fn.ids {
			delete(b.ids, id)
		}
		if body {
			// Its size decides whether it is returned in memory. See code-types/return-type-jump.
			result, _, _ := strings.Cut(n.Type(), " (")
			b.writeType(cur, result, value)
			return b.define(e, n, cur, max(fn.bodyAt, n.Begin))
		}
		return nil
	})
	b.decl, b.owner, b.cur, b.fn = ds, e, cur, fn
	return nil
}

// define makes the component of e, whose stream is s, with the attributes behind the offset from.
func (b *builder) define(e *entity, n *clangast.Node, s *stream, from int) error {
	if e.comp != nil {
		return notPlain(e.name + " is defined twice")
	}
	b.writeAttributes(s, n, from, -1)
	e.used = true // it inherits attributes of earlier declarations
	e.comp = &comp{ent: e, name: e.sym, body: s.seal(), file: b.unit.FileAt(max(n.Begin, 0))}
	b.comps = append(b.comps, e.comp)
	return nil
}

// size returns the greatest size of a type in bytes, if structures are aligned to align bytes.
func (t *typeUse) size(align float64) float64 {
	if t.text.pointer {
		return 8 * elements(t.text.literal)
	}
	n := 0.0
	for _, e := range t.ents {
		if e.room == 0 {
			e.room = 8 // of an enumeration, or of a type in itself in a damaged dump
			if e.kind == entTypedef && e.typ != nil {
				e.room = e.typ.size(align)
			}
			for _, m := range e.members {
				e.room += 2 * m.size(align)
				if align > 16 {
					e.room += align
				}
			}
		}
		n += e.room
	}
	if len(t.ents) == 0 {
		n = scalar(t.text.literal)
	}
	return max(n, 1) * elements(t.text.literal)
}

// scalar returns the size of a basic type in bytes.
func scalar(typ string) float64 {
	for _, x := range []struct {
		word string
		size float64
	}{{"_Complex", 32}, {"__float128", 16}, {"long double", 16}, {"__int128", 16}, {"char", 1}, {"ool", 1}, {"short", 2}, {"long", 8}, {"double", 8}, {"int", 4}, {"float", 4}} {
		if strings.Contains(typ, x.word) {
			return x.size
		}
	}
	return 16
}

// elements returns the number of elements of an array type, in all dimensions.
func elements(typ string) float64 {
	n := 1.0
	for _, m := range bitIntWidth.FindAllStringSubmatch(typ, -1) {
		width, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return math.Inf(1)
		}
		n *= 1 + width/64
	}
	for _, m := range arrayBound.FindAllStringSubmatch(typ, -1) {
		bound, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return math.Inf(1)
		}
		n *= max(bound, 1)
	}
	return n
}

// maxUnitData bounds the bytes of data of a unit: 32-bit distances span a hundred such units. See
// link-unreached/huge-struct.
const maxUnitData = 1 << 23

// weight is the type of a variable, literal or initial value, whose size counts for maxUnitData.
type weight struct {
	what string
	typ  *typeUse
}

func (b *builder) addWeight(what string, n *clangast.Node) {
	b.weights = append(b.weights, weight{what, b.resolveType(newStream(), n.Type())})
}

// checkWeights returns an error if the unit has too much data. It is called at the end, when all types are complete.
func (b *builder) checkWeights() error {
	align, sum := float64(max(b.x.Aligned, 16)), 0.0
	for _, w := range b.weights {
		if sum += w.typ.size(align); sum > maxUnitData {
			return notPlain(w.what + ", of many megabytes with others: code may not reach over them")
		}
	}
	return nil
}

var bitIntWidth = lazyregexp.New(`_BitInt\s*\(\s*(\d+)\s*\)`)

var arrayBound = lazyregexp.New(`\[\s*(\d+)\s*\]`)

// storageOf returns the storage class of a declaration.
func storageOf(n *clangast.Node) (string, error) {
	switch s := n.Attr("storageClass"); s {
	case "", "extern", "static", "auto", "register":
		return s, nil
	default:
		return "", notPlain("storage class " + s)
	}
}

func (b *builder) varDecl(n *clangast.Node) error {
	if n.Name == "" {
		return fmt.Errorf("%w: a variable without a name", clangast.ErrDump)
	}
	storage, err := storageOf(n)
	if err != nil {
		return err
	}
	b.addWeight("variable "+n.Name, n)
	switch atFile := len(b.stack) == 2; {
	case atFile:
	case storage == "extern":
		return notPlain("declaration of variable " + n.Name + " in a block")
	default:
		return b.localVar(n, storage)
	}
	if slices.Contains([]string{"cst4", "cst8", "cst16", "cst32"}, n.Name) {
		return notPlain("variable " + n.Name + ": LLVM knows sections .rodata." + n.Name)
	}
	e := b.ordinaryEntity(n.Name, entVariable)
	if e.kind != entVariable {
		return fmt.Errorf("%w: %s is a variable and something else", clangast.ErrDump, n.Name)
	}
	e.local = e.local || storage == "static"
	b.ids[n.ID] = target{ent: e}
	ds := newStream()
	markEarly(b.writeType(ds, n.Type(), value))
	attrs(ds, n, "storageClass", "init")
	typ := ds.seal()
	if n.Mangled != "" && n.Mangled != n.Name {
		ds.addDoubt("asm label of a variable")
	}
	cs := newStream()
	b.writeType(cs, n.Type(), value)
	init := n.Attr("init") != ""
	b.atEnd(func(n *clangast.Node) error {
		b.writeAttributes(ds, n, -1, -1)
		if e.declare(typ, ds) || e.used && init && b.resolveType(newStream(), n.Type()).mayBeConst() {
			b.late = e.name
		}
		if !init && storage == "extern" {
			return nil
		}
		if e.comp != nil { // a tentative definition, before the real one or behind it
			if init {
				b.writeAttributes(cs, n, -1, -1)
				e.comp.body = cs.seal()
			}
			return nil
		}
		return b.define(e, n, cs, -1)
	})
	b.decl, b.owner, b.cur = ds, e, cs
	return nil
}

// markEarly marks incomplete structures that are the type of a variable.
func markEarly(t *typeUse) {
	for _, e := range t.ents {
		switch {
		case t.text.pointer:
		case e.kind == entTypedef && e.typ != nil:
			markEarly(e.typ)
		case e.kind != entTypedef && e.content == nil:
			e.early = true
		}
	}
}

// mayBeConst reports whether a type itself may be const, not only its pointee.
func (t *typeUse) mayBeConst() bool {
	if i := strings.LastIndexByte(t.text.literal, '*'); i >= 0 && !strings.Contains(t.text.literal, "(") {
		return strings.Contains(t.text.literal[i:], "const")
	}
	return strings.Contains(t.text.literal, "const") || slices.ContainsFunc(t.ents, func(e *entity) bool { return e.kind == entTypedef && e.typ != nil && e.typ.mayBeConst() })
}

// localVar handles a variable of a function. A static one is a component.
func (b *builder) localVar(n *clangast.Node, storage string) error {
	if b.cur == nil {
		return fmt.Errorf("%w: variable %q outside of a function", clangast.ErrDump, n.Name)
	}
	num := b.newLocal(n.ID)
	s := b.cur
	if storage == "static" {
		if b.fn.ent.sym == "rel" {
			return notPlain("static variable in a function rel: linkers know sections .data.rel.NAME")
		}
		e := &entity{kind: entVariable, name: n.Name, sym: b.fn.ent.sym + "." + n.Name, local: true}
		b.ids[n.ID] = target{ent: e, local: num}
		s.h.str("static local")
		s.h.num(uint64(num))
		s.use(e, name)
		ds := newStream()
		b.writeType(ds, n.Type(), value)
		attrs(ds, n, "storageClass", "init")
		e.declare(ds.seal(), ds)
		cs := newStream()
		b.writeType(cs, n.Type(), value)
		b.atEnd(func(n *clangast.Node) error { return b.define(e, n, cs, -1) })
		b.cur = cs
		return nil
	}
	b.openNode(s, "VarDecl")
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
	b.openNode(s, "ParmVarDecl")
	s.h.num(uint64(num))
	b.writeType(s, n.Type(), value)
	if sc := n.Attr("storageClass"); sc != "" {
		s.h.str(sc)
	}
	return nil
}

func (b *builder) recordDecl(n *clangast.Node) error {
	e, err := b.tag(n)
	if err != nil {
		return err
	}
	s := newStream()
	attrs(s, n)
	defined := n.Has("completeDefinition")
	b.atEnd(func(n *clangast.Node) error {
		if !defined {
			return nil
		}
		if e.early {
			return notPlain("there are variables of type " + e.name + " before it is complete")
		}
		e.kind = entRecord
		b.writeAttributes(s, n, -1, -1)
		c := s.seal()
		e.content = &c
		return nil
	})
	b.cur, b.decl, b.owner = s, nil, e
	return nil
}

// unnamedTypedef precedes the name that a typedef gives an unnamed type.
const unnamedTypedef = "typedef "

// tag returns the entity of a declared struct, union or enum.
func (b *builder) tag(n *clangast.Node) (e *entity, err error) {
	switch {
	case n.Name == "":
		e = b.anonEntity(b.lineColumn(max(n.Loc, 0)))
	case b.fn != nil:
		e, err = b.localType(n, b.fn.tags, b.tags[n.Name])
	default:
		e = b.tagEntity(n.Name)
		if strings.HasPrefix(e.name, unnamedTypedef) {
			return nil, notPlain("type " + n.Name + " beside a typedef of an unnamed one")
		}
		e.declared = true
	}
	if err != nil {
		return nil, err
	}
	if languageWords[n.Name] || typeWords[n.Name] {
		return nil, notPlain("type named " + n.Name)
	}
	b.bind(n.ID, target{ent: e})
	return e, nil
}

// localType returns the entity of a type that is declared in a function. It may hide no other one: type
// strings don't tell types of one name apart.
func (b *builder) localType(n *clangast.Node, scope map[string]*entity, outer *entity) (*entity, error) {
	if n.Prev != 0 {
		if t, ok := b.ids[n.Prev]; ok && t.ent != nil {
			return t.ent, nil
		}
	}
	if scope[n.Name] != nil || outer != nil && (outer.declared || outer.kind == entTypedef) {
		return nil, notPlain("type " + n.Name + " hides another")
	}
	e := &entity{kind: entRecord, name: n.Name}
	scope[n.Name] = e
	return e, nil
}

func (b *builder) fieldDecl(n *clangast.Node) error {
	if b.owner == nil || b.cur == nil {
		return fmt.Errorf("%w: field %q outside of a record", clangast.ErrDump, n.Name)
	}
	field := cmp.Or(n.Name, "(unnamed)")
	b.bind(n.ID, target{ent: b.owner, field: field})
	s := b.cur
	b.openNode(s, "FieldDecl")
	s.h.str(n.Name)
	b.owner.members = append(b.owner.members, b.writeType(s, n.Type(), value))
	attrs(s, n)
	return nil
}

func (b *builder) enumDecl(n *clangast.Node) error {
	e, err := b.tag(n)
	if err != nil {
		return err
	}
	e.kind = entEnum
	s := newStream()
	for _, t := range n.Types {
		s.h.str(t.Key)
		b.writeType(s, t.Qual, value)
	}
	st := &enumState{next: new(big.Int), lo: new(big.Int), hi: new(big.Int)}
	b.atEnd(func(n *clangast.Node) error {
		if st.members == 0 && (len(n.Types) == 0 || e.content != nil) {
			return nil // only declared
		}
		if e.early {
			return notPlain("there are variables of type " + e.name + " before it is complete")
		}
		if st.lo.Cmp(minInt) < 0 || st.hi.Cmp(maxInt) > 0 {
			// Compilers differ in the type of its other enumerators.
			for _, id := range st.ids {
				t := b.ids[id]
				t.ent = e
				b.ids[id] = t
			}
		}
		// The extreme values give size and sign.
		s.h.str(st.lo.String())
		s.h.str(st.hi.String())
		s.addDoubt(st.doubt)
		b.writeAttributes(s, n, -1, -1)
		c := s.seal()
		e.content = &c
		return nil
	})
	b.cur, b.decl, b.owner, b.enum = nil, s, e, st
	return nil
}

// enumConstant computes the value of an enumerator: that of its ConstantExpr, or one more than the previous
// one.
func (b *builder) enumConstant(n *clangast.Node) error {
	st := b.enum
	if st == nil {
		return fmt.Errorf("%w: enumerator %q outside of an enum", clangast.ErrDump, n.Name)
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
			st.doubt = cmp.Or(st.doubt, "enumerator without a value")
		}
		t := target{enum: v.String() + " " + n.Type()}
		if st.doubt != "" {
			t.ent = b.owner // which has the doubt
		}
		b.bind(n.ID, t)
		st.ids = append(st.ids, n.ID)
		return nil
	}
	return nil
}

var minInt, maxInt = big.NewInt(math.MinInt32), big.NewInt(math.MaxInt32)

// constantKinds are nodes of constants that every compiler evaluates in the same way.
var constantKinds = words.Set(`ConstantExpr ImplicitCastExpr CStyleCastExpr ParenExpr IntegerLiteral CharacterLiteral UnaryOperator BinaryOperator ConditionalOperator
	DeclRefExpr UnaryExprOrTypeTraitExpr CXXBoolLiteralExpr`)

// enumInit reads a node of the initialiser of an enumerator.
func (b *builder) enumInit(n *clangast.Node) {
	st := b.enum
	st.hasInit = true
	if n.Kind == "ConstantExpr" && st.explicit == nil {
		if v, ok := new(big.Int).SetString(n.Attr("value"), 10); ok {
			st.explicit = v
		}
	}
	if !constantKinds[n.Kind] {
		st.doubt = cmp.Or(st.doubt, n.Kind+" in an enumerator")
	}
}

func (b *builder) typedefDecl(n *clangast.Node) (err error) {
	if !n.Has("isImplicit") && typeWords[n.Name] {
		return notPlain("type named " + n.Name)
	}
	var e *entity
	if b.fn != nil {
		if e, err = b.localType(n, b.fn.names, b.ordinary[n.Name]); err != nil {
			return err
		}
	} else if e = b.ordinaryEntity(n.Name, entTypedef); e.kind != entTypedef {
		return notPlain("type " + n.Name + " hides another name")
	}
	e.kind = entTypedef
	s := newStream()
	local := b.fn != nil
	var unnamed []*entity
	b.atEnd(func(n *clangast.Node) error {
		if local && b.parseType(n.Type()).doubt != "" {
			return notPlain("type " + e.name + " depends on values where it is declared")
		}
		// The type string names an unnamed tag by the typedef, so the tag has to be known first.
		typ := b.resolveType(s, n.Type())
		typ.ents = append(typ.ents, unnamed...)
		if e.typ == nil && slices.Contains(typ.ents, e) {
			return fmt.Errorf("%w: type %s is itself", clangast.ErrDump, e.name)
		}
		b.writeAttributes(s, n, -1, -1)
		if languageWords[e.name] {
			s.addDoubt("type named " + e.name)
		}
		float := strings.HasPrefix(e.name, "_Float")
		if float {
			s.h.str(e.name) // a type of its own for gcc
		}
		c := s.seal()
		if e.content != nil {
			if x, y := typ.target(), e.typ.target(); !c.equal(e.content) || x.text.literal != y.text.literal || !slices.Equal(x.ents, y.ents) {
				c.doubt = "type " + e.name + " is declared in two ways"
			}
			c.doubt = cmp.Or(e.content.doubt, c.doubt)
		}
		if e.typ == nil { // the second one may be in terms of the first
			e.typ = typ
		}
		e.content, e.bare = &c, !float && !s.attributed
		return nil
	})
	b.cur, b.decl, b.owner, b.typedefOf, b.unnamed = nil, s, e, e, &unnamed
	return nil
}

// nameUnnamed finds the unnamed tags to which the current typedef gives a name. All else of the types below it is in its
// type string.
func (b *builder) nameUnnamed(refs []clangast.Ref) {
	name := b.typedefOf.name
	for _, r := range refs {
		e := b.ids[r.ID].ent
		if r.Name != "" || e == nil {
			continue
		}
		*b.unnamed = append(*b.unnamed, e)
		if e.name == "" {
			e.name = unnamedTypedef + name
		}
		if b.fn == nil && b.tags[name] == nil {
			b.tags[name] = e
		}
	}
}

// attr handles an attribute. Its text is hashed with its declaration.
func (b *builder) attr(n *clangast.Node) error {
	s := b.cur
	if s == nil {
		s = b.decl
	}
	owned := b.owner != nil && b.decl != nil && b.stack[len(b.stack)-2].kind == declKind(b.owner)
	if owned {
		s = b.decl
		switch n.Kind {
		case "BuiltinAttr":
			b.owner.library = true
		case "AsmLabelAttr":
			b.owner.labelled = true
		case "VisibilityAttr":
			switch v := n.Attr("visibility"); {
			case b.owner.visibility == v, b.owner.visibility == "" && v == "default":
			case b.owner.decls != nil || b.owner.visibility != "":
				// Compilers differ in the effect of a late one.
				s.addDoubt("attribute visibility " + v + " that isn't on the first declaration")
			default:
				b.owner.visibility = v
			}
		}
	}
	if s != nil {
		if !completeAttrs[n.Kind] {
			s.addDoubt(n.Kind)
		}
		// A keyword such as _Noreturn, and clang's knowledge of a library's function, have no other text.
		if !n.Has("inherited") {
			s.h.str(n.Kind)
			if owned && !silentAttrs[n.Kind] {
				s.kinds = append(s.kinds, n.Kind)
			}
		}
	} else if !completeAttrs[n.Kind] {
		return notPlain(n.Kind)
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
