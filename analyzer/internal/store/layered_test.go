package store_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store/servertest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// silent accepts connections and says nothing. It returns its address, and how many there were.
func silent(t testing.TB) (addr string, connections func() int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var n atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			t.Cleanup(func() { c.Close() })
		}
	}()
	return l.Addr().String(), func() int { return int(n.Load()) }
}

// answering is an HTTP server that knows no results and does this with what is put, and hangs if
// it is nil.
func answering(t testing.TB, get, put http.HandlerFunc) string {
	t.Helper()
	done := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := get
		if r.Method == http.MethodPut {
			f = put
		}
		if f == nil {
			<-done
			return
		}
		f(w, r)
	}))
	t.Cleanup(func() { close(done); s.CloseClientConnections(); s.Close() })
	return s.URL
}

func says(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); io.WriteString(w, body) }
}

// badStores are locations that don't work, with a part of the reason that is to be told of one who records.
func badStores(t testing.TB) map[string]struct{ location, why string } {
	t.Helper()
	gone, err := servertest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	hanging, _ := silent(t)
	full := grpcProxy(t, servertest.CASD(t).Addr, hooks{before: func(method string, _ metadata.MD) error {
		if method == "BatchUpdateBlobs" || method == "UpdateActionResult" {
			return status.Error(codes.ResourceExhausted, "no room left")
		}
		return nil
	}})
	const page = "<!DOCTYPE html><title>Welcome</title>"
	return map[string]struct{ location, why string }{
		"no such port":          {"http://" + gone, "connection refused"},
		"no such port gRPC":     {"grpc://" + gone, "connection refused"},
		"no such host":          {"http://host.invalid", "host.invalid"},
		"hangs":                 {"http://" + hanging, "no answer within"},
		"hangs gRPC":            {"grpc://" + hanging, "no answer within"},
		"hangs TLS":             {"https://" + hanging, "no answer within"},
		"hangs gRPC and TLS":    {"grpcs://" + hanging, "no answer within"},
		"hangs writing":         {answering(t, says(404, ""), nil), "no answer within"},
		"rejects":               {answering(t, says(403, ""), says(403, "")), "403"},
		"rejects writing":       {answering(t, says(404, ""), says(403, "")), "403"},
		"out of order":          {answering(t, says(503, ""), says(503, "")), "503"},
		"full":                  {answering(t, says(404, ""), says(507, "")), "507 Insufficient Storage"},
		"full gRPC":             {"grpc://" + full, "no room left"},
		"a web page":            {answering(t, says(200, page), says(200, page)), "the answer is a web page"},
		"a web page writing":    {answering(t, says(404, ""), says(200, page)), "the answer is a web page"},
		"not a cache":           {answering(t, says(200, "{}"), says(200, "{}")), "damaged"},
		"no directory":          {file, "not a directory"},
		"not to be written":     {"/proc/tasting", "/proc/tasting"},
		"takes it and has none": {answering(t, says(404, ""), says(200, "")), "doesn't give back"},
	}
}

// A list of stores is as good as its best member, wherever that is in the list.
func TestListWithBadStore(t *testing.T) {
	for name, bad := range badStores(t) {
		for _, last := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " last ", last), func(t *testing.T) {
				t.Parallel()
				dir := newDir(t)
				location := bad.location + "," + dir
				if last {
					location = dir + "," + bad.location
				}
				var o store.Options
				if strings.HasPrefix(name, "hangs") {
					o.Timeout = time.Second
				}
				s := open(t, location, o)
				good := store.OpenDisk(dir)
				mustPut(t, good, Key("there"), Result("log"))

				// More keys that nobody has than after which a store is given up.
				keys := make([]store.Key, 100)
				for i := range keys {
					keys[i] = Key(fmt.Sprint(i))
				}
				keys[99] = Key("there")
				outcomes := store.Lookup(ctx, s, keys, nil)
				if outcomes[99].Err != nil || outcomes[0].Err == nil {
					t.Errorf("look-up: %+v", outcomes[99])
				}

				err := store.RecordPass(ctx, s, keys[0], Result("passed"))
				if !errors.Is(err, store.ErrPartly) || !strings.Contains(err.Error(), bad.why) || !strings.Contains(err.Error(), bad.location) {
					t.Errorf("RecordPass: %v", err)
				}
				for _, s := range []store.Store{s, good} {
					r, err := s.Get(ctx, keys[0])
					if err != nil {
						t.Fatalf("not recorded: %v", err)
					}
					if f := Flatten(t, r); f.Log != "passed" {
						t.Errorf("%+v", f)
					}
					r.Close()
				}
				if err := store.RecordPass(ctx, s, keys[0], Result("again")); !store.IsRecorded(err) {
					t.Errorf("RecordPass again: %v", err)
				}
				if err := store.Noted(ctx, s, keys[0]); err != nil {
					t.Errorf("Noted: %v", err)
				}

				// A failure is noted, withdraws, and counts.
				failed := Result("failed")
				failed.ExitCode = 1
				_ = store.RecordFailure(ctx, s, keys[0], failed)
				_ = store.RecordFailure(ctx, s, keys[1], failed)
				var flaky *store.FlakyError
				for _, k := range keys[:2] {
					if err := store.RecordPass(ctx, s, k, Result("passed")); !errors.As(err, &flaky) {
						t.Errorf("RecordPass after a failure: %v", err)
					}
					if err := store.Noted(ctx, s, k); !errors.As(err, &flaky) {
						t.Errorf("Noted: %v", err)
					}
				}
				if r, err := s.Get(ctx, keys[0]); err != nil || r.ExitCode == 0 {
					t.Errorf("not withdrawn: %+v, %v", r, err)
				}
				// As an audit withdraws.
				if err := s.Set(ctx, Key("there"), failed); err != nil && !errors.Is(err, store.ErrPartly) {
					t.Errorf("Set: %v", err)
				}
				if r, err := good.Get(ctx, Key("there")); err != nil || r.ExitCode == 0 {
					t.Errorf("not withdrawn: %+v, %v", r, err)
				}
				bad := 0
				for _, h := range store.Ping(ctx, s) {
					if !h.OK() {
						bad++
					}
				}
				if bad != 1 {
					t.Errorf("Ping: %d stores that don't work", bad)
				}
			})
		}
	}
}

