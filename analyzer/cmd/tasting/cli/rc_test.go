package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRC(t *testing.T) {
	dir := t.TempDir()
	own := testCommand().Flags()
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return name
	}
	write("work/MODULE.bazel", "")
	write("work/sub/BUILD", "")
	home := write("home/.tastingrc", "# Mine.\n\ntest --store=/a   --audit=0\n")
	work := write("work/.tastingrc", "test '--store_header=Authorization=Bearer X' -c=opt\ntest --config=ci")
	env := map[string]string{"HOME": filepath.Join(dir, "home")}
	get := func(name string) string { return env[name] }
	read := func() ([]string, []string) {
		t.Helper()
		flags, files, err := rcFlags(filepath.Join(dir, "work/sub"), own, get)
		if err != nil {
			t.Fatal(err)
		}
		return flags, files
	}
	mine := []string{"--store=/a", "--audit=0"}
	flags, files := read()
	if !slices.Equal(flags, append(slices.Clone(mine), "--store_header=Authorization=Bearer X", "-c=opt", "--config=ci")) || !slices.Equal(files, []string{home, work}) {
		t.Errorf("%q of %q", flags, files)
	}
	env["TASTINGRC"] = home
	if flags, files = read(); !slices.Equal(flags, mine) || !slices.Equal(files, []string{home}) {
		t.Errorf("%q of %q", flags, files)
	}
	env["TASTINGRC"] = os.DevNull
	if flags, files = read(); len(flags)+len(files) > 0 {
		t.Errorf("%q of %q", flags, files)
	}
	for text, want := range map[string]string{
		"test --config /a\n":   `:1: "/a": want flags alone`,
		"test --store\n":       `:1: "--store": want flags alone, those with a value as --flag=value`,
		"test -k -c opt\n":     `:1: "-c": want`,
		"\ntest -- //...\n":    `:2: "--": want`,
		"build --config=x\n":   `:1: "build": want test`,
		"--store=/somewhere\n": `want test`,
	} {
		env["TASTINGRC"] = write("bad", text)
		if _, _, err := rcFlags(dir, own, get); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	env["TASTINGRC"] = filepath.Join(dir, "none")
	if _, _, err := rcFlags(dir, own, get); err == nil {
		t.Error("a file that is asked for isn't there: no error")
	}
}
