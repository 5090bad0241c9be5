package symname

import "testing"

func TestPieceOf(t *testing.T) {
	for name, want := range map[string]string{
		"f.cold": "f", "f.cold.12": "f", "f.constprop.0.cold": "f.constprop.0", "f.__part.3": "f", "x.cold.y.cold": "x.cold.y",
		"f": "", "f.colder": "", ".cold": "", "f.isra.0": "", "f.part.1": "",
	} {
		if got, _ := PieceOf(name); got != want {
			t.Errorf("PieceOf(%q) = %q: want %q", name, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{"f": "f", "größe": "größe", "a\xff": `"a\xff"`} {
		if got := Printable(name); got != want {
			t.Errorf("Printable(%q) = %q: want %q", name, got, want)
		}
	}
}
