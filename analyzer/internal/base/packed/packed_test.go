package packed

import (
	"bytes"
	"testing"
)

func TestPack(t *testing.T) {
	text := bytes.Repeat([]byte("tasting "), 10_000)
	b, err := Pack(text)
	if err != nil || len(b) > len(text)/100 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if again, err := Pack(text); err != nil || !bytes.Equal(again, b) {
		t.Errorf("other bytes the second time, %v", err)
	}
	if got, err := Unpack(b, 1<<20); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	for _, bad := range [][]byte{b[:len(b)-1], []byte("text")} {
		if got, err := Unpack(bad, 1<<20); err == nil {
			t.Errorf("%d bytes of %d", len(got), len(bad))
		}
	}
	if got, err := Unpack(b, uint64(len(text)-1)); err == nil {
		t.Errorf("%d bytes, above the limit", len(got))
	}
}
