package runner_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/explain"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// closure is what a build writes beside the configuration: a test of n
// functions, of which one has a version.
func (h *harness) closure(n int, version string) *fingerprint.Report {
	h.t.Helper()
	sum := func(s string) string {
		b := sha256.Sum256([]byte(s))
		return hex.EncodeToString(b[:])
	}
	h.config.Code = sum(version)
	h.configure()
	r := &fingerprint.Report{
		Format: fingerprint.ReportFormat, Fingerprint: sum("fingerprint " + version), Contributions: []fingerprint.Contribution{{Name: "code", SHA256: sum(version)}},
		Roots: []fingerprint.Root{{Component: "_ZN4shop5f0000Ev", Why: []string{"main"}}},
	}
	for i := range n {
		name := fmt.Sprintf("_ZN4shop5f%04dEv", i)
		c := fingerprint.Component{ID: name, Name: name, Source: "t.cc", Kind: "function", Linkage: "external", Local: sum(name)[:32], Links: []string{}}
		if i == n-1 {
			c.Local = sum(version)[:32]
		} else {
			c.Links = append(c.Links, fmt.Sprintf("_ZN4shop5f%04dEv", i+1))
		}
		r.Components = append(r.Components, c)
	}
	var b bytes.Buffer
	if err := fingerprint.WriteClosure(&b, r); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "t.closure"), b.Bytes(), 0o666); err != nil {
		h.t.Fatal(err)
	}
	return r
}

// last explains the last recorded run by the ones before.
func (h *harness) last() []string {
	h.t.Helper()
	before, now, err := explain.Last(h.t.Context(), store.OpenDisk(h.store), "//pkg:t", 10)
	if err != nil {
		h.t.Fatal(err)
	}
	var l []string
	for _, d := range explain.Compare(before.Report, now.Report).Differences {
		l = append(l, string(d.Category)+" "+d.Key)
	}
	return l
}

