package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestRC(t *testing.T) {
	dir := t.TempDir()
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
	home := write("home/.tastingrc", "# Mine.\n\ntest --store=/a   --audit=0\nexplain --all --last=3\n")
	write("work/.tastingrc", "common --store=/b --store_header=A=1 --runs=r\ntest '--store_header=Authorization=Bearer X' -c=opt\ntest --config=ci --explain=FILE\nstore --max-size=1G\n")
	env := map[string]string{"HOME": filepath.Join(dir, "home")}
	get := func(name string) string { return env[name] }
	// read returns flags of tasting that are set for a command, and those of Bazel.
	read := func(words ...string) string {
		t.Helper()
		cmd, _, err := Root().Find(words)
		if err != nil {
			t.Fatal(err)
		}
		rc, err := readRC(filepath.Join(dir, "work/sub"), cmd.Root(), get)
		if err != nil {
			t.Fatal(err)
		}
		cmd.InheritedFlags()
		if _, err := rc.apply(cmd, cmd.Flags()); err != nil {
			t.Fatal(err)
		}
		bazels := rc.bazelFlags(cmd)
		var all []string
		cmd.Flags().Visit(func(f *pflag.Flag) { all = append(all, f.Name+"="+f.Value.String()) })
		return strings.Join(append(all, bazels...), " ")
	}
	for command, want := range map[string]string{
		"test":           "audit=0 store=/a store_header=A,Authorization -c=opt --config=ci --explain=FILE",
		"explain":        "all=true last=3 store=/b store_header=A",
		"service select": "store=/b store_header=A",
		"service trace":  "",
		"internal run":   "",
		"store ping":     "store=/b store_header=A",
		"store stat":     "runs=r store=/b store_header=A",
		"store gc":       "max_size=1G store=/b store_header=A",
		"store verify":   "store=/b store_header=A",
		"report":         "runs=[r]",
	} {
		if got := read(strings.Fields(command)...); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	env["TASTINGRC"] = home
	if got := read("test"); got != "audit=0 store=/a" {
		t.Errorf("by $TASTINGRC: %q", got)
	}
	env["TASTINGRC"] = os.DevNull
	if got := read("test"); got != "" {
		t.Errorf("without a file: %q", got)
	}
	for text, want := range map[string]string{
		"test --config /a\n":         `:1: "/a": want flags alone`,
		"test --store\n":             `:1: "--store": want flags alone, those with a value as --flag=value`,
		"common --store\n":           `:1: "--store": want flags alone`,
		"test -k -c opt\n":           `:1: "-c": want`,
		"\ntest -- //...\n":          `:2: "--": want`,
		"build --config=x\n":         `:1: "build": want common, or one of adopt, check,`,
		"object -o=x\n":              `:1: "object": want common, or one of adopt, check,`,
		"--store=/somewhere\n":       `want common`,
		"common --config=ci\n":       `:1: "--config=ci": tasting knows no such flag here; flags of Bazel are for test alone`,
		"explain --sotre=x\n":        `:1: "--sotre=x": tasting knows no such flag here`,
		"common --store_mode=read\n": `bad:1: invalid argument "read" for "--store_mode" flag`,
	} {
		env["TASTINGRC"] = write("bad", text)
		test, _, _ := Root().Find([]string{"test"})
		rc, err := readRC(dir, test.Root(), get)
		if err == nil {
			_, err = rc.apply(test, test.Flags())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	env["TASTINGRC"] = filepath.Join(dir, "none")
	if _, err := readRC(dir, Root(), get); err == nil {
		t.Error("a file that is asked for isn't there: no error")
	}
}
