package interval

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// maxTable bounds the size in bytes of the files of a table in a store.
const maxTable = 1 << 30

func keyOf(service string) store.Key {
	b := frame.New("tasting intervals 2")
	b.String(service)
	return b.Sum()
}

// ofTable reports whether a file of a directory is one of a table.
func ofTable(name string) bool {
	return filepath.IsLocal(name) && name == filepath.Base(name) &&
		(name == ProgramFile || strings.HasSuffix(name, traceSuffix) || strings.HasSuffix(name, idleSuffix))
}

// Save puts a table, with the file of Record, into a store, as the newest one of a service. If two processes save at
// once, one table is lost.
func Save(ctx context.Context, s store.Store, service, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if !ofTable(e.Name()) {
			continue
		}
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return store.SetDocument(ctx, s, keyOf(service), files)
}

// Load writes the newest table of a service that several stores have into an empty directory. The error is one of
// Store.Get, or store.ErrCorrupt for an entry that Save hasn't written.
func Load(ctx context.Context, s store.Store, service, dir string) error {
	var r *store.Result
	if err := store.Anywhere(s, func(s store.Store) error {
		x, err := s.Get(ctx, keyOf(service))
		if err != nil {
			return err
		}
		if r != nil && !x.End.After(r.End) {
			return x.Close()
		}
		if r != nil {
			r.Close()
		}
		r = x
		return nil
	}); err != nil {
		return fmt.Errorf("table of %s: %w", service, err)
	}
	defer r.Close()
	files := map[string][]byte{}
	if err := r.ReadDocument(&files, maxTable); err != nil {
		return fmt.Errorf("table of %s: %w", service, err)
	}
	for name, b := range files {
		if !ofTable(name) {
			return fmt.Errorf("%w: table of %s: %.100q (%d bytes)", store.ErrCorrupt, service, name, len(b))
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			return err
		}
	}
	return nil
}
