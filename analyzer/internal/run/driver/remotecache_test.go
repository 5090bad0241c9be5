package driver

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hangingServer returns the address of a server that accepts connections and says nothing.
func hangingServer(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
		}
	}()
	return l.Addr().String()
}

// answeringServer returns the address of one that refuses everything: HTTP, HTTP/2 as gRPC uses it,
// and both with TLS.
func answeringServer(t *testing.T, withTLS bool) string {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	s.EnableHTTP2 = true
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetHTTP2(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	if withTLS {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestSilent(t *testing.T) {
	const nobody = "127.0.0.1:1"
	hanging, plain, encrypted := hangingServer(t), answeringServer(t, false), answeringServer(t, true)
	// gRPC's servers begin to speak before they are asked: this one does no more.
	calls := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	calls.Config.Protocols = new(http.Protocols)
	calls.Config.Protocols.SetUnencryptedHTTP2(true)
	calls.Start()
	t.Cleanup(calls.Close)
	for location, want := range map[string]string{
		"":                   "",
		"unix:/no/such/file": "",
		"dns:///a.invalid:1": "",
		"grpc://dns:///a:1":  "",
		"grpc://" + nobody:   "connection refused",
		"grpcs://" + nobody:  "connection refused",
		nobody:               "connection refused",
		"http://" + nobody:   "connection refused",
		"https://" + nobody:  "connection refused",
		"grpc://" + hanging:  "no answer",
		"grpcs://" + hanging: "no answer",
		"http://" + hanging:  "no answer",
		"https://" + hanging: "no answer",
		"grpc://" + calls.Listener.Addr().String(): "no answer",
		"grpc://" + plain:                          "",
		"http://" + plain + "/a/":                  "",
		"grpcs://" + encrypted:                     "",
		encrypted:                                  "",
		"https://user:word@" + encrypted:           "",
		"grpc://" + encrypted:                      "", // it answers, if not in the wanted way
	} {
		limit := time.Minute
		if want == "no answer" {
			limit = 100 * time.Millisecond
		}
		err := probeCache(t.Context(), location, limit)
		if got := fmt.Sprint(err); (err != nil) != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%q: %v, want %q", location, err, want)
		}
	}
}

// Which of Bazel's commands wait for a remote cache that is down.
func TestCacheDown(t *testing.T) {
	const down = "--remote_cache=grpc://127.0.0.1:1"
	const local = `, upload "local"` + "\n"
	for _, c := range []struct {
		name  string
		flags []string
		needs bool // another option needs the cache
		want  string
		said  string
	}{
		{"down", []string{down}, false, `expand: cache ""` + local + `analyse: cache ""` + local + `run: cache "grpc://127.0.0.1:1", upload ""` + "\n", "doesn't answer (connection refused): the tests are analysed without it"},
		{"well", []string{"--remote_cache=http://" + answeringServer(t, false)}, false, `expand: cache ""` + local + `analyse: cache "ADDRESS"` + local + `run: cache "ADDRESS", upload ""` + "\n", ""},
		{"needed", []string{down}, true, `expand: cache ""` + local + `expand: cache "grpc://127.0.0.1:1"` + local + `analyse: cache ""` + local + `run: cache "grpc://127.0.0.1:1", upload ""` + "\n", ""},
		{"downloader", []string{down, "--experimental_remote_downloader=grpc://127.0.0.1:1"}, true,
			`expand: cache ""` + local + `expand: cache "grpc://127.0.0.1:1"` + local + `analyse: cache "grpc://127.0.0.1:1"` + local + `run: cache "grpc://127.0.0.1:1", upload ""` + "\n", ""},
		{"user's strategy", []string{down, "--experimental_build_event_upload_strategy=mine"}, false,
			`expand: cache ""` + local + `analyse: cache ""` + local + `run: cache "grpc://127.0.0.1:1", upload "mine"` + "\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorkspace(t)
			w.NeedsCache = c.needs
			e := w.test(c.flags...)
			if e.err != nil || e.code != 0 || !strings.Contains(e.say, c.said) {
				t.Errorf("%+v", e)
			}
			b, _ := os.ReadFile(filepath.Join(w.dir, "caches"))
			address := strings.TrimPrefix(c.flags[0], "--remote_cache=")
			if got := string(b); got != strings.ReplaceAll(c.want, "ADDRESS", address) {
				t.Errorf("commands:\n%swant:\n%s", got, c.want)
			}
			if e := w.test(c.flags...); !e.replayed() {
				t.Errorf("%+v", e)
			}
		})
	}
}

// If what the user wants to read about the call can't be written, the tests are told of all the same.
func TestReportFails(t *testing.T) {
	w := newWorkspace(t)
	flag := "--bes_backend=" + filepath.Join(w.dir, "bes")
	if e := w.test(flag); e.err != nil || e.code != 0 {
		t.Fatalf("%+v", e)
	}
	w.Hooks = map[string]string{"nothing after": "exit 1"}
	if e := w.test(flag); e.err != nil || e.code == 0 || !e.replayed() {
		t.Errorf("%+v", e)
	}
}
