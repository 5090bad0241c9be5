package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store/servertest"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// bigContent is moved by ByteStream, and compresses well.
var bigContent = strings.Repeat("0123456789abcdef", 3<<16)

// raw is a gRPC message that isn't understood; the codec also knows ordinary
// ones.
type raw []byte

type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error) {
	if m, ok := v.(proto.Message); ok {
		return proto.Marshal(m)
	}
	return *v.(*raw), nil
}

func (rawCodec) Unmarshal(b []byte, v any) error {
	if m, ok := v.(proto.Message); ok {
		return proto.Unmarshal(b, m)
	}
	*v.(*raw) = slices.Clone(b)
	return nil
}

// hooks is what a gRPC proxy does to what it passes on.
type hooks struct {
	// before may refuse a call.
	before func(method string, md metadata.MD) error
	// answer may change or refuse the n-th message of an answer.
	answer func(method string, n int, m raw) (raw, error)
	// services adds what the proxy does itself.
	services func(*grpc.Server)
}

// grpcProxy passes all calls on to the server at addr. It returns its own
// address.
func grpcProxy(t testing.TB, addr string, h hooks, options ...grpc.ServerOption) string {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}), grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	handle := func(_ any, in grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(in)
		method = method[strings.LastIndex(method, "/")+1:]
		md, _ := metadata.FromIncomingContext(in.Context())
		if h.before != nil {
			if err := h.before(method, md); err != nil {
				return err
			}
		}
		full, _ := grpc.MethodFromServerStream(in)
		ctx, cancel := context.WithCancel(in.Context())
		defer cancel()
		out, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, full)
		if err != nil {
			return err
		}
		go func() {
			for {
				m := new(raw)
				if err := in.RecvMsg(m); err != nil {
					if errors.Is(err, io.EOF) {
						out.CloseSend()
					} else {
						cancel()
					}
					return
				}
				if out.SendMsg(m) != nil {
					return
				}
			}
		}()
		for n := 0; ; n++ {
			m := new(raw)
			if err := out.RecvMsg(m); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if h.answer != nil {
				changed, err := h.answer(method, n, *m)
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				*m = changed
			}
			if err := in.SendMsg(m); err != nil {
				return err
			}
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(append(options, grpc.UnknownServiceHandler(handle), grpc.ForceServerCodec(rawCodec{}), grpc.MaxRecvMsgSize(64<<20))...)
	if h.services != nil {
		h.services(s)
	}
	t.Cleanup(s.Stop)
	go s.Serve(l)
	return l.Addr().String()
}

// retries is a pointer to n.
func retries(n int) *int { return &n }