// Whatever makes a test run again is known by its name afterwards.
func TestRemember(t *testing.T) {
	h := newHarness(t)
	h.env = append(h.env, "TEST_TARGET=//pkg:t", "SECRET=hunter2", "LEVEL=1")
	built := h.closure(10, "v1")
	o := h.want("miss", h.run("out=x"))
	if !strings.HasSuffix(o.said, "recorded\n") {
		t.Errorf("said %q", o.said)
	}
	s := store.OpenDisk(h.store)
	near, err := explain.Nearest(t.Context(), s, "//pkg:t", built, 10)
	if err != nil {
		t.Fatal(err)
	}
	// What a build knows isn't compared with what only a run knows.
	if c := explain.Compare(near.Report, built); !c.Equal || !c.RunUnknown || len(c.Differences) > 0 {
		t.Errorf("the build and its own run: %+v", c)
	}
	if host, _ := os.Hostname(); near.Host != host || near.Time.IsZero() || !strings.Contains(o.said, near.Key) {
		t.Errorf("recorded %+v, said %q", near.Entry, o.said)
	}

	for _, tc := range []struct {
		name string
		edit func() []string // arguments
		want []string
	}{
		{"code", func() []string { h.closure(10, "v2"); return []string{"out=x"} }, []string{"changed _ZN4shop5f0009Ev"}},
		{"arguments", func() []string { return []string{"out=y"} }, []string{"arguments arguments"}},
		{"variable", func() []string {
			h.env = slices.Replace(h.env, len(h.env)-1, len(h.env), "LEVEL=2")
			return []string{"out=y"}
		}, []string{"environment LEVEL"}},
		{"two variables", func() []string {
			h.env = slices.Replace(h.env, len(h.env)-2, len(h.env), "SECRET=hunter3", "OTHER=2")
			return []string{"out=y"}
		}, []string{"environment LEVEL", "environment OTHER", "environment SECRET"}},
		// The nearest one isn't the last one: code of the first run again.
		{"back", func() []string { h.closure(10, "v1"); return []string{"out=y"} }, []string{"changed _ZN4shop5f0009Ev"}},
	} {
		h.want("miss", h.run(tc.edit()...))
		if d := cmp.Diff(tc.want, h.last()); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, d)
		}
	}

	// No value is in the store, and no hash that confirms one.
	for _, secret := range []string{"hunter2", "hunter3"} {
		sum := sha256.Sum256([]byte(secret))
		err := filepath.WalkDir(h.store, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(p)
			if bytes.Contains(b, []byte(secret)) || bytes.Contains(b, sum[:]) || bytes.Contains(b, []byte(hex.EncodeToString(sum[:]))) {
				t.Errorf("%s has the value of SECRET", p)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A replay, a failure and a run without the label or the closure leave no trace
// in the history, and say nothing about it.
func TestNothingToRemember(t *testing.T) {
	h := newHarness(t)
	h.want("miss", h.run("out=no label"))
	h.env = append(h.env, "TEST_TARGET=//pkg:t")
	h.want("miss", h.run("out=no closure"))
	h.closure(3, "v1")
	h.want("miss", h.run("exit=1"))
	if o := h.want("hit", h.runOnce("out=x")); strings.Contains(o.said, "explain") {
		t.Errorf("said %q", o.said)
	}
	f, err := explain.Read(t.Context(), store.OpenDisk(h.store), "//pkg:t")
	if err != nil || len(f.Entries) != 1 {
		t.Errorf("history %+v, %v; want the one run of out=x", f, err)
	}
}

// runOnce runs until there is a result to replay.
func (h *harness) runOnce(args ...string) outcome {
	h.t.Helper()
	h.want("miss", h.run(args...))
	return h.run(args...)
}

// All shards of a test are one fingerprint in its history.
func TestRememberShards(t *testing.T) {
	h := newHarness(t)
	h.closure(3, "v1")
	env := append(h.env, "TEST_TARGET=//pkg:t", "TEST_TOTAL_SHARDS=3", "TEST_SHARD_STATUS_FILE="+filepath.Join(h.dir, "status"))
	for i := range 3 {
		h.env = append(slices.Clone(env), fmt.Sprintf("TEST_SHARD_INDEX=%d", i))
		h.want("miss", h.run("write=TEST_SHARD_STATUS_FILE"))
	}
	f, err := explain.Read(t.Context(), store.OpenDisk(h.store), "//pkg:t")
	if err != nil || len(f.Entries) != 1 {
		t.Errorf("history %+v, %v", f, err)
	}
}

// Whatever is wrong with the closure, the result is recorded and replayed.
func TestRememberFails(t *testing.T) {
	for name, spoil := range map[string]func(file string) error{
		"damaged":   func(file string) error { return os.WriteFile(file, []byte("tasting closure 1\nxyz"), 0o666) },
		"newer":     func(file string) error { return os.WriteFile(file, []byte("tasting closure 9\nxyz"), 0o666) },
		"directory": func(file string) error { return os.Mkdir(file, 0o777) },
		"too large": func(file string) error {
			if err := os.WriteFile(file, nil, 0o666); err != nil {
				return err
			}
			return os.Truncate(file, explain.MaxClosure+1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.env = append(h.env, "TEST_TARGET=//pkg:t")
			if err := spoil(filepath.Join(h.dir, "t.closure")); err != nil {
				t.Fatal(err)
			}
			o := h.want("miss", h.run("out=x"))
			if !strings.Contains(o.said, "\nrecorded\ntasting explain won't know of this result: ") {
				t.Errorf("said %q", o.said)
			}
			h.want("hit", h.run("out=x"))
		})
	}
}

// What remembering adds to a miss, for a test of 10,000 components.
func BenchmarkMiss(b *testing.B) {
	for _, n := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("components=%d", n), func(b *testing.B) {
			h := newHarness(b)
			h.env = append(h.env, "TEST_TARGET=//pkg:t")
			if n > 0 {
				h.closure(n, "v")
			}
			for i := 0; b.Loop(); i++ {
				h.want("miss", h.run(fmt.Sprintf("out=%d", i)))
			}
		})
	}
}
