package fingerprint_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/frontier"
)

// checkPrograms composes tests in the current directory with what executions didn't enter: alone, as often as wanted,
// and elsewhere from the files of their programs. All have to come to the same. It returns how many were composed, and how
// many of them had stubs.
func checkPrograms(t testing.TB, tests []*fingerprint.Test, choose func(n int) int) (composed, stubs int) {
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
	together := fingerprint.NewTraced(tests).Compose(which, idle)
	same := func(what string, a, b *fingerprint.Composed) {
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
		alone, _ := fingerprint.ComposeAll([]*fingerprint.Test{&x}, nil)
		same(fmt.Sprintf("test %d together", i), &alone[0], &together[k])
		if alone[0].Err != nil {
			continue
		}
		composed++
		if len(alone[0].Idle) > 0 {
			stubs++
		}
		file := filepath.Join(t.TempDir(), "t.traces")
		if err := frontier.WriteProgram(file, tests[i], true); err != nil {
			t.Fatal(err)
		}
		p, err := frontier.ReadProgram(file)
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
		same(fmt.Sprintf("test %d elsewhere", i), &alone[0], &fingerprint.NewTraced([]*fingerprint.Test{y}).Compose([]int{0}, idle[k:k+1])[0])
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
		n, with := checkPrograms(t, fingerprint.NewTests(t, "", r.IntN), r.IntN)
		composed, stubs = composed+n, stubs+with
		if t.Failed() {
			t.Fatal("invocation ", i)
		}
	}
	if composed < 200 || stubs < 50 {
		t.Errorf("%d tests were composed, %d of them with stubs", composed, stubs)
	}
}
