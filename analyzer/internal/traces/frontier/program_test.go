package frontier

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
)

// A test with a file that can't be added is unknown.
func TestProgramUnknown(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("dir", 0o777); err != nil {
		t.Fatal(err)
	}
	for want, x := range map[string]*fingerprint.Test{
		"it is flaky":                       {AlwaysRun: []string{"it is flaky"}},
		"its data _main/dir is a directory": {Data: []fingerprint.DataFile{{Path: "_main/dir", File: "dir"}}},
		"open gone":                         {Manifests: []string{"gone"}},
		"a name that is no text":            {Binary: "\xff"},
	} {
		if err := WriteProgram("t.traces", x, false); err != nil {
			t.Fatal(err)
		}
		if p, err := ReadProgram("t.traces"); err != nil || !strings.HasPrefix(p.Unknown, want) || p.Test != nil {
			t.Errorf("%s: %+v, %v", want, p, err)
		}
	}
}

func TestProgramDamaged(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := WriteProgram("t.traces", &fingerprint.Test{Binary: "_main/t"}, false); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile("t.traces")
	if err != nil {
		t.Fatal(err)
	}
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	pack := func(text string) []byte { return e.EncodeAll([]byte(text), nil) }
	for _, b := range [][]byte{nil, []byte("text"), whole[:len(whole)-4], pack("{"), pack(`{"format":1}`), pack(`{"format":2,"test":{}}`)} {
		if err := os.WriteFile("t.traces", b, 0o666); err != nil {
			t.Fatal(err)
		}
		if p, err := ReadProgram("t.traces"); err == nil {
			t.Errorf("%q is %+v", b, p)
		}
	}
	if _, err := ReadProgram("gone"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	// No file is written elsewhere, none is read there.
	for _, text := range []string{`{"format":1,"test":{},"files":{"../x":"eA=="}}`, `{"format":1,"test":{"Toolchain":"/etc/passwd"}}`, `{"format":1,"test":{"Data":[{"Path":"gone"}]}}`} {
		if err := os.WriteFile("t.traces", pack(text), 0o666); err != nil {
			t.Fatal(err)
		}
		p, err := ReadProgram("t.traces")
		if err != nil {
			t.Fatal(err)
		}
		if x, err := p.Unpack("to", func(string) string { return "" }); err == nil {
			t.Errorf("%s is %+v", text, x)
		}
	}
}

func FuzzReadProgram(f *testing.F) {
	f.Add([]byte(`{"format":1,"test":{"Manifests":["m"]},"files":{"m":"eA=="}}`))
	e, err := zstd.NewWriter(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		file := filepath.Join(dir, "t.traces")
		if err := os.WriteFile(file, e.EncodeAll(b, nil), 0o666); err != nil {
			t.Fatal(err)
		}
		p, err := ReadProgram(file)
		if err != nil || p.Unknown != "" {
			return
		}
		if x, err := p.Unpack(filepath.Join(dir, "to"), func(string) string { return file }); err == nil {
			fingerprint.NewTraced([]*fingerprint.Test{x}).Compose([]int{0}, []map[string]bool{{"f": true}})
		}
	})
}
