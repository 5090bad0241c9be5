package driver

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// Driver and runner replay each other's results, so both record the same files: the log without the lines that
// Bazel's script puts in front, test.xml, and the undeclared outputs one by one, not in an archive. Names of a shard's
// files begin with its directory. The list of outputs (test.outputs_manifest/MANIFEST) isn't recorded.

const (
	logName     = "test.log"
	xmlName     = "test.xml"
	outputsName = "test.outputs"
	archiveName = outputsName + "/outputs.zip"
	listName    = "test.outputs_manifest/MANIFEST"
)

// shardDir matches Bazel's names of directories for shards.
var shardDir = lazyregexp.New(`^shard_[0-9]+_of_[0-9]+$`)

// cutShard splits a file's name behind the directory of its shard, if it has one.
func cutShard(name string) (dir, rest string) {
	if first, rest, ok := strings.Cut(name, "/"); ok && shardDir.MatchString(first) {
		return first, rest
	}
	return "", name
}

// isNamed reports whether name is what, without the directory of a shard.
func isNamed(name, what string) bool {
	_, rest := cutShard(name)
	return rest == what
}

// notRecorded matches files that a test writes for Bazel to act on, which a replay can't repeat.
var notRecorded = lazyregexp.New(`^test\.(unused_runfiles_log|infrastructure_failure|exited_prematurely|warnings|raw_splitlogs/.*)$`)

// logHead matches the lines that Bazel's script writes before it starts a test. Source: test-setup.sh.
var logHead = lazyregexp.New(`^exec \$\{PAGER:-/usr/bin/less\} "\$0" \|\| exit 1\nExecuting tests from [^\n]*\n-{77}\n`)

// maxHead is more than logHead matches.
const maxHead = 16 << 10

// ownLog returns the part of Bazel's test.log that the test has written.
func ownLog(log *io.SectionReader) *io.SectionReader {
	b := make([]byte, min(maxHead, log.Size()))
	if _, err := log.ReadAt(b, 0); err != nil && err != io.EOF {
		return log
	}
	n := int64(len(logHead.Find(b)))
	return io.NewSectionReader(log, n, log.Size()-n)
}

// maxUnpacked bounds the bytes in an archive.
const maxUnpacked = 1 << 30

// opened are files that are closed together.
type opened []io.Closer

func (o *opened) close() {
	for _, f := range *o {
		f.Close()
	}
}

// addSpool adds a new buffer.
func (o *opened) addSpool() *store.Spool {
	s := &store.Spool{Memory: 64 << 10}
	*o = append(*o, s)
	return s
}

// unpack returns the files in an archive of undeclared outputs, by their names in a result.
func unpack(archive *io.SectionReader, open *opened) (files []store.File, err error) {
	z, err := zip.NewReader(archive, archive.Size())
	if err != nil {
		return nil, err
	}
	all := open.addSpool() // one temporary file for all of them
	var size int64
	var sizes []int64
	for _, x := range z.File {
		name := outputsName + "/" + x.Name
		switch {
		case strings.HasSuffix(x.Name, "/"):
			if !slices.ContainsFunc(z.File, func(y *zip.File) bool { return y != x && strings.HasPrefix(y.Name, x.Name) }) {
				return nil, fmt.Errorf("it made the empty directory %s, which can't be recorded", name)
			}
			continue
		case !x.Mode().IsRegular() || !filepath.IsLocal(x.Name) || path.Clean(x.Name) != x.Name:
			return nil, fmt.Errorf("%s is no regular file", name)
		}
		r, err := x.Open()
		if err != nil {
			return nil, err
		}
		n, err := io.Copy(all, io.LimitReader(r, maxUnpacked-size+1))
		if size += n; err == nil && size > maxUnpacked {
			err = fmt.Errorf("its outputs have more than %d bytes", maxUnpacked)
		}
		if err = errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
		sizes = append(sizes, n)
		files = append(files, store.File{Path: name, Executable: x.Mode()&0o111 != 0})
	}
	start := int64(0)
	for i, n := range sizes {
		files[i].Content = io.NewSectionReader(all.Content(), start, n)
		start += n
	}
	return files, nil
}

// collected is a result that is being put together.
type collected struct {
	store.Result
	zipped bool
	open   opened
	logs   map[string]*bazel.TestResult // by directory
}

