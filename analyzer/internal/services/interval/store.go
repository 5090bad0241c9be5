package interval

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/packed"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// maxTable bounds the size in bytes of the files of a table in a store.
const maxTable = 1 << 30

func keyOf(service string) store.Key {
	b := frame.New("tasting intervals 1")
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
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	for _, e := range entries {
		if !ofTable(e.Name()) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err == nil {
			err = w.WriteHeader(&tar.Header{Name: e.Name(), Mode: 0o644, Size: int64(len(b)), Format: tar.FormatPAX})
		}
		if err == nil {
			_, err = w.Write(b)
		}
		if err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	b, err := packed.Pack(files.Bytes())
	if err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Second)
	return s.Set(ctx, keyOf(service), &store.Result{Start: now, End: now, Log: store.Content(b)})
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
	damaged := func(why any) error { return fmt.Errorf("%w: table of %s: %v", store.ErrCorrupt, service, why) }
	if r.Log.Size() > maxTable {
		return damaged(fmt.Sprintf("%d bytes", r.Log.Size()))
	}
	b, err := io.ReadAll(r.Log)
	if err != nil {
		return err
	}
	if b, err = packed.Unpack(b, maxTable); err != nil {
		return damaged(err)
	}
	for files := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return damaged(err)
		}
		if h.Typeflag != tar.TypeReg || !ofTable(h.Name) {
			return damaged(fmt.Sprintf("%.100q (%d bytes)", h.Name, h.Size))
		}
		b, err := io.ReadAll(files)
		if err != nil {
			return damaged(err)
		}
		if err := os.WriteFile(filepath.Join(dir, h.Name), b, 0o666); err != nil {
			return err
		}
	}
}
