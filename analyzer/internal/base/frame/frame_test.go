package frame

import "testing"

// Each pair differs in where one value ends and the next begins.
func TestFraming(t *testing.T) {
	build := func(f func(*Buffer)) [32]byte {
		b := New("test")
		f(&b)
		return b.Sum()
	}
	for name, pair := range map[string][2]func(*Buffer){
		"strings": {
			func(b *Buffer) { b.String("ab"); b.String("c") },
			func(b *Buffer) { b.String("a"); b.String("bc") },
		},
		"empty string": {
			func(b *Buffer) { b.String(""); b.String("a") },
			func(b *Buffer) { b.String("a"); b.String("") },
		},
		"lists": {
			func(b *Buffer) { b.Strings([]string{"a"}); b.Strings([]string{"b", "c"}) },
			func(b *Buffer) { b.Strings([]string{"a", "b"}); b.Strings([]string{"c"}) },
		},
		"empty list": {
			func(b *Buffer) { b.Strings(nil) },
			func(b *Buffer) { b.Strings([]string{""}) },
		},
		"numbers": {
			func(b *Buffer) { b.Uint(1); b.Uint(128) },
			func(b *Buffer) { b.Uint(128); b.Uint(1) },
		},
		"name": {
			func(b *Buffer) { *b = New("x"); b.String("y") },
			func(b *Buffer) { *b = New("xy") },
		},
	} {
		if build(pair[0]) == build(pair[1]) {
			t.Errorf("%s: two messages are framed alike", name)
		}
	}
}
