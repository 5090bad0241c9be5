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
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// The user's flags may name files for build events, logs or a profile. This program calls Bazel several times,
// and the user wants the files of the call that runs the tests. So all other calls write elsewhere. If there
// is nothing to run, a call that builds nothing overwrites the files of an earlier call.

// fileOptions are options of Bazel that name files which each command writes.
var fileOptions = []string{
	"build_event_binary_file", "build_event_json_file", "build_event_text_file", "execution_log_binary_file", "execution_log_compact_file",
	"execution_log_json_file", "explain", "memory_profile", "profile", "remote_grpc_log",
}

// reportOptions are fileOptions and the server of build events. Both get a report even if nothing is built.
var reportOptions = append([]string{"bes_backend"}, fileOptions...)

// noFilesFlags returns flags that keep a command from writing the user's files.
func (inv *invocation) noFilesFlags() []string {
	flags := []string{"--bes_backend=", uploadNothing}
	for _, name := range fileOptions {
		if inv.option(name) != "" || inv.userValue(name) != "" {
			flags = append(flags, "--"+name+"="+filepath.Join(inv.tmp, "unused-"+name))
		}
	}
	return flags
}

// query returns queries about the build.
func (inv *invocation) query() *bazel.Query {
	flags := slices.Concat(inv.args, inv.noBuildFlags())
	return &bazel.Query{
		Bazel: inv.Bazel.WithRC(inv.rcFile()), File: filepath.Join(inv.tmp, "query"),
		Flags: func(command string) []string { return inv.flags.Known(command, flags) },
	}
}

// writeEvents copies a file of build events to the user's --build_event_json_file, if there is that flag.
func (inv *invocation) writeEvents(events string) {
	own := inv.userValue("build_event_json_file")
	if own == "" {
		return
	}
	b, err := os.ReadFile(events)
	if err == nil {
		err = os.WriteFile(in(inv.workspaceDir(), own), b, 0o666)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		inv.say("warning: build events can't be written: %v", err)
	}
}

// reportNothing has Bazel write the user's files if there is nothing to run.
func (inv *invocation) reportNothing(ctx context.Context) (code int, err error) {
	if !slices.ContainsFunc(reportOptions, func(name string) bool { return inv.userValue(name) != "" }) {
		return bazel.ExitOK, nil
	}
	targets := filepath.Join(inv.tmp, "nothing")
	if err := os.WriteFile(targets, nil, 0o666); err != nil {
		return 0, err
	}
	return inv.buildSilently(ctx, "--target_pattern_file="+targets)
}

// buildSilently runs bazelBuild, and passes Bazel's messages on if it fails.
func (inv *invocation) buildSilently(ctx context.Context, args ...string) (code int, err error) {
	var messages bytes.Buffer
	code, err = inv.bazelBuild(ctx, bazel.Streams{Out: inv.Out, Err: &messages}, args...)
	if err != nil || code != bazel.ExitOK {
		inv.Err.Write(messages.Bytes())
	}
	return code, err
}

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
