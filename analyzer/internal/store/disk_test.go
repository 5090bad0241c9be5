package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"google.golang.org/protobuf/proto"
)

var ctx = context.Background()

func acPath(dir string, k store.Key) string {
	return filepath.Join(dir, "ac", k.String()[:2], k.String())
}

func casPath(dir, hash string) string { return filepath.Join(dir, "cas", hash[:2], hash) }

// newDir returns the path of a directory that doesn't exist yet.
func newDir(t testing.TB) string { return filepath.Join(t.TempDir(), "store") }

func mustPut(t testing.TB, d *store.Disk, k store.Key, r *store.Result) {
	t.Helper()
	if err := d.Put(ctx, k, r); err != nil {
		t.Fatal(err)
	}
}

// files returns the paths below dir, relative to it.
func files(t testing.TB, dir string) []string {
	t.Helper()
	var l []string
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(dir, p)
			l = append(l, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestConformance(t *testing.T) {
	runSuite(t, func(t *testing.T) Backend {
		dir := newDir(t)
		write := func(path string, data []byte) {
			var err error
			if data == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, data, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return Backend{
			Store: store.OpenDisk(dir),
			ReadEntry: func(k store.Key) []byte {
				b, err := os.ReadFile(acPath(dir, k))
				if err != nil {
					t.Fatal(err)
				}
				return b
			},
			WriteEntry: func(k store.Key, data []byte) { write(acPath(dir, k), data) },
			WriteBlob:  func(hash string, data []byte) { write(casPath(dir, hash), data) },
		}
	})
}

// The layout is what other programs that know Bazel's disk cache read.
func TestLayout(t *testing.T) {
	dir := newDir(t)
	k := Key("a")
	mustPut(t, store.OpenDisk(dir), k, Result("log\n", "test.xml", "<x/>"))
	want := []string{
		"ac/" + k.String()[:2] + "/" + k.String(),
		"cas/" + Hash("<x/>")[:2] + "/" + Hash("<x/>"),
		"cas/" + Hash("log\n")[:2] + "/" + Hash("log\n"),
		"tasting-store",
	}
	got := files(t, dir)
	if Hash("log\n") < Hash("<x/>") {
		want[1], want[2] = want[2], want[1]
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	b, err := os.ReadFile(acPath(dir, k))
	if err != nil {
		t.Fatal(err)
	}
	e := new(repb.ActionResult)
	if err := proto.Unmarshal(b, e); err != nil {
		t.Fatal(err)
	}
	if e.ExecutionMetadata.Worker != "host.example" || e.StdoutDigest.Hash != Hash("log\n") || len(e.OutputFiles) != 1 || e.OutputFiles[0].Path != "test.xml" {
		t.Errorf("entry %v", e)
	}
}

// A store that is shared with other users must be readable to them.
func TestFileModes(t *testing.T) {
	dir := newDir(t)
	mustPut(t, store.OpenDisk(dir), Key("a"), Result("log"))
	old := syscall.Umask(0)
	syscall.Umask(old)
	for _, f := range files(t, dir) {
		info, err := os.Stat(filepath.Join(dir, f))
		if err != nil {
			t.Fatal(err)
		}
		if want := fs.FileMode(0o666 &^ old); info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", f, info.Mode().Perm(), want)
		}
	}
}

// An entry has to be a plain file; nothing hangs on a FIFO in a blob's place.
func TestBlobIsDirectory(t *testing.T) {
	dir := newDir(t)
	d := store.OpenDisk(dir)
	mustPut(t, d, Key("a"), Result("log"))
	p := casPath(dir, Hash("log"))
	os.Remove(p)
	if err := os.Mkdir(p, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(ctx, Key("a")); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Get: %v, want ErrCorrupt", err)
	}
}

// What was verified is what is read, even if it is removed in between.
func TestReadAfterRemoval(t *testing.T) {
	dir := newDir(t)
	d := store.OpenDisk(dir)
	mustPut(t, d, Key("a"), Result("the log", "f", "x"))
	r, err := d.Get(ctx, Key("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got := Flatten(t, r); got.Log != "the log" || got.Files["f"] != "x" {
		t.Errorf("got %+v", got)
	}
}

func TestUnusableDirectory(t *testing.T) {
	// A file where the directory should be: works for root as well.
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	d := store.OpenDisk(filepath.Join(file, "store"))
	if err := d.Put(ctx, Key("a"), Result("log")); err == nil || store.IsMiss(err) || errors.Is(err, store.ErrExists) {
		t.Errorf("Put: %v", err)
	}
	if _, err := d.Get(ctx, Key("a")); err == nil || store.IsMiss(err) {
		t.Errorf("Get: %v, want an error that is no miss", err)
	}
}

// A user without write permission gets an error from Put, can read, and leaves
// nothing behind.
// obeyPermissions makes the permissions of the file system bind this thread
// even if it is root's, by giving up the capabilities to override them. The
// result takes that back.
func obeyPermissions(t *testing.T) (undo func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		return func() {}
	}
	runtime.LockOSThread()
	const version3, override, readSearch = 0x20080522, 1 << 1, 1 << 2
	header := struct {
		version uint32
		pid     int32
	}{version3, 0}
	var caps [2]struct{ effective, permitted, inheritable uint32 }
	call := func(number uintptr) {
		t.Helper()
		if _, _, e := syscall.RawSyscall(number, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&caps)), 0); e != 0 {
			t.Fatalf("capabilities: %v", e)
		}
	}
	call(syscall.SYS_CAPGET)
	before := caps[0].effective
	caps[0].effective &^= override | readSearch
	call(syscall.SYS_CAPSET)
	return func() {
		caps[0].effective = before
		call(syscall.SYS_CAPSET)
		runtime.UnlockOSThread()
	}
}

func TestUnwritableDirectory(t *testing.T) {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d := store.OpenDisk(dir)
	mustPut(t, d, Key("a"), Result("log"))
	before := files(t, dir)

	filepath.WalkDir(dir, func(p string, e fs.DirEntry, _ error) error {
		if e.IsDir() {
			os.Chmod(p, 0o555)
			t.Cleanup(func() { os.Chmod(p, 0o755) })
		}
		return nil
	})
	defer obeyPermissions(t)()
	if err := d.Put(ctx, Key("b"), Result("log")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Put: %v, want %v", err, fs.ErrPermission)
	}
	r, err := d.Get(ctx, Key("a"))
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	r.Close()
	if d := cmp.Diff(before, files(t, dir)); d != "" {
		t.Errorf("files changed:\n%s", d)
	}
}

// Child processes of tests: the test binary started again with this variable.
const childEnv = "STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	args := strings.Split(os.Getenv(childEnv), "|")
	switch args[0] {
	case "":
		os.Exit(m.Run())
	case "writer": // writer|dir|step: dies before that step
		n, _ := strconv.Atoi(args[2])
		d := store.OpenDisk(args[1])
		store.SetStep(d, func(string) {
			if n--; n < 0 {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		})
		fail(d.Put(ctx, Key("a"), Result("the log", "test.xml", "<xml/>")))
	case "remote writer": // remote writer|location|step: dies before that step
		n, _ := strconv.Atoi(args[2])
		s, err := store.Open(args[1], store.Options{})
		fail(err)
		store.SetStep(s, func(string) {
			if n--; n < 0 {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		})
		fail(s.Put(ctx, Key("a"), Result("the log", "test.xml", "<xml/>", "big", bigContent)))
	case "nginx": // nginx|program|dir|conf: with 256 KiB of disk
		fail(syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
		fail(syscall.Mount("tmpfs", args[2], "tmpfs", 0, "size=256k"))
		fail(os.MkdirAll(filepath.Join(args[2], "root"), 0o777))
		fail(syscall.Exec(args[1], []string{args[1], "-p", args[2], "-e", "stderr", "-c", args[3]}, nil))
	case "limited": // limited|dir: files of at most 4096 bytes
		signal.Ignore(syscall.SIGXFSZ)
		lim := syscall.Rlimit{Cur: 4096, Max: 4096}
		fail(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &lim))
		fullDisk(args[1], syscall.EFBIG)
	case "tmpfs": // tmpfs|dir: in a mount namespace of its own
		fail(syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
		fail(syscall.Mount("tmpfs", args[1], "tmpfs", 0, "size=64k"))
		fullDisk(args[1], syscall.ENOSPC)
	case "put": // put|dir|n: many writers
		d := store.OpenDisk(args[1])
		for i := range 16 {
			err := d.Put(ctx, Key(fmt.Sprint(i)), Result("shared log", "who", args[2]+strings.Repeat(" x", 10000)))
			if err != nil && !errors.Is(err, store.ErrExists) {
				fail(err)
			}
		}
	}
	os.Exit(0)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// fullDisk checks in a child that a result that doesn't fit gives want, leaves
// nothing behind, and doesn't harm one that fits.
func fullDisk(dir string, want error) {
	d := store.OpenDisk(dir)
	err := d.Put(ctx, Key("big"), Result("small log", "f", strings.Repeat("x", 1<<20)))
	if !errors.Is(err, want) {
		fail(fmt.Errorf("Put: %v, want %v", err, want))
	}
	if _, err := d.Get(ctx, Key("big")); !errors.Is(err, store.ErrNotFound) {
		fail(fmt.Errorf("Get: %v, want ErrNotFound", err))
	}
	if l, _ := os.ReadDir(filepath.Join(dir, "tmp")); len(l) > 0 {
		fail(fmt.Errorf("left behind: %v", l))
	}
	fail(d.Put(ctx, Key("small"), Result("small log")))
	r, err := d.Get(ctx, Key("small"))
	fail(err)
	r.Close()
}

func child(t testing.TB, args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe)
	c.Env = append(os.Environ(), childEnv+"="+strings.Join(args, "|"))
	return c
}

func TestFileSizeLimit(t *testing.T) {
	if out, err := child(t, "limited", newDir(t)).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestFullDisk(t *testing.T) {
	c := child(t, "tmpfs", t.TempDir())
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Skipf("no user namespaces here: %v", err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%v: %s", err, out.String())
	}
}

// A writer is killed before each of its steps. What a reader sees then is
// nothing or everything, and the next writer succeeds.
func TestKilledWriter(t *testing.T) {
	for step := 0; ; step++ {
		if step > 50 {
			t.Fatal("the writer doesn't come to an end")
		}
		dir := newDir(t)
		err := child(t, "writer", dir, fmt.Sprint(step)).Run()
		var exit *exec.ExitError
		killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled()
		if err != nil && !killed {
			t.Fatal(err)
		}
		d := store.OpenDisk(dir)
		want := Flatten(t, Result("the log", "test.xml", "<xml/>"))
		check := func() {
			r, err := d.Get(ctx, Key("a"))
			if err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			defer r.Close()
			if d := cmp.Diff(want, Flatten(t, r)); d != "" {
				t.Fatalf("step %d: %s", step, d)
			}
		}
		if !killed {
			check()
			if step < 10 {
				t.Errorf("only %d steps: were they all seen?", step)
			}
			return
		}
		if r, err := d.Get(ctx, Key("a")); err == nil {
			r.Close()
		} else if !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("step %d: %v, want a result or ErrNotFound", step, err)
		}
		err = d.Put(ctx, Key("a"), Result("the log", "test.xml", "<xml/>"))
		if err != nil && !errors.Is(err, store.ErrExists) {
			t.Fatalf("step %d: %v", step, err)
		}
		check()
		if problems, err := d.Verify(ctx, false); err != nil || len(problems) > 0 {
			t.Errorf("step %d: %v %v", step, problems, err)
		}
		// What the killed writer left behind is removed in time.
		if _, err := d.GC(ctx, store.GCOptions{}); err != nil {
			t.Fatal(err)
		}
		if s, err := d.Stat(ctx); err != nil || s.Temporary != 0 {
			t.Errorf("step %d: %+v %v", step, s, err)
		}
		check()
	}
}

func TestManyProcesses(t *testing.T) {
	dir := newDir(t)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if out, err := child(t, "put", dir, fmt.Sprint("writer ", i)).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	d := store.OpenDisk(dir)
	for i := range 16 {
		r, err := d.Get(ctx, Key(fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		f := Flatten(t, r)
		r.Close()
		if f.Log != "shared log" || !strings.HasPrefix(f.Files["who"], "writer ") {
			t.Errorf("%d: %+v", i, f)
		}
	}
	if p, err := d.Verify(ctx, false); err != nil || len(p) > 0 {
		t.Errorf("Verify: %v %v", p, err)
	}
}

// age makes an entry look as if it was last used d ago.
func age(t testing.TB, path string, d time.Duration) {
	t.Helper()
	then := time.Now().Add(-d)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

func ageAll(t testing.TB, dir string, d time.Duration) {
	for _, f := range files(t, dir) {
		age(t, filepath.Join(dir, f), d)
	}
}

// have tells which of the results a, b, c... can be had.
func have(t testing.TB, d *store.Disk, keys string) string {
	t.Helper()
	got := ""
	for _, k := range keys {
		r, err := d.Get(ctx, Key(string(k)))
		if err == nil {
			r.Close()
			got += string(k)
		} else if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%c: %v", k, err)
		}
	}
	return got
}

func TestGC(t *testing.T) {
	hour := time.Hour
	// Entries a to d, last used 4, 3, 2, 1 hours ago, each with 10,000 bytes of
	// its own and 10,000 that all share.
	fill := func(t *testing.T) (string, *store.Disk) {
		dir := newDir(t)
		d := store.OpenDisk(dir)
		for _, k := range "abcd" {
			mustPut(t, d, Key(string(k)), Result(strings.Repeat(string(k), 10000), "shared", strings.Repeat("s", 10000)))
		}
		ageAll(t, dir, 10*hour)
		for i, k := range "abcd" {
			age(t, acPath(dir, Key(string(k))), time.Duration(4-i)*hour)
		}
		return dir, d
	}
	for _, c := range []struct {
		name string
		o    store.GCOptions
		want string
	}{
		{"nothing to do", store.GCOptions{}, "abcd"},
		{"age", store.GCOptions{MaxAge: 150 * time.Minute}, "cd"},
		{"size", store.GCOptions{MaxBytes: 32000}, "cd"},
		{"size that fits", store.GCOptions{MaxBytes: 60000}, "abcd"},
		{"tiny size", store.GCOptions{MaxBytes: 1}, ""},
		{"both", store.GCOptions{MaxBytes: 45000, MaxAge: 90 * time.Minute}, "d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, d := fill(t)
			r, err := d.GC(ctx, c.o)
			if err != nil {
				t.Fatal(err)
			}
			if got := have(t, d, "abcd"); got != c.want {
				t.Errorf("kept %q, want %q", got, c.want)
			}
			blobs := len(c.want) + 1
			if c.want == "" {
				blobs = 0
			}
			s, err := d.Stat(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if s.Blobs != blobs || r.KeptBlobs != blobs || r.RemovedEntries != 4-len(c.want) {
				t.Errorf("%d blobs left, want %d; report %+v", s.Blobs, blobs, r)
			}
			if c.o.MaxBytes > 0 && s.Bytes > c.o.MaxBytes+100 {
				t.Errorf("%d bytes left, want at most %d", s.Bytes, c.o.MaxBytes)
			}
		})
	}
	t.Run("Get keeps an entry alive", func(t *testing.T) {
		_, d := fill(t)
		have(t, d, "a")
		if _, err := d.GC(ctx, store.GCOptions{MaxAge: 150 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		if got := have(t, d, "abcd"); got != "acd" {
			t.Errorf("kept %q, want acd", got)
		}
	})
	// What others do between the moment at which GC has listed everything and
	// that at which it removes something.
	others := func(t *testing.T, f func(dir string, d *store.Disk)) string {
		dir, d := fill(t)
		store.SetStep(d, func(step string) {
			if step == "remove entries" {
				f(dir, store.OpenDisk(dir))
			}
		})
		if _, err := d.GC(ctx, store.GCOptions{MaxAge: 150 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		if p, err := d.Verify(ctx, false); err != nil || len(p) > 0 {
			t.Errorf("Verify: %v %v", p, err)
		}
		return have(t, d, "abcde")
	}
	for name, c := range map[string]struct {
		f    func(t *testing.T, dir string, d *store.Disk)
		want string
	}{
		"used meanwhile": {func(t *testing.T, _ string, d *store.Disk) {
			r, err := d.Get(ctx, Key("a"))
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
		}, "acd"},
		"looked up meanwhile": {func(t *testing.T, _ string, d *store.Disk) {
			if o := store.Lookup(ctx, d, []store.Key{Key("a")}, nil); o[0].Err != nil {
				t.Fatal(o[0].Err)
			}
		}, "acd"},
		"replaced meanwhile": {func(t *testing.T, _ string, d *store.Disk) {
			// By a result whose contents were there before.
			if err := d.Set(ctx, Key("a"), Result(strings.Repeat("b", 10000), "shared", strings.Repeat("s", 10000))); err != nil {
				t.Fatal(err)
			}
		}, "acd"},
		"another entry with the same contents": {func(t *testing.T, _ string, d *store.Disk) {
			mustPut(t, d, Key("e"), Result(strings.Repeat("a", 10000), "shared", strings.Repeat("s", 10000)))
		}, "cde"},
		"removed meanwhile": {func(t *testing.T, dir string, _ *store.Disk) { os.Remove(acPath(dir, Key("a"))) }, "cd"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := others(t, func(dir string, d *store.Disk) { c.f(t, dir, d) }); got != c.want {
				t.Errorf("kept %q, want %q", got, c.want)
			}
		})
	}
	// Two at once: an entry that the one has taken out of its place for a moment
	// isn't missed by the other.
	t.Run("another GC meanwhile", func(t *testing.T) {
		var second chan error
		got := others(t, func(dir string, d *store.Disk) {
			have(t, d, "a")
			second = make(chan error, 1)
			go func() {
				_, err := d.GC(ctx, store.GCOptions{})
				second <- err
				close(second)
			}()
			select {
			case <-second:
				t.Error("it didn't wait")
			case <-time.After(50 * time.Millisecond):
			}
		})
		if err := <-second; err != nil || got != "acd" {
			t.Errorf("kept %q, %v", got, err)
		}
	})
	t.Run("young blobs stay", func(t *testing.T) {
		dir, d := fill(t)
		b := casPath(dir, Hash(strings.Repeat("a", 10000)))
		age(t, b, time.Minute)
		if _, err := d.GC(ctx, store.GCOptions{MaxBytes: 1, Grace: store.DefaultGrace}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(b); err != nil {
			t.Error(err)
		}
		if s, err := d.Stat(ctx); err != nil || s.Blobs != 1 {
			t.Errorf("%+v %v, want one blob", s, err)
		}
	})
	t.Run("damaged entries go", func(t *testing.T) {
		dir, d := fill(t)
		if err := os.WriteFile(acPath(dir, Key("a")), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		r, err := d.GC(ctx, store.GCOptions{})
		if err != nil || r.RemovedEntries != 1 || r.RemovedBlobs != 1 {
			t.Errorf("%+v %v", r, err)
		}
		if got := have(t, d, "abcd"); got != "bcd" {
			t.Errorf("kept %q, want bcd", got)
		}
	})
	t.Run("no store", func(t *testing.T) {
		dir := newDir(t)
		if r, err := store.OpenDisk(dir).GC(ctx, store.GCOptions{}); err != nil || *r != (store.GCReport{}) {
			t.Errorf("%+v %v", r, err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("GC created %s", dir)
		}
	})
}

// A directory that something else uses too is never cleaned.
func TestForeignDirectory(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "ac", "00", strings.Repeat("0", 64))
	os.MkdirAll(filepath.Dir(foreign), 0o777)
	if err := os.WriteFile(foreign, []byte("\x20\x01"), 0o666); err != nil {
		t.Fatal(err)
	}
	d := store.OpenDisk(dir)
	mustPut(t, d, Key("a"), Result("log"))
	if have(t, d, "a") != "a" {
		t.Error("the result isn't there")
	}
	if _, err := d.GC(ctx, store.GCOptions{MaxBytes: 1}); err == nil {
		t.Error("GC: no error")
	}
	if _, err := d.Verify(ctx, true); err == nil {
		t.Error("Verify with removal: no error")
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
}

// Writers, readers and GC at once: a result that GC keeps is never damaged.
func TestGCConcurrent(t *testing.T) {
	dir := newDir(t)
	d := store.OpenDisk(dir)
	begin := time.Now()
	var total, collections atomic.Int32
	going := func() bool {
		return time.Since(begin) < time.Second || total.Load() == 0 || collections.Load() == 0
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := 0; going(); i++ {
				k := fmt.Sprint(i % 7)
				r, err := d.Get(ctx, Key(k))
				if errors.Is(err, store.ErrNotFound) {
					err = d.Put(ctx, Key(k), Result("log "+k, "shared", "shared by all"))
					if err != nil && !errors.Is(err, store.ErrExists) {
						t.Errorf("Put: %v", err)
					}
					continue
				}
				// An entry whose eviction is under way may be read just before
				// its blobs are removed.
				if errors.Is(err, store.ErrIncomplete) {
					continue
				}
				if err != nil {
					t.Errorf("Get: %v", err)
					continue
				}
				total.Add(1)
				if f := Flatten(t, r); f.Log != "log "+k {
					t.Errorf("wrong result %+v", f)
				}
				r.Close()
			}
		})
	}
	for ; going(); collections.Add(1) {
		if _, err := d.GC(ctx, store.GCOptions{MaxBytes: 1000, Grace: time.Minute}); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if p, err := d.Verify(ctx, false); err != nil || len(p) > 0 {
		t.Errorf("Verify: %v %v", p, err)
	}
}

func TestVerify(t *testing.T) {
	dir := newDir(t)
	d := store.OpenDisk(dir)
	for _, k := range "abcd" {
		mustPut(t, d, Key(string(k)), Result("log "+string(k)))
	}
	if p, err := d.Verify(ctx, true); err != nil || len(p) > 0 {
		t.Fatalf("undamaged: %v %v", p, err)
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(casPath(dir, Hash("log a")), []byte("log x"), 0o666))
	must(os.Remove(casPath(dir, Hash("log b"))))
	must(os.Truncate(acPath(dir, Key("c")), 10))
	must(os.WriteFile(filepath.Join(dir, "cas", "README"), nil, 0o666))
	for _, remove := range []bool{false, true} {
		problems, err := d.Verify(ctx, remove)
		must(err)
		got := map[string]error{}
		for _, p := range problems {
			if p.Removed != remove {
				t.Errorf("%+v: Removed, want %v", p, remove)
			}
			rel, _ := filepath.Rel(dir, p.Path)
			for _, e := range []error{store.ErrCorrupt, store.ErrIncomplete} {
				if errors.Is(p.Err, e) {
					got[rel] = e
				}
			}
		}
		rel := func(p string) string { r, _ := filepath.Rel(dir, p); return r }
		want := map[string]error{
			rel(casPath(dir, Hash("log a"))): store.ErrCorrupt,
			rel(acPath(dir, Key("b"))):       store.ErrIncomplete,
			rel(acPath(dir, Key("c"))):       store.ErrCorrupt,
			"cas/README":                     store.ErrCorrupt,
		}
		if remove {
			want[rel(acPath(dir, Key("a")))] = store.ErrIncomplete
		}
		for p, e := range want {
			if got[p] != e {
				t.Errorf("remove=%v: %s: %v, want %v", remove, p, got[p], e)
			}
		}
		if len(got) != len(want) {
			t.Errorf("remove=%v: %v, want %v", remove, got, want)
		}
	}
	if p, err := d.Verify(ctx, false); err != nil || len(p) > 0 {
		t.Errorf("after removal: %v %v", p, err)
	}
	if got := have(t, d, "abcd"); got != "d" {
		t.Errorf("left %q, want d", got)
	}
}

func TestDefaultDir(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/tasting"},
		{map[string]string{"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/tasting"},
		{map[string]string{"HOME": "/h"}, "/h/.cache/tasting"},
	} {
		got, err := store.DefaultDir(func(k string) string { return c.env[k] })
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%v: %q, %v, want %q", c.env, got, err, c.want)
		}
	}
	// Bazel's HOME for tests is not a place that outlives the test.
	got, err := store.DefaultDir(func(k string) string {
		return map[string]string{"HOME": "/tmp/t", "TEST_TMPDIR": "/tmp/t"}[k]
	})
	if err == nil && (strings.HasPrefix(got, "/tmp/t") || !filepath.IsAbs(got)) {
		t.Errorf("HOME = TEST_TMPDIR: %q", got)
	}
}
