package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	remoteexecution "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"github.com/bazelbuild/remote-apis/build/bazel/semver"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestFaults has servers fail that are both Bazel's remote cache and the store: tasting test
// ends as bazel test does, and says the same of each test.
func TestFaults(t *testing.T) {
	const nobody = "127.0.0.1:1"
	hanging := hangingServer(t)
	addresses := map[string]string{
		"dead gRPC":      "grpc://" + nobody,
		"dead HTTP":      "http://" + nobody,
		"hanging gRPC":   "grpc://" + hanging,
		"hanging HTTP":   "http://" + hanging,
		"rejecting gRPC": "grpc://" + rejectingServer(t),
		"rejecting HTTP": "http://" + httpServer(t, http.StatusForbidden, http.StatusForbidden),
		"full gRPC":      "grpc://" + fullServer(t),
		"full HTTP":      "http://" + httpServer(t, http.StatusNotFound, http.StatusInsufficientStorage),
	}
	f := newFaults(t)
	for _, name := range slices.Sorted(maps.Keys(addresses)) {
		t.Run(name, func(t *testing.T) {
			f.compare(t, addresses[name], nil, "--remote_cache="+addresses[name])
		})
	}
	// What the user wants to have uploaded fails as with bazel test.
	failed := []int{uploadFailed, uploadFailed, uploadFailed}
	t.Run("dead BES backend", func(t *testing.T) {
		f.compare(t, filepath.Join(t.TempDir(), "store"), failed, "--bes_backend=grpc://"+nobody, "--experimental_build_event_upload_max_retries=0")
	})
	t.Run("dead cache with build events", func(t *testing.T) {
		f.compare(t, filepath.Join(t.TempDir(), "store"), failed, "--remote_cache=grpc://"+nobody, "--build_event_binary_file="+filepath.Join(t.TempDir(), "events"))
	})
}

// uploadFailed is Bazel's exit code if build events can't be uploaded.
const uploadFailed = 38

// faults is a workspace, and a Bazel for it.
type faults struct {
	*bazel
	edits int
}

func newFaults(t *testing.T) *faults {
	b := newBazel(t)
	b.setup, b.work, b.workspace = setups[0], t.TempDir(), filepath.Join(b.dir, "workspace")
	for name, content := range map[string]string{
		"BUILD.bazel": `load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

cc_library(
    name = "lib",
    srcs = ["lib.c"],
)

[cc_test(
    name = name,
    srcs = [name + ".c"],
    deps = [":lib"],
) for name in ["pass", "fail", "broken"]]
`,
		"pass.c":   "extern const int version;\nint main(void) { return version < 0; }\n",
		"fail.c":   "extern const int version;\nint main(void) { return version > 0; }\n",
		"broken.c": "int main(void) { return }\n",
	} {
		if err := os.WriteFile(filepath.Join(b.work, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"store", "state"} {
		if err := os.MkdirAll(filepath.Join(b.dir, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.sync(); err != nil {
		t.Fatal(err)
	}
	b.servers[b.workspace] = true
	return &faults{bazel: b}
}

// compare runs tests that pass, that fail, and that can't be built, by both. If codes is nil, Bazel has
// to end as it does without any server.
func (f *faults) compare(t *testing.T, store string, codes []int, flags ...string) {
	flags = append(flags, "--remote_timeout=1", "--remote_retries=0", "--jobs=2")
	if codes == nil {
		codes = []int{0, 3, 1}
	}
	for i, targets := range [][]string{{"//:pass"}, {"//:pass", "//:fail"}, {"--keep_going", "//:pass", "//:broken"}} {
		args := append(slices.Clone(flags), targets...)
		code, want, said := f.ends(t, f.program, slices.Concat(f.startup("test"), f.flags(), args))
		if code != codes[i] || len(want) == 0 {
			t.Errorf("bazel test %q: exit code %d, want %d\n%s", args, code, codes[i], said)
			continue
		}
		args = append([]string{"--audit=0", "--store=" + store, "--store_timeout=1s", "--store_retries=0"}, args...)
		code, got, said := f.ends(t, f.analyzer, slices.Concat([]string{"test"}, f.driverFlags(), args))
		// Bazel may end its events where an upload fails.
		if code != codes[i] || code != uploadFailed && !slices.Equal(got, want) {
			t.Errorf("tasting test %q: exit code %d, want %d; summary\n  %s\nwant\n  %s\n%s", args, code, codes[i], strings.Join(got, "\n  "), strings.Join(want, "\n  "), said)
		}
	}
}

var (
	testLine  = regexp.MustCompile(`(?m)^(//:\w+) +(\([a-z ]+\) )?([A-Z][A-Z ]*[A-Z])( in [0-9.]+s)?$`)
	totalLine = regexp.MustCompile(`(?m)^Executed \d+ out of \d+ tests?`)
)

// ends edits a source file, for all to be executed, and returns how a command ends, what its summary
// says of each test, and all that it has said.
func (f *faults) ends(t *testing.T, program string, args []string) (code int, summary []string, said string) {
	t.Helper()
	f.edits++
	if err := os.WriteFile(filepath.Join(f.workspace, "lib.c"), fmt.Appendf(nil, "const int version = %d;\n", f.edits), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	var out, messages bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = f.workspace, environ(), &out, &messages
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	for _, m := range testLine.FindAllStringSubmatch(out.String(), -1) {
		summary = append(summary, m[1]+" "+m[2]+m[3])
	}
	slices.Sort(summary)
	return cmd.ProcessState.ExitCode(), append(summary, totalLine.FindString(out.String())), messages.String() + out.String()
}

func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// hangingServer accepts connections and says nothing.
func hangingServer(t *testing.T) (address string) {
	l := listen(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
		}
	}()
	return l.Addr().String()
}

func httpServer(t *testing.T, get, put int) (address string) {
	l := listen(t)
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			w.WriteHeader(put)
		} else {
			w.WriteHeader(get)
		}
	}))
	return l.Addr().String()
}

func rejectingServer(t *testing.T) (address string) {
	s := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		return status.Error(codes.PermissionDenied, "not for you")
	}))
	return serve(t, s)
}

