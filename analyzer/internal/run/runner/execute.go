package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
)

const (
	// grace is how long the output of a test that has ended may stay open:
	// processes that it left behind hold it.
	grace = 500 * time.Millisecond
	// spoolMemory is how much of a log is kept in memory, in bytes.
	spoolMemory = 1 << 20
	// maxLog is the size in bytes of the largest log that is recorded.
	maxLog = 1 << 30
)

// Forwarded are the signals that are passed on to the test. They reach it twice
// if they were sent to the whole process group, as Bazel does: the runner can't
// tell, and a test that misses one would be worse.
var Forwarded = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
}

// outcome is how an execution ended.
type outcome struct {
	code     int            // exit code
	signal   syscall.Signal // that killed the test, or 0
	obstacle string         // why the result must not be recorded, or ""
	// void is why a tracer may have changed the result, or "".
	void string
	// idle are the functions that the test didn't enter, nil if they aren't known.
	idle map[string]bool
	// times say when it entered functions, nil if that isn't known.
	times *trace.Cases
}

// execute runs the real test. Its output goes to the log as it comes; with a
// spool, a copy goes there. If it is to be traced, and a tracer has changed what it does, it is run once more.
func (r *runner) execute(spool *spool, traces *traces) (*outcome, error) {
	o, err := r.executeOnce(spool, traces)
	if err != nil || o.void == "" {
		return o, err
	}
	return r.executeAgain(spool, o.void)
}

func (r *runner) executeOnce(spool *spool, traces *traces) (*outcome, error) {
	signals := make(chan os.Signal, 16)
	for _, s := range Forwarded {
		// See nohup(1): the child ignores a signal that this process does.
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)

	files := []*os.File{r.Stdin, r.Stdout, r.Stderr}
	c := &copier{spool: spool}
	defer c.close()
	if spool != nil {
		var err error
		if files[1], err = c.pipe(r.Stdout); err != nil {
			return nil, err
		}
		// One pipe if both streams go to one place, so that their order stays.
		if files[2] = files[1]; !sameFile(r.Stdout, r.Stderr) {
			if files[2], err = c.pipe(r.Stderr); err != nil {
				return nil, err
			}
		}
	}
	o := new(outcome)
	var ws syscall.WaitStatus
	var err error
	if traces.collect() {
		ws, err = r.trace(o, traces, files, c, signals)
	} else {
		ws, err = r.start(o, files, c, signals)
	}
	if err != nil {
		return nil, err
	}
	if spool != nil {
		c.finish(o)
	}
	if ws.Signaled() {
		o.signal = ws.Signal()
	} else {
		o.code = ws.ExitStatus()
	}
	return o, nil
}

// start runs the test to its end.
func (r *runner) start(o *outcome, files []*os.File, c *copier, signals <-chan os.Signal) (ws syscall.WaitStatus, err error) {
	p, err := os.StartProcess(r.binary, append([]string{r.binary}, r.Args...), &os.ProcAttr{
		Env:   r.childEnv(),
		Files: files,
		Sys:   procAttr(),
	})
	c.closeWriters()
	if err != nil {
		return 0, err
	}
	var state *os.ProcessState
	ended := make(chan struct{})
	go func() {
		state, err = p.Wait()
		close(ended)
	}()
	o.passOn(p, signals, ended)
	if err != nil {
		return 0, err
	}
	return state.Sys().(syscall.WaitStatus), nil
}

// passOn passes signals on to a test until it has ended.
func (o *outcome) passOn(p *os.Process, signals <-chan os.Signal, ended <-chan struct{}) {
	for {
		select {
		case s := <-signals:
			o.obstacle = fmt.Sprintf("%v was received", s)
			_ = p.Signal(s) // it may have ended just now
		case <-ended:
			return
		}
	}
}