// A failure that any store of a list has noted keeps a pass from all of them. Of which that can't be told doesn't get one.
func TestFailureInList(t *testing.T) {
	key := Key("k")
	failed := Result("failed")
	failed.ExitCode = 1
	has := func(dir string) bool {
		r, err := store.OpenDisk(dir).Get(ctx, key)
		if err != nil {
			return false
		}
		defer r.Close()
		return r.ExitCode == 0
	}
	for _, noted := range []int{0, 1, 2} {
		dirs := []string{newDir(t), newDir(t), newDir(t)}
		s := open(t, strings.Join(dirs, ","), store.Options{})
		if err := store.RecordFailure(ctx, store.OpenDisk(dirs[noted]), key, failed); err != nil {
			t.Fatal(err)
		}
		var flaky *store.FlakyError
		if err := store.RecordPass(ctx, s, key, Result("passed")); !errors.As(err, &flaky) {
			t.Errorf("noted in %d: %v", noted, err)
		}
		for i, dir := range dirs {
			if has(dir) {
				t.Errorf("noted in %d, recorded in %d", noted, i)
			}
		}
	}

	// A note that is there and can't be read.
	dirs := []string{newDir(t), newDir(t)}
	s := open(t, strings.Join(dirs, ","), store.Options{})
	if err := store.RecordFailure(ctx, store.OpenDisk(dirs[0]), key, failed); err != nil {
		t.Fatal(err)
	}
	for _, f := range files(t, filepath.Join(dirs[0], "ac")) {
		if err := os.Truncate(filepath.Join(dirs[0], "ac", f), 3); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.RecordPass(ctx, s, key, Result("passed")); !errors.Is(err, store.ErrPartly) || has(dirs[0]) || !has(dirs[1]) {
		t.Errorf("%v, recorded: %v and %v", err, has(dirs[0]), has(dirs[1]))
	}
}

// A pass that a store further away has isn't replayed, nor copied, if a nearer one has noted a failure.
func TestNearFailureFarPass(t *testing.T) {
	near, far := newDir(t), newDir(t)
	key := Key("k")
	failed := Result("failed")
	failed.ExitCode = 1
	if err := store.RecordFailure(ctx, store.OpenDisk(near), key, failed); err != nil {
		t.Fatal(err)
	}
	mustPut(t, store.OpenDisk(far), key, Result("passed"))
	for _, m := range []store.Mode{store.ReadWrite, store.ReadOnly} {
		s := open(t, near+","+far, store.Options{Mode: m})
		r, err := s.Get(ctx, key)
		if err != nil || r.ExitCode == 0 {
			t.Errorf("%s: Get: %+v, %v", m, r, err)
		}
		if o := store.Lookup(ctx, s, []store.Key{key}, nil)[0]; o.Err != nil || o.Info.ExitCode == 0 {
			t.Errorf("%s: look-up: %+v", m, o)
		}
		if _, err := store.OpenDisk(near).Get(ctx, key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: copied: %v", m, err)
		}
	}
}

// A failure that another machine notes while a pass is being recorded withdraws it everywhere.
func TestFailureMeanwhileInList(t *testing.T) {
	dirs := []string{newDir(t), newDir(t)}
	s := open(t, strings.Join(dirs, ","), store.Options{})
	key := Key("k")
	failed := Result("failed")
	failed.ExitCode = 1
	store.SetStep(store.Each(s)[1], func(step string) {
		if step != "write ac" {
			return
		}
		if err := store.RecordFailure(ctx, store.OpenDisk(dirs[1]), key, failed); err != nil {
			t.Error(err)
		}
		store.SetStep(store.Each(s)[1], func(string) {})
	})
	var flaky *store.FlakyError
	if err := store.RecordPass(ctx, s, key, Result("passed")); !errors.As(err, &flaky) {
		t.Errorf("%v, want that the test is flaky", err)
	}
	for _, dir := range dirs {
		if r, err := store.OpenDisk(dir).Get(ctx, key); err != nil || r.ExitCode == 0 {
			t.Errorf("%s: %+v, %v; want that it is withdrawn", dir, r, err)
		}
	}
}

// A server that takes no results from here isn't missed by who has another store.
func TestListWithServerThatOnlyReads(t *testing.T) {
	addr := grpcProxy(t, servertest.CASD(t).Addr, hooks{answer: func(method string, _ int, m raw) (raw, error) {
		if method != "GetCapabilities" {
			return m, nil
		}
		c := new(repb.ServerCapabilities)
		if err := proto.Unmarshal(m, c); err != nil {
			return nil, err
		}
		c.CacheCapabilities.ActionCacheUpdateCapabilities = &repb.ActionCacheUpdateCapabilities{}
		return proto.Marshal(c)
	}})
	s := open(t, newDir(t)+",grpc://"+addr, store.Options{})
	if err := store.RecordPass(ctx, s, Key("a"), Result("passed")); err != nil {
		t.Error(err)
	}
}

// However often a server is asked that doesn't answer, it is waited for once.
func TestSilentServer(t *testing.T) {
	for _, scheme := range []string{"http", "https", "grpc", "grpcs"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			addr, connections := silent(t)
			s := open(t, scheme+"://"+addr, store.Options{Timeout: time.Second})
			keys := make([]store.Key, 500)
			for i := range keys {
				keys[i] = Key(fmt.Sprint(i))
			}
			failed := Result("failed")
			failed.ExitCode = 1
			outcomes := store.Lookup(ctx, s, keys, nil)
			before := connections()
			err := outcomes[0].Err
			for _, again := range []error{
				outcomes[499].Err,
				store.RecordPass(ctx, s, keys[0], Result("passed", "f", bigContent)),
				store.RecordFailure(ctx, s, keys[0], failed),
				s.Set(ctx, keys[0], failed),
				store.Ping(ctx, s)[0].ReadErr,
			} {
				if again == nil || !strings.Contains(again.Error(), err.Error()) || !strings.Contains(err.Error(), scheme+"://"+addr+": no answer within 1s") {
					t.Errorf("%v, want as the first time: %v", again, err)
				}
			}
			if n := connections(); n > before {
				t.Errorf("%d connections, then %d", before, n)
			}
		})
	}
}

