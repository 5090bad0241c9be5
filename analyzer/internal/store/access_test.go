package store_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store/servertest"
	"github.com/spf13/pflag"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// roundTrip records a result and reads it back, with contents of all kinds.
func roundTrip(t testing.TB, s store.Store, name string) {
	t.Helper()
	r := Result("the log of "+name, "test.xml", "<xml/>", "empty", "", "big", bigContent+name, "middle", strings.Repeat("m", 50000))
	if err := s.Put(ctx, Key(name), r); err != nil {
		t.Fatalf("Put: %v", err)
	}
	got, err := s.Get(ctx, Key(name))
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	defer got.Close()
	if d := cmp.Diff(Flatten(t, r), Flatten(t, got)); d != "" {
		t.Fatalf("Get returned something else (-put +got):\n%s", d)
	}
}

// servers of TLS: nginx itself, and a gRPC proxy in front of casd. Clients need
// a certificate if mutual is set.
func tlsServers(t *testing.T, a *authority, mutual bool, notAfter time.Time) map[string]string {
	t.Helper()
	cert, key := a.certificate(t, "server", notAfter)
	directives := fmt.Sprintf("ssl_certificate %s; ssl_certificate_key %s;", cert, key)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if mutual {
		directives += fmt.Sprintf(" ssl_client_certificate %s; ssl_verify_client on;", a.File)
		pem, err := os.ReadFile(a.File)
		if err != nil {
			t.Fatal(err)
		}
		config.ClientCAs = x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM(pem)
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return map[string]string{
		"nginx": "https://" + servertest.Nginx(t, "ssl", directives).Addr,
		"casd":  "grpcs://" + grpcProxy(t, servertest.CASD(t).Addr, hooks{}, grpc.Creds(credentials.NewTLS(config))),
	}
}

func TestTLS(t *testing.T) {
	a := newAuthority(t, t.TempDir())
	other := newAuthority(t, t.TempDir())
	later := time.Now().Add(time.Hour)
	cert, key := a.certificate(t, "client", later)
	foreign, foreignKey := other.certificate(t, "client", later)
	quick := store.Options{Timeout: 5 * time.Second, Retries: retries(1)}
	with := func(change func(o *store.Options)) store.Options {
		o := quick
		change(&o)
		return o
	}
	trusting := with(func(o *store.Options) { o.TLSCertificate = a.File })
	known := with(func(o *store.Options) {
		o.TLSCertificate, o.TLSClientCertificate, o.TLSClientKey = a.File, cert, key
	})
	for _, c := range []struct {
		name     string
		mutual   bool
		notAfter time.Time
		o        store.Options
		want     bool
	}{
		{"own authority", false, later, trusting, true},
		{"unknown authority", false, later, quick, false},
		{"another authority", false, later, with(func(o *store.Options) { o.TLSCertificate = other.File }), false},
		{"expired", false, time.Now().Add(-time.Hour), trusting, false},
		{"mutual", true, later, known, true},
		{"mutual, no certificate", true, later, trusting, false},
		{"mutual, foreign certificate", true, later, with(func(o *store.Options) {
			o.TLSCertificate, o.TLSClientCertificate, o.TLSClientKey = a.File, foreign, foreignKey
		}), false},
	} {
		for name, location := range tlsServers(t, a, c.mutual, c.notAfter) {
			t.Run(c.name+" "+name, func(t *testing.T) {
				s := open(t, location, c.o)
				if c.want {
					roundTrip(t, s, "a")
					return
				}
				if r, err := s.Get(ctx, Key("a")); err == nil || store.IsMiss(err) {
					t.Errorf("Get: %v, %v, want an error that is no miss", r, err)
				}
				if err := s.Put(ctx, Key("a"), Result("log")); err == nil {
					t.Error("Put: no error")
				}
			})
		}
	}
}

// writeHelper writes a credential helper that counts its calls in a file.
func writeHelper(t testing.TB, script string) (program string, calls func() int) {
	t.Helper()
	dir := t.TempDir()
	program = filepath.Join(dir, "helper")
	text := "#!/bin/sh\necho x >>" + dir + "/calls\nrequest=$(cat)\n" + script
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return program, func() int {
		b, _ := os.ReadFile(filepath.Join(dir, "calls"))
		return len(b) / 2
	}
}

// guarded starts an nginx and a casd behind a proxy which want this value of
// the header X-Token; value may change.
func guarded(t *testing.T, value *atomic.Value) map[string]string {
	t.Helper()
	casd := servertest.CASD(t)
	nginx := servertest.Nginx(t, "", "")
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: nginx.Addr})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != value.Load() {
			w.Header().Set("X-Echo", r.Header.Get("X-Token"))
			http.Error(w, "who is "+r.Header.Get("X-Token"), http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return map[string]string{
		"http": front.URL,
		"grpc": "grpc://" + grpcProxy(t, casd.Addr, hooks{before: func(_ string, md metadata.MD) error {
			got := strings.Join(md.Get("x-token"), ",")
			if got != value.Load() {
				return status.Error(codes.Unauthenticated, "who is "+got+", I wonder\nreally")
			}
			return nil
		}}),
	}
}

const secret = "t0ps3cret"

func TestHeaders(t *testing.T) {
	var value atomic.Value
	value.Store(secret)
	for name, location := range guarded(t, &value) {
		t.Run(name, func(t *testing.T) {
			o := store.Options{Headers: []store.Header{{Name: "X-Token", Value: secret}}}
			roundTrip(t, open(t, location, o), "a")
			// A server that repeats what it gets doesn't put it into our errors.
			o.Headers[0].Value = "wr0ngs3cret"
			s := open(t, location, o)
			_, err := s.Get(ctx, Key("a"))
			if err == nil || store.IsMiss(err) || strings.Contains(err.Error(), "wr0ngs3cret") {
				t.Errorf("Get: %v", err)
			}
			if name == "grpc" && !strings.Contains(err.Error(), "who is (hidden), I wonder really") {
				t.Errorf("Get: %v", err)
			}
		})
	}
}

func TestCredentialHelper(t *testing.T) {
	var value atomic.Value
	value.Store(secret)
	for name, location := range guarded(t, &value) {
		t.Run(name, func(t *testing.T) {
			value.Store(secret)
			token := filepath.Join(t.TempDir(), "token")
			put := func(s string) {
				if err := os.WriteFile(token, []byte(s), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			put(secret)
			uri := location
			if name == "grpc" {
				uri = "https" + strings.TrimPrefix(location, "grpc") + "/"
			}
			helper, calls := writeHelper(t, `[ "$1" = get ] || exit 3
[ "$request" = '{"uri":"`+uri+`"}' ] || { echo "$request" >&2; exit 4; }
echo '{"headers": {"X-Token": ["'$(cat `+token+`)'"]}, "ignored": 1}'`)
			s := open(t, location, store.Options{CredentialHelpers: []string{helper}, Timeout: 5 * time.Second})
			roundTrip(t, s, "a")
			if n := calls(); n != 1 {
				t.Errorf("%d calls of the helper, want 1", n)
			}
			// A token that isn't accepted any more is asked for again.
			put("n3wt0ken")
			value.Store("n3wt0ken")
			roundTrip(t, s, "b")
			if n := calls(); n != 2 {
				t.Errorf("%d calls of the helper, want 2", n)
			}
			put("wr0ngt0ken")
			value.Store("other")
			_, err := s.Get(ctx, Key("a"))
			if err == nil || store.IsMiss(err) || strings.Contains(err.Error(), "wr0ngt0ken") || strings.Contains(err.Error(), "n3wt0ken") {
				t.Errorf("Get: %v", err)
			}
		})
	}
}

func TestCredentialHelperTimes(t *testing.T) {
	var value atomic.Value
	value.Store(secret)
	location := guarded(t, &value)["http"]
	for _, c := range []struct {
		expires string
		want    int // calls for three look-ups
	}{
		{"", 1},
		{time.Now().Add(time.Hour).Format(time.RFC3339), 1},
		// This clock or that of the helper is wrong: used, but not kept.
		{time.Now().Add(-time.Hour).Format(time.RFC3339), 3},
	} {
		helper, calls := writeHelper(t, `echo '{"headers": {"X-Token": ["`+secret+`"]}, "expires": "`+c.expires+`"}'`)
		s := open(t, location, store.Options{CredentialHelpers: []string{helper}})
		for range 3 {
			if _, err := s.Get(ctx, Key("a")); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("expires %q: %v", c.expires, err)
			}
		}
		if n := calls(); n != c.want {
			t.Errorf("expires %q: %d calls, want %d", c.expires, n, c.want)
		}
	}
}

func TestCredentialHelperFails(t *testing.T) {
	var value atomic.Value
	value.Store(secret)
	location := guarded(t, &value)["http"]
	for name, script := range map[string]string{
		"exit code":      "echo " + secret + "; echo " + secret + " >&2; exit 1",
		"not JSON":       "echo " + secret,
		"no object":      `echo '["` + secret + `"]'`,
		"two answers":    `echo '{"headers": {}} {"headers": {"X": ["` + secret + `"]}}'`,
		"bad header":     `echo '{"headers": {"X Y: ` + secret + `": ["` + secret + `"]}}'`,
		"bad value":      `printf '{"headers": {"X": ["` + secret + `\\nX-Token: y"]}}'`,
		"bad expiry":     `echo '{"headers": {}, "expires": "` + secret + `"}'`,
		"hangs":          "sleep 3600",
		"hangs on":       "sleep 3600 & echo '{'",
		"endless output": "while :; do echo " + secret + secret + secret + secret + "; done",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			helper, _ := writeHelper(t, script)
			s := open(t, location, store.Options{CredentialHelpers: []string{helper}, Timeout: time.Second})
			_, err := s.Get(ctx, Key("a"))
			if err == nil || store.IsMiss(err) || strings.Contains(err.Error(), secret) {
				t.Errorf("Get: %v", err)
			}
		})
	}
	s := open(t, location, store.Options{CredentialHelpers: []string{"/no/such/helper"}})
	if _, err := s.Get(ctx, Key("a")); err == nil || store.IsMiss(err) || !strings.Contains(err.Error(), "/no/such/helper") {
		t.Errorf("Get: %v", err)
	}
}