// copier copies the output of a test to the log and to a spool.
type copier struct {
	spool            *spool
	readers, writers []*os.File
	copies           sync.WaitGroup
	mu               sync.Mutex // for spool, err and held
	err              error
	held             bool // processes that the test left behind may write more
}

// pipe returns a file. All that is written to it is copied.
func (c *copier) pipe(to *os.File) (*os.File, error) {
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.readers, c.writers = append(c.readers, pr), append(c.writers, pw)
	c.copies.Go(func() {
		held, err := tee(pr, to, func(b []byte) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.spool.Write(b)
		})
		c.mu.Lock()
		defer c.mu.Unlock()
		c.err, c.held = errors.Join(c.err, err), c.held || held
	})
	return pw, nil
}

// finish waits for the end of the output.
func (c *copier) finish(o *outcome) {
	all := func() bool { c.copies.Wait(); return true }
	if _, ok := await(grace, all); !ok {
		for _, pr := range c.readers {
			_ = pr.SetReadDeadline(time.Now())
		}
		all()
	}
	if c.held {
		o.obstacle = "processes that the test left behind hold its output open"
	}
	if c.err != nil && o.obstacle == "" {
		o.obstacle = fmt.Sprintf("the log could not be written: %v", c.err)
	}
	if c.spool.err != nil && o.obstacle == "" {
		o.obstacle = c.spool.err.Error()
	}
}

// closeWriters leaves the ends to which is written to the test alone.
func (c *copier) closeWriters() {
	for _, f := range c.writers {
		f.Close()
	}
}

func (c *copier) close() {
	for _, f := range slices.Concat(c.writers, c.readers) {
		f.Close()
	}
}

// tee copies from a pipe until its end or the reader's deadline. It reports whether the pipe
// is held open then. If writing to the log fails, tee still empties the pipe, so that
// the test doesn't hang, and returns the first error.
func tee(from, to *os.File, keep func([]byte)) (held bool, failed error) {
	buf := make([]byte, 64<<10) // as much as a pipe holds
	for late := 0; ; {
		n, err := from.Read(buf)
		// The log may be slow, or this process: all that the test wrote is read once, and then
		// the end of the pipe is seen, or none.
		if errors.Is(err, os.ErrDeadlineExceeded) && late < 2 {
			late++
			n, err = readNow(from, buf)
		}
		if n > 0 {
			keep(buf[:n])
			if failed == nil {
				_, failed = to.Write(buf[:n])
			}
		}
		if held = errors.Is(err, os.ErrDeadlineExceeded); held || err == io.EOF {
			return held, failed
		}
		if err != nil {
			return false, errors.Join(failed, err)
		}
	}
}

// readNow reads what a pipe holds, past its deadline.
func readNow(from *os.File, buf []byte) (n int, err error) {
	c, err := from.SyscallConn()
	if err != nil {
		return 0, err
	}
	if e := c.Control(func(fd uintptr) { n, err = syscall.Read(int(fd), buf) }); e != nil {
		return 0, e
	}
	switch {
	case err == syscall.EAGAIN:
		return 0, os.ErrDeadlineExceeded
	case n == 0:
		return 0, io.EOF
	}
	return n, err
}

func sameFile(a, b *os.File) bool {
	x, errX := a.Stat()
	y, errY := b.Stat()
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// spool keeps a copy of the log.
type spool struct {
	store.Spool
	size int64
	last byte  // the last byte of the log
	err  error // why the copy isn't complete
}

func newSpool() *spool { return &spool{Spool: store.Spool{Memory: spoolMemory}} }

func (s *spool) Write(b []byte) {
	s.last = b[len(b)-1]
	if s.size += int64(len(b)); s.err != nil {
		return
	}
	if s.size > maxLog {
		s.err = fmt.Errorf("the log is larger than %d bytes", maxLog)
	} else if _, err := s.Spool.Write(b); err != nil {
		s.err = fmt.Errorf("no place for a copy of the log: %w", err)
	}
}
