package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"golang.org/x/sync/errgroup"
)

// scaleReport is what one invocation costs; times are in seconds.
type scaleReport struct {
	Override   bool    `json:"override,omitempty"`
	Components int     `json:"components"`
	Links      int     `json:"links"`
	Manifests  int     `json:"manifests"`
	Tests      int     `json:"tests"`
	Linked     [3]int  `json:"linked"` // libraries of a test: least, median, most
	Compose    float64 `json:"compose"`
	CPU        float64 `json:"compose_cpu"`
	Lookup     float64 `json:"lookup"`
	Hits       int     `json:"hits"`
	MemoryMB   float64 `json:"memory_mb"` // peak
	Distinct   int     `json:"distinct"`  // fingerprints
	Single     float64 `json:"single"`    // Compose of one test, the mean of those that were tried
	Different  int     `json:"different"` // of those, results that aren't the same
}

// benchScale generates manifests of 10^4 to 10^6 components with ten times as many
// links and a hundredth as many tests, composes all tests of each size in a
// process of its own, and looks up all keys in a disk store.
func benchScale(args []string) error {
	f := flag.NewFlagSet("bench scale", flag.ExitOnError)
	sizes := f.String("sizes", "10000,100000,1000000", "numbers of components")
	dir := f.String("dir", "", "keep the generated files in this directory, and use what is there")
	compare := f.Int("compare", 20, "number of tests to compose alone as well")
	asJSON := f.Bool("json", false, "print JSON, not a table")
	measure := f.String("measure", "", "internal: measure the files in this directory")
	profile := f.String("profile", "", "write a CPU profile of the composition")
	_ = f.Parse(args)
	if *measure != "" {
		return measureScale(*measure, *compare, *profile)
	}
	if *dir == "" {
		tmp, err := os.MkdirTemp("", "tasting-scale-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		*dir = tmp
	}
	var reports []scaleReport
	for _, override := range []bool{false, true} {
		for s := range strings.SplitSeq(*sizes, ",") {
			n, err := strconv.Atoi(s)
			if err != nil {
				return fmt.Errorf("--sizes: %w", err)
			}
			r, err := startScale(filepath.Join(*dir, fmt.Sprintf("%d-%v", n, override)), n, override, *compare)
			if err != nil {
				return err
			}
			reports = append(reports, *r)
			fmt.Fprintf(os.Stderr, "scale: %+v\n", *r)
		}
	}
	if *asJSON {
		return printJSON(reports)
	}
	return printScale(os.Stdout, reports)
}

// startScale measures one size in a process of its own.
func startScale(dir string, n int, override bool, compare int) (*scaleReport, error) {
	if _, err := os.Stat(filepath.Join(dir, "plan.json")); err != nil {
		fmt.Fprintf(os.Stderr, "scale: generating %d components\n", n)
		if err := generate(dir, n, n/100, override); err != nil {
			return nil, err
		}
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, "scale", "-measure", dir, "-compare", strconv.Itoa(compare))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("measuring %s: %w", dir, err)
	}
	r := &scaleReport{Override: override}
	return r, json.Unmarshal(out, r)
}

