package runner

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
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

// forwarded are the signals that are passed on to the test. They reach it twice
// if they were sent to the whole process group, as Bazel does: the runner can't
// tell, and a test that misses one would be worse.
var forwarded = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
}

// outcome is how an execution ended.
type outcome struct {
	code     int            // exit code
	signal   syscall.Signal // that killed the test, or 0
	obstacle string         // why the result must not be recorded, or ""
}

// execute runs the real test. Its output goes to the log as it comes; with a
// spool, a copy goes there.
func (r *runner) execute(spool *spool) (*outcome, error) {
	signals := make(chan os.Signal, 16)
	for _, s := range forwarded {
		// nohup and the like: what is ignored stays ignored for the child.
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)

	files := []*os.File{r.Stdin, r.Stdout, r.Stderr}
	var readers []*os.File
	var copies sync.WaitGroup
	var copyErr error
	var mu sync.Mutex // for spool and copyErr
	if spool != nil {
		// One pipe if both streams go to one place, so that their order stays.
		for i := 1; i <= 2; i++ {
			if i == 2 && sameFile(r.Stdout, r.Stderr) {
				files[2] = files[1]
				break
			}
			pr, pw, err := os.Pipe()
			if err != nil {
				return nil, err
			}
			defer pr.Close()
			defer pw.Close()
			to := files[i]
			files[i] = pw
			readers = append(readers, pr)
			copies.Go(func() {
				err := tee(pr, to, func(b []byte) {
					mu.Lock()
					defer mu.Unlock()
					spool.Write(b)
				})
				mu.Lock()
				defer mu.Unlock()
				copyErr = errors.Join(copyErr, err)
			})
		}
	}
	p, err := os.StartProcess(r.binary, append([]string{r.binary}, r.Args...), &os.ProcAttr{
		Env:   r.childEnv(),
		Files: files,
		Sys:   procAttr(),
	})
	for _, f := range files[1:] {
		if f != r.Stdout && f != r.Stderr {
			f.Close()
		}
	}
	if err != nil {
		return nil, err
	}

	o := new(outcome)
	ended := make(chan struct{})
	var state *os.ProcessState
	go func() {
		state, err = p.Wait()
		close(ended)
	}()
wait:
	for {
		select {
		case s := <-signals:
			o.obstacle = fmt.Sprintf("%v was received", s)
			_ = p.Signal(s) // it may have ended just now
		case <-ended:
			break wait
		}
	}
	if err != nil {
		return nil, err
	}
	if len(readers) > 0 {
		done := make(chan struct{})
		go func() {
			copies.Wait()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(grace):
			o.obstacle = "processes that the test left behind hold its output open"
			for _, pr := range readers {
				_ = pr.SetReadDeadline(time.Now())
			}
			<-done
		}
		if copyErr != nil && o.obstacle == "" {
			o.obstacle = fmt.Sprintf("the log could not be written: %v", copyErr)
		}
		if spool.err != nil && o.obstacle == "" {
			o.obstacle = spool.err.Error()
		}
	}
	switch ws := state.Sys().(syscall.WaitStatus); {
	case ws.Signaled():
		o.signal = ws.Signal()
	default:
		o.code = ws.ExitStatus()
	}
	return o, nil
}

// tee copies from a pipe until its end or the reader's deadline. If the log
// can't be written any more the pipe is still emptied, so that the test doesn't
// hang; the first error is returned.
func tee(from, to *os.File, keep func([]byte)) error {
	buf := make([]byte, 64<<10)
	var failed error
	for {
		n, err := from.Read(buf)
		if n > 0 {
			keep(buf[:n])
			if failed == nil {
				_, failed = to.Write(buf[:n])
			}
		}
		if err == io.EOF || errors.Is(err, os.ErrDeadlineExceeded) {
			return failed
		}
		if err != nil {
			return errors.Join(failed, err)
		}
	}
}

func sameFile(a, b *os.File) bool {
	x, errX := a.Stat()
	y, errY := b.Stat()
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// spool keeps a copy of the log: in memory up to a limit, then in a file without
// a name, so that nothing is left if the runner is killed.
type spool struct {
	mem  bytes.Buffer
	file *os.File
	size int64
	last byte  // the last byte of the log
	err  error // why the copy isn't complete
}

func newSpool() *spool { return new(spool) }

func (s *spool) Write(b []byte) {
	s.last = b[len(b)-1]
	if s.err != nil {
		return
	}
	s.size += int64(len(b))
	if s.size > maxLog {
		s.err = fmt.Errorf("the log is larger than %d bytes", maxLog)
		return
	}
	if s.file == nil {
		s.mem.Write(b)
		if s.mem.Len() <= spoolMemory {
			return
		}
		f, err := os.CreateTemp("", "tasting-log-")
		if err == nil {
			err = os.Remove(f.Name())
		}
		if err != nil {
			s.err = fmt.Errorf("no place for a copy of the log: %w", err)
			return
		}
		s.file = f
		b = s.mem.Bytes()
	}
	if _, err := s.file.Write(b); err != nil {
		s.err = fmt.Errorf("no place for a copy of the log: %w", err)
	}
	s.mem = bytes.Buffer{}
}

// Content returns the copy, if err is nil.
func (s *spool) Content() *io.SectionReader {
	if s.file != nil {
		return io.NewSectionReader(s.file, 0, s.size)
	}
	return io.NewSectionReader(bytes.NewReader(s.mem.Bytes()), 0, s.size)
}

func (s *spool) Close() {
	if s.file != nil {
		s.file.Close()
	}
}
