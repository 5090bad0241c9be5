package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"
)

const (
	// Contents up to this size, in bytes, are kept in memory; others in an
	// unnamed temporary file.
	maxMemory = 256 << 10
	// How often Put writes anew what it doesn't find afterwards.
	maxAttempts = 2

	firstBackoff   = 100 * time.Millisecond
	longestBackoff = 5 * time.Second
)

// protocol is how a server is spoken to. Each method is one exchange, or a few
// of them, repeated as Remote.call says; digests are without duplicates and
// never those of empty contents.
type protocol interface {
	// entry returns the bytes of an entry, or ErrNotFound, or ErrCorrupt.
	entry(ctx context.Context, key Key) ([]byte, error)
	setEntry(ctx context.Context, key Key, e *repb.ActionResult, data []byte) error
	// contents hands over the contents of digests; a missing one is
	// ErrIncomplete. What sink gets isn't verified.
	contents(ctx context.Context, digests []*repb.Digest, sink func(*repb.Digest) *sink) error
	// missing returns which of digests the server doesn't have.
	missing(ctx context.Context, digests []*repb.Digest) ([]*repb.Digest, error)
	upload(ctx context.Context, blobs []blob) error
	// knows tells whether missing is cheap enough to be asked before an upload.
	knows() bool
	// describe returns what the server says of itself.
	describe(ctx context.Context) ([]string, error)
	close() error
}

// Remote is a store on a server, reached by HTTP or gRPC. What it reads is
// verified as if it came from anybody.
type Remote struct {
	place    place
	mode     Mode
	protocol protocol
	*caller
}

// String returns the location.
func (r *Remote) String() string { return r.place.String() }

// Close releases connections.
func (r *Remote) Close() error { return r.protocol.close() }

func newRemote(p place, o Options) (*Remote, error) {
	c := &credentials{
		static:  o.Headers,
		program: helperFor(o.CredentialHelpers, p.hostname()),
		uri:     p.helperURI(),
		timeout: o.timeout(),
	}
	if p.user != nil {
		password, _ := p.user.Password()
		value := "Basic " + base64.StdEncoding.EncodeToString([]byte(p.user.Username()+":"+password))
		c.static = append(c.static[:len(c.static):len(c.static)], Header{"Authorization", Secret(value)})
		c.seen = []string{p.user.Username(), password}
	}
	var config *tls.Config
	if p.tls() {
		var err error
		if config, err = tlsConfig(o); err != nil {
			return nil, err
		}
	}
	r := &Remote{place: p, mode: o.mode()}
	r.caller = &caller{where: p.String(), credentials: c, retries: o.retries(), step: func(string) {}}
	r.patience = newPatience(o.timeout(), &callError{where: p.String(), message: fmt.Sprintf("no answer within %v", o.timeout()), err: context.DeadlineExceeded})
	if p.grpc() {
		g, err := newGRPC(r.caller, p, config, o)
		if err != nil {
			return nil, err
		}
		r.protocol = g
	} else {
		r.protocol = newHTTP(r.caller, p, config)
	}
	return r, nil
}

