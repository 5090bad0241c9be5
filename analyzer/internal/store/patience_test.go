package store

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A server may be slow, but what it makes a process wait in vain is limited, whatever the calls are.
func TestPatience(t *testing.T) {
	const limit = 5 * time.Second
	failed := errors.New("failed")
	// call makes a call that takes so long, or as long as the patience does.
	call := func(p *patience, write bool, took time.Duration, err error) error {
		if err := p.begin(); err != nil {
			return err
		}
		start := time.Now()
		select {
		case <-time.After(took):
		case <-p.gone.Done():
			err = failed
		}
		return p.done(start, write, err)
	}
	// trickle has a few bytes move each second.
	trickle := func(p *patience, n int) {
		go func() {
			for i := 0; i < 30 && p.gone.Err() == nil; i++ {
				time.Sleep(time.Second)
				p.progress(n)
			}
		}()
	}
	repeat := func(p *patience, n int, write bool, took time.Duration, err error) {
		for range n {
			_ = call(p, write, took, err)
		}
	}
	for _, c := range []struct {
		name   string
		do     func(p *patience)
		over   bool
		lost   time.Duration // that it may take
		reason string
	}{
		{"no answer", func(p *patience) { repeat(p, 9, false, time.Hour, nil) }, true, limit, "silent"},
		{"no answer to many at once", func(p *patience) {
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * limit / 64)
					_ = call(p, false, time.Hour, nil)
				})
			}
			wg.Wait()
		}, true, limit, "silent"},
		{"slow", func(p *patience) { repeat(p, 9, false, 4*time.Second, nil) }, false, 36 * time.Second, ""},
		{"slow misses", func(p *patience) { repeat(p, 9, false, 4*time.Second, ErrNotFound) }, false, 36 * time.Second, ""},
		{"one after the other to many at once", func(p *patience) {
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() { _ = call(p, false, time.Duration(i+1)*time.Second, nil) })
			}
			wg.Wait()
		}, false, 64 * time.Second, ""},
		{"a large content", func(p *patience) {
			trickle(p, signOfLife/4)
			_ = call(p, true, 30*time.Second, nil)
		}, false, 30 * time.Second, ""},
		{"a byte now and then", func(p *patience) {
			trickle(p, 1)
			_ = call(p, false, time.Hour, nil)
		}, true, limit, "silent"},
		{"answers, then none to writers", func(p *patience) {
			repeat(p, 9, false, time.Second, nil)
			repeat(p, 9, true, time.Hour, nil)
		}, true, 9*time.Second + limit, "silent"},
		{"slow failures", func(p *patience) { repeat(p, 9, false, 2*time.Second, failed) }, true, 6 * time.Second, "failed"},
		{"slow failures to write, between answers", func(p *patience) {
			for range 30 {
				repeat(p, 1, false, 0, nil)
				repeat(p, 1, true, time.Second, failed)
			}
		}, true, limit, "failed"},
		{"a failure, then no answer", func(p *patience) {
			repeat(p, 1, false, 2*time.Second, failed)
			repeat(p, 9, false, time.Hour, nil)
		}, true, limit, "silent"},
		{"quick failures to read", func(p *patience) { repeat(p, 99, false, 0, failed) }, true, 0, "failed"},
		{"quick failures to write: others may still read", func(p *patience) { repeat(p, 99, true, 0, failed) }, false, 0, ""},
		{"nobody asks", func(p *patience) { repeat(p, 1, false, 0, nil); time.Sleep(time.Hour) }, false, time.Hour, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPatience(limit, errors.New("silent"))
				start := time.Now()
				c.do(p)
				if took := time.Since(start); took > c.lost {
					t.Errorf("took %v, want at most %v", took, c.lost)
				}
				time.Sleep(time.Minute)
				if (p.over != nil) != c.over || c.over && !strings.Contains(p.over.Error(), c.reason) {
					t.Errorf("given up: %v", p.over)
				}
			})
		})
	}
}
