package runner_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
)

// Edits at every moment between the build of a test and the end of its run: a
// result that may not be that of the fingerprint isn't recorded, and a failure
// isn't noted.
func TestEdits(t *testing.T) {
	const content = "data\n"
	sum := sha256.Sum256([]byte(content))
	for _, c := range []struct {
		name string
		// What happens between the build and the start, and in the test: commands
		// of a shell in the directory of the data. $R is that of the runfiles, $T
		// that of the test.
		before, during string
		want           string // why nothing is recorded, or ""
	}{
		{"nothing", "", "", ""},
		{"read", "", "cat data.txt", ""},
		{"another file in the runfiles", "", "echo x >$R/_main/new", ""},
		{"data edited before", "echo edit >data.txt", "", "data.txt was changed after the test was built"},
		{"data edited before with its old time", "touch -r data.txt ref; echo edit >data.txt; touch -r ref data.txt", "", "data.txt was changed after the test was built"},
		{"data edited before and again after", "echo edit >data.txt", "echo data >data.txt", "data.txt was changed while it ran"},
		{"data edited", "", "echo edit >data.txt", "data.txt was changed while it ran"},
		{"data edited and edited back", "", "touch -r data.txt ref; echo edit >data.txt; echo data >data.txt; touch -r ref data.txt", "data.txt was changed while it ran"},
		{"data replaced by the same", "", "cp data.txt new; mv new data.txt", "data.txt was changed while it ran"},
		{"data removed before", "rm $R/_main/data.txt", "", "the data file _main/data.txt isn't in its runfiles"},
		{"data removed", "", "rm data.txt", "data.txt was changed while it ran"},
		{"in a directory", "", "echo edit >dir/sub/file", "dir/sub/file was changed while it ran"},
		{"link retargeted and back", "", "ln -sfn lib.bin cur.txt; ln -sfn data.txt cur.txt", "/cur.txt was changed while it ran"},
		{"link to a directory retargeted and back", "", "ln -sfn alt now; ln -sfn dir now", "/now was changed while it ran"},
		{"directory swapped and swapped back", "", "mv dir bak; mv alt dir; mv dir alt; mv bak dir", "/dir was changed while it ran"},
		{"its parent swapped and swapped back", "", "mv $S $S.bak; mkdir $S; rmdir $S; mv $S.bak $S", "was changed while it ran"},
		{"another directory moved", "", "mv alt other", ""},
		{"files made beside data", "", "echo x >new; mkdir -p dir/sub/new; echo x >dir/sub/x; rm dir/sub/x; ln -s x $R/_main/link", ""},
		{"Bazel's own directories", "", "mkdir -m 755 $G/new; chmod 700 $G; chmod 755 $G", ""},
		{"library edited", "", "echo edit >lib.bin", "lib.bin was changed while it ran"},
		{"library replaced", "", "echo library >new; mv new lib.bin", "lib.bin was changed while it ran"},
		{"built again as it was", "", "cp $T/t.tasting new; mv new $T/t.tasting", ""},
		{"built again", "", `sed -i 's/"code": "ab/"code": "cd/' $T/t.tasting`, "the test was built again while it ran"},
		{"linked again", "", "rm $R/_main/real; cp /bin/sh $R/_main/real", "real was changed while it ran"},
		{"built and linked again", "", `sed -i 's/"code": "ab/"code": "cd/' $T/t.tasting; rm $R/_main/real; cp /bin/sh $R/_main/real`, "the test was built again while it ran"},
	} {
		for _, fails := range []bool{false, true} {
			name := c.name
			if fails {
				name += " and fails"
			}
			t.Run(name, func(t *testing.T) {
				h := newHarness(t)
				run := filepath.Join(h.dir, "t.runfiles", "_main")
				src := t.TempDir() // the workspace, to which runfiles are links
				generated := filepath.Join(t.TempDir(), "execroot", "_main", "bazel-out", "bin")
				for _, err := range []error{
					os.Remove(filepath.Join(run, "real")),
					os.Symlink("/bin/sh", filepath.Join(run, "real")),
					os.MkdirAll(filepath.Join(src, "dir", "sub"), 0o777),
					os.WriteFile(filepath.Join(src, "data.txt"), []byte(content), 0o666),
					os.WriteFile(filepath.Join(src, "dir", "sub", "file"), []byte(content), 0o666),
					os.WriteFile(filepath.Join(src, "lib.bin"), []byte("library\n"), 0o666),
					os.Symlink(filepath.Join(src, "data.txt"), filepath.Join(run, "data.txt")),
					os.Symlink(filepath.Join(src, "dir"), filepath.Join(run, "dir")),
					os.Symlink(filepath.Join(src, "lib.bin"), filepath.Join(run, "lib.bin")),
					os.Mkdir(filepath.Join(src, "alt"), 0o777),
					os.Symlink("data.txt", filepath.Join(src, "cur.txt")),
					os.Symlink(filepath.Join(src, "cur.txt"), filepath.Join(run, "cur.txt")),
					os.Symlink("dir", filepath.Join(src, "now")),
					os.Symlink(filepath.Join(src, "now", "sub"), filepath.Join(run, "now")),
					os.MkdirAll(generated, 0o777),
					os.WriteFile(filepath.Join(generated, "made"), []byte(content), 0o666),
					os.Symlink(filepath.Join(generated, "made"), filepath.Join(run, "made")),
				} {
					if err != nil {
						t.Fatal(err)
					}
				}
				old := time.Now().Add(-time.Hour)
				for _, f := range []string{"data.txt", "dir/sub/file", "lib.bin"} {
					if err := os.Chtimes(filepath.Join(src, f), old, old); err != nil {
						t.Fatal(err)
					}
				}
				h.config.Data = []fingerprint.File{
					{Path: "_main/data.txt", SHA256: hex.EncodeToString(sum[:])},
					{Path: "_main/dir/sub/file", SHA256: hex.EncodeToString(sum[:])},
				}
				h.configure()
				h.env = append(h.env, "G="+generated, "R="+filepath.Join(h.dir, "t.runfiles"), "T="+h.dir, "S="+src)
				shell := func(script string) {
					t.Helper()
					x := h.cmd("-c", "cd $S; "+script)
					x.Path, x.Args[0] = "/bin/sh", "sh"
					if b, err := x.CombinedOutput(); err != nil {
						t.Fatalf("%v: %s", err, b)
					}
				}
				if c.before != "" {
					shell(c.before)
				}
				time.Sleep(10 * time.Millisecond) // a tick of the file system's clock
				end := "exit 0"
				if fails {
					end = "exit 1"
				}
				o := h.run("-c", "printf x >>../../count; cd $S; "+c.during+"\n"+end)
				if o.runs != 1 || (o.code != 0) != fails {
					t.Fatalf("%+v", o)
				}
				if recorded := h.entries() > 0; recorded != (c.want == "") {
					t.Errorf("recorded: %v\n%s", recorded, o.said)
				}
				if !fails && !strings.Contains(o.said, c.want) {
					t.Errorf("said %q, want %q", o.said, c.want)
				}
			})
		}
	}
}