// result opens the files that Bazel has kept of a test, as a result to be recorded. Zipped is set if Bazel
// puts undeclared outputs into an archive.
func (o *outcome) result(zipped bool) (r *store.Result, done func(), err error) {
	c := &collected{zipped: zipped, logs: map[string]*bazel.TestResult{}}
	defer func() {
		if err != nil {
			c.open.close()
		}
	}()
	c.Log = store.Content(nil)
	c.Host, _ = os.Hostname()
	if o.status != "PASSED" {
		c.ExitCode = 1
	}
	dir, err := o.dir()
	if err != nil {
		return nil, nil, err
	}
	var took time.Duration
	for _, a := range o.attempts {
		start, duration := a.result.When()
		if c.Start.IsZero() || start.Before(c.Start) {
			c.Start = start
		}
		took += duration
		for _, f := range a.result.TestActionOutput {
			p, err := f.Path()
			if err != nil {
				return nil, nil, err
			}
			name, err := filepath.Rel(dir, p)
			if err != nil || !filepath.IsLocal(name) {
				continue // a file of an earlier attempt
			}
			files, err := recordable(dir, name)
			if err != nil {
				return nil, nil, err
			}
			for _, file := range files {
				if err := c.add(dir, file, a); err != nil {
					return nil, nil, err
				}
			}
		}
	}
	// The files are open now. CheckFiles finds those that another call of Bazel has replaced.
	for dir, a := range c.logs {
		if err := a.CheckFiles(dir); err != nil {
			return nil, nil, err
		}
	}
	c.End = c.Start.Add(took)
	return &c.Result, c.open.close, nil
}

// add adds a file in dir that an attempt has written.
func (c *collected) add(dir, file string, a attempt) error {
	if isOfTracer(file, filepath.Join(dir, file)) {
		return nil
	}
	x, err := os.Open(filepath.Join(dir, file))
	if err != nil {
		return err
	}
	c.open = append(c.open, x)
	name := filepath.ToSlash(file)
	if _, rest := cutShard(name); notRecorded.MatchString(rest) {
		return fmt.Errorf("it wrote %s, which isn't recorded", rest)
	}
	content, err := contents(name, x, c.zipped, &c.open)
	if err != nil {
		return err
	}
	if isNamed(name, logName) {
		c.logs[filepath.Dir(filepath.Join(dir, file))] = a.result
		if a.shard <= 1 {
			c.Log = content[0].Content
		}
	}
	if name != logName && !isNamed(name, listName) {
		c.Files = append(c.Files, content...)
	}
	if len(c.Files) > store.MaxFiles || len(c.open) > store.MaxFiles {
		return fmt.Errorf("it wrote more than %d files", store.MaxFiles)
	}
	return nil
}

// contents returns the files to be recorded for an open file: itself, or the files in an archive.
func contents(name string, f *os.File, zipped bool, open *opened) (files []store.File, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	all := io.NewSectionReader(f, 0, info.Size())
	switch {
	case isNamed(name, logName):
		all = ownLog(all)
	case zipped && isNamed(name, archiveName):
		if files, err = unpack(all, open); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i := range files {
			files[i].Path = strings.TrimSuffix(name, archiveName) + files[i].Path
		}
		return files, nil
	}
	// Bazel has made all files executable.
	return []store.File{{Path: name, Content: all}}, nil
}

// recordable returns name or, if it is a directory in dir, the files in it: undeclared outputs
// that Bazel doesn't put into an archive.
func recordable(dir, name string) (files []string, err error) {
	if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
		return []string{name}, nil
	}
	names, err := bazel.OutputFiles(filepath.Join(dir, name))
	return collect(names, func(n string) string { return filepath.Join(name, n) }), err
}

// dir returns the directory of a test's log, or of those of its shards.
func (o *outcome) dir() (string, error) {
	for _, a := range o.attempts {
		if p, ok, err := a.file(logName); ok || err != nil {
			d := filepath.Dir(p)
			if shardDir.MatchString(filepath.Base(d)) {
				d = filepath.Dir(d)
			}
			return d, err
		}
	}
	return "", errors.New("no log was named by Bazel")
}

// testlogs returns the directory of all logs, and the one below it in which Bazel would put the logs of a test.
func (x *expansion) testlogs(t *target) (all, dir string) {
	repo, pkg, name := splitLabel(t.label)
	if repo != "" {
		pkg = path.Join("external", repo, pkg)
	}
	return filepath.Join(x.execRoot, "bazel-out", x.mnemonics[t.config], "testlogs"), path.Join(pkg, name)
}

