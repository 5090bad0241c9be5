package adopt

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bazelbuild/buildtools/build"
)

const (
	module = "rules_tasting"
	defs   = "@rules_tasting//rules:defs.bzl"
	rule   = "cc_test"
	ours   = "tasting_cc_test"
)

// Dependency is where a workspace takes rules_tasting from: a registry, unless Path or
// Archive is set.
type Dependency struct {
	Version            string
	Path               string // of a checkout
	Archive, Integrity string // its URL, and its checksum as in source.json
}

// add adds the dependency to a MODULE.bazel, behind the others, unless it has one. It also
// returns how BUILD files call it.
func (d Dependency) add(text []byte) (out []byte, name string, err error) {
	f, err := build.ParseModule("MODULE.bazel", text)
	if err != nil {
		return nil, "", err
	}
	at := 0
	for _, s := range f.Stmt {
		call, name := called(s)
		if name == "bazel_dep" && build.NewRule(call).AttrString("name") == module {
			return text, cmp.Or(build.NewRule(call).AttrString("repo_name"), module), nil
		}
		if _, end := s.Span(); name == "bazel_dep" || at == 0 && name == "module" {
			at = end.Byte
		}
	}
	if d.Version == "" && d.Path == "" {
		return nil, "", errNoRelease
	}
	if text = whole(text); at == 0 {
		at = len(text)
	} else {
		at += bytes.IndexByte(text[at:], '\n') + 1
	}
	return apply(text, []splice{{at, at, d.lines()}}), module, nil
}

func (d Dependency) lines() string {
	version := ""
	if d.Version != "" {
		version = fmt.Sprintf(", version = %q", d.Version)
	}
	override := ""
	switch {
	case d.Path != "":
		override = fmt.Sprintf("local_path_override(\n    module_name = %q,\n    path = %q,\n)  %s\n", module, d.Path, mark)
	case d.Archive != "":
		override = fmt.Sprintf("archive_override(\n    module_name = %q,\n    integrity = %q,\n    strip_prefix = %q,\n    urls = [%q],\n)  %s\n",
			module, d.Integrity, module+"-"+d.Version, d.Archive, mark)
	}
	return fmt.Sprintf("bazel_dep(name = %q%s)  %s\n%s", module, version, mark, override)
}

// removeMarked removes the statements of a MODULE.bazel that carry the mark.
func removeMarked(text []byte) ([]byte, error) {
	f, err := build.ParseModule("MODULE.bazel", text)
	if err != nil {
		return nil, err
	}
	var edits []splice
	for _, s := range f.Stmt {
		if l := linesOf(text, s); strings.HasSuffix(strings.TrimSpace(string(text[l.begin:l.end])), mark) {
			edits = append(edits, l)
		}
	}
	return apply(text, edits), nil
}

// splice replaces a part of a text.
type splice struct {
	begin, end int
	text       string
}

// apply replaces parts of a text that don't overlap.
func apply(text []byte, l []splice) []byte {
	l = slices.SortedStableFunc(slices.Values(l), func(a, b splice) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end)) })
	var out []byte
	done := 0
	for _, s := range l {
		out = append(append(out, text[done:s.begin]...), s.text...)
		done = s.end
	}
	return append(out, text[done:]...)
}

// linesOf returns the lines of a statement, with what is behind it on the last one.
func linesOf(text []byte, s build.Expr) splice {
	begin, end := s.Span()
	l := splice{begin: bytes.LastIndexByte(text[:begin.Byte], '\n') + 1, end: len(text)}
	if i := bytes.IndexByte(text[end.Byte:], '\n'); i >= 0 {
		l.end = end.Byte + i + 1
	}
	return l
}

// called returns the call that an expression is, and of what.
func called(x build.Expr) (*build.CallExpr, string) {
	if call, ok := x.(*build.CallExpr); ok {
		if name, ok := call.X.(*build.Ident); ok {
			return call, name.Name
		}
	}
	return nil, ""
}

// ofRulesCC matches labels of files that have the cc_test of rules_cc.
var ofRulesCC = regexp.MustCompile(`^@+rules_cc\b.*//`)

