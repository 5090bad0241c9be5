package fingerprint

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzReadConfig: what is read is valid, and the same after it is written.
func FuzzReadConfig(f *testing.F) {
	sum := strings.Repeat("0f", 32)
	valid := `{"format":` + strconv.Itoa(ConfigFormat) + `,"code":"` + sum + `","binary":"_main/a/b","data":[{"path":"_main/d","sha256":"` + sum + `"}],` +
		`"link_flags":["-lm"],"always_run":["local"],"store":"/s","env_keys":["A"],"contributions":[{"name":"compiler","sha256":"` + sum + `"}]}`
	f.Add([]byte(valid))
	f.Add([]byte(valid[:len(valid)/2]))
	f.Add([]byte(valid + "{}"))
	f.Add([]byte(strings.Replace(valid, `"store"`, `"stole"`, 1)))
	f.Add([]byte(strings.Replace(valid, "_main/a", "../a", 1)))
	f.Add([]byte{})
	dir := f.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(first, data, 0o666); err != nil {
			t.Fatal(err)
		}
		c, err := ReadConfig(first)
		if err != nil {
			return
		}
		if err := c.Validate(); err != nil {
			t.Fatalf("read, but not valid: %v", err)
		}
		if err := WriteConfig(second, c); err != nil {
			t.Fatal(err)
		}
		again, err := ReadConfig(second)
		if err != nil {
			t.Fatalf("read, but not after writing it again: %v", err)
		}
		if d := cmp.Diff(c, again, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("not the same after writing it (-read +again):\n%s", d)
		}
	})
}

// TestConfigTruncated: no part of a configuration is one.
func TestConfigTruncated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c")
	want := &Config{Format: ConfigFormat, Code: strings.Repeat("0f", 32), Binary: "_main/a/b", AlwaysRun: []string{"local"}}
	if err := WriteConfig(file, want); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	whole = []byte(strings.TrimSpace(string(whole)))
	for n := range whole {
		if err := os.WriteFile(file, whole[:n], 0o666); err != nil {
			t.Fatal(err)
		}
		if c, err := ReadConfig(file); err == nil {
			t.Fatalf("%d of %d bytes are read as %+v", n, len(whole), c)
		}
	}
}
