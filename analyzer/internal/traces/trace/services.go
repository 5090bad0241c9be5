package trace

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
)

// Control traces a running program in intervals: a service that has tests as clients (TestSage,
// section III.E). When an interval starts, all functions get their breakpoints again.
//
// Functions that are entered outside of intervals, as when the service starts, may be needed by any test. So they are in
// each interval that ends later.
type Control struct {
	// Merge makes overlapping intervals one: each of them then has the functions entered since the first one started.
	// Otherwise only one interval may be open.
	Merge bool

	mu        sync.Mutex
	pid       int   // of the program, 0 before it has started and after tracing has ended
	endReason error // why tracing has ended, or nil
	requests  []request
	open      map[string]bool
}

type request struct {
	do   func(collector) error
	done chan error
}

// collector is what a tracer does for a Control, on its own thread.
type collector interface {
	// restart gives all functions their breakpoints again. If outside is set, functions that were entered since the last
	// restart were entered outside of intervals.
	restart(outside bool)
	// leaveAll lets go of the program.
	leaveAll()
	// collected returns the functions that were entered since then, or outside of intervals.
	collected() *Result
}

// Interval is what a program executed in an interval.
type Interval struct {
	Name string
	// Result has the trace and Idle, which is nil as in a whole run.
	*Result
}

var errEnded = errors.New("the service has ended")

// Start opens an interval. It is an error if one of that name is open, or any, unless they are merged.
func (c *Control) Start(name string) error {
	return c.request(func(x collector) error {
		switch {
		case c.open[name]:
			return fmt.Errorf("interval %q is open", name)
		case len(c.open) > 0 && !c.Merge:
			for other := range c.open {
				return fmt.Errorf("interval %q is open, and what overlaps isn't merged", other)
			}
		case len(c.open) == 0:
			x.restart(true)
		}
		if c.open == nil {
			c.open = map[string]bool{}
		}
		c.open[name] = true
		return nil
	})
}

// Stop closes an interval and returns what was executed in it.
func (c *Control) Stop(name string) (i *Interval, err error) {
	err = c.request(func(x collector) error {
		if !c.open[name] {
			return fmt.Errorf("interval %q isn't open", name)
		}
		i = &Interval{name, x.collected()}
		if delete(c.open, name); len(c.open) == 0 {
			x.restart(false)
		}
		return nil
	})
	return i, err
}

// Leave lets go of a program that was attached to.
func (c *Control) Leave() {
	_ = c.request(func(x collector) error { // it may have ended
		x.leaveAll()
		return nil
	})
}

// request calls a function on the thread of the tracer.
func (c *Control) request(do func(collector) error) error {
	r := request{do, make(chan error, 1)}
	c.mu.Lock()
	if c.pid == 0 {
		defer c.mu.Unlock()
		return cmp.Or(c.endReason, errors.New("the service hasn't started"))
	}
	c.requests = append(c.requests, r)
	wake(c.pid) // while nobody can say that it has ended
	c.mu.Unlock()
	return <-r.done
}

// begin sets the program that is traced.
func (c *Control) begin(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pid = pid
}

// end notes why tracing has ended, and refuses the requests that are left.
func (c *Control) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pid, c.endReason = 0, cmp.Or(c.endReason, why)
	for _, r := range c.requests {
		r.done <- c.endReason
	}
	c.requests = nil
}

// serve fulfils requests, and reports whether there were any.
func (c *Control) serve(x collector) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	requests := c.requests
	c.requests = nil
	c.mu.Unlock()
	for _, r := range requests {
		r.done <- r.do(x)
	}
	return len(requests) > 0
}