// measureScale measures one invocation and prints the report.
func measureScale(dir string, compare int, profile string) error {
	b, err := os.ReadFile(filepath.Join(dir, "plan.json"))
	if err != nil {
		return err
	}
	var p plan
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	files := make([][]string, p.Libraries)
	for i := range files {
		for k := range p.Files[i] {
			files[i] = append(files[i], p.library(dir, i, k))
		}
	}
	tests := make([]*fingerprint.Test, len(p.Tests))
	var linked []int
	for i, libs := range p.Tests {
		t := &fingerprint.Test{Binary: fmt.Sprintf("_main/project/tests/test%05d", i)}
		t.Files = append(t.Files, fingerprint.LinkedFile{Name: t.Binary, Manifests: []string{p.test(dir, i)}})
		for _, l := range libs {
			t.Files = append(t.Files, fingerprint.LinkedFile{Name: fmt.Sprintf("lib%05d.so", l), Manifests: files[l]})
		}
		tests[i] = t
		linked = append(linked, len(libs))
	}
	b, p = nil, plan{}
	slices.Sort(linked)
	runtime.GC()

	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
	}
	start, before := time.Now(), cpuOf(syscall.RUSAGE_SELF)
	composed, stats := fingerprint.ComposeAll(tests, nil)
	r := scaleReport{
		Components: stats.Components, Links: stats.Links, Manifests: stats.Manifests, Tests: len(tests),
		Linked:  [3]int{linked[0], linked[len(linked)/2], linked[len(linked)-1]},
		Compose: time.Since(start).Seconds(), CPU: (cpuOf(syscall.RUSAGE_SELF) - before).Seconds(),
	}
	pprof.StopCPUProfile()
	keys := make([]store.Key, len(composed))
	distinct := map[store.Key]bool{}
	for i, c := range composed {
		if c.Err != nil {
			return c.Err
		}
		if keys[i], err = store.ParseKey(c.Fingerprint); err != nil {
			return err
		}
		distinct[keys[i]] = true
	}
	r.Distinct = len(distinct)
	if r.Lookup, r.Hits, err = lookupAll(filepath.Join(dir, "store"), keys); err != nil {
		return err
	}
	if r.MemoryMB, err = peakMB(); err != nil {
		return err
	}
	for i := range compare {
		k := i * len(tests) / compare
		start := time.Now()
		c, report, _, err := fingerprint.Compose(tests[k])
		if err != nil {
			return err
		}
		r.Single += time.Since(start).Seconds() / float64(compare)
		if c.Code != composed[k].Config.Code || report.Fingerprint != composed[k].Fingerprint {
			r.Different++
		}
	}
	if r.Different > 0 {
		return fmt.Errorf("%d of %d tests have another fingerprint when they are composed alone", r.Different, compare)
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// lookupAll records a result for every second key, then looks up all of them.
func lookupAll(dir string, keys []store.Key) (seconds float64, hits int, err error) {
	s := store.OpenDisk(dir)
	defer os.RemoveAll(dir)
	each := func(f func(i int) error) error {
		var g errgroup.Group
		g.SetLimit(16)
		for i := range keys {
			g.Go(func() error { return f(i) })
		}
		return g.Wait()
	}
	ctx := context.Background()
	err = each(func(i int) error {
		if i%2 != 0 {
			return nil
		}
		log := fmt.Sprintf("[==========] Running tests of %s\n[  PASSED  ]\n", hex.EncodeToString(keys[i][:]))
		now := time.Now()
		err := s.Put(ctx, keys[i], &store.Result{Host: "bench", Start: now, End: now, Log: io.NewSectionReader(strings.NewReader(log), 0, int64(len(log)))})
		if errors.Is(err, store.ErrExists) {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	var found atomic.Int64
	start := time.Now()
	err = each(func(i int) error {
		r, err := s.Get(ctx, keys[i])
		if store.IsMiss(err) {
			return nil
		}
		if err != nil {
			return err
		}
		found.Add(1)
		return r.Close()
	})
	return time.Since(start).Seconds(), int(found.Load()), err
}

func printScale(out io.Writer, reports []scaleReport) error {
	w := newTable(out)
	fmt.Fprintln(w, "components\tlinks\tmanifests\ttests\tlibraries of a test\tcompose\t(CPU)\tlook-up\tmemory\tone test alone\t")
	for _, r := range reports {
		if r.Override {
			fmt.Fprint(w, "override ")
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d to %d, median %d\t%.2f s\t%.2f s\t%.2f s\t%.0f MB\t%.3f s\t\n", r.Components, r.Links, r.Manifests, r.Tests,
			r.Linked[0], r.Linked[2], r.Linked[1], r.Compose, r.CPU, r.Lookup, r.MemoryMB, r.Single)
	}
	return w.Flush()
}