// A helper for one host isn't asked for another.
func TestCredentialHelperScope(t *testing.T) {
	var value atomic.Value
	value.Store("")
	location := guarded(t, &value)["http"]
	for scope, want := range map[string]int{"": 1, "127.0.0.1=": 1, "example.com=": 0, "*.0.0.1=": 1, "*.example.com=": 0} {
		helper, calls := writeHelper(t, `echo '{"headers": {}}'`)
		s := open(t, location, store.Options{CredentialHelpers: []string{scope + helper}})
		if _, err := s.Get(ctx, Key("a")); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%q: %v", scope, err)
		}
		if n := calls(); n != want {
			t.Errorf("%q: %d calls, want %d", scope, n, want)
		}
	}
}

func TestBasicAuthentication(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "passwords")
	if err := os.WriteFile(file, []byte("me:{PLAIN}p@ss,w0rd\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	addr := servertest.Nginx(t, "", "auth_basic x; auth_basic_user_file "+file+";").Addr
	roundTrip(t, open(t, "http://me:p%40ss%2Cw0rd@"+addr, store.Options{}), "a")
	s := open(t, "http://me:wr0ng@"+addr, store.Options{})
	_, err := s.Get(ctx, Key("a"))
	if err == nil || store.IsMiss(err) {
		t.Fatalf("Get: %v", err)
	}
	for _, text := range []string{err.Error(), fmt.Sprint(s), fmt.Sprintf("%v", s)} {
		if strings.Contains(text, "wr0ng") || strings.Contains(text, "me:") {
			t.Errorf("shown: %s", text)
		}
	}
}

// Nothing that prints options prints a secret.
func TestOptionsHideSecrets(t *testing.T) {
	var o store.Options
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	o.AddFlags(fs)
	for name, v := range map[string]string{"store": "https://alice:" + secret + "@host/p,/dir", "store_header": "X-Token=" + secret} {
		if err := fs.Set(name, v); err != nil {
			t.Fatal(err)
		}
	}
	if o.Headers[0].Value != secret || !strings.Contains(o.Location, secret) {
		t.Fatal("the secret isn't in the options at all")
	}
	header, err := json.Marshal(o.Headers)
	if err != nil {
		t.Fatal(err)
	}
	shown := []string{fs.FlagUsages(), string(header)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		shown = append(shown, fmt.Sprintf(verb, o), fmt.Sprintf(verb, &o), fmt.Sprintf(verb, o.Headers), fmt.Sprintf(verb, o.Headers[0].Value))
	}
	fs.VisitAll(func(f *pflag.Flag) { shown = append(shown, f.Value.String(), f.DefValue) })
	for _, text := range shown {
		if strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret)) || strings.Contains(text, "alice") {
			t.Errorf("shown: %s", text)
		}
	}
	for _, bad := range []string{
		"https://alice:" + secret + "@:x/", "https://alice:" + secret + "@", "ftp://alice:" + secret + "@host", "grpc://alice:" + secret + "@host",
		"https://alice:" + secret + "@host?x", "https://alice:" + secret + "/@host", "https://alice:" + secret + ",@host", "https://" + secret + "@host,https://" + secret + "@host",
		"https://alice:a,b" + secret + "@%zz",
	} {
		_, err := store.Open(bad, store.Options{})
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("Open(%q): %v", bad, err)
		}
	}
}