// Bazel makes no new configuration if only the mode of a data file changes: the
// runner looks.
func TestModes(t *testing.T) {
	h := newHarness(t)
	run := filepath.Join(h.dir, "t.runfiles", "_main")
	src := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(src, "dir"), 0o777),
		os.WriteFile(filepath.Join(src, "tool.sh"), []byte("x"), 0o777),
		os.WriteFile(filepath.Join(src, "dir", "tool.sh"), []byte("x"), 0o777),
		os.WriteFile(filepath.Join(src, "data.txt"), []byte("x"), 0o666),
		os.WriteFile(filepath.Join(src, "dir", "empty"), nil, 0o666),
		os.Mkdir(filepath.Join(src, "dir", "none"), 0o777),
		os.Symlink("nowhere", filepath.Join(src, "dangling")),
		// Bazel makes it for __init__.py; with linux-sandbox it has another mode.
		os.WriteFile(filepath.Join(run, "made"), nil, 0o555),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	test := &fingerprint.Test{Binary: "_main/real", Empty: []string{"_main/made"}}
	for _, name := range []string{"tool.sh", "dir", "data.txt", "dangling"} {
		if err := os.Symlink(filepath.Join(src, name), filepath.Join(run, name)); err != nil {
			t.Fatal(err)
		}
		test.Data = append(test.Data, fingerprint.DataFile{Path: "_main/" + name, File: filepath.Join(src, name)})
	}
	built, _, _, err := fingerprint.Compose(test)
	if err != nil {
		t.Fatal(err)
	}
	h.config.Data, h.config.Contributions = built.Data, built.Contributions
	h.configure()
	h.want("miss", h.run("out=x"))
	for _, c := range []struct {
		name       string
		mode, back os.FileMode
		want       string
	}{
		{"tool.sh", 0o666, 0o777, "miss"},
		{"dir/tool.sh", 0o666, 0o777, "miss"},
		{"data.txt", 0o777, 0o666, "miss"},
		{"dir/empty", 0o777, 0o666, "miss"},
		{"dir/none", 0o700, 0o777, "hit"},
		{"data.txt", 0o600, 0o666, "hit"},
	} {
		file := filepath.Join(src, c.name)
		if err := os.Chmod(file, c.mode); err != nil {
			t.Fatal(err)
		}
		h.want(c.want, h.run("out=x"))
		h.want("hit", h.run("out=x"))
		if err := os.Chmod(file, c.back); err != nil {
			t.Fatal(err)
		}
		h.want("hit", h.run("out=x"))
	}
}