func serve(t *testing.T, s *grpc.Server) (address string) {
	l := listen(t)
	t.Cleanup(s.Stop)
	go s.Serve(l)
	return l.Addr().String()
}

// full is a server that has nothing, and no room for anything.
type full struct {
	remoteexecution.UnimplementedCapabilitiesServer
	remoteexecution.UnimplementedActionCacheServer
	remoteexecution.UnimplementedContentAddressableStorageServer
	bytestream.UnimplementedByteStreamServer
}

func fullServer(t *testing.T) (address string) {
	s := grpc.NewServer()
	remoteexecution.RegisterCapabilitiesServer(s, full{})
	remoteexecution.RegisterActionCacheServer(s, full{})
	remoteexecution.RegisterContentAddressableStorageServer(s, full{})
	bytestream.RegisterByteStreamServer(s, full{})
	return serve(t, s)
}

var (
	errFull    = status.Error(codes.ResourceExhausted, "no room")
	errUnknown = status.Error(codes.NotFound, "not here")
)

func (full) GetCapabilities(context.Context, *remoteexecution.GetCapabilitiesRequest) (*remoteexecution.ServerCapabilities, error) {
	return &remoteexecution.ServerCapabilities{
		CacheCapabilities: &remoteexecution.CacheCapabilities{
			DigestFunctions:               []remoteexecution.DigestFunction_Value{remoteexecution.DigestFunction_SHA256},
			ActionCacheUpdateCapabilities: &remoteexecution.ActionCacheUpdateCapabilities{UpdateEnabled: true},
		},
		LowApiVersion: &semver.SemVer{Major: 2}, HighApiVersion: &semver.SemVer{Major: 2},
	}, nil
}

func (full) GetActionResult(context.Context, *remoteexecution.GetActionResultRequest) (*remoteexecution.ActionResult, error) {
	return nil, errUnknown
}

func (full) UpdateActionResult(context.Context, *remoteexecution.UpdateActionResultRequest) (*remoteexecution.ActionResult, error) {
	return nil, errFull
}

func (full) FindMissingBlobs(_ context.Context, r *remoteexecution.FindMissingBlobsRequest) (*remoteexecution.FindMissingBlobsResponse, error) {
	return &remoteexecution.FindMissingBlobsResponse{MissingBlobDigests: r.BlobDigests}, nil
}

func (full) BatchUpdateBlobs(context.Context, *remoteexecution.BatchUpdateBlobsRequest) (*remoteexecution.BatchUpdateBlobsResponse, error) {
	return nil, errFull
}

func (full) Read(*bytestream.ReadRequest, bytestream.ByteStream_ReadServer) error { return errUnknown }
func (full) Write(bytestream.ByteStream_WriteServer) error                        { return errFull }

func (full) QueryWriteStatus(context.Context, *bytestream.QueryWriteStatusRequest) (*bytestream.QueryWriteStatusResponse, error) {
	return nil, errFull
}