func TestLocations(t *testing.T) {
	for location, want := range map[string]string{
		"/a/b":                          "/a/b",
		"/a/../b":                       "/b",
		"http://h":                      "http://h",
		"https://h:1/p/q/":              "https://h:1/p/q",
		"HTTPS://h/p%20q":               "https://h/p%20q",
		"grpc://h":                      "grpc://h:80",
		"grpcs://h/":                    "grpcs://h:443",
		"grpc://[::1]:5":                "grpc://[::1]:5",
		"/d,https://u:p@h/x,grpc://h:1": "/d,https://h/x,grpc://h:1",
		"":                              "",
		"a/b":                           "",
		",/a":                           "",
		"/a,":                           "",
		"/a,/a":                         "",
		"http://":                       "",
		"http:///p":                     "",
		"http://h?x=y":                  "",
		"http://h#x":                    "",
		"http://h/../x":                 "",
		"file:///a":                     "",
		"grpc://h/instance":             "",
		"http://h:port":                 "",
	} {
		s, err := store.Open(location, store.Options{})
		if (err == nil) != (want != "") || err == nil && fmt.Sprint(s) != want {
			t.Errorf("Open(%q): %v, %v, want %q", location, s, err, want)
		}
		if err == nil {
			store.Close(s)
		}
	}
	for location, want := range map[string]string{
		"/d,https://u:p@h/x,grpc://h:1": "/d,https://h/x,grpc://h:1",
		"/d@e":                          "/d@e",
		"relative":                      "relative",
		"https://u:p/q@h/x":             "(hidden)",
		"https://u:p,q@h/x,/d":          "(hidden)",
		"https://u:p,/q@h/x,/d":         "(hidden)",
	} {
		if got := store.Redact(location); got != want {
			t.Errorf("Redact(%q) = %q, want %q", location, got, want)
		}
	}
	if got := store.Local("https://h,/a,grpc://h:1,/b"); got != "/a,/b" || !store.IsRemote("/a,https://h") || store.IsRemote("/a,/b") {
		t.Errorf("Local: %q", got)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, []byte("not PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]store.Options{
		"want rw, ro, wo or off":                         {Mode: "readonly"},
		"want a positive duration":                       {Timeout: -1},
		"from 0 to 20":                                   {Retries: retries(-1)},
		"number 1: want NAME=VALUE":                      {Headers: []store.Header{{}}},
		"not the name of a header":                       {Headers: []store.Header{{Name: "a b"}}},
		"header X: want printable":                       {Headers: []store.Header{{Name: "X", Value: "a\nb"}}},
		"header host can't be set":                       {Headers: []store.Header{{Name: "host", Value: "a"}}},
		"go together":                                    {TLSClientKey: "x"},
		"no certificate in PEM form":                     {TLSCertificate: file},
		"--store_tls_client_certificate, --store_tls_cl": {TLSClientCertificate: file, TLSClientKey: file},
		"no such file":                                   {TLSCertificate: file + "x"},
		"can't be a part of it":                          {InstanceName: "a/blobs"},
		"want no empty parts":                            {InstanceName: "/a"},
	} {
		if _, err := store.Open("grpcs://h", o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	o := store.Options{Headers: []store.Header{{Name: "X", Value: "y"}}}
	if _, err := store.Open("https://a,grpcs://b", o); err == nil {
		t.Error("one header for two servers: no error")
	}
	s, err := store.Open("https://a,grpcs://a,/d", o)
	if err != nil {
		t.Error(err)
	}
	store.Close(s)
}

// The command line goes before the environment, the environment before the
// file.
func TestOptionsPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "flags")
	text := "# a comment\n\n--store=/file\n--store_mode=ro\n --store_header=X=a=b \n--store_header=Y=c\n--store_compression\n--store_retries=0\n--store_timeout=3s\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	complete := func(env map[string]string, args ...string) (store.Options, error) {
		var o store.Options
		fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
		o.AddFlags(fs)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		err := o.Complete(fs, func(k string) string { return env[k] })
		return o, err
	}
	env := map[string]string{"TASTING_STORE_FLAGS": file, "HOME": "/h"}
	o, err := complete(env)
	if err != nil || o.Location != "/file" || o.Mode != "ro" || len(o.Headers) != 2 || o.Headers[0].Name != "X" || o.Headers[0].Value != "a=b" ||
		!o.Compression || *o.Retries != 0 || o.Timeout != 3*time.Second {
		t.Errorf("file: %+v %v", o, err)
	}
	env["TASTING_STORE"], env["TASTING_STORE_MODE"] = "/env", "wo"
	if o, err = complete(env); err != nil || o.Location != "/env" || o.Mode != "wo" || len(o.Headers) != 2 {
		t.Errorf("environment: %+v %v", o, err)
	}
	o, err = complete(env, "--store=/line", "--store_mode=rw", "--store_header=Z=d", "--store_compression=false")
	if err != nil || o.Location != "/line" || o.Mode != "rw" || len(o.Headers) != 1 || o.Headers[0].Name != "Z" || o.Compression || *o.Retries != 0 {
		t.Errorf("command line: %+v %v", o, err)
	}
	if o, err = complete(map[string]string{"HOME": "/h"}); err != nil || o.Location != "/h/.cache/tasting" || o.Mode != "rw" || *o.Retries != store.DefaultRetries {
		t.Errorf("nothing: %+v %v", o, err)
	}
	for _, env := range []map[string]string{
		{"TASTING_STORE_FLAGS": "relative"}, {"TASTING_STORE_FLAGS": "/no/such/file"},
		{"TASTING_STORE": "relative"}, {"TASTING_STORE_MODE": "x"},
	} {
		if _, err := complete(env); err == nil {
			t.Errorf("%v: no error", env)
		}
	}
}

