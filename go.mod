module github.com/rules-tasting/rules_tasting

go 1.26.0

require (
	github.com/bazelbuild/buildtools v0.0.0-20260904073137-eaa4d125b423
	github.com/bazelbuild/remote-apis v0.0.0-20260908115904-76ddd98e1f92
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/go-json-experiment/json v0.0.0-20250223041408-d3c622f1b874 // later ones stand for the encoder of Go 1.27 by build tags that rules_go has not
	github.com/google/go-cmp v0.7.0
	github.com/ianlancetaylor/demangle v0.0.0-20260724033716-83e58baca724
	github.com/klauspost/compress v1.20.3
	github.com/spf13/cobra v1.10.2
	go.yaml.in/yaml/v3 v3.0.4
	golang.org/x/arch v0.32.0
	golang.org/x/sync v0.25.0
	google.golang.org/genproto/googleapis/bytestream v0.0.0-20260203192932-546029d2fa20
	google.golang.org/protobuf v1.36.11
)

require (
	cloud.google.com/go/longrunning v0.8.0
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/rogpeppe/go-internal v1.16.0
	github.com/spf13/pflag v1.0.9
	golang.org/x/net v0.47.0 // indirect
	golang.org/x/sys v0.38.0
	golang.org/x/text v0.31.0 // indirect
	golang.org/x/tools v0.38.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260203192932-546029d2fa20
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260203192932-546029d2fa20
	google.golang.org/grpc v1.76.0
)
