package runner_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/explain"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store/servertest"
)

// at has the runner use the store at location, with these flags in a file. Where time isn't what is tested, a busy
// machine has enough of it.
func (h *harness) at(location string, flags ...string) {
	h.t.Helper()
	if !strings.Contains(strings.Join(flags, "\n"), "--store_timeout") {
		flags = append(flags, "--store_timeout=1m")
	}
	file := filepath.Join(h.dir, "flags")
	if err := os.WriteFile(file, []byte(strings.Join(flags, "\n")), 0o600); err != nil {
		h.t.Fatal(err)
	}
	h.env = slices.DeleteFunc(slices.Clone(h.env), func(s string) bool { return strings.HasPrefix(s, "TASTING_STORE") })
	h.env = append(h.env, "TASTING_STORE_FLAGS="+file)
	if location != "" {
		h.env = append(h.env, "TASTING_STORE="+location)
	}
}

func TestRemoteStore(t *testing.T) {
	for name, location := range map[string]string{
		"nginx": "http://" + servertest.Nginx(t, "", "").Addr,
		"casd":  "grpc://" + servertest.CASD(t).Addr,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.at(location)
			if o := h.want("miss", h.run("out=x")); !strings.HasSuffix(o.said, "\nrecorded\n") {
				t.Errorf("said %q", o.said)
			}
			if o := h.want("hit", h.run("out=x")); o.log != "x\n" {
				t.Errorf("log %q", o.log)
			}
			// The location of the flags file, and a directory in front.
			h.at("", "# a comment", "", "--store="+h.store+","+location)
			h.want("hit", h.run("out=x"))
			h.at(h.store)
			h.want("hit", h.run("out=x"))
			if h.entries() != 1 {
				t.Error("the hit wasn't copied to the directory")
			}
		})
	}
}

// What is recorded under a key that a build has computed doesn't depend on
// where the store is: neither the variables nor the file are in the key, and
// the test sees none of them.
func TestStoreVariablesAreNotInTheKey(t *testing.T) {
	h := newHarness(t)
	h.want("miss", h.run("env=TASTING_STORE_FLAGS", "env=TASTING_STORE"))
	h.at(h.store, "--store_header=x=secret")
	if o := h.want("hit", h.run("env=TASTING_STORE_FLAGS", "env=TASTING_STORE")); o.log != "TASTING_STORE_FLAGS=\"\"\nTASTING_STORE=\"\"\n" {
		t.Errorf("log %q", o.log)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	const secret = "s3cr3tvalue"
	nginx := servertest.Nginx(t, "", `if ($http_x_token != "`+secret+`") { return 403; }`)
	h := newHarness(t)
	var said string
	run := func(verdict string) {
		t.Helper()
		o := h.want(verdict, h.run("out=x"))
		said += o.said + o.log
	}
	h.at("http://user:" + secret + "@" + nginx.Addr)
	run("miss")
	h.at("http://us:er:" + secret + "@:x/" + nginx.Addr)
	run("miss")
	h.at("http://"+nginx.Addr, "--store_header=X-Token="+secret)
	run("miss")
	run("hit")
	h.at("http://"+nginx.Addr, "--store_header="+secret)
	run("miss")
	h.at("http://"+nginx.Addr, "X-Token: "+secret)
	run("miss")
	h.at("http://"+nginx.Addr, "--store_header X-Token="+secret)
	run("miss")
	h.at("http://"+nginx.Addr, "--store_timeout="+secret)
	run("miss")
	if strings.Contains(said, secret) {
		t.Errorf("a secret is in the log:\n%s", said)
	}
	for _, want := range []string{"403", "line 1: want --flag=value", "number 1: want NAME=VALUE", "bad value of --store_timeout"} {
		if !strings.Contains(said, want) {
			t.Errorf("the log lacks %q:\n%s", want, said)
		}
	}
	filepath.WalkDir(nginx.Dir+"/root", func(p string, e os.DirEntry, err error) error {
		if b, _ := os.ReadFile(p); strings.Contains(string(b), secret) {
			t.Errorf("a secret is in the store: %s", p)
		}
		return nil
	})
}

// Results of a test that must stay on the machine go to no server.
func TestLocalOnly(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.NotFound(w, r)
	}))
	defer server.Close()
	h := newHarness(t)
	h.config.LocalOnly = []string{"tag no-remote-cache"}
	h.configure()
	h.at(server.URL)
	if o := h.want("always", h.run("out=x")); !strings.Contains(o.said, "always run: tag no-remote-cache\n") {
		t.Errorf("said %q", o.said)
	}
	h.at(server.URL + "," + h.store)
	h.want("miss", h.run("out=x"))
	h.want("hit", h.run("out=x"))
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests to the server", n)
	}
	if h.entries() != 1 {
		t.Error("not recorded in the directory")
	}
}

