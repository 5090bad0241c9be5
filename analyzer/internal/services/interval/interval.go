// Package interval finds out which functions a service executes for each test that is a client of it, and selects the
// tests that a change of the service can affect (TestSage). The tests report when they begin and end.
//
// # Collecting
//
// Next to a traced service, Serve listens at a socket. A client writes a line "start NAME" before a test, and "stop
// NAME" behind it, to each service that the test uses. The answer is a line, "ok", or "error" and why. NAME is
// the unit of selection: a target, a class or a case. The functions that the service enters in between are kept in a
// directory, the table.
//
// # Selecting
//
// A test isn't affected by a change if the key of its trace is the same before and after. The key has the functions that
// it needs, the functions, data and virtual tables to which these refer, and those that run when the service starts
// (docs/how-to/select-service-tests.md).
package interval

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
)

// Addresses is the environment variable with the addresses of services, with commas between them.
const Addresses = "TASTING_INTERVALS"

// Files of a table have names of tests, as in a URL, and end so.
const (
	traceSuffix = ".trace"
	idleSuffix  = ".idle"
)

// maxName bounds the size in bytes of the name of a file, without its suffix.
const maxName = 240

// maxLine bounds the size of a request in bytes.
const maxLine = 64 << 10

// network splits an address: unix:PATH, or HOST:PORT.
func network(address string) (kind, name string) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return "unix", path
	}
	return "tcp", address
}

// Listen listens at an address: unix:PATH, or HOST:PORT.
func Listen(address string) (net.Listener, error) {
	kind, name := network(address)
	if kind == "unix" { // one that an earlier service has left
		if info, err := os.Lstat(name); err == nil && info.Mode()&fs.ModeSocket != 0 {
			if err := os.Remove(name); err != nil {
				return nil, err
			}
		}
	}
	return net.Listen(kind, name)
}

// Serve answers requests until the listener is closed, and writes what was executed in intervals into a directory.
func Serve(l net.Listener, c *trace.Control, dir string) {
	var connections sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // too many files
			continue
		}
		connections.Go(func() {
			defer conn.Close()
			// In the end, a client that hasn't sent a request doesn't wait for an answer.
			defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })()
			lines := bufio.NewScanner(conn)
			lines.Buffer(nil, maxLine)
			for lines.Scan() {
				answer := "ok"
				if err := serve(lines.Text(), c, dir); err != nil {
					answer = "error " + strings.ReplaceAll(err.Error(), "\n", " ")
				}
				if _, err := fmt.Fprintln(conn, answer); err != nil {
					return
				}
			}
		})
	}
	cancel()
	connections.Wait()
}

func serve(line string, c *trace.Control, dir string) error {
	word, name, _ := strings.Cut(line, " ")
	switch {
	case name == "":
		return fmt.Errorf("%q: want start NAME or stop NAME", line)
	case word == "start" && len(url.PathEscape(name)) > maxName:
		return fmt.Errorf("%.40q... is too long for the name of a file", name)
	case word == "start":
		return c.Start(name)
	case word == "stop":
		i, err := c.Stop(name)
		if err != nil {
			return err
		}
		return Write(dir, i)
	}
	return fmt.Errorf("%q: want start NAME or stop NAME", line)
}

// Write puts what was executed in an interval into a table.
func Write(dir string, i *trace.Interval) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	file := dir + string(filepath.Separator) + url.PathEscape(i.Name)
	b, err := i.Trace.Marshal()
	if err != nil {
		return err
	}
	// One without the other is no trace.
	if err := os.Remove(file + idleSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := wholefile.Write(file+traceSuffix, b, 0o666); err != nil || i.Idle == nil {
		return err
	}
	idle, err := trace.EncodeIdle(i.Idle, nil)
	if err != nil {
		return err
	}
	return wholefile.Write(file+idleSuffix, idle, 0o666)
}

// Read returns the intervals of a table, sorted by name. Idle is nil if it isn't known which functions weren't executed.
func Read(dir string) ([]*trace.Interval, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []*trace.Interval
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		escaped, ok := strings.CutSuffix(e.Name(), traceSuffix)
		if !ok {
			continue
		}
		name, err := url.PathUnescape(escaped)
		if err != nil {
			continue // not one of these
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		t, err := trace.Unmarshal(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		i := &trace.Interval{Name: name, Result: &trace.Result{Trace: t}}
		idle := strings.TrimSuffix(file, traceSuffix) + idleSuffix
		switch b, err := os.ReadFile(idle); {
		case err == nil:
			if i.Idle, _, err = trace.DecodeIdle(b); err != nil {
				return nil, fmt.Errorf("%s: %w", idle, err)
			}
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
		list = append(list, i)
	}
	slices.SortFunc(list, func(a, b *trace.Interval) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// A Client has the addresses of services. It reports the begin and end of tests to them.
type Client []string

// NewClient returns a client of the services whose addresses are in a variable's value: none if that is empty, so
// that tests may always call it.
func NewClient(addresses string) Client {
	return strings.FieldsFunc(addresses, func(r rune) bool { return r == ',' })
}

// Start opens an interval of all services. If one of them refuses, no interval is left open.
func (c Client) Start(ctx context.Context, name string) error {
	for i, a := range c {
		if err := ask(ctx, a, "start "+name); err != nil {
			for _, opened := range c[:i] {
				_ = ask(ctx, opened, "stop "+name)
			}
			return err
		}
	}
	return nil
}

// Stop closes an interval of all services.
func (c Client) Stop(ctx context.Context, name string) (err error) {
	for _, a := range c {
		err = errors.Join(err, ask(ctx, a, "stop "+name))
	}
	return err
}

func ask(ctx context.Context, address, line string) error {
	if strings.Contains(line, "\n") || len(line) >= maxLine {
		return fmt.Errorf("%.40q is no name of an interval", line)
	}
	kind, name := network(address)
	conn, err := new(net.Dialer).DialContext(ctx, kind, name)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if _, err := fmt.Fprintln(conn, line); err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return fmt.Errorf("%s: no answer: %w", address, errors.Join(err, ctx.Err()))
	}
	if answer = strings.TrimSuffix(answer, "\n"); answer != "ok" {
		return fmt.Errorf("%s: %s", address, strings.TrimPrefix(answer, "error "))
	}
	return nil
}
