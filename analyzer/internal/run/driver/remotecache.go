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

// If a remote cache is down, each command of Bazel waits for minutes, by the defaults of
// --remote_timeout and --remote_retries. Here only the command that runs the tests waits, as with "bazel test".

const (
	// noCache turns the remote cache off.
	noCache = "--remote_cache="
	// uploadNothing keeps Bazel from uploading the files that build events name. A failed upload fails the command.
	uploadNothing = "--experimental_build_event_upload_strategy=local"
)

// noBuildFlags returns flags for a command that builds nothing.
func (inv *invocation) noBuildFlags() []string {
	if inv.userValue("experimental_remote_downloader") != "" {
		return inv.noFilesFlags() // it needs a cache
	}
	return append(inv.noFilesFlags(), noCache)
}

// silence is the result of probeCache, which is called once.
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
		if err := probeCache(ctx, cache, maxSilence); err != nil {
			inv.silence.silent = true
			inv.say("the remote cache %s doesn't answer (%v): the tests are analysed without it", store.Redact(cache), err)
		}
	})
	return inv.silence.silent
}

// maxSilence is how long a remote cache may take for its first word.
const maxSilence = 5 * time.Second

// probeCache returns an error if a remote cache refuses connections or answers no request within limit. Any
// answer will do, because the request has no credentials.
func probeCache(ctx context.Context, location string, limit time.Duration) error {
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
	transport := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the answer isn't used
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
