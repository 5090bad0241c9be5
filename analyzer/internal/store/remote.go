package store

import (
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
	"slices"
	"strings"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"
)

const (
	// maxMemory is how many bytes of a content are kept in memory.
	maxMemory = 256 << 10
	// How often Put writes anew what it doesn't find afterwards.
	maxAttempts = 2

	firstBackoff   = 100 * time.Millisecond
	longestBackoff = 5 * time.Second
)

// protocol is the protocol that a server speaks. Each method is one exchange, or a few
// of them, repeated as Remote.call says; digests are without duplicates and
// never those of empty contents.
type protocol interface {
	// entry returns the bytes of an entry, or ErrNotFound, or ErrCorrupt.
	entry(ctx context.Context, key Key) ([]byte, error)
	setEntry(ctx context.Context, key Key, e *repb.ActionResult, data []byte) error
	// contents reads contents into sinks, which it resets before each attempt. A missing content is
	// ErrIncomplete. What a sink gets isn't verified.
	contents(ctx context.Context, sinks []*sink) error
	// missing returns which of digests the server doesn't have.
	missing(ctx context.Context, digests []*repb.Digest) ([]*repb.Digest, error)
	upload(ctx context.Context, blobs []blob) error
	// missingIsCheap reports whether missing may be called before an upload.
	missingIsCheap() bool
	// describe returns lines about the server for people.
	describe(ctx context.Context) ([]string, error)
	close() error
}

// Remote is a store on a server, reached by HTTP or gRPC. It verifies everything that it reads.
type Remote struct {
	access
	protocol
	*caller
}

// String returns the location.
func (r *Remote) String() string { return r.where }

func newRemote(p locationPart, o Options) (*Remote, error) {
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
		c.sent = []string{p.user.Username(), password}
	}
	var config *tls.Config
	if p.tls() {
		var err error
		if config, err = tlsConfig(o); err != nil {
			return nil, err
		}
	}
	r := new(Remote)
	r.access = access{r, o.mode()}
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

func (r *Remote) used(Key) {}

func (r *Remote) result(ctx context.Context, key Key, e *repb.ActionResult) (*Result, error) {
	sinks := map[string]*sink{}
	var wanted []*sink
	for _, d := range digestsOf(e) {
		s := &sink{digest: d, sum: sha256.New()}
		if sinks[d.Hash] = s; d.SizeBytes > 0 {
			wanted = append(wanted, s)
		}
	}
	var result *Result
	err := r.contents(ctx, wanted)
	if err == nil {
		result, err = newResult(e, func(d *repb.Digest) (*io.SectionReader, io.Closer, error) {
			return sinks[d.Hash].verified(r.where)
		})
	}
	if err != nil {
		for _, s := range sinks {
			s.Close()
		}
		return nil, fmt.Errorf("entry %s: %w", key, err)
	}
	return result, nil
}

func (r *Remote) check(ctx context.Context, key Key, e *repb.ActionResult) error {
	missing, err := r.missing(ctx, nonEmptyDigests(e))
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%w: entry %s: blob %s is missing in %s", ErrIncomplete, key, missing[0].Hash, r)
	}
	return err
}

func (r *Remote) put(ctx context.Context, key Key, res *Result, damaged bool) (err error) {
	// Whether the result is there now: a server may keep a damaged content, since
	// it has one of that digest. And when two processes write an entry while a
	// third one reads it, some servers lose it.
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
			// To a caller who has just written, it is no miss.
			return r.patience.addLost(start, fmt.Errorf("%s doesn't give back what was recorded: %v", r, err))
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

func (r *Remote) set(ctx context.Context, key Key, res *Result) error {
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
	blobs = slices.DeleteFunc(blobs, func(b blob) bool { return b.digest.SizeBytes == 0 })
	if !all && r.missingIsCheap() {
		missing, err := r.missing(ctx, nonEmptyDigests(e))
		if err != nil {
			return err
		}
		blobs = slices.DeleteFunc(blobs, func(b blob) bool {
			return !slices.ContainsFunc(missing, func(d *repb.Digest) bool { return d.Hash == b.digest.Hash })
		})
	}
	if err := r.upload(ctx, blobs); err != nil {
		return err
	}
	return r.setEntry(ctx, key, e, data)
}

// callError is the failure of a call to a server or, if call is empty, of all calls under way.
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

// asIncomplete turns ErrNotFound, from reading a content, into ErrIncomplete.
func (c *caller) asIncomplete(hash string, err error) error {
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: blob %s is missing in %s", ErrIncomplete, hash, c.where)
	}
	return err
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
		e, ok := errors.AsType[*callError](err)
		if !ok {
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
	Spool
	digest *repb.Digest
	sum    hash.Hash
	long   bool
	err    error // of this machine, such as a full disk
}

// reset makes the sink empty, for another attempt.
func (s *sink) reset() {
	s.Close()
	*s = sink{Spool: Spool{Memory: maxMemory}, digest: s.digest, sum: sha256.New()}
}

// Write implements io.Writer. It fails, with errTooLong, for more bytes than
// the digest says.
func (s *sink) Write(p []byte) (n int, err error) {
	if s.long = s.size+int64(len(p)) > s.digest.SizeBytes; s.long {
		return 0, errTooLong
	}
	s.sum.Write(p)
	n, s.err = s.Spool.Write(p)
	return n, s.err
}

// verified returns the content, which is closed by the closer, if it is what
// the digest says.
func (s *sink) verified(from string) (*io.SectionReader, io.Closer, error) {
	if s.long {
		return nil, nil, fmt.Errorf("%w: blob %s of %s has more than %d bytes", ErrCorrupt, s.digest.Hash, from, s.digest.SizeBytes)
	}
	if s.size != s.digest.SizeBytes {
		return nil, nil, fmt.Errorf("%w: blob %s of %s has %d bytes, want %d", ErrCorrupt, s.digest.Hash, from, s.size, s.digest.SizeBytes)
	}
	if got := hex.EncodeToString(s.sum.Sum(nil)); got != s.digest.Hash {
		return nil, nil, fmt.Errorf("%w: blob %s of %s has the content of %s", ErrCorrupt, s.digest.Hash, from, got)
	}
	return s.Content(), s, nil
}