func tlsConfig(o Options) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.TLSCertificate != "" {
		pem, err := os.ReadFile(o.TLSCertificate)
		if err != nil {
			return nil, fmt.Errorf("--store_tls_certificate: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--store_tls_certificate: %s: no certificate in PEM form", o.TLSCertificate)
		}
	}
	if o.TLSClientCertificate != "" {
		pair, err := tls.LoadX509KeyPair(o.TLSClientCertificate, o.TLSClientKey)
		if err != nil {
			return nil, fmt.Errorf("--store_tls_client_certificate, --store_tls_client_key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Get implements Store.
func (r *Remote) Get(ctx context.Context, key Key) (*Result, error) {
	if !r.mode.CanRead() {
		return nil, notAllowed("read", r.String(), r.mode)
	}
	return r.get(ctx, key)
}

func (r *Remote) get(ctx context.Context, key Key) (*Result, error) {
	e, err := r.readEntry(ctx, key)
	if err != nil {
		return nil, err
	}
	sinks := map[string]*sink{}
	closeAll := func() {
		for _, s := range sinks {
			s.Close()
		}
	}
	wanted, err := digestsOf(e)
	if err != nil {
		return nil, fmt.Errorf("entry %s of %s: %w", key, r, err)
	}
	err = r.protocol.contents(ctx, wanted, func(d *repb.Digest) *sink {
		if s := sinks[d.Hash]; s != nil {
			s.Close() // another attempt
		}
		s := newSink(d)
		sinks[d.Hash] = s
		return s
	})
	if err != nil {
		closeAll()
		return nil, fmt.Errorf("entry %s: %w", key, err)
	}
	result, err := newResult(e, func(d *repb.Digest) (*io.SectionReader, io.Closer, error) {
		if d.SizeBytes == 0 {
			s := newSink(d)
			return s.verified(r.place)
		}
		s := sinks[d.Hash]
		if s == nil {
			return nil, nil, fmt.Errorf("%w: entry %s: blob %s is missing in %s", ErrIncomplete, key, d.Hash, r)
		}
		return s.verified(r.place)
	})
	if err != nil {
		closeAll()
		return nil, fmt.Errorf("entry %s: %w", key, err)
	}
	return result, nil
}

func (r *Remote) readEntry(ctx context.Context, key Key) (*repb.ActionResult, error) {
	data, err := r.protocol.entry(ctx, key)
	if err != nil {
		return nil, err
	}
	if len(data) > maxEntry {
		return nil, fmt.Errorf("%w: entry %s of %s is larger than %d bytes", ErrCorrupt, key, r, maxEntry)
	}
	e, err := readEntry(key, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r, err)
	}
	return e, nil
}

// digestsOf returns the digests of the contents of e that aren't empty, each
// once.
func digestsOf(e *repb.ActionResult) ([]*repb.Digest, error) {
	all := []*repb.Digest{e.StdoutDigest}
	for _, f := range e.OutputFiles {
		all = append(all, f.Digest)
	}
	size := map[string]int64{}
	var l []*repb.Digest
	for _, d := range all {
		if s, ok := size[d.Hash]; ok {
			if s != d.SizeBytes {
				return nil, fmt.Errorf("%w: blob %s: two sizes", ErrCorrupt, d.Hash)
			}
			continue
		}
		size[d.Hash] = d.SizeBytes
		if d.SizeBytes > 0 {
			l = append(l, d)
		}
	}
	return l, nil
}

// probe tells what is recorded under key, if its contents are there; they
// aren't read.
func (r *Remote) probe(ctx context.Context, key Key) (*Info, error) {
	if !r.mode.CanRead() {
		return nil, notAllowed("read", r.String(), r.mode)
	}
	e, err := r.readEntry(ctx, key)
	if err != nil {
		return nil, err
	}
	digests, err := digestsOf(e)
	if err != nil {
		return nil, err
	}
	missing, err := r.protocol.missing(ctx, digests)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w: entry %s: blob %s is missing in %s", ErrIncomplete, key, missing[0].Hash, r)
	}
	return infoOf(e), nil
}

// Put implements Store.
func (r *Remote) Put(ctx context.Context, key Key, res *Result) error {
	if !r.mode.CanWrite() {
		return notAllowed("written", r.String(), r.mode)
	}
	if !r.mode.CanRead() {
		return r.write(ctx, key, res, true)
	}
	old, err := r.get(ctx, key)
	if err == nil {
		old.Close()
		return fmt.Errorf("%w for %s in %s", ErrExists, key, r)
	}
	damaged := errors.Is(err, ErrCorrupt) || errors.Is(err, ErrIncomplete)
	if !damaged && !errors.Is(err, ErrNotFound) {
		return err
	}
	// A look at what is there now: a server may believe that it has a content
	// which is damaged, and not take it; and when two write one entry while a
	// third reads it, some servers lose it.
	recorded := func() error {
		if !damaged {
			_, err := r.readEntry(ctx, key)
			return err
		}
		now, err := r.get(ctx, key)
		if err == nil {
			now.Close()
		}
		return err
	}
	start := time.Now()
	for attempt := 0; ; attempt++ {
		if err := r.write(ctx, key, res, damaged); err != nil {
			return err
		}
		for range 2 {
			if err = recorded(); !IsMiss(err) {
				return err
			}
			if perr := pause(ctx, attempt); perr != nil {
				return perr
			}
		}
		if attempt == maxAttempts {
			return r.patience.lose(start, fmt.Errorf("%s doesn't give back what was recorded: %w", r, lost{err}))
		}
	}
}

// pause waits before another attempt, the longer the more there were.
func pause(ctx context.Context, attempt int) error {
	d := min(firstBackoff<<attempt, longestBackoff)
	// Clients that failed together shouldn't come back together.
	d = d/2 + rand.N(d/2+1)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// lost is a miss that isn't one for who has just written.
type lost struct{ miss error }

func (l lost) Error() string { return l.miss.Error() }

// Set implements Store.
func (r *Remote) Set(ctx context.Context, key Key, res *Result) error {
	if !r.mode.CanWrite() {
		return notAllowed("written", r.String(), r.mode)
	}
	return r.write(ctx, key, res, !r.mode.CanRead())
}

// write uploads contents, then the entry: a reader sees no entry or a whole
// one. With all, contents are sent even if the server says that it has them.
func (r *Remote) write(ctx context.Context, key Key, res *Result, all bool) error {
	e, blobs, err := newEntry(key, res)
	if err != nil {
		return err
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(e)
	if err != nil {
		return err
	}
	var send []blob
	for _, b := range blobs {
		if b.digest.SizeBytes > 0 {
			send = append(send, b)
		}
	}
	if !all && r.protocol.knows() && len(send) > 0 {
		digests, err := digestsOf(e)
		if err != nil {
			return err
		}
		missing, err := r.protocol.missing(ctx, digests)
		if err != nil {
			return err
		}
		want := map[string]bool{}
		for _, d := range missing {
			want[d.Hash] = true
		}
		var some []blob
		for _, b := range send {
			if want[b.digest.Hash] {
				some = append(some, b)
			}
		}
		send = some
	}
	if err := r.protocol.upload(ctx, send); err != nil {
		return err
	}
	return r.protocol.setEntry(ctx, key, e, data)
}

func notAllowed(what, where string, m Mode) error {
	return fmt.Errorf("%w: %s must not be %s (mode %s)", ErrNotAllowed, where, what, m)
}

// callError is the failure of a call to a server, or if call is empty, of all that are under way.
type callError struct {
	where, call, message string
	err                  error // for errors.Is, or nil
	again                bool  // may pass
	denied               bool  // the credentials weren't accepted
}

func (e *callError) Error() string {
	if e.call == "" {
		return e.where + ": " + e.message
	}
	return e.where + ": " + e.call + ": " + e.message
}

func (e *callError) Unwrap() error { return e.err }

// caller makes calls to one server.
type caller struct {
	where       string
	credentials *credentials
	retries     int
	patience    *patience

	// step is called before and after each attempt of a call, for tests that
	// stop there.
	step func(string)
}

// fail makes an error of a message that may come from anywhere.
func (c *caller) fail(call, message string, again bool, err error) *callError {
	message = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return ' '
		}
		return r
	}, c.credentials.scrub(message))
	if len(message) > 300 {
		message = strings.ToValidUTF8(message[:300], "") + "..."
	}
	return &callError{where: c.where, call: call, message: message, again: again, err: err}
}

