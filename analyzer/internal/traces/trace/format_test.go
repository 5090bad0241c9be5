package trace

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var example = Trace{
	Naive: true,
	Files: []File{
		{Name: Executable, ID: "build-id:00ff", Functions: 3, Unseen: 7, Executed: []Function{
			{Address: 16, Symbols: []Symbol{{"f", "a.c"}, {"g<h>", ""}}, Count: 2},
			{Address: 32, Symbols: []Symbol{{"f.cold", "a.c"}}},
		}},
		{Name: "lib.so", ID: "sha256:12", Executed: []Function{}},
	},
	GaveUp: []string{"a reason", "b"},
}

func marshal(t testing.TB, x *Trace) []byte {
	t.Helper()
	b, err := x.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFormat(t *testing.T) {
	const want = `{"tastingTrace":1,"naive":true,"files":[
{"name":"(executable)","id":"build-id:00ff","functions":3,"unseen":7,"executed":[
 {"address":16,"symbols":[{"name":"f","unit":"a.c"},{"name":"g<h>"}],"count":2},
 {"address":32,"symbols":[{"name":"f.cold","unit":"a.c"}]}]},
{"name":"lib.so","id":"sha256:12","functions":0,"executed":[]}],
"gaveUp":["a reason","b"]}
`
	b := marshal(t, &example)
	if d := cmp.Diff(want, string(b)); d != "" {
		t.Error(d)
	}
	got, err := Unmarshal(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&example, got); d != "" {
		t.Error(d)
	}
	for _, x := range []struct{ old, new, err string }{
		{"", " ", "isn't how it was written"},
		{`"tastingTrace":1`, `"tastingTrace":2`, "format 2"},
		{`{"tastingTrace":1,`, `{`, "format 0"},
		{`"naive":true`, `"naive":true,"more":1`, "isn't how it was written"},
		{`"naive":true`, `"naive":false`, "isn't how it was written"},
		{`"address":16`, `"address":64`, "aren't sorted"},
		{`"address":32`, `"address":16`, "aren't sorted"}, // twice
		{`"name":"lib.so"`, `"name":"a/lib.so"`, "is called"},
		{`"id":"sha256:12"`, `"id":"sha256:xy"`, "has the ID"},
		{`"name":"g<h>"`, `"name":"a"`, "aren't sorted"},
		{`["a reason","b"]`, `["b","a reason"]`, "aren't sorted"},
		{`"unseen":7`, `"unseen":-7`, "less than nothing"},
		{"}\n", "}", "isn't how it was written"},
		{`"unit":"a.c"},`, `"unit":"/a.c"},`, "the unit"},
	} {
		_, err := Unmarshal([]byte(strings.Replace(string(b), x.old, x.new, 1)))
		if err == nil || !strings.Contains(err.Error(), x.err) {
			t.Errorf("%s for %s: %v: want %q", x.new, x.old, err, x.err)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add(marshal(f, &example))
	f.Add(marshal(f, &Trace{Files: []File{}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := Unmarshal(b)
		if err != nil {
			return
		}
		if again := marshal(t, x); !bytes.Equal(b, again) {
			t.Errorf("%q was read, and is written as %q", b, again)
		}
	})
}

func TestPadding(t *testing.T) {
	for _, x := range []struct {
		m    *machine
		code string
		want bool
	}{
		{&amd64, "", true},
		{&amd64, "\x90\x90\xcc\x00\x00", true},
		{&amd64, "\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00", true},
		{&amd64, "\x0f\x1f\x40\x00\x0f\x1f\x80\x00\x00\x00\x00\x0f\x1f\x44\x00\x00", true},
		{&amd64, "\x66\x66\x2e\x0f\x1f\x84\x00\x00\x00", false}, // cut off
		{&amd64, "\xeb\x02\x12\x34", true},
		{&amd64, "\xeb\x03\x12\x34", false},
		{&amd64, "\xe9\x01\x00\x00\x00\x12", true},
		{&amd64, "\xc3", false},
		{&amd64, "\x90\xc3", false},
		{&amd64, "\x00\x00\xc3", false},
		{&arm64, "\x1f\x20\x03\xd5\x00\x00\x00\x00", true},
		{&arm64, "\xc0\x03\x5f\xd6", false}, // ret
	} {
		if got := x.m.padding([]byte(x.code)); got != x.want {
			t.Errorf("%v: padding(%x) = %v", x.m.elf, x.code, got)
		}
	}
}

func TestBehindMmap(t *testing.T) {
	code := append([]byte{0x90, 0xb8, 9, 0, 0, 0, 0x0f, 0x05, 0x48, 0xb8, 9, 0, 0, 0, 0x0f, 0x05}, 0)
	if d := cmp.Diff([]uint64{8, 16}, amd64.behindMmap(code)); d != "" {
		t.Error(d)
	}
	nop := []byte{0x1f, 0x20, 0x03, 0xd5}
	code = bytes.Join([][]byte{nop, {0xc8, 0x1b, 0x80, 0xd2}, {1, 0, 0, 0xd4}, nop}, nil)
	if d := cmp.Diff([]uint64{12}, arm64.behindMmap(code)); d != "" {
		t.Error(d)
	}
}

// object writes a shared library of one section of code and symbols.
func object(arch *machine, code []byte, syms ...elf.Sym64) []byte {
	var b bytes.Buffer
	strs := []byte("\x00f\x00$x\x00.text\x00")
	put := func(x any) { _ = binary.Write(&b, binary.LittleEndian, x) }
	const head, ph = 64, 56
	text := uint64(head + ph)
	symAt := text + uint64(len(code))
	strAt := symAt + symSize*uint64(len(syms)+1)
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(arch.elf), Version: 1, Phoff: head, Shoff: strAt + uint64(len(strs)),
		Ehsize: head, Phentsize: ph, Phnum: 1, Shentsize: 64, Shnum: 4, Shstrndx: 3}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	put(h)
	put(elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Off: text, Vaddr: text, Filesz: uint64(len(code)), Memsz: uint64(len(code))})
	b.Write(code)
	put(elf.Sym64{})
	put(syms)
	b.Write(strs)
	put([]elf.Section64{{}, {Name: 6, Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addr: text, Off: text, Size: uint64(len(code))},
		{Type: uint32(elf.SHT_SYMTAB), Off: symAt, Size: symSize * uint64(len(syms)+1), Link: 3, Entsize: symSize},
		{Type: uint32(elf.SHT_STRTAB), Off: strAt, Size: uint64(len(strs))}})
	return b.Bytes()
}

func open(b []byte, arch *machine) (*image, error) {
	return openImage(bytes.NewReader(b), int64(len(b)), arch, breakpoints, nil)
}

func TestImageARM64(t *testing.T) {
	const base = 120
	word := []byte{0xfd, 0x7b, 0xbf, 0xa9}
	code := bytes.Repeat(word, 6)
	function := func(at, size uint64) elf.Sym64 {
		return elf.Sym64{Name: 1, Info: byte(elf.STT_FUNC), Shndx: 1, Value: base + at, Size: size}
	}
	b := object(&arm64, code, elf.Sym64{Name: 3, Shndx: 1, Value: base}, function(0, 8), function(0, 8), function(12, 4), function(18, 2))
	m, err := open(b, &arm64)
	if err != nil {
		t.Fatal(err)
	}
	// The third one isn't where an instruction can be; what is between belongs to none.
	if m.entries != 2 || m.unseen != 4+2+4 {
		t.Errorf("%d entries, %d bytes unseen", m.entries, m.unseen)
	}
	brk := []byte{0, 0, 0x20, 0xd4}
	if want := bytes.Join([][]byte{brk, word, word, brk, word, word}, nil); !bytes.Equal(m.texts[0].armed, want) {
		t.Errorf("armed: %x", m.texts[0].armed)
	}
	if _, err := open(b, &amd64); err != errForeign {
		t.Errorf("for another processor: %v", err)
	}
}

// Files are read in programs' way: whatever they hold, an error at most.
func FuzzImage(f *testing.F) {
	f.Add(object(&amd64, []byte{0x55, 0x90, 0xc3, 0xcc}, elf.Sym64{Name: 1, Info: byte(elf.STT_FUNC), Shndx: 1, Value: 120, Size: 3}))
	f.Add(object(&amd64, []byte{0x55, 0x90, 0xc3, 0xcc}, elf.Sym64{Name: 1, Info: byte(elf.STT_FUNC), Shndx: 1, Value: 121}, elf.Sym64{Shndx: 1, Value: 123}))
	if exe, err := os.ReadFile("/bin/true"); err == nil {
		f.Add(exe)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := open(b, &amd64)
		if err != nil {
			return
		}
		_, _ = m.id()
		m.functions(func(*symbol) bool { return true }, func(s *symbol, _, _ string) {
			if text, at := m.find(s.Value); text.isArmed(at, m.arch.trap) {
				text.counts[at] = 1
			}
		})
		for _, x := range m.executed() {
			if len(x.Symbols) == 0 {
				t.Errorf("%x has no name", x.Address)
			}
		}
	})
}
