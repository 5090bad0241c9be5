package store

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	rpccreds "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	// actionSize is the size in bytes in the digest of each action. The hash is the
	// key, and there is no action. Servers want a positive number. Some make it a
	// part of the entry's name, so it is a constant.
	actionSize = 32

	// Contents up to this size, in bytes, are moved many in one call.
	maxBatched = 1 << 20
	// The same if larger ones are compressed.
	maxBatchedCompressing = 16 << 10
	// The size of a message for servers that name none: gRPC's own limit, with
	// room for what isn't content.
	defaultBatch = 4<<20 - 64<<10
	perBlob      = 256
	chunk        = 128 << 10
	maxMessage   = 4*maxEntry + defaultBatch
)

// grpcCache is the ActionCache and the ContentAddressableStorage of the Remote
// Execution API, and ByteStream.
type grpcCache struct {
	*caller
	conn     *grpc.ClientConn
	instance string
	compress bool // if the server offers it

	mu           sync.Mutex
	capabilities *serverCapabilities
}

// serverCapabilities are the capabilities that a server reports.
type serverCapabilities struct {
	batch  int64 // bytes in a message
	zstd   bool
	update bool // of entries
	about  []string
}

func newGRPC(c *caller, p locationPart, config *tls.Config, o Options) (*grpcCache, error) {
	for _, part := range strings.Split(o.InstanceName, "/") {
		switch part {
		case "blobs", "uploads", "actions", "actionResults", "operations", "capabilities", "compressed-blobs":
			return nil, fmt.Errorf("--store_instance_name=%s: %q can't be a part of it", o.InstanceName, part)
		case "":
			if o.InstanceName != "" {
				return nil, fmt.Errorf("--store_instance_name=%s: want no empty parts", o.InstanceName)
			}
		}
	}
	transport := insecure.NewCredentials()
	if config != nil {
		transport = rpccreds.NewTLS(config)
	}
	// Connects with the first call.
	conn, err := grpc.NewClient("dns:///"+p.host,
		grpc.WithTransportCredentials(transport),
		grpc.WithUserAgent("tasting"),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstBackoff, Multiplier: 1.6, Jitter: 0.2, MaxDelay: longestBackoff},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	)
	if err != nil {
		return nil, fmt.Errorf("store %q: not an address", p)
	}
	return &grpcCache{caller: c, conn: conn, instance: o.InstanceName, compress: o.Compression}, nil
}

func (g *grpcCache) close() error { return g.conn.Close() }

func (g *grpcCache) missingIsCheap() bool { return true }

// rpc makes a call, as caller.call does, and understands its status.
func (g *grpcCache) rpc(ctx context.Context, name string, write bool, f func(context.Context) error) error {
	return g.call(ctx, name, write, func(ctx context.Context, headers []Header) error {
		for _, h := range headers {
			ctx = metadata.AppendToOutgoingContext(ctx, strings.ToLower(h.Name), string(h.Value))
		}
		err := f(ctx)
		if err == nil || IsMiss(err) {
			return err
		}
		if _, ok := errors.AsType[*callError](err); ok {
			return err
		}
		return g.statusError(name, status.Convert(err))
	})
}

func (g *grpcCache) statusError(name string, s *status.Status) error {
	again := false
	switch s.Code() {
	case codes.NotFound:
		return ErrNotFound
	case codes.Unavailable, codes.ResourceExhausted, codes.Aborted, codes.Internal, codes.Unknown:
		again = true
	}
	e := g.fail(name, s.Code().String()+": "+s.Message(), again, nil)
	e.denied = s.Code() == codes.Unauthenticated
	return e
}

