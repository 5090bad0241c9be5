// Package reapiproxy lets Bazel 7 talk to servers of the Remote Execution API
// that have dropped version 2.0, which is all that it speaks. It is for tests:
// buildbox-casd, the server of theirs, announces 2.1 and later.
//
// Every call is passed on as it is, message by message, without knowing the
// services. Only the answer to GetCapabilities is changed: it says that the
// lowest version is 2.0.
package reapiproxy

import (
	"context"
	"errors"
	"fmt"
	"io"

	remoteexecution "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"github.com/bazelbuild/remote-apis/build/bazel/semver"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const capabilities = "/build.bazel.remote.execution.v2.Capabilities/GetCapabilities"

// maxMessage is the size in bytes of the largest message that is passed on.
const maxMessage = 64 << 20

// raw is a codec that takes messages as bytes.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("message of type %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*b)}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("message of type %T", v)
	}
	*b = data.Materialize()
	return nil
}

// New returns a server that passes calls on to the one at target, a host and
// port without TLS. Closing is up to the caller: first the server, then the
// connection.
func New(target string) (*grpc.Server, io.Closer, error) {
	conn, err := grpc.NewClient(target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		return nil, nil, err
	}
	return grpc.NewServer(
		grpc.ForceServerCodecV2(raw{}),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.UnknownServiceHandler(func(_ any, in grpc.ServerStream) error { return pass(conn, in) }),
	), conn, nil
}

// pass passes one call on.
func pass(conn *grpc.ClientConn, in grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(in)
	if !ok {
		return status.Error(codes.Internal, "a call without a method")
	}
	ctx, cancel := context.WithCancel(in.Context())
	defer cancel()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	out, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	requests := make(chan error, 1)
	go func() {
		requests <- passRequests(in, out)
	}()
	for {
		var message []byte
		if err := out.RecvMsg(&message); err != nil {
			in.SetTrailer(out.Trailer())
			select {
			case failed := <-requests:
				if failed != nil {
					return failed
				}
			default: // the server has answered without waiting for all of them
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if method == capabilities {
			if message, err = lower(message); err != nil {
				return err
			}
		}
		if err := in.SendMsg(&message); err != nil {
			return err
		}
	}
}

// passRequests passes on what the client says, until it has said all.
func passRequests(in grpc.ServerStream, out grpc.ClientStream) error {
	for {
		var message []byte
		if err := in.RecvMsg(&message); errors.Is(err, io.EOF) {
			return out.CloseSend()
		} else if err != nil {
			return err
		}
		// io.EOF: the server has ended the call; RecvMsg tells how.
		if err := out.SendMsg(&message); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// lower makes an encoded ServerCapabilities say that version 2.0 is spoken.
func lower(message []byte) ([]byte, error) {
	c := new(remoteexecution.ServerCapabilities)
	if err := proto.Unmarshal(message, c); err != nil {
		return nil, status.Errorf(codes.Internal, "capabilities: %v", err)
	}
	c.LowApiVersion = &semver.SemVer{Major: 2}
	return proto.Marshal(c)
}