// A server that takes everything and has nothing of it doesn't cost more than one that hangs.
func TestServerThatForgets(t *testing.T) {
	var requests atomic.Int32
	s := open(t, answering(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(404)
	}, says(200, "")), store.Options{Timeout: 5 * time.Second})
	for i := range 20 {
		if err := store.RecordPass(ctx, s, Key(fmt.Sprint(i)), Result("passed")); err == nil || !strings.Contains(err.Error(), "doesn't give back") {
			t.Errorf("%v", err)
		}
	}
	if n := requests.Load(); n > 120 { // of 10 for each
		t.Errorf("%d requests", n)
	}
}

// A full disk keeps no pass from being withdrawn.
func TestWithdrawOnFullDisk(t *testing.T) {
	dir := newDir(t)
	d := store.OpenDisk(dir)
	key := Key("k")
	mustPut(t, d, key, Result("passed"))
	mustPut(t, d, Key("other"), Result("passed"))
	// Nothing more can be written.
	if err := errors.Join(os.Remove(filepath.Join(dir, "tmp")), os.WriteFile(filepath.Join(dir, "tmp"), nil, 0o666)); err != nil {
		t.Fatal(err)
	}
	failed := Result("failed")
	failed.ExitCode = 1
	_ = store.RecordFailure(ctx, d, key, failed)
	if r, err := d.Get(ctx, key); err == nil {
		t.Errorf("a pass is still there: %+v", r)
	}
	r, err := d.Get(ctx, Key("other"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff("passed", Flatten(t, r).Log); d != "" {
		t.Error(d)
	}
}
