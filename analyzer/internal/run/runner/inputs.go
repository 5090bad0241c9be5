package runner

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/stamp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// A key has the test as it was built, and the libraries of the system when it was started. The result of a run
// belongs to that key only if the run has read these files, and not a data file that was saved after the build
// or during the run.
//
// So the runner reads the times of all files before the test starts and when it has ended. The run belongs to the
// key if no file was touched, the data are those of the configuration, and the key is the same when it is computed again.

// The times of symbolic links and directories on a file's path are read, too: retargeting a link or renaming a directory
// also swaps the data. A test that makes files next to its data changes both mtime and ctime of a directory, a rename only
// ctime. So two changes are missed: a directory that was moved away and back, if a file was made or removed in it
// afterwards, and a directory of data that had another file for a while.

// inputs are the stamps of the files that a test can read, and of links and directories on their paths.
type inputs map[string]stamp.Stamp

// stampInputs returns the stamps of the test's binary and of all its runfiles.
func (r *runner) stampInputs() inputs {
	in := inputs{}
	add := func(place string, s stamp.Stamp) {
		// Of its own directories Bazel changes modes at any time.
		if !s.IsDir() || !strings.Contains(place+"/", "/execroot/") && !strings.Contains(place+"/", "/bazel-out/") {
			in[place] = s
		}
	}
	trail, seen := stamp.Trail{}, map[string]bool{}
	trail.Walk(r.binary, seen, add, add)
	if root, ok := strings.CutSuffix(r.binary, "/"+r.config.Binary); ok {
		trail.Walk(root, seen, add, add)
	}
	for _, d := range r.config.Data {
		if file := r.runfile(d.Path); file != "" {
			trail.Walk(file, seen, add, add)
		}
	}
	return in
}

// changedReasonInTime returns changedReason's result, or errNoTime's text if reading all data takes longer than r.deadline allows.
func (r *runner) changedReasonInTime(before inputs, key store.Key) string {
	why, ok := inTime(r, math.MaxInt64, func() string { return r.changedReason(before, key) })
	if !ok {
		return errNoTime.Error()
	}
	return why
}

// changedReason returns why a run that has just ended may not belong to key, or "".
func (r *runner) changedReason(before inputs, key store.Key) string {
	config, err := fingerprint.ReadConfig(r.Path + fingerprint.ConfigSuffix)
	if err != nil || !reflect.DeepEqual(config, r.config) {
		return "the test was built again while it ran"
	}
	if again, _, err := r.key(); err != nil || again != key {
		return "libraries of the system were changed while it ran"
	}
	for _, place := range slices.Sorted(maps.Keys(before)) {
		if now, err := stamp.At(place); err != nil || !now.Kept(before[place]) {
			return place + " was changed while it ran"
		}
	}
	for _, d := range r.config.Data {
		file := r.runfile(d.Path)
		if file == "" {
			return fmt.Sprintf("the data file %s isn't in its runfiles", d.Path)
		}
		if strings.HasSuffix(d.Path, "/") {
			continue // a directory; the files in it are data, too
		}
		sum, err := wholefile.Digest(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a link to nowhere
		}
		if err != nil {
			return err.Error()
		}
		if hex.EncodeToString(sum[:]) != d.SHA256 {
			return file + " was changed after the test was built"
		}
	}
	return ""
}

// isExecutable reports whether the owner of a data file may execute it. The file named name in the runfiles is at file.
func isExecutable(file, name string) bool {
	info, err := os.Stat(file)
	return err == nil && !info.IsDir() && info.Mode()&0o100 != 0 && !(info.Size() == 0 && isPlain(file, name))
}

// isPlain reports whether a file of the runfiles isn't a link. An __init__.py that Bazel makes isn't: it is
// empty and has any mode.
func isPlain(file, name string) bool {
	real, err := filepath.EvalSymlinks(file)
	return err == nil && strings.HasSuffix(real, ".runfiles/"+name)
}

// runfile returns the path of the file with a runfiles path, or "".
func (r *runner) runfile(name string) string {
	for _, dir := range r.runfilesDirs() {
		p := filepath.Join(dir, name)
		if _, err := os.Lstat(p); err == nil {
			return p
		}
	}
	return r.runfilesManifest()[name]
}

// runfilesDirs are the directories where the runfiles of this test may be.
func (r *runner) runfilesDirs() []string {
	var dirs []string
	if abs, err := filepath.Abs(r.Path); err == nil {
		dirs = append(dirs, abs+".runfiles")
		if i := strings.LastIndex(abs, ".runfiles/"); i >= 0 {
			dirs = append(dirs, abs[:i]+".runfiles")
		}
	}
	for _, v := range []string{"RUNFILES_DIR", "TEST_SRCDIR"} {
		if d, err := filepath.Abs(r.env.get(v)); err == nil && r.env.get(v) != "" {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// runfilesManifests are the files that may list the runfiles instead.
func (r *runner) runfilesManifests() []string {
	files := []string{r.env.get("RUNFILES_MANIFEST_FILE")}
	if abs, err := filepath.Abs(r.Path); err == nil {
		files = append(files, abs+".runfiles_manifest", abs+".runfiles/MANIFEST")
	}
	return files
}

// runfilesManifest maps runfiles paths to files.
func (r *runner) runfilesManifest() map[string]string {
	if r.manifest == nil {
		r.manifest = map[string]string{}
		for _, m := range r.runfilesManifests() {
			b, err := os.ReadFile(m)
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(b)) {
				name, p, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
				if r.manifest[name] == "" {
					r.manifest[name] = p
				}
			}
		}
	}
	return r.manifest
}