// call makes a call that reads or writes, and repeats it after a failure that may pass. f gets
// the headers to send, and a context that ends with the patience.
func (c *caller) call(ctx context.Context, name string, write bool, f func(context.Context, []Header) error) error {
	headers, err := c.credentials.get(ctx)
	if err != nil {
		return c.fail(name, err.Error(), false, ctx.Err())
	}
	if err := c.patience.begin(); err != nil {
		return err
	}
	start := time.Now()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.patience.gone, cancel)()
	err = c.repeat(inner, name, write, headers, f)
	if err != nil && !IsMiss(err) && ctx.Err() != nil {
		err = c.fail(name, ctx.Err().Error(), false, ctx.Err())
	}
	return c.patience.done(start, write, err)
}

func (c *caller) repeat(ctx context.Context, name string, write bool, headers []Header, f func(context.Context, []Header) error) error {
	renewed := false
	for attempt := 0; ; attempt++ {
		err := ctx.Err()
		if err == nil {
			c.step(name)
			err = f(ctx, headers)
			c.step("after " + name)
		}
		var e *callError
		if err == nil || !errors.As(err, &e) {
			return err
		}
		if e.denied && !renewed && c.credentials.forget() {
			var herr error
			if headers, herr = c.credentials.get(ctx); herr != nil {
				return c.fail(name, herr.Error(), false, nil)
			}
			renewed = true
			attempt--
			continue
		}
		if !e.again || attempt >= c.retries || c.patience.failing(write) || pause(ctx, attempt) != nil {
			return err
		}
	}
}