// ask returns the capabilities of the server. It calls the server once.
func (g *grpcCache) ask(ctx context.Context) (*serverCapabilities, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.capabilities != nil {
		return g.capabilities, nil
	}
	var answer *repb.ServerCapabilities
	err := g.rpc(ctx, "GetCapabilities", false, func(ctx context.Context) (err error) {
		answer, err = repb.NewCapabilitiesClient(g.conn).GetCapabilities(ctx, &repb.GetCapabilitiesRequest{InstanceName: g.instance})
		if status.Code(err) == codes.Unimplemented {
			// A plain cache. Calls that it lacks fail.
			answer, err = nil, nil
		}
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return nil, g.fail("GetCapabilities", fmt.Sprintf("there is no instance %q", g.instance), false, nil)
	}
	if err != nil {
		return nil, err
	}
	if answer == nil {
		g.capabilities = &serverCapabilities{batch: defaultBatch, update: true, about: []string{"says nothing of its capabilities"}}
		return g.capabilities, nil
	}
	cache := answer.GetCacheCapabilities()
	if cache == nil {
		return nil, g.fail("GetCapabilities", "the server is no cache", false, nil)
	}
	functions := joined(cache.DigestFunctions, ", ")
	if functions != "" && !slices.Contains(cache.DigestFunctions, repb.DigestFunction_SHA256) {
		return nil, g.fail("GetCapabilities", fmt.Sprintf("the server knows digests by %s, not by SHA256", functions), false, nil)
	}
	c := &serverCapabilities{batch: defaultBatch, update: true, zstd: slices.Contains(cache.SupportedCompressors, repb.Compressor_ZSTD)}
	if n := cache.MaxBatchTotalSizeBytes; n > 0 {
		c.batch = min(n, defaultBatch)
	}
	if u := cache.ActionCacheUpdateCapabilities; u != nil {
		c.update = u.UpdateEnabled
	}
	yes := map[bool]string{true: "yes", false: "no"}
	c.about = []string{
		"digests: " + functions,
		"records results: " + yes[c.update],
		fmt.Sprintf("largest batch: %d bytes", cache.MaxBatchTotalSizeBytes),
		"zstd: " + yes[c.zstd],
	}
	if h := answer.HighApiVersion; h != nil {
		c.about = append(c.about, fmt.Sprintf("API version: %d.%d", h.Major, h.Minor))
	}
	g.capabilities = c
	return c, nil
}

func (g *grpcCache) describe(ctx context.Context) ([]string, error) {
	c, err := g.ask(ctx)
	if err != nil {
		return nil, err
	}
	return append([]string{"Remote Execution API"}, c.about...), nil
}

func (g *grpcCache) action(key Key) *repb.Digest {
	return &repb.Digest{Hash: key.String(), SizeBytes: actionSize}
}

func (g *grpcCache) entry(ctx context.Context, key Key) ([]byte, error) {
	var data []byte
	err := g.rpc(ctx, "GetActionResult "+key.String(), false, func(ctx context.Context) error {
		e, err := repb.NewActionCacheClient(g.conn).GetActionResult(ctx, &repb.GetActionResultRequest{
			InstanceName: g.instance, ActionDigest: g.action(key), DigestFunction: repb.DigestFunction_SHA256,
		})
		switch status.Code(err) {
		case codes.OK:
		case codes.DataLoss:
			return fmt.Errorf("%w: entry %s, says %s", ErrCorrupt, key, g.where)
		default:
			return err
		}
		data, err = proto.Marshal(e)
		if err != nil {
			// Not UTF-8, perhaps.
			return fmt.Errorf("%w: entry %s of %s", ErrCorrupt, key, g.where)
		}
		return nil
	})
	return data, err
}

func (g *grpcCache) setEntry(ctx context.Context, key Key, e *repb.ActionResult, _ []byte) error {
	c, err := g.ask(ctx)
	if err != nil {
		return err
	}
	name := "UpdateActionResult " + key.String()
	if !c.update {
		return g.fail(name, "the server records no results from here; --store_mode=ro only reads", false, ErrNotAllowed)
	}
	return g.withoutNotFound(name, g.rpc(ctx, name, true, func(ctx context.Context) error {
		_, err := repb.NewActionCacheClient(g.conn).UpdateActionResult(ctx, &repb.UpdateActionResultRequest{
			InstanceName: g.instance, ActionDigest: g.action(key), ActionResult: e, DigestFunction: repb.DigestFunction_SHA256,
		})
		return err
	}))
}

// withoutNotFound turns ErrNotFound, from writing, into an ordinary error: nothing was looked up.
func (g *grpcCache) withoutNotFound(name string, err error) error {
	if errors.Is(err, ErrNotFound) {
		return g.fail(name, "NotFound", false, nil)
	}
	return err
}

func (g *grpcCache) missing(ctx context.Context, digests []*repb.Digest) ([]*repb.Digest, error) {
	if len(digests) == 0 {
		return nil, nil
	}
	var missing []*repb.Digest
	err := g.rpc(ctx, "FindMissingBlobs", false, func(ctx context.Context) error {
		answer, err := repb.NewContentAddressableStorageClient(g.conn).FindMissingBlobs(ctx, &repb.FindMissingBlobsRequest{
			InstanceName: g.instance, BlobDigests: digests, DigestFunction: repb.DigestFunction_SHA256,
		})
		missing = answer.GetMissingBlobDigests()
		for _, m := range missing {
			if !slices.ContainsFunc(digests, func(d *repb.Digest) bool { return d.Hash == m.Hash }) {
				return g.fail("FindMissingBlobs", "the server answered something else", false, nil)
			}
		}
		return err
	})
	return missing, g.withoutNotFound("FindMissingBlobs", err)
}

// move moves items one by one, compressed if possible, or if they are small in groups that fit into a message.
func move[T any](ctx context.Context, g *grpcCache, items []T, size func(T) int64, group func(context.Context, []T) error, one func(context.Context, T, bool) error) error {
	if len(items) == 0 {
		return nil
	}
	c, err := g.ask(ctx)
	if err != nil {
		return err
	}
	compressed := g.compress && c.zstd
	limit := min(int64(maxBatched), c.batch-2*perBlob)
	if compressed {
		limit = min(limit, maxBatchedCompressing)
	}
	var alone []T
	var groups [][]T
	var room int64
	for _, x := range items {
		n := size(x) + perBlob
		if n > limit {
			alone = append(alone, x)
			continue
		}
		if n > room {
			groups = append(groups, nil)
			room = min(c.batch, maxBatched+perBlob) // a sign of life for each MiB
		}
		room -= n
		groups[len(groups)-1] = append(groups[len(groups)-1], x)
	}
	for _, l := range groups {
		if err := group(ctx, l); err != nil {
			return err
		}
	}
	for _, x := range alone {
		if err := one(ctx, x, compressed); err != nil {
			return err
		}
	}
	return nil
}

func (g *grpcCache) contents(ctx context.Context, sinks []*sink) error {
	return move(ctx, g, sinks, func(s *sink) int64 { return s.digest.SizeBytes }, g.readGroup, g.read)
}

func (g *grpcCache) readGroup(ctx context.Context, group []*sink) error {
	const name = "BatchReadBlobs"
	request := &repb.BatchReadBlobsRequest{InstanceName: g.instance, DigestFunction: repb.DigestFunction_SHA256}
	for _, s := range group {
		request.Digests = append(request.Digests, s.digest)
	}
	return g.asIncomplete(group[0].digest.Hash, g.rpc(ctx, name, false, func(ctx context.Context) error {
		answer, err := repb.NewContentAddressableStorageClient(g.conn).BatchReadBlobs(ctx, request)
		if err != nil {
			return err
		}
		left := map[string]*sink{}
		for _, s := range group {
			left[s.digest.Hash] = s
		}
		for _, x := range answer.Responses {
			hash := x.GetDigest().GetHash()
			s := left[hash]
			if s == nil {
				return g.fail(name, "the server answered something else", false, nil)
			}
			delete(left, hash)
			if err := status.FromProto(x.Status); err.Code() == codes.NotFound {
				return g.asIncomplete(hash, ErrNotFound)
			} else if err.Code() != codes.OK {
				return g.statusError(name, err)
			}
			if x.Compressor != repb.Compressor_IDENTITY {
				return g.fail(name, "the server compressed what it wasn't asked to", false, nil)
			}
			s.reset()
			if _, err := s.Write(x.Data); err != nil && !s.long {
				return g.fail(name, err.Error(), false, err)
			}
		}
		if len(left) > 0 {
			return g.fail(name, "the server left something out", true, nil)
		}
		return nil
	}))
}

// resource returns the name of a content for ByteStream. Prefix is empty or ends with a slash.
func (g *grpcCache) resource(d *repb.Digest, compressed bool, prefix string) string {
	if g.instance != "" {
		prefix = g.instance + "/" + prefix
	}
	kind := "blobs"
	if compressed {
		kind = "compressed-blobs/zstd"
	}
	return fmt.Sprintf("%s%s/%s/%d", prefix, kind, d.Hash, d.SizeBytes)
}

// streamReader is the data of a ByteStream.Read.
type streamReader struct {
	stream   bytestream.ByteStream_ReadClient
	patience *patience
	rest     []byte
	err      error
}

func (r *streamReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		var m *bytestream.ReadResponse
		if m, r.err = r.stream.Recv(); r.err == nil {
			r.rest = m.Data
			r.patience.progress(len(m.Data))
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (g *grpcCache) read(ctx context.Context, s *sink, compressed bool) error {
	d := s.digest
	name := "Read " + d.Hash
	return g.asIncomplete(d.Hash, g.rpc(ctx, name, false, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx) // ends a stream that isn't read to its end
		defer cancel()
		stream, err := bytestream.NewByteStreamClient(g.conn).Read(ctx, &bytestream.ReadRequest{ResourceName: g.resource(d, compressed, "")})
		if err != nil {
			return err
		}
		in := &streamReader{stream: stream, patience: g.patience}
		var from io.Reader = in
		if compressed {
			z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(32<<20))
			if err != nil {
				return g.fail(name, err.Error(), false, err)
			}
			defer z.Close()
			from = z
		}
		s.reset()
		_, err = io.Copy(s, from)
		switch {
		case err == nil || s.long:
			return nil
		case s.err != nil:
			return g.fail(name, s.err.Error(), false, s.err)
		case in.err != nil && in.err != io.EOF:
			return in.err
		}
		// The server is done, but the decoder isn't.
		return fmt.Errorf("%w: blob %s of %s: %v", ErrCorrupt, d.Hash, g.where, err)
	}))
}