// What the mode forbids isn't done.
func TestModes(t *testing.T) {
	var mu sync.Mutex
	var methods []string
	note := func(m string) {
		mu.Lock()
		defer mu.Unlock()
		methods = append(methods, m)
	}
	nginx := servertest.Nginx(t, "", "")
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: nginx.Addr})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(r.Method)
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()
	grpcAddr := grpcProxy(t, servertest.CASD(t).Addr, hooks{before: func(m string, _ metadata.MD) error { note(m); return nil }})
	dir := newDir(t)
	isRead := map[string]bool{"GET": true, "HEAD": true, "GetActionResult": true, "FindMissingBlobs": true, "BatchReadBlobs": true, "Read": true}
	isWrite := map[string]bool{"PUT": true, "UpdateActionResult": true, "BatchUpdateBlobs": true, "Write": true}
	for _, location := range []string{dir, front.URL, "grpc://" + grpcAddr, newDir(t) + "," + front.URL} {
		for _, m := range []store.Mode{store.WriteOnly, store.ReadOnly, store.Off} {
			mu.Lock()
			methods = nil
			mu.Unlock()
			s := open(t, location, store.Options{Mode: m})
			key := Key("wo")
			var errs []error
			r, err := s.Get(ctx, key)
			if err == nil {
				r.Close()
			}
			errs = append(errs, err, store.Lookup(ctx, s, []store.Key{key}, nil)[0].Err)
			if got := !errors.Is(errors.Join(errs...), store.ErrNotAllowed); got != m.CanRead() {
				t.Errorf("%s %s: reading: %v", location, m, errs)
			}
			if m == store.ReadOnly && err != nil {
				t.Errorf("%s: what was written isn't found: %v", location, err)
			}
			before := ""
			if location == dir && m != store.WriteOnly {
				before = mtimes(t, dir)
			}
			errs = []error{s.Put(ctx, key, Result("log", "big", bigContent)), s.Set(ctx, key, Result("log", "f", "x"))}
			if got := !errors.Is(errors.Join(errs...), store.ErrNotAllowed); got != m.CanWrite() {
				t.Errorf("%s %s: writing: %v", location, m, errs)
			}
			if location == dir && m != store.WriteOnly && mtimes(t, dir) != before {
				t.Errorf("mode %s has touched files", m)
			}
			for _, x := range methods {
				if isRead[x] && !m.CanRead() || isWrite[x] && !m.CanWrite() || m == store.Off {
					t.Errorf("%s %s: %s was sent", location, m, x)
				}
			}
		}
	}
}