// files returns the files that a replay of r puts into the directory of a test's log, outputs one by one.
func (inv *invocation) files(t *subject, r *store.Result) []store.File {
	files := slices.Clone(r.Files)
	if slices.ContainsFunc(files, func(f store.File) bool { at, _ := cutShard(f.Path); return at != "" }) {
		return files // of shards
	}
	files = append(files, store.File{Path: logName, Content: r.Log})
	if !wroteXML(r) {
		// Bazel makes the same of the log.
		var b bytes.Buffer
		name := strings.TrimPrefix(strings.TrimPrefix(inv.testBinary(t), "./"), "../")
		if bazel.WriteTestXML(&b, name, r.End.Sub(r.Start), r.Log) != nil {
			b.Reset()
			_ = bazel.WriteTestXML(&b, name, r.End.Sub(r.Start), store.Content([]byte("(the log is too large to be repeated here)")))
		}
		files = append(files, store.File{Path: xmlName, Content: store.Content(b.Bytes())})
	}
	return files
}

func wroteXML(r *store.Result) bool {
	return slices.ContainsFunc(r.Files, func(f store.File) bool { return isNamed(f.Path, xmlName) })
}

// replay puts the files of the result that is recorded under key where Bazel would. Its error is the
// store's; it prints a warning if the files can't be written. Unless rec is nil, it
// records the result under the test's fingerprint, too. A dry run replays nothing.
func (x *expansion) replay(ctx context.Context, st store.Store, t *decision, key store.Key, rec *recorder) error {
	if x.DryRun {
		return nil
	}
	r, err := st.Get(ctx, key)
	if err != nil {
		return err
	}
	defer r.Close()
	if r.ExitCode != 0 {
		return store.ErrNotFound // it has been withdrawn since
	}
	files := x.files(t.subject, r)
	for _, f := range files {
		if x.JUnit != "" && isNamed(f.Path, xmlName) {
			b, err := io.ReadAll(reader(f))
			if err != nil {
				return err
			}
			t.xml = append(t.xml, b)
		}
	}
	if err := x.write(t, key, r, files); err != nil {
		x.say("warning: %s: its log can't be written: %v", t.label, err)
	}
	if rec != nil && x.Write {
		_ = rec.recordPass(ctx, t, t.key, " by its fingerprint", r)
	}
	return nil
}

// reader reads a file of a result from its beginning.
func reader(f store.File) io.Reader { return io.NewSectionReader(f.Content, 0, f.Content.Size()) }

// outputsOfTests are files and directories that Bazel removes before it runs a test. Source:
// Bazel's TestRunnerAction.deleteOutputs.
var outputsOfTests = []string{
	"coverage.dat", "_coverage", "test.exited_prematurely", "test.infrastructure_failure", "test.log", "test.outputs", "test.outputs_manifest",
	"test.raw_splitlogs", "test.shard", "test.unused_runfiles_log", "test.warnings", "test.xml", "test_attempts",
}

// isAsBazelLeft reports whether the directory of a test has the files of the result and no others, as Bazel has put
// them there. As long as they stay, Bazel itself has the test in its cache.
func (inv *invocation) isAsBazelLeft(root *os.Root, dir string, r *store.Result, files []store.File) bool {
	if inv.isStreamed() || inv.option("test_output") == "all" {
		return false // it is printed
	}
	if _, err := root.Lstat(path.Join(dir, bazel.StatusFile)); err != nil {
		return false
	}
	if !wroteXML(r) {
		// A test.xml in the directory may be of a run that has failed.
		files = slices.DeleteFunc(slices.Clone(files), func(f store.File) bool { return f.Path == xmlName })
	}
	var open opened
	defer open.close()
	here := inv.onDisk(root, dir, &open)
	if len(here) != len(files) {
		return false
	}
	for _, f := range files {
		if x, ok := here[f.Path]; !ok || !equal(x.Content, f.Content) {
			return false
		}
	}
	return true
}

// onDisk returns the files that Bazel has put into the directory of a test, in the form in which they would be recorded, by
// name. It returns nil if they can't be recorded.
func (inv *invocation) onDisk(root *os.Root, dir string, open *opened) map[string]store.File {
	files := map[string]store.File{}
	err := fs.WalkDir(root.FS(), dir, func(p string, e fs.DirEntry, err error) error {
		name := strings.TrimPrefix(p, dir+"/")
		_, rest := cutShard(name)
		first, _, _ := strings.Cut(rest, "/")
		switch {
		case err != nil || e.IsDir():
			return err
		case !slices.Contains(outputsOfTests, first) || rest == "test.shard" || rest == listName:
			return nil
		case !e.Type().IsRegular() || len(*open) > store.MaxFiles:
			return fs.ErrInvalid
		}
		if isOfTracer(name, filepath.Join(root.Name(), p)) {
			return nil
		}
		f, err := root.Open(p)
		if err != nil {
			return err
		}
		*open = append(*open, f)
		l, err := contents(name, f, inv.zips(), open)
		for _, x := range l {
			files[x.Path] = x
		}
		return err
	})
	if err != nil {
		return nil
	}
	return files
}

