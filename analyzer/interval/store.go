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

	"github.com/klauspost/compress/zstd"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/store"
)

// maxTable bounds the size in bytes of the files of a table in a store.
const maxTable = 1 << 30

func keyOf(service string) store.Key {
	b := frame.New("tasting intervals 1")
	b.String(service)
	return b.Sum()
}

// ofTable tells whether a file of a directory is one of a table.
func ofTable(name string) bool {
	return filepath.IsLocal(name) && name == filepath.Base(name) &&
		(name == ProgramFile || strings.HasSuffix(name, traceSuffix) || strings.HasSuffix(name, idleSuffix))
}

// Save keeps a table, with what Record has noted in it, in a store: as the newest one of a service. Of two
// who save at once one is lost.
func Save(ctx context.Context, s store.Store, service, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
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
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Second)
	return s.Set(ctx, keyOf(service), &store.Result{Start: now, End: now, Log: io.NewSectionReader(bytes.NewReader(packed.Bytes()), 0, int64(packed.Len()))})
}

// Load writes the newest table of a service into an empty directory. The error is one of Store.Get, or
// store.ErrCorrupt for what Save hasn't written.
func Load(ctx context.Context, s store.Store, service, dir string) error {
	r, err := s.Get(ctx, keyOf(service))
	if err != nil {
		return fmt.Errorf("table of %s: %w", service, err)
	}
	defer r.Close()
	damaged := func(why any) error { return fmt.Errorf("%w: table of %s: %v", store.ErrCorrupt, service, why) }
	z, err := zstd.NewReader(r.Log, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return damaged(err)
	}
	defer z.Close()
	size := int64(0)
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return damaged(err)
		}
		if size += h.Size; h.Typeflag != tar.TypeReg || !ofTable(h.Name) || size > maxTable {
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