func mtimes(t testing.TB, dir string) string {
	t.Helper()
	all := ""
	for _, f := range files(t, dir) {
		info, err := os.Stat(filepath.Join(dir, f))
		if err != nil {
			t.Fatal(err)
		}
		all += fmt.Sprintln(f, info.ModTime().UnixNano())
	}
	return all
}

// compressing stands in front of casd, which knows no compression, and knows it.
type compressing struct {
	bytestream.UnimplementedByteStreamServer
	plain   bytestream.ByteStreamClient
	moved   atomic.Int64 // bytes, compressed
	streams atomic.Int32
}

// name is that of the plain content.
func (c *compressing) name(resource string) (plain string, size int64, err error) {
	c.streams.Add(1)
	if !strings.Contains(resource, "/compressed-blobs/zstd/") && !strings.HasPrefix(resource, "compressed-blobs/zstd/") {
		return "", 0, status.Errorf(codes.InvalidArgument, "not compressed: %s", resource)
	}
	_, err = fmt.Sscan(resource[strings.LastIndex(resource, "/")+1:], &size)
	return strings.Replace(resource, "compressed-blobs/zstd/", "blobs/", 1), size, err
}

func (c *compressing) Read(req *bytestream.ReadRequest, out bytestream.ByteStream_ReadServer) error {
	name, _, err := c.name(req.ResourceName)
	if err != nil {
		return err
	}
	in, err := c.plain.Read(out.Context(), &bytestream.ReadRequest{ResourceName: name})
	if err != nil {
		return err
	}
	z, err := zstd.NewWriter(writerFunc(func(p []byte) error {
		c.moved.Add(int64(len(p)))
		return out.Send(&bytestream.ReadResponse{Data: p})
	}))
	if err != nil {
		return err
	}
	for {
		m, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return z.Close()
		}
		if err != nil {
			return err
		}
		if _, err := z.Write(m.Data); err != nil {
			return err
		}
	}
}

