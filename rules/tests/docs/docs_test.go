// Package docs checks that every public symbol, attribute, field and flag of
// the rules is documented, in its definition and in docs/reference/rules.md.
package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bazelbuild/buildtools/build"
)

const root = "../../.."

func parse(t *testing.T, name string) *build.File {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	f, err := build.ParseDefault(name, b)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func bzlFiles(t *testing.T) []string {
	var out []string
	for _, dir := range []string{"rules", "rules/private"} {
		names, err := filepath.Glob(filepath.Join(root, dir, "*.bzl"))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			out = append(out, filepath.Join(dir, filepath.Base(n)))
		}
	}
	if len(out) < 5 {
		t.Fatalf("only %d .bzl files found: %v", len(out), out)
	}
	return out
}

// call returns the name and arguments of a call, or "".
func call(e build.Expr) (string, map[string]build.Expr) {
	c, ok := e.(*build.CallExpr)
	if !ok {
		return "", nil
	}
	args := map[string]build.Expr{}
	for _, a := range c.List {
		if kv, ok := a.(*build.AssignExpr); ok {
			if id, ok := kv.LHS.(*build.Ident); ok {
				args[id.Name] = kv.RHS
			}
		}
	}
	switch x := c.X.(type) {
	case *build.Ident:
		return x.Name, args
	case *build.DotExpr:
		if id, ok := x.X.(*build.Ident); ok {
			return id.Name + "." + x.Name, args
		}
	}
	return "", nil
}

func isText(e build.Expr) bool {
	s, ok := e.(*build.StringExpr)
	return ok && strings.TrimSpace(s.Value) != ""
}

func entries(e build.Expr) map[string]build.Expr {
	out := map[string]build.Expr{}
	if d, ok := e.(*build.DictExpr); ok {
		for _, kv := range d.List {
			if k, ok := kv.Key.(*build.StringExpr); ok {
				out[k.Value] = kv.Value
			}
		}
	}
	return out
}

// Every rule, aspect, provider and extension says what it is; so does every
// attribute and field that users can set or read.
func TestDefinitionsAreDocumented(t *testing.T) {
	attributes, definitions := 0, 0
	for _, name := range bzlFiles(t) {
		for _, stmt := range parse(t, name).Stmt {
			a, ok := stmt.(*build.AssignExpr)
			if !ok {
				continue
			}
			id, ok := a.LHS.(*build.Ident)
			if !ok || strings.HasPrefix(id.Name, "_") {
				continue
			}
			kind, args := call(a.RHS)
			switch kind {
			case "rule", "aspect", "repository_rule", "module_extension", "provider":
			default:
				continue
			}
			definitions++
			where := name + ": " + id.Name
			if !isText(args["doc"]) {
				t.Errorf("%s has no doc", where)
			}
			for attr, def := range entries(args["attrs"]) {
				if _, a := call(def); !strings.HasPrefix(attr, "_") {
					attributes++
					if !isText(a["doc"]) {
						t.Errorf("%s: attribute %s has no doc", where, attr)
					}
				}
			}
			fields := entries(args["fields"])
			if kind == "provider" && len(fields) == 0 {
				t.Errorf("%s: its fields have no doc", where)
			}
			for field, doc := range fields {
				if !isText(doc) {
					t.Errorf("%s: field %s has no doc", where, field)
				}
			}
		}
	}
	if attributes == 0 || definitions == 0 {
		t.Errorf("found %d definitions with %d attributes: does this test still see them?", definitions, attributes)
	}
}

// Every public macro describes each of its parameters.
func TestMacrosAreDocumented(t *testing.T) {
	macros := 0
	for _, name := range bzlFiles(t) {
		for _, stmt := range parse(t, name).Stmt {
			d, ok := stmt.(*build.DefStmt)
			if !ok || strings.HasPrefix(d.Name, "_") {
				continue
			}
			macros++
			if len(d.Body) == 0 || !isText(d.Body[0]) {
				t.Errorf("%s: %s has no docstring", name, d.Name)
				continue
			}
			doc := d.Body[0].(*build.StringExpr).Value
			for _, p := range d.Params {
				arg, _ := build.GetParamName(p)
				if !strings.Contains(doc, "\n      "+arg+":") && !strings.Contains(doc, "\n      **"+arg+":") && !strings.Contains(doc, "\n  "+arg+":") {
					t.Errorf("%s: %s: parameter %s isn't described", name, d.Name, arg)
				}
			}
		}
	}
	if macros == 0 {
		t.Error("found no public macro: does this test still see them?")
	}
}

// docs/reference/rules.md has a section for every symbol of defs.bzl and a row for every
// attribute, field and flag.
func TestPageIsComplete(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "docs/reference/rules.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	want := func(what, text string) {
		if !strings.Contains(page, text) {
			t.Errorf("docs/reference/rules.md doesn't mention %s (%q)", what, text)
		}
	}
	symbols := map[string]bool{}
	for _, stmt := range parse(t, "rules/defs.bzl").Stmt {
		if a, ok := stmt.(*build.AssignExpr); ok {
			id := a.LHS.(*build.Ident).Name
			symbols[id] = true
			want("symbol "+id, "\n## `"+id+"`\n")
		}
	}
	if len(symbols) == 0 {
		t.Error("defs.bzl has no symbols: does this test still see them?")
	}
	for _, name := range bzlFiles(t) {
		for _, stmt := range parse(t, name).Stmt {
			if a, ok := stmt.(*build.AssignExpr); ok {
				id, ok := a.LHS.(*build.Ident)
				if !ok || !symbols[id.Name] {
					continue
				}
				_, args := call(a.RHS)
				for attr := range entries(args["attrs"]) {
					if !strings.HasPrefix(attr, "_") {
						want("attribute "+attr+" of "+id.Name, "\n| `"+attr+"` |")
					}
				}
				for field := range entries(args["fields"]) {
					want("field "+field+" of "+id.Name, "\n| `"+field+"` |")
				}
			}
		}
	}
	for _, stmt := range parse(t, "rules/BUILD.bazel").Stmt {
		kind, args := call(stmt)
		if !strings.HasSuffix(kind, "_flag") && !strings.HasSuffix(kind, "_setting") {
			continue
		}
		want("flag", "//rules:"+args["name"].(*build.StringExpr).Value)
	}
}
