package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	maxHelperOutput = 1 << 20
	// As long as Bazel keeps what a helper printed without an expiry.
	helperLifetime = 30 * time.Minute
)

// helperFor returns the program of the last of helpers that is for host, or "".
// The last one counts, as with Bazel's flag.
func helperFor(helpers []string, host string) string {
	for _, helper := range slices.Backward(helpers) {
		pattern, program, ok := strings.Cut(helper, "=")
		if !ok {
			return helper
		}
		if pattern == host || strings.HasPrefix(pattern, "*.") && strings.HasSuffix(host, pattern[1:]) {
			return program
		}
	}
	return ""
}

// credentials are the headers for one server. The zero value has none.
type credentials struct {
	static  []Header
	program string // credential helper, or ""
	uri     string
	timeout time.Duration

	mu      sync.Mutex
	dynamic []Header
	expires time.Time
	sent    []string // values that were sent or are part of what was
	silent  error    // set if the helper didn't answer: it isn't called again
}

// get returns the headers to send now.
func (c *credentials) get(ctx context.Context) ([]Header, error) {
	if c.program == "" {
		return c.static, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent != nil {
		return nil, c.silent
	}
	if !time.Now().Before(c.expires) {
		// Only one at a time; the others wait for its answer.
		h, expires, err := c.ask(ctx)
		if err != nil {
			return nil, err
		}
		for _, x := range h {
			c.sent = append(c.sent, string(x.Value))
		}
		if len(c.sent) > 100 {
			c.sent = c.sent[len(c.sent)-100:]
		}
		c.dynamic, c.expires = h, expires
	}
	return append(c.dynamic[:len(c.dynamic):len(c.dynamic)], c.static...), nil
}

// forget drops the helper's answer, because a server doesn't accept it, and reports
// whether calling the helper again may help.
func (c *credentials) forget() bool {
	if c.program == "" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expires = time.Time{}
	return true
}

// ask runs the helper.
func (c *credentials) ask(caller context.Context) ([]Header, time.Time, error) {
	ctx, cancel := context.WithTimeout(caller, c.timeout)
	defer cancel()
	fail := func(format string, args ...any) ([]Header, time.Time, error) {
		return nil, time.Time{}, fmt.Errorf("credential helper %s for %s: %s", c.program, c.uri, fmt.Sprintf(format, args...))
	}
	request, err := json.Marshal(map[string]string{"uri": c.uri})
	if err != nil {
		return fail("%v", err)
	}
	cmd := exec.CommandContext(ctx, c.program, "get")
	cmd.Stdin = bytes.NewReader(request)
	out := &limitedBuffer{limit: maxHelperOutput}
	cmd.Stdout = out
	cmd.WaitDelay = 100 * time.Millisecond
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			h, expires, err := fail("no answer: %v", ctx.Err())
			if caller.Err() == nil {
				c.silent = err
			}
			return h, expires, err
		}
		if out.full {
			return fail("more than %d bytes of output", maxHelperOutput)
		}
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return fail("%v; its messages may hold secrets and aren't shown: run it by hand, with %s on standard input and the argument get", exit, request)
		}
		return fail("%v", err)
	}
	h, expires, err := parseHelper(out.Bytes())
	if err != nil {
		return fail("%v", err)
	}
	if expires.IsZero() {
		expires = time.Now().Add(helperLifetime)
	}
	return h, expires, nil
}

// parseHelper parses the answer of a credential helper:
//
//	{"headers": {"NAME": ["VALUE", ...], ...}, "expires": "RFC 3339"}
//
// Other fields are ignored, as Bazel does. Errors don't show any of it.
func parseHelper(b []byte) ([]Header, time.Time, error) {
	var answer struct {
		Headers map[string][]string `json:"headers"`
		Expires string              `json:"expires"`
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&answer); err != nil || d.More() {
		return nil, time.Time{}, errors.New(`want {"headers": {"NAME": ["VALUE"]}} on standard output`)
	}
	var expires time.Time
	if answer.Expires != "" {
		var err error
		if expires, err = time.Parse(time.RFC3339, answer.Expires); err != nil {
			return nil, time.Time{}, errors.New("expires: want a time like 2006-01-02T15:04:05Z")
		}
	}
	var h []Header
	for _, n := range slices.Sorted(maps.Keys(answer.Headers)) {
		for _, v := range answer.Headers[n] {
			if err := checkHeader(n, v); err != nil {
				return nil, time.Time{}, errors.New("it names a header that can't be sent, or a value that isn't printable")
			}
			h = append(h, Header{n, Secret(v)})
		}
	}
	return h, expires, nil
}

// scrub takes out of a message all values that were sent: a server may repeat
// them.
func (c *credentials) scrub(message string) string {
	hide := func(v string) {
		for _, s := range append(strings.Fields(v), v) {
			if len(s) >= 4 {
				message = strings.ReplaceAll(message, s, hidden)
			}
		}
	}
	for _, h := range c.static {
		hide(string(h.Value))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.sent {
		hide(v)
	}
	return message
}

var errTooLong = errors.New("too long")

// limitedBuffer fails when more than limit bytes are written to it.
type limitedBuffer struct {
	bytes.Buffer
	limit int
	full  bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.limit {
		b.full = true
		return 0, errTooLong
	}
	return b.Buffer.Write(p)
}