func (c *compressing) Write(in bytestream.ByteStream_WriteServer) error {
	var data []byte
	name := ""
	for {
		m, err := in.Recv()
		if err != nil {
			return err
		}
		if name == "" {
			name = m.ResourceName
		}
		if m.WriteOffset != int64(len(data)) {
			return status.Errorf(codes.InvalidArgument, "offset %d after %d bytes", m.WriteOffset, len(data))
		}
		data = append(data, m.Data...)
		if m.FinishWrite {
			break
		}
	}
	c.moved.Add(int64(len(data)))
	plain, size, err := c.name(name)
	if err != nil {
		return err
	}
	z, err := zstd.NewReader(nil)
	if err != nil {
		return err
	}
	defer z.Close()
	content, err := z.DecodeAll(data, nil)
	if err != nil || int64(len(content)) != size {
		return status.Errorf(codes.InvalidArgument, "%d bytes, want %d: %v", len(content), size, err)
	}
	out, err := c.plain.Write(in.Context())
	if err != nil {
		return err
	}
	for at := 0; at < len(content); at += 1 << 20 {
		end := min(len(content), at+1<<20)
		if err := out.Send(&bytestream.WriteRequest{ResourceName: plain, WriteOffset: int64(at), Data: content[at:end], FinishWrite: end == len(content)}); err != nil {
			return err
		}
	}
	if _, err := out.CloseAndRecv(); err != nil {
		return err
	}
	return in.SendAndClose(&bytestream.WriteResponse{CommittedSize: int64(len(data))})
}

type writerFunc func(p []byte) error

func (f writerFunc) Write(p []byte) (int, error) { return len(p), f(slices.Clone(p)) }

