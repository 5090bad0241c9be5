package store

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"golang.org/x/sync/errgroup"
)

const (
	maxConnections = 64
	// How many contents of one result are moved at once.
	transfers = 4
)

// httpCache is Bazel's HTTP cache protocol: GET, PUT and HEAD of URL/ac/KEY and
// URL/cas/SHA256.
type httpCache struct {
	*caller
	base   string
	client *http.Client
}

func newHTTP(c *caller, p locationPart, config *tls.Config) *httpCache {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = config
	t.MaxConnsPerHost, t.MaxIdleConnsPerHost = maxConnections, maxConnections
	t.DisableCompression = true // contents are what they are, without an encoding
	t.MaxResponseHeaderBytes = 64 << 10
	// A redirect would carry the headers to somebody else.
	redirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &httpCache{caller: c, base: p.String(), client: &http.Client{Transport: t, CheckRedirect: redirect}}
}

func (h *httpCache) close() error {
	h.client.CloseIdleConnections()
	return nil
}

// missingIsCheap implements protocol: a HEAD for each content isn't cheaper than most
// contents, and Bazel doesn't ask either.
func (h *httpCache) missingIsCheap() bool { return false }

func (h *httpCache) describe(context.Context) ([]string, error) {
	return []string{"Bazel's HTTP cache protocol"}, nil
}

// exchange makes a request, as caller.call does; body may be nil. handle reads the answer.
func (h *httpCache) exchange(ctx context.Context, method, path string, body *io.SectionReader, handle func(*http.Response) error) error {
	return h.call(ctx, method+" "+path, method == http.MethodPut, func(ctx context.Context, headers []Header) error {
		return h.attempt(ctx, headers, method, path, body, handle)
	})
}

// attempt makes a request once. Statuses other than 2xx are errors.
func (h *httpCache) attempt(ctx context.Context, headers []Header, method, path string, body *io.SectionReader, handle func(*http.Response) error) error {
	name := method + " " + path
	req, err := http.NewRequestWithContext(ctx, method, h.base+path, nil)
	if err != nil {
		return h.fail(name, "not a valid request", false, nil)
	}
	if body != nil {
		req.ContentLength = body.Size()
		req.GetBody = func() (io.ReadCloser, error) {
			return io.NopCloser(watchedReader{io.NewSectionReader(body, 0, body.Size()), h.patience}), nil
		}
		req.Body, _ = req.GetBody()
		if body.Size() == 0 {
			req.Body = http.NoBody
		}
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	req.Header.Set("User-Agent", "tasting")
	for _, x := range headers {
		req.Header.Add(x.Name, string(x.Value))
	}
	resp, err := h.client.Do(req)
	if err != nil {
		// Without the URL, which is in name.
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
		return h.fail(name, err.Error(), !untrusted, nil)
	}
	defer func() {
		// A connection whose answer was read to its end is used again.
		io.CopyN(io.Discard, resp.Body, 4<<10)
		resp.Body.Close()
	}()
	switch s := resp.StatusCode; {
	case s >= 200 && s < 300 && s != http.StatusPartialContent:
		return handle(resp)
	case (s == http.StatusNotFound || s == http.StatusGone) && method != http.MethodPut:
		return ErrNotFound
	default:
		message := "status " + resp.Status
		if s >= 300 && s < 400 {
			message += "; redirects are not followed"
		}
		again := s == http.StatusRequestTimeout || s == http.StatusTooManyRequests ||
			s == http.StatusInternalServerError || s >= 502 && s <= 504
		e := h.fail(name, message, again, nil)
		e.denied = s == http.StatusUnauthorized
		return e
	}
}

func (h *httpCache) entry(ctx context.Context, key Key) (data []byte, err error) {
	path := "/ac/" + key.String()
	err = h.exchange(ctx, http.MethodGet, path, nil, func(resp *http.Response) (err error) {
		if data, err = io.ReadAll(io.LimitReader(resp.Body, maxEntry+1)); err != nil {
			return h.fail("GET "+path, err.Error(), true, nil)
		}
		return h.notPage("GET "+path, resp, data)
	})
	return data, err
}

func (h *httpCache) setEntry(ctx context.Context, key Key, _ *repb.ActionResult, data []byte) error {
	return h.put(ctx, "/ac/"+key.String(), Content(data))
}

func (h *httpCache) put(ctx context.Context, path string, content *io.SectionReader) error {
	return h.exchange(ctx, http.MethodPut, path, content, func(resp *http.Response) error {
		start, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		return h.notPage("PUT "+path, resp, start)
	})
}

// notPage returns an error if the answer is a web page, of a login or captive portal. The answer to a creation may
// be a page.
func (h *httpCache) notPage(name string, resp *http.Response, body []byte) error {
	const html = "text/html"
	if resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), html) && strings.HasPrefix(http.DetectContentType(body), html) {
		return h.fail(name, "the answer is a web page: this isn't a cache, or wants a login", false, nil)
	}
	return nil
}

func (h *httpCache) contents(ctx context.Context, sinks []*sink) error {
	return parallel(ctx, sinks, func(ctx context.Context, s *sink) error {
		path := "/cas/" + s.digest.Hash
		return h.asIncomplete(s.digest.Hash, h.exchange(ctx, http.MethodGet, path, nil, func(resp *http.Response) error {
			s.reset()
			if _, err := io.Copy(s, watchedReader{resp.Body, h.patience}); err != nil && !s.long {
				return h.fail("GET "+path, err.Error(), s.err == nil, s.err)
			}
			return nil
		}))
	})
}

func (h *httpCache) missing(ctx context.Context, digests []*repb.Digest) ([]*repb.Digest, error) {
	var mu sync.Mutex
	var missing []*repb.Digest
	err := parallel(ctx, digests, func(ctx context.Context, d *repb.Digest) error {
		err := h.exchange(ctx, http.MethodHead, "/cas/"+d.Hash, nil, func(resp *http.Response) error {
			if resp.ContentLength >= 0 && resp.ContentLength != d.SizeBytes {
				return ErrNotFound
			}
			return nil
		})
		if errors.Is(err, ErrNotFound) {
			mu.Lock()
			missing = append(missing, d)
			mu.Unlock()
			return nil
		}
		return err
	})
	return missing, err
}

func (h *httpCache) upload(ctx context.Context, blobs []blob) error {
	return parallel(ctx, blobs, func(ctx context.Context, b blob) error {
		return h.put(ctx, "/cas/"+b.digest.Hash, io.NewSectionReader(b.content, 0, b.digest.SizeBytes))
	})
}

// parallel calls f for each element of list. The first error ends the context of all calls.
func parallel[T any](ctx context.Context, list []T, f func(context.Context, T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(transfers)
	for _, x := range list {
		g.Go(func() error { return f(ctx, x) })
	}
	return g.Wait()
}
