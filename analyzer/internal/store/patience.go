package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// signOfLife is the number of bytes that have to move to be a sign of life.
	signOfLife = 1 << 20
	// maxFailed is the number of reading calls in a row that fail until a server is given up.
	maxFailed = 16
)

// patience bounds how long a process waits for a server in vain, all calls taken together. After
// that the process makes no more calls.
//
// Time is lost while calls are under way and none of them has an answer; a miss is an answer. So a
// slow server isn't given up, however many calls wait for it. A server that never answers is
// given up after limit. Calls that fail may take as long together.
type patience struct {
	limit  time.Duration
	silent error // that the server doesn't answer

	gone context.Context // ends with the patience
	end  context.CancelFunc

	mu     sync.Mutex
	calls  int           // under way
	timer  *time.Timer   // while there are any
	alive  time.Time     // when the server gave the last sign of life, or up to when time was counted
	moved  int           // bytes since then
	lost   time.Duration // in calls that have failed
	last   error         // of the last one of these
	failed map[bool]int  // calls in a row that failed: writing (true) and reading
	over   error         // why the server is given up, or nil
}

func newPatience(limit time.Duration, silent error) *patience {
	p := &patience{limit: limit, silent: silent, failed: map[bool]int{}}
	p.gone, p.end = context.WithCancel(context.Background())
	return p
}

// begin starts a call, unless it returns an error.
func (p *patience) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over != nil {
		return p.over
	}
	if p.calls++; p.calls == 1 {
		p.alive, p.moved = time.Now(), 0
		p.timer = time.AfterFunc(p.limit-p.lost, p.check)
	}
	return nil
}

// check gives up a server that doesn't answer.
func (p *patience) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == 0 {
		return
	}
	if left := p.limit - p.lost - time.Since(p.alive); left > 0 {
		p.timer.Reset(left)
		return
	}
	err := p.silent
	if p.last != nil {
		err = fmt.Errorf("%w, all calls that failed included, such as %v", err, p.last)
	}
	p.giveUp(err)
}

func (p *patience) giveUp(err error) {
	if p.over == nil {
		p.over = fmt.Errorf("%w; it isn't asked any more", err)
		p.end()
	}
}

// progress notes that n bytes have moved.
func (p *patience) progress(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.moved += n; p.moved >= signOfLife {
		p.alive, p.moved = time.Now(), 0
	}
}

// done ends a call. It returns err, or if there is one, why the server is given up.
func (p *patience) done(start time.Time, write bool, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls--; p.calls == 0 {
		p.timer.Stop()
	}
	if err == nil || IsMiss(err) {
		p.alive, p.moved, p.failed[write] = time.Now(), 0, 0
		return err
	}
	if !errors.Is(err, context.Canceled) { // by the caller
		p.failed[write]++
		if start.Before(p.alive) {
			start = p.alive
		}
		p.addLostSince(start, err)
	}
	return cmp.Or(p.over, err)
}

// addLostSince counts the time since start as lost.
func (p *patience) addLostSince(start time.Time, err error) {
	now := time.Now()
	p.lost, p.last = p.lost+now.Sub(start), err
	p.alive, p.moved = now, 0
	if p.lost >= p.limit || p.failed[false] == maxFailed {
		p.giveUp(err)
	}
}

// addLost counts the time of several calls as lost, because they were of no use though the server has answered.
func (p *patience) addLost(start time.Time, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLostSince(start, err)
	return err
}

// failing reports whether the last call that wrote, or read, has failed. Then repeating calls doesn't help.
func (p *patience) failing(write bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed[write] > 0
}

// watchedReader reports the bytes that it reads as progress.
type watchedReader struct {
	io.Reader
	p *patience
}

func (w watchedReader) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	w.p.progress(n)
	return n, err
}