// turn makes the tests of a BUILD file that are calls of cc_test calls of ours. It says
// of the others why not.
func turn(file string, text []byte, tests []Test) (out []byte, turned int, notes []string, err error) {
	f, err := build.ParseBuild(file, text)
	if err != nil {
		return nil, 0, nil, err
	}
	skip := func(why string) {
		for _, t := range tests {
			notes = append(notes, fmt.Sprintf("%s stays as it is: %s", t.Label, why))
		}
	}
	var from *build.LoadStmt
	adopted := false
	for _, l := range loads(f) {
		for _, to := range l.To {
			switch {
			case to.Name == rule && ofRulesCC.MatchString(l.Module.Value):
				from = l
			case to.Name == rule:
				skip(fmt.Sprintf("%s has its own cc_test; change it there", l.Module.Value))
				return text, 0, notes, nil
			case to.Name == ours && bytes.Contains(text[linesOf(text, l).begin:linesOf(text, l).end], []byte(mark)):
				adopted = true
			case to.Name == ours:
				skip(file + " loads tasting_cc_test already")
				return text, 0, notes, nil
			}
		}
	}
	type place struct{ line, column int }
	at := map[place]*build.Ident{} // calls, by their parentheses
	uses := 0
	walk(f, func(x build.Expr) {
		if id, ok := x.(*build.Ident); ok && id.Name == rule {
			uses++
		}
		if call, name := called(x); name == rule {
			at[place{call.ListStart.Line, call.ListStart.LineRune}] = call.X.(*build.Ident)
		}
	})
	var edits []splice
	for _, t := range tests {
		id := at[place{t.Line, t.Column}]
		if id == nil {
			notes = append(notes, fmt.Sprintf("%s stays as it is: no cc_test is called at %s:%d, so a macro makes it; change it there", t.Label, file, t.Line))
			continue
		}
		s := splice{id.NamePos.Byte, id.NamePos.Byte + len(rule), ours}
		if !slices.Contains(edits, s) {
			edits = append(edits, s)
		}
	}
	if len(edits) == 0 {
		return text, 0, notes, nil
	}
	turned = len(edits)
	if adopted {
		return apply(text, edits), turned, notes, nil
	}
	load := fmt.Sprintf("load(%q, %q)  %s", defs, ours, mark)
	// An unused load is removed, if it can be restored.
	if from != nil && uses == turned {
		if gone, err := withoutSymbol(text, from); err == nil {
			out = apply(text, slices.Concat(edits, []splice{gone, insertLoad(text, f, defs, load+": "+rule+" of "+from.Module.Value, from)}))
			if back, err := turnBack(file, out); err == nil && bytes.Equal(back, text) {
				return out, turned, notes, nil
			}
		}
	}
	added := insertLoad(text, f, defs, load, nil)
	for _, added.text = range []string{added.text, load + "\n"} { // without the blank line
		out = apply(text, append(slices.Clone(edits), added))
		if back, err := turnBack(file, out); err == nil && bytes.Equal(back, text) {
			return out, turned, notes, nil
		}
	}
	skip("an edit of " + file + " couldn't be taken back; turn cc_test into tasting_cc_test by hand")
	return text, 0, notes, nil
}

// turnBack takes back what turn has done to a BUILD file.
func turnBack(file string, text []byte) ([]byte, error) {
	if !bytes.Contains(text, []byte(mark)) {
		return text, nil
	}
	f, err := build.ParseBuild(file, text)
	if err != nil {
		return nil, err
	}
	var edits []splice
	for _, l := range loads(f) {
		lines := linesOf(text, l)
		behind := string(text[lines.begin:lines.end])
		i := strings.Index(behind, mark)
		if i < 0 || l.Module.Value != defs {
			continue
		}
		if len(l.To) > 1 {
			// It has come to be used for more.
			k := slices.IndexFunc(l.To, func(id *build.Ident) bool { return id.Name == ours })
			if k < 0 {
				continue
			}
			s, err := without(text, l, k)
			if err != nil {
				return nil, err
			}
			edits = append(edits, s)
			continue
		}
		if _, label, ok := strings.Cut(strings.TrimSpace(behind[i:]), rule+" of "); ok {
			s, err := withSymbol(text, f, label, l)
			if err != nil {
				return nil, err
			}
			edits = append(edits, s)
		} else if first := lines.begin == 0 || bytes.HasSuffix(text[:lines.begin], []byte("\n\n")); first && bytes.HasPrefix(text[lines.end:], []byte("\n")) {
			lines.end++ // the blank line that came with it
		}
		edits = append(edits, lines)
	}
	if len(edits) == 0 {
		return text, nil
	}
	walk(f, func(x build.Expr) {
		if call, name := called(x); name == ours {
			id := call.X.(*build.Ident)
			edits = append(edits, splice{id.NamePos.Byte, id.NamePos.Byte + len(ours), rule})
		}
	})
	return apply(text, edits), nil
}

