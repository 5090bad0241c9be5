//go:build tools

// Package deps keeps in go.mod's direct requirements what the repositories of
// extensions.bzl need: Bazel lets them see this module's dependencies only.
package deps

import (
	_ "cloud.google.com/go/longrunning/autogen/longrunningpb"
	_ "google.golang.org/genproto/googleapis/api/annotations"
	_ "google.golang.org/genproto/googleapis/rpc/status"
	_ "google.golang.org/grpc"
)
