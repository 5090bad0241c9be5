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

// A recorded result holds what the test itself has written, in the form in which the runner records
// it, so that either replays what the other has recorded: the log without the lines that Bazel's script
// puts in front, test.xml, and the undeclared outputs one by one, not in an archive. If there are
// several shards, their files and logs have the names of their directories in front. The list of outputs that Bazel's
// script makes (test.outputs_manifest/MANIFEST) isn't part of a result.

const (
	logName     = "test.log"
	xmlName     = "test.xml"
	outputsName = "test.outputs"
	archiveName = outputsName + "/outputs.zip"
	listName    = "test.outputs_manifest/MANIFEST"
)

// shard matches Bazel's names of directories for shards.
var shard = lazyregexp.New(`^shard_[0-9]+_of_[0-9]+$`)

// place splits the directory of a shard, or "", from a file's name.
func place(name string) (at, rest string) {
	if first, rest, ok := strings.Cut(name, "/"); ok && shard.MatchString(first) {
		return first, rest
	}
	return "", name
}

// is reports whether name, without the directory of a shard, is what.
func is(name, what string) bool {
	_, rest := place(name)
	return rest == what
}

// cutOutputs splits the name of an undeclared output: the directory of the test's log, and the rest.
func cutOutputs(name string) (at, rest string, ok bool) {
	at, rest = place(name)
	rest, ok = strings.CutPrefix(rest, outputsName+"/")
	return at, rest, ok
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

// maxUnpacked bounds how many bytes there may be in an archive.
const maxUnpacked = 1 << 30

// opened are files that are closed together.
type opened []*os.File

func (o *opened) close() {
	for _, f := range *o {
		f.Close()
	}
}

// addNameless adds a new file that nobody else sees.
func (o *opened) addNameless() (*os.File, error) {
	f, err := os.CreateTemp("", "tasting-outputs-")
	if err == nil {
		_ = os.Remove(f.Name())
		*o = append(*o, f)
	}
	return f, err
}

// unpack returns the files in an archive of undeclared outputs, by their names in a result.
func unpack(archive *io.SectionReader, open *opened) (files []store.File, err error) {
	z, err := zip.NewReader(archive, archive.Size())
	if err != nil {
		return nil, err
	}
	f, err := open.addNameless()
	if err != nil {
		return nil, err
	}
	var end int64
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
		n, err := io.Copy(f, io.LimitReader(r, maxUnpacked-end+1))
		if err = errors.Join(err, r.Close()); err == nil && end+n > maxUnpacked {
			err = fmt.Errorf("its outputs have more than %d bytes", maxUnpacked)
		}
		if err != nil {
			return nil, err
		}
		files = append(files, store.File{Path: name, Executable: x.Mode()&0o111 != 0, Content: io.NewSectionReader(f, end, n)})
		end += n
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

// result opens the files that Bazel has kept of a test, as a result to be recorded. Zipped says whether Bazel
// has put undeclared outputs into an archive.
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
	// The files are open now. If another call of Bazel has replaced them since, that shows.
	for dir, a := range c.logs {
		if err := a.Left(dir); err != nil {
			return nil, nil, err
		}
	}
	c.End = c.Start.Add(took)
	return &c.Result, c.open.close, nil
}

// add adds a file in dir that an attempt has written.
func (c *collected) add(dir, file string, a attempt) error {
	if isIdle(file, filepath.Join(dir, file)) {
		return nil
	}
	x, err := os.Open(filepath.Join(dir, file))
	if err != nil {
		return err
	}
	c.open = append(c.open, x)
	name := filepath.ToSlash(file)
	if _, rest := place(name); notRecorded.MatchString(rest) {
		return fmt.Errorf("it wrote %s, which isn't recorded", rest)
	}
	content, err := contents(name, x, c.zipped, &c.open)
	if err != nil {
		return err
	}
	if is(name, logName) {
		c.logs[filepath.Dir(filepath.Join(dir, file))] = a.result
		if a.shard <= 1 {
			c.Log = content[0].Content
		}
	}
	if name != logName && !is(name, listName) {
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
	case is(name, logName):
		all = ownLog(all)
	case zipped && is(name, archiveName):
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

// recordable returns name, of a file in dir, or the files in it if it is a directory:
// undeclared outputs that Bazel doesn't put into an archive.
func recordable(dir, name string) (files []string, err error) {
	if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
		return []string{name}, nil
	}
	names, err := bazel.OutputFiles(filepath.Join(dir, name))
	for _, n := range names {
		files = append(files, filepath.Join(name, n))
	}
	return files, err
}

// dir returns the directory of a test's log, or of those of its shards.
func (o *outcome) dir() (string, error) {
	for _, a := range o.attempts {
		if p, ok, err := a.file(logName); ok || err != nil {
			d := filepath.Dir(p)
			if shard.MatchString(filepath.Base(d)) {
				d = filepath.Dir(d)
			}
			return d, err
		}
	}
	return "", errors.New("no log was named by Bazel")
}

// testlogs returns the directory where Bazel would put the logs of a test, and the directory of all logs that it is in.
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
	if slices.ContainsFunc(files, func(f store.File) bool { at, _ := place(f.Path); return at != "" }) {
		return files // of shards
	}
	files = append(files, store.File{Path: logName, Content: r.Log})
	if !wroteXML(r) {
		// As Bazel makes it of the log.
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
	return slices.ContainsFunc(r.Files, func(f store.File) bool { return is(f.Path, xmlName) })
}

// replay puts the files of the result of a test that is recorded under key where Bazel would. The
// error is the store's: files that can't be written cost a warning, the result is
// known all the same. Rec, if it isn't nil, records it for the test's fingerprint, too. A dry run replays nothing.
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
		if x.JUnit != "" && is(f.Path, xmlName) {
			b, err := io.ReadAll(again(f))
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

// again reads a file of a result from its beginning.
func again(f store.File) io.Reader { return io.NewSectionReader(f.Content, 0, f.Content.Size()) }

// outputsOfTests are files and directories that Bazel removes before it runs a test. Source:
// Bazel's TestRunnerAction.deleteOutputs.
var outputsOfTests = []string{
	"coverage.dat", "_coverage", "test.exited_prematurely", "test.infrastructure_failure", "test.log", "test.outputs", "test.outputs_manifest",
	"test.raw_splitlogs", "test.shard", "test.unused_runfiles_log", "test.warnings", "test.xml", "test_attempts",
}

// isAsBazelLeft reports whether Bazel has put the files of a result into the directory of a test, and
// they and no others are still there. As long as they stay, Bazel takes the test for executed.
func (inv *invocation) isAsBazelLeft(root *os.Root, dir string, r *store.Result, files []store.File) bool {
	if inv.streams() || inv.option("test_output") == "all" {
		return false // it is printed
	}
	if _, err := root.Lstat(path.Join(dir, bazel.StatusFile)); err != nil {
		return false
	}
	if !wroteXML(r) {
		// One that is there may be of a run that has failed.
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

// onDisk returns the files that Bazel has put into a directory for a test, as they would be recorded, by their
// names. It is nil if they can't be recorded.
func (inv *invocation) onDisk(root *os.Root, dir string, open *opened) map[string]store.File {
	files := map[string]store.File{}
	err := fs.WalkDir(root.FS(), dir, func(p string, e fs.DirEntry, err error) error {
		name := strings.TrimPrefix(p, dir+"/")
		_, rest := place(name)
		first, _, _ := strings.Cut(rest, "/")
		switch {
		case err != nil || e.IsDir():
			return err
		case !slices.Contains(outputsOfTests, first) || rest == "test.shard" || rest == listName:
			return nil
		case !e.Type().IsRegular() || len(*open) > store.MaxFiles:
			return fs.ErrInvalid
		}
		if isIdle(name, filepath.Join(root.Name(), p)) {
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

// equal compares two contents.
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
		file *os.File
		at   string // the directory of the log
	}
	var archives []archive
	for _, f := range files {
		at, name, ok := cutOutputs(f.Path)
		if !ok {
			packed = append(packed, f)
			continue
		}
		i := slices.IndexFunc(archives, func(a archive) bool { return a.at == at })
		if i < 0 {
			x, err := open.addNameless()
			if err != nil {
				return nil, err
			}
			i, archives = len(archives), append(archives, archive{zip.NewWriter(x), x, at})
		}
		h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: made}
		if h.SetMode(0o644); f.Executable {
			h.SetMode(0o755)
		}
		w, err := archives[i].CreateHeader(h)
		if err == nil {
			_, err = io.Copy(w, again(f))
		}
		if err != nil {
			return nil, err
		}
	}
	for _, a := range archives {
		if err := a.Close(); err != nil {
			return nil, err
		}
		info, err := a.file.Stat()
		if err != nil {
			return nil, err
		}
		packed = append(packed, store.File{Path: path.Join(a.at, archiveName), Content: io.NewSectionReader(a.file, 0, info.Size())})
	}
	return packed, nil
}

// write writes the files of a result. It follows no symbolic link: the test may have made some
// when it ran here, and some may lead to files that Bazel keeps.
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
		return nil // and Bazel's cache of tests has them as well
	}
	if x.zips() {
		var open opened
		defer open.close()
		if files, err = pack(files, r.End, &open); err != nil {
			return err
		}
	}
	// As Bazel does before it runs a test. Files of Bazel's aren't writable
	// anyway.
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
		content := again(f)
		if is(f.Path, logName) {
			content = io.MultiReader(strings.NewReader(head), content)
			if x.streams() || x.option("test_output") == "all" {
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
	b, _ := io.ReadAll(again(log))
	inv.printing.Lock()
	defer inv.printing.Unlock()
	fmt.Fprintf(inv.Out, "==================== Test output for %s (replayed):\n%s%s\n", label, b, strings.Repeat("=", 80))
}