// A directory that can't be written doesn't keep a result from the server, and
// is mentioned.
func TestPartlyRecorded(t *testing.T) {
	nginx := servertest.Nginx(t, "", "")
	h := newHarness(t)
	h.at("/proc/tasting,http://" + nginx.Addr)
	if o := h.want("miss", h.run("out=x")); !strings.Contains(o.said, "recorded, but not everywhere: ") || !strings.Contains(o.said, "/proc/tasting") {
		t.Errorf("said %q", o.said)
	}
	h.want("hit", h.run("out=x"))
}

// A server that is down doesn't keep a directory from the result, nor from what explains it.
func TestListWithServerThatIsDown(t *testing.T) {
	gone, err := servertest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range []string{"http://%s,%s", "grpc://%s,%s"} {
		h := newHarness(t)
		h.env = append(h.env, "TEST_TARGET=//pkg:t")
		h.closure(10, "v1")
		h.at(fmt.Sprintf(order, gone, h.store))
		if o := h.want("miss", h.run("out=x")); !strings.Contains(o.said, "recorded, but not everywhere: ") || strings.Count(o.said, order[:4]+"://"+gone) != 2 {
			t.Errorf("said %q", o.said)
		}
		if f, err := explain.Read(t.Context(), store.OpenDisk(h.store), "//pkg:t"); err != nil || len(f.Entries) != 1 {
			t.Errorf("%+v, %v", f, err)
		}
		h.want("hit", h.run("out=x"))
	}
}

// Whatever a server does, the test runs, also if the server never answers.
func TestServerWithoutAnswer(t *testing.T) {
	silent := listen(t, func(c net.Conn) { select {} })
	trickle := listen(t, func(c net.Conn) {
		// An answer without a question is logged by net/http.
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
		for {
			if _, err := c.Write([]byte("x")); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	})
	gone, err := servertest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ location, want string }{
		{"http://" + gone, "connection refused"},
		{"grpc://" + gone, "connection refused"},
		{"http://" + silent, "store could not be read: "},
		{"grpc://" + silent, "store could not be read: "},
		{"http://" + trickle, "store could not be read: "},
	} {
		t.Run(c.location[:4]+" "+c.want, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.at(c.location, fmt.Sprint("--store_timeout=", store.DefaultTimeout))
			o := h.want("miss", h.run("out=x"))
			if o.code != 0 || o.log != "x\n" || !strings.Contains(o.said, c.want) || !strings.Contains(o.said, "not recorded: ") {
				t.Errorf("%+v", o)
			}
		})
	}
}

// A server that answers and takes nothing doesn't make a test that has passed one that
// took too long.
func TestServerThatTakesNothing(t *testing.T) {
	addr := listen(t, func(c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil || r.Method != http.MethodGet {
			select {}
		}
		fmt.Fprint(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		c.Close()
	})
	h := newHarness(t)
	h.at("http://" + addr)
	c := h.cmd("out=x")
	c.Env = append(slices.Clone(c.Env), "TEST_TIMEOUT=4")
	o := h.want("miss", h.finish(c))
	// That the store itself gives up would take longer.
	if o.code != 0 || o.log != "x\n" || !strings.Contains(o.said, "not recorded: ") || strings.Contains(o.said, "no answer within") {
		t.Errorf("%+v", o)
	}
}

// listen has handle talk to everybody who connects.
func listen(t testing.TB, handle func(net.Conn)) string {
	t.Helper()
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
			go handle(c)
		}
	}()
	return l.Addr().String()
}

// An entry that was forged in the store of a server can't write outside of the
// directories of the test.
func TestForgedPathsFromServer(t *testing.T) {
	nginx := servertest.Nginx(t, "", "")
	target, err := url.Parse("http://" + nginx.Addr)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(proxy)
	defer server.Close()
	h := newHarness(t)
	out := filepath.Join(h.dir, "outputs")
	h.at(server.URL)
	h.env = append(h.env, "TEST_UNDECLARED_OUTPUTS_DIR="+out)
	if err := os.Mkdir(out, 0o777); err != nil {
		t.Fatal(err)
	}
	h.want("miss", h.run("write=TEST_UNDECLARED_OUTPUTS_DIR:file"))
	entries, err := filepath.Glob(filepath.Join(nginx.Dir, "root", "ac", "*"))
	if err != nil || len(entries) != 1 {
		t.Fatalf("entries %v, %v", entries, err)
	}
	b, err := os.ReadFile(entries[0])
	if err != nil {
		t.Fatal(err)
	}
	// The same length, so that it stays a valid message.
	forged := strings.Replace(string(b), "test.outputs/file", "test.outputs/../f", 1)
	if forged == string(b) {
		t.Fatal("the entry has no such path")
	}
	if err := os.WriteFile(entries[0], []byte(forged), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(out); err != nil {
		t.Fatal(err)
	}
	if o := h.want("miss", h.run("write=TEST_UNDECLARED_OUTPUTS_DIR:file")); !strings.Contains(o.said, "recorded result is damaged") {
		t.Errorf("said %q", o.said)
	}
	if _, err := os.Stat(filepath.Join(h.dir, "f")); err == nil {
		t.Error("a file was written outside of the outputs")
	}
}
