package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store/servertest"
)

// Figures are those of one operation on one store; times are in milliseconds.
type Figures struct {
	Store     string  `json:"store"`
	Operation string  `json:"operation"`
	Count     int     `json:"count"`
	Errors    int     `json:"errors"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	Longest   float64 `json:"longest_ms"`
	PerSecond float64 `json:"per_second"`
}

// benchStore measures a directory, nginx as an HTTP cache, and buildbox-casd, both
// started for this on the loopback interface. Each of the clients has a connection
// of its own and does one thing after the other. A result has a log of 2 KiB and a
// test.xml of 1 KiB. It fails if an operation does.
func benchStore(args []string) error {
	f := flag.NewFlagSet("bench store", flag.ExitOnError)
	asJSON := f.Bool("json", false, "print JSON, not a table")
	n := f.Int("n", 10000, "number of results, and of operations of each kind")
	clients := f.Int("clients", 64, "number of clients at work at once")
	location := f.String("store", "", "measure the store at this location only, instead of starting servers")
	_ = f.Parse(args)
	figures, err := measureStores(*n, *clients, *location)
	if err != nil {
		return err
	}
	if *asJSON {
		err = printJSON(figures)
	} else {
		err = printStores(os.Stdout, figures, *n, *clients)
	}
	for _, x := range figures {
		if x.Errors > 0 && err == nil {
			err = fmt.Errorf("%s: %s: %d errors", x.Store, x.Operation, x.Errors)
		}
	}
	return err
}

func printStores(w io.Writer, figures []Figures, n, clients int) error {
	fmt.Fprintf(w, "%d operations by %d clients, %d processors\n", n, clients, runtime.NumCPU())
	t := newTable(w)
	fmt.Fprintln(t, "store\toperation\tp50 ms\tp99 ms\tlongest ms\tper second\terrors\t")
	for _, f := range figures {
		fmt.Fprintf(t, "%s\t%s\t%.1f\t%.1f\t%.1f\t%.0f\t%d\t\n", f.Store, f.Operation, f.P50, f.P99, f.Longest, f.PerSecond, f.Errors)
	}
	return t.Flush()
}

func measureStores(n, clients int, location string) ([]Figures, error) {
	if location != "" {
		return measureStore("store", location, n, clients)
	}
	dir, err := os.MkdirTemp("", "tasting-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	all, err := measureStore("directory", filepath.Join(dir, "disk"), n, clients)
	if err != nil {
		return nil, err
	}
	for _, s := range []struct {
		name, program, scheme string
		start                 func(program, dir string) (*servertest.Server, error)
	}{
		{"nginx", "nginx", "http://", func(p, d string) (*servertest.Server, error) { return servertest.StartNginx(p, d, "", "") }},
		{"buildbox-casd", "buildbox-casd", "grpc://", func(p, d string) (*servertest.Server, error) { return servertest.StartCASD(p, d) }},
	} {
		program, err := servertest.Find(s.program)
		if err != nil {
			return nil, err
		}
		server, err := s.start(program, filepath.Join(dir, s.name))
		if err != nil {
			return nil, err
		}
		f, err := measureStore(s.name, s.scheme+server.Addr, n, clients)
		server.Stop()
		if err != nil {
			return nil, err
		}
		all = append(all, f...)
	}
	return all, nil
}

// measureStore records n results, looks them and as many others up, and reads them.
func measureStore(name, location string, n, clients int) ([]Figures, error) {
	fmt.Fprintf(os.Stderr, "bench: %s\n", name)
	stores := make([]store.Store, clients)
	for i := range stores {
		var err error
		if stores[i], err = store.Open(location, store.Options{Timeout: time.Minute}); err != nil {
			return nil, err
		}
		defer store.Close(stores[i])
	}
	ctx := context.Background()
	run := time.Now().UnixNano()
	key := func(kind string, i int) store.Key {
		return sha256.Sum256(fmt.Appendf(nil, "bench %s %d %d", kind, run, i))
	}
	lookup := func(s store.Store, k store.Key) error {
		return store.Lookup(ctx, s, []store.Key{k}, nil)[0].Err
	}
	var all []Figures
	for _, op := range []struct {
		name string
		f    func(s store.Store, i int) error
	}{
		{"record", func(s store.Store, i int) error { return s.Put(ctx, key("a", i), result(i)) }},
		{"look up, hit", func(s store.Store, i int) error { return lookup(s, key("a", i)) }},
		{"look up, miss", func(s store.Store, i int) error {
			if err := lookup(s, key("b", i)); !errors.Is(err, store.ErrNotFound) {
				return fmt.Errorf("want a miss: %w", err)
			}
			return nil
		}},
		{"read", func(s store.Store, i int) error {
			r, err := s.Get(ctx, key("a", i))
			if err != nil {
				return err
			}
			return r.Close()
		}},
	} {
		f, err := load(n, stores, op.f)
		f.Store, f.Operation = name, op.name
		all = append(all, f)
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %s: %v\n", name, op.name, err)
		}
	}
	return all, nil
}

// load runs n operations, each store its share of them, and returns
// one of the errors.
func load(n int, stores []store.Store, f func(s store.Store, i int) error) (Figures, error) {
	times := make([]time.Duration, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	start := time.Now()
	for c, s := range stores {
		wg.Go(func() {
			for i := c; i < n; i += len(stores) {
				from := time.Now()
				errs[i] = f(s, i)
				times[i] = time.Since(from)
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	slices.Sort(times)
	ms := func(share float64) float64 { return times[int(share*float64(n-1))].Seconds() * 1000 }
	x := Figures{Count: n, P50: ms(0.5), P99: ms(0.99), Longest: ms(1), PerSecond: float64(n) / took.Seconds()}
	var err error
	for _, e := range errs {
		if e != nil {
			x.Errors++
			err = e
		}
	}
	return x, err
}

// result is the i-th result; no two have a content in common.
func result(i int) *store.Result {
	random := rand.New(rand.NewSource(int64(i)))
	text := func(size int) *io.SectionReader {
		b := make([]byte, size)
		random.Read(b)
		s := fmt.Sprintf("%x", b)[:size]
		return io.NewSectionReader(strings.NewReader(s), 0, int64(size))
	}
	now := time.Now()
	return &store.Result{Host: "bench", Start: now, End: now, Log: text(2 << 10), Files: []store.File{{Path: "test.xml", Content: text(1 << 10)}}}
}