// sink receives a content of known digest.
type sink struct {
	digest *repb.Digest
	n      int64
	sum    hash.Hash
	memory bytes.Buffer
	file   *os.File
	long   bool
	err    error // of this machine, like a full disk
}

func newSink(d *repb.Digest) *sink { return &sink{digest: d, sum: sha256.New()} }

// Write implements io.Writer. It fails, with errTooLong, for more bytes than
// the digest says.
func (s *sink) Write(p []byte) (n int, err error) {
	if int64(len(p)) > s.digest.SizeBytes-s.n {
		s.long = true
		return 0, errTooLong
	}
	s.n += int64(len(p))
	s.sum.Write(p)
	if s.digest.SizeBytes <= maxMemory {
		return s.memory.Write(p)
	}
	defer func() { s.err = err }()
	if s.file == nil {
		f, err := os.CreateTemp("", "tasting-")
		if err != nil {
			return 0, err
		}
		s.file = f
		if err := os.Remove(f.Name()); err != nil {
			return 0, err
		}
	}
	return s.file.Write(p)
}

// full tells whether the content has as many bytes as it should.
func (s *sink) full() bool { return s.n == s.digest.SizeBytes }

// Close releases the content.
func (s *sink) Close() error {
	s.memory = bytes.Buffer{}
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}

// verified returns the content, which is closed by the closer, if it is what
// the digest says.
func (s *sink) verified(from place) (*io.SectionReader, io.Closer, error) {
	if s.long {
		return nil, nil, fmt.Errorf("%w: blob %s of %s has more than %d bytes", ErrCorrupt, s.digest.Hash, from, s.digest.SizeBytes)
	}
	if !s.full() {
		return nil, nil, fmt.Errorf("%w: blob %s of %s has %d bytes, want %d", ErrCorrupt, s.digest.Hash, from, s.n, s.digest.SizeBytes)
	}
	if got := hex.EncodeToString(s.sum.Sum(nil)); got != s.digest.Hash {
		return nil, nil, fmt.Errorf("%w: blob %s of %s has the content of %s", ErrCorrupt, s.digest.Hash, from, got)
	}
	if s.file != nil {
		return io.NewSectionReader(s.file, 0, s.n), s, nil
	}
	return io.NewSectionReader(bytes.NewReader(s.memory.Bytes()), 0, s.n), s, nil
}
