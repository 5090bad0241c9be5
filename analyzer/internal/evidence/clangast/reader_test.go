package clangast

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
)

func TestStringsAndScalars(t *testing.T) {
	for in, want := range map[string]string{
		`"plain"`: "plain", `"a\"b\\c\/d\n"`: "a\"b\\c/d\n", `"\u00e9\ud83d\ude00"`: "é😀", `12.5`: "12.5", `null`: "null", `"\\"`: `\`,
	} {
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
			got, err := (&reader{json: jsontext.NewDecoder(r)}).scalar()
			if err != nil || string(got) != want {
				t.Errorf("%s: got %q, %v; want %q", in, got, err, want)
			}
		}
	}
}

// trace records what a visitor sees.
type trace struct {
	strings.Builder
	depth int
}

func (v *trace) Enter(n *Node) error {
	v.WriteString(strings.Repeat(" ", v.depth) + n.Label + " " + n.Kind + " " + n.Name + " " + n.Type() + "\n")
	v.depth++
	return nil
}

func (v *trace) Leave(*Node) error { v.depth--; return nil }

const source = `struct S { int a; };
int f(struct S *p) { return p ? p->a : sizeof "x\n"; }
int t[5] = {1, [3] = 2};
`

func TestReadVisitsParentsFirst(t *testing.T) {
	var v trace
	if err := Read(bytes.NewReader(clangtest.Dump(t, []byte(source))), &v); err != nil {
		t.Fatal(err)
	}
	if v.depth != 0 {
		t.Errorf("Enter and Leave don't pair: depth %d at the end", v.depth)
	}
	for _, want := range []string{
		" inner RecordDecl S \n  inner FieldDecl a int\n",
		" inner FunctionDecl f int (struct S *)\n  inner ParmVarDecl p struct S *\n",
		"   array_filler ImplicitValueInitExpr  int\n",
		"MemberExpr a int\n",
	} {
		if !strings.Contains(v.String(), want) {
			t.Errorf("trace lacks %q:\n%s", want, v.String())
		}
	}
	// The same, however the input is cut into reads.
	var w trace
	if err := Read(iotest.HalfReader(bytes.NewReader(clangtest.Dump(t, []byte(source)))), &w); err != nil {
		t.Fatal(err)
	}
	if w.String() != v.String() {
		t.Error("the trace depends on the sizes of reads")
	}
}

func TestReadRefuses(t *testing.T) {
	for _, s := range []string{
		``, `{}`, `[]`, `null`, `{"kind":"FunctionDecl"}`, `{"kind":"TranslationUnitDecl"} x`, `{"kind":"TranslationUnitDecl","inner":[]`,
		`{"kind":"TranslationUnitDecl","inner":[{"kind":"VarDecl","range":{"begin":{"offset":-5}}}]}`,
		`{"kind":"TranslationUnitDecl","inner":[],"name":"late"}`,
		strings.Repeat(`{"kind":"TranslationUnitDecl","inner":[`, 20000),
	} {
		if err := Read(strings.NewReader(s), &trace{}); !errors.Is(err, ErrDump) {
			t.Errorf("%.60q: got %v, want ErrDump", s, err)
		}
	}
	broken := errors.New("broken pipe")
	if err := Read(iotest.ErrReader(broken), &trace{}); !errors.Is(err, broken) || !errors.Is(err, ErrDump) {
		t.Errorf("a failing reader: got %v", err)
	}
}

// Pointer values differ from run to run: none may reach an attribute.
func TestNoPointersInAttributes(t *testing.T) {
	v := &pointers{t: t}
	if err := Read(bytes.NewReader(clangtest.Dump(t, []byte(source+"int g(void) { l: goto l; }"))), v); err != nil {
		t.Fatal(err)
	}
	if v.labels != 2 {
		t.Errorf("saw %d label references, want 2", v.labels)
	}
}

type pointers struct {
	t      *testing.T
	labels int
}

func (v *pointers) Enter(n *Node) error {
	for _, a := range n.Attrs {
		if strings.HasPrefix(a.Value, "0x") {
			v.t.Errorf("%s: attribute %s = %s", n.Kind, a.Key, a.Value)
		}
	}
	if n.LabelID != 0 {
		v.labels++
	}
	return nil
}

func (v *pointers) Leave(*Node) error { return nil }

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"id":"0x12345678","kind":"TranslationUnitDecl","loc":{},"range":{"begin":{},"end":{}},"inner":[{"id":"0x1234567a","kind":"VarDecl","type":{"qualType":"int"}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		v := &trace{}
		if err := Read(bytes.NewReader(b), v); err == nil && v.depth != 0 {
			t.Error("Enter and Leave don't pair")
		}
	})
}

func BenchmarkRead(b *testing.B) {
	dump := clangtest.Dump(b, []byte(source+strings.Repeat("int f(struct S *p) ;", 1000)))
	b.SetBytes(int64(len(dump)))
	for b.Loop() {
		if err := Read(bytes.NewReader(dump), nothing{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGeneralDecoder is what BenchmarkRead is to be compared with.
func BenchmarkGeneralDecoder(b *testing.B) {
	dump := clangtest.Dump(b, []byte(source+strings.Repeat("int f(struct S *p) ;", 1000)))
	b.SetBytes(int64(len(dump)))
	for b.Loop() {
		d := jsontext.NewDecoder(bytes.NewReader(dump), jsontext.AllowDuplicateNames(true))
		for {
			if _, err := d.ReadToken(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}

type nothing struct{}

func (nothing) Enter(*Node) error { return nil }
func (nothing) Leave(*Node) error { return nil }