// A miss, an error or the right result: nothing else, whatever a gRPC server
// says, and within bounds.
func TestGRPCFaults(t *testing.T) {
	casd := servertest.CASD(t)
	direct := open(t, "grpc://"+casd.Addr, store.Options{})
	result := Result("the log", "test.xml", "<xml/>", "big", bigContent)
	want := Flatten(t, result)
	if err := direct.Put(ctx, Key("a"), result); err != nil {
		t.Fatal(err)
	}
	always := func(e error) func(string, int) error { return func(string, int) error { return e } }
	flip := func(m raw) raw {
		c := append(raw(nil), m...)
		c[len(c)*2/3] ^= 1
		return c
	}
	for _, c := range []struct {
		name   string
		method string
		before func(method string, n int) error
		answer func(n int, m raw) (raw, error)
		want   error // nil: the result; errAny: any error that is no miss
		calls  int   // of the method, 0: any number
	}{
		{"unavailable twice", "GetActionResult", func(_ string, n int) error {
			if n < 2 {
				return status.Error(codes.Unavailable, "restarting")
			}
			return nil
		}, nil, nil, 3},
		{"unavailable", "GetActionResult", always(status.Error(codes.Unavailable, "gone")), nil, errAny, 4},
		{"exhausted", "BatchReadBlobs", always(status.Error(codes.ResourceExhausted, "busy")), nil, errAny, 4},
		{"denied", "GetActionResult", always(status.Error(codes.PermissionDenied, "no")), nil, errAny, 1},
		{"unauthenticated", "GetActionResult", always(status.Error(codes.Unauthenticated, "who?")), nil, errAny, 1},
		{"unimplemented", "GetActionResult", always(status.Error(codes.Unimplemented, "no")), nil, errAny, 1},
		{"not found", "GetActionResult", always(status.Error(codes.NotFound, "no")), nil, store.ErrNotFound, 1},
		{"lost data", "GetActionResult", always(status.Error(codes.DataLoss, "no")), nil, store.ErrCorrupt, 1},
		{"no capabilities", "GetCapabilities", always(status.Error(codes.Unimplemented, "no")), nil, nil, 1},
		{"no such instance", "GetCapabilities", always(status.Error(codes.NotFound, "no")), nil, errAny, 1},
		{"content gone", "Read", always(status.Error(codes.NotFound, "no")), nil, store.ErrIncomplete, 1},
		{"contents gone", "BatchReadBlobs", always(status.Error(codes.NotFound, "no")), nil, store.ErrIncomplete, 1},
		{"garbage entry", "GetActionResult", nil, func(int, raw) (raw, error) { return raw("<html>"), nil }, errAny, 0},
		{"empty entry", "GetActionResult", nil, func(int, raw) (raw, error) { return raw{}, nil }, store.ErrCorrupt, 1},
		{"partial entry", "GetActionResult", nil, func(_ int, m raw) (raw, error) {
			e := new(repb.ActionResult)
			if err := proto.Unmarshal(m, e); err != nil {
				return nil, err
			}
			e.OutputFiles = e.OutputFiles[:1]
			return proto.Marshal(e)
		}, store.ErrCorrupt, 1},
		{"another exit code", "GetActionResult", nil, func(_ int, m raw) (raw, error) {
			return append(append(raw(nil), m...), 0x20, 1), nil
		}, store.ErrCorrupt, 1},
		{"wrong content", "BatchReadBlobs", nil, func(_ int, m raw) (raw, error) {
			return raw(strings.Replace(string(m), "the log", "the lug", 1)), nil
		}, store.ErrCorrupt, 1},
		{"empty batch", "BatchReadBlobs", nil, func(int, raw) (raw, error) { return raw{}, nil }, errAny, 0},
		{"other digests", "BatchReadBlobs", nil, func(_ int, m raw) (raw, error) {
			return raw(strings.ReplaceAll(string(m), Hash("the log"), Hash("x"))), nil
		}, errAny, 1},
		{"wrong stream", "Read", nil, func(n int, m raw) (raw, error) { return flip(m), nil }, store.ErrCorrupt, 1},
		{"short stream", "Read", nil, func(n int, m raw) (raw, error) {
			if n == 1 {
				return nil, io.EOF
			}
			return m, nil
		}, store.ErrCorrupt, 1},
		{"endless stream", "Read", nil, func(n int, m raw) (raw, error) {
			return proto.Marshal(&bytestream.ReadResponse{Data: []byte(bigContent)})
		}, store.ErrCorrupt, 0},
		{"dies in the stream", "Read", nil, func(n int, m raw) (raw, error) {
			if n == 1 {
				return nil, status.Error(codes.Unavailable, "died")
			}
			return m, nil
		}, errAny, 4},
		{"never answers", "GetActionResult", func(string, int) error { time.Sleep(3 * time.Second); return status.Error(codes.Aborted, "") }, nil, errAny, 1},
		{"stalls in the stream", "Read", nil, func(n int, m raw) (raw, error) {
			if n == 1 {
				time.Sleep(8 * time.Second)
			}
			return m, nil
		}, errAny, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			addr := grpcProxy(t, casd.Addr, hooks{
				before: func(method string, _ metadata.MD) error {
					if method != c.method {
						return nil
					}
					n := int(calls.Add(1)) - 1
					if c.before != nil {
						return c.before(method, n)
					}
					return nil
				},
				answer: func(method string, n int, m raw) (raw, error) {
					if method != c.method || c.answer == nil {
						return m, nil
					}
					return c.answer(n, m)
				},
			})
			s := open(t, "grpc://"+addr, patient(c.name == "never answers" || c.name == "stalls in the stream"))
			r, err := s.Get(ctx, Key("a"))
			if err == nil {
				defer r.Close()
				if d := cmp.Diff(want, Flatten(t, r)); d != "" {
					t.Fatalf("wrong result:\n%s", d)
				}
			}
			checkError(t, err, c.want)
			if n := int(calls.Load()); n == 0 || c.calls > 0 && n != c.calls {
				t.Errorf("%d calls of %s, want %d", n, c.method, c.calls)
			}
		})
	}
}

// errAny stands for any error that is no miss.
var errAny = errors.New("any")