func (g *grpcCache) upload(ctx context.Context, blobs []blob) error {
	return move(ctx, g, blobs, func(b blob) int64 { return b.digest.SizeBytes }, g.writeGroup, g.write)
}

func (g *grpcCache) writeGroup(ctx context.Context, group []blob) error {
	const name = "BatchUpdateBlobs"
	request := &repb.BatchUpdateBlobsRequest{InstanceName: g.instance, DigestFunction: repb.DigestFunction_SHA256}
	for _, b := range group {
		data, err := io.ReadAll(io.NewSectionReader(b.content, 0, b.digest.SizeBytes))
		if err != nil {
			return err
		}
		request.Requests = append(request.Requests, &repb.BatchUpdateBlobsRequest_Request{Digest: b.digest, Data: data})
	}
	return g.withoutNotFound(name, g.rpc(ctx, name, true, func(ctx context.Context) error {
		answer, err := repb.NewContentAddressableStorageClient(g.conn).BatchUpdateBlobs(ctx, request)
		if err != nil {
			return err
		}
		done := map[string]bool{}
		for _, x := range answer.Responses {
			if s := status.FromProto(x.Status); s.Code() != codes.OK {
				return g.statusError(name, s)
			}
			done[x.GetDigest().GetHash()] = true
		}
		for _, b := range group {
			if !done[b.digest.Hash] {
				return g.fail(name, "the server left something out", true, nil)
			}
		}
		return nil
	}))
}

