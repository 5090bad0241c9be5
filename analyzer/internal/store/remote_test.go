package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store/servertest"
)

// open opens the store at location. Where time isn't what is tested, a busy machine has enough of it.
func open(t testing.TB, location string, o store.Options) store.Store {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	s, err := store.Open(location, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close(s) })
	return s
}

// replace puts data into a file, or removes it.
func replace(t testing.TB, path string, data []byte) {
	t.Helper()
	// The server may have removed it already.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if data != nil {
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// nginxBackend is the store in an nginx, with the files it has.
func nginxBackend(t testing.TB, s store.Store, server *servertest.Server) Backend {
	ac := func(k store.Key) string { return filepath.Join(server.Dir, "root", "ac", k.String()) }
	return Backend{
		Store: s,
		ReadEntry: func(k store.Key) []byte {
			b, err := os.ReadFile(ac(k))
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		WriteEntry: func(k store.Key, data []byte) { replace(t, ac(k), data) },
		WriteBlob: func(hash string, data []byte) {
			replace(t, filepath.Join(server.Dir, "root", "cas", hash), data)
		},
		LastWins: true,
	}
}

// casdFile returns the file below dir/sub in which casd keeps a digest.
func casdFile(t testing.TB, dir, sub, hash string) string {
	t.Helper()
	var found []string
	filepath.WalkDir(filepath.Join(dir, sub), func(p string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.Contains(strings.ReplaceAll(p, "/", ""), hash) {
			found = append(found, p)
		}
		return nil
	})
	if len(found) != 1 {
		t.Fatalf("casd's files for %s: %v", hash, found)
	}
	return found[0]
}

func casdBackend(t testing.TB, s store.Store, server *servertest.Server) Backend {
	seen := map[store.Key]string{}
	ac := func(k store.Key) string {
		if seen[k] == "" {
			seen[k] = casdFile(t, server.Dir, "actioncache", k.String())
		}
		return seen[k]
	}
	return Backend{
		Store: s,
		ReadEntry: func(k store.Key) []byte {
			b, err := os.ReadFile(ac(k))
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		WriteEntry: func(k store.Key, data []byte) { replace(t, ac(k), data) },
		WriteBlob: func(hash string, data []byte) {
			replace(t, casdFile(t, server.Dir, "cas", hash), data)
		},
		LastWins: true,
		Judges:   true,
		Keeps:    true,
	}
}

func TestConformanceNginx(t *testing.T) {
	runSuite(t, func(t *testing.T) Backend {
		s := servertest.Nginx(t, "", "")
		return nginxBackend(t, open(t, "http://"+s.Addr, store.Options{}), s)
	})
}

func TestConformanceCASD(t *testing.T) {
	runSuite(t, func(t *testing.T) Backend {
		s := servertest.CASD(t)
		return casdBackend(t, open(t, "grpc://"+s.Addr, store.Options{Retries: new(int)}), s)
	})
}