func checkError(t testing.TB, err, want error) {
	t.Helper()
	switch {
	case want == nil && err != nil, want == errAny && (err == nil || store.IsMiss(err)),
		want != nil && want != errAny && !errors.Is(err, want):
		t.Errorf("error %v, want %v", err, want)
	}
}

// The same for HTTP.
func TestHTTPFaults(t *testing.T) {
	nginx := servertest.Nginx(t, "", "")
	direct := open(t, "http://"+nginx.Addr, store.Options{})
	result := Result("the log", "test.xml", "<xml/>", "big", bigContent)
	want := Flatten(t, result)
	if err := direct.Put(ctx, Key("a"), result); err != nil {
		t.Fatal(err)
	}
	answer := func(code int) func(http.ResponseWriter, *http.Request, int) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ int) bool { w.WriteHeader(code); return true }
	}
	hijack := func(f func(c net.Conn)) func(http.ResponseWriter, *http.Request, int) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				f(c)
				c.Close()
			}
			return true
		}
	}
	body := func(data string) func(http.ResponseWriter, *http.Request, int) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ int) bool { io.WriteString(w, data); return true }
	}
	big := Hash(bigContent)
	for _, c := range []struct {
		name  string
		path  string
		fault func(w http.ResponseWriter, r *http.Request, n int) bool
		want  error
		calls int
	}{
		{"unavailable twice", "/ac/", func(w http.ResponseWriter, _ *http.Request, n int) bool {
			if n < 2 {
				w.WriteHeader(503)
			}
			return n < 2
		}, nil, 3},
		{"unavailable", "/ac/", answer(503), errAny, 4},
		{"internal error", "/ac/", answer(500), errAny, 4},
		{"denied", "/ac/", answer(403), errAny, 1},
		{"unauthorized", "/ac/", answer(401), errAny, 1},
		{"redirect", "/ac/", func(w http.ResponseWriter, r *http.Request, _ int) bool {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
			return true
		}, errAny, 1},
		{"gone", "/ac/", answer(410), store.ErrNotFound, 1},
		{"content gone", "/cas/" + big, answer(404), store.ErrIncomplete, 1},
		{"login page", "/ac/", body("<html>log in</html>"), errAny, 1},
		{"not an entry", "/ac/", body(`{"error": "not found"}`), store.ErrCorrupt, 1},
		{"login page for content", "/cas/" + big, body("<html>log in</html>"), store.ErrCorrupt, 1},
		{"empty", "/ac/", answer(200), store.ErrCorrupt, 1},
		{"empty content", "/cas/" + big, answer(200), store.ErrCorrupt, 1},
		{"no content", "/cas/" + big, answer(204), store.ErrCorrupt, 1},
		{"part of the content", "/cas/" + big, body(bigContent[:100000]), store.ErrCorrupt, 1},
		{"wrong content", "/cas/" + big, body("x" + bigContent[1:]), store.ErrCorrupt, 1},
		{"endless content", "/cas/" + big, func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			for {
				if _, err := io.WriteString(w, bigContent); err != nil {
					return true
				}
			}
		}, store.ErrCorrupt, 1},
		{"endless entry", "/ac/", func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			for {
				if _, err := io.WriteString(w, bigContent); err != nil {
					return true
				}
			}
		}, store.ErrCorrupt, 1},
		{"dies at once", "/ac/", hijack(func(net.Conn) {}), errAny, 0},
		{"not HTTP", "/ac/", hijack(func(c net.Conn) { io.WriteString(c, "220 mail.example ESMTP\r\n") }), errAny, 4},
		{"dies in the content", "/cas/" + big, hijack(func(c net.Conn) {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(bigContent), bigContent[:100000])
		}), errAny, 4},
		{"endless headers", "/ac/", hijack(func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := io.WriteString(c, "X: "+strings.Repeat("y", 1000)+"\r\n"); err != nil {
					return
				}
			}
		}), errAny, 0},
		{"never answers", "/ac/", hijack(func(net.Conn) { time.Sleep(3 * time.Second) }), errAny, 1},
		{"a byte now and then", "/ac/", hijack(func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
			for range 30 {
				c.Write([]byte("x"))
				time.Sleep(100 * time.Millisecond)
			}
		}), errAny, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, c.path) && c.fault(w, r, int(calls.Add(1))-1) {
					return
				}
				resp, err := http.Get("http://" + nginx.Addr + r.URL.Path)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				w.WriteHeader(resp.StatusCode)
				io.Copy(w, resp.Body)
			}))
			t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
			s := open(t, server.URL, patient(c.name == "never answers" || c.name == "a byte now and then"))
			r, err := s.Get(ctx, Key("a"))
			if err == nil {
				defer r.Close()
				if d := cmp.Diff(want, Flatten(t, r)); d != "" {
					t.Fatalf("wrong result:\n%s", d)
				}
			}
			checkError(t, err, c.want)
			if n := int(calls.Load()); n == 0 || c.calls > 0 && n != c.calls {
				t.Errorf("%d requests, want %d", n, c.calls)
			}
		})
	}
}