// streamWriter is an io.Writer that sends a ByteStream.Write.
type streamWriter struct {
	stream   bytestream.ByteStream_WriteClient
	patience *patience
	name     string
	buffer   []byte
	offset   int64
}

func (w *streamWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		k := min(len(p), chunk-len(w.buffer))
		w.buffer = append(w.buffer, p[:k]...)
		p = p[k:]
		if len(w.buffer) == chunk {
			if err := w.send(false); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (w *streamWriter) send(finish bool) error {
	err := w.stream.Send(&bytestream.WriteRequest{ResourceName: w.name, WriteOffset: w.offset, FinishWrite: finish, Data: w.buffer})
	w.offset += int64(len(w.buffer))
	w.patience.progress(len(w.buffer))
	w.buffer = make([]byte, 0, chunk)
	w.name = "" // only with the first message
	return err
}

func (g *grpcCache) write(ctx context.Context, b blob, compressed bool) error {
	name := "Write " + b.digest.Hash
	return g.withoutNotFound(name, g.rpc(ctx, name, true, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := bytestream.NewByteStreamClient(g.conn).Write(ctx)
		if err != nil {
			return err
		}
		out := &streamWriter{stream: stream, patience: g.patience, name: g.resource(b.digest, compressed, "uploads/"+newUUID()+"/")}
		content := io.NewSectionReader(b.content, 0, b.digest.SizeBytes)
		if compressed {
			z, zerr := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1))
			if zerr != nil {
				return g.fail(name, zerr.Error(), false, zerr)
			}
			_, err = io.Copy(z, content)
			if err == nil {
				err = z.Close()
			}
		} else {
			_, err = io.Copy(out, content)
		}
		if err == nil {
			err = out.send(true)
		}
		// io.EOF: the server has ended the stream; it has the content, or says
		// why it doesn't want it.
		early := errors.Is(err, io.EOF)
		if err != nil && !early {
			return err
		}
		answer, err := stream.CloseAndRecv()
		if err != nil {
			return err
		}
		if n := answer.CommittedSize; n != b.digest.SizeBytes && !(compressed && (n == -1 || n == out.offset)) {
			return g.fail(name, fmt.Sprintf("the server took %d of %d bytes", n, b.digest.SizeBytes), true, nil)
		}
		return nil
	}))
}

// newUUID returns a random UUID (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
