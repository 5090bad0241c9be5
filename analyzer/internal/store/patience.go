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
	// sign is how many bytes have to move to be a sign of life.
	sign = 1 << 20
	// givenUp is the number of calls in a row that read and fail, after which a server isn't
	// asked any more.
	givenUp = 16
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
	over   error         // why the server isn't asked any more, or nil
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
		p.timer = time.AfterFunc(p.limit-p.lost, p.look)
	}
	return nil
}

// look gives up a server that doesn't answer.
func (p *patience) look() {
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
	if p.moved += n; p.moved >= sign {
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
		p.count(start, err)
	}
	return cmp.Or(p.over, err)
}

// count counts the time since start as lost.
func (p *patience) count(start time.Time, err error) {
	now := time.Now()
	p.lost, p.last = p.lost+now.Sub(start), err
	p.alive, p.moved = now, 0
	if p.lost >= p.limit || p.failed[false] == givenUp {
		p.giveUp(err)
	}
}

// lose counts what several calls took, which were of no use though the server has answered.
func (p *patience) lose(start time.Time, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(start, err)
	return err
}

// failing reports whether the last call that wrote, or read, has failed. Then repeating calls doesn't help.
func (p *patience) failing(write bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed[write] > 0
}

// watched is a content on its way.
type watched struct {
	io.Reader
	p *patience
}

func (w watched) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	w.p.progress(n)
	return n, err
}
