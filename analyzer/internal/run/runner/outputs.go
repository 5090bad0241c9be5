package runner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// The names of files in a recorded result. They are those of Bazel's test logs.
const (
	xmlFile        = "test.xml"
	outputsDir     = "test.outputs"
	annotationsDir = "test.outputs_manifest"
)

// outputDirs returns the directories, by name in a result, in which the test
// may write files.
func (r *runner) outputDirs() map[string]string {
	dirs := map[string]string{}
	for name, v := range map[string]string{outputsDir: "TEST_UNDECLARED_OUTPUTS_DIR", annotationsDir: "TEST_UNDECLARED_OUTPUTS_ANNOTATIONS_DIR"} {
		if d := r.env.get(v); d != "" {
			dirs[name] = d
		}
	}
	return dirs
}

// outputsInTheWay returns an output that exists before the test has started, or "". It would be recorded as the test's.
func (r *runner) outputsInTheWay() string {
	if f := r.env.get("XML_OUTPUT_FILE"); f != "" {
		if _, err := os.Lstat(f); err == nil {
			return f + " was there before the test started"
		}
	}
	for _, d := range r.outputDirs() {
		if l, err := os.ReadDir(d); err == nil && len(l) > 0 {
			return filepath.Join(d, l[0].Name()) + " was there before the test started"
		}
	}
	return ""
}

// uncleanReason returns why a run that ended with exit code 0 is no clean pass, or "".
func (r *runner) uncleanReason() string {
	for _, x := range []struct{ variable, what string }{
		{"TEST_PREMATURE_EXIT_FILE", "the test ended prematurely"},
		{"TEST_INFRASTRUCTURE_FAILURE_FILE", "the test reported an infrastructure failure"},
		{"TEST_WARNINGS_OUTPUT_FILE", "the test wrote warnings, which aren't recorded"},
		{"TEST_UNUSED_RUNFILES_LOG_FILE", "the test wrote a log of unused runfiles, which isn't recorded"},
		{"TEST_LOGSPLITTER_OUTPUT_FILE", "the test wrote split logs, which aren't recorded"},
	} {
		if f := r.env.get(x.variable); f != "" {
			if _, err := os.Lstat(f); err == nil {
				return x.what
			}
		}
	}
	if f := r.env.get("TEST_SHARD_STATUS_FILE"); f != "" && r.env.get("TEST_TOTAL_SHARDS") != "" {
		if _, err := os.Lstat(f); err != nil {
			return "the test doesn't support sharding: it has not touched TEST_SHARD_STATUS_FILE"
		}
	}
	return ""
}

// collect opens the files that the test wrote. The caller calls done.
func (r *runner) collect() (files []store.File, done func(), err error) {
	var open []*os.File
	done = func() {
		for _, f := range open {
			f.Close()
		}
	}
	add := func(name, file string) error {
		if len(open) == store.MaxFiles {
			return fmt.Errorf("the test wrote more than %d files", store.MaxFiles)
		}
		info, err := os.Lstat(file)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("the test wrote %s, which is no regular file", file)
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		open = append(open, f)
		files = append(files, store.File{
			Path:       name,
			Executable: info.Mode()&0o111 != 0,
			Content:    io.NewSectionReader(f, 0, info.Size()),
		})
		return nil
	}
	if f := r.env.get("XML_OUTPUT_FILE"); f != "" {
		if err := add(xmlFile, f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return files, done, err
		}
	}
	for name, dir := range r.outputDirs() {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		outputs, err := bazel.OutputFiles(dir)
		if err != nil {
			return files, done, err
		}
		for _, output := range outputs {
			if err := add(path.Join(name, output), filepath.Join(dir, output)); err != nil {
				return files, done, err
			}
		}
	}
	return files, done, nil
}

// replay writes the log and the files of a recorded result, and returns its exit code.
func (r *runner) replay(by string, key store.Key, res *store.Result) (int, error) {
	// Files first: if that fails, the log is still empty, and the test finds none of them.
	if err := r.placeFiles(res.Files); err != nil {
		return 0, err
	}
	if f := r.env.get("TEST_SHARD_STATUS_FILE"); f != "" {
		s, err := os.OpenFile(f, os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o666)
		if err != nil {
			return 0, err
		}
		s.Close()
	}
	r.say("replayed result of %s %s, recorded %s on %s; to execute the test, use --test_env=TASTING=off",
		by, key, res.End.Format("2006-01-02T15:04:05Z07:00"), res.Host)
	if _, err := io.Copy(r.Stdout, res.Log); err != nil {
		// Running the test now would append to a log that has begun.
		r.say("the log could not be written: %v", err)
		return ExitInternal, nil
	}
	if res.ExitCode == 0 {
		r.writeXML(res)
	}
	return res.ExitCode, nil
}

// placeFiles writes recorded files where the test would. If one can't be written, there is none.
func (r *runner) placeFiles(files []store.File) error {
	type file struct{ dir, name string }
	dirs := r.outputDirs()
	places := make([]file, len(files))
	for i, f := range files {
		first, rest, _ := strings.Cut(f.Path, "/")
		switch x := r.env.get("XML_OUTPUT_FILE"); {
		case f.Path == xmlFile && x == "":
		case f.Path == xmlFile:
			places[i] = file{filepath.Dir(x), filepath.Base(x)}
		case dirs[first] == "" || rest == "":
			return fmt.Errorf("there is no place for the recorded file %s", f.Path)
		default:
			places[i] = file{dirs[first], rest}
		}
	}
	for i, at := range places {
		if at.name == "" {
			continue
		}
		if err := writeFile(at.dir, at.name, files[i]); err != nil {
			for _, written := range places[:i+1] {
				if root, err := os.OpenRoot(written.dir); err == nil && written.name != "" {
					_ = root.Remove(written.name)
					root.Close()
				}
			}
			return err
		}
	}
	return nil
}

// writeFile writes a recorded file below dir. Whatever the name is, it stays
// below dir, and it doesn't go through a link.
func writeFile(dir, name string, f store.File) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for d := path.Dir(name); d != "."; d = path.Dir(d) {
		if info, err := root.Lstat(d); err == nil && !info.IsDir() {
			return fmt.Errorf("%s is in the way of the recorded file %s: it is no directory", filepath.Join(dir, d), name)
		}
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return store.WriteFile(root, name, f.Executable, f.Content)
}