func TestCompression(t *testing.T) {
	casd := servertest.CASD(t)
	conn, err := grpc.NewClient(casd.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &compressing{plain: bytestream.NewByteStreamClient(conn)}
	addr := grpcProxy(t, casd.Addr, hooks{
		answer: func(m string, _ int, b raw) (raw, error) {
			if m != "GetCapabilities" {
				return b, nil
			}
			s := new(repb.ServerCapabilities)
			if err := proto.Unmarshal(b, s); err != nil {
				return nil, err
			}
			s.CacheCapabilities.SupportedCompressors = append(s.CacheCapabilities.SupportedCompressors, repb.Compressor_ZSTD)
			return proto.Marshal(s)
		},
		services: func(s *grpc.Server) { bytestream.RegisterByteStreamServer(s, c) },
	})
	roundTrip(t, open(t, "grpc://"+addr, store.Options{Compression: true}), "a")
	if n := c.moved.Load(); n == 0 || n > int64(len(bigContent))/10 || c.streams.Load() != 4 {
		t.Errorf("%d bytes were moved in %d streams for contents of %d", n, c.streams.Load(), len(bigContent))
	}
	// What one has compressed, another reads as it is.
	r, err := open(t, "grpc://"+casd.Addr, store.Options{}).Get(ctx, Key("a"))
	if err != nil {
		t.Fatal(err)
	}
	if f := Flatten(t, r); f.Files["big"] != bigContent+"a" {
		t.Error("another content")
	}
	r.Close()
	// A server that doesn't offer it isn't asked for it.
	roundTrip(t, open(t, "grpc://"+casd.Addr, store.Options{Compression: true}), "b")
}

// What is in one instance isn't in another.
func TestInstanceName(t *testing.T) {
	casd := servertest.CASD(t, "--local-server-instance=my/instance")
	s := open(t, "grpc://"+casd.Addr, store.Options{InstanceName: "my/instance"})
	roundTrip(t, s, "a")
	if _, err := open(t, "grpc://"+casd.Addr, store.Options{InstanceName: "other"}).Get(ctx, Key("a")); err == nil {
		t.Error("found in an instance that doesn't exist")
	}
}

func TestLayered(t *testing.T) {
	nginx, casd := servertest.Nginx(t, "", ""), servertest.CASD(t)
	dir := newDir(t)
	near, middle, far := store.OpenDisk(dir), open(t, "http://"+nginx.Addr, store.Options{}), open(t, "grpc://"+casd.Addr, store.Options{})
	location := dir + ",http://" + nginx.Addr + ",grpc://" + casd.Addr
	s := open(t, location, store.Options{})
	has := func(s store.Store, name string) bool {
		r, err := s.Get(ctx, Key(name))
		if err == nil {
			r.Close()
		} else if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%v: %v", s, err)
		}
		return err == nil
	}
	roundTrip(t, s, "all")
	if !has(near, "all") || !has(middle, "all") || !has(far, "all") {
		t.Error("not recorded everywhere")
	}
	// A look-up alone copies nothing, nor does reading without leave to write.
	roundTrip(t, far, "far")
	if o := store.Lookup(ctx, s, []store.Key{Key("far")}, nil)[0]; o.Err != nil || has(near, "far") {
		t.Errorf("look-up: %v", o.Err)
	}
	if !has(open(t, location, store.Options{Mode: store.ReadOnly}), "far") || has(near, "far") || has(middle, "far") {
		t.Error("a copy was made without leave to write")
	}
	if !has(s, "far") || !has(near, "far") || !has(middle, "far") {
		t.Error("the hit wasn't copied to the nearer stores")
	}
	// A damaged copy is replaced by the way.
	replace(t, acPath(dir, Key("far")), []byte("damaged"))
	if !has(s, "far") || !has(near, "far") {
		t.Error("the damaged copy wasn't replaced")
	}
	if err := s.Put(ctx, Key("far"), Result("x")); !errors.Is(err, store.ErrExists) {
		t.Errorf("Put: %v", err)
	}

	// One of them out of reach.
	gone, err := servertest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	broken := open(t, "http://"+gone+",grpc://"+casd.Addr, store.Options{Retries: retries(0)})
	if err := broken.Put(ctx, Key("partly"), Result("x")); !errors.Is(err, store.ErrPartly) || !strings.Contains(err.Error(), gone) {
		t.Errorf("Put: %v", err)
	}
	if !has(far, "partly") || !has(broken, "partly") {
		t.Error("the failure of one store lost the result for the other")
	}
	if _, err := broken.Get(ctx, Key("nothing")); err == nil || store.IsMiss(err) {
		t.Errorf("Get: %v, want an error that is no miss", err)
	}
	if o := store.Lookup(ctx, broken, []store.Key{Key("partly"), Key("nothing")}, nil); o[0].Err != nil || o[1].Err == nil || store.IsMiss(o[1].Err) {
		t.Errorf("Lookup: %+v", o)
	}
}

func TestConformanceLayered(t *testing.T) {
	runSuite(t, func(t *testing.T) Backend {
		nginx := servertest.Nginx(t, "", "")
		dir := newDir(t)
		b := nginxBackend(t, open(t, dir+",http://"+nginx.Addr, store.Options{}), nginx)
		// Both are damaged: otherwise there is nothing to be seen.
		entry, blob := b.WriteEntry, b.WriteBlob
		b.WriteEntry = func(k store.Key, data []byte) { entry(k, data); replace(t, acPath(dir, k), data) }
		b.WriteBlob = func(hash string, data []byte) { blob(hash, data); replace(t, casPath(dir, hash), data) }
		return b
	})
}