func loads(f *build.File) (l []*build.LoadStmt) {
	for _, s := range f.Stmt {
		if x, ok := s.(*build.LoadStmt); ok {
			l = append(l, x)
		}
	}
	return l
}

// walk visits all of a file but what its loads consist of.
func walk(f *build.File, visit func(x build.Expr)) {
	for _, s := range f.Stmt {
		if _, ok := s.(*build.LoadStmt); !ok {
			build.Walk(s, func(x build.Expr, _ []build.Expr) { visit(x) })
		}
	}
}

// insertLoad adds a load, in the order of labels. One that is to be replaced isn't there
// any more.
func insertLoad(text []byte, f *build.File, label, line string, replaced *build.LoadStmt) splice {
	at, last, used := -1, -1, len(text) // used: where the first test is
	walk(f, func(x build.Expr) {
		if call, name := called(x); name == rule || name == ours {
			used = min(used, call.X.(*build.Ident).NamePos.Byte)
		}
	})
	for _, l := range loads(f) {
		if l == replaced && len(l.To) == 1 {
			continue
		}
		lines := linesOf(text, l)
		if lines.begin > used {
			break
		}
		if at < 0 && l.Module.Value > label && len(l.Comment().Before) == 0 {
			at = lines.begin
		}
		last = lines.end
	}
	switch {
	case at >= 0:
		return splice{at, at, line + "\n"}
	case last >= 0:
		return splice{last, last, line + "\n"}
	case replaced != nil:
		at = linesOf(text, replaced).end // of which the lines go
		return splice{at, at, line + "\n"}
	}
	at = len(text)
	for _, s := range f.Stmt {
		if _, comment := s.(*build.CommentBlock); comment {
			continue
		}
		at = linesOf(text, s).begin
		if before := s.Comment().Before; len(before) > 0 {
			at = bytes.LastIndexByte(text[:before[0].Start.Byte], '\n') + 1
		}
		break
	}
	return splice{at, at, line + "\n\n"}
}

// withoutSymbol removes cc_test from a load, or the load if it has nothing else.
func withoutSymbol(text []byte, l *build.LoadStmt) (splice, error) {
	if len(l.To) == 1 {
		return linesOf(text, l), nil
	}
	i := slices.IndexFunc(l.From, func(id *build.Ident) bool { return id.Name == rule })
	if i < 0 {
		return splice{}, errSpelling
	}
	return without(text, l, i)
}

// without removes one of several symbols of a load.
func without(text []byte, l *build.LoadStmt, i int) (splice, error) {
	this, err := symbol(text, l, i)
	if i == 0 {
		next, err2 := symbol(text, l, 1)
		return splice{begin: this.begin, end: next.begin}, errors.Join(err, err2)
	}
	before, err2 := symbol(text, l, i-1)
	return splice{begin: before.end, end: this.end}, errors.Join(err, err2)
}

// withSymbol adds cc_test to the load of a label, which may have to be added.
func withSymbol(text []byte, f *build.File, label string, own *build.LoadStmt) (splice, error) {
	for _, l := range loads(f) {
		if l.Module.Value != label || len(l.From) == 0 {
			continue
		}
		if slices.ContainsFunc(l.To, func(id *build.Ident) bool { return id.Name == rule }) {
			return splice{}, nil // it has been added since
		}
		i := slices.IndexFunc(l.From, func(id *build.Ident) bool { return id.Name > rule })
		if i == 0 {
			s, err := symbol(text, l, 0)
			return splice{s.begin, s.begin, strconv.Quote(rule) + ", "}, err
		}
		if i < 0 {
			i = len(l.From)
		}
		s, err := symbol(text, l, i-1)
		return splice{s.end, s.end, ", " + strconv.Quote(rule)}, err
	}
	return insertLoad(text, f, label, fmt.Sprintf("load(%q, %q)", label, rule), own), nil
}

var errSpelling = errors.New("a load isn't written as buildifier writes it")

// symbol is where a symbol of a load is, with its quotes.
func symbol(text []byte, l *build.LoadStmt, i int) (splice, error) {
	quoted := []byte(strconv.Quote(l.From[i].Name))
	for begin := max(0, l.From[i].NamePos.Byte-1); begin <= l.From[i].NamePos.Byte; begin++ {
		if bytes.HasPrefix(text[begin:], quoted) {
			return splice{begin: begin, end: begin + len(quoted)}, nil
		}
	}
	return splice{}, errSpelling
}
