package driver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// A remote cache that is down costs each command of Bazel minutes, by the defaults of
// --remote_timeout and --remote_retries. "bazel test" pays that once; so does this program: only
// the command that runs the tests waits.

const (
	// noCache is for a command that builds nothing, and for one that would wait in vain.
	noCache = "--remote_cache="
	// uploadNothing keeps Bazel from uploading the files that its build events name: a command
	// fails if it can't.
	uploadNothing = "--experimental_build_event_upload_strategy=local"
)

// builtNothing returns flags for a command that builds nothing.
func (inv *invocation) builtNothing() []string {
	if inv.userValue("experimental_remote_downloader") != "" {
		return inv.aside() // it needs a cache
	}
	return append(inv.aside(), noCache)
}

// silence is whether the user's remote cache doesn't answer, which is found out once.
type silence struct {
	once   sync.Once
	silent bool
}

// cacheIsSilent reports whether the user's remote cache doesn't answer, and says so once.
func (inv *invocation) cacheIsSilent(ctx context.Context) bool {
	inv.silence.once.Do(func() {
		cache := inv.userValue("remote_cache")
		if inv.option("remote_executor") != "" || inv.userValue("experimental_remote_downloader") != "" || inv.userValue("remote_proxy") != "" {
			return
		}
		if err := silent(ctx, cache, maxSilence); err != nil {
			inv.silence.silent = true
			inv.say("the remote cache %s doesn't answer (%v): the tests are analysed without it", store.Redact(cache), err)
		}
	})
	return inv.silence.silent
}

// maxSilence is how long a remote cache may take for its first word.
const maxSilence = 5 * time.Second

// silent returns an error if nobody listens at the location of a remote cache, or says anything
// to a request within a time. Any answer will do: this isn't the user that the cache knows.
func silent(ctx context.Context, location string, limit time.Duration) error {
	scheme, rest, ok := strings.Cut(location, "://")
	if !ok {
		scheme, rest = "grpcs", location // as Bazel takes it
	}
	rest = strings.TrimRight(rest, "/")
	protocols := new(http.Protocols)
	method, body := http.MethodGet, []byte(nil)
	url := fmt.Sprintf("%s://%s/cas/%x", scheme, rest, sha256.Sum256(nil))
	switch scheme {
	case "http", "https":
		protocols.SetHTTP1(true)
	case "grpc", "grpcs":
		if _, _, err := net.SplitHostPort(rest); err != nil {
			return nil // of another form
		}
		protocols.SetUnencryptedHTTP2(true)
		protocols.SetHTTP2(true)
		method, body = http.MethodPost, make([]byte, 5) // an empty message
		url = strings.Replace(scheme, "grpc", "http", 1) + "://" + rest + "/build.bazel.remote.execution.v2.Capabilities/GetCapabilities"
	default:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("Te", "trailers")
	transport := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // nothing is believed
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	switch {
	case err == nil:
		response.Body.Close()
		return nil
	case errors.Is(err, syscall.ECONNREFUSED):
		return syscall.ECONNREFUSED
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer in %v", limit)
	}
	return nil
}