// equal reports whether two contents are equal.
func equal(a, b *io.SectionReader) bool {
	if a.Size() != b.Size() {
		return false
	}
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); at < a.Size(); at += int64(len(x)) {
		n, err := a.ReadAt(x, at)
		k, err2 := b.ReadAt(y, at)
		if err != nil && err != io.EOF || err2 != nil && err2 != io.EOF || !bytes.Equal(x[:n], y[:k]) {
			return false
		}
	}
	return true
}

// zips reports whether Bazel puts undeclared outputs into an archive.
func (inv *invocation) zips() bool {
	value := inv.option("zip_undeclared_test_outputs")
	return isTrue(value) || value == "" && modelled[inv.major()]
}

// pack puts the undeclared outputs among files into archives.
func pack(files []store.File, made time.Time, open *opened) (packed []store.File, err error) {
	type archive struct {
		*zip.Writer
		content *store.Spool
		at      string // the directory of the log
	}
	var archives []archive
	for _, f := range files {
		at, rest := cutShard(f.Path)
		name, isOutput := strings.CutPrefix(rest, outputsName+"/")
		if !isOutput {
			packed = append(packed, f)
			continue
		}
		i := slices.IndexFunc(archives, func(a archive) bool { return a.at == at })
		if i < 0 {
			x := open.addSpool()
			i, archives = len(archives), append(archives, archive{zip.NewWriter(x), x, at})
		}
		h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: made}
		if h.SetMode(0o644); f.Executable {
			h.SetMode(0o755)
		}
		w, err := archives[i].CreateHeader(h)
		if err == nil {
			_, err = io.Copy(w, reader(f))
		}
		if err != nil {
			return nil, err
		}
	}
	for _, a := range archives {
		if err := a.Close(); err != nil {
			return nil, err
		}
		packed = append(packed, store.File{Path: path.Join(a.at, archiveName), Content: a.content.Content()})
	}
	return packed, nil
}

// write writes the files of a result. It follows no symbolic link: an earlier run of the test may have made one, and
// it may lead to files that Bazel keeps.
func (x *expansion) write(t *decision, key store.Key, r *store.Result, files []store.File) error {
	logs, dir := x.testlogs(t.target)
	if err := os.MkdirAll(logs, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(logs)
	if err != nil {
		return err
	}
	defer root.Close()
	if x.isAsBazelLeft(root, dir, r, files) {
		return nil
	}
	if x.zips() {
		var open opened
		defer open.close()
		if files, err = pack(files, r.End, &open); err != nil {
			return err
		}
	}
	// Bazel's own files aren't writable. It removes them as well before it runs a test.
	old := append([]string{bazel.StatusFile}, outputsOfTests...)
	for _, f := range files {
		first, _, _ := strings.Cut(f.Path, "/")
		old = append(old, first)
	}
	for _, name := range old {
		if err := root.RemoveAll(path.Join(dir, name)); err != nil {
			return err
		}
	}
	by := "fingerprint"
	if key != t.key {
		by = "trace"
	}
	head := fmt.Sprintf("tasting: replayed: this is the log of a run that ended on %s on %s, %s %s\n",
		r.End.UTC().Format(time.RFC3339), r.Host, by, key)
	for _, f := range files {
		content := reader(f)
		if isNamed(f.Path, logName) {
			content = io.MultiReader(strings.NewReader(head), content)
			if x.isStreamed() || x.option("test_output") == "all" {
				x.printLog(t.label, f)
			}
		}
		if err := store.WriteFile(root, path.Join(dir, f.Path), f.Executable, content); err != nil {
			return err
		}
	}
	return nil
}

// printLog prints a replayed log as Bazel prints that of a test.
func (inv *invocation) printLog(label string, log store.File) {
	b, _ := io.ReadAll(reader(log))
	inv.printing.Lock()
	defer inv.printing.Unlock()
	fmt.Fprintf(inv.Out, "==================== Test output for %s (replayed):\n%s%s\n", label, b, strings.Repeat("=", 80))
}