// Thousands of keys, of which some have a result and some are damaged.
func TestLookup(t *testing.T) {
	nginx := servertest.Nginx(t, "", "")
	s := open(t, "http://"+nginx.Addr, store.Options{})
	var keys []store.Key
	for i := range 2000 {
		keys = append(keys, Key(fmt.Sprint(i)))
		if i%10 == 0 {
			r := Result(fmt.Sprint("log ", i))
			r.ExitCode = i
			if err := s.Put(ctx, keys[i], r); err != nil {
				t.Fatal(err)
			}
		}
	}
	b := nginxBackend(t, s, nginx)
	b.WriteEntry(keys[10], []byte("damaged"))
	b.WriteBlob(Hash("log 20"), nil)
	b.WriteBlob(Hash("log 30"), []byte("short"))
	last := 0
	outcomes := store.Lookup(ctx, s, keys, func(n int) {
		if n != last+1 {
			t.Errorf("progress %d after %d", n, last)
		}
		last = n
	})
	for i, o := range outcomes {
		var want error
		switch {
		case i == 10:
			want = store.ErrCorrupt
		case i == 20 || i == 30:
			want = store.ErrIncomplete
		case i%10 != 0:
			want = store.ErrNotFound
		}
		if !errors.Is(o.Err, want) || want == nil && (o.Err != nil || o.Info.ExitCode != i) {
			t.Errorf("key %d: %+v, want %v", i, o, want)
		}
	}
	if last != len(keys) {
		t.Errorf("progress ended at %d", last)
	}
}

// A store that is out of reach costs a few calls, not one for each key, and a
// context that ends ends a look-up.
func TestLookupOutOfReach(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	keys := make([]store.Key, 5000)
	for i := range keys {
		keys[i] = Key(fmt.Sprint(i))
	}
	s := open(t, server.URL, store.Options{Retries: retries(1)})
	for i, o := range store.Lookup(ctx, s, keys, nil) {
		if o.Err == nil || store.IsMiss(o.Err) {
			t.Fatalf("key %d: %+v", i, o)
		}
	}
	if n := requests.Load(); n > 400 {
		t.Errorf("%d requests", n)
	}
	c, cancel := context.WithCancel(ctx)
	cancel()
	for i, o := range store.Lookup(c, store.OpenDisk(newDir(t)), keys[:100], nil) {
		if !errors.Is(o.Err, context.Canceled) {
			t.Fatalf("key %d: %+v", i, o)
		}
	}
}

func TestPing(t *testing.T) {
	nginx, casd := servertest.Nginx(t, "", ""), servertest.CASD(t)
	gone, err := servertest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	locations := newDir(t) + ",http://" + nginx.Addr + ",grpc://" + casd.Addr + ",grpc://" + gone
	health := store.Ping(ctx, open(t, locations, store.Options{Retries: retries(0)}))
	if len(health) != 4 {
		t.Fatalf("%+v", health)
	}
	for _, h := range health[:3] {
		if !h.OK() || h.Read <= 0 || h.Write <= 0 || len(h.About) == 0 {
			t.Errorf("%+v", h)
		}
	}
	if h := health[3]; h.OK() || h.ReadErr == nil {
		t.Errorf("%+v", h)
	}
	health = store.Ping(ctx, open(t, "grpc://"+casd.Addr, store.Options{Mode: store.ReadOnly}))
	if h := health[0]; !h.OK() || h.Write != 0 || h.CanWrite || h.Read <= 0 {
		t.Errorf("%+v", h)
	}
}

// Whatever a helper prints, what is taken from it can be sent.
func FuzzParseHelper(f *testing.F) {
	f.Add([]byte(`{"headers": {"Authorization": ["Bearer x"]}, "expires": "2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"headers": {"A": ["b", "c"], "d": []}}`))
	f.Add([]byte(`{"headers": {"a b": ["\n"]}}`))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		headers, _, err := store.ParseHelper(b)
		if err != nil {
			return
		}
		for _, h := range headers {
			r, err := http.NewRequest("GET", "http://h", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Add(h.Name, string(h.Value))
			var out strings.Builder
			if err := r.Write(&out); err != nil || strings.Count(out.String(), "\r\n") != 5 {
				t.Fatalf("header %q: %v", h.Name, err)
			}
		}
	})
}

// Whatever a location is, it is understood or refused, and the user part isn't
// shown.
func FuzzParseLocation(f *testing.F) {
	for _, l := range []string{"/a,http://u:p@h:1/x,grpcs://h", "https://u:p,q@h", "http://[::1]:2/%2e%2e/", "://", "grpc://@h", ","} {
		f.Add(l)
	}
	f.Fuzz(func(t *testing.T, location string) {
		s, err := store.Open(location, store.Options{})
		if err == nil {
			shown := fmt.Sprint(s)
			store.Close(s)
			again, err := store.Open(shown, store.Options{})
			if err != nil || fmt.Sprint(again) != shown {
				t.Fatalf("%q is shown as %q, which is %v, %v", location, shown, again, err)
			}
			store.Close(again)
		}
		r := store.Redact(location)
		if store.Redact(r) != r {
			t.Fatalf("Redact(%q) = %q, of which it is %q", location, r, store.Redact(r))
		}
	})
}