// patient are the options for a server that hangs, or for one that doesn't, on a machine however slow.
func patient(hangs bool) store.Options {
	if hangs {
		return store.Options{Timeout: time.Second}
	}
	return store.Options{Timeout: 5 * time.Minute}
}

// badLine is a TCP proxy that does to connections what networks do: it cuts
// them, stalls, and if flip is set changes bytes of what the server says.
type badLine struct {
	addr string
	flip atomic.Bool
	cuts atomic.Int32
}

func newBadLine(t testing.TB, to string) *badLine {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &badLine{addr: l.Addr().String()}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			go b.pass(in, out, false)
			go b.pass(out, in, true)
		}
	}()
	return b
}

func (b *badLine) pass(from, to net.Conn, fromServer bool) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		switch p := rand.IntN(1000); {
		case p < 15:
			b.cuts.Add(1)
			to.Write(buf[:rand.IntN(n+1)])
			return
		case p < 20:
			b.cuts.Add(1)
			time.Sleep(700 * time.Millisecond)
		case p < 60 && fromServer && b.flip.Load():
			b.cuts.Add(1)
			buf[rand.IntN(n)] ^= 1 << rand.IntN(8)
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// Over a bad line, whoever is told that a result was recorded finds it, and
// nobody ever gets another one.
func TestBadLine(t *testing.T) {
	nginx, casd := servertest.Nginx(t, "", ""), servertest.CASD(t)
	for _, c := range []struct{ scheme, addr string }{{"http", nginx.Addr}, {"grpc", casd.Addr}} {
		t.Run(c.scheme, func(t *testing.T) {
			line := newBadLine(t, c.addr)
			s := open(t, c.scheme+"://"+line.addr, store.Options{Timeout: 10 * time.Second}) // a stall isn't yet a reason to give it up
			const n = 150
			result := func(i int) *store.Result {
				return Result(fmt.Sprint("log ", i), "test.xml", strings.Repeat(fmt.Sprint(i, " "), 3000))
			}
			recorded := make([]bool, n)
			all := func(f func(i int)) {
				var wg sync.WaitGroup
				next := make(chan int)
				for range 16 {
					wg.Go(func() {
						for i := range next {
							f(i)
						}
					})
				}
				for i := range n {
					next <- i
				}
				close(next)
				wg.Wait()
			}
			key := func(i int) store.Key { return Key(fmt.Sprint(c.scheme, i)) }
			read := func(s store.Store, i int) error {
				r, err := s.Get(ctx, key(i))
				if err != nil {
					return err
				}
				defer r.Close()
				if d := cmp.Diff(Flatten(t, result(i)), Flatten(t, r)); d != "" {
					t.Errorf("wrong result:\n%s", d)
				}
				return nil
			}
			all(func(i int) {
				err := s.Put(ctx, key(i), result(i))
				recorded[i] = err == nil || errors.Is(err, store.ErrExists)
			})
			line.flip.Store(true)
			all(func(i int) { read(s, i) })
			direct := open(t, c.scheme+"://"+c.addr, store.Options{})
			kept := 0
			all(func(i int) {
				if err := read(direct, i); err != nil && (recorded[i] || !store.IsMiss(err)) {
					t.Errorf("result %d, recorded %v: %v", i, recorded[i], err)
				}
			})
			for _, r := range recorded {
				if r {
					kept++
				}
			}
			t.Logf("%d of %d recorded, %d faults", kept, n, line.cuts.Load())
			if kept == 0 || line.cuts.Load() == 0 {
				t.Error("nothing was tested")
			}
		})
	}
}

// A writer is killed before and after each of its calls. A reader then sees
// nothing or everything, and the next writer succeeds.
func TestKilledRemoteWriter(t *testing.T) {
	for name, start := range map[string]func(t testing.TB) string{
		"nginx": func(t testing.TB) string { return "http://" + servertest.Nginx(t, "", "").Addr },
		"casd":  func(t testing.TB) string { return "grpc://" + servertest.CASD(t).Addr },
	} {
		t.Run(name, func(t *testing.T) {
			want := Flatten(t, Result("the log", "test.xml", "<xml/>", "big", bigContent))
			for step := 0; ; step++ {
				if step > 60 {
					t.Fatal("the writer doesn't come to an end")
				}
				location := start(t)
				err := child(t, "remote writer", location, fmt.Sprint(step)).Run()
				var exit *exec.ExitError
				killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled()
				if err != nil && !killed {
					t.Fatal(err)
				}
				s := open(t, location, store.Options{})
				check := func() error {
					r, err := s.Get(ctx, Key("a"))
					if err != nil {
						return err
					}
					defer r.Close()
					if d := cmp.Diff(want, Flatten(t, r)); d != "" {
						t.Fatalf("step %d: %s", step, d)
					}
					return nil
				}
				if err := check(); err != nil && (!killed || !errors.Is(err, store.ErrNotFound)) {
					t.Fatalf("step %d: %v, want a result or ErrNotFound", step, err)
				}
				if !killed {
					if step < 8 {
						t.Errorf("only %d steps: were they all seen?", step)
					}
					return
				}
				err = s.Put(ctx, Key("a"), Result("the log", "test.xml", "<xml/>", "big", bigContent))
				if err != nil && !errors.Is(err, store.ErrExists) {
					t.Fatalf("step %d: %v", step, err)
				}
				if err := check(); err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
			}
		})
	}
}

// A server whose disk is full: an error, no result, and no harm to others.
func TestServerWithFullDisk(t *testing.T) {
	program := servertest.Tool(t, "nginx")
	addr, err := servertest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	conf := filepath.Join(t.TempDir(), "nginx.conf")
	if err := os.WriteFile(conf, []byte(servertest.NginxConfig(addr, dir, "", "")), 0o666); err != nil {
		t.Fatal(err)
	}
	c := child(t, "nginx", program, dir, conf)
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	server, err := servertest.Start(addr, dir, c)
	if errors.Is(err, syscall.EPERM) {
		t.Skipf("no user namespaces here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	s := open(t, "http://"+addr, store.Options{})
	put := func(name, content string) error {
		return s.Put(ctx, Key(name), Result("log "+name, "f", content))
	}
	if err := put("small", "x"); err != nil {
		t.Fatal(err)
	}
	if err := put("big", bigContent); err == nil || errors.Is(err, store.ErrExists) {
		t.Errorf("Put of more than there is room for: %v", err)
	}
	if _, err := s.Get(ctx, Key("big")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get: %v, want ErrNotFound", err)
	}
	for _, name := range []string{"small", "another"} {
		err := put(name, "x")
		for end := time.Now().Add(time.Minute); err != nil && !errors.Is(err, store.ErrExists); err = put(name, "x") {
			if time.Now().After(end) { // the server still has what there was no room for
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		r, err := s.Get(ctx, Key(name))
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
}

// Thousands of readers and writers at once.
func TestThousands(t *testing.T) {
	for name, location := range map[string]string{
		"disk":  newDir(t),
		"nginx": "http://" + servertest.Nginx(t, "", "").Addr,
		"casd":  "grpc://" + servertest.CASD(t).Addr,
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, location, store.Options{Timeout: time.Minute})
			const keys, each = 250, 4
			result := func(i int) *store.Result {
				return Result(fmt.Sprint("log ", i), "test.xml", "shared by all")
			}
			var wg sync.WaitGroup
			for i := range keys {
				wg.Go(func() {
					if err := s.Put(ctx, Key(fmt.Sprint(i)), result(i)); err != nil {
						t.Errorf("Put %d: %v", i, err)
					}
				})
				for range each {
					wg.Go(func() {
						r, err := s.Get(ctx, Key(fmt.Sprint(i)))
						if errors.Is(err, store.ErrNotFound) {
							return
						}
						if err != nil {
							t.Errorf("Get %d: %v", i, err)
							return
						}
						defer r.Close()
						if d := cmp.Diff(Flatten(t, result(i)), Flatten(t, r)); d != "" {
							t.Errorf("wrong result:\n%s", d)
						}
					})
				}
			}
			wg.Wait()
			var all []store.Key
			for i := range keys {
				all = append(all, Key(fmt.Sprint(i)))
			}
			for i, o := range store.Lookup(ctx, s, all, nil) {
				if o.Err != nil {
					t.Errorf("lost %d: %v", i, o.Err)
				}
			}
		})
	}
}
