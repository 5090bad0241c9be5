package token

import (
	"reflect"
	"testing"
)

func lexAll(s string) (out []string) {
	l := New([]byte(s), 0)
	for {
		t := l.Next()
		if t.Kind == EOF {
			return out
		}
		out = append(out, s[t.Off:t.End])
	}
}

func TestLexer(t *testing.T) {
	for in, want := range map[string][]string{
		`a+++b`:                            {"a", "++", "+", "b"},
		`x<<=1'000u;`:                      {"x", "<<=", "1'000u", ";"},
		`"a\"b" 'c' L"w" u8"x" R"d(")")d"`: {`"a\"b"`, `'c'`, `L"w"`, `u8"x"`, `R"d(")")d"`},
		".5e-3f 0x1p+4 1..2":               {".5e-3f", "0x1p+4", "1..2"},
		"a/*c*/b//d\ne":                    {"a", "b", "e"},
		"# 1 \"f\" 2\n#pragma pack(1)\nx":  {"# 1 \"f\" 2", "#pragma pack(1)", "x"},
		"a#b":                              {"a", "#", "b"},
		"p->q ... %:%: <:: <:::":           {"p", "->", "q", "...", "%:%:", "<", "::", "<:", "::"},
		"\"open":                           {"\"open"},
		"@`":                               {"@", "`"},
	} {
		if got := lexAll(in); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// Every byte that isn't white space or comment belongs to a token, and tokens
// don't overlap: nothing can be lost.
func FuzzLexer(f *testing.F) {
	f.Add([]byte("int main(void) { return \"x\"[0] + 'y' /* z */; } // end\n#pragma pack(1)\n"))
	f.Add([]byte("R\"(\n)\" \\\n 1e+ .. /*"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := New(b, 0)
		end := 0
		for {
			tok := l.Next()
			if tok.Kind == EOF {
				break
			}
			if tok.Off < end || tok.End <= tok.Off || tok.End > len(b) {
				t.Fatalf("token [%d,%d) after %d", tok.Off, tok.End, end)
			}
			end = tok.End
		}
	})
}
