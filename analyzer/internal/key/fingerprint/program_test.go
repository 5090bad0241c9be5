package fingerprint

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// checkPrograms composes tests in the current directory with what executions didn't enter: alone, as often as wanted,
// and elsewhere from the files of their programs. All have to come to the same. It returns how many were composed, and how
// many of them had stubs.
func checkPrograms(t testing.TB, tests []*Test, choose func(n int) int) (composed, stubs int) {
	t.Helper()
	var which []int
	var idle []map[string]bool
	for i := range tests {
		for range 2 {
			names := map[string]bool{}
			for _, name := range []string{"main", "f", "g", "h", "malloc", "x", "y", "z"} {
				if choose(2) == 0 {
					names[name] = true
				}
			}
			which, idle = append(which, i), append(idle, names)
		}
	}
	together := NewTraced(tests).Compose(which, idle)
	same := func(what string, a, b *Composed) {
		t.Helper()
		x, y := a.Config, b.Config
		if x != nil && y != nil && len(x.AlwaysRun) == len(y.AlwaysRun) {
			p, q := *x, *y
			p.AlwaysRun, q.AlwaysRun = nil, nil // they name files
			x, y = &p, &q
		}
		if (a.Err == nil) != (b.Err == nil) {
			t.Errorf("%s: %v and %v", what, a.Err, b.Err)
		} else if d := cmp.Diff(x, y); a.Err == nil && (d != "" || a.Opaque != b.Opaque || !cmp.Equal(a.Idle, b.Idle)) {
			t.Errorf("%s: %q, %q, %q, %q %s", what, a.Idle, b.Idle, a.Opaque, b.Opaque, d)
		}
	}
	for k, i := range which {
		x := *tests[i]
		x.Idle = idle[k]
		alone, _ := ComposeAll([]*Test{&x}, nil)
		same(fmt.Sprintf("test %d together", i), &alone[0], &together[k])
		if alone[0].Err != nil {
			continue
		}
		composed++
		if len(alone[0].Idle) > 0 {
			stubs++
		}
		file := filepath.Join(t.TempDir(), "t.traces")
		if err := WriteProgram(file, tests[i], true); err != nil {
			t.Fatal(err)
		}
		p, err := ReadProgram(file)
		if err != nil || !p.Collect {
			t.Fatal(err)
		}
		if p.Unknown != "" {
			t.Errorf("test %d: %s", i, p.Unknown)
			continue
		}
		dir := t.TempDir()
		y, err := p.Unpack(dir, func(path string) string {
			for _, d := range tests[i].Data {
				if d.Path == path {
					return d.File
				}
			}
			return ""
		})
		if err != nil {
			t.Fatal(err)
		}
		same(fmt.Sprintf("test %d elsewhere", i), &alone[0], &NewTraced([]*Test{y}).Compose([]int{0}, idle[k:k+1])[0])
	}
	return composed, stubs
}

func TestProgram(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	dir := t.TempDir()
	composed, stubs := 0, 0
	for i := range 100 {
		sub := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(sub, 0o777); err != nil {
			t.Fatal(err)
		}
		t.Chdir(sub)
		n, with := checkPrograms(t, newTests(t, "", r.IntN), r.IntN)
		composed, stubs = composed+n, stubs+with
		if t.Failed() {
			t.Fatal("invocation ", i)
		}
	}
	if composed < 200 || stubs < 50 {
		t.Errorf("%d tests were composed, %d of them with stubs", composed, stubs)
	}
}

// What can't be taken along is said to be unknown, and what is damaged is an error.
func TestProgramUnknown(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("dir", 0o777); err != nil {
		t.Fatal(err)
	}
	for want, x := range map[string]*Test{
		"it is flaky":                       {AlwaysRun: []string{"it is flaky"}},
		"its data _main/dir is a directory": {Data: []DataFile{{"_main/dir", "dir"}}},
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
	if err := WriteProgram("t.traces", &Test{Binary: "_main/t"}, false); err != nil {
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
			NewTraced([]*Test{x}).Compose([]int{0}, []map[string]bool{{"f": true}})
		}
	})
}
