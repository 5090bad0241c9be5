package nameset

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"
)

func TestSet(t *testing.T) {
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("_ZN4absl%dE", i))
	}
	s := Of(slices.Values(append(names, names[:10]...)))
	if len(s) != len(names) || !slices.IsSorted(s) {
		t.Errorf("%d names", len(s))
	}
	for _, name := range names {
		if !s.Has(name) {
			t.Errorf("%s isn't there", name)
		}
	}
	if s.Has("main") {
		t.Error("main is there")
	}
	one, two := s.Without(8, 1), s.Without(8, 2)
	for _, x := range []Set{one, two} {
		if len(x) < 800 || len(x) > 950 {
			t.Errorf("%d without one of eight", len(x))
		}
		for _, h := range x {
			if _, ok := slices.BinarySearch(s, h); !ok {
				t.Error("another one")
			}
		}
	}
	if slices.Equal(one, two) || !slices.Equal(one, s.Without(8, 1)) {
		t.Error("the salt doesn't say which")
	}
	if s, err := Decode(append(Set{7}.Encode(), 0)); err != nil || !slices.Equal(s, Set{7, 8}) {
		t.Errorf("%v, %v", s, err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []Set{{}, {0}, {0, 1}, {5, math.MaxUint32}, {math.MaxUint32}} {
		b := s.Encode()
		if back, err := Decode(b); err != nil || !slices.Equal(back, s) {
			f.Errorf("%v: %v, %v", s, back, err)
		}
		f.Add(b)
	}
	f.Add(append(Set{math.MaxUint32}.Encode(), 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Decode(b)
		if err != nil {
			return
		}
		if !slices.IsSorted(s) || len(slices.Compact(slices.Clone(s))) != len(s) || !bytes.Equal(s.Encode(), b) {
			t.Errorf("%v", s)
		}
	})
}
