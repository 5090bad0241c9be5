package driver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/explain"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store/servertest"
)

// answering is an HTTP server that answers so to those who get something, and to those who put it.
func answering(t *testing.T, get, put int, body string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(map[bool]int{true: put, false: get}[r.Method == http.MethodPut])
		io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

const noAnswer = "no answer within"

// badStores are locations that don't work, with a part of the reason.
func badStores(t *testing.T) map[string]string {
	gone, err := servertest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"http://" + gone:                        "connection refused",
		"grpc://" + hangingServer(t):            noAnswer,
		answering(t, 404, 507, ""):              "507 Insufficient Storage",
		answering(t, 403, 403, ""):              "403 Forbidden",
		answering(t, 200, 200, "<html></html>"): "the answer is a web page",
		file:                                    "not a directory",
	}
}

// storeAt has the workspace use the store at location. Where time isn't what is tested, a busy machine has enough of it.
func (w *workspace) storeAt(location string, hangs bool) {
	w.t.Helper()
	s, err := store.Open(location, store.Options{Timeout: map[bool]time.Duration{true: time.Second, false: time.Minute}[hangs]})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { store.Close(s) })
	w.options.Store, w.options.LocalStore = s, s
}

// A store that takes nothing is no obstacle; it and its reason are named.
func TestStoreThatRefuses(t *testing.T) {
	for location, why := range badStores(t) {
		t.Run(why, func(t *testing.T) {
			w := newWorkspace(t)
			w.storeAt(location, why == noAnswer)
			e := w.test()
			warning := "tasting: warning: 1 result is not recorded: "
			_, told, _ := strings.Cut(e.say, warning)
			told, _, _ = strings.Cut(told, "\n")
			if e.err != nil || e.code != 0 || !strings.Contains(e.out, "PASSED") || !strings.Contains(told, why) || !strings.Contains(told, location) {
				t.Errorf("%+v", e)
			}
			if n := strings.Count(e.say, why); n > 2 { // where it is read, and where it is written
				t.Errorf("told %d times: %s", n, e.say)
			}
		})
	}
}

// A list with a store that doesn't work is as good as the other one.
func TestListWithBadStore(t *testing.T) {
	for bad, why := range badStores(t) {
		for _, last := range []bool{false, true} {
			t.Run(fmt.Sprint(why, " last ", last), func(t *testing.T) {
				w := newWorkspace(t)
				dir := filepath.Join(w.dir, "store")
				location := bad + "," + dir
				if last {
					location = dir + "," + bad
				}
				w.storeAt(location, why == noAnswer)
				if e := w.test(); e.err != nil || e.code != 0 || !strings.Contains(e.say, "1 result is not recorded everywhere: ") || strings.Count(e.say, why) > 2 {
					t.Errorf("%+v", e)
				}
				if f, err := explain.Read(t.Context(), store.OpenDisk(dir), "//:t"); err != nil || len(f.Entries) != 1 {
					t.Errorf("what it was made of isn't kept: %+v, %v", f, err)
				}
				if e := w.test(); !e.replayed() {
					t.Errorf("not replayed: %+v", e)
				}
				w.options.Audit, w.Attempts = 1, []string{"FAILED"}
				if e := w.test(); e.code != 3 || !strings.Contains(e.say, "AUDIT FAILED") {
					t.Errorf("audit: %+v", e)
				}
				w.options.Audit, w.Attempts = 0, nil
				if e := w.test(); e.replayed() || !strings.Contains(e.say, "isn't recorded: the test failed with the same fingerprint") {
					t.Errorf("after an audit: %+v", e)
				}
			})
		}
	}
}

// Traces decide by a list as well.
func TestTracesInListWithBadStore(t *testing.T) {
	w := newWorkspace(t)
	w.trace()
	w.storeAt(filepath.Join(w.dir, "store")+",http://127.0.0.1:1", false)
	if e := w.test(); e.code != 0 || !strings.Contains(e.say, "1 result is not recorded everywhere by its trace: ") {
		t.Fatalf("%+v", e)
	}
	w.write("lib.a", "other")
	if e := w.test(); e.code != 0 || !e.byTrace() {
		t.Errorf("%+v", e)
	}
}

// However many results a store doesn't take, it is said once.
func TestRefusals(t *testing.T) {
	var said bytes.Buffer
	r := newRecorder(&invocation{Options: &Options{Err: &said}, printing: new(sync.Mutex)})
	for range 1000 {
		r.addRefusal("recorded", errors.New("http://h: full"))
	}
	r.addRefusal("recorded everywhere", fmt.Errorf("%w: http://g: full", store.ErrPartly))
	r.sayRefusals()
	const want = "tasting: warning: 1000 results are not recorded: http://h: full\n" +
		"tasting: warning: 1 result is not recorded everywhere: http://g: full\n"
	if said.String() != want {
		t.Errorf("said %s", said.String())
	}
}
